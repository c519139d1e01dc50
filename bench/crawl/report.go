package crawl

import (
	"fmt"
	"strconv"
	"time"

	"drumbeat/bench/result"
	"drumbeat/internal/human"
	"drumbeat/state/snapshot"
)

// The targets of bench crawl: CPU of the crawler's process per page, and pages/s compared with the bare loop.
const (
	crawlMostHTTP    = 330. // µs
	crawlMostHTTPS   = 350.
	crawlLeastOfBare = 0.30
)

// report combines the runs.
func (b *crawlBench) report() *result.Report {
	r := result.New("crawl", "the whole crawler against a web of known size, and its CPU by stage")
	b.settings(r)
	for _, run := range append(b.bare[:len(b.bare):len(b.bare)], b.whole...) {
		r.Add(b.lineName(run), run.Pages, b.metrics(run)...)
	}
	r.Tables = append(r.Tables, b.rateTable(), b.stageTable(), b.slotTable())
	if b.Growth {
		r.Tables = append(r.Tables, b.growth(), b.seenTable(), b.sizeTable())
	}
	if b.Resume {
		r.Tables = append(r.Tables, b.partTable())
	}
	r.Checks = b.checks()
	r.Notes = b.notes()
	return r
}

func (b *crawlBench) settings(r *result.Report) {
	w := &b.web
	r.Set("web", "%d hosts, %d PLDs, %d addresses; pages of %d bytes, %d links, %v new, %v to new hosts; gzip %v, "+
		"https %v, seed %d", w.Hosts, w.PLDs, w.Addrs, w.PageBytes, w.Links, w.New, w.NewHosts, w.Gzip, w.HTTPS, w.Seed)
	how := "sockets, the web in another process, one page per connection"
	if b.KeepAlive > 0 {
		how = "sockets, the web in another process, connections kept open for " + human.Duration(b.KeepAlive)
	}
	if b.inProcess {
		how = "none: this process generates the responses"
	}
	r.Set("transport", "%s", how)
	r.Set("crawl", "%d connections, RAM %s, WARC %v, budgets of %s, robots.txt obeyed, no delays",
		b.Connections, result.DecimalBytes(float64(b.RAMBytes)), b.store, b.budgetParts().Name())
	if d := b.drumDisk(); d > 0 {
		r.Set("drum-disk", "%s for links that wait for URLseen", result.DecimalBytes(float64(d)))
	}
	r.SetDirs(b.Dirs)
}

// lineName returns the benchmark name of a run.
func (b *crawlBench) lineName(run *Result) string {
	scheme, transport := "http", "sockets"
	if b.web.HTTPS {
		scheme = "https"
	}
	if b.inProcess {
		transport = "inproc"
	}
	return fmt.Sprintf("BenchmarkCrawl/form=%s/scheme=%s/transport=%s", run.Form, scheme, transport)
}

// metrics returns the metrics of a run, in the order of its line.
func (b *crawlBench) metrics(run *Result) []result.Metric {
	list := []result.Metric{
		{Value: float64(run.Wall.Nanoseconds()) / float64(max(1, run.Pages)), Unit: "ns/op"},
		{Value: run.rate(), Unit: "pages/s"},
		{Value: float64(run.BytesBody) / 1e6 / run.Wall.Seconds(), Unit: "MB/s"},
		{Value: run.perPage(run.CPU), Unit: "cpu-us/page"},
	}
	if !b.inProcess {
		list = append(list, result.Metric{Value: run.serverPerPage(), Unit: "server-us/page"})
	}
	if run.Form == "crawl" {
		list = append(list, result.Metric{Value: float64(run.Links) / run.Wall.Seconds(), Unit: "links/s"},
			result.Metric{Value: float64(run.PeakRSS) / (1 << 20), Unit: "rss-MiB"})
	}
	return list
}

// median returns the median of a figure over runs.
func median(runs []*Result, f func(*Result) float64) float64 { return result.Of(runs, f).Median() }

func (b *crawlBench) rateTable() result.Table {
	t := result.Table{Title: "Pages/s, and the CPU of the crawler's process (medians)",
		Head: []string{"form", "pages", "pages/s", "MB/s", "µs/page", "server µs/page", "new/page", "links/page",
			"robots.txt/page", "disk B/page"}}
	for _, runs := range [][]*Result{b.bare, b.whole} {
		if len(runs) == 0 {
			continue
		}
		number := func(f func(*Result) float64) string { return result.Number(median(runs, f)) }
		per := func(f func(*Result) int64) string {
			return number(func(r *Result) float64 { return float64(f(r)) / float64(max(1, r.Pages)) })
		}
		row := []string{runs[0].Form, number(func(r *Result) float64 { return float64(r.Pages) }),
			number((*Result).rate),
			number(func(r *Result) float64 { return float64(r.BytesBody) / 1e6 / r.Wall.Seconds() }),
			number(func(r *Result) float64 { return r.perPage(r.CPU) }), number((*Result).serverPerPage)}
		if b.inProcess {
			row[5] = ""
		}
		if runs[0].Form == "crawl" {
			row = append(row, number(func(r *Result) float64 {
				return float64(r.AllUnique) / float64(max(1, r.AllPages))
			}), per(func(r *Result) int64 { return r.Links }),
				per(func(r *Result) int64 { return r.Robots }),
				per(func(r *Result) int64 { return r.DiskRead + r.DiskWritten }))
		} else {
			row = append(row, "", "", "", "")
		}
		t.Add(row...)
	}
	for _, runs := range [][]*Result{b.bare, b.whole} {
		if len(runs) > 0 && (b.web.HTTPS || b.KeepAlive > 0) {
			c := runs[len(runs)-1].Wires
			t.Notes = append(t.Notes, fmt.Sprintf(
				"%s: %d full handshakes, %d resumed sessions, %d exchanges on kept connections.", runs[0].Form,
				c.Handshakes, c.Resumed, c.Kept))
		}
	}
	t.Notes = append(t.Notes,
		"The first tenth of a crawl is not measured. MB counts decoded bodies. New URLs are those that "+
			"merges found",
		"during the whole crawl; the links of its last pages still wait. The server's CPU is that of its "+
			"process, per page sent.")
	return t
}

