package crawl

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/crawl/operate"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/weburl"
)

// explainSitesCases are the cases of TestExplainSites.
var explainSitesCases = []struct{ rules, delay, link string }{
	{"sites.toml:1: pld a.test: bearer = env:TOKEN, delay = 5s, insecure = false, rate = 0.1",
		"10s the rate of its PLD", "accepted"},
	{"sites.toml:11: surt (test,a,own,)/flat/: max-depth = 0; sites.toml:7: host own.a.test: delay = " +
		"1s, owner = true; " +
		"sites.toml:1: pld a.test: bearer = env:TOKEN, insecure = false, rate = 0.1", "10s the rate of its PLD",
		"dropped: beyond --max-depth: sites.toml:11: "},
	{"sites.toml:14: host rate.test: rate = 0.01", "1m40s the rate of its site", "accepted"},
	{"", "40s --host-delay", "accepted"},
}

// explainedSites are sites whose rules meet.
const explainedSites = `[[site]]
pld = "a.test"
delay = "5s"
rate = 0.1
bearer = "env:TOKEN"
insecure = false
[[site]]
host = "own.a.test"
owner = true
delay = "1s"
[[site]]
surt = "(test,a,own,)/flat/"
max-depth = 0
[[site]]
host = "rate.test"
rate = 0.01`

// TestExplainSites: explain names the rules of --sites that apply to a URL and to a host, and the delays and the
// depth that follow, without secrets.
func TestExplainSites(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := &tinyWeb{Serve: func(host, path string) answer {
			if path == "/robots.txt" {
				return answer{200, "", "User-agent: *\nCrawl-delay: 8\n"}
			}
			return pagesOnly(host, path)
		}}
		fs := memfs.New(*seedFlag)
		writeRules(t, fs, "sites.toml", explainedSites)
		opt := tinyOptions(t, web, fs, "http://a.test/", "http://own.a.test/", "http://rate.test/", "http://b.test/")
		opt.Admission.Sites, opt.Admission.Env = "sites.toml", sitesEnv
		mustRun(t, t.Context(), opt)
		x := explainer(t, fs, opt.Disk.Dirs)
		urls, err := x.URLs([]string{"http://a.test/", "http://own.a.test/flat/x", "http://rate.test/",
			"http://b.test/"})
		must(t, err)
		for i, want := range explainSitesCases {
			var rules []string
			if s := urls[i].Settings; s != nil {
				for _, r := range s.Rules {
					rules = append(rules, r.String())
				}
			}
			if got := strings.Join(rules, "; "); got != want.rules {
				t.Errorf("%s: rules\n%s, want\n%s", urls[i].URL, got, want.rules)
			}
			o := urls[i].Robots
			if got := (time.Duration(o.Delay*1e9) * time.Nanosecond).String() + " " +
				o.DelayWhy; !strings.HasPrefix(got, want.delay) {
				t.Errorf("%s: delay %s, want %s", urls[i].URL, got, want.delay)
			}
			if got := urls[i].Link.Why; !strings.HasPrefix(got, want.link) {
				t.Errorf("%s: %s, want %s", urls[i].URL, got, want.link)
			}
		}
		hosts, err := x.Hosts([]string{"own.a.test", "c.a.test", "b.test"})
		must(t, err)
		if s := hosts[0].Settings; s == nil || len(s.Rules) != 3 || s.Rules[0].Line != 11 || s.Rules[1].Line != 7 ||
			s.Rules[2].Line != 1 {
			t.Errorf("own.a.test: %+v", s)
		}
		if s := hosts[1].Settings; s == nil || len(s.Rules) != 1 || hosts[2].Settings != nil {
			t.Errorf("c.a.test: %+v, b.test: %+v", s, hosts[2].Settings)
		}
		writeRules(t, fs, "sites.toml", "[[site]]\nhost = 'a.test'\nbearer = 't0ps3cret'\n")
		if urls, err = x.URLs([]string{"http://a.test/"}); err != nil {
			t.Fatal(err)
		}
		if s := urls[0].Settings; s == nil || !strings.Contains(s.Fault, "sites.toml:3: bearer") ||
			strings.Contains(s.Fault, "t0ps3cret") {
			t.Errorf("a faulty file: %+v", s)
		}
	})
}

