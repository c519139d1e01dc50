package polite_test

import (
	"testing"
	"time"

	"drumbeat/polite"
)

func TestSoon(t *testing.T) {
	s := polite.New(paper(), t0)
	soon := func(name string, now time.Time, within time.Duration, want int) {
		t.Helper()
		if got := s.Soon(now, within); got != want {
			t.Errorf("%s: got %d hosts, want %d", name, got, want)
		}
	}
	soon("empty", t0, time.Hour, 0)
	for i := range 10 {
		for range 3 {
			admit(t, s, t0, item(i, i, v4(i)))
		}
		admit(t, s, t0, item(100+i, 100, v4(100)))
	}
	soon("all due, nobody in line yet", t0, 0, 20)
	var grants []*polite.Grant
	for g, _ := s.Next(t0); g != nil; g, _ = s.Next(t0) {
		grants = append(grants, g)
	}
	soon("busy, and a server that is held", t0, 39*time.Second, 9)
	soon("busy, after their delay", t0, 40*time.Second, 19)
	soon("held server, its first turn", t0, time.Second, 1)
	for _, g := range grants {
		s.Started(t0, g)
	}
	soon("nothing at once", t0, 0, 0)
	if g, _ := s.Next(t0.Add(time.Second)); g == nil {
		t.Fatal("got nothing, want the second host of the server")
	} else {
		grants = append(grants, g)
	}
	soon("held server, an earlier request under way", t0.Add(time.Second), 2*time.Second, 2)
	s.Started(t0.Add(time.Second), grants[11])
	soon("three turns of one server", t0.Add(time.Second), 3*time.Second, 3)
	for _, g := range grants {
		s.Done(t0, g, polite.Result{})
	}
	soon("in their delay", t0, 40*time.Second-1, 8)
	soon("delay over", t0, 40*time.Second, 18)
	soon("later", t0.Add(30*time.Second), 10*time.Second, 18)
	for i := range 10 {
		s.EvictHost(t0, uint64(i), 0)
	}
	soon("hosts without items", t0, time.Hour, 8)
}

// Without delays, all hosts with items count, also those in flight.
func TestSoonNoDelay(t *testing.T) {
	s := polite.New(polite.Options{}, t0)
	for i := range 10 {
		admit(t, s, t0, item(i/2, 1, v4(1)))
	}
	g, _ := s.Next(t0)
	s.Started(t0, g)
	if got := s.Soon(t0, ms(1)); got != 5 {
		t.Errorf("got %d hosts, want 5", got)
	}
}

func BenchmarkSoon(b *testing.B) {
	const n = 100_000
	s := polite.New(paper(), t0)
	for i := range n {
		s.Admit(t0, item(i, i/4, v4(i/8)))
	}
	for range n / 20 {
		s.Next(t0)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Soon(t0, time.Second)
	}
}

func BenchmarkDelays(b *testing.B) {
	const n = 100_000
	s := polite.New(polite.Options{MaxHosts: 10 * n}, t0)
	for i := range n {
		s.Admit(t0, item(i, i/4, v4(i/8)))
		g, _ := s.Next(t0)
		s.Done(t0, g, polite.Result{Backoff: time.Hour})
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Delays(t0)
	}
}
