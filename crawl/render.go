package crawl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/gate"
	"drumbeat/crawl/outage"
	"drumbeat/crawl/output"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/fetch"
	"drumbeat/internal/bug"
	"drumbeat/internal/render"
	"drumbeat/internal/scope"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// RenderOptions say which pages a browser renders, and what that may take. Zero values of the limits mean the defaults.
type RenderOptions struct {
	Endpoint   string        // of the browser, as render.ParseEndpoint takes it
	Rules      []string      // files of scope rules; a page that they include is rendered
	Tabs       int           // pages at once; default 2
	Time       time.Duration // of a page without a request under way; default 10 s
	Longest    time.Duration // of a page in all; default 10 min
	Requests   int           // of a page; default 100
	PageBytes  int64         // received for a page, and at most of its DOM; default 8 MiB
	QueueBytes int64         // of pages that wait on disk; default 1 GiB
	CacheBytes int64         // of answers kept in RAM; default 32 MiB

	// dial replaces the connection to a browser in tests.
	dial func(ctx context.Context, endpoint string) (browser, error)
}

func (o *RenderOptions) defaults() {
	setDefault(&o.Tabs, 2)
	setDefault(&o.Time, 10*time.Second)
	setDefault(&o.Longest, 10*time.Minute)
	setDefault(&o.Requests, 100)
	setDefault(&o.PageBytes, 8<<20)
	setDefault(&o.QueueBytes, 1<<30)
	setDefault(&o.CacheBytes, 32<<20)
	if o.dial == nil {
		o.dial = func(ctx context.Context, endpoint string) (browser, error) { return render.Dial(ctx, endpoint) }
	}
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// browser is a connection to a browser; render.Browser is the implementation.
type browser interface {
	Render(ctx context.Context, p *render.Page, f render.Fetcher, l *render.Limits) (*render.Result, error)
	Done() <-chan struct{}
	Product() string
	Close()
}

const (
	// mostRendered bounds the body of a page to be rendered, in bytes, so that it fits into a record of a queue.
	mostRendered = queue.MaxRecord - 64<<10
	// renderAtOnce is the number of requests of one page under way: to different hosts, since a host has one at a time.
	renderAtOnce = 4
	// renderQuiet is how long a page has no request, and no script that runs, until its DOM is taken.
	renderQuiet = 500 * time.Millisecond
	// renderTries is the number of attempts of a page that loses the browser: others in it may have been the reason.
	renderTries = 2
	// renderDial bounds a connection attempt. The waits between two attempts double between the other two.
	renderDial      = 10 * time.Second
	renderRetry     = time.Second
	renderRetryMost = time.Minute
	// renderPatience is how long a crawl that has nothing else to do waits for its browser.
	renderPatience = 2 * time.Minute
)

// renderRAM returns the bytes of the Go heap that rendering may take: the cache, the connection, and for each tab its
// own (render.TabRAM), the task, in the queue and in a message, and up to four copies of what a page receives: the
// answers, one of them in Base64, then the DOM as it grows.
func (o *Options) renderRAM() int64 {
	if o.Render == nil {
		return 0
	}
	r := *o.Render
	r.defaults()
	return r.CacheBytes + render.RAM + int64(r.Tabs)*(render.TabRAM+3*queue.MaxRecord+4*r.PageBytes)
}

// renderStage has a browser render the pages that rules tag, after they were stored. A page waits in a queue on disk
// with its body, or is under way in RAM and in every checkpoint. Its end is one transaction: the rendered page in the
// page store, its links in URLseen, and the task away. So the crawl never waits for the browser, and after a crash a
// page is rendered again or not at all, as its checkpoint says. The URL itself has ended, or waits for its next visit,
// whatever becomes of its rendering.
//
// Producer: the page workers (add). Consumer: its goroutine "render", which starts a goroutine for each page, at most
// RenderOptions.Tabs. The requests of pages go through fetchFor (renderfetch.go).
type renderStage struct {
	*engine
	queue  *queue.Queue
	tagged *scope.Set // which pages; nil: none
	wake   account.Signal
	cache  *renderCache

	mu       sync.Mutex // guards the fields below
	underWay map[int64][]byte
	next     int64

	// When the crawl last had nothing else to do, and since when; engine.uptime, ns.
	alone, aloneSince atomic.Int64

	// Of the goroutine "render".
	browser  browser
	retryAt  time.Time
	retry    time.Duration
	since    time.Time // when the browser was lost or not found; zero: it is there
	attempts int

	dispatcher *dispatcher
	fetcher    *fetcher.Fetcher
	health     *gate.Hosts
	outages    *outage.Watch
	output     *output.Writer
	requests   *gate.Requests
	seen       *seenStage
	space      *space.Keeper
}

func newRenderStage(e *engine) *renderStage {
	r := &renderStage{engine: e, wake: e.PulsedSignal(), underWay: map[int64][]byte{}}
	r.alone.Store(math.MinInt64 / 2) // never
	return r
}

// openTagged reads the rules that tag pages.
func (r *renderStage) openTagged() (err error) {
	o := r.opt.Render
	if o == nil {
		return nil
	}
	r.tagged, err = admit.ReadRules(r.opt.Disk.FS, scope.Rules, r.Suffixes, o.Rules, r.opt.Admission.KeepEscapes)
	r.cache = newRenderCache(o.CacheBytes)
	return err
}

// freeze copies the pages under way. A run that continues from the checkpoint renders them again.
func (r *renderStage) freeze(m *moment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.underWay {
		m.renders = append(m.renders, rec)
	}
}

// restore returns the pages that were under way at the checkpoint to the queue.
func (r *renderStage) restore(m *state.Manifest) error {
	if m == nil {
		return nil
	}
	data, err := disk.ReadTail(r.Set, m.Renders)
	if err != nil {
		return err
	}
	return state.EachRecord("pages being rendered", data, r.queue.Append)
}

func (r *renderStage) busy() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.underWay) }

