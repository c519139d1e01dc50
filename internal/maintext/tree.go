package maintext

import (
	"bytes"
	"strconv"

	"golang.org/x/net/html/atom"

	"drumbeat/internal/pagetext"
)

// Bounds of a tree: elements and texts, and how deep elements nest. What is nested deeper is text and line
// breaks of the deepest element. A page of 1 MiB has some 30,000 nodes; 2^19 take 20 MiB.
const (
	maxNodes = 1 << 19
	maxDepth = 256
)

// node is an element or a text. Nodes are in the order of the page; the descendants of node i are those from i+1 to
// before end.
type node struct {
	parent, end int32
	from, to    int32 // of a text: its place in tree.text
	attrs       int32 // of an element: its index in tree.attrs; 0: none
	name        atom.Atom
	kind        uint32 // a hash of its name and class
	marks       marks
}

// attrs are attributes of an element.
type attrs struct {
	link string // href of <a>, src of <img>
	text string // alt of <img>, the class of <code> and <pre>
	// Of a cell of a table: how many more columns and rows it takes, up to maxColumns.
	columns, rows int
}

// tree is the elements and texts of a page. Node 0 is its root.
type tree struct {
	nodes []node
	attrs []attrs
	text  []byte // of all text nodes
	full  bool   // the page has more than maxNodes

	broken bool // the last tag begins or ends a line
	stack  []open
	pre    int         // open <pre>
	counts [256]uint16 // of the open elements, by a hash of the name
	word   []byte      // of nameMarks
}

// open is an open element.
type open struct {
	node int32
	name atom.Atom
	is   traits
}

func newTree() *tree {
	return &tree{nodes: make([]node, 1, 1024), attrs: make([]attrs, 1), stack: make([]open, 1, maxDepth)}
}

// countOf returns the number of open elements with a name, and of a few others.
func (t *tree) countOf(name atom.Atom) *uint16 { return &t.counts[uint32(name)*0x9E3779B1>>24] }

// add appends a node to the innermost open element, unless there are too many.
func (t *tree) add(n node) bool {
	if len(t.nodes) == maxNodes {
		t.full = true
		return false
	}
	n.parent, n.end = t.stack[len(t.stack)-1].node, int32(len(t.nodes)+1)
	t.nodes = append(t.nodes, n)
	return true
}

// addText appends a text. White space counts only within a line, and in <pre>.
func (t *tree) addText(text []byte) {
	if t.broken && t.pre == 0 && len(bytes.TrimSpace(text)) == 0 {
		return
	}
	t.broken = false
	from := len(t.text)
	if t.add(node{from: int32(from), to: int32(from + len(text))}) {
		t.text = append(t.text, text...)
	}
}

// push opens an element.
func (t *tree) push(n node, is traits) {
	if !t.add(n) {
		return
	}
	t.stack = append(t.stack, open{int32(len(t.nodes) - 1), n.name, is})
	*t.countOf(n.name)++
	if n.name == atom.Pre {
		t.pre++
	}
}

// pop closes the elements from stack[n] on.
func (t *tree) pop(n int) {
	for _, o := range t.stack[n:] {
		t.nodes[o.node].end = int32(len(t.nodes))
		*t.countOf(o.name)--
		if o.name == atom.A {
			t.dropAnchor(o.node)
		}
		if o.name == atom.Pre {
			t.pre--
		}
	}
	t.stack = t.stack[:n]
}

// anchorSigns are texts of links that generators of documentation append to headings for readers who copy the address.
var anchorSigns = map[string]bool{"#": true, "¶": true, "§": true, "🔗": true, "\uf0c1": true}

// dropAnchor takes the text out of a link that is only the sign of an address in the page.
func (t *tree) dropAnchor(i int32) {
	a := t.nodes[i].attrs
	if a == 0 || t.attrs[a].link == "" || t.attrs[a].link[0] != '#' || t.nodes[i].end != i+2 {
		return
	}
	if n := &t.nodes[i+1]; n.to-n.from <= maxAnchorSign && anchorSigns[string(bytes.TrimSpace(t.text[n.from:n.to]))] {
		t.text, n.to = t.text[:n.from], n.from
	}
}

// maxAnchorSign bounds the sign of an address and the white space around it, in bytes.
const maxAnchorSign = 8

// traits are what a name says about an element.
type traits uint8

const (
	breaksLines traits = 1 << iota
	isVoid             // it has no content
	ofTable            // end tags of elements that are not do not close it
	isButton
)

// kind is what the tree knows of the elements with a name.
type kind struct {
	is    traits
	marks marks
	// The start tag closes the innermost open element of closes, unless one of within is nearer.
	closes, within [3]atom.Atom
}

