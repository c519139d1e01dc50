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

	"drumbeat/exchange"
)

// Times of beats, as parts of Options.TTL.
const (
	heartbeatsPerTTL = 60 // 10 s of 10 minutes
	aliveHeartbeats  = 3  // a node whose last beat is not older may be handed a lease
	sureHeartbeats   = 3  // after a loss: the first may be older, and the second may have been under way
	absentHeartbeats = 3  // a node that has begun to beat has done so after as many
	twiceHeartbeats  = 3  // a new process looks that long for another one of its node; it begins to beat then
	youngHeartbeats  = 6  // a process of a new crawl is young for so long, and beats quickFactor times as often
	quickFactor      = 20
	quickLeast       = 100 * time.Millisecond // between two beats of a young process, if TTL allows it
)

// heartbeats are the beats of all nodes.
type heartbeats struct {
	l       *Leases
	rev     uint64        // of the own beat
	count   uint64        // of the own beat
	sent    atomic.Int64  // when the last own beat that was acknowledged was sent; 0: none
	highest atomic.Uint64 // revision that the bucket has given
	guarded atomic.Bool   // new leases are not opened

	began    time.Duration // when run began
	streak   int           // own beats since the last long silence
	broke    time.Duration // when the first of these was sent
	proves   bool          // the next claim of all leases ends the time after that silence
	heard    atomic.Bool   // the others have heard of this node since its last long silence
	ever     atomic.Bool   // heard was true once
	connects atomic.Uint64 // exchange.State.Connects at the last look for a loss

	mu       sync.Mutex // guards the fields below
	nodes    []seen
	watching bool
	sends    [2]sending    // of the last two own beats
	proved   time.Duration // when the last own beat was sent that this node has seen among those of all; 0: none
	event    time.Duration // when the last loss was found
	events   int           // losses that were found; the start is one
}

// seen is what was seen of a node's beats.
type seen struct {
	known     bool // it has beaten
	heartbeat heartbeat
	rev       uint64        // of beat
	last      time.Duration // when it changed, or when watching began
	since     int           // beats since the event, at least

	process context.Context // ends when another process of the node beats, or when it says that it has ended
	end     context.CancelFunc
}

// sending is when a beat was sent first. If that call seemed to fail, it may have taken effect.
type sending struct {
	count uint64
	at    time.Duration
}

func (b *heartbeats) every() time.Duration { return b.l.o.TTL / heartbeatsPerTTL }

// young reports whether this process has begun a new crawl and is young.
func (b *heartbeats) young() bool { return b.l.o.New && b.l.now()-b.began < youngHeartbeats*b.every() }

// rest is the time to the next beat.
func (b *heartbeats) rest() time.Duration {
	if b.young() {
		return min(b.every(), max(b.every()/quickFactor, quickLeast))
	}
	return b.every()
}

// allYoung reports whether this process and those of all other nodes are young, by as many beats as show that there is
// no loss. Another node takes leases of this one only after it has listened for TTL since its process began. So a young
// one takes none before it has heard of this node: its next beat comes after this node's, and tells it the time.
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

// StartDelay returns how long the others must hear of a process before it fetches, at most: if all nodes begin a new
// crawl together, it takes a few quick beats.
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

// MayFetch reports whether the node may begin requests: others take its leases only later. The order matters to a
// process that is frozen here: a beat that comes after a silence takes back heard before it sets sent, and the time is
// looked at last.
func (l *Leases) MayFetch() bool {
	sent := time.Duration(l.heartbeats.sent.Load())
	return l.heartbeats.heard.Load() && l.now()-sent < l.o.TTL*9/10
}

// void reports whether a lease may be taken from its holder, and whether all of its exchanges have ended: its process
// has said so, or the node was silent for TTL. The time without a beat ends not now but when this node sent a beat that
// it has seen since: the broker tells of beats in their order, so all that the holder sent before are known. A process
// that was frozen, with the holder's beats waiting in its connection, takes nothing by that rule.
func (b *heartbeats) void(lease *value) (void, ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := &b.nodes[lease.Node]
	ended = n.known && n.heartbeat.Ended && lease.Run == n.heartbeat.Run
	return b.watching && (ended || b.proved-n.last > b.l.o.TTL), ended
}

