package crawl

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"drumbeat/fetch"
	"drumbeat/internal/human"
	"drumbeat/polite"
	"drumbeat/robots"
	"drumbeat/weburl"
)

// A failure that may be ours is tried again after a wait between confirmLeast and confirmMost. The wait is
// the host's delay if that is within these limits. It must be long enough to detect an outage.
const (
	confirmLeast  = 3 * time.Second
	confirmMost   = 30 * time.Second
	confirmOutage = 30 * time.Second // while there is an outage
)

// retryWaits are the waits after failures that may be ours.
type retryWaits struct {
	confirm, confirmOutage time.Duration // before another attempt: at least, and during an outage
	ourFault               time.Duration // before another attempt of a URL after a fault of this machine
	patience               time.Duration // longest outage that may turn out to be none
}

// makeWaits returns the default waits, which a test may change.
func (o *Options) makeWaits() retryWaits {
	w := retryWaits{confirm: confirmLeast, confirmOutage: confirmOutage, ourFault: ourFaultPause, patience: monitorPatience}
	if o.tuneWaits != nil {
		o.tuneWaits(&w)
	}
	return w
}

// outages decides whether a failure is ours or the site's. Its goroutine "canaries" asks canaries during an
// outage.
type outages struct {
	*engine
	net, dns     monitor // one for exchanges, one for lookups
	known        known
	nameCanaries knownNames
	wakeCanaries signal   // raised at the start of an outage
	lookups      inFlight // lookups under way
	gaps         hostGaps
	named        atomic.Int64 // start of the last lookup that a public name server answered with an address, Unix ns
	reference    int          // number of the reference to ask next; of the goroutine that asks canaries

	dispatcher *dispatcher
	health     *hostHealth
	output     *output
	requests   *robotsRequests
}

func newOutages(e *engine) *outages {
	o := &outages{engine: e, wakeCanaries: newSignal()}
	o.dns.strict, o.dns.vague, o.net.vague = true, o.nameCanaries.vague, o.known.none
	o.net.patience, o.dns.patience, o.net.namesPatience = e.faultWaits.patience, e.faultWaits.patience, namesPatience
	return o
}

// confirmWait returns the wait before the next attempt.
func (o *outages) confirmWait() time.Duration {
	if o.inOutage() {
		return max(o.faultWaits.confirmOutage, o.gap(time.Now()))
	}
	return max(o.faultWaits.confirm, min(o.opt.HostDelay, confirmMost))
}

// serverKey returns the key of an address in the tables of outages.
func (o *outages) serverKey(addr netip.Addr) uint64 {
	b := addr.As16()
	return max(1, o.Hasher.ServerKey(b[:]))
}

// source returns the key under which failures of an address are counted. It is the key of the network, so
// that nobody can stop the crawl with the addresses of one network. While few networks are known, it is the
// key of the server.
func (o *outages) source(addr netip.Addr) uint64 {
	if o.known.wide() {
		addr = polite.Network(addr)
	}
	return o.serverKey(addr)
}

// watchExchange reports the end of an exchange to the monitor of the network.
func (o *outages) watchExchange(try *probe, addr netip.Addr, parts weburl.Parts, err error, resp *fetch.Response) {
	now := time.Now()
	key := o.serverKey(addr)
	got := outcomeNone
	var fe *fetch.Error
	switch {
	case err == nil && cutOff(resp):
		got = outcomeBad
	case err == nil:
		got = outcomeGood
	case errors.As(err, &fe) && (doubtful(fe) || lacking(fe)):
		got = outcomeBad
	}
	is, blind, any := o.known.is(key, now)
	o.watchHost(parts.Host, got, is && !(fe != nil && lacking(fe)), now)
	switch {
	case got == outcomeGood:
		o.known.answered(canary{https: len(parts.Scheme) == len("https"), host: string(parts.Host), port: parts.Port,
			addr: addr, key: key, net: o.serverKey(polite.Network(addr)), at: now})
		if err == nil && (resp.Status == http.StatusTooManyRequests || resp.Status >= http.StatusInternalServerError) {
			o.known.unfit(key) // it works, but is overloaded or asks for fewer requests
		}
	case got == outcomeBad && is:
		o.known.failed(key)
	case got == outcomeBad && any && (fe != nil && (fe.Kind == fetch.KindNoRoute || lacking(fe))):
		// Links to addresses of a family that this machine cannot reach are not an outage.
		got = outcomeNone
	}
	if o.net.end(try, now, o.source(addr), got, is, blind) {
		o.logOutage("network", &o.net)
	}
}

// watchHost notes whether a host answered. known reports that its server has answered before. A failure that may count
// is confirmed soon or not at all, so only others make the host's requests rarer.
func (o *outages) watchHost(name []byte, got outcome, known bool, now time.Time) {
	switch {
	case got == outcomeGood:
		o.gaps.answered(o.HostKey(name))
	case got == outcomeBad && o.inOutage():
		o.gaps.failed(o.HostKey(name), now, o.confirmWait(), hostGapMost)
	case got == outcomeBad && known:
		o.gaps.failed(o.HostKey(name), now, o.confirmWait(), 0)
	}
}

