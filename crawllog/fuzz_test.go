package crawllog

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/damage"
)

// fuzzAllocBytes bounds what reading the small files of the fuzz tests may take from the heap: mostly zstd's windows.
const fuzzAllocBytes = 256 << 20

// soundLog is a checkpointed log: an open file with whole frames, and lines behind them in a tail.
type soundLog struct {
	files   damage.Files
	state   []byte // in JSON
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
	mem := disk.NewMem(1)
	for _, dir := range fuzzDirs {
		must(mem.MkdirAll(dir))
	}
	opt := fuzzOptions(mem)
	l, err := Open(opt, nil)
	must(err)
	for i := range 600 {
		e := sample()
		e.Bytes, e.Time = int64(i)+1, when.Add(time.Duration(i)*time.Second)
		e.URL = fmt.Sprintf("https://example.org/%x/%s", uint64(i)*0x9e3779b97f4a7c15, strings.Repeat("x", i%90))
		must(l.Append(&e))
		if i == 200 { // a closed file that isn't final yet
			must(l.Roll(e.Time))
		}
	}
	tails, err := disk.CreateTails(opt.State, 1)
	must(err)
	st, err := l.Freeze().Save(tails)
	must(errors.Join(err, tails.Close()))
	s := &soundLog{}
	s.entries, err = walked(opt, st)
	must(err)
	s.state, err = json.Marshal(st)
	must(err)
	s.files, err = damage.Read(mem, fuzzDirs...)
	must(err)
	if len(s.entries) != 600 || len(st.Files.Volumes) != 2 || st.Lines.Len == 0 {
		f.Fatalf("%d entries, %s", len(s.entries), s.state)
	}
	return s
}

func walked(opt Options, st *State) (entries []string, err error) {
	err = Walk(opt, st, func(e *Entry) error {
		entries = append(entries, string(e.Append(nil)))
		return nil
	})
	return entries, err
}

// FuzzFiles damages the files and the state of a log. Damaged files: found, or as they were; nothing that was not written is
// read. Damaged states: no panic, no large allocation, an end.
func FuzzFiles(f *testing.F) {
	s := newSoundLog(f)
	f.Add([]byte{}, []byte{})
	for i := range byte(12) {
		f.Add([]byte{}, []byte{i, 41 + 7*i, 3 * i, 0, 0, 1 << (i % 8)})
		f.Add([]byte{}, []byte{i, 0x20 * i, 1, 0, 0x80, 1}) // cut
		f.Add([]byte{i, 0, i, i, 0, 0, 0, 0, 0, 0, 0, 5 * i, 0, 2, i, 0, 0, 0, 0, 0, 0, 0}, []byte{})
	}
	f.Fuzz(s.check)
}

// TestStates does everything that damage.Edit can do to the state, one at a time.
func TestStates(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: nothing for the race detector")
	}
	s := newSoundLog(t)
	var st State
	if err := json.Unmarshal(s.state, &st); err != nil {
		t.Fatal(err)
	}
	for i, script := range damage.Sweep(&st) {
		if *longFlag || i%4 == 0 {
			s.check(t, script, nil)
		}
	}
}

func (s *soundLog) check(t *testing.T, edits, flips []byte) {
	var st State
	if err := json.Unmarshal(s.state, &st); err != nil {
		t.Fatal(err)
	}
	damage.Edit(&st, edits)
	files, changed := s.files.Flip(flips)
	mem, err := files.Write(fuzzDirs...)
	if err != nil {
		t.Fatal(err)
	}
	var entries []string
	n := damage.Allocated(func() {
		entries, err = walked(fuzzOptions(mem), &st)
		if l, err := Open(fuzzOptions(mem), &st); err == nil {
			e := sample()
			l.Append(&e)
			l.Freeze()
			l.Close()
		}
	})
	if n > fuzzAllocBytes {
		t.Fatalf("%d bytes allocated: %v", n, err)
	}
	if len(edits) > 0 {
		return
	}
	if err == nil && !slices.Equal(entries, s.entries) {
		t.Fatalf("no damage found in %v but %d entries, want %d", changed, len(entries), len(s.entries))
	}
	for i, e := range entries {
		if e != s.entries[i] {
			t.Fatalf("entry %d was not written: %s, damage %v", i, e, err)
		}
	}
}
