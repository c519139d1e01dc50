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

func newWorkers(c *crawler, connections int) *workers {
	w := &workers{
		slots:     make(chan struct{}, connections),
		grants:    make(chan *polite.Grant),
		responses: make(chan *fetch.Response, connections),
		parsers:   make(chan *pageWorker, runtime.GOMAXPROCS(0)+1),
		archivers: newArchivers(c.warc),
		plds:      newPLDLimiter(&c.opt),
		robots:    make(chan struct{}, runtime.GOMAXPROCS(0)+1),
	}
	for range cap(w.parsers) {
		w.parsers <- newPageWorker(c)
	}
	return w
}

func newPageWorker(c *crawler) *pageWorker {
	return &pageWorker{links: admit.NewBatch(c.links), encoder: c.warc.NewEncoder(),
		parser: parse.NewExtractor(parse.Options{Agent: c.opt.Agent, Rels: c.opt.LinkRels, Assets: c.opt.Assets, Forms: c.opt.Forms},
			c.links.URLOptions())}
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
func (c *crawler) dispatch(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case c.workers.slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		c.workers.waits.Store(true)
		g := c.nextGrant(ctx, timer)
		c.workers.waits.Store(false)
		if g == nil {
			c.workers.free()
			return nil
		}
		if g.Item.Robots {
			g.Item.Data.(chan *polite.Grant) <- g // capacity 1, one grant: never blocks
			continue
		}
		if !c.workers.plds.enter(g.Item.PLD) {
			c.workers.free()
			if err := c.pldBusy(g); err != nil {
				return err
			}
			continue
		}
		c.workers.inFlight.add(1)
		select {
		case c.workers.grants <- g:
		default:
			c.startFetcher(g)
		}
	}
}

// maxIdleFetchers bounds the goroutines that wait for another page to fetch. They are kept for their stacks: fetching and
// parsing need 32 KiB, and to grow a new stack to that costs 5 µs a page. What one burst needed beyond this number ends.
const maxIdleFetchers = 256

// startFetcher starts a goroutine that fetches the page of a grant and then those that come through workers.grants. It
// ends when enough others idle, or with crawl.
func (c *crawler) startFetcher(g *polite.Grant) {
	c.fetchers.Add(1)
	go func() {
		defer c.fetchers.Done()
		defer c.fatal()
		for ok := true; ok; {
			c.fetchGranted(g)
			if c.workers.idle.Add(1) > maxIdleFetchers {
				c.workers.idle.Add(-1)
				return
			}
			g, ok = <-c.workers.grants
			c.workers.idle.Add(-1)
		}
	}()
}

// fetchGranted does all for one grant and frees what it took.
func (c *crawler) fetchGranted(g *polite.Grant) {
	defer c.workers.free()
	defer c.workers.plds.leave(g.Item.PLD)
	defer c.fetchEnded()
	if err := c.fetchOne(c.fetching, g); err != nil && c.fetching.Err() == nil {
		c.fail(err)
	}
}

// fetchEnded lets the next page be fetched if --max-pages kept it back, and the crawl end if none is left.
func (c *crawler) fetchEnded() {
	c.workers.inFlight.add(-1)
	if c.workers.inFlight.load() == 0 {
		c.wakeWatch.raise()
	}
	if c.opt.MaxPages > 0 {
		c.wakeDispatch.raise()
	}
}

// nextGrant waits for the next item whose turn it is; nil when ctx ends.
func (c *crawler) nextGrant(ctx context.Context, timer *time.Timer) *polite.Grant {
	for ctx.Err() == nil {
		wait := wakeAfter
		if c.mayFetch() {
			var g *polite.Grant
			if g, wait = c.nextAllowed(time.Now()); g != nil {
				c.net.take(time.Now())
				c.dns.take(time.Now())
				return g
			}
			if c.acct.in(state.PlaceRAM) < int64(c.opt.Connections) {
				c.wakeReady.raise()
			}
		}
		if c.slowed() {
			wait = min(wait, trickle)
		}
		timer.Reset(max(min(wait, wakeAfter), time.Microsecond))
		select {
		case <-c.polite.Ready():
		case <-c.wakeDispatch:
		case <-timer.C:
		case <-ctx.Done():
		}
		c.wakeups.Add(1)
	}
	return nil
}

// mayFetch is false while fetching rests. It keeps --max-pages: no more exchanges are under way than pages may still come.
func (c *crawler) mayFetch() bool {
	if now := time.Now(); c.space.why() != "" || !c.net.mayTry(now) || !c.dns.mayTry(now) {
		return false
	}
	if c.opt.MaxPages <= 0 {
		return true
	}
	return c.counter(state.CountPages)+int64(c.workers.inFlight.load()) < c.opt.MaxPages
}

