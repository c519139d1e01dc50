package crawl

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"drumbeat/admit"
	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// endlessRedirects serves hosts with endless chains of redirects, a loop of two, and in each chain a page
// that starts it again.
func endlessRedirects() *tinyWeb {
	return &tinyWeb{Serve: func(host, path string) answer {
		var n int
		switch {
		case path == "/robots.txt" && strings.HasPrefix(host, "map"):
			return answer{200, "", "Sitemap: /r1\n"}
		case path == "/robots.txt":
			return noRobots
		case path == "/loop1":
			return answer{301, "Location: /loop2\r\n", ""}
		case path == "/loop2":
			return answer{301, "Location: /loop1\r\n", ""}
		case path == "/anew":
			return answer{200, "", "<html><a href=/r1000>"}
		}
		if _, err := fmt.Sscanf(path, "/r%d", &n); err == nil {
			return answer{302, fmt.Sprintf("Location: /r%d\r\n", n+1), ""}
		}
		return answer{200, "", "<html><a href=/r1><a href=/loop1>"}
	}}
}

// TestRedirectsEnd: the crawl must stop following redirects after --max-redirects. It guards against
// endless requests to a host that redirects each URL to a new one.
func TestRedirectsEnd(t *testing.T) {
	for _, test := range []struct {
		most, want int
	}{{0, DefaultRedirects}, {3, 3}, {NoRedirects, 0}} {
		t.Run(fmt.Sprint(test.most), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w, mem := endlessRedirects(), memfs.New(*seedFlag)
				opt := tinyOptions(t, w, mem, "http://page.test/", "http://page.test/anew", "http://seed.test/r1",
					"bare.test/r1", "http://map.test/")
				atOnce(&opt)
				opt.Links.MaxRedirects, opt.Limits.MaxTime, opt.Links.Sitemaps, opt.Output.CrawlLog = test.most,
					time.Minute, true, state.LogErrors
				res := mustRun(t, t.Context(), opt)
				if res.Stop != StopDone {
					t.Errorf("stopped by %q, want %q", res.Stop, StopDone)
				}
				for _, host := range []string{"page.test", "seed.test", "bare.test", "map.test"} {
					chain := 0
					for _, q := range w.Got(host, "") {
						if strings.HasPrefix(q.Path, "/r") && q.Path != "/robots.txt" && len(q.Path) < 5 {
							chain++
						}
					}
					if chain != test.want+1 {
						t.Errorf("%s: %d requests in a chain of redirects, want the link and %d redirects", host,
							chain, test.want)
					}
				}
				if n := len(w.Got("page.test", fmt.Sprintf("/r%d", 1000+test.want))); n != 1 {
					t.Errorf("%d requests for the last URL of a chain that a page started again, want 1", n)
				}
				loops := min(2, test.want+1)
				if n := len(w.Got("page.test", "/loop1")) + len(w.Got("page.test", "/loop2")); n != loops {
					t.Errorf("%d requests in a loop of two, want %d", n, loops)
				}
				// The chains of page.test (two), seed, bare and map. Without redirects also the loops of
				// page.test and map.test.
				dropped := int64(5)
				if test.want == 0 {
					dropped += 2
				}
				if n := res.Snapshot.Count(state.CountLinksRedirects); n != dropped {
					t.Errorf("dropped %d redirects, want %d", n, dropped)
				}
				checkBalanced(t, mem, opt.Disk.Dirs)
				checkDropped(t, mem, &opt, fmt.Sprintf("http://page.test/r%d", 1+test.want), test.want)
			})
		})
	}
}

// checkDropped checks that log and explain give the reason why the redirect of the last URL of a chain
// isn't followed.
func checkDropped(t *testing.T, mem *memfs.FS, opt *Options, last string, most int) {
	t.Helper()
	if e := truthOf(t, mem, opt.Disk.Dirs).Ended[last]; e == nil || e.Dropped != admit.TooManyRedirects ||
		e.Redirect == "" || e.Reason != "" {
		t.Errorf("the log has %+v for %s", e, last)
	}
	x := explainer(t, mem, opt.Disk.Dirs)
	reports, err := x.URLs([]string{last})
	must(t, err)
	want := fmt.Sprintf("more than %d redirects in a row (--max-redirects)", most)
	if rep := reports[0]; rep.Place != "fetched" || !strings.Contains(strings.Join(rep.Why, "; "), want) {
		t.Errorf("explain %s: %s, %q, want %q", last, rep.Place, rep.Why, want)
	}
}
