package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/cluster"
)

// Times of heartbeats, as parts of Options.TTL.
const (
	heartbeatsPerTTL = 60 // 10 s of 10 minutes
	aliveHeartbeats  = 3  // a node may be handed a lease if its last heartbeat is not older
	sureHeartbeats   = 3  // after a loss: the first may be older, and the second may have been in flight
	absentHeartbeats = 3  // a running node has sent a heartbeat within as many
	twiceHeartbeats  = 3  // a new process watches that long for another one of its node, then sends its first heartbeat
	// A process of a new crawl is young for so long, and sends quickFactor times as many heartbeats.
	youngHeartbeats = 6
	quickFactor     = 20
	quickLeast      = 100 * time.Millisecond // between two heartbeats of a young process, if TTL allows it
)

// heartheartbeats are the heartbeats of all nodes.
type heartbeats struct {
	l       *Leases
	rev     uint64        // of this node's heartbeat
	start   uint64        // last revision of the bucket at the start: an earlier process has written nothing later
	count   uint64        // of this node's heartbeat
	round   uint64        // in it
	sent    atomic.Int64  // when this node's last acknowledged heartbeat was sent; 0: none
	highest atomic.Uint64 // revision that the bucket has given
	guarded atomic.Bool   // new leases are not opened

	began    time.Duration // when run began
	streak   int           // this node's heartbeats since its last long silence
	broke    time.Duration // when the first of these was sent
	proves   bool          // the next claim of all leases ends the recovery from that silence
	before   Before        // the Leases that ended before these; valid until the first heartbeat, a loss or a silence
	heard    atomic.Bool   // the others have read this node's heartbeats since its last long silence
	ever     atomic.Bool   // heard was true once
	connects atomic.Uint64 // cluster.State.Connects at the last look for a loss
	losses   atomic.Int64  // times that the bucket's revisions had fallen

	mu       sync.Mutex // guards the fields below
	nodes    []seen
	watching bool
	sends    [2]sending    // of this node's last two heartbeats
	proved   time.Duration // when this node sent its last heartbeat that it has read back; 0: none
	event    time.Duration // when the last loss was found
	events   int           // losses found; the start counts as one
}

// seen describes the heartbeats of a node, as this one has read them.
type seen struct {
	known     bool // it has sent a heartbeat
	heartbeat heartbeat
	rev       uint64        // of heartbeat
	last      time.Duration // when it changed, or when watching began
	since     int           // least number of heartbeats since the event

	// Ends when another process of the node, or other Leases of the process, send a heartbeat, or when its heartbeat
	// says that it has ended.
	process context.Context
	end     context.CancelFunc
}

// sending holds the time at which a heartbeat was first sent. That call may have taken effect even if it
// failed.
type sending struct {
	count uint64
	at    time.Duration
}

func (b *heartbeats) every() time.Duration { return b.l.o.TTL / heartbeatsPerTTL }

// young reports whether this process has begun a new crawl and is young.
func (b *heartbeats) young() bool { return b.l.o.New && b.l.now()-b.began < youngHeartbeats*b.every() }

// rest is the time to the next heartbeat.
func (b *heartbeats) rest() time.Duration {
	if b.young() {
		return min(b.every(), max(b.every()/quickFactor, quickLeast))
	}
	return b.every()
}

// allYoung reports whether this process and those of all other nodes are young, by enough heartbeats to
// exclude a loss. Another node takes leases of this one only after it has watched for TTL since its process
// began. So a young node takes none before it has read this node's heartbeat: its own next heartbeat follows
// this node's, and proves the time.
func (b *heartbeats) allYoung() bool {
	if !b.young() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for node := range b.nodes {
		n := &b.nodes[node]
		if node != b.l.o.Node && (!b.watching || !n.heartbeat.Young || n.since < sureHeartbeats) {
			return false
		}
	}
	return true
}

// StartDelay returns the longest time for which the others must read heartbeats of a process before it
// fetches. If all nodes begin a new crawl together, a few quick heartbeats suffice.
func (l *Leases) StartDelay() time.Duration { return sureHeartbeats * l.heartbeats.every() }

// saw notes a revision of the bucket.
func (b *heartbeats) saw(rev uint64) {
	for {
		old := b.highest.Load()
		if rev <= old || b.highest.CompareAndSwap(old, rev) {
			return
		}
	}
}

