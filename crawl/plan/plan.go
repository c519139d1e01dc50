package plan

import (
	"fmt"
	"math/bits"
	"runtime"
	"strings"
	"time"

	"drumbeat/cluster"
	"drumbeat/drum"
	"drumbeat/internal/human"
	"drumbeat/robots"
	"drumbeat/star"
	"drumbeat/state"
)

const (
	// supportShare is the part of the Go heap that a computation may use for sorting, 1/16 but at least
	// star.LeastSupportRAM.
	supportShare = 16
)

// DiskReserve is kept free on every file system, in addition to the size of a checkpoint, for file names,
// the manifest and partly written blocks of output.
const DiskReserve = 16 << 20

// LeastFiles is the number of files (inodes) for which a file system must have room: several times the
// files of a checkpoint and the running passes.
const LeastFiles = 1000

// ContentHead is the size of a value in the store of contents without its URL.
const ContentHead = 20 + 4

// LeastRAM is the RAM of the smallest plan that works (TestPlans).
const LeastRAM = 96 << 20

// leastHeap is the least size of the Go heap.
const leastHeap = 16 << 20

// ConnectionBytes is the mean RAM of an exchange: fetch buffers and goroutine, without the kernel's
// buffers. Large bodies use BodyBytes, a part of the Go heap.
const ConnectionBytes = 48 << 10

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
	ContentDiskBytes    int64    // pages and keys that wait for the store of contents
	ContentFilterBytes  int64    // RAM in front of it: a filter and recent bodies
	HostLinks           DrumPlan // only with Options.Parts, like HostLevelBytes
	HostLevelBytes      int64    // part of the heap for levels of hosts
	TrapBytes           int64    // part of the heap for trap scores; 0 without Options.TrapScore
	SupportersBytes     int64    // part of the heap for computing supporters; 0 with other budgets
	WalkBytes           int64    // part of the heap for the random walk; 0 with other strategies
	CacheBytes          int64    // the paper's c: RAM cache of recent keys
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

	of Options // from which it was made
}

// The shares of RAM in percent. URLseen has the largest share, because it sees every link; the others see
// at most the unique URLs or the edges of the PLD graph. The Go heap has the rest.
const (
	ShareWalk      = 25 // of a random walk, taken from URLseen, which sees few links then
	ShareSeen      = 37
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
	shareHosts     = 2
	shareLevels    = 1
	sharePolite    = 6
	shareQueues    = 7
)

// Options are what a plan depends on. The RAM of parts that have options of their own is set aside.
type Options struct {
	RAMBytes, DiskBytes int64
	LeastDisk           int64    // the least DiskBytes that works
	Dirs                []string // of state
	AllDirs             int      // number of directories, those of output included
	Connections         int
	CompressorBytes     int64 // of each parser
	HookProcs           int
	HookRAM             int64
	RenderRAM           int64
	ExtractRAM          int64
	BackupRAM           int64 // for one pack, and lists of files
	SupportersRAM       int64 // 0: no computation of supporters
	BrokerRAM           int64 // for a broker in this process
	Nodes               int   // of the cluster; 1 for a crawl of one node
	Walks               bool  // the crawl is a random walk
	TrapScore           bool
	Parts               state.BudgetParts
	Lanes               int // of a new crawl
	QueuesMax           int // of each lane
	QueueBlockBytes     int
	LeastStock          int64 // the stock's target while few hosts are in their delays, in URLs
	ContentSeen         state.ContentSeen
	CrawlLog            state.LogLevel
	Store               bool
	KeepFree            int64
	CheckpointEvery     time.Duration

	// As in crawl.Options: 0 for a planned value. CacheRAMBytes below 0: no cache.
	DrumBufferBytes, DrumChunkBytes, DrumBuckets, DrumWorkers int
	DrumBucketBytes, DrumDiskBytes, CacheRAMBytes             int64
}

