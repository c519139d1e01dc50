package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/damage"
)

// fuzzAllocBytes bounds what reading the small files of the fuzz tests may take from the heap: a block's scratch and
// records, and what the test itself needs.
const fuzzAllocBytes = 32 << 20

// sound is a checkpointed queue and calendar, with segments, gaps, a head and tails.
type sound struct {
	files damage.Files
	state []byte   // a manifest in JSON
	queue []string // the unread records
	later []string // the calendar's, with their times
}

const soundRecords = 60

// editable is what may be edited of a manifest.
type editable struct {
	Queue    **State
	Calendar **CalendarState
}

func newSound(f testing.TB) *sound {
	mem := disk.NewMem(1)
	set, err := newSet(mem)
	must(f, err)
	q, err := Open(Options{Set: set, Name: "q", BlockBytes: 64, SegmentBytes: 6000}, nil)
	must(f, err)
	c, err := OpenCalendar(Options{Set: set, Name: "later", BlockBytes: 64}, nil)
	must(f, err)
	s, m := &sound{}, &manifest{}
	for round := range 3 {
		for i := range soundRecords {
			must(f, q.Append(record(round*soundRecords+i, 40)))
			must(f, c.Append(time.UnixMilli(1000), time.UnixMilli(int64(1000*(i%7)*(round+1))), record(i, 40)))
		}
		for range soundRecords / 2 {
			_, _, err := q.Peek()
			must(f, err)
			q.Advance()
		}
		m.Gen++
		tails, err := disk.CreateTails(set, m.Gen)
		must(f, err)
		fq, fc := q.Freeze(), c.Freeze()
		m.Queue, err = fq.Save(tails)
		must(f, err)
		m.Calendar, err = fc.Save(tails)
		must(f, errors.Join(err, tails.Close(), fq.Commit(), fc.Commit()))
		must(f, disk.RemoveTails(set, func(gen uint64) bool { return gen == m.Gen }))
	}
	must(f, Walk(set, "q", m.Queue, func(rec []byte) error { s.queue = append(s.queue, string(rec)); return nil }))
	must(f, WalkCalendar(set, "later", m.Calendar, func(due int64, rec []byte) error {
		s.later = append(s.later, fmt.Sprint(due, string(rec)))
		return nil
	}))
	s.state, err = json.Marshal(m)
	must(f, err)
	s.files, err = damage.Read(mem, paths[:]...)
	must(f, err)
	if len(s.queue) != 3*soundRecords/2 || len(s.later) != 3*soundRecords || len(s.files) < 6 {
		f.Fatalf("%d records, %d later, %d files", len(s.queue), len(s.later), len(s.files))
	}
	return s
}

// load returns the state, edited, and the files, damaged.
func (s *sound) load(t *testing.T, edits, flips []byte) (disk.Set, *manifest, []string) {
	m := &manifest{}
	must(t, json.Unmarshal(s.state, m))
	damage.Edit(&editable{&m.Queue, &m.Calendar}, edits)
	files, changed := s.files.Flip(flips)
	mem, err := files.Write(paths[:]...)
	must(t, err)
	return disk.Set{FS: mem, Paths: paths[:]}, m, changed
}

// FuzzFiles damages files and states of a queue and a calendar. Damaged files: the walk and the readers find it, naming
// the file, or give the records that were written. Damaged states: no panic, no large allocation, an end.
func FuzzFiles(f *testing.F) {
	s := newSound(f)
	f.Add([]byte{}, []byte{})
	for i := range byte(12) {
		f.Add([]byte{}, []byte{i, 41 + i, 0, 0, 0, 1 << (i % 8), i, 0, 16, 0, 0, 0x80})
		f.Add([]byte{}, []byte{i, 0x20 * i, 1, 0, 0x80, 1}) // cut
		f.Add([]byte{3 * i, 0, i, i, 0, 0, 0, 0, 0, 0, 0, 5 * i, 0, 2, i, 0, 0, 0, 0, 0, 0, 0}, []byte{})
	}
	f.Fuzz(s.check)
}

// TestStates does everything that damage.Edit can do to the states, one at a time.
func TestStates(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: nothing for the race detector")
	}
	s := newSound(t)
	_, m, _ := s.load(t, nil, nil)
	for _, script := range damage.Sweep(&editable{&m.Queue, &m.Calendar}) {
		s.check(t, script, nil)
	}
}

// check is the property of FuzzFiles.
func (s *sound) check(t *testing.T, edits, flips []byte) {
	set, m, changed := s.load(t, edits, flips)
	if m.Queue == nil || m.Calendar == nil {
		return
	}
	edited := len(edits) > 0
	check := func(how string, err error, got, want []string) {
		var corrupt *disk.CorruptError
		switch {
		case edited:
		case err != nil && len(changed) == 0:
			t.Fatalf("%s of sound files: %v", how, err)
		case err != nil && (!errors.As(err, &corrupt) || !slices.Contains(changed, corrupt.Path)):
			t.Fatalf("%s: %v names none of %v", how, err, changed)
		case err == nil && !slices.Equal(got, want):
			t.Fatalf("%s finds no damage in %v but other records: %d, want %d", how, changed, len(got), len(want))
		}
	}
	var read, later []string
	var errs [4]error
	n := damage.Allocated(func() {
		errs[0] = Walk(set, "q", m.Queue, func(rec []byte) error {
			read = append(read, string(rec))
			return nil
		})
		errs[1] = WalkCalendar(set, "later", m.Calendar, func(due int64, rec []byte) error {
			later = append(later, fmt.Sprint(due, string(rec)))
			return nil
		})
	})
	check("Walk", errs[0], read, s.queue)
	check("WalkCalendar", errs[1], later, s.later)
	n += damage.Allocated(func() {
		read, errs[2] = readQueue(set, m.Queue)
		later, errs[3] = readCalendar(set, m.Calendar)
	})
	check("reading", errs[2], read, s.queue)
	check("taking", errs[3], later, s.later)
	if n > fuzzAllocBytes {
		t.Fatalf("%d bytes allocated: %v", n, errs)
	}
}

// readQueue opens the queue and reads it to its end, then appends and freezes.
func readQueue(set disk.Set, st *State) (read []string, err error) {
	q, err := Open(Options{Set: set, Name: "q"}, st)
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

// readCalendar opens the calendar and takes what is due until there is nothing left.
func readCalendar(set disk.Set, st *CalendarState) (read []string, err error) {
	c, err := OpenCalendar(Options{Set: set, Name: "later"}, st)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for range 100 * soundRecords {
		due, ok := c.NextDue()
		if !ok {
			break
		}
		rec, ok, err := c.Peek(due)
		if err != nil || !ok {
			return read, err
		}
		read = append(read, fmt.Sprint(due.UnixMilli(), string(rec)))
		c.Advance()
	}
	return read, nil
}
