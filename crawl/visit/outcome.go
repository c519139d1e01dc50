package visit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/gate"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/outage"
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
	// OurFaultPause is the wait of a URL after a fault on our side, which does not count against its host.
	OurFaultPause = 5 * time.Second
	// maxOurFaults limits the number of such waits for a URL. After that its failures count as the site's.
	maxOurFaults = 200
)

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
// means that a storer does the part after the exchange and calls Ended; next is then the grant of another
// URL, or nil.
func (s *Stage) Visit(ctx context.Context, g *polite.Grant) (landed bool, next *polite.Grant, _ error) {
	resp := s.others.Buffers.Response()
	page, err := s.exchangeOne(ctx, g, resp)
	if page == nil || err != nil {
		s.others.Buffers.Release(resp)
		return false, nil, err
	}
	if landed, next = s.land(ctx, page); landed {
		return true, next, nil
	}
	defer s.others.Buffers.Release(resp)
	return false, nil, s.store(ctx, page)
}

// exchangeOne does the exchange of a granted URL. It returns its final response, or nil if the URL has none
// and another transaction took it.
func (s *Stage) exchangeOne(ctx context.Context, g *polite.Grant, resp *fetch.Response) (*arrival, error) {
	page := &arrival{grant: g, resp: resp}
	rec, sum := &page.rec, &page.sum
	if err := rec.Decode(g.Item.Rec); err != nil {
		return nil, fmt.Errorf("crawl: record in RAM: %w", err)
	}
	if err := sum.Decode(rec.Extra); err != nil {
		return nil, fmt.Errorf("crawl: record in RAM: %w", err)
	}
	if ended, err := s.endBefore(g, rec, sum); ended || err != nil {
		return nil, err
	}
	if s.health.Doubted(g.Item.Host) {
		s.outages.Anticipate(g.Addr)
	}
	began := time.Now()
	limits, codings := s.sitemaps.TermsOf(rec)
	known, err := state.HistoryOf(rec)
	if err != nil {
		return nil, err
	}
	sig, err := s.fetcher.Exchange(ctx, g, weburl.Split(rec.URL), resp, limits, codings, &known,
		s.fetcher.SourceOf(rec))
	if ctx.Err() != nil {
		return nil, nil // stays in RAM: the last checkpoint has it
	}
	result := &page.result
	*result = ending{Result: s.fetcher.Result(g, resp, err), sent: resp.BytesWritten,
		link: fetcher.LinkOf(resp, sig, err)}
	if errors.Is(err, inforce.ErrBlocked) {
		return nil, s.settle(g, result, func(tx *account.Tx) error {
			return s.others.Deferrals.DropBlocked(tx, g.Item)
		})
	}
	if panicked := bug.As(err); panicked != nil {
		return nil, s.endByBug(g, rec, panicked, result)
	}
	var fe *fetch.Error
	if err == nil && outage.CutOff(resp) || errors.As(err, &fe) && outage.Doubtful(fe) {
		again := rec.Flags&weburl.FlagUnconfirmed != 0
		network := s.outages.Source(g.Addr)
		if !s.outages.Confirmed(again, s.health.Doubted(g.Item.Host), began, network) && mayBeOurs(rec) {
			return nil, s.unconfirmed(g, rec, sum, result)
		}
	}
	rec.Flags &^= weburl.FlagUnconfirmed
	if sig.Again && int(rec.Attempts) <= s.opt.Retries {
		return nil, s.signNow(g, rec, resp, result)
	}
	if err != nil {
		return nil, s.exchangeFailed(g, rec, sum, err, result)
	}
	if panicked := bug.Contained(func() error { page.event = gate.EventOf(rec, resp); return nil }); panicked != nil {
		return nil, s.endByBug(g, rec, panicked, result)
	}
	if why := retried(page.event); why != state.ReasonNone && int(rec.Attempts) < s.opt.Retries {
		return nil, s.retry(g, rec, sum, page.event, why, result)
	}
	return page, nil
}

