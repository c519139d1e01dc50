package parse

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/weburl"
)

func parsePage(opt Options, body string) *Page {
	page := new(Page)
	NewParser(opt).Parse([]byte(body), "text/html; charset=utf-8", page)
	return page
}

// links prints a page's links: "a:1 area:2".
func links(page *Page) string {
	var out []string
	for _, l := range page.Links {
		out = append(out, fmt.Sprintf("%s:%s", l.Tag, l.Ref))
	}
	return strings.Join(out, " ")
}

func TestLinks(t *testing.T) {
	tests := []struct{ body, want string }{
		{`<a href=1><A HREF="2"><a
			href = '3' ><area href=4><a name=x><a href>`, "a:1 a:2 a:3 area:4 a:"},
		{`<iframe src=1><a href=2></iframe><iframe src=""><a href=3></iframe><frame src=4>`, "iframe:1"},
		{`<link rel=stylesheet href=1><link rel=NEXT href=2><link rel="x prev" href=3><link rel=previous href=4>` +
			`<link rel=canonical href=5><link rel=alternate href=6><link href=7><link rel=next href="">`,
			"link:2 link:3 link:4 link:5"},
		{`<meta http-equiv=Refresh content="5; url=1">`, "meta:1"},
		{`<noscript><a href=1></noscript><template><a href=2></template>`, "a:1 a:2"},
		{`<script>"<a href=1>"</script><style><a href=2></style><title><a href=3></title><textarea><a ` +
			`href=4></textarea>` +
			`<xmp><a href=5></xmp><noembed><a href=6></noembed><noframes><a href=7></noframes><a href=8><plaintext>` +
			`<a href=9>`, "a:8"},
		{`<!-- <a href=1> --><!--><a href=2><!---><a href=3><!-- --!><a href=4><!-- -- ><a href=5>--><a href=6>`,
			"a:2 a:3 a:4 a:6"},
		{`<!doctype "<a href=1>"><? <a href=2>?><a href=3></ <a href=4>><a href=5></><a href=6>`, `a:3 a:5 a:6`},
		{`<![CDATA[<a href=1>]]><svg><![CDATA[<a href=2>]]></svg>`, ""},
		{`<script><!--<script></script><a href=1>--></script><a href=2>`, "a:2"},
		{`<script><!-- </script><a href=1>`, "a:1"},
		{`<script></scriptx></script x="</script><a href=1>"><a href=2>`, "a:2"},
		{`<a href=1 href=2 HREF=3>`, "a:1"},
		{`<a title="<a href=1>" href=2><a title='">' href=3><a x=">" href=4>`, "a:2 a:3 a:4"},
		{`<a href="1`, ""},
		{`<a href=1`, ""},
		{`<a href=1/><a/href=2><a href=3/4 ><a href="5"rel=x>`, "a:1/ a:2 a:3/4 a:5"},
		{`<a =href=1><a href==2><a "href=3><a href = >`, "a:=2 a:"},
		{`< a href=1><1 href=2><a`, ""},
		{`<svg><title/><a xlink:href=1><a href=2 xlink:href=3></svg><a href=4 xlink:href=5><a xlink:href=6>`,
			"a:1 a:2 a:4"},
		{`<svg><style><a href=1></style><link rel=next href=2><iframe src=3><a href=4></iframe></svg>`, "a:1 a:4"},
		{`<svg><foreignObject><iframe src=1><a href=2></iframe></foreignObject></svg>`, "iframe:1"},
		{`<svg><path><div><iframe src=1></iframe>`, "iframe:1"},
		{`<div><svg><path></div><script>"<a href=1>"</script><a href=2>`, "a:2"},
		{`<math><mi><iframe src=1></iframe></mi><iframe src=2></math><annotation-xml encoding=text/html>`, "iframe:1"},
		{"<a\x00 href=1><a href='\x00\r\n\r'>", "a:\uFFFD\n\n"},
	}
	for _, test := range tests {
		if got := links(parsePage(Options{}, test.body)); got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.body, got, test.want)
		}
		if d := difference([]byte(test.body), "text/html; charset=utf-8"); d != "" {
			t.Errorf("%s: %s", test.body, d)
		}
	}
}

