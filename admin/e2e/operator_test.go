package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/cmd/term"
)

// stopsWithin is the longest time from a confirmed pause to the last request that the servers receive.
const stopsWithin = 2 * time.Second

// TestOperator acts on a demo through the page alone, and compares with the log of the demo's servers: the
// numbers move; a pause stops the requests, survives SIGKILL and a restart, and ends by Resume; a blocked PLD
// gets no more requests, and its queued URLs are refused and counted; a URL is explained; Stop ends the
// process.
func TestOperator(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	c := startChromium(t)
	sayAxe(t)
	d := buildDemo(ctx, t)
	d.start(ctx)
	p := open(ctx, t, c, laptop, "light", "operator", d.url())
	numbersMove(d, p)
	pause(d, p)
	surviveKill(d, p)
	resume(d, p)
	pld := block(d, p)
	explainFetched(d, p, pld)
	explainBlocked(p, pld)
	p.save("-end", true)
	p.check()
	stop(d, p)
}

// numbersMove waits for two changes of the page's numbers, which agree with the servers' log, and until requests
// come in each second.
func numbersMove(d *demo, p *page) {
	p.t.Helper()
	p.until("the page is connected", "document.querySelector('#fresh').dataset.level === 'ok'")
	fetched := func() int { return p.number(`document.querySelector("#t-fetched").title`) }
	first := 0
	p.wait("pages are fetched", 30*time.Second, func() bool { first = fetched(); return first > 500 })
	second := first
	p.wait("the number of pages grows", 10*time.Second, func() bool { second = fetched(); return second > first })
	p.wait("the number of pages grows again", 10*time.Second, func() bool { return fetched() > second })
	if shown, all := fetched(), len(d.requests()); shown > all || shown < all/2 {
		p.t.Errorf("the page shows %d pages, but the servers received %d requests", shown, all)
	}
	p.until("the page shows a speed", "parseFloat(document.querySelector('#t-pages').textContent) > 0")
	p.save("-running", false)
}

// confirm presses the button of the open question.
func confirm(p *page, words string) {
	p.t.Helper()
	p.click(button("dialog.question[open]", words))
}

// enterToken fills in the dialog that asks for the token.
func enterToken(p *page, token string) {
	p.t.Helper()
	p.click(element("dialog[open] input[type=password]"))
	p.write(token)
	p.click(button("dialog[open]", "Use this token"))
}

// pause presses Pause, gives a wrong and then the right token, and checks that the requests end.
func pause(d *demo, p *page) {
	p.t.Helper()
	p.click(button("#control-cards", "Pause"))
	p.until("the page shows the limits in force", `[...document.querySelectorAll("#control-cards .sub")].some((e) =>
  e.textContent === "In force: requests per second: none; bandwidth: none; connections: 100.")`)
	p.save("-question", false)
	p.axe(element("dialog[open]"))
	confirm(p, "Pause")
	p.until("the page asks for the token", "document.querySelector('dialog[open] input[type=password]')")
	var gap float64
	p.run("((d) => d.querySelector('.buttons').getBoundingClientRect().top - "+
		"d.querySelector('input').getBoundingClientRect().bottom)"+
		"(document.querySelector('dialog[open] input[type=password]').closest('dialog'))", &gap)
	if gap < 8 {
		p.t.Errorf("the button is %.0f pixels below the field of the token, want 8 or more", gap)
	}
	p.save("-token", false)
	p.axe("document")          // with both dialogs
	p.tolerate(`api/v1/pause`) // Chromium logs the answer 401
	enterToken(p, strings.Repeat("0", len(d.token())))
	p.until("the page says that the token is wrong", "document.querySelector('dialog[open] "+
		"input[type=password]')?.closest('dialog').textContent.includes('is not valid')")
	p.save("-wrong-token", false)
	pressed := time.Now()
	enterToken(p, d.token())
	if n := len(after(d.requests(), pressed.Add(-time.Second))); n < 20 {
		p.t.Errorf("only %d requests came in the second before the pause: the test shows little", n)
	}
	p.until("the page says that the crawl is paused", "document.querySelector('#state').textContent === 'paused'")
	p.until("the dialogs are closed", "!document.querySelector('dialog[open]')")
	p.tolerate("")
	last := d.quiet(p)
	if late := last.Sub(pressed); late > stopsWithin {
		p.t.Errorf("the last request came %v after the pause", late)
	} else {
		p.t.Logf("the last request came %v after the pause", late)
	}
	p.until("the list of changes has the pause",
		"[...document.querySelectorAll('#changes tr')].some((r) => r.textContent.includes('Paused'))")
	p.save("-paused", false)
}

