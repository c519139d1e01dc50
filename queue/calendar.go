package queue

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MaxDelay is the longest delay of a Calendar. Longer delays are cut to it.
const MaxDelay = 60 * 24 * time.Hour

// clockSlack is the largest backward jump of the clock that is ignored, in milliseconds. A larger one means
// that the clock was set back.
const clockSlack = int64(time.Hour / time.Millisecond)

// Calendar keeps byte records until they are due. Records go to slots, each a Queue. A slot's edge is the
// time at which all its records become available. Due times are rounded up to a multiple of 1 s for delays
// under 8 s, of 2 s under 16 s, and so on. So a record is never early, and late by at most 1 s or a quarter
// of its delay. There are about a hundred slots.
//
// Due times are wall-clock times, and the clock may be wrong. If it shows a time more than an hour before
// the latest one seen, in this run or an earlier one, it was set back. The calendar then moves all slots
// back by the same amount, so that records still wait for the rest of their delay.
//
// Records are of two classes, with slots of their own, so a slot of many records in one class delays none of the
// other. The class is in the edge: whole seconds for Usual, one millisecond more for Bulk.
//
// Append, Len, NextDue and Freeze are safe for concurrent use. Peek and Advance are for one reader goroutine of each
// class.
type Calendar struct {
	opt     Options
	failure failure

	latest  atomic.Int64 // latest clock time seen, in unix milliseconds; lowered only under mu.Lock
	setBack atomic.Int64 // total by which the clock was set back, in milliseconds; changed only under mu.Lock

	// mu guards the fields below. Append holds it for reading, also while it writes a block, so that its
	// slot cannot be retired meanwhile.
	mu     sync.RWMutex
	bins   []*bin // by edge, ascending, without duplicates
	next   uint64 // number of the next slot
	dead   []*bin // read to the end; the next Commit destroys them
	frozen *FrozenCalendar

	peeked [classes]*bin // the slot of the record that Peek returned, by class; of its reader goroutine only
}

// Class is a class of records of a Calendar.
type Class int64

// The classes.
const (
	Usual   Class = iota // waits for a time, and then for little else
	Bulk                 // may be due in great numbers at once
	classes = iota
)

// class returns the class of the records of a slot. Edges of earlier releases may have any milliseconds.
func (s *bin) class() Class {
	if s.edge%1000 == int64(Bulk) {
		return Bulk
	}
	return Usual
}

// bin holds the records of one edge.
type bin struct {
	number uint64
	edge   int64 // unix milliseconds
	queue  *Queue
}

// edgeMillis returns the edge of the slot for a record due at due, in unix milliseconds.
func edgeMillis(now, due time.Time) int64 {
	delay := min(max(due.Sub(now), 0), MaxDelay)
	grain := int64(1)
	if seconds := uint64(delay / time.Second); seconds >= 8 {
		grain = 1 << (bits.Len64(seconds) - 3)
	}
	grain *= 1000
	at := now.Add(delay)
	millis := at.UnixMilli()
	if at.Nanosecond()%int(time.Millisecond) != 0 {
		millis++
	}
	rounded := millis - millis%grain
	if rounded < millis {
		rounded += grain
	}
	return rounded
}

// OpenCalendar opens the calendar in the state st, or an empty one if st is nil. It deletes the files that
// st does not name. opt applies to the queue of each slot.
func OpenCalendar(opt Options, st *CalendarState) (*Calendar, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	c := &Calendar{opt: opt.withDefaults()}
	if st == nil {
		st = &CalendarState{V: calendarVersion}
	}
	if err := st.validate(); err != nil {
		return nil, fmt.Errorf("queue: open %s: %w", opt.Name, err)
	}
	c.next = st.Next
	c.latest.Store(st.Clock)
	keep := map[string]bool{}
	for _, s := range st.Slots {
		keep[binName(opt.Name, s.Number)] = true
		opened, err := c.openBin(s.Number, s.Due, s.Queue)
		if err != nil {
			return nil, err
		}
		c.bins = append(c.bins, opened)
	}
	names, err := Names(opt.Set, opt.Name)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if keep[name] {
			continue
		}
		if err := Remove(opt.Set, name); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Calendar) openBin(number uint64, edge int64, st *State) (*bin, error) {
	opt := c.opt
	opt.Name = binName(c.opt.Name, number)
	q, err := Open(opt, st)
	if err != nil {
		return nil, err
	}
	return &bin{number: number, edge: edge, queue: q}, nil
}

// Append keeps a copy of rec, at most MaxRecord bytes, until due. A record that is already due becomes
// available within a second. It is safe for concurrent use.
func (c *Calendar) Append(now, due time.Time, class Class, rec []byte) error {
	edge := edgeMillis(now, due) + int64(class)
	for {
		if err := c.failure.get(); err != nil {
			return err
		}
		back := c.follow(now)
		if found, err := c.appendTo(edge, back, rec); found {
			return err
		}
		c.addSlot(edge, back)
	}
}

