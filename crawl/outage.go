package crawl

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"drumbeat/fetch"
)

// Our failure is not theirs. When the network, or the name servers, fail on this side, every host seems dead. So:
//
//   - A failure that could be ours (no answer in time, no route, connection lost) counts against a host only when it is
//     confirmed: the URL, or another one of its host, or the robots request, is tried once more after confirmWait, and
//     meanwhile the network was seen to work. Until then nothing is counted.
//   - A monitor watches what became of the last exchanges with servers that had answered before, another one the lookups.
//     When the share of failures jumps far above its mean there is an outage: fetching rests but for one try a second, and
//     nothing that fails is counted. When those tries succeed again, all goes on.

// The monitor's constants.
const (
	monitorLast  = 64          // outcomes it looks at, each of another server
	monitorSpan  = time.Minute // none older than that
	monitorLeast = 4           // failures in them, before anything can be told
	monitorJump  = 0.3         // by how much the share of failures exceeds its mean in an outage
	monitorMost  = 0.9         // no mean makes it need more than that
	meanWeight   = 1.0 / 512   // of an outcome in the running mean

	trickle = time.Second // between two tries in an outage
	// probesLast tries decide that an outage is over: all of the last probesGood, or all but a few of them.
	probesLast = 8
	probesGood = 4
	// monitorPatience ends an outage in which some tries succeed all along: then it isn't one, but how the web is now. An outage of
	// the network in which none succeeds is waited for without end.
	monitorPatience = 15 * time.Minute
)

// outcome is how an exchange or a lookup ended, as far as it tells about the way there.
type outcome uint8

const (
	outcomeNone outcome = iota // tells nothing
	outcomeGood                // an answer came
	outcomeBad                 // none came
)

// probe is a try that was begun in an outage.
type probe struct {
	ended bool
	got   outcome
}

// monitor judges one way to the world by what comes back on it.
type monitor struct {
	// strict: only when nearly nothing answers it is an outage, and it is waited for no longer than monitorPatience. For names, of
	// which many are dead at all times, and hardly any is asked for twice; a URL is never refused for want of an answer.
	strict bool

	mu   sync.Mutex // guards all below
	last []sample   // the oldest first; at most monitorLast, each of another source
	mean float64    // share of failures while there is no outage

	down  bool
	since time.Time
	tried time.Time // last try in the outage
	good  bool      // a try has succeeded in it
	// probes are the tries of this outage whose turn to be looked at hasn't come: as many as begin within the longest of them.
	probes  []*probe
	results []bool // of the last probesLast ones: failed
}

type sample struct {
	source uint64
	at     time.Time
	bad    bool
}

// begin notes that something is tried; the result is for end.
func (m *monitor) begin() *probe {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.down {
		return nil
	}
	p := &probe{}
	m.probes = append(m.probes, p)
	return p
}

// end notes what became of a try. known says that the source has answered before: only then a failure tells something. blind
// is true as long as there are no such sources. It returns true when an outage began or ended with it.
func (m *monitor) end(p *probe, now time.Time, source uint64, got outcome, known, blind bool) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if got == outcomeBad && !known && !blind {
		got = outcomeNone
	}
	if p != nil {
		p.ended, p.got = true, got
	}
	if m.down {
		if p == nil {
			return false // begun before the outage
		}
		m.good = m.good || got == outcomeGood
		return m.over(now, blind)
	}
	if got == outcomeNone {
		return false
	}
	m.add(sample{source: source, at: now, bad: got == outcomeBad})
	bad, n := m.count(now)
	threshold := min(monitorMost, m.mean+monitorJump)
	least := monitorLeast
	if blind || m.strict {
		threshold = monitorMost
	}
	if m.strict {
		least = 2 * monitorLeast
	}
	if got == outcomeBad && bad >= least && float64(bad) >= threshold*float64(n) {
		m.fail(now)
		return true
	}
	if got == outcomeBad {
		m.mean += (1 - m.mean) * meanWeight
	} else {
		m.mean -= m.mean * meanWeight
	}
	return false
}

func (m *monitor) add(s sample) {
	for i := range m.last {
		if m.last[i].source == s.source {
			m.last = append(m.last[:i], m.last[i+1:]...)
			break
		}
	}
	if len(m.last) == monitorLast {
		m.last = append(m.last[:0], m.last[1:]...)
	}
	m.last = append(m.last, s)
}

func (m *monitor) count(now time.Time) (bad, n int) {
	for _, s := range m.last {
		if now.Sub(s.at) <= monitorSpan {
			n++
			if s.bad {
				bad++
			}
		}
	}
	return bad, n
}

// fail begins an outage.
func (m *monitor) fail(now time.Time) {
	m.down, m.since, m.tried, m.good = true, now, time.Time{}, false
	m.last, m.probes, m.results = m.last[:0], nil, nil
}

