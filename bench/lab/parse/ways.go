package parse

import (
	"bytes"

	"golang.org/x/net/html"

	"drumbeat/parse"
	"drumbeat/weburl"
)

// parseWay is a way of finding a page's links.
type parseWay int

const (
	parseScan    parseWay = iota // parse.Parser: the links as they stand on the page
	parseExtract                 // parse.Extractor: canonical URLs
	parseTokens                  // x/net/html's tokenizer, the links as they stand
	parseTree                    // x/net/html's whole parser and a walk over the tree
	numParseWays
)

// String is the way's name in lines.
func (w parseWay) String() string {
	return [numParseWays]string{"parser", "extractor", "x-net-tokenizer", "x-net-tree"}[w]
}

// ours reports whether the way is one of package parse, which keeps buffers from page to page.
func (w parseWay) ours() bool { return w == parseScan || w == parseExtract }

// parseFunc finds a page's links and returns how many there are.
type parseFunc func(page parsePage) int

// parseType is the Content-Type of all pages: the encoding is found out from the page, by all but the tokenizer.
const parseType = "text/html"

func newParseFunc(way parseWay) parseFunc {
	switch way {
	case parseScan:
		p, found := parse.NewParser(parse.Options{}), new(parse.Page)
		return func(page parsePage) int {
			p.Parse(page.body, parseType, found)
			return len(found.Links)
		}
	case parseExtract:
		x := parse.NewExtractor(parse.Options{}, weburl.Options{})
		return func(page parsePage) int {
			counts, err := x.Extract(page.url, page.body, parseType, func([]byte, *parse.Link) {})
			if err != nil {
				panic("BUG: the URL of a page of a corpus isn't canonical: " + err.Error())
			}
			return int(counts.Links + counts.Invalid + counts.OtherScheme + counts.TooLong)
		}
	case parseTokens:
		return func(page parsePage) int { return tokenLinks(page.body) }
	}
	return func(page parsePage) int {
		found, err := parse.Reference(parse.Options{}, page.body, parseType)
		if err != nil {
			return 0 // too deep for it
		}
		return len(found.Links)
	}
}

// tokenLinks is the least one has to do to find the links with the tokenizer: no base, no encoding, no robots, a link
// is counted and not kept.
func tokenLinks(body []byte) (links int) {
	z := html.NewTokenizer(bytes.NewReader(body))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return links
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			switch string(name) {
			case "a", "area":
				links += tokenHas(z, more, "href")
			case "frame", "iframe":
				links += tokenHas(z, more, "src")
			case "link":
				links += tokenLink(z, more)
			case "meta":
				links += tokenRefresh(z, more)
			case "noscript":
				z.NextIsNotRawText()
			}
		}
	}
}

// tokenHas returns 1 if the tag has an attribute of that name.
func tokenHas(z *html.Tokenizer, more bool, name string) (n int) {
	for more {
		var key []byte
		if key, _, more = z.TagAttr(); string(key) == name {
			n = 1
		}
	}
	return n
}

// tokenLink returns 1 if a <link> leads to a page.
func tokenLink(z *html.Tokenizer, more bool) int {
	var href, rel bool
	for more {
		var key, value []byte
		switch key, value, more = z.TagAttr(); string(key) {
		case "href":
			href = true
		case "rel":
			for word := range bytes.FieldsSeq(value) {
				switch string(bytes.ToLower(word)) {
				case "next", "prev", "previous", "canonical":
					rel = true
				}
			}
		}
	}
	if href && rel {
		return 1
	}
	return 0
}

// tokenRefresh returns 1 if a <meta> leads to another page.
func tokenRefresh(z *html.Tokenizer, more bool) int {
	var refresh, url bool
	for more {
		var key, value []byte
		switch key, value, more = z.TagAttr(); string(key) {
		case "http-equiv":
			refresh = bytes.EqualFold(value, []byte("refresh"))
		case "content":
			url = bytes.Contains(value, []byte(";"))
		}
	}
	if refresh && url {
		return 1
	}
	return 0
}
