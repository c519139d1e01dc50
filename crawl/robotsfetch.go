package crawl

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/drum"
	"drumbeat/fetch"
	"drumbeat/internal/bug"
	"drumbeat/internal/health"
	"drumbeat/polite"
	"drumbeat/robots"
	"drumbeat/weburl"
)

// doRobots does one request and ends it with an update of RobotsCache, whatever came of it.
func (r *ring) doRobots(ctx context.Context, seq int64, rec []byte) error {
	var job robots.Job
	if err := job.Decode(rec); err != nil {
		return err
	}
	var f robots.Fetched
	kind := robots.UpdateOutcome
	resp := r.workers.response()
	defer r.workers.release(resp)
	began, doubt := time.Now(), false
	host := weburl.Split(job.Origin).Host
	if r.fence.BlockedHost(host) {
		return r.endBlocked(seq, &job, nil, time.Time{})
	}
	addrs, expires, err := r.lookup(ctx, host, lookupOf(&job))
	if ctx.Err() != nil {
		return nil // stays in flight: the last checkpoint has it
	}
	f.Addrs, f.AddrExpires = addrs, expires
	var le *LookupError
	switch forbidden := errors.Is(err, errForbidden); {
	case forbidden, errors.As(err, &le) && le.NotFound:
		if f.Kind, f.Vouched = robots.NoSuchHost, true; forbidden {
			f.Kind = robots.ForbiddenAddress
		}
		if isLiteral(host) || le != nil && le.Certain {
			break
		}
		var believed bool
		if kind, believed = r.absence(ctx, &job, string(host)); ctx.Err() != nil {
			return nil
		} else if !believed {
			return r.retryRobots(seq, &job, r.namesInDoubt())
		}
	case err != nil:
		f.Kind = robots.DNSFailure
		if !r.lookupBelieved(&job, began, le) {
			return r.retryRobots(seq, &job, r.namesInDoubt())
		}
	case job.AddrsOnly:
		kind = robots.UpdateAddrs
	case r.fence.Closed(addrs):
		return r.endBlocked(seq, &job, addrs, expires)
	default:
		var late *deferredError
		if doubt, err = r.getRobots(ctx, &job, resp, &f); errors.As(err, &late) {
			job.Waits = late.waits
			return r.deferRobots(seq, job.Append(nil), late.until, 0)
		} else if errors.Is(err, errUnbelieved) {
			if ctx.Err() != nil {
				return nil
			}
			return r.retryRobots(seq, &job, r.inOutage())
		}
		if ctx.Err() == nil && (r.fence.BlockedHost(host) || r.fence.Closed(addrs)) { // since a moment ago
			return r.endBlocked(seq, &job, addrs, expires)
		}
	}
	if !r.workers.enterRobots(ctx) {
		return nil
	}
	defer r.workers.leaveRobots()
	if doubt && !r.believed(job.Tries > 0, false, began, r.source(addrs[0])) && (job.Tries < confirmTries && !job.Failing || r.inOutage()) {
		return r.retryRobots(seq, &job, r.inOutage())
	}
	now := time.Now()
	if f.Kind == robots.ForbiddenAddress {
		now = r.verdictTime(now)
	}
	h, maps := r.readRobots(&job, &f, now)
	err = r.inStep(func(d *delta) error {
		d.count(state.CountLookups, 1)
		if f.Kind == robots.Internal {
			d.count(state.CountInternalErrors, 1)
		}
		if len(addrs) == 0 {
			d.count(state.CountLookupFailures, 1)
		}
		tuple := [1]drum.Tuple{{Key: drum.Key(r.Hasher.OriginKey(job.Origin)), Op: drum.Update,
			Value: robots.AppendUpdate(nil, kind, now, &h)}}
		if err := r.robotsCache.Add(tuple[:]); err != nil {
			return err
		}
		if !job.AddrsOnly {
			if err := r.logRobots(&job, &f, resp, began, maps); err != nil {
				return err
			}
		}
		if err := maps.send(r, d); err != nil {
			return err
		}
		r.robotsJobs.end(seq)
		return nil
	})
	r.wakeJobs.raise()
	r.wakeAwaiting.raise()
	r.wakeRobots.raise()
	r.wakeRequested.raise()
	return err
}

