package store

import (
	"fmt"
	"strings"

	"drumbeat/bench/report"
)

// sample collects a figure of all repeats of a way.
func (r *storeRun) sample(kind, way string, f func(m *storeMeasure) float64) report.Sample {
	return report.Of(r.measures[kind][way], f)
}

func storeCPU(m *storeMeasure) float64  { return m.micros(m.cpu) }
func storeRate(m *storeMeasure) float64 { return float64(m.raw) / max(m.wall, 1).Seconds() / 1e6 }
func storeDisk(m *storeMeasure) float64 { return m.per(m.disk + m.index) }

// report fills rep.
func (r *storeRun) report(rep *report.Report) {
	source := "made of words"
	if len(r.opt.Corpus) > 0 {
		source = "files of " + strings.Join(r.opt.Corpus, ", ")
	}
	gz := r.pages[storeGzip]
	rep.Set("pages", "%d different ones %s, %.1f KB of HTML on average; %.1f KB received where they are compressed", len(gz.exchanges), source,
		float64(gz.bodies)/float64(len(gz.exchanges))/1e3, float64(gz.meanRaw())/1e3)
	digests := "of the payload"
	if r.opt.BlockDigest {
		digests = "of the payload and of the block"
	}
	rep.Set("measurement", "%d captures by package warc at level %d, request, response (digest %s), metadata and an index line each; %d by gzip-6",
		r.opt.Pages, r.opt.Level, digests, r.opt.Pages/storeRivalShare)
	for i, dir := range r.opt.Dir {
		rep.Set(fmt.Sprintf("dir%d", i), "%s", dir)
	}
	for _, kind := range storeKinds {
		r.lines(rep, kind)
	}
	rep.Tables = append(rep.Tables, r.table(), r.syncTable())
	rep.Figures = append(rep.Figures, r.figure())
	rep.Checks = r.checks()
	for i, err := range r.damages {
		if i == 10 {
			break
		}
		rep.Notes = append(rep.Notes, err.Error())
	}
	rep.Notes = append(rep.Notes,
		"CPU is user and system time of this process, write calls included, fsync not. Prepare has digests and compression; append a copy and the writes.",
		"gzip-6: the same records, whose text is made before, each a member by the standard library, without digests and index.",
		"digests: SHA-1 (two with --block-digest) and CRC-32 of the body as received, and nothing else: what no store with them can do without.",
		"The pages are in the CPU's caches, as those are that were just received.")
}

func (r *storeRun) lines(rep *report.Report, kind string) {
	for _, m := range r.measures[kind][wayOurs] {
		rep.Add("BenchmarkStore/page="+kind+"/way="+wayOurs, m.pages,
			report.Metric{Value: 1e3 * m.micros(m.wall), Unit: "ns/op"}, report.Metric{Value: m.micros(m.cpu), Unit: "cpu-us/op"},
			report.Metric{Value: m.micros(m.prepare), Unit: "prepare-us/op"}, report.Metric{Value: m.micros(m.append), Unit: "append-us/op"},
			report.Metric{Value: storeRate(m), Unit: "MB/s"}, report.Metric{Value: m.per(m.disk), Unit: "warc-B/op"},
			report.Metric{Value: m.per(m.index), Unit: "index-B/op"}, report.Metric{Value: m.per(m.writes), Unit: "writes/op"},
			report.Metric{Value: float64(m.allocated) / float64(m.pages), Unit: "B/op"},
			report.Metric{Value: float64(m.allocs) / float64(m.pages), Unit: "allocs/op"},
			report.Metric{Value: m.micros(m.sync), Unit: "fsync-us/op"}, report.Metric{Value: m.micros(m.syncCPU), Unit: "fsync-cpu-us/op"})
	}
	for _, way := range []string{wayLevel, wayFloor} {
		for _, m := range r.measures[kind][way] {
			metrics := []report.Metric{{Value: 1e3 * m.micros(m.cpu), Unit: "ns/op"}, {Value: m.micros(m.cpu), Unit: "cpu-us/op"}}
			if m.disk > 0 {
				metrics = append(metrics, report.Metric{Value: m.per(m.disk), Unit: "warc-B/op"})
			}
			rep.Add("BenchmarkStore/page="+kind+"/way="+way, m.pages, metrics...)
		}
	}
}

