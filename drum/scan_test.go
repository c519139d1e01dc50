package drum

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// content is the result of a scan, as a multiset of texts.
type content struct {
	items   map[string]int
	found   Found
	damages []string
}

func scanned(t testing.TB, w *world, st *State) content {
	t.Helper()
	c := content{items: map[string]int{}}
	last, some := Key(0), false
	var err error
	c.found, err = ScanState(w.set, w.opt.Name, st, Scan{
		SpanBytes: 8,
		Entry: func(key Key, value []byte) error {
			if some && key <= last {
				t.Errorf("entry %x after %x", key, last)
			}
			last, some = key, true
			c.items[fmt.Sprintf("entry %x %s", key, value)]++
			return nil
		},
		Tuple: func(tu Tuple) error {
			c.items[fmt.Sprintf("tuple %x %d %s %s", tu.Key, tu.Op, tu.Value, tu.Aux)]++
			return nil
		},
		Text:    func(aux []byte, unique bool) error { c.items[fmt.Sprintf("text %s", aux)]++; return nil },
		Damaged: func(err error) error { c.damages = append(c.damages, err.Error()); return nil },
	})
	must(t, err)
	return c
}

// stateFiles returns the files of the store and its tails.
func stateFiles(t testing.TB, w *world) []string {
	t.Helper()
	var names []string
	for i := range w.set.Paths {
		for _, dir := range []string{w.set.Path(i, "state"), w.set.Path(i, "state", w.opt.Name)} {
			list, err := w.set.FS.List(dir)
			if err != nil {
				continue
			}
			for _, name := range list {
				if size, err := w.set.FS.Size(dir + "/" + name); err == nil && size > 0 {
					names = append(names, dir+"/"+name)
				}
			}
		}
	}
	return names
}

// spoil overwrites some bytes of a random file. It returns the file and a function that restores the bytes.
func spoil(t testing.TB, rng *rand.Rand, fsys disk.FS, names []string) (name string, undo func()) {
	t.Helper()
	name = names[rng.IntN(len(names))]
	f, err := fsys.Open(name)
	must(t, err)
	size, err := f.Size()
	must(t, err)
	off := rng.Int64N(size)
	old := make([]byte, min(size-off, 1+rng.Int64N(8)))
	must(t, disk.ReadFull(f, old, off))
	bad := slices.Clone(old)
	for i := range bad {
		bad[i] ^= byte(1 + rng.IntN(255))
	}
	_, err = f.WriteAt(bad, off)
	must(t, err)
	return name, func() {
		_, err := f.WriteAt(old, off)
		must(t, err)
		must(t, f.Close())
	}
}

// TestScanGoesOnBehindDamage overwrites bytes at random places in a store's files. A scan must return only
// original data, and report missing data.
func TestScanGoesOnBehindDamage(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		t.Run(name, func(t *testing.T) {
			rng := newRand(t)
			hurt := 0
			for i := 0; i < times(4) || hurt == 0 && i < 50; i++ { // damage of dead bytes hurts nothing
				mem := memfs.New(rng.Uint64())
				w := newWorld(t, mem, small(kinds[name]), 1+rng.IntN(3))
				must(t, w.open())
				for range 40 {
					must(t, w.act(rng))
				}
				must(t, w.checkpoint(nil))
				hurt += spoilAndScan(t, rng, w)
				must(t, w.d.Close())
			}
			if hurt == 0 {
				t.Error("no damage hit anything that was needed")
			}
		})
	}
}

func spoilAndScan(t *testing.T, rng *rand.Rand, w *world) (hurt int) {
	t.Helper()
	m := w.durable()
	whole := scanned(t, w, m.State)
	if len(whole.damages) > 0 || whole.found.Damaged() || whole.found.Uniques != m.State.Unstreamed {
		t.Fatalf("a whole store: %+v, %q", whole.found, whole.damages)
	}
	names := stateFiles(t, w)
	for range 30 {
		var undo []func()
		for range 1 + rng.IntN(3) {
			_, u := spoil(t, rng, w.set.FS, names)
			undo = append(undo, u)
		}
		c := scanned(t, w, m.State)
		missing := 0
		for item, n := range whole.items {
			missing += n - c.items[item]
		}
		for item, n := range c.items {
			if n > whole.items[item] {
				t.Fatalf("found %d times, was there %d times: %s; %q", n, whole.items[item], item, c.damages)
			}
		}
		lost := c.found.LostEntries + c.found.LostTexts
		if !w.opt.logged() {
			lost += c.found.LostTuples
		}
		if missing > 0 && len(c.damages) == 0 || !w.opt.logged() && int64(missing) != lost {
			t.Fatalf("%d missing, %d said to be lost: %q", missing, lost, c.damages)
		}
		if len(c.damages) > 0 {
			hurt++
		}
		for _, u := range slices.Backward(undo) {
			u()
		}
	}
	return hurt
}

// TestScanEndsBehindReadErrors checks that failed reads are retried in smaller pieces, but not forever.
func TestScanEndsBehindReadErrors(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		t.Run(name, func(t *testing.T) {
			rng := newRand(t)
			opt := kinds[name]
			opt.BufferBytes, opt.LogBytes = 64<<10, 0
			mem := memfs.New(rng.Uint64())
			w := newWorld(t, mem, opt, 1)
			must(t, w.open())
			for range 60 {
				must(t, w.act(rng))
			}
			must(t, w.checkpoint(nil))
			must(t, w.d.Close())
			m := w.durable()
			// Every second read fails, including retries for the rest of a large block; or all reads fail.
			for _, good := range []int{2, 1 << 40} {
				reads := 0
				w.set.FS = memfs.NewFault(mem, func(op memfs.Op, _ string) error {
					if op == memfs.OpRead {
						if reads++; reads%good != 0 {
							return syscall.EIO
						}
					}
					return nil
				})
				if c := scanned(t, w, m.State); len(c.damages) == 0 {
					t.Errorf("no damage among %d reads", reads)
				}
			}
		})
	}
}

// TestFill checks that a store made of the entries of another one holds them, can be used, and can be
// reopened.
func TestFill(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		t.Run(name, func(t *testing.T) {
			rng := newRand(t)
			w := newWorld(t, memfs.New(rng.Uint64()), small(kinds[name]), 2)
			must(t, w.open())
			for range 40 {
				must(t, w.act(rng))
			}
			must(t, w.finish())
			m := w.durable()
			want := scanned(t, w, m.State)
			type entry struct {
				key   Key
				value []byte
			}
			var all []entry
			must(t, walkCache(w.set, w.opt.Name, m.State, func(k Key, v []byte) error {
				all = append(all, entry{k, slices.Clone(v)})
				return nil
			}))
			must(t, w.d.Close())
			copied := newWorld(t, memfs.New(1), w.opt, 2)
			must(t, copied.open())
			must(t, copied.d.Fill(func(add func(Key, []byte) error) error {
				for _, e := range all {
					if err := add(e.key, e.value); err != nil {
						return err
					}
				}
				return nil
			}))
			must(t, copied.checkpoint(nil))
			must(t, copied.d.Close())
			must(t, copied.open())
			got := scanned(t, copied, copied.durable().State)
			if !maps.Equal(got.items, want.items) || len(got.damages) > 0 {
				t.Errorf("got %d entries, want %d; %q", len(got.items), len(want.items), got.damages)
			}
			must(t, copied.d.Close())
		})
	}
}
