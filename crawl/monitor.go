package crawl

import (
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
//   - Meanwhile canaries are asked (canary.go). If one answers, the outage is of others: fetching goes on at its usual rate, but for
//     monitorPatience what fails isn't counted yet, since a part of the network may come back. After that it is how the web is now.

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
	// monitorPatience ends an outage in which some tries succeed all along, or canaries answered: then it isn't one, but how the web is
	// now. An outage of the network in which neither happens is waited for without end.
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
	// patience is for how long it is waited for if it may be none.
	patience time.Duration

	mu   sync.Mutex // guards all below
	last []sample   // the oldest first; at most monitorLast, each of another source
	mean float64    // share of failures while there is no outage

	down       bool
	partial    bool // canaries answered: fetching goes on, but nothing that fails is counted until monitorPatience is over
	since      time.Time
	tried      time.Time // last try in the outage
	good       bool      // a try has succeeded in it
	share      float64   // of failures when it began
	jumped     bool      // and that was far above the mean
	answeredAt time.Time // a canary answered last
	told       bool      // the log says that there is an outage
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
	if got == outcomeBad && bad >= least && float64(bad) >= threshold*float64(n) && now.Sub(m.answeredAt) >= canaryGoodFor {
		m.fail(now, float64(bad)/float64(n))
		return true
	}
	if m.partial {
		if n >= probesLast && float64(bad)/float64(n) < m.mean+monitorJump/2 {
			m.partial = false // those that failed answer again
			return true
		}
		return false
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

// fail begins an outage, or the next stretch of one in which canaries had answered.
func (m *monitor) fail(now time.Time, share float64) {
	if !m.partial {
		m.since, m.share, m.jumped = now, share, share-m.mean >= monitorJump
	}
	m.down, m.partial, m.tried, m.good = true, false, time.Time{}, false
	m.last, m.probes, m.results = m.last[:0], nil, nil
}

// answered notes that a canary answered, and returns true if that changes an outage.
func (m *monitor) answered(now time.Time) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answeredAt = now
	if !m.down {
		return false
	}
	m.down, m.probes, m.results = false, nil, nil
	if m.partial = !m.strict && m.jumped && now.Sub(m.since) < m.patience; !m.partial && !m.strict {
		m.mean = max(m.mean, m.share)
	}
	return true
}

// doubts is true while nothing that fails is counted; over that it isn't any more since now.
func (m *monitor) doubts(now time.Time) (doubts, over bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.partial && now.Sub(m.since) >= m.patience {
		m.partial, over = false, true
		if m.mean = m.share; len(m.last) > 0 {
			bad, n := m.count(now)
			m.mean = max(m.mean, float64(bad)/float64(max(1, n)))
		}
	}
	return m.down || m.partial, over
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
	case now.Sub(m.since) >= m.patience && (m.good || blind || m.strict):
		m.mean = float64(bad) / float64(max(1, n))
	default:
		return false
	}
	m.down, m.partial, m.probes, m.results = false, false, nil, nil
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
func (m *monitor) declare(now time.Time) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return false
	}
	m.fail(now, 1)
	return true
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

// lacking says whether this machine had no descriptor, port or memory for a connection. If that lasts, it is an outage like any other.
// (A lack of memory for a body is not: fewer exchanges at once cure it.)
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
