package polite

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"sync"
	"time"
)

// Special values. The zero value of a delay in Options means no delay.
const (
	// Unlimited removes a share.
	Unlimited = -1
	// Forever is the wait that Next returns if nothing is scheduled.
	Forever time.Duration = 1<<63 - 1
	// ItemOverhead is the size of an item in Bytes besides its Rec and addresses.
	ItemOverhead = 256
)

// Size of a table entry in bytes, including map, heap and lines (TestBytesAreWhatTheHeapHolds).
const (
	hostBytes    = 336
	serverBytes  = 256
	pldBytes     = 208
	networkBytes = 376
	spreadBytes  = 288
)

// Bounds of Options.NetworkRate: one request in three hours, and effectively no limit.
const (
	minNetworkRate = 1e-4
	maxNetworkRate = 1e6
)

// maxAddrs bounds the servers considered for an item. Four spread the load; more would cost RAM for each
// item.
const maxAddrs = 4

// Options configure a Scheduler. A delay of 0 means no delay. For other fields, 0 means the default named.
type Options struct {
	HostDelay      time.Duration // τh at DefaultBudget, from the end of the last exchange
	HostDelayMin   time.Duration // lower bound of τh for large budgets, capped at HostDelay
	ServerDelay    time.Duration // τs at DefaultBudget, from the start of the last request
	ServerDelayMin time.Duration // lower bound of τs
	PLDDelay       time.Duration // at DefaultBudget, between starts of requests to one PLD
	PLDDelayMin    time.Duration // lower bound of that for large budgets, capped at PLDDelay
	DefaultBudget  uint32        // B0 in pages; default 10
	MaxCrawlDelay  time.Duration // cap of Crawl-delay and of ResponseFactor's delay; default 2 min
	ResponseFactor float64       // host delay >= factor × last response time; 0: off
	// Adaptive lets hosts whose answers stay quick and clean have shorter delays, down to HostDelayMin (see
	// adapt.go). It needs a ResponseFactor, without which a slow host could not be told from a quick one.
	Adaptive bool
	// NetworkRate bounds the requests that start in one network, an IPv4 /24 or IPv6 /48, in 1/s: at most n
	// starts in any n/NetworkRate seconds, where n is the rate rounded up, at most 1024. 0: no limit.
	NetworkRate float64
	// NetworkConnections bounds the exchanges in progress in one network. One of its servers may have at
	// most as many as are free, or one. 0: no limit.
	NetworkConnections int

	MaxItems     int   // items in RAM, including those in flight; default 100,000
	MaxBytes     int64 // bytes of items and tables; items get at least half; default 1 GiB
	MaxHosts     int   // entries of each table; default 10 × MaxItems, at least 1000
	MaxPerHost   int   // items of one host in RAM; default 64; Unlimited
	MaxPerServer int   // items at one server; default MaxItems/8; Unlimited
	MaxPerPLD    int   // items of one PLD; default MaxItems/8; Unlimited
	// RobotsPerServer bounds the queued robots items at one server. They do not count towards
	// MaxPerServer. Default 16; Unlimited.
	RobotsPerServer int
	// MaxRobotsPerServer bounds that share where a short server delay raises it, because each waiting item
	// occupies one of a bounded number of requests. 0: no bound.
	MaxRobotsPerServer int
	Ahead              time.Duration // each share is at least what can be sent in this time; default 4 s
	// IdleAhead replaces Ahead while fewer than IdleItems are in RAM, so that the rest of a crawl comes from
	// disk in few large lots. Default 0: none.
	IdleAhead time.Duration
	IdleItems int
	// CrowdedItems is the number of items from which quick hosts keep only those of the next seconds in RAM. Default 0: none.
	CrowdedItems int
	MaxDefer     time.Duration // upper bound of a deferral; default 59 days

	// Visited, if set, is when all hosts and servers count as last visited: the time of an unclean stop or,
	// if unknown, the start after it.
	Visited time.Time
	// UseTerms says that items may have Terms with a PLDDelay.
	UseTerms bool
	// StartAtGrant makes the grant the start of the request. Started need not be called, but jitter in
	// connecting may shorten the gaps that a server sees.
	StartAtGrant bool
	// Leased says that a network may be visited only while it is held: see Hold.
	Leased bool
	// MaxUnheld bounds the items of networks that are not held and were wanted a second ago; default MaxItems/2.
	MaxUnheld int
}

