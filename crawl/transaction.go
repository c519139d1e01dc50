package crawl

import (
	"time"

	"drumbeat/state"
	"drumbeat/weburl"
)

// transact runs f as one transaction (docs/ARCHITECTURE.md, "Transactions"). It holds the shared lock, so a
// checkpoint sees either all of the transaction or nothing. f must not wait for the network, for admission
// or for disk space. If f returns an error, a write failed after part of the transaction was done: the
// crawl stops and makes no further checkpoint.
func (e *engine) transact(f func(tx *transaction) error) error {
	late, err := e.transactQuietly(f)
	late.flush()
	return err
}

// transactQuietly is transact, but leaves the lines of transaction.late to the caller.
func (e *engine) transactQuietly(f func(tx *transaction) error) (late lateLog, _ error) {
	asked := time.Now()
	defer func() { e.took(time.Since(asked)) }()
	e.txLock.RLock()
	defer e.txLock.RUnlock()
	if err := e.failure(); err != nil {
		return nil, err
	}
	tx := e.transactions.Get().(*transaction)
	defer e.transactions.Put(tx)
	tx.wakes = tx.wakes[:0]
	tx.nothing = false
	if err := f(tx); err != nil {
		tx.reset()
		e.fail(err)
		return nil, err
	}
	late = tx.late
	e.acct.apply(tx)
	for _, s := range tx.wakes {
		s.raise()
	}
	if !tx.nothing {
		e.changed()
	}
	return late, nil
}

// transaction collects the changes of one transaction. accounts.apply applies them under one hold of its
// mutex.
type transaction struct {
	moves     []move
	named     weburl.Sum // keys of new host and PLD names
	counts    [state.NumCounters]int64
	dirty     bool
	status    int // first digit of the response's status, 0 if invalid; set if hasStatus
	code      int // its index in state.Codes
	hasStatus bool
	failed    state.Reason // why an attempt brought no final response; ReasonNone for none
	wakes     []waker
	tls       string  // what is wrong with TLS, for the log of a refused URL
	late      lateLog // log lines, written once the lock is free
	nothing   bool    // the transaction changed nothing, so the pulse need not follow
}

// wake raises w after the changes have been applied to the accounts.
func (tx *transaction) wake(w waker) { tx.wakes = append(tx.wakes, w) }

// response counts a response by its status.
func (tx *transaction) response(status int) {
	tx.status, tx.code, tx.hasStatus, tx.dirty = status/100, state.CodeAt(status), true, true
	if tx.status < 1 || tx.status > 5 {
		tx.status = 0
	}
}

// attemptFailed counts an attempt for a URL that brought no final response.
func (tx *transaction) attemptFailed(why state.Reason) {
	tx.count(state.CountAttempts, 1)
	tx.failed = why
}

// count adds n to counter c.
func (tx *transaction) count(c state.Counter, n int64) { tx.counts[c] += n; tx.dirty = true }

// enter records a new unique URL in place to.
func (tx *transaction) enter(key uint64, to state.Place) {
	tx.moves = append(tx.moves, move{key: key, from: asUnique, to: to})
}

// These stand for a place in a move: the URL enters as a new unique one, or its record enters or leaves the crawl as an
// order of the operator (orders.go).
const (
	asUnique state.Place = -1 - iota
	asOrder
)

// enterOrder records the record of an order in place to.
func (tx *transaction) enterOrder(key uint64, to state.Place) {
	tx.moves = append(tx.moves, move{key: key, from: asOrder, to: to})
}

// leave records that the record of an order has left the crawl.
func (tx *transaction) leave(key uint64, from state.Place, was state.Reason) {
	tx.moves = append(tx.moves, move{key: key, from: from, to: asOrder, was: was})
}

// adopt records that the record of an order is now that of a new unique URL.
func (tx *transaction) adopt(key uint64) {
	tx.moves = append(tx.moves, move{key: key, from: asUnique, to: asOrder})
}

// move records that a URL changed its place.
func (tx *transaction) move(key uint64, from, to state.Place) {
	tx.moves = append(tx.moves, move{key: key, from: from, to: to})
}

func (tx *transaction) reset() {
	tx.moves, tx.named, tx.tls, tx.late = tx.moves[:0], weburl.Sum{}, "", nil
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
