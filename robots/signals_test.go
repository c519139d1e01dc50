package robots

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"drumbeat/internal/damage"
)

// TestContentUsageDraft is the example of draft-ietf-aipref-attach, section 3.4.
func TestContentUsageDraft(t *testing.T) {
	file := []byte("User-Agent: *\nAllow: /\nDisallow: /never/\nContent-Usage: train-ai=n\n" +
		"Content-Usage: /ai-ok/ train-ai=y\n\nUser-Agent: ExampleBot\nAllow: /\nContent-Usage: train-ai=y\n")
	for _, c := range []struct{ agent, path, want string }{
		{"x", "/test", "train-ai=n"}, {"x", "/ai-ok/test", "train-ai=y"}, {"x", "/ai-ok", "train-ai=n"},
		{"ExampleBot", "/test", "train-ai=y"}, {"ExampleBot", "/ai-ok/test", "train-ai=y"},
	} {
		s := Parse(file, c.agent).Signals
		if got := s.UsageAt([]byte(c.path)); string(got) != c.want {
			t.Errorf("%s at %s: got %q, want %q", c.agent, c.path, got, c.want)
		}
	}
}

func TestSignals(t *testing.T) {
	for name, c := range map[string]struct {
		file                  string
		signal, usage, licens string
		bots                  string
	}{
		"contentsignals.org": {"User-Agent: *\nContent-Signal: ai-train=no, search=yes, ai-input=yes\nAllow: /\n",
			"ai-input=yes, ai-train=no, search=yes", "", "", ""},
		"managed file": {"User-agent: *\nContent-Signal: search=yes,ai-train=no,use=reference\nAllow: /\n\n" +
			"User-agent: ClaudeBot\nDisallow: /\n\nUser-agent: *\nAllow: /\n",
			"ai-train=no, search=yes, use=reference", "", "", "ClaudeBot"},
		"own group": {"User-agent: *\nContent-Signal: search=no\nUser-agent: me\nContent-Signal: search=yes\n",
			"search=yes", "", "", ""},
		"only others": {"User-agent: other\nContent-Signal: search=no\nContent-Usage: search=n\nLicense: http://l/\n",
			"", "", "", ""},
		"before the groups": {"License: https://a/l.xml\nContent-Signal: ai-train=no\nUser-agent: *\n" +
			"Content-Signal: ai-train=yes, search=yes\n", "ai-train=no, search=yes", "", "https://a/l.xml", ""},
		"licence of the group": {"License: https://a/l.xml\nUser-agent: me\nLicense: https://b/l.xml # c\n",
			"", "", "https://b/l.xml", ""},
		"relative licence": {"License: /l.xml\nUser-agent: *\nAllow: /\n", "", "", "", ""},
		"most restrictive": {"User-agent: *\nContent-Signal: search=yes, use=full\nContent-Signal: search=no\n" +
			"Content-Signal: search=yes, use=immediate\nContent-Usage: /p train-ai=y\nContent-Usage: /p train-ai=n\n",
			"search=no, use=immediate", "train-ai=n", "", ""},
		"equally specific": {"User-agent: *\nContent-Usage: /p* train-ai=y\nContent-Usage: /*a train-ai=n, search=y\n" +
			"Content-Usage: /pa search=y\n", "", "search=y, train-ai=n", "", ""},
		"not preferences": {"User-agent: *\nContent-Signal: search=maybe, =yes, a b=no, use=yes, other=no, AI = No\n" +
			"Content-Usage: train-ai=yes\nContent-Usage: Train-AI=n\nContent-Usage: search=n,\n" +
			"Content-Usage: x=\"a,b=n\", y;p=1, search=?0, train-ai=n;q=\"a,b\"\nContent-Usage: /path\n",
			"ai=no", "train-ai=n", "", ""},
		"bots": {"User-agent: gptbot\nUser-agent: CCBot/2.0\nDisallow: /p\nAllow: /pa\nUser-agent: Bytespider\n" +
			"Disallow: /pa\nUser-agent: CCBot\nDisallow: /pa/q\nUser-agent: anthropic-ai\nAllow: /\n" +
			"User-agent: Amazonbot\nDisallow:\n", "", "", "", "Bytespider"},
	} {
		r := Parse([]byte(c.file), "me")
		coded := r.Signals.Append(nil)
		s, err := DecodeSignals(coded)
		if err != nil || !bytes.Equal(s.Append(nil), coded) {
			t.Errorf("%s: %v, coding %x", name, err, coded)
		}
		got := []string{string(s.ContentSignal), string(s.UsageAt([]byte("/pa"))), strings.Join(s.Licenses, " "),
			strings.Join(s.DisallowedAt([]byte("/pa")).Names(), " ")}
		if want := []string{c.signal, c.usage, c.licens, c.bots}; !slices.Equal(got, want) || s.Cut {
			t.Errorf("%s: got %q, want %q (cut %v)", name, got, want, s.Cut)
		}
	}
}

