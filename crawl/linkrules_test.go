package crawl

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/urlrule"
	"drumbeat/state"
	"drumbeat/state/audit"
)

// sessions are link rules for sites with sessions in their URLs.
var sessions = urlrule.Options{StripParams: []string{"session"}, SortQuery: true, CollapseSlashes: true}

// rulesCrawl crawls w under link rules to its end, audits it, and returns the result.
func rulesCrawl(t *testing.T, w *tinyWeb, rules urlrule.Options, change func(*Options), seeds ...string) *Result {
	t.Helper()
	opt := tinyOptions(t, w, memfs.New(*seedFlag), seeds...)
	atOnce(&opt)
	opt.Admission.URLRules, opt.Limits.MaxTime = rules, 24*time.Hour
	if change != nil {
		change(&opt)
	}
	res := mustRun(t, t.Context(), opt)
	if res.Stop != StopDone {
		t.Errorf("stopped by %q, want %q", res.Stop, StopDone)
	}
	checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
	return res
}

// asked returns the sorted paths of the requests in a server's log, without robots.txt.
func asked(w *tinyWeb) (paths []string) {
	for _, r := range w.Pages("") {
		paths = append(paths, r.Path)
	}
	slices.Sort(paths)
	return paths
}

func checkAsked(t *testing.T, w *tinyWeb, want ...string) {
	t.Helper()
	if got := asked(w); !slices.Equal(got, want) {
		t.Errorf("the server got requests for\n%q, want\n%q", got, want)
	}
}

// TestSessionsAreStripped: on a site where the links of each page have a new session, so that a crawl
// without rules never ends, the rules must lead to one request per page, without a session. They must apply
// to the seed too.
func TestSessionsAreStripped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := 0
		w := &tinyWeb{Serve: func(_, path string) answer {
			if path == "/robots.txt" {
				return noRobots
			}
			n++
			return answer{200, "",
				fmt.Sprintf("<a href='//a.test//b?PHPSESSID=%d&x=1'>1</a><a href='/b?x=1&phpsessid=%d'>2</a>"+
					"<a href='/c;jsessionid=%d'>3</a><a href='/c;jsessionid=%d'>4</a><a "+
					"href='/d?z=1&y=%%41&sid=4'>5</a>", n, n, n, n)}
		}}
		res := rulesCrawl(t, w, sessions, nil, "http://a.test/?PHPSESSID=7")
		checkAsked(t, w, "/", "/b?x=1", "/c", "/d?sid=4&y=A&z=1")
		// The rules change the five links of each of four pages, and the seed.
		if got, want := res.Snapshot.Counters[state.CountURLsRewritten], int64(4*5+1); got != want {
			t.Errorf("rewrote %d URLs, want %d", got, want)
		}
	})
}

// TestSiteThatInsistsOnSessions: when a site redirects a request without a session to the same page with a
// new one, the crawl must fetch each page, with two requests. Its links must count as the same URLs as
// everywhere.
func TestSiteThatInsistsOnSessions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := 0
		w := &tinyWeb{}
		w.Serve = func(_, path string) answer {
			if path == "/robots.txt" {
				return noRobots
			}
			page, _, has := strings.Cut(path, "?PHPSESSID=")
			if n++; !has {
				return answer{302, fmt.Sprintf("Location: %s?PHPSESSID=%d\r\n", page, n), ""}
			}
			return answer{200, "", fmt.Sprintf("<a href='/b?PHPSESSID=%d'>b</a> <a href='/c?PHPSESSID=%d'>c</a>", n, n)}
		}
		res := rulesCrawl(t, w, sessions, nil, "http://a.test/a")
		if got := asked(w); len(got) != 6 || res.Snapshot.Counters[state.CountPages] != 3 {
			t.Errorf("fetched %d pages with the requests %q, want 3 pages with 6 requests",
				res.Snapshot.Counters[state.CountPages], got)
		}
		if res.Snapshot.Counters[state.CountSeedPages] != 1 {
			t.Errorf("the seed led to %d pages", res.Snapshot.Counters[state.CountSeedPages])
		}
	})
}

