package crawl

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// TestTruncatedRobotsIsAFailure: a robots.txt that breaks off must count as a failure. It guards against a
// crawl that took the rules behind the break for absent.
func TestTruncatedRobotsIsAFailure(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: pagesOnly}
		w.Raw = func(c net.Conn, _, path string) bool {
			if path != "/robots.txt" {
				return false
			}
			_, _ = fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nUser-agent: *\n")
			return true // closed before "Disallow: /private"
		}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), "http://a.test/private")
		opt.Limits.MaxTime = 10 * time.Minute
		mustRun(t, t.Context(), opt)
		if n := len(w.Got("a.test", "/robots.txt")); n < 2 {
			t.Errorf("requested robots.txt %d times although it broke off, want another attempt", n)
		}
		if n := len(w.Got("a.test", "/private")); n > 0 {
			t.Errorf("fetched /private %d times although robots.txt broke off", n)
		}
	})
}

// TestLingerWaitsForTheFirstRetry: a crawl must retry a robots.txt that answered 503 before it ends. It
// guards against a crawl that a passing 503 ended before the first retry.
func TestLingerWaitsForTheFirstRetry(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		start := time.Now()
		w := &tinyWeb{Serve: func(host, path string) answer {
			if path == "/robots.txt" && time.Since(start) < 30*time.Second {
				return answer{Status: 503}
			}
			return pagesOnly(host, path)
		}}
		res := mustRun(t, t.Context(), tinyOptions(t, w, memfs.New(*seedFlag), "http://a.test/"))
		if n := len(w.Got("a.test", "/")); n != 1 {
			t.Errorf("%q after %v: fetched the page %d times, want 1", res.Stop, time.Since(start), n)
		}
		if len(res.Seeds) > 0 {
			t.Errorf("seeds without yield: %q", res.Seeds)
		}
	})
}

// TestDNSThatDiesEnds: a crawl must end when a name no longer resolves after the crawl fetched its
// robots.txt. It guards against endless lookups of the name.
func TestDNSThatDiesEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		start := time.Now()
		w := &tinyWeb{Serve: pagesOnly, TTL: time.Minute}
		w.Lookup = func(string) (string, error) {
			if time.Since(start) > 5*time.Minute {
				return "", errors.New("SERVFAIL")
			}
			return "", nil
		}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), urls("a", 1, 100)...)
		opt.Limits.MaxTime = 24 * time.Hour
		res := mustRun(t, t.Context(), opt)
		if res.Stop != StopDone {
			t.Errorf("stopped by %q, want %q", res.Stop, StopDone)
		}
		if w.Lookups > 40 {
			t.Errorf("%d lookups of one name", w.Lookups)
		}
		if s := &res.Snapshot; s.Deferred["robots-unavailable"] == 0 || s.Place(state.PlaceFetched) == 0 {
			t.Errorf("places %v, deferred %v: want some URLs fetched and the others waiting", s.Places, s.Deferred)
		}
	})
}

// TestBackedOffHostsDoNotStallOthers: URLs of hosts that requested a long back-off must not fill the stock.
func TestBackedOffHostsDoNotStallOthers(t *testing.T) {
	stalled(t, 40, answer{503, "Retry-After: 86400\r\n", ""})
}

// TestSlowHostsDoNotStallOthers: URLs of hosts with the usual delay must not fill the stock.
func TestSlowHostsDoNotStallOthers(t *testing.T) { stalled(t, 60, answer{404, "", "x"}) }

// stalled checks that a crawl reaches a good host while it knows more URLs of slow hosts than the stock
// holds. The slow hosts all answer with reply.
func stalled(t *testing.T, hosts int, reply answer) {
	notShort(t)
	inBubble(t, func(t *testing.T) {
		start := time.Now()
		w := &tinyWeb{Serve: func(host, path string) answer {
			switch {
			case path == "/robots.txt":
				return noRobots
			case strings.HasPrefix(host, "slow"):
				return reply
			case host == "root.test":
				return answer{200, "", `<html><a href="http://fresh.test/">`}
			}
			return pagesOnly(host, path)
		}}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), append(urls("slow", hosts, 64), "http://root.test/")...)
		opt.Limits.MaxTime = 8 * time.Minute // includes two waits at the end of BEAST's queues
		res := mustRun(t, t.Context(), opt)
		if len(w.Got("fresh.test", "/")) == 0 {
			t.Errorf("fresh.test was not fetched within %v, delayed by %d hosts: places %v, waits for %q",
				time.Since(start), hosts, res.Snapshot.Places, res.Snapshot.Wait.Text)
		}
	})
}

