package render

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/outage"
	"drumbeat/crawl/output"
	"drumbeat/crawl/reader"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/fetch"
	"drumbeat/internal/bug"
	cdp "drumbeat/internal/render"
	"drumbeat/internal/scope"
	"drumbeat/parse"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/state/snapshot"
	"drumbeat/warc"
	"drumbeat/weburl"
)

const (
	// mostBody bounds the body of a page to be rendered, in bytes, so that it fits into a record of a queue.
	mostBody = queue.MaxRecord - 64<<10
	// requestsAtOnce is the number of requests of one page under way: to different hosts, since a host has one at a
	// time.
	requestsAtOnce = 4
	// quiet is how long a page has no request, and no script that runs, until its DOM is taken.
	quiet = 500 * time.Millisecond
	// tries is the number of attempts of a page that loses the browser: others in it may have been the reason.
	tries = 2
	// dialTime bounds a connection attempt. The waits between two attempts double between the other two, unless the
	// browser was there for retryMost.
	dialTime   = 10 * time.Second
	retryLeast = time.Second
	retryMost  = time.Minute
	// MostLosses bounds how often in a row the crawl starts a browser (BrowserOptions.Launch) that ends without a page,
	// or does not start. With the waits between them it takes a quarter of an hour, which outlasts an update of the
	// browser and most shortages of RAM. A browser that runs at an endpoint costs nothing while it is away: it has no
	// such bound.
	MostLosses = 20
	// Patience is how long a crawl that has nothing else to do waits for its browser.
	Patience = 2 * time.Minute
)

// Stage passes stored pages that rules tag to a browser. A page waits in a queue on disk with its body, or is under
// way in RAM and in every checkpoint. One transaction ends it: the rendered page goes to the page store, its links to
// URLseen, and the task leaves. So the crawl never waits for the browser, and after a crash a
// page is rendered again or not at all, as its checkpoint says. The URL itself has ended, or waits for its next visit,
// whatever becomes of its rendering.
//
// Producer: the page workers (Add). Consumer: its goroutine "render", which starts a goroutine for each page, at most
// BrowserOptions.Tabs. The requests of pages go through fetchFor (fetch.go). In a cluster the goroutine "renderasks"
// takes the requests of other nodes.
type Stage struct {
	run    *account.Run
	saved  *state.Saved
	opt    Options
	others Others
	Queue  *queue.Queue // of pages that wait; the owner opens it
	tagged *scope.Set   // which pages
	all    bool         // pages are tagged
	wake   account.Signal
	cache  *cache

	mu       sync.Mutex // guards the fields below
	underWay map[int64][]byte
	next     int64
	gone     snapshot.Browser // without Waiting
	crashed  bool             // a page was lost with it, and none has come back since

	// When the crawl last had nothing else to do, and since when; account.Run.Uptime, ns.
	alone, aloneSince atomic.Int64

	// Of the goroutine "render".
	browser  Browser
	retryAt  time.Time
	retry    time.Duration
	attempts int
	since    time.Time // of the connection
	down     time.Time // since when there has been none; zero: there is one
	used     bool      // the browser has got a page
	over     bool      // after MostLosses

	fetcher *fetcher.Fetcher
	outages *outage.Watch
	stored  storedAnswers
	output  *output.Writer
	space   *space.Keeper
	taking  sync.Mutex // held while an answer of another node is taken, for the bound of RAM
}

// New returns a Stage. Wire must give it the other stages before a run.
func New(run *account.Run, saved *state.Saved, opt Options, f *fetcher.Fetcher, watch *outage.Watch, o *output.Writer,
	k *space.Keeper) *Stage {
	r := &Stage{run: run, saved: saved, opt: opt, fetcher: f, outages: watch, output: o, space: k,
		wake: run.PulsedSignal(), underWay: map[int64][]byte{}}
	r.alone.Store(math.MinInt64 / 2) // never
	return r
}

// Wire gives the Stage the stages that it calls.
func (r *Stage) Wire(others Others) { r.others = others }

// Open reads the rules that tag pages.
func (r *Stage) Open() (err error) {
	o := r.opt.Browser
	if o == nil {
		return nil
	}
	if o.Launch != nil {
		o.Launch.TooLarge = func(bytes int64) {
			r.opt.Log.Warn("the browser uses more RAM than --render-limits browser allows: restarting it",
				"bytes", bytes, "limit", o.Launch.Bytes)
		}
		o.Launch.Debug = func(text string) { r.opt.Log.Debug("the browser says", "text", text) }
	}
	r.all = len(o.Rules) == 0
	r.tagged, err = admit.ReadRules(r.opt.FS, scope.Rules, r.saved.Suffixes, o.Rules, r.opt.Links.KeepEscapes)
	r.cache = newCache(o.CacheBytes)
	return err
}

