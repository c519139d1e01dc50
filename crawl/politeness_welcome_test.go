package crawl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"drumbeat/crawl/gate"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/internal/ports"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// These tests check what a site logs when its host fails, sends Retry-After or refuses. Virtual time makes
// days and weeks short. The hosts are those of internal/simweb/politeness_welcome.go.

// welcomeRun is a crawl of a small web with these hosts.
type welcomeRun struct {
	web  *simweb.Web
	snap *simweb.Snapshot
	res  *Result
	done time.Duration // time at which the ordinary hosts were done
}

// withHealth sets the defaults of the program's host flags, and a linger that outlasts all back-offs.
func withHealth(o *Options) {
	o.Health.HostFailures, o.Health.HostRests, o.Health.HostRefusals, o.Health.RobotsWait = 10, 5, 10, 30*24*time.Hour
	o.Limits.Linger, o.Health.Retries = 60*24*time.Hour, 3
	o.Politeness.HostDelay, o.Politeness.HostDelayMin = 2*time.Second, time.Second
	o.Disk.CheckpointEvery = time.Hour
}

func crawlWelcome(t *testing.T, change func(*Options), scenarios ...string) (run welcomeRun) {
	t.Helper()
	inBubble(t, func(t *testing.T) {
		run.web = smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.IPs = 10, 20, 150, 10
			o.Robots.ServerError, o.Page.ServerError = 0, 0
			o.Hostile = scenarios
		})
		fs := memfs.New(*seedFlag)
		opt := simOptions(t, run.web, fs)
		withHealth(&opt)
		if change != nil {
			change(&opt)
		}
		opt.Admission.SeedLines = append(slices.Clone(run.web.Seeds()), run.web.HostileSeeds()...)
		run.res = mustRun(t, t.Context(), opt)
		run.snap = run.web.Log().Snapshot()
		checkFetched(t, run.web, &opt)
		checkBalanced(t, fs, opt.Disk.Dirs)
		for _, q := range run.snap.Requests {
			if q.Known {
				run.done = max(run.done, q.End)
			}
		}
		for url, n := range run.twice() {
			if run.res.Snapshot.Count(state.CountRetries)+run.res.Snapshot.Count(state.CountUnconfirmed) == 0 {
				t.Errorf("%s was requested %d times", url, n)
			}
		}
	})
	return run
}

// twice returns the URLs that were requested more than once.
func (run *welcomeRun) twice() map[string]int {
	n := map[string]int{}
	for _, q := range run.snap.Requests {
		if !q.Robots && !q.Known {
			n[q.URL]++
		}
	}
	for url, k := range n {
		if k < 2 {
			delete(n, url)
		}
	}
	return n
}

// pages returns the page requests to the i-th host of a scenario, in order.
func (run *welcomeRun) pages(scenario string, i int) (rs []simweb.Request) {
	for _, q := range run.snap.Requests {
		if !q.Robots && strings.HasPrefix(q.Host, fmt.Sprintf("www.%s-%d.", scenario, i)) {
			rs = append(rs, q)
		}
	}
	slices.SortFunc(rs, func(a, b simweb.Request) int { return int(a.Start - b.Start) })
	return rs
}

// wantGaps checks the times between the end of each request and the start of the next. A time must be at
// least the listed one. If that is over an hour, it may exceed it by a quarter, by which the calendar may
// be late, and a few minutes.
func wantGaps(t *testing.T, rs []simweb.Request, want []time.Duration) {
	t.Helper()
	if len(rs) != len(want)+1 {
		t.Errorf("%d requests, want %d", len(rs), len(want)+1)
		return
	}
	for i, least := range want {
		gap := rs[i+1].Start - rs[i].End
		if gap < least || least >= time.Minute && gap > least+least/4+5*time.Minute {
			t.Errorf("request %d came %v after the previous one, want at least %v", i+2, gap, least)
		}
	}
}

// repeat returns n times d.
func repeat(n int, d time.Duration) (ds []time.Duration) {
	for range n {
		ds = append(ds, d)
	}
	return ds
}

const aDay = 24 * time.Hour