// TestOneServersRobotsDoNotStallOthers: robots.txt requests of many hosts at one address must not take all
// wait slots.
func TestOneServersRobotsDoNotStallOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: pagesOnly}
		w.Lookup = func(host string) (string, error) {
			if strings.HasPrefix(host, "shared") {
				return "127.0.0.1", nil
			}
			return "", nil
		}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), append(urls("shared", 1000, 1), urls("own", 20, 1)...)...)
		opt.Order.StockTarget, opt.Politeness.HostDelay = 3000, time.Second
		opt.Limits.MaxTime = 2 * time.Minute
		mustRun(t, t.Context(), opt)
		if n := len(w.Pages("own")); n != 20 {
			t.Errorf("visited %d of 20 hosts with their own addresses within %v", n, opt.Limits.MaxTime)
		}
	})
}

// TestRetryAfterOutlivesARestart: a restart must not forget the Retry-After of a host, nor one of days.
func TestRetryAfterOutlivesARestart(t *testing.T) {
	for _, asked := range []time.Duration{time.Hour, 72 * time.Hour} {
		t.Run(asked.String(), func(t *testing.T) { retryAfterOutlives(t, asked) })
	}
}

func retryAfterOutlives(t *testing.T, asked time.Duration) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(_, path string) answer {
			if path == "/robots.txt" {
				return noRobots
			}
			return answer{429, fmt.Sprintf("Retry-After: %d\r\n", asked/time.Second), ""}
		}}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), urls("a", 1, 3)...)
		opt.Limits.Linger = 2 * asked
		for _, d := range []time.Duration{2 * time.Minute, asked / 6, asked + asked/12} {
			runFor(t, d, opt)
		}
		rs := w.Pages("a")
		if len(rs) < 2 {
			t.Fatalf("%d requests in %v, want one per %v", len(rs), asked/6+asked+asked/12, asked)
		}
		for i := 1; i < len(rs); i++ {
			if gap := rs[i].At.Sub(rs[i-1].At); gap < asked {
				t.Errorf("a request came %v after a 429 with a Retry-After of %v", gap, asked)
			}
		}
	})
}

// TestVerdictIsNoOlderThanADay: a crawl must check robots.txt again for URLs that waited more than a day in
// RAM. It guards against fetches allowed by an outdated robots.txt.
func TestVerdictIsNoOlderThanADay(t *testing.T) {
	notShort(t)
	inBubble(t, func(t *testing.T) {
		start := time.Now()
		pages := 0
		w := &tinyWeb{TTL: 24 * time.Hour}
		w.Serve = func(host, path string) answer {
			if path == "/robots.txt" && time.Since(start) > time.Hour {
				return answer{200, "", "User-agent: *\nDisallow: /\n"}
			}
			if path != "/robots.txt" {
				if pages++; pages == 1 {
					return answer{503, "Retry-After: 86400\r\n", ""}
				}
			}
			return pagesOnly(host, path)
		}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), urls("a", 1, 20)...)
		opt.Disk.CheckpointEvery = 12 * time.Hour
		opt.Limits.MaxTime = 36 * time.Hour    // the calendar may be some hours late
		opt.Limits.Linger = opt.Limits.MaxTime // outlasts the Retry-After
		mustRun(t, t.Context(), opt)
		if n := len(w.Got("", "/robots.txt")); n != 2 {
			t.Errorf("requested robots.txt %d times, want 2", n)
		}
		for _, r := range w.Pages("a") {
			if age := r.At.Sub(start); age > 24*time.Hour+time.Minute {
				t.Errorf("fetched %s after %v under the robots.txt of the first minute", r.Path, age)
			}
		}
	})
}

