package crawl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/fetcher"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
)

// robotsWeb is a web for tests of robots.txt politeness. The tests check what the sites log.
type robotsWeb struct {
	tinyWeb
	begun  time.Time
	robots map[string]func() answer // by host; nil: 404
}

// since is the time since the start of the test.
func (w *robotsWeb) since() time.Duration { return time.Since(w.begun) }

func newRobotsWeb() *robotsWeb {
	w := &robotsWeb{begun: time.Now(), robots: map[string]func() answer{}}
	w.Serve = func(host, path string) answer {
		if f := w.robots[host]; f != nil && strings.HasPrefix(path, "/robots.txt") {
			return f()
		}
		return pagesOnly(host, path)
	}
	return w
}

// crawl crawls /no and n pages of each host to the end, with a host delay of two seconds.
func (w *robotsWeb) crawl(t *testing.T, n int, change func(*Options), hosts ...string) *Result {
	t.Helper()
	var seeds []string
	for _, h := range hosts {
		seeds = append(seeds, "http://"+h+"/no")
		for i := range n {
			seeds = append(seeds, fmt.Sprintf("http://%s/%d", h, i))
		}
	}
	fs := memfs.New(*seedFlag)
	opt := tinyOptions(t, &w.tinyWeb, fs, seeds...)
	opt.Network.Resolver = w
	opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Limits.Linger, opt.Politeness.MaxCrawlDelay = 2*
		time.Second, 2*time.Second, 48*time.Hour, 300*time.Second
	if change != nil {
		change(&opt)
	}
	res := mustRun(t, t.Context(), opt)
	checkBalanced(t, fs, opt.Disk.Dirs)
	return res
}

// times returns the times of the requests for a host's robots.txt, or for its pages.
func (w *robotsWeb) times(host string, robots bool) (at []time.Duration) {
	for _, q := range w.Got(host, "") {
		if strings.HasPrefix(q.Path, "/robots.txt") == robots {
			at = append(at, q.At.Sub(w.begun))
		}
	}
	return at
}

func gaps(at []time.Duration) (list []time.Duration) {
	for i := 1; i < len(at); i++ {
		list = append(list, at[i]-at[i-1])
	}
	return list
}

const rules = "User-agent: *\nDisallow: /no\n"

// wantPages checks that a host got n page requests, and one for the forbidden /no only if no is true.
func (w *robotsWeb) wantPages(t *testing.T, host string, n int, no bool) {
	t.Helper()
	if got := len(w.times(host, false)); got != n {
		t.Errorf("%s: %d pages requested, want %d", host, got, n)
	}
	if got := len(w.Got(host, "/no")) > 0; got != no {
		t.Errorf("%s: requested a URL that robots.txt forbids: %v, want %v", host, got, no)
	}
}

// TestRobotsRedirects: the crawl must follow five redirects of robots.txt, also to other hosts, at each
// host's own pace. A sixth redirect must not be followed, and allows all. The rules apply to the first
// host, not to the last.
func TestRobotsRedirects(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newRobotsWeb()
		to := func(url string) func() answer {
			return func() answer { return answer{302, "Location: " + url + "\r\n", ""} }
		}
		chain := func(first string, hops int, last func() answer) {
			host := first
			for i := range hops {
				next := fmt.Sprintf("%s-hop%d.test", strings.TrimSuffix(first, ".test"), i+1)
				w.robots[host] = to("http://" + next + "/robots.txt")
				host = next
			}
			w.robots[host] = last
		}
		chain("five.test", 5, func() answer { return answer{200, "", rules + "Crawl-delay: 7\n"} })
		chain("six.test", 6, func() answer { return answer{200, "", "User-agent: *\nDisallow: /\n"} })
		hop := 0
		w.robots["circle.test"] = func() answer {
			hop++
			return answer{301, fmt.Sprintf("Location: /robots.txt?%d\r\n", hop), ""}
		}
		w.robots["nowhere.test"] = to("mailto:x@y.z")
		w.crawl(t, 3, nil, "five.test", "six.test", "circle.test", "nowhere.test", "five-hop5.test")
		w.wantPages(t, "five.test", 3, false)
		w.wantPages(t, "six.test", 4, true)
		w.wantPages(t, "circle.test", 4, true)
		w.wantPages(t, "nowhere.test", 4, true)
		w.wantPages(t, "five-hop5.test", 3, false) // by its own robots.txt
		if n := len(w.times("six-hop6.test", true)); n != 0 {
			t.Error("the crawl followed a sixth redirect")
		}
		if n := len(w.times("circle.test", true)); n != 6 {
			t.Errorf("%d requests for robots.txt that redirects to itself, want 6", n)
		}
		for _, host := range []string{"circle.test", "five-hop5.test", "five.test", "six.test"} {
			all := append(w.times(host, true), w.times(host, false)...)
			slices.Sort(all)
			for _, g := range gaps(all) {
				if g < 2*time.Second {
					t.Errorf("%s: two requests within %v", host, g)
				}
			}
		}
		for _, g := range gaps(w.times("five.test", false)) {
			if g < 7*time.Second {
				t.Errorf("five.test: two pages within %v, although the redirected rules have a Crawl-delay of 7 s", g)
			}
		}
	})
}

