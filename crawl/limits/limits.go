package limits

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/crawl/options"
	"drumbeat/internal/pace"
	"drumbeat/state/changes"
)

// Options are the options of Limits.
type Options struct {
	Network  *options.Network
	TimeZone *time.Location // of schedules that the operator sets
	Control  bool           // the operator may set limits
	// Share returns the part of a rate that this node of a cluster has; nil: the crawl has one node.
	Share func(all pace.Schedule) pace.Schedule
	// Changed tells the dispatcher that the limits have changed.
	Changed func()
}

// Limits are the limits in force. They have no goroutine.
type Limits struct {
	opt       Options
	rate      *pace.Rate
	bandwidth *pace.Bandwidth
	schedule  atomic.Pointer[pace.Schedule] // of connections
	flag      pace.Schedule                 // of bandwidth, by the options

	mu    sync.Mutex // guards whole
	whole limits     // of all nodes, in force

	held   atomic.Int32 // the limit that dispatch waited for last (limitRate, …)
	heldAt atomic.Int64 // when it last waited, Unix ns
}

// limits are those that nodes divide.
type limits struct{ rate, bandwidth pace.Schedule }

// New returns Limits. Open puts those of the options in force.
func New(opt Options) *Limits { return &Limits{opt: opt} }

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

// share returns this node's part of a rate.
func (l *Limits) share(all pace.Schedule) pace.Schedule {
	if l.opt.Share == nil {
		return all
	}
	return l.opt.Share(all)
}

// Open puts the limits of the options in force.
func (l *Limits) Open() {
	now := time.Now()
	l.rate, l.bandwidth = pace.NewRate(l.share(l.opt.Network.Rate), now), l.opt.Network.Bandwidth
	l.flag = l.bandwidth.Schedule()
	l.whole = limits{l.opt.Network.Rate, l.flag}
	if l.opt.Share != nil && l.bandwidth != nil {
		l.bandwidth.Set(l.share(l.flag), now)
	}
	l.schedule.Store(&l.opt.Network.ConnectionSchedule)
}

// Close gives the limiter of the bandwidth back as it was.
func (l *Limits) Close() {
	if l.opt.Share != nil && l.bandwidth != nil {
		l.bandwidth.Set(l.flag, time.Now())
	}
}

// FlagBandwidth returns the bandwidth limit of the options.
func (l *Limits) FlagBandwidth() pace.Schedule { return l.flag }

// parse returns the limits of the operator's settings; "" is the flag's schedule.
func (l *Limits) parse(s *changes.Settings) (rate, bandwidth, connections pace.Schedule, err error) {
	parse := func(text string, unit pace.Unit, flag pace.Schedule) pace.Schedule {
		if text == "" {
			return flag
		}
		parsed, bad := pace.Parse(text, unit)
		err = errors.Join(err, bad)
		return parsed.In(l.opt.TimeZone)
	}
	rate = parse(s.Rate, pace.Pages, l.opt.Network.Rate)
	bandwidth = parse(s.Bandwidth, pace.Bits, l.flag)
	connections = parse(s.Connections, pace.Connections, l.opt.Network.ConnectionSchedule)
	if err == nil && bandwidth.Limits() && l.bandwidth == nil {
		err = errors.New("this crawl cannot limit its bandwidth")
	}
	return rate, bandwidth, connections, err
}

// Check returns why the limits of settings cannot be in force.
func (l *Limits) Check(s *changes.Settings) error {
	_, _, _, err := l.parse(s)
	return err
}

// Use puts the limits of settings in force, for requests that begin from now on.
func (l *Limits) Use(s *changes.Settings) error {
	rate, bandwidth, connections, err := l.parse(s)
	if err != nil {
		return err
	}
	if s.Rate+s.Bandwidth+s.Connections == "" && !l.opt.Control {
		return nil
	}
	l.mu.Lock()
	l.whole = limits{rate, bandwidth}
	l.mu.Unlock()
	l.schedule.Store(&connections)
	l.Divide()
	return nil
}

// Divide puts this node's part of the limits in force. The node calls it when its part has changed.
func (l *Limits) Divide() {
	l.mu.Lock()
	now := time.Now()
	l.rate.Set(l.share(l.whole.rate), now)
	if l.bandwidth != nil {
		l.bandwidth.Set(l.share(l.whole.bandwidth), now)
	}
	l.mu.Unlock()
	l.opt.Changed()
}

// InForce describes the limits in force: schedules, "none" for no limit.
func (l *Limits) InForce() (rate, bandwidth, connections string) {
	return l.rate.Schedule().String(), l.bandwidth.Schedule().String(), l.schedule.Load().String()
}

// Wait returns how long to wait before the next check of the limits; 0 if another request may be sent.
func (l *Limits) Wait(now time.Time, taken int) time.Duration {
	if l.schedule.Load().Limits() && taken > l.Allowed(now) {
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
func (l *Limits) hold(which int32, now time.Time) {
	l.held.Store(which)
	l.heldAt.Store(now.UnixNano())
}

// HeldBy returns the name of the limit that holds back requests, "" for none.
func (l *Limits) HeldBy(now time.Time) string {
	if at := l.heldAt.Load(); at == 0 || now.UnixNano()-at > int64(heldLast) {
		return ""
	}
	return limitNames[l.held.Load()]
}

// Take counts a request of a kind.
func (l *Limits) Take(now time.Time, kind pace.Kind) {
	l.rate.Take(now)
	l.bandwidth.Take(now, kind)
}

// Give undoes Take for a request that was not sent.
func (l *Limits) Give(now time.Time, kind pace.Kind) {
	l.rate.Give(now)
	l.bandwidth.Give(now, kind)
}

// Allowed returns the number of connections that the limits allow now.
func (l *Limits) Allowed(now time.Time) int {
	if !l.schedule.Load().Limits() {
		return l.opt.Network.Connections
	}
	if n := l.schedule.Load().At(now); !pace.NoLimit(n) {
		return min(int(n), l.opt.Network.Connections)
	}
	return l.opt.Network.Connections
}

// Text describes the limits in force and when they change.
func (l *Limits) Text(now time.Time) string {
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
