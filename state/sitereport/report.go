// Package sitereport is the report of a site: what it says, in words for the site's owner, and how it differs from an
// earlier one. Package state/export fills it from a crawl, package state/report writes it as a page or a table.
//
// # Contract
//
// A finding has a kind, and its kind has a severity and the words for it: what it means, and how to fix it. The words
// are for the owner of the site, who knows pages and servers and no crawler. Sum counts the findings and writes the
// verdict. Compare tells which rows are new, fixed or still there; of a finding that is cut it says that it does not
// know. Read takes reports of this format and of one site, and refuses others.
//
// # Concurrency and memory
//
// A Report is a value of one goroutine. Its rows are bounded by the caller of NewFinding, the URLs and texts in them
// by the crawl and by MaxText. A report that is read may have 64 MiB.
//
// # Files
//
// report.go has the report and its score, kinds.go the kinds with their words and limits, compare.go the comparison.
package sitereport

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"drumbeat/internal/human"
)

// Version is the format of a Report as JSON. It changes when a field or the meaning of a kind changes.
const Version = 2

// MaxText bounds a text of a page in a report, in bytes: longer ones are cut. Nobody reads more in a table.
const MaxText = 300

// Report says what the owner of a site may want to fix, as far as one checkpoint of a crawl knows.
type Report struct {
	Version    int       `json:"version"`
	Site       string    `json:"site"` // a host, or a PLD with all its hosts
	Crawl      string    `json:"crawl"`
	Checkpoint uint64    `json:"checkpoint"`
	Time       time.Time `json:"time"` // of the checkpoint
	Pages      int64     `json:"pages"`
	Links      int64     `json:"links"` // on its pages
	Score      Score     `json:"score"`
	Verdict    string    `json:"verdict"`
	// Statuses counts its responses by status, Refused its URLs without a response by reason.
	Statuses map[int]int64    `json:"statuses"`
	Refused  map[string]int64 `json:"refused"`
	// Indexed counts its pages by what search engines may do with them, Depths by clicks from the start as the crawl
	// found them, up to MaxDepth, and InLinks by links to them, with the least number of each bucket.
	Indexed  map[string]int64 `json:"indexed"`
	Depths   map[int]int64    `json:"depths"`
	InLinks  map[int64]int64  `json:"in_links"`
	Least    []Row            `json:"least_linked"` // the pages with the fewest links to them
	Findings []*Finding       `json:"findings"`
	// Unchecked are the kinds of findings that have no rows because the crawl did not record what they take.
	Unchecked []string `json:"unchecked,omitempty"`
	// Outside is the number of URLs of other sites that its pages link to and that the crawl did not fetch.
	// OutsideChecked is the number of those that were checked.
	Outside        int64    `json:"outside"`
	OutsideChecked int64    `json:"outside_checked"`
	Notes          []string `json:"notes,omitempty"`   // what is missing
	Damaged        int      `json:"damaged,omitempty"` // records that could not be read
}

// MaxDepth is the last row of Report.Depths: it has all pages that are deeper.
const MaxDepth = 20

// Buckets are the keys of Report.InLinks.
var Buckets = []int64{0, 1, 2, 6, 21, 101}

// What search engines may do with a page, in Report.Indexed.
const (
	Indexable      = "indexable"
	NoIndexMeta    = "noindex-meta"
	NoIndexHeader  = "noindex-header"
	CanonicalOther = "canonical-elsewhere"
)

// Score sums a report up.
type Score struct {
	CleanPages int64 `json:"clean_pages"` // pages without an error
	Errors     int64 `json:"errors"`      // rows of findings of each severity
	Warnings   int64 `json:"warnings"`
	Notes      int64 `json:"notes"`
}

// Finding is a list of URLs with the same fault. Its texts are those of its kind.
type Finding struct {
	Kind     string   `json:"kind"`
	Severity Severity `json:"severity"`
	Title    string   `json:"title"` // in words
	Means    string   `json:"means"`
	Fix      string   `json:"fix"`
	Total    int64    `json:"total"`
	Rows     []Row    `json:"rows"` // the first ones

	most int
}

// Row is a URL of a Finding.
type Row struct {
	URL    string   `json:"url"`
	Detail string   `json:"detail,omitempty"`
	Count  int64    `json:"count,omitempty"` // of links, or of pages
	From   []Source `json:"from,omitempty"`  // the first pages

	Weight int64 `json:"-"` // rows with more come first
}

// Source is a page that has a link, or the same content.
type Source struct {
	URL  string `json:"url"`
	Text string `json:"text,omitempty"` // of the link
}

// Others returns the number of pages that a row of f has besides its own URL, of which From has the first.
func (f *Finding) Others(r *Row) int64 {
	if kinds[f.Kind].group {
		return r.Count - 1
	}
	return r.Count
}

// NewFinding returns a finding without rows that keeps the first most rows.
func NewFinding(kind string, most int) *Finding {
	k := kinds[kind]
	return &Finding{Kind: kind, Severity: k.severity, Title: k.title, Means: k.means, Fix: k.fix, Rows: []Row{},
		most: most}
}

// Add adds a row.
func (f *Finding) Add(r Row) {
	f.Total++
	if f.Rows = append(f.Rows, r); len(f.Rows) >= 4*f.most {
		f.Cut()
	}
}

// Cut keeps the first rows.
func (f *Finding) Cut() {
	slices.SortFunc(f.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.URL, b.URL), cmp.Compare(a.Detail, b.Detail))
	})
	f.Rows = slices.Clip(f.Rows[:min(len(f.Rows), f.most)])
}

// Finding returns the finding of a kind; nil if the report has none.
func (r *Report) Finding(kind string) *Finding {
	for _, f := range r.Findings {
		if f.Kind == kind {
			return f
		}
	}
	return nil
}

// Sum counts the findings by severity and writes the verdict.
func (r *Report) Sum() {
	r.Score.Errors, r.Score.Warnings, r.Score.Notes = 0, 0, 0
	for _, f := range r.Findings {
		switch f.Severity {
		case Error:
			r.Score.Errors += f.Total
		case Warning:
			r.Score.Warnings += f.Total
		default:
			r.Score.Notes += f.Total
		}
	}
	s := &r.Score
	switch {
	case r.Pages == 0:
		r.Verdict = "The crawl has no page of this site."
	case s.Errors == 0 && s.Warnings == 0:
		r.Verdict = "The site is in good order: no errors and no warnings were found."
	case s.Errors == 0:
		r.Verdict = fmt.Sprintf("No page has an error. %s deserve a look.",
			human.Counted(s.Warnings, "warning", "warnings"))
		if s.Warnings == 1 {
			r.Verdict = "No page has an error. 1 warning deserves a look."
		}
	case s.CleanPages == r.Pages:
		r.Verdict = fmt.Sprintf("The pages work. %s outside of them should be fixed.",
			human.Counted(s.Errors, "error", "errors"))
	default:
		r.Verdict = fmt.Sprintf("%s should be fixed first: visitors or search engines run into an error on %s of %s.",
			human.Counted(s.Errors, "error", "errors"), human.Count(r.Pages-s.CleanPages),
			human.Counted(r.Pages, "page", "pages"))
	}
}
