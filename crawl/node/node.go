package node

import (
	"context"
	"sync"
	"time"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/crawl/space"
	"drumbeat/queue"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/snapshot"
	"drumbeat/weburl"
)

// Node exchanges links, edges and scope extensions with the other nodes. It has no goroutines of its own: those of
// its parts are "publish-<node>" for each other node, "intake", "marks", "watchmarks", "pairs", "replace", "table",
// "watchtable", "orders", "watchorders", "exchange", "config", "pages", "status" and "watchstatus". All methods
// are safe for concurrent use after Start, unless they say otherwise.
type Node struct {
	run    *account.Run
	saved  *state.Saved
	opt    *Options
	others Others
	leases *Leases

	// These parts are nil in a crawl of one node.
	gone     *abandoned
	heard    *heard
	doubts   *doubts
	outs     *outboxes
	early    *earlySaver
	config   *configKeeper
	end      *crawlEnd
	intake   *intake
	shares   *pageShares
	marks    *marks
	replaced *replacements
	statuses *statuses
	tables   *tables
	orders   *orders
	leaving  *leaving

	divided func() map[uint64]*cluster.Parts // those of divided PLDs, by key; not before the state has keys
}

// Checkpoints makes checkpoints.
type Checkpoints interface {
	Save() error
	Unsaved() bool // anything has changed since the last checkpoint began
}

// Others are the stages that a node calls.
type Others struct {
	Checkpoints Checkpoints
	RecentEdge  func(e star.Edge) bool // an earlier transaction has sent it
	// TakeLinks passes the records of a message to the stores. It is part of a transaction.
	TakeLinks func(in *admit.Inlet, tx *account.Tx) error
	PagesLeft func(use func(left int64)) // calls use with the pages left to fetch, while none is granted
	MorePages func()                     // more pages may be fetched
	GoOn      func()                     // Quiet is over
	Rest      func()                     // ends the run, so that the table can change (Turn)
	SlotsCome func(state.Slots)          // these slots are on their way to this node; Coming has changed
	// Fits returns an error if the limits of this node are too small for a table.
	Fits func(*cluster.Table) error
	Done func() bool // this node has nothing left to do; the transaction lock is held exclusively
	// Config returns the configuration as lines "name: value". It reads the files of rules.
	Config func() ([]string, error)
	Look   func() *snapshot.Snapshot
	// Orders returns the orders of the cluster that this node has taken; TakeOrder takes one of another node. later
	// says that others follow.
	Orders    func() []*cluster.Order
	TakeOrder func(ctx context.Context, o *cluster.Order, later bool) error
	Renders   func() int64           // pages that wait for the browser, or are with it
	Heavy     func() []cluster.Heavy // the PLDs with the most responses of the run
	// WalkHosts returns the number of hosts to which walkers of a random walk may jump.
	WalkHosts func() int
}

// Moment is the state of a node at a checkpoint.
type Moment struct {
	intake  *cluster.Intake
	reading uint64   // the connection to the broker whose numbers intake has; 0: of an earlier run
	outs    []int64  // records added to each outbox
	gone    []uint64 // number of the last message dropped from each outbox
	full    int64    // the limit of pages that all nodes together have reached
	arrival arrival
	leaving *state.Leaving
	renders int64 // pages that wait for the browser
	idle    bool  // the node has nothing left to do but to wait for others
}

