// Package dirs is the command dirs, which lists and changes the directories of a crawl.
//
// dirs list prints a line for each directory: its number among those of its kind, the kind (state or output),
// its size in bytes, and the name of the crawl. It only reads, takes no lock, and may be used while the crawl
// is running. A directory without an identity file belongs to no crawl, which is an error only if all do.
//
// dirs forget removes the directories that are not named from a stopped crawl, if they hold none of its
// data: to take a disk away, or to undo --add-dir. It reads all files first, as audit --deep does, since a
// directory with a single record must stay. ForgetMissing of package state/audit does this, and writes the
// new number of directories into each that stays.
//
// Exit codes: 0; term.ExitDirectory (4) if list finds no directory of a crawl, or if the crawl of forget is
// running, incomplete, or still has data in a directory; term.ExitDamage (5) for a damaged identity file.
//
// This package starts no goroutine and prints through the App's standard output.
package dirs

import (
	"errors"
	"fmt"
	"io/fs"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state/audit"
)

// Command is the table of dirs' commands.
type Command struct {
	List   listCmd   `cmd:""`
	Forget forgetCmd `cmd:""`
}

// listCmd is the table of dirs list's flags.
type listCmd struct {
	flags.CrawlDirs
}

// forgetCmd is the table of dirs forget's flags.
type forgetCmd struct {
	flags.CrawlDirs
	Out []string `placeholder:"DIR"`
}

// AfterApply refuses a command line that names no directory: the command removes all others from the crawl.
func (c *forgetCmd) AfterApply(ctx *kong.Context) error {
	if len(c.At) == 0 && !flags.GivenHere(ctx, "dir") {
		return errors.New("dirs forget: name the directories to keep; all others leave the crawl")
	}
	return nil
}

// Run prints the identity and size of each directory.
func (c *listCmd) Run(a *term.App) error {
	t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "directory\tnumber\tof\tfor\tbytes\tcrawl\n")
	known := 0
	for _, dir := range flags.Clean(c.Dir) {
		id, err := disk.ReadIdentity(disk.OS(), dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			fmt.Fprintf(t, "%s\t-\t-\t-\t%s\tnone\n", dir, human.Bytes(term.TreeBytes(dir)))
			continue
		case err != nil:
			return err
		}
		known++
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\n", dir, id.Number, id.Count, id.Kind, human.Bytes(term.TreeBytes(dir)),
			id.Crawl)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if known == 0 {
		return &term.Ended{Code: term.ExitDirectory, Why: "no directory belongs to a crawl"}
	}
	return nil
}

// Run removes the directories that are not named from the crawl.
func (c *forgetCmd) Run(a *term.App) error {
	left, gone, err := audit.ForgetMissing(audit.Options{FS: disk.OS(), Dirs: flags.Clean(c.Dir),
		Out: flags.Clean(flags.Directories(c.Out))})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "directories removed: %d; the crawl has %d\n", gone, left)
	return err
}
