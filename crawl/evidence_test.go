package crawl

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"drumbeat/crawl/outage"
	"drumbeat/internal/health"
	"drumbeat/state"
)

// answering is a resolver whose answers come from a name server with an address.
type answering struct {
	*tinyWeb
	server netip.Addr
}

func (r answering) LookupHost(ctx context.Context, host, pld string) (Lookup, error) {
	got, err := r.tinyWeb.LookupHost(ctx, host, pld)
	got.Server = r.server
	return got, err
}

// endOfBan runs a crawl whose hosts all begin to drop its packets for ever, and checks that it ends by back-off, not by
// its patience, and that no host is asked often.
func endOfBan(t *testing.T, s *silence, hosts, limit int, within time.Duration) {
	t.Helper()
	s.opt.Limits.OutagePatience = 20 * 24 * time.Hour
	usual := health.Defaults()
	s.opt.Health.HostFailures, s.opt.Health.HostRests = usual.Failures, usual.Rests
	ctx, cancel := context.WithTimeout(t.Context(), 30*24*time.Hour)
	defer cancel()
	res := mustRun(t, ctx, s.opt)
	took := time.Since(s.began)
	all, most := s.requests()
	t.Logf("%d hosts: %q after %v, %d requests, at most %d to one host; refused %v, deferred %v", hosts, res.Stop,
		took.Round(time.Minute), all, most, res.Snapshot.Refused, res.Snapshot.Deferred)
	if res.Stop != StopDone || took > within {
		t.Errorf("%d hosts: stopped by %q after %v, want the end within %v", hosts, res.Stop, took, within)
	}
	if days := max(1, took.Hours()/24); float64(most) > float64(limit)*days {
		t.Errorf("%d hosts: %d requests to one host in %.1f days, want at most %d a day", hosts, most, days, limit)
	}
	if len(res.Snapshot.Refused)+len(res.Snapshot.Deferred) == 0 {
		t.Errorf("%d hosts: nothing is refused or deferred", hosts)
	}
	checkBalanced(t, s.opt.Disk.FS, s.opt.Disk.Dirs)
}

// TestReference: if a reference answers while all servers drop our packets, they ban us: the hosts back off, and the
// crawl ends. The reference is asked at most once a minute.
func TestReference(t *testing.T) {
	for _, hosts := range []int{1, 2, 12, 40} {
		if testing.Short() && hosts != 2 && hosts != 40 {
			continue
		}
		inBubble(t, func(t *testing.T) {
			s := newSilence(t, hosts)
			s.opt.Limits.References = []string{"http://dead.reference.test/robots.txt", "http://reference.test/up"}
			s.fireAlso(ownAddr("dead.reference.test"))
			endOfBan(t, s, hosts, mostADay, 4*24*time.Hour)
			asked := s.web.Got("reference.test", "/up")
			t.Logf("%d hosts: the reference was asked %d times", hosts, len(asked))
			if len(asked) == 0 {
				t.Errorf("%d hosts: the reference was not asked", hosts)
			}
			for i := 1; i < len(asked); i++ {
				if gap := asked[i].At.Sub(asked[i-1].At); gap < outage.CanaryGoodFor/2 {
					t.Errorf("%d hosts: the reference was asked %v after the last time", hosts, gap)
				}
			}
		})
	}
}

// TestReferenceFails: a reference that does not answer either proves nothing, and is asked as rarely as others.
func TestReferenceFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSilence(t, 12)
		s.opt.Limits.References, s.opt.Limits.OutagePatience = []string{"http://reference.test/up"}, 24*time.Hour
		s.fireAlso(ownAddr("reference.test"))
		res := mustRun(t, t.Context(), s.opt)
		s.mu.Lock()
		n := s.dials[ownAddr("reference.test")]
		s.mu.Unlock()
		if res.Stop != StopOutage || n == 0 || n > 300 || len(res.Snapshot.Refused) > 0 {
			t.Errorf("stopped by %q, the reference was asked %d times, refused %v", res.Stop, n, res.Snapshot.Refused)
		}
	})
}

// TestNameServersAnswer: answers of public name servers show that the network works, those of forwarders do
// not. After an outage of 5 hours in which they answered nothing has been given up.
func TestNameServersAnswer(t *testing.T) {
	public, private := netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("127.0.0.53")
	for _, hosts := range []int{2, 12, 40} {
		if testing.Short() && hosts != 2 {
			continue
		}
		inBubble(t, func(t *testing.T) {
			s := newSilence(t, hosts)
			s.opt.Network.Resolver = answering{s.web, public}
			// Some 20 requests in the first 6 hours, and then two for each of the ten failures before the first long
			// back-off: the second one confirms it.
			endOfBan(t, s, hosts, 2*mostADay, 6*24*time.Hour)
		})
		inBubble(t, func(t *testing.T) {
			s := newSilence(t, hosts)
			s.opt.Network.Resolver, s.opt.Limits.OutagePatience = answering{s.web, private}, 24*time.Hour
			if res := mustRun(t, t.Context(), s.opt); res.Stop != StopOutage {
				t.Errorf("%d hosts: stopped by %q although only a forwarder answered", hosts, res.Stop)
			}
		})
		inBubble(t, func(t *testing.T) {
			s := newSilence(t, hosts)
			s.opt.Network.Resolver, s.opt.Limits.OutagePatience = answering{s.web, public}, 24*time.Hour
			time.AfterFunc(5*time.Hour, func() { s.fire.ban(false) })
			res := mustRun(t, t.Context(), s.opt)
			if n := res.Snapshot.Count(state.CountPages); res.Stop != StopDone || n != int64(30*hosts) ||
				len(res.Snapshot.Refused) > 0 {
				t.Errorf("%d hosts: %q, %d of %d pages after the outage, refused %v, deferred %v", hosts, res.Stop, n,
					30*hosts, res.Snapshot.Refused, res.Snapshot.Deferred)
			}
			t.Logf("%d hosts: healed after 5 h: %v", hosts, time.Since(s.began).Round(time.Minute))
		})
	}
}
