package sitemap

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"time"
	"unicode/utf8"
)

// element is an element that Read uses.
type element uint8

const (
	elOther element = iota
	elUrlset
	elIndex
	elURL
	elSitemap
	elLoc
	elRSS
	elItem
	elFeed
	elEntry
	elLink
	elPriority
	elLastmod
	elGUID
)

// elementOf returns the element with a local name.
func elementOf(name []byte) element {
	if n := bytes.LastIndexByte(name, ':'); n >= 0 {
		name = name[n+1:]
	}
	switch string(name) {
	case "urlset":
		return elUrlset
	case "sitemapindex":
		return elIndex
	case "url":
		return elURL
	case "sitemap":
		return elSitemap
	case "loc":
		return elLoc
	case "rss", "RDF":
		return elRSS
	case "item":
		return elItem
	case "feed":
		return elFeed
	case "entry":
		return elEntry
	case "link":
		return elLink
	case "priority":
		return elPriority
	case "lastmod":
		return elLastmod
	case "guid":
		return elGUID
	}
	return elOther
}

// scanner scans an XML document once.
type scanner struct {
	in    *bufio.Reader
	r     *reader
	stack [maxDepth]element
	depth int
	text  []byte // text of the element being captured
	take  bool   // an element is being captured
	bad   bool   // the text is not a URL
	held  []byte // URL of a urlset, until its element ends: its priority may come later
	holds bool
	prio  float64   // of the url element
	date  time.Time // likewise
	tag   []byte
}

// wanted reports whether the text of the innermost element is a URL, or the priority or the date of one.
func (s *scanner) wanted() bool {
	if s.depth < 2 {
		return false
	}
	switch parent := s.stack[s.depth-2]; s.stack[s.depth-1] {
	case elLoc:
		return s.r.sum.Form == URLSet && parent == elURL || s.r.sum.Form == Index && parent == elSitemap
	case elPriority, elLastmod:
		return s.r.sum.Form == URLSet && parent == elURL
	case elLink:
		return s.r.sum.Form == RSS && parent == elItem
	case elGUID:
		return s.r.sum.Form == RSS && parent == elItem && s.r.feed.permanent
	}
	return false
}

// run reads until the end of the root element.
func (s *scanner) run() error {
	err := s.elements()
	if s.holds { // the reading ended within a url element
		if late := s.release(); err == nil {
			err = late
		}
	}
	return err
}

func (s *scanner) elements() error {
	for begun := false; !begun || s.depth > 0; {
		err := s.characters()
		if err == nil {
			err = s.markup()
		}
		if err == io.EOF {
			return ErrBroken // the root element is not closed
		}
		if err != nil {
			return err
		}
		begun = begun || s.depth > 0
		if !begun && len(s.tag) > 0 { // the root element was empty
			return nil
		}
	}
	return nil
}

// characters reads text until the next markup.
func (s *scanner) characters() error {
	for {
		part, err := s.in.ReadSlice('<')
		if s.take {
			s.keep(bytes.TrimSuffix(part, []byte{'<'}))
		}
		if err != bufio.ErrBufferFull {
			return err
		}
	}
}

func (s *scanner) keep(part []byte) {
	if len(s.text)+len(part) > MaxLoc {
		s.bad = true
		return
	}
	s.text = append(s.text, part...)
}

// markup reads the markup after a "<".
func (s *scanner) markup() error {
	s.tag = s.tag[:0]
	head, err := s.in.Peek(1)
	if err != nil {
		return err
	}
	switch head[0] {
	case '?':
		return s.skip("?>", nil)
	case '!':
		return s.declaration()
	}
	if err := s.readTag(); err != nil {
		return err
	}
	if s.tag[0] == '/' {
		return s.close()
	}
	return s.open()
}

// declaration reads a comment, a CDATA section or a document type.
func (s *scanner) declaration() error {
	head, err := s.in.Peek(len("![CDATA["))
	if err != nil && err != io.EOF {
		return err
	}
	switch {
	case bytes.HasPrefix(head, []byte("!--")):
		_, _ = s.in.Discard(len("!--"))
		return s.skip("-->", nil)
	case bytes.HasPrefix(head, []byte("![CDATA[")):
		_, _ = s.in.Discard(len("![CDATA["))
		if s.take {
			return s.skip("]]>", s.cdata)
		}
		return s.skip("]]>", nil)
	}
	if err := s.readTag(); err != nil {
		return err
	}
	defer func() { s.tag = s.tag[:0] }()
	if bytes.IndexByte(s.tag, '[') >= 0 {
		return ErrDTD
	}
	return nil
}

