package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"path"
	"slices"
	"strconv"
	gosync "sync"
	"sync/atomic"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/bench/result"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/human"
)

// Options holds the parameters of Measure: a store with full bucket buffers, checkpointed while tuples come
// in. The fields are flags of command bench. A zero means the default.
type Options struct {
	Dirs        []string      `name:"dir" placeholder:"DIR" required:""`
	BufferBytes int64         `name:"buffers" type:"size" placeholder:"SIZE"`
	Buckets     int           `type:"count" placeholder:"N"`
	Count       int           `type:"count" placeholder:"N"`
	Every       time.Duration `placeholder:"DURATION"`
	Rate        int           `type:"count" placeholder:"N" default:"100000"`
	Quick       bool
	progress    func(what string)
}

// Value and aux of a tuple, chosen so that both buffers of a bucket fill at the same rate: a record of keys
// has 10 bytes more than its value, a record of aux 1 byte more.
const (
	checkpointValueBytes = 50
	checkpointAuxBytes   = 59
	checkpointBatch      = 64
	checkpointAdders     = 4
	// checkpointSpace bounds the disk space as a multiple of the buffers: three copies of their content,
	// and buckets.
	checkpointSpace = 4
)

// Checkpointed holds the measurements of one checkpoint.
type Checkpointed struct {
	// Added is the payload in bytes added since the previous checkpoint.
	Added int64
	// Wait is the time until a running emission ended, Pause the time in which no batch could be added;
	// Save, Sync and Manifest are the following phases; Total is all.
	Wait, Pause, Save, Sync, Manifest, Total time.Duration
	// Stall is the longest time to add a batch during the checkpoint, Quiet the longest between the
	// previous checkpoint and this one.
	Stall, Quiet time.Duration
	// Written is the number of bytes that the checkpoint wrote, ManifestBytes the length of the store's
	// state in it.
	Written, ManifestBytes int64
	// Held is the number of bytes on disk after it in the store's files other than buckets.
	Held int64
}

// Complete fills in defaults and returns all faults, joined.
func (c *Options) Complete() error {
	measure.Default(&c.BufferBytes, measure.Quick[int64](c.Quick, 256<<20, 1<<30))
	measure.Default(&c.Buckets, measure.Quick(c.Quick, 1024, 4096))
	measure.Default(&c.Count, measure.Quick(c.Quick, 3, 5))
	measure.Default(&c.Every, measure.Quick(c.Quick, 3*time.Second, 10*time.Second))
	measure.Default(&c.Rate, 100_000)
	need, faults := measure.Faults("checkpoint")
	need(len(c.Dirs) > 0, "--dir: want at least one directory")
	power := c.Buckets > 0 && c.Buckets&(c.Buckets-1) == 0
	need(power, "--buckets %d: want a power of 2", c.Buckets)
	need(!power || c.bufferBytes() >= leastBuffer, "--buffers %s: want at least 4 KiB for each of %d buffers",
		result.BinaryBytes(int(c.BufferBytes)), 2*c.Buckets)
	need(c.Count >= 0 && c.Every >= 0 && c.Rate >= 0, "--count, --every and --rate must not be negative")
	return faults()
}

// bufferBytes returns M.
func (c *Options) bufferBytes() int {
	return int(c.BufferBytes/int64(2*c.Buckets)) &^ (leastBuffer - 1)
}

// checkpointRun is a running measurement.
type checkpointRun struct {
	opt   Options
	set   disk.Set
	meter *disk.Meter
	d     *drum.Drum
	gen   uint64

	// step is held shared by adders and exclusively by a checkpoint, like a crawl's transaction lock.
	step    gosync.RWMutex
	added   atomic.Int64 // payload bytes
	longest atomic.Int64 // longest time of a batch in ns since the last read
	adding  gosync.WaitGroup
	failed  atomic.Pointer[error]
}

// leastBuffer is package drum's minimum for a bucket buffer, in bytes.
const leastBuffer = 4096

// Measure fills the buffers, makes a first checkpoint, and then Count more while tuples come in.
func (c Options) Measure(ctx context.Context, progress func(what string)) (*result.Report, error) {
	if err := c.Complete(); err != nil {
		return nil, err
	}
	c.progress = progress
	list, err := measureCheckpoints(ctx, c)
	if err != nil {
		return nil, err
	}
	return c.report(list), nil
}

