// Package backup is the command backup: it backs a stopped crawl up, lists the backups of a place, and verifies one.
//
// backup make takes the locks of the directories, copies what the place lacks of the last checkpoint, and keeps the
// place's last backups, as crawl --backup does while it runs. backup list prints a line for each backup, backup
// verify reads all bytes of one and compares their checksums. Package state/backup does the work.
//
// A place is a directory outside the crawl or s3://BUCKET/PREFIX, which the flags of flags.S3 describe. A place has the
// backups of one crawl, or of one node of a cluster. list and verify read only, and may be used while the crawl makes a
// backup: they see those that are complete. A backup that a newer one replaces meanwhile makes verify fail.
//
// Exit codes: 0; term.ExitDirectory (4) if the crawl is running, or the place has no backup or those of another crawl;
// term.ExitDamage (5) if a backup is damaged; term.ExitSignal (11) after a signal: the next backup make continues.
//
// backup make keeps the last backups of a place (--keep) and deletes older ones.
//
// Commands run in the caller's goroutine and print to the App's standard output; progress goes to standard error.
package backup

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/backup"
)

// Command is the table of backup's commands.
type Command struct {
	Make   makeCmd   `cmd:""`
	List   listCmd   `cmd:""`
	Verify verifyCmd `cmd:""`
}

// makeCmd is the table of backup make's flags.
type makeCmd struct {
	flags.CrawlDirs
	Out  []string    `placeholder:"DIR"`
	To   string      `placeholder:"PLACE" required:""`
	Keep flags.Count `default:"3" least:"1" most:"1000" placeholder:"N"`
	flags.S3
}

// listCmd is the table of backup list's flags.
type listCmd struct {
	From string `placeholder:"PLACE" required:""`
	JSON bool   `name:"json"`
	flags.S3
}

// verifyCmd is the table of backup verify's flags.
type verifyCmd struct {
	From   string      `placeholder:"PLACE" required:""`
	Number flags.Count `placeholder:"N" default:"0"`
	flags.S3
}

// Run backs a stopped crawl up.
func (c *makeCmd) Run(a *term.App) (err error) {
	place, err := c.Backups(c.To, nil)
	if err != nil {
		return err
	}
	dirs, out := flags.Clean(c.Dir), flags.Clean(flags.Directories(c.Out))
	if err := flags.Outside(append(dirs[:len(dirs):len(dirs)], out...), c.To); err != nil {
		return err
	}
	ctx, release := a.StopOnSignal(context.Background())
	defer release()
	opt := audit.Options{FS: disk.OS(), Dirs: dirs, Out: out, Remote: audit.RemoteOff}
	saved, m, err := audit.Open(&opt)
	if saved != nil {
		defer func() { err = errors.Join(err, saved.Unlock()) }()
	}
	if err != nil {
		return err
	}
	if m.Frozen.SeparateOut && saved.Out.Len() == 0 {
		return term.Usage(errors.New("the crawl has separate directories for its output: name them by --out"))
	}
	if err := place.Check(ctx); err != nil {
		return state.Incompatible("%w", err)
	}
	b, err := backup.Open(ctx, backup.Options{Place: place, Keep: int(c.Keep), Program: term.Version()}, m)
	if err != nil {
		return err
	}
	h, err := c.make(ctx, a, b, saved, m)
	if err != nil {
		b.Interrupted(context.WithoutCancel(ctx))
		return ended(err)
	}
	_, err = fmt.Fprintf(a.Stdout, "backup %d in %s: checkpoint %d, %s in %s; %s copied\n", h.Number, place, h.Gen,
		human.Bytes(h.Bytes), human.Counted(int64(h.Files), "file", "files"), human.Bytes(h.Copied))
	return err
}

func (c *makeCmd) make(ctx context.Context, a *term.App, b *backup.Backup, saved *state.Saved,
	m *state.Manifest) (*backup.Head, error) {
	data, err := state.EncodeManifest(m)
	if err != nil {
		return nil, err
	}
	files, err := backup.Files(saved, m)
	if err != nil {
		return nil, err
	}
	p, began := term.NewProgress(a.Stderr), time.Now()
	defer p.Clear()
	open := func(path string) (disk.File, error) {
		total, done := b.Figures()
		p.Show(state.Progress{Done: done, Total: total, Elapsed: time.Since(began), What: "copying " + path})
		return saved.Set.FS.OpenRead(path)
	}
	return b.Make(ctx, b.Plan(m, data, files), saved, open, func(string) {})
}

// Run lists the backups of a place.
func (c *listCmd) Run(a *term.App) error {
	place, err := c.Backups(c.From, nil)
	if err != nil {
		return err
	}
	ctx, release := a.StopOnSignal(context.Background())
	defer release()
	l, err := backup.Backups(ctx, place)
	if err != nil {
		return ended(err)
	}
	if c.JSON {
		return term.WriteJSON(a.Stdout, l)
	}
	t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "number\ttime (UTC)\tcheckpoint\tfiles\tsize\tcopied\n")
	for _, h := range l.Backups {
		fmt.Fprintf(t, "%d\t%s\t%d\t%d\t%s\t%s\n", h.Number, time.Unix(h.Time, 0).UTC().Format(time.DateTime), h.Gen,
			h.Files, human.Bytes(h.Bytes), human.Bytes(h.Copied))
	}
	return t.Flush()
}

// Run verifies a backup.
func (c *verifyCmd) Run(a *term.App) error {
	place, err := c.Backups(c.From, nil)
	if err != nil {
		return err
	}
	ctx, release := a.StopOnSignal(context.Background())
	defer release()
	p := term.NewProgress(a.Stderr)
	r, err := backup.Verify(ctx, place, int64(c.Number), Progress(p, "reading "+place.String()))
	p.Clear()
	if err != nil {
		return ended(err)
	}
	_, err = fmt.Fprintf(a.Stdout, "backup %d of crawl %s is whole: %s in %s\n", r.Number, r.Crawl,
		human.Bytes(r.Bytes), human.Counted(int64(r.Files), "file", "files"))
	return err
}

// Progress returns a function that shows how many bytes were read.
func Progress(p *term.Progress, what string) func(read, total int64) {
	began := time.Now()
	return func(read, total int64) {
		p.Show(state.Progress{Done: read, Total: total, Elapsed: time.Since(began), What: what})
	}
}

// ended turns the error of a signal into its exit code.
func ended(err error) error {
	if errors.Is(err, context.Canceled) {
		return &term.Ended{Code: term.ExitSignal, Why: "stopped by a signal; the same command continues"}
	}
	return err
}
