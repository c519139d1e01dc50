package maintext

import (
	"bytes"

	"golang.org/x/net/html/atom"

	"drumbeat/internal/pagetext"
)

// marks tells whether a page's current place is in an element that is boilerplate by its name, role, id or class.
// It follows the outermost such element: the name, and how many of that name are open. So its memory is constant,
// and the wrong nesting of other elements does not matter.
type marks struct {
	name  atom.Atom // of the outermost; 0: none
	depth int
}

// within tells whether the place is in such an element.
func (m *marks) within() bool { return m.name != 0 }

// tag takes a visible tag. It tells whether it changes the answer of within, so that a block ends there.
func (m *marks) tag(t *pagetext.Token) (changes bool) {
	switch {
	case m.name == 0:
		if t.End || !isMark(t) {
			return false
		}
		m.name, m.depth = t.Name, 1
		return true
	case t.Name == atom.Main && !t.End, t.Name == atom.Body && t.End:
		m.name = 0 // whatever was left open
		return true
	case t.Name != m.name:
		return false
	case !t.End:
		m.depth++
		return false
	}
	if m.depth--; m.depth == 0 {
		m.name = 0
		return true
	}
	return false
}

// boilerplate are the elements without main text.
var boilerplate = map[atom.Atom]bool{atom.Nav: true, atom.Footer: true, atom.Aside: true, atom.Dialog: true,
	atom.Button: true, atom.Select: true, atom.Textarea: true, atom.Menu: true, atom.Datalist: true}

// containers are the elements whose role, id or class is asked: those that have an end tag in all pages.
var containers = map[atom.Atom]bool{atom.Div: true, atom.Section: true, atom.Ul: true, atom.Ol: true, atom.Header: true,
	atom.Form: true, atom.Table: true}

// roles are the landmarks of WAI-ARIA without main text.
var roles = map[string]bool{"navigation": true, "contentinfo": true, "complementary": true, "dialog": true,
	"alertdialog": true, "search": true, "menu": true, "menubar": true, "banner": true}

// names are words in an id or a class that name boilerplate. A word is what stands between '-', '_' and spaces.
var names = map[string]bool{"nav": true, "navbar": true, "navigation": true, "menu": true, "footer": true,
	"sidebar": true, "breadcrumb": true, "breadcrumbs": true, "cookie": true, "cookies": true, "consent": true,
	"gdpr": true, "cookiebanner": true, "advert": true, "advertisement": true, "ads": true, "newsletter": true,
	"pagination": true, "pager": true}

// maxNames bounds how much of an id or a class is read, in bytes.
const maxNames = 512

// isMark tells whether a start tag begins boilerplate.
func isMark(t *pagetext.Token) bool {
	if boilerplate[t.Name] {
		return true
	}
	if !containers[t.Name] {
		return false
	}
	for {
		name, value, ok := t.Attr()
		if !ok {
			return false
		}
		switch string(name) {
		case "role":
			if roles[string(bytes.ToLower(bytes.TrimSpace(value[:min(len(value), maxNames)])))] {
				return true
			}
		case "id", "class":
			words := bytes.ToLower(value[:min(len(value), maxNames)])
			for word := range bytes.FieldsFuncSeq(words,
				func(r rune) bool { return r == '-' || r == '_' || r == ' ' || r == '\n' || r == '\t' }) {
				if names[string(word)] {
					return true
				}
			}
		}
	}
}
