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

// visit is one request that a crawl sent.
type visit struct {
	url        string
	host       string
	addr       netip.Addr
	run        int           // of the program, from 0
	robots     bool          // for robots.txt
	voucher    bool          // asked to learn whether the network works
	final      bool          // answered, and not with a 503 that calls for another attempt
	ill        bool          // answered with such a 503
	status     int           // of the answer
	covered    bool          // a durable checkpoint was made after its end
	delay      time.Duration // Crawl-delay of a robots.txt
	start, end time.Time
}

// witness is a Fetcher that writes down every request of a crawl and of its later runs. In virtual time its clock is the
// servers'. Exchanges take their time, and some URLs answer 503 when they are asked for the first time.
type witness struct {
	inner     Fetcher
	seed      uint64
	robotsIll bool // also robots.txt of a few hosts

	mu     sync.Mutex    // guards all below
	cut    chan struct{} // closed at a cut: exchanges under way die with the process
	run    int
	visits []visit
	called map[string]bool // canaries that are about to be asked
}

var errCut = errors.New("the process has died")

// begin prepares for another run of the program.
func (w *witness) begin(run int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run, w.cut, w.called = run, make(chan struct{}), nil
}

// vouch notes that a canary is about to be asked for its robots.txt, at a URL: its host has let no other request in.
func (w *witness) vouch(url string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.called == nil {
		w.called = map[string]bool{}
	}
	w.called[url] = true
}

// die ends the exchanges under way. It may be called by any goroutine, once a run.
func (w *witness) die() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.cut)
}

func (w *witness) Do(ctx context.Context, req *fetch.Request, resp *fetch.Response) error {
	v := visit{url: req.Scheme + "://" + req.Host + req.PathQuery, host: req.Host, addr: req.Addr.Addr(), start: time.Now(),
		robots: req.PathQuery == "/robots.txt"}
	if url, err := weburl.Canonical(v.url); err == nil {
		v.url = url
	}
	w.mu.Lock()
	sum := w.hash(&v)
	ill := w.isIll(&v, sum)
	v.run, v.end = w.run, v.start
	v.voucher = v.robots && w.called[v.url]
	delete(w.called, v.url)
	at, cut := len(w.visits), w.cut
	w.visits = append(w.visits, v)
	w.mu.Unlock()
	err := w.inner.Do(ctx, req, resp)
	if err == nil {
		// All on one grid, with the checkpoints, so that steps and checkpoints meet.
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
	p.final, p.ill = !ill && !(isRobots(p.url) && resp.Status/100 == 3), ill // a redirect doesn't end a request for robots.txt
	if ill {
		p.status, resp.Status = http.StatusServiceUnavailable, http.StatusServiceUnavailable
		_, rest, _ := bytes.Cut(resp.RawHead, []byte("\r\n"))
		resp.RawHead = append([]byte("HTTP/1.1 503 Ill\r\n"), rest...)
	} else if p.robots {
		p.delay = robots.Parse(resp.Body, "drumbeat").CrawlDelay
	}
	return nil
}

func (w *witness) hash(v *visit) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(v.url))
	return h.Sum32() ^ uint32(w.seed)*0x9e3779b1
}

// isTroubled tells the URLs of the hosts that refuse or fail always.
func isTroubled(url string) bool { return strings.Contains(url, "://www.welcome-few-") }

// isIll says whether a URL answers 503 this time; mu is held. Rules that lie on another host than theirs, to which robots.txt
// redirects, are ill as often as pages, in every world.
func (w *witness) isIll(v *visit, sum uint32) bool {
	every := uint32(10)
	if strings.HasPrefix(v.url[strings.LastIndex(v.url, "/"):], "/robots") {
		if every = 4; !w.robotsIll {
			return false
		}
	}
	return !isTroubled(v.url) && sum>>8%every == 0 && !slices.ContainsFunc(w.visits, func(o visit) bool { return o.url == v.url && o.ill })
}

// all returns the requests in the order of their starts.
func (w *witness) all() []visit {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.visits)
}

// cover notes that a durable checkpoint of a run froze the crawl at a time: what had ended by then must not be done again.
func (w *witness) cover(run int, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.visits {
		if v := &w.visits[i]; v.run == run && v.end.Before(until) && (v.final || v.ill) {
			v.covered = true
		}
	}
}
