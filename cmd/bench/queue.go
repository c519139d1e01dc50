package bench

import (
	"context"

	benchqueue "drumbeat/bench/queue"
	"drumbeat/bench/report"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// queueCmd has the options of benchqueue.Options.
type queueCmd struct {
	Dir       []string     `placeholder:"DIR" required:"" help:"Directory for the files, which are removed at the end. Repeat it for several disks."`
	Size      *flags.Size  `placeholder:"SIZE" help:"Records of one measurement, before compression; three times as much space is asked for. Default: 1GiB, or 64MiB with --quick."`
	Block     flags.Size   `placeholder:"SIZE" default:"256KiB" help:"Block of the queues, a multiple of 4KiB up to 4MiB. The bare disk is measured in chunks of this size."`
	URLs      string       `name:"urls" placeholder:"FILE" help:"File of URLs, one a line, unpacked if its name ends with .gz: 70,000 distinct ones at least. Default: the generator's of bench drum."`
	Appenders *flags.Count `placeholder:"N" help:"How many append at once where it is more than one. Default: the number of CPUs, 2 at least."`
	Queues    flags.Count  `placeholder:"N" default:"64" help:"Queues that are filled in turns, as BEAST does."`
	Record    flags.Size   `placeholder:"SIZE" default:"100B" help:"Length of the records that can't be compressed."`
	Sizes     []flags.Size `placeholder:"SIZE" help:"Lengths of such records for a figure. Repeatable. Default: 16B to 4KiB; with --quick 32B, 1KiB."`
	Blocks    []flags.Size `placeholder:"SIZE" help:"Sizes of blocks of URLs for a figure. Repeatable. Default: 32KiB to 4MiB; with --quick 64KiB, 1MiB."`
	Repeat    *flags.Count `placeholder:"N" help:"How often all is measured. Default: 3, or 1 with --quick."`
	Seed      flags.Count  `placeholder:"N" default:"1" help:"Seed of the random numbers."`
	Quick     bool         `help:"End within 30 s: smaller sizes."`
	output
}

// options is what the flags say.
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
