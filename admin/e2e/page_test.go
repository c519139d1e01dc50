package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// view is the size of a screen, in CSS pixels, and its scale.
type view struct {
	width, height int
	scale         float64
}

var (
	phone  = view{390, 844, 3}
	laptop = view{1440, 900, 1}
	wall   = view{2560, 1440, 1}
)

// page is a tab. Its methods end the test on an error.
type page struct {
	t       *testing.T
	ctx     context.Context
	c       *chromium
	view    view
	label   string // of faults and screenshots
	session string
	target  string

	mu        sync.Mutex // guards the fields below
	tolerated *regexp.Regexp
	faults    []string
	requests  map[string]string // URLs by request
	bytes     int64             // transferred, without the answers of the API
}

// recordScript runs in each new document. It counts layout shifts and reports breaches of the policy.
const recordScript = `window.__shift = 0; window.__shifts = [];
new PerformanceObserver((list) => {
  const box = (r) => [r.x, r.y, r.width, r.height].map(Math.round).join(" ");
  for (const e of list.getEntries()) {
    if (e.hadRecentInput) continue;
    window.__shift += e.value;
    for (const s of e.sources || [])
      window.__shifts.push([s.node?.id || s.node?.className || s.node?.nodeName, "by", e.value.toFixed(4), "from",
        box(s.previousRect), "to", box(s.currentRect)].join(" "));
  }
}).observe({ type: "layout-shift", buffered: true });
document.addEventListener("securitypolicyviolation", (e) => console.error("policy: " + e.violatedDirective + " " + e.blockedURI));`

// open opens a tab at url.
func open(ctx context.Context, t *testing.T, c *chromium, v view, theme, label, url string) *page {
	t.Helper()
	p := &page{t: t, ctx: ctx, c: c, view: v, label: fmt.Sprintf("%s-%d-%s", label, v.width, theme),
		requests: map[string]string{}}
	var target struct{ TargetID string }
	p.must("Target.createTarget", object{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	p.must("Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true}, &session)
	p.target, p.session = target.TargetID, session.SessionID
	c.mu.Lock()
	c.events[p.session] = p.hear
	c.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		p.must(domain+".enable", nil, nil)
	}
	p.must("Emulation.setDeviceMetricsOverride", object{"width": v.width, "height": v.height,
		"deviceScaleFactor": v.scale, "mobile": v.width < 600}, nil)
	p.must("Emulation.setEmulatedMedia",
		object{"features": []object{{"name": "prefers-color-scheme", "value": theme}}}, nil)
	p.must("Network.setCacheDisabled", object{"cacheDisabled": true}, nil)
	p.must("Page.addScriptToEvaluateOnNewDocument", object{"source": recordScript}, nil)
	// Answers come late, so each test sees the page before the first numbers, and what they shift.
	p.network(false)
	p.must("Page.navigate", object{"url": url}, nil)
	p.until("the page is loaded", "location.protocol === 'http:' && document.readyState === 'complete'")
	return p
}

// network cuts or restores the page's network, on which answers take 150 ms longer.
func (p *page) network(offline bool) {
	p.t.Helper()
	p.must("Network.emulateNetworkConditions",
		object{"offline": offline, "latency": 150, "downloadThroughput": -1, "uploadThroughput": -1}, nil)
}

// must sends a command.
func (p *page) must(method string, params, result any) {
	p.t.Helper()
	if params == nil {
		params = object{}
	}
	if err := p.c.call(p.ctx, p.session, method, params, result); err != nil {
		p.t.Fatalf("%s: %v", p.label, err)
	}
}

// hear notes what the page logs, throws and loads.
func (p *page) hear(method string, params json.RawMessage) {
	var e struct {
		Type             string
		RequestID        string
		EncodedLength    int64 `json:"encodedDataLength"`
		Response         struct{ URL string }
		Args             []struct{ Value, Description any }
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
		Entry struct{ Source, Level, Text, URL string }
	}
	if err := json.Unmarshal(params, &e); err != nil {
		p.fault("%s: %v", method, err)
		return
	}
	switch method {
	case "Runtime.exceptionThrown":
		p.fault("exception: %s %s", e.ExceptionDetails.Text, e.ExceptionDetails.Exception.Description)
	case "Runtime.consoleAPICalled":
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			p.fault("console: %v", e.Args)
		}
	case "Log.entryAdded":
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			p.fault("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case "Network.responseReceived":
		p.mu.Lock()
		p.requests[e.RequestID] = e.Response.URL
		p.mu.Unlock()
	case "Network.loadingFinished":
		p.mu.Lock()
		if url := p.requests[e.RequestID]; url != "" && !strings.Contains(url, "/api/") {
			p.bytes += e.EncodedLength
		}
		p.mu.Unlock()
	}
}

// fault notes a fault, unless it is tolerated now.
func (p *page) fault(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tolerated == nil || !p.tolerated.MatchString(text) {
		p.faults = append(p.faults, text)
	}
}

// tolerate ignores faults that match the expression, until the next call; "" ignores none.
func (p *page) tolerate(expression string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tolerated = nil
	if expression != "" {
		p.tolerated = regexp.MustCompile(expression)
	}
}

// check fails the test for each fault.
func (p *page) check() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		p.t.Errorf("%s: %s", p.label, f)
	}
	p.faults = nil
}

