package bench

import (
	"context"

	"drumbeat/bench/budget"
	"drumbeat/bench/report"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// beastCmd has the flags for budget.Beast. Their help has the paper's symbols in brackets.
type beastCmd struct {
	Dir       []string      `placeholder:"DIR" required:"" help:"Directory for the files, which are removed at the end. Repeat it for several disks."`
	URLs      []flags.Count `name:"urls" placeholder:"N" help:"Report at these sizes of the crawl, in unique URLs found; crawl to the largest. 1e8 takes about 10 minutes and 6 GB. Default: 1e5, 1e6, 1e7, or 1e5, 1e6 with --quick."`
	NaiveURLs *flags.Count  `name:"naive-urls" placeholder:"N" help:"End the crawl with the naive scheme, whose I/O grows quadratically, at N unique URLs. 0: skip it. Default: 3e6, or 3e5 with --quick."`
	PLDs      *flags.Count  `name:"plds" placeholder:"N" help:"Number of PLDs (V). Default: 2000, or 200 with --quick: a small number, so queues are crawled many times."`
	Budget    flags.Count   `placeholder:"PAGES" default:"10" help:"Default budget of a PLD (B0), in pages per queue; the mean, E[B], is larger."`

	UniquePerPage  flags.Fraction `placeholder:"N" default:"6.5" help:"New URLs per page (L)."`
	URLBytes       flags.Size     `name:"url-bytes" placeholder:"SIZE" default:"110B" help:"Mean size of a URL's record (b), 64 to 512 bytes."`
	PagesPerSecond flags.Count    `placeholder:"N" default:"3100" help:"Crawling rate, to convert bytes per page into a disk rate (S)."`
	Spam           flags.Fraction `placeholder:"SHARE" default:"0.2" help:"Share of links that lead to spammers: 1 % of the PLDs, with the smallest budget."`

	Compress bool `help:"Compress the URLs that wait for STAR's checks: less I/O, more CPU."`

	CPUURLs *flags.Count `name:"cpu-urls" placeholder:"N" help:"Number of URLs in the measurement of CPU. Default: 4e6, or 5e5 with --quick."`
	CPUPLDs *flags.Count `name:"cpu-plds" placeholder:"N" help:"Number of PLDs in the measurement of CPU. Default: 1e6, or 125e3 with --quick."`
	Repeat  *flags.Count `placeholder:"N" help:"Number of measurements of CPU; I/O is the same in each. Default: 3."`
	Seed    flags.Count  `placeholder:"N" default:"1" help:"Random seed."`
	Quick   bool         `help:"Use smaller sizes, to end within 30 s."`
	output
}

// options returns the options of the measurement.
func (c *beastCmd) options() budget.Beast {
	b := budget.Beast{Dirs: c.Dir, NaiveURLs: 3e6, Budget: int(c.Budget), UniquePerPage: float64(c.UniquePerPage),
		URLBytes: int(c.URLBytes), PagesPerSecond: float64(c.PagesPerSecond), Spam: float64(c.Spam), Seed: uint64(c.Seed),
		Compress: c.Compress}
	if c.Quick {
		b.URLs, b.NaiveURLs, b.PLDs, b.WayURLs, b.WayPLDs = []int64{1e5, 1e6}, 3e5, 200, 5e5, 125e3
	}
	if len(c.URLs) > 0 {
		b.URLs = nil
	}
	for _, n := range c.URLs {
		b.URLs = append(b.URLs, int64(n))
	}
	set := func(to *int, from *flags.Count) {
		if from != nil {
			*to = int(*from)
		}
	}
	set(&b.PLDs, c.PLDs)
	set(&b.WayPLDs, c.CPUPLDs)
	set(&b.Repeats, c.Repeat)
	if c.NaiveURLs != nil {
		b.NaiveURLs = int64(*c.NaiveURLs)
	}
	if c.CPUURLs != nil {
		b.WayURLs = int64(*c.CPUURLs)
	}
	return b
}

// Run measures and prints.
func (c *beastCmd) Run(a *term.App) error {
	b := c.options()
	if err := b.Validate(); err != nil {
		return term.Usage(err)
	}
	return c.measure(a, func(ctx context.Context, progress func(string)) (*report.Report, error) {
		b.Progress = progress
		return budget.RunBeast(ctx, b)
	})
}
