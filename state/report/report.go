package report

import (
	"fmt"
	"strings"
	"time"

	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/state/explain"
	"drumbeat/state/history"
	"drumbeat/state/report/page"
)

// Options select a crawl.
type Options struct {
	FS   disk.FS
	Dirs []string // all directories of the crawl
	// Top is the number of PLDs in the table; 0 means 10, as in the paper.
	Top int
	// Fast leaves out what needs the records of all PLDs.
	Fast bool
}

// Report is the report of a crawl.
type Report struct {
	Made time.Time `json:"made"`
	// Title, Description and Operator are those that the crawl was given; without a title its first seed names it.
	Title       string   `json:"title"`
	Description string   `json:"description,omitempty"`
	Operator    string   `json:"operator,omitempty"`
	Dirs        []string `json:"directories"`
	Verdict     Verdict  `json:"verdict"`

	AsOf       explain.AsOf          `json:"as_of"`
	Options    *state.LastRun        `json:"options,omitempty"` // of the last run
	Summary    []Figure              `json:"summary"`
	Codes      []Count               `json:"codes"`    // responses by status code
	Failed     []Count               `json:"failed"`   // requests without a final response, by reason
	Refused    []Count               `json:"refused"`  // URLs, by reason
	Deferred   []Count               `json:"deferred"` // URLs, by reason
	Places     []Count               `json:"places"`
	Payments   []Payment             `json:"payments,omitempty"` // those with the most responses; the caller adds them
	Top        []explain.TopPLD      `json:"top_plds"`
	Degrees    []explain.DegreeClass `json:"degrees,omitempty"`
	Most90     int64                 `json:"most_pages_90,omitempty"` // 90 % of the visited PLDs have fewer pages
	Most99     int64                 `json:"most_pages_99,omitempty"`
	Queues     []explain.QueueFigure `json:"beast_queues"`
	Hours      []Hour                `json:"hours,omitempty"`
	Charts     []page.Chart          `json:"charts,omitempty"`
	Events     []history.Event       `json:"events,omitempty"`
	Incomplete []string              `json:"incomplete,omitempty"` // what is missing, and why
}

// Count is a named number.
type Count struct {
	Name string `json:"name"`
	N    int64  `json:"n"`
}

// Payment is a host that asked for payment.
type Payment struct {
	Host      string `json:"host"`
	Responses int64  `json:"responses"` // that asked for it
	Price     string `json:"price"`     // the last one; license or unpriced without one
}

// Make makes the report.
func Make(opt Options) (*Report, error) {
	if opt.Top == 0 {
		opt.Top = 10
	}
	x, err := explain.NewExplainer(explain.Options{FS: opt.FS, Dirs: opt.Dirs, Fast: opt.Fast})
	if err != nil {
		return nil, err
	}
	f, err := x.Figures(opt.Top)
	if err != nil {
		return nil, err
	}
	over, err := readOver(opt.FS, firstDir(opt.FS, opt.Dirs))
	if err != nil {
		return nil, err
	}
	r := reportOf(f, over)
	r.Made, r.Dirs = time.Now().UTC(), opt.Dirs
	if r.Verdict.Next != "" {
		r.Verdict.Next += " --dir " + strings.Join(opt.Dirs, " --dir ")
	}
	if opt.Fast {
		r.Incomplete = append(r.Incomplete,
			"The responses by the number of domains that link to a domain are left out (--fast).")
	}
	return r, nil
}

// reportOf makes the report of figures and a history.
func reportOf(f *explain.Figures, over *over) *Report {
	r := &Report{AsOf: f.AsOf, Options: f.Run, Top: f.Top, Degrees: f.Degrees, Queues: f.Queues,
		Title: f.Run.Name(f.AsOf.Crawl), Summary: summary(f, over), Verdict: judge(f, over.data.Events),
		Most90: most(f.Pages, 0.9), Most99: most(f.Pages, 0.99)}
	if f.Run != nil {
		r.Description, r.Operator = f.Run.About.Description, f.Run.About.Operator
	}
	r.counts(&f.Accounts)
	r.overTime(over, f)
	return r
}

// firstDir returns the directory that has number 0 in the crawl, where the history is.
func firstDir(fsys disk.FS, dirs []string) string {
	match, err := disk.MatchIdentities(fsys, dirs, state.KindState)
	if err != nil || match.Set.Len() == 0 {
		return dirs[0]
	}
	return match.Set.Path(0)
}

// counts fills the tables of the accounts.
func (r *Report) counts(a *state.Accounts) {
	add := func(to *[]Count, name string, n int64) {
		if n > 0 {
			*to = append(*to, Count{name, n})
		}
	}
	for code, n := range a.Codes {
		add(&r.Codes, fmt.Sprint(code), n)
	}
	for i := range a.Refused {
		name := state.Reason(i).String()
		add(&r.Failed, name, a.Failed[i])
		add(&r.Refused, name, a.Refused[i])
		add(&r.Deferred, name, a.Deferred[i])
	}
	for p := range a.Places {
		r.Places = append(r.Places, Count{state.Place(p).String(), a.Places[p].N})
	}
}

// most returns a number of pages that a share of the visited PLDs stays below, as a power of two; 0 if it is
// not known.
func most(below [33]int64, share float64) int64 {
	all := below[len(below)-1]
	for i, n := range below {
		if all > 0 && float64(n) >= share*float64(all) {
			return 1 << i
		}
	}
	return 0
}
