package maintext

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/atom"

	"drumbeat/internal/pagetext"
)

// Markdown returns the main text as GitHub Flavored Markdown, in one form: # headings, - and 1. lists, > quotes, ```
// code with its language if the page names it, | tables with the first row as head, [links](absolute URL),
// ![images](absolute URL) that have an alternative text, **strong**, *emphasis* and `code`. Blocks are separated by an
// empty line, except items of a list. Characters that Markdown would interpret are escaped, so no HTML is left. Links
// that are not of http or https are text. It is cut after most bytes, since the marks of nested lists and quotes can
// make it many times as long as the page.
func (d *Doc) Markdown(most int) (text []byte, cut bool) {
	if d.passage == nil {
		return nil, false
	}
	m := &markdown{passage: d.passage, doc: d, most: most}
	m.count()
	m.children(0)
	m.flush()
	if text = m.out.Bytes(); len(text) <= most {
		return text, false
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most], true
}

// markdown writes the main text of a passage.
type markdown struct {
	*passage
	doc  *Doc
	most int // bytes after which no line begins
	// How many of the nodes before a node are texts or images of the main text, and elements that break lines.
	kept, broken []int32

	out     bytes.Buffer
	prefix  string // of each line: quotes and the indentation of lists
	first   string // of the next line instead, such as "- "
	outer   string // of an empty line before that
	tight   bool   // no empty line precedes the next block
	line    []byte // the open paragraph
	head    string // precedes it: "## "
	space   bool   // white space precedes the next text
	outside rune   // the character before the element that is being written
	flat    int    // > 0: within a heading, a link or a cell of a table, where blocks are words
	bold    bool
	italic  bool
	linked  bool
	cell    bool
}

// count fills kept and broken.
func (m *markdown) count() {
	shown := m.images()
	m.kept, m.broken = make([]int32, len(m.nodes)+1), make([]int32, len(m.nodes)+1)
	for i := range m.nodes {
		n := &m.nodes[i]
		m.kept[i+1], m.broken[i+1] = m.kept[i], m.broken[i]
		if n.name == 0 && m.keeps(int32(i)) && len(bytes.TrimSpace(m.text[n.from:n.to])) > 0 || shown[int32(i)] {
			m.kept[i+1]++
		} else if breaks(n.name) {
			m.broken[i+1]++
		}
	}
}

// images returns the images that have an alternative text and belong to main text: of the texts before and after
// them, those in the innermost element around them that has text are main text.
func (m *markdown) images() map[int32]bool {
	shown := map[int32]bool{}
	var waiting []int32
	before := int32(-1)
	decide := func(after int32) {
		for _, i := range waiting {
			around := &m.nodes[m.of[i].above]
			in := func(j int32) bool { return j > m.of[i].above && j < around.end }
			shown[i] = (in(before) || in(after)) && (!in(before) || m.keeps(before)) && (!in(after) || m.keeps(after))
		}
		waiting = waiting[:0]
	}
	for i := int32(1); i < int32(len(m.nodes)); i++ {
		n := &m.nodes[i]
		switch {
		case n.name == atom.Img && n.attrs != 0 && strings.TrimSpace(m.attrs[n.attrs].text) != "":
			waiting = append(waiting, i)
		case n.name == 0 && len(bytes.TrimSpace(m.text[n.from:n.to])) > 0:
			decide(i)
			before = i
		}
	}
	decide(-1)
	return shown
}

// keeps tells whether a text node is main text.
func (m *markdown) keeps(i int32) bool {
	b := int(m.block[i])
	return b < len(m.blocks) && m.blocks[b].content
}

// has tells whether an element has main text.
func (m *markdown) has(i int32) bool { return m.kept[m.nodes[i].end] > m.kept[i] }

// children writes what is in an element.
func (m *markdown) children(i int32) {
	for j := i + 1; j < m.nodes[i].end; j = m.nodes[j].end {
		m.node(j)
	}
}

// node writes an element or a text.
func (m *markdown) node(i int32) {
	n := &m.nodes[i]
	switch {
	case n.name == 0:
		if n.from < n.to && m.keeps(i) {
			m.words(m.text[n.from:n.to])
		}
		return
	case !m.has(i):
		m.space = m.space || pagetext.IsBlock(n.name) || len(m.raw(i)) > 0
		return
	case n.name == atom.Img:
		m.image(i)
		return
	case n.name == atom.Br:
		return
	case m.flat > 0 || m.inline(i):
		m.element(i)
		return
	}
	switch n.name {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		m.flush()
		m.head = strings.Repeat("#", int(n.name.String()[1]-'0')) + " "
		m.flatten(i)
		m.flush()
	case atom.Ul, atom.Ol, atom.Menu:
		m.list(i)
	case atom.Li:
		m.item(i, "- ")
	case atom.Blockquote:
		m.within("> ", "> ", func() { m.children(i) })
	case atom.Pre:
		m.code(i)
	case atom.Table:
		if !m.table(i) {
			m.children(i)
		}
	default:
		m.flush()
		m.children(i)
		m.flush()
	}
}

