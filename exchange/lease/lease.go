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

	"drumbeat/exchange"
	"drumbeat/polite"
)

// Options configure Leases.
type Options struct {
	Engine      exchange.Engine
	Polite      *polite.Scheduler
	Node, Nodes int
	Run         uint64        // identifies this process; not 0
	TTL         time.Duration // after which the leases of a silent node are void; LeastTTL to MostTTL
	Longest     time.Duration // no exchange takes longer
	New         bool          // the node has not crawled before
	// Clock goes on while the machine sleeps; nil: the monotonic clock of package time.
	Clock func() time.Duration
	// Problem is told what an operator should know; nil: nobody.
	Problem func(text string, err error)
}

// Bounds of TTL.
const (
	LeastTTL = 3 * time.Second
	MostTTL  = 24 * time.Hour
)

// Times of leases; a tenth of TTL if that is less.
const (
	stay    = 10 * time.Second // a holder keeps a network that it uses, if another wants it
	idleFor = 10 * time.Second // an unused network is given back after it

	askAgain  = 5 * time.Second        // who waits asks again
	askFor    = 2 * time.Second        // the longest time for an answer
	tryAgain  = time.Second            // after an error of the engine
	lookAgain = 300 * time.Millisecond // after a lease was found to be another's than it seemed
	begun     = 50 * time.Millisecond  // between two looks whether all requests have begun
)

const (
	maxSteps  = 32      // calls of the engine at once: 40,000/s with 1 ms each
	maxClaims = 100_000 // leases that are looked after although this node has no URLs of the network
)

// ErrTwice means that another process runs for the same node. It comes wrapped.
var ErrTwice = errors.New("another process crawls as this node")

// Leases are the leases of a node. All methods are safe for concurrent use.
type Leases struct {
	o     Options
	began time.Time
	beats beats

	mu      sync.Mutex // guards the fields below; held during no call of the engine
	entries map[netip.Addr]*entry
	queue   entryQueue // those that no step is working on, by when the next one is due
	claims  int        // entries that were made by requests of others
	claimed int        // entries that are still to be claimed again after a loss
	steps   chan struct{}
	wake    chan struct{}
	figures Figures
}

// Figures describe the leases of a node.
type Figures struct {
	Held, Wanted int   // networks now
	Taken        int64 // leases that this node has got
	HandedOver   int64 // of these, handed to another node
	Lost         int64 // of these, found in other hands: the node was silent for too long, or the broker lost changes
	Resting      bool  // nothing is fetched, since no beat was acknowledged for too long
	Guarded      bool  // new leases wait until other nodes have claimed theirs, after a loss or at the start
}

type stage uint8

const (
	waiting stage = iota // the lease is another's
	held
	leaving // no request may begin; the lease is still this node's
	gone    // the lease is lost; requests or exchanges are in progress
)

// entry is a network that has URLs here, or whose lease is this node's.
type entry struct {
	net     netip.Addr
	key     string
	stage   stage
	due     time.Duration // of the next step
	stepped time.Duration // when the last one ended
	index   int           // in the queue; -1: a step works on it
	poked   bool          // another step is due at once
	claim   bool          // made by a request of another: this node may have the lease without wanting it
	again   bool          // claim the lease again: the broker may have lost it
	shut    bool          // held, but not open before others have claimed theirs
	bring   polite.Holding
	rev     uint64        // of the lease's value
	since   time.Duration // when the lease was got
	unused  time.Duration // since when it has no URLs; 0: it has
	line    []int         // nodes that wait
}

