package crawl

import (
	"errors"
	"fmt"
	gosync "sync"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/crawl"
	"drumbeat/internal/cputime"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// crawlWarm is the divisor of the pages, and of the time, for the part before the measured time: the first
// robots.txt and lookups of hosts, growing heaps, the first merges.
const crawlWarm = 10

// crawlWatch is the interval of samples: one takes 0.4 ms, for the estimates of hosts and servers.
const crawlWatch = 100 * time.Millisecond

// crawlWatcher samples a running crawl: it opens and shuts the window, and records the course.
type crawlWatcher struct {
	window
	cancel  func()
	control *crawl.Control
	every   time.Duration // between samples
	saving  time.Duration // between saves of the course, and measurements of sizes

	mu     gosync.Mutex // the crawl calls look, and so does the end of the run
	fault  error
	over   bool
	course *crawlCourse
	start  time.Time
	cpu0   time.Duration
	base   crawlTenth // the course before this process
	said   time.Time
	pages  int64          // at the time said
	slots  snapshot.Slots // at the time said
	kept   time.Time      // when the course was last saved
	sizes  diskSizes
	peak   int64
	seen   seenSums
	before seenSums // of earlier processes
}

// watcher returns a watcher of a crawl that begins now.
func (b *crawlBench) watcher(n int, t transport, server *crawlServer, cancel func()) *crawlWatcher {
	client, _ := t.(*sockets)
	now := time.Now()
	w := &crawlWatcher{window: window{b: b, server: server, client: client, name: fmt.Sprintf("crawl-%d", n)},
		cancel: cancel, control: new(crawl.Control), every: b.tests.watch, saving: b.tests.save,
		course: new(crawlCourse), start: now, said: now, kept: now, cpu0: cputime.Process()}
	measure.Default(&w.every, crawlWatch)
	measure.Default(&w.saving, courseEvery)
	if b.saved != nil {
		w.course, w.sizes, w.peak, w.pages = &b.saved.Course, b.saved.Sizes, b.saved.Peak, b.saved.pages
		w.base = w.course.last()
		for i := range b.saved.Parts {
			w.before.add(&b.saved.Parts[i].Seen)
		}
	}
	return w
}

// point returns the sums of the crawl at a snapshot.
func (w *crawlWatcher) point(s *crawl.Snapshot) crawlTenth {
	rss, _ := cputime.RSS(0)
	return crawlTenth{Pages: s.Count(state.CountPages), Unique: s.Unique,
		DiskBytes: w.base.DiskBytes + s.DiskRead + s.DiskWritten, RSS: rss,
		Wall: w.base.Wall + time.Since(w.start), CPU: w.base.CPU + cputime.Process() - w.cpu0}
}

// look processes the newest snapshot.
func (w *crawlWatcher) look(s *crawl.Snapshot) {
	if w.b.tests.look != nil {
		w.b.tests.look(s)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	share := w.share(s)
	p := w.point(s)
	if share >= 1 {
		w.course.append(p)
	} else {
		w.course.add(p)
	}
	w.seen = sumsOf(&s.Seen)
	if !w.profiling && max(share, float64(time.Since(w.start))/float64(w.b.Duration)) >= 1./crawlWarm {
		if err := w.open(countsOf(s)); err != nil {
			w.stop(err)
			return
		}
	}
	if share >= 1 || time.Since(w.kept) >= w.saving {
		if err := w.keep(s); err != nil {
			w.stop(err)
			return
		}
	}
	if share >= 1 {
		w.stop(w.shut(countsOf(s)))
		return
	}
	w.say(s, p.RSS)
}

// say reports progress.
func (w *crawlWatcher) say(s *crawl.Snapshot, rss int64) {
	now, pages := time.Now(), s.Count(state.CountPages)
	since := now.Sub(w.said)
	if since < 2*time.Second {
		return
	}
	w.b.progress(fmt.Sprintf("%s, %.2f M URLs seen, %.0f pages/s, RSS %s; slots: %s",
		human.Counted(pages, "page", "pages"), float64(s.Unique)/1e6, float64(pages-w.pages)/since.Seconds(),
		human.Bytes(rss),
		s.Slots.Sub(w.slots)))
	w.said, w.pages, w.slots = now, pages, s.Slots
}

// keep measures the sizes of structures, and saves the course if the crawl can be resumed.
func (w *crawlWatcher) keep(s *crawl.Snapshot) error {
	w.kept = time.Now()
	if all, err := w.control.Structures(); err == nil { // it fails only while the crawl does not run
		w.sizes = sizesOf(all, s.Disk.Used)
		w.peak = max(w.peak, s.Disk.Used, w.sizes.sum())
	}
	r := w.b.saved
	if r == nil {
		return nil
	}
	r.Sizes, r.Peak = w.sizes, w.peak
	r.Parts[len(r.Parts)-1].Seen = w.seen
	return r.save()
}

// finish adds the last point of a crawl that has ended. The window of a resumed crawl opens at the latest now.
func (w *crawlWatcher) finish(s *crawl.Snapshot, stop string) {
	w.look(s)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = sumsOf(&s.Seen)
	if !w.over {
		w.course.append(w.point(s))
	}
	if w.b.saved != nil && !w.profiling && w.fault == nil {
		w.fault = w.open(countsOf(s))
	}
	w.over = w.over || stop == crawl.StopDone
}

// ended records how a part of a resumable crawl ended.
func (w *crawlWatcher) ended(why string) error {
	if r := w.b.saved; r != nil {
		r.Parts[len(r.Parts)-1].Seen = w.seen
		return r.end(why)
	}
	return nil
}

// complete adds to a result what the watcher knows of the whole crawl, and records why the part ended.
func (w *crawlWatcher) complete(run *Result, why string) error {
	run.Tenths, run.Sizes, run.PeakDisk, run.Seen, run.Over = w.course.tenths(), w.sizes, w.peak, w.before, w.over
	run.Seen.add(&w.seen)
	r := w.b.saved
	if r == nil {
		return nil
	}
	if run.Over {
		why = "complete"
	}
	r.Over = run.Over
	err := w.ended(why)
	run.Parts = r.Parts
	r.Result = run
	return errors.Join(err, r.save())
}

func (w *crawlWatcher) stop(err error) {
	w.fault, w.over = err, true
	w.cancel()
}

// share returns the completed share of the run.
func (w *crawlWatcher) share(s *crawl.Snapshot) (share float64) {
	if w.b.Pages > 0 {
		share = float64(s.Count(state.CountPages)) / float64(w.b.Pages)
	}
	if w.b.URLs > 0 {
		share = max(share, float64(s.Unique)/float64(w.b.URLs))
	}
	return share
}
