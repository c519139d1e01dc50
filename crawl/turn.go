package crawl

import (
	"context"
	"errors"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/lease"
	"drumbeat/crawl/node"
	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/state/move"
)

// turner changes the table of owners of a node between two runs of its crawl in one process (crawl/node/tables.go). If
// the process is killed, the next one finishes or undoes what it finds, and the node follows again.
type turner struct {
	opt     *Options
	adopt   *node.Turn           // the table of the next run; nil: that of the manifest
	refused *cluster.TableChange // a change that this node does not carry out, with the reason
}

// prepare finishes a Give that was interrupted, and gives the next run its table: that of the manifest, or the one that
// follows it.
func (t *turner) prepare() error {
	c := t.opt.Cluster
	if c == nil {
		return nil
	}
	if err := move.FinishGive(t.opt.Disk.FS, t.opt.Disk.Dirs); err != nil {
		return err
	}
	of := *c
	of.refused = t.refused
	of.change, of.adopt, of.seedsAgain = nil, false, false
	m, _, err := state.ReadManifest(disk.Set{FS: t.opt.Disk.FS, Paths: t.opt.Disk.Dirs})
	if err != nil || m == nil {
		return nil // opening the directories says why
	}
	change, adopt := m.Table, false
	if m.Arrived {
		change, adopt = m.Next, true
		of.seedsAgain = m.SeedsAgain
	}
	if len(change) > 0 {
		if of.change, of.Table, err = cluster.DecodeTableChange(change); err != nil {
			return err
		}
		of.adopt = adopt
	}
	if a := t.adopt; a != nil && !adopt && a.Change.Before == m.Frozen.Table {
		of.change, of.Table, of.adopt = a.Change, a.Table, true
		of.seedsAgain = a.Change.Kind == cluster.ChangeForget
	}
	t.opt.Cluster = &of
	return nil
}

// serve changes the table after a run that has ended for it. again says that the crawl starts again.
func (t *turner) serve(ctx context.Context, c *crawler, res *Result, err error) (again bool, _ error) {
	if res == nil || err != nil || res.Stop != stopTable {
		return false, err
	}
	if ctx.Err() != nil {
		res.Stop = StopCancelled
		return false, nil
	}
	turn := c.node.Turn()
	t.adopt = nil
	if turn.Give && t.opt.Network.CloseIdle != nil {
		t.opt.Network.CloseIdle()
	}
	recent := c.dispatcher.Recent(time.Now())
	if of := t.opt.Cluster; len(cluster.HostsCome(of.Table, turn.Table, of.Node)) > 0 {
		recent.Others.Add(state.SlotSet(cluster.HostsCome(of.Table, turn.Table, of.Node)))
		recent.At = time.Now()
	}
	for slot := range cluster.Slots {
		if of := t.opt.Cluster; turn.Table.OwnerOf(slot) == of.Node && of.Table.OwnerOf(slot) != of.Node {
			recent.Others.Set(slot)
			recent.At = time.Now()
		}
	}
	t.opt.opened.last.recent = recent
	if t.opt.Cluster.Table.Nodes() == 1 {
		t.opt.opened.last.leases = lease.Alone()
	}
	if turn.Table.HasDeparted(t.opt.Cluster.Node) {
		res.Stop = StopLeft
		return false, nil
	}
	if !turn.Give {
		t.adopt = turn
		return true, nil
	}
	began, log := time.Now(), t.opt.Observe.Log
	rep, err := move.Give(move.GiveOptions{FS: t.opt.Disk.FS, Dirs: t.opt.Disk.Dirs, Crawl: t.opt.Cluster.Crawl,
		Before: t.opt.Cluster.Table, Next: turn.Table, Change: turn.Change,
		RAMBytes: min(eraseRAM, t.opt.Limits.RAMBytes/4)})
	if errors.Is(err, move.ErrRefused) || state.IsFull(err) { // it needs room for a second copy of its stores
		log.Error("no slots move from this node", "change", turn.Change.Moves, "error", err)
		refused := *turn.Change
		refused.Refused = err.Error()
		t.refused = &refused
		return true, nil
	}
	if err != nil {
		return false, err
	}
	log.Info("slots of this node belong to other nodes; their content is on its way", "change", turn.Change.Moves,
		"slots", rep.Slots, "to", rep.Takers, "urls", rep.Given.Known.N, "waiting", rep.Given.Waiting.N,
		"messages", rep.Messages, "took", time.Since(began))
	return true, nil
}
