package term

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Plain is a writer of text for a terminal. Of control characters it lets only line ends and tabs through,
// whatever a site, a file or a name server put into the text. It writes other control and unprintable
// characters (U+2028, marks of text direction) as \u and four digits, which mean the same inside a JSON
// string, and bytes that are not UTF-8 as \x and two digits.
type Plain struct {
	out     io.Writer
	text    []byte // reused
	pending []byte // the first bytes of a character whose rest comes with the next Write
	colours bool   // Paint paints
}

// NewPlain returns a Plain that writes to out. Paint paints if out is a terminal with colours, unless the
// user asks for none by NO_COLOR (no-color.org).
func NewPlain(out io.Writer) *Plain {
	return &Plain{out: out, colours: Columns(out) > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// Colour is a colour of text on a terminal.
type Colour int

// The colours, by their numbers in ECMA-48 (SGR).
const (
	NoColour Colour = 0
	Red      Colour = 31
	Green    Colour = 32
	Yellow   Colour = 33
)

// Paint writes text to w, in a colour if w is a Plain on a terminal with colours.
func Paint(w io.Writer, c Colour, text string) error {
	p, ok := w.(*Plain)
	if !ok || !p.colours || c == NoColour {
		_, err := io.WriteString(w, text)
		return err
	}
	if err := p.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.out, "\x1b[%dm%s\x1b[0m", c, PlainText(text))
	return err
}

// Write writes p. It keeps an incomplete character at the end for the next Write.
func (w *Plain) Write(p []byte) (int, error) {
	in := p
	if len(w.pending) > 0 {
		in = append(w.pending, p...)
		w.pending = nil
	}
	w.text = w.text[:0]
	for len(in) > 0 {
		if n := ascii(in); n > 0 {
			w.text, in = append(w.text, in[:n]...), in[n:]
			continue
		}
		if !utf8.FullRune(in) {
			w.pending = append(w.pending, in...)
			break
		}
		r, n := utf8.DecodeRune(in)
		if r == utf8.RuneError && n == 1 {
			w.text = fmt.Appendf(w.text, `\x%02x`, in[0])
		} else {
			w.text = appendPlain(w.text, r)
		}
		in = in[n:]
	}
	if len(w.text) > 0 {
		if _, err := w.out.Write(w.text); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// ascii returns the number of bytes at the beginning of p that are printable ASCII, line ends or tabs.
func ascii(p []byte) int {
	for i, c := range p {
		if (c < ' ' || c > '~') && c != '\n' && c != '\t' {
			return i
		}
	}
	return len(p)
}

// Flush writes the bytes of a character that was never completed.
func (w *Plain) Flush() error {
	if len(w.pending) == 0 {
		return nil
	}
	var text []byte
	for _, c := range w.pending {
		text = fmt.Appendf(text, `\x%02x`, c)
	}
	w.pending = nil
	_, err := w.out.Write(text)
	return err
}

func appendPlain(dst []byte, r rune) []byte {
	switch {
	case r == '\n', r == '\t', r >= ' ' && r < 0x7f, r > 0x7f && unicode.IsPrint(r):
		return utf8.AppendRune(dst, r)
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(dst, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(dst, `\u%04x`, r)
}

// Bytes returns a writer of bytes as they are, for files and pipes. If w is a Plain on a terminal, it returns a
// writer of plain text that leaves out the CR before a line end.
func Bytes(w io.Writer) io.Writer {
	p, ok := w.(*Plain)
	switch {
	case !ok:
		return w
	case Columns(p.out) == 0:
		return p.out
	}
	return &unixLines{p}
}

// unixLines leaves out each CR.
type unixLines struct{ w io.Writer }

// Write implements io.Writer.
func (u *unixLines) Write(p []byte) (int, error) {
	if _, err := u.w.Write(bytes.ReplaceAll(p, []byte{'\r'}, nil)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// PlainText returns s as a Plain would write it, on one line.
func PlainText(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return s
	}
	var dst []byte
	for i, r := range s {
		switch {
		case r == '\n' || r == '\t':
			dst = append(dst, ' ')
		case r == utf8.RuneError && s[i] != "\ufffd"[0]:
			dst = fmt.Appendf(dst, `\x%02x`, s[i])
		default:
			dst = appendPlain(dst, r)
		}
	}
	return string(dst)
}
