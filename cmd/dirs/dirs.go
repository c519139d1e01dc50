// Package dirs is the command dirs, which tells and changes which directories belong to a crawl.
//
// dirs list prints a line for each directory: its number among those of its kind, whether it is for state or for output,
// the bytes in it, and the crawl's name. It only reads, takes no lock, and may be used while the crawl runs. A directory
// without the crawl's mark is of no crawl, which is no fault unless all are.
//
// dirs forget lets the directories of a stopped crawl go that aren't named, if the crawl has nothing in them: a disk is
// to be taken away, or one was added by mistake. It reads all files first, as audit --deep does, since a directory that
// holds a single record must stay; ForgetMissing of package crawl/audit does that, and writes the new number into each
// that stays.
//
// Both have flags of their own only. Exit codes: 0, term.ExitDirectory (4) when list finds no directory of a crawl, or
// forget one that runs, is incomplete or still holds something, term.ExitDamage (5) when a mark can't be read.
//
// No goroutine is started here, and all is printed through the app's standard output.
package dirs

import (
	"errors"
	"fmt"
	"io/fs"
	"text/tabwriter"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl/audit"
	"drumbeat/disk"
)

// Command is the table of dirs' commands.
type Command struct {
	List   listCmd   `cmd:"" help:"Say of which crawl directories are, and which ones."`
	Forget forgetCmd `cmd:"" help:"Let the directories of a stopped crawl go that aren't named, if it has nothing in them. All its files are read first, as by audit --deep; a directory that holds any is kept, with exit code 4."`
}

// listCmd is the table of dirs list's flags.
type listCmd struct {
	Dir []string `arg:"" name:"dir" help:"Directories."`
}

// forgetCmd is the table of dirs forget's flags.
type forgetCmd struct {
	Dir []string `arg:"" name:"dir" help:"The directories that stay."`
	Out []string `placeholder:"DIR" help:"Directories of the output, if the crawl has --out."`
}

// Run prints what each directory is.
func (c *listCmd) Run(a *term.App) error {
	t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "directory\tnumber\tof\tfor\tbytes\tcrawl\n")
	known := 0
	for _, dir := range flags.Clean(c.Dir) {
		id, err := disk.ReadIdentity(disk.OS(), dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			fmt.Fprintf(t, "%s\t-\t-\t-\t%s\tof no crawl\n", dir, term.BytesOf(term.TreeBytes(dir)))
			continue
		case err != nil:
			return err
		}
		known++
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\n", dir, id.Number, id.Count, id.Kind, term.BytesOf(term.TreeBytes(dir)), id.Crawl)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if known == 0 {
		return &term.Ended{Code: term.ExitDirectory, Why: "no directory of a crawl"}
	}
	return nil
}

// Run lets directories go that hold nothing.
func (c *forgetCmd) Run(a *term.App) error {
	left, gone, err := audit.ForgetMissing(audit.Options{FS: disk.OS(), Dirs: flags.Clean(c.Dir), Out: flags.Clean(c.Out)})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "directories let go: %d; the crawl has %d\n", gone, left)
	return err
}
