package crawl

import (
	"cmp"
	"slices"

	"drumbeat/crawl/budgets"
	"drumbeat/crawl/contents"
	"drumbeat/crawl/deferred"
	"drumbeat/crawl/dirs"
	"drumbeat/crawl/dispatch"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/figures"
	"drumbeat/crawl/gate"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/limits"
	"drumbeat/crawl/observe"
	"drumbeat/crawl/operate"
	"drumbeat/crawl/outage"
	"drumbeat/crawl/output"
	"drumbeat/crawl/seeds"
	"drumbeat/crawl/seen"
	"drumbeat/crawl/space"
	"drumbeat/crawl/stock"
	"drumbeat/crawl/walkers"
	"drumbeat/internal/pace"
	"drumbeat/internal/trapscore"
	"drumbeat/polite"
	"drumbeat/state/changes"
	"drumbeat/state/erase"
	"drumbeat/state/extract"
	"drumbeat/state/snapshot"
	"drumbeat/warc"
)

// This file has what the rooms ask of the stages of this package, and their options.

// allDirs returns the directories of state and output, each once.
func (o *Options) allDirs() []string {
	dirs := slices.Clone(o.Disk.Dirs)
	for _, d := range o.Disk.Out {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// leastDisk is the smallest DiskBytes with which a new crawl fetches pages.
func (o *Options) leastDisk() int64 { return space.LeastDisk(len(o.allDirs())) }

// spaceOptions returns the options of the keeper of disk space.
func (e *engine) spaceOptions() space.Options {
	o := &e.opt
	return space.Options{Log: o.Observe.Log, WhenFull: o.Disk.WhenFull, Drain: o.Admission.Drain, Dirs: o.allDirs(),
		Outs: len(o.Disk.Out), DiskBytes: o.Limits.DiskBytes, Connections: o.Network.Connections, Store: o.Output.Store,
		Plan: &e.plan, Limit: e.limit}
}

// dirOptions returns the options of what opens the directories.
func (c *crawler) dirOptions() dirs.Options {
	o := &c.opt
	opt := dirs.Options{Log: o.Observe.Log, Disk: &o.Disk, Count: c.limit.Count, Private: o.Admission.PrivateSuffixes,
		KeepEscapes: o.Admission.KeepEscapes, Walk: o.walks(), Parts: o.Budgets.Parts, Lanes: c.fixLanes,
		Accept: c.uploads.Accept}
	if cl := o.Cluster; cl != nil {
		opt.Table, opt.Node, opt.Secret, opt.Adopt = cl.Table, cl.Node, cl.Secret, cl.adopt
	}
	if c.earlier != nil {
		opt.Since, opt.Secret = true, c.earlier.secret
	}
	return opt
}

// wireSpace gives the keeper of disk space the stages that it calls.
func (c *crawler) wireSpace() {
	c.space.Wire(space.Others{Stores: []space.Store{c.seen, c.content, c.check, c.requests, c.budgets},
		Checkpoints: c.checkpointer, Exchanges: func() int64 {
			return int64(c.requests.UnderWay()) + c.dispatcher.InFlight()
		},
		Drain: c.draining.Store, Paused: c.paused.Load})
}

// watchOptions returns the options of the watch for outages.
func (e *engine) watchOptions() outage.Options {
	o := &e.opt
	return outage.Options{Log: o.Observe.Log, HostDelay: o.Politeness.HostDelay, Patience: o.Limits.OutagePatience,
		References: o.Limits.References, Resolver: o.Network.Resolver,
		AllowedAddr: o.Network.AllowedAddr, Waits: e.faultWaits.Waits}
}

// extractRAM returns the bytes of the Go heap that extraction may take.
func (o *Options) extractRAM() int64 {
	if o.Extract == nil {
		return 0
	}
	return int64(max(1, o.Extract.Workers)) * extract.WorkerBytes
}

// Texts says what became of the texts of pages (Options.Extract), in this run.
type Texts = snapshot.Texts

// spoolFiles is the least size of the spool, in WARC files.
const spoolFiles = 4

// SpoolBytes returns the size of the spool of finished files; 0 without an object store.
func (o *Options) SpoolBytes() int64 {
	if o.ObjectStore == nil {
		return 0
	}
	return cmp.Or(o.ObjectStore.SpoolBytes, max(o.Limits.DiskBytes/5, spoolFiles*o.Output.WARCFileBytes))
}

// outputOptions returns the options of the output.
func (e *engine) outputOptions() output.Options {
	o := &e.opt
	return output.Options{Store: o.Output.Store, ArchiveRobots: o.Output.ArchiveRobots, ArchiveDNS: o.Output.ArchiveDNS,
		CrawlLog: o.Output.CrawlLog, RollEvery: o.Output.RollEvery, Contact: o.Identity.Contact,
		About:     o.Identity.About,
		UserAgent: o.Identity.UserAgent, Version: o.Identity.Version, IgnoreNofollow: o.Links.IgnoreNofollow,
		Plan: &e.plan,
		WARC: warc.Options{Host: o.Identity.Host, Mode: o.Output.OutMode, FileBytes: o.Output.WARCFileBytes,
			Format: o.Output.WARCFormat, Dict: o.Output.WARCDict, Level: o.Output.WARCLevel}}
}

// wireFetcher creates the fetcher.
func (c *crawler) wireFetcher() {
	o := &c.opt
	c.fetcher = fetcher.New(c.Run, c.Saved, fetcher.Options{Log: o.Observe.Log, Network: &o.Network, Sites: c.sites,
		Sitemaps: o.Links.Sitemaps, Assets: o.fetchesParts(), Store: o.Output.Store,
		AdaptiveDelay: o.Politeness.AdaptiveDelay, DiskBytes: o.Limits.DiskBytes, MaxURLBytes: o.Admission.MaxURLBytes,
		Signer: o.Identity.Signer, Sign: o.Identity.Sign}, c.outages, c.space)
	c.fetcher.Wire(fetcher.Others{Heaps: func() fetcher.Heaps { return c.polite }, Rules: c.rules,
		Ordered: c.orders.Waits})
}

// wireGate creates the gate: the health of hosts, RobotsCache, and the requests for robots.txt. The
// fetcher and the output must exist.
func (c *crawler) wireGate() {
	o := &c.opt
	opt := &gate.Options{Log: o.Observe.Log, Agent: o.Identity.Agent, Health: &o.Health, Network: &o.Network,
		Politeness: &o.Politeness, Scope: o.Admission.Scope, CrawlLog: o.Output.CrawlLog, Sitemaps: o.Links.Sitemaps,
		TDMRep: o.Output.TDMRep,
		Policy: &c.policy, Plan: &c.plan, Links: c.links, Rules: c.rules, Sites: c.sites, Reading: o.tests.reading}
	c.health = gate.NewHosts(c.Saved, opt)
	c.check = gate.NewCheck(c.Run, c.Saved, opt, c.health, c.passes, c.space, c.stock)
	c.requests = gate.NewRequests(c.check, c.fetcher, c.outages, c.output)
}

// wireDeferred creates the stage of URLs that wait. RobotsCache, the output and the walk must exist.
func (c *crawler) wireDeferred() {
	o := &c.opt
	c.deferrals = deferred.New(c.Run, c.Saved, deferred.Options{Log: o.Observe.Log, Flags: o.Network.Flags,
		Recrawl: o.Recrawl, Margin: &c.margin, Links: c.links, Rules: c.rules, Sites: c.sites},
		deferred.Needs{Orders: c.orders, Check: c.check, Output: c.output, Space: c.space, Stock: c.stock,
			Walk: c.walk})
	c.content.Wire(contents.Others{HeldLinks: c.seen.HeldLinks, SendHeld: c.seen.SendHeld,
		EndVisit: c.deferrals.EndVisit, Revisits: c.deferrals.Revisits})
}

// wireSeen creates URLseen and the store of names. The node and the output must exist.
func (c *crawler) wireSeen() {
	o := &c.opt
	c.seen = seen.New(c.Run, c.Saved, seen.Options{Log: o.Observe.Log, Dirs: o.Disk.Dirs, Plan: &c.plan, Links: c.links,
		TraceLinks: o.Observe.TraceLinks, TraceLimit: o.Observe.TraceLimit, HostDelay: o.Politeness.HostDelay,
		Drains: c.drains}, seen.Needs{Orders: c.orders, Sketches: c.sketches, Node: c.node,
		Passes: c.passes, Space: c.space})
	c.walk.Wire(walkers.Others{SendLinks: c.seen.SendLinks, Drains: c.drains, Node: c.node})
}

// wireBudgets creates STAR and BEAST. URLseen and RobotsCache must exist.
func (c *crawler) wireBudgets() {
	o := &c.opt
	c.budgets = budgets.New(c.Run, c.Saved, budgets.Options{Log: o.Observe.Log, FS: o.Disk.FS, Budgets: &o.Budgets,
		Admission: &o.Admission, Network: &o.Network, HostDelay: o.Politeness.HostDelay,
		Lanes: func() int { return o.Order.Lanes }, Share: o.budgetShare, Recrawl: o.Recrawl != nil, Plan: &c.plan,
		SiftLot: cmp.Or(o.tests.siftLot, budgets.SiftLot),
		Rules:   c.rules, Sites: c.sites, Sketches: c.sketches, Strategy: &c.strategy,
		Traps: func() *trapscore.Table { return c.traps }}, budgets.Needs{Check: c.check, Passes: c.passes,
		Seen: c.seen, Space: c.space, Stock: c.stock})
}

// wireSeeds creates the feeder of seeds.
func (c *crawler) wireSeeds() {
	o := &c.opt
	c.seeds = seeds.New(c.Run, c.Saved, seeds.Options{FS: o.Disk.FS, File: o.Admission.Seeds,
		Lines: o.Admission.SeedLines, Drain: o.Admission.Drain, Links: c.links}, c.space)
	c.seeds.Wire(seeds.Others{SendLinks: c.seen.SendLinks, Trust: c.budgets.Trust, LogSeed: c.output.LogSeed,
		Drains: c.drains})
}

// wireLimits creates the limits of requests.
func (c *crawler) wireLimits() {
	o := &c.opt
	opt := limits.Options{Network: &o.Network, TimeZone: o.Observe.TimeZone, Control: o.Observe.Control != nil,
		Changed: func() { c.dispatcher.Wake() }}
	if o.Cluster != nil {
		opt.Share = func(all pace.Schedule) pace.Schedule { return o.rateOf(all, c.node.Coming()) }
	}
	c.limits = limits.New(opt)
}

// wireReloader creates what reloads the files of rules.
func (c *crawler) wireReloader() {
	o := &c.opt
	c.reloader = inforce.NewReloader(c.Run, c.Saved, inforce.ReloadOptions{Log: o.Observe.Log, FS: o.Disk.FS,
		Admission: &o.Admission, Agent: o.Identity.Agent, Contact: o.Identity.Contact,
		Signer: o.Identity.Signer, KeyFile: o.Identity.KeyFile, Trusted: o.Budgets.Trusted,
		Plan: &c.plan, Lanes: func() int { return o.Order.Lanes }, Guard: o.Observe.Control != nil}, c.rules, c.sites)
	c.reloader.Wire(inforce.Others{Heaps: func() inforce.Heaps { return c.polite }, Cookies: c.fetcher,
		Deferrals: c.deferrals, Blocked: c.operator.Blocked, Reloaded: c.node.Reloaded})
}

// wireOperator gives the operator the stages that it calls.
func (c *crawler) wireOperator() {
	b := c.budgets
	c.operator.Wire(operate.Others{Heaps: func() *polite.Scheduler { return c.polite }, Check: c.check,
		StateOf: c.health.StateOf,
		Budgets: operate.Budgets{CheckFunction: b.CheckFunction, CheckPriority: c.checkPriority,
			NewFunction: b.NewFunction, NewPriority: c.newPriority, Replace: b.Replace, Placed: b.Placed},
		Checkpoint: c.checkpointer.SaveQuietly, Made: c.history.Made, Limits: c.limits, Reloader: c.reloader,
		Feed: c.seeds.Feed, Space: c.space,
		Orders: operate.Orders{Room: c.orders.Room, Begin: c.orders.Begin, Ahead: c.orders.Ahead,
			Watch: c.orders.Watch}, SendOrder: c.node.SendOrder,
		Elsewhere: c.node.Elsewhere,
		SendLinks: c.seen.SendLinks, LogOrder: c.output.LogOrder, Pause: c.paused.Store,
		Drain: c.operatorDrain.Store, Drains: c.drains,
		Quiet: c.node.Quiet, Stop: func() { c.Stop(StopCancelled) },
		MayErase: c.mayErase,
		Rest:     func() { c.Stop(stopErase) }, Ordered: c.node.Ordered})
}

// mayErase returns an error if the crawl takes no request to erase pages. A URL on its way from another node would not
// be erased, and fetched again.
func (c *crawler) mayErase() error {
	if c.node.SlotsCome() {
		return &changes.RefusedError{Why: "slots move to this node: repeat the request when they are here (drumbeat " +
			"cluster status)"}
	}
	return erase.Unknown(&c.frozen)
}

// wireDispatch creates the dispatcher, and gives the gate the stages that it calls. The gate and the limits
// must exist.
func (c *crawler) wireDispatch() {
	o := &c.opt
	c.dispatcher = dispatch.New(c.Run, c.Saved, dispatch.Options{Admission: &o.Admission, Network: &o.Network,
		Politeness: &o.Politeness, DefaultBudget: o.Budgets.Default, StockTarget: int64(o.Order.StockTarget),
		MaxPages: o.Limits.MaxPages, Plan: &c.plan, Rules: c.rules, Sites: c.sites, Leased: o.leases(),
		Adjustable: o.Observe.Control != nil, Recent: o.opened.takeRecent()}, dispatch.Needs{Check: c.check,
		Health: c.health, Fetcher: c.fetcher, Leases: c.leases, Limits: c.limits, Outages: c.outages,
		Space: c.space, Stock: c.stock})
	c.requests.Wire(gate.Others{Heaps: func() *polite.Scheduler { return c.polite },
		Slots: c.dispatcher, Deferrals: c.deferrals, Flags: c.deferrals,
		Dispatcher: c.dispatcher, Orders: c.orders, Cluster: c.node, SendLinks: c.seen.SendLinks})
}

// wireFigures gives the figures the stages that they ask.
func (c *crawler) wireFigures() {
	c.figures.Wire(figures.Others{Heaps: func() *polite.Scheduler { return c.polite },
		Traps: func() *trapscore.Table { return c.traps }, Fetcher: c.fetcher, Requests: c.requests, Limits: c.limits,
		Slots: c.slotMeter, SlowDirs: c.slowDirs, Codings: c.codings, Space: c.space, Outages: c.outages, Node: c.node,
		Leases: c.leases, Seeds: c.seeds, Paused: c.paused.Load, Drains: c.drains,
		Stopping: func() bool { return c.StopReason() != "" }, Structures: c.inspect,
		Shows: []func(*Snapshot){c.sketches.Show, c.budgets.Show, c.checkpointer.Show, c.seen.Show, c.deferrals.Show,
			c.extraction.Show, c.uploads.Show, c.backups.Show, c.render.Show, c.node.Show, c.leases.Show,
			c.history.Show, c.operator.ShowErasures}})
}

// running returns the crawl as Control sees it.
func (c *crawler) running() *operate.Running {
	r := &operate.Running{Run: c.Run, Saved: c.Saved, Operator: c.operator, Figures: c.figures, Heaps: c.polite,
		Hosts: c.health, Limits: c.limits, Connections: c.opt.Network.Connections, Space: c.space, Outages: c.outages,
		Node: c.node, Top: c.budgets.Star.Top, SeenFills: c.seen.URLSeen.Fills}
	if c.opt.Cluster != nil {
		r.NodeNumber = c.opt.Cluster.Node
	}
	return r
}

// wireWalk creates the leader of the random walk.
func (c *crawler) wireWalk() {
	o := &c.opt
	c.walk = walkers.New(c.Run, c.Saved, walkers.Options{Log: o.Observe.Log, Walks: o.walks(), Walk: o.walkOptions(0),
		Plan: &c.plan, Links: c.links}, c.space)
}

// wireOutput creates the output, the store of contents, the uploads and the extraction.
func (c *crawler) wireOutput() {
	o := &c.opt
	c.output = output.New(c.Run, c.Saved, c.outputOptions())
	c.content = contents.New(c.Run, c.Saved, contents.Options{Log: o.Observe.Log, Seen: o.Output.ContentSeen,
		Store: o.Output.Store, Plan: &c.plan, Filter: o.opened.filled, Near: o.Output.NearDuplicates},
		c.output, c.passes, c.space)
	u := output.UploadOptions{Log: o.Observe.Log, ObjectStore: o.ObjectStore, SpoolBytes: o.SpoolBytes()}
	if o.Cluster != nil {
		u.Node = o.Cluster.Node
	}
	c.uploads = output.NewUploads(c.Run, c.Saved, u, c.output, c.space)
	c.extraction = output.NewExtraction(c.Run, c.Saved, output.ExtractionOptions{Log: o.Observe.Log, FS: o.Disk.FS,
		Extract: o.Extract, Agent: o.Identity.Agent, Version: o.Identity.Version, Takes: func(url []byte) bool {
			return c.sites.Load().Extracts(url)
		}}, c.output, c.space, c.uploads.Released)
	c.uploads.Wire(c.extraction, c.checkpointer)
}

// wireMeters creates what observes the crawl. The dispatcher must exist.
func (c *crawler) wireMeters() {
	o := &c.opt
	c.figures = figures.New(c.Run, c.Saved, figures.Options{FS: o.Disk.FS, Dirs: o.allDirs(),
		DiskBytes: o.Limits.DiskBytes, Plan: &c.plan, On: c.observed(),
		Every: o.Observe.SnapshotEvery, Tell: o.Observe.Snapshot})
	c.history = observe.NewHistory(c.Saved, observe.HistoryOptions{Log: o.Observe.Log, FS: o.Disk.FS,
		Bytes: o.Observe.HistoryBytes, Version: o.Identity.Version}, c.figures.Snapshot)
	c.slowDirs = observe.NewSlowDirs(c.Saved, o.Observe.Log, c.history)
	c.codings = observe.NewCodings(observe.CodingOptions{Log: o.Observe.Log, Set: o.Network.SetAcceptEncoding,
		Bandwidth: o.Network.Bandwidth, InUse: o.tests.processorsInUse}, c.dispatcher, c.history)
	every := o.Observe.SnapshotEvery
	if !c.observed() {
		every = -1
	}
	c.slotMeter = observe.NewSlotMeter(c.Run, every)
	c.slotMeter.Wire(observe.Others{Connections: c.dispatcher, Outages: c.outages, Pausing: c.space.Pausing,
		Requests: c.requests.UnderWay,
		Target:   func() int64 { return c.stock.Aim().Target }, Heaps: func() *polite.Scheduler { return c.polite }})
}

// leastStock returns the stock's target while few hosts are in their delays.
func (o *Options) leastStock() int64 {
	return stock.Least(o.Network.Connections, int64(o.Order.StockTarget))
}
