package maintext

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"

	"drumbeat/internal/mimetype"
	"drumbeat/internal/pagetext"
	"drumbeat/parse"
	"drumbeat/weburl"
)

// Bounds of what is read and kept, in bytes but for MaxJSONLD, which is a number of scripts.
const (
	MaxPage        = 8 << 20   // of a page
	MaxValue       = 8 << 10   // of a title, description and so on
	MaxJSONLD      = 64        // of a page
	MaxJSONLDBytes = 256 << 10 // of all JSON-LD of a page
)

// Doc is what a page says.
type Doc struct {
	Title       string
	Description string
	Canonical   string // absolute; "": none, or no URL of http or https
	Author      string
	Published   string // as the page has it
	Declared    string // the language that the page declares
	Charset     string // name as in the Encoding standard
	// CharsetGuessed says that neither page nor header names the charset, and the text depends on it.
	CharsetGuessed bool
	NoIndex        bool // a robots meta asks not to index the page
	// Text is the visible text, a line for each paragraph, heading, row of a table and so on. Main is that of it
	// that is not boilerplate.
	Text, Main []byte
	Whole      bool              // Main is Text without the title: no block looks like content
	JSONLD     []json.RawMessage // in one line each
	// DroppedJSONLD is the number of scripts that are no JSON or beyond a bound.
	DroppedJSONLD int
	Truncated     bool // the page is longer than MaxPage
}

// HTML reads a page with a Content-Type and a canonical URL.
func HTML(page io.Reader, contentType, url string) (*Doc, error) {
	limited := &io.LimitedReader{R: page, N: MaxPage + 1}
	r := newReader()
	e, err := pagetext.Walk(limited, contentType, r.token)
	if err != nil {
		return nil, err
	}
	r.doc.Charset, r.doc.CharsetGuessed = e.Name, e.Guessed
	r.end()
	d := &r.doc
	d.Truncated = limited.N == 0
	d.Text = r.text.Bytes()
	d.Main, d.Whole = mainText(d.Text, r.blocks)
	d.Canonical = r.resolve(url)
	if d.Title == "" {
		d.Title = r.ogTitle
	}
	if d.Description == "" {
		d.Description = r.ogDescription
	}
	return d, nil
}

// resolve returns the canonical URL that the page names; "" if it is none of http or https.
func (r *reader) resolve(url string) string {
	if r.canonical == "" {
		return ""
	}
	at := weburl.NewResolver(weburl.Options{MaxBytes: MaxValue})
	base, err := weburl.NewBase([]byte(url))
	if err != nil {
		return ""
	}
	if r.base != "" {
		_ = at.Rebase(base, []byte(r.base)) // after an error the base is the page's URL, as in browsers
	}
	if coding, name := charset.Lookup(r.doc.Charset); name != "utf-8" {
		base.Query = coding
	}
	to, err := at.AppendResolve(nil, base, []byte(r.canonical))
	if err != nil {
		return ""
	}
	return string(to)
}

// reader collects what the tokens of a page say.
type reader struct {
	doc    Doc
	text   bytes.Buffer
	lines  *pagetext.Lines
	blocks []block
	open   block // begins at open.from
	links  int   // open <a> elements with href
	marked marks
	inHead bool // in a title

	canonical, base        string
	ogTitle, ogDescription string
	ld                     bool // the open script is JSON-LD
	script                 []byte
	ldBytes                int
}

func newReader() *reader {
	r := &reader{}
	r.lines = pagetext.NewLines(&r.text)
	return r
}

// token takes the next token of the page.
func (r *reader) token(t *pagetext.Token) error {
	if t.Hidden != 0 {
		r.hidden(t)
		return nil
	}
	if t.Text != nil {
		if r.inHead && r.doc.Title == "" {
			r.doc.Title = value(t.Text)
		}
		linked := r.links > 0
		if r.inHead {
			r.open.title = true
		}
		r.open.count(t.Text, linked)
		r.lines.Add(t)
		return nil
	}
	if t.Breaks() && t.Name != atom.Br {
		r.endBlock()
	}
	r.lines.Add(t)
	switch t.Name {
	case atom.Title:
		r.inHead = !t.End
	case atom.A:
		r.link(t)
	case atom.Meta:
		r.meta(t)
	case atom.Link:
		r.relation(t)
	case atom.Base:
		if href := attr(t, "href"); r.base == "" {
			r.base = href
		}
	case atom.Html:
		if !t.End && r.doc.Declared == "" {
			r.doc.Declared = attr(t, "lang")
		}
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		r.open.heading = !t.End
	default:
		if r.marked.tag(t) {
			r.endBlock()
		}
	}
	return nil
}

