package space

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/options"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// keeper returns a Keeper of directories without stores.
func keeper(fsys disk.FS, dirs []string, opt Options) *Keeper {
	if opt.Limit == nil {
		opt.Limit = NewLimit(fsys, dirs, opt.DiskBytes)
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	opt.Dirs, opt.Outs, opt.Plan = dirs, len(dirs), new(plan.Plan)
	s := New(account.New(opt.Log, nil, nil), state.NewSaved(opt.Limit, dirs, dirs), opt)
	s.Wire(Others{Exchanges: func() int64 { return 0 }, Paused: func() bool { return false }, Drain: func(bool) {}})
	return s
}

// statfsCounter counts the calls of statfs.
type statfsCounter struct {
	disk.FS
	n int
}

func (c *statfsCounter) Space(name string) (free, total int64, err error) {
	c.n++
	return c.FS.Space(name)
}

// TestStatfsIsRare: a pass over 4,096 buckets must not ask each directory for its space for each bucket.
func TestStatfsIsRare(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		counter := &statfsCounter{FS: memfs.New(1)}
		var dirs []string
		for i := range 12 {
			dirs = append(dirs, fmt.Sprint("d", i))
		}
		s := keeper(counter, dirs, Options{})
		for i := range 4096 {
			release, err := s.Reserve(1 << 20)
			must(t, err)
			release()
			if i%1024 == 0 {
				time.Sleep(freeFor)
			}
		}
		if want := 12 * 5; counter.n > want {
			t.Errorf("%d calls of statfs in 4 times freeFor, want at most %d", counter.n, want)
		}
	})
}

// TestStatfsIsNotTrusted: what a merge may have written counts, though the last answer of statfs is older. So does room
// that others have made, as a refusal is never from memory.
func TestStatfsIsNotTrusted(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		mem := memfs.New(1)
		mem.SetCapacity(1 << 20)
		s := keeper(mem, []string{"."}, Options{})
		s.opt.Plan.KeepFreeBytes = 64 << 10
		release, err := s.Reserve(500 << 10)
		must(t, err)
		f, err := mem.Create("part")
		if err == nil {
			_, err = f.WriteAt(make([]byte, 500<<10), 0)
		}
		must(t, err)
		release()
		if _, err := s.Reserve(500 << 10); !errors.Is(err, ErrNoRoom) {
			t.Errorf("a second merge of the same size: %v", err)
		}
		must(t, errors.Join(f.Close(), mem.Remove("part")))
		if _, err := s.Reserve(500 << 10); err != nil {
			t.Errorf("once there is room again: %v", err)
		}
	})
}

// TestLoanGivesWay: merges must not count space that is lent, as long as they fit. If they do not, the loan
// must end and its files go, and the merge must then fit. Only the directory that has the loan counts.
func TestLoanGivesWay(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		mem := memfs.New(1)
		mem.SetCapacity(1 << 20)
		s := keeper(mem, []string{"d0", "d1"}, Options{WhenFull: options.WhenFullStop})
		s.opt.Plan.KeepFreeBytes = 64 << 10
		if _, _, err := s.Borrow(t.Context(), "work", "d0", 1<<20); !errors.Is(err, ErrNoRoom) {
			t.Errorf("a loan of the whole disk: %v", err)
		}
		ctx, release, err := s.Borrow(t.Context(), "work", "d0", 900<<10)
		must(t, err)
		merge, err := s.Reserve(800 << 10) // fits only without the loan
		if err != nil || ctx.Err() != nil {
			t.Fatalf("a merge beside a loan: %v, the work: %v", err, ctx.Err())
		}
		merge()
		must(t, mem.MkdirAll("d0"))
		f, err := mem.Create("d0/work")
		if err == nil {
			_, err = f.WriteAt(make([]byte, 600<<10), 0)
		}
		must(t, err)
		go func() {
			<-ctx.Done()
			if err := errors.Join(f.Close(), mem.Remove("d0/work")); err != nil {
				t.Error(err)
			}
			release()
		}()
		merge, err = s.Reserve(800 << 10)
		if err != nil {
			t.Fatalf("a merge that needs the space of the loan: %v", err)
		}
		merge()
		if !errors.Is(context.Cause(ctx), ErrRecalled) {
			t.Errorf("the work ended by %v", context.Cause(ctx))
		}
		if _, err := s.Reserve(1 << 20); !errors.Is(err, ErrNoRoom) {
			t.Errorf("a merge that never fits: %v", err)
		}
		if n := s.reserved.Load(); n != 0 {
			t.Errorf("%d bytes stay reserved", n)
		}
	})
}

// TestReserveIsShared: space that one merge has reserved must be unavailable to other merges until that
// merge ends.
func TestReserveIsShared(t *testing.T) {
	mem := memfs.New(1)
	mem.SetCapacity(1000)
	s := keeper(mem, []string{"."}, Options{})
	s.opt.Plan.KeepFreeBytes = 100
	first, err := s.Reserve(500)
	must(t, err)
	if _, err := s.Reserve(500); !errors.Is(err, ErrNoRoom) {
		t.Errorf("second merge, with 1000 bytes free and 100 to keep free: %v", err)
	}
	second, err := s.Reserve(400)
	if err != nil {
		t.Fatalf("smaller merge: %v", err)
	}
	first()
	second()
	if third, err := s.Reserve(900); err != nil {
		t.Errorf("after both merges: %v", err)
	} else {
		third()
	}
	if n := s.reserved.Load(); n != 0 {
		t.Errorf("%d bytes stay reserved", n)
	}
}

