package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"drumbeat/bench"
)

// benchDiskCmd has the options of bench.Disk.
type benchDiskCmd struct {
	Dir    []string `placeholder:"DIR" required:"" sep:"none" help:"Directory to measure. Repeat it for several disks: each alone, then all together."`
	Size   *size    `placeholder:"SIZE" help:"Bytes that one measurement moves in a directory; 1.5 times as much space is taken meanwhile. Default: 1GiB, or 128MiB with --quick."`
	Chunk  []size   `placeholder:"SIZE" help:"Size of a single read or write, a multiple of 4KiB. Repeatable. Default: 64KiB, 256KiB, 1MiB, 2MiB, 4MiB, 8MiB; with --quick 64KiB, 1MiB, 8MiB."`
	Repeat *count   `placeholder:"N" help:"How often everything is measured. Default: 3, or 1 with --quick."`
	Quick  bool     `help:"End within 30 s: sizes are cut to what a probe says fits in."`

	Alpha        fraction `placeholder:"N" default:"3.33" help:"How often the text of all links is written and read (alpha): 3.33 is DRUM's in the paper's Table III for 80 billion pages."`
	Share        fraction `placeholder:"SHARE" default:"0.15" help:"Share of the disks' time for URLseen, as in the paper."`
	URLBytes     size     `name:"url-bytes" placeholder:"SIZE" default:"110B" help:"Text of a URL (b)."`
	LinksPerPage fraction `placeholder:"N" default:"59" help:"Links on a page (l)."`

	Quiet bool `short:"q" help:"Print no progress."`
}

// quickBudget leaves room for what a measurement takes beyond its share, below 30 s.
const quickBudget = 20 * time.Second

// options is what the flags say.
func (c *benchDiskCmd) options(a *app) bench.Disk {
	d := bench.Disk{
		Dirs: c.Dir, Bytes: 1 << 30, Repeats: 3,
		Alpha: float64(c.Alpha), URLBytes: float64(c.URLBytes), LinksPerPage: float64(c.LinksPerPage), Share: float64(c.Share),
	}
	if c.Quick {
		d.Bytes, d.Repeats, d.Chunks, d.Budget = 128<<20, 1, []int{64 << 10, 1 << 20, 8 << 20}, quickBudget
	}
	if c.Size != nil {
		d.Bytes = int64(*c.Size)
	}
	if c.Repeat != nil {
		d.Repeats = int(*c.Repeat)
	}
	if len(c.Chunk) > 0 {
		d.Chunks = nil
	}
	for _, s := range c.Chunk {
		d.Chunks = append(d.Chunks, int(s))
	}
	if !c.Quiet {
		d.Progress = func(what string) { fmt.Fprintln(a.stderr, what) }
	}
	return d
}

// Run measures and prints.
func (c *benchDiskCmd) Run(a *app) error {
	d := c.options(a)
	if d.Bytes == 0 || d.Repeats == 0 {
		return usageError{errors.New("--size and --repeat can't be 0")}
	}
	if err := d.Validate(); err != nil {
		return usageError{err}
	}
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	r, err := bench.RunDisk(ctx, d)
	if err != nil && ctx.Err() != nil {
		return &ended{code: exitSignal, why: "stopped by a signal"}
	}
	if err != nil {
		return err
	}
	return r.Write(a.stdout)
}
