package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/report/page"
	"drumbeat/state/sitereport"
)

// SiteOptions say what WriteSiteHTML adds to the report of a site.
type SiteOptions struct {
	Old *sitereport.Report // an earlier report that it is compared with; nil: none
	By  string             // the program and its version
	Now time.Time
}

// severities are the parts of the report of a site.
var severities = []struct {
	severity  sitereport.Severity
	level     page.Level
	id, title string
	about     page.Text
}{
	{sitereport.Error, page.Bad, "errors", "Errors",
		"Visitors or search engines run into these. Fix them first."},
	{sitereport.Warning, page.Warn, "warnings", "Warnings",
		"These cost visitors or places in search results, or may break soon."},
	{sitereport.Note, page.Off, "notes", "Notes",
		"These may be meant as they are. Read them, and decide."},
}

// WriteSiteHTML writes the report of a site as one page.
func WriteSiteHTML(w io.Writer, r *sitereport.Report, opt SiteOptions) error {
	p := &page.Page{Kind: "Report of a website", Title: harmless(r.Site), By: opt.By, Made: opt.Now,
		Lines: []string{fmt.Sprintf("%s with %s, visited on %s as a search engine visits them.",
			human.Counted(r.Pages, "page", "pages"), human.Counted(r.Links, "link", "links"),
			r.Time.UTC().Format("2 January 2006"))},
		Verdict: siteVerdict(r), Tiles: siteTiles(r)}
	if opt.Old != nil {
		p.Sections = append(p.Sections, siteChanges(sitereport.Compare(opt.Old, r))...)
	}
	for _, s := range severities {
		p.Sections = append(p.Sections, siteFindings(r, s.severity, s.level, s.id, s.title, s.about)...)
	}
	p.Sections = append(p.Sections, siteTables(r)...)
	p.Sections = append(p.Sections, siteAbout(r))
	return p.Write(w)
}

func siteVerdict(r *sitereport.Report) *page.Verdict {
	v := &page.Verdict{Level: page.OK, Text: r.Verdict}
	switch {
	case r.Score.Errors > 0 || r.Pages == 0:
		v.Level = page.Bad
	case r.Score.Warnings > 0:
		v.Level = page.Warn
	}
	return v
}

func siteTiles(r *sitereport.Report) []page.Tile {
	share := "100%"
	if r.Pages > 0 && r.Score.CleanPages < r.Pages {
		// Rounded down: 100% shall mean all.
		share = fmt.Sprintf("%d%%", 100*r.Score.CleanPages/r.Pages)
	}
	tile := func(name string, n int64, level page.Level, sub string) page.Tile {
		if n == 0 && level != "" {
			level = page.OK
		}
		return page.Tile{Name: name, Value: human.Count(n), Level: level, Sub: sub}
	}
	s := &r.Score
	return []page.Tile{
		{Name: "Pages without errors", Value: share,
			Sub: human.Count(s.CleanPages) + " of " + human.Counted(r.Pages, "page", "pages")},
		tile("Errors", s.Errors, page.Bad, "fix them first"),
		tile("Warnings", s.Warnings, page.Warn, "worth a look"),
		tile("Notes", s.Notes, "", "may be meant"),
	}
}

// siteFindings returns the sections of a severity: one with the findings that have no row, and one for each other.
func siteFindings(r *sitereport.Report, severity sitereport.Severity, level page.Level, id, title string,
	about page.Text) []page.Section {
	all := page.Section{ID: id, Title: title}
	var sections []page.Section
	var fine []string
	total := int64(0)
	for _, f := range r.Findings {
		if f.Severity != severity {
			continue
		}
		if f.Total == 0 {
			if (f.Kind != "broken-outside" || r.OutsideChecked > 0) && !slices.Contains(r.Unchecked, f.Kind) {
				fine = append(fine, lowerFirst(f.Title))
			}
			continue
		}
		total += f.Total
		sections = append(sections, page.Section{ID: f.Kind, Title: f.Title, Sub: true, Count: human.Count(f.Total),
			Badge:  &page.Badge{Level: level, Text: string(severity)},
			Blocks: findingBlocks(f)})
	}
	all.Count = human.Count(total)
	if total > 0 {
		all.Blocks = append(all.Blocks, about)
	} else {
		all.Blocks = append(all.Blocks, page.Text("None were found."))
	}
	if len(fine) > 0 {
		all.Blocks = append(all.Blocks, page.Text("Checked and fine: "+strings.Join(fine, ", ")+"."))
	}
	return append([]page.Section{all}, sections...)
}

// lowerFirst returns a title as part of a sentence.
func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// findingBlocks returns what a finding means, how to fix it, and its rows.
func findingBlocks(f *sitereport.Finding) []page.Block {
	blocks := []page.Block{page.Text(f.Means + " " + f.Fix)}
	if n := int64(len(f.Rows)); n < f.Total {
		blocks = append(blocks, page.Text(fmt.Sprintf("The table has the first %s of %s.", human.Count(n),
			human.Count(f.Total))))
	}
	return append(blocks, rowTable(f, f.Rows))
}

