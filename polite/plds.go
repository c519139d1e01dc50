package polite

// pld is the state of a PLD in RAM. It is in the PLD heap, by the time at which its next host may go to a
// server's line, if hosts wait in its line and it is not held; in the idle heap if it has no items but its
// delay has not passed; and otherwise in no heap.
type pld struct {
	node
	key    uint64
	budget uint32 // Bx of its latest item; 0: unknown
	items  int    // queued and in flight
	robots int    // queued robots items
	hosts  int    // hosts with queued items
	held   bool   // granted, but the request has not started
	next   int64  // no request starts before
	entry  int64  // no further host moves to a server that can be visited at once before
	line   hostLine
	terms  *Terms // of its latest item; nil: none
}

// plds are the PLDs in RAM, by the time of their next visit.
type plds struct {
	opt   *settings
	gated bool // they have limits
	table map[uint64]*pld
	due   heap // PLDs with waiting hosts, unless held
	idle  heap // PLDs without items in their delay
}

// ready reports whether a request to the PLD may start now.
func (ps *plds) ready(p *pld, now int64) bool { return !ps.gated || !p.held && p.next <= now }

// granted counts a grant.
func (ps *plds) granted(p *pld, now int64) {
	if ps.gated {
		p.held = true
		ps.place(p, now)
	}
}

// began counts the start of a grant's request, or that there will be none.
func (ps *plds) began(p *pld, now int64, started bool) {
	if !ps.gated {
		return
	}
	p.held, p.entry = false, now
	if started {
		p.next = max(p.next, now+ps.opt.pldDelay(p))
	}
	ps.place(p, now)
}

func (ps *plds) add(key uint64, now int64) *pld {
	p := &pld{key: key, next: ps.opt.firstPLDVisit(key, now)}
	p.node.pld = p
	ps.table[key] = p
	return p
}

// place moves the PLD to the heap that matches its state, or drops it. Call it after each change of held, next, entry,
// the line or items.
func (ps *plds) place(p *pld, now int64) {
	switch {
	case p.held:
		hang(&p.node, nil, 0)
	case p.line.Len() > 0:
		hang(&p.node, &ps.due, max(p.next, p.entry))
	case p.items > 0:
		hang(&p.node, nil, 0)
	case p.next > now:
		hang(&p.node, &ps.idle, p.next)
	default:
		hang(&p.node, nil, 0)
		delete(ps.table, p.key)
	}
}
