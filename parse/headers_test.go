package parse

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// linkLine prints the links of a Link header: "target=rels", and '!' for nofollow.
func linkLine(value string) string {
	var out []string
	EachLink([]byte(value), func(l HeaderLink) {
		s := fmt.Sprintf("%s=%d", l.Target, l.Rel)
		if l.NoFollow {
			s += "!"
		}
		if len(l.HrefLang) > 0 {
			s += ":" + string(l.HrefLang)
		}
		out = append(out, s)
	})
	return strings.Join(out, " ")
}

// TestLinkHeader has the examples of RFC 8288 and variants seen on servers.
func TestLinkHeader(t *testing.T) {
	for value, want := range map[string]string{
		`<http://example.com/TheBook/chapter2>; rel="previous"; title="previous chapter"`: "http://example.com/" +
			"TheBook/chapter2=2",
		`</>; rel="http://example.net/foo"`:        "/=16",
		`</terms>; rel="copyright"; anchor="#foo"`: "",
		`</TheBook/chapter2>; rel="previous"; title*=UTF-8'de'letztes%20Kapitel, </TheBook/chapter4>; rel="next"; ` +
			`title*=UTF-8'de'x`: "/TheBook/chapter2=2 /TheBook/chapter4=1",
		`<http://example.org/>; rel="start http://example.net/relation/other"`: "http://example.org/=16",
		`<a>; rel="next", <b>; rel=prev`:                                       "a=1 b=2",
		`<a,b;c>; title="x, <y>; rel=next"; rel=canonical`:                     "a,b;c=4",
		`<a>;rel=next;rel=prev`:                                                "a=1",
		`<a>;rel=preload;as=style, <b>; rel="icon"`:                            "a=48 b=48",
		`<a>`: "a=0",
		`<a>; rel=alternate; hreflang="de"; hreflang=fr, <b>;rel=next`: "a=8:de b=1",
		`<>;rel=next`:                          "=1",
		`<a> ; REL = "Next NoFollow"`:          "a=1!",
		`<a>;rel="ne\xt"`:                      "a=1",
		`<a>; rel="next`:                       "a=0",
		`<a>; rel=next; anchor=""`:             "a=1",
		`<a>; rel;x;;rel=next`:                 "a=0",
		`<a>;;;rel=next;`:                      "a=1",
		`,, ,<a>;rel=next,,<b>;rel=next,`:      "a=1 b=1",
		`junk, <a>;rel=next`:                   "a=1",
		`junk "x, <b>;rel=next", <a>;rel=next`: "a=1",
		`<a>x;rel=next, <b>;rel=next`:          "a=0 b=1",
		`<a`:                                   "",
		``:                                     "",
		`<a>;rel=alternate;hreflang=de, <b>;rel="canonical"`: "a=8:de b=4",
	} {
		if got := linkLine(value); got != want {
			t.Errorf("%s: got %q, want %q", value, got, want)
		}
	}
}

func TestRobotsTag(t *testing.T) {
	both, index, follow := Robots{true, true, false}, Robots{NoIndex: true}, Robots{NoFollow: true}
	for value, want := range map[string]Robots{
		"noindex": index, "NOFOLLOW": follow, "none": both, "all": {}, "index, follow": {}, "noindex,nofollow": both,
		"noindex nofollow": both, "all, none": both, "none, all": both, "nofollow, follow": follow,
		"otherbot: noindex": {}, "Drumbeat: nofollow": follow, "drumbeat: noindex, nofollow": both, "*: noindex": index,
		"otherbot: noindex, nofollow": {}, "otherbot: noindex, drumbeat: nofollow": follow,
		"noindex, otherbot: nofollow":           index,
		"drumbeat: noindex, otherbot: nofollow": index, "drumbeatx: none": {}, "drumbeat/2.0: none": {},
		"unavailable_after: 25 Jun 2010 15:00:00 PST":               {},
		"unavailable_after: Wed, 25 Jun 2010 15:00:00 GMT, noindex": index,
		"max-image-preview: none":                                   {}, "max-snippet:-1, nofollow": follow,
		"max-image-preview:none, noindex": index, "noarchive, nosnippet": {NoArchive: true},
		"": {}, ",": {}, ":": {}, " : noindex": {}, "noindexed": {}, "no index": {},
	} {
		if got := ParseRobotsTag([]byte(value), "drumbeat"); got != want {
			t.Errorf("%q: got %+v, want %+v", value, got, want)
		}
	}
	if got := ParseRobotsTag([]byte("drumbeat: none"), ""); got != (Robots{}) {
		t.Errorf("without an agent: got %+v", got)
	}
	for content, want := range map[string]Robots{
		"max-image-preview: none": {}, "unavailable_after: 2030-01-01, nofollow": follow,
		"drumbeat: noindex": {}, "noindex;nofollow": {},
		"noarchive,NoIndex\tnofollow": {true, true, true},
	} {
		if got := ParseRobots([]byte(content)); got != want {
			t.Errorf("meta %q: got %+v, want %+v", content, got, want)
		}
	}
}

