package space

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/options"
	"drumbeat/crawl/plan"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
)

// These are the intervals of the checks.
const (
	Every     = time.Second      // check free space
	usedEvery = 10 * time.Second // look for files of others in the directories, which takes some thousand calls
	spaceTold = time.Minute      // repeat the log line during a pause
)

// Options are the options of a Keeper.
type Options struct {
	Log         *slog.Logger
	WhenFull    options.WhenFull
	Drain       bool     // new links are never queued
	Dirs        []string // of state and output, each once
	Outs        int      // directories of output
	DiskBytes   int64    // limit of all files; 0: none
	Connections int
	Store       bool       // responses are stored
	Plan        *plan.Plan // of the crawl; it may be made after the Keeper, and does not change once stages run
	Limit       *Limit     // the file system of the crawl
}

// Store is a stage with stores on disk.
type Store interface {
	BufferedBytes() int64 // upper bound of what a checkpoint would write of its buffers
	UnsavedBytes() int64  // files in RAM until the next checkpoint
}

// Checkpoints makes checkpoints.
type Checkpoints interface {
	Unsaved() bool // something has changed since the last one
	Save() error
}

// Others are the stages that a Keeper calls.
type Others struct {
	Stores      []Store
	Checkpoints Checkpoints
	Exchanges   func() int64  // exchanges under way, for pages and robots.txt
	Drain       func(on bool) // new links are not queued, or are again
	Paused      func() bool   // the operator has paused the crawl
}

// StopDisk is the reason for which a Keeper stops the crawl.
const StopDisk = "disk limit"

// ErrNoRoom stops a merge or a large body before it writes more than fits.
var ErrNoRoom = fmt.Errorf("crawl: no room: %w", syscall.ENOSPC)

// noRoom is an ErrNoRoom with its reason in words for the operator.
type noRoom struct{ why string }

// Error implements error.
func (e *noRoom) Error() string { return "crawl: " + e.why + ": " + ErrNoRoom.Error() }

// Unwrap returns ErrNoRoom.
func (e *noRoom) Unwrap() error { return ErrNoRoom }

// Keeper detects a lack of disk space. Fetching, robots.txt requests and seeds pause while there is a
// reason. Its goroutine is "space".
type Keeper struct {
	run    *account.Run
	saved  *state.Saved
	opt    Options
	others Others

	draining  bool         // new links are not queued because of little space; of the goroutine
	reserved  atomic.Int64 // bytes that running merges and copies of spools may still write
	lent      atomic.Pointer[loan]
	frees     freeSpace
	savedURLs atomic.Int64 // Accounts.Gained of the last durable checkpoint
	wakeSpace account.Signal

	lastCost  atomic.Pointer[saveCost]
	usedDrain atomic.Bool // --disk is nearly reached: do not queue new links, with WhenFullDrain

	// Of the goroutine "space", and of the run before it starts.
	usedAt  time.Time // when the directories were last looked at
	freedAt time.Time // when a checkpoint was last made to free space
	against int       // consecutive checks that call for the opposite of draining

	mu      sync.Mutex // guards the fields below
	reasons map[string]string
	since   time.Time
	told    time.Time
}

// New returns a Keeper. Wire must give it the other stages before it is used.
func New(run *account.Run, saved *state.Saved, opt Options) *Keeper {
	s := &Keeper{run: run, saved: saved, opt: opt, wakeSpace: run.PulsedSignal()}
	opt.Limit.wake.Store(&s.wakeSpace)
	return s
}

// Wire gives the Keeper the stages that it calls.
func (s *Keeper) Wire(others Others) { s.others = others }

// SetReason sets or clears one reason to pause.
func (s *Keeper) SetReason(name, why string) {
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

// ReasonStore is the reason that too many finished files wait for the object store.
const ReasonStore = "object store"

// Has reports whether there is a reason of that name.
func (s *Keeper) Has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reasons[name] != ""
}