// TestSiteCookies: a site with cookies gets back what it set, over a reload too, and no other site does. A
// restarted crawl is a new visitor. Stored requests do not show cookies.
func TestSiteCookies(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := 0
		web := &tinyWeb{Serve: func(host, path string) answer {
			a := pagesOnly(host, path)
			if path != "/robots.txt" {
				set++
				a.Header = fmt.Sprintf("Set-Cookie: last=s3ss10n%d; Path=/\r\nSet-Cookie: foreign=1; Domain=b.test\r\n",
					set)
			}
			return a
		}}
		fs := memfs.New(*seedFlag)
		rules := []string{"[[site]]", "pld = 'h0.test'", "cookies = true", "insecure = true",
			"headers.Cookie = 'env:CONSENT'"}
		writeRules(t, fs, "sites.toml", rules...)
		opt := tinyOptions(t, web, fs, append(urls("h", 1, 20), "http://b.test/1", "http://b.test/2")...)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = time.Second, time.Second
		opt.Output.ArchiveRobots = true
		reload := make(chan struct{})
		opt.Admission.Sites, opt.Admission.Reload = "sites.toml", reload
		opt.Admission.Env = func(string) (string, bool) { return "consent=yes", true }
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			time.Sleep(5*time.Second + 500*time.Millisecond)
			writeRules(t, fs, "sites.toml", append(rules, "max-depth = 3")...)
			reload <- struct{}{}
			time.Sleep(5 * time.Second)
			stop()
		}()
		mustRun(t, ctx, opt)
		first := len(web.Got("h0.test", ""))
		if first < 5 || first > 18 {
			t.Fatalf("%d requests before the restart", first)
		}
		opt.Admission.Reload = nil
		mustRun(t, t.Context(), opt)
		visits := 0
		for i, r := range web.Got("h0.test", "") {
			got, fresh := r.Header.Get("Cookie"), i == 0 || i == first
			if i == 1 { // the first page after robots.txt
				fresh = true
			}
			switch {
			case fresh && got != "consent=yes", !fresh && !strings.HasPrefix(got, "consent=yes; last=s3ss10n"):
				t.Errorf("request %d for %s: Cookie %q", i, r.Path, got)
			case !fresh:
				visits++
			}
		}
		if visits < 10 {
			t.Errorf("%d requests with cookies", visits)
		}
		for _, r := range web.Got("b.test", "") {
			if got := r.Header.Get("Cookie"); got != "" {
				t.Errorf("b.test%s: Cookie %q", r.Path, got)
			}
		}
		checkHiddenCookies(t, fs, &opt, len(web.Got("h0.test", "")))
	})
}

// checkHiddenCookies: no file has a cookie that was sent.
func checkHiddenCookies(t *testing.T, fs *memfs.FS, opt *Options, requests int) {
	t.Helper()
	hidden := 0
	allFiles(t, fs, opt.Disk.Dirs, func(name string, content []byte) {
		hidden += bytes.Count(content, []byte("Cookie: [redacted]\r\n"))
		if bytes.Contains(content, []byte("\r\nCookie: consent")) ||
			bytes.Contains(content, []byte("consent=yes")) {
			t.Errorf("%s has a cookie that we sent", name)
		}
	})
	if hidden != requests {
		t.Errorf("%d of %d stored requests have a redacted Cookie", hidden, requests)
	}
}

// TestSiteCookiesDropped: when a reload ends the cookies of a site, they are forgotten.
func TestSiteCookiesDropped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begun := time.Now()
		web := &tinyWeb{Serve: func(host, path string) answer {
			a := pagesOnly(host, path)
			if time.Since(begun) < 10*time.Second {
				a.Header = "Set-Cookie: first=1; Path=/\r\n"
			}
			return a
		}}
		fs := memfs.New(*seedFlag)
		opt := tinyOptions(t, web, fs, urls("h", 1, 30)...)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = time.Second, time.Second
		reload := make(chan struct{})
		opt.Admission.Sites, opt.Admission.Reload = "sites.toml", reload
		writeRules(t, fs, "sites.toml", "[[site]]\nhost = 'h0.test'\ninsecure = true\ncookies = true")
		var at []time.Time
		reloaded := make(chan struct{})
		go func() {
			defer close(reloaded)
			for _, is := range []string{"false", "true"} {
				time.Sleep(10*time.Second + 500*time.Millisecond)
				writeRules(t, fs, "sites.toml", "[[site]]\nhost = 'h0.test'\ninsecure = true\ncookies = "+is)
				reload <- struct{}{}
				at = append(at, time.Now())
			}
		}()
		mustRun(t, t.Context(), opt)
		<-reloaded
		with, without := 0, 0
		for _, r := range web.Got("h0.test", "") {
			switch got := r.Header.Get("Cookie"); {
			case got != "" && r.At.Before(at[0]):
				with++
			case got != "":
				t.Errorf("%s: Cookie %q after the cookies ended", r.Path, got)
			case r.At.After(at[1]):
				without++
			}
		}
		if with < 5 || without < 5 {
			t.Errorf("%d requests with a cookie, and %d after a new jar", with, without)
		}
	})
}

