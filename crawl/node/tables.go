package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/state"
)

// tables follows the table of owners while it changes (docs/contribute/cluster-design.md). A node does not change its
// table while it runs: the run ends, the state changes on disk, and the next run begins in the same process. tables
// decides when. Its goroutines are "table" and "watchtable"; the other methods are safe for concurrent use.
//
// The givers of a change go first, a few at a time: when a giver runs again, the content of its slots is in its
// outboxes, and it sends on what comes for them. A taker follows when it has taken all of it. The others follow when
// the marks of the givers and the takers say that they have. So a node that owns slots by the table of any node has
// them, or they are on their way in front of each record for them. A taker passes records for slots of a giver on to
// that giver, unless they come from it: a giver that has the table sends them to the taker, the other ones take them.
type tables struct {
	run   *account.Run
	saved *state.Saved
	opt   *Options
	heard *heard
	gone  *abandoned
	// leaving are slots that leave this node. Until their URLs have left, no others do.
	leaving *leaving
	come    func(state.Slots)          // more slots are on their way to this node: these now
	rest    func()                     // ends the run, so that the table can change
	fits    func(*cluster.Table) error // the limits of this node are enough for that table
	told    time.Time                  // when the goroutine "table" last said why it does not take a table
	began   time.Time                  // when this run began
	wake    account.Signal
	once    sync.Once
	marked  <-chan struct{} // closed when the broker's marks are known
	// listed is closed when the broker's table is known: before that a mark of a later table would look like that of
	// another cluster.
	listed chan struct{}

	mu       sync.Mutex // guards the fields below
	moves    []int      // by node: Moves of the last mark, of any table
	reads    []int      // by node: Reads of the last mark; 0: not known
	next     *cluster.TableChange
	table    *cluster.Table // of next
	revision uint64         // of the value next
	turn     *Turn
	arrival  arrival // changes in transactions

	cannotGive atomic.Pointer[string] // why this node does not give its slots though others have

	partAt atomic.Int64 // when the last part of slots came, at the earliest the start of the run; 0: none has
}

// Turn says how the table changes between two runs.
type Turn struct {
	Change *cluster.TableChange
	Table  *cluster.Table
	Give   bool // this node gives slots
}

func (t *tables) restore(m *state.Manifest) error {
	if m == nil || len(m.Next) == 0 || t.opt.Adopt {
		return nil
	}
	change, next, err := cluster.DecodeTableChange(m.Next)
	if err != nil {
		return err
	}
	t.partAt.Store(time.Now().UnixNano())
	t.arrival = arrival{change: change, next: next, slots: m.Arriving, from: m.ArrivedFrom,
		arrived: m.Arrived, seedsAgain: m.SeedsAgain}
	return nil
}

// saveTo puts the tables into a manifest, with the slots that moved here at its moment.
func (t *tables) saveTo(m *state.Manifest, a arrival) error {
	var err error
	change := t.opt.Change
	if change == nil && t.opt.Table.Divided() { // a new crawl with the file of another one; an audit needs the table
		change = cluster.NewTableChange(cluster.ChangeGrow, nil, t.opt.Table, t.opt.Node, "file")
	}
	if change != nil {
		if m.Table, err = change.Encode(); err != nil {
			return err
		}
	}
	if a.change == nil {
		return nil
	}
	m.Arriving, m.ArrivedFrom, m.Arrived, m.SeedsAgain = a.slots, a.from, a.arrived, a.seedsAgain
	m.Next, err = a.change.Encode()
	return err
}

// arrived reports whether slots have come, and the run must end before it takes anything else.
func (t *tables) arrived() bool { return t.arriving().arrived }

// arriving returns the slots that move here.
func (t *tables) arriving() arrival {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.arrival
}

// arrive changes the slots that move here. It is part of a transaction.
func (t *tables) arrive(change func(arrival) arrival) {
	t.mu.Lock()
	t.arrival = change(t.arrival)
	t.mu.Unlock()
}

// changing reports whether the table is to change, so that the crawl cannot be over.
func (t *tables) changing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.turn != nil || t.arrival.change != nil ||
		t.next != nil && t.next.Moves > t.opt.Table.Moves() && t.next.Refused == "" &&
			!t.allGone(t.next.GiverList()) // slots of abandoned givers come no more
}

// coming reports whether slots are on their way to this node, or are to be given to it.
func (t *tables) coming() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.arrival.change != nil || t.next != nil && t.next.Kind == cluster.ChangeGive && t.next.Refused == "" &&
		t.next.Moves == t.opt.Table.Moves()+1 && !t.allGone(t.next.GiverList()) &&
		slices.Contains(cluster.Takers(t.opt.Table, t.table), t.opt.Node)
}

// neighbour reports whether a mark is of the table before this node's, which changed while the crawl ran, or of a later
// one that this node knows.
func (t *tables) neighbour(m *cluster.Mark) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.opt.Table.Moves()
	return m.Moves == own-1 && t.opt.Change != nil || m.Moves > own && t.next != nil && t.next.Moves >= m.Moves
}

