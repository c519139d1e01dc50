package bench

import (
	"context"
	"time"

	"drumbeat/bench/checkpoint"
	"drumbeat/bench/report"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// checkpointCmd has the flags for checkpoint.Options.
type checkpointCmd struct {
	Dir     []string      `placeholder:"DIR" required:"" help:"Directory for the files, which are removed at the end. Repeat it for several disks."`
	Buffers flags.Size    `placeholder:"SIZE" default:"1GiB" help:"Total size of the bucket buffers. Disk space: four times as much."`
	Buckets flags.Count   `placeholder:"N" default:"4096" help:"Number of buckets, a power of 2 (k)."`
	Count   flags.Count   `placeholder:"N" default:"5" help:"Number of checkpoints after the first, which saves full buffers."`
	Every   time.Duration `placeholder:"DURATION" default:"10s" help:"Time between checkpoints."`
	Rate    flags.Count   `placeholder:"N" default:"100000" help:"Tuples added per second."`
	Quick   bool          `help:"End within 30 s, by --buffers 256MiB --buckets 1024 --count 3 --every 3s."`

	output
}

// Run measures and prints.
func (c *checkpointCmd) Run(a *term.App) error {
	b := checkpoint.Options{Dirs: c.Dir, BufferBytes: int64(c.Buffers), Buckets: int(c.Buckets), Count: int(c.Count),
		Every: c.Every, Rate: int(c.Rate)}
	if c.Quick {
		b.BufferBytes, b.Buckets, b.Count, b.Every = 256<<20, 1024, 3, 3*time.Second
	}
	if err := b.Validate(); err != nil {
		return term.Usage(err)
	}
	return c.measure(a, func(ctx context.Context, progress func(string)) (*report.Report, error) {
		b.Progress = progress
		return checkpoint.Run(ctx, b)
	})
}
