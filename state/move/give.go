package move

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/health"
	"drumbeat/internal/human"
	"drumbeat/polite"
	"drumbeat/robots"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/repair"
	"drumbeat/weburl"
)

// Give moves slots from one node, whose crawl rests, to others, which run. It writes the next state of the node beside
// the old one: its stores without these slots, and outboxes that have the content of the slots behind their messages.
// One journal makes both the node's state. So the slots are in the outboxes, or nothing has changed. The outboxes keep
// their records until the takers have them.
//
// The queues of BEAST are most of the bytes. Give only makes their records unsifted: the crawl sends those of the
// slots when it runs again (crawl/budgets, beast.State.Sift). The record MovedEnd follows them.

// GiveOptions describe what a node gives.
type GiveOptions struct {
	FS           disk.FS
	Dirs         []string
	Crawl        uint64 // cluster.File.Key
	Before, Next *cluster.Table
	Change       *cluster.TableChange // describes Next
	RAMBytes     int64                // 0 means 256 MiB
}

// GiveReport says what was given.
type GiveReport struct {
	Slots    int
	Given    cluster.MovedSums // without what is in BEAST
	Takers   []int
	Messages uint64 // that carry it
}

// ErrRefused means that slots cannot leave the node. Nothing has changed. It comes wrapped.
var ErrRefused = errors.New("the slots stay")

// giveForm is the file state/GIVE: a Give is under way, or committed.
type giveForm struct {
	Committed bool `json:"committed"`
	Change    int  `json:"change"` // its number
}

const giveMagic = "drumbeat-give"

// Give gives slots. The caller runs FinishGive first.
func Give(opt GiveOptions) (rep *GiveReport, err error) {
	if opt.RAMBytes == 0 {
		opt.RAMBytes = defaultRAM
	}
	r, man, err := audit.Open(&audit.Options{FS: opt.FS, Dirs: opt.Dirs})
	if r != nil {
		defer func() { err = errors.Join(err, r.Unlock()) }()
	}
	if err != nil {
		return nil, err
	}
	g := newGiver(&opt, r, man)
	defer func() { err = errors.Join(err, g.n.closeStores(), g.closeRemotes()) }()
	if err := g.check(); err != nil {
		return nil, err
	}
	if err := writeGive(r, giveForm{Change: opt.Change.Moves}); err != nil {
		return nil, err
	}
	if err := g.build(); err != nil {
		if !errors.Is(err, disk.ErrCrashed) {
			err = errors.Join(err, repair.Abandon(r), removeGive(r))
		}
		return nil, err
	}
	if err := writeGive(r, giveForm{Committed: true, Change: opt.Change.Moves}); err != nil {
		return nil, err
	}
	if err := repair.Commit(r); err != nil {
		return nil, err
	}
	return g.report(), removeGive(r)
}