// TestNoSignalsNoCost: a file without signals costs as before, and nothing is stored of them.
func TestNoSignalsNoCost(t *testing.T) {
	file := ruleFile(200)
	if s := Parse(file, "x").Signals; !s.IsZero() || len(s.Append(nil)) > 0 {
		t.Errorf("got %+v", s)
	}
	lines := []byte("Crawl-delay: 1\nClean-param: a\nLegal: x\nSitemap: http://a/\n")
	p := parser{}
	p.sitemaps = make([]string, maxSitemaps) // full, so that they allocate nothing
	if n := testing.AllocsPerRun(100, func() { eachLine(lines, p.line) }); n != 0 || p.early != nil {
		t.Errorf("got %v allocations, %+v", n, p.early)
	}
	if size := unsafe.Sizeof(botRule{}); size > 48 {
		t.Errorf("a rule of AI bots has %d bytes", size)
	}
}

// hostileSignals returns files of about MaxInput bytes.
func hostileSignals() map[string][]byte {
	repeat := func(line func(i int) string) []byte {
		b := []byte("User-agent: *\n")
		for i := 0; len(b) < MaxInput-100; i++ {
			b = append(b, line(i)...)
		}
		return b
	}
	bot := func(i int) string { return botNames[i%len(botNames)] }
	return map[string][]byte{
		"signals":  repeat(func(i int) string { return fmt.Sprintf("Content-Signal: a%d=no, search=no\n", i) }),
		"usages":   repeat(func(i int) string { return fmt.Sprintf("Content-Usage: /%d/ train-ai=y, x=n\n", i) }),
		"refusals": repeat(func(i int) string { return fmt.Sprintf("Content-Usage: /*%d* a%d=n, search=n\n", i, i) }),
		"licenses": repeat(func(i int) string { return fmt.Sprintf("License: https://a/%0*d\n", i%250, i) }),
		"bots":     repeat(func(i int) string { return fmt.Sprintf("User-agent: %s\nDisallow: /%d/\n", bot(i), i) }),
		"sets": repeat(func(i int) string {
			return fmt.Sprintf("User-agent: %s\nUser-agent: %s\nDisallow: /%d/*%d\n", bot(i), bot(i/3), i%50, i)
		}),
		"contradictions": repeat(func(i int) string {
			return fmt.Sprintf("Content-Signal: search=%s\nContent-Usage: /a search=%c\n", []string{"yes", "no"}[i&1],
				"yn"[i&1])
		}),
		"one line": []byte("User-agent: *\nContent-Usage: " + strings.Repeat("train-ai=n,", 40000) + "search=n\n"),
		"names":    []byte("User-agent: *\nContent-Usage: " + strings.Repeat("a", 16000) + "=n\n"),
	}
}

