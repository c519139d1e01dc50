package crawl

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"drumbeat/drum"
	"drumbeat/fetch"
	"drumbeat/polite"
	"drumbeat/robots"
	"drumbeat/weburl"
)

// robotsJob is a request for an origin's robots.txt, or for its addresses alone.
type robotsJob struct {
	Origin    []byte // scheme://host:port
	AddrsOnly bool
}

// append codes a job: flags byte, origin.
func (j *robotsJob) append(dst []byte) []byte {
	var flags byte
	if j.AddrsOnly {
		flags = 1
	}
	return append(append(dst, flags), j.Origin...)
}

func (j *robotsJob) decode(b []byte) error {
	if len(b) < len("0http://h:1") || b[0] > 1 {
		return errors.New("crawl: bad coding of a robots request")
	}
	j.AddrsOnly, j.Origin = b[0] == 1, b[1:]
	return nil
}

// robotsJobs knows the requests under way. They are part of each checkpoint: a request that was begun is finished or
// made again.
type robotsJobs struct {
	mu       sync.Mutex // guards all below
	total    int64      // requests ever put into QD, those found there at the start included
	next     int64      // number of the next one to be taken from QD
	inFlight map[int64][]byte
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
		low = min(low, seq)
	}
	return low
}

// begin notes that the next request was taken from QD.
func (j *robotsJobs) begin(rec []byte) (seq int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	seq = j.next
	j.next++
	j.inFlight[seq] = rec
	return seq
}

func (j *robotsJobs) end(seq int64) { j.mu.Lock(); delete(j.inFlight, seq); j.mu.Unlock() }

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
		if r.robotsJobs.len() >= r.opt.RobotsInFlight {
			r.wakeJobs.wait(ctx, wakeAfter)
			continue
		}
		data, ok, err := r.robotsFetch.Peek()
		if err != nil {
			return err
		}
		if !ok {
			r.wakeJobs.wait(ctx, wakeAfter)
			continue
		}
		rec := append([]byte(nil), data...)
		var seq int64
		if err := r.inStep(func(*delta) error {
			r.robotsFetch.Advance()
			seq = r.robotsJobs.begin(rec)
			return nil
		}); err != nil {
			return err
		}
		r.start(ctx, "robots request", func(ctx context.Context) error { return r.doRobots(ctx, seq, rec) })
	}
	return nil
}

// doRobots does one request and ends it with an update of RobotsCache, whatever came of it.
func (r *ring) doRobots(ctx context.Context, seq int64, rec []byte) error {
	var job robotsJob
	if err := job.decode(rec); err != nil {
		return err
	}
	var f robots.Fetched
	kind := updateOutcome
	addrs, expires, err := r.lookup(ctx, weburl.Split(job.Origin).Host)
	if ctx.Err() != nil {
		return nil // stays in flight: the last checkpoint has it
	}
	f.Addrs, f.AddrExpires = addrs, expires
	switch {
	case err != nil:
		f.Kind = robots.DNSFailure
		var le *LookupError
		if errors.As(err, &le) && le.NotFound {
			f.Kind = robots.NoSuchHost
		}
	case job.AddrsOnly:
		kind = updateAddrs
	default:
		r.getRobots(ctx, &job, &f)
	}
	if ctx.Err() != nil {
		return nil
	}
	now := time.Now()
	h := robots.Outcome(&robots.HostData{}, &f, r.opt.Agent, now)
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
		r.robotsJobs.end(seq)
		return nil
	})
	r.wakeJobs.raise()
	r.wakeAwaiting.raise()
	r.wakeRobots.raise()
	r.wakeRequested.raise()
	return err
}

// lookup resolves a host; an address stands for itself.
func (r *ring) lookup(ctx context.Context, host []byte) ([]netip.Addr, time.Time, error) {
	name := string(host)
	if len(name) > 2 && name[0] == '[' {
		name = name[1 : len(name)-1]
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{addr}, time.Now().Add(robots.Lifetime), nil
	}
	answer, err := r.opt.Resolver.LookupHost(ctx, name, r.suffixes.PLD(name))
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
	return answer.Addrs, expires, nil
}

// minAddrLife is the least life of an address in RobotsCache.
const minAddrLife = 10 * time.Minute

// getRobots fetches robots.txt of an origin, following up to robots.MaxRedirects redirects, each hop an entry of polite
// like any other.
func (r *ring) getRobots(ctx context.Context, job *robotsJob, f *robots.Fetched) {
	url, err := weburl.Canonical(string(job.Origin) + "/robots.txt")
	if err != nil {
		f.Kind = robots.NetworkFailure
		return
	}
	addrs := f.Addrs
	resp := r.workers.response()
	defer r.workers.release(resp)
	for hop := 0; ; hop++ {
		if hop > robots.MaxRedirects {
			f.Kind = robots.TooManyRedirects
			return
		}
		err := r.getThrough(ctx, url, addrs, resp)
		if err != nil {
			f.Kind = robotsFailure(err)
			return
		}
		location := resp.Header("Location")
		if resp.Status < 300 || resp.Status > 399 || len(location) == 0 || resp.Status == 304 {
			break
		}
		next, err := r.resolveRedirect(url, location)
		if err != nil {
			f.Kind = robots.BadRedirect
			return
		}
		url = next
		if addrs, _, err = r.lookup(ctx, weburl.Split([]byte(url)).Host); err != nil {
			f.Kind = robots.DNSFailure
			return
		}
	}
	f.Kind, f.Status = robots.Answered, resp.Status
	f.Body = append([]byte(nil), resp.Body...)
	f.RetryAfter = retryAfter(resp, time.Now())
	f.MaxAge, f.HasMaxAge = maxAge(resp)
}

func robotsFailure(err error) robots.Kind {
	var fe *fetch.Error
	if errors.As(err, &fe) && (fe.Kind == fetch.KindForbiddenAddress || fe.Kind == fetch.KindForbiddenPort) {
		return robots.ForbiddenAddress
	}
	return robots.NetworkFailure
}

// getThrough waits for the host's and the server's turn and does one exchange.
func (r *ring) getThrough(ctx context.Context, url string, addrs []netip.Addr, resp *fetch.Response) error {
	parts := weburl.Split([]byte(url))
	granted := make(chan *polite.Grant, 1)
	item := &polite.Item{Data: granted, Host: r.hasher.HostKey(parts.Host), PLD: r.pldKey(parts.Host), Addrs: addrs, Robots: true}
	for {
		v := r.polite.Admit(time.Now(), item)
		if v.Kind == polite.Admitted {
			break
		}
		wait := 100 * time.Millisecond
		if v.Kind == polite.Deferred {
			wait = time.Until(v.Due)
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
	defer r.workers.free()
	began := time.Now()
	err := r.exchange(ctx, g, parts, resp, &robotsLimits)
	result := polite.Result{Elapsed: time.Since(began)}
	if err != nil {
		result.Backoff = robotsBackoff
	}
	r.polite.Done(time.Now(), g, result)
	_ = r.inStep(func(d *delta) error {
		d.count(CountRobotsAttempts, 1)
		d.count(CountRobotsBytes, resp.BytesRead)
		return nil
	})
	return err
}

// robotsBackoff is the host's least rest after a robots request that failed.
const robotsBackoff = 2 * time.Second

// robotsLimits are a little tighter than a page's: 500 KiB is what RFC 9309 2.5 asks for.
var robotsLimits = fetch.Limits{BodyBytes: 600 << 10, DecodedBytes: 600 << 10, Total: 30 * time.Second}

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
