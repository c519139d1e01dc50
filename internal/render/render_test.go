package render

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/internal/render/rendertest"
)

// site answers requests from a table.
type site struct {
	files map[string]*Response
	mu    sync.Mutex
	asked []string
	hold  chan struct{} // if set, it receives each request, which is never answered
}

func (s *site) Fetch(ctx context.Context, url string) (*Response, error) {
	s.mu.Lock()
	s.asked = append(s.asked, url)
	s.mu.Unlock()
	if s.hold != nil {
		s.hold <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if r := s.files[url]; r != nil {
		return r, nil
	}
	return nil, errors.New("refused")
}

// refuser refuses all requests and, unlike site, remembers none.
type refuser struct{}

func (refuser) Fetch(context.Context, string) (*Response, error) { return nil, errors.New("refused") }

func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.asked)
	slices.Sort(list)
	return list
}

func script(text string) *Response {
	return &Response{200, http.Header{"Content-Type": {"text/javascript"}}, []byte(text)}
}

func testLimits() *Limits {
	return &Limits{Agent: "drumbeat/test", Time: 5 * time.Second, Longest: 20 * time.Second,
		Quiet: 300 * time.Millisecond, Requests: 20, AtOnce: 4, Bytes: 1 << 20, DOM: 1 << 20}
}

func dialed(t *testing.T, c *rendertest.Chromium) *Browser {
	t.Helper()
	b, err := Dial(t.Context(), c.URL)
	must(t, err)
	t.Cleanup(b.Close)
	return b
}

func htmlPage(body string) *Page {
	return &Page{URL: "http://a.test/dir/page", Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}},
		Body: []byte("<!DOCTYPE html><html><head><title>T</title></head><body>" + body + "</body></html>")}
}

// TestRender: scripts run, and their requests go to the Fetcher. Nothing else does, and nothing leaves the browser.
func TestRender(t *testing.T) {
	c := rendertest.Start(t, os.Getenv("CHROMIUM"), "0", Flags())
	b := dialed(t, c)
	if !strings.Contains(b.Product(), "Chrom") {
		t.Errorf("product %q", b.Product())
	}
	limits := testLimits()
	s := &site{files: map[string]*Response{
		"http://a.test/app.js": script(`
fetch("/data.json").then(r => r.json()).then(d => {
  const a = document.createElement("a"); a.href = d.link; a.textContent = "made"; document.body.append(a);
  document.body.append(navigator.userAgent);
  setTimeout(() => location.href = "/elsewhere", 100);
});
for (const name of ["WebSocket", "RTCPeerConnection", "Worker"]) if (globalThis[name]) document.body.append("HAS-" + name);
if (navigator.serviceWorker) document.body.append("HAS-serviceWorker");
open("http://inside.test/popup"); alert(1);
fetch("/posted", {method: "POST", body: "x"}).catch(() => document.body.append("post refused"));
fetch("/moved").then(r => r.text()).then(x => document.body.append(x));`),
		"http://a.test/data.json": {200, http.Header{"Content-Type": {"application/json"}},
			[]byte(`{"link": "made-by-script"}`)},
		"http://a.test/moved":  {302, http.Header{"Location": {"http://a.test/target"}}, nil},
		"http://a.test/target": {200, http.Header{"Content-Type": {"text/plain"}}, []byte("redirect followed")},
	}}
	began := time.Now()
	r, err := b.Render(t.Context(),
		htmlPage(`<script src="/app.js"></script><img src="/i.png"><iframe src="http://b.test/frame"></iframe>
<iframe sandbox="allow-scripts" srcdoc="<script src='http://b.test/in-frame.js'></script>"></iframe>
<link rel=stylesheet href=s.css><link rel=dns-prefetch href=//p.test><link rel=preconnect href=http://p.test><link rel=prefetch href=/next>
<script type=speculationrules>{"prerender":[{"urls":["/pre"]}],"prefetch":[{"urls":["/pre2"]}]}</script>
<script src="ftp://a.test/x.js"></script><form action="/f" method=post id=f></form><a download href=/d id=d>d</a>
<script>f.submit(); d.click()</script>`), s, limits)
	must(t, err)
	t.Logf("%v: asked %d, refused %d", time.Since(began), r.Asked, r.Refused)
	html := string(r.HTML)
	for _, want := range []string{"<!DOCTYPE html>\n<html>", `href="made-by-script"`, "drumbeat/test", "post refused",
		"redirect followed"} {
		if !strings.Contains(html, want) {
			t.Errorf("the DOM lacks %q: %s", want, html)
		}
	}
	if strings.Contains(html, "HAS-") {
		t.Errorf("a way around Fetch is left: %s", html)
	}
	want := []string{"http://a.test/app.js", "http://a.test/data.json", "http://a.test/moved", "http://a.test/target",
		"http://b.test/in-frame.js"}
	if got := s.requests(); !slices.Equal(got, want) || r.Asked != len(want) {
		t.Errorf("requests %q (%d), want %q", got, r.Asked, want)
	}
	if !slices.Contains(r.Went, "http://a.test/elsewhere") || r.Base != "http://a.test/dir/page" || r.End != Quiet {
		t.Errorf("went %q, base %q, end %v", r.Went, r.Base, r.End)
	}
}