// TestDrainEndsWithTheShortage: three consecutive low samples begin draining, one doesn't; three samples
// with room end it.
func TestDrainEndsWithTheShortage(t *testing.T) {
	mem := memfs.New(1)
	draining := false
	s := keeper(mem, []string{"."}, Options{WhenFull: options.WhenFullDrain, DiskBytes: 1 << 40})
	s.others.Drain = func(on bool) { draining = on }
	s.opt.Plan.KeepFreeBytes = 1000
	for i, look := range []struct {
		free int64
		want bool
	}{
		// Twice the mark: 2000.
		{3000, false}, {1900, false}, {3000, false}, {1900, false}, {1900, false}, {1900, true},
		// A quarter above that: 2500.
		{2400, true}, {2600, true}, {2600, true}, {1900, true}, {2600, true}, {2600, true}, {2600, false},
	} {
		mem.SetCapacity(look.free)
		must(t, s.checkSpace(time.Now(), false))
		if got := draining; got != look.want {
			t.Errorf("sample %d, %d bytes free: draining %v, want %v", i, look.free, got, look.want)
		}
	}
}

// TestLimitMet: each write that meets the limit doubles the distance that the crawl keeps from it, from 256 KiB to a
// quarter of the limit, also in the next round of the run.
func TestLimitMet(t *testing.T) {
	fsys, most := memfs.New(1), int64(3<<20)
	limit := NewLimit(fsys, []string{"d0"}, most)
	refused := &disk.CorruptError{}
	for i, want := range []int64{256 << 10, 512 << 10, 768 << 10, 768 << 10} {
		if err := limit.Met(most, refused); !errors.Is(err, error(refused)) {
			t.Errorf("the error %v hides its cause", err)
		}
		s := keeper(fsys, []string{"d0"}, Options{DiskBytes: most, Limit: limit}) // of the next round
		if got := s.opt.Limit.extra.Load(); got != want {
			t.Errorf("met %d times: %d bytes more, want %d", i+1, got, want)
		}
		free := most - s.toSave()
		if s.Over(free, 0) || !s.Over(free+1, 0) || s.toSave() < want {
			t.Errorf("met %d times: %d bytes kept for a checkpoint do not bound what may be written", i+1, s.toSave())
		}
	}
}

// TestUselessWritesText: a crawl that gives up says whether --disk or a disk refused its writes.
func TestUselessWritesText(t *testing.T) {
	f := Tries{hidden: 17}
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("x: %w", disk.ErrQuota), "although --disk seemed to leave room: x: "},
		{syscall.EDQUOT, "although the file systems report free space (a quota, a thin pool?): "},
	} {
		if got := f.Error(c.err); !strings.Contains(got.Error(), c.want) || !errors.Is(got, c.err) {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// TestWhyInWords: the reason of a merge that does not fit has no chain of errors, and another reason hides it.
func TestWhyInWords(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		mem := memfs.New(1)
		mem.SetCapacity(1 << 20)
		s := keeper(mem, []string{"dir"}, Options{})
		must(t, mem.MkdirAll("dir"))
		_, cause := s.Reserve(2 << 20)
		freed := time.Now()
		must(t, s.NoRoom(t.Context(), "urlseen", fmt.Errorf("drum: pass: %w", cause), &freed))
		if why := s.Why(); !strings.HasPrefix(why, "dir has 1.0 MiB free; a merge needs 2.0 MiB, ") ||
			strings.Contains(why, "no space left") {
			t.Errorf("a merge: %q", why)
		}
		s.SetReason("free", "the disk is full")
		if why := s.Why(); why != "the disk is full" {
			t.Errorf("a merge on a full disk: %q", why)
		}
	})
}

// TestBlockedLogHoldsNoLock: while a log line waits for its reader, the lock that stages take must be free.
func TestBlockedLogHoldsNoLock(t *testing.T) {
	for name, log := range map[string]func(s *Keeper){
		"pause": func(s *Keeper) {
			s.SetReason("free", "a test")
			s.logPause(time.Now())
		},
		"end of a pause": func(s *Keeper) {
			s.since = time.Now()
			s.logPause(time.Now().Add(time.Second))
		},
		"stop": func(s *Keeper) {
			s.opt.WhenFull = options.WhenFullStop
			s.SetReason("free", "a test")
			s.logPause(time.Now())
		},
	} {
		testworld.InBubble(t, func(t *testing.T) {
			h := testworld.NewBlockedLog()
			s := keeper(memfs.New(1), []string{"."}, Options{Log: slog.New(h)})
			go log(s)
			synctest.Wait()
			if len(h.Blocked) != 1 {
				t.Errorf("%s: %d log lines", name, len(h.Blocked))
			}
			if !s.mu.TryLock() {
				t.Errorf("%s: the log line is written under the lock", name)
			}
			close(h.Release)
		})
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
