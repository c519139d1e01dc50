package crawl

import (
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"strings"

	"github.com/dustin/go-humanize"

	"drumbeat/beast"
	"drumbeat/drum"
	"drumbeat/robots"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/warc"
)

// leastRAM is the RAM of the smallest plan that works (TestPlans).
const leastRAM = 96 << 20

// leastHeap is the least size of the Go heap.
const leastHeap = 16 << 20

// connectionBytes is the mean RAM of an exchange: fetch buffers and goroutine, without the kernel's
// buffers. Large bodies use BodyBytes, a part of the Go heap.
const connectionBytes = 48 << 10

// DrumPlan is the geometry of one store, in the paper's symbols.
type DrumPlan struct {
	Name        string `json:"name"`
	Buckets     int    `json:"buckets"`             // k
	BufferBytes int    `json:"bufferBytes"`         // M
	BucketBytes int64  `json:"bucketBytes"`         // r
	ChunkBytes  int    `json:"chunkBytes"`          // Δ
	Workers     int    `json:"workers,omitempty"`   // c, buckets merged at once; 0 means 1
	LogBytes    int    `json:"logBytes,omitempty"`  // blocks of texts, 0 where there is no log
	SpanBytes   int    `json:"spanBytes,omitempty"` // bitmap of the log's stream
	RAMBytes    int64  `json:"ramBytes"`            // R: 2Mk + c·r + merge buffers
}

// Plan divides RAM and disk among the structures.
type Plan struct {
	RAMBytes, DiskBytes int64
	Lanes               int // of BEAST
	URLSeen             DrumPlan
	Edges, Indegree     DrumPlan
	RobotsCache         DrumPlan
	RobotsRequested     DrumPlan
	Names               DrumPlan
	Content             DrumPlan
	ContentDiskBytes    int64 // pages and keys that wait for the store of contents
	ContentFilterBytes  int64 // RAM in front of it: a filter and recent bodies
	TrapBytes           int64 // part of the heap for trap scores; 0 without Options.Budgets.TrapScore
	SupportersBytes     int64 // part of the heap for computing supporters; 0 with other budgets
	WalkBytes           int64 // part of the heap for the random walk; 0 with other strategies
	CacheBytes          int64 // the paper's c: RAM cache of recent keys
	EdgeCacheBytes      int64
	NameCacheBytes      int64
	PoliteBytes         int64
	PoliteItems         int
	QueueBytes          int64
	QueueBlockBytes     int   // buffer of each open queue
	ExchangeBytes       int64 // part of the heap for outboxes and a broker in this process; 0 for one node
	HeapBytes           int64 // Go heap: connections, pages, parsers
	OutputBufferBytes   int   // buffer of each open WARC file and index
	KeepFreeBytes       int64 // fetching pauses while a file system has less free
	BodyBytes           int64 // part of the heap for large bodies: fetch.Options.BufferBytes
	Alpha               float64
	URLSeenDiskBytes    int64 // D
}

// The shares of RAM in percent. URLseen has the largest share, because it sees every link; the others see
// at most the unique URLs or the edges of the PLD graph. The Go heap has the rest.
const (
	shareSeen      = 37
	shareEdges     = 6
	shareIndegree  = 7
	shareRobots    = 7
	shareRequested = 2
	shareCache     = 6
	shareEdgeCache = 1
	shareNames     = 2
	shareNameCache = 1
	shareContent   = 3
	shareFilter    = 2
	shareTraps     = 1
	sharePolite    = 6
	shareQueues    = 7
)

