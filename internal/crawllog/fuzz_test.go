package crawllog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/damage"
)

// fuzzAllocBytes bounds the heap allocations for reading the small files of the fuzz tests: mostly zstd's
// windows.
const fuzzAllocBytes = 256 << 20

// soundLog is a checkpointed log: an open file with whole frames, and further lines in a tail.
type soundLog struct {
	*damage.Case[State]
	entries []string
}

var fuzzDirs = []string{"/out", "/state"}

func fuzzOptions(fsys disk.FS) Options {
	return Options{Set: disk.Set{FS: fsys, Paths: fuzzDirs[:1]}, State: disk.Set{FS: fsys, Paths: fuzzDirs[1:]},
		FileBytes: 100_000, BlockBytes: minBlock}
}

func newSoundLog(f testing.TB) *soundLog {
	must := func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	mem, err := damage.Files{}.Write(fuzzDirs...)
	must(err)
	opt := fuzzOptions(mem)
	l, err := Open(opt, nil)
	must(err)
	for i := range 600 {
		e := sample()
		e.Bytes, e.Time = int64(i)+1, when.Add(time.Duration(i)*time.Second)
		e.URL = fmt.Sprintf("https://example.org/%x/%s", uint64(i)*0x9e3779b97f4a7c15, strings.Repeat("x", i%90))
		must(l.Append(&e))
		if i == 200 { // a closed file that is not final yet
			must(l.Roll(e.Time))
		}
	}
	tails, err := disk.CreateTails(opt.State, 1)
	must(err)
	st, err := l.Freeze().Save(tails)
	must(errors.Join(err, tails.Close()))
	s := &soundLog{Case: damage.NewCase(f, mem, fuzzDirs, st, fuzzAllocBytes)}
	s.entries, err = walked(opt, st)
	must(err)
	if len(s.entries) != 600 || len(st.Files.Volumes) != 2 || st.Lines.Len == 0 {
		f.Fatalf("%d entries, %s", len(s.entries), s.State)
	}
	return s
}

func walked(opt Options, st *State) (entries []string, err error) {
	_, err = Scan(opt, st, func(e *Entry) error {
		entries = append(entries, string(e.Append(nil)))
		return nil
	}, func(err error) error { return err })
	return entries, err
}

// FuzzFiles damages the files and the state of a log. Damaged files: an error, or the written entries.
// Damaged states: no panic, no large allocation, no endless loop.
func FuzzFiles(f *testing.F) { damage.Fuzz(f, newSoundLog(f).check) }

// TestStates applies each single step of damage.Edit to the state; without -long only some of them.
func TestStates(t *testing.T) {
	s := newSoundLog(t)
	s.Sweep(t, 4, *longFlag, s.check)
}

func (s *soundLog) check(t *testing.T, edits, flips []byte) {
	var entries []string
	var err error
	changed := s.Use(t, edits, flips, func(fsys *memfs.FS, st *State) error {
		entries, err = walked(fuzzOptions(fsys), st)
		if l, err := Open(fuzzOptions(fsys), st); err == nil {
			e := sample()
			l.Append(&e)
			l.Freeze()
			l.Close()
		}
		return err
	})
	if len(edits) > 0 {
		return
	}
	if err == nil && !slices.Equal(entries, s.entries) {
		t.Fatalf("no error for damage in %v and %d entries, want %d", changed, len(entries), len(s.entries))
	}
	for i, e := range entries {
		if e != s.entries[i] {
			t.Fatalf("entry %d was not written: %s, damage %v", i, e, err)
		}
	}
}
