package crawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/health"
	"drumbeat/internal/urlrule"
	"drumbeat/polite"
	"drumbeat/warc/outfile"
	"drumbeat/weburl"
)

// Result is how a run ended.
type Result struct {
	Stop     string // one of the Stop constants
	Snapshot Snapshot
	// Seeds that yielded nothing, at most MaxSeedReports of them, as "url: reason".
	Seeds []string
	// Finished are the output files that got their final names in this run.
	Finished outfile.Finished
}

// Run crawls until nothing is left, a limit is reached or ctx ends; then it makes a last checkpoint and returns. The
// same Options resume a crawl. The error is a failure of this machine, not of sites.
func Run(ctx context.Context, opt Options) (*Result, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	opt.defaults()
	var full fullTries
	for {
		c, err := open(opt)
		if err != nil && full.n == 0 {
			return nil, blameDisk(err, opt.allDirs())
		}
		var res *Result
		if err == nil {
			res, err = c.crawl(ctx, full.pause())
			full.noteRun(c)
			err = errors.Join(err, c.close())
		}
		err = blameDisk(err, opt.allDirs())
		if !state.IsFull(err) || opt.WhenFull == WhenFullStop || ctx.Err() != nil {
			return res, err
		}
		// The disk filled up faster than the watch could see. What was written since the last checkpoint is discarded; the
		// crawl goes on from there when there is room.
		if full.writesUseless(opt.FS, opt.allDirs()) {
			return nil, fmt.Errorf("crawl: %d times in a row a write failed for want of space and nothing could be saved, though the file"+
				" systems show room (a quota, a thin pool?): %w", full.hidden, err)
		}
		opt.Log.Error("a write failed for want of space: going back to the last checkpoint", "error", err, "pause", full.pause())
		opt.New = false
		if c == nil { // there is nothing that could rest
			sleep(ctx, full.pause())
		}
	}
}

// stopGrace is how long exchanges under way may go on when a crawl is told to stop; after that they are cut off, and
// their URLs fetched again in the next run.
const stopGrace = 3 * time.Second

// crawl runs the stages until they end. It rests first, and waits for room, if a write has failed for want of space.
func (c *crawler) crawl(ctx context.Context, rest time.Duration) (*Result, error) {
	if c.finished() {
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
	if rest > 0 {
		if err := c.awaitSpace(inner, rest); err != nil {
			return nil, err
		}
		if inner.Err() != nil { // nothing has changed since the last checkpoint
			return &Result{Stop: c.stop.get(), Snapshot: *c.snapshot()}, nil
		}
	}
	if err := c.restoreRAM(); err != nil {
		return nil, err
	}
	if c.Manifest != nil {
		c.testHook("recovery")
	}
	if err := c.checkpoint(false, ""); err != nil { // identity, secret and seeds' place are durable before the first fetch
		return nil, err
	}
	c.seenMeter.start, c.seenMeter.pages = c.urlSeen.Stats(), c.acct.copy().Counters[state.CountPages]
	c.startStages(inner)
	<-inner.Done()
	c.stages.Wait()
	close(c.workers.grants) // dispatch was the one that sent
	grace := time.AfterFunc(stopGrace, cut)
	defer grace.Stop()
	c.fetchers.Wait()
	if err := c.failure(); err != nil {
		return nil, err
	}
	why := c.stop.get()
	done := ""
	if why == StopDone {
		done = why
	}
	if err := c.finishOutput(); err != nil {
		return nil, err
	}
	if err := c.checkpoint(true, done); err != nil {
		return nil, err
	}
	seeds, err := c.unfinishedSeeds()
	return &Result{Stop: why, Snapshot: *c.snapshot(), Seeds: seeds, Finished: c.finishedOutput()}, err
}

// finished is true when the manifest says that the crawl is over and the seeds are those that it was fed.
func (c *crawler) finished() bool {
	return c.Manifest != nil && c.Manifest.Done != "" && c.seeds.state.Done && !c.moreWork()
}

// moreWork is true when a finished crawl left URLs that limits of that run kept back, or that waited for a host whose time has come.
func (c *crawler) moreWork() bool {
	if due, ok := c.deferred.NextDue(time.Now()); ok && !due.After(time.Now()) {
		return true
	}
	return c.heldState.Left > 0 || c.acct.in(state.PlaceUnstreamed, state.PlaceStar, state.PlaceBeast, state.PlaceRobotsCheck, state.PlaceAwaitRobots, state.PlaceReady, state.PlaceRAM) > 0
}

// open takes the directories and opens every structure at the state that the manifest names.
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
	if err = c.takeDirectories(); err != nil {
		return nil, err
	}
	if err = c.openIdentity(); err != nil {
		return nil, err
	}
	m := c.Manifest
	if m != nil {
		c.gen, c.runs, c.activeBefore = m.Gen, m.Runs, m.Active
		c.acct.s = m.Accounts
		c.savedURLs.Store(m.Accounts.Gained())
	}
	if err = disk.RemoveTails(c.Set, func(g uint64) bool { return g == c.gen && m != nil }); err != nil {
		return nil, err
	}
	c.runs++
	c.lastRun = c.opt.lastRun()
	if m != nil {
		c.testHook("recovery")
	}
	if err = c.openStructures(m); err != nil {
		return nil, err
	}
	return c, c.openRAM(m)
}

