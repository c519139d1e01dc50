package crawl

import (
	"fmt"
	"sync"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/polite"
	"drumbeat/weburl"
)

// pldShare is the part of all connections that pages of one PLD may hold at once: a farm of many slow hosts, each on a
// server of its own, mustn't hold them all for as long as an exchange may last.
const pldShare = 4

// pldLimiter counts the exchanges for pages under way of each PLD.
type pldLimiter struct {
	most int // of one PLD; 0: no bound

	mu   sync.Mutex     // guards plds
	plds map[uint64]int // at most as many as there are connections
}

// newCrowds bounds the PLDs of a crawl of many sites. With a narrower scope the sites of that scope have all there is.
func newPLDLimiter(o *Options) *pldLimiter {
	c := &pldLimiter{plds: map[uint64]int{}}
	if o.Scope == state.ScopeAll {
		c.most = max(1, o.Connections/pldShare)
	}
	return c
}

// enter counts one more exchange of a PLD; false if it has its share.
func (c *pldLimiter) enter(pld uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.most > 0 && c.plds[pld] >= c.most {
		return false
	}
	c.plds[pld]++
	return true
}

func (c *pldLimiter) leave(pld uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.plds[pld]--; c.plds[pld] == 0 {
		delete(c.plds, pld)
	}
}

// pldBusy lets a URL whose PLD has its share of connections wait on disk, longer each time: 5 s to 3 min, as long as the
// exchanges before it may take.
func (d *dispatcher) pldBusy(g *polite.Grant) error {
	return d.transact(func(tx *transaction) error {
		var rec weburl.Record
		if err := rec.Decode(g.Item.Rec); err != nil {
			return fmt.Errorf("crawl: record in RAM: %w", err)
		}
		now := time.Now()
		d.dropGrant(now, g)
		wait := min(busyWait<<min(rec.Waits, 6), maxBusyWait)
		rec.Deferred()
		return d.deferrals.deferURL(tx, &rec, state.PlaceRAM, now.Add(wait), state.ReasonPLDBusy)
	})
}

const (
	busyWait    = 5 * time.Second
	maxBusyWait = 3 * time.Minute
)
