package outage

import (
	"sync"
	"time"
)

// A host that does not answer is asked ever more rarely while its failures do not count: in an outage, and for a while
// after something else has answered. The wait is half of the time since its first failure, at least that before another
// attempt, at most hostGapMost, and ends with the host's first answer. So of a day of silence it sees at most
// 2·(1 + ln(150/0.5)) + 17 = 31 requests, for pages, for robots.txt and as a canary together.
//
// When the network works again, all waits end at once, since they may have been our fault. So a wait is kept in RAM
// alone: the URL and the request for robots.txt return from disk after the gap of the outage, at most trickleMost, and
// wait again if the host still has to.

const (
	// HostGapShare is the wait as a share of the silence of the host, 1/hostGapShare.
	HostGapShare = 2
	HostGapMost  = 75 * time.Minute
	// maxHostGaps limits the number of hosts, at about 100 bytes. Above it any host is forgotten, and may be
	// asked early.
	maxHostGaps = 1 << 14
)

// hostGaps stores hosts that do not answer.
type hostGaps struct {
	mu    sync.Mutex // guards the fields below
	hosts map[uint64]hostGap
}

type hostGap struct {
	since time.Time // first failure since the last answer
	at    time.Time // last failure
	until time.Time // no request before
}

// failed records that a host did not answer. It is to rest for a share of its silence, at most most but at least least.
func (g *hostGaps) failed(host uint64, now time.Time, least, most time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h, ok := g.hosts[host]
	if !ok {
		if g.hosts == nil {
			g.hosts = map[uint64]hostGap{}
		}
		if len(g.hosts) >= maxHostGaps {
			for any := range g.hosts {
				delete(g.hosts, any)
				break
			}
		}
		h.since = now
	}
	h.at, h.until = now, now.Add(max(least, min(now.Sub(h.since)/HostGapShare, most)))
	g.hosts[host] = h
}

// answered records that a host answered.
func (g *hostGaps) answered(host uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.hosts, host)
}

// rest returns how long a host is still to rest, given when the network worked again: later than its failure, the host
// need not rest.
func (g *hostGaps) rest(host uint64, now, heard time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	h, ok := g.hosts[host]
	if !ok || h.at.Before(heard) {
		return 0
	}
	return max(0, h.until.Sub(now))
}

// Hold returns how long a host's request has to wait on disk before it is looked at again: 0 if it may be sent.
func (o *Watch) Hold(host uint64, now time.Time) time.Duration {
	rest := o.gaps.rest(host, now, o.net.heardAt())
	if o.Slowed() { // it may end at any time
		rest = min(rest, max(o.opt.Waits.ConfirmOutage, o.Gap(now)))
	}
	return rest
}

// resting reports whether a host is not to be asked because it has not answered.
func (o *Watch) resting(host []byte, now time.Time) bool {
	return o.gaps.rest(o.saved.HostKey(host), now, o.net.heardAt()) > 0
}
