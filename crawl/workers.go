package crawl

import (
	"context"
	"runtime"
	"sync/atomic"

	"drumbeat/crawl/admit"
	"drumbeat/fetch"
	"drumbeat/parse"
	"drumbeat/polite"
	"drumbeat/warc"
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
