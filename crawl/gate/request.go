package gate

import (
	"bytes"
	"context"
	"crypto/sha1"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/outage"
	"drumbeat/crawl/output"
	"drumbeat/crawl/resolve"
	"drumbeat/fetch"
	"drumbeat/internal/bug"
	"drumbeat/internal/health"
	"drumbeat/internal/revisit"
	"drumbeat/polite"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// attempt is one request for robots.txt or tdmrep.json.
type attempt struct {
	seq     int64
	job     robots.Job
	began   time.Time
	resp    *fetch.Response
	f       robots.Fetched
	addrs   []netip.Addr
	expires time.Time // of addrs
	kind    byte
	doubt   bool // the failure may be on our side
}

// doRobots makes one request and ends it with an update of RobotsCache, whatever the outcome, or defers it.
func (q *Requests) doRobots(ctx context.Context, seq int64, rec []byte) error {
	a := attempt{seq: seq, kind: robots.UpdateOutcome}
	if err := a.job.Decode(rec); err != nil {
		return err
	}
	a.resp = q.others.Slots.Response()
	defer q.others.Slots.Release(a.resp)
	a.began = time.Now()
	if a.job.Reserve && !q.opt.TDMRep { // an earlier run wanted it
		return q.dropped(seq)
	}
	host := weburl.Split(a.job.Origin).Host
	if q.opt.Rules.BlockedHost(host) {
		return q.endBlocked(seq, &a.job, nil, time.Time{})
	}
	if ended, err := q.ask(ctx, &a, host); ended || err != nil || !q.enterRobots(ctx) {
		return err
	}
	defer q.leaveRobots()
	final := a.job.Tries >= outage.ConfirmTries || a.job.Failing // the failure counts unless there is an outage
	if a.doubt && !q.outages.Confirmed(a.job.Tries > 0, false, a.began, q.outages.Source(a.addrs[0])) &&
		(!final || q.outages.InOutage()) {
		return q.retryRobots(seq, &a.job, q.outages.InOutage())
	}
	return q.answered(&a)
}

// ask looks up the host of a request and fetches its robots.txt. ended says that the request has ended, has
// been deferred, or stays under way for the last checkpoint because ctx has ended.
func (q *Requests) ask(ctx context.Context, a *attempt, host []byte) (ended bool, err error) {
	job, f := &a.job, &a.f
	a.addrs, a.expires, err = q.outages.Lookup(ctx, host, lookupOf(job))
	if ctx.Err() != nil {
		return true, nil
	}
	f.Addrs, f.AddrExpires = a.addrs, a.expires
	var le *resolve.Error
	switch forbidden := errors.Is(err, outage.ErrForbidden); {
	case forbidden, errors.As(err, &le) && le.NotFound:
		if f.Kind, f.Vouched = robots.NoSuchHost, true; forbidden {
			f.Kind = robots.ForbiddenAddress
		}
		if isLiteral(host) || le != nil && le.Certain {
			break
		}
		var confirmed bool
		if a.kind, confirmed = q.outages.Absence(ctx, job, string(host)); ctx.Err() != nil {
			return true, nil
		} else if !confirmed {
			return true, q.retryRobots(a.seq, job, q.outages.NamesInDoubt())
		}
	case err != nil:
		f.Kind = robots.DNSFailure
		if !q.lookupConfirmed(job, a.began, le) {
			return true, q.retryRobots(a.seq, job, q.outages.NamesInDoubt())
		}
	case job.AddrsOnly:
		a.kind = robots.UpdateAddrs
	case q.opt.Rules.Closed(a.addrs):
		return true, q.endBlocked(a.seq, job, a.addrs, a.expires)
	default:
		var late *deferredError
		if a.doubt, err = q.getRobots(ctx, job, a.resp, f); errors.As(err, &late) {
			job.Waits = late.waits
			return true, q.deferRobots(a.seq, job.Append(nil), late.until, 0)
		} else if errors.Is(err, errUnconfirmed) {
			if ctx.Err() != nil {
				return true, nil
			}
			return true, q.retryRobots(a.seq, job, q.outages.InOutage())
		}
		// A host in back-off may not have been asked. That counts as a failure of robots.txt, after which both files
		// are requested.
		if job.Reserve && (f.Kind == robots.Answered || q.health.MayAsk(host) == nil) {
			a.kind = robots.UpdateReserve
		}
		// It may have been blacklisted during the request.
		if ctx.Err() == nil && (q.opt.Rules.BlockedHost(host) || q.opt.Rules.Closed(a.addrs)) {
			return true, q.endBlocked(a.seq, job, a.addrs, a.expires)
		}
	}
	return false, nil
}

// answered ends a request with its outcome.
func (q *Requests) answered(a *attempt) error {
	job, f := &a.job, &a.f
	now := time.Now()
	if f.Kind == robots.ForbiddenAddress {
		now = q.others.Flags.VerdictTime(now)
	}
	h, maps := robots.HostData{}, &sitemapBatch{}
	if a.kind == robots.UpdateReserve {
		h.Reservations = q.readReservations(job, f)
	} else {
		h, maps = q.readRobots(job, f, now)
	}
	err := q.run.Transact(func(tx *account.Tx) error {
		tx.Count(state.CountLookups, 1)
		if a.kind == robots.UpdateReserve {
			tx.Count(state.CountTDMRep, 1)
		}
		if f.Kind == robots.Internal {
			tx.Count(state.CountInternalErrors, 1)
		}
		if len(a.addrs) == 0 {
			tx.Count(state.CountLookupFailures, 1)
		}
		if err := q.check.learn(tx, job.Origin, robots.AppendUpdate(nil, a.kind, now, &h)); err != nil {
			return err
		}
		if !job.AddrsOnly {
			if err := q.logRobots(job, f, a.resp, a.began, maps); err != nil {
				return err
			}
		}
		if maps.links != nil {
			if err := q.others.SendLinks(maps.links, tx); err != nil {
				return err
			}
		}
		if job.Failing && (f.Kind == robots.Answered || a.kind == robots.UpdateAddrs) {
			// Before the request ends, for which the end of the crawl waits.
			q.comeBack.succeeded(q.saved.Hasher.OriginKey(job.Origin), time.Now())
		}
		q.robotsJobs.end(a.seq, false, time.Now())
		return nil
	})
	q.wakeAll()
	return err
}

// readRobots evaluates the outcome of a request: the data of the host, and the sitemaps that robots.txt
// names. Rules that make this program panic count as unavailable.
func (q *Requests) readRobots(job *robots.Job, f *robots.Fetched,
	now time.Time) (h robots.HostData, maps *sitemapBatch) {
	read := func() error {
		if q.opt.Reading != nil {
			q.opt.Reading("robots", job.Origin)
		}
		h = robots.Outcome(&robots.HostData{}, f, q.opt.Agent, now)
		maps = q.namedSitemaps(job, f, now)
		return nil
	}
	if panicked := bug.Contained(read); panicked != nil {
		q.run.LogBug(string(job.Origin)+"/robots.txt", panicked)
		*f = robots.Fetched{Kind: robots.Internal, Addrs: f.Addrs, AddrExpires: f.AddrExpires}
		h = robots.Outcome(&robots.HostData{}, f, q.opt.Agent, now)
		maps = q.namedSitemaps(job, f, now)
	}
	if h.State == robots.StateRules || h.State == robots.StateNoFile {
		turn := q.opt.turns(weburl.Split(job.Origin).Host, h.CrawlDelay())
		if least := now.Add(turn); h.Expires.Before(least) {
			h.Expires = least
		}
	}
	return h, maps
}

// readReservations returns the coded rules of a tdmrep.json. Without the file, a site reserves nothing.
func (q *Requests) readReservations(job *robots.Job, f *robots.Fetched) []byte {
	var r robots.Reservations
	if f.Kind == robots.Answered && f.Status/100 == 2 {
		if panicked := bug.Contained(func() error {
			if q.opt.Reading != nil {
				q.opt.Reading("reservations", job.Origin)
			}
			r = robots.ParseReservations(f.Body)
			return nil
		}); panicked != nil {
			q.run.LogBug(string(job.Origin)+robots.ReservationsPath, panicked)
			r, f.Kind = robots.Reservations{}, robots.Internal
		}
	}
	return r.Append(nil)
}

// lookupOf returns the kind of lookup that a request needs.
func lookupOf(j *robots.Job) (kind outage.LookupKind) {
	if j.Tries > 0 {
		kind = outage.LookupAgain | outage.LookupFresh
	}
	if j.Known || j.AddrsOnly {
		kind |= outage.LookupKnown
	}
	return kind
}

// lookupConfirmed reports whether a lookup without an answer counts against the name. It must not be the
// first, and other names must have been answered since it began.
func (q *Requests) lookupConfirmed(job *robots.Job, began time.Time, le *resolve.Error) bool {
	if q.outages.NamesInDoubt() || le != nil && le.Busy || job.Tries == 0 {
		return false
	}
	return job.Tries >= outage.ConfirmTries || q.outages.NamesWorkedSince(began)
}

// retryRobots defers a request whose failure is not confirmed. In an outage the attempt is not counted.
func (q *Requests) retryRobots(seq int64, job *robots.Job, outage bool) error {
	if !outage {
		job.Tries = min(job.Tries+1, robots.MaxTries)
	}
	return q.deferRobots(seq, job.Append(nil), time.Now().Add(q.outages.ConfirmWait()), 1)
}

// deferRobots makes a request wait on disk until its due time. QR treats it as finished: URLs that return
// without an answer wait on disk as well.
func (q *Requests) deferRobots(seq int64, rec []byte, until time.Time, unconfirmed int64) error {
	err := q.run.Transact(func(tx *account.Tx) error {
		tx.Count(state.CountUnconfirmed, unconfirmed)
		if err := q.RobotsDeferred.Append(time.Now(), until, queue.Usual, rec); err != nil {
			return err
		}
		q.robotsJobs.end(seq, true, time.Now())
		return nil
	})
	q.wakeJobs.Raise()
	q.wakeAwaiting.Raise()
	return err
}

// getRobots fetches the file that a job requests and follows up to robots.MaxHops redirects. Each hop
// needs its own grant. f.Body is resp's buffer. doubt reports a failure that may be on our side.
func (q *Requests) getRobots(ctx context.Context, job *robots.Job, resp *fetch.Response,
	f *robots.Fetched) (doubt bool, _ error) {
	url, err := urlOf(job)
	if err != nil {
		f.Kind = robots.NetworkFailure
		return doubt, nil
	}
	addrs := q.opt.Rules.Open(f.Addrs)
	if len(addrs) == 0 { // all addresses were blacklisted since the lookup
		f.Kind = robots.NetworkFailure
		return false, nil
	}
	return q.follow(ctx, job, url, addrs, 0, nil, resp, f)
}

// follow is getRobots for a URL to which hop redirects led. Without addrs it looks them up, as for each
// further redirect.
func (q *Requests) follow(ctx context.Context, job *robots.Job, url string, addrs []netip.Addr, hop int,
	from fetcher.Source, resp *fetch.Response, f *robots.Fetched) (doubt bool, err error) {
	for ; ; hop++ {
		if hop > robots.MaxHops {
			f.Kind = robots.TooManyRedirects
			return doubt, nil
		}
		if len(addrs) == 0 {
			var ended bool
			if addrs, ended, doubt, err = q.target(ctx, job, url, hop, f); ended || err != nil {
				return doubt, err
			}
		}
		err := q.getSigned(ctx, url, from, addrs, resp, job)
		if hop == 0 || err != nil {
			f.TLS = fetcher.BadTLS(resp.TLSVerdict, err)
		}
		if err != nil {
			var late *deferredError
			if errors.As(err, &late) {
				return false, err
			}
			var fe *fetch.Error
			final := job.Tries >= outage.ConfirmTries || job.Failing
			if errors.As(err, &fe) && outage.Lacking(fe) && (!final || q.outages.InOutage()) {
				return false, errUnconfirmed
			}
			doubt = fe != nil && (outage.Doubtful(fe) || fe.Ours())
			var rest *backoffError
			if errors.As(err, &rest) {
				f.RetryAfter = time.Until(rest.until)
			}
			if f.Kind = robotsFailure(err); f.Kind == robots.ForbiddenAddress && hop > 0 {
				f.Kind = robots.BadRedirect // a redirect to a forbidden address does not make the origin forbidden
			}
			f.Vouched = f.Kind == robots.ForbiddenAddress // the address is certain, whichever server reported it
			return doubt, nil
		}
		if resp.Flaws&fetch.FlawHeadCut != 0 {
			doubt = outage.CutOff(resp)
			f.Kind = robots.NetworkFailure // half a head says neither where the rules are nor that there are none
			return doubt, nil
		}
		location := resp.Header("Location")
		if resp.Status < 300 || resp.Status > 399 || len(location) == 0 || resp.Status == 304 {
			break
		}
		var next string
		err = bug.Contained(func() (err error) {
			next, err = q.fetcher.ResolveRedirect(url, location)
			return err
		})
		q.run.LogBug(url, err)
		if err != nil {
			f.Kind = robots.BadRedirect
			return doubt, nil
		}
		url, addrs, from = next, nil, from.Hopped(job, url)
	}
	if resp.Status/100 == 2 && !enoughRules(resp) {
		doubt = outage.CutOff(resp)
		f.Kind = robots.NetworkFailure // rules after the break would be lost
		return doubt, nil
	}
	f.Kind, f.Status, f.Body, f.Digest = robots.Answered, resp.Status, resp.Body, sha1.Sum(resp.PayloadRaw)
	f.RetryAfter = min(fetcher.RetryAfter(resp, time.Now()), q.opt.Policy.RetryAfterMax)
	f.MaxAge, f.HasMaxAge = fetcher.Freshness(resp, time.Now())
	return doubt, nil
}

// target returns the addresses of a redirect's target. ended says that f has the outcome already, from the
// target's owner or because it cannot be asked.
func (q *Requests) target(ctx context.Context, job *robots.Job, url string, hop int,
	f *robots.Fetched) (addrs []netip.Addr, ended, doubt bool, _ error) {
	target := weburl.Split([]byte(url))
	if !q.opt.Links.Ports.Contains(target.Port) {
		f.Kind = robots.BadRedirect
		return nil, true, false, nil
	}
	// Without a request we cannot know the rules, so they count as unreachable.
	if q.opt.Rules.BlockedHost(target.Host) {
		f.Kind = robots.NetworkFailure
		return nil, true, false, nil
	}
	if q.others.Cluster.Elsewhere(target.Host) {
		doubt, err := q.askOwner(ctx, url, hop, job.Waits, f)
		return nil, true, doubt, err
	}
	addrs, _, err := q.outages.Lookup(ctx, target.Host, lookupOf(job)&^outage.LookupKnown)
	if errors.Is(err, outage.ErrForbidden) {
		f.Kind = robots.BadRedirect // a redirect to a forbidden address does not make the origin forbidden
		return nil, true, false, nil
	} else if err != nil {
		f.Kind = robots.DNSFailure
		var le *resolve.Error
		if !errors.As(err, &le) || !le.NotFound {
			return nil, true, true, nil
		} else if !le.Certain { // the absence of this name needs the same confirmation as that of the origin's
			if _, confirmed := q.outages.Absence(ctx, job, string(target.Host)); !confirmed {
				return nil, true, false, errUnconfirmed
			}
		}
		return nil, true, false, nil
	}
	if addrs = q.opt.Rules.Open(addrs); len(addrs) == 0 { // read the blacklist once: a reload may change it at any time
		f.Kind = robots.NetworkFailure
		return nil, true, false, nil
	}
	return addrs, false, false, nil
}

// enoughRules reports whether a robots.txt was received to its end, or up to the size that is read (RFC
// 9309 2.5). What follows beyond that size does not matter.
func enoughRules(resp *fetch.Response) bool {
	return len(resp.Body) >= robots.MaxInput ||
		resp.Truncated == fetch.NotTruncated && resp.Flaws&fetch.FlawDecodeError == 0
}

func robotsFailure(err error) robots.Kind {
	var fe *fetch.Error
	if errors.As(err, &fe) && (fe.Kind == fetch.KindForbiddenAddress || fe.Kind == fetch.KindForbiddenPort) {
		return robots.ForbiddenAddress
	}
	return robots.NetworkFailure
}

// getSigned is getThrough for the rules of a job. If the site asks for a signature, it requests the URL once more.
func (q *Requests) getSigned(ctx context.Context, url string, from fetcher.Source, addrs []netip.Addr,
	resp *fetch.Response, job *robots.Job) error {
	host := weburl.Split(job.Origin).Host
	if job.Reserve {
		host = nil // the answer has no rules
	}
	again, err := q.getThrough(ctx, url, from, addrs, resp, host, job.Waits)
	if again {
		_, err = q.getThrough(ctx, url, from, addrs, resp, host, job.Waits)
	}
	return err
}

// getThrough waits for a grant of the host and the server, and does one exchange for the rules of host
// rulesOf. waits is the number of deferrals so far: it keeps requests that return as a batch ahead of those
// deferred after them. again is that of Fetcher.Exchange.
func (q *Requests) getThrough(ctx context.Context, url string, from fetcher.Source, addrs []netip.Addr,
	resp *fetch.Response, rulesOf []byte, waits uint8) (again bool, err error) {
	parts := weburl.Split([]byte(url))
	if err := q.health.MayAsk(parts.Host); err != nil {
		return false, err
	}
	granted := make(chan *polite.Grant, 1)
	resp.Reset() // hold no body while waiting
	item := &polite.Item{Data: granted, Host: q.saved.HostKey(parts.Host), PLD: q.saved.PLDKey(parts.Host),
		Addrs: addrs, Robots: true, Waits: waits, Terms: q.opt.Sites.Terms(parts.Host)}
	heaps := q.others.Heaps()
	for v := heaps.Admit(time.Now(), item); v.Kind != polite.Admitted; v = heaps.Admit(time.Now(), item) {
		wait := robotsRoomEvery
		if v.Kind == polite.Deferred {
			item.Waits = min(item.Waits+1, robots.MaxWaits)
			if wait = time.Until(v.Due); wait > longWait || q.crowded() {
				return false, &deferredError{until: v.Due, waits: item.Waits}
			}
		}
		if !account.Sleep(ctx, wait) {
			return false, ctx.Err()
		}
		item.Terms = q.opt.Sites.Terms(parts.Host) // a reload may have changed them
	}
	var g *polite.Grant
	select {
	case g = <-granted:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return q.getGranted(ctx, g, url, from, resp, rulesOf)
}

// getGranted does the exchange of a grant for a robots.txt.
func (q *Requests) getGranted(ctx context.Context, g *polite.Grant, url string, from fetcher.Source,
	resp *fetch.Response, rulesOf []byte) (again bool, err error) {
	parts := weburl.Split([]byte(url))
	limits := q.opt.Network.FetchLimits
	limits.BodyBytes, limits.HeldBytes, limits.DecodedBytes = RobotsBodyBytes, 0, RobotsBodyBytes
	limits.Ratio = fetch.Unlimited
	sig, err := q.fetcher.Exchange(ctx, g, parts, resp, &limits, "", &revisit.History{}, from)
	q.run.LogBug(string(parts.Host)+"/robots.txt", err)
	q.others.Slots.Free()
	result := q.fetcher.Result(g, resp, err)
	if sig.Again {
		result.Backoff = min(fetcher.RetryAfter(resp, time.Now()), PoliteBackoff)
	} else if rest := RestAfter(resp, err); rest > 0 {
		result.Backoff = rest
	} else if resp.Status == http.StatusOK && bytes.Equal(parts.Host, rulesOf) && q.enterRobots(ctx) {
		// The Crawl-delay binds the host from now on, even if none of its pages is queued. Rules that another
		// host redirected to are the rules of that host (RFC 9309, 2.3.1.2) and arrive with its URLs.
		_ = bug.Contained(func() error { // a panic recurs where the rules are read
			result.CrawlDelay = min(robots.Parse(resp.Body, q.opt.Agent).CrawlDelay,
				q.opt.Politeness.MaxCrawlDelay)
			return nil
		})
		q.leaveRobots()
	}
	q.others.Heaps().Done(time.Now(), g, result)
	var kept *output.Archiver
	if err == nil && ctx.Err() == nil { // otherwise there is no response, or the request is repeated
		if kept = q.output.PrepareRobots(url, resp); kept != nil {
			defer q.output.Give(kept)
		}
	}
	if txErr := q.run.Transact(func(tx *account.Tx) error {
		if kept != nil {
			if err := q.output.ArchiveRobots(tx, kept); err != nil {
				return err
			}
		}
		if result.Backoff >= health.Short {
			if err := q.health.Clear(tx, g.Item.Host, health.Verdict{}); err != nil {
				return err
			}
		}
		tx.Count(state.CountRobotsAttempts, 1)
		tx.Count(state.CountRobotsBytes, resp.BytesRead)
		tx.Count(state.CountRobotsBytesSent, resp.BytesWritten)
		fetcher.LinkOf(resp, sig, err).Count(tx)
		if err != nil {
			tx.Count(state.CountRobotsFailed, 1)
		} else {
			tx.Count(robotsClass(resp.Status), 1)
		}
		return nil
	}); txErr != nil {
		return false, txErr // the crawl has failed, so the request's own transaction fails too
	}
	return sig.Again, err
}

// robotsRoomEvery is the interval at which a request asks again while polite is full. It does not wait for
// Scheduler.Room, which wakes a single waiter: the reader of Q.
const robotsRoomEvery = 100 * time.Millisecond

// longWait is the longest wait of a robots.txt request for its grant in RAM. For longer it waits on disk.
const longWait = 2 * time.Second

// errUnconfirmed reports a failure that must be tried again before it counts against the site.
var errUnconfirmed = errors.New("crawl: failure not confirmed yet")

// deferredError reports that an exchange must wait longer than longWait.
type deferredError struct {
	until time.Time
	waits uint8
}

func (e *deferredError) Error() string {
	return "crawl: deferred until " + e.until.Format(time.RFC3339)
}

// RobotsBackoff is the least back-off of a host after a failed request for robots.txt.
const RobotsBackoff = 2 * time.Second

// RobotsBodyBytes bounds a robots.txt, received or decoded. RFC 9309 2.5 requires at least 500 KiB.
const RobotsBodyBytes = 600 << 10

// endBlocked ends a robots.txt request that the blacklist forbids, before or after its lookup. With
// addresses, RobotsCache can tell while they are valid whether the blacklist still forbids the origin
// (applyRobots). Without them the name itself is listed: its URLs do not reach RobotsCache, and once the
// entry is removed, a URL finds that nothing is known.
func (q *Requests) endBlocked(seq int64, job *robots.Job, addrs []netip.Addr, expires time.Time) error {
	now := time.Now()
	h := robots.HostData{State: robots.StateForbidden, Fetched: now, Expires: now}
	if len(addrs) > 0 {
		h.Expires = now.Add(robots.Lifetime)
		h.SetAddrs(addrs, expires)
	}
	err := q.run.Transact(func(tx *account.Tx) error {
		if err := q.check.learn(tx, job.Origin, robots.AppendUpdate(nil, robots.UpdateOutcome, now, &h)); err != nil {
			return err
		}
		q.robotsJobs.end(seq, false, time.Now())
		return nil
	})
	q.wakeAll()
	return err
}

// dropped ends a request without an answer.
func (q *Requests) dropped(seq int64) error {
	err := q.run.Transact(func(*account.Tx) error {
		q.robotsJobs.end(seq, false, time.Now())
		return nil
	})
	q.wakeAll()
	return err
}

func (q *Requests) wakeAll() {
	q.wakeJobs.Raise()
	q.wakeAwaiting.Raise()
	q.wakeRequested.Raise()
}
