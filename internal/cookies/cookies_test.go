package cookies

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/weburl"
)

var seedFlag = flag.Uint64("seed", 1, "seed of random tests")

func partsOf(url string) *weburl.Parts {
	p := weburl.Split([]byte(url))
	return &p
}

// TestCookies: a jar returns cookies to the hosts and paths that they are for, until they expire.
func TestCookies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := NewStore(1 << 20).Jar("a")
		take := func(url string, lines ...string) { t.Helper(); j.Take(partsOf(url), lines) }
		want := func(url, cookies string) {
			t.Helper()
			if got := j.Header(partsOf(url)); got != cookies {
				t.Errorf("%s: %q, want %q", url, got, cookies)
			}
		}
		want("http://www.a.example/", "")
		take("http://www.a.example/x/y", "host=1", "all=2; Domain=a.example; Path=/", "deep=3; Path=/x/deep",
			"no cookie", "bad=1; Domain=b.example")
		want("http://www.a.example/", "all=2")
		want("http://www.a.example/x/z?q", "host=1; all=2")
		want("http://www.a.example:8080/x/deep/", "deep=3; host=1; all=2")
		want("http://other.a.example/x/", "all=2")
		want("http://b.example/", "")
		take("https://www.a.example/", "safe=4; Secure; Path=/", "short=5; Max-Age=60; Path=/",
			"all=6; Domain=a.example; Path=/")
		want("http://www.a.example/", "all=6; short=5")
		want("https://www.a.example/", "all=6; safe=4; short=5")
		time.Sleep(61 * time.Second)
		want("http://www.a.example/", "all=6")
		take("http://www.a.example/", "all=; Domain=a.example; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT")
		want("http://www.a.example/", "")
		take("http://me.github.io/", "x=1; Domain=github.io", "y=2; Domain=io")
		want("http://you.github.io/", "")
		want("http://me.github.io/", "")
		take("http://192.0.2.1/", "ip=1")
		want("http://192.0.2.1/", "ip=1")
		want("http://192.0.2.2/", "")
		j.Drop()
		want("http://192.0.2.1/", "")
		if take("http://192.0.2.1/", "ip=1"); j.store.Used() != 0 {
			t.Errorf("a dropped jar takes %d bytes", j.store.Used())
		}
	})
}

// TestJarsAreApart: sites share no cookies, and jars outlive a reload that keeps their keys.
func TestJarsAreApart(t *testing.T) {
	s := NewStore(1 << 20)
	a := partsOf("http://a.example/")
	s.Jar("one").Take(a, []string{"x=1"})
	if got := s.Jar("two").Header(a); got != "" {
		t.Errorf("another jar has %q", got)
	}
	s.Jar("two").Take(a, []string{"x=2"})
	s.Keep(map[string]bool{"one": true})
	if got := s.Jar("one").Header(a) + "," + s.Jar("two").Header(a); got != "x=1," {
		t.Errorf("after Keep: %q", got)
	}
}

// TestBounds: whatever sites send, the jars stay within their bounds, the newest cookie of a jar is there, and the
// accounts balance.
func TestBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Logf("seed %d", *seedFlag)
	rnd := rand.New(rand.NewPCG(*seedFlag, 0))
	const most = 300 << 10
	s := NewStore(most)
	for i := range 6000 {
		j := s.Jar(fmt.Sprint(rnd.IntN(5)))
		u := partsOf(fmt.Sprintf("http://h%d.a.example/%s", rnd.IntN(3), strings.Repeat("d/", rnd.IntN(3))))
		line := fmt.Sprintf("n%d=%s", rnd.IntN(600), strings.Repeat("v", rnd.IntN(rnd.IntN(5000)+1)))
		if rnd.IntN(3) == 0 {
			line += "; Domain=a.example"
		}
		if rnd.IntN(20) == 0 {
			line += "; Max-Age=0"
		}
		j.Take(u, []string{line})
		if n := len(j.jar.Cookies(urlOf(u))); n > MaxCookies || j.order.Len() > MaxCookies || j.bytes > MaxJarBytes ||
			s.Used() > most {
			t.Fatalf("step %d: %d cookies, %d known, %d bytes, %d in all jars", i, n, j.order.Len(), j.bytes, s.Used())
		}
		if got := len(j.Header(u)); got > MaxHeaderBytes+2 {
			t.Fatalf("a header of %d bytes", got)
		}
	}
	if s.Used() < most/2 {
		t.Errorf("only %d bytes are used", s.Used())
	}
	s.Keep(nil)
	if s.Used() != 0 {
		t.Errorf("without jars %d bytes are used", s.Used())
	}
	j := s.Jar("x")
	for i := range 1000 {
		j.Take(partsOf("http://a.example/"), []string{fmt.Sprintf("n%d=1", i)})
	}
	if got := j.Header(partsOf("http://a.example/")); !strings.Contains(got, "n999=1") ||
		!strings.Contains(got, "n800=1") || strings.Contains(got, "n799=1") {
		t.Errorf("the newest %d are not there: %s", MaxCookies, got)
	}
}

