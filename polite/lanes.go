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
	lineIndex     int   // index in lanes.queued + 1; 0: no queued items
	busy          bool
	resting       bool          // counted in lanes.resting
	bare          bool          // counted in lanes.bare
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

	stopped bool    // a lane that must wait for the end of other lanes' flights; in no heap and no line (crowd)
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

// lanes are the hosts in RAM with their terms and delays. A host of several lanes has an entry for each. They know
// neither lines nor heaps: their owner tells them when a host enters one.
type lanes struct {
	opt     *settings
	hosts   map[uint64]*host         // by Item.key
	own     map[uint64]time.Duration // delays of SetHostDelay, by host
	several bool                     // items of a lane other than 0 have been admitted
	crowded map[uint64]int           // hosts that had more lanes: how many may be in flight at once (crowd)
	queued  []*host                  // hosts with queued items
	filled  int64                    // see Use.Filled
	resting int                      // hosts in the usual delay after a visit
	bare    int                      // hosts in that delay or in flight, without queued items
	adapted Adapted
}

func (ls *lanes) init(opt *settings) {
	*ls = lanes{opt: opt, hosts: map[uint64]*host{}, own: map[uint64]time.Duration{}, crowded: map[uint64]int{}}
}

// join adds a host to those with queued items.
func (ls *lanes) join(h *host) {
	ls.queued = append(ls.queued, h)
	ls.filled++
	h.lineIndex = len(ls.queued)
}

// quit undoes join.
func (ls *lanes) quit(h *host) {
	end := len(ls.queued) - 1
	last := ls.queued[end]
	ls.queued[h.lineIndex-1], last.lineIndex = last, h.lineIndex
	ls.queued[end] = nil
	ls.queued = ls.queued[:end]
	h.lineIndex = 0
}

// drop forgets a host without items.
func (ls *lanes) drop(h *host) {
	ls.setSteps(h, 0)
	delete(ls.hosts, h.key)
}

// rest updates whether resting counts the host.
func (ls *lanes) rest(h *host, resting bool) {
	if resting && !h.resting {
		ls.resting++
	} else if !resting && h.resting {
		ls.resting--
	}
	h.resting = resting
	ls.setBare(h)
}

func (ls *lanes) add(key uint64, now int64) *host {
	h := &host{key: key, notBefore: now}
	h.node.host = h
	ls.hosts[key] = h
	return h
}

// each calls f for each lane of a host in the table.
func (ls *lanes) each(key uint64, f func(h *host)) {
	if h := ls.hosts[key]; h != nil {
		f(h)
	}
	for lane := uint8(1); ls.several && lane < MaxLanes; lane++ {
		if h := ls.hosts[laneKey(key, lane)]; h != nil {
			f(h)
		}
	}
}

// beyond reports whether the table has lanes of a host with numbers from n on.
func (ls *lanes) beyond(key uint64, n int) bool {
	for lane := n; lane < MaxLanes; lane++ {
		if ls.hosts[laneKey(key, uint8(lane))] != nil {
			return true
		}
	}
	return false
}

// setBare updates whether bare counts the host.
func (ls *lanes) setBare(h *host) {
	bare := h.len() == 0 && (h.resting || h.busy)
	if bare && !h.bare {
		ls.bare++
	} else if !bare && h.bare {
		ls.bare--
	}
	h.bare = bare
}
