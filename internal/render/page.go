package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxEvents bounds the events of a page that wait to be read, and maxEventBytes their bytes: a request names its URL,
// and what it posts. maxWaiting bounds the addresses of the requests that wait, in bytes.
const (
	maxEvents     = 4096
	maxEventBytes = 1 << 20
	maxWaiting    = 512 << 10
	// maxResources bounds the addresses in Result.Resources, in bytes.
	maxResources = 512 << 10
)

// TabRAM is what a page takes of the Go heap, in bytes, beside its body, the answers to its requests and its DOM: its
// events with what leads to them, its requests, its resources with their set, where it went, two pieces of its DOM.
const TabRAM = maxEventBytes + 128*maxEvents + maxWaiting + 2*maxResources + maxWent*maxURL + 2*maxMessage

// event is an event of a page.
type event struct {
	method string
	params json.RawMessage
}

// page is a page in its tab.
type page struct {
	b       *Browser
	session string
	frame   string // of the whole page; it has the id of the target
	page    *Page
	fetcher Fetcher
	limits  *Limits
	events  chan event
	queued  atomic.Int64  // bytes in events
	flooded chan struct{} // closed when an event found no room
	flood   sync.Once

	// Of the goroutine that renders.
	r        Result
	shown    bool // the browser shows the document instead of about:blank
	parsed   bool // the document is parsed
	answered bool // the page itself was requested
	bytes    int64
	waiting  []asked // for a free place among the requests under way
	urls     int     // bytes of their addresses
	underWay int
	over     bool                // the limits allow no further request
	named    map[string]struct{} // Result.Resources
	namedLen int                 // bytes of them
	came     chan fetched
	checks   int          // answers to check
	checking bool         // an answer is due
	checkID  int          // of the last check
	checked  chan message // answers
}

// paused is a request that the browser has stopped.
type paused struct {
	RequestID    string `json:"requestId"`
	FrameID      string `json:"frameId"`
	ResourceType string `json:"resourceType"`
	Request      struct {
		URL     string            `json:"url"`
		Method  string            `json:"method"`
		Headers map[string]string `json:"headers"`
	} `json:"request"`
}

// asked is a request that goes to the Fetcher.
type asked struct{ id, url string }

// fetched is the answer to a request.
type fetched struct {
	id   string
	resp *Response // nil: refused
	err  error     // why
}

func newPage(b *Browser, session, frame string, p *Page, f Fetcher, l *Limits) *page {
	return &page{b: b, session: session, frame: frame, page: p, fetcher: f, limits: l,
		events: make(chan event, maxEvents), flooded: make(chan struct{}), came: make(chan fetched),
		checked: make(chan message, 1), named: map[string]struct{}{}}
}

// note receives an event. It never blocks.
func (t *page) note(e event) {
	switch e.method {
	case "Fetch.requestPaused", "Page.frameNavigated", "Page.domContentEventFired", "Page.javascriptDialogOpening",
		"Inspector.targetCrashed":
	default:
		return
	}
	if t.queued.Add(int64(len(e.params))) <= maxEventBytes {
		select {
		case t.events <- e:
			return
		default:
		}
	}
	t.queued.Add(-int64(len(e.params)))
	t.flood.Do(func() { close(t.flooded) })
}

// mostChecks is how many answers of a quiet page make up for the event that its document is parsed. Scripts that leave
// the page while it is parsed suppress the event.
const mostChecks = 3

// check asks the page for an answer, which comes when its scripts pause. So a busy page is not quiet.
func (t *page) check() error {
	t.checking = true
	var err error
	t.checkID, err = t.b.send(t.session, "Runtime.evaluate", object{"expression": "0"}, t.checked)
	return err
}

// forget drops the page's session, and the wait for an answer that may not come.
func (t *page) forget() {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	delete(t.b.sessions, t.session)
	delete(t.b.calls, t.checkID) // 0 is no id
}

// tick is how often the time of a page is looked at.
const tick = 50 * time.Millisecond

// busyAfter is how often a page with requests under way is asked for an answer, and without which time it
// counts as busy.
const busyAfter = time.Second

// waits are the times of a page that loads.
type waits struct {
	began, now time.Time
	own, quiet time.Duration // without a request under way, or while a script runs
	busy       time.Duration // without an answer to a check while requests are under way
	checked    time.Time     // time of the last such check
}

