package weburl

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

const testBase = "http://Example.com:80/a/b/c?q=1"

// resolveTests: want is the canonical URL, or the name of an error.
var resolveTests = []struct{ base, ref, want string }{
	// Absolute.
	{"", "http://example.com", "http://example.com/"},
	{"", "HTTPS://EXAMPLE.COM:443/A?B#C", "https://example.com/A?B"},
	{"", "http://example.com:443/", "http://example.com:443/"},
	{"", "http://example.com:0080/", "http://example.com/"},
	{"", "http://example.com:/", "http://example.com/"},
	{"", "http://example.com:65535/", "http://example.com:65535/"},
	{"", "http://example.com:65536/", "parse"},
	{"", "http://example.com:8a/", "parse"},
	{"", "http://user:pass@example.com/", "http://example.com/"},
	{"", "http://a@b@c@example.com/@", "http://example.com/@"},
	{"", "http://user@/x", "parse"},
	{"", "http://user@:80/x", "parse"},
	{"", "http://?x", "parse"},
	{"", "http:example.com/x", "http://example.com/x"},
	{"", "http:///example.com/x", "http://example.com/x"},
	{"", `http:\\example.com\x\..\y`, "http://example.com/y"},
	{"", "  http://example.com/ \x00", "http://example.com/"},
	{"", "ht\ntp://exa\tmple.com/a\r\nb", "http://example.com/ab"},
	{"", "/x", "parse"},
	{"", "", "parse"},
	{"", "http", "parse"},
	// Hosts.
	{"", "http://a_b.ex-ample.com./", "http://a_b.ex-ample.com./"},
	{"", "http://ex%41mple.com/", "http://example.com/"},
	{"", "http://b\u00FCcher.example/", "http://xn--bcher-kva.example/"},
	{"", "http://B\u00DCCHER.example/", "http://xn--bcher-kva.example/"},
	{"", "http://fa\u00DF.example/", "http://xn--fa-hia.example/"},
	{"", "http://a_b.b\u00FCcher.example/", "http://a_b.xn--bcher-kva.example/"},
	{"", "http://XN--BCHER-KVA.example/", "http://xn--bcher-kva.example/"},
	{"", "http://ab--cd.example/", "http://ab--cd.example/"},
	{"", "http://-a.example/", "http://-a.example/"},
	{"", "http://xn--a.example/", "http://xn--a.example/"},
	{"", "http://XN--8I7caa.example/", "http://xn--8i7caa.example/"},
	{"", "http://xn--1ug.example/", "http://xn--1ug.example/"},
	{"", "http://xn--/", "http://xn--/"},
	{"", "http://xn--b=/", "http://xn--b=/"},
	{"", "http://xn--a.b\u00FCcher.example/", "parse"},
	{"", "http://xn--b\u00FCcher.example/", "parse"},
	{"", "http://\u1E9Ex.example/", "http://xn--x-pfa.example/"},
	{"", "http://\u04C0.example/", "http://xn--s5a.example/"},
	{"", "http://a\u206B\u180E\u3164b.example/", "http://ab.example/"},
	{"", "http://\u10A0.example/", "http://xn--rkj.example/"},
	{"", "http://\U0002F868.example/", "http://xn--snl.example/"},
	{"", "http://\U0001CCD6\U0001CCF9.example/", "http://a9.example/"},
	{"", "http://=\u0338.example/", "http://xn--1ch.example/"},
	{"", "http://a..b\u00FC./", "http://a..xn--b-eha./"},
	{"", "http://\u3002example\u3002com/", "http://.example.com/"},
	{"", "http://\u00AD/", "parse"},
	{"", "http://a\u200Db.example/", "parse"},
	{"", "http://exa mple.com/", "parse"},
	{"", "http://exa<mple.com/", "parse"},
	{"", "http://exa%25mple.com/", "parse"},
	{"", "http://exa%mple.com/", "parse"},
	{"", "http://exa^mple.com/", "parse"},
	{"", "http://a!$&'()*+,;=~`{}b/", "http://a!$&'()*+,;=~`{}b/"},
	{"", "http://\xFF.example/", "parse"},
	{"", "http://\xDF%80/", "parse"},
	{"", "http://%DF%80/", "http://xn--bsb/"},
	{"", "http://1.2.3.4/", "http://1.2.3.4/"},
	{"", "http://1.2.3.4./", "http://1.2.3.4/"},
	{"", "http://0x7F.1/", "http://127.0.0.1/"},
	{"", "http://017700000001/", "http://127.0.0.1/"},
	{"", "http://4294967295/", "http://255.255.255.255/"},
	{"", "http://4294967296/", "parse"},
	{"", "http://1.2.3.4.5/", "parse"},
	{"", "http://1.2.3.256/", "parse"},
	{"", "http://1.2.03.4/", "http://1.2.3.4/"},
	{"", "http://1.2.3.08/", "parse"},
	{"", "http://1..2/", "parse"},
	{"", "http://a.1/", "parse"},
	{"", "http://a.0x/", "parse"},
	{"", "http://0x/", "http://0.0.0.0/"},
	{"", "http://a.+1/", "http://a.+1/"},
	{"", "http://+1.2/", "parse"},
	{"", "http://\uFF11.2.3.4/", "http://1.2.3.4/"},
	{"", "http://a.1b/", "http://a.1b/"},
	{"", "http://[2001:DB8:0:0::1]:80/", "http://[2001:db8::1]/"},
	{"", "http://[::]/", "http://[::]/"},
	{"", "http://[1:0:0:2::3]/", "http://[1:0:0:2::3]/"},
	{"", "http://[1:0:2:3:4:5:6:7]/", "http://[1:0:2:3:4:5:6:7]/"},
	{"", "http://[0:0:1::]/", "http://[0:0:1::]/"},
	{"", "http://[::ffff:1.2.3.4]/", "http://[::ffff:102:304]/"},
	{"", "http://[::1%25eth0]/", "parse"},
	{"", "http://[::1]x/", "parse"},
	{"", "http://[[::1]]/", "parse"},
	{"", "http://[1.2.3.4]/", "parse"},
	{"", "http://[::1/", "parse"},
	// Relative.
	{testBase, "", "http://example.com/a/b/c?q=1"},
	{testBase, "#frag", "http://example.com/a/b/c?q=1"},
	{testBase, "?x=y#z", "http://example.com/a/b/c?x=y"},
	{testBase, "?", "http://example.com/a/b/c?"},
	{testBase, "d", "http://example.com/a/b/d"},
	{testBase, "./d/", "http://example.com/a/b/d/"},
	{testBase, "..", "http://example.com/a/"},
	{testBase, "../..", "http://example.com/"},
	{testBase, "../../../../x", "http://example.com/x"},
	{testBase, "/", "http://example.com/"},
	{testBase, "/x/./y/../z?a/../b", "http://example.com/x/z?a/../b"},
	{testBase, "/x//y/..", "http://example.com/x//"},
	{testBase, "/x//../y", "http://example.com/x/y"},
	{testBase, "//x", "http://x/"},
	{testBase, "///x/y", "http://x/y"},
	{testBase, `\x\y`, "http://example.com/x/y"},
	{testBase, `/\x/y`, "http://x/y"},
	{testBase, "/\t/x", "http://x/"},
	{testBase, "%2e%2E/x", "http://example.com/a/x"},
	{testBase, ".%2e", "http://example.com/a/"},
	{testBase, "%2e", "http://example.com/a/b/"},
	{testBase, "...", "http://example.com/a/b/..."},
	{testBase, "..a", "http://example.com/a/b/..a"},
	{testBase, "http:d", "http://example.com/a/b/d"},
	{testBase, "http:/d", "http://example.com/d"},
	{testBase, "http:", "http://example.com/a/b/c?q=1"},
	{testBase, "http:x:y", "http://example.com/a/b/x:y"},
	{testBase, "https:d", "https://d/"},
	{testBase, "x:y", "scheme"},
	{testBase, "1:y", "http://example.com/a/b/1:y"},
	{testBase, ":y", "http://example.com/a/b/:y"},
	{testBase, "javascript:alert(1)", "scheme"},
	{testBase, "java\nscript:alert(1)", "scheme"},
	{testBase, "mailto:a@b", "scheme"},
	{testBase, "ftp://ho st/", "scheme"},
	{"https://a/", "//b", "https://b/"},
	{testBase, "./x:y", "http://example.com/a/b/x:y"},
	{testBase, ".//x", "http://example.com/a/b//x"},
	{testBase, "..//x", "http://example.com/a//x"},
	{testBase, "../../../", "http://example.com/"},
	{testBase, "../x/..y/z", "http://example.com/a/x/..y/z"},
	{testBase, "x/%2e%2e/y", "http://example.com/a/b/y"},
	{testBase, "http://example.com", "http://example.com/"},
	{testBase, "http://example.com/a/../b", "http://example.com/b"},
	{testBase, "http://example.com/x y", "http://example.com/x%20y"},
	{testBase, "http://example.com.evil/", "http://example.com.evil/"},
	{testBase, "http://example.com:80/x", "http://example.com/x"},
	{testBase, "https://a--b.example?x#y z", "https://a--b.example/?x"},
	{testBase, "https://a.example/#x y", "https://a.example/"},
	// Percent-encoding.
	{testBase, "/a b\"<>^`{}|[]'%zz%41", "http://example.com/a%20b%22%3C%3E%5E%60%7B%7D|[]'%zz%41"},
	{testBase, "?a b\"<>^`{}|[]'%zz%41\\", "http://example.com/a/b/c?a%20b%22%3C%3E^`{}|[]%27%zz%41\\"},
	{testBase, "/\u00E9\x01\x7F\xFF", "http://example.com/%C3%A9%01%7F%EF%BF%BD"},
	{testBase, "?\u00E9\x01\x7F\xFF", "http://example.com/a/b/c?%C3%A9%01%7F%EF%BF%BD"},
	{testBase, "x #y", "http://example.com/a/b/x%20"},
}