// Freeze returns the pages under way. A run that continues from the checkpoint renders them again.
func (r *Stage) Freeze() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.underWay))
}

// Restore returns the pages that were under way at the checkpoint to the queue.
func (r *Stage) Restore(m *state.Manifest) error {
	if m == nil {
		return nil
	}
	data, err := disk.ReadTail(r.saved.Set, m.Renders)
	if err != nil {
		return err
	}
	return state.EachRecord("pages being rendered", data, r.Queue.Append)
}

func (r *Stage) busy() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.underWay) }

// Waiting returns the number of pages that wait for the browser, or are with it.
func (r *Stage) Waiting() int64 {
	n, _ := r.Queue.Len()
	return n + int64(r.busy())
}

// Pending reports whether pages wait for the browser, in a crawl that has nothing else to do.
func (r *Stage) Pending() bool {
	if r.opt.Browser == nil {
		return false // a run with --render renders them
	}
	if n, _ := r.Queue.Len(); n == 0 && r.busy() == 0 {
		return false
	}
	now := int64(r.run.Uptime())
	if now-r.alone.Swap(now) > int64(2*account.WakeAfter) {
		r.aloneSince.Store(now)
	}
	r.wake.Raise()
	return true
}

// Wants reports whether a page is to be rendered.
func (r *Stage) Wants(rec *weburl.Record) bool {
	if r.opt.Browser == nil {
		return false
	}
	return r.all || r.tagged.Ruling(r.tagged.Lookup(rec.URL)) == scope.Include
}

// Add queues a page for rendering, unless it is too large or the queue is full. It is part of the page's transaction.
// held says that the links of the page are not taken, now or before a verdict; of is its record in the page store, ""
// for none.
func (r *Stage) Add(tx *account.Tx, rec *weburl.Record, resp *fetch.Response, of string, held bool) error {
	tx.Count(state.CountRenderWanted, 1)
	own := weburl.Record{URL: rec.URL, Depth: rec.Depth}
	if !admit.Named(rec) {
		own.Via, own.Parent = rec.Via, rec.Parent
	}
	t := state.RenderTask{Record: own.Append(nil), Type: string(resp.Header("Content-Type")),
		Policy: string(resp.Header("Content-Security-Policy")), Body: resp.Body,
		NoFollow: held, Of: of}
	_, waiting := r.Queue.Len()
	if resp.Spill != nil || len(resp.Body)+len(t.Record)+len(t.Type)+len(t.Policy) > mostBody ||
		waiting+int64(len(resp.Body)) > r.opt.Browser.QueueBytes {
		tx.Count(state.CountRenderSkipped, 1)
		return nil
	}
	tx.Wake(r.wake)
	return r.Queue.Append(t.Append(nil))
}

// Run renders the pages in the queue.
func (r *Stage) Run(ctx context.Context) error {
	if r.opt.Browser == nil {
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
			r.run.Await(ctx, r.wake, wait)
			continue
		}
		if r.busy() >= r.opt.Browser.Tabs || r.space.Pausing() != "" || r.outages.Slowed() || r.others.Cluster.Away() {
			r.run.Await(ctx, r.wake, account.WakeAfter)
			continue
		}
		data, ok, err := r.Queue.Peek()
		if err != nil {
			return err
		}
		if !ok {
			r.run.Await(ctx, r.wake, account.WakeAfter)
			continue
		}
		seq, rec, err := r.begin(data)
		if err != nil {
			return err
		}
		pages.Add(1)
		b := r.browser
		r.used = true
		r.run.Start(ctx, "render page", func(ctx context.Context) error {
			defer pages.Done()
			return r.renderPage(ctx, b, seq, rec)
		})
	}
	return nil
}

// connect connects to the browser if it is gone. It returns how long to wait for the next attempt; 0: the browser is
// there.
func (r *Stage) connect(ctx context.Context) time.Duration {
	if r.browser != nil {
		select {
		case <-r.browser.Done():
			r.browser.Close()
			r.browser = nil
			r.lost("the connection ended", r.used, r.used)
			r.waitLonger()
			r.opt.Log.Warn("lost the browser: pages wait for it, and the crawl continues", "browser",
				r.opt.Browser.Endpoint)
			if r.run.Transact(func(tx *account.Tx) error { tx.Count(state.CountRenderLost, 1); return nil }) != nil {
				return account.WakeAfter // the crawl has failed
			}
		default:
			return 0
		}
	}
	if r.over {
		return account.WakeAfter
	}
	if wait := time.Until(r.retryAt); wait > 0 {
		return wait
	}
	patience := dialTime
	if r.opt.Browser.Launch != nil {
		patience = cdp.StartTime
	}
	dialing, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	b, err := r.opt.Browser.Dial(dialing, r.opt.Browser.Endpoint)
	if err == nil {
		r.opt.Log.Info("connected to the browser", "browser", r.opt.Browser.Endpoint, "product", b.Product())
		r.browser, r.attempts, r.since, r.used, r.down = b, 0, time.Now(), false, time.Time{}
		if err := r.back(); err != nil {
			return account.WakeAfter // the crawl has failed
		}
		go func() { // bounded: it ends with the connection
			<-b.Done()
			r.wake.Raise()
		}()
		return 0
	}
	if ctx.Err() != nil {
		return account.WakeAfter
	}
	r.lost(err.Error(), true, false)
	r.waitLonger()
	if r.attempts++; r.attempts&(r.attempts-1) == 0 { // the first, second, fourth, …
		r.opt.Log.Warn("no connection to the browser: pages wait for it, and the crawl continues", "error", err,
			"attempt", r.attempts, "next", r.retry)
	}
	return r.retry
}