// watchLookup reports the end of a lookup to the monitor of the name servers. If a name has no address, or
// none that is allowed, that is a failure if it had one before; otherwise it means nothing. A repeated
// lookup without an answer does not count as a failure of a known name.
func (o *outages) watchLookup(try *probe, pld uint64, kind lookupKind, err error) {
	got := outcomeGood
	var le *LookupError
	switch {
	case kind&lookupCached != 0:
		got = outcomeNone
	case err == nil:
	case errors.Is(err, errForbidden), errors.As(err, &le) && le.NotFound:
		if got = outcomeNone; kind&lookupKnown != 0 {
			got = outcomeBad
		}
	case le != nil && le.NoAnswer:
		got = outcomeBad
	default:
		got = outcomeNone
	}
	if absent := errors.Is(err, errForbidden) || le != nil && le.NotFound; kind == 0 && (absent || err == nil) {
		o.nameCanaries.first(absent)
	}
	if o.dns.end(try, time.Now(), pld, got, kind&lookupRetry == 0, false) {
		o.logOutage("name servers", &o.dns)
	}
}

// logOutage logs the start or the end of an outage and wakes the stages concerned.
func (o *outages) logOutage(what string, m *monitor) {
	m.mu.Lock()
	down, since, partial, told := m.down, m.since, m.partial, m.told
	m.told = down || partial
	m.mu.Unlock()
	if down {
		o.testHook("outage")
		o.wakeCanaries.raise()
	} else {
		o.noteProgress()
		o.requests.outageEnded()
		o.dispatcher.outageEnded()
	}
	lasted := time.Since(since).Round(time.Second)
	switch {
	case down && told:
		o.opt.Log.Debug("outage again: fetching slows to one request a second or less", "of", what)
	case down:
		o.opt.Log.Error("outage: fetching slows to one request a second, and to fewer the longer nothing answers; failures are not counted",
			"of", what, "patience", o.opt.OutagePatience)
	case partial:
		o.opt.Log.Warn("others answer: fetching continues; failures are not counted for now",
			"of", what, "lasted", lasted)
	default:
		o.opt.Log.Warn("the outage is over: fetching continues", "of", what, "lasted", lasted)
	}
}

// confirmed reports whether a failure that may be ours counts. It must be the second in a row of the URL
// (again) or of its host (doubted). And since the exchange began another source must have answered, or a
// canary must have.
func (o *outages) confirmed(again, doubted bool, began time.Time, source uint64) bool {
	if !again && !doubted || o.inOutage() {
		return false
	}
	return o.net.workedSince(began, source) || o.canaryAnswered(again, source)
}

// confirmTries is the number of failures after which a failed request for robots.txt counts even if nothing
// tells whether the network works. It refuses no URLs: they wait for robots.txt.
const confirmTries = robots.MaxTries

// outageText describes the outage for the progress display, "" without one.
func (o *outages) outageText() string {
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
		if p := o.opt.OutagePatience; p > 0 {
			text += fmt.Sprintf("; the crawl ends in %s if nothing answers (--outage-patience)", human.Duration(max(0, p-now.Sub(since)).Round(time.Second)))
		}
		return text
	}
	return ""
}

// namesWorkedSince reports whether a name server has answered since at.
func (o *outages) namesWorkedSince(at time.Time) bool { return o.dns.workedSince(at, 0) }

// gap returns the least time between two requests in an outage; 0 without one.
func (o *outages) gap(now time.Time) time.Duration { return max(o.net.gap(now), o.dns.gap(now)) }

// lastsTooLong reports whether nothing has answered for Options.OutagePatience.
func (o *outages) lastsTooLong(now time.Time) bool {
	p := o.opt.OutagePatience
	return p > 0 && max(o.net.silence(now), o.dns.silence(now)) >= p
}

// mayTry reports whether a request may be sent: during an outage, one in each gap.
func (o *outages) mayTry(now time.Time) bool { return o.net.mayTry(now) && o.dns.mayTry(now) }

// take records that a request is granted at now.
func (o *outages) take(now time.Time) { o.net.take(now); o.dns.take(now) }

// try begins an exchange. Pass the result to watchExchange.
func (o *outages) try() *probe { return o.net.begin() }

// slowed reports whether the network or the name servers count as down, so that only one request in each gap is
// sent.
func (o *outages) slowed() bool { return o.net.isDown() || o.dns.isDown() }

// inOutage reports whether failures are not counted now.
func (o *outages) inOutage() bool {
	net, over := o.net.doubts(time.Now())
	if over {
		o.logOutage("network", &o.net)
	}
	return o.namesInDoubt() || net
}

// namesInDoubt reports whether answers of the name servers, or their absence, are not trusted now.
func (o *outages) namesInDoubt() bool {
	dns, over := o.dns.doubts(time.Now())
	if over {
		o.logOutage("name servers", &o.dns)
	}
	return dns || o.net.isDown()
}
