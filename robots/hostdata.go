package robots

import (
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"drumbeat/internal/health"
)

// Limits of the encoded forms.
const (
	MaxAddrs   = 8   // addresses kept for a host; further ones are dropped
	MaxMore    = 700 // bytes of an encoded HostData without its rules, or its rules and signals
	MaxSummary = 192 // size of an encoded Summary in bytes
)

// State is the state of knowledge about an origin.
type State uint8

const (
	// StateNone: nothing is known, as in the zero HostData.
	StateNone State = iota
	// StateRules: a file was fetched; Rules are in force.
	StateRules
	// StateNoFile: the site has no file (4xx except 429); everything is allowed.
	StateNoFile
	// StateUnreachable: the request failed and there is no earlier copy; nothing is allowed for now.
	StateUnreachable
	// StateNoHost: the name does not exist.
	StateNoHost
	// StateForbidden: the crawler may not connect to the host's addresses.
	StateForbidden
)

var stateNames = [...]string{"none", "rules", "no file", "unreachable", "no host", "forbidden"}

// String returns the state in words.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// HostData is the value of RobotsCache: what is known about an origin. Times are in whole seconds, rounded
// down. The zero value means that nothing is known. It is not safe for concurrent changes.
type HostData struct {
	State State
	// Stale is set while Rules (or StateNoFile) come from an earlier request and the latest one failed.
	Stale bool
	// Failures is the number of failed requests since the last successful one, at most MaxFailures.
	Failures int
	// Fetched is when an answer last determined State; zero: never.
	Fetched time.Time
	// Expires is when State must be determined again. It is set except in StateNone and StateUnreachable.
	Expires time.Time
	// RetryAt is when the next request may be made after a failure; zero if the last request succeeded.
	RetryAt time.Time
	// AddrExpires is when the addresses must be looked up again; zero if there are none.
	AddrExpires time.Time
	// FailingSince is the time of the first of Failures; zero if there is none or it is unknown.
	FailingSince time.Time
	// MissingSince is when the name servers first said that the host has no address, or only forbidden ones;
	// zero if the last answer was different.
	MissingSince time.Time
	// Health records how the host has treated the crawler lately. Requests for robots.txt do not change it.
	Health health.State
	// Pages is the number of URLs admitted to fetching, if it is limited; at most MaxPages.
	Pages int64
	// TLS says why TLS failed, if the last request failed by that; at most MaxTLSText bytes.
	TLS string
	// Rules are encoded (Rules.Append). They are empty unless State is StateRules.
	Rules []byte
	// Digest is the SHA-1 of the file as a WARC file has it (WARC-Payload-Digest), and Group is the group in force;
	// GroupUnknown: neither is known. They are known in StateRules only.
	Digest [sha1.Size]byte
	Group  Group
	// Signals are encoded (Signals.Append); empty for none and without Group.
	Signals []byte
	// Reservations are encoded (Reservations.Append), of the tdmrep.json that was requested after robots.txt; empty:
	// it has not been requested. They are known in StateRules and StateNoFile only.
	Reservations []byte

	addrs  [MaxAddrs]netip.Addr
	naddrs int
}

// MaxTLSText is the length at which HostData.TLS is cut.
const MaxTLSText = 64

// MaxFailures and MaxPages are where the counts of failures and pages saturate.
const (
	MaxFailures = 1000
	MaxPages    = 1<<40 - 1
)

// Addrs returns the host's addresses, valid until h changes; empty if unknown.
func (h *HostData) Addrs() []netip.Addr { return h.addrs[:h.naddrs] }

// SetAddrs keeps the first MaxAddrs valid addresses. It converts IPv4-mapped ones to IPv4 and drops zones.
func (h *HostData) SetAddrs(addrs []netip.Addr, expires time.Time) {
	h.naddrs = 0
	for _, a := range addrs {
		if a.IsValid() && h.naddrs < MaxAddrs {
			h.addrs[h.naddrs] = a.Unmap().WithZone("")
			h.naddrs++
		}
	}
	h.AddrExpires = time.Time{}
	if h.naddrs > 0 {
		h.AddrExpires = seconds(toSeconds(expires))
	}
}

// CrawlDelay returns the Crawl-delay of the rules; 0: none.
func (h *HostData) CrawlDelay() time.Duration { return delayOf(h.Rules) }

// Decision is what to do with a URL of an origin.
type Decision uint8

