package queue

import (
	"fmt"

	"drumbeat/disk"
)

// calendarVersion is the version of CalendarState.
const calendarVersion = 1

// CalendarState is a calendar at the moment of a Freeze, for a manifest.
type CalendarState struct {
	// V is the version, 1.
	V int
	// Next is the number of the next slot.
	Next uint64
	// Slots has the slots that hold records, by due time.
	Slots []SlotState `json:",omitempty"`
}

// SlotState is one slot of a CalendarState.
type SlotState struct {
	// Number is the slot's number, which its files' names have.
	Number uint64
	// Due is when its records are given out, in unix milliseconds.
	Due int64
	// Queue is the queue of its records.
	Queue *State
}

func (st *CalendarState) validate() error {
	if st.V != calendarVersion {
		return fmt.Errorf("state has version %d; this program knows %d", st.V, calendarVersion)
	}
	seen := make(map[uint64]bool, len(st.Slots))
	for i, s := range st.Slots {
		if s.Queue == nil || s.Number >= st.Next || seen[s.Number] || i > 0 && s.Due <= st.Slots[i-1].Due {
			return fmt.Errorf("impossible slot %d, due %d", s.Number, s.Due)
		}
		seen[s.Number] = true
	}
	return nil
}

// FrozenCalendar is a calendar at one moment, to be saved and committed while the calendar goes on. It is for
// one goroutine.
type FrozenCalendar struct {
	c     *Calendar
	st    CalendarState
	slots []*Frozen
	dead  []*slot
}

// Freeze notes the present state, in memory only. See Queue.Freeze.
func (c *Calendar) Freeze() *FrozenCalendar {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frozen != nil {
		panic("BUG: queue: second Freeze of " + c.opt.Name + " before Commit of the first")
	}
	f := &FrozenCalendar{c: c, dead: c.dead, st: CalendarState{V: calendarVersion, Next: c.next}}
	c.dead = nil
	for _, s := range c.slots {
		f.slots = append(f.slots, s.queue.Freeze())
		f.st.Slots = append(f.st.Slots, SlotState{Number: s.number, Due: s.edge})
	}
	c.frozen = f
	return f
}

// Save writes what was in RAM to the tail files and returns the state for the manifest. It may run while the
// calendar is being used.
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

// Commit deletes the files that the state no longer names. It is called when the manifest is durable.
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

// WalkCalendar calls fn for each record of the calendar name in state st with the time when it will be given
// out, by that time, and changes nothing. See Walk.
func WalkCalendar(
	set disk.Set, name string, st *CalendarState, fn func(dueMillis int64, rec []byte) error,
) error {
	if err := st.validate(); err != nil {
		return fmt.Errorf("queue: walk %s: %w", name, err)
	}
	for _, s := range st.Slots {
		each := func(rec []byte) error { return fn(s.Due, rec) }
		if err := Walk(set, slotName(name, s.Number), s.Queue, each); err != nil {
			return err
		}
	}
	return nil
}
