package space

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/plan"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
)

// Options.DiskBytes holds exactly, on three levels:
//
//   - disk.Quota counts each byte before it is written. A write beyond the limit fails, as on a full disk.
//   - Merges, copies and large bodies reserve what they may write. They are refused if that and the next checkpoint
//     do not fit.
//   - Fetching pauses limitMargin before that. A page that was under way and whose records do not fit is deferred.
//
// So the first level is hardly ever needed. If it is, the crawl returns to its last checkpoint, as on a disk that
// another program has filled, and keeps a larger distance from then on.

// A new crawl needs Options.leastDisk. A crawl that has more files than a new, smaller limit allows waits before it
// writes anything.

// Limit is the file system of a run, across its returns to the last checkpoint.
type Limit struct {
	*disk.Quota
	wake  atomic.Pointer[account.Signal] // wakes the goroutine "space" at the mark
	extra atomic.Int64                   // added to the distance, in bytes: the limit was met
}

// NewLimit returns fsys with a limit for the files in dirs.
func NewLimit(fsys disk.FS, dirs []string, limit int64) *Limit {
	l := &Limit{}
	l.Quota = disk.NewQuota(fsys, disk.QuotaOptions{Dirs: dirs, Limit: limit, Final: isFinal,
		Crossed: func() {
			if wake := l.wake.Load(); wake != nil {
				wake.Raise()
			}
		}})
	return l
}

// isFinal reports whether a file is finished output, which no longer changes.
func isFinal(name string) bool {
	return slices.ContainsFunc(closedSuffixes[:], func(s string) bool { return strings.HasSuffix(name, s) })
}

// closedSuffixes are the suffixes of output files that no longer change.
var closedSuffixes = [...]string{".warc.gz", ".warc.zst", ".cdxj", ".jsonl.zst"}

const (
	// limitStep is the least growth of diskLimit.extra.
	limitStep = 256 << 10
	// limitExtraShare bounds diskLimit.extra: a quarter of the limit.
	limitExtraShare = 4
	// exchangeBytes is what an exchange under way may write although fetching pauses: the record of a URL that is
	// deferred, or a robots.txt.
	exchangeBytes = 4 << 10
	// linkBytes is what a link of a page takes in the stores, beyond its text.
	linkBytes = 64
	// queuedBytes is the mean size of a URL in a queue (TestPlans: 110 bytes of URL and its record).
	queuedBytes = 256
	// passBytes bounds what a pass is assumed to hand on between two checkpoints, unless limitMargin is
	// larger: a disk of 100 MB/s takes no more than 64 MiB in a second, and the passes are asked before each
	// bucket.
	passBytes = 64 << 20
)

// Met records that a write met the limit. The crawl then keeps a larger distance. It returns a LimitError.
func (l *Limit) Met(limit int64, err error) error {
	l.extra.Store(min(max(2*l.extra.Load(), limitStep), limit/limitExtraShare))
	return &LimitError{Used: l.Used(), Limit: limit, Err: err}
}

// LimitError is the error of a write that would have exceeded Options.DiskBytes. The last checkpoint is intact.
type LimitError struct {
	Used  int64 // bytes of the crawl's files after the crawl was closed
	Limit int64
	Err   error
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("crawl: --disk limit reached: the crawl's files take %s of at most %s: %v", human.Bytes(e.Used),
		human.Bytes(e.Limit), e.Err)
}

// Unwrap returns the cause.
func (e *LimitError) Unwrap() error { return e.Err }

// saveCost is what the last checkpoint wrote, and what waited in buffers then.
type saveCost struct{ bytes, waiting int64 }

// NoteCost records what a checkpoint wrote: tails, and a manifest for each directory. Files that were in RAM counted as
// used before.
func (s *Keeper) NoteCost(tails *disk.Tails, manifest, waiting int64) {
	s.frees.giveBack(tails.Files())
	s.lastCost.Store(&saveCost{tails.Bytes() - tails.Files() + 2*manifest*int64(s.saved.Set.Len()), waiting})
}

// WaitingBytes is an upper bound of the bytes in buffers and in RAM that a checkpoint would write.
func (s *Keeper) WaitingBytes() int64 {
	n := min(s.opt.Plan.PoliteBytes, s.run.Accounts.In(state.PlaceRAM)*plan.PoliteItemBytes)
	n += min(s.opt.Plan.QueueBytes,
		queuedBytes*s.run.Accounts.In(state.PlaceBeast, state.PlaceReady, state.PlaceAwaitRobots,
			state.PlaceDeferred, state.PlaceHeld, state.PlaceOverBudget))
	for _, store := range s.others.Stores {
		n += store.BufferedBytes()
	}
	return n
}

