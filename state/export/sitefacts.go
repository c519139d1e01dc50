package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/atom"
	"golang.org/x/text/language"

	"drumbeat/internal/human"
	"drumbeat/internal/pagetext"
	"drumbeat/internal/response"
	"drumbeat/internal/sitemap"
	"drumbeat/parse"
	"drumbeat/state/sitereport"
	"drumbeat/weburl"
)

// Elements of the rows that tell the report of a site about a page, beside its links and its elementTitle.
const (
	elementIndex       = "index"       // rel: what search engines may do with it, as in SiteReport.Indexed
	elementDescription = "description" // text
	elementHeading     = "h1"          // text
	elementCanonical   = "canonical"   // to
	elementTranslation = "hreflang"    // to; rel: the code; text: URL of the sitemap that says so
	elementImage       = "image"       // to; text: the alternative text
	elementHeader      = "header"      // rel: a header for the security of browsers that it lacks
	elementFault       = "fault"       // rel: kind of finding, text: details
	elementSitemap     = "sitemap"     // to: an entry of the sitemap
)

// Bounds of what a page may tell. Further ones are ignored.
const (
	maxPageImages       = 2000
	maxPageTranslations = 250 // there are about 200 countries
	maxPageCanonicals   = 4   // the second one is a fault
	maxJSONLD           = 1 << 20
)

// Headers that switch on a protection of browsers.
const (
	headerHSTS     = "Strict-Transport-Security"
	headerCSP      = "Content-Security-Policy"
	headerSniff    = "X-Content-Type-Options"
	headerReferrer = "Referrer-Policy"
	headerFrames   = "X-Frame-Options"
)

// securityHeaders says what each header does.
var securityHeaders = map[string]string{
	headerHSTS:     "browsers then use https only",
	headerCSP:      "browsers then run scripts of the named sources only",
	headerSniff:    "with nosniff, browsers do not run files of other types as scripts",
	headerReferrer: "says how much of an address other sites learn",
	headerFrames:   "(or frame-ancestors in " + headerCSP + ") keeps other sites from showing the page in a frame",
}

// factFinder collects what the report of a site says of a page.
type factFinder struct {
	f    *linkFinder
	url  []byte
	base weburl.Parts // of url

	titles, headings, images, noAlt, mixed int
	firstNoAlt, firstMixed                 string
	heading                                []byte
	inHeading, inJSON                      bool
	svg                                    int // open elements svg
	description                            string
	hasDescription, policy                 bool
	canonicals                             []string
	translations                           int
	jsonFault                              string
	json                                   []byte
	cut                                    bool // the end of the page is missing
}

// facts sends the rows about one page. The extractor has parsed it.
func (f *linkFinder) facts(url []byte, kind string, resp *response.Response) {
	title := pageTitle(bytes.NewReader(f.body[:min(len(f.body), titleBytes)]), kind)
	f.row(url, nil, elementTitle, nil, []byte(title))
	p := &factFinder{f: f, url: url, base: weburl.Split(url), cut: f.job.cut}
	if _, err := pagetext.Walk(bytes.NewReader(f.body), kind, p.token); err != nil {
		p.cut = true // at a tag or text that is too long
	}
	p.judge(title, resp)
}

func (p *factFinder) fault(kind, detail string) {
	p.f.row(p.url, nil, elementFault, []byte(kind), []byte(detail))
}

// token reads a token of the page.
func (p *factFinder) token(t *pagetext.Token) error {
	if t.Text != nil {
		switch {
		case p.inJSON:
			p.json = append(p.json, t.Text[:min(len(t.Text), maxJSONLD+1-len(p.json))]...)
		case p.inHeading && t.Hidden == 0 && len(p.heading) < sitereport.MaxText:
			p.heading = append(append(p.heading, ' '), t.Text[:min(len(t.Text), 4*sitereport.MaxText)]...)
		}
		return nil
	}
	if t.End {
		p.end(t.Name)
		return nil
	}
	if t.Hidden == atom.Template {
		return nil
	}
	switch t.Name {
	case atom.Svg:
		p.svg++
	case atom.Title:
		if p.svg == 0 {
			p.titles++
		}
	case atom.H1:
		p.headings++
		p.inHeading = p.headings == 1
	case atom.Meta:
		p.meta(t)
	case atom.Link:
		p.link(t)
	case atom.Img:
		p.image(t)
	case atom.Script, atom.Iframe, atom.Video, atom.Audio, atom.Source, atom.Embed, atom.Object:
		p.part(t)
	}
	return nil
}

