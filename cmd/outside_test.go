package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cmd/term"
)

// TestOutputOutsideCrawl: commands that write files refuse a place inside the directories of the crawl, also
// through a link, and write nothing.
func TestOutputOutsideCrawl(t *testing.T) {
	t.Parallel()
	dir, tmp := t.TempDir(), t.TempDir()
	must(t, os.Symlink(dir, filepath.Join(tmp, "link")))
	for _, in := range []string{dir, filepath.Join(tmp, "link")} {
		for _, args := range [][]string{
			{"report", dir, "-o", filepath.Join(in, "report.html")},
			{"report", dir, "--site", "a.test", "-o", filepath.Join(in, "warc", "a.csv")},
			{"report", tmp, "--site", "a.test", "--out", dir, "-o", filepath.Join(in, "a.html")},
			{"extract", "--dir", dir, "-o", filepath.Join(in, "words")},
			{"extract", "--dir", tmp + "/other", "--out", dir, "-o", in},
			{"export", "pages", "--dir", dir, "-o", filepath.Join(in, "pages")},
		} {
			if code, _, stderr := runApp(t, "", args...); code != term.ExitDirectory ||
				!strings.Contains(stderr, "a directory of the crawl: name another place") {
				t.Errorf("%q: exit code %d, %s", args, code, stderr)
			}
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("the directory holds %v, %v", names, err)
	}
}