// link takes a tag of <a>. HTML closes an open <a> where the next begins.
func (r *reader) link(t *pagetext.Token) {
	r.links = 0
	if !t.End && attr(t, "href") != "" {
		r.links = 1
	}
}

// endBlock ends the open block.
func (r *reader) endBlock() {
	r.lines.End()
	if r.open.to = r.text.Len(); r.open.to > r.open.from {
		r.blocks = append(r.blocks, r.open)
	}
	r.open = block{from: r.text.Len(), marked: r.marked.within()}
}

// end ends the page.
func (r *reader) end() {
	r.endBlock()
	r.endScript() // a page that ends within a script
}

// hidden takes a token that is not visible.
func (r *reader) hidden(t *pagetext.Token) {
	switch {
	case t.Hidden != atom.Script:
	case t.Text != nil:
		if r.ld && len(r.script)+len(t.Text) <= MaxJSONLDBytes {
			r.script = append(r.script, t.Text...)
		} else if r.ld {
			r.ld = false
			r.doc.DroppedJSONLD++
		}
	case t.End:
		r.endScript()
	default:
		r.script, r.ld = r.script[:0], mimetype.Parse(attr(t, "type")).Essence == "application/ld+json"
	}
}

// endScript takes a script of JSON-LD.
func (r *reader) endScript() {
	if !r.ld {
		return
	}
	r.ld = false
	var line bytes.Buffer
	if len(r.doc.JSONLD) == MaxJSONLD || r.ldBytes+len(r.script) > MaxJSONLDBytes ||
		json.Compact(&line, r.script) != nil || line.Len() == 0 {
		r.doc.DroppedJSONLD++
		return
	}
	r.ldBytes += line.Len()
	r.doc.JSONLD = append(r.doc.JSONLD, line.Bytes())
}

// meta takes a meta element.
func (r *reader) meta(t *pagetext.Token) {
	var name, content string
	for {
		n, v, ok := t.Attr()
		if !ok {
			break
		}
		switch string(n) {
		case "name", "property", "http-equiv", "itemprop":
			if name == "" {
				name = strings.ToLower(value(v))
			}
		case "content":
			content = value(v)
		}
	}
	set := func(to *string) {
		if *to == "" {
			*to = content
		}
	}
	switch name {
	case "description":
		set(&r.doc.Description)
	case "og:description":
		set(&r.ogDescription)
	case "og:title":
		set(&r.ogTitle)
	case "author", "article:author":
		set(&r.doc.Author)
	case "article:published_time", "datepublished", "dc.date", "dcterms.date", "date":
		set(&r.doc.Published)
	case "content-language":
		set(&r.doc.Declared)
	case "robots":
		r.doc.NoIndex = r.doc.NoIndex || parse.ParseRobots([]byte(content)).NoIndex
	}
}

// relation takes a link element.
func (r *reader) relation(t *pagetext.Token) {
	var rel, href string
	for {
		n, v, ok := t.Attr()
		if !ok {
			break
		}
		switch string(n) {
		case "rel":
			rel = value(v)
		case "href":
			href = value(v)
		}
	}
	for word := range strings.FieldsSeq(rel) {
		if strings.EqualFold(word, "canonical") && r.canonical == "" {
			r.canonical = href
		}
	}
}

// attr returns an attribute of a start tag; "" if there is none.
func attr(t *pagetext.Token, name string) string {
	for {
		n, v, ok := t.Attr()
		if !ok {
			return ""
		}
		if string(n) == name {
			return value(v)
		}
	}
}

// value returns a text of the head in one line, cut at MaxValue.
func value(b []byte) string {
	if len(b) > MaxValue {
		b = b[:MaxValue]
		for len(b) > 0 && !utf8.RuneStart(b[len(b)-1]) {
			b = b[:len(b)-1]
		}
		b = b[:max(0, len(b)-1)] // it may begin a character that was cut
	}
	return strings.Join(strings.Fields(string(b)), " ")
}
