package outage

import (
	"sync"
	"time"

	"drumbeat/fetch"
)

// When the network or the name servers fail on our side, every host seems dead. So:
//
//   - A failure that may be ours (no answer in time, no route, connection lost) counts against a host only
//     when it is confirmed: the URL, another URL of its host, or the robots.txt request is tried again
//     after confirmWait, and the network has worked in the meantime.
//   - One monitor watches the last exchanges with servers that had answered before, another the lookups.
//     If the share of failures jumps far above its mean, there is an outage: fetching slows to one request
//     a second, and the longer nothing answers the fewer, down to one in ten minutes. Failures are not
//     counted. When these requests succeed again, the outage is over.
//   - Servers that all drop our packets, because they ban us, look like an outage. It ends the crawl after
//     Options.OutagePatience without an answer.
//   - During an outage canaries are asked (canary.go). If one answers, the failures are elsewhere:
//     fetching continues at its usual rate. Failures still do not count for monitorPatience, since part of
//     the network may be down on our side. After that they count.

// These are the constants of the monitor.
const (
	monitorLast  = 64          // outcomes considered, each of another source
	monitorSpan  = time.Minute // their greatest age
	monitorLeast = 4           // least number of failures among them in an outage
	monitorJump  = 0.3         // how far the share of failures exceeds its mean in an outage
	monitorMost  = 0.9         // share of failures that is always an outage
	meanWeight   = 1.0 / 512   // weight of one outcome in the running mean

	Trickle = time.Second // between two requests at the start of an outage, and once a probe has succeeded
	// TrickleShare is the gap between two requests as a share of the silence so far, 1/trickleShare, and trickleMost
	// its limit. So an outage of 2 minutes is noticed to be over 8 s late, one of an hour 4 minutes late; and a day
	// of silence costs 1 + 16·(1 + ln(9600/16)) + 21.3·6 = 246 requests for all sites together, not 86,400.
	TrickleShare = 16
	TrickleMost  = 10 * time.Minute
	// An outage ends when the last probesGood probes succeed, or all but a few of the last probesLast.
	probesLast = 8
	probesGood = 4
	// monitorPatience ends an outage in which some probes succeed or canaries answer: the failures are then
	// normal. An outage of the network in which neither happens lasts until the crawl's own patience ends.
	monitorPatience = 15 * time.Minute
)

// outcome says what the end of an exchange or a lookup tells about the network.
type outcome uint8

const (
	outcomeNone outcome = iota // tells nothing
	outcomeGood                // an answer arrived
	outcomeBad                 // no answer arrived
)

// probe is a request begun during an outage.
type probe struct {
	ended bool
	got   outcome
}

// monitor detects an outage of the network or of the name servers from the outcomes of requests.
type monitor struct {
	// strict is set for names. There is an outage only if nearly nothing answers: many names are dead at any time and
	// hardly any is looked up twice. A missing answer never refuses a URL.
	strict bool
	// vague reports that silence may be normal: nothing has answered in this run, as after a restart, or name
	// servers do answer, namely that known names have no address. An outage then lasts at most
	// monitorPatience, or as long as the silence before it. nil: never.
	vague func() bool
	// namesPatience is the longest duration of an outage in which name servers alone answer.
	namesPatience time.Duration
	// patience is the longest duration of an outage that may be none (monitorPatience).
	patience time.Duration

	mu   sync.Mutex // guards the fields below
	last []sample   // oldest first; at most monitorLast, each of another source
	mean float64    // share of failures without an outage

	down       bool
	partial    bool // others answered: fetching continues, but failures do not count until graceLocked is over
	strong     bool // a canary or a reference was among them, not only name servers
	conceded   bool // name servers alone answered for namesPatience: they suffice until a server answers
	since      time.Time
	silent     time.Time // when the silence began: the first outage after the last answer; zero after an answer
	heard      time.Time // when the last silence ended that hosts' waits must not outlast
	tried      time.Time // last request in the outage
	good       bool      // a probe of the outage has succeeded
	share      float64   // share of failures at the start of the outage
	jumped     bool      // share was far above the mean
	answeredAt time.Time // last answer of a canary
	told       bool      // the log has reported the outage
	// probes are those of this outage that over has not evaluated, in the order of their start.
	probes  []*probe
	results []bool // of the last probesLast probes: true for a failure
}

