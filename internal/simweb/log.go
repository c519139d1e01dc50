package simweb

import (
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// Bounds of the entries for names and URLs that are not in the web's tables (spam hosts, wrong URLs).
const (
	maxOtherHosts = 1 << 20
	maxOtherURLs  = 1 << 20
)

// none is the gap before the second request.
const none = time.Duration(1<<63 - 1)

// Log records requests at the server, by its own clock. A request starts when its whole header has been
// read. It ends before the last byte of the response is written, so a client that waits d between a
// response and the next request has a gap of at least d from End to Start. A client that leaves a hostile host in
// the middle of a response ends the request unseen; a busy server learns of it late. Then the request ends when the
// connection was last known to be open (connLog.alive), at most aliveEvery before, so the gap is never too small.
// Memory is bounded: counters for each host and address, one byte for each URL of the graph, and the last
// LogRequests requests.
type Log struct {
	w *Web

	mu        sync.Mutex // guards the fields below; never held while waiting
	epoch     time.Time  // of the first event
	conns     uint64
	open      int
	ring      []event
	next      uint64 // requests so far; ring[next % cap] is the oldest
	keep      int
	hosts     []track // hosts of the web's tables
	others    map[string]*track
	servers   map[netip.Addr]*track
	fetches   []uint8        // by node number, saturating; allocated on first use
	twice     uint64         // fetches of a URL of the graph beyond its first
	lookups   map[string]int // queries by name, with in-process ones
	queries   int
	spam      map[string]int
	hostile   map[string]HostileCount
	wrong     map[string]int
	fallbacks map[string]int
	astray    int // requests at an address that isn't one of the host's
	dropped   int // entries beyond the bounds above
	statuses  map[int]int
}

// track holds the counters of one host or server.
type track struct {
	requests, robots         int
	lastStart, lastEnd       time.Duration
	lastPage                 time.Duration // start of the last request that was not for robots rules
	minStart, minEnd         time.Duration // least time between starts; from end to next start
	minPage                  time.Duration // least time between starts, both not for robots rules
	early                    int           // requests for pages before the first one for robots rules
	busy, maxBusy            int
	conns, maxConns          int
	crowded                  time.Duration // start of the time with conns > 1
	flights                  []flight      // the requests under way
	hasPage, hasAny, answers bool
}

// flight is a request under way.
type flight struct {
	start time.Duration
	next  time.Duration // start of the first request after it; 0: none yet
}

// event is a request in the ring.
type event struct {
	node         node
	known        bool
	robots       bool
	https        bool
	status       int16
	conn         uint64
	start, end   time.Duration
	ip           netip.Addr
	host, target string // if the URL is unknown
}

// Request is one request in the log.
type Request struct {
	URL    string        // canonical if the URL is in the graph, else as requested
	Host   string        // without port
	IP     netip.Addr    // address of the server
	Status int           // of the response
	Start  time.Duration // since the log's first event, when the request had been read
	End    time.Duration // just before the last byte of the response; 0 before that
	Conn   uint64        // number of the connection, from 1
	Robots bool          // a request for robots rules
	Known  bool          // the URL is in the graph
}

func newLog(w *Web, keep int) *Log {
	l := &Log{w: w, keep: keep}
	l.clear()
	return l
}

// Reset clears the log. No request may be running.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
}

func (l *Log) clear() {
	l.epoch, l.conns, l.open, l.ring, l.next = time.Time{}, 0, 0, nil, 0
	l.hosts, l.fetches = make([]track, len(l.w.hosts)), nil
	for i := range l.hosts {
		l.hosts[i].clear()
	}
	l.others, l.servers = map[string]*track{}, map[netip.Addr]*track{}
	l.twice, l.astray, l.dropped, l.queries, l.lookups = 0, 0, 0, 0, map[string]int{}
	l.hostile = map[string]HostileCount{}
	l.spam, l.wrong, l.fallbacks, l.statuses = map[string]int{}, map[string]int{}, map[string]int{}, map[int]int{}
}

func (t *track) clear() { *t = track{minStart: none, minEnd: none, minPage: none} }

// now returns the log's time. Held: mu.
func (l *Log) now() time.Duration {
	if l.epoch.IsZero() {
		l.epoch = time.Now()
	}
	return time.Since(l.epoch)
}

// connLog is the log's view of one connection; it is for the connection's goroutine.
type connLog struct {
	l      *Log
	number uint64
	ip     netip.Addr
	hosts  []*track // hosts of this connection's requests, which count it
	server *track
}

