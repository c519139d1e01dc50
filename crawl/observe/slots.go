package observe

import (
	"context"
	"sync"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// SlotMeter samples the use of connection slots. Its goroutine is "slots".
type SlotMeter struct {
	run     *account.Run
	every   time.Duration // between two snapshots; negative: nothing shows the samples
	others  Others
	slotsMu sync.Mutex // guards slots
	slots   snapshot.Slots
}

// Connections are those of the crawl.
type Connections interface {
	// Exchanges returns the number of exchanges under way, for pages and robots.txt.
	Exchanges() int64
	// Slots returns the number of slots in use and of all. waits reports that one in use only waits for a grant.
	Slots() (taken, all int64, waits bool)
	// Allowed returns the number of connections that the limits allow now; HeldBy the limit that holds back
	// grants, or "".
	Allowed(now time.Time) int
	HeldBy(now time.Time) string
}

// Outages knows whether the network and the name servers work.
type Outages interface {
	Slowed() bool
	LookupsUnderWay() int64
}

// Others are the stages that a SlotMeter asks why connections are idle.
type Others struct {
	Connections Connections
	Outages     Outages
	Pausing     func() string            // why fetching pauses, "" if it does not
	Requests    func() int               // requests for robots.txt under way
	Target      func() int64             // of the stock, in URLs
	Heaps       func() *polite.Scheduler // of hosts; nil before the crawl is opened
}

// NewSlotMeter returns a meter that samples in proportion to the time between two snapshots. Wire must give
// it the other stages before it is used.
func NewSlotMeter(run *account.Run, every time.Duration) *SlotMeter {
	return &SlotMeter{run: run, every: every}
}

// Wire gives the meter the stages that it asks.
func (m *SlotMeter) Wire(others Others) { m.others = others }

// slotsPerSnapshot is the number of samples between two snapshots; slotsLeast is the least interval between
// samples. A sample takes about a microsecond and two locks, each held for less.
const (
	slotsPerSnapshot = 100
	slotsLeast       = 10 * time.Millisecond
)

// Run samples the use of slots if anything shows it.
func (m *SlotMeter) Run(ctx context.Context) error {
	if m.every < 0 {
		return nil
	}
	t := time.NewTicker(max(slotsLeast, m.every/slotsPerSnapshot))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		m.sampleSlots(time.Now())
	}
}

// sampleSlots takes one sample. The numbers are not read atomically; where they disagree, the number of
// idle slots may be too low.
func (m *SlotMeter) sampleSlots(now time.Time) {
	reading := m.others.Connections.Exchanges()
	taken, all, waits := m.others.Connections.Slots()
	if taken = max(taken, reading); waits {
		taken = max(reading, taken-1) // do not count the slot that dispatch holds while it waits for a grant
	}
	idle := all - taken
	closed := min(max(0, all-int64(m.others.Connections.Allowed(now))), max(0, idle))
	idle -= closed
	why := m.slotsWait(now)
	starved := why == snapshot.SlotDisk && idle > 0 && m.run.Accounts.In(state.PlaceBeast) > m.others.Target()
	m.slotsMu.Lock()
	defer m.slotsMu.Unlock()
	m.slots.Samples++
	if starved {
		m.slots.Starved++
	}
	m.slots.Use[snapshot.SlotRead] += reading
	m.slots.Use[snapshot.SlotWork] += taken - reading
	m.slots.Use[snapshot.SlotLimit] += closed
	m.slots.Use[why] += max(0, idle)
}

// slotsWait returns what idle slots wait for.
func (m *SlotMeter) slotsWait(now time.Time) snapshot.SlotUse {
	if m.others.Pausing() != "" || m.others.Outages.Slowed() {
		return snapshot.SlotSpace
	}
	if queued, _ := m.others.Heaps().Len(); queued > 0 {
		switch {
		case !m.SomethingDue(now):
			return snapshot.SlotPolite
		case m.others.Connections.HeldBy(now) != "":
			return snapshot.SlotLimit
		}
		return snapshot.SlotCPU
	}
	var at [state.NumPlaces]int64
	m.run.Accounts.Do(func(a *state.Accounts) {
		for p := range at {
			at[p] = a.Places[p].N
		}
	})
	switch {
	case at[state.PlaceReady] > 0:
		return snapshot.SlotRoom
	case at[state.PlaceAwaitRobots] > 0 && m.others.Requests() > 0:
		if m.others.Outages.LookupsUnderWay() >= int64(m.others.Requests()+1)/2 {
			return snapshot.SlotDNS
		}
		return snapshot.SlotRobots
	case at[state.PlaceRobotsCheck]+at[state.PlaceAwaitRobots]+at[state.PlaceBeast]+at[state.PlaceOverBudget]+
		at[state.PlaceStar]+at[state.PlaceUnstreamed] > 0:
		return snapshot.SlotDisk
	case at[state.PlaceDeferred] > 0:
		return snapshot.SlotDeferred
	}
	return snapshot.SlotLinks
}

// SomethingDue reports whether polite has a grant now.
func (m *SlotMeter) SomethingDue(now time.Time) bool {
	queued, _ := m.others.Heaps().Len()
	at, ok := m.others.Heaps().NextReady(now)
	return queued > 0 && ok && !at.After(now)
}

// SoFar returns the sum of all samples.
func (m *SlotMeter) SoFar() snapshot.Slots {
	m.slotsMu.Lock()
	defer m.slotsMu.Unlock()
	return m.slots
}
