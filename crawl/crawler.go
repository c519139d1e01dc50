package crawl

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/beast"
	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
	"drumbeat/drum"
	"drumbeat/fetch"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/health"
	"drumbeat/internal/linktrace"
	"drumbeat/polite"
	"drumbeat/queue"
	"drumbeat/star"
	"drumbeat/warc"
)

// crawler is a crawl that runs: the paper's figures 2, 4 and 5. This file alone knows the order of the stages.
//
//	seeds, links ─> urlSeen ─emitUnique─> star ─emitPlaced─> beast ─readBeast─> robotsCache ─emitChecked─┐
//	   ^                                    ^                  │ ^                ^  ^    ^              │
//	   │                                    └───scanFailed─────┘ │                │  │    │   pass       │
//	   │                                      (QF)               │   readAwaiting─┘  │    │   ready <────┤
//	   │                                                         │   (QR)            │    │     │        │ unknown
//	   │                                                         │                   │    │     │        v
//	   │                                              readDeferred ─┼───────────────────┘    │     │   awaitRobots (QR)
//	   │                                              (later)    │                        │     │   robotsRequested
//	   │                                                         │           robots jobs ─┘     │        │ new
//	   │                                                         │           (DNS, robots.txt)<─┼─ robotsFetch (QD)
//	   │                                                         │                              │
//	   └── links ── outcome <── fetchOne <── dispatch <── polite <── readReady ─────────────────┘
//	                  └─ edges ─> star                      └─ deferred, retried ─> later
//
// Every arrow ends in a disk queue or a drum's buckets, which take records without waiting for their consumer. Only
// three things wait: readBeast for the stock to sink, readReady for room in RAM, and everything for space on disk;
// none of them holds the transaction lock meanwhile, and no two wait for each other.
type crawler struct {
	*state.Saved
	opt    Options
	rules  rulesInForce
	links  *admit.Policy                       // which links become URLs
	accept func(*fetch.Response, []byte) int64 // nil: everything
	plan   Plan

	// transaction is the lock of the transactions: stages share it, a checkpoint takes it alone. Nothing that waits for network, room or
	// space may be done under it.
	txLock       sync.RWMutex
	slowest      slowest // transaction, waiting for the lock included
	transactions sync.Pool

	failMu sync.Mutex // guards failed
	failed error
	cancel context.CancelFunc
	stages sync.WaitGroup
	// running is the stages' context.
	running context.Context
	// fetching outlives the stages' context by stopGrace, so that exchanges under way may end; fetchers waits for them.
	fetching context.Context
	fetchers sync.WaitGroup

	structures      []*structure // all of those below that are on disk
	urlSeen         *drum.Drum
	star            *star.Star
	names           *drum.Drum // keys of hosts and PLDs to their texts
	beast           *beast.Beast
	robotsCache     *drum.Drum
	robotsRequested *drum.Drum
	policy          health.Policy
	faultWaits      waits
	hosts           health.Table
	awaitRobots     *queue.Queue
	robotsFetch     *queue.Queue
	robotsDeferred  *queue.Calendar // robots requests whose server's turn comes late
	ready           *queue.Queue
	deferred        *queue.Calendar
	held            *queue.Queue
	heldState       state.Held // guarded by the transaction lock, as seedFeeder.state is; its Since never changes
	polite          *polite.Scheduler
	warc            *warc.Writer
	crawlLog        *crawllog.Log
	seedLog         *crawllog.Log
	robotsLog       *crawllog.Log  // outcomes of robots requests, and the sitemaps that were named
	recent          *drum.RAMCache // URL keys, in front of URLseen
	recentEdges     *drum.RAMCache
	recentNames     *drum.RAMCache
	trace           *linktrace.Writer // of the keys that come before recent; nil without
	seeds           *seedFeeder
	seedReports     seedReports
	seedsDone       atomic.Bool // seeds.state.Done, to be read at any time
	robotsJobs      *robotsJobs
	waiting         *releases
	sketches        *sketches
	acct            accounts
	workers         *workers
	limits          limits

	// what wakes each stage
	wakeSeen, wakeStar, wakeBeast, wakeScan, wakeRobots, wakeRequested, wakeAwaiting, wakeJobs, wakeReady,
	wakeDeferred, wakeRelieve, wakeDispatch, wakeWatch, wakeSpace, wakeNames signal
	wakeCanaries signal       // there is an outage: the canaries are to be asked
	committed    signal       // wakes the pulse
	changes      atomic.Int64 // transactions, merges and exchanges that have ended
	saved        atomic.Int64 // changes when the last checkpoint began

	closedFiles map[string]int64 // sizes of closed files of output; used by diskUsed alone

	reserved  atomic.Int64 // bytes that merges under way may still write
	savedURLs atomic.Int64 // accountsState.saved of the last durable checkpoint
	wakeups   atomic.Int64 // of stages: few while the crawl waits
	tooSoon   atomic.Int64 // makeRoom finds nothing until then, ns from began

	checkpointMu   sync.Mutex // held by the one checkpoint that runs; guards gen
	gen            uint64
	lastCheckpoint atomic.Pointer[CheckpointStats]
	frozen         state.Frozen
	runs           int
	lastRun        *state.LastRun
	began          time.Time
	activeBefore   int64        // ms of earlier runs
	roundNow       atomic.Int64 // Unix second at which the last pass of RobotsCache began; requestedNow of RobotsRequested
	requestedNow   atomic.Int64
	lastProgress   atomic.Int64 // ns after began of the last fetched or refused URL
	fullPasses     atomic.Int64 // of URLseen, in this run
	seenMerges     atomic.Int64 // passes of URLseen and of STAR that have ended
	starMerges     atomic.Int64
	seenMeter      seenMeter
	slotsMu        sync.Mutex // guards slots
	slots          Slots
	lookups        inFlight
	scanned        scanMemory
	stop           stopReason
	space          space
	draining       atomic.Bool // new links are not queued
	net, dns       monitor     // exchanges, lookups
	known          known
	nameCanaries   knownNames
	bugs           atomic.Int64 // panics that were contained
	jobTried       time.Time    // last robots request begun in an outage; of readRobotsFetch alone
}

