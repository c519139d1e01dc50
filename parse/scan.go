package parse

import "bytes"

// Parser finds the links of pages. It belongs to one goroutine.
type Parser struct {
	opt     Options
	decoder decoder
	charset charsets
	attrs   attributes
	foreign foreign
	page    *Page
	hasBase bool
	wide    bool // use skipWide
	tables  *wideTables
	seen    seenOnce
	xml     bool // the page has an XML type
	// noFrameset: a <frameset> was rejected, so all are.
	noFrameset bool
	// tentative: the encoding is a guess; the first meta that names an encoding overrides it.
	tentative bool
	named     string // the encoding named by that meta
	source    []byte // with Options.Anchors: the page as it was scanned
}

// NewParser returns a Parser.
func NewParser(opt Options) *Parser {
	p := &Parser{opt: opt.withDefaults(), wide: hasWide() && !opt.Assets, tables: wideTable}
	if opt.Forms {
		p.tables = wideFormTable
	}
	return p
}

// Parse fills page with what it finds in body, whose Content-Type header is contentType. Time is linear.
// Once parser and page have seen a page of this size, Parse makes only a constant number of allocations, for
// the charset.
func (p *Parser) Parse(body []byte, contentType string, page *Page) {
	page.reset()
	text, certain := p.charset.prepare(body, contentType, page, &p.decoder)
	p.named, p.xml = "", p.charset.isXML
	p.start(text, page, !certain)
	// The standard's "change the encoding".
	if p.named != "" && p.named != page.Charset {
		page.reset()
		p.start(p.charset.use(p.named, body, page, &p.decoder), page, false)
	}
	p.page = nil
}

func (p *Parser) start(text []byte, page *Page, tentative bool) {
	p.page, p.hasBase, p.noFrameset, p.attrs.wide, p.tentative = page, false, false, p.wide, tentative
	if p.opt.Anchors {
		p.source = text
	}
	p.seen = seenOnce{}
	p.foreign.reset()
	p.scan(text)
}

// A step of skipWide must skip wideCost bytes to pay off. After steps that skip less, the next restTags tags
// are scanned without it, so it hardly slows down unsuitable pages. mostCredit bounds the credit in bytes
// from better parts of the page.
const (
	wideCost   = 8
	mostCredit = 512
	restTags   = 64
)

// scan jumps from '<' to '<' and skips irrelevant tags with skipWide if possible.
func (p *Parser) scan(b []byte) {
	credit := mostCredit // if negative, the number of tags until the next wide step
	for i := 0; i < len(b); {
		if credit < 0 {
			credit++
		} else if p.wide && p.foreign.depth == 0 {
			from := i
			i = skipWide(b, i, p.tables)
			if credit = min(credit+i-from-wideCost, mostCredit); credit < 0 {
				credit = -restTags
			}
		}
		if b[i] != '<' {
			n := bytes.IndexByte(b[i:], '<')
			if n < 0 {
				return
			}
			i += n
		}
		if i++; i+1 >= len(b) { // a tag has at least a letter and '>'
			return
		}
		switch c := b[i]; {
		// The most frequent relevant tag.
		case c|0x20 == 'a' && byteClass[b[i+1]]&isSpace != 0 && p.foreign.depth == 0 && !p.opt.Assets:
			i = p.anchor(b, i+1, A)
		case byteClass[c]&isLetter != 0:
			end := nameEnd(b, i+1, endsName)
			i = p.startTag(b, b[i:end], end)
		case c == '/':
			i = p.endTag(b, i+1)
		case c == '!':
			i = p.declaration(b, i+1)
		case c == '?':
			i = closeAngle(b, i+1)
		}
		if i < 0 {
			return
		}
	}
}

// endTag continues after "</".
func (p *Parser) endTag(b []byte, i int) int {
	if i >= len(b) || byteClass[b[i]]&isLetter == 0 {
		return closeAngle(b, i)
	}
	end := nameEnd(b, i+1, endsName)
	if p.foreign.depth > 0 {
		p.foreign.endTag(b[i:end])
	}
	return skipTag(b, end)
}

// declaration continues after "<!".
func (p *Parser) declaration(b []byte, i int) int {
	if bytes.HasPrefix(b[i:], []byte("--")) {
		return commentEnd(b, i+2)
	}
	if p.foreign.depth > 0 && bytes.HasPrefix(b[i:], []byte("[CDATA[")) {
		if n := bytes.Index(b[i:], []byte("]]>")); n >= 0 {
			return i + n + 3
		}
		return len(b)
	}
	return closeAngle(b, i)
}

