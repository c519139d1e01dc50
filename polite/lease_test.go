package polite_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"drumbeat/polite"
)

// leasedCrawlers are several schedulers that share networks, as nodes of a cluster do, seen by the servers.
type leasedCrawlers struct {
	t      *testing.T
	rng    *rand.Rand
	opt    polite.Options
	nodes  []*polite.Scheduler
	left   []int // items that are not fetched
	events []leaseEvent
	now    time.Time
	holder map[netip.Addr]int // by network; absent: nobody

	starts  map[netip.Addr][]time.Time // by network
	last    map[netip.Addr]time.Time   // by server
	resting map[netip.Addr]time.Time   // by server
	open    map[netip.Addr]int         // by network
}

// leaseEvent is something that happens at a time.
type leaseEvent struct {
	at time.Time
	do func()
}

const longestExchange = 3 * time.Second

func (c *leasedCrawlers) after(d time.Duration, do func()) {
	c.events = append(c.events, leaseEvent{c.now.Add(d), do})
}

// step runs what happens next. It returns false if nothing does.
func (c *leasedCrawlers) step() bool {
	first := -1
	for i, e := range c.events {
		if first < 0 || e.at.Before(c.events[first].at) {
			first = i
		}
	}
	if first < 0 {
		return false
	}
	e := c.events[first]
	c.events = append(c.events[:first], c.events[first+1:]...)
	c.now = e.at
	e.do()
	return true
}

// dispatch takes a node's grants, and comes again.
func (c *leasedCrawlers) dispatch(node int) {
	s := c.nodes[node]
	g, wait := s.Next(c.now)
	if g != nil {
		if until := c.resting[g.Addr]; c.now.Before(until) {
			c.t.Errorf("%v rests for %v", g.Addr, until.Sub(c.now))
		}
		c.after(time.Duration(c.rng.IntN(300))*time.Millisecond, func() { c.start(node, g) })
		wait = 0
	}
	c.after(min(wait, 50*time.Millisecond)+time.Microsecond, func() {
		if c.left[node] > 0 {
			c.dispatch(node)
		}
	})
}

// start is the start of a request.
func (c *leasedCrawlers) start(node int, g *polite.Grant) {
	s := c.nodes[node]
	if c.rng.IntN(20) == 0 { // nothing was sent
		s.Drop(c.now, g)
		c.admit(node, g.Item)
		return
	}
	s.Started(c.now, g)
	net := polite.Network(g.Addr)
	if h, ok := c.holder[net]; ok && h != node {
		c.t.Errorf("node %d visits %v, which node %d holds", node, net, h)
	}
	if last, ok := c.last[g.Addr]; ok && c.now.Sub(last) < c.opt.ServerDelay {
		c.t.Errorf("%v: %v after the last request", g.Addr, c.now.Sub(last))
	}
	c.last[g.Addr] = c.now
	c.starts[net] = append(c.starts[net], c.now)
	if n, burst := len(c.starts[net]), int(c.opt.NetworkRate); n > burst &&
		c.now.Sub(c.starts[net][n-1-burst]) < time.Second {
		c.t.Errorf("%v: %d requests in %v", net, burst+1, c.now.Sub(c.starts[net][n-1-burst]))
	}
	if c.open[net]++; c.open[net] > c.opt.NetworkConnections {
		c.t.Errorf("%v: %d exchanges", net, c.open[net])
	}
	c.after(time.Duration(c.rng.Int64N(int64(longestExchange))), func() {
		r := polite.Result{}
		if c.rng.IntN(10) == 0 {
			r.ServerBackoff = time.Duration(c.rng.IntN(60)) * time.Second
			// What an exchange that outlives the lease has found, the next holder does not know.
			if c.holder[net] == node {
				c.resting[g.Addr] = c.now.Add(r.ServerBackoff)
			}
		}
		c.open[net]--
		c.left[node]--
		s.Done(c.now, g, r)
	})
}

func (c *leasedCrawlers) admit(node int, it *polite.Item) {
	s := c.nodes[node]
	if v := s.Admit(c.now, it); v.Kind != polite.Admitted {
		c.t.Fatalf("%+v", v)
	}
	c.lease(node)
}

// lease is what a node does for its leases.
func (c *leasedCrawlers) lease(node int) {
	for _, net := range c.nodes[node].TakeWanted() {
		c.want(node, net)
	}
}

// want asks for a network until it is held.
func (c *leasedCrawlers) want(node int, net netip.Addr) {
	s := c.nodes[node]
	if !s.StillWanted(c.now, net) {
		return
	}
	if _, taken := c.holder[net]; !taken {
		c.hold(node, net, polite.Holding{})
		return
	}
	c.after(time.Duration(c.rng.IntN(3000))*time.Millisecond, func() { c.want(node, net) })
}

