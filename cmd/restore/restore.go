// Package restore is the command restore: it writes a backup of a crawl into new directories.
//
// It needs as many directories as the crawl had, in their order; a cluster's node has the place of its own backups. The
// restored manifest has another lineage, so the next backup copies all files, and a lost machine that comes back finds
// that the place belongs to the restored crawl.
//
// All checksums are compared. A crawl refuses the directories until the restore is complete; after an interruption the
// same command completes it. The crawl then continues from the checkpoint that the backup has. Package state/backup
// does the work.
//
// Exit codes: 0; term.ExitDirectory (4) if the place has no such backup, or a directory is not empty; term.ExitDamage
// (5) if the backup is damaged; term.ExitSignal (11) after a signal.
//
// It takes the locks of the directories and runs in the caller's goroutine; progress goes to standard error.
//
// restore changes nothing in the place, and deletes nothing.
package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/backup"
)

// Command is the table of restore's flags.
type Command struct {
	From   string      `placeholder:"PLACE" required:""`
	Dir    []string    `short:"d" placeholder:"DIR" default:"${defaultDir}"`
	Out    []string    `placeholder:"DIR"`
	Number flags.Count `placeholder:"N" default:"0"`
	flags.S3
}

// Run restores a backup.
func (c *Command) Run(a *term.App) error {
	place, err := c.Backups(c.From, nil)
	if err != nil {
		return err
	}
	dirs, out := flags.Clean(c.Dir), flags.Clean(flags.Directories(c.Out))
	if err := flags.Outside(slices.Concat(dirs, out), c.From); err != nil {
		return err
	}
	ctx, release := a.StopOnSignal(context.Background())
	defer release()
	p, began := term.NewProgress(a.Stderr), time.Now()
	r, err := backup.Restore(ctx, backup.RestoreOptions{Place: place, Number: int64(c.Number), FS: disk.OS(),
		Dirs: dirs, Out: out, Progress: func(read, total int64) {
			p.Show(state.Progress{Done: read, Total: total, Elapsed: time.Since(began),
				What: "reading " + place.String()})
		}})
	p.Clear()
	if errors.Is(err, context.Canceled) {
		return &term.Ended{Code: term.ExitSignal, Why: "stopped by a signal; the same command completes the restore"}
	}
	if err != nil {
		return err
	}
	m := r.Manifest
	fmt.Fprintf(a.Stdout, "restored backup %d of crawl %s: checkpoint %d of %s UTC, %s in %s\n", r.Number, r.Crawl,
		r.Gen, time.Unix(r.Time, 0).UTC().Format(time.DateTime), human.Bytes(r.Bytes),
		human.Counted(int64(r.Files), "file", "files"))
	fmt.Fprintf(a.Stdout, "pages fetched since then are fetched again; the lost machine must not run any more\n")
	if m.Frozen.Nodes > 0 {
		fmt.Fprintf(a.Stdout, "node %d of a cluster: run drumbeat cluster replace %[1]d before it starts\n",
			m.Frozen.Node)
	}
	_, err = fmt.Fprintf(a.Stdout, "next: drumbeat audit %s, then the crawl's own command to resume\n",
		strings.Join(dirs, " "))
	return err
}
