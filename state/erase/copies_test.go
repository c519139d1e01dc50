package erase_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/state/erase"
)

// TestCopies: an erasure blanks the lines of targets in the crawl's copies of seeds and watch list, whatever follows
// the URL, and deletes what a start leaves that was killed while it made them.
func TestCopies(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := stopped(t)
		hosts := w.read(t).hosts()
		gone, stays := hosts[0], hosts[1]
		long := strings.Repeat("x", 200_000) + "\n"
		seeds := "http://" + gone + "/ # why\n" + gone + "\nhttp://" + stays + "/\n\ufeffhttp://" + gone + "/b\r\n" +
			long
		watch := "http://" + gone + "/a 2026-12-24T18:00:00Z\nhttp://" + stays + "/a 2026-12-24T18:00:00Z\nhttp://" +
			gone + "/"
		left := []string{"seeds.txt.tmp", ".watch.txt.tmp", "watch-tmp/run-00000", "since-tmp/run-00000"}
		for _, dir := range []string{"d0/watch-tmp", "d0/since-tmp"} {
			must(t, w.fs.MkdirAll(dir))
		}
		for _, name := range left {
			must(t, disk.WriteFileAtomic(w.fs, "d0/"+name, []byte("http://"+gone+"/")))
		}
		must(t, disk.WriteFileAtomic(w.fs, "d0/seeds.txt", []byte(seeds)))
		must(t, disk.WriteFileAtomic(w.fs, "d0/watch.txt", []byte(watch)))
		_, err := erase.Run(w.options(erase.Source{Hosts: []string{gone}}))
		must(t, err)
		for _, name := range left {
			if _, err := w.fs.Size("d0/" + name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left: %v", name, err)
			}
		}
		for name, text := range map[string]string{"seeds.txt": seeds, "watch.txt": watch} {
			got, err := disk.ReadFile(w.fs, "d0/"+name)
			must(t, err)
			if len(got) != len(text) || strings.Contains(string(got), gone) ||
				!strings.Contains(string(got), "http://"+stays+"/") ||
				strings.Count(string(got), "2026-12-24T18:00:00Z") != strings.Count(text, "2026-12-24T18:00:00Z") ||
				strings.Contains(text, long) != strings.HasSuffix(string(got), long) {
				t.Errorf("%s is %.200q, from %.200q", name, got, text)
			}
		}
	})
}
