package main

import (
	"context"

	"drumbeat/bench"
	"drumbeat/bench/report"
)

// benchDecodeCmd has the options of bench.Decode.
type benchDecodeCmd struct {
	Corpus []string `placeholder:"DIR" help:"Directory with HTML files, looked at to the bottom. Repeatable. Default: made pages."`
	Pages  *count   `placeholder:"N" help:"Files taken, evenly from all, or pages made. Default: 2000, or 200 with --quick."`
	Levels []count  `placeholder:"N" default:"1,6,9" help:"Levels of gzip: servers pack with 1 to 6 as they send, and with 9 beforehand."`
	Repeat *count   `placeholder:"N" help:"How often each decoder goes through all pages, in turns. Default: 10, or 5 with --quick."`
	Seed   count    `placeholder:"N" default:"1" help:"Seed of made pages."`
	Quick  bool     `help:"End within 30 s: fewer pages."`
	benchOutput
}

// options is what the flags say.
func (c *benchDecodeCmd) options() bench.Decode {
	b := bench.Decode{Corpus: c.Corpus, Seed: uint64(c.Seed)}
	if c.Quick {
		b.Pages, b.Repeats = 200, 5
	}
	if c.Pages != nil {
		b.Pages = int(*c.Pages)
	}
	for _, l := range c.Levels {
		b.Levels = append(b.Levels, int(l))
	}
	if c.Repeat != nil {
		b.Repeats = int(*c.Repeat)
	}
	return b
}

// Run measures and prints.
func (c *benchDecodeCmd) Run(a *app) error {
	b := c.options()
	if err := b.Validate(); err != nil {
		return usageError{err}
	}
	return c.measure(a, func(ctx context.Context, progress func(string)) (*report.Report, error) {
		b.Progress = progress
		return bench.RunDecode(ctx, b)
	})
}
