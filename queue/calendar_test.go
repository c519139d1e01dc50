package queue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)

// TestEdge checks the bound on lateness over random delays.
func TestEdge(t *testing.T) {
	t.Logf("seed %d", *seedFlag)
	rng := rand.New(rand.NewPCG(*seedFlag, 3))
	for range 100000 {
		now := epoch.Add(time.Duration(rng.Int64N(int64(1000 * time.Hour))))
		delay := time.Duration(rng.Int64N(1 << (30 + rng.IntN(23))))
		delay = min(delay, MaxDelay)
		due := now.Add(delay)
		late := time.UnixMilli(edgeMillis(now, due)).Sub(due)
		if late < 0 || late > max(time.Second, delay/4) {
			t.Fatalf("delay %v: late by %v", delay, late)
		}
	}
	whole := epoch.Truncate(time.Second)
	for what, c := range map[string]struct{ due, want time.Time }{
		"past":    {epoch.Add(-time.Hour), whole.Add(time.Second)},
		"now":     {epoch, whole.Add(time.Second)},
		"whole":   {whole.Add(3 * time.Second), whole.Add(3 * time.Second)},
		"longest": {epoch.Add(1e6 * time.Hour), time.UnixMilli(edgeMillis(epoch, epoch.Add(MaxDelay)))},
	} {
		if got := time.UnixMilli(edgeMillis(epoch, c.due)); !got.Equal(c.want) {
			t.Errorf("%s: edge %v, want %v", what, got, c.want)
		}
	}
	if late := time.UnixMilli(edgeMillis(epoch, epoch.Add(1e6*time.Hour))).Sub(epoch); late > MaxDelay*5/4 {
		t.Errorf("the longest delay became %v", late)
	}
}

// TestCalendarSlotCount runs a calendar with all delays for simulated weeks and checks the number of slots.
func TestCalendarSlotCount(t *testing.T) {
	set, err := newSet(memfs.New(1))
	must(t, err)
	c, err := OpenCalendar(Options{Set: set, Name: "later"}, nil)
	must(t, err)
	rng := rand.New(rand.NewPCG(*seedFlag, 4))
	now, most := epoch, 0
	for range 100000 {
		now = now.Add(time.Duration(rng.Int64N(int64(time.Minute))))
		delay := time.Duration(rng.Int64N(1 << (30 + rng.IntN(23))))
		must(t, c.Append(now, now.Add(delay), Usual, nil))
		most = max(most, c.Bins())
		for {
			_, ok, err := c.Peek(now, Usual)
			must(t, err)
			if !ok {
				break
			}
			c.Advance(Usual)
		}
	}
	t.Logf("at most %d slots", most)
	if most > 110 {
		t.Errorf("%d slots, want at most about 100", most)
	}
}

// calendarWorld is a calendar under random operations, with the map that it must equal.
type calendarWorld struct {
	t    *testing.T
	rng  *rand.Rand
	mem  *memfs.FS
	set  disk.Set
	opt  Options
	c    *Calendar
	now  time.Time
	due  map[int]int64 // edge of each record in the calendar
	next int           // number of the next record
	gen  uint64
}

// TestCalendarModel is TestQueueModel for a Calendar with an advancing clock.
func TestCalendarModel(t *testing.T) {
	for seed := *seedFlag; seed < *seedFlag+uint64(rounds(30)); seed++ {
		w := &calendarWorld{t: t, rng: rand.New(rand.NewPCG(seed, 8)), mem: memfs.New(seed), now: epoch}
		w.opt = Options{
			Name:         "later",
			BlockBytes:   []int{200, 1000}[w.rng.IntN(2)],
			SegmentBytes: []int64{1, 3000}[w.rng.IntN(2)],
		}
		must(t, mountDirs(w.mem))
		for range 6 {
			w.reopen(seed)
			w.mem.CrashAfter(w.rng.IntN(200))
			if err := w.run(w.rng.IntN(60)); err != nil && !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if w.rng.IntN(2) == 0 {
				w.mem = w.mem.Crash()
			} else {
				w.mem = w.mem.Kill()
			}
		}
	}
}

