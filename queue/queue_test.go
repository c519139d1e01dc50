package queue

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

func openNew(t testing.TB, fsys disk.FS, opt Options) (*Queue, disk.Set) {
	t.Helper()
	set, err := newSet(fsys)
	must(t, err)
	opt.Set = set
	if opt.Name == "" {
		opt.Name = "q"
	}
	q, err := Open(opt, nil)
	must(t, err)
	return q, set
}

// TestShortQueueDoesNoIO checks that a queue whose reader keeps up never uses the disk.
func TestShortQueueDoesNoIO(t *testing.T) {
	meter := disk.NewMeter(memfs.New(1))
	q, _ := openNew(t, meter, Options{BlockBytes: 1000})
	before := meter.Counts()
	next := 0
	for i := range 3000 {
		must(t, q.Append(record(i, 40)))
		if i%10 == 9 {
			next += drain(t, q, next, 10, 40)
		}
	}
	if after := meter.Counts(); after != before {
		t.Errorf("disk was used: %+v, then %+v", before, after)
	}
	if records, bytes := q.Len(); next != 3000 || records != 0 || bytes != 0 {
		t.Errorf("%d read, %d records of %d bytes left", next, records, bytes)
	}
}

// TestSegmentsGoRoundDirectories checks that segments end near SegmentBytes, are spread evenly over the
// directories, and are deleted once read.
func TestSegmentsGoRoundDirectories(t *testing.T) {
	q, set := openNew(t, memfs.New(1), Options{BlockBytes: 1000, SegmentBytes: 4000})
	for i := range 20000 {
		must(t, q.Append(record(i, 40)))
	}
	perDir := map[string]int{}
	files, all := segmentFiles(t, set, "q"), int64(0)
	for _, name := range files {
		dir, _, _ := strings.Cut(name, "/")
		perDir[dir]++
		size, _ := set.FS.Size(name)
		if all += size; size > 6000 || size < 500 {
			t.Errorf("%s has %d bytes", name, size)
		}
	}
	if _, bytes := q.Len(); q.DiskBytes() != all || all >= bytes {
		t.Errorf("DiskBytes: got %d, the files have %d bytes, the records %d", q.DiskBytes(), all, bytes)
	}
	for _, n := range perDir {
		if n < len(files)/3 || n > len(files)/3+1 {
			t.Errorf("segments per directory: %v", perDir)
		}
	}
	drain(t, q, 0, 20000, 40)
	if q.DiskBytes() != all {
		t.Errorf("DiskBytes of read segments: got %d before a checkpoint, want %d", q.DiskBytes(), all)
	}
	m := &manifest{Gen: 1}
	must(t, checkpoint(set, q, m, func() error { return nil }))
	if left := segmentFiles(t, set, "q"); len(left) > 0 || q.DiskBytes() > 0 {
		t.Errorf("segments left: %v", left)
	}
}

// TestManyQueues checks that an empty queue takes little RAM and no files, and a queue with a few records
// one small buffer.
func TestManyQueues(t *testing.T) {
	const n = 5000
	mem := memfs.New(1)
	set, err := newSet(mem)
	must(t, err)
	pool := new(Pool)
	open := func(i int) *Queue {
		q, err := Open(Options{Set: set, Name: fmt.Sprintf("many/%d", i), Pool: pool}, nil)
		must(t, err)
		return q
	}
	ops := mem.Ops()
	queues := make([]*Queue, n)
	empty := heapPer(n, func(i int) { queues[i] = open(i) })
	few := heapPer(n, func(i int) { must(t, queues[i].Append([]byte("one short record"))) })
	if mem.Ops() != ops {
		t.Errorf("%d changes on disk", mem.Ops()-ops)
	}
	t.Logf("%d bytes of heap per empty queue, %d more with a record", empty, few)
	if empty > 1000 || few > 5000 {
		t.Errorf("%d bytes per empty queue, %d more with a record; want at most 1000, 5000", empty, few)
	}
	runtime.KeepAlive(queues)
}

// TestIdleQueueGivesBackItsBuffer checks that two checkpoints without an Append shrink the tail buffer to
// its content.
func TestIdleQueueGivesBackItsBuffer(t *testing.T) {
	q, set := openNew(t, memfs.New(1), Options{BlockBytes: 100_000})
	next := 0
	for ; q.nextSegment == 0; next++ {
		must(t, q.Append(make([]byte, 99)))
	}
	if cap(q.tail) < 100_000 {
		t.Fatalf("tail of %d bytes", cap(q.tail))
	}
	for gen := range uint64(2) {
		must(t, checkpoint(set, q, &manifest{Gen: gen + 1}, func() error { return nil }))
	}
	if got := cap(q.tail); got > firstBufferBytes {
		t.Errorf("idle tail of 100 bytes has a buffer of %d", got)
	}
	for want := next; want > 0; want-- {
		if rec, ok, err := q.Peek(); len(rec) != 99 || !ok || err != nil {
			t.Fatalf("%d records left: %d bytes, %v, %v", want, len(rec), ok, err)
		}
		q.Advance()
	}
}

