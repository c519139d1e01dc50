package crawl

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
)

// silence is a crawl of hosts that answer for 20 s, and then none of them.
type silence struct {
	opt   Options
	fire  firewall
	web   *tinyWeb
	dials atomic.Int64 // since the silence began
	began time.Time
	quiet atomic.Bool
}

func newSilence(t *testing.T, hosts int) *silence {
	t.Helper()
	s := &silence{web: &tinyWeb{serve: pagesOnly}, began: time.Now()}
	s.opt = s.web.options(t, memfs.New(*seedFlag), urls("h", hosts, 30)...)
	s.opt.HostDelay, s.opt.HostDelayMin, s.opt.Store = 2*time.Second, 2*time.Second, false
	counted := func(dial simweb.DialFunc) simweb.DialFunc {
		return func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
			if s.quiet.Load() {
				s.dials.Add(1)
			}
			return dial(ctx, a)
		}
	}
	client := (&firewall{}).client(t, counted(s.fire.before(s.web.dial)), nil)
	s.opt.Fetcher, s.opt.AllowedAddr, s.opt.Ports = client, client.AllowedAddr, client.Ports()
	var all []netip.Addr
	for i := range hosts {
		all = append(all, ownAddr(fmt.Sprintf("h%d.test", i)))
	}
	time.AfterFunc(20*time.Second, func() { s.quiet.Store(true); s.fire.ban(false, all...) })
	return s
}

// TestOutagePatience: a crawl all of whose servers drop its packets for ever knocks at each of them a few times a day, and
// ends when its patience does. What is queued stays so, and the same command fetches it once they answer.
func TestOutagePatience(t *testing.T) {
	for hosts, most := range map[int]float64{40: 30, 12: 200} { // with 12 the crawl is blind: too few servers are known
		for _, patience := range []time.Duration{24 * time.Hour, 5 * 24 * time.Hour} {
			if testing.Short() && (hosts == 12 || patience > 24*time.Hour) {
				continue
			}
			inBubble(t, func(t *testing.T) {
				s := newSilence(t, hosts)
				s.opt.OutagePatience = patience
				ctx, cancel := context.WithTimeout(t.Context(), 20*24*time.Hour)
				defer cancel()
				res := mustRun(t, ctx, s.opt)
				took := time.Since(s.began)
				perDay := float64(s.dials.Load()) / float64(hosts) / (took.Hours() / 24)
				t.Logf("%d hosts, patience %v: %q after %v, %d requests, %.0f a host and day, refused %v, deferred %v", hosts, patience, res.Stop,
					took.Round(time.Minute), s.dials.Load(), perDay, res.Snapshot.Refused, res.Snapshot.Deferred)
				if res.Stop != StopOutage && res.Stop != StopDone {
					t.Errorf("%d hosts: stopped by %q after %v", hosts, res.Stop, took)
				}
				if res.Stop == StopOutage && (took < patience || took > patience+time.Hour) {
					t.Errorf("%d hosts: it ended after %v, want %v", hosts, took, patience)
				}
				if perDay > most {
					t.Errorf("%d hosts: %.0f requests a host and day, want at most %.0f", hosts, perDay, most)
				}
				checkBalanced(t, s.opt.FS, s.opt.Dirs)
				if res.Stop != StopOutage || len(res.Snapshot.Refused) > 0 {
					return
				}
				s.fire.ban(false)
				s.opt.MaxTime = 0
				res = mustRun(t, ctx, s.opt)
				pages := res.Snapshot.Count(state.CountPages)
				if hosts == 12 { // some failures counted, and the end waits for no host whose robots.txt is unreachable
					pages += res.Snapshot.Deferred[state.ReasonRobotsUnavailable.String()]
				}
				if pages != int64(30*hosts) {
					t.Errorf("%d hosts: %d of %d pages after the silence, refused %v, deferred %v", hosts, pages, 30*hosts, res.Snapshot.Refused,
						res.Snapshot.Deferred)
				}
			})
		}
	}
}

// TestSilenceEnds: after an outage of minutes or hours all is fetched, nothing has been given up, and fetching is at its
// usual rate within a sixteenth of the outage, at most 10 minutes, and the time of four probes.
func TestSilenceEnds(t *testing.T) {
	for _, lasts := range []time.Duration{3 * time.Minute, time.Hour, 5 * time.Hour} {
		if testing.Short() && lasts != time.Hour {
			continue
		}
		inBubble(t, func(t *testing.T) {
			const hosts = 40
			s := newSilence(t, hosts)
			s.opt.OutagePatience = 24 * time.Hour
			var healed time.Time
			time.AfterFunc(20*time.Second+lasts, func() { healed = time.Now(); s.fire.ban(false) })
			ctx, cancel := context.WithTimeout(t.Context(), 10*24*time.Hour)
			defer cancel()
			res := mustRun(t, ctx, s.opt)
			first := 0
			var again time.Time
			for _, r := range s.web.pages("h") {
				if r.at.After(healed) && !healed.IsZero() {
					if first++; first == hosts {
						again = r.at
					}
				}
			}
			late := again.Sub(healed)
			t.Logf("an outage of %v: %d requests in it, 40 pages %v after it", lasts, s.dials.Load(), late.Round(time.Second))
			if res.Stop != StopDone || res.Snapshot.Count(state.CountPages) != 30*hosts || len(res.Snapshot.Refused) > 0 {
				t.Errorf("an outage of %v: %q, %d of %d pages, refused %v", lasts, res.Stop, res.Snapshot.Count(state.CountPages), 30*hosts, res.Snapshot.Refused)
			}
			if most := min(lasts/trickleShare, trickleMost) + 3*time.Minute; late > most {
				t.Errorf("an outage of %v: fetching was back after %v, want %v", lasts, late, most)
			}
		})
	}
}