// TestHostileSignals: 500 KiB of signals fit the limits, and what was cut forbids more, not less.
func TestHostileSignals(t *testing.T) {
	for name, file := range hostileSignals() {
		var r *Rules
		if n := damage.Allocated(func() { r = Parse(file, "x") }); n > 32<<20 {
			t.Errorf("%s: %d bytes allocated", name, n)
		}
		s := r.Signals
		if coded := s.Append(nil); len(coded) > MaxSignals {
			t.Errorf("%s: %d bytes", name, len(coded))
		}
		if name != "contradictions" && name != "names" && name != "signals" && !s.Cut {
			t.Errorf("%s: not marked as cut", name)
		}
		short := s.fit(maxSummedSignals)
		if n := len(short.Append(nil)); n > maxSummedSignals {
			t.Errorf("%s: %d bytes without paths", name, n)
		}
		for _, s := range []Signals{s, short} {
			path := []byte("/3/3")
			switch name {
			case "refusals", "contradictions":
				if s.UsageAt([]byte("/a")).Get("search") != "n" {
					t.Errorf("%s: got usage %q", name, s.UsageAt([]byte("/a")))
				}
			case "bots", "sets":
				if s.DisallowedAt(path)&botOf([]byte(botNames[3])) == 0 {
					t.Errorf("%s: got %q", name, s.DisallowedAt(path).Names())
				}
			}
		}
	}
}

// TestBotsAgreeWithParse compares the rules of AI bots with those that the bots' own token would get.
func TestBotsAgreeWithParse(t *testing.T) {
	rng := newRand(t)
	for range 300 {
		var b strings.Builder
		for range rng.IntN(12) {
			switch rng.IntN(3) {
			case 0:
				fmt.Fprintf(&b, "User-agent: %s\n", []string{"GPTBot", "CCBot", "ClaudeBot", "me", "*"}[rng.IntN(5)])
			default:
				fmt.Fprintf(&b, "%s: /%s\n", []string{"Allow", "Disallow"}[rng.IntN(2)], "abab"[rng.IntN(3):])
			}
		}
		s := Parse([]byte(b.String()), "me").Signals
		for _, path := range []string{"/", "/a", "/b", "/ab", "/bab"} {
			for _, bot := range []string{"GPTBot", "CCBot", "ClaudeBot"} {
				r := Parse([]byte(b.String()), bot)
				allowed, _ := r.Match([]byte(path))
				want := r.Own && !allowed
				if got := s.DisallowedAt([]byte(path))&botOf([]byte(bot)) != 0; got != want {
					t.Fatalf("%q\n%s at %s: got disallowed %v, want %v", b.String(), bot, path, got, want)
				}
			}
		}
	}
}

// TestBotsCut: of a bot whose rules are not all kept, everything counts as disallowed.
func TestBotsCut(t *testing.T) {
	b := []byte("User-agent: CCBot\n")
	for range maxBotRules {
		b = append(b, "Disallow: /a/\n"...)
	}
	for _, more := range []string{"", "Disallow: /z/\n"} {
		s := Parse(append(bytes.Clone(b), more...), "me").Signals
		if got := s.DisallowedAt([]byte("/z/")) != 0; got != (more != "") || s.Cut != (more != "") {
			t.Errorf("with %q: disallowed %v, cut %v", more, got, s.Cut)
		}
	}
}

func TestGoldenSignals(t *testing.T) {
	s := Parse([]byte("User-agent: *\nContent-Signal: ai-train=no\nContent-Usage: /a/ search=y\n"+
		"License: https://l/\nUser-agent: GPTBot\nDisallow: /\n"), "me").Signals
	want := "\x01\x00" + "\x01\x11" + // version, not cut; one preference: name 2, value 1
		"\x01" + "\x03\x03/a/" + "\x01\x25" + // one usage: weight, path, name 4 and value 5
		"\x01" + "\x0ahttps://l/" + // one licence
		"\x01" + "\x01" + "\x0b" + // one group: bot 0, 11 bytes of rules
		"\x02\x00\x00\x00\x01\x00\x01\x00\x00\x00/"
	if got := s.Append(nil); string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for i := 1; i < len(want); i++ {
		if _, err := DecodeSignals([]byte(want[:i])); err == nil {
			t.Errorf("decode of the first %d bytes: no error", i)
		}
	}
}

