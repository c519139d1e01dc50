package visit

import (
	"context"
	"net/netip"
	"runtime"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/contents"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/gate"
	"drumbeat/crawl/outage"
	"drumbeat/crawl/reader"
	"drumbeat/crawl/render"
	"drumbeat/crawl/sitemaps"
	"drumbeat/crawl/space"
	"drumbeat/crawl/strategy"
	"drumbeat/crawl/walkers"
	"drumbeat/fetch"
	"drumbeat/internal/revisit"
	"drumbeat/internal/trapscore"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Stage fetches a granted URL, stores the response and sends its links to URLseen. It runs in the
// goroutines of the fetchers, at most one for each connection, and in those of the storers of landed pages.
// A page holds one of the few parsers only while it is processed.
type Stage struct {
	run    *account.Run
	saved  *state.Saved
	opt    Options
	others Others
	reads  *Pages

	check    *gate.Check
	content  *contents.Store
	fetcher  *fetcher.Fetcher
	health   *gate.Hosts
	outages  *outage.Watch
	render   *render.Stage
	sitemaps *sitemaps.Reader
	space    *space.Keeper
	walk     *walkers.Leader

	parsers chan *Worker  // limits concurrent parsing
	large   chan *Worker  // of the one page with a spooled body that is being stored
	landing chan struct{} // one for each landed page; see landed.go
	landed  chan *arrival // to idle storers; closed when no more pages come
}

// Needs are the rooms below that a Stage calls.
type Needs struct {
	Check    *gate.Check
	Content  *contents.Store
	Fetcher  *fetcher.Fetcher
	Health   *gate.Hosts
	Outages  *outage.Watch
	Render   *render.Stage
	Sitemaps *sitemaps.Reader
	Space    *space.Keeper
	Walk     *walkers.Leader
}

// Others are the stages above that a Stage and its Pages call. Functions with a transaction are part of it.
type Others struct {
	Grants    Grants
	Buffers   Buffers
	Deferrals Deferrals
	Orders    Orders
	Again     Again

	// EndVisit ends a URL, or schedules its next visit.
	EndVisit  func(tx *account.Tx, rec *weburl.Record, from state.Place) error
	SendLinks func(b *admit.Batch, tx *account.Tx) error     // to URLseen
	Fetched   func(pld uint64, bytes int64) error            // counts a page of a PLD in STAR
	Answered  func(host []byte, pld uint64, addr netip.Addr) // estimates the numbers of hosts, PLDs and servers
	Wake      func(tx *account.Tx)                           // wakes URLseen and STAR after tx

	Strategy func() *strategy.Strategy
	// BudgetRange returns the default and the largest budget of a PLD.
	BudgetRange func() (normal, largest uint32)
	// Revisits says when a URL is visited again; ok is false if it is not.
	Revisits func(url []byte) (policy revisit.Policy, ok bool)
	Traps    func() *trapscore.Table // nil without scores of traps
}

// Grants are those of the dispatcher (dispatch.Dispatcher).
type Grants interface {
	// DropGrant ends a grant for which nothing was sent. Done ends that of an exchange.
	DropGrant(now time.Time, g *polite.Grant)
	Done(g *polite.Grant, r polite.Result)
	// Landed ends an exchange whose page is not stored yet. The next grant, if there is one, belongs to the
	// caller.
	Landed(g *polite.Grant, r polite.Result) (next *polite.Grant)
	Ended() // after each URL
}

// Buffers are those of responses.
type Buffers interface {
	Response() *fetch.Response
	Release(*fetch.Response)
}

// Deferrals take visited URLs. All calls are part of a transaction.
type Deferrals interface {
	// DeferURL makes a URL wait on disk until due.
	DeferURL(tx *account.Tx, rec *weburl.Record, from state.Place, due time.Time, why state.Reason) error
	// Refuse ends a URL without a response.
	Refuse(tx *account.Tx, rec *weburl.Record, from state.Place, why state.Reason) error
	// MetOrder ends or defers a record whose URL was enqueued and has been fetched meanwhile.
	MetOrder(tx *account.Tx, rec *weburl.Record, from state.Place) (ok bool, _ error)
	// DropBlocked takes a URL that the blacklist forbids.
	DropBlocked(tx *account.Tx, item *polite.Item) error
}

// Orders are the URLs that the operator has enqueued.
type Orders interface {
	Any() bool
	// Land notes that the page of a URL has landed, LandedEnd that its transaction is over.
	Land(key uint64)
	LandedEnd(key uint64)
	// Waits reports whether a URL has an order that was not fetched yet.
	Waits(key uint64) bool
	// Stored notes that the page waits for the verdict on its body.
	Stored(key uint64)
}

// Again makes the crawl ask for a URL again, in the form of an order.
type Again struct {
	Room   func() int                  // for further orders
	Begin  func(key, host uint64) bool // begins an order; false: the URL has one that waits
	Note   func(key uint64) error      // notes an order for audits. It is part of a transaction.
	Pinned func(pld uint64) uint32     // the operator's budget for a PLD; 0: none
}

// NewStage returns a Stage that reads with p. Wire must give it the other stages, and Open its parsers,
// before a run.
func NewStage(p *Pages, n Needs) *Stage {
	p.sitemaps, p.render = n.Sitemaps, n.Render
	return &Stage{run: p.run, saved: p.saved, opt: p.opt, reads: p, check: n.Check, content: n.Content,
		fetcher: n.Fetcher, health: n.Health, outages: n.Outages, render: n.Render, sitemaps: n.Sitemaps,
		space: n.Space, walk: n.Walk}
}

// Wire gives the Stage and its Pages the stages that they call.
func (s *Stage) Wire(others Others) { s.others, s.reads.others = others, others }

// Open creates the parsers. The output must be open.
func (s *Stage) Open() {
	parsers := runtime.GOMAXPROCS(0) + 1
	s.parsers, s.large = make(chan *Worker, parsers+s.opt.Asked), make(chan *Worker, 1)
	s.landing, s.landed = make(chan struct{}, landedPerParser*parsers), make(chan *arrival)
	for range cap(s.parsers) {
		s.parsers <- s.reads.NewWorker()
	}
	s.large <- s.reads.NewWorker()
}

// Idle reports whether at least half of the parsers are idle.
func (s *Stage) Idle() bool { return 2*len(s.parsers) >= cap(s.parsers) }

// Lend waits for a parser and lends its reader to another stage; nil: ctx ended first. back takes it again;
// broken says that a panic left it in any state.
func (s *Stage) Lend(ctx context.Context) (r *reader.Reader, back func(broken bool)) {
	select {
	case w := <-s.parsers:
		return &w.Reader, func(broken bool) {
			if broken {
				w = s.reads.NewWorker()
			}
			w.Release()
			s.parsers <- w
		}
	case <-ctx.Done():
		return nil, nil
	}
}

// NoMorePages makes the storers end once all fetchers have ended.
func (s *Stage) NoMorePages() { close(s.landed) }
