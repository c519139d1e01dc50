package crawl

import (
	"context"

	"drumbeat/crawl/account"
	"drumbeat/crawl/backups"
	"drumbeat/crawl/budgets"
	"drumbeat/crawl/checkpoint"
	"drumbeat/crawl/contents"
	"drumbeat/crawl/deferred"
	"drumbeat/crawl/dispatch"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/figures"
	"drumbeat/crawl/gate"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/limits"
	"drumbeat/crawl/node"
	"drumbeat/crawl/observe"
	"drumbeat/crawl/operate"
	"drumbeat/crawl/orders"
	"drumbeat/crawl/outage"
	"drumbeat/crawl/output"
	"drumbeat/crawl/pass"
	"drumbeat/crawl/render"
	"drumbeat/crawl/seeds"
	"drumbeat/crawl/seen"
	"drumbeat/crawl/space"
	"drumbeat/crawl/stock"
	"drumbeat/crawl/visit"
	"drumbeat/crawl/walkers"
	"drumbeat/polite"
	"drumbeat/state"
)

// crawler is a running crawl (the paper's figures 2, 4 and 5). Only this file knows the order of the stages.
//
//	seeds, links ─> urlSeen ─emitUnique─> star ─emitPlaced─> beast ─ReadBeast─> robotsCache ─emitChecked─┐
//	   ^                                    ^                  │ ^                ^  ^    ^              │
//	   │                                    └───ScanOverBudget─────┘ │                │  │    │   pass       │
//	   │                                      (QF)               │   readAwaiting─┘  │    │   ready <────┤
//	   │                                                         │   (QR)            │    │     │        │ unknown
//	   │                                                         │                   │    │     │        v
//	   │                                           ReadDeferred ─┼───────────────────┘    │     │   awaitRobots (QR)
//	   │                                              (deferred) │                        │     │   robotsRequested
//	   │                                                         │           robots jobs ─┘     │        │ new
//	   │                                                         │           (DNS, robots.txt)<─┼─ robotsFetch (QD)
//	   │                                                         │                              │
//	   └── links ── outcome <── Visit <── Dispatch <── polite <── ReadReady ────────────────────┘
//	                  ├─ edges ─> star                      └─ deferrals, retries ─> deferred
//	                  └─ bodies ─> content ─end─> WARC files
//
// Every arrow ends in a disk queue or in a drum's buckets. Both accept records without waiting for their
// consumer. Only these wait: ReadBeast, ReadDeferred and ReleaseHeld until the stock falls, ScanOverBudget
// for room in STAR's buckets, ReadReady for room in RAM, and every stage for disk space. None of them holds
// the transaction lock while it waits, and no two of them wait for each other.
type crawler struct {
	*engine
	seeds        *seeds.Feeder
	watched      *watchList
	seen         *seen.Stage
	budgets      *budgets.Stage
	check        *gate.Check
	requests     *gate.Requests
	dispatcher   *dispatch.Dispatcher
	fetcher      *fetcher.Fetcher
	pages        *visit.Stage
	content      *contents.Store
	earlier      *earlier // nil without Output.Since
	render       *render.Stage
	walk         *walkers.Leader
	node         *node.Node
	leases       *node.Leases
	deferrals    *deferred.Stage
	passes       *pass.Runner
	stock        *stock.Keeper
	health       *gate.Hosts
	outages      *outage.Watch
	space        *space.Keeper
	output       *output.Writer
	checkpointer *checkpoint.Maker
	slotMeter    *observe.SlotMeter
	slowDirs     *observe.SlowDirs
	codings      *observe.Codings
	history      *observe.History
	extraction   *output.Extraction
	uploads      *output.Uploads
	backups      *backups.Keeper
	operator     *operate.Operator
	figures      *figures.Figures
	limits       *limits.Limits
	reloader     *inforce.Reloader
	frozen       state.Frozen // of the crawl
	eraseFirst   bool         // requests to erase pages wait: the run ends before it fetches
}