// onlyStore reports whether the object store is the only reason to pause. s.mu must be held.
func (s *Keeper) onlyStore() bool { return len(s.reasons) == 1 && s.reasons[ReasonStore] != "" }

// Why returns the reasons to pause, "" for none.
func (s *Keeper) Why() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reasons) == 0 {
		return ""
	}
	if why := s.reasons[reasonLimit]; why != "" { // merges have no room for the same reason
		return why
	}
	var all, others []string
	for name, why := range s.reasons {
		if all = append(all, why); !strings.HasPrefix(name, mergeReason) {
			others = append(others, why)
		}
	}
	if len(others) > 0 { // merges have no room for the same reason
		all = others
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "; ")
}

// mergeReason begins the names of the reasons that a merge does not fit.
const mergeReason = "merge "

// Pausing returns why fetching, robots.txt requests and seeds pause, "" if they do not.
func (s *Keeper) Pausing() string {
	if s.others.Paused() {
		return PausedByOperator
	}
	if why := s.Why(); why != "" {
		return why
	}
	return s.nearLimit()
}

const PausedByOperator = "paused by the operator"

// lowWater is the free space of a file system below which fetching pauses. A checkpoint writes the content
// of all buffers and must always be possible.
func (s *Keeper) lowWater() int64 { return s.opt.Plan.KeepFreeBytes }

// highWater is the free space above which fetching continues. The difference avoids frequent changes.
func highWater(low int64) int64 { return low + low/4 }

// limitMargin is the distance from --disk, besides the next checkpoint, at which fetching pauses. Passes may use it.
func (s *Keeper) limitMargin() int64 { return min(s.lowWater(), s.opt.DiskBytes/16) }

// Reserve refuses a merge whose output would not fit above the reserve, because waiting is better than
// failing midway. Merges of several stores, and several workers of one, run in parallel. Space that others
// have reserved counts as used until they release it, so it counts twice while they write. A loan is recalled first.
func (s *Keeper) Reserve(need int64) (release func(), err error) {
	if release, err = s.tryReserve(need); errors.Is(err, ErrNoRoom) && s.recall() {
		release, err = s.tryReserve(need)
	}
	return release, err
}

func (s *Keeper) tryReserve(need int64) (release func(), err error) {
	if err := s.limitError("a merge", need, 0); err != nil {
		return nil, err
	}
	all := s.reserved.Add(need)
	release = func() { s.Claim(-need) }
	if err := s.roomFor("a merge", s.saved.Set.Paths, need, all+s.unsavedBytes(),
		min(plan.DiskReserve, s.lowWater())); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// roomFor returns an error if a directory has not all bytes free above keep. need is the part of all for
// what.
func (s *Keeper) roomFor(what string, dirs []string, need, all, keep int64) error {
	for _, dir := range dirs {
		free, err := s.frees.in(dir, all+keep, func(dir string) (int64, error) {
			free, _, err := s.saved.Set.FS.Space(dir)
			return free, err
		})
		if err != nil {
			return fmt.Errorf("crawl: free space of %s: %w", dir, err)
		}
		if free < all+keep {
			return &noRoom{fmt.Sprintf("%s has %s free; %s needs %s, other work needs %s, and %s must stay free",
				dir, human.Bytes(free), what, human.Bytes(need), human.Bytes(all-need), human.Bytes(keep))}
		}
	}
	return nil
}

// OutputRoom returns an error if need bytes of a large body would not fit above the mark of free space, or
// below --disk.
func (s *Keeper) OutputRoom(need int64) error {
	return s.RoomBeside("a large body", s.saved.Out.Paths, need)
}

// RoomBeside returns an error if need bytes for what would not fit into dirs above the mark of free space, or
// below --disk.
func (s *Keeper) RoomBeside(what string, dirs []string, need int64) error {
	all := s.reserved.Load() + s.unsavedBytes() + need
	if err := s.limitError(what, need, s.limitMargin()); err != nil {
		return err
	}
	return s.roomFor(what, dirs, need, all, s.lowWater())
}

// Claim reserves n more bytes, or returns them if n is negative.
func (s *Keeper) Claim(n int64) {
	if n < 0 {
		s.frees.giveBack(-n) // before, so that another does not see both as free
	}
	s.reserved.Add(n)
}

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
			short = append(short,
				fmt.Sprintf("%s has %s free but needs %s", dir, human.Bytes(free), human.Bytes(mark)))
		}
		least = min(least, free)
		n, err := fsys.FreeFiles(dir)
		if err != nil {
			return "", 0, fmt.Errorf("crawl: free files of %s: %w", dir, err)
		}
		if n < files {
			short = append(short, fmt.Sprintf("%s has room for %s (inodes) but needs %d", dir,
				human.Counted(n, "more file", "more files"), files))
		}
	}
	return strings.Join(short, "; "), least, nil
}

