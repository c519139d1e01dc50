package main

import (
	"bytes"
	"testing"

	"golang.org/x/net/html"

	"drumbeat/parse"
	"drumbeat/weburl"
)

// contentType is the type of all pages: it has no charset, so all except the tokenizer detect the encoding.
const contentType = "text/html"

// BenchmarkLinks finds the links of pages with package parse, as they are on the page (parser) and as
// canonical URLs (extractor), and with the tokenizer and the tree of x/net/html. Targets for the parser:
// 1,000 MB/s, 8 times the tokenizer, no allocation.
func BenchmarkLinks(b *testing.B) {
	pages := sample(b)
	p, found := parse.NewParser(parse.Options{}), new(parse.Page)
	perPage(b, "by=parser", pages, func(i int) error {
		p.Parse(pages[i].body, contentType, found)
		return nil
	})
	x, at := parse.NewExtractor(parse.Options{}, weburl.Options{}), []byte("https://docs.example.org/dir/page")
	perPage(b, "by=extractor", pages, func(i int) error {
		_, err := x.Extract(at, pages[i].body, contentType, func([]byte, *parse.Link) {})
		return err
	})
	perPage(b, "by=x-net-tokenizer", pages, func(i int) error {
		tokenLinks(pages[i].body)
		return nil
	})
	perPage(b, "by=x-net-tree", pages, func(i int) error {
		_, _ = html.Parse(bytes.NewReader(pages[i].body)) // no more than the tree; a page may be too deep for it
		return nil
	})
}

// tokenLinks does less than necessary to find links with the tokenizer: no base, encoding or robots, and it
// only counts links.
func tokenLinks(body []byte) (links int) {
	z := html.NewTokenizer(bytes.NewReader(body))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return links
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			switch string(name) {
			case "a", "area", "frame", "iframe", "link", "meta":
				for more {
					var key []byte
					if key, _, more = z.TagAttr(); string(key) == "href" || string(key) == "src" || string(key) == "content" {
						links++
					}
				}
			case "noscript":
				z.NextIsNotRawText()
			}
		}
	}
}
