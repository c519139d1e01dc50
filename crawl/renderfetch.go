package crawl

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/gate"
	"drumbeat/fetch"
	"drumbeat/internal/health"
	"drumbeat/internal/render"
	"drumbeat/internal/revisit"
	"drumbeat/polite"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// The requests of rendered pages are those of the crawl: each obeys blacklist, ports, address rules, robots.txt and
// the health of its host, and waits for a grant of package polite, and so for the delays of its host, server, PLD and
// network. The host has one connection as ever. Their answers are neither stored nor counted as URLs, and known to no
// other stage. To ask RobotsCache would cost a pass; so the rules of the last origins are in RAM, from a
// request of their own.

const (
	// renderOrigins bounds the origins whose rules are kept for rendered pages: at most 64 KiB each.
	renderOrigins = 64
	// renderFresh is how long an answer is used again, unless it says no-store. Without it each page of a site would
	// wait for the host's delay for each of the same scripts.
	renderFresh = time.Hour
	// renderAnswer bounds an answer that is kept, as a share of the cache.
	renderAnswer = 8
)

// pageFetcher answers the requests of one page. It implements render.Fetcher.
type pageFetcher struct {
	r               *renderStage
	page            []byte         // its URL
	from            fetcher.Source // where that was found
	cached, refused atomic.Int64
	received        atomic.Int64 // bytes of the bodies of its requests
}

// count counts the requests that were not made. It is part of the transaction that ends the page.
func (f *pageFetcher) count(tx *account.Tx) {
	tx.Count(state.CountRenderCached, f.cached.Load())
	tx.Count(state.CountRenderRefused, f.refused.Load())
}

// errRenderRefused is the reason of a request that is not made.
var errRenderRefused = errors.New("crawl: this request is not made")

// Fetch answers a request of the page.
func (f *pageFetcher) Fetch(ctx context.Context, url string) (*render.Response, error) {
	canonical, err := weburl.Canonical(url)
	if err != nil {
		f.refused.Add(1)
		return nil, err
	}
	from := fetcher.Source(f.page)
	if canonical == string(f.page) {
		from = f.from
	}
	dress := f.r.dressOf(canonical, from)
	if resp := f.r.cache.get(canonical, dress, time.Now()); resp != nil {
		f.cached.Add(1)
		return resp, nil
	}
	resp, err := f.r.fetchFor(ctx, f, canonical, dress, from)
	if errors.Is(err, errRenderRefused) {
		f.refused.Add(1)
	}
	return resp, err
}

// fetchFor makes a request of a page, if it may be made.
func (r *renderStage) fetchFor(ctx context.Context, f *pageFetcher, url string, dress uint64,
	from fetcher.Source) (*render.Response, error) {
	parts := weburl.Split([]byte(url))
	if !r.links.Ports.Contains(parts.Port) || r.rules.BlockedHost(parts.Host) {
		return nil, errRenderRefused
	}
	crawlDelay, err := r.mayFetch(ctx, []byte(url), parts)
	if err != nil {
		return nil, err
	}
	addrs, _, err := r.outages.Lookup(ctx, parts.Host, 0)
	if err == nil {
		if addrs = r.rules.Open(addrs); len(addrs) == 0 {
			err = errRenderRefused
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRenderRefused, err)
	}
	resp := r.workers.Response()
	defer r.workers.Release(resp)
	g, err := r.grant(ctx, parts, addrs, crawlDelay)
	if err != nil {
		return nil, err
	}
	if err := r.exchange(ctx, g, parts, resp, from); err != nil {
		return nil, err
	}
	if f.received.Add(int64(len(resp.Body))) > r.opt.Render.PageBytes { // before RAM holds it twice
		return nil, render.ErrTooMuch
	}
	answer := &render.Response{Status: resp.Status, Header: http.Header{}, Body: append([]byte(nil), resp.Body...)}
	resp.EachField(func(name, value []byte) { answer.Header.Add(string(name), string(value)) })
	if resp.Truncated == fetch.NotTruncated && reusable(answer) {
		r.cache.put(url, answer, dress, time.Now())
	}
	return answer, nil
}

// reusable reports whether an answer may be used again for the same request. Requests of the same URL differ
// in what the settings of its site add (dressOf), and in the codings accepted, which are undone here. So an
// answer that varies by anything else is not used again: the header that it names may be one that is never
// sent, or any ("*").
func reusable(a *render.Response) bool {
	if a.Status != http.StatusOK ||
		strings.Contains(strings.ToLower(strings.Join(a.Header["Cache-Control"], ",")), "no-store") {
		return false
	}
	for name := range strings.SplitSeq(strings.Join(a.Header["Vary"], ","), ",") {
		if name = strings.TrimSpace(name); name != "" && !strings.EqualFold(name, "Accept-Encoding") {
			return false
		}
	}
	return true
}

