package parse

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// scalar returns a Parser that examines every tag.
func scalar(opt Options) *Parser {
	p := NewParser(opt)
	p.wide = false
	return p
}

// checkWide compares skipWide with a scan of every tag, with the page at several offsets in a block and,
// because blocks need room, followed by text.
func checkWide(t *testing.T, body []byte) {
	t.Helper()
	opt := Options{Rels: DefaultRels | RelAlternate | RelOther, Agent: "drumbeat", Forms: len(body)%2 == 0}
	a, b := NewParser(opt), scalar(opt)
	for _, before := range [...]int{0, 1, 31, 61, 62, 63} {
		for _, after := range [...]string{"", strings.Repeat(" ", 2*wideBlock),
			` x='"'>` + strings.Repeat("<a href=x><p>'", wideBlock)} {
			text := []byte(strings.Repeat("x", before) + string(body) + after)
			var got, want Page
			a.Parse(text, "text/html; charset=utf-8", &got)
			b.Parse(text, "text/html; charset=utf-8", &want)
			if !reflect.DeepEqual(linkSet(&got), linkSet(&want)) || len(got.Links) != len(want.Links) {
				t.Fatalf("-seed %d: %q\nwide:   %s\nscalar: %s", *seedFlag, text, links(&got), links(&want))
			}
			if !hasWide() {
				return
			}
		}
	}
}

// widePieces are pieces of plain tags, and pieces that make tags not plain.
var widePieces = strings.Split(
	"<p>|</p>|<b|<div class=\"x\">|<td width=5>|<img src=\"y\" alt=\"\">|<h1 id='z'>|<br/>|<br />|text|"+
		"<a href=\"1\">|<a href=\"2\" title=\"<a href='3'>\">|<a\nhref=4>|<A HREF=\"5\">|<a>|</a>|<ab "+
		"href=6>|<area href=\"7\">|"+
		"<base href=\"8\">|<link rel=\"next\" href=\"9\">|<LINK REL=\"next\" HREF=\"10\">|<li>|<lik>|<meta "+
		"name=\"robots\" content=\"none\">|"+
		"<script>|</script>|<style>|</style>|<strong>|<title>|</title>|<iframe "+
		"src=\"11\">|</iframe>|<svg>|</svg>|<math>|</math>|"+
		"<form action=\"14\">|<FORM "+
		"ACTION=15>|</form>|<font>|<frameset>|<template>|<textarea>|</textarea>|<xmp>|</xmp>|<noembed>|</noembed>|"+
		"<noframes>|</noframes>|<frame src=\"12\">|<plaintext|<!--|-->|<!|<?|</|"+
		"<|>|=|\"|'| |/|\n|\x00|\xff|\x0b|\f|&|x|a|<p title=\"|\">|\" "+
		"|=\"|=\"\"|=\"'\"|=\">\"|=\"<\"|<x=\"|<x\"=\"|<p =\"|<p/=\"|<p a=b=\"|<p a b=\"|"+
		"\"=\"|<p a=\"b\"c=\"d\">|<p a=\"b\"=\"d>\">|<p a= \"b\">|<p a =\"b\">|<p a='\"'>|<p a=b'\">|<p a=b\">|</p "+
		"a=\"|</p=\"|<1|<é|<pé>|"+
		"0123456789012345678901234567890123456789|<p \" a=\"|<p =\" a=\"|<x=\" a=\"|<p onclick=\"if (a < b && b > c) "+
		"{ x('<a href=13>') }\">", "|")

// TestWideAgainstScalar: with skipWide the scanner finds what it finds without.
func TestWideAgainstScalar(t *testing.T) {
	if !hasWide() {
		t.Skip("this processor has no wide scanner")
	}
	rnd := rand.New(rand.NewPCG(*seedFlag, 1))
	for range pages() / 10 {
		var b bytes.Buffer
		for range 1 + rnd.IntN(30) {
			b.WriteString(widePieces[rnd.IntN(len(widePieces))])
		}
		checkWide(t, b.Bytes())
	}
}

