package sitemap

import "bytes"

// feed is what RSS and Atom need beyond sitemaps: the base of relative references, and an item's permanent link.
type feed struct {
	bases     []base
	refs      [][]byte // of bases, for Entry
	linked    bool     // the item has a link
	permanent bool     // the guid is the permanent link of the item, as far as its tag says
	guid      []byte   // of the item, if that is a URL
}

// base is an xml:base, which applies to an element and what it contains.
type base struct {
	depth int // of the element
	ref   []byte
}

// open takes the start tag of an element.
func (f *feed) open(s *scanner, el element) {
	if s.r.sum.Form != RSS && s.r.sum.Form != Atom {
		return
	}
	switch el {
	case elItem:
		f.linked, f.guid = false, f.guid[:0]
	case elGUID:
		value, has := attribute(s.tag, "isPermaLink")
		f.permanent = !has || !bytes.EqualFold(bytes.TrimSpace(value), []byte("false"))
	}
	if value, ok := attribute(s.tag, "xml:base"); ok {
		ref, good := unescape(bytes.Clone(bytes.TrimSpace(value)))
		if good && len(ref) <= MaxLoc {
			f.bases, f.refs = append(f.bases, base{s.depth, ref}), append(f.refs, ref)
		}
	}
}

// leave ends an element at a depth.
func (f *feed) leave(depth int) {
	for n := len(f.bases); n > 0 && f.bases[n-1].depth >= depth; n-- {
		f.bases, f.refs = f.bases[:n-1], f.refs[:n-1]
	}
}

// hold keeps the guid of an item until its end. One that is no URL is a name, whatever its tag says.
func (f *feed) hold(text []byte, ok bool) {
	if ok && len(f.guid) == 0 && isURL(text) {
		f.guid = append(f.guid, text...)
	}
}

// endItem takes the permanent link of an item without a link (RSS 2.0, guid): isPermaLink is true unless it is said
// to be false.
func (f *feed) endItem(r *reader) error {
	if f.linked || len(f.guid) == 0 {
		return nil
	}
	return r.take(f.guid, true)
}

// atomLink takes the URL of an alternate link of an entry.
func (s *scanner) atomLink() error {
	rel, _ := attribute(s.tag, "rel")
	if len(rel) > 0 && string(rel) != "alternate" {
		return nil
	}
	href, ok := attribute(s.tag, "href")
	if !ok {
		return nil
	}
	url, good := unescape(bytes.TrimSpace(href))
	return s.r.take(url, good && len(url) > 0 && len(url) <= MaxLoc)
}
