package parse

import "bytes"

// A page of frames has no body: what the tree builder takes after <frameset> is frames alone, and what it had put into a body that
// it opened unasked it drops. So the few pages that have a <frameset> are looked at once more up to there, and from there
// on by a loop of their own; the scanner has nothing of it.

// element is a tag met by a loop that looks at all of them.
type element struct {
	name  []byte // empty: a comment or the like
	end   bool   // an end tag
	attrs int    // where its name ends
	next  int    // behind it, and behind its content if that is no markup; -1 with the body
}

// elementAt returns the tag at the '<' at i.
func elementAt(b []byte, i int) element {
	if i+2 >= len(b) {
		return element{next: -1}
	}
	switch c := b[i+1]; {
	case byteClass[c]&isLetter != 0:
		end := nameEnd(b, i+2, endsName)
		name := b[i+1 : end]
		return element{name: name, attrs: end, next: skipElement(b, name, end)}
	case c == '/' && byteClass[b[i+2]]&isLetter != 0:
		end := nameEnd(b, i+3, endsName)
		return element{name: b[i+2 : end], end: true, attrs: end, next: skipTag(b, end)}
	case c == '!' && bytes.HasPrefix(b[i+2:], []byte("--")):
		return element{next: commentEnd(b, i+4)}
	case c == '/' || c == '!' || c == '?':
		return element{next: closeAngle(b, i+2)}
	}
	return element{next: i + 1}
}

// skipElement skips a tag and, where its content is no markup, that too.
func skipElement(b, name []byte, i int) int {
	for _, raw := range [...]string{"title", "style", "textarea", "iframe", "xmp", "noembed", "noframes"} {
		if isFold(name, raw) {
			return rawText(b, i, raw)
		}
	}
	i = skipTag(b, i)
	switch {
	case i >= 0 && isFold(name, "script"):
		return scriptEnd(b, i)
	case isFold(name, "plaintext"):
		return -1
	}
	return i
}

// frameset handles <frameset>. Where it is taken, the links of the body before it go, and the rest of the page is read here.
func (p *Parser) frameset(b []byte, start, i int) int {
	if i = skipTag(b, i); i < 0 || p.noFrameset {
		return i
	}
	p.noFrameset = true // if it isn't taken now, none is: what forbids it stays where it is
	ok, head := framesetOK(b[:start])
	if !ok {
		return i
	}
	if head < start {
		p.again(b[:head])
	}
	for depth := 1; depth > 0 && i >= 0; {
		n := bytes.IndexByte(b[i:], '<')
		if n < 0 {
			break
		}
		e := elementAt(b, i+n)
		if p.opt.Assets && !e.end && (isFold(e.name, "frame") || isFold(e.name, "frameset")) {
			p.assets(b, e.name, e.attrs)
		}
		switch {
		case e.end && isFold(e.name, "frameset"):
			depth--
		case e.end:
		case isFold(e.name, "frameset"):
			depth++
		case isFold(e.name, "frame"):
			p.frame(b, e.attrs, Frame)
		case isFold(e.name, "noscript"):
			e.next = rawText(b, e.attrs, "noscript") // here the tree builder that is our reference takes it for text
		}
		i = e.next
	}
	return -1 // only comments and <noframes> may follow
}

// again looks for the links of a part of the page alone.
func (p *Parser) again(part []byte) {
	page := p.page
	*page = Page{Links: page.Links[:0], scratch: page.scratch[:0], text: page.text, Charset: page.Charset, Encoding: page.Encoding}
	p.hasBase, p.seen = false, seenOnce{}
	p.foreign.reset()
	p.scan(part)
}

