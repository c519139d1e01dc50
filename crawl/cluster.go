package crawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
	"drumbeat/crawl/strategy"
	"drumbeat/exchange"
	"drumbeat/queue"
	"drumbeat/weburl"
)

// Cluster makes a crawl one node of several, which exchange links (package exchange). All nodes have the same
// Crawl, Secret and Table, and the same options that decide what is fetched.
type Cluster struct {
	Node   int
	Table  *exchange.Table
	Crawl  uint64 // identifies the crawl of the cluster
	Secret weburl.Secret
	Engine exchange.Engine // Run does not close it
}

// nodes returns the number of nodes of the crawl. Several nodes may visit the hosts of one address or network, and each
// takes its share of what is allowed there: the rates hold over all nodes, the gaps between two requests only in the mean.
func (o *Options) nodes() int {
	if o.Cluster == nil {
		return 1
	}
	return o.Cluster.Table.Nodes()
}

// validate returns what is wrong with the options of a node.
func (c *Cluster) validate(o *Options) error {
	switch {
	case c == nil:
		return nil
	case c.Table == nil || c.Engine == nil:
		return errors.New("crawl: a cluster needs a table and an engine")
	case c.Node < 0 || c.Node >= c.Table.Nodes():
		return fmt.Errorf("crawl: node %d is not in 0 to %d", c.Node, c.Table.Nodes()-1)
	case o.walks():
		return fmt.Errorf("crawl: the strategy %s works with one node only", strategy.RandomWalk)
	}
	return nil
}

// clusterStage exchanges links, edges and scope extensions with the other nodes. Producers: pages, by sendLinks.
// Its goroutines: "publish" for each other node, "intake", "marks" and "watchmarks".
//
// A record for another node stays in the outbox for that node until a durable checkpoint of that node covers it.
// What comes in is taken in order, in transactions. Nothing depends on what the engine keeps.
type clusterStage struct {
	*engine
	node, nodes int
	outboxes    []*exchange.Outbox // by node; nil for this one
	publishers  []*exchange.Publisher
	intake      exchange.Intake // guarded by the transaction lock
	inlet       *admit.Inlet    // of the goroutine "intake"
	decoder     *exchange.Decoder

	marks     []atomic.Pointer[exchange.Mark] // the last that were seen, by node
	wakeMark  signal
	markMu    sync.Mutex // guards the fields below
	mark      *exchange.Mark
	marked    exchange.Intake // of the checkpoint of mark
	want      []uint64
	wanted    []time.Time  // when want rose last
	idle      atomic.Bool  // nothing is left to do here but to wait for other nodes
	taken     atomic.Int64 // messages
	skipped   atomic.Int64 // messages that came again
	holes     atomic.Int64 // gaps
	wakeEarly signal

	seen         *seenStage
	budgets      *budgetStage
	space        *space
	checkpointer *checkpointer
	doneHere     func() bool // crawler.doneHere
}

func newClusterStage(e *engine) *clusterStage {
	return &clusterStage{engine: e, wakeMark: newSignal(), wakeEarly: e.pulsedSignal()}
}

// on reports whether the crawl has several nodes.
func (s *clusterStage) on() bool { return s.opt.Cluster != nil }

// outboxName returns the name of the outbox for a node.
func outboxName(node int) string { return fmt.Sprint(state.OutboxPrefix, node) }

// structures returns the outboxes.
func (s *clusterStage) structures(opt func(name string) queue.Options) (all []*structure, _ error) {
	if !s.on() {
		return nil, nil
	}
	enc, err := exchange.NewEncoder()
	if err != nil {
		return nil, err
	}
	c := s.opt.Cluster
	s.node, s.nodes = c.Node, c.Table.Nodes()
	s.outboxes = make([]*exchange.Outbox, s.nodes)
	s.publishers = make([]*exchange.Publisher, s.nodes)
	s.marks = make([]atomic.Pointer[exchange.Mark], s.nodes)
	for node := range s.nodes {
		if node == s.node {
			continue
		}
		name := outboxName(node)
		q := opt(name)
		all = append(all, row(name, &s.outboxes[node], func(st *exchange.OutboxState) (*exchange.Outbox, error) {
			return exchange.OpenOutbox(exchange.OutboxOptions{Set: q.Set, Name: name, Crawl: c.Crawl, From: s.node, To: node,
				BlockBytes: q.BlockBytes, Pool: q.Pool, Encoder: enc}, st)
		}))
	}
	return all, nil
}

