package docweb

import (
	"fmt"
	"math"
	"strings"
)

// head renders the part of a page that is its own: the start, the title and all links.
func (w *Web) head(b []byte, h *Host, i int) []byte {
	r := newRng(w.opt.Seed, 5, uint64(h.id), uint64(i))
	title := strings.ReplaceAll(slug(h.id, i), "-", " ")
	b = fmt.Appendf(b, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1.0">
<title>%s %d &#8212; %s documentation</title>
<link rel="stylesheet" type="text/css" href="/_static/basic.css">
<script src="/_static/doctools.js"></script>
</head>
<body>
<div class="related" role="navigation"><ul>
`, title, i, h.Name)
	l := w.linksOf(h, i)
	for k, n := range l.related {
		b = fmt.Appendf(b, "<li class=\"right\"><a href=\"%s\" accesskey=\"%d\">%s</a> |</li>\n",
			w.href(h, n), k, label(n))
	}
	b = fmt.Appendf(b, "</ul></div>\n<div class=\"sidebar\"><ul>\n")
	for _, n := range l.siblings {
		b = fmt.Appendf(b, "<li><a class=\"reference internal\" href=\"%s\">%s</a></li>\n", w.href(h, n), label(n))
	}
	b = fmt.Appendf(b, "</ul></div>\n<div class=\"body\" role=\"main\">\n<h1>%s</h1>\n", title)
	b = r.paragraph(b, 2)
	if len(l.children) > 0 {
		b = append(b, "<div class=\"toctree-wrapper\"><ul>\n"...)
		for _, n := range l.children {
			b = fmt.Appendf(b, "<li class=\"toctree-l1\"><a class=\"reference internal\" href=\"%s\">%s</a></li>\n",
				w.href(h, n), label(n))
		}
		b = append(b, "</ul></div>\n"...)
	}
	for k := 0; k < len(l.text); {
		b = append(b, "<p>"...)
		for range min(1+r.below(3), len(l.text)-k) {
			b = r.sentence(b, 1+r.below(3))
			class := "internal"
			if l.text[k].host != h {
				class = "external"
			}
			b = fmt.Appendf(b, " See <a class=\"reference %s\" href=\"%s\"><span class=\"std\">%s</span></a>. ", class,
				w.href(h, l.text[k]), label(l.text[k]))
			k++
		}
		b = append(b, "</p>\n"...)
	}
	return b
}

// href returns a reference from a page of host h: without the host where it is the same, with a fragment for
// some.
func (w *Web) href(h *Host, n node) string {
	if n.host != h {
		return w.url(n)
	}
	if n.kind == page && n.n%7 == 3 {
		return w.path(n) + "#" + words[n.n%len(words)]
	}
	return w.path(n)
}

func label(n node) string {
	if n.host == nil {
		return deadName(n.n)
	}
	if n.kind == page && n.n == 0 {
		return n.host.Name
	}
	return strings.ReplaceAll(slug(n.host.id, n.n), "-", " ")
}

// foot ends each page.
const foot = "<div class=\"footer\"><p>Built from the sources. Last updated on the first of the month.</p></div>\n" +
	"</div>\n</body>\n</html>\n"

// sigma is the width of the log-normal sizes.
const sigma = 0.8

// most is the largest size of a page, in means.
const most = 10

// size draws the size of a page, in bytes, that the blocks should fill up to.
func (w *Web) size(h *Host, i int) int {
	r := newRng(w.opt.Seed, 6, uint64(h.id), uint64(i))
	mean := float64(w.opt.MeanBytes)
	return int(min(math.Exp(math.Log(mean)-sigma*sigma/2+sigma*r.normal()), most*mean))
}
