package e2e

import (
	"os"
	"sync"
	"testing"
)

const (
	maxBytes = 200_000 // transferred by the first visit, without the answers of the API
	maxShift = 0.05    // cumulative layout shift, with late answers; Web Vitals calls up to 0.1 good
)

// overflowScript finds elements that reach beyond the right edge, where nothing scrolls.
const overflowScript = `({
  wide: document.documentElement.scrollWidth, shift: window.__shift, shifts: window.__shifts.slice(0, 8),
  over: [...document.querySelectorAll("main *, header *")]
    .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, .sections, .lines, .hidden, svg"))
    .slice(0, 5).map((e) => e.id || e.className || e.nodeName) })`

// scrollScript visits the whole page, so that panels that load when visible have loaded.
const scrollScript = `(async () => {
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  for (let y = 0; y < document.documentElement.scrollHeight; y += innerHeight * 0.8) {
    scrollTo({ top: y, behavior: "instant" });
    await wait(50);
  }
  scrollTo({ top: 0, behavior: "instant" });
  await wait(200);
  return 0;
})()`

// measure checks what the page did while it loaded.
func (p *page) measure() {
	p.t.Helper()
	var m struct {
		Wide   int
		Shift  float64
		Shifts []string
		Over   []string
	}
	p.run(overflowScript, &m)
	p.mu.Lock()
	bytes := p.bytes
	p.mu.Unlock()
	if m.Wide > p.view.width {
		p.fault("the page is %d pixels wide: %q", m.Wide, m.Over)
	}
	if m.Shift > maxShift {
		p.fault("layout shift %.3f: %q", m.Shift, m.Shifts)
	}
	if bytes > maxBytes || bytes == 0 {
		p.fault("transfers %d bytes, want at most %d", bytes, maxBytes)
	}
	p.t.Logf("%s: %d bytes, shift %.4f %q", p.label, bytes, m.Shift, m.Shifts)
}

// axeText returns axe-core's source, or "" if AXE names no file.
var axeText = sync.OnceValues(func() (string, error) {
	name := os.Getenv("AXE")
	if name == "" {
		return "", nil
	}
	data, err := os.ReadFile(name)
	return string(data), err
})

// axeScript is the rest of an expression that begins with "axe.run(", an element and a comma.
const axeScript = `{ resultTypes: ["violations"] }).then((r) => r.violations.map((v) => ({
  impact: v.impact, text: v.id + ": " + v.help,
  nodes: v.nodes.slice(0, 4).map((n) => n.target.join(" ") + " (" + (n.any[0]?.message || n.all[0]?.message || "") + ")") })))`

// axe checks the element of an expression with axe-core. Without that, it does nothing.
func (p *page) axe(expression string) {
	p.t.Helper()
	text, err := axeText()
	if err != nil {
		p.t.Fatalf("AXE: %v", err)
	}
	if text == "" {
		return
	}
	var loaded bool
	p.run("Boolean(window.axe)", &loaded)
	if !loaded {
		p.run(text+";0", nil)
	}
	var found []struct {
		Impact, Text string
		Nodes        []string
	}
	p.run("axe.run("+expression+", "+axeScript, &found)
	for _, f := range found {
		if f.Impact == "serious" || f.Impact == "critical" {
			p.fault("axe: %s: %s %q", f.Impact, f.Text, f.Nodes)
		} else {
			p.t.Logf("%s: axe: %s: %s %q", p.label, f.Impact, f.Text, f.Nodes)
		}
	}
}

// sayAxe says whether axe-core is used.
func sayAxe(t *testing.T) {
	t.Helper()
	if text, err := axeText(); err == nil && text == "" {
		t.Log("axe-core is left out: AXE names no file axe.min.js")
	}
}
