package node

import "context"

// owner returns the node that owns a host.
func (n *Node) owner(host []byte) int { return n.OwnerOf(n.saved.PLDKey(host)) }

// Elsewhere reports whether another node owns a host. This node visits those of slots that move here.
func (n *Node) Elsewhere(host []byte) bool {
	if !n.On() || n.owner(host) == n.opt.Node {
		return false
	}
	coming := n.tables.arriving().slots
	return !coming.HasPLD(n.saved.PLDKey(host))
}

// Away reports whether this node has no connection to the broker. A crawl of one node has none to lose.
func (n *Node) Away() bool { return n.On() && !n.opt.Transport.State().Connected }

// NoRequests reports whether requests for robots.txt cannot begin yet (Leases.NoRequests).
func (n *Node) NoRequests() bool { return n.leases.NoRequests() }

// Ask asks the owner of a host, and returns its answer; abandoned says that there will be none. A crawl of one node
// never asks.
func (n *Node) Ask(ctx context.Context, host []byte, kind string,
	data []byte) (answer []byte, abandoned bool, _ error) {
	owner := n.owner(host)
	if n.gone.has(owner) {
		return nil, true, nil
	}
	answer, err := n.AskNode(ctx, owner, kind, data)
	return answer, false, err
}

// Answer passes the questions of other nodes to answer, concurrently, until stop is called.
func (n *Node) Answer(kind string,
	answer func(ctx context.Context, from int, data []byte) []byte) (stop func(), _ error) {
	return n.opt.Transport.Answer(kind, answer)
}
