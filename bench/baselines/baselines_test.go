package baselines

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0: another one each time")

// newRand returns a generator whose seed is logged.
func newRand(t testing.TB) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// link returns URL number n of a web in which the number of pages per site decreases.
func link(n int) Link {
	site := n % (1 + n%97)
	text := fmt.Appendf(nil, "http://www.site-%d.example/", site)
	if n%11 == 0 {
		text = append(text, "a-section-with-a-long-name/and-another-one/"...)
	}
	text = fmt.Appendf(text, "page-%d", n)
	if n%5000 == 0 {
		text = append(text, bytes.Repeat([]byte{'x'}, MaxTextBytes-len(text))...)
	}
	return Link{xxhash.Sum64(text), text}
}

// truth is the expected result of a store, and a check of its calls of Emit.
type truth struct {
	t     testing.TB
	seen  map[uint64]bool
	want  []bool // by arrival
	links []Link // by arrival
	first map[uint64]bool
	got   int64
}

func newTruth(t testing.TB) *truth {
	return &truth{t: t, seen: map[uint64]bool{}, first: map[uint64]bool{}}
}

// add must be called before Store.Add.
func (w *truth) add(links []Link) {
	for _, l := range links {
		w.want = append(w.want, !w.seen[l.Key])
		w.links = append(w.links, Link{l.Key, bytes.Clone(l.Text)})
		w.seen[l.Key] = true
	}
}

// know must be called with the loaded keys.
func (w *truth) know(links []Link) {
	for _, l := range links {
		w.seen[l.Key], w.first[l.Key] = true, true
	}
}

func (w *truth) emit(first int64, links []Link, fresh []bool) error {
	w.t.Helper()
	if len(links) == 0 || len(links) != len(fresh) {
		w.t.Fatalf("Emit of %d links with %d verdicts", len(links), len(fresh))
	}
	if first != w.got {
		w.t.Fatalf("Emit from %d, want %d", first, w.got)
	}
	for i, l := range links {
		if xxhash.Sum64(l.Text) != l.Key {
			w.t.Fatalf("link %d has key %x and text %.80q", w.got, l.Key, l.Text)
		}
		// The first emitted link of a key must be fresh, and it must be the one that arrived first.
		want := !w.first[l.Key]
		w.first[l.Key] = true
		if w.links[w.got].Key != l.Key || w.want[w.got] != want {
			w.t.Fatalf("link %d is %.80q, want %.80q", w.got, l.Text, w.links[w.got].Text)
		}
		if fresh[i] != want {
			w.t.Fatalf("link %d, %.80q: fresh is %v, want %v", w.got, l.Text, fresh[i], want)
		}
		w.got++
	}
	return nil
}

// Names returns the names of the methods.
func Names() (names []string) {
	for _, m := range Methods() {
		names = append(names, m.Name)
	}
	return names
}

// Open opens a store of the named method.
func Open(name string, o Options) (Store, error) {
	for _, m := range Methods() {
		if m.Name == name {
			return m.Open(o)
		}
	}
	panic(name)
}

// openTest opens a store with small batches on fsys.
func openTest(t testing.TB, name string, fsys disk.FS, emit func(int64, []Link, []bool) error) Store {
	t.Helper()
	s, err := Open(name, Options{FS: fsys, Dir: "d/" + name, RAMBytes: MinRAMBytes, Emit: emit})
	must(t, err)
	return s
}

// shrink reduces the batches of a store to n links.
func shrink(s Store, n int) {
	switch s := s.(type) {
	case *mercatorB:
		s.batch = s.batch[:0:min(n, cap(s.batch))]
	case *polybot:
		s.allocate(64)
		s.texts = s.texts[:0:n]
	case *mercatorA:
		s.batch = s.batch[:0:min(n, cap(s.batch))]
	}
}

// TestVerdicts: random links in batches of random sizes, with flushes, get the same verdicts as from a map.
func TestVerdicts(t *testing.T) {
	for _, name := range Names() {
		for _, batch := range []int{1, 7, 1000, 15000} {
			t.Run(fmt.Sprintf("%s/batch=%d", name, batch), func(t *testing.T) {
				rng := newRand(t)
				mem := memfs.New(1)
				w := newTruth(t)
				s := openTest(t, name, mem, w.emit)
				shrink(s, batch)
				total, skewed := min(200*batch, 40000), rng.IntN(4) == 0
				if rng.IntN(2) == 0 {
					loadSome(t, s, w, rng.IntN(total/2+1))
				}
				for len(w.links) < total {
					links := make([]Link, rng.IntN(min(total, 3*batch)))
					for i := range links {
						links[i] = link(1 + rng.IntN(total))
						if skewed && rng.IntN(10) > 0 {
							links[i] = link(1)
						}
					}
					w.add(links)
					must(t, s.Add(links))
					for _, l := range links {
						clear(l.Text) // texts are valid only during the call
					}
					if rng.IntN(8) == 0 {
						flush(t, s, w)
					}
				}
				flush(t, s, w)
				flush(t, s, w)
				if st := s.Stats(); st.Answered != int64(len(w.links)) || st.Known != int64(len(w.seen)) {
					t.Errorf("%d links, %d known: stats %+v", len(w.links), len(w.seen), st)
				}
				closeTest(t, s, name, mem)
			})
		}
	}
}

// loadSome loads n URLs.
func loadSome(t *testing.T, s Store, w *truth, n int) {
	links := make([]Link, n)
	for i := range links {
		links[i] = link(1 + 2*i)
	}
	w.know(links)
	if tl, ok := s.(TextLoader); ok {
		must(t, errors.Join(tl.LoadLinks(links[:n/3]), tl.LoadLinks(links[n/3:])))
		return
	}
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = links[i].Key
	}
	slices.Sort(keys)
	must(t, errors.Join(s.Load(keys[:n/3]), s.Load(keys[n/3:])))
}

// flush calls Flush and checks that no link waits.
func flush(t *testing.T, s Store, w *truth) {
	t.Helper()
	must(t, s.Flush(context.Background()))
	if w.got != int64(len(w.want)) {
		t.Fatalf("%d links answered of %d", w.got, len(w.want))
	}
}

// closeTest closes a store twice and checks that no file is left.
func closeTest(t *testing.T, s Store, name string, mem *memfs.FS) {
	t.Helper()
	must(t, errors.Join(s.Close(), s.Close()))
	if names, _ := mem.List("d/" + name); len(names) > 0 {
		t.Errorf("left over: %q", names)
	}
	if err := s.Add([]Link{link(1)}); !errors.Is(err, ErrClosed) {
		t.Errorf("Add after Close: got %v", err)
	}
}
