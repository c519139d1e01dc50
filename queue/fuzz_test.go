package queue

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/damage"
)

// fuzzAllocBytes bounds the heap memory for reading the small files of the fuzz tests: scratch and records
// of a block, plus the needs of the test itself.
const fuzzAllocBytes = 32 << 20

// sound is a checkpointed queue and calendar, with segments, gaps, a head and tails.
type sound struct {
	*damage.Case[editable]
	queue []string // the unread records
	later []string // the calendar's records, with their times
}

const soundRecords = 60

// editable is the part of a manifest that may be edited.
type editable struct {
	Queue    *State
	Calendar *CalendarState
}

func newSound(f testing.TB) *sound {
	mem := memfs.New(1)
	set, err := newSet(mem)
	must(f, err)
	q, err := Open(Options{Set: set, Name: "q", BlockBytes: 64, SegmentBytes: 6000}, nil)
	must(f, err)
	c, err := OpenCalendar(Options{Set: set, Name: "later", BlockBytes: 64}, nil)
	must(f, err)
	s, m, gen := &sound{}, &editable{}, uint64(0)
	for round := range 3 {
		for i := range soundRecords {
			must(f, q.Append(record(round*soundRecords+i, 40)))
			must(f, c.Append(time.UnixMilli(1000), time.UnixMilli(int64(1000*(i%7)*(round+1))), Usual, record(i, 40)))
		}
		for range soundRecords / 2 {
			_, _, err := q.Peek()
			must(f, err)
			q.Advance()
		}
		gen++
		tails, err := disk.CreateTails(set, gen)
		must(f, err)
		fq, fc := q.Freeze(), c.Freeze()
		m.Queue, err = fq.Save(tails)
		must(f, err)
		m.Calendar, err = fc.Save(tails)
		must(f, errors.Join(err, tails.Close(), fq.Commit(), fc.Commit()))
		must(f, disk.RemoveTails(set, func(g uint64) bool { return g == gen }))
	}
	s.queue, err = walkQueue(set, m)
	must(f, err)
	s.later, err = walkCalendar(set, m)
	must(f, err)
	s.Case = damage.NewCase(f, mem, paths[:], m, fuzzAllocBytes)
	if len(s.queue) != 3*soundRecords/2 || len(s.later) != 3*soundRecords || len(s.Files) < 6 {
		f.Fatalf("%d records, %d later, %d files", len(s.queue), len(s.later), len(s.Files))
	}
	return s
}

// FuzzFiles damages files and states of a queue and a calendar. With damaged files, Scan and the readers
// must return the original records or an error that names the file. With damaged states, they must end
// without a panic or a large allocation.
func FuzzFiles(f *testing.F) { damage.Fuzz(f, newSound(f).check) }

// TestStates applies every edit that damage.Edit offers to the states, one at a time.
func TestStates(t *testing.T) {
	s := newSound(t)
	s.Sweep(t, 8, *longFlag, s.check)
}

// check checks the property of FuzzFiles.
func (s *sound) check(t *testing.T, edits, flips []byte) {
	ways := [...]struct {
		how     string
		read    func(set disk.Set, m *editable) ([]string, error)
		written []string
	}{
		{"Scan", walkQueue, s.queue},
		{"ScanCalendar", walkCalendar, s.later},
		{"reading", readQueue, s.queue},
		{"taking", readCalendar, s.later},
	}
	var got [len(ways)][]string
	var errs [len(ways)]error
	changed := s.Use(t, edits, flips, func(fsys *memfs.FS, m *editable) error {
		if m.Queue == nil || m.Calendar == nil {
			return nil
		}
		for i, w := range ways {
			got[i], errs[i] = w.read(disk.Set{FS: fsys, Paths: paths[:]}, m)
		}
		return errors.Join(errs[:]...)
	})
	if len(edits) > 0 {
		return
	}
	for i, w := range ways {
		damage.Verdict(t, w.how, changed, errs[i], got[i], w.written)
	}
}

func walkQueue(set disk.Set, m *editable) (read []string, err error) {
	err = walk(set, "q", m.Queue, func(rec []byte) error { read = append(read, string(rec)); return nil })
	return read, err
}

func walkCalendar(set disk.Set, m *editable) (read []string, err error) {
	err = walkSlots(set, "later", m.Calendar, func(due int64, rec []byte) error {
		read = append(read, fmt.Sprint(due, string(rec)))
		return nil
	})
	return read, err
}

// readQueue opens the queue, reads it to its end, then appends and freezes.
func readQueue(set disk.Set, m *editable) (read []string, err error) {
	q, err := Open(Options{Set: set, Name: "q"}, m.Queue)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	for range 100 * soundRecords {
		rec, ok, err := q.Peek()
		if err != nil || !ok {
			return read, err
		}
		read = append(read, string(rec))
		q.Advance()
	}
	if err := q.Append([]byte("x")); err != nil {
		return nil, err
	}
	q.Freeze()
	return read, nil
}

// readCalendar opens the calendar and reads due records until none is left.
func readCalendar(set disk.Set, m *editable) (read []string, err error) {
	c, err := OpenCalendar(Options{Set: set, Name: "later"}, m.Calendar)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	now := time.UnixMilli(m.Calendar.Clock)
	for range 100 * soundRecords {
		due, ok := c.NextDue(now, Usual)
		if !ok {
			break
		}
		rec, ok, err := c.Peek(due, Usual)
		if err != nil || !ok {
			return read, err
		}
		read = append(read, fmt.Sprint(due.UnixMilli(), string(rec)))
		c.Advance(Usual)
	}
	return read, nil
}
