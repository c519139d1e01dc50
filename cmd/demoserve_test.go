package cmd

import (
	"bufio"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// served runs demo --serve with args, and a crawl in another process with the seeds and flags that it prints. It
// returns the output of the web at its end.
func served(t *testing.T, code int, args []string, crawlArgs ...string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(brokerAddr(t)) // the two after it are most likely free, too
	must(t, err)
	web := cmdtest.Child(t.Context(), append([]string{"demo", "--serve=" + port, "--quiet"}, args...)...)
	out, err := web.StdoutPipe()
	must(t, err)
	web.Stderr = os.Stderr
	must(t, web.Start())
	lines := bufio.NewReader(out)
	crawl := append([]string{"crawl", "--contact=test@example.org", "--dir=" + t.TempDir() + "/c", "--host-delay=5ms",
		"--server-delay=1ms", "--network-rate=0", "--network-connections=0", "--host-delay-factor=0", "--backoff=50ms",
		"--linger=200ms", "--ram=192MiB", "--connections=64", "--log-level=warn", "--admin=none",
		"--skip-extensions=none", "--accept=*/*"}, crawlArgs...)
	for flags := ""; flags == ""; {
		line, err := lines.ReadString('\n')
		must(t, err)
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "http"):
			crawl = append(crawl, line)
		case strings.HasPrefix(line, "--"):
			flags = line
			crawl = append(crawl, strings.Fields(flags)...)
		}
	}
	wantExit(t, code, "", crawl...)
	must(t, web.Process.Signal(os.Interrupt))
	said, err := io.ReadAll(lines)
	must(t, err)
	if err := web.Wait(); err != nil {
		t.Error(err)
	}
	return string(said)
}

// TestDemoServe: a crawl in another process, with the seeds and flags that demo --serve prints, fetches the whole web,
// and the web says so.
func TestDemoServe(t *testing.T) {
	notShort(t)
	t.Parallel()
	said := served(t, term.ExitDone, []string{"--pages=300", "--hosts=30", "--plds=10"})
	n := regexp.MustCompile(`(?m)^fetched (\d{3}) of (\d{3}) URLs, 0 of them more than once$`).FindStringSubmatch(said)
	if n == nil || n[1] != n[2] {
		t.Errorf("it says %q", said)
	}
}

// TestDemoServeHostile: hostile hosts are served to other crawls, too.
func TestDemoServeHostile(t *testing.T) {
	notShort(t)
	t.Parallel()
	said := served(t, term.ExitTime, []string{"--hostile", "--pages=300", "--hosts=30", "--plds=10"}, "--max-time=3s")
	n := regexp.MustCompile(`(?m)^hostile hosts: (\d+) of them got (\d+) requests$`).FindStringSubmatch(said)
	if n == nil || n[1] == "0" || n[2] == "0" {
		t.Errorf("it says %q", said)
	}
}

// TestDemoServeStored: a stored crawl is served to other crawls, which fetch all that it has.
func TestDemoServeStored(t *testing.T) {
	notShort(t)
	t.Parallel()
	stored := t.TempDir() + "/stored"
	cmdtest.WantExitAlone(t, term.ExitDone, "demo", "--quiet", "--pages=300", "--hosts=30", "--plds=10",
		"--dir="+stored, "--ram=256MiB", "--connections=64")
	said := served(t, term.ExitDone, []string{"--warc=" + stored})
	if !regexp.MustCompile(`(?m)^stored: all \d+ URLs were requested$`).MatchString(said) {
		t.Errorf("it says %q", said)
	}
}

// TestDemoCrawlFlags: a crawl of the synthetic web takes flags of crawl after --.
func TestDemoCrawlFlags(t *testing.T) {
	notShort(t)
	t.Parallel()
	out := cmdtest.WantExitAlone(t, term.ExitTime, "demo", "--quiet", "--hostile", "--pages=300", "--hosts=30",
		"--plds=10", "--connections=64", "--max-time=4s", "--host-delay=20ms", "--server-delay=2ms", "--",
		"--budget=supporters", "--max-depth=2")
	for _, want := range []string{"Hostile hosts", "check ", "that a crawl without these flags fetches"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// TestCacheSizeOfOwnCrawl: a trace of a crawl gives the cache size of the paper's equation 24 by two commands; the
// first prints the second.
func TestCacheSizeOfOwnCrawl(t *testing.T) {
	notShort(t)
	t.Parallel()
	trace := t.TempDir() + "/links"
	cmdtest.WantExitAlone(t, term.ExitDone, "demo", "--quiet", "--pages=3000", "--hosts=100", "--plds=30",
		"--ram=256MiB", "--connections=64", "--", "--trace-links="+trace)
	out, _ := wantExit(t, term.ExitDone, "", "bench", "cache", "--quick", "--entries=65536", "--repeat=1",
		"--trace="+trace)
	next := regexp.MustCompile(`drumbeat (bench model --miss-curve '([^']+)' [^\n]*)`).FindStringSubmatch(out)
	if next == nil || strings.Contains(out, "E/tau_h l S  ?") {
		t.Fatalf("no command and no rates in %s", out)
	}
	args := strings.Fields(strings.ReplaceAll(next[1], "'", ""))
	if out, _ = wantExit(t, term.ExitDone, "", args...); !strings.Contains(out, "pi = "+next[2]) {
		t.Errorf("%q prints %s", args, out)
	}
}

// TestBudgetsAsGiven: budgets of small crawls are scaled up, unless the operator says that they hold as given.
func TestBudgetsAsGiven(t *testing.T) {
	notShort(t)
	t.Parallel()
	for flag, want := range map[string]string{"--budget=queue=10000": ", 1000 pages per queue",
		"--budget=queue=0": ", 10 pages per queue"} {
		dir := t.TempDir() + "/c"
		cmdtest.WantExitAlone(t, term.ExitDone, "demo", "--quiet", "--pages=300", "--hosts=20", "--plds=10",
			"--ram=256MiB", "--connections=64", "--dir="+dir, "--", flag)
		if out, _ := wantExit(t, term.ExitDone, "", "explain", "pld", "--dir="+dir,
			"site0.test"); !strings.Contains(out, want) {
			t.Errorf("%s: explain pld prints %q, want %q", flag, out, want)
		}
	}
}
