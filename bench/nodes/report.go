package nodes

import (
	"fmt"
	"slices"

	"drumbeat/bench/report"
)

// balanceTarget is the most that the largest node may have, over the mean, of a web without a huge PLD.
const balanceTarget = 1.1

// report fills in r with the results of a web without a huge PLD, and of one with it.
func (o *Options) report(r *report.Report, results []*result, balances []balance) {
	plain := results[0]
	r.Set("web", "%s URLs, %s PLDs (sizes fall as x^-%g, the largest has %s), %s hosts; %d links a page, %g of them to other PLDs",
		report.Power(float64(o.URLs)), report.Number(float64(o.URLs/o.PLDURLs)), o.Exponent, report.Number(float64(plain.LargestPLD)),
		report.Number(float64(plain.Hosts)), o.Links, o.Away)
	r.Set("nodes", "%d of %d pages/s, %v between visits of a host, a checkpoint every %v", o.Nodes, o.Rate, o.HostDelay, o.Checkpoint)
	r.Set("time", "virtual; seconds of CPU say nothing about a crawl")
	t := report.Table{Title: "What nodes exchange", Head: []string{"", "no huge PLD", fmt.Sprintf("one PLD has %g", o.Huge)}}
	for _, row := range []struct {
		name string
		of   func(x *result) string
	}{
		{"pages", func(x *result) string { return report.Number(float64(x.Pages)) }},
		{"crawl, s", func(x *result) string { return report.Number(float64(x.Seconds)) }},
		{"of the time at full rate", func(x *result) string { return fmt.Sprintf("%.2f", float64(x.Seconds)/o.ideal()) }},
		{"half of the nodes have ended, s", func(x *result) string { return report.Number(float64(median(x.NodeEnds))) }},
		{"largest node over mean, URLs", func(x *result) string { return fmt.Sprintf("%.3f", overMean(x.NodePages)) }},
		{"links behind the caches, a page", func(x *result) string { return report.Number(float64(x.Links) / float64(x.Pages)) }},
		{"links to other nodes, a page", func(x *result) string { return report.Number(float64(x.Sent) / float64(x.Pages)) }},
		{"links/s exchanged, mean", func(x *result) string { return report.Number(float64(x.Sent) / float64(x.Seconds)) }},
		{"links/s exchanged, most", func(x *result) string { return report.Number(float64(x.MostSent)) }},
		{"wait of a link, mean, s", func(x *result) string { return report.Number(x.WaitSum / float64(x.Received)) }},
		{"wait of a link, 50 % and 99 %, s", func(x *result) string { return fmt.Sprintf("%d, %d", x.quantile(0.5), x.quantile(0.99)) }},
		{"wait of a link, most, s", func(x *result) string { return report.Number(float64(x.MostWait)) }},
		{"bytes a link on the way", func(x *result) string { return report.Number(x.Bytes / float64(x.Sent)) }},
		{"links a message", func(x *result) string { return report.Number(float64(x.Sent) / float64(x.Messages)) }},
		{"broker takes, bytes/s", func(x *result) string { return report.DecimalBytes(x.Bytes / float64(x.Seconds)) }},
		{"broker sends marks, bytes/s", func(x *result) string { return report.DecimalBytes(x.MarkBytes / float64(x.Seconds)) }},
		{"checkpoints of a node", func(x *result) string { return report.Number(float64(x.Checkpoints) / float64(o.Nodes)) }},
		{"outboxes of a node on disk, most", func(x *result) string { return report.DecimalBytes(x.MostHeld) }},
	} {
		t.Add(row.name, row.of(plain), row.of(results[1]))
	}
	r.Tables = append(r.Tables, t, o.rates(results), o.balanceTable(balances))
	r.Figures = append(r.Figures, o.figure(results))
	for i, x := range results {
		name := [...]string{"none", "one"}[i]
		r.Add("BenchmarkNodes/huge="+name, x.Pages, report.Metric{Value: float64(x.Sent) / float64(x.Seconds), Unit: "links/s"},
			report.Metric{Value: x.WaitSum / float64(x.Received), Unit: "wait-s/link"}, report.Metric{Value: x.Bytes / float64(x.Sent), Unit: "B/link"},
			report.Metric{Value: overMean(x.NodePages), Unit: "largest/mean"}, report.Metric{Value: float64(x.Seconds), Unit: "virtual-s"})
		r.Checks = append(r.Checks,
			report.Within("pages fetched, huge PLD: "+name, float64(x.Pages), float64(o.URLs), 0, "of all URLs"),
			report.AtMost("URLs fetched twice, huge PLD: "+name, float64(x.Again), 0, "URLs"),
			report.Within("links taken, huge PLD: "+name, float64(x.Received), float64(x.Sent), 0, "of those sent"))
	}
	r.Checks = append(r.Checks, report.AtMost(fmt.Sprintf("largest node over mean, exponent %g, worst of %d seeds", o.Exponent, balanceSeeds),
		balances[0].worst, balanceTarget, "x"))
}

