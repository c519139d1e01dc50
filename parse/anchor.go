package parse

import "unicode/utf8"

// maxAnchorSource bounds how far the text of a link is read, in bytes of the page.
const maxAnchorSource = 64 << 10

// position returns where in the page b[i:] begins; 0 without Options.Anchors. b may be a part of the page.
func (p *Parser) position(b []byte, i int) uint32 {
	if !p.opt.Anchors {
		return 0
	}
	return uint32(cap(p.source) - cap(b) + i)
}

// Anchor returns the rel attribute and the text of a link of the page parsed last, whose body must not have
// changed. It needs Options.Anchors. rel is known of <a>, <area> and <link> outside SVG. The text is that of
// <a>, up to </a>, the next <a> or 64 KiB: in UTF-8, with white space collapsed, and at most most bytes. It
// has no alternative texts of images. Both are valid until the next call.
func (x *Extractor) Anchor(l *Link, most int) (rel, text []byte) {
	if l.at == 0 {
		return nil, nil
	}
	p := x.parser
	body := p.source
	end := p.attrs.read(body, int(l.at))
	if end < 0 {
		return nil, nil
	}
	x.rel = x.rel[:0]
	if p.attrs.have(attrRel) {
		x.rel = p.decoder.append(x.rel, p.attrs.value(attrRel))
		x.rel = collapse(x.rel[:0], x.rel, most)
	}
	if l.Tag != A || p.empty(body, end) {
		return x.rel, nil
	}
	a := &x.anchor
	*a = anchorText{raw: a.raw[:0], text: a.text[:0]}
	eachText(body[end:min(len(body), end+maxAnchorSource)], p.xml, a.add, a.tag)
	a.text = p.decoder.append(a.text, a.raw)
	return x.rel, collapse(a.text[:0], a.text, most)
}

// anchorText collects the text of a link. raw is not decoded, so that a character whose bytes are in two runs is
// whole.
type anchorText struct{ raw, text []byte }

func (a *anchorText) add(run []byte) { a.raw = append(a.raw, run...) }

func (a *anchorText) tag(name []byte, _ bool) bool {
	if isFold(name, "a") {
		return false
	}
	if !inline(name) {
		a.raw = append(a.raw, ' ')
	}
	return true
}

// inline reports whether an element is part of a line, so that no white space surrounds its text.
func inline(name []byte) bool {
	for _, known := range [...]string{"b", "i", "u", "s", "em", "strong", "span", "font", "small", "big", "sub",
		"sup", "code", "tt", "abbr", "mark", "wbr", "bdi", "bdo", "q", "cite", "kbd", "var", "ins", "del", "ruby", "rt",
		"rb", "rp", "script", "style"} {
		if isFold(name, known) {
			return true
		}
	}
	return false
}

// collapse appends s to dst with runs of white space as one space and none at the ends. dst may be s[:0]. It cuts
// the result to most bytes, between characters, and drops what is not UTF-8.
func collapse(dst, s []byte, most int) []byte {
	space := false
	for len(s) > 0 {
		c, n := utf8.DecodeRune(s)
		char := s[:n]
		s = s[n:]
		if n == 1 && (byteClass[char[0]]&isSpace != 0 || c < ' ') || c == '\u00a0' {
			space = len(dst) > 0
			continue
		}
		if c == utf8.RuneError && n == 1 {
			continue
		}
		need := n
		if space {
			need++
		}
		if len(dst)+need > most {
			break
		}
		if space {
			dst = append(dst, ' ')
			space = false
		}
		dst = append(dst, char...)
	}
	return dst
}