// exchangeRAM is the RAM of a node for its outboxes and for a broker in this process.
func (o *Options) exchangeRAM() int64 {
	n := o.BrokerRAM
	if o.Nodes > 1 {
		n += int64(o.Nodes-1)*cluster.OutboxRAM(o.QueueBlockBytes) + cluster.CodecRAM(runtime.GOMAXPROCS(0))
	}
	return n
}

// heap returns the least of the Go heap.
func (o *Options) heap() int64 {
	return int64(o.Connections)*ConnectionBytes + 24<<20 + int64(runtime.GOMAXPROCS(0))*o.CompressorBytes +
		o.HookRAM + o.RenderRAM + o.ExtractRAM + o.BackupRAM + o.SupportersRAM + o.exchangeRAM()
}

// checkRAM returns an error if there is too little RAM for the Go heap.
func (o *Options) checkRAM(heap int64) error {
	least := max(LeastRAM, heap+heap/2)
	if o.RAMBytes >= least {
		return nil
	}
	others := ""
	if n := o.HookProcs; n > 0 {
		others = fmt.Sprintf(" and %s of the hook", human.Counted(n, "process", "processes"))
	}
	for _, part := range []struct {
		bytes int64
		name  string
	}{{o.RenderRAM, "rendering"}, {o.ExtractRAM, "extraction"}, {o.BackupRAM, "backups"},
		{o.SupportersRAM, "supporters"},
		{o.exchangeRAM(), "the exchange with other nodes"}} {
		if part.bytes > 0 {
			others += fmt.Sprintf(" and %s for %s", human.Bytes(part.bytes), part.name)
		}
	}
	return fmt.Errorf("crawl: --ram %s is too little for %s%s; the minimum is %s",
		human.Bytes(o.RAMBytes), human.Counted(o.Connections, "connection", "connections"), others,
		human.Bytes(least))
}

// Make divides RAM and disk according to the options.
func Make(o Options) (Plan, error) {
	heap := o.heap()
	if err := o.checkRAM(heap); err != nil {
		return Plan{}, err
	}
	if o.DiskBytes < o.LeastDisk {
		return Plan{}, fmt.Errorf("crawl: --disk %s is too little for %s; the minimum is %s",
			human.Bytes(o.DiskBytes), human.Counted(o.AllDirs, "directory", "directories"),
			human.Bytes(o.LeastDisk))
	}
	rest := o.RAMBytes - heap
	share := func(percent int64) int64 { return rest * percent / 100 }
	p := Plan{of: o, RAMBytes: o.RAMBytes, DiskBytes: o.DiskBytes, HeapBytes: o.RAMBytes}
	p.URLSeenDiskBytes = o.DrumDiskBytes
	if p.URLSeenDiskBytes == 0 {
		p.URLSeenDiskBytes = o.DiskBytes / 4
	}
	seen := int64(ShareSeen)
	if o.Walks {
		seen -= ShareWalk
		p.WalkBytes = share(ShareWalk)
	}
	if err := p.planSeen(share(seen)); err != nil {
		return Plan{}, err
	}
	p.Edges = planDrum("pldedges", EdgesShape(), share(shareEdges), 0, o.DrumBucketBytes)
	p.Indegree = planDrum("pldindegree", IndegreeShape(o.Lanes, o.divided()), share(shareIndegree), 0,
		o.DrumBucketBytes)
	p.RobotsCache = planDrum(state.NameRobotsCache, RobotsShape(), share(shareRobots), RobotsBufferBytes, 0)
	p.RobotsRequested = planDrum(state.NameRobotsRequested, RequestedShape(), share(shareRequested), 0, 0)
	p.Names = planDrum(state.NameNames, NamesShape(), share(shareNames), 0, 0)
	p.planContent(share(shareContent), share(shareFilter))
	p.CacheBytes = share(shareCache)
	switch {
	case o.CacheRAMBytes > 0:
		p.CacheBytes = o.CacheRAMBytes
	case o.CacheRAMBytes < 0:
		p.CacheBytes = 0
	}
	p.EdgeCacheBytes, p.NameCacheBytes = share(shareEdgeCache), share(shareNameCache)
	p.planBelow(&o, share)
	p.PoliteBytes = share(sharePolite)
	p.PoliteItems = int(p.PoliteBytes / PoliteItemBytes)
	p.QueueBytes = share(shareQueues)
	p.SetLanes(o.Lanes)
	for _, n := range []int64{p.URLSeen.RAMBytes, p.Edges.RAMBytes, p.Indegree.RAMBytes, p.RobotsCache.RAMBytes,
		p.RobotsRequested.RAMBytes, p.Names.RAMBytes, p.Content.RAMBytes, p.ContentFilterBytes, p.CacheBytes,
		p.EdgeCacheBytes, p.NameCacheBytes, p.HostLinks.RAMBytes} {
		p.HeapBytes -= n
	}
	if p.HeapBytes < leastHeap {
		return Plan{}, fmt.Errorf("crawl: the stores and caches take %s and leave %s of --ram %s;"+
			" the crawl needs at least %s: use more RAM, or less for --drum",
			human.Bytes(p.RAMBytes-p.HeapBytes), human.Bytes(p.HeapBytes), human.Bytes(p.RAMBytes),
			human.Bytes(leastHeap))
	}
	if o.SupportersRAM > 0 {
		p.SupportersBytes = p.SupportBytes() + star.MostVoteBytes
	}
	p.ExchangeBytes = o.exchangeRAM()
	p.BodyBytes = (p.HeapBytes - o.ExtractRAM - o.BackupRAM - p.WalkBytes - p.SupportersBytes - p.ExchangeBytes) * 3 / 8
	p.OutputBufferBytes = 256 << 10 // the size of an L2 cache: see package outfile
	if p.KeepFreeBytes = o.KeepFree; p.KeepFreeBytes == 0 {
		p.KeepFreeBytes = DiskReserve + p.BufferedBytes() + int64(o.Connections)*ConnectionBytes
	}
	return p, nil
}

