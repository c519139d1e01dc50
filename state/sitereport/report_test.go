package sitereport

import (
	"fmt"
	"strings"
	"testing"
)

// reportOf returns a report with rows of one finding.
func reportOf(kind string, most int, urls ...string) *Report {
	f := NewFinding(kind, most)
	for _, url := range urls {
		f.Add(Row{URL: url})
	}
	f.Cut()
	r := &Report{Version: Version, Site: "a.test", Pages: 10, Findings: []*Finding{f}}
	r.Score.CleanPages = 10 - int64(len(urls))
	r.Sum()
	return r
}

// TestKinds: every kind has its place and all its words, each a sentence.
func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	last := Error
	order := map[Severity]int{Error: 0, Warning: 1, Note: 2}
	for _, kind := range Kinds {
		k, ok := kinds[kind]
		if seen[kind] || !ok || k.title == "" || !strings.HasSuffix(k.means, ".") || !strings.HasSuffix(k.fix, ".") {
			t.Errorf("%s: %+v", kind, k)
		}
		if order[k.severity] < order[last] {
			t.Errorf("%s, a %s, comes after a %s", kind, k.severity, last)
		}
		seen[kind], last = true, k.severity
		if strings.Contains(k.title+k.means+k.fix, "--") {
			t.Errorf("%s speaks of flags", kind)
		}
	}
	if len(seen) != len(kinds) {
		t.Errorf("%d kinds have no place", len(kinds)-len(seen))
	}
}

// TestCompare: rows are new, fixed or still there; where a report is cut, it is not known which.
func TestCompare(t *testing.T) {
	text := func(old, now *Report) string {
		var b strings.Builder
		for _, f := range Compare(old, now).Findings {
			fmt.Fprintf(&b, "%d new (%v), %d fixed (%v), %d still", len(f.New), f.NewKnown, len(f.Fixed), f.FixedKnown,
				f.Still)
		}
		return b.String()
	}
	const kind = "broken-link"
	for _, c := range []struct {
		old, now *Report
		want     string
	}{
		{reportOf(kind, 9, "a", "b"), reportOf(kind, 9, "b", "c", "d"), "2 new (true), 1 fixed (true), 1 still"},
		{reportOf(kind, 9), reportOf(kind, 9), ""},
		{reportOf(kind, 1, "a", "b"), reportOf(kind, 9, "a", "b"), "0 new (false), 0 fixed (true), 1 still"},
		{reportOf(kind, 9, "a", "b"), reportOf(kind, 1, "a", "b"), "0 new (true), 0 fixed (false), 1 still"},
		{reportOf("broken-outside", 9, "a"), reportOf("broken-outside", 9), ""}, // one did not look
	} {
		if got := text(c.old, c.now); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if got := Compare(reportOf(kind, 1, "a", "b"), reportOf(kind, 9, "a", "c")).Text(); !strings.HasSuffix(got,
		": 0 new, 0 fixed, 1 still there, of the rows that both reports have.") {
		t.Errorf("in a line: %q", got)
	}
	figures := Compare(reportOf(kind, 9, "a"), reportOf(kind, 9)).Figures
	if f := figures[2]; f != (Figure{"Errors", 1, 0}) {
		t.Errorf("%+v", figures)
	}
}

// TestVerdict: the sentence follows from the score.
func TestVerdict(t *testing.T) {
	for want, r := range map[string]*Report{
		"The site is in good order: no errors and no warnings were found.": reportOf("title-long", 9, "a"),
		"No page has an error. 1 warning deserves a look.":                 reportOf("orphan", 9, "a"),
		"No page has an error. 2 warnings deserve a look.":                 reportOf("orphan", 9, "a", "b"),
		"1 error should be fixed first: visitors or search engines run into an error on 1 of 10 pages.": reportOf(
			"title-missing", 9, "a"),
	} {
		if r.Verdict != want {
			t.Errorf("got %q, want %q", r.Verdict, want)
		}
	}
}