// New returns a node. Wire gives it the stages that it calls, Open the state of a manifest.
func New(run *account.Run, saved *state.Saved, opt Options, leases *Leases, keeper *space.Keeper) *Node {
	n := &Node{run: run, saved: saved, opt: &opt, leases: leases}
	if !n.On() {
		return n
	}
	nodes, wakeMark := opt.nodes(), account.NewSignal()
	n.gone, n.heard = &abandoned{self: opt.Node, gone: make([]bool, nodes)}, newHeard(nodes)
	n.doubts = newDoubts(opt.Log, nodes)
	n.outs = &outboxes{run: run, opt: &opt, gone: n.gone, doubts: n.doubts,
		boxes: make([]*cluster.Outbox, nodes), publishers: make([]*cluster.Publisher, nodes)}
	n.early = &earlySaver{run: run, opt: &opt, heard: n.heard, outs: n.outs, wake: run.PulsedSignal()}
	n.config = &configKeeper{run: run, opt: &opt, gone: n.gone, dropped: n.outs.dropped, wake: account.NewSignal()}
	n.end = &crawlEnd{opt: &opt, gone: n.gone, heard: n.heard, outs: n.outs, early: n.early, wakeMark: wakeMark,
		agreement: agreement{term: newTerm()}}
	n.tables = &tables{run: run, saved: saved, opt: &opt, heard: n.heard, gone: n.gone, wake: account.NewSignal(),
		began:  time.Now(),
		listed: make(chan struct{}),
		moves:  make([]int, nodes), reads: make([]int, nodes)}
	n.divided = sync.OnceValue(func() map[uint64]*cluster.Parts { return partsByKey(saved, opt.Table) })
	n.leaving = &leaving{saved: saved, opt: &opt, outs: n.outs, gone: n.gone}
	n.tables.leaving = n.leaving
	n.intake = &intake{tables: n.tables, gone: n.gone, outs: n.outs, run: run, opt: &opt, space: keeper,
		doubts: n.doubts, withdraw: n.end.withdraw, wakeMark: wakeMark}
	n.shares = &pageShares{run: run, opt: &opt, gone: n.gone, heard: n.heard, outs: n.outs, early: n.early,
		quiet: n.end.quiet, wakeMark: wakeMark}
	n.marks = &marks{run: run, opt: &opt, gone: n.gone, heard: n.heard, doubts: n.doubts, outs: n.outs,
		intake: n.intake, end: n.end, tables: n.tables, shares: n.shares, wake: wakeMark,
		disowns: make([]bool, nodes), pulls: newPulls(nodes),
		listed: make(chan struct{})}
	n.tables.marked = n.marks.listed
	n.replaced = &replacements{run: run, opt: &opt, gone: n.gone, heard: n.heard, doubts: n.doubts, outs: n.outs,
		intake: n.intake, end: n.end, marks: n.marks}
	n.orders = &orders{run: run, opt: &opt, wake: account.NewSignal(), faults: map[string]string{}}
	n.statuses = &statuses{run: run, opt: &opt, gone: n.gone, heard: n.heard, doubts: n.doubts, outs: n.outs,
		orders: n.orders, tables: n.tables, intake: n.intake, shares: n.shares, config: n.config,
		progress: make([]progressOf, nodes)}
	return n
}

// Wire gives the node the stages that it calls.
func (n *Node) Wire(others Others) {
	n.others = others
	if !n.On() {
		return
	}
	n.replaced.checkpoints = others.Checkpoints
	n.orders.own, n.orders.take = others.Orders, others.TakeOrder
	n.marks.walkHosts, n.statuses.heavy = others.WalkHosts, others.Heavy
	n.leaving.take = others.TakeLinks
	n.outs.recentEdge, n.early.checkpoints, n.config.lines = others.RecentEdge, others.Checkpoints, others.Config
	n.end.goOn, n.intake.takeLinks, n.statuses.look = others.GoOn, others.TakeLinks, others.Look
	n.intake.morePages, n.marks.morePages = others.MorePages, others.MorePages
	n.shares.pagesLeft, n.tables.rest, n.tables.fits = others.PagesLeft, others.Rest, others.Fits
	n.tables.come = others.SlotsCome
}

// On reports whether the crawl has several nodes.
func (n *Node) On() bool { return n.opt.Table != nil }

// Outboxes returns the outboxes by node, nil for this one. The caller opens them before Open, and may read what
// cluster.Outbox allows.
func (n *Node) Outboxes() []*cluster.Outbox { return n.outs.boxes }

// Version returns the version in which this node writes now.
func (n *Node) Version() int {
	return cluster.Common(n.opt.reads(), n.opt.Node, n.heard.all(), n.gone.flags())
}

// Quarantine returns where the queue of unreadable messages belongs. The caller opens it before Open.
func (n *Node) Quarantine() **queue.Queue { return &n.intake.quarantine }

// Open restores the state of a manifest, nil for a new crawl. links decides where records belong. The outboxes must
// be open. No goroutine runs yet.
func (n *Node) Open(m *state.Manifest, links *admit.Policy) error {
	if !n.On() {
		return nil
	}
	var in *cluster.Intake
	if m != nil {
		in = m.Intake
	}
	if err := n.intake.restore(in, links); err != nil {
		return err
	}
	n.end.round = n.intake.in.Round
	if err := n.tables.restore(m); err != nil {
		return err
	}
	n.leaving.restore(m, links)
	n.gone.restore(n.opt.Abandoned, n.opt.Table, n.outs.boxes)
	n.shares.restore(m)
	n.outs.open(n.marks.listed)
	if m == nil {
		return nil
	}
	n.marks.began = m.Gen
	if in != nil {
		n.marks.note(m.Gen, m.Accounts.Counters[state.CountPages], &Moment{intake: in, outs: n.outs.counts(),
			gone: n.outs.goneNumbers(), full: m.Full, renders: n.others.Renders() + min(1, m.Renders.Len)})
	}
	return nil
}