// wire creates the stages and gives each stage the other stages that it uses.
func (c *crawler) wire() {
	e := c.engine
	c.leases = node.NewLeases(e.Run, e.opt.leaseOptions())
	c.stock, c.space = stock.New(e.Run, stock.Options{Connections: e.opt.Network.Connections,
		Target: int64(e.opt.Order.StockTarget)}), space.New(e.Run, e.Saved, e.spaceOptions())
	c.node = node.New(e.Run, e.Saved, e.opt.nodeOptions(), c.leases, c.space)
	c.passes = pass.New(e.Run, pass.Options{Log: e.opt.Observe.Log, Connections: e.opt.Network.Connections}, c.space)
	c.outages = outage.New(e.Run, e.Saved, e.watchOptions())
	c.wireFetcher()
	c.wireWalk()
	c.checkpointer = checkpoint.New(e.Run, e.Saved, checkpoint.Options{Log: e.opt.Observe.Log,
		Every: e.opt.Disk.CheckpointEvery}, c.space)
	c.backups = backups.New(e.Run, e.Saved, e.opt.Backup, e.holder, e.opt.Observe.Log, e.opt.Identity.Version)
	c.backups.Wire(c.checkpointer, c.node.Leaving)
	c.wireOutput()
	c.wireSeen()
	c.wireGate()
	c.wireBudgets()
	c.wireDeferred()
	c.wireLimits()
	c.wireDispatch()
	c.operator = operate.New(e.Run, e.Saved, operate.Options{Log: e.opt.Observe.Log, Links: e.links, Sites: e.sites,
		MaxOrders: orders.Max, Cluster: e.opt.clusterSecret()})
	c.wireMeters()
	c.wireRender()
	c.wirePages()
	c.wireSeeds()
	c.watched = &watchList{c: c, wake: c.PulsedSignal()}
	c.wireReloader()
	c.wireOperator()
	c.wireFigures()
	c.seen.Wire(seen.Others{Budgets: c.budgets, AdoptOrder: c.deferrals.AdoptOrder,
		Earlier: c.deferrals.Earlier, LogSeed: c.output.LogSeed})
	c.budgets.Wire(budgets.Others{Heaps: func() budgets.Heaps { return c.polite }, Operator: c.operator,
		Deferrals: c.deferrals, Leaving: c.node, Hungry: c.dispatcher.Hungry, UnderWay: c.requests.UnderWay,
		Checkpointed: c.checkpointer.Latest, Cluster: c.node})
	c.deferrals.Wire(deferred.Others{Budgets: c.budgets, SendLinks: c.seen.SendLinks, Quiet: c.node.Quiet,
		OrderEnds: func(tx *account.Tx) { tx.Wake(c.watched.wake) }})
	c.passes.Wire(pass.Others{Fetchers: c.dispatcher, Budgets: c.budgets, Requests: c.requests.UnderWay,
		StockLow: c.stock.Low, Filled: func() int64 { return c.polite.Use().Filled }})
	c.stock.Wire(stock.Others{Heaps: func() stock.Heaps { return c.polite }, Fetchers: c.dispatcher,
		Evicted: func(tx *account.Tx, items []*polite.Item) error {
			return c.deferrals.Evicted(tx, items, state.ReasonEvicted)
		}})
	c.outages.Wire(outage.Others{Rules: c.rules, Asker: c.requests, Hosts: c.health,
		Looked: func(name string, answer *Lookup) {
			c.output.ArchiveLookup(name, answer)
			c.sketches.AddServers(answer.Addrs)
		},
		Ended: func() { c.requests.OutageEnded(); c.dispatcher.Wake() }})
	c.wireSpace()
	c.checkpointer.Wire(checkpoint.Others{RAM: c.inRAM(), Flush: c.node.Flush, Saved: c.backups.Pin,
		Roll: c.output.Roll})
	c.wireNode()
}

// startStages starts the goroutines of all stages. They end when ctx ends; Run.WaitStages waits for them.
func (c *crawler) startStages(ctx context.Context) {
	c.Start(ctx, "seeds", c.seeds.Run)
	c.Start(ctx, "watchlist", c.watched.run)
	c.Start(ctx, "urlseen", c.seen.MergeSeen)
	c.Start(ctx, "star", c.budgets.MergeStar)
	c.Start(ctx, "names", c.seen.MergeNames)
	c.Start(ctx, "content", c.content.Run)
	c.Start(ctx, "render", c.render.Run)
	c.Start(ctx, "walk", c.walk.Run)
	c.node.Start(ctx)
	if c.node.On() {
		c.Start(ctx, "robotsasks", c.requests.AnswerRobots)
		c.Start(ctx, "renderasks", c.render.Answer)
	}
	c.leases.Start(ctx)
	c.Start(ctx, "beast", c.budgets.ReadBeast)
	c.Start(ctx, "scan", c.budgets.ScanOverBudget)
	c.Start(ctx, "supporters", c.budgets.ComputeSupporters)
	c.Start(ctx, "robotscache", c.check.MergeRobotsCache)
	c.Start(ctx, "robotsrequested", c.requests.MergeRobotsRequested)
	c.Start(ctx, "awaitrobots", c.requests.ReadAwaiting)
	c.Start(ctx, "robotsfetch", c.requests.ReadRobotsFetch)
	c.Start(ctx, "ready", c.dispatcher.ReadReady)
	c.Start(ctx, "deferred", c.deferrals.ReadDeferred)
	c.Start(ctx, "visits", c.deferrals.ReadVisits)
	c.Start(ctx, "relieve", c.stock.Run)
	c.Start(ctx, "dispatch", c.dispatcher.Dispatch)
	c.Start(ctx, "checkpoint", c.checkpointer.Run)
	c.Start(ctx, "watch", c.watch)
	c.Start(ctx, "space", c.space.Run)
	c.Start(ctx, "canaries", c.outages.AskCanaries)
	c.Start(ctx, "progress", c.figures.Run)
	c.Start(ctx, "pulse", c.Pulse)
	c.Start(ctx, "slots", c.slotMeter.Run)
	c.Start(ctx, "slowdirs", c.slowDirs.Run)
	c.Start(ctx, "codings", c.codings.Run)
	c.Start(ctx, "history", c.history.Run)
	c.Start(ctx, "extract", c.extraction.Run)
	c.Start(ctx, "upload", c.uploads.Run)
	c.Start(ctx, "backup", c.backups.Run)
	c.Start(ctx, "held", c.deferrals.ReleaseHeld)
	c.Start(ctx, "operator", c.operator.Run)
	if c.opt.Admission.Reload != nil {
		c.Start(ctx, "reload", c.reloader.Run)
	}
}