// open continues at the state in a manifest, nil for a new crawl. The outboxes must be open.
func (s *clusterStage) open(m *state.Manifest) (err error) {
	if !s.on() {
		return nil
	}
	s.links.Table, s.links.Node = s.opt.Cluster.Table, s.node
	s.inlet = admit.NewInlet(s.links)
	if s.decoder, err = exchange.NewDecoder(); err != nil {
		return err
	}
	s.want, s.wanted = make([]uint64, s.nodes), make([]time.Time, s.nodes)
	s.intake = exchange.Intake{Taken: make([]exchange.Taken, s.nodes)}
	if m != nil && m.Intake != nil {
		if len(m.Intake.Taken) != s.nodes {
			return fmt.Errorf("crawl: manifest: intake from %d nodes, want %d: %w", len(m.Intake.Taken), s.nodes, state.ErrIncompatible)
		}
		s.intake = *m.Intake
	}
	for node, o := range s.outboxes {
		if o == nil {
			continue
		}
		p := exchange.NewPublisher()
		p.Outbox, p.Engine, p.ResendAfter = o, s.opt.Cluster.Engine, s.resendAfter()
		p.Waits = func(err error, pause time.Duration) {
			s.opt.Log.Debug("publishing waits", "error", err, "pause", pause)
		}
		p.Transact = func(f func() error) error {
			return s.transact(func(tx *transaction) error { tx.nothing = true; return f() })
		}
		s.publishers[node] = p
	}
	if s.budgets.bySupporters() {
		return fmt.Errorf("crawl: budgets by supporters need the links of all PLDs, which a node of a cluster does not have: %w",
			state.ErrIncompatible)
	}
	if m != nil {
		s.noteMark(m.Gen, &moment{accounts: m.Accounts, intake: m.Intake, outs: s.outs()})
	}
	return nil
}

// resendAfter is the time without progress after which a node sends again what another has not taken: that one
// makes a checkpoint meanwhile.
func (s *clusterStage) resendAfter() time.Duration { return max(time.Minute, 3*s.opt.CheckpointEvery) }

// start starts the goroutines.
func (s *clusterStage) start() {
	if !s.on() {
		return
	}
	for node, p := range s.publishers {
		if p != nil {
			s.engine.start(s.running, fmt.Sprintf("publish-%d", node), p.Run)
		}
	}
	s.engine.start(s.running, "intake", s.readStream)
	s.engine.start(s.running, "marks", s.putMarks)
	s.engine.start(s.running, "watchmarks", s.watchMarks)
	s.engine.start(s.running, "exchange", s.hurry)
}

// send moves what other nodes own from a page's batch to the outboxes. It is part of the page's transaction.
func (s *clusterStage) send(b *admit.Batch, tx *transaction) error {
	if !s.on() {
		return nil
	}
	own := b.Tuples[:0]
	sent := int64(0)
	for i, t := range b.Tuples {
		node := int(b.Nodes[i])
		if node == s.node {
			own = append(own, t)
			continue
		}
		sent++
		if err := s.outboxes[node].AddLink(uint64(t.Key), t.Aux); err != nil {
			return err
		}
	}
	b.Tuples = own
	edges := int64(0)
	for i := range b.Away {
		e := &b.Away[i]
		if s.budgets.recentEdge(e.Edge) {
			continue // an earlier transaction has sent it
		}
		edges++
		if err := s.outboxes[e.Node].AddEdge(e.From, e.To); err != nil {
			return err
		}
	}
	for _, key := range b.Extended {
		for _, o := range s.outboxes {
			if o != nil {
				if err := o.AddScope(key); err != nil {
					return err
				}
			}
		}
	}
	tx.count(state.CountLinksSent, sent)
	tx.count(state.CountEdgesSent, edges)
	return nil
}

