package node

import (
	"testing"
	"time"

	"drumbeat/cluster"
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

// TestTerms: a node ends its term with each record that it sends or receives, and when it has work again.
func TestTerms(t *testing.T) {
	e := &crawlEnd{agreement: agreement{term: newTerm()}}
	last := e.term
	for i, c := range []struct {
		idle           bool
		received, sent int64
		ends           bool
	}{{true, 0, 0, false}, {true, 0, 0, false}, {false, 0, 0, true}, {false, 0, 0, false}, {true, 0, 0, false},
		{true, 1, 0, true}, {true, 1, 2, true}, {true, 1, 2, false}} {
		m := &cluster.Mark{Idle: c.idle, Taken: make([]cluster.Taken, 2), Out: []int64{0, c.sent}}
		m.Taken[1].Totals.Links.N = c.received
		e.put(m)
		if ends := m.Term != last; ends != c.ends {
			t.Errorf("mark %d: the term ends: %t", i, ends)
		}
		last = m.Term
	}
}
