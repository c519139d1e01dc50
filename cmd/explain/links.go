package explain

import (
	"errors"
	"fmt"
	"io"

	"drumbeat/internal/human"
	"drumbeat/parse"
	"drumbeat/weburl"
)

// linksExplainer lists the links of a page by the crawl's own scanner and resolver.
type linksExplainer struct {
	resolver  *weburl.Resolver
	extractor *parse.Extractor
}

type linksQuestion struct {
	URL         string  `json:"url"`
	ContentType string  `json:"content_type"`
	HTML        *string `json:"html"`
	HTMLBase64  *string `json:"html_base64"`
}

type linksAnswer struct {
	Base    string       `json:"base"`
	Charset string       `json:"charset"`
	Links   []linkAnswer `json:"links"`

	counts parse.Counts
	robots parse.Robots
}

type linkAnswer struct {
	URL      string `json:"url"`
	Tag      string `json:"tag"`
	NoFollow bool   `json:"nofollow"`
}

func newLinksExplainer() *linksExplainer {
	return &linksExplainer{weburl.NewResolver(weburl.Options{Fold: true}),
		parse.NewExtractor(parse.Options{}, weburl.Options{Fold: true})}
}

func (e *linksExplainer) answer(line []byte) (any, error) {
	var q linksQuestion
	if err := decodeLine(line, &q); err != nil {
		return nil, err
	}
	body, err := textOrBase64("html", q.HTML, q.HTMLBase64)
	if err != nil {
		return nil, err
	}
	return e.ask(q.URL, q.ContentType, body)
}

func (e *linksExplainer) ask(url, contentType string, body []byte) (linksAnswer, error) {
	a := linksAnswer{Links: []linkAnswer{}}
	if url == "" {
		return a, errors.New(`no "url" is given`)
	}
	page, err := e.resolver.AppendResolve(nil, nil, []byte(url))
	if err != nil {
		return a, fmt.Errorf("URL %.200q: %w", url, err)
	}
	a.counts, err = e.extractor.Extract(page, body, contentType, func(canonical []byte, l *parse.Link) {
		a.Links = append(a.Links, linkAnswer{string(canonical), l.Tag.String(), l.NoFollow})
	})
	if err != nil {
		return a, fmt.Errorf("URL %.200q: %w", url, err)
	}
	found := e.extractor.Page()
	a.Charset, a.robots = found.Charset, found.Robots
	// The empty reference resolves to the base. A base that is neither http nor https stays empty.
	if base, err := e.extractor.AppendCanonical(nil, nil); err == nil {
		a.Base = string(base)
	}
	return a, nil
}

func (a *linksAnswer) print(out io.Writer) {
	fmt.Fprintf(out, "base     %s\ncharset  %s\n", a.Base, a.Charset)
	if a.robots.NoIndex || a.robots.NoFollow {
		fmt.Fprintf(out, "robots   noindex=%t nofollow=%t\n", a.robots.NoIndex, a.robots.NoFollow)
	}
	for _, l := range a.Links {
		note := ""
		if l.NoFollow {
			note = "  (nofollow)"
		}
		fmt.Fprintf(out, "%-6s %s%s\n", l.Tag, l.URL, note)
	}
	c := a.counts
	fmt.Fprintf(out, "%s; not URLs: %d, other schemes: %d, too long: %d, over the limit per page: %d\n",
		human.Counted(c.Links, "link", "links"), c.Invalid, c.OtherScheme, c.TooLong, c.Dropped)
}
