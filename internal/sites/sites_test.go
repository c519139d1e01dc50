package sites

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"drumbeat/weburl"
)

var suffixes = weburl.NewSuffixes(false)

// testOptions have two secrets of the environment and one in a file.
var testOptions = Options{Suffixes: suffixes, Agent: "drumbeat", Contact: "me@example.org",
	Env: func(name string) (string, bool) {
		v, ok := map[string]string{"TOKEN": "t0ps3cret", "LOGIN": "bob:hunter2", "EMPTY": ""}[name]
		return v, ok
	},
	File: func(name string) ([]byte, error) {
		if name == "/run/key" {
			return []byte("k3yfile\n"), nil
		}
		return nil, errors.New("no such file")
	}}

var secrets = []string{"t0ps3cret", "hunter2", "k3yfile", base64.StdEncoding.EncodeToString([]byte("bob:hunter2"))}

func mustParse(t testing.TB, text string) *Set {
	t.Helper()
	s, err := Parse("sites.toml", []byte(text), testOptions)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const layered = `
[[site]]
pld = "example.org"
delay = "3s"
max-depth = 5
headers = { X-All = "1", X-Who = "pld" }
insecure = false

[[site]]
host = "www.example.org"
user-agent = "drumbeat/9 special (+me@example.org)"
bearer = "env:TOKEN"
headers.X-Who = "host"

[[site]]
surt = "http://(org,example,www,)/docs/"
max-depth = "none"
bearer = "none"

[[site]]
surt = "(org,example,www,)/docs/Old/"
accept = "text/html"
max-depth = 1

[[site]]
surt = "https://(org,example,www,)"
accept-language = "de"

[[site]]
surt = "(org,example,shop,:8080)"
basic-auth = "env:LOGIN"
insecure = true

[[site]]
surt = "(gov,"
delay = "30s"

[[site]]
host = "192.0.2.1"
headers.X-Key = "file:/run/key"
insecure = true
`

// describe returns the settings of a URL, with the values of header fields.
func describe(s *Set, url string) string {
	site := s.LookupURL([]byte(url))
	if site == nil {
		return "none"
	}
	var parts []string
	add := func(is Setting, format string, args ...any) {
		if site.Has&is != 0 {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(HasDelay, "delay %v", site.Delay)
	add(HasMaxDepth, "depth %d", site.MaxDepth)
	add(HasUserAgent, "agent")
	add(HasAccept, "accept %s", site.Accept)
	add(HasAcceptLanguage, "language %s", site.AcceptLanguage)
	for _, f := range site.Fields {
		parts = append(parts, f.Name+"="+f.Value)
	}
	return strings.Join(parts, ", ")
}

// TestLayers: each setting of a URL comes from the longest rule that has it.
func TestLayers(t *testing.T) {
	s := mustParse(t, layered)
	basic := "Authorization=Basic " + base64.StdEncoding.EncodeToString([]byte("bob:hunter2"))
	for url, want := range map[string]string{
		"http://example.org/":              "delay 3s, depth 5, X-All=1, X-Who=pld",
		"http://example.org:8080/":         "delay 3s, depth 5, X-All=1, X-Who=pld",
		"http://a.b.example.org./":         "delay 3s, depth 5, X-All=1, X-Who=pld",
		"http://example.org.evil.example/": "none",
		"http://notexample.org/":           "none",
		"http://www.example.org/": "delay 3s, depth 5, agent, X-All=1, Authorization=Bearer " +
			"t0ps3cret, X-Who=host",
		"http://www.example.org:8080/docs/": "delay 3s, depth 5, agent, X-All=1, Authorization=Bearer " +
			"t0ps3cret, X-Who=host",
		"https://www.example.org/": "delay 3s, depth 5, agent, language de, X-All=1, " +
			"Authorization=Bearer t0ps3cret, X-Who=host",
		"http://www.example.org/docs/":    "delay 3s, depth -1, agent, X-All=1, X-Who=host",
		"http://www.example.org/DOCS/new": "delay 3s, depth -1, agent, X-All=1, X-Who=host",
		"http://www.example.org/docs": "delay 3s, depth 5, agent, X-All=1, Authorization=Bearer " +
			"t0ps3cret, X-Who=host",
		"https://www.example.org/docs/old/x?a=1": "delay 3s, depth 1, agent, accept text/html, language de, " +
			"X-All=1, X-Who=host",
		"http://shop.example.org/":                "delay 3s, depth 5, X-All=1, X-Who=pld",
		"http://shop.example.org:8080/x":          "delay 3s, depth 5, " + basic,
		"http://nasa.gov/":                        "delay 30s",
		"http://gov/":                             "delay 30s",
		"http://192.0.2.1:99/":                    "X-Key=k3yfile",
		"http://1.192.0.2.1.example/":             "none",
		"https://xn--bcher-kva.example/docs/":     "none",
		"http://www.www.example.org/docs/old/abc": "delay 3s, depth 5, X-All=1, X-Who=pld",
	} {
		if got := describe(s, url); got != want {
			t.Errorf("%s:\n got %s\nwant %s", url, got, want)
		}
	}
	var none *Set
	if none.LookupURL([]byte("http://a/")) != nil || none.Stats().Rules != 0 {
		t.Error("a nil Set has rules")
	}
}

// TestRulesHaveNoSecrets: the description of a Site names the rules and settings that decide, and no secret.
func TestRulesHaveNoSecrets(t *testing.T) {
	s := mustParse(t, layered)
	for url, want := range map[string]string{
		"https://www.example.org/docs/old/x": `sites.toml:15: surt http://(org,example,www,)/docs/: bearer = none`,
		"http://www.example.org/":            `bearer = env:TOKEN`,
		"http://shop.example.org:8080/":      `sites.toml:29: surt (org,example,shop,:8080): basic-auth = env:LOGIN`,
		"http://192.0.2.1/":                  `headers X-Key=file:/run/key`,
		"http://example.org/": `sites.toml:2: pld example.org: delay = 3s, insecure = false, ` +
			`max-depth = 5, headers X-All X-Who`,
	} {
		got := s.LookupURL([]byte(url)).String()
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s\nlacks %s", url, got, want)
		}
		for _, secret := range secrets {
			if strings.Contains(got, secret) {
				t.Errorf("%s: %s contains a secret", url, got)
			}
		}
	}
	if got := s.LookupURL([]byte("http://www.example.org/docs/old/")).String(); strings.Contains(got,
		"max-depth = none") ||
		strings.Contains(got, "TOKEN") {
		t.Errorf("%s: has settings that a longer rule replaces", got)
	}
}

// faultsCases are the cases of TestFaults.
var faultsCases = []struct{ text, want string }{
	{"[[site]]\nhost = 'a.example'\nbasic-auth = 'bob:hunter2'", `f:3: basic-auth: want "env:NAME" or "file:PATH"`},
	{"[[site]]\nhost = 'a.example'\nbearer = 't0ps3cret'", `f:3: bearer: want "env:NAME" or "file:PATH"`},
	{"[[site]]\nhost = 'a.example'\nbearer = 't0ps3cret", `f:3:`},
	{"[[site]]\nhost = 'a.example'\nbasic-auth = 'env:LOGIN'",
		"f:1: host a.example: basic-auth is secret, and anyone can read it on its way over HTTP: " +
			"set insecure = true"},
	{"[[site]]\npld = 'a.example'\ncookies = true", "cookies is secret"},
	{"[[site]]\nsurt = '(example,a,)/x'\nheaders.X-Key = 'abc'", "the header X-Key is secret"},
	{"[[site]]\nsurt = 'https://(example,a,)'\ninsecure = true", "f:3: insecure: the table is for https only"},
	{"[[site]]\nhost = 'a.example'\ninsecure = 'yes'\ncertificate = 'bad'\nlinks = 'none'",
		"f:5: links: want \"same-site\" or \"any\""},
	{"[[site]]\nhost = 'a.example'\nheaders = { Cookie = 't0ps3cret' }", "f:3: headers: \"Cookie\": want"},
	{"[[site]]\nhost = 'a.example'\nheaders.Authorization = 't0ps3cret'", "use basic-auth or bearer"},
	{"[[site]]\nhost = 'a.example'\n[site.headers]\nSignature-Agent = 'x'",
		"f:3: headers: \"Signature-Agent\": cannot be set: use --sign"},
	{"[[site]]\nhost = 'a.example'\n[site.headers]\nHost = 'b.example'", "f:3: headers: \"Host\": cannot be set"},
	{"[[site]]\nhost = 'a.example'\nheaders.'X Y' = 'b'", "is not the name of a header"},
	{"[[site]]\nhost = 'a.example'\nheaders = { X-Y = 'b', x-y = 'c' }", "is given twice"},
	{"[[site]]\nhost = 'a.example'\nheaders.X = \"a\\r\\nHost: b\"", "printable ASCII"},
	{"[[site]]\nhost = 'a.example'\nbearer = 'env:MISSING'", "f:3: bearer: the environment has no MISSING"},
	{"[[site]]\nhost = 'a.example'\nbearer = 'env:EMPTY'", "the environment has no EMPTY"},
	{"[[site]]\nhost = 'a.example'\nbearer = 'file:/missing'", "f:3: bearer: read file:/missing: no such file"},
	{"[[site]]\nhost = 'a.example'\nbasic-auth = 'env:TOKEN'", "the secret in env:TOKEN has no colon"},
	{"[[site]]\nhost = 'a.example'\nbasic-auth = 'env:LOGIN'\nbearer = 'env:TOKEN'", "f:4: bearer: want one of"},
	{"[[site]]\nsurt = '(org,'\nbearer = 'env:TOKEN'", "f:3: bearer: org is a public suffix"},
	{"[[site]]\nsurt = '(org,'\nowner = true", "f:3: owner: org is a public suffix"},
	{"[[site]]\nhost = 'a.example'\ndelay = 3", "f:3: delay: want a duration in quotes"},
	{"[[site]]\npld = 'a.example'\nowner = true\nuser-agent = 'Other/1'\n[[site]]\nhost = " +
		"'b.a.example'\nowner = false",
		"f:5: host b.a.example: user-agent lacks"},
	{"[[site]]\nhost = 'a.example'\nrevisit = '61d'", "f:3: revisit: want a duration in quotes"},
	{"[[site]]\nhost = 'a.example'\nrevisit = '0s'", "from 1s to 60d, or \"never\""},
	{"[[site]]\nhost = 'a.example'\ndelay = '-3s'", "f:3: delay: want a duration in quotes"},
	{"[[site]]\nhost = 'a.example'\ndelay = '10ms'", "a delay of less than 1s needs owner = true"},
	{"[[site]]\nhost = 'a.example'\nrate = 'fast'", "f:3: rate: want a number"},
	{"[[site]]\nhost = 'a.example'\nrate = 5", "needs owner = true"},
	{"[[site]]\nsurt = '(org,example,a,'\nrate = 1", "f:3: rate: applies to a PLD or a host"},
	{"[[site]]\nsurt = '(org,example,)/x'\ndelay = '3s'", "f:3: delay: applies to a whole host"},
	{"[[site]]\nsurt = 'https://(org,example,'\ndelay = '3s'", "f:3: delay: applies to a whole host"},
	{"[[site]]\nhost = 'a.example'\nmax-depth = -1", "f:3: max-depth: want a number"},
	{"[[site]]\nhost = 'a.example'\nuser-agent = 'Mozilla/5.0'", "lacks the token drumbeat"},
	{"[[site]]\nhost = 'a.example'\ncookies = 'yes'", "f:3: cookies: want true or false"},
	{"[[site]]\nsurt = '(org,'\ncookies = true", "f:3: cookies: org is a public suffix"},
	{"[[site]]\nhost = 'a.example'\nproxy = 'http://bob:hunter2@192.0.2.1:80'", "f:3: proxy: want no credentials"},
	{"[[site]]\nhost = 'a.example'\nproxy = 'http://proxy.example:3128'",
		"f:3: proxy: want \"http://ADDRESS:PORT\""},
	{"[[site]]\nhost = 'a.example'\nproxy = 'https://192.0.2.1:3128'", "f:3: proxy: want \"http://ADDRESS:PORT\""},
	{"[[site]]\nhost = 'a.example'\nproxy = 'socks5://192.0.2.1'", "f:3: proxy: want \"http://ADDRESS:PORT\""},
	{"[[site]]\nhost = 'a.example'\nproxy-auth = 'env:LOGIN'", "f:3: proxy-auth: want proxy in the same table"},
	{"[[site]]\nhost = 'a.example'\nproxy = 'http://192.0.2.1:1'\nproxy-auth = 'bob:hunter2'",
		"f:4: proxy-auth: want \"env:NAME\""},
	{"[[site]]\nsurt = '(org,example,)/x'\nproxy = 'http://192.0.2.1:1'", "f:3: proxy: applies to a whole host"},
	{"[[site]]\npld = 'a.example'\nbudget = 0", "f:3: budget: want a number"},
	{"[[site]]\nhost = 'a.example'\nbudget = 10", "f:3: budget: applies to a PLD"},
	{"[[site]]\npld = 'a.example'\nrobots = 'no'", "f:3: robots: want \"obey\" or \"ignore\""},
	{"[[site]]\npld = 'a.example'\nrobots = 'ignore'",
		"f:1: pld a.example: robots = \"ignore\" needs owner = true"},
	{"[[site]]\npld = 'a.example'\nowner = true\nrobots = 'ignore'\n[[site]]\nhost = 'b.a.example'\nowner = false",
		"f:5: host b.a.example: robots = \"ignore\" needs owner = true"},
	{"[[site]]\nhost = 'a.example'\nconnections = 2",
		"f:1: host a.example: connections > 1 needs owner"},
	{"[[site]]\nhost = 'a.example'\nowner = true\nconnections = 17",
		"f:4: connections: want a number from 1 to 16"},
	{"[[site]]\nhost = 'a.example'\nspeed = 1", "f:3: \"speed\": want host, pld or surt, and settings: accept, "},
	{"[[site]]\nhost = 'a.example'", "f:1: host a.example: has no settings"},
	{"[[site]]\ndelay = '3s'", "f:1: the table names no site"},
	{"[[site]]\nhost = 'a.example'\npld = 'a.example'\ndelay = '3s'", "want one of host, pld and surt"},
	{"[[site]]\npld = 'com'\ndelay = '3s'", "is a public suffix"},
	{"[[site]]\npld = 'www.example.com'\ndelay = '3s'", "belongs to the PLD example.com"},
	{"[[site]]\nhost = 'a.example:80'\ndelay = '3s'", "want a name or an address without a port"},
	{"[[site]]\nhost = 'http://a.example'\ndelay = '3s'", "want only a name"},
	{"[[site]]\nhost = '*.example'\ndelay = '3s'", "want only a name"},
	{"[[site]]\nsurt = 'ftp://(org,'\nmax-depth = 1", "want http://("},
	{"[[site]]\nsurt = '(org,exam'\nmax-depth = 1", "want labels from the right"},
	{"[[site]]\nsurt = '(org,example,:80)'\nmax-depth = 1", "want no port 80"},
	{"[[site]]\nsurt = '(org,example,:99999)'\nmax-depth = 1", "want a port"},
	{"[[site]]\nhost = 'a.example'\nmax-depth = 1\n[[site]]\nhost = 'A.example.'\nmax-depth = 2",
		"f:4: host A.example.: second table for this site; the first is on line 1"},
	{"[[site]]\npld = 'a.example'\nmax-depth = 1\n[[site]]\nsurt = '(example,a,'\nmax-depth = 2",
		"second table for this site"},
	{"[site]\nhost = 'a.example'", "f:1: site: want tables with double brackets"},
	{"x = 1\n[[site]]\nhost = 'a.example'\nmax-depth = 1\n[[sites]]\nhost = 'b.example'",
		"f:5: \"sites\": want only tables [[site]]"},
	{"site = [ 3 ]", "f:1: want a table"},
}

// TestFaults: each fault is reported with its line, all together, and without secrets.
func TestFaults(t *testing.T) {
	for _, test := range faultsCases {
		_, err := Parse("f", []byte(test.text), testOptions)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\n got %v\nwant %s", test.text, err, test.want)
			continue
		}
		for _, secret := range secrets {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%v: contains a secret", err)
			}
		}
	}
}