// TestRobotsUnavailable: a 4xx answer other than 429 must allow all URLs at once.
func TestRobotsUnavailable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newRobotsWeb()
		var hosts []string
		// The 3xx have no Location.
		for _, status := range []int{400, 401, 403, 404, 405, 410, 418, 451, 499, 300, 301, 399} {
			host := fmt.Sprintf("s%d.test", status)
			hosts = append(hosts, host)
			w.robots[host] = func() answer { return answer{status, "", "User-agent: *\nDisallow: /\n"} }
		}
		w.crawl(t, 2, nil, hosts...)
		for _, h := range hosts {
			w.wantPages(t, h, 3, true)
			if n := len(w.times(h, true)); n != 1 {
				t.Errorf("%s: %d requests for robots.txt", h, n)
			}
			if at := w.times(h, false); len(at) > 0 && at[0] > time.Minute {
				t.Errorf("%s: first page after %v", h, at[0])
			}
		}
	})
}

// failing returns a robots.txt that fails until a time.
func failing(w *robotsWeb, until time.Duration, bad answer) func() answer {
	return func() answer {
		if w.since() < until {
			return bad
		}
		return answer{200, "", rules}
	}
}

// checkRetries checks the retries of a host's robots.txt: the gaps must double from one minute on, and no
// page may be requested before the crawl has the rules.
func (w *robotsWeb) checkRetries(t *testing.T, host string, until time.Duration) {
	t.Helper()
	tries := w.times(host, true)
	n := 0
	for n < len(tries) && tries[n] < until {
		n++
	}
	if n < 3 || n == len(tries) {
		t.Errorf("%s: robots.txt requested at %v, want several before and one after %v", host, tries, until)
		return
	}
	want := time.Minute
	for i, g := range gaps(tries[:n+1]) {
		if g < want-time.Second || g > 2*want+time.Minute { // the crawl stores times in seconds
			t.Errorf("%s: gap %d between requests for robots.txt is %v, want %v to twice that", host, i, g, want)
		}
		want *= 2
	}
	for _, at := range w.times(host, false) {
		if at < tries[n] {
			t.Errorf("%s: a page was requested at %v, before the crawl had the rules", host, at)
		}
	}
}

// TestRobotsUnreachable: while robots.txt answers 5xx, 429, an unknown status or a truncated body, the
// crawl must fetch nothing of the host, retry at growing intervals, and keep the URLs. It must fetch them
// once robots.txt is available.
func TestRobotsUnreachable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newRobotsWeb()
		const until = 40 * time.Minute
		hosts := map[string]answer{"s500.test": {500, "", rules}, "s503.test": {503, "", ""},
			"s599.test": {599, "", ""}, "s429.test": {429, "", ""}, "s304.test": {304, "", ""}}
		var names []string
		for host, bad := range hosts {
			names = append(names, host)
			w.robots[host] = failing(w, until, bad)
		}
		res := w.crawl(t, 3, nil, names...)
		for _, h := range names {
			w.checkRetries(t, h, until)
			w.wantPages(t, h, 3, false)
		}
		if n := res.Snapshot.Refused["robots"]; n != int64(len(names)) {
			t.Errorf("refused %v", res.Snapshot.Refused)
		}
	})
}

