package crawl

import (
	"context"
	"errors"
	"io"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
)

// Once crawls for another command, as the command crawl does with these flags, and prints errors of the log only.
// watch, unless it is nil, gets a snapshot each second. Variables of the environment have no effect. The end of ctx
// stops the crawl as a signal does, and its cause is the error then. Otherwise the error is that of the command: an
// orderly end other than crawl.StopDone is a term.Ended.
func Once(ctx context.Context, a *term.App, args []string, watch func(*crawl.Snapshot)) error {
	var table struct {
		Crawl Command `cmd:""`
	}
	p, err := flags.NewParser(&table, kong.Writers(io.Discard, io.Discard))
	if err != nil {
		return err
	}
	for _, f := range p.Model.Children[0].Flags {
		f.Envs, f.Tag.Envs = nil, nil
	}
	given, err := p.Parse(append([]string{"crawl", "--quiet", "--log-level=error", "--admin=none"}, args...))
	if err != nil {
		return term.Usage(err)
	}
	if table.Crawl.once = watch; watch == nil {
		table.Crawl.once = func(*crawl.Snapshot) {}
	}
	inner := &term.App{Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr, Args: a.Args,
		StopOnSignal: func(context.Context) (context.Context, func()) {
			// Without the cause: it is the other command that says what a signal does.
			crawling, cancel := context.WithCancel(context.WithoutCancel(ctx))
			stop := context.AfterFunc(ctx, cancel)
			return crawling, func() { stop(); cancel() }
		}}
	err = table.Crawl.Run(inner, given, nil)
	var end *term.Ended
	if errors.As(err, &end) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