// readRobots reads the outcome of a request: what it says of the host, and the sitemaps that it names. Rules that make this
// program panic are unavailable rules.
func (r *ring) readRobots(job *robots.Job, f *robots.Fetched, now time.Time) (h robots.HostData, maps *sitemapBatch) {
	read := func() error {
		if r.opt.reading != nil {
			r.opt.reading("robots", job.Origin)
		}
		h = robots.Outcome(&robots.HostData{}, f, r.opt.Agent, now)
		maps = r.namedSitemaps(job, f, now)
		return nil
	}
	if panicked := bug.Contained(read); panicked != nil {
		r.logBug(string(job.Origin)+"/robots.txt", panicked)
		*f = robots.Fetched{Kind: robots.Internal, Addrs: f.Addrs, AddrExpires: f.AddrExpires}
		h = robots.Outcome(&robots.HostData{}, f, r.opt.Agent, now)
		maps = r.namedSitemaps(job, f, now)
	}
	if h.State == robots.StateRules || h.State == robots.StateNoFile {
		if least := now.Add(r.opt.oneTurn()); h.Expires.Before(least) {
			h.Expires = least
		}
	}
	return h, maps
}

// oneTurn is for how long robots.txt is good at least: until its host's next turn. As it takes a turn itself, no page would ever have
// one if delays were longer.
func (o *Options) oneTurn() time.Duration {
	turn := max(o.HostDelay, o.ServerDelay, o.PLDDelay)
	return turn + turn/16
}

// lookupOf is what the lookup for a request is.
func lookupOf(j *robots.Job) (kind lookupKind) {
	if j.Tries > 0 {
		kind = lookupAgain | lookupFresh
	}
	if j.Known || j.AddrsOnly {
		kind |= lookupKnown
	}
	return kind
}

// lookupBelieved says whether a lookup without an answer counts against the name: it is not the first, and other names were
// answered since it began.
func (r *ring) lookupBelieved(job *robots.Job, began time.Time, le *LookupError) bool {
	if r.namesInDoubt() || le != nil && le.Busy || job.Tries == 0 {
		return false
	}
	return job.Tries >= confirmTries || r.dns.workedSince(began, 0)
}

// retryRobots puts off a request whose failure isn't believed yet; outage: and isn't counted at all.
func (r *ring) retryRobots(seq int64, job *robots.Job, outage bool) error {
	if !outage {
		job.Tries = min(job.Tries+1, robots.MaxTries)
	}
	return r.deferRobots(seq, job.Append(nil), time.Now().Add(r.confirmWait()), 1)
}

// deferRobots lets a request wait on disk until its server's turn comes. For QR it counts as finished: URLs that come back
// without an answer wait on disk as well.
func (r *ring) deferRobots(seq int64, rec []byte, until time.Time, unconfirmed int64) error {
	err := r.inStep(func(d *delta) error {
		d.count(state.CountUnconfirmed, unconfirmed)
		if err := r.robotsLater.Append(time.Now(), until, rec); err != nil {
			return err
		}
		r.robotsJobs.end(seq)
		return nil
	})
	r.wakeJobs.raise()
	r.wakeAwaiting.raise()
	return err
}

