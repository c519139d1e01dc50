package maintext

import (
	"bytes"
	"unicode"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/net/html/atom"

	"drumbeat/internal/pagetext"
)

// block is a piece of a page's text between two tags that break lines; a <br> does not end one.
type block struct {
	counts
	from, to int   // in passage.text
	first    int32 // its first node
	node     int32 // the innermost element around it that breaks lines
	title    bool
	again    bool    // the same text precedes it
	odds     float64 // the logarithm of the odds that it is main text
	inBest   bool    // in the element with the most prose
	score    float64
	content  bool
}

// element is what is known of a node: of the text in it and of its place.
type element struct {
	counts
	blocks  int32
	prose   int32 // words in blocks of prose
	alike   int32 // siblings with its name and class, itself included
	alikeIn int32 // words of these
	above   int32 // the innermost element around it that has more words
	group   int32 // it or an element around it that has the most siblings alike; 0: none
	marks   marks // its own, and those of the elements around it
	// It or an element around it is a small one with markRelated, a small table of data, or code.
	related, data, code bool
}

// passage is the text of a page in blocks.
type passage struct {
	*tree
	lines  []byte // the visible text
	blocks []block
	block  []int32   // of a text node: the index of its block; beyond the blocks: none
	of     []element // by node
}

// newPassage makes the visible text of a tree.
func newPassage(t *tree) *passage {
	p := &passage{tree: t}
	p.block = make([]int32, len(t.nodes))
	w := &writer{passage: p}
	w.out.Grow(len(t.text))
	w.lines = pagetext.NewLines(&w.out)
	noscript := t.inNoscript()
	for i := int32(1); i < int32(len(t.nodes)); i++ {
		n := &t.nodes[i]
		w.close(i)
		switch {
		case n.name == 0 && n.from < n.to:
			w.add(n, i)
		case n.name == atom.Noscript && !noscript:
			i = n.end - 1
		case n.name == atom.Br:
			w.lines.End()
		case n.name == atom.Td || n.name == atom.Th:
			w.lines.Space()
		case n.name == atom.A && n.attrs != 0:
			w.links = n.end
		case pagetext.IsBlock(n.name) || n.name == atom.Button || n.name == atom.Label || n.name == atom.Noscript:
			w.open = append(w.open, i)
			w.next(i)
		}
	}
	w.next(0)
	p.lines = w.out.Bytes()
	p.sum()
	p.place()
	return p
}

// inNoscript tells whether most of the text is in noscript elements, as on pages that scripts make.
func (t *tree) inNoscript() bool {
	in, out, end := 0, 0, int32(0)
	for i := range t.nodes {
		n := &t.nodes[i]
		switch {
		case n.name == atom.Noscript:
			end = n.end
		case n.name != 0:
		case int32(i) < end:
			in += len(bytes.TrimSpace(t.text[n.from:n.to]))
		default:
			out += len(bytes.TrimSpace(t.text[n.from:n.to]))
		}
	}
	return in > out
}

// writer writes the lines and blocks of a passage.
type writer struct {
	*passage
	out   bytes.Buffer
	lines *pagetext.Lines
	open  []int32 // elements that break lines
	links int32   // the node at which the last link ends
	block block
}

// add adds a text.
func (w *writer) add(n *node, i int32) {
	text := w.text[n.from:n.to]
	w.passage.block[i] = int32(len(w.blocks))
	if w.block.first == 0 {
		w.block.first = i
	}
	w.block.title = w.block.title || w.nodes[n.parent].name == atom.Title
	w.block.count(text, i < w.links)
	w.lines.Text(text)
}

// close ends the elements that do not contain node i.
func (w *writer) close(i int32) {
	for n := len(w.open) - 1; n >= 0 && w.nodes[w.open[n]].end <= i; n-- {
		w.open = w.open[:n]
		around := int32(0)
		if n > 0 {
			around = w.open[n-1]
		}
		w.next(around)
	}
}

