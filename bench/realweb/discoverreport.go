package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"drumbeat/bench/docweb"
	"drumbeat/bench/result"
)

// report fills rep from the trials.
func (d *discovery) report(rep *result.Report, f docweb.Figures) {
	rep.Command = fmt.Sprintf("scripts/realweb.sh race --web %s --seeds %d --pairs %d", d.Web, d.Seeds, d.Pairs)
	if d.BadHosts {
		rep.Command += " --bad-hosts"
	}
	rep.Set("web", "%d hosts on %d addresses, %d pages, mean %.1f KB, %.0f links per page; "+
		"%d seeds lead to %d pages of %d hosts", f.Hosts, f.Addrs,
		f.Pages, f.MeanBytes/1e3, float64(d.expect.Links)/float64(d.expect.Pages), d.Seeds, d.expect.Pages,
		d.expect.Hosts)
	rep.Set("server", "on the same CPUs; %.0f %% of the bytes uncompressed, the rest compressed in advance "+
		"(gzip); %.1f KB sent per page", 100*f.Plain, f.SentBytes/1e3)
	d.describe(rep, d.Contenders, d.Work, func(name string) *exec.Cmd { return d.command(name, "DIR") })
	if d.absent != "" {
		rep.Set("wget2 is left out", "%s", d.absent)
	}
	for _, name := range d.Contenders {
		for _, l := range d.runs[name] {
			rep.Add("BenchmarkDiscover/client="+name, int64(l.Pages), d.metrics(l)...)
		}
	}
	rep.Tables = append(rep.Tables, d.table(), d.startTable(), d.secondsTable(), d.found())
	if t := d.slotTable(); len(t.Rows) > 0 {
		rep.Tables = append(rep.Tables, t)
	}
	d.ratios(rep)
	for _, name := range d.Contenders {
		if !isDrumbeat(name) {
			continue
		}
		most := func(figure func(*discoverTrial) float64) float64 {
			return slices.Max(append(result.Of(d.runs[name], figure), 0))
		}
		rep.Checks = append(rep.Checks,
			result.AtMost("pages that "+name+" missed",
				most(func(l *discoverTrial) float64 { return float64(l.Missing) }), 0, "pages"),
			result.AtMost("pages that "+name+" fetched twice",
				most(func(l *discoverTrial) float64 { return float64(l.Twice) }), 0, "pages"),
			result.AtMost("pages that "+name+" should not have fetched",
				most(func(l *discoverTrial) float64 { return float64(l.Extra) }), 0, "pages"))
	}
}

func (d *discovery) metrics(l *discoverTrial) []result.Metric {
	return []result.Metric{{Value: float64(l.span().Nanoseconds()) / float64(max(l.Pages, 1)), Unit: "ns/op"},
		{Value: l.rate(), Unit: "pages/s"},
		{Value: l.cpuMicros(), Unit: "cpu-us/page"}, {Value: l.perPage(l.serverCPU), Unit: "server-cpu-us/page"},
		{Value: 100 * l.idle, Unit: "idle-%"},
		{Value: float64(l.rssBytes) / 1e6, Unit: "rss-MB"}, {Value: float64(l.hundredth().Microseconds()) / 1e3,
			Unit: "ms-to-100-pages"},
		{Value: 100 * l.worst(), Unit: "worst-second-%"}, {Value: 100 * l.slowShare(), Unit: "slow-seconds-%"}}
}

