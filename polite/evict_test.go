package polite_test

import (
	"testing"
	"time"

	"drumbeat/polite"
)

// TestEvictLater: only items due later than requested are taken, the latest first, of whatever host.
func TestEvictLater(t *testing.T) {
	s := polite.New(paper(), t0)
	for range 10 {
		admit(t, s, t0, item(1, 1, v4(1)))
	}
	for range 4 {
		admit(t, s, t0, item(2, 2, v4(2)))
	}
	if out := s.EvictLater(t0, 6*time.Minute, 100); len(out) != 0 {
		t.Errorf("over 6m: got %d items, want none", len(out))
	}
	out := s.EvictLater(t0, 2*time.Minute-1, 100)
	if len(out) != 8 {
		t.Fatalf("over 2m: got %d items, want 7 of host 1 and 1 of host 2", len(out))
	}
	for i, it := range out {
		want := t0.Add(time.Duration(9-min(i, 6)) * 40 * time.Second)
		if i == 7 {
			want = t0.Add(2 * time.Minute)
		}
		if !it.Due.Equal(want) {
			t.Errorf("item %d of host %d: got due %v, want %v", i, it.Host, it.Due, want)
		}
	}
	if out := s.EvictLater(t0, -time.Hour, 100); len(out) != 4 {
		t.Errorf("over -1h: got %d items, want the 4 that are not due now", len(out))
	}
}

// TestEvictHost: a host in a long back-off gives up its pages; its robots item and other hosts stay.
func TestEvictHost(t *testing.T) {
	s := polite.New(paper(), t0)
	var pages []*polite.Item
	for i := range 5 {
		pages = append(pages, item(1, 1, v4(1)))
		admit(t, s, t0, pages[i])
		admit(t, s, t0, item(2, 1, v4(1)))
	}
	if out := s.EvictHost(t0, 1, time.Hour); len(out) != 0 {
		t.Errorf("before the rest: got %d items, want none", len(out))
	}
	if out := s.EvictHost(t0, 3, 0); out != nil {
		t.Errorf("unknown host: got %d items, want none", len(out))
	}
	done(t, s, t0, polite.Result{Backoff: time.Hour})
	robots := item(1, 1, v4(1))
	robots.Robots = true
	admit(t, s, t0, robots)
	out := s.EvictHost(t0, 1, 30*time.Minute)
	if len(out) != 4 {
		t.Fatalf("got %d items, want 4", len(out))
	}
	for i, it := range out {
		if want := t0.Add(time.Hour + time.Duration(4-i)*40*time.Second); it != pages[4-i] || !it.Due.Equal(want) {
			t.Errorf("item %d: got %p due %v, want %p due %v", i, it, it.Due, pages[4-i], want)
		}
	}
	if q, f := s.Len(); q != 6 || f != 0 {
		t.Errorf("Len: got %d, %d, want 6, 0", q, f)
	}
	if ds := s.Delays(t0); len(ds) != 1 {
		t.Errorf("Delays: got %v, want that of host 1", ds)
	}
}

// TestEvictBusyHost: the pages of a host in flight are due after its exchange and its delay.
func TestEvictBusyHost(t *testing.T) {
	s := polite.New(paper(), t0)
	for range 3 {
		admit(t, s, t0, item(1, 1, v4(1)))
	}
	s.Next(t0)
	out := s.EvictHost(t0, 1, 39*time.Second)
	if len(out) != 2 || !out[1].Due.Equal(t0.Add(40*time.Second)) {
		t.Errorf("got %d items, want 2, the first due in 40s", len(out))
	}
}
