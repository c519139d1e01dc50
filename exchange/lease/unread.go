package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"drumbeat/exchange"
)

// unread is a value of a lease that cannot be decoded: somebody else has written it, or another version of this program.
type unread struct {
	rev   uint64        // 0: there is none
	since time.Duration // when it was seen first
}

// read decodes a lease. If the value is odd but names a holder among the other nodes, it is read as that node's: while
// that node beats it is asked, and may know what the rest means.
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

// unreadable deals with a lease that cannot be decoded. For TTL after this node has seen it first, it counts as another
// node's, as whoever wrote it may rely on it. Then this node replaces it, as if taken from a node that is silent.
func (l *Leases) unreadable(ctx context.Context, e *entry, v exchange.Value, err error) (wait time.Duration) {
	now := l.now()
	if e.unread.rev != v.Revision {
		e.unread = unread{v.Revision, now}
		l.mu.Lock()
		l.figures.Unreadable++
		l.mu.Unlock()
		l.problem(fmt.Sprintf("the lease of network %v cannot be read: it is replaced after %v", e.net, l.o.TTL), err)
	}
	if left := e.unread.since + l.o.TTL - now; left >= 0 {
		return left + l.short(recheckAfter)
	}
	mine := value{Node: l.o.Node, Run: l.o.Run, Open: []open{{maxOpen, l.o.Longest.Milliseconds()}}}
	rev, err := l.o.Transport.Update(ctx, exchange.BucketNet, e.key, encode(mine), v.Revision)
	switch {
	case errors.Is(err, exchange.ErrChanged):
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
