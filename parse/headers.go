package parse

import "bytes"

// EachLink calls fn for every link of a Link header's value (RFC 8288) whose context is the page itself: those with an anchor
// parameter that says otherwise are left out. target is not resolved yet; its base is the URL of the response, not
// <base href>. What follows a fault of syntax is read from the next comma on. nofollow among the types is that of HTML.
func EachLink(value []byte, fn func(target []byte, rel Rel, nofollow bool)) {
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
		fn(target, rel, nofollow)
	}
}

// linkParams are the parameters of a link in a Link header that matter.
type linkParams struct {
	rel     []byte
	hasRel  bool
	foreign bool // anchor names another context
}

// read reads the parameters and returns what stands behind the link.
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
		case isFold(name, "rel") && !l.hasRel: // further ones are ignored (RFC 8288, 3.3)
			l.rel, l.hasRel = value, true
		case isFold(name, "anchor"):
			l.foreign = len(value) > 0
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
	return nil, nil // never closed: there is no telling what it is
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

// cutComma returns what stands behind the next comma outside of quotes and of "<>".
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

// ParseRefresh reads the value of a Refresh header, by the steps that HTML has for it and for <meta http-equiv=refresh>. The
// reference is nil if the page only reloads itself, or if it is no refresh.
func ParseRefresh(value []byte) (ref []byte) { return parseRefresh(value) }

// ParseRobots reads the directives of a robots meta.
//
// They are separated by commas, and on many pages by spaces. noindex, nofollow and none are kept. all, index and follow ask for
// nothing: of contradictory ones the most restrictive counts, as Google documents it, also over several metas and headers. Those
// with a value (max-image-preview: none, unavailable_after: a date with commas in it) mean other things.
func ParseRobots(value []byte) Robots {
	var r Robots
	for len(value) > 0 {
		var part []byte
		part, value, _ = bytes.Cut(value, []byte(","))
		r.add(part)
	}
	return r
}

// ParseRobotsTag reads the value of one X-Robots-Tag header. A directive behind "token:" is for the crawler of that token
// alone, up to the next such token; without one, and behind "*:", it is for all.
func ParseRobotsTag(value []byte, agent string) Robots {
	var r Robots
	applies := true
	for len(value) > 0 {
		var part []byte
		part, value, _ = bytes.Cut(value, []byte(","))
		if name, rest, ok := bytes.Cut(part, []byte(":")); ok {
			name = trimSpace(name)
			if hasValue(name) || !isAgent(name) {
				continue // a part of a date, too
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

// add takes what stands between two commas.
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
			*r = Robots{NoIndex: true, NoFollow: true}
		}
		part = rest
	}
}

// Add adds the directives of o: the most restrictive count.
func (r *Robots) Add(o Robots) {
	r.NoIndex = r.NoIndex || o.NoIndex
	r.NoFollow = r.NoFollow || o.NoFollow
}

// hasValue reports whether a directive of that name has a value behind a colon.
func hasValue(name []byte) bool {
	for _, s := range [...]string{"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"} {
		if isFold(name, s) {
			return true
		}
	}
	return false
}

// isAgent reports whether name may be a crawler's token.
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