// getRobots fetches robots.txt of an origin, following up to robots.MaxRedirects redirects, each hop an entry of polite
// like any other. The body is resp's. doubt says that it failed in a way that could be our fault.
func (r *ring) getRobots(ctx context.Context, job *robots.Job, resp *fetch.Response, f *robots.Fetched) (doubt bool, _ error) {
	url, err := weburl.Canonical(string(job.Origin) + "/robots.txt")
	if err != nil {
		f.Kind = robots.NetworkFailure
		return doubt, nil
	}
	addrs := r.fence.Open(f.Addrs)
	if len(addrs) == 0 { // the blacklist has come to name all of them since it was asked
		f.Kind = robots.NetworkFailure
		return false, nil
	}
	for hop := 0; ; hop++ {
		if hop > robots.MaxRedirects {
			f.Kind = robots.TooManyRedirects
			return doubt, nil
		}
		err := r.getThrough(ctx, url, addrs, resp, weburl.Split(job.Origin).Host, job.Waits)
		if err != nil {
			var late *deferredError
			if errors.As(err, &late) {
				return false, err
			}
			var fe *fetch.Error
			if errors.As(err, &fe) && lacking(fe) && (job.Tries < confirmTries && !job.Failing || r.inOutage()) {
				return false, errUnbelieved
			}
			doubt = fe != nil && (doubtful(fe) || fe.Ours())
			var rest *restingError
			if errors.As(err, &rest) {
				f.RetryAfter = time.Until(rest.until)
			}
			if f.Kind = robotsFailure(err); f.Kind == robots.ForbiddenAddress && hop > 0 {
				f.Kind = robots.BadRedirect // to where nobody may go: the origin itself isn't forbidden
			}
			f.Vouched = f.Kind == robots.ForbiddenAddress // the address is what it is, whoever named it
			return doubt, nil
		}
		location := resp.Header("Location")
		if resp.Status < 300 || resp.Status > 399 || len(location) == 0 || resp.Status == 304 {
			break
		}
		var next string
		err = bug.Contained(func() (err error) {
			next, err = r.resolveRedirect(url, location)
			return err
		})
		r.logBug(url, err)
		if err != nil {
			f.Kind = robots.BadRedirect
			return doubt, nil
		}
		url = next
		target := weburl.Split([]byte(url))
		if !r.links.PortAllowed(target.Port) {
			f.Kind = robots.BadRedirect
			return doubt, nil
		}
		if r.fence.BlockedHost(target.Host) { // we don't look, so that we can't know what is allowed
			f.Kind = robots.NetworkFailure
			return false, nil
		}
		if addrs, _, err = r.lookup(ctx, target.Host, lookupOf(job)&^lookupKnown); errors.Is(err, errForbidden) {
			f.Kind = robots.BadRedirect // as in getThrough's error: the origin itself isn't forbidden
			return doubt, nil
		} else if err != nil {
			f.Kind = robots.DNSFailure
			var le *LookupError
			if !errors.As(err, &le) || !le.NotFound {
				return true, nil
			} else if !le.Certain { // no more believed of this name than of the origin's
				if _, believed := r.absence(ctx, job, string(target.Host)); !believed {
					return false, errUnbelieved
				}
			}
			return false, nil
		}
		if addrs = r.fence.Open(addrs); len(addrs) == 0 { // asked once: a reload may change it at any time
			f.Kind = robots.NetworkFailure
			return false, nil
		}
	}
	if resp.Status/100 == 2 && !enoughRules(resp) {
		doubt = cutOff(resp)
		f.Kind = robots.NetworkFailure // rules behind the break would be lost
		return doubt, nil
	}
	f.Kind, f.Status, f.Body = robots.Answered, resp.Status, resp.Body
	f.RetryAfter = retryAfter(resp, time.Now())
	f.MaxAge, f.HasMaxAge = robotsLife(resp, time.Now())
	return doubt, nil
}

// enoughRules tells whether a robots.txt was had to its end, or as far as it is read (RFC 9309 2.5): beyond that there may
// be a gigabyte more, or a break.
func enoughRules(resp *fetch.Response) bool {
	return len(resp.Body) >= robots.MaxInput || resp.Truncated == fetch.NotTruncated && resp.Marks&fetch.MarkDecodeError == 0
}

func robotsFailure(err error) robots.Kind {
	var fe *fetch.Error
	if errors.As(err, &fe) && (fe.Kind == fetch.KindForbiddenAddress || fe.Kind == fetch.KindForbiddenPort) {
		return robots.ForbiddenAddress
	}
	return robots.NetworkFailure
}

