package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/lease"
	"drumbeat/crawl/account"
	"drumbeat/crawl/checkpoint"
	"drumbeat/crawl/node"
	"drumbeat/disk"
	"drumbeat/internal/pace"
	"drumbeat/polite"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Cluster makes a crawl one of several nodes, which exchange links (package cluster). All nodes have the
// same Crawl, Secret and Table, and agree on all options that decide which URLs are fetched.
type Cluster struct {
	Node      int
	Table     *cluster.Table
	Crawl     uint64 // identifies the crawl of the cluster
	Secret    weburl.Secret
	Transport cluster.Transport // Run does not close it
	// Reconfigure replaces the cluster's configuration, which nodes compare at their start, by that of this
	// node.
	Reconfigure bool
	// Abandoned lists nodes that are lost for good: the others keep no records for them, and the crawl ends
	// without them.
	Abandoned []int
	Broker    bool   // its process runs a broker; for people
	File      string // name of the cluster's file, for explain; "" for none

	LeaseTTL time.Duration // after which others take the networks of a silent node; 0: DefaultLeaseTTL
	Longest  time.Duration // no exchange takes longer; 0: 5 minutes
	// Clock runs while the machine sleeps; nil: the monotonic clock of package time.
	Clock func() time.Duration

	change     *cluster.TableChange // that led to Table while the crawl ran; nil: none
	adopt      bool                 // the manifest has the table before
	seedsAgain bool                 // and the seeds are read again
	refused    *cluster.TableChange // a change that this node has refused
}

// clusterFile returns the name of the cluster's file.
func (o *Options) clusterFile() string {
	if o.Cluster == nil {
		return ""
	}
	return o.Cluster.File
}

// clusterSecret returns the secret of the cluster; nil without one.
func (o *Options) clusterSecret() []byte {
	if o.Cluster == nil {
		return nil
	}
	return o.Cluster.Secret[:]
}

// validate returns the first fault of the options of a node.
func (c *Cluster) validate(o *Options) error {
	switch {
	case c == nil:
		return nil
	case c.Table == nil || c.Transport == nil:
		return errors.New("crawl: a cluster needs a table and an engine")
	case c.Node < 0 || c.Node >= c.Table.Nodes():
		return fmt.Errorf("crawl: node %d is outside 0 to %d", c.Node, c.Table.Nodes()-1)
	case c.LeaseTTL != 0 && (c.LeaseTTL < lease.LeastTTL || c.LeaseTTL > lease.MostTTL):
		return fmt.Errorf("crawl: lease of %v: want %v to %v", c.LeaseTTL, lease.LeastTTL, lease.MostTTL)
	}
	return c.ValidateAbandoned()
}

// ValidateAbandoned returns the first fault of Abandoned.
func (c *Cluster) ValidateAbandoned() error {
	for _, node := range c.Abandoned {
		switch {
		case node < 0 || node >= c.Table.Nodes():
			return fmt.Errorf("crawl: node %d cannot be abandoned: the nodes are 0 to %d", node, c.Table.Nodes()-1)
		case node == c.Node:
			return fmt.Errorf("crawl: node %d cannot abandon itself", node)
		}
	}
	return nil
}

// nodeOptions returns the options of a node of a cluster.
func (o *Options) nodeOptions() node.Options {
	opt := node.Options{Log: o.Observe.Log, MaxPages: o.Limits.MaxPages}
	if c := o.Cluster; c != nil {
		opt.Node, opt.Table, opt.Crawl, opt.Transport = c.Node, c.Table, c.Crawl, c.Transport
		opt.Secret = o.clusterSecret()
		opt.Change, opt.Adopt, opt.Refused, opt.LeaseTTL = c.change, c.adopt, c.refused, c.leaseTTL()
		opt.Reconfigure, opt.Abandoned, opt.Connections = c.Reconfigure, c.Abandoned, o.Network.Connections
		opt.ResendAfter = max(time.Minute, 3*o.Disk.CheckpointEvery) // the receiver makes a checkpoint meanwhile
		opt.QuarantineBytes, opt.Reads = o.tests.quarantineBytes, o.tests.reads
		opt.Visits = o.Recrawl != nil
		opt.Host, opt.Version, opt.Broker = o.Identity.Host, o.Identity.Version, c.Broker
	}
	return opt
}

// wireNode gives the node of a cluster and its leases the stages that they call.
func (c *crawler) wireNode() {
	c.node.Wire(node.Others{Checkpoints: c.checkpointer, RecentEdge: c.budgets.RecentEdge,
		TakeLinks: c.takeRecords, PagesLeft: c.dispatcher.PagesLeft, MorePages: c.dispatcher.Wake,
		Rest: func() { c.Stop(stopTable) }, Fits: c.fits,
		SlotsCome: func(slots state.Slots) { c.limits.Divide(); c.dispatcher.SlotsCome(slots) },
		GoOn:      func() { c.deferrals.GoOn(); c.operator.GoOn() },
		Done:      c.doneHere, Config: c.configLines, WalkHosts: c.walk.Hosts, Heavy: c.heavyPLDs,
		Renders: c.render.Waiting,
		Look:    c.figures.Snapshot,
		Orders:  c.operator.Orders, TakeOrder: c.operator.TakeOrder})
	c.leases.Wire(node.LeaseOthers{Opened: c.dispatcher.Wake,
		Evicted: func(tx *account.Tx, items []*polite.Item) error {
			return c.deferrals.Evicted(tx, items, state.ReasonNetworkLease)
		}})
}

