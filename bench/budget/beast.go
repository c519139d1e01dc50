package budget

import (
	"context"
	"errors"
	"math"
	"slices"

	"drumbeat/beast"
	"drumbeat/bench/measure"
	"drumbeat/bench/result"
)

// Beast holds the parameters of the measurement of budget enforcement: virtual crawls in virtual time. Its
// fields are flags of command bench. A zero means the default, except for Spam.
type Beast struct {
	Dirs      []string `name:"dir" placeholder:"DIR" required:""`
	URLs      []int64  `name:"urls" type:"count" placeholder:"N"`
	NaiveURLs *int64   `name:"naive-urls" type:"count" placeholder:"N"`
	PLDs      int      `name:"plds" type:"count" placeholder:"N"`
	Budget    int      `type:"count" placeholder:"PAGES" default:"10"`

	UniquePerPage float64 `type:"fraction" placeholder:"N" default:"6.5"`
	URLBytes      int     `name:"url-bytes" type:"size" placeholder:"SIZE" default:"110B"`
	Spam          float64 `type:"fraction" placeholder:"SHARE" default:"0.2"`

	Seed     uint64 `type:"count" placeholder:"N" default:"1"`
	Quick    bool
	progress func(what string)
}

// pagesPerSecond is S, the rate for which the report states bytes per second.
const pagesPerSecond = 3100.0

// Complete fills in defaults and returns all faults, joined. A queue of the default 2,000 PLDs holds 22,000
// pages.
func (b *Beast) Complete() error {
	measure.DefaultList(&b.URLs, measure.Quick(b.Quick, []int64{1e5, 1e6}, []int64{1e5, 1e6, 1e7}))
	b.URLs = slices.Sorted(slices.Values(b.URLs))
	if b.NaiveURLs == nil {
		b.NaiveURLs = new(measure.Quick[int64](b.Quick, 3e5, 3e6))
	}
	measure.Default(&b.PLDs, measure.Quick(b.Quick, 200, 2000))
	measure.Default(&b.Budget, 10)
	measure.Default(&b.URLBytes, 110)
	measure.Default(&b.UniquePerPage, 6.5)
	need, faults := measure.Faults("beast")
	need(len(b.Dirs) > 0, "--dir: want at least one directory")
	need(b.URLs[0] > 0 && b.URLs[len(b.URLs)-1] <= 1e11, "--urls %d: want 1 to 1e11", b.URLs)
	need(*b.NaiveURLs >= 0, "--naive-urls %d: want 0 or more", *b.NaiveURLs)
	need(b.PLDs >= 1 && b.PLDs <= 1<<28, "--plds %d: want 1 to 2^28", b.PLDs)
	need(b.Budget >= 1 && b.Budget <= 10_000, "--budget %d: want 1 to 10,000", b.Budget)
	need(b.URLBytes >= leastURLBytes && b.URLBytes <= 512, "--url-bytes %d: want %d to 512",
		b.URLBytes, leastURLBytes)
	need(b.UniquePerPage > 1 && b.UniquePerPage <= 1000, "--unique-per-page %g: want more than 1, at most 1000",
		b.UniquePerPage)
	need(b.Spam >= 0 && b.Spam <= 0.9, "--spam %g: want 0 to 0.9", b.Spam)
	return faults()
}

// model returns the paper's model with the parameters of web.
func (b *Beast) model(web *budgetWeb, urlBytes float64) beast.Model {
	return beast.Model{PLDs: float64(b.PLDs), MeanBudget: float64(web.sum) / float64(b.PLDs),
		UniquePerPage: b.UniquePerPage, PagesPerSecond: pagesPerSecond, URLBytes: urlBytes}
}

// diskBytes returns an upper bound of the bytes on disk. At the end of the largest crawl nearly all URLs
// are in QF, and a scan of QF writes another QF of half that size. s2 at least halves the text; the writes
// since the last checkpoint come on top.
func (b *Beast) diskBytes() int64 {
	urls := max(b.URLs[len(b.URLs)-1], *b.NaiveURLs)
	return urls*int64(b.URLBytes) + 2*beastCommitBytes
}

// beastResult holds everything that one measurement measured.
type beastResult struct {
	web   *budgetWeb
	crawl *beastCrawl
	naive *naiveCrawl // nil if the naive scheme was skipped
}

// Measure crawls a virtual web with BEAST and with the naive scheme. It calls progress at most a few times
// a second.
func (b Beast) Measure(ctx context.Context, progress func(what string)) (_ *result.Report, err error) {
	if err := b.Complete(); err != nil {
		return nil, err
	}
	b.progress = progress
	r := result.New("beast", "Budget enforcement: disk rate against crawl size")
	scratch, err := measure.NewScratch("beast", b.Dirs, b.diskBytes())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scratch.Remove()) }()
	res := &beastResult{web: newBudgetWeb(&b)}
	if err := res.crawls(ctx, &b, scratch); err != nil {
		return nil, err
	}
	res.report(&b, r)
	return r, nil
}

// crawls runs the virtual crawls from the same initial state.
func (res *beastResult) crawls(ctx context.Context, b *Beast, scratch *measure.Scratch) (err error) {
	if *b.NaiveURLs > 0 {
		set, err := scratch.Set()
		if err != nil {
			return err
		}
		if res.naive, err = openNaiveCrawl(b, set, newBudgetWeb(b)); err != nil {
			return err
		}
		tell := measure.EverySecond(b.progress)
		err = res.naive.run(ctx, *b.NaiveURLs, func(c *naiveCrawl) {
			tell("naive scheme: %d of %d URLs, %d passes", c.now.urls, *b.NaiveURLs, len(c.stages))
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
	last, tell := b.URLs[len(b.URLs)-1], measure.EverySecond(b.progress)
	err = res.crawl.run(ctx, last, func(c *beastCrawl) {
		tell("BEAST: %d of %d URLs, %d pages crawled, %d scans of QF", c.now.urls, last, c.now.pages, len(c.stages))
	})
	return errors.Join(err, res.crawl.close())
}

// perPage returns the given bytes per page of the stage.
func (s *stage) perPage(bytes int64) float64 { return float64(bytes) / float64(s.pages) }

// beastRaw returns the bytes that BEAST alone moves, before compression; wholeRaw adds the pass through
// STAR's buckets.
func (s *stage) beastRaw() int64 { return s.queueRaw + s.failedRaw }

func (s *stage) wholeRaw() int64 { return s.beastRaw() + s.checkRaw + s.starRest }

// wholeDisk returns the bytes that the disk transferred without checkpoints, which come at fixed times and
// save the buffers.
func (s *stage) wholeDisk() int64 { return s.queueDisk + s.starDisk }

// last returns the last stage that ended at or before the given number of URLs, or nil.
func last(stages []stage, urls int64) *stage {
	for i := len(stages) - 1; i >= 0; i-- {
		if stages[i].endURLs <= urls {
			return &stages[i]
		}
	}
	return nil
}

// spread returns the ratio of the largest to the smallest value.
func spread(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return slices.Max(v) / slices.Min(v)
}
