package main

import (
	"context"

	"drumbeat/bench"
	"drumbeat/bench/report"
)

// benchParseCmd has the options of bench.Parse.
type benchParseCmd struct {
	Corpus []string `placeholder:"DIR" help:"Directory of HTML files, at any depth; symbolic links in it aren't followed. Repeat it for several, each of which is measured alone. Without one, only generated pages are measured."`
	Files  *count   `placeholder:"N" help:"Files of a corpus that are compared at most. Default: 50,000."`
	Bytes  *size    `placeholder:"SIZE" help:"Bytes of a corpus that are compared at most. Default: 1GiB, or 24MiB with --quick."`
	Sample *size    `placeholder:"SIZE" help:"Bytes of a corpus that are timed, of files evenly spread, held in RAM. Default: 24MiB, or 4MiB with --quick."`
	Shape  *size    `placeholder:"SIZE" help:"Largest page of a hostile shape. Default: 30MB, or 3MB with --quick."`
	Repeat *count   `placeholder:"N" help:"How often all is measured. Default: 5, or 3 with --quick."`
	Quick  bool     `help:"End within 30 s: fewer and smaller pages."`
	benchOutput
}

// options is what the flags say.
func (c *benchParseCmd) options() bench.Parse {
	b := bench.Parse{Corpora: c.Corpus}
	if c.Quick {
		b.Bytes, b.SampleBytes, b.ShapeBytes, b.Repeats = 24<<20, 4<<20, 3e6, 3
	}
	if c.Files != nil {
		b.Files = int(*c.Files)
	}
	if c.Bytes != nil {
		b.Bytes = int64(*c.Bytes)
	}
	if c.Sample != nil {
		b.SampleBytes = int64(*c.Sample)
	}
	if c.Shape != nil {
		b.ShapeBytes = int(*c.Shape)
	}
	if c.Repeat != nil {
		b.Repeats = int(*c.Repeat)
	}
	return b
}

// Run measures and prints.
func (c *benchParseCmd) Run(a *app) error {
	b := c.options()
	if err := b.Validate(); err != nil {
		return usageError{err}
	}
	return c.measure(a, func(ctx context.Context, progress func(string)) (*report.Report, error) {
		b.Progress = progress
		return bench.RunParse(ctx, b)
	})
}
