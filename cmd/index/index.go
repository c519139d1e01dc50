// Package index is the command index: it writes the indexes of all WARC files of a crawl as one sorted CDXJ
// index, or as a ZipNum index, for replay tools such as pywb and OutbackCDX.
//
// Command is its flags. Package crawl/export reads the last checkpoint of the crawl, which may be running, and
// sorts the lines on disk. Nothing in the directories of the crawl is locked or changed. The index has a line
// for each capture that the checkpoint covers and whose WARC file was not moved away with its index: pages,
// revisits, exchanges for a robots.txt (type robots) and DNS answers (type dns).
//
// Each file gets its name when it is complete and durable; an index of an earlier run is replaced. Notes and
// progress go to standard error, the result to standard output; with -o -, to standard error.
//
// Exit codes: 0; term.ExitUsage (2) for flags that do not fit together; term.ExitDiskFull (3);
// term.ExitDirectory (4) if the directories hold no crawl with a checkpoint; term.ExitDamage (5) if an index is
// damaged; term.ExitSignal (11) after a signal; term.ExitFailure (1) otherwise.
//
// The command runs in the caller's goroutine; progress comes from one of crawl/export.
package index

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dustin/go-humanize"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl/export"
	"drumbeat/crawl/state"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/internal/tabular"
)

// Command is the table of index's flags.
type Command struct {
	Dir    []string   `required:"" placeholder:"DIR" help:"All directories of the crawl. It may be running."`
	Out    []string   `placeholder:"DIR" help:"Output directories, if the crawl has --out."`
	Format string     `enum:"cdxj,zipnum" default:"cdxj" help:"cdxj: one sorted file, index.cdxj. zipnum: index.cdxj.gz in blocks of 3,000 lines, with index.idx and index.loc."`
	Output string     `short:"o" required:"" placeholder:"DIR" help:"Directory for the index, which replaces an earlier one. \"-\" writes CDXJ to standard output."`
	RAM    flags.Size `name:"ram" placeholder:"SIZE" default:"256MiB" help:"RAM for sorting. At least 32MiB."`
	Tmp    string     `placeholder:"DIR" help:"Sort what does not fit into --ram in DIR/index-tmp, removed at the end. Default: the name of -o with .tmp; with -o - the system's directory for temporary files."`
}

// Help returns examples.
func (*Command) Help() string {
	return `Examples:
  drumbeat index --dir drumbeat-crawl -o index
  drumbeat index --dir /d1/crawl --dir /d2/crawl --format zipnum -o index
  drumbeat index --dir drumbeat-crawl -o - | curl --data-binary @- http://localhost:8080/crawl`
}

const leastRAM = 32 << 20

// check returns an error for flags that do not fit together.
func (c *Command) check() error {
	switch {
	case c.RAM < leastRAM:
		return fmt.Errorf("--ram %s: want at least 32MiB", c.RAM)
	case c.Output == "-" && tabular.Format(c.Format) == export.ZipNum:
		return errors.New("-o -: only for --format cdxj, not for zipnum")
	}
	return nil
}

// Run writes the index.
func (c *Command) Run(a *term.App) error {
	if err := c.check(); err != nil {
		return term.Usage(err)
	}
	ctx, release := a.StopOnSignal(context.Background())
	defer release()
	opt := export.Options{FS: disk.OS(), Dirs: flags.Clean(c.Dir), Out: flags.Clean(c.Out), Kind: export.Index,
		Format: tabular.Format(c.Format), RAMBytes: int64(c.RAM)}
	to := a.Stdout
	if c.Output == "-" {
		opt.Stream, to = a.Stdout, a.Stderr
		opt.TempDir = filepath.Join(os.TempDir(), fmt.Sprintf("drumbeat-index-%d", os.Getpid()))
	} else {
		opt.Target = filepath.Clean(c.Output)
		opt.TempDir = opt.Target + ".tmp"
	}
	if c.Tmp != "" {
		opt.TempDir = filepath.Join(c.Tmp, "index-tmp")
	}
	p := term.NewProgress(a.Stderr)
	opt.Progress = func(now state.Progress) {
		if now.Elapsed >= time.Second {
			p.Show(now)
		}
	}
	opt.Begin = func(r *export.Report) {
		p.Clear()
		fmt.Fprintf(a.Stderr, "index: as of checkpoint %d, %s UTC; the crawl is %s\n", r.Checkpoint, r.Time.Format(time.DateTime),
			r.Activity)
	}
	began := time.Now()
	r, err := export.Run(ctx, opt)
	p.Clear()
	if errors.Is(err, term.ErrSignal) {
		return &term.Ended{Code: term.ExitSignal, Why: "stopped by a signal; there is no new index"}
	} else if err != nil {
		return err
	}
	for _, note := range r.Notes {
		fmt.Fprintf(a.Stderr, "index: %s\n", note)
	}
	where := ""
	if c.Output != "-" {
		where = fmt.Sprintf(", %s in %s", term.BytesOf(r.Bytes), c.Output)
	}
	elapsed := time.Since(began)
	_, err = fmt.Fprintf(to, "index: %s lines%s; %s, %s lines/s\n", humanize.Comma(r.Rows), where, human.Duration(elapsed),
		humanize.Comma(int64(float64(r.Rows)/max(elapsed.Seconds(), 1e-3))))
	return err
}