func (p *factFinder) end(name atom.Atom) {
	switch name {
	case atom.Svg:
		p.svg = max(0, p.svg-1)
	case atom.H1:
		p.inHeading = false
	case atom.Script:
		if p.inJSON && p.jsonFault == "" {
			p.jsonFault = jsonFault(p.json)
		}
		p.inJSON, p.json = false, p.json[:0]
	}
}

// attributes returns those of names, in their order; missing ones are nil.
func attributes(t *pagetext.Token, names ...string) [][]byte {
	values := make([][]byte, len(names))
	for name, value, ok := t.Attr(); ok; name, value, ok = t.Attr() {
		for i, n := range names {
			if values[i] == nil && string(name) == n {
				values[i] = append([]byte{}, value...)
			}
		}
	}
	return values
}

func (p *factFinder) meta(t *pagetext.Token) {
	a := attributes(t, "name", "content", "http-equiv")
	if bytes.EqualFold(a[0], []byte("description")) && !p.hasDescription {
		p.description, p.hasDescription = oneLine(a[1]), true
	}
	p.policy = p.policy || bytes.EqualFold(a[2], []byte(headerCSP))
}

func (p *factFinder) link(t *pagetext.Token) {
	a := attributes(t, "rel", "href", "hreflang")
	canonical, alternate, part := false, false, false
	for word := range bytes.FieldsSeq(bytes.ToLower(a[0])) {
		switch string(word) {
		case "canonical":
			canonical = true
		case "alternate":
			alternate = true
		case "stylesheet", "icon", "preload", "modulepreload":
			part = true
		}
	}
	switch {
	case canonical:
		p.canonical(p.resolve(a[1]))
	case part && !alternate:
		p.insecure(a[1])
	case alternate:
		p.translation(a[2], a[1])
	}
}

// translation takes a translation of the page.
func (p *factFinder) translation(code, ref []byte) {
	if len(code) == 0 || p.translations == maxPageTranslations {
		return
	}
	p.translations++
	p.f.translation(p.url, p.resolve(ref), code, nil)
}

// translation sends the rows about a translation of a page. to is nil if its URL is none.
func (f *linkFinder) translation(url, to, code, sitemap []byte) {
	code = bytes.TrimSpace(code[:min(len(code), sitereport.MaxText)])
	if !languageCode(string(code)) {
		f.row(url, sitemap, elementFault, []byte("hreflang-code"), code)
	}
	if to != nil {
		f.row(url, to, elementTranslation, code, sitemap)
	}
}

func (p *factFinder) canonical(to []byte) {
	if to != nil && len(p.canonicals) < maxPageCanonicals {
		p.canonicals = append(p.canonicals, string(to))
	}
}

func (p *factFinder) image(t *pagetext.Token) {
	a := attributes(t, "src", "alt", "role", "aria-hidden")
	if p.images++; p.images > maxPageImages {
		return
	}
	if a[1] == nil && string(a[2]) != "presentation" && string(a[3]) != "true" {
		if p.noAlt++; p.noAlt == 1 {
			p.firstNoAlt = string(a[0][:min(len(a[0]), sitereport.MaxText)])
		}
	}
	if len(bytes.TrimSpace(a[0])) == 0 {
		return
	}
	if to := p.resolve(a[0]); to != nil {
		p.f.row(p.url, to, elementImage, nil, []byte(oneLine(a[1])))
		p.count(to)
	}
}

func (p *factFinder) part(t *pagetext.Token) {
	a := attributes(t, "src", "data", "type")
	if t.Name == atom.Script && a[0] == nil {
		kind, _, _ := bytes.Cut(a[2], []byte{';'})
		p.inJSON = bytes.EqualFold(bytes.TrimSpace(kind), []byte("application/ld+json"))
		return
	}
	p.insecure(a[0])
	if t.Name == atom.Object {
		p.insecure(a[1])
	}
}