// TestFrameset: in a page of frames only frames are links; in a page with a body they are not.
func TestFrameset(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{"<frameset><frame src=1><frame SRC='2'/><frameset><frame src=3></frameset><frame " +
			"src=4></frameset><frame src=5><a href=6>",
			"frame:1 frame:2 frame:3 frame:4"},
		{"<link rel=next href=1><title>x</title><script>x<y</script><!-- x --><frameset><iframe src=2></iframe><a " +
			"href=3><frame src=4>", "link:1 frame:4"},
		{"<p><a href=1></a> <input type=HIDDEN><noscript> </noscript><frameset><frame src=2><noframes><a " +
			"href=3></noframes>", "frame:2"},
		{"<p>x<frameset><frame src=1></frameset><a href=2>", "a:2"},
		{"<body><frameset><frame src=1></frameset><a href=2>", "a:2"},
		{"<input><frameset><frame src=1><a href=2>", "a:2"},
		{"<br><frameset><frame src=1><a href=2>", "a:2"},
		{"</br><frameset><frame src=1><a href=2>", "a:2"},
		{"<template><frameset><frame src=1></template><a href=2>", "a:2"},
		{"<template></template><frameset><frame src=1></frameset>", "frame:1"},
		{"\x00<!doctype html>\x00<frameset><frame src=1></frameset>", "frame:1"},
		{"< <frameset><frame src=1></frameset><a href=2>", "a:2"},
		{"<frameset><p title='<frame src=1>'><!-- <frame src=2> --><frame src=3", ""},
		{"<template><col><a href=1></template><a href=2><template>x<!-- <p> --></b><col><template></template><a " +
			"href=3></template><a href=4>", "a:2 a:4"},
		{"<template><col><a href=1>", ""},
		{"<math><mi><mglyph><iframe src=1><a href=2></iframe></mglyph><iframe src=3></iframe></mi><iframe " +
			"src=4></iframe></math>", "a:2 iframe:3"},
	} {
		if got := links(parsePage(Options{}, test.body)); got != test.want {
			t.Errorf("%q:\ngot  %s\nwant %s", test.body, got, test.want)
		}
		if d := difference([]byte(test.body), "text/html; charset=utf-8"); d != "" {
			t.Errorf("%q: %s", test.body, d)
		}
	}
}

func TestReferences(t *testing.T) {
	for value, want := range map[string]string{
		"a&amp;b": "a&b", "&ampx": "&ampx", "&amp=": "&amp=", "&amp-": "&-", "?a=1&copy=2": "?a=1&copy=2",
		"&copy;=": "©=", "&copy": "©", "&copyx;": "&copyx;", "&notit;": "&notit;", "&notin;": "∉",
		"&NotEqualTilde;":  "≂̸",
		"&#65;&#x42&#X43;": "ABC", "&#;&#x;&#": "&#;&#x;&#", "&#0;": "\uFFFD", "&#xD800;": "\uFFFD",
		"&#x110000;":              "\uFFFD",
		"&#99999999999999999999;": "\uFFFD", "&#128;&#x9F;": "€Ÿ", "&#129;&#x8D;&#x9d;": "\u0081\u008d\u009d",
		"&nGt;&nLt;": "≫⃒≪⃒", "&noti;": "&noti;", "&#13;": "\r", "&": "&", "&;": "&;", "&&amp;&": "&&&",
		"&semi;": ";", "&fjlig;": "fj", "&unknown;": "&unknown;", "&CounterClockwiseContourIntegral;": "∳",
		"&" + strings.Repeat("x", 99) + ";": "&" + strings.Repeat("x", 99) + ";",
		"&lt;&gt;&quot;&apos;":              `<>"'`, "&apos": "&apos",
	} {
		body := `<a href="` + strings.ReplaceAll(value, `"`, "&quot;") + `">`
		page := parsePage(Options{}, body)
		if len(page.Links) != 1 || string(page.Links[0].Ref) != want {
			t.Errorf("%s: got %q, want %q", value, links(page), want)
		}
		if d := difference([]byte(body), "text/html; charset=utf-8"); d != "" {
			t.Errorf("%s: %s", value, d)
		}
	}
}

func TestRelAndOptions(t *testing.T) {
	body := `<a href=1 rel="noopener NoFollow"><a href=2 rel=next><link rel="alternate nofollow" href=3><link ` +
		`rel=icon href=4>` +
		`<iframe src=5></iframe><link rel=canonical href=6><link rel=canonical href=7>`
	page := parsePage(Options{}, body)
	if l := page.Links[0]; !l.NoFollow || l.Rel != RelOther {
		t.Errorf("first link: got %+v", l)
	}
	if l := page.Links[1]; l.NoFollow || l.Rel != RelNext {
		t.Errorf("second link: got %+v", l)
	}
	if string(page.Canonical) != "6" {
		t.Errorf("canonical: got %s, want 6", page.Canonical)
	}
	for _, test := range []struct {
		opt  Options
		want string
	}{
		{Options{}, "a:1 a:2 iframe:5 link:6 link:7"},
		{Options{Rels: NoRels, NoFrames: true}, "a:1 a:2"},
		{Options{Rels: RelAlternate}, "a:1 a:2 link:3 iframe:5"},
		{Options{Rels: RelOther | RelAlternate | DefaultRels}, "a:1 a:2 link:3 link:4 iframe:5 link:6 link:7"},
	} {
		if got := links(parsePage(test.opt, body)); got != test.want {
			t.Errorf("%+v: got %s, want %s", test.opt, got, test.want)
		}
	}
}