// MakePlan divides RAM and disk according to the options.
func MakePlan(o *Options) (Plan, error) {
	o.defaults()
	heap := int64(o.Network.Connections)*connectionBytes + 24<<20 +
		int64(runtime.GOMAXPROCS(0))*warc.CompressorBytes(o.Output.WARCFormat, o.Output.WARCLevel) + o.hookRAM() + o.renderRAM() + o.extractRAM() + o.supportersRAM() + o.exchangeRAM()
	if o.Limits.RAMBytes < leastRAM || o.Limits.RAMBytes < heap+heap/2 {
		least := max(leastRAM, heap+heap/2)
		hooks := ""
		if n := o.hookProcs(); n > 0 {
			hooks = fmt.Sprintf(" and %d processes of the hook", n)
		}
		if n := o.renderRAM(); n > 0 {
			hooks += fmt.Sprintf(" and %s for rendering", humanize.IBytes(uint64(n)))
		}
		if n := o.extractRAM(); n > 0 {
			hooks += fmt.Sprintf(" and %s for extraction", humanize.IBytes(uint64(n)))
		}
		if n := o.supportersRAM(); n > 0 {
			hooks += fmt.Sprintf(" and %s for supporters", humanize.IBytes(uint64(n)))
		}
		if n := o.exchangeRAM(); n > 0 {
			hooks += fmt.Sprintf(" and %s for the exchange with other nodes", humanize.IBytes(uint64(n)))
		}
		return Plan{}, fmt.Errorf("crawl: --ram %s is too little for %d connections%s; the least that works is %s",
			humanize.IBytes(uint64(o.Limits.RAMBytes)), o.Network.Connections, hooks, humanize.IBytes(uint64(least)))
	}
	if least := o.leastDisk(); o.Limits.DiskBytes < least {
		return Plan{}, fmt.Errorf("crawl: --disk %s is too little for %d directories; the least that works is %s",
			bytesText(o.Limits.DiskBytes), len(o.allDirs()), bytesText(least))
	}
	rest := o.Limits.RAMBytes - heap
	share := func(percent int64) int64 { return rest * percent / 100 }
	p := Plan{RAMBytes: o.Limits.RAMBytes, DiskBytes: o.Limits.DiskBytes, HeapBytes: o.Limits.RAMBytes}
	p.URLSeenDiskBytes = o.Drum.DiskBytes
	if p.URLSeenDiskBytes == 0 {
		p.URLSeenDiskBytes = o.Limits.DiskBytes / 4
	}
	seen := int64(shareSeen)
	if o.walks() {
		seen -= shareWalk
		p.WalkBytes = share(shareWalk)
	}
	if err := p.planSeen(o, share(seen)); err != nil {
		return Plan{}, err
	}
	p.Edges = planDrum("pldedges", edgesShape(), share(shareEdges), 0, o.Drum.BucketBytes)
	p.Indegree = planDrum("pldindegree", indegreeShape(o.newLanes()), share(shareIndegree), 0, o.Drum.BucketBytes)
	p.RobotsCache = planDrum(state.NameRobotsCache, robotsShape(), share(shareRobots), robotsBufferBytes, 0)
	p.RobotsRequested = planDrum(state.NameRobotsRequested, requestedShape(), share(shareRequested), 0, 0)
	p.Names = planDrum(state.NameNames, namesShape(), share(shareNames), 0, 0)
	p.planContent(o, share(shareContent), share(shareFilter))
	p.CacheBytes = share(shareCache)
	switch {
	case o.Drum.CacheRAMBytes > 0:
		p.CacheBytes = o.Drum.CacheRAMBytes
	case o.Drum.CacheRAMBytes < 0:
		p.CacheBytes = 0
	}
	p.EdgeCacheBytes, p.NameCacheBytes = share(shareEdgeCache), share(shareNameCache)
	if o.Budgets.TrapScore {
		p.TrapBytes = share(shareTraps)
	}
	p.PoliteBytes = share(sharePolite)
	p.PoliteItems = int(p.PoliteBytes / politeItemBytes)
	p.QueueBytes = share(shareQueues)
	p.Lanes = o.newLanes()
	p.planQueues(o, p.Lanes)
	for _, n := range []int64{p.URLSeen.RAMBytes, p.Edges.RAMBytes, p.Indegree.RAMBytes, p.RobotsCache.RAMBytes,
		p.RobotsRequested.RAMBytes, p.Names.RAMBytes, p.Content.RAMBytes, p.ContentFilterBytes, p.CacheBytes,
		p.EdgeCacheBytes, p.NameCacheBytes} {
		p.HeapBytes -= n
	}
	if p.HeapBytes < leastHeap {
		return Plan{}, fmt.Errorf("crawl: --ram %s leaves %s beside the stores and caches, which take %s;"+
			" at least %s are needed: use more RAM, or smaller --drum-… and --cache-ram",
			humanize.IBytes(uint64(p.RAMBytes)), bytesText(p.HeapBytes), bytesText(p.RAMBytes-p.HeapBytes), bytesText(leastHeap))
	}
	if o.supportersRAM() > 0 {
		p.SupportersBytes = p.SupportBytes() + star.MostVoteBytes
	}
	p.ExchangeBytes = o.exchangeRAM()
	p.BodyBytes = (p.HeapBytes - o.extractRAM() - p.WalkBytes - p.SupportersBytes - p.ExchangeBytes) * 3 / 8
	p.OutputBufferBytes = 256 << 10 // the size of an L2 cache: see package outfile
	if p.KeepFreeBytes = o.Disk.KeepFree; p.KeepFreeBytes == 0 {
		p.KeepFreeBytes = diskReserve + p.bufferedBytes() + int64(o.Network.Connections)*connectionBytes
	}
	return p, nil
}

