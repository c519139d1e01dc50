package crawl

import (
	"bytes"
	"context"
	"errors"
	"hash/fnv"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"drumbeat/fetch"
	"drumbeat/robots"
	"drumbeat/weburl"
)

// witnessed is one request that a crawl sent.
type witnessed struct {
	url        string
	host       string
	addr       netip.Addr
	run        int           // of the program, from 0
	robots     bool          // a request for robots.txt or tdmrep.json
	canary     bool          // a request to a canary
	final      bool          // answered, and not with a 503 that calls for a retry
	ill        bool          // answered with a 503 that calls for a retry
	status     int           // of the answer
	covered    bool          // a durable checkpoint followed its end
	delay      time.Duration // Crawl-delay of a robots.txt
	start, end time.Time
}

// witness is a Fetcher that records every request of a crawl, in all of its runs. In virtual time its clock
// agrees with the servers'. Each exchange takes some time. Some URLs answer 503 to the first request.
type witness struct {
	inner     Fetcher
	seed      uint64
	robotsIll bool // robots.txt of a few hosts answers 503 first too

	mu     sync.Mutex    // guards all below
	cut    chan struct{} // closed at a cut: the exchanges in flight end with the process
	run    int
	visits []witnessed
	called map[string]bool // canaries that get the next request
}

var errCut = errors.New("the process has died")

// begin prepares for the next run of the program.
func (w *witness) begin(run int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run, w.cut, w.called = run, make(chan struct{}), nil
}

// toCanary records that the next request for a URL goes to a canary, whose host lets no other request in.
func (w *witness) toCanary(url string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.called == nil {
		w.called = map[string]bool{}
	}
	w.called[url] = true
}

// die ends the exchanges in flight. Any goroutine may call it, once per run.
func (w *witness) die() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.cut)
}

func (w *witness) Do(ctx context.Context, req *fetch.Request, resp *fetch.Response) error {
	v := witnessed{url: req.Scheme + "://" + req.Host + req.PathQuery, host: req.Host, addr: req.Addr.Addr(),
		start: time.Now(), robots: req.PathQuery == "/robots.txt" || req.PathQuery == robots.ReservationsPath}
	if url, err := weburl.Canonical(v.url); err == nil {
		v.url = url
	}
	w.mu.Lock()
	sum := w.hash(&v)
	ill := w.isIll(&v, sum)
	v.run, v.end = w.run, v.start
	v.canary = v.robots && w.called[v.url]
	delete(w.called, v.url)
	at, cut := len(w.visits), w.cut
	w.visits = append(w.visits, v)
	w.mu.Unlock()
	err := w.inner.Do(ctx, req, resp)
	if err == nil {
		// Exchanges and checkpoints share a grid of times, so that transactions and checkpoints coincide.
		latency := time.NewTimer(time.Duration(sum%3) * 100 * time.Millisecond)
		defer latency.Stop()
		select {
		case <-latency.C:
		case <-cut:
			err = errCut
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &w.visits[at]
	p.end = time.Now()
	if err != nil {
		return err
	}
	p.status = resp.Status
	ill = ill || isTroubled(p.url) && resp.Status == http.StatusServiceUnavailable
	// A redirect doesn't end a request for robots.txt.
	p.final, p.ill = !ill && !(isRobots(p.url) && resp.Status/100 == 3), ill
	if ill {
		p.status, resp.Status = http.StatusServiceUnavailable, http.StatusServiceUnavailable
		_, rest, _ := bytes.Cut(resp.RawHead, []byte("\r\n"))
		resp.RawHead = append([]byte("HTTP/1.1 503 Ill\r\n"), rest...)
	} else if p.robots {
		p.delay = robots.Parse(resp.Body, "drumbeat").CrawlDelay
	}
	return nil
}

func (w *witness) hash(v *witnessed) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(v.url))
	return h.Sum32() ^ uint32(w.seed)*0x9e3779b1
}

// isTroubled reports whether a URL is of a host that always refuses or fails.
func isTroubled(url string) bool { return strings.Contains(url, "://www.welcome-few-") }

// isIll reports whether a URL answers 503 this time. The caller holds mu. In every world the target of a
// robots.txt redirect answers 503 as often as a page does.
// A tdmrep.json never does: it would count as none.
func (w *witness) isIll(v *witnessed, sum uint32) bool {
	every := uint32(10)
	if strings.HasPrefix(v.url[strings.LastIndex(v.url, "/"):], "/robots") {
		if every = 4; !w.robotsIll {
			return false
		}
	}
	return !isTroubled(v.url) && !isReservations(v.url) && sum>>8%every == 0 &&
		!slices.ContainsFunc(w.visits, func(o witnessed) bool { return o.url == v.url && o.ill })
}

// all returns the requests in the order of their start times.
func (w *witness) all() []witnessed {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.visits)
}

// cover records that a durable checkpoint of a run froze the crawl at until: the crawl must not repeat what
// had ended by then.
func (w *witness) cover(run int, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.visits {
		if v := &w.visits[i]; v.run == run && v.end.Before(until) && (v.final || v.ill) {
			v.covered = true
		}
	}
}