// TestSiteThatMakesSessionsByAnotherPage: the crawl must fetch a page that redirects through another page,
// which makes a session and redirects back.
func TestSiteThatMakesSessionsByAnotherPage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(_, path string) answer {
			switch path {
			case "/robots.txt":
				return noRobots
			case "/a":
				return answer{302, "Location: /login?to=a&PHPSESSID=1\r\n", ""}
			case "/login?to=a":
				return answer{302, "Location: /a?PHPSESSID=2\r\n", ""}
			case "/a?PHPSESSID=2":
				return answer{200, "", "<html>the page"}
			}
			return answer{404, "", ""}
		}}
		res := rulesCrawl(t, w, urlrule.Options{StripParams: []string{"session"}}, nil, "http://b.test/",
			"http://a.test/a")
		checkAsked(t, w, "/", "/a", "/a?PHPSESSID=2", "/login?to=a")
		if res.Snapshot.Counters[state.CountPages] != 1 {
			t.Errorf("%d pages, want 1", res.Snapshot.Counters[state.CountPages])
		}
	})
}

// TestSiteThatNeverTakesASession: a site that redirects every request to a new session must not keep the
// crawl from ending.
func TestSiteThatNeverTakesASession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := 0
		w := &tinyWeb{Serve: func(_, path string) answer {
			if path == "/robots.txt" {
				return noRobots
			}
			n++
			path, _, _ = strings.Cut(path, "?")
			return answer{302, fmt.Sprintf("Location: %s?PHPSESSID=%d\r\n", path, n), ""}
		}}
		rulesCrawl(t, w, sessions, nil, "http://a.test/a")
		checkAsked(t, w, "/a", "/a?PHPSESSID=1")
	})
}

// TestSiteThatInsistsOnItsOrder: the crawl must follow a redirect to another order of parameters or to two
// slashes.
func TestSiteThatInsistsOnItsOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(_, path string) answer {
			switch path {
			case "/robots.txt":
				return noRobots
			case "/x?a=1&b=2":
				return answer{301, "Location: /x?b=2&a=1\r\n", ""}
			case "/y":
				return answer{301, "Location: http://a.test//y\r\n", ""}
			}
			return answer{200, "", "<a href='/y'>y</a>"}
		}}
		rulesCrawl(t, w, sessions, nil, "http://a.test/x?b=2&a=1")
		checkAsked(t, w, "//y", "/x?a=1&b=2", "/x?b=2&a=1", "/y")
	})
}

// TestTrapsEnd: sites with endless links of each kind that a guard limits must get only the number of
// requests that the guard allows. Seeds must pass all guards.
func TestTrapsEnd(t *testing.T) {
	list, err := urlrule.ParseExtensions("default")
	must(t, err)
	rules := urlrule.Options{SkipExtensions: list, MaxPathDepth: 8, MaxRepeats: 2, MaxParams: 3}
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(host, path string) answer {
			if path == "/robots.txt" {
				return noRobots
			}
			n := strings.Count(path, "/")
			link := map[string]string{
				"depth.test":  fmt.Sprintf("d%d/", n),
				"repeat.test": []string{"a/", "b/"}[n%2],
				"params.test": fmt.Sprintf("%s&p%d", path, strings.Count(path, "&")),
				"files.test":  "/x.PDF",
			}[host]
			if host == "params.test" && !strings.Contains(path, "?") {
				link = "/?p"
			}
			return answer{200, "", "<a href='" + link + "'>on</a>"}
		}}
		res := rulesCrawl(t, w, rules, nil, "http://depth.test/", "http://repeat.test/", "http://params.test/",
			"http://files.test/", "http://files.test/seed.pdf", "http://seed.test/a/a/a/a/a/a/a/a/a/a")
		for host, want := range map[string]int{
			"depth.test": 1 + 8, "repeat.test": 1 + 4, "params.test": 1 + 3, "files.test": 2, "seed.test": 1} {
			if got := len(w.Pages(host)); got != want {
				t.Errorf("requested %d pages of %s, want %d", got, host, want)
			}
		}
		// The seed with a long path links to itself.
		for _, c := range []struct {
			counter state.Counter
			want    int64
		}{{state.CountLinksPathDepth, 2}, {state.CountLinksRepeated, 1}, {state.CountLinksParams, 1},
			{state.CountLinksExtension, 2}} {
			if got := res.Snapshot.Counters[c.counter]; got != c.want {
				t.Errorf("counter %d: got %d, want %d", c.counter, got, c.want)
			}
		}
	})
}

