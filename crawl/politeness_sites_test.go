package crawl

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"path"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/plan"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// sitesEnv is the environment of crawls with settings of sites.
func sitesEnv(name string) (string, bool) {
	v, ok := map[string]string{"TOKEN": "t0ps3cret", "LOGIN": "bob:hunter2"}[name]
	return v, ok
}

// siteSecrets are texts that no file and no log may contain.
var siteSecrets = []string{"t0ps3cret", "hunter2", "Ym9iOmh1bnRlcjI=", "k3yfile"}

// allFiles calls f with the content of each file below dirs, decompressed if its name ends in .gz.
func allFiles(t *testing.T, fs disk.FS, dirs []string, f func(name string, content []byte)) {
	t.Helper()
	for _, dir := range dirs {
		names, err := fs.List(dir)
		must(t, err)
		for _, name := range names {
			name = path.Join(dir, name)
			if _, err := fs.List(name); err == nil {
				allFiles(t, fs, []string{name}, f)
				continue
			}
			content, err := disk.ReadFile(fs, name)
			if err == nil && strings.HasSuffix(name, ".gz") {
				var z *gzip.Reader
				if z, err = gzip.NewReader(bytes.NewReader(content)); err == nil {
					content, err = io.ReadAll(z)
				}
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			f(name, content)
		}
	}
}

// headerSites are sites with headers and secrets of their own.
const headerSites = `
[[site]]
host = "a.test"
user-agent = "drumbeat/2 for a (+test@example.org)"
accept = "text/html"
accept-language = "de"
bearer = "env:TOKEN"
headers = { X-Plain = "seen", X-Key = "file:key" }
insecure = true

[[site]]
surt = "http://(test,c,)/private/"
basic-auth = "env:LOGIN"
insecure = true`

// TestSiteHeaders: requests for pages and robots.txt of a site have its headers and credentials. Requests to
// other sites, to which pages and robots.txt redirect, have neither. No file and no log has a secret.
func TestSiteHeaders(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := &tinyWeb{Serve: func(host, path string) answer {
			switch {
			case host == "a.test" && path == "/robots.txt":
				return answer{301, "Location: http://b.test/robots.txt\r\n", ""}
			case host == "a.test" && path == "/1":
				return answer{302, "Location: http://b.test/from-a\r\n", ""}
			}
			return pagesOnly(host, path)
		}}
		fs := memfs.New(*seedFlag)
		must(t, disk.WriteFileAtomic(fs, "key", []byte("k3yfile\n")))
		writeRules(t, fs, "sites.toml", headerSites)
		var log bytes.Buffer
		opt := tinyOptions(t, web, fs, "http://a.test/1", "http://a.test/2", "http://c.test/open",
			"http://c.test/private/x")
		opt.Observe.Log = slog.New(slog.NewTextHandler(&log, nil))
		opt.Admission.Sites, opt.Admission.Env, opt.Output.ArchiveRobots = "sites.toml", sitesEnv, true
		mustRun(t, t.Context(), opt)
		if len(web.Got("a.test", "")) != 3 || len(web.Got("b.test", "/from-a")) != 1 ||
			len(web.Got("b.test", "/robots.txt")) == 0 {
			t.Errorf("requests: %+v", web.Got("", ""))
		}
		for _, r := range web.Got("", "") {
			want := ""
			switch {
			case r.Host == "a.test":
				want = "Bearer t0ps3cret"
			case strings.HasPrefix(r.Path, "/private/"):
				want = "Basic Ym9iOmh1bnRlcjI="
			}
			if got := r.Header.Get("Authorization"); got != want {
				t.Errorf("%s%s: Authorization %q, want %q", r.Host, r.Path, got, want)
			}
			of := func(name, own string) {
				if got := r.Header.Get(name); (got == own) != (r.Host == "a.test") {
					t.Errorf("%s%s: %s: %s", r.Host, r.Path, name, got)
				}
			}
			of("X-Plain", "seen")
			of("X-Key", "k3yfile")
			of("Accept", "text/html")
			of("Accept-Language", "de")
			of("User-Agent", "drumbeat/2 for a (+test@example.org)")
		}
		stored := 0
		check := func(name string, content []byte) {
			stored += bytes.Count(content, []byte("Authorization: [redacted]\r\n"))
			for _, secret := range siteSecrets {
				if bytes.Contains(content, []byte(secret)) {
					t.Errorf("%s contains the secret %s", name, secret)
				}
			}
		}
		check("the log", log.Bytes())
		allFiles(t, fs, opt.Disk.Dirs, check)
		if stored != 4 { // two pages and robots.txt of a.test, and one of c.test
			t.Errorf("%d stored requests with a redacted Authorization", stored)
		}
	})
}