// TestAllFaults: the error has the faults of all tables, and is bounded.
func TestAllFaults(t *testing.T) {
	_, err := Parse("f",
		[]byte("[[site]]\nhost = 'a'\ndelay = 1\nrate = -1\n\n[[site]]\nhost = 'b'\nmax-depth = 'x'\n"), testOptions)
	for _, want := range []string{"f:3: delay", "f:4: rate", "f:8: max-depth"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: lacks %s", err, want)
		}
	}
	_, err = Parse("f", []byte(strings.Repeat("[[site]]\nx = 1\n", 1000)), testOptions)
	if err == nil || !strings.Contains(err.Error(), "and 900 more faults") || len(err.Error()) > 20_000 {
		t.Errorf("got %.300v", err)
	}
	_, err = Parse("f", make([]byte, MaxBytes+1), testOptions)
	if err == nil || !strings.Contains(err.Error(), "the limit is") {
		t.Errorf("a large file: %v", err)
	}
	_, err = Parse("f", []byte(strings.Repeat("[[site]]\n", MaxRules+1)), testOptions)
	if err == nil || !strings.Contains(err.Error(), "more than 100000 tables") {
		t.Errorf("many tables: %.300v", err)
	}
}

// TestOwner: an owner may be fast and may name any user agent; a rule below inherits the ownership.
func TestOwner(t *testing.T) {
	s := mustParse(t, `
[[site]]
pld = "own.example"
owner = true
delay = "0s"
rate = 500

[[site]]
host = "www.own.example"
user-agent = "Mine/1"
rate = 20
`)
	site := s.LookupURL([]byte("https://www.own.example/x"))
	if !site.Owner || site.Has&HasDelay == 0 || site.Delay != 0 || site.UserAgent != "Mine/1" || site.HostRate != 20 ||
		site.PLDRate != 500 {
		t.Errorf("got %+v", site)
	}
	if site := s.LookupURL([]byte("https://own.example/x")); site.HostRate != 0 || site.PLDRate != 500 {
		t.Errorf("got %+v", site)
	}
	_, err := Parse("f", []byte("[[site]]\npld = 'own.example'\nowner = true\ndelay = '0s'\n[[site]]\nhost = "+
		"'a.own.example'\nowner = false"), testOptions)
	if err == nil || !strings.Contains(err.Error(), "f:5: host a.own.example: a delay of less than 1s needs owner") {
		t.Errorf("got %v", err)
	}
}