// waitLonger has the next attempt to connect wait longer than the last one did.
func (r *Stage) waitLonger() {
	if !r.since.IsZero() && time.Since(r.since) >= retryMost {
		r.retry = 0 // the browser was well
	}
	r.since = time.Time{}
	r.retry = min(max(retryLeast, 2*r.retry), retryMost)
	r.retryAt = time.Now().Add(r.retry)
}

// lost notes why the browser cannot be used: whether that counts for MostLosses, and whether a page was lost.
func (r *Stage) lost(why string, counts, page bool) {
	if r.down.IsZero() {
		r.down = time.Now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone.Why, r.gone.Back = why, false; r.gone.Gone.IsZero() {
		r.gone.Gone = r.down
	}
	r.crashed = r.crashed || page
	if !counts {
		return
	}
	if r.gone.Losses++; r.gone.Losses >= MostLosses && r.opt.Browser.Launch != nil && !r.over {
		r.over, r.gone.Over = true, true
		r.opt.Log.Warn("the browser is not started again in this run: it has rendered no page", "starts", r.gone.Losses,
			"error", why)
	}
}

// back notes that the browser is there. It is as good as before when a page has come back from it. If no page was lost
// or waits, it is so at once.
func (r *Stage) back() error {
	_, waits, err := r.Queue.Peek()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone.Back = true; !waits && !r.crashed {
		r.gone = snapshot.Browser{Losses: r.gone.Losses}
	}
	return err
}

// works notes that a page has come back from a browser, which may be gone since.
func (r *Stage) works(b Browser) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-b.Done():
	default:
		r.gone, r.crashed = snapshot.Browser{}, false
	}
}

// Show adds the browser to a snapshot.
func (r *Stage) Show(s *snapshot.Snapshot) {
	if r.opt.Browser == nil {
		return
	}
	n := r.Waiting()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Browser = r.gone
	s.Browser.Waiting = n
}

// giveUp ends the tasks in the queue without rendering, if for Patience the browser has been gone and
// the crawl has had nothing else to do. It is not patient with a browser that is not started again.
func (r *Stage) giveUp() error {
	now := int64(r.run.Uptime())
	patient := !r.over && (r.down.IsZero() || time.Since(r.down) < Patience ||
		now-r.aloneSince.Load() < int64(Patience))
	if patient || now-r.alone.Load() > int64(2*account.WakeAfter) {
		return nil
	}
	for n := 0; ; n++ {
		if _, ok, err := r.Queue.Peek(); err != nil || !ok {
			if n > 0 {
				r.opt.Log.Warn("pages remain unrendered: the browser has not come back", "pages",
					n)
			}
			return err
		}
		if err := r.run.Transact(func(tx *account.Tx) error {
			r.Queue.Advance()
			tx.Count(state.CountRenderFailed, 1)
			return nil
		}); err != nil {
			return err
		}
	}
}

