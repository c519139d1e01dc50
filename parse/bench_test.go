package parse

import (
	"bytes"
	"fmt"
	"testing"

	"golang.org/x/net/html"

	"drumbeat/weburl"
)

// samplePage returns a page of about 25 kB with 59 links, the paper's means.
func samplePage() []byte {
	var b bytes.Buffer
	b.WriteString(
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>A page &amp; its title</title>\n" +
			"<link rel=\"stylesheet\" href=\"/css/main.css?v=12\"><link rel=\"canonical\" " +
			"href=\"https://www.example.com/page\">\n" +
			"<style>body { margin: 0 } a > b { color: red }</style>\n<script>var a = 1 < 2; if (a) { " +
			"document.write('<a href=\"x\">') }</script>\n" +
			"</head><body class=\"page two-columns\" id=\"top\">\n<!-- a comment with <a href=\"hidden\"> in it -->\n")
	for i := range 59 {
		fmt.Fprintf(&b, "<div class=\"item item-%d\" data-id=\"%d\"><h2 class=\"title\">Heading number %d</h2>\n", i,
			i*77, i)
		switch i % 4 {
		case 0:
			fmt.Fprintf(&b, "<a class=\"more\" href=\"/articles/2024/%d/some-title-of-an-article.html\">", i)
		case 1:
			fmt.Fprintf(&b, "<a href=\"https://www.example.org/page.php?id=%d&amp;lang=en\" rel=\"nofollow "+
				"noopener\" target=_blank>", i)
		case 2:
			fmt.Fprintf(&b, "<a href='../relative/%d' title='It is a \"title\"'>", i)
		default:
			fmt.Fprintf(&b, "<a href=\"#section-%d\">", i)
		}
		b.WriteString("<img src=\"/img/thumb.jpg\" alt=\"\" width=\"120\" height=\"90\"> read on</a>\n<p>Some words " +
			"of text that go on for a while, " +
			"with <b>bold</b> and <em>other</em> words in between,<br> so that the ratio of text to markup is what " +
			"it is on the web.</p>\n</div>\n")
	}
	b.WriteString("</body></html>\n")
	return b.Bytes()
}

func TestSteadyStateAllocs(t *testing.T) {
	body := bytes.Replace(samplePage(), []byte("<style>"), []byte("<base href='/b&amp;c/d/'><style>"), 1)
	few, many := body[:len(body)/8], body
	count := func(body []byte) (int, float64) {
		x := NewExtractor(Options{}, weburl.Options{})
		url := []byte("https://www.example.com/dir/page")
		links := 0
		emit := func([]byte, *Link) { links++ }
		x.Extract(url, many, "text/html", emit)
		links = 0
		x.Extract(url, body, "text/html", emit)
		n := links
		return n, testing.AllocsPerRun(50, func() { x.Extract(url, body, "text/html", emit) })
	}
	fewLinks, fewAllocs := count(few)
	manyLinks, manyAllocs := count(many)
	if manyLinks < 59 || fewLinks > 10 {
		t.Fatalf("links: got %d and %d", fewLinks, manyLinks)
	}
	if manyAllocs != 0 || fewAllocs != 0 {
		t.Errorf("allocations of a page: got %v with %d links, %v with %d, want 0", fewAllocs, fewLinks,
			manyAllocs, manyLinks)
	}
}

func BenchmarkPage(b *testing.B) {
	body := samplePage()
	b.Run("by=scanner", func(b *testing.B) {
		p, page := NewParser(Options{}), new(Page)
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			p.Parse(body, "text/html; charset=utf-8", page)
		}
		b.ReportMetric(float64(len(page.Links)), "links")
	})
	b.Run("by=scanner+resolver", func(b *testing.B) {
		x := NewExtractor(Options{}, weburl.Options{})
		url := []byte("https://www.example.com/dir/page")
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			x.Extract(url, body, "text/html; charset=utf-8", func([]byte, *Link) {})
		}
	})
	b.Run("by=tokenizer", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			tokenizerLinks(body)
		}
	})
	b.Run("by=tree", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Reference(Options{}, body, "text/html; charset=utf-8"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// tokenizerLinks does the minimum with x/net/html's tokenizer.
func tokenizerLinks(body []byte) (links int) {
	z := html.NewTokenizer(bytes.NewReader(body))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return links
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			if len(name) != 1 || name[0] != 'a' {
				continue
			}
			for more {
				var key []byte
				key, _, more = z.TagAttr()
				if string(key) == "href" {
					links++
				}
			}
		}
	}
}
