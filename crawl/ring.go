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

// ring is a crawl that runs: the paper's figures 2, 4 and 5. This file alone knows the order of the stages.
//
//	seeds, links ─> urlSeen ─emitUnique─> star ─emitPlaced─> beast ─readBeast─> robotsCache ─emitChecked─┐
//	   ^                                    ^                  │ ^                ^  ^    ^              │
//	   │                                    └───scanFailed─────┘ │                │  │    │   pass       │
//	   │                                      (QF)               │   readAwaiting─┘  │    │   ready <────┤
//	   │                                                         │   (QR)            │    │     │        │ unknown
//	   │                                                         │                   │    │     │        v
//	   │                                              readLater ─┼───────────────────┘    │     │   awaitRobots (QR)
//	   │                                              (later)    │                        │     │   robotsRequested
//	   │                                                         │           robots jobs ─┘     │        │ new
//	   │                                                         │           (DNS, robots.txt)<─┼─ robotsFetch (QD)
//	   │                                                         │                              │
//	   └── links ── outcome <── fetchOne <── dispatch <── polite <── readReady ─────────────────┘
//	                  └─ edges ─> star                      └─ deferred, retried ─> later
//
// Every arrow ends in a disk queue or a drum's buckets, which take records without waiting for their consumer. Only
// three things wait: readBeast for the stock to sink, readReady for room in RAM, and everything for space on disk;
// none of them holds the step lock meanwhile, and no two wait for each other.
type ring struct {
	*state.Saved
	opt    Options
	fence  fence
	links  *admit.Policy                       // which links become URLs
	accept func(*fetch.Response, []byte) int64 // nil: everything
	plan   Plan

	// step is the lock of the steps: movers share it, a checkpoint takes it alone. Nothing that waits for network, room or
	// space may be done under it.
	step    sync.RWMutex
	slowest slowest // step, waiting for the lock included
	deltas  sync.Pool

	failMu sync.Mutex // guards failed
	failed error
	cancel context.CancelFunc
	movers sync.WaitGroup
	// running is the movers' context.
	running context.Context
	// fetching outlives the movers' context by stopGrace, so that exchanges under way may end; fetchers waits for them.
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
	robotsLater     *queue.Calendar // robots requests whose server's turn comes late
	ready           *queue.Queue
	later           *queue.Calendar
	held            *queue.Queue
	heldState       state.Held // guarded by the step lock, as seedFeeder.state is; its Since never changes
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
	waiting         *awaiting
	sketches        *sketches
	acct            accounts
	workers         *workers
	limits          limits

	// what wakes each mover
	wakeSeen, wakeStar, wakeBeast, wakeScan, wakeRobots, wakeRequested, wakeAwaiting, wakeJobs, wakeReady,
	wakeLater, wakeRelieve, wakeDispatch, wakeWatch, wakeSpace, wakeNames signal
	wakeVouch signal       // there is an outage: the vouchers are to be asked
	stepped   signal       // wakes the pulse
	changes   atomic.Int64 // steps, merges and exchanges that have ended
	saved     atomic.Int64 // changes when the last checkpoint began

	closedFiles map[string]int64 // sizes of closed files of output; used by diskUsed alone

	reserved  atomic.Int64 // bytes that merges under way may still write
	savedURLs atomic.Int64 // accountsState.saved of the last durable checkpoint
	wakeups   atomic.Int64 // of movers: few while the crawl waits
	tooSoon   atomic.Int64 // makeRoom finds nothing until then, ns from began

	checkpointMu   sync.Mutex // held by the one checkpoint that runs; guards gen
	gen            uint64
	lastCheckpoint atomic.Pointer[CheckpointStats]
	frozen         state.Frozen
	runs           int
	noted          *state.LastRun
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
	nameVouchers   knownNames
	bugs           atomic.Int64 // panics that were contained
	jobTried       time.Time    // last robots request begun in an outage; of readRobotsFetch alone
}

// startMovers starts every goroutine of the ring. They end when ctx does; r.movers waits for them.
func (r *ring) startMovers(ctx context.Context) {
	r.start(ctx, "seeds", r.seeds.run)
	r.start(ctx, "urlseen", r.mergeSeen)
	r.start(ctx, "star", r.mergeStar)
	r.start(ctx, "names", r.mergeNames)
	r.start(ctx, "beast", r.readBeast)
	r.start(ctx, "scan", r.scanFailed)
	r.start(ctx, "robotscache", r.mergeRobotsCache)
	r.start(ctx, "robotsrequested", r.mergeRobotsRequested)
	r.start(ctx, "awaitrobots", r.readAwaiting)
	r.start(ctx, "robotsfetch", r.readRobotsFetch)
	r.start(ctx, "ready", r.readReady)
	r.start(ctx, "later", r.readLater)
	r.start(ctx, "relieve", r.relieve)
	r.start(ctx, "dispatch", r.dispatch)
	r.start(ctx, "checkpoint", r.checkpoints)
	r.start(ctx, "watch", r.watch)
	r.start(ctx, "space", r.watchSpace)
	r.start(ctx, "vouchers", r.watchOutages)
	r.start(ctx, "progress", r.progress)
	r.start(ctx, "pulse", r.pulse)
	r.start(ctx, "slots", r.watchSlots)
	r.start(ctx, "held", r.releaseHeld)
	if r.opt.Reload != nil {
		r.start(ctx, "reload", r.watchReload)
	}
}

// pausable are the structures that emit.
func (r *ring) pausable() []pausable {
	return []pausable{r.urlSeen, r.star, r.names, r.robotsCache, r.robotsRequested}
}

func (r *ring) activeMillis() int64 { return r.activeBefore + time.Since(r.began).Milliseconds() }