// RetryQuarantine tries each message of the quarantine again, and takes the readable ones. Start does so, too. No
// goroutine runs yet.
func (n *Node) RetryQuarantine() error { return n.intake.retryQuarantine() }

// Abandoned lists the nodes that are lost for good, once the node is open.
func (n *Node) Abandoned() []int { return n.gone.nodes() }

// Rejoin makes a node that starts after the end of the crawl take part until all agree again that it is over. It
// returns false if no broker answers. No goroutine runs yet.
func (n *Node) Rejoin(ctx context.Context) bool {
	if !n.On() {
		return false
	}
	answered := n.end.rejoin(ctx)
	n.intake.in.Round = n.end.round
	return answered
}

// Agree compares the configuration with that of the cluster, or writes it if there is none, and drops the records
// for abandoned nodes. An unreachable broker is no error. No goroutine runs yet.
func (n *Node) Agree(ctx context.Context) error {
	if !n.On() {
		return nil
	}
	if err := n.config.agree(ctx); err != nil {
		return err
	}
	return n.outs.dropAbandoned()
}

// Start starts the goroutines.
func (n *Node) Start(ctx context.Context) {
	if !n.On() {
		return
	}
	n.tables.began = time.Now()
	n.outs.start(ctx)
	n.run.Start(ctx, "intake", n.intake.readStream)
	n.run.Start(ctx, "marks", n.marks.put)
	n.run.Start(ctx, "watchmarks", n.marks.watch)
	n.run.Start(ctx, "pairs", n.marks.pull)
	n.run.Start(ctx, "replace", n.replaced.watch)
	n.run.Start(ctx, "table", n.tables.follow)
	n.run.Start(ctx, "watchtable", n.tables.watch)
	n.run.Start(ctx, "orders", n.orders.keep)
	n.run.Start(ctx, "watchorders", n.orders.watch)
	n.run.Start(ctx, "exchange", n.early.saveEarly)
	n.run.Start(ctx, "config", n.config.keep)
	n.run.Start(ctx, "pages", n.shares.share)
	n.run.Start(ctx, "status", n.statuses.publish)
	n.run.Start(ctx, "watchstatus", n.statuses.watch)
}

// Send moves the links and edges of other nodes from a page's batch to the outboxes. It is part of the page's
// transaction.
func (n *Node) Send(b *admit.Batch, tx *account.Tx) error {
	if !n.On() {
		return nil
	}
	return n.outs.send(b, tx)
}

// SendOn puts the records of a message that other nodes own into their outboxes. It is part of the transaction that
// takes the message.
func (n *Node) SendOn(in *admit.Inlet, tx *account.Tx) error {
	if len(in.Onward.Links) == 0 && len(in.Onward.Edges) == 0 {
		return nil
	}
	return n.outs.sendOn(in, tx)
}

// SendOrder sends an enqueued URL that waits, with its record as its visits, to the node that owns its slot. sent is
// false if this node does, or gets the slot. It is part of a transaction.
func (n *Node) SendOrder(order *state.Order) (sent bool, _ error) {
	if !n.On() {
		return false, nil
	}
	owner := n.opt.Table.OwnerOf(weburl.SlotOf(order.Key))
	if n.opt.Table.Divided() {
		var rec weburl.Record
		if err := rec.Decode(order.Visits); err != nil {
			return false, err
		}
		host := weburl.Split(rec.URL).Host
		owner = n.visitor(host)
		if n.tables.comes(host) {
			return false, nil
		}
	} else if slots := n.tables.arriving().slots; slots.HasKey(order.Key) {
		return false, nil
	}
	if owner == n.opt.Node {
		return false, nil
	}
	return true, n.outs.boxes[owner].AddMoved(cluster.MovedOrder, state.AppendMovedOrder(nil, order))
}

// HandOut sends a URL of this node to the one that visits its host, if that is another one, because its PLD is divided.
// It is part of a transaction.
func (n *Node) HandOut(tx *account.Tx, rec *weburl.Record, from state.Place) (sent bool, _ error) {
	if !n.On() || !n.opt.Table.Divided() {
		return false, nil
	}
	to, divided := n.leaving.visitor(rec.URL)
	if !divided || to == n.opt.Node || n.tables.comes(weburl.Split(rec.URL).Host) {
		return false, nil
	}
	return true, n.leaving.handOut(tx, rec, n.saved.Hasher.URLKey(rec.URL), to, from)
}