// planQueues computes the size of the queues' blocks. Each open queue may hold a block, and each lane of BEAST has as
// many queues as its horizon. Together they stay within their share.
func (p *Plan) planQueues(o *Options, lanes int) {
	n := int(p.QueueBytes / int64(o.Budgets.QueuesMax*lanes+openQueueBuffers))
	p.QueueBlockBytes = max(4<<10, min(n&^4095, o.Budgets.QueueBlockBytes))
}

// planSeen computes URLseen's geometry by Theorem 2, for ram bytes of RAM and its share of the disk.
func (p *Plan) planSeen(o *Options, ram int64) error {
	m, workers := o.Drum.BufferBytes, o.Drum.Workers
	if m == 0 {
		m = bufferFor(ram)
	}
	for workers > 1 && ram/int64(workers) < workerRAM {
		workers--
	}
	store := seenShape()
	store.BufferBytes, store.LogBytes, store.Workers = m, max(m, min(seenLogBytes, int(ram/128)&^4095)), workers
	store.SpanBytes, store.ReadChunkBytes, store.Set.Paths = int(min(32<<20, ram/4)), o.Drum.ChunkBytes, o.Disk.Dirs
	onDisk := drum.Load{KeyBytes: planKeyBytes, URLBytes: paperURLBytes / planTextRatio}
	input := drum.PlanInput{Load: onDisk, RAMBytes: float64(ram), DiskBytes: float64(p.URLSeenDiskBytes)}
	fit, _, err := store.Fit(input)
	if err != nil {
		return fmt.Errorf("crawl: --ram %s is too little: %w", humanize.IBytes(uint64(p.RAMBytes)), err)
	}
	if o.Drum.Buckets != 0 {
		fit.Buckets = o.Drum.Buckets
	}
	if o.Drum.BucketBytes != 0 {
		fit.BucketBytes = o.Drum.BucketBytes
	}
	p.URLSeen = DrumPlan{Name: state.NameURLSeen, Buckets: fit.Buckets, BufferBytes: m, BucketBytes: fit.BucketBytes,
		ChunkBytes: fit.ReadChunkBytes, Workers: workers, LogBytes: fit.LogBytes, SpanBytes: fit.SpanBytes}
	p.URLSeen.RAMBytes = p.seenOptions(o.Disk.Dirs).RAMBytes()
	p.Alpha = p.paperAlpha(Load{Pages: 1e9}.complete())
	return nil
}

