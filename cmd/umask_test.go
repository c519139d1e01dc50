package cmd

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// TestOutputFollowsUmask: exports, indexes, texts, WACZ files and reports have the permissions that the umask
// leaves, and the files of the crawl are private.
func TestOutputFollowsUmask(t *testing.T) {
	url, _ := cmdtest.TinySite(t, 3)
	port := url[strings.LastIndex(url, ":")+1:]
	t.Chdir(t.TempDir())
	before := syscall.Umask(0o027)
	defer syscall.Umask(before)
	wantExit(t, term.ExitDone, "", append(cmdtest.OwnServer, "--allow-net=127.0.0.1", "--ports="+port,
		"--crawl-log=all", url+"/")...)
	for _, command := range []string{"export pages -o shared/pages", "export wacz -o shared/site.wacz",
		"index -o shared/index", "index --format zipnum -o shared/zipnum", "extract -o shared/texts",
		"extract --format wet -o shared/wet", "report -o shared/report.html", "report -o shared/report.json",
		"report --site 127.0.0.1 -o shared/site.html"} {
		must(t, os.MkdirAll("shared", 0o777))
		wantExit(t, term.ExitDone, "", strings.Fields(command)...)
	}
	check := func(dir string, file, directory fs.FileMode) (seen int) {
		must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			want := file
			if d.IsDir() {
				want = directory
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s has mode %04o, want %04o", path, got, want)
			}
			seen++
			return nil
		}))
		return seen
	}
	if n := check("shared", 0o640, 0o750); n < 15 {
		t.Errorf("%d files and directories are shared", n)
	}
	check("drumbeat-crawl", 0o600, 0o700)
}