// TestSitesReload: when the file has been read again, new requests follow it, also those of queued URLs. A file
// with errors changes nothing and is logged, without its secrets.
func TestSitesReload(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := &tinyWeb{Serve: pagesOnly}
		fs := memfs.New(*seedFlag)
		writeRules(t, fs, "sites.toml", "[[site]]\nhost = 'h0.test'\nheaders.X-Age = 'old'\ninsecure = true")
		opt := tinyOptions(t, web, fs, urls("h", 1, 30)...)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = time.Second, time.Second
		reload := make(chan struct{})
		var log bytes.Buffer
		opt.Observe.Log = slog.New(slog.NewTextHandler(&log, nil))
		opt.Admission.Sites, opt.Admission.Env, opt.Admission.Reload = "sites.toml", sitesEnv, reload
		begun := time.Now()
		var changed, broken time.Time
		reloaded := make(chan struct{})
		go func() {
			defer close(reloaded)
			time.Sleep(10*time.Second + 50*time.Millisecond)
			writeRules(t, fs, "sites.toml",
				"[[site]]\nhost = 'h0.test'\nheaders.X-Age = 'new'\nbearer = 'env:TOKEN'\ninsecure = true")
			reload <- struct{}{}
			changed = time.Now()
			time.Sleep(10 * time.Second)
			writeRules(t, fs, "sites.toml", "[[site]]\nhost = 'h0.test'\nheaders.X-Age = 'bad'\nbearer = 't0ps3cret'")
			reload <- struct{}{}
			broken = time.Now()
		}()
		mustRun(t, t.Context(), opt)
		<-reloaded
		count := map[string]int{}
		for _, r := range web.Got("h0.test", "") {
			age, auth := r.Header.Get("X-Age"), r.Header.Get("Authorization")
			want, wantAuth := "old", ""
			if r.At.After(changed) {
				want, wantAuth = "new", "Bearer t0ps3cret"
			}
			if age != want || auth != wantAuth {
				t.Errorf("%s after %v: %q, %q", r.Path, r.At.Sub(begun), age, auth)
			}
			count[age]++
			if r.At.After(broken) {
				count["late"]++
			}
		}
		if count["old"] < 5 || count["new"] < 10 || count["late"] < 5 {
			t.Errorf("requests: %v", count)
		}
		text := log.String()
		if !strings.Contains(text, "site settings reloaded") ||
			!strings.Contains(text, "site settings are unchanged") ||
			!strings.Contains(text, "sites.toml:4: bearer") || strings.Contains(text, "t0ps3cret") {
			t.Errorf("log:\n%s", text)
		}
	})
}

// TestSitesFaults: a faulty file, and one that would take too much RAM, end the start of a crawl.
func TestSitesFaults(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := &tinyWeb{Serve: pagesOnly}
		fs := memfs.New(*seedFlag)
		opt := tinyOptions(t, web, fs, urls("h", 1, 1)...)
		opt.Admission.Sites = "sites.toml"
		start := func(want string) {
			t.Helper()
			if _, err := Run(context.Background(), opt); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		start("sites.toml")
		writeRules(t, fs, "sites.toml", "[[site]]\nhost = 'h0.test'\nbearer = 'env:TOKEN'\ninsecure = true")
		start("sites.toml:3: bearer: the environment has no TOKEN")
		writeRules(t, fs, "sites.toml", "[[site]]\nhost = 'h0.test'\nmax-depth = 1")
		opt.tests.tune = func(p *plan.Plan) { p.HeapBytes = 1000 }
		start("use more RAM or fewer sites")
		if len(web.Got("", "")) > 0 {
			t.Error("there were requests")
		}
	})
}

// leastGap returns the least time between two requests that accept takes, in the order of their arrival, and
// their number.
func leastGap(web *tinyWeb, accept func(request) bool) (least time.Duration, n int) {
	var last time.Time
	least = time.Hour
	for _, r := range web.Got("", "") {
		if !accept(r) {
			continue
		}
		if n++; n > 1 {
			least = min(least, r.At.Sub(last))
		}
		last = r.At
	}
	return least, n
}