// startTag handles the start tag with the given name, which ends at i, and the content of raw text elements.
func (p *Parser) startTag(b, name []byte, i int) int {
	if p.opt.Assets {
		p.assets(b, name, i)
	}
	if p.foreign.depth > 0 {
		if next, done := p.foreignTag(b, name, i); done {
			return next
		}
	}
	switch len(name) {
	case 1:
		if name[0]|0x20 == 'a' {
			return p.anchor(b, i, A)
		}
	case 3:
		if isFold(name, "svg") {
			return p.enterForeign(b, i, inSVG)
		} else if isFold(name, "xmp") {
			return p.rawText(b, i, "xmp")
		}
	case 4:
		return p.startTag4(b, name, i)
	case 5:
		switch {
		case isFold(name, "style"):
			return p.style(b, i)
		case isFold(name, "title"):
			return p.rawText(b, i, "title")
		}
	case 6:
		switch {
		case isFold(name, "script"):
			if i = skipTag(b, i); i >= 0 && !p.empty(b, i) {
				i = scriptEnd(b, i)
			}
			return i
		case isFold(name, "iframe"):
			if i = p.frame(b, i, IFrame); i >= 0 && !p.empty(b, i) {
				i = rawTextEnd(b, i, "iframe")
			}
			return i
		}
	case 7:
		if isFold(name, "noembed") {
			return p.rawText(b, i, "noembed")
		}
	case 8:
		switch {
		case isFold(name, "textarea"):
			return p.rawText(b, i, "textarea")
		case isFold(name, "noframes"):
			return p.rawText(b, i, "noframes")
		case isFold(name, "frameset"):
			return p.frameset(b, i-len(name)-1, i)
		case isFold(name, "template"):
			return p.template(b, i)
		}
	case 9:
		if isFold(name, "plaintext") {
			return -1
		}
	}
	return skipTag(b, i)
}

func (p *Parser) startTag4(b, name []byte, i int) int {
	switch {
	case isFold(name, "area"):
		return p.anchor(b, i, Area)
	case isFold(name, "link"):
		return p.link(b, i)
	case isFold(name, "meta"):
		return p.meta(b, i)
	case isFold(name, "base"):
		return p.base(b, i)
	case isFold(name, "math"):
		return p.enterForeign(b, i, inMath)
	case p.opt.Forms && isFold(name, "form"):
		return p.form(b, i)
	}
	return skipTag(b, i)
}

// empty reports whether the tag that ends before i is an empty element, "/>" in XML.
func (p *Parser) empty(b []byte, i int) bool { return p.xml && b[i-2] == '/' }

// rawText skips a raw text element of the page.
func (p *Parser) rawText(b []byte, i int, name string) int {
	if i = skipTag(b, i); i < 0 || p.empty(b, i) {
		return i
	}
	return rawTextEnd(b, i, name)
}

// rawText skips a raw text element by HTML's rules, which have no empty elements.
func rawText(b []byte, i int, name string) int {
	if i = skipTag(b, i); i < 0 {
		return i
	}
	return rawTextEnd(b, i, name)
}

// anchor handles <a> and <area>.
func (p *Parser) anchor(b []byte, i int, tag Tag) int {
	link := Link{Tag: tag, at: p.position(b, i)}
	i = p.attrs.read(b, i)
	if i < 0 || !p.attrs.have(attrHref) {
		return i
	}
	if p.attrs.have(attrRel) {
		link.Rel, link.NoFollow = parseRel(p.attrs.value(attrRel))
	}
	p.add(link, attrHref)
	return i
}

// frame handles <frame> and <iframe>.
func (p *Parser) frame(b []byte, i int, tag Tag) int {
	i = p.attrs.read(b, i)
	if i >= 0 && p.attrs.have(attrSrc) && len(p.attrs.value(attrSrc)) > 0 && !p.opt.NoFrames {
		p.add(Link{Tag: tag}, attrSrc)
	}
	return i
}

// link handles <link>.
func (p *Parser) link(b []byte, i int) int {
	at := p.position(b, i)
	i = p.attrs.read(b, i)
	if i < 0 || !p.attrs.have(attrRel) || !p.attrs.have(attrHref) || len(p.attrs.value(attrHref)) == 0 {
		return i
	}
	link := Link{Tag: LinkTag, at: at}
	link.Rel, link.NoFollow = parseRel(p.attrs.value(attrRel))
	href := p.attrs.value(attrHref)
	if p.opt.Assets && isAssetRel(p.attrs.value(attrRel)) {
		link.Rel |= RelAsset
		link.Asset = true
	}
	if link.Rel&p.opt.Rels != 0 || link.Asset {
		p.add(link, attrHref)
	}
	if link.Rel&RelCanonical != 0 && p.page.Canonical == nil && len(href) <= p.opt.MaxRefBytes {
		p.page.Canonical = p.value(attrHref)
	}
	return i
}