// hold gives a network to a node, for a time.
func (c *leasedCrawlers) hold(node int, net netip.Addr, h polite.Holding) {
	s := c.nodes[node]
	c.holder[net] = node
	s.Hold(c.now, net, h)
	c.after(time.Duration(1+c.rng.IntN(8))*time.Second, func() {
		s.Release(c.now, net)
		c.lease(node)
		c.giveBack(node, net)
	})
}

// giveBack ends a lease as soon as no request is about to begin.
func (c *leasedCrawlers) giveBack(node int, net netip.Addr) {
	l := c.nodes[node].Lease(c.now, net)
	if l.Held {
		c.t.Fatal("a network is held after Release")
	}
	if l.Pending > 0 {
		c.after(10*time.Millisecond, func() { c.giveBack(node, net) })
		return
	}
	// As in a cluster, what the next holder must know goes along with the lease.
	delete(c.holder, net)
	next := c.rng.IntN(len(c.nodes))
	c.hold(next, net, c.nodes[node].HandOver(c.now, net, longestExchange, 100))
}

// TestLeases: crawlers that share networks by leases keep all limits of servers and networks together, and visit all.
func TestLeases(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 1))
	for range 10 {
		c := &leasedCrawlers{t: t, rng: rng, now: t0, holder: map[netip.Addr]int{},
			starts: map[netip.Addr][]time.Time{}, last: map[netip.Addr]time.Time{}, resting: map[netip.Addr]time.Time{},
			open: map[netip.Addr]int{}}
		c.opt = polite.Options{HostDelay: ms(2000), ServerDelay: ms(1000), ServerDelayMin: ms(1000), NetworkRate: 4,
			NetworkConnections: 3 + rng.IntN(4), Leased: true, MaxPerServer: polite.Unlimited}
		const hosts = 12
		for range 3 {
			c.nodes = append(c.nodes, polite.New(c.opt, t0))
		}
		c.left = make([]int, len(c.nodes))
		for node := range c.nodes {
			for i := range hosts * 6 {
				host := node*hosts + i%hosts
				addrs := []netip.Addr{v4(256*(host%3) + host%4)}
				if host%5 == 0 {
					addrs = append(addrs, v4(256*((host+1)%3)+host%4))
				}
				c.left[node]++
				c.admit(node, item(host, host, addrs...))
			}
			c.dispatch(node)
		}
		for n := 0; c.left[0]+c.left[1]+c.left[2] > 0; n++ {
			if !c.step() || c.now.Sub(t0) > 24*time.Hour {
				t.Fatalf("%v items are left after %v", c.left, c.now.Sub(t0))
			}
		}
		if t.Failed() {
			return
		}
	}
}

// TestConnectionsOfOthersEnd: a network whose connections are all in use by others is visited when enough of
// them have ended, and not before its delay has passed.
func TestConnectionsOfOthersEnd(t *testing.T) {
	for _, test := range []struct {
		open []polite.Open
		want time.Duration
	}{
		{[]polite.Open{{N: 2, Left: ms(500)}}, ms(1000)},                          // the delay is longer
		{[]polite.Open{{N: 2, Left: ms(1500)}}, ms(1500)},                         // the connections
		{[]polite.Open{{N: 2, Left: ms(1200)}, {N: 2, Left: ms(1700)}}, ms(1700)}, // one end is not enough
	} {
		s := polite.New(polite.Options{HostDelay: ms(1000), ServerDelay: ms(1000), ServerDelayMin: ms(1000),
			NetworkConnections: 2, Leased: true}, t0)
		admit(t, s, t0, item(1, 1, v4(1)))
		admit(t, s, t0, item(2, 2, v4(2)))
		s.Hold(t0, v4(1), polite.Holding{Open: test.open})
		now := t0
		for range 100 {
			g, wait := s.Next(now)
			if g != nil {
				break
			}
			now = now.Add(wait)
		}
		if got := now.Sub(t0); got != test.want {
			t.Errorf("%v: visited after %v, want %v", test.open, got, test.want)
		}
	}
}

// TestIdleConnectionEnds: an idle connection that its network waits for ends while the network's rate allows no visit.
func TestIdleConnectionEnds(t *testing.T) {
	s := polite.New(polite.Options{HostDelay: time.Minute, NetworkConnections: 2, NetworkRate: 0.5}, t0)
	for _, it := range []*polite.Item{item(1, 1, v4(1)), item(1, 1, v4(1)), item(2, 2, v4(2)), item(3, 3, v4(3))} {
		admit(t, s, t0, it)
	}
	now, last := t0, t0.Add(-time.Hour)
	for visits := 0; visits < 3; {
		g, wait := s.Next(now)
		if g == nil {
			now = now.Add(wait)
			continue
		}
		s.Started(now, g)
		if now.Sub(last) < 2*time.Second {
			t.Errorf("visit %d: %v after the last", visits, now.Sub(last))
		}
		if last = now; g.Item.Host == 1 { // the other exchanges do not end
			s.Done(now, g, polite.Result{Kept: 2200 * time.Millisecond})
		}
		visits++
	}
}

