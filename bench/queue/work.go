package queue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	stdsync "sync"
	"time"

	benchdisk "drumbeat/bench/disk"
	"drumbeat/bench/links"
	"drumbeat/bench/measure"
	"drumbeat/disk"
	"drumbeat/internal/cputime"
	"drumbeat/queue"
	"drumbeat/weburl"
)

// The records are made in advance and used cyclically. The pool is larger than a block, so a block never
// holds a record twice.
const (
	urlPool    = 24 << 20
	randomPool = 8 << 20
	// runLength is the number of consecutive records for one queue or slot: BEAST's default budget.
	runLength = 10
	// checkEvery is the number of records between two checks of the context.
	checkEvery = 1 << 10
)

// queueRecords are distinct records to append.
type queueRecords struct {
	data []byte
	ends []int
	text int64 // bytes of the URLs in them
}

func (p *queueRecords) add(rec []byte) {
	p.data = append(p.data, rec...)
	p.ends = append(p.ends, len(p.data))
}

// at returns record number i, modulo their number.
func (p *queueRecords) at(i int) []byte {
	i %= len(p.ends)
	if i == 0 {
		return p.data[:p.ends[0]]
	}
	return p.data[p.ends[i-1]:p.ends[i]]
}

// framed returns the mean length of a record with its length prefix.
func (p *queueRecords) framed() float64 {
	long := 0
	for i := range p.ends {
		if len(p.at(i)) >= 0x80 {
			long++
		}
	}
	return p.mean() + 1 + float64(long)/float64(len(p.ends))
}

// mean returns the mean length of a record.
func (p *queueRecords) mean() float64 { return float64(len(p.data)) / float64(len(p.ends)) }

// pool returns the bytes of records to make: those of a measurement, at most most, but more than a block
// holds.
func (b *Options) pool(most int64) int { return int(max(min(most, b.Bytes), 2*int64(b.BlockBytes))) }

// randomRecords returns incompressible records.
func randomRecords(seed uint64, size, pool int) *queueRecords {
	rng := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24), byte(size),
		byte(size >> 8)})
	p := &queueRecords{}
	rec := make([]byte, size)
	for len(p.data) < pool {
		_, _ = rng.Read(rec) // never fails
		p.add(rec)
	}
	return p
}

// urlRecords returns records like those that the crawl queues: new URLs in order of arrival, with the URL
// of their page, depth, time in seconds and a budget. The links of a page share these.
func urlRecords(ctx context.Context, b Options) (*queueRecords, error) {
	p, pool := &queueRecords{}, b.pool(urlPool)
	rng := rand.New(rand.NewPCG(b.Seed, 3))
	pages := 0
	var rec weburl.Record
	var buf []byte
	var via []byte
	page := func(url []byte) { // a link of the page serves as its own URL: most are on the same site
		pages++
		via = append(via[:0], url...)
		rec = weburl.Record{Depth: uint16(3 + rng.IntN(6)), Found: 1_800_000_000 + int64(pages/1000), Budget: 10}
	}
	add := func(url []byte) {
		rec.URL = url
		rec.SetVia(via, 0)
		buf = rec.Append(buf[:0])
		p.add(buf)
		p.text += int64(len(url))
	}
	s, err := links.New(links.Options{Seed: b.Seed})
	if err != nil {
		return nil, err
	}
	var batch links.Batch
	for len(p.data) < pool {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.Next(&batch, 59)
		page(batch.Texts[0])
		for i, fresh := range batch.Fresh {
			if fresh {
				add(batch.Texts[i])
			}
		}
	}
	return p, nil
}

// queueRig is a set of queues for one measurement.
type queueRig struct {
	r      *queueRun
	way    queueWay
	recs   *queueRecords
	n      int // records in one measurement
	meter  *disk.Meter
	set    disk.Set
	queues []*queue.Queue
	inRAM  int64 // bytes of records in tail buffers, after the append
}

