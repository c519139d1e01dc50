package crawl

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/crawl/outage"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// silence is a crawl of hosts that answer for 20 s, and then none of them.
type silence struct {
	opt   Options
	fire  firewall
	web   *tinyWeb
	began time.Time
	quiet atomic.Bool
	also  []netip.Addr // banned with the hosts

	mu    sync.Mutex
	dials map[netip.Addr]int // since the silence began
}

// fireAlso makes another address fall silent with the hosts.
func (s *silence) fireAlso(a netip.Addr) { s.also = append(s.also, a) }

// requests returns the number of requests in the silence, and that of the host with the most.
func (s *silence) requests() (all, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for addr, n := range s.dials {
		if addr != ownAddr("reference.test") && !slices.Contains(s.also, addr) {
			all, most = all+n, max(most, n)
		}
	}
	return all, most
}

func newSilence(t *testing.T, hosts int) *silence {
	t.Helper()
	s := &silence{web: &tinyWeb{Serve: pagesOnly}, began: time.Now(), dials: map[netip.Addr]int{}}
	s.opt = tinyOptions(t, s.web, memfs.New(*seedFlag), urls("h", hosts, 30)...)
	s.opt.Politeness.HostDelay, s.opt.Politeness.HostDelayMin, s.opt.Output.Store = 2*time.Second, 2*time.Second, false
	counted := func(dial simweb.DialFunc) simweb.DialFunc {
		return func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
			if s.quiet.Load() {
				s.mu.Lock()
				s.dials[a.Addr()]++
				s.mu.Unlock()
			}
			return dial(ctx, a)
		}
	}
	client := (&firewall{}).client(t, counted(s.fire.before(s.web.Dial)), nil)
	s.opt.Network.Fetcher, s.opt.Network.AllowedAddr, s.opt.Network.Ports = client, client.AllowedAddr, client.Ports()
	var all []netip.Addr
	for i := range hosts {
		all = append(all, ownAddr(fmt.Sprintf("h%d.test", i)))
	}
	time.AfterFunc(20*time.Second, func() { s.quiet.Store(true); s.fire.ban(false, append(all, s.also...)...) })
	return s
}

// mostADay is how often a host may be asked in a day without an answer.
const mostADay = 40

// TestOutagePatience: a crawl all of whose servers drop its packets for ever knocks at each of them a few
// times a day, and ends when its patience does. What is queued stays so, and the same command fetches it once
// they answer.
func TestOutagePatience(t *testing.T) {
	for hosts, patience := range map[int]time.Duration{2: 3 * day, 12: day, 40: day} {
		if testing.Short() && hosts != 12 {
			continue
		}
		inBubble(t, func(t *testing.T) {
			s := newSilence(t, hosts)
			s.opt.Limits.OutagePatience = patience
			ctx, cancel := context.WithTimeout(t.Context(), 20*24*time.Hour)
			defer cancel()
			res := mustRun(t, ctx, s.opt)
			took := time.Since(s.began)
			all, most := s.requests()
			perDay := float64(most) / (took.Hours() / 24)
			t.Logf("%d hosts, patience %v: %q after %v, %d requests, at most %.0f a host and day, refused %v, "+
				"deferred %v", hosts, patience,
				res.Stop, took.Round(time.Minute), all, perDay, res.Snapshot.Refused, res.Snapshot.Deferred)
			if res.Stop != StopOutage || took < patience || took > patience+time.Hour ||
				len(res.Snapshot.Refused) > 0 {
				t.Errorf("%d hosts: stopped by %q after %v, want an outage of %v; refused %v", hosts, res.Stop,
					took, patience, res.Snapshot.Refused)
			}
			if perDay > mostADay {
				t.Errorf("%d hosts: %.0f requests a day to one of them, want at most %d", hosts, perDay, mostADay)
			}
			checkBalanced(t, s.opt.Disk.FS, s.opt.Disk.Dirs)
			s.fire.ban(false)
			s.opt.Limits.MaxTime = 0
			res = mustRun(t, ctx, s.opt)
			if pages := res.Snapshot.Count(state.CountPages); pages != int64(30*hosts) {
				t.Errorf("%d hosts: %d of %d pages after the silence, refused %v, deferred %v", hosts, pages,
					30*hosts, res.Snapshot.Refused, res.Snapshot.Deferred)
			}
		})
	}
}

// TestSilenceEnds: after an outage of minutes or hours all is fetched, nothing has been given up, and all
// hosts are asked again soon. During it, none is asked often.
func TestSilenceEnds(t *testing.T) {
	for _, hosts := range []int{2, 12, 40} {
		for _, lasts := range []time.Duration{3 * time.Minute, time.Hour, 5 * time.Hour} {
			if testing.Short() && (lasts != time.Hour || hosts == 12) {
				continue
			}
			inBubble(t, func(t *testing.T) { silenceEnds(t, hosts, lasts) })
		}
	}
}

func silenceEnds(t *testing.T, hosts int, lasts time.Duration) {
	s := newSilence(t, hosts)
	s.opt.Limits.OutagePatience = 24 * time.Hour
	var healed time.Time
	all, most := 0, 0
	counted := make(chan struct{})
	time.AfterFunc(20*time.Second+lasts, func() {
		defer close(counted)
		healed = time.Now()
		s.fire.ban(false)
		all, most = s.requests()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*24*time.Hour)
	defer cancel()
	res := mustRun(t, ctx, s.opt)
	<-counted
	back := map[string]bool{}
	var late time.Duration
	for _, r := range s.web.Pages("h") {
		if r.At.After(healed) && !back[r.Host] {
			back[r.Host], late = true, r.At.Sub(healed)
		}
	}
	t.Logf("%d hosts, an outage of %v: %d requests in it, at most %d a host, all back %v after it", hosts, lasts, all,
		most, late.Round(time.Second))
	if res.Stop != StopDone || res.Snapshot.Count(state.CountPages) != int64(30*hosts) ||
		len(res.Snapshot.Refused) > 0 {
		t.Errorf("%d hosts, an outage of %v: %q, %d of %d pages, refused %v", hosts, lasts, res.Stop,
			res.Snapshot.Count(state.CountPages), 30*hosts, res.Snapshot.Refused)
	}
	// Few hosts must not be asked often enough to notice it early: n hosts, each asked once in hostGapMost at
	// a time of its own, leave x of it without a request with the probability (1-x)^n.
	limit := min(lasts/outage.HostGapShare, outage.HostGapMost) + outage.TrickleMost
	if hosts == 40 {
		limit = min(lasts/outage.TrickleShare, outage.TrickleMost) +
			min(lasts/outage.HostGapShare, outage.HostGapMost)/3 + 3*time.Minute
	}
	if len(back) != hosts || late > limit {
		t.Errorf("%d hosts, an outage of %v: %d were back after %v, want all after %v", hosts, lasts,
			len(back), late, limit)
	}
	if most > mostADay {
		t.Errorf("%d hosts, an outage of %v: %d requests to one of them, want at most %d", hosts, lasts, most, mostADay)
	}
}
