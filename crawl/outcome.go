package crawl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/contents"
	"drumbeat/crawl/dispatch"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/gate"
	"drumbeat/crawl/hook"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/operate"
	"drumbeat/crawl/outage"
	"drumbeat/crawl/output"
	"drumbeat/crawl/reader"
	"drumbeat/crawl/render"
	"drumbeat/crawl/sitemaps"
	"drumbeat/crawl/space"
	"drumbeat/crawl/visit"
	"drumbeat/crawl/walkers"
	"drumbeat/fetch"
	"drumbeat/internal/bug"
	"drumbeat/internal/health"
	"drumbeat/polite"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Package health and the host's Retry-After determine the back-off of a host after a failed exchange.
const (
	// ourFaultPause is the wait of a URL after a fault on our side, which does not count against its host.
	ourFaultPause = 5 * time.Second
	// maxOurFaults limits the number of such waits for a URL. After that its failures count as the site's.
	maxOurFaults = 200
)

// pageStage fetches a granted URL, stores the response and sends its links to URLseen. It runs in the
// fetchers' goroutines, at most one for each connection. A page holds one of the few parsers only while it
// is processed.
type pageStage struct {
	*engine
	budgets    *budgetStage
	check      *gate.Check
	content    *contents.Store
	deferrals  *deferrals
	dispatcher *dispatch.Dispatcher
	fetcher    *fetcher.Fetcher
	health     *gate.Hosts
	operator   *operate.Operator
	outages    *outage.Watch
	output     *output.Writer
	space      *space.Keeper
	reads      *visit.Pages
	render     *render.Stage
	seen       *seenStage
	sitemaps   *sitemaps.Reader
	walk       *walkers.Leader

	parsers chan *visit.Worker // limits concurrent parsing
	large   chan *visit.Worker // of the one page with a spooled body that is being stored
	landing chan struct{}      // one for each landed page; see landed.go
	landed  chan *arrival      // to idle storers; closed when no more pages come
}

// open creates the parsers.
func (p *pageStage) open() {
	parsers := runtime.GOMAXPROCS(0) + 1
	p.parsers, p.large = make(chan *visit.Worker, parsers+hook.Procs(p.opt.opened.asker, p.opt.Hook)),
		make(chan *visit.Worker, 1)
	p.landing, p.landed = make(chan struct{}, landedPerParser*parsers), make(chan *arrival)
	for range cap(p.parsers) {
		p.parsers <- p.reads.NewWorker()
	}
	p.large <- p.reads.NewWorker()
}

// Idle implements dispatch.Visits.
func (p *pageStage) Idle() bool { return 2*len(p.parsers) >= cap(p.parsers) }

// lendReader waits for a worker and lends its reader to another stage; nil: ctx ended first. back takes it again;
// broken says that a panic left it in any state.
func (p *pageStage) lendReader(ctx context.Context) (r *reader.Reader, back func(broken bool)) {
	select {
	case w := <-p.parsers:
		return &w.Reader, func(broken bool) {
			if broken {
				w = p.reads.NewWorker()
			}
			w.Release()
			p.parsers <- w
		}
	case <-ctx.Done():
		return nil, nil
	}
}

// ending is the result of an exchange for polite and for the health of the host.
type ending struct {
	polite.Result
	health health.Verdict
	sent   int64 // bytes
	link   fetcher.Link
}

// rest sets the back-off of the verdict.
func (e *ending) rest(v health.Verdict) {
	e.health = v
	e.Backoff = max(e.Backoff, min(v.Rest, gate.PoliteBackoff))
	if v.End != health.Open {
		e.Backoff = gate.PoliteBackoff
	}
}

// Visit processes one granted URL: exchange, parsing, storage, and the transaction that ends it. landed
// means that a storer does the part after the exchange and calls ended; next is then the grant of another URL,
// or nil.
func (p *pageStage) Visit(ctx context.Context, g *polite.Grant) (landed bool, next *polite.Grant, _ error) {
	resp := p.dispatcher.Response()
	page, err := p.exchangeOne(ctx, g, resp)
	if page == nil || err != nil {
		p.dispatcher.Release(resp)
		return false, nil, err
	}
	if landed, next = p.land(ctx, page); landed {
		return true, next, nil
	}
	defer p.dispatcher.Release(resp)
	return false, nil, p.store(ctx, page)
}