// checkSpace compares free and used space with the marks and sets the reasons to pause. saves reports whether
// it may make a checkpoint.
func (s *Keeper) checkSpace(now time.Time, saves bool) error {
	low := s.lowWater()
	resting := s.Why() != ""
	mark, files := low, int64(plan.LeastFiles)
	if resting {
		mark, files = highWater(low), highWater(plan.LeastFiles)
	}
	mark += s.unsavedBytes()
	why, least, err := shortOf(s.saved.Set.FS, s.opt.Dirs, mark, files)
	if err == nil && why != "" && s.recall() {
		why, least, err = shortOf(s.saved.Set.FS, s.opt.Dirs, mark, files)
	}
	if err != nil {
		return err
	}
	s.SetReason("free", why)
	if now.Sub(s.usedAt) >= usedEvery {
		s.usedAt = now
		if err := s.opt.Limit.Count(); err != nil {
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
func (s *Keeper) drainOrNot(least int64) {
	if s.opt.WhenFull != options.WhenFullDrain || s.opt.Drain {
		return
	}
	mark, on := 2*s.lowWater(), s.draining
	low := least < mark || s.usedDrain.Load()
	if on && (low || least < highWater(mark)) || !on && !low {
		s.against = 0
		return
	}
	if s.against++; s.against < drainSamples {
		return
	}
	s.against = 0
	s.draining = !on
	s.others.Drain(!on)
	if on {
		s.opt.Log.Warn("there is space again: queuing new links")
	} else {
		s.opt.Log.Warn("disk space is low: no longer queuing new links; queued URLs are still fetched",
			"mark", human.Bytes(mark))
	}
}

// Used returns the bytes of the crawl's files.
func (s *Keeper) Used() int64 { return s.opt.Limit.Used() }

// Run pauses fetching while there is too little room, and logs it.
func (s *Keeper) Run(ctx context.Context) error {
	for account.Sleep(ctx, Every) {
		// Without a reason, only changes by this crawl need a check.
		if s.Why() == "" && !s.run.Await(ctx, s.wakeSpace, account.WakeAfter) {
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
func (s *Keeper) logPause(now time.Time) (stop bool) {
	why := s.Why()
	if why == "" {
		if paused := s.endPause(now); paused > 0 {
			s.run.NoteProgress()
			s.run.Changed() // wakes the paused stages, before the log may block
			s.opt.Log.Warn("there is space again: fetching continues", "paused", paused.Round(time.Second))
		}
		return false
	}
	paused, onlyStore, tell := s.notePause(now)
	if s.opt.WhenFull == options.WhenFullStop && !onlyStore {
		s.run.Stop(StopDisk)
		s.opt.Log.Error("too little disk space: the crawl stops", "why", why)
		return true
	}
	if tell {
		what := "too little disk space: fetching pauses until there is more"
		if onlyStore {
			what = "fetching pauses until the object store has received more files"
		}
		s.opt.Log.Error(what, "why", why, "paused", paused.Round(time.Second))
		s.run.Hook("rest")
	}
	return false
}

// endPause ends a pause and returns how long it was, 0 if there was none.
func (s *Keeper) endPause(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		return 0
	}
	paused := max(1, now.Sub(s.since))
	s.since = time.Time{}
	return paused
}

// notePause returns how long a pause has lasted, whether only the object store causes it, and whether it is
// time to log it. Callers log without s.mu, which all stages take: a log that blocks would stop them.
func (s *Keeper) notePause(now time.Time) (paused time.Duration, onlyStore, tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tell = now.Sub(s.told) >= spaceTold; tell {
		s.told = now
	}
	return now.Sub(s.since), s.onlyStore(), tell
}

// NoRoom handles a merge that does not fit. It first makes a checkpoint, which deletes replaced files.
// After that fetching pauses, or the crawl stops, and the merge is tried again later. freed is when this
// merger last made such a checkpoint.
func (s *Keeper) NoRoom(ctx context.Context, name string, cause error, freed *time.Time) error {
	if time.Since(*freed) >= usedEvery && s.others.Checkpoints.Unsaved() {
		*freed = time.Now()
		return s.others.Checkpoints.Save()
	}
	why := cause.Error()
	if short := (*noRoom)(nil); errors.As(cause, &short) {
		why = short.why
	}
	s.SetReason(mergeReason+name, why)
	s.logPause(time.Now())
	account.Sleep(ctx, Every)
	return nil
}

// AwaitSpace pauses for rest, then waits until every disk is above its high mark. A crawl whose write found
// no space starts with it, since its first checkpoint must be possible, and one that has more files than --disk
// allows.
func (s *Keeper) AwaitSpace(ctx context.Context, rest time.Duration) error {
	if rest > 0 {
		s.SetReason("free", "a write found no disk space")
	}
	for account.Sleep(ctx, rest) && ctx.Err() == nil {
		if err := s.checkSpace(time.Now(), false); err != nil {
			return err
		}
		if s.logPause(time.Now()) || s.Why() == "" {
			return nil
		}
		rest = Every
	}
	return nil
}

// A crawl whose write found no space returns to its last checkpoint and tries again. Quotas, thin pools and
// internal limits of a file system do not show in statfs, so the crawl cannot know when there is room. It
// pauses, twice as long each time, and ends after fullRounds consecutive attempts that saved nothing.
const (
	fullPause    = time.Second
	fullPauseMax = 10 * time.Minute
	FullRounds   = 16 // 77 minutes
)

// Tries counts the attempts.
type Tries struct {
	N      int // consecutive attempts without a checkpoint that saved something
	hidden int // the last of them after which the file systems reported free space
	saved  int64
	low    int64 // the mark of free bytes
}

// Pause returns the wait before the next attempt.
func (f *Tries) Pause() time.Duration {
	if f.N == 0 {
		return 0
	}
	return min(fullPauseMax, fullPause<<min(f.N-1, 20))
}

// NoteSaved records the URLs in the last durable checkpoint.
func (s *Keeper) NoteSaved(a *state.Accounts) { s.savedURLs.Store(a.Gained()) }

// NoteRun checks whether a run has saved URLs found or ended. The first checkpoint of a run saves nothing
// new.
func (f *Tries) NoteRun(s *Keeper) {
	if saved := s.savedURLs.Load(); saved != f.saved {
		*f = Tries{saved: saved}
	}
	f.low = s.lowWater()
}

// WritesUseless counts a failed attempt and reports whether it was the last one.
func (f *Tries) WritesUseless(fsys disk.FS, dirs []string) bool {
	f.N++
	f.hidden++
	if why, _, err := shortOf(fsys, dirs, f.low, plan.LeastFiles); err != nil || why != "" {
		f.hidden = 0
	}
	return f.hidden > FullRounds
}

// Error returns the error of a crawl whose last attempt failed with err.
func (f *Tries) Error(err error) error {
	although := "the file systems report free space (a quota, a thin pool?)"
	if errors.Is(err, disk.ErrQuota) {
		although = "--disk seemed to leave room"
	}
	return fmt.Errorf("crawl: %s in a row, a write found no disk space and no state could be saved, although %s: %w",
		human.Counted(f.hidden, "time", "times"), although, err)
}
