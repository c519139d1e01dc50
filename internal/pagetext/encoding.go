package pagetext

import (
	"bufio"
	"bytes"
	"io"
	"strings"

	"github.com/gogs/chardet"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/transform"

	"drumbeat/parse"
)

// Encoding is that of a page.
type Encoding struct {
	Name string // as in the Encoding standard, in lower case
	// Guessed says that neither the page nor its header names the encoding, and that the text depends on it.
	Guessed bool
}

// guessedBytes bounds the text that the detector reads, in bytes. It takes 0.1 ms and 0.2 µs a byte.
const guessedBytes = 4 << 10

// NewReader returns the text of a page, or of other text, with a Content-Type as UTF-8, without its byte order mark.
// The encoding is that of parse.FindEncoding, unless neither header nor page names one: where the standard leaves the
// choice to the browser, the text is examined. An error of the reader follows the text before it.
func NewReader(page io.Reader, contentType string) (text io.Reader, e Encoding) {
	in := bufio.NewReaderSize(page, parse.GuessBytes)
	begin, err := in.Peek(parse.GuessBytes)
	text = in
	if err != nil {
		text = io.MultiReader(bytes.NewReader(begin), &failed{err})
	}
	name, named := parse.FindEncoding(begin, contentType)
	e.Name = name
	if !named {
		e = guess(begin, name)
	}
	if e.Name != "utf-8" {
		if enc, err := htmlindex.Get(e.Name); err == nil { // it always is
			text = transform.NewReader(text, enc.NewDecoder())
		}
	}
	return &unmarked{r: text}, e
}

// failed is the end of a text.
type failed struct{ err error }

// Read implements io.Reader.
func (f *failed) Read([]byte) (int, error) { return 0, f.err }

// unmarked leaves out a byte order mark at the beginning of a text in UTF-8.
type unmarked struct {
	r     io.Reader
	begun bool
}

// Read implements io.Reader.
func (u *unmarked) Read(p []byte) (int, error) {
	if u.begun {
		return u.r.Read(p)
	}
	u.begun = true
	const mark = "\uFEFF"
	var begin [len(mark)]byte
	n, err := io.ReadFull(u.r, begin[:])
	rest := begin[:n]
	if string(rest) == mark {
		rest = nil
	}
	switch {
	case err == io.ErrUnexpectedEOF:
		err = io.EOF
	case err == nil:
		u.r = io.MultiReader(bytes.NewReader(rest), u.r)
		return u.r.Read(p)
	}
	u.r = io.MultiReader(bytes.NewReader(rest), &failed{err})
	return u.r.Read(p)
}

// guess returns the encoding of a page that names none. fallback is that of the standard. A page of ASCII alone has
// the same text in all encodings, except ISO-2022-JP, whose escapes it lacks.
func guess(begin []byte, fallback string) Encoding {
	var text []byte
	odd := false
	parse.EachText(begin, false, func(run []byte) {
		if has := bytes.IndexFunc(run, isOdd) >= 0; has && len(text) < guessedBytes {
			text = append(append(text, run...), ' ')
			odd = true
		}
	})
	if fallback != "windows-1252" || !odd {
		return Encoding{Name: fallback, Guessed: odd}
	}
	found, err := chardet.NewTextDetector().DetectAll(text[:min(len(text), guessedBytes)])
	if err != nil {
		return Encoding{Name: fallback, Guessed: true}
	}
	best, name := 0, fallback
	for _, f := range found { // the order of equals is random
		if n := nameOf(&f, text); n != "" && (f.Confidence > best || f.Confidence == best && n < name) {
			best, name = f.Confidence, n
		}
	}
	if best < leastConfidence {
		name = fallback
	}
	return Encoding{Name: name, Guessed: true}
}

// leastConfidence is how sure the detector has to be, in percent. It gives 10 to all encodings of two bytes in which
// a few characters are valid.
const leastConfidence = 11

// isOdd reports whether a character shows that a text is not ASCII.
func isOdd(r rune) bool { return r >= 0x80 || r == 0x1B }

// nameOf returns the name of an encoding that the detector found; "" if browsers do not have it. UTF-16 and UTF-32 do
// not come here: their pages have no text that is found without knowing the encoding.
func nameOf(f *chardet.Result, text []byte) string {
	label := strings.ToLower(f.Charset)
	switch {
	case label == "gb-18030":
		label = "gb18030"
	case label == "iso-8859-8-i":
		label = "windows-1255" // the letters are the same, in the same order
	case label == "iso-8859-2" && f.Language == "pl" && bytes.IndexByte(text, 0xB9) >= 0:
		label = "windows-1250" // where the byte is ą; in the other it is š, which Polish does not have
	}
	if strings.HasPrefix(label, "utf-16") || strings.HasPrefix(label, "utf-32") {
		return ""
	}
	enc, err := htmlindex.Get(label)
	if err != nil {
		return ""
	}
	name, err := htmlindex.Name(enc)
	if err != nil || name == "replacement" {
		return ""
	}
	return name
}