// exchangeOne does the exchange of a granted URL. It returns its final response, or nil if the URL has none
// and another transaction took it.
func (p *pageStage) exchangeOne(ctx context.Context, g *polite.Grant, resp *fetch.Response) (*arrival, error) {
	page := &arrival{grant: g, resp: resp}
	rec, sum := &page.rec, &page.sum
	if err := rec.Decode(g.Item.Rec); err != nil {
		return nil, fmt.Errorf("crawl: record in RAM: %w", err)
	}
	if err := sum.Decode(rec.Extra); err != nil {
		return nil, fmt.Errorf("crawl: record in RAM: %w", err)
	}
	if p.check.VerdictEnded(rec.URL, sum, time.Now()) { // it waited too long for its grant
		return nil, p.Transact(func(tx *account.Tx) error {
			p.dispatcher.DropGrant(time.Now(), g)
			return p.check.CheckRobots(tx, g.Item.Rec, rec, state.PlaceRAM)
		})
	}
	if moved, err := p.backedOffSinceAdmit(g, rec); moved || err != nil {
		return nil, err
	}
	if wait := p.outages.Hold(g.Item.Host, time.Now()); wait > 0 {
		return nil, p.Transact(func(tx *account.Tx) error {
			p.dispatcher.DropGrant(time.Now(), g)
			return p.deferrals.DeferURL(tx, rec, state.PlaceRAM, time.Now().Add(wait), state.ReasonUnconfirmed)
		})
	}
	if p.orders.any() || p.sites.TooDeep(rec) {
		if ended, err := p.endIfUnwanted(g, rec); ended || err != nil {
			return nil, err
		}
	}
	if p.health.Doubted(g.Item.Host) {
		p.outages.Anticipate(g.Addr)
	}
	began := time.Now()
	limits, codings := p.sitemaps.TermsOf(rec)
	known, err := visit.HistoryOf(rec)
	if err != nil {
		return nil, err
	}
	err = p.fetcher.Exchange(ctx, g, weburl.Split(rec.URL), resp, limits, codings, &known, p.fetcher.SourceOf(rec))
	if ctx.Err() != nil {
		return nil, nil // stays in RAM: the last checkpoint has it
	}
	result := &page.result
	*result = ending{Result: p.fetcher.Result(g, resp, err), sent: resp.BytesWritten, link: fetcher.LinkOf(resp, err)}
	if errors.Is(err, inforce.ErrBlocked) {
		return nil, p.settle(g, result, func(tx *account.Tx) error { return p.deferrals.DropBlocked(tx, g.Item) })
	}
	if panicked := bug.As(err); panicked != nil {
		return nil, p.endByBug(g, rec, panicked, result)
	}
	var fe *fetch.Error
	if err == nil && outage.CutOff(resp) || errors.As(err, &fe) && outage.Doubtful(fe) {
		again := rec.Flags&weburl.FlagUnconfirmed != 0
		network := p.outages.Source(g.Addr)
		if !p.outages.Confirmed(again, p.health.Doubted(g.Item.Host), began, network) && mayBeOurs(rec) {
			return nil, p.unconfirmed(g, rec, sum, result)
		}
	}
	rec.Flags &^= weburl.FlagUnconfirmed
	if err != nil {
		return nil, p.exchangeFailed(g, rec, sum, err, result)
	}
	if panicked := bug.Contained(func() error { page.event = gate.EventOf(rec, resp); return nil }); panicked != nil {
		return nil, p.endByBug(g, rec, panicked, result)
	}
	if why := retried(page.event); why != state.ReasonNone && int(rec.Attempts) < p.opt.Health.Retries {
		return nil, p.retry(g, rec, sum, page.event, why, result)
	}
	return page, nil
}

