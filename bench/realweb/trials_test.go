package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/bench/result"
	"drumbeat/internal/simweb"
)

// docsTree makes a small package with a page in a directory that is a symbolic link, as in openjdk-17-doc.
func docsTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	docs := filepath.Join(dir, "docs")
	for name, text := range map[string]string{
		"docs/index.html":   "<a href=api/a.html>a</a><a href=pic.png>pic</a>",
		"docs/pic.png":      "pixels",
		"elsewhere/a.html":  strings.Repeat("<p>a ", 500),
		"elsewhere/b/c.txt": "text",
	} {
		name = filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, []byte(text), 0o644))
	}
	must(t, os.Symlink("../elsewhere", filepath.Join(docs, "api")))
	must(t, os.Symlink("../gone.html", filepath.Join(docs, "gone.html")))
	return docs
}

func TestTrialWeb(t *testing.T) {
	docs := docsTree(t)
	c := &raceCmd{raceFlags: raceFlags{Work: t.TempDir()}, Packages: []string{docs + "*4", docs + ":api*2"}}
	if _, err := newTrialWeb(context.Background(), c); err == nil {
		t.Error("a subdirectory without an index.html: got no error")
	}
	c = &raceCmd{raceFlags: raceFlags{Work: t.TempDir()}, Packages: []string{docs + "*4"}}
	w, err := newTrialWeb(context.Background(), c)
	must(t, err)
	if len(w.hosts) != 4 || len(w.seeds()) != 4 || w.addrs != 4 {
		t.Fatalf("got %d hosts on %d addresses, %d seeds, want 4 of each", len(w.hosts), w.addrs, len(w.seeds()))
	}
	forbidding := 0
	for _, h := range w.hosts {
		if h.disallow != "" {
			forbidding++
		}
		if h.robotsText() == "" || h.https {
			t.Errorf("%s: got robots.txt %q, https %v; want one, and plain HTTP", h.name, h.robotsText(), h.https)
		}
	}
	if forbidding != 1 {
		t.Errorf("got %d hosts whose robots.txt forbids something, want 1", forbidding)
	}
	for page, want := range map[string]string{"index.html": "<a href=api/a.html>", "api/a.html": "<p>a <p>a "} {
		f, err := os.Open(filepath.Join(w.hosts[0].root, page+".gz"))
		must(t, err)
		defer f.Close()
		z, err := gzip.NewReader(f)
		must(t, err)
		packed, err := io.ReadAll(z)
		must(t, err)
		plain, err := os.ReadFile(filepath.Join(w.hosts[0].root, page))
		if err != nil || !bytes.Equal(packed, plain) || !strings.HasPrefix(string(plain), want) {
			t.Errorf("%s: got %d bytes packed, %d plain (%v), want the same", page, len(packed), len(plain), err)
		}
	}
	if _, err := os.Stat(filepath.Join(w.hosts[0].root, "pic.png.gz")); err == nil {
		t.Error("a picture is compressed")
	}
	if k, err := newWalk(w); err != nil || k.pages != 4+3 {
		t.Errorf("got a walk of %d pages (%v), want 7: two of each host, less one that robots.txt forbids", k.pages,
			err)
	}
}

