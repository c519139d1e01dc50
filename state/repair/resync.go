package repair

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/weburl"
)

// Resync repairs a cluster after one node was restored from an older copy of its directories. It runs first
// on that node, with the audits of all others, then on each other node, with the audit of the first after its
// resync. All nodes are stopped.
//
// The restored node starts a new incarnation (cluster.CrawlKey). Its messages to each node are numbered from
// the last one that this node has taken, so no record in its outboxes is lost. It takes the messages that the
// others still have. Messages that they dropped, because the lost directories had them, are lost and counted.
// The other nodes note the new incarnation, and ignore messages and marks of the old one.

// ErrResync means that a resync is refused. It comes wrapped.
var ErrResync = errors.New("not resynced")

// ResyncOptions name the restored node. Options.Others holds the audits that Resync needs.
type ResyncOptions struct {
	Options
	Back int           // the node that was set back
	File *cluster.File // of the cluster
}

// Resync does the part of the node in Options.Dirs.
func Resync(all ResyncOptions) (rep *Report, err error) {
	opt, back := all.Options, all.Back
	if opt.FS == nil {
		opt.FS = disk.OS()
	}
	rep = &Report{Dry: opt.DryRun, Deep: &audit.DeepReport{}}
	if opt.hook == nil {
		opt.hook = func(string) {}
	}
	r, m, err := openRepair(&opt, rep)
	if r != nil {
		defer func() { err = errors.Join(err, r.Unlock()) }()
	}
	// The earlier one was this resync, or a repair, which requires a new audit of the node.
	if err != nil || rep.Finished {
		return rep, err
	}
	w, err := newResync(&all, &opt, r, m, rep)
	if err != nil {
		return nil, err
	}
	if w.own.Cluster.Node == back {
		err = w.planBack()
	} else {
		err = w.planOther()
	}
	if err != nil || opt.DryRun {
		return rep, err
	}
	return rep, w.run()
}

// newResync audits the node in an opened crawl.
func newResync(all *ResyncOptions, opt *Options, r *state.Saved, m *state.Manifest, rep *Report) (*resync, error) {
	found, err := audit.BalanceSaved(r, m)
	table := all.File.Table
	if len(m.Table) > 0 && err == nil { // it has changed while the crawl ran, and the file may be older
		_, table, err = cluster.DecodeTableChange(m.Table)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("crawl: resync: repair the node first, without --resync: %w", err)
	case found.Cluster == nil:
		return nil, refuseResync("the directories are not those of a cluster's node")
	case !found.Balanced():
		return nil, refuseResync("the node's own audit does not balance: %v; repair it first, without --resync",
			found.Bad)
	case weburl.NewHasher(all.File.Secret).ContentKey([]byte(state.SecretCheckText)) != m.Frozen.SecretCheck:
		return nil, refuseResync("the file of the cluster does not belong to the directories: the secrets differ")
	case found.Cluster.Table != table.Sum() || found.Cluster.Nodes != table.Nodes():
		return nil,
			refuseResync("the file of the cluster does not belong to the directories: the tables of owners differ")
	case all.Back < 0 || all.Back >= found.Cluster.Nodes:
		return nil, refuseResync("there is no node %d: the nodes are 0 to %d", all.Back, found.Cluster.Nodes-1)
	}
	if m.Leaving != nil && found.Cluster.Node == all.Back {
		return nil, refuseResync("slots were leaving the node at that time, and others may have got URLs that it " +
			"still has: take a later backup")
	}
	rep.Deep.Report = *found
	return &resync{own: audit.Node{Name: r.Set.Path(0), Checkpoint: m.Gen, Balanced: true, Cluster: found.Cluster},
		table: table, back: all.Back, crawl: all.File.Key(), saved: r, m: m, opt: opt, out: rep}, nil
}

func refuseResync(format string, args ...any) error {
	return fmt.Errorf("crawl: resync: %w: %w: %s", ErrResync, state.ErrIncompatible, fmt.Sprintf(format, args...))
}

// resync is the state of one Resync.
type resync struct {
	own   audit.Node
	table *cluster.Table // of the node
	back  int
	crawl uint64 // File.Key
	saved *state.Saved
	m     *state.Manifest
	opt   *Options
	out   *Report

	intake cluster.Intake        // the next one
	adopt  *cluster.TableChange  // the last change of table; nil: the manifest has this table
	starts map[int]cluster.Taken // by node: the position after which the next messages are numbered
}

func (w *resync) do(format string, args ...any) {
	w.out.Actions = append(w.out.Actions, fmt.Sprintf(format, args...))
}