// Share returns a function that returns the share of a PLD's hosts that this node visits, given its key; nil: it visits
// all hosts of each PLD that it owns.
func (n *Node) Share() func(pld uint64) float64 {
	if !n.On() || !n.opt.Table.Divided() {
		return nil
	}
	return func(pld uint64) float64 {
		if parts := n.divided()[pld]; parts != nil {
			return max(parts.Share(n.opt.Node), 1.0/cluster.DividedParts)
		}
		return 1
	}
}

// PassOn sends a URL that another node has sent here to the node that visits its host, if that is another one: the
// sender has another table. It is part of a transaction.
func (n *Node) PassOn(tx *account.Tx, rec *weburl.Record, record []byte) (sent bool, _ error) {
	host := weburl.Split(rec.URL).Host
	to := n.visitor(host)
	if to == n.opt.Node || n.tables.comes(host) {
		return false, nil
	}
	return true, n.outs.handOut(to, n.saved.Hasher.URLKey(rec.URL), record, tx)
}

// SendWalker puts a walker of a random walk into the outbox for its node. It is part of the transaction of its step.
func (n *Node) SendWalker(to int, w *cluster.Walker, tx *account.Tx) error {
	tx.Count(state.CountLinksSent, 1)
	return n.outs.boxes[to].AddWalker(w)
}

// WalkHosts returns, by node, the number of hosts of the other nodes to which walkers may jump, as of their last marks;
// nil in a crawl of one node.
func (n *Node) WalkHosts() []int64 {
	if !n.On() {
		return nil
	}
	hosts := make([]int64, n.opt.nodes())
	for node, m := range n.heard.all() {
		if node != n.opt.Node && m != nil && !n.gone.has(node) {
			hosts[node] = m.WalkHosts
		}
	}
	return hosts
}

// Gone reports whether a node takes part no more.
func (n *Node) Gone(node int) bool { return n.gone.has(node) }

// TellHosts writes the mark of this node again, since walkers may jump to it from now on.
func (n *Node) TellHosts() {
	if n.On() {
		n.marks.wake.Raise()
	}
}

// Flush ends the open messages, so that the next checkpoint covers all records.
func (n *Node) Flush() error {
	if !n.On() {
		return nil
	}
	return n.outs.flush()
}

// Freeze copies the node's state; nil in a crawl of one node. It also decides whether the crawl is idle at the moment
// of the checkpoint. The caller holds the transaction lock exclusively.
func (n *Node) Freeze() *Moment {
	if !n.On() {
		return nil
	}
	m := &Moment{arrival: n.tables.arriving(), leaving: n.leaving.freeze(), outs: n.outs.counts(),
		gone: n.outs.goneNumbers(), full: n.shares.full.Load(), renders: n.others.Renders()}
	m.idle = n.others.Done() && !n.outs.passing() || n.end.quiet()
	m.intake, m.reading = n.intake.freeze()
	return m
}

// SaveTo puts a frozen state into a manifest.
func (n *Node) SaveTo(m *state.Manifest, mo *Moment) error {
	if mo == nil {
		return nil
	}
	m.Intake, m.Full, m.PageSlots, m.Leaving = mo.intake, mo.full, n.shares.slots, mo.leaving
	return n.tables.saveTo(m, mo.arrival)
}

// Turn says how the table changes now that the run has ended for it; nil: not at all.
func (n *Node) Turn() *Turn {
	if !n.On() {
		return nil
	}
	n.tables.mu.Lock()
	defer n.tables.mu.Unlock()
	return n.tables.turn
}

// TurnsAtOnce reports whether the table changes at the end of this run, and the next one begins at once: this node does
// not divide its stores, and stays.
func (n *Node) TurnsAtOnce() bool {
	t := n.Turn()
	return t != nil && !t.Give && !t.Table.HasDeparted(n.opt.Node)
}

// Checkpointed tells the other nodes, and this node's publishers, of the durable checkpoint gen of a moment, until
// which this node has fetched pages.
func (n *Node) Checkpointed(gen uint64, pages int64, mo *Moment) {
	if mo != nil {
		n.marks.note(gen, pages, mo)
		n.outs.wake()
	}
}

// Quiet reports whether this node has agreed to the end, and so begins no work on its own.
func (n *Node) Quiet() bool { return n.On() && n.end.quiet() }