func TestStatement(t *testing.T) {
	at := time.Unix(1_795_262_400, 0).UTC()
	digest := sha1.Sum([]byte("file"))
	file := "User-agent: *\nCrawl-delay: 3\nDisallow: /x\nAllow: /x/y\nContent-Signal: ai-train=no\n" +
		"Content-Usage: /x/ train-ai=n\nUser-agent: CCBot\nDisallow: /x/y\n"
	h := Outcome(&HostData{}, &Fetched{Status: 200, Body: []byte(file), Digest: digest}, "me", at)
	for path, want := range map[string]Statement{
		"/x/y": {Rule: "Allow: /x/y", ContentUsage: "train-ai=n", Disallowed: botOf([]byte("CCBot"))},
		"/":    {},
	} {
		want.Digest, want.Fetched, want.Group, want.ContentSignal = digest, at, GroupAll, "ai-train=no"
		got, err := h.Statement([]byte(path))
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", path, got, err, want)
		}
		s := h.Summary()
		s.SetStatement(&got, nil)
		coded := s.Append(nil)
		var sum Summary
		var back Statement
		if err := sum.Decode(coded); err != nil || back.Decode(sum.Statement) != nil || back != want {
			t.Errorf("%s: got %+v, %v back", path, back, err)
		}
		if sum.CrawlDelay != 3*time.Second || !bytes.Equal(sum.Append(nil), coded) {
			t.Errorf("%s: summary %x, %+v", path, coded, sum)
		}
		for i := 1; i < len(s.Statement); i++ {
			if back.Decode(s.Statement[:i]) == nil {
				t.Errorf("%s: decode of the first %d bytes: no error", path, i)
			}
		}
	}
	// A stale copy keeps the file; no file and an unknown digest have no statement.
	stale := Outcome(&h, &Fetched{Kind: NetworkFailure}, "me", at.Add(time.Hour))
	if l, err := stale.Statement([]byte("/")); err != nil || l.Digest != digest || !l.Fetched.Equal(at) {
		t.Errorf("stale copy: got %+v, %v", l, err)
	}
	for _, f := range []Fetched{{Status: 404}, {Status: 200, Body: []byte(file)}} {
		h := Outcome(&HostData{}, &f, "me", at)
		l, err := h.Statement([]byte("/"))
		if err != nil || l != (Statement{}) || len(l.Append(nil, MaxStatement)) != 0 {
			t.Errorf("%d: got %+v, %v", f.Status, l, err)
		}
	}
}

// TestFullFile: rules that fill their limit leave room for the signals without paths.
func TestFullFile(t *testing.T) {
	b := []byte("User-agent: *\n")
	for i := range 2038 {
		if i < 40 {
			b = fmt.Appendf(b, "Content-Usage: /%d/ train-ai=n\n", i)
		}
		b = fmt.Appendf(b, "Disallow: /*%024d\n", i)
	}
	h := Outcome(&HostData{}, &Fetched{Status: 200, Body: b, Digest: sha1.Sum(b)}, "me", time.Unix(1_795_262_400, 0))
	coded := h.Append(nil)
	var back HostData
	if err := back.Decode(coded); err != nil || len(coded) > MaxEncoded+MaxMore {
		t.Fatalf("%d bytes, %v", len(coded), err)
	}
	if l, err := back.Statement([]byte("/z")); err != nil || l.ContentUsage != "train-ai=n" || !l.Cut {
		t.Errorf("got %+v, %v", l, err)
	}
}