// framesetOK reports whether the tree builder takes a <frameset> behind b: there is nothing but white space, and elements that
// it could do without. head is where a body began, or the end.
func framesetOK(b []byte) (ok bool, head int) {
	templates := 0
	head = len(b)
	for i := 0; i < len(b); {
		if c := b[i]; c != '<' {
			if c != 0 && byteClass[c]&isSpace == 0 {
				return false, 0
			}
			if c == 0 {
				head = min(head, i)
			}
			i++
			continue
		}
		e := elementAt(b, i)
		switch {
		case e.next < 0 || len(e.name) == 0 && e.next == i+1:
			return false, 0
		case e.end:
			if isFold(e.name, "br") {
				return false, 0
			} else if isFold(e.name, "template") && templates > 0 {
				templates--
			} else if isFold(e.name, "body") || isFold(e.name, "html") {
				head = min(head, i)
			}
		case isFold(e.name, "template"):
			templates++
		case isFold(e.name, "input") && isHidden(b, e.attrs):
		case forbidsFrameset(e.name):
			return false, 0
		}
		if !e.end && len(e.name) > 0 && templates == 0 && head > i && !isOfHead(e.name) {
			head = i
		}
		i = e.next
	}
	return templates == 0, head
}

// isOfHead reports whether an element of that name begins no body.
func isOfHead(name []byte) bool {
	for _, s := range [...]string{"html", "head", "base", "basefont", "bgsound", "link", "meta", "noframes", "noscript", "script", "style",
		"template", "title"} {
		if isFold(name, s) {
			return true
		}
	}
	return false
}

// forbidsFrameset reports whether an element of that name makes the page one with a body.
func forbidsFrameset(name []byte) bool {
	for _, s := range [...]string{"body", "br", "img", "image", "table", "li", "dd", "dt", "pre", "listing", "hr", "button", "area", "embed",
		"keygen", "wbr", "applet", "marquee", "object", "input", "textarea", "xmp", "iframe", "select"} {
		if isFold(name, s) {
			return true
		}
	}
	return false
}

// isHidden reports whether the tag whose name ends at i has type=hidden.
func isHidden(b []byte, i int) bool {
	for {
		a := attributeAt(b, i)
		if !a.ok || isFold(a.name, "type") {
			return a.ok && isFold(a.value, "hidden")
		}
		i = a.next
	}
}

// anAttribute is an attribute as it stands in a tag.
type anAttribute struct {
	name, value []byte // raw
	ok          bool   // there is one
	next        int    // behind it; without one the tag's '>', or -1 if the body ends before that
}

// attributeAt returns the attribute at or behind i.
func attributeAt(b []byte, i int) anAttribute {
	for i < len(b) && (byteClass[b[i]]&isSpace != 0 || b[i] == '/') {
		i++
	}
	if i >= len(b) {
		return anAttribute{next: -1}
	}
	if b[i] == '>' {
		return anAttribute{next: i}
	}
	end := nameEnd(b, i+1, endsKey) // the first byte belongs to the name even if it is '='
	from, to, next := valueSpan(b, end)
	if next < 0 {
		return anAttribute{next: -1}
	}
	return anAttribute{b[i:end:end], b[from:to:to], true, next}
}

// maxColumnsPeek bounds what is looked at behind <template> for a <col>.
const maxColumnsPeek = 1024

// template handles <template>. If its first element is <col>, the tree builder ignores all but columns in it.
func (p *Parser) template(b []byte, i int) int {
	if i = skipTag(b, i); i < 0 || p.foreign.depth > 0 {
		return i
	}
	first := element{next: i}
	for len(first.name) == 0 || first.end {
		n := bytes.IndexByte(b[first.next:min(len(b), i+maxColumnsPeek)], '<')
		if n < 0 {
			return i
		}
		first = elementAt(b, first.next+n)
		if first.next < 0 || first.next > i+maxColumnsPeek || first.end && isFold(first.name, "template") {
			return i
		}
	}
	if !isFold(first.name, "col") {
		return i
	}
	for depth := 1; ; {
		n := bytes.IndexByte(b[i:], '<')
		if n < 0 {
			return -1
		}
		e := elementAt(b, i+n)
		if i = e.next; i < 0 {
			return -1
		}
		if isFold(e.name, "template") {
			if depth++; e.end {
				depth -= 2
			}
			if depth == 0 {
				return i
			}
		}
	}
}