// ideal is the time of the crawl if all nodes fetch at their rate until the end.
func (o *Options) ideal() float64 { return float64(o.URLs) / float64(o.Nodes*o.Rate) }

// rateRows is the number of times at which the table of rates looks.
const rateRows = 12

// rates returns the pages/s of nodes over time.
func (o *Options) rates(results []*result) report.Table {
	t := report.Table{Title: "Pages/s of a node over time: least, mean, most", Head: []string{"crawled", "s", "no huge PLD", "s", "with one"},
		Notes: []string{fmt.Sprintf("In samples of %d s.", sampled)}}
	for row := range rateRows {
		cells := []string{fmt.Sprintf("%.0f %%", 100*float64(row)/(rateRows-1))}
		for _, x := range results {
			i := row * (len(x.Samples) - 1) / (rateRows - 1)
			least, mean, most := spread(x.Samples[i], x.sampleSeconds(i))
			cells = append(cells, report.Number(float64(i*sampled)), fmt.Sprintf("%.1f, %.1f, %.1f", least, mean, most))
		}
		t.Add(cells...)
	}
	t.Head[0] = "of the time"
	return t
}

// sampleSeconds returns the length of a sample; the last one may be short.
func (x *result) sampleSeconds(i int) float64 {
	if i == len(x.Samples)-1 {
		return float64(max(1, x.Seconds+1-i*sampled))
	}
	return sampled
}

func spread(pages []int, seconds float64) (least, mean, most float64) {
	sum := 0
	for _, n := range pages {
		sum += n
	}
	return float64(slices.Min(pages)) / seconds, float64(sum) / seconds / float64(len(pages)), float64(slices.Max(pages)) / seconds
}

func (o *Options) balanceTable(list []balance) report.Table {
	t := report.Table{Title: fmt.Sprintf("URLs of the largest of %d nodes over the mean", o.Nodes),
		Head:  []string{"exponent", "largest PLD has", "mean", "worst"},
		Notes: []string{fmt.Sprintf("Of %d seeds. A node's fair share is %.3g %% of all URLs.", balanceSeeds, 100/float64(o.Nodes))}}
	for _, b := range list {
		t.Add(fmt.Sprintf("%g", b.exponent), fmt.Sprintf("%.2g %%", 100*b.largestPLD), fmt.Sprintf("%.3f", b.mean), fmt.Sprintf("%.3f", b.worst))
	}
	return t
}

// figure draws the mean rate of all nodes over time.
func (o *Options) figure(results []*result) report.Figure {
	f := report.Figure{Name: "rates", Title: fmt.Sprintf("Pages/s of %d nodes", o.Nodes), X: "seconds", Y: "pages/s of all nodes"}
	for k, x := range results {
		for i, pages := range x.Samples {
			_, mean, _ := spread(pages, x.sampleSeconds(i))
			f.Add([...]string{"no huge PLD", "one huge PLD"}[k], float64(i*sampled), mean*float64(o.Nodes))
		}
	}
	return f
}

// quantile returns the seconds that a share of the links waited at most.
func (x *result) quantile(share float64) int {
	left := int64(share * float64(x.Received))
	for wait, n := range x.Wait {
		if left -= n; left < 0 {
			return wait
		}
	}
	return waits
}

func median(list []int) int {
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}
