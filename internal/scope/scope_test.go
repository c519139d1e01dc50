package scope

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"drumbeat/weburl"
)

var seedFlag = flag.Uint64("seed", 1, "seed of random rules and URLs")

var suffixes = weburl.NewSuffixes(false)

func mustParse(t testing.TB, list List, lines ...string) *Set {
	t.Helper()
	s, err := Parse(list, suffixes, Source{"test.txt", []byte(strings.Join(lines, "\n"))})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// verdict returns the ruling and the line of its rule.
func verdict(s *Set, url string) string {
	n := s.Lookup([]byte(url))
	if n == None {
		return "undecided"
	}
	return fmt.Sprintf("%v %d", s.Ruling(n), s.Rule(n).Line)
}

func TestFirstMatchWins(t *testing.T) {
	s := mustParse(t, Rules,
		"+ host good.spam.example        # 1",
		"- pld spam.example",
		"- prefix https://example.org/private/",
		"+ host example.org",
		"- host *.example.org",
		`- regex \.php\?`,
		"+ surt http://(com,example,)/docs/",
		"- surt http://(com,example,",
		"- prefix http://example.net/a",
		"+ prefix http://example.net/a/b",
		"+ prefix http://example.net/ab",
		`- regex ^https://example\.net/secret$`,
		"+ prefix https://example.net/",
		"- host 192.0.2.1",
		"+ host [2001:DB8::1]",
		"+ host bücher.example",
		"- pld 192.0.2.2",
	)
	for url, want := range map[string]string{
		"http://good.spam.example/":           "include 1",
		"http://good.spam.example./":          "include 1",
		"http://spam.example/":                "exclude 2",
		"http://a.b.spam.example:81/":         "exclude 2",
		"http://notspam.example/":             "undecided",
		"https://example.org/private/":        "exclude 3",
		"https://example.org./private/":       "exclude 3",
		"http://example.org/private/":         "include 4",
		"https://example.org:8443/private/":   "include 4",
		"https://example.org/x.php?y":         "include 4",
		"https://www.example.org/":            "exclude 5",
		"https://a.b.example.org/":            "exclude 5",
		"http://other.example/x.php?y":        "exclude 6",
		"http://other.example/x.php":          "undecided",
		"http://example.com/docs/x":           "include 7",
		"http://example.com/docs/x.php?y":     "exclude 6",
		"http://example.com/x":                "exclude 8",
		"http://www.example.com/docs/":        "exclude 8",
		"http://example.net/a":                "exclude 9",
		"http://example.net/a/b":              "exclude 9",
		"http://example.net/ab":               "exclude 9",
		"http://example.net/b":                "undecided",
		"https://example.net/secret":          "exclude 12",
		"https://example.net/secrets":         "include 13",
		"http://192.0.2.1/":                   "exclude 14",
		"http://192.0.2.2/":                   "exclude 17",
		"http://[2001:db8::1]/":               "include 15",
		"http://xn--bcher-kva.example/":       "include 16",
		"http://www.xn--bcher-kva.example:1/": "undecided",
	} {
		if got := verdict(s, url); got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
}

func TestDefaultComesLast(t *testing.T) {
	s, err := Parse(Rules, suffixes, Source{"a", []byte("default -\n+ host a.example\n")},
		Source{"b", []byte("+ regex /b$\n")})
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"http://a.example/": "a:2: + host a.example", "http://x.example/b": "b:1: + regex /b$",
		"http://x.example/": "a:1: default -",
	} {
		if got := s.Rule(s.Lookup([]byte(url))).String(); got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
}

func TestNoRules(t *testing.T) {
	for _, s := range []*Set{nil, mustParse(t, Rules, "# nothing")} {
		if got := s.Lookup([]byte("http://a.example/")); got != None || s.Ruling(got) != Undecided {
			t.Errorf("got %v", got)
		}
		if got := s.Addr(netip.MustParseAddr("192.0.2.1")); got != None || s.HasNets() || s.Stats().Rules != 0 {
			t.Errorf("got %v", got)
		}
	}
}

func TestBlacklist(t *testing.T) {
	s := mustParse(t, Blacklist,
		"+ net 192.0.2.64/28", "- net 192.0.2.0/24", "- net 198.51.100.7", "- net 2001:db8::/32",
		"- host a.example", "- pld b.example", "+ net 10.1.2.0/24", "- net 10.0.0.0/8", "+ net 10.1.0.0/16")
	for addr, want := range map[string]Ruling{
		"192.0.2.1": Exclude, "192.0.2.64": Include, "192.0.2.80": Exclude, "192.0.3.1": Undecided,
		"198.51.100.7": Exclude,
		"198.51.100.8": Undecided, "2001:db8::1": Exclude, "2001:db9::1": Undecided, "::ffff:192.0.2.1": Exclude,
		"10.1.2.3": Include, "10.1.3.3": Exclude, "10.2.0.1": Exclude, "11.0.0.0": Undecided,
		"9.255.255.255": Undecided,
	} {
		if got := s.Ruling(s.Addr(netip.MustParseAddr(addr))); got != want {
			t.Errorf("%s: got %v, want %v", addr, got, want)
		}
	}
	for host, want := range map[string]Ruling{"a.example": Exclude, "a.example.": Exclude, "x.a.example": Undecided,
		"x.b.example": Exclude, "192.0.2.1": Exclude, "192.0.2.64": Include, "[2001:db8::5]": Exclude} {
		if got := s.Ruling(s.Host([]byte(host), []byte(suffixes.PLD(host)))); got != want {
			t.Errorf("%s: got %v, want %v", host, got, want)
		}
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		list List
		line string
		want string // part of the fault
	}{
		{Rules, "host example.org", `"host": want + or - and a space at the start`},
		{Rules, "+host example.org", `want + or - and a space at the start`},
		{Rules, "+ hosts example.org", `"hosts": want host, pld, surt, prefix or regex`},
		{Blacklist, "- hosts example.org", `"hosts": want host, pld or net`},
		{Rules, "-", `want host, pld, surt, prefix or regex, and a pattern`},
		{Rules, "- host", `and a pattern`},
		{Rules, "- host a b", `want only a comment after the pattern`},
		{Rules, "- host a/b", `"/": want only a name or an address`},
		{Rules, "- host a.example:80", `without a port`},
		{Rules, "- host *", `want a name, or *.`},
		{Rules, "- host a.*.example", `want a name, or *.`},
		{Rules, "- host a..example", `an empty label`},
		{Rules, "- host .example", `an empty label`},
		{Rules, "- host *.192.0.2.1", `an address has no hosts below it`},
		{Rules, "- host 192.0.2.256", `not a name or an address of a host`},
		{Rules, "- host a^b", `not a name or an address of a host`},
		{Rules, "- pld com", `public suffix`},
		{Rules, "- pld www.example.org", `belongs to the PLD example.org`},
		{Rules, "- net 192.0.2.0/24", `net: allowed only in a blacklist`},
		{Rules, "- prefix example.org/x", `want the beginning of a URL`},
		{Rules, "- prefix ftp://example.org/x", `want the beginning of a URL`},
		{Rules, "- prefix http://", `not a URL`},
		{Rules, "- prefix http://a/b#c", `want no #`},
		{Rules, "- prefix http://a/b/..", `ends in . or ..`},
		{Rules, "- prefix http://a/b/%2E", `ends in . or ..`},
		{Rules, "- surt ftp://(org,", `other schemes`},
		{Rules, "- surt http://example.org/", `want ( after the scheme`},
		{Rules, "- surt http://(example.org)/", `want labels from the right`},
		{Rules, "- surt http://(org,example)/", `want labels from the right`},
		{Rules, "- surt http://(org,,example,)/", `want labels from the right`},
		{Rules, "- surt http://(", `want labels from the right`},
		{Rules, "- surt http://(org,example,)x", `want a path that starts with /`},
		{Rules, "- surt http://(org,example,@me)/", `want no user`},
		{Rules, "- surt http://(org,bücher,", `punycode`},
		{Rules, "- regex (", `want RE2 syntax`},
		{Rules, "- regex " + strings.Repeat("x", MaxRegexBytes+1), `the limit is 1000`},
		{Rules, "default", `want + or - after default`},
		{Rules, "default - x", `want + or - after default`},
		{Blacklist, "default -", `a blacklist has no default`},
		{Blacklist, "- prefix http://a/", `names sites, not pages`},
		{Blacklist, "- net 192.0.2.1/24", `did you mean 192.0.2.0/24`},
		{Blacklist, "- net x", `want an address or a range`},
		{Blacklist, "- net fe80::1%eth0", `without a zone`},
		{Blacklist, "- net ::ffff:192.0.2.1", `192.0.2.1`},
		{Rules, "- host " + strings.Repeat("x", MaxLineBytes), `the limit is 8192`},
	} {
		_, err := Parse(c.list, suffixes, Source{"f.txt", []byte("# first\n" + c.line)})
		var faults *Faults
		if !errors.As(err, &faults) || len(faults.List) != 1 || !strings.Contains(faults.List[0].Why, c.want) ||
			!strings.HasPrefix(faults.List[0].String(), "f.txt:2: ") {
			t.Errorf("%.80q: got %v, want %q", c.line, err, c.want)
		}
	}
}

func TestAllFaultsAreReported(t *testing.T) {
	_, err := Parse(Rules, suffixes, Source{"a", []byte("x\n+ host ok.example\ny\n")},
		Source{"b", []byte(strings.Repeat("z\n", 200))})
	var faults *Faults
	if !errors.As(err, &faults) || len(faults.List) != MaxFaults || faults.More != 102 {
		t.Fatalf("got %v", err)
	}
	text := err.Error()
	for _, want := range []string{"scope: 202 faults\n", "\na:1: ", "\na:3: ", "\nb:1: ", "\nand 102 more"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	_, err = Parse(Rules, suffixes, Source{"a", []byte("default +\n\n")}, Source{"b", []byte("default -")})
	if err == nil || !strings.Contains(err.Error(), "b:1: second default; the first is in a:1") {
		t.Errorf("got %v", err)
	}
	_, err = Parse(Rules, suffixes, Source{"a", []byte(strings.Repeat("+ regex x\n", MaxRegexes+1))})
	if err == nil || !strings.Contains(err.Error(), "more than 1000") {
		t.Errorf("got %v", err)
	}
}

func TestCommentsAndBlanks(t *testing.T) {
	s := mustParse(t, Rules, "\ufeff+\thost\t a.example\t# why\r", "", "  # - host b.example", `- regex x#y`,
		"   - host c.example   ")
	for url, want := range map[string]string{"http://a.example/": "include 1", "http://b.example/": "undecided",
		"http://c.example/": "exclude 5"} {
		if got := verdict(s, url); got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
}

// TestSampleFiles parses the samples of the documentation.
func TestSampleFiles(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	samples := regexp.MustCompile("(?s)```(rules|blacklist)\n(.*?)```").FindAllSubmatch(text, -1)
	if len(samples) < 2 {
		t.Fatalf("got %d samples", len(samples))
	}
	for _, m := range samples {
		list := Rules
		if string(m[1]) == "blacklist" {
			list = Blacklist
		}
		s, err := Parse(list, suffixes, Source{"docs/reference/rules.md", m[2]})
		if err != nil || s.Stats().Rules == 0 {
			t.Errorf("%v: %s", err, m[2])
		}
	}
}

// TestAgainstNaive compares random rules and random URLs of a few names with the naive matcher.
func TestAgainstNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(*seedFlag, 1))
	t.Logf("seed %d", *seedFlag)
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	host := func() string {
		return pick("", "", "www.", "a.", "b.a.") + pick("x", "xy", "y") + "." +
			pick("org", "co.uk", "com", "example") + pick("", "", "", ".")
	}
	path := func() (p string) {
		for range rng.IntN(4) {
			p += pick("/", "/a", "/A", "/ab", "/b", "/private", "x", ".php?", "?q=1")
		}
		if !strings.HasPrefix(p, "/") {
			p = "/" + p
		}
		return p
	}
	url := func() string {
		u, err := weburl.Canonical(pick("http://", "https://") + host() + pick("", "", "", ":8080") + path())
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for range 300 {
		var lines []string
		for range 1 + rng.IntN(40) {
			pattern := ""
			switch word := pick("host", "pld", "surt", "prefix", "regex"); word {
			case "host":
				pattern = "host " + pick("", "*.") + host()
			case "pld":
				pattern = "pld " + suffixes.PLD(host())
			case "surt":
				surt := string(AppendSURT(nil, []byte(url())))
				short := surt[:len(surt)-rng.IntN(len(surt)-len("https://(x"))]
				if _, _, err := surtKey(short); err != nil {
					short = surt
				}
				pattern = "surt " + short
			case "prefix":
				pattern = "prefix " + url()
			case "regex":
				pattern = "regex " + pick(`\.php\?`, `/a`, `^https:`, `/ab?$`, `x\.(org|com)/`)
			}
			lines = append(lines, pick("+ ", "- ")+pattern)
		}
		if rng.IntN(3) == 0 {
			lines = append(lines, "default "+pick("+", "-"))
		}
		s := mustParse(t, Rules, lines...)
		for range 100 {
			u := url()
			if got, want := int(int32(s.Lookup([]byte(u)))), naive(lines, u); got != want {
				t.Fatalf("%s: got rule %d, want %d of\n%s", u, got, want, strings.Join(lines, "\n"))
			}
		}
	}
}

// naive tries the rules in order and returns the number of the first match, -1 without one. The rules must
// be valid.
func naive(lines []string, url string) int {
	n, fallback := -1, false
	for _, line := range lines {
		if i := strings.Index(" "+strings.ReplaceAll(line, "\t", " "), " #"); i >= 0 {
			line = line[:i]
		}
		f := strings.Fields(strings.TrimPrefix(line, "\ufeff"))
		if len(f) == 0 {
			continue
		}
		if f[0] == "default" {
			fallback = true
			continue
		}
		if n++; naiveMatch(f[1], f[2], url) {
			return n
		}
	}
	if fallback {
		return n + 1
	}
	return -1
}

// plainURL is a URL whose host has no trailing dot.
func plainURL(url string) string {
	parts := weburl.Split([]byte(url))
	host := string(parts.Host)
	if len(host) > 1 {
		return strings.Replace(url, host, strings.TrimSuffix(host, "."), 1)
	}
	return url
}

func canonical(url string) string {
	out, err := weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited}).AppendResolve(nil, nil, []byte(url))
	if err != nil {
		panic(err)
	}
	return plainURL(string(out))
}

func naiveMatch(word, pattern, url string) bool {
	raw := url
	url = plainURL(url)
	host := string(weburl.Split([]byte(url)).Host)
	if a, err := netip.ParseAddr(pattern); word != "regex" && err == nil && a.Is6() {
		pattern = "[" + pattern + "]"
	}
	switch word {
	case "host":
		if below, ok := strings.CutPrefix(pattern, "*."); ok {
			return strings.HasSuffix(host, "."+string(weburl.Split([]byte(canonical("http://"+below))).Host))
		}
		return host == string(weburl.Split([]byte(canonical("http://"+pattern))).Host)
	case "pld":
		return suffixes.PLD(host) == string(weburl.Split([]byte(canonical("http://"+pattern))).Host)
	case "surt":
		surt, pattern := strings.ToLower(string(AppendSURT(nil, []byte(url)))), strings.ToLower(pattern)
		if !strings.HasPrefix(pattern, "https://") {
			surt, pattern = strings.Replace(surt, "https:", "http:", 1), strings.TrimPrefix(pattern, "http://")
			return strings.HasPrefix(surt, "http://("+strings.TrimPrefix(pattern, "("))
		}
		return strings.HasPrefix(surt, pattern)
	case "prefix":
		return strings.HasPrefix(url, canonical(pattern))
	}
	return regexp.MustCompile(pattern).MatchString(raw)
}

// TestDigests: rules with the digest of a name match as those with the name, also in upper case, and nothing else.
func TestDigests(t *testing.T) {
	text := "- host " + Digest([]byte("www.example.org")) + "\n+ pld " + strings.Replace(strings.ToUpper(
		Digest([]byte("example.net"))), "SHA", "sha", 1) + "\n- pld " + Digest([]byte("example.net")) + "\n"
	s, err := Parse(Blacklist, suffixes, Source{"l", []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]Ruling{"www.example.org": Exclude, "www.example.org.": Exclude,
		"example.org": Undecided, "a.www.example.org": Undecided, "example.net": Include, "a.example.net": Include,
		"net": Undecided} {
		if got := s.Ruling(s.Host([]byte(host), suffixes.PLDBytes(weburl.TrimDot([]byte(host))))); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
	if got := s.Rule(0).String(); got != "l:1: - host "+Digest([]byte("www.example.org")) {
		t.Error(got)
	}
	if got := Digest([]byte("abc")); got != "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("abc (FIPS 180-2): %s", got)
	}
	for _, bad := range []string{"- host sha256:12", "- pld sha256:" + strings.Repeat("x", 64), "- host *." +
		Digest([]byte("a"))} {
		if _, err := Parse(Blacklist, suffixes, Source{"l", []byte(bad)}); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

// BenchmarkHost looks up a host and its PLD, which no rule names: without and with rules by digest.
func BenchmarkHost(b *testing.B) {
	host := []byte("www.example.org")
	for name, text := range map[string]string{"names": "- host a.example\n", "digests": "- host a.example\n- host " +
		Digest([]byte("b")) + "\n- pld " + Digest([]byte("c")) + "\n"} {
		b.Run(name, func(b *testing.B) {
			s, err := Parse(Blacklist, suffixes, Source{"l", []byte(text)})
			if err != nil {
				b.Fatal(err)
			}
			pld := suffixes.PLDBytes(host)
			b.ReportAllocs()
			for b.Loop() {
				if s.Host(host, pld) != None {
					b.Fatal("a rule")
				}
			}
		})
	}
}