// over ends the outage if the tries say so. They are looked at in the order of their beginning: failures take longer.
func (m *monitor) over(now time.Time, blind bool) bool {
	for len(m.probes) > 0 && m.probes[0].ended {
		if got := m.probes[0].got; got != outcomeNone {
			m.results = append(m.results, got == outcomeBad)
		}
		m.probes = m.probes[1:]
	}
	m.results = m.results[max(0, len(m.results)-probesLast):]
	n, bad := len(m.results), 0
	for _, b := range m.results {
		if b {
			bad++
		}
	}
	switch {
	case n >= probesGood && bad == 0, n >= probesLast && float64(bad) <= 1+1.5*m.mean*probesLast:
	case now.Sub(m.since) >= monitorPatience && (m.good || blind || m.strict):
		m.mean = float64(bad) / float64(max(1, n))
	default:
		return false
	}
	m.down, m.probes, m.results = false, nil, nil
	return true
}

// mayTry is false while there is an outage and the last try was begun less than trickle ago.
func (m *monitor) mayTry(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.down || now.Sub(m.tried) >= trickle
}

// take notes that a try is begun.
func (m *monitor) take(now time.Time) { m.mu.Lock(); m.tried = now; m.mu.Unlock() }

func (m *monitor) isDown() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.down }

// declare begins an outage that was found out otherwise.
func (m *monitor) declare(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.down {
		m.fail(now)
	}
}

// workedSince is true when a source other than this one answered after a time.
func (m *monitor) workedSince(at time.Time, source uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.last {
		if !s.bad && s.source != source && s.at.After(at) {
			return true
		}
	}
	return false
}

// knownServers is the size of the table of servers that have answered; a collision forgets the older one.
const knownServers = 8192

// knownFor is for how long an answer makes a server known.
const knownFor = time.Hour

// blindBelow is how many servers must be known before failures of unknown ones are left out of account.
const blindBelow = 16

// vouchers is how many origins that have answered are remembered, to be asked when nothing else can tell.
const vouchers = 16

// known remembers servers that have answered. Bounded.
type known struct {
	mu      sync.Mutex // guards all below
	table   [knownServers]knownServer
	number  int
	origins []voucher // the newest last, each of another server
	asking  bool      // somebody asks the vouchers
	asked   time.Time // they answered last
}

type knownServer struct {
	key uint64
	at  int64 // Unix seconds
}

// voucher is an origin that answered a short while ago.
type voucher struct {
	https bool
	host  string
	port  uint16
	addr  netip.Addr
	key   uint64
}

// origin is scheme://host:port.
func (v *voucher) origin() string {
	scheme := "http"
	if v.https {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s:%d", scheme, v.host, v.port)
}

// is says whether a server answered within knownFor; blind whether too few did to leave others out of account.
func (k *known) is(key uint64, now time.Time) (known, blind bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.table[key%knownServers]
	return s.key == key && now.Unix()-s.at < int64(knownFor/time.Second), k.number < blindBelow
}

func (k *known) answered(v voucher, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.table[v.key%knownServers]
	if s.key == 0 {
		k.number++
	}
	*s = knownServer{key: v.key, at: now.Unix()}
	for i := range k.origins {
		if k.origins[i].key == v.key {
			k.origins = append(k.origins[:i], k.origins[i+1:]...)
			break
		}
	}
	if len(k.origins) == vouchers {
		k.origins = append(k.origins[:0], k.origins[1:]...)
	}
	k.origins = append(k.origins, v)
}

// others are up to n origins on other servers than this one that may be asked, the newest first; any says whether there are some that
// may not. may is called under the lock.
func (k *known) others(key uint64, n int, may func(host []byte) bool) (some []voucher, any bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := len(k.origins) - 1; i >= 0 && len(some) < n; i-- {
		if k.origins[i].key == key {
			continue
		}
		if any = true; may([]byte(k.origins[i].host)) {
			some = append(some, k.origins[i])
		}
	}
	return some, any
}

// lacking says whether this machine had no descriptor, port or memory for a connection. If that lasts, it is an outage like any other.
// (Memory for a body that isn't to be had is none: fewer exchanges at once cure it.)
func lacking(err *fetch.Error) bool {
	return err.Kind == fetch.KindResources && err.Stage == fetch.StageDial
}

// doubtful says whether a failed exchange could be a failure of ours: nothing, or not all, came from the other side.
func doubtful(err *fetch.Error) bool {
	switch err.Kind {
	case fetch.KindTimeout, fetch.KindNoRoute, fetch.KindReset, fetch.KindEmptyReply, fetch.KindOther:
		return true
	}
	return false
}

// cutOff says whether a response ended too early for a reason that could be ours. A server whose bytes came to the last, but too
// slowly, shows that the network works.
func cutOff(resp *fetch.Response) bool {
	return resp.Truncated == fetch.TruncatedTime && resp.Marks&fetch.MarkSlow == 0 || resp.Truncated == fetch.TruncatedDisconnect
}

// outageText is what the progress says; "" without an outage.
func (r *ring) outageText() string {
	for _, m := range []struct {
		m    *monitor
		text string
	}{{&r.net, "the network: known servers don't answer"}, {&r.dns, "the name servers: they don't answer"}} {
		m.m.mu.Lock()
		down, since := m.m.down, m.m.since
		m.m.mu.Unlock()
		if down {
			return fmt.Sprintf("%s since %s; one try a second, nothing counts", m.text, since.UTC().Format("15:04:05 MST"))
		}
	}
	return ""
}

// inOutage is true while the network or the name servers are taken to be down.
func (r *ring) inOutage() bool { return r.net.isDown() || r.dns.isDown() }
