package gate

import (
	"context"
	"fmt"
	"math/bits"
	"runtime/debug"
	"sync/atomic"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/pass"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/space"
	"drumbeat/crawl/stock"
	"drumbeat/drum"
	"drumbeat/fetch"
	"drumbeat/internal/bug"
	"drumbeat/internal/health"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Check is RobotsCache. It decides about each URL from what is known of its origin: the URL moves to
// Q, to QR, or to the deferred URLs, or it is refused.
//
// Producers: BEAST (ReadBeast), QR (ReadAwaiting), deferred and held URLs (ReadDeferred, ReleaseHeld), and
// Q and RAM, when a queued URL needs a new decision (takeReady, exchangeOne, DropBlocked). Consumer: its
// goroutine "robotscache", which merges. One goroutine handles a bucket of RobotsCache at a time, so checks
// and updates of an origin keep their order.
type Check struct {
	run         *account.Run
	saved       *state.Saved
	opt         *Options
	others      Others
	RobotsCache *drum.Drum // the owner opens it with RobotsStore
	wakeRobots  account.Signal
	merges      *pass.Merger // its Waker
	roundNow    atomic.Int64 // Unix second at which the last pass began

	health   *Hosts
	passes   *pass.Runner
	requests requester
	space    *space.Keeper
	stock    *stock.Keeper
}

// requester is what Check needs of Requests.
type requester interface {
	requestRobots(tx *account.Tx, rec *weburl.Record, d robots.Decision, seen uint64) error
	verdictsMerged(before time.Time)
}

// NewCheck returns a Check, which Hosts tells what it learns. NewRequests and Wire must give it the other
// stages before a run.
func NewCheck(run *account.Run, saved *state.Saved, opt *Options, h *Hosts, p *pass.Runner, k *space.Keeper,
	s *stock.Keeper) *Check {
	c := &Check{run: run, saved: saved, opt: opt, health: h, passes: p, space: k, stock: s,
		wakeRobots: run.PulsedSignal()}
	c.roundNow.Store(time.Now().Unix())
	h.learn = c.learn
	return c
}

// applyRobots applies the tuples of one origin in order of arrival. Updates change what is known of the
// origin. Checks are decided by what is known at their position.
func (k *Check) applyRobots(key drum.Key, old []byte, exists bool, run []drum.Item, a *drum.Arena,
	dst []byte) ([]byte, drum.Action) {
	var known robots.HostData
	if exists {
		if err := known.Decode(old); err != nil {
			k.run.Fail(fmt.Errorf("crawl: RobotsCache: unreadable data of origin %x; run drumbeat repair: %w", key,
				err))
			known = robots.HostData{}
		}
	}
	now := time.Unix(k.roundNow.Load(), 0)
	changed := known.Health.Correct(now)
	var sums summaries
	for i := range run {
		it := &run[i]
		if it.Op == drum.Update {
			known, changed, sums = k.update(key, &known, it.Value, now), true, summaries{}
			continue
		}
		var rec weburl.Record
		if rec.Decode(it.Value) != nil {
			it.Result = uint64(decisionUnreadable)
			continue
		}
		decision, at, ok := k.decide(&known, &rec, now)
		if !ok {
			it.Result = uint64(refusal(state.ReasonInternal))
			continue
		}
		if n := len(known.Addrs()); n > 0 && k.opt.Rules.Closed(known.Addrs()) && now.Before(known.AddrExpires) {
			it.Result = uint64(decisionBlocked)
			continue
		} else if decision == robots.Forbidden && (n > 0 || !k.others.Flags.SinceFlags(known.Fetched, now)) {
			// The verdict came from the blacklist (endBlocked) or from the flags of an earlier run.
			decision = robots.Request
		}
		it.Result = uint64(decision)
		switch decision {
		case robots.Wait, robots.Backoff:
			it.Result = uint64(k.waitVerdict(&known, decision, at, now))
		case robots.Request, robots.Resolve, robots.Reserve:
			it.Result = uint64(ask(decision, answerToken(&known)))
		case robots.Allow:
			if limit := k.opt.Health.MaxPagesPerHost; limit > 0 && rec.Flags&weburl.FlagCounted == 0 {
				if known.Pages >= limit {
					it.Result = uint64(refusal(state.ReasonHostPages))
					continue
				}
				known.Pages++
				it.Result, changed = uint64(allowance(true)), true
			}
			it.Out = sums.of(k, &known, &rec, a)
		}
	}
	if !changed {
		return dst, drum.Keep
	}
	return known.Append(dst), drum.Set
}

// summaries makes those of URLs of one origin. Most URLs share one.
type summaries struct {
	statement robots.Statement // of the last one
	last      []byte
}

// of returns the summary for a URL.
func (s *summaries) of(k *Check, known *robots.HostData, rec *weburl.Record, a *drum.Arena) []byte {
	l, err := known.Statement(weburl.Split(rec.URL).Path)
	if err != nil {
		k.run.Fail(fmt.Errorf("crawl: RobotsCache: data of the origin of %s; run drumbeat repair: %w", rec.URL, err))
	}
	if s.last != nil && s.statement == l {
		return s.last
	}
	var buf, room [robots.MaxSummary]byte
	sum := known.Summary()
	sum.SetStatement(&l, buf[:0])
	coded := sum.Append(room[:0])
	s.statement, s.last = l, a.Bytes(len(coded))
	copy(s.last, coded)
	return s.last
}

// tlsWait is how long URLs wait if TLS failed the last time that robots.txt was requested, and something has
// failed since. A server whose certificate cannot be read, or that shares no version with us, does not change
// by itself, so the RFC's 30 days are too long; the operator of a site with a new certificate sees such a
// fault within a day.
const tlsWait = 24 * time.Hour

// robotsPatience returns how long the URLs of an origin wait for its robots.txt, 0 for ever, and the reason
// why they are refused then. A connection that ends during the handshake may be that of a busy server.
func (k *Check) robotsPatience(h *robots.HostData) (most time.Duration, why state.Reason) {
	most, why = k.opt.Health.RobotsWait, state.ReasonRobotsUnavailable
	if h.TLS == "" || h.TLS == fetch.TLSClosed || most == 0 {
		return most, why
	}
	if _, bad := state.TLSBadOf(h.TLS); bad {
		return min(most, tlsWait), state.ReasonCertificate
	}
	return min(most, tlsWait), state.ReasonTLS
}

// waitVerdict returns the verdict on a URL that must wait. It is a refusal if robots.txt has failed for robotsPatience.
func (k *Check) waitVerdict(h *robots.HostData, decision robots.Decision, at, now time.Time) verdict {
	why := state.ReasonRobotsUnavailable
	if decision == robots.Backoff {
		_, rest, _ := h.Health.InBackoff(now)
		why = BackoffReason(&h.Health, rest)
	} else if most, reason := k.robotsPatience(h); most > 0 && !h.FailingSince.IsZero() &&
		now.Sub(h.FailingSince) >= most {
		return refusal(reason)
	}
	return waitUntil(decision, why, at)
}

// answerToken returns a token that changes with each answer of an origin. RobotsRequested compares it with
// the token of the last request. If they differ, the URL was decided after that request was answered, so a
// new request is due. One goroutine applies a bucket of RobotsCache in order, so the tokens of an origin
// reach RobotsRequested in the order of the answers.
func answerToken(h *robots.HostData) uint64 {
	if h.State == robots.StateNone {
		return (mostWait - shortestWait) << tokenWait
	}
	seconds := func(t time.Time) uint64 {
		if t.IsZero() {
			return 0
		}
		return uint64(t.Unix())
	}
	t := seconds(h.Fetched) + 3*seconds(h.RetryAt)<<1 + 5*seconds(h.AddrExpires)<<2 + uint64(h.Failures)<<40
	if len(h.Reservations) > 0 {
		t += 7 << 3
	}
	t = max(t, 1) << tokenTime & (1<<tokenBits - 1)
	t |= uint64(longestWait(h)-shortestWait) << tokenWait
	if h.Failures > 0 {
		t |= tokenFailing
	}
	if h.State == robots.StateRules || h.State == robots.StateNoFile || len(h.Addrs()) > 0 {
		t |= tokenKnown
	}
	return t
}

// These are the bits of a token.
const (
	tokenFailing = 1 << iota // the last request failed
	tokenKnown               // the name had an address

	tokenWait     = 2 // lowest bit of longestWait minus shortestWait
	tokenWaitMask = 7
	tokenTime     = 5 // lowest bit of a mix of the answer's times
)

// A URL that waits for an answer about its origin returns after 1, 2, 4 … s. The longest wait depends on
// how long the answer will be valid. A URL that returned after that would find no verdict, request again
// each time, and keep the crawl from ending. Both values are binary logarithms of seconds: about 17 minutes
// and 4.5 hours.
const (
	shortestWait = 10
	mostWait     = 14
)

// longestWait returns the binary logarithm of the longest wait in seconds. An origin without any answer may
// have a million URLs, whose returns must leave room for the requests, so it gets the maximum.
func longestWait(h *robots.HostData) int {
	if h.State == robots.StateNone {
		return mostWait
	}
	if h.Failures == 0 {
		return shortestWait
	}
	binds := robots.RetryDelay(h.Failures+1) / time.Second
	return min(max(bits.Len64(uint64(binds/2))-1, shortestWait), mostWait)
}

// update applies an update. An unreadable update stops the crawl. Its checksum was valid, so this program
// cannot have written it, and without it the URLs of the origin would wait for ever.
func (k *Check) update(key drum.Key, known *robots.HostData, value []byte, now time.Time) robots.HostData {
	u, err := robots.DecodeUpdate(value)
	if err != nil {
		k.run.Fail(fmt.Errorf("crawl: RobotsCache: unreadable update of origin %x; run drumbeat repair: %w", key, err))
		return *known
	}
	return u.Apply(uint64(key), known, k.opt.Policy, k.opt.Agent, now)
}

// Arrive takes an update of an origin whose slot moves here from another node. It is part of a transaction.
func (k *Check) Arrive(tx *account.Tx, origin uint64, value []byte) error {
	if _, err := robots.DecodeUpdate(value); err != nil {
		return err
	}
	tx.Wake(k.wakeRobots)
	return k.RobotsCache.Add([]drum.Tuple{{Key: drum.Key(origin), Op: drum.Update, Value: value}})
}

// CheckRobots sends a URL to RobotsCache. It is part of a transaction. data is the encoded record. It
// refuses a URL whose port is no longer allowed or whose host has been blacklisted since it was found.
func (k *Check) CheckRobots(tx *account.Tx, data []byte, rec *weburl.Record, from state.Place) error {
	if ended, err := k.others.Deferrals.MetOrder(tx, rec, from); ended || err != nil {
		return err
	}
	if !k.opt.Links.Ports.Contains(weburl.Split(rec.URL).Port) {
		return k.others.Deferrals.Refuse(tx, rec, from, state.ReasonForbiddenPort)
	}
	if k.opt.Rules.BlockedURL(rec.URL) {
		return k.others.Deferrals.Refuse(tx, rec, from, state.ReasonBlocked)
	}
	if k.opt.Sites.TooDeep(rec) {
		return k.others.Deferrals.Refuse(tx, rec, from, state.ReasonDepth)
	}
	var buf [300]byte
	origin := weburl.AppendOrigin(buf[:0], rec.URL)
	tuple := [1]drum.Tuple{{Key: drum.Key(k.saved.Hasher.OriginKey(origin)), Op: drum.Check, Value: data}}
	if err := k.RobotsCache.Add(tuple[:]); err != nil {
		return err
	}
	key := k.saved.Hasher.URLKey(rec.URL)
	tx.MoveFor(key, from, state.PlaceRobotsCheck, state.ReasonNone, state.Reason(rec.Reason))
	k.others.Orders.Moved(key, true)
	tx.Wake(k.merges)
	return nil
}

// emitChecked handles a batch of RobotsCache's verdicts in one transaction.
func (k *Check) emitChecked(results []drum.Result) error {
	return k.run.Transact(func(tx *account.Tx) error {
		var rec weburl.Record
		for i := range results {
			res := &results[i]
			if err := rec.Decode(res.Value); err != nil {
				return fmt.Errorf("crawl: record from RobotsCache: %w", err)
			}
			if err := k.route(tx, res, &rec); err != nil {
				return err
			}
		}
		return nil
	})
}

// route moves one URL out of RobotsCache according to its verdict.
func (k *Check) route(tx *account.Tx, res *drum.Result, rec *weburl.Record) error {
	key := k.saved.Hasher.URLKey(rec.URL)
	v := verdict(res.Result)
	switch v.decision() {
	case decisionBlocked:
		return k.others.Deferrals.Refuse(tx, rec, state.PlaceRobotsCheck, state.ReasonBlocked)
	case robots.Allow:
		rec.Extra, rec.Reason = res.Out, 0
		if v.counted() {
			rec.Flags |= weburl.FlagCounted
		}
		if k.others.Orders.Waits(key) {
			if taken, err := k.others.Dispatcher.AdmitFirst(tx, rec); taken || err != nil {
				return err
			}
		}
		tx.Move(key, state.PlaceRobotsCheck, state.PlaceReady)
		return k.others.Dispatcher.Enqueue(tx, rec)
	case robots.Disallow:
		return k.others.Deferrals.Refuse(tx, rec, state.PlaceRobotsCheck, state.ReasonRobots)
	case robots.NoHost:
		return k.others.Deferrals.Refuse(tx, rec, state.PlaceRobotsCheck, state.ReasonNoHost)
	case robots.Forbidden:
		return k.others.Deferrals.Refuse(tx, rec, state.PlaceRobotsCheck, state.ReasonForbiddenAddress)
	case robots.Wait, robots.Backoff:
		if rec.Flags&weburl.FlagSeedFallback != 0 {
			return k.others.Deferrals.Refuse(tx, rec, state.PlaceRobotsCheck, state.ReasonHTTPSFallback)
		}
		return k.others.Deferrals.DeferURL(tx, rec, state.PlaceRobotsCheck, v.until(), v.reason())
	case robots.NotWelcome:
		return k.others.Deferrals.Refuse(tx, rec, state.PlaceRobotsCheck, state.ReasonNotWelcome)
	case robots.PaymentAsked:
		return k.others.Deferrals.Refuse(tx, rec, state.PlaceRobotsCheck, state.ReasonPayment)
	case robots.GivenUp:
		return k.others.Deferrals.Refuse(tx, rec, state.PlaceRobotsCheck, state.ReasonHostGivenUp)
	case decisionRefuse:
		return k.others.Deferrals.Refuse(tx, rec, state.PlaceRobotsCheck, v.reason())
	case robots.Request, robots.Resolve, robots.Reserve:
		host := k.saved.HostKey(weburl.Split(rec.URL).Host)
		if moved, err := k.health.DeferInBackoff(tx, host, rec, state.PlaceRobotsCheck, nil); moved || err != nil {
			return err // another origin of the host is in back-off
		}
		return k.requests.requestRobots(tx, rec, v.decision(), v.token())
	}
	return fmt.Errorf("crawl: RobotsCache gave result %#x for %s", res.Result, rec.URL)
}

// Wake makes RobotsCache's goroutine check for a due pass once the transaction has ended.
func (k *Check) Wake(tx *account.Tx) { tx.Wake(k.merges) }

// learn adds an update of an origin's data (robots.AppendUpdate). It is part of a transaction.
func (k *Check) learn(tx *account.Tx, origin, update []byte) error {
	tx.Wake(k.merges)
	key := drum.Key(k.saved.Hasher.OriginKey(origin))
	return k.RobotsCache.Add([]drum.Tuple{{Key: key, Op: drum.Update, Value: update}})
}

// PassWait predicts after how long the pass for one more enqueued URL has ended: at once, or, if passes take
// long, at most when the last one was long enough ago.
func (k *Check) PassWait() time.Duration {
	cost := k.RobotsCache.Stats().PredictedEarly
	if pass.Worthwhile(cost, 1) {
		return cost
	}
	return cost + min(pass.UrgentDuty*cost, pass.UrgentPatience)
}

// BufferedBytes implements space.Store.
func (k *Check) BufferedBytes() int64 { return k.opt.Plan.RobotsCache.BufferedIn(k.RobotsCache) }

// UnsavedBytes implements space.Store.
func (k *Check) UnsavedBytes() int64 { return k.RobotsCache.UnsavedBytes() }

// Empty reports whether no check or update waits for a pass.
func (k *Check) Empty() bool { n, _ := k.RobotsCache.Pending(); return n == 0 }

// RobotsStore returns the options of RobotsCache. It emits checks to emitChecked.
func (k *Check) RobotsStore() drum.Options {
	o := k.opt.Plan.RobotsCache.Shaped(plan.RobotsShape())
	o.Set, o.Name, o.Reserve = k.saved.Set, state.NameRobotsCache, k.space.Reserve
	o.Apply, o.Emit = k.applyRobots, k.emitChecked
	o.Wanted = func(res *drum.Result) bool { return res.Op == drum.Check }
	if k.opt.Health.RobotsForget > 0 {
		o.Expunge = k.forgetRobots
	}
	return o
}

// MergeRobotsCache runs the passes of RobotsCache until ctx ends.
func (k *Check) MergeRobotsCache(ctx context.Context) error { return k.passes.Run(ctx, k.merges) }

// OpenMerger describes the passes of RobotsCache.
func (k *Check) OpenMerger() *pass.Merger {
	low := int64(2 * k.opt.Network.Connections)
	k.merges = &pass.Merger{
		Passes: k.passes,
		Name:   state.NameRobotsCache,
		Pass: func(ctx context.Context, early bool) (int, error) {
			began := time.Now()
			k.roundNow.Store(began.Unix())
			n, err := k.RobotsCache.Pass(ctx, early)
			if err == nil && early { // a pass over full buckets leaves tuples in the others
				k.requests.verdictsMerged(began)
			}
			return n, err
		},
		Full:    k.RobotsCache.Full,
		Pending: pass.PendingTuples(k.RobotsCache),
		Bytes:   pass.PendingBytes(k.RobotsCache),
		Keys:    k.RobotsCache.Keys,
		Cost:    func() time.Duration { return k.RobotsCache.Stats().PredictedEarly },
		Early: func() bool {
			return k.others.Orders.AnyUrgent() || k.run.Accounts.In(state.PlaceReady, state.PlaceRAM) < low ||
				k.others.Dispatcher.Exchanges() < int64(k.opt.Network.Connections)/2 || k.stock.Aim().Idle
		},
		Starving: k.passes.StarvingForVerdicts,
		Idle: func() bool {
			return k.run.Accounts.In(state.PlaceReady, state.PlaceRAM) < int64(k.opt.Network.Connections)/8
		},
		Urgent: k.others.Orders.AnyUrgent,
		Wake:   k.wakeRobots,
	}
	return k.merges
}

// decide calls HostData.Decide for the path of a URL. The rules come from the site; if they cause a panic,
// decide logs it and ok is false.
func (k *Check) decide(known *robots.HostData, rec *weburl.Record,
	now time.Time) (d robots.Decision, at time.Time, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			k.run.LogBug(string(rec.URL), &bug.Error{Value: p, Stack: debug.Stack()})
			ok = false
		}
	}()
	if k.opt.Reading != nil {
		k.opt.Reading("rules", rec.URL)
	}
	parts := weburl.Split(rec.URL)
	site := k.opt.Sites.Of(&parts)
	own := site != nil && site.IgnoreRobots
	d, at = known.DecideFor(parts.Path, now, own)
	switch d {
	case robots.Allow, robots.Disallow, robots.Resolve:
		failing := known.Failures > 0
		if k.beyondLife(rec.URL, known.VerdictExpires(), known.CrawlDelay(), failing, now) {
			d = robots.Request
		}
	}
	if d == robots.Allow && k.opt.TDMRep && known.WantsReservations(own) {
		d = robots.Reserve
	}
	return d, at, true
}