type sample struct {
	source uint64
	at     time.Time
	bad    bool
}

// begin starts a request. Pass the result to end; it is nil without an outage.
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

// end records the outcome of a request. known reports that the source has answered before; otherwise a
// failure means nothing. blind is true while too few sources are known to ignore the others. end returns
// true if an outage began or ended.
func (m *monitor) end(p *probe, now time.Time, source uint64, got outcome, known, blind bool) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if got == outcomeBad && !known && !blind {
		got = outcomeNone
	}
	if got == outcomeGood {
		m.conceded = false
	}
	if got == outcomeGood && (p != nil || !m.down) { // what began before the outage tells nothing of it
		m.hear(now)
	}
	if p != nil {
		p.ended, p.got = true, got
	}
	if m.down {
		if p == nil {
			return false // it began before the outage
		}
		m.good = m.good || got == outcomeGood
		return m.over(now)
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
	if got == outcomeBad && bad >= least && float64(bad) >= threshold*float64(n) &&
		now.Sub(m.answeredAt) >= CanaryGoodFor {
		m.fail(now, float64(bad)/float64(n))
		return true
	}
	if m.partial {
		if n >= probesLast && float64(bad)/float64(n) < m.mean+monitorJump/2 {
			m.partial, m.heard = false, now // the failed sources answer again
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

// fail begins an outage, or resumes one in which canaries had answered.
func (m *monitor) fail(now time.Time, share float64) {
	if !m.partial {
		m.since, m.share, m.jumped, m.strong = now, share, share-m.mean >= monitorJump, false
	}
	if m.silent.IsZero() {
		m.silent = now
	}
	m.down, m.partial, m.tried, m.good = true, false, time.Time{}, false
	m.last, m.probes, m.results = m.last[:0], nil, nil
}

// hear ends the silence. If it lasted less than canaryGoodFor, the network may have worked all the time: canaries are
// asked at its start.
func (m *monitor) hear(now time.Time) {
	if !m.silent.IsZero() && now.Sub(m.silent) >= CanaryGoodFor {
		m.heard = now
	}
	m.silent = time.Time{}
}

// heardAt returns when the network last worked again after a silence.
func (m *monitor) heardAt() time.Time { m.mu.Lock(); defer m.mu.Unlock(); return m.heard }

// graceLocked returns for how long after the start of an outage in which others answer failures do not count.
func (m *monitor) graceLocked() time.Duration {
	if m.strong {
		return m.patience
	}
	return m.namesPatience
}

// concedes reports whether answers of name servers alone show that the network works.
func (m *monitor) concedes() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.conceded }

// answeredByNames records the answer of a name server to a lookup that began at a time. It returns true if that changes
// an outage.
func (m *monitor) answeredByNames(now, began time.Time) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.down || began.Before(m.since) || began.Before(m.silent) {
		return false
	}
	return m.answeredLocked(now)
}

// answered records the answer of a canary or a reference. It returns true if that changes an outage.
func (m *monitor) answered(now time.Time) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.strong = true
	return m.answeredLocked(now)
}

func (m *monitor) answeredLocked(now time.Time) (changed bool) {
	m.answeredAt = now
	m.hear(now)
	if !m.down {
		return false
	}
	m.down, m.probes, m.results = false, nil, nil
	if m.partial = !m.strict && m.jumped && now.Sub(m.since) < m.graceLocked(); !m.partial && !m.strict {
		m.mean = max(m.mean, m.share)
	}
	return true
}

