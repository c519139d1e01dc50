package node

import (
	"context"

	"drumbeat/cluster"
	"drumbeat/state"
)

// Computes returns the node that computes for all: the first one that takes part.
func (n *Node) Computes() int {
	for node := range n.opt.nodes() {
		if !n.gone.has(node) {
			return node
		}
	}
	return n.opt.Node
}

// Self returns the number of this node.
func (n *Node) Self() int { return n.opt.Node }

// Peers returns the other nodes that take part.
func (n *Node) Peers() (list []int) {
	for node := range n.opt.nodes() {
		if node != n.opt.Node && !n.gone.has(node) {
			list = append(list, node)
		}
	}
	return list
}

// Settled returns the number of the table, and whether this node has all of its slots, and no others.
func (n *Node) Settled() (moves int, ok bool) {
	return n.opt.Table.Moves(), !n.SlotsCome() && !n.Leaving()
}

// partsByKey returns the parts of divided PLDs, by the keys of the PLDs.
func partsByKey(saved *state.Saved, t *cluster.Table) map[uint64]*cluster.Parts {
	all := map[uint64]*cluster.Parts{}
	for _, d := range t.Divisions() {
		all[saved.Hasher.PLDKey([]byte(d.PLD))] = &d.Parts
	}
	return all
}

// Ranks reports whether a node gives a PLD a budget: the owner does, and the visitors of its hosts.
func (n *Node) Ranks(node int, pld uint64) bool {
	parts := n.divided()[pld]
	return n.opt.Table.Owner(pld) == node || parts != nil && parts.Share(node) > 0
}

// AskNode asks a node, and returns its answer.
func (n *Node) AskNode(ctx context.Context, node int, kind string, data []byte) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(n.leases.ProcessContext(node), cancel) // a process that was killed does not answer
	defer stop()
	return n.opt.Transport.Ask(ctx, node, kind, data)
}
