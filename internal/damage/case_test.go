package damage

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// sample is a state that the tests edit.
type sample struct{ N, Parts int64 }

// failing is a test that notes how it failed and continues.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper()                           {}
func (f *failing) Fatalf(format string, args ...any) { f.said += fmt.Sprintf(format, args...) }

func newSample(t *testing.T, allocBytes uint64) *Case[sample] {
	mem, err := Files{"d/f": []byte("written")}.Write("d")
	if err != nil {
		t.Fatal(err)
	}
	return NewCase(t, mem, []string{"d"}, &sample{N: 5}, allocBytes)
}

func TestUse(t *testing.T) {
	c := newSample(t, 1<<20)
	flips := []byte{0, 2, 0, 0, 0, 1}
	for range 2 { // one copy's damage isn't the next one's
		changed := c.Use(t, []byte{1, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0}, flips, func(fsys *memfs.FS, st *sample) error {
			data, err := disk.ReadFile(fsys, "d/f")
			if string(data) != "wrhtten" || *st != (sample{5, 9}) {
				t.Errorf("got %q, %+v, %v", data, st, err)
			}
			return err
		})
		if len(changed) != 1 || changed[0] != "d/f" {
			t.Errorf("changed: got %v, want d/f", changed)
		}
	}
	f := &failing{TB: t}
	c.Use(f, nil, nil, func(*memfs.FS, *sample) error {
		big := make([]byte, 2<<20)
		return fmt.Errorf("%d bytes were wanted", len(big))
	})
	if !strings.Contains(f.said, "2097152 bytes were wanted") {
		t.Errorf("2 MiB taken of 1 MiB: said %q", f.said)
	}
}

func TestVerdict(t *testing.T) {
	corrupt := fmt.Errorf("x: %w", &disk.CorruptError{Path: "a"})
	for _, c := range []struct {
		changed []string
		err     error
		got     []string
		fails   bool
	}{
		{nil, nil, []string{"r"}, false},
		{[]string{"a"}, nil, []string{"r"}, false}, // damage in a part that is not read
		{[]string{"a"}, nil, []string{"s"}, true},
		{[]string{"b", "a"}, corrupt, nil, false},
		{[]string{"b"}, corrupt, nil, true},
		{nil, corrupt, nil, true},
		{[]string{"a"}, errors.New("a"), nil, true},
	} {
		f := &failing{TB: t}
		if Verdict(f, "x", c.changed, c.err, c.got, []string{"r"}); (f.said != "") != c.fails {
			t.Errorf("%+v: said %q", c, f.said)
		}
	}
}

func TestSweepDoesAllOrEveryNth(t *testing.T) {
	c, scripts := newSample(t, 1<<20), map[string]bool{}
	if testing.Short() {
		t.Skip("Sweep does nothing under the race detector")
	}
	note := func(_ *testing.T, edits, flips []byte) { scripts[string(edits)] = len(flips) == 0 }
	c.Sweep(t, 4, false, note)
	some := len(scripts)
	c.Sweep(t, 4, true, note)
	if want := 2 * (2 + len(extremes)); len(scripts) != want || some != want/4 {
		t.Errorf("got %d scripts, then %d, want %d, then %d", some, len(scripts), want/4, want)
	}
}
