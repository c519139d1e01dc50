package sitemaps_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
)

func gzipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(s))
	_ = z.Close()
	return b.String()
}

// siteMap returns a sitemap of URLs, or a sitemap index if what is "sitemap".
func siteMap(what string, urls ...string) string {
	root := map[string]string{"url": "urlset", "sitemap": "sitemapindex"}[what]
	s := "<?xml version='1.0'?><" + root + ">"
	for _, u := range urls {
		s += "<" + what + "><loc>" + u + "</loc></" + what + ">"
	}
	return s + "</" + root + ">"
}

// mapWeb is a site whose pages only sitemaps name.
func mapWeb() *testworld.Web {
	xml := "Content-Type: application/xml\r\n"
	pages := map[string]testworld.Answer{
		"a.test/robots.txt": {200, "", "Sitemap: /index.xml.gz\nUser-agent: *\nDisallow: /no\n\nsitemap: " +
			"http://maps.test/a.txt\nSitemap: http://[bad\n" +
			"Sitemap: http://a.test/moved.xml\nSitemap: http://a.test/page\n"},
		"a.test/":       {200, "", "<html>home"},
		"a.test/page":   {200, "", "<html><a href=/linked>"},
		"a.test/linked": {200, "", "<html>"},
		"a.test/index.xml.gz": {200, "Content-Type: application/gzip\r\n",
			gzipped(siteMap("sitemap", "http://a.test/1.xml.gz", "http://www.a.test/2.xml", "http://evil.test/3.xml",
				"http://a.test/nested.xml"))},
		"a.test/1.xml.gz": {200, "Content-Type: application/x-gzip\r\n",
			gzipped(siteMap("url", "http://a.test/m1", "http://a.test/no/m2", "http://b.test/foreign", "nonsense",
				"http://a.test/m1"))},
		"www.a.test/2.xml": {200, xml + "Content-Encoding: gzip\r\n",
			gzipped(siteMap("url", "http://a.test/m3?a=1&amp;b=2"))},
		"a.test/nested.xml": {200, xml, siteMap("sitemap", "http://a.test/never.xml")},
		"a.test/moved.xml":  {301, "Location: http://cdn.test/s.xml\r\n", ""},
		"cdn.test/s.xml":    {200, "", siteMap("url", "http://a.test/m4", "http://other.test/x")},
		"maps.test/a.txt": {200, "Content-Type: text/plain\r\n",
			"http://a.test/m5\nhttp://maps.test/m6\nhttp://c.test/x\n"},
	}
	return &testworld.Web{Serve: func(host, path string) testworld.Answer {
		if a, ok := pages[host+path]; ok {
			return a
		}
		if path == "/robots.txt" {
			return testworld.NoRobots
		}
		return testworld.Answer{200, "", "<html>x"}
	}}
}

// TestSitemapsAreFollowed: the crawl must request exactly the URLs that the sitemaps may name, each once,
// and log the sitemap lines.
func TestSitemapsAreFollowed(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := mapWeb()
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, w, fs, "http://a.test/")
		opt.Links.Sitemaps = true
		opt.Admission.URLRules.SkipExtensions = []string{"gz", "xml", "txt"} // applies to links, not to sitemaps
		res := crawltest.MustRun(t, t.Context(), opt)
		var got []string
		for _, q := range w.Got("", "") {
			if q.Path != "/robots.txt" {
				got = append(got, q.Host+q.Path)
			}
		}
		slices.Sort(got)
		want := []string{"a.test/", "a.test/1.xml.gz", "a.test/index.xml.gz", "a.test/linked", "a.test/m1",
			"a.test/m3?a=1&b=2", "a.test/m4", "a.test/m5", "a.test/moved.xml", "a.test/nested.xml", "a.test/page",
			"cdn.test/s.xml", "maps.test/a.txt", "maps.test/m6", "www.a.test/2.xml"}
		if !slices.Equal(got, want) {
			t.Errorf("requested %q\nwant %q", got, want)
		}
		s := &res.Snapshot
		// The faults are: evil.test's sitemap, the index within an index, a foreign URL in each of three
		// sitemaps, a text that is no URL, and a page given as a sitemap.
		if n, urls, faults := s.Count(state.CountSitemaps), s.Count(state.CountSitemapURLs),
			s.Count(state.CountSitemapFaults); n != 6 || urls != 3+3+1+1+2 || faults != 1+1+3+1+1 {
			t.Errorf("%d sitemaps, %d URLs, %d faults", n, urls, faults)
		}
		if n := s.Refused["robots"]; n != 1 {
			t.Errorf("%d refused by robots, want 1: %v", n, s.Refused)
		}
		testworld.CheckBalanced(t, fs, opt.Disk.Dirs)
		lines := robotsLog(t, fs)
		for _, want := range []string{"http://a.test/index.xml.gz sitemap", "http://maps.test/a.txt sitemap",
			"http://[bad bad-sitemap", "http://a.test/robots.txt "} {
			if !slices.Contains(lines, want) {
				t.Errorf("not logged: %q in %q", want, lines)
			}
		}
	})
}