// TestJars: the jar of a rule has the same key in each file, and rules below inherit it or end it.
func TestJars(t *testing.T) {
	s := mustParse(t, "[[site]]\npld = 'a.example'\ncookies = true\ninsecure = true\n[[site]]\nhost = "+
		"'no.a.example'\ncookies = false\n"+
		"[[site]]\nhost = 'own.a.example'\ncookies = true\n[[site]]\nsurt = '(example,a,own,)/x'\nmax-depth = 1")
	jar := func(s *Set, host string) string { return s.LookupURL([]byte("http://" + host + "/x")).Cookies }
	pld, own := jar(s, "www.a.example"), jar(s, "own.a.example")
	if pld == "" || own == "" || pld == own || jar(s, "no.a.example") != "" || len(s.Jars()) != 2 || !s.Jars()[pld] ||
		!s.Jars()[own] {
		t.Errorf("keys %q, %q, %q of %v", pld, own, jar(s, "no.a.example"), s.Jars())
	}
	other := mustParse(t, "# moved\n[[site]]\nsurt = '(example,A,'\ncookies = true\ninsecure = false\nmax-depth = 1")
	if got := jar(other, "b.a.example"); got != pld {
		t.Errorf("after a reload: %q, want %q", got, pld)
	}
}

// TestProxies: a table may have a proxy, with credentials, and one below may have none.
func TestProxies(t *testing.T) {
	s := mustParse(t, "[[site]]\npld = 'a.example'\nproxy = 'socks5://[2001:db8::1]:1080'\nproxy-auth = 'env:LOGIN'\n"+
		"[[site]]\nhost = 'no.a.example'\nproxy = 'none'\n[[site]]\nhost = 'b.a.example'\nproxy = "+
		"'http://127.0.0.1:3128/'")
	proxy := func(host string) string { return fmt.Sprintf("%+v", s.LookupURL([]byte("http://"+host+"/")).Proxy) }
	if got := proxy("x.a.example"); got != "&{Kind:socks5 Addr:[2001:db8::1]:1080 User:bob Password:hunter2}" {
		t.Error(got)
	}
	if got := proxy("no.a.example") +
		proxy("b.a.example"); got != "<nil>&{Kind:http Addr:127.0.0.1:3128 User: Password:}" {
		t.Error(got)
	}
	if got := s.LookupURL([]byte("http://x.a.example/")).String(); !strings.Contains(got,
		"proxy = socks5://[2001:db8::1]:1080, proxy-auth = env:LOGIN") || strings.Contains(got, "hunter2") {
		t.Error(got)
	}
}

