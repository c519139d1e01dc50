package polite

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"sync"
	"time"
)

// Special values; the zero value of a delay in Options means no delay.
const (
	// Unlimited lifts a share.
	Unlimited = -1
	// Forever is the wait that Next returns when nothing is scheduled.
	Forever time.Duration = 1<<63 - 1
	// ItemOverhead is what an item counts in Bytes besides its Rec and addresses.
	ItemOverhead = 256
)

// What an entry of a table takes, its places in map, heap and lines included (TestBytesAreWhatTheHeapHolds).
const (
	hostBytes    = 336
	serverBytes  = 256
	pldBytes     = 208
	networkBytes = 320
	spreadBytes  = 288
)

// The bounds of Options.NetworkRate: one request in three hours, and what is no limit in practice.
const (
	minNetworkRate = 1e-4
	maxNetworkRate = 1e6
)

// maxAddrs is how many servers of an item are considered. Four spread the load; more would cost RAM per item.
const maxAddrs = 4

// Options configures a Scheduler. Delays are taken as they are, 0 = NoDelay; elsewhere 0 = the default named.
type Options struct {
	HostDelay      time.Duration // τh at DefaultBudget; from the end of the last exchange
	HostDelayMin   time.Duration // least τh however large the budget; at most HostDelay is used
	ServerDelay    time.Duration // τs at DefaultBudget; from the start of the last request
	ServerDelayMin time.Duration // least τs
	PLDDelay       time.Duration // between starts of requests to one PLD at DefaultBudget
	PLDDelayMin    time.Duration // least of that however large the budget; at most PLDDelay is used
	DefaultBudget  uint32        // B0, pages; default 10
	MaxCrawlDelay  time.Duration // cap of Crawl-delay and of ResponseFactor's delay; default 2 min
	ResponseFactor float64       // host delay >= factor × last response time; 0 = off
	// NetworkRate is how many requests a second may start in one network, an IPv4 /24 or an IPv6 /48: never more than that
	// (rounded up; up to 1024) in the time that so many take. 0 = no limit.
	NetworkRate float64
	// NetworkConnections is how many exchanges may be under way in one network; one server of it has no more of them than
	// are free, or one. 0 = no limit.
	NetworkConnections int

	MaxItems     int   // items in RAM, those in flight included; default 100,000
	MaxBytes     int64 // their bytes and those of the tables, of which items may have a half in any case; default 1 GiB
	MaxHosts     int   // entries of each, host, server, PLD and network table; default 10 × MaxItems, 1000 at least
	MaxPerHost   int   // items in RAM of one host; default 64; Unlimited
	MaxPerServer int   // items that name one server; default MaxItems/8; Unlimited
	MaxPerPLD    int   // items of one PLD; default MaxItems/8; Unlimited
	// MaxRobotsPerServer is the share of robots items, those in flight not counted, that name one server; they
	// have no part in MaxPerServer. Default 16; Unlimited.
	MaxRobotsPerServer int
	// MostRobotsPerServer bounds that share where it grows because the server's delay is short: each item holds one of
	// a bounded number of requests while it waits. 0: no bound.
	MostRobotsPerServer int
	Ahead               time.Duration // a share is never below what its owner can be sent in this time; default 4 s
	// IdleAhead takes the place of Ahead while fewer than IdleItems are in RAM, so that what is left at a crawl's
	// end comes from disk in few large lots. Default 0: none.
	IdleAhead time.Duration
	IdleItems int
	MaxDefer  time.Duration // longest deferral; default 59 days

	// Visited, if set, is when every host and server counts as visited last: the time of an unclean stop or,
	// since that is not known, of the start after it.
	Visited time.Time
	// StartAtGrant makes the grant the start of the request: Started need not be called, and jitter in
	// setting up connections may shorten the gaps that a server sees.
	StartAtGrant bool
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
	def(&o.MaxRobotsPerServer, 16)
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
	neg("MaxItems", float64(o.MaxItems))
	neg("MaxBytes", float64(o.MaxBytes))
	neg("MaxHosts", float64(o.MaxHosts))
	neg("Ahead", float64(o.Ahead))
	neg("IdleAhead", float64(o.IdleAhead))
	neg("IdleItems", float64(o.IdleItems))
	neg("MaxDefer", float64(o.MaxDefer))
	return errors.Join(errs...)
}

