package parse

import (
	"bytes"
	"strings"
	"testing"

	"drumbeat/weburl"
)

func TestAssets(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{`<img src=1 srcset="2, 3 2x,4 100w" alt=x><img src=""><img src=" "><img src=#x><img SRC=5 src=6>`,
			"img:1 img:2 img:3 img:4 img:5"},
		{`<picture><source srcset="1 1x,2 2x" media="(x)"><img src=3></picture>`, "img:1 img:2 img:3"},
		{`<video src=1 poster=2><source src=3><track src=4></video><audio src=5></audio><embed src=6>` +
			`<object data=7></object>`,
			"video:1 img:2 source:3 track:4 audio:5 embed:6 object:7"},
		{`<input type=IMAGE src=1><input src=2><input type=text src=3>`, "input:1"},
		{`<script src=1>"<img src=2>"</script><script>url(3)</script>`, "script:1"},
		{`<link rel=stylesheet href=1><link rel="shortcut icon" href=2><link rel=next href=3><link rel=search href=4>` +
			`<link rel=preload as=image href=5 imagesrcset="6 1x, 7 2x"><link rel=manifest href=8><link ` +
			`rel=modulepreload href=9>`,
			"link:1 link:2 link:3 link:6 link:7 link:5 link:8 link:9"},
		{`<body background=1><table background=2><tbody background=3><tr background=4><td background=5><th ` +
			`background=6></table><p background=7>`,
			"background:1 background:2 background:3 background:4 background:5 background:6"},
		{`<body style="a:url(1)"><body style="a:url(2)" background=3><body background=4>`, "css:1 background:3"},
		{`<a href=1 style="a:url(2)"><img src=3></a><a
			href=4>`, "css:2 a:1 img:3 a:4"},
		{`<style>@import "1"; a { b: url( '2' ), url(3) } /* url(4) */</style><style><!-- a{b:url(5)} --></style>`,
			"css:1 css:2 css:3 css:5"},
		{`<p style='a:url("1&amp;2&#41;")' style="a:url(3)">`, "css:1&2)"},
		{`<svg><image href=1 xlink:href=2 /><image xlink:href=3 /><use href=#x /><use xlink:href="4#x"/><feImage ` +
			`href=5 /><script href=6></script>` +
			`<style>a{b:url(7)}<![CDATA[a{b:url(8)}]]>a{b:url(9&amp;)}</style><rect style="fill:url(10)"/></svg>`,
			"image:1 image:3 use:4#x image:5 script:6 css:7 css:8 css:9& css:10"},
		{`<svg><img src=1><image src=2></svg><image src=3>`, "img:1 img:2 img:3"},
		{`<noscript><img src=1></noscript><template><img src=2></template><!-- <img src=3> --><textarea><img src=4>` +
			`</textarea>`, "img:1 img:2"},
		{`<form action=1><form action=2 method=get></form><form action=3 method=POST></form><form method=dialog ` +
			`action=4></form><form></form>` +
			`<form action=""></form><form action=5 method=x></form>`, "form:1 form:2 form:5"},
		{`<frameset style="a:url(1)"><frame src=2 style="a:url(3)"></frameset>`, "css:1 css:3 frame:2"},
		{`<img src=1`, ""},
		{`<img src="data:image/png;base64,xx"><iframe src=1 style="a:url(2)"></iframe>`,
			"img:data:image/png;base64,xx css:2 iframe:1"},
	} {
		if got := links(parsePage(Options{Assets: true, Forms: true}, test.body)); got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.body, got, test.want)
		}
		if d := assetDifference([]byte(test.body), "text/html; charset=utf-8",
			!strings.Contains(test.body, "<form action=2")); d != "" {
			t.Errorf("%s: %s", test.body, d)
		}
	}
	page := parsePage(Options{Assets: true, Forms: true},
		`<a href=1><img src=2><link rel=icon href=3><link rel=next href=4><form action=5 rel=nofollow>`)
	for i, want := range []Link{{Tag: A}, {Tag: Img, Asset: true}, {Tag: LinkTag, Rel: RelOther, Asset: true},
		{Tag: LinkTag, Rel: RelNext}, {Tag: Form, NoFollow: true}} {
		got := page.Links[i]
		got.Ref, got.Rel = nil, got.Rel&^RelAsset
		if want.Tag == Form {
			got.Rel = 0
		}
		if got.Tag != want.Tag || got.Asset != want.Asset || got.NoFollow != want.NoFollow || got.Rel != want.Rel {
			t.Errorf("link %d: got %+v, want %+v", i, got, want)
		}
	}
	if got := links(parsePage(Options{},
		`<form action=1><img src=2><link rel=stylesheet href=3><style>@import "4"</style><a href=5>`)); got != "a:5" {
		t.Errorf("by default: got %s, want a:5", got)
	}
}