// alive reports whether the process that waits has beaten lately.
func (b *heartbeats) alive(w waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := &b.nodes[w.Node]
	return n.known && n.heartbeat.Run == w.Run && !n.heartbeat.Ended && b.l.now()-n.last < aliveHeartbeats*b.every()
}

// late reports whether a node that has beaten has not done so lately: it is not worth a question.
func (b *heartbeats) late(node int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := &b.nodes[node]
	return n.known && b.l.now()-n.last >= aliveHeartbeats*b.every()
}

// open reports whether leases that are new may be opened: all nodes have claimed theirs since the last loss.
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
			// A crawl that begins waits for no node that has never begun.
		default:
			return false
		}
	}
	b.guarded.Store(false)
	return b.heard.Load()
}

// lost notes that the broker may have lost leases.
func (b *heartbeats) lost() {
	b.guarded.Store(true)
	b.mu.Lock()
	b.event = b.l.now()
	b.events++
	for i := range b.nodes {
		b.nodes[i].since = 0
	}
	b.mu.Unlock()
	b.l.claimAll()
}

// watch follows the beats of the other nodes until ctx ends.
func (b *heartbeats) watch(ctx context.Context) {
	for ctx.Err() == nil {
		w, err := b.l.o.Transport.Watch(ctx, exchange.BucketNet, heartbeatPattern)
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

func (b *heartbeats) follow(ctx context.Context, w exchange.Watcher) {
	b.mu.Lock()
	now := b.l.now()
	for i := range b.nodes {
		b.nodes[i].last = now // silence counts while this node listens
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

// note notes the beat of a node.
func (b *heartbeats) note(v exchange.Value) {
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
	if n.process == nil || n.heartbeat.Run != is.Run {
		if n.process != nil {
			n.end()
		}
		n.process, n.end = context.WithCancel(context.Background())
	}
	if is.Ended {
		n.end()
	}
	n.known, n.heartbeat, n.last = true, is, b.l.now()
	if b.watching { // those before may be old
		n.since++
	}
}

// run writes the beats of this node until ctx ends. The error is ErrTwice.
func (b *heartbeats) run(ctx context.Context) error {
	b.connects.Store(b.l.o.Transport.State().Connects)
	b.began = b.l.now()
	b.lost() // whatever the broker has lost before this process began
	if err := b.first(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		state, highest := b.l.o.Transport.State(), b.highest.Load() // before the call: others go on meanwhile
		last, err := b.l.o.Transport.Last(ctx, exchange.BucketNet)
		if err != nil || !state.Connected {
			pause(ctx, b.l.short(retryAfter))
			continue
		}
		if state.Connects != b.connects.Load() || last < highest {
			b.lost()
			b.connects.Store(state.Connects)
			b.highest.Store(last)
		}
		b.l.updateRoom(ctx)
		if !b.l.allClaimed() {
			pause(ctx, b.l.short(recheckAfter))
			continue
		}
		if b.proves {
			b.proves = false
			b.heard.Store(true)
			b.ever.Store(true)
			if b.l.o.Opened != nil {
				b.l.o.Opened()
			}
		}
		set, err := b.write(ctx, false)
		switch {
		case errors.Is(err, ErrTwice):
			return err
		case err != nil:
			pause(ctx, b.l.short(retryAfter))
		case set: // set back: claim first, then beat again
			b.lost()
		default:
			pause(ctx, b.rest())
		}
	}
	return nil
}

// first takes over the beat of an earlier process of this node. It returns ErrTwice if that process runs.
func (b *heartbeats) first(ctx context.Context) error {
	var was, is heartbeat
	begun, beats := time.Duration(0), 0
	for ; ctx.Err() == nil; pause(ctx, b.every()/2) {
		v, err := b.l.o.Transport.Get(ctx, exchange.BucketNet, heartbeatKey(b.l.o.Node))
		switch {
		case errors.Is(err, exchange.ErrNotFound):
			return nil
		case err != nil:
			begun = 0
			continue
		case json.Unmarshal(v.Data, &is) == nil && is.Ended:
			b.rev = v.Revision
			return nil
		case begun == 0:
			begun, was = b.l.now(), is
		case is != was:
			// One may have been under way when that process was killed. A broker that was set back shows an older one.
			if is.Run == was.Run && is.Count > was.Count {
				beats++
			}
			if beats == 2 {
				return fmt.Errorf("exchange/lease: node %d: %w: its beat changes", b.l.o.Node, ErrTwice)
			}
			begun, was = b.l.now(), is
		}
		if b.rev = v.Revision; b.l.now()-begun > twiceHeartbeats*b.every() {
			return nil
		}
	}
	return nil
}

// write writes the beat of this node. set says that the broker has an older one: it has lost changes.
func (b *heartbeats) write(ctx context.Context, ended bool) (set bool, err error) {
	engine, sent := b.l.o.Transport, b.l.now()
	key := heartbeatKey(b.l.o.Node)
	b.sending(b.count+1, sent)
	data := encode(heartbeat{Run: b.l.o.Run, Count: b.count + 1, Ended: ended, Young: b.young() && !ended})
	rev := uint64(0)
	if b.rev == 0 {
		rev, err = engine.Create(ctx, exchange.BucketNet, key, data)
	} else {
		rev, err = engine.Update(ctx, exchange.BucketNet, key, data, b.rev)
	}
	switch {
	case err == nil:
		b.rev = rev
		b.count++
		b.saw(rev)
		b.acknowledged(sent)
		return false, nil
	case !errors.Is(err, exchange.ErrChanged) && !errors.Is(err, exchange.ErrExists):
		return false, err
	}
	v, err := engine.Get(ctx, exchange.BucketNet, key)
	if errors.Is(err, exchange.ErrNotFound) {
		b.rev = 0
		return true, nil
	} else if err != nil {
		return false, err
	}
	var is heartbeat
	if json.Unmarshal(v.Data, &is) == nil && is.Run != b.l.o.Run && b.rev != 0 && v.Revision > b.rev {
		return false, fmt.Errorf("exchange/lease: node %d: %w: it has written a beat", b.l.o.Node, ErrTwice)
	}
	// An earlier call that seemed to fail may have written this one.
	set = is.Run != b.l.o.Run || is.Count <= b.count
	if is.Run == b.l.o.Run && is.Ended == ended {
		b.count = max(b.count, is.Count) // so that the next one is another, which is how others see that this node lives
	}
	b.rev = v.Revision
	return set, nil
}

// sending notes that a beat is sent.
func (b *heartbeats) sending(count uint64, at time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sends[1].count != count {
		b.sends[0], b.sends[1] = b.sends[1], sending{count, at}
	}
}

// acknowledged notes that a beat sent at a time was acknowledged. After a silence that may have been too long, others may
// take leases until they have heard of this node again. So it claims its leases once more after some beats, and fetches
// nothing before.
func (b *heartbeats) acknowledged(sent time.Duration) {
	last := time.Duration(b.sent.Load())
	if last == 0 || sent-last > b.l.o.TTL*8/10 {
		b.heard.Store(false)
		b.streak, b.broke = 0, sent
	}
	b.sent.Store(int64(sent))
	b.streak++
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
		return nil
	}
	for try := 0; ; try++ {
		before := b.count
		_, err := b.write(ctx, true)
		if b.count > before {
			return nil
		}
		if try == 3 || ctx.Err() != nil {
			return fmt.Errorf("exchange/lease: the other nodes do not know that this one has ended: %w",
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