// startStages starts every goroutine of the crawler. They end when ctx does; r.stages waits for them.
func (c *crawler) startStages(ctx context.Context) {
	c.start(ctx, "seeds", c.seeds.run)
	c.start(ctx, "urlseen", c.mergeSeen)
	c.start(ctx, "star", c.mergeStar)
	c.start(ctx, "names", c.mergeNames)
	c.start(ctx, "beast", c.readBeast)
	c.start(ctx, "scan", c.scanFailed)
	c.start(ctx, "robotscache", c.mergeRobotsCache)
	c.start(ctx, "robotsrequested", c.mergeRobotsRequested)
	c.start(ctx, "awaitrobots", c.readAwaiting)
	c.start(ctx, "robotsfetch", c.readRobotsFetch)
	c.start(ctx, "ready", c.readReady)
	c.start(ctx, "deferred", c.readDeferred)
	c.start(ctx, "relieve", c.relieve)
	c.start(ctx, "dispatch", c.dispatch)
	c.start(ctx, "checkpoint", c.checkpoints)
	c.start(ctx, "watch", c.watch)
	c.start(ctx, "space", c.watchSpace)
	c.start(ctx, "canaries", c.watchOutages)
	c.start(ctx, "progress", c.progress)
	c.start(ctx, "pulse", c.pulse)
	c.start(ctx, "slots", c.watchSlots)
	c.start(ctx, "held", c.releaseHeld)
	if c.opt.Reload != nil {
		c.start(ctx, "reload", c.watchReload)
	}
}

// pausable are the structures that emit.
func (c *crawler) pausable() []pausable {
	return []pausable{c.urlSeen, c.star, c.names, c.robotsCache, c.robotsRequested}
}

func (c *crawler) activeMillis() int64 { return c.activeBefore + time.Since(c.began).Milliseconds() }
