package publish

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	"golang.org/x/net/html/atom"

	"drumbeat/internal/httphead"
	"drumbeat/internal/pagetext"
	"drumbeat/internal/response"
	"drumbeat/warc"
)

// wat is the JSON of a response in a WAT file, the format of the Internet Archive's metadata extractor.
type wat struct {
	Container struct {
		Filename   string
		Compressed bool
		Offset     string
		Gzip       struct {
			Length string `json:"Deflate-Length"`
		} `json:"Gzip-Metadata"`
	}
	Envelope struct {
		Format       string
		HeaderLength string          `json:"WARC-Header-Length"`
		Header       json.RawMessage `json:"WARC-Header-Metadata"`
		Payload      struct {
			Type     string      `json:"Actual-Content-Type"`
			Response watResponse `json:"HTTP-Response-Metadata"`
		} `json:"Payload-Metadata"`
	}

	refersTo string
}

// watResponse is the head of a response, and what its page has.
type watResponse struct {
	Message       watStatus       `json:"Response-Message"`
	Headers       json.RawMessage `json:"Headers"`
	HeadersLength string          `json:"Headers-Length"`
	EntityLength  string          `json:"Entity-Length"`
	EntityDigest  string          `json:"Entity-Digest,omitempty"`
	HTML          *watPage        `json:"HTML-Metadata,omitempty"`
}

type watStatus struct{ Version, Status, Reason string }

// watPage has what a page names.
type watPage struct {
	Head struct {
		Base    string              `json:",omitempty"`
		Title   string              `json:",omitempty"`
		Metas   []map[string]string `json:",omitempty"`
		Link    []*watLink          `json:",omitempty"`
		Scripts []*watLink          `json:",omitempty"`
	}
	Links []*watLink `json:",omitempty"`

	inTitle bool
	anchor  *watLink // the open one
	count   int
}

// watLink is a link as the page has it: not resolved.
type watLink struct {
	Path     string `json:"path"`
	URL      string `json:"url,omitempty"`
	Text     string `json:"text,omitempty"`
	Alt      string `json:"alt,omitempty"`
	Title    string `json:"title,omitempty"`
	Rel      string `json:"rel,omitempty"`
	Target   string `json:"target,omitempty"`
	Type     string `json:"type,omitempty"`
	Hreflang string `json:"hreflang,omitempty"`
	Method   string `json:"method,omitempty"`
}

// Bounds of what WAT has of a page: links, metas and scripts together, and bytes of a text or value.
const (
	maxWATLinks = 20_000
	maxWATText  = 4 << 10
)

// linkAttrs are the attributes that name URLs, by elements of the body.
var linkAttrs = map[atom.Atom]string{atom.A: "href", atom.Area: "href", atom.Img: "src", atom.Iframe: "src",
	atom.Frame: "src", atom.Embed: "src", atom.Object: "data", atom.Form: "action", atom.Input: "src",
	atom.Video: "src", atom.Audio: "src", atom.Source: "src", atom.Track: "src", atom.Blockquote: "cite",
	atom.Q: "cite", atom.Body: "background"}

// metaAttrs are the attributes of a meta element.
var metaAttrs = map[string]bool{"name": true, "content": true, "property": true, "http-equiv": true, "charset": true,
	"itemprop": true}

// newWAT returns what WAT has of a response but its place. page is what it has of a page; nil for others.
func newWAT(rec *warc.StoredRecord, resp *response.Response, x *warc.Indexed, page *watPage) *wat {
	w := &wat{refersTo: rec.Get("WARC-Record-ID")}
	e := &w.Envelope
	e.Format, e.HeaderLength = "WARC", strconv.Itoa(len(rec.Head))
	e.Header = watFields(rec.Fields)
	e.Payload.Type = "application/http; msgtype=response"
	r := &e.Payload.Response
	r.Message, r.Headers = watHead(resp.Head)
	r.HeadersLength = strconv.Itoa(len(resp.Head))
	r.EntityLength, r.EntityDigest = strconv.FormatInt(rec.Size-int64(len(resp.Head)), 10), x.Digest
	r.HTML = page
	return w
}

// describe writes the metadata of a capture that was copied as c says.
func (s *splitter) describe(w *wat, x *warc.Indexed, c *captured) error {
	w.Container.Filename, w.Container.Compressed, w.Container.Offset = path.Base(c.Filename), true, c.Offset
	w.Container.Gzip.Length = c.Length
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(w); err != nil {
		return fmt.Errorf("publish: the metadata of %.200s: %w", x.URL, err)
	}
	if _, err := s.output(WAT); err != nil {
		return err
	}
	s.part.Captures[WAT]++
	return s.wat.WriteMetadata(&warc.Conversion{URL: x.URL, Date: x.Time, RefersTo: w.refersTo,
		Text: bytes.TrimSuffix(text.Bytes(), []byte{'\n'})})
}

