package budget

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"drumbeat/beast"
	"drumbeat/bench/measure"
	"drumbeat/bench/report"
)

// Beast is what RunBeast measures: virtual crawls in virtual time through budget enforcement. Zero fields, Spam and
// NaiveURLs apart, mean the default. A Beast is a value.
type Beast struct {
	// Dirs are existing directories, one per disk as a rule.
	Dirs []string
	// URLs are the sizes of crawls, in unique URLs found, for which figures are printed. The crawl goes to the largest.
	// Empty: 1e5, 1e6, 1e7.
	URLs []int64
	// NaiveURLs ends the crawl of the naive scheme, whose I/O grows with the square. 0: it isn't measured.
	NaiveURLs int64
	// PLDs is V. 0: 2000, with which a queue has 22,000 pages. Budget is B0. 0: 10.
	PLDs, Budget int
	// UniquePerPage is L. 0: 6.5, the paper's. URLBytes is b, the mean length of a record. 0: 110.
	UniquePerPage float64
	URLBytes      int
	// PagesPerSecond is S, which turns bytes per page into bytes/s. 0: 3100, the paper's.
	PagesPerSecond float64
	// Spam is the share of the links that lead to spammers, a hundredth of the PLDs, with the least budget.
	Spam float64
	// Compress lets STAR compress the URLs that wait for their checks.
	Compress bool
	// WayURLs go through the measurement of CPU, to WayPLDs PLDs. 0: 4 million, 1 million.
	WayURLs int64
	WayPLDs int
	// Repeats is how often CPU is measured. 0: 3. The bytes are the same each time.
	Repeats int
	// Seed is that of the random numbers.
	Seed uint64
	// Progress is told what goes on, some times a second at most. May be nil.
	Progress func(what string)
}

// Validate returns all faults, joined.
func (b Beast) Validate() error { return b.complete() }

func (b *Beast) complete() error {
	def := func(p *int64, v int64) {
		if *p == 0 {
			*p = v
		}
	}
	if len(b.URLs) == 0 {
		b.URLs = []int64{1e5, 1e6, 1e7}
	}
	b.URLs = slices.Sorted(slices.Values(b.URLs))
	plds, budget, bytes, wayPLDs, repeats := int64(b.PLDs), int64(b.Budget), int64(b.URLBytes), int64(b.WayPLDs), int64(b.Repeats)
	def(&plds, 2000)
	def(&budget, 10)
	def(&bytes, 110)
	def(&wayPLDs, 1e6)
	def(&repeats, 3)
	def(&b.WayURLs, 4e6)
	if b.UniquePerPage == 0 {
		b.UniquePerPage = 6.5
	}
	if b.PagesPerSecond == 0 {
		b.PagesPerSecond = 3100
	}
	if b.Progress == nil {
		b.Progress = func(string) {}
	}
	var faults []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("bench: beast: "+format, args...))
		}
	}
	need(len(b.Dirs) > 0, "no directory")
	need(b.URLs[0] > 0 && b.URLs[len(b.URLs)-1] <= 1e11, "crawls of %d URLs: want 1 to 1e11", b.URLs)
	need(b.NaiveURLs >= 0, "%d URLs through the naive scheme", b.NaiveURLs)
	need(plds >= 1 && plds <= 1<<28, "%d PLDs: want 1 to 2^28", plds)
	need(wayPLDs >= 1 && wayPLDs <= 1<<28, "%d PLDs for the measurement of CPU: want 1 to 2^28", wayPLDs)
	need(budget >= 1 && budget <= 10_000, "budget %d: want 1 to 10,000", budget)
	need(bytes >= leastURLBytes && bytes <= 512, "URLs of %d bytes: want %d to 512", bytes, leastURLBytes)
	need(b.UniquePerPage > 1 && b.UniquePerPage <= 1000, "%g unique URLs per page: want more than 1, at most 1000", b.UniquePerPage)
	need(b.PagesPerSecond > 0 && b.PagesPerSecond <= 1e9, "%g pages a second", b.PagesPerSecond)
	need(b.Spam >= 0 && b.Spam <= 0.9, "%g of the links lead to spammers: want 0 to 0.9", b.Spam)
	need(b.WayURLs >= checkBatch && b.WayURLs <= 1e10, "%d URLs for the measurement of CPU: want %d to 1e10", b.WayURLs, checkBatch)
	need(repeats >= 1 && repeats <= 100, "%d repeats: want 1 to 100", repeats)
	if len(faults) == 0 {
		b.PLDs, b.Budget, b.URLBytes, b.WayPLDs, b.Repeats = int(plds), int(budget), int(bytes), int(wayPLDs), int(repeats)
	}
	return errors.Join(faults...)
}

