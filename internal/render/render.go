package render

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"
)

// Page is a page to be rendered, as it was fetched.
type Page struct {
	URL    string // canonical, of http or https
	Header http.Header
	Body   []byte // without content coding
}

// Response answers a request of a page.
type Response struct {
	Status int
	Header http.Header
	Body   []byte // without content coding
}

// ErrTooMuch is the error of a Fetcher whose answer would make more than Limits.Bytes with the earlier ones.
var ErrTooMuch = errors.New("render: the page receives too much data")

// Fetcher answers the requests of a page's scripts. Fetch may wait as long as politeness asks, until ctx ends. An
// error refuses the request; ErrTooMuch also all later ones. Several goroutines call it.
type Fetcher interface {
	Fetch(ctx context.Context, url string) (*Response, error)
}

// Limits bound what a page may take. All must be positive.
type Limits struct {
	Agent    string        // User-Agent that scripts see
	Time     time.Duration // of the page while none of its requests is under way
	Longest  time.Duration // in all, with the waits of its requests
	Quiet    time.Duration // without requests until the page counts as complete
	Requests int           // that go to the Fetcher
	// Resources is how many images, style sheets and fonts Result.Resources names. The page gets stubs for them at
	// once. 0: it names none, and the page gets none.
	Resources int
	AtOnce    int   // of these under way
	Bytes     int64 // of bodies that the page receives
	DOM       int   // bytes of the DOM; what follows is cut off
	// Proxy is where requests go that the package does not see; "": deadProxy. For tests.
	Proxy string
	bare  bool // without guard. For tests
}

// deadProxy is the proxy of all contexts. No program listens at port 9 of loopback (discard, RFC 863); if one
// does, it discards.
const deadProxy = "http://127.0.0.1:9"

// End says why a page was taken.
type End uint8

// The reasons.
const (
	Quiet       End = iota // its scripts were done
	TimeLimit              // Limits.Time or Limits.Longest
	RequestCut             // Limits.Requests, or more events than the package keeps
	ByteLimit              // Limits.Bytes
	DOMTooLarge            // Limits.DOM
)

// String returns the reason as a value of WARC-Truncated; "" for Quiet.
func (e End) String() string {
	switch e {
	case Quiet:
		return ""
	case TimeLimit:
		return "time"
	case RequestCut:
		return "unspecified"
	}
	return "length"
}

// Result is a rendered page.
type Result struct {
	HTML []byte   // the DOM, UTF-8
	Base string   // against which its links are resolved
	Went []string // addresses to which scripts wanted to go
	End  End
	// Resources are the addresses of the images, style sheets and fonts that the page requested, each once, and
	// ResourcesCut counts requests for further ones.
	Resources    []string
	ResourcesCut int
	Asked        int // requests that went to the Fetcher
	// Refused counts the other requests that did not: their kind, scheme or method, or a limit of the page, forbids
	// them.
	Refused int
}

const (
	// closeTime is how long the closing of a page may take before the browser counts as hanging.
	closeTime = 15 * time.Second
	// domTime is how long a page may take to begin to return its DOM; afterwards its scripts are ended, and it gets
	// domMore. domLongest is for all pieces of it.
	domTime    = 2 * time.Second
	domMore    = 5 * time.Second
	domLongest = 10 * time.Second
	// maxWent bounds Result.Went, and maxURL the length of the addresses in bytes.
	maxWent = 100
	maxURL  = 8 << 10
)

// ErrHung says that a page did not return its DOM, although its scripts were ended.
var ErrHung = errors.New("render: the page returns no DOM")

// Render loads a page and returns what its scripts made of it.
func (b *Browser) Render(ctx context.Context, p *Page, f Fetcher, l *Limits) (_ *Result, err error) {
	var browserContext struct {
		ID string `json:"browserContextId"`
	}
	proxy := l.Proxy
	if proxy == "" {
		proxy = deadProxy
	}
	// "<-loopback>" sends requests to loopback addresses through the proxy, too.
	if err := b.call(ctx, "", "Target.createBrowserContext", object{"disposeOnDetach": true, "proxyServer": proxy,
		"proxyBypassList": "<-loopback>"}, &browserContext); err != nil {
		return nil, err
	}
	defer func() { // also if ctx has ended
		failed := b.callFor(context.WithoutCancel(ctx), closeTime, "", "Target.disposeBrowserContext",
			object{"browserContextId": browserContext.ID}, nil)
		if failed != nil && err == nil {
			err = failed
		}
	}()
	if err := b.call(ctx, "", "Browser.setDownloadBehavior", object{"behavior": "deny",
		"browserContextId": browserContext.ID}, nil); err != nil {
		return nil, err
	}
	var target struct{ TargetID string }
	if err := b.call(ctx, "", "Target.createTarget", object{"url": "about:blank",
		"browserContextId": browserContext.ID}, &target); err != nil {
		return nil, err
	}
	var attached struct{ SessionID string }
	if err := b.call(ctx, "", "Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true},
		&attached); err != nil {
		return nil, err
	}
	tab := newPage(b, attached.SessionID, target.TargetID, p, f, l)
	b.mu.Lock()
	b.sessions[attached.SessionID] = tab
	b.mu.Unlock()
	defer tab.forget()
	if err := tab.prepare(ctx); err != nil {
		return nil, err
	}
	return tab.render(ctx)
}

