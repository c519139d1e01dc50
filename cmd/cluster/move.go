package cluster

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"drumbeat/cluster"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/human"
	slotmove "drumbeat/state/move"
)

type moveCmd struct {
	Slots string     `default:"0-4095" placeholder:"A-B"`
	From  int        `default:"-1" placeholder:"J"`
	To    int        `required:"" placeholder:"K"`
	File  string     `arg:"" name:"file"`
	Node  []string   `arg:"" name:"node"`
	RAM   flags.Size `name:"ram" placeholder:"SIZE" default:"256MiB"`
}

// Run moves slots.
func (c *moveCmd) Run(a *term.App) error {
	opt := slotmove.Options{File: c.File, From: c.From, To: c.To, RAMBytes: int64(c.RAM)}
	from, to, isRange := strings.Cut(c.Slots, "-")
	if !isRange {
		to = from
	}
	var err error
	if opt.First, err = strconv.Atoi(from); err == nil {
		opt.Last, err = strconv.Atoi(to)
	}
	if err != nil || opt.First < 0 || opt.First > opt.Last || opt.Last >= cluster.Slots {
		return term.Usage(fmt.Errorf("--slots %s: want a range of 0-%d", c.Slots, cluster.Slots-1))
	}
	f, err := read(c.File)
	if err != nil {
		return err
	}
	if n := f.Table.Nodes(); c.To < 0 || c.To >= n || c.From < -1 || c.From >= n || len(c.Node) != n {
		return term.Usage(fmt.Errorf("--from %d --to %d with directories of %s: %s has the nodes 0 to %d",
			c.From, c.To, human.Counted(len(c.Node), "node", "nodes"), c.File, n-1))
	}
	for _, dirs := range c.Node {
		opt.Nodes = append(opt.Nodes, slotmove.Node{Dirs: flags.Clean(strings.Split(dirs, ","))})
	}
	rep, err := slotmove.Run(opt)
	if rep != nil { // also if the audit after the move has found something
		err = errors.Join(err, printMove(a.Stdout, c.File, rep))
	}
	return err
}

// printMove prints what was moved.
func printMove(w io.Writer, file string, rep *slotmove.Report) error {
	var b strings.Builder
	if rep.Finished {
		b.WriteString("completed an earlier move that was interrupted; nothing else was moved\n")
	}
	for _, n := range rep.Nodes {
		fmt.Fprintf(&b, "node %d: %s, had %d; ", n.Node,
			human.Counted(n.Unique, "unique URL", "unique URLs"), n.UniqueBefore)
		if n.Ended < 0 {
			fmt.Fprintf(&b, "%d that were done on other nodes moved here", -n.Ended)
		} else {
			fmt.Fprintf(&b, "%d that wait and %d that are done moved away", n.Waiting, n.Ended)
		}
		fmt.Fprintf(&b, "; received %s from other nodes\n", human.Counted(n.Messages, "message", "messages"))
	}
	for node := range rep.Table.Nodes() {
		fmt.Fprintf(&b, "node %d owns %d of %d slots\n", node, rep.Table.Share(node), cluster.Slots)
	}
	fmt.Fprintf(&b, "next: copy %s to each node, then start all\n", file)
	_, err := io.WriteString(w, b.String())
	return err
}