// planBack decides the actions of the restored node.
func (w *resync) planBack() error {
	c := w.own.Cluster
	given := slices.DeleteFunc(slices.Clone(w.opt.Others), func(n audit.Node) bool { return n.Cluster.Node == w.back })
	all, err := audit.CompareNodes(append(given, w.own))
	if err != nil {
		return err
	}
	if slices.Contains(all.Abandoned, w.back) {
		return refuseResync("the others have abandoned node %d", w.back)
	}
	others := map[int]*audit.Cluster{}
	for i := range all.Nodes {
		others[all.Nodes[i].Cluster.Node] = all.Nodes[i].Cluster
	}
	w.openIntake()
	broken := false
	for node := range c.Nodes {
		// Also by others, after the copy of this node was made.
		if node == w.back || slices.Contains(all.Abandoned, node) {
			continue
		}
		o := others[node]
		if o == nil {
			return refuseResync("the audit of node %d is needed (--taken), made while all nodes were stopped", node)
		}
		b, err := w.planPair(&peer{Node: node, Incarnation: o.Incarnation, Pair: o.Pair(w.back)})
		if err != nil {
			return err
		}
		broken = broken || b
		for other := node + 1; other < c.Nodes; other++ {
			if o2 := others[other]; o2 != nil && other != w.back {
				if err := errors.Join(check(o, o2), check(o2, o)); err != nil {
					return refuseResync("nodes %d and %d do not match without node %d: %v", node,
						other, w.back, err)
				}
			}
		}
	}
	if !broken {
		return refuseResync("the accounts of node %d and the others match, so it needs no resync; if only its mark on "+
			"the broker belongs to a later checkpoint, delete the value marks.%[1]d of the crawl's bucket", w.back)
	}
	w.intake.Incarnation++
	w.do("begin incarnation %d of node %d", w.intake.Incarnation, w.back)
	return nil
}

// openIntake copies the intake of the manifest.
func (w *resync) openIntake() {
	n := w.own.Cluster.Nodes
	w.intake = *w.m.Intake
	w.intake.Taken = append(slices.Clone(w.intake.Taken), make([]cluster.Taken, n-len(w.intake.Taken))...)
	w.intake.Incarnations = append(slices.Clone(w.intake.Incarnations), make([]uint64, n-len(w.intake.Incarnations))...)
	w.intake.Lost = append(slices.Clone(w.intake.Lost), make([]cluster.Totals, n-len(w.intake.Lost))...)
	w.starts = map[int]cluster.Taken{}
}

// check compares the messages from one node to another with those taken there.
func check(from, to *audit.Cluster) error {
	_, err := from.Pair(to.Node).Sent.Check(from.Node, to.Node, to.TakenFrom(from.Node))
	return err
}

// peer is another node's account of its exchange with the restored one.
type peer struct {
	*audit.Pair
	Node        int // the other one
	Incarnation uint64
	Replacing   bool // it was restored, too: numbers of its account may be older than those here
}

// planPair decides the actions of the restored node for another node. broken says that their accounts contradict each
// other. The same rule holds at both ends, and in both directions: the next message follows the last one that the
// receiver has taken, or that the sender has dropped, whichever is later.
func (w *resync) planPair(o *peer) (broken bool, _ error) {
	var backError *cluster.SetBackError
	c := w.own.Cluster
	here := c.Pair(o.Node)
	_, sent := here.Sent.Check(c.Node, o.Node, o.Taken)
	_, taken := o.Sent.Check(o.Node, c.Node, here.Taken)
	for _, err := range []error{sent, taken} {
		if err != nil && !errors.As(err, &backError) {
			return false, err
		}
		if err != nil && backError.Back >= 0 && backError.Back != c.Node && !o.Replacing {
			return false, refuseResync("node %d was not set back to an older copy: %v", c.Node, err)
		}
	}
	start := o.Taken
	if here.Sent.GoneNumber > start.Number {
		start = cluster.Taken{Number: here.Sent.GoneNumber, Totals: here.Sent.Gone}
	}
	w.starts[o.Node] = start
	w.do("renumber the records for node %d from message %d on, and omit loans of pages", o.Node, start.Number+1)
	w.intake.Incarnation = max(w.intake.Incarnation, o.Pair.Incarnation)
	w.intake.Incarnations[o.Node] = o.Incarnation
	if taken != nil && (o.Sent.GoneNumber > here.Taken.Number || !o.Replacing) {
		ours := &w.intake.Taken[o.Node]
		lost := o.Sent.Gone
		lost.Sub(ours.Totals)
		if o.Sent.GoneNumber <= ours.Number || lost.Links.N < 0 || lost.Edges.N < 0 {
			return false, refuseResync(
				"node %d has received %d messages of node %d, whose own ones differ: node %[3]d was set back to an "+
					"older copy, or both were: %v", c.Node, ours.Number, o.Node, taken)
		}
		w.do("continue after message %d of node %d: messages %d to %[1]d are lost, with %[4]d links and %[5]d edges, "+
			"because node %[2]d has "+
			"dropped them", o.Sent.GoneNumber, o.Node, ours.Number+1, lost.Links.N, lost.Edges.N)
		w.out.Links += lost.Links.N
		w.out.Lost.Add(lost)
		w.intake.Lost[o.Node].Add(lost)
		*ours = cluster.Taken{Number: o.Sent.GoneNumber, Totals: o.Sent.Gone}
	}
	return sent != nil || taken != nil || o.Pair.Incarnation > c.Incarnation, nil
}