func FuzzSignals(f *testing.F) {
	for _, file := range hostileSignals() {
		f.Add(file[:400], []byte("/3/3"))
	}
	f.Add([]byte("Content-Usage: /*a$ train-ai=n\nlicense:x:\nuser-agent:ccbot\ndisallow:*"), []byte("/a?b=%41"))
	f.Fuzz(func(t *testing.T, file, path []byte) {
		s := Parse(file, "me").Signals
		coded := s.Append(nil)
		back, err := DecodeSignals(coded)
		if err != nil || !bytes.Equal(back.Append(nil), coded) || len(coded) > MaxSignals {
			t.Fatalf("%v in %d bytes %q", err, len(coded), coded)
		}
		short := s.fit(maxSummedSignals)
		if n := len(short.Append(nil)); n > maxSummedSignals {
			t.Fatalf("%d bytes without paths", n)
		}
		if s.DisallowedAt(path)&^short.DisallowedAt(path) != 0 {
			t.Fatalf("%q: without paths, fewer bots are disallowed", file)
		}
		_, _ = DecodeSignals(file) // no panic
		h := Outcome(&HostData{}, &Fetched{Status: 200, Body: file, Digest: [sha1.Size]byte{1}}, "me",
			time.Unix(1_795_262_400, 0))
		l, err := h.Statement(path)
		if err != nil {
			t.Fatal(err)
		}
		var again Statement
		s3 := h.Summary()
		s3.SetStatement(&l, nil)
		if b := s3.Append(nil); len(b) > MaxSummary {
			t.Fatalf("summary of %d bytes", len(b))
		}
		l.Licenses, l.Rule = "", shortened(l.Rule, MaxStatement)
		if b := l.Append(nil, 2*MaxStatement); again.Decode(b) != nil || again != l {
			t.Fatalf("%+v becomes %+v in %d bytes", l, again, len(b))
		}
		_ = again.Decode(file)
	})
}

// BenchmarkStatement measures a page's statement: of a file without signals, of one with all, and with tdmrep.json.
func BenchmarkStatement(b *testing.B) {
	plain := string(ruleFile(30))
	full := plain + "Content-Signal: search=yes, ai-train=no\nContent-Usage: train-ai=n\n" +
		"Content-Usage: /news/ train-ai=y\n" +
		"License: https://example.org/license.xml\nUser-agent: GPTBot\nUser-agent: CCBot\nDisallow: /\n"
	for _, c := range []struct{ name, file string }{{"plain", plain}, {"signals", full}, {"tdmrep", plain}} {
		b.Run(c.name, func(b *testing.B) {
			f := Fetched{Status: 200, Body: []byte(c.file), Digest: sha1.Sum(nil)}
			h := Outcome(&HostData{}, &f, "x", time.Now())
			if c.name == "tdmrep" {
				r := ParseReservations([]byte(`[{"location": "/a/", "tdm-reservation": 0},
					{"location": "/", "tdm-reservation": 1, "tdm-policy": "https://example.org/terms"}]`))
				h.setReservations(r.Append(nil))
			}
			buf, path := make([]byte, 0, MaxStatement), []byte("/news/2024/05/an-article-of-usual-length.html")
			b.ReportAllocs()
			for b.Loop() {
				l, err := h.Statement(path)
				if err != nil {
					b.Fatal(err)
				}
				buf = l.Append(buf[:0], MaxStatement)
			}
			b.ReportMetric(float64(len(buf)), "B/statement")
		})
	}
}

// BenchmarkParse measures a usual file, with and without signals.
func BenchmarkParseSignals(b *testing.B) {
	plain := ruleFile(30)
	signals := "Content-Signal: search=yes, ai-train=no\nUser-agent: GPTBot\nDisallow: /\n"
	for name, file := range map[string][]byte{"plain": plain, "signals": append(bytes.Clone(plain), signals...)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Parse(file, "x")
			}
		})
	}
}
