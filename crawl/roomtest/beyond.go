package roomtest

import (
	"sync"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Beyond stands for the stages to which a room hands URLs. It moves them in the accounts, and remembers them.
type Beyond struct {
	saved *state.Saved

	mu    sync.Mutex // guards the fields below
	moved []Moved
	links []string
	lines []string
}

// Moved is a URL that the room has handed on.
type Moved struct {
	URL      string
	From, To state.Place
	Why      state.Reason
	Due, At  time.Time // of a deferred URL; when it was handed on
}

// To returns the URLs that were handed to a place, in their order.
func (b *Beyond) To(place state.Place) (list []Moved) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.moved {
		if m.To == place {
			list = append(list, m)
		}
	}
	return list
}

func (b *Beyond) move(tx *account.Tx, rec *weburl.Record, from, to state.Place, why state.Reason,
	due time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moved = append(b.moved, Moved{string(rec.URL), from, to, why, due, time.Now()})
	tx.MoveFor(b.saved.Hasher.URLKey(rec.URL), from, to, why, state.Reason(rec.Reason))
	return nil
}

// CheckRobots takes a URL as RobotsCache does.
func (b *Beyond) CheckRobots(tx *account.Tx, _ []byte, rec *weburl.Record, from state.Place) error {
	return b.move(tx, rec, from, state.PlaceRobotsCheck, state.ReasonNone, time.Time{})
}

// Recheck takes a URL as STAR does.
func (b *Beyond) Recheck(tx *account.Tx, data []byte, from state.Place) error {
	var rec weburl.Record
	if err := rec.Decode(data); err != nil {
		return err
	}
	return b.move(tx, &rec, from, state.PlaceStar, state.ReasonNone, time.Time{})
}

// Crowded reports that STAR has room.
func (b *Beyond) Crowded() bool { return false }

// DeferURL takes a URL as the calendar does.
func (b *Beyond) DeferURL(tx *account.Tx, rec *weburl.Record, from state.Place, due time.Time,
	why state.Reason) error {
	return b.move(tx, rec, from, state.PlaceDeferred, why, due)
}

// Refuse ends a URL.
func (b *Beyond) Refuse(tx *account.Tx, rec *weburl.Record, from state.Place, why state.Reason) error {
	return b.move(tx, rec, from, state.PlaceRefused, why, time.Time{})
}

// Evicted defers URLs that have left RAM.
func (b *Beyond) Evicted(tx *account.Tx, items []*polite.Item, why state.Reason) error {
	for _, item := range items {
		var rec weburl.Record
		if err := rec.Decode(item.Rec); err != nil {
			return err
		}
		if err := b.move(tx, &rec, state.PlaceRAM, state.PlaceDeferred, why, item.Due); err != nil {
			return err
		}
	}
	return nil
}

// MetOrder knows no enqueued URL.
func (b *Beyond) MetOrder(*account.Tx, *weburl.Record, state.Place) (bool, error) { return false, nil }

// SendLinks takes the links of a batch as URLseen does.
func (b *Beyond) SendLinks(batch *admit.Batch, tx *account.Tx) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	tx.CountAll(&batch.Counts)
	for url := range batch.URLs {
		b.links = append(b.links, string(url))
	}
	return nil
}

// Sent returns the links that were sent to URLseen.
func (b *Beyond) Sent() []string { b.mu.Lock(); defer b.mu.Unlock(); return b.links }

// LogSeed takes a line of the log of seeds, LogRefused one of the crawl log.
func (b *Beyond) LogSeed(seed, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, "seed "+seed+": "+why)
}

// LogRefused takes a line of the crawl log.
func (b *Beyond) LogRefused(_ *account.Tx, rec *weburl.Record, why state.Reason) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, string(rec.URL)+": "+why.String())
	return nil
}

// LogOrder takes a line of the crawl log.
func (b *Beyond) LogOrder(_ *account.Tx, rec *weburl.Record, why string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, "order "+string(rec.URL)+": "+why)
	return nil
}

// Lines returns the lines of both logs.
func (b *Beyond) Lines() []string { b.mu.Lock(); defer b.mu.Unlock(); return b.lines }
