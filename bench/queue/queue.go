package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	benchdisk "drumbeat/bench/disk"
	"drumbeat/bench/measure"
	"drumbeat/bench/result"
)

// Options holds the parameters of Measure. The fields are flags of command bench. A zero means the default.
type Options struct {
	Dirs       []string `name:"dir" placeholder:"DIR" required:""`
	Bytes      int64    `name:"size" type:"size" placeholder:"SIZE"`
	BlockBytes int      `name:"block" type:"size" placeholder:"SIZE" default:"256KiB"`
	Appenders  int      `type:"count" placeholder:"N"`
	Queues     int      `type:"count" placeholder:"N" default:"64"`
	Repeats    int      `name:"repeat" type:"count" placeholder:"N"`
	Seed       uint64   `type:"count" placeholder:"N" default:"1"`
	Quick      bool
	progress   func(what string)
}

// The targets: share of the disk's bandwidth, and bytes on disk per queued URL.
const (
	queueShare    = 0.8
	queueURLBytes = 35
)

// Bounds of the options: a block must hold several records, and a measurement several blocks.
const (
	leastQueueBlock = 4 << 10
	mostQueueBlock  = 4 << 20
)

// recordBytes is the length of incompressible records.
const recordBytes = 100

// Complete fills in defaults and returns all faults, joined.
func (b *Options) Complete() error {
	measure.Default(&b.Bytes, measure.Quick[int64](b.Quick, 64<<20, 1<<30))
	measure.Default(&b.Seed, 1)
	measure.Default(&b.BlockBytes, 256<<10)
	measure.Default(&b.Appenders, max(2, runtime.GOMAXPROCS(0)))
	measure.Default(&b.Queues, 64)
	measure.Default(&b.Repeats, measure.Quick(b.Quick, 1, 3))
	need, faults := measure.Faults("queue")
	need(len(b.Dirs) > 0, "--dir: want at least one directory")
	for i, dir := range b.Dirs {
		need(!slices.Contains(b.Dirs[:i], dir), "--dir %s is given twice", dir)
	}
	need(b.BlockBytes >= leastQueueBlock && b.BlockBytes <= mostQueueBlock && b.BlockBytes%blockAlign == 0,
		"--block %s: want a multiple of %s from %s to %s", result.BinaryBytes(b.BlockBytes),
		result.BinaryBytes(blockAlign), result.BinaryBytes(leastQueueBlock), result.BinaryBytes(mostQueueBlock))
	need(b.Bytes >= 2*int64(b.BlockBytes), "--size %s: want at least two blocks (--block %s)",
		result.BinaryBytes(int(b.Bytes)), result.BinaryBytes(b.BlockBytes))
	need(b.Appenders >= 1 && b.Appenders <= 1000, "--appenders %d: want 1 to 1,000", b.Appenders)
	need(b.Queues >= 1 && b.Queues <= 10000, "--queues %d: want 1 to 10,000", b.Queues)
	need(b.Repeats >= 1 && b.Repeats <= 100, "--repeat %d: want 1 to 100", b.Repeats)
	return faults()
}

// The operations that are measured.
const (
	opAppend   = "append"
	kindURL    = "url"
	kindRandom = "random"
)

// queueWay is one kind of measurement.
type queueWay struct {
	op, kind          string
	record, block     int // bytes; record is 0 for URLs
	appenders, queues int
}

// queueSample is one repeat of a measurement.
type queueSample struct {
	records, raw, stored int64
	span, cpu            time.Duration
	disk                 float64 // bytes/s of the disk in chunks of the same size; NaN if not measured
	inRAM                float64 // share of the records that are in tail buffers, not on disk
	rss                  int64   // peak above the RSS with the generator's records
	wrong                int64   // records lost, doubled, reordered or changed
}

// queueMeasure holds all repeats of one kind.
type queueMeasure struct {
	queueWay
	samples []queueSample
}

// of computes a figure for every repeat.
func (m *queueMeasure) of(f func(s queueSample) float64) result.Sample {
	return result.Of(m.samples, f)
}

// Figures of a sample.
func (s queueSample) rawRate() float64     { return float64(s.raw) / s.span.Seconds() }
func (s queueSample) storedRate() float64  { return float64(s.stored) / s.span.Seconds() }
func (s queueSample) storedShare() float64 { return s.storedRate() / s.disk }
func (s queueSample) rawShare() float64    { return s.rawRate() / s.disk }
func (s queueSample) cpuNanos() float64    { return float64(s.cpu) / float64(s.records) }
func (s queueSample) nanos() float64       { return float64(s.span) / float64(s.records) }

// perRecord returns the bytes on disk per record in a block, or 0 if there are none.
func (s queueSample) perRecord() float64 {
	if s.stored == 0 || s.inRAM >= 1 {
		return 0
	}
	return float64(s.stored) / (float64(s.records) * (1 - s.inRAM))
}

