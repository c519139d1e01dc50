package admit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/star"
)

// TestReadTrusted: the forms of lines, and errors that name the line.
func TestReadTrusted(t *testing.T) {
	t.Parallel()
	mem := memfs.New(1)
	var many bytes.Buffer
	for i := range star.MostSeeds + 1 {
		fmt.Fprintf(&many, "h%d.test\n", i)
	}
	for _, c := range []struct {
		name, text string
		plds       int
		err        string // a part of it
	}{
		{"forms", "# comment\n\na.test\nhttp://b.test/page # why\r\nc.test:8080\na.test\n", 3, ""},
		{"no newline", "a.test", 1, ""},
		{"bad", "a.test\nftp://b.test/\n\nmailto:x@c.test\n", 0, "/bad:4:"},
		{"empty", "# nothing\n", 0, "no line has a PLD"},
		{"long", "a.test\n" + strings.Repeat("x", 70<<10) + "\n", 0, "/long:2:"},
		{"faults", strings.Repeat("ftp://b.test/\n", 150), 0, "and 50 more"},
		{"most", strings.Join(strings.SplitAfter(many.String(), "\n")[1:], ""), star.MostSeeds, ""},
		{"more", many.String(), 0, fmt.Sprintf("/more:%d: more than 65536 PLDs", star.MostSeeds+1)},
	} {
		name := "/" + c.name
		if err := disk.WriteFileAtomic(mem, name, []byte(c.text)); err != nil {
			t.Fatal(err)
		}
		plds, err := ReadTrusted(mem, name, func(host []byte) uint64 {
			var key uint64
			for _, b := range host {
				key = key*1099511628211 + uint64(b)
			}
			return key
		})
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: error %.300v, want %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil || len(plds) != c.plds || !slices.IsSorted(plds) {
			t.Errorf("%s: %d PLDs, %.300v; want %d", c.name, len(plds), err, c.plds)
		}
	}
	if plds, err := ReadTrusted(mem, "", nil); plds != nil || err != nil {
		t.Errorf("without a file: %v, %v", plds, err)
	}
	if _, err := ReadTrusted(mem, "/missing", nil); err == nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
