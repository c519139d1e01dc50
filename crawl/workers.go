package crawl

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
	"drumbeat/fetch"
	"drumbeat/internal/bug"
	"drumbeat/parse"
	"drumbeat/polite"
	"drumbeat/robots"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// workers bounds what fetching holds: connections, response buffers, parsers.
type workers struct {
	slots     chan struct{}        // one taken for each exchange under way
	grants    chan *polite.Grant   // to fetchers that idle; closed when no more come
	idle      atomic.Int64         // fetchers that idle
	waits     atomic.Bool          // dispatch has a slot and no grant for it
	responses chan *fetch.Response // idle ones, to be reused
	parsers   chan *pageWorker     // as many as may parse at once
	robots    chan struct{}        // as many as may be busy with a robots.txt at once: its rules take more than the file
	archivers archivers            // as many as may encode what isn't pages
	crowds    *crowds              // exchanges under way by PLD
	inFlight  inFlight             // grants of URLs that have not ended: pages that may still come
	exchanges inFlight             // exchanges under way, robots.txt included
	freed     signal               // a slot; nil: nobody waits for that
}

// pageWorker is what parsing one page needs; it is owned by one goroutine at a time.
type pageWorker struct {
	parser   *parse.Extractor
	links    *admit.Batch
	said     relations // of the response
	encoder  *warc.Encoder
	exchange warc.Exchange
	prepared warc.Prepared
	file     string // that the last record went to
}

func newWorkers(r *ring, connections int) *workers {
	w := &workers{
		slots:     make(chan struct{}, connections),
		grants:    make(chan *polite.Grant),
		responses: make(chan *fetch.Response, connections),
		parsers:   make(chan *pageWorker, runtime.GOMAXPROCS(0)+1),
		archivers: newArchivers(r.warc),
		crowds:    newCrowds(&r.opt),
		robots:    make(chan struct{}, runtime.GOMAXPROCS(0)+1),
	}
	for range cap(w.parsers) {
		w.parsers <- newPageWorker(r)
	}
	return w
}

func newPageWorker(r *ring) *pageWorker {
	return &pageWorker{links: admit.NewBatch(r.links), encoder: r.warc.NewEncoder(),
		parser: parse.NewExtractor(parse.Options{Agent: r.opt.Agent, Rels: r.opt.LinkRels, Assets: r.opt.Assets, Forms: r.opt.Forms},
			r.links.URLOptions())}
}

func (w *workers) response() *fetch.Response {
	select {
	case resp := <-w.responses:
		return resp
	default:
		return new(fetch.Response)
	}
}

func (w *workers) release(resp *fetch.Response) {
	resp.Reset()
	select {
	case w.responses <- resp:
	default:
	}
}

// enterRobots waits until one more robots.txt may be parsed; false when ctx has ended.
func (w *workers) enterRobots(ctx context.Context) bool {
	select {
	case w.robots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if ctx.Err() != nil { // what was cut off by that mustn't pass for an outcome
		w.leaveRobots()
		return false
	}
	return true
}

func (w *workers) leaveRobots() { <-w.robots }

// free gives a connection slot back.
func (w *workers) free() {
	<-w.slots
	w.freed.raise()
}

// dispatch hands out the grants of polite, as long as there are connection slots.
func (r *ring) dispatch(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case r.workers.slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		r.workers.waits.Store(true)
		g := r.nextGrant(ctx, timer)
		r.workers.waits.Store(false)
		if g == nil {
			r.workers.free()
			return nil
		}
		if g.Item.Robots {
			g.Item.Data.(chan *polite.Grant) <- g // capacity 1, one grant: never blocks
			continue
		}
		if !r.workers.crowds.enter(g.Item.PLD) {
			r.workers.free()
			if err := r.pldBusy(g); err != nil {
				return err
			}
			continue
		}
		r.workers.inFlight.add(1)
		select {
		case r.workers.grants <- g:
		default:
			r.startFetcher(g)
		}
	}
}

// maxIdleFetchers bounds the goroutines that wait for another page to fetch. They are kept for their stacks: fetching and
// parsing need 32 KiB, and to grow a new stack to that costs 5 µs a page. What one burst needed beyond this number ends.
const maxIdleFetchers = 256

// startFetcher starts a goroutine that fetches the page of a grant and then those that come through workers.grants. It
// ends when enough others idle, or with crawl.
func (r *ring) startFetcher(g *polite.Grant) {
	r.fetchers.Add(1)
	go func() {
		defer r.fetchers.Done()
		defer r.fatal()
		for ok := true; ok; {
			r.fetchGranted(g)
			if r.workers.idle.Add(1) > maxIdleFetchers {
				r.workers.idle.Add(-1)
				return
			}
			g, ok = <-r.workers.grants
			r.workers.idle.Add(-1)
		}
	}()
}

// fetchGranted does all for one grant and frees what it took.
func (r *ring) fetchGranted(g *polite.Grant) {
	defer r.workers.free()
	defer r.workers.crowds.leave(g.Item.PLD)
	defer r.fetchEnded()
	if err := r.fetchOne(r.fetching, g); err != nil && r.fetching.Err() == nil {
		r.fail(err)
	}
}

// fetchEnded lets the next page be fetched if --max-pages kept it back, and the crawl end if none is left.
func (r *ring) fetchEnded() {
	r.workers.inFlight.add(-1)
	if r.workers.inFlight.load() == 0 {
		r.wakeWatch.raise()
	}
	if r.opt.MaxPages > 0 {
		r.wakeDispatch.raise()
	}
}

