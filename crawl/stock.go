package crawl

import (
	"context"
	"sync/atomic"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/polite"
)

// The stock is what BEAST has released: URLs in RobotsCache's buckets, QR, Q and RAM. BEAST releases others while it is below its
// target, which follows Polybot's rule: to visit hosts with delay tau at a rate s, URLs of x > s·tau hosts must be at hand. s·tau are
// the hosts that rest after a visit (Little's law), so nothing needs to be guessed: polite counts them.
const (
	// stockPerConnection is how many URLs there are for each connection, whatever the delays.
	stockPerConnection = 16
	// stockPerHost is how many there are for each host that rests. URLs come in the order of BEAST's queue, not host by host: of URLs in
	// random order 3 a host leave e^-3, 5 %, of the hosts without one.
	stockPerHost = 3
)

// stockKeeper keeps the stock at its target. Goroutine "relieve", which evicts.
type stockKeeper struct {
	*engine
	wakeRelieve signal
	tooSoon     atomic.Int64 // makeRoom finds nothing until then, ns from began

	deferrals *deferrals
}

func newStockKeeper(e *engine) *stockKeeper {
	return &stockKeeper{engine: e, wakeRelieve: e.pulsedSignal()}
}

// leastStock is the stock's target while few hosts rest.
func (o *Options) leastStock() int64 {
	if o.StockTarget > 0 {
		return int64(o.StockTarget)
	}
	return stockPerConnection * int64(o.Connections)
}

// aim is what the stock should be, in URLs.
type aim struct {
	target int64
	most   int64 // more than target while hosts idle
	enough int64 // keeps the connections and the hosts in use busy, just: one and a half for each host that rests
	// follows says that target is what the hosts' delays ask for: not the least, and no less than that because RAM is short.
	follows bool
	// idle says that too many hosts of late neither rest nor have a URL in RAM.
	idle bool
}

// idleHosts: so small a part of the hosts may be idle before more URLs than target are released, and merges hurry. URLs come page by
// page: 3 for each host, of which each host takes 4, may be those of three hosts in four, and a target that followed the hosts that rest
// now would stay at those. So it follows the most that rested lately.
const idleHosts = 32

func (s *stockKeeper) aim() aim {
	u, least := s.polite.Use(), s.opt.leastStock()
	a := aim{target: least, most: least, enough: max(1, int64(s.opt.Connections/4), int64(u.Resting)*3/2)}
	if s.opt.StockTarget > 0 {
		return a
	}
	wanted, most := stockPerHost*int64(u.Peak), int64(u.Most)
	a.follows = wanted >= least && wanted <= most
	a.idle = a.follows && u.Peak-u.Hosts-u.Bare > u.Peak/idleHosts
	a.target = max(least, min(wanted, most))
	if a.most = a.target; a.idle {
		a.most = max(least, min(2*wanted, most))
	}
	return a
}

// stocked is true when BEAST should release nothing.
func (s *stockKeeper) stocked() bool { return s.acct.stock() >= s.aim().most }

// stockLow is true when less than half of the target is there, or hosts idle.
func (s *stockKeeper) stockLow() bool {
	a := s.aim()
	return a.idle || s.acct.stock() < a.target/2
}

// What is due later than evictAhead makes room when connection slots idle, while RAM or the stock is full of URLs of few hosts.
const evictAhead = 30 * time.Second

// evictLot is how many URLs are to make room at once for hosts that could be visited. As each busy slot takes resting/busy hosts, that
// many more are wanted for each idle one; and hosts that are there keep one or two URLs. A quarter of that at once, since
// what comes in has to be seen first.
func evictLot(u polite.Use, busy, slots int64) int {
	wanted := (slots - busy) * int64(u.Resting) / max(busy, 1)
	spare := int64(u.Items) - int64(u.Resting)*3/2
	return int(max(0, min(wanted, spare)+3) / 4)
}

// makeRoom sends those URLs that are due last to disk, if connection slots idle. It looks at all hosts in RAM, so where it
// found nothing it isn't tried again for a while: while RAM is full it would be for every page.
func (s *stockKeeper) makeRoom() error {
	busy, slots := s.workers.exchanges.load(), int64(cap(s.workers.slots))
	if busy >= slots/2 || int64(time.Since(s.began)) < s.tooSoon.Load() {
		return nil
	}
	return s.transact(func(tx *transaction) error {
		lot := evictLot(s.polite.Use(), busy, slots)
		items := s.polite.EvictLater(time.Now(), evictAhead, lot)
		if len(items) == 0 {
			tx.nothing = true
			s.tooSoon.Store(int64(time.Since(s.began) + relieveEvery/2))
		}
		return s.deferrals.evicted(tx, items, state.ReasonEvicted)
	})
}

// relieveEvery is how often room is made while RAM or the stock is full.
const relieveEvery = time.Second

// relieve makes room before RAM is full: a stock of URLs that aren't due keeps BEAST from releasing others. A stock that follows the
// delays isn't one of few hosts.
func (s *stockKeeper) relieve(ctx context.Context) error {
	for ctx.Err() == nil {
		if a := s.aim(); a.follows || s.acct.stock() < a.target-a.target/8 {
			s.await(ctx, s.wakeRelieve, wakeAfter)
			continue
		}
		if err := s.makeRoom(); err != nil {
			return err
		}
		s.wakeups.Add(1)
		sleep(ctx, relieveEvery)
	}
	return nil
}