// noteMark notes the table of a node's mark, and the version that it reads; 0: not known.
func (t *tables) noteMark(node, moves, reads int) {
	t.mu.Lock()
	changed := node >= 0 && node < len(t.moves) && (t.moves[node] != moves || t.reads[node] != reads)
	if changed {
		t.moves[node], t.reads[node] = moves, reads
	}
	t.mu.Unlock()
	if changed {
		t.wake.Raise()
	}
}

// follow ends the run when the table is to change here.
func (t *tables) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := t.giveUp(); err != nil {
			return err
		}
		turn, err := t.due(ctx)
		if err != nil {
			return err
		}
		if turn != nil {
			t.mu.Lock()
			t.turn = turn
			t.mu.Unlock()
			t.rest()
			return nil
		}
		t.run.Await(ctx, t.wake, account.WakeAfter)
	}
	return nil
}

// due returns the change that is due here; nil: none.
func (t *tables) due(ctx context.Context) (*Turn, error) {
	if a := t.arriving(); a.arrived {
		return turnOf(a.change)
	}
	t.mu.Lock()
	next, table, moves := t.next, t.table, slices.Clone(t.moves)
	t.mu.Unlock()
	own := t.opt.Table
	switch {
	case next == nil || next.Moves < own.Moves() || next.Moves == own.Moves() && table.Sum() == own.Sum():
		return nil, nil
	case next.Moves > own.Moves() && table.HasDeparted(t.opt.Node): // the table may have changed again since
		return &Turn{Change: next, Table: table}, nil
	case next.Moves == own.Moves(), next.Moves == own.Moves()+1 && next.Before != own.Sum():
		return nil, fmt.Errorf("crawl: two changes of the table of owners were made at once: the cluster has another "+
			"change %d: %w", next.Moves, state.ErrIncompatible)
	case next.Moves > own.Moves()+1:
		t.say("the table of owners of this node is older than the change before the last: was it set back?",
			fmt.Errorf("table %d, the cluster has %d", own.Moves(), next.Moves))
		return nil, nil
	case next.Kind == cluster.ChangeForget && next.Giver != t.opt.Node && !t.lost(next.Giver):
		return nil, nil // it may still visit its networks
	case next.Kind == cluster.ChangeGrow && !t.mayGrow(table):
		return nil, nil
	case next.Kind != cluster.ChangeGive:
		return &Turn{Change: next, Table: table}, nil
	case next.Refused != "":
		return nil, nil
	case next.Gives(t.opt.Node):
		return t.dueToGive(ctx, next, table, moves)
	}
	takers := cluster.Takers(own, table)
	if slices.Contains(takers, t.opt.Node) {
		return nil, nil // when its slots have come
	}
	for _, node := range append(takers, next.GiverList()...) {
		if moves[node] < next.Moves && !t.gone.has(node) {
			return nil, nil
		}
	}
	return &Turn{Change: next, Table: table}, nil
}

// dueToGive returns the turn in which this node, a giver, gives its slots; nil: not yet. The first giver, without those
// that were abandoned, may refuse the change. The others begin when it has given its slots; one that cannot give then
// tries again every giveAgain.
func (t *tables) dueToGive(ctx context.Context, next *cluster.TableChange, table *cluster.Table,
	moves []int) (*Turn, error) {
	has := func(node int) bool { return moves[node] >= next.Moves }
	givers := slices.DeleteFunc(slices.Clone(next.GiverList()), t.gone.has)
	rank, why := slices.Index(givers, t.opt.Node), ""
	for node := range t.opt.nodes() {
		if t.gone.has(node) && !t.gone.hasLeft(node) {
			why = fmt.Sprintf("node %d was abandoned (--give-up-node)", node)
		}
	}
	refused := t.opt.Refused != nil && t.opt.Refused.ID == next.ID
	if refused {
		why = t.opt.Refused.Refused
	}
	begun := slices.ContainsFunc(next.GiverList(), has)
	select {
	case <-t.marked:
	default:
		return nil, nil // a giver that has given may not be known yet
	}
	switch {
	case why != "" && rank == 0 && !begun:
		return nil, t.refuse(ctx, next, why)
	case refused && time.Since(t.began) < giveAgain:
		t.cannotGive.Store(&why)
		t.say("this node cannot give its slots, and others have given theirs: the change waits for it", errors.New(why))
		return nil, nil
	case rank > 0 && !begun, t.leaving.any():
		return nil, nil
	}
	ahead := slices.DeleteFunc(givers[:rank], has)
	if len(ahead) >= max(1, (len(moves)-len(t.opt.Table.Departed()))/giversPart) {
		return nil, nil
	}
	if node := t.earlier(next); node >= 0 {
		t.say("this node does not give its slots yet: another one has no mark, or runs a version that cannot take them",
			fmt.Errorf("node %d", node))
		return nil, nil
	}
	return &Turn{Change: next, Table: table, Give: true}, nil
}