// Item is one URL in RAM. The caller fills the exported fields before Admit and leaves them alone after.
type Item struct {
	Rec        []byte        // opaque to this package; counted in Bytes
	Data       any           // opaque to this package; not counted
	Host       uint64        // key of the host (FQDN)
	PLD        uint64        // key of the PLD
	Addrs      []netip.Addr  // where the host is served; at least one; the first four distinct servers count
	Budget     uint32        // Bx that scales the delays, pages; 0 = not scaled
	CrawlDelay time.Duration // from robots.txt; 0 = none
	Robots     bool          // a request for robots.txt: goes to the front of its host's line
	Waits      uint8         // times that this item was deferred already
	Due        time.Time     // set by Admit when it defers, and by eviction: when to offer the item again

	itemLink
	host     *host
	pld      *pld
	servers  [maxAddrs]*server
	addrs    [maxAddrs]uint8 // index into Addrs for servers[i]
	nservers int
}

// bytes is what the item counts in Bytes.
func (it *Item) bytes() int64 { return int64(len(it.Rec)) + 24*int64(len(it.Addrs)) + ItemOverhead }

// Reason says why an item was deferred.
type Reason uint8

// The shares that an item may exceed.
const (
	None         Reason = iota
	HostShare           // the host has its share of items in RAM
	ServerShare         // all servers of the item have theirs
	PLDShare            // the PLD has its share
	RobotsShare         // all servers of the robots item, or its PLD, have their share of those
	NetworkShare        // the networks of all servers of the item have theirs
)

// String returns a word for logs and tables.
func (r Reason) String() string {
	return [...]string{"none", "host share", "server share", "pld share", "robots share", "network share"}[r]
}

// Kind is the kind of a Verdict.
type Kind uint8

// The verdicts of Admit.
const (
	Admitted Kind = iota // the scheduler owns the item now
	Deferred             // offer it again at Due
	Full                 // RAM or a table is full; offer it again after Room
)

// Verdict is the answer of Admit.
type Verdict struct {
	Kind Kind
	Due  time.Time // set if Deferred
	Why  Reason    // set if Deferred
}

// Scheduler is the state. See the package comment for its contract.
type Scheduler struct {
	opt   Options
	base  time.Time // times inside are nanoseconds since base
	ready chan struct{}
	room  chan struct{}

	mu          sync.Mutex // guards all below; no I/O, no callbacks except Each's under it
	hosts       map[uint64]*host
	servers     map[serverKey]*server
	plds        map[uint64]*pld
	spreads     map[spreadKey]*spread
	hostHeap    heap // hosts in their delay, idle ones included (to be dropped when it has passed)
	serverHeap  heap // servers with waiting hosts, unless held or waiting for their network
	idleServers heap // servers without items whose delay has not passed
	pldHeap     heap // PLDs with waiting hosts, unless held
	idlePLDs    heap // PLDs without items whose delay has not passed
	nets        map[serverKey]*network
	netHeap     heap    // networks with waiting servers, if it is known when they may be visited
	idleNets    heap    // networks without servers that have not forgotten the last visits
	lines       []*host // hosts with queued items
	flights     []*Grant
	items       int // queued and in flight
	resting     int // hosts in the usual delay after a visit
	bare        int // hosts that rest or are visited, without queued items
	peak        peak
	bytes       int64
	seq         uint64
	visited     int64 // Options.Visited as an inner time; only if hasVisited
	hasVisited  bool

	gatePLDs, gateNets  bool  // there are limits for them
	netBurst            int   // most starts of a network in a window; 0 = no limit
	netWindow, netApart int64 // ns
}

// New makes an empty scheduler. It panics with BUG if the options are not valid: callers Validate first.
func New(opt Options, now time.Time) *Scheduler {
	if err := opt.Validate(); err != nil {
		panic("BUG: " + err.Error())
	}
	opt.setDefaults()
	s := &Scheduler{
		opt: opt, base: now,
		ready: make(chan struct{}, 1), room: make(chan struct{}, 1),
		hosts: map[uint64]*host{}, servers: map[serverKey]*server{}, plds: map[uint64]*pld{},
		spreads: map[spreadKey]*spread{}, nets: map[serverKey]*network{},
	}
	s.setGates()
	if !opt.Visited.IsZero() {
		s.visited, s.hasVisited = s.at(opt.Visited), true
	}
	return s
}

