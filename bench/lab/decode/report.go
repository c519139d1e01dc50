package decode

import (
	"fmt"

	"drumbeat/bench/report"
)

// decodeSum is what a decoder took for all pages in one repeat.
type decodeSum struct {
	pages, bytes int64
	cpu          float64 // ns
	allocs       uint64
}

// sums are the repeats of a decoder, with the classes weighed as the pages are; class -1: all.
func (r *decodeRun) sums(kind, decoder string, class int) (sums []decodeSum) {
	seen := make([]int, len(r.classes))
	for _, p := range r.passes {
		if p.kind != kind || p.decoder != decoder || class >= 0 && class != p.class {
			continue
		}
		repeat := seen[p.class]
		if seen[p.class]++; repeat == len(sums) {
			sums = append(sums, decodeSum{})
		}
		s, times := &sums[repeat], p.pages/int64(len(r.classes[p.class]))
		s.pages += p.pages / times
		s.bytes += p.bytes / times
		s.cpu += p.cpu / float64(times)
		s.allocs += p.allocs / uint64(times)
	}
	return sums
}

// decodeFigures are what is shown of the repeats: CPU of a page in µs, MB/s of output, allocations a page.
func decodeFigures(sums []decodeSum) (costs, rates, allocs report.Sample) {
	for _, s := range sums {
		costs = append(costs, s.cpu/1e3/float64(s.pages))
		rates = append(rates, float64(s.bytes)*1e3/s.cpu)
		allocs = append(allocs, float64(s.allocs)/float64(s.pages))
	}
	return costs, rates, allocs
}

// report fills rep.
func (r *decodeRun) report(rep *report.Report, pages int) {
	rep.Set("pages", "%s: %d bytes on average", r.source, r.bytes/int64(pages))
	rep.Set("measured", "%d times, decoders in turns; all pages, small corpora more than once", r.o.Repeat)
	for _, kind := range r.kinds {
		t := report.Table{
			Title: fmt.Sprintf("%s: %d bytes a page packed, 1 to %.1f", kind.name, r.packed[kind.name]/int64(pages),
				float64(r.bytes)/float64(r.packed[kind.name])),
			Head: []string{"decoder", "µs/page", "spread", "MB/s", "allocs/page", "ours is faster by", "spread"},
		}
		ours, _, _ := decodeFigures(r.sums(kind.name, byInflate, -1))
		for _, d := range kind.decoders {
			sums := r.sums(kind.name, d.name, -1)
			costs, rates, allocs := decodeFigures(sums)
			for i := range costs {
				rep.Add(fmt.Sprintf("BenchmarkDecode/%s/decoder=%s", kind.name, d.name), sums[i].pages,
					report.Metric{Value: costs[i] * 1e3, Unit: "ns/op"}, report.Metric{Value: rates[i], Unit: "MB/s"},
					report.Metric{Value: allocs[i], Unit: "allocs/op"})
			}
			ratio, spread := "-", "-"
			if d.name != byInflate && len(ours) > 0 {
				ratios := costs.Over(ours)
				ratio, spread = report.Number(ratios.Median()), ratios.Spread()
			}
			t.Add(d.name, report.Number(costs.Median()), costs.Spread(), report.Number(rates.Median()),
				report.Number(allocs.Median()), ratio, spread)
			if d.name == byInflate {
				rep.Checks = append(rep.Checks, report.AtMost("allocations a page of our decoder, "+kind.name, allocs.Median(), 0.01, ""))
			}
			if d.name == byKlauspost && len(ours) > 0 {
				rep.Checks = append(rep.Checks, report.AtLeast("our decoder beside klauspost's, "+kind.name,
					costs.Over(ours).Median(), checkedDecode, "times as fast"))
			}
		}
		rep.Tables = append(rep.Tables, t)
	}
	r.addClasses(rep)
	rep.Notes = append(rep.Notes, "CPU is that of the thread, with what the collector has it do. Speeds are those of the decoded bytes. Each decoder has given back",
		"every page before. Buffers are there already; gzip and zstd verify checksums, deflate is raw and has none.")
}

// addClasses adds the table and the figure of gzip by size of page.
func (r *decodeRun) addClasses(rep *report.Report) {
	kind := r.kinds[len(r.o.Levels)/2]
	t := report.Table{Title: kind.name + ", by size of page", Head: []string{"bytes up to", "pages", "mean", "decoder", "µs/page", "MB/s"}}
	f := report.Figure{Name: "size", Title: kind.name, X: "page, bytes", Y: "MB/s", LogX: true}
	for _, d := range kind.decoders {
		f.Series = append(f.Series, report.Series{Name: d.name})
	}
	for class, pages := range r.classes {
		for i, d := range kind.decoders {
			sums := r.sums(kind.name, d.name, class)
			if len(sums) == 0 {
				continue
			}
			costs, rates, _ := decodeFigures(sums)
			mean := sums[0].bytes / sums[0].pages
			t.Add(report.Number(float64(decodeClasses[class])), report.Number(float64(len(pages))), report.Number(float64(mean)), d.name,
				report.Number(costs.Median()), report.Number(rates.Median()))
			f.Series[i].Points = append(f.Series[i].Points, report.Point{X: float64(mean), Y: rates.Median()})
		}
	}
	rep.Tables, rep.Figures = append(rep.Tables, t), append(rep.Figures, f)
}
