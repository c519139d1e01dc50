package maintext

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"drumbeat/internal/langid"
)

// TestGolden: of each page in testdata, the main text is the one beside it.
func TestGolden(t *testing.T) {
	pages, err := filepath.Glob("testdata/*.html")
	if err != nil || len(pages) < 5 {
		t.Fatal(pages, err)
	}
	for _, name := range pages {
		want := read(t, strings.TrimSuffix(name, "html")+"txt")
		if d := doc(t, read(t, name), "text/html"); string(d.Main) != want {
			t.Errorf("%s: main text\n%s\nwant\n%s\nof\n%s", name, d.Main, want, d.Text)
		}
	}
}

func read(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const pageURL = "http://a.test/dir/page"

func doc(t testing.TB, page, contentType string) *Doc {
	t.Helper()
	d, err := HTML(strings.NewReader(page), contentType, pageURL)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestHead: what the head says.
func TestHead(t *testing.T) {
	d := doc(t, read(t, "testdata/article.html"), "text/html")
	got := fmt.Sprint(d.Title, "|", d.Description, "|", d.Canonical, "|", d.Author, "|", d.Published, "|", d.Declared,
		"|", d.Charset, "|", languageOf(d), "|", d.NoIndex, d.Whole, d.Truncated)
	want := "Harbour wall to reopen in May — Coast Weekly|The harbour wall of Easthaven reopens after a " +
		"year of repairs." +
		"|http://a.test/news/harbour-wall?ref=1|Ann Lewis|2026-04-11T09:30:00Z|en-GB|utf-8|eng|false false false"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(d.JSONLD) != 1 ||
		string(d.JSONLD[0]) != `{"@context":"https://schema.org","@type":"NewsArticle","headline":"Harbour wall `+
			`to reopen in May"}` {
		t.Errorf("JSON-LD %s", d.JSONLD)
	}
	d = doc(t, read(t, "testdata/product.html"), "text/html; charset=utf-8")
	if d.Description != "Kanne aus Steingut" || len(d.JSONLD) != 1 || d.DroppedJSONLD != 1 || languageOf(d) != "deu" ||
		d.Declared != "de" {
		t.Errorf("%+v", d)
	}
	d = doc(t, read(t, "testdata/chinese.html"), "text/html")
	if d.Charset != "gb18030" || d.Title != "港口" || languageOf(d) != "zho" || !utf8.Valid(d.Text) {
		t.Errorf("%+v", d)
	}
	if d = doc(t, read(t, "testdata/short.html"), ""); !d.Whole || d.Title != "Opening hours" {
		t.Errorf("%+v", d)
	}
	for page, want := range map[string]string{
		`<link rel="x CANONICAL" href="b"><link rel=canonical href=c>`: "http://a.test/dir/b",
		`<base href="/up/"><link rel=canonical href=c>`:                "http://a.test/up/c",
		`<base href="http://["><link rel=canonical href=c>`:            "http://a.test/dir/c",
		`<link rel=canonical href="javascript:x">`:                     "",
		`<link rel=canonical>`:                                         "",
	} {
		if got := doc(t, page, "").Canonical; got != want {
			t.Errorf("%s: %q, want %q", page, got, want)
		}
	}
	for page, want := range map[string]bool{`<meta name=ROBOTS content="nofollow, NoIndex">`: true,
		`<meta name=robots content=all>`: false} {
		if doc(t, page, "").NoIndex != want {
			t.Error(page)
		}
	}
	if d = doc(t, "<meta property=og:title content=x><svg><title>icon</title></svg><p>y", ""); d.Title != "icon" &&
		d.Title != "x" {
		t.Errorf("title %q", d.Title)
	}
	if d = doc(t, "<title>"+strings.Repeat("é", MaxValue)+"</title>",
		"text/html; charset=utf-8"); len(d.Title) > MaxValue ||
		len(d.Title) < MaxValue-utf8.UTFMax || !utf8.ValidString(d.Title) {
		t.Errorf("title of %d bytes", len(d.Title))
	}
}

func languageOf(d *Doc) string {
	code, _ := langid.Language(d.Main)
	return code
}

// TestJSONLD: scripts that are no JSON, too large or too many are dropped and counted.
func TestJSONLD(t *testing.T) {
	script := func(text string) string { return "<script type=' Application/LD+JSON; x'>" + text + "</script>" }
	for page, want := range map[string][2]int{
		script(" {} \n") + script("[1]"):                                               {2, 0},
		script("{") + script("") + script("<!-- {} -->"):                               {0, 3},
		"<script>{}</script><script type=application/json>{}</script>":                 {0, 0},
		script(strings.Repeat("[", 20000) + strings.Repeat("]", 20000)):                {0, 1},
		script(`"` + strings.Repeat("x", MaxJSONLDBytes) + `"`):                        {0, 1},
		strings.Repeat(script(`"`+strings.Repeat("x", MaxJSONLDBytes/3)+`"`), 4):       {2, 2},
		strings.Repeat(script("1"), MaxJSONLD+3):                                       {MaxJSONLD, 3},
		"<script type=application/ld+json>{}":                                          {1, 0}, // the page ends
		"<template>" + script("{}") + "</template>" + script(`{"a":"</p><p>b"}`) + "x": {1, 0},
	} {
		d := doc(t, page, "")
		if len(d.JSONLD) != want[0] || d.DroppedJSONLD != want[1] {
			t.Errorf("%.80s: %d kept, %d dropped, want %v", page, len(d.JSONLD), d.DroppedJSONLD, want)
		}
	}
}

// TestMarks: an element that is boilerplate ends where it ends, whatever is nested wrongly.
func TestMarks(t *testing.T) {
	long := "These are more than sixteen words, so that the paragraph is main text wherever it stands " +
		"without a mark on it."
	for page, want := range map[string]bool{
		"<nav><p>%s</nav>":                               false,
		"<nav><nav></nav><p>%s</nav>":                    false,
		"<nav></nav><p>%s":                               true,
		"<nav><div></nav><p>%s":                          true,
		"<nav><main><p>%s":                               true,
		"</nav></div><p>%s":                              true,
		"<div class='a cookie-x'><div></div><p>%s</div>": false,
		"<div id=Cookie_Note></div><p>%s":                true,
		"<div class=accookies><p>%s":                     true,
		"<section role=' Dialog'><p>%s</section>":        false,
		"<div role=main class=content><p>%s":             true,
		"<ul class=menu><li>%s</ul>":                     false,
	} {
		page = fmt.Sprintf(page, long) +
			"<p>Other text of the page that is long enough to be the main text, so that it is not taken as a whole."
		if d := doc(t, page, ""); strings.Contains(string(d.Main), long) != want ||
			!strings.Contains(string(d.Text), long) || d.Whole {
			t.Errorf("%s\nmain: %s", page, d.Main)
		}
	}
}

// TestContent: the decision tree, by its paths.
func TestContent(t *testing.T) {
	for _, c := range []struct {
		previous, b, next block
		want              bool
	}{
		{block{}, block{words: 17}, block{}, true},
		{block{}, block{words: 16}, block{words: 15}, false},
		{block{}, block{words: 1}, block{words: 16}, true},
		{block{words: 5}, block{words: 1}, block{}, true},
		{block{words: 4}, block{words: 1}, block{}, false},
		{block{}, block{words: 90, linked: 31}, block{}, false},
		{block{}, block{words: 90, linked: 30}, block{}, true},
		{block{words: 9, linked: 6}, block{words: 40}, block{words: 17}, false},
		{block{words: 9, linked: 6}, block{words: 41}, block{}, true},
		{block{words: 9, linked: 6}, block{words: 1}, block{words: 18}, true},
		{block{words: 9, linked: 5}, block{words: 17}, block{}, true},
	} {
		if got := content(&c.previous, &c.b, &c.next); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// TestLinksWithinText: links within a text, however they are nested, do not end it.
func TestLinksWithinText(t *testing.T) {
	const long = "<p>These are more than sixteen words, so that the paragraph is main text wherever it " +
		"stands on the page."
	const behind = "<p>This paragraph stands behind the links and has fewer than forty words."
	const links = "<li><a href=/1>The first of the links</a><li><a href=/2>The second of the links</a>"
	for name, page := range map[string]string{
		"list":           long + "<ul>" + links + "</ul>" + behind,
		"nested lists":   long + "<div><ul><li><ul>" + links + "</ul></ul></div>" + behind,
		"table":          long + "<table><tr><td><table><tr><td><ul>" + links + "</ul></table></table>" + behind,
		"with a heading": long + "<div><h3>Related</h3><ul>" + links + "</ul></div>" + behind,
		"twice": long + "<ul>" + links + "</ul><p>A short line.<ul>" + links + "</ul>" + long + "<ul>" +
			links + "</ul>" + behind,
		"and more": long + "<ul>" + links + "</ul>" + behind + behind,
	} {
		d := doc(t, "<body><ul>"+links+"</ul><p>Not the text, but a few words in front of it all."+page+"<ul>"+
			links+"</ul>", "")
		main := string(d.Main)
		if d.Whole || !strings.Contains(main, "stands behind the links") || strings.Contains(main, "of the links") {
			t.Errorf("%s: main text\n%s", name, main)
		}
	}
	if d := doc(t, "<ul>"+links+"</ul>"+behind+"<ul>"+links+"</ul>"+long+long,
		""); strings.Contains(string(d.Main), "behind") {
		t.Errorf("a paragraph between links that no text precedes: main text\n%s", d.Main)
	}
}

// TestWords: words are counted in all scripts, with links and without.
func TestWords(t *testing.T) {
	for text, want := range map[string]int{"": 0, "--- * ": 0, "It's a well-known fact.": 4, "3,5 kg": 3,
		"Ёлка и дом": 3, "新的港口": 2, "港口 wall": 2, "กขคง": 1, "한국어 문장": 2} {
		var b block
		b.count([]byte(text), true)
		if b.words != want || b.linked != want {
			t.Errorf("%q: %d words, %d linked, want %d", text, b.words, b.linked, want)
		}
	}
	d := doc(t, "<p>a <a name=x>b c <a href=y>d e<a href=z>f</a> g", "")
	if string(d.Text) != "a b c d ef g\n" {
		t.Errorf("%q", d.Text)
	}
}

// TestBounds: errors of the reader are returned, and long pages are cut.
func TestBounds(t *testing.T) {
	broken := errors.New("broken")
	if _, err := HTML(io.MultiReader(strings.NewReader(strings.Repeat("<p>x", 3000)), iotest.ErrReader(broken)), "",
		pageURL); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if d := doc(t, strings.Repeat("<p>many words ", MaxPage/14+1)+"<p>end", ""); !d.Truncated ||
		bytes.Contains(d.Text, []byte("end")) {
		t.Errorf("a long page: %t, %d bytes", d.Truncated, len(d.Text))
	}
	if d := doc(t, strings.Repeat("<div>", 1<<20)+"deep", ""); string(d.Main) != "deep\n" {
		t.Errorf("a deep page: %q", d.Main)
	}
}

// FuzzHTML: no page makes it fail, and what it returns keeps the bounds.
func FuzzHTML(f *testing.F) {
	names, _ := filepath.Glob("testdata/*.html")
	for _, name := range names {
		f.Add(read(f, name), "text/html")
	}
	f.Add("<nav><script type=application/ld+json>{<title>\xff\xfe", "text/html; charset=utf-16le")
	f.Add("<a href=x><button>y<select><option>z</a><noscript><iframe><p>", "")
	f.Fuzz(func(t *testing.T, page, contentType string) {
		d, err := HTML(strings.NewReader(page), contentType, pageURL)
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(d.Text) || len(d.Main) > len(d.Text) || len(d.JSONLD) > MaxJSONLD {
			t.Errorf("%+v", d)
		}
		lines := slices.Collect(bytes.Lines(d.Text))
		for line := range bytes.Lines(d.Main) {
			if !slices.ContainsFunc(lines, func(l []byte) bool { return bytes.Equal(l, line) }) {
				t.Errorf("main text has %q, the text has not", line)
			}
		}
		for _, v := range []string{d.Title, d.Description, d.Canonical, d.Author, d.Published, d.Declared} {
			if len(v) > MaxValue || !utf8.ValidString(v) || strings.ContainsAny(v, "\n\t") {
				t.Errorf("value %q", v)
			}
		}
	})
}

// BenchmarkHTML extracts a page of 30 KB.
func BenchmarkHTML(b *testing.B) {
	page := longPage(b)
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := HTML(bytes.NewReader(page), "text/html", pageURL); err != nil {
			b.Fatal(err)
		}
	}
}

func longPage(b *testing.B) []byte {
	page := []byte(read(b, "testdata/article.html"))
	from, to := bytes.Index(page, []byte("<p>Engineers")), bytes.Index(page, []byte("</article>"))
	return slices.Concat(page[:from], bytes.Repeat(page[from:to], (30000-len(page))/(to-from)+1), page[to:])
}
