// Package parse measures finding the links of pages, by package parse and by golang.org/x/net/html.
//
//	go run ./bench/lab parse
//
// Package parse, the tokenizer and the tree of x/net/html take turns in the same run, in CPU time of the one thread that parses, on
// corpora of real pages, generated ones (the paper's mean page) and hostile shapes, whose time must grow in proportion to their size.
// The links of every file of a corpus are compared with the tree's, as often as they occur.
//
// # Checks
//
// Speed beside the tokenizer's, allocations a link, the share of links that are the tree's, and growth with hostile shapes.
//
// # Concurrency and memory
//
// Measure keeps its goroutine on one thread. The timed samples of the corpora are held in RAM, and one file. What Go's collector does
// on other threads for those that allocate isn't counted, in their favour.
package parse

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"drumbeat/bench/measure"
	"drumbeat/bench/report"
)

// Options are what is measured, and flags of command lab.
type Options struct {
	Corpus []string     `placeholder:"DIR" help:"Directory of HTML files, at any depth; symbolic links in it aren't followed. Repeat it for several, each of which is measured alone. Without one, only generated pages are measured."`
	Files  int          `placeholder:"N" help:"Files of a corpus that are compared at most. Default: 50,000."`
	Bytes  measure.Size `placeholder:"SIZE" help:"Bytes of a corpus that are compared at most. Default: 1GiB, or 24MiB with --quick."`
	Sample measure.Size `placeholder:"SIZE" help:"Bytes of a corpus that are timed, of files evenly spread, held in RAM. Default: 24MiB, or 4MiB with --quick."`
	Shape  measure.Size `placeholder:"SIZE" help:"Largest page of a hostile shape. Default: 30MB, or 3MB with --quick."`
	Repeat int          `placeholder:"N" help:"How often all is measured. Default: 5, or 3 with --quick."`
	Quick  bool         `help:"End within 30 s: fewer and smaller pages."`
}

// The targets.
const (
	parseMBps       = 1000  // MB/s of CPU time, MB = 1e6 bytes
	parseRatio      = 8     // times the speed of x/net/html's tokenizer
	parseSame       = 99.99 // % of the reference's links
	parseDoubled    = 3     // time of a page twice as long: 2 and what caches too small for it add; 4 would be quadratic
	parseLinkAllocs = 1e-3  // allocations a link: none, but for pages with many more links than the ones before have
)

// mostParseFile is the largest file that is looked at.
const mostParseFile = 64 << 20

// Validate fills in defaults and returns all faults, joined.
func (p *Options) Validate() error {
	measure.Default(&p.Files, 50_000)
	measure.Default(&p.Bytes, measure.Quick(p.Quick, measure.Size(24<<20), 1<<30))
	measure.Default(&p.Sample, measure.Quick(p.Quick, measure.Size(4<<20), 24<<20))
	measure.Default(&p.Shape, measure.Quick(p.Quick, measure.Size(3e6), 30e6))
	measure.Default(&p.Repeat, measure.Quick(p.Quick, 3, 5))
	var faults []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("bench: parse: "+format, args...))
		}
	}
	for i, dir := range p.Corpus {
		need(!slices.Contains(p.Corpus[:i], dir), "corpus %s is given twice", dir)
	}
	need(p.Files >= 1 && p.Files <= 10_000_000, "%d files: want 1 to 10,000,000", p.Files)
	need(p.Bytes >= 1, "%d bytes of a corpus: want 1 at least", p.Bytes)
	need(p.Sample >= 1 && p.Sample <= 4<<30, "a sample of %d bytes: want 1 to %d", p.Sample, int64(4<<30))
	need(p.Shape >= 10_000 && p.Shape <= 1<<30, "shapes of %d bytes: want 10,000 to %d", p.Shape, 1<<30)
	need(p.Repeat >= 1 && p.Repeat <= 100, "%d repeats: want 1 to 100", p.Repeat)
	return errors.Join(faults...)
}

// parseCorpus is a set of pages and what was measured of it.
type parseCorpus struct {
	name, dir string
	pages     []parsePage
	bytes     int64
	compared  parseCompared // of all files, not only those in pages
	funcs     [numParseWays]parseFunc
	runs      [numParseWays][]parseRun
}

// parsePage is a page that is timed.
type parsePage struct {
	url, body []byte
}

// parseRun is one repeat: all pages once.
type parseRun struct {
	cpu            float64 // ns of CPU of the thread
	links          int64
	allocs, allocB float64
}

// Measure measures how fast links are found, by package parse and by golang.org/x/net/html, and compares the links.
//
// Every figure is the CPU time of the thread that parses; what Go's collector does meanwhile on other threads for those
// that allocate isn't counted, in their favour. Each repeat does all ways of parsing one after the other with the same
// pages; pages are in RAM, and package parse has met them before the first.
func (p *Options) Measure(ctx context.Context, progress func(string)) (*report.Report, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := report.New("parse", "Links of pages: package parse beside golang.org/x/net/html")
	all := []*parseCorpus{generatedCorpus()}
	for _, dir := range p.Corpus {
		c, err := p.load(ctx, dir, all, progress)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	for repeat := range p.Repeat {
		for _, c := range all {
			progress(fmt.Sprintf("repeat %d of %d: %s, %d pages, %.1f MB", repeat+1, p.Repeat, c.name, len(c.pages), float64(c.bytes)/1e6))
			if err := c.measure(ctx, repeat); err != nil {
				return nil, err
			}
		}
	}
	shapes, err := p.shapes(ctx, progress)
	if err != nil {
		return nil, err
	}
	p.report(r, all, shapes)
	return r, nil
}

// measure times all ways with the corpus once.
func (c *parseCorpus) measure(ctx context.Context, repeat int) error {
	for i := range numParseWays {
		way := (i + parseWay(repeat)) % numParseWays // nobody is always the first
		if c.funcs[way] == nil {
			c.funcs[way] = newParseFunc(way)
			warm := c.pages[:1]
			if way.ours() {
				warm = c.pages // its buffers have then met every page
			}
			if _, err := timePages(ctx, warm, c.funcs[way]); err != nil {
				return err
			}
		}
		runtime.GC()
		run, err := timePages(ctx, c.pages, c.funcs[way])
		if err != nil {
			return err
		}
		c.runs[way] = append(c.runs[way], run)
	}
	return nil
}

// timePages calls f for all pages.
func timePages(ctx context.Context, pages []parsePage, f parseFunc) (run parseRun, err error) {
	heap := measure.Heap()
	began := measure.ThreadTime()
	for i, page := range pages {
		run.links += int64(f(page))
		if i&63 == 0 && ctx.Err() != nil {
			return run, ctx.Err()
		}
	}
	run.cpu = float64(measure.ThreadTime() - began)
	allocs, bytes := heap()
	run.allocs, run.allocB = float64(allocs), float64(bytes)
	return run, nil
}
