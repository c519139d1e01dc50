package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/backup"
	"drumbeat/state/repair"
)

type replaceCmd struct {
	Node        int         `arg:"" name:"node"`
	From        string      `placeholder:"PLACE"`
	Number      flags.Count `placeholder:"N" default:"0"`
	Dir         []string    `short:"d" placeholder:"DIR" default:"${defaultDir}"`
	Out         []string    `placeholder:"DIR"`
	ClusterFile string      `placeholder:"FILE" required:""`
	RAM         flags.Size  `name:"ram" placeholder:"SIZE" default:"256MiB"`
	connectFlags
	flags.S3
}

// Run restores the node, and takes its place.
func (c *replaceCmd) Run(a *term.App) error {
	f, err := read(c.ClusterFile)
	if err != nil {
		return err
	}
	if n := f.Table.Nodes(); c.Node < 0 || c.Node >= n {
		return term.Usage(fmt.Errorf("node %d: %s has the nodes 0 to %d", c.Node, c.ClusterFile, n-1))
	}
	dirs, out := flags.Clean(c.Dir), flags.Clean(flags.Directories(c.Out))
	ctx, release := a.StopOnSignal(context.Background())
	defer release()
	if err := c.restore(ctx, a, dirs, out); err != nil {
		return replaceEnd(err)
	}
	e, err := c.connect(f, warnings(a))
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // for people; "" if there is none
	rep, err := repair.Replace(ctx, repair.ReplaceOptions{Transport: e, Host: host, Version: term.Version(),
		Waits: func(nodes []int) { c.waits(a, nodes) },
		Watches: func(last time.Time, wait time.Duration) {
			fmt.Fprintf(a.Stderr, "node %d reported at %s UTC: watching for %s whether it still runs\n", c.Node,
				last.UTC().Format(time.TimeOnly), human.Duration(wait))
		},
		ResyncOptions: repair.ResyncOptions{Back: c.Node, File: f, Options: repair.Options{
			Options: audit.Options{FS: disk.OS(), Dirs: dirs, Out: out, RAMBytes: int64(c.RAM)}}}})
	if err = errors.Join(err, e.Close()); err != nil {
		return replaceEnd(err)
	}
	return c.print(a, rep, dirs)
}

// replaceEnd says how to continue after a signal.
func replaceEnd(err error) error {
	if errors.Is(err, context.Canceled) {
		return &term.Ended{Code: term.ExitSignal, Why: "stopped by a signal; the same command continues"}
	}
	return err
}

// restore restores the backup, unless the directories have a crawl.
func (c *replaceCmd) restore(ctx context.Context, a *term.App, dirs, out []string) error {
	if backup.Holds(disk.OS(), dirs) {
		if c.From != "" {
			fmt.Fprintf(a.Stderr, "%s has a crawl already: nothing is restored\n", strings.Join(dirs, " "))
		}
		return nil
	}
	if c.From == "" {
		return term.Usage(fmt.Errorf("%s has no crawl: give the place of the backups with --from",
			strings.Join(dirs, " ")))
	}
	place, err := c.Backups(c.From, &c.Node)
	if err != nil {
		return err
	}
	if err := flags.Outside(slices.Concat(dirs, out), c.From); err != nil {
		return err
	}
	p, began := term.NewProgress(a.Stderr), time.Now()
	r, err := backup.Restore(ctx, backup.RestoreOptions{Place: place, Number: int64(c.Number), FS: disk.OS(),
		Dirs: dirs, Out: out, Progress: func(read, total int64) {
			p.Show(state.Progress{Done: read, Total: total, Elapsed: time.Since(began),
				What: "reading " + place.String()})
		}})
	p.Clear()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "restored backup %d: checkpoint %d of %s UTC\n", r.Number, r.Gen,
		time.Unix(r.Time, 0).UTC().Format(time.DateTime))
	return err
}

// waits says for which nodes the command waits.
func (c *replaceCmd) waits(a *term.App, nodes []int) {
	if len(nodes) == 0 {
		return
	}
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(nodes), " ", ", "), "[]")
	fmt.Fprintf(a.Stderr, "waiting for the answers of %s: start those that do not run\n",
		human.Counted(len(nodes), "node", "nodes")+" ("+list+")")
}

// print says what was lost, and what follows.
func (c *replaceCmd) print(a *term.App, rep *repair.Report, dirs []string) error {
	var b strings.Builder
	if rep.Finished {
		b.WriteString("completed an earlier replacement that was interrupted\n")
	}
	for _, text := range rep.Actions {
		fmt.Fprintf(&b, "done: %s\n", text)
	}
	if !rep.Finished {
		fmt.Fprintf(&b, "lost: %s and %s that only the lost directories had; pages since the backup are fetched "+
			"again\n", human.Counted(rep.Lost.Links.N, "link", "links"),
			human.Counted(rep.Lost.Edges.N, "edge", "edges"))
	}
	fmt.Fprintf(&b, "node %d has its place in the cluster. Next: start drumbeat crawl with --node %[1]d, --dir %s and "+
		"the node's other flags\n", c.Node, strings.Join(dirs, ","))
	_, err := a.Stdout.Write([]byte(b.String()))
	return err
}
