// Package pagetext writes the visible text of HTML pages, for people and for programs that look for words.
//
// It reads the tokens of a page, not its tree: an element's text is visible unless the element is a script, a
// style, a template, a noscript or a frame. Styles that hide text are not known. Each block, such as a paragraph, a
// heading or a table row, has lines of its own; cells of a row are separated by a space, and a run of white space
// is one space. Entities are replaced, and the encoding is found as browsers find it, from a byte-order mark,
// the Content-Type, the XML declaration or a meta element; the crawl finds links in the same one (parse.FindEncoding).
// Where none of them names it, the standard leaves it to the browser. Then the crawl takes UTF-8 or windows-1252, and
// this package examines the text (NewReader), because text in a wrong encoding is of no use to an index. Pages in
// Shift_JIS, EUC-JP, ISO-2022-JP, EUC-KR, GB 18030, Big5, in Cyrillic, Greek, Hebrew, Arabic and Turkish encodings and
// in ISO-8859-2 are recognized; those of Thai and Vietnamese are not. Such an encoding is marked as guessed.
// The text is UTF-8; bytes that make no character become U+FFFD.
//
// Write streams: its memory is that of the longest text node or tag, at most maxToken, and 64 KiB. A longer
// one is an error, and so is an error of the reader or the writer. There are no others: every sequence of
// bytes is a page. Write is made of two parts, which package extract uses too: Walk reads the tokens, and
// Lines joins the text.
//
// IsHTML tells which types are HTML. A missing type counts as HTML, as in the crawl.
//
// The paper's crawler has nothing like it. The command get, the requests to hooks and package extract use it.
// Its functions are safe for concurrent use; a Lines belongs to one goroutine. It keeps no files.
package pagetext

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"drumbeat/internal/mimetype"
)

// maxToken bounds a text node or a tag, in bytes.
const maxToken = 16 << 20

// IsHTML reports whether a Content-Type names HTML; a missing one counts as HTML.
func IsHTML(contentType string) bool {
	t := mimetype.Extract(contentType)
	return t.Essence == "" || t.IsHTML()
}

// hidden are the elements whose content is no visible text.
var hidden = map[atom.Atom]bool{atom.Script: true, atom.Style: true, atom.Template: true, atom.Noscript: true,
	atom.Iframe: true, atom.Noembed: true, atom.Noframes: true}

// block are the elements that begin and end a line.
var block = map[atom.Atom]bool{
	atom.Address: true, atom.Article: true, atom.Aside: true, atom.Blockquote: true, atom.Body: true, atom.Br: true,
	atom.Caption: true, atom.Dd: true, atom.Details: true, atom.Dialog: true, atom.Div: true,
	atom.Dl: true, atom.Dt: true, atom.Fieldset: true, atom.Figcaption: true, atom.Figure: true, atom.Footer: true,
	atom.Form: true, atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true,
	atom.Head: true, atom.Header: true, atom.Hr: true, atom.Html: true, atom.Legend: true, atom.Li: true,
	atom.Main: true, atom.Nav: true, atom.Ol: true, atom.Option: true, atom.P: true, atom.Pre: true, atom.Section: true,
	atom.Summary: true, atom.Table: true, atom.Tbody: true, atom.Tfoot: true, atom.Thead: true, atom.Title: true,
	atom.Tr: true, atom.Ul: true,
}

// Token is a tag or the text between two tags. It is valid until Walk passes the next one.
type Token struct {
	// Name is that of a tag's element; 0 for text, and for elements that HTML does not have.
	Name atom.Atom
	// End says that the tag is an end tag.
	End bool
	// Text is the text with its entities replaced; nil for a tag.
	Text []byte
	// Hidden is the element whose content is not visible and has the token; 0 if it is visible. The tags of that
	// element itself have it too.
	Hidden atom.Atom

	z     *html.Tokenizer
	more  bool        // the tag may have attributes that Attr has not read
	attrs []byte      // the rest of the tag
	read  []attribute // that Attr has read
	next  int         // that Attr returns, of read
}

type attribute struct{ name, value []byte }

// Breaks reports whether the token ends a line of text.
func (t *Token) Breaks() bool { return t.Text == nil && block[t.Name] }

// IsBlock reports whether an element begins and ends a line of text.
func IsBlock(name atom.Atom) bool { return block[name] }

// Blocks returns the elements that do.
func Blocks() iter.Seq[atom.Atom] { return maps.Keys(block) }

