package crawl

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"drumbeat/disk"
	"drumbeat/drum"
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

// diskLimit is the file system of a run, across its returns to the last checkpoint.
type diskLimit struct {
	*disk.Quota
	wake  atomic.Pointer[signal] // wakes the goroutine "space" at the mark
	extra atomic.Int64           // added to the distance, in bytes: the limit was met
}

func newDiskLimit(opt *Options) *diskLimit {
	l := &diskLimit{}
	l.Quota = disk.NewQuota(opt.FS, disk.QuotaOptions{Dirs: opt.allDirs(), Limit: opt.DiskBytes, Final: isFinal,
		Crossed: func() {
			if wake := l.wake.Load(); wake != nil {
				wake.raise()
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
	// passBytes bounds what a pass is assumed to hand on between two checkpoints, unless limitMargin is larger: a disk of
	// 100 MB/s takes no more than 64 MiB in a second, and the passes are asked before each bucket.
	passBytes = 64 << 20
)

// met records that a write met the limit. The crawl then keeps a larger distance. It returns a LimitError.
func (l *diskLimit) met(limit int64, err error) error {
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
	return fmt.Sprintf("crawl: --disk is reached: the crawl's files take %s of at most %s: %v", bytesText(e.Used), bytesText(e.Limit), e.Err)
}

// Unwrap returns the cause.
func (e *LimitError) Unwrap() error { return e.Err }

// saveCost is what the last checkpoint wrote, and what waited in buffers then.
type saveCost struct{ bytes, waiting int64 }

// noteCost records what a checkpoint wrote: tails, and a manifest for each directory. Files that were in RAM counted as
// used before.
func (s *space) noteCost(tails *disk.Tails, manifest, waiting int64) {
	s.frees.giveBack(tails.Files())
	s.lastCost.Store(&saveCost{tails.Bytes() - tails.Files() + 2*manifest*int64(s.Set.Len()), waiting})
}

// waitingBytes is an upper bound of the bytes in buffers and in RAM that a checkpoint would write.
func (s *space) waitingBytes() int64 {
	n := min(s.plan.PoliteBytes, s.acct.in(state.PlaceRAM)*politeItemBytes)
	n += min(s.plan.QueueBytes, queuedBytes*s.acct.in(state.PlaceBeast, state.PlaceReady, state.PlaceAwaitRobots,
		state.PlaceDeferred, state.PlaceHeld, state.PlaceOverBudget))
	n += s.seen.bufferedBytes() + s.content.bufferedBytes() + s.check.bufferedBytes() + s.requests.bufferedBytes()
	return n + s.budgets.bufferedBytes()
}

// buffered is the most that the buffers of a store hold, if bytes wait in the store.
func (p *DrumPlan) buffered(bytes int64) int64 {
	return min(bytes, 2*int64(p.Buckets)*int64(p.BufferBytes))
}

// bufferedIn is buffered for a store, 0 before it is open.
func (p *DrumPlan) bufferedIn(d *drum.Drum) int64 {
	if d == nil {
		return 0
	}
	_, bytes := d.Pending()
	return p.buffered(bytes)
}

func (s *seenStage) bufferedBytes() int64 {
	return s.plan.URLSeen.bufferedIn(s.urlSeen) + s.plan.Names.bufferedIn(s.names)
}

func (c *contentStage) bufferedBytes() int64 { return c.plan.Content.bufferedIn(c.content) }

func (k *robotsCheck) bufferedBytes() int64 { return k.plan.RobotsCache.bufferedIn(k.robotsCache) }

func (q *robotsRequests) bufferedBytes() int64 {
	return q.plan.RobotsRequested.bufferedIn(q.robotsRequested)
}

func (b *budgetStage) bufferedBytes() int64 {
	if b.star == nil {
		return 0
	}
	edges, indegree := b.star.PendingBytes()
	return b.plan.Edges.buffered(edges) + b.plan.Indegree.buffered(indegree)
}

// unsavedBytes is the size of the files that stores have in RAM until the next checkpoint writes them. They count as
// used from the pass on that makes them.
func (s *space) unsavedBytes() int64 {
	return s.seen.unsavedBytes() + s.content.unsavedBytes() + s.check.unsavedBytes() + s.requests.unsavedBytes() +
		s.budgets.unsavedBytes()
}

func (s *seenStage) unsavedBytes() int64 { return unsavedIn(s.urlSeen) + unsavedIn(s.names) }

func (c *contentStage) unsavedBytes() int64 { return unsavedIn(c.content) }

func (k *robotsCheck) unsavedBytes() int64 { return unsavedIn(k.robotsCache) }

func (q *robotsRequests) unsavedBytes() int64 { return unsavedIn(q.robotsRequested) }

func (b *budgetStage) unsavedBytes() int64 {
	if b.star == nil {
		return 0
	}
	return b.star.UnsavedBytes()
}

// unsavedIn returns what a store has to save, 0 before it is open.
func unsavedIn(d *drum.Drum) int64 {
	if d == nil {
		return 0
	}
	return d.UnsavedBytes()
}

// mostSaved is the most that a checkpoint and the exchanges under way can write.
func (s *space) mostSaved() int64 {
	return diskReserve + s.plan.bufferedBytes() + int64(s.opt.Connections)*connectionBytes
}

// toSave is an upper bound of what the next checkpoint and the exchanges under way write.
func (s *space) toSave() int64 {
	n := s.waitingBytes()
	if last := s.lastCost.Load(); last != nil {
		n = last.bytes + max(0, n-last.waiting)
	}
	if s.opt.Store {
		n += 2 * int64(s.plan.OutputBufferBytes) * int64(len(s.opt.Out)) // a WARC file and its index
	}
	n += exchangeBytes * (int64(s.requests.underWay()) + s.inFlight())
	return min(n, s.mostSaved()) + s.limit.extra.Load()
}

// over reports whether bytes more would come nearer to the limit than the next checkpoint and margin.
func (s *space) over(bytes, margin int64) bool {
	limit := s.opt.DiskBytes
	if limit <= 0 {
		return false
	}
	used := s.limit.Used() + s.unsavedBytes() + s.reserved.Load() + bytes + margin
	if used+s.mostSaved()+s.limit.extra.Load() <= limit {
		return false
	}
	return used+s.toSave() > limit
}

// limitError returns an error if bytes for what do not fit below the limit.
func (s *space) limitError(what string, bytes, margin int64) error {
	if !s.over(bytes, margin) {
		return nil
	}
	return fmt.Errorf("crawl: %s needs %s: %s: %w", what, bytesText(bytes), s.limitText(), errNoRoom)
}

// limitText says how near the limit is.
func (s *space) limitText() string {
	return fmt.Sprintf("the crawl uses %s of at most %s (--disk), and the next checkpoint and merges need %s",
		bytesText(s.limit.Used()), bytesText(s.opt.DiskBytes), bytesText(s.unsavedBytes()+s.reserved.Load()+s.toSave()))
}

// nearLimit returns why fetching pauses near the limit, "" if it does not. Stages ask before each request.
func (s *space) nearLimit() string {
	if !s.over(0, s.limitMargin()) {
		return ""
	}
	s.wakeSpace.raise()
	return s.limitText()
}

// fits reports whether the records of a page fit. If they do not, the page is deferred.
func (s *space) fits(w *pageWorker) bool {
	n := int64(w.prepared.Bytes()) + linkBytes*int64(len(w.links.Keys)) + exchangeBytes
	for i := range w.links.Tuples {
		n += int64(len(w.links.Tuples[i].Aux))
	}
	return !s.over(n, 0)
}

// reservePass reserves what a pass over a store hands on to others, as its emissions cannot be refused. bytes wait in
// the store.
func (s *space) reservePass(name string, bytes int64) (release func(), err error) {
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
func (s *space) checkLimit(now time.Time, saves bool) error {
	margin := s.limitMargin()
	if s.has(reasonLimit) {
		margin += margin / 4 // avoids frequent changes
	}
	over := s.over(0, margin)
	if over && s.recall() {
		over = s.over(0, margin)
	}
	if over && saves && now.Sub(s.freedAt) >= usedEvery && s.checkpointer.unsaved() {
		s.freedAt = now
		if err := s.checkpointer.checkpoint(false, ""); err != nil {
			return err
		}
		over = s.over(0, margin+margin/4)
	}
	s.usedDrain.Store(s.over(0, 2*margin))
	why := ""
	if over {
		why = s.limitText()
	}
	s.setReason(reasonLimit, why)
	return nil
}

// reasonLimit is the reason that the limit is near.
const reasonLimit = "limit"

// leastDisk is the smallest DiskBytes with which a new crawl fetches pages (TestLeastDisk). A directory has copies of
// the manifest, the tails of checkpoints and an open WARC file with its index.
func (o *Options) leastDisk() int64 {
	const base, directory = 2 << 20, 512 << 10
	return base + directory*int64(len(o.allDirs()))
}

// deferForRoom defers a page whose records do not fit. Nothing counts against its host.
func (p *pageStage) deferForRoom(page *arrival) error {
	rec := &page.rec
	return p.settle(page.grant, &page.result, func(tx *transaction) error {
		return p.deferrals.deferURL(tx, rec, state.PlaceRAM, time.Now().Add(spillWait), state.ReasonUnconfirmed)
	})
}
