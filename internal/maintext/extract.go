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
	MaxMarkdown    = 32 << 20  // of the Markdown of a page for people
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
	Truncated     bool // the page is longer than MaxPage, or has too many elements

	passage *passage
	urls    *weburl.Resolver
	base    *weburl.Base // nil: the page has no URL
}

// HTML reads a page with a Content-Type and a canonical URL.
func HTML(page io.Reader, contentType, url string) (*Doc, error) {
	return Watched(page, contentType, url, nil)
}

// Watched is HTML for two readers of a page: it calls watch, if set, with each token.
func Watched(page io.Reader, contentType, url string, watch func(*pagetext.Token)) (*Doc, error) {
	limited := &io.LimitedReader{R: page, N: MaxPage + 1}
	r := &reader{tree: newTree()}
	take := r.token
	if watch != nil {
		take = func(t *pagetext.Token) error {
			watch(t)
			t.Rewind()
			return r.token(t)
		}
	}
	e, err := pagetext.Walk(limited, contentType, take)
	if err != nil {
		return nil, err
	}
	r.doc.Charset, r.doc.CharsetGuessed = e.Name, e.Guessed
	r.endScript() // a page that ends within a script
	r.tree.pop(0)
	d := &r.doc
	d.Truncated = limited.N == 0 || r.tree.full
	p := newPassage(r.tree)
	d.Text = p.lines
	d.Main, d.Whole = p.main()
	d.passage = p
	d.setBase(url, r.base)
	d.Canonical = d.resolve(r.canonical)
	if d.Title == "" {
		d.Title = r.ogTitle
	}
	if d.Description == "" {
		d.Description = r.ogDescription
	}
	return d, nil
}

// setBase sets the base of the page's links, by its URL and the first <base>.
func (d *Doc) setBase(url, href string) {
	base, err := weburl.NewBase([]byte(url))
	if err != nil {
		return
	}
	d.urls, d.base = weburl.NewResolver(weburl.Options{MaxBytes: MaxValue}), base
	if href != "" {
		_ = d.urls.Rebase(base, []byte(href)) // after an error the base is the page's URL, as in browsers
	}
	if coding, name := charset.Lookup(d.Charset); name != "utf-8" {
		base.Query = coding
	}
}

// resolve returns a link of the page as a URL; "" if it is none of http or https.
func (d *Doc) resolve(link string) string {
	if link == "" || d.base == nil {
		return ""
	}
	to, err := d.urls.AppendResolve(nil, d.base, []byte(link))
	if err != nil {
		return ""
	}
	return string(to)
}

// reader collects what the tokens of a page say.
type reader struct {
	doc      Doc
	tree     *tree
	inHead   bool // in a title
	noscript bool // in a noscript

	canonical, base        string
	ogTitle, ogDescription string
	ld                     bool // the open script is JSON-LD
	script                 []byte
	ldBytes                int
}

// token takes the next token of the page.
func (r *reader) token(t *pagetext.Token) error {
	switch {
	case t.Hidden != 0:
		return r.hidden(t)
	case t.Text != nil:
		if r.inHead && r.doc.Title == "" {
			r.doc.Title = oneLine(t.Text)
		}
		r.tree.addText(t.Text)
		return nil
	case t.End:
		r.inHead = r.inHead && t.Name != atom.Title
		r.tree.broken = t.Breaks()
		r.tree.end(t.Name)
		return nil
	case r.noscript:
		r.tree.start(t)
		return nil
	}
	switch t.Name {
	case atom.Title:
		r.inHead = true
		r.tree.start(t)
	case atom.Meta:
		r.meta(t)
	case atom.Link:
		r.relation(t)
	case atom.Base:
		if href := attr(t, "href"); r.base == "" {
			r.base = href
		}
	case atom.Html:
		if r.doc.Declared == "" {
			r.doc.Declared = attr(t, "lang")
		}
	default:
		r.tree.start(t)
	}
	return nil
}

// leastNoscript is the length of a noscript that may have the text of the page, in bytes.
const leastNoscript = 512

// hidden takes a token that is not visible.
func (r *reader) hidden(t *pagetext.Token) error {
	switch {
	case t.Hidden == atom.Noscript && t.Text != nil && len(t.Text) >= leastNoscript && !r.noscript &&
		len(r.tree.stack) < maxDepth:
		r.noscript = true
		text := bytes.Clone(t.Text)
		n := len(r.tree.stack)
		r.tree.push(node{name: atom.Noscript}, 0)
		err := pagetext.WalkUTF8(bytes.NewReader(text), r.token)
		r.tree.pop(n)
		r.noscript = false
		return err
	case t.Hidden != atom.Script || r.noscript:
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
	return nil
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
				name = strings.ToLower(oneLine(v))
			}
		case "content":
			content = oneLine(v)
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
			rel = oneLine(v)
		case "href":
			href = oneLine(v)
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
			return oneLine(v)
		}
	}
}

// oneLine returns a text of the head or an attribute in one line, cut at MaxValue.
func oneLine(b []byte) string {
	if len(b) > MaxValue {
		b = b[:MaxValue]
		for len(b) > 0 && !utf8.RuneStart(b[len(b)-1]) {
			b = b[:len(b)-1]
		}
		b = b[:max(0, len(b)-1)] // it may begin a character that was cut
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(b), "\uFFFD")), " ")
}
