package figures

import (
	"maps"
	"sync"
	"time"

	"drumbeat/internal/health"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// recent measures the windows of a snapshot, and when something answered last.
type recent struct {
	mu                       sync.Mutex // guards the fields below
	short, long              ring
	answered, robotsAnswered moment
	failed, doubted          int64 // failures, and those that may be ours, when a response came last
}

// moment is when a total of all runs grew last in this one.
type moment struct {
	known bool // total is one of this run
	total int64
	at    time.Time
}

// note records a total at a time. It reports whether it has grown, or is the first.
func (m *moment) note(total int64, at time.Time) (grown bool) {
	grown = total != m.total || !m.known
	if m.known && grown {
		m.at = at
	}
	m.known, m.total = true, total
	return grown
}

// A window has ringSamples-1 intervals of shortEvery or longEvery: ten seconds, ten minutes.
const (
	shortEvery  = time.Second
	longEvery   = time.Minute
	ringSamples = 11
)

// ring holds the totals of a window, oldest first.
type ring struct{ samples []sample }

// sample are totals at a time.
type sample struct {
	at                                      time.Time
	responses, pages, errors, unique, ended int64
	bytes, links                            int64
	failed                                  map[string]int64
}

func (r *ring) note(s *sample, every time.Duration) {
	if n := len(r.samples); n > 0 && s.at.Sub(r.samples[n-1].at) < every*9/10 {
		return
	}
	if len(r.samples) == ringSamples {
		r.samples = append(r.samples[:0], r.samples[1:]...)
	}
	r.samples = append(r.samples, *s)
}

// window returns the events since the oldest sample.
func (r *ring) window(now *sample) (w snapshot.Window) {
	if len(r.samples) == 0 {
		return w
	}
	was := &r.samples[0]
	w = snapshot.Window{Over: now.at.Sub(was.at), Responses: now.responses - was.responses,
		Pages: now.pages - was.pages, Errors: now.errors - was.errors, New: now.unique - was.unique,
		Ended: now.ended - was.ended, Bytes: now.bytes - was.bytes, Links: now.links - was.links,
		Failed: map[string]int64{}}
	for why, n := range now.failed {
		if n -= was.failed[why]; n > 0 {
			w.Failed[why] = n
			w.Failures += n
		}
	}
	return w
}

func sampleOf(s *snapshot.Snapshot) *sample {
	now := &sample{at: s.Time, responses: s.Count(state.CountResponses), pages: s.Count(state.CountPages),
		unique: s.Unique, ended: s.Ended(), failed: maps.Clone(s.Failed), links: s.Count(state.CountLinks),
		bytes: s.Count(state.CountBytesWire) + s.Count(state.CountRobotsBytes)}
	for code, n := range s.Codes {
		if k := health.KindOf(code); k == health.TooFast || k == health.ServerError {
			now.errors += n
		}
	}
	return now
}

// note adds the totals of a snapshot to the windows.
func (r *recent) note(s *snapshot.Snapshot) {
	now := sampleOf(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.short.note(now, shortEvery)
	r.long.note(now, longEvery)
}

// show adds to a snapshot the windows that end with it, and when something answered last.
func (r *recent) show(s *snapshot.Snapshot) {
	now := sampleOf(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	failed := s.Failures() + s.Count(state.CountRobotsFailed) + s.Count(state.CountRobotsStatus5xx)
	doubted := s.Count(state.CountUnconfirmed)
	if r.answered.note(s.Count(state.CountResponses), s.Time) {
		r.failed, r.doubted = failed, doubted
	}
	if s.Count(state.CountResponses) == 0 {
		r.doubted = 0 // those of earlier runs have the same cause
	}
	s.FailedSince, s.DoubtedSince = max(0, failed-r.failed), max(0, doubted-r.doubted)
	robotsTotal := int64(0)
	for c := state.CountRobotsStatusOther; c <= state.CountRobotsStatus5xx; c++ {
		robotsTotal += s.Count(c)
	}
	r.robotsAnswered.note(robotsTotal, s.Time)
	s.Answered, s.RobotsAnswered = r.answered.at, r.robotsAnswered.at
	s.Recent, s.Longer = r.short.window(now), r.long.window(now)
}