// FinishGive finishes or undoes a Give that was interrupted. The directories need not be those of a crawl.
func FinishGive(fsys disk.FS, dirs []string) error {
	if len(dirs) == 0 {
		return nil
	}
	data, err := disk.ReadFile(fsys, path.Join(dirs[0], state.GiveName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var form giveForm
	if err == nil {
		err = state.Unseal(giveMagic, state.GiveName, data, &form)
	}
	if err != nil {
		return fmt.Errorf("move: %w", err)
	}
	r, _, err := audit.Open(&audit.Options{FS: fsys, Dirs: dirs, Repairing: true})
	if r == nil {
		return err
	}
	if len(r.Locks) < len(dirs) || r.Set.Len() == 0 {
		return errors.Join(err, r.Unlock())
	}
	if form.Committed {
		err = repair.Commit(r)
	} else {
		err = repair.Abandon(r)
	}
	if err == nil {
		err = removeGive(r)
	}
	return errors.Join(err, r.Unlock())
}

func writeGive(r *state.Saved, form giveForm) error {
	data, err := state.Seal(giveMagic, form)
	if err != nil {
		return err
	}
	return disk.WriteFileAtomic(r.Set.FS, r.Set.Path(0, state.GiveName), data)
}

func removeGive(r *state.Saved) error {
	name := r.Set.Path(0, state.GiveName)
	if err := r.Set.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("move: %w", err)
	}
	return r.Set.FS.SyncDir(path.Dir(name))
}

// giver is the state of one Give.
type giver struct {
	*mover
	give *GiveOptions
	n    *node   // the giver
	to   []*node // the takers
	sums cluster.MovedSums
}

func newGiver(opt *GiveOptions, r *state.Saved, man *state.Manifest) *giver {
	self := man.Frozen.Node
	part := cluster.Part(opt.Before, opt.Next, self) // the slots of other givers are still theirs
	m := &mover{sifts: true, opt: &Options{RAMBytes: opt.RAMBytes}, file: &cluster.File{Table: opt.Before},
		next: &cluster.File{Table: part}, rep: &Report{}}
	g := &giver{mover: m, give: opt}
	none := new(cluster.Loads) // of nodes that get nothing
	for number := range opt.Next.Nodes() {
		n := &node{number: number, counted: none, loads: map[int]bool{}, owns: state.SlotsOf(part, number)}
		n.setVisits(r.Hasher, part)
		n.hostsCome = state.SlotSet(cluster.HostsCome(opt.Before, part, number))
		if number == self {
			n.saved, n.m, n.gives, n.counted = r, man, true, new(cluster.Loads)
			g.n = n
		} else {
			n.remote = &remote{g: g, to: number}
		}
		m.nodes = append(m.nodes, n)
	}
	g.setGifts()
	return g
}

// check refuses what cannot move.
func (g *giver) check() error {
	fr := &g.n.m.Frozen
	if !g.give.Change.Gives(fr.Node) || fr.Table != g.give.Before.Sum() || fr.Nodes != g.give.Before.Nodes() {
		return fmt.Errorf("move: the directories are those of node %d of %d, with another table: %w", fr.Node, fr.Nodes,
			state.ErrIncompatible)
	}
	if len(g.n.m.Next) > 0 {
		return fmt.Errorf("move: %w: other slots are on their way to this node", ErrRefused)
	}
	takers := cluster.Takers(g.give.Before, g.next.Table)
	if err := g.n.check(g.give.Before, len(g.give.Change.Givers) > 0); err != nil {
		if errors.Is(err, state.ErrIncompatible) {
			return fmt.Errorf("move: %w: %w", ErrRefused, err)
		}
		return err
	}
	for _, to := range takers {
		g.nodes[to].loads[g.n.number] = true
		g.nodes[to].gets, g.nodes[to].counted = true, new(cluster.Loads)
		g.to = append(g.to, g.nodes[to])
	}
	return nil
}

// build writes the next state.
func (g *giver) build() error {
	n := g.n
	var err error
	if n.shadow, err = repair.NewShadow(n.saved, n.m, 4*(g.opt.RAMBytes/numStores)); err != nil {
		return err
	}
	if err := n.shadow.CopyTails(); err != nil {
		return err
	}
	next := &n.shadow.Next
	next.Frozen.Table, next.Frozen.Slots = g.give.Next.Sum(), n.owns
	next.Leaving = &state.Leaving{Change: g.give.Change.Moves, SeedsDone: n.m.Seeds.Done}
	if next.Table, err = g.give.Change.Encode(); err != nil {
		return err
	}
	if err := g.openRemotes(); err != nil {
		return err
	}
	g.each = g.giveEntry
	steps := []func(n *node) error{g.giveTails, g.fill, g.flush, g.places, g.waits, g.writeTails, g.end, g.save}
	for _, step := range steps {
		if err := step(n); err != nil {
			return err
		}
	}
	a, was := &next.Accounts, &n.m.Accounts
	a.Given.Add(&g.sums)
	moved := was.Moved
	moved.Merge(g.sums.Known)
	moved.Remove(g.sums.Waiting)
	passed := n.passedOn
	moved.Remove(passed)
	if a.Moved != moved {
		return fmt.Errorf("BUG: move: %s moved by the places, %d by the records",
			human.Counted(a.Moved.N, "URL has", "URLs have"), moved.N)
	}
	return n.shadow.Prepare()
}

// giveTails gives the hosts' delays, health and trap scores: they come before any URL.
func (g *giver) giveTails(n *node) error {
	if err := g.tails(n); err != nil {
		return err
	}
	sites, err := admit.ReadSites(n.saved.Set, n.m.Scope)
	if err != nil {
		return err
	}
	for _, to := range g.to {
		for _, key := range sites { // a taker that has joined since they joined the scope does not know them
			if err := to.remote.out.AddScope(key); err != nil {
				return err
			}
		}
		for _, order := range to.orders.coded {
			if err := to.remote.moved(cluster.MovedOrder, append([]byte{0}, order...)); err != nil {
				return err
			}
		}
		for ; len(to.health) > 0; to.health = to.health[min(len(to.health), healthAtOnce):] {
			part := to.health[:min(len(to.health), healthAtOnce)]
			if err := to.remote.moved(cluster.MovedHealth, health.DumpHosts(part)); err != nil {
				return err
			}
		}
		for _, t := range []struct {
			kind cluster.MovedKind
			data []byte
			size int
		}{{cluster.MovedTraps, to.traps, trapBytes}, {cluster.MovedDelays, to.delays, polite.DelayBytes}} {
			for data := t.data; len(data) > 0; {
				part := data[:min(len(data), t.size*tailsAtOnce)]
				data = data[len(part):]
				if err := to.remote.moved(t.kind, part); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// flush ends the records of entries: links come after them.
func (g *giver) flush(*node) error {
	for _, to := range g.to {
		if err := to.remote.flush(); err != nil {
			return err
		}
	}
	return nil
}

// giveEntry gives an entry of a store to the takers of it.
func (g *giver) giveEntry(store int, key drum.Key, value []byte) error {
	if store == storeSeen {
		if to := g.owner(uint64(key)); to.gets {
			return to.remote.known(uint64(key))
		}
		return nil
	}
	if err := g.giveHosts(store, key, value); err != nil {
		return err
	}
	if store == storeIndegree && g.give.Before.Owner(uint64(key)) != g.n.number {
		return nil // the owner of the divided PLD has counts of its own
	}
	for _, to := range g.to {
		took, is, err := to.takes(store, g.n, key, value)
		if err == nil && is {
			err = to.remote.entry(store, key, took)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// end ends what each taker gets now.
func (g *giver) end(n *node) error {
	leaving := n.shadow.Next.Leaving
	leaving.Slots = state.SlotSet(cluster.HostsCome(g.give.Before, g.next.Table, -1))
	for slot := range cluster.Slots {
		if g.give.Before.OwnerOf(slot) != g.next.Table.OwnerOf(slot) {
			leaving.Slots.Set(slot)
		}
	}
	for _, to := range g.to {
		r := to.remote
		if err := r.flush(); err != nil {
			return err
		}
		g.sums.Add(&r.sums)
		for slot := range to.counted.Slots {
			if l := &to.counted.Slots[slot]; l.Pages != 0 || l.Bytes != 0 {
				if err := r.moved(cluster.MovedLoad, cluster.AppendMovedLoad(nil, slot, l)); err != nil {
					return err
				}
			}
		}
		leaving.To = append(leaving.To, state.LeavingPart{Node: to.number, Sums: r.sums})
		if err := r.save(); err != nil {
			return err
		}
	}
	return nil
}

func (g *giver) report() *GiveReport {
	rep := &GiveReport{Given: g.sums}
	for slot := range cluster.Slots {
		if g.give.Before.OwnerOf(slot) != g.next.Table.OwnerOf(slot) {
			rep.Slots++
		}
	}
	for _, to := range g.to {
		rep.Takers = append(rep.Takers, to.number)
		rep.Messages += to.remote.messages
	}
	return rep
}

func (g *giver) openRemotes() error {
	for _, to := range g.to {
		if err := to.remote.open(); err != nil {
			return err
		}
	}
	return nil
}

func (g *giver) closeRemotes() error {
	var errs []error
	for _, to := range g.to {
		if to.remote.out != nil {
			errs = append(errs, to.remote.out.Close())
		}
	}
	return errors.Join(errs...)
}

// remote is a node that gets slots while it runs: what it gets goes to the outbox for it.
type remote struct {
	g        *giver
	to       int
	out      *cluster.Outbox
	sums     cluster.MovedSums
	messages uint64
	keys     []byte // of URLs, not yet in a record
	edges    []byte
}

// trapBytes is the size of a host's trap score (internal/trapscore).
const trapBytes = 12

// How much goes into one record: far below the size of a message.
const (
	keysAtOnce   = 1 << 10
	healthAtOnce = 256
	tailsAtOnce  = 512
)

func (r *remote) name() string { return state.OutboxName(r.to) }

// open opens the outbox of the next state, with the messages of the present one.
func (r *remote) open() error {
	n := r.g.n
	old, err := state.Part[cluster.OutboxState](n.m, r.name())
	if err != nil {
		return err
	}
	if old == nil {
		return fmt.Errorf("the manifest has no outbox for node %d: %w", r.to, state.ErrIncompatible)
	}
	key := cluster.CrawlKey(r.g.give.Crawl, n.m.Intake.Incarnation)
	if r.out, err = n.shadow.NewOutbox(r.name(), cluster.OutboxOptions{Crawl: key, From: n.number, To: r.to,
		Version: func() int { return cluster.MovedVersion }}, old.Empty()); err != nil {
		return err
	}
	if err := r.out.Adopt(n.saved.Set, r.name(), old); err != nil {
		return err
	}
	r.messages = old.Last
	change, err := r.g.give.Change.Encode()
	if err != nil {
		return err
	}
	return r.moved(cluster.MovedBegin, change)
}

// save ends the messages, and names them in the next state.
func (r *remote) save() error {
	if err := r.out.Flush(); err != nil {
		return err
	}
	w := r.g.n.shadow
	st, err := r.out.Freeze().Save(w.Tails)
	if err != nil {
		return err
	}
	r.messages = st.Last - r.messages
	err = r.out.Close()
	r.out = nil
	if err != nil {
		return err
	}
	return repair.RemakePart(w, r.name(), func(_, next *cluster.OutboxState) error {
		*next = *st
		return nil
	})
}

// moved adds a record.
func (r *remote) moved(kind cluster.MovedKind, data []byte) error {
	if r.out == nil {
		return fmt.Errorf("move: a record belongs to node %d, which gets no slot: %w", r.to, state.ErrIncompatible)
	}
	return r.out.AddMoved(kind, data)
}

// flush writes keys and edges.
func (r *remote) flush() error {
	if len(r.keys) > 0 {
		if err := r.moved(cluster.MovedKeys, r.keys); err != nil {
			return err
		}
	}
	if len(r.edges) > 0 {
		if err := r.moved(cluster.MovedEdges, r.edges); err != nil {
			return err
		}
	}
	r.keys, r.edges = r.keys[:0], r.edges[:0]
	return nil
}

// entry gives an entry of a store.
func (r *remote) entry(store int, key drum.Key, value []byte) error {
	switch store {
	case storeEdges:
		return r.edge(key, value)
	case storeIndegree:
		return r.moved(cluster.MovedPLD, keyed(uint64(key), value))
	case storeNames:
		return r.moved(cluster.MovedName, keyed(uint64(key), value))
	}
	return r.moved(cluster.MovedRobots, append(robots.AppendUpdateHead(keyed(uint64(key), nil), robots.UpdateArrived,
		time.Now()), value...))
}

// known gives a key of URLseen.
func (r *remote) known(key uint64) error {
	r.sums.Known.Add(key)
	r.keys = binary.LittleEndian.AppendUint64(r.keys, key)
	if len(r.keys) < 8*keysAtOnce {
		return nil
	}
	return r.flush()
}

func (r *remote) edge(key drum.Key, value []byte) error {
	e, err := star.EdgeOf(key, value)
	if err != nil {
		return err
	}
	r.edges = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(r.edges, e.From), e.To)
	if len(r.edges) < 8*keysAtOnce {
		return nil
	}
	return r.flush()
}

// keyed returns a key and a value as one record.
func keyed(key uint64, value []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(make([]byte, 0, 8+len(value)), key), value...)
}

// url gives a URL that waits.
func (r *remote) url(key uint64, rec *weburl.Record, again bool) error {
	r.sums.Waiting.Add(key)
	r.g.n.counted.Slots[weburl.SlotOf(key)].Waiting--
	return r.moved(cluster.MovedURL, cluster.AppendMovedURL(nil, rec, again))
}

// visit gives a URL that waits for its next visit.
func (r *remote) visit(key uint64, data []byte) error {
	r.sums.Waiting.Add(key)
	r.g.n.counted.Slots[weburl.SlotOf(key)].Waiting--
	return r.moved(cluster.MovedVisit, data)
}

// order gives an enqueued URL that waits.
func (r *remote) order(o *state.Order, record []byte) error {
	if o.Own {
		r.sums.Waiting.Add(o.Key)
	}
	r.g.n.counted.Slots[weburl.SlotOf(o.Key)].Waiting--
	o.Visits = record
	return r.moved(cluster.MovedOrder, state.AppendMovedOrder(nil, o))
}

// add gives a tuple that waits in a store.
func (r *remote) add(store int, t drum.Tuple) error {
	switch store {
	case storeSeen:
		if key, ok := state.MovedKey(t.Aux); ok {
			return r.known(key)
		}
		if err := r.flush(); err != nil { // links come after the keys
			return err
		}
		return r.moved(cluster.MovedLink, t.Aux)
	case storeEdges:
		return r.edge(t.Key, t.Value)
	case storeIndegree:
		if t.Op&drum.Check == 0 {
			return r.counts(t)
		}
		var rec weburl.Record
		if err := rec.Decode(t.Aux); err != nil {
			return err
		}
		return r.url(r.g.n.saved.Hasher.URLKey(rec.URL), &rec, star.CheckedBefore(t.Value))
	case storeNames:
		return r.moved(cluster.MovedName, keyed(uint64(t.Key), t.Value))
	}
	return r.moved(cluster.MovedRobots, keyed(uint64(t.Key), t.Value))
}

// counts gives an update of a PLD's counts. In-degrees come with the edges.
func (r *remote) counts(t drum.Tuple) error {
	var p star.PLD
	p.FirstSeen = 1<<32 - 1
	p.Update(t.Value)
	p.Indegree = 0
	return r.moved(cluster.MovedPLD, keyed(uint64(t.Key), p.Append(nil)))
}
