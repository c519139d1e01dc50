package account

import (
	"time"

	"drumbeat/state"
	"drumbeat/state/snapshot"
	"drumbeat/weburl"
)

// Transact runs f as one transaction (docs/how-it-works/architecture.md, "Transactions"). It holds the shared
// lock, so a checkpoint sees either all of the transaction or nothing. f must not wait for the network, for
// admission or for disk space. If f returns an error, a write failed after part of the transaction was done:
// the crawl stops and makes no further checkpoint.
func (r *Run) Transact(f func(tx *Tx) error) error {
	late, err := r.TransactQuietly(f)
	late.Tell()
	return err
}

// TransactQuietly is Transact, but leaves the lines of Tx.Late to the caller.
func (r *Run) TransactQuietly(f func(tx *Tx) error) (late LateLog, _ error) {
	asked := time.Now()
	defer func() { r.took(time.Since(asked)) }()
	r.TxLock.RLock()
	defer r.TxLock.RUnlock()
	if err := r.Failure(); err != nil {
		return nil, err
	}
	tx := r.transactions.Get().(*Tx)
	defer r.transactions.Put(tx)
	tx.wakes = tx.wakes[:0]
	tx.Nothing = false
	if err := f(tx); err != nil {
		tx.Reset()
		r.Fail(err)
		return nil, err
	}
	late, tx.Late = tx.Late, nil
	r.Accounts.Apply(tx)
	for _, s := range tx.wakes {
		s.Raise()
	}
	if !tx.Nothing {
		r.Changed()
	}
	return late, nil
}

// took records the duration of a transaction.
func (r *Run) took(d time.Duration) {
	for old := r.slowest.Load(); int64(d) > old && !r.slowest.CompareAndSwap(old, int64(d)); old = r.slowest.Load() {
	}
	if d >= snapshot.LeastStall {
		r.Times.Observe(snapshot.TimeStall, d)
	}
}

// TakeSlowest returns the duration of the slowest transaction since the last call, including its wait for the lock.
func (r *Run) TakeSlowest() time.Duration { return time.Duration(r.slowest.Swap(0)) }

// Waker wakes a stage after a transaction. Raise must not block.
type Waker interface{ Raise() }

// Tx collects the changes of one transaction. Accounts.Apply applies them under one hold of its mutex.
type Tx struct {
	Nothing bool    // the transaction changed nothing, so the pulse need not follow
	Late    LateLog // log lines, written once the lock is free
	TLS     string  // what is wrong with TLS, for the log of a refused URL

	moves     []move
	fetched   []fetched  // for the loads by slot
	named     weburl.Sum // keys of new host and PLD names
	counts    [state.NumCounters]int64
	dirty     bool
	status    int // first digit of the response's status, 0 if invalid; set if hasStatus
	code      int // its index in state.Codes
	hasStatus bool
	failed    state.Reason // why an attempt brought no final response; ReasonNone for none
	wakes     []Waker
}

// Wake raises w after the changes have been applied to the accounts.
func (tx *Tx) Wake(w Waker) { tx.wakes = append(tx.wakes, w) }

// Response counts a response by its status.
func (tx *Tx) Response(status int) {
	tx.status, tx.code, tx.hasStatus, tx.dirty = status/100, state.CodeAt(status), true, true
	if tx.status < 1 || tx.status > 5 {
		tx.status = 0
	}
}

// AttemptFailed counts an attempt for a URL that brought no final response.
func (tx *Tx) AttemptFailed(why state.Reason) {
	tx.Count(state.CountAttempts, 1)
	tx.failed = why
}

// Count adds n to counter c.
func (tx *Tx) Count(c state.Counter, n int64) { tx.counts[c] += n; tx.dirty = true }

// CountAll adds all counters of n.
func (tx *Tx) CountAll(n *[state.NumCounters]int64) {
	for c, n := range n {
		if n != 0 {
			tx.Count(state.Counter(c), n)
		}
	}
}

// Enter records a new unique URL in place to.
func (tx *Tx) Enter(key uint64, to state.Place) {
	tx.moves = append(tx.moves, move{key: key, from: asUnique, to: to})
}

// These stand for a place in a move: the URL enters as a new unique one, or its record enters or leaves the crawl as an
// order of the operator (crawl/orders), with a slot that moves here, or with one that moves to another node.
const (
	asUnique state.Place = -1 - iota
	asOrder
	asMoved
	asGiven
)

// Known records that another node, whose slot has moved here, knew a URL: it is unique here from now on.
func (tx *Tx) Known(key uint64) {
	tx.moves = append(tx.moves, move{key: key, from: asUnique, to: asMoved})
}

// Arrive records that a URL of a slot that has moved here is now in place to.
func (tx *Tx) Arrive(key uint64, to state.Place) {
	tx.moves = append(tx.moves, move{key: key, from: asMoved, to: to})
}

// Depart records that a URL of a slot that has moved to another node has left.
func (tx *Tx) Depart(key uint64, from state.Place) {
	tx.moves = append(tx.moves, move{key: key, from: from, to: asGiven})
}

// EnterOrder records the record of an order in place to.
func (tx *Tx) EnterOrder(key uint64, to state.Place) {
	tx.moves = append(tx.moves, move{key: key, from: asOrder, to: to})
}

// Leave records that the record of an order has left the crawl.
func (tx *Tx) Leave(key uint64, from state.Place, was state.Reason) {
	tx.moves = append(tx.moves, move{key: key, from: from, to: asOrder, was: was})
}

// Adopt records that the record of an order is now that of a new unique URL.
func (tx *Tx) Adopt(key uint64) {
	tx.moves = append(tx.moves, move{key: key, from: asUnique, to: asOrder})
}

// Move records that a URL changed its place.
func (tx *Tx) Move(key uint64, from, to state.Place) {
	tx.moves = append(tx.moves, move{key: key, from: from, to: to})
}

// MoveFor is Move with the reasons of both places; state.ReasonNone for none.
func (tx *Tx) MoveFor(key uint64, from, to state.Place, why, was state.Reason) {
	tx.moves = append(tx.moves, move{key: key, from: from, to: to, reason: why, was: was})
}

// NewName counts a new name of a host or PLD by its key.
func (tx *Tx) NewName(key uint64) { tx.named.Add(key) }

// Reset empties tx for its next use.
func (tx *Tx) Reset() {
	tx.moves, tx.fetched, tx.named, tx.TLS, tx.Late = tx.moves[:0], tx.fetched[:0], weburl.Sum{}, "", nil
	if tx.dirty {
		tx.counts = [state.NumCounters]int64{}
		tx.dirty, tx.hasStatus, tx.failed = false, false, state.ReasonNone
	}
}

type move struct {
	key      uint64
	from, to state.Place
	reason   state.Reason
	was      state.Reason
}