// rig creates new directories and opens the queues.
func (r *queueRun) rig(way queueWay) (*queueRig, error) {
	set, err := r.scratch.Set()
	if err != nil {
		return nil, err
	}
	g := &queueRig{r: r, way: way, recs: r.urls, meter: disk.NewMeter(disk.OS())}
	if way.kind == kindRandom {
		g.recs = r.random
	}
	g.n = max(1, int(float64(r.opt.Bytes)/g.recs.mean()))
	g.set = disk.Set{FS: g.meter, Paths: set.Paths}
	pool := new(queue.Pool)
	for i := range way.queues {
		q, err := queue.New(queue.Options{Set: g.set, Name: fmt.Sprintf("bench/%d", i),
			BlockBytes: way.block, Pool: pool})
		if err != nil {
			return nil, err
		}
		g.queues = append(g.queues, q)
	}
	runtime.GC() // free the previous rig
	return g, nil
}

// measured runs one timed measurement of n records and adds it to the samples of its kind. The caller may
// complete the sample before the next measurement.
func (g *queueRig) measured(op string, n int, do func() (wrong int64, err error)) (*queueSample, error) {
	way := g.way
	way.op = op
	measure.ResetPeakRSS()
	before := g.meter.Counts()
	cpu, start := cputime.Process(), time.Now()
	wrong, err := do()
	s := queueSample{records: int64(n), span: time.Since(start), cpu: cputime.Process() - cpu, wrong: wrong}
	if err != nil {
		return nil, err
	}
	after := g.meter.Counts()
	s.raw = int64(float64(n) * g.recs.mean())
	s.inRAM = float64(g.inRAM) / (float64(n) * g.recs.framed())
	s.stored = after.WrittenBytes - before.WrittenBytes + after.ReadBytes - before.ReadBytes
	s.rss = measure.PeakSince(g.r.base)
	s.disk = g.r.diskRate(map[string]string{opAppend: benchdisk.Write, benchdisk.Read: benchdisk.Read}[op],
		g.r.opt.BlockBytes)
	m := g.r.measure(way)
	m.samples = append(m.samples, s)
	return &m.samples[len(m.samples)-1], nil
}

// place returns the queue of record i; index returns the number of the j-th record of queue k.
func (w queueWay) place(i int) int    { return i / runLength % w.queues }
func (w queueWay) index(k, j int) int { return (j/runLength*w.queues+k)*runLength + j%runLength }

// share returns the part of the pool for appender a, as [from, to).
func (g *queueRig) share(a int) (from, to int) {
	n := len(g.recs.ends)
	return a * n / g.way.appenders, (a + 1) * n / g.way.appenders
}

