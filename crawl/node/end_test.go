package node

import (
	"testing"
	"time"
)

// TestAgreementPause: the pause before a node agrees again doubles while it takes its agreement back again
// and again, and is short once it has not for a while. Each agreement that is taken back ends a term.
// TestClusterGiveUpCuts has nodes that need the pause.
func TestAgreementPause(t *testing.T) {
	t.Parallel()
	a, now, terms := agreement{term: newTerm()}, time.Now(), map[uint64]bool{}
	next := func(after, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		terms[a.term] = true
		if a = a.withdrew(now); a.pause != want || !a.withdrawn.Equal(now) || a.terms != nil || terms[a.term] {
			t.Errorf("%+v, want a pause of %v", a, want)
		}
	}
	next(0, firstPause)
	for want := 2 * firstPause; want < mostPause; want *= 2 {
		next(a.pause+200*time.Millisecond, want)
	}
	next(a.pause+time.Second, mostPause)
	next(a.pause+time.Second, mostPause)
	next(4*mostPause, firstPause)
	next(firstPause, 2*firstPause)
}