func (o *Options) setDefaults() {
	def := func(p *int, d int) {
		if *p == 0 {
			*p = d
		}
	}
	def(&o.MaxItems, 100_000)
	def(&o.MaxHosts, max(10*o.MaxItems, 1000))
	def(&o.MaxPerHost, 64)
	def(&o.MaxPerServer, max(o.MaxItems/8, 1))
	def(&o.MaxPerPLD, max(o.MaxItems/8, 1))
	def(&o.MaxUnheld, max(o.MaxItems/2, 1))
	def(&o.RobotsPerServer, 16)
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 30
	}
	if o.DefaultBudget == 0 {
		o.DefaultBudget = 10
	}
	if o.MaxCrawlDelay == 0 {
		o.MaxCrawlDelay = 2 * time.Minute
	}
	if o.Ahead == 0 {
		o.Ahead = 4 * time.Second
	}
	if o.MaxDefer == 0 {
		o.MaxDefer = 59 * 24 * time.Hour
	}
	o.HostDelayMin = min(o.HostDelayMin, o.HostDelay)
	o.ServerDelayMin = min(o.ServerDelayMin, o.ServerDelay)
	o.PLDDelayMin = min(o.PLDDelayMin, o.PLDDelay)
}

// Validate returns all faults of the options, joined.
func (o Options) Validate() error {
	var errs []error
	neg := func(name string, v float64) {
		if v < 0 {
			errs = append(errs, fmt.Errorf("polite: option %s is %v, must be >= 0", name, v))
		}
	}
	neg("HostDelay", float64(o.HostDelay))
	neg("HostDelayMin", float64(o.HostDelayMin))
	neg("ServerDelay", float64(o.ServerDelay))
	neg("ServerDelayMin", float64(o.ServerDelayMin))
	neg("PLDDelay", float64(o.PLDDelay))
	neg("PLDDelayMin", float64(o.PLDDelayMin))
	neg("NetworkConnections", float64(o.NetworkConnections))
	if o.NetworkRate != 0 && !(o.NetworkRate >= minNetworkRate && o.NetworkRate <= maxNetworkRate) {
		errs = append(errs, fmt.Errorf("polite: option NetworkRate is %v, must be 0 or lie between %v and %v",
			o.NetworkRate, minNetworkRate, maxNetworkRate))
	}
	neg("MaxCrawlDelay", float64(o.MaxCrawlDelay))
	if f := o.ResponseFactor; !(f >= 0 && f <= math.MaxFloat32) {
		errs = append(errs, fmt.Errorf("polite: option ResponseFactor is %v, must be >= 0", f))
	}
	if o.Adaptive && o.ResponseFactor == 0 {
		errs = append(errs, errors.New("polite: option Adaptive needs a ResponseFactor above 0"))
	}
	neg("MaxItems", float64(o.MaxItems))
	neg("MaxUnheld", float64(o.MaxUnheld))
	neg("MaxBytes", float64(o.MaxBytes))
	neg("MaxHosts", float64(o.MaxHosts))
	neg("Ahead", float64(o.Ahead))
	neg("IdleAhead", float64(o.IdleAhead))
	neg("IdleItems", float64(o.IdleItems))
	neg("MaxDefer", float64(o.MaxDefer))
	return errors.Join(errs...)
}

// Item is one URL in RAM. The caller sets the exported fields before Admit and does not change them
// afterwards.
type Item struct {
	Rec        []byte        // opaque; counted in Bytes
	Data       any           // opaque; not counted
	Host       uint64        // key of the host (FQDN)
	PLD        uint64        // key of the PLD
	Addrs      []netip.Addr  // addresses of the host, at least one; the first four distinct servers are used
	Budget     uint32        // Bx in pages, scales the delays; 0: unscaled
	CrawlDelay time.Duration // from robots.txt; 0: none
	Robots     bool          // a request for robots.txt; goes to the front of its host's line
	First      bool          // goes before all but delays and limits; see the package comment, "First"
	Waits      uint8         // number of earlier deferrals of this item
	Due        time.Time     // when to offer the item again; set by a deferral or an eviction
	Lane       uint8         // below MaxLanes: the lane of its host; see Terms
	Terms      *Terms        // of its host and its PLD, until SetTerms or a later item has others; nil: none

	itemLink
	host     *host
	pld      *pld
	servers  [maxAddrs]*server
	addrs    [maxAddrs]uint8 // index in Addrs for servers[i]
	nservers int
}

// bytes returns the item's size in Bytes.
func (it *Item) bytes() int64 { return int64(len(it.Rec)) + 24*int64(len(it.Addrs)) + ItemOverhead }

// Reason says why an item was deferred.
type Reason uint8

