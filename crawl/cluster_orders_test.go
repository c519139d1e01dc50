package crawl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/changes"
	"drumbeat/state/erase"
	"drumbeat/weburl"
)

// ownHosts returns the hosts of a node that had several requests, the busiest one first.
func (c *testCluster) ownHosts(node int) (hosts []string) {
	h, suffixes := weburl.NewHasher(c.options[0].Cluster.Secret), weburl.NewSuffixes(false)
	all := c.web.Log().Snapshot().Hosts
	for name := range all {
		own := c.options[0].Cluster.Table.Owner(h.PLDKey([]byte(suffixes.PLD(name)))) == node
		if own && strings.HasPrefix(name, "h") && all[name].Requests > 3 {
			hosts = append(hosts, name)
		}
	}
	slices.SortFunc(hosts, func(a, b string) int { return int(all[b].Requests) - int(all[a].Requests) })
	return hosts
}

// until waits, for up to an hour of virtual time.
func (c *testCluster) until(what string, is func() bool) {
	c.t.Helper()
	for began := time.Now(); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > time.Hour {
			c.t.Fatalf("not within an hour: %s", what)
		}
	}
}

// ordered reports whether a running node has the order about a rule.
func (c *testCluster) ordered(node int, rule string, off bool) bool {
	s, err := c.options[node].Observe.Control.Settings()
	return err == nil && s.Orders[rule].Stamp > 0 && s.Orders[rule].Off == off
}

// orderTest is a cluster of three nodes. One is away.
type orderTest struct {
	*testCluster
	ended               []chan error
	away, first, killed int
	hosts               []string // of the node that is away
}

func (c *orderTest) begin(ctx context.Context, node int) {
	c.options[node].Observe.Control, c.ended[node] = &Control{}, make(chan error, 1)
	o, ended := c.options[node], c.ended[node]
	go func() { _, err := Run(ctx, o); ended <- err }()
}

// orderCluster runs three nodes until one of them has visited three hosts, and stops them.
func orderCluster(t *testing.T) *orderTest {
	web := smallWeb(t, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages, o.CrawlDelay, o.Page.ServerError, o.Robots.RedirectHost = 24, 96, 1200, 0, 0, 0
	})
	c := &orderTest{testCluster: newCluster(t, web, 3, mem.Faults{Delay: 10 * time.Millisecond}, nil),
		ended: make([]chan error, 3)}
	ctx, stop := context.WithCancel(t.Context())
	for node := range c.ended {
		c.begin(ctx, node)
	}
	c.until("a node visits three hosts", func() bool {
		c.away = slices.IndexFunc([]int{0, 1, 2}, func(node int) bool { return len(c.ownHosts(node)) > 2 })
		return c.away >= 0
	})
	stop()
	for node := range c.ended {
		must(t, <-c.ended[node])
	}
	c.hosts, c.first, c.killed = c.ownHosts(c.away), (c.away+1)%3, (c.away+2)%3
	c.reopen()
	return c
}

// block gives an order about a host to a node.
func (c *orderTest) block(node int, op changes.Op, host string) changes.Change {
	c.t.Helper()
	made, err := c.options[node].Observe.Control.Make(c.t.Context(), changes.Change{Op: op, Rule: "host " + host,
		Who: "eve"})
	if err != nil || made.Stamp == 0 || made.Alone != "" {
		c.t.Fatalf("%s %s at node %d: %+v, %v", op, host, node, made, err)
	}
	return made
}

