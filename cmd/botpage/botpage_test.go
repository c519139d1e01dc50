package botpage

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/robots"
)

// botPageArgs returns the arguments for a page, with more flags.
func botPageArgs(more ...string) []string {
	return append([]string{"bot-page", "--agent=Survey-Bot", "--contact=ops@example.org",
		"--purpose=To learn how the web is linked.", "--addresses=192.0.2.0/28,2001:db8::/48"}, more...)
}

// wantIn checks that a text contains all pieces.
func wantIn(t *testing.T, what, text string, pieces ...string) {
	t.Helper()
	for _, p := range pieces {
		if !strings.Contains(text, p) {
			t.Errorf("%s lacks %q:\n%s", what, p, text)
		}
	}
}

// TestBotPage: both forms of the page have the contact, the purpose, how to stop the crawler, the rules and
// delays in force, and the addresses.
func TestBotPage(t *testing.T) {
	say := []string{"ops@example.org", "To learn how the web is linked.",
		"Survey-Bot/" + term.Version() + " (+ops@example.org)", "User-agent: Survey-Bot\n", "Disallow: /\n",
		"Crawl-delay: 30\n", "RFC 9309", "X-Robots-Tag", "Retry-After", "429", "401, 402 or 403", "At least 7 s pass",
		"never below 3 s", "up to 1 min", "192.0.2.0/28", "2001:db8::/48", time.Now().UTC().Format("2006-")}
	page, _ := wantExit(t, term.ExitDone, "", botPageArgs("--host-delay=7s,min=3s", "--max-crawl-delay=60s")...)
	wantIn(t, "the page", strings.ReplaceAll(page, "&#43;", "+"), append(say, `<a href="mailto:ops@example.org">`)...)
	checkPage(t, page)
	text, _ := wantExit(t, term.ExitDone, "",
		botPageArgs("--host-delay=7s,min=3s", "--max-crawl-delay=60s", "--text")...)
	wantIn(t, "the text", strings.ReplaceAll(text, "\n    ", "\n"), say...)
	if strings.Contains(text, "<") {
		t.Errorf("the text has marks:\n%s", text)
	}
	own, _ := wantExit(t, term.ExitDone, "", botPageArgs("--host-delay=0", "--server-delay=0",
		"--robots-meta=nofollow=ignore", "--contact=https://example.org/?a=1&b=2", "--from=none")...)
	wantIn(t, "the page", own, "Not in this crawl: nofollow", `<a href="https://example.org/?a=1&amp;b=2">`)
	if strings.Contains(own, "How often") || strings.Contains(own, "<dt>From</dt>") {
		t.Errorf("there are no delays and there is no From:\n%s", own)
	}
	checkPage(t, own)
}

// TestBotPageExamples: our own matcher applies each example of robots.txt as the page says.
func TestBotPageExamples(t *testing.T) {
	c := &Command{Who: flags.Who{Agent: "Survey-Bot", Contact: "a@example.org"}, Purpose: "x"}
	must(t, c.check())
	p := c.page(time.Now(), nil)
	for i, want := range []struct {
		refused, allowed []string
		delay            time.Duration
	}{
		{[]string{"/", "/a"}, nil, 0},
		{[]string{"/private/", "/list?sort=up", "/a.pdf"}, []string{"/", "/private", "/a.pdf?x"}, 0},
		{nil, []string{"/"}, 30 * time.Second},
		{[]string{"/archive/1"}, []string{"/archive/index.html", "/"}, 0},
	} {
		rules := robots.Parse([]byte(p.Examples[i].Lines+"\nUser-agent: *\nDisallow: /\n"), "Survey-Bot")
		for _, path := range want.refused {
			if allowed, _ := rules.Match([]byte(path)); allowed {
				t.Errorf("%s\nallows %s", p.Examples[i].Lines, path)
			}
		}
		for _, path := range want.allowed {
			if allowed, _ := rules.Match([]byte(path)); !allowed {
				t.Errorf("%s\nrefuses %s", p.Examples[i].Lines, path)
			}
		}
		if rules.CrawlDelay != want.delay {
			t.Errorf("%s\nasks for %v, want %v", p.Examples[i].Lines, rules.CrawlDelay, want.delay)
		}
	}
}