// TestOverhead: the accounts cover the heap that the cookies take.
func TestOverhead(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	s := NewStore(1 << 30)
	s.Jar("0").Take(partsOf("http://a.example/"), []string{"n=1"})
	before, used := heap(), s.Used()
	for j := range 50 {
		for i := range MaxCookies {
			s.Jar(fmt.Sprint(j)).Take(partsOf(fmt.Sprintf("http://h%d.a%d.example/some/path/", i, i)),
				[]string{fmt.Sprintf("session%d=0123456789abcdef", i)})
		}
	}
	took, counted := heap()-before, s.Used()-used
	if t.Logf("heap %d, counted %d", took, counted); took > counted {
		t.Errorf("the cookies take %d bytes of heap and count %d", took, counted)
	}
	runtime.KeepAlive(s)
}

// FuzzTake: any response leaves a jar within its bounds.
func FuzzTake(f *testing.F) {
	f.Add("http://www.a.example/x", "a=1; Domain=a.example")
	f.Add("http://[::1]/", "a=\"1\"; Path=x; Expires=now")
	f.Fuzz(func(t *testing.T, url, line string) {
		s := NewStore(10 << 10)
		j := s.Jar("")
		for _, u := range []string{url, "http://a.example/"} {
			j.Take(partsOf(u), []string{line, line + "; Path=/"})
			for i := range len(j.Header(partsOf(u))) {
				if c := j.Header(partsOf(u))[i]; c < ' ' || c >= 0x7f {
					t.Errorf("a header with %q", c)
				}
			}
		}
		if s.Used() > 10<<10 || s.Used() < 0 {
			t.Errorf("%d bytes", s.Used())
		}
		if j.Drop(); s.Used() != 0 {
			t.Errorf("%d bytes after Drop", s.Used())
		}
	})
}

// TestRefusedCookies: a cookie that the library refuses, or that it stores as another one, must not take the cookie of
// that name out of the accounts, or the bounds would not hold.
func TestRefusedCookies(t *testing.T) {
	for _, test := range []struct{ host, domain string }{
		{"www.a.example", "."}, {"www.a.example", ".."}, {"www.a.example", "..a.example"}, {"www.a.example", "example"},
		{"www.a.example", "b.example"}, {"www.a.example", "x.a.example"}, {"www.a.example", "www.a.example."},
		{"127.0.0.1", ".127.0.0.1"}, {"127.0.0.1", "0.0.1"}, {"www.a.example", "WWW.a.EXAMPLE"},
	} {
		s := NewStore(1 << 30)
		j := s.Jar("a")
		for i := range 2 * MaxCookies {
			j.Take(partsOf(fmt.Sprintf("http://%s/p%d/x", test.host, i)),
				[]string{"c=v; Domain=" + test.host, "c=; Max-Age=0; Domain=" + test.domain,
					"d=v", "d=v; Domain=" + test.domain, "e=v; Domain=a.example",
					"e=; Max-Age=0; Domain=" + test.domain})
		}
		kept := 0
		for i := range 2 * MaxCookies {
			kept += len(j.jar.Cookies(urlOf(partsOf(fmt.Sprintf("http://%s/p%d/x", test.host, i)))))
		}
		if kept > j.order.Len() {
			t.Errorf("%s, Domain=%s: the library keeps %d cookies, the accounts have %d", test.host, test.domain,
				kept, j.order.Len())
		}
	}
}