func TestRobotsMeta(t *testing.T) {
	tests := []struct {
		body string
		want Robots
	}{
		{`<meta name=robots content="noindex, follow">`, Robots{NoIndex: true}},
		{`<META NAME=ROBOTS CONTENT=NONE>`, Robots{NoIndex: true, NoFollow: true}},
		{`<meta name=robots content="noarchive, none">`, Robots{true, true, true}},
		{`<meta name=drumbeat content=NoArchive>`, Robots{NoArchive: true}},
		{`<meta name=robots content="nofollow"><meta name=robots content="noindex">`,
			Robots{NoIndex: true, NoFollow: true}},
		{`<meta name=drumbeat content="nofollow">`, Robots{NoFollow: true}},
		{`<meta name=otherbot content="nofollow">`, Robots{}},
		{`<meta name=robots content="index,follow,max-snippet:-1">`, Robots{}},
		{`<meta name=robots>`, Robots{}},
	}
	for _, test := range tests {
		if got := parsePage(Options{Agent: "Drumbeat"}, test.body).Robots; got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.body, got, test.want)
		}
	}
	if got := parsePage(Options{}, tests[3].body).Robots; got != (Robots{}) {
		t.Errorf("without an agent: got %+v", got)
	}
	if got := ParseRobots([]byte("NoIndex,nofollow")); got != (Robots{true, true, false}) {
		t.Errorf("ParseRobots: got %+v", got)
	}
}

