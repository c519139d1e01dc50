package lease

import (
	"context"
	"net/netip"
	"time"

	"drumbeat/cluster"
)

// Exchanges in progress at a hand-over count for the next holder for Options.Longest. If one takes longer,
// such as that of a large body, its node reports it to the current holder of the network before that time is
// over.

// Parts of Options.Longest.
const (
	openChecks  = 10 // checks for such exchanges, in Longest
	openReports = 5  // of these, between two reports for a network: the rest is for new holders
)

// noteOverdue notes that exchanges of this node are in progress in a network of another. The connections
// bound the networks. The caller has the lock.
func (l *Leases) noteOverdue(net netip.Addr) { l.overdue[net] = l.now() }

// reportOverdue reports this node's exchanges in networks of others to their holders until ctx ends.
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

// reportTo reports the number of this node's exchanges in a network to its holder. It returns whether a
// holder has acknowledged it. Without a holder, the lease has the number, or this node reports it to the next
// one.
func (l *Leases) reportTo(ctx context.Context, net netip.Addr, n int) bool {
	v, err := l.o.Transport.Get(ctx, cluster.BucketNet, netKey(net))
	if err != nil {
		return false
	}
	is, err := l.read(v.Data)
	if err != nil || is.Node == nobody || is.Node == l.o.Node || l.heartbeats.late(is.Node) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, min(askTimeout, l.o.Longest/openChecks))
	defer cancel()
	data, err := l.o.Transport.Ask(ctx, is.Node, askKind,
		encode(request{Op: opOpen, Key: netKey(net), Run: l.o.Run, Open: n}))
	return err == nil && len(data) == 1 && data[0] == answerLine
}

// noteReported notes the exchanges of another node in a network that this node holds.
func (l *Leases) noteReported(net netip.Addr, from, n int) bool {
	return l.o.Polite.Others(time.Now(), net, from, max(0, min(n, maxOpen)), l.o.Longest)
}