// at converts to the inner time; the difference is monotonic if both have a monotonic reading.
func (s *Scheduler) at(t time.Time) int64 { return int64(t.Sub(s.base)) }

func (s *Scheduler) time(at int64) time.Time { return s.base.Add(time.Duration(at)) }

// Ready is signalled when something changed that may let Next grant sooner than its last wait said. One
// waiter.
func (s *Scheduler) Ready() <-chan struct{} { return s.ready }

// Room is signalled when an item that was refused as Full may fit now. One waiter.
func (s *Scheduler) Room() <-chan struct{} { return s.room }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Len returns the items queued and in flight.
func (s *Scheduler) Len() (queued, inFlight int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items - len(s.flights), len(s.flights)
}

// Bytes returns what the items count against MaxBytes, those in flight included; TableBytes what the tables do.
func (s *Scheduler) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// TableBytes returns what the tables count against MaxBytes.
func (s *Scheduler) TableBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tableBytes()
}

func (s *Scheduler) tableBytes() int64 {
	return int64(len(s.hosts))*hostBytes + int64(len(s.servers))*serverBytes + int64(len(s.plds))*pldBytes +
		int64(len(s.nets))*networkBytes + int64(len(s.spreads))*spreadBytes
}

// Use tells how full RAM is, and with how many hosts.
type Use struct {
	Items int // queued and in flight
	// Most is how many items would fit, hosts having as many each as those that are there; MaxItems while there are few.
	Most int
	// Resting is how many hosts are in the delay after a visit or are visited now: by Little's law the rate of visits times the mean
	// of the delays in force. Hosts that rest for longer than HostDelay and MaxCrawlDelay don't count.
	Resting int
	// Peak is the most that rested within the last peakDelays HostDelays or twice that. Where URLs of other hosts come too late, fewer
	// hosts rest, and that must not pass for what the delays admit.
	Peak int
	// Hosts are those with items queued, Bare those that rest or are visited now, without items queued.
	Hosts, Bare int
}

// peakDelays is for how many HostDelays Peak looks back at least: longer than URLs take that found no room to come back from disk.
const peakDelays = 4

// peak is the highest number in the current and the last window.
type peak struct {
	now, last int
	since     int64 // when the current window began
}

func (p *peak) note(n int, at, window int64) {
	if at-p.since >= window {
		p.last, p.now, p.since = p.now, 0, at
	}
	p.now = max(p.now, n)
}

// fewItems are too few to say how many would fit.
const fewItems = 1000

// Use returns how full RAM is.
func (s *Scheduler) Use() Use {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := Use{Items: s.items, Most: s.opt.MaxItems, Resting: s.resting + len(s.flights), Hosts: len(s.lines), Bare: s.bare}
	u.Peak = max(u.Resting, s.peak.now, s.peak.last)
	if s.items >= fewItems {
		u.Most = min(u.Most, int(float64(s.items)*float64(s.opt.MaxBytes)/float64(s.bytes+min(s.tableBytes(), s.opt.MaxBytes/2))))
	}
	return u
}

// bytesFull tells whether an item would exceed MaxBytes. The tables may have no more than half: what they hold of hosts that rest for
// long must not keep all others out. MaxHosts bounds them.
func (s *Scheduler) bytesFull(it *Item) bool {
	return s.bytes+it.bytes()+min(s.tableBytes(), s.opt.MaxBytes/2) > s.opt.MaxBytes
}

// Tables returns the entries of the host and the server table.
func (s *Scheduler) Tables() (hosts, servers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.hosts), len(s.servers)
}

// Each calls f for every item, queued or in flight, under the lock: f must be short, do no I/O and not call
// back.
func (s *Scheduler) Each(f func(*Item)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.flights {
		f(g.Item)
	}
	for _, h := range s.lines {
		for _, l := range []*itemLine{&h.robots, &h.pages} {
			for it := l.Front(); it != nil; it = l.Next(it) {
				f(it)
			}
		}
	}
}

// Snapshot returns all items, queued and in flight. Their exported fields do not change (but Due of one
// evicted later); so a checkpoint may write them without the lock.
func (s *Scheduler) Snapshot() []*Item {
	queued, inFlight := s.Len()
	all := make([]*Item, 0, queued+inFlight) // room made without the lock
	s.Each(func(it *Item) { all = append(all, it) })
	return all
}