// The shares that an item may exceed.
const (
	None         Reason = iota
	HostShare           // the host has reached its share of items in RAM
	ServerShare         // all servers of the item have
	PLDShare            // the PLD has
	RobotsShare         // all servers of the robots item, or its PLD, have their share of robots items
	NetworkShare        // the networks of all servers of the item have
	LeaseShare          // other crawlers visit all its networks, and the items that wait for such networks have their share
)

// String returns the reason's name for logs and tables.
func (r Reason) String() string {
	return [...]string{"none", "host share", "server share", "pld share", "robots share", "network share", "lease share"}[r]
}

// Kind is the kind of a Verdict.
type Kind uint8

// The verdicts of Admit.
const (
	Admitted Kind = iota // the scheduler owns the item
	Deferred             // offer it again at Due
	Full                 // RAM or a table is full; offer it again after Room
)

// Verdict is the result of Admit.
type Verdict struct {
	Kind Kind
	Due  time.Time // if Deferred
	Why  Reason    // if Deferred
}

// Scheduler schedules the items in RAM. See the package comment for its contract.
type Scheduler struct {
	opt    Options
	base   time.Time // internal times are nanoseconds since base
	ready  chan struct{}
	room   chan struct{}
	wanted chan struct{}

	mu          sync.Mutex // guards the fields below; not held during I/O or callbacks, except Each's
	hosts       map[uint64]*host
	servers     map[serverKey]*server
	plds        map[uint64]*pld
	spreads     map[spreadKey]*spread
	own         map[uint64]time.Duration // delays of SetHostDelay, by host
	hostHeap    heap                     // hosts in their delay, including idle ones, which are dropped afterwards
	serverHeap  heap                     // servers with waiting hosts, unless held or waiting for their network
	firstHeap   heap                     // of these servers, those whose first waiting host has a First item in front
	idleServers heap                     // servers without items in their delay
	pldHeap     heap                     // PLDs with waiting hosts, unless held
	idlePLDs    heap                     // PLDs without items in their delay
	nets        map[serverKey]*network
	netHeap     heap    // networks with waiting servers whose next visit time is known
	idleNets    heap    // networks without servers whose last visits still count
	lines       []*host // hosts with queued items
	flights     []*Grant
	landed      []*Grant    // ended exchanges whose items are still in RAM
	items       int         // queued and in flight
	resting     int         // hosts in the usual delay after a visit
	filled      int64       // see Use.Filled
	bare        int         // hosts in that delay or in flight, without queued items
	wants       []serverKey // of networks that TakeWanted returns
	unheld      int         // items of networks that are not held, with Options.Leased
	peak        peak
	gaps        Gaps
	adapted     Adapted
	lanes       bool           // items of a lane other than 0 have been admitted
	crowded     map[uint64]int // hosts that had more lanes: how many may be in flight at once (crowd)
	told        int64          // until when the caller of Next was told to wait
	bytes       int64
	seq         uint64
	visited     int64 // Options.Visited in internal time, if hasVisited
	hasVisited  bool

	gatePLDs, gateNets  bool  // PLDs and networks have limits
	netBurst            int   // most starts of a network in a window; 0: no limit
	netWindow, netApart int64 // in ns
}

// New returns an empty scheduler. It panics with BUG if the options are invalid; call Validate first.
func New(opt Options, now time.Time) *Scheduler {
	if err := opt.Validate(); err != nil {
		panic("BUG: " + err.Error())
	}
	opt.setDefaults()
	s := &Scheduler{
		opt: opt, base: now,
		ready: make(chan struct{}, 1), room: make(chan struct{}, 1), wanted: make(chan struct{}, 1),
		hosts: map[uint64]*host{}, servers: map[serverKey]*server{}, plds: map[uint64]*pld{},
		spreads: map[spreadKey]*spread{}, nets: map[serverKey]*network{}, gaps: Gaps{Forever, Forever},
	}
	s.setGates()
	if !opt.Visited.IsZero() {
		s.visited, s.hasVisited = s.at(opt.Visited), true
	}
	return s
}

// at converts to internal time. The difference is monotonic if both times have monotonic readings.
func (s *Scheduler) at(t time.Time) int64 { return int64(t.Sub(s.base)) }

func (s *Scheduler) time(at int64) time.Time { return s.base.Add(time.Duration(at)) }

// Ready is signalled when a change may let Next grant earlier than its last wait said. It has one receiver.
func (s *Scheduler) Ready() <-chan struct{} { return s.ready }

