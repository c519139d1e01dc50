package main

import (
	"context"
	"os/signal"
	"syscall"
	"time"

	"drumbeat/bench"
)

// benchCheckpointCmd has the options of bench.Checkpoint.
type benchCheckpointCmd struct {
	Dir     []string      `placeholder:"DIR" required:"" sep:"none" help:"Directory for the files, which are removed at the end. Repeat it for several disks."`
	Buffers size          `placeholder:"SIZE" default:"1GiB" help:"All bucket buffers together."`
	Buckets count         `placeholder:"N" default:"4096" help:"Buckets, a power of two (k)."`
	Count   count         `placeholder:"N" default:"5" help:"Checkpoints after the first, which saves full buffers."`
	Every   time.Duration `placeholder:"DURATION" default:"10s" help:"Time between them."`
	Rate    count         `placeholder:"N" default:"100000" help:"Tuples a second that come in."`
}

// Run measures and prints.
func (c *benchCheckpointCmd) Run(a *app) error {
	b := bench.Checkpoint{Dirs: c.Dir, BufferBytes: int64(c.Buffers), Buckets: int(c.Buckets), Count: int(c.Count),
		Every: c.Every, Rate: int(c.Rate)}
	if err := b.Validate(); err != nil {
		return usageError{err}
	}
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	r, err := bench.RunCheckpoint(ctx, b)
	if err != nil && ctx.Err() != nil {
		return &ended{code: exitSignal, why: "stopped by a signal"}
	}
	if err != nil {
		return err
	}
	return r.Write(a.stdout)
}