func (p *factFinder) resolve(ref []byte) []byte {
	if len(ref) == 0 || len(ref) > titleBytes {
		return nil
	}
	var counts parse.Counts
	return p.f.x.Resolve(ref, &counts)
}

func (p *factFinder) insecure(ref []byte) {
	if to := p.resolve(ref); to != nil {
		p.count(to)
	}
}

// count counts a part of the page if it makes the page insecure.
func (p *factFinder) count(to []byte) {
	if !bytes.HasPrefix(p.url, []byte("https:")) || !bytes.HasPrefix(to, []byte("http:")) {
		return
	}
	if p.mixed++; p.mixed == 1 {
		p.firstMixed = string(to)
	}
}

// judge sends what the page as a whole tells.
func (p *factFinder) judge(title string, resp *response.Response) {
	letters := utf8.RuneCountInString(title)
	switch {
	case letters > sitereport.TitleMost:
		p.fault("title-long", fmt.Sprintf("%d letters: %s", letters, title))
	case letters > 0 && letters < sitereport.TitleLeast:
		p.fault("title-short", title)
	}
	if p.titles > 1 {
		p.fault("title-several", human.Counted(p.titles, "title", "titles"))
	}
	switch letters := utf8.RuneCountInString(p.description); {
	case letters == 0:
		if !p.cut {
			p.fault("description-missing", "")
		}
	case letters > sitereport.DescriptionMost:
		p.fault("description-long", fmt.Sprintf("%d letters", letters))
	case letters < sitereport.DescriptionLeast:
		p.fault("description-short", p.description)
	}
	if p.description != "" {
		p.f.row(p.url, nil, elementDescription, nil, []byte(p.description))
	}
	heading := oneLine(p.heading)
	switch {
	case p.headings == 0 || heading == "" && p.headings == 1:
		if !p.cut {
			p.fault("h1-missing", "")
		}
	case p.headings > 1:
		p.fault("h1-several", human.Counted(p.headings, "main heading", "main headings"))
	}
	if letters := utf8.RuneCountInString(heading); letters > sitereport.HeadingMost {
		p.fault("h1-long", heading)
	}
	if heading != "" {
		p.f.row(p.url, nil, elementHeading, nil, []byte(heading))
	}
	if p.noAlt > 0 {
		p.fault("alt-missing", withFirst(human.Counted(p.noAlt, "image", "images"), p.firstNoAlt))
	}
	if p.mixed > 0 {
		p.fault("mixed-content", withFirst(human.Counted(p.mixed, "part", "parts"), p.firstMixed))
	}
	if p.jsonFault != "" {
		p.fault("jsonld-broken", p.jsonFault)
	}
	p.headers(resp)
}

func withFirst(count, first string) string {
	if first == "" {
		return count
	}
	return count + "; the first: " + first
}

// headers judges the header of the response, and what it says together with the page.
func (p *factFinder) headers(resp *response.Response) {
	index, x := sitereport.Indexable, p.f.x
	noIndex := x.Page().Robots.NoIndex
	// References in headers are relative to the URL of the response (RFC 8288, 3.2).
	if x.At(p.url) == nil {
		for _, value := range resp.Fields("Link") {
			parse.EachLink([]byte(value), func(l parse.HeaderLink) {
				if l.Rel&parse.RelCanonical != 0 {
					p.canonical(p.resolve(l.Target))
				}
				if l.Rel&parse.RelAlternate != 0 {
					p.translation(l.HrefLang, l.Target)
				}
			})
		}
	}
	for _, to := range p.canonicals {
		if to != p.canonicals[0] {
			p.fault("canonical-several", strings.Join(p.canonicals, ", "))
			break
		}
	}
	if len(p.canonicals) > 0 {
		to := []byte(p.canonicals[0])
		p.f.row(p.url, to, elementCanonical, nil, nil)
		if !bytes.Equal(to, p.url) {
			index = sitereport.CanonicalOther
		}
		if host := weburl.Split(to).Host; !bytes.Equal(host, p.base.Host) {
			p.fault("canonical-host", "the page says: "+p.canonicals[0])
		}
	}
	var tag parse.Robots
	for _, value := range resp.Fields("X-Robots-Tag") {
		tag.Add(parse.ParseRobotsTag([]byte(value), ""))
	}
	switch {
	case noIndex:
		index = sitereport.NoIndexMeta
		p.fault("noindex", "by a robots meta on the page")
	case tag.NoIndex:
		index = sitereport.NoIndexHeader
		p.fault("noindex", "by the header X-Robots-Tag of the server")
	}
	p.f.row(p.url, nil, elementIndex, []byte(index), nil)
	p.security(resp)
}

