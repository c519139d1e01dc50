package crawl

import (
	"strings"
	"sync/atomic"
	"time"

	"drumbeat/crawl/fetcher"
	"drumbeat/internal/pace"
	"drumbeat/polite"
)

// limits are the limits that the operator allows now: requests a second, bytes a second and concurrent
// exchanges. The zero value has no limit.
//
// dispatch checks them before it asks polite for a grant. So a grant never waits for a limit, and hosts and
// servers keep their order. An unused grant is given back to the limits. For bandwidth this is only a gate,
// which avoids opening connections that would then be throttled; fetch enforces the limit itself as it reads.
type limits struct {
	rate      *pace.Rate
	bandwidth *pace.Bandwidth
	schedule  atomic.Pointer[pace.Schedule] // of connections
	flag      pace.Schedule                 // of bandwidth, by the options
	slots     int                           // number of connection slots

	held   atomic.Int32 // the limit that dispatch waited for last (limitRate, …)
	heldAt atomic.Int64 // when it last waited, Unix ns
}

// These are the limits that can hold back requests.
const (
	limitRate int32 = iota
	limitBandwidth
	limitConnections
)

// limitNames are their names in Snapshot.Waiting.
var limitNames = [...]string{
	limitRate: "rate limit", limitBandwidth: "bandwidth limit", limitConnections: "connection limit",
}

const (
	limitRetry = 500 * time.Millisecond // how often to check a schedule while no slot becomes free
	heldLast   = time.Second            // how long after dispatch waited for a limit that limit counts as holding
)

// openLimits sets up the limits of the options.
func (d *dispatcher) openLimits() {
	l := &d.limits
	now := time.Now()
	l.rate, l.bandwidth = pace.AdjustableRate(d.opt.rateOf(d.opt.Network.Rate), now), d.opt.Network.Bandwidth
	l.flag = l.bandwidth.Schedule()
	if d.opt.Cluster != nil && l.bandwidth != nil {
		l.bandwidth.Set(d.opt.rateOf(l.flag), now)
	}
	l.schedule.Store(&d.opt.Network.ConnectionSchedule)
	l.slots = cap(d.workers.slots)
	if d.opt.Network.ConnectionSchedule.Limits() || d.opt.Observe.Control != nil {
		d.workers.freed = d.wakeDispatch
	}
}

// flagBandwidth returns the bandwidth limit of the options.
func (d *dispatcher) flagBandwidth() pace.Schedule { return d.limits.flag }

// canLimitBandwidth reports whether the fetcher obeys a limit.
func (d *dispatcher) canLimitBandwidth() bool { return d.limits.bandwidth != nil }

// closeLimits gives the limiter of the bandwidth back as it was.
func (d *dispatcher) closeLimits() {
	if l := &d.limits; d.opt.Cluster != nil && l.bandwidth != nil {
		l.bandwidth.Set(l.flag, time.Now())
	}
}

// setLimits replaces the limits in force. Rates are those of all nodes of a cluster.
func (d *dispatcher) setLimits(rate, bandwidth, connections pace.Schedule) {
	now := time.Now()
	d.limits.rate.Set(d.opt.rateOf(rate), now)
	if d.limits.bandwidth != nil {
		d.limits.bandwidth.Set(d.opt.rateOf(bandwidth), now)
	}
	d.limits.schedule.Store(&connections)
	d.wakeDispatch.Raise()
}

// Allowed returns the number of connections that the limits allow now.
func (d *dispatcher) Allowed(now time.Time) int { return d.limits.connections(now) }

// Exchanges returns the number of exchanges under way, for pages and robots.txt.
func (d *dispatcher) Exchanges() int64 { return d.fetcher.UnderWay() }

// Hungry reports whether many connections are idle because no URL in RAM is due.
func (d *dispatcher) Hungry() bool { return d.workers.hungry() }

// Starved reports whether all connections are idle because no URL in RAM is due.
func (d *dispatcher) Starved() bool { return d.workers.starved() }

// Slots returns the number of connection slots in use and of all. waits reports that one in use only waits for a grant.
func (d *dispatcher) Slots() (taken, all int64, waits bool) {
	return int64(len(d.workers.slots)), int64(cap(d.workers.slots)), d.workers.waits.Load()
}

// HeldBy returns the name of the limit that holds back grants, "" for none.
func (d *dispatcher) HeldBy(now time.Time) string { return d.limits.heldBy(now) }

// limitsText describes the limits in force.
func (d *dispatcher) limitsText(now time.Time) string { return d.limits.text(now) }

// wait returns how long to wait before the next check of the limits; 0 if another request may be sent.
func (l *limits) wait(now time.Time, taken int) time.Duration {
	if l.schedule.Load().Limits() && taken > l.connections(now) {
		l.hold(limitConnections, now)
		return limitRetry
	}
	if wait := l.rate.Ready(now); wait > 0 {
		l.hold(limitRate, now)
		return wait
	}
	wait := l.bandwidth.Ready(now)
	if wait > 0 {
		l.hold(limitBandwidth, now)
	}
	return wait
}

// hold records the limit that dispatch waits for.
func (l *limits) hold(which int32, now time.Time) {
	l.held.Store(which)
	l.heldAt.Store(now.UnixNano())
}

// HeldBy returns the name of the limit that holds back requests, "" for none.
func (l *limits) heldBy(now time.Time) string {
	if at := l.heldAt.Load(); at == 0 || now.UnixNano()-at > int64(heldLast) {
		return ""
	}
	return limitNames[l.held.Load()]
}

// dropGrant ends a grant for which nothing was sent. It does not count as a visit or against a limit.
func (d *dispatcher) dropGrant(now time.Time, g *polite.Grant) {
	d.limits.rate.Give(now)
	d.limits.bandwidth.Give(now, fetcher.GrantKind(g))
	d.polite.Drop(now, g)
}

// connections returns the number of exchanges allowed now.
func (l *limits) connections(now time.Time) int {
	if !l.schedule.Load().Limits() {
		return l.slots
	}
	if n := l.schedule.Load().At(now); !pace.NoLimit(n) {
		return min(int(n), l.slots)
	}
	return l.slots
}

// text describes the limits in force and when they change.
func (l *limits) text(now time.Time) string {
	var parts []string
	for _, s := range [...]pace.Schedule{l.rate.Schedule(), l.bandwidth.Schedule(), *l.schedule.Load()} {
		if !s.Limits() {
			continue
		}
		part := s.Text(s.At(now))
		if next := s.Next(now); !next.IsZero() {
			form := "15:04"
			if next.Sub(now) >= 24*time.Hour {
				form = "Mon 15:04"
			}
			part += " until " + next.Format(form)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
