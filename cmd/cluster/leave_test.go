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
	f, err := read(r.name)
	must(t, err)
	c := &changer{e: r.e, table: f.Table}
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
