package crawl

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/cluster/lease"
	"drumbeat/crawl/account"
	"drumbeat/crawl/gate"
	"drumbeat/crawl/node"
	"drumbeat/crawl/space"
	"drumbeat/crawl/strategy"
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
	File      string // name of the cluster's file, for explain; "" for none

	LeaseTTL time.Duration // after which others take the networks of a silent node; 0: DefaultLeaseTTL
	Longest  time.Duration // no exchange takes longer; 0: 5 minutes
	// Clock runs while the machine sleeps; nil: the monotonic clock of package time.
	Clock func() time.Duration
}

// clusterFile returns the name of the cluster's file.
func (o *Options) clusterFile() string {
	if o.Cluster == nil {
		return ""
	}
	return o.Cluster.File
}

// validate returns the first fault of the options of a node.
func (c *Cluster) validate(o *Options) error {
	switch {
	case c == nil:
		return nil
	case c.Table == nil || c.Transport == nil:
		return errors.New("crawl: a cluster needs a table and an engine")
	case c.Node < 0 || c.Node >= c.Table.Nodes():
		return fmt.Errorf("crawl: node %d is not in 0 to %d", c.Node, c.Table.Nodes()-1)
	case c.LeaseTTL != 0 && (c.LeaseTTL < lease.LeastTTL || c.LeaseTTL > lease.MostTTL):
		return fmt.Errorf("crawl: leases of %v; want %v to %v", c.LeaseTTL, lease.LeastTTL, lease.MostTTL)
	case o.walks():
		return fmt.Errorf("crawl: the strategy %s works with one node only", strategy.RandomWalk)
	case o.Render != nil: // the scripts and data of a page belong to hosts of any node, whose delays are kept there
		return errors.New("crawl: rendering works with one node only")
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

// clusterStage exchanges links, edges and scope extensions with the other nodes. Producers: pages, by sendLinks.
// Its goroutines: "publish-<node>" for each other node, "intake", "marks", "watchmarks", "exchange",
// "config", "pages", "status" and "watchstatus".
//
// A record for another node stays in the outbox for that node until a durable checkpoint of that node covers
// it. Received messages are taken in order, in transactions. Nothing depends on the broker's memory.
type clusterStage struct {
	*engine
	leases      *node.Leases
	node, nodes int
	nodeOpt     nodeOptions
	gone        *abandoned
	heard       *heard
	outs        *outboxes
	early       *earlySaver
	intake      cluster.Intake // guarded by the transaction lock
	reading     uint64         // cluster.State.Connects when the stream was read from the beginning; the same lock
	inlet       *admit.Inlet   // of the goroutine "intake"
	decoder     cluster.Decoder
	quarantine  *queue.Queue   // unreadable messages; read by the goroutine "intake"
	quarantined []atomic.Int64 // of these, those of each node
	stuck       []bool         // by node: the quarantine has no room for its next message; of the goroutine "intake"
	doubts      *doubts
	disowns     []bool        // by node: noteDisowned
	disowners   atomic.Int32  // how many of disowns are true
	listed      chan struct{} // closed when the broker's marks are known
	marksListed sync.Once     // closes it

	began    uint64      // number of the checkpoint that this run continues; 0 for a new crawl
	round    int64       // intake.Round; fixed before the goroutines start
	promised atomic.Bool // this node has agreed to the end; changes under markMu
	// Since when this node has waited for one that has ended; of the goroutine "watch".
	endWait     time.Time
	rejoined    time.Time // when this node started if the crawl was over then
	awaitLogged time.Time // when the awaited nodes were last logged; of the goroutine "watch"
	wakeMark    account.Signal

	markMu sync.Mutex // guards the fields below
	mark   *cluster.Mark
	agreement
	marked         cluster.Intake // of the checkpoint of mark
	markedConn     uint64         // connection of the sequences in marked; 0: of an earlier run
	resendRequests []uint64
	lastRequests   []resendRequest

	pages     int64        // this node's share of Options.Limits.MaxPages
	pageSlots *[2]int64    // source of this share: slots before this node's, and its own
	reserved  atomic.Int64 // part of the allowance about to be lent
	lent      []uint64     // by node, the number of the last message that lent it pages; of the goroutine "pages"
	full      atomic.Int64 // the limit of pages that all nodes together have reached; also in the manifest
	short     atomic.Bool  // it is short of pages
	spent     atomic.Bool  // last result of spentHere

	// Of this node. This and the next line are of the goroutine "config", before that of Run.
	config            *cluster.Config
	agreed, replacing bool         // compared successfully; this node writes its own
	warned            string       // digest of the last configuration with a warning
	reloads           atomic.Int64 // reloads of rules that config lacks
	wakeConfig        account.Signal
	configNow         atomic.Pointer[cluster.Config] // config, for other goroutines

	progress []progressOf    // by node; guarded by markMu
	taken    []atomic.Int64  // records taken from each node
	takenTo  []atomic.Uint64 // number of the last message taken from each node

	seen       *seenStage
	requests   *gate.Requests
	budgets    *budgetStage
	space      *space.Keeper
	dispatcher *dispatcher
	deferrals  *deferrals
	operator   *operator
	doneHere   func() bool // crawler.doneHere
	seedsText  func() string
	look       func() *Snapshot
}

func newClusterStage(e *engine) *clusterStage {
	s := &clusterStage{engine: e, wakeMark: account.NewSignal(), wakeConfig: account.NewSignal(),
		agreement: agreement{term: newTerm()}, listed: make(chan struct{})}
	c := e.opt.Cluster
	if c == nil {
		return s
	}
	s.node, s.nodes, s.nodeOpt = c.Node, c.Table.Nodes(), e.opt.nodeOptions()
	s.gone, s.heard = &abandoned{self: s.node, gone: make([]bool, s.nodes)}, newHeard(s.nodes)
	s.doubts = newDoubts(s.nodeOpt.Log, s.nodes)
	s.outs = &outboxes{run: e.Run, opt: &s.nodeOpt, gone: s.gone, doubts: s.doubts,
		boxes: make([]*cluster.Outbox, s.nodes), publishers: make([]*cluster.Publisher, s.nodes)}
	s.early = &earlySaver{run: e.Run, opt: &s.nodeOpt, heard: s.heard, outs: s.outs, wake: e.PulsedSignal()}
	return s
}

// nodeOptions returns the options of a node of a cluster. It is one.
func (o *Options) nodeOptions() nodeOptions {
	c := o.Cluster
	return nodeOptions{Log: o.Observe.Log, Node: c.Node, Table: c.Table, Crawl: c.Crawl, Transport: c.Transport,
		Reconfigure: c.Reconfigure, Abandoned: c.Abandoned, MaxPages: o.Limits.MaxPages,
		Connections: o.Network.Connections, ResendAfter: max(time.Minute, 3*o.Disk.CheckpointEvery),
		QuarantineBytes: o.tests.quarantineBytes, Host: o.Identity.Host, Version: o.Identity.Version}
}

// on reports whether the crawl has several nodes.
func (s *clusterStage) on() bool { return s.opt.Cluster != nil }

// structures returns the outboxes.
func (s *clusterStage) structures(opt func(name string) queue.Options) (all []*structure, _ error) {
	if !s.on() {
		return nil, nil
	}
	c := s.opt.Cluster
	crawl := c.Crawl
	if m := s.Manifest; m != nil && m.Intake != nil {
		crawl = cluster.CrawlKey(crawl, m.Intake.Incarnation)
	}
	s.progress = make([]progressOf, s.nodes)
	for node := range s.nodes {
		if node == s.node {
			continue
		}
		name := state.OutboxName(node)
		q := opt(name)
		all = append(all, row(name, &s.outs.boxes[node], func(st *cluster.OutboxState) (*cluster.Outbox, error) {
			return cluster.OpenOutbox(cluster.OutboxOptions{Set: q.Set, Name: name, Crawl: crawl,
				From: s.node, To: node, BlockBytes: q.BlockBytes, Pool: q.Pool}, st)
		}))
	}
	return append(all, row(state.NameQuarantine, &s.quarantine, func(st *queue.State) (*queue.Queue, error) {
		return queue.Open(opt(state.NameQuarantine), st)
	})), nil
}

// open restores the state of a manifest, nil for a new crawl. The outboxes must be open.
func (s *clusterStage) open(m *state.Manifest) (err error) {
	if !s.on() {
		return nil
	}
	s.links.Table, s.links.Node = s.opt.Cluster.Table, s.node
	s.inlet = admit.NewInlet(s.links)
	s.resendRequests, s.lastRequests = make([]uint64, s.nodes), make([]resendRequest, s.nodes)
	s.quarantined, s.stuck = make([]atomic.Int64, s.nodes), make([]bool, s.nodes)
	s.disowns = make([]bool, s.nodes)
	s.intake = cluster.Intake{Taken: make([]cluster.Taken, s.nodes)}
	if m != nil && m.Intake != nil {
		if len(m.Intake.Taken) != s.nodes {
			return fmt.Errorf("crawl: manifest: intake from %d nodes, want %d: %w", len(m.Intake.Taken), s.nodes,
				state.ErrIncompatible)
		}
		s.intake = *m.Intake
		s.intake.Taken = slices.Clone(m.Intake.Taken) // the mark below must not follow undurable changes
		s.round = s.intake.Round
	}
	s.taken, s.takenTo = make([]atomic.Int64, s.nodes), make([]atomic.Uint64, s.nodes)
	for node := range s.taken {
		s.takenTo[node].Store(s.intake.Taken[node].Number)
		s.taken[node].Store(s.intake.Taken[node].Totals.Records())
	}
	s.gone.restore(s.nodeOpt.Abandoned, s.outs.boxes)
	of := *s.opt.Cluster // the caller's
	of.Abandoned = s.gone.nodes()
	s.opt.Cluster = &of
	s.openLimits(m)
	if m != nil {
		s.began = m.Gen
	}
	s.outs.open(s.listed)
	if s.budgets.bySupporters() {
		return fmt.Errorf(
			"crawl: budgets by supporters need the links of all PLDs, which a node of a cluster lacks: %w",
			state.ErrIncompatible)
	}
	if m != nil {
		s.noteMark(m.Gen, &moment{accounts: m.Accounts, intake: m.Intake, outs: s.outs.counts(), full: m.Full})
	}
	return nil
}

// start starts the goroutines.
func (s *clusterStage) start() {
	if !s.on() {
		return
	}
	s.outs.start(s.Running())
	s.Start(s.Running(), "intake", s.readStream)
	s.Start(s.Running(), "marks", s.putMarks)
	s.Start(s.Running(), "watchmarks", s.watchMarks)
	s.Start(s.Running(), "exchange", s.early.saveEarly)
	s.Start(s.Running(), "config", s.keepConfig)
	s.Start(s.Running(), "pages", s.sharePages)
	s.Start(s.Running(), "status", s.publishStatus)
	s.Start(s.Running(), "watchstatus", s.watchStatus)
	s.Start(s.Running(), "robotsasks", s.requests.AnswerRobots)
}

// send moves the links and edges of other nodes from a page's batch to the outboxes. It is part of the page's
// transaction.
func (s *clusterStage) send(b *admit.Batch, tx *account.Tx) error {
	if !s.on() {
		return nil
	}
	return s.outs.send(b, tx)
}
