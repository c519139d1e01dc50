package e2e

import (
	"context"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var themes = []string{"light", "dark"}

// serveMock serves the made-up crawls.
func serveMock(t *testing.T) (url string) {
	t.Helper()
	s := httptest.NewServer(mockHandler())
	t.Cleanup(func() {
		s.CloseClientConnections() // event streams last
		s.Close()
	})
	return s.URL
}

// TestAppearance looks at made-up crawls: on all screens when all is healthy, and on a phone and a laptop when not.
func TestAppearance(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	c := startChromium(t)
	sayAxe(t)
	base := serveMock(t)
	for _, look := range []struct {
		scenario string
		views    []view
		themes   []string
	}{
		{"healthy", []view{phone, laptop, wall}, themes},
		{"trouble", []view{phone, laptop}, themes[:1]},
		{"new", []view{laptop}, themes[:1]},
		{"finished", []view{phone, laptop}, themes[1:]},
	} {
		for _, v := range look.views {
			for _, theme := range look.themes {
				p := inspect(ctx, t, c, v, theme, look.scenario, base+"/"+look.scenario+"/")
				if look.scenario == "healthy" && v == laptop {
					p.dialogs()
					p.stale()
				}
				p.close()
			}
		}
	}
}

// TestClusterPage looks at the page about all nodes: what each does, the networks they visit in turn, a node
// that was abandoned, and one that is silent.
func TestClusterPage(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	c := startChromium(t)
	base := serveMock(t)
	for _, look := range []struct {
		scenario, shows string
		view            view
		theme           string
	}{
		{"healthy", "Node 3 was abandoned", phone, "dark"},
		{"healthy", "Node 3 was abandoned", laptop, "light"},
		{"trouble", "Node 2 has not reported", laptop, "dark"},
	} {
		p := open(ctx, t, c, look.view, look.theme, "cluster-"+look.scenario, base+"/"+look.scenario+"/cluster")
		p.until("the page shows the nodes", "document.querySelectorAll('#nodes tr').length === 4")
		p.until("the page shows the sums", "document.querySelector('#sum tr').cells.length === 12 && "+
			"document.querySelector('#sum').textContent.replace(/\\s/g, '').includes('90600000')")
		p.until("the page says: "+look.shows, "document.querySelector('#cluster-text').textContent.includes("+
			quote(look.shows)+")")
		p.until("the page shows leases",
			"!document.querySelector('#all').hidden && document.querySelectorAll('#leases tr').length === 3")
		p.until("the page shows the links", "document.querySelectorAll('#links li').length >= 5")
		p.until("the page shows the pairs", "document.querySelectorAll('#pairs tr').length === 3")
		if look.scenario == "trouble" {
			p.until("a node rests", "document.querySelector('#leases .badge').textContent === 'yes'")
			p.until("the broker is away",
				"document.querySelector('#broker-text').textContent.includes('Without the broker')")
		} else {
			p.until("a node was abandoned",
				"document.querySelector('#nodes tr:last-child .badge').textContent === 'abandoned'")
		}
		p.save("-page", true)
		p.measure()
		p.axe("document")
		p.close()
	}
}

// TestClusterPageOfOneNode: the page of a crawl of one node says so, and asks for nothing that is not there.
func TestClusterPageOfOneNode(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	p := open(ctx, t, startChromium(t), laptop, "light", "cluster-one", serveMock(t)+"/new/cluster")
	p.until("the page says so",
		"document.querySelector('#cluster-text').textContent.startsWith('This crawl has one node')")
	p.save("", false)
	p.close()
}

// TestTabs: the first click on a tab lands on its section and marks it, before panels above have filled and
// while the network is slow; on a phone it unfolds the section.
func TestTabs(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	c := startChromium(t)
	base := serveMock(t)
	for _, v := range []view{laptop, phone} {
		for _, name := range []string{"controls", "structures", "sites"} {
			p := open(ctx, t, c, v, "light", "tab-"+name, base+"/healthy/")
			p.click(element(`.sections a[href="#` + name + `"]`))
			p.until("the crawl's numbers are there", "document.querySelector('#plds tr:nth-child(9)')")
			p.until("the page has settled", "performance.now() > 2500")
			var at struct {
				Gap, Room float64 // below the header; of the page below the screen
				Current   string
				Folded    bool
			}
			p.run(`(() => { const s = document.querySelector("#`+name+`"); return {
  gap: s.getBoundingClientRect().top - document.querySelector(".top").getBoundingClientRect().bottom,
  room: document.documentElement.scrollHeight - innerHeight - scrollY, folded: "folded" in s.dataset,
  current: document.querySelector(".sections a[aria-current]").hash }; })()`, &at)
			if (at.Gap < 0 || at.Gap > 40) && at.Room > 2 || at.Current != "#"+name || at.Folded {
				t.Errorf("%s: %+v", p.label, at)
			}
			p.save("", false)
			p.close()
		}
	}
}

// inspect opens a page, measures it, scrolls through it and checks it with axe-core.
func inspect(ctx context.Context, t *testing.T, c *chromium, v view, theme, label, url string) *page {
	t.Helper()
	p := open(ctx, t, c, v, theme, label, url)
	p.until("the page is connected", "document.querySelector('#fresh').dataset.level === 'ok' || "+
		"document.querySelector('#fresh-text').textContent === 'Finished'")
	p.until("the page shows the connections", "document.querySelector('#slots-legend li')")
	p.until("the page has settled", "performance.now() > 2000")
	p.save("", false)
	p.measure()
	p.run(scrollScript, nil)
	p.show("#changes")
	p.until("the page shows the changes", "document.querySelector('#changes tr')")
	p.show("body")
	p.save("-page", true)
	if v == phone { // and with all sections unfolded
		p.run("document.querySelectorAll('[data-folded] .fold').forEach((b) => b.click()), 0", nil)
		p.run(scrollScript, nil)
		p.save("-open", true)
	}
	if v != wall { // its elements are those of a laptop
		p.axe("document")
	}
	return p
}

// dialogs opens each kind of dialog and checks it.
func (p *page) dialogs() {
	p.t.Helper()
	for _, kind := range []string{"help", "question", "explain"} {
		switch kind {
		case "help":
			p.run("document.activeElement.blur(), 0", nil)
			p.press("?", 191)
		case "question":
			p.click(element("#control-cards button"))
		case "explain":
			p.enter(element("#asked"), "host.invalid")
			p.press("Enter", 13)
			p.until("the answer begins with a sentence", "document.querySelector('dialog[open] .answer .lead')")
		}
		p.until("a dialog opens: "+kind, "document.querySelector('dialog[open]')")
		p.save("-"+kind, false)
		p.axe(element("dialog[open]"))
		p.press("Escape", 27)
		p.until("Escape closes the dialog: "+kind, "!document.querySelector('dialog[open]')")
	}
}

// stale cuts the connection: numbers are marked, and follow again afterwards.
func (p *page) stale() {
	p.t.Helper()
	p.tolerate(`ERR_INTERNET_DISCONNECTED|ERR_NETWORK`)
	p.network(true)
	p.wait("old numbers are marked", 6*time.Second, func() bool {
		var hidden bool
		p.run("document.querySelector('#stale').hidden", &hidden)
		return !hidden
	})
	p.save("-stale", false)
	p.axe(element("#stale"))
	p.network(false)
	p.until("the page is connected again", "document.querySelector('#stale').hidden")
	p.tolerate("")
}

// TestModules runs the functions that write numbers and derive rates, with cases from testdata/modules.js.
func TestModules(t *testing.T) {
	t.Parallel()
	cases, err := os.ReadFile("testdata/modules.js")
	if err != nil {
		t.Fatal(err)
	}
	c := startChromium(t)
	p := open(within(t), t, c, laptop, "light", "modules", serveMock(t)+"/healthy/")
	var result struct {
		Cases int
		Wrong []string
	}
	p.run(string(cases), &result)
	for _, w := range result.Wrong {
		t.Error(w)
	}
	if result.Cases < 50 {
		t.Errorf("%d cases, want 50 or more", result.Cases)
	}
	p.close()
	seesFaults(t, c)
}

// seesFaults: an error in the console, an exception, a breach of the policy, a missing file and a page that is
// too wide are faults.
func seesFaults(t *testing.T, c *chromium) {
	t.Helper()
	p := open(within(t), t, c, phone, "dark", "faults", serveMock(t)+"/new/")
	p.until("the page shows the changes", "document.querySelector('#fresh').dataset.level === 'ok'")
	p.run(`console.error("a word");
setTimeout(() => { throw new Error("thrown"); });
const script = document.createElement("script");
script.textContent = "1";
document.body.append(script);
fetch("missing");
const wide = document.createElement("div");
wide.style.width = "500px";
wide.textContent = "wide";
document.querySelector("main").append(wide);
0`, nil)
	for _, want := range []string{"a word", "thrown", "policy: script-src", "404", "pixels wide"} {
		p.wait("the fault: "+want, 10*time.Second, func() bool {
			if strings.Contains(want, "wide") {
				p.measure()
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			return slices.ContainsFunc(p.faults, func(f string) bool { return strings.Contains(f, want) })
		})
	}
	p.faults = nil
	p.close()
}
