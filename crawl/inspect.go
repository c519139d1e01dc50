package crawl

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"drumbeat/beast"
	"drumbeat/crawl/plan"
	"drumbeat/drum"
	"drumbeat/polite"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// DrumInfo describes a drum of the running crawl.
type DrumInfo struct {
	Name    string
	Stats   drum.Stats
	Buckets int
	Running bool // a pass is in progress
	// TupleIO is the number of bytes read and written for a tuple in this run, PredictedIO what the model of
	// package drum says for the same passes; 0 before the first.
	TupleIO, PredictedIO float64
}

// QueueInfo describes a queue on disk.
type QueueInfo struct {
	Name           string
	Records, Bytes int64 // uncompressed
	DiskBytes      int64 // size of its files, compressed
}

// Structures describes the structures on disk.
type Structures struct {
	Drums  []DrumInfo
	Queues []QueueInfo
	Beast  beast.Stats
	Lanes  []beast.Stats     // of each lane; Beast has their sums
	Spread []beast.QueueInfo // the numbered queues, by lane and number

	Priority string   // name of the strategy in force
	Weights  []uint32 // of each lane
}

// Structures returns the state of the structures on disk. It locks each for microseconds.
func (k *Control) Structures() (s *Structures, err error) {
	err = k.with(func(c *crawler) error { s = c.inspect(); return nil })
	return s, err
}

func (c *crawler) inspect() *Structures {
	edges, indegree := c.budgets.star.Stats()
	p := &c.plan
	inForce := c.strategy.Load()
	s := &Structures{Beast: c.budgets.beast.Stats(), Lanes: c.budgets.beast.LaneStats(),
		Spread: c.budgets.beast.Queues(), Priority: inForce.Name, Weights: inForce.Weights}
	for _, d := range []struct {
		name  string
		stats drum.Stats
		plan  plan.DrumPlan
	}{
		{state.NameURLSeen, c.seen.urlSeen.Stats(), p.URLSeen}, {partEdges, edges, p.Edges},
		{partIndegree, indegree, p.Indegree}, {state.NameRobotsCache, c.check.RobotsCache.Stats(), p.RobotsCache},
		{state.NameRobotsRequested, c.requests.RobotsRequested.Stats(), p.RobotsRequested},
		{state.NameNames, c.seen.names.Stats(), p.Names}, {state.NameContent, c.content.Drum.Stats(), p.Content},
	} {
		info := DrumInfo{Name: d.name, Stats: d.stats, Buckets: d.plan.Buckets, Running: d.stats.SealedBuckets > 0}
		if n := float64(d.stats.Merged); n > 0 {
			info.TupleIO, info.PredictedIO = float64(d.stats.IOBytes()-d.stats.IntakeBytes-d.stats.SealedBytes)/n,
				d.stats.PredictedIO/n
		}
		// Its model knows the texts.
		if check := c.seen.seenMeter.last.Load(); check != nil && d.name == state.NameURLSeen {
			info.TupleIO, info.PredictedIO = check.Bytes, check.Predicted
		}
		s.Drums = append(s.Drums, info)
	}
	for _, q := range []struct {
		name string
		q    interface {
			Len() (int64, int64)
			DiskBytes() int64
		}
	}{
		{state.NameAwaitRobots, c.requests.AwaitRobots}, {state.NameRobotsFetch, c.requests.RobotsFetch},
		{"robotsdeferred", c.requests.RobotsDeferred}, {state.NameReady, c.dispatcher.Ready},
		{"deferred", c.deferrals.deferred}, {state.NameHeld, c.deferrals.held},
		{state.NameRender, c.render.Queue}, {state.NameOrdered, c.operator.Ordered},
		{state.NameObjects, c.uploads.Objects}, {state.NameWalkLog, c.walk.Log},
	} {
		records, bytes := q.q.Len()
		s.Queues = append(s.Queues, QueueInfo{q.name, records, bytes, q.q.DiskBytes()})
	}
	if c.node.On() {
		q := *c.node.Quarantine()
		records, bytes := q.Len()
		s.Queues = append(s.Queues, QueueInfo{state.NameQuarantine, records, bytes, q.DiskBytes()})
	}
	return s
}

// TopPLDs returns the PLDs with the largest values of an order, at most n, by descending value. It reads a
// ranking of bounded size in RAM: see star.Top.
func (k *Control) TopPLDs(order star.Order, n int) (top []star.Ranked, err error) {
	err = k.with(func(c *crawler) error { top = c.budgets.star.Top(order, n); return nil })
	return top, err
}