// measureCheckpoints returns the results of all checkpoints; the first one saves full buffers.
func measureCheckpoints(ctx context.Context, c Options) (list []Checkpointed, err error) {
	scratch, err := measure.NewScratch("checkpoint", c.Dirs, checkpointSpace*c.BufferBytes*int64(len(c.Dirs)))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scratch.Remove()) }()
	r := &checkpointRun{opt: c, meter: disk.NewMeter(disk.OS())}
	if r.set, err = scratch.Set(); err != nil {
		return nil, err
	}
	r.set.FS = r.meter
	r.d, err = drum.Open(drum.Options{
		Set: r.set, Name: "bench", Buckets: c.Buckets, BufferBytes: c.bufferBytes(), BucketBytes: 1 << 31,
		ValueBytes: -1, MaxValueBytes: checkpointValueBytes,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("bench: checkpoint: %w", err)
	}
	defer func() { err = errors.Join(err, r.d.Close()) }()
	c.progress("fill " + human.Bytes(c.BufferBytes) + " of buffers")
	if err := r.fill(ctx); err != nil {
		return nil, err
	}
	adding, stop := context.WithCancel(ctx)
	defer r.adding.Wait()
	defer stop()
	r.startAdders(adding)
	for n := range c.Count + 1 {
		if n > 0 {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(c.Every):
			}
		}
		c.progress(fmt.Sprintf("checkpoint %d of %d", n, c.Count))
		one, err := r.checkpoint()
		if f := r.failed.Load(); f != nil {
			err = errors.Join(err, *f)
		}
		if err != nil {
			return nil, fmt.Errorf("bench: checkpoint: %w", err)
		}
		list = append(list, one)
	}
	return list, nil
}

// batch makes tuples with uniform keys.
type batch struct {
	rng    *mathrand.Rand
	tuples [checkpointBatch]drum.Tuple
}

func newBatch(seed uint64) *batch {
	b := &batch{rng: mathrand.New(mathrand.NewPCG(seed, 1))}
	value, aux := make([]byte, checkpointValueBytes), make([]byte, checkpointAuxBytes)
	for i := range b.tuples {
		b.tuples[i] = drum.Tuple{Op: drum.CheckUpdate, Value: value, Aux: aux}
	}
	return b
}

func (r *checkpointRun) add(b *batch) error {
	for i := range b.tuples {
		b.tuples[i].Key = drum.Key(b.rng.Uint64())
	}
	asked := time.Now()
	r.step.RLock()
	err := r.d.Add(b.tuples[:])
	r.step.RUnlock()
	took := int64(time.Since(asked))
	for {
		old := r.longest.Load()
		if took <= old || r.longest.CompareAndSwap(old, took) {
			break
		}
	}
	r.added.Add(checkpointBatch * 2 * (checkpointAuxBytes + 1))
	return err
}

// fill adds tuples until the mean buffer is 95 % full.
func (r *checkpointRun) fill(ctx context.Context) error {
	b := newBatch(1)
	want := int64(r.opt.bufferBytes()) * int64(2*r.opt.Buckets) * 95 / 100
	for r.added.Load() < want {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.add(b); err != nil {
			return fmt.Errorf("bench: checkpoint: %w", err)
		}
	}
	r.longest.Store(0)
	return nil
}

// startAdders adds Rate tuples per second until ctx ends.
func (r *checkpointRun) startAdders(ctx context.Context) {
	for i := range checkpointAdders {
		r.adding.Go(func() {
			b, began, n := newBatch(uint64(i+2)), time.Now(), 0
			for ctx.Err() == nil {
				due := began.Add(
					time.Duration(n) * checkpointBatch * checkpointAdders * time.Second / time.Duration(r.opt.Rate))
				if wait := time.Until(due); wait > 0 {
					select {
					case <-ctx.Done():
						return
					case <-time.After(wait):
					}
				}
				if err := r.add(b); err != nil {
					r.failed.Store(&err)
					return
				}
				n++
			}
		})
	}
}

