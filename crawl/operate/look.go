package operate

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/figures"
	"drumbeat/polite"
	"drumbeat/star"
	"drumbeat/weburl"
)

// Structures returns the state of the structures on disk. It locks each for microseconds.
func (k *Control) Structures() (s *figures.Structures, err error) {
	err = k.With(func(c *Running) error { s = c.Figures.Structures(); return nil })
	return s, err
}

// TopPLDs returns the PLDs with the largest values of an order, at most n, by descending value. It reads a
// ranking of bounded size in RAM: see star.Top.
func (k *Control) TopPLDs(order star.Order, n int) (top []star.Ranked, err error) {
	err = k.With(func(c *Running) error { top = c.Top(order, n); return nil })
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
	err = k.With(func(c *Running) error {
		hosts := map[uint64]*HostInfo{}
		for _, it := range c.Heaps.Snapshot() {
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
	err = k.With(func(c *Running) error {
		if p, ok := c.Heaps.PaceOf(c.Saved.HostKey([]byte(host))); ok {
			pace = &HostPace{p, polite.AllSteps}
		}
		return nil
	})
	return pace, err
}

// describe adds the health of a host.
func (c *Running) describe(h *HostInfo) {
	if s := c.Hosts.StateOf(h.Key, time.Now()); !s.Clean() {
		h.State, h.Until, h.At = s.String(), s.Until, s.At
	}
}

// HostsInTrouble returns the hosts that fail or refuse, the last event first, at most n. It holds the scheduler's lock
// as HostsInRAM does.
func (k *Control) HostsInTrouble(n int) (list []HostInfo, err error) {
	err = k.With(func(c *Running) error {
		inRAM := map[uint64]int{}
		for _, it := range c.Heaps.Snapshot() {
			inRAM[it.Host]++
		}
		all, now := c.Hosts.Freeze(), time.Now()
		for _, e := range slices.Backward(all) {
			if len(list) == min(n, maxHostsListed) {
				break
			}
			if !e.State.Trouble(now) {
				continue
			}
			list = append(list, HostInfo{Key: e.Key, InRAM: inRAM[e.Key], State: e.State.String(),
				Until: e.State.Until, At: e.State.At})
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
	err = k.With(func(c *Running) error {
		l.Rate, l.Bandwidth, l.Connections = c.Limits.InForce()
		l.ConnectionsNow, l.Slots = c.Limits.Allowed(time.Now()), c.Connections
		return nil
	})
	return l, err
}

// CrawlID returns the identity of the crawl.
func (k *Control) CrawlID() (id string, err error) {
	if r := k.resting(); r != nil {
		return r.ID, nil
	}
	err = k.look(func(c *Running) error { id = c.Saved.CrawlID; return nil })
	return id, err
}

// Blocked tells what keeps the whole crawl from fetching; "" for nothing.
type Blocked struct{ Space, Outage string }

// Blocked returns what keeps the whole crawl from fetching.
func (k *Control) Blocked() (b Blocked, err error) {
	err = k.With(func(c *Running) error {
		b = Blocked{c.Space.Why(), c.Outages.Text()}
		return nil
	})
	return b, err
}

// URLSeenFills returns how full URLseen's buckets are, joined to at most n groups.
func (k *Control) URLSeenFills(n int) (fills []float64, err error) {
	err = k.With(func(c *Running) error { fills = c.SeenFills(n); return nil })
	return fills, err
}

// ErrOneNode is returned by Control.Cluster for a crawl of one node.
var ErrOneNode = errors.New("crawl: this crawl has one node only")

// Cluster returns the number of this node, and the last status of each node; nil for a node that has not
// reported.
func (k *Control) Cluster() (node int, list []*cluster.Status, err error) {
	err = k.With(func(c *Running) error {
		if !c.Node.On() {
			return ErrOneNode
		}
		node, list = c.NodeNumber, c.Node.Statuses()
		return nil
	})
	return node, list, err
}
