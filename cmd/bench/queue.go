package bench

import (
	"context"

	benchqueue "drumbeat/bench/queue"
	"drumbeat/bench/report"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// queueCmd has the flags for benchqueue.Options.
type queueCmd struct {
	Dir       []string     `placeholder:"DIR" required:"" help:"Directory for the files, which are removed at the end. Repeat it for several disks."`
	Size      *flags.Size  `placeholder:"SIZE" help:"Size of the records of a measurement, before compression. Disk space: three times as much. Default: 1GiB, or 64MiB with --quick."`
	Block     flags.Size   `placeholder:"SIZE" default:"256KiB" help:"Block size of the queues, a multiple of 4KiB up to 4MiB. The bare disk is measured in chunks of this size."`
	URLs      string       `name:"urls" placeholder:"FILE" help:"File with at least 70,000 distinct URLs, one per line, gzip if its name ends with .gz. Default: the generator of bench drum."`
	Appenders *flags.Count `placeholder:"N" help:"Number of concurrent appenders in parallel measurements. Default: the number of CPUs, at least 2."`
	Queues    flags.Count  `placeholder:"N" default:"64" help:"Number of queues that are filled alternately, as in BEAST."`
	Record    flags.Size   `placeholder:"SIZE" default:"100B" help:"Size of the incompressible records."`
	Sizes     []flags.Size `placeholder:"SIZE" help:"Sizes of incompressible records for a figure. Repeatable. Default: 16B to 4KiB; with --quick 32B, 1KiB."`
	Blocks    []flags.Size `placeholder:"SIZE" help:"Block sizes of URLs for a figure. Repeatable. Default: 32KiB to 4MiB; with --quick 64KiB, 1MiB."`
	Repeat    *flags.Count `placeholder:"N" help:"Number of repetitions. Default: 3, or 1 with --quick."`
	Seed      flags.Count  `placeholder:"N" default:"1" help:"Random seed."`
	Quick     bool         `help:"Use smaller sizes, to end within 30 s."`
	output
}

// options returns the options of the measurement.
func (c *queueCmd) options() benchqueue.Options {
	b := benchqueue.Options{Dirs: c.Dir, BlockBytes: int(c.Block), Queues: int(c.Queues), RecordBytes: int(c.Record), URLs: c.URLs,
		Seed: uint64(c.Seed)}
	if c.Quick {
		b.Bytes, b.Repeats, b.Sizes, b.Blocks = 64<<20, 1, []int{32, 1024}, []int{64 << 10, 1 << 20}
	}
	if c.Size != nil {
		b.Bytes = int64(*c.Size)
	}
	if c.Appenders != nil {
		b.Appenders = int(*c.Appenders)
	}
	if c.Repeat != nil {
		b.Repeats = int(*c.Repeat)
	}
	if len(c.Sizes) > 0 {
		b.Sizes = ints(c.Sizes)
	}
	if len(c.Blocks) > 0 {
		b.Blocks = ints(c.Blocks)
	}
	return b
}

// Run measures and prints.
func (c *queueCmd) Run(a *term.App) error {
	b := c.options()
	if err := b.Validate(); err != nil {
		return term.Usage(err)
	}
	return c.measure(a, func(ctx context.Context, progress func(string)) (*report.Report, error) {
		b.Progress = progress
		return benchqueue.Run(ctx, b)
	})
}
