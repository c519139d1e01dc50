package drum

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/damage"
)

// fuzzAllocBytes bounds the heap memory for reading the small stores of the fuzz tests. Most of it is
// bitmaps of 32 MiB, which the walk allocates for the number of texts that a state claims.
const fuzzAllocBytes = 80 << 20

// soundStore is a checkpointed store in the middle of a pass: parts, sealed and open inputs, buffers, and
// with text logs lists of uniques that are being streamed.
type soundStore struct {
	*damage.Case[State]
	kind string
	// walked and scanned are the results of the walks and of a scan: entries and waiting tuples or texts,
	// with their counts. A scan also finds the texts found known.
	walked, scanned map[string]int
}

var errStopHere = errors.New("stop here")

func newSoundStore(f testing.TB, kind string, dirs int) *soundStore {
	mem := memfs.New(1)
	w := newWorld(f, mem, small(kinds[kind]), dirs)
	w.opt.BucketBytes, w.opt.Name = 4<<10, "s"
	var left atomic.Int64
	left.Store(1 << 30)
	w.opt.Reserve = func(int64) (func(), error) {
		if left.Add(-1) < 0 {
			return nil, errStopHere
		}
		return func() {}, nil
	}
	must(f, w.open())
	defer func() { w.d.Close() }()
	rng := rand.New(rand.NewPCG(1, 2))
	batch := func(n int) {
		for range n {
			must(f, w.add(w.tuples(rng, 20)))
		}
	}
	batch(15)
	_, err := w.d.Pass(context.Background(), true)
	must(f, err)
	batch(50)
	ctx, cancel := context.WithCancel(context.Background())
	if w.opt.logged() { // up to and including some streaming
		w.cancel, w.cancelIn = cancel, 2
		if _, err = w.d.Pass(ctx, true); !errors.Is(err, context.Canceled) {
			f.Fatal(err)
		}
	} else { // up to the middle of a bucket
		left.Store(3)
		if _, err = w.d.Pass(ctx, true); !errors.Is(err, errStopHere) {
			f.Fatal(err)
		}
	}
	cancel()
	batch(5)
	must(f, w.checkpoint(nil))
	m := w.durable()
	must(f, w.set.FS.Remove(manifestName))
	s := &soundStore{kind: kind, Case: damage.NewCase(f, mem, w.set.Paths, m.State, fuzzAllocBytes)}
	var found Found
	s.scanned, found, err = scanItems(w.set, m.State, nil)
	must(f, err)
	s.walked, err = walkItems(w.set, m.State)
	must(f, err)
	st := m.State
	if found.Damaged() || len(st.Parts) == 0 || len(st.Inputs) == 0 || len(st.Buffered) == 0 ||
		w.opt.logged() && (len(st.Uniques) == 0 || st.Unstreamed == 0) ||
		!w.opt.logged() && !slices.ContainsFunc(st.Inputs,
			func(is InputState) bool { return is.Sealed && is.Aux.Bytes > 0 }) {
		f.Fatalf("%s: %+v, %s", kind, found, s.State)
	}
	return s
}

// scanItems returns everything that ScanState finds.
func scanItems(set disk.Set, st *State, damaged func(error) error) (map[string]int, Found, error) {
	items := map[string]int{}
	found, err := ScanState(set, "s", st, Scan{
		SpanBytes: 64,
		Entry:     func(key Key, value []byte) error { items[fmt.Sprintf("entry %x %x", key, value)]++; return nil },
		Tuple:     func(t Tuple) error { items[tupleItem(t)]++; return nil },
		Text: func(aux []byte, unique bool) error {
			items["text "+string(aux)]++
			if unique {
				items["unique "+string(aux)]++
			}
			return nil
		},
		Damaged: damaged,
	})
	return items, found, err
}

func tupleItem(t Tuple) string { return fmt.Sprintf("tuple %x %d %x %s", t.Key, t.Op, t.Value, t.Aux) }

