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
	slotmove "drumbeat/state/move"
)

type moveCmd struct {
	Slots string     `default:"0-4095" placeholder:"A-B" help:"Slots to move, from 0 to 4095. Those of each node are spread evenly: 0-1023 is a quarter of each. Default: ${default}."`
	From  int        `default:"-1" placeholder:"J" help:"Move only slots of this node. Default: of all nodes."`
	To    int        `required:"" placeholder:"K" help:"Node that gets the slots."`
	File  string     `arg:"" name:"file" help:"File of the cluster. It is replaced at the end: copy it to each node again."`
	Node  []string   `arg:"" name:"node" help:"Directories of all nodes, those of node 0 first. Separate the directories of one node by commas."`
	RAM   flags.Size `name:"ram" placeholder:"SIZE" default:"256MiB" help:"RAM for buffers. Default: ${default}."`
}

// Help says what a move needs, and gives examples.
func (*moveCmd) Help() string {
	return `Before: stop all nodes by Ctrl-C or SIGTERM, copy the file of the cluster, and mount or copy the directories of all nodes here. The disks of nodes that give or get slots need room for a second copy of their stores.

After: copy the new file to each node, and start all nodes. A node with the old file is refused. Pages and logs stay where they are.

The number of nodes does not change. Some crawls do not move: those with --recrawl, several lanes or enqueued URLs, those that have given up a node, and nodes with messages in quarantine. The error names the cause, and nothing has changed.

Exit codes: 2 for bad flags; 4 if a node runs, a directory is not that of its node, or something does not move; 5 for damage; 1 if the accounts do not balance.

Examples:
  drumbeat cluster move --slots 0-1365 --to 1 cluster.json n0 n1 n2
  drumbeat cluster move --slots 0-2047 --from 0 --to 3 cluster.json n0 n1 n2 /disk1/n3,/disk2/n3`
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
		return term.Usage(fmt.Errorf("--from %d --to %d with directories of %d nodes: %s has the nodes 0 to %d", c.From, c.To, len(c.Node),
			c.File, n-1))
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
		fmt.Fprintf(&b, "node %d: %d unique URLs, had %d; ", n.Node, n.Unique, n.UniqueBefore)
		if n.Ended < 0 {
			fmt.Fprintf(&b, "%d that ended on other nodes moved here", -n.Ended)
		} else {
			fmt.Fprintf(&b, "%d that wait and %d that ended moved away", n.Waiting, n.Ended)
		}
		fmt.Fprintf(&b, "; took %d messages of other nodes\n", n.Messages)
	}
	for node := range rep.Table.Nodes() {
		fmt.Fprintf(&b, "node %d owns %d of %d slots\n", node, rep.Table.Share(node), cluster.Slots)
	}
	fmt.Fprintf(&b, "next: copy %s to each node, then start all\n", file)
	_, err := io.WriteString(w, b.String())
	return err
}