// checkpoint follows the protocol of package disk.
func (r *checkpointRun) checkpoint() (c Checkpointed, err error) {
	c.Quiet = time.Duration(r.longest.Swap(0))
	began, before := time.Now(), r.d.Stats()
	wrote := r.meter.Counts().WrittenBytes
	lap := began
	split := func() time.Duration {
		now := time.Now()
		d := now.Sub(lap)
		lap = now
		return d
	}
	r.d.Pause()
	r.step.Lock()
	c.Wait = split()
	c.Added = r.added.Swap(0)
	f := r.d.Freeze()
	r.step.Unlock()
	c.Pause = split()
	r.d.Resume()
	r.gen++
	tails, err := disk.CreateTails(r.set, r.gen)
	if err != nil {
		return c, err
	}
	st, err := f.Save(tails)
	if err = errors.Join(err, tails.Close()); err != nil {
		return c, err
	}
	c.Save = split()
	after := r.d.Stats()
	c.Written = r.meter.Counts().WrittenBytes - wrote -
		(after.KeysWritten + after.AuxWritten - before.KeysWritten - before.AuxWritten)
	for _, dir := range r.set.Paths {
		if err := r.set.FS.SyncFS(dir); err != nil {
			return c, err
		}
	}
	c.Sync = split()
	data, err := json.Marshal(st)
	if err != nil {
		return c, err
	}
	c.ManifestBytes = int64(len(data))
	if err := disk.WriteFileAtomic(r.set.FS, r.set.Path(0, "manifest"), data); err != nil {
		return c, err
	}
	c.Manifest, c.Total = split(), time.Since(began)
	c.Stall = time.Duration(r.longest.Swap(0))
	if err := f.Commit(); err != nil {
		return c, err
	}
	if err := disk.RemoveTails(r.set, func(g uint64) bool { return g == r.gen }); err != nil {
		return c, err
	}
	c.Held, err = r.held()
	return c, err
}

// held returns the total size of the files that hold buffers.
func (r *checkpointRun) held() (sum int64, err error) {
	for dir := range r.set.Paths {
		for _, sub := range []string{"state", "state/bench"} {
			names, err := r.set.FS.List(r.set.Path(dir, sub))
			if err != nil {
				return 0, err
			}
			for _, name := range names {
				if match, _ := path.Match("*-??????????", name); !match ||
					slices.ContainsFunc([]string{"keys-*", "aux-*"},
						func(p string) bool { ok, _ := path.Match(p, name); return ok }) {
					continue
				}
				size, err := r.set.FS.Size(r.set.Path(dir, sub, name))
				if err != nil {
					return 0, err
				}
				sum += size
			}
		}
	}
	return sum, nil
}

// report makes the report of the checkpoints.
func (c *Options) report(checkpoints []Checkpointed) *result.Report {
	r := result.New("checkpoint", "checkpoints of a store with full bucket buffers while tuples arrive")
	r.SetDirs(c.Dirs)
	r.Set("buffers", "%s in %d buckets", result.BinaryBytes(int(c.BufferBytes)), c.Buckets)
	r.Set("rate", "%d tuples/s, a checkpoint every %v", c.Rate, c.Every)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	t := result.Table{
		Title: "Checkpoints, in ms and MB; no. 0 saves full buffers",
		Head: []string{"no.", "total", "wait", "pause", "save", "sync", "manifest", "stall", "quiet", "added",
			"written", "kept"},
		Notes: []string{"pause: time in which no batch could be added; stall: longest time to add a batch " +
			"during the checkpoint; quiet: the same between checkpoints. kept: files that an older " +
			"manifest needs."},
	}
	for i, p := range checkpoints {
		name := fmt.Sprintf("BenchmarkCheckpoint/buffers=%s/k=%d/no=%d",
			result.BinaryBytes(int(c.BufferBytes)), c.Buckets, i)
		spans := []struct {
			unit string
			v    time.Duration
		}{{"wait-ms", p.Wait}, {"pause-ms", p.Pause}, {"save-ms", p.Save}, {"sync-ms", p.Sync},
			{"manifest-ms", p.Manifest}, {"stall-ms", p.Stall}, {"quiet-ms", p.Quiet}}
		metrics := []result.Metric{{Value: float64(p.Total.Nanoseconds()), Unit: "ns/op"}}
		row := []string{strconv.Itoa(i), result.Number(ms(p.Total))}
		for _, s := range spans {
			metrics = append(metrics, result.Metric{Value: ms(s.v), Unit: s.unit})
			row = append(row, result.Number(ms(s.v)))
		}
		for _, b := range []struct {
			unit string
			v    int64
		}{{"added-B", p.Added}, {"written-B", p.Written}, {"manifest-B", p.ManifestBytes}, {"held-B", p.Held}} {
			metrics = append(metrics, result.Metric{Value: float64(b.v), Unit: b.unit})
			if b.unit != "manifest-B" {
				row = append(row, result.Number(float64(b.v)/1e6))
			}
		}
		r.Add(name, 1, metrics...)
		t.Add(row...)
	}
	r.Tables = []result.Table{t}
	return r
}
