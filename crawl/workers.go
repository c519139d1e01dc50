package crawl

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
	"drumbeat/fetch"
	"drumbeat/internal/bug"
	"drumbeat/parse"
	"drumbeat/polite"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// dispatcher is Q and the heaps of hosts and servers in RAM: it admits URLs from disk and starts an exchange when host and
// server, the limits and a connection allow it.
//
// Producer: RobotsCache's emission, by Q. Consumers: its goroutines "ready", which admits, and "dispatch", which takes grants
// and hands them to fetchers. Package polite has the lock of the heaps.
type dispatcher struct {
	*engine
	ready   *queue.Queue
	polite  *polite.Scheduler
	limits  limits
	workers *workers

	wakeReady, wakeDispatch signal
	// fetching outlives the stages' context by stopGrace, so that exchanges under way may end; fetchers waits for them.
	fetching context.Context
	fetchers sync.WaitGroup

	check     *robotsCheck
	deferrals *deferrals
	health    *hostHealth
	outages   *outages
	pages     *pageStage
	space     *space
	stock     *stockKeeper
}

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
	plds      *pldLimiter          // exchanges under way by PLD
	inFlight  inFlight             // grants of URLs that have not ended: pages that may still come
	exchanges inFlight             // exchanges under way, robots.txt included
	freed     signal               // a slot; nil: nobody waits for that
}

// pageWorker is what parsing one page needs; it is owned by one goroutine at a time.
type pageWorker struct {
	parser   *parse.Extractor
	links    *admit.Batch
	meta     pageMeta // of the response
	encoder  *warc.Encoder
	exchange warc.Exchange
	prepared warc.Prepared
	file     string // that the last record went to
}

func newWorkers(o *output, connections int) *workers {
	w := &workers{
		slots:     make(chan struct{}, connections),
		grants:    make(chan *polite.Grant),
		responses: make(chan *fetch.Response, connections),
		parsers:   make(chan *pageWorker, runtime.GOMAXPROCS(0)+1),
		archivers: newArchivers(o.warc),
		plds:      newPLDLimiter(&o.opt),
		robots:    make(chan struct{}, runtime.GOMAXPROCS(0)+1),
	}
	for range cap(w.parsers) {
		w.parsers <- newPageWorker(o)
	}
	return w
}

func newPageWorker(o *output) *pageWorker {
	return &pageWorker{links: admit.NewBatch(o.links), encoder: o.warc.NewEncoder(),
		parser: parse.NewExtractor(parse.Options{Agent: o.opt.Agent, Rels: o.opt.LinkRels, Assets: o.opt.Assets, Forms: o.opt.Forms},
			o.links.URLOptions())}
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
func (d *dispatcher) dispatch(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case d.workers.slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		d.workers.waits.Store(true)
		g := d.nextGrant(ctx, timer)
		d.workers.waits.Store(false)
		if g == nil {
			d.workers.free()
			return nil
		}
		if g.Item.Robots {
			g.Item.Data.(chan *polite.Grant) <- g // capacity 1, one grant: never blocks
			continue
		}
		if !d.workers.plds.enter(g.Item.PLD) {
			d.workers.free()
			if err := d.pldBusy(g); err != nil {
				return err
			}
			continue
		}
		d.workers.inFlight.add(1)
		select {
		case d.workers.grants <- g:
		default:
			d.startFetcher(g)
		}
	}
}

// maxIdleFetchers bounds the goroutines that wait for another page to fetch. They are kept for their stacks: fetching and
// parsing need 32 KiB, and to grow a new stack to that costs 5 µs a page. What one burst needed beyond this number ends.
const maxIdleFetchers = 256

// startFetcher starts a goroutine that fetches the page of a grant and then those that come through workers.grants. It
// ends when enough others idle, or with crawl.
func (d *dispatcher) startFetcher(g *polite.Grant) {
	d.fetchers.Add(1)
	go func() {
		defer d.fetchers.Done()
		defer d.fatal()
		for ok := true; ok; {
			d.fetchGranted(g)
			if d.workers.idle.Add(1) > maxIdleFetchers {
				d.workers.idle.Add(-1)
				return
			}
			g, ok = <-d.workers.grants
			d.workers.idle.Add(-1)
		}
	}()
}

// fetchGranted does all for one grant and frees what it took.
func (d *dispatcher) fetchGranted(g *polite.Grant) {
	defer d.workers.free()
	defer d.workers.plds.leave(g.Item.PLD)
	defer d.fetchEnded()
	if err := d.pages.fetchOne(d.fetching, g); err != nil && d.fetching.Err() == nil {
		d.fail(err)
	}
}

// fetchEnded lets the next page be fetched if --max-pages kept it back, and the crawl end if none is left.
func (d *dispatcher) fetchEnded() {
	d.workers.inFlight.add(-1)
	if d.workers.inFlight.load() == 0 {
		d.wakeWatch.raise()
	}
	if d.opt.MaxPages > 0 {
		d.wakeDispatch.raise()
	}
}

// nextGrant waits for the next item whose turn it is; nil when ctx ends.
func (d *dispatcher) nextGrant(ctx context.Context, timer *time.Timer) *polite.Grant {
	for ctx.Err() == nil {
		wait := wakeAfter
		if d.mayFetch() {
			var g *polite.Grant
			if g, wait = d.nextAllowed(time.Now()); g != nil {
				d.outages.net.take(time.Now())
				d.outages.dns.take(time.Now())
				return g
			}
			if d.acct.in(state.PlaceRAM) < int64(d.opt.Connections) {
				d.wakeReady.raise()
			}
		}
		if d.outages.slowed() {
			wait = min(wait, trickle)
		}
		timer.Reset(max(min(wait, wakeAfter), time.Microsecond))
		select {
		case <-d.polite.Ready():
		case <-d.wakeDispatch:
		case <-timer.C:
		case <-ctx.Done():
		}
		d.wakeups.Add(1)
	}
	return nil
}

