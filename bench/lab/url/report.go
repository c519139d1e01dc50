package url

import (
	"fmt"

	"drumbeat/bench/report"
)

// The targets, for plain references and the mix.
const (
	urlTarget      = 100 // ns a link at most
	urlRatioTarget = 4   // times as fast as net/url at least
)

// ratio is how many times as long another method takes as ours: the median of the repeats' ratios, which were measured one
// right after the other.
func (c *urlCase) ratio(method int) float64 {
	return c.ns[method].Over(c.ns[methodOurs]).Median()
}

func (res *urlResult) report(o *Options, r *report.Report) {
	if len(o.Corpus) > 0 {
		r.Set("corpus", "%d HTML files, %d left out (beyond %d MiB, or too long a name); %d of them timed", res.files, res.skipped, maxCorpusPage>>20, len(res.pages))
	} else {
		r.Set("corpus", "made: %d pages of %d links", len(res.pages), linksPerPage)
	}
	r.Set("time", "CPU time of this process, garbage collection included; bases are parsed before, the methods take turns")
	for _, c := range append(res.cases, res.lengths...) {
		for i, m := range urlMethods {
			for _, ns := range c.ns[i] {
				r.Add(fmt.Sprintf("BenchmarkURL/refs=%s/method=%s", c.name, m.name), int64(c.refs), report.Metric{Value: ns, Unit: "ns/op"},
					report.Metric{Value: c.alloc[i], Unit: "B/op"}, report.Metric{Value: c.allocs[i], Unit: "allocs/op"})
			}
		}
	}
	r.Tables = append(r.Tables, res.caseTable())
	r.Figures = append(r.Figures, res.lengthFigure())
	res.checks(r)
	e := &res.equal
	r.Notes = append(r.Notes, fmt.Sprintf("Compared with the standard's library: %d references of %d pages, of which %d are different on their page; "+
		"%.1f %% of these are plain. %d were left out: queries in another encoding than UTF-8, hosts of more than 255 bytes.",
		e.refs, e.pages, e.compared, 100*float64(e.plain)/float64(max(1, e.compared)), e.skipped),
		fmt.Sprintf("net/url makes something else of %d of them (%.2f %%).", e.stdOther, 100*float64(e.stdOther)/float64(max(1, e.compared))))
	for _, d := range e.different {
		r.Notes = append(r.Notes, "Different: "+d)
	}
}

func (res *urlResult) caseTable() report.Table {
	t := report.Table{Title: "ns to make a canonical URL of a reference, and allocations",
		Head: []string{"references", "such as", "bytes", "ours", "spread", "allocs", "net/url", "allocs", "times", "whatwg-url", "allocs", "times"}}
	for _, c := range res.cases {
		row := []string{c.name, c.like, fmt.Sprintf("%.0f", c.bytes), report.Number(c.ns[methodOurs].Median()), c.ns[methodOurs].Spread(),
			fmt.Sprintf("%.2g", c.allocs[methodOurs])}
		for _, m := range []int{methodStd, methodLib} {
			row = append(row, report.Number(c.ns[m].Median()), fmt.Sprintf("%.1f", c.allocs[m]), fmt.Sprintf("%.1f", c.ratio(m)))
		}
		t.Add(row...)
	}
	t.Notes = []string{"The first eight are plain: they have a target. A reference that is no URL counts, too. Times: ratio to ours in the same turn."}
	return t
}

func (res *urlResult) lengthFigure() report.Figure {
	f := report.Figure{Name: "length", Title: "Plain relative references", X: "bytes of the reference", Y: "ns of CPU", LogX: true, LogY: true}
	for i, m := range urlMethods {
		s := report.Series{Name: m.name}
		for _, c := range res.lengths {
			s.Points = append(s.Points, report.Point{X: c.bytes, Y: c.ns[i].Median()})
		}
		f.Series = append(f.Series, s)
	}
	return f
}

func (res *urlResult) checks(r *report.Report) {
	for _, c := range res.cases {
		if !c.plain {
			continue
		}
		r.Checks = append(r.Checks, report.AtMost(c.name+": ours", c.ns[methodOurs].Median(), urlTarget, "ns"),
			report.AtLeast(c.name+": net/url takes", c.ratio(methodStd), urlRatioTarget, "times as long"))
		if c.name != "mix" {
			r.Checks = append(r.Checks, report.AtMost(c.name+": allocations", c.allocs[methodOurs], 0, "a link"))
		}
	}
	r.Checks = append(r.Checks,
		report.AtMost(fmt.Sprintf("plain references whose URL isn't the standard's, of %d", res.equal.plain), float64(res.equal.plainWrong), 0, "references"),
		report.AtMost(fmt.Sprintf("references whose URL isn't the standard's, of %d", res.equal.compared), float64(res.equal.differing), 0, "references"))
}