// mayBeOurs returns false for a URL that has failed again, and in total so often that its failures count
// whatever the state of the network.
func mayBeOurs(rec *weburl.Record) bool {
	return rec.Flags&weburl.FlagUnconfirmed == 0 || rec.Faults < maxOurFaults
}

// retried returns why a URL gets another attempt after a response: the server answered that requests came
// too fast, or a proxy got no answer from the server (502, 504). It returns ReasonNone for all others.
// Another 5xx may concern one broken page, so it is the URL's final response, although the host backs off.
func retried(e health.Event) state.Reason {
	switch {
	case e.Kind == health.TooFast:
		return state.ReasonTooMany
	case e.Kind == health.ServerError && (e.Status == http.StatusBadGateway || e.Status == http.StatusGatewayTimeout):
		return state.ReasonServerError
	}
	return state.ReasonNone
}

// backedOffSinceAdmit defers or refuses a granted URL if its host has entered back-off or was given up since
// the URL was admitted.
func (p *pageStage) backedOffSinceAdmit(g *polite.Grant, rec *weburl.Record) (moved bool, _ error) {
	if p.health.IsClean(g.Item.Host) {
		return false, nil
	}
	err := p.Transact(func(tx *account.Tx) (err error) {
		if moved, err = p.health.DeferInBackoff(tx, g.Item.Host, rec, state.PlaceRAM, nil); moved {
			p.dispatcher.DropGrant(time.Now(), g)
		} else {
			tx.Nothing = true
		}
		return err
	})
	return moved, err
}

// endIfUnwanted ends a granted URL whose exchange is no longer wanted: it was enqueued and has been fetched meanwhile
// (MetOrder), or its site has another max-depth.
func (p *pageStage) endIfUnwanted(g *polite.Grant, rec *weburl.Record) (ended bool, _ error) {
	err := p.Transact(func(tx *account.Tx) (err error) {
		if ended = p.sites.TooDeep(rec); ended {
			err = p.deferrals.Refuse(tx, rec, state.PlaceRAM, state.ReasonDepth)
		} else {
			ended, err = p.deferrals.MetOrder(tx, rec, state.PlaceRAM)
		}
		if tx.Nothing = !ended; ended {
			p.dispatcher.DropGrant(time.Now(), g)
		}
		return err
	})
	return ended, err
}

// exchangeFailed decides whether a URL whose exchange failed gets another attempt or is refused.
func (p *pageStage) exchangeFailed(g *polite.Grant, rec *weburl.Record, sum *robots.Summary, err error,
	result *ending) error {
	var fe *fetch.Error
	if !errors.As(err, &fe) {
		return err
	}
	var spoolErr *fetcher.SpoolError
	if errors.As(err, &spoolErr) && !spoolErr.Passes() {
		return err
	}
	if fe.Ours() && fe.Kind != fetch.KindNoRoute && rec.Faults < maxOurFaults {
		if spoolErr != nil {
			return p.deferLarge(g, rec, result)
		}
		rec.Faults++
		due := time.Now().Add(p.faultWaits.ourFault)
		return p.settle(g, result, func(tx *account.Tx) error {
			return p.deferrals.DeferURL(tx, rec, state.PlaceRAM, due, state.ReasonConnect)
		})
	}
	why := reasonOf(fe)
	if fe.Stage == fetch.StageDial && fe.Kind != fetch.KindForbiddenAddress {
		result.ServerBackoff = p.opt.Politeness.ServerDelay
	}
	noRequest := why == state.ReasonForbiddenAddress || why == state.ReasonForbiddenPort ||
		fe.Kind == fetch.KindBadRequest
	if !noRequest && rec.Flags&weburl.FlagSeedFallback == 0 && int(rec.Attempts) < p.opt.Health.Retries {
		return p.retry(g, rec, sum, gate.FailureOf(fe), why, result)
	}
	tls := fetcher.BadTLS(result.link.Verdict, err)
	return p.settle(g, result, func(tx *account.Tx) error {
		tx.AttemptFailed(why)
		tx.TLS = tls
		if !noRequest { // without a request the failure does not concern the host
			v, err := p.health.Note(tx, g.Item.Host, rec, &sum.Health, gate.FailureOf(fe))
			if err != nil {
				return err
			}
			result.rest(v)
		}
		return p.deferrals.Refuse(tx, rec, state.PlaceRAM, why)
	})
}

