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
	"drumbeat/internal/pagetext"
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
	if d = doc(t, read(t, "testdata/short.html"), ""); d.Whole || d.Title != "Opening hours" {
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

// passageOf returns the blocks of a page.
func passageOf(t testing.TB, page string) *passage {
	t.Helper()
	r := &reader{tree: newTree()}
	if err := pagetext.WalkUTF8(strings.NewReader(page), r.token); err != nil {
		t.Fatal(err)
	}
	r.tree.pop(0)
	return newPassage(r.tree)
}

// TestMarks: the hints of an element count for what is in it, whatever is nested wrongly.
func TestMarks(t *testing.T) {
	for page, want := range map[string]marks{
		"<nav><p>TEXT</nav>":                                     markNav,
		"<nav><nav></nav><p>TEXT</nav>":                          markNav,
		"<nav></nav><p>TEXT":                                     0,
		"<nav><div></nav><p>TEXT":                                0,
		"<nav><main><p>TEXT</nav>":                               markNav | markMain,
		"</nav></div><p>TEXT":                                    0,
		"<div class='a cookie-x'><div></div><p>TEXT</div>":       markCookie,
		"<div id=Cookie_Note></div><p>TEXT":                      0,
		"<div class=accookies><p>TEXT":                           0,
		"<div class=RelatedPosts><p>TEXT</div>":                  markRelated | markForum,
		"<section role=' Dialog'><p>TEXT</section>":              markPopup,
		"<div role=main class=text><p>TEXT":                      markMain,
		"<ul class=menu><li>TEXT</ul>":                           markNav,
		"<div class=share style='x;display: none'><p>TEXT</div>": markShare | markUnseen,
		"<table><tr><td class=nav>x<td><p>TEXT</div></table>":    0,
		"<table><tr><td class=nav><p>TEXT</table>":               markNav,
		"<p><span class=rating>TEXT</p>":                         markReview,
		"<p><a href=x class=btn><span>x</a>TEXT":                 markAction, // a block has the hints of its first text
		"<aside><article><b><p>x</b>y</article><p>TEXT</aside>":  markSide,
	} {
		p := passageOf(t, page+"<section><p>"+strings.Repeat("other text ", 9)+"</section>")
		i := slices.IndexFunc(p.blocks, func(b block) bool {
			return bytes.Contains(p.lines[b.from:b.to], []byte("TEXT"))
		})
		if i < 0 || p.of[p.blocks[i].first].marks != want {
			t.Errorf("%s: block %d, marks %b, want %b", page, i, p.of[p.blocks[max(0, i)].first].marks, want)
		}
	}
	// What surrounds most of the page names its layout, unless it is the main text.
	page := "<div class='page with-sidebar'><main><p>" + strings.Repeat("much text ", 99) + "</main></div>"
	p := passageOf(t, page)
	if got := p.of[p.blocks[0].first].marks; got != markMain {
		t.Errorf("marks %b of a wide element", got)
	}
}

// TestTree: blocks are those of the tree that browsers make, in common mistakes.
func TestTree(t *testing.T) {
	for page, want := range map[string]string{
		"a<p>b<div>c</div>d":                                            "a|b|c|d",
		"<ul><li>a<li>b<ul><li>c</ul>d</ul>e":                           "a|b|c|d|e",
		"<table><tr><td>a<td>b<tr><td>c</table>d":                       "a b|c|d",
		"<div><table><tr><td>a</div>b</table></div>c":                   "ab|c",
		"<dl><dt>a<dd>b<dt>c</dl>":                                      "a|b|c",
		"<b>a<p>b</b>c</p>d":                                            "a|bc|d",
		"a <b>b</b> <i>c</i>":                                           "a b c",
		"<p>a</p> <p>b</p>":                                             "a|b",
		"<a href=x>a<a href=y>b</a>c":                                   "abc",
		"</p></li>a<br>b":                                               "a\nb",
		"<button>a<p>b</button>c":                                       "a|b|c",
		"<select><option>a<option>b</select>":                           "a|b",
		strings.Repeat("<div>", 2*maxDepth) + "a<p>b<b>c</b>":           "a\nbc",
		"a<noscript><p>" + strings.Repeat("seen ", 200) + "</noscript>": "a|" + strings.Repeat("seen ", 199) + "seen",
		"<noscript><img>" + strings.Repeat(" ", 600) + "</noscript>a":   "a",
		strings.Repeat("long ", 400) + "<noscript>" + strings.Repeat("x ", 300) + "</noscript>": strings.Repeat("long ",
			399) + "long",
	} {
		p := passageOf(t, page)
		var got []string
		for i := range p.blocks {
			got = append(got, string(p.trimmed(&p.blocks[i])))
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%.80s: got %.100q, want %.100q", page, got, want)
		}
	}
}

// TestHostile: the time and memory of pages made to be slow are bounded.
func TestHostile(t *testing.T) {
	for name, page := range map[string]string{
		"nested":       strings.Repeat("<div>", 1<<20) + "deep",
		"formatting":   strings.Repeat("<b><p>x</i>", 1<<17),
		"unmatched":    strings.Repeat("<b>", 200) + strings.Repeat("<div>x</b></div>", 1<<17),
		"cells":        strings.Repeat("<table><tr><td>x</div>", 1<<16),
		"siblings":     strings.Repeat("<p class=x>word. ", 1<<17),
		"attributes":   "<p" + strings.Repeat(" a=b", 1<<19) + ">x",
		"classes":      strings.Repeat("<i class='"+strings.Repeat("nav x", 80)+"'>x", 1<<13),
		"scripts":      strings.Repeat("<noscript>"+strings.Repeat("<p>x", 200)+"</noscript>", 1<<10),
		"many nodes":   strings.Repeat("<b>x</b>", maxNodes),
		"links":        strings.Repeat("<a href=x>y", 1<<17),
		"within links": strings.Repeat("<a href=x><div>y", 1<<17),
		"lists":        strings.Repeat("<ul><li>x", 100_000),
		"tables":       strings.Repeat("<table><tr><td>x<td>y", 100_000),
		"quotes":       strings.Repeat("<blockquote>", 250) + strings.Repeat("<p>x", 1<<17),
		"ends in deep": "x<i><div>" + strings.Repeat("<span>", 250) + strings.Repeat("</i>", 1<<19),
	} {
		d := doc(t, page, "")
		if markdownOf(d); len(d.Text) == 0 || d.Truncated != (name == "many nodes") {
			t.Errorf("%s: %d bytes of text, truncated %t", name, len(d.Text), d.Truncated)
		}
	}
}

// TestWords: words are counted in all scripts, with links and without.
func TestWords(t *testing.T) {
	for text, want := range map[string]int32{"": 0, "--- * ": 0, "It's a well-known fact.": 4, "3,5 kg": 3,
		"Ёлка и дом": 3, "新的港口": 2, "港口 wall": 2, "กขคง": 1, "한국어 문장": 2} {
		var c counts
		c.count([]byte(text), true)
		if c.words != want || c.linked != want {
			t.Errorf("%q: %d words, %d linked, want %d", text, c.words, c.linked, want)
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
	if d := doc(t, strings.Repeat("<p>many words"+strings.Repeat(" ", 51), MaxPage/64+1)+"<p>end", ""); !d.Truncated ||
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