// readStream takes the messages of this node's stream. It waits for an engine that is away as long as it takes.
func (s *clusterStage) readStream(ctx context.Context) error {
	for ctx.Err() == nil {
		s.txLock.RLock()
		seq, epoch := s.intake.Seq, s.intake.Epoch
		s.txLock.RUnlock()
		r, err := s.opt.Cluster.Engine.Read(ctx, s.node, seq+1)
		if err != nil {
			sleep(ctx, engineEvery)
			continue
		}
		if st := r.Stream(); st.Epoch != epoch || st.Last < seq {
			if seq > 0 { // another stream, or one that has lost its end: its numbers begin anew
				r.Close()
				err := s.transact(func(*transaction) error {
					s.intake.Epoch, s.intake.Seq = st.Epoch, 0
					return nil
				})
				if err != nil {
					return err
				}
				continue
			}
			if err := s.transact(func(*transaction) error { s.intake.Epoch = st.Epoch; return nil }); err != nil {
				r.Close()
				return err
			}
		}
		err = s.takeAll(ctx, r)
		r.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// engineEvery is the pause after an error of the engine.
const engineEvery = time.Second

// takeAll takes messages until the reader ends.
func (s *clusterStage) takeAll(ctx context.Context, r exchange.Reader) error {
	for {
		for s.space.pausing() != "" {
			if !sleep(ctx, spaceEvery) {
				return nil
			}
		}
		msg, err := r.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				sleep(ctx, engineEvery)
			}
			return nil
		}
		if err := s.take(&msg); err != nil {
			return err
		}
	}
}

// take takes one message. Bytes that no node of this crawl has sent are refused and counted.
func (s *clusterStage) take(msg *exchange.Message) error {
	h, err := exchange.ReadHeader(msg.Data)
	verdict := exchange.Skip
	if err == nil && h.From != msg.From {
		err = fmt.Errorf("crawl: %w: node %d has sent a message of node %d", exchange.ErrMessage, msg.From, h.From)
	}
	if err == nil {
		s.txLock.RLock()
		verdict, err = s.intake.Judge(&h, s.opt.Cluster.Crawl, s.node)
		s.txLock.RUnlock()
	}
	if err == nil && verdict == exchange.Take {
		s.inlet.Reset()
		err = s.decoder.Records(msg.Data, &h, s.inlet)
	}
	switch {
	case errors.Is(err, exchange.ErrMessage):
		s.opt.Log.Error("a message of another node is refused", "node", msg.From, "error", err)
		s.wants(msg.From)
		verdict = exchange.Skip
	case err != nil:
		return err
	case verdict == exchange.Hole:
		s.holes.Add(1)
		s.wants(h.From)
	case verdict == exchange.Skip:
		s.skipped.Add(1)
	}
	return s.transact(func(tx *transaction) error {
		s.testHook("intake")
		s.intake.Seq = msg.Seq
		if verdict != exchange.Take {
			tx.nothing = true
			return nil
		}
		s.intake.Taken[h.From] = exchange.Taken{Number: h.Number, Totals: h.After}
		s.taken.Add(1)
		return s.seen.takeLinks(s.inlet, tx)
	})
}

// wants asks a node to send again what was not taken.
func (s *clusterStage) wants(from int) {
	if from < 0 || from >= s.nodes || from == s.node {
		return
	}
	s.markMu.Lock()
	again := time.Since(s.wanted[from]) >= wantEvery
	if again {
		s.want[from]++
		s.wanted[from] = time.Now()
	}
	s.markMu.Unlock()
	if again {
		s.wakeMark.raise()
	}
}

// wantEvery bounds how often a node asks another to send everything again: each message after a gap would ask.
const wantEvery = 5 * time.Second

// takeLinks sends the records of a message to URLseen, the store of names and STAR. It is part of a transaction.
func (s *seenStage) takeLinks(in *admit.Inlet, tx *transaction) error {
	for _, key := range in.Scopes {
		s.links.Sites.Extend(key)
	}
	tx.count(state.CountLinksTaken, int64(len(in.Tuples)))
	if s.drains() {
		tx.count(state.CountLinksDraining, int64(len(in.Tuples)))
		return nil
	}
	if len(in.Tuples) > 0 {
		if err := s.urlSeen.Add(in.Tuples); err != nil {
			return err
		}
		tx.count(state.CountLinksChecked, int64(len(in.Tuples)))
		s.seenMeter.added.Add(int64(len(in.Tuples)))
		s.seenMeter.text.Add(in.Text)
		tx.wake(s.merges)
	}
	if err := s.sendNames(&in.Names, tx); err != nil {
		return err
	}
	tx.count(state.CountEdgesTaken, int64(len(in.Edges)))
	if len(in.Edges) == 0 {
		return nil
	}
	return s.budgets.addEdges(in.Edges)
}

