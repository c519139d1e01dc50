package parse

import "bytes"

// EachText calls emit for each run of text between the tags of an HTML page, in source order. xml says that
// its type is an XML type, so that "/>" ends an element. It leaves out comments, the title, and the content of
// <script>, <style>, <textarea>, <template>, <iframe>, <noembed> and <noframes>. The content of <noscript> counts,
// as its links do. The runs are parts of b: neither the charset nor character references are decoded. Time is
// linear, and nothing is allocated.
//
// It is for programs that compare pages. Package internal/pagetext writes the text that people read.
func EachText(b []byte, xml bool, emit func(run []byte)) { eachText(b, xml, emit, nil) }

// eachText is EachText that also calls tag, if it is set, for each tag outside what is left out. It ends where tag
// returns false.
func eachText(b []byte, xml bool, emit func(run []byte), tag func(name []byte, end bool) bool) {
	templates := 0
	for i := 0; i < len(b); {
		n := bytes.IndexByte(b[i:], '<')
		if n < 0 {
			n = len(b) - i
		}
		if n > 0 && templates == 0 {
			emit(b[i : i+n])
		}
		if i += n + 1; i >= len(b) {
			return
		}
		switch c := b[i]; {
		case byteClass[c]&isLetter != 0:
			end := nameEnd(b, i+1, endsName)
			name := b[i:end]
			if i = skipTag(b, end); i < 0 {
				return // the tag is incomplete, and HTML drops it
			}
			if tag != nil && !tag(name, false) {
				return
			}
			if xml && b[i-2] == '/' {
				continue
			}
			if isFold(name, "template") {
				templates++
			}
			i = skipHidden(b, name, i)
		case c == '/' && i+1 < len(b) && byteClass[b[i+1]]&isLetter != 0:
			end := nameEnd(b, i+2, endsName)
			if templates > 0 && isFold(b[i+1:end], "template") {
				templates--
			}
			if tag != nil && !tag(b[i+1:end], true) {
				return
			}
			i = skipTag(b, end)
		case c == '/' || c == '?':
			i = closeAngle(b, i+1)
		case c == '!':
			if bytes.HasPrefix(b[i:], []byte("!--")) {
				i = commentEnd(b, i+3)
			} else {
				i = closeAngle(b, i+1)
			}
		default: // '<' is text, and its run starts over
		}
		if i < 0 {
			return
		}
	}
}

// skipHidden returns the end of the content of an element that is not shown, or i. The element's start tag ends
// before i.
func skipHidden(b, name []byte, i int) int {
	switch len(name) {
	case 5:
		if isFold(name, "style") {
			return rawTextEnd(b, i, "style")
		} else if isFold(name, "title") {
			return rawTextEnd(b, i, "title")
		}
	case 6:
		if isFold(name, "script") {
			return scriptEnd(b, i)
		} else if isFold(name, "iframe") {
			return rawTextEnd(b, i, "iframe")
		}
	case 7:
		if isFold(name, "noembed") {
			return rawTextEnd(b, i, "noembed")
		}
	case 8:
		if isFold(name, "textarea") {
			return rawTextEnd(b, i, "textarea")
		} else if isFold(name, "noframes") {
			return rawTextEnd(b, i, "noframes")
		}
	}
	return i
}
