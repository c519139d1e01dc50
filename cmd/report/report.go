// Package report is the command report: it writes the report of a crawl as a page of HTML or as JSON.
//
// Command is the table of its flags. Package state/report makes the report from the last checkpoint and
// the history, so the crawl may be running: nothing is locked or changed. The format follows from the name of
// the file: .json is JSON, all others are HTML; "-" writes HTML, or with --json JSON, to standard output. The
// file is written to the end and then renamed, so a reader never sees a part. Its permissions follow the umask.
//
// Without --fast the records of all PLDs are read, 20 to 40 bytes each, for the pages by in-degree.
//
// With --site the report is for the owner of a site (site.go): a score, and findings by severity with what they mean
// and how to fix them. Package state/export makes it from logs, indexes and stored pages; .csv is a table of its
// findings. With --compare it says what changed since an earlier one in JSON. With --check-outside it first crawls the
// targets of links to other sites (outside.go) into a temporary directory, by Once of package cmd/crawl, and reads the
// logs of that crawl. It then connects to other sites; otherwise this package opens files only.
//
// Exit codes: 0; term.ExitDirectory (4) if the directories hold no crawl with a checkpoint, or if the file would
// be in one of them, term.ExitDamage (5) if files that the report needs are damaged, term.ExitFailure (1) if the
// file can't be written. A damaged history or a crawl without one is no error: the report says what it lacks.
//
// This package starts no goroutine; those of the crawl end before its report is written. The report is in memory until
// it is written: some MB for the history of years.
package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state/report"
)

// Command is the table of report's flags.
type Command struct {
	flags.CrawlDirs
	Output string      `short:"o" placeholder:"FILE" default:"report.html"`
	JSON   bool        `name:"json"`
	Top    flags.Count `placeholder:"N" default:"10"`
	Fast   bool
	Paper  bool
	siteFlags
}

// maxTop bounds --top.
const maxTop = 1000

// Run writes the report.
func (c *Command) Run(a *term.App) error {
	if c.Output != "-" {
		if err := flags.Outside(flags.Clean(append(slices.Clone(c.Dir), c.Out...)), c.Output); err != nil {
			return err
		}
	}
	if c.Site != "" {
		if c.Paper {
			return term.Usage(errors.New("--paper: not with --site"))
		}
		return c.ofSite(a)
	}
	if c.Rows != defaultRows || len(c.Out) > 0 || c.CSV || c.Compare != "" || strings.HasSuffix(c.Output, ".csv") ||
		c.CheckOutside || c.OutsideLinks != defaultOutside {
		return term.Usage(errors.New(
			"--rows, --out, --compare, --check-outside, --outside-links and CSV: only with --site"))
	}
	if c.Top < 1 || c.Top > maxTop {
		return term.Usage(fmt.Errorf("--top %d: want 1 to %d", c.Top, maxTop))
	}
	r, err := report.Make(report.Options{FS: disk.OS(), Dirs: flags.Clean(c.Dir), Top: int(c.Top), Fast: c.Fast})
	if err != nil {
		return err
	}
	asked := func(f report.Figure) bool { return f.Key == report.PaymentsKey && f.Value > 0 }
	if slices.ContainsFunc(r.Summary, asked) {
		c.addPayments(a, r)
	}
	var b bytes.Buffer
	if c.JSON || strings.HasSuffix(c.Output, ".json") {
		data, err := json.MarshalIndent(r, "", " ")
		if err != nil {
			return err
		}
		b.Write(append(data, '\n'))
	} else if err := r.WriteHTML(&b, report.View{Paper: c.Paper, By: made()}); err != nil {
		return err
	}
	return c.put(a, &b)
}

// made names the program that makes a page.
func made() string { return "drumbeat " + term.Version() }

// put writes the report to its file.
func (c *Command) put(a *term.App, b *bytes.Buffer) error {
	if c.Output == "-" {
		_, err := a.Stdout.Write(b.Bytes())
		return err
	}
	if err := disk.WriteFileAtomic(disk.Shared(), c.Output, b.Bytes()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err := fmt.Fprintf(a.Stdout, "%s: %s\n", c.Output, human.Bytes(b.Len()))
	return err
}