const (
	// workerRAM is the RAM for which another merge worker is added: its round, chunk and buffers.
	workerRAM = 8 << 20
	// seenLogBytes is the size of a text block. Larger blocks compress little better.
	seenLogBytes = 512 << 10
)

// planContent computes the geometry of the store of contents. A page that waits must fit into a buffer, so
// buffers are large and few.
func (p *Plan) planContent(o *Options, ram, filter int64) {
	m := leastContentBuffer
	for m < maxContentBuffer && ram >= int64(256*m) {
		m *= 2
	}
	if o.Output.ContentSeen == state.ContentOff {
		ram, filter = 0, 0
	}
	p.Content = planDrum(state.NameContent, contentShape(), ram, m, 0)
	p.ContentFilterBytes, p.ContentDiskBytes = filter, o.Limits.DiskBytes/contentDiskShare
}

const (
	leastContentBuffer = 256 << 10
	maxContentBuffer   = 1 << 20
	// contentDiskShare is the part of the disk for pages that wait in the store of contents.
	contentDiskShare = 32
)

// robotsBufferBytes is M of RobotsCache, which must hold a value of 64 KiB.
const robotsBufferBytes = 128 << 10

// openQueueBuffers is about the number of queue buffers besides BEAST's: the slots of the two calendars,
// QR, QD and Q.
const openQueueBuffers = 256

// politeItemBytes is the mean size of an admitted URL: record, item, and its part of the tables.
// politeHostBytes is the size of a host with stockPerHost URLs and its own server, PLD and network
// (TestBytesAreWhatTheHeapHolds of package polite counts 2,380).
const (
	politeItemBytes = 900
	politeHostBytes = 2400
)

// planDrum computes k, M and r for a share of RAM. The paper's optimum gives half to the 2k buffers (k0 =
// R/4M) and half to the bucket buffer. Values of m and r other than 0 are used unchanged.
func planDrum(name string, shape drum.Options, ram int64, m int, r int64) DrumPlan {
	p := DrumPlan{Name: name, BufferBytes: m, BucketBytes: r}
	if p.BufferBytes == 0 {
		p.BufferBytes = bufferFor(ram)
	}
	p.Buckets = int(max(1, min(4096, ram/int64(4*p.BufferBytes))))
	p.Buckets = 1 << (bits.Len(uint(p.Buckets)) - 1)
	if p.BucketBytes == 0 {
		p.BucketBytes = max(64<<10, min(1<<30, ram/2-ram/16))
	}
	p.RAMBytes = p.shaped(shape).RAMBytes()
	return p
}

// The shapes of the stores are the options that determine the RAM of a plan. Code that opens a store adds
// the rest.

func seenShape() drum.Options {
	return drum.Options{Op: drum.CheckUpdate, Codec: drum.Rice, Aux: drum.AuxLog}
}

func robotsShape() drum.Options {
	return drum.Options{ValueBytes: -1, MaxValueBytes: robots.MaxValueBytes, OutBytes: 128, Each: true}
}

func requestedShape() drum.Options { return drum.Options{ValueBytes: 16, Each: true} }

// edgesShape and indegreeShape describe the stores of package star.
func edgesShape() drum.Options {
	return drum.Options{Op: drum.CheckUpdate, ValueBytes: star.EdgeBytes, Codec: drum.Rice}
}

func indegreeShape(lanes int) drum.Options {
	return drum.Options{ValueBytes: star.RecordBytesOf(lanes), Each: true, Codec: drum.Rice}
}

// shaped adds the geometry to a shape.
func (p *DrumPlan) shaped(shape drum.Options) drum.Options {
	shape.Buckets, shape.BufferBytes, shape.BucketBytes = p.Buckets, p.BufferBytes, p.BucketBytes
	shape.ReadChunkBytes = p.ChunkBytes
	shape.Workers, shape.LogBytes, shape.SpanBytes = p.Workers, p.LogBytes, p.SpanBytes
	return shape
}

