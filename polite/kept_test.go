package polite_test

import (
	"testing"
	"time"

	"drumbeat/polite"
)

// TestAgain: a grant says when its host will be visited next, if it will be.
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

// TestKeptServer: of the servers of a host, one with an open connection goes first, but only if no other's turn is
// earlier.
func TestKeptServer(t *testing.T) {
	for _, kept := range []bool{true, false} {
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
		if want := map[bool]int{true: 3, false: 0}[kept]; same != want {
			t.Errorf("kept %v: %d of 3 visits at the address of the last, want %d", kept, same, want)
		}
	}
	s := polite.New(polite.Options{HostDelay: time.Second, ServerDelay: 2 * time.Second}, t0)
	admit(t, s, t0, item(1, 1, v4(1), v4(2)))
	admit(t, s, t0, item(1, 1, v4(1), v4(2)))
	g, _ := s.Next(t0)
	last := g.Addr
	s.Started(t0, g)
	s.Done(t0, g, polite.Result{Kept: true})
	if g, _ = s.Next(t0.Add(time.Second)); g == nil || g.Addr == last {
		t.Errorf("grant %+v: want the other server, whose turn is earlier", g)
	}
}
