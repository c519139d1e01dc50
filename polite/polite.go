package polite

import (
	"math"
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

// Scheduler schedules the items in RAM. See the package comment for its contract, and for its parts.
type Scheduler struct {
	opt   settings
	base  time.Time // internal times are nanoseconds since base
	ready chan struct{}

	mu      sync.Mutex // guards all below; not held during I/O or callbacks, except Each's. See "Parts".
	hosts   hosts
	nets    networks
	heaps   heaps
	spreads spreads
	flights []*Grant
	landed  []*Grant // ended exchanges whose items are still in RAM
	items   int      // queued and in flight
	bytes   int64    // of these
	peak    peak
	gaps    Gaps
	told    int64 // until when the caller of Next was told to wait
}

// New returns an empty scheduler. It panics with BUG if the options are invalid; call Validate first.
func New(opt Options, now time.Time) *Scheduler {
	if err := opt.Validate(); err != nil {
		panic("BUG: " + err.Error())
	}
	opt.setDefaults()
	s := &Scheduler{opt: settings{Options: opt}, base: now, ready: make(chan struct{}, 1), gaps: Gaps{Forever, Forever}}
	if !opt.Visited.IsZero() {
		s.opt.visited, s.opt.hasVisited = s.at(opt.Visited), true
		s.opt.serversVisited = s.opt.visited
	}
	s.spreads = spreads{&s.opt, map[spreadKey]*spread{}}
	s.hosts.init(&s.opt)
	s.nets.init(&s.opt)
	s.heaps.init(&s.opt, &s.hosts, &s.nets)
	if s.opt.hasVisited && opt.Recent != nil && len(opt.Recent.hosts) <= opt.MaxHosts {
		s.opt.serversVisited = math.MinInt64 / 2
		if !opt.Recent.visited.IsZero() {
			s.opt.serversVisited = s.at(opt.Recent.visited)
		}
		s.opt.known, s.opt.Recent, s.opt.othersAt = true, nil, s.at(opt.OthersAt)
		s.Restore(now, opt.Recent.hosts)
		s.restoreRecent(now, opt.Recent)
	}
	return s
}

// at converts to internal time. The difference is monotonic if both times have monotonic readings.
func (s *Scheduler) at(t time.Time) int64 { return int64(t.Sub(s.base)) }

func (s *Scheduler) time(at int64) time.Time { return s.base.Add(time.Duration(at)) }

// Ready is signalled when a change may let Next grant earlier than its last wait said. It has one receiver.
func (s *Scheduler) Ready() <-chan struct{} { return s.ready }

// Room is signalled when an item refused as Full may fit. It has one receiver.
func (s *Scheduler) Room() <-chan struct{} { return s.heaps.room }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// tell signals Ready if the caller of Next was told to wait too long.
func (s *Scheduler) tell(at int64) {
	if at < s.told && s.heaps.earliest() < s.told {
		signal(s.ready)
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
	return int64(len(s.hosts.table))*hostBytes + int64(len(s.heaps.servers.table))*serverBytes +
		int64(len(s.heaps.plds.table))*pldBytes + int64(len(s.nets.table))*networkBytes +
		int64(len(s.spreads.lines))*spreadBytes
}

// Tables returns the numbers of entries of the host and server tables.
func (s *Scheduler) Tables() (hosts, servers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.hosts.table), len(s.heaps.servers.table)
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
	for _, h := range s.hosts.queued {
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
