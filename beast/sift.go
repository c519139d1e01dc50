package beast

import (
	"fmt"
	"sync/atomic"

	"drumbeat/queue"
)

// Sifting finds URLs that must leave BEAST, because another node has their slots from now on, while the crawl runs.
// State.Sift makes the records of all queues unsifted. Each of them is looked at once, at the head of its queue: those
// that stay go to the end of the same queue, so that their order stays. Records of the current queue are also looked at
// when they are read.

// Sift makes all records of a state unsifted. It reads and writes none.
func (st *State) Sift() {
	if len(st.More) == 0 {
		st.V = unsiftedVersion
	} else {
		st.V = unsiftedLanesVersion
	}
	for i := range st.More {
		st.More[i].V = unsiftedVersion
	}
	for _, lane := range st.split() { // the lists are those of st, not copies
		for _, list := range [][]QueueState{lane.Queues, lane.Moved, lane.Failed} {
			for i := range list {
				list[i].Unsifted = list[i].State.Records
			}
		}
	}
}

// unsifted counts the unsifted records of queues, which are at their heads. The set of queues changes under Beast.mu
// only; the counts change under the same lock, held for reading, by the goroutine that reads the queue.
type unsifted struct {
	of    map[*queue.Queue]*atomic.Int64
	total atomic.Int64
}

// set makes the first n records of a queue unsifted. A repair may have left fewer.
func (u *unsifted) set(q *queue.Queue, n int64) {
	records, _ := q.Len()
	if n = min(n, records); n <= 0 {
		return
	}
	if u.of == nil {
		u.of = map[*queue.Queue]*atomic.Int64{}
	}
	u.of[q] = new(atomic.Int64)
	u.of[q].Store(n)
	u.total.Add(n)
}

// left returns how many records of a queue are unsifted.
func (u *unsifted) left(q *queue.Queue) int64 {
	if n := u.of[q]; n != nil {
		return n.Load()
	}
	return 0
}

// passed notes that n records at the head of a queue were read.
func (u *unsifted) passed(q *queue.Queue, n int64) {
	if left := u.of[q]; left != nil {
		n = min(n, left.Load())
		left.Add(-n)
		u.total.Add(-n)
	}
}

// drop forgets a queue.
func (u *unsifted) drop(q *queue.Queue) {
	u.passed(q, u.left(q))
	delete(u.of, q)
}

// Sifting reports whether unsifted records are left.
func (b *Beast) Sifting() bool { return b.unsifted.total.Load() > 0 }

// Sift looks at up to most unsifted records of one queue: keep reports whether a record, valid until it returns, stays
// in BEAST. It returns how many it has looked at; 0 if none is left but in the current queue. It belongs to the
// goroutine of the scan, and is part of a transaction.
func (b *Beast) Sift(most int, keep func(n Number, rec []byte) (bool, error)) (sifted int, err error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if !b.Sifting() {
		return 0, nil
	}
	n, q := b.nextUnsifted()
	if q == nil {
		return 0, nil
	}
	return b.sift(n, q, most, keep)
}

// nextUnsifted returns the queue after s with the lowest number that has unsifted records, and then those of QF.
func (b *Beast) nextUnsifted() (n Number, q *queue.Queue) {
	for _, m := range b.moved {
		if b.unsifted.left(m.q) > 0 {
			return m.n, m.q
		}
	}
	for number, of := range b.queues {
		if number > b.current.load() && b.unsifted.left(of) > 0 && (q == nil || number < n) {
			n, q = number, of
		}
	}
	if q != nil {
		return n, q
	}
	for _, of := range []*queue.Queue{b.old, b.overBudget} {
		if of != nil && b.unsifted.left(of) > 0 {
			return OverBudget, of
		}
	}
	return 0, nil
}

// SiftCurrent is Sift for the current queue. It belongs to the goroutine that calls Peek, between Advance and Peek.
func (b *Beast) SiftCurrent(most int, keep func(n Number, rec []byte) (bool, error)) (sifted int, err error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	n := b.current.load()
	q := b.queues[n]
	if q == nil || b.unsifted.left(q) == 0 {
		return 0, nil
	}
	return b.sift(n, q, most, keep)
}

func (b *Beast) sift(n Number, q *queue.Queue, most int, keep func(n Number, rec []byte) (bool, error)) (int, error) {
	fail := func(sifted int, err error) (int, error) {
		return sifted, fmt.Errorf("beast: look through queue %d: %w", n, err)
	}
	var own []byte
	last := int(min(int64(most), b.unsifted.left(q)))
	for sifted := range last {
		rec, ok, err := q.Peek()
		if err == nil && !ok {
			err = fmt.Errorf("%d unsifted records are not there", b.unsifted.left(q))
		}
		if err != nil {
			return fail(sifted, err)
		}
		own = append(own[:0], rec...)
		stays, err := keep(n, own)
		if err == nil && stays {
			err = q.Append(own)
		}
		if err != nil {
			return fail(sifted, err)
		}
		q.Advance()
		b.unsifted.passed(q, 1)
	}
	return last, nil
}

// Unsifted returns how many unsifted records are left.
func (l *Lanes) Unsifted() (n int64) {
	for _, b := range l.lanes {
		n += b.unsifted.total.Load()
	}
	return n
}

// Sifting reports whether unsifted records are left in a lane.
func (l *Lanes) Sifting() bool { return l.any((*Beast).Sifting) }

// Sift looks at unsifted records of the first lane that has some. See Beast.Sift.
func (l *Lanes) Sift(most int, keep func(n Number, rec []byte) (bool, error)) (sifted int, err error) {
	return l.sift(func(b *Beast) (int, error) { return b.Sift(most, keep) })
}

// SiftCurrent is Sift for the current queues of the lanes. See Beast.SiftCurrent.
func (l *Lanes) SiftCurrent(most int, keep func(n Number, rec []byte) (bool, error)) (sifted int, err error) {
	return l.sift(func(b *Beast) (int, error) { return b.SiftCurrent(most, keep) })
}

func (l *Lanes) sift(each func(*Beast) (int, error)) (sifted int, err error) {
	for _, b := range l.lanes {
		if sifted, err = each(b); sifted > 0 || err != nil {
			return sifted, err
		}
	}
	return 0, nil
}