func testResolve(r *Resolver, baseURL, ref string) string {
	var base *Base
	if baseURL != "" {
		base = new(Base)
		url, err := r.AppendResolve(nil, nil, []byte(baseURL))
		if err != nil {
			return "bad base: " + err.Error()
		}
		if err := base.Set(url); err != nil {
			return "bad base: " + err.Error()
		}
	}
	out, err := r.AppendResolve([]byte("dst"), base, []byte(ref))
	name := strings.TrimPrefix(string(out), "dst")
	if err != nil && name != "" {
		return "error with a result: " + name
	}
	return map[error]string{nil: name, ErrParse: "parse", ErrScheme: "scheme", ErrTooLong: "long"}[err]
}

func TestResolve(t *testing.T) {
	r := NewResolver(Options{})
	for _, test := range resolveTests {
		for range 2 { // the second time hosts come from the cache
			if got := testResolve(r, test.base, test.ref); got != test.want {
				t.Errorf("%q relative to %q: got %s, want %s", test.ref, test.base, got, test.want)
			}
		}
	}
}

// TestCanonicalIsFixed: a canonical URL is its own canonical form, and Split finds its parts.
func TestCanonicalIsFixed(t *testing.T) {
	for _, test := range resolveTests {
		if !strings.HasPrefix(test.want, "http") {
			continue
		}
		checkCanonical(t, test.want)
	}
}

