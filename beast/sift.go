package beast

import (
	"fmt"
	"slices"
	"sync/atomic"

	"drumbeat/queue"
)

// Sifting finds URLs that must leave BEAST, because another node has their slots from now on, while the crawl runs.
// State.Sift marks the records of all queues. Each of them is looked at once, at the head of its queue: those that stay
// go to the end of the same queue, so that their order stays. Records of the current queue are also looked at when they
// are read.

// Sift marks all records of a state. It reads and writes none.
func (st *State) Sift() {
	if len(st.More) == 0 {
		st.V = markedVersion
	} else {
		st.V = markedLanesVersion
	}
	for i := range st.More {
		st.More[i].V = markedVersion
	}
	for _, lane := range st.split() { // the lists are those of st, not copies
		for _, list := range [][]QueueState{lane.Queues, lane.Moved, lane.Failed} {
			for i := range list {
				list[i].Marked = list[i].State.Records
			}
		}
	}
}

// Sifts reports whether a state has marked records.
func (st *State) Sifts() bool {
	marked := func(qs QueueState) bool { return qs.Marked > 0 }
	return slices.ContainsFunc(st.split(), func(lane *State) bool {
		return slices.ContainsFunc(lane.Queues, marked) || slices.ContainsFunc(lane.Moved, marked) ||
			slices.ContainsFunc(lane.Failed, marked)
	})
}

// marks counts the marked records of queues, which are at their heads. The set of queues changes under Beast.mu only;
// the counts change under the same lock, held for reading, by the goroutine that reads the queue.
type marks struct {
	of    map[*queue.Queue]*atomic.Int64
	total atomic.Int64
}

// set marks the first n records of a queue. A repair may have left fewer.
func (m *marks) set(q *queue.Queue, n int64) {
	records, _ := q.Len()
	if n = min(n, records); n <= 0 {
		return
	}
	if m.of == nil {
		m.of = map[*queue.Queue]*atomic.Int64{}
	}
	m.of[q] = new(atomic.Int64)
	m.of[q].Store(n)
	m.total.Add(n)
}

// left returns how many records of a queue are marked.
func (m *marks) left(q *queue.Queue) int64 {
	if n := m.of[q]; n != nil {
		return n.Load()
	}
	return 0
}

// passed notes that n records at the head of a queue were read.
func (m *marks) passed(q *queue.Queue, n int64) {
	if left := m.of[q]; left != nil {
		n = min(n, left.Load())
		left.Add(-n)
		m.total.Add(-n)
	}
}

// drop forgets a queue.
func (m *marks) drop(q *queue.Queue) {
	m.passed(q, m.left(q))
	delete(m.of, q)
}

// Sifting reports whether marked records are left.
func (b *Beast) Sifting() bool { return b.marks.total.Load() > 0 }

// Sift looks at up to most marked records of one queue: keep reports whether a record, valid until it returns, stays in
// BEAST. It returns how many it has looked at; 0 if none is left but in the current queue. It belongs to the goroutine
// of the scan, and is part of a transaction.
func (b *Beast) Sift(most int, keep func(n Number, rec []byte) (bool, error)) (sifted int, err error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if !b.Sifting() {
		return 0, nil
	}
	n, q := b.nextMarked()
	if q == nil {
		return 0, nil
	}
	return b.sift(n, q, most, keep)
}

// nextMarked returns the queue after s with the lowest number that has marked records, and then those of QF.
func (b *Beast) nextMarked() (n Number, q *queue.Queue) {
	for _, m := range b.moved {
		if b.marks.left(m.q) > 0 {
			return m.n, m.q
		}
	}
	for number, of := range b.queues {
		if number > b.current.load() && b.marks.left(of) > 0 && (q == nil || number < n) {
			n, q = number, of
		}
	}
	if q != nil {
		return n, q
	}
	for _, of := range []*queue.Queue{b.old, b.overBudget} {
		if of != nil && b.marks.left(of) > 0 {
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
	if q == nil || b.marks.left(q) == 0 {
		return 0, nil
	}
	return b.sift(n, q, most, keep)
}

func (b *Beast) sift(n Number, q *queue.Queue, most int, keep func(n Number, rec []byte) (bool, error)) (int, error) {
	fail := func(sifted int, err error) (int, error) {
		return sifted, fmt.Errorf("beast: look through queue %d: %w", n, err)
	}
	var own []byte
	last := int(min(int64(most), b.marks.left(q)))
	for sifted := range last {
		rec, ok, err := q.Peek()
		if err == nil && !ok {
			err = fmt.Errorf("%d marked records are not there", b.marks.left(q))
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
		b.marks.passed(q, 1)
	}
	return last, nil
}

// Marked returns how many marked records are left.
func (l *Lanes) Marked() (n int64) {
	for _, b := range l.lanes {
		n += b.marks.total.Load()
	}
	return n
}

// Sifting reports whether marked records are left in a lane.
func (l *Lanes) Sifting() bool { return l.any((*Beast).Sifting) }

// Sift looks at marked records of the first lane that has some. See Beast.Sift.
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
