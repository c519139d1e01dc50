package parse

import "bytes"

// nameEnd returns the end of a tag or attribute name whose first byte precedes i.
func nameEnd(b []byte, i int, ends uint8) int {
	for i < len(b) && byteClass[b[i]]&ends == 0 {
		i++
	}
	return i
}

// valueSpan returns the value of the attribute whose name ends at i, if there is one, and where to continue.
// next is -1 if the body ends within the value.
func valueSpan(b []byte, i int) (start, end, next int) {
	if i+1 < len(b) && b[i] == '=' && b[i+1] == '"' { // the most common form
		n := bytes.IndexByte(b[i+2:], '"')
		if n < 0 {
			return i, i, -1
		}
		return i + 2, i + 2 + n, i + 3 + n
	}
	i = skipSpace(b, i)
	if i >= len(b) || b[i] != '=' {
		return i, i, i
	}
	i = skipSpace(b, i+1)
	if i >= len(b) || b[i] == '>' {
		return i, i, i
	}
	if quote := b[i]; quote == '"' || quote == '\'' {
		n := bytes.IndexByte(b[i+1:], quote)
		if n < 0 {
			return i, i, -1
		}
		return i + 1, i + 1 + n, i + 2 + n
	}
	end = nameEnd(b, i, endsBare)
	return i, end, end
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && byteClass[b[i]]&isSpace != 0 {
		i++
	}
	return i
}

// skipTag returns the index after the tag whose name ends at i, or -1 if the body ends within the tag, which
// HTML then drops.
func skipTag(b []byte, i int) int {
	if i < len(b) && b[i] == '>' {
		return i + 1
	}
	for {
		for i < len(b) && (byteClass[b[i]]&isSpace != 0 || b[i] == '/') {
			i++
		}
		if i >= len(b) {
			return -1
		}
		if b[i] == '>' {
			return i + 1
		}
		// The first byte belongs to the name even if it is '='.
		_, _, i = valueSpan(b, nameEnd(b, i+1, endsKey))
		if i < 0 {
			return -1
		}
	}
}

// rawTextEnd returns the end of the content of a raw text element: the index of its end tag, or the end of
// the body.
func rawTextEnd(b []byte, i int, name string) int {
	for {
		n := bytes.IndexByte(b[i:], '<')
		if n < 0 {
			return len(b)
		}
		if i += n; isEndTag(b, i, name) {
			return i
		}
		i++
	}
}

// isEndTag reports whether the end tag of name starts at i.
func isEndTag(b []byte, i int, name string) bool {
	end := i + 2 + len(name)
	return end < len(b) && b[i+1] == '/' && isFold(b[i+2:end], name) && byteClass[b[end]]&endsName != 0
}

// scriptEnd is rawTextEnd for a script, which has its own states: after "<!--", another "<script" makes the
// next "</script" part of the text.
func scriptEnd(b []byte, i int) int {
	for {
		n := bytes.IndexByte(b[i:], '<')
		if n < 0 {
			return len(b)
		}
		if i += n; isEndTag(b, i, "script") {
			return i
		}
		if !bytes.HasPrefix(b[i:], []byte("<!--")) {
			i++
			continue
		}
		var ended bool
		if i, ended = scriptEscaped(b, i+4); ended {
			return i
		}
	}
}

// scriptEscaped continues after "<!--" in a script. It returns the index where the script ends (ended), or
// where the escaped state ends.
func scriptEscaped(b []byte, i int) (next int, ended bool) {
	double := false
	dashes := 2
	for ; i < len(b); i++ {
		switch b[i] {
		case '-':
			dashes++
			continue
		case '>':
			if dashes >= 2 {
				return i + 1, false
			}
		case '<':
			switch {
			case double:
				if isEndTag(b, i, "script") {
					double = false
					i += len("</script")
				}
			case isEndTag(b, i, "script"):
				return i, true
			case isScriptStart(b, i):
				double = true
				i += len("<script")
			case i+1 < len(b) && b[i+1] != '/' && byteClass[b[i+1]]&isLetter == 0:
				// The standard stays in the comment; x/net/html leaves it.
				return i + 1, false
			}
		}
		dashes = 0
	}
	return len(b), true
}

// isScriptStart reports whether a <script> start tag begins at i.
func isScriptStart(b []byte, i int) bool {
	end := i + len("<script")
	return end < len(b) && isFold(b[i+1:end], "script") && byteClass[b[end]]&endsName != 0
}

// commentEnd returns the index after the comment whose text starts at i.
func commentEnd(b []byte, i int) int {
	start := i
	for {
		n := bytes.IndexByte(b[i:], '>')
		if n < 0 {
			return len(b)
		}
		i += n
		text := b[start:i]
		if len(text) == 0 || len(text) == 1 && text[0] == '-' ||
			bytes.HasSuffix(text, []byte("--")) || bytes.HasSuffix(text, []byte("--!")) {
			return i + 1
		}
		i++
	}
}

// closeAngle returns the index after the next '>', or the end of the body.
func closeAngle(b []byte, i int) int {
	if i < len(b) {
		if n := bytes.IndexByte(b[i:], '>'); n >= 0 {
			return i + n + 1
		}
	}
	return len(b)
}