// base handles <base>. The first one with href counts.
func (p *Parser) base(b []byte, i int) int {
	i = p.attrs.read(b, i)
	if i >= 0 && p.attrs.have(attrHref) && !p.hasBase {
		p.hasBase = true
		if href := p.attrs.value(attrHref); len(href) <= p.opt.MaxRefBytes {
			p.page.Base = p.value(attrHref)
		}
	}
	return i
}

// meta handles <meta>: a refresh or directives for robots.
func (p *Parser) meta(b []byte, i int) int {
	i = p.attrs.read(b, i)
	a := &p.attrs
	if i >= 0 && p.tentative {
		p.metaCharset()
	}
	if i < 0 || !a.have(attrContent) || len(a.value(attrContent)) > p.opt.MaxRefBytes {
		return i
	}
	if a.have(attrHTTPEquiv) && isFold(p.value(attrHTTPEquiv), "refresh") {
		if url := parseRefresh(p.value(attrContent)); url != nil {
			p.keep(Link{Tag: Meta, Ref: url})
		}
	}
	if a.have(attrName) {
		name := p.value(attrName)
		if isFold(name, "robots") || p.opt.Agent != "" && bytes.EqualFold(name, []byte(p.opt.Agent)) {
			value := p.value(attrContent)
			p.page.Robots.Add(ParseRobots(value))
			p.page.Rights.AddRobots(value)
		} else if len(name) > 0 && name[0]|0x20 == 't' {
			p.metaTDM(name)
		}
	}
	return i
}

// metaTDM notes a reservation of rights.
func (p *Parser) metaTDM(name []byte) {
	switch {
	case isFold(name, "tdm-reservation"):
		p.page.Rights.SetReservation(p.value(attrContent))
	case isFold(name, "tdm-policy"):
		p.page.Rights.SetPolicy(p.value(attrContent))
	}
}

// metaCharset checks whether the meta tag just read names the encoding.
func (p *Parser) metaCharset() {
	var values [3][]byte
	for i, slot := range [...]int{attrCharset, attrHTTPEquiv, attrContent} {
		if p.attrs.have(slot) && len(p.attrs.value(slot)) <= p.opt.MaxRefBytes {
			values[i] = p.value(slot)
		}
	}
	if p.named = p.charset.metaCharset(values[0], values[1], values[2]); p.named != "" {
		p.tentative = false
	}
}

// add keeps a link whose reference is the value of an attribute, if it is within the limits.
func (p *Parser) add(link Link, slot int) {
	if at := &p.attrs.at[slot]; p.fits(at.end - at.start) {
		link.Ref = p.value(slot)
		p.page.Links = append(p.page.Links, link)
	}
}

// fits reports whether a link with a reference of n bytes is within the limits. If not, it counts the link.
func (p *Parser) fits(n int) bool {
	switch {
	case n > p.opt.MaxRefBytes:
		p.page.LongRefs++
	case len(p.page.Links) >= p.opt.MaxLinks || len(p.page.scratch) > maxDecodedBytes:
		p.page.Dropped++
	default:
		return true
	}
	return false
}

// keep keeps a link whose reference is decoded.
func (p *Parser) keep(link Link) {
	if len(p.page.Links) >= p.opt.MaxLinks {
		p.page.Dropped++
		return
	}
	p.page.Links = append(p.page.Links, link)
}

// value returns the decoded value of an attribute: a slice of the page if it needs no decoding, else of the
// scratch buffer. It is never nil.
func (p *Parser) value(slot int) []byte {
	value := p.attrs.value(slot)
	plain := p.attrs.ascii
	if p.decoder.charset == nil {
		plain = p.attrs.plain
	}
	if plain&(1<<slot) != 0 {
		return value
	}
	return p.text(value)
}

// text decodes a raw value like value does.
func (p *Parser) text(value []byte) []byte {
	if p.decoder.isPlain(value) {
		return value
	}
	start := len(p.page.scratch)
	p.page.scratch = p.decoder.append(p.page.scratch, value)
	return p.page.scratch[start:len(p.page.scratch):len(p.page.scratch)]
}
