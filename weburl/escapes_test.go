package weburl

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// TestFoldEscapes: escapes that must and must not be merged (RFC 3986, 6.2.2.1 and 6.2.2.2).
func TestFoldEscapes(t *testing.T) {
	r := NewResolver(Options{Fold: true})
	for _, test := range []struct{ ref, want string }{
		{"/%7Euser/%c3%a9", "/~user/%C3%A9"},
		{"/~user/%C3%A9", "/~user/%C3%A9"},
		{"/~user/\u00E9", "/~user/%C3%A9"},
		{"/%41%5a%61%7A%30%39%2d%2E%5F%7e", "/AZaz09-._~"},
		{"/?%41=%7e&b=%c3#%41", "/?A=~&b=%C3"},
		{"/a%2fb%3fc%00%26%23%25%20%5c%2b", "/a%2Fb%3Fc%00%26%23%25%20%5C%2B"},
		{"/%2541", "/%2541"}, // %25 is not decoded
		{"/%%341", "/%%341"}, // would be a new escape
		{"/%%34z", "/%%34z"},
		{"/%4%31", "/%4%31"},
		{"/%4%7e", "/%4~"},
		{"/%%7e41", "/%~41"},
		{"/%zz%41%", "/%zzA%"},
		{"/%4", "/%4"},
		{"/%c", "/%c"},
		{"/%2e%2E/x", "/x"},
		{"/a/%%32e", "/a/%%32e"}, // nor "."
		{"/a/%2%65/b", "/a/%2%65/b"},
		{"/%2e%2e%2e/", "/.../"},
		{"/x%2e/%2ey", "/x./.y"},
		{"x%7ey", "/d/x~y"},
		{"../%7ey", "/~y"},
		{"?%7e", "/d/?~"},
		{"http://a.test/%7e", "/~"},
		{"http://a.test?%7e", "/?~"},
	} {
		base, err := NewBase([]byte("http://a.test/d/"))
		must(t, err)
		got, err := r.AppendResolve([]byte("dst%41"), base, []byte(test.ref))
		if want := "dst%41http://a.test" + test.want; err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", test.ref, got, err, want)
		}
		kept, err := NewResolver(Options{}).AppendResolve(nil, base, []byte(test.ref))
		if standard, err2 := StandardCanonical("http://a.test/d/", test.ref); err != nil || err2 != nil ||
			string(kept) != standard {
			t.Errorf("%s as the standard has it: got %s, %v, want %s, %v", test.ref, kept, err, standard, err2)
		}
	}
}

// TestEachOctetsEscape: all spellings of an escape are one URL, with a raw octet only for unreserved
// characters.
func TestEachOctetsEscape(t *testing.T) {
	r := NewResolver(Options{Fold: true})
	for _, form := range []string{"http://a.test/x%sy", "http://a.test/?x%sy"} {
		for c := range 256 {
			var urls []string
			for _, spelling := range []string{"%%%02x", "%%%02X"} {
				url, err := r.AppendResolve(nil, nil, fmt.Appendf(nil, form, fmt.Sprintf(spelling, c)))
				must(t, err)
				urls = append(urls, string(url))
			}
			want := fmt.Sprintf(form, fmt.Sprintf("%%%02X", c))
			if strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~", byte(c)) >= 0 {
				want = fmt.Sprintf(form, string(byte(c)))
			}
			if urls[0] != want || urls[1] != want {
				t.Errorf("escapes of %#02x: got %q, want %s", c, urls, want)
			}
		}
	}
}

// FuzzFoldEscapes: folding is idempotent and keeps a URL canonical with the same meaning. A reference
// resolves to the same URL whether it is folded at the end or during resolution.
func FuzzFoldEscapes(f *testing.F) {
	for _, s := range []string{"/%7Euser/%c3%a9?%41%2f", "/%%341", "/%4%31/%2%65", "/a/%%32e%2e/../x",
		"x%7e/%2e./y#%41", "?%", "%%%%34%31%"} {
		f.Add("http://a.test/d%41/e?q=%7e", s)
	}
	f.Fuzz(func(t *testing.T, baseURL, ref string) {
		plain, folding := NewResolver(Options{MaxBytes: Unlimited}),
			NewResolver(Options{MaxBytes: Unlimited, Fold: true})
		canonical, err := plain.AppendResolve(nil, nil, []byte(baseURL))
		if err != nil {
			return
		}
		base, err := NewBase(canonical)
		must(t, err)
		kept, err := plain.AppendResolve(nil, base, []byte(ref))
		folded, err2 := folding.AppendResolve(nil, base, []byte(ref))
		if (err == nil) != (err2 == nil) {
			t.Fatalf("%q: %v with folding, %v without", ref, err2, err)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(folded, FoldEscapes(bytes.Clone(kept))) && bytes.IndexByte(canonical, '%') < 0 {
			t.Fatalf("%q: got %s, want %s folded", ref, folded, kept)
		}
		folded = FoldEscapes(bytes.Clone(kept))
		if again := FoldEscapes(bytes.Clone(folded)); !bytes.Equal(again, folded) {
			t.Fatalf("%s folded is %s, and folded again %s", kept, folded, again)
		}
		for _, r := range []*Resolver{plain, folding} {
			if again, err := r.AppendResolve(nil, nil, folded); err != nil || !bytes.Equal(again, folded) {
				t.Fatalf("%s isn't canonical: it becomes %s, %v", folded, again, err)
			}
		}
		// Without stray % the meaning is the same.
		a, err := url.PathUnescape(string(kept))
		b, err2 := url.PathUnescape(string(folded))
		if err == nil && (err2 != nil || a != b) {
			t.Fatalf("%s folded is %s, which means another thing", kept, folded)
		}
	})
}
