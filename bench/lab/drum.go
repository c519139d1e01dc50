package main

import (
	"time"

	"drumbeat/bench/drum"
	"drumbeat/bench/lab/pebble"
	"drumbeat/bench/measure"
)

// drumCmd has the options of drum.Options that matter beside Pebble; drumbeat bench drum has them all.
type drumCmd struct {
	Dir     []string `placeholder:"DIR" required:"" help:"Directory for the files, which are removed at the end. Repeat it for several disks."`
	Forms   []string `placeholder:"NAME" default:"ours,cached" help:"Forms of DRUM, and other methods, to measure: as drumbeat bench drum has them."`
	Against []string `placeholder:"NAME" default:"pebble,pebble-seek" enum:"pebble,pebble-seek" help:"pebble: a Get for each link, and a Set where it found nothing. pebble-seek: sorted batches and an iterator that seeks."`

	Links        *measure.Count `placeholder:"N" help:"Links to check (n). Default: 1e8, or 2e6 with --quick."`
	Known        *measure.Count `placeholder:"N" help:"Keys known before the first link (U). Default: 1e8, or 1e6 with --quick."`
	RAM          *measure.Size  `name:"ram" placeholder:"SIZE" help:"RAM of a method (R). Default: 256MiB, or 16MiB with --quick."`
	Disk         *measure.Size  `placeholder:"SIZE" help:"Disk that waiting links may take (D). Default: 8GB, or 96MB with --quick."`
	Buffer       *measure.Size  `placeholder:"SIZE" help:"Buffer of a bucket (M), a multiple of 4KiB. Default: 256KiB, or less if --ram is small."`
	Repeat       *measure.Count `placeholder:"N" help:"How often everything is measured. Default: 1."`
	BaselineTime *time.Duration `placeholder:"DURATION" help:"Time after which Pebble ends, with fewer links. Default: 1m, or 2s with --quick."`
	Seed         measure.Count  `placeholder:"N" default:"1" help:"Seed of the generated links."`
	NoLimit      bool           `help:"Don't limit the memory of the measured processes, page cache included, to 1.25 R + 64 MiB."`
	Quick        bool           `help:"End within 30 s, with small sizes."`
	output
}

// Run measures and prints.
func (c *drumCmd) Run(l *lab) (err error) {
	d := drum.Options{Dirs: c.Dir, Methods: append(c.Forms, c.Against...), Others: pebble.Methods(), Seed: uint64(c.Seed), NoLimit: c.NoLimit,
		Known: []int64{100_000_000}}
	if c.Quick {
		d.Known, d.Links, d.RAMBytes, d.DiskBytes, d.BaselineTime = []int64{1_000_000}, 2_000_000, 16<<20, 96e6, 2*time.Second
	}
	set(&d.Known[0], c.Known)
	set(&d.Links, c.Links)
	set(&d.RAMBytes, c.RAM)
	set(&d.DiskBytes, c.Disk)
	set(&d.BufferBytes, c.Buffer)
	set(&d.Repeats, c.Repeat)
	set(&d.BaselineTime, c.BaselineTime)
	if d.Command, err = measure.Self("drum-child"); err != nil {
		return err
	}
	if err := d.Complete(); err != nil {
		return usageError{err}
	}
	return c.measure(l, d.Measure)
}

// drumChildCmd is a measurement in a process of its own.
type drumChildCmd struct{}

// Run reads a job and writes what was measured.
func (c *drumChildCmd) Run(l *lab) error {
	ctx, release := untilSignal()
	defer release()
	return drum.Child(ctx, l.stdin, l.stdout, pebble.Methods()...)
}

// set changes an option where the flag was given.
func set[T, F ~int | ~int64](to *T, from *F) {
	if from != nil {
		*to = T(*from)
	}
}