// next ends a block; node is the innermost element around the next one.
func (w *writer) next(node int32) {
	w.lines.End()
	if b := &w.block; w.out.Len() > b.from {
		b.to = w.out.Len()
		w.blocks = append(w.blocks, *b)
	}
	w.block = block{from: w.out.Len(), node: node}
}

// prose tells whether a block looks like sentences.
func (b *block) prose() bool { return b.words > 9 && b.stops > 0 && b.density() <= 1.0/3 }

// sum counts what is in each element.
func (p *passage) sum() {
	p.of = make([]element, len(p.nodes))
	seen := make(map[uint64]bool, len(p.blocks))
	for i := range p.blocks {
		b := &p.blocks[i]
		if b.title {
			continue
		}
		sum := xxhash.Sum64(p.lines[b.from:b.to])
		b.again = seen[sum]
		seen[sum] = true
		e := &p.of[b.node]
		e.add(&b.counts)
		e.blocks++
		if b.prose() {
			e.prose += b.words
		}
	}
	for i := len(p.nodes) - 1; i > 0; i-- {
		e, around := &p.of[i], &p.of[p.nodes[i].parent]
		around.add(&e.counts)
		around.blocks += e.blocks
		around.prose += e.prose
	}
}

// place finds the place of each element: the hints around it, and the group of similar elements in which it is, such
// as the posts of a forum.
func (p *passage) place() {
	type kind struct {
		parent int32
		kind   uint32
	}
	alike := make(map[kind][2]int32)
	grouped := func(i int) bool {
		name := p.nodes[i].name
		return name != 0 && name != atom.P && p.of[i].words > 0
	}
	for i := 1; i < len(p.nodes); i++ {
		if n := &p.nodes[i]; grouped(i) {
			k := kind{n.parent, n.kind}
			v := alike[k]
			alike[k] = [2]int32{v[0] + 1, v[1] + p.of[i].words}
		}
	}
	total := p.of[0].words
	for i := 1; i < len(p.nodes); i++ {
		n, e := &p.nodes[i], &p.of[i]
		around := &p.of[n.parent]
		e.marks = n.marks
		if float64(e.words) > mostOfPage*float64(total) {
			e.marks &= wideMarks
		}
		small := float64(e.words) < smallPart*float64(total)
		e.code = around.code || n.name == atom.Pre
		if e.data = around.data; n.name == atom.Table {
			e.data = small && e.density() < dataDensity && p.isData(int32(i))
		}
		e.related = around.related || small && n.marks&markRelated != 0
		e.marks |= around.marks
		if e.above = around.above; around.words > e.words {
			e.above = n.parent
		}
		e.group = around.group
		if !grouped(i) {
			continue
		}
		v := alike[kind{n.parent, n.kind}]
		e.alike, e.alikeIn = v[0], v[1]
		if g := &p.of[e.group]; e.alike > 2 && (e.group == 0 || e.alike >= g.alike && e.alikeIn > g.alikeIn) {
			e.group = int32(i)
		}
	}
}

// mostOfPage is the share of the words above which only wideMarks of an element count.
const mostOfPage = 0.85

// smallPart is the share of the words below which an element is small, and dataDensity that of the words of a
// table that are in links above which it is none of data.
const (
	smallPart   = 0.2
	dataDensity = 0.3
)

// isData tells whether a table has data: cells that are heads, two rows or more, more cells than rows, and no other
// table or form.
func (p *passage) isData(table int32) bool {
	rows, heads, cells := 0, 0, 0
	for i := table + 1; i < p.nodes[table].end; i++ {
		switch p.nodes[i].name {
		case atom.Table, atom.Form, atom.Input, atom.Select:
			return false
		case atom.Tr:
			rows++
		case atom.Th:
			heads++
			cells++
		case atom.Td:
			cells++
		}
	}
	return rows > 1 && heads > 0 && cells > rows
}

// trimmed returns the text of a block without white space around it.
func (p *passage) trimmed(b *block) []byte {
	return bytes.TrimRightFunc(p.lines[b.from:b.to], unicode.IsSpace)
}
