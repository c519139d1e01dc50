package robots

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var seedFlag = flag.Uint64("seed", 0, "seed of random tests; 0 draws one")

func newRand(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func TestCrawlDelay(t *testing.T) {
	for _, c := range []struct {
		value string
		want  time.Duration
	}{
		{"10", 10 * time.Second}, {"10s", 10 * time.Second}, {"1,5", 1500 * time.Millisecond}, {"0.25",
			250 * time.Millisecond},
		{".5", 500 * time.Millisecond}, {"2.5 seconds", 2500 * time.Millisecond}, {"500ms", 500 * time.Millisecond},
		{"2 min", 2 * time.Minute}, {"0", 0}, {"-1", 0}, {"abc", 0}, {"", 0}, {"NaN", 0}, {"1e9", time.Second},
		{"99999999999999999999", MaxCrawlDelay}, {"3600 # hour", time.Hour}, {"5.", 5 * time.Second},
		{"0.00000000000000000000000001", 0},
	} {
		r := Parse([]byte("User-agent: *\nCrawl-delay: "+c.value+"\n"), "x")
		if r.CrawlDelay != c.want {
			t.Errorf("Crawl-delay %q: got %v, want %v", c.value, r.CrawlDelay, c.want)
		}
	}
	file := "Crawl-delay: 99\nUser-agent: slow\nCrawl-delay: 60\nUser-agent: *\nCrawl-delay: " +
		"2\nCrawl-delay: 3\nDisallow: /\n"
	for agent, want := range map[string]time.Duration{"slow": time.Minute, "other": 3 * time.Second} {
		if got := Parse([]byte(file), agent).CrawlDelay; got != want {
			t.Errorf("agent %s: got delay %v, want %v", agent, got, want)
		}
	}
}

func TestSitemaps(t *testing.T) {
	r := Parse([]byte("Sitemap: http://a/1\nUser-agent: x\nsite-map: http://a/2 # c\nDisallow: /\nSITEMAP:\n"), "y")
	if got := strings.Join(r.Sitemaps, " "); got != "http://a/1 http://a/2" {
		t.Errorf("got sitemaps %q", got)
	}
}

func TestRuleText(t *testing.T) {
	r := Parse([]byte("User-agent: *\nDisallow: /a%2ab*c$\nAllow: /d%24\n"), "x")
	_, rule := r.Match([]byte("/a*bxxc"))
	if rule != "Disallow: /a%2Ab*c$" {
		t.Errorf("got rule %q", rule)
	}
	again := Parse([]byte(r.Text()), "x")
	if !bytes.Equal(again.Append(nil), r.Append(nil)) {
		t.Errorf("text %q parses to %q", r.Text(), again.Text())
	}
}

func TestGoldenRules(t *testing.T) {
	r := Parse([]byte("User-agent: me\nCrawl-delay: 2\nDisallow: /a*/$\nAllow: /\nDisallow: /b\n"), "Me")
	// Version, Own; 2000 ms; nothing cut; 2 plain rules, 1 special.
	want := "\x02\x01" + "\xd0\x0f" + "\x00" + "\x02\x01" +
		"\x01\x00\x01\x00" + // ends at 1, no parent, Allow
		"\x03\x00\x02\x00" + // ends at 3, parent 1, Disallow
		"\x08\x00\x05\x00\x02a" + // ends at 8, weight 5, Disallow with wildcard, needs "a"
		"/" + "/b" + "/a\x00/\x01"
	if got := r.Append(nil); string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	back, err := DecodeRules([]byte(want))
	if err != nil || string(back.Append(nil)) != want || back.CrawlDelay != 2*time.Second || !back.Own {
		t.Errorf("decode: got %+v, %v", back, err)
	}
	for i := range len(want) {
		if _, err := DecodeRules([]byte(want[:i])); err == nil {
			t.Errorf("decode of the first %d bytes: no error", i)
		}
	}
	if _, err := DecodeRules([]byte(want + "x")); err == nil {
		t.Error("decode with a byte too many: no error")
	}
}

// TestLimitsNeverAllowMore: a shortened list never allows what the whole list forbids, and is within the
// limits.
func TestLimitsNeverAllowMore(t *testing.T) {
	rng := newRand(t)
	for round := range 30 {
		var file bytes.Buffer
		file.WriteString("User-agent: *\n")
		var rules []string
		for range rng.IntN(5000) {
			pat := "/"
			for range rng.IntN(12) {
				pat += []string{"a", "b", "/", "*", "%41", "ü"}[rng.IntN(6)]
			}
			if rng.IntN(100) == 0 {
				pat += strings.Repeat([]string{"a", "b*"}[rng.IntN(2)], rng.IntN(1500))
			}
			if rng.IntN(6) == 0 {
				pat += "$"
			}
			rules = append(rules, pat)
			fmt.Fprintf(&file, "%s: %s\n", []string{"Allow", "Disallow"}[rng.IntN(2)], pat)
		}
		r := Parse(file.Bytes(), "x")
		enc := r.Append(nil)
		if len(enc) > MaxEncoded || len(r.list) > MaxRules {
			t.Fatalf("round %d: got %d bytes and %d rules", round, len(enc), len(r.list))
		}
		if _, err := DecodeRules(enc); err != nil {
			t.Fatal(err)
		}
		whole := reference(file.Bytes())
		for range 20 {
			path := "/a/b"
			if len(rules) > 0 {
				path = strings.NewReplacer("*", "b", "$", "").Replace(rules[rng.IntN(len(rules))])
			}
			if rng.IntN(2) == 0 {
				path += "a"
			}
			got, want := Match(enc, []byte(path)), whole(path)
			if got && !want || got != want && r.Cut == (Cut{}) {
				t.Fatalf("round %d: %.100s: got allowed %v, want %v (cut %+v)", round, path, got, want, r.Cut)
			}
		}
	}
}

// reference is an independent, slow interpretation of a clean file without limits, by dynamic programming
// over path positions.
func reference(file []byte) func(path string) bool {
	type rule struct {
		allow  bool
		pat    []byte // 0 wildcard
		end    bool
		folded bool // compared with the delimiters of the query decoded
		weight int
	}
	var rules []rule
	for line := range strings.Lines(string(file)) {
		name, value, _ := strings.Cut(strings.Trim(line, " \t\r\n"), ": ")
		if name == "User-agent" || value == "" {
			continue
		}
		r := rule{allow: name == "Allow"}
		if strings.HasSuffix(value, "$") {
			r.end, value, r.weight = true, value[:len(value)-1], 1
		}
		for i, piece := range strings.Split(value, "*") { // an encoded star is not a wildcard
			if i > 0 {
				r.pat = append(r.pat, wildcard)
			}
			r.pat = appendNormal(r.pat, []byte(piece))
		}
		r.weight += len(r.pat)
		if r.folded = naiveQuery.Match(r.pat); r.folded {
			r.pat = []byte(naiveFold(string(r.pat)))
		}
		rules = append(rules, r)
	}
	return func(path string) bool {
		norm := appendNormal(nil, []byte(path))
		folded := []byte(naiveFold(string(norm)))
		allow, best := true, -1
		for _, r := range rules {
			against := norm
			if r.folded {
				against = folded
			}
			if r.weight < best || r.weight == best && allow || !slowMatch(r.pat, against, r.end) {
				continue
			}
			if r.weight > best || r.allow {
				allow, best = r.allow, r.weight
			}
		}
		return allow
	}
}

func slowMatch(pat, path []byte, end bool) bool {
	at, next := make([]bool, len(path)+1), make([]bool, len(path)+1)
	at[0] = true
	for _, c := range pat {
		any := false
		for i := range next {
			switch {
			case c == wildcard:
				next[i] = at[i] || i > 0 && next[i-1]
			default:
				next[i] = i > 0 && at[i-1] && path[i-1] == c
			}
			any = any || next[i]
		}
		if at, next = next, at; !any {
			return false
		}
	}
	return !end || at[len(path)]
}

func TestMatchAgainstReference(t *testing.T) {
	rng := newRand(t)
	for range 20000 {
		word := func(n int, set string) string {
			b := []byte("/")
			for range rng.IntN(n) {
				b = append(b, set[rng.IntN(len(set))])
			}
			return string(b)
		}
		file := "User-agent: *\n"
		for range rng.IntN(5) {
			file += []string{"Allow", "Disallow"}[rng.IntN(2)] + ": " + word(7, "ab/*") +
				[]string{"", "$"}[rng.IntN(2)] + "\n"
		}
		path := word(9, "ab/")
		got := Match(Parse([]byte(file), "x").Append(nil), []byte(path))
		if want := reference([]byte(file))(path); got != want {
			t.Fatalf("%s\n%s: got allowed %v, want %v", file, path, got, want)
		}
	}
}

func TestBoundsAreCounted(t *testing.T) {
	long := strings.Repeat("ü", 3000) // six octets each
	r := Parse([]byte("User-agent: *\nDisallow: /x/"+long+"\nAllow: /y/"+long+"\nDisallow: z\n"), "x")
	if r.Cut.Long != 2 || r.Cut.Odd != 1 || len(r.list) != 1 || len(r.list[0].pattern) != MaxPattern {
		t.Errorf("got cut %+v, %d rules", r.Cut, len(r.list))
	}
	if allowed, _ := r.Match([]byte("/x/" + long)); allowed {
		t.Error("shortened rule doesn't match")
	}
	r = Parse([]byte("User-agent: *\nDisallow: /no\nAllow: /"+strings.Repeat("*", maxLine)+"zz\nAllow: /no/"+
		strings.Repeat("a", maxLine)), "x")
	if no, _ := r.Match([]byte("/no/1")); no || r.Cut.Long != 1 || len(r.list) != 2 {
		t.Errorf("cut lines: got cut %+v, %d rules, allowed %v", r.Cut, len(r.list), no)
	}
	body := "User-agent: *\nDisallow: /1\n" + strings.Repeat("#\n", MaxInput/2) + "Disallow: /2\n"
	r = Parse([]byte(body), "x")
	if got, _ := r.Match([]byte("/2")); r.Cut.Input == 0 || len(r.list) != 1 || !got {
		t.Errorf("input limit: got cut %+v, %d rules", r.Cut, len(r.list))
	}
}

// hostileFiles returns groups designed to be slow.
func hostileFiles() map[string]string {
	return map[string]string{
		"wildcards": strings.Repeat("Disallow: /*a*a*a*a*a*a*a*a*a*a*b\n", MaxInput/35),
		"stars":     strings.Repeat("Disallow: /"+strings.Repeat("*", 400)+"x\n", MaxInput/413),
		"long":      distinct("/*" + strings.Repeat("ab", 500) + "%d"),
		"names":     strings.Repeat("User-agent: a\n", MaxInput/14),
		"short":     strings.Repeat("Disallow:/\n", MaxInput/11),
		"distinct":  distinct("/*%d*a*b*c"),
		"few":       distinct("/*%d*a*b*c")[:40000],
		"pairs":     twoLetters("/*%sbb"),
		"parts":     twoLetters("/*a*b*a*b*%sbb"),
		"almost":    twoLetters("/*%s" + strings.Repeat("ab", 200) + "b"),
		"chain":     chain(),
	}
}

// TestNeverSlow: the worst known files do not take long; compare item 13 of doc.go.
func TestNeverSlow(t *testing.T) {
	path := []byte("/" + strings.Repeat("ab", 1000) + strings.Repeat("a", 80))
	for name, file := range hostileFiles() {
		start := time.Now()
		r := Parse([]byte("User-agent: *\n"+file), "x")
		parsed := time.Since(start)
		enc := r.Append(nil)
		start = time.Now()
		Match(enc, path)
		took := time.Since(start)
		t.Logf("%s: parse %v, match %v, %d rules, %d bytes", name, parsed, took, len(r.list), len(enc))
		if parsed > 2*time.Second || took > 100*time.Millisecond {
			t.Errorf("%s: parse took %v, match %v", name, parsed, took)
		}
	}
}

// distinct fills a file with Allow lines that do not hide each other.
func distinct(format string) string {
	var b strings.Builder
	for i := 0; b.Len() < MaxInput; i++ {
		fmt.Fprintf(&b, "Allow: "+format+"\n", i)
	}
	return b.String()
}

// twoLetters is distinct with numbers made of a and b, which paths of these letters do not rule out.
func twoLetters(format string) string {
	var b strings.Builder
	for i := 0; b.Len() < MaxInput; i++ {
		digits := strings.NewReplacer("0", "a", "1", "b").Replace(fmt.Sprintf("%012b", i))
		fmt.Fprintf(&b, "Allow: "+format+"\n", digits)
	}
	return b.String()
}

// chain returns rules each of which is a prefix of the next: the longest walk over parents.
func chain() string {
	var b strings.Builder
	for i := 1; b.Len() < MaxInput && i < 600; i++ {
		fmt.Fprintf(&b, "Allow: /%s\n", strings.Repeat("ab", i))
	}
	return b.String()
}

func usual() []byte {
	var b strings.Builder
	b.WriteString("User-agent: *\nCrawl-delay: 1\n")
	for i := range 30 {
		fmt.Fprintf(&b, "Disallow: /section-%d/private/\n", i)
	}
	return []byte(b.String())
}

func TestMatchAllocatesNothing(t *testing.T) {
	enc := Parse(append(usual(), "Disallow: /*.pdf$\n"...), "x").Append(nil)
	for _, path := range []string{"/section-1/private/x", "/a/ü/%41?q=x y", "/" + strings.Repeat("a", 2000)} {
		p := []byte(path)
		if n := testing.AllocsPerRun(100, func() { Match(enc, p) }); n != 0 {
			t.Errorf("%.30s: got %v allocations", path, n)
		}
	}
}

// TestRuleOfStars: a rule of stars alone is named as one. It was named without a pattern, as a line that
// allows everything.
func TestRuleOfStars(t *testing.T) {
	r := Parse([]byte("User-agent: *\nDisallow: **\n"), "x")
	allowed, rule := r.Match([]byte("/a"))
	if _, coded := Explain(r.Append(nil), []byte("/a")); allowed || rule != "Disallow: *" || coded != rule {
		t.Errorf("got %v by %q and %q, want false by Disallow: *", allowed, rule, coded)
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range verdictCases {
		f.Add([]byte(c.robots), c.agent, []byte("/foo/bar?x=%zz"))
	}
	f.Fuzz(func(t *testing.T, body []byte, agent string, path []byte) {
		r := Parse(body, agent)
		enc := r.Append(nil)
		if len(enc) > MaxEncoded {
			t.Fatalf("got %d bytes", len(enc))
		}
		back, err := DecodeRules(enc)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(back.Append(nil), enc) {
			t.Fatal("decoded rules encode differently")
		}
		allowed, rule := Explain(enc, path)
		allowed2, rule2 := r.Match(path)
		if allowed != allowed2 || rule != rule2 || allowed != Match(enc, path) {
			t.Fatalf("Explain %v %q, Rules.Match %v %q", allowed, rule, allowed2, rule2)
		}
		var buf []byte
		once := appendNormal(buf, path)
		if twice := appendNormal(nil, once); !bytes.Equal(once, twice) && bytes.IndexByte(path, '%') < 0 {
			t.Fatalf("normal form of %q isn't stable: %q, %q", path, once, twice)
		}
	})
}

func FuzzMatchDamaged(f *testing.F) {
	f.Add(Parse(usual(), "x").Append(nil), []byte("/a"))
	f.Add(Parse(ruleFile(20), "x").Append(nil), []byte("/x/tag-3/y.pdf"))
	f.Add(Parse([]byte(chain()[:2000]), "x").Append(nil), []byte("/abababab"))
	f.Add(Parse([]byte("User-agent: *\nDisallow: /?u=http%3A//\nAllow: /*?$\n"), "x").Append(nil),
		[]byte("/?u=http:%2f/x"))
	f.Add([]byte{2, 0, 0, 0, 1, 2}, []byte("/a"))
	f.Fuzz(func(t *testing.T, enc, path []byte) {
		Match(enc, path)
		if r, err := DecodeRules(enc); err == nil {
			if got := r.Append(nil); !bytes.Equal(got, enc) {
				t.Fatalf("decoding isn't strict: %q becomes %q", enc, got)
			}
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	enc := Parse(usual(), "x").Append(nil)
	for _, path := range []string{"/some/page.html", "/section-29/private/%7Ex"} {
		b.Run("rules=30/path="+path[1:5], func(b *testing.B) {
			p := []byte(path)
			b.ReportAllocs()
			for b.Loop() {
				Match(enc, p)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	file := usual()
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		Parse(file, "drumbeat")
	}
}