// breaks tells whether an element begins and ends a paragraph.
func breaks(name atom.Atom) bool {
	switch name {
	case atom.Br:
		return false
	case atom.Td, atom.Th, atom.Button, atom.Label, atom.Noscript:
		return true
	}
	return pagetext.IsBlock(name)
}

// inline tells whether an element is a part of a line.
func (m *markdown) inline(i int32) bool {
	return !breaks(m.nodes[i].name) && m.broken[m.nodes[i].end] == m.broken[i]
}

// flatten writes an element as one line.
func (m *markdown) flatten(i int32) {
	m.flat++
	m.children(i)
	m.flat--
}

// element writes an element within a line.
func (m *markdown) element(i int32) {
	n := &m.nodes[i]
	switch n.name {
	case atom.A:
		url := ""
		if n.attrs != 0 && !m.linked {
			url = m.resolve(m.attrs[n.attrs].link)
		}
		m.wrap(i, &m.linked, "[", "]("+url+")", url != "")
	case atom.B, atom.Strong:
		m.wrap(i, &m.bold, "**", "**", m.head == "")
	case atom.I, atom.Em:
		m.wrap(i, &m.italic, "*", "*", true)
	case atom.Code, atom.Kbd, atom.Samp, atom.Tt:
		m.span(i)
	default:
		m.space = m.space || pagetext.IsBlock(n.name)
		m.flatten(i)
		m.space = m.space || pagetext.IsBlock(n.name)
	}
}

// wrap writes an element between two marks, without white space inside them. in says that such an element is around
// it. Marks that Markdown would not read are left out: those of emphasis between a letter and punctuation.
func (m *markdown) wrap(i int32, in *bool, before, after string, marks bool) {
	if *in || !marks {
		m.flatten(i)
		return
	}
	line, space, outside := m.line, m.space, m.outside
	m.outside = m.last()
	m.line, m.space, *in = nil, false, true
	m.flatten(i)
	inner, trailing := m.line, m.space
	m.line, m.space, m.outside, *in = line, space, outside, false
	if trimmed := bytes.TrimLeft(inner, " "); len(trimmed) < len(inner) {
		inner, m.space = trimmed, true
	}
	if len(inner) == 0 {
		m.space = m.space || trailing
		return
	}
	if before[0] == '*' && !m.flanks(i, inner, trailing) {
		before, after = "", ""
	}
	m.gap()
	if end := len(m.line) - 1; before == "[" && end >= 0 && m.line[end] == '!' { // that would make an image of it
		m.line = append(m.line[:end], '\\', '!')
	}
	m.line = append(append(append(m.line, before...), inner...), after...)
	m.space = trailing
}

// flanks tells whether Markdown reads "*" around a text as emphasis: what is inside is no punctuation, or what is
// outside is no letter.
func (m *markdown) flanks(i int32, inner []byte, trailing bool) bool {
	last := m.last()
	first, _ := utf8.DecodeRune(inner)
	end, _ := utf8.DecodeLastRune(inner)
	if last == '*' || !isWordRune(first) && !unicode.IsSpace(last) {
		return false
	}
	next := ' '
	if j := m.nodes[i].end; !trailing && int(j) < len(m.nodes) && m.nodes[j].from < m.nodes[j].to {
		next, _ = utf8.DecodeRune(m.text[m.nodes[j].from:])
	} else if !trailing && int(j) < len(m.nodes) {
		next = 'x' // an element, whose text is not known here
	}
	return isWordRune(end) && next != '*' || unicode.IsSpace(next)
}

