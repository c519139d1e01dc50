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
		r, err := open(opt)
		if err != nil && full.n == 0 {
			return nil, blameDisk(err, opt.allDirs())
		}
		var res *Result
		if err == nil {
			res, err = r.crawl(ctx, full.pause())
			full.noteRun(r)
			err = errors.Join(err, r.close())
		}
		err = blameDisk(err, opt.allDirs())
		if !state.IsFull(err) || opt.WhenFull == WhenFullStop || ctx.Err() != nil {
			return res, err
		}
		// The disk filled up faster than the watch could see. What was written since the last checkpoint is discarded; the
		// crawl goes on from there when there is room.
		if full.hopeless(opt.FS, opt.allDirs()) {
			return nil, fmt.Errorf("crawl: %d times in a row a write failed for want of space and nothing could be saved, though the file"+
				" systems show room (a quota, a thin pool?): %w", full.hidden, err)
		}
		opt.Log.Error("a write failed for want of space: going back to the last checkpoint", "error", err, "pause", full.pause())
		opt.New = false
		if r == nil { // there is nothing that could rest
			sleep(ctx, full.pause())
		}
	}
}

// stopGrace is how long exchanges under way may go on when a crawl is told to stop; after that they are cut off, and
// their URLs fetched again in the next run.
const stopGrace = 3 * time.Second

// crawl runs the movers until they end. It rests first, and waits for room, if a write has failed for want of space.
func (r *ring) crawl(ctx context.Context, rest time.Duration) (*Result, error) {
	if r.finished() {
		return &Result{Stop: StopDone, Snapshot: *r.snapshot()}, state.ErrFinished
	}
	inner, cancel := context.WithCancel(ctx)
	r.cancel, r.running = cancel, inner
	defer cancel()
	fetching, cut := context.WithCancel(context.WithoutCancel(ctx))
	r.fetching = fetching
	defer cut()
	r.began = time.Now()
	r.touch()
	if rest > 0 {
		if err := r.awaitSpace(inner, rest); err != nil {
			return nil, err
		}
		if inner.Err() != nil { // nothing has changed since the last checkpoint
			return &Result{Stop: r.stop.get(), Snapshot: *r.snapshot()}, nil
		}
	}
	if err := r.restoreRAM(); err != nil {
		return nil, err
	}
	if r.Manifest != nil {
		r.at("recovery")
	}
	if err := r.checkpoint(false, ""); err != nil { // identity, secret and seeds' place are durable before the first fetch
		return nil, err
	}
	r.seenMeter.start, r.seenMeter.pages = r.urlSeen.Stats(), r.acct.copy().Counters[state.CountPages]
	r.startMovers(inner)
	<-inner.Done()
	r.movers.Wait()
	close(r.workers.grants) // dispatch was the one that sent
	grace := time.AfterFunc(stopGrace, cut)
	defer grace.Stop()
	r.fetchers.Wait()
	if err := r.failure(); err != nil {
		return nil, err
	}
	why := r.stop.get()
	done := ""
	if why == StopDone {
		done = why
	}
	if err := r.finishOutput(); err != nil {
		return nil, err
	}
	if err := r.checkpoint(true, done); err != nil {
		return nil, err
	}
	seeds, err := r.unfinishedSeeds()
	return &Result{Stop: why, Snapshot: *r.snapshot(), Seeds: seeds, Finished: r.finishedOutput()}, err
}

// finished is true when the manifest says that the crawl is over and the seeds are those that it was fed.
func (r *ring) finished() bool {
	return r.Manifest != nil && r.Manifest.Done != "" && r.seeds.state.Done && !r.moreWork()
}

// moreWork is true when a finished crawl left URLs that limits of that run kept back, or that waited for a host whose time has come.
func (r *ring) moreWork() bool {
	if due, ok := r.later.NextDue(time.Now()); ok && !due.After(time.Now()) {
		return true
	}
	return r.heldState.Left > 0 || r.acct.in(state.PlaceUnstreamed, state.PlaceStar, state.PlaceBeast, state.PlaceRobotsCheck, state.PlaceAwaitRobots, state.PlaceReady, state.PlaceRAM) > 0
}

