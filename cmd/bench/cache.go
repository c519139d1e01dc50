package bench

import (
	"context"

	"drumbeat/bench/cache"
	"drumbeat/bench/report"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// cacheCmd has the flags for cache.Options. Their help has the paper's symbols in brackets.
type cacheCmd struct {
	Trace   string         `placeholder:"FILE" help:"Measure hit rates with the links of a crawl, recorded by crawl --trace-links, instead of generated links."`
	From    flags.Count    `placeholder:"N" default:"0" help:"Skip the first N links of the trace (N0)."`
	Hosts   *flags.Count   `placeholder:"N" help:"Number of sites that the generated stream visits alternately (tau_h S). Table IV's sizes scale with it; 124e3 gives the paper's. Default: 2000, or 250 with --quick."`
	Size    []flags.Count  `placeholder:"N" help:"Cache size for hit rates, in entries (E). Repeatable. Default: the sizes of Table IV and some between, scaled to the stream or the trace."`
	Entries flags.Count    `placeholder:"N" default:"16_777_216" help:"Number of entries of the cache whose speed and RAM are measured."`
	Tree    *flags.Count   `name:"tree-entries" placeholder:"N" help:"Number of entries of the structures of Table V. 0: skip them. Default: 16 Mi as in the paper, which takes 3 GB and some minutes, or 1 Mi with --quick."`
	MaxRate flags.Fraction `placeholder:"N" default:"4000" help:"Pages per second that the CPU allows, in Table V (Smax)."`
	Repeat  *flags.Count   `placeholder:"N" help:"Number of measurements of speed. Default: 5, or 3 with --quick."`
	Seed    flags.Count    `placeholder:"N" default:"1" help:"Random seed."`
	Quick   bool           `help:"Use smaller and fewer sizes, to end within 30 s."`
	output
}

// options returns the options of the measurement.
func (c *cacheCmd) options() cache.Options {
	b := cache.Options{Trace: c.Trace, From: int64(c.From), Entries: int64(c.Entries), MaxRate: float64(c.MaxRate), Few: c.Quick}
	hosts := 2000
	if c.Quick {
		hosts, b.TreeEntries, b.Repeats = 250, 1<<20, 3
	}
	if c.Hosts != nil {
		hosts = int(*c.Hosts)
	}
	b.Stream = cache.DefaultStream(hosts)
	b.Stream.Seed = uint64(c.Seed)
	for _, n := range c.Size {
		b.Sizes = append(b.Sizes, int64(n))
	}
	if c.Tree != nil {
		if b.TreeEntries = int64(*c.Tree); b.TreeEntries == 0 {
			b.TreeEntries = cache.NoTrees
		}
	}
	if c.Repeat != nil {
		b.Repeats = int(*c.Repeat)
	}
	return b
}

// Run measures and prints.
func (c *cacheCmd) Run(a *term.App) error {
	b := c.options()
	if err := b.Validate(); err != nil {
		return term.Usage(err)
	}
	return c.measure(a, func(ctx context.Context, progress func(string)) (*report.Report, error) {
		b.Progress = progress
		return cache.Run(ctx, b)
	})
}
