package maintext

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/html/atom"
)

// code writes a block of code.
func (m *markdown) code(i int32) {
	m.flush()
	text := bytes.TrimRightFunc(bytes.TrimLeft(m.raw(i), "\r\n"), unicode.IsSpace)
	if len(text) == 0 {
		return
	}
	fence := strings.Repeat("`", max(3, longestRun(text)+1))
	m.begin(fence + m.language(i))
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		m.write(string(bytes.TrimRight(line, "\r")))
	}
	m.write(fence)
}

// language returns the language that the class of a block of code, of the code in it or of an element around it names.
func (m *markdown) language(i int32) string {
	for j := i; j < min(m.nodes[i].end, i+3); j++ {
		if a := m.nodes[j].attrs; a != 0 {
			for class := range strings.FieldsSeq(m.attrs[a].text) {
				for _, begin := range []string{"language-", "lang-", "highlight-source-", "brush:"} {
					if name, ok := strings.CutPrefix(class, begin); ok && isName(name) {
						return name
					}
				}
			}
		}
	}
	return ""
}

// isName tells whether a text may name a language.
func isName(name string) bool {
	for i := range len(name) {
		if c := name[i]; !isLetter(c) && c != '+' && c != '#' && c != '-' && c != '.' {
			return false
		}
	}
	return name != "" && len(name) <= 32
}

// list writes a list.
func (m *markdown) list(i int32) {
	m.flush()
	tight := m.tight
	number := 0
	for j := i + 1; j < m.nodes[i].end; j = m.nodes[j].end {
		if m.nodes[j].name != atom.Li {
			m.node(j)
			continue
		}
		if !m.has(j) {
			continue
		}
		number++
		mark := "- "
		if m.nodes[i].name == atom.Ol {
			mark = strconv.Itoa(number) + ". "
		}
		m.tight = m.tight || number > 1
		m.item(j, mark)
	}
	m.tight = tight && number == 0
}

// item writes an item of a list. Another list in it follows its text without an empty line.
func (m *markdown) item(i int32, mark string) {
	tight := m.tight
	m.flush()
	m.tight = tight
	m.within(mark, strings.Repeat(" ", len(mark)), func() {
		for j := i + 1; j < m.nodes[i].end; j = m.nodes[j].end {
			if name := m.nodes[j].name; (name == atom.Ul || name == atom.Ol) && m.has(j) {
				m.flush()
				m.tight = true
			}
			m.node(j)
		}
	})
}

// maxPrefix bounds quotes and indentation before a line, in bytes. What is nested deeper is as if it were not.
const maxPrefix = 48

// within writes blocks whose lines have a prefix, and another one before the first line.
func (m *markdown) within(first, rest string, blocks func()) {
	m.flush()
	if len(m.prefix)+len(rest) > maxPrefix {
		m.tight = false
		blocks()
		m.flush()
		return
	}
	prefix, before := m.prefix, m.first
	if before == "" {
		before, m.outer = prefix, prefix
	}
	m.first, m.prefix = before+first, prefix+rest
	blocks()
	m.flush()
	m.prefix = prefix
	if m.first == before+first { // nothing was written
		m.first = ""
	}
}

// table writes a table of data; false if it is none: it has other tables or blocks,
// text outside cells, or fewer than two rows or columns.
func (m *markdown) table(i int32) bool {
	var rows [][]int32
	captions := []int32(nil)
	left := m.kept[m.nodes[i].end] - m.kept[i] // texts outside cells
	for j := i + 1; j < m.nodes[i].end; j++ {
		switch name := m.nodes[j].name; name {
		case atom.Table, atom.Ul, atom.Ol, atom.Pre, atom.Blockquote:
			return false
		case atom.H1, atom.H2, atom.H3, atom.H4:
			if m.nodes[m.nodes[j].parent].name != atom.Th {
				return false
			}
		case atom.Tr:
			rows = append(rows, nil)
		case atom.Caption:
			captions = append(captions, j)
			left -= m.kept[m.nodes[j].end] - m.kept[j]
		case atom.Td, atom.Th:
			if len(rows) == 0 {
				return false
			}
			r := &rows[len(rows)-1]
			*r = append(*r, j)
			left -= m.kept[m.nodes[j].end] - m.kept[j]
		}
	}
	columns := 0
	var g grid
	for _, row := range rows {
		columns = max(columns, len(g.place(m.tree, row)))
	}
	if len(rows) < 2 || columns < 2 || columns > maxColumns || left != 0 {
		return false
	}
	m.flush()
	for _, j := range captions {
		m.flatten(j)
		m.flush()
	}
	m.rows(rows, columns)
	return true
}

// rows writes the rows of a table that have text.
func (m *markdown) rows(rows [][]int32, columns int) {
	begun := false
	var g grid
	for _, row := range rows {
		line := make([]string, columns)
		full := false
		for column, j := range g.place(m.tree, row) {
			if j != 0 {
				line[column] = m.cellOf(j)
				full = full || line[column] != ""
			}
		}
		if !full {
			continue
		}
		text := "| " + strings.Join(line, " | ") + " |"
		if begun {
			m.write(text)
			continue
		}
		m.begin(text)
		m.write("|" + strings.Repeat(" --- |", columns))
		begun = true
	}
}

// maxColumns bounds the columns of a table.
const maxColumns = 64

// grid finds the columns of cells. Columns that a cell takes besides its first one, and those of the rows below that it
// takes, are empty.
type grid struct {
	row  []int32               // by column
	down [maxColumns + 1]uint8 // by column: how many of the next rows a cell above takes
}

// place returns the cells of the next row by column, 0 for an empty one. It gives up at one more than maxColumns.
func (g *grid) place(t *tree, cells []int32) []int32 {
	g.row = g.row[:0]
	add := func(cell int32, rows int) {
		if n := len(g.row); n <= maxColumns {
			g.row, g.down[n] = append(g.row, cell), uint8(rows)
		}
	}
	skip := func() {
		for n := len(g.row); n <= maxColumns && g.down[n] > 0; n++ {
			add(0, int(g.down[n])-1)
		}
	}
	for _, cell := range cells {
		skip()
		a := &t.attrs[t.nodes[cell].attrs]
		add(cell, a.rows)
		for range a.columns {
			add(0, a.rows)
		}
	}
	skip()
	for n := len(g.row); n <= maxColumns; n++ { // beyond a gap
		g.down[n] = max(g.down[n], 1) - 1
	}
	return g.row
}

// cellOf returns the text of a cell.
func (m *markdown) cellOf(j int32) string {
	m.line, m.space, m.cell = nil, false, true
	m.flatten(j)
	text := string(bytes.TrimSpace(m.line))
	m.line, m.space, m.cell = nil, false, false
	return text
}