// readReady admits URLs into RAM. A URL for which there is no room waits here, unless its host has its share already:
// then it waits for its turn on disk.
func (c *crawler) readReady(ctx context.Context) error {
	for ctx.Err() == nil {
		data, ok, err := c.ready.Peek()
		if err != nil {
			return err
		}
		if !ok {
			c.await(ctx, c.wakeReady, wakeAfter)
			continue
		}
		item, sum, err := c.itemOf(data)
		if err != nil {
			return err
		}
		full := false
		if err := c.transact(func(tx *transaction) error {
			taken, err := c.takeReady(tx, item, &sum)
			if full = !taken; full {
				tx.nothing = true
				return err
			}
			c.ready.Advance()
			return err
		}); err != nil {
			return err
		}
		if full {
			if err := c.makeRoom(); err != nil {
				return err
			}
			c.await(ctx, c.polite.Room(), relieveEvery)
		}
	}
	return nil
}

// takeReady takes a URL from Q into RAM, or where it belongs instead; part of a transaction. taken is false while RAM is full.
func (c *crawler) takeReady(tx *transaction, item *polite.Item, sum *robots.Summary) (taken bool, err error) {
	var rec weburl.Record
	if err := rec.Decode(item.Rec); err != nil {
		return false, err
	}
	now := time.Now()
	if len(item.Addrs) == 0 {
		return true, c.refuse(tx, &rec, state.PlaceReady, state.ReasonBlocked)
	}
	if verdictEnd(sum).Before(now) || c.rules.BlockedURL(rec.URL) {
		return true, c.checkRobots(tx, item.Rec, &rec, state.PlaceReady)
	}
	if rests, err := c.inBackoff(tx, item.Host, &rec, state.PlaceReady, &sum.Health); rests || err != nil {
		return true, err
	}
	switch v := c.polite.Admit(now, item); v.Kind {
	case polite.Full:
		return false, nil
	case polite.Admitted:
		tx.move(c.Hasher.URLKey(rec.URL), state.PlaceReady, state.PlaceRAM)
	case polite.Deferred:
		rec.Deferred()
		return true, c.deferURL(tx, &rec, state.PlaceReady, v.Due, state.ReasonHostBacklog)
	}
	return true, nil
}

// exchange does one HTTP exchange at the granted address.
func (c *crawler) exchange(ctx context.Context, g *polite.Grant, parts weburl.Parts, resp *fetch.Response, limits *fetch.Limits) error {
	req := fetch.Request{
		Scheme: string(parts.Scheme), Host: string(parts.Host), Port: parts.Port, PathQuery: string(parts.Path),
		Addr: netip.AddrPortFrom(g.Addr, parts.Port), Limits: limits,
		BeforeWrite: func() { c.polite.Started(time.Now(), g) }, KeepAlive: c.keepAlive(g),
	}
	if limits == nil {
		req.BodyLimit = c.accept // of a page; a robots.txt is read whatever it calls itself
	}
	if len(parts.Path) == 0 || parts.Path[0] != '/' {
		return fmt.Errorf("crawl: BUG: path %q of a canonical URL", parts.Path)
	}
	ctx, leave, err := c.rules.enter(ctx, parts.Host, g.Addr)
	if err != nil {
		return err
	}
	defer leave()
	c.workers.exchanges.add(1)
	defer c.changed()
	defer c.workers.exchanges.add(-1)
	try := c.net.begin()
	err = bug.Contained(func() error { return c.opt.Fetcher.Do(ctx, &req, resp) })
	c.opt.Bandwidth.Brought(grantKind(g), resp.Received)
	if context.Cause(ctx) == errBlocked && (err != nil || cutOff(resp)) {
		err = errBlocked
	}
	c.watchExchange(try, g.Addr, parts, err, resp)
	return err
}

// keepAlive is how long the grant's connection is worth keeping: until the host's next page is due, which may come late. 0 if
// none waits, or later than connections may be kept.
func (c *crawler) keepAlive(g *polite.Grant) time.Duration {
	if g.Again == 0 || g.Again > c.opt.KeepAlive {
		return 0
	}
	return min(2*g.Again+time.Second, c.opt.KeepAlive)
}

// keptFor is for how long the grant's connection stays open at most, now that its exchange has ended; 0 if it is closed.
func (c *crawler) keptFor(g *polite.Grant, resp *fetch.Response) time.Duration {
	if !resp.Kept {
		return 0
	}
	return c.keepAlive(g)
}
