package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Slots counts the uses of connection slots, and the waits of unused slots. Use holds the sum of slots over
// Samples, which are taken at regular times. So Use[SlotRead]/Samples is the mean number of exchanges in
// progress.
type Slots struct {
	Samples int64
	Use     [NumSlotUses]int64
	// Starved is the number of samples without any URL in RAM that could be fetched, now or later, while
	// BEAST held more URLs than the target of the stock.
	Starved int64
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
	NumSlotUses
)

var slotUseNames = [NumSlotUses]string{"exchange", "parse and store", "cpu", "limit", "politeness", "admission",
	"dns", "robots.txt", "disk", "deferred", "space or outage", "new links"}

func (u SlotUse) String() string { return slotUseNames[u] }

// SlotUses returns all uses in their order.
func SlotUses() (all []SlotUse) {
	for u := range NumSlotUses {
		all = append(all, u)
	}
	return all
}

// Sub returns the samples taken since an earlier state.
func (s Slots) Sub(earlier Slots) Slots {
	s.Samples -= earlier.Samples
	s.Starved -= earlier.Starved
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
