package memfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"testing"

	"drumbeat/disk"
)

// TestMemForkIsApart forks a file system before each of many random operations. Later operations on one must
// not show in the other, and a crash of a fork must leave the same as a crash of another fork of that moment.
func TestMemForkIsApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(*seedFlag, 5))
	t.Logf("seed %d", *seedFlag)
	m := New(*seedFlag)
	type copied struct {
		kept, a, b *FS
		content    map[string]string
	}
	var all []copied
	var steps []Step
	now := map[string]string{} // the expected content of the files
	m.Watch(func(s Step, fork func(uint64) *FS) {
		steps = append(steps, s)
		seed := uint64(s.Number)
		all = append(all, copied{kept: fork(seed), a: fork(seed), b: fork(seed), content: maps.Clone(now)})
	})
	must(t, m.MkdirAll("d"))
	files := map[string]disk.File{}
	for range 300 {
		name := fmt.Sprintf("d/f%d", rng.IntN(6))
		switch f := files[name]; {
		case f == nil:
			files[name] = mustCreate(t, m, name)
			now[name] = ""
		case rng.IntN(10) == 0:
			must(t, m.Remove(name))
			delete(files, name)
			delete(now, name)
		case rng.IntN(8) == 0:
			must(t, f.Sync())
		case rng.IntN(12) == 0:
			must(t, m.SyncFS("d"))
		default:
			p := bytes.Repeat([]byte{byte('a' + rng.IntN(26))}, 1+rng.IntN(6000))
			at := rng.IntN(len(now[name]) + 1)
			mustWrite(t, f, p, int64(at))
			text := []byte(now[name])
			now[name] = string(append(text[:at:at], p...))
			if end := at + len(p); end < len(text) {
				now[name] += string(text[end:])
			}
		}
	}
	if last := m.Last(); len(steps) == 0 || last != steps[len(steps)-1] || last.Number != m.Ops() {
		t.Errorf("last step %+v of %d, want the last one watched", last, m.Ops())
	}
	for i, c := range all {
		for name, text := range c.content {
			if got := string(content(t, c.kept, name)); got != text {
				t.Fatalf("seed %d: fork %d: %s changed after the fork", *seedFlag, i, name)
			}
			f, err := c.kept.Open(name)
			must(t, err)
			mustWrite(t, f, []byte("changed"), 0)
		}
		if a, b := tree(t, c.a.Crash()), tree(t, c.b.Crash()); !maps.Equal(a, b) {
			t.Fatalf("seed %d: fork %d: crashes of two forks leave %d and %d files, or differ", *seedFlag, i,
				len(a), len(b))
		}
	}
	for name, text := range now {
		if got := string(content(t, m, name)); got != text {
			t.Errorf("seed %d: %s was changed through a fork", *seedFlag, name)
		}
	}
}

// tree returns the files of a flat directory d by name.
func tree(t *testing.T, m *FS) map[string]string {
	t.Helper()
	files := map[string]string{}
	names, err := m.List("d")
	if errors.Is(err, fs.ErrNotExist) {
		return files
	}
	must(t, err)
	for _, name := range names {
		files[name] = string(content(t, m, "d/"+name))
	}
	return files
}
