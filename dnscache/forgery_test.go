package dnscache

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// TestLowerCasingServer: a server that does not repeat the case and has no TCP gets lower case from the
// eighth try on, for an hour.
func TestLowerCasingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mixed atomic.Int64
		r, _ := pipeResolver(t, Options{Family: Family4, MixCase: true, FailureTTL: NoFailureCache},
			func(req *dns.Msg, _ bool) *dns.Msg {
				name := req.Question[0].Name
				if req.Question[0].Name = strings.ToLower(name); req.Question[0].Name != name {
					mixed.Add(1)
				}
				return replyTo(req, 0, rr(t, "%s 300 IN A 192.0.2.1", req.Question[0].Name))
			}, nil)
		look := func(n int) string {
			return lookup(t, r, fmt.Sprintf("a-name-of-more-letters-than-luck-can-draw-alike-%d.test", n))
		}
		for n, want := range []string{"timeout", "timeout", "192.0.2.1", "192.0.2.1"} {
			if got := look(n); got != want {
				t.Errorf("lookup %d: got %s, want %s", n, got, want)
			}
		}
		if s := r.Stats(); mixed.Load() != maxWrongCase || s.WrongCase != maxWrongCase ||
			s.Lies != maxWrongCase || s.Flat != 1 {
			t.Errorf("%d questions in mixed case; %+v; want %d, and the server marked", mixed.Load(), s, maxWrongCase)
		}
		time.Sleep(flatFor)
		if look(5); mixed.Load() <= maxWrongCase {
			t.Error("an hour later the case wasn't mixed")
		}
	})
}

// TestForgedCase: any number of replies with the right port and id but the wrong case are dropped and do not
// switch off mixed case.
func TestForgedCase(t *testing.T) {
	const lookups, forged = 20, 20
	addr := rawServer(t, func(req *dns.Msg, _ []byte) (own, foreign [][]byte) {
		name := req.Question[0].Name
		lie := replyTo(req, 0, rr(t, "%s 300 IN A 198.51.100.66", name))
		lie.Question[0].Name = string(name[0]^0x20) + name[1:]
		for range forged {
			own = append(own, packed(t, lie))
		}
		lie.Question[0].Name = name
		return append(own, packed(t, replyTo(req, 0, rr(t, "%s 300 IN A 192.0.2.1", name)))), nil
	})
	r := newResolver(t, Options{Family: Family4, MixCase: true}, &fake{addr: addr})
	for i := range lookups {
		if got := lookup(t, r,
			fmt.Sprintf("a-name-of-more-letters-than-luck-can-draw-alike-%d.test", i)); got != "192.0.2.1" {
			t.Errorf("lookup %d: got %s", i, got)
		}
	}
	if s := r.Stats(); s.WrongCase < lookups || s.Flat != 0 {
		t.Errorf("%d replies in the wrong case, %d servers asked in lower case; want %d or more, 0",
			s.WrongCase, s.Flat, lookups)
	}
}

// sets returns the server's current and retired sockets.
func (r *Resolver) sets() (now, retired []*socket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(now, r.servers[0].sockets...), append(retired, r.servers[0].retired...)
}

// TestRenewal: after five minutes questions use new sockets. An answer to an earlier question still arrives
// on its old socket, which is then closed.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := pipeResolver(t, Options{Family: Family4, Sockets: 2}, func(req *dns.Msg, _ bool) *dns.Msg {
			time.Sleep(1500 * time.Millisecond)
			return replyTo(req, 0, rr(t, "%s 300 IN A 192.0.2.1", req.Question[0].Name))
		}, nil)
		first, _ := r.sets()
		time.Sleep(5*time.Minute - 200*time.Millisecond)
		begin := time.Now()
		if got := lookup(t, r, "a.test"); got != "192.0.2.1" || time.Since(begin) != 1500*time.Millisecond {
			t.Errorf("asked before the renewal: got %s after %v", got, time.Since(begin))
		}
		second, retired := r.sets()
		if len(retired) != 2 || second[0] == first[0] || second[1] == first[1] || len(second) != 2 {
			t.Errorf("%d sockets, %d retired; want 2 new ones, 2 retired", len(second), len(retired))
		}
		time.Sleep(sweepEvery)
		if _, retired := r.sets(); len(retired) > 0 {
			t.Errorf("%d retired sockets are still open", len(retired))
		}
		if _, err := first[0].conn.Write([]byte{0}); err == nil {
			t.Error("a retired socket can be written to")
		}
		time.Sleep(time.Hour)
		p.mu.Lock()
		opened := len(p.conns)
		p.mu.Unlock()
		if s := r.Stats(); s.Renewals != 13 || opened != 28 {
			t.Errorf("%d renewals, %d sockets in 65 minutes; want 13, 28", s.Renewals, opened)
		}
	})
}

// TestRenewalIsBounded: while an old socket waits for an answer, its server gets no third set of sockets.
func TestRenewalIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := pipeResolver(t, Options{Family: Family4, Timeouts: []time.Duration{time.Hour}}, nil, nil)
		go lookup(t, r, "silent.test")
		time.Sleep(50 * time.Minute)
		p.mu.Lock()
		opened := len(p.conns)
		p.mu.Unlock()
		if now, retired := r.sets(); len(now) != 4 || len(retired) != 1 || opened != 8 {
			t.Errorf("%d sockets, %d retired, %d opened; want 4, 1, 8", len(now), len(retired), opened)
		}
		time.Sleep(17 * time.Minute) // the question ends after an hour, followed by a renewal
		if _, retired := r.sets(); len(retired) != 0 || r.Stats().Renewals < 2 {
			t.Errorf("%d sockets are still retired after %d renewals", len(retired), r.Stats().Renewals)
		}
	})
}