// TestRobotsRetryAfter: the crawl must obey a Retry-After of 429 and 503 in both forms, up to the limit.
func TestRobotsRetryAfter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newRobotsWeb()
		at := w.begun.Add(3*time.Hour).UTC().Format("Mon, 02 Jan 2006 15:04:05") + " GMT"
		for host, value := range map[string]string{"seconds.test": "7200", "date.test": at, "days.test": "172800",
			"endless.test": "99999999", "odd.test": "soon"} {
			first := true
			status := map[bool]int{true: 429, false: 503}[host == "seconds.test"]
			w.robots[host] = func() answer {
				if first {
					first = false
					return answer{status, "Retry-After: " + value + "\r\n", ""}
				}
				return answer{200, "", rules}
			}
		}
		w.crawl(t, 2, func(o *Options) { o.Health.RetryAfterMax, o.Limits.Linger = 60*time.Hour, 72*time.Hour },
			"seconds.test", "date.test", "days.test", "endless.test", "odd.test")
		for host, want := range map[string]time.Duration{"seconds.test": 2 * time.Hour, "date.test": 3 * time.Hour,
			"days.test": 48 * time.Hour, "endless.test": 60 * time.Hour, "odd.test": time.Minute} {
			tries := w.times(host, true)
			// Long waits on disk may end late.
			if len(tries) != 2 || tries[1] < want || tries[1] > want+want/6+5*time.Minute {
				t.Errorf("%s: robots.txt requested at %v, want a second request after %v", host, tries, want)
			}
			w.wantPages(t, host, 2, false)
		}
	})
}

// robotsFault is a web in which connections or lookups of hosts fail until a time.
type robotsFault struct {
	*robotsWeb
	until time.Duration
}

func (f robotsFault) LookupHost(ctx context.Context, host, pld string) (Lookup, error) {
	if strings.HasPrefix(host, "dns") && f.since() < f.until {
		f.Mu.Lock()
		f.Requests = append(f.Requests, request{Host: host, Path: "/robots.txt", At: time.Now()})
		f.Mu.Unlock()
		return Lookup{}, &LookupError{Host: host, Err: errors.New("SERVFAIL")}
	}
	return f.tinyWeb.LookupHost(ctx, host, pld)
}

func (f robotsFault) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	if addr.Addr() == ownAddr("refused.test") && f.since() < f.until {
		f.Mu.Lock()
		f.Requests = append(f.Requests, request{Host: "refused.test", Path: "/robots.txt", At: time.Now()})
		f.Mu.Unlock()
		return nil, errors.New("connection refused")
	}
	return f.tinyWeb.Dial(ctx, addr)
}

// TestRobotsUnreachableNetwork: timeouts, refused connections, resets and unanswered lookups must count as
// 5xx. The crawl must repeat each first failure, since the cause may be its own network.
func TestRobotsUnreachableNetwork(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newRobotsWeb()
		f := robotsFault{w, 40 * time.Minute}
		w.Raw = func(c net.Conn, host, path string) bool {
			if path != "/robots.txt" || f.since() >= f.until {
				return false
			}
			switch host {
			case "silent.test":
				_, _ = c.Read(make([]byte, 1)) // until the crawler closes the connection
			case "reset.test":
			case "cut.test":
				_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nUser-agent: *\nAllow: /\n"))
			default:
				return false
			}
			return true
		}
		hosts := []string{"silent.test", "reset.test", "cut.test", "refused.test", "dns.test"}
		for _, h := range hosts {
			w.robots[h] = func() answer { return answer{200, "", rules} }
		}
		for i := range 40 { // hosts that always answer, so that the failures count against the others
			h := fmt.Sprintf("fine%d.test", i)
			hosts = append(hosts, h)
		}
		w.crawl(t, 3, func(o *Options) {
			client := newClient(t, fetch.Options{Dial: f.dial})
			o.Network.Fetcher, o.Network.Resolver = client, f
		}, hosts...)
		for _, h := range hosts[:5] {
			tries := w.times(h, true)
			early := 0
			for _, at := range tries {
				if at < f.until {
					early++
				}
			}
			most := 10
			if h == "dns.test" {
				most = 30 // lookups, which the site doesn't see
			}
			if early < 6 || early > most || early == len(tries) {
				t.Errorf("%s: requested at %v, want 6 to %d times before %v, and once after it", h,
					tries, most, f.until)
			}
			for _, at := range w.times(h, false) {
				if at < f.until {
					t.Errorf("%s: a page was requested at %v", h, at)
				}
			}
			w.wantPages(t, h, 3, false)
		}
	})
}

