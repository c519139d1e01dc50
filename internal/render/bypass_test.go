package render

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/internal/render/rendertest"
)

// target is a site on loopback that records who comes: by TCP, with the first line sent, and by UDP.
type target struct {
	port string
	mu   sync.Mutex
	ours map[string]bool   // local addresses of our fetcher
	came map[string]string // first line by remote address
	udp  []string
}

func newTarget(t *testing.T) *target {
	t.Helper()
	g := &target{ours: map[string]bool{}, came: map[string]string{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_, g.port, _ = net.SplitHostPort(l.Addr().String())
	u, err := net.ListenPacket("udp", "127.0.0.1:"+g.port)
	must(t, err)
	t.Cleanup(func() { _, _ = l.Close(), u.Close() })
	go func() {
		for buf := make([]byte, 2000); ; {
			n, from, err := u.ReadFrom(buf)
			if err != nil {
				return
			}
			g.mu.Lock()
			g.udp = append(g.udp, fmt.Sprintf("%v %.20q", from, buf[:n]))
			g.mu.Unlock()
		}
	}()
	server := &http.Server{Handler: g, ConnState: func(c net.Conn, s http.ConnState) {
		if s == http.StateNew {
			g.note(c.RemoteAddr().String(), "(nothing)")
		}
	}}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return g
}

func (g *target) note(from, what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if old := g.came[from]; old == "" || old == "(nothing)" {
		g.came[from] = what
	} else {
		g.came[from] += ", " + what
	}
}

func (g *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.note(r.RemoteAddr, r.Method+" "+r.Host+r.RequestURI)
	w.Header().Set("Access-Control-Allow-Origin", "*")
	switch {
	case strings.HasSuffix(r.URL.Path, ".js"):
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = io.WriteString(w, "self.ran = true; try { document.title += 'x' } catch {}")
	case strings.HasSuffix(r.URL.Path, ".html"):
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<script>fetch('/from-frame')</script>")
	case r.URL.Path == "/page":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, strings.ReplaceAll(everything, "PORT", g.port))
	}
}

// Fetch implements Fetcher: it alone may reach the target.
func (g *target) Fetch(ctx context.Context, url string) (*Response, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+g.port)
			if err == nil {
				g.mu.Lock()
				g.ours[c.LocalAddr().String()] = true
				g.mu.Unlock()
			}
			return c, err
		}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return &Response{resp.StatusCode, resp.Header, body}, err
}

// strangers returns what came to the target from others than our fetcher.
func (g *target) strangers() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := slices.Clone(g.udp)
	for from, what := range g.came {
		if !g.ours[from] {
			list = append(list, what)
		}
	}
	slices.Sort(list)
	return list
}

