package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/nlnwa/whatwg-url/url"
	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
)

// maxURLBytes is drumbeat's limit of a URL's length.
const maxURLBytes = 2083

// document is the part of a page that the walk needs, independent of the host.
type document struct {
	base     string // the first <base href>
	hasBase  bool
	nofollow bool           // a robots meta says that no link is to be followed
	refs     map[string]int // references without fragment, and how often each stands there
	skips    []string       // references of links with rel=nofollow
}

// readDocument parses a page with a full HTML parser, scripting off.
func readDocument(body []byte, contentType string) (*document, error) {
	text, err := charset.NewReader(bytes.NewReader(body), contentType)
	if err != nil {
		return nil, fmt.Errorf("realweb: decode page: %w", err)
	}
	whole, err := io.ReadAll(text)
	if err != nil {
		return nil, fmt.Errorf("realweb: decode page: %w", err)
	}
	root, err := html.ParseWithOptions(bytes.NewReader(whole), html.ParseOptionEnableScripting(false))
	if err != nil {
		return nil, fmt.Errorf("realweb: parse page: %w", err)
	}
	d := &document{refs: map[string]int{}}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			d.element(n)
		}
	}
	return d, nil
}

// element adds the links of one element.
func (d *document) element(n *html.Node) {
	attrs := map[string]string{}
	for _, a := range n.Attr {
		key := a.Key
		if a.Namespace != "" {
			key = a.Namespace + ":" + a.Key
		}
		if _, twice := attrs[key]; !twice {
			attrs[key] = a.Val
		}
	}
	rel := map[string]bool{}
	for _, word := range strings.Fields(strings.ToLower(attrs["rel"])) {
		rel[word] = true
	}
	if n.Namespace != "" {
		href, ok := attrs["href"]
		if !ok {
			href, ok = attrs["xlink:href"]
		}
		if n.Data == "a" && ok {
			d.add(href, rel["nofollow"])
		}
		return
	}
	switch n.Data {
	case "a", "area":
		if href, ok := attrs["href"]; ok {
			d.add(href, rel["nofollow"])
		}
	case "frame", "iframe":
		if attrs["src"] != "" {
			d.add(attrs["src"], false)
		}
	case "link":
		if attrs["href"] != "" && (rel["next"] || rel["prev"] || rel["canonical"]) {
			d.add(attrs["href"], rel["nofollow"])
		}
	case "base":
		if href, ok := attrs["href"]; ok && !d.hasBase {
			d.base, d.hasBase = href, true
		}
	case "meta":
		d.meta(attrs)
	}
}

func (d *document) meta(attrs map[string]string) {
	if strings.EqualFold(attrs["http-equiv"], "refresh") {
		if to, ok := refreshTarget(attrs["content"]); ok {
			d.add(to, false)
		}
	}
	if strings.EqualFold(attrs["name"], "robots") {
		for _, word := range strings.Split(strings.ToLower(attrs["content"]), ",") {
			if word = strings.TrimSpace(word); word == "nofollow" || word == "none" {
				d.nofollow = true
			}
		}
	}
}

// add counts a reference without its fragment, which does not affect the URL: pages of documentation link to
// hundreds of fragments of one page.
func (d *document) add(ref string, nofollow bool) {
	ref, _, _ = strings.Cut(ref, "#")
	if nofollow {
		d.skips = append(d.skips, ref)
		return
	}
	d.refs[ref]++
}

// refreshTarget reads the content of a refresh, by the steps of the HTML standard ("shared declarative
// refresh").
func refreshTarget(content string) (string, bool) {
	const blanks = " \t\n\f\r"
	s := strings.TrimLeft(content, blanks)
	digits := strings.TrimLeft(s, "0123456789")
	if len(digits) == len(s) && !strings.HasPrefix(s, ".") {
		return "", false
	}
	s = strings.TrimLeft(digits, "0123456789.")
	if s == "" || !strings.Contains(";,"+blanks, s[:1]) {
		return "", false
	}
	s = strings.TrimLeft(s, blanks)
	if s != "" && (s[0] == ';' || s[0] == ',') {
		s = strings.TrimLeft(s[1:], blanks)
	}
	if s == "" {
		return "", false
	}
	if len(s) >= 3 && strings.EqualFold(s[:3], "url") {
		if t := strings.TrimLeft(s[3:], blanks); strings.HasPrefix(t, "=") {
			s = strings.TrimLeft(t[1:], blanks)
		}
	}
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		s, _, _ = strings.Cut(s[1:], s[:1])
	}
	return s, true
}

// newURLParser returns a parser of the current URL standard, which escapes '^' in a path; the library's last
// release does not.
func newURLParser() url.Parser {
	return url.NewParser(url.WithPathPercentEncodeSet(url.PathPercentEncodeSet.Set('^')))
}

// resolve returns the canonical URL of a reference, or the class of a reference without one.
func resolve(base *url.Url, ref string) (string, class) {
	u, err := base.Parse(ref)
	if err != nil {
		return "", notURL
	}
	if s := u.Scheme(); s != "http" && s != "https" {
		return "", otherScheme
	}
	u.SetUsername("")
	u.SetPassword("")
	href := u.Href(true)
	if len(href) > maxURLBytes {
		return "", tooLong
	}
	return href, ""
}
