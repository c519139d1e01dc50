package crawl

import (
	"context"
	"sync/atomic"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/polite"
	"drumbeat/state"
)

// The stock is the set of URLs that BEAST has released: those in RobotsCache's buckets, QR, Q and RAM.
// BEAST releases URLs while the stock is below its target. The target follows Polybot's rule: to visit
// hosts with delay tau at rate s, URLs of x > s·tau hosts must be available. By Little's law s·tau is the
// number of hosts whose delay after a visit has not passed, which package polite counts.
const (
	// stockPerConnection is the least number of URLs for each connection, whatever the delays.
	stockPerConnection = 16
	// stockPerHost is the number of URLs for each host in its delay. BEAST releases URLs in queue order,
	// not by host. With 3 URLs for each host in random order, e^-3 = 5 % of the hosts have none.
	stockPerHost = 3
)

// stockKeeper keeps the stock at its target. Its goroutine "relieve" evicts URLs from RAM.
type stockKeeper struct {
	*engine
	wakeRelieve account.Signal
	returned    atomic.Int32 // URLs that have returned since BEAST released the last one
	tooSoon     atomic.Int64 // until then makeRoom does nothing, because it found nothing to evict; ns after began

	deferrals *deferrals
}

func newStockKeeper(e *engine) *stockKeeper {
	return &stockKeeper{engine: e, wakeRelieve: e.PulsedSignal()}
}

// leastStock returns the stock's target while few hosts are in their delays.
func (o *Options) leastStock() int64 {
	if o.Order.StockTarget > 0 {
		return int64(o.Order.StockTarget)
	}
	return stockPerConnection * int64(o.Network.Connections)
}

// aim is the wanted size of the stock, in URLs.
type aim struct {
	target int64
	most   int64 // limit of the stock; above target while hosts or connections are idle
	full   int64 // the largest that most may become
	enough int64 // just enough to keep connections and hosts busy: 1.5 URLs for each host in its delay
	// follows reports that the hosts' delays determine target, rather than its minimum or the limit of RAM.
	follows bool
	// idle reports that too many recently used hosts are not in their delay and have no URL in RAM.
	idle bool
	// lacks reports that connections are idle because the stock has too few hosts: the delays would admit more pages.
	lacks bool
}

// idleHosts sets the share of idle hosts, 1/idleHosts, above which BEAST releases more URLs than target and
// passes start early. URLs arrive page by page: with 3 for each host on average and 4 from each page's
// host, they may cover only three quarters of the hosts. A target that followed the hosts in their delays
// now would stay at that level, so it follows their recent peak.
const idleHosts = 32

// fewHosts is how many times its target the stock may grow while connections are idle. Its URLs may all be those of few
// hosts, or of hosts that are not due, and BEAST may have others.
const fewHosts = 8

func (s *stockKeeper) aim() aim {
	u, least := s.polite.Use(), s.opt.leastStock()
	a := aim{target: least, most: least, full: least, enough: max(1, int64(s.opt.Network.Connections/4), int64(u.Resting)*3/2)}
	if s.opt.Order.StockTarget > 0 {
		return a
	}
	wanted, most := stockPerHost*int64(u.Peak), int64(u.Most)
	a.follows = wanted >= least && wanted <= most
	a.idle = a.follows && u.Peak-u.Hosts-u.Bare > u.Peak/idleHosts
	a.target = max(least, min(wanted, most))
	if a.most = a.target; a.idle {
		a.most = max(least, min(2*wanted, most))
	}
	a.full = max(a.most, min(fewHosts*a.target, most))
	if a.lacks = (!a.follows || a.idle) && s.workers.hungry(); a.lacks {
		a.most = a.full
	}
	return a
}

const (
	// returnShare is the share of the stock, 1/returnShare, that BEAST leaves to URLs that return: retries, host
	// backlogs, waits for robots.txt. Where fetching is the limit the stock is always full, and a URL that returns
	// would find room only after BEAST has run empty.
	returnShare = 16
	// returnTurn is the number of URLs that may return into that share before BEAST releases one. While both have URLs,
	// each gets its turn.
	returnTurn = 4
)

