package lease

import (
	"context"
	"errors"
	"slices"
	"time"

	"drumbeat/cluster"
	"drumbeat/polite"
)

// The steps of an entry. One step of an entry runs at a time.

// take tries to get a lease.
func (l *Leases) take(ctx context.Context, e *entry) (wait time.Duration, done bool) {
	l.mu.Lock()
	g, holder, queued := e.given, e.holder, e.queuedUntil-l.now()
	heard := l.heartbeats.heard.Load()
	e.given, e.unheard = nil, !heard
	l.mu.Unlock()
	if g != nil && heard {
		g.value.At = time.Now().UnixMilli()
		l.got(e, g.rev, g.value, g.value.Line)
		return 0, false
	}
	if !e.claim && e.unread.rev == 0 && !l.o.Polite.StillWanted(time.Now(), e.net) {
		return 0, true
	}
	switch {
	case !heard:
		return l.short(recheckAfter), false // another node would take it again; hear makes the step due
	case queued > 0:
		return queued, false
	case holder != nobody && !l.heartbeats.late(holder):
		switch l.ask(ctx, e, holder) {
		case answerLine:
			// The holder announces the hand-over; the message may be lost.
			return l.short(stay) + l.short(askEvery), false
		case notAsked:
			return l.short(retryAfter), false
		}
	}
	if !e.claim && !e.exists {
		if wait, exists := l.create(ctx, e); !exists {
			return wait, false
		}
	}
	return l.takeExisting(ctx, e)
}

// create takes a lease that the broker does not know, unless it does: then exists is true.
func (l *Leases) create(ctx context.Context, e *entry) (wait time.Duration, exists bool) {
	mine := value{Node: l.o.Node, Run: l.o.Run}
	rev, err := l.o.Transport.Create(ctx, cluster.BucketNet, e.key, encode(mine))
	switch {
	case err == nil:
		l.got(e, rev, &mine, nil)
		return 0, false
	case errors.Is(err, cluster.ErrFull):
		l.full(err)
		return l.short(askEvery), false
	}
	return l.short(retryAfter), errors.Is(err, cluster.ErrExists)
}

// takeExisting takes a lease that is void, or asks its holder.
func (l *Leases) takeExisting(ctx context.Context, e *entry) (wait time.Duration, done bool) {
	transport := l.o.Transport
	v, err := transport.Get(ctx, cluster.BucketNet, e.key)
	e.exists = err == nil
	if errors.Is(err, cluster.ErrNotFound) {
		e.unread = unread{}
		return l.short(recheckAfter), l.unclaim(e)
	} else if err != nil {
		return l.short(retryAfter), false
	}
	was, err := l.read(v.Data)
	if err != nil {
		return l.unreadable(ctx, e, v, err), false
	}
	e.unread = unread{}
	void, ended := true, true
	if was.Node != nobody && was.Node != l.o.Node {
		if void, ended = l.heartbeats.void(was); void && !ended {
			was.Open = []open{{maxOpen, l.o.Longest.Milliseconds()}} // its exchanges are unknown
		}
	}
	switch {
	case void:
		if was.Node != l.o.Node && e.claim {
			return 0, l.unclaim(e)
		}
		mine := was.takenBy(l.o.Node, l.o.Run, time.Now())
		rev, err := transport.Update(ctx, cluster.BucketNet, e.key, encode(mine), v.Revision)
		switch {
		case err == nil:
			l.got(e, rev, &mine, was.Line)
			return 0, false
		case errors.Is(err, cluster.ErrChanged):
			return l.short(recheckAfter), false
		case errors.Is(err, cluster.ErrFull):
			l.full(err)
		}
		return l.short(retryAfter), false
	case l.unclaim(e):
		return 0, true
	}
	if l.heartbeats.late(was.Node) {
		return l.short(askEvery), false
	}
	switch l.ask(ctx, e, was.Node) {
	case 0:
		return l.short(askEvery), false
	case answerLine:
		return l.short(stay) + l.short(askEvery), false
	case notAsked:
		return l.short(retryAfter), false
	}
	return l.short(recheckAfter), false
}

// notAsked stands for the answer to an unasked question: too many others are unanswered.
const notAsked = '-'

