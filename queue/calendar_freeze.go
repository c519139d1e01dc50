package queue

import (
	"cmp"
	"fmt"
	"slices"

	"drumbeat/disk"
)

// calendarVersion is the version of CalendarState.
const calendarVersion = 2

// CalendarState is the state of a calendar at a Freeze. It belongs in a manifest.
type CalendarState struct {
	// V is the version, 2.
	V int
	// Clock is the latest clock time seen, in unix milliseconds.
	Clock int64
	// Next is the number of the next slot.
	Next uint64
	// Slots holds the slots, by due time.
	Slots []BinState `json:",omitempty"`
}

// BinState is one slot of a CalendarState.
type BinState struct {
	// Number is the slot's number, part of its files' names.
	Number uint64
	// Due is the time at which its records become available, in unix milliseconds.
	Due int64
	// Queue is the state of the slot's queue.
	Queue *State
}

// maxMillis bounds times so that their differences cannot overflow. It is in the year 10889.
const maxMillis = 1 << 48

func (st *CalendarState) validate() error {
	if st.V != calendarVersion {
		return fmt.Errorf("state has version %d; this program reads version %d", st.V, calendarVersion)
	}
	if st.Clock < 0 || st.Clock > maxMillis {
		return fmt.Errorf("invalid time %d", st.Clock)
	}
	seen := make(map[uint64]bool, len(st.Slots))
	for i, s := range st.Slots {
		if s.Queue == nil || s.Number >= st.Next || seen[s.Number] || i > 0 && s.Due <= st.Slots[i-1].Due ||
			s.Due < -maxMillis || s.Due > maxMillis {
			return fmt.Errorf("invalid slot %d, due %d", s.Number, s.Due)
		}
		seen[s.Number] = true
	}
	return nil
}

// NextBin returns the name of the queue that AddBin adds next to the calendar of a name.
func (st *CalendarState) NextBin(name string) string { return binName(name, st.Next) }

// AddBin adds the queue of NextBin, whose records are due at due, in unix milliseconds. If there is a slot of that
// time, it is due up to a second later for each one.
func (st *CalendarState) AddBin(due int64, q *State) {
	at, found := st.find(due)
	for ; found; at, found = st.find(due) {
		due += 1000 // keeps the class
	}
	st.Slots = slices.Insert(st.Slots, at, BinState{Number: st.Next, Due: due, Queue: q})
	st.Next++
}

func (st *CalendarState) find(due int64) (int, bool) {
	return slices.BinarySearchFunc(st.Slots, due, func(s BinState, due int64) int { return cmp.Compare(s.Due, due) })
}

// FrozenCalendar is the state of a calendar at one moment. Save and Commit may run while the calendar is in
// use. It is for one goroutine.
type FrozenCalendar struct {
	c     *Calendar
	st    CalendarState
	slots []*Frozen
	dead  []*bin
}

// Freeze captures the current state, in memory only. See Queue.Freeze.
func (c *Calendar) Freeze() *FrozenCalendar {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frozen != nil {
		panic("BUG: queue: second Freeze of " + c.opt.Name + " before Commit of the first")
	}
	f := &FrozenCalendar{c: c, dead: c.dead,
		st: CalendarState{V: calendarVersion, Clock: c.latest.Load(), Next: c.next}}
	c.dead = nil
	for _, s := range c.bins {
		f.slots = append(f.slots, s.queue.Freeze())
		f.st.Slots = append(f.st.Slots, BinState{Number: s.number, Due: s.edge})
	}
	c.frozen = f
	return f
}

// Save writes the records in RAM to the tail files and returns the state for the manifest. The calendar may
// be in use meanwhile.
func (f *FrozenCalendar) Save(tails *disk.Tails) (*CalendarState, error) {
	if err := f.c.failure.get(); err != nil {
		return nil, err
	}
	for i, s := range f.slots {
		st, err := s.Save(tails)
		if err != nil {
			return nil, f.c.failure.set("save", f.c.opt.Name, err)
		}
		f.st.Slots[i].Queue = st
	}
	return &f.st, nil
}

// Commit deletes the files that the state no longer names. Call it once the manifest is durable.
func (f *FrozenCalendar) Commit() error {
	for _, s := range f.slots {
		if err := s.Commit(); err != nil {
			return f.c.failure.set("commit", f.c.opt.Name, err)
		}
	}
	for _, s := range f.dead {
		if err := s.queue.Destroy(); err != nil {
			return f.c.failure.set("commit", f.c.opt.Name, err)
		}
	}
	f.c.mu.Lock()
	f.c.frozen = nil
	f.c.mu.Unlock()
	return nil
}