// New returns Leases. Call Run.
func New(o Options) *Leases {
	l := &Leases{o: o, began: time.Now(), entries: map[netip.Addr]*entry{}, steps: make(chan struct{}, maxSteps),
		wake: make(chan struct{}, 1)}
	if l.o.Clock == nil {
		l.o.Clock = func() time.Duration { return time.Since(l.began) }
	}
	l.beats.l = l
	l.beats.nodes = make([]seen, o.Nodes)
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

// Figures returns the figures.
func (l *Leases) Figures() Figures {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.figures
	for _, e := range l.entries {
		if e.stage == waiting {
			f.Wanted++
		} else {
			f.Held++
		}
	}
	f.Resting, f.Guarded = !l.MayFetch(), l.beats.guarded.Load()
	return f
}

// Run works until ctx ends. It returns an error if another process runs for this node: ErrTwice.
func (l *Leases) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop, err := l.o.Engine.Answer(askKind, l.answer)
	if err != nil {
		return fmt.Errorf("exchange/lease: %w", err)
	}
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { l.beats.watch(ctx) })
	running.Go(func() {
		if err := l.beats.run(ctx); err != nil {
			cancel(err)
		}
	})
	l.loop(ctx)
	for range maxSteps { // wait for the steps
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
			for _, net := range l.o.Polite.TakeWanted() {
				l.look(net, false)
			}
		case <-l.wake:
		case <-timer.C:
		}
		for {
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

// next takes an entry whose step is due from the queue, or returns how long to wait.
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

// look makes a step of a network's entry due, and makes the entry if there is none. claim is for requests of others.
func (l *Leases) look(net netip.Addr, claim bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[net]
	if e == nil {
		if claim {
			if l.claims >= maxClaims {
				return // who wants the network asks again
			}
			l.claims++
		}
		e = &entry{net: net, key: netKey(net), index: -1, claim: claim}
		l.entries[net] = e
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
	e.due = min(e.due, e.stepped+begun) // nodes that ask each other in turn do so at that rate
	heap.Fix(&l.queue, e.index)
	l.wakeUp()
}

func (l *Leases) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// step does what is due for an entry, and puts it back into the queue, or forgets it.
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
		if e.claim {
			l.claims--
		}
		return
	}
	e.due = e.stepped + wait
	if e.poked {
		e.poked, e.due = false, e.stepped+begun
	}
	heap.Push(&l.queue, e)
	l.wakeUp()
}