// TestSiteDelays: the delay and the rate of a site replace those of the crawl. Crawl-delay and Retry-After hold
// as a minimum, the Crawl-delay not for the operator's own site.
func TestSiteDelays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		asked := map[string]int{}
		web := &tinyWeb{Serve: func(host, path string) answer {
			switch {
			case path == "/robots.txt" && (host == "crawldelay.test" || host == "own.test"):
				return answer{200, "", "User-agent: *\nCrawl-delay: 8\n"}
			case path == "/5" && host == "own.test" && asked[host] == 0:
				asked[host]++
				return answer{429, "Retry-After: 30\r\n", ""}
			}
			return pagesOnly(host, path)
		}}
		fs := memfs.New(*seedFlag)
		writeRules(t, fs, "sites.toml", `
[[site]]
host = "slow.test"
delay = "5s"
[[site]]
host = "fast.test"
delay = "1s"
[[site]]
host = "rate.test"
rate = 0.25
[[site]]
host = "crawldelay.test"
delay = "2s"
[[site]]
host = "own.test"
owner = true
delay = "100ms"
[[site]]
pld = "pld.test"
delay = "1s"
rate = 0.5`)
		var seeds []string
		for _, host := range []string{"slow.test", "fast.test", "rate.test", "crawldelay.test", "own.test",
			"other.test", "pld.test", "a.pld.test", "b.a.pld.test"} {
			for i := range 10 {
				seeds = append(seeds, "http://"+host+"/"+string(rune('0'+i)))
			}
		}
		opt := tinyOptions(t, web, fs, seeds...)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Politeness.ServerDelay,
			opt.Politeness.ServerDelayMin = 3*time.Second, 3*time.Second, 0, 0
		opt.Admission.Sites, opt.Politeness.MaxCrawlDelay = "sites.toml", time.Minute
		mustRun(t, t.Context(), opt)
		for host, want := range map[string]time.Duration{"slow.test": 5 * time.Second, "fast.test": time.Second,
			"rate.test": 4 * time.Second, "crawldelay.test": 8 * time.Second, "own.test": 100 * time.Millisecond,
			"other.test": 3 * time.Second, "pld.test": 2 * time.Second} {
			got, n := leastGap(web, func(r request) bool {
				return r.Host == host || host == "pld.test" && strings.HasSuffix(r.Host, ".pld.test")
			})
			if n < 11 || got < want || got > want+want/4 {
				t.Errorf("%s: %d requests, at least %v apart, want %v", host, n, got, want)
			}
		}
		var last request
		for _, r := range web.Got("own.test", "") {
			if last.Path == "/5" && asked["own.test"] == 1 {
				if gap := r.At.Sub(last.At); gap < 30*time.Second {
					t.Errorf("own.test: a request %v after 429 with Retry-After: 30", gap)
				}
				break
			}
			last = r
		}
	})
}

// TestSiteDelayReload: a new delay holds at once for a host whose URLs are in RAM and on disk, a shorter one too.
func TestSiteDelayReload(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := &tinyWeb{Serve: pagesOnly}
		fs := memfs.New(*seedFlag)
		rule := "[[site]]\nhost = 'h0.test'\ndelay = "
		writeRules(t, fs, "sites.toml", rule+"'1s'")
		opt := tinyOptions(t, web, fs, urls("h", 1, 100)...)
		opt.Politeness.ServerDelay, opt.Politeness.ServerDelayMin = 0, 0
		reload := make(chan struct{})
		opt.Admission.Sites, opt.Admission.Reload = "sites.toml", reload
		var at [3]time.Time
		reloaded := make(chan struct{})
		go func() {
			defer close(reloaded)
			for i, delay := range []string{"'1h'", "'2s'", ""} {
				time.Sleep(20*time.Second + 500*time.Millisecond)
				if writeRules(t, fs, "sites.toml", rule+delay); delay == "" {
					writeRules(t, fs, "sites.toml", "")
				}
				reload <- struct{}{}
				at[i] = time.Now()
				if i == 0 {
					time.Sleep(10 * time.Minute)
				}
			}
		}()
		mustRun(t, t.Context(), opt)
		<-reloaded
		for _, phase := range []struct {
			from, to    time.Time
			least, most int
			gap         time.Duration
		}{{time.Time{}, at[0], 15, 25, time.Second}, {at[0], at[1], 0, 0, time.Hour},
			{at[1], at[2], 8, 12, 2 * time.Second},
			{at[2].Add(time.Millisecond), time.Now(), 50, 80, 40 * time.Second}} {
			gap, n := leastGap(web, func(r request) bool { return r.At.After(phase.from) && r.At.Before(phase.to) })
			if n < phase.least || n > phase.most || gap < phase.gap {
				t.Errorf("%d requests, at least %v apart, want %d to %d, %v apart", n, gap, phase.least,
					phase.most, phase.gap)
			}
		}
	})
}

// TestSiteMaxDepth: the depth of a site replaces that of the crawl, deeper and less deep, also below a path.
func TestSiteMaxDepth(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := &tinyWeb{}
		web.Serve = func(host, path string) answer {
			if path == "/robots.txt" {
				return noRobots
			}
			return answer{200, "", `<a href="` + path + `x">more</a>`}
		}
		fs := memfs.New(*seedFlag)
		writeRules(t, fs, "sites.toml", "[[site]]\nhost = 'deep.test'\nmax-depth = 5\n[[site]]\nhost = "+
			"'flat.test'\nmax-depth = 0\n[[site]]\nsurt = '(test,flat,)/d'\nmax-depth = 3\n")
		opt := tinyOptions(t, web, fs, "http://deep.test/", "http://flat.test/", "http://flat.test/d",
			"http://other.test/")
		atOnce(&opt)
		opt.Admission.Sites, opt.Limits.MaxDepth = "sites.toml", 2
		mustRun(t, t.Context(), opt)
		for host, want := range map[string]int{"deep.test": 6, "flat.test": 1 + 4, "other.test": 3} {
			if _, n := leastGap(web, func(r request) bool {
				return r.Host == host && r.Path != "/robots.txt"
			}); n != want {
				t.Errorf("%s: %d pages, want %d", host, n, want)
			}
		}
	})
}
