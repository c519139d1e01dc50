package crawl

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"drumbeat/drum"
	"drumbeat/fetch"
	"drumbeat/health"
	"drumbeat/polite"
	"drumbeat/robots"
	"drumbeat/weburl"
)

// robotsJob is a request for an origin's robots.txt, or for its addresses alone.
type robotsJob struct {
	Origin    []byte // scheme://host:port
	AddrsOnly bool
	Tries     uint8  // exchanges or lookups for it that failed and weren't believed, at most maxTries
	Waits     uint8  // times that its server's turn was too late to wait for it in RAM, at most maxWaits
	Depth     uint16 // of the URL that it was made for
	// Failing is set if the last request failed, and that was believed: the site isn't asked several times in a row. (Names are: that
	// is how an outage of the name servers is noticed.)
	Failing bool
}

// maxTries and maxWaits are where these counts end: more make no difference.
const maxTries, maxWaits = confirmTries, 7

// Bits of a job's flags, besides the tries (bits 1 and 2) and the waits (3 to 5).
const (
	jobAddrsOnly = 1
	jobFailing   = 1 << 6
	jobDepth     = 1 << 7
)

// append codes a job: flags byte (bit 0 addresses only, bits 1 and 2 the tries, 3 to 5 the waits, 6 failing, 7: a depth
// follows), depth in 2 bytes if it isn't 0, origin.
func (j *robotsJob) append(dst []byte) []byte {
	flags := min(j.Tries, maxTries)<<1 | min(j.Waits, maxWaits)<<3
	if j.AddrsOnly {
		flags |= jobAddrsOnly
	}
	if j.Failing {
		flags |= jobFailing
	}
	if j.Depth == 0 {
		return append(append(dst, flags), j.Origin...)
	}
	return append(append(dst, flags|jobDepth, byte(j.Depth), byte(j.Depth>>8)), j.Origin...)
}

func (j *robotsJob) decode(b []byte) error {
	*j = robotsJob{}
	if len(b) == 0 {
		return errors.New("crawl: empty coding of a robots request")
	}
	j.Origin = b[1:]
	if b[0]&jobDepth != 0 && len(b) > 2 {
		j.Depth, j.Origin = uint16(b[1])|uint16(b[2])<<8, b[3:]
	}
	if len(j.Origin) < len("http://h:1") {
		return errors.New("crawl: bad coding of a robots request")
	}
	j.AddrsOnly, j.Failing = b[0]&jobAddrsOnly != 0, b[0]&jobFailing != 0
	j.Tries, j.Waits = b[0]>>1&maxTries, b[0]>>3&maxWaits
	return nil
}

// robotsJobs knows the requests under way. They are part of each checkpoint: a request that was begun is finished or
// made again.
type robotsJobs struct {
	mu       sync.Mutex // guards all below
	total    int64      // requests ever put into QD, those found there at the start included
	next     int64      // number of the next one to be taken from QD
	again    int64      // number of the last one taken up again
	inFlight map[int64][]byte
	plds     map[int64]uint64    // of those in flight
	perPLD   map[uint64]*pldJobs // PLDs with requests in flight, or with requests that were put off and have their turn to come
}

// pldJobs are the requests of one PLD.
type pldJobs struct {
	n    int       // in flight
	turn time.Time // of the request put off last
}

func (j *robotsJobs) queued() { j.mu.Lock(); j.total++; j.mu.Unlock() }

func (j *robotsJobs) issued() int64 { j.mu.Lock(); defer j.mu.Unlock(); return j.total }

func (j *robotsJobs) len() int { j.mu.Lock(); defer j.mu.Unlock(); return len(j.inFlight) }

// finished returns a number before which all requests are finished.
func (j *robotsJobs) finished() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	low := j.next
	for seq := range j.inFlight { // bounded by Options.RobotsInFlight; asked once a batch
		if seq >= 0 {
			low = min(low, seq)
		}
	}
	return low
}

