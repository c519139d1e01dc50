package crawl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/state"
)

// TestWatchCopy: the copy of a watch list is sorted by deadline. The same list does not replace it after an erasure
// has blanked lines there; another list does.
func TestWatchCopy(t *testing.T) {
	dir := t.TempDir()
	file, copied := filepath.Join(dir, "list"), filepath.Join(dir, "c", WatchCopy)
	lists := [...]string{"http://b.test/ 2026-12-24T18:00:00Z\nhttp://a.test/ 2026-12-24T17:00:00Z\nhttp://c.test/x\n",
		"http://b.test/ 2026-12-24T18:00:00Z\nhttp://a.test/ 2026-12-24T17:00:00Z\nhttp://c.test/y\n"}
	c := Command{priorityFlags: priorityFlags{Watch: file}}
	opt := crawl.Options{Disk: crawl.DiskOptions{FS: disk.OS(), Dirs: []string{filepath.Join(dir, "c")}}}
	view := NewView(&strings.Builder{}, &c.Logging)
	defer view.Close()
	take := func(list, want string) {
		t.Helper()
		must(t, os.WriteFile(file, []byte(list), 0o600))
		must(t, c.copyWatch(&opt, view))
		if got, err := os.ReadFile(copied); err != nil || string(got) != want {
			t.Errorf("the copy is %q, %v; want %q", got, err, want)
		}
		left, err := filepath.Glob(filepath.Join(dir, "c", ".watch*"))
		if must(t, err); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
	first := "http://a.test/ 2026-12-24T17:00:00Z\nhttp://b.test/ 2026-12-24T18:00:00Z\nhttp://c.test/x\n"
	take(lists[0], first)
	blanked := []byte(first)
	state.BlankWatched(blanked[:len("http://a.test/")])
	must(t, os.WriteFile(copied, blanked, 0o600))
	take(lists[0], string(blanked))
	take(lists[1], strings.Replace(first, "/x", "/y", 1))
}
