package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"drumbeat/bench/report"
)

// Parse is what RunParse measures. A Parse is a value; zero fields mean the default.
type Parse struct {
	// Corpora are directories of HTML files (.html, .htm, .xhtml), at any depth. Links between files and directories
	// aren't followed. None: only generated pages are measured.
	Corpora []string
	// Files and Bytes bound what is read of one of them. 0: 50,000 and 1 GiB. Larger files than 64 MiB are left out.
	Files int
	Bytes int64
	// SampleBytes bounds the pages of one corpus that are held in RAM and timed: files spread evenly over the corpus. The
	// links of all are compared. 0: 24 MiB.
	SampleBytes int64
	// ShapeBytes is the size of the largest pages of hostile shapes. 0: 30 MB.
	ShapeBytes int
	// Repeats is how often all is measured. 0: 5.
	Repeats int
	// Progress is called before each measurement, with what comes. May be nil.
	Progress func(what string)
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

// Validate returns all faults, joined.
func (p Parse) Validate() error { return p.complete() }

func (p *Parse) complete() error {
	if p.Files == 0 {
		p.Files = 50_000
	}
	if p.Bytes == 0 {
		p.Bytes = 1 << 30
	}
	if p.SampleBytes == 0 {
		p.SampleBytes = 24 << 20
	}
	if p.ShapeBytes == 0 {
		p.ShapeBytes = 30e6
	}
	if p.Repeats == 0 {
		p.Repeats = 5
	}
	if p.Progress == nil {
		p.Progress = func(string) {}
	}
	var faults []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("bench: parse: "+format, args...))
		}
	}
	for i, dir := range p.Corpora {
		need(!slices.Contains(p.Corpora[:i], dir), "corpus %s is given twice", dir)
	}
	need(p.Files >= 1 && p.Files <= 10_000_000, "%d files: want 1 to 10,000,000", p.Files)
	need(p.Bytes >= 1, "%d bytes of a corpus: want 1 at least", p.Bytes)
	need(p.SampleBytes >= 1 && p.SampleBytes <= 4<<30, "a sample of %d bytes: want 1 to %d", p.SampleBytes, int64(4<<30))
	need(p.ShapeBytes >= 10_000 && p.ShapeBytes <= 1<<30, "shapes of %d bytes: want 10,000 to %d", p.ShapeBytes, 1<<30)
	need(p.Repeats >= 1 && p.Repeats <= 100, "%d repeats: want 1 to 100", p.Repeats)
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

// RunParse measures how fast links are found, by package parse and by golang.org/x/net/html, and compares the links.
//
// Every figure is the CPU time of the thread that parses; what Go's collector does meanwhile on other threads for those
// that allocate isn't counted, in their favour. Each repeat does all ways of parsing one after the other with the same
// pages; pages are in RAM, and package parse has met them before the first.
func RunParse(ctx context.Context, p Parse) (*report.Report, error) {
	if err := p.complete(); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := report.New("parse", "Links of pages: package parse beside golang.org/x/net/html")
	all := []*parseCorpus{generatedCorpus()}
	for _, dir := range p.Corpora {
		c, err := p.load(ctx, dir, all)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	for repeat := range p.Repeats {
		for _, c := range all {
			p.Progress(fmt.Sprintf("repeat %d of %d: %s, %d pages, %.1f MB", repeat+1, p.Repeats, c.name, len(c.pages), float64(c.bytes)/1e6))
			if err := c.measure(ctx, repeat); err != nil {
				return nil, err
			}
		}
	}
	shapes, err := p.shapes(ctx)
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
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := threadTime()
	for i, page := range pages {
		run.links += int64(f(page))
		if i&63 == 0 && ctx.Err() != nil {
			return run, ctx.Err()
		}
	}
	run.cpu = float64(threadTime() - began)
	runtime.ReadMemStats(&after)
	run.allocs, run.allocB = float64(after.Mallocs-before.Mallocs), float64(after.TotalAlloc-before.TotalAlloc)
	return run, nil
}