func checkCanonical(t *testing.T, url string) {
	t.Helper()
	if again, err := Canonical(url); again != url || err != nil {
		t.Errorf("Canonical(%q): got %q, %v, want the same", url, again, err)
	}
	for i := 0; i < len(url); i++ {
		if url[i] <= ' ' || url[i] >= 0x7F || url[i] == '#' {
			t.Errorf("%q has byte %#x", url, url[i])
		}
	}
	p := Split([]byte(url))
	if p.Scheme == nil || len(p.Host) == 0 || len(p.Path) == 0 || p.Path[0] != '/' {
		t.Errorf("Split(%q): got %+v", url, p)
	}
}

func TestLimits(t *testing.T) {
	r := NewResolver(Options{MaxBytes: 30})
	fits := "http://example.com/89012345678"
	if got := testResolve(r, "", fits); got != fits {
		t.Errorf("30 bytes: got %s, want %s", got, fits)
	}
	if got := testResolve(r, "", fits+"x"); got != "long" {
		t.Errorf("31 bytes: got %s, want long", got)
	}
	if got := testResolve(r, "", fits+"#a long fragment does not count"); got != fits {
		t.Errorf("with a fragment: got %s, want %s", got, fits)
	}
	long := "http://example.com/" + strings.Repeat("x", 5000)
	if got := testResolve(NewResolver(Options{}), "", long); got != "long" {
		t.Errorf("5 kB by default: got %s, want long", got[:10])
	}
	free := NewResolver(Options{MaxBytes: Unlimited})
	if got := testResolve(free, "", long); got != long {
		t.Errorf("5 kB without a limit: got %s", got[:10])
	}
	if got := testResolve(free, "", "http://"+strings.Repeat("a", 256)+"/"); got != "long" {
		t.Errorf("host of 256 bytes: got %s, want long", got)
	}
	if got := testResolve(free, "", "http://"+strings.Repeat("\u00E9", 600)+"/"); got != "long" {
		t.Errorf("host of 1200 bytes: got %s, want long", got)
	}
}