// freeze copies the state of the exchange. Only here is known whether the crawl has nothing left to do at the
// moment of the checkpoint.
func (s *clusterStage) freeze(m *moment) {
	if !s.on() {
		return
	}
	in := s.intake
	in.Taken = slices.Clone(in.Taken)
	m.intake, m.idle, m.outs = &in, s.doneHere(), s.outs()
}

// outs returns how many records were added to each outbox.
func (s *clusterStage) outs() []int64 {
	outs := make([]int64, s.nodes)
	for node, o := range s.outboxes {
		if o != nil {
			f := o.Figures()
			outs[node] = f.Added.Records()
		}
	}
	return outs
}

// flush ends the open messages, so that the checkpoint that follows covers all records.
func (s *clusterStage) flush() error {
	if !s.on() {
		return nil
	}
	return s.transact(func(tx *transaction) error {
		tx.nothing = true
		for _, o := range s.outboxes {
			if o != nil {
				if err := o.Flush(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// checkpointed tells the other nodes, and this node's publishers, of a durable checkpoint.
func (s *clusterStage) checkpointed(gen uint64, m *moment) {
	if !s.on() {
		return
	}
	s.noteMark(gen, m)
	for _, p := range s.publishers {
		if p != nil {
			p.Wake()
		}
	}
}

// end tells the other nodes that this one has found the crawl to be over. They conclude it on their own, too, unless the
// broker loses the marks.
func (s *clusterStage) end(ctx context.Context) {
	if !s.on() {
		return
	}
	s.markMu.Lock()
	mark := *s.mark
	mark.Want, mark.Done = slices.Clone(s.want), true
	covered := s.marked
	s.markMu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellPatience)
	defer cancel()
	for {
		err := s.putMark(ctx, &mark, covered)
		if err == nil {
			s.awaitEnd(ctx)
			return
		}
		if !sleep(ctx, engineEvery) {
			s.opt.Log.Warn("the other nodes were not told that the crawl is over: if they wait for this node, start it again",
				"error", err)
			return
		}
	}
}

// awaitEnd waits until the other nodes have found that the crawl is over, or ctx ends: the broker may be in this process.
func (s *clusterStage) awaitEnd(ctx context.Context) {
	for node := 0; node < s.nodes; {
		v, err := s.opt.Cluster.Engine.Get(ctx, exchange.BucketCrawl, exchange.MarkKey(node))
		if err == nil {
			var m *exchange.Mark
			if m, err = exchange.DecodeMark(v.Key, v.Data, s.nodes); err == nil && m.Done {
				node++
				continue
			}
		}
		if !sleep(ctx, engineEvery) {
			return
		}
	}
}

// tellPatience is how long a node that has ended waits for the engine.
const tellPatience = 30 * time.Second

// noteMark makes the mark of a durable checkpoint.
func (s *clusterStage) noteMark(gen uint64, m *moment) {
	if m.intake == nil {
		return
	}
	mark := &exchange.Mark{Node: s.node, Checkpoint: gen, Table: s.opt.Cluster.Table.Sum(), Idle: m.idle,
		Taken: m.intake.Taken, Out: m.outs}
	s.markMu.Lock()
	s.mark, s.marked = mark, *m.intake
	s.markMu.Unlock()
	s.wakeMark.raise()
}

// putMarks writes the mark of each checkpoint, and then drops what it covers from the stream. It writes the last
// one again from time to time, in case the broker has lost it.
func (s *clusterStage) putMarks(ctx context.Context) error {
	for ctx.Err() == nil {
		s.markMu.Lock()
		var mark exchange.Mark
		have, covered := s.mark != nil, s.marked
		if have {
			mark = *s.mark
			mark.Want = slices.Clone(s.want)
		}
		s.markMu.Unlock()
		if have {
			if err := s.putMark(ctx, &mark, covered); err != nil {
				s.opt.Log.Debug("writing the mark waits", "error", err)
				sleep(ctx, engineEvery)
				continue
			}
		}
		s.await(ctx, s.wakeMark, wakeAfter)
	}
	return nil
}

func (s *clusterStage) putMark(ctx context.Context, mark *exchange.Mark, covered exchange.Intake) error {
	data, err := mark.Encode()
	if err != nil {
		return err
	}
	e := s.opt.Cluster.Engine
	if _, err := e.Put(ctx, exchange.BucketCrawl, exchange.MarkKey(s.node), data); err != nil {
		return err
	}
	s.marks[s.node].Store(mark)
	s.wakeWatch.raise()
	if covered.Seq == 0 {
		return nil
	}
	s.txLock.RLock()
	same := s.intake.Epoch == covered.Epoch
	s.txLock.RUnlock()
	if !same {
		return nil // the numbers are those of a stream that is gone
	}
	return e.Purge(ctx, s.node, covered.Seq+1)
}

// watchMarks follows the marks of the other nodes.
func (s *clusterStage) watchMarks(ctx context.Context) error {
	for ctx.Err() == nil {
		w, err := s.opt.Cluster.Engine.Watch(ctx, exchange.BucketCrawl, exchange.MarkPattern)
		if err != nil {
			sleep(ctx, engineEvery)
			continue
		}
		err = s.followMarks(ctx, w)
		w.Close()
		if err != nil {
			return err
		}
		sleep(ctx, engineEvery)
	}
	return nil
}

func (s *clusterStage) followMarks(ctx context.Context, w exchange.Watcher) error {
	for {
		v, ok, err := w.Next(ctx)
		if err != nil {
			return nil
		}
		if !ok || v.Deleted {
			continue
		}
		m, err := exchange.DecodeMark(v.Key, v.Data, s.nodes)
		if err != nil {
			s.opt.Log.Error("a mark of another node is refused", "error", err)
			continue
		}
		if m.Table != s.opt.Cluster.Table.Sum() {
			return fmt.Errorf("crawl: node %d has another table of owners than this node: %w", m.Node, state.ErrIncompatible)
		}
		s.marks[m.Node].Store(m)
		if p := s.publishers[m.Node]; p != nil {
			p.Mark(m)
		}
		s.wakeWatch.raise()
	}
}

// concluded reports whether the crawl is over on all nodes. This node has nothing left to do.
func (s *clusterStage) concluded() bool {
	if !s.on() {
		return true
	}
	s.idle.Store(true)
	s.wakeEarly.raise()
	marks := make([]*exchange.Mark, s.nodes)
	for node := range marks {
		marks[node] = s.marks[node].Load()
	}
	return exchange.Over(marks)
}

// Bounds of the checkpoints that the exchange asks for: a record can be published only after one.
const (
	hurryEvery = 2 * time.Second
	hurryBytes = 64 << 20
)

// hurry makes a checkpoint early if much waits to be published, or if this node has nothing left to do and its
// mark does not say so.
func (s *clusterStage) hurry(ctx context.Context) error {
	for sleep(ctx, hurryEvery) {
		s.await(ctx, s.wakeEarly, hurryEvery)
		idle := s.idle.Swap(false)
		var waiting, bytes int64
		for _, o := range s.outboxes {
			if o != nil {
				f := o.Figures()
				waiting += int64(f.Last-f.Durable) + f.OpenBytes
				bytes += f.OpenBytes
				if f.Last > f.Durable {
					bytes += f.Bytes
				}
			}
		}
		m := s.marks[s.node].Load()
		short := s.acct.in(state.PlaceReady, state.PlaceRAM) < int64(s.opt.Connections)
		switch {
		case bytes >= hurryBytes, waiting > 0 && (idle || short):
		case idle && (m == nil || !m.Idle || s.checkpointer.unsaved()):
		default:
			continue
		}
		if err := s.checkpointer.checkpoint(false, ""); err != nil {
			return err
		}
	}
	return nil
}
