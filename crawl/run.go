package crawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/contents"
	"drumbeat/crawl/dirs"
	"drumbeat/crawl/hook"
	"drumbeat/crawl/operate"
	"drumbeat/crawl/options"
	"drumbeat/crawl/space"
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
	if opt.Hook != nil {
		asker, stop, err := hook.Open(ctx, *opt.Hook, opt.Identity.Version, opt.Observe.Log)
		if err != nil {
			return nil, err
		}
		defer stop()
		opt.opened.asker = asker
	}
	opt.opened.limit, opt.opened.filled = space.NewLimit(opt.Disk.FS, opt.allDirs(), opt.Limits.DiskBytes),
		new(contents.Filter)
	defer opt.opened.filled.Close()
	opt.opened.last = new(lastRound)
	var last *operate.Ending
	defer opt.Observe.Control.Erasing(nil)
	res, err := runUntilEnd(ctx, opt, &last, &eraser{opt: &opt, again: true}, &turner{opt: &opt})
	opt.releaseLeases(ctx)
	if last != nil {
		if res != nil && (err == nil || errors.Is(err, state.ErrFinished)) {
			last.Why, last.Snapshot = res.Stop, &res.Snapshot
		} else {
			last.Err = err
		}
		opt.Observe.Control.End(last)
	}
	return res, err
}

// runUntilEnd runs the crawl, again after a full disk. It sets last if the crawl ran, with its state before it
// was closed.
func runUntilEnd(ctx context.Context, opt Options, last **operate.Ending, e *eraser, t *turner) (*Result, error) {
	var full space.Tries
	for {
		var c *crawler
		err := e.finish()
		if err == nil {
			err = t.prepare()
		}
		if err == nil {
			opt.Cluster = t.opt.Cluster
			c, err = open(opt)
		}
		if err != nil && full.N == 0 {
			return nil, space.BlameDisk(err, opt.allDirs())
		}
		var res *Result
		if err == nil {
			c.eraseFirst = e.due(c.operator)
			res, err = c.crawl(ctx, full.Pause())
			e.rests(ctx, c, res)
			opt.Observe.Control.Attach(nil)
			if opt.Observe.Control != nil {
				*last = &operate.Ending{ID: c.CrawlID, Snapshot: c.figures.Snapshot()}
			}
			stop := ""
			if res != nil {
				stop = res.Stop
			}
			c.history.End(stop, err)
			full.NoteRun(c.space)
			var again bool
			if again, err = e.serve(ctx, c, res, err); !again {
				again, err = t.serve(ctx, c, res, err)
			}
			if again {
				opt.Disk.New = false
				continue
			}
		}
		if errors.Is(err, disk.ErrQuota) {
			err = opt.opened.limit.Met(opt.Limits.DiskBytes, err)
		}
		err = space.BlameDisk(err, opt.allDirs())
		if !state.IsFull(err) || opt.Disk.WhenFull == options.WhenFullStop || ctx.Err() != nil {
			return res, err
		}
		// The disk filled up before watchSpace saw it. Everything written since the last checkpoint is
		// discarded. The crawl continues from that checkpoint when there is room.
		if full.WritesUseless(opt.Disk.FS, opt.allDirs()) {
			return nil, full.Error(err)
		}
		opt.Observe.Log.Error("a write found no disk space: returning to the last checkpoint", "error", err,
			"pause", full.Pause())
		opt.Disk.New = false
		if c == nil { // otherwise crawl pauses
			account.Sleep(ctx, full.Pause())
		}
	}
}

// resumes says in words that the crawl of a manifest continues.
func resumes(m *state.Manifest) string {
	if m.Clean {
		return "the crawl resumes"
	}
	return "the last run was interrupted: the crawl resumes at its last checkpoint"
}

// stopGrace is how long exchanges may continue when a crawl is told to stop. After that they are cut off,
// and the next run fetches their URLs again.
const stopGrace = 3 * time.Second