func (l *Log) openConn(ip netip.Addr) *connLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns++
	l.open++
	s := l.servers[ip]
	if s == nil {
		s = &track{}
		s.clear()
		l.servers[ip] = s
	}
	s.conns++
	s.maxConns = max(s.maxConns, s.conns)
	return &connLog{l: l, number: l.conns, ip: ip, server: s}
}

func (c *connLog) close() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.l.open--
	c.server.conns--
	c.release(c.l.now())
}

// release removes the connection from the counts of its hosts. Held: mu.
func (c *connLog) release(now time.Duration) {
	for _, t := range c.hosts {
		t.settle(now)
		t.conns--
	}
	c.hosts = c.hosts[:0]
}

// running is a request between begin and end.
type running struct {
	seq         uint64
	host        *track
	start, open time.Duration // open: of a hostile host, when the connection was last known to be open
}

// begin records a request after its header has been read. host is the name in it.
func (c *connLog) begin(host string, a *answer, q *request) running {
	l := c.l
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	t := l.track(host, a.node)
	c.count(t, now, a.hostile)
	t.begin(now, a.robots, a.hostile)
	c.server.begin(now, a.robots, a.hostile)
	e := event{
		node: a.node, known: a.known, robots: a.robots, https: q.https, status: int16(a.status), conn: c.number,
		start: now, ip: c.ip,
	}
	if !a.known {
		e.host, e.target = host, string(q.path)
	}
	run := running{seq: l.next, host: t, start: now, open: now}
	l.next++
	l.statuses[a.status]++
	if l.keep > 0 {
		if len(l.ring) < l.keep {
			l.ring = append(l.ring, e)
		} else {
			l.ring[run.seq%uint64(l.keep)] = e
		}
	}
	l.fetched(a, &e, host, q)
	if a.node.host >= 0 && !l.w.has(a.node, c.ip) {
		l.astray++
	}
	return run
}

// end records that the response is almost complete. last means that it is the connection's last one: the
// connection stops counting for its hosts now, before the client can know.
func (c *connLog) end(run running, last bool) {
	l := c.l
	l.mu.Lock()
	defer l.mu.Unlock()
	c.endAt(run, l.now(), last)
}

// endAt is end at a time. Held: mu.
func (c *connLog) endAt(run running, at time.Duration, last bool) {
	l := c.l
	run.host.end(run.start, at)
	c.server.end(run.start, at)
	if l.keep > 0 && l.next-run.seq <= uint64(l.keep) {
		l.ring[run.seq%uint64(l.keep)].end = at
	}
	if last {
		c.release(l.now())
	}
}

// aliveEvery is how often a handler of a hostile host that sends nothing looks whether the client has left.
const aliveEvery = 100 * time.Millisecond

// alive records that the connection of a request to a hostile host was open at a time: a write or read began then,
// and did not find it closed. A request that began before that time was at once with it.
func (c *connLog) alive(run *running, at time.Time) {
	l := c.l
	l.mu.Lock()
	defer l.mu.Unlock()
	run.open = max(run.open, at.Sub(l.epoch))
	for _, t := range [...]*track{run.host, c.server} {
		if f := t.flight(run.start); f != nil && f.next > 0 && run.open > f.next {
			t.minEnd = 0
			t.maxConns = max(t.maxConns, 2)
		}
	}
}

// endHostile is end for a hostile host, after the response; status is 0 if the handler framed it itself.
func (c *connLog) endHostile(run running, host string, sent int64, status int) {
	l := c.l
	l.mu.Lock()
	defer l.mu.Unlock()
	c.endAt(run, run.open, true)
	if l.keep > 0 && l.next-run.seq <= uint64(l.keep) {
		l.ring[run.seq%uint64(l.keep)].status = int16(status)
	}
	n, ok := l.hostile[host]
	if !ok && len(l.hostile) >= maxOtherHosts {
		l.dropped++
		return
	}
	n.Requests++
	n.Bytes += sent
	n.MostBytes = max(n.MostBytes, sent)
	l.hostile[host] = n
}

// partingGrace is the time for which an idle connection may overlap a new one: a busy server may see them
// in the wrong order although the client closed one before it opened the other.
const partingGrace = time.Second

