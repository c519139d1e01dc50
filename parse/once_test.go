package parse

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"drumbeat/weburl"
)

// compareOnce checks that ExtractOnce agrees with Extract and returns the number of links it recognized.
func compareOnce(t *testing.T, x *Extractor, page string, body []byte, contentType string) (again int) {
	t.Helper()
	line := func(url []byte, l *Link) string { return fmt.Sprintf("%s %v %v", url, l.NoFollow, l.Asset) }
	var want, got, emitted []string
	counts, err := x.Extract([]byte(page), body, contentType,
		func(url []byte, l *Link) { want = append(want, line(url, l)) })
	if err != nil {
		t.Fatal(err)
	}
	once, err := x.ExtractOnce([]byte(page), body, contentType, func(url []byte, l *Link) {
		emitted = append(emitted, line(url, l))
		got = append(got, line(url, l))
	}, func(n int) {
		got = append(got, emitted[n])
		again++
	})
	if err != nil || once != counts || !slices.Equal(got, want) {
		t.Fatalf("%q on %s: got %q, %+v, %v, want %q, %+v", body, page, got, once, err, want, counts)
	}
	return again
}

// TestExtractOnce: a recognized link equals the link it is taken for, whatever precedes and follows it.
func TestExtractOnce(t *testing.T) {
	const seed = 11
	rnd := rand.New(rand.NewPCG(seed, 0))
	pieces := strings.Split("#|#a|#b c| |&#9;|&#10;|a|b|?|?x|/|//|..|http:|//h|mailto:|%2e|&#252;|http://[|:|&#0;|"+
		strings.Repeat("long/", 500), "|")
	x := NewExtractor(Options{Assets: true}, weburl.Options{})
	known := 0
	for i := range 2000 {
		var b strings.Builder
		if i%5 == 0 {
			b.WriteString(`<base href="` + pieces[rnd.IntN(len(pieces))] + `">`)
		}
		for range rnd.IntN(40) {
			b.WriteString([]string{`<a href="`, `<img src="`}[rnd.IntN(2)])
			for range rnd.IntN(4) {
				b.WriteString(pieces[rnd.IntN(len(pieces))])
			}
			b.WriteString(`"` + []string{"", " rel=nofollow"}[rnd.IntN(2)] + ">")
		}
		known += compareOnce(t, x, "http://example.org/d/page?x", []byte(b.String()), "text/html; charset=utf-8")
	}
	if known < 1000 {
		t.Errorf("seed %d: %d links were known again, want 1000 at least", seed, known)
	}
}

// TestExtractOnceManyLinks: a page with more different links than slots forgets some but confuses none. The
// page counter may wrap.
func TestExtractOnceManyLinks(t *testing.T) {
	var b strings.Builder
	for range 3 {
		for i := range 5 * seenSlots / 2 {
			fmt.Fprintf(&b, "<a href=page-%d.html><a href='#%d'>", i, i)
		}
	}
	x := NewExtractor(Options{}, weburl.Options{})
	for range 2 {
		if known := compareOnce(t, x, "http://example.org/d/", []byte(b.String()), ""); known < 3*5*seenSlots/2-5 {
			t.Errorf("%d links were known again, want those to the page itself at least", known)
		}
		x.seen.page = 1<<32 - 1
	}
}

func TestExtractOnceAllocs(t *testing.T) {
	x, body, url := NewExtractor(Options{}, weburl.Options{}), samplePage(), []byte("https://www.example.com/dir/page")
	links := 0
	emit, again := func([]byte, *Link) { links++ }, func(int) { links++ }
	run := func() {
		if _, err := x.ExtractOnce(url, body, "text/html", emit, again); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(50, run); n != 0 || links < 50*59 {
		t.Errorf("allocations of a page: got %v with %d links, want 0", n, links/52)
	}
}

func FuzzExtractOnce(f *testing.F) {
	f.Add([]byte("<a href=x><a href=x#y><a href='x #y'><a href='x '><a href=' x'><a href=#><a href=''><base href=/>"),
		"text/html; charset=utf-8")
	x := NewExtractor(Options{Assets: true, Forms: true}, weburl.Options{})
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		if len(body) <= 1<<16 {
			compareOnce(t, x, "http://example.org:81/d/page?x", body, contentType)
		}
	})
}