const (
	// Request: request robots.txt first, because nothing is known or it is too old.
	Request Decision = iota
	// Resolve: the URL is allowed, but the addresses are unknown or too old.
	Resolve
	// Allow: the URL may be fetched.
	Allow
	// Disallow: the rules forbid the URL.
	Disallow
	// Wait: fetch nothing before the returned time.
	Wait
	// NoHost: the name does not exist.
	NoHost
	// Forbidden: the crawler may not connect to any address of the origin.
	Forbidden
	// Backoff: the host is in back-off until the returned time; Health.InBackoff says why.
	Backoff
	// NotWelcome: the host has refused the crawler too often; final.
	NotWelcome
	// GivenUp: the host has failed too often; final.
	GivenUp
	// PaymentAsked: the host has asked for payment too often; final.
	PaymentAsked
	// Reserve: request tdmrep.json first. Only crawls that want it decide so (WantsReservations).
	Reserve
)

var decisionNames = [...]string{"request", "resolve", "allow", "disallow", "wait", "no host", "forbidden",
	"back-off", "not welcome", "given up", "asks for payment", "request tdmrep.json"}

// String returns the decision in words.
func (d Decision) String() string {
	if int(d) < len(decisionNames) {
		return decisionNames[d]
	}
	return fmt.Sprintf("decision %d", uint8(d))
}

// Decide returns what to do with a URL, given as path with query. The time is set only for Wait and Backoff.
// A stale copy decides until the next request is due; then the URL waits for that request like any other. If
// the host is in back-off or was given up, nothing is requested from it, but URLs that the rules forbid and
// unreachable origins are still reported as such.
func (h *HostData) Decide(pathQuery []byte, now time.Time) (Decision, time.Time) {
	return h.DecideFor(pathQuery, now, false)
}

// DecideFor is Decide. If own is set, the site belongs to the operator, who wants its rules to forbid nothing.
func (h *HostData) DecideFor(pathQuery []byte, now time.Time, own bool) (Decision, time.Time) {
	d, at := h.decide(pathQuery, now, own)
	if h.Health.Clean() || d == Disallow || d == NoHost || d == Forbidden {
		return d, at
	}
	switch h.Health.End {
	case health.NotWelcome:
		return NotWelcome, time.Time{}
	case health.GivenUp:
		return GivenUp, time.Time{}
	case health.PaymentAsked:
		return PaymentAsked, time.Time{}
	}
	if until, _, ok := h.Health.InBackoff(now); ok && !(d == Wait && at.After(until)) {
		return Backoff, until
	}
	return d, at
}

// fromTheFuture reports whether a clock that was ahead wrote h, which would otherwise stay fresh for too
// long.
func (h *HostData) fromTheFuture(now time.Time) bool {
	return h.Fetched.After(now.Add(ClockSlack)) || h.FailingSince.After(now.Add(ClockSlack)) ||
		h.RetryAt.After(now.Add(health.MaxRetryAfter+ClockSlack)) ||
		h.AddrExpires.After(now.Add(maxAddrLife+ClockSlack))
}

// maxAddrLife is far above the life of an address in any resolver.
const maxAddrLife = 7 * 24 * time.Hour

// decide is Decide without regard to the host's health.
func (h *HostData) decide(pathQuery []byte, now time.Time, own bool) (Decision, time.Time) {
	if h.fromTheFuture(now) {
		return Request, time.Time{}
	}
	switch h.State {
	case StateRules, StateNoFile:
		if !now.Before(h.Expires) || h.Stale && !now.Before(h.RetryAt) {
			return Request, time.Time{}
		}
		if h.State == StateRules && !own && !Match(h.Rules, pathQuery) {
			return Disallow, time.Time{}
		}
		if h.naddrs == 0 || !now.Before(h.AddrExpires) {
			if h.naddrs == 0 && now.Before(h.RetryAt) { // the last lookup failed
				return Wait, h.RetryAt
			}
			return Resolve, time.Time{}
		}
		return Allow, time.Time{}
	case StateUnreachable:
		if now.Before(h.RetryAt) {
			return Wait, h.RetryAt
		}
	case StateNoHost, StateForbidden:
		if now.Before(h.Expires) {
			if h.State == StateForbidden {
				return Forbidden, time.Time{}
			}
			return NoHost, time.Time{}
		}
	}
	return Request, time.Time{}
}

