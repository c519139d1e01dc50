package polite

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// foreign are connections of others.
type foreign struct {
	n     int
	until int64
	who   int // the who of Others plus one; 0: noted by Hold
}

// at returns the network of an address, or nil.
func (ns *networks) at(addr netip.Addr) *network { return ns.table[serverOf(addr).network()] }

// hold allows visits of a network, where others may have connections open. The caller calls place.
func (ns *networks) hold(k serverKey, opens []Open, now int64) *network {
	n := ns.entry(k, now)
	if !n.held {
		ns.unheld -= n.items
	}
	n.held, n.wanted, n.stuck = true, false, false
	n.next = max(n.next, now+max(int64(ns.opt.ServerDelay), ns.window))
	n.foreign = nil
	for _, o := range opens {
		if o.N > 0 && o.Left > 0 {
			n.foreign = append(n.foreign, foreign{n: o.N, until: now + int64(o.Left)})
		}
	}
	return n
}

// release forbids visits of a network. The caller calls place.
func (ns *networks) release(n *network, now int64) {
	if n.held {
		ns.unheld += n.items
	}
	n.held = false
	if n.items > 0 {
		ns.want(n, now)
	}
}

// want notes that a network is wanted.
func (ns *networks) want(n *network, now int64) {
	if n.held || n.wanted {
		return
	}
	n.wanted, n.wantedAt = true, now
	ns.wants = append(ns.wants, n.key)
	signal(ns.wanted)
}

// overLease reports whether a network's next item must wait on disk: another crawler holds the network, and
// the items that wait for such networks fill their share of RAM. The rest of RAM is for held networks.
func (ns *networks) overLease(n *network, now int64) bool {
	return ns.opt.Leased && n != nil && n.wanted && now-n.wantedAt >= int64(uncontendedDelay) && ns.unheld >= ns.opt.MaxUnheld
}

// uncontendedDelay is the time to acquire a free network.
const uncontendedDelay = time.Second

// note replaces the connections of another crawler in the network.
func (n *network) note(who, open int, until, now int64) {
	n.foreign = slices.DeleteFunc(n.foreign, func(f foreign) bool { return f.who == who+1 })
	if open > 0 && until > now {
		n.foreign = append(n.foreign, foreign{open, until, who + 1})
	}
}

// others returns the number of connections of others that may be open in the network.
func (n *network) others(now int64) (sum int) {
	n.foreign = slices.DeleteFunc(n.foreign, func(f foreign) bool { return f.until <= now })
	for _, f := range n.foreign {
		sum += f.n
	}
	return sum
}

// maxOpens bounds the Holding.Open of HandOver. Beyond it, connections count for longer than they can be
// open.
const maxOpens = 16

// opens returns the connections of all crawlers in the network. Exchanges in progress end within longest.
func (n *network) opens(longest time.Duration, now int64) (opens []Open) {
	if n.flights > 0 {
		opens = append(opens, Open{n.flights, longest})
	}
	if idle := n.open(now); idle > 0 {
		last := slices.MaxFunc(n.idle, func(a, b idleConn) int { return cmp.Compare(a.until, b.until) })
		opens = append(opens, Open{idle, time.Duration(last.until - now)})
	}
	n.others(now)
	for _, f := range n.foreign {
		if len(opens) == maxOpens {
			last := &opens[maxOpens-1]
			last.N, last.Left = last.N+f.n, max(last.Left, time.Duration(f.until-now))
			continue
		}
		opens = append(opens, Open{f.n, time.Duration(f.until - now)})
	}
	return opens
}