// cdata adds a byte of a CDATA section, in which "&" stands for itself.
func (s *scanner) cdata(c byte) {
	switch {
	case len(s.text) >= MaxLoc:
		s.bad = true
	case c == '&':
		s.text = append(s.text, "&amp;"...)
	default:
		s.text = append(s.text, c)
	}
}

// skip reads until end, inclusive, and passes all bytes before it to keep.
func (s *scanner) skip(end string, keep func(byte)) error {
	var last [3]byte
	n := 0
	for {
		c, err := s.in.ReadByte()
		if err != nil {
			return err
		}
		if n < len(end) {
			last[n] = c
			n++
		} else {
			if keep != nil {
				keep(last[0])
			}
			copy(last[:], last[1:len(end)])
			last[len(end)-1] = c
		}
		if n == len(end) && string(last[:n]) == end {
			return nil
		}
	}
}

// readTag reads a tag until its ">"; a ">" in quotes does not end it.
func (s *scanner) readTag() error {
	quote := byte(0)
	for {
		part, err := s.in.ReadSlice('>')
		if len(s.tag)+len(part) > maxTag {
			return ErrTag
		}
		from := len(s.tag)
		s.tag = append(s.tag, part...)
		if err == bufio.ErrBufferFull {
			err = nil
		} else if err != nil {
			return err
		}
		for _, c := range s.tag[from:] {
			switch {
			case quote != 0:
				if c == quote {
					quote = 0
				}
			case c == '"' || c == '\'':
				quote = c
			}
		}
		if n := len(s.tag); quote == 0 && s.tag[n-1] == '>' {
			if s.tag = s.tag[:n-1]; len(s.tag) == 0 {
				s.tag = append(s.tag, ' ') // "<>" is an element without a name
			}
			return nil
		}
	}
}

// open handles a start tag.
func (s *scanner) open() error {
	name := s.tag
	if n := bytes.IndexAny(name, " \t\r\n/"); n >= 0 {
		name = name[:n]
	}
	el := elementOf(name)
	s.r.feed.open(s, el)
	if el == elLink && s.r.sum.Form == Atom && s.depth > 0 && s.stack[s.depth-1] == elEntry {
		if err := s.atomLink(); err != nil {
			return err
		}
	}
	if el == elLink && s.r.sum.Form == URLSet && s.depth > 0 && s.stack[s.depth-1] == elURL {
		s.r.translation(s.tag)
	}
	if s.tag[len(s.tag)-1] == '/' {
		s.r.feed.leave(s.depth)
		return nil
	}
	if s.depth == maxDepth {
		return ErrDeep
	}
	if el == elURL {
		s.prio, s.date = DefaultPriority, time.Time{}
		s.r.translations, s.r.translationBytes = s.r.translations[:0], 0
	}
	s.stack[s.depth] = el
	s.depth++
	if !s.take && s.wanted() {
		s.take, s.bad, s.text = true, false, s.text[:0]
	}
	return nil
}

// close handles an end tag.
func (s *scanner) close() error {
	if s.depth == 0 {
		return nil
	}
	if s.take && s.wanted() {
		s.take = false
		if err := s.taken(); err != nil {
			return err
		}
	}
	s.depth--
	s.r.feed.leave(s.depth)
	if s.stack[s.depth] == elItem && s.r.sum.Form == RSS {
		return s.r.feed.endItem(s.r)
	}
	if s.holds && s.stack[s.depth] == elURL {
		return s.release()
	}
	return nil
}