// appendAll appends n records from number first on, with all appenders, and makes them durable.
func (g *queueRig) appendAll(ctx context.Context, first, n int) error {
	errs := make([]error, g.way.appenders)
	var wg stdsync.WaitGroup
	for a := range g.way.appenders {
		wg.Go(func() { errs[a] = g.appendShare(ctx, a, first, n) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return g.eachFile(syncFile)
}

// appendShare is the work of one appender: every appenders-th record, from its own part of the pool if
// there are several.
func (g *queueRig) appendShare(ctx context.Context, a, first, n int) error {
	from, to := g.share(a)
	at := first + from
	for i := first + a; i < first+n; i += g.way.appenders {
		if i%checkEvery < g.way.appenders {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		rec := g.recs.at(at)
		if at++; g.way.appenders > 1 && at == to {
			at = from
		}
		if err := g.queues[g.way.place(i)].Append(rec); err != nil {
			return err
		}
	}
	return nil
}

// syncFile makes a file durable. The queues' tails stay in RAM, as between checkpoints.
func syncFile(name string) error {
	f, err := disk.OS().Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// eachFile calls fn for every file of the queues.
func (g *queueRig) eachFile(fn func(name string) error) error {
	for _, p := range g.set.Paths {
		err := filepath.WalkDir(p, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			return fn(name)
		})
		if err != nil {
			return fmt.Errorf("bench: queue: %w", err)
		}
	}
	return nil
}

// readAll reads n records, compares each with the appended one, and returns the number that differ or are
// missing. With several appenders the records of each appender must be in order.
func (g *queueRig) readAll(ctx context.Context, first, n int) (wrong int64, err error) {
	if g.way.appenders > 1 {
		return g.readMany(ctx, n)
	}
	read := 0
	for k, q := range g.queues {
		for j := 0; ; j++ {
			i := first + g.way.index(k, j)
			if i >= first+n {
				break
			}
			rec, ok, err := q.Peek()
			if err != nil {
				return wrong, err
			}
			if !ok {
				break
			}
			if string(rec) != string(g.recs.at(i)) {
				wrong++
			}
			q.Advance()
			if read++; read%checkEvery == 0 {
				if err := ctx.Err(); err != nil {
					return wrong, err
				}
			}
		}
	}
	return wrong + int64(n-read), nil
}

// readMany is readAll for one queue with several appenders.
func (g *queueRig) readMany(ctx context.Context, n int) (wrong int64, err error) {
	next := make([]int, g.way.appenders)
	for a := range next {
		next[a], _ = g.share(a)
	}
	last := 0
	for read := range n {
		if read%checkEvery == 0 {
			if err := ctx.Err(); err != nil {
				return wrong, err
			}
		}
		rec, ok, err := g.queues[0].Peek()
		if err != nil || !ok {
			return wrong + int64(n-read), err
		}
		whose := -1
		for k := range next {
			a := (last + k) % len(next)
			if string(rec) == string(g.recs.at(next[a])) {
				whose = a
				break
			}
		}
		g.queues[0].Advance()
		if whose < 0 {
			wrong++
			continue
		}
		last = whose
		from, to := g.share(whose)
		if next[whose]++; next[whose] == to {
			next[whose] = from
		}
	}
	return wrong, nil
}

// left counts the remaining records.
func (g *queueRig) left() (left int64) {
	for _, q := range g.queues {
		n, _ := q.Len()
		left += n
	}
	return left
}

// appendRead appends all records, makes them durable, drops them from the page cache and reads them.
func (r *queueRun) appendRead(ctx context.Context, way queueWay) error {
	g, err := r.rig(way)
	if err != nil {
		return err
	}
	s, err := g.measured(opAppend, g.n, func() (int64, error) { return 0, g.appendAll(ctx, 0, g.n) })
	if err != nil {
		return err
	}
	if err := errors.Join(g.countTails(s), g.eachFile(measure.DropPages)); err != nil {
		return err
	}
	_, err = g.measured(benchdisk.Read, g.n, func() (int64, error) {
		wrong, err := g.readAll(ctx, 0, g.n)
		return wrong + g.left(), err
	})
	return err
}

// countTails makes a checkpoint to count the records in RAM, for the append that gave s and for later
// measurements.
func (g *queueRig) countTails(s *queueSample) error {
	tails, err := disk.CreateTails(g.set, 1)
	if err != nil {
		return err
	}
	if g.inRAM, err = g.saveQueues(tails); err != nil {
		return errors.Join(err, tails.Close())
	}
	s.inRAM = float64(g.inRAM) / (float64(s.records) * g.recs.framed())
	return errors.Join(tails.Close(), disk.RemoveTails(g.set, func(uint64) bool { return false }))
}

func (g *queueRig) saveQueues(tails *disk.Tails) (inRAM int64, err error) {
	for _, q := range g.queues {
		f := q.Freeze()
		st, err := f.Save(tails)
		if err != nil {
			return 0, err
		}
		inRAM += st.Tail.Len
		if err := f.Commit(); err != nil {
			return 0, err
		}
	}
	return inRAM, nil
}
