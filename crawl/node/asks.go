package node

import "context"

// visitor returns the node that visits a host.
func (n *Node) visitor(host []byte) int {
	return n.opt.Table.Visitor(n.saved.Hasher, n.saved.Suffixes, host)
}

// Elsewhere reports whether another node visits a host. This node visits those of slots that move here.
func (n *Node) Elsewhere(host []byte) bool {
	return n.On() && n.visitor(host) != n.opt.Node && !n.tables.comes(host)
}

// Away reports whether this node has no connection to the broker. A crawl of one node has none to lose.
func (n *Node) Away() bool { return n.On() && !n.opt.Transport.State().Connected }

// NoRequests reports whether requests for robots.txt cannot begin yet (Leases.NoRequests).
func (n *Node) NoRequests() bool { return n.leases.NoRequests() }

// Ask asks the owner of a host, and returns its answer; abandoned says that there will be none. A crawl of one node
// never asks.
func (n *Node) Ask(ctx context.Context, host []byte, kind string,
	data []byte) (answer []byte, abandoned bool, _ error) {
	owner := n.visitor(host)
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
