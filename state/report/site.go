package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"

	"drumbeat/internal/human"
	"drumbeat/state/export"
	"drumbeat/state/report/page"
)

// WriteSiteHTML writes the report of a site as one page. by is the program and its version.
func WriteSiteHTML(w io.Writer, r *export.SiteReport, by string) error {
	p := page.Page{Kind: "Report of a site", Title: r.Site, Notes: r.Notes, By: by, Made: time.Now(),
		Lines: []string{fmt.Sprintf("%s with %s, as of checkpoint %d of crawl %s, %s.",
			human.Counted(r.Pages, "page", "pages"), human.Counted(r.Links, "link", "links"), r.Checkpoint, r.Crawl,
			timeText(r.Time))}}
	counts := &page.Table{Columns: []page.Column{{Name: "URLs"}, {Name: "count", Kind: page.Number}}}
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		counts.Rows = append(counts.Rows,
			page.Cells("status "+strconv.Itoa(status), humanize.Comma(r.Statuses[status])))
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Refused)) {
		counts.Rows = append(counts.Rows, page.Cells("no response: "+reason, humanize.Comma(r.Refused[reason])))
	}
	p.Sections = append(p.Sections, page.Section{ID: "urls", Title: "URLs", Blocks: []page.Block{counts}})
	for _, f := range r.Findings {
		p.Sections = append(p.Sections, siteFinding(f))
	}
	return p.Write(w)
}

func siteFinding(f *export.Finding) page.Section {
	s := page.Section{ID: f.Kind, Title: f.Title, Count: humanize.Comma(f.Total)}
	if n := int64(len(f.Rows)); n < f.Total {
		s.Blocks = append(s.Blocks, page.Text(fmt.Sprintf("The first %d of them:", n)))
	}
	table := &page.Table{Columns: []page.Column{{Name: "URL"}, {Name: "details"}, {Name: "count", Kind: page.Number}}}
	for _, r := range f.Rows {
		row := []page.Cell{{Text: r.URL, URL: r.URL}, {Text: r.Detail}, {}}
		for _, from := range r.From {
			row[0].Links = append(row[0].Links, page.Link{URL: from.URL, Text: from.Text})
		}
		if more := f.Others(&r) - int64(len(r.From)); more > 0 && len(r.From) > 0 {
			row[0].More = "and " + humanize.Comma(more) + " more"
		}
		if r.Count > 0 {
			row[2].Text = humanize.Comma(r.Count)
		}
		table.Rows = append(table.Rows, row)
	}
	if len(table.Rows) > 0 {
		s.Blocks = append(s.Blocks, table)
	}
	return s
}

// WriteSiteCSV writes the findings as a table: a line for each page that is named in a row, or for a row without.
func WriteSiteCSV(w io.Writer, r *export.SiteReport) error {
	out := csv.NewWriter(w)
	write := func(cells ...string) {
		for i := range cells {
			cells[i] = sheetCell(cells[i])
		}
		_ = out.Write(cells) // Error has the first error
	}
	write("finding", "url", "detail", "count", "from_url", "text")
	for _, f := range r.Findings {
		for _, row := range f.Rows {
			from := row.From
			if len(from) == 0 {
				from = []export.Source{{}}
			}
			for _, s := range from {
				write(f.Kind, row.URL, row.Detail, strconv.FormatInt(row.Count, 10), s.URL, s.Text)
			}
		}
	}
	out.Flush()
	return out.Error()
}

// formulas are the characters that begin a formula, or what some spreadsheets take for one.
const formulas = "=+-@|\uff1d\uff0b\uff0d\uff20"

// cellsWithin finds cells within a cell, where ; divides cells; a quotation mark may begin one.
var cellsWithin = regexp.MustCompile(`(;[\s"]*)([-=+@|\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}])`)

// sheetCell returns a cell as a spreadsheet may have it: this table is for people, and its texts are those of sites. A
// cell that would be taken for a formula begins with an apostrophe, unless it is a number. Control characters and those
// that change the direction of text become spaces.
func sheetCell(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	// Where ; divides cells, the rest of this one is another.
	s = cellsWithin.ReplaceAllString(s, "$1'$2")
	first := strings.TrimLeft(s, " ")
	if first == "" || !strings.ContainsRune(formulas, []rune(first)[0]) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}
