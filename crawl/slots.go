package crawl

import (
	"context"
	"sync"
	"time"

	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// slotMeter samples the use of connection slots. Its goroutine is "slots".
type slotMeter struct {
	*engine
	slotsMu sync.Mutex // guards slots
	slots   Slots

	dispatcher *dispatcher
	outages    *outages
	requests   *robotsRequests
	space      *space
	stock      *stockKeeper
}

// slotsPerSnapshot is the number of samples between two snapshots; slotsLeast is the least interval between
// samples. A sample takes about a microsecond and two locks, each held for less.
const (
	slotsPerSnapshot = 100
	slotsLeast       = 10 * time.Millisecond
)

// watchSlots samples the use of slots if anything shows it.
func (m *slotMeter) watchSlots(ctx context.Context) error {
	if !m.observed() {
		return nil
	}
	t := time.NewTicker(max(slotsLeast, m.opt.SnapshotEvery/slotsPerSnapshot))
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
func (m *slotMeter) sampleSlots(now time.Time) {
	reading := m.workers.exchanges.load()
	taken := max(int64(len(m.workers.slots)), reading)
	if m.workers.waits.Load() {
		taken = max(reading, taken-1) // do not count the slot that dispatch holds while it waits for a grant
	}
	idle := int64(cap(m.workers.slots)) - taken
	closed := min(max(0, int64(cap(m.workers.slots)-m.dispatcher.allowed(now))), max(0, idle))
	idle -= closed
	why := m.slotsWait(now)
	starved := why == snapshot.SlotDisk && idle > 0 && m.acct.in(state.PlaceBeast) > m.stock.aim().target
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
func (m *slotMeter) slotsWait(now time.Time) SlotUse {
	if m.space.pausing() != "" || m.outages.slowed() {
		return snapshot.SlotSpace
	}
	if queued, _ := m.polite.Len(); queued > 0 {
		switch {
		case !m.somethingDue(now):
			return snapshot.SlotPolite
		case m.dispatcher.heldBy(now) != "":
			return snapshot.SlotLimit
		}
		return snapshot.SlotCPU
	}
	var at [state.NumPlaces]int64
	m.acct.mu.Lock()
	for p := range at {
		at[p] = m.acct.s.Places[p].N
	}
	m.acct.mu.Unlock()
	switch {
	case at[state.PlaceReady] > 0:
		return snapshot.SlotRoom
	case at[state.PlaceAwaitRobots] > 0 && m.requests.underWay() > 0:
		if m.outages.lookupsUnderWay() >= int64(m.requests.underWay()+1)/2 {
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

// somethingDue reports whether polite has a grant now.
func (m *slotMeter) somethingDue(now time.Time) bool {
	queued, _ := m.polite.Len()
	at, ok := m.polite.NextReady(now)
	return queued > 0 && ok && !at.After(now)
}

// slotsSoFar returns the sum of all samples.
func (m *slotMeter) slotsSoFar() Slots {
	m.slotsMu.Lock()
	defer m.slotsMu.Unlock()
	return m.slots
}