// surviveKill kills the paused process and starts it again: page and servers show that it is still paused.
func surviveKill(d *demo, p *page) {
	p.t.Helper()
	before := len(d.requests())
	p.tolerate(`ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY`) // Chromium logs what it cannot load
	d.kill()
	p.until("the page says that its numbers are old", "!document.querySelector('#stale').hidden")
	p.save("-killed", false)
	p.axe(element("#stale"))
	d.start(p.ctx)
	p.until("the page is connected again", "document.querySelector('#stale').hidden")
	p.until("the page shows the new process",
		"document.querySelector('#about').textContent.includes('process "+itoa(d.cmd.Process.Pid)+" ')")
	p.tolerate("")
	p.until("the page shows the pause", "document.querySelector('#state').textContent === 'paused'")
	d.quiet(p)
	if after := len(d.requests()); after != before {
		p.t.Errorf("the servers received %d requests after the restart of a paused crawl", after-before)
	}
}

// resume ends the pause. The page still has the token of the process that was killed, so it asks for the new one.
func resume(d *demo, p *page) {
	p.t.Helper()
	p.click(button("#control-cards", "Resume"))
	p.tolerate(`api/v1/resume`) // Chromium logs the answer 401
	confirm(p, "Resume")
	p.until("the page asks for the new token", "document.querySelector('dialog[open] input[type=password]')")
	enterToken(p, d.token())
	p.until("the dialogs are closed again", "!document.querySelector('dialog[open]')")
	p.tolerate("")
	d.flows(p, 100)
	p.until("the page shows that the crawl runs", "document.querySelector('#state').textContent === 'running'")
}

// block blocks the first PLD of the page's list: it gets no more requests, the URLs of its busiest
// host leave RAM, and become refusals. Meanwhile the page is opened on other screens.
func block(d *demo, p *page) (pld string) {
	p.t.Helper()
	p.click(element("#plds"))
	p.click(button("#pld-sort", "Pages"))
	p.until("the page has a list of PLDs", "document.querySelector('#plds button.link')")
	pld = p.text("#plds button.link")
	host, before := busiest(d.requests(), pld), 0
	p.wait(host+" has URLs in RAM", 30*time.Second, func() bool { before = d.inRAM(p, host); return before >= 10 })
	p.run("document.querySelector('#control-cards select[name=kind]').focus(), 0", nil)
	p.press("p", 'P') // PLD
	p.until("the kind is PLD", "document.querySelector('#control-cards select[name=kind]').value === 'pld'")
	p.enter(element("#control-cards input[name=value]"), pld)
	p.click("document.querySelector('#control-cards input[name=value]').form.querySelector('.buttons button')")
	confirm(p, "Block")
	p.until("the page lists the block",
		"[...document.querySelectorAll('#control-cards .inforce li')].some((e) => e.textContent.includes("+
			quote("pld "+pld)+"))")
	blocked := time.Now()
	refused := func() int {
		return p.number(
			`[...document.querySelectorAll("#refused li")].find((e) => e.textContent.startsWith("blacklisted"))` +
				`?.querySelector("b")?.title`)
	}
	p.wait("queued URLs of the blocked PLD are refused", 30*time.Second, func() bool { return refused() > 0 })
	p.save("-blocked", true)
	for _, v := range []view{phone, laptop} { // while the queue drains
		for _, theme := range themes {
			inspect(p.ctx, p.t, p.c, v, theme, "demo", d.url()).close()
		}
	}
	p.wait("the queue of "+host+" drains", time.Minute, func() bool { return d.inRAM(p, host) == 0 })
	if n := refused(); n < before/2 {
		p.t.Errorf("%d URLs were refused, but %s alone had %d in RAM", n, host, before)
	}
	d.flows(p, 100)
	list := after(d.requests(), blocked.Add(stopsWithin))
	for _, r := range list {
		if inPLD(r.url.Hostname(), pld) {
			p.t.Errorf("%s was requested %v after the block of %s", r.text, r.at.Sub(blocked), pld)
		}
	}
	p.t.Logf("blocked %s: %d URLs refused, those of %s within %v; %d requests to others since", pld, refused(), host,
		time.Since(blocked).Round(time.Second), len(list))
	return pld
}

