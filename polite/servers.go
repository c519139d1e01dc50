package polite

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// serverKey is an IPv4 address (mapped) or an IPv6 /64.
type serverKey struct{ hi, lo uint64 }

func serverOf(a netip.Addr) serverKey {
	b := a.As16()
	k := serverKey{binary.BigEndian.Uint64(b[:8]), 0}
	if a.Is4() || a.Is4In6() {
		k.lo = binary.BigEndian.Uint64(b[8:])
	}
	return k
}

// addr returns the first address of the server.
func (k serverKey) addr() netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], k.hi)
	binary.BigEndian.PutUint64(b[8:], k.lo)
	return netip.AddrFrom16(b).Unmap()
}

// network clears the bits of a server's key after its network's prefix.
func (k serverKey) network() serverKey {
	if k.hi == 0 && k.lo>>32 == 0xffff {
		return serverKey{0, k.lo &^ 0xff}
	}
	return serverKey{k.hi &^ 0xffff, 0}
}

// Network returns the first address of the network of a.
func Network(a netip.Addr) netip.Addr { return serverOf(a).network().addr() }

// server is an IP address with items or a delay that has not passed. node.when is the earliest time of its
// next visit. It is in the heap due (or first) if hosts wait and it is not held, or in its network's line if it
// became ready before the network; in the idle heap if it has no items; and otherwise in no heap.
type server struct {
	node
	serverLink
	key     serverKey
	held    bool  // granted, but the request has not started
	visited bool  // last is valid
	last    int64 // start of the last request
	rest    int64 // end of its last back-off
	line    hostLine
	robots  int   // queued robots items at it
	items   int   // items at it, including those in flight
	flights int   // grants that have not ended
	budgets int64 // sum of the items' budgets

	net    *network // nil if networks have no limits
	inLine bool     // in the network's line
}

// setWhen moves the next visit of a server that is in no heap to at least at.
func (v *server) setWhen(at int64) {
	if v.in != nil {
		panic("BUG: polite: server is in a heap")
	}
	v.when = max(v.when, at)
}

// setRest notes a back-off of the server.
func (v *server) setRest(until int64) {
	v.rest = max(v.rest, until)
	if v.net != nil {
		v.net.restUntil = max(v.net.restUntil, until)
	}
}

// servers are the servers in RAM, by the time of their next visit.
type servers struct {
	opt   *settings
	nets  *networks
	room  chan struct{}
	table map[serverKey]*server
	due   heap // servers with waiting hosts, unless held or waiting for their network
	first heap // of these servers, those whose first waiting host has a First item in front
	idle  heap // servers without items in their delay
}

func (vs *servers) add(k serverKey, now int64) *server {
	v := &server{key: k, net: vs.nets.of(k, now)}
	v.node.server, v.when = v, vs.opt.firstVisit(now, int64(vs.opt.ServerDelay))
	vs.table[k] = v
	return v
}

// place moves the server to the heap that matches its state, or drops it. Call it after each change of held,
// waiting or items, and after setWhen.
func (vs *servers) place(v *server, now int64) {
	var want *heap
	switch {
	case v.held:
	case v.line.Len() > 0 && v.inLine && v.when <= now:
		if v.line.Front().first() {
			v.net.remove(v)
			v.net.push(v) // to the front
		}
		return // it waits for its network
	case v.line.Len() > 0 && v.line.Front().first():
		want = &vs.first
	case v.line.Len() > 0:
		want = &vs.due
	case v.items > 0:
	case v.when > now:
		want = &vs.idle
	}
	if v.inLine {
		v.net.remove(v)
		vs.nets.place(v.net, now)
	}
	if v.in != want {
		if v.in != nil {
			v.in.remove(&v.node)
		}
		if want != nil {
			want.push(&v.node)
		}
	}
	if want == nil && !v.held && v.items == 0 {
		vs.drop(v, now)
	}
}

// drop removes a server that is in no heap.
func (vs *servers) drop(v *server, now int64) {
	delete(vs.table, v.key)
	if v.net != nil {
		vs.nets.left(v.net, now)
	}
	signal(vs.room)
}

// granted counts a grant.
func (vs *servers) granted(v *server, now int64) {
	v.held = true
	v.flights++
	vs.place(v, now)
}

// began counts the start of a grant's request, or that there will be none.
func (vs *servers) began(v *server, now int64, started bool) {
	if started {
		v.visited, v.last = true, now
		v.setWhen(now + vs.opt.serverDelay(v))
	}
	v.held = false
	vs.place(v, now)
}

// rest blocks visits of the server until the given time, which is a back-off if it exceeds the plain delay.
func (vs *servers) rest(v *server, now, until int64) {
	if v.in != nil {
		v.in.remove(&v.node)
	}
	v.setWhen(until)
	if until-now > vs.opt.serverDelay(v) {
		v.setRest(until)
	}
	vs.place(v, now)
}

// restore applies a back-off of an earlier run or of another crawler. It ignores servers that do not fit into the
// table.
func (vs *servers) restore(k serverKey, now, until int64) {
	if v := vs.delay(k, now, until); v != nil {
		v.setRest(until)
	}
}

// delay delays the next visit of a server, and returns the server; nil if it does not fit into the table.
func (vs *servers) delay(k serverKey, now, until int64) *server {
	v := vs.table[k]
	if v == nil {
		if len(vs.table) >= vs.opt.MaxHosts+maxAddrs-1 {
			return nil
		}
		v = vs.add(k, now)
	}
	vs.rest(v, now, until)
	return v
}

// rests returns the back-offs of a network's servers.
func (vs *servers) rests(key serverKey, at int64, most int) (rests []Rest) {
	for k, v := range vs.table {
		if v.rest <= at || k.network() != key {
			continue
		}
		r := Rest{k.addr(), time.Duration(v.rest - at)}
		if len(rests) < most {
			rests = append(rests, r)
			continue
		}
		for i := range rests { // keep the longest
			if rests[i].Left < r.Left {
				rests[i], r = r, rests[i]
			}
		}
	}
	return rests
}