// seenOptions returns the options of URLseen for dirs, without its functions.
func (p *Plan) seenOptions(dirs []string) drum.Options {
	o := p.URLSeen.shaped(seenShape())
	o.Set.Paths, o.DiskBytes = dirs, p.URLSeenDiskBytes
	return o
}

// bufferFor returns M for a store's share of RAM: the paper's 256 KiB, or less if that would leave too few
// buckets.
func bufferFor(ram int64) int {
	m := 256 << 10
	for m > 8<<10 && ram/int64(4*m) < 64 {
		m /= 2
	}
	return m
}

// bufferedBytes is the most that a checkpoint can find in buffers and in RAM.
func (p *Plan) bufferedBytes() int64 {
	n := p.QueueBytes + p.PoliteBytes
	for _, d := range []*DrumPlan{&p.URLSeen, &p.Edges, &p.Indegree, &p.RobotsCache, &p.RobotsRequested, &p.Names, &p.Content} {
		n += 2 * int64(d.Buckets) * int64(d.BufferBytes) // M for keys and values, M for aux
	}
	return n
}

// Short describes the plan in one line.
func (p *Plan) Short() string {
	return fmt.Sprintf("at most %s of RAM and %s of disk; fetching pauses while a disk has less than %s free",
		humanize.IBytes(uint64(p.RAMBytes)), humanize.IBytes(uint64(p.DiskBytes)),
		humanize.IBytes(uint64(p.KeepFreeBytes)))
}

// Lines describes the plan for the start of a crawl.
func (p *Plan) Lines() []string {
	b := func(n int64) string { return strings.ReplaceAll(humanize.IBytes(uint64(max(n, 0))), " ", " ") }
	lines := []string{fmt.Sprintf("RAM %s: %s URLseen, %s PLD edges, %s PLD in-degrees, %s RobotsCache,"+
		" %s RobotsRequested, %s names, %s contents, %s URL cache, %s Go heap (of it %s URLs in RAM, %s queues, %s large bodies)",
		b(p.RAMBytes), b(p.URLSeen.RAMBytes), b(p.Edges.RAMBytes), b(p.Indegree.RAMBytes),
		b(p.RobotsCache.RAMBytes), b(p.RobotsRequested.RAMBytes), b(p.Names.RAMBytes), b(p.Content.RAMBytes+p.ContentFilterBytes), b(p.CacheBytes),
		b(p.HeapBytes), b(p.PoliteBytes), b(p.QueueBytes), b(p.BodyBytes))}
	lines = append(lines, fmt.Sprintf("URLseen: k=%d buckets, M=%s buffers, r=%s per bucket, %d merged at once, D=%s;"+
		" predicted alpha %.2f at 1e9 pages", p.URLSeen.Buckets, b(int64(p.URLSeen.BufferBytes)),
		b(p.URLSeen.BucketBytes), p.URLSeen.Workers, b(p.URLSeenDiskBytes), p.Alpha),
		fmt.Sprintf("fetching pauses while a disk has less than %s free", b(p.KeepFreeBytes)))
	return lines
}

// options returns the options of a store of package star.
func (p *DrumPlan) options(reserve func(int64) (func(), error)) drum.Options {
	o := p.shaped(drum.Options{})
	o.Reserve = reserve
	return o
}

// CheckStores returns the errors that opening the stores of a plan would return. It detects invalid flags
// before any directory is created.
func (o *Options) CheckStores(plan *Plan) error {
	c := newCrawler(*o)
	c.plan = *plan
	stars, err := c.budgets.starOptions()
	if err != nil {
		return err
	}
	queues := beast.Options{Set: c.Set, QueuesMax: o.Budgets.QueuesMax}
	return errors.Join(c.seen.seenStore().Check(), c.check.robotsStore().Check(), c.requests.requestedStore().Check(),
		c.seen.namesStore().Check(), c.content.store().Check(), stars.Budgets.Validate(), queues.Validate())
}
