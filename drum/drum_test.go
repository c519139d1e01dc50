package drum

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

var longFlag = flag.Bool("long", false, "run the long forms of tests")

// times returns n, or a multiple of it with -long.
func times(n int) int {
	switch {
	case *longFlag:
		return 50 * n
	case testing.Short(): // under the race detector
		return max(1, n/4)
	}
	return n
}

// act does a random operation on the store.
func (w *world) act(rng *rand.Rand) error {
	ctx := context.Background()
	switch x := rng.IntN(100); {
	case x < 70:
		return w.add(w.tuples(rng, rng.IntN(60)+1))
	case x < 75:
		return w.add(w.tuples(rng, rng.IntN(600)+1))
	case x < 85:
		_, err := w.d.Pass(ctx, false)
		return err
	case x < 88:
		_, err := w.d.Pass(ctx, true)
		return err
	case x < 92:
		return w.partial(rng)
	default:
		var between func() error
		if rng.IntN(2) == 0 {
			between = func() error {
				err := w.add(w.tuples(rng, rng.IntN(300)))
				if err == nil && rng.IntN(2) == 0 {
					_, err = w.d.Pass(ctx, true)
				}
				return err
			}
		}
		return w.checkpoint(between)
	}
}

var errNoSpace = errors.New("no space")

// partial runs a pass that is cut short after some rounds.
func (w *world) partial(rng *rand.Rand) error {
	if rng.IntN(2) == 0 {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w.cancel, w.cancelIn = cancel, 1+rng.IntN(5)
		_, err := w.d.Pass(ctx, true)
		w.cancel = nil
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		return err
	}
	var left atomic.Int64
	left.Store(int64(rng.IntN(4)))
	var reserved atomic.Int64
	w.d.opt.Reserve = func(need int64) (func(), error) {
		if left.Add(-1) < 0 {
			return nil, errNoSpace
		}
		reserved.Add(need)
		return func() { reserved.Add(-need) }, nil
	}
	_, err := w.d.Pass(context.Background(), rng.IntN(2) == 0)
	w.d.opt.Reserve = nil
	if n := reserved.Load(); n != 0 {
		return fmt.Errorf("%d bytes are still reserved after the pass", n)
	}
	if errors.Is(err, errNoSpace) {
		err = nil
	}
	return err
}

// ramSizes are bounds of the files of parts in RAM: none, one that most passes meet, one that some meet, one for all.
var ramSizes = []int64{-1, 2 << 10, 16 << 10, 1 << 20}

