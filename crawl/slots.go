package crawl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"drumbeat/crawl/state"
)

// Slots tells what connection slots were used for, or what unused slots waited for. For each use it has the
// sum of slots over Samples, which are taken at regular times. So Use[SlotRead]/Samples is the mean number
// of exchanges under way.
type Slots struct {
	Samples int64
	Use     [numSlotUses]int64
}

// SlotUse is the use of a connection slot at one instant.
type SlotUse int

// The uses from SlotCPU on are of idle slots. At one instant all idle slots wait for the same thing
// (slotsWait), except those that the connection limit closes.
const (
	SlotRead     SlotUse = iota // an exchange is under way: the slot waits for the site, the network or a CPU
	SlotWork                    // the response is being parsed and stored: the slot waits for a CPU or a disk write
	SlotCPU                     // a URL in RAM is due, but dispatch has not taken it yet
	SlotLimit                   // a URL in RAM is due, but --rate, --bandwidth or --connections allows no more now
	SlotPolite                  // the URLs in RAM wait for the delays of their hosts and servers
	SlotRoom                    // URLs on disk are being admitted into RAM
	SlotDNS                     // robots.txt requests are under way, most at the lookup
	SlotRobots                  // robots.txt requests are under way, most at the exchange
	SlotDisk                    // URLs wait for a merge of URLseen, STAR or RobotsCache, or in BEAST
	SlotDeferred                // all URLs are deferred
	SlotSpace                   // fetching pauses for disk space or slows for an outage
	SlotLinks                   // no URLs are left except those under way
	numSlotUses
)

var slotUseNames = [numSlotUses]string{"exchange", "parse and store", "cpu", "limit", "politeness", "admission",
	"dns", "robots.txt", "disk", "deferred", "space or outage", "new links"}

func (u SlotUse) String() string { return slotUseNames[u] }

// SlotUses returns all uses in their order.
func SlotUses() (all []SlotUse) {
	for u := range numSlotUses {
		all = append(all, u)
	}
	return all
}

// slotMeter samples the use of connection slots. Its goroutine is "slots".
type slotMeter struct {
	*engine
	slotsMu sync.Mutex // guards slots
	slots   Slots

	dispatcher *dispatcher
	outages    *outages
	requests   *robotsRequests
	space      *space
}

// Sub returns the samples taken since an earlier state.
func (s Slots) Sub(earlier Slots) Slots {
	s.Samples -= earlier.Samples
	for u := range s.Use {
		s.Use[u] -= earlier.Use[u]
	}
	return s
}

// Mean returns the mean number of slots with a use, 0 without samples.
func (s Slots) Mean(u SlotUse) float64 {
	if s.Samples == 0 {
		return 0
	}
	return float64(s.Use[u]) / float64(s.Samples)
}

// String lists the uses with their shares in percent, largest first. It omits shares below 0.5 %.
func (s Slots) String() string {
	uses := SlotUses()
	slices.SortStableFunc(uses, func(a, b SlotUse) int { return cmp.Compare(s.Use[b], s.Use[a]) })
	all := int64(0)
	for _, n := range s.Use {
		all += n
	}
	var parts []string
	for _, u := range uses {
		if share := 100 * float64(s.Use[u]) / float64(max(1, all)); share >= 0.5 {
			parts = append(parts, fmt.Sprintf("%s %.0f %%", u, share))
		}
	}
	return strings.Join(parts, ", ")
}

// slotsPerSnapshot is the number of samples between two snapshots; slotsLeast is the least interval between
// samples. A sample takes about a microsecond and two locks, each held for less.
const (
	slotsPerSnapshot = 100
	slotsLeast       = 10 * time.Millisecond
)

// watchSlots samples the use of slots if Options.Snapshot is set.
func (m *slotMeter) watchSlots(ctx context.Context) error {
	if m.opt.Snapshot == nil && m.opt.Control == nil {
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
	m.slotsMu.Lock()
	defer m.slotsMu.Unlock()
	m.slots.Samples++
	m.slots.Use[SlotRead] += reading
	m.slots.Use[SlotWork] += taken - reading
	m.slots.Use[SlotLimit] += closed
	m.slots.Use[why] += max(0, idle)
}

// slotsWait returns what idle slots wait for.
func (m *slotMeter) slotsWait(now time.Time) SlotUse {
	if m.space.pausing() != "" || m.outages.slowed() {
		return SlotSpace
	}
	if queued, _ := m.polite.Len(); queued > 0 {
		switch {
		case !m.somethingDue(now):
			return SlotPolite
		case m.dispatcher.heldBy(now) != "":
			return SlotLimit
		}
		return SlotCPU
	}
	var at [state.NumPlaces]int64
	m.acct.mu.Lock()
	for p := range at {
		at[p] = m.acct.s.Places[p].N
	}
	m.acct.mu.Unlock()
	switch {
	case at[state.PlaceReady] > 0:
		return SlotRoom
	case at[state.PlaceAwaitRobots] > 0 && m.requests.underWay() > 0:
		if m.outages.lookupsUnderWay() >= int64(m.requests.underWay()+1)/2 {
			return SlotDNS
		}
		return SlotRobots
	case at[state.PlaceRobotsCheck]+at[state.PlaceAwaitRobots]+at[state.PlaceBeast]+at[state.PlaceFailed]+
		at[state.PlaceStar]+at[state.PlaceUnstreamed] > 0:
		return SlotDisk
	case at[state.PlaceDeferred] > 0:
		return SlotDeferred
	}
	return SlotLinks
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