func (o *Options) divided() bool { return o.Parts != state.ByPLDs }

// planBelow plans for the options that divide the budgets of PLDs.
func (p *Plan) planBelow(o *Options, share func(percent int64) int64) {
	if o.divided() {
		p.HostLinks = planDrum(state.NameHostLinks, star.HostLinksShape(), share(shareHosts), 0, o.DrumBucketBytes)
		p.HostLevelBytes = share(shareLevels)
	}
	if o.TrapScore {
		p.TrapBytes = share(shareTraps)
	}
}

// SetLanes sets the number of lanes, and computes the size of the queues' blocks. Each open queue may hold a
// block, and each lane of BEAST has as many queues as its horizon. Together they stay within their share.
func (p *Plan) SetLanes(lanes int) {
	p.Lanes = lanes
	n := int(p.QueueBytes / int64(p.of.QueuesMax*lanes+OpenQueueBuffers))
	p.QueueBlockBytes = max(4<<10, min(n&^4095, p.of.QueueBlockBytes))
}

// planSeen computes URLseen's geometry by Theorem 2, for ram bytes of RAM and its share of the disk.
func (p *Plan) planSeen(ram int64) error {
	o := &p.of
	m, workers := o.DrumBufferBytes, o.DrumWorkers
	if m == 0 {
		m = bufferFor(ram)
	}
	for workers > 1 && ram/int64(workers) < workerRAM {
		workers--
	}
	store := SeenShape()
	store.BufferBytes, store.LogBytes, store.Workers = m, max(m, min(seenLogBytes, int(ram/128)&^4095)), workers
	store.SpanBytes, store.ReadChunkBytes, store.Set.Paths = int(min(32<<20, ram/4)), o.DrumChunkBytes, o.Dirs
	onDisk := drum.Load{KeyBytes: planKeyBytes, URLBytes: paperURLBytes / TextRatio}
	input := drum.PlanInput{Load: onDisk, RAMBytes: float64(ram), DiskBytes: float64(p.URLSeenDiskBytes)}
	fit, _, err := store.Fit(input)
	if err != nil {
		return fmt.Errorf("crawl: --ram %s is too little: %w", human.Bytes(p.RAMBytes), err)
	}
	if o.DrumBuckets != 0 {
		fit.Buckets = o.DrumBuckets
	}
	if o.DrumBucketBytes != 0 {
		fit.BucketBytes = o.DrumBucketBytes
	}
	p.URLSeen = DrumPlan{Name: state.NameURLSeen, Buckets: fit.Buckets, BufferBytes: m, BucketBytes: fit.BucketBytes,
		ChunkBytes: fit.ReadChunkBytes, Workers: workers, LogBytes: fit.LogBytes, SpanBytes: fit.SpanBytes}
	p.URLSeen.RAMBytes = p.SeenOptions(o.Dirs).RAMBytes()
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
func (p *Plan) planContent(ram, filter int64) {
	o := &p.of
	m := leastContentBuffer
	for m < maxContentBuffer && ram >= int64(256*m) {
		m *= 2
	}
	if o.ContentSeen == state.ContentOff {
		ram, filter = 0, 0
	}
	p.Content = planDrum(state.NameContent, ContentShape(), ram, m, 0)
	p.ContentFilterBytes, p.ContentDiskBytes = filter, o.DiskBytes/contentDiskShare
}

const (
	leastContentBuffer = 256 << 10
	maxContentBuffer   = 1 << 20
	// contentDiskShare is the part of the disk for pages that wait in the store of contents.
	contentDiskShare = 32
)

// RobotsBufferBytes is M of RobotsCache, which must hold a value of 64 KiB.
const RobotsBufferBytes = 128 << 10

// OpenQueueBuffers is about the number of queue buffers besides BEAST's: the slots of the two calendars,
// QR, QD and Q.
const OpenQueueBuffers = 256

// PoliteItemBytes is the mean size of an admitted URL: record, item, and its part of the tables.
// politeHostBytes is the size of a host with stockPerHost URLs and its own server, PLD and network
// (TestBytesAreWhatTheHeapHolds of package polite counts 2,380).
const (
	PoliteItemBytes = 900
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
	p.RAMBytes = p.Shaped(shape).RAMBytes()
	return p
}

// The shapes of the stores are the options that determine the RAM of a plan. Code that opens a store adds
// the rest.

// SeenShape is that of URLseen.
func SeenShape() drum.Options {
	return drum.Options{Op: drum.CheckUpdate, Codec: drum.Rice, Aux: drum.AuxLog}
}

// RobotsShape is that of RobotsCache.
func RobotsShape() drum.Options {
	return drum.Options{ValueBytes: -1, MaxValueBytes: robots.MaxValueBytes, OutBytes: robots.MaxSummary, Each: true}
}

// RequestedShape is that of RobotsRequested.
func RequestedShape() drum.Options { return drum.Options{ValueBytes: 16, Each: true} }

// EdgesShape is that of package star's edges.
func EdgesShape() drum.Options {
	return drum.Options{Op: drum.CheckUpdate, ValueBytes: star.EdgeBytes, Codec: drum.Rice}
}

// IndegreeShape is that of package star's in-degrees, with records of so many lanes, and
// of classes of hosts.
func IndegreeShape(lanes int, hosts bool) drum.Options {
	return drum.Options{ValueBytes: star.RecordBytesOf(lanes, hosts), Each: true, Codec: drum.Rice}
}

// NamesShape returns the options that fix the format of the store of names.
func NamesShape() drum.Options {
	return drum.Options{Op: drum.CheckUpdate, ValueBytes: -1, MaxValueBytes: state.MaxNameBytes, Codec: drum.Rice}
}

// ContentShape returns the options that fix the format of the store of contents.
func ContentShape() drum.Options {
	return drum.Options{ValueBytes: -1, MaxValueBytes: state.MaxContentValue, Codec: drum.Rice,
		Apply: drum.ApplyCheckUpdate}
}

// Shaped adds the geometry to a shape.
func (p *DrumPlan) Shaped(shape drum.Options) drum.Options {
	shape.Buckets, shape.BufferBytes, shape.BucketBytes = p.Buckets, p.BufferBytes, p.BucketBytes
	shape.ReadChunkBytes = p.ChunkBytes
	shape.Workers, shape.LogBytes, shape.SpanBytes = p.Workers, p.LogBytes, p.SpanBytes
	return shape
}

// SeenOptions returns the options of URLseen for dirs, without its functions.
func (p *Plan) SeenOptions(dirs []string) drum.Options {
	o := p.URLSeen.Shaped(SeenShape())
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

// BufferedBytes is the most that a checkpoint can find in buffers and in RAM.
func (p *Plan) BufferedBytes() int64 {
	n := p.QueueBytes + p.PoliteBytes
	for _, d := range []*DrumPlan{&p.URLSeen, &p.Edges, &p.Indegree, &p.RobotsCache, &p.RobotsRequested,
		&p.Names, &p.Content, &p.HostLinks} {
		n += 2 * int64(d.Buckets) * int64(d.BufferBytes) // M for keys and values, M for aux
	}
	return n
}

// Buffered is the most that the buffers of a store hold, if bytes wait in the store.
func (p *DrumPlan) Buffered(bytes int64) int64 {
	return min(bytes, 2*int64(p.Buckets)*int64(p.BufferBytes))
}

// BufferedIn is Buffered for a store, 0 before it is open.
func (p *DrumPlan) BufferedIn(d *drum.Drum) int64 {
	if d == nil {
		return 0
	}
	_, bytes := d.Pending()
	return p.Buffered(bytes)
}

// SupportBytes returns the RAM in which a computation of supporters sorts, a part of the Go heap.
func (p *Plan) SupportBytes() int64 { return max(star.LeastSupportRAM, p.HeapBytes/supportShare) }

// Short describes the plan in one line.
func (p *Plan) Short() string {
	return fmt.Sprintf("at most %s of RAM and %s of disk; fetching pauses while a disk has less than %s free",
		human.Bytes(p.RAMBytes), human.Bytes(p.DiskBytes),
		human.Bytes(p.KeepFreeBytes))
}

// Lines describes the plan for the start of a crawl.
func (p *Plan) Lines() []string {
	b := func(n int64) string { return strings.ReplaceAll(human.Bytes(n), " ", " ") }
	lines := []string{fmt.Sprintf("RAM %s: %s URLseen, %s PLD edges, %s PLD in-degrees, %s RobotsCache,"+
		" %s RobotsRequested, %s names, %s contents, %s URL cache, %s Go heap (%s URLs in RAM, %s "+
		"queues, %s large bodies)", b(p.RAMBytes), b(p.URLSeen.RAMBytes), b(p.Edges.RAMBytes), b(p.Indegree.RAMBytes),
		b(p.RobotsCache.RAMBytes), b(p.RobotsRequested.RAMBytes), b(p.Names.RAMBytes),
		b(p.Content.RAMBytes+p.ContentFilterBytes), b(p.CacheBytes), b(p.HeapBytes), b(p.PoliteBytes), b(p.QueueBytes),
		b(p.BodyBytes))}
	lines = append(lines,
		fmt.Sprintf("URLseen: k=%s, M=%s buffers, r=%s per bucket, %d merged at once, D=%s;"+
			" predicted alpha %.2f at 1e9 pages", human.Counted(p.URLSeen.Buckets, "bucket", "buckets"),
			b(int64(p.URLSeen.BufferBytes)),
			b(p.URLSeen.BucketBytes), p.URLSeen.Workers, b(p.URLSeenDiskBytes), p.Alpha),
		fmt.Sprintf("fetching pauses while a disk has less than %s free", b(p.KeepFreeBytes)))
	return lines
}

// Geometry returns the options of a store of package star.
func (p *DrumPlan) Geometry(reserve func(int64) (func(), error)) drum.Options {
	o := p.Shaped(drum.Options{})
	o.Reserve = reserve
	return o
}