// begin notes that the next request was taken from QD, or that one was taken up again. The latter have negative numbers:
// nobody waits for them.
func (j *robotsJobs) begin(rec []byte, again bool, pld uint64) (seq int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.perPLD[pld]
	if p == nil {
		p = &pldJobs{}
		j.perPLD[pld] = p
	}
	p.n++
	defer func() { j.plds[seq] = pld }()
	if again {
		j.again--
		seq = j.again
	} else {
		seq = j.next
		j.next++
	}
	j.inFlight[seq] = rec
	return seq
}

func (j *robotsJobs) end(seq int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.inFlight, seq)
	pld := j.plds[seq]
	delete(j.plds, seq)
	if p := j.perPLD[pld]; p != nil {
		if p.n--; p.n <= 0 && p.turn.IsZero() {
			delete(j.perPLD, pld)
		}
	}
}

// How many requests of one PLD may be in flight: a share of all, since the names of one PLD tend to be slow together, and a PLD
// may have endless names (DESIGN section 6: it must not hold up the rest). More wait on disk, each for a turn of its own.
const (
	pldJobsShare = 8                      // of Options.RobotsInFlight one part in so many …
	pldJobsLeast = 4                      // … but so many at least
	pldJobsApart = 200 * time.Millisecond // from one turn to the next
	maxPLDTurns  = 1 << 16                // PLDs whose turns are remembered, some 100 bytes each
)

// room returns the zero time if another request of a PLD may begin, else its turn.
func (j *robotsJobs) room(pld uint64, most int, now time.Time) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.perPLD[pld]
	if p == nil || p.n < most {
		return time.Time{}
	}
	if len(j.perPLD) >= maxPLDTurns {
		for k, q := range j.perPLD { // the bound is far above what may be in flight: nearly all are over
			if q.n == 0 && q.turn.Before(now) {
				delete(j.perPLD, k)
			}
		}
	}
	if p.turn.Before(now) {
		p.turn = now
	}
	p.turn = p.turn.Add(pldJobsApart)
	return p.turn
}

func (j *robotsJobs) snapshot() [][]byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	recs := make([][]byte, 0, len(j.inFlight))
	for _, rec := range j.inFlight {
		recs = append(recs, rec)
	}
	return recs
}

// readRobotsFetch takes requests from QD, as many at once as Options.RobotsInFlight says.
func (r *ring) readRobotsFetch(ctx context.Context) error {
	for ctx.Err() == nil {
		if r.inOutage() && time.Since(r.jobTried) < trickle {
			sleep(ctx, trickle-time.Since(r.jobTried))
			continue
		}
		if r.robotsJobs.len() >= r.opt.RobotsInFlight || r.space.why() != "" {
			r.await(ctx, r.wakeJobs, wakeAfter)
			continue
		}
		data, again, err := r.robotsLater.Peek(time.Now())
		if err != nil {
			return err
		}
		if !again {
			var ok bool
			if data, ok, err = r.robotsFetch.Peek(); err != nil {
				return err
			}
			if !ok {
				r.await(ctx, r.wakeJobs, untilDue(r.robotsLater))
				continue
			}
		}
		rec := append([]byte(nil), data...)
		var job robotsJob
		if err := job.decode(rec); err != nil {
			return err
		}
		pld := r.pldKey(weburl.Split(job.Origin).Host)
		turn := r.robotsJobs.room(pld, r.robotsPerPLD(), time.Now())
		var seq int64
		if err := r.inStep(func(*delta) error {
			if again {
				r.robotsLater.Advance()
			} else {
				r.robotsFetch.Advance()
			}
			seq = r.robotsJobs.begin(rec, again, pld)
			return nil
		}); err != nil {
			return err
		}
		if !turn.IsZero() {
			if err := r.deferRobots(seq, rec, turn, 0); err != nil {
				return err
			}
			continue
		}
		r.jobTried = time.Now()
		r.start(ctx, "robots request", func(ctx context.Context) error { return r.doRobots(ctx, seq, rec) })
	}
	return nil
}

