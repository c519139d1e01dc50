package maintext

import (
	"bytes"

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
}

// tree is the elements and texts of a page. Node 0 is its root.
type tree struct {
	nodes []node
	attrs []attrs
	text  []byte // of all text nodes
	full  bool   // the page has more than maxNodes

	broken bool              // the last tag begins or ends a line
	stack  []int32           // the open elements
	open   map[atom.Atom]int // how many of them have a name
	word   []byte            // of nameMarks
}

func newTree() *tree {
	return &tree{nodes: make([]node, 1, 4096), attrs: make([]attrs, 1), stack: []int32{0}, open: map[atom.Atom]int{}}
}

// add appends a node to the innermost open element, unless there are too many.
func (t *tree) add(n node) bool {
	if len(t.nodes) == maxNodes {
		t.full = true
		return false
	}
	n.parent, n.end = t.stack[len(t.stack)-1], int32(len(t.nodes)+1)
	t.nodes = append(t.nodes, n)
	return true
}

// addText appends a text. White space counts only within a line, and in <pre>.
func (t *tree) addText(text []byte) {
	if t.broken && t.open[atom.Pre] == 0 && len(bytes.TrimSpace(text)) == 0 {
		return
	}
	t.broken = false
	from := len(t.text)
	if t.add(node{from: int32(from), to: int32(from + len(text))}) {
		t.text = append(t.text, text...)
	}
}

// push opens an element.
func (t *tree) push(n node) {
	if t.add(n) {
		t.stack = append(t.stack, int32(len(t.nodes)-1))
		t.open[n.name]++
	}
}

// pop closes the elements from stack[n] on.
func (t *tree) pop(n int) {
	for _, i := range t.stack[n:] {
		t.nodes[i].end = int32(len(t.nodes))
		t.open[t.nodes[i].name]--
	}
	t.stack = t.stack[:n]
}

// void are the elements without content.
var void = map[atom.Atom]bool{atom.Area: true, atom.Base: true, atom.Br: true, atom.Col: true, atom.Embed: true,
	atom.Hr: true, atom.Img: true, atom.Input: true, atom.Link: true, atom.Meta: true, atom.Param: true,
	atom.Source: true, atom.Track: true, atom.Wbr: true}

// implied says which open elements a start tag closes, unless one of those in within is nearer.
var implied = map[atom.Atom]struct{ closes, within [3]atom.Atom }{
	atom.Li:       {[3]atom.Atom{atom.Li}, [3]atom.Atom{atom.Ul, atom.Ol, atom.Menu}},
	atom.Dt:       {[3]atom.Atom{atom.Dt, atom.Dd}, [3]atom.Atom{atom.Dl}},
	atom.Dd:       {[3]atom.Atom{atom.Dt, atom.Dd}, [3]atom.Atom{atom.Dl}},
	atom.Td:       {[3]atom.Atom{atom.Td, atom.Th}, [3]atom.Atom{atom.Tr, atom.Table}},
	atom.Th:       {[3]atom.Atom{atom.Td, atom.Th}, [3]atom.Atom{atom.Tr, atom.Table}},
	atom.Tr:       {[3]atom.Atom{atom.Tr}, [3]atom.Atom{atom.Table}},
	atom.Tbody:    {[3]atom.Atom{atom.Tbody, atom.Thead, atom.Tfoot}, [3]atom.Atom{atom.Table}},
	atom.Thead:    {[3]atom.Atom{atom.Tbody, atom.Thead, atom.Tfoot}, [3]atom.Atom{atom.Table}},
	atom.Tfoot:    {[3]atom.Atom{atom.Tbody, atom.Thead, atom.Tfoot}, [3]atom.Atom{atom.Table}},
	atom.Option:   {[3]atom.Atom{atom.Option}, [3]atom.Atom{atom.Select}},
	atom.Optgroup: {[3]atom.Atom{atom.Option, atom.Optgroup}, [3]atom.Atom{atom.Select}},
}

// inTable are the elements of tables, which end tags of other elements do not close.
var inTable = map[atom.Atom]bool{atom.Table: true, atom.Tr: true, atom.Td: true, atom.Th: true, atom.Tbody: true,
	atom.Thead: true, atom.Tfoot: true, atom.Caption: true}

// start takes a start tag. Elements that HTML does not have are as if their tags were not there.
func (t *tree) start(tag *pagetext.Token) {
	name, broken := tag.Name, t.broken
	if name == 0 {
		return
	}
	t.broken = tag.Breaks()
	if len(t.stack) == maxDepth && !void[name] {
		if t.broken && !broken {
			t.add(node{name: atom.Br})
		}
		return
	}
	if t.open[atom.P] > 0 && tag.Breaks() && name != atom.Br {
		t.close([3]atom.Atom{atom.P}, func(a atom.Atom) bool {
			return pagetext.IsBlock(a) || inTable[a] || a == atom.Button
		})
	}
	if r, ok := implied[name]; ok && t.open[r.closes[0]]+t.open[r.closes[1]]+t.open[r.closes[2]] > 0 {
		t.close(r.closes, func(a atom.Atom) bool { return a == r.within[0] || a == r.within[1] || a == r.within[2] })
	}
	if name == atom.A {
		t.end(atom.A)
	}
	n := node{name: name}
	t.read(tag, &n)
	if void[name] {
		t.add(n)
	} else {
		t.push(n)
	}
}

// close closes the innermost open element of some names and what it contains, unless an element that hides it is
// nearer.
func (t *tree) close(names [3]atom.Atom, hides func(atom.Atom) bool) {
	for n := len(t.stack) - 1; n > 0; n-- {
		a := t.nodes[t.stack[n]].name
		if a != 0 && (a == names[0] || a == names[1] || a == names[2]) {
			t.pop(n)
			return
		}
		if hides(a) {
			return
		}
	}
}

// end takes an end tag. It does not close elements around the table cell in which it is, and the end of an element
// within a line does not close one that breaks lines.
func (t *tree) end(name atom.Atom) {
	if name == 0 || t.open[name] == 0 {
		return
	}
	blocks := pagetext.IsBlock(name) || name == atom.Button || name == atom.A
	t.close([3]atom.Atom{name}, func(a atom.Atom) bool {
		return !inTable[name] && (inTable[a] || !blocks && pagetext.IsBlock(a))
	})
}

// read reads the attributes of a start tag.
func (t *tree) read(tag *pagetext.Token, n *node) {
	n.marks = elementMarks[n.name]
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