// close checks the page and closes the tab.
func (p *page) close() {
	p.t.Helper()
	p.check()
	p.must("Page.disable", nil, nil)
	session := p.session
	p.session = ""
	p.must("Target.closeTarget", object{"targetId": p.target}, nil)
	p.c.mu.Lock()
	delete(p.c.events, session)
	p.c.mu.Unlock()
}

// run evaluates an expression, waits for its promise, and decodes its value into result unless that is nil.
func (p *page) run(expression string, result any) {
	p.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	p.must("Runtime.evaluate", object{"expression": expression, "awaitPromise": true, "returnByValue": true}, &answer)
	if e := answer.ExceptionDetails; e != nil {
		p.t.Fatalf("%s: %.200s: %s %s", p.label, expression, e.Text, e.Exception.Description)
	}
	if result == nil {
		return
	}
	if len(answer.Result.Value) == 0 {
		p.t.Fatalf("%s: %.200s has no value", p.label, expression)
	}
	if err := json.Unmarshal(answer.Result.Value, result); err != nil {
		p.t.Fatalf("%s: %.200s: %v", p.label, expression, err)
	}
}

// text returns the text of an element.
func (p *page) text(selector string) string {
	p.t.Helper()
	var text string
	p.run("document.querySelector("+quote(selector)+")?.textContent ?? ''", &text)
	return text
}

// until waits until an expression is true. what says what it is, in the message of a failure.
func (p *page) until(what, expression string) {
	p.t.Helper()
	p.wait(what, 30*time.Second, func() bool {
		var ok bool
		p.run("Boolean("+expression+")", &ok)
		return ok
	})
}

// wait asks every 100 ms until ok, or ends the test after a time.
func (p *page) wait(what string, most time.Duration, ok func() bool) {
	p.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	over := time.After(most)
	for !ok() {
		select {
		case <-tick.C:
		case <-over:
			p.save("-failed", false)
			p.t.Fatalf("%s: not within %v: %s", p.label, most, what)
		case <-p.ctx.Done():
			p.t.Fatalf("%s: %v while waiting: %s", p.label, p.ctx.Err(), what)
		}
	}
}

// number returns the digits of an expression's text as a number, 0 if there are none.
func (p *page) number(expression string) (n int) {
	p.t.Helper()
	p.run("Number(String("+expression+" ?? 0).replace(/\\D/g, ''))", &n)
	return n
}

// button is an expression for the button with these words in the element that the selector names.
func button(selector, words string) string {
	return "[...document.querySelectorAll(" + quote(selector+" button") + ")].find((b) => b.textContent.trim() === " +
		quote(words) + ")"
}

// element is an expression for the first element of a selector.
func element(selector string) string { return "document.querySelector(" + quote(selector) + ")" }