// crawl runs the stages until they end. After a write that found no space it first pauses for rest and
// waits for room.
func (c *crawler) crawl(ctx context.Context, rest time.Duration) (*Result, error) {
	c.extraction.Open()
	defer c.extraction.Close()
	if err := errors.Join(c.uploads.Access(ctx), c.backups.Access(ctx, c.Manifest, c.frozen.Table)); err != nil {
		return nil, err
	}
	rejoined := c.Manifest != nil && c.Manifest.Done != "" && c.node.Rejoin(ctx)
	finished, before := c.finished(), c.Accounts.Copy()
	if finished && !rejoined {
		return c.endAgain(ctx, rest)
	}
	inner, cut := c.Begin(ctx)
	defer c.Cancel()
	defer cut()
	if c.eraseFirst {
		c.Stop(stopErase)
	}
	if rest > 0 || c.space.Over(0, 0) {
		if err := c.awaitSpace(inner, rest); err != nil {
			return nil, err
		}
		if inner.Err() != nil { // nothing has changed since the last checkpoint
			return &Result{Stop: c.stopped(), Snapshot: *c.figures.Snapshot()}, nil
		}
	}
	if whole, err := c.prepare(inner); err != nil {
		return nil, err
	} else if !whole {
		return &Result{Stop: c.stopped(), Snapshot: *c.figures.Snapshot()}, nil
	}
	c.seen.StartMeter()
	if m := c.Manifest; m != nil {
		c.opt.Observe.Log.Info(resumes(m), "pages", m.Accounts.Counters[state.CountPages],
			"waiting_urls", m.Accounts.Waiting(), "checkpoint", m.Gen)
	}
	c.history.Started(c.Manifest)
	c.startStages(inner)
	c.opt.Observe.Control.Attach(c.running())
	<-inner.Done()
	c.WaitStages()
	c.dispatcher.NoMoreGrants()
	grace := time.AfterFunc(stopGrace, cut)
	defer grace.Stop()
	c.Fetchers.Wait()
	c.pages.NoMorePages()
	if err := c.Failure(); err != nil {
		return nil, err
	}
	why := c.stopped()
	if err := c.saveEnd(ctx, why); err != nil {
		return nil, err
	}
	if now := c.Accounts.Copy(); finished && why == StopDone && now.Unique == before.Unique &&
		// Nor did other nodes find anything for this one.
		now.Counters[state.CountPages] == before.Counters[state.CountPages] {
		return &Result{Stop: StopDone, Snapshot: *c.figures.Snapshot()}, state.ErrFinished
	}
	return c.result(why)
}

// prepare makes the first checkpoint of a run, before the stages start. It returns false without one if ctx ended
// while a new crawl was taking what earlier crawls know: the next run begins once more.
func (c *crawler) prepare(ctx context.Context) (whole bool, _ error) {
	if err := c.node.Agree(ctx); err != nil {
		return false, err
	}
	if err := c.restoreRAM(); err != nil {
		return false, err
	}
	if c.Manifest != nil {
		c.Hook("recovery")
	}
	if whole, err := c.feedEarlier(ctx); err != nil || !whole {
		return false, err
	}
	// Identity, secret and the position in the seeds must be durable before the first fetch.
	return true, c.checkpointer.Save()
}

// awaitSpace waits for room before a run, and shows meanwhile that it does.
func (c *crawler) awaitSpace(ctx context.Context, rest time.Duration) error {
	showing, end := context.WithCancel(ctx)
	shown := make(chan struct{})
	c.Start(showing, "progress", func(ctx context.Context) error {
		defer close(shown)
		return c.figures.Run(ctx)
	})
	c.opt.Observe.Control.Show(c.running())
	defer func() { // nobody looks at the crawl while restoreRAM fills it
		c.opt.Observe.Control.Attach(nil)
		end()
		<-shown
	}()
	return c.space.AwaitSpace(ctx, rest)
}

// endAgain ends a run of a crawl that was over before it.
func (c *crawler) endAgain(ctx context.Context, rest time.Duration) (*Result, error) {
	c.extraction.Finish(ctx)
	c.node.End(ctx)
	behind := c.backups.Behind(c.Manifest)
	if c.uploads.Waits() || behind { // and makes a checkpoint
		if err := c.restoreRAM(); err != nil {
			return nil, err
		}
	}
	if err := c.uploads.Finish(ctx, c.Manifest.Done); err != nil {
		return nil, err
	}
	if behind {
		c.backups.Finish(ctx, c.Manifest.Done)
	}
	if rest > 0 { // the write that found no space came after the last checkpoint
		return c.result(StopDone)
	}
	return &Result{Stop: StopDone, Snapshot: *c.figures.Snapshot()}, state.ErrFinished
}

