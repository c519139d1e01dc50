package health

import (
	"testing"
	"time"
)

// TestHostTableIsBounded: a full table drops the host with the oldest event, and takes its state from
// RobotsCache when it returns.
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
		t.Errorf("got %d hosts, want %d", n, MaxTroubled)
	}
	if s := table.Get(0, nil, now); s.Failures == 0 {
		t.Error("the newest host was forgotten")
	}
	if s := table.Get(1, nil, now); !s.Clean() {
		t.Errorf("the oldest host is still in the table: %v", s)
	}
	onDisk := State{Failures: 9, Last: TooFast, At: now}
	if table.Note(&p, 1, &onDisk, failure, now.Add(time.Minute)); table.Get(1, nil, now).Failures != 10 {
		t.Errorf("got %v, want 10 failures", table.Get(1, nil, now))
	}
	if _, tell := table.Note(&p, 5_000_000, nil, Event{Kind: Page}, now); tell || len(table.hosts) != MaxTroubled {
		t.Error("a page of a healthy host was stored")
	}
	// A success of a host in back-off is stored. The host stays in the table as healthy, so that an older
	// state on disk does not count.
	ill := State{Failures: 1, Level: 1, Last: TooFast, At: now}
	if _, tell := table.Note(&p, 6_000_000, &ill, Event{Kind: Page}, now.Add(time.Second)); !tell {
		t.Error("a success of a host in back-off was not stored")
	}
	if s := table.Get(6_000_000, &ill, now); !s.Clean() {
		t.Errorf("an older state from disk was used: %v", s)
	}
}

// TestHostTableOfAClockThatWasAhead: a state of RobotsCache from a clock that was ahead does not replace a
// newer one in the table.
func TestHostTableOfAClockThatWasAhead(t *testing.T) {
	p := Defaults()
	now := time.Unix(1_800_000_000, 0).UTC()
	onDisk := State{Failures: 9, Last: TooFast, At: now.Add(year), Until: now.Add(year + time.Hour)}
	var table Table
	if s := table.Get(1, &onDisk, now); !s.Until.Equal(now.Add(time.Hour)) {
		t.Errorf("back-off until %v, want an hour from now", s.Until)
	}
	table.Note(&p, 1, nil, Event{Kind: TooFast, Status: 503}, now)
	if s := table.Get(1, &onDisk, now.Add(time.Second)); s.Failures != 1 {
		t.Errorf("got %d failures, want the one since", s.Failures)
	}
	table.Note(&p, 2, nil, Event{Kind: TooFast, RetryAfter: 5 * time.Hour}, now.Add(year))
	if s := table.Get(2, nil, now); !s.Until.Equal(now.Add(5 * time.Hour)) {
		t.Errorf("in RAM: back-off until %v, want 5 hours from now", s.Until)
	}
}

const year = 365 * 24 * time.Hour