// TestRenderLimits: each limit ends a page, whose DOM is taken nevertheless.
func TestRenderLimits(t *testing.T) {
	b := dialed(t, rendertest.Start(t, os.Getenv("CHROMIUM"), "0", Flags()))
	for _, c := range []struct {
		name, body string
		change     func(*Limits)
		end        End
		most       time.Duration
	}{
		{"endless script", `before<script>while (true) {}</script>`, func(l *Limits) { l.Time = time.Second },
			TimeLimit, 15 * time.Second},
		{"endless later script",
			`<p id=p>before</p><script>setTimeout(() => { while (true) p.append("x".repeat(0)) }, 10)</script>`,
			func(l *Limits) { l.Time = time.Second }, TimeLimit, 15 * time.Second},
		{"endless timers", `before<script>setInterval(() => fetch("data:,x"), 10)</script>`,
			func(l *Limits) { l.Time = time.Second; l.Quiet = time.Minute }, TimeLimit, 8 * time.Second},
		{"many requests", `before<script>for (let i = 0; i < 10000; i++) fetch("/r" + i).catch(() => {})</script>`,
			func(*Limits) {}, RequestCut, 20 * time.Second},
		{"many bytes", `before<script src=/big></script><script src=/big2></script>`,
			func(l *Limits) { l.Bytes = 1500 }, ByteLimit, 15 * time.Second},
		{"large DOM", `before<script>document.body.append("x".repeat(1e6))</script>`, func(l *Limits) { l.DOM = 3000 },
			DOMTooLarge, 15 * time.Second},
		{"large message", `before<script>document.title = "x".repeat(4e7)</script>`, func(l *Limits) { l.DOM = 600 },
			DOMTooLarge, 15 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			limits := testLimits()
			c.change(limits)
			s := &site{
				files: map[string]*Response{"http://a.test/big": script("/*" + strings.Repeat("x", 1000) + "*/")}}
			s.files["http://a.test/big2"] = s.files["http://a.test/big"]
			began := time.Now()
			r, err := b.Render(t.Context(), htmlPage(c.body), s, limits)
			must(t, err)
			took := time.Since(began)
			t.Logf("%v, %d requests, %d refused, %d bytes, %v", took, r.Asked, r.Refused, len(r.HTML), r.End)
			if r.End != c.end || took > c.most || r.Asked > limits.Requests || len(r.HTML) > limits.DOM {
				t.Errorf("end %v, want %v, after %v, %d requests, %d bytes", r.End, c.end, took, r.Asked, len(r.HTML))
			}
			if c.end != DOMTooLarge && !strings.Contains(string(r.HTML), "before") {
				t.Errorf("DOM %q", r.HTML)
			}
		})
	}
}

// TestRenderBusy: the time of a script that runs counts even while a request waits; that of the wait does not.
func TestRenderBusy(t *testing.T) {
	b := dialed(t, rendertest.Start(t, os.Getenv("CHROMIUM"), "0", Flags()))
	for body, longest := range map[string]time.Duration{
		`before<script>fetch("/never"); setTimeout(() => { while (true) {} }, 50)</script>`: time.Minute,
		`before<script>fetch("/never")</script>`:                                            4 * time.Second,
	} {
		limits := testLimits()
		limits.Time, limits.Longest = time.Second, longest
		began := time.Now()
		r, err := b.Render(t.Context(), htmlPage(body), &site{hold: make(chan struct{}, 1)}, limits)
		must(t, err)
		if took := time.Since(began); r.End != TimeLimit || !strings.Contains(string(r.HTML), "before") ||
			took > 12*time.Second || longest < time.Minute && took < longest {
			t.Errorf("%s: %v after %v: %s", body, r.End, took, r.HTML)
		}
	}
}

// TestEventBytes: events that wait are bounded in bytes, and what was read makes room.
func TestEventBytes(t *testing.T) {
	tab := newPage(nil, "", "", nil, nil, nil)
	large := event{"Fetch.requestPaused", make([]byte, maxMessage)}
	for range 2 * maxEventBytes / maxMessage {
		tab.note(large)
	}
	if n := len(tab.events); n != maxEventBytes/maxMessage || tab.queued.Load() != maxEventBytes {
		t.Errorf("%d events of %d bytes wait", n, tab.queued.Load())
	}
	select {
	case <-tab.flooded:
	default:
		t.Error("the page goes on without some of its events")
	}
}

