package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/outage"
	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// liar is a resolver that sometimes answers that names don't exist, or gives all names one address.
type liar struct {
	outage.Resolver
	// nil: answer truthfully; errSink: answer with an address that the rules forbid.
	absent func(host string) error
}

var (
	errNoSuchName = errors.New("no such name")
	errSink       = errors.New("0.0.0.0")
)

func (l liar) LookupHost(ctx context.Context, host, pld string) (Lookup, error) {
	switch err := l.absent(host); err {
	case nil:
		return l.Resolver.LookupHost(ctx, host, pld)
	case errSink:
		return Lookup{Addrs: []netip.Addr{netip.IPv4Unspecified()}, Expires: time.Now().Add(time.Minute)}, nil
	default:
		return Lookup{}, &LookupError{Host: host, NotFound: true, Err: err}
	}
}

// TestNoNameForAMinute: name servers that deny all names for a minute, or answer with one sink address for
// all, must not cost a URL. The minute lies in the middle of a crawl or at its start, and half of the names
// may be exempt.
func TestNoNameForAMinute(t *testing.T) {
	notShort(t)
	t.Parallel()
	for _, tt := range []struct {
		name  string
		err   error
		begin time.Duration
		share int // one in share names gets true answers
	}{
		{"no name", errNoSuchName, 1500 * time.Millisecond, 0},
		{"sinkhole", errSink, 1500 * time.Millisecond, 0},
		{"late", errNoSuchName, 40 * time.Second, 0},
		{"not all", errNoSuchName, 1500 * time.Millisecond, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				web := smallWeb(t, nil)
				began := time.Now()
				opt := simOptions(t, web, memfs.New(*seedFlag))
				opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 2*time.Second, time.Second
				if tt.share > 0 { // the remaining names are no canaries, so confirmation takes hours
					opt.Limits.Linger = 4 * time.Hour
				}
				opt.Network.Resolver = liar{simResolver{Web: web}, func(host string) error {
					if d := time.Since(began); d < tt.begin || d > tt.begin+time.Minute ||
						tt.share > 0 && int(ownAddr(host).As4()[3])%tt.share == 0 {
						return nil
					}
					return tt.err
				}}
				outages := countOutages(&opt)
				res := mustRun(t, t.Context(), opt)
				t.Logf("%v, %d outages, refused %v, deferred %v, %d unconfirmed failures",
					res.Snapshot.Elapsed, outages(), res.Snapshot.Refused, res.Snapshot.Deferred,
					res.Snapshot.Count(state.CountUnconfirmed))
				checkFetchedAtLeastOnce(t, web)
				if n := res.Snapshot.Refused["no-such-host"]; n > 0 {
					t.Errorf("%d URLs refused as no-such-host, want 0", n)
				}
			})
		})
	}
}

// TestDeadNames: a crawl with some names that don't exist must end within minutes and give the reason for
// their refusal, whether other names exist or not.
func TestDeadNames(t *testing.T) {
	for _, tt := range []struct {
		good, dead, addrs int
	}{{3, 1, 0}, {0, 3, 0}, {1, 30, 0}, {1, 0, 2}, {3, 0, 1}} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := &tinyWeb{Serve: pagesOnly}
				seeds := append(urls("good", tt.good, 3), urls("dead", tt.dead, 3)...)
				seeds = append(seeds, []string{"http://10.0.0.1/", "http://[fe80::1]/"}[:tt.addrs]...)
				opt := tinyOptions(t, w, memfs.New(*seedFlag), seeds...)
				opt.Network.AllowedAddr = func(a netip.Addr) bool { return a.IsLoopback() }
				opt.Network.Resolver = liar{w, func(host string) error {
					if strings.HasPrefix(host, "dead") {
						return errNoSuchName
					}
					return nil
				}}
				res := mustRun(t, t.Context(), opt)
				s := &res.Snapshot
				absent := s.Refused["no-such-host"]
				// For more names confirmation takes hours; the crawl ends before it.
				if tt.dead > outage.NamesEnough {
					absent += s.Deferred["robots-unavailable"]
				}
				if absent != int64(3*tt.dead) || s.Refused["forbidden-address"] != int64(tt.addrs) ||
					len(w.Pages("")) != 3*tt.good || s.Elapsed > 10*time.Minute {
					t.Errorf("%v: %d pages, refused %v, deferred %v", s.Elapsed, len(w.Pages("")),
						s.Refused, s.Deferred)
				}
			})
		})
	}
}