// Any history of adds, passes, checkpoints and restarts must give the results of the reference.
func TestModel(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		t.Run(name, func(t *testing.T) {
			rng := newRand(t)
			for range times(3) {
				mem := memfs.New(rng.Uint64())
				opt := small(kinds[name])
				opt.cacheRAMBytes = ramSizes[rng.IntN(len(ramSizes))]
				w := newWorld(t, mem, opt, 1+rng.IntN(3))
				must(t, w.open())
				for range 120 {
					must(t, w.act(rng))
					checkRAM(t, w.d)
					if rng.IntN(25) == 0 {
						if rng.IntN(2) == 0 {
							mem = mem.Kill()
						} else {
							mem = mem.Crash()
						}
						must(t, w.d.Close())
						w.set.FS = mem
						if rng.IntN(4) == 0 { // add a disk
							w.set.Paths = append(w.set.Paths, fmt.Sprintf("d%d", w.set.Len()))
							w.grown = true
						}
						must(t, w.open())
						if w.gen > 0 {
							w.checkWalk()
							w.checkLookups()
						}
					}
				}
				must(t, w.finish())
				must(t, w.d.Close())
			}
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A crash at any operation of a history must lose nothing that the last durable manifest has.
func TestCrashEverywhere(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		t.Run(name, func(t *testing.T) {
			rng := newRand(t)
			for range min(2, times(1)) {
				opt := small(kinds[name])
				opt.cacheRAMBytes = ramSizes[rng.IntN(len(ramSizes))]
				crashEverywhere(t, opt, rng)
			}
		})
	}
}

func crashEverywhere(t *testing.T, opt Options, rng *rand.Rand) {
	seed, dirs := rng.Uint64(), 1+rng.IntN(2)
	history := func(w *world) error {
		rng := rand.New(rand.NewPCG(seed, 2))
		for range 12 {
			for range 3 {
				if err := w.act(rng); err != nil {
					return err
				}
			}
			if err := w.checkpoint(nil); err != nil {
				return err
			}
		}
		return nil
	}
	mem := memfs.New(seed)
	w := newWorld(t, mem, opt, dirs)
	must(t, w.open())
	must(t, history(w))
	ops := mem.Ops()
	step := max(1, ops/12)
	if *longFlag {
		step = 1
	}
	for n := 1 + rng.IntN(step); n <= ops; n += step {
		mem := memfs.New(seed + uint64(n))
		w := newWorld(t, mem, opt, dirs)
		mem.CrashAfter(n)
		err := w.open()
		if err == nil {
			err = history(w)
		}
		if err == nil {
			break // covers the random choices of Crash too, which are not counted here
		}
		if !errors.Is(err, disk.ErrCrashed) {
			t.Fatalf("crash at %d of %d: %v", n, ops, err)
		}
		if n%2 == 0 {
			mem = mem.Kill()
		} else {
			mem = mem.Crash()
		}
		w.set.FS = mem
		if err := w.open(); err != nil {
			t.Fatalf("crash at %d of %d: %v", n, ops, err)
		}
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		for range 5 {
			must(t, w.act(r))
		}
		if err := w.finish(); err != nil {
			t.Fatalf("crash at %d of %d: %v", n, ops, err)
		}
		w.d.Close()
	}
}

// A store whose buffers never fill must create no bucket files.
func TestSmallStoreStaysInRAM(t *testing.T) {
	rng := newRand(t)
	mem := memfs.New(1)
	opt := kinds["mixed"]
	opt.Buckets = 16
	w := newWorld(t, mem, opt, 1)
	must(t, w.open())
	for range 10 {
		must(t, w.add(w.tuples(rng, 100)))
		_, err := w.d.Pass(context.Background(), true)
		must(t, err)
		must(t, w.checkpoint(nil))
		names, err := mem.List("d0/state/mixed")
		must(t, err)
		for _, name := range names {
			if !strings.HasPrefix(name, "cache") {
				t.Errorf("got file %s", name)
			}
		}
		if len(names) > 2 {
			t.Errorf("got %d files: %v", len(names), names)
		}
	}
	s := w.d.Stats()
	if s.KeysRead+s.KeysWritten+s.AuxRead+s.AuxWritten != 0 {
		t.Errorf("got bucket I/O: %+v", s)
	}
	must(t, w.finish())
}

// A round must never take more RAM than BucketBytes, and neither must the touched pages of its memory.
func TestRoundStaysWithinBucketBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	rng := newRand(t)
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		opt := small(kinds[name])
		opt.BucketBytes = 64 << 10
		opt.RoundTuples = 0
		w := newWorld(t, memfs.New(1), opt, 1)
		must(t, w.open())
		for range 4 {
			// One key owns 90 % of the tuples: they take several rounds.
			for range 300 {
				ts := w.tuples(rng, 50)
				for i := range ts {
					if rng.IntN(10) > 0 {
						ts[i].Key = 99 << 50
					}
					if opt.ValueBytes != 0 && len(w.now.added)/4000%2 == 0 {
						ts[i].Value = make([]byte, 90)
					}
				}
				must(t, w.add(ts))
			}
			_, err := w.d.Pass(context.Background(), false)
			must(t, err)
		}
		must(t, w.finish())
		s := w.d.Stats()
		if s.RoundPeakBytes > opt.BucketBytes*int64(max(1, opt.Workers)) || s.RoundPeakBytes < opt.BucketBytes/2 {
			t.Errorf("%s: rounds took up to %d bytes, BucketBytes is %d", name, s.RoundPeakBytes, opt.BucketBytes)
		}
		if s.Rounds < 8 {
			t.Errorf("%s: got %d rounds", name, s.Rounds)
		}
		must(t, w.d.Close())
	}
}