// TestRenderPieces: the DOM comes complete, although its pieces end anywhere, also between the halves of a character.
func TestRenderPieces(t *testing.T) {
	b := dialed(t, rendertest.Start(t, os.Getenv("CHROMIUM"), "0", Flags()))
	for _, pad := range []string{"", "x"} {
		limits := testLimits()
		limits.DOM = 4 << 20
		text := pad + strings.Repeat("😀", 3*piece/2) + "end"
		r, err := b.Render(t.Context(), htmlPage(`<p id=p></p><script>p.textContent = "`+pad+`" + "😀".repeat(`+
			fmt.Sprint(3*piece/2)+`) + "end"</script>`), &site{}, limits)
		must(t, err)
		if !strings.Contains(string(r.HTML), `<p id="p">`+text+`</p>`) ||
			!strings.HasSuffix(string(r.HTML), "</html>") || r.End != Quiet {
			t.Errorf("pad %q: %d bytes, %v: %.200q", pad, len(r.HTML), r.End, r.HTML)
		}
	}
}

// TestRenderResources: a page gets stubs for its images and style sheets at once, also for those of scripts, and
// Result names them and its fonts. The Fetcher is not asked for them, nor does a page that never stops asking delay its
// DOM. Media, frames and other schemes are refused.
func TestRenderResources(t *testing.T) {
	b := dialed(t, rendertest.Start(t, os.Getenv("CHROMIUM"), "0", Flags()))
	s := &site{files: map[string]*Response{"http://a.test/app.js": script(`
const note = text => document.body.append(" " + text);
const i = new Image(); i.onload = () => note("image-" + i.naturalWidth); i.onerror = () => note("image-failed");
i.crossOrigin = "anonymous"; i.src = "http://cdn.test/made.png"; document.body.append(i);
const l = document.createElement("link"); l.rel = "stylesheet"; l.href = "/made.css";
l.onload = () => note("sheet-loaded"); l.onerror = () => note("sheet-failed"); document.head.append(l);
let n = 0; setInterval(() => { new Image().src = "/banner.png?" + n++ % 3 }, 20);`)}}
	limits := testLimits()
	limits.Resources, limits.Quiet = 12, 2*time.Second // the stubs come before the DOM is taken
	r, err := b.Render(t.Context(), htmlPage(`<link rel=stylesheet href="s.css"><style>
@font-face { font-family: f; src: url(/f.woff2) } p { font-family: f; background: url(/back.png) }</style><p>text</p>
<picture><source srcset="/wide.webp 1x"><img src="/narrow.png"></picture><img src="/i.png"><img src="/i.png">
<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw="><img src="ftp://a.test/i.png"><video src="/v.mp4"></video>
<audio src="/a.mp3" preload=auto></audio><iframe src="/frame"></iframe><script src="/app.js"></script>`), s, limits)
	must(t, err)
	slices.Sort(r.Resources)
	want := []string{"http://a.test/back.png", "http://a.test/banner.png?0", "http://a.test/banner.png?1",
		"http://a.test/banner.png?2", "http://a.test/dir/s.css", "http://a.test/f.woff2", "http://a.test/i.png",
		"http://a.test/made.css", "http://a.test/wide.webp", "http://cdn.test/made.png"}
	if !slices.Equal(r.Resources, want) || r.ResourcesCut != 0 || r.End != Quiet {
		t.Errorf("resources %q, %d more, end %v; want %q", r.Resources, r.ResourcesCut, r.End, want)
	}
	if got := s.requests(); !slices.Equal(got, []string{"http://a.test/app.js"}) {
		t.Errorf("the Fetcher was asked for %q", got)
	}
	for _, want := range []string{"image-1", "sheet-loaded"} {
		if !strings.Contains(string(r.HTML), want) {
			t.Errorf("the DOM lacks %q: %s", want, r.HTML)
		}
	}
	r, err = b.Render(t.Context(), htmlPage(strings.Repeat(`<img src=/1.png><img src=/2.png>`, 3)+`<script>
for (let i = 0; i < 1000; i++) new Image().src = "/many" + i</script>`), s, limits)
	must(t, err)
	if len(r.Resources) != 12 || r.ResourcesCut == 0 || r.ResourcesCut > 990 || r.End != Quiet {
		t.Errorf("a page of 1,002 images: %d named, %d more, end %v", len(r.Resources), r.ResourcesCut, r.End)
	}
}