// planOther decides the actions of a node after the resync of node back.
func (w *resync) planOther() error {
	c := w.own.Cluster
	var o *audit.Cluster
	for i := range w.opt.Others {
		if n := &w.opt.Others[i]; n.Cluster.Node == w.back {
			if _, err := audit.CompareNodes([]audit.Node{*n, w.own}); err != nil {
				return err
			}
			o = n.Cluster
		}
	}
	switch {
	case o == nil:
		return refuseResync("the audit of node %d after its resync is needed (--taken)", w.back)
	case o.Incarnation <= c.Pair(w.back).Incarnation:
		return refuseResync("node %d has the incarnation %d by its audit, and this node knows its incarnation %d: "+
			"resync node %[1]d first, and give its audit "+
			"after that", w.back, o.Incarnation, c.Pair(w.back).Incarnation)
	}
	if err := errors.Join(check(o, c), check(c, o)); err != nil {
		return refuseResync("the audit of node %d does not match this node: was it made after its resync, and has "+
			"no node run since? %v", w.back, err)
	}
	w.openIntake()
	w.intake.SetBound(w.back, cluster.Bound{Incarnation: o.Incarnation}, c.Nodes)
	w.do("accept messages and the mark of node %d from its incarnation %d on", w.back, o.Incarnation)
	return nil
}

// run writes the next state and installs it.
func (w *resync) run() error {
	shadow, err := NewShadow(w.saved, w.m, w.opt.RAMBytes)
	if err != nil {
		return err
	}
	if err := shadow.CopyTails(); err != nil {
		return err
	}
	shadow.Next.Intake = &w.intake
	if err := w.follow(shadow); err != nil {
		return err
	}
	if len(w.starts) > 0 { // the crawl of a restored node is not over
		shadow.Next.Done = ""
	}
	for _, node := range slices.Sorted(maps.Keys(w.starts)) {
		if err := w.renumber(shadow, node); err != nil {
			return err
		}
	}
	w.opt.hook("resync")
	x := &repair{Scanner: &audit.Scanner{Saved: w.saved}, Shadow: shadow, opt: w.opt, out: w.out, hook: w.opt.hook}
	return x.install()
}

// follow gives the next state the table of the cluster. Slots of this node have not moved, but others may have joined.
func (w *resync) follow(shadow *Shadow) (err error) {
	if w.adopt == nil {
		return nil
	}
	next := &shadow.Next
	for node := next.Frozen.Nodes; node < w.table.Nodes(); node++ {
		if _, ok := w.starts[node]; !ok { // it has left since
			w.starts[node] = cluster.Taken{}
		}
	}
	next.Frozen.Nodes, next.Frozen.Table = w.table.Nodes(), w.table.Sum()
	next.Table, err = w.adopt.Encode()
	return err
}

// renumber rebuilds the outbox for a node, with numbers that follow the last message taken there. The outbox for a node
// that has joined since is new.
func (w *resync) renumber(shadow *Shadow, node int) (err error) {
	name, start := state.OutboxName(node), w.starts[node]
	old, err := state.Part[cluster.OutboxState](w.m, name)
	if err != nil {
		return err
	}
	o, err := shadow.NewOutbox(name, cluster.OutboxOptions{Crawl: cluster.CrawlKey(w.crawl, w.intake.Incarnation),
		From: w.back, To: node},
		&cluster.OutboxState{Last: start.Number, Taken: start.Number, Out: start.Totals, Whole: start.Totals,
			Gone: start.Totals})
	if err != nil {
		return fmt.Errorf("crawl: repair %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	if old != nil {
		if _, err := cluster.Renumber(w.saved.Set, name, old, start.Number, o, func(record []byte) (uint64, error) {
			var rec weburl.Record
			if err := rec.Decode(record); err != nil {
				return 0, err
			}
			return w.saved.Hasher.URLKey(rec.URL), nil
		}); err != nil {
			return fmt.Errorf("crawl: repair %s: %w", name, err)
		}
	}
	st, err := o.Freeze().Save(shadow.Tails)
	if err != nil {
		return fmt.Errorf("crawl: repair %s: %w", name, err)
	}
	shadow.Next.Parts[name], err = json.Marshal(st)
	return err
}
