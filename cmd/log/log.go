// Package log is the command log: it prints the logs of a stopped or running crawl.
//
// Command is the table of its flags. Package crawllog reads the files; docs/reference/files/crawllog.md has their
// layout. crawl.go finds a crawl's logs by its last manifest, and filter.go selects lines. Lines are printed
// for a person (print.go), counted, or with --json printed as they are stored. A line's text is from sites,
// so all output goes through the App's term.Plain.
//
// # Order
//
// A line has the time at which its fetch began, and is written when it has ended. So the lines of a log are
// out of order by as much as a fetch takes: --timeout, a minute by default, or a minute for each MiB of a body
// that passes through a file. The files of a log follow one another. merge.go reads all logs at once, the one
// that is behind first, and sorts the lines that it prints in a window of 16 MiB. A line that comes too late
// for the window is printed late. With --count nothing is sorted.
//
// With --follow lines are printed in the order of writing, as soon as they are on disk. A crawl writes a log
// after 64 KiB (compressed, some 1500 lines), and all of it at a checkpoint.
//
// Files that can have no line between --since and --until are not opened, by the times in their names, and in
// a file the first line is found by bisection. crawllog.Disorder is the margin.
//
// # Contract
//
// The command takes no lock and writes nothing. It reads what is on disk: all lines up to the last checkpoint
// once, and those that a crawl has written since. A killed crawl fetches the URLs of the latter again.
// Damage is printed with its place, and the rest is read.
//
// Exit codes: 0, also when standard output is closed early or a signal ends --follow; term.ExitUsage (2) for a
// bad flag, term.ExitDirectory (4) if the directory holds no crawl with a checkpoint, term.ExitDamage (5) if
// files are damaged.
//
// # Memory
//
// The window, and for each log a frame of 256 KiB and a checkpoint's tail; for each file of a log some 200
// bytes. The package starts no goroutine; --follow waits in the caller's.
package log

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/crawllog"
)

// Command is the table of log's flags.
type Command struct {
	flags.CrawlDirs
	Log    []string      `placeholder:"NAME" enum:"crawl,seeds,robots" default:"crawl"`
	Status []statusSpan  `placeholder:"CODE"`
	Reason []string      `placeholder:"NAME"`
	Host   []hostRule    `placeholder:"HOST"`
	URL    []urlRule     `name:"url" sep:"none" placeholder:"PREFIX"`
	MIME   []string      `name:"mime" placeholder:"TYPE"`
	Since  *flags.Moment `placeholder:"TIME"`
	Until  *flags.Moment `placeholder:"TIME"`
	Count  bool
	Follow bool `short:"f"`
	Via    bool
	JSON   bool `name:"json"`
}

// Run prints the lines.
func (c *Command) Run(a *term.App) error {
	ctx, release := context.Background(), func() {}
	if c.Follow {
		ctx, release = signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	}
	defer release()
	err := c.run(ctx, a, disk.OS())
	if errors.Is(err, syscall.EPIPE) {
		return nil // the reader has seen enough, as head has
	}
	return err
}

func (c *Command) run(ctx context.Context, a *term.App, fsys disk.FS) error {
	if c.Follow && (c.Count || c.Until != nil) {
		return term.Usage(errors.New("log: --follow never ends, so it excludes --count and --until"))
	}
	want, err := c.filter(time.Now())
	if err != nil {
		return term.Usage(fmt.Errorf("log: %w", err))
	}
	x, err := openCrawl(fsys, flags.Clean(c.Dir), c.Log)
	if err != nil {
		return err
	}
	defer x.close()
	x.complain = func(text string) { fmt.Fprintln(a.Stderr, "drumbeat: "+term.PlainText(text)) }
	for _, r := range x.readers {
		r.From, r.To = want.since, want.until
	}
	out := bufio.NewWriterSize(a.Stdout, 64<<10)
	p := &printer{out: out, via: c.Via, json: c.JSON}
	switch {
	case c.Follow:
		err = x.follow(ctx, want, c.Since == nil, p)
	case c.Count:
		err = c.count(x, want, out)
	default:
		if err = x.refresh(); err == nil {
			err = merge(x.readers, want, windowBytes, p.line)
		}
		if err == nil && p.lines == 0 {
			x.complain("no line matches" + x.hint())
		}
	}
	if flushed := out.Flush(); err == nil {
		err = flushed
	}
	if err == nil && x.damaged > 0 {
		err = &term.Ended{Code: term.ExitDamage, Why: "files of the log are damaged", Quiet: true}
	}
	return err
}

// count prints the number of lines by outcome.
func (c *Command) count(x *crawl, want *filter, out io.Writer) error {
	if err := x.refresh(); err != nil {
		return err
	}
	sum := counts{by: map[outcome]int64{}}
	for _, r := range x.readers {
		for {
			f, ok := r.Next()
			if !ok {
				break
			}
			if want.match(f) {
				sum.add(f)
			}
		}
	}
	if c.JSON {
		return term.WriteJSON(out, sum.report())
	}
	return sum.print(out)
}

// each calls fn with the wanted lines that a reader has now.
func each(r *crawllog.Reader, want *filter, fn func(*crawllog.Fields) error) error {
	for {
		f, ok := r.Next()
		if !ok {
			return nil
		}
		if want.match(f) {
			if err := fn(f); err != nil {
				return err
			}
		}
	}
}
