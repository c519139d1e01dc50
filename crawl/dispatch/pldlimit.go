package dispatch

import (
	"fmt"
	"sync"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/weburl"
)

// PLDShare limits the page exchanges of one PLD to 1/PLDShare of all connections. Otherwise a farm of many
// slow hosts, each on its own server, could occupy all connections for as long as an exchange may last.
const PLDShare = 4

// pldLimiter counts the page exchanges under way for each PLD.
type pldLimiter struct {
	most int // limit of one PLD; 0 for none

	mu   sync.Mutex     // guards plds
	plds map[uint64]int // at most one entry for each connection
}

// newPLDLimiter limits the PLDs of a crawl with scope "all". With a narrower scope, the sites in scope may
// use all connections.
func newPLDLimiter(o *Options) *pldLimiter {
	c := &pldLimiter{plds: map[uint64]int{}}
	if o.Admission.Scope == state.ScopeAll {
		c.most = max(1, o.Network.Connections/PLDShare)
	}
	return c
}

// enter counts another exchange of a PLD. It returns false if the PLD has reached its limit.
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

// pldBusy defers a URL whose PLD has reached its limit. The wait grows from 5 s to 3 min, the longest
// duration of the exchanges before it.
func (d *Dispatcher) pldBusy(g *polite.Grant) error {
	return d.run.Transact(func(tx *account.Tx) error {
		var rec weburl.Record
		if err := rec.Decode(g.Item.Rec); err != nil {
			return fmt.Errorf("crawl: record in RAM: %w", err)
		}
		now := time.Now()
		d.DropGrant(now, g)
		wait := min(busyWait<<min(rec.Waits, 6), maxBusyWait)
		rec.Deferred()
		return d.others.Deferrals.DeferURL(tx, &rec, state.PlaceRAM, now.Add(wait), state.ReasonPLDBusy)
	})
}

const (
	busyWait    = 5 * time.Second
	maxBusyWait = 3 * time.Minute
)
