package scope

import (
	"net/netip"
	"strings"
	"testing"

	"drumbeat/weburl"
)

// FuzzRules: Parse returns faults, or a Set that decides like the naive matcher.
func FuzzRules(f *testing.F) {
	f.Add("+ host example.org\n- host *.example.org # c\n- pld spam.example\ndefault -\n", "http://www.example.org/")
	f.Add("- prefix https://example.org/private/\n+ surt http://(org,example,)/\n", "https://example.org/private/x?y")
	f.Add("+ surt (org,ex\n- surt https://(org,example,:8080)/A\n- prefix http://a/\n", "https://example.org:8080/a")
	f.Add("- regex \\.php\\?\n+ regex ^http\n", "http://a.b/c.php?d")
	f.Add("+ host 192.0.2.1\n- host [2001:db8::1]\n- host bücher.example\n- surt ([2001:db8::1],\n",
		"http://[2001:db8::1]/")
	f.Fuzz(func(t *testing.T, text, ref string) {
		if len(text) > 4096 || len(ref) > 4096 {
			return
		}
		s, err := Parse(Rules, suffixes, Source{"f", []byte(text)})
		if err != nil {
			if err.(*Faults).List[0].String() == "" {
				t.Fatal("an empty fault")
			}
			return
		}
		for i := range s.rules {
			if r := s.Rule(Number(i)); r.Line < 1 || r.Text == "" {
				t.Fatalf("rule %d: %+v", i, r)
			}
		}
		url, err := weburl.Canonical(ref)
		if err != nil {
			return
		}
		if got, want := int(int32(s.Lookup([]byte(url)))), naive(strings.Split(text, "\n"), url); got != want {
			t.Fatalf("%s: got rule %d, want %d of\n%s", url, got, want, text)
		}
	})
}

// FuzzBlacklist: Parse returns faults, or a Set whose networks decide like a linear search.
func FuzzBlacklist(f *testing.F) {
	f.Add("- net 192.0.2.0/24\n+ net 192.0.2.64/28\n- net 0.0.0.0/0\n", []byte{192, 0, 2, 70})
	f.Add("+ net 2001:db8::/32\n- net ::/0\n- net 10.0.0.0/8\n- host a.example\n",
		[]byte{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Add("- net 10.1.2.3\n- net 10.1.2.0/30\n+ net 10.0.0.0/8\n", []byte{10, 1, 2, 3})
	f.Fuzz(func(t *testing.T, text string, addr []byte) {
		if len(text) > 4096 {
			return
		}
		s, err := Parse(Blacklist, suffixes, Source{"f", []byte(text)})
		a, ok := netip.AddrFromSlice(addr)
		if err != nil || !ok {
			return
		}
		want := None
		for i := range s.rules {
			if s.rules[i].kind == netKind && want == None {
				if p := netip.MustParsePrefix(string(s.name(Number(i)))); p.Contains(a.Unmap()) {
					want = Number(i)
				}
			}
		}
		if got := s.Addr(a); got != want {
			t.Fatalf("%v: got rule %d, want %d of\n%s", a, got, want, text)
		}
	})
}
