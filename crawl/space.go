package crawl

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"

	"drumbeat/crawl/state"
	"drumbeat/disk"
)

// WhenFull says what a crawl does when a disk is nearly full, or --disk nearly reached.
type WhenFull string

// What to do. Each leaves the crawl such that the same command goes on.
const (
	WhenFullPause WhenFull = "pause" // rest until there is room again
	WhenFullDrain WhenFull = "drain" // queue no new links below twice the mark; rest at the mark
	WhenFullStop  WhenFull = "stop"  // end with StopDisk
)

// diskReserve is kept free on every file system besides what a checkpoint writes: names, the manifest, blocks of output
// that are under way.
const diskReserve = 16 << 20

// leastFiles is how many files (inodes) a file system must have room for: those of a checkpoint and of the passes that run, some
// times over.
const leastFiles = 1000

// Intervals of the watch over space.
const (
	spaceEvery = time.Second      // free space is looked at
	usedEvery  = 10 * time.Second // the crawl's own files are added up: some thousand calls
	spaceTold  = time.Minute      // a crawl that rests says so again
)

// errNoRoom stops a merge before it writes anything.
var errNoRoom = fmt.Errorf("crawl: no room for a merge: %w", syscall.ENOSPC)

// space knows what the disks are short of. Fetching, robots requests and seeds rest while there is any reason.
//
// Its goroutine is "space".
type space struct {
	*engine
	reserved  atomic.Int64 // bytes that merges under way may still write
	savedURLs atomic.Int64 // Accounts.Gained of the last durable checkpoint
	wakeSpace signal

	checkpointer *checkpointer
	output       *output

	mu       sync.Mutex // guards all below
	reasons  map[string]string
	since    time.Time
	told     time.Time
	usedAt   time.Time // when the crawl's files were last added up
	usedOver bool

	usedDrain bool // --disk is nearly reached: new links aren't queued, with WhenFullDrain
	against   int  // looks in a row that speak for the opposite of r.draining
}

func newSpace(e *engine) *space {
	return &space{engine: e, wakeSpace: e.pulsedSignal()}
}

// short notes or clears one reason to rest.
func (s *space) short(name, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why == "" {
		delete(s.reasons, name)
		return
	}
	if s.reasons == nil {
		s.reasons = map[string]string{}
	}
	if len(s.reasons) == 0 {
		s.since, s.told = time.Now(), time.Time{}
	}
	s.reasons[name] = why
}

// why is "" while nothing is short.
func (s *space) why() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reasons) == 0 {
		return ""
	}
	return strings.Join(slices.Sorted(maps.Values(s.reasons)), "; ")
}

// lowWater is the free space of a file system at which fetching rests: a checkpoint writes all that is in buffers, and must
// always be possible.
func (s *space) lowWater() int64 { return s.plan.KeepFreeBytes }

// highWater is where it goes on; the distance keeps it from flapping.
func highWater(low int64) int64 { return low + low/4 }

// limitMargin is how far below --disk fetching rests.
func (s *space) limitMargin() int64 { return min(s.lowWater(), s.opt.DiskBytes/16) }

// reserve refuses a merge whose output wouldn't fit above the reserve: better to wait than to fail in the middle. Merges of several
// stores, and several workers of one, run side by side: what the others have reserved counts as taken until they have written
// it, so twice while they write it.
func (s *space) reserve(need int64) (release func(), err error) {
	keep := min(diskReserve, s.lowWater())
	all := s.reserved.Add(need)
	release = func() { s.reserved.Add(-need) }
	for _, dir := range s.Set.Paths {
		free, _, err := s.Set.FS.Space(dir)
		if err != nil {
			release()
			return nil, fmt.Errorf("crawl: free space of %s: %w", dir, err)
		}
		if free < all+keep {
			release()
			return nil, fmt.Errorf("crawl: %s has %s free, a merge needs %s, others %s, and %s are kept: %w", dir, bytesText(free),
				bytesText(need), bytesText(all-need), bytesText(keep), errNoRoom)
		}
	}
	return release, nil
}

