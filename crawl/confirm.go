package crawl

import (
	"context"
	"errors"
	"math"
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

// confirmTries is after how many failures a robots request is believed although nothing tells whether the network works. Its URLs
// are not refused because of it: they wait for robots.txt.
const confirmTries = 3

// vouchFor is for how long the word of a voucher is good; vouchOf how many are asked.
const (
	vouchFor = time.Minute
	vouchOf  = 3
)

// confirmWait is the wait before the next try.
func (r *ring) confirmWait() time.Duration {
	if r.inOutage() {
		return confirmOutage
	}
	return max(confirmLeast, min(r.opt.HostDelay, confirmMost))
}

// serverKey is the key of an address in the tables of outages.
func (r *ring) serverKey(addr netip.Addr) uint64 {
	b := addr.As16()
	return max(1, r.hasher.ServerKey(b[:]))
}

// watchExchange tells the monitor of the network how an exchange ended.
func (r *ring) watchExchange(try *probe, addr netip.Addr, parts weburl.Parts, err error, resp *fetch.Response) {
	now := time.Now()
	key := r.serverKey(addr)
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
	is, blind := r.known.is(key, now)
	if got == outcomeGood {
		r.known.answered(voucher{https: len(parts.Scheme) == len("https"), host: string(parts.Host), port: parts.Port, addr: addr, key: key}, now)
	}
	if r.net.end(try, now, key, got, is, blind) {
		r.tellOutage("network", &r.net)
	}
}

// watchLookup does the same for the name servers. Any answer is one, SERVFAIL too; and a name that wasn't answered before tells
// nothing when it isn't again.
func (r *ring) watchLookup(try *probe, pld uint64, first bool, err error) {
	got := outcomeGood
	var le *LookupError
	if err != nil && !(errors.As(err, &le) && le.NotFound) {
		got = outcomeNone
		if le != nil && le.NoAnswer {
			got = outcomeBad
		}
	}
	if r.dns.end(try, time.Now(), pld, got, first, false) {
		r.tellOutage("name servers", &r.dns)
	}
}

// tellOutage logs that an outage has begun or ended.
func (r *ring) tellOutage(what string, m *monitor) {
	m.mu.Lock()
	down, since := m.down, m.since
	m.mu.Unlock()
	if down {
		r.opt.Log.Error("outage: fetching rests but for one try a second; nothing that fails is counted", "of", what)
		r.at("outage")
		return
	}
	r.touch()
	r.wakeJobs.raise()
	r.wakeDispatch.raise()
	r.opt.Log.Warn("the outage is over: fetching goes on", "of", what, "lasted", time.Since(since).Round(time.Second))
}

// believed says whether a failure that could be ours may be counted: it is the second one in a row, of the URL (again) or of its host
// (doubted), and since this exchange began the network was seen to work elsewhere, or a voucher answered.
func (r *ring) believed(again, doubted bool, began time.Time, server uint64) bool {
	if !again && !doubted || r.inOutage() {
		return false
	}
	return r.net.workedSince(began, server) || r.vouched(again, server)
}

// vouched is true when other servers than this one answered within vouchFor, or none of those that are known may be asked. If none is
// known at all, the URL's own second failure (again) has to do. Otherwise some are asked, and the next failure will know.
func (r *ring) vouched(again bool, server uint64) bool {
	vouchers, known := r.known.others(server, vouchOf, func(host []byte) bool { return r.mayAsk(host) == nil && !r.fence.blockedHost(host) })
	if len(vouchers) == 0 {
		return again || known
	}
	r.known.mu.Lock()
	fresh := time.Since(r.known.asked) < vouchFor
	ask := !fresh && !r.known.asking
	r.known.asking = r.known.asking || ask
	r.known.mu.Unlock()
	if ask {
		r.fetchers.Add(1) // the caller is one of them, or a mover, which are waited for first
		go func() {
			defer r.fetchers.Done()
			r.askVouchers(r.running, vouchers)
			r.known.mu.Lock()
			r.known.asking = false
			r.known.mu.Unlock()
		}()
	}
	return fresh
}

// askVouchers asks servers, which answered a short while ago, for their robots.txt, politely: one answer proves that the network
// works. If none answers, that is an outage; if none can be asked now there is no telling.
func (r *ring) askVouchers(ctx context.Context, vouchers []voucher) {
	failed := false
	for _, v := range vouchers {
		resp := r.workers.response()
		err := r.getThrough(ctx, v.origin()+"/robots.txt", []netip.Addr{v.addr}, resp, nil, 0)
		r.workers.release(resp)
		var fe *fetch.Error
		switch {
		case err == nil || errors.As(err, &fe) && !doubtful(fe) && !fe.Ours():
			r.known.mu.Lock()
			r.known.asked = time.Now()
			r.known.mu.Unlock()
			return
		case fe != nil:
			failed = true
		}
	}
	if failed && ctx.Err() == nil && !r.inOutage() {
		r.net.declare(time.Now())
		r.tellOutage("network", &r.net)
	}
}

// unconfirmed puts a URL off for another try that decides; nothing is counted against its host.
func (r *ring) unconfirmed(g *polite.Grant, rec *weburl.Record, sum *robots.Summary, result *ending) error {
	rec.Flags |= weburl.FlagUnconfirmed
	if !r.inOutage() {
		rec.Faults = min(rec.Faults, math.MaxUint8-1) + 1
	}
	wait := r.confirmWait()
	result.Backoff = wait
	return r.settle(g, result, func(d *delta) error {
		d.count(CountUnconfirmed, 1)
		r.hosts.doubt(g.Item.Host, &sum.Health)
		return r.putOff(d, rec, PlaceRAM, time.Now().Add(wait), ReasonUnconfirmed)
	})
}