// unsavedBytes is the size of the files that stores have in RAM until the next checkpoint writes them. They count as
// used from the pass on that makes them.
func (s *Keeper) unsavedBytes() (n int64) {
	for _, store := range s.others.Stores {
		n += store.UnsavedBytes()
	}
	return n
}

// mostSaved is the most that a checkpoint and the exchanges under way can write.
func (s *Keeper) mostSaved() int64 {
	return plan.DiskReserve + s.opt.Plan.BufferedBytes() + int64(s.opt.Connections)*plan.ConnectionBytes
}

// toSave is an upper bound of what the next checkpoint and the exchanges under way write.
func (s *Keeper) toSave() int64 {
	n := s.WaitingBytes()
	if last := s.lastCost.Load(); last != nil {
		n = last.bytes + max(0, n-last.waiting)
	}
	if s.opt.Store {
		n += 2 * int64(s.opt.Plan.OutputBufferBytes) * int64(s.opt.Outs) // a WARC file and its index
	}
	n += exchangeBytes * s.others.Exchanges()
	return min(n, s.mostSaved()) + s.opt.Limit.extra.Load()
}

// Over reports whether bytes more would come nearer to the limit than the next checkpoint and margin.
func (s *Keeper) Over(bytes, margin int64) bool {
	limit := s.opt.DiskBytes
	if limit <= 0 {
		return false
	}
	used := s.opt.Limit.Used() + s.unsavedBytes() + s.reserved.Load() + bytes + margin
	if used+s.mostSaved()+s.opt.Limit.extra.Load() <= limit {
		return false
	}
	return used+s.toSave() > limit
}

// limitError returns an error if bytes for what do not fit below the limit.
func (s *Keeper) limitError(what string, bytes, margin int64) error {
	if !s.Over(bytes, margin) {
		return nil
	}
	return &noRoom{fmt.Sprintf("%s needs %s: %s", what, human.Bytes(bytes), s.limitText())}
}

// limitText says how near the limit is.
func (s *Keeper) limitText() string {
	return fmt.Sprintf("the crawl uses %s of at most %s (--disk), and the next checkpoint and merges need %s",
		human.Bytes(s.opt.Limit.Used()), human.Bytes(s.opt.DiskBytes),
		human.Bytes(s.unsavedBytes()+s.reserved.Load()+s.toSave()))
}

// nearLimit returns why fetching pauses near the limit, "" if it does not. Stages ask before each request.
func (s *Keeper) nearLimit() string {
	if !s.Over(0, s.limitMargin()) {
		return ""
	}
	s.wakeSpace.Raise()
	return s.limitText()
}

// Fits reports whether the records of a page fit: bytes of output, and links with texts of linkTexts bytes. If they do
// not, the page is deferred.
func (s *Keeper) Fits(bytes, links, linkTexts int64) bool {
	return !s.Over(bytes+linkBytes*links+linkTexts+exchangeBytes, 0)
}

// LeastDisk is the smallest limit with which a new crawl with so many directories fetches pages (TestLeastDisk). A
// directory has copies of the manifest, the tails of checkpoints and an open WARC file with its index.
func LeastDisk(dirs int) int64 {
	const base, directory = 2 << 20, 512 << 10
	return base + directory*int64(dirs)
}

// ReservePass reserves what a pass over a store hands on to others, as its emissions cannot be refused. bytes wait in
// the store.
func (s *Keeper) ReservePass(name string, bytes int64) (release func(), err error) {
	need := min(2*bytes, max(passBytes, s.opt.DiskBytes/32)) // texts are compressed in the store
	err = s.limitError("a pass over "+name, need, 0)
	if err != nil && s.recall() {
		err = s.limitError("a pass over "+name, need, 0)
	}
	if err != nil {
		return nil, err
	}
	s.reserved.Add(need)
	return func() { s.reserved.Add(-need) }, nil
}

// checkLimit compares the sum of the files with the limit, and sets the reason to pause. It first makes a checkpoint,
// which deletes replaced files, unless one has been made just before.
func (s *Keeper) checkLimit(now time.Time, saves bool) error {
	margin := s.limitMargin()
	if s.Has(reasonLimit) {
		margin += margin / 4 // avoids frequent changes
	}
	over := s.Over(0, margin)
	if over && s.recall() {
		over = s.Over(0, margin)
	}
	if over && saves && now.Sub(s.freedAt) >= usedEvery && s.others.Checkpoints.Unsaved() {
		s.freedAt = now
		if err := s.others.Checkpoints.Save(); err != nil {
			return err
		}
		over = s.Over(0, margin+margin/4)
	}
	s.usedDrain.Store(s.Over(0, 2*margin))
	why := ""
	if over {
		why = s.limitText()
	}
	s.SetReason(reasonLimit, why)
	return nil
}

// reasonLimit is the reason that the limit is near.
const reasonLimit = "limit"
