package crawl

import (
	"context"
	"errors"
	"testing"

	"drumbeat/disk/memfs"
)

// TestLoanGivesWay: merges must not count space that is lent, as long as they fit. If they do not, the loan must end and
// its files go, and the merge must then fit. Only the directory that has the loan counts.
func TestLoanGivesWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		mem := memfs.New(1)
		mem.SetCapacity(1 << 20)
		c := newCrawler(Options{Disk: DiskOptions{FS: mem, Dirs: []string{"d0", "d1"}, WhenFull: WhenFullStop}})
		c.plan.KeepFreeBytes = 64 << 10
		s := c.space
		if _, _, err := s.borrow(t.Context(), "work", "d0", 1<<20); !errors.Is(err, errNoRoom) {
			t.Errorf("a loan of the whole disk: %v", err)
		}
		ctx, release, err := s.borrow(t.Context(), "work", "d0", 900<<10)
		if err != nil {
			t.Fatal(err)
		}
		merge, err := s.reserve(800 << 10) // fits only without the loan
		if err != nil || ctx.Err() != nil {
			t.Fatalf("a merge beside a loan: %v, the work: %v", err, ctx.Err())
		}
		merge()
		if err := mem.MkdirAll("d0"); err != nil {
			t.Fatal(err)
		}
		f, err := mem.Create("d0/work")
		if err == nil {
			_, err = f.WriteAt(make([]byte, 600<<10), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-ctx.Done()
			if err := errors.Join(f.Close(), mem.Remove("d0/work")); err != nil {
				t.Error(err)
			}
			release()
		}()
		merge, err = s.reserve(800 << 10)
		if err != nil {
			t.Fatalf("a merge that needs the space of the loan: %v", err)
		}
		merge()
		if !errors.Is(context.Cause(ctx), errRecalled) {
			t.Errorf("the work ended by %v", context.Cause(ctx))
		}
		if _, err := s.reserve(1 << 20); !errors.Is(err, errNoRoom) {
			t.Errorf("a merge that never fits: %v", err)
		}
		if n := s.reserved.Load(); n != 0 {
			t.Errorf("%d bytes stay reserved", n)
		}
	})
}