// pending reports whether pages wait for the browser, in a crawl that has nothing else to do.
func (r *renderStage) pending() bool {
	if r.tagged == nil {
		return false // a run with --render renders them
	}
	if n, _ := r.queue.Len(); n == 0 && r.busy() == 0 {
		return false
	}
	now := int64(r.Uptime())
	if now-r.alone.Swap(now) > int64(2*account.WakeAfter) {
		r.aloneSince.Store(now)
	}
	r.wake.Raise()
	return true
}

// wants reports whether a page is to be rendered.
func (r *renderStage) wants(w *pageWorker, rec *weburl.Record, is found) bool {
	if r.tagged == nil || !is.page || w.visit.unchanged {
		return false
	}
	return r.tagged.Ruling(r.tagged.Lookup(rec.URL)) == scope.Include
}

// add queues a page for rendering, unless it is too large or the queue is full. It is part of the page's transaction.
// held says that the links of the page are not taken, now or before a verdict.
func (r *renderStage) add(tx *account.Tx, w *pageWorker, rec *weburl.Record, resp *fetch.Response, held bool) error {
	tx.Count(state.CountRenderWanted, 1)
	own := weburl.Record{URL: rec.URL, Depth: rec.Depth}
	if !admit.Named(rec) {
		own.Via, own.Parent = rec.Via, rec.Parent
	}
	t := state.RenderTask{Record: own.Append(nil), Type: string(resp.Header("Content-Type")),
		Policy: string(resp.Header("Content-Security-Policy")), Body: resp.Body,
		NoFollow: held || w.meta.unfollowed || w.meta.robots.NoFollow && !r.opt.Links.IgnoreNofollow}
	if r.opt.Output.Store && w.stores == state.ArchiveKeep {
		t.Of = w.encoder.ResponseID()
	}
	_, waiting := r.queue.Len()
	if resp.Spill != nil || len(resp.Body)+len(t.Record)+len(t.Type)+len(t.Policy) > mostRendered ||
		waiting+int64(len(resp.Body)) > r.opt.Render.QueueBytes {
		tx.Count(state.CountRenderSkipped, 1)
		return nil
	}
	tx.Wake(r.wake)
	return r.queue.Append(t.Append(nil))
}

// run renders the pages in the queue.
func (r *renderStage) run(ctx context.Context) error {
	if r.tagged == nil {
		return nil
	}
	var pages sync.WaitGroup
	defer func() {
		// The browser ends the pages of a connection that ends. So a stop waits for none to close.
		if r.browser != nil {
			r.browser.Close()
		}
		pages.Wait()
	}()
	for ctx.Err() == nil {
		if wait := r.connect(ctx); wait > 0 {
			if err := r.giveUp(); err != nil {
				return err
			}
			r.Await(ctx, r.wake, wait)
			continue
		}
		if r.busy() >= r.opt.Render.Tabs || r.space.Pausing() != "" || r.outages.Slowed() {
			r.Await(ctx, r.wake, account.WakeAfter)
			continue
		}
		data, ok, err := r.queue.Peek()
		if err != nil {
			return err
		}
		if !ok {
			r.Await(ctx, r.wake, account.WakeAfter)
			continue
		}
		seq, rec, err := r.begin(data)
		if err != nil {
			return err
		}
		pages.Add(1)
		b := r.browser
		r.Start(ctx, "render page", func(ctx context.Context) error {
			defer pages.Done()
			return r.renderPage(ctx, b, seq, rec)
		})
	}
	return nil
}