// taken handles the text of an element.
func (s *scanner) taken() error {
	text, ok := unescape(bytes.TrimSpace(s.text))
	ok = ok && !s.bad
	switch {
	case s.stack[s.depth-1] == elPriority:
		if p, err := strconv.ParseFloat(string(text), 64); ok && err == nil && p >= 0 && p <= 1 {
			s.prio = p
		}
		return nil
	case s.stack[s.depth-1] == elLastmod:
		if date := dateOf(text); ok && s.date.IsZero() {
			s.date = date
		}
		return nil
	case len(text) == 0 && ok:
		return nil
	case s.stack[s.depth-1] == elGUID:
		s.r.feed.hold(text, ok)
		return nil
	case s.r.sum.Form == RSS:
		s.r.feed.linked = true
		return s.r.take(text, ok)
	case !ok || s.r.sum.Form != URLSet:
		return s.r.take(text, ok)
	}
	if s.holds {
		if err := s.release(); err != nil {
			return err
		}
	}
	s.held, s.holds = append(s.held[:0], text...), true
	return nil
}

// release takes the URL that is held.
func (s *scanner) release() error {
	s.holds = false
	return s.r.takeWith(s.held, true, s.prio, s.date)
}

// translation keeps the translation that the tag of a link has, if it has one.
func (r *reader) translation(tag []byte) {
	rel, _ := attribute(tag, "rel")
	code, has := attribute(tag, "hreflang")
	href, ok := attribute(tag, "href")
	if !has || !ok || string(rel) != "alternate" || len(r.translations) == r.opt.Translations ||
		r.translationBytes+len(code)+len(href) > maxTranslationBytes {
		return
	}
	url, ok := unescape(bytes.Clone(bytes.TrimSpace(href)))
	if !ok || len(url) > MaxLoc {
		return
	}
	r.translationBytes += len(code) + len(href)
	r.translations = append(r.translations, Translation{bytes.Clone(code), url})
}

// dateOf returns a time in one of the forms of W3C's profile of ISO 8601; the zero time for any other text.
func dateOf(text []byte) time.Time {
	for _, form := range []string{time.RFC3339, "2006-01-02", "2006-01-02T15:04Z07:00", "2006-01", "2006"} {
		if len(text) > len(time.RFC3339Nano) {
			break
		}
		if t, err := time.Parse(form, string(text)); err == nil {
			return t
		}
	}
	return time.Time{}
}

// attribute returns the raw value of an attribute of a tag.
func attribute(tag []byte, name string) ([]byte, bool) {
	const blanks = " \t\r\n"
	n := bytes.IndexAny(tag, blanks)
	for n >= 0 && n < len(tag) {
		tag = bytes.TrimLeft(tag[n:], blanks)
		eq := bytes.IndexByte(tag, '=')
		if eq < 0 {
			return nil, false
		}
		key, rest := bytes.TrimRight(tag[:eq], blanks), bytes.TrimLeft(tag[eq+1:], blanks)
		if len(rest) == 0 || rest[0] != '"' && rest[0] != '\'' {
			return nil, false
		}
		end := bytes.IndexByte(rest[1:], rest[0])
		if end < 0 {
			return nil, false
		}
		if string(key) == name {
			return rest[1 : 1+end], true
		}
		tag, n = rest, end+2
	}
	return nil, false
}

// unescape replaces the references of XML in place. It returns false for any other reference.
func unescape(b []byte) ([]byte, bool) {
	at := bytes.IndexByte(b, '&')
	if at < 0 {
		return b, true
	}
	out := b[:at]
	for b = b[at:]; len(b) > 0; {
		if b[0] != '&' {
			out = append(out, b[0])
			b = b[1:]
			continue
		}
		end := bytes.IndexByte(b[:min(len(b), 12)], ';')
		if end < 0 {
			return nil, false
		}
		r, ok := reference(string(b[1:end]))
		if !ok {
			return nil, false
		}
		b = b[end+1:]
		out = utf8.AppendRune(out, r) // never longer than the reference
	}
	return out, true
}

// reference returns the character of a reference.
func reference(name string) (rune, bool) {
	switch name {
	case "amp":
		return '&', true
	case "lt":
		return '<', true
	case "gt":
		return '>', true
	case "quot":
		return '"', true
	case "apos":
		return '\'', true
	}
	if len(name) < 2 || name[0] != '#' {
		return 0, false
	}
	digits, base := name[1:], 10
	if digits[0] == 'x' {
		digits, base = digits[1:], 16
	}
	n, err := strconv.ParseUint(digits, base, 32)
	if err != nil || n == 0 || n > utf8.MaxRune || !utf8.ValidRune(rune(n)) {
		return 0, false
	}
	return rune(n), true
}
