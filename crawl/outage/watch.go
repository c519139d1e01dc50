package outage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/resolve"
	"drumbeat/fetch"
	"drumbeat/internal/health"
	"drumbeat/internal/human"
	"drumbeat/polite"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// A failure that may be ours is tried again after a wait between confirmLeast and confirmMost. The wait is
// the host's delay if that is within these limits. It must be long enough to detect an outage.
const (
	confirmLeast  = 3 * time.Second
	confirmMost   = 30 * time.Second
	confirmOutage = 30 * time.Second // while there is an outage
)

// Waits are the waits after failures that may be ours.
type Waits struct {
	Confirm, ConfirmOutage time.Duration // before another attempt: at least, and during an outage
	Patience               time.Duration // longest outage that may turn out to be none
}

// DefaultWaits returns the waits of a crawl. Tests over real sockets have shorter ones.
func DefaultWaits() Waits {
	return Waits{Confirm: confirmLeast, ConfirmOutage: confirmOutage, Patience: monitorPatience}
}

// Resolver resolves a host name to addresses. dnscache.Resolver is the implementation. pld groups names for
// the limit on concurrent lookups. Errors are *resolve.Error.
type Resolver interface {
	LookupHost(ctx context.Context, host, pld string) (resolve.Lookup, error)
}

// FreshResolver is a Resolver with a cache that can also look up a name without it.
type FreshResolver interface {
	LookupFresh(ctx context.Context, host, pld string) (resolve.Lookup, error)
}

// Options are the options of a Watch.
type Options struct {
	Log        *slog.Logger
	HostDelay  time.Duration
	Patience   time.Duration // ends the crawl if nothing has answered for so long; 0: never
	References []string      // canonical URLs, at most MaxReferences
	Resolver   Resolver
	// AllowedAddr reports whether the fetcher connects to an address; nil means to all.
	AllowedAddr func(netip.Addr) bool
	Waits       Waits
}

// Rules are the blacklist.
type Rules interface {
	BlockedHost(host []byte) bool
	BlockedAddr(addr netip.Addr) bool
	// Open returns the addresses that are not blacklisted.
	Open(addrs []netip.Addr) []netip.Addr
}

// Asker makes requests.
type Asker interface {
	// AskNow requests a URL, for its answer alone, if the delays of its host allow it now. what is its
	// purpose, for tests; verdict is that on its certificate.
	AskNow(ctx context.Context, what, url string, addrs []netip.Addr) (asked bool, verdict string, err error)
}

// Hosts knows which hosts are in trouble.
type Hosts interface {
	InBackoff(host uint64, now time.Time) bool
}

// Others are the stages that a Watch calls. Their methods are called from any goroutine.
type Others struct {
	Rules  Rules
	Asker  Asker
	Hosts  Hosts
	Looked func(name string, answer *resolve.Lookup) // a name server has answered
	Ended  func()                                    // an outage has ended: fetching continues
}

// Watch decides whether a failure is ours or the site's. It is safe for concurrent use. Its goroutine runs AskCanaries
// and asks canaries during an outage.
type Watch struct {
	run    *account.Run
	saved  *state.Saved
	opt    Options
	others Others

	net, dns     monitor // one for exchanges, one for lookups
	known        known
	nameCanaries knownNames
	wakeCanaries account.Signal // raised at the start of an outage
	lookups      atomic.Int64   // lookups under way
	gaps         hostGaps
	named        atomic.Int64 // start of the last lookup that a public name server answered with an address, Unix ns
	reference    int          // number of the reference to ask next; of the goroutine that asks canaries
}

// New returns a Watch. Wire must give it the other stages before it is used.
func New(run *account.Run, saved *state.Saved, opt Options) *Watch {
	o := &Watch{run: run, saved: saved, opt: opt, wakeCanaries: account.NewSignal()}
	o.dns.strict, o.dns.vague, o.net.vague = true, o.nameCanaries.vague, o.known.none
	o.net.patience, o.dns.patience, o.net.namesPatience = opt.Waits.Patience, opt.Waits.Patience, namesPatience
	return o
}

// Wire gives the Watch the stages that it calls.
func (o *Watch) Wire(others Others) { o.others = others }

