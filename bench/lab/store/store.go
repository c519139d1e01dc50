// Package store measures pages stored in WARC files by package warc, beside gzip of level 6.
//
//	go run ./bench/lab store
//
// Pages of four kinds (received in gzip, as they are, errors, redirects) go through package warc to a directory, as in a crawl: request,
// response, metadata and an index line each. Beside it are the digests of a page alone, as the floor, and the same records, made before,
// by the standard library's gzip at level 6. All that ours has written is verified.
//
// # Checks
//
// CPU of a page that came compressed; no record damaged, none more or fewer than stored.
//
// # Concurrency and memory
//
// Measure keeps its goroutine on one thread. 256 pages of each kind are held in RAM and stored round and round. Files lie in directories
// of their own, which are removed.
package store

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/bench/report"
	"drumbeat/disk"
	"drumbeat/warc"
)

// Options are what is measured, and flags of command lab.
type Options struct {
	Dir         []string      `placeholder:"DIR" required:"" help:"Directory for the files, which are removed at the end. Repeat it for several disks."`
	Corpus      []string      `placeholder:"DIR" help:"Directory with HTML files, looked at to the bottom: 256 of all are the pages. Repeatable. Default: made pages."`
	Pages       measure.Count `placeholder:"N" help:"Pages of one measurement. Default: 50000, or 6000 with --quick."`
	Repeat      int           `placeholder:"N" help:"How often all is measured. Default: 5, or 3 with --quick."`
	Level       int           `placeholder:"N" default:"1" help:"Level of compression of what doesn't come compressed, 1 to 9."`
	BlockDigest bool          `help:"Give response records a digest of the whole block, too, beside that of the payload: a second SHA-1 over the body."`
	Seed        uint64        `placeholder:"N" default:"1" help:"Seed of the made pages."`
	Quick       bool          `help:"End within 30 s: fewer pages."`
}

// storeMicros is the target for a page that came compressed, in microseconds of CPU.
const storeMicros = 10

const (
	storeBatch = 32 // captures that are prepared, and then appended, between two looks at the clock
	// storeRivalShare is the part of the pages that the baseline stores: it takes some 50 times as long.
	storeRivalShare = 25
	mostStorePages  = 10_000_000
)

// Validate fills in defaults and returns all faults, joined.
func (o *Options) Validate() error {
	measure.Default(&o.Pages, measure.Quick(o.Quick, measure.Count(6000), 50_000))
	measure.Default(&o.Repeat, measure.Quick(o.Quick, 3, 5))
	measure.Default(&o.Level, 1)
	var faults []error
	fault := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("bench: store: "+format, args...))
		}
	}
	fault(len(o.Dir) > 0, "no directory")
	fault(o.Pages >= storeRivalShare && o.Pages <= mostStorePages, "%d pages, want %d to %d", o.Pages, storeRivalShare, mostStorePages)
	fault(o.Repeat > 0 && o.Repeat <= 1000, "%d repeats, want 1 to 1000", o.Repeat)
	fault(o.Level > 0 && o.Level <= 9, "level %d, want 1 to 9", o.Level)
	return errors.Join(faults...)
}

// The kinds of responses that are stored.
const (
	storeGzip     = "gzip"     // HTML that came compressed, in chunks
	storeIdentity = "identity" // HTML that came as it is
	storeError    = "error"    // 404 with a few hundred bytes
	storeRedirect = "redirect"
)

var storeKinds = []string{storeGzip, storeIdentity, storeError, storeRedirect}

// Ways of storing.
const (
	wayOurs  = "ours"
	wayLevel = "gzip-6" // all text through the standard library at level 6
	wayFloor = "digests"
)

// storeMeasure is one measurement.
type storeMeasure struct {
	pages             int64
	raw               int64         // bytes of heads and bodies as received
	prepare, append   time.Duration // CPU of the thread
	cpu, wall         time.Duration // of the process, both together
	sync, syncCPU     time.Duration
	disk, index       int64 // bytes
	writes            int64
	allocs, allocated uint64
}

func (m *storeMeasure) micros(d time.Duration) float64 {
	return float64(d.Nanoseconds()) / 1e3 / float64(m.pages)
}
func (m *storeMeasure) per(n int64) float64 { return float64(n) / float64(m.pages) }

// storeRun is what Measure has measured.
type storeRun struct {
	opt      *Options
	progress func(string)
	pages    map[string]*storePages
	measures map[string]map[string][]*storeMeasure // kind, way
	verified warc.Verified
	damages  []error
	wrong    int64 // captures that aren't in the files as they were stored
}

// Measure stores pages of each kind by package warc as a crawl does, and by a baseline, and verifies what was written.
func (o *Options) Measure(ctx context.Context, progress func(string)) (_ *report.Report, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	rep := report.New("store", "The page store: CPU, bytes and writes of a page")
	r := &storeRun{opt: o, progress: progress, measures: map[string]map[string][]*storeMeasure{}}
	progress("pages")
	if r.pages, err = newStorePages(ctx, o); err != nil {
		return nil, err
	}
	most := int64(0)
	for _, p := range r.pages {
		most = max(most, 2*int64(o.Pages)*int64(p.meanRaw()+4000))
	}
	scratch, err := measure.NewScratch("store", o.Dir, most)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scratch.Remove()) }()
	runtime.LockOSThread() // CPU is that of the thread
	defer runtime.UnlockOSThread()
	for n := range o.Repeat {
		for _, kind := range storeKinds {
			progress(fmt.Sprintf("%s, %d of %d", kind, n+1, o.Repeat))
			if err := r.repeat(ctx, scratch, kind, n == 0); err != nil {
				return nil, fmt.Errorf("bench: store: %s: %w", kind, err)
			}
		}
	}
	r.report(rep)
	return rep, nil
}