// VerdictEnded reports whether RobotsCache must check a URL again before it may be fetched: at most a day
// after robots.txt was fetched (RFC 9309 2.4), but not before the next visit that the host's delay allows.
// Addresses may be as old. If they no longer answer, the next attempt looks them up again.
func (k *Check) VerdictEnded(url []byte, sum *robots.Summary, now time.Time) bool {
	return sum.VerdictExpires.Before(now) ||
		k.beyondLife(url, sum.VerdictExpires, sum.CrawlDelay, sum.Failures > 0, now)
}

// beyondLife reports whether a verdict on a URL lasts longer than one of now would: it was stored while the
// clock was ahead, or when the host's delay was longer. Its URLs and RobotsCache, which must agree, have
// robots.txt requested again. A new answer never lasts so long, so that happens once. A stale copy lasts until the
// next request, which a Retry-After may have put off.
func (k *Check) beyondLife(url []byte, expires time.Time, crawlDelay time.Duration, stale bool, now time.Time) bool {
	most := now.Add(robots.Lifetime + robots.ClockSlack)
	if stale {
		most = now.Add(health.MaxRetryAfter + robots.ClockSlack)
	}
	return expires.After(most) &&
		expires.After(now.Add(k.opt.turns(weburl.Split(url).Host, crawlDelay)+robots.ClockSlack))
}

// The paper expunges outdated records of RobotsCache. Here a merge that rewrites part of the store anyway
// leaves out the records that have been of no use for Options.Health.RobotsForget: their rules and addresses have
// expired, no retry or back-off is pending, and no URL of the origin has been checked since (a check would
// have requested the rules again). A later check finds nothing and requests robots.txt, as it would with an
// expired record. So no URL depends on when a record is dropped, and a merge that is repeated after a crash
// may drop more. URLs in QR wait for answers to numbered requests, not for records (releases.go).

// forgetRobots reports whether RobotsCache drops a record. It keeps records that still bind the crawler:
// the host refused us or was given up, or its pages are counted against a limit.
func (k *Check) forgetRobots(_ drum.Key, value []byte) bool {
	var h robots.HostData
	if h.Decode(value) != nil { // whoever needs the record reports the damage
		return false
	}
	if h.Health.End != health.Open || h.Pages > 0 && k.opt.Health.MaxPagesPerHost > 0 {
		return false
	}
	return time.Unix(k.roundNow.Load(), 0).Sub(h.Last()) >= k.opt.Health.RobotsForget
}