// MayFetch reports whether the node may begin requests: others take its leases only later. The order protects
// a process that is frozen here: a heartbeat after a silence clears heard before it sets sent, and MayFetch
// reads the time last.
func (l *Leases) MayFetch() bool {
	sent := time.Duration(l.heartbeats.sent.Load())
	return l.heartbeats.heard.Load() && l.now()-sent < l.o.TTL*9/10
}

// void reports whether a lease may be taken from its holder, and whether all exchanges of the holder have
// ended: its heartbeat says so, or the node was silent for TTL. The silence ends not now but when this node
// sent the last heartbeat that it has read back: the broker delivers heartbeats in order, so all earlier
// heartbeats of the holder are known. So a process that was frozen, with the holder's heartbeats unread in
// its connection, takes nothing.
func (b *heartbeats) void(lease *value) (void, ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := &b.nodes[lease.Node]
	ended = n.known && n.heartbeat.Ended && lease.Run == n.heartbeat.Run
	return b.watching && (ended || b.proved-n.last > b.l.o.TTL), ended
}

// alive reports whether the waiting process has sent a heartbeat lately.
func (b *heartbeats) alive(w waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := &b.nodes[w.Node]
	return n.known && n.heartbeat.Run == w.Run && !n.heartbeat.Ended && b.l.now()-n.last < aliveHeartbeats*b.every()
}

// late reports whether the last heartbeat of a known node is too old to ask the node.
func (b *heartbeats) late(node int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := &b.nodes[node]
	return n.known && b.l.now()-n.last >= aliveHeartbeats*b.every()
}

