package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestWho: what is refused of an identity, and what follows from a contact.
func TestWho(t *testing.T) {
	const mail, page = "ops@example.org", "https://example.org/bot"
	for _, c := range []struct {
		flags whoFlags
		fault string
		from  string
		ua    string
	}{
		{whoFlags{Contact: mail}, "", mail, "drumbeat/" + versionNumber + " (+ops@example.org)"},
		{whoFlags{Contact: "mailto:" + mail}, "", mail, "drumbeat/" + versionNumber + " (+mailto:ops@example.org)"},
		{whoFlags{Contact: page}, "", "", "drumbeat/" + versionNumber + " (+https://example.org/bot)"},
		{whoFlags{Contact: page, From: mail}, "", mail, ""},
		{whoFlags{Contact: mail, From: "none"}, "", "", ""},
		{whoFlags{Contact: "https://example.org/@me"}, "", "", ""},
		{whoFlags{Contact: page, UserAgent: "Mozilla/5.0 (compatible; drumbeat/1; +https://example.org/bot)"}, "", "",
			"Mozilla/5.0 (compatible; drumbeat/1; +https://example.org/bot)"},
		{whoFlags{}, "--contact is missing", "", ""},
		{whoFlags{Contact: " \t"}, "--contact is missing", "", ""},
		{whoFlags{Contact: "a\r\nX: y"}, "can't stand in a header", "", ""},
		{whoFlags{Contact: mail, Agent: "bot1"}, "product token", "", ""},
		{whoFlags{Contact: mail, Agent: "IRLbot"}, "another crawler", "", ""},
		{whoFlags{Contact: mail, From: "Me <ops@example.org>"}, "no mail address", "", ""},
		{whoFlags{Contact: mail, From: "ops"}, "no mail address", "", ""},
		{whoFlags{Contact: mail, From: "a@b\r\nX: y"}, "no mail address", "", ""},
		{whoFlags{Contact: mail, UserAgent: "Mozilla/5.0 (+ops@example.org)"}, "doesn't name the token drumbeat", "", ""},
		{whoFlags{Contact: mail, UserAgent: "drumbeater/1 (+ops@example.org)"}, "doesn't name the token", "", ""},
		{whoFlags{Contact: mail, UserAgent: "my-drumbeat/1 (+ops@example.org)"}, "doesn't name the token", "", ""},
		{whoFlags{Contact: mail, UserAgent: "drumbeat/1"}, "doesn't name the contact", "", ""},
		{whoFlags{Contact: mail, UserAgent: "drumbeat/1 (+ops@example.org)\r\nX: y"}, "printable", "", ""},
		{whoFlags{Contact: mail, UserAgent: "drumbeat ops@example.org" + strings.Repeat("x", 512)}, "at most 512", "", ""},
	} {
		w := c.flags
		if w.Agent == "" {
			w.Agent = defaultAgent
		}
		err := w.check()
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%+v: got %v, want an error with %q", c.flags, err, c.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c.flags, err)
		}
		if note := w.complete(); note != "" || w.from() != c.from || c.ua != "" && w.UserAgent != c.ua {
			t.Errorf("%+v: got From %q, User-Agent %q, note %q; want %q and %q", c.flags, w.from(), w.UserAgent, note, c.from, c.ua)
		}
	}
	odd := whoFlags{Agent: defaultAgent, Contact: "me"}
	if err := odd.check(); err != nil || !strings.Contains(odd.complete(), "neither") {
		t.Errorf("a contact that nobody can use isn't remarked on: %v", err)
	}
}

// asked is a request as a site's log has it.
type asked struct{ path, agent, from string }