// connect connects to the browser if it is gone. It returns how long to wait for the next attempt; 0: the browser is
// there.
func (r *renderStage) connect(ctx context.Context) time.Duration {
	if r.browser != nil {
		select {
		case <-r.browser.Done():
			r.browser.Close()
			r.browser, r.since = nil, time.Now()
			r.opt.Observe.Log.Warn("the browser is gone: pages wait for it, and the crawl continues", "browser",
				r.opt.Render.Endpoint)
			if r.Transact(func(tx *account.Tx) error { tx.Count(state.CountRenderLost, 1); return nil }) != nil {
				return account.WakeAfter // the crawl has failed
			}
		default:
			return 0
		}
	}
	if wait := time.Until(r.retryAt); wait > 0 {
		return wait
	}
	dialing, cancel := context.WithTimeout(ctx, renderDial)
	defer cancel()
	b, err := r.opt.Render.dial(dialing, r.opt.Render.Endpoint)
	if err == nil {
		r.opt.Observe.Log.Info("connected to the browser", "browser", r.opt.Render.Endpoint, "product", b.Product())
		r.browser, r.retry, r.attempts, r.since = b, 0, 0, time.Time{}
		go func() { // bounded: it ends with the connection
			<-b.Done()
			r.wake.Raise()
		}()
		return 0
	}
	if ctx.Err() != nil {
		return account.WakeAfter
	}
	if r.since.IsZero() {
		r.since = time.Now()
	}
	r.retry = min(max(renderRetry, 2*r.retry), renderRetryMost)
	r.retryAt = time.Now().Add(r.retry)
	if r.attempts++; r.attempts&(r.attempts-1) == 0 { // the first, second, fourth, …
		r.opt.Observe.Log.Warn("no connection to the browser: pages wait for it, and the crawl continues", "error", err,
			"attempt", r.attempts, "next", r.retry)
	}
	return r.retry
}

// giveUp ends the tasks in the queue without rendering, if for renderPatience the browser has been gone and
// the crawl has had nothing else to do.
func (r *renderStage) giveUp() error {
	now := int64(r.Uptime())
	if r.since.IsZero() || time.Since(r.since) < renderPatience || now-r.alone.Load() > int64(2*account.WakeAfter) ||
		now-r.aloneSince.Load() < int64(renderPatience) {
		return nil
	}
	for n := 0; ; n++ {
		if _, ok, err := r.queue.Peek(); err != nil || !ok {
			if n > 0 {
				r.opt.Observe.Log.Warn("pages stay without rendering, because the browser has not come back", "pages",
					n)
			}
			return err
		}
		if err := r.Transact(func(tx *account.Tx) error {
			r.queue.Advance()
			tx.Count(state.CountRenderFailed, 1)
			return nil
		}); err != nil {
			return err
		}
	}
}

// begin takes a task from the queue.
func (r *renderStage) begin(data []byte) (seq int64, rec []byte, err error) {
	rec = append(rec, data...)
	err = r.Transact(func(*account.Tx) error {
		r.queue.Advance()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.next++
		seq = r.next
		r.underWay[seq] = rec
		return nil
	})
	return seq, rec, err
}

// end ends a task. It is part of a transaction.
func (r *renderStage) end(tx *account.Tx, seq int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.underWay, seq)
	tx.Wake(r.wake)
}

// renderPage has the browser render a page, and stores what it returns.
func (r *renderStage) renderPage(ctx context.Context, b browser, seq int64, data []byte) error {
	var t state.RenderTask
	var rec weburl.Record
	if err := t.Decode(data, &rec); err != nil {
		return err
	}
	r.Hook("rendering")
	o := r.opt.Render
	header := http.Header{"Content-Type": {t.Type}}
	if t.Policy != "" {
		header.Set("Content-Security-Policy", t.Policy)
	}
	f := &pageFetcher{r: r, page: rec.URL, from: r.fetcher.SourceOf(&rec)}
	began := time.Now()
	result, err := b.Render(ctx, &render.Page{URL: string(rec.URL), Header: header, Body: t.Body}, f, &render.Limits{
		Agent: r.opt.Identity.UserAgent, Time: o.Time, Longest: o.Longest, Quiet: renderQuiet, Requests: o.Requests,
		AtOnce: renderAtOnce, Bytes: o.PageBytes, DOM: int(o.PageBytes)})
	if ctx.Err() != nil {
		return nil // stays under way: the last checkpoint has it
	}
	if err != nil {
		return r.failed(b, seq, &t, &rec, f, err)
	}
	r.opt.Observe.Log.Debug("rendered", "url", string(rec.URL), "took", time.Since(began), "requests", result.Asked,
		"refused", result.Refused, "limit", result.End.String())
	return r.store(ctx, seq, &t, &rec, f, result)
}

