package parse

import (
	"fmt"
	"math"
	"slices"

	"drumbeat/bench/report"
)

// of computes a figure of every repeat of a way.
func (c *parseCorpus) of(way parseWay, figure func(parseRun) float64) report.Sample {
	return report.Of(c.runs[way], figure)
}

// mbps is the speed in MB of page per second of CPU.
func (c *parseCorpus) mbps(way parseWay) report.Sample {
	return c.of(way, func(r parseRun) float64 { return float64(c.bytes) * 1e3 / r.cpu })
}

// ratio is how much faster a way is than the tokenizer, in each repeat.
func (c *parseCorpus) ratio(way parseWay) report.Sample {
	return c.mbps(way).Over(c.mbps(parseTokens))
}

// linkAllocs is the number of allocations a link.
func (c *parseCorpus) linkAllocs(way parseWay) report.Sample {
	return c.of(way, func(r parseRun) float64 { return r.allocs / float64(max(r.links, 1)) })
}

func (p *Options) report(r *report.Report, all []*parseCorpus, shapes []parseShapeRun) {
	if len(p.Corpus) == 0 {
		r.Set("corpus", "none was given (--corpus): only generated pages are measured")
	}
	r.Set("clock", "CPU time of the one thread that parses; median of %d repeats", p.Repeat)
	r.Set("MB", "1e6 bytes of page")
	for _, c := range all {
		c.lines(r)
	}
	speed := &report.Table{
		Title: "Speed, medians of repeats (least and largest)",
		Head:  []string{"corpus", "way", "MB/s", "", "us/page", "links/s", "ns/link", "x tokenizer", "allocs/page", "allocs/link", "B/page"},
		Notes: []string{"The tokenizer's links are those of the same elements, counted and not kept. It and the tree allocate: what Go's collector does for that on other threads isn't counted."},
	}
	for _, c := range all {
		c.speed(speed)
	}
	r.Tables = append(r.Tables, *speed, compareTable(all), shapeTable(shapes))
	for _, c := range all {
		r.Checks = append(r.Checks,
			report.AtLeast("parser, "+c.name, c.mbps(parseScan).Median(), parseMBps, "MB/s"),
			report.AtLeast("parser over tokenizer, "+c.name, c.ratio(parseScan).Median(), parseRatio, "times"),
			report.AtMost("allocations of the parser, "+c.name, c.linkAllocs(parseScan).Median(), parseLinkAllocs, "a link"),
			report.AtMost("allocations of the extractor, "+c.name, c.linkAllocs(parseExtract).Median(), parseLinkAllocs, "a link"))
	}
	p.linkChecks(r, all)
	shapeFigure(r, shapes)
}

// lines adds a line for each repeat; an operation is a page.
func (c *parseCorpus) lines(r *report.Report) {
	pages := float64(len(c.pages))
	for way := range numParseWays {
		for _, run := range c.runs[way] {
			r.Add(fmt.Sprintf("BenchmarkParse/corpus=%s/by=%s", c.name, way), int64(len(c.pages)),
				report.Metric{Value: run.cpu / pages, Unit: "cpu-ns/op"}, report.Metric{Value: float64(c.bytes) * 1e3 / run.cpu, Unit: "MB/s"},
				report.Metric{Value: float64(run.links) * 1e9 / run.cpu, Unit: "links/s"},
				report.Metric{Value: run.cpu / float64(max(run.links, 1)), Unit: "cpu-ns/link"},
				report.Metric{Value: run.allocB / pages, Unit: "B/op"}, report.Metric{Value: run.allocs / pages, Unit: "allocs/op"},
				report.Metric{Value: run.allocs / float64(max(run.links, 1)), Unit: "allocs/link"})
		}
	}
}

func (c *parseCorpus) speed(t *report.Table) {
	pages := float64(len(c.pages))
	name := fmt.Sprintf("%s (%d pages, %.1f MB)", c.name, len(c.pages), float64(c.bytes)/1e6)
	for way := range numParseWays {
		mbps := c.mbps(way)
		t.Add(name, way.String(), report.Number(mbps.Median()), mbps.Spread(),
			report.Number(c.of(way, func(r parseRun) float64 { return r.cpu / pages / 1e3 }).Median()),
			report.Number(c.of(way, func(r parseRun) float64 { return float64(r.links) * 1e9 / r.cpu }).Median()),
			report.Number(c.of(way, func(r parseRun) float64 { return r.cpu / float64(max(r.links, 1)) }).Median()),
			report.Number(c.ratio(way).Median()),
			report.Number(c.of(way, func(r parseRun) float64 { return r.allocs / pages }).Median()),
			report.Number(c.linkAllocs(way).Median()),
			report.Number(c.of(way, func(r parseRun) float64 { return r.allocB / pages }).Median()))
		name = ""
	}
}

