// Package audit is the command audit: it reads the files of a stopped crawl and says whether they balance.
//
// Command is its flags and what is done with them; --out, --ram, --tmp and --json, which repair has as well, are
// flags.Audit. The reading is done by package crawl/audit: Balance sums up the keys of the URLs in each place and compares
// the sums with the accounts of the last checkpoint, Deep (--deep) also verifies every checksum, reads the WARC files,
// indexes and logs, and looks up each URL in URLseen.
//
// What it finds is printed for a person, or with --json as the objects in json.go; Report is that of --deep, which repair
// prints as well. On the way there progress goes to standard error: on a terminal one line that is written anew, elsewhere
// a line every ten seconds.
//
// Exit codes: 0 when the books balance, term.ExitFailure (1) when they don't, term.ExitDamage (5) when bytes on disk aren't
// what was written, term.ExitDirectory (4) when the crawl runs or the directories aren't one crawl's. Damage and imbalance
// have been printed when Run returns, so that its error is quiet.
//
// It takes the locks of the directories, writes nothing but its sorted keys, and runs in the caller's goroutine; progress
// comes from goroutines of crawl/audit, one call at a time.
package audit

import (
	"fmt"
	"io"
	"sort"
	"time"

	"github.com/dustin/go-humanize"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl/audit"
	"drumbeat/disk"
)

// Command is the table of audit's flags.
type Command struct {
	Dir  []string `arg:"" name:"dir" help:"Directories of the crawl, all of them."`
	Deep bool     `help:"Also verify every checksum, WARC files, index and logs, and look up the key of each URL in URLseen. Goes on behind damage and lists it."`
	flags.Audit
}

// Run reads a stopped crawl and prints the balance.
func (c *Command) Run(a *term.App) error {
	p := term.NewProgress(a.Stderr)
	opt := audit.Options{FS: disk.OS(), Dirs: flags.Clean(c.Dir), Out: flags.Clean(c.Out), RAMBytes: int64(c.RAM), TempDir: c.Tmp,
		Progress: p.Show}
	if c.Deep {
		rep, err := audit.Deep(opt)
		p.Clear()
		if err != nil {
			return err
		}
		return c.deep(a, rep)
	}
	rep, err := audit.Balance(opt)
	p.Clear()
	if err != nil {
		return err
	}
	if c.JSON {
		if err := term.WriteJSON(a.Stdout, auditOf(rep)); err != nil {
			return err
		}
	} else if err := printBalance(a.Stdout, rep, p); err != nil {
		return err
	}
	return balanced(rep.Balanced())
}

// deep prints what AuditDeep found. Damage has an exit code of its own.
func (c *Command) deep(a *term.App, rep *audit.DeepReport) error {
	if c.JSON {
		if err := term.WriteJSON(a.Stdout, ReportOf(rep)); err != nil {
			return err
		}
	} else {
		if err := rep.Write(a.Stdout); err != nil {
			return err
		}
		printRefused(a.Stdout, rep.Refused)
	}
	if rep.DamageCount > 0 {
		return &term.Ended{Code: term.ExitDamage, Why: "files of the crawl are damaged", Quiet: true}
	}
	return balanced(rep.Balanced())
}

func balanced(yes bool) error {
	if !yes {
		return &term.Ended{Code: term.ExitFailure, Why: "the crawl does not balance", Quiet: true}
	}
	return nil
}

func printBalance(w io.Writer, rep *audit.Report, p *term.Progress) error {
	if err := rep.Write(w); err != nil {
		return err
	}
	printRefused(w, rep.Refused)
	_, err := fmt.Fprintf(w, "read %s in %v, %s/s\n", term.BytesOf(p.Last.Done), p.Last.Elapsed.Round(10*time.Millisecond),
		term.BytesOf(int64(float64(p.Last.Done)/max(p.Last.Elapsed.Seconds(), 1e-3))))
	return err
}

func printRefused(w io.Writer, refused map[string]int64) {
	names := make([]string, 0, len(refused))
	for name := range refused {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(w, "refused %s: %s\n", name, humanize.Comma(refused[name]))
	}
}
