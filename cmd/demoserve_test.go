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

// TestDemoServe: a crawl in another process, with the seeds and flags that demo --serve prints, fetches the whole web,
// and the web says so.
func TestDemoServe(t *testing.T) {
	notShort(t)
	t.Parallel()
	_, port, err := net.SplitHostPort(brokerAddr(t)) // the two after it are most likely free, too
	if err != nil {
		t.Fatal(err)
	}
	web := cmdtest.Child(t.Context(), "demo", "--serve="+port, "--quiet", "--pages=300", "--hosts=30", "--plds=10")
	out, err := web.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	web.Stderr = os.Stderr
	if err := web.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	args := []string{"crawl", "--contact=test@example.org", "--dir=" + t.TempDir() + "/c", "--host-delay=5ms", "--server-delay=1ms", "--network-rate=0",
		"--network-connections=0", "--host-delay-factor=0", "--backoff=50ms", "--linger=200ms", "--ram=192MiB", "--connections=64", "--log-level=warn",
		"--admin=none", "--skip-extensions=none", "--accept=*/*"}
	for flags := ""; flags == ""; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "http"):
			args = append(args, line)
		case strings.HasPrefix(line, "--"):
			flags = line
			args = append(args, strings.Fields(flags)...)
		}
	}
	wantExit(t, term.ExitDone, "", args...)
	if err := web.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	if err := web.Wait(); err != nil {
		t.Error(err)
	}
	n := regexp.MustCompile(`(?m)^fetched (\d{3}) of (\d{3}) URLs, 0 of them more than once$`).FindSubmatch(said)
	if n == nil || string(n[1]) != string(n[2]) {
		t.Errorf("it says %q", said)
	}
}
