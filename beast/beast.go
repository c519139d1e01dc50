package beast

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"drumbeat/disk"
	"drumbeat/queue"
)

// DefaultQueuesMax is the default bound of the horizon. The paper's 8 billion pages need 16 queues, 80
// billion need 128.
const DefaultQueuesMax = 1024

// Options configures the queues. Set is required. Other zero fields mean the default.
type Options struct {
	Set          disk.Set
	Name         string // their directory under state/, used only by them; default "beast"
	QueuesMax    int    // maximum of the horizon; a power of 2; default DefaultQueuesMax
	SegmentBytes int64  // size of a queue's files; default that of package queue
	BlockBytes   int    // maximum tail buffer of a queue; default that of package queue

	pool *queue.Pool
}

func (o *Options) complete() error {
	if o.Name == "" {
		o.Name = "beast"
	}
	if o.QueuesMax == 0 {
		o.QueuesMax = DefaultQueuesMax
	}
	if o.pool == nil {
		o.pool = new(queue.Pool)
	}
	return o.Validate()
}

// Validate returns all errors, joined.
func (o *Options) Validate() error {
	var errs []error
	if o.Set.FS == nil || o.Set.Len() == 0 {
		errs = append(errs, errors.New("no directories"))
	}
	if o.QueuesMax < 0 || o.QueuesMax&(o.QueuesMax-1) != 0 || o.QueuesMax > 1<<20 {
		errs = append(errs, fmt.Errorf("%d queues: want a power of 2 up to 2^20", o.QueuesMax))
	}
	return errors.Join(errs...)
}

func (o *Options) queue(name string) queue.Options {
	return queue.Options{Set: o.Set, Name: name, SegmentBytes: o.SegmentBytes, BlockBytes: o.BlockBytes, Pool: o.pool}
}

// Beast is the set of queues. The package comment lists the rules for concurrent calls.
type Beast struct {
	opt Options

	// mu guards the fields down to retired. The atomic ones are written under it and may be read without it.
	// Append holds mu for reading, so that the set of queues and the generation of QF do not change
	// meanwhile. Whatever moves s, opens a queue, begins or ends a scan, or freezes holds it for writing:
	// for microseconds, or for the time it takes to open a queue.
	mu            sync.RWMutex
	current       atomicNumber            // s; Place reads it without the lock
	horizon       atomicNumber            // h; Place reads it without the lock
	lastScan      Number                  // s at the start of the last scan
	scans         int64                   // scans started
	epoch         atomic.Uint32           // ledgers of other epochs count as new
	floor         atomicNumber            // Place returns higher numbers; 0 until the first Replace
	moved         []movedQueue            // queues that Replace took out of use, to be read by MovedPeek
	queues        map[Number]*queue.Queue // s, and later ones that were appended to
	overBudget    *queue.Queue            // QF: the generation that takes URLs that fail
	overBudgetGen uint64
	old           *queue.Queue // the generation being scanned; nil without a scan
	oldGen        uint64
	retired       []*queue.Queue // read to the end; destroyed after the next checkpoint
	unsifted      unsifted

	// pinMu guards pins and lowest. It is taken inside mu, or alone.
	pinMu  sync.Mutex
	pins   int
	lowest atomicNumber // lowest number placed into while pinned; 0 = none; Place reads it without the lock

	placed    atomic.Int64 // records appended to numbered queues since Open
	scanMoved atomic.Int64 // value of placed at the start of the last scan
}

// atomicNumber is a Number that is written under a lock but may be read without it.
type atomicNumber struct{ v atomic.Int64 }

func (a *atomicNumber) load() Number   { return Number(a.v.Load()) }
func (a *atomicNumber) store(n Number) { a.v.Store(int64(n)) }

// Place decides where the next URL of a PLD goes, and updates the ledger. For the rule see the package
// comment. If an Append follows, call Place between Pin and its release.
func (b *Beast) Place(l *Ledger, budget uint32) Number { return b.place(l, budget, false) }

// PlacePart is Place for a URL that may use only a part of its PLD's budget, from 1 to MaxPart. All such URLs of
// a PLD share their part. They use none of what the other URLs have.
func (b *Beast) PlacePart(l *Ledger, part uint32) Number { return b.place(l, min(part, MaxPart), true) }

func (b *Beast) place(l *Ledger, budget uint32, part bool) Number {
	// Nearly all URLs go to QF, or to a queue no lower than earlier ones of the same round, which s cannot
	// reach. These need no lock (BenchmarkPlace: 11 ns instead of 65), and slightly old values of s and h
	// do no harm.
	was := *l
	n := l.place(budget, part, b.base(), b.horizon.load(), b.epoch.Load())
	if n == OverBudget {
		return n
	}
	if lowest := b.lowest.load(); lowest != 0 && n >= lowest {
		return n
	}
	*l = was
	return b.placeLowest(l, budget, part)
}

// placeLowest is Place for a number that may be the lowest of a round. s does not move meanwhile.
func (b *Beast) placeLowest(l *Ledger, budget uint32, part bool) Number {
	b.mu.RLock()
	defer b.mu.RUnlock()
	n := l.place(budget, part, b.base(), b.horizon.load(), b.epoch.Load())
	if n == OverBudget {
		return n
	}
	b.pinMu.Lock()
	defer b.pinMu.Unlock()
	if lowest := b.lowest.load(); b.pins > 0 && (lowest == 0 || n < lowest) {
		b.lowest.store(n)
	}
	return n
}