// passTime adds the time since its last call to w, and checks the page or ends it (true) if it is time.
func (t *page) passTime(w *waits) (end bool, err error) {
	d := time.Since(w.now)
	w.now = w.now.Add(d)
	if t.underWay == 0 {
		w.own, w.quiet = w.own+d, w.quiet+d
	} else if w.busy += d; !t.checking {
		w.busy = 0
	} else if w.busy > busyAfter { // a script runs, whatever the page waits for
		w.own += d
	}
	switch {
	case w.own >= t.limits.Time || w.now.Sub(w.began) >= t.limits.Longest:
		return t.cut(TimeLimit), nil
	case t.r.Refused > 4*t.limits.Requests+maxEvents: // it does nothing else
		return t.cut(RequestCut), nil
	case t.underWay > 0 && t.answered && !t.checking:
		if w.now.Sub(w.checked) < busyAfter {
			return false, nil
		}
		w.checked = w.now
		return false, t.check()
	case t.shown && t.underWay == 0 && w.quiet >= t.limits.Quiet*time.Duration(1+t.checks) && !t.checking:
		return false, t.check()
	}
	return false, nil
}

// render loads the page and waits until it is to be taken.
func (t *page) render(ctx context.Context) (*Result, error) {
	fetching, cancel := context.WithTimeout(ctx, t.limits.Longest)
	var fetches sync.WaitGroup
	defer fetches.Wait()
	defer cancel()
	if _, err := t.b.send(t.session, "Page.navigate", object{"url": t.page.URL}, nil); err != nil {
		return nil, err
	}
	w := waits{began: time.Now(), now: time.Now()}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for end := false; !end; {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-t.b.done:
			return nil, fmt.Errorf("render: %s: %w", t.page.URL, ErrLost)
		case <-t.flooded:
			end = t.cut(RequestCut)
		case e := <-t.events:
			t.queued.Add(-int64(len(e.params)))
			delays, err := t.handle(e)
			if err != nil {
				return nil, err
			}
			if delays {
				w.quiet = 0
			}
		case a := <-t.came:
			t.underWay--
			if err := t.answer(a); err != nil {
				return nil, err
			}
			w.quiet = 0
		case <-t.checked:
			t.checking = false
			if t.underWay > 0 || w.quiet < t.limits.Quiet { // it only showed that the page's scripts pause
				continue
			}
			if t.checks++; t.parsed || t.checks >= mostChecks {
				end = true
			}
		case <-ticker.C:
			var err error
			if end, err = t.passTime(&w); err != nil {
				return nil, err
			}
		}
		t.ask(fetching, &fetches)
	}
	cancel()
	if err := t.dom(ctx, &t.r); err != nil {
		return nil, err
	}
	return &t.r, nil
}

// cut notes the first limit that the page reached. It returns true.
func (t *page) cut(e End) bool {
	if t.r.End == Quiet {
		t.r.End = e
	}
	return true
}

// ask hands requests to the Fetcher while there is room.
func (t *page) ask(ctx context.Context, fetches *sync.WaitGroup) {
	for len(t.waiting) > 0 && t.underWay < t.limits.AtOnce {
		req := t.waiting[0]
		t.waiting[0] = asked{} // or the array would keep its address
		t.waiting = t.waiting[1:]
		t.urls -= len(req.url)
		t.underWay++
		t.r.Asked++
		fetches.Add(1)
		go func() {
			defer fetches.Done()
			resp, err := t.fetcher.Fetch(ctx, req.url)
			if err != nil {
				resp = nil
			}
			select {
			case t.came <- fetched{req.id, resp, err}:
			case <-ctx.Done(): // the page has ended
			}
		}()
	}
}

// handle does what an event asks for. delays says that the page is not quiet: resources come without its scripts, and
// a page may ask for ever new ones.
func (t *page) handle(e event) (delays bool, err error) {
	delays = true
	switch e.method {
	case "Page.frameNavigated":
		var moved struct{ Frame struct{ ID string } }
		if json.Unmarshal(e.params, &moved) == nil && moved.Frame.ID == t.frame {
			t.shown = t.answered
		}
	case "Page.domContentEventFired":
		t.parsed = t.answered
	case "Inspector.targetCrashed":
		err = ErrHung
	case "Page.javascriptDialogOpening":
		_, err = t.b.send(t.session, "Page.handleJavaScriptDialog", object{"accept": false}, nil)
	case "Fetch.requestPaused":
		var req paused
		if json.Unmarshal(e.params, &req) != nil {
			break // no request that could be answered
		}
		if stub, ok := stubs[req.ResourceType]; ok && t.limits.Resources > 0 && req.wanted() {
			return false, t.resource(&req, stub)
		}
		err = t.request(&req)
	}
	return delays, err
}

// stubs are what a page gets instead of its resources: an empty style sheet, and one pixel. No stub of a font would
// load.
var stubs = map[string]*Response{
	"Stylesheet": stub("text/css", ""),
	"Image": stub("image/gif", "GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff"+
		"!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"),
	"Font": nil,
}

func stub(mime, body string) *Response {
	return &Response{http.StatusOK, http.Header{"Content-Type": {mime}, "Access-Control-Allow-Origin": {"*"}},
		[]byte(body)}
}

