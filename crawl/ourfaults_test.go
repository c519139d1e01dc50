package crawl

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/fetch"
)

// faultyWeb is a web of a page with links to IPv6 literals and to /next, which links to late.test. fault
// returns the error of a connect to an address, or nil.
func faultyWeb(t *testing.T, literals int, fault func(netip.Addr) error) (*tinyWeb, Options, *atomic.Int64) {
	t.Helper()
	w := &tinyWeb{}
	var links strings.Builder
	for i := range literals {
		fmt.Fprintf(&links, "<a href='http://[2606:4700:%x::1]/'>x</a>", i+1)
	}
	w.Serve = func(host, path string) answer {
		switch {
		case path == "/robots.txt":
			return noRobots
		case host == "good.test" && path == "/":
			return answer{200, "", links.String() + "<a href='/next'>n</a>"}
		case host == "good.test" && path == "/next":
			return answer{200, "", "<a href='http://late.test/'>n</a>"}
		}
		return answer{200, "", "<html>x"}
	}
	faults := new(atomic.Int64)
	client := newClient(t, fetch.Options{
		Dial: func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
			if err := fault(a.Addr()); err != nil {
				faults.Add(1)
				return nil, &net.OpError{Op: "dial", Err: err}
			}
			return w.Dial(ctx, a)
		}})
	opt := tinyOptions(t, w, memfs.New(*seedFlag), "http://good.test/")
	opt.Network.Fetcher, opt.Network.AllowedAddr, opt.Network.Ports = client, client.AllowedAddr, client.Ports()
	opt.Network.Connections = 32 // and 64 robots requests in flight
	return w, opt, faults
}

// TestLastingFaultsOfOurs: links to addresses that this machine can't reach, for lack of IPv6 or another
// reason, must not keep the crawl from ending or other hosts from being fetched.
func TestLastingFaultsOfOurs(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EADDRNOTAVAIL, syscall.ENETUNREACH, syscall.EMFILE, syscall.ENOBUFS} {
		for _, literals := range []int{1, 100} {
			t.Run(fmt.Sprintf("%v/%d", errno, literals), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					w, opt, faults := faultyWeb(t, literals, func(a netip.Addr) error {
						if a.Is6() {
							return errno
						}
						return nil
					})
					res := runFor(t, 12*time.Hour, opt)
					if res.Stop != StopDone || len(w.Pages("late.test")) != 1 {
						t.Errorf("stopped by %q after %v, fetched late.test %d times", res.Stop, res.Snapshot.Elapsed,
							len(w.Pages("late.test")))
					}
					if n := faults.Load(); n < int64(literals) || n > 40*int64(literals) {
						t.Errorf("%d attempts to connect to %d addresses", n, literals)
					}
					if n := res.Snapshot.Deferred["robots-unavailable"]; n != int64(literals) {
						t.Errorf("refused %v, deferred %v, want %d URLs without robots.txt", res.Snapshot.Refused,
							res.Snapshot.Deferred, literals)
					}
					t.Logf("%v, %d attempts", res.Snapshot.Elapsed, faults.Load())
				})
			})
		}
	}
}

// TestFaultOfOursThatEnds: while the machine can't connect to any address, no failure may count; afterwards
// the crawl must fetch all pages.
func TestFaultOfOursThatEnds(t *testing.T) {
	notShort(t)
	t.Parallel()
	for _, errno := range []syscall.Errno{syscall.EADDRNOTAVAIL, syscall.EMFILE, syscall.ENOBUFS} {
		t.Run(errno.Error(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				began := time.Now()
				w, opt, _ := faultyWeb(t, 0, func(netip.Addr) error {
					if d := time.Since(began); d > time.Minute && d < 2*time.Hour {
						return errno
					}
					return nil
				})
				opt.Admission.SeedLines = append(urls("one", 30, 1), urls("many", 6, 40)...)
				res := runFor(t, 48*time.Hour, opt)
				if n := len(w.Pages("")); n != 270 || res.Stop != StopDone || len(res.Snapshot.Refused) > 0 {
					t.Errorf("stopped by %q after %v, fetched %d of 270 pages, refused %v, deferred %v", res.Stop,
						res.Snapshot.Elapsed, n, res.Snapshot.Refused, res.Snapshot.Deferred)
				}
			})
		})
	}
}

// TestRulesWithoutDescriptors: a robots.txt request that finds no free descriptor for some seconds, while
// other requests use existing connections, must not count as the site's failure. The crawl must fetch the
// site's pages before it ends.
func TestRulesWithoutDescriptors(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		began := time.Now()
		w, opt, _ := faultyWeb(t, 0, func(a netip.Addr) error {
			if a == ownAddr("new0.test") && time.Since(began) < 12*time.Second {
				return syscall.EMFILE
			}
			return nil
		})
		opt.Admission.SeedLines = append(urls("good", 4, 10), urls("new", 1, 1)...)
		opt.Politeness.HostDelay, opt.Limits.Linger = 2*time.Second, 5*time.Second
		opt.Network.Resolver = liar{w, func(host string) error {
			if host == "new0.test" { // lets other answers arrive during this lookup
				time.Sleep(2500 * time.Millisecond)
			}
			return nil
		}}
		res := mustRun(t, t.Context(), opt)
		if n := len(w.Pages("new0.test")); n != 1 || len(res.Snapshot.Deferred) > 0 {
			t.Errorf("after %v: %d pages, deferred %v, refused %v", res.Snapshot.Elapsed, n, res.Snapshot.Deferred,
				res.Snapshot.Refused)
		}
	})
}