// open takes the directories and opens every structure at the state that the manifest names.
func open(opt Options) (_ *ring, err error) {
	r := newRing(opt)
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.plan, err = MakePlan(&r.opt); err != nil {
		return nil, err
	}
	if r.opt.tune != nil {
		r.opt.tune(&r.plan)
	}
	if err = r.takeDirectories(); err != nil {
		return nil, err
	}
	if err = r.openIdentity(); err != nil {
		return nil, err
	}
	m := r.Manifest
	if m != nil {
		r.gen, r.runs, r.activeBefore = m.Gen, m.Runs, m.Active
		r.acct.s = m.Accounts
		r.savedURLs.Store(m.Accounts.Gained())
	}
	if err = disk.RemoveTails(r.Set, func(g uint64) bool { return g == r.gen && m != nil }); err != nil {
		return nil, err
	}
	r.runs++
	r.noted = r.opt.noted()
	if m != nil {
		r.at("recovery")
	}
	if err = r.openStructures(m); err != nil {
		return nil, err
	}
	return r, r.openRAM(m)
}

func newRing(opt Options) *ring {
	r := &ring{Saved: state.NewSaved(opt.FS, opt.Dirs, opt.Out), opt: opt, cancel: func() {}}
	r.deltas.New = func() any { return new(delta) }
	for _, s := range []*signal{&r.wakeSeen, &r.wakeStar, &r.wakeBeast, &r.wakeScan, &r.wakeRobots, &r.wakeRequested,
		&r.wakeAwaiting, &r.wakeJobs, &r.wakeReady, &r.wakeLater, &r.wakeRelieve, &r.wakeDispatch, &r.wakeWatch, &r.wakeSpace, &r.wakeNames, &r.wakeVouch,
		&r.stepped} {
		*s = newSignal()
	}
	r.links = &admit.Policy{Lists: &r.fence.Lists, MaxDepth: opt.MaxDepth, MaxRedirects: opt.MaxRedirects, MaxURLBytes: opt.MaxURLBytes,
		KeepEscapes: opt.KeepEscapes, AllowedPort: opt.AllowedPort, LinkFilter: opt.LinkFilter}
	r.draining.Store(opt.Drain)
	r.dns.strict = true
	r.faultWaits = opt.makeWaits()
	r.net.patience, r.dns.patience = r.faultWaits.patience, r.faultWaits.patience
	r.policy = opt.makePolicy()
	r.robotsJobs = &robotsJobs{inFlight: map[int64][]byte{}, plds: map[int64]uint64{}, perPLD: map[uint64]*pldJobs{}}
	r.waiting = &awaiting{}
	r.sketches = newSketches()
	r.scanned.fetched.Store(-1)
	r.roundNow.Store(time.Now().Unix())
	r.began = time.Now()
	return r
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
func (r *ring) openRAM(m *state.Manifest) error {
	if r.plan.CacheBytes > 0 {
		r.recent = drum.NewRAMCache(r.plan.CacheBytes)
	}
	r.openPolite(m)
	for _, f := range []func(*state.Manifest) error{r.restoreSaved, r.openPolicy, r.openWorkers} {
		if err := f(m); err != nil {
			return err
		}
	}
	var seeds state.Seeds
	if changed := r.openHeld(m); m != nil && !changed { // a seed whose port wasn't allowed never got as far as to be held
		seeds = m.Seeds
	}
	var err error
	r.seeds, err = r.openSeeds(seeds)
	return err
}

// openPolite makes the scheduler.
func (r *ring) openPolite(m *state.Manifest) {
	var visited time.Time
	if m != nil {
		visited = time.Now() // every host and server counts as just visited: what happened before is not known to the second
	}
	share, perHost := 0, 4
	if r.opt.Scope != state.ScopeAll {
		share = polite.Unlimited // one site may have all of RAM
	}
	r.polite = polite.New(polite.Options{
		MaxPerHost: perHost, Ahead: ramAhead, IdleAhead: idleAhead, IdleItems: int(r.opt.leastStock()) / idleShare,
		MaxRobotsPerServer: max(1, min(robotsPerServer, r.opt.RobotsInFlight/8)), MostRobotsPerServer: max(1, r.opt.RobotsInFlight/8),
		MaxPerServer: share, MaxPerPLD: share, HostDelay: r.opt.HostDelay, HostDelayMin: r.opt.HostDelayMin, ServerDelay: r.opt.ServerDelay,
		ServerDelayMin: r.opt.ServerDelayMin, DefaultBudget: r.opt.BudgetDefault, MaxCrawlDelay: r.opt.MaxCrawlDelay,
		PLDDelay: r.opt.PLDDelay, PLDDelayMin: r.opt.PLDDelayMin, NetworkRate: r.opt.NetworkRate, NetworkConnections: r.opt.NetworkConnections,
		ResponseFactor: r.opt.HostDelayFactor,
		MaxItems:       max(r.plan.PoliteItems, 2*r.opt.Connections), MaxBytes: r.plan.PoliteBytes, Visited: visited,
	}, time.Now())
}

// restoreSaved restores what a checkpoint keeps of politeness and of the estimates.
func (r *ring) restoreSaved(m *state.Manifest) error {
	if m == nil {
		return nil
	}
	if err := errors.Join(r.restoreDelays(m), r.restoreHosts(m.Hosts)); err != nil {
		return err
	}
	sketches, err := disk.ReadTail(r.Set, m.Sketches)
	if err != nil {
		return err
	}
	return r.sketches.decode(sketches)
}

// openPolicy gives the policy of links what it needs, and puts the files' rules in force.
func (r *ring) openPolicy(m *state.Manifest) error {
	if err := r.openTrace(); err != nil {
		return err
	}
	if err := r.openFence(); err != nil {
		return err
	}
	rules, err := urlrule.New(r.opt.URLRules)
	if err != nil {
		return fmt.Errorf("crawl: %w", err)
	}
	var extended []uint64
	if m != nil {
		if extended, err = admit.ReadSites(r.Set, m.Scope); err != nil {
			return err
		}
	}
	p := r.links
	p.Hasher, p.Suffixes, p.URLRules, p.Sites = r.Hasher, r.Suffixes, *rules, admit.NewSites(r.opt.Scope, r.HostKey, extended)
	p.Traced, p.Cached = r.trace != nil, r.recent != nil
	return nil
}

// openWorkers makes the fetchers' workers, their limits, and what says which bodies are read.
func (r *ring) openWorkers(*state.Manifest) error {
	r.workers = newWorkers(r, r.opt.Connections)
	r.openLimits()
	accept, err := newAcceptor(r.opt.Accept, r.opt.BodyCaps)
	if err != nil {
		return err
	}
	accept.sitemaps = r.opt.Sitemaps
	if accept.busy() {
		if r.opt.Assets && len(accept.patterns) > 0 {
			accept.patterns = append(accept.patterns, assetTypes()...)
		}
		r.accept = accept.limit
	}
	return nil
}

// restoreDelays makes hosts and servers that rest for long go on resting.
func (r *ring) restoreDelays(m *state.Manifest) error {
	data, err := disk.ReadTail(r.Set, m.Delays)
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
	r.polite.Restore(now, delays)
	return nil
}

// restoreRAM gives the URLs that were in RAM back to RobotsCache, and the robots requests back to QD. It runs before the
// movers do; should the program end before the next checkpoint, the same manifest does the same again.
func (r *ring) restoreRAM() error {
	n, _ := r.robotsFetch.Len()
	r.robotsJobs.total = n
	m := r.Manifest
	if m != nil {
		jobs, err := disk.ReadTail(r.Set, m.Jobs)
		if err != nil {
			return err
		}
		if err := state.EachRecord("robots requests in RAM", jobs, func(rec []byte) error {
			r.robotsJobs.queued()
			return r.robotsFetch.Append(rec)
		}); err != nil {
			return err
		}
		ram, err := disk.ReadTail(r.Set, m.RAM)
		if err != nil {
			return err
		}
		err = r.inStep(func(d *delta) error {
			return state.EachRecord("URLs in RAM", ram, func(data []byte) error {
				var rec weburl.Record
				if err := rec.Decode(data); err != nil {
					return fmt.Errorf("crawl: URLs in RAM: %w", err)
				}
				return r.checkRobots(d, data, &rec, state.PlaceRAM)
			})
		})
		if err != nil {
			return err
		}
	}
	waiting, _ := r.awaitRobots.Len()
	r.waiting.restore(waiting, r.robotsJobs.issued())
	return nil
}

// close frees everything; files are as the last checkpoint left them, or longer.
func (r *ring) close() error {
	var errs []error
	for _, s := range r.structures {
		if s.close != nil {
			errs = append(errs, s.close())
		}
	}
	for _, c := range []*drum.RAMCache{r.recent, r.recentEdges, r.recentNames} {
		if c != nil {
			c.Close()
		}
	}
	if r.trace != nil {
		r.closeTrace()
	}
	if r.seeds != nil {
		errs = append(errs, r.seeds.close())
	}
	return errors.Join(append(errs, r.Unlock())...)
}
