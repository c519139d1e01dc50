package crawl

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/observe"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/state"
)

// choosyWeb is a chain of pages, each of which takes 5 s and comes in br or zstd if the request asks for it.
type choosyWeb struct {
	tinyWeb
	served map[string]int64 // responses by coding
}

func newChoosyWeb(t *testing.T, pages int) *choosyWeb {
	w := &choosyWeb{served: map[string]int64{}}
	w.Serve = pagesOnly
	w.Raw = func(c net.Conn, host, path string) bool {
		var n int
		if _, err := fmt.Sscanf(path, "/%d", &n); err != nil || n >= pages {
			return false
		}
		rs := w.Got(host, path)
		accepts := strings.Split(rs[len(rs)-1].Codings, ", ")
		coding := ""
		for _, name := range []string{"zstd", "br", "gzip"} {
			if slices.Contains(accepts, name) {
				coding = name
				break
			}
		}
		page := fmt.Sprintf("<html><a href=\"/%d\">next</a>%s", n+1, strings.Repeat("<p>words of a page</p>\n", 1000))
		if coding != "" {
			page = packed(t, coding, page)
			w.Mu.Lock()
			w.served[coding]++
			w.Mu.Unlock()
			coding = "Content-Encoding: " + coding + "\r\n"
		}
		time.Sleep(5 * time.Second) // in a bubble
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n%sContent-Length: %d\r\n\r\n%s", coding,
			len(page), page)
		return true
	}
	return w
}

// checkCounters compares the counters by coding with what the web served.
func (w *choosyWeb) checkCounters(t *testing.T, s *Snapshot) {
	t.Helper()
	var received, decoded, n int64
	for i, name := range state.Codings {
		coding := state.Counter(i)
		if got := s.Count(state.CountCoded + coding); got != w.served[name] {
			t.Errorf("%d responses in %s, want %d", got, name, w.served[name])
		}
		in, out := s.Count(state.CountBytesCoded+coding), s.Count(state.CountBytesUncoded+coding)
		if (w.served[name] > 0) != (in > 0 && out > 10*in) {
			t.Errorf("%s: %d bytes received, %d decoded", name, in, out)
		}
		n, received, decoded = n+s.Count(state.CountCoded+coding), received+in, decoded+out
	}
	if n != s.Count(state.CountCompressed) || received != s.Count(state.CountBytesCompressed) ||
		decoded != s.Count(state.CountBytesUncompressed) {
		t.Errorf("the counters by coding have the sums %d, %d and %d; the totals differ", n, received, decoded)
	}
}

// TestChooseCodings: a crawl whose only connection is always busy asks for br after a minute while its
// processors have room, and for gzip alone from the minute on in which they are busy.
func TestChooseCodings(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newChoosyWeb(t, 60)
		opt := tinyOptions(t, &w.tinyWeb, memfs.New(*seedFlag), "http://choosy.test/0")
		atOnce(&opt)
		opt.Limits.Linger, opt.Network.Connections = 0, 1
		client := opt.Network.Fetcher.(*fetch.Client)
		began := time.Now()
		opt.Network.SetAcceptEncoding = client.SetAcceptEncoding
		opt.tests.processorsInUse = func(now time.Time) float64 {
			if now.Sub(began) > 150*time.Second {
				return 0.95
			}
			return 0.2
		}
		res := mustRun(t, t.Context(), opt)
		var runs []string // Accept-Encoding of the pages, without repeats
		for i := range 60 {
			rs := w.Got("choosy.test", fmt.Sprintf("/%d", i))
			if len(rs) != 1 {
				t.Fatalf("page %d was requested %d times", i, len(rs))
			}
			if len(runs) == 0 || runs[len(runs)-1] != rs[0].Codings {
				t.Logf("from %v on: %s", rs[0].At.Sub(began), rs[0].Codings)
				runs = append(runs, rs[0].Codings)
			}
		}
		if !slices.Equal(runs, []string{observe.CodingsNarrow, observe.CodingsWide, observe.CodingsNarrow}) {
			t.Errorf("Accept-Encoding went through %q", runs)
		}
		if w.served["br"] < 10 || w.served["gzip"] < 10 || res.Snapshot.AsksForBrotli {
			t.Errorf("responses by coding: %v; at the end the crawl asks for br: %t", w.served,
				res.Snapshot.AsksForBrotli)
		}
		w.checkCounters(t, &res.Snapshot)
	})
}

// TestFixedCodings: without SetAcceptEncoding all requests have the fetcher's value, whatever the load.
func TestFixedCodings(t *testing.T) {
	for _, codings := range []string{"gzip", "gzip, br, zstd", "br", "identity"} {
		inBubble(t, func(t *testing.T) {
			w := newChoosyWeb(t, 20)
			opt := tinyOptions(t, &w.tinyWeb, memfs.New(*seedFlag), "http://choosy.test/0")
			atOnce(&opt)
			opt.Limits.Linger, opt.Network.Connections = 0, 1
			must(t, opt.Network.Fetcher.(*fetch.Client).SetAcceptEncoding(codings))
			res := mustRun(t, t.Context(), opt)
			for _, r := range w.Got("", "") {
				if r.Codings != codings {
					t.Errorf("%s: Accept-Encoding %q, want %q", r.Path, r.Codings, codings)
				}
			}
			if n := len(w.Pages("choosy")); n != 21 {
				t.Errorf("%d requests for pages, want 21", n)
			}
			w.checkCounters(t, &res.Snapshot)
		})
	}
}

// TestSitemapsComeInGzip: while requests for pages ask for br, those for sitemaps ask for gzip, because a sitemap
// of more than 1 MiB would be cut in br.
func TestSitemapsComeInGzip(t *testing.T) {
	loc := func(path string) string { return "<url><loc>http://map.test/" + path + "</loc></url>" }
	var filler strings.Builder
	for i := 0; filler.Len() < 3<<20; i++ {
		fmt.Fprintf(&filler, "<!-- filler %d -->\n", i*i)
	}
	large := `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">` + loc("first") + filler.String() +
		loc("last") + "</urlset>"
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{}
		w.Serve = func(_, path string) answer {
			switch path {
			case "/robots.txt":
				return answer{200, "", "Sitemap: http://map.test/map.xml\n"}
			case "/map.xml":
				coding := "br"
				if w.Requests[len(w.Requests)-1].Codings == "gzip" {
					coding = "gzip"
				}
				return answer{200, "Content-Encoding: " + coding + "\r\n", packed(t, coding, large)}
			}
			return answer{200, "", "<html>x"}
		}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), "http://map.test/")
		atOnce(&opt)
		opt.Limits.Linger, opt.Network.Connections, opt.Links.Sitemaps = 0, 1, true
		must(t, opt.Network.Fetcher.(*fetch.Client).SetAcceptEncoding(observe.CodingsWide))
		mustRun(t, t.Context(), opt)
		for path, codings := range map[string]string{"/": observe.CodingsWide, "/map.xml": "gzip",
			"/first": observe.CodingsWide, "/last": observe.CodingsWide} {
			if rs := w.Got("map.test", path); len(rs) != 1 || rs[0].Codings != codings {
				t.Errorf("%s: requests %v, want one with %q", path, rs, codings)
			}
		}
	})
}