// model is the paper's, for the web that was made.
func (b *Beast) model(web *budgetWeb, urlBytes float64) beast.Model {
	return beast.Model{PLDs: float64(b.PLDs), MeanBudget: float64(web.sum) / float64(b.PLDs), UniquePerPage: b.UniquePerPage,
		PagesPerSecond: b.PagesPerSecond, URLBytes: urlBytes}
}

// beastDisk bounds what lies on disk: at the end of the largest crawl nearly all its URLs wait in QF, and while QF is read
// there is another of half that size. s2 halves the text at least; a checkpoint's worth comes on top.
func (b *Beast) diskBytes() int64 {
	urls := max(b.URLs[len(b.URLs)-1], b.NaiveURLs)
	way := b.WayURLs * int64(b.URLBytes+16) * 3 / 2
	return max(urls*int64(b.URLBytes), way) + 2*beastCommitBytes
}

// beastResult is all that was measured.
type beastResult struct {
	web   *budgetWeb
	crawl *beastCrawl
	naive *naiveCrawl // nil if it was not measured
	costs []wayCost
}

// RunBeast crawls a virtual web with BEAST and with the naive scheme, and measures the CPU of the way of a URL.
func RunBeast(ctx context.Context, b Beast) (_ *report.Report, err error) {
	if err := b.complete(); err != nil {
		return nil, err
	}
	r := report.New("beast", "Budget enforcement: disk rate against crawl size, CPU per URL")
	scratch, err := measure.NewScratch("beast", b.Dirs, b.diskBytes())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scratch.Remove()) }()
	res := &beastResult{web: newBudgetWeb(&b)}
	for n := range b.Repeats {
		b.Progress(fmt.Sprintf("CPU of %d URLs from STAR's check to BEAST's queues, %d of %d", b.WayURLs, n+1, b.Repeats))
		set, err := scratch.Set()
		if err != nil {
			return nil, err
		}
		cost, err := measureWay(ctx, &b, set)
		if err != nil {
			return nil, err
		}
		res.costs = append(res.costs, cost)
	}
	if err := res.crawls(ctx, &b, scratch); err != nil {
		return nil, err
	}
	res.report(&b, r)
	return r, nil
}

// crawls runs both virtual crawls, from the same beginning.
func (res *beastResult) crawls(ctx context.Context, b *Beast, scratch *measure.Scratch) (err error) {
	if b.NaiveURLs > 0 {
		set, err := scratch.Set()
		if err != nil {
			return err
		}
		if res.naive, err = openNaiveCrawl(b, set, newBudgetWeb(b)); err != nil {
			return err
		}
		tell := measure.EverySecond(b.Progress)
		err = res.naive.run(ctx, b.NaiveURLs, func(c *naiveCrawl) {
			tell("naive scheme: %d of %d URLs, %d passes", c.now.urls, b.NaiveURLs, len(c.stages))
		})
		if err := errors.Join(err, res.naive.close()); err != nil {
			return err
		}
	}
	set, err := scratch.Set()
	if err != nil {
		return err
	}
	if res.crawl, err = openBeastCrawl(ctx, b, set, res.web); err != nil {
		return err
	}
	last, tell := b.URLs[len(b.URLs)-1], measure.EverySecond(b.Progress)
	err = res.crawl.run(ctx, last, func(c *beastCrawl) {
		tell("BEAST: %d of %d URLs, %d pages crawled, %d scans of QF", c.now.urls, last, c.now.pages, len(c.stages))
	})
	return errors.Join(err, res.crawl.close())
}

// perPage is bytes for a page.
func (s *stage) perPage(bytes int64) float64 { return float64(bytes) / float64(s.pages) }

// beastRaw is what BEAST alone moves, as if nothing was compressed; wholeRaw with the hop through STAR's buckets.
func (s *stage) beastRaw() int64 { return s.queueRaw + s.failedRaw }

func (s *stage) wholeRaw() int64 { return s.beastRaw() + s.checkRaw + s.starRest }

// wholeDisk is what the disk saw, but for checkpoints: these come by time, and save what is in buffers.
func (s *stage) wholeDisk() int64 { return s.queueDisk + s.starDisk }

// last is the last stage that ended within so many URLs; nil if there is none.
func last(stages []stage, urls int64) *stage {
	for i := len(stages) - 1; i >= 0; i-- {
		if stages[i].endURLs <= urls {
			return &stages[i]
		}
	}
	return nil
}

// spread is the largest of the figures by the smallest.
func spread(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return slices.Max(v) / slices.Min(v)
}
