package robots

import (
	"crypto/sha1"
	"fmt"
	"net/netip"
	"time"

	"drumbeat/internal/health"
)

// Times and limits of the policy.
const (
	MaxHops      = 5                   // redirects that a robots request follows (RFC 9309, 2.3.1.2)
	Lifetime     = 24 * time.Hour      // of an answer (2.4)
	MinLifetime  = time.Hour           // lower bound of max-age
	MaxStale     = 30 * 24 * time.Hour // how long the last good copy applies while the site is unreachable
	FirstRetry   = time.Minute         // delay after the first failure; each further one doubles it
	MaxRetry     = 12 * time.Hour      // upper bound of that delay
	NoHostTime   = 24 * time.Hour      // how long a name counts as nonexistent
	ClockSlack   = health.ClockSlack   // a time further ahead was written by a wrong clock
	MissingLeast = 3 * time.Hour       // from the first answer that a name does not exist to confirmation
)

// Kind says how a robots request ended.
type Kind uint8

const (
	// Answered: a final HTTP response arrived, after any redirects; Status applies. The body may be cut at
	// MaxInput.
	Answered Kind = iota
	// NetworkFailure: connect, TLS, timeout, reset, a response that is not HTTP, or an incomplete body.
	NetworkFailure
	// DNSFailure: no answer from the name servers, or an error other than "no such name".
	DNSFailure
	// NoSuchHost: the name servers say that the name does not exist or has no address.
	NoSuchHost
	// TooManyRedirects: more than MaxHops, or a loop.
	TooManyRedirects
	// BadRedirect: a redirect without Location or to another scheme than http(s).
	BadRedirect
	// ForbiddenAddress: the crawler may not connect to the host's addresses.
	ForbiddenAddress
	// Internal: the response made this program panic, so the rules are unknown.
	Internal
)

var kindNames = [...]string{"answered", "network-failure", "dns-failure", "no-such-host", "too-many-redirects",
	"bad-redirect", "forbidden-address", "internal-error"}

// String returns the kind's name for logs.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// Fetched is the outcome of a robots request.
type Fetched struct {
	Kind   Kind
	Status int    // of the final response; only for Answered
	Body   []byte // decoded; only for Answered with 2xx
	// Digest is the SHA-1 of the body as received, without the framing of chunks; zero: not known. Without it
	// nothing is kept of the file but its rules.
	Digest [sha1.Size]byte
	// MaxAge is the Cache-Control: max-age of the response; valid if HasMaxAge.
	MaxAge    time.Duration
	HasMaxAge bool
	// RetryAfter is the Retry-After of the response; 0: none. It applies to failures and is capped at
	// health.MaxRetryAfter.
	RetryAfter time.Duration
	// Seed differs between origins and lengthens the delay after a failure (health.Spread); 0: not at all.
	Seed uint64
	// TLS says what is wrong with TLS; "" if nothing is, or if the request failed by something else.
	TLS string
	// Vouched says that other names were answered when this one had no such host or a forbidden address. For
	// a name that never had an address, this confirms the outcome at once; otherwise it must recur after
	// MissingLeast.
	Vouched bool
	// Addrs are the addresses of the origin, not of a redirect's target; none if unknown.
	Addrs       []netip.Addr
	AddrExpires time.Time
}

// verdict is the meaning of an outcome.
type verdict uint8

const (
	parse     verdict = iota // parse the body
	allowAll                 // no file, hence no rules
	failure                  // disallow and retry; an earlier copy applies meanwhile
	unchanged                // the earlier rules still apply
	noHost
	forbidden
)

// meaning implements RFC 9309, 2.3.1. had says that an earlier answer exists.
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
	case s == 304, s < 200, health.KindOf(s).Failed():
		return failure
	}
	return allowAll // a 3xx that is left is not a redirect to follow
}

// Outcome returns what is known about an origin after a robots request. prev is what was known before (the
// zero value for nothing), agent the crawler's product token, now the end of the request. It reads only its
// arguments. Times of prev later than now come from a clock that was ahead and count as now.
func Outcome(prev *HostData, f *Fetched, agent string, now time.Time) HostData {
	now = seconds(toSeconds(now))
	h := outcome(prev, f, agent, now)
	h.Health, h.Pages = prev.Health, prev.Pages
	if h.Failures > 0 {
		if f.Kind == NetworkFailure {
			h.TLS = f.TLS[:min(len(f.TLS), MaxTLSText)]
		}
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
		h.setFile(Parse(f.Body, agent), f.Digest)
	case allowAll:
		h.State = StateNoFile
	case unchanged:
		h.State = prev.State
		h.copyFile(prev)
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
		h = failed(prev, had, &Fetched{Seed: f.Seed}, now)
		h.MissingSince, h.RetryAt = since, since.Add(MissingLeast)
	case failure:
		h = failed(prev, had, f, now)
		if len(f.Addrs) == 0 {
			h.MissingSince = prev.MissingSince
		}
	}
	switch {
	case len(f.Addrs) > 0:
		h.SetAddrs(f.Addrs, f.AddrExpires)
	case h.Stale && !now.Before(prev.AddrExpires):
		// The lookup failed: keep no addresses, so Decide waits until RetryAt.
	default:
		h.addrs, h.naddrs, h.AddrExpires = prev.addrs, prev.naddrs, prev.AddrExpires
	}
	return h
}

// setFile sets what is kept of a file.
func (h *HostData) setFile(r *Rules, digest [sha1.Size]byte) {
	h.Rules = r.Append(nil)
	if digest == ([sha1.Size]byte{}) {
		return
	}
	h.Digest, h.Group = digest, r.Group
	if h.Signals = r.Signals.Append(nil); len(h.Rules)+len(h.Signals) > MaxEncoded {
		short := r.Signals.fit(maxSummedSignals)
		h.Signals = short.Append(nil)
	}
}

func (h *HostData) copyFile(from *HostData) {
	h.Rules, h.Digest, h.Group, h.Signals = from.Rules, from.Digest, from.Group, from.Signals
	h.Reservations = from.Reservations
}

// failed is the outcome of a failure: the last good copy if it is recent enough, else nothing is allowed.
func failed(prev *HostData, had bool, f *Fetched, now time.Time) HostData {
	h := HostData{State: StateUnreachable}
	fetched := prev.Fetched
	if fetched.After(now) {
		fetched = now
	}
	if had && now.Before(fetched.Add(MaxStale)) {
		h = HostData{State: prev.State, Stale: true, Fetched: fetched, Expires: fetched.Add(MaxStale)}
		h.copyFile(prev)
	}
	h.Failures = min(prev.Failures+1, MaxFailures)
	h.RetryAt = now.Add(max(health.Spread(RetryDelay(h.Failures), f.Seed, h.Failures),
		min(f.RetryAfter, health.MaxRetryAfter)))
	return h
}

// RetryDelay returns the least time from the n-th consecutive failure to the next request; health.Spread
// lengthens it.
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
