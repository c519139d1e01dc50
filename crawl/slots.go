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

// Slots is what the connection slots were used for, or what those without a use waited for: for each use the sum of slots
// over Samples, which are taken at regular times. So Use[SlotRead]/Samples is the mean number of exchanges for pages under way.
type Slots struct {
	Samples int64
	Use     [numSlotUses]int64
}

// SlotUse is what a connection slot does at one instant.
type SlotUse int

// The uses. Those from SlotLimit on are of slots that have nothing to do; they all wait for the same thing at one instant: the
// first of these that applies, in the order of the crawler from its end.
const (
	SlotRead     SlotUse = iota // an exchange is under way: the site, the network or a CPU for it
	SlotWork                    // the response is there, and parsed and stored: a CPU, or a write to disk
	SlotCPU                     // a URL in RAM is due, and nobody has come to take it yet
	SlotLimit                   // a URL in RAM is due, and --rate, --bandwidth or --connections doesn't allow more now
	SlotPolite                  // URLs are in RAM, of hosts and servers that rest
	SlotRoom                    // URLs are ready on disk, and are being admitted into RAM
	SlotDNS                     // robots.txt of hosts is asked for, most requests being at the lookup
	SlotRobots                  // most of these requests being at the exchange
	SlotDisk                    // URLs wait for a merge of URLseen, STAR or RobotsCache, or in BEAST
	SlotDeferred                // all URLs are due later
	SlotSpace                   // room on disk, or the network that is down
	SlotLinks                   // no URL is left but those under way
	numSlotUses
)

var slotUseNames = [numSlotUses]string{"exchange", "parse and store", "cpu", "limit", "politeness", "admission", "dns", "robots.txt", "disk",
	"deferred", "space or outage", "new links"}

func (u SlotUse) String() string { return slotUseNames[u] }

// SlotUses lists all uses in their order.
func SlotUses() (all []SlotUse) {
	for u := range numSlotUses {
		all = append(all, u)
	}
	return all
}

// slotMeter samples what the connection slots are used for. Goroutine "slots".
type slotMeter struct {
	*engine
	slotsMu sync.Mutex // guards slots
	slots   Slots

	dispatcher *dispatcher
	outages    *outages
	requests   *robotsRequests
	space      *space
}

// Sub returns what was sampled since an earlier state.
func (s Slots) Sub(earlier Slots) Slots {
	s.Samples -= earlier.Samples
	for u := range s.Use {
		s.Use[u] -= earlier.Use[u]
	}
	return s
}

// Mean is the mean number of slots with a use; 0 without samples.
func (s Slots) Mean(u SlotUse) float64 {
	if s.Samples == 0 {
		return 0
	}
	return float64(s.Use[u]) / float64(s.Samples)
}

// String lists the uses with their shares, the largest first.
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

// slotsPerSnapshot is how often slots are looked at between two snapshots, slotsLeast how far apart at least. A look takes
// about a microsecond and two locks that are held for less.
const (
	slotsPerSnapshot = 100
	slotsLeast       = 10 * time.Millisecond
)

// watchSlots samples what slots do, if there is anybody to be told.
func (m *slotMeter) watchSlots(ctx context.Context) error {
	if m.opt.Snapshot == nil {
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

// sampleSlots takes one sample. The numbers aren't of one instant: where they disagree, slots count as idle at most.
func (m *slotMeter) sampleSlots(now time.Time) {
	reading := m.workers.exchanges.load()
	taken := max(int64(len(m.workers.slots)), reading)
	if m.workers.waits.Load() {
		taken = max(reading, taken-1) // the one that dispatch holds while it waits for a grant
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

// slotsWait is what idle slots wait for.
func (m *slotMeter) slotsWait(now time.Time) SlotUse {
	if m.space.why() != "" || m.outages.slowed() {
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
	case at[state.PlaceRobotsCheck]+at[state.PlaceAwaitRobots]+at[state.PlaceBeast]+at[state.PlaceFailed]+at[state.PlaceStar]+at[state.PlaceUnstreamed] > 0:
		return SlotDisk
	case at[state.PlaceDeferred] > 0:
		return SlotDeferred
	}
	return SlotLinks
}

// somethingDue tells whether polite would grant something.
func (m *slotMeter) somethingDue(now time.Time) bool {
	queued, _ := m.polite.Len()
	at, ok := m.polite.NextReady(now)
	return queued > 0 && ok && !at.After(now)
}

// slotsSoFar is the sum of all samples.
func (m *slotMeter) slotsSoFar() Slots {
	m.slotsMu.Lock()
	defer m.slotsMu.Unlock()
	return m.slots
}
