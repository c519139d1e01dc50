package health

import (
	"testing"
	"time"
)

// TestHostTableIsBounded: the host whose last event is oldest gives way, and what RobotsCache knows is taken up again.
func TestHostTableIsBounded(t *testing.T) {
	p := Defaults()
	now := time.Unix(1_800_000_000, 0).UTC()
	var table Table
	failure := Event{Kind: TooFast, Status: 503}
	for key := range uint64(MaxTroubled + 100) {
		table.Note(&p, key, nil, failure, now)
		table.Note(&p, 0, nil, failure, now) // 0 stays the newest
	}
	if n := len(table.hosts); n != MaxTroubled {
		t.Errorf("%d hosts, want %d", n, MaxTroubled)
	}
	if s := table.Get(0, nil, now); s.Failures == 0 {
		t.Error("the newest host was forgotten")
	}
	if s := table.Get(1, nil, now); !s.Clean() {
		t.Errorf("the oldest host is known: %v", s)
	}
	onDisk := State{Failures: 9, Last: TooFast, At: now}
	if table.Note(&p, 1, &onDisk, failure, now.Add(time.Minute)); table.Get(1, nil, now).Failures != 10 {
		t.Errorf("%v, want 10 failures", table.Get(1, nil, now))
	}
	if _, tell := table.Note(&p, 5_000_000, nil, Event{Kind: Page}, now); tell || len(table.hosts) != MaxTroubled {
		t.Error("a page of a host that is well was noted")
	}
	// A success of a host that isn't well is told; it stays in the table as one that is well, with what was later than disk.
	ill := State{Failures: 1, Level: 1, Last: TooFast, At: now}
	if _, tell := table.Note(&p, 6_000_000, &ill, Event{Kind: Page}, now.Add(time.Second)); !tell {
		t.Error("a success of a host that isn't well was not noted")
	}
	if s := table.Get(6_000_000, &ill, now); !s.Clean() {
		t.Errorf("an older state from disk counts: %v", s)
	}
}

// TestHostTableOfAClockThatWasAhead: what RobotsCache still knows from a clock that was ahead isn't later than what was noted since.
func TestHostTableOfAClockThatWasAhead(t *testing.T) {
	p := Defaults()
	now := time.Unix(1_800_000_000, 0).UTC()
	onDisk := State{Failures: 9, Last: TooFast, At: now.Add(year), Until: now.Add(year + time.Hour)}
	var table Table
	if s := table.Get(1, &onDisk, now); !s.Until.Equal(now.Add(time.Hour)) {
		t.Errorf("rests until %v, want an hour from now", s.Until)
	}
	table.Note(&p, 1, nil, Event{Kind: TooFast, Status: 503}, now)
	if s := table.Get(1, &onDisk, now.Add(time.Second)); s.Failures != 1 {
		t.Errorf("%d failures, want the one noted since", s.Failures)
	}
	table.Note(&p, 2, nil, Event{Kind: TooFast, RetryAfter: 5 * time.Hour}, now.Add(year))
	if s := table.Get(2, nil, now); !s.Until.Equal(now.Add(5 * time.Hour)) {
		t.Errorf("noted in RAM: rests until %v, want 5 hours from now", s.Until)
	}
}

const year = 365 * 24 * time.Hour
