package health

import (
	"fmt"
	"strings"
	"time"

	"drumbeat/internal/human"
)

// Kind is the outcome of an exchange with a host, as far as the health of the host is concerned.
type Kind uint8

const (
	// Page: 2xx.
	Page Kind = iota
	// Answer: neither a page, nor a failure, nor a refusal: a redirect, 404, …
	Answer
	// TooFast: 429 or 503.
	TooFast
	// ServerError: another 5xx, or bytes that are not an HTTP response.
	ServerError
	// Timeout: a time limit was exceeded.
	Timeout
	// Reset: the connection ended within the header of the response.
	Reset
	// Unreachable: the TCP connection or the TLS handshake failed.
	Unreachable
	// Refusal: 401 or 403.
	Refusal
	// Challenge: a page that asks for proof that the client is a person; see Challenged.
	Challenge
	// Hangup: the connection was cut right after the request was written. It is also a failure.
	Hangup
	// Payment: a request for payment or a licence; see Payments.
	Payment
	numKinds
)

var kindNames = [numKinds]string{"page", "answer", "too fast", "server error", "timeout", "reset",
	"unreachable", "refusal", "challenge", "hang-up", "request for payment"}

func (k Kind) String() string {
	if k < numKinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Failed reports whether the kind is a failure.
func (k Kind) Failed() bool { return k >= TooFast && k <= Unreachable || k == Hangup }

// Refused returns the weight of the kind in a run of refusals, 0 if it is not a refusal.
func (k Kind) Refused() int {
	switch k {
	case Refusal, Payment:
		return 1
	case Challenge, Hangup:
		return 3
	}
	return 0
}

// Good reports whether a healthy host stays healthy after the event, so that nothing needs to be stored.
func (k Kind) Good() bool { return k == Page || k == Answer }

// Event is one exchange.
type Event struct {
	Kind Kind
	// Status of the response, 0 without a response.
	Status int
	// RetryAfter is the Retry-After of the response, 0 without one. MaxRetryAfter bounds it.
	RetryAfter time.Duration
	// Place identifies the directory of the URL: see PlaceOf. Only Refusal and Payment use it.
	Place uint8
	// Seed differs between hosts: see Spread. Only failures use it.
	Seed uint8
}

// MaxRetryAfter bounds a Retry-After, whatever Policy.RetryAfterMax says: a date that is further ahead is more likely
// a mistake than a wish. The calendar of deferred URLs reaches as far.
const MaxRetryAfter = 60 * 24 * time.Hour

// Spread returns d, longer by up to a tenth. Seed and n determine the part, so a replay after a crash finds the
// same time. With one seed for each host and the number of its failures, hosts that failed together are not all asked
// again together. Seed 0 leaves d as it is.
func Spread(d time.Duration, seed uint64, n int) time.Duration {
	if seed == 0 {
		return d
	}
	x := (seed + uint64(n)<<32) * 0x9e3779b97f4a7c15
	x = (x ^ x>>29) * 0xbf58476d1ce4e5b9 // the mixer of SplitMix64
	return d + d/10/1024*time.Duration(x>>54)
}

// RootPlace is the Place of a path without a directory.
const RootPlace = 1

// PlaceOf returns the Place of a URL's path: an 8-bit hash of its first directory.
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

// Why is the reason of a back-off.
type Why uint8

const (
	// BackOff: a failure. The URLs of the host are delayed, not refused.
	BackOff Why = iota
	// Asked: a Retry-After longer than Policy.BackoffMax.
	Asked
	// Failing: Policy.Failures failures in a row.
	Failing
	// Unwelcome: Policy.Refusals refusals without a page in between.
	Unwelcome
	numWhys
)

var whyNames = [numWhys]string{"back-off", "Retry-After", "failing", "not welcome"}

func (w Why) String() string {
	if w < numWhys {
		return whyNames[w]
	}
	return fmt.Sprintf("why %d", uint8(w))
}

// End says whether the crawler stopped asking the host for good.
type End uint8

const (
	// Open: it did not.
	Open End = iota
	// NotWelcome: the host refused in three runs of refusals.
	NotWelcome
	// GivenUp: the host failed again after all its long back-offs.
	GivenUp
	// PaymentAsked: the host asked for payment in the last of three runs of refusals.
	PaymentAsked
	numEnds
)

var endNames = [numEnds]string{"open", "not welcome", "given up", "asks for payment"}

func (e End) String() string {
	if e < numEnds {
		return endNames[e]
	}
	return fmt.Sprintf("end %d", uint8(e))
}

// Policy maps events to back-offs. A zero value switches its part off.
type Policy struct {
	// Backoff is the back-off after the first failure; it doubles up to BackoffMax.
	Backoff, BackoffMax time.Duration
	// RetryAfterMax is the longest Retry-After that is obeyed in full; a longer one counts as this.
	RetryAfterMax time.Duration
	// Failures is the number of failures in a row that starts a long back-off; 0: never.
	Failures int
	// LongRest is the first long back-off; it doubles up to LongRestMax.
	LongRest, LongRestMax time.Duration
	// Rests is the number of long back-offs without a success after which a host is given up; 0: never give
	// up.
	Rests int
	// Refusals is the number of refusals without a page in between that makes a run; 0: refusals don't count.
	Refusals int
	// Unwelcome are the back-offs after the first and the second run. The third run ends the host.
	Unwelcome [2]time.Duration
}

// Defaults returns the default policy of a crawl.
func Defaults() Policy {
	return Policy{
		Backoff: 10 * time.Second, BackoffMax: time.Hour, RetryAfterMax: 30 * 24 * time.Hour,
		Failures: 10, LongRest: time.Hour, LongRestMax: 24 * time.Hour, Rests: 5,
		Refusals: 10, Unwelcome: [2]time.Duration{24 * time.Hour, 7 * 24 * time.Hour},
	}
}

// State is the health of a host. The zero State is a healthy host. Times are whole seconds.
type State struct {
	Failures int  // in a row
	Level    int  // doublings of the next back-off
	Rests    int  // long back-offs since the last success
	Refusals int  // weight of the refusals since the last page or back-off for refusals
	Stage    int  // runs of refusals so far, at most 3
	Pages    int  // in a row since the last refusal; counted while Stage is not 0
	Place    int  // Place of the last refusal of the run; 0 without one
	Paying   bool // the last refusal asked for payment
	Wide     bool // the refusals concern more than one Place, or the whole site
	Why      Why
	End      End
	Last     Kind // of the last event
	Status   int  // of the last event, 0 for none
	At       time.Time
	Until    time.Time // end of the back-off; zero without one
}

// Bounds of the counters, for the encoding. They lie far above every policy.
const (
	maxCount = 1<<16 - 1
	maxLevel = 40
	maxStage = 3
)

// oneDirectory multiplies Policy.Refusals when all refusals concern one directory.
const oneDirectory = 4

// Verdict is the consequence of an event.
type Verdict struct {
	Rest  time.Duration // back-off from now on that this event causes; 0: none
	Why   Why           // of Rest
	Began bool          // a long back-off began with this event: Why is Failing or Unwelcome
	Ended bool          // the host was given up, or became not welcome, with this event
	End   End
}

// ClockSlack is how far ahead of the clock a stored time may lie. A time further ahead comes from a clock
// that was wrong.
const ClockSlack = time.Hour

// FromTheFuture reports whether s was stored while the clock was ahead.
func (s *State) FromTheFuture(now time.Time) bool { return s.At.After(now.Add(ClockSlack)) }

// Correct corrects a state that was stored while the clock was ahead: it counts as stored now, and its back-off
// starts now instead of ending at a time of the wrong clock. Correct returns false if s needs no correction.
func (s *State) Correct(now time.Time) bool {
	if !s.FromTheFuture(now) {
		return false
	}
	if !s.Until.IsZero() {
		s.Until = whole(now, max(0, s.Until.Sub(s.At)))
	}
	s.At = whole(now, 0)
	return true
}

// Clean reports whether s holds nothing that must be stored.
func (s *State) Clean() bool { return *s == State{} }

// Note updates s with an event. It is deterministic: the same events at the same times give the same state.
func (s *State) Note(p *Policy, e Event, now time.Time) (v Verdict) {
	if s.End != Open {
		return Verdict{End: s.End}
	}
	s.Correct(now)
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

// Trouble reports whether the host fails or refuses. A host whose last answer was good, and that has neither
// failures, refusals nor a long back-off, is in no trouble: only its next back-off is longer than usual.
func (s *State) Trouble(now time.Time) bool {
	return s.End != Open || !s.Last.Good() || s.Failures+s.Rests+s.Refusals+s.Stage > 0 ||
		now.Before(s.Until) && (s.Why != BackOff || s.Until.Sub(now) >= Short)
}

// idle reports whether all counters are 0.
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
	v.Rest = Spread(v.Rest, uint64(e.Seed), s.Failures)
	if asked := min(e.RetryAfter, p.RetryAfterMax); asked > v.Rest {
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
	s.Paying = e.Kind == Payment
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
		if s.Paying {
			s.End = PaymentAsked
		}
		return Verdict{End: s.End, Ended: true}
	}
	return Verdict{Rest: p.Unwelcome[s.Stage-1], Why: Unwelcome, Began: true}
}

// page ends a run of refusals. After Policy.Refusals pages in a row it goes back one stage.
func (s *State) page(p *Policy) {
	s.Refusals, s.Place, s.Wide = 0, 0, false
	if s.Stage == 0 {
		return
	}
	if s.Pages++; s.Pages >= max(1, min(p.Refusals, maxCount)) {
		s.Stage, s.Pages = s.Stage-1, 0
	}
}

// double returns d·2^n, but not more than most.
func double(d time.Duration, n int, most time.Duration) time.Duration {
	for ; n > 0 && d < most; n-- {
		d *= 2
	}
	return min(d, most)
}

// Short is the longest back-off during which URLs of the host may wait in RAM.
const Short = time.Minute

// InBackoff returns until when URLs of the host wait on disk, and why. ok is false if they may stay in RAM:
// the host is not in back-off, or its back-off ends within Short.
func (s *State) InBackoff(now time.Time) (until time.Time, why Why, ok bool) {
	if s.Until.IsZero() || !now.Before(s.Until) || s.Why == BackOff && s.Until.Sub(now) < Short {
		return time.Time{}, 0, false
	}
	return s.Until, s.Why, true
}

// Cause names the cause of the back-off.
func (s *State) Cause() string {
	if s.Why == Unwelcome && s.Paying {
		return PaymentAsked.String()
	}
	return s.Why.String()
}

// String describes the state in one line.
func (s State) String() string {
	if s.Clean() {
		return "healthy"
	}
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if s.End != Open {
		add("%v for good", s.End)
	}
	if !s.Until.IsZero() {
		add("backs off until %s: %s", s.Until.UTC().Format(time.RFC3339), s.Cause())
	}
	counts := []struct {
		n         int
		one, many string
	}{
		{s.Failures, "failure", "failures in a row"}, {s.Rests, "long back-off", "long back-offs"},
		{s.Refusals, "refusal without a page", "refusals without a page"},
		{s.Stage, "run of refusals", "runs of refusals"},
	}
	for _, n := range counts {
		if n.n > 0 {
			add("%s", human.Counted(n.n, n.one, n.many))
		}
	}
	last := s.Last.String()
	if s.Status > 0 {
		last += fmt.Sprintf(" (status %d)", s.Status)
	}
	add("last: %s at %s", last, s.At.UTC().Format(time.RFC3339))
	return strings.Join(parts, "; ")
}
