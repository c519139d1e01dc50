package damage

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// Case is an undamaged structure on disk with a state of type S. Each input of a fuzz test damages a copy
// of it.
type Case[S any] struct {
	Files Files
	Dirs  []string // directories that exist in each copy
	State []byte   // in JSON
	// AllocBytes bounds the heap allocations by the use of a damaged copy.
	AllocBytes uint64
}

// NewCase returns a Case of all files below dirs and their state.
func NewCase[S any](t testing.TB, mem *memfs.FS, dirs []string, st *S, allocBytes uint64) *Case[S] {
	t.Helper()
	state, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	files, err := Read(mem, dirs...)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no files to be damaged")
	}
	return &Case[S]{Files: files, Dirs: dirs, State: state, AllocBytes: allocBytes}
}

// Use makes a copy, damages its state by edits (see Edit) and its files by flips (see Flip), and calls use
// on it. The test fails if use allocates more than AllocBytes; use's error only explains that failure. It
// returns the names of the changed files.
func (c *Case[S]) Use(t testing.TB, edits, flips []byte, use func(fsys *memfs.FS, st *S) error) (changed []string) {
	t.Helper()
	st := c.load(t)
	Edit(st, edits)
	files, changed := c.Files.Flip(flips)
	mem, err := files.Write(c.Dirs...)
	if err != nil {
		t.Fatal(err)
	}
	if n := Allocated(func() { err = use(mem, st) }); n > c.AllocBytes {
		t.Fatalf("%d bytes allocated: %v", n, err)
	}
	return changed
}

func (c *Case[S]) load(t testing.TB) *S {
	t.Helper()
	st := new(S)
	if err := json.Unmarshal(c.State, st); err != nil {
		t.Fatal(err)
	}
	return st
}

// Sweep calls check with every script of Sweep for the state, or with every nth one unless all is true;
// check must end the test on a failure. It skips the test in short mode, which the race detector uses: there
// is only one goroutine.
func (c *Case[S]) Sweep(t *testing.T, nth int, all bool, check func(t *testing.T, edits, flips []byte)) {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine: nothing for the race detector")
	}
	var script []byte
	defer func() {
		if t.Failed() {
			st := c.load(t)
			Edit(st, script)
			state, err := json.Marshal(st)
			t.Logf("script %v: %s, %v", script, state, err)
		}
	}()
	for i, s := range Sweep(c.load(t)) {
		if script = s; all || i%nth == 0 {
			check(t, script, nil)
		}
	}
}

// Seeds calls add with the first inputs of a fuzz test of a Case: no damage, changed bytes near the start of
// a file and far from it, truncated files, changed numbers and lists of the state. With -short they are half as many.
func Seeds(add func(edits, flips []byte)) {
	add([]byte{}, []byte{})
	n := byte(16)
	if testing.Short() {
		n = 8 // each bit of a byte
	}
	for i := range n {
		bit := byte(1) << (i % 8)
		add([]byte{}, []byte{i, 41 + 7*i, 0, 0, 0, bit})
		add([]byte{}, []byte{i, 41 * i, i % 4 * 16, 0, 0, bit, i, 0, 16, 0, 0, 0x80})
		add([]byte{}, []byte{i, 0x20 * i, 1, 0, 0x80, 1}) // cut
		add([]byte{3 * i, 0, i, i, 0, 0, 0, 0, 0, 0, 0, 5 * i, 0, 2, i, 0, 0, 0, 0, 0, 0, 0}, []byte{})
	}
}

// Fuzz runs the fuzz test of a Case with check, starting from the inputs of Seeds.
func Fuzz(f *testing.F, check func(t *testing.T, edits, flips []byte)) {
	f.Helper()
	Seeds(func(edits, flips []byte) { f.Add(edits, flips) })
	f.Fuzz(check)
}

// Verdict checks the result of reading damaged files, got or err. The test fails unless err names one of the
// changed files, or got equals written. how describes the read in the failure message.
func Verdict(t testing.TB, how string, changed []string, err error, got, written []string) {
	t.Helper()
	switch {
	case err != nil && !Named(err, changed):
		t.Fatalf("%s: %v names none of %v", how, err, changed)
	case err == nil && !slices.Equal(got, written):
		t.Fatalf("%s: no damage found in %v but %d records, want %d", how, changed, len(got), len(written))
	}
}

// Named reports whether err is a *disk.CorruptError of one of the files.
func Named(err error, files []string) bool {
	var corrupt *disk.CorruptError
	return errors.As(err, &corrupt) && slices.Contains(files, corrupt.Path)
}