// mayFetch is false while fetching rests. It keeps --max-pages: no more exchanges are under way than pages may still come.
func (d *dispatcher) mayFetch() bool {
	if now := time.Now(); d.space.why() != "" || !d.outages.net.mayTry(now) || !d.outages.dns.mayTry(now) {
		return false
	}
	if d.opt.MaxPages <= 0 {
		return true
	}
	return d.counter(state.CountPages)+int64(d.workers.inFlight.load()) < d.opt.MaxPages
}

// readReady admits URLs into RAM. A URL for which there is no room waits here, unless its host has its share already:
// then it waits for its turn on disk.
func (d *dispatcher) readReady(ctx context.Context) error {
	for ctx.Err() == nil {
		data, ok, err := d.ready.Peek()
		if err != nil {
			return err
		}
		if !ok {
			d.await(ctx, d.wakeReady, wakeAfter)
			continue
		}
		item, sum, err := d.itemOf(data)
		if err != nil {
			return err
		}
		full := false
		if err := d.transact(func(tx *transaction) error {
			taken, err := d.takeReady(tx, item, &sum)
			if full = !taken; full {
				tx.nothing = true
				return err
			}
			d.ready.Advance()
			return err
		}); err != nil {
			return err
		}
		if full {
			if err := d.stock.makeRoom(); err != nil {
				return err
			}
			d.await(ctx, d.polite.Room(), relieveEvery)
		}
	}
	return nil
}

// takeReady takes a URL from Q into RAM, or where it belongs instead; part of a transaction. taken is false while RAM is full.
func (d *dispatcher) takeReady(tx *transaction, item *polite.Item, sum *robots.Summary) (taken bool, err error) {
	var rec weburl.Record
	if err := rec.Decode(item.Rec); err != nil {
		return false, err
	}
	now := time.Now()
	if len(item.Addrs) == 0 {
		return true, d.deferrals.refuse(tx, &rec, state.PlaceReady, state.ReasonBlocked)
	}
	if verdictEnd(sum).Before(now) || d.rules.BlockedURL(rec.URL) {
		return true, d.check.checkRobots(tx, item.Rec, &rec, state.PlaceReady)
	}
	if rests, err := d.health.inBackoff(tx, item.Host, &rec, state.PlaceReady, &sum.Health); rests || err != nil {
		return true, err
	}
	switch v := d.polite.Admit(now, item); v.Kind {
	case polite.Full:
		return false, nil
	case polite.Admitted:
		tx.move(d.Hasher.URLKey(rec.URL), state.PlaceReady, state.PlaceRAM)
	case polite.Deferred:
		rec.Deferred()
		return true, d.deferrals.deferURL(tx, &rec, state.PlaceReady, v.Due, state.ReasonHostBacklog)
	}
	return true, nil
}

// exchange does one HTTP exchange at the granted address.
func (p *pageStage) exchange(ctx context.Context, g *polite.Grant, parts weburl.Parts, resp *fetch.Response, limits *fetch.Limits) error {
	req := fetch.Request{
		Scheme: string(parts.Scheme), Host: string(parts.Host), Port: parts.Port, PathQuery: string(parts.Path),
		Addr: netip.AddrPortFrom(g.Addr, parts.Port), Limits: limits,
		BeforeWrite: func() { p.dispatcher.polite.Started(time.Now(), g) }, KeepAlive: p.keepAlive(g),
	}
	if limits == nil {
		req.BodyLimit = p.accept // of a page; a robots.txt is read whatever it calls itself
	}
	if len(parts.Path) == 0 || parts.Path[0] != '/' {
		return fmt.Errorf("crawl: BUG: path %q of a canonical URL", parts.Path)
	}
	ctx, leave, err := p.rules.enter(ctx, parts.Host, g.Addr)
	if err != nil {
		return err
	}
	defer leave()
	p.dispatcher.workers.exchanges.add(1)
	defer p.changed()
	defer p.dispatcher.workers.exchanges.add(-1)
	try := p.outages.net.begin()
	err = bug.Contained(func() error { return p.opt.Fetcher.Do(ctx, &req, resp) })
	p.opt.Bandwidth.Brought(grantKind(g), resp.Received)
	if context.Cause(ctx) == errBlocked && (err != nil || cutOff(resp)) {
		err = errBlocked
	}
	p.outages.watchExchange(try, g.Addr, parts, err, resp)
	return err
}

// keepAlive is how long the grant's connection is worth keeping: until the host's next page is due, which may come late. 0 if
// none waits, or later than connections may be kept.
func (p *pageStage) keepAlive(g *polite.Grant) time.Duration {
	if g.Again == 0 || g.Again > p.opt.KeepAlive {
		return 0
	}
	return min(2*g.Again+time.Second, p.opt.KeepAlive)
}

// keptFor is for how long the grant's connection stays open at most, now that its exchange has ended; 0 if it is closed.
func (p *pageStage) keptFor(g *polite.Grant, resp *fetch.Response) time.Duration {
	if !resp.Kept {
		return 0
	}
	return p.keepAlive(g)
}
