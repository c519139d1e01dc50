package polite

import "time"

// heaps say when the next visits are due: hosts, servers and PLDs by time, and the lines in which hosts that are due
// wait for each other.
type heaps struct {
	opt     *settings
	hosts   *hosts
	nets    *networks
	delayed heap // hosts in their delay, including idle ones, which are dropped afterwards
	servers servers
	plds    plds
	room    chan struct{}
}

func (hs *heaps) init(opt *settings, hosts *hosts, nets *networks) {
	hs.opt, hs.hosts, hs.nets, hs.room = opt, hosts, nets, make(chan struct{}, 1)
	hs.servers = servers{opt: opt, nets: nets, room: hs.room, table: map[serverKey]*server{}}
	hs.plds = plds{opt: opt, gated: opt.PLDDelay > 0 || opt.UseTerms, table: map[uint64]*pld{}}
}

// schedule adds a host that is not busy to the host heap at its due time.
func (hs *heaps) schedule(h *host) {
	hs.unschedule(h)
	if h.stopped {
		return
	}
	h.when = hs.opt.dueAt(h)
	hs.delayed.push(&h.node)
	rest := time.Duration(h.when - h.end)
	hs.hosts.rest(h, h.visited && rest > 0 && rest <= max(hs.opt.HostDelay, hs.opt.answerDelayMax()))
}

// unschedule removes a host from the host heap, if it is there.
func (hs *heaps) unschedule(h *host) {
	if h.in != nil {
		h.in.remove(&h.node)
	}
	hs.hosts.rest(h, false)
}

// moveDue moves up to n hosts whose delay has passed to the line of a server or of their PLD, and drops idle
// entries; more says that some are left.
func (hs *heaps) moveDue(now int64, n int) (more bool) {
	for ; ; n-- {
		t := hs.delayed.top()
		if t == nil || t.when > now {
			break
		}
		if n <= 0 {
			return true
		}
		h := t.host
		hs.unschedule(h)
		if h.len() == 0 {
			if keep := h.end + adaptedKept*int64(hs.opt.HostDelay); h.steps > 0 && keep > now {
				h.when = keep
				hs.delayed.push(&h.node)
				continue
			}
			hs.hosts.drop(h)
			signal(hs.room)
			continue
		}
		hs.arrive(h, now)
	}
	hs.dropIdle(now)
	return false
}

// dropIdle drops servers, PLDs and networks that have no items and whose delay has passed.
func (hs *heaps) dropIdle(now int64) {
	for t := hs.servers.idle.top(); t != nil && t.when <= now; t = hs.servers.idle.top() {
		hs.servers.place(t.server, now)
	}
	for t := hs.plds.idle.top(); t != nil && t.when <= now; t = hs.plds.idle.top() {
		hs.plds.place(t.pld, now)
		signal(hs.room)
	}
	for t := hs.nets.idle.top(); t != nil && t.when <= now; t = hs.nets.idle.top() {
		hs.nets.place(t.net, now)
		signal(hs.room)
	}
}

// earliest returns the time at which something is due first; Forever if nothing is scheduled.
func (hs *heaps) earliest() int64 {
	return min(hs.delayed.when(), hs.servers.due.when(), hs.servers.first.when(), hs.servers.idle.when(),
		hs.plds.due.when(), hs.plds.idle.when(), hs.nets.due.when(), hs.nets.idle.when())
}

// wait returns the time until something is due; Forever if nothing is scheduled.
func (hs *heaps) wait(now int64) time.Duration {
	at := hs.earliest()
	if at == int64(Forever) {
		return Forever
	}
	return max(time.Duration(at-now), 0)
}

// arrive moves a host whose delay has passed to its PLD's line or, if the PLD is ready, to a server's line.
func (hs *heaps) arrive(h *host, now int64) {
	if !hs.plds.gated {
		hs.joinLine(h, now)
		return
	}
	p := h.front().pld
	if p.held || p.line.Len() > 0 || max(p.next, p.entry) > now {
		h.pausing = p
		if h.first() {
			p.line.PushFront(h)
		} else {
			p.line.PushBack(h)
		}
		hs.plds.place(p, now)
		return
	}
	if hs.joinLine(h, now) {
		p.entry = now + hs.opt.pldDelay(p)
	}
}

// movePLDs moves up to n hosts of ready PLDs to the lines of servers; more says that some are left. A host
// whose server can be visited at once makes the others wait, for the PLD's delay or until its request
// starts. A host that has to wait in the server's line lets the next one pass, so a server in back-off does
// not stop its PLD's other hosts. pick enforces the PLD's delay.
func (hs *heaps) movePLDs(now int64, n int) (more bool) {
	for ; ; n-- {
		t := hs.plds.due.top()
		if t == nil || t.when > now {
			return false
		}
		if n <= 0 {
			return true
		}
		p := t.pld
		h := p.line.Front()
		p.line.Remove(h)
		h.pausing = nil
		if hs.joinLine(h, now) {
			p.entry = now + hs.opt.pldDelay(p)
		}
		hs.plds.place(p, now)
	}
}