// failed ends a page that could not be rendered, or queues it again if the browser was lost with it.
func (r *renderStage) failed(b browser, seq int64, t *state.RenderTask, rec *weburl.Record, f *pageFetcher,
	err error) error {
	lost := errors.Is(err, render.ErrLost)
	t.Tries++
	again := lost && t.Tries < renderTries
	r.opt.Observe.Log.Warn("page not rendered", "url", string(rec.URL), "error", err, "again", again)
	if lost {
		b.Close() // it may hang; run sees that it is gone
	}
	return r.Transact(func(tx *account.Tx) error {
		f.count(tx)
		r.end(tx, seq)
		if again {
			return r.queue.Append(t.Append(nil))
		}
		tx.Count(state.CountRenderFailed, 1)
		return nil
	})
}

// store stores a rendered page and sends its links.
func (r *renderStage) store(ctx context.Context, seq int64, t *state.RenderTask, rec *weburl.Record, f *pageFetcher,
	result *render.Result) error {
	var w *pageWorker
	select {
	case w = <-r.workers.parsers:
	case <-ctx.Done():
		return nil // as above
	}
	defer func() {
		w.release()
		r.workers.parsers <- w
	}()
	panicked := bug.Contained(func() error { return r.read(w, t, rec, result) })
	if panicked != nil {
		if bug.As(panicked) == nil {
			return panicked
		}
		w = newPageWorker(r.engine, r.output) // the old one may be in any state
		r.LogBug(string(rec.URL), panicked)
		return r.Transact(func(tx *account.Tx) error {
			f.count(tx)
			r.end(tx, seq)
			tx.Count(state.CountRenderFailed, 1)
			tx.Count(state.CountInternalErrors, 1)
			return nil
		})
	}
	return r.Transact(func(tx *account.Tx) error {
		r.end(tx, seq)
		f.count(tx)
		tx.Count(state.CountRendered, 1)
		tx.Count(state.CountRenderRefused, int64(result.Refused))
		if result.End != render.Quiet {
			tx.Count(state.CountRenderedCut, 1)
		}
		if t.Of != "" {
			if _, err := r.output.Append(&w.prepared, time.Now()); err != nil {
				return err
			}
			tx.Count(state.CountRenderedStored, 1)
		}
		if err := r.seen.sendLinks(w.links, tx); err != nil {
			return err
		}
		r.seen.wake(tx)
		return nil
	})
}

// read fills w with the links of a rendered page and its record.
func (r *renderStage) read(w *pageWorker, t *state.RenderTask, rec *weburl.Record, result *render.Result) error {
	now := time.Now()
	w.links.Start(rec.URL, rec.URL, admit.Deeper(rec.Depth), 0, now)
	base := rec.URL
	if moved, err := weburl.Canonical(result.Base); err == nil { // a script may change it
		base = []byte(moved)
	}
	w.meta = pageMeta{}
	if err := w.parser.Parse(base, result.HTML, "text/html; charset=utf-8"); err != nil {
		return fmt.Errorf("crawl: parse rendered %s: %w", rec.URL, err)
	}
	w.meta.robots.Add(w.parser.Page().Robots)
	held := t.NoFollow || w.meta.robots.NoFollow && !r.opt.Links.IgnoreNofollow
	counts := w.takeLinks(held, r.opt.Links.IgnoreNofollow)
	for _, url := range result.Went {
		if url := w.parser.Resolve([]byte(url), &counts); url == nil {
			continue
		} else if held {
			w.links.NoFollow()
		} else {
			w.links.Add(url)
		}
	}
	countParsed(w.links, &counts)
	w.links.Counts[state.CountRenderLinks] += w.links.Counts[state.CountLinks]
	if t.Of == "" {
		return nil
	}
	return w.encoder.PrepareRendered(&w.prepared, &warc.Rendered{URL: rec.URL, Date: now, Of: t.Of, HTML: result.HTML,
		Truncated: result.End.String()})
}
