package weburl

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weppos/publicsuffix-go/publicsuffix"
)

func TestPLD(t *testing.T) {
	icann, private := NewSuffixes(false), NewSuffixes(true)
	tests := []struct{ host, icann, private string }{
		{"example.com", "example.com", "example.com"},
		{"a.b.example.com", "example.com", "example.com"},
		{"com", "com", "com"},
		{"www.example.co.uk", "example.co.uk", "example.co.uk"},
		{"co.uk", "co.uk", "co.uk"},
		{"uk", "uk", "uk"},
		{"user.github.io", "github.io", "user.github.io"},
		{"a.user.github.io", "github.io", "user.github.io"},
		{"github.io", "github.io", "github.io"},
		{"blog.blogspot.com", "blogspot.com", "blog.blogspot.com"},
		{"foo.bar.ck", "foo.bar.ck", "foo.bar.ck"}, // *.ck
		{"a.foo.bar.ck", "foo.bar.ck", "foo.bar.ck"},
		{"bar.ck", "bar.ck", "bar.ck"},
		{"www.ck", "www.ck", "www.ck"}, // !www.ck
		{"a.b.www.ck", "www.ck", "www.ck"},
		{"a.b.city.kawasaki.jp", "city.kawasaki.jp", "city.kawasaki.jp"},
		{"a.b.c.kawasaki.jp", "b.c.kawasaki.jp", "b.c.kawasaki.jp"},
		{"c.kawasaki.jp", "c.kawasaki.jp", "c.kawasaki.jp"},
		{"www.xn--85x722f.com.cn", "xn--85x722f.com.cn", "xn--85x722f.com.cn"},
		{"a.shishi.xn--fiqs8s", "shishi.xn--fiqs8s", "shishi.xn--fiqs8s"},
		{"a.xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn"},
		{"a.b.unlisted", "b.unlisted", "b.unlisted"},
		{"localhost", "localhost", "localhost"},
		{"192.0.2.1", "192.0.2.1", "192.0.2.1"},
		{"[2001:db8::1]", "[2001:db8::1]", "[2001:db8::1]"},
		{"www.example.com.", "example.com", "example.com"},
		{"com.", "com", "com"},
		{"", "", ""},
		{".", ".", "."},
		{"..", ".", "."},
		{"a..com", ".com", ".com"},
		{"x1.2x", "x1.2x", "x1.2x"},
	}
	for _, test := range tests {
		if got := icann.PLD(test.host); got != test.icann {
			t.Errorf("PLD(%q): got %q, want %q", test.host, got, test.icann)
		}
		if got := private.PLD(test.host); got != test.private {
			t.Errorf("with the private section: PLD(%q): got %q, want %q", test.host, got, test.private)
		}
		if got := icann.PLDBytes([]byte(test.host)); string(got) != test.icann {
			t.Errorf("PLDBytes(%q): got %q, want %q", test.host, got, test.icann)
		}
	}
	for host, want := range map[string]bool{"com": true, "co.uk": true, "x.ck": true, "www.ck": false,
		"example.com": false, "com.": true, "1.2.3.4": false, "": false, "github.io": false} {
		if got := icann.IsSuffix(host); got != want {
			t.Errorf("IsSuffix(%q): got %v, want %v", host, got, want)
		}
	}
}

// TestPLDAgainstLibrary compares with the library's own lookup for every rule of the list, with labels
// prepended. Where the library says "is a suffix", the host is its own PLD here.
func TestPLDAgainstLibrary(t *testing.T) {
	for _, private := range []bool{false, true} {
		s := NewSuffixes(private)
		opt := &publicsuffix.FindOptions{IgnorePrivate: !private, DefaultRule: publicsuffix.DefaultRule}
		for _, rule := range publicsuffix.DefaultRules() {
			for _, labels := range []string{"", "a.", "b.a.", "c.b.a."} {
				host := labels + rule.Value
				want, err := publicsuffix.DomainFromListWithOptions(publicsuffix.DefaultList, host, opt)
				if err != nil || strings.HasPrefix(want, ".") {
					want = host
				}
				if got := s.PLD(host); got != want {
					t.Fatalf("private %v: PLD(%q): got %q, want %q", private, host, got, want)
				}
			}
		}
	}
}

