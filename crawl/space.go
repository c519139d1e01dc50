package crawl

import (
	"context"
	"errors"
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

	"drumbeat/disk"
	"drumbeat/state"
)

// diskReserve is kept free on every file system, in addition to the size of a checkpoint, for file names,
// the manifest and partly written blocks of output.
const diskReserve = 16 << 20

// leastFiles is the number of files (inodes) for which a file system must have room: several times the
// files of a checkpoint and the running passes.
const leastFiles = 1000

// These are the intervals of the checks.
const (
	spaceEvery = time.Second      // check free space
	usedEvery  = 10 * time.Second // look for files of others in the directories, which takes some thousand calls
	spaceTold  = time.Minute      // repeat the log line during a pause
)

// errNoRoom stops a merge or a large body before it writes more than fits.
var errNoRoom = fmt.Errorf("crawl: no room: %w", syscall.ENOSPC)

// space detects a lack of disk space. Fetching, robots.txt requests and seeds pause while there is a
// reason. Its goroutine is "space".
type space struct {
	*engine
	reserved  atomic.Int64 // bytes that running merges and copies of spools may still write
	lent      atomic.Pointer[loan]
	frees     freeSpace
	savedURLs atomic.Int64 // Accounts.Gained of the last durable checkpoint
	wakeSpace signal

	lastCost  atomic.Pointer[saveCost]
	usedDrain atomic.Bool // --disk is nearly reached: do not queue new links, with WhenFullDrain

	budgets      *budgetStage
	check        *robotsCheck
	checkpointer *checkpointer
	content      *contentStage
	requests     *robotsRequests
	seen         *seenStage

	// Of the goroutine "space", and of the run before it starts.
	usedAt  time.Time // when the directories were last looked at
	freedAt time.Time // when a checkpoint was last made to free space
	against int       // consecutive checks that call for the opposite of draining

	mu      sync.Mutex // guards the fields below
	reasons map[string]string
	since   time.Time
	told    time.Time
}

func newSpace(e *engine) *space {
	s := &space{engine: e, wakeSpace: e.pulsedSignal()}
	e.limit.wake.Store(&s.wakeSpace)
	return s
}

// inFlight returns the number of exchanges under way.
func (s *space) inFlight() int64 {
	if s.workers == nil {
		return 0
	}
	return s.workers.inFlight.load()
}

// setReason sets or clears one reason to pause.
func (s *space) setReason(name, why string) {
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

// reasonStore is the reason that too many finished files wait for the object store.
const reasonStore = "object store"

// has reports whether there is a reason of that name.
func (s *space) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reasons[name] != ""
}

// onlyStore reports whether the object store is the only reason to pause. s.mu must be held.
func (s *space) onlyStore() bool { return len(s.reasons) == 1 && s.reasons[reasonStore] != "" }

// why returns the reasons to pause, "" for none.
func (s *space) why() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reasons) == 0 {
		return ""
	}
	if why := s.reasons[reasonLimit]; why != "" { // merges have no room for the same reason
		return why
	}
	return strings.Join(slices.Sorted(maps.Values(s.reasons)), "; ")
}

// pausing returns why fetching, robots.txt requests and seeds pause, "" if they do not.
func (s *space) pausing() string {
	if s.paused.Load() {
		return pausedByOperator
	}
	if why := s.why(); why != "" {
		return why
	}
	return s.nearLimit()
}

const pausedByOperator = "paused by the operator"

// lowWater is the free space of a file system below which fetching pauses. A checkpoint writes the content
// of all buffers and must always be possible.
func (s *space) lowWater() int64 { return s.plan.KeepFreeBytes }

// highWater is the free space above which fetching continues. The difference avoids frequent changes.
func highWater(low int64) int64 { return low + low/4 }

// limitMargin is the distance from --disk, besides the next checkpoint, at which fetching pauses. Passes may use it.
func (s *space) limitMargin() int64 { return min(s.lowWater(), s.opt.Limits.DiskBytes/16) }

// reserve refuses a merge whose output would not fit above the reserve, because waiting is better than
// failing midway. Merges of several stores, and several workers of one, run in parallel. Space that others
// have reserved counts as used until they release it, so it counts twice while they write. A loan is recalled first.
func (s *space) reserve(need int64) (release func(), err error) {
	if release, err = s.tryReserve(need); errors.Is(err, errNoRoom) && s.recall() {
		release, err = s.tryReserve(need)
	}
	return release, err
}