// table is what a page costs.
func (r *storeRun) table() report.Table {
	t := report.Table{
		Title: fmt.Sprintf("A page in the store, medians of %d", r.opt.Repeat),
		Head: []string{"page", "B received", "way", "CPU us", "spread", "prepare us", "append us", "MB/s", "B WARC", "B index", "writes per 1000",
			"allocations", "x gzip-6"},
		Notes: []string{"MB/s: bytes received by the time that passed, one goroutine. x gzip-6: the CPU of gzip-6 by that of ours, of the same repeat."},
	}
	for _, kind := range storeKinds {
		received := report.Number(float64(r.pages[kind].meanRaw()))
		median := func(way string, f func(m *storeMeasure) float64) string {
			return report.Number(r.sample(kind, way, f).Median())
		}
		ours := r.sample(kind, wayOurs, storeCPU)
		t.Add(kind, received, wayOurs, report.Number(ours.Median()), ours.Spread(),
			median(wayOurs, func(m *storeMeasure) float64 { return m.micros(m.prepare) }),
			median(wayOurs, func(m *storeMeasure) float64 { return m.micros(m.append) }), median(wayOurs, storeRate),
			median(wayOurs, func(m *storeMeasure) float64 { return m.per(m.disk) }),
			median(wayOurs, func(m *storeMeasure) float64 { return m.per(m.index) }),
			median(wayOurs, func(m *storeMeasure) float64 { return 1000 * m.per(m.writes) }),
			median(wayOurs, storeAllocs), report.Number(r.faster(kind)))
		level := r.sample(kind, wayLevel, storeCPU)
		t.Add(kind, received, wayLevel, report.Number(level.Median()), level.Spread(), "", "", median(wayLevel, storeRate),
			median(wayLevel, storeDisk))
		floor := r.sample(kind, wayFloor, storeCPU)
		t.Add(kind, received, wayFloor, report.Number(floor.Median()), floor.Spread())
	}
	return t
}

func storeAllocs(m *storeMeasure) float64 { return float64(m.allocs) / float64(m.pages) }

// faster is how many times the baseline's CPU is ours.
func (r *storeRun) faster(kind string) float64 {
	var s report.Sample
	for i, m := range r.measures[kind][wayOurs] {
		s = append(s, storeCPU(r.measures[kind][wayLevel][i])/storeCPU(m))
	}
	return s.Median()
}

// syncTable is what making it durable takes.
func (r *storeRun) syncTable() report.Table {
	t := report.Table{
		Title: fmt.Sprintf("Making all of it durable, once at the end, medians of %d", r.opt.Repeat),
		Head:  []string{"page", "MB", "s", "spread", "CPU us a page"},
	}
	for _, kind := range storeKinds {
		span := r.sample(kind, wayOurs, func(m *storeMeasure) float64 { return m.sync.Seconds() })
		t.Add(kind, report.Number(r.sample(kind, wayOurs, func(m *storeMeasure) float64 { return float64(m.disk+m.index) / 1e6 }).Median()),
			report.Number(span.Median()), span.Spread(),
			report.Number(r.sample(kind, wayOurs, func(m *storeMeasure) float64 { return m.micros(m.syncCPU) }).Median()))
	}
	return t
}

// figure is the cost against what was received.
func (r *storeRun) figure() report.Figure {
	f := report.Figure{Name: "cpu", Title: "Page store: CPU of a page", X: "bytes received", Y: "us", LogX: true, LogY: true}
	for _, way := range []string{wayOurs, wayLevel, wayFloor} {
		s := report.Series{Name: way, Model: way == wayFloor}
		for _, kind := range storeKinds {
			s.Points = append(s.Points, report.Point{X: float64(r.pages[kind].meanRaw()), Y: r.sample(kind, way, storeCPU).Median()})
		}
		report.SortPoints(s.Points)
		f.Series = append(f.Series, s)
	}
	return f
}

func (r *storeRun) checks() []report.Check {
	most := 0.0
	for _, kind := range storeKinds {
		most = max(most, r.sample(kind, wayOurs, storeAllocs).Median())
	}
	name := fmt.Sprintf("CPU of a page received compressed, %s bytes, digested and stored", report.Number(float64(r.pages[storeGzip].meanRaw())))
	return []report.Check{
		report.AtMost(name, r.sample(storeGzip, wayOurs, storeCPU).Median(), storeMicros, "us"),
		report.AtMost("allocations of a page, any kind", most, storeMostAllocs, ""),
		report.AtMost("captures and index lines more or fewer than stored", float64(r.wrong), 0, ""),
		report.AtMost(fmt.Sprintf("records damaged, of %d verified", r.verified.Records), float64(len(r.damages)), 0, ""),
	}
}

// storeMostAllocs leaves room for what a new file takes, which a thousand pages share.
const storeMostAllocs = 0.05
