package parse

import (
	"golang.org/x/text/encoding"

	"drumbeat/weburl"
)

// Extractor turns the bytes of a page into the canonical URLs of its links. It combines a Parser, a Page and
// a Resolver with their buffers and belongs to one goroutine.
type Extractor struct {
	parser   *Parser
	resolver *weburl.Resolver
	page     Page
	base     weburl.Base
	url      []byte
	seen     *seenRefs // for ExtractOnce
	rel      []byte    // for Anchor
	anchor   anchorText
}

// Counts classifies the references of one or more pages. Only Links were emitted.
type Counts struct {
	Links       int64 // emitted
	Invalid     int64 // not a URL by the standard
	OtherScheme int64 // neither http nor https
	TooLong     int64 // longer than the limit for a URL, a host or an attribute
	Dropped     int64 // beyond the limit of links for a page
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

// Extract parses the page with the canonical URL pageURL and calls emit for each link in source order, with
// repetitions. canonical and l are valid only during the call. Page returns the page until the next Extract.
// The error is weburl.ErrParse if pageURL is not canonical.
func (x *Extractor) Extract(pageURL, body []byte, contentType string,
	emit func(canonical []byte, l *Link)) (Counts, error) {
	if err := x.Parse(pageURL, body, contentType); err != nil {
		return Counts{}, err
	}
	return x.Each(emit), nil
}

// Each emits the links of the page parsed last, as Extract does.
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

// Parse parses the page and determines its base: the first half of Extract and ExtractOnce.
func (x *Extractor) Parse(pageURL, body []byte, contentType string) error {
	if err := x.base.Set(pageURL); err != nil {
		return err
	}
	x.parser.Parse(body, contentType, &x.page)
	x.base.Query = x.page.Encoding
	if x.page.Base != nil {
		// Rebase keeps the page's own URL if the base is invalid.
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

// outcome classifies a reference.
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

// Page returns the page parsed last.
func (x *Extractor) Page() *Page { return &x.page }

// AppendCanonical appends the canonical URL of a reference on the last page, such as Page.Canonical, to dst.
func (x *Extractor) AppendCanonical(dst, ref []byte) ([]byte, error) {
	return x.resolver.AppendResolve(dst, &x.base, ref)
}

// At sets the base for the next references to url. References in headers need it, because <base> does not
// apply to them.
func (x *Extractor) At(url []byte) error { return x.base.Set(url) }

// Resolve returns the canonical URL of a reference, or nil, and counts the outcome in c. The result is valid
// until the next reference is resolved.
func (x *Extractor) Resolve(ref []byte, c *Counts) []byte {
	var err error
	x.url, err = x.resolver.AppendResolve(x.url[:0], &x.base, ref)
	c.count(outcomeOf(err))
	if err != nil {
		return nil
	}
	return x.url
}

// EachText calls emit for each run of text of the page parsed last, whose bytes are body: see EachText. Pages in
// an encoding in which markup is not ASCII (package doc) have their text in UTF-8.
func (x *Extractor) EachText(body []byte, emit func(run []byte)) {
	if len(x.page.text) > 0 {
		body = x.page.text
	}
	EachText(body, x.parser.xml, emit)
}

// Assets sets Options.Assets for the next pages.
func (x *Extractor) Assets(on bool) {
	x.parser.opt.Assets, x.parser.wide = on, hasWide() && !on
}

// Encoding returns the encoding of queries on the last page; nil means UTF-8.
func (x *Extractor) Encoding() encoding.Encoding { return x.page.Encoding }
