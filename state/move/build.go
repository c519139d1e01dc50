package move

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/repair"
	"drumbeat/weburl"
)

// build writes the next state of all nodes, except their journals.
func (m *mover) build() error {
	changed := 0
	for _, n := range m.nodes {
		if n.gives || n.gets {
			changed++
		}
	}
	ram := m.opt.RAMBytes / int64(changed*numStores)
	for _, n := range m.nodes {
		var err error
		if n.shadow, err = repair.NewShadow(n.saved, n.m, 4*ram); err != nil { // a store takes a quarter
			return fmt.Errorf("move: node %d: %w", n.number, err)
		}
		if err := n.shadow.CopyTails(); err != nil {
			return fmt.Errorf("move: node %d: %w", n.number, err)
		}
		n.shadow.Next.Frozen.Table, n.shadow.Next.Frozen.Slots = m.next.Table.Sum(), n.owns
		if len(n.m.Table) > 0 { // the broker has a table, which must follow
			c := cluster.NewTableChange(cluster.ChangeGive, m.file.Table, m.next.Table, 0, "cluster move")
			if n.shadow.Next.Table, err = c.Encode(); err != nil {
				return err
			}
		}
	}
	steps := []func(n *node) error{m.fill, m.tails, m.places, m.waits, m.outboxes, m.writeTails, m.save}
	for _, step := range steps {
		for _, n := range m.nodes {
			if !n.gives && !n.gets {
				continue
			}
			if err := step(n); err != nil {
				return fmt.Errorf("move: node %d: %w", n.number, err)
			}
		}
	}
	return nil
}

// owner returns the node that owns the slot of a key of a URL, a host or an origin.
func (m *mover) owner(key uint64) *node { return m.nodes[m.next.Table.OwnerOf(weburl.SlotOf(key))] }

// ownerOf returns the node that owns a PLD, by its key.
func (m *mover) ownerOf(pld uint64) *node { return m.nodes[m.next.Table.Owner(pld)] }

// entry is an entry of a store.
type entry struct {
	key   drum.Key
	value []byte
}

// errStop ends a scan early.
var errStop = errors.New("stop")

// entries returns the entries of a store that take accepts, in the order of keys, with take's value. It sets
// fault if it ends early.
func entries(set disk.Set, name string, st *drum.State, take func(drum.Key, []byte) ([]byte, bool, error),
	fault *error) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		_, err := drum.ScanState(set, name, st.Cache(), drum.Scan{Entry: func(key drum.Key, value []byte) error {
			value, ok, err := take(key, value)
			if err != nil || !ok {
				return err
			}
			if !yield(entry{key, value}) {
				return errStop
			}
			return nil
		}})
		if err != nil && !errors.Is(err, errStop) {
			*fault = err
		}
	}
}

// merge calls add for the entries of all sources in the order of keys. Of equal keys, the first source's counts.
func merge(sources []iter.Seq[entry], add func(entry) error) error {
	if len(sources) == 1 { // without the cost of iter.Pull
		for e := range sources[0] {
			if err := add(e); err != nil {
				return err
			}
		}
		return nil
	}
	type head struct {
		entry
		next func() (entry, bool)
	}
	var heads []head
	for _, s := range sources {
		next, stop := iter.Pull(s)
		defer stop()
		if e, ok := next(); ok {
			heads = append(heads, head{e, next})
		}
	}
	for len(heads) > 0 {
		least := 0
		for i := range heads {
			if heads[i].key < heads[least].key {
				least = i
			}
		}
		key := heads[least].key
		if err := add(heads[least].entry); err != nil {
			return err
		}
		for i := 0; i < len(heads); i++ {
			if heads[i].key != key {
				continue
			}
			if e, ok := heads[i].next(); ok {
				heads[i].entry = e
			} else {
				heads = slices.Delete(heads, i, i+1)
				i--
			}
		}
	}
	return nil
}

// fill writes the caches of the stores of a node.
func (m *mover) fill(n *node) error {
	olds, err := n.old()
	if err != nil {
		return err
	}
	for i, opt := range storeOptions() {
		if n.stores[i], err = n.shadow.NewDrum(opt, olds[i]); err != nil {
			return err
		}
		var sources []iter.Seq[entry]
		var fault error
		for _, from := range m.nodes {
			if from != n && !n.loads[from.number] {
				continue
			}
			st, err := from.old()
			if err != nil {
				return err
			}
			take := func(key drum.Key, value []byte) ([]byte, bool, error) {
				if m.each != nil {
					if err := m.each(i, key, value); err != nil {
						return nil, false, err
					}
				}
				return n.takes(i, from, key, value)
			}
			sources = append(sources, entries(from.saved.Set, opt.Name, st[i], take, &fault))
		}
		if err := n.stores[i].Fill(func(add func(drum.Key, []byte) error) error {
			err := merge(sources, func(e entry) error {
				switch i {
				case storeSeen:
					n.unique.Add(uint64(e.key))
				case storeNames:
					n.names.Add(uint64(e.key))
				}
				return add(e.key, e.value)
			})
			return errors.Join(fault, err)
		}); err != nil {
			return err
		}
	}
	return nil
}

