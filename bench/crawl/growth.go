package crawl

import (
	"fmt"
	"strconv"

	"drumbeat/bench/result"
	"drumbeat/internal/human"
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

// growth returns the table of tenths.
func (b *crawlBench) growth() result.Table {
	t := result.Table{Title: "Growth, by tenth of the run",
		Head: []string{"tenth", "URLs seen", "pages", "pages/s", "µs/page", "new/page", "disk B/page", "RSS MiB"}}
	run := b.whole[len(b.whole)-1]
	var seen int64
	for i, x := range run.Tenths {
		seen += x.Unique
		t.Add(strconv.Itoa(i+1), human.Count(seen), human.Count(x.Pages), result.Number(x.rate()),
			result.Number(x.cpu()), result.Number(x.fresh()), result.Number(x.perPage(float64(x.DiskBytes))),
			result.Number(float64(x.RSS)/(1<<20)))
	}
	if seen == 0 {
		t.Notes = append(t.Notes, "The run was too short to divide it into tenths.")
		return t
	}
	if len(run.Tenths) == 10 {
		t.Notes = append(t.Notes,
			fmt.Sprintf("A new URL takes %s µs of CPU, by least squares. The comparison of CPU assumes the "+
				"third tenth's new URLs per page.", result.Number(urlCPU(run.Tenths))))
	}
	return t
}

// growthChecks compares the last tenth with the third, and RSS with --ram.
func (b *crawlBench) growthChecks() (list []result.Check) {
	for _, run := range b.whole {
		var most int64
		for _, x := range run.Tenths {
			most = max(most, x.RSS)
		}
		list = append(list,
			result.AtMost("RSS throughout", float64(most)/(1<<20), crawlMostRAM*float64(b.RAMBytes)/(1<<20), "MiB"))
		if len(run.Tenths) != 10 || !run.Over && b.Resume {
			list = append(list,
				result.AtLeast("tenths of the run completed within --duration",
					min(9, float64(len(run.Tenths))), 10, "of 10"))
			continue
		}
		early, last := &run.Tenths[earlyTenth], &run.Tenths[lastTenth]
		cpu := last.cpu() - urlCPU(run.Tenths)*(last.fresh()-early.fresh())
		list = append(list,
			result.AtLeast("pages/s of the last tenth / the third", last.rate()/early.rate(), crawlLeastLast, "times"),
			result.AtMost("CPU per page of the last tenth / the third, at equal new URLs",
				cpu/max(1e-9, early.cpu()),
				crawlMostCPU, "times"))
	}
	return list
}

// partTable lists the parts of a resumed crawl.
func (b *crawlBench) partTable() result.Table {
	run := b.whole[len(b.whole)-1]
	t := result.Table{Title: fmt.Sprintf("Parts of the crawl: %d", len(run.Parts)),
		Head: []string{"part", "began", "pages", "URLs seen", "minutes", "CPU minutes", "lost pages",
			"lost CPU s", "end"}}
	var all, lost crawlPart
	for i := range run.Parts {
		p := &run.Parts[i]
		t.Add(strconv.Itoa(i+1), p.Began.UTC().Format("2006-01-02 15:04:05"), human.Count(p.Pages),
			human.Count(p.Unique), result.Number(p.Wall.Minutes()), result.Number(p.CPU.Minutes()),
			human.Count(p.Lost.Pages), result.Number(p.Lost.CPU.Seconds()), p.Ended)
		all.Pages, all.Unique, all.Wall, all.CPU = all.Pages+p.Pages, all.Unique+p.Unique,
			all.Wall+p.Wall, all.CPU+p.CPU
		lost.Pages, lost.CPU = lost.Pages+p.Lost.Pages, lost.CPU+p.Lost.CPU
	}
	t.Add("all", "", human.Count(all.Pages), human.Count(all.Unique),
		result.Number(all.Wall.Minutes()), result.Number(all.CPU.Minutes()), human.Count(lost.Pages),
		result.Number(lost.CPU.Seconds()), "")
	t.Notes = append(t.Notes, fmt.Sprintf(
		"A part includes opening, recovery and its last checkpoint. The work after the last checkpoint of a "+
			"killed part is lost; the next part repeats it, and it counts once. The last %s before a kill "+
			"are unknown.",
		human.Duration(courseEvery)),
		"Stages, connection slots and the lines above describe the last part, the tenths the whole crawl.")
	if b.saved.Note != "" {
		t.Notes = append(t.Notes, b.saved.Note)
	}
	return t
}
