package parse

import (
	"golang.org/x/text/encoding"

	"drumbeat/weburl"
)

// Extractor goes from a page's bytes to the canonical URLs of its links: a Parser, a Page and a Resolver with
// their buffers. It belongs to one goroutine.
type Extractor struct {
	parser   *Parser
	resolver *weburl.Resolver
	page     Page
	base     weburl.Base
	url      []byte
	seen     *seenRefs // of ExtractOnce
}

// Counts says what became of the references of one page, or of many: Links were emitted, the others not.
type Counts struct {
	Links       int64 // emitted
	Invalid     int64 // no URL by the standard
	OtherScheme int64 // neither http nor https
	TooLong     int64 // beyond the limits of a URL, a host or an attribute
	Dropped     int64 // beyond the limit of links per page
}

// Add adds o to c.
func (c *Counts) Add(o Counts) {
	c.Links += o.Links
	c.Invalid += o.Invalid
	c.OtherScheme += o.OtherScheme
	c.TooLong += o.TooLong
	c.Dropped += o.Dropped
}

// NewExtractor returns an Extractor.
func NewExtractor(opt Options, urls weburl.Options) *Extractor {
	return &Extractor{parser: NewParser(opt), resolver: weburl.NewResolver(urls)}
}

// Extract parses the page with the canonical URL pageURL and calls emit for each link in the order of the
// source, repeated ones too. canonical and l are valid during the call only. The page is at Page until the
// next Extract. The error is weburl.ErrParse if pageURL isn't canonical.
func (x *Extractor) Extract(pageURL, body []byte, contentType string,
	emit func(canonical []byte, l *Link)) (Counts, error) {
	if err := x.Parse(pageURL, body, contentType); err != nil {
		return Counts{}, err
	}
	return x.Each(emit), nil
}

// Each does for the page that was parsed last what Extract does.
func (x *Extractor) Each(emit func(canonical []byte, l *Link)) Counts {
	c := Counts{Dropped: int64(x.page.Dropped), TooLong: int64(x.page.LongRefs)}
	for i := range x.page.Links {
		l := &x.page.Links[i]
		var err error
		x.url, err = x.resolver.AppendResolve(x.url[:0], &x.base, l.Ref)
		what := outcomeOf(err)
		if c.count(what); what == outcomeLink {
			emit(x.url, l)
		}
	}
	return c
}

// Parse is the first half of Extract and ExtractOnce: it parses the page and finds its base.
func (x *Extractor) Parse(pageURL, body []byte, contentType string) error {
	if err := x.base.Set(pageURL); err != nil {
		return err
	}
	x.parser.Parse(body, contentType, &x.page)
	x.base.Query = x.page.Encoding
	if x.page.Base != nil {
		// A base that is no URL leaves the page's own; Rebase sees to that.
		_ = x.resolver.Rebase(&x.base, x.page.Base)
	}
	return nil
}

// ParseCSS is Parse for a style sheet.
func (x *Extractor) ParseCSS(url, body []byte, contentType string) error {
	if err := x.base.Set(url); err != nil {
		return err
	}
	x.parser.ParseCSS(body, contentType, &x.page)
	return nil
}

// outcome is what became of a reference.
type outcome uint8

const (
	outcomeLink outcome = iota
	outcomeScheme
	outcomeTooLong
	outcomeInvalid
)

func outcomeOf(err error) outcome {
	switch err {
	case nil:
		return outcomeLink
	case weburl.ErrScheme:
		return outcomeScheme
	case weburl.ErrTooLong:
		return outcomeTooLong
	}
	return outcomeInvalid
}

func (c *Counts) count(what outcome) {
	switch what {
	case outcomeLink:
		c.Links++
	case outcomeScheme:
		c.OtherScheme++
	case outcomeTooLong:
		c.TooLong++
	default:
		c.Invalid++
	}
}

// Page returns what the last Extract found.
func (x *Extractor) Page() *Page { return &x.page }

// AppendCanonical appends the canonical URL of a reference on the last page (its Canonical, say) to dst.
func (x *Extractor) AppendCanonical(dst, ref []byte) ([]byte, error) {
	return x.resolver.AppendResolve(dst, &x.base, ref)
}

// At makes a URL the base of what is resolved next: that of references in headers, for which <base> is nothing.
func (x *Extractor) At(url []byte) error { return x.base.Set(url) }

// Resolve returns the canonical URL of a reference and counts what became of it; nil if it has none. It is valid until the next
// reference is resolved.
func (x *Extractor) Resolve(ref []byte, c *Counts) []byte {
	var err error
	x.url, err = x.resolver.AppendResolve(x.url[:0], &x.base, ref)
	c.count(outcomeOf(err))
	if err != nil {
		return nil
	}
	return x.url
}

// Encoding returns the encoding in which queries of the last page travel; nil is UTF-8.
func (x *Extractor) Encoding() encoding.Encoding { return x.page.Encoding }
