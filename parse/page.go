package parse

import (
	"golang.org/x/text/encoding"
)

// Tag is the element on which a link was found.
type Tag uint8

// Elements with links.
const (
	A       Tag = iota // <a href>, also in SVG
	Area               // <area href>
	Frame              // <frame src>
	IFrame             // <iframe src>
	LinkTag            // <link href>
	Meta               // <meta http-equiv=refresh>
	Form               // <form action>, with Options.Forms
	// The following need Options.Assets.
	Img        // <img src, srcset>, <source srcset>, <video poster>
	Source     // <source src>, of audio or video
	Video      // <video src>
	Audio      // <audio src>
	Track      // <track src>
	Embed      // <embed src>
	Object     // <object data>
	Input      // <input type=image src>
	Script     // <script src>, in SVG href
	Background // background of <body>, <table> and its parts
	Image      // <image href> and <feImage href> in SVG
	Use        // <use href> in SVG
	CSS        // url() or @import in <style>, a style attribute or a style sheet
	numTags
)

// String returns the element's name in lower case.
func (t Tag) String() string {
	return [numTags]string{"a", "area", "frame", "iframe", "link", "meta", "form", "img", "source", "video",
		"audio", "track", "embed", "object", "input", "script", "background", "image", "use", "css"}[t]
}

// Rel is a set of link types (the words of a rel attribute).
type Rel uint8

// Link types. Types without a constant are RelOther.
const (
	RelNext Rel = 1 << iota
	RelPrev
	RelCanonical
	RelAlternate // other languages, AMP, feeds
	RelOther     // stylesheet, icon, preload, search and so on; on <a> any other type
	// RelAsset marks the types that are parts of the page: stylesheet, icon, preload and so on. On <link> it
	// needs Options.Assets.
	RelAsset

	// DefaultRels are the types that lead to pages of the site itself.
	DefaultRels = RelNext | RelPrev | RelCanonical
)

// NoRels as Options.Rels ignores all <link> elements. The zero value means DefaultRels.
const NoRels Rel = 1 << 7

// Link is one link of a page. Ref points into the body or the Page and is valid until either is reused.
type Link struct {
	Ref      []byte // attribute value in UTF-8 with references decoded; neither trimmed nor resolved
	Tag      Tag
	Rel      Rel  // of <a>, <area> and <link>
	NoFollow bool // rel contains "nofollow"
	Asset    bool // a part of the page: an image, a script, a style sheet, …

	at uint32 // with Options.Anchors: where the attributes of <a>, <area> or <link> begin; 0: not known
}

// Robots are the relevant directives of robots metas or an X-Robots-Tag header.
type Robots struct {
	NoIndex   bool
	NoFollow  bool
	NoArchive bool
}

// Page is the result of Parse. Reuse it: its slices keep up to about 2 MiB of memory.
type Page struct {
	Links     []Link            // in source order
	Base      []byte            // the first <base href>, unresolved; nil: none
	Canonical []byte            // the first <link rel=canonical>, unresolved; nil: none
	Robots    Robots            // of all robots metas
	Rights    Rights            // of all metas about the use of the page
	Charset   string            // name of the encoding as in the Encoding standard
	Encoding  encoding.Encoding // encoding of queries; nil: UTF-8
	Dropped   int               // links beyond Options.MaxLinks or after 4 MiB of decoded values
	LongRefs  int               // links with an attribute longer than Options.MaxRefBytes

	scratch []byte // decoded attribute values
	text    []byte // the body in UTF-8 if it had to be transcoded
}

// What a Page retains for reuse: more than nearly all pages need, less than a hostile one takes.
const (
	keepLinks = 16 << 10 // 512 KiB
	keepBytes = 1 << 20
)

// reset empties the page. It releases memory beyond what an ordinary page needs.
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

// Options configure a Parser. The zero value is usable.
type Options struct {
	MaxLinks    int // links kept for a page; 0 = 50,000
	MaxRefBytes int // length limit of an attribute value in bytes; 0 = 64 KiB
	Rels        Rel // <link> elements with any of these types are links; 0 = DefaultRels, or NoRels
	// Assets also finds the parts of pages on all elements. The scanner is then several times slower.
	Assets   bool
	Forms    bool   // the action of <form method=get> is a link
	NoFrames bool   // ignore <frame> and <iframe>
	Agent    string // <meta name=Agent> counts like <meta name=robots>; "": none
	Anchors  bool   // keep where links stand, for Extractor.Anchor
}

const (
	defaultMaxLinks    = 50_000
	defaultMaxRefBytes = 64 << 10
	// maxDecodedBytes bounds the decoded values of a page's links. Further links are dropped.
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
