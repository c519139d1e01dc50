package polite_test

import (
	"testing"
	"time"

	"drumbeat/polite"
)

// TestAdmitNow: an item may precede a backlog of others, but not its own delays.
func TestAdmitNow(t *testing.T) {
	s := polite.New(polite.Options{HostDelay: time.Second, HostDelayMin: time.Second, ServerDelay: ms(100),
		ServerDelayMin: ms(100)}, t0)
	for i := range 100 {
		admit(t, s, t0, item(i, i, v4(i)))
	}
	now := t0.Add(time.Minute)
	first := item(1000, 1000, v4(1000))
	g := s.AdmitNow(now, first)
	if g == nil || g.Item != first {
		t.Fatalf("got %v, want a grant of the item", g)
	}
	if s.AdmitNow(now, item(1000, 1000, v4(1000))) != nil {
		t.Error("granted while the host is busy")
	}
	s.Started(now, g)
	s.Done(now, g, polite.Result{})
	if s.AdmitNow(now.Add(ms(99)), item(1001, 1001, v4(1000))) != nil ||
		s.AdmitNow(now.Add(ms(999)), item(1000, 1000, v4(1000))) != nil {
		t.Error("granted within the delay of the host or of the server")
	}
	queued := item(5, 5, v4(5))
	queued.Robots = true
	if g := s.AdmitNow(now, queued); g == nil || g.Item != queued {
		t.Error("a robots item doesn't come before the page of its host")
	}
	if n, _ := s.Len(); n != 100 {
		t.Errorf("%d items are queued, want 100", n)
	}
}