// takes reports whether the node takes an entry of a store of a node, which may be itself, and returns the entry's next
// value.
func (n *node) takes(store int, from *node, key drum.Key, value []byte) ([]byte, bool, error) {
	switch store {
	case storeEdges:
		e, err := star.EdgeOf(key, value)
		return value, err == nil && (n.owns.HasPLD(e.To) || from == n && n.visits[e.To]), err
	case storeIndegree:
		if !n.owns.HasPLD(uint64(key)) && (from != n || !n.visits[uint64(key)]) {
			return nil, false, nil
		}
		if from == n {
			return n.kept(key, value), true, nil
		}
		value, err := star.Arrived(value)
		return value, true, err
	case storeNames:
		_, host, err := state.DecodeName(value)
		return value, err == nil && (host == nil || n.keeps(from, key)), err
	case storeRobots:
		return value, n.keeps(from, key), nil
	}
	return value, n.ownsKey(uint64(key)), nil
}

// save saves the stores and sets the next manifest of a node.
func (m *mover) save(n *node) error {
	if err := n.checkSums(); err != nil {
		return err
	}
	next := &n.shadow.Next
	var states [numStores]*drum.State
	for i, d := range n.stores {
		var err error
		n.stores[i] = nil // SaveDrum closes it
		if states[i], err = n.shadow.SaveDrum(d); err != nil {
			return errors.Join(err, d.Close())
		}
	}
	for i, name := range map[int]string{storeSeen: state.NameURLSeen, storeNames: state.NameNames,
		storeRobots: state.NameRobotsCache} {
		data, err := json.Marshal(states[i])
		if err != nil {
			return err
		}
		next.Parts[name] = data
	}
	if err := repair.RemakePart(n.shadow, state.NameStar, func(_, st *star.State) error {
		st.Edges, st.Indegree, st.Checks = states[storeEdges], states[storeIndegree], n.checks
		ranking, tops, err := star.MakeRankings(n.shadow.Set, state.NameStar, st, ranks)
		if err != nil {
			return err
		}
		if st.Ranking, err = n.shadow.Tails.Write(0, ranking); err != nil {
			return err
		}
		st.Priors = nil // the next run reads them from the records
		st.Tops, err = n.shadow.Tails.Write(0, tops)
		return err
	}); err != nil {
		return err
	}
	if err := n.saveIntake(); err != nil {
		return err
	}
	a := &next.Accounts
	a.Unique, a.Names = n.unique, n.names
	a.Got.Known.Merge(n.passedOn)
	a.Moved = weburl.Sum{}
	for p := range state.NumPlaces {
		if p != state.PlaceFetched && p != state.PlaceRefused {
			a.Places[p] = n.after[p]
		}
		a.Moved.Merge(a.Places[p])
	}
	a.Orders = n.orders.second
	a.Moved.Remove(a.Unique)
	a.Moved.Remove(a.Orders)
	a.Deferred = n.deferred
	for reason, left := range n.left {
		a.Refused[reason] -= left
	}
	for from := range n.loads {
		if !m.nodes[from].m.Seeds.Done {
			next.Seeds = state.Seeds{} // the lines of these slots are read again
		}
	}
	ended := a.Moved
	ended.Remove(n.m.Accounts.Moved)
	m.rep.Nodes = append(m.rep.Nodes,
		NodeReport{Node: n.number, Unique: a.Unique.N, UniqueBefore: n.m.Accounts.Unique.N,
			Waiting: n.waiting, Ended: ended.N, Messages: n.messages})
	return nil
}

// ranks is a crawl's default plus one; the next budget function computes its own.
const ranks = 10_001

// saveIntake notes the messages taken from outboxes, and their records other than links and edges.
func (n *node) saveIntake() error {
	next := &n.shadow.Next
	if n.messages == 0 {
		return nil
	}
	in := *n.m.Intake
	in.Taken = slices.Clone(in.Taken)
	for from, taken := range n.taken {
		in.Taken[from] = taken
	}
	next.Intake = &in
	next.Accounts.Counters[state.CountLinksTaken] += n.links
	next.Accounts.Counters[state.CountLinksChecked] += n.links
	next.Accounts.Counters[state.CountEdgesTaken] += n.edges
	next.Accounts.Counters[state.CountPagesBorrowed] += n.lent
	if len(n.scopes) == 0 {
		return nil
	}
	keys, err := admit.ReadSites(n.saved.Set, n.m.Scope)
	if err != nil {
		return err
	}
	keys = append(keys, n.scopes...)
	slices.Sort(keys)
	next.Scope, err = n.shadow.Tails.Write(0, admit.DumpKeys(slices.Compact(keys)))
	return err
}