// TestRobotsStaleCopy: when robots.txt answers 500 after a day, the crawl must use its stale copy: it
// continues with allowed pages, requests no forbidden one, and retries robots.txt at growing intervals.
func TestRobotsStaleCopy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newRobotsWeb()
		const host = "stale.test"
		w.robots[host] = func() answer {
			if at := w.since(); at > time.Hour && at < 34*time.Hour {
				return answer{500, "", ""}
			}
			return answer{200, "", "User-agent: *\nDisallow: /no\nCrawl-delay: 900\n"}
		}
		w.crawl(t, 144, func(o *Options) { o.Politeness.MaxCrawlDelay = time.Hour }, host)
		w.wantPages(t, host, 144, false)
		tries := w.times(host, true)
		if len(tries) < 4 || tries[1] < 24*time.Hour {
			t.Fatalf("robots.txt requested at %v, want once a day, and more often while it fails", tries)
		}
		var bad []time.Duration
		for _, at := range tries {
			if at > 24*time.Hour && at < 34*time.Hour {
				bad = append(bad, at)
			}
		}
		if n := len(bad); n < 3 || n > 12 {
			t.Errorf("%d requests while robots.txt failed for 10 hours: %v", n, bad)
		}
		pages := 0
		for _, at := range w.times(host, false) {
			if at > 25*time.Hour && at < 34*time.Hour {
				pages++
			}
		}
		if pages < 25 {
			t.Errorf("%d pages under the stale copy in nine hours, want about one per 15 minutes", pages)
		}
	})
}

// TestRobotsLifetime: the crawl must request robots.txt again after its max-age, but not within an hour, and
// only when it has URLs of the host. Without a max-age the lifetime is one day, which is also the maximum.
func TestRobotsLifetime(t *testing.T) {
	notShort(t)
	inBubble(t, func(t *testing.T) {
		w := newRobotsWeb()
		for host, header := range map[string]string{"two.test": "Cache-Control: public, max-age=7200\r\n",
			"none.test":  "Cache-Control: no-store\r\n",
			"plain.test": "", "week.test": "Cache-Control: max-age=604800\r\n"} {
			w.robots[host] = func() answer {
				return answer{200, header, "User-agent: *\nDisallow: /no\nCrawl-delay: 1200\n"}
			}
		}
		// 28 hours.
		w.crawl(t, 84, func(o *Options) { o.Politeness.MaxCrawlDelay = time.Hour }, "two.test", "none.test",
			"plain.test", "week.test")
		for host, want := range map[string][2]time.Duration{"two.test": {2 * time.Hour, 2*time.Hour + 45*time.Minute},
			"none.test": {time.Hour, time.Hour + 45*time.Minute}, "plain.test": {24 * time.Hour, 25 * time.Hour},
			"week.test": {24 * time.Hour, 25 * time.Hour}} {
			list := gaps(w.times(host, true))
			if len(list) == 0 {
				t.Errorf("%s: robots.txt was requested only once", host)
			}
			for _, g := range list {
				if g < want[0] || g > want[1] {
					t.Errorf("%s: robots.txt was requested again after %v, want %v to %v", host, g, want[0], want[1])
				}
			}
			w.wantPages(t, host, 84, false)
		}
	})
}

// TestLongCrawlDelays: the crawl must obey a Crawl-delay of an hour and one of a day, and fetch all pages, even if the
// site wants its robots.txt to expire before the delay ends.
func TestLongCrawlDelays(t *testing.T) {
	notShort(t)
	inBubble(t, func(t *testing.T) {
		w := newRobotsWeb()
		delays := map[string]time.Duration{"hour.test": time.Hour, "uncached.test": time.Hour,
			"day.test": 24 * time.Hour, "week.test": 24 * time.Hour}
		for host, d := range delays {
			header := ""
			if host == "uncached.test" {
				header = "Cache-Control: no-store\r\n"
			}
			if host == "week.test" {
				d = 7 * 24 * time.Hour
			}
			w.robots[host] = func() answer {
				return answer{200, header, fmt.Sprintf("%sCrawl-delay: %d\n", rules, d/time.Second)}
			}
		}
		w.crawl(t, 4, func(o *Options) { o.Politeness.MaxCrawlDelay = 7 * 24 * time.Hour },
			slices.Collect(maps.Keys(delays))...)
		for host, want := range delays {
			w.wantPages(t, host, 4, false)
			all := append(w.times(host, true), w.times(host, false)...)
			slices.Sort(all)
			if len(all) > 9 {
				t.Errorf("%s: %d requests, want at most one for robots.txt before each page", host, len(all))
			}
			for _, g := range gaps(all) {
				if g < want || g > want+want/2 {
					t.Errorf("%s: %v between two requests, want at least %v", host, g, want)
				}
			}
		}
	})
}

