package beast_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/internal/damage"
)

// fuzzAllocBytes bounds what reading the small files of the fuzz tests may take from the heap.
const fuzzAllocBytes = 64 << 20

var fuzzDirs = []string{"d0", "d1"}

// soundBeast is a checkpointed Beast in the middle of a scan of QF.
type soundBeast struct {
	files   damage.Files
	state   []byte // in JSON
	records []string
}

func newSoundBeast(f testing.TB) *soundBeast {
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
	b, err := beast.Open(fuzzOptions(set), nil)
	must(err)
	for i := range 200 {
		n := beast.Number(i%3 + 1)
		if i%5 == 0 {
			n = beast.Failed
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
	s := &soundBeast{}
	s.records, err = walked(set, st)
	must(err)
	s.state, err = json.Marshal(st)
	must(err)
	s.files, err = damage.Read(mem, fuzzDirs...)
	must(err)
	if len(s.records) < 100 || len(s.files) < 4 {
		f.Fatalf("%d records, %d files", len(s.records), len(s.files))
	}
	return s
}

func fuzzOptions(set disk.Set) beast.Options {
	return beast.Options{Set: set, BlockBytes: 256, SegmentBytes: 4096, QueuesMax: 64}
}

func walked(set disk.Set, st *beast.State) (records []string, err error) {
	err = beast.Walk(set, "beast", st, func(n beast.Number, rec []byte) error {
		records = append(records, fmt.Sprintf("%d %x", n, rec))
		return nil
	})
	return records, err
}

// FuzzFiles damages the files and the state of a Beast. Damaged files: found, naming the file, or as they were. Damaged
// states: no panic, no large allocation, an end.
func FuzzFiles(f *testing.F) {
	s := newSoundBeast(f)
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
	s := newSoundBeast(t)
	var st beast.State
	if err := json.Unmarshal(s.state, &st); err != nil {
		t.Fatal(err)
	}
	for i, script := range damage.Sweep(&st) {
		if *longFlag || i%4 == 0 {
			s.check(t, script, nil)
		}
	}
}

func (s *soundBeast) check(t *testing.T, edits, flips []byte) {
	var st beast.State
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
	var records []string
	n := damage.Allocated(func() {
		records, err = walked(set, &st)
		b, err := beast.Open(fuzzOptions(set), &st)
		if err != nil {
			return
		}
		for range 1000 {
			if _, ok, err := b.Peek(); !ok || err != nil {
				break
			}
			b.Advance()
		}
		l := beast.Ledger{Next: 3, Used: 9}
		if n := b.Place(&l, 10); b.Append(n, []byte("x")) == nil {
			b.Freeze()
		}
		b.Close()
	})
	if n > fuzzAllocBytes {
		t.Fatalf("%d bytes allocated: %v", n, err)
	}
	if len(edits) > 0 {
		return
	}
	var corrupt *disk.CorruptError
	if err != nil && (!errors.As(err, &corrupt) || !slices.Contains(changed, corrupt.Path)) {
		t.Fatalf("%v names none of %v", err, changed)
	}
	if err == nil && !slices.Equal(records, s.records) {
		t.Fatalf("no damage found in %v but %d records, want %d", changed, len(records), len(s.records))
	}
}