// Pin keeps s below every number that Place returns from now on, until release is called (once) and all
// other pins are released.
func (b *Beast) Pin() (release func()) {
	b.pinMu.Lock()
	defer b.pinMu.Unlock()
	b.pins++
	var once sync.Once
	return func() {
		once.Do(func() {
			b.pinMu.Lock()
			defer b.pinMu.Unlock()
			if b.pins--; b.pins == 0 {
				b.lowest.store(0)
			}
		})
	}
}

// Append appends a record to the queue that Place returned, or to QF. It panics with BUG if s has reached
// the number.
func (b *Beast) Append(n Number, rec []byte) error {
	b.mu.RLock()
	for n != OverBudget && b.queues[n] == nil {
		b.mu.RUnlock()
		if err := b.create(n); err != nil {
			return err
		}
		b.mu.RLock()
	}
	defer b.mu.RUnlock()
	if n == OverBudget {
		if err := b.overBudget.Append(rec); err != nil {
			return fmt.Errorf("beast: append to QF %d: %w", b.overBudgetGen, err)
		}
		return nil
	}
	if n <= b.current.load() {
		panic(fmt.Sprintf("BUG: beast: append to queue %d, but %d is being read", n, b.current.load()))
	}
	if err := b.queues[n].Append(rec); err != nil {
		return fmt.Errorf("beast: append to queue %d: %w", n, err)
	}
	b.placed.Add(1)
	return nil
}

func (b *Beast) create(n Number) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queues[n] != nil {
		return nil
	}
	if n <= b.current.load() {
		panic(fmt.Sprintf("BUG: beast: append to queue %d, but %d is being read", n, b.current.load()))
	}
	q, err := queue.Open(b.opt.queue(queueName(b.opt.Name, n)), nil)
	if err != nil {
		return fmt.Errorf("beast: create queue %d: %w", n, err)
	}
	b.queues[n] = q
	return nil
}

// Peek returns the oldest unread record of the current queue, valid until Advance. At the end of the queue
// it moves s. ok is false if there is no record now; Waiting returns the reason.
func (b *Beast) Peek() (rec []byte, ok bool, err error) {
	for {
		b.mu.RLock()
		n, q := b.current.load(), b.queues[b.current.load()]
		b.mu.RUnlock()
		if q != nil {
			rec, ok, err := q.Peek()
			if err != nil {
				return nil, false, fmt.Errorf("beast: read queue %d: %w", n, err)
			}
			if ok {
				return rec, true, nil
			}
		}
		if !b.moveOn() {
			return nil, false, nil
		}
	}
}

// Advance moves past the record that Peek returned.
func (b *Beast) Advance() {
	b.mu.RLock()
	defer b.mu.RUnlock()
	q := b.queues[b.current.load()]
	q.Advance()
	b.unsifted.passed(q, 1)
}

// moveOn moves s, whose queue has been read to the end, to the lowest non-empty queue. The old queue stays
// open until its files may be deleted, since an outstanding Frozen may still have to save it.
func (b *Beast) moveOn() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	next, wait := b.next()
	if wait != Ready {
		return false
	}
	for n, q := range b.queues {
		if n < next { // the current queue, and those that Sift has emptied
			delete(b.queues, n)
			b.retire(q)
		}
	}
	b.current.store(next)
	return true
}

// retire ends the use of a queue that has been read to its end. mu must be held for writing.
func (b *Beast) retire(q *queue.Queue) {
	b.unsifted.drop(q)
	b.retired = append(b.retired, q)
}

// next finds the queue to move to. The first Append to a queue creates it, and queues after s are read by Sift only.
// So existing queues are not empty, except those that Sift has emptied and one whose first Append is still running.
func (b *Beast) next() (Number, Wait) {
	var next Number
	for n, q := range b.queues {
		if n > b.current.load() && (next == 0 || n < next) {
			if records, _ := q.Len(); records > 0 {
				next = n
			}
		}
	}
	if next == 0 {
		return 0, Empty
	}
	b.pinMu.Lock()
	defer b.pinMu.Unlock()
	if lowest := b.lowest.load(); b.pins > 0 && lowest != 0 && next >= lowest {
		return 0, Pinned
	}
	return next, Ready
}

// Wait is the reason why Peek returns no record.
type Wait uint8

// States of the reader.
const (
	Ready  Wait = iota // a record is available
	Pinned             // a running round has placed into the next queue
	Empty              // all queues after s are empty
)

// AtEnd reports whether the current queue has been read to its end, so that the next Peek may move s.
func (b *Beast) AtEnd() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	q := b.queues[b.current.load()]
	if q == nil {
		return true
	}
	records, _ := q.Len()
	return records == 0
}

// Waiting returns the state in which a Peek would find the reader now.
func (b *Beast) Waiting() Wait {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if q := b.queues[b.current.load()]; q != nil {
		if records, _ := q.Len(); records > 0 {
			return Ready
		}
	}
	_, w := b.next()
	return w
}