// dressOf returns a hash of what the settings of its site add to a request now: headers, credentials,
// cookies. 0 is nothing.
func (r *renderStage) dressOf(url string, from fetcher.Source) uint64 {
	parts := weburl.Split([]byte(url))
	site := r.sites.Of(&parts)
	if site == nil {
		return 0
	}
	var req fetch.Request
	r.fetcher.Dress(&req, site, &parts, from)
	var h maphash.Hash
	h.SetSeed(r.cache.seed)
	add := func(text string) { _, _ = h.WriteString(strconv.Itoa(len(text)) + " " + text) } // it never fails
	for _, text := range []string{req.UserAgent, req.Accept, req.AcceptLanguage} {
		add(text)
	}
	for _, f := range req.Fields {
		add(f.Name)
		add(f.Value)
	}
	return h.Sum64()
}

// grant waits for the turn of a host. It owns a connection slot afterwards, and one of the PLD's share of
// them. crawlDelay is that of the rules: package polite forgets a host that rests, and learns it from no
// other item if only scripts are requested from the host.
func (r *renderStage) grant(ctx context.Context, parts weburl.Parts, addrs []netip.Addr,
	crawlDelay time.Duration) (*polite.Grant, error) {
	if err := r.health.MayAsk(parts.Host); err != nil {
		return nil, fmt.Errorf("%w: %w", errRenderRefused, err)
	}
	granted := make(chan *polite.Grant, 1)
	// Like a request for robots.txt, it goes to the front of its host's line and gets its grant by channel.
	item := &polite.Item{Data: granted, Host: r.HostKey(parts.Host), PLD: r.PLDKey(parts.Host),
		Addrs: addrs, Robots: true, CrawlDelay: crawlDelay, Terms: r.sites.Terms(parts.Host)}
	for busy := 0; ; busy++ {
		g, err := r.granted(ctx, parts, item)
		if err != nil || r.workers.plds.enter(item.PLD) {
			return g, err
		}
		r.dispatcher.dropGrant(time.Now(), g)
		r.workers.Free()
		if !account.Sleep(ctx, min(busyWait<<min(busy, 6), maxBusyWait)) { // as pldBusy
			return nil, ctx.Err()
		}
	}
}

// granted waits for a grant of an item.
func (r *renderStage) granted(ctx context.Context, parts weburl.Parts, item *polite.Item) (*polite.Grant, error) {
	granted := item.Data.(chan *polite.Grant)
	for v := r.polite.Admit(time.Now(), item); v.Kind != polite.Admitted; v = r.polite.Admit(time.Now(), item) {
		wait := gate.RobotsRoomEvery
		if v.Kind == polite.Deferred {
			wait = max(wait, time.Until(v.Due))
		}
		if !account.Sleep(ctx, wait) {
			return nil, ctx.Err()
		}
		item.Terms = r.sites.Terms(parts.Host) // a reload may have changed them
	}
	select {
	case g := <-granted:
		return g, nil
	case <-ctx.Done():
	}
	// The page has ended, but its item is in the scheduler, and its grant will come.
	r.Fetchers.Add(1) // this goroutine is one of a stage, which ends before fetchers is waited for
	go func() {
		defer r.Fetchers.Done()
		select {
		case g := <-granted:
			r.dispatcher.dropGrant(time.Now(), g)
			r.workers.Free()
		case <-r.Running().Done(): // no more grants come
		}
	}()
	return nil, ctx.Err()
}

// exchange does the exchange of a grant, and ends the grant.
func (r *renderStage) exchange(ctx context.Context, g *polite.Grant, parts weburl.Parts, resp *fetch.Response,
	from fetcher.Source) error {
	limits := r.opt.Network.FetchLimits
	most := int(r.opt.Render.PageBytes)
	limits.BodyBytes, limits.HeldBytes, limits.DecodedBytes = most, 0, most
	err := r.fetcher.Exchange(ctx, g, parts, resp, &limits, "", &revisit.History{}, from)
	r.LogBug(string(parts.Host)+string(parts.Path), err)
	r.workers.plds.leave(g.Item.PLD)
	r.workers.Free()
	result := r.fetcher.Result(g, resp, err)
	switch {
	case err != nil && ctx.Err() != nil: // the page has ended: that says nothing about the host
	case err != nil:
		result.Backoff = gate.RobotsBackoff
	case health.KindOf(resp.Status) == health.TooFast:
		result.Backoff = max(gate.RobotsBackoff, min(fetcher.RetryAfter(resp, time.Now()), gate.PoliteBackoff))
	}
	r.polite.Done(time.Now(), g, result)
	if failed := r.Transact(func(tx *account.Tx) error {
		tx.Count(state.CountRenderRequests, 1)
		tx.Count(state.CountRenderBytes, resp.BytesRead)
		tx.Count(state.CountBytesSent, resp.BytesWritten)
		fetcher.LinkOf(resp, err).Count(tx)
		if result.Backoff >= health.Short {
			return r.health.Clear(tx, g.Item.Host, health.Verdict{})
		}
		return nil
	}); failed != nil {
		return failed
	}
	return err
}

