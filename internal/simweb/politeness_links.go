package simweb

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// linksScenario is a host whose pages have all forms of links and are served in various wrong ways.
func linksScenario() []scenario { return []scenario{{"links", linkForms}} }

// LinkTargets returns the targets of the pages of scenario "links". The first segment says which crawlers
// must fetch them: "yes" all, once; "no" none; others those that ignore nofollow, or follow alternates,
// assets or forms.
func LinkTargets() []string {
	var text strings.Builder
	text.WriteString(linkStyle)
	for _, c := range linkCases() {
		text.WriteString(c.head + c.body + "\n")
	}
	return slices.Compact(
		slices.Sorted(slices.Values(regexp.MustCompile(`/(yes|no|nofollow|alternate|asset|form)/[a-z0-9.-]+`).
			FindAllString(strings.ReplaceAll(text.String(), "\x00", ""), -1))))
}

// linkCase is a page: head has the status line and special headers; body is sent unchanged, or encoded by
// pack.
type linkCase struct {
	head, body string
	pack       func(body string) string
	raw        bool // head has the framing, and the connection ends after the body
}

// linkForms serves each case at /case/N, a root page with links to them, and their targets.
func linkForms(w *Web, add func(hostileHost)) {
	cases := linkCases()
	var root strings.Builder
	root.WriteString("<!DOCTYPE html>")
	for i := range cases {
		root.WriteString("<a href=/case/" + strconv.Itoa(i) + ">")
	}
	add(hostileHost{name: w.hostileName("links", 0), serve: func(s *session, q *wish) bool {
		path := string(q.path)
		switch {
		case path == "/":
			return s.reply(htmlHead, root.String())
		case path == "/asset/style.css":
			return s.reply("HTTP/1.1 200 OK\r\nContent-Type: text/css\r\n", linkStyle)
		case strings.HasPrefix(path, "/case/"):
			i, err := strconv.Atoi(path[len("/case/"):])
			if err != nil || i < 0 || i >= len(cases) {
				return s.reply("HTTP/1.1 404 No\r\n", "")
			}
			return s.linkCase(&cases[i])
		}
		return s.reply("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n", "<a href=/no/image>")
	}})
}

func (s *session) linkCase(c *linkCase) bool {
	body := c.body
	if c.pack != nil {
		body = c.pack(body)
	}
	if !c.raw {
		return s.reply(c.head, body)
	}
	s.writeString(c.head + body)
	return false
}

const linkStyle = "@import url(../asset/import.css); a { background: url('/asset/background.png') } /* " +
	"url(/no/comment.png) */"

// linkCases returns the pages. A body may split a target's name between two compressed members.
func linkCases() []linkCase {
	return slices.Concat(headerCases(), robotsCases(), statusCases(), typeCases(), framingCases(), elementCases())
}

func headerCases() []linkCase {
	return []linkCase{
		{head: htmlHead + "Link: </yes/link-next>; rel=next, </yes/link-prev>; title=\"a, </no/quoted>; rel=next\"; " +
			"rel=\"x prev\"\r\n" +
			"Link: </alternate/link>; rel=alternate; hreflang=de\r\nLink: </asset/preload.js>; " +
			"rel=preload; as=script\r\n" +
			"Link: </no/anchor>; rel=next; anchor=\"/elsewhere\", </no/other>; rel=author\r\nLink: </nofollow/link>; " +
			"rel=\"next nofollow\"\r\n",
			body: "<base href=/no/base/><p>"},
		{head: "HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nLink: </yes/pdf-canonical>; rel=\"canonical\"\r\n",
			body: "%PDF <a href=/no/pdf>"},
		{head: htmlHead + "Refresh: 5; URL='/yes/refresh-header'\r\n", body: "<p>"},
		{head: "HTTP/1.1 301 Moved\r\nLocation: /yes/location\r\n", body: "<a href=/no/moved>"},
		{head: "HTTP/1.1 302 Moved\r\nlocation: ../yes/location-relative#x\r\n"},
		{head: "HTTP/1.1 300 Choose\r\nContent-Type: text/html\r\n", body: "<a href=/no/choices>"},
	}
}

func robotsCases() []linkCase {
	return []linkCase{
		{head: htmlHead, body: "<meta name=robots content='noindex, nofollow'><a href=/nofollow/meta>"},
		{head: htmlHead, body: "<meta name=Drumbeat content=none><a href=/nofollow/agent>"},
		{head: htmlHead, body: "<meta name=otherbot content=none><meta name=robots content='max-image-preview: " +
			"none'><a href=/yes/otherbot>"},
		{head: htmlHead +
			"X-Robots-Tag: nofollow\r\nLink: </nofollow/tag-link>; rel=next\r\nRefresh: 0;/nofollow/tag-refresh\r\n",
			body: "<a href=/nofollow/tag>"},
		{head: htmlHead + "X-Robots-Tag: all\r\nX-Robots-Tag: otherbot: noindex, drumbeat: nofollow\r\n",
			body: "<a href=/nofollow/tag-agent>"},
		{head: htmlHead + "X-Robots-Tag: otherbot: noindex, nofollow\r\n", body: "<a href=/yes/tag-otherbot>"},
		{head: htmlHead + "X-Robots-Tag: noindex, unavailable_after: Wed, 25 Jun 2010 15:00:00 GMT\r\n",
			body: "<a href=/yes/noindex>"},
		{head: "HTTP/1.1 302 Moved\r\nX-Robots-Tag: none\r\nLocation: /nofollow/redirect\r\n"},
		{head: htmlHead, body: "<a href=/nofollow/rel rel='noopener NoFollow'><a href=/yes/ugc rel=ugc><a " +
			"href=/yes/sponsored rel=sponsored>"},
		{head: htmlHead, body: "<a href=/nofollow/both rel=nofollow><a href=/yes/both rel=nofollow><a href=/yes/both>"},
	}
}