func (w *calendarWorld) reopen(seed uint64) {
	w.t.Helper()
	set, err := newSet(w.mem)
	must(w.t, err)
	w.set, w.opt.Set = set, set
	m, err := readManifest(set)
	must(w.t, err)
	w.due, w.next, w.gen = m.Due, m.To, m.Gen
	if w.due == nil {
		w.due = map[int]int64{}
	}
	if w.c, err = OpenCalendar(w.opt, m.Calendar); err != nil {
		w.t.Fatalf("seed %d: %v", seed, err)
	}
	if n, _ := w.c.Len(); int(n) != len(w.due) {
		w.t.Fatalf("seed %d: %d records, want %d", seed, n, len(w.due))
	}
	if m.Calendar != nil {
		if err := w.walk(m); err != nil {
			w.t.Fatalf("seed %d: %v", seed, err)
		}
	}
	w.setClockBack(0) // in case it was set back since the last manifest
	names, err := Names(set, "later")
	must(w.t, err)
	if m.Calendar == nil && len(names) > 0 || m.Calendar != nil && len(names) > len(m.Calendar.Slots) {
		w.t.Fatalf("seed %d: directories left over: %v", seed, names)
	}
}

// walk compares a saved state with the manifest's map.
func (w *calendarWorld) walk(m *manifest) error {
	found, last := map[int]bool{}, int64(0)
	err := walkSlots(w.set, "later", m.Calendar, func(due int64, rec []byte) error {
		i := recordNumber(rec)
		if found[i] || m.Due[i] != due || due < last {
			return fmt.Errorf("record %d due %d found, want %d, last %d", i, due, m.Due[i], last)
		}
		found[i], last = true, due
		return nil
	})
	if err == nil && len(found) != len(m.Due) {
		err = fmt.Errorf("%d records found, want %d", len(found), len(m.Due))
	}
	return err
}

func recordNumber(rec []byte) (n int) {
	fmt.Sscanf(string(rec), "%d", &n)
	return n
}

func (w *calendarWorld) run(steps int) error {
	for range steps {
		if w.rng.IntN(4) > 0 {
			if err := w.step(); err != nil {
				return err
			}
			continue
		}
		if err := w.checkpoint(); err != nil {
			return err
		}
	}
	return nil
}

func (w *calendarWorld) checkpoint() error {
	w.gen++
	m := &manifest{Gen: w.gen, To: w.next, Due: map[int]int64{}}
	for i, due := range w.due {
		m.Due[i] = due
	}
	f := w.c.Freeze()
	err := w.step()
	if err != nil {
		return err
	}
	tails, err := disk.CreateTails(w.set, m.Gen)
	if err != nil {
		return err
	}
	if m.Calendar, err = f.Save(tails); err != nil {
		return err
	}
	if err := errors.Join(tails.Close(), w.step(), writeManifest(w.set, m), w.step()); err != nil {
		return err
	}
	if err := f.Commit(); err != nil {
		return err
	}
	if err := disk.RemoveTails(w.set, func(gen uint64) bool { return gen == m.Gen }); err != nil {
		return err
	}
	return w.walk(m)
}

func (w *calendarWorld) step() error {
	w.now = w.now.Add(time.Duration(w.rng.Int64N(int64(20 * time.Second))))
	if w.rng.IntN(20) == 0 {
		w.setClockBack(time.Duration(w.rng.Int64N(int64(2000 * time.Hour))))
	}
	if w.rng.IntN(2) == 0 {
		for range w.rng.IntN(60) {
			due := w.now.Add(time.Duration(w.rng.Int64N(1 << (30 + w.rng.IntN(10)))))
			rec := fmt.Appendf(nil, "%d %s", w.next, strings.Repeat("x", w.rng.IntN(30)))
			class := Class(w.rng.IntN(classes))
			if err := w.c.Append(w.now, due, class, rec); err != nil {
				return err
			}
			w.due[w.next] = edgeMillis(w.now, due) + int64(class)
			w.next++
		}
		return nil
	}
	class := Class(w.rng.IntN(classes))
	for range w.rng.IntN(120) {
		rec, ok, err := w.c.Peek(w.now, class)
		if err != nil {
			return err
		}
		earliest := int64(1 << 60)
		for _, due := range w.due {
			if due%1000 == int64(class) {
				earliest = min(earliest, due)
			}
		}
		if next, any := w.c.NextDue(w.now, class); any && next.UnixMilli() != earliest || any != (earliest < 1<<60) {
			return fmt.Errorf("NextDue = %v, %v; want %d", next, any, earliest)
		}
		if !ok {
			if earliest <= w.now.UnixMilli() {
				return errors.New("nothing given out though due")
			}
			return nil
		}
		i := recordNumber(rec)
		if due, ok := w.due[i]; !ok || due != earliest || due > w.now.UnixMilli() {
			return fmt.Errorf("record %d given out, due %d (%v), earliest %d, now %d", i, due, ok, earliest,
				w.now.UnixMilli())
		}
		delete(w.due, i)
		w.c.Advance(class)
	}
	return nil
}

