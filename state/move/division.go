package move

import (
	"slices"

	"drumbeat/cluster"
	"drumbeat/drum"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Hosts of a divided PLD (cluster.Division) belong to the node that visits them: so do their URLs that wait. Keys of
// URLs, names and the counts of the PLD belong to the owner of its slot. The other nodes that visit hosts keep counts
// of their own, and what they know of the hosts.

// visitor returns the node to which a URL that waits at a node belongs. It stays if it belongs to a node that gets
// nothing now: the crawl sends it on.
func (m *mover) visitor(n *node, url []byte, key uint64) *node {
	to := m.owner(key)
	if m.next.Table.Divided() {
		to = m.nodes[m.next.Table.Visitor(n.saved.Hasher, n.saved.Suffixes, weburl.Split(url).Host)]
	}
	if to != n && !to.gets {
		return n
	}
	return to
}

// setVisits notes the divided PLDs whose hosts the node visits by the next table.
func (n *node) setVisits(h *weburl.Hasher, next *cluster.Table) {
	n.visits, n.keptJobs = map[uint64]bool{}, map[uint64]bool{}
	for _, d := range next.Divisions() {
		if d.Parts.Share(n.number) > 0 {
			n.visits[h.PLDKey([]byte(d.PLD))] = true
			n.visitSlots.Set(d.Slot)
		}
	}
}

// ofHost calls f for each node that gets what is known of a host, given its key: the owner of its slot, and the nodes
// that visit hosts of the slot.
func (m *mover) ofHost(n *node, key uint64, f func(to *node)) {
	owner := m.owner(key)
	if owner == n || owner.gets {
		f(owner)
	}
	if owner != n && n.visitSlots.HasKey(key) {
		f(n)
	}
	for _, d := range m.next.Table.Divisions() {
		to := m.nodes[d.Parts.Node(key)]
		if d.Slot == weburl.SlotOf(key) && to != n && to != owner && to.gets {
			f(to)
		}
	}
}

// keeps reports whether the node takes what another one, which may be itself, knows of a host, given a key of the host.
func (n *node) keeps(from *node, key drum.Key) bool {
	return n.ownsKey(uint64(key)) || from == n && n.visitSlots.HasKey(uint64(key))
}

// dividesSlot reports whether a PLD of the slot of a key is divided, before or after.
func (m *mover) dividesSlot(key uint64) bool {
	is := func(d *cluster.Division) bool { return d.Slot == weburl.SlotOf(key) }
	return slices.ContainsFunc(m.next.Table.Divisions(), is) || slices.ContainsFunc(m.file.Table.Divisions(), is)
}

// ofPLD calls f for each node that gets counts or edges of a PLD that wait.
func (m *mover) ofPLD(n *node, pld uint64, f func(to *node) error) error {
	owner := m.ownerOf(pld)
	if owner != n && (n.visits[pld] || !owner.gets) {
		if err := f(n); err != nil || m.file.Table.Owner(pld) != n.number {
			return err // the owner has its own
		}
	}
	return f(owner)
}

// giveHosts gives the takers of hosts of a divided PLD what they need beside the URLs: the names of the hosts, the
// rules of their robots.txt, and the edges to the PLD, so that each node gives it the same budget.
func (g *giver) giveHosts(store int, key drum.Key, value []byte) error {
	switch store {
	case storeNames:
		_, host, err := state.DecodeName(value)
		if err != nil || host == nil {
			return err
		}
		to := g.nodes[g.next.Table.Visitor(g.n.saved.Hasher, g.n.saved.Suffixes, host)]
		if to == g.n || !to.gets || to.ownsKey(uint64(key)) {
			return nil // an owner gets it with its slot
		}
		return to.remote.entry(store, key, value)
	case storeRobots: // a key does not say whether the origin is of the PLD: some are for nothing
		for _, to := range g.to {
			if to.hostsCome.HasKey(uint64(key)) && !to.ownsKey(uint64(key)) {
				if err := to.remote.entry(store, key, value); err != nil {
					return err
				}
			}
		}
	case storeIndegree:
		return g.givePlaced(key, value)
	case storeEdges:
		e, err := star.EdgeOf(key, value)
		if err != nil {
			return err
		}
		for _, to := range g.to {
			if to.hostsCome.HasPLD(e.To) && to.visits[e.To] && !to.owns.HasPLD(e.To) {
				if err := to.remote.edge(key, value); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// gift is the share of a node's hosts of a divided PLD that another node gets.
type gift struct {
	to    *node
	share float64
}

// setGifts notes the hosts that the giver gives without the slot of their PLD. With the slot goes all that is counted.
func (g *giver) setGifts() {
	n, before, next := g.n, g.give.Before, g.next.Table
	n.gifts = map[uint64][]gift{}
	for _, d := range append(before.Divisions(), next.Divisions()...) {
		key := n.saved.Hasher.PLDKey([]byte(d.PLD))
		if before.OwnerOf(d.Slot) == n.number && !n.owns.Has(d.Slot) || n.gifts[key] != nil {
			continue
		}
		had, gets := 0, make([]int, len(g.nodes))
		for part := range cluster.DividedParts {
			if before.VisitorOf(d, part) == n.number {
				had++
				gets[next.VisitorOf(d, part)]++
			}
		}
		for to, parts := range gets {
			if parts > 0 && to != n.number {
				n.gifts[key] = append(n.gifts[key], gift{g.nodes[to], float64(parts) / float64(had)})
			}
		}
	}
}

// placedOf returns the part of the placed URLs of a PLD that goes with a gift.
func (t *gift) placedOf(p *star.PLD) uint32 { return uint32(float64(p.Placed) * t.share) }

// givePlaced gives the takers of hosts of a divided PLD their part of the URLs that BEAST has taken of it, since each
// node counts them against its share of --max-pages pld. Pages and bytes go along if the giver visits no more hosts.
func (g *giver) givePlaced(key drum.Key, value []byte) error {
	gifts := g.n.gifts[uint64(key)]
	if len(gifts) == 0 {
		return nil
	}
	var was star.PLD
	was.Decode(value)
	gone := !g.n.owns.HasPLD(uint64(key)) && !g.n.visits[uint64(key)]
	for i := range gifts {
		p := star.PLD{FirstSeen: was.FirstSeen, Placed: gifts[i].placedOf(&was)}
		if i == 0 && gone {
			p.Fetched, p.Bytes = was.Fetched, was.Bytes
		}
		if err := gifts[i].to.remote.entry(storeIndegree, key, p.Append(nil)); err != nil {
			return err
		}
	}
	return nil
}

// kept returns the record of a PLD without what givePlaced gives.
func (n *node) kept(key drum.Key, value []byte) []byte {
	gifts := n.gifts[uint64(key)]
	if len(gifts) == 0 {
		return value
	}
	var p star.PLD
	p.Decode(value)
	placed := p.Placed
	for i := range gifts {
		placed -= gifts[i].placedOf(&p)
	}
	p.Placed = placed
	return p.Append(nil)
}
