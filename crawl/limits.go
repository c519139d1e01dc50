package crawl

import (
	"strings"
	"sync/atomic"
	"time"

	"drumbeat/internal/pace"
	"drumbeat/polite"
)

// limits are what the operator allows now: requests a second, bytes a second, exchanges at once. Its zero allows all.
//
// They are asked before polite is asked for a grant: so a grant that is had then hasn't waited, and hosts and servers keep their
// order. A grant that comes to nothing is given back. Of bandwidth there is a gate here, so that no connections are opened that
// would sit throttled; the limit itself holds where fetch reads.
type limits struct {
	rate      *pace.Rate
	bandwidth *pace.Bandwidth
	schedule  pace.Schedule // of connections
	slots     int           // there are

	held   atomic.Int32 // the limit that dispatch waited for last, one of limitRate, …
	heldAt atomic.Int64 // unix ns, when it last did
}

// What may keep requests back.
const (
	limitRate int32 = iota
	limitBandwidth
	limitConnections
)

// limitNames are what Snapshot.Waiting calls them.
var limitNames = [...]string{limitRate: "rate limit", limitBandwidth: "bandwidth limit", limitConnections: "connection limit"}

const (
	limitRetry = 500 * time.Millisecond // how often a schedule is looked at while nobody frees a slot
	heldLast   = time.Second            // for how long a limit that was waited for counts as holding
)

// openLimits starts the limits of the options.
func (d *dispatcher) openLimits() {
	l := &d.limits
	l.rate, l.bandwidth = pace.NewRate(d.opt.Rate, time.Now()), d.opt.Bandwidth
	l.schedule, l.slots = d.opt.ConnectionSchedule, cap(d.workers.slots)
	if l.schedule.Limits() {
		d.workers.freed = d.wakeDispatch
	}
}

// allowed is how many connections the limits allow now, heldBy which limit holds grants back, "" for none.
func (d *dispatcher) allowed(now time.Time) int { return d.limits.connections(now) }

func (d *dispatcher) heldBy(now time.Time) string { return d.limits.heldBy(now) }

func (d *dispatcher) limitsText(now time.Time) string { return d.limits.text(now) }

// nextAllowed is polite's next grant if the limits allow another request now; else nil and how long to wait. The caller has
// taken a slot for it.
func (d *dispatcher) nextAllowed(now time.Time) (*polite.Grant, time.Duration) {
	if wait := d.limits.wait(now, len(d.workers.slots)); wait > 0 {
		return nil, wait
	}
	g, wait := d.polite.Next(now)
	if g != nil {
		d.limits.rate.Take(now)
		d.limits.bandwidth.Take(now, grantKind(g))
	}
	return g, wait
}

// wait is how long to wait before asking again whether another request may be sent; 0: it may.
func (l *limits) wait(now time.Time, taken int) time.Duration {
	if l.schedule.Limits() && taken > l.connections(now) {
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

// hold notes which limit dispatch waits for.
func (l *limits) hold(which int32, now time.Time) {
	l.held.Store(which)
	l.heldAt.Store(now.UnixNano())
}

// heldBy names the limit that keeps requests back; "" for none.
func (l *limits) heldBy(now time.Time) string {
	if at := l.heldAt.Load(); at == 0 || now.UnixNano()-at > int64(heldLast) {
		return ""
	}
	return limitNames[l.held.Load()]
}

// grantKind is what a grant is for.
func grantKind(g *polite.Grant) pace.Kind {
	if g.Item.Robots {
		return pace.Robots
	}
	return pace.Page
}

// dropGrant ends a grant for which nothing was sent; nothing counts then.
func (d *dispatcher) dropGrant(now time.Time, g *polite.Grant) {
	d.limits.rate.Give(now)
	d.limits.bandwidth.Give(now, grantKind(g))
	d.polite.Drop(now, g)
}

// connections is how many exchanges there may be now.
func (l *limits) connections(now time.Time) int {
	if !l.schedule.Limits() {
		return l.slots
	}
	if n := l.schedule.At(now); !pace.NoLimit(n) {
		return min(int(n), l.slots)
	}
	return l.slots
}

// text names the limits that hold now, and until when.
func (l *limits) text(now time.Time) string {
	var parts []string
	for _, s := range [...]pace.Schedule{l.rate.Schedule(), l.bandwidth.Schedule(), l.schedule} {
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
