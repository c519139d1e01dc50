package scope

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"drumbeat/weburl"
)

// manyHosts returns a file of n host rules with ordinary names, in random order.
func manyHosts(n int) []byte {
	rng := rand.New(rand.NewPCG(*seedFlag, 2))
	var b bytes.Buffer
	for range n {
		fmt.Fprintf(&b, "- host www.site%x.example\n", rng.Uint64()>>36)
	}
	return b.Bytes()
}

// withPrefixes adds rules of every other kind except expressions.
func withPrefixes(text []byte) []byte {
	b := bytes.NewBuffer(bytes.Clone(text))
	for i := range 1000 {
		fmt.Fprintf(b, "- host *.below%d.example\n- pld spam%d.example\n- prefix "+
			"https://www.docs%d.example/private/\n- surt (example,docs%d,)/a/\n",
			i, i, i%200, i)
	}
	return b.Bytes()
}

// TestManyHosts bounds the memory of 10⁶ host rules, and checks that a lookup does not allocate.
func TestManyHosts(t *testing.T) {
	if testing.Short() {
		t.Skip("10⁶ rules")
	}
	const n = 1_000_000
	text := withPrefixes(manyHosts(n))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := mustParse(t, Rules, string(text))
	text = nil
	runtime.GC()
	runtime.ReadMemStats(&after)
	st := s.Stats()
	heap := float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)+int64(len(text))) / n
	t.Logf("%v: %.1f bytes a rule in Stats", st, float64(st.Bytes)/n)
	if perRule := float64(st.Bytes) / n; perRule > 64 || heap > 80 {
		t.Errorf("%.1f bytes a rule, %.1f of heap", perRule, heap)
	}
	urls := [][]byte{[]byte("https://www.docs7.example/private/x"), []byte("http://www.site12345.example/"),
		[]byte("http://a.b.c.below7.example/x?y"),
		[]byte("https://www.nobody.co.uk/a/b/c.html?q=1")}
	if got := testing.AllocsPerRun(100, func() {
		for _, u := range urls {
			s.Lookup(u)
		}
	}); got != 0 {
		t.Errorf("got %v allocations", got)
	}
}

// BenchmarkLookup looks up a site and one URL of it: with hosts only, and with 4,000 prefixes, SURTs, PLDs
// and "*." rules.
func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{10, 1_000_000} {
		for _, kinds := range []string{"host", "all"} {
			text := manyHosts(n)
			if kinds == "all" {
				text = withPrefixes(text)
			}
			s := mustParse(b, Rules, string(text))
			url := []byte("https://www.docs7.example/public/page.html?q=1")
			pld := suffixes.PLDBytes(weburl.Split(url).Host)
			b.Run(fmt.Sprintf("rules=%d/kinds=%s/site", n, kinds), func(b *testing.B) {
				for b.Loop() {
					s.Site(url, pld)
				}
			})
			site := s.Site(url, pld)
			b.Run(fmt.Sprintf("rules=%d/kinds=%s/url", n, kinds), func(b *testing.B) {
				for b.Loop() {
					s.Find(&site, url)
				}
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	text := manyHosts(100_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(Rules, suffixes, Source{"f", text}); err != nil {
			b.Fatal(err)
		}
	}
}