// compareTable says how links differ from the reference's, over all files of the corpora.
func compareTable(all []*parseCorpus) report.Table {
	t := report.Table{
		Title: "Links of every file, compared with those of x/net/html's tree (as often as they occur)",
		Head:  []string{"corpus", "files", "left out", "MB", "links of the tree", "the same", "differing", "unexplained"},
		Notes: []string{"Left out: symbolic links, files above 64 MiB or beyond --files and --bytes. No limit of links a page applies here."},
	}
	for _, c := range all {
		d := &c.compared
		t.Add(c.name, fmt.Sprint(d.files), fmt.Sprint(d.left), report.Number(float64(d.bytes)/1e6), fmt.Sprint(d.links),
			fmt.Sprintf("%.4f %%", same(d.links, d.differing())), fmt.Sprint(d.differing()), fmt.Sprint(d.class[parseUnexplained]))
		for class, n := range d.class {
			if n > 0 {
				t.Notes = append(t.Notes, fmt.Sprintf("%s: %d links: %s", c.name, n, parseClasses[class]))
			}
		}
		if d.large > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("%s: %d pages have more than %d links, of which a crawl takes no more.", c.name, d.large, crawlMaxLinks))
		}
		d.trim()
		for _, example := range d.examples {
			t.Notes = append(t.Notes, c.name+": "+example[2:])
		}
	}
	return t
}

// linkChecks checks the links of all corpora together.
func (p *Options) linkChecks(r *report.Report, all []*parseCorpus) {
	var links, differing, unexplained, heads int64
	for _, c := range all {
		links += c.compared.links
		differing += c.compared.differing()
		unexplained += c.compared.class[parseUnexplained]
		heads += c.compared.heads
	}
	r.Checks = append(r.Checks,
		report.AtLeast("links that are the reference's", same(links, differing), parseSame, "%"),
		report.AtMost("links whose difference is unexplained", float64(unexplained), 0, "links"),
		report.AtMost("pages whose base, canonical or robots differ", float64(heads), 0, "pages"))
}

// same is the share of links in percent that both have.
func same(links, differing int64) float64 {
	return 100 * (1 - float64(differing)/float64(max(links, 1)))
}

func shapeTable(shapes []parseShapeRun) report.Table {
	t := report.Table{
		Title: "Hostile shapes, the parser alone, least of the repeats",
		Head:  []string{"shape", "MB", "links", "kept", "ms", "MB/s", "time of 2n / time of n", "time of 8n / time of n"},
		Notes: []string{"Where nothing closes what is open, the scanner ends at once or reads the page once."},
	}
	for _, s := range shapes {
		t.Add(s.name, report.Number(float64(s.bytes[3])/1e6), fmt.Sprint(s.links), fmt.Sprint(s.kept), report.Number(s.least[3]/1e6),
			report.Number(float64(s.bytes[3])*1e3/s.least[3]), report.Number(s.doubled()), report.Number(s.least[3]/s.least[0]))
	}
	return t
}

// memoryMBps is a speed at which a page is hardly looked at.
const memoryMBps = 4000

// shapeFigure draws time against size, and checks that it is linear.
func shapeFigure(r *report.Report, shapes []parseShapeRun) {
	f := report.Figure{Name: "linear", Title: "CPU time of a page of hostile shape", X: "bytes of the page", Y: "ms of CPU", LogX: true, LogY: true}
	worst, slowest := 0.0, math.Inf(1)
	for i, s := range shapes {
		// What is faster than that has the speed of the memory, which depends on the caches that the page fits into.
		if speed := float64(s.bytes[3]) * 1e3 / s.least[3]; speed < memoryMBps {
			worst = max(worst, s.doubled())
		}
		slowest = min(slowest, float64(s.bytes[3])*1e3/s.least[3])
		series := report.Series{Name: s.name}
		for k, n := range s.bytes {
			series.Points = append(series.Points, report.Point{X: float64(n), Y: s.least[k] / 1e6})
		}
		if i < 8 {
			f.Series = append(f.Series, series)
		}
	}
	r.Figures = append(r.Figures, f)
	r.Checks = append(r.Checks, report.AtMost("time of a page of 2n bytes over that of n, worst shape", worst, parseDoubled, "times"))
	i := slices.IndexFunc(shapes, func(s parseShapeRun) bool { return float64(s.bytes[3])*1e3/s.least[3] == slowest })
	r.Notes = append(r.Notes, fmt.Sprintf("The slowest shape is %q with %s MB/s.", shapes[i].name, report.Number(slowest)))
}