// Coding of HostData; see docs/reference/files/robots.md. Times are unsigned varints of Unix seconds, 0 for none.
//
//	version   1 byte   3, or 4 with reservations
//	state     1 byte
//	flags     1 byte   bit 0: stale, 1: failingSince, 2: pages, 3: health, 4: missingSince, 5: tls, 6: file,
//	                   7: signals
//	naddrs    1 byte   0 to 8
//	v6        1 byte   bit i: address i has 16 bytes, else 4
//	failures  varint
//	fetched, expires, retryAt, addrExpires   varints
//	failingSince   varint; only with its flag
//	missingSince   varint; only with its flag
//	pages     varint, not 0; only with its flag
//	health    1 byte length, coding of health.State; only with its flag
//	tls       1 byte length, 1 to 64, text; only with its flag
//	file      group 1 byte, 1 to 3, digest 20 bytes; only with its flag
//	signals   varint length, see signals.go; only with its flag and that of file
//	reservations   varint length, not 0, see reservations.go; only in version 4
//	addresses
//	rules     to the end, see rules.go; only in StateRules
const hostVersion, reservedVersion = 3, 4

const (
	flagStale = 1 << iota
	flagFailingSince
	flagPages
	flagHealth
	flagMissing
	flagTLS
	flagFile
	flagSignals
)

// flags returns the flags byte of h.
func (h *HostData) flags() (flags byte) {
	for _, f := range [...]struct {
		is   bool
		flag byte
	}{{h.Stale, flagStale}, {!h.FailingSince.IsZero(), flagFailingSince}, {h.Pages > 0, flagPages},
		{!h.Health.Clean(), flagHealth}, {!h.MissingSince.IsZero(), flagMissing},
		{h.TLS != "", flagTLS}, {h.Group != GroupUnknown, flagFile}, {len(h.Signals) > 0, flagSignals}} {
		if f.is {
			flags |= f.flag
		}
	}
	return flags
}

// Append appends the coding of h to dst: at most MaxEncoded + MaxMore bytes.
func (h *HostData) Append(dst []byte) []byte {
	flags := h.flags()
	version := byte(hostVersion)
	if len(h.Reservations) > 0 {
		version = reservedVersion
	}
	dst = append(dst, version, byte(h.State), flags)
	dst = appendCounts(dst, h.Addrs())
	dst = binary.AppendUvarint(dst, uint64(min(h.Failures, MaxFailures)))
	for _, t := range [...]time.Time{h.Fetched, h.Expires, h.RetryAt, h.AddrExpires} {
		dst = binary.AppendUvarint(dst, toSeconds(t))
	}
	if flags&flagFailingSince != 0 {
		dst = binary.AppendUvarint(dst, toSeconds(h.FailingSince))
	}
	if flags&flagMissing != 0 {
		dst = binary.AppendUvarint(dst, toSeconds(h.MissingSince))
	}
	if flags&flagPages != 0 {
		dst = binary.AppendUvarint(dst, uint64(min(h.Pages, MaxPages)))
	}
	if flags&flagHealth != 0 {
		dst = appendHealth(dst, &h.Health)
	}
	if flags&flagTLS != 0 {
		text := h.TLS[:min(len(h.TLS), MaxTLSText)]
		dst = append(append(dst, byte(len(text))), text...)
	}
	if flags&flagFile != 0 {
		dst = append(append(dst, byte(h.Group)), h.Digest[:]...)
	}
	if flags&flagSignals != 0 {
		dst = append(binary.AppendUvarint(dst, uint64(len(h.Signals))), h.Signals...)
	}
	if version == reservedVersion {
		dst = append(binary.AppendUvarint(dst, uint64(len(h.Reservations))), h.Reservations...)
	}
	dst = appendAddrs(dst, h.Addrs())
	return append(dst, h.Rules...)
}

