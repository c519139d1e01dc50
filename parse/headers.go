package parse

import "bytes"

// HeaderLink is a link of a Link header. Its texts are parts of the header.
type HeaderLink struct {
	Target   []byte // unresolved; its base is the URL of the response, not <base href>
	Rel      Rel
	NoFollow bool   // HTML's
	HrefLang []byte // the first hreflang; empty if there is none
}

// EachLink calls fn for each link in the value of a Link header (RFC 8288) whose context is the page itself;
// it omits links with another anchor. After a syntax error EachLink continues at the next comma.
func EachLink(value []byte, fn func(l HeaderLink)) {
	for {
		value = bytes.TrimLeft(value, " \t,")
		if len(value) == 0 {
			return
		}
		if value[0] != '<' {
			value = cutComma(value)
			continue
		}
		end := bytes.IndexByte(value, '>')
		if end < 0 {
			return
		}
		target := value[1:end]
		var l linkParams
		value = l.read(value[end+1:])
		if l.foreign {
			continue
		}
		rel, nofollow := parseRel(l.rel)
		if isAssetRel(l.rel) {
			rel |= RelAsset
		}
		fn(HeaderLink{target, rel, nofollow, l.hreflang})
	}
}

// linkParams are the relevant parameters of a link in a Link header.
type linkParams struct {
	rel      []byte
	hasRel   bool
	foreign  bool // anchor names another context
	hreflang []byte
}

// read parses the parameters and returns the text after the link.
func (l *linkParams) read(s []byte) (rest []byte) {
	for {
		s = bytes.TrimLeft(s, " \t")
		if len(s) == 0 || s[0] == ',' {
			return s
		}
		if s[0] != ';' {
			return cutComma(s)
		}
		s = bytes.TrimLeft(s[1:], " \t")
		end := bytes.IndexAny(s, " \t=;,")
		if end < 0 {
			end = len(s)
		}
		name := s[:end]
		s = bytes.TrimLeft(s[end:], " \t")
		var value []byte
		if len(s) > 0 && s[0] == '=' {
			value, s = paramValue(bytes.TrimLeft(s[1:], " \t"))
		}
		switch {
		case isFold(name, "rel") && !l.hasRel: // the first one counts (RFC 8288, 3.3)
			l.rel, l.hasRel = value, true
		case isFold(name, "anchor"):
			l.foreign = len(value) > 0
		case isFold(name, "hreflang") && len(l.hreflang) == 0:
			l.hreflang = value
		}
	}
}

// paramValue reads a token or a quoted string.
func paramValue(s []byte) (value, rest []byte) {
	if len(s) == 0 || s[0] != '"' {
		end := bytes.IndexAny(s, " \t;,")
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:]
	}
	escaped := false
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			value = s[1:i]
			if escaped {
				value = unescape(value)
			}
			return value, s[i+1:]
		}
	}
	return nil, nil // the quote is not closed, so the rest is meaningless
}

func unescape(s []byte) []byte {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		out = append(out, s[i])
	}
	return out
}

// cutComma returns the text after the next comma outside quotes and "<>".
func cutComma(s []byte) []byte {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ',':
			return s[i+1:]
		case '"':
			_, rest := paramValue(s[i:])
			if rest == nil {
				return nil
			}
			i = len(s) - len(rest) - 1
		case '<':
			n := bytes.IndexByte(s[i:], '>')
			if n < 0 {
				return nil
			}
			i += n
		}
	}
	return nil
}

// ParseRefresh parses the value of a Refresh header with HTML's algorithm, which also applies to <meta
// http-equiv=refresh>. It returns nil if the page only reloads itself or the value is invalid.
func ParseRefresh(value []byte) (ref []byte) { return parseRefresh(value) }

// ParseRobots parses the directives of a robots meta.
//
// They are separated by commas, on many pages by spaces. It keeps noindex, nofollow, noarchive and none,
// which means the first two. all, index and follow have no effect: of contradictory directives the most
// restrictive counts, also across metas and headers, as Google documents. Directives with a value
// (max-image-preview: none; unavailable_after: a date with commas) have other meanings.
func ParseRobots(value []byte) Robots {
	var r Robots
	for len(value) > 0 {
		var part []byte
		part, value, _ = bytes.Cut(value, []byte(","))
		r.add(part)
	}
	return r
}

// ParseRobotsTag parses the value of one X-Robots-Tag header. Directives after "token:" apply only to the
// crawler with that token, up to the next such token. Directives without a token or after "*:" apply to all.
func ParseRobotsTag(value []byte, agent string) Robots {
	var r Robots
	applies := true
	for len(value) > 0 {
		var part []byte
		part, value, _ = bytes.Cut(value, []byte(","))
		if name, rest, ok := bytes.Cut(part, []byte(":")); ok {
			name = trimSpace(name)
			if hasValue(name) || !isAgent(name) {
				continue // possibly a part of a date
			}
			applies = string(name) == "*" || agent != "" && bytes.EqualFold(name, []byte(agent))
			part = rest
		}
		if applies {
			r.add(part)
		}
	}
	return r
}

// add adds the directives between two commas.
func (r *Robots) add(part []byte) {
	if bytes.IndexByte(part, ':') >= 0 {
		return
	}
	for {
		word, rest := nextWord(part)
		if len(word) == 0 {
			return
		}
		switch {
		case isFold(word, "noindex"):
			r.NoIndex = true
		case isFold(word, "nofollow"):
			r.NoFollow = true
		case isFold(word, "none"):
			r.NoIndex, r.NoFollow = true, true
		case isFold(word, "noarchive"):
			r.NoArchive = true
		}
		part = rest
	}
}

// Add merges o into r. The most restrictive directives count.
func (r *Robots) Add(o Robots) {
	r.NoIndex = r.NoIndex || o.NoIndex
	r.NoFollow = r.NoFollow || o.NoFollow
	r.NoArchive = r.NoArchive || o.NoArchive
}

// hasValue reports whether the named directive takes a value after a colon.
func hasValue(name []byte) bool {
	for _, s := range [...]string{"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"} {
		if isFold(name, s) {
			return true
		}
	}
	return false
}

// isAgent reports whether name can be a crawler's token.
func isAgent(name []byte) bool {
	if string(name) == "*" {
		return true
	}
	for _, c := range name {
		if byteClass[c]&(isLetter|isDigit) == 0 && c != '-' && c != '_' && c != '.' && c != '/' {
			return false
		}
	}
	return len(name) > 0
}

func trimSpace(s []byte) []byte {
	s = cutSpace(s)
	for len(s) > 0 && byteClass[s[len(s)-1]]&isSpace != 0 {
		s = s[:len(s)-1]
	}
	return s
}
