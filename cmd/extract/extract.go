// Package extract is the command extract: it writes the texts of a crawl's HTML pages for indexers, as WET or as a
// table, from the WARC files.
//
// Command is the table of its flags. Package state/extract reads the last checkpoint of the crawl, which may be
// running, and makes one part for each WARC file, several at a time; package internal/maintext has the method.
// Nothing in the directories of the crawl is locked or changed. A repeated command makes only the parts that are
// missing or that were made of a WARC file that has grown since.
//
// What it does, notes, damage and progress go to standard error; the result goes to standard output, or with -o - to
// standard error, since standard output then has the rows.
//
// Exit codes: 0; term.ExitUsage (2) for flags that do not fit together; term.ExitDiskFull (3);
// term.ExitDirectory (4) if the directories hold no crawl with a checkpoint, or if the target is in one of them,
// holds something else, parts of another crawl or of other options, or is in use; term.ExitDamage (5) if records
// are damaged: all others are extracted then, but a damaged index ends the command; term.ExitSignal (11) after a
// signal, with the complete parts kept; term.ExitFailure (1) otherwise.
//
// The command runs in the caller's goroutine; workers and progress are goroutines of state/extract.
package extract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/internal/tabular"
	"drumbeat/state/extract"
)

// Command is the table of extract's flags.
type Command struct {
	flags.CrawlDirs
	Out         []string `placeholder:"DIR"`
	Format      string   `enum:"wet,parquet,jsonl,csv" default:"parquet"`
	Fields      []string `placeholder:"LIST"`
	FullText    bool
	Sites       string     `placeholder:"FILE"`
	Output      string     `short:"o" required:"" placeholder:"DIR"`
	Compression string     `enum:"zstd,snappy,uncompressed" default:"zstd"`
	RAM         flags.Size `name:"ram" placeholder:"SIZE" default:"256MiB"`
}

// leastRAM is the RAM of a worker.
const leastRAM = 64 << 20

// check returns an error for flags that do not fit together.
func (c *Command) check() error {
	format := tabular.Format(c.Format)
	if _, err := extract.ParseFields(format, c.Fields); err != nil {
		return fmt.Errorf("--fields %w", err)
	}
	switch {
	case c.FullText && len(c.Fields) > 0 && !slices.Contains(c.Fields, string(extract.Text)):
		return errors.New("--full-text: --fields needs text")
	case c.RAM < leastRAM:
		return fmt.Errorf("--ram %s: want at least 64 MiB", human.Bytes(c.RAM))
	case c.Output == "-" && format != tabular.CSV && format != tabular.JSONL:
		return fmt.Errorf("-o -: only for --format csv and jsonl, not for %s", c.Format)
	}
	return nil
}

// Run writes the parts.
func (c *Command) Run(a *term.App) error {
	if err := c.check(); err != nil {
		return term.Usage(err)
	}
	opt := extract.Options{FS: disk.Shared(), Dirs: flags.Clean(c.Dir), Out: flags.Clean(flags.Directories(c.Out)),
		Format: tabular.Format(c.Format), FullText: c.FullText, Sites: c.Sites, Compression: c.Compression,
		RAMBytes: int64(c.RAM), Software: "drumbeat/" + term.Version()}
	opt.Fields, _ = extract.ParseFields(opt.Format, c.Fields) // checked
	to := io.Writer(a.Stdout)
	if c.Output == "-" {
		opt.Stream, to = a.Stdout, a.Stderr
	} else {
		opt.Target = filepath.Clean(c.Output)
		dirs := slices.Concat(opt.Dirs, opt.Out)
		if own := filepath.Base(opt.Target) == "texts" &&
			slices.Contains(dirs, filepath.Dir(opt.Target)); !own { // of crawl --extract
			if err := flags.Outside(dirs, opt.Target); err != nil {
				return err
			}
		}
	}
	ctx, release := a.StopOnSignal(context.Background())
	defer release()
	defer term.LimitMemory(int64(c.RAM))()
	p := term.NewProgress(a.Stderr)
	say := func(format string, args ...any) {
		p.Clear()
		fmt.Fprintln(a.Stderr, "extract: "+term.PlainText(fmt.Sprintf(format, args...)))
	}
	opt.Progress = p.Show
	opt.Begin = func(r *extract.Report) {
		say("texts as of checkpoint %d, %s UTC; the crawl is %s; workers: %d", r.Checkpoint,
			r.Time.Format(time.DateTime), r.Activity, r.Workers)
	}
	began := time.Now()
	r, err := extract.Run(ctx, opt)
	p.Clear()
	switch {
	case errors.Is(err, term.ErrSignal):
		return &term.Ended{Code: term.ExitSignal,
			Why: "stopped by a signal; the same command continues after the complete parts"}
	case errors.Is(err, tabular.ErrNotEmpty), errors.Is(err, extract.ErrOther):
		return &term.Ended{Code: term.ExitDirectory, Why: err.Error()}
	case err != nil:
		return err
	}
	return c.result(r, to, say, time.Since(began))
}

// result prints what was written.
func (c *Command) result(r *extract.Report, to io.Writer, say func(string, ...any), elapsed time.Duration) error {
	for _, note := range r.Notes {
		say("%s", note)
	}
	for _, err := range r.Damage {
		say("left out: %v", err)
	}
	say("not pages with text: %s, %s with another status than 200 to 299, %s of another type than HTML",
		human.Counted(r.Revisits, "revisit", "revisits"), humanize.Comma(r.OtherStatus),
		humanize.Comma(r.OtherType))
	if r.HeadOnly > 0 {
		say("left out: %s without body (--near-duplicates, --robots-meta)", human.Counted(r.HeadOnly, "page", "pages"))
	}
	if r.Truncated+r.Failed > 0 {
		say("%s cut off; %s cannot be read as HTML", human.Counted(r.Truncated, "page is", "pages are"),
			humanize.Comma(r.Failed))
	}
	if r.Excluded > 0 {
		say("left out by --sites: %s", human.Counted(r.Excluded, "page", "pages"))
	}
	result := fmt.Sprintf("texts: %s", human.Counted(r.Pages, "page", "pages"))
	if c.Output != "-" {
		result += fmt.Sprintf(", %s (%d kept), %s in %s", human.Counted(int64(r.Parts), "part", "parts"), r.KeptParts,
			human.Bytes(r.Bytes), c.Output)
	}
	_, err := fmt.Fprintf(to, "%s; %s, %s pages/s\n", result, human.Duration(elapsed),
		humanize.Comma(int64(float64(r.New)/max(elapsed.Seconds(), 1e-3))))
	if err == nil && r.Damaged > 0 {
		err = &term.Ended{Code: term.ExitDamage,
			Why: human.Counted(r.Damaged, "damaged record was left out; the same command tries it again",
				"damaged records were left out; the same command tries them again")}
	}
	return err
}
