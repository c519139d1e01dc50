package crawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drumbeat/admit"
	"drumbeat/disk"
	"drumbeat/internal/trapscore"
	"drumbeat/internal/urlrule"
	"drumbeat/state"
	"drumbeat/warc/outfile"
	"drumbeat/weburl"
)

// Result is the outcome of a run.
type Result struct {
	Stop     string // one of the Stop constants
	Snapshot Snapshot
	// Seeds lists seeds that yielded nothing as "url: reason", at most MaxSeedReports.
	Seeds []string
	// Finished describes the output files that received their final names in this run.
	Finished outfile.Finished
}

// Run crawls until nothing is left, a limit is reached or ctx ends. It then makes a last checkpoint and
// returns. The same Options resume a crawl. An error is a failure of this machine, not of a site.
func Run(ctx context.Context, opt Options) (*Result, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	opt.defaults()
	stopHook, err := openHook(ctx, &opt)
	if err != nil {
		return nil, err
	}
	defer stopHook()
	opt.limit, opt.filled = newDiskLimit(&opt), new(filledFilter)
	defer opt.filled.close()
	var last *Ending
	res, err := runUntilEnd(ctx, opt, &last)
	if last != nil {
		if res != nil && (err == nil || errors.Is(err, state.ErrFinished)) {
			last.Why, last.Snapshot = res.Stop, &res.Snapshot
		} else {
			last.Err = err
		}
		opt.Control.end(last)
	}
	return res, err
}

// runUntilEnd runs the crawl, again after a full disk. It sets last if the crawl ran, with its state before it
// was closed.
func runUntilEnd(ctx context.Context, opt Options, last **Ending) (*Result, error) {
	var full fullTries
	for {
		c, err := open(opt)
		if err != nil && full.n == 0 {
			return nil, blameDisk(err, opt.allDirs())
		}
		var res *Result
		if err == nil {
			res, err = c.crawl(ctx, full.pause())
			opt.Control.attach(nil)
			if opt.Control != nil {
				*last = &Ending{ID: c.CrawlID, Snapshot: c.snapshot()}
			}
			c.history.end(res, err)
			full.noteRun(c.space)
			err = errors.Join(err, c.close())
		}
		if errors.Is(err, disk.ErrQuota) {
			err = opt.limit.met(opt.DiskBytes, err)
		}
		err = blameDisk(err, opt.allDirs())
		if !state.IsFull(err) || opt.WhenFull == WhenFullStop || ctx.Err() != nil {
			return res, err
		}
		// The disk filled up before watchSpace saw it. Everything written since the last checkpoint is
		// discarded. The crawl continues from that checkpoint when there is room.
		if full.writesUseless(opt.FS, opt.allDirs()) {
			return nil, full.error(err)
		}
		opt.Log.Error("a write found no space: returning to the last checkpoint", "error", err, "pause", full.pause())
		opt.New = false
		if c == nil { // otherwise crawl pauses
			sleep(ctx, full.pause())
		}
	}
}

// stopGrace is how long exchanges may continue when a crawl is told to stop. After that they are cut off,
// and the next run fetches their URLs again.
const stopGrace = 3 * time.Second

