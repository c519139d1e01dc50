package crawl

import (
	"context"
	"sync/atomic"
)

// crawler is a running crawl (the paper's figures 2, 4 and 5). Only this file knows the order of the
// stages.
//
//	seeds, links ─> urlSeen ─emitUnique─> star ─emitPlaced─> beast ─readBeast─> robotsCache ─emitChecked─┐
//	   ^                                    ^                  │ ^                ^  ^    ^              │
//	   │                                    └───scanOverBudget─────┘ │                │  │    │   pass       │
//	   │                                      (QF)               │   readAwaiting─┘  │    │   ready <────┤
//	   │                                                         │   (QR)            │    │     │        │ unknown
//	   │                                                         │                   │    │     │        v
//	   │                                           readDeferred ─┼───────────────────┘    │     │   awaitRobots (QR)
//	   │                                              (deferred) │                        │     │   robotsRequested
//	   │                                                         │           robots jobs ─┘     │        │ new
//	   │                                                         │           (DNS, robots.txt)<─┼─ robotsFetch (QD)
//	   │                                                         │                              │
//	   └── links ── outcome <── fetchOne <── dispatch <── polite <── readReady ─────────────────┘
//	                  ├─ edges ─> star                      └─ deferrals, retries ─> deferred
//	                  └─ bodies ─> content ─end─> WARC files
//
// Every arrow ends in a disk queue or in a drum's buckets. Both accept records without waiting for their
// consumer. Only three things wait: readBeast waits until the stock falls below its target, readReady waits
// for room in RAM, and every stage waits for disk space. None of them holds the transaction lock while it
// waits, and no two of them wait for each other.
type crawler struct {
	*engine
	seeds        *seedFeeder
	seen         *seenStage
	budgets      *budgetStage
	check        *robotsCheck
	requests     *robotsRequests
	dispatcher   *dispatcher
	pages        *pageStage
	content      *contentStage
	render       *renderStage
	walk         *walkStage
	cluster      *clusterStage
	leases       *leaseStage
	deferrals    *deferrals
	passes       *passRunner
	stock        *stockKeeper
	health       *hostHealth
	outages      *outages
	space        *space
	spills       *spills
	output       *output
	checkpointer *checkpointer
	slotMeter    *slotMeter
	slowDirs     *slowDirs
	codings      *codingChooser
	history      *historian
	extraction   *extraction
	uploads      *uploads
	operator     *operator

	lastSnapshot atomic.Pointer[Snapshot] // the last of progress
	gauges       gauges
}