func TestSniff(t *testing.T) {
	for body, want := range map[string]bool{
		"<!DOCTYPE html>": true, "<!doctype HTML PUBLIC": true, " \t\r\n\f<html>": true, "<HTML lang=de>": true,
		"\uFEFF<html>": true, "<head>": true,
		"<script src=x>": true, "<iframe >": true, "<h1>": true, "<div >": true, "<font >": true,
		"<table>": true, "<a href=x>": true,
		"<style>": true, "<title>x": true, "<b>": true, "<body>": true, "<br>": true, "<p>": true, "<!--": true,
		"<!-- x": true,
		"<html":  false, "<html\n>": false, "<html/>": false, "<!doctype>": false, "<htmlx>": false,
		"<span>": false, "x<html>": false, "": false,
		"<?xml version='1.0'?><html>": false, "<": false, "\v<html>": false,
		strings.Repeat(" ", 2000) + "<html>": false,
	} {
		if got := SniffHTML([]byte(body)); got != want {
			t.Errorf("%.40q: got %t", body, got)
		}
	}
	for body, want := range map[string]bool{"<!doctype html>": true, "\n<HTML >": true, "<head>": true, "<body>": true,
		"<title>": true, "<!-- -->": false, "<p>": false, "<a href=x>": false, "<script>": false, "x<html>": false,
		"<html": false} {
		if got := SniffDocument([]byte(body)); got != want {
			t.Errorf("%q as a document: got %t", body, got)
		}
	}
	const ns = `xmlns="http://www.w3.org/1999/xhtml"`
	for body, want := range map[string]bool{
		"<html " + ns + ">": true, "\uFEFF<?xml version='1.0'?>\n<!-- <rss> --><!DOCTYPE html [<!ENTITY x " +
			"'>'>]>\n<html lang='x' " + ns + "/>": true,
		"<html>": false, "<rss " + ns + ">": false, "<h:html xmlns:h='http://www.w3.org/1999/xhtml'>": false,
		"<HTML " + ns + ">": false,
		"<html xmlns='x'>":  false, "<!DOCTYPE html [": false, "<?xml": false, "": false, "<html " + ns[:20]: false,
	} {
		if got := SniffXHTML([]byte(body)); got != want {
			t.Errorf("%.80q: got %t", body, got)
		}
	}
}

// TestXHTML: in a page served as XML an element may be empty that in HTML swallows what follows.
func TestXHTML(t *testing.T) {
	body := `<title/><script src="x"/><style/><textarea/><iframe src="1"/><a href="2"></a><script>"<a href=3>"</script>`
	for contentType, want := range map[string]string{
		"application/xhtml+xml": "iframe:1 a:2", "Application/XHTML+XML; charset=utf-8": "iframe:1 a:2",
		"text/xml": "iframe:1 a:2", "text/html": "", "": "", "xml": "",
	} {
		if got := links(parsePageAs(contentType, body)); got != want {
			t.Errorf("%s: got %s, want %s", contentType, got, want)
		}
	}
}

func FuzzLinkHeader(f *testing.F) {
	for _, s := range []string{`<a>; rel="next", <b>;rel=prev`, `<a,b;c>; title="x, <y>; rel=next"; rel=canonical`,
		`x"<a>\"", <b>;anchor=c`, `<a>;rel="n\e`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		n := 0
		EachLink(value, func(l HeaderLink) {
			if n++; !bytes.Contains(value, append(append([]byte("<"), l.Target...), '>')) {
				t.Fatalf("%q: target %q", value, l.Target)
			}
		})
		if n > bytes.Count(value, []byte("<")) {
			t.Fatalf("%q: %d links", value, n)
		}
	})
}

func FuzzRobotsTag(f *testing.F) {
	for _, s := range []string{"noindex, nofollow", "otherbot: noindex, drumbeat: none",
		"unavailable_after: Wed, 25 Jun 2010 15:00:00 GMT", "*: none"} {
		f.Add([]byte(s), "drumbeat")
	}
	f.Fuzz(func(t *testing.T, value []byte, agent string) {
		lower := bytes.ToLower(value)
		got := ParseRobotsTag(value, agent)
		none := bytes.Contains(lower, []byte("none"))
		if got.NoIndex && !none && !bytes.Contains(lower, []byte("noindex")) ||
			got.NoFollow && !none && !bytes.Contains(lower, []byte("nofollow")) {
			t.Fatalf("%q for %q: got %+v", value, agent, got)
		}
		// Preceding directives for another agent change nothing if ours follow.
		if isAgent([]byte(agent)) && agent != "x-other" && !hasValue([]byte(agent)) && bytes.IndexByte(value, ':') < 0 {
			joined := append([]byte("x-other: none, "+agent+": "), value...)
			if again := ParseRobotsTag(joined, agent); again != got {
				t.Fatalf("%q: got %+v, alone %+v", joined, again, got)
			}
		}
	})
}

func FuzzRefresh(f *testing.F) {
	for _, s := range []string{"0;url=x", "5,url='x y'z", ".5 URL = \"x", "1.2.3\t;u", "0;'"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if ref := ParseRefresh(value); ref != nil && !bytes.Contains(value, ref) {
			t.Fatalf("%q: got %q", value, ref)
		}
	})
}