func (s *space) tryReserve(need int64) (release func(), err error) {
	if err := s.limitError("a merge", need, 0); err != nil {
		return nil, err
	}
	all := s.reserved.Add(need)
	release = func() { s.claim(-need) }
	if err := s.roomFor("a merge", s.Set.Paths, need, all+s.unsavedBytes(), min(diskReserve, s.lowWater())); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// roomFor returns an error if a directory has not all bytes free above keep. need is the part of all for
// what.
func (s *space) roomFor(what string, dirs []string, need, all, keep int64) error {
	for _, dir := range dirs {
		free, err := s.frees.in(dir, all+keep, func(dir string) (int64, error) {
			free, _, err := s.Set.FS.Space(dir)
			return free, err
		})
		if err != nil {
			return fmt.Errorf("crawl: free space of %s: %w", dir, err)
		}
		if free < all+keep {
			return fmt.Errorf("crawl: %s has %s free; %s needs %s, others %s, and %s stay free: %w",
				dir, bytesText(free), what, bytesText(need), bytesText(all-need), bytesText(keep), errNoRoom)
		}
	}
	return nil
}

// outputRoom returns an error if need bytes of a large body would not fit above the mark of free space, or
// below --disk.
func (s *space) outputRoom(need int64) error { return s.roomBeside("a large body", s.Out.Paths, need) }

// roomBeside returns an error if need bytes for what would not fit into dirs above the mark of free space, or below --disk.
func (s *space) roomBeside(what string, dirs []string, need int64) error {
	all := s.reserved.Load() + s.unsavedBytes() + need
	if err := s.limitError(what, need, s.limitMargin()); err != nil {
		return err
	}
	return s.roomFor(what, dirs, need, all, s.lowWater())
}

// claim reserves n more bytes, or returns them if n is negative.
func (s *space) claim(n int64) {
	if n < 0 {
		s.frees.giveBack(-n) // before, so that another does not see both as free
	}
	s.reserved.Add(n)
}

func bytesText(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// shortOf describes the file systems with less than mark bytes or fewer than files files free, "" if there
// are none. least is the smallest number of free bytes.
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

// checkSpace compares free and used space with the marks and sets the reasons to pause. saves reports whether it may make
// a checkpoint.
func (s *space) checkSpace(now time.Time, saves bool) error {
	low := s.lowWater()
	resting := s.why() != ""
	mark, files := low, int64(leastFiles)
	if resting {
		mark, files = highWater(low), highWater(leastFiles)
	}
	mark += s.unsavedBytes()
	why, least, err := shortOf(s.Set.FS, s.opt.allDirs(), mark, files)
	if err == nil && why != "" && s.recall() {
		why, least, err = shortOf(s.Set.FS, s.opt.allDirs(), mark, files)
	}
	if err != nil {
		return err
	}
	s.setReason("free", why)
	if now.Sub(s.usedAt) >= usedEvery {
		s.usedAt = now
		if err := s.limit.Count(); err != nil {
			return fmt.Errorf("crawl: disk in use: %w", err)
		}
	}
	if err := s.checkLimit(now, saves); err != nil {
		return err
	}
	s.drainOrNot(least - s.unsavedBytes())
	return nil
}

// drainSamples is the number of consecutive checks that start or end draining. Dropped links are lost for
// this crawl, while a temporary file of another program may soon be gone.
const drainSamples = 3

// drainOrNot starts draining when space runs low, with WhenFullDrain, and ends it when there is room again.
// least is the smallest number of free bytes of all file systems.
func (s *space) drainOrNot(least int64) {
	if s.opt.Disk.WhenFull != WhenFullDrain || s.opt.Admission.Drain {
		return
	}
	mark, on := 2*s.lowWater(), s.draining.Load()
	low := least < mark || s.usedDrain.Load()
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
		s.opt.Observe.Log.Warn("there is room again: new links are queued")
	} else {
		s.opt.Observe.Log.Warn("disk space runs low: new links are no longer queued; queued URLs are fetched",
			"mark", bytesText(mark))
	}
}

// used returns the bytes of the crawl's files.
func (s *space) used() int64 { return s.limit.Used() }

// allDirs returns the directories of state and output, each once.
func (o *Options) allDirs() []string {
	dirs := slices.Clone(o.Disk.Dirs)
	for _, d := range o.Disk.Out {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// watchSpace pauses fetching while there is too little room, and logs it.
func (s *space) watchSpace(ctx context.Context) error {
	for sleep(ctx, spaceEvery) {
		// Without a reason, only changes by this crawl need a check.
		if s.why() == "" && !s.await(ctx, s.wakeSpace, wakeAfter) {
			return nil
		}
		if err := s.checkSpace(time.Now(), true); err != nil {
			return err
		}
		if s.logPause(time.Now()) {
			return nil
		}
	}
	return nil
}

// logPause logs the start, the continuation and the end of a pause. It returns true if the crawl stops
// because of it.
func (s *space) logPause(now time.Time) (stop bool) {
	why := s.why()
	if why == "" {
		if paused := s.endPause(now); paused > 0 {
			s.noteProgress()
			s.changed() // wakes the paused stages, before the log may block
			s.opt.Observe.Log.Warn("there is room again: fetching continues", "paused", paused.Round(time.Second))
		}
		return false
	}
	paused, onlyStore, tell := s.notePause(now)
	if s.opt.Disk.WhenFull == WhenFullStop && !onlyStore {
		s.stop.set(StopDisk)
		s.cancel()
		s.opt.Observe.Log.Error("too little disk space: the crawl stops", "why", why)
		return true
	}
	if tell {
		what := "too little disk space: fetching pauses until there is room"
		if onlyStore {
			what = "fetching pauses until the object store has taken more files"
		}
		s.opt.Observe.Log.Error(what, "why", why, "paused", paused.Round(time.Second))
		s.testHook("rest")
	}
	return false
}

// endPause ends a pause and returns how long it was, 0 if there was none.
func (s *space) endPause(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		return 0
	}
	paused := max(1, now.Sub(s.since))
	s.since = time.Time{}
	return paused
}

// notePause returns how long a pause has lasted, whether only the object store causes it, and whether it is time to log it.
// Callers log without s.mu, which all stages take: a log that blocks would stop them.
func (s *space) notePause(now time.Time) (paused time.Duration, onlyStore, tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tell = now.Sub(s.told) >= spaceTold; tell {
		s.told = now
	}
	return now.Sub(s.since), s.onlyStore(), tell
}

// noRoom handles a merge that does not fit. It first makes a checkpoint, which deletes replaced files.
// After that fetching pauses, or the crawl stops, and the merge is tried again later. freed is when this
// merger last made such a checkpoint.
func (s *space) noRoom(ctx context.Context, name string, cause error, freed *time.Time) error {
	if time.Since(*freed) >= usedEvery && s.checkpointer.unsaved() {
		*freed = time.Now()
		return s.checkpointer.checkpoint(false, "")
	}
	s.setReason("merge "+name, cause.Error())
	s.logPause(time.Now())
	sleep(ctx, spaceEvery)
	return nil
}

// awaitSpace pauses for rest, then waits until every disk is above its high mark. A crawl whose write found
// no space starts with it, since its first checkpoint must be possible, and one that has more files than --disk
// allows.
func (s *space) awaitSpace(ctx context.Context, rest time.Duration) error {
	if rest > 0 {
		s.setReason("free", "a write found no space")
	}
	for sleep(ctx, rest) && ctx.Err() == nil {
		if err := s.checkSpace(time.Now(), false); err != nil {
			return err
		}
		if s.logPause(time.Now()) || s.why() == "" {
			return nil
		}
		rest = spaceEvery
	}
	return nil
}

// A crawl whose write found no space returns to its last checkpoint and tries again. Quotas, thin pools and
// internal limits of a file system do not show in statfs, so the crawl cannot know when there is room. It
// pauses, twice as long each time, and ends after fullRounds consecutive attempts that saved nothing.
const (
	fullPause    = time.Second
	fullPauseMax = 10 * time.Minute
	fullRounds   = 16 // 77 minutes
)

// fullTries counts the attempts.
type fullTries struct {
	n      int // consecutive attempts without a checkpoint that saved something
	hidden int // the last of them after which the file systems reported free space
	saved  int64
	low    int64 // the mark of free bytes
}

// pause returns the wait before the next attempt.
func (f *fullTries) pause() time.Duration {
	if f.n == 0 {
		return 0
	}
	return min(fullPauseMax, fullPause<<min(f.n-1, 20))
}

// noteSaved records the URLs in the last durable checkpoint.
func (s *space) noteSaved(a *state.Accounts) { s.savedURLs.Store(a.Gained()) }

// noteRun checks whether a run has saved URLs found or ended. The first checkpoint of a run saves nothing
// new.
func (f *fullTries) noteRun(s *space) {
	if saved := s.savedURLs.Load(); saved != f.saved {
		*f = fullTries{saved: saved}
	}
	f.low = s.lowWater()
}

// writesUseless counts a failed attempt and reports whether it was the last one.
func (f *fullTries) writesUseless(fsys disk.FS, dirs []string) bool {
	f.n++
	f.hidden++
	if why, _, err := shortOf(fsys, dirs, f.low, leastFiles); err != nil || why != "" {
		f.hidden = 0
	}
	return f.hidden > fullRounds
}

// error returns the error of a crawl whose last attempt failed with err.
func (f *fullTries) error(err error) error {
	although := "the file systems report free space (a quota, a thin pool?)"
	if errors.Is(err, disk.ErrQuota) {
		although = "--disk seemed to leave room"
	}
	return fmt.Errorf("crawl: %d times in a row a write found no space and nothing could be saved, although %s: %w", f.hidden, although, err)
}