// ConfirmWait returns the wait before the next attempt.
func (o *Watch) ConfirmWait() time.Duration {
	if o.InOutage() {
		return max(o.opt.Waits.ConfirmOutage, o.Gap(time.Now()))
	}
	return max(o.opt.Waits.Confirm, min(o.opt.HostDelay, confirmMost))
}

// serverKey returns the key of an address in the tables of outages.
func (o *Watch) serverKey(addr netip.Addr) uint64 {
	b := addr.As16()
	return max(1, o.saved.Hasher.ServerKey(b[:]))
}

// Source returns the key under which failures of an address are counted. It is the key of the network, so
// that nobody can stop the crawl with the addresses of one network. While few networks are known, it is the
// key of the server.
func (o *Watch) Source(addr netip.Addr) uint64 {
	if o.known.wide() {
		addr = polite.Network(addr)
	}
	return o.serverKey(addr)
}

// WatchExchange reports the end of an exchange to the monitor of the network.
func (o *Watch) WatchExchange(try *probe, addr netip.Addr, parts weburl.Parts, err error, resp *fetch.Response) {
	now := time.Now()
	key := o.serverKey(addr)
	got := outcomeNone
	var fe *fetch.Error
	switch {
	case err == nil && CutOff(resp):
		got = outcomeBad
	case err == nil:
		got = outcomeGood
	case errors.As(err, &fe) && (Doubtful(fe) || Lacking(fe)):
		got = outcomeBad
	}
	is, blind, any := o.known.is(key, now)
	o.watchHost(parts.Host, got, is && !(fe != nil && Lacking(fe)), now)
	switch {
	case got == outcomeGood:
		o.known.answered(canary{https: len(parts.Scheme) == len("https"), host: string(parts.Host), port: parts.Port,
			addr: addr, key: key, net: o.serverKey(polite.Network(addr)), at: now})
		if err == nil && health.KindOf(resp.Status).Failed() {
			o.known.unfit(key) // it works, but is overloaded or asks for fewer requests
		}
	case got == outcomeBad && is:
		o.known.failed(key)
	case got == outcomeBad && any && (fe != nil && (fe.Kind == fetch.KindNoRoute || Lacking(fe))):
		// Links to addresses of a family that this machine cannot reach are not an outage.
		got = outcomeNone
	}
	if o.net.end(try, now, o.Source(addr), got, is, blind) {
		o.logOutage("network", &o.net)
	}
}

// watchHost notes whether a host answered. known reports that its server has answered before. A failure that may count
// is confirmed soon or not at all, so only others make the host's requests rarer.
func (o *Watch) watchHost(name []byte, got outcome, known bool, now time.Time) {
	switch {
	case got == outcomeGood:
		o.gaps.answered(o.saved.HostKey(name))
	case got == outcomeBad && o.InOutage():
		o.gaps.failed(o.saved.HostKey(name), now, o.ConfirmWait(), HostGapMost)
	case got == outcomeBad && known:
		o.gaps.failed(o.saved.HostKey(name), now, o.ConfirmWait(), 0)
	}
}

// watchLookup reports the end of a lookup to the monitor of the name servers. If a name has no address, or
// none that is allowed, that is a failure if it had one before; otherwise it means nothing. A repeated
// lookup without an answer does not count as a failure of a known name.
func (o *Watch) watchLookup(try *probe, pld uint64, kind LookupKind, err error) {
	got := outcomeGood
	var le *resolve.Error
	switch {
	case kind&lookupCached != 0:
		got = outcomeNone
	case err == nil:
	case errors.Is(err, ErrForbidden), errors.As(err, &le) && le.NotFound:
		if got = outcomeNone; kind&LookupKnown != 0 {
			got = outcomeBad
		}
	case le != nil && le.NoAnswer:
		got = outcomeBad
	default:
		got = outcomeNone
	}
	if absent := errors.Is(err, ErrForbidden) || le != nil && le.NotFound; kind == 0 && (absent || err == nil) {
		o.nameCanaries.first(absent)
	}
	if o.dns.end(try, time.Now(), pld, got, kind&LookupAgain == 0, false) {
		o.logOutage("name servers", &o.dns)
	}
}

