package polite_test

import (
	"testing"
	"time"

	"drumbeat/polite"
)

// TestUse: Bare counts the hosts in their delay or in flight without queued items, wherever their items
// went. Peak outlasts times in which hosts were idle for lack of items.
func TestUse(t *testing.T) {
	now := t0
	s := polite.New(polite.Options{HostDelay: 40 * time.Second}, now)
	add := func(host int) { admit(t, s, now, item(host, host, v4(host))) }
	use := func(when string, resting, peak, hosts, bare int) {
		t.Helper()
		u := s.Use()
		if u.Resting != resting || u.Peak != peak || u.Hosts != hosts || u.Bare != bare {
			t.Errorf("%s: %+v, want %d resting, peak %d, %d hosts, %d bare", when, u, resting, peak, hosts, bare)
		}
	}
	visit := func(want int) (gs []*polite.Grant) {
		t.Helper()
		for g, wait := s.Next(now); g != nil || wait == 0; g, wait = s.Next(now) {
			if g != nil {
				gs = append(gs, g)
			}
		}
		if len(gs) != want {
			t.Fatalf("%d grants, want %d", len(gs), want)
		}
		return gs
	}
	done := func(gs []*polite.Grant) {
		for _, g := range gs {
			s.Done(now, g, polite.Result{})
		}
	}
	for _, h := range []int{1, 2, 3, 3} {
		add(h)
	}
	use("queued", 0, 0, 3, 0)
	gs := visit(3)
	use("visited", 3, 3, 1, 2)
	done(gs)
	use("at rest", 3, 3, 1, 2)
	add(2)
	use("another item", 3, 3, 2, 1)
	if got := s.EvictLater(now, 0, 9); len(got) != 2 {
		t.Fatalf("%d evicted", len(got))
	}
	use("evicted", 3, 3, 0, 3)
	add(1)
	now = now.Add(41 * time.Second)
	gs = visit(1)
	use("two are idle", 1, 3, 0, 1)
	done(gs)
	for range 8 {
		add(1)
		now = now.Add(41 * time.Second)
		done(visit(1))
	}
	use("long after", 1, 1, 0, 1)
}
