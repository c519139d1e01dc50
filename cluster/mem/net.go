package mem

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"drumbeat/cluster"
)

// Defaults and bounds.
const (
	DefaultStreamBytes = 16 << 20
	DefaultBucketBytes = 4 << 20

	overhead   = 64              // bytes of a message or value besides its data
	maxIDs     = 1024            // ids that a stream remembers,
	idTime     = 2 * time.Minute // and how long
	maxUndo    = 256             // changes of a bucket that can be lost
	maxWaiting = 1024            // requests that wait for a place, of one kind
	callTime   = 10 * time.Second
)

// Options of a Net.
type Options struct {
	Seed        uint64
	StreamBytes int // limit of each stream; 0: DefaultStreamBytes
	BucketBytes int // limit of each bucket; 0: DefaultBucketBytes
	Faults      Faults
}

// Faults are the broker's faults. The numbers are probabilities, 0 to 1, for each message.
type Faults struct {
	Delay  time.Duration // maximum delay of a message, its acknowledgement, a request, an answer and a change
	Lose   float64       // a message is acknowledged and not stored
	Double float64       // a message is stored twice
	NoAck  float64       // a message is stored, and Publish returns ErrAway
	NoAsk  float64       // a request or its answer is lost
}

// Net is a broker.
type Net struct {
	o Options

	mu         sync.Mutex // guards all of the Net and its transports
	rng        *rand.Rand
	up         bool
	cut        map[int]bool // nodes without the network
	isFull     bool
	epoch      int64 // of the newest stream
	streams    map[int]*stream
	buckets    [cluster.Buckets]*bucket
	transports map[*Transport]bool
	paths      map[path]*[]*post // messages under way, in order
	counts     Counts
}

// path is a subject.
type path struct{ to, from int }

// Counts count the faults, and the messages that passed.
type Counts struct {
	Stored, Dropped, Lost, Doubled, NotAcked, Full, AsksLost int
}

// New returns a broker that is up.
func New(o Options) *Net {
	o.StreamBytes = cmp.Or(o.StreamBytes, DefaultStreamBytes)
	o.BucketBytes = cmp.Or(o.BucketBytes, DefaultBucketBytes)
	n := &Net{o: o, rng: rand.New(rand.NewPCG(o.Seed, 1)), up: true, cut: map[int]bool{}, streams: map[int]*stream{},
		transports: map[*Transport]bool{}, paths: map[path]*[]*post{}}
	for b := range n.buckets {
		n.buckets[b] = newBucket()
	}
	return n
}

// Transport returns a new transport for a node. Several transports may have one node.
func (n *Net) Transport(node int) *Transport {
	if err := cluster.CheckNode(node); err != nil {
		panic("BUG: " + err.Error())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	e := newTransport(n, node)
	n.transports[e] = true
	n.connect(e)
	return e
}

// Counts returns the counts so far.
func (n *Net) Counts() Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counts
}

// roll reports whether something of probability p happens.
func (n *Net) roll(p float64) bool { return p > 0 && n.rng.Float64() < p }

// delay returns a random time up to the longest delay.
func (n *Net) delay() time.Duration {
	if n.o.Faults.Delay <= 0 {
		return 0
	}
	return time.Duration(n.rng.Int64N(int64(n.o.Faults.Delay) + 1))
}

// later runs f under the lock: now, with the lock held by the caller, if d is 0; else in a timer.
func (n *Net) later(d time.Duration, f func()) {
	if d <= 0 {
		f()
		return
	}
	time.AfterFunc(d, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		f()
	})
}

// reachable reports whether a node can reach the broker.
func (n *Net) reachable(node int) bool { return n.up && !n.cut[node] }

// connect connects a transport if its node can reach the broker.
func (n *Net) connect(e *Transport) {
	if e.closed || e.state.Connected || !n.reachable(e.node) {
		return
	}
	e.state = cluster.State{Connected: true, Since: time.Now(), Connects: e.state.Connects + 1}
}

// disconnect breaks the connection of a transport. Some of its messages in flight still arrive.
func (n *Net) disconnect(e *Transport) {
	if !e.state.Connected {
		return
	}
	e.state.Connected, e.state.Since = false, time.Now()
	e.breakAll(cluster.ErrAway)
}

// sorted returns the transports in an order that does not depend on the map.
func (n *Net) sorted() []*Transport {
	return slices.SortedFunc(maps.Keys(n.transports), func(a, b *Transport) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.number, b.number))
	})
}

// Stop stops the broker: all connections break, and all messages in flight are lost.
func (n *Net) Stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.up = false
	for _, e := range n.sorted() {
		n.disconnect(e)
	}
	for _, posts := range n.paths {
		for _, p := range *posts {
			p.dropped = true
		}
	}
}

// Start restarts the broker with all its data. Transports connect, each after a delay.
func (n *Net) Start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.up = true
	for _, e := range n.sorted() {
		n.later(n.delay(), func() { n.connect(e) })
	}
}

// Cut disconnects a node from the network: its connections break, and it cannot connect.
func (n *Net) Cut(node int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[node] = true
	for _, e := range n.sorted() {
		if e.node == node {
			n.disconnect(e)
		}
	}
}

// Heal reconnects a node to the network. Its transports connect, each after a delay.
func (n *Net) Heal(node int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cut, node)
	for _, e := range n.sorted() {
		if e.node == node {
			n.later(n.delay(), func() { n.connect(e) })
		}
	}
}

// SetFull makes the broker refuse all messages with ErrFull, or accept them again.
func (n *Net) SetFull(full bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isFull = full
}

// LoseTail loses the newest count messages of a node's stream. The stream reuses their sequences. Readers of
// the stream are interrupted.
func (n *Net) LoseTail(to, count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.streams[to]; s != nil {
		s.loseTail(count)
		n.interrupt(func(f *feed) bool { return f.of == s })
	}
}

// Wipe loses all streams and buckets. Their next use makes new ones.
func (n *Net) Wipe() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.streams = map[int]*stream{}
	for b := range n.buckets {
		n.buckets[b] = newBucket()
	}
	n.interrupt(func(*feed) bool { return true })
}

// LoseValues undoes the last count changes of a bucket, 256 at most, and uses their revisions again. Watchers
// of the bucket are interrupted.
func (n *Net) LoseValues(b cluster.Bucket, count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	bucket := n.buckets[b]
	bucket.lose(count)
	n.interrupt(func(f *feed) bool { return f.of == bucket })
}

// Values returns the values of a bucket, by key, for tests that compare.
func (n *Net) Values(b cluster.Bucket) map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := map[string]string{}
	for key, v := range n.buckets[b].values {
		all[key] = string(v.data)
	}
	return all
}

func (n *Net) interrupt(which func(*feed) bool) {
	for e := range n.transports {
		for f := range e.feeds {
			if which(f) {
				f.end(cluster.ErrInterrupted)
			}
		}
	}
}

// stream returns the stream of a node. It makes missing streams.
func (n *Net) stream(to int) *stream {
	s := n.streams[to]
	if s == nil {
		n.epoch = max(n.epoch+1, time.Now().UnixNano())
		s = &stream{epoch: n.epoch, next: 1, changed: make(chan struct{}), limit: n.o.StreamBytes}
		n.streams[to] = s
	}
	return s
}
