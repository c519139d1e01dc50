package extract

import (
	"cmp"
	"fmt"
	"slices"

	"drumbeat/bench/result"
)

// group is the pages of a row of the report.
type group struct {
	name  string
	pages []outcome
}

// mean returns the mean of a figure of the pages.
func (g *group) mean(figure func(*outcome) float64) float64 {
	sum := 0.0
	for i := range g.pages {
		sum += figure(&g.pages[i])
	}
	return sum / float64(max(1, len(g.pages)))
}

// total returns precision, recall and F1 of the pages. In scrapinghub's benchmark, F1 is that of the means.
func (g *group) total(shingled bool) score {
	if !shingled {
		return score{g.mean(func(o *outcome) float64 { return o.precision }),
			g.mean(func(o *outcome) float64 { return o.recall }), g.mean(func(o *outcome) float64 { return o.f1 }),
			g.mean(func(o *outcome) float64 { return o.with }), g.mean(func(o *outcome) float64 { return o.without })}
	}
	var got, want group
	for _, o := range g.pages {
		if !o.empty {
			got.pages = append(got.pages, o)
		}
		if len(wordsOf(o.Main)) > 0 {
			want.pages = append(want.pages, o)
		}
	}
	p, r := got.mean(func(o *outcome) float64 { return o.precision }),
		want.mean(func(o *outcome) float64 { return o.recall })
	return score{precision: p, recall: r, f1: harmonic(p, r)}
}

// groups returns the rows: all pages, the two halves, and each type.
func groups(all []outcome) []*group {
	list := []*group{{name: "all", pages: all}, {name: "half 1"}, {name: "half 2"}}
	byType := map[string]*group{}
	for _, o := range all {
		half := list[1+o.half]
		half.pages = append(half.pages, o)
		if o.Type == "" {
			continue
		}
		g := byType[o.Type]
		if g == nil {
			g = &group{name: o.Type}
			byType[o.Type] = g
		}
		g.pages = append(g.pages, o)
	}
	types := make([]*group, 0, len(byType))
	for _, g := range byType {
		types = append(types, g)
	}
	slices.SortFunc(types, func(a, b *group) int { return cmp.Compare(a.name, b.name) })
	return append(list, types...)
}

// report fills in r.
func (c *corpus) report(r *result.Report, all []outcome, worst int) {
	t := result.Table{Title: "Main text", Head: []string{"pages of", "pages", "precision", "recall", "F1"}}
	if !c.shingled {
		t.Head = append(t.Head, "with", "without")
	}
	t.Head = append(t.Head, "ms/page")
	for _, g := range groups(all) {
		s := g.total(c.shingled)
		ms := g.mean(func(o *outcome) float64 { return o.took.Seconds() * 1e3 })
		row := []string{g.name, fmt.Sprint(len(g.pages)), share3(s.precision), share3(s.recall), share3(s.f1)}
		if !c.shingled {
			row = append(row, share3(s.with), share3(s.without))
		}
		t.Add(append(row, fmt.Sprintf("%.2f", ms))...)
		metrics := []result.Metric{{Value: s.precision, Unit: "precision"}, {Value: s.recall, Unit: "recall"},
			{Value: s.f1, Unit: "F1"}, {Value: ms, Unit: "ms/page"}}
		if g.name == "all" {
			size := g.mean(func(o *outcome) float64 { return float64(o.bytes) })
			metrics = append(metrics, result.Metric{Value: size / ms / 1e3, Unit: "MB/s"})
		}
		r.Add("BenchmarkExtract/pages="+g.name, int64(len(g.pages)), metrics...)
	}
	t.Notes = []string{"with: share of the snippets that must be in the text and are; " +
		"without: share of those that must not be in it and are"}
	if c.shingled {
		t.Notes = []string{"of shingles of four words"}
	}
	r.Tables = append(r.Tables, t)
	reportStructure(r, all)
	if worst == 0 {
		return
	}
	t = result.Table{Title: "Worst pages", Head: []string{"page", "type", "precision", "recall", "F1", "KiB", "ms"}}
	sorted := slices.SortedStableFunc(slices.Values(all), func(a, b outcome) int { return cmp.Compare(a.f1, b.f1) })
	for _, o := range sorted[:min(worst, len(sorted))] {
		t.Add(o.ID, o.Type, share3(o.precision), share3(o.recall), share3(o.f1), fmt.Sprint(o.bytes>>10),
			fmt.Sprintf("%.2f", o.took.Seconds()*1e3))
	}
	r.Tables = append(r.Tables, t)
}

// reportStructure reports how far the Markdown has the structure of that of the truth.
func reportStructure(r *result.Report, all []outcome) {
	t := result.Table{Title: "Markdown", Head: []string{"words of", "pages", "precision", "recall", "F1"},
		Notes: []string{"of the pages whose Markdown in the corpus has the structure"}}
	for _, kind := range kinds {
		var of group
		for _, o := range all {
			if s, ok := o.structure[kind]; ok {
				o.score = s
				of.pages = append(of.pages, o)
			}
		}
		if len(of.pages) == 0 {
			continue
		}
		s := of.total(false)
		t.Add(kind, fmt.Sprint(len(of.pages)), share3(s.precision), share3(s.recall), share3(s.f1))
		r.Add("BenchmarkMarkdown/structure="+kind, int64(len(of.pages)), result.Metric{Value: s.f1, Unit: "F1"})
	}
	if len(t.Rows) > 0 {
		r.Tables = append(r.Tables, t)
	}
}

// share3 prints a share.
func share3(v float64) string { return fmt.Sprintf("%.3f", v) }