// count counts the connection for a host once. Another request to a hostile host may be over without the server
// knowing it; alive and settle judge that.
func (c *connLog) count(t *track, now time.Duration, hostile bool) {
	busy := t.busy
	if hostile {
		busy = 0
	}
	for _, have := range c.hosts {
		if have == t { // it wasn't idle
			t.settle(now)
			if !hostile {
				t.maxConns = max(t.maxConns, t.conns)
			}
			return
		}
	}
	c.hosts = append(c.hosts, t)
	t.settle(now)
	if t.conns++; t.conns == 2 {
		t.crowded = now
	}
	t.maxConns = max(t.maxConns, min(t.conns, 1), min(t.conns, busy+1))
}

// settle counts connections that have overlapped for longer than partingGrace. Held: mu.
func (t *track) settle(now time.Duration) {
	if t.conns > 1 && now-t.crowded > partingGrace {
		t.maxConns = max(t.maxConns, t.conns)
	}
}

// track returns the counters of a host by name. Held: mu.
func (l *Log) track(host string, n node) *track {
	if n.host >= 0 && n.host != l.w.spam {
		return &l.hosts[n.host]
	}
	t := l.others[host]
	if t == nil {
		t = &track{}
		t.clear()
		if len(l.others) >= maxOtherHosts {
			l.dropped++
			return t
		}
		l.others[host] = t
	}
	return t
}

// fetched counts a URL. Held: mu.
func (l *Log) fetched(a *answer, e *event, host string, q *request) {
	switch {
	case a.robots, a.hostile:
	case !a.known:
		scheme := "http://"
		if q.https {
			scheme = "https://"
		}
		if q.port != 80 && q.port != 443 {
			host += ":" + strconv.Itoa(int(q.port))
		}
		m := l.wrong
		if a.fallback {
			m = l.fallbacks
		}
		l.bump(m, scheme+host+e.target)
	case a.node.host == l.w.spam:
		l.bump(l.spam, l.w.url(a.node))
	default:
		if l.fetches == nil {
			l.fetches = make([]uint8, l.w.nodes)
		}
		c := &l.fetches[l.w.number(a.node)]
		if *c > 0 {
			l.twice++
		}
		if *c < 255 {
			*c++
		}
	}
}

// bump counts in a bounded map. Held: mu.
func (l *Log) bump(m map[string]int, name string) {
	if _, ok := m[name]; !ok && len(m) >= maxOtherURLs {
		l.dropped++
		return
	}
	m[name]++
}

// lookup records a query for a name.
func (l *Log) lookup(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queries++
	l.bump(l.lookups, name)
}

func (t *track) begin(now time.Duration, robots, hostile bool) {
	if t.hasAny {
		t.minStart = min(t.minStart, now-t.lastStart)
		switch {
		case t.busy > 0 && !hostile:
			t.minEnd = 0
		case t.answers:
			t.minEnd = min(t.minEnd, now-t.lastEnd)
		}
		for i := range t.flights {
			if f := &t.flights[i]; f.next == 0 {
				f.next = now
			}
		}
	}
	if !robots {
		if t.hasPage {
			t.minPage = min(t.minPage, now-t.lastPage)
		}
		if t.robots == 0 {
			t.early++
		}
		t.hasPage, t.lastPage = true, now
	} else {
		t.robots++
	}
	t.requests++
	t.hasAny, t.lastStart = true, now
	t.busy++
	t.flights = append(t.flights, flight{start: now})
	t.maxBusy = max(t.maxBusy, t.busy)
}

// end ends a request that began at start.
func (t *track) end(start, now time.Duration) {
	t.busy--
	if f := t.flight(start); f != nil {
		if f.next > 0 {
			t.minEnd = min(t.minEnd, max(0, f.next-now))
		}
		last := len(t.flights) - 1
		*f = t.flights[last]
		t.flights = t.flights[:last]
	}
	t.answers, t.lastEnd = true, max(t.lastEnd, now)
}

// flight returns the request under way that began at start; nil if there is none.
func (t *track) flight(start time.Duration) *flight {
	for i := range t.flights {
		if t.flights[i].start == start {
			return &t.flights[i]
		}
	}
	return nil
}

// has reports whether a node's host has an address.
func (w *Web) has(n node, ip netip.Addr) bool {
	h := &w.hosts[n.host]
	if h.kind == spamHost {
		return ip == w.spamAddr(n.sub)
	}
	for _, a := range h.addrs {
		if a == ip {
			return true
		}
	}
	for _, a := range h.addrs6 {
		if a == ip {
			return true
		}
	}
	return false
}