// TestFormsBehindPlainTags: skipWide stops at forms if they are wanted.
func TestFormsBehindPlainTags(t *testing.T) {
	body := strings.Repeat("<p class=\"x\">text</p>", 50)
	want := strings.Repeat("form:1 ", 20)
	if got := links(parsePage(Options{Forms: true},
		strings.Repeat(body+"<form class=\"y\" action=\"1\"></form>", 20))); got+" " != want {
		t.Errorf("got %s", got)
	}
}

func TestSrcset(t *testing.T) {
	for value, want := range map[string]string{
		"a": "a", "a, b": "a b", "a,b": "a,b", "a,, b": "a b", " , a 1x ,b 2x": "a b", "a 1x,b 2x": "a b",
		"a (x,y) 1x, b": "a b", "a (x, b": "a",
		"": "", ",": "", " ": "", "data:,x 1x, b": "data:,x b", "a\n1x\t,\fb": "a b", "a ,": "a", "a,": "a",
		"a 1x 2x 3x, b junk": "a b",
	} {
		var got []string
		eachSrcset([]byte(value), func(ref []byte) { got = append(got, string(ref)) })
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, want %q", value, got, want)
		}
	}
}

// cssLinks returns the links of a style sheet, separated by spaces.
func cssLinks(text string) string {
	page := new(Page)
	NewParser(Options{Assets: true}).ParseCSS([]byte(text), "text/css; charset=utf-8", page)
	var out []string
	for _, l := range page.Links {
		out = append(out, string(l.Ref))
	}
	return strings.Join(out, " ")
}

func TestCSS(t *testing.T) {
	for text, want := range map[string]string{
		"a{b:url(x)}": "x", "a{b:url( x )}": "x", "a{b:URL('x')}": "x", `a{b:url("x y")}`: "x y",
		"a{b:url(x y)c:url(z)}": "z", "url()url('')": "", "url(#x)": "",
		"url(x": "x", "url('x": "x", "url(x ": "x", "url('x\n') url(y)": "", "url('x\n'); url(y)": "",
		`\75rl(x)`: "x", `\000055 r\l(x)`: "x", `u\72 l(x)`: "x", `url(\78)`: "x", `url(\78 y)`: "xy",
		`url(a\)b)`: "a)b", `url(a\(b)`: "a(b", `url("a\"b")`: `a"b`,
		"url(\"a\\\nb\")": "ab", "url(\"a\\\r\nb\")": "ab", `url(\0)`: "\uFFFD", `url(\110000 )`: "\uFFFD",
		`url("\D800 x")`: "\uFFFDx", "url(a\x00b)": "a\uFFFDb",
		"url(a'b) url(c)": "c", "url(a(b) url(c)": "c", "url(a\x01) url(c)": "c", "url(a\\\nb) url(c)": "c",
		`url(a"\)b) url(c)`:   "c",
		"/* url(x) */ url(y)": "y", "/* url(x)": "", "/**/url(y)": "y", "u/**/rl(y)": "",
		"/*/ url(x) */url(y)": "y", "'url(x)' url(y)": "y", `"\"url(x)" url(y)`: "y",
		"xurl(x)": "", "-url(x)": "", "--url(x)": "", "#url(x)": "", "1url(x)": "", "1.5url(x)": "",
		"url (x)": "", "urlx(x)": "", "src('x')": "", "image-set('x' 1x)": "",
		"image-set(url(x) 1x, url('y') 2x)": "x y", "<!-- url(x) -->url(y)": "x y",
		"@import 'x';": "x", `@IMPORT"x"`: "x", "@import url(x) print;": "x", "@import/**/ 'x' layer(a);": "x",
		`@\69mport 'x'`: "x", "@importx 'x'": "", "@import x 'y'": "",
		"@import; 'x'": "", "@import 'x' 'y'": "x", "@ import 'x'": "", "@namespace url(x); a{b:url(y)}": "y",
		"@namespace s 'x';url(y)": "y", "@charset 'x';": "",
		"@font-face{src:local(x),url(y)format('z')}": "y", "@media x{a{b:url(y)}}": "y",
		"\uFEFF@import 'x'": "x", "": "", "\\": "", "url(\\": "\uFFFD", "'\\": "",
	} {
		if got := cssLinks(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for _, test := range []struct{ body, contentType, ref, charset string }{
		{"url(\xe9)", "text/css; charset=iso-8859-1", "é", "windows-1252"},
		{"@charset \"koi8-r\";url(\xc1)", "text/css", "а", "koi8-r"},
		{"@charset \"koi8-r\";url(\xc1)", "text/css; charset=iso-8859-1", "Á", "windows-1252"},
		{"@charset 'koi8-r';url(é)", "", "é", "utf-8"},
		{"@charset \"utf-16\";url(é)", "", "é", "utf-8"},
		{"\xEF\xBB\xBFurl(é)", "text/css; charset=koi8-r", "é", "utf-8"},
		{"\xFF\xFEu\x00r\x00l\x00(\x00x\x00)\x00", "", "x", "utf-16le"},
		{"url(\x83\x5c)", "text/css; charset=shift_jis", "ソ", "shift_jis"},
		{"url(é)/*<meta charset=koi8-r>*/", "", "é", "utf-8"},
	} {
		page := new(Page)
		NewParser(Options{}).ParseCSS([]byte(test.body), test.contentType, page)
		if len(page.Links) != 1 || string(page.Links[0].Ref) != test.ref || page.Charset != test.charset ||
			page.Encoding != nil || !page.Links[0].Asset {
			t.Errorf("%q: got %s in %s, want %s in %s", test.body, links(page), page.Charset, test.ref, test.charset)
		}
	}
}

// TestInlineCSSCharset: the text of <style> is in the page's encoding, in which a byte of a character may
// look like an escape.
func TestInlineCSSCharset(t *testing.T) {
	for _, body := range []string{"<style>a{b:url(\x83\x5c)}</style>", "<p style='a:url(\x83\x5c)'>",
		"<svg><style><![CDATA[a{b:url(\x83\x5c)}]]></style>"} {
		page := new(Page)
		NewParser(Options{Assets: true}).Parse([]byte(body), "text/html; charset=shift_jis", page)
		if got := links(page); got != "css:ソ" {
			t.Errorf("%q: got %s", body, got)
		}
	}
}

func FuzzCSS(f *testing.F) {
	for _, s := range []string{"@import 'x'; a{b:url( \"y\" )}", `\75rl(a\)b)/*`,
		"@namespace url(x);<!-- 1url(x) -->url(z\\", "'a\\\r\nb\n' url(c'd)"} {
		f.Add([]byte(s), "text/css; charset=utf-8")
	}
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		if len(body) > 1<<16 {
			return
		}
		page := new(Page)
		NewParser(Options{Assets: true}).ParseCSS(body, contentType, page)
		size := 0
		for _, l := range page.Links {
			if size += len(l.Ref); !l.Asset || len(l.Ref) == 0 || l.Ref[0] == '#' {
				t.Fatalf("%q: link %+v", body, l)
			}
		}
		if size > 4*len(body)+16 || len(page.Links) > len(body)/2 {
			t.Fatalf("%q: %d links of %d bytes", body, len(page.Links), size)
		}
		// Comments between tokens change nothing.
		if page.Charset == "utf-8" && !bytes.Contains(body, []byte("*/")) &&
			strings.HasPrefix(contentType, "text/css; charset=utf-8") {
			again := cssLinks("/* url(x) */" + string(bytes.TrimPrefix(body, []byte("\uFEFF"))))
			if want := cssLinks(string(body)); again != want {
				t.Fatalf("%q: got %q behind a comment, want %q", body, again, want)
			}
		}
	})
}

