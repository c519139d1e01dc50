package mercator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"drumbeat/bench/baselines"
	"drumbeat/disk/memfs"
)

// TestMain checks that no goroutine outlives its store.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var seedFlag = flag.Uint64("seed", 1, "seed of the random tests")

// world is a store beside a map.
type world struct {
	t     *testing.T
	store baselines.Store
	fs    *memfs.FS
	seen  map[string]bool
	added []string
	next  int
}

func newWorld(t *testing.T, ram int64) *world {
	t.Helper()
	w := &world{t: t, fs: memfs.New(1), seen: map[string]bool{}}
	var err error
	w.store, err = Method().Open(baselines.Options{FS: w.fs, Dir: "d", RAMBytes: ram, Emit: w.emit})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) emit(first int64, links []baselines.Link, fresh []bool) error {
	if first != int64(w.next) {
		w.t.Fatalf("emitted from %d, want %d", first, w.next)
	}
	for i, l := range links {
		if text := w.added[w.next]; string(l.Text) != text || fresh[i] == w.seen[text] {
			w.t.Fatalf("link %d: %q is new: %v; want %q, new: %v", w.next, l.Text, fresh[i], text, !w.seen[text])
		}
		w.seen[string(l.Text)] = true
		w.next++
	}
	return nil
}

func link(n int) baselines.Link {
	return baselines.Link{Key: uint64(n+1) * 0x9e3779b97f4a7c15, Text: fmt.Appendf(nil, "http://site%d.test/%d", n%97, n)}
}

// TestVerdicts: over several merges and files, links get the verdicts of a map, in order of arrival; no file is left.
func TestVerdicts(t *testing.T) {
	for _, known := range []string{"none", "keys", "links"} {
		rng := rand.New(rand.NewPCG(*seedFlag, 1))
		w := newWorld(t, baselines.MinRAMBytes)
		switch known {
		case "keys": // of no link of the stream
			var keys []uint64
			for range 50_000 {
				keys = append(keys, rng.Uint64())
			}
			slices.Sort(keys)
			if err := errors.Join(w.store.Load(keys[:20_000]), w.store.Load(keys[20_000:])); err != nil {
				t.Fatal(err)
			}
		case "links":
			for n := range 50_000 {
				l := link(3 * n)
				w.seen[string(l.Text)] = true
				if err := w.store.(baselines.TextLoader).LoadLinks([]baselines.Link{l}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 100 {
			var links []baselines.Link
			for range rng.IntN(3000) {
				l := link(rng.IntN(100_000))
				links, w.added = append(links, l), append(w.added, string(l.Text))
			}
			if err := w.store.Add(links); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(4) == 0 {
				if err := w.store.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.store.Flush(t.Context()); err != nil || w.next != len(w.added) {
			t.Fatalf("%d of %d links answered: %v", w.next, len(w.added), err)
		}
		st := w.store.Stats()
		want := int64(len(w.seen))
		if known == "keys" {
			want += 50_000
		}
		if st.Known != want || st.Merges == 0 || st.FileBytes == 0 || st.Fresh == 0 {
			t.Errorf("known %s: %+v, want %d known", known, st, want)
		}
		w.close()
	}
}

func (w *world) close() {
	if err := errors.Join(w.store.Close(), w.store.Close()); err != nil {
		w.t.Error(err)
	}
	if names, _ := w.fs.List("d"); len(names) > 0 {
		w.t.Errorf("left over: %q", names)
	}
}

// TestFaults: a store that cannot write fails and stays failed, one that is cancelled too, and both remove their files.
func TestFaults(t *testing.T) {
	w := newWorld(t, baselines.MinRAMBytes)
	w.fs.SetCapacity(100 << 10)
	var err error
	for n := 0; err == nil && n < 200_000; n++ {
		l := link(n)
		w.added = append(w.added, string(l.Text))
		err = w.store.Add([]baselines.Link{l})
	}
	if err == nil || w.store.Add([]baselines.Link{link(1)}) == nil || w.store.Flush(t.Context()) == nil {
		t.Errorf("a full disk: %v", err)
	}
	w.close()

	w = newWorld(t, baselines.MinRAMBytes)
	l := link(1)
	w.added = append(w.added, string(l.Text))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.store.Add([]baselines.Link{l}); err != nil {
		t.Error(err)
	}
	if err := w.store.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	w.close()
	for _, o := range []baselines.Options{{}, {FS: memfs.New(1), Dir: "d", RAMBytes: 1, Emit: w.emit}} {
		if _, err := Method().Open(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