func reasonOf(e *fetch.Error) state.Reason {
	switch e.Kind {
	case fetch.KindForbiddenAddress:
		return state.ReasonForbiddenAddress
	case fetch.KindForbiddenPort:
		return state.ReasonForbiddenPort
	case fetch.KindTimeout:
		return state.ReasonTimeout
	case fetch.KindReset, fetch.KindEmptyReply:
		return state.ReasonReset
	case fetch.KindTLS:
		return state.ReasonTLS
	case fetch.KindCertificate:
		return state.ReasonCertificate
	case fetch.KindBadHead:
		return state.ReasonBadResponse
	case fetch.KindHeadTooLarge:
		return state.ReasonHeadTooLarge
	}
	return state.ReasonConnect
}

// retry defers the URL for another attempt while its host backs off. If the host was given up now, the URL
// is refused.
func (p *pageStage) retry(g *polite.Grant, rec *weburl.Record, sum *robots.Summary, e health.Event,
	why state.Reason, result *ending) error {
	rec.Attempts++
	failed := why
	return p.settle(g, result, func(tx *account.Tx) error {
		tx.AttemptFailed(failed)
		v, err := p.health.Note(tx, g.Item.Host, rec, &sum.Health, e)
		if err != nil {
			return err
		}
		if result.rest(v); v.End != health.Open {
			return p.deferrals.Refuse(tx, rec, state.PlaceRAM, gate.EndReason(v.End))
		}
		tx.Count(state.CountRetries, 1)
		if v.Why != health.BackOff {
			why = gate.BackoffReason(&health.State{}, v.Why)
		}
		return p.deferrals.DeferURL(tx, rec, state.PlaceRAM, time.Now().Add(v.Rest), why)
	})
}

// settle ends an exchange in one transaction: it runs f and ends the grant.
func (p *pageStage) settle(g *polite.Grant, result *ending, f func(tx *account.Tx) error) error {
	return p.Transact(func(tx *account.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		tx.Count(state.CountBytesSent, result.sent)
		result.link.Count(tx)
		p.polite.Done(time.Now(), g, result.Result)
		if result.Backoff >= health.Short {
			if err := p.health.Clear(tx, g.Item.Host, result.health); err != nil {
				return err
			}
		}
		p.seen.wake(tx)
		p.budgets.wake(tx)
		p.check.Wake(tx)
		return nil
	})
}

// unconfirmed defers a URL for another attempt after a failure that may be ours. Nothing counts against its
// host.
func (p *pageStage) unconfirmed(g *polite.Grant, rec *weburl.Record, sum *robots.Summary, result *ending) error {
	rec.Flags |= weburl.FlagUnconfirmed
	if !p.outages.InOutage() {
		rec.Faults = min(rec.Faults, math.MaxUint8-1) + 1
	}
	wait := max(p.outages.ConfirmWait(), p.outages.Hold(g.Item.Host, time.Now()))
	result.Backoff = wait
	return p.settle(g, result, func(tx *account.Tx) error {
		tx.Count(state.CountUnconfirmed, 1)
		p.health.Doubt(g.Item.Host, &sum.Health)
		return p.deferrals.DeferURL(tx, rec, state.PlaceRAM, time.Now().Add(wait), state.ReasonUnconfirmed)
	})
}

// retryWaits are the waits after failures that may be ours.
type retryWaits struct {
	outage.Waits
	ourFault time.Duration // before another attempt of a URL after a fault of this machine
}

// makeWaits returns the default waits, which a test may change.
func (o *Options) makeWaits() retryWaits {
	w := retryWaits{Waits: outage.DefaultWaits(), ourFault: ourFaultPause}
	if o.tests.tuneWaits != nil {
		o.tests.tuneWaits(&w)
	}
	return w
}
