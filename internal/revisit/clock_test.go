package revisit

import (
	"testing"
	"time"
)

// TestClockWasAhead visits pages while the clock is ahead, by more than clockSlack or less, and again when it is
// right: the next visit is due after about its interval then, not when the clock has caught up.
func TestClockWasAhead(t *testing.T) {
	p := policy()
	now := time.Unix(1_700_000_000, 0)
	for _, ahead := range []time.Duration{time.Minute, clockSlack, 2 * clockSlack, 24 * time.Hour,
		365 * 24 * time.Hour} {
		for name, again := range map[string]func(h *History) time.Duration{
			"changed":   func(h *History) time.Duration { return visit(p, h, &Outcome{At: now, Body: 2}) },
			"unchanged": func(h *History) time.Duration { return visit(p, h, &Outcome{At: now, Same: true}) },
			"missing":   func(h *History) time.Duration { return visit(p, h, &Outcome{At: now, Missing: true}) },
			"later":     func(h *History) time.Duration { p.Later(h, now); return p.Default },
		} {
			var h History
			visit(p, &h, &Outcome{At: now.Add(ahead), Body: 1})
			want := again(&h)
			if got := h.Due().Sub(now); got > want+clockSlack+time.Second || got < want-time.Second {
				t.Errorf("ahead by %v, then %s: due in %v, want %v and at most %v more", ahead, name, got,
					want, clockSlack)
			}
		}
	}
}

// visit notes o and returns the time until the next visit.
func visit(p Policy, h *History, o *Outcome) time.Duration {
	p.Note(h, o)
	wait, _ := p.Next(h, 0)
	return wait
}
