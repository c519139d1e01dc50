package bench

import (
	"context"

	"drumbeat/bench/budget"
	"drumbeat/bench/report"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// starCmd has the options of budget.Star. The paper's symbols are in brackets.
type starCmd struct {
	Dir        []string       `placeholder:"DIR" required:"" help:"Directory for the files, which are removed at the end. Repeat it for several disks."`
	PLDs       *flags.Count   `name:"plds" placeholder:"N" help:"PLDs that are linked to (V). Default: 1e6, or 1e5 with --quick."`
	Edges      *flags.Count   `placeholder:"N" help:"Pairs of PLDs that are linked, the giant's apart. Default: 5e6, or 5e5 with --quick."`
	Unique     flags.Fraction `placeholder:"SHARE" default:"1/2" help:"Share of the links whose pair is new."`
	Neighbours *flags.Count   `placeholder:"N" help:"In-neighbours of the giant. Default: 2e6, or 2e5 with --quick."`
	Checks     *flags.Count   `placeholder:"N" help:"URLs that ask for a budget. Default: 4e6, or 4e5 with --quick."`
	RAM        *flags.Size    `name:"ram" placeholder:"SIZE" help:"RAM of both drums together (R). Default: 32MiB, or 16MiB with --quick."`
	PageCache  bool           `help:"Read and write through the page cache. Without it past it (O_DIRECT), where the file system can: the cache would flatter."`
	Repeat     *flags.Count   `placeholder:"N" help:"How often each case is measured. Default: 3, or 2 with --quick."`
	Seed       flags.Count    `placeholder:"N" default:"1" help:"Seed of the random numbers."`
	Quick      bool           `help:"End within 30 s: smaller sizes."`
	output
}

// options is what the flags say.
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
