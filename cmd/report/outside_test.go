package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	crawlcmd "drumbeat/cmd/crawl"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/fetch"
	"drumbeat/internal/ports"
	"drumbeat/state"
	"drumbeat/state/sitereport"
)

// atOnce are flags without delays, for servers of this test.
var atOnce = []string{"--host-delay=0s", "--pld-delay=0s", "--server-delay=0s", "--linger=0s"}

// visited is a server that keeps what it was asked for.
type visited struct {
	mu    sync.Mutex     // guards the fields below
	asked map[string]int // by path
	names map[string]bool
}

func (v *visited) taken() (asked map[string]int, names []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.asked), slices.Collect(maps.Keys(v.names))
}

// serveAt serves on an address of loopback, and returns the URL without a slash.
func serveAt(t *testing.T, host string, answer http.HandlerFunc) (string, *visited) {
	t.Helper()
	v := &visited{asked: map[string]int{}, names: map[string]bool{}}
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Skipf("no second address on loopback: %v", err) // not on Linux
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			v.mu.Lock()
			v.asked[r.URL.Path]++
			v.names[r.UserAgent()+" From: "+r.Header.Get("From")] = true
			v.mu.Unlock()
			answer(w, r)
		})}}
	s.Start()
	t.Cleanup(s.Close)
	return s.URL, v
}

// outsideWorld is a site that links to two other hosts, and a crawl of it in the directory d that may not connect to
// one of them.
type outsideWorld struct {
	site, other   string // URLs without a slash
	asked, walled *visited
	app           *term.App
	args          []string // of the crawl, without --dir
}

func newOutsideWorld(t *testing.T) *outsideWorld {
	t.Helper()
	w := &outsideWorld{app: term.NewApp(strings.NewReader(""), io.Discard, io.Discard)}
	w.other, w.asked = serveAt(t, "127.0.0.2", func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; path {
		case "/robots.txt":
			fmt.Fprint(w, "User-agent: *\nDisallow: /private\n")
		case "/moved", "/loop":
			http.Redirect(w, r, map[string]string{"/moved": "/gone", "/loop": "/loop"}[path], http.StatusFound)
		case "/gone":
			w.WriteHeader(http.StatusNotFound)
		case "/refused":
			w.WriteHeader(http.StatusForbidden)
		default:
			fmt.Fprint(w, "<a href=/further>", strings.Repeat("a long page ", 1<<20))
		}
	})
	var walled string
	walled, w.walled = serveAt(t, "127.0.0.3", func(http.ResponseWriter, *http.Request) {})
	w.site, _ = serveAt(t, "127.0.0.1", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/":
			fmt.Fprint(rw, "<title>t</title><a href=/two>two</a><a href=/three>three</a>")
		case "/two":
			for _, to := range []string{"good", "gone", "moved", "loop", "refused", "private", "report.pdf"} {
				fmt.Fprintf(rw, "<title>t</title><a href=%s/%s>%[2]s</a>", w.other, to)
			}
		case "/three":
			fmt.Fprintf(rw, "<title>t</title><a href=%s/gone>also gone</a><a href=%s/>walled</a>", w.other, walled)
		default:
			http.NotFound(rw, r)
		}
	})
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	check(t, os.WriteFile("seeds", []byte(w.site+"/\n"), 0o600))
	w.args = slices.Concat([]string{"--seeds=seeds", "--scope=host", "--crawl-log=all", "--ram=128MiB",
		"--contact=me@site.example", "--allow-net=127.0.0.1/32", "--allow-net=127.0.0.2/32", "--connections=8",
		"--resolver=127.0.0.1:9"}, atOnce)
	for _, url := range []string{w.site, w.other, walled} {
		w.args = append(w.args, "--ports="+url[strings.LastIndex(url, ":")+1:])
	}
	check(t, crawlcmd.Once(t.Context(), w.app, append(w.args, "--dir=d"), nil))
	return w
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// report returns the report of the site.
func (w *outsideWorld) report(t *testing.T, outside bool, links int) *sitereport.Report {
	t.Helper()
	c := Command{CrawlDirs: flags.CrawlDirs{Dir: []string{"d"}}, Output: "r.json", siteFlags: siteFlags{
		Site: "127.0.0.1", Rows: 10, RAM: defaultRAM, CheckOutside: outside, OutsideLinks: flags.Count(links),
		outsideMore: atOnce}}
	check(t, c.ofSite(w.app))
	data, err := os.ReadFile("r.json")
	check(t, err)
	r := new(sitereport.Report)
	check(t, json.Unmarshal(data, r))
	return r
}