// TestLeaseShare: items that wait for networks of others fill half of RAM at most, from a second after they
// were wanted; the other half is for networks that are held, and for new ones.
func TestLeaseShare(t *testing.T) {
	const most = 100
	s := polite.New(polite.Options{Leased: true, MaxItems: most, MaxPerServer: polite.Unlimited,
		MaxPerPLD: polite.Unlimited}, t0)
	network := func(i int) netip.Addr { return v4(256 * i) }
	admitted := func(now time.Time, network int, n int) (k int) {
		for i := range n {
			if v := s.Admit(now,
				item(1000*network+i, 1000*network+i, v4(256*network+i%100))); v.Kind == polite.Admitted {
				k++
			} else if v.Kind == polite.Deferred && (v.Why != polite.LeaseShare || v.Due.Sub(now) < 10*time.Second) {
				t.Errorf("%v, due in %v", v.Why, v.Due.Sub(now))
			}
		}
		return k
	}
	now := t0
	if k := admitted(now, 0, 30); k != 30 {
		t.Errorf("at once: %d of 30", k)
	}
	now = now.Add(time.Second)
	if k := admitted(now, 0, 30); k != 20 {
		t.Errorf("after a second: %d, want 20", k)
	}
	if k := admitted(now, 1, 5); k != 5 {
		t.Errorf("in a network that is new: %d of 5", k)
	}
	s.Hold(now, network(1), polite.Holding{})
	if k := admitted(now, 1, 20); k != 20 {
		t.Errorf("in a network that is held: %d of 20", k)
	}
	s.Hold(now, network(0), polite.Holding{})
	if k := admitted(now, 0, 20); k != 20 {
		t.Errorf("in the first network, once it is held: %d of 20", k)
	}
	s.Release(now, network(0))
	now = now.Add(time.Second)
	if k := admitted(now, 0, 1); k != 0 {
		t.Error("in the first network, after its release")
	}
	if k := admitted(now, 1, 10); k != 5 { // RAM is full
		t.Errorf("in the other network: %d, want 5", k)
	}
}

// TestNotHeld: nothing is granted in a network that is not held, entries go away when nobody wants them, and waiting
// pages can be evicted.
func TestNotHeld(t *testing.T) {
	opt := polite.Options{ServerDelay: ms(1000), Leased: true}
	s := polite.New(opt, t0)
	a := v4(1)
	admit(t, s, t0, item(1, 1, a))
	if g, _ := s.Next(t0); g != nil {
		t.Fatal("granted in a network that is not held")
	}
	if b := s.Binding(t0); b.By != polite.BindsLease || b.Held != 1 {
		t.Errorf("binds: %+v", b)
	}
	if w := s.TakeWanted(); len(w) != 1 || w[0] != polite.Network(a) || len(s.TakeWanted()) > 0 {
		t.Fatalf("wanted: %v", w)
	}
	now := t0.Add(time.Minute)
	if out, left := s.EvictUnheld(now, 2*time.Minute); len(out) > 0 || left != 1 {
		t.Errorf("%d pages evicted early, %d left", len(out), left)
	}
	now = t0.Add(2 * time.Minute)
	if !s.StillWanted(now, a) {
		t.Error("no longer wanted, with an item")
	}
	if out, left := s.EvictUnheld(now, 2*time.Minute); len(out) != 1 || left != 0 || !out[0].Due.After(now) {
		t.Errorf("evicted: %v, %d left", out, left)
	}
	if s.StillWanted(now, a) {
		t.Error("still wanted, without items")
	}
	s.Next(now)
	if _, nets := s.Gates(); nets != 0 {
		t.Errorf("%d networks are left", nets)
	}
	admit(t, s, now, item(1, 1, a))
	if w := s.TakeWanted(); len(w) != 1 {
		t.Fatalf("wanted again: %v", w)
	}
	s.Hold(now, a, polite.Holding{})
	if g, wait := s.Next(now); g != nil || wait != time.Second {
		t.Errorf("after Hold: %v, wait %v, want a second", g, wait)
	}
	now = now.Add(time.Second)
	g, _ := s.Next(now)
	if g == nil {
		t.Fatal("not granted in a network that is held")
	}
	s.Release(now, a)
	if l := s.Lease(now, a); l != (polite.Lease{Items: 1, Pending: 1, Flights: 1}) {
		t.Errorf("%+v", l)
	}
	s.Started(now, g)
	if l := s.Lease(now, a); l != (polite.Lease{Items: 1, Flights: 1}) {
		t.Errorf("%+v", l)
	}
	s.Done(now, g, polite.Result{ServerBackoff: time.Hour})
	if h := s.HandOver(now, a, time.Minute, 10); len(h.Open) > 0 || len(h.Rests) != 1 ||
		h.Rests[0] != (polite.Rest{Server: a, Left: time.Hour}) {
		t.Errorf("%+v", h)
	}
}