// repeat measures every way to store one kind.
func (r *storeRun) repeat(ctx context.Context, scratch *measure.Scratch, kind string, verify bool) error {
	set, err := scratch.Set()
	if err != nil {
		return err
	}
	add := func(way string, m *storeMeasure) {
		if r.measures[kind] == nil {
			r.measures[kind] = map[string][]*storeMeasure{}
		}
		r.measures[kind][way] = append(r.measures[kind][way], m)
	}
	m, err := r.ours(ctx, set, r.pages[kind], verify)
	if err != nil {
		return err
	}
	add(wayOurs, m)
	add(wayFloor, r.floor(r.pages[kind]))
	if set, err = scratch.Set(); err != nil {
		return err
	}
	m, err = r.baseline(ctx, set, r.pages[kind])
	if err != nil {
		return err
	}
	add(wayLevel, m)
	return nil
}

// ours stores through package warc.
func (r *storeRun) ours(ctx context.Context, set disk.Set, p *storePages, verify bool) (m *storeMeasure, err error) {
	meter := disk.NewMeter(set.FS)
	set.FS = meter
	opt := warc.Options{Set: set, State: set, Level: r.opt.Level, Host: "bench", BlockDigest: r.opt.BlockDigest}
	w, err := warc.Open(opt, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	enc := w.NewEncoder()
	batch := make([]warc.Prepared, storeBatch)
	for i := range batch { // the first captures take the memory
		for k := range p.exchanges {
			if k%storeBatch == i {
				err = errors.Join(err, enc.Prepare(&batch[i], &p.exchanges[k]))
			}
		}
	}
	if _, again := w.Append(&batch[0], time.Now()); err != nil || again != nil {
		return nil, errors.Join(err, again)
	}
	m = &storeMeasure{}
	runtime.GC()
	writes := meter.Counts().Writes
	heap := measure.Heap()
	cpu, wall := measure.CPUTime(), time.Now()
	for m.pages < int64(r.opt.Pages) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		now, t0 := time.Now(), measure.ThreadTime()
		for i := range batch {
			x := &p.exchanges[(int(m.pages)+i)%len(p.exchanges)]
			if err := enc.Prepare(&batch[i], x); err != nil {
				return nil, err
			}
			m.raw += int64(len(x.Head) + len(x.Body))
		}
		t1 := measure.ThreadTime()
		for i := range batch {
			if _, err := w.Append(&batch[i], now); err != nil {
				return nil, err
			}
		}
		m.prepare += t1 - t0
		m.append += measure.ThreadTime() - t1
		m.pages += storeBatch
	}
	m.cpu, m.wall = measure.CPUTime()-cpu, time.Since(wall)
	m.allocs, m.allocated = heap()
	m.writes = meter.Counts().Writes - writes
	counts := w.Counts()
	m.disk, m.index = counts.Bytes, counts.IndexBytes
	return m, r.finish(w, opt, m, verify)
}

// finish makes the files final and durable, and verifies them.
func (r *storeRun) finish(w *warc.Writer, opt warc.Options, m *storeMeasure, verify bool) error {
	if err := w.Roll(); err != nil {
		return err
	}
	cpu, wall := measure.CPUTime(), time.Now()
	for _, dir := range opt.Set.Paths {
		if err := opt.Set.FS.SyncFS(dir); err != nil {
			return err
		}
	}
	m.sync, m.syncCPU = time.Since(wall), measure.CPUTime()-cpu
	tails, err := disk.CreateTails(opt.State, 1)
	if err != nil {
		return err
	}
	frozen := w.Freeze()
	st, err := frozen.Save(tails)
	if err := errors.Join(err, tails.Close()); err != nil {
		return err
	}
	if err := frozen.Commit(); err != nil || !verify {
		return err
	}
	r.progress("verifying")
	sum, err := warc.VerifyFiles(opt, st, warc.Verify{Damaged: func(err error) error {
		r.damages = append(r.damages, err)
		return nil
	}})
	if err != nil {
		return err
	}
	r.verified.Captures += sum.Captures
	r.verified.Records += sum.Records
	r.verified.Lines += sum.Lines
	r.verified.Bytes += sum.Bytes
	r.wrong += max(m.pages+1-sum.Captures, sum.Captures-m.pages-1) + max(m.pages+1-sum.Lines, sum.Lines-m.pages-1)
	return nil
}

// floor takes the digests that a page has, and nothing else: a SHA-1 over the body, or two, and a CRC-32.
func (r *storeRun) floor(p *storePages) *storeMeasure {
	m := &storeMeasure{}
	began, sum := measure.ThreadTime(), byte(0)
	for ; m.pages < int64(r.opt.Pages); m.pages++ {
		body := p.exchanges[int(m.pages)%len(p.exchanges)].Body
		payload := sha1.Sum(body)
		sum += payload[0] ^ byte(crc32.ChecksumIEEE(body))
		if r.opt.BlockDigest {
			payload = sha1.Sum(body)
			sum += payload[1]
		}
		m.raw += int64(len(body))
	}
	m.prepare = measure.ThreadTime() - began
	m.cpu = m.prepare
	if sum == 1 { // the sum is used
		m.wall++
	}
	return m
}
