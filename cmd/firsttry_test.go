package cmd

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// TestDirectoriesAreAddedOnDemand: only --add-dir adds a directory to a crawl, and one with data cannot be
// removed.
func TestDirectoriesAreAddedOnDemand(t *testing.T) {
	url, asked := cmdtest.TinySite(t, 20)
	port := url[strings.LastIndex(url, ":")+1:]
	tmp := t.TempDir()
	a, b, c := filepath.Join(tmp, "a"), filepath.Join(tmp, "b"), filepath.Join(tmp, "c")
	flags := append(cmdtest.OwnServer, "--allow-net=127.0.0.1", "--ports="+port, url+"/", "--dir", a)
	wantExit(t, term.ExitPages, "", append(flags, "--max-pages=5")...)
	_, errs := wantExit(t, term.ExitDirectory, "", append(flags, "--dir", b)...)
	want := fmt.Sprintf("the crawl in %s has one directory; %s is new\n"+
		"  more disk: --add-dir %[2]s      another crawl: "+
		"--dir %[2]s alone\n", a, b)
	if !strings.Contains(errs, want) {
		t.Errorf("got %q, want %q", errs, want)
	}
	if _, err := os.Stat(b); !os.IsNotExist(err) {
		t.Errorf("%s was made: %v", b, err)
	}
	wantExit(t, term.ExitPages, "", append(flags, "--add-dir", b, "--max-pages=6")...)
	wantExit(t, term.ExitPages, "", append(flags, "--add-dir", b, "--max-pages=7")...) // it belongs already
	wantExit(t, term.ExitDirectory, "", append(flags, "--max-pages=8")...)             // b is missing
	t.Setenv("DRUMBEAT_DIR", a+","+b)                                                  // as --dir
	wantExit(t, term.ExitDone, "", flags[:len(flags)-2]...)
	if got := asked(); got["/p19.html"] != 1 || got["/"] != 1 {
		t.Errorf("asked for %v, want each page once", got)
	}
	must(t, os.Rename(b, c))
	wantExit(t, term.ExitDirectory, "", "dirs", "forget", a) // it has files of the crawl
	wantExit(t, term.ExitDone, "", "audit", c, a)
}

// TestForgetDirectory: dirs forget removes a directory that was added and never used; the crawl then resumes
// without it.
func TestForgetDirectory(t *testing.T) {
	url, _ := cmdtest.TinySite(t, 5)
	port := url[strings.LastIndex(url, ":")+1:]
	tmp := t.TempDir()
	a, b := filepath.Join(tmp, "a"), filepath.Join(tmp, "b")
	flags := append(cmdtest.OwnServer, "--allow-net=127.0.0.1", "--ports="+port, "--dir", a, url+"/")
	wantExit(t, term.ExitDone, "", flags...)
	wantExit(t, term.ExitDone, "", append(flags, "--add-dir", b)...) // nothing to do: it stays empty
	if out, _ := wantExit(t, term.ExitDone, "", "dirs", "list", a, b, tmp); strings.Count(out, "crawl  ") != 2 ||
		!strings.Contains(out, "  none\n") {
		t.Errorf("dirs list: %s", out)
	}
	must(t, os.RemoveAll(b))
	wantExit(t, term.ExitDirectory, "", flags...)
	wantExit(t, term.ExitDirectory, "", "audit", a)
	if out, _ := wantExit(t, term.ExitDone, "", "dirs", "forget", a); !strings.Contains(out,
		"directories removed: 1; the crawl has 1") {
		t.Errorf("dirs forget: %s", out)
	}
	wantExit(t, term.ExitDone, "", "audit", "--deep", a)
	wantExit(t, term.ExitDone, "", append(flags, url+"/new")...)
}

