package polite

// link counts the item at its servers and its PLD.
func (hs *heaps) link(it *Item, now int64) {
	it.nservers = 0
	for i, a := range it.Addrs {
		if it.nservers == maxAddrs || i > 255 {
			break
		}
		k := serverOf(a)
		v := hs.servers.table[k]
		if v == nil {
			v = hs.servers.add(k, now)
		}
		if it.names(v) {
			continue
		}
		it.servers[it.nservers], it.addrs[it.nservers] = v, uint8(i)
		it.nservers++
		v.items++
		v.budgets += hs.opt.budgetOf(it)
		if v.net != nil {
			hs.nets.add(v.net, now)
		}
		hs.servers.place(v, now)
	}
	p := hs.plds.table[it.PLD]
	if p == nil {
		p = hs.plds.add(it.PLD, now)
	}
	it.pld = p
	p.terms = it.Terms
	p.items++
	if it.Budget > 0 {
		p.budget = it.Budget
	}
	hs.plds.place(p, now)
}

// unlink undoes link.
func (hs *heaps) unlink(it *Item, now int64) {
	for i, v := range it.servers[:it.nservers] {
		v.items--
		v.budgets -= hs.opt.budgetOf(it)
		if v.net != nil {
			hs.nets.sub(v.net)
		}
		hs.servers.place(v, now)
		it.servers[i] = nil
	}
	it.nservers = 0
	it.pld.items--
	hs.plds.place(it.pld, now)
	it.pld = nil
	signal(hs.room)
}

// enqueue adds a linked item to its host's line.
func (hs *heaps) enqueue(h *host, it *Item, now int64) {
	it.host = h
	switch {
	case it.Robots:
		h.robots.PushBack(it)
		it.countRobots(1)
	case it.First:
		h.pages.InsertAfter(it, h.lastFirst)
		h.lastFirst = it
	default:
		h.pages.PushBack(it)
	}
	if h.len() > 1 {
		if it.First && h.front() == it && (h.waiting != nil || h.pausing != nil) { // it is due: go before other hosts
			hs.leave(h, now)
			hs.arrive(h, now)
		}
		return
	}
	hs.hosts.join(h)
	it.pld.hosts++
	if !h.busy {
		hs.schedule(h)
		hs.crowd(it.Host, now)
	}
	hs.hosts.setBare(h)
}

// dequeue removes the item from its host's line, and an empty host from the lists of hosts with items.
func (hs *heaps) dequeue(it *Item, now int64) {
	h := it.host
	if it.Robots {
		h.robots.Remove(it)
		it.countRobots(-1)
	} else {
		if h.lastFirst == it {
			if h.lastFirst = h.pages.Prev(it); h.lastFirst != nil && !h.lastFirst.First {
				panic("BUG: polite: a First item is behind another")
			}
		}
		h.pages.Remove(it)
	}
	it.host = nil
	if h.len() > 0 {
		return
	}
	hs.hosts.quit(h)
	it.pld.hosts--
	if h.waiting != nil || h.pausing != nil {
		hs.leave(h, now)
		hs.schedule(h)
	}
	h.urgent = false
	hs.hosts.setBare(h)
}

// granted counts a grant at its server, PLD and network.
func (hs *heaps) granted(p *pld, v *server, now int64) {
	hs.servers.granted(v, now)
	hs.plds.granted(p, now)
	if v.net != nil {
		hs.nets.granted(v.net, now)
	}
}

// began counts the start of a grant's request there, or that there will be none.
func (hs *heaps) began(p *pld, v *server, now int64, started bool) {
	hs.servers.began(v, now, started)
	hs.plds.began(p, now, started)
	if v.net != nil {
		hs.nets.began(v.net, now, started)
	}
}