// endBefore ends a granted URL that is not to be fetched now: another transaction takes it.
func (s *Stage) endBefore(g *polite.Grant, rec *weburl.Record, sum *robots.Summary) (ended bool, err error) {
	if s.check.VerdictEnded(rec.URL, sum, time.Now()) { // it waited too long for its grant
		return true, s.run.Transact(func(tx *account.Tx) error {
			s.others.Grants.DropGrant(time.Now(), g)
			return s.check.CheckRobots(tx, g.Item.Rec, rec, state.PlaceRAM)
		})
	}
	if moved, err := s.backedOffSinceAdmit(g, rec); moved || err != nil {
		return moved, err
	}
	if wait := s.outages.Hold(g.Item.Host, time.Now()); wait > 0 {
		return true, s.run.Transact(func(tx *account.Tx) error {
			s.others.Grants.DropGrant(time.Now(), g)
			return s.others.Deferrals.DeferURL(tx, rec, state.PlaceRAM, time.Now().Add(wait), state.ReasonUnconfirmed)
		})
	}
	if s.others.Orders.Any() || s.opt.Sites.TooDeep(rec) {
		return s.endIfUnwanted(g, rec)
	}
	return false, nil
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
func (s *Stage) backedOffSinceAdmit(g *polite.Grant, rec *weburl.Record) (moved bool, _ error) {
	if s.health.IsClean(g.Item.Host) {
		return false, nil
	}
	err := s.run.Transact(func(tx *account.Tx) (err error) {
		if moved, err = s.health.DeferInBackoff(tx, g.Item.Host, rec, state.PlaceRAM, nil); moved {
			s.others.Grants.DropGrant(time.Now(), g)
		} else {
			tx.Nothing = true
		}
		return err
	})
	return moved, err
}

// endIfUnwanted ends a granted URL whose exchange is no longer wanted: it was enqueued and has been fetched
// meanwhile (MetOrder), or its site has another max-depth.
func (s *Stage) endIfUnwanted(g *polite.Grant, rec *weburl.Record) (ended bool, _ error) {
	err := s.run.Transact(func(tx *account.Tx) (err error) {
		if ended = s.opt.Sites.TooDeep(rec); ended {
			err = s.others.Deferrals.Refuse(tx, rec, state.PlaceRAM, state.ReasonDepth)
		} else {
			ended, err = s.others.Deferrals.MetOrder(tx, rec, state.PlaceRAM)
		}
		if tx.Nothing = !ended; ended {
			s.others.Grants.DropGrant(time.Now(), g)
		}
		return err
	})
	return ended, err
}

// exchangeFailed decides whether a URL whose exchange failed gets another attempt or is refused.
func (s *Stage) exchangeFailed(g *polite.Grant, rec *weburl.Record, sum *robots.Summary, err error,
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
			return s.deferLarge(g, rec, result)
		}
		rec.Faults++
		due := time.Now().Add(s.opt.OurFault)
		return s.settle(g, result, func(tx *account.Tx) error {
			return s.others.Deferrals.DeferURL(tx, rec, state.PlaceRAM, due, state.ReasonConnect)
		})
	}
	why := reasonOf(fe)
	if fe.Stage == fetch.StageDial && fe.Kind != fetch.KindForbiddenAddress {
		result.ServerBackoff = s.opt.ServerDelay
	}
	noRequest := why == state.ReasonForbiddenAddress || why == state.ReasonForbiddenPort ||
		fe.Kind == fetch.KindBadRequest
	if !noRequest && rec.Flags&weburl.FlagSeedFallback == 0 && int(rec.Attempts) < s.opt.Retries {
		return s.retry(g, rec, sum, gate.FailureOf(fe), why, result)
	}
	tls := fetcher.BadTLS(result.link.Verdict, err)
	return s.settle(g, result, func(tx *account.Tx) error {
		tx.AttemptFailed(why)
		tx.TLS = tls
		if !noRequest { // without a request the failure does not concern the host
			v, err := s.health.Note(tx, g.Item.Host, rec, &sum.Health, gate.FailureOf(fe))
			if err != nil {
				return err
			}
			result.rest(v)
		}
		return s.others.Deferrals.Refuse(tx, rec, state.PlaceRAM, why)
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
func (s *Stage) retry(g *polite.Grant, rec *weburl.Record, sum *robots.Summary, e health.Event,
	why state.Reason, result *ending) error {
	rec.Attempts++
	failed := why
	return s.settle(g, result, func(tx *account.Tx) error {
		tx.AttemptFailed(failed)
		v, err := s.health.Note(tx, g.Item.Host, rec, &sum.Health, e)
		if err != nil {
			return err
		}
		if result.rest(v); v.End != health.Open {
			return s.others.Deferrals.Refuse(tx, rec, state.PlaceRAM, gate.EndReason(v.End))
		}
		tx.Count(state.CountRetries, 1)
		if v.Why != health.BackOff {
			why = gate.BackoffReason(&health.State{}, v.Why)
		}
		return s.others.Deferrals.DeferURL(tx, rec, state.PlaceRAM, time.Now().Add(v.Rest), why)
	})
}

// signNow defers a URL whose site asked for a signature, until the site's Retry-After. Nothing counts against the host:
// it has not yet refused what it asked for.
func (s *Stage) signNow(g *polite.Grant, rec *weburl.Record, resp *fetch.Response, result *ending) error {
	rec.Attempts++
	wait := fetcher.RetryAfter(resp, time.Now())
	result.Backoff = wait
	return s.settle(g, result, func(tx *account.Tx) error {
		tx.Count(state.CountRetries, 1)
		due := time.Now().Add(wait)
		return s.others.Deferrals.DeferURL(tx, rec, state.PlaceRAM, due, state.ReasonSignature)
	})
}

// settle ends an exchange in one transaction: it runs f and ends the grant.
func (s *Stage) settle(g *polite.Grant, result *ending, f func(tx *account.Tx) error) error {
	return s.run.Transact(func(tx *account.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		tx.Count(state.CountBytesSent, result.sent)
		result.link.Count(tx)
		s.others.Grants.Done(g, result.Result)
		if result.Backoff >= health.Short {
			if err := s.health.Clear(tx, g.Item.Host, result.health); err != nil {
				return err
			}
		}
		s.others.Wake(tx)
		s.check.Wake(tx)
		return nil
	})
}

// unconfirmed defers a URL for another attempt after a failure that may be ours. Nothing counts against its
// host.
func (s *Stage) unconfirmed(g *polite.Grant, rec *weburl.Record, sum *robots.Summary, result *ending) error {
	rec.Flags |= weburl.FlagUnconfirmed
	if !s.outages.InOutage() {
		rec.Faults = min(rec.Faults, math.MaxUint8-1) + 1
	}
	wait := max(s.outages.ConfirmWait(), s.outages.Hold(g.Item.Host, time.Now()))
	result.Backoff = wait
	return s.settle(g, result, func(tx *account.Tx) error {
		tx.Count(state.CountUnconfirmed, 1)
		s.health.Doubt(g.Item.Host, &sum.Health)
		return s.others.Deferrals.DeferURL(tx, rec, state.PlaceRAM, time.Now().Add(wait), state.ReasonUnconfirmed)
	})
}

// endByBug refuses a URL whose response made this program panic, so that no later run fetches it again. The
// panic does not count against the host.
func (s *Stage) endByBug(g *polite.Grant, rec *weburl.Record, panicked error, result *ending) error {
	s.run.LogBug(string(rec.URL), panicked)
	return s.settle(g, result, func(tx *account.Tx) error {
		tx.AttemptFailed(state.ReasonInternal)
		tx.Count(state.CountInternalErrors, 1)
		return s.others.Deferrals.Refuse(tx, rec, state.PlaceRAM, state.ReasonInternal)
	})
}

// spoolWait is the wait of a URL whose body found no spool or no space.
const spoolWait = 10 * time.Minute

// deferLarge defers a URL whose body found no spool or no space. Nothing counts against its host.
func (s *Stage) deferLarge(g *polite.Grant, rec *weburl.Record, result *ending) error {
	rec.Faults++
	return s.settle(g, result, func(tx *account.Tx) error {
		due := time.Now().Add(spoolWait)
		return s.others.Deferrals.DeferURL(tx, rec, state.PlaceRAM, due, state.ReasonUnconfirmed)
	})
}

// fits reports whether the records of a page fit. If they do not, the page is deferred.
func (s *Stage) fits(w *Worker) bool {
	texts := int64(0)
	for i := range w.Links.Tuples {
		texts += int64(len(w.Links.Tuples[i].Aux))
	}
	return s.space.Fits(int64(w.Prepared.Bytes()), int64(len(w.Links.Keys)), texts)
}

// deferForRoom defers a page whose records do not fit. Nothing counts against its host.
func (s *Stage) deferForRoom(page *arrival) error {
	rec := &page.rec
	return s.settle(page.grant, &page.result, func(tx *account.Tx) error {
		due := time.Now().Add(spoolWait)
		return s.others.Deferrals.DeferURL(tx, rec, state.PlaceRAM, due, state.ReasonUnconfirmed)
	})
}