// Decode sets h to what b encodes. Rules, Signals and Reservations refer to b. It checks everything but these
// three, whose readers check them.
func (h *HostData) Decode(b []byte) error {
	d := decoder{b: b}
	version, state, flags := d.byte(), d.byte(), d.byte()
	if !d.bad && version != hostVersion && version != reservedVersion {
		return fmt.Errorf("robots: decode host data: got version %d, want %d", version, hostVersion)
	}
	*h = HostData{State: State(state), Stale: flags&flagStale != 0}
	n, v6 := d.counts()
	h.Failures = int(d.uvarint(MaxFailures))
	for _, t := range [...]*time.Time{&h.Fetched, &h.Expires, &h.RetryAt, &h.AddrExpires} {
		*t = seconds(d.uvarint(maxSeconds))
	}
	if flags&flagFailingSince != 0 {
		h.FailingSince = seconds(d.uvarint(maxSeconds))
	}
	if flags&flagMissing != 0 {
		h.MissingSince = seconds(d.uvarint(maxSeconds))
	}
	if flags&flagPages != 0 {
		h.Pages = int64(d.uvarint(MaxPages))
	}
	if flags&flagHealth != 0 {
		d.health(&h.Health)
	}
	if flags&flagTLS != 0 {
		h.TLS = string(d.bytes(int(d.byte())))
	}
	if flags&flagFile != 0 {
		h.Group = Group(d.byte())
		copy(h.Digest[:], d.bytes(sha1.Size))
	}
	if flags&flagSignals != 0 {
		h.Signals = d.bytes(int(d.uvarint(MaxSignals)))
	}
	if version == reservedVersion {
		h.Reservations = d.bytes(int(d.uvarint(MaxReservations)))
	}
	h.naddrs = d.addrs(h.addrs[:], n, v6)
	if len(d.b) > 0 {
		h.Rules = d.b
	}
	switch {
	case d.bad, state >= byte(len(stateNames)), flags != h.flags(), len(h.TLS) > MaxTLSText, h.Group > GroupOwn,
		h.Group != GroupUnknown && h.State != StateRules, len(h.Signals) > 0 && h.Group == GroupUnknown,
		version == reservedVersion && (len(h.Reservations) == 0 || state > byte(StateNoFile)),
		len(d.b) > MaxEncoded, h.State == StateRules && (len(d.b) == 0 || d.b[0] != rulesVersion),
		h.State != StateRules && len(d.b) > 0, (n == 0) != h.AddrExpires.IsZero():
		*h = HostData{}
		return fmt.Errorf("robots: decode host data: bad coding of %d bytes", len(b))
	}
	return nil
}

func appendHealth(dst []byte, s *health.State) []byte {
	at := len(dst)
	dst = s.Append(append(dst, 0))
	dst[at] = byte(len(dst) - at - 1)
	return dst
}

// health decodes what appendHealth wrote.
func (d *decoder) health(s *health.State) {
	if s.Decode(d.bytes(int(d.byte()))) != nil {
		d.bad = true
	}
}

// Summary is the small part of a HostData that accompanies an admitted URL.
type Summary struct {
	// CrawlDelay is the Crawl-delay of the site; 0: none.
	CrawlDelay time.Duration
	// Failures is as in HostData.
	Failures int
	// AddrExpires is as in HostData.
	AddrExpires time.Time
	// VerdictExpires is as in HostData.
	VerdictExpires time.Time
	// Health is as in HostData.
	Health health.State
	// Statement is the coding of a Statement (Statement.Append); empty: nothing is known.
	Statement []byte

	addrs  [MaxAddrs]netip.Addr
	naddrs int
}

// Addrs returns the addresses, valid until s changes.
func (s *Summary) Addrs() []netip.Addr { return s.addrs[:s.naddrs] }

// VerdictExpires is when the rules' verdict on a URL expires: Expires, or RetryAt of a stale copy.
func (h *HostData) VerdictExpires() time.Time {
	if h.Stale && h.RetryAt.Before(h.Expires) {
		return h.RetryAt
	}
	return h.Expires
}

// Summary returns the small part of h.
func (h *HostData) Summary() Summary {
	return Summary{
		CrawlDelay: h.CrawlDelay(), Failures: h.Failures, AddrExpires: h.AddrExpires,
		VerdictExpires: h.VerdictExpires(), Health: h.Health, addrs: h.addrs, naddrs: h.naddrs,
	}
}

// Coding of Summary: version byte 2, naddrs and v6 as above, varints of Crawl-delay in milliseconds,
// failures, addrExpires and verdictExpires, health as above or length 0 if the host is well, addresses. The
// last of eight addresses may be omitted to keep within maxShort. Version 3 has a statement, not empty, with its
// length as a varint before the addresses.
const (
	summaryVersion   = 2
	statementVersion = 3
)

// maxShort is the size of a summary without statement. It leaves room for the shortest statement and its length.
const maxShort = MaxSummary - 2 - leastStatement

const maxSummaryHead = 3 + 4 + 2 + 5 + 5 + 1 + health.MaxState

