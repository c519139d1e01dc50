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
	"unicode"

	"github.com/dustin/go-humanize"

	"drumbeat/internal/human"
	"drumbeat/state/export"
)

const siteStyle = style + `
td{overflow-wrap:anywhere}td:nth-child(n){text-align:left}td:nth-child(3){text-align:right}
details{margin:.3rem 0}summary{cursor:pointer}ul{margin:.2rem 0;padding-left:1.2rem}
`

// WriteSiteHTML writes the report of a site as one page, without scripts and without parts from elsewhere.
func WriteSiteHTML(w io.Writer, r *export.SiteReport) error {
	p := new(builder)
	title := "Report of " + r.Site
	p.raw(`<!doctype html><html lang="en"><head><meta charset="utf-8">` +
		`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">` +
		`<meta name="referrer" content="no-referrer"><meta name="viewport" content="width=device-width"><title>` +
		escape(title) + "</title><style>" + siteStyle + "</style></head><body>\n")
	p.tag("h1", title)
	p.tag("p", fmt.Sprintf("%s with %s, as of checkpoint %d of crawl %s, %s.",
		human.Counted(r.Pages, "page", "pages"),
		human.Counted(r.Links, "link", "links"), r.Checkpoint, r.Crawl, timeText(r.Time)))
	for _, note := range r.Notes {
		p.raw(`<p class="note">` + escape(note) + "</p>\n")
	}
	var counts [][]string
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		counts = append(counts, []string{"status " + strconv.Itoa(status), humanize.Comma(r.Statuses[status])})
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Refused)) {
		counts = append(counts, []string{"no response: " + reason, humanize.Comma(r.Refused[reason])})
	}
	p.table([]string{"URLs", "count"}, counts)
	for _, f := range r.Findings {
		siteFinding(p, f)
	}
	p.raw("</body></html>\n")
	_, err := w.Write(p.b.Bytes())
	return err
}

func siteFinding(p *builder, f *export.Finding) {
	p.raw("<h2>" + escape(f.Title) + ": " + humanize.Comma(f.Total) + "</h2>\n")
	if f.Total == 0 {
		return
	}
	if n := int64(len(f.Rows)); n < f.Total {
		p.tag("p", fmt.Sprintf("The first %d of them:", n))
	}
	p.raw("<table><thead><tr><th>URL</th><th>details</th><th>count</th></tr></thead><tbody>\n")
	for _, r := range f.Rows {
		p.raw("<tr><td>" + link(r.URL))
		if len(r.From) > 0 {
			p.raw("<details><summary>pages</summary><ul>")
			for _, s := range r.From {
				p.raw("<li>" + link(s.URL))
				if s.Text != "" {
					p.raw(": " + escape(s.Text))
				}
				p.raw("</li>")
			}
			if more := f.Others(&r) - int64(len(r.From)); more > 0 {
				p.raw("<li>" + escape(fmt.Sprintf("and %s more", humanize.Comma(more))) + "</li>")
			}
			p.raw("</ul></details>")
		}
		count := ""
		if r.Count > 0 {
			count = humanize.Comma(r.Count)
		}
		p.raw("</td><td>" + escape(r.Detail) + "</td><td>" + count + "</td></tr>\n")
	}
	p.raw("</tbody></table>\n")
}

// link returns the HTML of a link to a URL, which is canonical: http or https, without white space.
func link(url string) string {
	if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return escape(url)
	}
	return `<a href="` + escape(url) + `">` + escape(url) + "</a>"
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
