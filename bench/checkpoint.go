package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"path"
	"slices"
	gosync "sync"
	"sync/atomic"
	"time"

	"drumbeat/disk"
	"drumbeat/drum"
)

// Checkpoint is what RunCheckpoint measures: a store with full bucket buffers, checkpointed while tuples come
// in. A Checkpoint is a value.
type Checkpoint struct {
	// Dirs are existing directories, one per disk as a rule.
	Dirs []string
	// BufferBytes is what all bucket buffers together hold, those of keys and those of aux. 0: 1 GiB.
	BufferBytes int64
	// Buckets is k, a power of two. 0: 4096.
	Buckets int
	// Count is how many checkpoints are made after the first. 0: 5.
	Count int
	// Every is the time between them. 0: 10 s.
	Every time.Duration
	// Rate is how many tuples a second come in meanwhile. 0: 100,000, the links of 1,700 pages.
	Rate int
}

// Value and aux of a tuple, so that both buffers of a bucket fill at one rate: a record of keys has 10 bytes more than
// its value, one of aux 1 byte more.
const (
	checkpointValueBytes = 50
	checkpointAuxBytes   = 59
	checkpointBatch      = 64
	checkpointAdders     = 4
)

// Checkpointed is what was measured of one checkpoint.
type Checkpointed struct {
	// Added is the payload that had come in since the one before.
	Added int64
	// Wait is the time until a running emission had ended; Pause how long no batch could be added; Save, Sync and Manifest
	// what followed; Total all.
	Wait, Pause, Save, Sync, Manifest, Total time.Duration
	// Stall is the longest that a batch took to be added while the checkpoint went on, Quiet the longest between
	// the one before and this.
	Stall, Quiet time.Duration
	// Written is what the checkpoint wrote; ManifestBytes is the length of the store's state in it.
	Written, ManifestBytes int64
	// Held is what the store's files other than buckets take on disk after it.
	Held int64
}

// CheckpointReport is what RunCheckpoint found, the first being the one that saves full buffers.
type CheckpointReport struct {
	Checkpoints []Checkpointed
	opt         Checkpoint
}

// Validate returns all faults, joined.
func (c Checkpoint) Validate() error { return c.complete() }

func (c *Checkpoint) complete() error {
	if c.BufferBytes == 0 {
		c.BufferBytes = 1 << 30
	}
	if c.Buckets == 0 {
		c.Buckets = 4096
	}
	if c.Count == 0 {
		c.Count = 5
	}
	if c.Every == 0 {
		c.Every = 10 * time.Second
	}
	if c.Rate == 0 {
		c.Rate = 100_000
	}
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("bench: checkpoint: "+format, args...))
	}
	if len(c.Dirs) == 0 {
		fault("no directory")
	}
	if c.Buckets < 1 || c.Buckets&(c.Buckets-1) != 0 {
		fault("%d buckets, want a power of two", c.Buckets)
	} else if c.bufferBytes() < align {
		fault("%d bytes are less than 4 KiB for each of %d buffers", c.BufferBytes, 2*c.Buckets)
	}
	if c.Count < 0 || c.Every < 0 || c.Rate < 0 {
		fault("negative count, interval or rate")
	}
	return errors.Join(faults...)
}

// bufferBytes is M.
func (c *Checkpoint) bufferBytes() int { return int(c.BufferBytes/int64(2*c.Buckets)) &^ (align - 1) }

// checkpointRun is a measurement under way.
type checkpointRun struct {
	opt   Checkpoint
	set   disk.Set
	meter *disk.Meter
	d     *drum.Drum
	gen   uint64

	// step is shared by what adds, and taken alone by a checkpoint, as in a crawl.
	step    gosync.RWMutex
	added   atomic.Int64 // payload bytes
	longest atomic.Int64 // ns that a batch took, since it was last read
	adding  gosync.WaitGroup
	failed  atomic.Pointer[error]
}

// RunCheckpoint fills the buffers, makes a first checkpoint of them, and then Count more while tuples come in.
func RunCheckpoint(ctx context.Context, c Checkpoint) (_ *CheckpointReport, err error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	r := &checkpointRun{opt: c, meter: disk.NewMeter(disk.OS())}
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails
	r.set.FS = r.meter
	for _, dir := range c.Dirs {
		r.set.Paths = append(r.set.Paths, path.Join(dir, "drumbeat-bench-"+hex.EncodeToString(id[:])))
	}
	defer func() {
		for _, dir := range r.set.Paths {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	r.d, err = drum.Open(drum.Options{
		Set: r.set, Name: "bench", Buckets: c.Buckets, BufferBytes: c.bufferBytes(), BucketBytes: 1 << 31,
		ValueBytes: -1, MaxValueBytes: checkpointValueBytes,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("bench: checkpoint: %w", err)
	}
	defer func() { err = errors.Join(err, r.d.Close()) }()
	if err := r.fill(ctx); err != nil {
		return nil, err
	}
	report := &CheckpointReport{opt: c}
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
		one, err := r.checkpoint()
		if f := r.failed.Load(); f != nil {
			err = errors.Join(err, *f)
		}
		if err != nil {
			return nil, fmt.Errorf("bench: checkpoint: %w", err)
		}
		report.Checkpoints = append(report.Checkpoints, one)
	}
	return report, nil
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

// fill adds until the mean buffer is full but for 5 %.
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

// startAdders adds Rate tuples a second until ctx ends.
func (r *checkpointRun) startAdders(ctx context.Context) {
	for i := range checkpointAdders {
		r.adding.Go(func() {
			b, began, n := newBatch(uint64(i+2)), time.Now(), 0
			for ctx.Err() == nil {
				due := began.Add(time.Duration(n) * checkpointBatch * checkpointAdders * time.Second / time.Duration(r.opt.Rate))
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

// checkpoint goes through the protocol of package disk.
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
	c.Written = r.meter.Counts().WrittenBytes - wrote - (after.KeysWritten + after.AuxWritten - before.KeysWritten - before.AuxWritten)
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

// held adds up the files that hold buffers.
func (r *checkpointRun) held() (sum int64, err error) {
	for dir := range r.set.Paths {
		for _, sub := range []string{"state", "state/bench"} {
			names, err := r.set.FS.List(r.set.Path(dir, sub))
			if err != nil {
				return 0, err
			}
			for _, name := range names {
				if match, _ := path.Match("*-??????????", name); !match || slices.ContainsFunc([]string{"keys-*", "aux-*"},
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

// Write prints a line for each checkpoint, in the form that benchstat reads.
func (r *CheckpointReport) Write(w io.Writer) error {
	for i, c := range r.Checkpoints {
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
		name := fmt.Sprintf("BenchmarkCheckpoint/buffers=%s/k=%d/no=%d", binaryBytes(int(r.opt.BufferBytes)), r.opt.Buckets, i)
		_, err := fmt.Fprintf(w, "%s 1 %d ns/op %.1f wait-ms %.1f pause-ms %.1f save-ms %.1f sync-ms %.1f manifest-ms"+
			" %.1f stall-ms %.1f quiet-ms %d added-B %d written-B %d manifest-B %d held-B\n", name, c.Total.Nanoseconds(),
			ms(c.Wait), ms(c.Pause), ms(c.Save), ms(c.Sync), ms(c.Manifest), ms(c.Stall), ms(c.Quiet), c.Added, c.Written,
			c.ManifestBytes, c.Held)
		if err != nil {
			return fmt.Errorf("bench: write checkpoint: %w", err)
		}
	}
	return nil
}
