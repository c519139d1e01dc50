package lease

import (
	"context"
	"net/netip"
	"time"

	"drumbeat/exchange"
)

// Exchanges in progress when a network is handed over count for the next holder for Options.Longest. One that takes longer, such
// as that of a large body, is told of by the node that makes it, to whoever holds the network then, before that time is over.

// Parts of Options.Longest.
const (
	openChecks  = 10 // looks for exchanges that go on, in Longest
	openReports = 5  // of these, between two messages about a network: the rest is for holders that have just changed
)

// noteOverdue notes that exchanges are in progress in a network whose lease is another's. The networks are bounded by the connections.
// The caller has the lock.
func (l *Leases) noteOverdue(net netip.Addr) { l.overdue[net] = l.now() }

// reportOverdue tells holders of networks of this node's exchanges there until ctx ends.
func (l *Leases) reportOverdue(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, l.o.Longest/openChecks)
		var due []netip.Addr
		l.mu.Lock()
		for net, reported := range l.overdue {
			if l.now()-reported >= l.o.Longest*openReports/openChecks {
				due = append(due, net)
			}
		}
		l.mu.Unlock()
		for _, net := range due {
			is := l.o.Polite.Lease(time.Now(), net)
			l.mu.Lock()
			if is.Held || is.Flights == 0 {
				delete(l.overdue, net)
				l.mu.Unlock()
				continue
			}
			l.mu.Unlock()
			now := l.now()
			if l.reportTo(ctx, net, is.Flights) {
				l.mu.Lock()
				l.overdue[net] = now
				l.mu.Unlock()
			}
		}
	}
}

// reportTo tells the holder of a network how many exchanges of this node are in progress there. It reports whether the holder
// has heard it. If there is none, the lease has told, or this node does when somebody holds the network.
func (l *Leases) reportTo(ctx context.Context, net netip.Addr, n int) bool {
	v, err := l.o.Transport.Get(ctx, exchange.BucketNet, netKey(net))
	if err != nil {
		return false
	}
	is, err := l.read(v.Data)
	if err != nil || is.Node == nobody || is.Node == l.o.Node || l.heartbeats.late(is.Node) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, min(askTimeout, l.o.Longest/openChecks))
	defer cancel()
	data, err := l.o.Transport.Ask(ctx, is.Node, askKind, encode(request{Op: opOpen, Key: netKey(net), Run: l.o.Run, Open: n}))
	return err == nil && len(data) == 1 && data[0] == answerLine
}

// noteReported notes what another node tells of its exchanges in a network that this node holds.
func (l *Leases) noteReported(net netip.Addr, from, n int) bool {
	return l.o.Polite.Others(time.Now(), net, from, max(0, min(n, maxOpen)), l.o.Longest)
}