// TestIdentityAtTheSite: every request, the first one for robots.txt too, has the token, the contact and From; and the group of
// robots.txt that names the token is the one that counts.
func TestIdentityAtTheSite(t *testing.T) {
	for _, c := range []struct {
		flags    []string
		ua, from string
	}{
		{[]string{"--agent=Test-Bot", "--contact=ops@example.org"}, "Test-Bot/" + versionNumber + " (+ops@example.org)", "ops@example.org"},
		{[]string{"--agent=Test-Bot", "--contact=https://example.org/bot"}, "Test-Bot/" + versionNumber + " (+https://example.org/bot)", ""},
		{[]string{"--agent=Test-Bot", "--contact=https://example.org/bot", "--from=ops@example.org",
			"--user-agent=Mozilla/5.0 (compatible; Test-Bot/2; +https://example.org/bot)"},
			"Mozilla/5.0 (compatible; Test-Bot/2; +https://example.org/bot)", "ops@example.org"},
	} {
		var mu sync.Mutex // guards log
		var log []asked
		site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			log = append(log, asked{r.URL.Path, r.Header.Get("User-Agent"), r.Header.Get("From")})
			mu.Unlock()
			switch r.URL.Path {
			case "/robots.txt":
				_, _ = fmt.Fprint(w, "User-agent: drumbeat\nDisallow: /yes\n\nUser-agent: test-bot\nDisallow: /no\n\nUser-agent: *\nDisallow: /\n")
			default:
				w.Header().Set("Content-Type", "text/html")
				_, _ = fmt.Fprint(w, `<a href="/yes">yes</a><a href="/no">no</a>`)
			}
		}))
		port := netip.MustParseAddrPort(site.Listener.Addr().String()).Port()
		args := append([]string{"crawl", "--seeds=-", "--dir=" + filepath.Join(t.TempDir(), "c"), "--allow-net=127.0.0.0/8", "--ram=192MiB",
			fmt.Sprintf("--map-port=80=%d", port), "--host-delay=1ms", "--server-delay=0", "--linger=100ms", "--host-delay-factor=0",
			"--resolver=127.0.0.1:9", "-q"}, c.flags...)
		wantExit(t, exitDone, "http://127.0.0.1/\n", args...)
		site.Close()
		paths := map[string]int{}
		for _, a := range log {
			paths[a.path]++
			if a.agent != c.ua || a.from != c.from {
				t.Errorf("%v: %s was asked for with User-Agent %q and From %q; want %q and %q", c.flags, a.path, a.agent, a.from, c.ua, c.from)
			}
		}
		if fmt.Sprint(paths) != "map[/:1 /robots.txt:1 /yes:1]" || log[0].path != "/robots.txt" {
			t.Errorf("%v: asked for %v", c.flags, log)
		}
	}
}

// TestNoAuthorsInDefaults: nothing that the program sends, prints or writes by itself names somebody to complain to: strings of the
// source have no addresses but those that are reserved for examples, and links to standards and tools. The operator is the contact.
func TestNoAuthorsInDefaults(t *testing.T) {
	var c cli
	p, err := newParser(&c)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range p.Model.Leaves(true) {
		for _, f := range command.Flags {
			if command.Name != "crawl" && command.Name != "bot-page" {
				continue // others talk to nobody
			}
			if f.Name == "contact" && f.HasDefault || f.Name == "from" && f.HasDefault || f.Name == "user-agent" && f.HasDefault {
				t.Errorf("%s: --%s has the default %q", command.Path(), f.Name, f.Default)
			}
		}
	}
	mail := regexp.MustCompile(`[\w.+-]+@([\w-]+\.[\w.-]+)`)
	link := regexp.MustCompile(`https?://([\w.-]+)`)
	fine := regexp.MustCompile(`(^|\.)(example(\.(org|com|net))?|test|invalid|localhost|w3\.org|whatwg\.org|ietf\.org|sitemaps\.org|iipc\.github\.io|bibnum\.bnf\.fr|` +
		`publicsuffix\.org|mozilla\.org|unicode\.org|iana\.org|h|a|b|x|y)$|^[\d.]+$|^[^.]*$`)
	fset, files := token.NewFileSet(), 0
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "internal/") ||
			strings.HasPrefix(name, "bench/") {
			return err
		}
		files++
		syntax, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(syntax, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				return true
			}
			for _, m := range append(mail.FindAllStringSubmatch(text, -1), link.FindAllStringSubmatch(text, -1)...) {
				if !fine.MatchString(strings.Trim(m[1], ".")) {
					t.Errorf("%s: %q", fset.Position(lit.Pos()), m[0])
				}
			}
			return true
		})
		return nil
	})
	if err != nil || files < 50 {
		t.Errorf("%d files read: %v", files, err)
	}
}
