package site

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	reportcmd "drumbeat/cmd/report"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/internal/cmdtest"
	"drumbeat/state/sitereport"
)

// commands is the table for the tests, as in package cmd.
type commands struct {
	Site   Command           `cmd:"" set:"preset=own-site"`
	Report reportcmd.Command `cmd:""`
}

// quick are flags for a quick crawl of a server on loopback.
var quick = []string{"--host-delay=0s", "--pld-delay=0s", "--server-delay=0s", "--linger=0s", "--ram=128MiB",
	"--connections=8", "--log-level=warn", "--admin=none", "--resolver=127.0.0.1:9"}

// brokenSite serves two pages with a broken link, and returns its URL and the User-Agent of the last request.
func brokenSite(t *testing.T) (url string, agent func() string) {
	t.Helper()
	var mu sync.Mutex // guards last
	last := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		last = r.UserAgent()
		mu.Unlock()
		switch r.URL.Path {
		case "/", "/two":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<title>a title</title><a href="/two">two</a><a href="/gone">gone</a>`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() string {
		mu.Lock()
		defer mu.Unlock()
		return last
	}
}

// TestSite: one URL is enough to crawl a site on loopback and to get its report. The command says what it allowed.
func TestSite(t *testing.T) {
	url, agent := brokenSite(t)
	port := url[strings.LastIndex(url, ":")+1:]
	t.Chdir(t.TempDir())
	out, errs := cmdtest.WantExit[commands](t, term.ExitDone, "", append([]string{"site", url}, quick...)...)
	for _, want := range []string{"2 pages", "127.0.0.1.html: ", "\n  error         1  Broken links\n",
		"\n  warning       1  Titles shared by several pages\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("got %s\nwant %q in it", out, want)
		}
	}
	want := "drumbeat: the URL names the loopback address 127.0.0.1 (as --allow-net 127.0.0.1) and port " + port +
		" (as --ports " + port + "): this crawl may connect there\n"
	if !strings.Contains(errs, want) || strings.Contains(errs, "report: ") {
		t.Errorf("got %q, want %q in it, and no warning about the report", errs, want)
	}
	if got, want := agent(), "(+"+url+"/)"; !strings.HasSuffix(got, want) {
		t.Errorf("User-Agent %q, want %q in it", got, want)
	}
	page, err := os.ReadFile("127.0.0.1.html")
	if err != nil || !bytes.Contains(page, []byte("/gone")) {
		t.Errorf("the report: %v\n%s", err, page)
	}
	// Every flag of crawl may be given, and the same command continues.
	out, _ = cmdtest.WantExit[commands](t, term.ExitDone, "", append([]string{"site", url, "--report=none",
		"--contact=me@my.example", "--dir=other", "--crawl-log=off"}, quick...)...)
	if strings.Contains(out, ".html: ") || !strings.HasSuffix(agent(), "(+me@my.example)") {
		t.Errorf("with other flags: %s, User-Agent %s", out, agent())
	}
	cmdtest.WantExit[commands](t, term.ExitDone, "", append([]string{"site", url}, quick...)...)
	// A crawl of another site does not get the delays of one's own.
	_, errs = cmdtest.WantExit[commands](t, term.ExitDirectory, "", "site", "https://other.example/")
	want = "drumbeat-crawl holds a crawl of 127.0.0.1, and the delays of your own site would apply to it"
	if !strings.Contains(errs, want) {
		t.Errorf("got %q, want %q in it", errs, want)
	}
}

// TestSiteCheckOutside: the report has the broken links to other sites, and no other site is asked without the flag.
func TestSiteCheckOutside(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skipf("no second address on loopback: %v", err) // not on Linux
	}
	var asked atomic.Int64
	other := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			http.NotFound(w, r)
		})}}
	other.Start()
	t.Cleanup(other.Close)
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<title>t</title><a href=%s/lost>elsewhere</a>", other.URL)
	}))
	t.Cleanup(own.Close)
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	port := other.URL[strings.LastIndex(other.URL, ":")+1:]
	cmdtest.WantExit[commands](t, term.ExitDone, "", append([]string{"site", own.URL, "--report=r.json",
		"--allow-net=127.0.0.2/32", "--ports=" + port}, quick...)...)
	if n := asked.Load(); n > 0 {
		t.Errorf("%d requests to another site", n)
	}
	app := term.NewApp(strings.NewReader(""), io.Discard, io.Discard)
	opt := &crawl.Options{Disk: crawl.DiskOptions{Dirs: []string{"drumbeat-crawl"}}}
	c := Command{Report: "r.json", CheckOutside: true,
		outsideMore: []string{"--host-delay=0s", "--pld-delay=0s", "--server-delay=0s", "--linger=0s"}}
	if err := c.report(app, opt, new(crawl.Result), "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("r.json")
	if err != nil {
		t.Fatal(err)
	}
	var r sitereport.Report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	rows := r.Finding("broken-outside").Rows
	if len(rows) != 1 || rows[0].URL != other.URL+"/lost" || rows[0].Detail != "status 404" || asked.Load() != 2 {
		t.Errorf("%d requests, %+v", asked.Load(), rows)
	}
	_, errs := cmdtest.WantExit[commands](t, term.ExitUsage, "", append([]string{"site", own.URL, "--report=none",
		"--check-outside"}, quick...)...)
	if !strings.Contains(errs, "--check-outside: not with --report none") {
		t.Errorf("got %q", errs)
	}
}

// TestSiteValues: the preset of the command, which flags override.
func TestSiteValues(t *testing.T) {
	config := func(args ...string) string {
		out, _ := cmdtest.WantExit[commands](t, term.ExitDone, "", append([]string{"site", "my.example",
			"--print-config", "--ram=256MiB", "--resolver=127.0.0.1:9"}, args...)...)
		return out
	}
	got := config()
	for _, want := range []string{"scope = \"host\"", "adaptive-delay = true", "host-delay = \"200ms,min=50ms\"",
		"crawl-log = \"all\"", "simhash = true", "contact = \"https://my.example/\"", "network-rate = 20"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
	if strings.Contains(got, "\nadmin ") || strings.Contains(got, "allow-net") || strings.Contains(got, "ports") {
		t.Errorf("opens something:\n%s", got)
	}
	got = config("--host-delay=5s", "--scope=pld", "--preset=own-site")
	if strings.Contains(got, "adaptive-delay") || !strings.Contains(got, `scope = "pld"  # command line`) {
		t.Errorf("flags do not override:\n%s", got)
	}
	if got = config("--preset=none"); strings.Contains(got, "# preset") {
		t.Errorf("--preset none:\n%s", got)
	}
}