// TestHangupStops: without rule files to reload, SIGHUP is an orderly stop. Regression: it killed the
// process, and the work since the last checkpoint was lost.
func TestHangupStops(t *testing.T) {
	url, asked := cmdtest.TinySite(t, 3)
	port := url[strings.LastIndex(url, ":")+1:]
	dir := filepath.Join(t.TempDir(), "c")
	cmd := cmdtest.Child(t.Context(), append(cmdtest.OwnServer, "--host-delay=1h", "--dir", dir,
		"--allow-net=127.0.0.1", "--ports="+port, url+"/")...)
	var errs strings.Builder
	cmd.Stderr = &errs
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, syscall.SIGHUP) // nohup(1) makes the tests and their children ignore it
	defer signal.Stop(handled)
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	for asked()["/robots.txt"] == 0 { // the page is due an hour later
		select {
		case <-ended:
			t.Fatalf("ended: %s", errs.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	must(t, cmd.Process.Signal(syscall.SIGHUP))
	select {
	case <-ended:
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		<-ended
	}
	if code := cmd.ProcessState.ExitCode(); code != term.ExitSignal ||
		!strings.Contains(errs.String(), "hangup: stopping") {
		t.Errorf("exit code %d, %s, want %d", code, errs.String(), term.ExitSignal)
	}
	if out, _ := wantExit(t, term.ExitDone, "", "audit", dir); !strings.Contains(out, "balanced") {
		t.Errorf("audit: %s", out)
	}
}

// TestFirstWords: the usual ways to ask for help and the version.
func TestFirstWords(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--version"}, "drumbeat "}, {[]string{"help"}, "Usage: drumbeat <command>"},
		{[]string{"help", "crawl"}, "--host-delay"},
		{[]string{"help", "dirs", "forget"}, "Usage: drumbeat dirs forget [<dir> ...]"},
	} {
		if out, _ := wantExit(t, term.ExitDone, "", c.args...); !strings.Contains(out, c.want) {
			t.Errorf("%v: got %.300q, want %q in it", c.args, out, c.want)
		}
	}
	out, _ := wantExit(t, term.ExitDone, "", "crawl", "-h")
	head, _, _ := strings.Cut(out, "--contact=WHO")
	if !strings.HasPrefix(out, "Usage: drumbeat crawl") ||
		!strings.Contains(head, "drumbeat crawl https://example.org/ --contact you@example.org") {
		t.Errorf("crawl -h begins with\n%s\nwant usage and examples", head)
	}
}

// TestMisspeltVariable: a variable that sets no flag is refused like an unknown flag. Regression: it was
// ignored.
func TestMisspeltVariable(t *testing.T) {
	t.Setenv("DRUMBEAT_HOST_DELY", "1h")
	_, errs := wantExit(t, term.ExitUsage, "", append(cmdtest.OwnServer, "example.org")...)
	if want := "environment: DRUMBEAT_HOST_DELY sets no flag, did you mean " +
		"DRUMBEAT_HOST_DELAY?\n"; !strings.HasSuffix(errs, want) {
		t.Errorf("got %q, want %q", errs, want)
	}
}

// TestUnusableDirectories: the error names a directory that is missing, a file, or not readable, with the
// exit code of directories.
func TestUnusableDirectories(t *testing.T) {
	tmp := t.TempDir()
	file, closed := filepath.Join(tmp, "file"), filepath.Join(tmp, "closed")
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.Mkdir(closed, 0))
	type fault struct {
		args []string
		want string
	}
	faults := []fault{
		{[]string{"audit", tmp + "/nosuch"}, "holds no crawl"},
		{[]string{"explain", "url", "--dir", tmp + "/nosuch", "http://a/"}, "holds no crawl"},
		{[]string{"repair", tmp + "/nosuch"}, "holds no crawl"}, {[]string{"audit", file}, "is a file"},
		{append(cmdtest.OwnServer, "--dir", file, "example.org"), "is a file"},
	}
	if os.Getuid() != 0 {
		faults = append(faults, fault{append(cmdtest.OwnServer, "--dir", closed, "example.org"), "permission denied"})
	}
	for _, f := range faults {
		_, errs := wantExit(t, term.ExitDirectory, "", f.args...)
		if !strings.Contains(errs, f.want) {
			t.Errorf("%v: got %q, want %q in it", f.args, errs, f.want)
		}
	}
}

// TestExplainHostWithPort: explain host counts stored responses of all ports, with or without a port in the
// question.
func TestExplainHostWithPort(t *testing.T) {
	url, _ := cmdtest.TinySite(t, 3)
	port := url[strings.LastIndex(url, ":")+1:]
	dir := filepath.Join(t.TempDir(), "c")
	wantExit(t, term.ExitDone, "",
		append(cmdtest.OwnServer, "--dir", dir, "--allow-net=127.0.0.1", "--ports="+port, url+"/")...)
	for _, host := range []string{"127.0.0.1:" + port, "127.0.0.1"} {
		out, _ := wantExit(t, term.ExitDone, "", "explain", "host", "--dir", dir, host)
		if !strings.Contains(out, "4 responses in the indexes") || strings.Contains(out, "never requested") {
			t.Errorf("%s: got\n%s", host, out)
		}
	}
}
