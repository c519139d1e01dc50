package budget

import (
	"fmt"

	"drumbeat/bench/result"
	"drumbeat/internal/human"
)

// starReport fills in r.
func starReport(o *Star, runs map[string][]*starRun, r *result.Report) {
	r.Set("plds", "%d (V), linked by %s pairs; the giant has %s in-neighbours", o.PLDs, result.Power(float64(o.Edges)),
		result.Power(float64(o.Neighbours)))
	d := o.drum()
	r.Set("drums", "k = %d, M = %d KiB, r = %d KiB each; at most %.1f MiB of RAM together", d.Buckets,
		d.BufferBytes>>10, d.BucketBytes>>10, float64(runs[caseUniform][0].ram)/(1<<20))
	r.Set("page cache", "bypassed (O_DIRECT) where the file system supports that")
	for _, kind := range starCases {
		for _, run := range runs[kind] {
			run.lines(r)
		}
	}
	r.Tables = append(r.Tables,
		phaseTable(runs, fmt.Sprintf("Update: links between PLDs (the share of new pairs is %g, except in "+
			"onekey)", o.Unique),
			"link",
			func(s *starRun) *phase { return &s.update }),
		phaseTable(runs, "Check: URLs of 110 B", "URL", func(s *starRun) *phase { return &s.check }), starTable(runs))
	r.Checks = starChecks(runs)
	r.Notes = append(r.Notes,
		"uniform: equal in-degrees. power: in-degree ~ rank^-0.9, URLs in proportion. giant: the same, and "+
			"--neighbours PLDs link to one PLD.",
		"onekey: 90 % of the links are one pair, and 90 % of the URLs belong to one PLD. Unlike a crawl, "+
			"the benchmark has no RAM cache of recent pairs in front.",
		"Times and CPU exclude the generator, which is measured separately. They include all passes, and "+
			"the early ones at the end.")
}

func (r *starRun) lines(rep *result.Report) {
	for _, l := range []struct {
		name, op string
		p        *phase
	}{{"BenchmarkStarUpdate", "link", &r.update}, {"BenchmarkStarCheck", "url", &r.check}} {
		rep.Add(l.name+"/case="+r.kind, l.p.n,
			result.Metric{Value: float64(l.p.wall.Nanoseconds()) / float64(l.p.n), Unit: "ns/op"},
			result.Metric{Value: l.p.rate(), Unit: l.op + "s/s"},
			result.Metric{Value: l.p.cost(), Unit: "cpu-ns/" + l.op}, result.Metric{Value: l.p.perOp(),
				Unit: "io-B/" + l.op}, result.Metric{Value: float64(l.p.passes), Unit: "passes"},
			result.Metric{Value: float64(l.p.generator.Nanoseconds()) / float64(l.p.n), Unit: "generator-ns"})
	}
}

func phaseTable(runs map[string][]*starRun, title, op string, of func(*starRun) *phase) result.Table {
	t := result.Table{Title: title,
		Head: []string{"case", op + "s", "passes", "M " + op + "s/s", "spread", "CPU ns/" + op, "spread",
			"I/O B/" + op, "generator ns"}}
	for _, kind := range starCases {
		list := runs[kind]
		last := of(list[len(list)-1])
		rate := result.Of(list, func(s *starRun) float64 { return of(s).rate() / 1e6 })
		cost := result.Of(list, func(s *starRun) float64 { return of(s).cost() })
		io := result.Of(list, func(s *starRun) float64 { return of(s).perOp() })
		t.Add(kind, human.Count(last.n), fmt.Sprint(last.passes),
			result.Number(rate.Median()), rate.Spread(), result.Number(cost.Median()), cost.Spread(),
			result.Number(io.Median()), result.Number(float64(last.generator.Nanoseconds())/float64(last.n)))
	}
	return t
}

func starTable(runs map[string][]*starRun) result.Table {
	t := result.Table{Title: "In-degrees, budgets, RAM",
		Head: []string{"case", "pairs", "largest in-degree", "wrong in-degrees", "wrong budgets", "bits/pair on disk",
			"RSS MiB", "planned MiB"}}
	for _, kind := range starCases {
		list := runs[kind]
		last := list[len(list)-1]
		rss := result.Of(list, func(s *starRun) float64 { return float64(s.rss) / (1 << 20) })
		t.Add(kind, human.Count(last.pairs), human.Count(int64(last.largest)),
			fmt.Sprint(last.wrongDegrees), fmt.Sprint(last.wrongBudgets), fmt.Sprintf("%.1f", last.bits),
			result.Number(rss.Median()), result.Number(float64(last.ram)/(1<<20)))
	}
	return t
}

func starChecks(runs map[string][]*starRun) (list []result.Check) {
	var degrees, budgets int64
	over := 0.0
	for _, kind := range starCases {
		for _, run := range runs[kind] {
			degrees += run.wrongDegrees
			budgets += run.wrongBudgets
			over = max(over, float64(run.rss)-1.25*float64(run.ram))
		}
	}
	list = append(list,
		result.AtMost("PLDs whose in-degree differs from the generator's count, all runs", float64(degrees), 0, "PLDs"),
		result.AtMost("URLs whose budget differs from F, all runs", float64(budgets), 0, "URLs"),
		result.AtMost("RSS above 1.25 R", over/(1<<20), 64, "MiB"))
	for _, p := range []struct {
		name string
		of   func(*starRun) *phase
	}{{"update", func(s *starRun) *phase { return &s.update }},
		{"check", func(s *starRun) *phase { return &s.check }}} {
		for _, kind := range starCases[1:] {
			var share result.Sample // ratios within one repeat, under the same load of the machine
			for i, run := range runs[kind] {
				share = append(share, p.of(run).rate()/p.of(runs[caseUniform][i]).rate())
			}
			list = append(list,
				result.AtLeast(fmt.Sprintf("%s rate, %s / uniform", p.name, kind), share.Median(), 0.5, "x"))
		}
	}
	return list
}
