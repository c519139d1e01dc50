// Package audit is the command audit: it checks from the files of a stopped crawl that its accounts balance.
//
// Command is its flags and prints the result; flags.Audit has those that repair shares (--out, --ram, --tmp
// and --json). Package state/audit reads the files: Balance sums the keys of the URLs in each place and
// compares the sums with the accounts of the last checkpoint; Deep (--deep) also verifies every checksum,
// reads the WARC files, indexes and logs, and looks up each URL in URLseen. With --erased package state/erase
// searches all files for what is left of erased pages (erased.go).
//
// The result is printed in words, or with --json as the objects in json.go; repair prints Report, that of
// --deep, too. Progress goes to standard error: on a terminal as a line that is rewritten, elsewhere as a
// line every ten seconds.
//
// Exit codes: 0 if the accounts balance, term.ExitFailure (1) if not, term.ExitDamage (5) if bytes on disk
// differ from those written or an erased page is left, term.ExitDirectory (4) if the crawl is running or the
// directories do not belong to one crawl. Damage and imbalance are printed before Run returns, so their errors
// are quiet.
//
// It takes the locks of the directories, writes only its sorted keys, and runs in the caller's goroutine.
// Progress comes from goroutines of state/audit, one call at a time.
package audit

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/dustin/go-humanize"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/audit"
)

// Command is the table of audit's flags.
type Command struct {
	flags.CrawlDirs
	Deep   bool
	Remote string   `placeholder:"MODE" enum:"head,read,off" default:"head"`
	Erased string   `placeholder:"FILE"`
	Also   []string `placeholder:"PATH"`
	Known  string   `placeholder:"FILE"`
	flags.Audit
}

// Run reads a stopped crawl and prints the balance.
func (c *Command) Run(a *term.App) error {
	if c.Known != "" {
		return c.known(a)
	}
	if c.Erased != "" {
		return c.erased(a)
	}
	if len(c.Also) > 0 {
		return term.Usage(errors.New("--also: only with --erased"))
	}
	p := term.NewProgress(a.Stderr)
	opt := audit.Options{FS: disk.OS(), Dirs: flags.Clean(c.Dir), Out: flags.Clean(flags.Directories(c.Out)),
		RAMBytes: int64(c.RAM), TempDir: c.Tmp, Remote: audit.Remote(c.Remote), Progress: p.Show}
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

// deep prints the report of a deep audit. Damage has an exit code of its own.
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
	_, err := fmt.Fprintf(w, "read %s in %s, %s/s\n", human.Bytes(p.Last.Done), human.Duration(p.Last.Elapsed),
		human.Bytes(float64(p.Last.Done)/max(p.Last.Elapsed.Seconds(), 1e-3)))
	return err
}

func printRefused(w io.Writer, refused map[string]int64) {
	names := make([]string, 0, len(refused))
	for name := range refused {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		words, _ := state.ReasonText(name)
		fmt.Fprintf(w, "refused, %s: %s\n", words, humanize.Comma(refused[name]))
	}
}
