package budgets

import (
	"context"

	"drumbeat/beast"
	"drumbeat/crawl/account"
	"drumbeat/crawl/space"
	"drumbeat/state"
	"drumbeat/weburl"
)

// When slots of a node of a cluster move to another one while the crawl runs, state/move.Give divides all stores but
// the queues of BEAST, which may have 100 GB: it only makes their records unsifted. The crawl looks at them while it
// runs. URLs of slots that have left go to the outbox for their node, the others to the end of their queue.

// Leaving moves URLs of slots that other nodes have got (sift.go).
type Leaving interface {
	Leaving() bool // the move of slots from this node has not ended
	// Leave moves a URL to another node if its slot has left; data is its record. It is part of a transaction.
	Leave(tx *account.Tx, data []byte, from state.Place) (left bool, _ error)
	// Share returns a function that returns the share of a PLD's hosts that this node visits; nil: all of them.
	Share() func(pld uint64) float64
	// HandOut sends a URL to the node that visits its host, if that is another one. It is part of a transaction.
	HandOut(tx *account.Tx, rec *weburl.Record, from state.Place) (sent bool, _ error)
	Left(tx *account.Tx) error // all URLs of the slots have left. It is part of a transaction.
}

// SiftLot is the number of records that one transaction looks at: some 100 µs, in which no checkpoint begins.
const SiftLot = 64

// sift looks at unsifted records of BEAST's queues, and ends the move of the slots when none is left. It belongs to the
// goroutine of the scan, which does nothing else until only the current queue has some: neither a scan nor a new
// placing of all URLs may meet a URL whose slot has left. It returns when it has waited or done a part; done is true if
// nothing is left to do.
func (b *Stage) sift(ctx context.Context) (done bool, err error) {
	if b.space.Pausing() != "" {
		account.Sleep(ctx, space.Every)
		return false, nil
	}
	b.run.Hook("sift")
	err = b.run.Transact(func(tx *account.Tx) error {
		if !b.Beast.Sifting() {
			return b.others.Leaving.Left(tx)
		}
		n, err := b.Beast.Sift(b.opt.SiftLot, b.stays(tx))
		done = n == 0
		return err
	})
	return done, err
}

// siftCurrent does the same in the current queue, for the goroutine that reads it.
func (b *Stage) siftCurrent() (did bool, err error) {
	if !b.Beast.Sifting() || b.space.Pausing() != "" {
		return false, nil
	}
	b.run.Hook("sift")
	err = b.run.Transact(func(tx *account.Tx) error {
		n, err := b.Beast.SiftCurrent(b.opt.SiftLot, b.stays(tx))
		did = n > 0
		b.sifted(tx)
		return err
	})
	return did, err
}

// stays returns a function that moves the URLs whose slots have left.
func (b *Stage) stays(tx *account.Tx) func(n beast.Number, rec []byte) (bool, error) {
	return func(n beast.Number, rec []byte) (bool, error) {
		from := state.PlaceBeast
		if n == beast.OverBudget {
			from = state.PlaceOverBudget
		}
		left, err := b.others.Leaving.Leave(tx, rec, from)
		return !left, err
	}
}

// leave moves a URL that Peek has returned, if its slot has left, or another node visits its host.
func (b *Stage) leave(tx *account.Tx, data []byte, rec *weburl.Record) (left bool, err error) {
	if b.Beast.Sifting() {
		defer b.sifted(tx)
		left, err = b.others.Leaving.Leave(tx, data, state.PlaceBeast)
	}
	if !left && err == nil {
		left, err = b.others.Leaving.HandOut(tx, rec, state.PlaceBeast)
	}
	if left && err == nil {
		b.Beast.Advance()
	}
	return left, err
}

// sifted wakes the goroutine of the scan when the last unsifted record has been read.
func (b *Stage) sifted(tx *account.Tx) {
	if !b.Beast.Sifting() {
		tx.Wake(b.wakeScan)
	}
}