// getThrough waits for the host's and the server's turn and does one exchange for the rules of a host. waits is how often that
// turn was too late before: requests that come back as a batch mustn't queue up behind those that were put off after them.
func (r *ring) getThrough(ctx context.Context, url string, addrs []netip.Addr, resp *fetch.Response, rulesOf []byte, waits uint8) error {
	parts := weburl.Split([]byte(url))
	if err := r.mayAsk(parts.Host); err != nil {
		return err
	}
	granted := make(chan *polite.Grant, 1)
	resp.Reset() // nobody waits for his turn with a body in hand
	item := &polite.Item{Data: granted, Host: r.HostKey(parts.Host), PLD: r.PLDKey(parts.Host), Addrs: addrs, Robots: true, Waits: waits}
	for v := r.polite.Admit(time.Now(), item); v.Kind != polite.Admitted; v = r.polite.Admit(time.Now(), item) {
		wait := robotsRoomEvery
		if v.Kind == polite.Deferred {
			item.Waits = min(item.Waits+1, robots.MaxWaits)
			if wait = time.Until(v.Due); wait > longWait || r.crowded() {
				return &deferredError{until: v.Due, waits: item.Waits}
			}
		}
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
	}
	var g *polite.Grant
	select {
	case g = <-granted:
	case <-ctx.Done():
		return ctx.Err()
	}
	return r.getGranted(ctx, g, url, resp, rulesOf)
}

// getGranted does the exchange of a grant for a robots.txt.
func (r *ring) getGranted(ctx context.Context, g *polite.Grant, url string, resp *fetch.Response, rulesOf []byte) error {
	parts := weburl.Split([]byte(url))
	limits := r.opt.FetchLimits
	limits.BodyBytes, limits.DecodedBytes, limits.Ratio = robotsBodyBytes, robotsBodyBytes, fetch.Unlimited
	err := r.exchange(ctx, g, parts, resp, &limits)
	r.logBug(string(parts.Host)+"/robots.txt", err)
	r.workers.free()
	result := polite.Result{Elapsed: answerTime(resp, err), Kept: r.keptFor(g, resp)}
	if err != nil {
		result.Backoff = robotsBackoff
	} else if health.KindOf(resp.Status) == health.TooFast { // said to us, not to robots.txt: an old copy doesn't serve meanwhile
		result.Backoff = max(robotsBackoff, min(retryAfter(resp, time.Now()), politeRest))
	} else if resp.Status == http.StatusOK && bytes.Equal(parts.Host, rulesOf) && r.workers.enterRobots(ctx) {
		// Binds the host from now on, whether one of its pages is queued or not. What another host redirected to here are that one's
		// rules (RFC 9309, 2.3.1.2), and come to it with its URLs.
		_ = bug.Contained(func() error { // a panic is met again where the rules are read
			result.CrawlDelay = min(robots.Parse(resp.Body, r.opt.Agent).CrawlDelay, r.opt.MaxCrawlDelay)
			return nil
		})
		r.workers.leaveRobots()
	}
	r.polite.Done(time.Now(), g, result)
	var kept *archiver
	if err == nil && ctx.Err() == nil { // else it is done again, or there is no response
		if kept = r.prepareRobots(url, resp); kept != nil {
			defer r.workers.archivers.give(kept)
		}
	}
	if stepErr := r.inStep(func(d *delta) error {
		if kept != nil {
			if err := r.archiveRobots(d, kept); err != nil {
				return err
			}
		}
		if result.Backoff >= health.Short {
			if err := r.clearHost(d, g.Item.Host, health.Verdict{}); err != nil {
				return err
			}
		}
		d.count(state.CountRobotsAttempts, 1)
		d.count(state.CountRobotsBytes, resp.BytesRead)
		return nil
	}); stepErr != nil {
		return stepErr // the crawl has failed: the request's own step will fail too
	}
	return err
}

// robotsRoomEvery is how often a request asks again while polite is full. It doesn't wait for Scheduler.Room: that wakes a single
// waiter, and the reader of Q is the one.
const robotsRoomEvery = 100 * time.Millisecond

// longWait is how long a robots request may wait for its turn in RAM; a later turn is waited for on disk.
const longWait = 2 * time.Second

// errUnbelieved says that a failure is ours, as far as can be told: whether others' exchanges succeed doesn't matter.
var errUnbelieved = errors.New("crawl: failure that isn't believed yet")

// deferredError says that an exchange must wait for long.
type deferredError struct {
	until time.Time
	waits uint8
}

func (e *deferredError) Error() string {
	return "crawl: deferred until " + e.until.Format(time.RFC3339)
}

// robotsBackoff is the host's least rest after a robots request that failed.
const robotsBackoff = 2 * time.Second

// robotsBodyBytes bounds a robots.txt, received or decoded: 500 KiB is what RFC 9309 2.5 asks for.
const robotsBodyBytes = 600 << 10
