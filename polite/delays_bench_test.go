package polite_test

import (
	"testing"
	"time"

	"drumbeat/polite"
)

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