// begin takes a task from the queue.
func (r *Stage) begin(data []byte) (seq int64, rec []byte, err error) {
	rec = append(rec, data...)
	err = r.run.Transact(func(*account.Tx) error {
		r.Queue.Advance()
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
func (r *Stage) end(tx *account.Tx, seq int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.underWay, seq)
	tx.Wake(r.wake)
}

// renderPage has the browser render a page, and stores what it returns.
func (r *Stage) renderPage(ctx context.Context, b Browser, seq int64, data []byte) error {
	var t state.RenderTask
	var rec weburl.Record
	if err := t.Decode(data, &rec); err != nil {
		return err
	}
	r.run.Hook("rendering")
	o := r.opt.Browser
	header := http.Header{"Content-Type": {t.Type}}
	if t.Policy != "" {
		header.Set("Content-Security-Policy", t.Policy)
	}
	f := &pageFetcher{r: r, page: rec.URL, from: r.fetcher.SourceOf(&rec), keys: map[uint64]struct{}{}}
	began := time.Now()
	result, err := b.Render(ctx, &cdp.Page{URL: string(rec.URL), Header: header, Body: t.Body}, f, &cdp.Limits{
		Agent: r.opt.UserAgent, Time: o.Time, Longest: o.Longest, Quiet: quiet, Requests: o.Requests,
		Resources: r.resources(&t), AtOnce: requestsAtOnce, Bytes: o.PageBytes, DOM: int(o.PageBytes)})
	if ctx.Err() != nil {
		return nil // stays under way: the last checkpoint has it
	}
	if err != nil {
		return r.failed(b, seq, &t, &rec, f, err)
	}
	r.works(b)
	r.opt.Log.Debug("rendered", "url", string(rec.URL), "took", time.Since(began), "requests", result.Asked,
		"refused", result.Refused, "limit", result.End.String())
	return r.store(ctx, seq, &t, &rec, f, result)
}

// failed ends a page that could not be rendered, or queues it again if the browser was lost with it.
func (r *Stage) failed(b Browser, seq int64, t *state.RenderTask, rec *weburl.Record, f *pageFetcher,
	err error) error {
	lost := errors.Is(err, cdp.ErrLost)
	if !lost {
		r.works(b) // the fault is the page's
	}
	t.Tries++
	again := lost && t.Tries < tries
	r.opt.Log.Warn("page not rendered", "url", string(rec.URL), "error", err, "again", again)
	if lost {
		b.Close() // it may hang; run sees that it is gone
	}
	return r.run.Transact(func(tx *account.Tx) error {
		if err := f.end(tx); err != nil {
			return err
		}
		r.end(tx, seq)
		if again {
			return r.Queue.Append(t.Append(nil))
		}
		tx.Count(state.CountRenderFailed, 1)
		return nil
	})
}

// store stores a rendered page and sends its links.
func (r *Stage) store(ctx context.Context, seq int64, t *state.RenderTask, rec *weburl.Record, f *pageFetcher,
	result *cdp.Result) error {
	w, back := r.others.Lend(ctx)
	if w == nil {
		return nil // as above
	}
	broken := false
	defer func() { back(broken) }()
	panicked := bug.Contained(func() error { return r.read(w, t, rec, f, result) })
	if panicked != nil {
		if bug.As(panicked) == nil {
			return panicked
		}
		broken = true
		r.run.LogBug(string(rec.URL), panicked)
		return r.run.Transact(func(tx *account.Tx) error {
			r.end(tx, seq)
			tx.Count(state.CountRenderFailed, 1)
			tx.Count(state.CountInternalErrors, 1)
			return f.end(tx)
		})
	}
	return r.run.Transact(func(tx *account.Tx) error {
		r.end(tx, seq)
		if err := f.end(tx); err != nil {
			return err
		}
		tx.Count(state.CountRendered, 1)
		tx.Count(state.CountRenderRefused, int64(result.Refused))
		tx.Count(state.CountRenderPartsCut, int64(result.ResourcesCut))
		if f.truncated(result) != "" {
			tx.Count(state.CountRenderedCut, 1)
		}
		if t.Of != "" {
			if _, err := r.output.Append(&w.Prepared, time.Now()); err != nil {
				return err
			}
			tx.Count(state.CountRenderedStored, 1)
		}
		return r.others.SendLinks(w.Links, tx)
	})
}

// read fills w with the links of a rendered page and its record.
func (r *Stage) read(w *reader.Reader, t *state.RenderTask, rec *weburl.Record, f *pageFetcher,
	result *cdp.Result) error {
	now := time.Now()
	w.Links.Start(rec.URL, rec.URL, admit.Deeper(rec.Depth), 0, now)
	base := rec.URL
	if moved, err := weburl.Canonical(result.Base); err == nil { // a script may change it
		base = []byte(moved)
	}
	var own parse.Robots
	if err := w.Parser.Parse(base, result.HTML, "text/html; charset=utf-8"); err != nil {
		return fmt.Errorf("crawl: parse rendered %s: %w", rec.URL, err)
	}
	own.Add(w.Parser.Page().Robots)
	held := t.NoFollow || own.NoFollow && !r.opt.IgnoreNofollow
	counts := w.TakeLinks(held, r.opt.IgnoreNofollow, nil)
	for _, url := range result.Went {
		if url := w.Parser.Resolve([]byte(url), &counts); url == nil {
			continue
		} else if held {
			w.Links.NoFollow()
		} else {
			w.Links.Add(url)
		}
	}
	w.Count(&counts)
	w.Links.Counts[state.CountRenderLinks] += w.Links.Counts[state.CountLinks]
	if err := r.parts(w, t, held, base, f, result); err != nil {
		return err
	}
	if t.Of == "" {
		return nil
	}
	return w.Encoder.PrepareRendered(&w.Prepared, &warc.Rendered{URL: rec.URL, Date: now, Of: t.Of, HTML: result.HTML,
		Truncated: f.truncated(result)})
}
