package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cmd/term"
)

// TestBenchCrawl: the web runs in its own process, with and without TLS, and the crawl reaches its number of
// pages.
func TestBenchCrawl(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Setenv(term.ChildMode, "main")
	dir, profiles := t.TempDir(), filepath.Join(t.TempDir(), "new")
	small := []string{"bench", "crawl", "--dir=" + dir, "-q", "--pages=1000", "--seeds=100", "--addrs=60",
		"--page-bytes=12kB", "--connections=32", "--ram=128MiB", "--quick"}
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"--gzip", "--profile=" + profiles}, term.ExitDone, []string{"form=bare/scheme=http",
			"form=crawl/scheme=http/transport=sockets", "decode", "/ the bare loop's"}},
		{[]string{"--https", "--no-bare", "--pages=300", "--growth", "--keep-alive=10s"}, term.ExitDone,
			[]string{"form=crawl/scheme=https", "HTTPS, kept connections", "exchanges on kept connections",
				"RSS throughout"}},
		{[]string{"--new=0"}, term.ExitUsage, []string{"new links"}},
		{[]string{"--transport=inproc", "--gzip"}, term.ExitUsage, []string{"need --transport sockets"}},
		{[]string{"--resume"}, term.ExitUsage, []string{"--resume needs --transport inproc"}},
		{[]string{"--transport=inproc", "--resume", "--new-hosts=0.1"}, term.ExitDone,
			[]string{"0.1 to new hosts", "Parts of the crawl: 1", "complete", "Disk at the end"}},
		{[]string{"--dir=" + dir + "/none"}, term.ExitFailure, []string{"does not exist"}},
	} {
		var out bytes.Buffer
		a := &term.App{Stdout: &out, Stderr: &out}
		if code := run(a, append(small[:len(small):len(small)], c.args...)); code != c.code {
			t.Errorf("%q: got exit code %d, want %d:\n%s", c.args, code, c.code, out.String())
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q: want %q in\n%s", c.args, want, out.String())
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if names, err := os.ReadDir(profiles); err != nil || len(names) != 2 {
		t.Errorf("profiles: %v, %v", names, err)
	}
}