// TestNameThatGoes: a name that had an address and no longer exists is confirmed as gone only after hours.
// Until then its rules hold and its URLs wait. If the name comes back in time, the crawl fetches them.
func TestNameThatGoes(t *testing.T) {
	for _, tt := range []struct {
		name string
		gone time.Duration
		want int // pages of the host
	}{{"back in time", 2 * time.Hour, 100}, {"gone for good", 100 * time.Hour, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := &tinyWeb{Serve: pagesOnly, TTL: 10 * time.Minute}
				opt := tinyOptions(t, w, memfs.New(*seedFlag), append(urls("good", 3, 700), urls("gone", 1, 100)...)...)
				opt.Limits.Linger = 10 * time.Hour
				began := time.Now()
				opt.Network.Resolver = liar{w, func(host string) error {
					if d := time.Since(began); strings.HasPrefix(host, "gone") && d > 5*time.Minute && d < tt.gone {
						return errNoSuchName
					}
					return nil
				}}
				res := mustRun(t, t.Context(), opt)
				n := len(w.Pages("gone"))
				s := &res.Snapshot
				t.Logf("%v: %d pages, refused %v, deferred %v", s.Elapsed, n, s.Refused, s.Deferred)
				if tt.want > 0 && n != tt.want || n == 0 || int64(n)+s.Refused["no-such-host"] != 100 ||
					len(w.Pages("good")) != 2100 {
					t.Errorf("fetched %d pages of the host and %d of other hosts, refused %v", n,
						len(w.Pages("good")), s.Refused)
				}
				if got := len(w.Got("gone0.test", "/robots.txt")); got > 3 {
					t.Errorf("requested robots.txt %d times", got)
				}
			})
		})
	}
}

// TestRestartWithoutNames: a crawl restarted while no name exists knows no canary that could show that the
// name servers lie. It must not make new names wait for hours, since it ends before that.
func TestRestartWithoutNames(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: pagesOnly}
		fs := memfs.New(*seedFlag)
		opt := tinyOptions(t, w, fs, urls("a", 1, 20)...)
		opt.Politeness.HostDelay, opt.Disk.CheckpointEvery, opt.Limits.MaxTime = 2*time.Second,
			time.Second, 10*time.Second
		mustRun(t, t.Context(), opt)
		began := time.Now()
		opt.Network.Resolver = liar{w, func(string) error {
			if time.Since(began) < time.Minute {
				return errNoSuchName
			}
			return nil
		}}
		opt.Disk.FS, opt.Limits.MaxTime = fs.Crash(), 0
		opt.Admission.SeedLines = append(opt.Admission.SeedLines, urls("b", 6, 1)...)
		res := mustRun(t, t.Context(), opt)
		if n := res.Snapshot.Place(state.PlaceFetched); n != 26 {
			t.Errorf("%d pages of 26, refused %v, deferred %v", n, res.Snapshot.Refused, res.Snapshot.Deferred)
		}
	})
}

// TestKnownNamesOutliveARestart: a crawl that is killed still knows names that had addresses, and so
// confirms within minutes that others have none.
func TestKnownNamesOutliveARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: pagesOnly}
		fs := memfs.New(*seedFlag)
		opt := tinyOptions(t, w, fs, append(urls("a", 6, 2), urls("b", 1, 20)...)...)
		opt.Politeness.HostDelay, opt.Disk.CheckpointEvery, opt.Limits.MaxTime = 2*time.Second,
			time.Second, 10*time.Second
		opt.Network.Resolver = liar{w, func(host string) error {
			if strings.HasPrefix(host, "dead") {
				return errNoSuchName
			}
			return nil
		}}
		mustRun(t, t.Context(), opt)
		opt.Disk.FS, opt.Limits.MaxTime = fs.Crash(), 0
		opt.Admission.SeedLines = append(opt.Admission.SeedLines, urls("dead", 2, 1)...)
		res := mustRun(t, t.Context(), opt)
		s := &res.Snapshot
		if n := s.Place(state.PlaceFetched); n != 32 || s.Refused["no-such-host"] != 2 || s.Elapsed > 5*time.Minute {
			t.Errorf("%v: %d pages of 32, refused %v, deferred %v", s.Elapsed, n, s.Refused, s.Deferred)
		}
	})
}

// TestRulesBehindNoName: a robots.txt redirects to a host whose name is denied for half a minute, as nearly
// all names are. The crawl must request the rules again when the name servers tell the truth, and must not
// end before that.
func TestRulesBehindNoName(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(host, path string) answer {
			switch {
			case host == "moved.test" && path == "/robots.txt":
				return answer{302, "Location: http://rules.test/robots.txt\r\n", ""}
			case host == "good0.test" && path == "/1":
				return answer{200, "", "<a href='http://moved.test/'>m</a>"}
			}
			return pagesOnly(host, path)
		}}
		began := time.Now()
		opt := tinyOptions(t, w, memfs.New(*seedFlag), urls("good", 4, 4)...)
		opt.Politeness.HostDelay, opt.Limits.Linger = 3*time.Second, 5*time.Second
		opt.Network.Resolver = liar{w, func(host string) error {
			if d := time.Since(began); d > time.Second && d < 30*time.Second && host != "moved.test" {
				return errNoSuchName
			}
			return nil
		}}
		res := mustRun(t, t.Context(), opt)
		if n := len(w.Pages("moved.test")); n != 1 || len(res.Snapshot.Deferred) > 0 {
			t.Errorf("after %v: fetched %d pages under the rules, deferred %v, refused %v", res.Snapshot.Elapsed, n,
				res.Snapshot.Deferred, res.Snapshot.Refused)
		}
	})
}