func TestSuffixesCopy(t *testing.T) {
	s := NewSuffixes(false)
	var b bytes.Buffer
	n, err := s.WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("WriteTo: got %d, %v, want %d", n, err, b.Len())
	}
	text := b.String()
	for _, private := range []bool{false, true} {
		back, err := parseSuffixes([]byte(text), private) // LoadSuffixes knows this text
		must(t, err)
		if want := NewSuffixes(private).Digest(); back.Digest() != want {
			t.Errorf("private %v: digest of the copy: got %s, want %s", private, back.Digest(), want)
		}
		var again bytes.Buffer
		if back.WriteTo(&again); again.String() != text {
			t.Errorf("private %v: a copy of the copy differs", private)
		}
	}
	if s.Digest() == NewSuffixes(true).Digest() {
		t.Error("digest does not tell the sections apart")
	}
}

func TestLoadSuffixes(t *testing.T) {
	s, err := LoadSuffixes([]byte("// comment\n\ncom\nCO.uk trailing words\n*.ck\n!www.ck\n公司.cn\t// x\n"+
		"// ===BEGIN PRIVATE DOMAINS===\ngithub.io\n// ===END PRIVATE DOMAINS===\n"), true)
	must(t, err)
	for host, want := range map[string]string{"a.b.co.uk": "b.co.uk", "a.b.xn--55qx5d.cn": "b.xn--55qx5d.cn",
		"a.b.github.io": "b.github.io", "a.b.c.ck": "b.c.ck", "a.b.uk": "b.uk"} {
		if got := s.PLD(host); got != want {
			t.Errorf("PLD(%q): got %q, want %q", host, got, want)
		}
	}
	for _, bad := range []string{"", "// nothing\n", "com\n.org\n", "com\n*\n", "com\n!\n", "a.*.b\n", "*.\n", "a..b\n",
		"// ===BEGIN PRIVATE DOMAINS===\ngithub.io\n", "com\n<html>/\n"} {
		if _, err := LoadSuffixes([]byte(bad), false); err == nil {
			t.Errorf("LoadSuffixes(%q): no error", bad)
		}
	}
}

func TestPLDAllocs(t *testing.T) {
	s := NewSuffixes(false)
	host, bytes := "www.static.example.co.uk", []byte("www.static.example.co.uk")
	if n := testing.AllocsPerRun(100, func() { s.PLD(host); s.PLDBytes(bytes); s.IsSuffix(host) }); n != 0 {
		t.Errorf("allocations: got %v, want 0", n)
	}
}

func FuzzPLD(f *testing.F) {
	s := NewSuffixes(true)
	for _, host := range []string{"a.b.co.uk", "a..b.", ".", "1.2.3.4", "[::1]", "x.www.ck"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		pld := s.PLD(host)
		if !strings.Contains(host, pld) || host != "" && pld == "" {
			t.Fatalf("PLD(%q): got %q", host, pld)
		}
		if again := s.PLD(pld); again != pld && !strings.Contains(host, "..") {
			t.Fatalf("PLD(%q) is %q, whose PLD is %q", host, pld, again)
		}
		if b := s.PLDBytes([]byte(host)); string(b) != pld {
			t.Fatalf("PLDBytes(%q): got %q, want %q", host, b, pld)
		}
	})
}

func BenchmarkPLD(b *testing.B) {
	s := NewSuffixes(false)
	hosts := make([]string, 4096)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range hosts {
		name := make([]byte, 8)
		for j := range name {
			name[j] = byte('a' + r.IntN(26))
		}
		hosts[i] = "www." + string(name) + []string{".com", ".co.uk", ".de", ".tokyo.jp"}[i%4]
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.PLD(hosts[i%len(hosts)])
	}
}
