package dispatch

import (
	"context"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/limits"
	"drumbeat/crawl/node"
	"drumbeat/crawl/options"
	"drumbeat/crawl/outage"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/space"
	"drumbeat/crawl/stock"
	"drumbeat/internal/health"
	"drumbeat/polite"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Options are the options of a Dispatcher.
type Options struct {
	Admission     *options.Admission
	Network       *options.Network
	Politeness    *options.Politeness
	DefaultBudget uint32     // of a PLD, in pages
	StockTarget   int64      // of the stock, in URLs; 0: it follows the delays
	MaxPages      int64      // 0: no limit
	Plan          *plan.Plan // final once the crawl is open
	Rules         *inforce.Rules
	Sites         *inforce.Sites
	Leased        bool // nodes of a cluster take networks in turn
	Adjustable    bool // the limits may change while the crawl runs
	Recent        Recent
}

// Recent is what a run knows of the one that has ended a moment ago in this process; zero: nothing.
type Recent struct {
	Delays *polite.Recent
	Others state.Slots // whose other hosts count as visited at At: another node, or process, may have visited them
	At     time.Time
}

// Needs are the rooms below that a Dispatcher calls.
type Needs struct {
	Check   Check
	Health  Health
	Fetcher *fetcher.Fetcher
	Leases  *node.Leases
	Limits  *limits.Limits
	Outages *outage.Watch
	Space   *space.Keeper
	Stock   *stock.Keeper
}

// Check is RobotsCache, which decides again about URLs whose verdict has ended.
type Check interface {
	// VerdictEnded reports whether the verdict on a URL that waits in Q holds no more.
	VerdictEnded(url []byte, sum *robots.Summary, now time.Time) bool
	// CheckRobots sends a URL to RobotsCache; data is its record. It is part of a transaction.
	CheckRobots(tx *account.Tx, data []byte, rec *weburl.Record, from state.Place) error
}

// Health knows the hosts in trouble.
type Health interface {
	// DeferInBackoff defers or refuses a URL whose host is in a long back-off or given up. It is part of a
	// transaction. moved is false if the host is in neither.
	DeferInBackoff(tx *account.Tx, host uint64, rec *weburl.Record, from state.Place,
		onDisk *health.State) (moved bool, _ error)
}

// Others are the stages above that a Dispatcher calls.
type Others struct {
	Visits    Visits
	Deferrals Deferrals
	Orders    Orders
	LackURLs  func()       // is told that connections are idle because no URL in RAM is due
	PageLimit func() int64 // with MaxPages, the pages that this node may fetch
	Disowned  func() bool  // nothing may be fetched
	// PLDShare returns polite.Options.PLDShare.
	PLDShare func() func(pld uint64) float64
}

// Visits visits the URLs of grants. visit.Stage is the implementation.
type Visits interface {
	// Visit processes a granted URL. After landed, a storer calls Ended; next is the grant of another URL,
	// or nil.
	Visit(ctx context.Context, g *polite.Grant) (landed bool, next *polite.Grant, err error)
	// Ended ends the processing of a granted URL.
	Ended(err error)
	// Idle reports whether at least half of the parsers are idle.
	Idle() bool
}

// Deferrals take URLs that may not be fetched now. All calls are part of a transaction.
type Deferrals interface {
	// DeferURL makes a URL wait on disk until due.
	DeferURL(tx *account.Tx, rec *weburl.Record, from state.Place, due time.Time, why state.Reason) error
	// Refuse ends a URL without a response.
	Refuse(tx *account.Tx, rec *weburl.Record, from state.Place, why state.Reason) error
	// Evicted defers URLs that have left RAM.
	Evicted(tx *account.Tx, items []*polite.Item, why state.Reason) error
	// MetOrder ends or defers a record whose URL was enqueued and has been fetched meanwhile.
	MetOrder(tx *account.Tx, rec *weburl.Record, from state.Place) (ok bool, _ error)
}

// Orders are the URLs that the operator has enqueued.
type Orders interface {
	Any() bool
	Waits(key uint64) bool
	Moved(key uint64, urgent bool)
}

// New returns a Dispatcher. Wire must give it the other stages, and OpenHeaps and Open its state, before a
// run.
func New(run *account.Run, saved *state.Saved, opt Options, n Needs) *Dispatcher {
	return &Dispatcher{run: run, saved: saved, opt: opt, check: n.Check, fetcher: n.Fetcher, health: n.Health,
		leases: n.Leases, limits: n.Limits, outages: n.Outages, space: n.Space, stock: n.Stock,
		wakeReady: run.PulsedSignal(), wakeDispatch: run.PulsedSignal()}
}

// Wire gives the Dispatcher the stages above that it calls.
func (d *Dispatcher) Wire(others Others) { d.others = others }