// take tries to get a lease.
func (l *Leases) take(ctx context.Context, e *entry) (wait time.Duration, done bool) {
	if !e.claim && !l.o.Polite.StillWanted(time.Now(), e.net) {
		return 0, true
	}
	engine := l.o.Engine
	mine := value{Node: l.o.Node, Run: l.o.Run}
	if !e.claim {
		rev, err := engine.Create(ctx, exchange.BucketNet, e.key, encode(mine))
		if err == nil {
			l.got(e, rev, nil)
			return 0, false
		}
		if !errors.Is(err, exchange.ErrExists) {
			return l.short(tryAgain), false
		}
	}
	v, err := engine.Get(ctx, exchange.BucketNet, e.key)
	if errors.Is(err, exchange.ErrNotFound) {
		return l.short(lookAgain), l.unclaim(e)
	} else if err != nil {
		return l.short(tryAgain), false
	}
	was, err := decode(v.Data, l.o.Nodes)
	if err != nil {
		l.problem("the lease of network "+e.net.String()+" is not understood: the network waits", err)
		return l.o.TTL, l.unclaim(e)
	}
	void, ended := true, true
	if was.Node != nobody && was.Node != l.o.Node {
		if void, ended = l.beats.void(was); void && !ended {
			was.Open = maxOpen // nothing is known of its exchanges
		}
	}
	switch {
	case void:
		if was.Node != l.o.Node && e.claim {
			return 0, l.unclaim(e)
		}
		rev, err := engine.Update(ctx, exchange.BucketNet, e.key, encode(mine), v.Revision)
		switch {
		case err == nil:
			l.got(e, rev, was)
			return 0, false
		case errors.Is(err, exchange.ErrChanged):
			return l.short(lookAgain), false
		}
		return l.short(tryAgain), false
	case l.unclaim(e):
		return 0, true
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	answer, err := engine.Ask(ctx, was.Node, askKind, request(opWant, e.key))
	switch {
	case err != nil:
		return l.short(askAgain), false
	case len(answer) == 1 && answer[0] == answerLine:
		return l.short(askAgain), false
	}
	return l.short(lookAgain), false
}

// unclaim ends a claim: the lease is not this node's. It reports whether the entry is to be forgotten; with URLs in RAM it
// is one like any other.
func (l *Leases) unclaim(e *entry) bool {
	if !e.claim {
		return false
	}
	if !l.o.Polite.StillWanted(time.Now(), e.net) {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.claim = false
	l.claims--
	return false
}

// got notes that the lease is this node's. was is the value before; nil: none.
func (l *Leases) got(e *entry, rev uint64, was *value) {
	l.beats.saw(rev)
	e.bring = polite.Holding{}
	l.mu.Lock()
	e.stage, e.rev, e.since, e.unused, e.shut = held, rev, l.now(), 0, true
	if was != nil {
		e.bring = was.holding(l.o.Longest)
		for _, node := range was.Line {
			if node != l.o.Node && !slices.Contains(e.line, node) {
				e.line = append(e.line, node)
			}
		}
	}
	l.figures.Taken++
	l.mu.Unlock()
}

// keep looks after a lease of this node.
func (l *Leases) keep(ctx context.Context, e *entry) (wait time.Duration) {
	l.mu.Lock()
	again := e.again
	l.mu.Unlock()
	if again {
		if ok, wait := l.claimAgain(ctx, e); !ok {
			return wait
		}
	}
	now := l.now()
	if e.shut {
		if !l.beats.open() {
			return l.short(lookAgain)
		}
		e.shut = false
		e.since = now + l.o.Polite.Hold(time.Now(), e.net, e.bring)
		e.bring = polite.Holding{}
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
	// What is given up while the broker is away could not be had again.
	if end <= now && l.o.Engine.State().Connected {
		l.o.Polite.Release(time.Now(), e.net)
		l.mu.Lock()
		e.stage = leaving
		l.mu.Unlock()
		return 0
	}
	return min(max(end-now, l.short(lookAgain)), l.short(idleFor))
}

// leave gives a lease to the next node in the line, or back, once all requests have begun.
func (l *Leases) leave(ctx context.Context, e *entry) (wait time.Duration, done bool) {
	state := l.o.Polite.Lease(time.Now(), e.net)
	if state.Pending > 0 {
		return begun, false
	}
	next := value{Node: nobody, Open: min(state.Open, maxOpen), Rests: rests(l.o.Polite.Rests(time.Now(), e.net, maxRests))}
	l.mu.Lock()
	for len(e.line) > 0 && next.Node == nobody {
		if l.beats.lives(e.line[0]) {
			next.Node = e.line[0]
		}
		e.line = e.line[1:]
	}
	next.Line = slices.Clone(e.line)
	l.mu.Unlock()
	var err error
	if next.Node == nobody && next.Open == 0 && len(next.Rests) == 0 {
		err = l.o.Engine.Delete(ctx, exchange.BucketNet, e.key, e.rev)
	} else {
		var rev uint64
		if rev, err = l.o.Engine.Update(ctx, exchange.BucketNet, e.key, encode(next), e.rev); err == nil {
			l.beats.saw(rev)
		}
	}
	switch {
	case err == nil && next.Node != nobody:
		l.mu.Lock()
		l.figures.HandedOver++
		l.mu.Unlock()
		ctx, cancel := context.WithTimeout(ctx, askFor)
		defer cancel()
		// If that is lost, the next node finds its name when it asks again.
		_, _ = l.o.Engine.Ask(ctx, next.Node, askKind, request(opHand, e.key))
	case err == nil:
	case errors.Is(err, exchange.ErrChanged):
		l.mu.Lock() // the call before has done it, or the lease is lost
		e.stage, e.line = gone, nil
		l.mu.Unlock()
		return 0, false
	default:
		l.mu.Lock()
		if next.Node != nobody {
			e.line = slices.Insert(e.line, 0, next.Node)
		}
		l.mu.Unlock()
		return l.short(tryAgain), false
	}
	l.mu.Lock()
	l.settle(e)
	e.stage, e.line = waiting, nil
	l.mu.Unlock()
	return 0, l.unclaimLeft(e)
}

// drain waits until nothing is in progress any more in a network whose lease is lost: the next holder does not know of it.
func (l *Leases) drain(e *entry) (wait time.Duration) {
	if l.o.Polite.Lease(time.Now(), e.net).Open > 0 {
		return begun
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.stage = waiting
	return 0
}

// unclaimLeft reports whether nothing is left to do for a network whose lease was given away.
func (l *Leases) unclaimLeft(e *entry) bool {
	if e.claim {
		return l.unclaim(e)
	}
	return !l.o.Polite.StillWanted(time.Now(), e.net)
}

// claimAgain makes sure of a lease after the broker may have lost changes. ok is false if the lease is another's now, or
// if it must be tried again.
func (l *Leases) claimAgain(ctx context.Context, e *entry) (ok bool, wait time.Duration) {
	engine := l.o.Engine
	mine := encode(value{Node: l.o.Node, Run: l.o.Run})
	rev, err := engine.Create(ctx, exchange.BucketNet, e.key, mine)
	if errors.Is(err, exchange.ErrExists) {
		v, err := engine.Get(ctx, exchange.BucketNet, e.key)
		if err != nil {
			return false, l.short(tryAgain)
		}
		was, err := decode(v.Data, l.o.Nodes)
		if err != nil || was.Node != l.o.Node || was.Run != l.o.Run {
			l.o.Polite.Release(time.Now(), e.net)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.figures.Lost++
			e.stage, e.line, e.shut = gone, nil, false
			return false, 0
		}
		if rev, err = engine.Update(ctx, exchange.BucketNet, e.key, mine, v.Revision); err != nil {
			return false, l.short(lookAgain)
		}
	} else if err != nil {
		return false, l.short(tryAgain)
	}
	l.beats.saw(rev)
	l.mu.Lock()
	defer l.mu.Unlock()
	e.rev = rev
	l.settle(e)
	return true, 0
}

// claimAll makes all leases be claimed again.
func (l *Leases) claimAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.stage == waiting && e.index >= 0 {
			continue
		}
		// A step may be getting the lease just now, from a broker that has lost it since.
		if !e.again {
			e.again = true
			l.claimed++
		}
		l.poke(e)
	}
}

// settle notes that a lease is sure again, or gone. The caller has the lock.
func (l *Leases) settle(e *entry) {
	if e.again {
		e.again = false
		l.claimed--
	}
}

// allClaimed reports whether all leases have been claimed again.
func (l *Leases) allClaimed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claimed == 0
}

// answer answers the requests of other nodes.
func (l *Leases) answer(_ context.Context, from int, data []byte) []byte {
	op, _, net, err := parseRequest(data)
	if err != nil || from < 0 || from >= l.o.Nodes || from == l.o.Node || op != opWant && op != opHand {
		return []byte{answerNo}
	}
	if op == opWant {
		l.mu.Lock()
		if e := l.entries[net]; e != nil && e.stage == held {
			if !slices.Contains(e.line, from) {
				e.line = append(e.line, from)
				l.poke(e)
			}
			l.mu.Unlock()
			return []byte{answerLine}
		}
		l.mu.Unlock()
	}
	l.look(net, true) // the lease may name this node
	return []byte{answerNo}
}

// End says that no exchange is in progress and none will begin, so that other nodes may take this node's leases at once.
// Run must have returned.
func (l *Leases) End(ctx context.Context) error {
	for _, e := range l.entries {
		if e.stage != held && e.stage != leaving {
			continue
		}
		if r := l.o.Polite.Rests(time.Now(), e.net, maxRests); len(r) > 0 {
			v := value{Node: nobody, Rests: rests(r)}
			if _, err := l.o.Engine.Update(ctx, exchange.BucketNet, e.key, encode(v), e.rev); err != nil &&
				!errors.Is(err, exchange.ErrChanged) {
				return fmt.Errorf("exchange/lease: end: %w", err)
			}
		}
	}
	return l.beats.end(ctx)
}

// entryQueue is a heap of entries by due.
type entryQueue []*entry

func (q entryQueue) Len() int           { return len(q) }
func (q entryQueue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q entryQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push is that of heap.Interface.
func (q *entryQueue) Push(x any) {
	e := x.(*entry)
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop is that of heap.Interface.
func (q *entryQueue) Pop() any {
	e := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = nil
	*q = (*q)[:len(*q)-1]
	e.index = -1
	return e
}