// everything is a page that tries all ways out of a browser that we know of. PORT is the target's.
const everything = `<!DOCTYPE html><html><head><title>T</title>
<meta http-equiv="Content-Security-Policy" content="style-src 'self' http://h1.test:PORT 'unsafe-inline'">
<link rel=icon href=http://h2.test:PORT/favicon.png>
<link rel=stylesheet href=http://h1.test:PORT/sheet.css>
<link rel=preload as=script href=http://h3.test:PORT/preload.js>
<link rel=modulepreload href=http://h3.test:PORT/module.js>
<link rel=prefetch href=http://h4.test:PORT/prefetch.html>
<link rel=prerender href=/prerender.html>
<link rel=dns-prefetch href=http://h5.test:PORT>
<link rel=preconnect href=http://h6.test:PORT>
<link rel=preconnect href=https://h6.test:PORT>
<link rel=preconnect href=http://127.0.0.1:PORT crossorigin>
<link rel=manifest href=/manifest.json>
<script type=speculationrules>{"prerender":[{"urls":["/rules-prerender.html"],"eagerness":"immediate"}],
"prefetch":[{"urls":["/rules-prefetch.html","http://h7.test:PORT/rules-prefetch.html"],"eagerness":"immediate"}]}</script>
<style>@font-face { font-family: f; src: url(http://h8.test:PORT/font.woff2) } p { font-family: f; background: url(/background.png) }
@import url(http://h1.test:PORT/import.css);</style>
</head><body><p>text</p>
<img src=/image.png><img src=http://h9.test:PORT/image.png><img srcset="/set.png 1x" loading=eager>
<script src=/script.js></script><script src=http://h10.test:PORT/script.js></script><script type=module src=/module.js></script>
<iframe src=/frame.html></iframe><iframe src=http://h11.test:PORT/frame.html></iframe>
<iframe src="data:text/html,<script src=http://h12.test:PORT/in-data.js></script><img src=http://h12.test:PORT/in-data.png>"></iframe>
<iframe srcdoc="<img src=/srcdoc.png><script src=/srcdoc.js></script><script>fetch('/srcdoc-fetch'); new WebSocket('ws://127.0.0.1:PORT/srcdoc-socket')</script>"></iframe>
<iframe sandbox="allow-scripts" srcdoc="<img src=http://127.0.0.1:PORT/sandbox.png><script>fetch('http://127.0.0.1:PORT/sandbox'); new WebSocket('ws://127.0.0.1:PORT/sandbox-socket')</script><script>const c = new RTCPeerConnection({iceServers: [{urls: 'stun:127.0.0.1:PORT'}]}); c.createDataChannel('d'); c.createOffer().then(o => c.setLocalDescription(o))</script>"></iframe>
<object data=/object.bin></object><embed src=/embed.bin>
<video src=/video.mp4 poster=/poster.png autoplay muted></video><audio src=http://h13.test:PORT/audio.mp3 preload=auto></audio>
<a id=ping href="#x" ping="/ping http://h14.test:PORT/ping">p</a><a id=download download href=/download.bin>d</a>
<form id=form action=/form method=post target=_blank><input name=a></form><iframe name=inner></iframe><form id=form2 action=/form2 target=inner></form>
<svg><image href=/svg.png /><use href=/svg.svg#a /></svg>
<script>
const here = "http://127.0.0.1:PORT", tries = [
  () => new WebSocket("ws://127.0.0.1:PORT/socket"), () => new WebSocket("ws://h15.test:PORT/socket"), () => new WebSocket("wss://h15.test:PORT/socket"),
  () => new WebSocketStream("ws://127.0.0.1:PORT/stream"),
  () => new EventSource("/events"),
  () => { const t = new WebTransport("https://127.0.0.1:PORT/transport"); t.ready.catch(() => {}); t.closed.catch(() => {}) },
  () => { const t = new WebTransport("https://h16.test:PORT/transport"); t.ready.catch(() => {}); t.closed.catch(() => {}) },
  () => navigator.sendBeacon("/beacon", "x"), () => navigator.sendBeacon("http://h17.test:PORT/beacon", "x"),
  () => fetch("/fetch"), () => fetch("/keepalive", {keepalive: true}), () => fetch("/post", {method: "POST", body: "x"}),
  () => fetch("http://h18.test:PORT/preflight", {headers: {"X-Own": "1"}}), () => fetchLater("/later", {activateAfter: 0}),
  () => { const x = new XMLHttpRequest(); x.open("GET", "/xhr"); x.send() },
  () => new Worker("/worker.js"), () => new SharedWorker("/shared.js"),
  () => new Worker(URL.createObjectURL(new Blob(["fetch('http://127.0.0.1:PORT/blob-worker'); importScripts('http://127.0.0.1:PORT/blob-import.js'); new WebSocket('ws://127.0.0.1:PORT/worker-socket')"]))),
  () => new Worker("data:text/javascript,fetch('http://127.0.0.1:PORT/data-worker')"),
  () => navigator.serviceWorker.register("/service.js"),
  () => import("/import.js"), () => CSS.paintWorklet.addModule("/paint.js"), () => new AudioContext().audioWorklet.addModule("/audio.js"),
  () => open("/popup.html"), () => open("http://h19.test:PORT/popup.html"), () => open("about:blank").location = "/late-popup.html",
  () => ping.click(), () => download.click(), () => form.submit(), () => form2.submit(),
  () => { const i = new Image(); i.src = "http://h20.test:PORT/made.png" },
  () => { const l = document.createElement("link"); l.rel = "preconnect"; l.href = "http://h21.test:PORT"; document.head.append(l) },
  () => { const f = document.createElement("iframe"); document.body.append(f); const w = f.contentWindow; new w.WebSocket("ws://127.0.0.1:PORT/empty-socket") },
  () => { const f = document.createElement("iframe"); document.body.append(f); const w = f.contentWindow; w.navigator.sendBeacon("http://127.0.0.1:PORT/empty-beacon", "x") },
  () => { const f = document.createElement("iframe"); document.body.append(f); webrtc(f.contentWindow) },
  () => webrtc(window),
  () => { const s = document.createElement("iframe"); s.src = "javascript:fetch('/javascript')"; document.body.append(s) },
  () => location.href = "ftp://127.0.0.1:PORT/", () => location.href = "http://h22.test:PORT/left.html",
  () => new NotRestoredReasons(), () => navigator.registerProtocolHandler("web+x", here + "/%s"),
  () => document.requestStorageAccess(), () => navigator.credentials.get({identity: {providers: [{configURL: here + "/fedcm.json", clientId: "x"}]}}).catch(() => {}),
  () => navigator.joinAdInterestGroup({owner: here, name: "x", biddingLogicURL: here + "/bid.js"}, 1000),
  () => sharedStorage.worklet.addModule("/shared-storage.js"), () => caches.open("c").then(c => c.add("/cache")),
];
function webrtc(w) {
  const c = new w.RTCPeerConnection({iceServers: [{urls: ["stun:127.0.0.1:PORT", "stun:h23.test:PORT"]},
    {urls: ["turn:127.0.0.1:PORT?transport=tcp", "turn:127.0.0.1:PORT"], username: "u", credential: "p"}]});
  c.createDataChannel("d");
  c.createOffer().then(o => c.setLocalDescription(o));
}
for (const t of tries) try { const p = t(); if (p && p.catch) p.catch(() => {}) } catch {}
</script></body></html>`