// TestAllow: an address or port that the URL names is allowed, and no other.
func TestAllow(t *testing.T) {
	for _, c := range []struct{ url, nets, ports string }{
		{"http://127.0.0.20:8081/", "[127.0.0.20/32]", "[8081]"}, {"http://10.1.2.3/", "[10.1.2.3/32]", "[]"},
		{"https://[::1]:8443/x", "[::1/128]", "[8443]"}, {"http://[fd00::1]/", "[fd00::1/128]", "[]"},
		{"http://192.0.2.1/", "[]", "[]"}, {"http://169.254.169.254/", "[]", "[]"},
		{"http://intranet.my.example:8080/", "[]", "[8080]"}, {"my.example", "[]", "[]"},
	} {
		var x Command
		x.URLs = []string{c.url}
		url, err := x.url()
		if err != nil {
			t.Fatal(err)
		}
		note := x.allow(hostPort(url))
		if got := fmt.Sprint(x.AllowNet); got != c.nets || fmt.Sprint(x.Ports) != c.ports {
			t.Errorf("%s: got %s and %v, want %s and %s", c.url, got, x.Ports, c.nets, c.ports)
		}
		if (note == "") != (c.nets == "[]" && c.ports == "[]") {
			t.Errorf("%s: says %q", c.url, note)
		}
		if again := x.allow(hostPort(url)); again != "" {
			t.Errorf("%s: says %q again", c.url, again)
		}
	}
}

// TestSiteRefusals: other than one URL, a name that no name server knows, and a report inside the crawl.
func TestSiteRefusals(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{}, {"a.test", "b.test"}, {"a.test", "--seeds=x"}, {"ftp://a.test/"},
		{"http://localhost:8080/"}, {"a.test", "--report=" + filepath.Join(dir, "no", "x.html")}} {
		cmdtest.WantExit[commands](t, term.ExitUsage, "", append([]string{"site"}, args...)...)
	}
	_, errs := cmdtest.WantExit[commands](t, term.ExitDirectory, "", "site", "a.test", "--dir="+dir, "--report="+
		filepath.Join(dir, "x.html"))
	if !strings.Contains(errs, "is inside") {
		t.Errorf("a report inside the crawl: %q", errs)
	}
	var c Command
	c.Report, c.CheckOutside = "x.html", true
	var out, none bytes.Buffer
	err := c.report(term.NewApp(strings.NewReader(""), &out, &none), &crawl.Options{Disk: crawl.DiskOptions{
		Dirs: []string{"d"}}}, &crawl.Result{Stop: crawl.StopCancelled}, "a.test")
	want := "drumbeat report --site a.test --check-outside -o x.html d writes it"
	if err != nil || !strings.Contains(out.String(), want) {
		t.Errorf("after a signal: %v, %q, want %q", err, out.String(), want)
	}
}
