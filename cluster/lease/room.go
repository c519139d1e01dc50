package lease

import (
	"context"
	"errors"
	"time"

	"drumbeat/cluster"
)

// The broker's room for leases is bounded. It refuses new leases before it is full (cluster.LeaseRoom), so
// that existing ones can be handed over. Giving one back needs no room.

const (
	// noLines is the part of the room above which handed-over leases omit the waiting nodes: these ask again.
	noLines = 15.0 / 16
	// collectOften is the part above which unneeded leases are collected every TTL, else every collectTTLs.
	collectOften = 0.5
	collectTTLs  = 6
	// collectMost bounds the leases deleted in a round: a minute or two at 1 ms each.
	collectMost = 100_000
	// reportEvery is the least time between two reports of a lack of room.
	reportEvery = 5 * time.Minute
)

// full notes that the broker has refused a lease for lack of room.
func (l *Leases) full(err error) {
	now := l.now()
	l.mu.Lock()
	l.figures.Refused++
	report := l.reportedAt == 0 || now-l.reportedAt > reportEvery
	if report {
		l.reportedAt = now
	}
	l.mu.Unlock()
	if report {
		l.problem("the broker has no room for more leases (--cluster-leases): networks wait until others "+
			"are released", err)
	}
}

// updateRoom notes the room of the broker.
func (l *Leases) updateRoom(ctx context.Context) {
	room, err := l.o.Transport.Room(ctx, cluster.BucketNet)
	if err != nil {
		return // keep the figures of the last heartbeat
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.figures.Room = room
}

// room returns the room at the last heartbeat.
func (l *Leases) room() cluster.Room {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.figures.Room
}

// pass writes a lease for its next holder, as next says, or deletes it. For lack of room it omits the waiting
// nodes, and as a last resort gives the lease back, but never without the back-offs and connections that the
// next holder needs. It sets next to the written value.
func (l *Leases) pass(ctx context.Context, e *entry, next *value) (rev uint64, err error) {
	remove := func() (uint64, error) { return 0, l.o.Transport.Delete(ctx, cluster.BucketNet, e.key, e.rev) }
	if next.Node == nobody && !next.informs() {
		return remove()
	}
	write := func() (uint64, error) {
		return l.o.Transport.Update(ctx, cluster.BucketNet, e.key, encode(next), e.rev)
	}
	if l.room().Above(noLines) {
		next.Line = nil
	}
	rev, err = write()
	if errors.Is(err, cluster.ErrFull) && len(next.Line) > 0 {
		next.Line = nil
		rev, err = write()
	}
	if errors.Is(err, cluster.ErrFull) {
		l.full(err)
		if !next.informs() {
			next.Node, next.Run = nobody, 0
			return remove()
		}
	}
	if err == nil {
		l.heartbeats.saw(rev)
	}
	return rev, err
}

// collect deletes unneeded leases until ctx ends: those of ended or killed processes, for networks that no
// node has wanted since. Only the running node with the lowest number collects.
func (l *Leases) collect(ctx context.Context) {
	for round := 1; ctx.Err() == nil; round++ {
		pause(ctx, l.o.TTL)
		if round%collectTTLs != 0 && !l.room().Above(collectOften) || !l.heartbeats.heard.Load() ||
			!l.heartbeats.lowest() {
			continue
		}
		w, err := l.o.Transport.Watch(ctx, cluster.BucketNet, cluster.LeasePrefix+">")
		if err != nil {
			continue // the next round tries again
		}
		l.collectFrom(ctx, w)
		w.Close()
	}
}

// collectFrom deletes the unneeded leases among those of a watcher.
func (l *Leases) collectFrom(ctx context.Context, w cluster.Watcher) {
	for n := 0; n < collectMost; {
		v, ok, err := w.Next(ctx)
		if err != nil || !ok {
			return
		}
		was, err := decode(v.Data, l.o.Nodes)
		if v.Deleted || err != nil || was.informs() || !l.heartbeats.unneeded(was, v.Revision, l.o.Longest) {
			continue
		}
		if l.o.Transport.Delete(ctx, cluster.BucketNet, v.Key, v.Revision) == nil {
			n++
			l.mu.Lock()
			l.figures.Collected++
			l.mu.Unlock()
		}
	}
}

// unneeded reports whether a lease without information may be deleted, because no later holder needs to know
// this one. Either the holder's process has ended: its heartbeat says so, or its node's next process has
// written a heartbeat after the lease. Or its node has been silent for so long that its exchanges have ended,
// too.
func (b *heartbeats) unneeded(lease *value, rev uint64, longest time.Duration) bool {
	if lease.Node == nobody {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n := &b.nodes[lease.Node]
	switch {
	case !b.watching || !n.known || lease.Node == b.l.o.Node && lease.Run == b.l.o.Run:
		return false
	case n.heartbeat.Run == lease.Run:
		return n.heartbeat.Ended || b.proved-n.last > b.l.o.TTL+longest
	}
	return n.rev > rev
}

// lowest reports whether no node with a lower number is running.
func (b *heartbeats) lowest() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for node := range b.l.o.Node {
		if n := &b.nodes[node]; n.known && !n.heartbeat.Ended && b.l.now()-n.last < aliveHeartbeats*b.every() {
			return false
		}
	}
	return b.watching
}
