package pace

import (
	"sync/atomic"
	"time"
)

// A reader reads one piece at a time: the bytes of pieceFor at the current rate, from pieceLeast to
// pieceMost. The pieces are small enough to let many readers share a second, and large enough to pay for a
// read. If the last read brought less than its piece (or there was none), the piece is a probe: a reader
// that waits for its site must not hold a large piece.
const (
	pieceFor   = 5 * time.Millisecond
	pieceLeast = 1 << 10
	pieceMost  = 64 << 10
	probe      = 512
)

// Constants of the gate. It starts exchanges at the speed at which their expected bytes can be received,
// times a factor, the haste. The haste keeps the backlog, the bytes that wait to be read, near backlogFor
// plus backlogOf mean pages: there is always a reader, and few wait. (Data for a waiting reader fills the
// buffers of the network.)
//
// The haste falls linearly from gateHaste without backlog to 1 at the target. It falls gradually because an
// exchange that starts now is received a second later; a gate that closed at once oscillated and lost a
// tenth of the bandwidth. At backlogShut times the target the gate closes. While bandwidth is idle the
// haste is idleHaste: the last pages were smaller than the mean.
const (
	gateHaste   = 1.25
	leastHaste  = 0.5
	idleHaste   = 3
	backlogFor  = 350 * time.Millisecond
	backlogOf   = 3
	backlogShut = 2
)

// Kind is the purpose of an exchange. Each kind has its own mean size.
type Kind uint8

// The kinds of exchanges.
const (
	Page   Kind = iota
	Robots      // robots.txt
	numKinds
)

// Expected bytes of an exchange: the values before the first exchange ends (large, so that few start before
// the size is known), the bounds, and the number of exchanges in the mean.
const (
	firstPage   = 256 << 10
	firstRobots = 2 << 10
	leastMean   = 1 << 10
	mostMean    = 1 << 20
	meanOf      = 32
)

// Bandwidth enforces a schedule of bits per second. Meters read in the order in which they ask. The gate
// (Ready, Take, Give), for one goroutine, delays exchanges that would only wait. Safe for concurrent use;
// nil has no limit.
type Bandwidth struct {
	limits      atomic.Bool // the schedule has a limit
	l           limiter
	read        line // bytes that were read, or may be
	gate        line // bytes of the exchanges that started: expected size divided by haste
	means       [numKinds]mean
	first, last *Meter  // waiting Meters, in order of arrival
	waiting     float64 // expected bytes of the waiting Meters
}

// mean is the mean size of the last exchanges of a kind.
type mean struct {
	bytes float64
	over  float64 // number of exchanges, at most meanOf
}

func (m *mean) expected() float64 { return min(max(m.bytes, leastMean), mostMean) }

// NewBandwidth returns the limiter of a schedule of Bits that starts at now. Set may change it.
func NewBandwidth(s Schedule, now time.Time) *Bandwidth {
	b := &Bandwidth{
		l:     limiter{schedule: s, scale: 1.0 / 8, at: now},
		means: [numKinds]mean{Page: {bytes: firstPage}, Robots: {bytes: firstRobots}},
	}
	b.l.advance(now)
	b.limits.Store(s.Limits())
	return b
}

// Set replaces the schedule. An exchange that began without a limit ends without one.
func (b *Bandwidth) Set(s Schedule, now time.Time) {
	b.l.set(s, now)
	b.limits.Store(s.Limits())
}

// Limits reports whether the schedule has a limit at any time; false for nil.
func (b *Bandwidth) Limits() bool { return b != nil && b.limits.Load() }

// Ready returns how long to wait before the next call of Ready; 0: an exchange may start.
func (b *Bandwidth) Ready(now time.Time) time.Duration {
	if b == nil {
		return 0
	}
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	b.l.advance(now)
	return b.l.wait(max(b.gate.booked, b.l.allowed+b.waited()-backlogShut*b.backlog()))
}

// waited returns the backlog: the expected bytes of waiting readers, and the bytes that were read too
// early. Held: mu.
func (b *Bandwidth) waited() float64 { return b.waiting + max(0, b.read.booked-b.l.allowed) }

// backlog returns the target of the backlog. Held: mu.
func (b *Bandwidth) backlog() float64 {
	return backlogOf*b.means[Page].expected() + b.l.rate*backlogFor.Seconds()
}

// share returns how far an exchange that starts now moves the gate, in bytes. Held: mu.
func (b *Bandwidth) share(k Kind) float64 {
	haste := max(leastHaste, gateHaste-(gateHaste-1)*b.waited()/b.backlog())
	if b.idle() {
		haste = idleHaste
	}
	return b.means[k].expected() / haste
}

// idle reports whether nobody waits and bytes were not used in time. Held: mu.
func (b *Bandwidth) idle() bool { return b.waiting == 0 && b.read.booked < b.l.allowed-b.l.lateness() }

// Full reports whether the limit in force is used up at this instant; false without a limit.
func (b *Bandwidth) Full(now time.Time) bool {
	if !b.Limits() {
		return false
	}
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	b.l.advance(now)
	return !NoLimit(b.l.rate) && !b.idle()
}

