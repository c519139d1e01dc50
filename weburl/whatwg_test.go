package weburl

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nlnwa/whatwg-url/url"
)

func TestWHATWG(t *testing.T) {
	tests := []struct{ base, ref, want string }{
		{"", "HTTP://User:Pw@EXAMPLE.com:80/a/../b?c#d e", "http://User:Pw@example.com/b?c#d%20e"},
		{"http://example.com/a/b", "c#d", "http://example.com/a/c#d"},
		{"http://u@example.com/a/b", "//b\u00FCcher.example:1/", "http://xn--bcher-kva.example:1/"},
		{"http://u@a_b.b\u00FCcher.example/a/b", "c", "http://u@a_b.xn--bcher-kva.example/a/c"},
		{"http://placeholder/", "x", "http://placeholder/x"},
		{"", "javascript:alert( 1 )", "javascript:alert( 1 )"},
		{"", "mailto:a@b", "mailto:a@b"},
		{"", "file:///C|/x/../y", "file:///C:/y"},
		{"", "file://localhost/x", "file:///x"},
		{"", "file://placeholder/x", "file://placeholder/x"},
		{"file:///a/b", "c", "file:///a/c"},
		{"", "data:text/html,<p>#x", "data:text/html,<p>#x"},
		{"", "ftp://h\u00E4/x", "ftp://xn--h-0fa/x"},
		{"", "ws://0x7f.1:80/", "ws://127.0.0.1/"},
		{"", "foo://B\u00DC/x", "foo://B%C3%9C/x"},
		{"http://[::1]/", "/x", "http://[::1]/x"},
		{"", "http://a/^", "http://a/%5E"},
		{"", "", ""},
		{"", "/x", ""},
		{"mailto:x", "y", ""},
		{"http://[/", "http://y/", ""},
		{"", "http://a b/", ""},
	}
	for _, test := range tests {
		got, err := WHATWG(test.base, test.ref)
		if got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("WHATWG(%q, %q): got %q, %v, want %q", test.base, test.ref, got, err, test.want)
		}
	}
}

// compareWithStandard compares a Resolver with the library's parser of the whole standard.
func compareWithStandard(t *testing.T, r *Resolver, baseURL, ref string) {
	t.Helper()
	if len(baseURL)+len(ref) > 2000 {
		return
	}
	got := testResolve(r, baseURL, ref)
	if strings.HasPrefix(got, "bad base") || got == "long" {
		return
	}
	want, err := StandardCanonical(baseURL, ref)
	if got == "scheme" {
		if err == nil {
			t.Fatalf("%q relative to %q: got ErrScheme, want %s", ref, baseURL, want)
		}
		return
	}
	if err == ErrScheme {
		want = "scheme"
	} else if err != nil {
		want = "parse"
	}
	if got != want {
		t.Fatalf("%q relative to %q: got %s, want %s", ref, baseURL, got, want)
	}
}

func TestResolveTableAgainstStandard(t *testing.T) {
	r := NewResolver(Options{})
	for _, test := range resolveTests {
		compareWithStandard(t, r, test.base, test.ref)
	}
}

// TestResolveAgainstStandard composes references from pieces that parsers often get wrong.
func TestResolveAgainstStandard(t *testing.T) {
	const seed = 3
	n := 100_000
	if testing.Short() {
		n = 25_000
	}
	rnd := rand.New(rand.NewPCG(seed, 0))
	pieces := strings.Split(
		"/|//|\\|?|#|:|@|.|..|%2e|%2E.|http|https|http:|HTTPS://|a|b.c|EXAMPLE.com|[::1]|[|]|1|0x|08|256|%41|%|%zz|"+
			"\u00FC|\u0416|\xFF| "+
			"|\t|\n|\x00|\x7F|\"|'|<|>|^|`|{|}|80|443|:80|65536|xn--|xn--bcher-kva|_|-|+|&|=|~|\u3002|\u00AD|;|,|!",
		"|")
	pieces = append(pieces, "|")
	bases := []string{"", "http://example.com/a/b?c#d", "https://h:8/x/", "http://[::1]/", "http://1.2.3.4",
		"http://\u00FC/%2e/\u00FC"}
	r := NewResolver(Options{})
	var b strings.Builder
	for range n {
		b.Reset()
		for range 1 + rnd.IntN(8) {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		compareWithStandard(t, r, bases[rnd.IntN(len(bases))], b.String())
	}
}

// TestAddressesAgainstLibrary checks our address parsers, which compareWithStandard also uses on the other
// side.
func TestAddressesAgainstLibrary(t *testing.T) {
	const seed = 4
	rnd := rand.New(rand.NewPCG(seed, 0))
	v4, v6 := strings.Split("0 1 9 255 256 0x 0xff 0377 08 65535 4294967295 . . . . .. a", " "),
		strings.Split("0 0 0 1 ffff FF 12345 : : : : :: :: 1.2.3.4 . 00", " ")
	var h hostParser
	for i := range 100_000 {
		var b strings.Builder
		pieces := v4
		if i%2 == 0 {
			pieces = v6
			b.WriteByte('[')
		}
		for range 1 + rnd.IntN(16) {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		if i%2 == 0 {
			b.WriteByte(']')
		}
		if i%2 == 1 && longLabel(b.String()) {
			continue // the library takes a name that starts with 20 digits for a number
		}
		want := "error"
		if u, err := url.Parse("http://" + b.String() + "/"); err == nil {
			want = u.Hostname()
		}
		got, err := h.append(nil, []byte(b.String()))
		if err != nil {
			got = []byte("error")
		}
		if string(got) != want {
			t.Fatalf("seed %d, host %q: got %s, want %s", seed, b.String(), got, want)
		}
	}
}

func longLabel(host string) bool {
	for _, label := range strings.Split(host, ".") {
		if len(label) > 15 {
			return true
		}
	}
	return false
}

func FuzzStandard(f *testing.F) {
	for _, test := range resolveTests {
		f.Add(test.base, test.ref)
	}
	r := NewResolver(Options{})
	f.Fuzz(func(t *testing.T, base, ref string) { compareWithStandard(t, r, base, ref) })
}
