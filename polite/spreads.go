package polite

// spreads are the deferral lines of all owners. Past Options.MaxHosts lines, some are dropped at random.
type spreads struct {
	opt   *settings
	lines map[spreadKey]*spread
}

// A spread gives each deferred item of an owner its own time, one spacing apart. It has a cursor for each
// number of past deferrals. Items that return as a batch must not queue at the far end, and the slot that
// kept their batch was as long as the time to the next one.
type spread struct {
	cursor [8]backlog
}

// backlog is a virtual queue: n items have a slot, and one is served each spacing. It stores a number rather
// than a time, so that one slow response does not make a host appear slow for as long as the queue would
// then have taken.
type backlog struct {
	n       float64
	at      int64 // time of n
	spacing int64
}

// waiting returns n at a later time.
func (l *backlog) waiting(now, spacing int64) float64 {
	if l.spacing == 0 {
		return 0
	}
	return max(0, l.n-float64(now-l.at)/float64(spacing))
}

type spreadKey struct {
	kind Reason
	key  serverKey // of a server; for a host or a PLD lo is its key
}

// deferTo returns the time of the next slot of the owner's spread, starting at from.
func (ss *spreads) deferTo(k spreadKey, now, from, spacing int64, it *Item) int64 {
	return ss.later(from, ss.nextSlot(k, now, spacing, it)*float64(spacing), now)
}

// later returns the time after from, at most MaxDefer from now.
func (ss *spreads) later(from int64, after float64, now int64) int64 {
	return int64(min(float64(from)+after, float64(now+int64(ss.opt.MaxDefer))))
}

// nextSlot takes the next slot of the owner's spread and returns its number.
func (ss *spreads) nextSlot(k spreadKey, now, spacing int64, it *Item) float64 {
	sp := ss.lines[k]
	if sp == nil {
		ss.sweep(now)
		sp = &spread{}
		ss.lines[k] = sp
	}
	c := &sp.cursor[min(int(it.Waits), len(sp.cursor)-1)]
	n := c.waiting(now, spacing) + 1
	*c = backlog{n, now, spacing}
	return n
}

// sweep examines three random lines. It drops those that are over, and any if there are too many.
func (ss *spreads) sweep(now int64) {
	looked := 0
	for k, sp := range ss.lines {
		over := true
		for _, c := range sp.cursor {
			over = over && c.waiting(now, c.spacing) == 0
		}
		if over || len(ss.lines) >= ss.opt.MaxHosts {
			delete(ss.lines, k)
		}
		if looked++; looked == 3 {
			return
		}
	}
}