// An error of Emit is final for the store. An error of Reserve or of the context is not.
func TestErrors(t *testing.T) {
	opt := small(kinds["mixed"])
	opt.Set = disk.Set{FS: memfs.New(1), Paths: []string{"a"}}
	boom := errors.New("boom")
	opt.Emit = func([]Result) error { return boom }
	d, err := Open(opt, nil)
	must(t, err)
	must(t, d.Add([]Tuple{{Key: 1, Op: CheckUpdate}}))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := d.Pass(ctx, true); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	for _, bad := range []Tuple{{Key: 1}, {Key: 1, Op: 4}, {Key: 1, Op: Check, Value: []byte("x")},
		{Key: 1, Op: Check, Aux: make([]byte, 4096)}} {
		if err := d.Add([]Tuple{{Key: 5, Op: Check}, bad}); !errors.Is(err, ErrTuple) {
			t.Errorf("%v: got %v, want ErrTuple", bad, err)
		}
	}
	if n, _ := d.Pending(); n != 1 {
		t.Errorf("got %d tuples pending, want 1", n)
	}
	for range 2 {
		if _, err := d.Pass(context.Background(), true); !errors.Is(err, boom) {
			t.Errorf("got %v, want boom", err)
		}
	}
	if err := d.Add([]Tuple{{Key: 1, Op: CheckUpdate}}); !errors.Is(err, boom) {
		t.Errorf("got %v, want boom", err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("got %v", err)
	}
}

// Add must allocate nothing in the steady state.
func TestAddAllocates(t *testing.T) {
	opt := Options{Name: "x", Set: disk.Set{FS: disk.OS(), Paths: []string{t.TempDir()}}}
	d, err := Open(opt, nil)
	must(t, err)
	defer d.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	ts, aux := make([]Tuple, 64), []byte("http://example.org/")
	batch := func() {
		for i := range ts {
			ts[i] = Tuple{Key: Key(rng.Uint64()), Op: CheckUpdate, Aux: aux}
		}
		must(t, d.Add(ts))
	}
	for range 100 {
		batch() // allocates the buffers
	}
	if n := testing.AllocsPerRun(100, batch); n > 0 {
		t.Errorf("got %v allocations a batch", n)
	}
}

// Replaced parts must not take more space than live ones for long.
func TestDeadPartsAreCollected(t *testing.T) {
	rng := newRand(t)
	for _, checkpoints := range []bool{false, true} {
		opt := small(kinds["count"])
		opt.Buckets = 32
		w := newWorld(t, memfs.New(1), opt, 1)
		must(t, w.open())
		for i := range 300 {
			ts := w.tuples(rng, 3) // few buckets
			must(t, w.add(ts))
			_, err := w.d.Pass(context.Background(), true)
			must(t, err)
			if checkpoints {
				must(t, w.checkpoint(nil))
			}
			s := w.d.Stats()
			names, err := w.set.FS.List("d0/state/count")
			must(t, err)
			if s.DeadBytes > s.LiveBytes+64*pageBytes || len(names) > 3*maxCacheFiles {
				t.Fatalf("round %d: %d live bytes, %d dead, %d files", i, s.LiveBytes, s.DeadBytes, len(names))
			}
		}
		must(t, w.finish())
	}
}

func TestOptionsValidate(t *testing.T) {
	ok := Options{Set: disk.Set{FS: memfs.New(1), Paths: []string{"a"}}, Name: "x"}
	for i, change := range []func(o *Options){
		func(o *Options) { o.Set.Paths = nil }, func(o *Options) { o.Name = "a/b" },
		func(o *Options) { o.Name = "" },
		func(o *Options) { o.Buckets = 3 }, func(o *Options) { o.BufferBytes = 5000 },
		func(o *Options) { o.Op = 9 },
		func(o *Options) { o.ValueBytes = -2 }, func(o *Options) { o.MaxValueBytes = 5 },
		func(o *Options) { o.ValueBytes = 8; o.MaxValueBytes = 7 }, func(o *Options) { o.Codec = 3 },
		func(o *Options) { o.ValueBytes = -1; o.MaxValueBytes = 1 << 20 },
		func(o *Options) { o.OutBytes = 1 << 16 },
		func(o *Options) { o.BucketBytes = 3 }, func(o *Options) { o.ReadChunkBytes = 3 },
	} {
		o := ok
		change(&o)
		if _, err := Open(o, nil); err == nil {
			t.Errorf("change %d accepted", i)
		}
	}
	d, err := Open(ok, nil)
	must(t, err)
	must(t, d.Close())
	if err := d.Close(); err != ErrClosed {
		t.Errorf("second Close: got %v", err)
	}
	if err := d.Add(nil); err != ErrClosed {
		t.Errorf("Add after Close: got %v", err)
	}
	if got := fmt.Sprint(Check, Update, CheckUpdate, Op(7)); got != "check update check+update op(7)" {
		t.Errorf("got %q", got)
	}
}

// A key with more tuples than Apply gets at once must come out as if there were several rounds.
func TestLongRuns(t *testing.T) {
	for _, name := range []string{"variable", "count", "slow"} {
		rng := newRand(t)
		opt := small(kinds[name])
		opt.BucketBytes, opt.RoundTuples = 4<<20, 0
		w := newWorld(t, memfs.New(1), opt, 1)
		must(t, w.open())
		for range 2 {
			ts := w.tuples(rng, 5*runItems+7)
			for i := range ts {
				if i%50 != 0 {
					ts[i].Key = 5
				}
			}
			must(t, w.add(ts))
			rounds, err := w.d.Pass(context.Background(), true)
			must(t, err)
			if rounds > opt.Buckets {
				t.Errorf("%s: got %d rounds", name, rounds)
			}
		}
		must(t, w.finish())
	}
}
