package crawl

import (
	"context"
	"runtime"
	"sync/atomic"

	"drumbeat/crawl/account"
	"drumbeat/crawl/hook"
	"drumbeat/crawl/reader"
	"drumbeat/crawl/visit"
	"drumbeat/fetch"
	"drumbeat/polite"
)

// workers limits what fetching holds: connections, response buffers and parsers.
type workers struct {
	slots     chan struct{}        // one for each exchange under way
	grants    chan *polite.Grant   // to idle fetchers; closed when no more grants come
	idle      atomic.Int64         // number of idle fetchers
	waits     atomic.Bool          // dispatch has a slot but no grant for it
	dry       atomic.Bool          // when dispatch last looked, no URL in RAM was due
	responses chan *fetch.Response // idle buffers for reuse
	parsers   chan *visit.Worker   // limits concurrent parsing
	large     chan *visit.Worker   // of the one page with a spooled body that is being stored
	plds      *pldLimiter          // exchanges under way by PLD
	landing   chan struct{}        // one for each landed page; see landed.go
	landed    chan *arrival        // to idle storers; closed when no more pages come
	inFlight  atomic.Int64         // granted URLs that have not ended: pages that may still arrive
	exchanges func() int64         // the number of exchanges under way, including robots.txt
	freed     account.Signal       // raised when a slot becomes free; nil if no stage waits for one
}

func newWorkers(e *engine, newWorker func() *visit.Worker, exchanges func() int64, connections int) *workers {
	parsers := runtime.GOMAXPROCS(0) + 1
	w := &workers{
		exchanges: exchanges,
		slots:     make(chan struct{}, connections),
		grants:    make(chan *polite.Grant),
		responses: make(chan *fetch.Response, connections),
		parsers:   make(chan *visit.Worker, parsers+hook.Procs(e.opt.opened.asker, e.opt.Hook)),
		plds:      newPLDLimiter(&e.opt),
		large:     make(chan *visit.Worker, 1),
	}
	w.landing, w.landed = make(chan struct{}, landedPerParser*parsers), make(chan *arrival)
	for range cap(w.parsers) {
		w.parsers <- newWorker()
	}
	w.large <- newWorker()
	return w
}

// lendReader waits for a worker and lends its reader to another stage; nil: ctx ended first. back takes it again;
// broken says that a panic left it in any state.
func (p *pageStage) lendReader(ctx context.Context) (r *reader.Reader, back func(broken bool)) {
	select {
	case w := <-p.workers.parsers:
		return &w.Reader, func(broken bool) {
			if broken {
				w = p.reads.NewWorker()
			}
			w.Release()
			p.workers.parsers <- w
		}
	case <-ctx.Done():
		return nil, nil
	}
}

// Response returns an idle buffer.
func (w *workers) Response() *fetch.Response {
	select {
	case resp := <-w.responses:
		return resp
	default:
		return new(fetch.Response)
	}
}

// Release takes back a buffer.
func (w *workers) Release(resp *fetch.Response) {
	resp.Reset()
	select {
	case w.responses <- resp:
	default:
	}
}

// hungry reports whether more than half of the connections are idle because no URL in RAM is due, and more than half of
// the parsers are idle as well: busy processors have no use for more hosts.
func (w *workers) hungry() bool {
	return w.dry.Load() && w.exchanges() < int64(cap(w.slots)+1)/2 && 2*len(w.parsers) >= cap(w.parsers)
}

// starved reports whether all connections are idle because no URL in RAM is due.
func (w *workers) starved() bool { return w.dry.Load() && w.inFlight.Load() == 0 }

// Take waits for a connection slot. It returns false if ctx ended first.
func (w *workers) Take(ctx context.Context) bool {
	select {
	case w.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Free returns a connection slot.
func (w *workers) Free() {
	<-w.slots
	w.freed.Raise()
}