// doubts reports whether failures are not counted now. over is true if this call ended that state.
func (m *monitor) doubts(now time.Time) (doubts, over bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.partial && now.Sub(m.since) >= m.graceLocked() {
		m.partial, over, m.conceded = false, true, !m.strong
		if m.mean = m.share; len(m.last) > 0 {
			bad, n := m.count(now)
			m.mean = max(m.mean, float64(bad)/float64(max(1, n)))
		}
	}
	return m.down || m.partial, over
}

// over ends the outage if the probes allow it. It evaluates them in the order of their start, because
// failures take longer than answers.
func (m *monitor) over(now time.Time) bool {
	for len(m.probes) > 0 && m.probes[0].ended {
		if got := m.probes[0].got; got != outcomeNone {
			m.results = append(m.results, got == outcomeBad)
		}
		m.probes = m.probes[1:]
	}
	m.results = m.results[max(0, len(m.results)-probesLast):]
	patience := m.patience
	// Twice as long each time, or few servers would be asked all again every 15 minutes.
	if !m.good && !m.silent.IsZero() {
		patience = max(patience, m.since.Sub(m.silent))
	}
	n, bad := len(m.results), 0
	for _, b := range m.results {
		if b {
			bad++
		}
	}
	switch {
	case n >= probesGood && bad == 0, n >= probesLast && float64(bad) <= 1+1.5*m.mean*probesLast:
	case now.Sub(m.since) >= patience && (m.good || m.vague != nil && m.vague()):
		m.mean = float64(bad) / float64(max(1, n))
	default:
		return false
	}
	m.down, m.partial, m.probes, m.results = false, false, nil, nil
	return true
}

// gap returns the least time between two requests now; 0 without an outage.
func (m *monitor) gap(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gapLocked(now)
}

func (m *monitor) gapLocked(now time.Time) time.Duration {
	switch {
	case !m.down:
		return 0
	case m.good || m.silent.IsZero():
		return Trickle
	}
	return min(max(now.Sub(m.silent)/TrickleShare, Trickle), TrickleMost)
}

// silence returns how long nothing has answered; 0 without an outage.
func (m *monitor) silence(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.down || m.silent.IsZero() {
		return 0
	}
	return now.Sub(m.silent)
}

// mayTry returns false during an outage if the last request began less than the gap ago.
func (m *monitor) mayTry(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.down || now.Sub(m.tried) >= m.gapLocked(now)
}

// take records the start of a request.
func (m *monitor) take(now time.Time) { m.mu.Lock(); m.tried = now; m.mu.Unlock() }

func (m *monitor) isDown() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.down }

// declare begins an outage that was detected by other means.
func (m *monitor) declare(now time.Time) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return false
	}
	m.fail(now, 1)
	return true
}

// workedSince reports whether a source other than this one has answered after at.
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

// Lacking reports whether this machine lacked a descriptor, port or memory for a connection. If that
// persists, it is an outage. A lack of memory for a body is not: fewer concurrent exchanges solve it.
func Lacking(err *fetch.Error) bool {
	return err.Kind == fetch.KindResources && err.Stage == fetch.StageDial
}

// Doubtful reports whether a failed exchange may be our failure, because the response is missing or
// incomplete.
func Doubtful(err *fetch.Error) bool {
	switch err.Kind {
	case fetch.KindTimeout, fetch.KindNoRoute, fetch.KindReset, fetch.KindEmptyReply, fetch.KindOther:
		return true
	}
	return false
}

// CutOff reports whether a response ended too early for a reason that may be ours. A server that sent until
// the end, but too slowly, shows that the network works.
func CutOff(resp *fetch.Response) bool {
	return resp.Truncated == fetch.TruncatedTime && resp.Flaws&fetch.FlawSlow == 0 ||
		resp.Truncated == fetch.TruncatedDisconnect
}