// teeming is a site whose pages each link to eight new pages of their host and to all hosts of the PLD.
func teeming(_, path string) answer {
	if path == "/robots.txt" {
		return noRobots
	}
	var b strings.Builder
	for i := range 8 {
		fmt.Fprintf(&b, "<a href='%s%d'>x</a><a href='http://h%d.one.test/%d'>y</a>", path, i, i, i)
	}
	return answer{200, "", b.String()}
}

// TestMaxPagesPerPLD: the crawl must request at most --max-pages pld URLs of a PLD, whatever its hosts,
// budgets and scope. It must refuse the rest, once each, and fetch other PLDs as usual.
func TestMaxPagesPerPLD(t *testing.T) {
	for _, scope := range []state.Scope{state.ScopeAll, state.ScopePLD, state.ScopeHost} {
		inBubble(t, func(t *testing.T) {
			w := &tinyWeb{Serve: func(host, path string) answer {
				if strings.HasSuffix(host, "one.test") {
					return teeming(host, path)
				}
				return pagesOnly(host, path)
			}}
			seeds := append(urls("b", 1, 5), "http://h0.one.test/", "http://h1.one.test/")
			res := rulesCrawl(t, w, urlrule.Options{},
				func(o *Options) { o.Admission.MaxPagesPerPLD, o.Admission.Scope = 40, scope }, seeds...)
			one := len(w.Pages("h"))
			if other := len(w.Pages("b")); one != 40 || other != 5 {
				t.Errorf("scope %s: %d pages of the PLD, want 40; %d of the other PLD, want 5", scope, one, other)
			}
			unique, refused := res.Snapshot.Unique, res.Snapshot.Refused["pld-pages"]
			if refused != unique-45 || refused == 0 {
				t.Errorf("scope %s: refused %d of %d URLs, want all but 45", scope, refused, unique)
			}
		})
	}
}

// TestMaxPagesPerPLDSurvivesCrashes: a crawl that is cut off many times, at any disk operation, must fetch
// exactly the allowed number of URLs of a PLD.
func TestMaxPagesPerPLDSurvivesCrashes(t *testing.T) {
	const limit = 60
	inBubble(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(*seedFlag, 5))
		mem := memfs.New(*seedFlag)
		opt := tinyOptions(t, &tinyWeb{Serve: teeming}, mem, "http://h0.one.test/")
		atOnce(&opt)
		opt.Politeness.HostDelay, opt.Disk.CheckpointEvery, opt.Admission.MaxPagesPerPLD = 500*time.Millisecond,
			time.Second, limit
		for cuts := 0; ; cuts++ {
			if cuts < 20 {
				mem.CrashAfter(1 + rnd.IntN(100))
			}
			// A cut after the last checkpoint leaves a finished crawl.
			_, err := Run(t.Context(), opt)
			if err == nil || errors.Is(err, state.ErrFinished) {
				if cuts < 5 {
					t.Errorf("seed %d: only %d cuts", *seedFlag, cuts)
				}
				break
			}
			if !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("seed %d, cut %d: %v", *seedFlag, cuts, err)
			}
			mem = mem.Crash()
			opt.Disk.FS = mem
		}
		rep, err := audit.Run(mem, opt.Disk.Dirs)
		if err != nil || !rep.Balanced() {
			t.Fatalf("seed %d: audit: %v, %+v", *seedFlag, err, rep)
		}
		var fetched int64
		for _, row := range rep.Rows {
			if row.Place == state.PlaceFetched.String() {
				fetched = row.Account.N
			}
		}
		if unique := rep.Unique.Account.N; fetched != limit || rep.Refused["pld-pages"] != unique-limit {
			t.Errorf("seed %d: fetched %d, want %d; refused %v of %d", *seedFlag, fetched, limit, rep.Refused, unique)
		}
	})
}