// Cell reports whether the token is a tag of a cell of a table, which white space separates from the next.
func (t *Token) Cell() bool { return t.Text == nil && (t.Name == atom.Td || t.Name == atom.Th) }

// Walk calls fn with each tag and each text of a page with a Content-Type, decoded to UTF-8. It leaves out comments
// and the doctype. An error of fn ends it.
func Walk(page io.Reader, contentType string, fn func(t *Token) error) (e Encoding, err error) {
	decoded, e := NewReader(page, contentType)
	return e, WalkUTF8(decoded, fn)
}

// WalkUTF8 is Walk for a page, or a part of one, in UTF-8.
func WalkUTF8(page io.Reader, fn func(t *Token) error) error {
	z := html.NewTokenizer(page)
	z.SetMaxBuf(maxToken)
	t := &Token{z: z}
	depth := 0 // how many of the hidden element's name are open
	for {
		kind := z.Next()
		t.Name, t.End, t.Text, t.more = 0, kind == html.EndTagToken, nil, false
		t.read, t.next = t.read[:0], 0
		switch kind {
		case html.ErrorToken:
			if errors.Is(z.Err(), html.ErrBufferExceeded) {
				return fmt.Errorf("a text node or tag of more than %d bytes", maxToken)
			}
			if z.Err() != io.EOF {
				return z.Err()
			}
			return nil
		case html.TextToken:
			if t.Text = z.Text(); !utf8.Valid(t.Text) {
				t.Text = bytes.ToValidUTF8(t.Text, []byte("\uFFFD"))
			}
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			raw := z.Raw()
			var name []byte
			name, t.more = z.TagName()
			t.Name = atom.Lookup(name)
			if t.more {
				end := bytes.IndexAny(raw, " \n\r\t\f/>")
				t.attrs = raw[max(0, end):]
			}
			// HTML ignores the slash of <script/>.
			if !t.End && hidden[t.Name] && (depth == 0 || t.Hidden == t.Name) {
				t.Hidden = t.Name
				depth++
			}
		default:
			continue
		}
		if err := fn(t); err != nil {
			return err
		}
		if t.End && depth > 0 && t.Hidden == t.Name {
			if depth--; depth == 0 {
				t.Hidden = 0
			}
		}
	}
}

// Write writes the visible text of a page with a Content-Type.
func Write(out *bufio.Writer, page io.Reader, contentType string) error {
	l := NewLines(out)
	_, err := Walk(page, contentType, func(t *Token) error {
		l.Add(t)
		return l.err
	})
	if err == nil {
		l.End()
		err = l.err
	}
	return err
}

// Output is where Lines go: a bufio.Writer or a bytes.Buffer.
type Output interface {
	io.Writer
	io.ByteWriter
}

// Lines writes the text of tokens as lines, and joins white space.
type Lines struct {
	out   Output
	begun bool // the line has text
	space bool // white space precedes the next text
	err   error
}

// NewLines returns Lines that write to out.
func NewLines(out Output) *Lines { return &Lines{out: out} }

// Add adds a token, if it is visible.
func (l *Lines) Add(t *Token) {
	switch {
	case t.Hidden != 0:
	case t.Text != nil:
		l.Text(t.Text)
	case t.Breaks():
		l.End()
	case t.Cell():
		l.Space()
	}
}

// Space separates the text before it from the next one.
func (l *Lines) Space() { l.space = true }

// Text appends text to the line.
func (l *Lines) Text(raw []byte) {
	for len(raw) > 0 && l.err == nil {
		n, next := wordsOf(raw)
		if n == 0 {
			l.space, raw = true, raw[next:]
			continue
		}
		if l.begun && l.space {
			l.err = l.out.WriteByte(' ')
		}
		if l.err == nil {
			_, l.err = l.out.Write(raw[:n])
		}
		l.begun, l.space, raw = true, next > n, raw[next:]
	}
}

// wordsOf returns where the words end that a text begins with, if there is one space between them, and where the white
// space behind them ends, or its first character.
func wordsOf(text []byte) (end, next int) {
	for next < len(text) {
		r, size := rune(text[next]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[next:])
		}
		switch {
		case r > ' ' && r < 0x7f || !unicode.IsSpace(r):
			next += size
			end = next
		case r == ' ' && next == end && next > 0:
			next++
		default:
			return end, next + size
		}
	}
	return end, next
}

// End ends the line, unless it is empty.
func (l *Lines) End() {
	if l.begun && l.err == nil {
		l.err = l.out.WriteByte('\n')
	}
	l.begun, l.space = false, false
}
