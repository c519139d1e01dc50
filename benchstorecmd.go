package main

import (
	"context"

	"drumbeat/bench"
	"drumbeat/bench/report"
)

// benchStoreCmd has the options of bench.Store.
type benchStoreCmd struct {
	Dir         []string `placeholder:"DIR" required:"" help:"Directory for the files, which are removed at the end. Repeat it for several disks."`
	Corpus      []string `placeholder:"DIR" help:"Directory with HTML files, looked at to the bottom: 256 of all are the pages. Repeatable. Default: made pages."`
	Pages       *count   `placeholder:"N" help:"Pages of one measurement. Default: 50000, or 6000 with --quick."`
	Repeat      *count   `placeholder:"N" help:"How often all is measured. Default: 5, or 3 with --quick."`
	Level       count    `placeholder:"N" default:"1" help:"Level of compression of what doesn't come compressed, 1 to 9."`
	BlockDigest bool     `help:"Give response records a digest of the whole block, too, beside that of the payload: a second SHA-1 over the body."`
	Seed        count    `placeholder:"N" default:"1" help:"Seed of the made pages."`
	Quick       bool     `help:"End within 30 s: fewer pages."`
	benchOutput
}

// options is what the flags say.
func (c *benchStoreCmd) options() bench.Store {
	o := bench.Store{Dirs: c.Dir, Corpus: c.Corpus, Level: int(c.Level), BlockDigest: c.BlockDigest, Seed: uint64(c.Seed)}
	if c.Quick {
		o.Pages, o.Repeats = 6000, 3
	}
	if c.Pages != nil {
		o.Pages = int(*c.Pages)
	}
	if c.Repeat != nil {
		o.Repeats = int(*c.Repeat)
	}
	return o
}

// Run measures and prints.
func (c *benchStoreCmd) Run(a *app) error {
	o := c.options()
	if err := o.Validate(); err != nil {
		return usageError{err}
	}
	return c.measure(a, func(ctx context.Context, progress func(string)) (*report.Report, error) {
		o.Progress = progress
		return bench.RunStore(ctx, o)
	})
}
