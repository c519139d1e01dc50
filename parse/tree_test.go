package parse

import (
	"bytes"
	"fmt"
	"strings"

	"golang.org/x/net/html"
)

// Reference is Parse on top of golang.org/x/net/html's parser with scripting off, for comparison and
// explanation. It builds a tree, which is expensive for hostile pages, and rejects pages nested deeper than
// 512 elements. Links that the tree contains several times, because HTML closes and reopens elements, are
// repeated. The order is the tree's.
func Reference(opt Options, body []byte, contentType string) (*Page, error) {
	opt = opt.withDefaults()
	page := new(Page)
	var c charsets
	var d decoder
	text, certain := c.prepare(body, contentType, page, &d)
	root, err := buildTree(text, &d)
	if err != nil {
		return nil, err
	}
	if !certain {
		if name := lateCharset(root, &c); name != "" && name != page.Charset {
			if root, err = buildTree(c.use(name, body, page, &d), &d); err != nil {
				return nil, err
			}
		}
	}
	r := reference{opt: opt, page: page, css: &Parser{opt: opt, page: page}}
	for node := range root.Descendants() {
		if node.Type == html.ElementNode {
			r.element(node)
		}
	}
	return page, nil
}

func buildTree(text []byte, d *decoder) (*html.Node, error) {
	if d.charset != nil {
		text, _ = d.charset.Bytes(text)
	}
	root, err := html.ParseWithOptions(bytes.NewReader(text), html.ParseOptionEnableScripting(false))
	if err != nil {
		return nil, fmt.Errorf("parse: build tree of %d bytes: %w", len(text), err)
	}
	return root, nil
}

// lateCharset returns the encoding named by the first meta that names one, or "".
func lateCharset(root *html.Node, c *charsets) string {
	for n := range root.Descendants() {
		if n.Type != html.ElementNode || n.Namespace != "" || n.Data != "meta" {
			continue
		}
		var values [3][]byte
		for i, key := range [...]string{"charset", "http-equiv", "content"} {
			if v, ok := attribute(n, "", key); ok {
				values[i] = []byte(v)
			}
		}
		if name := c.metaCharset(values[0], values[1], values[2]); name != "" {
			return name
		}
	}
	return ""
}

type reference struct {
	opt  Options
	page *Page
	base bool
	css  *Parser // finds the links in style sheets
}

func (r *reference) element(n *html.Node) {
	if r.opt.Assets {
		r.assets(n)
	}
	href, hasHref := attribute(n, "", "href")
	if n.Namespace != "" {
		if xlink, ok := attribute(n, "xlink", "href"); ok && !hasHref {
			href, hasHref = xlink, true
		}
		if n.Data == "a" && hasHref {
			r.add(A, href, n)
		}
		return
	}
	switch n.Data {
	case "a", "area":
		if hasHref {
			r.add(map[string]Tag{"a": A, "area": Area}[n.Data], href, n)
		}
	case "frame", "iframe":
		if src, ok := attribute(n, "", "src"); ok && src != "" && !r.opt.NoFrames {
			r.add(map[string]Tag{"frame": Frame, "iframe": IFrame}[n.Data], src, n)
		}
	case "link":
		rel, ok := attribute(n, "", "rel")
		types, _ := parseRel([]byte(rel))
		if asset := r.opt.Assets && isAssetRel([]byte(rel)); ok && href != "" && (types&r.opt.Rels != 0 || asset) {
			r.add(LinkTag, href, n)
			r.page.Links[len(r.page.Links)-1].Asset = asset
		}
		if types&RelCanonical != 0 && r.page.Canonical == nil && href != "" {
			r.page.Canonical = []byte(href)
		}
	case "base":
		if hasHref && !r.base {
			r.base, r.page.Base = true, []byte(href)
		}
	case "meta":
		r.meta(n)
	case "form":
		action, _ := attribute(n, "", "action")
		method, _ := attribute(n, "", "method")
		if r.opt.Forms && action != "" && !strings.EqualFold(method, "post") && !strings.EqualFold(method, "dialog") {
			r.add(Form, action, n)
		}
	}
}

