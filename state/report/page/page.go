package page

import (
	_ "embed"
	"html/template"
	"io"
	"strconv"
	"strings"
	"time"
)

// Page is a report.
type Page struct {
	Kind     string   // of report, above the title
	Title    string   // of the page and its heading
	Lines    []string // under the title: where, what and by whom
	Verdict  *Verdict // nil for none
	Notes    []string // what the reader must know of the report itself
	Tiles    []Tile
	Sections []Section
	By       string // the program and its version
	Made     time.Time
}

// Level says how much something matters; it decides the colour and the sign.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Bad  Level = "bad"
	Off  Level = "off" // neither good nor bad
)

// Verdict says first what matters most.
type Verdict struct {
	Level Level
	Text  string
	More  []string // sentences
	Next  string   // a command that helps; "" for none
}

// Tile is a figure that counts.
type Tile struct {
	Name, Value string
	Sub         string // a short text under the value; "" for none
	Level       Level  // "" for none
}

// Badge is a word on a coloured ground.
type Badge struct {
	Level Level
	Text  string
}

// Section is a part of the page that the contents name.
type Section struct {
	ID    string // of the anchor: letters, digits and hyphens
	Title string
	Badge *Badge // nil for none
	Count string // beside the title, also in the contents; "" for none
	// Sub is a section of the last one that is not: smaller, and indented in the contents.
	Sub    bool
	Blocks []Block
}

// Block is a part of a section.
type Block interface {
	HTML() (template.HTML, error)
}

// Text is a paragraph.
type Text string

// Note is a paragraph that stands out.
type Note string

// Table has a row of cells for each column.
type Table struct {
	Columns []Column
	Rows    [][]Cell
}

// Column is the head of a table's column.
type Column struct {
	Name string
	Kind Kind
}

// Kind is the kind of a column's cells.
type Kind string

// The kinds.
const (
	Words  Kind = ""       // text, on the left
	Number Kind = "number" // on the right, never broken
	Time   Kind = "time"   // on the left, never broken
	Share  Kind = "share"  // a bar of Cell.Share, and the percentage
)

// Cell is a cell of a table.
type Cell struct {
	Text  string
	URL   string  // makes the text a link, if its scheme is http or https
	Badge *Badge  // before the text; nil for none
	Share float64 // 0 to 1, in a column of kind Share
	// Lead, Links and More are below the text: words before a list of links, and words after it.
	Lead  string
	Links []Link
	More  string
}

// Link is a link with words beside it.
type Link struct {
	URL  string
	Text string // "" for none
}

// Cells makes a row of texts.
func Cells(texts ...string) []Cell {
	row := make([]Cell, len(texts))
	for i, text := range texts {
		row[i].Text = text
	}
	return row
}

// Details are blocks that the reader unfolds; paper has them unfolded.
type Details struct {
	Summary string
	Blocks  []Block
}

//go:embed page.html
var pageText string

//go:embed page.css
var style string

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"part":    func(b Block) (template.HTML, error) { return b.HTML() },
	"style":   func() template.CSS { return template.CSS(style) },
	"percent": func(share float64) string { return strconv.FormatFloat(100*min(1, share), 'f', 1, 64) + "%" },
	"follow":  follow,
	"utc":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") },
}).Parse(pageText))

// follow reports whether a URL may become a link.
func follow(url string) bool {
	return strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://")
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	text, err := render("page", p)
	if err == nil {
		_, err = io.WriteString(w, string(text))
	}
	return err
}

func render(name string, data any) (template.HTML, error) {
	var b strings.Builder
	err := templates.ExecuteTemplate(&b, name, data)
	return template.HTML(b.String()), err
}

// HTML implements Block.
func (t Text) HTML() (template.HTML, error) { return render("text", t) }

// HTML implements Block.
func (n Note) HTML() (template.HTML, error) { return render("note", n) }

// HTML implements Block.
func (t *Table) HTML() (template.HTML, error) { return render("table", t) }

// HTML implements Block.
func (d *Details) HTML() (template.HTML, error) { return render("details", d) }

// Kind returns the kind of a column; Words for one that the table lacks.
func (t *Table) Kind(column int) Kind {
	if column < len(t.Columns) {
		return t.Columns[column].Kind
	}
	return Words
}
