package bench

import (
	"context"

	"drumbeat/bench/budget"
	"drumbeat/bench/report"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// starCmd has the flags for budget.Star. Their help has the paper's symbols in brackets.
type starCmd struct {
	Dir        []string       `placeholder:"DIR" required:"" help:"Directory for the files, which are removed at the end. Repeat it for several disks."`
	PLDs       *flags.Count   `name:"plds" placeholder:"N" help:"Number of PLDs that are linked to (V). Default: 1e6, or 1e5 with --quick."`
	Edges      *flags.Count   `placeholder:"N" help:"Number of linked pairs of PLDs, without the giant's. Default: 5e6, or 5e5 with --quick."`
	Unique     flags.Fraction `placeholder:"SHARE" default:"1/2" help:"Share of links whose pair of PLDs is new."`
	Neighbours *flags.Count   `placeholder:"N" help:"Number of PLDs that link to the giant. Default: 2e6, or 2e5 with --quick."`
	Checks     *flags.Count   `placeholder:"N" help:"Number of URLs that check their budget. Default: 4e6, or 4e5 with --quick."`
	RAM        *flags.Size    `name:"ram" placeholder:"SIZE" help:"RAM of both drums together (R). Default: 32MiB, or 16MiB with --quick."`
	PageCache  bool           `help:"Read and write through the page cache. Default: bypass it (O_DIRECT) where the file system supports it, since caching would inflate the rates."`
	Repeat     *flags.Count   `placeholder:"N" help:"Number of measurements of each case. Default: 3, or 2 with --quick."`
	Seed       flags.Count    `placeholder:"N" default:"1" help:"Random seed."`
	Quick      bool           `help:"Use smaller sizes, to end within 30 s."`
	output
}

// options returns the options of the measurement.
func (c *starCmd) options() budget.Star {
	s := budget.Star{Dirs: c.Dir, Unique: float64(c.Unique), Seed: uint64(c.Seed), PageCache: c.PageCache}
	if c.Quick {
		s.PLDs, s.Edges, s.Neighbours, s.Checks, s.RAMBytes, s.Repeats = 1e5, 5e5, 2e5, 4e5, 16<<20, 2
	}
	set := func(to *int64, from *flags.Count) {
		if from != nil {
			*to = int64(*from)
		}
	}
	set(&s.Edges, c.Edges)
	set(&s.Neighbours, c.Neighbours)
	set(&s.Checks, c.Checks)
	if c.PLDs != nil {
		s.PLDs = int(*c.PLDs)
	}
	if c.Repeat != nil {
		s.Repeats = int(*c.Repeat)
	}
	if c.RAM != nil {
		s.RAMBytes = int64(*c.RAM)
	}
	return s
}

// Run measures and prints.
func (c *starCmd) Run(a *term.App) error {
	s := c.options()
	if err := s.Validate(); err != nil {
		return term.Usage(err)
	}
	return c.measure(a, func(ctx context.Context, progress func(string)) (*report.Report, error) {
		s.Progress = progress
		return budget.RunStar(ctx, s)
	})
}