// limits returns the sizes of the stock at which BEAST releases nothing more, and at which no URL returns.
func (s *stockKeeper) limits() (fresh, returning int64) {
	most := s.aim().most
	fresh = max(1, most-max(1, most/returnShare))
	if s.returned.Load() >= returnTurn && s.Accounts.In(state.PlaceBeast) > 0 {
		return fresh, fresh
	}
	return fresh, most
}

// stocked reports whether the stock is at its limit for BEAST, which then releases nothing.
func (s *stockKeeper) stocked() bool { fresh, _ := s.limits(); return s.Accounts.Stock() >= fresh }

// roomForReturning reports whether the stock has room for a URL that returns.
func (s *stockKeeper) roomForReturning() bool {
	_, returning := s.limits()
	return s.Accounts.Stock() < returning
}

// noteReturn and noteFresh count the URLs that come into the stock.
func (s *stockKeeper) noteReturn() { s.returned.Add(1) }
func (s *stockKeeper) noteFresh() {
	if s.returned.Load() != 0 {
		s.returned.Store(0)
	}
}

// stockLow reports whether the stock is below half of its target, or hosts or connections are idle for lack of it.
func (s *stockKeeper) stockLow() bool {
	a := s.aim()
	return a.idle || a.lacks || s.Accounts.Stock() < a.target/2
}

// evictAhead is how far ahead of now a URL must be due to be evicted. Eviction makes room when connection
// slots are idle while RAM or the stock is full of URLs of few hosts.
const evictAhead = 30 * time.Second

// evictLot returns the number of URLs to evict for other hosts. Each busy slot needs Resting/busy hosts, so
// each idle slot needs as many more. Hosts in RAM keep 1.5 URLs each. Evict a quarter of the difference at
// a time, since the effect of new URLs shows later.
func evictLot(u polite.Use, busy, slots int64) int {
	wanted := (slots - busy) * int64(u.Resting) / max(busy, 1)
	spare := int64(u.Items) - int64(u.Resting)*3/2
	return int(max(0, min(wanted, spare)+3) / 4)
}

// makeRoom moves the URLs that are due last to disk if connection slots are idle. It looks at all hosts in
// RAM. After a call that found nothing, it does nothing for relieveEvery/2; otherwise it would search for
// every page while RAM is full.
func (s *stockKeeper) makeRoom() error {
	busy, slots := s.workers.exchanges.Load(), int64(cap(s.workers.slots))
	if busy >= slots/2 || int64(time.Since(s.Began())) < s.tooSoon.Load() {
		return nil
	}
	return s.Transact(func(tx *account.Tx) error {
		lot := evictLot(s.polite.Use(), busy, slots)
		items := s.polite.EvictLater(time.Now(), evictAhead, lot)
		if len(items) == 0 {
			tx.Nothing = true
			s.tooSoon.Store(int64(time.Since(s.Began()) + relieveEvery/2))
		}
		return s.deferrals.evicted(tx, items, state.ReasonEvicted)
	})
}

// relieveEvery is the interval at which room is made while RAM or the stock is full.
const relieveEvery = time.Second

// relieve makes room before RAM is full, because a stock of URLs that are not due keeps BEAST from
// releasing others. It does nothing while the stock follows the hosts' delays: such a stock is not one of
// few hosts.
func (s *stockKeeper) relieve(ctx context.Context) error {
	for ctx.Err() == nil {
		if a := s.aim(); a.follows || s.Accounts.Stock() < a.full-a.full/8 {
			s.Await(ctx, s.wakeRelieve, account.WakeAfter)
			continue
		}
		if err := s.makeRoom(); err != nil {
			return err
		}
		s.Wakeups.Add(1)
		account.Sleep(ctx, relieveEvery)
	}
	return nil
}
