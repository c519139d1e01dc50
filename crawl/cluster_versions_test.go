package crawl

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// later is the version of the protocol after this one. These tests have nodes that write and read it.
const later = cluster.Version + 1

// upgradeWeb has no host that two nodes ask.
func upgradeWeb(t *testing.T) *simweb.Web {
	return smallWeb(t, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages, o.SeedURLs, o.Robots.RedirectHost, o.Robots.ServerError = 20, 40, 600, 1, 0, 0
	})
}

// versionMeter is the engine of a node. It notes the versions of the messages that the node sends.
type versionMeter struct {
	*mem.Transport
	mu   sync.Mutex
	sent map[int]int // messages by their version
}

func (e *versionMeter) Publish(ctx context.Context, to, from int, id string, data []byte) <-chan error {
	if h, err := cluster.ReadHeader(data); err == nil {
		e.mu.Lock()
		e.sent[h.Version]++
		e.mu.Unlock()
	}
	return e.Transport.Publish(ctx, to, from, id, data)
}

// of returns the number of messages of a version.
func (e *versionMeter) of(version int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sent[version]
}

// TestClusterUpgrade: the nodes of a cluster are stopped and started with a later version, one after the other, while
// the others crawl. They write the later version once all nodes read it, and not before; nothing is refused, and
// together they fetch what one node fetches, each URL once.
func TestClusterUpgrade(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		const nodes = 3
		web := upgradeWeb(t)
		var meters []*versionMeter
		c := newCluster(t, web, nodes, mem.Faults{Delay: 5 * time.Millisecond}, func(node int, o *Options) {
			meters = append(meters, &versionMeter{Transport: o.Cluster.Transport.(*mem.Transport), sent: map[int]int{}})
			o.Cluster.Transport = meters[node]
			o.Disk.CheckpointEvery = 5 * time.Second
			o.Politeness.HostDelay, o.Politeness.HostDelayMin = 5*time.Second, 5*time.Second // it takes some minutes
		})
		defer c.close()
		results := make([]*Result, nodes)
		sent := func(version int) (all int) {
			for _, m := range meters {
				all += m.of(version)
			}
			return all
		}
		upgraded := 0 // nodes
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		var ended sync.WaitGroup
		start := func(node, version int) (stop func()) {
			o := c.options[node]
			o.tests.reads = version
			own, end := context.WithCancel(ctx)
			over := make(chan struct{})
			ended.Go(func() {
				defer close(over)
				r, err := Run(own, o)
				if results[node] = r; err != nil {
					t.Errorf("node %d: %v", node, err)
					cancel()
					return
				}
				checkAllTaken(t, r)
			})
			return func() { end(); <-over }
		}
		var stops [nodes]func()
		for node := range nodes {
			stops[node] = start(node, 0)
		}
		for node := range nodes {
			account.Sleep(ctx, time.Minute)
			stops[node]()
			if r := results[node]; r == nil || r.Stop != StopCancelled {
				t.Fatalf("node %d ended too early: %+v", node, r)
			}
			if n := sent(later); n != 0 {
				t.Errorf("%d messages of version %d with %d of %d nodes upgraded", n, later, upgraded, nodes)
			}
			start(node, later)
			upgraded++
		}
		ended.Wait()
		if t.Failed() {
			return
		}
		c.check(results)
		if before, after := sent(cluster.Version), sent(later); before == 0 || after == 0 {
			t.Errorf("%d messages of version %d were sent, and %d of the later one", before, cluster.Version, after)
		}
	})
}

// checkAllTaken checks that a node has refused nothing of the others, and they nothing of it.
func checkAllTaken(t *testing.T, r *Result) {
	t.Helper()
	for _, p := range r.Snapshot.Cluster.Pairs {
		if p.RefusedMarks != 0 || p.RefusedMessages != 0 || p.Quarantined != 0 || p.Held {
			t.Errorf("%+v", p)
		}
	}
}

// TestClusterUpgradeQuarantine: messages of a later version, which a node gets although it cannot read them, go into
// quarantine. It takes them once it is upgraded: then the nodes have fetched what one node fetches, each URL once.
func TestClusterUpgradeQuarantine(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := upgradeWeb(t)
		c := newCluster(t, web, 2, mem.Faults{Delay: 5 * time.Millisecond}, func(node int, o *Options) {
			o.Disk.CheckpointEvery = 5 * time.Second
			o.Cluster.Transport = &rewriter{Transport: o.Cluster.Transport.(*mem.Transport), seen: map[uint64]bool{},
				change: func(_ int, _ *cluster.Header, msg []byte) []byte { return asVersion(msg, later) }}
		})
		defer c.close()
		r := c.run(t.Context())
		quarantined := int64(0)
		for node := range r {
			pair, taken := &r[node].Snapshot.Cluster.Pairs[0], r[node].Snapshot.Count(state.CountLinksTaken)
			if quarantined += pair.Quarantined; taken != 0 || pair.RefusedMessages != 0 || pair.Holes > 0 {
				t.Errorf("node %d: %d links taken, %+v", node, taken, *pair)
			}
			checkBalanced(t, c.options[node].Disk.FS, c.options[node].Disk.Dirs)
		}
		if quarantined == 0 {
			t.Error("no message is in quarantine")
		}
		before := len(web.Log().Snapshot().Fetches)
		for node := range c.options {
			c.options[node].tests.reads = later
		}
		ctx, cancel := context.WithTimeout(t.Context(), clusterTime)
		defer cancel()
		var ended sync.WaitGroup
		for node := range c.options {
			ended.Go(func() {
				var err error
				if r[node], err = Run(ctx, c.options[node]); err != nil && !errors.Is(err, state.ErrFinished) {
					t.Errorf("node %d: %v", node, err)
				}
			})
		}
		ended.Wait()
		if t.Failed() {
			return
		}
		for node := range r {
			checkAllTaken(t, r[node])
		}
		if after := len(web.Log().Snapshot().Fetches); after == before {
			t.Errorf("%d URLs were fetched before the upgrade, and none after it", before)
		}
		c.check(r)
	})
}

// asVersion returns a message as one of another version.
func asVersion(msg []byte, version int) []byte {
	const sum = 8
	msg = bytes.Clone(msg[:len(msg)-sum])
	msg[3] = byte('0' + version)
	return binary.LittleEndian.AppendUint64(msg, xxhash.Sum64(msg))
}