// ratio returns the compression ratio, or 0 if no record is in a block.
func (s queueSample) ratio() float64 {
	if s.perRecord() == 0 {
		return 0
	}
	return s.rawPerRecord() / s.perRecord()
}
func (s queueSample) rawPerRecord() float64 { return float64(s.raw) / float64(s.records) }

// blockAlign is the alignment of lengths that O_DIRECT may require.
const blockAlign = 4096

// queueRun is a running measurement and its results.
type queueRun struct {
	opt      Options
	scratch  *measure.Scratch
	probe    *benchdisk.Probe
	urls     *queueRecords
	random   *queueRecords
	measures []*queueMeasure       // in order of the first measurement
	disk     map[diskKey][]float64 // bytes/s of all repeats
	notes    []string
	base     int64 // RSS before the first queue
}

// diskKey is a measurement of the bare disk.
type diskKey struct {
	op     string
	chunk  int
	direct bool
}

// Measure checks ctx about every thousand records. It leaves nothing on disk.
func (b Options) Measure(ctx context.Context, progress func(what string)) (_ *result.Report, err error) {
	if err := b.Complete(); err != nil {
		return nil, err
	}
	b.progress = progress
	rep := result.New("queue",
		"Queues on disk: appends and reads compared with the bare disk, bytes per queued URL")
	r := &queueRun{opt: b, disk: map[diskKey][]float64{}}
	if r.scratch, err = measure.NewScratch("queue", b.Dirs, 2*b.Bytes); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.scratch.Remove()) }()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	defer r.probe.Close()
	for repeat := range b.Repeats {
		if err := r.repeat(ctx, repeat); err != nil {
			return nil, err
		}
	}
	r.report(rep)
	return rep, nil
}

// prepare makes the records and checks the directories.
func (r *queueRun) prepare(ctx context.Context) (err error) {
	b := r.opt
	r.opt.progress("generate records")
	if r.urls, err = urlRecords(ctx, b); err != nil {
		return err
	}
	r.random = randomRecords(b.Seed, recordBytes, b.pool(randomPool))
	if r.probe, err = benchdisk.NewProbe(b.Dirs, b.BlockBytes); err != nil {
		return err
	}
	r.notes = r.probe.Notes
	r.base = measure.RestingRSS()
	return nil
}

// repeat measures everything once.
func (r *queueRun) repeat(ctx context.Context, repeat int) error {
	b := r.opt
	said := fmt.Sprintf("repeat %d of %d: ", repeat+1, b.Repeats)
	step := func(what string, do func() error) error {
		b.progress(said + what)
		return do()
	}
	var steps []error
	add := func(what string, do func() error) {
		if len(steps) == 0 || steps[len(steps)-1] == nil {
			steps = append(steps, step(what, do))
		}
	}
	add("the bare disk", func() error { return r.measureDisk(ctx, b.BlockBytes) })
	plain := queueWay{kind: kindRandom, record: recordBytes, block: b.BlockBytes, appenders: 1, queues: 1}
	urls := queueWay{kind: kindURL, block: b.BlockBytes, appenders: 1, queues: 1}
	add("incompressible records", func() error { return r.appendRead(ctx, plain) })
	add("URLs", func() error { return r.appendRead(ctx, urls) })
	many := urls
	many.appenders = b.Appenders
	if b.Appenders > 1 {
		add(fmt.Sprintf("%d appenders", b.Appenders), func() error { return r.appendRead(ctx, many) })
	}
	turns := urls
	turns.queues = b.Queues
	add(fmt.Sprintf("%d queues", b.Queues), func() error { return r.appendRead(ctx, turns) })
	return steps[len(steps)-1]
}

// measureDisk moves the bytes of a measurement on the bare disk in chunks, with and without the page cache.
func (r *queueRun) measureDisk(ctx context.Context, chunk int) error {
	ops := []string{benchdisk.Write, benchdisk.Read}
	for _, direct := range []bool{false, true} {
		if direct && !r.probe.Direct {
			continue
		}
		rates, err := r.probe.Rates(ctx, ops, chunk, r.opt.Bytes, direct)
		if err != nil {
			return err
		}
		for i, op := range ops {
			k := diskKey{op, chunk, direct}
			r.disk[k] = append(r.disk[k], rates[i])
		}
	}
	return nil
}

// diskRate returns the disk's speed in this repeat: the higher of with and without the page cache.
func (r *queueRun) diskRate(op string, chunk int) float64 {
	best := 0.0
	for _, direct := range []bool{false, true} {
		if rates := r.disk[diskKey{op, chunk, direct}]; len(rates) > 0 {
			best = max(best, rates[len(rates)-1])
		}
	}
	return best
}

// measure finds or creates the entry of a kind of measurement.
func (r *queueRun) measure(way queueWay) *queueMeasure {
	for _, m := range r.measures {
		if m.queueWay == way {
			return m
		}
	}
	m := &queueMeasure{queueWay: way}
	r.measures = append(r.measures, m)
	return m
}