// Names of the pages below an address, by kind of finding; the others have links to it.
var fromNames = map[string]string{
	"broken-image": "Shown on", "canonical-broken": "Named by", "canonical-redirect": "Named by",
	"canonical-chain": "Named by", "hreflang-broken": "Named by", "hreflang-no-return": "Named by",
	"duplicate": "Same as", "near-duplicate": "Like", "title-repeated": "Also on", "description-repeated": "Also on",
	"h1-repeated": "Also on", "security-headers": "For example",
}

// rowTable returns the rows of a finding as a table, without the columns that no row needs.
func rowTable(f *sitereport.Finding, rows []sitereport.Row) *page.Table {
	details, counts := false, false
	for i := range rows {
		details = details || rows[i].Detail != ""
		counts = counts || rows[i].Count > 1
	}
	t := &page.Table{Columns: []page.Column{{Name: "Address"}}}
	if f.Kind == "security-headers" {
		t.Columns[0].Name = "Header"
	}
	if details && f.Kind != "security-headers" {
		t.Columns = append(t.Columns, page.Column{Name: "Details"})
	}
	if counts {
		t.Columns = append(t.Columns, page.Column{Name: countName(f), Kind: page.Number})
	}
	for i := range rows {
		r := &rows[i]
		first := page.Cell{Text: shown(r.URL), URL: r.URL}
		if f.Kind == "security-headers" {
			first = page.Cell{Text: shown(r.Detail)}
		}
		if len(r.From) > 0 {
			first.Lead = cmp.Or(fromNames[f.Kind], "Linked from")
			for _, s := range r.From {
				first.Links = append(first.Links, page.Link{URL: s.URL, Text: shown(s.Text)})
			}
			if more := f.Others(r) - int64(len(r.From)); more > 0 {
				first.More = "and " + human.Count(more) + " more"
			}
		}
		row := []page.Cell{first}
		if details && f.Kind != "security-headers" {
			row = append(row, page.Cell{Text: shown(inWords(r.Detail))})
		}
		if counts {
			row = append(row, page.Cell{Text: human.Count(r.Count)})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// reasonWords says for the owner of a site why an address had no answer.
var reasonWords = map[string]string{
	state.ReasonRobots.String():       "robots.txt forbids it",
	state.ReasonNoHost.String():       "no server has this name",
	state.ReasonDNS.String():          "the server's name could not be looked up",
	state.ReasonConnect.String():      "the server could not be reached",
	state.ReasonTimeout.String():      "the server took too long",
	state.ReasonReset.String():        "the server closed the connection early",
	state.ReasonTLS.String():          "no protected connection was possible",
	state.ReasonErased.String():       "the operator has erased it",
	state.ReasonEarlier.String():      "an earlier crawl has fetched it",
	state.ReasonCertificate.String():  "the server's certificate is not valid",
	state.ReasonBadResponse.String():  "the answer does not follow the rules of HTTP",
	state.ReasonHeadTooLarge.String(): "the head of the answer is too large",
	state.ReasonServerError.String():  "the server reported an error",
}

// inWords returns the details of a row with its status or reason in words.
func inWords(detail string) string {
	if words := reasonWords[detail]; words != "" {
		return words
	}
	rest, ok := strings.CutPrefix(detail, "status ")
	code, more, _ := strings.Cut(rest, ",")
	status, err := strconv.Atoi(code)
	if !ok || err != nil || http.StatusText(status) == "" {
		return detail
	}
	if more != "" {
		more = "," + more
	}
	return code + " " + http.StatusText(status) + more
}

// countName is the head of the column of a finding's counts.
func countName(f *sitereport.Finding) string {
	switch f.Kind {
	case "redirect-chain", "redirect-loop":
		return "Steps"
	case "broken-link", "broken-outside", "robots-blocked", "redirected-link", "":
		return "Links"
	}
	return "Pages"
}

// siteTables returns the figures of the site as a whole.
func siteTables(r *sitereport.Report) []page.Section {
	index := &page.Table{Columns: []page.Column{{Name: "Address"}, {Name: "Number", Kind: page.Number}}}
	count := func(name string, n int64) {
		if n > 0 {
			index.Rows = append(index.Rows, page.Cells(name, human.Count(n)))
		}
	}
	count("Pages that search engines may list", r.Indexed[sitereport.Indexable])
	count("Pages that say noindex", r.Indexed[sitereport.NoIndexMeta])
	count("Pages for which the server says noindex (X-Robots-Tag)", r.Indexed[sitereport.NoIndexHeader])
	count("Pages that name another page as canonical", r.Indexed[sitereport.CanonicalOther])
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		if status != 200 {
			count("Addresses that answer with "+inWords(fmt.Sprintf("status %d", status)), r.Statuses[status])
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Refused)) {
		count("Addresses without an answer: "+inWords(reason), r.Refused[reason])
	}
	depth := shareTable("Clicks from the start")
	for _, d := range slices.Sorted(maps.Keys(r.Depths)) {
		name := strconv.Itoa(d)
		if d == sitereport.MaxDepth {
			name += " or more"
		}
		shareRow(depth, name, r.Depths[d], r.Pages)
	}
	links := shareTable("Links to the page")
	for i, least := range sitereport.Buckets {
		name := strconv.FormatInt(least, 10)
		if i+1 == len(sitereport.Buckets) {
			name += " or more"
		} else if next := sitereport.Buckets[i+1]; next > least+1 {
			name += " to " + strconv.FormatInt(next-1, 10)
		}
		if n := r.InLinks[least]; n > 0 {
			shareRow(links, name, n, r.Pages)
		}
	}
	sections := []page.Section{{ID: "site", Title: "The site as a whole"},
		{ID: "indexed", Title: "What search engines may list", Sub: true, Blocks: []page.Block{index}}}
	if len(depth.Rows) > 0 {
		sections = append(sections, page.Section{ID: "depth", Title: "How far pages are from the start", Sub: true,
			Blocks: []page.Block{page.Text("Visitors and search engines reach pages within three clicks most easily. " +
				"The clicks are those by which this visit found the page first."), depth}})
	}
	if len(links.Rows) > 0 {
		blocks := []page.Block{page.Text("Links tell visitors and search engines which pages matter."), links}
		if len(r.Least) > 0 {
			f := &sitereport.Finding{}
			blocks = append(blocks, page.Text("The pages with the fewest links to them:"), rowTable(f, r.Least))
		}
		sections = append(sections, page.Section{ID: "links", Title: "How often pages are linked", Sub: true,
			Blocks: blocks})
	}
	return sections
}

func shareTable(name string) *page.Table {
	return &page.Table{Columns: []page.Column{{Name: name}, {Name: "Pages", Kind: page.Number},
		{Name: "Share", Kind: page.Share}}}
}

func shareRow(t *page.Table, name string, n, of int64) {
	share := float64(n) / float64(max(1, of))
	t.Rows = append(t.Rows, []page.Cell{{Text: name}, {Text: human.Count(n)},
		{Text: fmt.Sprintf("%.1f%%", 100*share), Share: share}})
}

// siteAbout says how the report was made, and what it lacks.
func siteAbout(r *sitereport.Report) page.Section {
	blocks := []page.Block{page.Text(fmt.Sprintf("A crawler read the site by following its links. The report shows "+
		"the state of %s (crawl %s, checkpoint %d).", r.Time.UTC().Format("2006-01-02 15:04 UTC"), harmless(r.Crawl),
		r.Checkpoint))}
	switch {
	case r.OutsideChecked > 0:
		blocks = append(blocks, page.Text(fmt.Sprintf("Links to other sites: %s of %s were checked.",
			human.Count(r.OutsideChecked), human.Counted(r.Outside, "address", "addresses"))))
	case r.Outside > 0:
		blocks = append(blocks, page.Text(fmt.Sprintf("Links to other sites were not checked: there are %s.",
			human.Counted(r.Outside, "address", "addresses"))))
	}
	var unchecked []string
	for _, kind := range r.Unchecked {
		if f := r.Finding(kind); f != nil {
			unchecked = append(unchecked, lowerFirst(f.Title))
		}
	}
	if len(unchecked) > 0 {
		blocks = append(blocks, page.Text("Not checked, because the visit did not record the necessary data: "+
			strings.Join(unchecked, ", ")+"."))
	}
	if len(r.Notes) > 0 {
		blocks = append(blocks, page.Text("The visit did not record everything that this report can use. Findings "+
			"may be missing for these reasons, which the operator of the crawler can explain:"))
		for _, note := range r.Notes {
			blocks = append(blocks, page.Note(harmless(note)))
		}
	}
	return page.Section{ID: "about", Title: "About this report", Blocks: blocks}
}

// harmless returns a text of a site without control characters and those that change the direction of text.
func harmless(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// shown returns a text of a site as a cell has it: harmless, and cut at sitereport.MaxText characters.
func shown(s string) string {
	s = harmless(s)
	n := 0
	for i := range s {
		if n++; n > sitereport.MaxText {
			return s[:i] + "…"
		}
	}
	return s
}

// WriteSiteCSV writes the findings as a table: a line for each page that is named in a row, or for a row without.
func WriteSiteCSV(w io.Writer, r *sitereport.Report) error {
	out := csv.NewWriter(w)
	write := func(cells ...string) {
		for i := range cells {
			cells[i] = sheetCell(cells[i])
		}
		_ = out.Write(cells) // Error has the first error
	}
	write("finding", "url", "detail", "count", "from_url", "text", "severity")
	for _, f := range r.Findings {
		for _, row := range f.Rows {
			from := row.From
			if len(from) == 0 {
				from = []sitereport.Source{{}}
			}
			for _, s := range from {
				write(f.Kind, row.URL, row.Detail, strconv.FormatInt(row.Count, 10),
					s.URL, s.Text, string(f.Severity))
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
	s = harmless(s)
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
