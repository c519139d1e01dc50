package crawl

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/drum"
	"drumbeat/internal/health"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/weburl"
)

// robotsCheck is RobotsCache: each URL is judged by what is known of its origin, and goes on to Q, to QR, or waits, or ends.
//
// Producers: BEAST (readBeast), QR (readAwaiting), deferred URLs (readDeferred). Consumer: its goroutine "robotscache", which
// merges. The lock of a bucket of RobotsCache orders checks and updates of an origin.
type robotsCheck struct {
	*engine
	robotsCache *drum.Drum
	policy      health.Policy
	wakeRobots  signal
	roundNow    atomic.Int64 // Unix second at which the last pass began

	deferrals  *deferrals
	dispatcher *dispatcher
	health     *hostHealth
	passes     *passRunner
	requests   *robotsRequests
	space      *space
	stock      *stockKeeper
}

// applyRobots is the rule of RobotsCache: checks are judged by what the cache knows at their place in the order of
// arrival, updates change it.
func (k *robotsCheck) applyRobots(key drum.Key, old []byte, exists bool, run []drum.Item, a *drum.Arena, dst []byte) ([]byte, drum.Action) {
	var known robots.HostData
	if exists {
		if err := known.Decode(old); err != nil {
			k.fail(fmt.Errorf("crawl: RobotsCache has host data of origin %x that can't be read; run drumbeat repair: %w", key, err))
			known = robots.HostData{}
		}
	}
	now := time.Unix(k.roundNow.Load(), 0)
	changed := known.Health.Mend(now)
	var summary []byte
	for i := range run {
		it := &run[i]
		if it.Op == drum.Update {
			known, changed, summary = k.update(key, &known, it.Value, now), true, nil
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
		if n := len(known.Addrs()); n > 0 && k.rules.Closed(known.Addrs()) && now.Before(known.AddrExpires) {
			it.Result = uint64(decisionBlocked)
			continue
		} else if decision == robots.Forbidden && (n > 0 || known.Fetched.Unix() < k.deferrals.heldState.Since) {
			decision = robots.Request // the blacklist (endBlocked) or the flags of an earlier run were what forbade it
		}
		it.Result = uint64(decision)
		switch decision {
		case robots.Wait, robots.Backoff:
			it.Result = uint64(k.waits(&known, decision, at, now))
		case robots.Request, robots.Resolve:
			it.Result = uint64(ask(decision, answerToken(&known)))
		case robots.Allow:
			if limit := k.opt.MaxPagesPerHost; limit > 0 && rec.Flags&weburl.FlagCounted == 0 {
				if known.Pages >= limit {
					it.Result = uint64(refusal(state.ReasonHostPages))
					continue
				}
				known.Pages++
				it.Result, changed = uint64(allowance(true)), true
			}
			if summary == nil {
				s := known.Summary()
				var buf [robots.MaxSummary]byte
				coded := s.Append(buf[:0])
				summary = a.Bytes(len(coded))
				copy(summary, coded)
			}
			it.Out = summary
		}
	}
	if !changed {
		return dst, drum.Keep
	}
	return known.Append(dst), drum.Set
}

// waits is the result for a URL that must wait.
func (k *robotsCheck) waits(h *robots.HostData, decision robots.Decision, at, now time.Time) verdict {
	why := state.ReasonRobotsUnavailable
	if decision == robots.Backoff {
		_, rest, _ := h.Health.InBackoff(now)
		why = backoffReason(&h.Health, rest)
	} else if most := k.opt.RobotsWait; most > 0 && !h.FailingSince.IsZero() && now.Sub(h.FailingSince) >= most {
		return refusal(state.ReasonRobotsUnavailable)
	}
	return waitUntil(decision, why, at)
}

// answerToken tells the answers of an origin apart: a URL that saw another token than the last request's was judged by
// what that request brought, so a new one is due. Tokens of one origin reach RobotsRequested in the order of the answers,
// since one bucket of RobotsCache is judged in order by one goroutine.
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

// Bits of a token.
const (
	tokenFailing = 1 << iota // the last request failed
	tokenKnown               // the name had an address

	tokenWait     = 2 // from here on: longestWait, less shortestWait
	tokenWaitMask = 7
	tokenTime     = 5 // from here on: a mix of the answer's times
)

// A URL that waits for an answer about its origin comes back after 1, 2, 4 … s. Where the doubling ends depends on for how
// long the answer will bind, since a URL that comes back later than that would find no verdict, ask anew each time, and keep
// the crawl from ending. These are binary logarithms of seconds: 17 minutes, 4.5 hours.
const (
	shortestWait = 10
	mostWait     = 14
)

// longestWait is where the doubling ends. Of an origin without any answer yet there may be a million URLs, whose returns
// must leave room for the requests; if the first answer is a failure, it binds for a minute, and the URL knows on its return.
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

// update applies an update. One that can't be read stops the crawl: its checksum held, so that it is nothing that this
// program wrote, and without it the origin's URLs would wait in vain.
func (k *robotsCheck) update(key drum.Key, known *robots.HostData, value []byte, now time.Time) robots.HostData {
	u, err := robots.DecodeUpdate(value)
	if err != nil {
		k.fail(fmt.Errorf("crawl: RobotsCache has an update of origin %x that can't be read; run drumbeat repair: %w", key, err))
		return *known
	}
	return u.Apply(known, &k.policy, k.opt.Agent, now)
}

// checkRobots sends a URL to RobotsCache; part of a transaction. data is the record's coding.
// A URL whose port was allowed when it was found, but is no more, ends here, as does one whose host was blacklisted since.
func (k *robotsCheck) checkRobots(tx *transaction, data []byte, rec *weburl.Record, from state.Place) error {
	if !k.links.PortAllowed(weburl.Split(rec.URL).Port) {
		return k.deferrals.refuse(tx, rec, from, state.ReasonForbiddenPort)
	}
	if k.rules.BlockedURL(rec.URL) {
		return k.deferrals.refuse(tx, rec, from, state.ReasonBlocked)
	}
	var buf [300]byte
	origin := weburl.AppendOrigin(buf[:0], rec.URL)
	tuple := [1]drum.Tuple{{Key: drum.Key(k.Hasher.OriginKey(origin)), Op: drum.Check, Value: data}}
	if err := k.robotsCache.Add(tuple[:]); err != nil {
		return err
	}
	key := k.Hasher.URLKey(rec.URL)
	m := move{key: key, from: from, to: state.PlaceRobotsCheck, was: state.Reason(rec.Reason)}
	tx.moves = append(tx.moves, m)
	tx.wake(k.wakeRobots)
	return nil
}

// emitChecked takes RobotsCache's verdicts, one transaction for a batch.
func (k *robotsCheck) emitChecked(results []drum.Result) error {
	return k.transact(func(tx *transaction) error {
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

// judge moves one URL on from RobotsCache.
func (k *robotsCheck) route(tx *transaction, res *drum.Result, rec *weburl.Record) error {
	key := k.Hasher.URLKey(rec.URL)
	v := verdict(res.Result)
	switch v.decision() {
	case decisionBlocked:
		return k.deferrals.refuse(tx, rec, state.PlaceRobotsCheck, state.ReasonBlocked)
	case robots.Allow:
		rec.Extra, rec.Reason = res.Out, 0
		if v.counted() {
			rec.Flags |= weburl.FlagCounted
		}
		tx.move(key, state.PlaceRobotsCheck, state.PlaceReady)
		tx.wake(k.dispatcher.wakeReady)
		return k.dispatcher.ready.Append(rec.Append(nil))
	case robots.Disallow:
		return k.deferrals.refuse(tx, rec, state.PlaceRobotsCheck, state.ReasonRobots)
	case robots.NoHost:
		return k.deferrals.refuse(tx, rec, state.PlaceRobotsCheck, state.ReasonNoHost)
	case robots.Forbidden:
		return k.deferrals.refuse(tx, rec, state.PlaceRobotsCheck, state.ReasonForbiddenAddress)
	case robots.Wait, robots.Backoff:
		if rec.Flags&weburl.FlagSeedFallback != 0 {
			return k.deferrals.refuse(tx, rec, state.PlaceRobotsCheck, state.ReasonHTTPSFallback)
		}
		return k.deferrals.deferURL(tx, rec, state.PlaceRobotsCheck, v.until(), v.reason())
	case robots.NotWelcome:
		return k.deferrals.refuse(tx, rec, state.PlaceRobotsCheck, state.ReasonNotWelcome)
	case robots.GivenUp:
		return k.deferrals.refuse(tx, rec, state.PlaceRobotsCheck, state.ReasonHostGivenUp)
	case decisionRefuse:
		return k.deferrals.refuse(tx, rec, state.PlaceRobotsCheck, v.reason())
	case robots.Request, robots.Resolve:
		host := k.HostKey(weburl.Split(rec.URL).Host)
		if rests, err := k.health.inBackoff(tx, host, rec, state.PlaceRobotsCheck, nil); rests || err != nil {
			return err // another origin of the host is why
		}
		return k.requests.requestRobots(tx, rec, v.decision() == robots.Resolve, v.token())
	}
	return fmt.Errorf("crawl: RobotsCache gave result %#x for %s", res.Result, rec.URL)
}

// requestRobots asks for an origin's robots.txt or addresses and lets the URL wait: in QR the first time; a URL that came
// back from there before its answer waits on disk, longer each time.
func (q *robotsRequests) requestRobots(tx *transaction, rec *weburl.Record, addrsOnly bool, seen uint64) error {
	job := robots.Job{Origin: weburl.Origin(rec.URL), AddrsOnly: addrsOnly, Depth: rec.Depth}
	job.Failing, job.Known = seen&tokenFailing != 0, seen&tokenKnown != 0
	var value [16]byte
	binary.LittleEndian.PutUint64(value[:], uint64(time.Now().Unix()))
	binary.LittleEndian.PutUint64(value[8:], seen)
	tuple := []drum.Tuple{{Key: drum.Key(q.Hasher.OriginKey(job.Origin)), Op: drum.CheckUpdate, Value: value[:], Aux: job.Append(nil)}}
	if err := q.robotsRequested.Add(tuple); err != nil {
		return err
	}
	tx.wake(q.wakeRequested)
	if rec.Reason == uint8(state.ReasonAwaitRobots) {
		rec.Deferred()
		wait := time.Second << min(uint64(rec.Waits), seen>>tokenWait&tokenWaitMask+shortestWait)
		return q.deferrals.deferURL(tx, rec, state.PlaceRobotsCheck, time.Now().Add(wait), state.ReasonAwaitRobots)
	}
	rec.Reason = uint8(state.ReasonAwaitRobots)
	tx.move(q.Hasher.URLKey(rec.URL), state.PlaceRobotsCheck, state.PlaceAwaitRobots)
	if err := q.awaitRobots.Append(rec.Append(nil)); err != nil {
		return err
	}
	q.waiting.appended() // after the record is there: a merge that begins now may count it
	return nil
}

// requestLost is after how long without an answer a robots request is made again, though nothing says that it failed: a
// net under errors of ours, since no host may be waited for in vain.
const requestLost = 6 * 3600

// applyRequested is the rule of RobotsRequested: value = Unix second of the last request. A request is new if there was none
// since what RobotsCache knew came in.
func applyRequested(_ drum.Key, old []byte, exists bool, run []drum.Item, _ *drum.Arena, dst []byte) ([]byte, drum.Action) {
	var last, lastSeen uint64
	if exists && len(old) == 16 {
		last, lastSeen = binary.LittleEndian.Uint64(old), binary.LittleEndian.Uint64(old[8:])
	}
	changed := false
	for i := range run {
		now, seen := binary.LittleEndian.Uint64(run[i].Value), binary.LittleEndian.Uint64(run[i].Value[8:])
		if last != 0 && seen == lastSeen && now < last+requestLost && last < now+requestLost { // else the clock was ahead
			continue
		}
		run[i].New = true
		last, lastSeen, changed = now, seen, true
	}
	if !changed {
		return dst, drum.Keep
	}
	dst = binary.LittleEndian.AppendUint64(dst, last)
	return binary.LittleEndian.AppendUint64(dst, lastSeen), drum.Set
}

// emitRequested puts the origins to be asked into QD.
func (q *robotsRequests) emitRequested(results []drum.Result) error {
	return q.transact(func(tx *transaction) error {
		for i := range results {
			if !results[i].New {
				continue
			}
			if err := q.robotsFetch.Append(results[i].Aux); err != nil {
				return err
			}
			q.robotsJobs.queued()
		}
		tx.wake(q.wakeJobs)
		return nil
	})
}

// readAwaiting gives the URLs in QR back to RobotsCache once the requests that they wait for have been answered.
func (q *robotsRequests) readAwaiting(ctx context.Context) error {
	for ctx.Err() == nil {
		// A record may get into QR just after a merge that saw its tuple had counted those it covers. With no tuple left
		// unmerged, all are covered.
		mark := q.waiting.beginPass()
		if pending, _ := q.robotsRequested.Pending(); pending == 0 {
			q.waiting.endPass(mark, q.robotsJobs.issued())
		}
		n, wait := q.waiting.releasable(q.robotsJobs.finished(), time.Now())
		if n == 0 {
			q.await(ctx, q.wakeAwaiting, wait)
			continue
		}
		for ; n > 0 && ctx.Err() == nil; n-- {
			data, ok, err := q.awaitRobots.Peek()
			if err != nil {
				return err
			}
			if !ok {
				q.await(ctx, q.wakeAwaiting, pulseEvery)
				break
			}
			if err := q.transact(func(tx *transaction) error {
				var rec weburl.Record
				if err := rec.Decode(data); err != nil {
					return fmt.Errorf("crawl: record from QR: %w", err)
				}
				if err := q.check.checkRobots(tx, data, &rec, state.PlaceAwaitRobots); err != nil {
					return err
				}
				q.awaitRobots.Advance()
				q.waiting.taken()
				return nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// refuse ends a URL without a response; part of a transaction.
func (d *deferrals) refuse(tx *transaction, rec *weburl.Record, from state.Place, why state.Reason) error {
	if why == state.ReasonForbiddenAddress || why == state.ReasonForbiddenPort {
		return d.hold(tx, rec, from, why)
	}
	tx.moves = append(tx.moves, move{key: d.Hasher.URLKey(rec.URL), from: from, to: state.PlaceRefused, reason: why,
		was: state.Reason(rec.Reason)})
	d.noteProgress()
	if rec.Flags&weburl.FlagSeedFallback != 0 && why != state.ReasonRobots {
		if err := d.tryHTTPFallback(tx, rec); err != nil {
			return err
		}
	} else if rec.Flags&weburl.FlagSeed != 0 {
		d.output.logSeed(string(rec.URL), why.String())
	}
	return d.output.logRefused(rec, why)
}

// deferURL lets a URL wait on disk until due; part of a step.
func (d *deferrals) deferURL(tx *transaction, rec *weburl.Record, from state.Place, due time.Time, why state.Reason) error {
	tx.moves = append(tx.moves, move{key: d.Hasher.URLKey(rec.URL), from: from, to: state.PlaceDeferred, reason: why})
	tx.count(state.CountDeferrals, 1)
	rec.Reason, rec.Extra = uint8(why), nil
	tx.wake(d.wakeDeferred)
	now := time.Now()
	if why == state.ReasonHostBacklog || why == state.ReasonEvicted {
		due = due.Add(-lead(due.Sub(now)))
	}
	return d.deferred.Append(now, due, rec.Append(nil))
}

// lead is by how much a URL that waits for its host's turn alone comes back early: as much as the calendar may be late, so
// that the host doesn't wait for the URL. What finds no room in RAM then waits again, for a quarter of the time at most.
func lead(delay time.Duration) time.Duration { return max(0, delay/4) }

// untilDue is how long it is till a calendar's next record is due.
func untilDue(c *queue.Calendar) time.Duration {
	due, any := c.NextDue(time.Now())
	if !any {
		return wakeAfter
	}
	return max(time.Millisecond, time.Until(due))
}

// readDeferred gives URLs whose time has come back to RobotsCache.
func (d *deferrals) readDeferred(ctx context.Context) error {
	var setBack time.Duration
	for ctx.Err() == nil {
		if back := d.deferred.SetBack(); back != setBack {
			d.opt.Log.Warn("the clock was set back: what waits until a time of the former clock waits for what was left of that",
				"by", (back - setBack).Round(time.Second))
			setBack = back
		}
		if d.stock.stocked() {
			d.await(ctx, d.wakeDeferred, wakeAfter)
			continue
		}
		data, ok, err := d.deferred.Peek(time.Now())
		if err != nil {
			return err
		}
		if !ok {
			d.await(ctx, d.wakeDeferred, untilDue(d.deferred))
			continue
		}
		if err := d.transact(func(tx *transaction) error {
			var rec weburl.Record
			if err := rec.Decode(data); err != nil {
				return fmt.Errorf("crawl: record from later: %w", err)
			}
			if err := d.check.checkRobots(tx, data, &rec, state.PlaceDeferred); err != nil {
				return err
			}
			d.deferred.Advance()
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
