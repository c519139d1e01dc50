package urlrule

import (
	"strings"
	"testing"

	"drumbeat/weburl"
)

// newRules returns the rules of a strip list as on the command line.
func newRules(t testing.TB, strip string, opt Options) *Rules {
	t.Helper()
	names, err := ParseParams(strip)
	if err != nil {
		t.Fatal(err)
	}
	opt.StripParams = names
	r, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRewrite(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	for _, test := range []struct {
		strip          string
		sort, collapse bool
		url, want      string // paths; want "" is url
	}{
		{"", false, false, "/a//b;jsessionid=1?b=1&PHPSESSID=2&a=1", ""},
		// Queries.
		{"session", false, false, "/x?PHPSESSID=1", "/x"},
		{"session", false, false, "/x?phpsessid=1&a=%41&b", "/x?a=%41&b"},
		{"session", false, false, "/x?a=1&PHPSESSID=1&b=2", "/x?a=1&b=2"},
		{"session", false, false, "/x?a=1&PHPSESSID", "/x?a=1"},
		{"session", false, false, "/x?a=1&&b=2", ""},
		{"session", false, false, "/x?", "/x"},
		{"session", false, false, "/x?&PHPSESSID=1", "/x"},
		{"session", false, false, "/x?&", ""},
		{"session", false, false, "/x?ASPSESSIONIDQQ=1&aspsessionid=2", "/x"},
		{"session", false, false, "/x?CFID=1&CFTOKEN=2&CFIDE=3", "/x?CFIDE=3"},
		{"session", false, false, "/x?NOPHPSESSID=1&PHPSESSIDX=2", ""},
		{"session", false, false, "/x?sid=17", ""},
		{"session", false, false, "/x?sid=" + token, "/x"},
		{"session", false, false, "/x?s=how+do+i+crawl+the+web", ""},
		{"session", false, false, "/x?s=internationalization", ""},
		{"session", false, false, "/x?utm_source=a", ""},
		{"tracking", false, false, "/x?utm_source=a&UTM_=b&utm=c&gclid=d", "/x?utm=c"},
		{"session,tracking", false, false, "/x?utm_source=a&cfid=1&a=b", "/x?a=b"},
		{"sid", false, false, "/x?sid=17&a=1", "/x?a=1"},
		{"Foo*, b", false, false, "/x?foot=1&fo=2&b=3&B&bb", "/x?fo=2&bb"},
		{"a", false, false, "/?a=1?b=2&c=/;a=3", "/?c=/;a=3"},
		// Path parameters.
		{"session", false, false, "/x;jsessionid=" + token, "/x"},
		{"session", false, false, "/x;JSESSIONID=1.node2?a=1", "/x?a=1"},
		{"session", false, false, "/x;v=1;jsessionid=1;w=2/y;jsessionid=3/z", "/x;v=1;w=2/y/z"},
		{"session", false, false, "/;jsessionid=1", "/"},
		{"session", false, false, "/a/;jsessionid=1/b", "/a//b"},
		{"session", false, true, "/a/;jsessionid=1/b", "/a/b"},
		{"session", false, false, "/a/..;jsessionid=1/b", ""},
		{"session", false, false, "/a/%2E;jsessionid=1", ""},
		{"session", false, false, "/jsessionid=1", ""},
		// Slashes.
		{"", false, true, "//a///b//?c//d", "/a/b/?c//d"},
		{"", false, true, "/", ""},
		{"", false, true, "/a/b", ""},
		{"", false, true, "/a//..b//", "/a/..b/"},
		// Order.
		{"", true, false, "/x?b=2&a=1&b=1&a=0", "/x?a=1&a=0&b=2&b=1"},
		{"", true, false, "/x?b&a=%42&&c", "/x?&a=%42&b&c"},
		{"", true, false, "/x?a=1&a.b=2&a-b=3", "/x?a=1&a-b=3&a.b=2"},
		{"", true, false, "/x?", ""},
		{"", true, false, "/x", ""},
		{"session", true, true, "//x//?z=1&PHPSESSID=2&y=3", "/x/?y=3&z=1"},
		{"", true, false, "/x?" + strings.Repeat("b&a&", maxSorted), ""},
	} {
		r := newRules(t, test.strip, Options{SortQuery: test.sort, CollapseSlashes: test.collapse})
		const origin = "http://example.com:8080"
		want := test.want
		if want == "" {
			want = test.url
		}
		got, changed := r.AppendRewritten([]byte("dst"), []byte(origin+test.url))
		if string(got) != "dst"+origin+want || changed != (want != test.url) {
			t.Errorf("strip %q, sort %v, collapse %v: %s: got %s, %v, want %s", test.strip, test.sort,
				test.collapse, test.url, got, changed, want)
		}
		checkRewritten(t, r, origin+test.url)
	}
}

// checkRewritten checks that the rewritten form of a canonical URL is canonical, not longer, of the same
// origin, and stable.
func checkRewritten(t *testing.T, r *Rules, url string) {
	t.Helper()
	out, changed := r.AppendRewritten(nil, []byte(url))
	if len(out) > len(url) || changed != (string(out) != url) {
		t.Fatalf("%s: got %s, %v", url, out, changed)
	}
	if got, want := string(weburl.Origin(out)), string(weburl.Origin([]byte(url))); got != want {
		t.Fatalf("%s: got origin %s", url, got)
	}
	if canonical, err := weburl.StandardCanonical("", string(out)); canonical != string(out) || err != nil {
		t.Fatalf("%s: got %s, whose canonical form is %s, %v", url, out, canonical, err)
	}
	if again, changed := r.AppendRewritten(nil, out); changed {
		t.Fatalf("%s: got %s, and then %s", url, out, again)
	}
}

func TestRewriteAllocs(t *testing.T) {
	r := newRules(t, "session,tracking", Options{SortQuery: true, CollapseSlashes: true})
	url := []byte("http://example.com//a;jsessionid=1/b?z=1&utm_source=x&y=2&x=3")
	dst := make([]byte, 0, len(url))
	if n := testing.AllocsPerRun(100, func() { r.AppendRewritten(dst, url) }); n != 0 {
		t.Errorf("allocations: got %v, want 0", n)
	}
}

func TestParseFaults(t *testing.T) {
	for _, bad := range []string{"*", "a*b", "**", "a=b", "a b", "\u00FC", "a&b"} {
		if _, err := ParseParams(bad); err == nil {
			t.Errorf("ParseParams(%q): no error", bad)
		}
	}
	for _, bad := range []string{"a.b", "toolongext", "*", "\u00FC", "."} {
		if _, err := ParseExtensions(bad); err == nil {
			t.Errorf("ParseExtensions(%q): no error", bad)
		}
	}
	if _, err := ParseParams(strings.Repeat("a,", maxListed+1)); err == nil {
		t.Error("a list that is too long: no error")
	}
	for _, bad := range []Options{{MaxPathDepth: -1}, {MaxRepeats: -1}, {MaxParams: -1},
		{StripParams: []string{""}}, {SkipExtensions: []string{"a b"}}} {
		if _, err := New(bad); err == nil {
			t.Errorf("New(%+v): no error", bad)
		}
	}
}

func FuzzRewrite(f *testing.F) {
	f.Add("http://h/a//b;jsessionid=1/..;sid=2?b=1&PHPSESSID=2&a=1", "session", uint8(3))
	f.Add("https://h:8/a/;x/.;y/%2e;x?&&x", "x,y*", uint8(1))
	f.Fuzz(func(t *testing.T, ref, strip string, bits uint8) {
		names, err := ParseParams(strip)
		url, uerr := weburl.Canonical(ref)
		if err != nil || uerr != nil {
			return
		}
		r, err := New(Options{StripParams: names, SortQuery: bits&1 != 0, CollapseSlashes: bits&2 != 0})
		if err != nil {
			t.Fatalf("New with the names of ParseParams(%q): %v", strip, err)
		}
		checkRewritten(t, r, url)
	})
}