// security sends the headers for the security of browsers that the page lacks.
func (p *factFinder) security(resp *response.Response) {
	has := func(header string) bool { return len(resp.Fields(header)) > 0 }
	lacks := func(header string) { p.f.row(p.url, nil, elementHeader, []byte(header), nil) }
	if bytes.HasPrefix(p.url, []byte("https:")) && !has(headerHSTS) {
		lacks(headerHSTS)
	}
	if !has(headerCSP) && !p.policy {
		lacks(headerCSP)
	}
	if !strings.EqualFold(strings.Join(resp.Fields(headerSniff), ","), "nosniff") {
		lacks(headerSniff)
	}
	if !has(headerReferrer) {
		lacks(headerReferrer)
	}
	if !has(headerFrames) &&
		!strings.Contains(strings.ToLower(strings.Join(resp.Fields(headerCSP), ",")), "frame-ancestors") {
		lacks(headerFrames)
	}
}

// oneLine returns a text of a page with single spaces, cut at MaxText.
func oneLine(text []byte) string {
	text = text[:min(len(text), 4*sitereport.MaxText)]
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "")), " ")
	for i := range s {
		if i >= sitereport.MaxText {
			return s[:i]
		}
	}
	return s
}

// jsonFault says what is wrong with a text as JSON; "" for nothing, and for a text that is too long to tell.
func jsonFault(text []byte) string {
	if len(text) > maxJSONLD {
		return ""
	}
	var raw json.RawMessage
	err := json.Unmarshal(text, &raw)
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return ""
	case len(bytes.TrimSpace(text)) == 0:
		return "it is empty"
	case errors.As(err, &syntax):
		at := min(int(syntax.Offset), len(text))
		line := 1 + bytes.Count(text[:at], []byte{'\n'})
		return fmt.Sprintf("line %d, near %q", line, oneLine(text[max(0, at-20):min(len(text), at+10)]))
	}
	return "its syntax is wrong"
}

// languageCode reports whether search engines know a code of hreflang: x-default, a language of ISO 639-1, and with it
// perhaps a script of ISO 15924 and a country of ISO 3166-1.
func languageCode(code string) bool {
	if strings.EqualFold(code, "x-default") {
		return true
	}
	parts := strings.Split(code, "-")
	if len(parts[0]) != 2 || len(parts) > 3 {
		return false
	}
	if _, err := language.ParseBase(parts[0]); err != nil {
		return false
	}
	for _, part := range parts[1:] {
		if len(part) == 4 {
			if _, err := language.ParseScript(part); err != nil {
				return false
			}
			continue
		}
		// Package language takes UK for GB; search engines do not.
		region, err := language.ParseRegion(part)
		if err != nil || len(part) != 2 || !region.IsCountry() || strings.EqualFold(part, "uk") {
			return false
		}
	}
	return true
}

// sitemapRows sends the entries of a body if it is a sitemap.
func (f *linkFinder) sitemapRows(kind string) {
	if form := sitemap.Sniff(f.body); form != sitemap.URLSet && form != sitemap.Packed || len(f.job.urls) == 0 {
		return
	}
	var counts parse.Counts
	url := []byte(f.job.urls[0])
	if f.x.At(url) != nil {
		return
	}
	// An error leaves what was read before it: the crawl itself says that a sitemap is damaged.
	opt := sitemap.Options{ContentType: kind, Translations: maxPageTranslations}
	_, _ = sitemap.Read(f.body, opt, func(e sitemap.Entry) error {
		if e.Form != sitemap.URLSet {
			return nil
		}
		page := bytes.Clone(f.x.Resolve(e.URL, &counts))
		if page == nil {
			return nil
		}
		f.row(url, page, elementSitemap, nil, nil)
		for _, t := range e.Translations {
			f.translation(page, f.x.Resolve(t.URL, &counts), t.Code, url)
		}
		return nil
	})
}
