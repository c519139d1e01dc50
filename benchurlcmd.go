package main

import (
	"context"

	"drumbeat/bench"
	"drumbeat/bench/report"
)

// benchURLCmd has the options of bench.URL.
type benchURLCmd struct {
	Corpus  []string `placeholder:"DIR" help:"Directory of HTML files, whose links are timed as a mix and compared with the standard. Repeatable. Default: made pages."`
	Pages   *count   `placeholder:"N" help:"Pages that are timed, spread over the corpus. Default: 400, or 100 with --quick."`
	Compare *count   `placeholder:"N" help:"Pages whose references are compared with the standard. 0: all. Default: all, or 500 with --quick."`
	Cache   *size    `placeholder:"SIZE" help:"RAM cache that is probed when it is full. Default: 256MiB, or 64MiB with --quick."`
	Repeat  *count   `placeholder:"N" help:"How often each case is measured. Default: 10, or 3 with --quick."`
	Seed    count    `placeholder:"N" default:"1" help:"Seed of the made references."`
	Quick   bool     `help:"End within 30 s: fewer repeats and pages."`
	benchOutput
}

// options is what the flags say.
func (c *benchURLCmd) options() bench.URL {
	o := bench.URL{Corpus: c.Corpus, Seed: uint64(c.Seed)}
	if c.Quick {
		o.Pages, o.Compare, o.CacheBytes, o.Repeats = 100, 500, 64<<20, 3
	}
	set := func(to *int, from *count) {
		if from != nil {
			*to = int(*from)
		}
	}
	set(&o.Pages, c.Pages)
	set(&o.Compare, c.Compare)
	set(&o.Repeats, c.Repeat)
	if c.Cache != nil {
		o.CacheBytes = int64(*c.Cache)
	}
	return o
}

// Run measures and prints.
func (c *benchURLCmd) Run(a *app) error {
	o := c.options()
	if err := o.Validate(); err != nil {
		return usageError{err}
	}
	return c.measure(a, func(ctx context.Context, progress func(string)) (*report.Report, error) {
		o.Progress = progress
		return bench.RunURL(ctx, o)
	})
}
