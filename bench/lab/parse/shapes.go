package parse

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"

	"drumbeat/bench/measure"
	"drumbeat/parse"
)

// generatedCorpus is the paper's mean page: 25 kB with 59 links (section VIII). 40 of them are 1 MB.
func generatedCorpus() *parseCorpus {
	c := &parseCorpus{name: "generated"}
	for i := range 40 {
		body := meanPage(i)
		c.pages = append(c.pages, parsePage{url: []byte("https://www.example.com/dir/page"), body: body})
		c.bytes += int64(len(body))
		c.compared.page(fmt.Sprintf("generated page %d", i), body)
	}
	return c
}

// meanPage makes a page of some 25 kB with 59 links on it.
func meanPage(seed int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Page %d &amp; its title</title>\n"+
		"<link rel=\"stylesheet\" href=\"/css/main.css?v=%d\"><style>body { margin: 0 } a > b { color: red }</style>\n"+
		"<script>var a = 1 < 2; if (a) { document.write('<a href=\"x\">') }</script>\n"+
		"</head><body class=\"page two-columns\" id=\"top\">\n<!-- a comment with <a href=\"hidden\"> in it -->\n", seed, seed)
	for i := range 59 {
		n := seed*59 + i
		fmt.Fprintf(&b, "<div class=\"item item-%d\" data-id=\"%d\"><h2 class=\"title\">Heading number %d</h2>\n", i, n*77, n)
		switch n % 5 {
		case 0:
			fmt.Fprintf(&b, "<a class=\"more\" href=\"/articles/2024/%d/some-title-of-an-article.html\">", n)
		case 1:
			fmt.Fprintf(&b, "<a href=\"https://www.example.org/page.php?id=%d&amp;lang=en\" rel=\"nofollow noopener\" target=_blank>", n)
		case 2:
			fmt.Fprintf(&b, "<a href='../relative/%d' title='It is a \"title\"'>", n)
		case 3:
			fmt.Fprintf(&b, "<a title=\"one more\" href=\"another-page-%d.html\">", n)
		default:
			fmt.Fprintf(&b, "<a href=\"#section-%d\">", n)
		}
		b.WriteString("<img src=\"/img/thumb.jpg\" alt=\"\" width=\"120\" height=\"90\"> read on</a>\n<p>Some words of text that go on for a while, " +
			"with <b>bold</b> and <em>other</em> words in between,<br> so that the ratio of text to markup is what it is.</p>\n</div>\n")
	}
	b.WriteString("</body></html>\n")
	return b.Bytes()
}

// parseShape is a page that is mean to parsers: head, then part over and over.
type parseShape struct{ name, head, part string }

// parseShapes are measured at four sizes. The first eight are drawn.
var parseShapes = []parseShape{
	{"1e5 links of 300 bytes", "<!doctype html>", "<div class=\"entry\"><a class=\"ref\" href=\"/dir/some/page.html\">a link</a> and a sentence of text about what it leads to, " +
		"which goes on for a while so that the page has a link for every three hundred bytes, as the largest pages of documentation do, " +
		"with <b>some</b> <code>markup</code>.</div>\n"},
	{"short links", "", "<a href=x>"},
	{"all <", "", "<"},
	{"all >", "", ">"},
	{"> before each tag", "", ">>>>>>>>>>>>>>>>>>>>>>>>>>>>>>><b>"},
	{"an open value", "<a href=\"", "x"},
	{"quotes in a tag", "<a ", "\"'"},
	{"all quotes", "", "\"'"},
	{"a long value", "<p title=\"", "long <a href='x'> "},
	{"a long comment", "<!--", "<a href='x'>- "},
	{"open comments", "", "<!-- --"},
	{"an open script", "<script>", "if (a < b) { '</scrip' } "},
	{"an open comment in a script", "<script><!--", "<script></script><"},
	{"open titles", "", "<title></titl"},
	{"open tags", "", "<a x=y "},
	{"values without quotes", "", "<p class=a id=b>"},
	{"values in apostrophes", "", "<p class='a>b' id='c'>"},
	{"tags cut short", "", "<p a=\"b\" <"},
	{"end tags", "", "</p>"},
	{"nested SVG", "", "<svg><title><a href=x>"},
	{"CDATA", "<svg>", "<![CDATA[ ]] >"},
	{"references", "", "<a href='&amp;&#x41;&notin;&nosuchname;&'>"},
	{"one long reference", "<a href='", "&amp;"},
	{"letters of Latin-1", "", "<a href=\"\xE9?\xE9\">\xE9</a>"},
	{"metas", "", "<meta name=robots content=none><base href='&amp;'>"},
	{"NUL", "", "\x00"},
}

// page makes one of n bytes.
func (s parseShape) page(n int) []byte {
	body := make([]byte, 0, n+len(s.head)+len(s.part))
	body = append(body, s.head...)
	for len(body) < n {
		body = append(body, s.part...)
	}
	return body[:max(n, len(s.head))]
}

// parseShapeRun is what a shape took: least nanoseconds of CPU at each size.
type parseShapeRun struct {
	parseShape
	bytes [4]int
	least [4]float64
	links int // of the largest, on the page, and those among them that were kept
	kept  int
}

// shapes times all shapes. It is growth that counts here, so of all repeats it keeps the least.
func (p *Options) shapes(ctx context.Context, progress func(string)) (runs []parseShapeRun, err error) {
	parser, found := parse.NewParser(parse.Options{}), new(parse.Page)
	for _, shape := range parseShapes {
		progress("shape: " + shape.name)
		run := parseShapeRun{parseShape: shape}
		whole := shape.page(int(p.Shape))
		for i := range run.bytes {
			run.bytes[i] = int(p.Shape) >> (3 - i)
			run.least[i] = math.Inf(1)
		}
		for range p.Repeat {
			for i, n := range run.bytes {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				began := measure.ThreadTime()
				parser.Parse(whole[:n], "text/html; charset="+shape.charset(), found)
				run.least[i] = min(run.least[i], float64(measure.ThreadTime()-began))
			}
			run.kept, run.links = len(found.Links), len(found.Links)+found.Dropped+found.LongRefs
		}
		runs = append(runs, run)
	}
	return runs, nil
}

func (s parseShape) charset() string {
	if strings.Contains(s.part, "\xE9") {
		return "iso-8859-1"
	}
	return "utf-8"
}

// doubled is the time of the largest page over that of one half as long.
func (r parseShapeRun) doubled() float64 { return r.least[3] / r.least[2] }