// setClockBack sets the clock back. If it goes back by an hour or more, waiting records must not wait
// longer for that.
func (w *calendarWorld) setClockBack(by time.Duration) {
	w.now = w.now.Add(-by)
	moved := (w.c.latest.Load() - w.now.UnixMilli()) / 1000 * 1000 // whole seconds
	if moved <= time.Hour.Milliseconds() {
		moved = 0
	}
	for i := range w.due {
		w.due[i] -= moved
	}
	before := w.c.SetBack()
	w.c.NextDue(w.now, Usual)
	if got := w.c.SetBack() - before; got.Milliseconds() != moved {
		w.t.Fatalf("set back by %v, want %d ms", got, moved)
	}
}

// TestCalendarOfAClockThatWasAhead checks that records deferred while the clock was a year ahead come after
// their delay. The clock is set back during a run or between two runs, also while one caller still uses the
// earlier time.
func TestCalendarOfAClockThatWasAhead(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, restart := range []bool{false, true} {
		set, err := newSet(memfs.New(1))
		must(t, err)
		opt := Options{Set: set, Name: "later"}
		c, err := OpenCalendar(opt, nil)
		must(t, err)
		ahead := epoch.Add(year)
		must(t, c.Append(ahead, ahead.Add(time.Minute), Usual, []byte("a")))
		must(t, c.Append(ahead, ahead.Add(7*24*time.Hour), Usual, []byte("b")))
		if restart {
			tails, err := disk.CreateTails(set, 1)
			must(t, err)
			st, err := c.Freeze().Save(tails)
			must(t, err)
			must(t, tails.Close())
			must(t, c.Close())
			c, err = OpenCalendar(opt, st)
			must(t, err)
		}
		if due, ok := c.NextDue(epoch, Usual); !ok || due.Sub(epoch) > 2*time.Minute {
			t.Errorf("restart %v: the first is due %v from now", restart, due.Sub(epoch))
		}
		must(t, c.Append(epoch, epoch.Add(time.Hour), Usual, []byte("n")))
		got := map[string]time.Duration{}
		for now := epoch; now.Sub(epoch) < 9*24*time.Hour; now = now.Add(time.Minute) {
			rec, ok, err := c.Peek(now, Usual)
			must(t, err)
			if ok {
				got[string(rec)] = now.Sub(epoch)
				c.Advance(Usual)
			}
		}
		for rec, delay := range map[string]time.Duration{"a": time.Minute, "n": time.Hour, "b": 7 * 24 * time.Hour} {
			if d, ok := got[rec]; !ok || d < delay || d > delay*5/4+2*time.Minute {
				t.Errorf("restart %v: %s came after %v (%v), its delay is %v", restart, rec, d, ok, delay)
			}
		}
		if by := c.SetBack(); by != year {
			t.Errorf("restart %v: set back by %v", restart, by)
		}
	}
}

// TestCallersWithTheFormerTime checks that a caller that read the clock before it was set back does not
// make records wait until the earlier time.
func TestCallersWithTheFormerTime(t *testing.T) {
	set, err := newSet(memfs.New(1))
	must(t, err)
	c, err := OpenCalendar(Options{Set: set, Name: "later"}, nil)
	must(t, err)
	ahead := epoch.Add(365 * 24 * time.Hour)
	must(t, c.Append(ahead, ahead.Add(time.Hour), Usual, []byte("a")))
	must(t, c.Append(epoch, epoch.Add(time.Hour), Usual, []byte("b")))
	must(t, c.Append(ahead, ahead.Add(time.Hour), Usual, []byte("c")))
	due := edgeMillis(ahead, ahead.Add(time.Hour))
	// As if the clock was set back between follow and appendTo.
	if found, _ := c.appendTo(due, c.setBack.Load()-1, nil); found {
		t.Error("an edge from before the clock was set back was accepted")
	}
	for now := epoch; now.Sub(epoch) < 3*time.Hour; now = now.Add(time.Minute) {
		_, ok, err := c.Peek(now, Usual)
		if must(t, err); ok {
			c.Advance(Usual)
		}
	}
	if n, _ := c.Len(); n > 0 {
		t.Errorf("%d records still wait", n)
	}
}

// TestRetireKeepsWhatCameLate checks that retire keeps a slot that was found empty but has received a
// record since.
func TestRetireKeepsWhatCameLate(t *testing.T) {
	set, err := newSet(memfs.New(1))
	must(t, err)
	c, err := OpenCalendar(Options{Set: set, Name: "later"}, nil)
	must(t, err)
	must(t, c.Append(epoch, epoch, Usual, []byte("late")))
	c.retire(c.bins[0])
	if rec, ok, err := c.Peek(epoch.Add(time.Second), Usual); string(rec) != "late" || !ok || err != nil {
		t.Errorf("Peek = %q, %v, %v", rec, ok, err)
	}
}

