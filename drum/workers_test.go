package drum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestWorkersGiveTheSameVerdicts checks that each tuple gets the same verdict with any number of workers
// and through any file system, and that unique texts come out in order of arrival.
func TestWorkersGiveTheSameVerdicts(t *testing.T) {
	verdicts := func(fsys disk.FS, dir string, workers int) []string {
		var got []string
		opt := small(kinds["log"])
		opt.Workers, opt.Buckets, opt.LogBytes = workers, 16, 16<<10
		opt.Set = disk.Set{FS: fsys, Paths: []string{dir}}
		opt.Emit = func(rs []Result) error {
			for i := range rs {
				got = append(got, string(rs[i].Aux))
			}
			return nil
		}
		d, err := Open(opt, nil)
		must(t, err)
		defer d.Close()
		for i := range 40_000 {
			key := Key(uint64(i*i%17_011) * 0x9e3779b97f4a7c15)
			must(t, d.Add([]Tuple{{Key: key, Op: CheckUpdate, Aux: fmt.Appendf(nil, "text %d", i)}}))
			if i%15_000 == 0 {
				_, err := d.Pass(context.Background(), true)
				must(t, err)
			}
		}
		_, err = d.Pass(context.Background(), true)
		must(t, err)
		return got
	}
	want := verdicts(disk.OS(), t.TempDir(), 1)
	if len(want) == 0 || len(want) > 17_011 {
		t.Fatalf("%d uniques", len(want))
	}
	for _, workers := range []int{2, 3, 8} {
		if testing.Short() && workers != 3 {
			continue
		}
		for name, fsys := range map[string]disk.FS{"os": disk.OS(), "direct": disk.Direct()} {
			if got := verdicts(fsys, t.TempDir(), workers); !slices.Equal(got, want) {
				t.Errorf("%d workers, %s: got %d uniques, want the %d of one worker, in its order", workers, name,
					len(got), len(want))
			}
		}
	}
}

// TestFullBuffersOfManyAdds checks that blocks of a text log filled by concurrent Adds are written in the
// order of their numbers, and that every text belongs to its key.
func TestFullBuffersOfManyAdds(t *testing.T) {
	opt := small(kinds["log"])
	opt.Set = disk.Set{FS: disk.OS(), Paths: []string{t.TempDir(), t.TempDir()}}
	seen := map[string]int{}
	opt.Emit = func(rs []Result) error {
		for i := range rs {
			seen[string(rs[i].Aux)]++
		}
		return nil
	}
	d, err := Open(opt, nil)
	must(t, err)
	defer d.Close()
	const adders, each = 4, 5000
	var wg sync.WaitGroup
	for a := range adders {
		wg.Go(func() {
			for i := range each {
				n := uint64(a*each+i+1) * 0x9e3779b97f4a7c15
				if err := d.Add([]Tuple{{Key: Key(n), Op: CheckUpdate, Aux: fmt.Appendf(nil, "%x", n)}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	_, err = d.Pass(context.Background(), true)
	must(t, err)
	if len(seen) != adders*each {
		t.Errorf("got %d texts, want %d", len(seen), adders*each)
	}
	for text, n := range seen {
		if n != 1 {
			t.Errorf("text %q came %d times", text, n)
		}
	}
}

// TestLogWriteFails checks that an Add fails if its block cannot be written, as do the Adds that wait to
// write after it.
func TestLogWriteFails(t *testing.T) {
	failing := memfs.NewFault(memfs.New(1), func(op memfs.Op, name string) error {
		if op == memfs.OpWrite {
			return errNoSpace
		}
		return nil
	})
	opt := small(kinds["log"])
	opt.Set = disk.Set{FS: failing, Paths: []string{"d0"}}
	d, err := Open(opt, nil)
	must(t, err)
	defer d.Close()
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for a := range errs {
		wg.Go(func() {
			for i := range 10_000 {
				ts := []Tuple{{Key: Key(uint64(a*10_000+i) * 0x9e3779b97f4a7c15), Op: CheckUpdate,
					Aux: []byte("some text")}}
				if errs[a] = d.Add(ts); errs[a] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	for a, err := range errs {
		if err == nil {
			t.Errorf("adder %d saw no error", a)
		}
	}
	if _, err := d.Pass(context.Background(), true); err == nil {
		t.Error("a pass after a failed write")
	}
}

// TestPassKeepsDirectoriesBusy checks that a pass with two workers reads the buckets of two directories at
// the same time. The first read of keys in each directory ends only once that in the other has started.
func TestPassKeepsDirectoriesBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began [2]chan struct{}
		var once [2]sync.Once
		for i := range began {
			began[i] = make(chan struct{})
		}
		var passing atomic.Bool
		fsys := memfs.NewFault(memfs.New(1), func(op memfs.Op, name string) error {
			if op != memfs.OpRead || !passing.Load() || !strings.Contains(name, "keys-") {
				return nil
			}
			dir := 0
			if strings.HasPrefix(name, "d1") {
				dir = 1
			}
			once[dir].Do(func() { close(began[dir]) })
			<-began[1-dir] // deadlocks the bubble unless both directories are read at once
			return nil
		})
		opt := small(kinds["seen"])
		opt.Buckets, opt.Workers, opt.Set = 8, 2, disk.Set{FS: fsys, Paths: []string{"d0", "d1"}}
		d, err := Open(opt, nil)
		must(t, err)
		defer d.Close()
		for i := range 8000 {
			must(t, d.Add([]Tuple{{Key: Key(uint64(i) * 0x9e3779b97f4a7c15), Op: CheckUpdate}}))
		}
		passing.Store(true)
		_, err = d.Pass(context.Background(), true)
		must(t, err)
		if d.Keys() != 8000 {
			t.Errorf("got %d keys", d.Keys())
		}
	})
}

// TestFailureIsToldBeforeCancellation checks that the cancellation of other workers does not hide a
// worker's error.
func TestFailureIsToldBeforeCancellation(t *testing.T) {
	c := &mergeWorkers{d: &Drum{buckets: make([]bucket, 3)}, workers: make([]*pass, 3)}
	failed := errors.New("disk")
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup // all workers have a bucket
	all.Add(3)
	do := func(fail error) func(context.Context, *pass, *bucket, int) error {
		return func(ctx context.Context, _ *pass, _ *bucket, i int) error {
			all.Done()
			all.Wait()
			if cancel(); i == 2 && fail != nil {
				return fail
			}
			return ctx.Err()
		}
	}
	if err := c.each(ctx, do(failed)); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
	all.Add(3)
	if err := c.each(ctx, do(nil)); err != context.Canceled {
		t.Errorf("got %v, want it cancelled, once", err)
	}
}
