package beast_test

import (
	"errors"
	"fmt"
	"testing"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/damage"
)

// fuzzAllocBytes bounds the heap memory for reading the small files of the fuzz tests.
const fuzzAllocBytes = 64 << 20

var fuzzDirs = []string{"d0", "d1"}

// soundBeast is a checkpointed Beast in the middle of a scan of QF.
type soundBeast struct {
	*damage.Case[beast.State]
	records []string
}

func newSoundBeast(f testing.TB) *soundBeast {
	must := func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	mem, err := damage.Files{}.Write(fuzzDirs...)
	must(err)
	set := disk.Set{FS: mem, Paths: fuzzDirs}
	b, err := beast.Open(fuzzOptions(set), nil)
	must(err)
	for i := range 200 {
		n := beast.Number(i%3 + 1)
		if i%5 == 0 {
			n = beast.OverBudget
		}
		must(b.Append(n, []byte(record(i, i%7, 20+i%40))))
	}
	for range 70 {
		if _, ok, err := b.Peek(); !ok || err != nil {
			break
		}
		b.Advance()
	}
	tails, err := disk.CreateTails(set, 1)
	must(err)
	fr := b.Freeze()
	st, err := fr.Save(tails)
	must(errors.Join(err, tails.Close()))
	s := &soundBeast{Case: damage.NewCase(f, mem, fuzzDirs, st, fuzzAllocBytes)}
	s.records, err = walked(set, st)
	must(err)
	if len(s.records) < 100 || len(s.Files) < 4 {
		f.Fatalf("%d records, %d files", len(s.records), len(s.Files))
	}
	return s
}

func fuzzOptions(set disk.Set) beast.Options {
	return beast.Options{Set: set, BlockBytes: 256, SegmentBytes: 4096, QueuesMax: 64}
}

func walked(set disk.Set, st *beast.State) (records []string, err error) {
	_, _, err = beast.Scan(set, "beast", st, func(_ int, n beast.Number, rec []byte) error {
		records = append(records, fmt.Sprintf("%d %x", n, rec))
		return nil
	}, nil)
	return records, err
}

// FuzzFiles damages the files and the state of a Beast. With damaged files, the result must be the original
// data or an error that names the file. With damaged states, there must be no panic, no large allocation
// and no endless loop.
func FuzzFiles(f *testing.F) { damage.Fuzz(f, newSoundBeast(f).check) }

// TestStates applies every edit that damage.Edit offers to the state, one at a time; without -long some of
// them.
func TestStates(t *testing.T) {
	s := newSoundBeast(t)
	s.Sweep(t, 4, *longFlag, s.check)
}

func (s *soundBeast) check(t *testing.T, edits, flips []byte) {
	var records []string
	var err error
	changed := s.Use(t, edits, flips, func(fsys *memfs.FS, st *beast.State) error {
		set := disk.Set{FS: fsys, Paths: fuzzDirs}
		records, err = walked(set, st)
		b, errOpen := beast.Open(fuzzOptions(set), st)
		if errOpen != nil {
			return err
		}
		for range 1000 {
			if _, ok, err := b.Peek(); !ok || err != nil {
				break
			}
			b.Advance()
		}
		l := beast.Ledger{Fill: beast.Fill{Next: 3, Used: 9}}
		if n := b.Place(&l, 10); b.Append(n, []byte("x")) == nil {
			b.Freeze()
		}
		b.Close()
		return err
	})
	if len(edits) == 0 {
		damage.Verdict(t, "Scan", changed, err, records, s.records)
	}
}
