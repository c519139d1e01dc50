// Package bench is the command bench: the flags of each benchmark, and what all have in common. The
// measurements themselves are the packages below drumbeat/bench. What compares libraries is a command of its
// own, bench/lab.
//
// Each benchmark is a command of its own below Command, in a file of its own: its struct has a field for
// each flag, options turns them into what the benchmark takes, and Run measures. output has what all of them
// share: --out, --check, --quiet and --profile, the context that a signal ends, and the report, which is
// printed, saved and held against its targets.
//
// What must be measured in a process of its own is a hidden command (drum-child, crawl-server), which the
// benchmark starts from its own executable; it reads a job from standard input, answers on standard output,
// and ends with its input.
//
// The flags' variables in the environment begin with DRUMBEAT_BENCH_, so that those of a crawl don't leak
// into a measurement. --quick makes each end within 30 s.
//
// Exit codes: 0, term.ExitFailure (1) when --check is given and a figure misses its target, term.ExitUsage
// (2) for a bad flag, term.ExitSignal (11) after a signal. A measurement runs alone in the process; its
// goroutines end before Run returns.
package bench

import (
	"context"
	"fmt"
	"os/signal"
	"strings"
	"syscall"

	"drumbeat/bench/report"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// Command is the table of bench's commands.
type Command struct {
	Model modelCmd `cmd:"" help:"Compute the paper's tables II, III, V, VI and VII and the examples of its theorems, beside the printed numbers. The defaults are the paper's values."`
	Disk  diskCmd  `cmd:"" help:"Measure how fast directories are written and read in sequence, and which crawling rate that supports."`

	Drum      drumCmd      `cmd:"" help:"Measure check+update of links by DRUM, in the paper's form and in ours, and by other methods in the same RAM: speed, disk traffic beside the theorems, RAM, right answers."`
	DrumChild drumChildCmd `cmd:"" hidden:"" help:"One measurement of bench drum, in a process of its own."`

	Star  starCmd  `cmd:"" help:"Send links between PLDs and budget checks through STAR, evenly spread and skewed: rates, I/O, and whether every in-degree is exact."`
	Beast beastCmd `cmd:"" help:"Crawl a virtual web with BEAST and with the naive two queues: the disk rate that each needs against the size of the crawl, beside Theorems 6 and 7, and the CPU of a URL's way from STAR's check to its queue."`

	Queue queueCmd `cmd:"" help:"Measure queues on disk: appending and reading, one queue and many, a calendar, beside the disk's own speed in the same run, and the bytes of a queued URL."`

	Cache cacheCmd `cmd:"" help:"Measure the RAM cache in front of URLseen: hit rates beside exact LRU, CLOCK and random (Table IV), of a made stream or of a crawl's trace; speed, RAM per entry, and other structures (Table V)."`

	Crawl       crawlCmd       `cmd:"" help:"Crawl a web in another process with the whole crawler: pages/s, its CPU of a page by stage, what connections waited for, beside a loop that only fetches; or run many URLs through the disk structures without sockets."`
	CrawlServer crawlServerCmd `cmd:"" hidden:"" help:"The web of bench crawl, in a process of its own."`

	Checkpoint checkpointCmd `cmd:"" help:"Measure checkpoints of a store with full bucket buffers while tuples come in: how long nothing can be added, what is written, how long it takes."`
}

// output has the options that measurements share.
type output struct {
	Out   string `placeholder:"DIR" help:"Also put the report into DIR, which is made if need be: as text and as JSON, from which go run ./bench/lab plot draws the figures."`
	Check bool   `help:"Exit with 1 if a figure misses the target stated for it."`
	Quiet bool   `short:"q" help:"Print no progress."`
	flags.Profiling
}

// measure runs a measurement until a signal, prints its report, and saves and checks it as the flags say.
func (o *output) measure(a *term.App, run func(ctx context.Context, progress func(string)) (*report.Report, error)) error {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	progress := func(what string) { fmt.Fprintln(a.Stderr, what) }
	if o.Quiet {
		progress = func(string) {}
	}
	var r *report.Report
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
	if err := r.Write(a.Stdout); err != nil {
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

// floats turns numbers of a flag into those of a formula.
func floats[T ~int64](list []T) []float64 {
	out := make([]float64, len(list))
	for i, v := range list {
		out[i] = float64(v)
	}
	return out
}
