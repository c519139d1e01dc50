package polite

import (
	"time"

	"drumbeat/internal/list"
)

// Lines: of a host's items, of due hosts at a server or a PLD, and of servers at a network. Each item, host
// and server is in at most one.
type (
	itemLink   = list.Link[Item]
	hostLink   = list.Link[host]
	serverLink = list.Link[server]
	itemLine   = list.List[Item, *Item]
	hostLine   = list.List[host, *host]
	serverLine = list.List[server, *server]
)

// host is a FQDN with queued items, an item in flight, or a delay that has not passed. It is in exactly one
// of: the host heap (in its delay), the line of its PLD (pausing != nil), the line of a server (waiting !=
// nil), or in flight (busy).
type host struct {
	node
	hostLink
	key           uint64
	robots, pages itemLine
	lastFirst     *Item // the last First item of pages, all of which are at its front; nil: none
	lineIndex     int   // index in hosts.queued + 1; 0: no queued items
	busy          bool
	resting       bool          // counted in hosts.resting
	bare          bool          // counted in hosts.bare
	notBefore     int64         // no visit before, regardless of end and base
	visited       bool          // end, base and plain are valid
	end           int64         // end of the last exchange
	base          time.Duration // the delay that this exchange requires
	plain         time.Duration // the plain part of that delay
	cause         Binding       // the constraint that determined base
	steps         uint8         // steps of the adaptive delay: adapt.go
	answer        uint32        // mean answer time of the adaptive delay in µs; 0: unknown
	crawlDelay    time.Duration // from Result; 0: unknown
	usual         time.Duration // smoothed response time
	elapsed       time.Duration // last response time; 0: unknown
	turns         uint64        // number of grants, to rotate servers
	terms         *Terms        // of its latest item; nil: none
	kept          serverKey     // server of the connection that the last exchange left open, if hasKept
	hasKept       bool

	stopped bool    // waits for the end of its host's other connections' flights; in no heap and no line (crowd)
	urgent  bool    // was ready at a server before its PLD was: next time it goes to the front
	waiting *server // the server in whose line it is
	pausing *pld    // the PLD in whose line it is
}

func (h *host) len() int { return h.robots.Len() + h.pages.Len() }

func (h *host) front() *Item {
	if it := h.robots.Front(); it != nil {
		return it
	}
	return h.pages.Front()
}

// first reports whether the host's next item takes precedence over other hosts.
func (h *host) first() bool { it := h.front(); return it != nil && it.First }

// hosts are the hosts in RAM with their terms and delays. A host with several connections has an entry for each. They
// know neither lines nor heaps: the caller schedules a host whose delay they have changed.
type hosts struct {
	opt     *settings
	table   map[uint64]*host         // by Item.key
	own     map[uint64]time.Duration // delays of SetHostDelay, by host
	several bool                     // a host has had several connections
	crowded map[uint64]int           // by key: flights allowed for a host that had more connections (crowd)
	queued  []*host                  // hosts with queued items
	filled  int64                    // see Use.Filled
	resting int                      // hosts in the usual delay after a visit
	bare    int                      // hosts in that delay or in flight, without queued items
	adapted Adapted
}

func (ht *hosts) init(opt *settings) {
	*ht = hosts{opt: opt, table: map[uint64]*host{}, own: map[uint64]time.Duration{}, crowded: map[uint64]int{}}
}

// join adds a host to those with queued items.
func (ht *hosts) join(h *host) {
	ht.queued = append(ht.queued, h)
	ht.filled++
	h.lineIndex = len(ht.queued)
}

// quit undoes join.
func (ht *hosts) quit(h *host) {
	end := len(ht.queued) - 1
	last := ht.queued[end]
	ht.queued[h.lineIndex-1], last.lineIndex = last, h.lineIndex
	ht.queued[end] = nil
	ht.queued = ht.queued[:end]
	h.lineIndex = 0
}

// drop forgets a host without items.
func (ht *hosts) drop(h *host) {
	ht.setSteps(h, 0)
	delete(ht.table, h.key)
}

// rest updates whether resting counts the host.
func (ht *hosts) rest(h *host, resting bool) {
	if resting && !h.resting {
		ht.resting++
	} else if !resting && h.resting {
		ht.resting--
	}
	h.resting = resting
	ht.setBare(h)
}

// add adds a host to the table.
func (ht *hosts) add(key uint64, now int64) *host {
	h := &host{key: key, notBefore: now}
	h.node.host = h
	ht.table[key] = h
	return h
}

// each calls f for each connection of a host in the table.
func (ht *hosts) each(key uint64, f func(h *host)) {
	if h := ht.table[key]; h != nil {
		f(h)
	}
	for connection := uint8(1); ht.several && connection < MaxConnections; connection++ {
		if h := ht.table[connectionKey(key, connection)]; h != nil {
			f(h)
		}
	}
}

// beyond reports whether the table has connections of a host with numbers from n on.
func (ht *hosts) beyond(key uint64, n int) bool {
	for connection := n; connection < MaxConnections; connection++ {
		if ht.table[connectionKey(key, uint8(connection))] != nil {
			return true
		}
	}
	return false
}

// setBare updates whether bare counts the host.
func (ht *hosts) setBare(h *host) {
	bare := h.len() == 0 && (h.resting || h.busy)
	if bare && !h.bare {
		ht.bare++
	} else if !bare && h.bare {
		ht.bare--
	}
	h.bare = bare
}