// crawl runs the stages until they end. After a write that found no space it first pauses for rest and
// waits for room.
func (c *crawler) crawl(ctx context.Context, rest time.Duration) (*Result, error) {
	c.extraction.open()
	defer c.extraction.close()
	if err := c.uploads.access(ctx); err != nil {
		return nil, err
	}
	rejoined, finished, before := c.cluster.rejoin(ctx), c.finished(), c.acct.copy()
	if finished && !rejoined {
		c.extraction.finish(ctx)
		c.cluster.end(ctx)
		if c.uploads.waits() { // and makes a checkpoint
			if err := c.restoreRAM(); err != nil {
				return nil, err
			}
		}
		if err := c.uploads.finish(ctx, c.Manifest.Done); err != nil {
			return nil, err
		}
		if rest > 0 { // the write that found no space came after the last checkpoint
			return c.result(StopDone)
		}
		return &Result{Stop: StopDone, Snapshot: *c.snapshot()}, state.ErrFinished
	}
	inner, cancel := context.WithCancel(ctx)
	c.cancel, c.running = cancel, inner
	defer cancel()
	fetching, cut := context.WithCancel(context.WithoutCancel(ctx))
	c.fetching = fetching
	defer cut()
	c.began = time.Now()
	c.noteProgress()
	if rest > 0 || c.space.over(0, 0) {
		if err := c.space.awaitSpace(inner, rest); err != nil {
			return nil, err
		}
		if inner.Err() != nil { // nothing has changed since the last checkpoint
			return &Result{Stop: c.stop.get(), Snapshot: *c.snapshot()}, nil
		}
	}
	if err := c.cluster.agree(inner); err != nil {
		return nil, err
	}
	if err := c.restoreRAM(); err != nil {
		return nil, err
	}
	if c.Manifest != nil {
		c.testHook("recovery")
	}
	// Identity, secret and the position in the seeds must be durable before the first fetch.
	if err := c.checkpointer.checkpoint(false, ""); err != nil {
		return nil, err
	}
	c.seen.startMeter()
	c.history.started(c.Manifest)
	c.startStages(inner)
	c.opt.Control.attach(c)
	<-inner.Done()
	c.stages.Wait()
	close(c.workers.grants) // dispatch was the only sender
	grace := time.AfterFunc(stopGrace, cut)
	defer grace.Stop()
	c.fetchers.Wait()
	close(c.workers.landed) // the fetchers were the only senders
	if err := c.failure(); err != nil {
		return nil, err
	}
	why := c.stop.get()
	done := ""
	if why == StopDone {
		done = why
	}
	if err := c.content.finish(); err != nil {
		return nil, err
	}
	if err := c.output.finishOutput(); err != nil {
		return nil, err
	}
	if err := c.checkpointer.checkpoint(true, done); err != nil {
		return nil, err
	}
	c.leases.end(ctx)
	c.cluster.publishEnd(ctx, why)
	if done != "" {
		c.cluster.end(ctx)
	} else if why == StopPages {
		c.cluster.endPages(ctx)
	}
	c.extraction.finish(ctx)
	if err := c.uploads.finish(ctx, done); err != nil {
		return nil, err
	}
	if now := c.acct.copy(); finished && why == StopDone && now.Unique == before.Unique &&
		now.Counters[state.CountPages] == before.Counters[state.CountPages] { // nor did other nodes find anything for this one
		return &Result{Stop: StopDone, Snapshot: *c.snapshot()}, state.ErrFinished
	}
	return c.result(why)
}

// result returns the result of a crawl after its last checkpoint.
func (c *crawler) result(why string) (*Result, error) {
	seeds, err := c.output.unfinishedSeeds()
	return &Result{Stop: why, Snapshot: *c.snapshot(), Seeds: seeds, Finished: c.output.finishedOutput()}, err
}

// finished reports whether the manifest says that the crawl is over and its seeds have not changed.
func (c *crawler) finished() bool {
	return c.Manifest != nil && c.Manifest.Done != "" && c.seeds.fed() && !c.moreWork()
}

// moreWork reports whether a finished crawl has URLs left that limits of its last run held back, or whose
// due time has come.
func (c *crawler) moreWork() bool {
	if due, ok := c.deferrals.nextDue(time.Now()); ok && !due.After(time.Now()) {
		return true
	}
	if c.opt.Recrawl != nil && c.acct.deferredFor(state.ReasonRevisit) > 0 {
		return true
	}
	return c.deferrals.heldLeft() > 0 || c.acct.in(state.PlaceUnstreamed, state.PlaceStar, state.PlaceBeast,
		state.PlaceRobotsCheck, state.PlaceAwaitRobots, state.PlaceReady, state.PlaceRAM, state.PlaceContent) > 0
}

// open locks the directories and opens every structure at the state in the manifest.
func open(opt Options) (_ *crawler, err error) {
	c := newCrawler(opt)
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.plan, err = MakePlan(&c.opt); err != nil {
		return nil, err
	}
	if c.opt.tune != nil {
		c.opt.tune(&c.plan)
	}
	if err = c.checkpointer.takeDirectories(); err != nil {
		return nil, err
	}
	if err = c.checkpointer.openIdentity(); err != nil {
		return nil, err
	}
	m := c.Manifest
	c.firstBegan = c.began.Unix()
	if m != nil {
		c.activeBefore, c.firstBegan = m.Active, m.Began
		c.acct.s = m.Accounts
		c.space.noteSaved(&m.Accounts)
	}
	if err = c.checkpointer.resume(m); err != nil {
		return nil, err
	}
	if m != nil {
		c.testHook("recovery")
	}
	if err = c.operator.openJournal(m); err != nil {
		return nil, err
	}
	if err = c.budgets.openStrategy(); err != nil {
		return nil, err
	}
	if c.plan.Lanes != c.opt.Lanes { // those of the manifest
		c.plan.Lanes = c.opt.Lanes
		c.plan.planQueues(&c.opt, c.plan.Lanes)
	}
	if err = c.openStructures(m); err != nil {
		return nil, err
	}
	if err = c.spills.clean(); err != nil {
		return nil, err
	}
	if err = c.uploads.restore(m); err != nil {
		return nil, err
	}
	return c, c.openRAM(m)
}

