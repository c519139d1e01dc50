package parse

import (
	"bytes"
	"encoding/binary"
)

// Attributes that name parts of a page.
const (
	assetSrc = iota
	assetSrcset
	assetImageSrcset
	assetPoster
	assetData
	assetBackground
	assetHref
	assetXLink
	assetRel
	assetType
	assetStyle
	assetAction
	assetMethod
	numAssetAttrs
)

var assetAttrNames = [numAssetAttrs]string{"src", "srcset", "imagesrcset", "poster", "data", "background",
	"href", "xlink:href", "rel", "type", "style", "action", "method"}

// assetAttrs holds a tag's raw attribute values, nil if absent. Of attributes with the same name the first
// counts.
type assetAttrs [numAssetAttrs][]byte

// readAssetAttrs reads the attributes of the tag whose name ends at i. ok is false if the body ends within
// the tag.
func readAssetAttrs(b []byte, i int) (attrs assetAttrs, ok bool) {
	a := attributeAt(b, i)
	for ; a.ok; a = attributeAt(b, a.next) {
		for slot, name := range &assetAttrNames {
			if attrs[slot] == nil && isFold(a.name, name) {
				attrs[slot] = a.value
				break
			}
		}
	}
	return attrs, a.next >= 0
}

// seenOnce records which attributes of <html> and <body> were seen. Those of further such tags count only if
// the first tag lacks them.
type seenOnce struct{ htmlStyle, bodyStyle, bodyBackground bool }

// first sets *seen and reports whether it was unset.
func first(seen *bool) bool {
	was := *seen
	*seen = true
	return !was
}

// assets adds the parts of the page that a start tag names. It ignores all other meanings of the tag.
func (p *Parser) assets(b, name []byte, i int) {
	a, ok := readAssetAttrs(b, i)
	if !ok {
		return
	}
	if p.foreign.depth > 0 && p.foreign.inside() && !breaksOut(name) {
		p.foreignAssets(name, &a)
		return
	}
	body := isFold(name, "body")
	if a[assetStyle] != nil && (!body || first(&p.seen.bodyStyle)) &&
		(!isFold(name, "html") || first(&p.seen.htmlStyle)) {
		p.cssText(p.text(a[assetStyle]))
	}
	switch {
	case isFold(name, "img"), isFold(name, "image"):
		p.asset(Img, a[assetSrc])
		p.srcset(Img, a[assetSrcset])
	case isFold(name, "source"):
		p.asset(Source, a[assetSrc])
		p.srcset(Img, a[assetSrcset])
	case isFold(name, "video"):
		p.asset(Video, a[assetSrc])
		p.asset(Img, a[assetPoster])
	case isFold(name, "audio"):
		p.asset(Audio, a[assetSrc])
	case isFold(name, "track"):
		p.asset(Track, a[assetSrc])
	case isFold(name, "embed"):
		p.asset(Embed, a[assetSrc])
	case isFold(name, "object"):
		p.asset(Object, a[assetData])
	case isFold(name, "script"):
		p.asset(Script, a[assetSrc])
	case isFold(name, "input"):
		if isFold(p.text(a[assetType]), "image") {
			p.asset(Input, a[assetSrc])
		}
	case isFold(name, "link"):
		if isAssetRel(p.text(a[assetRel])) {
			p.srcset(LinkTag, a[assetImageSrcset])
		}
	case a[assetBackground] != nil && hasBackground(name) && (!body || first(&p.seen.bodyBackground)):
		p.asset(Background, a[assetBackground])
	}
}

// hasBackground reports whether the background attribute of the named element is an image.
func hasBackground(name []byte) bool {
	for _, s := range [...]string{"body", "table", "td", "th", "tr", "tbody", "thead", "tfoot"} {
		if isFold(name, s) {
			return true
		}
	}
	return false
}

// foreignAssets is assets for SVG.
func (p *Parser) foreignAssets(name []byte, a *assetAttrs) {
	if a[assetStyle] != nil {
		p.cssText(p.text(a[assetStyle]))
	}
	href := a[assetHref]
	if href == nil {
		href = a[assetXLink]
	}
	switch {
	case isFold(name, "image"), isFold(name, "feimage"):
		p.asset(Image, href)
	case isFold(name, "use"):
		p.asset(Use, href)
	case isFold(name, "script"):
		p.asset(Script, href)
	}
}

// asset adds a part of the page from a raw attribute value.
func (p *Parser) asset(tag Tag, raw []byte) {
	if len(raw) > 0 && p.fits(len(raw)) {
		p.keepAsset(tag, p.text(raw))
	}
}

