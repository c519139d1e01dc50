package health

import (
	"fmt"
	"strings"
	"time"
)

// Kind says how an exchange with a host ended, as far as its health goes.
type Kind uint8

const (
	// Page: the host gave what was asked for (2xx).
	Page Kind = iota
	// Answer: it answered otherwise, but neither failed nor refused: a redirect, 404, …
	Answer
	// TooFast: 429 or 503.
	TooFast
	// ServerError: another 5xx, or bytes that are no answer.
	ServerError
	// Timeout: a limit of time was exceeded.
	Timeout
	// Reset: the connection ended in the midst of the answer's head.
	Reset
	// Unreachable: no connection, or no TLS.
	Unreachable
	// Refusal: 401 or 403.
	Refusal
	// Challenge: a page that wants proof that a person asks; see Challenged.
	Challenge
	// Hangup: the connection was cut right after the request was written. It is a failure, too.
	Hangup
	numKinds
)

var kindNames = [numKinds]string{"page", "answer", "too fast", "server error", "timeout", "reset", "unreachable", "refusal",
	"challenge", "hang-up"}

// String returns the kind in words.
func (k Kind) String() string {
	if k < numKinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Failed says whether the kind is a failure.
func (k Kind) Failed() bool { return k >= TooFast && k <= Unreachable || k == Hangup }

// Refused is the weight of the kind in a run of refusals; 0 for what is none.
func (k Kind) Refused() int {
	switch k {
	case Refusal:
		return 1
	case Challenge, Hangup:
		return 3
	}
	return 0
}

// Good says that an event is no reason to remember a host that is well.
func (k Kind) Good() bool { return k == Page || k == Answer }

// Event is one exchange.
type Event struct {
	Kind Kind
	// Status of the response, 0 for none.
	Status int
	// RetryAfter is what the response asked for, 0 for nothing. At most MaxRetryAfter of it counts.
	RetryAfter time.Duration
	// Place tells the directories of a site apart: see PlaceOf. It counts for Refusal.
	Place uint8
}

// MaxRetryAfter is how long a site may ask for at a time: a longer wish is obeyed up to this, then the host is asked again.
const MaxRetryAfter = 24 * time.Hour

// RootPlace is the Place of what lies in no directory.
const RootPlace = 1

// PlaceOf returns the Place of a URL's path: a hash of its first directory.
func PlaceOf(path string) uint8 {
	path = strings.TrimPrefix(path, "/")
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	dir, _, ok := strings.Cut(path, "/")
	if !ok {
		return RootPlace
	}
	h := uint32(2166136261)
	for i := range len(dir) {
		h = (h ^ uint32(dir[i])) * 16777619
	}
	return uint8(RootPlace + 1 + h%254)
}

// Why a host rests.
type Why uint8

const (
	// BackOff: after a failure, for as long as that costs. URLs are only late.
	BackOff Why = iota
	// Asked: its Retry-After is longer than any back-off.
	Asked
	// Failing: it failed Policy.Failures times in a row.
	Failing
	// Unwelcome: it refused Policy.Refusals times without a page between.
	Unwelcome
	numWhys
)

var whyNames = [numWhys]string{"back-off", "Retry-After", "failing", "not welcome"}

// String returns the reason in words.
func (w Why) String() string {
	if w < numWhys {
		return whyNames[w]
	}
	return fmt.Sprintf("why %d", uint8(w))
}

// End says whether a host is left alone for good.
type End uint8

const (
	// Open: it isn't.
	Open End = iota
	// NotWelcome: it refused in three runs.
	NotWelcome
	// GivenUp: it failed after all its long rests.
	GivenUp
	numEnds
)

var endNames = [numEnds]string{"open", "not welcome", "given up"}

// String returns the end in words.
func (e End) String() string {
	if e < numEnds {
		return endNames[e]
	}
	return fmt.Sprintf("end %d", uint8(e))
}

// Policy says what follows from events. Its zero values switch the parts off.
type Policy struct {
	// Backoff is the rest after the first failure, BackoffMax where its doubling ends.
	Backoff, BackoffMax time.Duration
	// Failures in a row after which a host rests for long; 0: never.
	Failures int
	// LongRest is the first of these rests, LongRestMax where its doubling ends.
	LongRest, LongRestMax time.Duration
	// Rests is how many of them a host has without a success before it is given up; 0: endlessly many.
	Rests int
	// Refusals without a page between after which a host isn't asked any more; 0: never.
	Refusals int
	// Unwelcome are the rests after the first and the second such run; after the third there is no further one.
	Unwelcome [2]time.Duration
}

// Defaults returns the policy of a crawl.
func Defaults() Policy {
	return Policy{
		Backoff: 10 * time.Second, BackoffMax: time.Hour,
		Failures: 10, LongRest: time.Hour, LongRestMax: 24 * time.Hour, Rests: 5,
		Refusals: 10, Unwelcome: [2]time.Duration{24 * time.Hour, 7 * 24 * time.Hour},
	}
}

// State is what is known of a host. The zero State is a host that is well. Times are whole seconds.
type State struct {
	Failures int  // in a row
	Level    int  // doublings of the next back-off
	Rests    int  // long rests since the last success
	Refusals int  // weight of the refusals since the last page or rest
	Stage    int  // runs of refusals so far, at most 3
	Pages    int  // in a row since the last refusal; counted while Stage is not 0
	Place    int  // of the run's refusals; 0 for none yet
	Wide     bool // they concern more than one Place, or the site as a whole
	Why      Why
	End      End
	Last     Kind // of the last event
	Status   int  // of the last event, 0 for none
	At       time.Time
	Until    time.Time // the host rests until then; zero for not
}

// Bounds of what is counted, for the coding; all are far beyond what a policy asks for.
const (
	maxCount = 1<<16 - 1
	maxLevel = 40
	maxStage = 3
)

// oneDirectory is how many times as many refusals are needed when all are for one directory.
const oneDirectory = 4

// Verdict is what follows from an event.
type Verdict struct {
	Rest  time.Duration // how long the host rests from now on; 0: not because of this
	Why   Why           // of Rest
	Began bool          // a long rest began with this event: Why is Failing or Unwelcome
	Ended bool          // the host was given up with this event
	End   End
}

// ClockSlack: what was noted so far ahead of the clock was noted by a clock that was ahead.
const ClockSlack = time.Hour

// FromTheFuture says whether s was noted by a clock that was ahead.
func (s *State) FromTheFuture(now time.Time) bool { return s.At.After(now.Add(ClockSlack)) }

// Mend takes what was noted by a clock that was ahead as noted now: a rest begins anew, instead of lasting until that clock's time has
// come. False if nothing had to be mended.
func (s *State) Mend(now time.Time) bool {
	if !s.FromTheFuture(now) {
		return false
	}
	if !s.Until.IsZero() {
		s.Until = whole(now, max(0, s.Until.Sub(s.At)))
	}
	s.At = whole(now, 0)
	return true
}

// Clean says whether there is nothing to be remembered.
func (s *State) Clean() bool { return *s == State{} }

// Note takes an event into account. The same events at the same times give the same state.
func (s *State) Note(p *Policy, e Event, now time.Time) (v Verdict) {
	if s.End != Open {
		return Verdict{End: s.End}
	}
	s.Mend(now)
	s.Last, s.Status, s.At = e.Kind, max(0, min(e.Status, 999)), whole(now, 0)
	if e.Kind.Failed() {
		v = s.fail(p, e)
	} else {
		s.Failures, s.Rests, s.Level = 0, 0, s.Level/2
	}
	if weight := e.Kind.Refused(); weight > 0 && v.End == Open {
		if w := s.refuse(p, e, weight); w.Rest > v.Rest || w.End != Open {
			v = w
		}
	}
	if e.Kind == Page {
		s.page(p)
	}
	if v.Rest > 0 {
		if until := whole(now, v.Rest); until.After(s.Until) {
			s.Until, s.Why = until, v.Why
		}
	}
	if s.End != Open {
		s.Until, s.Why = time.Time{}, BackOff
	} else if e.Kind.Good() && s.idle() && !now.Before(s.Until) {
		*s = State{}
	}
	return v
}

// idle says whether nothing is counted.
func (s *State) idle() bool {
	return s.Failures == 0 && s.Level == 0 && s.Rests == 0 && s.Refusals == 0 && s.Stage == 0
}

func (s *State) fail(p *Policy, e Event) Verdict {
	s.Failures = min(s.Failures+1, maxCount)
	v := Verdict{Rest: double(p.Backoff, s.Level, p.BackoffMax)}
	s.Level = min(s.Level+1, maxLevel)
	if p.Failures > 0 && s.Failures >= p.Failures {
		if p.Rests > 0 && s.Rests >= p.Rests {
			s.End = GivenUp
			return Verdict{End: GivenUp, Ended: true}
		}
		v = Verdict{Rest: max(v.Rest, double(p.LongRest, s.Rests, p.LongRestMax)), Why: Failing, Began: true}
		s.Rests = min(s.Rests+1, maxCount)
	}
	if asked := min(e.RetryAfter, MaxRetryAfter); asked > v.Rest {
		v.Rest = asked
		if v.Why == BackOff && asked > p.BackoffMax {
			v.Why = Asked
		}
	}
	return v
}

func (s *State) refuse(p *Policy, e Event, weight int) Verdict {
	s.Pages = 0
	s.Refusals = min(s.Refusals+weight, maxCount)
	place := int(e.Place)
	s.Wide = s.Wide || weight > 1 || place <= RootPlace || s.Place != 0 && s.Place != place
	s.Place = place
	limit := p.Refusals
	if !s.Wide {
		limit *= oneDirectory
	}
	if limit <= 0 || s.Refusals < limit {
		return Verdict{}
	}
	s.Refusals, s.Place, s.Wide = 0, 0, false
	s.Stage = min(s.Stage+1, maxStage)
	if s.Stage > len(p.Unwelcome) {
		s.End = NotWelcome
		return Verdict{End: NotWelcome, Ended: true}
	}
	return Verdict{Rest: p.Unwelcome[s.Stage-1], Why: Unwelcome, Began: true}
}

// page ends a run of refusals, and after some pages takes a stage back.
func (s *State) page(p *Policy) {
	s.Refusals, s.Place, s.Wide = 0, 0, false
	if s.Stage == 0 {
		return
	}
	if s.Pages++; s.Pages >= max(1, min(p.Refusals, maxCount)) {
		s.Stage, s.Pages = s.Stage-1, 0
	}
}

// double returns d·2^n, at most most.
func double(d time.Duration, n int, most time.Duration) time.Duration {
	for ; n > 0 && d < most; n-- {
		d *= 2
	}
	return min(d, most)
}

// Short is the longest back-off that URLs of the host may wait for in RAM.
const Short = time.Minute

// Resting returns until when URLs of the host wait on disk, and why; ok is false if they needn't: the host doesn't rest, or not
// for long.
func (s *State) InBackoff(now time.Time) (until time.Time, why Why, ok bool) {
	if s.Until.IsZero() || !now.Before(s.Until) || s.Why == BackOff && s.Until.Sub(now) < Short {
		return time.Time{}, 0, false
	}
	return s.Until, s.Why, true
}

// String says what is known in one line, without its times.
func (s State) String() string {
	if s.Clean() {
		return "well"
	}
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if s.End != Open {
		add("%v for good", s.End)
	}
	if !s.Until.IsZero() {
		add("rests until %s: %v", s.Until.UTC().Format(time.RFC3339), s.Why)
	}
	for _, n := range []struct {
		n    int
		what string
	}{{s.Failures, "failures in a row"}, {s.Rests, "long rests"}, {s.Refusals, "refusals without a page"}, {s.Stage, "runs of refusals"}} {
		if n.n > 0 {
			add("%d %s", n.n, n.what)
		}
	}
	last := s.Last.String()
	if s.Status > 0 {
		last += fmt.Sprintf(" (status %d)", s.Status)
	}
	add("last: %s at %s", last, s.At.UTC().Format(time.RFC3339))
	return strings.Join(parts, "; ")
}