func (d *discovery) table() result.Table {
	t := d.runs.medians("medians", d.Contenders, []column[*discoverTrial]{
		{"pages/s", "%.0f", (*discoverTrial).rate},
		{"CPU µs/page", "%.0f", (*discoverTrial).cpuMicros},
		{"server µs/page", "%.0f", func(l *discoverTrial) float64 { return l.perPage(l.serverCPU) }},
		{"CPUs idle", "%.0f %%", func(l *discoverTrial) float64 { return 100 * l.idle }},
		{"RSS MB", "%.0f", func(l *discoverTrial) float64 { return float64(l.rssBytes) / 1e6 }},
		{"last page, s", "%.2f", func(l *discoverTrial) float64 { return l.span().Seconds() }},
		{"end, s", "%.2f", func(l *discoverTrial) float64 { return l.wall.Seconds() }},
	})
	d.runs.spread(&t, (*discoverTrial).rate)
	t.Notes = []string{
		"pages/s: from the start of the process to its last page. CPU: of the whole process, including its end."}
	return t
}

func (d *discovery) startTable() result.Table {
	t := d.runs.medians("start and stalls, medians", d.Contenders, []column[*discoverTrial]{
		{"first answer, s", "%.2f", func(l *discoverTrial) float64 { return l.First.Seconds() }},
		{"100 pages, s", "%.2f", func(l *discoverTrial) float64 { return l.hundredth().Seconds() }},
		{"worst second", "%.0f %%", func(l *discoverTrial) float64 { return 100 * l.worst() }},
		{"slow seconds", "%.0f %%", func(l *discoverTrial) float64 { return 100 * l.slowShare() }},
	})
	t.Notes = []string{"100 pages: from the first answer. worst second: its pages as a share of the mean.",
		"slow seconds: share of the seconds below half of the mean. Both leave out the first two seconds."}
	return t
}

// secondsTable has the pages of each second of the last trials.
func (d *discovery) secondsTable() result.Table {
	t := result.Table{Title: "pages in each second, last trial", Head: []string{"contender", "pages"}}
	for _, name := range d.Contenders {
		l := d.runs.last(name)
		t.Add(name, strings.Trim(fmt.Sprint(l.seconds()), "[]"))
	}
	return t
}

// found compares the pages of each contender with those that it must fetch; the worst trial counts.
func (d *discovery) found() result.Table {
	t := result.Table{Title: fmt.Sprintf("pages in the server's log; a crawl must fetch %d", d.expect.Pages),
		Head: []string{"contender", "pages", "missed", "twice", "forbidden", "404", "301", "others"}}
	for _, name := range d.Contenders {
		l := slices.MaxFunc(d.runs[name], func(a, b *discoverTrial) int {
			return a.Missing + a.Twice +
				a.Extra - b.Missing - b.Twice - b.Extra
		})
		row := []string{name}
		for _, n := range []int{l.Pages, l.Missing, l.Twice, l.Extra, l.Gone, l.Moved, l.Other} {
			row = append(row, fmt.Sprint(n))
		}
		t.Add(row...)
		for _, u := range l.MissedOf {
			t.Notes = append(t.Notes, name+" missed "+u)
		}
	}
	t.Notes = append(t.Notes, "forbidden: pages that robots.txt forbids or whose robots.txt answers 500; "+
		"others: robots.txt, unknown URLs, bad hosts.")
	return t
}

// slotTable has the use of drumbeat's connection slots.
func (d *discovery) slotTable() result.Table {
	t := result.Table{Title: "use of connection slots, last trial, from the crawler's metrics",
		Head: []string{"contender", "share"}}
	for _, name := range d.Contenders {
		if l := d.runs.last(name); len(l.slots) > 0 {
			t.Add(name, slotsText(l.slots))
		}
	}
	return t
}

// ratios adds the ratios of medians to the report.
func (d *discovery) ratios(rep *result.Report) {
	leastBad := 0.0
	if d.MostBad > 0 {
		leastBad = 1 - d.MostBad
	}
	d.runs.ratios(rep, "Discover", (*discoverTrial).rate, (*discoverTrial).cpuMicros, []ratio{
		{drumbeatName, wget2Name, d.LeastWget2, 0}, {drumbeatName, bareName, d.LeastBare, d.MostCPU},
		{noStoreName, bareNoStoreName, 0, 0}, {listsName, drumbeatName, 0, 0}, {badName, listsName, leastBad, 0}})
}