// open reports whether new leases may be opened: all nodes have claimed theirs since the last loss.
func (b *heartbeats) open() bool {
	if b.l.o.Transport.State().Connects != b.connects.Load() {
		return false // there may have been a loss
	}
	if !b.guarded.Load() {
		return b.heard.Load()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.watching {
		return false
	}
	waited := b.l.now() - b.event
	for node := range b.nodes {
		n := &b.nodes[node]
		switch {
		case node == b.l.o.Node, n.since >= sureHeartbeats, waited > b.l.o.TTL:
		case n.known && n.heartbeat.Ended && waited > absentHeartbeats*b.every():
		case !n.known && b.l.o.New && waited > absentHeartbeats*b.every():
			// A new crawl does not wait for nodes that have never started.
		default:
			return false
		}
	}
	b.guarded.Store(false)
	return b.heard.Load()
}

// lost notes that the broker may have lost leases.
func (b *heartbeats) lost() {
	b.guard()
	b.l.claimAll()
}

// guard makes new leases wait until the other nodes have claimed theirs.
func (b *heartbeats) guard() {
	b.guarded.Store(true)
	b.mu.Lock()
	b.event = b.l.now()
	b.events++
	for i := range b.nodes {
		b.nodes[i].since = 0
	}
	b.mu.Unlock()
}

// watch follows the heartbeats of the other nodes until ctx ends.
func (b *heartbeats) watch(ctx context.Context) {
	for ctx.Err() == nil {
		w, err := b.l.o.Transport.Watch(ctx, cluster.BucketNet, heartbeatPattern)
		if err == nil {
			b.follow(ctx, w)
			w.Close()
		}
		b.mu.Lock()
		b.watching = false
		b.mu.Unlock()
		pause(ctx, b.l.short(retryAfter))
	}
}

func (b *heartbeats) follow(ctx context.Context, w cluster.Watcher) {
	b.mu.Lock()
	now := b.l.now()
	for i := range b.nodes {
		b.nodes[i].last = now // silence counts only while this node watches
	}
	b.mu.Unlock()
	for {
		v, ok, err := w.Next(ctx)
		if err != nil {
			return
		}
		if !ok {
			b.mu.Lock()
			b.watching = true
			b.mu.Unlock()
			continue
		}
		b.note(v)
	}
}

// note notes the heartbeat of a node.
func (b *heartbeats) note(v cluster.Value) {
	node, err := strconv.Atoi(strings.TrimPrefix(v.Key, heartbeatPrefix))
	var is heartbeat
	if err != nil || node < 0 || node >= len(b.nodes) || v.Deleted || json.Unmarshal(v.Data, &is) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if node == b.l.o.Node && is.Run == b.l.o.Run {
		for _, own := range b.sends {
			if own.count == is.Count {
				b.proved = max(b.proved, own.at)
			}
		}
	}
	n := &b.nodes[node]
	n.rev = v.Revision
	if n.known && n.heartbeat == is {
		return
	}
	if n.process == nil || n.heartbeat.Run != is.Run || n.heartbeat.Round != is.Round {
		if n.process != nil {
			n.end()
		}
		n.process, n.end = context.WithCancel(context.Background())
	}
	if is.Ended {
		n.end()
	}
	n.known, n.heartbeat, n.last = true, is, b.l.now()
	if b.watching { // earlier ones may be old
		n.since++
	}
}

// run writes the heartbeats of this node until ctx ends. The error is ErrTwice.
func (b *heartbeats) run(ctx context.Context) error {
	b.connects.Store(b.l.o.Transport.State().Connects)
	if b.before.valid { // what the broker has lost since, a look finds
		b.connects.Store(b.before.connects)
		b.saw(b.before.highest)
		b.sent.Store(b.before.sent)
	}
	b.began = b.l.now()
	b.guard() // the broker may have lost leases before this process began
	if err := b.first(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		state, highest := b.l.o.Transport.State(), b.highest.Load() // before the call: others continue meanwhile
		last, err := b.l.o.Transport.Last(ctx, cluster.BucketNet)
		if err != nil || !state.Connected {
			pause(ctx, b.l.short(retryAfter))
			continue
		}
		if state.Connects != b.connects.Load() || last < highest {
			b.lost()
			b.restart()
			b.connects.Store(state.Connects)
			if last < highest {
				b.losses.Add(1)
				b.start = min(b.start, last)
			}
			b.highest.Store(last)
		}
		b.l.updateRoom(ctx)
		if !b.l.allClaimed() {
			pause(ctx, b.l.short(recheckAfter))
			continue
		}
		if b.proves {
			b.proves = false
			b.hear()
		}
		set, err := b.write(ctx, false)
		switch {
		case errors.Is(err, ErrTwice):
			return err
		case err != nil:
			pause(ctx, b.l.short(retryAfter))
		case set: // set back: claim first, then send the heartbeat again
			b.lost()
			b.restart()
		default:
			b.open() // so that a node without networks knows it, too, when it ends
			pause(ctx, b.rest())
		}
	}
	return nil
}

// restart makes this process start as if after a silence, whatever was before it.
func (b *heartbeats) restart() {
	if b.before.valid {
		b.before.valid = false
		b.sent.Store(0)
	}
}

// hear notes that the others have read this node's heartbeats.
func (b *heartbeats) hear() {
	b.heard.Store(true)
	b.ever.Store(true)
	b.l.heard()
	if b.l.o.Opened != nil {
		b.l.o.Opened()
	}
}

// first takes over the heartbeat of an earlier process of this node. It returns ErrTwice if that process
// still runs.
func (b *heartbeats) first(ctx context.Context) error {
	if b.before.valid && !b.before.alone { // Get may return an older one
		b.rev = b.before.rev
		return nil
	}
	var was, is heartbeat
	begun, beats := time.Duration(0), 0
	for ; ctx.Err() == nil; pause(ctx, b.every()/2) {
		if b.start == 0 {
			last, err := b.l.o.Transport.Last(ctx, cluster.BucketNet)
			if err != nil {
				continue
			}
			b.start = last
		}
		v, err := b.l.o.Transport.Get(ctx, cluster.BucketNet, heartbeatKey(b.l.o.Node))
		switch {
		case errors.Is(err, cluster.ErrNotFound):
			return nil
		case err != nil:
			begun = 0
			continue
		case json.Unmarshal(v.Data, &is) == nil && is.Ended:
			b.rev = v.Revision
			return nil
		case begun == 0:
			b.restart()
			begun, was = b.l.now(), is
		case is != was:
			// A heartbeat may have been in flight when that process was killed. A broker that was set back
			// returns an older one, and a replica that catches up one old heartbeat after the other.
			if is.Run == was.Run && is.Count > was.Count && v.Revision > b.start {
				beats++
			}
			if beats == 2 {
				return fmt.Errorf("cluster/lease: node %d: %w: its heartbeat is changing", b.l.o.Node, ErrTwice)
			}
			begun, was = b.l.now(), is
		}
		if b.rev = v.Revision; b.l.now()-begun > twiceHeartbeats*b.every() {
			return nil
		}
	}
	return nil
}

// write writes the heartbeat of this node. set says that the broker has an older one: it has lost changes.
func (b *heartbeats) write(ctx context.Context, ended bool) (set bool, err error) {
	transport, sent := b.l.o.Transport, b.l.now()
	key := heartbeatKey(b.l.o.Node)
	b.sending(b.count+1, sent)
	data := encode(heartbeat{Run: b.l.o.Run, Count: b.count + 1, Round: b.round, Ended: ended,
		Young: b.young() && !ended})
	rev := uint64(0)
	if b.rev == 0 {
		rev, err = transport.Create(ctx, cluster.BucketNet, key, data)
	} else {
		rev, err = transport.Update(ctx, cluster.BucketNet, key, data, b.rev)
	}
	switch {
	case err == nil:
		b.rev = rev
		b.count++
		b.saw(rev)
		b.acknowledged(sent)
		return false, nil
	case !errors.Is(err, cluster.ErrChanged) && !errors.Is(err, cluster.ErrExists):
		return false, err
	}
	v, err := transport.Get(ctx, cluster.BucketNet, key)
	if errors.Is(err, cluster.ErrNotFound) {
		b.rev = 0
		return true, nil
	} else if err != nil {
		return false, err
	}
	var is heartbeat
	if json.Unmarshal(v.Data, &is) == nil && is.Run != b.l.o.Run && b.rev != 0 &&
		v.Revision > max(b.rev, b.start) {
		return false, fmt.Errorf("cluster/lease: node %d: %w: it has written a heartbeat", b.l.o.Node, ErrTwice)
	}
	// An earlier call may have written this one although it failed.
	set = is.Run != b.l.o.Run || is.Count <= b.count
	if is.Run == b.l.o.Run && is.Ended == ended {
		// So that the next heartbeat differs, which shows others that this node is alive.
		b.count = max(b.count, is.Count)
	}
	b.rev = v.Revision
	return set, nil
}

// sending notes that a heartbeat is sent.
func (b *heartbeats) sending(count uint64, at time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sends[1].count != count {
		b.sends[0], b.sends[1] = b.sends[1], sending{count, at}
	}
}

// acknowledged notes that a heartbeat sent at a time was acknowledged. After a silence that may have been too
// long, others may take leases until they read heartbeats of this node again. So the node fetches nothing
// until it has claimed its leases again, some heartbeats later.
func (b *heartbeats) acknowledged(sent time.Duration) {
	last := time.Duration(b.sent.Load())
	if last == 0 || sent-last > b.l.o.TTL*8/10 {
		b.heard.Store(false)
		b.streak, b.broke = 0, sent
		b.before.valid = false
	}
	b.sent.Store(int64(sent))
	b.streak++
	if b.before.valid { // the others have read the heartbeats of this process, and the broker has lost nothing
		b.before.valid = false
		b.guarded.Store(false)
		b.hear()
	}
	if b.heard.Load() || b.proves || b.streak < sureHeartbeats {
		return
	}
	if sent+b.rest()-b.broke >= sureHeartbeats*b.every() || b.allYoung() {
		b.l.claimAll()
		b.proves = true
	}
}

// end writes that this node has ended.
func (b *heartbeats) end(ctx context.Context) error {
	if b.count == 0 {
		if b.before.valid && b.sends[1].count == 0 { // these have not written any
			*b.l.o.Before = b.before
		}
		return nil
	}
	open := b.heard.Load() && !b.guarded.Load()
	for try := 0; ; try++ {
		before := b.count
		_, err := b.write(ctx, true)
		if b.count > before {
			if b.l.o.Before != nil {
				*b.l.o.Before = Before{valid: open && b.heard.Load(), clock: b.l.o.Clock, sent: b.sent.Load(),
					rev: b.rev, connects: b.connects.Load(), highest: b.highest.Load()}
			}
			return nil
		}
		if try == 3 || ctx.Err() != nil {
			return fmt.Errorf("cluster/lease: could not tell the other nodes that this one has ended: %w",
				errors.Join(err, ctx.Err()))
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
