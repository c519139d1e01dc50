package star_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/damage"
	"drumbeat/star"
)

// fuzzAllocBytes bounds what reading the small files of the fuzz tests may take from the heap.
const fuzzAllocBytes = 96 << 20

var fuzzDirs = []string{"d0", "d1"}

// soundStar is a checkpointed Star: merged edges and PLDs, waiting ones, a ranking.
type soundStar struct {
	files damage.Files
	state []byte // in JSON
	items map[string]int
}

func fuzzOptions(set disk.Set) star.Options {
	small := drum.Options{Buckets: 4, BufferBytes: 4096, BucketBytes: 16 << 10}
	return star.Options{
		Set: set, Edges: small, Indegree: small,
		EdgeKey: func(x, y uint64) uint64 { return (x*31 + y) * 0x9e3779b97f4a7c15 },
		Place: func(l *[star.LedgerBytes]byte, _ uint32) int64 {
			n := binary.LittleEndian.Uint64(l[:]) % 1000
			binary.LittleEndian.PutUint64(l[:], n+1)
			return int64(n)
		},
		Emit: func([]star.Placed) error { return nil },
	}
}

func newSoundStar(f testing.TB) *soundStar {
	must := func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	mem := disk.NewMem(1)
	for _, dir := range fuzzDirs {
		must(mem.MkdirAll(dir))
	}
	set := disk.Set{FS: mem, Paths: fuzzDirs}
	s, err := star.Open(fuzzOptions(set), nil)
	must(err)
	defer s.Close()
	pld := func(i int) uint64 { return uint64(i%37) * 0x9e3779b97f4a7c15 }
	batch := func(n int) {
		for i := range n {
			must(s.AddEdges([]star.Edge{{From: pld(i), To: pld(i * i)}, {From: pld(3 * i), To: pld(7)}}))
			must(s.Check([]star.CheckTuple{{PLD: pld(5 * i), Aux: fmt.Appendf(nil, "url %d of some length", i)}}))
			must(s.Fetched(pld(i), 1, 1000))
		}
	}
	batch(300)
	for range 2 {
		_, err = s.Pass(context.Background(), true)
		must(err)
	}
	batch(300)
	s.Pause()
	fr := s.Freeze()
	s.Resume()
	tails, err := disk.CreateTails(set, 1)
	must(err)
	st, err := fr.Save(tails)
	must(errors.Join(err, tails.Close()))
	sound := &soundStar{}
	sound.items, err = walked(set, st)
	must(err)
	sound.state, err = json.Marshal(st)
	must(err)
	sound.files, err = damage.Read(mem, fuzzDirs...)
	must(err)
	if len(sound.items) < 330 || st.Ranking.Len < 100 {
		f.Fatalf("%d items, %s", len(sound.items), sound.state)
	}
	return sound
}

func walked(set disk.Set, st *star.State) (map[string]int, error) {
	items := map[string]int{}
	err := star.WalkChecks(set, "pld", st, func(aux []byte) error { items[string(aux)]++; return nil })
	return items, errors.Join(err, star.WalkPLDs(set, "pld", st, func(pld uint64, record star.PLD) error {
		items[fmt.Sprintf("%x %+v", pld, record)]++
		return nil
	}))
}

// FuzzFiles damages the files and the state of a Star. Damaged files: found, naming the file, or as they were. Damaged
// states: no panic, no large allocation, an end.
func FuzzFiles(f *testing.F) {
	s := newSoundStar(f)
	f.Add([]byte{}, []byte{})
	for i := range byte(8) {
		f.Add([]byte{}, []byte{i, 41 + 7*i, 0, 0, 0, 1 << i})
		f.Add([]byte{3 * i, 0, i, i, 0, 0, 0, 0, 0, 0, 0, 5 * i, 0, 2, i, 0, 0, 0, 0, 0, 0, 0}, []byte{})
	}
	f.Fuzz(s.check)
}

// TestStates does everything that damage.Edit can do to the state, one at a time.
func TestStates(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: nothing for the race detector")
	}
	s := newSoundStar(t)
	var st star.State
	if err := json.Unmarshal(s.state, &st); err != nil {
		t.Fatal(err)
	}
	for i, script := range damage.Sweep(&st) {
		if *longFlag || i%16 == 0 {
			s.check(t, script, nil)
		}
	}
}

func (s *soundStar) check(t *testing.T, edits, flips []byte) {
	var st star.State
	if err := json.Unmarshal(s.state, &st); err != nil {
		t.Fatal(err)
	}
	damage.Edit(&st, edits)
	files, changed := s.files.Flip(flips)
	mem, err := files.Write(fuzzDirs...)
	if err != nil {
		t.Fatal(err)
	}
	set := disk.Set{FS: mem, Paths: fuzzDirs}
	var items map[string]int
	var errOpen error
	n := damage.Allocated(func() {
		items, err = walked(set, &st)
		var opened *star.Star
		if opened, errOpen = star.Open(fuzzOptions(set), &st); errOpen != nil {
			return
		}
		_, errOpen = opened.Pass(context.Background(), true)
		opened.Refresh()
		opened.Freeze()
		opened.Close()
	})
	if n > fuzzAllocBytes {
		t.Fatalf("%d bytes allocated: %v, %v", n, err, errOpen)
	}
	if len(edits) > 0 {
		return
	}
	for _, err := range []error{err, errOpen} {
		var corrupt *disk.CorruptError
		if err != nil && (!errors.As(err, &corrupt) || !slices.Contains(changed, corrupt.Path)) {
			t.Fatalf("%v names none of %v", err, changed)
		}
	}
	if err == nil && !maps.Equal(items, s.items) {
		t.Fatalf("no damage found in %v but %d items, want %d", changed, len(items), len(s.items))
	}
}