// HostInfo describes a host with URLs in RAM or in trouble.
type HostInfo struct {
	Key   uint64
	Host  string // "" if only its key is known
	InRAM int    // URLs in the heaps or being fetched
	State string // "ok", or how it failed or refused
	Until time.Time
	At    time.Time // of its last failure or refusal
}

// maxHostsListed limits Hosts.
const maxHostsListed = 10_000

// HostsInRAM returns the hosts with the most URLs in RAM, at most n, of those with the address at, or of all
// if it is invalid. It holds the scheduler's lock for some tens of nanoseconds a URL.
func (k *Control) HostsInRAM(n int, at netip.Addr) (list []HostInfo, err error) {
	err = k.with(func(c *crawler) error {
		hosts := map[uint64]*HostInfo{}
		for _, it := range c.polite.Snapshot() {
			if at.IsValid() && !slices.Contains(it.Addrs, at) {
				continue
			}
			h := hosts[it.Host]
			if h == nil {
				h = &HostInfo{Key: it.Host, State: "ok"}
				hosts[it.Host] = h
				var rec weburl.Record
				if !it.Robots && rec.Decode(it.Rec) == nil {
					h.Host = string(weburl.Split(rec.URL).Host)
				}
			}
			h.InRAM++
		}
		for _, h := range hosts {
			list = append(list, *h)
		}
		slices.SortFunc(list, func(a, b HostInfo) int {
			return cmp.Or(cmp.Compare(b.InRAM, a.InRAM), cmp.Compare(a.Host, b.Host))
		})
		list = list[:min(len(list), n, maxHostsListed)]
		for i := range list {
			c.describe(&list[i])
		}
		return nil
	})
	return list, err
}

// HostPace is the adapted delay of a host.
type HostPace struct {
	polite.Pace
	AllSteps int
}

// HostPace returns the delay of a host in force; nil without adaptive delays, and for a host that was not
// visited lately.
func (k *Control) HostPace(host string) (pace *HostPace, err error) {
	err = k.with(func(c *crawler) error {
		if p, ok := c.polite.PaceOf(c.HostKey([]byte(host))); ok {
			pace = &HostPace{p, polite.AllSteps}
		}
		return nil
	})
	return pace, err
}

// describe adds the health of a host.
func (c *crawler) describe(h *HostInfo) {
	if s := c.health.StateOf(h.Key, time.Now()); !s.Clean() {
		h.State, h.Until, h.At = s.String(), s.Until, s.At
	}
}

// HostsInTrouble returns the hosts that fail or refuse, the last event first, at most n.
func (k *Control) HostsInTrouble(n int) (list []HostInfo, err error) {
	err = k.with(func(c *crawler) error {
		all, now := c.health.Freeze(), time.Now()
		for _, e := range slices.Backward(all) {
			if len(list) == min(n, maxHostsListed) {
				break
			}
			if !e.State.Trouble(now) {
				continue
			}
			list = append(list, HostInfo{Key: e.Key, State: e.State.String(), Until: e.State.Until, At: e.State.At})
		}
		return nil
	})
	return list, err
}

// Limits describes the limits in force.
type Limits struct {
	Rate, Bandwidth, Connections string // schedules; "none" for no limit
	ConnectionsNow, Slots        int
}

// Limits returns the limits in force.
func (k *Control) Limits() (l Limits, err error) {
	err = k.with(func(c *crawler) error {
		l.Rate, l.Bandwidth, l.Connections = c.limits.InForce()
		l.ConnectionsNow, l.Slots = c.limits.Allowed(time.Now()), c.opt.Network.Connections
		return nil
	})
	return l, err
}

// CrawlID returns the identity of the crawl.
func (k *Control) CrawlID() (id string, err error) {
	err = k.with(func(c *crawler) error { id = c.CrawlID; return nil })
	return id, err
}

// Blocked tells what keeps the whole crawl from fetching; "" for nothing.
type Blocked struct{ Space, Outage string }

// Blocked returns what keeps the whole crawl from fetching.
func (k *Control) Blocked() (b Blocked, err error) {
	err = k.with(func(c *crawler) error {
		b = Blocked{c.space.Why(), c.outages.Text()}
		return nil
	})
	return b, err
}

// URLSeenFills returns how full URLseen's buckets are, joined to at most n groups.
func (k *Control) URLSeenFills(n int) (fills []float64, err error) {
	err = k.with(func(c *crawler) error { fills = c.seen.urlSeen.Fills(n); return nil })
	return fills, err
}