// watFields returns fields as an object; a name that comes again has a list of its values.
func watFields(fields []warc.Field) json.RawMessage {
	values, names := map[string][]string{}, []string(nil)
	for _, f := range fields {
		if values[f.Name] == nil {
			names = append(names, f.Name)
		}
		values[f.Name] = append(values[f.Name], f.Value)
	}
	out := []byte{'{'}
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		value := any(values[name])
		if len(values[name]) == 1 {
			value = values[name][0]
		}
		key, _ := json.Marshal(name) // strings do not fail
		text, _ := json.Marshal(value)
		out = append(append(append(out, key...), ':'), text...)
	}
	return append(out, '}')
}

// watHead returns the status line and the fields of a head.
func watHead(head []byte) (st watStatus, headers json.RawMessage) {
	line, rest, _ := bytes.Cut(head, []byte{'\n'})
	st.Version, st.Status, _ = strings.Cut(strings.TrimSpace(string(line)), " ")
	st.Status, st.Reason, _ = strings.Cut(strings.TrimSpace(st.Status), " ")
	var fields []warc.Field
	for line := range bytes.Lines(rest) {
		if name, value, ok := bytes.Cut(line, []byte{':'}); ok && len(fields) < httphead.MaxBytes/8 {
			fields = append(fields, warc.Field{Name: string(name), Value: strings.TrimSpace(string(value))})
		}
	}
	return st, watFields(fields)
}

// token takes a token of the page.
func (p *watPage) token(t *pagetext.Token) {
	switch {
	case t.Text != nil && t.Hidden != 0:
	case t.Text != nil && p.inTitle:
		p.Head.Title = joinText(p.Head.Title, t.Text)
	case t.Text != nil && p.anchor != nil:
		p.anchor.Text = joinText(p.anchor.Text, t.Text)
	case t.Text != nil:
	case t.End:
		p.inTitle = p.inTitle && t.Name != atom.Title
		if t.Name == atom.A {
			p.anchor = nil
		}
	case t.Hidden != 0 && t.Name != atom.Script:
	case t.Name == atom.Title:
		p.inTitle = p.Head.Title == ""
	case p.count >= maxWATLinks:
		p.anchor = nil
	case t.Name == atom.Meta:
		meta := map[string]string{}
		for name, value, ok := t.Attr(); ok; name, value, ok = t.Attr() {
			if n := string(name); metaAttrs[n] && meta[n] == "" {
				meta[n] = cutText(value)
			}
		}
		if len(meta) > 0 {
			p.Head.Metas = append(p.Head.Metas, meta)
			p.count++
		}
	case t.Name == atom.Base:
		if l := linkOf(t, "href"); p.Head.Base == "" {
			p.Head.Base = l.URL
		}
	case t.Name == atom.Link:
		p.add(&p.Head.Link, linkOf(t, "href"))
	case t.Name == atom.Script:
		p.add(&p.Head.Scripts, linkOf(t, "src"))
	default:
		attr := linkAttrs[t.Name]
		if attr == "" {
			break
		}
		l := linkOf(t, attr)
		if t.Name == atom.A {
			p.anchor = l
		}
		p.add(&p.Links, l)
	}
}

// add adds a link, unless it names no URL.
func (p *watPage) add(to *[]*watLink, l *watLink) {
	if l.URL != "" {
		*to = append(*to, l)
		p.count++
	}
}

// linkOf returns the link of an element, whose attribute attr names the URL.
func linkOf(t *pagetext.Token, attr string) *watLink {
	l := &watLink{Path: strings.ToUpper(t.Name.String()) + "@/" + attr}
	for name, value, ok := t.Attr(); ok; name, value, ok = t.Attr() {
		to := l.field(string(name))
		if string(name) == attr {
			to = &l.URL
		}
		if to != nil && *to == "" {
			*to = cutText(value)
		}
	}
	return l
}

// field returns the place of the value of an attribute; nil if it is left out.
func (l *watLink) field(name string) *string {
	switch name {
	case "alt":
		return &l.Alt
	case "title":
		return &l.Title
	case "rel":
		return &l.Rel
	case "target":
		return &l.Target
	case "type":
		return &l.Type
	case "hreflang":
		return &l.Hreflang
	case "method":
		return &l.Method
	}
	return nil
}

// joinText appends a text with single spaces.
func joinText(to string, text []byte) string {
	if len(to) >= maxWATText {
		return to
	}
	words := strings.Join(strings.Fields(cutText(text)), " ")
	if to == "" || words == "" {
		return to + words
	}
	return to + " " + words
}

func cutText(b []byte) string {
	return strings.ToValidUTF8(strings.TrimSpace(string(b[:min(len(b), maxWATText)])), "")
}