// proxyLog listens in place of the dead proxy, and notes what was tried there.
type proxyLog struct {
	mu    sync.Mutex
	tried map[string]int
}

func newProxyLog(t *testing.T) (*proxyLog, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	p := &proxyLog{tried: map[string]int{}}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
				line, _ := bufio.NewReader(conn).ReadString('\n')
				p.mu.Lock()
				defer p.mu.Unlock()
				p.tried[cmp.Or(strings.TrimSuffix(strings.TrimSpace(line), " HTTP/1.1"), "(nothing)")]++
			}()
		}
	}()
	return p, "http://" + l.Addr().String()
}

func (p *proxyLog) list() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.tried))
}

// TestRenderBypass: a page that tries everything reaches a site by the Fetcher alone, also without guard.
// What Fetch does not stop ends at the dead proxy. Chromium's own log of its network has no other connection,
// datagram or lookup.
func TestRenderBypass(t *testing.T) {
	netlog := t.TempDir() + "/net.json"
	b := dialed(t, rendertest.Start(t, os.Getenv("CHROMIUM"), "0", append(Flags(), "--log-net-log="+netlog)))
	allowed := []string{strings.TrimPrefix(deadProxy, "http://")}
	for _, bare := range []bool{false, true} {
		g := newTarget(t)
		tried, proxy := newProxyLog(t)
		allowed = append(allowed, strings.TrimPrefix(proxy, "http://"))
		limits := testLimits()
		limits.Proxy, limits.bare, limits.Quiet, limits.Time, limits.Requests = proxy, bare, 3*time.Second,
			20*time.Second, 100
		limits.Resources = 100 // with them the policy forbids less
		r, err := b.Render(t.Context(), &Page{URL: "http://127.0.0.1:" + g.port + "/page",
			Header: http.Header{"Content-Type": {"text/html; charset=utf-8"},
				"Content-Security-Policy": {"font-src 'none'; report-uri http://127.0.0.1:" + g.port + "/csp-report"}},
			Body: []byte(strings.ReplaceAll(everything, "PORT", g.port))}, g, limits)
		must(t, err)
		t.Logf("without guard %v: %d requests to the Fetcher, %d refused, to the dead proxy %q", bare, r.Asked,
			r.Refused, tried.list())
		if came := g.strangers(); len(came) > 0 || r.Asked < 5 || len(r.Resources) < 5 {
			t.Errorf("without guard %v: %d requests, %d resources, and past the Fetcher came %q", bare, r.Asked,
				len(r.Resources), came)
		}
		for _, line := range tried.list() {
			for _, closed := range []string{"socket", "stream", "sandbox", "worker", "beacon", "turn"} {
				if strings.Contains(line, closed) {
					t.Errorf("without guard %v: Fetch did not stop %s", bare, line)
				}
			}
		}
	}
	if _, err := b.send("", "Browser.close", nil, nil); err != nil { // it completes its log
		t.Fatal(err)
	}
	<-b.Done()
	for _, what := range netLog(t, netlog) {
		event, at, _ := strings.Cut(what, " ")
		switch {
		case event == "TCP_CONNECT_ATTEMPT" && slices.Contains(allowed, at):
		// Need no DNS.
		case event == "HOST_RESOLVER_MANAGER_REQUEST" && (at == "~notfound" || strings.HasPrefix(at, "127.0.0.1:")):
		default:
			t.Errorf("Chromium: %s", what)
		}
	}
}