// TestUnwelcomeIsLeftAlone: a host that answers 403 or a challenge, or that hangs up, must get only the
// number of requests that make a run of refusals, the same number a day later, and a last time a week later.
func TestUnwelcomeIsLeftAlone(t *testing.T) {
	notShort(t)
	t.Parallel()
	run := crawlWelcome(t, nil, "welcome-refusing", "welcome-challenges", "welcome-hang-ups")
	runs := func(n int) []time.Duration {
		one := repeat(n-1, time.Second)
		return slices.Concat(one, repeat(1, aDay), one, repeat(1, 7*aDay), one)
	}
	t.Run("403", func(t *testing.T) { wantGaps(t, run.pages("welcome-refusing", 0), runs(10)) })
	for i, vendor := range []string{"cloudflare", "aws", "imperva"} {
		t.Run(vendor, func(t *testing.T) { wantGaps(t, run.pages("welcome-challenges", i), runs(4)) })
	}
	t.Run("hang-ups", func(t *testing.T) {
		wantRuns(t, run.pages("welcome-hang-ups", 0), 12, []time.Duration{aDay, 7 * aDay})
	})
	s := &run.res.Snapshot
	if n := s.Refused["not-welcome"]; n < 30+3*48+45 || run.res.Stop != StopDone || s.Place(state.PlaceDeferred) != 0 {
		t.Errorf("%s: refused %v, deferred %v", run.res.Stop, s.Refused, s.Deferred)
	}
	// Hang-ups also count as failures: after ten of them the host backs off for that reason too.
	if s.Count(state.CountRefusals) != 30+36+12 || s.Count(state.CountChallenges) != 36 ||
		s.Count(state.CountHostRests) != 5*2+2 || s.Count(state.CountHostsGivenUp) != 5 {
		t.Errorf("%d refusals, of them %d challenges; %d back-offs, %d given up", s.Count(state.CountRefusals),
			s.Count(state.CountChallenges), s.Count(state.CountHostRests), s.Count(state.CountHostsGivenUp))
	}
	for url, n := range run.twice() {
		if !strings.Contains(url, "hang-ups") {
			t.Errorf("%s was requested %d times", url, n)
		}
	}
}

// TestPaymentIsNeverMade: a host that asks for payment for everything must get as many requests as one that refuses
// everything, none of them twice, and under a reason of its own. One that asks for some pages gets all requests.
func TestPaymentIsNeverMade(t *testing.T) {
	notShort(t)
	t.Parallel()
	run := crawlWelcome(t, nil, "welcome-payment")
	one := repeat(9, time.Second)
	for i := range 3 {
		wantGaps(t, run.pages("welcome-payment", i),
			slices.Concat(one, repeat(1, aDay), one, repeat(1, 7*aDay), one))
	}
	if n := len(run.pages("welcome-payment", 3)); n != 60 {
		t.Errorf("%d requests to a host that asks for payment for every other page, want 60", n)
	}
	for url, n := range run.twice() {
		t.Errorf("%s was requested %d times", url, n)
	}
	s := &run.res.Snapshot
	if s.Count(state.CountPayments) != 3*30+30 || s.Count(state.CountRefusals) != 0 ||
		s.Count(state.CountRetries) != 0 ||
		s.Count(state.CountHostRests) != 3*2 || s.Count(state.CountHostsGivenUp) != 3 {
		t.Errorf("%d requests for payment, %d refusals, %d retries, %d back-offs, %d given up",
			s.Count(state.CountPayments), s.Count(state.CountRefusals), s.Count(state.CountRetries),
			s.Count(state.CountHostRests), s.Count(state.CountHostsGivenUp))
	}
	if s.Refused["payment"] != 3*30 || s.Refused["not-welcome"] != 0 || s.Place(state.PlaceDeferred) != 0 {
		t.Errorf("refused %v, deferred %v", s.Refused, s.Deferred)
	}
}

