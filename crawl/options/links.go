package options

import (
	"fmt"

	"drumbeat/parse"
)

// These are values of Links.MaxRedirects: the limit of browsers by the Fetch standard (4.4), and none.
const (
	DefaultRedirects = 20
	NoRedirects      = -1
	mostRedirects    = 250 // a record counts them in a byte
)

// Links says which links of a response are followed.
type Links struct {
	// Rels are the types of <link> elements and Link headers to follow; 0 means parse.DefaultRels.
	// parse.NoRels follows none.
	Rels parse.Rel
	// IgnoreNofollow follows links despite nofollow in the page (meta robots, X-Robots-Tag) or in their rel.
	IgnoreNofollow bool
	// MaxRedirects is the limit of redirects in a row, counted from the last page that linked to one of
	// them. URLs beyond it are not taken. Default DefaultRedirects, at most 250; NoRedirects follows none.
	MaxRedirects int
	// Assets fetches and stores images, scripts, style sheets and other parts of pages, and follows links
	// in style sheets. Assets are not pages: the filter of file-name extensions does not apply to them,
	// they may be three links deeper than MaxDepth, and they do not count against a PLD's budget. Forms
	// follows the action of forms with method get.
	Assets, Forms bool
	// Sitemaps follows the Sitemap lines of robots.txt and reads sitemaps. SitemapBytes limits the body of
	// a named sitemap, as received; default 10 MiB.
	Sitemaps     bool
	SitemapBytes int
	// SitemapEncoding is the Accept-Encoding of requests for sitemaps. RAM holds a sitemap as received, and only
	// gzip is decoded as it is read, so other codings would cut a large one. Default: gzip.
	SitemapEncoding string
}

// Defaults sets the zero fields.
func (o *Links) Defaults() {
	setDefault(&o.Rels, parse.DefaultRels)
	setDefault(&o.MaxRedirects, DefaultRedirects)
	setDefault(&o.SitemapBytes, 10<<20)
	setDefault(&o.SitemapEncoding, "gzip")
}

// Validate returns an error if the limit of redirects is out of its range.
func (o *Links) Validate() error {
	if o.MaxRedirects < NoRedirects || o.MaxRedirects > mostRedirects {
		return fmt.Errorf("crawl: redirect limit %d: want at most %d, or NoRedirects", o.MaxRedirects, mostRedirects)
	}
	return nil
}
