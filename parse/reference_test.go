package parse

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	seedFlag  = flag.Uint64("seed", 1, "seed of the random pages")
	pagesFlag = flag.Int("pages", 30_000, "random pages to compare with the tree builder")
	filesFlag = flag.String("files", "", "directory of HTML files to compare with the tree builder")
)

// linkSet returns the links and other results of a page, without duplicates, in a fixed order. The tree
// builder duplicates some links.
func linkSet(page *Page) []string {
	set := []string{
		fmt.Sprintf("base %q", page.Base), fmt.Sprintf("canonical %q", page.Canonical),
		fmt.Sprintf("robots %v", page.Robots),
		"charset " + page.Charset,
	}
	for _, l := range page.Links {
		if !l.Asset && l.Tag != Form {
			set = append(set, fmt.Sprintf("%s %q %v %v", l.Tag, l.Ref, l.Rel, l.NoFollow))
		}
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// difference describes how scanner and tree builder differ on a page, or returns "". A page that the tree
// builder rejects does not count.
func difference(body []byte, contentType string) string {
	opt := Options{Rels: DefaultRels | RelAlternate | RelOther, Agent: "drumbeat", MaxLinks: 1 << 30}
	want, err := Reference(opt, body, contentType)
	if err != nil {
		return ""
	}
	var got Page
	NewParser(opt).Parse(body, contentType, &got)
	a, b := linkSet(&got), linkSet(want)
	if slices.Equal(a, b) {
		return ""
	}
	a2 := slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
	b2 := slices.DeleteFunc(slices.Clone(b), func(s string) bool { return slices.Contains(a, s) })
	return fmt.Sprintf("only the scanner: %s\nonly the tree:    %s", a2, b2)
}

// assetSet returns the parts of a page and its forms without duplicates.
func assetSet(page *Page) []string {
	var set []string
	for _, l := range page.Links {
		if l.Asset || l.Tag == Form {
			set = append(set, fmt.Sprintf("%s %q %v", l.Tag, l.Ref, l.NoFollow))
		}
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// assetDifference is difference with Assets and Forms. The tree builder drops elements because of their
// position (<td> outside a table, a form in a form), whose parts the scanner keeps. So the scanner must find
// what the tree has and may find more, unless exact is set.
func assetDifference(body []byte, contentType string, exact bool) string {
	opt := Options{Rels: DefaultRels | RelAlternate | RelOther, Agent: "drumbeat", MaxLinks: 1 << 30,
		Assets: true, Forms: true}
	want, err := Reference(opt, body, contentType)
	if err != nil {
		return ""
	}
	var got Page
	NewParser(opt).Parse(body, contentType, &got)
	for i, s := range [][2][]string{{linkSet(&got), linkSet(want)}, {assetSet(&got), assetSet(want)}} {
		a2 := slices.DeleteFunc(slices.Clone(s[0]), func(x string) bool { return slices.Contains(s[1], x) })
		b2 := slices.DeleteFunc(slices.Clone(s[1]), func(x string) bool { return slices.Contains(s[0], x) })
		if len(b2) > 0 || len(a2) > 0 && (exact || i == 0) {
			return fmt.Sprintf("only the scanner: %s\nonly the tree:    %s", a2, b2)
		}
	}
	return ""
}

// pages returns the number of random pages.
func pages() int {
	if testing.Short() {
		return *pagesFlag / 5
	}
	return *pagesFlag
}

// knownToDiffer reports whether a page has a feature that the package comment lists.
func knownToDiffer(body []byte) bool {
	lower := bytes.ToLower(body)
	for _, s := range []string{"<svg", "<math"} {
		if bytes.Contains(lower, []byte(s)) {
			return true
		}
	}
	if bytes.Contains(lower, []byte("<frameset")) &&
		(bytes.Contains(lower, []byte("</html")) || bytes.Contains(lower, []byte("<template"))) {
		return true
	}
	return bytes.Count(lower, []byte("<base")) > 1 || bytes.Count(lower, []byte("canonical")) > 1 ||
		bytes.Contains(lower, []byte("<template")) && bytes.Contains(lower, []byte("<col"))
}

func TestRandomPagesAgainstReference(t *testing.T) {
	rnd := rand.New(rand.NewPCG(*seedFlag, 0))
	pieces := strings.Split("<a href=1>|<a href='2'>|<a href=\"3\" rel=nofollow>|<a href=4/>|<a  HREF = 5 >|<a "+
		"x=y/href=6>|<a href=7 href=8>|"+
		"<a href>|<a href=>|<a href=''>|<a =href=9>|<a \"href=10\">|<a href=\"11|<a href='12|</a>|</a "+
		"href=13>|<area href=14>|"+
		"<link rel=next href=15>|<link href=16 rel='Canonical X'>|<link href=17>|<link rel=alternate "+
		"href=>|<base href=18>|<base>|"+
		"<iframe src=19>|</iframe>|<iframe src=20 />|<meta http-equiv=refresh content='1;url=21'>|<meta "+
		"name=robots content=none>|"+
		"<meta name=drumbeat content='noindex,x'>|<!--|-->|--!>|<!-->|<!--->|<!|<!>|<?|>|<|</|</>|<!doctype "+
		"html>|<![CDATA[|]]>|"+
		"<script>|</script>|<script|<SCRIPT >|</scripty>|</script "+
		"x='>'>|<!--<script>|-|--|<style>|</style>|<title>|</title>|</TITLE\n>|"+
		"<textarea>|</textarea>|<xmp>|</xmp>|<noembed>|</noembed>|<noframes>|</noframes>|<noscript>|</noscript>|"+
		"<table>|<tr>|<td>|"+
		"</table>|<select>|<option>|</select>|<p>|<div class=\"x y\">|</div>|<b>|</b>|<form>|<input "+
		"type=hidden>|<h1>|<li>|<body>|</body>|"+
		"<html>|</html>|<head>|</head>|<button>|<caption>|<colgroup>|<object>|<br/>|<nobr>|<textarea/>|<ruby>|<rt>|"+
		"<hr>|<plaintext>|"+
		"<frameset>|<frameset>|</frameset>|<frame src=23>|<template>|</template>|</br>|"+
		"text|a|\x00|\r|\r\n|\n|\t|\f| |=|'|\"|/|&amp;|&|&copy|&copy;|&copy=|&notit;|&#38;|&#x26|&#0;|&#128;|;|"+
		"<img src=30>|<img SRCSET='31 1x, 32'>|<source src=33 srcset=34,>|<video src=35 poster=36>|<audio "+
		"src=37>|<track src=38>|<embed src=39>|"+
		"<object data=40>|<input type=image src=41>|<input src=42>|<script src=43></script>|<td "+
		"background=44>|<body background=45>|"+
		"<p style='x:url(46)'>|<style>@import url(47);x{y:url('48')}</style>|<a style=\"x:url(&quot;49&quot;)\" "+
		"href=50>|<link rel=icon href=51>|"+
		"<link rel=preload imagesrcset='52,53 2x'>|<form action=54>|<form action=55 method=POST>|<form action=56 "+
		"method=x>|</form>|"+
		"<img src=''>|<img src=#57>|<div style=''>|<image src=58>|"+
		"<a href='&amp;&copy;&copy=&notin;&notit;&amp&ampx&#65;&#x41&#xD800;&#9999999999;&#;&#x;&;&fjlig;&semi;&gt'>|"+
		"<a href=&quot;x>|<a href='\r\n\x00\r'>|<a href=\xff>|<a\x00href=1>|<a\x00 "+
		"href=22>|<ahref=23>|<a/href=24>|<a href=a\"b'c=d>", "|")
	pieces = append(pieces, "|")
	for i := range pages() {
		var b bytes.Buffer
		for range 1 + rnd.IntN(14) {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		if bytes.Contains(b.Bytes(), []byte("<frameset")) && knownToDiffer(b.Bytes()) {
			continue
		}
		if d := difference(b.Bytes(), "text/html; charset=utf-8"); d != "" {
			t.Fatalf("-seed %d, page %d: %q\n%s", *seedFlag, i, b.Bytes(), d)
		}
		if d := assetDifference(b.Bytes(), "text/html; charset=utf-8", false); d != "" {
			t.Fatalf("with assets: -seed %d, page %d: %q\n%s", *seedFlag, i, b.Bytes(), d)
		}
	}
}

// TestFilesAgainstReference compares real pages, if given: -files /usr/share/doc.
func TestFilesAgainstReference(t *testing.T) {
	if *filesFlag == "" {
		t.Skip("-files names no directory")
	}
	files, bad, repeats, links := 0, 0, 0, 0
	filepath.WalkDir(*filesFlag, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.Contains(filepath.Ext(path), ".htm") {
			return nil
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		files++
		if d := difference(body, "text/html"); d != "" {
			bad++
			t.Errorf("%s:\n%.2000s", path, d)
		}
		want, err := Reference(Options{MaxLinks: 1 << 30}, body, "text/html")
		if err != nil {
			return nil // too deep
		}
		var got Page
		NewParser(Options{MaxLinks: 1 << 30}).Parse(body, "text/html", &got)
		if links += len(want.Links); len(got.Links) != len(want.Links) {
			repeats++ // the tree repeats links that HTML closes and reopens
		}
		return nil
	})
	t.Logf("%d files, %d differ, %d in how often a link comes; %d links", files, bad, repeats, links)
}

func FuzzScanAgainstReference(f *testing.F) {
	for _, body := range []string{
		"<!doctype html><title>x</title><a href=1>", "<script><!--<script></script>--></script><a href=2>",
		"<!--><a href='&amp;&copy=1'>--!><a href=\"\r\n\x00\">",
		"<table><tr><td><a href=x><select><a href=y></select></table>",
		"<noscript><iframe src=x></iframe><meta http-equiv=refresh content='0, URL = \"x\"'></noscript>",
		"<img src=a srcset='b 1x, c,d 2x' style='x:url(e)'><style>@import 'f';</style><form action=g><input " +
			"type=image src=h></form>",
		"<body background=a><video src=b poster=c><source src=d><object data=e><script src=f></script><link " +
			"rel=preload imagesrcset='g, h' href=i>",
		"<textarea></textarea ><base href=//x><link rel=next href=y><xmp></XMP/><plaintext><a href=z>",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 4096 || knownToDiffer(body) {
			return
		}
		if d := difference(body, "text/html; charset=utf-8"); d != "" {
			t.Fatalf("%q\n%s", body, d)
		}
		if d := assetDifference(body, "text/html; charset=utf-8", false); d != "" {
			t.Fatalf("with assets: %q\n%s", body, d)
		}
	})
}
