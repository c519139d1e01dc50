package robots

import (
	"fmt"
	"net/netip"
	"time"

	"drumbeat/internal/health"
)

// Times of the policy.
const (
	MaxRedirects = 5                   // hops that a robots request follows (RFC 9309, 2.3.1.2)
	Lifetime     = 24 * time.Hour      // of an answer (2.4)
	MinLifetime  = time.Hour           // a shorter max-age is read as this
	MaxStale     = 30 * 24 * time.Hour // how long the last good copy may serve while the site is unreachable
	FirstRetry   = time.Minute         // delay after the first failure, doubling with each
	MaxRetry     = 12 * time.Hour      // where the doubling ends
	NoHostTime   = 24 * time.Hour      // how long a name is taken not to exist
	ClockSlack   = health.ClockSlack   // what lies so far ahead of the clock was noted when the clock was wrong
	MissingLeast = 3 * time.Hour       // between the first answer that a name doesn't exist and the one that is confirmed
)

// Kind says how a robots request ended.
type Kind uint8

const (
	// Answered: a final HTTP answer was had, redirects followed; Status counts. The body may be cut at
	// MaxInput.
	Answered Kind = iota
	// NetworkFailure: connect, TLS, timeout, reset, an answer that isn't HTTP, a body broken off.
	NetworkFailure
	// DNSFailure: no answer from the name servers, or an error other than "no such name".
	DNSFailure
	// NoSuchHost: the name servers say that the name doesn't exist or has no address.
	NoSuchHost
	// TooManyRedirects: more than MaxRedirects hops, or a loop.
	TooManyRedirects
	// BadRedirect: a redirect that leads nowhere: no Location, or one that isn't http(s).
	BadRedirect
	// ForbiddenAddress: the host's addresses may not be connected to.
	ForbiddenAddress
	// Internal: what came made this program panic, so the rules aren't known.
	Internal
)

var kindNames = [...]string{"answered", "network-failure", "dns-failure", "no-such-host", "too-many-redirects", "bad-redirect", "forbidden-address", "internal-error"}

// String returns the kind in a word, as in logs.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// Fetched is what a robots request brought.
type Fetched struct {
	Kind   Kind
	Status int    // of the final answer; only for Answered
	Body   []byte // decoded; only for Answered with 2xx
	// MaxAge is the answer's Cache-Control: max-age. It counts if HasMaxAge.
	MaxAge    time.Duration
	HasMaxAge bool
	// RetryAfter is the answer's Retry-After, 0 for none. It counts for failures and is capped at Lifetime.
	RetryAfter time.Duration
	// Vouched: other names were answered when this one had no such host or a forbidden address. That is confirmed at once of a name that
	// never had an address; else it must be so again after MissingLeast.
	Vouched bool
	// Addrs are the addresses of the origin (not of a redirect's target); none if they weren't had.
	Addrs       []netip.Addr
	AddrExpires time.Time
}

// verdict is the meaning of an answer.
type verdict uint8

const (
	parse     verdict = iota // the body has the rules
	allowAll                 // no file, so no rules
	failure                  // undefined: disallow, try again, an earlier copy serves meanwhile
	unchanged                // the earlier rules hold on
	noHost
	forbidden
)

// meaning is RFC 9309, 2.3.1: the table of the policy.
func (f *Fetched) meaning(had bool) verdict {
	switch f.Kind {
	case NoSuchHost:
		return noHost
	case ForbiddenAddress:
		return forbidden
	case TooManyRedirects, BadRedirect:
		return allowAll
	case Answered:
	default:
		return failure
	}
	switch s := f.Status; {
	case s >= 200 && s < 300:
		return parse
	case s == 304 && had:
		return unchanged
	case s == 304, s == 429:
		return failure
	case s >= 300 && s < 500: // a 3xx that is left is no redirect that can be followed
		return allowAll
	}
	return failure // 5xx, and what is no status at all
}

// Outcome returns what is known of an origin after a robots request: prev is what was known before (the
// zero value for nothing), agent our product token, now the end of the request. It reads only its
// arguments. Times of prev that are later than now are those of a clock that was ahead: they count as now.
func Outcome(prev *HostData, f *Fetched, agent string, now time.Time) HostData {
	now = seconds(toSeconds(now))
	h := outcome(prev, f, agent, now)
	h.Health, h.Pages = prev.Health, prev.Pages
	if h.Failures > 0 {
		if h.FailingSince = prev.FailingSince; h.FailingSince.IsZero() || h.FailingSince.After(now) {
			h.FailingSince = now
		}
	}
	return h
}

func outcome(prev *HostData, f *Fetched, agent string, now time.Time) HostData {
	had := prev.State == StateRules || prev.State == StateNoFile
	h := HostData{Fetched: now, Expires: now.Add(f.lifetime())}
	switch f.meaning(had) {
	case parse:
		h.State = StateRules
		h.Rules = Parse(f.Body, agent).Append(nil)
	case allowAll:
		h.State = StateNoFile
	case unchanged:
		h.State, h.Rules = prev.State, prev.Rules
	case noHost, forbidden:
		since := prev.MissingSince
		if since.IsZero() || since.After(now) {
			since = now
		}
		if now.Sub(since) >= MissingLeast || f.Vouched && !had && prev.naddrs == 0 {
			h.State, h.Expires, h.MissingSince = StateNoHost, now.Add(NoHostTime), since
			if f.Kind == ForbiddenAddress {
				h.State = StateForbidden
			}
			h.Failures = min(prev.Failures+1, MaxFailures)
			return h
		}
		h = failed(prev, had, 0, now)
		h.MissingSince, h.RetryAt = since, since.Add(MissingLeast)
	case failure:
		h = failed(prev, had, f.RetryAfter, now)
		if len(f.Addrs) == 0 {
			h.MissingSince = prev.MissingSince
		}
	}
	switch {
	case len(f.Addrs) > 0:
		h.SetAddrs(f.Addrs, f.AddrExpires)
	case h.Stale && !now.Before(prev.AddrExpires): // the lookup failed: no addresses, so that nobody looks them up before RetryAt
	default:
		h.addrs, h.naddrs, h.AddrExpires = prev.addrs, prev.naddrs, prev.AddrExpires
	}
	return h
}

// failed is the outcome of a failure: the last good copy if there is one that isn't too old, else nothing
// allowed.
func failed(prev *HostData, had bool, retryAfter time.Duration, now time.Time) HostData {
	h := HostData{State: StateUnreachable}
	fetched := prev.Fetched
	if fetched.After(now) {
		fetched = now
	}
	if had && now.Before(fetched.Add(MaxStale)) {
		h = HostData{State: prev.State, Stale: true, Rules: prev.Rules, Fetched: fetched}
		h.Expires = fetched.Add(MaxStale)
	}
	h.Failures = min(prev.Failures+1, MaxFailures)
	h.RetryAt = now.Add(max(RetryDelay(h.Failures), min(retryAfter, Lifetime)))
	return h
}

// RetryDelay returns the time between the n-th failure in a row and the next request.
func RetryDelay(failures int) time.Duration {
	d := FirstRetry
	for i := 1; i < failures && d < MaxRetry; i++ {
		d *= 2
	}
	return min(d, MaxRetry)
}

func (f *Fetched) lifetime() time.Duration {
	if !f.HasMaxAge {
		return Lifetime
	}
	return max(MinLifetime, min(f.MaxAge, Lifetime))
}
