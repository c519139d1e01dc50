package crawl

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"drumbeat/fetch"
	"drumbeat/polite"
	"drumbeat/robots"
	"drumbeat/weburl"
)

// How long a failure that could be ours waits before it is tried once more: as long as the host rests anyway, within bounds. An
// outage must be found out meanwhile.
const (
	confirmLeast  = 3 * time.Second
	confirmMost   = 30 * time.Second
	confirmOutage = 30 * time.Second // while there is an outage
)

// waits are how long what may be a fault of ours is waited for.
type waits struct {
	confirm, confirmOutage time.Duration // before another try, at least, and while there is an outage
	ourFault               time.Duration // of a URL, after a fault of this machine
	patience               time.Duration // with an outage that may be none
}

// makeWaits are the defaults, unless the options change them.
func (o *Options) makeWaits() waits {
	w := waits{confirm: confirmLeast, confirmOutage: confirmOutage, ourFault: ourFaultPause, patience: monitorPatience}
	if o.tuneWaits != nil {
		o.tuneWaits(&w)
	}
	return w
}

// outages decides whether a failure is ours or the site's. Its goroutine "canaries" asks canaries while there is an outage.
type outages struct {
	*engine
	net, dns     monitor // of exchanges, of lookups
	known        known
	nameCanaries knownNames
	wakeCanaries signal   // there is an outage: the canaries are to be asked
	lookups      inFlight // under way

	dispatcher *dispatcher
	health     *hostHealth
	output     *output
	requests   *robotsRequests
}

func newOutages(e *engine) *outages {
	o := &outages{engine: e, wakeCanaries: newSignal()}
	o.dns.strict = true
	o.net.patience, o.dns.patience = e.faultWaits.patience, e.faultWaits.patience
	return o
}

// confirmWait is the wait before the next try.
func (o *outages) confirmWait() time.Duration {
	if o.inOutage() {
		return o.faultWaits.confirmOutage
	}
	return max(o.faultWaits.confirm, min(o.opt.HostDelay, confirmMost))
}

// serverKey is the key of an address in the tables of outages.
func (o *outages) serverKey(addr netip.Addr) uint64 {
	b := addr.As16()
	return max(1, o.Hasher.ServerKey(b[:]))
}

// source is the key of what an address stands for when failures are counted: its network, so that nobody stops the crawl with the
// addresses of one; its server, as long as few networks are known.
func (o *outages) source(addr netip.Addr) uint64 {
	if o.known.wide() {
		addr = polite.Network(addr)
	}
	return o.serverKey(addr)
}

// watchExchange tells the monitor of the network how an exchange ended.
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
	switch {
	case got == outcomeGood:
		o.known.answered(canary{https: len(parts.Scheme) == len("https"), host: string(parts.Host), port: parts.Port, addr: addr, key: key,
			net: o.serverKey(polite.Network(addr)), at: now})
		if err == nil && (resp.Status == http.StatusTooManyRequests || resp.Status >= http.StatusInternalServerError) {
			o.known.unfit(key) // it works, but asks to be left alone for a while, or has trouble
		}
	case got == outcomeBad && is:
		o.known.failed(key)
	case got == outcomeBad && any && (fe != nil && (fe.Kind == fetch.KindNoRoute || lacking(fe))):
		got = outcomeNone // links to addresses of a family that this machine has no way to are no outage
	}
	if o.net.end(try, now, o.source(addr), got, is, blind) {
		o.tellOutage("network", &o.net)
	}
}

// watchLookup does the same for the name servers. That a name has no address, or none that may be connected to, is a failure if it had
// one; else it tells nothing. A name that wasn't answered before tells nothing when it isn't again.
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
	if o.dns.end(try, time.Now(), pld, got, kind&lookupAgain == 0, false) {
		o.tellOutage("name servers", &o.dns)
	}
}

// tellOutage logs that an outage has begun or ended.
func (o *outages) tellOutage(what string, m *monitor) {
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
		o.opt.Log.Debug("outage again: fetching rests but for one try a second", "of", what)
	case down:
		o.opt.Log.Error("outage: fetching rests but for one try a second; nothing that fails is counted", "of", what)
	case partial:
		o.opt.Log.Warn("the outage is of others: fetching goes on; what fails is not counted for now", "of", what, "lasted", lasted)
	default:
		o.opt.Log.Warn("the outage is over: fetching goes on", "of", what, "lasted", lasted)
	}
}

// confirmed says whether a failure that could be ours may be counted: it is the second one in a row, of the URL (again) or of its host
// (doubted), and since this exchange began the network was seen to work elsewhere, or a canary answered.
func (o *outages) confirmed(again, doubted bool, began time.Time, source uint64) bool {
	if !again && !doubted || o.inOutage() {
		return false
	}
	return o.net.workedSince(began, source) || o.canaryAnswered(again, source)
}

// confirmTries is after how many failures a robots request is confirmed although nothing tells whether the network works. Its URLs
// are not refused because of it: they wait for robots.txt.
const confirmTries = robots.MaxTries

// outageText is what the progress says; "" without an outage.
func (o *outages) outageText() string {
	for _, m := range []struct {
		m    *monitor
		text string
	}{{&o.net, "the network: known servers don't answer"}, {&o.dns, "the name servers: they don't answer"}} {
		m.m.mu.Lock()
		down, since := m.m.down, m.m.since
		m.m.mu.Unlock()
		if down {
			return fmt.Sprintf("%s since %s; one try a second, nothing counts", m.text, since.UTC().Format("15:04:05 MST"))
		}
	}
	return ""
}

// namesWorkedSince says whether a name server has answered since then.
func (o *outages) namesWorkedSince(at time.Time) bool { return o.dns.workedSince(at, 0) }

// mayTry is false while there is an outage and a try was made within the last second; take notes a try; try begins one
// exchange, whose outcome is for watchExchange.
func (o *outages) mayTry(now time.Time) bool { return o.net.mayTry(now) && o.dns.mayTry(now) }

func (o *outages) take(now time.Time) { o.net.take(now); o.dns.take(now) }

func (o *outages) try() *probe { return o.net.begin() }

// slowed is true while the network or the name servers are taken to be down: fetching rests but for a few tries.
func (o *outages) slowed() bool { return o.net.isDown() || o.dns.isDown() }

// inOutage is true while nothing that fails is counted.
func (o *outages) inOutage() bool {
	net, over := o.net.doubts(time.Now())
	if over {
		o.tellOutage("network", &o.net)
	}
	return o.namesInDoubt() || net
}

// namesInDoubt is true while no answer of a name server, or want of one, is confirmed.
func (o *outages) namesInDoubt() bool {
	dns, over := o.dns.doubts(time.Now())
	if over {
		o.tellOutage("name servers", &o.dns)
	}
	return dns || o.net.isDown()
}
