package crawl

import (
	"fmt"
	"strconv"

	"drumbeat/bench/report"
)

// The targets of a run's growth.
const (
	crawlLeastLast = 0.90 // pages/s of the last tenth / those of the third
	crawlMostCPU   = 1.10 // CPU a page of the last tenth / that of the third, at equal numbers of new URLs
	crawlMostRAM   = 1.10 // RSS / --ram
)

// The tenths that are compared. Early ones have a young web, whose hosts and links are not yet those of the rest.
const (
	earlyTenth = 2
	lastTenth  = 9
)

// growth returns the table and the figures of tenths.
func (b *crawlBench) growth() (t report.Table, figures []report.Figure) {
	t = report.Table{Title: "Growth: by tenth of the run", Head: []string{"tenth", "URLs seen", "pages", "pages/s", "us/page", "new/page", "disk B/page", "RSS MiB"}}
	run := b.whole[len(b.whole)-1]
	speed := report.Figure{Name: "growth", Title: "Pages/s as the crawl grows", X: "million URLs seen", Y: "pages/s", Series: []report.Series{{Name: "pages/s"}}}
	ram := report.Figure{Name: "growth-ram", Title: "RAM as the crawl grows", X: "million URLs seen", Y: "MiB", Series: []report.Series{{Name: "RSS"},
		{Name: "--ram", Model: true}}}
	var seen int64
	for i, x := range run.Tenths {
		seen += x.Unique
		t.Add(strconv.Itoa(i+1), report.Number(float64(seen)), report.Number(float64(x.Pages)), report.Number(x.rate()),
			report.Number(x.cpu()), report.Number(x.fresh()), report.Number(x.perPage(float64(x.DiskBytes))),
			report.Number(float64(x.RSS)/(1<<20)))
		at := float64(seen) / 1e6
		speed.Series[0].Points = append(speed.Series[0].Points, report.Point{X: at, Y: x.rate()})
		ram.Series[0].Points = append(ram.Series[0].Points, report.Point{X: at, Y: float64(x.RSS) / (1 << 20)})
		ram.Series[1].Points = append(ram.Series[1].Points, report.Point{X: at, Y: float64(b.RAMBytes) / (1 << 20)})
	}
	if seen == 0 {
		t.Notes = append(t.Notes, "The run was too short for tenths.")
		return t, nil
	}
	if len(run.Tenths) == 10 {
		t.Notes = append(t.Notes, fmt.Sprintf("A new URL takes %s us of CPU, by least squares; the comparison of CPU is at the third tenth's new URLs a page.",
			report.Number(urlCPU(run.Tenths))))
	}
	return t, []report.Figure{speed, ram}
}

// growthChecks compares the last tenth with the third, and RSS with --ram.
func (b *crawlBench) growthChecks() (list []report.Check) {
	for _, run := range b.whole {
		var most int64
		for _, x := range run.Tenths {
			most = max(most, x.RSS)
		}
		list = append(list, report.AtMost("RSS throughout", float64(most)/(1<<20), crawlMostRAM*float64(b.RAMBytes)/(1<<20), "MiB"))
		if len(run.Tenths) != 10 || !run.Over && b.Resume {
			list = append(list, report.AtLeast("tenths of the run reached in time", min(9, float64(len(run.Tenths))), 10, ""))
			continue
		}
		early, last := &run.Tenths[earlyTenth], &run.Tenths[lastTenth]
		cpu := last.cpu() - urlCPU(run.Tenths)*(last.fresh()-early.fresh())
		list = append(list, report.AtLeast("pages/s of the last tenth / the third", last.rate()/early.rate(), crawlLeastLast, "times"),
			report.AtMost("CPU a page of the last tenth / the third, at equal new URLs", cpu/max(1e-9, early.cpu()), crawlMostCPU, "times"))
	}
	return list
}

// partTable lists the parts of a resumed crawl.
func (b *crawlBench) partTable() report.Table {
	run := b.whole[len(b.whole)-1]
	t := report.Table{Title: fmt.Sprintf("Parts of the crawl: %d", len(run.Parts)),
		Head: []string{"part", "began", "pages", "URLs seen", "minutes", "CPU minutes", "lost pages", "lost CPU s", "ended"}}
	var all, lost crawlPart
	for i := range run.Parts {
		p := &run.Parts[i]
		t.Add(strconv.Itoa(i+1), p.Began.UTC().Format("2006-01-02 15:04:05"), report.Number(float64(p.Pages)), report.Number(float64(p.Unique)),
			report.Number(p.Wall.Minutes()), report.Number(p.CPU.Minutes()), report.Number(float64(p.Lost.Pages)), report.Number(p.Lost.CPU.Seconds()), p.Ended)
		all.Pages, all.Unique, all.Wall, all.CPU = all.Pages+p.Pages, all.Unique+p.Unique, all.Wall+p.Wall, all.CPU+p.CPU
		lost.Pages, lost.CPU = lost.Pages+p.Lost.Pages, lost.CPU+p.Lost.CPU
	}
	t.Add("all", "", report.Number(float64(all.Pages)), report.Number(float64(all.Unique)), report.Number(all.Wall.Minutes()),
		report.Number(all.CPU.Minutes()), report.Number(float64(lost.Pages)), report.Number(lost.CPU.Seconds()), "")
	t.Notes = append(t.Notes, fmt.Sprintf("A part includes opening, recovery and its last checkpoint. Work after the last checkpoint of a killed part is lost, done again in the next, and counts once; the last %v before a kill are unknown.", courseEvery),
		"Stages, connection slots and the lines above are those of the last part; the tenths are of the whole crawl.")
	if b.saved.Note != "" {
		t.Notes = append(t.Notes, b.saved.Note)
	}
	return t
}
