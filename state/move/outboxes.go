package move

import (
	"fmt"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/drum"
	"drumbeat/internal/human"
	"drumbeat/star"
	"drumbeat/state"
)

// outboxes takes the messages for a node that gives slots from the outboxes of the others: some of the
// records belong to the new owners.
func (m *mover) outboxes(n *node) error {
	if !n.gives {
		return nil
	}
	dec := new(cluster.Decoder)
	inlet := admit.NewInlet(&admit.Policy{Hasher: n.saved.Hasher, Suffixes: n.saved.Suffixes, Table: m.file.Table,
		Node: n.number})
	n.taken = map[int]cluster.Taken{}
	for _, from := range m.nodes {
		if from == n {
			continue
		}
		if err := m.outbox(from, n, inlet, dec); err != nil {
			return err
		}
	}
	return nil
}

// outbox takes the messages of one node for another.
func (m *mover) outbox(from, to *node, inlet *admit.Inlet, dec *cluster.Decoder) error {
	name := state.OutboxName(to.number)
	st, err := state.Part[cluster.OutboxState](from.m, name)
	if err != nil {
		return err
	}
	if st == nil {
		return fmt.Errorf("the manifest of node %d has no outbox for it: %w", from.number, state.ErrIncompatible)
	}
	taken := to.m.Intake.Taken[from.number]
	if taken.Number > st.Last {
		return cluster.Unsent(from.number, to.number, taken.Number, st.Last)
	}
	if st.Open.Len > 0 {
		return fmt.Errorf("node %d has begun a message for it: start node %d and stop it in order: %w",
			from.number, from.number, state.ErrIncompatible)
	}
	sum, count := taken.Totals, uint64(0)
	if err := cluster.EachUntaken(from.saved.Set, name, st, taken.Number, func(h *cluster.Header, msg []byte) error {
		if h.Crawl != cluster.CrawlKey(m.file.Key(), from.m.Intake.Incarnation) || h.From != from.number ||
			h.To != to.number {
			return fmt.Errorf("outbox of node %d: a message from node %d to node %d, crawl %016x", from.number,
				h.From, h.To, h.Crawl)
		}
		inlet.Reset()
		if err := dec.Records(msg, h, inlet); err != nil {
			return err
		}
		if len(inlet.Parts) > 0 {
			return fmt.Errorf("slots are on their way from node %d: start the nodes until they have come: %w",
				from.number, state.ErrIncompatible)
		}
		count++
		sum.Links.Merge(h.After.Links)
		sum.Links.Remove(h.Before.Links)
		sum.Edges.Merge(h.After.Edges)
		sum.Edges.Remove(h.Before.Edges)
		return m.deliver(to, inlet)
	}); err != nil {
		return err
	}
	if count != st.Last-taken.Number || sum != st.Whole {
		return fmt.Errorf("the outbox of node %d has %s from number %d on, want %d: %w", from.number,
			human.Counted(count, "message", "messages"), taken.Number+1, st.Last-taken.Number, state.ErrIncompatible)
	}
	if count > 0 {
		to.taken[from.number] = cluster.Taken{Number: st.Last, Totals: st.Whole}
		to.messages += int64(count)
	}
	return nil
}

// deliver passes the records of a message to their owners by the next table.
func (m *mover) deliver(to *node, in *admit.Inlet) error {
	for _, t := range in.Tuples {
		if err := m.owner(uint64(t.Key)).add(storeSeen, t); err != nil {
			return err
		}
	}
	for _, t := range in.Names.Tuples {
		if err := m.name(to, t); err != nil {
			return err
		}
	}
	for _, e := range in.Edges {
		if e.From == e.To {
			continue
		}
		if err := m.ownerOf(e.To).add(storeEdges, star.Edge(e).Tuple()); err != nil {
			return err
		}
	}
	if err := m.deliverOnward(&in.Onward); err != nil {
		return err
	}
	to.scopes = append(to.scopes, in.Scopes...)
	to.links += int64(len(in.Tuples) + len(in.Onward.Links))
	to.edges += int64(len(in.Edges) + len(in.Onward.Edges))
	to.lent += in.Lent
	return nil
}

// deliverOnward passes records that were sent to a former owner to their owners by the next table.
func (m *mover) deliverOnward(on *admit.Onward) error {
	for i := range on.Links {
		l := &on.Links[i]
		t := drum.Tuple{Key: drum.Key(l.Key), Op: drum.CheckUpdate, Aux: l.Record}
		if err := m.owner(l.Key).add(storeSeen, t); err != nil {
			return err
		}
	}
	hasher := m.nodes[0].saved.Hasher // all nodes have one secret
	for i := range on.Edges {
		e := star.Edge{From: hasher.PLDKey(on.Edges[i].From), To: hasher.PLDKey(on.Edges[i].To)}
		if e.From == e.To {
			continue
		}
		if err := m.ownerOf(e.To).add(storeEdges, e.Tuple()); err != nil {
			return err
		}
	}
	return nil
}