// TestExampleOfTheDocs: the example in docs/reference/sites.md is sound and has all settings but a few headers.
func TestExampleOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/sites.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "```toml\n")
	example, _, _ = strings.Cut(example, "```")
	opt := testOptions
	opt.Env, opt.File = nil, nil
	s, err := Parse("example", []byte(example), opt)
	if err != nil || s.Stats().Rules != 7 {
		t.Errorf("%v, %v", s.Stats(), err)
	}
	for key := range settings {
		if !strings.Contains(string(text), "| `"+key+"`") && !strings.Contains(string(text), ", `"+key+"` |") {
			t.Errorf("docs/reference/sites.md has no row for %s", key)
		}
	}
}

// TestUnreadSecrets: without Env and File the references are checked, and no secret is read.
func TestUnreadSecrets(t *testing.T) {
	opt := testOptions
	opt.Env, opt.File = nil, nil
	s, err := Parse("f",
		[]byte("[[site]]\nhost = 'a.example'\nbearer = 'env:MISSING'\nheaders.X = 'file:/missing'\ninsecure = true"),
		opt)
	if err != nil {
		t.Fatal(err)
	}
	site := s.LookupURL([]byte("http://a.example/"))
	if got := site.String(); len(site.Fields) > 0 || !strings.Contains(got, "bearer = env:MISSING") {
		t.Errorf("%s, %v", got, site.Fields)
	}
}

