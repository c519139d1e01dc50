package render

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/output"
	"drumbeat/fetch"
	"drumbeat/internal/health"
	cdp "drumbeat/internal/render"
	"drumbeat/internal/revisit"
	"drumbeat/polite"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// The requests of rendered pages are those of the crawl: each obeys blacklist, ports, address rules, robots.txt and
// the health of its host, and waits for a grant of package polite, and so for the delays of its host, server, PLD and
// network. The host still has one connection. Their answers are not counted as URLs, and known to no
// other stage; they are stored for the replay of the page (parts.go). To ask RobotsCache would cost a pass; so the
// rules of the last origins are in RAM, from a request of their own. If another node owns the host, that node makes the
// request (ask.go).

const (
	// mostOrigins bounds the origins whose rules are kept for rendered pages: at most 64 KiB each.
	mostOrigins = 64
	// fresh is how long an answer is used again, unless it says no-store. Without it each page of a site would
	// wait for the host's delay for each of the same scripts.
	fresh = time.Hour
	// roomEvery is the interval at which a request asks again while the heaps are full.
	roomEvery = 100 * time.Millisecond
	// answerShare bounds an answer that is kept, as a share of the cache.
	answerShare = 8
)

// pageFetcher answers the requests of one page. It implements cdp.Fetcher.
type pageFetcher struct {
	r               *Stage
	page            []byte         // its URL
	from            fetcher.Source // where that was found
	cached, refused atomic.Int64
	asked           atomic.Int64 // answers of other nodes
	unanswered      atomic.Int64 // requests that other nodes have not answered
	silent          atomic.Bool  // the last one of them has waited for askPatience
	received        atomic.Int64 // bytes of the bodies of its requests

	mu   sync.Mutex          // guards the fields below
	keys map[uint64]struct{} // of the URLs that were answered
	kept []*answer
}

// got notes that a URL was answered.
func (f *pageFetcher) got(url string) {
	key := f.r.saved.Hasher.URLKey([]byte(url))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys[key] = struct{}{}
}

// answered returns the keys of the URLs that were answered.
func (f *pageFetcher) answered() map[uint64]struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.keys)
}

// end stores the answers to the requests of the page, and counts the requests that were not made. It is part of the
// transaction that ends the page.
func (f *pageFetcher) end(tx *account.Tx) error {
	tx.Count(state.CountRenderCached, f.cached.Load())
	tx.Count(state.CountRenderRefused, f.refused.Load())
	tx.Count(state.CountRenderAsked, f.asked.Load())
	tx.Count(state.CountRenderUnanswered, f.unanswered.Load())
	return f.store(tx)
}

// ErrRefused is the reason of a request that is not made.
var ErrRefused = errors.New("crawl: this request is not allowed")

// Fetch answers a request of the page.
func (f *pageFetcher) Fetch(ctx context.Context, url string) (*cdp.Response, error) {
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
		f.got(canonical)
		return resp, nil
	}
	resp, err := f.r.fetchFor(ctx, f, canonical, dress, from)
	if err == nil {
		f.got(canonical)
	}
	if errors.Is(err, ErrRefused) {
		f.refused.Add(1)
	}
	return resp, err
}