func newCrawler(opt Options) *crawler {
	c := &crawler{Saved: state.NewSaved(opt.FS, opt.Dirs, opt.Out), opt: opt, cancel: func() {}}
	c.transactions.New = func() any { return new(transaction) }
	for _, s := range []*signal{&c.wakeSeen, &c.wakeStar, &c.wakeBeast, &c.wakeScan, &c.wakeRobots, &c.wakeRequested,
		&c.wakeAwaiting, &c.wakeJobs, &c.wakeReady, &c.wakeDeferred, &c.wakeRelieve, &c.wakeDispatch, &c.wakeWatch, &c.wakeSpace, &c.wakeNames, &c.wakeCanaries,
		&c.committed} {
		*s = newSignal()
	}
	c.links = &admit.Policy{Lists: &c.rules.Lists, MaxDepth: opt.MaxDepth, MaxRedirects: opt.MaxRedirects, MaxURLBytes: opt.MaxURLBytes,
		KeepEscapes: opt.KeepEscapes, AllowedPort: opt.AllowedPort, LinkFilter: opt.LinkFilter}
	c.draining.Store(opt.Drain)
	c.dns.strict = true
	c.faultWaits = opt.makeWaits()
	c.net.patience, c.dns.patience = c.faultWaits.patience, c.faultWaits.patience
	c.policy = opt.makePolicy()
	c.robotsJobs = &robotsJobs{inFlight: map[int64][]byte{}, plds: map[int64]uint64{}, perPLD: map[uint64]*pldJobs{}}
	c.waiting = &releases{}
	c.sketches = newSketches()
	c.scanned.fetched.Store(-1)
	c.roundNow.Store(time.Now().Unix())
	c.began = time.Now()
	return c
}

// ramAhead is for how long ahead URLs of one host are kept in RAM: what can't be fetched by then waits on disk, so that RAM holds
// many hosts rather than many URLs of few.
const ramAhead = time.Minute

// While RAM holds few URLs, an eighth of the target stock, the hosts that are left have theirs for idleAhead ahead in RAM:
// so they come back from disk, each lot through a merge of RobotsCache, in lots.
const (
	idleAhead = 30 * time.Minute
	idleShare = 8
)

// robotsPerServer bounds the robots requests of one address that wait in RAM.
const robotsPerServer = 16

// openRAM makes what lives in RAM, after the structures.
func (c *crawler) openRAM(m *state.Manifest) error {
	if c.plan.CacheBytes > 0 {
		c.recent = drum.NewRAMCache(c.plan.CacheBytes)
	}
	c.openPolite(m)
	for _, f := range []func(*state.Manifest) error{c.restoreSaved, c.openPolicy, c.openWorkers} {
		if err := f(m); err != nil {
			return err
		}
	}
	var seeds state.Seeds
	if changed := c.openHeld(m); m != nil && !changed { // a seed whose port wasn't allowed never got as far as to be held
		seeds = m.Seeds
	}
	var err error
	c.seeds, err = c.openSeeds(seeds)
	return err
}

// openPolite makes the scheduler.
func (c *crawler) openPolite(m *state.Manifest) {
	var visited time.Time
	if m != nil {
		visited = time.Now() // every host and server counts as just visited: what happened before is not known to the second
	}
	share, perHost := 0, 4
	if c.opt.Scope != state.ScopeAll {
		share = polite.Unlimited // one site may have all of RAM
	}
	c.polite = polite.New(polite.Options{
		MaxPerHost: perHost, Ahead: ramAhead, IdleAhead: idleAhead, IdleItems: int(c.opt.leastStock()) / idleShare,
		MaxRobotsPerServer: max(1, min(robotsPerServer, c.opt.RobotsInFlight/8)), MostRobotsPerServer: max(1, c.opt.RobotsInFlight/8),
		MaxPerServer: share, MaxPerPLD: share, HostDelay: c.opt.HostDelay, HostDelayMin: c.opt.HostDelayMin, ServerDelay: c.opt.ServerDelay,
		ServerDelayMin: c.opt.ServerDelayMin, DefaultBudget: c.opt.BudgetDefault, MaxCrawlDelay: c.opt.MaxCrawlDelay,
		PLDDelay: c.opt.PLDDelay, PLDDelayMin: c.opt.PLDDelayMin, NetworkRate: c.opt.NetworkRate, NetworkConnections: c.opt.NetworkConnections,
		ResponseFactor: c.opt.HostDelayFactor,
		MaxItems:       max(c.plan.PoliteItems, 2*c.opt.Connections), MaxBytes: c.plan.PoliteBytes, Visited: visited,
	}, time.Now())
}