// TestCrawlDelayIsHeld: the crawl must keep a decimal Crawl-delay between all requests. It must limit one
// above the maximum to the maximum and still crawl the site.
func TestCrawlDelayIsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newRobotsWeb()
		for host, value := range map[string]string{"decimal.test": "2.5", "comma.test": "3,5", "huge.test": "86400"} {
			w.robots[host] = func() answer { return answer{200, "", rules + "Crawl-delay: " + value + "\n"} }
		}
		w.crawl(t, 6, func(o *Options) { o.Politeness.HostDelay, o.Politeness.HostDelayMin = time.Second, time.Second },
			"decimal.test", "comma.test", "huge.test")
		for host, want := range map[string]time.Duration{"decimal.test": 2500 * time.Millisecond,
			"comma.test": 3500 * time.Millisecond, "huge.test": 300 * time.Second} {
			w.wantPages(t, host, 6, false)
			all := append(w.times(host, true), w.times(host, false)...)
			slices.Sort(all)
			for _, g := range gaps(all) {
				if g < want || g > want+want/2+time.Second {
					t.Errorf("%s: %v between two requests, want at least %v", host, g, want)
				}
			}
		}
	})
}

// TestRobotsLife: the lifetime of a response by its header fields (RFC 9111).
func TestRobotsLife(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		now := time.Now().UTC()
		date := func(d time.Duration) string { return now.Add(d).Format("Mon, 02 Jan 2006 15:04:05") + " GMT" }
		for _, c := range []struct {
			header string
			life   time.Duration
			said   bool
		}{
			{"", 0, false},
			{"Cache-Control: max-age=60\r\n", time.Minute, true},
			{"Cache-Control: public , Max-Age=\"60\" , x=y\r\n", time.Minute, true},
			{"Cache-Control: public\r\nCache-Control: max-age=60\r\n", time.Minute, true},
			{"Cache-Control: max-age=60, max-age=30\r\n", 30 * time.Second, true},
			{"Cache-Control: max-age=99999999999999999999\r\n", 1 << 31 * time.Second, true},
			{"Cache-Control: max-age=-1\r\n", 0, true},
			{"Cache-Control: max-age=\r\n", 0, true},
			{"Cache-Control: s-maxage=60\r\n", 0, false},
			{"Cache-Control: must-revalidate\r\n", 0, false},
			{"Cache-Control: max-age=60, no-cache\r\n", 0, true},
			{"Cache-Control: no-store\r\n", 0, true},
			{"Pragma: no-cache\r\n", 0, true},
			{"Pragma: no-cache\r\nCache-Control: max-age=60\r\n", time.Minute, true},
			{"Cache-Control: max-age=60\r\nAge: 20\r\n", 40 * time.Second, true},
			{"Cache-Control: max-age=60\r\nAge: 90\r\n", 0, true},
			{"Expires: " + date(time.Hour) + "\r\n", time.Hour, true},
			{"Date: " + date(-time.Hour) + "\r\nExpires: " + date(time.Hour) + "\r\n", 2 * time.Hour, true},
			{"Expires: 0\r\n", 0, true},
			{"Expires: " + date(-time.Hour) + "\r\n", 0, true},
			{"Expires: " + date(time.Hour) + "\r\nCache-Control: max-age=60\r\n", time.Minute, true},
		} {
			w := &tinyWeb{Serve: func(string, string) answer { return answer{200, c.header, "x"} }}
			client := newClient(t, fetch.Options{Dial: w.Dial})
			var resp fetch.Response
			if err := client.Do(t.Context(),
				&fetch.Request{Scheme: "http", Host: "a.test", Port: 80, PathQuery: "/robots.txt",
					Addr: netip.AddrPortFrom(ownAddr("a.test"), 80)}, &resp); err != nil {
				t.Fatal(err)
			}
			if life, said := fetcher.Freshness(&resp, now); life != c.life || said != c.said {
				t.Errorf("%q: got %v, %v, want %v, %v", c.header, life, said, c.life, c.said)
			}
		}
	})
}
