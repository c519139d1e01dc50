package crawl

import (
	"errors"
	"strings"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	slotmove "drumbeat/state/move"
	"drumbeat/state/repair"
	"drumbeat/weburl"
)

// Audits of nodes whose slots have moved.

// foreignFound: a response of another node's URL that did not end before a move is found, since the account
// of those that did lacks it.
func (c *testCluster) foreignFound(fs *memfs.FS) {
	c.t.Helper()
	fs = fs.Fork(1)
	set, m, err := lastManifest(fs, c.options[0].Disk.Dirs)
	if err != nil {
		c.t.Fatal(err)
	}
	m.Accounts.Moved = weburl.Sum{}
	data, err := state.EncodeManifest(m)
	if err == nil {
		err = (&state.Saved{Set: set}).WriteManifest(data)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	if rep, err := c.audit(fs, true); err != nil || rep.Balanced() ||
		!strings.Contains(strings.Join(rep.Bad, "; "), "account of moved URLs says 0") {
		c.t.Errorf("a node without the account of moved URLs: %v, %+v", err, rep)
	}
}

// auditedTogether audits the nodes together, after slots have moved: what ended before is history of its node.
func (c *testCluster) auditedTogether(fs disk.FS) {
	c.t.Helper()
	rep, err := c.audit(fs, true)
	if err != nil {
		c.t.Fatal(err)
	}
	if !rep.Balanced() || rep.Deep.Foreign > 0 || rep.Deep.Twice > 0 || rep.Deep.History == 0 {
		c.t.Errorf("cluster audit: %v; %+v", rep.Bad[:min(10, len(rep.Bad))], rep.Deep)
	}
}

// damageSeen damages the cache of a node's URLseen, and returns the number of changed places.
func (c *testCluster) damageSeen(fs *memfs.FS, dirs []string) int {
	c.t.Helper()
	damaged := 0
	for _, dir := range dirs {
		files, err := repair.FilesIn(fs, dir+"/state/"+state.NameURLSeen, false)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, name := range files {
			if !strings.Contains(name, "/cache-") {
				continue
			}
			f, err := fs.Open(name)
			if err != nil {
				c.t.Fatal(err)
			}
			size, err := f.Size()
			for at := int64(disk.HeaderBytes); err == nil && at+100 < size; at += 100 {
				_, err = f.WriteAt([]byte("damage"), at+50)
				damaged++
			}
			if err != nil {
				c.t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	return damaged
}

// auditedAfter: a node that was damaged while a move was interrupted is found by the audit after the move.
func (c *testCluster) auditedAfter(base *memfs.FS) {
	c.t.Helper()
	whole := base.Fork(1)
	o, before := c.moving(whole, 0, cluster.Slots-1, 0, 1), whole.Ops() // node 2 neither gives nor gets slots
	if _, err := slotmove.Run(o); err != nil {
		c.t.Fatal(err)
	}
	ops := whole.Ops() - before
	for cut := ops; cut > ops-60; cut-- {
		fs := base.Fork(1)
		fs.CrashAfter(cut)
		o.FS = fs
		for i := range o.Nodes {
			o.Nodes[i].FS = fs
		}
		if _, err := slotmove.Run(o); !errors.Is(err, disk.ErrCrashed) {
			continue
		}
		fs = fs.Kill()
		if _, err := fs.Size(clusterFile + ".next"); err != nil {
			continue // it is published, or not committed
		}
		o.FS = fs
		for i := range o.Nodes {
			o.Nodes[i].FS = fs
		}
		if c.damageSeen(fs, o.Nodes[2].Dirs) == 0 {
			c.t.Error("node 2 has no file of URLseen")
		}
		var damage *disk.CorruptError
		if rep, err := slotmove.Run(o); rep == nil || !rep.Finished || !errors.As(err, &damage) ||
			!strings.Contains(err.Error(), "the slots have moved; the audit") {
			c.t.Errorf("a node was damaged meanwhile: %v, %+v", err, rep)
		}
		return
	}
	c.t.Error("no cut was between commit and publication")
}