// ask asks a node for a lease. It returns the answer, or 0, or notAsked.
func (l *Leases) ask(ctx context.Context, e *entry, holder int) (answer byte) {
	l.mu.Lock()
	if l.asking[holder] >= maxAsks || l.asks >= allAsks {
		l.mu.Unlock()
		return notAsked
	}
	l.asking[holder]++
	l.asks++
	wait := l.wait(e)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	data, err := l.o.Transport.Ask(ctx, holder, askKind,
		encode(request{Op: opWant, Key: e.key, Run: l.o.Run, Wait: wait}))
	if err == nil && len(data) == 1 {
		answer = data[0]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking[holder]--
	l.asks--
	switch {
	case e.wait != wait: // a later message overtook the answer
	case answer == answerLine:
		l.noteQueued(e, holder)
	default:
		l.forgetHolder(e)
	}
	return answer
}

// noteQueued notes that an entry is in a node's queue. The caller has the lock.
func (l *Leases) noteQueued(e *entry, holder int) {
	e.holder, e.queuedUntil = holder, l.now()+l.short(stay)+l.short(askEvery)
}

// forgetHolder makes the next step look up the holder and begin a new wait. The caller has the lock.
func (l *Leases) forgetHolder(e *entry) { e.holder, e.queuedUntil, e.wait = nobody, 0, 0 }

// wait returns the number of an entry's current wait. The caller has the lock.
func (l *Leases) wait(e *entry) uint64 {
	if e.wait == 0 {
		l.waits++
		e.wait = l.waits
	}
	return e.wait
}

// unclaim ends a claim: this node does not have the lease. It reports whether the entry may be dropped; an
// entry with URLs in RAM stays.
func (l *Leases) unclaim(e *entry) bool {
	if !e.claim {
		return false
	}
	if !l.o.Polite.StillWanted(time.Now(), e.net) {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.discount(e)
	e.claim = false
	l.count(e)
	return false
}

// got notes that this node has the lease. mine is its value, line the waiting nodes.
func (l *Leases) got(e *entry, rev uint64, mine *value, line []waiter) {
	l.heartbeats.saw(rev)
	e.bring = mine.holding()
	l.mu.Lock()
	l.enter(e, held)
	e.rev, e.since, e.unused, e.shut, e.kept = rev, l.now(), 0, true, nil
	e.given = nil
	l.forgetHolder(e)
	if mine.informs() {
		e.kept = mine
	}
	for _, w := range line {
		if w.Node != l.o.Node && !slices.ContainsFunc(e.line, func(o waiter) bool { return o.Node == w.Node }) {
			e.line = append(e.line, w)
		}
	}
	l.figures.Taken++
	l.mu.Unlock()
}

// keep maintains a lease of this node.
func (l *Leases) keep(ctx context.Context, e *entry) (wait time.Duration) {
	if ok, wait := l.ensure(ctx, e); !ok {
		return wait
	}
	now := l.now()
	if e.shut {
		if !l.heartbeats.open() {
			return l.short(recheckAfter)
		}
		e.shut = false
		wait := l.o.Polite.Hold(time.Now(), e.net, e.bring)
		l.mu.Lock()
		if e.unheard = false; !e.bring.Own {
			e.since = now + wait
		}
		l.mu.Unlock()
		e.bring = polite.Holding{}
		if l.o.Opened != nil {
			l.o.Opened()
		}
	}
	if l.o.Polite.Lease(time.Now(), e.net).Items > 0 {
		e.unused = 0
	} else if e.unused == 0 {
		e.unused = now
	}
	l.mu.Lock()
	waits := len(e.line) > 0
	l.mu.Unlock()
	end := time.Duration(1<<63 - 1)
	switch {
	case waits && e.unused > 0:
		end = now
	case waits:
		end = e.since + l.short(stay)
	case e.unused > 0:
		end = e.unused + l.short(idleFor)
	}
	// Without the broker, a released lease could not be taken again.
	if end <= now && l.o.Transport.State().Connected {
		l.o.Polite.Release(time.Now(), e.net)
		l.mu.Lock()
		l.enter(e, leaving)
		e.left = now
		l.mu.Unlock()
		return 0
	}
	most := idleFor
	if waits {
		most = recheckUnused
	}
	return min(max(end-now, l.short(recheckAfter)), l.short(most))
}

// leave hands a lease to the next node in the queue, or gives it back, once all requests have begun.
func (l *Leases) leave(ctx context.Context, e *entry) (wait time.Duration, done bool) {
	if ok, wait := l.ensure(ctx, e); !ok {
		return wait, false
	}
	state := l.o.Polite.Lease(time.Now(), e.net)
	if state.Pending > 0 || state.Flights > 0 && l.now()-e.left < l.short(endTimeout) {
		return begun, false
	}
	next := value{Node: nobody}
	next.bring(l.o.Polite.HandOver(time.Now(), e.net, l.o.Longest, maxRests))
	var to waiter
	var number uint64
	wanted := l.o.Polite.StillWanted(time.Now(), e.net)
	l.mu.Lock()
	for len(e.line) > 0 && next.Node == nobody {
		if to = e.line[0]; l.heartbeats.alive(to) {
			next.Node, next.Run = to.Node, to.Run
		}
		e.line = e.line[1:]
	}
	next.Line = slices.Clone(e.line)
	if wanted && next.Node != nobody {
		number = l.wait(e)
		next.Line = append(next.Line, waiter{l.o.Node, l.o.Run, number})
	}
	l.mu.Unlock()
	rev, err := l.pass(ctx, e, &next)
	switch {
	case err == nil:
	case errors.Is(err, cluster.ErrChanged):
		l.mu.Lock() // an earlier call has done it, or the lease is lost
		l.lose(e)
		l.mu.Unlock()
		return 0, false
	default:
		l.mu.Lock()
		if next.Node != nobody {
			e.line = slices.Insert(e.line, 0, to)
		}
		l.mu.Unlock()
		return l.short(retryAfter), false
	}
	e.exists = next.informs() || next.Node != nobody
	l.mu.Lock()
	if state.Flights > 0 {
		l.noteOverdue(e.net)
	}
	l.settle(e)
	l.enter(e, waiting)
	e.line = nil
	switch {
	case number > 0 && len(next.Line) > 0:
		l.noteQueued(e, next.Node)
	case number > 0:
		l.forgetHolder(e)
	}
	if next.Node != nobody {
		l.figures.HandedOver++
	}
	l.mu.Unlock()
	if next.Node != nobody {
		// If the message is lost, the next node finds its name when it asks again.
		_ = l.o.Transport.Tell(ctx, next.Node, askKind,
			encode(request{Op: opHand, Key: e.key, Wait: to.Wait, Rev: rev, Value: &next}))
	}
	return 0, l.unclaimLeft(e)
}

// drain waits for the end of all exchanges in a network with a lost lease: the next holder does not know
// them.
func (l *Leases) drain(e *entry) (wait time.Duration) {
	if l.o.Polite.Lease(time.Now(), e.net).Flights > 0 {
		return begun
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(e, waiting)
	return 0
}

// unclaimLeft reports whether a network whose lease was handed over needs no more steps.
func (l *Leases) unclaimLeft(e *entry) bool {
	if e.claim {
		return l.unclaim(e)
	}
	return !l.o.Polite.StillWanted(time.Now(), e.net)
}

// lose notes that another node has this node's lease now. It ends the claim even while exchanges are in
// progress, because a node sends no heartbeat while leases are unclaimed. The caller has the lock.
func (l *Leases) lose(e *entry) {
	l.enter(e, gone)
	l.noteOverdue(e.net)
	l.settle(e)
	e.line, e.shut = nil, false
}

// lost notes the loss of a confirmed lease.
func (l *Leases) lost(e *entry) {
	l.o.Polite.Release(time.Now(), e.net)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.figures.Lost++
	l.lose(e)
}

// ensure claims a lease again if the broker may have lost it, with the results of reclaim.
func (l *Leases) ensure(ctx context.Context, e *entry) (ok bool, wait time.Duration) {
	l.mu.Lock()
	again := e.reclaim
	l.mu.Unlock()
	if again {
		return l.reclaim(ctx, e)
	}
	return true, 0
}

// reclaim confirms a lease after the broker may have lost changes. ok is false if another node has the lease
// now, or if the call must be repeated.
func (l *Leases) reclaim(ctx context.Context, e *entry) (ok bool, wait time.Duration) {
	transport := l.o.Transport
	mine := encode(value{Node: l.o.Node, Run: l.o.Run})
	if e.kept != nil {
		e.kept.age(time.Now())
		mine = encode(e.kept)
	}
	rev, err := transport.Create(ctx, cluster.BucketNet, e.key, mine)
	if errors.Is(err, cluster.ErrExists) {
		v, err := transport.Get(ctx, cluster.BucketNet, e.key)
		if err != nil {
			return false, l.short(retryAfter)
		}
		was, err := decode(v.Data, l.o.Nodes)
		if err != nil || was.Node != l.o.Node || was.Run != l.o.Run {
			l.lost(e)
			return false, 0
		}
		if rev, err = transport.Update(ctx, cluster.BucketNet, e.key, mine, v.Revision); err != nil {
			return false, l.short(recheckAfter)
		}
	} else if errors.Is(err, cluster.ErrFull) { // the broker has lost it, and has no room for it now
		l.full(err)
		l.lost(e)
		return false, 0
	} else if err != nil {
		return false, l.short(retryAfter)
	}
	l.heartbeats.saw(rev)
	e.bring.Own = false // another node may have visited the network while the broker had no lease
	l.mu.Lock()
	defer l.mu.Unlock()
	e.rev = rev
	l.settle(e)
	return true, 0
}

// claimAll schedules a claim of all leases.
func (l *Leases) claimAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		e.given = nil // an earlier hand-over no longer counts: this node asks the broker
		l.forgetHolder(e)
		if e.stage == waiting && e.index >= 0 || e.stage == gone {
			continue // there is nothing to claim
		}
		// A running step may be acquiring the lease from a broker that loses it.
		if !e.reclaim {
			e.reclaim = true
			l.claimed++
		}
		l.poke(e)
	}
}

// settle notes that a lease is confirmed, or gone. The caller has the lock.
func (l *Leases) settle(e *entry) {
	if e.reclaim {
		e.reclaim = false
		l.claimed--
	}
}

// allClaimed reports whether all leases have been claimed again.
func (l *Leases) allClaimed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claimed == 0
}
