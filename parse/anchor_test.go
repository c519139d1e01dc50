package parse

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"drumbeat/weburl"
)

func anchors(t *testing.T, opt Options, contentType string, body []byte) (list []string) {
	t.Helper()
	opt.Anchors = true
	x := NewExtractor(opt, weburl.Options{})
	if _, err := x.Extract([]byte("http://a.test/"), body, contentType, func(url []byte, l *Link) {
		rel, text := x.Anchor(l, 40)
		list = append(list,
			fmt.Sprintf("%s %s [%s] %s", bytes.TrimPrefix(url, []byte("http://a.test/")), l.Tag, rel, text))
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestAnchor: text and rel of links, in pages that browsers show in the same way.
func TestAnchor(t *testing.T) {
	for _, test := range []struct{ page, want string }{
		{`<a href=1>one</a>`, "1 a [] one"},
		{"<a rel='NoFollow\n ugc' href=1> one \n\t two&nbsp;three </a>", "1 a [NoFollow ugc] one two three"},
		{`<a href=1>a<b>b</b>c<br>d<div>e</div>f</a>g`, "1 a [] abc d e f"},
		{`<a href=1>one<a href=2>two</a>`, "1 a [] one|2 a [] two"},
		{`<a href=1>x &amp; y &lt;z&gt; &#233;</a>`, "1 a [] x & y <z> é"},
		{`<a href=1>x<script>no</script><style>no</style><!-- no -->y</a>`, "1 a [] xy"},
		{`<a href=1><img src=x alt=no></a>`, "1 a []"},
		{`<a href=1>unclosed`, "1 a [] unclosed"},
		{`<a href=1>unclosed<p`, "1 a [] unclosed"},
		{`<a href=1>0123456789 0123456789 0123456789 0123456789</a>`,
			"1 a [] 0123456789 0123456789 0123456789 0123456"},
		{`<a href=1>ééééééééééééééééééééé</a>`, "1 a [] éééééééééééééééééééé"},
		{"<a href=1>a\x00b\xff\xfec</a>", "1 a [] a\ufffdbc"},
		{`<area href=1 rel=x alt=no><a>no link</a>`, "1 area [x]"},
		{`<link rel="next foo" href=1>text`, "1 link [next foo]"},
		{`<svg><a href=1><text>in svg</text></a></svg>`, "1 a []"},
		{`<meta http-equiv=refresh content="0;url=1">`, "1 meta []"},
		{`<template><a href=1>in a template</a></template>`, "1 a [] in a template"},
		{`<frameset><frame src=1><noframes><a href=2>x</a></noframes></frameset>`, "1 frame []"},
		{"\xef\xbb\xbf<a href=1>after a BOM</a>", "1 a [] after a BOM"},
		{strings.Repeat(" ", 70_000) + `<a href=1>far</a>`, "1 a [] far"},
		{`<a href=1>` + strings.Repeat(" ", 70_000) + `too far</a>`, "1 a []"},
	} {
		got := strings.Join(anchors(t, Options{}, "text/html; charset=utf-8", []byte(test.page)), "|")
		if want := test.want; strings.TrimSpace(got) != want {
			t.Errorf("%.80q: %q, want %q", test.page, got, want)
		}
	}
}

// TestAnchorEncodings: the text is in UTF-8, whatever the page is in.
func TestAnchorEncodings(t *testing.T) {
	const page, want = `<p>é<a href=1 rel=é>Größe <b>ñ</b></a>`, "1 a [é] Größe ñ"
	latin, err := charmap.Windows1252.NewEncoder().String(page)
	if err != nil {
		t.Fatal(err)
	}
	wide, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(page)
	if err != nil {
		t.Fatal(err)
	}
	for contentType, body := range map[string]string{"text/html; charset=utf-8": page,
		"text/html; charset=latin1": latin, "text/html": wide,
		"text/html; charset=": "<meta charset=windows-1252>" + latin} {
		if got := anchors(t, Options{}, contentType, []byte(body)); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", contentType, got, want)
		}
	}
}

// FuzzAnchor: no page makes Anchor panic, or return more than it may, and the links are those without Anchors.
func FuzzAnchor(f *testing.F) {
	f.Add([]byte(`<a href=1 rel=x>one<b>two</b></a><link rel=next href=2>`), "text/html")
	f.Add([]byte("<frameset><frame src=1>"), "text/html; charset=utf-16")
	f.Add([]byte("<a href=1>\xff&#x110000;<a"), "application/xhtml+xml")
	plain, with := NewExtractor(Options{}, weburl.Options{}), NewExtractor(Options{Anchors: true}, weburl.Options{})
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		var want, got []string
		url := []byte("http://a.test/")
		if _, err := plain.Extract(url, body, contentType,
			func(u []byte, _ *Link) { want = append(want, string(u)) }); err != nil {
			t.Fatal(err)
		}
		if _, err := with.Extract(url, body, contentType, func(u []byte, l *Link) {
			got = append(got, string(u))
			rel, text := with.Anchor(l, 100)
			if len(rel) > 100 || len(text) > 100 || bytes.ContainsAny(text, "\n\t\r") ||
				!bytes.Equal(bytes.TrimSpace(text), text) {
				t.Errorf("rel %q, text %q", rel, text)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("links %q, want %q", got, want)
		}
	})
}
