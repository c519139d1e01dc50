package pace

import "time"

// A reader may read a piece at a time: what comes in pieceFor at the rate in force, within bounds, so that enough readers share a
// second and a read isn't dearer than what it brings. While nobody knows whether there is anything to read, as at first, it is a
// probe: readers that wait for their sites mustn't hold pieces that come all at once, when others' have taken their time.
const (
	pieceFor   = 5 * time.Millisecond
	pieceLeast = 1 << 10
	pieceMost  = 64 << 10
	probe      = 512
)

// The gate. Exchanges begin at the speed at which what they bring can be received, means being expected, times a haste that steers
// what waits to be read to backlogFor and backlogOf mean pages: so there is always somebody to read, and few wait, as
// what is sent to them fills the buffers of the network instead. The haste is 1 there, gateHaste while nobody waits, and falls evenly,
// since what begins now is received a second later: a gate that shut at once made waves, in which a tenth of the bandwidth was lost.
// At backlogShut times as much it does shut. While bandwidth lies idle the haste is idleHaste: the last pages were smaller than the mean.
const (
	gateHaste   = 1.25
	leastHaste  = 0.5
	idleHaste   = 3
	backlogFor  = 350 * time.Millisecond
	backlogOf   = 3
	backlogShut = 2
)

// Kind is what an exchange is for: each has a mean size of its own.
type Kind uint8

// The kinds of exchanges.
const (
	Page   Kind = iota
	Robots      // robots.txt
	numKinds
)

// The mean number of bytes of an exchange: what it is taken for before any has ended (much, so that few begin before that is known), its
// bounds, and over how many it is taken.
const (
	firstPage   = 256 << 10
	firstRobots = 2 << 10
	leastMean   = 1 << 10
	mostMean    = 1 << 20
	meanOf      = 32
)

// Bandwidth makes a schedule of bits a second hold: what Meters read, in the order in which they ask. Its gate, for one goroutine
// that begins exchanges, keeps those from beginning that would only wait. Safe for concurrent use; nil limits nothing.
type Bandwidth struct {
	l           limiter
	read        line // what was read, or may be
	gate        line // exchanges that began, in bytes of their mean size and by their haste
	means       [numKinds]mean
	first, last *Meter  // those that wait, in the order in which they came
	waiting     float64 // bytes that are still to come to them, as far as that can be known
}

// mean is that of the last exchanges of a kind.
type mean struct {
	bytes float64
	over  float64 // exchanges, at most meanOf
}

func (m *mean) expected() float64 { return min(max(m.bytes, leastMean), mostMean) }

// NewBandwidth returns the limiter of a schedule of Bits, or nil if that never limits. now is from when on it counts.
func NewBandwidth(s Schedule, now time.Time) *Bandwidth {
	if !s.Limits() {
		return nil
	}
	b := &Bandwidth{l: limiter{schedule: s, scale: 1.0 / 8, at: now}, means: [numKinds]mean{Page: {bytes: firstPage}, Robots: {bytes: firstRobots}}}
	b.l.advance(now)
	return b
}

// Ready returns how long to wait before asking again; 0: another exchange may begin.
func (b *Bandwidth) Ready(now time.Time) time.Duration {
	if b == nil {
		return 0
	}
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	b.l.advance(now)
	return b.l.wait(max(b.gate.booked, b.l.allowed+b.waited()-backlogShut*b.backlog()))
}

// waited is what is waited for: by readers, and by what was read too early. Held: mu.
func (b *Bandwidth) waited() float64 { return b.waiting + max(0, b.read.booked-b.l.allowed) }

// backlog is what it shall be. Held: mu.
func (b *Bandwidth) backlog() float64 {
	return backlogOf*b.means[Page].expected() + b.l.rate*backlogFor.Seconds()
}

// share is what an exchange that begins now takes of the gate's time, in bytes. Held: mu.
func (b *Bandwidth) share(k Kind) float64 {
	haste := max(leastHaste, gateHaste-(gateHaste-1)*b.waited()/b.backlog())
	if b.waiting == 0 && b.read.booked < b.l.allowed-b.l.lateness() {
		haste = idleHaste
	}
	return b.means[k].expected() / haste
}

// Take counts an exchange that begins.
func (b *Bandwidth) Take(now time.Time, k Kind) {
	if b == nil {
		return
	}
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	b.l.advance(now)
	b.gate.book(&b.l, b.share(k))
}

// Give takes back an exchange that didn't begin after all.
func (b *Bandwidth) Give(now time.Time, k Kind) {
	if b == nil {
		return
	}
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	b.l.advance(now)
	b.gate.give(&b.l, b.gate.booked, b.share(k))
}

// Brought says how many bytes an exchange has received.
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

// Schedule returns what it was made of.
func (b *Bandwidth) Schedule() Schedule {
	if b == nil {
		return Schedule{}
	}
	return b.l.schedule
}

// Meter is one reader's use of a Bandwidth. Begin, then for each read Allow, wait until Turn or for as long as it says and ask again,
// read, Used; End when all is over. What is read without asking counts when it is Used. The zero Meter is one without a limiter. It belongs to one goroutine at a time, and isn't copied
// between Begin and End.
type Meter struct {
	b       *Bandwidth
	due     float64 // when units were booked
	units   float64 // that may be read now
	flowing bool    // the last read brought all that it might
	used    int64

	turn       chan struct{} // nil: it never waited
	waits      float64       // its part of b.waiting; 0: it doesn't wait
	prev, next *Meter        // guarded by b's mutex, as are all fields while it waits
}

// Begin starts to meter what is read in an exchange.
func (m *Meter) Begin(b *Bandwidth) { *m = Meter{b: b} }

// Metered tells whether there is a limiter.
func (m *Meter) Metered() bool { return m.b != nil }

// Received returns the bytes that were read since Begin.
func (m *Meter) Received() int64 { return m.used }

// Turn is signalled when it had better ask again, before the wait is over.
func (m *Meter) Turn() <-chan struct{} { return m.turn }

// Allow returns how many bytes, of most, may be read in one go, and how long to wait before asking again; with a wait, none may.
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

// piece is how much it may read at once. Held: mu.
func (m *Meter) piece() int {
	if !m.flowing {
		return probe
	}
	return int(min(max(m.b.l.rate*pieceFor.Seconds(), pieceLeast), pieceMost))
}

// enqueue lets it wait behind those that wait. What is still to come to it is a mean page, as far as anybody knows: sizes of pages are
// spread such that what has come tells little. Held: mu.
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

// dequeue ends that and tells who is first then. Held: mu.
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

// Used says that so many bytes came, and when.
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
	if m.due < b.l.allowed-b.l.lateness() { // they were waited for: they count for the time at which they came
		b.read.give(&b.l, m.due, m.units)
		b.read.book(&b.l, n)
	} else {
		b.read.give(&b.l, m.due, m.units-n)
	}
	m.units = 0
}

// End is when nothing more is read.
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