// assetsOf lists the HTML elements that name parts of the page, and their attributes. A srcset names several.
var assetsOf = map[string]struct {
	tag   Tag
	attrs []string
}{
	"img":    {Img, []string{"src", "srcset"}},
	"source": {Source, []string{"src", "srcset"}},
	"video":  {Video, []string{"src", "poster"}},
	"audio":  {Audio, []string{"src"}},
	"track":  {Track, []string{"src"}},
	"embed":  {Embed, []string{"src"}},
	"object": {Object, []string{"data"}},
	"script": {Script, []string{"src"}},
	"input":  {Input, []string{"src"}},
	"link":   {LinkTag, []string{"imagesrcset"}},
	"body":   {Background, []string{"background"}},
	"table":  {Background, []string{"background"}},
	"td":     {Background, []string{"background"}},
	"th":     {Background, []string{"background"}},
	"tr":     {Background, []string{"background"}},
	"tbody":  {Background, []string{"background"}},
	"thead":  {Background, []string{"background"}},
	"tfoot":  {Background, []string{"background"}},
}

func (r *reference) assets(n *html.Node) {
	if style, ok := attribute(n, "", "style"); ok {
		r.css.cssText([]byte(style))
	}
	if n.Data == "style" {
		var text []byte
		for c := n.FirstChild; c != nil && c.Type == html.TextNode; c = c.NextSibling {
			text = append(text, c.Data...)
		}
		r.css.cssText(text)
	}
	if n.Namespace != "" {
		href, ok := attribute(n, "", "href")
		if !ok {
			href, _ = attribute(n, "xlink", "href")
		}
		tag, ok := map[string]Tag{"image": Image, "feImage": Image, "use": Use, "script": Script}[n.Data]
		if ok && href != "" {
			r.css.keepAsset(tag, []byte(href))
		}
		return
	}
	kind, _ := attribute(n, "", "type")
	rel, _ := attribute(n, "", "rel")
	if n.Data == "input" && !strings.EqualFold(kind, "image") || n.Data == "link" && !isAssetRel([]byte(rel)) {
		return
	}
	of := assetsOf[n.Data]
	for _, key := range of.attrs {
		value, _ := attribute(n, "", key)
		tag := of.tag
		if key == "srcset" || key == "poster" { // also of <source> and <video>
			tag = Img
		}
		if strings.HasSuffix(key, "srcset") {
			eachSrcset([]byte(value), func(ref []byte) { r.css.keepAsset(tag, bytes.Clone(ref)) })
		} else if value != "" {
			r.css.keepAsset(tag, []byte(value))
		}
	}
}

func (r *reference) meta(n *html.Node) {
	content, ok := attribute(n, "", "content")
	if !ok {
		return
	}
	if equiv, _ := attribute(n, "", "http-equiv"); isFold([]byte(equiv), "refresh") {
		if url := parseRefresh([]byte(content)); url != nil {
			r.add(Meta, string(url), nil)
		}
	}
	name, _ := attribute(n, "", "name")
	if isFold([]byte(name), "robots") || r.opt.Agent != "" && strings.EqualFold(name, r.opt.Agent) {
		r.page.Robots.Add(ParseRobots([]byte(content)))
	}
}

func (r *reference) add(tag Tag, ref string, n *html.Node) {
	link := Link{Ref: []byte(ref), Tag: tag}
	if n != nil && tag != Frame && tag != IFrame {
		rel, _ := attribute(n, "", "rel")
		link.Rel, link.NoFollow = parseRel([]byte(rel))
	}
	r.page.Links = append(r.page.Links, link)
}

// attribute returns the value of an attribute.
func attribute(n *html.Node, namespace, key string) (string, bool) {
	for _, a := range n.Attr {
		if a.Namespace == namespace && a.Key == key {
			return a.Val, true
		}
	}
	return "", false
}