// TestUnwelcomeWithDefaultLinger: the crawl must not wait a day for such a host. It must end and report
// what waits and why.
func TestUnwelcomeWithDefaultLinger(t *testing.T) {
	notShort(t)
	run := crawlWelcome(t, func(o *Options) { o.Limits.Linger = time.Minute }, "welcome-refusing", "welcome-failing")
	s := &run.res.Snapshot
	if n := len(run.pages("welcome-refusing", 0)); n != 10 || s.Deferred["not-welcome"] != 50 {
		t.Errorf("%d requests, deferred %v", n, s.Deferred)
	}
	if n := len(run.pages("welcome-failing", 0)); n != 10 || s.Deferred["host-backoff"] == 0 ||
		s.Deferred["not-welcome"]+s.Deferred["host-backoff"] !=
			s.Place(state.PlaceDeferred) {
		t.Errorf("%d requests, deferred %v", n, s.Deferred)
	}
	if run.res.Stop != StopDone || s.Elapsed > 4*time.Hour {
		t.Errorf("stopped by %s after %v", run.res.Stop, s.Elapsed)
	}
}

// wantRuns checks the requests to a host whose failures may be the crawler's own. None counts before
// another exchange has shown that the network works, so the host gets between count and 2*count+1 requests.
// It must get the long back-offs.
func wantRuns(t *testing.T, rs []simweb.Request, count int, long []time.Duration) {
	t.Helper()
	if len(rs) < count || len(rs) > 2*count+1 {
		t.Errorf("%d requests, want %d to %d", len(rs), count, 2*count+1)
	}
	var got []time.Duration
	for i := 1; i < len(rs); i++ {
		if gap := rs[i].Start - max(rs[i-1].End, rs[i-1].Start); gap >= long[0] {
			got = append(got, gap)
		}
	}
	if len(got) != len(long) {
		t.Errorf("back-offs %v, want %v", got, long)
		return
	}
	for i, least := range long {
		if got[i] < least || got[i] > least+least/4+5*time.Minute {
			t.Errorf("back-offs %v, want %v", got, long)
		}
	}
}

// TestForbiddenDirectory: a directory that answers 403 must not make the crawl back off from the rest of
// the site.
func TestForbiddenDirectory(t *testing.T) {
	run := crawlWelcome(t, nil, "welcome-directory")
	if n := len(run.pages("welcome-directory", 0)); n != 60 || run.res.Snapshot.Count(state.CountHostRests) != 0 {
		t.Errorf("%d requests, %d back-offs", n, run.res.Snapshot.Count(state.CountHostRests))
	}
}

// TestFinishedCrawlGoesOn: the same command must continue with URLs that waited for a host in back-off,
// once that ends.
func TestFinishedCrawlGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(_, path string) answer {
			if path == "/robots.txt" {
				return noRobots
			}
			return answer{403, "", ""}
		}}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), urls("no", 1, 60)...)
		withHealth(&opt)
		opt.Limits.Linger = time.Minute
		if res := mustRun(t, t.Context(), opt); res.Stop != StopDone || len(w.Pages("no")) != 10 {
			t.Fatalf("%s, %d requests", res.Stop, len(w.Pages("no")))
		}
		time.Sleep(20 * time.Hour)
		if _, err := Run(t.Context(), opt); !errors.Is(err, state.ErrFinished) {
			t.Errorf("before the end of the back-off: %v, want ErrFinished", err)
		}
		time.Sleep(11 * time.Hour)
		if mustRun(t, t.Context(), opt); len(w.Pages("no")) != 20 {
			t.Errorf("%d requests after a day, want 20", len(w.Pages("no")))
		}
	})
}

// TestRetryAfterInBothForms: 429 and 503 with Retry-After, as seconds and as a date, must delay the next
// request, and must not count as refusals.
func TestRetryAfterInBothForms(t *testing.T) {
	run := crawlWelcome(t, nil, "welcome-retry-after")
	for i := range 4 {
		rs := run.pages("welcome-retry-after", i)
		if len(rs) != 61 {
			t.Errorf("host %d: %d requests, want 61", i, len(rs))
			continue
		}
		if gap := rs[1].Start - rs[0].End; gap < simweb.PatienceAsked-time.Second ||
			gap > simweb.PatienceAsked*5/4+time.Minute {
			t.Errorf("host %d: the second request came after %v", i, gap)
		}
	}
	if s := &run.res.Snapshot; s.Count(state.CountRefusals) != 0 || s.Count(state.CountHostRests) != 0 {
		t.Errorf("429 and 503 counted as refusals: %d, %d back-offs", s.Count(state.CountRefusals),
			s.Count(state.CountHostRests))
	}
}