// logOutage logs the start or the end of an outage and wakes the stages concerned.
func (o *Watch) logOutage(what string, m *monitor) {
	m.mu.Lock()
	down, since, partial, told := m.down, m.since, m.partial, m.told
	m.told = down || partial
	m.mu.Unlock()
	if down {
		o.run.Hook("outage")
		o.wakeCanaries.Raise()
	} else {
		o.run.NoteProgress()
		o.others.Ended()
	}
	lasted := time.Since(since).Round(time.Second)
	switch {
	case down && told:
		o.opt.Log.Debug("outage again: fetching slows to one request per second or less", "of", what)
	case down:
		o.opt.Log.Error("outage: fetching slows to one request per second, and further while nothing answers; "+
			"failures are not counted", "of", what, "patience", o.opt.Patience)
	case partial:
		o.opt.Log.Warn("other servers answer: fetching continues; failures are not counted for now",
			"of", what, "lasted", lasted)
	default:
		o.opt.Log.Warn("the outage is over: fetching continues", "of", what, "lasted", lasted)
	}
}

// Confirmed reports whether a failure that may be ours counts. It must be the second in a row of the URL
// (again) or of its host (doubted). And since the exchange began another source must have answered, or a
// canary must have.
func (o *Watch) Confirmed(again, doubted bool, began time.Time, source uint64) bool {
	if !again && !doubted || o.InOutage() {
		return false
	}
	return o.net.workedSince(began, source) || o.canaryAnswered(again, source)
}

// ConfirmTries is the number of failures after which a failed request for robots.txt counts even if nothing
// tells whether the network works. It refuses no URLs: they wait for robots.txt.
const ConfirmTries = robots.MaxTries

// Text describes the outage for the progress display, "" without one.
func (o *Watch) Text() string {
	for _, m := range []struct {
		m    *monitor
		text string
	}{{&o.net, "network: known servers do not answer"}, {&o.dns, "name servers do not answer"}} {
		m.m.mu.Lock()
		now := time.Now()
		down, since, gap := m.m.down, m.m.since, m.m.gapLocked(now)
		if m.m.silent.Before(since) && !m.m.silent.IsZero() {
			since = m.m.silent
		}
		m.m.mu.Unlock()
		if !down {
			continue
		}
		text := fmt.Sprintf("%s since %s; one request in %s, failures are not counted", m.text,
			since.UTC().Format("2006-01-02 15:04:05 MST"), human.Duration(gap.Round(time.Second)))
		if p := o.opt.Patience; p > 0 {
			text += fmt.Sprintf("; the crawl ends in %s if nothing answers (--outage-patience)",
				human.Duration(max(0, p-now.Sub(since)).Round(time.Second)))
		}
		return text
	}
	return ""
}

// NamesWorkedSince reports whether a name server has answered since at.
func (o *Watch) NamesWorkedSince(at time.Time) bool { return o.dns.workedSince(at, 0) }

// Gap returns the least time between two requests in an outage; 0 without one.
func (o *Watch) Gap(now time.Time) time.Duration { return max(o.net.gap(now), o.dns.gap(now)) }

// LastsTooLong reports whether nothing has answered for Options.OutagePatience.
func (o *Watch) LastsTooLong(now time.Time) bool {
	p := o.opt.Patience
	return p > 0 && max(o.net.silence(now), o.dns.silence(now)) >= p
}

// MayTry reports whether a request may be sent: during an outage, one in each gap.
func (o *Watch) MayTry(now time.Time) bool { return o.net.mayTry(now) && o.dns.mayTry(now) }

// Take records that a request is granted at now.
func (o *Watch) Take(now time.Time) { o.net.take(now); o.dns.take(now) }

// Try begins an exchange. Pass the result to watchExchange.
func (o *Watch) Try() *probe { return o.net.begin() }

// Slowed reports whether the network or the name servers count as down, so that only one request in each gap is
// sent.
func (o *Watch) Slowed() bool { return o.net.isDown() || o.dns.isDown() }

// InOutage reports whether failures are not counted now.
func (o *Watch) InOutage() bool {
	net, over := o.net.doubts(time.Now())
	if over {
		o.logOutage("network", &o.net)
	}
	return o.NamesInDoubt() || net
}

// NamesInDoubt reports whether answers of the name servers, or their absence, are not trusted now.
func (o *Watch) NamesInDoubt() bool {
	dns, over := o.dns.doubts(time.Now())
	if over {
		o.logOutage("name servers", &o.dns)
	}
	return dns || o.net.isDown()
}