// AgreeToEnd agrees to the end if all nodes seem idle. The caller holds the transaction lock exclusively, and this
// node has nothing left to do; idle looks once more whether the marks of the others give work to its walkers. It
// belongs to one goroutine, with Concluded.
func (n *Node) AgreeToEnd(idle func() bool) {
	if n.On() && !n.tables.changing() && !n.outs.passing() && !n.Leaving() {
		n.end.agree(n.intake.in.Taken, idle)
	}
}

// SlotsCome reports whether slots are on their way to this node, or are to be given to it.
func (n *Node) SlotsCome() bool { return n.On() && n.tables.coming() }

// Coming returns the number of slots that are on their way to this node, and that it fetches for already.
func (n *Node) Coming() int {
	if !n.On() {
		return 0
	}
	slots := 0
	for node := range n.opt.nodes() {
		if !n.gone.has(node) { // the parts of abandoned nodes are divided among all others
			slots += n.tables.comingFrom(node).Len()
		}
	}
	return slots
}

// Leaving reports whether the move of slots from this node has not ended: URLs of them may be in its queues of BEAST.
func (n *Node) Leaving() bool { return n.On() && n.leaving.any() }

// Leave moves a URL in a queue of BEAST to another node, if its slot has left; data is its record. It is part of a
// transaction.
func (n *Node) Leave(tx *account.Tx, data []byte, from state.Place) (left bool, _ error) {
	if !n.On() {
		return false, nil
	}
	return n.leaving.leave(tx, data, from)
}

// Left ends the move of slots from this node: all their URLs have left. It is part of a transaction.
func (n *Node) Left(tx *account.Tx) error {
	n.early.urge() // the takers wait for the end
	tx.Wake(n.tables.wake)
	return n.leaving.end(tx)
}

// Concluded reports whether the crawl is over on all nodes. The caller ensures that this node has nothing left to do.
func (n *Node) Concluded() bool { return !n.On() || n.end.concluded() }

// Rejoining returns the longest remaining wait for nodes that have not started again since the crawl was over; 0 for
// none.
func (n *Node) Rejoining() time.Duration {
	if !n.On() {
		return 0
	}
	return n.end.rejoining()
}

// Pausing returns the remaining time before this node may agree to the end.
func (n *Node) Pausing() time.Duration {
	if !n.On() {
		return 0
	}
	return n.end.pausing()
}

// End tells the other nodes that this one has found the crawl over. They find it themselves, too, unless the broker
// loses marks.
func (n *Node) End(ctx context.Context) {
	if n.On() {
		n.marks.tellEnd(ctx)
	}
}

// EndPages tells the other nodes that the limit of pages is reached, and waits until they have found the same.
func (n *Node) EndPages(ctx context.Context) {
	if n.On() {
		n.marks.conclude(ctx, func(*cluster.Mark) {},
			func(m *cluster.Mark) bool { return m.Done || m.Full >= n.opt.MaxPages })
	}
}

// PageLimit returns how many pages the node may fetch over all runs, with Options.MaxPages.
func (n *Node) PageLimit() int64 {
	if !n.On() {
		return n.opt.MaxPages
	}
	return n.shares.limit()
}

// PagesReached reports whether all nodes together have fetched Options.MaxPages.
func (n *Node) PagesReached() bool {
	switch {
	case n.opt.MaxPages <= 0:
		return false
	case !n.On():
		return n.run.Accounts.Counter(state.CountPages) >= n.opt.MaxPages
	}
	return n.shares.reached()
}

// PagesWait reports whether fetching waits for loans from other nodes.
func (n *Node) PagesWait() bool { return n.On() && n.opt.MaxPages > 0 && n.shares.left() == 0 }

// Disowned reports whether the mark of another node abandons this one: nothing may be fetched.
func (n *Node) Disowned() bool { return n.On() && n.marks.disowned() }

// Reloaded notes a reload of files of rules.
func (n *Node) Reloaded() {
	if n.On() {
		n.config.reloaded()
	}
}

// Ordered notes that this node has taken an order of the cluster.
func (n *Node) Ordered() {
	if n.On() {
		n.orders.wake.Raise()
	}
}

// Show puts the node's figures into a snapshot.
func (n *Node) Show(sn *snapshot.Snapshot) {
	if n.On() {
		n.statuses.show(sn)
	}
}

// PublishEnd writes that the node has ended, and why.
func (n *Node) PublishEnd(ctx context.Context, why string) {
	if n.On() {
		n.statuses.publishEnd(ctx, why)
	}
}

// Statuses returns the last status of each node; nil for a node that has not reported.
func (n *Node) Statuses() []*cluster.Status {
	list := make([]*cluster.Status, n.opt.nodes())
	for node := range list {
		list[node] = n.heard.status(node)
	}
	return list
}
