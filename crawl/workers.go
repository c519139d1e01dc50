package crawl

import (
	"context"
	"runtime"
	"sync/atomic"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/contents"
	"drumbeat/crawl/hook"
	"drumbeat/crawl/output"
	"drumbeat/crawl/reader"
	"drumbeat/fetch"
	"drumbeat/internal/simhash"
	"drumbeat/parse"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/warc"
)

// workers limits what fetching holds: connections, response buffers and parsers.
type workers struct {
	slots     chan struct{}        // one for each exchange under way
	grants    chan *polite.Grant   // to idle fetchers; closed when no more grants come
	idle      atomic.Int64         // number of idle fetchers
	waits     atomic.Bool          // dispatch has a slot but no grant for it
	dry       atomic.Bool          // when dispatch last looked, no URL in RAM was due
	responses chan *fetch.Response // idle buffers for reuse
	parsers   chan *pageWorker     // limits concurrent parsing
	large     chan *pageWorker     // of the one page with a spooled body that is being stored
	robots    chan struct{}        // limits concurrent parsing of robots.txt, which needs much memory
	plds      *pldLimiter          // exchanges under way by PLD
	landing   chan struct{}        // one for each landed page; see landed.go
	landed    chan *arrival        // to idle storers; closed when no more pages come
	inFlight  atomic.Int64         // granted URLs that have not ended: pages that may still arrive
	exchanges func() int64         // the number of exchanges under way, including robots.txt
	freed     account.Signal       // raised when a slot becomes free; nil if no stage waits for one
}

// pageWorker holds what parsing one page needs. One goroutine at a time owns it.
type pageWorker struct {
	reader.Reader
	meta     pageMeta // of the current response
	sketch   simhash.Sketch
	exchange warc.Exchange
	streamed *warc.Streamed // instead of Prepared for a spooled body; nil: none, or it is stored
	file     string         // that holds the last record
	stores   state.Archive  // what is stored of the response
	visit    pageVisit
	body     contents.Body
}

func newWorkers(e *engine, o *output.Writer, exchanges func() int64, connections int) *workers {
	parsers := runtime.GOMAXPROCS(0) + 1
	w := &workers{
		exchanges: exchanges,
		slots:     make(chan struct{}, connections),
		grants:    make(chan *polite.Grant),
		responses: make(chan *fetch.Response, connections),
		parsers:   make(chan *pageWorker, parsers+hook.Procs(e.opt.opened.asker, e.opt.Hook)),
		plds:      newPLDLimiter(&e.opt),
		robots:    make(chan struct{}, runtime.GOMAXPROCS(0)+1),
		large:     make(chan *pageWorker, 1),
	}
	w.landing, w.landed = make(chan struct{}, landedPerParser*parsers), make(chan *arrival)
	for range cap(w.parsers) {
		w.parsers <- newPageWorker(e, o)
	}
	w.large <- newPageWorker(e, o)
	return w
}

func newPageWorker(e *engine, o *output.Writer) *pageWorker {
	opt := parse.Options{Agent: e.opt.Identity.Agent, Rels: e.opt.Links.Rels, Assets: e.opt.Links.Assets,
		Forms: e.opt.Links.Forms}
	return &pageWorker{Reader: reader.Reader{Links: admit.NewBatch(e.links), Encoder: o.NewEncoder(),
		Parser: parse.NewExtractor(opt, e.links.URLOptions())}}
}

// lendReader waits for a worker and lends its reader to another stage; nil: ctx ended first. back takes it again;
// broken says that a panic left it in any state.
func (p *pageStage) lendReader(ctx context.Context) (r *reader.Reader, back func(broken bool)) {
	select {
	case w := <-p.workers.parsers:
		return &w.Reader, func(broken bool) {
			if broken {
				w = newPageWorker(p.engine, p.output)
			}
			w.release()
			p.workers.parsers <- w
		}
	case <-ctx.Done():
		return nil, nil
	}
}

// release empties the worker for the next page.
func (w *pageWorker) release() {
	w.Prepared.Release()
	w.body.Release()
	if w.streamed != nil {
		_ = w.streamed.Discard() // the next Open deletes what is left
		w.streamed = nil
	}
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

// enterRobots waits until another robots.txt may be parsed. It returns false if ctx ended first.
func (w *workers) enterRobots(ctx context.Context) bool {
	select {
	case w.robots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if ctx.Err() != nil { // an exchange that ctx cut short is not an outcome
		w.leaveRobots()
		return false
	}
	return true
}

func (w *workers) leaveRobots() { <-w.robots }

// hungry reports whether more than half of the connections are idle because no URL in RAM is due, and more than half of
// the parsers are idle as well: busy processors have no use for more hosts.
func (w *workers) hungry() bool {
	return w.dry.Load() && w.exchanges() < int64(cap(w.slots)+1)/2 && 2*len(w.parsers) >= cap(w.parsers)
}

// starved reports whether all connections are idle because no URL in RAM is due.
func (w *workers) starved() bool { return w.dry.Load() && w.inFlight.Load() == 0 }

// free returns a connection slot.
func (w *workers) free() {
	<-w.slots
	w.freed.Raise()
}
