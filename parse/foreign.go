package parse

// foreign tracks SVG and MathML within a page. Inside them raw text elements are ordinary ("<svg><title/>"
// must not swallow the page), CDATA sections exist, and only <a> is a link. The stack holds the elements
// that switch between HTML and foreign content. Missing end tags are handled by an approximation of the tree
// builder's rules.
type foreign struct {
	depth int // number of elements on the stack, including those beyond maxForeign
	stack [maxForeign]foreignElement
}

// maxForeign bounds the stack. Deeper elements are only counted.
const maxForeign = 32

// foreignElement is an element on the stack.
type foreignElement uint8

const (
	inSVG            foreignElement = iota // <svg>
	inMath                                 // <math>
	inSVGHTML                              // <foreignObject>, <desc> or <title> in SVG: content is HTML
	inMathHTML                             // <mi>, <mo>, <mn>, <ms> or <mtext>: content is HTML
	inAnnotation                           // <annotation-xml>: content is MathML, but <svg> starts SVG
	inAnnotationHTML                       // <annotation-xml encoding=text/html>: content is HTML
	inGlyph                                // <mglyph> or <malignmark> in <mi> and so on: MathML again
)

func (f *foreign) reset() { f.depth = 0 }

func (f *foreign) top() foreignElement { return f.stack[min(f.depth, maxForeign)-1] }

// inside reports whether tags are currently foreign. The stack must not be empty.
func (f *foreign) inside() bool {
	switch f.top() {
	case inSVGHTML, inMathHTML, inAnnotationHTML:
		return false
	}
	return true
}

func (f *foreign) push(e foreignElement) {
	if f.depth < maxForeign {
		f.stack[f.depth] = e
	}
	f.depth++
}

// leave pops elements down to the innermost one with HTML content, or all.
func (f *foreign) leave() {
	for f.depth > 0 && f.inside() {
		f.depth--
	}
}

// closedBy reports whether the named end tag closes the element.
func (e foreignElement) closedBy(name []byte) bool {
	switch e {
	case inSVG:
		return isFold(name, "svg")
	case inMath:
		return isFold(name, "math")
	case inSVGHTML:
		return isFold(name, "foreignobject") || isFold(name, "desc") || isFold(name, "title")
	case inMathHTML:
		return isFold(name, "mi") || isFold(name, "mo") || isFold(name, "mn") || isFold(name, "ms") ||
			isFold(name, "mtext")
	case inGlyph:
		return isGlyph(name)
	}
	return isFold(name, "annotation-xml")
}

func isGlyph(name []byte) bool { return isFold(name, "mglyph") || isFold(name, "malignmark") }

// endTag handles an end tag while the stack is not empty.
func (f *foreign) endTag(name []byte) {
	for i := min(f.depth, maxForeign) - 1; i >= 0; i-- {
		if f.stack[i].closedBy(name) {
			if f.depth > maxForeign && i == maxForeign-1 {
				f.depth--
			} else {
				f.depth = i
			}
			return
		}
	}
	if f.inside() && breaksOut(name) {
		f.leave()
	}
}

// breaksOut reports whether a start tag of the named HTML element ends foreign content.
func breaksOut(name []byte) bool {
	if len(name) > len("blockquote") {
		return false
	}
	var lower [len("blockquote")]byte
	copy(lower[:], name)
	for i := range lower {
		if lower[i] >= 'A' && lower[i] <= 'Z' {
			lower[i] |= 0x20
		}
	}
	switch string(lower[:len(name)]) {
	case "b", "big", "blockquote", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em", "embed",
		"h1", "h2", "h3", "h4", "h5", "h6", "head", "hr", "i", "img", "li", "listing", "menu", "meta", "nobr", "ol",
		"p", "pre", "ruby", "s", "small", "span", "strong", "strike", "sub", "sup", "table", "tt", "u", "ul", "var":
		return true
	}
	return false
}

// enterForeign handles <svg> and <math> in HTML.
func (p *Parser) enterForeign(b []byte, i int, e foreignElement) int {
	i = p.attrs.read(b, i)
	if i >= 0 && !p.attrs.self {
		p.foreign.push(e)
	}
	return i
}

// foreignTag handles a start tag while the stack is not empty. If done is false, the tag is HTML: it is in
// HTML content or has ended the foreign content.
func (p *Parser) foreignTag(b, name []byte, i int) (next int, done bool) {
	f, a := &p.foreign, &p.attrs
	if !f.inside() {
		if f.top() == inMathHTML && isGlyph(name) {
			return p.enterForeign(b, i, inGlyph), true
		}
		return i, false
	}
	if breaksOut(name) {
		f.leave()
		return i, false
	}
	next = a.read(b, i)
	if next < 0 {
		return next, true
	}
	if isFold(name, "font") && a.have(attrFontLook) {
		f.leave()
		return i, false
	}
	if len(name) == 1 && name[0]|0x20 == 'a' {
		p.foreignAnchor()
		return next, true
	}
	if a.self {
		return next, true
	}
	switch f.top() {
	case inSVG:
		switch {
		case p.opt.Assets && isFold(name, "style"):
			p.foreignStyle(b, next)
		case isFold(name, "svg"):
			f.push(inSVG)
		case inSVGHTML.closedBy(name):
			f.push(inSVGHTML)
		}
	case inMath, inAnnotation, inGlyph:
		switch {
		case isFold(name, "math"):
			f.push(inMath)
		case inMathHTML.closedBy(name):
			f.push(inMathHTML)
		case isFold(name, "annotation-xml"):
			f.push(p.annotation())
		case isFold(name, "svg") && f.top() == inAnnotation:
			f.push(inSVG)
		}
	}
	return next, true
}

// annotation returns the kind of the <annotation-xml> tag just read.
func (p *Parser) annotation() foreignElement {
	if p.attrs.have(attrEncoding) {
		encoding := p.value(attrEncoding)
		if isFold(encoding, "text/html") || isFold(encoding, "application/xhtml+xml") {
			return inAnnotationHTML
		}
	}
	return inAnnotation
}

// foreignAnchor handles <a> in SVG, which may use xlink:href.
func (p *Parser) foreignAnchor() {
	a := &p.attrs
	slot := attrHref
	if !a.have(slot) {
		slot = attrXLink
	}
	if !a.have(slot) {
		return
	}
	link := Link{Tag: A}
	if a.have(attrRel) {
		link.Rel, link.NoFollow = parseRel(a.value(attrRel))
	}
	p.add(link, slot)
}