// stageTable is the CPU by stage.
func (b *crawlBench) stageTable() result.Table {
	t := result.Table{Title: "CPU per page by stage, µs (medians): the stage's share of a CPU profile " +
		"times the CPU per page",
		Head: []string{"stage", "crawl", "%"}}
	if len(b.bare) > 0 {
		t.Head = append(t.Head, "bare loop")
	}
	for s := range numStages {
		at := func(r *Result) float64 { return r.Stages.share(s) * r.perPage(r.CPU) }
		row := []string{s.String(), result.Number(median(b.whole, at)),
			strconv.FormatFloat(100*median(b.whole, func(r *Result) float64 { return r.Stages.share(s) }), 'f', 1, 64)}
		if len(b.bare) > 0 {
			row = append(row, result.Number(median(b.bare, at)))
		}
		t.Add(row...)
	}
	row := []string{"all", result.Number(median(b.whole, func(r *Result) float64 { return r.perPage(r.CPU) })), "100.0"}
	if len(b.bare) > 0 {
		row = append(row, result.Number(median(b.bare, func(r *Result) float64 { return r.perPage(r.CPU) })))
	}
	t.Add(row...)
	last := b.whole[len(b.whole)-1]
	t.Notes = append(t.Notes, "A stage includes its allocations, locks and system calls; robots includes "+
		"the exchanges for robots.txt; \"runtime: rest\" is the",
		"scheduler and the poller. "+fmt.Sprintf("The profile covers %.0f %% of the CPU time, in %d samples "+
			"of 10 ms.",
			100*float64(last.Stages.Sum)/float64(max(1, last.CPU)), last.Stages.Sum/(10*time.Millisecond)))
	return t
}

// slotTable is the use of connection slots.
func (b *crawlBench) slotTable() result.Table {
	t := result.Table{Title: "Connection slots, by what they did or waited for",
		Head: []string{"use", "slots", "%"}}
	for _, u := range snapshot.SlotUses() {
		mean := median(b.whole, func(r *Result) float64 { return r.Slots.Mean(u) })
		t.Add(u.String(), result.Number(mean), strconv.FormatFloat(100*mean/float64(b.Connections), 'f', 1, 64))
	}
	last := b.whole[len(b.whole)-1]
	t.Notes = append(t.Notes,
		fmt.Sprintf("%d samples, 10 ms apart. In %.1f %% of them RAM had no URL, although BEAST had more "+
			"than the crawl keeps ahead of fetching. Without delays a host still gets only one connection "+
			"at a time.",
			last.Slots.Samples, 100*float64(last.Slots.Starved)/float64(max(1, last.Slots.Samples))))
	return t
}

func (b *crawlBench) checks() (list []result.Check) {
	cpu := median(b.whole, func(r *Result) float64 { return r.perPage(r.CPU) })
	switch {
	case b.inProcess:
	case b.web.HTTPS:
		way := "one page per connection"
		if b.KeepAlive > 0 {
			way = "kept connections"
		}
		list = append(list, result.AtMost("CPU of the crawler per page, HTTPS, "+way, cpu, crawlMostHTTPS, "µs"))
	default:
		list = append(list, result.AtMost("CPU of the crawler per page, HTTP (aim: 160)", cpu, crawlMostHTTP,
			"µs"))
	}
	if len(b.bare) > 0 && b.KeepAlive == 0 { // with kept connections the bare loop's task is easier
		var ratio result.Sample
		for i, run := range b.whole {
			ratio = append(ratio, run.rate()/b.bare[i].rate())
		}
		list = append(list,
			result.AtLeast("pages/s / the bare loop's (aim: 0.5)", ratio.Median(), crawlLeastOfBare, "times"))
	}
	if b.Growth {
		list = append(list, b.growthChecks()...)
	}
	return list
}

func (b *crawlBench) notes() (list []string) {
	run := b.whole[len(b.whole)-1]
	list = append(list,
		fmt.Sprintf("The crawl fetched %s from %s in %s and found %s. URLseen made %s, BEAST %s. The crawl "+
			"ended: %s.",
			human.Counted(run.AllPages, "page", "pages"), human.Counted(run.Hosts, "host", "hosts"),
			human.Counted(run.PLDs, "PLD", "PLDs"), human.Counted(run.AllUnique, "URL", "URLs"),
			human.Counted(run.Passes, "pass", "passes"), human.Counted(run.Scans, "scan", "scans"), run.Stop))
	if b.Resume && !run.Over {
		list = append(list, "The crawl is not complete: run the same command again to continue it.")
	}
	if len(run.Stages.Unmatched) > 0 {
		list = append(list, "Innermost functions of the samples that belong to no stage (shares of all CPU):")
		for _, name := range run.Stages.Unmatched {
			list = append(list, "  "+name)
		}
	}
	return list
}
