package beast

import (
	"cmp"
	"fmt"
	"slices"

	"drumbeat/queue"
)

// movedQueue is a numbered queue whose URLs are to be placed again.
type movedQueue struct {
	n Number
	q *queue.Queue
}

// base returns the number above which Place puts URLs: s, or higher after a Replace.
func (b *Beast) base() Number { return max(b.current.load(), b.floor.load()) }

// Epoch returns the epoch of the ledgers.
func (b *Beast) Epoch() uint32 { return b.epoch.Load() }

// Replace begins to place all URLs after the current queue again, because the budget function has changed:
// MovedPeek returns them, in order of their queues, and each needs another check of its budget. From then on
// all ledgers count as new, in epoch epoch, and URLs go to numbers above those of the moved queues. The
// current queue is read to its end as it is.
//
// Replace reads and writes no records. moved is the number of URLs to place. ok is false while a round holds
// a pin: the caller tries again later. Replace must not run during Freeze.
func (b *Beast) Replace(epoch uint32) (moved int64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pinMu.Lock()
	defer b.pinMu.Unlock()
	if b.pins > 0 {
		return 0, false
	}
	top := b.base()
	for n, q := range b.queues {
		if n > b.current.load() {
			delete(b.queues, n)
			b.moved = append(b.moved, movedQueue{n, q})
			top = max(top, n)
		}
	}
	slices.SortFunc(b.moved, func(x, y movedQueue) int { return cmp.Compare(x.n, y.n) })
	for _, m := range b.moved {
		records, _ := m.q.Len()
		moved += records
	}
	b.floor.store(top)
	b.epoch.Store(epoch)
	return moved, true
}

// MovedPeek returns the oldest unread record of the moved queues, valid until MovedAdvance. ok is false if
// none is left.
func (b *Beast) MovedPeek() (rec []byte, ok bool, err error) {
	for {
		b.mu.RLock()
		if len(b.moved) == 0 {
			b.mu.RUnlock()
			return nil, false, nil
		}
		m := b.moved[0]
		b.mu.RUnlock()
		rec, ok, err = m.q.Peek()
		if err != nil {
			return nil, false, fmt.Errorf("beast: read queue %d: %w", m.n, err)
		}
		if ok {
			return rec, true, nil
		}
		b.mu.Lock()
		b.moved = b.moved[1:]
		b.retire(m.q)
		b.mu.Unlock()
	}
}

// MovedAdvance moves past the record that MovedPeek returned.
func (b *Beast) MovedAdvance() {
	b.mu.RLock()
	defer b.mu.RUnlock()
	q := b.moved[0].q
	q.Advance()
	b.unsifted.passed(q, 1)
}

// Moving reports whether moved queues are left.
func (b *Beast) Moving() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.moved) > 0
}
