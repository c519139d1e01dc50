package lease

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"drumbeat/cluster"
	"drumbeat/internal/list"
	"drumbeat/polite"
)

// Options configure Leases.
type Options struct {
	Transport   cluster.Transport
	Polite      *polite.Scheduler
	Node, Nodes int
	Run         uint64        // identifies this process; not 0
	TTL         time.Duration // after which the leases of a silent node are void; LeastTTL to MostTTL
	Longest     time.Duration // no exchange takes longer
	New         bool          // the node has not crawled before
	// Before, if set, tells of the Leases of this process that have ended before these, and will tell the next ones. If
	// they ended a moment ago, these need not rest at their start.
	Before *Before
	// Clock runs while the machine sleeps; nil: the monotonic clock of package time.
	Clock func() time.Duration
	// Opened, if set, is called when waiting requests may begin.
	Opened func()
	// Problem, if set, receives problems that an operator should know.
	Problem func(text string, err error)
}

// Bounds of TTL.
const (
	LeastTTL = 3 * time.Second
	MostTTL  = 24 * time.Hour
)

// Times of leases; a tenth of TTL if that is less.
const (
	stay    = 10 * time.Second // a holder keeps a network in use that another node wants
	idleFor = 30 * time.Second // an unused network that no node wants is given back after it: most get URLs before

	// recheckUnused is the time between two checks whether a wanted network still has URLs.
	recheckUnused = 2 * time.Second

	askEvery     = 5 * time.Second        // between two polls of a waiting node
	askTimeout   = 2 * time.Second        // for an answer
	retryAfter   = time.Second            // after an error of the transport
	recheckAfter = 300 * time.Millisecond // after a lease had an unexpected holder
	endTimeout   = time.Second            // for exchanges in progress to end before a hand-over
	begun        = 50 * time.Millisecond  // between two checks whether all requests have begun
)

const (
	maxSteps  = 32      // calls of the transport at once: 40,000/s with 1 ms each
	maxAsks   = 8       // of these, questions to one node: a hung node answers none for askTimeout
	allAsks   = 24      // and to all nodes, so that some calls remain for free networks
	maxClaims = 100_000 // leases kept although this node has no URLs of the network
)

// ErrTwice means that another process runs for the same node. It comes wrapped.
var ErrTwice = errors.New("another process is crawling as this node")

// Leases are the leases of a node. All methods are safe for concurrent use.
type Leases struct {
	o          Options
	began      time.Time
	heartbeats heartbeats

	mu         sync.Mutex // guards the fields below; held during no call of the transport
	entries    map[netip.Addr]*entry
	queue      entryQueue    // entries without a running step, by the time of their next one
	line       waitLine      // entries that wait for another node, the oldest first
	held       int           // entries that do not wait
	claims     int           // entries made by requests of other nodes
	claimed    int           // entries that are still to be claimed again after a loss
	waits      uint64        // the last entry.wait
	reportedAt time.Duration // when a lack of room was last reported to Options.Problem; 0: never
	// Networks of others with exchanges of this node: when these were last reported to the holder.
	overdue map[netip.Addr]time.Duration
	asking  []int // unanswered questions, by node
	asks    int   // their sum
	steps   chan struct{}
	wake    chan struct{}
	figures Figures
}

// Figures describe the leases of a node.
type Figures struct {
	Held, Wanted int           // networks now
	Longest      time.Duration // longest wait for one of these; 0: none
	Taken        int64         // leases acquired
	HandedOver   int64         // of these, handed to another node
	// Of these, found in other hands: the node was silent for too long, or the broker lost changes.
	Lost       int64
	Unreadable int64        // leases whose value could not be decoded
	Replaced   int64        // of these, those that this node has taken
	Refused    int64        // leases refused for lack of room; each is tried again
	Collected  int64        // leases of ended and killed processes that this node has deleted
	Room       cluster.Room // of the broker for leases, at the last heartbeat
	// Nothing is fetched: no heartbeat was acknowledged for too long, or the others have not read one yet.
	Resting  bool
	Age      time.Duration // since New
	Starting bool          // resting since the start of the process
	Guarded  bool          // new leases wait until other nodes have claimed theirs, after a loss or at the start
	Losses   int64         // times that the broker had lost changes, by its revisions
}

type stage uint8

const (
	waiting stage = iota // another node has the lease
	held
	leaving // no request may begin; this node still has the lease
	gone    // the lease is lost; requests or exchanges are in progress
)