// joinLine adds a due host to the line of the server of its front item that will be ready first. atOnce says
// that it is ready now.
func (hs *heaps) joinLine(h *host, now int64) (atOnce bool) {
	it := h.front()
	first := int(h.turns % maxAddrs)
	for i, v := range it.servers[:it.nservers] {
		if v.key == h.kept && h.hasKept {
			first = i
		}
	}
	var best *server
	var bestTurn int64
	for i := range it.nservers {
		v := it.servers[(i+first)%it.nservers]
		turn := max(v.when, now) + int64(v.line.Len())*hs.opt.serverDelay(v)
		if v.held {
			turn += hs.opt.serverDelay(v)
		}
		if n := v.net; n != nil {
			turn = max(turn, n.next+int64(n.line.Len())*hs.nets.apart)
			if hs.opt.Leased && !n.held {
				turn += int64(leaseWait)
			}
		}
		if best == nil || turn < bestTurn {
			best, bestTurn = v, turn
		}
	}
	urgent := h.urgent || it.First
	atOnce = !best.held && best.when <= now && (best.line.Len() == 0 || urgent)
	if n := best.net; n != nil && atOnce {
		atOnce = n.line.Len() == 0 && hs.nets.mayVisit(n, best, now)
	}
	h.waiting = best
	if urgent {
		best.line.PushFront(h)
	} else {
		best.line.PushBack(h)
	}
	hs.servers.place(best, now)
	return atOnce
}

// turn serves a ready server with a First item, or else the server or network that became ready first. It returns the
// host to be granted at the server, if there is one; turned is false if nothing is ready.
func (hs *heaps) turn(now int64) (h *host, v *server, turned bool) {
	f, s, n := hs.servers.first.top(), hs.servers.due.top(), hs.nets.due.top()
	switch {
	case f != nil && f.when <= now:
		v = hs.serverTurn(f.server, now)
	case n != nil && n.when <= now && (s == nil || n.when <= s.when):
		v = hs.networkTurn(n.net, now)
	case s != nil && s.when <= now:
		v = hs.serverTurn(s.server, now)
	default:
		return nil, nil, false
	}
	if v != nil {
		h = hs.pick(v, now)
	}
	return h, v, true
}

// serverTurn returns a server that is ready, or nil if it had to be added to its network's line.
func (hs *heaps) serverTurn(v *server, now int64) *server {
	if n := v.net; n != nil && (n.line.Len() > 0 || !hs.nets.mayVisit(n, v, now)) {
		v.in.remove(&v.node)
		n.push(v)
		n.stuck = false
		hs.nets.place(n, now)
		return nil
	}
	return v
}

// networkTurn takes the first server that has not used up its fair part of the connections from the line of a ready
// network. It returns nil if there is none.
func (hs *heaps) networkTurn(n *network, now int64) *server {
	// The connection that it waited for has ended; its delay, its rate or other connections may make it wait longer.
	if at, known := hs.nets.time(n, now); !known || at > now {
		hs.nets.place(n, now)
		return nil
	}
	v := n.line.Front()
	for i := 0; v != nil && i < maxLook && !hs.nets.fair(n, v); i++ {
		v = n.line.Next(v)
	}
	if v == nil || !hs.nets.fair(n, v) {
		n.stuck = true
		hs.nets.place(n, now)
		return nil
	}
	n.remove(v)
	hs.nets.place(n, now)
	return v
}

// maxLook bounds how many hosts or servers at the front of a line are examined.
const maxLook = 16

// pick removes the first host whose PLD is ready from the server's line and returns it. If there is none among the
// first maxLook, these return to the front of their PLDs' lines, and later to the front of the server's line; pick then
// returns nil.
func (hs *heaps) pick(v *server, now int64) *host {
	var looked [maxLook]*host
	n := 0
	for h := v.line.Front(); h != nil && n < maxLook; {
		it, next := h.front(), v.line.Next(h)
		if !it.names(v) { // a robots item is now in front
			hs.leave(h, now)
			hs.joinLine(h, now)
			h = next
			continue
		}
		if hs.plds.ready(it.pld, now) {
			v.line.Remove(h)
			h.waiting, h.urgent = nil, false
			return h
		}
		looked[n] = h
		n++
		h = next
	}
	for i := n - 1; i >= 0; i-- {
		h := looked[i]
		p := h.front().pld
		v.line.Remove(h)
		h.waiting, h.pausing, h.urgent = nil, p, true
		p.line.PushFront(h)
		hs.plds.place(p, now)
	}
	hs.servers.place(v, now)
	return nil
}

// leave removes a host from its line, if it is in one.
func (hs *heaps) leave(h *host, now int64) {
	if v := h.waiting; v != nil {
		v.line.Remove(h)
		h.waiting = nil
		hs.servers.place(v, now)
	}
	if p := h.pausing; p != nil {
		p.line.Remove(h)
		h.pausing = nil
		hs.plds.place(p, now)
	}
}

// restHost blocks visits of the host until the given time.
func (hs *heaps) restHost(h *host, now, until int64) {
	h.notBefore = max(h.notBefore, until)
	hs.leave(h, now)
	if !h.busy {
		hs.schedule(h)
	}
}

// restoreHost is restHost by key. It ignores hosts that do not fit into the table.
func (hs *heaps) restoreHost(key uint64, now, until int64) {
	h := hs.hosts.table[key]
	if h == nil {
		if len(hs.hosts.table) >= hs.opt.MaxHosts {
			return
		}
		h = hs.hosts.add(key, now)
	}
	hs.restHost(h, now, until)
}