// failingGaps returns the back-offs of a host that always fails: doubling from 10 s, and long from the
// tenth failure on.
func failingGaps() (ds []time.Duration) {
	for _, n := range []int{10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 7200, 14400, 28800, 57600} {
		ds = append(ds, time.Duration(n)*time.Second)
	}
	return ds
}

// TestFailingHostIsGivenUp: a host that always answers 503 or 500, or never answers, must get only the
// requests of failingGaps, and must then be given up.
func TestFailingHostIsGivenUp(t *testing.T) {
	notShort(t)
	run := crawlWelcome(t, nil, "welcome-failing", "welcome-broken", "welcome-silent")
	t.Run("503", func(t *testing.T) { wantGaps(t, run.pages("welcome-failing", 0), failingGaps()) })
	t.Run("500", func(t *testing.T) { wantGaps(t, run.pages("welcome-broken", 0), failingGaps()) })
	t.Run("silent", func(t *testing.T) { wantRuns(t, run.pages("welcome-silent", 0), 15, failingGaps()[9:]) })
	s := &run.res.Snapshot
	if s.Count(state.CountHostRests) != 3*5 || s.Count(state.CountHostsGivenUp) != 3 ||
		s.Refused["host-given-up"] < 3*40 || s.Place(state.PlaceDeferred) != 0 {
		t.Errorf("%d back-offs, %d given up, refused %v, deferred %v", s.Count(state.CountHostRests),
			s.Count(state.CountHostsGivenUp), s.Refused, s.Deferred)
	}
	for url := range run.twice() {
		if strings.Contains(url, "broken") {
			t.Errorf("requested %s again after its answer 500", url)
		}
	}
}

// TestBrokenPages: when every other page answers 500, each 500 must cost the first back-off only, and no
// URL may be requested twice.
func TestBrokenPages(t *testing.T) {
	run := crawlWelcome(t, nil, "welcome-half-broken")
	rs := run.pages("welcome-half-broken", 0)
	if len(rs) != 60 || len(run.twice()) > 0 {
		t.Fatalf("%d requests, twice %v", len(rs), run.twice())
	}
	for i, q := range rs[1:] {
		if rs[i].Status != []int{500, 200}[i%2] {
			t.Fatalf("request %d: status %d", i+1, rs[i].Status)
		}
		if gap := q.Start - rs[i].End; rs[i].Status == 500 && (gap < 10*time.Second || gap > 12*time.Second) {
			t.Errorf("%v after a 500", gap)
		}
	}
}

// TestHostRecovers: all URLs of a host that recovers must be fetched, soon at the usual rate.
func TestHostRecovers(t *testing.T) {
	run := crawlWelcome(t, nil, "welcome-recovering", "welcome-gateway")
	rs := run.pages("welcome-recovering", 0)
	good := 0
	for _, q := range rs {
		if q.Status == 200 {
			good++
		}
	}
	if bad := len(rs) - good; good < 60-3 || bad > 8 { // 10+20+…+640 s are 20 minutes
		t.Errorf("fetched %d pages, got %d times 503", good, bad)
	}
	var late []time.Duration
	for i := len(rs) - 20; i < len(rs); i++ {
		if gap := rs[i].Start - rs[i-1].End; gap > 10*time.Second {
			late = append(late, gap)
		}
	}
	if len(late) > 1 || len(late) == 1 && late[0] > 3*time.Minute { // its URLs may return from disk in two lots
		t.Errorf("of the last 20 requests to the recovered host, some came after %v", late)
	}
	if n := len(run.pages("welcome-gateway", 0)); n != 62 {
		t.Errorf("502 and 504: %d requests, want a retry of both", n)
	}
}

