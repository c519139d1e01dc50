package parse

import "bytes"

// A page of frames has no body. After <frameset> the tree builder accepts only frames, and it drops an
// implied body that precedes it. So for the few pages with a <frameset>, the part before it is scanned
// again, and a separate loop reads the rest. The scanner itself has no code for frames.

// element is a tag or a comment, as seen by a loop over all tags.
type element struct {
	name  []byte // empty for a comment or the like
	end   bool   // an end tag
	attrs int    // index of the end of its name
	next  int    // index after it and, for raw text elements, after its content; -1 at the end of the body
}

// elementAt returns the element at index i, which is a '<'.
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

// skipElement skips a start tag and, for raw text elements, the content.
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

// frameset handles <frameset>. If it takes effect, it drops the links of the body before it and reads the
// rest of the page here.
func (p *Parser) frameset(b []byte, start, i int) int {
	if i = skipTag(b, i); i < 0 || p.noFrameset {
		return i
	}
	p.noFrameset = true // what forbids this one forbids later ones
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
			e.next = rawText(b, e.attrs, "noscript") // here x/net/html treats it as raw text
		}
		i = e.next
	}
	return -1 // only comments and <noframes> may follow
}

// again rescans a part of the page by itself.
func (p *Parser) again(part []byte) {
	page := p.page
	*page = Page{Links: page.Links[:0], scratch: page.scratch[:0], text: page.text, Charset: page.Charset,
		Encoding: page.Encoding}
	p.hasBase, p.seen = false, seenOnce{}
	p.foreign.reset()
	p.scan(part)
}

// framesetOK reports whether the tree builder accepts a <frameset> after b: b has only white space and
// elements that do not require a body. head is the index where an implied body begins, or len(b).
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

// isOfHead reports whether the named element does not start a body.
func isOfHead(name []byte) bool {
	for _, s := range [...]string{"html", "head", "base", "basefont", "bgsound", "link", "meta", "noframes",
		"noscript", "script", "style", "template", "title"} {
		if isFold(name, s) {
			return true
		}
	}
	return false
}

// forbidsFrameset reports whether the named element makes the tree builder ignore a later <frameset>.
func forbidsFrameset(name []byte) bool {
	for _, s := range [...]string{"body", "br", "img", "image", "table", "li", "dd", "dt", "pre", "listing",
		"hr", "button", "area", "embed", "keygen", "wbr", "applet", "marquee", "object", "input", "textarea", "xmp",
		"iframe", "select"} {
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

// anAttribute is an attribute of a tag.
type anAttribute struct {
	name, value []byte // raw
	ok          bool   // false: no further attribute
	next        int    // index after it, else of the tag's '>'; -1 if the body ends first
}

// attributeAt returns the next attribute at or after i.
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

// maxColumnsPeek bounds how many bytes after <template> are searched for a <col>.
const maxColumnsPeek = 1024

// template handles <template>. If its first element is <col>, the tree builder ignores everything but
// columns in it.
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