// mayFetch asks the robots.txt of a URL's origin, after requesting it if the rules are not in RAM. It
// returns their Crawl-delay, capped.
func (r *renderStage) mayFetch(ctx context.Context, url []byte,
	parts weburl.Parts) (crawlDelay time.Duration, _ error) {
	origin := string(weburl.Origin(url))
	o := r.cache.origin(origin)
	select { // one request at a time
	case o.lock <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-o.lock }()
	site := r.sites.Of(&parts)
	own := site != nil && site.IgnoreRobots
	for range 2 {
		switch decision, _ := o.rules.DecideFor(parts.Path, time.Now(), own); decision {
		case robots.Allow, robots.Resolve:
			return min(o.rules.CrawlDelay(), r.opt.Politeness.MaxCrawlDelay), nil
		case robots.Request:
		default:
			return 0, fmt.Errorf("%w: robots.txt: %v", errRenderRefused, decision)
		}
		if err := r.requestRules(ctx, origin, o); err != nil {
			return 0, err
		}
	}
	return 0, errRenderRefused
}

// requestRules requests a robots.txt.
func (r *renderStage) requestRules(ctx context.Context, origin string, o *renderOrigin) error {
	q := r.requests
	job := robots.Job{Origin: []byte(origin)}
	var f robots.Fetched
	resp := r.workers.Response()
	defer r.workers.Release(resp)
	for {
		var err error
		f = robots.Fetched{}
		if f.Addrs, f.AddrExpires, err = r.outages.Lookup(ctx, weburl.Split(job.Origin).Host, 0); err != nil {
			return fmt.Errorf("%w: %w", errRenderRefused, err)
		}
		_, err = q.GetRobots(ctx, &job, resp, &f)
		var late *gate.DeferredError
		if errors.As(err, &late) {
			job.Waits = late.Waits
			if !account.Sleep(ctx, time.Until(late.Until)) {
				return ctx.Err()
			}
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("%w: robots.txt: %w", errRenderRefused, err)
		}
		break
	}
	if !q.EnterRobots(ctx) {
		return ctx.Err()
	}
	defer q.LeaveRobots()
	h, _ := q.ReadRobots(&job, &f, time.Now())
	var kept robots.HostData
	if err := kept.Decode(h.Append(nil)); err != nil { // a copy: the rules may refer to the response
		return err
	}
	o.rules = kept
	return nil
}

// renderCache keeps answers and rules for rendered pages in RAM.
type renderCache struct {
	seed maphash.Seed

	mu      sync.Mutex // guards all below
	most    int64
	bytes   int64
	answers map[string]*list.Element
	order   *list.List // of *renderAnswered, the one used last in front
	origins map[string]*renderOrigin
	turn    int64
}

type renderAnswered struct {
	url   string
	dress uint64 // of the request
	resp  *render.Response
	size  int64
	at    time.Time
}

// renderOrigin has the rules of an origin, which its lock guards.
type renderOrigin struct {
	lock  chan struct{}
	rules robots.HostData
	used  int64 // turn of the cache
}

func newRenderCache(bytes int64) *renderCache {
	return &renderCache{seed: maphash.MakeSeed(), most: bytes, answers: map[string]*list.Element{}, order: list.New(),
		origins: map[string]*renderOrigin{}}
}

// get returns a fresh answer to the same request, nil if there is none.
func (c *renderCache) get(url string, dress uint64, now time.Time) *render.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.answers[url]
	if e == nil {
		return nil
	}
	a := e.Value.(*renderAnswered)
	if now.Sub(a.at) > renderFresh || a.dress != dress {
		c.drop(e)
		return nil
	}
	c.order.MoveToFront(e)
	return a.resp
}

// put keeps an answer, which nobody changes afterwards, unless it is large.
func (c *renderCache) put(url string, resp *render.Response, dress uint64, now time.Time) {
	size := int64(len(url)+len(resp.Body)) + 1024
	for name, values := range resp.Header {
		size += int64(len(name) + len(strings.Join(values, "")))
	}
	if size > c.most/renderAnswer {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.answers[url]; e != nil {
		c.drop(e)
	}
	c.answers[url] = c.order.PushFront(&renderAnswered{url, dress, resp, size, now})
	for c.bytes += size; c.bytes > c.most; {
		c.drop(c.order.Back())
	}
}

func (c *renderCache) drop(e *list.Element) {
	a := c.order.Remove(e).(*renderAnswered)
	delete(c.answers, a.url)
	c.bytes -= a.size
}

// origin returns the rules of an origin, empty at first. The origin used longest ago makes room.
func (c *renderCache) origin(name string) *renderOrigin {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.origins[name]
	if o == nil {
		if len(c.origins) >= renderOrigins {
			oldest := ""
			for n, other := range c.origins {
				if oldest == "" || other.used < c.origins[oldest].used {
					oldest = n
				}
			}
			delete(c.origins, oldest)
		}
		o = &renderOrigin{lock: make(chan struct{}, 1)}
		c.origins[name] = o
	}
	c.turn++
	o.used = c.turn
	return o
}