// TestCheckOutside: each target on other sites is asked for once, in the name of the crawl, as robots.txt and the
// networks of the crawl allow. The broken ones are in the report. Without the flag nothing is asked for.
func TestCheckOutside(t *testing.T) {
	w := newOutsideWorld(t)
	r := w.report(t, false, defaultOutside)
	if got, _ := w.asked.taken(); len(got) > 0 || r.Outside != 8 || r.OutsideChecked != 0 || r.Score.CleanPages != 3 {
		t.Fatalf("without --check-outside %v was asked for; %d outside, %d checked, %d clean pages", got, r.Outside,
			r.OutsideChecked, r.Score.CleanPages)
	}
	r = w.report(t, true, 10)
	got, names := w.asked.taken()
	want := map[string]int{"/robots.txt": 1, "/good": 1, "/gone": 1, "/moved": 1, "/loop": 1, "/refused": 1,
		"/report.pdf": 1}
	if !maps.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
	if name := flags.UserAgent(flags.DefaultAgent, "me@site.example") + " From: me@site.example"; len(names) != 1 ||
		names[0] != name {
		t.Errorf("names %q, want %q", names, name)
	}
	if got, _ := w.walled.taken(); len(got) > 0 {
		t.Errorf("asked a network that the crawl does not allow for %v", got)
	}
	var rows []string
	for _, row := range r.Finding("broken-outside").Rows {
		line := strings.ReplaceAll(row.URL+" "+row.Detail, w.other, "")
		for _, from := range row.From {
			line += ", " + strings.TrimPrefix(from.URL, w.site) + " " + from.Text
		}
		rows = append(rows, line)
	}
	wantRows := []string{"/gone status 404, /two gone, /three also gone",
		"/loop redirects in a circle, or too often, /two loop",
		"/moved status 404, after a redirect to /gone, /two moved"}
	if !slices.Equal(rows, wantRows) {
		t.Errorf("rows\n%q\nwant\n%q", rows, wantRows)
	}
	note := "3 links to other sites could not be checked"
	if r.OutsideChecked != 5 || r.Score.CleanPages != 1 || len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], note) {
		t.Errorf("%d checked, %d clean pages, notes %q", r.OutsideChecked, r.Score.CleanPages, r.Notes)
	}
	// The one with the most links comes first.
	r = w.report(t, true, 1)
	if f := r.Finding("broken-outside"); r.OutsideChecked != 1 || f.Total != 1 || f.Rows[0].URL != w.other+"/gone" {
		t.Errorf("one link: %d checked, %+v", r.OutsideChecked, f)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "drumbeat-outside-*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %q, %v", left, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(term.ErrSignal)
	err := crawlcmd.Once(ctx, w.app, append(w.args, "--dir=other"), nil)
	if !errors.Is(err, term.ErrSignal) {
		t.Errorf("after a signal: %v", err)
	}
}

// TestJudgeOutside: a link is broken if visitors are sure to find nothing there.
func TestJudgeOutside(t *testing.T) {
	const url = "https://a.test/x"
	for _, c := range []struct {
		page   *answer
		robots answer
		fault  string
		sure   bool
	}{
		{&answer{status: 200}, answer{}, "", true},
		{&answer{status: 500}, answer{}, "status 500", true},
		{&answer{status: 503}, answer{}, "", false},
		{&answer{status: 429}, answer{}, "", false},
		{&answer{status: 999}, answer{}, "", false},
		{&answer{status: 200, tls: fetch.VerdictExpired}, answer{}, "its certificate is bad: expired", true},
		{&answer{status: 200, tls: fetch.VerdictUnknown}, answer{}, "", true},
		{&answer{reason: state.ReasonNoHost.String()}, answer{}, "no such host", true},
		{&answer{reason: state.ReasonDNS.String()}, answer{}, "", false},
		{&answer{reason: state.ReasonReset.String()}, answer{}, "", false},
		{&answer{reason: state.ReasonRobots.String()}, answer{}, "", false},
		{&answer{reason: state.ReasonForbiddenAddress.String()}, answer{}, "", false},
		{&answer{reason: "robots-unavailable"}, answer{reason: "network-failure"}, "the server does not answer", true},
		{&answer{reason: "robots-unavailable"}, answer{status: 503}, "", false},
		{nil, answer{reason: "network-failure"}, "the server does not answer", true},
		{nil, answer{reason: "dns-failure"}, "", false},
		{nil, answer{status: 200}, "", false},
		{&answer{status: 301, redirect: "https://b.test/"}, answer{}, "", false}, // its target has no answer
	} {
		s := &answers{pages: map[string]answer{"https://other.test/": {status: 404}},
			robots: map[string]answer{"https://a.test/robots.txt": c.robots}}
		if c.page != nil {
			s.pages[url] = *c.page
		}
		if fault, sure := s.judge(url); fault != c.fault || sure != c.sure {
			t.Errorf("%+v, robots.txt %+v: %q, %v; want %q, %v", c.page, c.robots, fault, sure, c.fault, c.sure)
		}
	}
	// Nothing answers: the fault is likely ours.
	s := &answers{pages: map[string]answer{url: {reason: state.ReasonConnect.String()}}}
	if checked, notes := s.judgeAll([]sitereport.Row{{URL: url}}); len(checked) > 0 || len(notes) != 1 ||
		!strings.Contains(notes[0], "no other site has answered") {
		t.Errorf("without a network: %v, %q", checked, notes)
	}
}

// TestOutsideArgs: the check has the identity, networks, ports, name servers and blacklist of the crawl.
func TestOutsideArgs(t *testing.T) {
	for _, run := range []*state.LastRun{nil, {Agent: "bot"}} {
		if _, err := outsideArgs(&state.Manifest{Run: run}); err == nil || !strings.Contains(err.Error(), "contact") {
			t.Errorf("without a contact: %v", err)
		}
	}
	got, err := outsideArgs(&state.Manifest{Frozen: state.Frozen{KeepEscapes: true}, Run: &state.LastRun{Agent: "bot",
		Contact: "me@x.test", UserAgent: "bot/1 (+me@x.test)", Ports: ports.New(ports.Of(8080)...),
		AllowNets: []string{"10.0.0.0/8"}, NameServers: []string{"10.0.0.1:53"}, Blacklist: []string{"no.txt"}}})
	check(t, err)
	want := []string{"--agent=bot", "--contact=me@x.test", "--user-agent=bot/1 (+me@x.test)", "--max-redirects=10",
		"--max-time=1h0m0s", "--ports=8080", "--canonical=escapes=keep", "--allow-net=10.0.0.0/8",
		"--resolver=10.0.0.1:53", "--blacklist=no.txt"}
	if got = got[len(outsideFlags):]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
