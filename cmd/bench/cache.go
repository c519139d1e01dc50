package bench

import (
	"context"

	"drumbeat/bench/cache"
	"drumbeat/bench/report"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// cacheCmd has the options of cache.Options. The paper's symbols are in brackets.
type cacheCmd struct {
	Trace   string         `placeholder:"FILE" help:"Measure hit rates with the links of a crawl, which crawl --trace-links recorded, instead of made ones."`
	From    flags.Count    `placeholder:"N" default:"0" help:"Links of the trace to skip before the first that a cache sees (N0)."`
	Hosts   *flags.Count   `placeholder:"N" help:"Sites that the made stream visits in turns (tau_h S). Table IV's sizes are scaled with it; 124e3 give the paper's. Default: 2000, or 250 with --quick."`
	Size    []flags.Count  `placeholder:"N" help:"Entries of a cache to measure hit rates for (E). Repeatable. Default: those of Table IV and some between, by the stream or the trace."`
	Entries flags.Count    `placeholder:"N" default:"16_777_216" help:"Entries of the cache whose speed and RAM are measured."`
	Tree    *flags.Count   `name:"tree-entries" placeholder:"N" help:"Entries of the structures of Table V. 0: without it. Default: 16 Mi as in the paper, which take 3 GB and some minutes, or 1 Mi with --quick."`
	MaxRate flags.Fraction `placeholder:"N" default:"4000" help:"Pages a second that the CPU admits, in Table V (Smax)."`
	Repeat  *flags.Count   `placeholder:"N" help:"How often speeds are measured. Default: 5, or 3 with --quick."`
	Seed    flags.Count    `placeholder:"N" default:"1" help:"Seed of the random numbers."`
	Quick   bool           `help:"End within 30 s: smaller sizes and fewer of them."`
	output
}

// options is what the flags say.
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