// TestRenderFlood: pages that flood the crawler with events, each as large as it can be, take no more RAM than TabRAM
// and RAM say. The collector runs often, so that the heap is what is in use.
func TestRenderFlood(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // the heap is measured, not its garbage
	if os.Getenv("CHROMIUM") == "" {
		t.Skip("CHROMIUM is not set")
	}
	b := dialed(t, rendertest.Start(t, os.Getenv("CHROMIUM"), "0", Flags()))
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	for name, flood := range map[string]string{
		"requests": `const q = "x".repeat(8000); for (let i = 0; i < 20000; i++) fetch("/" + i + ` +
			`q).catch(() => {})`,
		"data": `const q = "data:," + "x".repeat(400000); for (let i = 0; i < 300; i++) fetch(q + ` +
			`i).catch(() => {})`,
		"posts": `const q = "x".repeat(480000); for (let i = 0; i < 300; i++) fetch("/" + i, {method: ` +
			`"POST", body: q}).catch(() => {})`,
		"images": `const q = "x".repeat(8000); for (let i = 0; i < 100000; i++) new Image().src = "/" + i + q`,
		"style sheets": `for (let i = 0; i < 20000; i++) { const l = document.createElement("link"); ` +
			`l.rel = "stylesheet"; l.href = "/" + i; document.head.append(l) }`,
		"huge addresses": `const q = "/?" + "x".repeat(1900000); for (let i = 0; i < 100; i++) fetch(q + ` +
			`i).catch(() => {})`,
	} {
		t.Run(name, func(t *testing.T) {
			limits := testLimits()
			limits.Requests, limits.Resources, limits.Time = 10_000, 10_000, 2*time.Second
			runtime.GC()
			var base, most uint64
			measure := func() uint64 {
				s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
				metrics.Read(s)
				return s[0].Value.Uint64()
			}
			base = measure()
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for ticker := time.NewTicker(time.Millisecond); ; {
					select {
					case <-stop:
						return
					case <-ticker.C:
						most = max(most, measure())
					}
				}
			}()
			r, err := b.Render(t.Context(), htmlPage(`before<script>`+flood+`</script>`), refuser{}, limits)
			close(stop)
			<-stopped
			if err != nil && !errors.Is(err, ErrHung) {
				t.Fatal(err)
			}
			if r == nil {
				r = new(Result)
			}
			t.Logf("%.1f MiB above %.1f MiB; asked %d, refused %d, end %v, %v", float64(most-base)/(1<<20),
				float64(base)/(1<<20), r.Asked, r.Refused, r.End, err)
			bound := RAM + TabRAM + uint64(limits.Bytes) + uint64(limits.DOM)
			if most > base+bound+bound/4 { // with garbage that was not collected yet
				t.Errorf("it took %d bytes, RAM and TabRAM are %d", most-base, RAM+TabRAM)
			}
		})
	}
}

// TestRenderLost: a browser that is killed ends its pages with ErrLost; the next one at its address renders again.
func TestRenderLost(t *testing.T) {
	c := rendertest.Start(t, os.Getenv("CHROMIUM"), "0", Flags())
	b := dialed(t, c)
	s := &site{hold: make(chan struct{})}
	failed := make(chan error)
	for i := range 2 {
		go func() {
			_, err := b.Render(t.Context(), htmlPage(fmt.Sprintf(`<script src=/never%d></script>`, i)), s, testLimits())
			failed <- err
		}()
	}
	<-s.hold
	<-s.hold
	c.Kill()
	for range 2 {
		if err := <-failed; !errors.Is(err, ErrLost) {
			t.Errorf("error %v, want ErrLost", err)
		}
	}
	<-b.Done()
	if _, err := Dial(t.Context(), c.URL); err == nil {
		t.Error("connected to a browser that was killed")
	}
	again := dialed(t,
		rendertest.Start(t, os.Getenv("CHROMIUM"), strings.TrimPrefix(c.URL, "ws://127.0.0.1:"), Flags()))
	if r, err := again.Render(t.Context(), htmlPage("x"), s, testLimits()); err != nil ||
		!strings.Contains(string(r.HTML), "x") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestEndpoint checks the forms of an address.
func TestEndpoint(t *testing.T) {
	for _, good := range []string{"ws://127.0.0.1:9222", "ws://[::1]:9222/",
		"wss://browser.example/devtools/browser/1"} {
		if _, err := ParseEndpoint(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "127.0.0.1:9222", "http://127.0.0.1:9222", "ws://", "ws://u:p@h", "ws://h?x",
		"ws://h#x", "ws://%zz"} {
		if _, err := ParseEndpoint(bad); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
