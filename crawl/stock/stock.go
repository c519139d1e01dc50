package stock

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

// Keeper keeps the stock at its target. Its goroutine runs Run and evicts URLs from RAM.
type Keeper struct {
	run         *account.Run
	opt         Options
	others      Others
	wakeRelieve account.Signal
	returned    atomic.Int32 // URLs that have returned since BEAST released the last one
	tooSoon     atomic.Int64 // until then makeRoom does nothing, because it found nothing to evict; ns after began
}

// Options are the options of a Keeper.
type Options struct {
	Connections int
	Target      int64 // of the stock, in URLs; 0: it follows the delays
}

// Heaps has the hosts and URLs in RAM. polite.Scheduler is the implementation.
type Heaps interface {
	Use() polite.Use
	EvictLater(now time.Time, over time.Duration, n int) []*polite.Item
}

// Fetchers are those of the crawl.
type Fetchers interface {
	// Exchanges returns the number of exchanges under way; Slots the number of connection slots in use and of all.
	Exchanges() int64
	Slots() (taken, all int64, waits bool)
	// Hungry reports whether many connections are idle because no URL in RAM is due.
	Hungry() bool
}

// Others are the stages that a Keeper calls.
type Others struct {
	Heaps    func() Heaps // it exists once the crawl is open
	Fetchers Fetchers
	// Evicted takes URLs from RAM. It is part of a transaction.
	Evicted func(tx *account.Tx, items []*polite.Item) error
}

// New returns a Keeper. Wire must give it the other stages before it is used.
func New(run *account.Run, opt Options) *Keeper {
	return &Keeper{run: run, opt: opt, wakeRelieve: run.PulsedSignal()}
}

// Wire gives the Keeper the stages that it calls.
func (s *Keeper) Wire(others Others) { s.others = others }

// least returns the target while few hosts are in their delays.
func (o *Options) least() int64 {
	if o.Target > 0 {
		return o.Target
	}
	return stockPerConnection * int64(o.Connections)
}

// Least returns the stock's target while few hosts are in their delays, for a number of connections and a
// target given by the operator, 0 for none.
func Least(connections int, target int64) int64 {
	o := Options{Connections: connections, Target: target}
	return o.least()
}

// Aim is the wanted size of the stock, in URLs.
type Aim struct {
	Target int64
	most   int64 // limit of the stock; above target while hosts or connections are idle
	full   int64 // the largest that most may become
	Enough int64 // just enough to keep connections and hosts busy: 1.5 URLs for each host in its delay
	// follows reports that the hosts' delays determine target, rather than its minimum or the limit of RAM.
	follows bool
	// idle reports that too many recently used hosts are not in their delay and have no URL in RAM.
	Idle bool
	// lacks reports that connections are idle because the stock has too few hosts: the delays would admit more pages.
	lacks bool
}

// idleHosts sets the share of idle hosts, 1/idleHosts, above which BEAST releases more URLs than target and
// passes start early. URLs arrive page by page: with 3 for each host on average and 4 from each page's
// host, they may cover only three quarters of the hosts. A target that followed the hosts in their delays
// now would stay at that level, so it follows their recent peak.
const idleHosts = 32

// FewHosts is how many times its target the stock may grow while connections are idle. Its URLs may all be those of few
// hosts, or of hosts that are not due, and BEAST may have others.
const FewHosts = 8

// Aim returns the wanted size now.
func (s *Keeper) Aim() Aim {
	u, least := s.others.Heaps().Use(), s.opt.least()
	a := Aim{Target: least, most: least, full: least, Enough: max(1, int64(s.opt.Connections/4), int64(u.Resting)*3/2)}
	if s.opt.Target > 0 {
		return a
	}
	wanted, most := stockPerHost*int64(u.Peak), int64(u.Most)
	a.follows = wanted >= least && wanted <= most
	a.Idle = a.follows && u.Peak-u.Hosts-u.Bare > u.Peak/idleHosts
	a.Target = max(least, min(wanted, most))
	if a.most = a.Target; a.Idle {
		a.most = max(least, min(2*wanted, most))
	}
	a.full = max(a.most, min(FewHosts*a.Target, most))
	if a.lacks = (!a.follows || a.Idle) && s.others.Fetchers.Hungry(); a.lacks {
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
func (s *Keeper) limits() (fresh, returning int64) {
	most := s.Aim().most
	fresh = max(1, most-max(1, most/returnShare))
	if s.returned.Load() >= returnTurn && s.run.Accounts.In(state.PlaceBeast) > 0 {
		return fresh, fresh
	}
	return fresh, most
}

// Stocked reports whether the stock is at its limit for BEAST, which then releases nothing.
func (s *Keeper) Stocked() bool { fresh, _ := s.limits(); return s.run.Accounts.Stock() >= fresh }

// RoomForReturning reports whether the stock has room for a URL that returns.
func (s *Keeper) RoomForReturning() bool {
	_, returning := s.limits()
	return s.run.Accounts.Stock() < returning
}

// NoteReturn counts a URL that returns into the stock.
func (s *Keeper) NoteReturn() { s.returned.Add(1) }

// NoteFresh notes that BEAST has released a URL.
func (s *Keeper) NoteFresh() {
	if s.returned.Load() != 0 {
		s.returned.Store(0)
	}
}

// Low reports whether the stock is below half of its target, or hosts or connections are idle for lack of it.
func (s *Keeper) Low() bool {
	a := s.Aim()
	return a.Idle || a.lacks || s.run.Accounts.Stock() < a.Target/2
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

// MakeRoom moves the URLs that are due last to disk if connection slots are idle. It looks at all hosts in
// RAM. After a call that found nothing, it does nothing for relieveEvery/2; otherwise it would search for
// every page while RAM is full.
func (s *Keeper) MakeRoom() error {
	busy := s.others.Fetchers.Exchanges()
	_, slots, _ := s.others.Fetchers.Slots()
	if busy >= slots/2 || int64(time.Since(s.run.Began())) < s.tooSoon.Load() {
		return nil
	}
	return s.run.Transact(func(tx *account.Tx) error {
		lot := evictLot(s.others.Heaps().Use(), busy, slots)
		items := s.others.Heaps().EvictLater(time.Now(), evictAhead, lot)
		if len(items) == 0 {
			tx.Nothing = true
			s.tooSoon.Store(int64(time.Since(s.run.Began()) + RelieveEvery/2))
		}
		return s.others.Evicted(tx, items)
	})
}

// RelieveEvery is the interval at which room is made while RAM or the stock is full.
const RelieveEvery = time.Second

// Run makes room before RAM is full, because a stock of URLs that are not due keeps BEAST from releasing
// others. It does nothing while the stock follows the hosts' delays: such a stock is not one of few hosts.
func (s *Keeper) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if a := s.Aim(); a.follows || s.run.Accounts.Stock() < a.full-a.full/8 {
			s.run.Await(ctx, s.wakeRelieve, account.WakeAfter)
			continue
		}
		if err := s.MakeRoom(); err != nil {
			return err
		}
		s.run.Wakeups.Add(1)
		account.Sleep(ctx, RelieveEvery)
	}
	return nil
}