func FuzzSrcset(f *testing.F) {
	for _, s := range []string{"a 1x, b 2x", "a,, b(,) , c", "data:,x 1w"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		n := 0
		eachSrcset(value, func(ref []byte) {
			if n += len(ref); len(ref) == 0 || ref[0] == ',' || ref[len(ref)-1] == ',' ||
				bytes.ContainsAny(ref, " \t\n\f\r") {
				t.Fatalf("%q: %q", value, ref)
			}
		})
		if n > len(value) {
			t.Fatalf("%q: %d bytes", value, n)
		}
	})
}

// TestQueryCharsets: queries are encoded in the page's encoding by the URL standard's "percent-encode after
// encoding", paths in UTF-8. Characters that the encoding lacks become character references.
func TestQueryCharsets(t *testing.T) {
	utf16 := "\xFF\xFE"
	for _, c := range "<a href='é?ж'>" {
		utf16 += string([]byte{byte(c), byte(c >> 8)})
	}
	x := NewExtractor(Options{}, weburl.Options{})
	for _, test := range []struct{ charset, body, want string }{
		{"windows-1251", "<a href='\xE6?\xE6=&eacute;&amp;x'>", "%D0%B6?%E6=%26%23233%3B&x"},
		{"shift_jis", "<a href='\x83\x65?\x83\x65&#1078;&#8364;'>", "%E3%83%86?%83e%84w%26%238364%3B"},
		{"gbk", "<a href='\xD6\xD0?\xD6\xD0&#8364;&#128169;'>", "%E4%B8%AD?%D6%D0%80%26%23128169%3B"},
		{"gb18030", "<a href='?&#128169;'>", "?%949%DA3"},
		{"euc-kr", "<a href='?\xB0\xA1&#233;'>", "?%B0%A1%26%23233%3B"},
		{"big5", "<a href='?\xA4\xA4&#233;'>", "?%A4%A4%26%23233%3B"},
		{"utf-16le", utf16, "%C3%A9?%D0%B6"},
		{"utf-8", "<a href='?\xE9'>", "?%EF%BF%BD"},
		{"x-user-defined", "<a href='?\xE9'>", "?%E9"},
	} {
		got := ""
		if _, err := x.Extract([]byte("http://h/"), []byte(test.body), "text/html; charset="+test.charset,
			func(url []byte, _ *Link) { got += string(url) }); err != nil ||
			got != "http://h/"+test.want {
			t.Errorf("%s: got %s, %v, want %s", test.charset, got, err, test.want)
		}
	}
}
