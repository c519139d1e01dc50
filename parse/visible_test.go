package parse

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func visible(b []byte, xml bool) string {
	var out []string
	EachText(b, xml, func(run []byte) { out = append(out, string(run)) })
	return strings.Join(out, "|")
}

func TestEachText(t *testing.T) {
	for _, c := range []struct{ page, want string }{
		{"", ""},
		{"plain", "plain"},
		{"<p>one</p>two<br>three", "one|two|three"},
		{"<title>t</title><style>p{}</style><script>if (a<b) x</script>shown", "shown"},
		{"<TEXTAREA><b>typed</b></textarea><noframes>n</noframes><noembed>e</noembed><iframe>i</iframe>x", "x"},
		{"a<template>b<template>c</template>d</template>e", "a|e"},
		{"a<!-- b <p> c -->d<!doctype html>e<?pi ?>f</ bogus>g", "a|d|e|f|g"},
		{`a<img alt="x > y" title='<p>'>b`, "a|b"},
		{"1 < 2 <3", "1 | 2 |3"},
		{"<noscript>without</noscript>", "without"},
		{"a<p title=\"no end", "a"},
		{"a<", "a"},
		{"a<b", "a"},
		{"a</", "a"},
		{"a<script>never ends", "a"},
		{"<!--x-->\n", "\n"},
	} {
		if got := visible([]byte(c.page), false); got != c.want {
			t.Errorf("%q: got %q, want %q", c.page, got, c.want)
		}
	}
	const empty = "a<script src=x />b<title/>c<template/>d<br/>e<style>no</style>f"
	if got := visible([]byte(empty), true); got != "a|b|c|d|e|f" {
		t.Errorf("XML: got %q", got)
	}
	if got := visible([]byte(empty), false); got != "a" {
		t.Errorf("HTML: got %q", got)
	}
}

// FuzzEachText: the runs are in order, do not overlap, and hold no '<'.
func FuzzEachText(f *testing.F) {
	f.Add([]byte("<p>a</p><!-- b --><script>c</script>d"), false)
	f.Add([]byte("<template></template></template>x<a b='>'>y"), false)
	f.Add([]byte("a<script/>b<p/></p>c"), true)
	f.Fuzz(func(t *testing.T, b []byte, xml bool) {
		end := 0
		EachText(b, xml, func(run []byte) {
			at := cap(b) - cap(run)
			if at < end || len(run) == 0 || !bytes.Equal(b[at:at+len(run)], run) {
				t.Fatalf("run at %d of %d bytes after %d", at, len(run), end)
			}
			end = at + len(run)
			if bytes.IndexByte(run, '<') >= 0 {
				t.Fatalf("a tag in %q", run)
			}
		})
	})
}

// TestEachTextAgainstTokenizer compares the words of ordinary pages.
func TestEachTextAgainstTokenizer(t *testing.T) {
	page := `<!DOCTYPE html><html><head><title>No</title><meta name="description" content="no">
<style>.no{}</style><link rel=stylesheet href=x></head><body class="a b"><h1 id=top>Head &amp; line</h1>
<p>Text with <b>bold</b>, <a href="/x?a=1&b=2" title="a > b">a link</a> and 1 &lt; 2.</p>
<ul><li>one<li>two</ul><script type="x">document.write("<p>no</p>")</script><!-- no <b>no</b> -->
<table><tr><td>cell</td><td>other</table><pre>
  lines </pre></body></html>`
	var want []string
	z := html.NewTokenizer(strings.NewReader(page))
	hidden := ""
	for kind := z.Next(); kind != html.ErrorToken; kind = z.Next() {
		raw := string(z.Raw())
		switch name, _ := z.TagName(); kind {
		case html.StartTagToken:
			if n := string(name); n == "title" || n == "style" || n == "script" {
				hidden = n
			}
		case html.EndTagToken:
			if string(name) == hidden {
				hidden = ""
			}
		case html.TextToken:
			if hidden == "" {
				want = append(want, strings.Fields(raw)...)
			}
		}
	}
	got := strings.Fields(strings.ReplaceAll(visible([]byte(page), false), "|", " "))
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
