package polite_test

import (
	"slices"
	"testing"
	"time"

	"drumbeat/polite"
)

// TestAgain: a grant estimates when its host will be visited again, if at all.
func TestAgain(t *testing.T) {
	s := polite.New(polite.Options{HostDelay: 2 * time.Second}, t0)
	admit(t, s, t0, item(1, 1, v4(1)))
	admit(t, s, t0, item(1, 1, v4(1)))
	g, _ := s.Next(t0)
	if g == nil || g.Again != 2*time.Second {
		t.Fatalf("grant %+v, want another visit after 2s", g)
	}
	s.Done(t0, g, polite.Result{})
	g, _ = s.Next(t0.Add(2 * time.Second))
	if g == nil || g.Again != 0 {
		t.Fatalf("grant %+v, want no further visit", g)
	}
}

// TestKeptServer: of a host's servers, the one with an open connection goes first unless another is ready
// earlier.
func TestKeptServer(t *testing.T) {
	for _, kept := range []time.Duration{15 * time.Second, 0} {
		s := polite.New(polite.Options{HostDelay: 2 * time.Second, ServerDelay: time.Second}, t0)
		for range 4 {
			admit(t, s, t0, item(1, 1, v4(1), v4(2), v4(3)))
		}
		now, same := t0, 0
		g, _ := s.Next(now)
		last := g.Addr
		for range 3 {
			s.Started(now, g)
			s.Done(now, g, polite.Result{Kept: kept})
			now = now.Add(2 * time.Second)
			if g, _ = s.Next(now); g == nil {
				t.Fatal("no grant after the delay")
			}
			if g.Addr == last {
				same++
			}
			last = g.Addr
		}
		if want := map[bool]int{true: 3, false: 0}[kept > 0]; same != want {
			t.Errorf("kept %v: %d of 3 visits at the address of the last, want %d", kept, same, want)
		}
	}
	s := polite.New(polite.Options{HostDelay: time.Second, ServerDelay: 2 * time.Second}, t0)
	admit(t, s, t0, item(1, 1, v4(1), v4(2)))
	admit(t, s, t0, item(1, 1, v4(1), v4(2)))
	g, _ := s.Next(t0)
	last := g.Addr
	s.Started(t0, g)
	s.Done(t0, g, polite.Result{Kept: time.Minute})
	if g, _ = s.Next(t0.Add(time.Second)); g == nil || g.Addr == last {
		t.Errorf("grant %+v: want the other server, whose turn is earlier", g)
	}
}

// TestIdleConnectionsCount: connections left open count for their network. At most half of its connections
// are left open, the total stays within the limit, and none remains after its time.
func TestIdleConnectionsCount(t *testing.T) {
	const limit, hosts, per = 6, 12, 3
	s := polite.New(polite.Options{HostDelay: 10 * time.Second, MaxPerHost: per, NetworkConnections: limit}, t0)
	for h := range hosts {
		for range per {
			admit(t, s, t0, item(h+1, h+1, v4(h+1)))
		}
	}
	type open struct {
		host  uint64
		until time.Time
	}
	var idle []open
	var flying []*polite.Grant
	drop := func(now time.Time, host uint64) {
		idle = slices.DeleteFunc(idle, func(o open) bool { return o.host == host || !o.until.After(now) })
	}
	granted, mostIdle, most := 0, 0, 0
	for now := t0; granted < hosts*per || len(flying) > 0; now = now.Add(250 * time.Millisecond) {
		if now.Sub(t0) > time.Hour {
			t.Fatalf("%d of %d granted in an hour", granted, hosts*per)
		}
		for g, _ := s.Next(now); g != nil; g, _ = s.Next(now) {
			granted++
			s.Started(now, g)
			drop(now, g.Item.Host)
			flying = append(flying, g)
			most = max(most, len(flying)+len(idle))
		}
		drop(now, 0)
		if len(flying) > 0 { // one ends each quarter of a second
			g := flying[0]
			flying = flying[1:]
			var r polite.Result
			if g.Again > 0 {
				r.Kept = g.Again + time.Second
				idle = append(idle, open{g.Item.Host, now.Add(r.Kept)})
			}
			s.Done(now, g, r)
			mostIdle = max(mostIdle, len(idle))
		}
	}
	if most != limit || mostIdle != limit/2 {
		t.Errorf("at most %d connections, %d of them idle; want %d and %d", most, mostIdle, limit, limit/2)
	}
}