// Append appends the coding of s to dst: at most MaxSummary bytes, if s has no statement or one of SetStatement.
func (s *Summary) Append(dst []byte) []byte {
	addrs, room := s.Addrs(), maxShort-maxSummaryHead
	for i, a := range addrs {
		if room -= a.BitLen() / 8; room < 0 {
			addrs = addrs[:i]
			break
		}
	}
	version := byte(summaryVersion)
	if len(s.Statement) > 0 {
		version = statementVersion
	}
	dst = append(dst, version)
	dst = appendCounts(dst, addrs)
	dst = binary.AppendUvarint(dst, uint64(s.CrawlDelay/time.Millisecond))
	dst = binary.AppendUvarint(dst, uint64(min(s.Failures, MaxFailures)))
	dst = binary.AppendUvarint(dst, toSeconds(s.AddrExpires))
	dst = binary.AppendUvarint(dst, toSeconds(s.VerdictExpires))
	if s.Health.Clean() {
		dst = append(dst, 0)
	} else {
		dst = appendHealth(dst, &s.Health)
	}
	if version == statementVersion {
		dst = append(binary.AppendUvarint(dst, uint64(len(s.Statement))), s.Statement...)
	}
	return appendAddrs(dst, addrs)
}

// Decode sets s to what b encodes and rejects anything else, but it does not decode the statement, which refers to b.
// It also reads version 1, without health, which URLs in queues may have.
func (s *Summary) Decode(b []byte) error {
	d := decoder{b: b}
	version := d.byte()
	if !d.bad && (version < 1 || version > statementVersion) {
		return fmt.Errorf("robots: decode summary: got version %d, want %d", version, summaryVersion)
	}
	*s = Summary{}
	n, v6 := d.counts()
	s.CrawlDelay = time.Duration(d.uvarint(uint64(MaxCrawlDelay/time.Millisecond))) * time.Millisecond
	s.Failures = int(d.uvarint(MaxFailures))
	s.AddrExpires = seconds(d.uvarint(maxSeconds))
	s.VerdictExpires = seconds(d.uvarint(maxSeconds))
	if version != 1 && len(d.b) > 0 && d.b[0] == 0 {
		d.byte()
	} else if version != 1 {
		d.health(&s.Health)
		d.bad = d.bad || s.Health.Clean()
	}
	if version == statementVersion {
		s.Statement = d.bytes(int(d.uvarint(MaxStatement)))
		d.bad = d.bad || len(s.Statement) == 0
	}
	s.naddrs = d.addrs(s.addrs[:], n, v6)
	if d.bad || len(d.b) > 0 || len(b) > MaxSummary {
		*s = Summary{}
		return fmt.Errorf("robots: decode summary: bad coding of %d bytes", len(b))
	}
	return nil
}

// SetStatement sets the statement, coded in the memory of buf. It is shortened so that the summary fits.
func (s *Summary) SetStatement(l *Statement, buf []byte) {
	var room [MaxSummary]byte
	s.Statement = nil
	s.Statement = l.Append(buf[:0], MaxSummary-2-len(s.Append(room[:0])))
}

// maxSeconds limits coded times to 5 bytes: until the year 3058.
const maxSeconds = 1<<35 - 1

func toSeconds(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(max(1, min(t.Unix(), maxSeconds)))
}

func seconds(s uint64) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(int64(s), 0).UTC()
}

func appendCounts(dst []byte, addrs []netip.Addr) []byte {
	var v6 byte
	for i, a := range addrs {
		if a.Is6() {
			v6 |= 1 << i
		}
	}
	return append(dst, byte(len(addrs)), v6)
}

func appendAddrs(dst []byte, addrs []netip.Addr) []byte {
	for _, a := range addrs {
		if a.Is6() {
			b := a.As16()
			dst = append(dst, b[:]...)
		} else {
			b := a.As4()
			dst = append(dst, b[:]...)
		}
	}
	return dst
}

// counts decodes the two bytes of appendCounts.
func (d *decoder) counts() (n int, v6 byte) {
	n, v6 = int(d.byte()), d.byte()
	if n > MaxAddrs || v6>>n != 0 {
		d.bad = true
		return 0, 0
	}
	return n, v6
}

// addrs decodes n addresses into dst and returns their number.
func (d *decoder) addrs(dst []netip.Addr, n int, v6 byte) int {
	for i := range n {
		size := 4
		if v6&(1<<i) != 0 {
			size = 16
		}
		a, ok := netip.AddrFromSlice(d.bytes(size))
		if !ok || a.Is4In6() {
			d.bad = true
			return 0
		}
		dst[i] = a
	}
	return n
}
