package pebble

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"drumbeat/bench/baselines"
	"drumbeat/disk/memfs"
)

// TestMain checks that no goroutine outlives its store.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0: another one each time")

// newRand returns a generator whose seed is logged.
func newRand(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// truth is the expected result of a store: links are numbers with keys that look random, in order of
// arrival.
type truth struct {
	t       *testing.T
	seen    map[uint64]bool
	added   []uint64
	emitted int
}

func key(n int) uint64 { return uint64(n) * 0x9e3779b97f4a7c15 }

func (w *truth) emit(first int64, links []baselines.Link, fresh []bool) error {
	if first != int64(w.emitted) {
		w.t.Fatalf("emitted from %d, want %d", first, w.emitted)
	}
	for i, l := range links {
		if l.Key != w.added[w.emitted] || fresh[i] == w.seen[l.Key] {
			w.t.Fatalf("link %d: got key %#x, new %v; want key %#x, new %v", w.emitted, l.Key, fresh[i], w.added[w.emitted], !w.seen[l.Key])
		}
		w.seen[l.Key] = true
		w.emitted++
	}
	return nil
}

// batch adds n links to URLs with numbers below most.
func (w *truth) batch(rng *rand.Rand, n, most int) []baselines.Link {
	links := make([]baselines.Link, n)
	for i := range links {
		links[i] = baselines.Link{Key: key(1 + rng.IntN(most)), Text: []byte("http://a/")}
		w.added = append(w.added, links[i].Key)
	}
	return links
}

// load makes n URLs known.
func (w *truth) load(s baselines.Store, n int) error {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = key(1 + 2*i)
		w.seen[keys[i]] = true
	}
	slices.Sort(keys)
	return errors.Join(s.Load(keys[:n/3]), s.Load(keys[n/3:]))
}

// TestVerdicts: links in several batches get the same verdicts as from a map, with and without known keys,
// and no file is left.
func TestVerdicts(t *testing.T) {
	for _, m := range Methods() {
		for _, known := range []int{0, 5000} {
			rng, mem := newRand(t), memfs.New(1)
			w := &truth{t: t, seen: map[uint64]bool{}}
			s, err := m.Open(baselines.Options{FS: mem, Dir: "d", RAMBytes: baselines.MinRAMBytes, Emit: w.emit})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.load(s, known); err != nil {
				t.Fatal(err)
			}
			for range 40 {
				err := s.Add(w.batch(rng, rng.IntN(2000), 20_000))
				if rng.IntN(4) == 0 {
					err = errors.Join(err, s.Flush(t.Context()))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Flush(t.Context()); err != nil || w.emitted != len(w.added) {
				t.Fatalf("%s: %d of %d links answered, %v", m.Name, w.emitted, len(w.added), err)
			}
			if st := s.Stats(); st.Known != int64(len(w.seen)) || st.FileBytes == 0 || st.RAMBytes != baselines.MinRAMBytes {
				t.Errorf("%s: %d known: stats %+v", m.Name, len(w.seen), st)
			}
			closeTest(t, s, mem)
		}
	}
}

func closeTest(t *testing.T, s baselines.Store, mem *memfs.FS) {
	t.Helper()
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if names, _ := mem.List("d"); len(names) > 0 {
		t.Errorf("left over: %q", names)
	}
}

// TestEarlyEnds: a store leaves no files if it is closed during loading, with links waiting, or after its
// context has ended; invalid options are refused.
func TestEarlyEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, m := range Methods() {
		for what, do := range map[string]func(s baselines.Store, w *truth) error{
			"load":    func(s baselines.Store, w *truth) error { return w.load(s, 100) },
			"waiting": func(s baselines.Store, w *truth) error { return s.Add(w.batch(newRand(t), 1000, 100)) },
			"cancelled": func(s baselines.Store, w *truth) error {
				err := errors.Join(w.load(s, 100), s.Add(w.batch(newRand(t), 1000, 100)))
				if got := s.Flush(ctx); !errors.Is(got, context.Canceled) {
					t.Errorf("%s: got %v", m.Name, got)
				}
				return err
			},
		} {
			mem := memfs.New(1)
			w := &truth{t: t, seen: map[uint64]bool{}}
			s, err := m.Open(baselines.Options{FS: mem, Dir: "d", RAMBytes: baselines.MinRAMBytes, Emit: w.emit})
			if err == nil {
				err = do(s, w)
			}
			if err != nil {
				t.Fatalf("%s: %s: %v", m.Name, what, err)
			}
			closeTest(t, s, mem)
		}
		if _, err := m.Open(baselines.Options{FS: memfs.New(1), Dir: "d", RAMBytes: 1, Emit: (&truth{}).emit}); err == nil {
			t.Errorf("%s: a byte of RAM was accepted", m.Name)
		}
	}
}

// TestFaults: any single failing disk operation causes an error and no wrong verdict.
func TestFaults(t *testing.T) {
	for _, m := range Methods() {
		rng := newRand(t)
		for _, op := range []memfs.Op{memfs.OpCreate, memfs.OpRead, memfs.OpWrite, memfs.OpRemove, memfs.OpClose} {
			failed := 0
			for range 12 {
				failed += faultRun(t, m, op, 1+rng.IntN(30))
			}
			t.Logf("%s: %d faults of %s", m.Name, failed, op)
		}
	}
}

// faultRun makes the n-th operation op fail, and returns 1 if there was one.
func faultRun(t *testing.T, m baselines.Method, op memfs.Op, n int) int {
	t.Helper()
	mem, broken := memfs.New(1), errors.New("broken")
	var count, off atomic.Int64
	count.Store(int64(n))
	fsys := memfs.NewFault(mem, func(o memfs.Op, _ string) error {
		if o == op && off.Load() == 0 && count.Add(-1) == 0 {
			return broken
		}
		return nil
	})
	rng, w := rand.New(rand.NewPCG(uint64(n), 1)), &truth{t: t, seen: map[uint64]bool{}}
	s, err := m.Open(baselines.Options{FS: fsys, Dir: "d", RAMBytes: baselines.MinRAMBytes, Emit: w.emit})
	if err == nil {
		for i := 0; i < 30 && err == nil; i++ {
			if err = s.Add(w.batch(rng, 300, 3000)); err == nil && i%5 == 0 {
				err = s.Flush(t.Context())
			}
		}
		hit := count.Load() <= 0
		if err == nil {
			err = s.Flush(t.Context())
		}
		if hit && err == nil {
			t.Errorf("%s: no error though %s number %d failed", m.Name, op, n)
		}
		off.Store(1)
		if again := s.Add(w.batch(rng, 1, 10)); err != nil && again == nil {
			t.Errorf("%s: went on after %v", m.Name, err)
		}
		closeTest(t, s, mem)
	}
	if err != nil && !errors.Is(err, broken) {
		t.Errorf("%s: %s number %d failed: got %v", m.Name, op, n, err)
	}
	if names, _ := mem.List("d"); len(names) > 0 {
		t.Errorf("%s: %s number %d failed: left over: %q", m.Name, op, n, names)
	}
	if count.Load() <= 0 {
		return 1
	}
	return 0
}