// entry is a network that has URLs here, or whose lease this node has.
type entry struct {
	waitLink
	net         netip.Addr
	key         string
	stage       stage
	due         time.Duration // of the next step
	stepped     time.Duration // when the last one ended
	index       int           // in the queue; -1: a step runs
	poked       bool          // another step is due at once
	unheard     bool          // the last step waits until the others have read this node's heartbeats
	claim       bool          // made by another node's request: this node may have the lease without wanting it
	reclaim     bool          // claim the lease again: the broker may have lost it
	exists      bool          // the lease had another holder, or a value, at the last check: of the steps
	shut        bool          // held, but closed until others have claimed theirs
	bring       polite.Holding
	kept        *value        // the lease's value, if the node's next process needs it
	rev         uint64        // of the lease's value
	wanted      time.Duration // since when it is in Leases.line
	since       time.Duration // when the lease was got
	left        time.Duration // when the stage leaving began
	unused      time.Duration // since when it has no URLs; 0: it has
	line        []waiter      // nodes that wait
	holder      int           // while waiting: the presumed holder, or nobody
	queuedUntil time.Duration // while waiting: until then, expect a hand-over from the holder
	wait        uint64        // while waiting: identifies this wait to the holder; 0: not yet told
	given       *given        // while waiting: the holder has handed the lease over
	unread      unread        // while waiting: a value that cannot be decoded; of the steps
}

// given is a lease handed to this process by its last holder.
type given struct {
	rev   uint64
	value *value
}

type (
	waitLink = list.Link[entry]
	waitLine = list.List[entry, *entry]
)

// New returns Leases. Call Run.
func New(o Options) *Leases {
	l := &Leases{o: o, began: time.Now(), entries: map[netip.Addr]*entry{}, overdue: map[netip.Addr]time.Duration{},
		asking: make([]int, o.Nodes), steps: make(chan struct{}, maxSteps), wake: make(chan struct{}, 1)}
	if l.o.Clock == nil {
		began := l.began
		l.o.Clock = func() time.Duration { return time.Since(began) }
	}
	l.heartbeats.l = l
	if b := o.Before; b != nil {
		switch l.heartbeats.before = *b; {
		case b.valid && b.alone:
			l.heartbeats.before.sent = int64(l.now())
			l.heartbeats.before.connects = o.Transport.State().Connects
		case b.valid:
			l.o.Clock = b.clock
		}
		if b.valid && b.run != 0 {
			l.resume(b)
		}
		*b = Before{}
	}
	l.heartbeats.nodes = make([]seen, o.Nodes)
	return l
}

// now is the time of the leases' clock. It is above 0.
func (l *Leases) now() time.Duration { return l.o.Clock() + time.Nanosecond }

// short shortens a time if TTL is short.
func (l *Leases) short(d time.Duration) time.Duration { return min(d, l.o.TTL/10) }

func (l *Leases) problem(text string, err error) {
	if l.o.Problem != nil {
		l.o.Problem(text, err)
	}
}

// ProcessContext returns a context that ends with the current process of another node: when its heartbeat
// says that it has ended, or is another process's. It does not end if the node has sent no heartbeat yet.
func (l *Leases) ProcessContext(node int) context.Context {
	l.heartbeats.mu.Lock()
	defer l.heartbeats.mu.Unlock()
	if life := l.heartbeats.nodes[node].process; life != nil {
		return life
	}
	return context.Background()
}

// Figures returns the figures, in constant time.
func (l *Leases) Figures() Figures {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.figures
	f.Held, f.Wanted = l.held, l.line.Len()
	if e := l.line.Front(); e != nil {
		f.Longest = l.now() - e.wanted
	}
	f.Age = time.Since(l.began)
	f.Resting, f.Starting, f.Guarded = !l.MayFetch(), !l.heartbeats.ever.Load(), l.heartbeats.guarded.Load()
	f.Losses = l.heartbeats.losses.Load()
	return f
}

// count counts a new entry. The caller has the lock.
func (l *Leases) count(e *entry) {
	if e.claim {
		l.claims++
	}
	switch {
	case e.stage != waiting:
		l.held++
	case !e.claim:
		e.wanted = l.now()
		l.line.PushBack(e)
	}
}

// discount takes back what count did. The caller has the lock.
func (l *Leases) discount(e *entry) {
	if e.claim {
		l.claims--
	}
	switch {
	case e.stage != waiting:
		l.held--
	case !e.claim:
		l.line.Remove(e)
	}
}

// enter puts an entry into a stage. The caller has the lock.
func (l *Leases) enter(e *entry, to stage) {
	l.discount(e)
	e.stage = to
	l.count(e)
}

// Run works until ctx ends. It returns an error if another process runs for this node: ErrTwice.
func (l *Leases) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop, err := l.o.Transport.Answer(askKind, l.answer)
	if err != nil {
		return fmt.Errorf("cluster/lease: %w", err)
	}
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { l.heartbeats.watch(ctx) })
	running.Go(func() { l.collect(ctx) })
	running.Go(func() { l.reportOverdue(ctx) })
	running.Go(func() {
		if err := l.heartbeats.run(ctx); err != nil {
			cancel(err)
		}
	})
	l.loop(ctx)
	for range maxSteps { // wait for the steps to end
		l.steps <- struct{}{}
	}
	running.Wait()
	if err := context.Cause(ctx); errors.Is(err, ErrTwice) {
		return err
	}
	return nil
}

// loop begins the steps that are due.
func (l *Leases) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-l.o.Polite.Wanted():
			l.scanWanted()
		case <-l.wake:
		case <-timer.C:
		}
		for {
			select {
			case <-l.o.Polite.Wanted(): // while the transport is slow, there is always a due step
				l.scanWanted()
			default:
			}
			e, wait := l.next()
			if e == nil {
				timer.Reset(wait)
				break
			}
			select {
			case l.steps <- struct{}{}:
			case <-ctx.Done():
				return
			}
			go func() {
				defer func() { <-l.steps }()
				l.step(ctx, e)
			}()
		}
	}
}

