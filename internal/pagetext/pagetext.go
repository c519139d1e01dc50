// Package pagetext writes the visible text of HTML pages, for people and for programs that look for words.
//
// It reads the tokens of a page, not its tree: an element's text is visible unless the element is a script, a
// style, a template or a noscript. Styles that hide text are not known. Each block, such as a paragraph, a
// heading or a table row, has lines of its own; cells of a row are separated by a space, and a run of white space
// is one space. Entities are replaced, and the encoding is found as browsers find it, from a byte-order mark,
// the Content-Type, a meta element, or the bytes. The text is UTF-8; bytes that make no character become U+FFFD.
//
// Write streams: its memory is that of the longest text node or tag, at most maxToken. A longer one is an error,
// and so is an error of the reader or the writer. There are no others: every sequence of bytes is a page.
//
// IsHTML tells which types are HTML. A missing type counts as HTML, as in the crawl.
//
// The paper's crawler has nothing like it. The command get and the requests to hooks use the package.
// Its functions are safe for concurrent use, and it keeps no files.
package pagetext

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
)

// maxToken bounds a text node or a tag, in bytes.
const maxToken = 16 << 20

// IsHTML reports whether a Content-Type names HTML; a missing one counts as HTML.
func IsHTML(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind, _, _ = strings.Cut(contentType, ";")
		kind = strings.ToLower(strings.TrimSpace(kind))
	}
	return kind == "" || kind == "text/html" || kind == "application/xhtml+xml"
}

// hidden are the elements whose content is no visible text.
var hidden = map[atom.Atom]bool{atom.Script: true, atom.Style: true, atom.Template: true, atom.Noscript: true}

// block are the elements that begin and end a line.
var block = map[atom.Atom]bool{
	atom.Address: true, atom.Article: true, atom.Aside: true, atom.Blockquote: true, atom.Body: true, atom.Br: true,
	atom.Caption: true, atom.Dd: true, atom.Details: true, atom.Dialog: true, atom.Div: true, atom.Dl: true, atom.Dt: true,
	atom.Fieldset: true, atom.Figcaption: true, atom.Figure: true, atom.Footer: true, atom.Form: true, atom.H1: true,
	atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true, atom.Head: true, atom.Header: true,
	atom.Hr: true, atom.Html: true, atom.Legend: true, atom.Li: true, atom.Main: true, atom.Nav: true, atom.Ol: true,
	atom.Option: true, atom.P: true, atom.Pre: true, atom.Section: true, atom.Summary: true, atom.Table: true,
	atom.Tbody: true, atom.Tfoot: true, atom.Thead: true, atom.Title: true, atom.Tr: true, atom.Ul: true,
}

// Write writes the visible text of a page with a Content-Type.
func Write(out *bufio.Writer, page io.Reader, contentType string) error {
	decoded, err := charset.NewReader(page, contentType)
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	z := html.NewTokenizer(decoded)
	z.SetMaxBuf(maxToken)
	w := &lines{out: out}
	var skip atom.Atom // the hidden element, and how many of its name are open
	depth := 0
	for {
		kind := z.Next()
		switch kind {
		case html.ErrorToken:
			w.end()
			if errors.Is(z.Err(), html.ErrBufferExceeded) {
				return fmt.Errorf("a text node or tag of more than %d bytes", maxToken)
			}
			if z.Err() != io.EOF {
				return z.Err()
			}
			return w.err
		case html.TextToken:
			if depth == 0 {
				w.text(string(z.Text()))
			}
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			a := atom.Lookup(name)
			switch {
			case depth > 0 && a != skip:
			case hidden[a] && kind == html.StartTagToken:
				skip = a
				depth++
			case hidden[a] && kind == html.EndTagToken:
				depth = max(0, depth-1)
			case block[a]:
				w.end()
			case a == atom.Td || a == atom.Th:
				w.space = true
			}
		}
		if w.err != nil {
			return w.err
		}
	}
}

// lines writes text and joins white space.
type lines struct {
	out   *bufio.Writer
	begun bool // the line has text
	space bool // white space precedes the next text
	err   error
}

// text appends text, with its entities, to the line.
func (l *lines) text(raw string) {
	for i, word := range strings.Fields(raw) {
		if l.begun && (l.space || i > 0 || startsWithSpace(raw)) {
			l.out.WriteByte(' ') // the writer keeps its error
		}
		_, l.err = l.out.WriteString(word)
		l.begun, l.space = true, false
	}
	if raw != "" && strings.TrimSpace(raw[len(raw)-1:]) == "" {
		l.space = true
	}
}

func startsWithSpace(s string) bool { return s != "" && strings.TrimSpace(s[:1]) == "" }

// end ends the line, unless it is empty.
func (l *lines) end() {
	if l.begun {
		l.err = l.out.WriteByte('\n')
	}
	l.begun, l.space = false, false
}