// fetchFor makes a request of a page, or asks the node of its host to do so.
func (r *Stage) fetchFor(ctx context.Context, f *pageFetcher, url string, dress uint64,
	from fetcher.Source) (answer *cdp.Response, _ error) {
	if r.others.Cluster.Elsewhere(weburl.Split([]byte(url)).Host) {
		return r.askOwner(ctx, f, url, dress, from)
	}
	err := r.request(ctx, url, from, func(resp *fetch.Response) error {
		if f.received.Add(int64(max(len(resp.Body), len(resp.RawBody)))) > r.opt.Browser.PageBytes {
			return cdp.ErrTooMuch // before RAM holds it twice
		}
		answer = &cdp.Response{Status: resp.Status, Header: http.Header{}, Body: append([]byte(nil), resp.Body...)}
		resp.EachField(func(name, value []byte) { answer.Header.Add(string(name), string(value)) })
		x := output.ExchangeOf(url, resp, warc.KindScript)
		if err := f.keep(ctx, &x, sha1.Sum(resp.PayloadRaw), answer.Header); err != nil {
			return err
		}
		if resp.Truncated == fetch.NotTruncated && reusable(answer) {
			r.cache.put(url, answer, dress, time.Now())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// forbidden reports whether the port or the blacklist forbids a request.
func (r *Stage) forbidden(parts *weburl.Parts) bool {
	return !r.opt.Links.Ports.Contains(parts.Port) || r.opt.Links.Lists.BlockedHost(parts.Host)
}

// request makes a request, if it may be made, and passes the response on, which is valid during that call.
func (r *Stage) request(ctx context.Context, url string, from fetcher.Source, use func(*fetch.Response) error) error {
	parts := weburl.Split([]byte(url))
	if r.forbidden(&parts) {
		return ErrRefused
	}
	crawlDelay, err := r.mayFetch(ctx, []byte(url), parts)
	if err != nil {
		return err
	}
	addrs, _, err := r.outages.Lookup(ctx, parts.Host, 0)
	if err == nil {
		if addrs = r.opt.Links.Lists.Open(addrs); len(addrs) == 0 {
			err = ErrRefused
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	resp, back := r.others.Slots.Buffer()
	defer back()
	g, err := r.grant(ctx, parts, addrs, crawlDelay)
	if err != nil {
		return err
	}
	if err := r.exchange(ctx, g, parts, resp, from); err != nil {
		return err
	}
	return use(resp)
}

// reusable reports whether an answer may be used again for the same request. Requests of the same URL differ
// in what the settings of its site add (dressOf), and in the codings accepted, which are undone here. So an
// answer that varies by anything else is not used again: the header that it names may be one that is never
// sent, or any ("*").
func reusable(a *cdp.Response) bool {
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
func (r *Stage) dressOf(url string, from fetcher.Source) uint64 {
	parts := weburl.Split([]byte(url))
	site := r.opt.Sites.Of(&parts)
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
func (r *Stage) grant(ctx context.Context, parts weburl.Parts, addrs []netip.Addr,
	crawlDelay time.Duration) (*polite.Grant, error) {
	if err := r.others.MayAsk(parts.Host); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	granted := make(chan *polite.Grant, 1)
	// Like a request for robots.txt, it goes to the front of its host's line and gets its grant by channel.
	item := &polite.Item{Data: granted, Host: r.saved.HostKey(parts.Host), PLD: r.saved.PLDKey(parts.Host),
		Addrs: addrs, Robots: true, CrawlDelay: crawlDelay, Terms: r.opt.Sites.Terms(parts.Host)}
	for busy := 0; ; busy++ {
		g, err := r.granted(ctx, parts, item)
		if err != nil {
			return nil, err
		}
		wait := r.others.Slots.Enter(g, busy)
		if wait == 0 {
			return g, nil
		}
		if !account.Sleep(ctx, wait) {
			return nil, ctx.Err()
		}
	}
}

// granted waits for a grant of an item.
func (r *Stage) granted(ctx context.Context, parts weburl.Parts, item *polite.Item) (*polite.Grant, error) {
	granted := item.Data.(chan *polite.Grant)
	heaps := r.others.Heaps()
	for v := heaps.Admit(time.Now(), item); v.Kind != polite.Admitted; v = heaps.Admit(time.Now(), item) {
		wait := roomEvery
		if v.Kind == polite.Deferred {
			wait = max(wait, time.Until(v.Due))
		}
		if !account.Sleep(ctx, wait) {
			return nil, ctx.Err()
		}
		item.Terms = r.opt.Sites.Terms(parts.Host) // a reload may have changed them
	}
	select {
	case g := <-granted:
		return g, nil
	case <-ctx.Done():
	}
	// The page has ended, but its item is in the scheduler, and its grant will come.
	r.run.Fetchers.Add(1) // this goroutine is one of a stage, which ends before fetchers is waited for
	go func() {
		defer r.run.Fetchers.Done()
		select {
		case g := <-granted:
			r.others.Slots.Drop(g)
		case <-r.run.Running().Done(): // no more grants come
		}
	}()
	return nil, ctx.Err()
}

// exchange does the exchange of a grant, and ends the grant.
func (r *Stage) exchange(ctx context.Context, g *polite.Grant, parts weburl.Parts, resp *fetch.Response,
	from fetcher.Source) error {
	limits := r.opt.FetchLimits
	most := int(r.opt.Browser.PageBytes)
	limits.BodyBytes, limits.HeldBytes, limits.DecodedBytes = most, 0, most
	sig, err := r.fetcher.Exchange(ctx, g, parts, resp, &limits, "", &revisit.History{}, from)
	r.run.LogBug(string(parts.Host)+string(parts.Path), err)
	r.others.Slots.Leave(g)
	result := r.fetcher.Result(g, resp, err)
	if err == nil || ctx.Err() == nil { // otherwise the page has ended: that says nothing about the host
		if rest := r.others.RestAfter(resp, err); rest > 0 {
			result.Backoff = rest
		}
	}
	r.others.Heaps().Done(time.Now(), g, result)
	if failed := r.run.Transact(func(tx *account.Tx) error {
		tx.Count(state.CountRenderRequests, 1)
		tx.Count(state.CountRenderBytes, resp.BytesRead)
		tx.Count(state.CountBytesSent, resp.BytesWritten)
		fetcher.LinkOf(resp, sig, err).Count(tx)
		if result.Backoff >= health.Short {
			return r.others.Clear(tx, g.Item.Host)
		}
		return nil
	}); failed != nil {
		return failed
	}
	return err
}

// mayFetch asks the robots.txt of a URL's origin, after requesting it if the rules are not in RAM. It
// returns their Crawl-delay, capped.
func (r *Stage) mayFetch(ctx context.Context, url []byte,
	parts weburl.Parts) (crawlDelay time.Duration, _ error) {
	origin := string(weburl.Origin(url))
	o := r.cache.origin(origin)
	select { // one request at a time
	case o.lock <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-o.lock }()
	site := r.opt.Sites.Of(&parts)
	own := site != nil && site.IgnoreRobots
	for range 2 {
		switch decision, _ := o.rules.DecideFor(parts.Path, time.Now(), own); decision {
		case robots.Allow, robots.Resolve:
			return min(o.rules.CrawlDelay(), r.opt.MaxCrawlDelay), nil
		case robots.Request:
		default:
			return 0, fmt.Errorf("%w: robots.txt: %v", ErrRefused, decision)
		}
		rules, err := r.others.Rules(ctx, origin)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		} else if err != nil {
			return 0, fmt.Errorf("%w: robots.txt: %w", ErrRefused, err)
		}
		o.rules = *rules
	}
	return 0, ErrRefused
}