// wire creates the stages and gives each stage the other stages that it uses.
func (c *crawler) wire() {
	e := c.engine
	c.seen, c.budgets, c.check, c.requests = newSeenStage(e), newBudgetStage(e), newRobotsCheck(e), newRobotsRequests(e)
	c.dispatcher, c.pages, c.deferrals = newDispatcher(e), &pageStage{engine: e}, newDeferrals(e)
	c.content, c.render, c.walk = newContentStage(e), newRenderStage(e), newWalkStage(e)
	c.cluster, c.leases = newClusterStage(e), &leaseStage{engine: e}
	c.passes, c.stock, c.space = &passRunner{engine: e}, newStockKeeper(e), newSpace(e)
	c.spills = newSpills(e)
	c.health, c.outages, c.output = &hostHealth{engine: e}, newOutages(e), &output{engine: e}
	c.checkpointer, c.slotMeter = &checkpointer{engine: e}, &slotMeter{engine: e}
	c.codings = &codingChooser{engine: e}
	c.operator = newOperator(e)
	c.history = &historian{engine: e, take: c.snapshot, wake: newSignal()}
	c.slowDirs = &slowDirs{engine: e, history: c.history}
	c.extraction, c.uploads = newExtraction(e), newUploads(e)
	c.seeds = &seedFeeder{engine: e, close: func() error { return nil }}

	c.seeds.output, c.seeds.seen, c.seeds.space = c.output, c.seen, c.space
	c.seeds.budgets = c.budgets
	c.seen.budgets, c.seen.output, c.seen.passes, c.seen.space = c.budgets, c.output, c.passes, c.space
	c.seen.deferrals = c.deferrals
	c.budgets.check, c.budgets.deferrals, c.budgets.passes = c.check, c.deferrals, c.passes
	c.budgets.requests, c.budgets.checkpointer = c.requests, c.checkpointer
	c.budgets.seen, c.budgets.space, c.budgets.stock = c.seen, c.space, c.stock
	c.check.deferrals, c.check.dispatcher, c.check.health = c.deferrals, c.dispatcher, c.health
	c.check.passes = c.passes
	c.check.requests, c.check.space, c.check.stock = c.requests, c.space, c.stock
	c.requests.check, c.requests.deferrals, c.requests.health = c.check, c.deferrals, c.health
	c.requests.outages, c.requests.output, c.requests.pages = c.outages, c.output, c.pages
	c.requests.passes, c.requests.seen, c.requests.space = c.passes, c.seen, c.space
	c.dispatcher.check, c.dispatcher.deferrals, c.dispatcher.health = c.check, c.deferrals, c.health
	c.dispatcher.outages = c.outages
	c.dispatcher.output, c.dispatcher.pages = c.output, c.pages
	c.dispatcher.space, c.dispatcher.stock = c.space, c.stock
	c.pages.budgets, c.pages.check, c.pages.deferrals = c.budgets, c.check, c.deferrals
	c.pages.content, c.pages.dispatcher = c.content, c.dispatcher
	c.content.output, c.content.passes, c.content.seen, c.content.space = c.output, c.passes, c.seen, c.space
	c.content.deferrals = c.deferrals
	c.pages.health, c.pages.outages, c.pages.output, c.pages.seen = c.health, c.outages, c.output, c.seen
	c.pages.spills, c.spills.space, c.pages.space = c.spills, c.space, c.space
	c.pages.render, c.pages.walk, c.deferrals.walk = c.render, c.walk, c.walk
	c.walk.seen, c.walk.space = c.seen, c.space
	c.render.dispatcher, c.render.health, c.render.outages, c.render.output = c.dispatcher, c.health, c.outages, c.output
	c.render.pages, c.render.requests, c.render.seen, c.render.space = c.pages, c.requests, c.seen, c.space
	c.deferrals.budgets, c.deferrals.check, c.deferrals.output, c.deferrals.seen = c.budgets, c.check, c.output, c.seen
	c.deferrals.space, c.deferrals.stock = c.space, c.stock
	c.passes.budgets, c.passes.requests, c.passes.space, c.passes.stock = c.budgets, c.requests, c.space, c.stock
	c.stock.deferrals = c.deferrals
	c.health.check, c.health.deferrals = c.check, c.deferrals
	c.outages.dispatcher, c.outages.health = c.dispatcher, c.health
	c.outages.output, c.outages.requests = c.output, c.requests
	c.space.checkpointer, c.space.content, c.space.check = c.checkpointer, c.content, c.check
	c.space.budgets, c.space.requests, c.space.seen = c.budgets, c.requests, c.seen
	c.checkpointer.output, c.checkpointer.space = c.output, c.space
	c.checkpointer.inRAM = []func(*moment){c.seeds.freeze, c.deferrals.freeze, c.health.freeze,
		c.requests.freeze, c.operator.freeze, c.orders.freeze, c.render.freeze, c.walk.freeze, c.cluster.freeze,
		c.uploads.freeze}
	c.pages.operator = c.operator
	c.budgets.operator, c.dispatcher.operator = c.operator, c.operator
	c.operator.history, c.operator.check, c.operator.health = c.history, c.check, c.health
	c.operator.checkpointer, c.operator.dispatcher = c.checkpointer, c.dispatcher
	c.checkpointer.operator = c.operator
	c.operator.seeds, c.operator.space, c.operator.stars = c.seeds, c.space, c.budgets
	c.slotMeter.dispatcher, c.slotMeter.outages = c.dispatcher, c.outages
	c.slotMeter.requests, c.slotMeter.space, c.slotMeter.stock = c.requests, c.space, c.stock
	c.extraction.output, c.extraction.space, c.checkpointer.extraction = c.output, c.space, c.extraction
	c.cluster.requests = c.requests
	c.cluster.seen, c.cluster.budgets, c.cluster.space = c.seen, c.budgets, c.space
	c.cluster.checkpointer, c.cluster.doneHere = c.checkpointer, c.doneHere
	c.cluster.dispatcher, c.dispatcher.pageLimit = c.dispatcher, c.cluster.pageLimit
	c.cluster.look, c.cluster.deferrals, c.cluster.operator = c.snapshot, c.deferrals, c.operator
	c.deferrals.quiet, c.operator.quiet = c.cluster.quiet, c.cluster.quiet
	c.cluster.seedsText, c.dispatcher.reloaded = c.seeds.text, c.cluster.reloaded
	c.checkpointer.cluster, c.seen.cluster, c.requests.cluster = c.cluster, c.cluster, c.cluster
	c.extraction.uploads, c.checkpointer.uploads = c.uploads, c.uploads
	c.uploads.output, c.uploads.space, c.uploads.checkpointer, c.uploads.extraction = c.output, c.space, c.checkpointer, c.extraction
	c.leases.deferrals, c.dispatcher.leases, c.cluster.leases = c.deferrals, c.leases, c.leases
	c.leases.dispatcher = c.dispatcher
	c.codings.dispatcher, c.codings.history = c.dispatcher, c.history
	c.dispatcher.lackURLs, c.dispatcher.disowned = c.passes.lackURLs, c.cluster.disowned
}