// Take counts an exchange that starts.
func (b *Bandwidth) Take(now time.Time, k Kind) {
	if b == nil {
		return
	}
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	b.l.advance(now)
	b.gate.book(&b.l, b.share(k))
}

// Give takes back an exchange that did not start.
func (b *Bandwidth) Give(now time.Time, k Kind) {
	if b == nil {
		return
	}
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	b.l.advance(now)
	b.gate.give(&b.l, b.gate.booked, b.share(k))
}

// Brought reports the bytes that an exchange received.
func (b *Bandwidth) Brought(k Kind, bytes int64) {
	if b == nil {
		return
	}
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	m := &b.means[k]
	m.over = min(m.over+1, meanOf)
	m.bytes += (float64(bytes) - m.bytes) / m.over
}

// Schedule returns the schedule of the limiter.
func (b *Bandwidth) Schedule() Schedule {
	if b == nil {
		return Schedule{}
	}
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	return b.l.schedule
}

// Meter meters one reader of a Bandwidth. Call Begin, then Allow and Used for each read, then End. If Allow
// returns a wait, wait for Turn or for that time, and call Allow again. Used also counts bytes that were
// read without Allow. The zero Meter has no limiter. A Meter belongs to one goroutine at a time; do not
// copy it between Begin and End.
type Meter struct {
	b       *Bandwidth
	due     float64 // when the booked units are due
	units   float64 // bytes that may be read now
	flowing bool    // the last read brought all the bytes that it was allowed
	used    int64

	turn       chan struct{} // nil before the first wait
	waits      float64       // its part of b.waiting; 0: it is not waiting
	prev, next *Meter        // guarded by b's mutex; so are all fields while the Meter waits
}

// Begin starts to meter an exchange.
func (m *Meter) Begin(b *Bandwidth) { *m = Meter{b: b} }

// Metered reports whether the Meter has a limiter.
func (m *Meter) Metered() bool { return m.b != nil }

// Received returns the number of bytes read since Begin.
func (m *Meter) Received() int64 { return m.used }

// Turn returns a channel that signals to call Allow again before the wait is over.
func (m *Meter) Turn() <-chan struct{} { return m.turn }

// Allow returns how many bytes may be read now, at most most. If wait is not 0, none may be read: call
// Allow again after wait, or after a signal of Turn.
func (m *Meter) Allow(now time.Time, most int) (bytes int, wait time.Duration) {
	b := m.b
	if b == nil {
		return most, 0
	}
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	b.l.advance(now)
	if b.first == nil || b.first == m {
		wait = b.l.wait(b.read.booked)
	} else if wait = maxSleep; NoLimit(b.l.rate) {
		wait = 0
	}
	if wait > 0 {
		m.enqueue()
		return 0, wait
	}
	m.dequeue()
	if NoLimit(b.l.rate) {
		return most, 0
	}
	bytes = min(most, m.piece())
	m.units = float64(bytes)
	m.due = b.read.book(&b.l, m.units)
	return bytes, 0
}

// piece returns the size of the next piece, in bytes. Held: mu.
func (m *Meter) piece() int {
	if !m.flowing {
		return probe
	}
	return int(min(max(m.b.l.rate*pieceFor.Seconds(), pieceLeast), pieceMost))
}

// enqueue appends the Meter to the queue. It expects a mean page: page sizes vary so much that the bytes
// received so far say little about the rest. Held: mu.
func (m *Meter) enqueue() {
	b := m.b
	rest := b.means[Page].expected()
	if m.waits > 0 {
		return
	}
	if m.turn == nil {
		m.turn = make(chan struct{}, 1)
	}
	m.waits, m.prev = rest, b.last
	b.waiting += rest
	if b.last != nil {
		b.last.next = m
	} else {
		b.first = m
	}
	b.last = m
}

// dequeue removes the Meter from the queue and signals the first one. Held: mu.
func (m *Meter) dequeue() {
	b := m.b
	if m.waits == 0 {
		return
	}
	b.waiting = max(0, b.waiting-m.waits)
	if m.prev != nil {
		m.prev.next = m.next
	} else {
		b.first = m.next
	}
	if m.next != nil {
		m.next.prev = m.prev
	} else {
		b.last = m.prev
	}
	m.waits, m.prev, m.next = 0, nil, nil
	if b.first != nil {
		select {
		case b.first.turn <- struct{}{}:
		default:
		}
	}
}

// Used reports that the read brought this number of bytes, at the time now.
func (m *Meter) Used(now time.Time, bytes int) {
	m.used += int64(bytes)
	b := m.b
	if b == nil {
		return
	}
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	b.l.advance(now)
	n := float64(bytes)
	m.flowing = bytes > 0 && n >= m.units
	if m.due < b.l.allowed-b.l.lateness() { // the bytes came late: book them at their time of arrival
		b.read.give(&b.l, m.due, m.units)
		b.read.book(&b.l, n)
	} else {
		b.read.give(&b.l, m.due, m.units-n)
	}
	m.units = 0
}

// End stops metering and gives back unused units.
func (m *Meter) End(now time.Time) {
	b := m.b
	if b == nil {
		return
	}
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	b.l.advance(now)
	m.dequeue()
	b.read.give(&b.l, m.due, m.units)
	m.b = nil
}