// saveEnd makes the last checkpoint of a run, and ends extraction, uploads and the node.
func (c *crawler) saveEnd(ctx context.Context, why string) error {
	done := ""
	if why == StopDone {
		done = why
	}
	if err := c.content.Finish(); err != nil {
		return err
	}
	if err := c.output.Finish(); err != nil {
		return err
	}
	if err := c.checkpointer.SaveEnd(done); err != nil {
		return err
	}
	c.leases.End(ctx, why == stopTable && c.node.TurnsAtOnce())
	c.node.PublishEnd(ctx, why)
	if done != "" {
		c.node.End(ctx)
	} else if why == StopPages {
		c.node.EndPages(ctx)
	}
	if why == stopTable { // the next run, which begins at once, continues with both
		return nil
	}
	c.extraction.Finish(ctx)
	err := c.uploads.Finish(ctx, done)
	if err == nil {
		c.backups.Finish(ctx, done)
	}
	return err
}

// result returns the result of a crawl after its last checkpoint.
func (c *crawler) result(why string) (*Result, error) {
	seeds, err := c.output.UnfinishedSeeds()
	return &Result{Stop: why, Snapshot: *c.figures.Snapshot(), Seeds: seeds, Finished: c.output.Finished()}, err
}

// finished reports whether the manifest says that the crawl is over and its seeds have not changed.
func (c *crawler) finished() bool {
	return c.Manifest != nil && c.Manifest.Done != "" && c.seeds.Fed() && c.watched.fed() && !c.moreWork()
}

// moreWork reports whether a finished crawl has URLs left that limits of its last run held back, or whose
// due time has come.
func (c *crawler) moreWork() bool {
	if due, ok := c.deferrals.NextDue(time.Now()); ok && !due.After(time.Now()) {
		return true
	}
	if c.opt.Recrawl != nil && c.Accounts.DeferredFor(state.ReasonRevisit) > 0 {
		return true
	}
	return c.deferrals.HeldLeft() > 0 || c.Accounts.In(state.PlaceUnstreamed, state.PlaceStar, state.PlaceBeast,
		state.PlaceRobotsCheck, state.PlaceAwaitRobots, state.PlaceReady, state.PlaceRAM, state.PlaceContent) > 0
}

// open locks the directories and opens every structure at the state in the manifest.
func open(opt Options) (_ *crawler, err error) {
	opt.defaults()
	c := newCrawler(opt)
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.plan, err = MakePlan(&c.opt); err != nil {
		return nil, err
	}
	if c.opt.tests.tune != nil {
		c.opt.tests.tune(&c.plan)
	}
	if err = c.openSince(); err != nil {
		return nil, err
	}
	defer c.earlier.close()
	directories := dirs.New(c.Saved, c.dirOptions())
	if err = directories.Take(); err != nil {
		return nil, err
	}
	frozen, err := directories.Open()
	if err != nil {
		return nil, err
	}
	m := c.Manifest
	firstBegan, active := c.Began().Unix(), int64(0)
	if m != nil {
		active, firstBegan = m.Active, m.Began
		c.Accounts.Do(func(a *state.Accounts) { *a = m.Accounts })
		c.space.NoteSaved(&m.Accounts)
	}
	c.Resume(active, firstBegan)
	run := c.opt.lastRun()
	c.frozen = frozen
	if err = c.checkpointer.Resume(m, frozen, run); err != nil {
		return nil, err
	}
	if m != nil {
		c.Hook("recovery")
	}
	if err = c.operator.OpenJournal(m); err != nil {
		return nil, err
	}
	if err = c.openStrategy(); err != nil {
		return nil, err
	}
	if c.plan.Lanes != c.opt.Order.Lanes { // those of the manifest
		c.plan.SetLanes(c.opt.Order.Lanes)
	}
	if err = c.openStructures(m); err != nil {
		return nil, err
	}
	if err = c.uploads.Restore(m); err != nil {
		return nil, err
	}
	if err = c.openRAM(m); err != nil {
		return nil, err
	}
	run.FirstSeeds, run.Earlier = c.seeds.First(), c.earlier.taken(m) // the next manifests have them
	return c, nil
}

