package parse

import (
	"golang.org/x/text/encoding"
)

// Tag is the element a link was found on.
type Tag uint8

// The elements that carry links.
const (
	A       Tag = iota // <a href>, also in SVG
	Area               // <area href>
	Frame              // <frame src>
	IFrame             // <iframe src>
	LinkTag            // <link href>
	Meta               // <meta http-equiv=refresh>
	Form               // <form action>, with Options.Forms
	// What follows needs Options.Assets.
	Img        // <img src, srcset>
	Source     // <source src, srcset>
	Video      // <video src, poster>
	Audio      // <audio src>
	Track      // <track src>
	Embed      // <embed src>
	Object     // <object data>
	Input      // <input type=image src>
	Script     // <script src>, in SVG its href
	Background // the background of <body>, <table> and its parts
	Image      // <image href> and <feImage href> of SVG
	Use        // <use href> of SVG
	CSS        // url() or @import in <style>, in a style attribute, or in a style sheet
	numTags
)

// String returns the element's name in lower case.
func (t Tag) String() string {
	return [numTags]string{"a", "area", "frame", "iframe", "link", "meta", "form", "img", "source", "video", "audio", "track", "embed",
		"object", "input", "script", "background", "image", "use", "css"}[t]
}

// Rel is a set of link types (the words of a rel attribute).
type Rel uint8

// Link types. All that have no name here are RelOther.
const (
	RelNext Rel = 1 << iota
	RelPrev
	RelCanonical
	RelAlternate // other languages, AMP, feeds
	RelOther     // stylesheet, icon, preload, search and so on; on <a> anything else
	RelAsset     // of these what is part of the page: stylesheet, icon, preload and the like; on <link> only with Options.Assets

	// DefaultRels are the types that lead to pages of the site itself.
	DefaultRels = RelNext | RelPrev | RelCanonical
)

// NoRels as Options.Rels means that no <link> is a link; the zero value means DefaultRels.
const NoRels Rel = 1 << 7

// Link is one link of a page. Ref points into the page's body or into the Page, until either is reused.
type Link struct {
	Ref      []byte // attribute value as UTF-8, references decoded; not trimmed, not resolved
	Tag      Tag
	Rel      Rel  // of <a>, <area> and <link>
	NoFollow bool // rel has "nofollow"
	Asset    bool // a part of the page: an image, a script, a style sheet
}

// Robots are the directives of robots metas or of an X-Robots-Tag header that concern a crawler.
type Robots struct {
	NoIndex  bool
	NoFollow bool
}

// Page is what Parse finds. Reuse it: its slices keep their memory, up to some 2 MiB.
type Page struct {
	Links     []Link            // in the order of the source
	Base      []byte            // the first <base href>, not resolved; nil if there is none
	Canonical []byte            // the first <link rel=canonical>, not resolved; nil if there is none
	Robots    Robots            // all robots metas together
	Charset   string            // name of the encoding, as the Encoding standard spells it
	Encoding  encoding.Encoding // in which queries travel; nil for UTF-8
	Dropped   int               // links beyond Options.MaxLinks, or behind 4 MiB of values that had to be decoded
	LongRefs  int               // links left out because the attribute is longer than Options.MaxRefBytes

	scratch []byte // decoded attribute values
	text    []byte // the body in UTF-8, if it had to be transcoded at all
}

// What a Page keeps for the next one: more than nearly all pages need, less than a hostile one takes.
const (
	keepLinks = 16 << 10 // 512 KiB
	keepBytes = 1 << 20
)

// reset empties the page, keeping its memory but for what an extraordinary page took.
func (p *Page) reset() {
	if cap(p.Links) > keepLinks {
		p.Links = nil
	}
	if cap(p.scratch) > keepBytes {
		p.scratch = nil
	}
	if cap(p.text) > keepBytes {
		p.text = nil
	}
	*p = Page{Links: p.Links[:0], scratch: p.scratch[:0], text: p.text[:0]}
}

// Options of a Parser. The zero value is ready for use.
type Options struct {
	MaxLinks    int    // links kept per page; 0 = 50,000
	MaxRefBytes int    // bytes of an attribute value that is looked at; 0 = 64 KiB
	Rels        Rel    // which <link> elements are links: any of these types; 0 = DefaultRels, or NoRels
	Assets      bool   // find what pages consist of as well, on every element; the scanner is several times slower then
	Forms       bool   // the action of <form method=get> is a link
	NoFrames    bool   // don't take <frame> and <iframe>
	Agent       string // <meta name=Agent> counts like <meta name=robots>; "" = none
}

const (
	defaultMaxLinks    = 50_000
	defaultMaxRefBytes = 64 << 10
	// maxDecodedBytes bounds what the decoded values of a page's links take; the links behind are dropped.
	maxDecodedBytes = 4 << 20
)

func (o Options) withDefaults() Options {
	if o.MaxLinks == 0 {
		o.MaxLinks = defaultMaxLinks
	}
	if o.MaxRefBytes == 0 {
		o.MaxRefBytes = defaultMaxRefBytes
	}
	if o.Rels == 0 {
		o.Rels = DefaultRels
	}
	return o
}