// Room is signalled when an item refused as Full may fit. It has one receiver.
func (s *Scheduler) Room() <-chan struct{} { return s.room }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Len returns the numbers of items queued and in flight, including those that have landed.
func (s *Scheduler) Len() (queued, inFlight int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	inFlight = len(s.flights) + len(s.landed)
	return s.items - inFlight, inFlight
}

// Bytes returns the size of the items, including those in flight, as counted towards MaxBytes.
func (s *Scheduler) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// TableBytes returns the size of the tables as counted towards MaxBytes.
func (s *Scheduler) TableBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tableBytes()
}

func (s *Scheduler) tableBytes() int64 {
	return int64(len(s.hosts))*hostBytes + int64(len(s.servers))*serverBytes + int64(len(s.plds))*pldBytes +
		int64(len(s.nets))*networkBytes + int64(len(s.spreads))*spreadBytes
}

// Use describes how full RAM is, and with how many hosts.
type Use struct {
	Items int // queued and in flight
	// Most estimates how many items would fit with as many items for each host as now; MaxItems while there
	// are few.
	Most int
	// Resting is the number of hosts in the delay after a visit or in flight: by Little's law the rate of
	// visits times the mean delay in force. Hosts in longer delays than HostDelay and MaxCrawlDelay do not
	// count.
	Resting int
	// Peak is the maximum of Resting over the last peakDelays to twice peakDelays HostDelays. When URLs of
	// other hosts arrive too late, Resting drops below what the delays would admit; Peak does not.
	Peak int
	// Hosts have queued items. Bare ones are in the delay after a visit or in flight, without queued items.
	Hosts, Bare int
	// Filled counts hosts that had no queued item and got one, since New.
	Filled int64
}

// Gaps are the smallest times between two visits; Forever before the second.
type Gaps struct {
	Host   time.Duration // from the end of one exchange with a host to the start of the next request
	Server time.Duration // from the start of one request to a server to the start of the next
}

// Gaps returns the smallest gaps since New.
func (s *Scheduler) Gaps() Gaps {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gaps
}

// peakDelays is the least number of HostDelays that Peak covers: longer than URLs without room take to
// return from disk.
const peakDelays = 4

// peak is the maximum in the current and the previous window.
type peak struct {
	now, last int
	since     int64 // start of the current window
}

func (p *peak) note(n int, at, window int64) {
	if at-p.since >= window {
		p.last, p.now, p.since = p.now, 0, at
	}
	p.now = max(p.now, n)
}

// fewItems are too few to estimate Use.Most.
const fewItems = 1000

// Use returns how full RAM is.
func (s *Scheduler) Use() Use {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := Use{Items: s.items, Most: s.opt.MaxItems, Resting: s.resting + len(s.flights), Hosts: len(s.lines),
		Bare: s.bare, Filled: s.filled}
	u.Peak = max(u.Resting, s.peak.now, s.peak.last)
	if s.items >= fewItems {
		used := s.bytes + min(s.tableBytes(), s.opt.MaxBytes/2)
		u.Most = min(u.Most, int(float64(s.items)*float64(s.opt.MaxBytes)/float64(used)))
	}
	return u
}

// bytesFull reports whether an item would exceed MaxBytes. Tables count for at most half, so entries of
// hosts in long delays cannot keep out all others. MaxHosts bounds the tables.
func (s *Scheduler) bytesFull(it *Item) bool {
	return s.bytes+it.bytes()+min(s.tableBytes(), s.opt.MaxBytes/2) > s.opt.MaxBytes
}

// Tables returns the numbers of entries of the host and server tables.
func (s *Scheduler) Tables() (hosts, servers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.hosts), len(s.servers)
}

// Each calls f for every item, queued or in flight, under the lock. f must be short, do no I/O and not call
// the scheduler.
func (s *Scheduler) Each(f func(*Item)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range [][]*Grant{s.flights, s.landed} {
		for _, g := range list {
			f(g.Item)
		}
	}
	for _, h := range s.lines {
		for _, l := range []*itemLine{&h.robots, &h.pages} {
			for it := l.Front(); it != nil; it = l.Next(it) {
				f(it)
			}
		}
	}
}

// Snapshot returns all items, queued and in flight. Their exported fields do not change, except Due on a
// later eviction, so a checkpoint may write them without the lock.
func (s *Scheduler) Snapshot() []*Item {
	queued, inFlight := s.Len()
	all := make([]*Item, 0, queued+inFlight) // allocate before taking the lock
	s.Each(func(it *Item) { all = append(all, it) })
	return all
}