// TestBackedOffHostsDoNotDelayOthers: with all kinds of such hosts in the crawl, the ordinary hosts must be
// done at most half as late again as without them, plus the time of a batch of robots.txt.
func TestBackedOffHostsDoNotDelayOthers(t *testing.T) {
	notShort(t)
	soon := func(o *Options) { o.Limits.Linger = time.Minute }
	plain := crawlWelcome(t, soon)
	run := crawlWelcome(t, soon, "welcome-refusing", "welcome-challenges", "welcome-hang-ups", "welcome-failing",
		"welcome-broken", "welcome-silent", "welcome-recovering", "welcome-retry-after")
	t.Logf("ordinary hosts done after %v, without the others after %v", run.done, plain.done)
	if limit := plain.done*3/2 + 2*gate.Stragglers; run.done > limit {
		t.Errorf("ordinary hosts were done after %v, without the others after %v", run.done, plain.done)
	}
}

// TestRefusedConnections: a host that serves robots.txt and then refuses all connections must get only the
// attempts of failingGaps, and must then be given up.
func TestRefusedConnections(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: pagesOnly}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), urls("dead", 1, 60)...)
		withHealth(&opt)
		var tries []time.Time // only one goroutine at a time connects to the host
		client := newClient(t, fetch.Options{
			Dial: func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
				if len(w.Got("", "/robots.txt")) == 0 {
					return w.Dial(ctx, addr)
				}
				tries = append(tries, time.Now())
				return nil, syscall.ECONNREFUSED
			}})
		opt.Network.Fetcher = client
		res := mustRun(t, t.Context(), opt)
		// After the back-off that outlasts robots.txt, requests for robots.txt come in addition.
		gaps := failingGaps()
		for i, least := range gaps[:12] {
			if gap := tries[i+1].Sub(tries[i]); gap < least {
				t.Errorf("try %d after %v, want %v", i+2, gap, least)
			}
		}
		if len(tries) <= len(gaps) || len(tries) > len(gaps)+5 {
			t.Errorf("%d tries, want %d and some for robots.txt", len(tries), len(gaps)+1)
		}
		if res.Snapshot.Count(state.CountHostsGivenUp) != 1 || res.Snapshot.Place(state.PlaceDeferred) != 0 {
			t.Errorf("refused %v, deferred %v", res.Snapshot.Refused, res.Snapshot.Deferred)
		}
	})
}

// TestRobotsWait: URLs must wait --robots-wait for an unreachable robots.txt and then be refused.
func TestRobotsWait(t *testing.T) {
	notShort(t)
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(_, path string) answer { return answer{503, "", ""} }}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), urls("down", 1, 20)...)
		withHealth(&opt)
		opt.Health.RobotsWait = 5 * aDay
		began := time.Now()
		res := mustRun(t, t.Context(), opt)
		if n := res.Snapshot.Refused["robots-unavailable"]; n != 20 || len(w.Pages("down")) != 0 {
			t.Errorf("refused %v, requested %d pages", res.Snapshot.Refused, len(w.Pages("down")))
		}
		if took := time.Since(began); took < 5*aDay || took > 6*aDay {
			t.Errorf("refused after %v, want 5 days", took)
		}
		if n := len(w.Got("", "/robots.txt")); n > 11+2*6 {
			t.Errorf("robots.txt was requested %d times", n)
		}
	})
}

// TestOriginsShareBackoff: the origins of a host must share its back-off.
func TestOriginsShareBackoff(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(_, path string) answer {
			if path == "/robots.txt" {
				return noRobots
			}
			return answer{403, "", ""}
		}}
		var seeds []string
		for i := range 40 {
			seeds = append(seeds, fmt.Sprintf("http://origins.test:%d/%d", 80+8000*(i%2), i))
		}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), seeds...)
		withHealth(&opt)
		opt.Limits.Linger = time.Hour
		client := newClient(t, fetch.Options{Dial: w.Dial, Ports: ports.Of(80, 8080)})
		opt.Network.Fetcher = client
		res := mustRun(t, t.Context(), opt)
		if n := len(w.Pages("origins")); n != 10 || res.Snapshot.Deferred["not-welcome"] != 30 {
			t.Errorf("%d requests, deferred %v", n, res.Snapshot.Deferred)
		}
	})
}