// TestSiteProxy: requests to a site with a proxy go through it, to the address that the name servers gave, robots.txt
// too; others do not. While the proxy is down, nothing counts against the site, and afterwards it is fetched.
func TestSiteProxy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := &tinyWeb{Serve: pagesOnly}
		proxy := netip.MustParseAddrPort("10.1.2.3:3128")
		begun := time.Now()
		var mu sync.Mutex
		through := map[string]int{}
		loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		client := newClient(t, fetch.Options{AllowNets: loopback,
			Dial: func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
				if addr != proxy {
					return web.Dial(ctx, addr)
				}
				if time.Since(begun) < 5*time.Minute {
					return nil, syscall.ECONNREFUSED
				}
				ours, theirs := net.Pipe()
				go func() {
					req, err := http.ReadRequest(bufio.NewReader(theirs))
					if err != nil {
						_ = theirs.Close()
						return
					}
					mu.Lock()
					through[req.Method+" "+req.Host+" "+req.Header.Get("Proxy-Authorization")]++
					mu.Unlock()
					_, _ = io.WriteString(theirs, "HTTP/1.1 200 OK\r\n\r\n")
					web.Handle(theirs)
				}()
				return ours, nil
			}})
		fs := memfs.New(*seedFlag)
		writeRules(t, fs, "sites.toml", "[[site]]", "host = 'a.test'", "proxy = 'http://10.1.2.3:3128'",
			"proxy-auth = 'env:LOGIN'")
		opt := tinyOptions(t, web, fs, "http://a.test/1", "http://a.test/2", "http://b.test/1")
		opt.Network.Fetcher, opt.Admission.Sites, opt.Admission.Env = client, "sites.toml", sitesEnv
		opt.Limits.Linger = 24 * time.Hour
		res := mustRun(t, t.Context(), opt)
		want := "CONNECT " + netip.AddrPortFrom(ownAddr("a.test"), 80).String() + " Basic Ym9iOmh1bnRlcjI="
		if len(through) != 1 || through[want] != 3 {
			t.Errorf("the proxy was asked: %v, want %s three times", through, want)
		}
		if len(web.Pages("a.test")) != 2 || len(web.Pages("b.test")) != 1 ||
			web.Pages("b.test")[0].At.Sub(begun) > 5*time.Minute {
			t.Errorf("pages: %+v", web.Pages(""))
		}
		if n := res.Snapshot.Counters[state.CountResponses]; n != 3 {
			t.Errorf("%d responses", n)
		}
		allFiles(t, fs, opt.Disk.Dirs, func(name string, content []byte) {
			for _, secret := range siteSecrets {
				if bytes.Contains(content, []byte(secret)) {
					t.Errorf("%s contains the secret %s", name, secret)
				}
			}
		})
	})
}

// TestSiteRobots: rules of robots.txt forbid nothing on the operator's own site, if the operator says so, and
// everything that they say on others. The file is requested all the same.
func TestSiteRobots(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := &tinyWeb{Serve: func(host, path string) answer {
			if path == "/robots.txt" {
				return answer{200, "", "User-agent: *\nDisallow: /\n"}
			}
			return pagesOnly(host, path)
		}}
		fs := memfs.New(*seedFlag)
		writeRules(t, fs, "sites.toml", "[[site]]", "pld = 'own.test'", "owner = true", "robots = 'ignore'",
			"[[site]]", "host = 'not.own.test'", "robots = 'obey'")
		opt := tinyOptions(t, web, fs, "http://own.test/1", "http://www.own.test/1", "http://not.own.test/1",
			"http://other.test/1")
		opt.Admission.Sites = "sites.toml"
		mustRun(t, t.Context(), opt)
		for host, want := range map[string]int{"own.test": 1, "www.own.test": 1, "not.own.test": 0, "other.test": 0} {
			if n := len(web.Got(host, "/1")); n != want {
				t.Errorf("%s: %d pages, want %d", host, n, want)
			}
			if n := len(web.Got(host, "/robots.txt")); n != 1 {
				t.Errorf("%s: %d requests for robots.txt", host, n)
			}
		}
		x := explainer(t, fs, opt.Disk.Dirs)
		reports, err := x.URLs([]string{"http://own.test/2", "http://other.test/2"})
		must(t, err)
		if v := reports[0].Verdict; !v.Allowed || !strings.Contains(v.Rule, "robots = \"ignore\" (without it: ") ||
			v.Decision != "allow" {
			t.Errorf("own.test: %+v", v)
		}
		if v := reports[1].Verdict; v.Allowed || v.Decision != "disallow" {
			t.Errorf("other.test: %+v", v)
		}
	})
}

