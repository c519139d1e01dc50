package star_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/internal/damage"
	"drumbeat/star"
)

// fuzzAllocBytes bounds the heap memory for reading the small files of the fuzz tests.
const fuzzAllocBytes = 96 << 20

var fuzzDirs = []string{"d0", "d1"}

// soundStar is a checkpointed Star with merged and waiting edges and PLDs, and a ranking.
type soundStar struct {
	*damage.Case[star.State]
	items []string // in order
}

func fuzzOptions(set disk.Set) star.Options {
	small := drum.Options{Buckets: 4, BufferBytes: 4096, BucketBytes: 16 << 10}
	return star.Options{
		Set: set, Edges: small, Indegree: small,
		Place: func(l *[star.LedgerBytes]byte, _ uint32, _, _ uint8) int64 {
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
	mem, err := damage.Files{}.Write(fuzzDirs...)
	must(err)
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
	sound := &soundStar{Case: damage.NewCase(f, mem, fuzzDirs, st, fuzzAllocBytes)}
	sound.items, err = walked(set, st)
	must(err)
	if len(sound.items) < 330 || st.Ranking.Len < 100 {
		f.Fatalf("%d items, %s", len(sound.items), sound.State)
	}
	return sound
}

func walked(set disk.Set, st *star.State) (items []string, err error) {
	err = star.WalkChecks(set, "pld", st, func(aux []byte) error { items = append(items, string(aux)); return nil })
	err = errors.Join(err, star.WalkPLDs(set, "pld", st, func(pld uint64, record star.PLD) error {
		items = append(items, fmt.Sprintf("%x %+v", pld, record))
		return nil
	}))
	slices.Sort(items)
	return items, err
}

// FuzzFiles damages the files and the state of a Star. With damaged files, the result must be the original
// data or an error that names the file. With damaged states, there must be no panic, no large allocation
// and no endless loop.
func FuzzFiles(f *testing.F) { damage.Fuzz(f, newSoundStar(f).check) }

// TestStates applies every edit that damage.Edit offers to the state, one at a time; without -long some of
// them.
func TestStates(t *testing.T) {
	s := newSoundStar(t)
	s.Sweep(t, 16, *longFlag, s.check)
}

func (s *soundStar) check(t *testing.T, edits, flips []byte) {
	var items []string
	var errWalk, errPass error
	changed := s.Use(t, edits, flips, func(fsys *memfs.FS, st *star.State) error {
		set := disk.Set{FS: fsys, Paths: fuzzDirs}
		items, errWalk = walked(set, st)
		var opened *star.Star
		if opened, errPass = star.Open(fuzzOptions(set), st); errPass == nil {
			_, errPass = opened.Pass(context.Background(), true)
			opened.Refresh()
			opened.Freeze()
			opened.Close()
		}
		return errors.Join(errWalk, errPass)
	})
	if len(edits) > 0 {
		return
	}
	damage.Verdict(t, "walks", changed, errWalk, items, s.items)
	damage.Verdict(t, "a pass", changed, errPass, nil, nil)
}