func newCrawler(opt Options) *crawler {
	c := &crawler{engine: newEngine(opt)}
	c.wire()
	return c
}

// openRAM creates the state in RAM. The structures must be open.
func (c *crawler) openRAM(m *state.Manifest) error {
	c.dispatcher.openPolite(m)
	for _, f := range []func(*state.Manifest) error{c.restoreSaved, c.openPolicy, c.walk.open, c.cluster.open, c.leases.open, c.dispatcher.openWorkers, c.operator.restore} {
		if err := f(m); err != nil {
			return err
		}
	}
	var seeds state.Seeds
	// If the flags changed, read the seeds again: a seed whose port was not allowed was dropped, not held.
	if changed := c.deferrals.openHeld(m); m != nil && !changed {
		seeds = m.Seeds
	}
	return c.seeds.open(seeds)
}

// restoreSaved restores delays, the health and trap scores of hosts, the margin of visits, and the estimates
// from a checkpoint.
func (c *crawler) restoreSaved(m *state.Manifest) error {
	if c.opt.TrapScore {
		c.traps = trapscore.New(c.plan.TrapBytes)
	}
	if m == nil {
		c.margin.Set(0, c.opt.Recrawl)
		return nil
	}
	c.margin.Set(m.Margin, c.opt.Recrawl)
	err := errors.Join(c.dispatcher.restoreDelays(m), c.health.restoreHosts(m.Hosts), c.orders.restore(c.Set, m.Orders))
	if err != nil {
		return err
	}
	if c.traps != nil {
		hosts, err := disk.ReadTail(c.Set, m.Traps)
		if err == nil {
			err = c.traps.Restore(hosts)
		}
		if err != nil {
			return err
		}
	}
	sketches, err := disk.ReadTail(c.Set, m.Sketches)
	if err != nil {
		return err
	}
	return c.sketches.decode(sketches)
}

// openPolicy sets up the policy of links and loads the rule files.
func (c *crawler) openPolicy(m *state.Manifest) error {
	if err := c.seen.openTrace(); err != nil {
		return err
	}
	if err := errors.Join(c.dispatcher.openRules(), c.dispatcher.openSites(), c.render.openTagged()); err != nil {
		return err
	}
	rules, err := urlrule.New(c.opt.URLRules)
	if err != nil {
		return fmt.Errorf("crawl: %w", err)
	}
	var extended []uint64
	if m != nil {
		if extended, err = admit.ReadSites(c.Set, m.Scope); err != nil {
			return err
		}
	}
	p := c.links
	p.Hasher, p.Suffixes, p.URLRules = c.Hasher, c.Suffixes, *rules
	p.Sites = admit.NewSites(c.opt.Scope, c.HostKey, extended)
	p.Traced, p.Cached = c.seen.traced(), c.seen.cached()
	return nil
}

// restoreRAM returns the URLs that were in RAM to RobotsCache, and the robots.txt requests to QD. It runs
// before the stages. If the program ends before the next checkpoint, the next run does the same again.
func (c *crawler) restoreRAM() error {
	m := c.Manifest
	if err := errors.Join(c.requests.restore(m), c.render.restore(m)); err != nil {
		return err
	}
	if m != nil {
		ram, err := disk.ReadTail(c.Set, m.RAM)
		if err != nil {
			return err
		}
		err = c.transact(func(tx *transaction) error {
			return state.EachRecord("URLs in RAM", ram, func(data []byte) error {
				var rec weburl.Record
				if err := rec.Decode(data); err != nil {
					return fmt.Errorf("crawl: URLs in RAM: %w", err)
				}
				return c.check.checkRobots(tx, data, &rec, state.PlaceRAM)
			})
		})
		if err != nil {
			return err
		}
	}
	c.requests.restoreWaiting()
	return nil
}

// close releases all resources. The files stay as the last checkpoint left them, possibly with more data at
// their ends.
func (c *crawler) close() error {
	var errs []error
	errs = append(errs, c.checkpointer.closeAll())
	c.seen.close()
	c.content.close()
	c.budgets.close()
	c.dispatcher.closeLimits()
	errs = append(errs, c.seeds.close(), c.operator.close())
	return errors.Join(append(errs, c.Unlock())...)
}
