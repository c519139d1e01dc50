package dispatch

import (
	"context"
	"sync/atomic"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/fetch"
	"drumbeat/polite"
)

// workers limits what fetching holds: connections and response buffers.
type workers struct {
	slots     chan struct{}        // one for each exchange under way
	grants    chan *polite.Grant   // to idle fetchers; closed when no more grants come
	idle      atomic.Int64         // number of idle fetchers
	waits     atomic.Bool          // dispatch has a slot but no grant for it
	dry       atomic.Bool          // when dispatch last looked, no URL in RAM was due
	responses chan *fetch.Response // idle buffers for reuse
	plds      *pldLimiter          // exchanges under way by PLD
	inFlight  atomic.Int64         // granted URLs that have not ended: pages that may still arrive
	freed     account.Signal       // raised when a slot becomes free; nil if no stage waits for one
}

func newWorkers(o *Options) *workers {
	n := o.Network.Connections
	return &workers{slots: make(chan struct{}, n), grants: make(chan *polite.Grant),
		responses: make(chan *fetch.Response, n), plds: newPLDLimiter(o)}
}

// InFlight returns the number of granted URLs that have not ended; 0 before Open.
func (d *Dispatcher) InFlight() int64 {
	if d.workers == nil {
		return 0
	}
	return d.workers.inFlight.Load()
}

// NoMoreGrants makes the fetchers end once Dispatch has returned.
func (d *Dispatcher) NoMoreGrants() { close(d.workers.grants) }

// Response returns an idle buffer.
func (d *Dispatcher) Response() *fetch.Response {
	select {
	case resp := <-d.workers.responses:
		return resp
	default:
		return new(fetch.Response)
	}
}

// Release takes back a buffer.
func (d *Dispatcher) Release(resp *fetch.Response) {
	resp.Reset()
	select {
	case d.workers.responses <- resp:
	default:
	}
}

// Buffer returns an idle buffer, and a function that takes it back.
func (d *Dispatcher) Buffer() (resp *fetch.Response, back func()) {
	resp = d.Response()
	return resp, func() { d.Release(resp) }
}

// Exchanges returns the number of exchanges under way, for pages and robots.txt.
func (d *Dispatcher) Exchanges() int64 { return d.fetcher.UnderWay() }

// Hungry reports whether more than half of the connections are idle because no URL in RAM is due, and more
// than half of the parsers are idle as well: busy processors have no use for more hosts.
func (d *Dispatcher) Hungry() bool {
	return d.workers.dry.Load() && d.Exchanges() < int64(cap(d.workers.slots)+1)/2 && d.others.Visits.Idle()
}

// Starved reports whether all connections are idle because no URL in RAM is due.
func (d *Dispatcher) Starved() bool { return d.workers.dry.Load() && d.workers.inFlight.Load() == 0 }

// Slots returns the number of connection slots in use and of all. waits reports that one in use only waits
// for a grant.
func (d *Dispatcher) Slots() (taken, all int64, waits bool) {
	return int64(len(d.workers.slots)), int64(cap(d.workers.slots)), d.workers.waits.Load()
}

// Allowed returns the number of connections that the limits allow now.
func (d *Dispatcher) Allowed(now time.Time) int { return d.limits.Allowed(now) }

// HeldBy returns the name of the limit that holds back grants, "" for none.
func (d *Dispatcher) HeldBy(now time.Time) string { return d.limits.HeldBy(now) }

// Done ends the grant of an exchange.
func (d *Dispatcher) Done(g *polite.Grant, r polite.Result) { d.heaps.Done(time.Now(), g, r) }

// Take waits for a connection slot. It returns false if ctx ended first.
func (d *Dispatcher) Take(ctx context.Context) bool {
	select {
	case d.workers.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Free returns a connection slot.
func (d *Dispatcher) Free() {
	<-d.workers.slots
	d.workers.freed.Raise()
}

// Enter counts a request of rendering for its PLD. If the PLD has reached its limit, it drops the grant and
// returns how long to wait before another attempt, else 0.
func (d *Dispatcher) Enter(g *polite.Grant, attempts int) time.Duration {
	if d.workers.plds.enter(g.Item.PLD) {
		return 0
	}
	d.Drop(g)
	return min(busyWait<<min(attempts, 6), maxBusyWait) // as pldBusy
}

// Leave ends a request of rendering, and frees its slot.
func (d *Dispatcher) Leave(g *polite.Grant) {
	d.workers.plds.leave(g.Item.PLD)
	d.Free()
}

// Drop ends a grant for which nothing was sent, and frees its slot.
func (d *Dispatcher) Drop(g *polite.Grant) {
	d.DropGrant(time.Now(), g)
	d.Free()
}

// DropGrant ends a grant for which nothing was sent. It does not count as a visit or against a limit.
func (d *Dispatcher) DropGrant(now time.Time, g *polite.Grant) {
	d.limits.Give(now, fetcher.GrantKind(g))
	d.heaps.Drop(now, g)
}
