package gate

import (
	"context"
	"log/slog"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/options"
	"drumbeat/crawl/plan"
	"drumbeat/fetch"
	"drumbeat/internal/health"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Options are the options of Hosts, Check and Requests.
type Options struct {
	Log        *slog.Logger
	Agent      string // name in robots.txt
	Health     *options.Health
	Network    *options.Network
	Politeness *options.Politeness
	Scope      state.Scope
	CrawlLog   state.LogLevel
	Sitemaps   bool           // those that a robots.txt names are followed
	TDMRep     bool           // tdmrep.json is requested after robots.txt
	Policy     *health.Policy // for hosts that fail or refuse
	Plan       *plan.Plan
	Links      *admit.Policy
	Rules      *inforce.Rules
	Sites      *inforce.Sites
	Reading    func(what string, url []byte) // is called before data of a site are read, for tests; nil: not
}

// turns is the least lifetime of what is known of a host with this Crawl-delay: its page comes a turn after its
// robots.txt, or a turn after its tdmrep.json.
func (o *Options) turns(host []byte, crawlDelay time.Duration) time.Duration {
	turn := o.Sites.OneTurn(host, crawlDelay)
	if o.TDMRep {
		return 2 * turn
	}
	return turn
}

// Others are the stages above that Hosts, Check and Requests call.
type Others struct {
	Heaps      func() *polite.Scheduler // it exists once the crawl is open
	Slots      Slots
	Deferrals  Deferrals
	Flags      Flags
	Dispatcher Dispatcher
	Orders     Orders
	Cluster    Cluster
	SendLinks  func(b *admit.Batch, tx *account.Tx) error // to URLseen. It is part of a transaction.
}

// Slots are the connection slots, and the buffers of responses.
type Slots interface {
	Take(ctx context.Context) bool // waits for a slot; false if ctx ended first
	Free()
	Response() *fetch.Response
	Release(*fetch.Response)
}

// Deferrals take URLs out of RAM and out of RobotsCache. All calls are part of a transaction.
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

// Flags knows since when the network flags of this run hold.
type Flags interface {
	SinceFlags(at, now time.Time) bool   // at is within that time
	VerdictTime(now time.Time) time.Time // of a verdict by these flags
}

// Dispatcher takes the URLs that may be fetched.
type Dispatcher interface {
	// Enqueue appends a URL to Q. It is part of a transaction.
	Enqueue(tx *account.Tx, rec *weburl.Record) error
	// AdmitFirst moves an enqueued URL into RAM, past Q. taken is false if it has to take the way of all others.
	AdmitFirst(tx *account.Tx, rec *weburl.Record) (taken bool, _ error)
	Exchanges() int64 // under way, for pages and robots.txt
}

// Orders are the URLs that the operator has enqueued.
type Orders interface {
	Waits(key uint64) bool
	Moved(key uint64, urgent bool)
	AnyUrgent() bool
}

// Cluster reaches the other nodes.
type Cluster interface {
	Elsewhere(host []byte) bool // another node owns the host
	NoRequests() bool           // requests cannot begin yet
	// Ask asks the owner of a host, and returns its answer; abandoned says that there will be none.
	Ask(ctx context.Context, host []byte, kind string, data []byte) (answer []byte, abandoned bool, _ error)
	// Answer passes the questions of other nodes to answer until stop is called.
	Answer(kind string, answer func(ctx context.Context, from int, data []byte) []byte) (stop func(), _ error)
}