// walkItems returns everything that walk, walkCache and walkUniques find.
func walkItems(set disk.Set, st *State) (items map[string]int, err error) {
	items = map[string]int{}
	err = walkCache(set, "s", st, func(key Key, value []byte) error {
		items[fmt.Sprintf("entry %x %x", key, value)]++
		return nil
	})
	errWalk := walk(set, "s", st, func(t Tuple) error {
		if st.Aux == AuxLog {
			items["text "+string(t.Aux)]++
		} else {
			items[tupleItem(t)]++
		}
		return nil
	})
	errUniques := walkUniques(set, "s", st, func(aux []byte) error { items["unique "+string(aux)]++; return nil })
	return items, errors.Join(err, errWalk, errUniques)
}

// merge opens the store, adds to it, merges everything and frees the memory.
func (s *soundStore) merge(set disk.Set, st *State) error {
	opt := small(kinds[s.kind])
	opt.Set, opt.Name, opt.BucketBytes = set, "s", 4<<10
	d, err := Open(opt, st)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Add([]Tuple{{Key: 1, Op: CheckUpdate, Aux: []byte("0")}, {Key: 1 << 63, Op: CheckUpdate}}); err != nil {
		return err
	}
	if _, err = d.Pass(context.Background(), true); err != nil {
		return err
	}
	d.Freeze()
	return nil
}

// FuzzFiles damages the files and the state of a store. With damaged files, the walks and a merge must read
// the original data or return an error that names the file. A scan must continue after the damage and
// return only original data. With damaged states, they must end without a panic or a large allocation.
func FuzzFiles(f *testing.F) {
	stores := []*soundStore{newSoundStore(f, "variable", 2), newSoundStore(f, "log", 2), newSoundStore(f, "seen", 1)}
	for kind := range uint8(3) {
		damage.Seeds(func(edits, flips []byte) { f.Add(kind, edits, flips) })
	}
	f.Fuzz(func(t *testing.T, kind uint8, edits, flips []byte) { stores[kind%3].check(t, edits, flips) })
}

// TestStates applies every edit that damage.Edit offers to the states, one at a time; without -long an
// eighth of them.
func TestStates(t *testing.T) {
	for _, kind := range []string{"variable", "log"} {
		s := newSoundStore(t, kind, 2)
		s.Sweep(t, 8, *longFlag, s.check)
	}
}

// check checks the property of FuzzFiles.
func (s *soundStore) check(t *testing.T, edits, flips []byte) {
	var walked, scanned map[string]int
	var found Found
	var errs [3]error
	var damages []error
	changed := s.Use(t, edits, flips, func(fsys *memfs.FS, st *State) error {
		set := disk.Set{FS: fsys, Paths: s.Dirs}
		walked, errs[0] = walkItems(set, st)
		scanned, found, errs[1] = scanItems(set, st,
			func(err error) error { damages = append(damages, err); return nil })
		errs[2] = s.merge(set, st)
		return errors.Join(errs[:]...)
	})
	if len(edits) > 0 {
		return
	}
	for i, err := range errs {
		if err != nil && !damage.Named(err, changed) {
			t.Fatalf("%d: %v names none of %v", i, err, changed)
		}
	}
	if len(damages) > 0 && !slices.ContainsFunc(damages, func(err error) bool { return damage.Named(err, changed) }) {
		t.Fatalf("scan: %v name none of %v", damages, changed)
	}
	if errs[0] == nil && !maps.Equal(walked, s.walked) {
		t.Fatalf("walk: no damage found in %v but %d items, want %d", changed, len(walked), len(s.walked))
	}
	for item, n := range scanned {
		if s.scanned[item] < n {
			t.Fatalf("scan: %q %d times, was written %d times; damage %v", item, n, s.scanned[item], damages)
		}
	}
	if len(damages) == 0 && errs[1] == nil && (!maps.Equal(scanned, s.scanned) || found.Damaged()) {
		t.Fatalf("scan: no damage reported in %v but %+v, %d items, want %d", changed, found, len(scanned),
			len(s.scanned))
	}
}
