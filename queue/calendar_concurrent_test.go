package queue

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// saveCalendar makes a checkpoint of a calendar and reads it.
func saveCalendar(set disk.Set, c *Calendar, gen uint64) error {
	f := c.Freeze()
	tails, err := disk.CreateTails(set, gen)
	if err != nil {
		return err
	}
	m := &manifest{Gen: gen}
	if m.Calendar, err = f.Save(tails); err != nil {
		return err
	}
	if err := tails.Close(); err != nil {
		return err
	}
	if err := writeManifest(set, m); err != nil {
		return err
	}
	if err := walkSlots(set, "later", m.Calendar, func(int64, []byte) error { return nil }); err != nil {
		return err
	}
	return f.Commit()
}

// TestCalendarConcurrent runs appenders, the reader and checkpoints concurrently while the reader advances
// the clock. Each record must come out once and none early. When all are out, the next checkpoint must
// leave no file.
func TestCalendarConcurrent(t *testing.T) {
	const appenders, each = 4, 3000
	set, err := newSet(memfs.New(1))
	must(t, err)
	c, err := OpenCalendar(Options{Set: set, Name: "later", BlockBytes: 300}, nil)
	must(t, err)
	var clock atomic.Int64 // milliseconds since epoch
	// advance guards the clock from the reading of it to the end of an Append. An appender that the system
	// suspends in between would otherwise come with a time more than an hour old: the clock was set back.
	var advance sync.RWMutex
	now := func() time.Time { return epoch.Add(time.Duration(clock.Load()) * time.Millisecond) }
	var wg sync.WaitGroup
	for a := range appenders {
		wg.Go(func() {
			for i := range each {
				advance.RLock()
				at := now()
				due := at.Add(time.Duration(i%7) * time.Second)
				rec := fmt.Appendf(nil, "%d %d", a*each+i, due.UnixMilli())
				err := c.Append(at, due, Usual, rec)
				advance.RUnlock()
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var stop atomic.Bool
	gen := uint64(0)
	wg.Go(func() {
		for !stop.Load() && !t.Failed() {
			gen++
			if err := saveCalendar(set, c, gen); err != nil {
				t.Error(err)
			}
			runtime.Gosched()
		}
	})
	seen := map[int]bool{}
	for len(seen) < appenders*each && !t.Failed() {
		rec, ok, err := c.Peek(now(), Usual)
		must(t, err)
		if !ok {
			advance.Lock()
			clock.Add(300)
			advance.Unlock()
			runtime.Gosched()
			continue
		}
		var i int
		var due int64
		fmt.Sscanf(string(rec), "%d %d", &i, &due)
		if seen[i] || due > now().UnixMilli() {
			t.Fatalf("record %d due %d: given out before: %v, now %d", i, due, seen[i], now().UnixMilli())
		}
		seen[i] = true
		c.Advance(Usual)
	}
	stop.Store(true)
	wg.Wait()
	if _, ok, err := c.Peek(now().Add(time.Minute), Usual); ok || err != nil {
		t.Errorf("at the end: %v, %v", ok, err)
	}
	must(t, saveCalendar(set, c, gen+1))
	if names, err := Names(set, "later"); len(names) > 0 || err != nil {
		t.Errorf("left after the last checkpoint: %v, %v", names, err)
	}
}