// TestSiteBudget: the budget of a table replaces that of a PLD's in-degree, a reload changes it, and the operator's
// own pin precedes it.
func TestSiteBudget(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		fs := memfs.New(*seedFlag)
		pld := weburl.NewSuffixes(false).PLD(string(weburl.Split([]byte(web.Seeds()[0])).Host))
		rule := func(budget int) {
			writeRules(t, fs, "sites.toml", fmt.Sprintf("[[site]]\npld = '%s'\nbudget = %d", pld, budget))
		}
		rule(7)
		reload := make(chan struct{})
		o := operating(t, web, fs, func(opt *Options) {
			opt.Admission.Sites, opt.Admission.Reload = "sites.toml", reload
		})
		o.await(20)
		budget := func(want uint32) {
			t.Helper()
			err := o.opt.Observe.Control.With(func(c *operate.Running) error {
				if got := c.Operator.Pinned(c.Saved.PLDKey([]byte(pld))); got != want {
					t.Errorf("a budget of %d, want %d", got, want)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		budget(7)
		rule(9)
		reload <- struct{}{}
		synctest.Wait()
		budget(9)
		o.make(changes.Change{Op: changes.OpBudget, PLD: pld, Budget: 3})
		budget(3)
		o.make(changes.Change{Op: changes.OpBudgetFree, PLD: pld})
		budget(9)
		o.make(changes.Change{Op: changes.OpCheckpoint})
		x := explainer(t, fs, o.opt.Disk.Dirs)
		reports, err := x.Sites([]string{pld})
		must(t, err)
		if s := reports[0].Site; s.Budget != 9 || !s.Pinned {
			t.Errorf("explain: %+v", s)
		}
		o.stop()
		o.end()
	})
}

// TestSiteConnections: the operator's own host may have several connections at once, and others one. A reload takes
// them back.
func TestSiteConnections(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := &tinyWeb{Serve: pagesOnly}
		var mu sync.Mutex
		open, most, lateMost := map[string]int{}, map[string]int{}, 0
		var changed time.Time
		web.Raw = func(c net.Conn, host, path string) bool {
			if path == "/robots.txt" {
				return false
			}
			mu.Lock()
			open[host]++
			most[host] = max(most[host], open[host])
			if !changed.IsZero() && time.Since(changed) > 10*time.Second && host == "h0.test" {
				lateMost = max(lateMost, open[host])
			}
			mu.Unlock()
			time.Sleep(4 * time.Second)
			mu.Lock()
			open[host]--
			mu.Unlock()
			return false
		}
		fs := memfs.New(*seedFlag)
		rule := func(n int) {
			writeRules(t, fs, "sites.toml",
				fmt.Sprintf("[[site]]\nhost = 'h0.test'\nowner = true\ndelay = '0s'\nconnections = %d", n))
		}
		rule(4)
		opt := tinyOptions(t, web, fs, append(urls("h", 1, 200), urls("other", 1, 5)...)...)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Politeness.ServerDelay,
			opt.Politeness.ServerDelayMin = time.Second, time.Second, 0, 0
		reload := make(chan struct{})
		opt.Admission.Sites, opt.Admission.Reload = "sites.toml", reload
		go func() {
			time.Sleep(60 * time.Second)
			rule(1)
			reload <- struct{}{}
			mu.Lock()
			changed = time.Now()
			mu.Unlock()
		}()
		mustRun(t, t.Context(), opt)
		if most["h0.test"] != 4 || most["other0.test"] != 1 || lateMost != 1 {
			t.Errorf("connections at once: %v, and %d after the reload; want 4, 1 and 1", most, lateMost)
		}
		for host, n := range map[string]int{"h0.test": 200, "other0.test": 5} {
			if got := len(web.Pages(host)); got != n {
				t.Errorf("%s: %d pages, want %d", host, got, n)
			}
		}
		checkBalanced(t, fs, opt.Disk.Dirs)
	})
}
