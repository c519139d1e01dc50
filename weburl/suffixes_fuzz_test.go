package weburl

import (
	"strings"
	"testing"
)

// FuzzSuffixes: a list that loads is written so that it loads to the same rules. Each host gets the same
// PLD, which is the end of the host and its own PLD.
func FuzzSuffixes(f *testing.F) {
	f.Add("com\n*.ck\n!www.ck\nco.uk\n// ===BEGIN PRIVATE DOMAINS===\ngithub.io\n", "a.b.www.ck")
	f.Add("// c\n\nb\u00fccher.example \t x\nCOM", "x.b\u00fccher.example")
	f.Add("*.*\n", "a")
	f.Add("x\n"+strings.Repeat("\u00fc", 3000), "x") // its punycode is longer than a line may be
	f.Add("!x\n*.x.y\nx.y\n", "z.x.y")
	f.Fuzz(func(t *testing.T, list, host string) {
		host = strings.TrimSuffix(host, ".")
		if strings.Contains("."+host+".", "..") {
			return // not a host of a canonical URL
		}
		for _, private := range []bool{false, true} {
			s, err := LoadSuffixes([]byte(list), private)
			if err != nil {
				return
			}
			var text strings.Builder
			if _, err := s.WriteTo(&text); err != nil {
				t.Fatal(err)
			}
			again, err := LoadSuffixes([]byte(text.String()), private)
			if err != nil || again.Digest() != s.Digest() || again.Len() != s.Len() {
				t.Fatalf("%q is written as %q: %v", list, text.String(), err)
			}
			pld := s.PLD(host)
			if other := again.PLD(host); other != pld {
				t.Fatalf("PLD(%q) is %q, then %q", host, pld, other)
			}
			if !strings.HasSuffix(host, pld) {
				t.Fatalf("PLD(%q) is %q", host, pld)
			}
			if twice := s.PLD(pld); twice != pld {
				t.Fatalf("PLD(%q) is %q, whose PLD is %q", host, pld, twice)
			}
		}
	})
}
