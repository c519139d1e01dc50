// Package bench is the command bench: the flags of each benchmark, and what all have in common. The
// measurements themselves are the packages below drumbeat/bench.
//
// The options of a benchmark are its flags, so their struct has the tags; benchmark is the command of each.
// output has what all share: --out, --check, --json, --quiet and --profile, the context that a signal cancels, and
// the report, which is printed, saved and checked against its targets.
//
// A measurement that needs its own process is a hidden command (drum-child, crawl-server), which the
// benchmark starts from its own executable. It reads a job from standard input, answers on standard output,
// and ends with its input.
//
// The environment variables of the flags begin with DRUMBEAT_BENCH_, so those of a crawl do not affect a
// measurement. --quick makes each benchmark end within 30 s.
//
// Exit codes: 0, term.ExitFailure (1) if --check is given and a figure misses its target, term.ExitUsage (2)
// for a bad flag, term.ExitSignal (11) after a signal. Only one measurement runs in the process; its
// goroutines end before Run returns.
package bench

import (
	"context"
	"fmt"
	"os/signal"
	"strings"
	"syscall"

	"drumbeat/bench/budget"
	"drumbeat/bench/cache"
	"drumbeat/bench/checkpoint"
	"drumbeat/bench/crawl"
	"drumbeat/bench/disk"
	"drumbeat/bench/drum"
	"drumbeat/bench/extract"
	"drumbeat/bench/measure"
	"drumbeat/bench/model"
	"drumbeat/bench/queue"
	"drumbeat/bench/result"
	crawlcmd "drumbeat/cmd/crawl"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	engine "drumbeat/crawl"
	"drumbeat/dnscache"
)

// Command is the table of bench's commands.
type Command struct {
	Model modelCmd                               `cmd:""`
	Disk  benchmark[disk.Options, *disk.Options] `cmd:""`

	Drum      drumCmd      `cmd:""`
	DrumChild drumChildCmd `cmd:"" hidden:""`

	Star  benchmark[budget.Star, *budget.Star]   `cmd:""`
	Beast benchmark[budget.Beast, *budget.Beast] `cmd:""`

	Queue benchmark[queue.Options, *queue.Options] `cmd:""`

	Cache benchmark[cache.Options, *cache.Options] `cmd:""`

	Crawl       crawlCmd       `cmd:""`
	CrawlServer crawlServerCmd `cmd:"" hidden:""`

	Checkpoint benchmark[checkpoint.Options, *checkpoint.Options] `cmd:""`

	Extract benchmark[extract.Options, *extract.Options] `cmd:""`
}

// output has the options that measurements share.
type output struct {
	Out   string `placeholder:"DIR"`
	Check bool
	Quiet bool `short:"q"`
	JSON  bool `name:"json"`
	flags.Profiling
}

// measure runs a measurement, which a signal stops, prints its report, and saves and checks it as the flags
// say.
func (o *output) measure(a *term.App,
	run func(ctx context.Context, progress func(string)) (*result.Report, error)) error {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	progress := func(what string) { fmt.Fprintln(a.Stderr, what) }
	if o.Quiet {
		progress = func(string) {}
	}
	var r *result.Report
	err := o.Profiled(func() (err error) {
		r, err = run(ctx, progress)
		return err
	})
	if err != nil && ctx.Err() != nil {
		return &term.Ended{Code: term.ExitSignal, Why: "stopped by a signal"}
	}
	if err != nil {
		return err
	}
	r.Command = "drumbeat " + strings.Join(a.Args, " ")
	write := r.Write
	if o.JSON {
		write = r.WriteJSON
	}
	if err := write(a.Stdout); err != nil {
		return err
	}
	if o.Out != "" {
		names, err := r.Save(o.Out)
		if err != nil {
			return err
		}
		progress("saved " + strings.Join(names, ", "))
	}
	if err := r.Err(); o.Check && err != nil {
		return err
	}
	return nil
}

// benchmark is a measurement whose options are its flags.
type benchmark[O any, P interface {
	*O
	Complete() error
	Measure(ctx context.Context, progress func(what string)) (*result.Report, error)
}] struct {
	Options O `embed:""`
	output
}

// Run measures and prints.
func (c *benchmark[O, P]) Run(a *term.App) error {
	o := P(&c.Options)
	if err := o.Complete(); err != nil {
		return term.Usage(err)
	}
	return c.measure(a, o.Measure)
}

// modelCmd computes; there is nothing to measure.
type modelCmd struct {
	Options model.Model `embed:""`
	output
}

// Run computes and prints.
func (c *modelCmd) Run(a *term.App) error {
	if err := c.Options.Validate(); err != nil {
		return term.Usage(err)
	}
	return c.measure(a, func(context.Context, func(string)) (*result.Report, error) { return c.Options.Report() })
}

// drumCmd measures in processes of their own.
type drumCmd struct {
	benchmark[drum.Options, *drum.Options] `embed:""`
}

// Run measures and prints.
func (c *drumCmd) Run(a *term.App) (err error) {
	if c.Options.Command, err = measure.Self("bench", "drum-child"); err != nil {
		return err
	}
	return c.benchmark.Run(a)
}

// crawlCmd measures the crawler as command crawl makes it.
type crawlCmd struct {
	benchmark[crawl.Options, *crawl.Options] `embed:""`
}

// Run measures and prints. --profile is for the measured time of each form here, which is profiled anyhow.
func (c *crawlCmd) Run(a *term.App) (err error) {
	o := &c.Options
	if o.Command, err = measure.Self("bench", "crawl-server"); err != nil {
		return err
	}
	o.Agent, o.UserAgent, o.GCPercent = flags.DefaultAgent, flags.UserAgent(flags.DefaultAgent, "bench@example.org"),
		crawlcmd.GCPercent
	o.Names = func(r *dnscache.Resolver) engine.Resolver { return crawlcmd.ResolverOf(r) }
	o.Profiles, c.Profile = c.Profile, ""
	return c.benchmark.Run(a)
}

// The processes that a benchmark starts from its own executable end with their input.
type (
	drumChildCmd   struct{}
	crawlServerCmd struct{}
)

// Run reads a job and writes what was measured, or the error.
func (*drumChildCmd) Run(a *term.App) error {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	if err := drum.Child(ctx, a.Stdin, a.Stdout); err != nil {
		return &term.Ended{Code: term.ExitFailure, Why: err.Error(), Quiet: true}
	}
	return nil
}

// Run serves the web of bench crawl.
func (*crawlServerCmd) Run(a *term.App) error {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	return crawl.Serve(ctx, a.Stdin, a.Stdout)
}