// prepare puts the page's tab under control. Order matters: nothing of the page runs before all of it is done.
func (t *page) prepare(ctx context.Context) error {
	guard := guard
	if t.limits.bare {
		guard = ""
	}
	for _, c := range []struct {
		method string
		params object
	}{
		{"Fetch.enable", object{"patterns": []object{{"urlPattern": "*"}}}},
		{"Page.enable", nil},
		{"Target.setAutoAttach", object{"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true}},
		{"Emulation.setUserAgentOverride", object{"userAgent": t.limits.Agent}},
		{"Page.addScriptToEvaluateOnNewDocument", object{"source": guard}},
	} {
		if err := t.b.call(ctx, t.session, c.method, c.params, nil); err != nil {
			return err
		}
	}
	return nil
}

// guard runs in each document before its scripts. Workers could load scripts on their own, and sockets and peer
// connections are no requests, so Fetch does not see them. Dialogs would stop the page. Limits and the proxy hold even
// where a page undoes this.
const guard = `(() => {
  for (const name of ["WebSocket", "WebSocketStream", "WebTransport", "RTCPeerConnection", "webkitRTCPeerConnection",
    "Worker", "SharedWorker", "EventSource", "Notification", "PushManager"]) delete globalThis[name];
  for (const name of ["serviceWorker", "sendBeacon", "share", "registerProtocolHandler"]) delete Navigator.prototype[name];
  const nothing = () => null;
  for (const name of ["open", "alert", "confirm", "prompt", "print"]) globalThis[name] = nothing;
})()`

// isolated is the name of the world in which the DOM is read: the page's scripts cannot change its functions.
const isolated = "drumbeat"

// dom reads the DOM. A busy page gets domTime, then its scripts are ended, and it gets domMore.
func (t *page) dom(ctx context.Context, r *Result) error {
	err := t.readDOM(ctx, r, domTime)
	if err == nil || ctx.Err() != nil || t.b.lost() {
		return err
	}
	t.cut(TimeLimit)
	if err := t.b.callFor(ctx, domTime, t.session, "Runtime.terminateExecution", nil, nil); err != nil && t.b.lost() {
		return err
	}
	if err := t.readDOM(ctx, r, domMore); err == nil || ctx.Err() != nil || t.b.lost() {
		return err
	}
	return ErrHung
}

// lost reports whether the connection has ended.
func (b *Browser) lost() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// piece is the length of a piece of the DOM in UTF-16 units, which a message has as six bytes at most.
const piece = 64 << 10

// readDOM reads the DOM by pieces: one message with all of it would be too large for the RAM of small crawls.
func (t *page) readDOM(ctx context.Context, r *Result, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, domLongest)
	defer cancel()
	var world struct{ ExecutionContextID int }
	if err := t.b.callFor(ctx, patience, t.session, "Page.createIsolatedWorld",
		object{"frameId": t.frame, "worldName": isolated}, &world); err != nil {
		return err
	}
	var dom struct{ ObjectID string }
	if err := t.evaluate(ctx, patience, "Runtime.evaluate",
		object{"contextId": world.ExecutionContextID, "expression": `(() => {
  const d = document.doctype, root = document.documentElement;
  return {html: (d ? "<!DOCTYPE " + d.name + ">\n" : "") + (root ? root.outerHTML : ""), base: document.baseURI};
})()`}, &dom, nil); err != nil {
		return err
	}
	r.HTML = r.HTML[:0]
	for at := 0; at >= 0; {
		var got struct {
			HTML, Base string
			Next       int
		}
		// A piece never ends between the two units of a character.
		function := fmt.Sprintf(`function() {
  let next = %d;
  if ((this.html.charCodeAt(next - 1) & 0xfc00) === 0xd800) next--;
  return {HTML: this.html.slice(%d, next), Base: this.base.slice(0, %d), Next: next < this.html.length ? next : -1};
}`, at+piece, at, maxURL)
		if err := t.evaluate(ctx, patience, "Runtime.callFunctionOn",
			object{"objectId": dom.ObjectID, "functionDeclaration": function,
				"returnByValue": true}, nil, &got); err != nil {
			return err
		}
		r.Base, at = got.Base, got.Next
		if n := t.limits.DOM - len(r.HTML); len(got.HTML) > n {
			for n > 0 && !utf8.RuneStart(got.HTML[n]) {
				n--
			}
			r.HTML = append(r.HTML, got.HTML[:n]...)
			t.cut(DOMTooLarge)
			return nil
		}
		r.HTML = append(r.HTML, got.HTML...)
	}
	return nil
}

// evaluate runs an expression or a function. The result goes to object, as a reference, or to value.
func (t *page) evaluate(ctx context.Context, patience time.Duration, method string, params, object, value any) error {
	got := struct {
		Result           any
		ExceptionDetails *struct{ Text string }
	}{Result: object}
	if value != nil {
		got.Result = &struct{ Value any }{value}
	}
	if err := t.b.callFor(ctx, patience, t.session, method, params, &got); err != nil {
		return err
	}
	if got.ExceptionDetails != nil {
		return fmt.Errorf("render: read the DOM: %s", got.ExceptionDetails.Text)
	}
	return nil
}