// follow records the clock time now, and moves the slots if the clock was set back. It returns setBack: an
// edge computed from now stays valid until setBack changes.
func (c *Calendar) follow(now time.Time) (back int64) {
	ms := now.UnixMilli()
	back = c.setBack.Load() // loaded first, so that the caller notices a later change
	for {
		latest := c.latest.Load()
		if ms+clockSlack < latest {
			break
		}
		if ms <= latest || c.latest.CompareAndSwap(latest, ms) {
			return back
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if by := (c.latest.Load() - ms) / 1000 * 1000; by > clockSlack { // whole seconds keep the classes
		for _, s := range c.bins {
			s.edge -= by
		}
		c.latest.Store(ms)
		c.setBack.Add(by)
	}
	return c.setBack.Load()
}

// SetBack returns the total by which the clock was set back since OpenCalendar. It is safe for concurrent
// use.
func (c *Calendar) SetBack() time.Duration { return time.Duration(c.setBack.Load()) * time.Millisecond }

// appendTo appends to the slot of an edge. found is false if there is no such slot, or if the slots were
// moved since follow returned back.
func (c *Calendar) appendTo(edge, back int64, rec []byte) (found bool, err error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	i, ok := c.find(edge)
	if !ok || c.setBack.Load() != back {
		return false, nil
	}
	err = c.bins[i].queue.Append(rec)
	if err != nil && !errors.Is(err, ErrTooLong) {
		err = c.failure.set("append to", c.opt.Name, err)
	}
	return true, err
}

func (c *Calendar) find(edge int64) (int, bool) {
	return slices.BinarySearchFunc(c.bins, edge, func(s *bin, edge int64) int { return cmp.Compare(s.edge, edge) })
}

func (c *Calendar) addSlot(edge, back int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := c.find(edge)
	if ok || c.setBack.Load() != back {
		return
	}
	opt := c.opt
	opt.Name = binName(c.opt.Name, c.next)
	s := &bin{number: c.next, edge: edge, queue: newQueue(opt)}
	c.next++
	c.bins = slices.Insert(c.bins, i, s)
}

// Peek returns a due record of a class, from the slot of the earliest edge. The record is valid until Advance. ok is
// false if no record is due. For one reader goroutine of the class.
func (c *Calendar) Peek(now time.Time, class Class) (rec []byte, ok bool, err error) {
	if s := c.peeked[class]; s != nil {
		return s.queue.Peek()
	}
	c.follow(now)
	for {
		if err := c.failure.get(); err != nil {
			return nil, false, err
		}
		c.mu.RLock()
		var s *bin
		i := slices.IndexFunc(c.bins, func(s *bin) bool { return s.class() == class })
		if i >= 0 && c.bins[i].edge <= now.UnixMilli() {
			s = c.bins[i]
		}
		c.mu.RUnlock()
		if s == nil {
			return nil, false, nil
		}
		rec, ok, err = s.queue.Peek()
		if err != nil {
			return nil, false, err
		}
		if ok {
			c.peeked[class] = s
			return rec, true, nil
		}
		c.retire(s)
	}
}

// retire removes a slot that is due and empty. It keeps the slot if a record was appended in the meantime.
func (c *Calendar) retire(s *bin) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, _ := s.queue.Len(); n > 0 {
		return
	}
	if i, ok := c.find(s.edge); ok && c.bins[i] == s {
		c.bins = slices.Delete(c.bins, i, i+1)
		c.dead = append(c.dead, s)
	}
}

// Advance moves past the record that Peek returned. It only changes memory. For the reader goroutine of the class.
func (c *Calendar) Advance(class Class) {
	if c.peeked[class] == nil {
		panic("BUG: queue: Advance of " + c.opt.Name + " without Peek")
	}
	c.peeked[class].queue.Advance()
	c.peeked[class] = nil
}

// NextDue returns the time when the earliest record of a class becomes available. ok is false if there is no record.
// It is safe for concurrent use.
func (c *Calendar) NextDue(now time.Time, class Class) (due time.Time, ok bool) {
	c.follow(now)
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, s := range c.bins {
		if s.class() != class {
			continue
		}
		if n, _ := s.queue.Len(); n > 0 {
			return time.UnixMilli(s.edge), true
		}
	}
	return time.Time{}, false
}

// UntilDue returns how long to wait from now for the next record of a class: at least 1 ms, and most if there is none.
func (c *Calendar) UntilDue(now time.Time, class Class, most time.Duration) time.Duration {
	due, any := c.NextDue(now, class)
	if !any {
		return most
	}
	return max(time.Millisecond, due.Sub(now))
}

// Len returns the number of records, due or not, and their total bytes. It is safe for concurrent use.
func (c *Calendar) Len() (records, bytes int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, s := range c.bins {
		n, b := s.queue.Len()
		records, bytes = records+n, bytes+b
	}
	return records, bytes
}

// DiskBytes returns the size of the segments of all slots. It is safe for concurrent use.
func (c *Calendar) DiskBytes() (n int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, s := range c.bins {
		n += s.queue.DiskBytes()
	}
	return n
}

// Bins returns the number of slots in use. It is safe for concurrent use.
func (c *Calendar) Bins() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.bins)
}

// Close closes the calendar. As after a crash, the next OpenCalendar finds only what was saved.
func (c *Calendar) Close() error {
	if err := c.failure.close(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.bins {
		if err := s.queue.Close(); err != nil {
			return err
		}
	}
	return nil
}