func TestQueryEncoding(t *testing.T) {
	tests := []struct {
		enc       encoding.Encoding
		ref, want string
	}{
		{nil, "\u00E9?\u00E9", "%C3%A9?%C3%A9"},
		{charmap.Windows1252, "\u00E9?a=\u00E9&b= #\u00E9", "%C3%A9?a=%E9&b=%20"},
		{charmap.Windows1252, "?\u0416x'", "c?%26%231046%3Bx%27"},
		{charmap.Windows1252, "?\xFF", "c?%26%2365533%3B"},
		{charmap.Windows1251, "?\u0416", "c?%C6"},
		{japanese.ShiftJIS, "?\u30AB\u30AB", "c?%83J%83J"},
		{japanese.ISO2022JP, "?\u3042\u3042x", "c?%1B$B$%22$%22%1B(Bx"},
		{japanese.ISO2022JP, "?\u3042\u2603\u3042", "c?%1B$B$%22%1B(B%26%239731%3B%1B$B$%22%1B(B"},
		{japanese.ISO2022JP, "?a\x0E\u3042\x1Bb", "c?a%26%2365533%3B%1B$B$%22%1B(B%26%2365533%3Bb"},
		{japanese.ISO2022JP, "?\u203Ea\u00A5\\", "c?%1B(J~a\\%1B(B\\"},
		{japanese.ISO2022JP, "?\u2212\uFF71", "c?%1B$B!]%%22%1B(B"},
		{japanese.ShiftJIS, "?\u2212\u00A5\u203E\u2170", "c?%81|\\~%FA@"},
		{japanese.EUCJP, "?\u00E1\u2212", "c?%26%23225%3B%A1%DD"},
		{traditionalchinese.Big5, "?\u00E1\u3003\u2550\u5341", "c?%26%23225%3B%A1%B2%F9%F9%A4Q"},
		{simplifiedchinese.GB18030, "?\uE5E5\u203E", "c?%26%2358853%3B%816%A82"},
		{simplifiedchinese.GBK, "?\u20AC\u203E", "c?%80%26%238254%3B"},
		{korean.EUCKR, "?\u2020", "c?%A2%D3"},
		{japanese.EUCJP, "d?plain", "d?plain"},
	}
	r := NewResolver(Options{})
	for _, test := range tests {
		base, err := NewBase([]byte("http://example.com/a/c"))
		must(t, err)
		base.Query = test.enc
		got, err := r.AppendResolve(nil, base, []byte(test.ref))
		if want := "http://example.com/a/" + test.want; err != nil || string(got) != want {
			t.Errorf("%v %q: got %s, %v, want %s", test.enc, test.ref, got, err, want)
		}
	}
}

func TestRebase(t *testing.T) {
	tests := []struct{ href, ref, want string }{
		{"/x/y/", "z", "http://example.com/x/y/z"},
		{"https://other.example/q?r", "z", "https://other.example/z"},
		{"data:text/html,x", "z", "http://example.com/a/b/z"},
		{"javascript:x", "z", "http://example.com/a/b/z"},
		{"http://[", "z", "http://example.com/a/b/z"},
		{"ftp://x/y", "z", "scheme"},
		{"ftp://x/y", "http://z", "http://z/"},
		{"ftp://x/y", "http:z", "http://z/"},
		{"/" + strings.Repeat("x", 4000), "/z", "http://example.com/z"},
		{"/" + strings.Repeat("x", 4000) + "/", "../z", "http://example.com/z"},
		{"/" + strings.Repeat("x", 9000) + "/", "z", "http://example.com/a/b/z"},
	}
	r := NewResolver(Options{})
	for _, test := range tests {
		base, _ := NewBase([]byte("http://example.com/a/b/c"))
		r.Rebase(base, []byte(test.href))
		out, err := r.AppendResolve(nil, base, []byte(test.ref))
		got := map[error]string{nil: string(out), ErrParse: "parse", ErrScheme: "scheme", ErrTooLong: "long"}[err]
		if got != test.want {
			t.Errorf("<base href=%.30q>, %q: got %s, want %s", test.href, test.ref, got, test.want)
		}
	}
	for _, bad := range []string{"", "http://", "http://x", "ftp://x/", "x"} {
		if _, err := NewBase([]byte(bad)); err == nil {
			t.Errorf("NewBase(%q): no error", bad)
		}
	}
}