// TestWideRefutes: each of these tags looks plain if one of the proofs in wide.go is omitted.
func TestWideRefutes(t *testing.T) {
	for _, body := range []string{
		// No '=" where a value begins.
		`<p " a="><a href=1>">`, `<p a='><a href=1>'>`, `<p a=b" c="><a href=1>">`, `<p a= "><a href=1>">`,
		// No name before '='.
		`<p =" a="><a href=1>">`, `<p/=" a="><a href=1>">`, `<p b="c"=" a="><a href=1>">`,
		"<p\x0c=\" a=\"><a href=1>\">",
		// Still in the tag's name.
		`<x=" a="><a href=1>">`, `</x=" a="><a href=1>">`, "<x\x0b=\" a=\"><a href=1>\">",
		// '<' or '>' in the tag.
		`<p a="><a href=1>">`, `<p a="<a href=1>">`, `<p <a href=1>`, `<p a="b" <a href="c" d="><a href=1>">`,
		`> > <p a="><a href=1>"> >`,
	} {
		checkWide(t, []byte(body))
	}
}

// TestWideFiles compares real pages: -files /usr/share/doc.
func TestWideFiles(t *testing.T) {
	if *filesFlag == "" {
		t.Skip("-files names no directory")
	}
	files := 0
	filepath.WalkDir(*filesFlag, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.Contains(filepath.Ext(path), ".htm") {
			return nil
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		files++
		var got, want Page
		NewParser(Options{}).Parse(body, "text/html", &got)
		scalar(Options{}).Parse(body, "text/html", &want)
		if !reflect.DeepEqual(got.Links, want.Links) {
			t.Errorf("%s: %d links, %d by the scanner that looks at every tag", path, len(got.Links), len(want.Links))
		}
		return nil
	})
	t.Logf("%d files", files)
}

// TestWideStops: skipWide stops at every relevant element and skips plain ones.
func TestWideStops(t *testing.T) {
	if !hasWide() {
		t.Skip("this processor has no wide scanner")
	}
	tail := strings.Repeat(" ", wideBlock)
	for name := range strings.FieldsSeq("a area base link meta math svg frame iframe script style title textarea xmp " +
		"noembed noframes plaintext !-- ? 1 /1") {
		for _, name := range []string{name, strings.ToUpper(name)} {
			for before := range 64 {
				body := strings.Repeat("x", before) + "<" + name
				if got := skipWide([]byte(body+" >"+tail), 0, wideTable); got > before {
					t.Errorf("<%s behind %d bytes of text: got %d", name, before, got)
				}
			}
		}
	}
	for name := range strings.FieldsSeq(
		"p div li strong span td tr b i br h1 ul dl code em pre img /a /script /title /p") {
		body := "> <" + name + ` class="a='>'"` + ` x="">`
		body = strings.ReplaceAll(body, "'>'", "''")
		if got := skipWide([]byte(body+tail), 0, wideTable); got < len(body) {
			t.Errorf("<%s>: got %d, want %d at least", name, got, len(body))
		}
	}
}

// TestQuoteWide: quoteWide finds the quotation mark and classifies the bytes before it at every distance.
func TestQuoteWide(t *testing.T) {
	if !hasWide() {
		t.Skip("this processor has no wide scanner")
	}
	for n := range 100 {
		for _, odd := range []string{"", "&", "\x00", "\r", "\x80", "\xff"} {
			for at := range n {
				b := bytes.Repeat([]byte("x"), n+40)
				b[n] = '"'
				copy(b[at:], odd)
				copy(b[n+1:], "&\x00\r\x80\"")
				end, special, high := quoteWide(b, 0)
				wantSpecial, wantHigh := odd != "" && odd[0] < 0x80, odd != "" && odd[0] >= 0x80
				if end != n || special != 0 != wantSpecial || high != 0 != wantHigh {
					t.Fatalf("%d bytes with %q at %d: got %d, %t, %t", n, odd, at, end, special != 0, high != 0)
				}
			}
		}
	}
	if end, special, high := quoteWide(bytes.Repeat([]byte("&"), 31), 0); end != 0 || special != 0 || high != 0 {
		t.Errorf("31 bytes: got %d, %d, %d, want nothing looked at", end, special, high)
	}
}

func FuzzWide(f *testing.F) {
	f.Add([]byte(strings.Join(widePieces[:40], "")))
	f.Add([]byte(strings.Join(widePieces[40:80], "")))
	f.Add([]byte(strings.Join(widePieces[80:], "")))
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) <= 4096 {
			checkWide(t, body)
		}
	})
}