// kinds are those of the names that have any.
var kinds = func() map[atom.Atom]*kind {
	all := map[atom.Atom]*kind{}
	of := func(name atom.Atom) *kind {
		if all[name] == nil {
			all[name] = &kind{}
		}
		return all[name]
	}
	for name := range pagetext.Blocks() {
		of(name).is |= breaksLines
	}
	for _, name := range []atom.Atom{atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Img, atom.Input,
		atom.Link, atom.Meta, atom.Param, atom.Source, atom.Track, atom.Wbr} {
		of(name).is |= isVoid
	}
	for _, name := range []atom.Atom{atom.Table, atom.Tr, atom.Td, atom.Th, atom.Tbody, atom.Thead, atom.Tfoot,
		atom.Caption} {
		of(name).is |= ofTable
	}
	of(atom.Button).is |= isButton
	for name, m := range elementMarks {
		of(name).marks = m
	}
	for _, rule := range []struct{ names, closes, within [3]atom.Atom }{
		{[3]atom.Atom{atom.Li}, [3]atom.Atom{atom.Li}, [3]atom.Atom{atom.Ul, atom.Ol, atom.Menu}},
		{[3]atom.Atom{atom.Dt, atom.Dd}, [3]atom.Atom{atom.Dt, atom.Dd}, [3]atom.Atom{atom.Dl}},
		{[3]atom.Atom{atom.Td, atom.Th}, [3]atom.Atom{atom.Td, atom.Th}, [3]atom.Atom{atom.Tr, atom.Table}},
		{[3]atom.Atom{atom.Tr}, [3]atom.Atom{atom.Tr}, [3]atom.Atom{atom.Table}},
		{[3]atom.Atom{atom.Tbody, atom.Thead, atom.Tfoot}, [3]atom.Atom{atom.Tbody, atom.Thead, atom.Tfoot},
			[3]atom.Atom{atom.Table}},
		{[3]atom.Atom{atom.Option}, [3]atom.Atom{atom.Option}, [3]atom.Atom{atom.Select}},
		{[3]atom.Atom{atom.Optgroup}, [3]atom.Atom{atom.Option, atom.Optgroup}, [3]atom.Atom{atom.Select}},
	} {
		for _, name := range rule.names {
			if name != 0 {
				of(name).closes, of(name).within = rule.closes, rule.within
			}
		}
	}
	return all
}()

// plain is the kind of the other names.
var plain = &kind{}

func kindOf(name atom.Atom) *kind {
	if k := kinds[name]; k != nil {
		return k
	}
	return plain
}

// start takes a start tag. Elements that HTML does not have are as if their tags were not there.
func (t *tree) start(tag *pagetext.Token) {
	name, broken := tag.Name, t.broken
	if name == 0 {
		return
	}
	k := kindOf(name)
	t.broken = k.is&breaksLines != 0
	if len(t.stack) == maxDepth && k.is&isVoid == 0 {
		if t.broken && !broken {
			t.add(node{name: atom.Br})
		}
		return
	}
	if t.broken && name != atom.Br {
		t.close([3]atom.Atom{atom.P}, [3]atom.Atom{}, breaksLines|ofTable|isButton)
	}
	if k.closes[0] != 0 {
		t.close(k.closes, k.within, 0)
	}
	if name == atom.A {
		t.end(atom.A)
	}
	n := node{name: name, marks: k.marks}
	t.read(tag, &n)
	if k.is&isVoid != 0 {
		t.add(n)
	} else {
		t.push(n, k.is)
	}
}

// close closes the innermost open element of some names and what it contains, unless an element of others or with a
// trait is nearer.
func (t *tree) close(names, within [3]atom.Atom, hiding traits) {
	if *t.countOf(names[0]) == 0 && *t.countOf(names[1]) == 0 && *t.countOf(names[2]) == 0 {
		return
	}
	for n := len(t.stack) - 1; n > 0; n-- {
		o := &t.stack[n]
		switch a := o.name; {
		case a == names[0] || a == names[1] || a == names[2]:
			t.pop(n)
			return
		case o.is&hiding != 0 || a == within[0] || a == within[1] || a == within[2]:
			return
		}
	}
}

// end takes an end tag. It does not close elements around the table cell in which it is, and the end of an element
// within a line does not close one that breaks lines.
func (t *tree) end(name atom.Atom) {
	if name == 0 || *t.countOf(name) == 0 {
		return
	}
	is, hiding := kindOf(name).is, ofTable
	switch {
	case is&ofTable != 0:
		hiding = 0
	case is&(breaksLines|isButton) == 0 && name != atom.A:
		hiding |= breaksLines
	}
	t.close([3]atom.Atom{name}, [3]atom.Atom{}, hiding)
}

// read reads the attributes of a start tag.
func (t *tree) read(tag *pagetext.Token, n *node) {
	n.kind = uint32(n.name) * 0x9E3779B1
	var a attrs
	for {
		name, value, ok := tag.Attr()
		if !ok {
			break
		}
		short := value[:min(len(value), maxNames)]
		switch string(name) {
		case "id":
			n.marks |= t.nameMarks(short)
		case "class":
			n.marks |= t.nameMarks(short)
			for _, c := range short {
				n.kind = (n.kind ^ uint32(c)) * 0x01000193
			}
			if n.name == atom.Code || n.name == atom.Pre {
				a.text = oneLine(short)
			}
		case "role":
			n.marks |= roleMarks[string(bytes.ToLower(bytes.TrimSpace(short)))]
		case "style":
			if bytes.Contains(short, []byte("display:none")) || bytes.Contains(short, []byte("display: none")) {
				n.marks |= markUnseen
			}
		case "aria-modal":
			n.marks |= markPopup
		case "href":
			if n.name == atom.A {
				a.link = oneLine(value)
			}
		case "src":
			if n.name == atom.Img {
				a.link = oneLine(value)
			}
		case "colspan", "rowspan":
			if n.name == atom.Td || n.name == atom.Th {
				more, _ := strconv.Atoi(string(bytes.TrimSpace(short))) // an error is no span, as in browsers
				if more = min(max(more-1, 0), maxColumns); string(name) == "colspan" {
					a.columns = more
				} else {
					a.rows = more
				}
			}
		case "alt":
			if n.name == atom.Img {
				a.text = oneLine(value)
			}
		}
	}
	if n.name == atom.Body { // its classes are about the whole site
		n.marks = 0
	}
	if a != (attrs{}) {
		n.attrs = int32(len(t.attrs))
		t.attrs = append(t.attrs, a)
	}
}