// startStages starts the goroutines of all stages. They end when ctx ends; engine.stages waits for them.
func (c *crawler) startStages(ctx context.Context) {
	c.start(ctx, "seeds", c.seeds.run)
	c.start(ctx, "urlseen", c.seen.mergeSeen)
	c.start(ctx, "star", c.budgets.mergeStar)
	c.start(ctx, "names", c.seen.mergeNames)
	c.start(ctx, "content", c.content.mergeContent)
	c.start(ctx, "render", c.render.run)
	c.start(ctx, "walk", c.walk.run)
	c.cluster.start()
	c.leases.start(ctx)
	c.start(ctx, "beast", c.budgets.readBeast)
	c.start(ctx, "scan", c.budgets.scanOverBudget)
	c.start(ctx, "supporters", c.budgets.computeSupporters)
	c.start(ctx, "robotscache", c.check.mergeRobotsCache)
	c.start(ctx, "robotsrequested", c.requests.mergeRobotsRequested)
	c.start(ctx, "awaitrobots", c.requests.readAwaiting)
	c.start(ctx, "robotsfetch", c.requests.readRobotsFetch)
	c.start(ctx, "ready", c.dispatcher.readReady)
	c.start(ctx, "deferred", c.deferrals.readDeferred)
	c.start(ctx, "visits", c.deferrals.readVisits)
	c.start(ctx, "relieve", c.stock.relieve)
	c.start(ctx, "dispatch", c.dispatcher.dispatch)
	c.start(ctx, "checkpoint", c.checkpointer.checkpoints)
	c.start(ctx, "watch", c.watch)
	c.start(ctx, "space", c.space.watchSpace)
	c.start(ctx, "canaries", c.outages.watchOutages)
	c.start(ctx, "progress", c.progress)
	c.start(ctx, "pulse", c.pulse)
	c.start(ctx, "slots", c.slotMeter.watchSlots)
	c.start(ctx, "slowdirs", c.slowDirs.watchDirs)
	c.start(ctx, "codings", c.codings.chooseCodings)
	c.start(ctx, "history", c.history.keepHistory)
	c.start(ctx, "extract", c.extraction.run)
	c.start(ctx, "upload", c.uploads.run)
	c.start(ctx, "held", c.deferrals.releaseHeld)
	c.start(ctx, "operator", c.operator.feedSeeds)
	if c.opt.Reload != nil {
		c.start(ctx, "reload", c.dispatcher.watchReload)
	}
}