// TestEachSeedWithoutYieldIsListed: the result must list each seed that the rules filter or that redirects
// to nowhere.
func TestEachSeedWithoutYieldIsListed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(host, path string) answer {
			switch {
			case path == "/robots.txt":
				return noRobots
			case host == "mail.test":
				return answer{301, "Location: mailto:x@y.test\r\n", ""}
			case host == "loop.test":
				return answer{301, "Location: http://loop.test/\r\n", ""}
			}
			return pagesOnly(host, path)
		}}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), "http://mail.test/", "http://loop.test/",
			"http://filtered.test/", "ftp://example.test/", "http://good.test/", "# a comment")
		opt.Admission.LinkFilter = func(u []byte) bool { return !strings.Contains(string(u), "filtered") }
		res := mustRun(t, t.Context(), opt)
		slices.Sort(res.Seeds)
		if i := slices.IndexFunc(res.Seeds, func(s string) bool { return strings.HasPrefix(s, "ftp:") }); i < 0 {
			t.Errorf("the bad seed is not listed: %q", res.Seeds)
		} else {
			res.Seeds = slices.Delete(res.Seeds, i, i+1)
		}
		want := []string{"http://filtered.test/: filtered", "http://loop.test/: redirect that leads nowhere",
			"http://mail.test/: redirect that leads nowhere"}
		if !slices.Equal(res.Seeds, want) {
			t.Errorf("seeds without yield: got %q, want %q", res.Seeds, want)
		}
	})
}

// TestSeedRedirectTrapEnds: a crawl must stop following an endless chain of redirects from a seed, whatever
// the depth limit.
func TestSeedRedirectTrapEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(_, path string) answer {
			if path == "/robots.txt" {
				return noRobots
			}
			return answer{302, fmt.Sprintf("Location: %sx\r\n", path), ""}
		}}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), "http://a.test/")
		atOnce(&opt)
		opt.Limits.MaxDepth, opt.Limits.MaxTime, opt.Limits.MaxPages = 1, time.Minute, 1
		res := mustRun(t, t.Context(), opt)
		if n := res.Snapshot.Count(state.CountRedirects); res.Stop != StopDone || n < 2 || n > 25 {
			t.Errorf("stopped by %q after %d redirects of one seed, want %q after about 20", res.Stop, n, StopDone)
		}
	})
}

// endless serves pages with two links each, without end.
func endless(_, path string) answer {
	if path == "/robots.txt" {
		return noRobots
	}
	return answer{200, "", fmt.Sprintf(`<html><a href="%s1"><a href="%s2">`, path, path)}
}

// TestCrashBeforeTheFirstManifest: a crawl must resume after a crash at any operation of its first
// checkpoint. It guards against leftover files that made every later run fail.
func TestCrashBeforeTheFirstManifest(t *testing.T) {
	notShort(t)
	for _, c := range []struct {
		name      string
		more, out bool // add a directory to an existing crawl; use a separate output directory
	}{
		{"first", false, false}, {"first with output", false, true},
		{"more", true, false}, {"more with output", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			stride := longOr(9, 27)
			for n := 1 + int(*seedFlag%uint64(stride)); n < 90; n += stride {
				for _, power := range []bool{false, true} {
					inBubble(t, func(t *testing.T) { crashEarly(t, n, power, c.more, c.out) })
				}
			}
		})
	}
}

// crashEarly cuts a crawl off after n operations and resumes it.
func crashEarly(t *testing.T, n int, power, more, out bool) {
	w := &tinyWeb{Serve: endless}
	fs := memfs.New(*seedFlag)
	opt := tinyOptions(t, w, fs, "http://a.test/")
	atOnce(&opt)
	small(&opt)
	opt.Network.Connections, opt.Limits.MaxPages = 16, 2
	if out {
		opt.Disk.Out = []string{"o0", "o1"}
	}
	if more {
		mustRun(t, t.Context(), opt)
		opt.Disk.Dirs, opt.Disk.AddDirs = append(opt.Disk.Dirs, "d2"), []string{"d2"}
		if out {
			opt.Disk.Out, opt.Disk.AddOut = append(opt.Disk.Out, "o2"), []string{"o2"}
		}
		opt.Limits.MaxPages = 4
	}
	fs.CrashAfter(n)
	switch _, err := Run(t.Context(), opt); {
	case err == nil:
		return
	case !errors.Is(err, disk.ErrCrashed):
		t.Fatalf("crash after %d operations: got %v, want %v", n, err, disk.ErrCrashed)
	}
	if power {
		fs = fs.Crash()
	} else {
		fs = fs.Kill()
	}
	opt.Disk.FS, opt.Limits.MaxPages = fs, 6
	res, err := Run(t.Context(), opt)
	if err != nil {
		t.Fatalf("resume after a crash at operation %d, power cut %t: %v", n, power, err)
	}
	if got := res.Snapshot.Count(state.CountPages); got != 6 {
		t.Errorf("crash after %d operations, power cut %t: %d pages, want 6", n, power, got)
	}
}