func TestRefresh(t *testing.T) {
	for content, want := range map[string]string{
		"0;url=x": "x", "0; URL = x ": "x ", "5;x": "x", "5,url='x y'z": "x y", "5 url=\"x": "x",
		"  1.5.2;url=x": "x", ".5;url=x": "x",
		"0;urlx": "urlx", "0;url": "url", "0;u=x": "u=x", "0;'x'y": "x", "0;url=''": "", "0\turl=x": "x",
		"0 ; ;url=x": ";url=x",
		"":           "-", "0": "-", "0;": "-", "0; ": "-", "x;url=x": "-", ";url=x": "-",
		"-1;url=x": "-", "0url=x": "-",
	} {
		got := "-"
		if url := parseRefresh([]byte(content)); url != nil {
			got = string(url)
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", content, got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	body := strings.Repeat("<a href=x>", 10) + "<a href=" + strings.Repeat("y", 101) + "><base href=" +
		strings.Repeat("z", 101) + ">"
	page := parsePage(Options{MaxLinks: 7, MaxRefBytes: 100}, body)
	if len(page.Links) != 7 || page.Dropped != 3 || page.LongRefs != 1 || page.Base != nil {
		t.Errorf("got %d links, %d dropped, %d long, base %q, want 7, 3, 1, none", len(page.Links),
			page.Dropped, page.LongRefs, page.Base)
	}
	page = parsePage(Options{}, strings.Repeat("<a href=x>", 50_010))
	if len(page.Links) != 50_000 || page.Dropped != 10 {
		t.Errorf("by default: got %d links, %d dropped, want 50000, 10", len(page.Links), page.Dropped)
	}
}

// TestPageKeepsLittle: links that must be decoded take at most 4 MiB, and further ones are counted. A Page
// does not retain unusual amounts of memory.
func TestPageKeepsLittle(t *testing.T) {
	p, page := NewParser(Options{}), new(Page)
	link := "<a href='" + strings.Repeat("&amp;", 10_000) + "'>"
	p.Parse([]byte(strings.Repeat(link, 1000)), "text/html; charset=utf-8", page)
	if n := len(page.Links); n < 300 || n > 500 || page.Dropped != 1000-n {
		t.Errorf("got %d links, %d dropped, want some 420 and the rest", n, page.Dropped)
	}
	p.Parse([]byte(strings.Repeat("<a href=x>", 50_000)), "text/html; charset=utf-8", page)
	p.Parse([]byte("<a href=x>"), "text/html; charset=utf-8", page)
	if cap(page.scratch) > keepBytes || cap(page.text) > keepBytes || cap(page.Links) > keepLinks {
		t.Errorf("a page of one link has room for %d bytes, %d of text, %d links", cap(page.scratch),
			cap(page.text), cap(page.Links))
	}
}

// TestHostilePagesAreLinear: a mebibyte of input that makes parsers quadratic takes milliseconds. The bound
// leaves room for a busy machine and the race detector; quadratic code would take minutes.
func TestHostilePagesAreLinear(t *testing.T) {
	p, all, page := NewParser(Options{Agent: "x"}), NewParser(Options{Assets: true, Forms: true}), new(Page)
	size := 1 << 20
	if testing.Short() {
		size = 1 << 18
	}
	for _, part := range []string{"<", "<a", "<a ", "<a href='", "<a href=\"&", "<!--", "<!-- --", "<!---!>",
		"<script><!--", "<script>", "</script", "<svg>", "<svg><title>", "<math><annotation-xml>", "<![CDATA[",
		"<title>", "</title", "<textarea><", "<iframe ", "&", "<a href=&a;", "<a href=&#", "=",
		"<a x=y ", " x", "<base href=", "<meta http-equiv=refresh content='0;url=", "<div><table>", "<b><i>",
		"\x00", "<?", "</", "<a href=x>", "<a rel=' x x x' href=y>",
		"<frameset>", "<frameset></frameset>x<frameset>", "<template>", "<template><col>", "<template></b>",
		"<form action=x>", "<img srcset='a, ", "<img srcset='a (, b 1x,'>",
		"<p style='", "<p style='a:url(", "<p style=\\", "<style>/*", "<style>url(\\</style>",
		"<svg><style><![CDATA[", "<svg><style>&amp;", "<svg><style><![CDATA[x]]>", "@import '", "/*", "url(a\\b "} {
		body := []byte(strings.Repeat(part, size/len(part)))
		start := time.Now()
		p.Parse(body, "text/html; charset=windows-1252", page)
		all.Parse(body, "text/html; charset=shift_jis", page)
		all.ParseCSS(body, "text/css", page)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%q: took %v for %d bytes", part, took, size)
		}
	}
}

// TestDifferences checks the list in the package comment against the tree builder.
func TestDifferences(t *testing.T) {
	tests := []struct{ body, scanner, tree string }{
		{"<template>x</template><p><a href=1><frameset>", "a:1", ""},
		{"<p><a href=1><frameset></frameset></html> ", "", "a:1"},
		{"<template><style></style><col><a href=1></template>", "a:1", ""},
		{"<svg><path><foreignObject><p></foreignObject><iframe src=1></iframe>", "", "iframe:1"},
		{"<a><svg><tr></a><iframe src=1></iframe>", "", "iframe:1"},
		{"<table><tr><td><svg><desc><td></desc><iframe src=1></iframe>", "", "iframe:1"},
		{"<div><svg><foreignObject><math></div><iframe src=1></iframe>", "iframe:1", ""},
		{"<svg></div><iframe src=1>", "iframe:1", ""},
		{"<p><a href=1>x<p>y", "a:1", "a:1 a:1"},
		{"<table><a href=1></table>", "a:1", "a:1"},
		{"<table><tr><td><a href=1></td></tr><a href=2></table>", "a:1 a:2", "a:2 a:1"},
	}
	for _, test := range tests {
		if got := links(parsePage(Options{}, test.body)); got != test.scanner {
			t.Errorf("%s: scanner: got %s, want %s", test.body, got, test.scanner)
		}
		page, err := Reference(Options{}, []byte(test.body), "text/html")
		if err != nil || links(page) != test.tree {
			t.Errorf("%s: tree: got %v, %v, want %s", test.body, page, err, test.tree)
		}
	}
	deep := strings.Repeat("<div>", 600) + "<a href=1>"
	if _, err := Reference(Options{}, []byte(deep), ""); err == nil {
		t.Error("the tree builder takes 600 levels")
	}
	if got := links(parsePage(Options{}, deep)); got != "a:1" {
		t.Errorf("600 levels: got %s, want a:1", got)
	}
}

func TestCharsets(t *testing.T) {
	utf16 := func(s string) string {
		out := "\xFF\xFE"
		for _, c := range s {
			out += string([]byte{byte(c), byte(c >> 8)})
		}
		return out
	}
	tests := []struct{ name, header, body, charset, want string }{
		{"default", "text/html", "<a href='\xE9?\xE9'>", "windows-1252", "%C3%A9?%E9"},
		{"header", "text/html; charset=utf-8", "<a href='é?é'>", "utf-8", "%C3%A9?%C3%A9"},
		{"header wins over meta", "text/html; charset=UTF8", "<meta charset=shift_jis><a href='é?é'>", "utf-8",
			"%C3%A9?%C3%A9"},
		{"meta", "text/html", "<meta charset=windows-1251><a href='\xC6?\xC6'>", "windows-1251", "%D0%96?%C6"},
		{"http-equiv", "", "<meta http-equiv=content-type content='text/html; charset=koi8-r'><a href='?\xD6'>",
			"koi8-r", "?%D6"},
		{"mark wins over header", "text/html; charset=koi8-r", "\uFEFF<a href='é?é'>", "utf-8", "%C3%A9?%C3%A9"},
		{"unknown", "text/html; charset=nonsense", "<a href='?\xE9'>", "windows-1252", "?%E9"},
		{"shift_jis", "text/html; charset=shift_jis", "<a href='\x83\x5C?\x83\x5C&amp;'>", "shift_jis",
			"%E3%82%BD?%83\\&"},
		{"iso-2022-jp", "text/html; charset=iso-2022-jp",
			"<a title='\x1B$B$\"<a\x1B(B' href='?\x1B$B$\"\x1B(B'>", "iso-2022-jp", "?%1B$B$%22%1B(B"},
		{"utf-16", "text/html", utf16("<a href='é?é'>"), "utf-16le", "%C3%A9?%C3%A9"},
		{"utf-16 without mark", "text/html; charset=utf-16be",
			"\x00<\x00a\x00 \x00h\x00r\x00e\x00f\x00=\x00x\x00>", "utf-16be", "x"},
		{"meta that lies", "", "<meta charset=utf-16le><a href='?é'>", "utf-8", "?%C3%A9"},
		{"reference in latin-1", "text/html; charset=iso-8859-1", "<a href='?&eacute;\xE9&#1046;'>",
			"windows-1252", "?%E9%E9%26%231046%3B"},
	}
	x := NewExtractor(Options{}, weburl.Options{})
	for range 2 { // the second time with warm caches
		for _, test := range tests {
			got := ""
			_, err := x.Extract([]byte("http://h/"), []byte(test.body), test.header,
				func(url []byte, l *Link) { got += string(url) })
			if want := "http://h/" + test.want; err != nil || got != want || x.Page().Charset != test.charset {
				t.Errorf("%s: got %s in %s, %v, want %s in %s", test.name, got, x.Page().Charset, err, want,
					test.charset)
			}
			if d := difference([]byte(test.body), test.header); d != "" {
				t.Errorf("%s: %s", test.name, d)
			}
		}
	}
}

func TestExtract(t *testing.T) {
	body := `<a href=1><base href=/dir/><base href=/no/><a href="2#x"><a href=mailto:a@b><a href="http://[">` +
		`<a href="/` + strings.Repeat("x", 3000) +
		`"><a href=//other.example:443/><link rel=canonical href=canon><a href="">` +
		`<meta http-equiv=refresh content="0;url=next"><a href="javascript:x">`
	x := NewExtractor(Options{MaxLinks: 9}, weburl.Options{})
	var got []string
	counts, err := x.Extract([]byte("https://example.com/a/b?c"), []byte(body), "text/html; charset=utf-8",
		func(url []byte, l *Link) { got = append(got, l.Tag.String()+" "+string(url)) })
	want := []string{"a https://example.com/dir/1", "a https://example.com/dir/2", "a https://other.example/",
		"link https://example.com/dir/canon", "a https://example.com/dir/", "meta https://example.com/dir/next"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if want := (Counts{Links: 6, Invalid: 1, OtherScheme: 1, TooLong: 1, Dropped: 1}); counts != want {
		t.Errorf("counts: got %+v, want %+v", counts, want)
	}
	if url, err := x.AppendCanonical(nil, x.Page().Canonical); err != nil ||
		string(url) != "https://example.com/dir/canon" {
		t.Errorf("canonical: got %s, %v", url, err)
	}
	if _, err := x.Extract([]byte("ftp://x/"), nil, "", nil); !errors.Is(err, weburl.ErrParse) {
		t.Errorf("bad page URL: got %v, want ErrParse", err)
	}
	sum := counts
	sum.Add(counts)
	if sum.Links != 12 || sum.Dropped != 2 {
		t.Errorf("Counts.Add: got %+v", sum)
	}
	for tag := A; tag < numTags; tag++ {
		if tag.String() == "" {
			t.Errorf("tag %d has no name", tag)
		}
	}
}
