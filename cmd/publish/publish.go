// Package publish is the command publish: it writes the data of a crawl in the layout of Common Crawl.
//
// Command is the table of its flags. Package state/publish reads the last checkpoint of the crawl, which may be
// running. Nothing in the directories of the crawl is locked or changed. The output is complete or absent; a repeated
// command continues after the WARC files that are complete if the checkpoint is still the same, and otherwise starts
// over.
//
// The flags are few: layout and columns are those that Common Crawl's tools expect, so nothing of them can be chosen.
//
// What it does, notes and progress go to standard error; the result goes to standard output.
//
// Exit codes: 0; term.ExitUsage (2) for flags that do not fit together; term.ExitDiskFull (3);
// term.ExitDirectory (4) if the directories hold no crawl with a checkpoint, or if the output exists, is in one of them
// or is in use; term.ExitDamage (5) if a file of the crawl is damaged; term.ExitSignal (11) after a signal, with the
// complete files kept; term.ExitFailure (1) otherwise.
//
// The command runs in the caller's goroutine; workers and progress are goroutines of state/publish.
package publish

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state/publish"
)

// Command is the table of publish's flags.
type Command struct {
	flags.CrawlDirs
	Out     []string   `placeholder:"DIR"`
	Output  string     `short:"o" required:"" placeholder:"DIR"`
	Name    string     `placeholder:"NAME"`
	NoTexts bool       `name:"no-texts"`
	RAM     flags.Size `name:"ram" placeholder:"SIZE" default:"256MiB"`
}

// leastRAM lets the runtime work on ordinary pages without collecting garbage all the time.
const leastRAM = 64 << 20

// check returns an error for flags that do not fit together.
func (c *Command) check() error {
	if c.Name != "" {
		if err := publish.CheckName(c.Name); err != nil {
			return fmt.Errorf("--name %w", err)
		}
	}
	if c.RAM < leastRAM {
		return fmt.Errorf("--ram %s: want at least 64 MiB", human.Bytes(c.RAM))
	}
	return nil
}

// Run publishes the crawl.
func (c *Command) Run(a *term.App) error {
	if err := c.check(); err != nil {
		return term.Usage(err)
	}
	opt := publish.Options{FS: disk.Shared(), Dirs: flags.Clean(c.Dir), Out: flags.Clean(flags.Directories(c.Out)),
		Target: filepath.Clean(c.Output), Name: c.Name, NoTexts: c.NoTexts, RAMBytes: term.HeapBytes(int64(c.RAM)),
		Software: "drumbeat/" + term.Version()}
	opt.TempDir = opt.Target + ".tmp"
	if err := flags.Outside(slices.Concat(opt.Dirs, opt.Out), opt.Target, opt.TempDir); err != nil {
		return err
	}
	ctx, release := a.StopOnSignal(context.Background())
	defer release()
	defer term.LimitMemory(opt.RAMBytes)()
	p := term.NewProgress(a.Stderr)
	say := func(format string, args ...any) {
		p.Clear()
		fmt.Fprintln(a.Stderr, "publish: "+term.PlainText(fmt.Sprintf(format, args...)))
	}
	opt.Progress = p.Show
	opt.Begin = func(r *publish.Report) {
		say("%s as of checkpoint %d, %s UTC; the crawl is %s; workers: %d", r.Name, r.Checkpoint,
			r.Time.Format(time.DateTime), r.Activity, r.Workers)
		if r.Replaced != "" {
			say("%s had files of %s; the command starts over", opt.TempDir, r.Replaced)
		}
	}
	began := time.Now()
	r, err := publish.Run(ctx, opt)
	p.Clear()
	switch {
	case errors.Is(err, term.ErrSignal):
		return &term.Ended{Code: term.ExitSignal,
			Why: "stopped by a signal; the same command continues after the complete files"}
	case errors.Is(err, publish.ErrExists):
		return &term.Ended{Code: term.ExitDirectory, Why: err.Error()}
	case err != nil:
		return err
	}
	for _, note := range r.Notes {
		say("%s", note)
	}
	say("%s with status 200, %s of robots.txt, %s, %s",
		human.Counted(r.Captures[publish.Pages], "response", "responses"), humanize.Comma(r.Captures[publish.Robots]),
		human.Counted(r.Captures[publish.Diagnostics], "other response, revisit or DNS answer",
			"other responses, revisits and DNS answers"), human.Counted(r.Captures[publish.WET], "text", "texts"))
	elapsed := time.Since(began)
	_, err = fmt.Fprintf(a.Stdout, "%s: %s (%d kept), %s, %s in %s; %s, %s/s\n", r.Name,
		human.Counted(r.Volumes, "WARC file", "WARC files"), r.Kept, human.Counted(r.Files, "file", "files"),
		human.Bytes(r.Bytes), c.Output, human.Duration(elapsed),
		human.Bytes(int64(float64(r.Read)/max(elapsed.Seconds(), 1e-3))))
	return err
}