// TestOrdersAway: orders that one node gets reach all: one that is killed when it has taken one, and one that was away.
// The broker loses everything meanwhile. The sites of the node that was away get no further request when it is back. An
// order is carried out once by each node, whoever gives it to it.
func TestOrdersAway(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := orderCluster(t)
		defer c.close()
		gone, blocked, freed := c.hosts[0], c.hosts[1], c.hosts[2]
		fs := c.options[c.killed].Disk.FS.(*memfs.FS)
		c.options[c.killed].tests.hook = func(place string) {
			if place == "erase" { // the request is durable, and nothing is erased
				fs.CrashAfter(1)
			}
		}
		for _, node := range []int{c.first, c.killed} {
			c.begin(t.Context(), node)
			<-c.options[node].Observe.Control.Started()
		}
		c.block(c.first, changes.OpBlock, blocked)
		order := c.block(c.first, changes.OpBlock, freed)
		c.until("the other node has the rule", func() bool { return c.ordered(c.killed, "- host "+freed, false) })
		if again := c.block(c.killed, changes.OpBlock, freed); again.Stamp != order.Stamp {
			t.Errorf("the same order at another node: %+v, first %+v", again, order)
		}
		c.block(c.killed, changes.OpUnblock, freed)
		c.until("the first node has the later order", func() bool { return c.ordered(c.first, "- host "+freed, true) })
		c.block(c.first, changes.OpUnblock, freed)
		ask := &erase.Ask{Who: "eve", Reason: "a test", Order: strings.Repeat("0f", 8),
			Source: erase.Source{Hosts: []string{gone}, URLs: []string{"http://" + gone + "/?a&b"}}}
		r, err := c.options[c.first].Observe.Control.Erase(t.Context(), ask)
		if err != nil || r.Order != ask.Order {
			t.Fatalf("%+v, %v", r, err)
		}
		if err := <-c.ended[c.killed]; !errors.Is(err, disk.ErrCrashed) {
			t.Fatalf("the killed node: %v", err)
		}
		c.until("the first node has erased", func() bool {
			done, err := erase.RecordsOf(c.options[c.first].Disk.FS, c.options[c.first].Disk.Dirs)
			return err == nil && len(done) == 1
		})
		c.net.Wipe()
		c.options[c.killed].Disk.FS, c.options[c.killed].tests.hook = fs.Crash(), nil
		c.allBack()
		c.checkOrdered(gone, blocked, freed)
	})
}

// allBack begins the killed node and the one that was away again, and waits until all have ended. It checks which hosts
// had requests meanwhile: only the third one.
func (c *orderTest) allBack() {
	c.t.Helper()
	before := c.web.Log().Snapshot().Hosts
	for _, node := range []int{c.killed, c.away} {
		must(c.t, c.engines[node].Close())
		c.engines[node] = c.net.Transport(node)
		c.options[node].Cluster.Transport = c.engines[node]
		c.begin(c.t.Context(), node)
	}
	for node := range c.ended {
		must(c.t, <-c.ended[node])
	}
	after := c.web.Log().Snapshot().Hosts
	for i, host := range c.hosts[:3] {
		if was, n := before[host].Requests, after[host].Requests; (n > was) != (i == 2) {
			c.t.Errorf("%s had %d requests before its node was back, and %d at the end", host, was, n)
		}
	}
}

// checkOrdered checks what all nodes have carried out, and their accounts.
func (c *orderTest) checkOrdered(gone, blocked, freed string) {
	c.t.Helper()
	o := &operated{t: c.t, web: c.web}
	for node := range c.options {
		o.opt = c.options[node]
		o.prove(1, gone)
		set, _, err := lastManifest(o.opt.Disk.FS, o.opt.Disk.Dirs)
		must(c.t, err)
		s, err := changes.Read(set.FS, set.Path(0, state.ChangesName))
		must(c.t, err)
		slices.Sort(s.Blocked)
		want := []string{"- host " + blocked, "- host " + gone}
		slices.Sort(want)
		if !slices.Equal(s.Blocked, want) || len(s.Orders) != 3 || !s.Orders["- host "+freed].Off {
			c.t.Errorf("node %d: %+v", node, s)
		}
		done, err := erase.RecordsOf(o.opt.Disk.FS, o.opt.Disk.Dirs)
		must(c.t, err)
		if len(done) != 1 || done[0].Order == "" || len(done[0].Targets) != 2 ||
			node == c.away && done[0].Erased.Captures == 0 {
			c.t.Errorf("node %d: %+v", node, done)
		}
	}
	if rep, err := audit.CompareNodes(c.audits()); err != nil || rep.BadCount > 0 {
		c.t.Errorf("the accounts of the nodes together: %+v, %v", rep, err)
	}
	keys := 0
	for key, value := range c.net.Values(cluster.BucketCrawl) {
		if strings.HasPrefix(key, "order.") {
			keys++
			_, err := cluster.DecodeOrder(key, []byte(value), c.options[0].clusterSecret())
			must(c.t, err)
		}
	}
	if keys != 4 { // three rules, and the request
		c.t.Errorf("the broker has %d orders", keys)
	}
}