func statusCases() []linkCase {
	page := func(status, target string) linkCase {
		return linkCase{head: "HTTP/1.1 " + status + " X\r\nContent-Type: text/html\r\n",
			body: "<!DOCTYPE html><a href=" + target + ">"}
	}
	return []linkCase{page("201", "/yes/created"), page("203", "/yes/non-authoritative"), page("206", "/yes/partial"),
		page("404", "/no/not-found"), page("410", "/no/gone"), {head: "HTTP/1.1 204 No\r\n\r\n", raw: true},
		{head: "HTTP/1.1 304 Same\r\nContent-Type: text/html\r\n\r\n", raw: true}, {head: htmlHead}}
}

func typeCases() []linkCase {
	page := func(head, body string) linkCase { return linkCase{head: "HTTP/1.1 200 OK\r\n" + head, body: body} }
	return []linkCase{
		page("Content-Type: text/plain\r\n", "\n<!DOCTYPE html><a href=/yes/plain>"),
		page("Content-Type: text/plain\r\n", "<a href=/no/plain>"),
		page("Content-Type: text/plain\r\nX-Content-Type-Options: nosniff\r\n", "<!DOCTYPE html><a href=/no/nosniff>"),
		page("Content-Type: application/octet-stream\r\n", "<HTML><a href=/yes/octets>"),
		page("", "<p><a href=/yes/no-type></p>"),
		page("", "Warning: x in line 1\n<html><a href=/yes/no-type-late>"),
		page("", "just <a href=/no/no-type>"),
		page("Content-Type: application/xml\r\n",
			"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><title/><a href='/yes/xml'/></html>"),
		page("Content-Type: text/xml\r\n", "<rss><a href='/no/rss'/></rss>"),
		page("Content-Type: application/xhtml+xml\r\n", "<html><script src='x'/><a href='/yes/xhtml'/></html>"),
		page("Content-Type: TEXT/HTML ; charset=\"utf-8\r\n", "just text and <a href=/yes/html>"),
		page("Content-Type: text/html\r\n", "\xFF\xFE"+wide("<a href=/yes/utf-16>")),
	}
}

// wide encodes ASCII text as UTF-16.
func wide(s string) string {
	var b strings.Builder
	for _, c := range s {
		b.WriteByte(byte(c))
		b.WriteByte(0)
	}
	return b.String()
}

func framingCases() []linkCase {
	const packed = htmlHead + "Content-Encoding: gzip\r\n"
	zip := func(s string) string { return string(zipped([]byte(s))) }
	return []linkCase{
		{head: packed, body: "<!DOCTYPE html><a href=/yes/members><p>",
			pack: func(s string) string { return zip(s[:25]) + zip(s[25:]) }},
		{head: packed, body: "<!DOCTYPE html><a href=/yes/trailer>",
			pack: func(s string) string { return zip(s) + "trailing bytes" }},
		{head: packed, body: "<!DOCTYPE html><a href=/yes/cut>" + strings.Repeat("text ", 1000),
			pack: func(s string) string { z := zip(s); return z[:len(z)-6] }},
		{head: htmlHead + "Content-Length: 500\r\n\r\n", body: "<a href=/yes/too-long><p>x", raw: true},
		{head: htmlHead + "Content-Length: 26\r\n\r\n",
			body: "<a href=/yes/too-short><p>x<a href=/no/too-short>", raw: true},
		{head: htmlHead + "Transfer-Encoding: chunked\r\n\r\n1c\r\n",
			body: "<a href=/yes/no-last-chunk>\n\r\n", raw: true},
		{head: "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n", body: "<a href=/yes/no-length>", raw: true},
	}
}

func elementCases() []linkCase {
	page := func(body string) linkCase { return linkCase{head: htmlHead, body: body} }
	return []linkCase{
		page("<meta http-equiv=refresh content='0;url=/yes/refresh-url'><meta http-equiv=Refresh content=' 5.5 , URL " +
			"= \"/yes/refresh-quoted\"x'>" +
			"<meta http-equiv=refresh content='1 /yes/refresh-bare'><meta http-equiv=refresh " +
			"content=';url=/no/refresh'>"),
		page("<link rel=next href=/yes/next><link rel=alternate href=/alternate/element><link rel=canonical " +
			"href=/yes/canonical><link rel=x href=/no/rel>"),
		page("<frameset><frame src=/yes/frame><noframes><a href=/no/noframes></noframes></frameset><a " +
			"href=/no/behind-frames>"),
		page("<iframe src=/yes/iframe><a href=/no/iframe></iframe><map><area href=/yes/area></map><svg><a " +
			"xlink:href=/yes/svg></a></svg>" +
			"<noscript><a href=/yes/noscript></noscript><!-- <a href=/no/comment> --><script>'<a " +
			"href=/no/script>'</script>"),
		page("<form action=/form/get><form method=post action=/no/post></form><form><input></form>"),
		page("<body background=/asset/body.png><img src=/asset/img.png srcset='/asset/small.png 1x, /asset/large.png " +
			"2x'><link rel=stylesheet " +
			"href=/asset/style.css><p style='background:url(/asset/style.png)'><video src=/asset/video " +
			"poster=/asset/poster.png></video>" +
			"<script src=/asset/script.js></script><style>@import '/asset/inline.css';</style>"),
		page("<base href=/yes/><base href=/no/><a href=base><a href=' b&#97;se#x '><a href=base><link " +
			"rel=canonical href=./base>"),
	}
}