// TestIsPlain: references that need no change take the fast path, and others do not.
func TestIsPlain(t *testing.T) {
	base, _ := NewBase([]byte("http://www.example.com/dir/page.html?x=1"))
	r := NewResolver(Options{})
	for ref, want := range map[string]bool{
		"": true, "#top": true, "# a b": true, "?a=b": true, "a.html": true, "a/b.c/d#e": true, "a?b=c&d#e": true,
		"/": true, "/a:b": true, "../": true, "./a": true, "../../a.html": true, "http://www.example.com/a": true,
		"https://a-b.example": true, "http://a_b.example/c?d": true, "h": true, "http": true,
		"..": false, "a/../b": false, "a/.b": false, "/./a": false, "%2e/": false, "a b": false, " a": false,
		"\u00FC": false, "?'": false, "//h": false, "/\\h": false, "a\\b": false, "a:b": false, "mailto:x": false,
		"http:a": false, "HTTP://h/": false, "http://H/": false, "http://h:80/": false, "http://1.2.3.4/": false,
		"http://xn--a/": true, "http://a./": false, "http://u@h/": false, "http://h?x": false, "http://[::1]/": false,
	} {
		if got := r.IsPlain(base, []byte(ref)); got != want {
			t.Errorf("%q: got %v, want %v", ref, got, want)
		}
	}
	if r.IsPlain(nil, []byte("a")) || !r.IsPlain(nil, []byte("http://h/a")) {
		t.Error("without a base only absolute references are plain")
	}
}

func TestResolveAllocs(t *testing.T) {
	r := NewResolver(Options{})
	base, _ := NewBase([]byte("http://www.example.com/dir/page.html?x=1"))
	buf := make([]byte, 0, 4096)
	refs := [][]byte{[]byte("other.html"), []byte("../up/./x?y=z#f"), []byte("/abs/%7Euser/a b"),
		[]byte("//cdn.Example.org/x"), []byte("https://user@example.org:8443/x"), []byte(" /tab\tbed "),
		[]byte("/\u00FCber?\u00FCber"), []byte("http://10.0.0.1/"), []byte("javascript:void(0)"), []byte("#top"),
		[]byte("http://b\u00FCcher.example/")}
	for _, ref := range refs {
		r.AppendResolve(buf, base, ref) // the first unusual host fills the cache
		if n := testing.AllocsPerRun(100, func() { r.AppendResolve(buf, base, ref) }); n != 0 {
			t.Errorf("%s: allocations: got %v, want 0", ref, n)
		}
	}
}

// TestLinearTime: hostile references of 256 KiB take no time; quadratic code would take minutes.
func TestLinearTime(t *testing.T) {
	r := NewResolver(Options{})
	base, _ := NewBase([]byte("http://example.com/a/b"))
	for _, part := range []string{"/", "../", "a/../", "@", "%2e%2e/", "\u00E9", "\xFF", "[", "a", "http:", "\\", "?",
		"\t", "xn--", "1."} {
		long := strings.Repeat(part, 256<<10/len(part))
		for _, prefix := range []string{"", "/", "//", "//x/", "http://", "?", "#"} {
			r.AppendResolve(nil, base, []byte(prefix+long))
		}
	}
}

func FuzzResolve(f *testing.F) {
	for _, test := range resolveTests {
		f.Add(test.base, test.ref)
	}
	r := NewResolver(Options{})
	f.Fuzz(func(t *testing.T, base, ref string) {
		got := testResolve(r, base, ref)
		if strings.HasPrefix(got, "http") {
			checkCanonical(t, got)
		}
		if strings.HasPrefix(got, "error") {
			t.Fatal(got)
		}
	})
}

func BenchmarkResolve(b *testing.B) {
	for name, ref := range map[string]string{
		"relative": "../images/page-two.html?id=12345", "absolute": "https://www.example.org/some/where/page.html",
		"rooted": "/some/where/else/page.html", "unicode": "/wiki/\u041C\u043E\u0441\u043A\u0432\u0430",
		"idn": "http://b\u00FCcher.example/x", "fragment": "#top", "escaped": "/wiki/Caf%c3%a9_%28x%29?a=%7e",
	} {
		b.Run("ref="+name, func(b *testing.B) {
			r := NewResolver(Options{Fold: true}) // as in a crawl
			base, _ := NewBase([]byte("http://www.example.com/dir/sub/page.html?x=1"))
			var buf bytes.Buffer
			buf.Grow(4096)
			dst := buf.AvailableBuffer()
			text := []byte(ref)
			b.ReportAllocs()
			for b.Loop() {
				r.AppendResolve(dst, base, text)
			}
		})
	}
}
