package polite

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Bounds of Options.NetworkRate: one request in three hours, and effectively no limit.
const (
	minNetworkRate = 1e-4
	maxNetworkRate = 1e6
)

// Options configure a Scheduler. A delay of 0 means no delay. For other fields, 0 means the default named.
type Options struct {
	HostDelay      time.Duration // τh at DefaultBudget, from the end of the last exchange
	HostDelayMin   time.Duration // lower bound of τh for large budgets, capped at HostDelay
	ServerDelay    time.Duration // τs at DefaultBudget, from the start of the last request
	ServerDelayMin time.Duration // lower bound of τs
	PLDDelay       time.Duration // at DefaultBudget, between starts of requests to one PLD
	PLDDelayMin    time.Duration // lower bound of that for large budgets, capped at PLDDelay
	DefaultBudget  uint32        // B0 in pages; default 10
	MaxCrawlDelay  time.Duration // cap of Crawl-delay; default 2 min
	ResponseFactor float64       // host delay >= factor × last response time, up to maxAnswerDelay; 0: off
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
	// CrowdedItems is the number of items from which quick hosts keep only those of the next seconds in RAM. Default 0:
	// none.
	CrowdedItems int
	MaxDefer     time.Duration // upper bound of a deferral; default 59 days

	// Visited, if set, is when all hosts and servers count as last visited: the time of an unclean stop or,
	// if unknown, the start after it.
	Visited time.Time
	// Recent, with Visited, is what was in its delay then, by InDelay of the Scheduler before: other hosts, servers,
	// networks and PLDs do not count as visited, except the PLDs for which Others, if set, returns true, and their
	// hosts: these count as visited at OthersAt. nil, or with more than MaxHosts: all count as visited at Visited.
	// Others is a function of the key alone.
	Recent   *Recent
	Others   func(pld uint64) bool
	OthersAt time.Time
	// UseTerms says that items may have Terms with a PLDDelay.
	UseTerms bool
	// PLDShare, if set, returns the share of a PLD's hosts that this Scheduler visits, above 0 and at most 1: others
	// visit the rest. Its delay of the PLD is so much longer that all together keep the pace of one.
	PLDShare func(pld uint64) float64
	// StartAtGrant makes the grant the start of the request. Started need not be called, but jitter in
	// connecting may shorten the gaps that a server sees.
	StartAtGrant bool
	// Leased says that a network may be visited only while it is held: see Hold.
	Leased bool
	// MaxUnheld bounds the items of networks that are not held and were wanted a second ago; default MaxItems/2.
	MaxUnheld int
}

// maxAnswerDelay limits the delay of ResponseFactor. A host is not asked to wait for us as a Crawl-delay asks us to
// wait: a single slow answer must not cost an hour.
const maxAnswerDelay = 5 * time.Minute

// answerDelayMax returns the longest delay of ResponseFactor.
func (o *Options) answerDelayMax() time.Duration { return min(o.MaxCrawlDelay, maxAnswerDelay) }

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

// settings are the options, which do not change, for all parts of a Scheduler.
type settings struct {
	Options
	visited int64 // Options.Visited in internal time, if hasVisited
	// Of servers and networks: visited, or with Recent that of the first Scheduler that knew nothing of the one before.
	serversVisited int64
	hasVisited     bool
	known          bool // Recent is restored
	othersAt       int64
	coming         func(pld uint64) bool // by SlotsCome; nil: none
	comingAt       int64
}

// countsVisited returns when a host counts as visited that no exchange of this Scheduler has visited; false: never.
func (o *settings) countsVisited(pld uint64) (at int64, is bool) {
	if o.coming != nil && o.coming(pld) {
		return o.comingAt, true
	}
	if o.known {
		return o.othersAt, o.Options.Others != nil && o.Options.Others(pld)
	}
	return o.visited, o.hasVisited
}

// firstPLDVisit returns the earliest time of the first visit of a PLD.
func (o *settings) firstPLDVisit(pld uint64, now int64) int64 {
	if at, is := o.countsVisited(pld); is {
		return max(now, at+int64(o.PLDDelay))
	}
	return now
}

// firstVisit returns the earliest time of the first visit of an entity whose visits are delay apart.
func (o *settings) firstVisit(now, delay int64) int64 {
	if o.hasVisited {
		return max(now, o.serversVisited+delay)
	}
	return now
}