// checkPage checks that elements are closed in order and that there are no external resources.
func checkPage(t *testing.T, page string) {
	t.Helper()
	void := map[string]bool{"meta": true, "br": true}
	var open []string
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		kind := z.Next()
		tok := z.Token()
		switch kind {
		case html.ErrorToken:
			if z.Err() != io.EOF || len(open) > 0 {
				t.Errorf("ends with %v, %v open", z.Err(), open)
			}
			tree, err := html.Parse(strings.NewReader(page))
			var b bytes.Buffer
			if err != nil || html.Render(&b, tree) != nil {
				t.Errorf("not readable as HTML: %v", err)
			}
			if bad := regexp.MustCompile(`(?i)src=|<script|<link|@import|url\(|<img|<iframe`).FindString(
				page); bad != "" {
				t.Errorf("has %q", bad)
			}
			return
		case html.StartTagToken:
			if !void[tok.Data] {
				open = append(open, tok.Data)
			}
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != tok.Data {
				t.Fatalf("</%s> closes %v", tok.Data, open)
			}
			open = open[:len(open)-1]
		}
	}
}

// TestBotPageEscapes: HTML in values of flags is escaped.
func TestBotPageEscapes(t *testing.T) {
	page, _ := wantExit(t, term.ExitDone, "",
		botPageArgs("--purpose=</dd><script>alert(1)</script>\n& \"quoted\" <b>", "--contact=javascript:alert'1'")...)
	checkPage(t, page)
	wantIn(t, "the page", page, "&lt;script&gt;", "&amp; &#34;quoted&#34; &lt;b&gt;", "javascript:alert&#39;1&#39;")
	if strings.Contains(page, "href=") {
		t.Errorf("a contact that is no link is one:\n%s", page)
	}
}

// TestBotPageRanges: the file of addresses has the form that search engines publish.
func TestBotPageRanges(t *testing.T) {
	out, _ := wantExit(t, term.ExitDone, "", botPageArgs("--json", "--addresses=203.0.113.7")...)
	var file struct {
		CreationTime string
		Prefixes     []map[string]string
	}
	must(t, json.Unmarshal([]byte(out), &file))
	made, err := time.Parse(time.RFC3339, file.CreationTime)
	if err != nil || !strings.HasSuffix(file.CreationTime, "Z") || time.Since(made) > time.Minute {
		t.Errorf("created at %q: %v", file.CreationTime, err)
	}
	want := []map[string]string{{"ipv4Prefix": "192.0.2.0/28"}, {"ipv6Prefix": "2001:db8::/48"},
		{"ipv4Prefix": "203.0.113.7/32"}}
	if fmt.Sprint(file.Prefixes) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", file.Prefixes, want)
	}
}

// TestBotPageFile: the file of --out can be read by others, and no temporary file is left.
func TestBotPageFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "bot.html")
	must(t, os.WriteFile(name, []byte("old"), 0o600))
	out, _ := wantExit(t, term.ExitDone, "", botPageArgs("--out", name)...)
	data, err := os.ReadFile(name)
	if err != nil || out != "" || !bytes.HasPrefix(data, []byte("<!DOCTYPE html>")) {
		t.Errorf("%v, %q, %.50q", err, out, data)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	wantExit(t, term.ExitFailure, "", botPageArgs("--out", filepath.Join(dir, "missing", "bot.html"))...)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"bot-page", "--purpose=x"}, "--contact is missing"},
		{[]string{"bot-page", "--contact=a@example.org"}, "--purpose is missing"},
		{[]string{"bot-page", "--contact=a@example.org", "--purpose=x", "--json"}, "none are given"},
		{botPageArgs("--json", "--text"), "can't be used together"}, {botPageArgs("--serve=:0", "--out=x"), "not both"},
		{botPageArgs("--out-dir=x"), "needs --url"},
		{botPageArgs("--out-dir=x", "--url=https://a/", "--out=y"), "--out-dir excludes"},
		{botPageArgs("--url=http://bot.example.org/"), "must begin with https"},
		{botPageArgs("--url=https://a.example/bot"), "must end with /"},
		{botPageArgs("--url=bot.html"), "not a URL"},
		{botPageArgs("--url=https://a.example/?x"), "not a URL"},
		{botPageArgs("--url=https://u@a.example/"), "not a URL"},
		{botPageArgs("--removals=Ann"), "neither a mail"},
		{botPageArgs("--url=https://a.example/", "--contact=https://a.example"), "add --from"},
		{botPageArgs("--agent=bot 1"), "product token"}, {botPageArgs("--host-delay=1s,min=2s"), "is more than"},
		{botPageArgs("--serve=999.1.1.1:80"), "--serve"},
	} {
		if _, errs := wantExit(t, term.ExitUsage, "", c.args...); !strings.Contains(errs, c.want) {
			t.Errorf("%v: got %q, want %q", c.args, errs, c.want)
		}
	}
}

