package health

import (
	"testing"
	"time"
)

// TestTrouble: a host whose last answer was good is in trouble only for what lasts.
func TestTrouble(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	p := Defaults()
	after := func(events ...Event) *State {
		s := new(State)
		at := now.Add(-time.Duration(len(events)) * time.Second)
		for _, e := range events {
			s.Note(&p, e, at)
			at = at.Add(time.Second)
		}
		return s
	}
	page, failure := Event{Kind: Page, Status: 200}, Event{Kind: ServerError, Status: 500}
	for _, c := range []struct {
		name string
		s    *State
		want bool
	}{
		{"healthy", new(State), false},
		{"a page after a failure: its back-off of 10 s has not ended", after(failure, page), false},
		{"a failure", after(failure), true},
		{"a refusal", after(Event{Kind: Refusal, Status: 403, Place: RootPlace}), true},
		{"an answer after a refusal",
			after(Event{Kind: Refusal, Status: 403, Place: RootPlace}, Event{Kind: Answer, Status: 404}), true},
		{"a page after a failure with a long back-off",
			after(Event{Kind: TooFast, Status: 503, RetryAfter: time.Hour}, page), true},
		{"given up", &State{End: GivenUp, Last: Page}, true},
	} {
		if got := c.s.Trouble(now); got != c.want {
			t.Errorf("%s: %t, want %t (%s)", c.name, got, c.want, c.s)
		}
	}
	if s := after(failure, page); s.Clean() {
		t.Error("the state of the second case is clean: it tests nothing")
	}
}