// keepAsset adds a part of the page from decoded text. It ignores empty references and mere fragments.
func (p *Parser) keepAsset(tag Tag, ref []byte) {
	if ref = trimSpace(ref); len(ref) > 0 && ref[0] != '#' {
		p.keep(Link{Tag: tag, Ref: ref, Asset: true})
	}
}

// srcset adds the images of a raw srcset.
func (p *Parser) srcset(tag Tag, raw []byte) {
	if len(raw) == 0 || !p.fits(len(raw)) {
		return
	}
	eachSrcset(p.text(raw), func(ref []byte) { p.keepAsset(tag, ref) })
}

// eachSrcset calls fn for each URL of a srcset (HTML's "parse a srcset attribute"), even for those with
// descriptors that a browser would not understand.
func eachSrcset(s []byte, fn func(ref []byte)) {
	for {
		for len(s) > 0 && (s[0] == ',' || byteClass[s[0]]&isSpace != 0) {
			s = s[1:]
		}
		if len(s) == 0 {
			return
		}
		url, rest := nextWord(s)
		s = rest
		if trimmed := bytes.TrimRight(url, ","); len(trimmed) < len(url) {
			fn(trimmed)
			continue
		}
		fn(url)
		s = afterDescriptors(s)
	}
}

// afterDescriptors returns the text after the next comma outside parentheses.
func afterDescriptors(s []byte) []byte {
	inside := false
	for i, c := range s {
		switch {
		case c == '(':
			inside = true
		case c == ')':
			inside = false
		case c == ',' && !inside:
			return s[i+1:]
		}
	}
	return nil
}

// isAssetRel reports whether the rel value of a <link> makes it a part of the page.
func isAssetRel(value []byte) bool {
	for {
		word, rest := nextWord(value)
		if len(word) == 0 {
			return false
		}
		for _, s := range [...]string{"stylesheet", "icon", "apple-touch-icon", "apple-touch-icon-precomposed",
			"mask-icon", "preload", "modulepreload", "manifest"} {
			if isFold(word, s) {
				return true
			}
		}
		value = rest
	}
}

// style handles <style> in HTML.
func (p *Parser) style(b []byte, i int) int {
	if i = skipTag(b, i); i < 0 || p.empty(b, i) {
		return i
	}
	end := rawTextEnd(b, i, "style")
	if p.opt.Assets {
		p.cssRaw(b[i:end])
	}
	return end
}

// foreignStyle handles the text after a <style> in SVG, up to the first tag or comment.
func (p *Parser) foreignStyle(b []byte, i int) {
	start := len(p.page.scratch)
	for start <= maxDecodedBytes && len(p.page.scratch)-start <= maxStyle {
		n := bytes.IndexByte(b[i:min(len(b), i+maxStyle)], '<')
		if n < 0 {
			break
		}
		p.page.scratch = p.decoder.append(p.page.scratch, b[i:i+n])
		i += n
		if !bytes.HasPrefix(b[i:], []byte("<![CDATA[")) {
			break
		}
		i += len("<![CDATA[")
		end := bytes.Index(b[i:min(len(b), i+maxStyle)], []byte("]]>"))
		if end < 0 {
			break
		}
		p.page.scratch = append(p.page.scratch, p.transcoded(b[i:i+end])...)
		i += end + len("]]>")
	}
	p.cssText(p.page.scratch[start:len(p.page.scratch):len(p.page.scratch)])
}

// maxStyle bounds the text of a <style> in SVG, and the transcoded text of one in HTML, in bytes.
const maxStyle = 1 << 20

// transcoded returns text without character references in UTF-8.
func (p *Parser) transcoded(raw []byte) []byte {
	if p.decoder.charset == nil || isASCII(raw) {
		return raw
	}
	if len(raw) > maxStyle {
		raw = raw[:maxStyle]
	}
	text, err := p.decoder.charset.Bytes(raw)
	if err != nil {
		return nil // unreachable: decoders replace invalid input
	}
	return text
}

func isASCII(s []byte) bool {
	for ; len(s) >= 8; s = s[8:] {
		if binary.LittleEndian.Uint64(s)&0x8080808080808080 != 0 {
			return false
		}
	}
	for _, c := range s {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// form handles <form>. Its action is a link if its method is get, the default.
func (p *Parser) form(b []byte, i int) int {
	a, ok := readAssetAttrs(b, i)
	if !ok {
		return -1
	}
	method := p.text(a[assetMethod])
	if action := a[assetAction]; !isFold(method, "post") && !isFold(method, "dialog") && len(action) > 0 &&
		p.fits(len(action)) {
		link := Link{Tag: Form, Ref: p.text(action)}
		link.Rel, link.NoFollow = parseRel(a[assetRel])
		p.keep(link)
	}
	return skipTag(b, i)
}