// TestExtract: the most specific table decides whether texts are extracted; without one they are.
func TestExtract(t *testing.T) {
	t.Parallel()
	set, err := Parse("f", []byte("[[site]]\npld = \"a.example\"\nextract = false\n[[site]]\nsurt = "+
		"\"(example,a,www,)/yes/\"\nextract = true\n"+
		"[[site]]\nhost = \"b.example\"\nmax-depth = 3\n"), Options{Suffixes: weburl.NewSuffixes(false)})
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]bool{"http://a.example/": false, "https://www.a.example/no": false,
		"http://www.a.example/yes/x": true, "http://b.example/": true, "http://c.example/": true} {
		if got := set.Extracts([]byte(url)); got != want {
			t.Errorf("%s: %v", url, got)
		}
	}
	if !(*Set)(nil).Extracts([]byte("http://a.example/")) {
		t.Error("no file, no texts")
	}
	if _, err := Parse("f", []byte("[[site]]\nhost = \"b.example\"\nextract = \"no\"\n"),
		Options{Suffixes: weburl.NewSuffixes(false)}); err == nil ||
		!strings.Contains(err.Error(), "f:3: extract: want true or false") {
		t.Error(err)
	}
}

// TestPriority: lanes as numbers and as words; the most specific table decides.
func TestPriority(t *testing.T) {
	t.Parallel()
	set, err := Parse("f", []byte("[[site]]\npld = \"a.example\"\npriority = \"low\"\n[[site]]\nsurt = "+
		"\"(example,a,www,)/x/\"\npriority = \"high\"\n"+
		"[[site]]\nhost = \"b.example\"\npriority = 3\n"), Options{Suffixes: suffixes})
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]int{"http://a.example/": MaxPriority, "https://www.a.example/x/1": 0,
		"http://b.example/": 3} {
		if site := set.LookupURL([]byte(url)); site == nil || site.Has&HasPriority == 0 || site.Priority != want {
			t.Errorf("%s: %+v, want lane %d", url, site, want)
		}
	}
	if n := len(set.Priorities()); n != 3 {
		t.Errorf("%d priorities", n)
	}
	for _, bad := range []string{"8", "-1", "\"best\"", "true"} {
		if _, err := Parse("f", []byte("[[site]]\nhost = \"b.example\"\npriority = "+bad),
			Options{Suffixes: suffixes}); err == nil ||
			!strings.Contains(err.Error(), "f:3: priority: want a lane") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