// nextGrant waits for the next item whose turn it is; nil when ctx ends.
func (r *ring) nextGrant(ctx context.Context, timer *time.Timer) *polite.Grant {
	for ctx.Err() == nil {
		wait := wakeAfter
		if r.mayFetch() {
			var g *polite.Grant
			if g, wait = r.nextAllowed(time.Now()); g != nil {
				r.net.take(time.Now())
				r.dns.take(time.Now())
				return g
			}
			if r.acct.in(state.PlaceRAM) < int64(r.opt.Connections) {
				r.wakeReady.raise()
			}
		}
		if r.slowed() {
			wait = min(wait, trickle)
		}
		timer.Reset(max(min(wait, wakeAfter), time.Microsecond))
		select {
		case <-r.polite.Ready():
		case <-r.wakeDispatch:
		case <-timer.C:
		case <-ctx.Done():
		}
		r.wakeups.Add(1)
	}
	return nil
}

// mayFetch is false while fetching rests. It keeps --max-pages: no more exchanges are under way than pages may still come.
func (r *ring) mayFetch() bool {
	if now := time.Now(); r.space.why() != "" || !r.net.mayTry(now) || !r.dns.mayTry(now) {
		return false
	}
	if r.opt.MaxPages <= 0 {
		return true
	}
	return r.counter(state.CountPages)+int64(r.workers.inFlight.load()) < r.opt.MaxPages
}

// readReady admits URLs into RAM. A URL for which there is no room waits here, unless its host has its share already:
// then it waits for its turn on disk.
func (r *ring) readReady(ctx context.Context) error {
	for ctx.Err() == nil {
		data, ok, err := r.ready.Peek()
		if err != nil {
			return err
		}
		if !ok {
			r.await(ctx, r.wakeReady, wakeAfter)
			continue
		}
		item, sum, err := r.itemOf(data)
		if err != nil {
			return err
		}
		full := false
		if err := r.inStep(func(d *delta) error {
			taken, err := r.takeReady(d, item, &sum)
			if full = !taken; full {
				d.nothing = true
				return err
			}
			r.ready.Advance()
			return err
		}); err != nil {
			return err
		}
		if full {
			if err := r.makeRoom(); err != nil {
				return err
			}
			r.await(ctx, r.polite.Room(), relieveEvery)
		}
	}
	return nil
}

// takeReady takes a URL from Q into RAM, or where it belongs instead; part of a step. taken is false while RAM is full.
func (r *ring) takeReady(d *delta, item *polite.Item, sum *robots.Summary) (taken bool, err error) {
	var rec weburl.Record
	if err := rec.Decode(item.Rec); err != nil {
		return false, err
	}
	now := time.Now()
	if len(item.Addrs) == 0 {
		return true, r.refuse(d, &rec, state.PlaceReady, state.ReasonBlocked)
	}
	if verdictEnd(sum).Before(now) || r.fence.BlockedURL(rec.URL) {
		return true, r.checkRobots(d, item.Rec, &rec, state.PlaceReady)
	}
	if rests, err := r.rests(d, item.Host, &rec, state.PlaceReady, &sum.Health); rests || err != nil {
		return true, err
	}
	switch v := r.polite.Admit(now, item); v.Kind {
	case polite.Full:
		return false, nil
	case polite.Admitted:
		d.move(r.Hasher.URLKey(rec.URL), state.PlaceReady, state.PlaceRAM)
	case polite.Deferred:
		rec.Deferred()
		return true, r.putOff(d, &rec, state.PlaceReady, v.Due, state.ReasonHostBacklog)
	}
	return true, nil
}

// exchange does one HTTP exchange at the granted address.
func (r *ring) exchange(ctx context.Context, g *polite.Grant, parts weburl.Parts, resp *fetch.Response, limits *fetch.Limits) error {
	req := fetch.Request{
		Scheme: string(parts.Scheme), Host: string(parts.Host), Port: parts.Port, PathQuery: string(parts.Path),
		Addr: netip.AddrPortFrom(g.Addr, parts.Port), Limits: limits,
		BeforeWrite: func() { r.polite.Started(time.Now(), g) }, KeepAlive: r.keepAlive(g),
	}
	if limits == nil {
		req.BodyLimit = r.accept // of a page; a robots.txt is read whatever it calls itself
	}
	if len(parts.Path) == 0 || parts.Path[0] != '/' {
		return fmt.Errorf("crawl: BUG: path %q of a canonical URL", parts.Path)
	}
	ctx, leave, err := r.fence.enter(ctx, parts.Host, g.Addr)
	if err != nil {
		return err
	}
	defer leave()
	r.workers.exchanges.add(1)
	defer r.changed()
	defer r.workers.exchanges.add(-1)
	try := r.net.begin()
	err = bug.Contained(func() error { return r.opt.Fetcher.Do(ctx, &req, resp) })
	r.opt.Bandwidth.Brought(grantKind(g), resp.Received)
	if context.Cause(ctx) == errBlocked && (err != nil || cutOff(resp)) {
		err = errBlocked
	}
	r.watchExchange(try, g.Addr, parts, err, resp)
	return err
}

// keepAlive is how long the grant's connection is worth keeping: until the host's next page is due, which may come late. 0 if
// none waits, or later than connections may be kept.
func (r *ring) keepAlive(g *polite.Grant) time.Duration {
	if g.Again == 0 || g.Again > r.opt.KeepAlive {
		return 0
	}
	return min(2*g.Again+time.Second, r.opt.KeepAlive)
}

// keptFor is for how long the grant's connection stays open at most, now that its exchange has ended; 0 if it is closed.
func (r *ring) keptFor(g *polite.Grant, resp *fetch.Response) time.Duration {
	if !resp.Kept {
		return 0
	}
	return r.keepAlive(g)
}