// TestUncompressedHosts: in the full web every third host of each package, and no other, sends its pages
// uncompressed.
func TestUncompressedHosts(t *testing.T) {
	docs := docsTree(t)
	for name, want := range map[string]string{"core": "[]", webFull: "[4 5 10]"} {
		c := &raceCmd{raceFlags: raceFlags{Work: t.TempDir()}, Web: name,
			Packages: []string{docs + "*6", docs + "/.*5"}}
		w, err := newTrialWeb(context.Background(), c)
		must(t, err)
		got := []int{}
		for i, h := range w.hosts {
			if h.plain {
				got = append(got, i)
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: got uncompressed hosts %v, want %s", name, got, want)
		}
		must(t, w.writeConf())
		conf, err := os.ReadFile(w.path("nginx.conf"))
		if n := bytes.Count(conf, []byte("gzip_static off;")); err != nil || n != len(got) {
			t.Errorf("%s: got %d hosts without gzip in nginx.conf (%v), want %d", name, n, err, len(got))
		}
	}
}

func TestTrialPackages(t *testing.T) {
	for _, p := range []string{"x*0", "x*1001", "x*2*3", "x*many"} {
		c := &raceCmd{raceFlags: raceFlags{Work: t.TempDir()}, Packages: []string{p}}
		if _, err := newTrialWeb(context.Background(), c); err == nil || !strings.Contains(err.Error(), "1 to 1000") {
			t.Errorf("%s: got %v, want an error that says how to write it", p, err)
		}
	}
}

func TestPagesOfALog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "access.log")
	text := `10.500 0.001 http a.test 200 100 GET text/html /b.html
10.400 0.000 http a.test 200 100 GET text/html /
10.600 0.000 http a.test 200 100 GET text/html /b.html
10.700 0.000 http a.test 404 100 GET text/html /c.html
10.800 0.000 http a.test 200 100 GET text/plain /robots.txt
10.900 0.000 http a.test 301 100 GET - /with space
`
	must(t, os.WriteFile(name, []byte(text), 0o644))
	r, err := readRequests(name)
	must(t, err)
	if want := []string{"http://a.test/b.html", "http://a.test/"}; !slices.Equal(r.pages, want) {
		t.Errorf("got pages %q, want %q", r.pages, want)
	}
	if len(r.urls) != 5 || r.urls[4] != "http://a.test/with space" {
		t.Errorf("got URLs %q, want 5 in the order of the log", r.urls)
	}
	if r.byURL["http://a.test/b.html"] != 2 || r.byURL["http://a.test/with space"] != 1 {
		t.Errorf("got requests %v", r.byURL)
	}
	if got := fmt.Sprint(r.pageEnds); got != "[10.5s 10.4s]" {
		t.Errorf("got times %s", got)
	}
}

// TestRatios: ratios are quotients of medians, and only stated targets are checked.
func TestRatios(t *testing.T) {
	run := func(pages int, wall, cpu time.Duration) *trial {
		return &trial{cost: cost{wall: wall, cpu: cpu}, log: &requests{pages: make([]string, pages)}}
	}
	r := &trials{raceCmd: &raceCmd{raceFlags: raceFlags{MostCPU: 1.5}, LeastWget2: 2}, runs: runs[*trial]{
		wget2Name: {run(100, time.Second, time.Second), run(100, time.Hour, time.Hour),
			run(100, time.Millisecond, 0)},
		drumbeatName:    {run(100, time.Second/4, time.Second/2)},
		bareName:        {run(100, time.Second/8, time.Second/4)},
		noStoreName:     {run(100, time.Second/16, time.Second/8)},
		bareNoStoreName: {run(100, time.Second/16, time.Second/8)},
	}}
	rep := result.New("race", "test")
	r.ratios(rep)
	want := [][]string{{"drumbeat/wget2", "4.00", "0.50"}, {"drumbeat/bare", "0.50", "2.00"},
		{"drumbeat-nostore/bare", "2.00", "0.50"}, {"drumbeat-nostore/bare-nostore", "1.00", "1.00"}}
	if got := rep.Tables[0].Rows; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got ratios %v, want %v", got, want)
	}
	if len(rep.Checks) != 2 || !rep.Checks[0].OK() || rep.Checks[1].OK() {
		t.Errorf("got checks %v, want one met for wget2, one missed for CPU", rep.Checks)
	}
	if rows := r.table().Rows; len(rows) != len(contenders) || rows[0][2] != "100" || rows[0][3] != "10.000" {
		t.Errorf("got medians %v, want 5, that of wget2 with 100 pages/s and 10 ms of CPU a page", rows)
	}
}

// noNames starts a name server that knows no name.
func noNames(t *testing.T) *simweb.NameServer {
	t.Helper()
	n, err := simweb.StartNameServer(0, func(string) ([]netip.Addr, time.Duration) { return nil, 0 })
	must(t, err)
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// TestCommands: the contenders differ in what they store, and with one host the bare loop is serial.
func TestCommands(t *testing.T) {
	r := &trials{raceCmd: &raceCmd{raceFlags: raceFlags{Drumbeat: "drumbeat", Wget2: "wget2",
		Flags: []string{"--threads=9"}}}, web: &web{work: t.TempDir()},
		servers: &servers{dns: noNames(t)}}
	for name, store := range map[string]bool{bareName: true, bareNoStoreName: false, drumbeatName: false,
		noStoreName: true} {
		crawl := strings.HasPrefix(name, "drumbeat")
		for _, r.Web = range []string{webFull, webOne} {
			args := r.command(name, "DIR").Args
			one := r.Web == webOne
			if slices.Contains(args, "--store") != store || slices.Contains(args, "--threads=9") != crawl ||
				slices.Contains(args, "--linger") != (crawl && one) ||
				slices.Contains(args, "--connections") != (!crawl && one) {
				t.Errorf("%s, web %s: got %q", name, r.Web, args)
			}
		}
	}
}