// robotsPerPLD bounds the requests of one PLD in flight. A crawl of few sites has no others to protect.
func (r *ring) robotsPerPLD() int {
	if r.opt.Scope != ScopeAll {
		return r.opt.RobotsInFlight
	}
	return max(pldJobsLeast, r.opt.RobotsInFlight/pldJobsShare)
}

// crowded is true when requests take up half of what there is: then none waits for its turn in RAM.
func (r *ring) crowded() bool { return r.robotsJobs.len() >= r.opt.RobotsInFlight/2 }

// doRobots does one request and ends it with an update of RobotsCache, whatever came of it.
func (r *ring) doRobots(ctx context.Context, seq int64, rec []byte) error {
	var job robotsJob
	if err := job.decode(rec); err != nil {
		return err
	}
	var f robots.Fetched
	kind := updateOutcome
	resp := r.workers.response()
	defer r.workers.release(resp)
	began, doubt := time.Now(), false
	host := weburl.Split(job.Origin).Host
	if r.fence.blockedHost(host) {
		return r.endBlocked(seq, &job, nil, time.Time{})
	}
	addrs, expires, err := r.lookup(ctx, host, job.Tries == 0)
	if ctx.Err() != nil {
		return nil // stays in flight: the last checkpoint has it
	}
	f.Addrs, f.AddrExpires = addrs, expires
	switch {
	case errors.Is(err, errForbidden):
		f.Kind = robots.ForbiddenAddress
	case err != nil:
		f.Kind = robots.DNSFailure
		var le *LookupError
		if errors.As(err, &le) && le.NotFound {
			f.Kind = robots.NoSuchHost
		} else if !r.lookupBelieved(&job, began, le) {
			return r.retryRobots(seq, &job)
		}
	case job.AddrsOnly:
		kind = updateAddrs
	case r.fence.closed(addrs):
		return r.endBlocked(seq, &job, addrs, expires)
	default:
		var late *deferredError
		if doubt, err = r.getRobots(ctx, &job, resp, &f); errors.As(err, &late) {
			job.Waits = late.waits
			return r.deferRobots(seq, job.append(nil), late.until, 0)
		}
		if ctx.Err() == nil && (r.fence.blockedHost(host) || r.fence.closed(addrs)) { // since a moment ago
			return r.endBlocked(seq, &job, addrs, expires)
		}
	}
	if !r.workers.enterRobots(ctx) {
		return nil
	}
	defer r.workers.leaveRobots()
	if doubt && !r.believed(job.Tries > 0, false, began, r.serverKey(addrs[0])) && (job.Tries < confirmTries && !job.Failing || r.inOutage()) {
		return r.retryRobots(seq, &job)
	}
	now := time.Now()
	h := robots.Outcome(&robots.HostData{}, &f, r.opt.Agent, now)
	maps := r.namedSitemaps(&job, &f, now)
	err = r.inStep(func(d *delta) error {
		d.count(CountLookups, 1)
		if len(addrs) == 0 {
			d.count(CountLookupFailures, 1)
		}
		tuple := [1]drum.Tuple{{Key: drum.Key(r.hasher.OriginKey(job.Origin)), Op: drum.Update,
			Value: appendUpdate(nil, kind, now, &h)}}
		if err := r.robotsCache.Add(tuple[:]); err != nil {
			return err
		}
		if !job.AddrsOnly {
			if err := r.logRobots(&job, &f, resp, began, maps); err != nil {
				return err
			}
		}
		if err := maps.send(d); err != nil {
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

// lookupBelieved says whether a lookup without an answer counts against the name: it is not the first, and other names were
// answered since it began.
func (r *ring) lookupBelieved(job *robotsJob, began time.Time, le *LookupError) bool {
	if r.inOutage() || le != nil && le.Busy || job.Tries == 0 {
		return false
	}
	return job.Tries >= confirmTries || r.dns.workedSince(began, 0)
}

// retryRobots puts off a request whose failure isn't believed yet.
func (r *ring) retryRobots(seq int64, job *robotsJob) error {
	if !r.inOutage() {
		job.Tries = min(job.Tries+1, maxTries)
	}
	return r.deferRobots(seq, job.append(nil), time.Now().Add(r.confirmWait()), 1)
}

// deferRobots lets a request wait on disk until its server's turn comes. For QR it counts as finished: URLs that come back
// without an answer wait on disk as well.
func (r *ring) deferRobots(seq int64, rec []byte, until time.Time, unconfirmed int64) error {
	err := r.inStep(func(d *delta) error {
		d.count(CountUnconfirmed, unconfirmed)
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

// lookup resolves a host; an address stands for itself. first is false when it is repeated because it failed.
func (r *ring) lookup(ctx context.Context, host []byte, first bool) ([]netip.Addr, time.Time, error) {
	name := string(host)
	if len(name) > 2 && name[0] == '[' {
		name = name[1 : len(name)-1]
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		addrs, err := r.allowed([]netip.Addr{addr})
		return addrs, time.Now().Add(robots.Lifetime), err
	}
	pld := r.suffixes.PLD(name)
	try := r.dns.begin()
	r.lookups.add(1)
	answer, err := r.opt.Resolver.LookupHost(ctx, name, pld)
	r.lookups.add(-1)
	if ctx.Err() == nil {
		r.watchLookup(try, r.hasher.PLDKey([]byte(pld)), first, err)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	if len(answer.Addrs) == 0 {
		return nil, time.Time{}, &LookupError{Host: name, NotFound: true, Err: errors.New("no address")}
	}
	r.sketches.addServers(answer.Addrs)
	// A shorter life than the batches of the disk structures would have every URL looked up again.
	expires := answer.Expires
	if least := time.Now().Add(minAddrLife); expires.Before(least) {
		expires = least
	}
	addrs, err := r.allowed(answer.Addrs)
	return addrs, expires, err
}

// errForbidden says that a host has none but addresses that may not be connected to.
var errForbidden = errors.New("crawl: no address that may be connected to")

// allowed drops the addresses that the fetcher would refuse, and those that it gets twice.
func (r *ring) allowed(addrs []netip.Addr) ([]netip.Addr, error) {
	good := make([]netip.Addr, 0, len(addrs))
	for _, a := range addrs {
		a = a.Unmap() // ::ffff:192.0.2.1 is the server 192.0.2.1, and keeps its delay
		if (r.opt.AllowedAddr == nil || r.opt.AllowedAddr(a)) && !slices.Contains(good, a) {
			good = append(good, a)
		}
	}
	if len(good) == 0 {
		return nil, errForbidden
	}
	return good, nil
}

// minAddrLife is the least life of an address in RobotsCache.
const minAddrLife = 10 * time.Minute

// getRobots fetches robots.txt of an origin, following up to robots.MaxRedirects redirects, each hop an entry of polite
// like any other. The body is resp's. doubt says that it failed in a way that could be our fault.
func (r *ring) getRobots(ctx context.Context, job *robotsJob, resp *fetch.Response, f *robots.Fetched) (doubt bool, _ error) {
	url, err := weburl.Canonical(string(job.Origin) + "/robots.txt")
	if err != nil {
		f.Kind = robots.NetworkFailure
		return doubt, nil
	}
	addrs := r.fence.open(f.Addrs)
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
			doubt = errors.As(err, &fe) && doubtful(fe)
			var rest *restingError
			if errors.As(err, &rest) {
				f.RetryAfter = time.Until(rest.until)
			}
			if f.Kind = robotsFailure(err); f.Kind == robots.ForbiddenAddress && hop > 0 {
				f.Kind = robots.BadRedirect // to where nobody may go: the origin itself isn't forbidden
			}
			return doubt, nil
		}
		location := resp.Header("Location")
		if resp.Status < 300 || resp.Status > 399 || len(location) == 0 || resp.Status == 304 {
			break
		}
		next, err := r.resolveRedirect(url, location)
		if err != nil {
			f.Kind = robots.BadRedirect
			return doubt, nil
		}
		url = next
		target := weburl.Split([]byte(url))
		if !r.allowedPort(target.Port) {
			f.Kind = robots.BadRedirect
			return doubt, nil
		}
		if r.fence.blockedHost(target.Host) { // we don't look, so that we can't know what is allowed
			f.Kind = robots.NetworkFailure
			return false, nil
		}
		if addrs, _, err = r.lookup(ctx, target.Host, job.Tries == 0); errors.Is(err, errForbidden) {
			f.Kind = robots.BadRedirect // as in getThrough's error: the origin itself isn't forbidden
			return doubt, nil
		} else if err != nil {
			f.Kind = robots.DNSFailure
			var le *LookupError
			return !(errors.As(err, &le) && le.NotFound) && !errors.Is(err, errForbidden), nil
		}
		if r.fence.closed(addrs) {
			f.Kind = robots.NetworkFailure
			return false, nil
		}
		addrs = r.fence.open(addrs)
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
	item := &polite.Item{Data: granted, Host: r.hostKey(parts.Host), PLD: r.pldKey(parts.Host), Addrs: addrs, Robots: true, Waits: waits}
	for {
		v := r.polite.Admit(time.Now(), item)
		if v.Kind == polite.Admitted {
			break
		}
		if wait := time.Until(v.Due); v.Kind == polite.Deferred && (wait > longWait || r.crowded()) {
			return &deferredError{until: v.Due, waits: min(item.Waits+1, maxWaits)}
		} else if v.Kind == polite.Deferred {
			item.Waits = min(item.Waits+1, 250)
			if !sleep(ctx, wait) {
				return ctx.Err()
			}
		} else if !sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
	var g *polite.Grant
	select {
	case g = <-granted:
	case <-ctx.Done():
		return ctx.Err()
	}
	limits := r.opt.FetchLimits
	limits.BodyBytes, limits.DecodedBytes, limits.Ratio = robotsBodyBytes, robotsBodyBytes, fetch.Unlimited
	err := r.exchange(ctx, g, parts, resp, &limits)
	r.workers.free()
	result := polite.Result{Elapsed: answerTime(resp, err), Kept: r.keptFor(g, resp)}
	if err != nil {
		result.Backoff = robotsBackoff
	} else if health.KindOf(resp.Status) == health.TooFast { // said to us, not to robots.txt: an old copy doesn't serve meanwhile
		result.Backoff = max(robotsBackoff, min(retryAfter(resp, time.Now()), politeRest))
	} else if resp.Status == http.StatusOK && bytes.Equal(parts.Host, rulesOf) && r.workers.enterRobots(ctx) {
		// Binds the host from now on, whether one of its pages is queued or not. What another host redirected to here are that one's
		// rules (RFC 9309, 2.3.1.2), and come to it with its URLs.
		result.CrawlDelay = min(robots.Parse(resp.Body, r.opt.Agent).CrawlDelay, r.opt.MaxCrawlDelay)
		r.workers.leaveRobots()
	}
	r.polite.Done(time.Now(), g, result)
	var fe *fetch.Error
	if errors.As(err, &fe) && fe.Ours() && fe.Kind != fetch.KindNoRoute && sleep(ctx, ourFaultPause) {
		return r.getThrough(ctx, url, addrs, resp, rulesOf, waits) // not counted against the host; ends with ctx at the latest
	}
	_ = r.inStep(func(d *delta) error {
		if result.Backoff >= health.Short {
			if err := r.clearHost(d, item.Host, health.Verdict{}); err != nil {
				r.fail(err)
			}
		}
		d.count(CountRobotsAttempts, 1)
		d.count(CountRobotsBytes, resp.BytesRead)
		return nil
	})
	return err
}

// longWait is how long a robots request may wait for its turn in RAM; a later turn is waited for on disk.
const longWait = 2 * time.Second

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

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
