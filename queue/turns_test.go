package queue

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// slowWrites is a disk on which blocks wait until release is closed. The first of them then fails with err.
func slowWrites(err error) (fsys disk.FS, release chan struct{}) {
	release = make(chan struct{})
	var once sync.Once
	return memfs.NewFault(memfs.New(1), func(op memfs.Op, name string) (fault error) {
		if op == memfs.OpWrite {
			<-release
			once.Do(func() { fault = err })
		}
		return fault
	}), release
}

// TestAppendersGoOn checks that, while a block waits for the disk, other goroutines append, fill blocks and
// wait to write them. Freeze must wait for all blocks, and the blocks must lie in the order in which they
// became full.
func TestAppendersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys, release := slowWrites(nil)
		q, set := openNew(t, fsys, Options{BlockBytes: 100})
		var wg sync.WaitGroup
		const each = 12 // records of 9 bytes: the last one at the latest seals a block
		for a := range 3 {
			wg.Go(func() {
				for i := range each {
					if err := q.Append(fmt.Appendf(nil, "%d %06d", a, i)); err != nil {
						t.Error(err)
					}
				}
			})
			synctest.Wait() // this appender waits for the disk
		}
		if q.sealed != 3 || q.written != 0 {
			t.Errorf("%d tails sealed, %d written; want 3 and 0", q.sealed, q.written)
		}
		must(t, q.Append([]byte("after"))) // must not block
		m := &manifest{Gen: 1}
		frozen := false
		wg.Go(func() {
			if err := checkpoint(set, q, m, func() error { frozen = true; return nil }); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if frozen {
			t.Error("frozen with blocks on their way")
		}
		close(release)
		wg.Wait()
		next := [3]int{}
		err := walk(set, "q", m.Queue, func(rec []byte) error {
			var a, i int
			if _, err := fmt.Sscanf(string(rec), "%d %d", &a, &i); err != nil {
				return nil // "after"
			}
			if next[a] != i {
				return fmt.Errorf("appender %d: record %d, want %d", a, i, next[a])
			}
			next[a]++
			return nil
		})
		if err != nil || next[0] < each-1 || m.Queue.Segments[0].Blocks < 3 {
			t.Errorf("frozen with %v records in %+v: %v", next, m.Queue.Segments, err)
		}
	})
}

// TestFailureInTurn checks that after a failed write the blocks behind it, the reader and all appenders fail.
func TestFailureInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		fsys, release := slowWrites(boom)
		q, _ := openNew(t, fsys, Options{BlockBytes: 100})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				var err error
				for err == nil {
					err = q.Append(make([]byte, 60))
				}
				if !errors.Is(err, boom) {
					t.Errorf("Append: %v", err)
				}
			})
		}
		synctest.Wait()
		wg.Go(func() {
			if _, _, err := q.Peek(); !errors.Is(err, boom) {
				t.Errorf("Peek: %v", err)
			}
		})
		synctest.Wait()
		close(release)
		wg.Wait()
		if _, err := q.Freeze().Save(nil); !errors.Is(err, boom) {
			t.Errorf("Save: %v", err)
		}
	})
}

// TestReaderWaitsForBlocks runs a reader and many appenders, so that blocks are always waiting to be
// written. Records must stay in order.
func TestReaderWaitsForBlocks(t *testing.T) {
	const appenders, each = 8, 3000
	q, _ := openNew(t, memfs.New(1), Options{BlockBytes: 300, SegmentBytes: 5000})
	var wg sync.WaitGroup
	appendNumbered(t, &wg, q, appenders, each)
	var next [appenders]int
	for got := 0; got < appenders*each; {
		rec, ok, err := q.Peek()
		must(t, err)
		if !ok {
			runtime.Gosched()
			continue
		}
		a := int(rec[0] - '0')
		if want := fmt.Appendf(nil, "%d %d", a, next[a]); !bytes.Equal(rec, want) {
			t.Fatalf("got %q, want %q", rec, want)
		}
		next[a]++
		got++
		q.Advance()
	}
	wg.Wait()
	if n, b := q.Len(); n != 0 || b != 0 {
		t.Errorf("Len = %d, %d", n, b)
	}
}