// robotsLog returns the URL and reason of each line of the finished robots log.
func robotsLog(t *testing.T, fs disk.FS) (lines []string) {
	t.Helper()
	for _, dir := range []string{"d0/log", "d1/log"} {
		names, _ := fs.List(dir) // one directory has no log
		for _, name := range names {
			if !strings.HasPrefix(name, "robots-") {
				continue
			}
			data, err := disk.ReadFile(fs, dir+"/"+name)
			if err != nil {
				t.Fatal(err)
			}
			z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
			if err != nil {
				t.Fatal(err)
			}
			text, err := z.DecodeAll(data, nil)
			z.Close()
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				var e struct{ URL, Reason string }
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatal(err)
				}
				lines = append(lines, e.URL+" "+e.Reason)
			}
		}
	}
	return lines
}

// TestSitemapsAreOffByDefault: without --sitemaps the crawl must log the sitemap lines and request nothing
// from them.
func TestSitemapsAreOffByDefault(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := mapWeb()
		fs := memfs.New(*testworld.Seed)
		crawltest.MustRun(t, t.Context(), crawltest.WebOptions(t, w, fs, "http://a.test/"))
		if got := w.Pages(""); len(got) != 1 {
			t.Errorf("requested %v", got)
		}
		if lines := robotsLog(t, fs); !slices.Contains(lines, "http://maps.test/a.txt sitemap") {
			t.Errorf("log has %q", lines)
		}
	})
}

// TestSitemapRules: sitemaps and the URLs in them must obey depth and scope.
func TestSitemapRules(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		for _, c := range []struct {
			depth int
			scope state.Scope
			pages int // without the seed
		}{{0, state.ScopeAll, 0}, {1, state.ScopeAll, 4}, {crawl.Unlimited, state.ScopeHost, 9}} {
			w := mapWeb()
			opt := crawltest.WebOptions(t, w, memfs.New(*testworld.Seed), "http://a.test/")
			opt.Links.Sitemaps, opt.Limits.MaxDepth, opt.Admission.Scope = true, c.depth, c.scope
			crawltest.MustRun(t, t.Context(), opt)
			got := w.Pages("")
			if len(got) != 1+c.pages {
				t.Errorf("depth %d, scope %s: requested %d pages: %v", c.depth, c.scope, len(got), got)
			}
			for _, q := range got {
				if c.scope == state.ScopeHost && q.Host != "a.test" && q.Host != "www.a.test" {
					t.Errorf("requested a URL of %s", q.Host)
				}
			}
		}
	})
}

// TestSitemapBodies: a sitemap may be longer than a page. One that unpacks to more than 50 MiB must be read
// up to that limit. A truncated one, and one that declares entities, must count as faults.
func TestSitemapBodies(t *testing.T) {
	var long strings.Builder
	long.WriteString("<urlset>")
	for i := range 30_000 {
		fmt.Fprintf(&long, "<url><loc>http://big.test/%d</loc><!-- %0100d --></url>", i%20, i)
	}
	long.WriteString("</urlset>")
	bomb := gzipped("<urlset><url><loc>http://bomb.test/1</loc></url>" + strings.Repeat(" ", 60<<20))
	bodies := map[string]string{
		"big.test/s.xml": long.String(), "bomb.test/s.xml": bomb,
		"cut.test/s.xml": siteMap("url", "http://cut.test/1")[:72],
		"dtd.test/s.xml": "<!DOCTYPE urlset [<!ENTITY a 'http://dtd.test/1'>]>" + siteMap("url", "&a;"),
	}
	testworld.InBubble(t, func(t *testing.T) {
		w := &testworld.Web{Serve: func(host, path string) testworld.Answer {
			if path == "/robots.txt" {
				return testworld.Answer{200, "", "Sitemap: http://" + host + "/s.xml"}
			}
			if body, ok := bodies[host+path]; ok {
				return testworld.Answer{200, "Content-Type: application/octet-stream\r\n", body}
			}
			return testworld.Answer{200, "", "<html>"}
		}}
		opt := crawltest.WebOptions(t, w, memfs.New(*testworld.Seed), "http://big.test/", "http://bomb.test/",
			"http://cut.test/", "http://dtd.test/")
		opt.Links.Sitemaps, opt.Politeness.HostDelay, opt.Limits.Linger = true, 2*time.Second, 10*time.Second
		res := crawltest.MustRun(t, t.Context(), opt)
		for host, want := range map[string]int{"big": 22, "bomb": 3, "cut": 3, "dtd": 2} {
			if got := len(w.Pages(host)); got != want {
				t.Errorf("%s: requested %d pages, want %d", host, got, want)
			}
		}
		if n := res.Snapshot.Count(state.CountSitemapFaults); n != 3 {
			t.Errorf("%d faults, want 3", n)
		}
	})
}