// TestBotPageServed: the server answers GET and HEAD for its files, refuses all else, and ends with its
// context.
func TestBotPageServed(t *testing.T) {
	c := &Command{Who: flags.Who{Agent: "Survey-Bot", Contact: "a@example.org"}, Purpose: "x", Serve: "127.0.0.1:0",
		URL: "https://bot.example.org"}
	c.Addresses = []flags.NetPrefix{{Prefix: netip.MustParsePrefix("192.0.2.0/28")}}
	must(t, c.check())
	ctx, cancel := context.WithCancel(t.Context())
	says, stderr := io.Pipe()
	ended := make(chan error)
	go func() { ended <- c.serve(ctx, &term.App{Stderr: stderr}) }()
	line, err := bufio.NewReader(says).ReadString('\n')
	must(t, err)
	base := regexp.MustCompile(`http://[\d.:]+`).FindString(line)
	ask := func(method, path string) (int, http.Header, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, nil)
		must(t, err)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp.StatusCode, resp.Header, string(body)
	}
	for _, f := range []struct{ path, kind, has string }{{"/", "text/html; charset=utf-8", "Survey-Bot"},
		{"/index.html", "text/html; charset=utf-8", `href="ip-ranges.json"`},
		{"/ip-ranges.json", "application/json", "ipv4Prefix"},
		{"/agent-card.json", "application/json", "https://bot.example.org/agent-card.json"},
		{"/robots.txt", "text/plain; charset=utf-8", "User-agent: *\nDisallow:\n"}} {
		status, h, body := ask("GET", f.path)
		if status != 200 || h.Get("Content-Type") != f.kind || !strings.Contains(body, f.has) ||
			h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("GET %s: %d %v %.80q", f.path, status, h, body)
		}
		if s, head, none := ask("HEAD", f.path); s != 200 || none != "" ||
			head.Get("Content-Length") != fmt.Sprint(len(body)) {
			t.Errorf("HEAD %s: %d %v %q", f.path, s, head, none)
		}
		if s, h, _ := ask("POST", f.path); s != 405 || !slices.Equal(h.Values("Allow"), []string{"GET, HEAD"}) {
			t.Errorf("POST %s: %d %v", f.path, s, h)
		}
	}
	if s, _, _ := ask("GET", "/../etc/passwd"); s != 404 {
		t.Errorf("something else: %d", s)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestBotPageDirectory: --out-dir has what a web server publishes, replaces it, and leaves other files alone. The page
// links to the addresses and the card, which name each other by their URLs.
func TestBotPageDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	args := botPageArgs("--url=https://bot.example.org", "--out-dir="+dir, "--removals=https://example.org/remove",
		"--host-delay=7s,min=3s")
	read := func(name string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		return string(data)
	}
	names := func() (list []string) {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list
	}
	wantExit(t, term.ExitDone, "", args...)
	want := []string{"agent-card.json", "index.html", "ip-ranges.json", "robots.txt"}
	if got := names(); !slices.Equal(got, want) {
		t.Fatalf("got the files %v, want %v", got, want)
	}
	page := read("index.html")
	checkPage(t, page)
	wantIn(t, "the page", page, `<a href="ip-ranges.json">`, `<a href="agent-card.json">`,
		`write to <a href="https://example.org/remove">`)
	var card map[string]any
	must(t, json.Unmarshal([]byte(read("agent-card.json")), &card))
	wantCard := map[string]any{"client_id": "https://bot.example.org/agent-card.json", "client_name": "Survey-Bot",
		"client_uri": "https://bot.example.org/",
		"contacts":   []any{"mailto:ops@example.org", "https://example.org/remove"},
		"web_bot_auth": map[string]any{"expected-user-agent": "Survey-Bot/*", "rfc9309-product-token": "Survey-Bot",
			"rfc9309-compliance": true, "trigger": "crawler", "purpose": "To learn how the web is linked.",
			"rate-control":     "Crawl-delay in robots.txt; 429 and 503 with Retry-After",
			"rate-expectation": "one request to a host in 7 s, never more than one in 3 s",
			"known-urls":       []any{"/robots.txt"}, "ips_uri": "https://bot.example.org/ip-ranges.json"}}
	if !reflect.DeepEqual(card, wantCard) {
		t.Errorf("got the card %v\nwant %v", card, wantCard)
	}

	must(t, os.WriteFile(filepath.Join(dir, "logo.png"), []byte("x"), 0o600))
	wantExit(t, term.ExitDone, "", append(args, "--purpose=Another.")...)
	if got := names(); !slices.Equal(got, []string{want[0], want[1], want[2], "logo.png", want[3]}) {
		t.Errorf("got the files %v", got)
	}
	wantIn(t, "the second page", read("index.html"), "Another.")
	text, _ := wantExit(t, term.ExitDone, "", botPageArgs("--url=https://bot.example.org/x/", "--text")...)
	wantIn(t, "the text", text, "https://bot.example.org/x/ip-ranges.json", "write to ops@example.org and name")

	// Below a path, robots.txt would not be that of the host; without addresses there are none to publish.
	dir = filepath.Join(t.TempDir(), "below")
	wantExit(t, term.ExitDone, "", "bot-page", "--contact=a@example.org", "--purpose=x",
		"--user-agent=x drumbeat a@example.org", "--url=https://example.org/bot/", "--out-dir="+dir)
	if got := names(); !slices.Equal(got, []string{"agent-card.json", "index.html"}) {
		t.Errorf("got the files %v", got)
	}
	wantIn(t, "the card", read("agent-card.json"), `"client_id": "https://example.org/bot/agent-card.json"`,
		`"expected-user-agent": "x drumbeat a@example.org"`)

	// A crawl whose contact is the page: its readers get the mail address.
	text, _ = wantExit(t, term.ExitDone, "", "bot-page", "--contact=https://example.org/bot", "--from=b@example.org",
		"--purpose=x", "--url=https://example.org/bot/", "--text")
	wantIn(t, "the text", text, "Operator:             b@example.org\n", "(+https://example.org/bot)",
		"removed that we have stored, write to b@example.org")

	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	_, errs := wantExit(t, term.ExitFailure, "", botPageArgs("--url=https://a.example/", "--out-dir="+dir+"/file/x")...)
	wantIn(t, "the error", errs, "--out-dir", "not a directory")
}

// TestServedFilesAreFresh: the server makes the files again after a minute, so the addresses have the day's date.
func TestServedFilesAreFresh(t *testing.T) {
	c := &Command{Who: flags.Who{Agent: "Survey-Bot", Contact: "a@example.org"}, Purpose: "x", Serve: ":0"}
	c.Addresses = []flags.NetPrefix{{Prefix: netip.MustParsePrefix("192.0.2.0/28")}}
	must(t, c.check())
	s, now := &server{c: c}, time.Date(2026, 11, 29, 23, 59, 30, 0, time.UTC)
	for _, at := range []struct {
		after time.Duration
		want  string
	}{{0, "2026-11-29T23:59:30Z"}, {59 * time.Second, "2026-11-29T23:59:30Z"}, {time.Minute, "2026-11-30T00:00:30Z"}} {
		files, made, err := s.current(now.Add(at.after))
		must(t, err)
		ranges := string(files[rangesName].data)
		if got := made.Format(time.RFC3339); got != at.want || !strings.Contains(ranges, at.want) {
			t.Errorf("after %v: got %s, %s, want %s", at.after, got, ranges, at.want)
		}
	}
}