// earlier returns a node that runs a program that cannot follow a change, or whose mark is not known; -1: none.
func (t *tables) earlier(c *cluster.TableChange) int {
	needs := cluster.MovedVersion
	if len(c.Givers) > 0 {
		needs = cluster.GiversVersion
	}
	if t.opt.Visits || t.run.Accounts.DeferredFor(state.ReasonRevisit) > 0 ||
		t.run.Accounts.Ordered() > 0 {
		needs = max(needs, cluster.VisitVersion)
	}
	if t.opt.Table.Divided() || len(c.Divided) > 0 {
		needs = cluster.DividedVersion
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for node, reads := range t.reads {
		if reads < needs && node != t.opt.Node && !t.gone.has(node) {
			return node
		}
	}
	return -1
}

// A giver rests while it divides its stores. One of giversPart nodes, at least one, does so at a time, so that nine of
// ten nodes fetch.
const (
	giversPart = 10
	giveAgain  = 5 * time.Minute // the operator makes room meanwhile, and each try is a rest
)

// allGone reports whether all nodes of a list were abandoned; false for an empty one.
func (t *tables) allGone(nodes []int) bool {
	return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(node int) bool { return !t.gone.has(node) })
}

// mayGrow reports whether the limits of this node are enough for one more node, and says so if they are not. Otherwise
// this node would end, and could not start again.
func (t *tables) mayGrow(table *cluster.Table) bool {
	err := t.fits(table)
	if err != nil {
		t.say("one more node is to join: start this one again with larger limits", err)
	}
	return err == nil
}

// say logs why this node does not take a table, at most every doubtLogEvery.
func (t *tables) say(text string, err error) {
	if now := time.Now(); now.Sub(t.told) >= doubtLogEvery {
		t.told = now
		t.opt.Log.Error(text, "error", err)
	}
}

// lost reports whether a node has said nothing for the time of a lease. One that has ended may start again.
func (t *tables) lost(node int) bool {
	at := t.heard.at[node].Load()
	return at == 0 || time.Since(time.Unix(0, at)) >= t.opt.LeaseTTL
}

func turnOf(c *cluster.TableChange) (*Turn, error) {
	data, err := c.Encode()
	if err != nil {
		return nil, err
	}
	_, table, err := cluster.DecodeTableChange(data)
	return &Turn{Change: c, Table: table}, err
}

// refuse writes the reason why this node does not give its slots into the change.
func (t *tables) refuse(ctx context.Context, next *cluster.TableChange, why string) error {
	t.mu.Lock()
	revision := t.revision
	t.mu.Unlock()
	c := *next
	c.Refused = fmt.Sprintf("node %d refuses to give its slots: %s", t.opt.Node, why)
	data, err := c.Encode()
	if err != nil {
		return err
	}
	if _, err := t.opt.Transport.Update(ctx, cluster.BucketCrawl, cluster.TableKey, data, revision); err != nil {
		t.opt.Log.Debug("waiting to refuse a change of the table", "error", err)
	}
	return nil
}

// watch follows the value of the table.
func (t *tables) watch(ctx context.Context) error {
	return follow(ctx, t.opt.Transport, cluster.TableKey, func(empty bool) {
		if empty {
			t.publish(ctx, 0)
		}
		t.once.Do(func() { close(t.listed) })
	}, func(v *cluster.Value) error {
		t.note(ctx, v)
		return nil
	})
}

// note takes a value of the table.
func (t *tables) note(ctx context.Context, v *cluster.Value) {
	if v.Deleted {
		t.publish(ctx, 0)
		return
	}
	c, table, err := cluster.DecodeTableChange(v.Data)
	if err == nil {
		err = table.CheckSlots(t.saved.Hasher)
	}
	if err != nil {
		t.opt.Log.Error("refused the table of owners of the cluster", "error", err)
		return
	}
	own := t.opt.Change
	if c.Moves < t.opt.Table.Moves() || own != nil && own.ID == c.ID && c.Refused != "" {
		t.publish(ctx, v.Revision) // the broker has lost the last one, or read a killed process's refusal late
		return
	}
	want := t.opt.nodes()
	if c.Kind == cluster.ChangeGrow {
		want++
	}
	if c.Moves == t.opt.Table.Moves()+1 && c.Nodes != want {
		t.opt.Log.Error("refused the table of owners of the cluster", "nodes", c.Nodes, "want", want)
		return
	}
	t.mu.Lock()
	t.next, t.table, t.revision = c, table, v.Revision
	t.mu.Unlock()
	t.wake.Raise()
}

// publish writes the table of this node, if it has changed while the crawl ran and the broker does not have it.
func (t *tables) publish(ctx context.Context, revision uint64) {
	if t.opt.Change == nil {
		return
	}
	data, err := t.opt.Change.Encode()
	if err == nil && revision == 0 {
		_, err = t.opt.Transport.Create(ctx, cluster.BucketCrawl, cluster.TableKey, data)
	} else if err == nil {
		_, err = t.opt.Transport.Update(ctx, cluster.BucketCrawl, cluster.TableKey, data, revision)
	}
	if err != nil && !errors.Is(err, cluster.ErrExists) {
		t.opt.Log.Debug("waiting to write the table of owners", "error", err)
	}
}
