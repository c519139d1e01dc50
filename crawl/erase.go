package crawl

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"drumbeat/crawl/operate"
	"drumbeat/internal/bug"
	"drumbeat/internal/objstore"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/state/erase"
)

// eraser erases pages between two runs of a crawl in one process: while the directories are unlocked, and their state
// is that of a checkpoint. If the process is killed, the next one finishes the erasure before it opens the crawl, and
// carries out the requests that wait before it fetches.
type eraser struct {
	opt   *Options
	again bool // the next run is the first of the process, or follows a change of the table of owners

	mu   sync.Mutex   // guards what follows
	rest operate.Rest // what is shown
}

// eraseRAM bounds erase.Options.RAMBytes by a part of the crawl's RAM, which is free meanwhile.
const eraseRAM = 256 << 20

func (e *eraser) options(progress func(step string)) erase.Options {
	o := erase.Options{FS: e.opt.Disk.FS, Dirs: e.opt.Disk.Dirs, Waiting: true, Progress: progress,
		RAMBytes: min(eraseRAM, e.opt.Limits.RAMBytes/4)}
	if !slices.Equal(e.opt.Disk.Out, e.opt.Disk.Dirs) {
		o.Out = e.opt.Disk.Out
	}
	if s := e.opt.ObjectStore; s != nil {
		o.OpenStore = func(objstore.Place) (objstore.Bucket, error) { return s.Bucket, nil }
	}
	return o
}

// finish finishes an erasure that was interrupted.
func (e *eraser) finish() error {
	interrupted, err := erase.Interrupted(e.opt.Disk.FS, e.opt.Disk.Dirs)
	if err != nil || !interrupted {
		return err
	}
	e.opt.Observe.Log.Info("erasing pages: an interrupted erasure is finished first")
	e.rest = operate.Rest{Settings: &changes.Settings{}, Snapshot: new(Snapshot)}
	_, err = e.erase()
	return err
}

// rests shows that a run that has ended for it makes room for an erasure.
func (e *eraser) rests(ctx context.Context, c *crawler, res *Result) {
	s := *c.figures.Last()
	c.operator.ShowErasures(&s)
	s.PagesPerSecond, s.BitsPerSecond, s.LinksPerSecond, s.ResponsesPerSecond, s.FailuresPerSecond = 0, 0, 0, 0, 0
	s.InFlight, s.RobotsInFlight = 0, 0
	e.rest = operate.Rest{ID: c.CrawlID, Settings: c.operator.Settings(), Snapshot: &s}
	if res != nil && res.Stop == stopErase && ctx.Err() == nil {
		e.show("close the files")
	}
}

// due reports whether a run must end before it fetches, with requests that wait: at the start of the process, and when
// slots have come, since nothing is erased while they are on their way.
func (e *eraser) due(o *operate.Operator) bool {
	var s Snapshot
	o.ShowErasures(&s)
	again := e.again
	e.again = false
	return again && s.Erasures.Waiting > 0
}

// serve closes the crawl, and carries out the requests that wait if its run has ended in an orderly way. Requests that
// are refused keep waiting, with the reason. again says that the crawl is to start again.
func (e *eraser) serve(ctx context.Context, c *crawler, res *Result, err error) (again bool, _ error) {
	waiting := e.rest.Snapshot.Erasures.Waiting
	closed := c.close()
	if err = errors.Join(err, closed); closed != nil || res == nil || err != nil && !errors.Is(err, state.ErrFinished) {
		return false, err
	}
	resting := res.Stop == stopErase
	if ctx.Err() != nil { // whoever stops the process does not want to wait
		if resting {
			res.Stop = StopCancelled
		}
		return false, err
	}
	if waiting == 0 {
		return false, err
	}
	began, log := time.Now(), e.opt.Observe.Log
	done, failed := e.erase()
	switch {
	case failed != nil && erase.ChangedNothing(failed):
		e.again = res.Stop == stopTable
		log.Error("pages were not erased: the requests wait for the next stop", "requests", waiting, "error", failed)
	case failed != nil:
		return false, failed
	case done.Waited != nil:
		n := &done.Waited.Erased
		log.Info("pages were erased", "requests", done.Served, "captures", n.Captures, "files", n.Files, "took",
			time.Since(began))
	}
	return resting, err
}

// show shows the crawl that rests, with a new step unless that is "".
func (e *eraser) show(step string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := *e.rest.Snapshot
	if s.Time = time.Now(); s.Erasures.Since.IsZero() {
		s.Erasures.Since = s.Time
	}
	if step != "" {
		s.Erasures.Step = step
	}
	e.rest.Snapshot = &s
	if s.Erasures.Step == "" {
		return // the directories are not locked yet
	}
	rest := e.rest
	e.opt.Observe.Control.Erasing(&rest)
	if e.opt.Observe.Snapshot != nil {
		e.opt.Observe.Snapshot(&s)
	}
}

// erase erases, and shows that meanwhile.
func (e *eraser) erase() (*erase.Report, error) {
	ended := make(chan struct{})
	var shows sync.WaitGroup
	shows.Add(1)
	go func() {
		defer shows.Done()
		defer bug.Fatal()
		t := time.NewTicker(e.opt.Observe.SnapshotEvery)
		defer t.Stop()
		for {
			select {
			case <-ended:
				return
			case <-t.C:
				e.show("")
			}
		}
	}()
	rep, err := erase.Run(e.options(e.show))
	close(ended)
	if shows.Wait(); err == nil {
		e.show("open the files")
	}
	return rep, err
}
