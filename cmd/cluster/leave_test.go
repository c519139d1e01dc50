package cluster

import (
	"strings"
	"testing"
	"time"

	"drumbeat/cluster"
)

// TestLeaveWithBroker: a node whose process runs the broker cannot leave: all slots would move, and then no node could
// reach the others.
func TestLeaveWithBroker(t *testing.T) {
	r := newStatusRig(t)
	c := &changer{e: r.e, table: r.file.Table}
	r.put(cluster.Status{Node: 0, Time: time.Now(), Broker: true}, cluster.Status{Node: 1, Time: time.Now()},
		cluster.Status{Node: 2, Time: time.Now(), Broker: true, Ended: "stopped"})
	if err := c.withoutBroker(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "runs the broker") {
		t.Errorf("node 0: %v", err)
	}
	for _, node := range []int{1, 2} {
		if err := c.withoutBroker(t.Context(), node); err != nil {
			t.Errorf("node %d: %v", node, err)
		}
	}
}

// TestLeaveRenders: a node leaves once its browser has rendered the pages that waited for it. They stay with the node
// when its slots move.
func TestLeaveRenders(t *testing.T) {
	r := newStatusRig(t)
	table := r.file.Table
	c, n := &changer{e: r.e, table: table}, table.Nodes()
	for _, renders := range []int64{2, 0} {
		for node := range n {
			m := cluster.Mark{Node: node, Table: table.Sum(), Taken: make([]cluster.Taken, n), Out: make([]int64, n),
				Gone: make([]uint64, n), ResendRequests: make([]uint64, n)}
			if node == 1 {
				m.Renders = renders
			}
			data, err := m.Encode()
			must(t, err)
			if _, err := r.e.Put(t.Context(), cluster.BucketCrawl, cluster.MarkKey(node), data); err != nil {
				t.Fatal(err)
			}
		}
		why, err := c.holds(t.Context(), 1)
		want := map[int64]string{2: "for 2 pages of node 1, which its browser renders first"}[renders]
		if why != want || err != nil {
			t.Errorf("%d pages wait: %q, %v", renders, why, err)
		}
	}
}