// TestRobotsAskForPatience: a Retry-After on robots.txt must apply to the host's pages too, even with a
// stale copy.
func TestRobotsAskForPatience(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var asked []time.Time
		w := &tinyWeb{Serve: func(_, path string) answer {
			if path != "/robots.txt" {
				return answer{200, "", "<html>x"}
			}
			if asked = append(asked, time.Now()); len(asked) == 2 {
				return answer{429, "Retry-After: 1800\r\n", ""}
			}
			return answer{200, "Cache-Control: max-age=60\r\n", "User-agent: *\nDisallow: /no\n"}
		}}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), urls("a", 1, 300)...)
		withHealth(&opt)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 40*time.Second, 40*time.Second
		mustRun(t, t.Context(), opt)
		if len(asked) < 3 {
			t.Fatalf("robots.txt was requested %d times, want at least 3", len(asked))
		}
		for _, q := range w.Pages("a") {
			if d := q.At.Sub(asked[1]); d > 0 && d < 30*time.Minute {
				t.Errorf("%s was requested %v after a 429 with Retry-After: 1800", q.Path, d)
			}
		}
		if n := len(w.Pages("a")); n != 300 {
			t.Errorf("%d pages, want 300", n)
		}
	})
}

// TestMaxPagesPerHost: the crawl must fetch exactly --max-pages host URLs of an origin, whatever it
// defers or checks again.
func TestMaxPagesPerHost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tries := map[string]int{}
		w := &tinyWeb{TTL: time.Minute}
		w.Serve = func(host, path string) answer {
			if tries[host+path]++; path != "/robots.txt" && tries[host+path] == 1 && strings.HasSuffix(path, "3") {
				return answer{503, "", ""} // checked again before its second attempt
			}
			return pagesOnly(host, path)
		}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), append(urls("many", 2, 100), urls("few", 1, 20)...)...)
		opt.Health.MaxPagesPerHost, opt.Limits.Linger = 30, time.Minute
		res := mustRun(t, t.Context(), opt)
		if n := res.Snapshot.Refused["host-pages"]; n != 140 || res.Snapshot.Place(state.PlaceFetched) != 80 {
			t.Errorf("refused %v, %d fetched, want 140 and 80", res.Snapshot.Refused,
				res.Snapshot.Place(state.PlaceFetched))
		}
		for host, want := range map[string]int{"many0": 30, "many1": 30, "few0": 20} {
			seen := map[string]bool{}
			for _, q := range w.Pages(host + ".") {
				seen[q.Path] = true
			}
			if len(seen) != want {
				t.Errorf("%s: requested %d URLs, want %d", host, len(seen), want)
			}
		}
	})
}

// TestHealthOutlivesKills: a refusing host must get no extra requests although the crawl is killed many
// times.
func TestHealthOutlivesKills(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(host, path string) answer {
			if path == "/robots.txt" {
				return noRobots
			}
			if strings.HasPrefix(host, "bad") {
				return answer{503, "", ""}
			}
			return answer{403, "", ""}
		}}
		mem := memfs.New(*seedFlag)
		opt := tinyOptions(t, w, mem, append(urls("bad", 1, 60), urls("no", 1, 60)...)...)
		withHealth(&opt)
		opt.Disk.CheckpointEvery = time.Second
		var res *Result
		for i := 0; ; i++ {
			if i > 200 {
				t.Fatal("the crawl doesn't end")
			}
			ctx, cancel := context.WithTimeout(t.Context(),
				[]time.Duration{7 * time.Minute, 5 * time.Hour, 3 * aDay}[i%3])
			var err error
			if res, err = Run(ctx, opt); err != nil {
				t.Fatal(err)
			}
			cancel()
			if res.Stop == StopDone {
				break
			}
			mem = mem.Crash() // as after a power cut: from the last durable checkpoint
			opt.Disk.FS = mem
		}
		if n := len(w.Pages("no")); n != 30 || res.Snapshot.Refused["not-welcome"] != 30 {
			t.Errorf("%d requests to the refusing host, want 30; refused %v", n, res.Snapshot.Refused)
		}
		if n := len(w.Pages("bad")); n != 15 || res.Snapshot.Refused["host-given-up"] < 40 {
			t.Errorf("%d requests to the failing host, want 15; refused %v", n, res.Snapshot.Refused)
		}
	})
}