// aimScript scrolls to the element e, waits until two frames show it at one place, and returns the middle of
// it. over is what is in front of it. From then on, window.__aim says what the mouse did to it.
const aimScript = `
  const box = () => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height].join(" "); };
  for (let was = "", frames = 0; frames < 100; frames++) {
    e.scrollIntoView({ block: "center", behavior: "instant" });
    await new Promise((done) => requestAnimationFrame(done));
    if (was === (was = box())) break;
  }
  const r = e.getBoundingClientRect();
  const at = { x: r.left + r.width / 2, y: r.top + r.height / 2, over: "" };
  const hit = (top) => Boolean(top && (e.contains(top) || top.closest("label")?.contains(e)));
  const top = document.elementFromPoint(at.x, at.y);
  if (!hit(top)) at.over = top ? top.outerHTML.slice(0, 200) : "nothing";
  const aim = window.__aim = { pressed: false };
  window.addEventListener("mousedown", (ev) => { aim.pressed = hit(ev.target); }, { capture: true, once: true });
  return at;`

// click clicks the middle of an element with the mouse. The page may move what it shows until the button is down:
// where that hits something else, the button goes up outside, which is no click, and the next try follows.
func (p *page) click(expression string) {
	p.t.Helper()
	p.until("there is "+expression, expression)
	mouse := func(kind string, x, y float64) {
		p.t.Helper()
		p.must("Input.dispatchMouseEvent", object{"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}, nil)
	}
	p.wait("a click hits "+expression, 10*time.Second, func() bool {
		var at struct {
			X, Y float64
			Over string
		}
		p.run("(async () => { const e = "+expression+"; "+aimScript+" })()", &at)
		if at.Over != "" {
			p.t.Logf("%s: a click on %s would hit %s", p.label, expression, at.Over)
			return false
		}
		mouse("mouseMoved", at.X, at.Y)
		mouse("mousePressed", at.X, at.Y)
		var pressed bool
		if p.run("window.__aim.pressed", &pressed); !pressed {
			mouse("mouseMoved", 0, 0)
			mouse("mouseReleased", 0, 0)
			return false
		}
		mouse("mouseReleased", at.X, at.Y)
		return true
	})
}

// show scrolls to an element.
func (p *page) show(selector string) {
	p.t.Helper()
	p.run(element(selector)+".scrollIntoView({ behavior: 'instant' }), 0", nil)
}

// enter clicks a field and replaces its text.
func (p *page) enter(expression, text string) {
	p.t.Helper()
	p.click(expression)
	p.run("(() => { ("+expression+").select(); })(), 0", nil)
	p.write(text)
}

// write inserts text where the focus is.
func (p *page) write(text string) {
	p.t.Helper()
	p.must("Input.insertText", object{"text": text}, nil)
}

// press presses a key.
func (p *page) press(key string, code int) {
	p.t.Helper()
	text := key
	if key == "Enter" {
		text = "\r"
	} else if len(key) > 1 {
		text = ""
	}
	p.must("Input.dispatchKeyEvent",
		object{"type": "keyDown", "key": key, "windowsVirtualKeyCode": code, "text": text}, nil)
	p.must("Input.dispatchKeyEvent", object{"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}, nil)
}

// save writes a screenshot, of the screen or of the whole page.
func (p *page) save(name string, whole bool) {
	p.t.Helper()
	file := shot(p.t, p.label+name)
	if file == "" {
		return
	}
	params := object{"format": "png"}
	if whole {
		var height float64
		p.run("document.documentElement.scrollHeight", &height)
		params["captureBeyondViewport"] = true
		params["clip"] = object{"x": 0, "y": 0, "width": p.view.width, "height": height, "scale": 1 / p.view.scale}
	}
	var image struct{ Data []byte }
	p.must("Page.captureScreenshot", params, &image)
	if err := os.WriteFile(file, image.Data, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// quote writes a string of JavaScript.
func quote(s string) string {
	data, _ := json.Marshal(s) // a string can be marshaled
	return string(data)
}
