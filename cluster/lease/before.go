package lease

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"drumbeat/cluster"
	"drumbeat/polite"
)

// Before is how the last Leases of a process have ended. The zero value tells of none. It is for one Leases at a time.
type Before struct {
	valid    bool // they have said so to the others, who had read their heartbeats; or they are suspended
	clock    func() time.Duration
	sent     int64  // when their last heartbeat was sent
	rev      uint64 // of that heartbeat
	connects uint64 // as in heartbeats
	highest  uint64
	alone    bool // there were none, as the node was the only one: see Alone

	// After Suspend:
	run   uint64 // Options.Run; 0: they are not suspended
	count uint64 // of their last heartbeat
	round uint64 // in it
	waits uint64 // the last number of a wait
	kept  []keptLease
}

// keptLease is a lease that suspended Leases have.
type keptLease struct {
	net           netip.Addr
	key           string
	rev           uint64
	exists        bool
	kept          *value
	bring         polite.Holding
	since, unused time.Duration
	line          []waiter
}

// Alone is what comes before the first Leases of a process whose node was the only one of its cluster until now: no
// other node can have a lease, and one that starts later reads the heartbeats of these first.
func Alone() Before { return Before{valid: true, alone: true} }

// Suspend ends these Leases for the next ones of the process, which continue with all leases, as if the process was
// frozen meanwhile: nothing is written. Options.Before must be set, and Run must have returned. Suspend returns false
// if the others may not have read this node's heartbeats, or the broker may have lost some: then call End. If no next
// ones begin, call Before.Release.
func (l *Leases) Suspend() bool {
	b, o := &l.heartbeats, &l.o
	if o.Before == nil {
		return false
	}
	if b.before.valid { // these have written nothing yet
		if b.before.run == 0 {
			return false
		}
		*o.Before = b.before
		return true
	}
	state := o.Transport.State()
	if b.count == 0 || !b.heard.Load() || b.guarded.Load() || !state.Connected || state.Connects != b.connects.Load() ||
		!l.allClaimed() {
		return false
	}
	is := Before{valid: true, clock: o.Clock, sent: b.sent.Load(), rev: b.rev, connects: b.connects.Load(),
		highest: b.highest.Load(), run: o.Run, count: b.count, round: b.round, waits: l.waits}
	for _, e := range l.entries {
		// The hand-over of a leaving one may have reached the broker although the call failed when Run ended. If it has
		// not, the next Leases find this node's name in the lease.
		if e.stage != held {
			continue
		}
		k := keptLease{net: e.net, key: e.key, rev: e.rev, exists: e.exists, kept: e.kept, bring: e.bring,
			since: e.since, unused: e.unused, line: e.line}
		if !e.shut {
			k.bring = o.Polite.HandOver(time.Now(), e.net, 0, maxRests)
			k.bring.Own = true
		}
		is.kept = append(is.kept, k)
	}
	*o.Before = is
	return true
}

// resume takes over suspended leases. They open with the first heartbeat.
func (l *Leases) resume(b *Before) {
	l.o.Run, l.waits = b.run, b.waits
	l.heartbeats.rev, l.heartbeats.count, l.heartbeats.round = b.rev, b.count, b.round+1
	for _, k := range b.kept {
		e := &entry{net: k.net, key: k.key, index: -1, stage: held, rev: k.rev, exists: k.exists, kept: k.kept,
			bring: k.bring, since: k.since, unused: k.unused, line: k.line, shut: true, unheard: true, holder: nobody}
		l.entries[k.net] = e
		l.count(e)
		heap.Push(&l.queue, e)
	}
}

// Release tells the other nodes that suspended Leases have ended, so that they may take the leases. It does nothing
// if there are none.
func (b *Before) Release(ctx context.Context, transport cluster.Transport, node int) error {
	if !b.valid || b.run == 0 {
		return nil
	}
	b.valid = false
	data := encode(heartbeat{Run: b.run, Count: b.count + 1, Round: b.round, Ended: true})
	if _, err := transport.Update(ctx, cluster.BucketNet, heartbeatKey(node), data, b.rev); err != nil &&
		!errors.Is(err, cluster.ErrChanged) {
		return fmt.Errorf("cluster/lease: could not tell the other nodes that this one has ended: %w", err)
	}
	return nil
}