func bytesText(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// shortOf says which of the file systems have less than mark bytes, or leastFiles files, free; "" if none. files is the mark of
// files.
func shortOf(fsys disk.FS, dirs []string, mark, files int64) (why string, least int64, err error) {
	var short []string
	least = math.MaxInt64
	for _, dir := range dirs {
		free, _, err := fsys.Space(dir)
		if err != nil {
			return "", 0, fmt.Errorf("crawl: free space of %s: %w", dir, err)
		}
		if free < mark {
			short = append(short, fmt.Sprintf("%s has %s free, %s are needed", dir, bytesText(free), bytesText(mark)))
		}
		least = min(least, free)
		n, err := fsys.FreeFiles(dir)
		if err != nil {
			return "", 0, fmt.Errorf("crawl: free files of %s: %w", dir, err)
		}
		if n < files {
			short = append(short, fmt.Sprintf("%s has room for %d more files (inodes), %d are needed", dir, n, files))
		}
	}
	return strings.Join(short, "; "), least, nil
}

// lookAtSpace compares free and used space with the marks and notes what is short. level is by how much more than the mark
// must be free: 1 for resting, 2 for draining.
func (s *space) lookAtSpace(now time.Time) error {
	low := s.lowWater()
	resting := s.why() != ""
	mark, files := low, int64(leastFiles)
	if resting {
		mark, files = highWater(low), highWater(leastFiles)
	}
	why, least, err := shortOf(s.Set.FS, s.opt.allDirs(), mark, files)
	if err != nil {
		return err
	}
	s.short("free", why)
	s.mu.Lock()
	look := now.Sub(s.usedAt) >= usedEvery
	s.mu.Unlock()
	if look {
		if err := s.lookAtUsed(now); err != nil {
			return err
		}
	}
	s.drainOrNot(least)
	return nil
}

// drainSamples is how many looks in a row begin or end draining: links that are dropped are gone for this crawl, and a neighbour's
// temporary file is gone soon.
const drainSamples = 3

// drainOrNot begins to drain when space runs low, with WhenFullDrain, and ends it when there is room again. least is what is free where
// it is least.
func (s *space) drainOrNot(least int64) {
	if s.opt.WhenFull != WhenFullDrain || s.opt.Drain {
		return
	}
	mark, on := 2*s.lowWater(), s.draining.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	low := least < mark || s.usedDrain
	if on && (low || least < highWater(mark)) || !on && !low {
		s.against = 0
		return
	}
	if s.against++; s.against < drainSamples {
		return
	}
	s.against = 0
	s.draining.Store(!on)
	if on {
		s.opt.Log.Warn("there is room again: new links are queued")
	} else {
		s.opt.Log.Warn("disk space runs low: new links are not queued any more; what is queued is fetched", "mark", bytesText(mark))
	}
}

// lookAtUsed adds up the crawl's files and compares with --disk.
func (s *space) lookAtUsed(now time.Time) error {
	used, err := s.output.diskUsed()
	if err != nil {
		return err
	}
	margin := s.limitMargin()
	s.mu.Lock()
	s.usedAt = now
	mark := s.opt.DiskBytes - margin
	if s.usedOver {
		mark -= margin / 4
	}
	over := used >= mark
	s.usedOver, s.usedDrain = over, used >= s.opt.DiskBytes-2*margin
	s.mu.Unlock()
	why := ""
	if over {
		why = fmt.Sprintf("the crawl takes %s of the %s that it may", bytesText(used), bytesText(s.opt.DiskBytes))
	}
	s.short("limit", why)
	return nil
}

// allDirs are the directories of state and output, each once.
func (o *Options) allDirs() []string {
	dirs := slices.Clone(o.Dirs)
	for _, d := range o.Out {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// watchSpace rests fetching while there is too little room, and says so.
func (s *space) watchSpace(ctx context.Context) error {
	for sleep(ctx, spaceEvery) {
		if s.why() == "" && !s.await(ctx, s.wakeSpace, wakeAfter) { // only what this crawl does is urgent
			return nil
		}
		if err := s.lookAtSpace(time.Now()); err != nil {
			return err
		}
		if s.tellSpace(time.Now()) {
			return nil
		}
	}
	return nil
}

// tellSpace logs the beginning, the going on and the end of a rest; it returns true when the crawl stops because of it.
func (s *space) tellSpace(now time.Time) (stop bool) {
	why := s.why()
	s.mu.Lock()
	defer s.mu.Unlock()
	if why == "" {
		if !s.since.IsZero() {
			s.opt.Log.Warn("there is room again: fetching goes on", "rested", now.Sub(s.since).Round(time.Second))
			s.since = time.Time{}
			s.noteProgress()
			s.changed() // stages that rested look up
		}
		return false
	}
	if s.opt.WhenFull == WhenFullStop {
		s.opt.Log.Error("too little disk space: the crawl stops in order", "why", why)
		s.stop.set(StopDisk)
		s.cancel()
		return true
	}
	if now.Sub(s.told) >= spaceTold {
		s.opt.Log.Error("too little disk space: fetching rests until there is room", "why", why,
			"rested", now.Sub(s.since).Round(time.Second))
		s.told = now
		s.testHook("rest")
	}
	return false
}

// noRoom handles a merge that doesn't fit: a checkpoint first, since it deletes replaced files; then the crawl stops, or fetching
// rests and the merge is tried again from time to time. freed is when this merger last asked for such a checkpoint.
func (s *space) noRoom(ctx context.Context, name string, cause error, freed *time.Time) error {
	if time.Since(*freed) >= usedEvery {
		*freed = time.Now()
		return s.checkpointer.checkpoint(false, "")
	}
	s.short("merge "+name, cause.Error())
	s.tellSpace(time.Now())
	sleep(ctx, spaceEvery)
	return nil
}

// awaitSpace rests, then waits until every disk is above its high mark. A crawl that ran into a full disk begins with it, since
// its first checkpoint must be possible.
func (s *space) awaitSpace(ctx context.Context, rest time.Duration) error {
	s.short("free", "a write failed for want of space")
	for sleep(ctx, rest) && ctx.Err() == nil {
		if err := s.lookAtSpace(time.Now()); err != nil {
			return err
		}
		if s.tellSpace(time.Now()) || s.why() == "" {
			return nil
		}
		rest = spaceEvery
	}
	return nil
}

// A crawl whose write failed for want of space goes back to its last checkpoint and tries again. A quota, a thin pool or a file
// system's own limits don't show in statfs, so there is no telling when there is room. It pauses, twice as long each time, and
// ends when so many tries in a row have saved nothing.
const (
	fullPause    = time.Second
	fullPauseMax = 10 * time.Minute
	fullRounds   = 16 // 77 minutes
)

// fullTries counts the tries.
type fullTries struct {
	n      int // in a row, without a checkpoint that saved something
	hidden int // the last of them, after which the file systems showed room
	saved  int64
	low    int64 // the mark of free bytes
}

// pause is how long to wait before the next try.
func (f *fullTries) pause() time.Duration {
	if f.n == 0 {
		return 0
	}
	return min(fullPauseMax, fullPause<<min(f.n-1, 20))
}

// noteSaved notes what the last durable checkpoint has.
func (s *space) noteSaved(a *state.Accounts) { s.savedURLs.Store(a.Gained()) }

// noteRun looks at what a run has saved: URLs found and URLs ended. The first checkpoint of a run saves nothing new.
func (f *fullTries) noteRun(s *space) {
	if saved := s.savedURLs.Load(); saved != f.saved {
		*f = fullTries{saved: saved}
	}
	f.low = s.lowWater()
}

// useless counts one more try that failed and says whether it was the last one.
func (f *fullTries) writesUseless(fsys disk.FS, dirs []string) bool {
	f.n++
	f.hidden++
	if why, _, err := shortOf(fsys, dirs, f.low, leastFiles); err != nil || why != "" {
		f.hidden = 0
	}
	return f.hidden > fullRounds
}
