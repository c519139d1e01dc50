package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drumbeat/crawl"
)

// tinySite serves a page with some links on loopback and counts what it is asked for.
func tinySite(t *testing.T, pages int) (url string, asked func() map[string]int) {
	t.Helper()
	var mu sync.Mutex // guards got
	got := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got[r.URL.Path]++
		mu.Unlock()
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html><title>x</title>")
		for i := range pages {
			fmt.Fprintf(w, `<a href="/p%d.html">p</a>`, i)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		all := map[string]int{}
		for k, v := range got {
			all[k] = v
		}
		return all
	}
}

// ownServer are the flags of a quick crawl of one's own server.
var ownServer = []string{"crawl", "--contact=me@example.org", "--scope=host", "--host-delay=0s", "--server-delay=0s", "--pld-delay=0s",
	"--linger=0s", "--ram=128MiB", "--connections=8", "--log-level=warn", "--resolver=127.0.0.1:9"}

// TestForgottenFlags: without --allow-net and --ports nothing is fetched, which has an exit code of its own and names the flags; with
// them the same directory is crawled. Both ended as done, and no flag brought the seeds back.
func TestForgottenFlags(t *testing.T) {
	url, asked := tinySite(t, 5)
	port := url[strings.LastIndex(url, ":")+1:]
	seeds := filepath.Join(t.TempDir(), "seeds")
	if err := os.WriteFile(seeds, []byte(url+"/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := append(ownServer, "--seeds", seeds, "--dir", filepath.Join(t.TempDir(), "c"))
	for range 2 { // the second time the crawl is finished
		_, errs := wantExit(t, exitNoSeed, "", flags...)
		for _, want := range []string{"no page: the only seed is not allowed by this command\n", "port " + port + ": add --ports " + port + "\n",
			"127.0.0.1 is not public: add --allow-net 127.0.0.1/32\n", "Nothing was asked of anybody."} {
			if !strings.Contains(errs, want) {
				t.Errorf("got %q, want %q in it", errs, want)
			}
		}
	}
	_, errs := wantExit(t, exitNoSeed, "", append(flags, "--ports="+port)...)
	if strings.Contains(errs, "add --ports") || !strings.Contains(errs, "--allow-net 127.0.0.1/32") {
		t.Errorf("got %q, want --allow-net alone in it", errs)
	}
	if got := asked(); len(got) > 0 {
		t.Errorf("asked for %v", got)
	}
	flags = append(flags, "--ports=8000,"+port, "--allow-net=127.0.0.0/8")
	wantExit(t, exitDone, "", flags...)
	if got := asked(); got["/"] != 1 || got["/p4.html"] != 1 || len(got) != 7 {
		t.Errorf("asked for %v, want all pages once", got)
	}
	if out, _ := wantExit(t, exitDone, "", flags...); !strings.Contains(out, "This crawl is finished") {
		t.Errorf("got %s", out)
	}
}

// TestNoSeedAtAll: a crawl that has no response says so, whatever the reason.
func TestNoSeedAtAll(t *testing.T) {
	seeds := filepath.Join(t.TempDir(), "seeds")
	for text, want := range map[string]string{
		"# nothing\n":         "there is no URL among the seeds",
		"http://127.0.0.1:9/": "no seed could be fetched",
	} {
		if err := os.WriteFile(seeds, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		flags := append(ownServer, "--seeds", seeds, "--dir", filepath.Join(t.TempDir(), "c"), "--ports=9", "--allow-net=127.0.0.1", "--max-pages=1")
		if _, errs := wantExit(t, exitNoSeed, "", flags...); !strings.Contains(errs, want) {
			t.Errorf("%q: got %q, want %q in it", text, errs, want)
		}
	}
}

// TestURLArguments: seeds on the command line are kept in the directory, as those of standard input are.
func TestURLArguments(t *testing.T) {
	url, asked := tinySite(t, 3)
	port := url[strings.LastIndex(url, ":")+1:]
	flags := append(ownServer, "--dir", filepath.Join(t.TempDir(), "c"), "--allow-net=127.0.0.1", "--ports="+port)
	wantExit(t, exitDone, "", append(flags, url+"/")...)
	wantExit(t, exitDone, "", append(flags, url+"/", url+"/more")...)
	if got := asked(); got["/"] != 1 || got["/p2.html"] != 1 || got["/more"] != 1 {
		t.Errorf("asked for %v, want each once", got)
	}
	seeds := filepath.Join(t.TempDir(), "seeds.txt")
	if err := os.WriteFile(seeds, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "there are no seeds"}, {[]string{url, "--seeds", seeds}, "not both"}, {[]string{seeds}, "is a file: --seeds "},
		{[]string{"http://"}, `"http://" is no URL`}, {[]string{"settings.go"}, "--seeds settings.go reads it"},
	} {
		if _, errs := wantExit(t, exitUsage, "", append(flags, c.args...)...); !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: got %q, want one line with %q", c.args, errs, c.want)
		}
	}
}

// TestBinarySeeds: what is no text is refused before anything is made. Its lines were seeds that yielded nothing.
func TestBinarySeeds(t *testing.T) {
	binary := "\x1f\x8b\x08\x00\x00\x01\n"
	seeds, dir := filepath.Join(t.TempDir(), "seeds.gz"), filepath.Join(t.TempDir(), "c")
	if err := os.WriteFile(seeds, []byte(binary), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{seeds, "-"} {
		_, errs := wantExit(t, exitUsage, binary, append(ownServer, "--dir", dir, "--seeds", in)...)
		if !strings.Contains(errs, "is no text (byte 3 is 0)") {
			t.Errorf("got %q", errs)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s was made: %v", dir, err)
	}
}

// TestDirectoriesAreAddedOnDemand: --dir names what the crawl has, --add-dir what it gets, and one that holds nothing can go.
func TestDirectoriesAreAddedOnDemand(t *testing.T) {
	url, asked := tinySite(t, 20)
	port := url[strings.LastIndex(url, ":")+1:]
	tmp := t.TempDir()
	a, b, c := filepath.Join(tmp, "a"), filepath.Join(tmp, "b"), filepath.Join(tmp, "c")
	flags := append(ownServer, "--allow-net=127.0.0.1", "--ports="+port, url+"/", "--dir", a)
	wantExit(t, exitPages, "", append(flags, "--max-pages=5")...)
	_, errs := wantExit(t, exitDirectory, "", append(flags, "--dir", b)...)
	want := fmt.Sprintf("%s is a crawl of one directory; %s is new\n  more disk: --add-dir %[2]s      another crawl: --dir %[2]s alone\n", a, b)
	if !strings.Contains(errs, want) {
		t.Errorf("got %q, want %q", errs, want)
	}
	if _, err := os.Stat(b); !os.IsNotExist(err) {
		t.Errorf("%s was made: %v", b, err)
	}
	wantExit(t, exitPages, "", append(flags, "--add-dir", b, "--max-pages=6")...)
	wantExit(t, exitPages, "", append(flags, "--add-dir", b, "--max-pages=7")...) // it belongs already
	wantExit(t, exitDirectory, "", append(flags, "--max-pages=8")...)             // b is missing
	t.Setenv("DRUMBEAT_DIR", a+","+b)                                             // as the flag would
	wantExit(t, exitDone, "", flags[:len(flags)-2]...)
	if got := asked(); got["/p19.html"] != 1 || got["/"] != 1 {
		t.Errorf("asked for %v, want each page once", got)
	}
	if err := os.Rename(b, c); err != nil {
		t.Fatal(err)
	}
	wantExit(t, exitDirectory, "", "dirs", "forget", a) // it has files of the crawl
	wantExit(t, exitDone, "", "audit", c, a)
}

// TestForgetDirectory: a directory that was added and never used is let go, and the crawl goes on without it.
func TestForgetDirectory(t *testing.T) {
	url, _ := tinySite(t, 5)
	port := url[strings.LastIndex(url, ":")+1:]
	tmp := t.TempDir()
	a, b := filepath.Join(tmp, "a"), filepath.Join(tmp, "b")
	flags := append(ownServer, "--allow-net=127.0.0.1", "--ports="+port, "--dir", a, url+"/")
	wantExit(t, exitDone, "", flags...)
	wantExit(t, exitDone, "", append(flags, "--add-dir", b)...) // nothing to do: it stays empty
	if out, _ := wantExit(t, exitDone, "", "dirs", "list", a, b, tmp); strings.Count(out, "crawl  ") != 2 || !strings.Contains(out, "of no crawl") {
		t.Errorf("dirs list: %s", out)
	}
	if err := os.RemoveAll(b); err != nil {
		t.Fatal(err)
	}
	wantExit(t, exitDirectory, "", flags...)
	wantExit(t, exitDirectory, "", "audit", a)
	if out, _ := wantExit(t, exitDone, "", "dirs", "forget", a); !strings.Contains(out, "let go: 1; the crawl has 1") {
		t.Errorf("dirs forget: %s", out)
	}
	wantExit(t, exitDone, "", "audit", "--deep", a)
	wantExit(t, exitDone, "", append(flags, url+"/new")...)
}

// TestHangupStops: the terminal is closed. Without rules to be read again that is an orderly stop; it killed the program, and what
// was done since the last checkpoint was done again.
func TestHangupStops(t *testing.T) {
	url, asked := tinySite(t, 3)
	port := url[strings.LastIndex(url, ":")+1:]
	dir := filepath.Join(t.TempDir(), "c")
	cmd := exec.Command(os.Args[0], append(ownServer, "--host-delay=1h", "--dir", dir, "--allow-net=127.0.0.1", "--ports="+port, url+"/")...)
	cmd.Env = append(os.Environ(), childMode+"=main")
	var errs strings.Builder
	cmd.Stderr = &errs
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, syscall.SIGHUP) // the tests may run under nohup(1), whose children ignore it, too
	defer signal.Stop(handled)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	for asked()["/robots.txt"] == 0 { // the page would come an hour later
		select {
		case <-ended:
			t.Fatalf("ended: %s", errs.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		<-ended
	}
	if code := cmd.ProcessState.ExitCode(); code != exitSignal || !strings.Contains(errs.String(), "hangup: stopping") {
		t.Errorf("exit code %d, %s, want %d", code, errs.String(), exitSignal)
	}
	if out, _ := wantExit(t, exitDone, "", "audit", dir); !strings.Contains(out, "balanced") {
		t.Errorf("audit: %s", out)
	}
}

// TestFirstWords: what people type to find out more.
func TestFirstWords(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--version"}, "drumbeat "}, {[]string{"help"}, "Usage: drumbeat <command>"}, {[]string{"help", "crawl"}, "--host-delay"},
		{[]string{"help", "dirs", "forget"}, "Usage: drumbeat dirs forget <dir>"},
	} {
		if out, _ := wantExit(t, exitDone, "", c.args...); !strings.Contains(out, c.want) {
			t.Errorf("%v: got %.300q, want %q in it", c.args, out, c.want)
		}
	}
	out, _ := wantExit(t, exitDone, "", "crawl", "-h")
	head, _, _ := strings.Cut(out, "--contact=WHO")
	if !strings.HasPrefix(out, "Usage: drumbeat crawl") || !strings.Contains(head, "drumbeat crawl https://example.org/ --contact you@example.org") {
		t.Errorf("crawl -h begins with\n%s\nwant usage and examples", head)
	}
}

// TestMisspeltVariable: a variable that sets no flag is refused like an unknown flag. It was ignored.
func TestMisspeltVariable(t *testing.T) {
	t.Setenv("DRUMBEAT_HOST_DELY", "1h")
	_, errs := wantExit(t, exitUsage, "", append(ownServer, "example.org")...)
	if want := "environment: DRUMBEAT_HOST_DELY sets no flag, did you mean DRUMBEAT_HOST_DELAY?\n"; !strings.HasSuffix(errs, want) {
		t.Errorf("got %q, want %q", errs, want)
	}
}

// TestUnusableDirectories: what isn't there, is a file or belongs to others is called that, with the code of directories.
func TestUnusableDirectories(t *testing.T) {
	tmp := t.TempDir()
	file, closed := filepath.Join(tmp, "file"), filepath.Join(tmp, "closed")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(closed, 0); err != nil {
		t.Fatal(err)
	}
	type fault struct {
		args []string
		want string
	}
	faults := []fault{
		{[]string{"audit", tmp + "/nosuch"}, "holds no crawl"}, {[]string{"explain", "url", "--dir", tmp + "/nosuch", "http://a/"}, "holds no crawl"},
		{[]string{"repair", tmp + "/nosuch"}, "holds no crawl"}, {[]string{"audit", file}, "not a directory"},
		{append(ownServer, "--dir", file, "example.org"), "not a directory"},
	}
	if os.Getuid() != 0 {
		faults = append(faults, fault{append(ownServer, "--dir", closed, "example.org"), "permission denied"})
	}
	for _, f := range faults {
		_, errs := wantExit(t, exitDirectory, "", f.args...)
		if strings.Contains(f.want, "holds") == strings.Contains(errs, "can't be used") || !strings.Contains(errs, f.want) {
			t.Errorf("%v: got %q, want %q in it", f.args, errs, f.want)
		}
	}
}

// TestExplainHostWithPort: what is stored of a host counts whatever its port, asked for with the port or without.
func TestExplainHostWithPort(t *testing.T) {
	url, _ := tinySite(t, 3)
	port := url[strings.LastIndex(url, ":")+1:]
	dir := filepath.Join(t.TempDir(), "c")
	wantExit(t, exitDone, "", append(ownServer, "--dir", dir, "--allow-net=127.0.0.1", "--ports="+port, url+"/")...)
	for _, host := range []string{"127.0.0.1:" + port, "127.0.0.1"} {
		out, _ := wantExit(t, exitDone, "", "explain", "host", "--dir", dir, host)
		if !strings.Contains(out, "4 responses in the indexes") || strings.Contains(out, "never asked for") {
			t.Errorf("%s: got\n%s", host, out)
		}
	}
}

// TestProgressFits: lines of the block are broken, not cut, and stay narrower than the terminal.
func TestProgressFits(t *testing.T) {
	text := "  limits    " + strings.Repeat("some words and more ", 12)
	for width := 20; width < 300; width++ {
		lines := fit(text, width)
		for _, l := range lines {
			if len(l) >= width {
				t.Errorf("%d columns: %q", width, l)
			}
		}
		if got := strings.Join(strings.Fields(strings.Join(lines, " ")), " "); width >= 80 && got != strings.Join(strings.Fields(text), " ") {
			t.Errorf("%d columns: got %q", width, got)
		}
	}
}

// TestModestPlan: a crawl of a site, or of some pages, isn't planned as one of a billion: RAM and the space that must stay free.
func TestModestPlan(t *testing.T) {
	m := machine{ramBytes: 64 << 30, ramFrom: "physical memory"}
	plan := func(args ...string) (crawl.Plan, size) {
		var c cli
		p, err := newParser(&c)
		if err != nil {
			t.Fatal(err)
		}
		flags := append([]string{"crawl", "--contact=me@example.org", "--resolver=127.0.0.1:9", "--disk=1TiB", "example.org"}, args...)
		if _, err := p.Parse(flags); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Crawl.complete(m); err != nil {
			t.Fatal(err)
		}
		opt := c.Crawl.options()
		opt.DiskBytes = 1 << 40
		made, err := makePlan(&opt)
		if err != nil {
			t.Fatal(err)
		}
		return made, *c.Crawl.RAM
	}
	for _, args := range [][]string{{"--scope=host"}, {"--scope=pld"}, {"--max-pages=200"}} {
		if p, ram := plan(args...); ram > 11<<27 || p.KeepFreeBytes > 700<<20 {
			t.Errorf("%v: --ram %v, %d MiB to stay free", args, ram, p.KeepFreeBytes>>20)
		}
	}
	for _, args := range [][]string{{}, {"--max-pages=1e9"}} {
		if _, ram := plan(args...); ram != 32<<30 {
			t.Errorf("%v: --ram %v, want half of the machine's", args, ram)
		}
	}
	if _, ram := plan("--scope=host", "--max-body=1GiB"); ram < 16<<30 {
		t.Errorf("--max-body=1GiB: --ram %v", ram)
	}
}