// scanWanted scans the networks that have received URLs.
func (l *Leases) scanWanted() {
	for _, net := range l.o.Polite.TakeWanted() {
		l.look(net, false)
	}
}

// next takes an entry with a due step from the queue, or returns the time to wait.
func (l *Leases) next() (*entry, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return nil, time.Minute
	}
	if wait := l.queue[0].due - l.now(); wait > 0 {
		return nil, min(wait, time.Minute)
	}
	return heap.Pop(&l.queue).(*entry), 0
}

// look makes a step of a network's entry due, and adds the entry if it is missing. claim is for requests of
// other nodes.
func (l *Leases) look(net netip.Addr, claim bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[net]
	if e == nil {
		if claim && l.claims >= maxClaims {
			return // the node that wants the network asks again
		}
		e = &entry{net: net, key: netKey(net), index: -1, claim: claim, holder: nobody}
		l.entries[net] = e
		l.count(e)
		heap.Push(&l.queue, e)
	}
	l.poke(e)
}

// poke makes the entry's next step due at once. The caller has the lock.
func (l *Leases) poke(e *entry) {
	if e.index < 0 {
		e.poked = true
		return
	}
	e.due = min(e.due, e.stepped+begun) // bounds the rate of nodes that hand a network back and forth
	heap.Fix(&l.queue, e.index)
	l.wakeUp()
}

// heard makes the steps due that wait until the others have read this node's heartbeats.
func (l *Leases) heard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		switch {
		case !e.unheard:
		case e.index < 0:
			e.poked = true
		default:
			e.due = l.now()
		}
	}
	heap.Init(&l.queue)
	l.wakeUp()
}

func (l *Leases) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// step runs the due step of an entry, and puts the entry back into the queue, or drops it.
func (l *Leases) step(ctx context.Context, e *entry) {
	wait, done := time.Duration(0), false
	switch e.stage {
	case waiting:
		wait, done = l.take(ctx, e)
	case held:
		wait = l.keep(ctx, e)
	case leaving:
		wait, done = l.leave(ctx, e)
	case gone:
		wait = l.drain(e)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.stepped = l.now()
	if e.stage == waiting {
		l.settle(e) // there is nothing to claim again
	}
	if done && !e.poked {
		delete(l.entries, e.net)
		l.discount(e)
		return
	}
	e.due = e.stepped + wait
	if e.poked {
		e.poked, e.due = false, e.stepped+begun
	}
	heap.Push(&l.queue, e)
	l.wakeUp()
}

// answer answers the requests of other nodes.
func (l *Leases) answer(_ context.Context, from int, data []byte) []byte {
	r, net, err := parseRequest(data, l.o.Nodes)
	if err != nil || from < 0 || from >= l.o.Nodes || from == l.o.Node {
		return []byte{answerNo}
	}
	if r.Op == opOpen {
		if l.noteReported(net, from, r.Open) {
			return []byte{answerLine}
		}
		return []byte{answerNo}
	}
	if r.Op == opWant && l.enqueue(net, waiter{from, r.Run, r.Wait}) || r.Op == opHand && l.accept(net, &r) {
		return []byte{answerLine}
	}
	l.look(net, true) // the lease may name this node
	return []byte{answerNo}
}

// enqueue adds a node to the queue for a held network.
func (l *Leases) enqueue(net netip.Addr, w waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[net]
	if e == nil {
		return false
	}
	if e.stage != held {
		l.forgetHolder(e) // w seems to know better
		return false
	}
	if i := slices.IndexFunc(e.line, func(o waiter) bool { return o.Node == w.Node }); i >= 0 {
		e.line[i] = w
		return true
	}
	e.line = append(e.line, w)
	l.poke(e)
	return true
}

// accept takes over a lease as its last holder wrote it, which saves two calls of the transport. It accepts
// only the wait that the holder knows: a late message may answer an earlier wait, and the lease may have
// moved since. Leases with back-offs are left to take, which writes their time.
func (l *Leases) accept(net netip.Addr, r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[net]
	if e == nil {
		return false
	}
	v := r.Value
	if e.stage != waiting || e.wait == 0 || e.wait != r.Wait || r.Rev == 0 || v == nil || v.Node != l.o.Node ||
		v.Run != l.o.Run || len(v.Rests) > 0 {
		l.forgetHolder(e)
		return false
	}
	e.given = &given{r.Rev, v}
	l.forgetHolder(e)
	l.poke(e)
	return true
}

// entryQueue is a heap of entries by due.
type entryQueue []*entry

func (q entryQueue) Len() int           { return len(q) }
func (q entryQueue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q entryQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *entryQueue) Push(x any) {
	e := x.(*entry)
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop implements heap.Interface.
func (q *entryQueue) Pop() any {
	e := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = nil
	*q = (*q)[:len(*q)-1]
	e.index = -1
	return e
}
