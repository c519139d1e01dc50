package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"drumbeat/cluster"
)

// unread is an undecodable value of a lease, written by another release or another program.
type unread struct {
	rev   uint64        // 0: there is none
	since time.Duration // when it was seen first
}

// read decodes a lease. If the value is invalid but names another node as holder, read returns a lease of
// that node: while the node is running, it is asked, and may understand the rest.
func (l *Leases) read(data []byte) (*value, error) {
	v, err := decode(data, l.o.Nodes)
	if err == nil {
		return v, nil
	}
	var holder struct {
		Node *int   `json:"node"`
		Run  uint64 `json:"run"`
	}
	if json.Unmarshal(data, &holder) != nil || holder.Node == nil {
		return nil, err
	}
	if node := *holder.Node; node >= 0 && node < l.o.Nodes && node != l.o.Node {
		return &value{Node: node, Run: holder.Run}, nil
	}
	return nil, err
}

// unreadable handles an undecodable lease. For TTL after this node first read it, it counts as another
// node's, because its writer may rely on it. Then this node replaces it, as if taken from a silent node.
func (l *Leases) unreadable(ctx context.Context, e *entry, v cluster.Value, err error) (wait time.Duration) {
	now := l.now()
	if e.unread.rev != v.Revision {
		e.unread = unread{v.Revision, now}
		l.mu.Lock()
		l.figures.Unreadable++
		l.mu.Unlock()
		l.problem(fmt.Sprintf("the lease of network %v is unreadable and will be replaced after %v", e.net, l.o.TTL),
			err)
	}
	if left := e.unread.since + l.o.TTL - now; left >= 0 {
		return left + l.short(recheckAfter)
	}
	mine := value{Node: l.o.Node, Run: l.o.Run, Open: []open{{maxOpen, l.o.Longest.Milliseconds()}}}
	rev, err := l.o.Transport.Update(ctx, cluster.BucketNet, e.key, encode(mine), v.Revision)
	switch {
	case errors.Is(err, cluster.ErrChanged):
		return l.short(recheckAfter)
	case err != nil:
		return l.short(retryAfter)
	}
	e.unread = unread{}
	l.mu.Lock()
	l.figures.Replaced++
	l.mu.Unlock()
	l.got(e, rev, &mine, nil)
	return 0
}