// last returns the character before the next text; a space at the beginning of a line.
func (m *markdown) last() rune {
	switch {
	case m.space:
		return ' '
	case len(m.line) == 0 && m.outside != 0:
		return m.outside
	case len(m.line) == 0:
		return ' '
	}
	r, _ := utf8.DecodeLastRune(m.line)
	return r
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// gap appends the white space that precedes the next text.
func (m *markdown) gap() {
	if m.space && len(m.line) > 0 && m.line[len(m.line)-1] != ' ' {
		m.line = append(m.line, ' ')
	} else if m.space && len(m.line) == 0 && (m.linked || m.bold || m.italic) {
		m.line = append(m.line, ' ') // wrap takes it out
	}
	m.space = false
}

// words appends a text, with one space for white space, and escapes it.
func (m *markdown) words(text []byte) {
	for text = printable(text); len(text) > 0; {
		n := bytes.IndexFunc(text, unicode.IsSpace)
		if n != 0 {
			if n < 0 {
				n = len(text)
			}
			m.gap()
			m.escape(text[:n])
			text = text[n:]
			continue
		}
		m.space = true
		text = bytes.TrimLeftFunc(text, unicode.IsSpace)
	}
}

// escape appends a word, with a backslash before each character that has a meaning anywhere in a line.
func (m *markdown) escape(word []byte) {
	for i, c := range word {
		next := byte(' ')
		if i+1 < len(word) {
			next = word[i+1]
		}
		switch {
		case c == '\\', c == '`', c == '*', c == '[', c == ']', c == '<', c == '|' && m.cell,
			c == '&' && (isLetter(next) || next == '#'), c == '~',
			c == '_' && !(i > 0 && isLetter(word[i-1]) && isLetter(next)):
			m.line = append(m.line, '\\', c)
		default:
			m.line = append(m.line, c)
		}
	}
}

func isLetter(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
}

// span writes code within a line, between more backticks than follow each other in it.
func (m *markdown) span(i int32) {
	text := bytes.Join(bytes.Fields(m.raw(i)), []byte(" "))
	if m.cell {
		text = bytes.ReplaceAll(text, []byte("|"), []byte(`\|`))
	}
	if len(text) == 0 {
		return
	}
	fence := strings.Repeat("`", longestRun(text)+1)
	pad := ""
	if text[0] == '`' || text[len(text)-1] == '`' {
		pad = " "
	}
	if n := len(m.line); n > 0 && m.line[n-1] == '`' && !m.space {
		m.space = true
	}
	m.gap()
	m.line = append(m.line, fence+pad+string(text)+pad+fence...)
}

// longestRun returns the length of the longest run of backticks.
func longestRun(text []byte) int {
	longest, n := 0, 0
	for _, c := range text {
		if n++; c != '`' {
			n = 0
		}
		longest = max(longest, n)
	}
	return longest
}

// raw returns the main text of an element as it is.
func (m *markdown) raw(i int32) (text []byte) {
	for j := i + 1; j < m.nodes[i].end; j++ {
		switch n := &m.nodes[j]; {
		case n.name == atom.Br:
			text = append(text, '\n')
		case n.name == 0 && n.from < n.to && m.keeps(j):
			text = append(text, m.text[n.from:n.to]...)
		}
	}
	return printable(text)
}

// image writes an image.
func (m *markdown) image(i int32) {
	n := &m.nodes[i]
	url := m.resolve(m.attrs[n.attrs].link)
	if url == "" {
		return
	}
	m.gap()
	m.line = append(m.line, '!', '[')
	m.words([]byte(m.attrs[n.attrs].text))
	m.line = append(m.line, "]("+url+")"...)
}

// resolve returns an absolute URL of http or https with its fragment, or "".
func (m *markdown) resolve(link string) string {
	if strings.HasPrefix(link, "#") {
		return ""
	}
	url := m.doc.resolve(link)
	if _, fragment, _ := strings.Cut(link, "#"); url != "" && isFragment(fragment) {
		url += "#" + fragment
	}
	return escapeURL.Replace(url)
}

// isFragment tells whether a text is the fragment of a URL: printable ASCII without what RFC 3986 excludes.
func isFragment(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7F || strings.IndexByte("\"#<>[]\\^`{|}", c) >= 0 {
			return false
		}
	}
	return s != ""
}

// escapeURL replaces what would end the URL of a link.
var escapeURL = strings.NewReplacer("(", "%28", ")", "%29", "<", "%3C", ">", "%3E", " ", "%20", "\\", "%5C", "|", "%7C",
	"*", "%2A", "`", "%60")

// flush ends the open paragraph.
func (m *markdown) flush() {
	text := strings.TrimSpace(string(m.line))
	head := m.head
	m.line, m.space, m.head = m.line[:0], false, ""
	if text == "" {
		return
	}
	if head == "" {
		text = escapeBegin(text)
	} else {
		text = strings.TrimRight(text, "#") + strings.Repeat(`\#`, len(text)-len(strings.TrimRight(text, "#")))
	}
	m.begin(head + text)
}

// escapeBegin escapes what has a meaning at the beginning of a line.
func escapeBegin(text string) string {
	switch c := text[0]; {
	case strings.IndexByte("#>+-=~|:", c) >= 0:
		return `\` + text
	case c >= '0' && c <= '9':
		n := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
		if n > 0 && (text[n] == '.' || text[n] == ')') {
			return text[:n] + `\` + text[n:]
		}
	}
	return text
}

// begin writes the first line of a block, after an empty line.
func (m *markdown) begin(line string) {
	if m.out.Len() > 0 && !m.tight {
		prefix := m.prefix
		if m.first != "" {
			prefix = m.outer
		}
		m.end(prefix)
	}
	m.tight = false
	m.write(line)
}

// printable drops control characters, which Markdown has not.
func printable(text []byte) []byte {
	if bytes.IndexFunc(text, isControl) < 0 {
		return text
	}
	return bytes.Map(func(r rune) rune {
		if isControl(r) {
			return -1
		}
		return r
	}, text)
}

func isControl(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }

// write writes a line.
func (m *markdown) write(line string) {
	prefix := m.prefix
	if m.first != "" {
		prefix, m.first = m.first, ""
	}
	m.end(prefix + line)
}

// end writes a line with its prefix.
func (m *markdown) end(line string) {
	if m.out.Len() <= m.most {
		m.out.WriteString(strings.TrimRight(line, " "))
		m.out.WriteByte('\n')
	}
}