// TestRenderBypassControl: without flags, proxy and Fetch, the same page reaches the site in all of these
// ways, which so do not escape newTarget.
func TestRenderBypassControl(t *testing.T) {
	c := rendertest.Start(t, os.Getenv("CHROMIUM"), "0",
		[]string{"--host-resolver-rules=MAP * 127.0.0.1", "--disable-background-networking"})
	b, err := connect(t.Context(), c.URL)
	must(t, err)
	t.Cleanup(b.Close)
	g := newTarget(t)
	if err := b.call(t.Context(), "", "Target.createTarget", object{"url": "http://127.0.0.1:" + g.port + "/page"},
		nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"/image.png", "/script.js", "/frame.html", "/from-frame", "/socket", "/sandbox-socket",
		"/empty-socket", "/worker.js", "/service.js", "/rules-prefetch.html", "/beacon", "/ping", "/manifest.json",
		"/video.mp4", "/events", "/download.bin", "/xhr", `"\x00\x01\x00\x00!\x12`} // STUN
	var came string
	for began := time.Now(); len(want) > 0 && time.Since(began) < time.Minute; <-time.After(50 * time.Millisecond) {
		came = strings.Join(g.strangers(), " ")
		want = slices.DeleteFunc(want, func(s string) bool { return strings.Contains(came, s) })
	}
	if len(want) > 0 {
		t.Errorf("%q did not come, but %s", want, came)
	}
}

// netLog returns the addresses to which a log of Chromium has connections or datagrams, and the names looked up. A
// socket that is only connected to test for IPv6 sends nothing, so UDP counts by what was sent.
func netLog(t *testing.T, name string) (found []string) {
	t.Helper()
	var log struct {
		Constants struct{ LogEventTypes map[string]int }
		Events    []struct {
			Type   int
			Params struct{ Host, Address string }
		}
	}
	var err error
	for range 100 { // the last lines come when the process ends
		var data []byte
		if data, err = os.ReadFile(name); err == nil {
			if err = json.Unmarshal(data, &log); err == nil {
				break
			}
		}
		<-time.After(50 * time.Millisecond)
	}
	if err != nil || len(log.Events) == 0 {
		t.Fatalf("the log of Chromium: %v, %d events", err, len(log.Events))
	}
	names := map[int]string{}
	for _, name := range []string{"TCP_CONNECT_ATTEMPT", "UDP_BYTES_SENT", "HOST_RESOLVER_MANAGER_REQUEST"} {
		n, ok := log.Constants.LogEventTypes[name]
		if !ok {
			t.Fatalf("the log of Chromium has no %s", name)
		}
		names[n] = name
	}
	for _, e := range log.Events {
		_, host, ok := strings.Cut(e.Params.Host, "://")
		if !ok {
			host = e.Params.Host
		}
		if at := cmp.Or(host, e.Params.Address); names[e.Type] != "" && at != "" {
			found = append(found, names[e.Type]+" "+at)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// TestRenderFlags: a browser without the fences is not used. docs/how-it-works/rendering.md has them all.
func TestRenderFlags(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-it-works/rendering.md")
	must(t, err)
	for _, f := range Flags() {
		if !strings.Contains(string(page), " "+f) && !strings.Contains(string(page), " '"+f+"'") {
			t.Errorf("docs/how-it-works/rendering.md lacks %s", f)
		}
	}
	if missing := missingFlags(append([]string{"chromium", "about:blank"}, Flags()...)); len(missing) > 0 {
		t.Errorf("missing %q", missing)
	}
	for i, f := range Flags() {
		name, _, _ := strings.Cut(f, "=")
		for _, line := range [][]string{slices.Delete(Flags(), i, i+1), append(Flags(), name+"=other")} {
			if missing := missingFlags(line); len(missing) != 1 || missing[0] != fmt.Sprintf("%q", f) {
				t.Errorf("%q: missing %q", line, missing)
			}
		}
	}
	if missing := missingFlags(append(Flags(), "--disable-features=Other,IsolateSandboxedIframes")); len(missing) > 0 {
		t.Errorf("missing %q", missing)
	}
	for _, flags := range [][]string{nil, Flags()[1:]} { // the first does not tell them
		c := rendertest.Start(t, os.Getenv("CHROMIUM"), "0", flags)
		if _, err := Dial(t.Context(), c.URL); err == nil || !strings.Contains(err.Error(), fences[0]) {
			t.Errorf("flags %q: %v", flags, err)
		}
	}
}