// heavyPLDs lists the PLDs with the most responses of this run.
func (c *crawler) heavyPLDs() (list []cluster.Heavy) {
	for _, p := range c.sketches.HeavyPLDs() {
		if len(list) < cluster.MaxHeavy {
			list = append(list, cluster.Heavy{PLD: c.Suffixes.PLD(p.Host), Slot: weburl.Slot(p.Key),
				Responses: p.Responses})
		}
	}
	return list
}

// fits returns an error if the limits of this node are too small for a cluster with a table.
func (c *crawler) fits(table *cluster.Table) error {
	o, of := c.opt, *c.opt.Cluster
	of.Table = table
	o.Cluster = &of
	_, err := MakePlan(&o)
	return err
}

// nodeStructures returns the outboxes and the quarantine of a node of a cluster.
func (c *crawler) nodeStructures(opt func(name string) queue.Options) (all []*checkpoint.Structure) {
	if !c.node.On() {
		return nil
	}
	o, boxes := c.opt.Cluster, c.node.Outboxes()
	crawl := o.Crawl
	if m := c.Manifest; m != nil && m.Intake != nil {
		crawl = cluster.CrawlKey(crawl, m.Intake.Incarnation)
	}
	for to := range boxes {
		if to == o.Node {
			continue
		}
		name := state.OutboxName(to)
		q := opt(name)
		all = append(all, checkpoint.Row(name, &boxes[to], func(st *cluster.OutboxState) (*cluster.Outbox, error) {
			return cluster.OpenOutbox(cluster.OutboxOptions{Set: q.Set, Name: name, Crawl: crawl,
				From: o.Node, To: to, Version: c.node.Version, BlockBytes: q.BlockBytes, Pool: q.Pool}, st)
		}))
	}
	return append(all, checkpoint.Row(state.NameQuarantine, c.node.Quarantine(),
		func(st *queue.State) (*queue.Queue, error) { return queue.Open(opt(state.NameQuarantine), st) }))
}

// openNode restores a node of a cluster from a manifest, nil for a new crawl. The outboxes must be open.
func (c *crawler) openNode(m *state.Manifest) error {
	if !c.node.On() {
		return nil
	}
	c.links.Table, c.links.Node = c.opt.Cluster.Table, c.opt.Cluster.Node
	if err := errors.Join(c.openLoads(m), c.node.Open(m, c.links)); err != nil {
		return err
	}
	of := *c.opt.Cluster // the caller's
	of.Abandoned = c.node.Abandoned()
	c.opt.Cluster = &of
	return nil
}

// openLoads begins to count the loads of slots. A checkpoint without them is of an earlier version, or was repaired.
func (c *crawler) openLoads(m *state.Manifest) error {
	l := new(cluster.Loads)
	switch {
	case m == nil:
	case m.Loads.Len == 0:
		l.Since = time.Now().Unix()
	default:
		data, err := disk.ReadTail(c.Set, m.Loads)
		if err != nil {
			return err
		}
		if l, err = cluster.DecodeLoads(data); err != nil {
			return fmt.Errorf("crawl: checkpoint %d: %w", m.Gen, err)
		}
	}
	c.Accounts.CountLoads(l)
	return nil
}

// DefaultLeaseTTL is Cluster.LeaseTTL if that is 0.
const DefaultLeaseTTL = 10 * time.Minute

func (c *Cluster) leaseTTL() time.Duration { return cmp.Or(c.LeaseTTL, DefaultLeaseTTL) }

// releaseLeases gives back the leases that a round has left to a next one which did not begin.
func (o *Options) releaseLeases(ctx context.Context) {
	if o.Cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := o.opened.last.leases.Release(ctx, o.Cluster.Transport, o.Cluster.Node); err != nil {
		o.Observe.Log.Warn("other nodes can visit this node's networks only after --cluster-lease", "error", err)
	}
}

const releaseTimeout = 10 * time.Second // as for the leases of a run at its end

// leases reports whether nodes visit networks in turn: then all gaps and limits hold over all nodes.
func (o *Options) leases() bool { return o.Cluster != nil && o.Cluster.Table.Nodes() > 1 }

// leaseOptions returns the options of the leases.
func (o *Options) leaseOptions() node.LeaseOptions {
	if !o.leases() {
		return node.LeaseOptions{}
	}
	c := o.Cluster
	return node.LeaseOptions{Log: o.Observe.Log,
		Lease: lease.Options{Transport: c.Transport, Node: c.Node, Nodes: c.Table.Nodes(),
			TTL: c.leaseTTL(), Longest: c.Longest, Clock: c.Clock, Before: o.opened.leases()}}
}

// rateOf returns the node's share of a rate over all nodes: by slots, with coming ones that it gets from nodes whose
// share no longer has them, and without those of abandoned nodes.
func (o *Options) rateOf(all pace.Schedule, coming int) pace.Schedule {
	if o.Cluster == nil {
		return all
	}
	c := o.Cluster
	own, of := max(1, c.Table.Share(c.Node)+coming), cluster.Slots
	for node := range c.Table.Nodes() {
		if slices.Contains(c.Abandoned, node) {
			of -= c.Table.Share(node)
		}
	}
	return all.Times(float64(own) / float64(max(own, of)))
}
