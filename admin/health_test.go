package admin

import (
	"testing"

	"drumbeat/crawl"
)

// TestSlowDiskIsAProblem: a slow disk is one problem, whatever the number of its directories.
func TestSlowDiskIsAProblem(t *testing.T) {
	const slow = "directories /d3, /d4 (device 8:48) transfer 11 MB/s, the others 140 MB/s"
	s := &Status{State: "running",
		Disk: DiskUse{Dirs: []Directory{{Path: "/d1"}, {Path: "/d3", Slow: slow}, {Path: "/d4", Slow: slow}}}}
	want := Trouble{"warn", "disk", "Directories /d3, /d4 (device 8:48) transfer 11 MB/s, the others 140 MB/s."}
	if h := healthOf(s, new(crawl.Control)); h.Level != "warn" || len(h.Problems) != 1 || h.Problems[0] != want {
		t.Errorf("got %+v", h)
	}
	s.Disk.Dirs = s.Disk.Dirs[:1]
	if h := healthOf(s, new(crawl.Control)); h.Level != "ok" || len(h.Problems) != 0 {
		t.Errorf("without it: got %+v", h)
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