// busiest returns the host of the PLD with the most requests.
func busiest(list []request, pld string) (host string) {
	counts := map[string]int{}
	for _, r := range list {
		if name := r.url.Hostname(); inPLD(name, pld) {
			if counts[name]++; counts[name] > counts[host] {
				host = name
			}
		}
	}
	return host
}

func inPLD(host, pld string) bool { return host == pld || strings.HasSuffix(host, "."+pld) }

// after returns the requests from a time on.
func after(list []request, t time.Time) []request {
	i, _ := slices.BinarySearchFunc(list, t, func(r request, t time.Time) int { return r.at.Compare(t) })
	return list[i:]
}

// explain asks the search box and returns the text of the answer.
func explain(p *page, question string) string {
	p.t.Helper()
	p.enter(element("#asked"), question)
	p.press("Enter", 13)
	p.until("explain answers "+question, "document.querySelector('dialog.side[open] .answer .facts')")
	return p.text("dialog.side[open]")
}

// explainFetched looks up a URL that the servers delivered.
func explainFetched(d *demo, p *page, not string) {
	p.t.Helper()
	list := d.requests()
	i := slices.IndexFunc(list[1:], func(r request) bool {
		return !strings.HasSuffix(r.url.Path, "/robots.txt") && !inPLD(r.url.Hostname(), not)
	})
	if i < 0 {
		p.t.Fatal("no request for a page")
	}
	asked := list[i+1].text
	text := explain(p, asked)
	for _, want := range []string{asked, "The URL", "Result", "Status"} {
		if !strings.Contains(text, want) {
			p.t.Errorf("the answer about %s lacks %q: %.2000s", asked, want, text)
		}
	}
	p.save("-explain", false)
	p.axe(element("dialog[open]"))
	p.click(button("dialog.side[open]", "Close"))
}

// explainBlocked looks up a URL of the blocked PLD.
func explainBlocked(p *page, pld string) {
	p.t.Helper()
	text := explain(p, "http://"+pld+"/never-linked")
	if !strings.Contains(text, "Blacklist") && !strings.Contains(text, "blacklist") {
		p.t.Errorf("the answer about the blocked %s does not name the blacklist: %.2000s", pld, text)
	}
	p.save("-explain-blocked", false)
	p.click(button("dialog.side[open]", "Close"))
}

// stop presses Stop: the process ends with a checkpoint.
func stop(d *demo, p *page) {
	p.t.Helper()
	p.tolerate(`ERR_`)
	p.click(button("#control-cards", "Stop"))
	confirm(p, "Stop")
	p.wait("the process ends", 30*time.Second, func() bool {
		select {
		case <-d.ended:
			return true
		default:
			return false
		}
	})
	if _, err := http.Get(d.url()); err == nil {
		p.t.Error("the admin server still answers")
	}
	if code := d.cmd.ProcessState.ExitCode(); code != term.ExitSignal {
		p.t.Errorf("exit code %d, want %d\n%s", code, term.ExitSignal, d.output)
	}
}