// resource notes a request for a resource, and answers it by a stub; nil: it fails.
func (t *page) resource(req *paused, stub *Response) error {
	url := req.Request.URL
	if _, known := t.named[url]; !known {
		if len(t.named) >= t.limits.Resources || t.namedLen+len(url) > maxResources {
			t.r.ResourcesCut++
			return t.fail(req.RequestID, "BlockedByClient")
		}
		t.named[url] = struct{}{}
		t.namedLen += len(url)
		t.r.Resources = append(t.r.Resources, url)
	}
	if stub == nil {
		return t.fail(req.RequestID, "BlockedByClient")
	}
	return t.fulfill(req.RequestID, stub, "")
}

// wanted reports whether a request is one that the crawl could make for the page, whatever it is for.
func (p *paused) wanted() bool {
	url := p.Request.URL
	return (strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://")) &&
		p.Request.Method == http.MethodGet && len(url) <= maxURL &&
		p.Request.Headers["Sec-Purpose"] == "" // no prefetch
}

// request decides about a request: it is the page itself, it goes to the Fetcher, or it is refused.
func (t *page) request(req *paused) error {
	url, may := req.Request.URL, req.wanted()
	if req.ResourceType == "Document" && req.FrameID == t.frame {
		if !t.answered {
			t.answered = true
			own := &Response{Status: http.StatusOK, Header: t.page.Header, Body: t.page.Body}
			return t.fulfill(req.RequestID, own, policy(t.limits.Resources > 0))
		}
		if may && len(t.r.Went) < maxWent && !slices.Contains(t.r.Went, url) {
			t.r.Went = append(t.r.Went, url)
		}
		return t.refuse(req.RequestID, "Aborted") // the page stays
	}
	script := req.ResourceType == "Script" || req.ResourceType == "XHR" || req.ResourceType == "Fetch"
	if !script || !may {
		return t.refuse(req.RequestID, "BlockedByClient")
	}
	if t.r.Asked+len(t.waiting) >= t.limits.Requests || t.urls+len(url) > maxWaiting {
		t.over = t.cut(RequestCut)
	}
	if t.over {
		return t.refuse(req.RequestID, "BlockedByClient")
	}
	t.waiting = append(t.waiting, asked{req.RequestID, url})
	t.urls += len(url)
	return nil
}

// answer hands an answer of the Fetcher to the page.
func (t *page) answer(a fetched) error {
	if a.resp == nil && !errors.Is(a.err, ErrTooMuch) {
		return t.fail(a.id, "BlockedByClient")
	}
	if a.resp != nil {
		t.bytes += int64(len(a.resp.Body))
	}
	if a.resp == nil || t.bytes > t.limits.Bytes {
		t.over = t.cut(ByteLimit)
		return t.fail(a.id, "BlockedByClient")
	}
	return t.fulfill(a.id, a.resp, "")
}

// refuse counts a request that does not go to the Fetcher, and fails it.
func (t *page) refuse(id, reason string) error {
	t.r.Refused++
	return t.fail(id, reason)
}

func (t *page) fail(id, reason string) error {
	_, err := t.b.send(t.session, "Fetch.failRequest", object{"requestId": id, "errorReason": reason}, nil)
	return err
}

// passed are the header fields that a page sees. Others could set cookies, start downloads or requests, or name an
// encoding or a length that no longer holds.
var passed = [...]string{"Content-Type", "Content-Language", "Content-Security-Policy", "Location",
	"X-Content-Type-Options", "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials",
	"Access-Control-Expose-Headers"}

// policy returns a policy that joins those of the page itself. Chromium enforces it on the page and on the frames that
// the page makes, so it holds where a page undoes guard. It forbids sockets and workers, and what would be refused
// anyway. resources says that the page gets stubs for its resources.
func policy(resources bool) string {
	const always = "connect-src http: https: data: blob:; worker-src 'none'; frame-src 'none'; object-src 'none'; " +
		"media-src 'none'; manifest-src 'none'; "
	if resources {
		return always + "img-src http: https:; font-src http: https:; style-src 'unsafe-inline' http: https:"
	}
	return always + "img-src 'none'; font-src 'none'; style-src 'unsafe-inline'"
}

// fulfill answers a request, with a further policy unless that is "".
func (t *page) fulfill(id string, resp *Response, policy string) error {
	header := []object{}
	if policy != "" {
		header = append(header, object{"name": "Content-Security-Policy", "value": policy})
	}
	for _, name := range passed {
		for _, v := range resp.Header.Values(name) {
			header = append(header, object{"name": name, "value": strings.Map(printable, v)})
		}
	}
	params := object{"requestId": id, "responseCode": resp.Status, "responseHeaders": header}
	_, err := t.b.sendBody(t.session, "Fetch.fulfillRequest", params, resp.Body, nil)
	return err
}

// printable drops the characters that a header value cannot have.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return -1
	}
	return r
}