func TestCalendarClose(t *testing.T) {
	set, err := newSet(memfs.New(1))
	must(t, err)
	c, err := OpenCalendar(Options{Set: set, Name: "later"}, nil)
	must(t, err)
	must(t, c.Append(epoch, epoch, Usual, []byte("a")))
	if err := c.Append(epoch, epoch, Usual, make([]byte, MaxRecord+1)); !errors.Is(err, ErrTooLong) {
		t.Errorf("too long: %v", err)
	}
	must(t, c.Append(epoch, epoch, Usual, []byte("b")))
	must(t, c.Close())
	if err := c.Append(epoch, epoch.Add(time.Hour), Usual, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Append: %v", err)
	}
	if _, _, err := c.Peek(epoch.Add(time.Hour), Usual); !errors.Is(err, ErrClosed) {
		t.Errorf("Peek: %v", err)
	}
	if err := c.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
}

// TestCalendarFailedWriteIsFinal checks that a failure in one slot makes all slots fail.
func TestCalendarFailedWriteIsFinal(t *testing.T) {
	boom, armed := errors.New("boom"), false
	set, err := newSet(memfs.NewFault(memfs.New(1), func(op memfs.Op, name string) error {
		if armed && op == memfs.OpWrite {
			return boom
		}
		return nil
	}))
	must(t, err)
	c, err := OpenCalendar(Options{Set: set, Name: "later", BlockBytes: 100}, nil)
	must(t, err)
	armed = true
	for err == nil {
		err = c.Append(epoch, epoch.Add(time.Minute), Usual, make([]byte, 10))
	}
	armed = false
	if !errors.Is(err, boom) {
		t.Errorf("Append: %v", err)
	}
	if err := c.Append(epoch, epoch.Add(time.Hour), Usual, nil); !errors.Is(err, boom) {
		t.Errorf("Append to another slot: %v", err)
	}
	if _, _, err := c.Peek(epoch, Usual); !errors.Is(err, boom) {
		t.Errorf("Peek: %v", err)
	}
	if _, err := c.Freeze().Save(nil); !errors.Is(err, boom) {
		t.Errorf("Save: %v", err)
	}
}

// TestCalendarZeroAllocs checks that Append, Peek and Advance allocate nothing while the slots stay the same.
func TestCalendarZeroAllocs(t *testing.T) {
	set, err := newSet(memfs.New(1))
	must(t, err)
	c, err := OpenCalendar(Options{Set: set, Name: "later"}, nil)
	must(t, err)
	rec, due := make([]byte, 100), epoch.Add(time.Minute)
	got := testing.AllocsPerRun(10000, func() {
		must(t, c.Append(epoch, due, Usual, rec))
		if _, ok, err := c.Peek(due.Add(time.Minute), Usual); !ok || err != nil {
			t.Fatal(ok, err)
		}
		c.Advance(Usual)
	})
	if got != 0 {
		t.Errorf("%v allocations per record, want 0", got)
	}
}

// TestBulkDelaysNothing: a slot of many records that are due in bulk delays no other record, and the other way round.
// A slot of an earlier release, whose edge may have any milliseconds, is of the usual class.
func TestBulkDelaysNothing(t *testing.T) {
	c, err := OpenCalendar(Options{Set: disk.Set{FS: memfs.New(1), Paths: []string{"."}}, Name: "later"}, nil)
	must(t, err)
	const many = 20_000
	for range many {
		must(t, c.Append(epoch, epoch.Add(time.Second), Bulk, []byte("visit")))
	}
	must(t, c.Append(epoch, epoch.Add(2*time.Second), Usual, []byte("retry")))
	now := epoch.Add(3 * time.Second)
	for _, want := range []string{"retry", ""} {
		rec, ok, err := c.Peek(now, Usual)
		if must(t, err); string(rec) != want || ok != (want != "") {
			t.Fatalf("got %q, %v, want %q", rec, ok, want)
		}
		if ok {
			c.Advance(Usual)
		}
	}
	for n := range many {
		if _, ok, err := c.Peek(now, Bulk); !ok || err != nil {
			t.Fatalf("%d of %d records: %v", n, many, err)
		}
		c.Advance(Bulk)
	}
	if n, _ := c.Len(); n != 0 {
		t.Errorf("%d records are left", n)
	}
	for edge, want := range map[int64]Class{5000: Usual, 5001: Bulk, 5437: Usual} {
		if got := (&bin{edge: edge}).class(); got != want {
			t.Errorf("edge %d is of class %d, want %d", edge, got, want)
		}
	}
	must(t, c.Close())
}
