package lease

import (
	"context"
	"errors"
	"time"

	"drumbeat/exchange"
)

// The broker's room for leases is bounded. New leases are refused before it is full (exchange.LeaseRoom), so that those that
// are there can be handed over. Giving one back needs no room.

const (
	// noLines is the part of the room above which a lease that is handed over does not name those that wait: they ask again.
	noLines = 15.0 / 16
	// collectOften is the part above which leases that nobody needs are looked for each TTL, else each collectTTLs.
	collectOften = 0.5
	collectTTLs  = 6
	// collectMost bounds the leases that are deleted in a round: a minute or two with 1 ms each.
	collectMost = 100_000
	// reportEvery is the least time between two reports that the broker has no room.
	reportEvery = 5 * time.Minute
)

// full notes that the broker has refused a lease for want of room.
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
		l.problem("the broker has no room for more leases of networks (--cluster-leases): some wait until others are given back", err)
	}
}

// updateRoom notes how much room the broker has.
func (l *Leases) updateRoom(ctx context.Context) {
	room, err := l.o.Transport.Room(ctx, exchange.BucketNet)
	if err != nil {
		return // the figures of the last beat must do
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.figures.Room = room
}

// room returns the room at the last beat.
func (l *Leases) room() exchange.Room {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.figures.Room
}

// pass writes a lease for its next holder, as next says, or deletes it. For want of room it leaves out who waits, and in the
// end gives the lease back, but never without the back-offs and connections that the next holder must know of. It changes
// next to what it has done.
func (l *Leases) pass(ctx context.Context, e *entry, next *value) (rev uint64, err error) {
	remove := func() (uint64, error) { return 0, l.o.Transport.Delete(ctx, exchange.BucketNet, e.key, e.rev) }
	if next.Node == nobody && !next.informs() {
		return remove()
	}
	write := func() (uint64, error) {
		return l.o.Transport.Update(ctx, exchange.BucketNet, e.key, encode(next), e.rev)
	}
	if l.room().Above(noLines) {
		next.Line = nil
	}
	rev, err = write()
	if errors.Is(err, exchange.ErrFull) && len(next.Line) > 0 {
		next.Line = nil
		rev, err = write()
	}
	if errors.Is(err, exchange.ErrFull) {
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

// collect deletes leases that nobody needs until ctx ends: those of processes that have ended or were killed, of networks that
// nobody has wanted since. One node does, the first that beats.
func (l *Leases) collect(ctx context.Context) {
	for round := 1; ctx.Err() == nil; round++ {
		pause(ctx, l.o.TTL)
		if round%collectTTLs != 0 && !l.room().Above(collectOften) || !l.heartbeats.heard.Load() || !l.heartbeats.lowest() {
			continue
		}
		w, err := l.o.Transport.Watch(ctx, exchange.BucketNet, exchange.LeasePrefix+">")
		if err != nil {
			continue // the next round tries again
		}
		l.collectFrom(ctx, w)
		w.Close()
	}
}

// collectFrom deletes the leases that nobody needs among those that a watcher tells of.
func (l *Leases) collectFrom(ctx context.Context, w exchange.Watcher) {
	for n := 0; n < collectMost; {
		v, ok, err := w.Next(ctx)
		if err != nil || !ok {
			return
		}
		was, err := decode(v.Data, l.o.Nodes)
		if v.Deleted || err != nil || was.informs() || !l.heartbeats.unneeded(was, v.Revision, l.o.Longest) {
			continue
		}
		if l.o.Transport.Delete(ctx, exchange.BucketNet, v.Key, v.Revision) == nil {
			n++
			l.mu.Lock()
			l.figures.Collected++
			l.mu.Unlock()
		}
	}
}

// unneeded reports whether a lease that tells nothing may be deleted: whoever creates it again need not know of this holder.
// Either its process is known to have ended, since it has said so, or since another one of its node has written a beat after
// the lease. Or its node has been silent for so long that its exchanges have ended, too.
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

// lowest reports whether no node with a lower number beats.
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
