package robots

import (
	"strings"
	"testing"

	"github.com/temoto/robotstxt"
)

// TestSecondOpinion compares our matcher with temoto's on groups without wildcards.
func TestSecondOpinion(t *testing.T) {
	rng := newRand(t)
	asked := 0
	for range 10000 {
		word := func(n int) string {
			b := []byte("/")
			for range rng.IntN(n) {
				b = append(b, "abc/%ü?=.+"[rng.IntN(11)])
			}
			return string(b)
		}
		file := "User-agent: *\n"
		for range rng.IntN(6) {
			file += []string{"Allow", "Disallow"}[rng.IntN(2)] + ": " + word(4) + "\n"
		}
		r, path := Parse([]byte(file), "x"), []byte(word(6))
		got, _ := r.Match(path)
		want, ok := SecondOpinion(r, path)
		if ok {
			asked++
		}
		if ok && got != want {
			t.Fatalf("%s%s: got allowed %v, second opinion %v", r.Text(), path, got, want)
		}
	}
	if asked < 9000 {
		t.Errorf("second opinion had on %d of 10000 only", asked)
	}
	if _, ok := SecondOpinion(Parse([]byte("User-agent: *\nDisallow: /a*b\n"), "x"), []byte("/")); ok {
		t.Error("second opinion on a wildcard")
	}
}

// TestDeviations shows each deviation of temoto that doc.go lists: raw is its verdict, want ours and
// Google's. If a case fails after an upgrade, shorten the list.
func TestDeviations(t *testing.T) {
	for _, c := range []struct {
		name, file, agent, path string
		raw                     string // allow, deny or error
		want                    bool
	}{
		{"1 bad Crawl-delay", "User-agent: *\nCrawl-delay: 10s\nDisallow: /x\n", "a", "/x", "error", false},
		{"1 rule before any agent", "Disallow: /\nUser-agent: *\nDisallow: /x\n", "a", "/y", "error", true},
		{"2 not anchored", "User-agent: *\nDisallow: /a*b\n", "a", "/x/a1b", "deny", true},
		{"2 end not anchored", "User-agent: *\nDisallow: /bar$\n", "a", "/foo/bar", "deny", true},
		{"3 comment", "User-agent: *\nDisallow: /x#note\n", "a", "/x", "allow", false},
		{"4 space before colon", "User-agent: *\nDisallow : /x\n", "a", "/x", "allow", false},
		{"5 prefix", "User-agent: foo\nDisallow: /\n", "foobot", "/x", "deny", true},
		{"5 version", "User-agent: foobot/2.1\nDisallow: /\n", "foobot", "/x", "allow", false},
		{"6 tie", "User-agent: *\nDisallow: /x\nAllow: /x\n", "a", "/x", "deny", true},
		{"7 length", "User-agent: *\nDisallow: /a.b*c\nAllow: /a.b1cd\n", "a", "/a.b1cd", "deny", true},
		{"8 spelling", "User-agent: *\nDisallow: /%e3\n", "a", "/%E3", "allow", false},
		{"9 star alone", "User-agent: *\nDisallow: *\n", "a", "/x", "allow", false},
		{"10 dollar inside", "User-agent: *\nDisallow: /a$b\n", "a", "/a$b", "allow", false},
		{"11 Crawl-delay splits", "User-agent: a\nCrawl-delay: 1\nUser-agent: b\nDisallow: /x\n", "a", "/x",
			"allow", false},
		{"11 misspelt", "User-agent: *\nDisalow: /x\n", "a", "/x", "allow", false},
		{"15 robots.txt", "User-agent: *\nDisallow: /\n", "a", "/robots.txt", "deny", true},
		{"16 group without rules", "User-agent: *\nDisallow: /\n\nUser-agent: foobot\n", "foobot", "/x", "deny", true},
		{"17 no slash", "User-agent: *\nDisallow: x\n", "a", "/x", "deny", true},
		{"18 NUL", "User-agent: *\nDisallow: /x\x00y\n", "a", "/x", "allow", false},
		{"18 half a BOM", "\xef\xbbUser-agent: *\nDisallow: /x\n", "a", "/x", "error", false},
		{"18 UTF-16", "\xff\xfe" + wide("User-agent: *\nDisallow: /x\n"), "a", "/x", "allow", false},
		{"19 index.html", "User-agent: *\nAllow: /d/index.html\nDisallow: /\n", "a", "/d/", "deny", true},
		{"20 three words", "User-agent foobot x\nDisallow /\n", "foobot", "/x", "deny", true},
		{"11 blank", "User-agent: *\nAllow: /a b\nDisallow: /a\n", "a", "/ac", "allow", false},
	} {
		raw := "error"
		if data, err := robotstxt.FromString(c.file); err == nil {
			raw = "deny"
			if data.TestAgent(c.path, c.agent) {
				raw = "allow"
			}
		}
		if raw != c.raw {
			t.Errorf("%s: temoto says %s, the list %s", c.name, raw, c.raw)
		}
		if got, _ := Parse([]byte(c.file), c.agent).Match([]byte(c.path)); got != c.want {
			t.Errorf("%s: got allowed %v, want %v", c.name, got, c.want)
		}
	}
	if data, err := robotstxt.FromStatusAndBytes(429, nil); err != nil || !data.TestAgent("/", "a") {
		t.Error("12: temoto no longer allows all at 429")
	}
	// 13: thousands of allocations for a file of 300 lines. 14 needs no test: all fields with rules are
	// private.
	file := []byte("User-agent: *\n" + strings.Repeat("Disallow: /a*b*c\n", 300))
	ours := testing.AllocsPerRun(1, func() { Parse(file, "x") })
	theirs := testing.AllocsPerRun(1, func() { robotstxt.FromBytes(file) })
	if theirs < 10*ours {
		t.Errorf("13: temoto allocates %v times, we %v", theirs, ours)
	}
}