func newCrawler(opt Options) *crawler {
	c := &crawler{engine: newEngine(opt)}
	c.wire()
	return c
}

func (c *crawler) openLeases(m *state.Manifest) error {
	c.leases.Open(c.polite, m == nil)
	return nil
}

// openFetching creates what the exchanges need.
func (c *crawler) openFetching(*state.Manifest) error {
	c.output.Open()
	c.pages.Open()
	c.dispatcher.Open()
	return nil
}

// openRAM creates the state in RAM. The structures must be open.
func (c *crawler) openRAM(m *state.Manifest) error {
	c.polite = c.dispatcher.OpenHeaps(m)
	for _, f := range []func(*state.Manifest) error{c.restoreSaved, c.openPolicy, c.walk.Open, c.openNode,
		c.openLeases, c.openFetching, c.fetcher.Open, c.operator.Restore} {
		if err := f(m); err != nil {
			return err
		}
	}
	var position state.Seeds
	// If the flags changed, read the seeds again: a seed whose port was not allowed was dropped, not held.
	if changed := c.deferrals.OpenHeld(m); m != nil && !changed && (c.opt.Cluster == nil || !c.opt.Cluster.seedsAgain) {
		position = m.Seeds
	}
	if err := c.seeds.Open(position); err != nil {
		return err
	}
	return c.watched.open(m)
}

// restoreSaved restores delays, the health and trap scores of hosts, the margin of visits, known names, and
// the estimates from a checkpoint.
func (c *crawler) restoreSaved(m *state.Manifest) error {
	if c.opt.Budgets.TrapScore {
		c.traps = trapscore.New(c.plan.TrapBytes)
	}
	if m == nil {
		c.margin.Set(0, c.opt.Recrawl)
		return nil
	}
	c.margin.Set(m.Margin, c.opt.Recrawl)
	c.outages.RestoreNames(m.Names)
	err := errors.Join(c.dispatcher.RestoreDelays(m), c.health.Restore(m.Hosts), c.orders.Restore(c.Set, m.Orders))
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
	return c.sketches.Decode(sketches)
}

// openPolicy sets up the policy of links and loads the rule files.
func (c *crawler) openPolicy(m *state.Manifest) error {
	if err := c.seen.OpenTrace(); err != nil {
		return err
	}
	if err := errors.Join(c.reloader.Open(), c.render.Open()); err != nil {
		return err
	}
	rules, err := urlrule.New(c.opt.Admission.URLRules)
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
	p.Sites = admit.NewSites(c.opt.Admission.Scope, c.HostKey, extended)
	p.Traced, p.Cached = c.seen.Traced(), c.seen.Cached()
	return nil
}

// restoreRAM returns the URLs that were in RAM to RobotsCache, and the robots.txt requests to QD. It runs
// before the stages. If the program ends before the next checkpoint, the next run does the same again.
func (c *crawler) restoreRAM() error {
	m := c.Manifest
	if err := errors.Join(c.requests.Restore(m), c.render.Restore(m)); err != nil {
		return err
	}
	if m != nil {
		ram, err := disk.ReadTail(c.Set, m.RAM)
		if err != nil {
			return err
		}
		err = c.Transact(func(tx *account.Tx) error {
			return state.EachRecord("URLs in RAM", ram, func(data []byte) error {
				var rec weburl.Record
				if err := rec.Decode(data); err != nil {
					return fmt.Errorf("crawl: URLs in RAM: %w", err)
				}
				return c.check.CheckRobots(tx, data, &rec, state.PlaceRAM)
			})
		})
		if err != nil {
			return err
		}
	}
	c.requests.RestoreWaiting()
	return nil
}

// close releases all resources. The files stay as the last checkpoint left them, possibly with more data at
// their ends.
func (c *crawler) close() error {
	var errs []error
	errs = append(errs, c.checkpointer.CloseAll())
	c.seen.Close()
	c.content.Close()
	c.budgets.Close()
	c.limits.Close()
	errs = append(errs, c.seeds.Close(), c.watched.close(), c.operator.Close())
	errs = append(errs, c.holder.ReleaseAll())
	return errors.Join(append(errs, c.Unlock())...)
}
