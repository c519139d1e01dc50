package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"drumbeat/beast"
	"drumbeat/crawllog"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/polite"
	"drumbeat/queue"
	"drumbeat/star"
	"drumbeat/urlrule"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
	"drumbeat/weburl"
)

// Errors that the command turns into exit codes.
var (
	// ErrIncompatible: the directory belongs to another crawl, another format version, or its frozen settings differ.
	ErrIncompatible = errors.New("incompatible with this directory")
	// ErrUnusable: the system doesn't let us use a directory: it is a file, isn't there, or belongs to somebody else.
	ErrUnusable = errors.New("this directory can't be used")
	// ErrExists: New was asked for, but there is a crawl.
	ErrExists = errors.New("a crawl exists here already")
	// ErrFinished: the crawl is over and no seed is new.
	ErrFinished = errors.New("this crawl is finished")
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
		if !isFull(err) || opt.WhenFull == WhenFullStop || ctx.Err() != nil {
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
		return &Result{Stop: StopDone, Snapshot: *r.snapshot()}, ErrFinished
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
	if r.manifest != nil {
		r.at("recovery")
	}
	if err := r.checkpoint(false, ""); err != nil { // identity, secret and seeds' place are durable before the first fetch
		return nil, err
	}
	r.seenMeter.start, r.seenMeter.pages = r.urlSeen.Stats(), r.acct.copy().Counters[CountPages]
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
	return r.manifest != nil && r.manifest.Done != "" && r.seeds.state.Done && !r.moreWork()
}

// moreWork is true when a finished crawl left URLs that limits of that run kept back, or that waited for a host whose time has come.
func (r *ring) moreWork() bool {
	if due, ok := r.later.NextDue(); ok && !due.After(time.Now()) {
		return true
	}
	return r.heldState.Left > 0 || r.acct.in(PlaceUnstreamed, PlaceStar, PlaceBeast, PlaceRobotsCheck, PlaceAwaitRobots, PlaceReady, PlaceRAM) > 0
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
	m := r.manifest
	if m != nil {
		r.gen, r.runs, r.activeBefore = m.Gen, m.Runs, m.Active
		r.acct.s = m.Accounts
		r.savedURLs.Store(m.Accounts.saved())
	}
	if err = disk.RemoveTails(r.set, func(g uint64) bool { return g == r.gen && m != nil }); err != nil {
		return nil, err
	}
	r.runs++
	r.noted = r.opt.noted()
	if m != nil {
		r.at("recovery")
	}
	if err = r.openStores(m); err != nil {
		return nil, err
	}
	if err = r.openQueues(m); err != nil {
		return nil, err
	}
	if err = r.openOutput(m); err != nil {
		return nil, err
	}
	return r, r.openRAM(m)
}

func newRing(opt Options) *ring {
	r := &ring{opt: opt, cancel: func() {}}
	r.deltas.New = func() any { return new(delta) }
	for _, s := range []*signal{&r.wakeSeen, &r.wakeStar, &r.wakeBeast, &r.wakeScan, &r.wakeRobots, &r.wakeRequested,
		&r.wakeAwaiting, &r.wakeJobs, &r.wakeReady, &r.wakeLater, &r.wakeRelieve, &r.wakeDispatch, &r.wakeWatch, &r.wakeSpace, &r.wakeNames, &r.wakeVouch,
		&r.stepped} {
		*s = newSignal()
	}
	r.meter = disk.NewMeter(opt.FS)
	r.set = disk.Set{FS: r.meter, Paths: opt.Dirs}
	r.out = disk.Set{FS: r.meter, Paths: opt.Out}
	r.draining.Store(opt.Drain)
	r.dns.strict = true
	r.policy = opt.makePolicy()
	r.robotsJobs = &robotsJobs{inFlight: map[int64][]byte{}, plds: map[int64]uint64{}, perPLD: map[uint64]*pldJobs{}}
	r.waiting = &awaiting{}
	r.sketches = newSketches()
	r.scanned.fetched.Store(-1)
	r.roundNow.Store(time.Now().Unix())
	r.began = time.Now()
	return r
}

func (r *ring) openStores(m *manifest) error {
	seen, err := statePart[drum.State](m, nameURLSeen)
	if err != nil {
		return err
	}
	if r.urlSeen, err = drum.Open(r.seenStore(), seen); err != nil {
		return err
	}
	st, err := statePart[star.State](m, nameStar)
	if err != nil {
		return err
	}
	r.recentEdges = drum.NewRAMCache(r.plan.EdgeCacheBytes)
	so, err := r.starOptions()
	if err != nil {
		return err
	}
	if r.star, err = star.Open(so, st); err != nil {
		return err
	}
	names, err := statePart[drum.State](m, nameNames)
	if err != nil {
		return err
	}
	r.recentNames = drum.NewRAMCache(r.plan.NameCacheBytes)
	if r.names, err = drum.Open(r.namesStore(), names); err != nil {
		return err
	}
	cache, err := statePart[drum.State](m, nameRobotsCache)
	if err != nil {
		return err
	}
	if r.robotsCache, err = drum.Open(r.robotsStore(), cache); err != nil {
		return err
	}
	requested, err := statePart[drum.State](m, nameRobotsRequested)
	if err != nil {
		return err
	}
	r.robotsRequested, err = drum.Open(r.requestedStore(), requested)
	return err
}

// maxRobotsValue is the longest value of RobotsCache: an update with its head.
const maxRobotsValue = updateHead + 65<<10

func (r *ring) openQueues(m *manifest) error {
	block, pool := r.plan.QueueBlockBytes, new(queue.Pool)
	for _, q := range []struct {
		name string
		at   **queue.Queue
	}{{nameAwaitRobots, &r.awaitRobots}, {nameRobotsFetch, &r.robotsFetch}, {nameReady, &r.ready}, {nameHeld, &r.held}} {
		st, err := statePart[queue.State](m, q.name)
		if err != nil {
			return err
		}
		if *q.at, err = queue.Open(queue.Options{Set: r.set, Name: q.name, BlockBytes: block, Pool: pool}, st); err != nil {
			return err
		}
	}
	later, err := statePart[queue.CalendarState](m, nameLater)
	if err != nil {
		return err
	}
	opt := queue.Options{Set: r.set, Name: nameLater, BlockBytes: block, Pool: pool}
	if r.later, err = queue.OpenCalendar(opt, later); err != nil {
		return err
	}
	rl, err := statePart[queue.CalendarState](m, nameRobotsLater)
	if err != nil {
		return err
	}
	opt.Name = nameRobotsLater
	if r.robotsLater, err = queue.OpenCalendar(opt, rl); err != nil {
		return err
	}
	st, err := statePart[beast.State](m, nameBeast)
	if err != nil {
		return err
	}
	r.beast, err = beast.Open(beast.Options{Set: r.set, Name: nameBeast, QueuesMax: r.opt.QueuesMax, BlockBytes: block}, st)
	return err
}

func (r *ring) openOutput(m *manifest) error {
	st, err := statePart[warc.State](m, nameWARC)
	if err != nil {
		return err
	}
	if r.warc, err = warc.Open(r.warcOptions(), st); err != nil {
		return err
	}
	for _, l := range []struct {
		name, prefix string
		at           **crawllog.Log
	}{{nameCrawlLog, "crawl", &r.crawlLog}, {nameSeedLog, "seeds", &r.seedLog}, {nameRobotsLog, "robots", &r.robotsLog}} {
		st, err := statePart[crawllog.State](m, l.name)
		if err != nil {
			return err
		}
		if *l.at, err = crawllog.Open(crawllog.Options{Set: r.set, Prefix: l.prefix, Mode: r.opt.OutMode}, st); err != nil {
			return err
		}
	}
	return nil
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

// openRAM makes what lives in RAM.
func (r *ring) openRAM(m *manifest) error {
	if r.plan.CacheBytes > 0 {
		r.recent = drum.NewRAMCache(r.plan.CacheBytes)
	}
	var visited time.Time
	if m != nil {
		visited = time.Now() // every host and server counts as just visited: what happened before is not known to the second
	}
	share, perHost := 0, 4
	if r.opt.Scope != ScopeAll {
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
	if m != nil {
		if err := r.restoreDelays(m.Delays); err != nil {
			return err
		}
		if err := r.restoreHosts(m.Hosts); err != nil {
			return err
		}
	}
	if err := r.openTrace(); err != nil {
		return err
	}
	r.workers = newWorkers(r, r.opt.Connections)
	r.openLimits()
	var extended []uint64
	var seeds seedState
	if m != nil {
		seeds = m.Seeds
		var err error
		if extended, err = readScope(r.set, m.Scope); err != nil {
			return err
		}
		sketches, err := disk.ReadTail(r.set, m.Sketches)
		if err != nil {
			return err
		}
		if err := r.sketches.decode(sketches); err != nil {
			return err
		}
	}
	r.scope = newScope(r.opt.Scope, r.hostKey, extended)
	if err := r.openFence(); err != nil {
		return err
	}
	rules, err := urlrule.New(r.opt.URLRules)
	if err != nil {
		return fmt.Errorf("crawl: %w", err)
	}
	r.urlRules = *rules
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
	if r.openHeld(m) { // a seed whose port wasn't allowed never got as far as to be held
		seeds = seedState{}
	}
	r.seeds, err = r.openSeeds(seeds)
	return err
}

// restoreDelays makes hosts and servers that rest for long go on resting.
func (r *ring) restoreDelays(ref disk.Ref) error {
	data, err := disk.ReadTail(r.set, ref)
	if err != nil {
		return err
	}
	delays := make([]polite.Delay, len(data)/polite.DelayBytes)
	for i := range delays {
		if err := delays[i].Decode(data[i*polite.DelayBytes : (i+1)*polite.DelayBytes]); err != nil {
			return fmt.Errorf("crawl: delays of the last checkpoint: %w", err)
		}
	}
	r.polite.Restore(time.Now(), delays)
	return nil
}

// restoreRAM gives the URLs that were in RAM back to RobotsCache, and the robots requests back to QD. It runs before the
// movers do; should the program end before the next checkpoint, the same manifest does the same again.
func (r *ring) restoreRAM() error {
	n, _ := r.robotsFetch.Len()
	r.robotsJobs.total = n
	m := r.manifest
	if m != nil {
		jobs, err := disk.ReadTail(r.set, m.Jobs)
		if err != nil {
			return err
		}
		if err := eachRecord("robots requests in RAM", jobs, func(rec []byte) error {
			r.robotsJobs.queued()
			return r.robotsFetch.Append(rec)
		}); err != nil {
			return err
		}
		ram, err := disk.ReadTail(r.set, m.RAM)
		if err != nil {
			return err
		}
		err = r.inStep(func(d *delta) error {
			return eachRecord("URLs in RAM", ram, func(data []byte) error {
				var rec weburl.Record
				if err := rec.Decode(data); err != nil {
					return fmt.Errorf("crawl: URLs in RAM: %w", err)
				}
				return r.checkRobots(d, data, &rec, PlaceRAM)
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
	add := func(c io.Closer) { errs = append(errs, c.Close()) }
	if r.urlSeen != nil {
		add(r.urlSeen)
	}
	if r.star != nil {
		add(r.star)
	}
	if r.names != nil {
		add(r.names)
	}
	if r.robotsCache != nil {
		add(r.robotsCache)
	}
	if r.robotsRequested != nil {
		add(r.robotsRequested)
	}
	if r.beast != nil {
		add(r.beast)
	}
	for _, q := range []*queue.Queue{r.awaitRobots, r.robotsFetch, r.ready, r.held} {
		if q != nil {
			add(q)
		}
	}
	for _, c := range []*queue.Calendar{r.later, r.robotsLater} {
		if c != nil {
			add(c)
		}
	}
	if r.warc != nil {
		add(r.warc)
	}
	for _, l := range []*crawllog.Log{r.crawlLog, r.seedLog, r.robotsLog} {
		if l != nil {
			add(l)
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
	for _, l := range r.locks {
		add(l)
	}
	return errors.Join(errs...)
}