// restoreSaved restores what a checkpoint keeps of politeness and of the estimates.
func (c *crawler) restoreSaved(m *state.Manifest) error {
	if m == nil {
		return nil
	}
	if err := errors.Join(c.restoreDelays(m), c.restoreHosts(m.Hosts)); err != nil {
		return err
	}
	sketches, err := disk.ReadTail(c.Set, m.Sketches)
	if err != nil {
		return err
	}
	return c.sketches.decode(sketches)
}

// openPolicy gives the policy of links what it needs, and puts the files' rules in force.
func (c *crawler) openPolicy(m *state.Manifest) error {
	if err := c.openTrace(); err != nil {
		return err
	}
	if err := c.openRules(); err != nil {
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
	p.Hasher, p.Suffixes, p.URLRules, p.Sites = c.Hasher, c.Suffixes, *rules, admit.NewSites(c.opt.Scope, c.HostKey, extended)
	p.Traced, p.Cached = c.trace != nil, c.recent != nil
	return nil
}

// openWorkers makes the fetchers' workers, their limits, and what says which bodies are read.
func (c *crawler) openWorkers(*state.Manifest) error {
	c.workers = newWorkers(c, c.opt.Connections)
	c.openLimits()
	accept, err := newAcceptor(c.opt.Accept, c.opt.BodyCaps)
	if err != nil {
		return err
	}
	accept.sitemaps = c.opt.Sitemaps
	if accept.busy() {
		if c.opt.Assets && len(accept.patterns) > 0 {
			accept.patterns = append(accept.patterns, assetTypes()...)
		}
		c.accept = accept.limit
	}
	return nil
}

// restoreDelays makes hosts and servers that rest for long go on resting.
func (c *crawler) restoreDelays(m *state.Manifest) error {
	data, err := disk.ReadTail(c.Set, m.Delays)
	if err != nil {
		return err
	}
	delays := make([]polite.Delay, len(data)/polite.DelayBytes)
	for i := range delays {
		if err := delays[i].Decode(data[i*polite.DelayBytes : (i+1)*polite.DelayBytes]); err != nil {
			return fmt.Errorf("crawl: delays of the last checkpoint: %w", err)
		}
	}
	now := time.Now()
	if ahead := time.Unix(m.Time, 0).Sub(now); ahead > health.ClockSlack { // the clock was set back: what was left of them counts
		for i := range delays {
			delays[i].Until = delays[i].Until.Add(-ahead)
		}
	}
	c.polite.Restore(now, delays)
	return nil
}

// restoreRAM gives the URLs that were in RAM back to RobotsCache, and the robots requests back to QD. It runs before the
// stages do; should the program end before the next checkpoint, the same manifest does the same again.
func (c *crawler) restoreRAM() error {
	n, _ := c.robotsFetch.Len()
	c.robotsJobs.total = n
	m := c.Manifest
	if m != nil {
		jobs, err := disk.ReadTail(c.Set, m.Jobs)
		if err != nil {
			return err
		}
		if err := state.EachRecord("robots requests in RAM", jobs, func(rec []byte) error {
			c.robotsJobs.queued()
			return c.robotsFetch.Append(rec)
		}); err != nil {
			return err
		}
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
				return c.checkRobots(tx, data, &rec, state.PlaceRAM)
			})
		})
		if err != nil {
			return err
		}
	}
	waiting, _ := c.awaitRobots.Len()
	c.waiting.restore(waiting, c.robotsJobs.issued())
	return nil
}

// close frees everything; files are as the last checkpoint left them, or longer.
func (c *crawler) close() error {
	var errs []error
	for _, s := range c.structures {
		if s.close != nil {
			errs = append(errs, s.close())
		}
	}
	for _, cache := range []*drum.RAMCache{c.recent, c.recentEdges, c.recentNames} {
		if cache != nil {
			cache.Close()
		}
	}
	if c.trace != nil {
		c.closeTrace()
	}
	if c.seeds != nil {
		errs = append(errs, c.seeds.close())
	}
	return errors.Join(append(errs, c.Unlock())...)
}