func heapPer(n int, f func(int)) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		f(i)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	return (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / int64(n)
}

func TestZeroAllocs(t *testing.T) {
	q, _ := openNew(t, memfs.New(1), Options{})
	rec := make([]byte, 100)
	transfer := func(lag int) func() {
		return func() {
			must(t, q.Append(rec))
			if n, _ := q.Len(); int(n) <= lag {
				return
			}
			if _, ok, err := q.Peek(); !ok || err != nil {
				t.Fatal(ok, err)
			}
			q.Advance()
		}
	}
	for _, lag := range []int{0, 10, 10000} { // the last lag goes through the disk
		f := transfer(lag)
		for range 3 * lag {
			f()
		}
		if got := testing.AllocsPerRun(20000, f); got != 0 {
			t.Errorf("lag %d: %v allocations per record, want 0", lag, got)
		}
	}
}

// TestConcurrentAppend runs appenders, the reader and checkpoints concurrently. All records must come out
// once, and those of each appender in order.
func TestConcurrentAppend(t *testing.T) {
	const appenders, each = 4, 5000
	q, set := openNew(t, memfs.New(1), Options{BlockBytes: 2000, SegmentBytes: 10000})
	var wg sync.WaitGroup
	appendNumbered(t, &wg, q, appenders, each)
	stop := make(chan struct{})
	wg.Go(func() {
		for gen := uint64(1); ; gen++ {
			select {
			case <-stop:
				return
			default:
			}
			m := &manifest{Gen: gen}
			if err := checkpoint(set, q, m, func() error { runtime.Gosched(); return nil }); err != nil {
				t.Error(err)
				return
			}
			if err := walk(set, "q", m.Queue, func([]byte) error { return nil }); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var next [appenders]int
	for got := 0; got < appenders*each && !t.Failed(); {
		rec, ok, err := q.Peek()
		must(t, err)
		if !ok {
			runtime.Gosched()
			continue
		}
		var a, i int
		fmt.Sscanf(string(rec), "%d %d", &a, &i)
		if next[a] != i {
			t.Fatalf("appender %d: record %d, want %d", a, i, next[a])
		}
		next[a]++
		got++
		q.Advance()
	}
	close(stop)
	wg.Wait()
	if n, b := q.Len(); n != 0 || b != 0 {
		t.Errorf("Len = %d, %d", n, b)
	}
}

// TestFailedWriteIsFinal makes each kind of write operation fail once. All later calls must fail.
func TestFailedWriteIsFinal(t *testing.T) {
	boom := errors.New("boom")
	for _, op := range []memfs.Op{
		memfs.OpCreate, memfs.OpOpen, memfs.OpWrite, memfs.OpMkdirAll, memfs.OpRemove, memfs.OpClose,
	} {
		armed := false
		fsys := memfs.NewFault(memfs.New(1), func(o memfs.Op, name string) error {
			if armed && o == op && strings.HasSuffix(name, ".seg") || armed && o == op && o == memfs.OpMkdirAll {
				return boom
			}
			return nil
		})
		q, set := openNew(t, fsys, Options{BlockBytes: 500, SegmentBytes: 2000})
		next := 0
		work := func(gen uint64) (err error) {
			for i := 0; i < 500 && err == nil; i++ {
				err = q.Append(record(next+i, 40))
			}
			for i := 0; i < 400 && err == nil; i++ {
				if _, _, err = q.Peek(); err == nil {
					q.Advance()
				}
			}
			next += 500
			return errors.Join(err, checkpoint(set, q, &manifest{Gen: gen}, func() error { return nil }))
		}
		must(t, work(1))
		armed = true
		if err := work(2); !errors.Is(err, boom) {
			t.Fatalf("%s: first failure: %v", op, err)
		}
		armed = false
		if err := q.Append([]byte("x")); !errors.Is(err, boom) {
			t.Errorf("%s: Append after it: %v", op, err)
		}
		if q.frozen == nil {
			if _, err := q.Freeze().Save(nil); !errors.Is(err, boom) {
				t.Errorf("%s: Save after it: %v", op, err)
			}
		}
		if _, _, err := q.Peek(); !errors.Is(err, boom) {
			t.Errorf("%s: Peek after it: %v", op, err)
		}
		if err := q.Append([]byte("x")); !strings.Contains(err.Error(), "queue: ") {
			t.Errorf("error without place: %v", err)
		}
	}
}

// TestReadErrorIsNot checks that a failed read can be retried.
func TestReadErrorIsNot(t *testing.T) {
	armed := false
	boom := errors.New("boom")
	q, _ := openNew(t, memfs.NewFault(memfs.New(1), func(o memfs.Op, name string) error {
		if armed && o == memfs.OpRead {
			return boom
		}
		return nil
	}), Options{BlockBytes: 500})
	for i := range 100 {
		must(t, q.Append(record(i, 40)))
	}
	armed = true
	if _, _, err := q.Peek(); !errors.Is(err, boom) {
		t.Errorf("Peek: %v", err)
	}
	armed = false
	if n := drain(t, q, 0, 200, 40); n != 100 {
		t.Errorf("%d records, want 100", n)
	}
}

// TestDiskFull fills the disk, and continues from the last checkpoint on a larger disk.
func TestDiskFull(t *testing.T) {
	mem := memfs.New(*seedFlag)
	q, set := openNew(t, mem, Options{BlockBytes: 1000})
	mem.SetCapacity(50_000)
	m := &manifest{}
	var err error
	for i := 0; err == nil; i++ {
		if err = q.Append(record(i, 40)); err == nil && i%100 == 99 {
			next := &manifest{Gen: m.Gen + 1, To: i + 1}
			if err = checkpoint(set, q, next, func() error { return nil }); err == nil {
				m = next
			}
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("full disk: %v", err)
	}
	mem.SetCapacity(1 << 30)
	if err := q.Append(nil); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("append after: %v", err)
	}
	set.FS = mem.Crash()
	m, err = readManifest(set)
	must(t, err)
	q, err = Open(Options{Set: set, Name: "q"}, m.Queue)
	must(t, err)
	if n := drain(t, q, 0, 1<<30, 40); n != m.To || n == 0 {
		t.Errorf("%d records after restart, want %d", n, m.To)
	}
}

func TestRecordLimits(t *testing.T) {
	q, set := openNew(t, memfs.New(1), Options{BlockBytes: 1000})
	big := make([]byte, MaxRecord)
	for i := range big {
		big[i] = byte(i * i >> 3)
	}
	if err := q.Append(make([]byte, MaxRecord+1)); !errors.Is(err, ErrTooLong) {
		t.Errorf("too long: %v", err)
	}
	want := [][]byte{nil, big, {}, big, []byte("x"), big, big}
	for _, rec := range want {
		must(t, q.Append(rec))
	}
	m := &manifest{Gen: 1}
	must(t, checkpoint(set, q, m, func() error { return nil }))
	q, err := Open(Options{Set: set, Name: "q"}, m.Queue)
	must(t, err)
	for i, rec := range want {
		got, ok, err := q.Peek()
		must(t, err)
		if again, _, _ := q.Peek(); string(again) != string(got) {
			t.Errorf("record %d: second Peek differs", i)
		}
		if !ok || string(got) != string(rec) {
			t.Errorf("record %d: %v, %d bytes; want %d", i, ok, len(got), len(rec))
		}
		q.Advance()
	}
	if _, ok, err := q.Peek(); ok || err != nil {
		t.Errorf("at the end: %v, %v", ok, err)
	}
}

func TestCloseAndDestroy(t *testing.T) {
	q, set := openNew(t, memfs.New(1), Options{Name: "many/a", BlockBytes: 500})
	for i := range 100 {
		must(t, q.Append(record(i, 40)))
	}
	must(t, q.Close())
	if err := q.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if err := q.Append(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Append: %v", err)
	}
	if _, _, err := q.Peek(); !errors.Is(err, ErrClosed) {
		t.Errorf("Peek: %v", err)
	}
	if names, err := Names(set, "many"); len(names) != 1 || names[0] != "many/a" || err != nil {
		t.Errorf("Names = %v, %v", names, err)
	}
	must(t, q.Destroy())
	if names, err := Names(set, "many"); len(names) != 0 || err != nil {
		t.Errorf("Names after Destroy = %v, %v", names, err)
	}
	must(t, Remove(set, "many/a"))
	defer func() {
		if r := recover(); r == nil || !strings.HasPrefix(fmt.Sprint(r), "BUG:") {
			t.Errorf("Advance without Peek: %v", r)
		}
	}()
	q.Advance()
}

func TestOptionsValidate(t *testing.T) {
	err := Options{SegmentBytes: -1, BlockBytes: maxBlockBytes + 1}.Validate()
	for _, want := range []string{"no directories", "no name", "SegmentBytes is -1", "BlockBytes is 4194305"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want %q in it", err, want)
		}
	}
	if _, err := Open(Options{}, nil); err == nil {
		t.Error("opened with invalid options")
	}
	if _, err := OpenCalendar(Options{}, nil); err == nil {
		t.Error("calendar opened with invalid options")
	}
}

// TestForeignFilesStay checks that Open deletes only files named like segments.
func TestForeignFilesStay(t *testing.T) {
	mem := memfs.New(1)
	set, err := newSet(mem)
	must(t, err)
	must(t, mem.MkdirAll("two/state/q"))
	for _, name := range []string{"0000000003.seg", "3.seg", "notes", "0000000003.seg.bak"} {
		f, err := mem.Create("two/state/q/" + name)
		must(t, err)
		must(t, f.Close())
	}
	_, err = Open(Options{Set: set, Name: "q"}, nil)
	must(t, err)
	names, _ := mem.List("two/state/q")
	if got, want := fmt.Sprint(names), "[0000000003.seg.bak 3.seg notes]"; got != want {
		t.Errorf("left: %s, want %s", got, want)
	}
}
