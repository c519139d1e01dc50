package gate

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Bounds of requests for robots.txt that other nodes ask this one to make.
const (
	robotsAnswers    = 16                // at once, 500 KiB each; more are told to ask again
	robotsAnswersPLD = 4                 // of these, for one PLD
	robotsAnswerTime = 20 * time.Second  // then one that is still under way makes room for another
	robotsMoment     = 2 * time.Second   // until that has happened
	robotsSlow       = robotsAnswers / 2 // places for PLDs whose last request took so long
	robotsSlowFor    = 10 * time.Minute  // and how long that is remembered
	robotsSlowMost   = 4096              // of so many PLDs, 16 bytes each
)

// robotsPlaces are the places for requests that other nodes have asked for. Hosts that answer for ever,
// however many, hold them for robotsAnswerTime at most when others are asked for, and from then on they share
// half of the places.
type robotsPlaces struct {
	mu    sync.Mutex // guards the fields below
	all   []*robotsPlace
	slow  map[uint64]time.Time // by PLD: when a request that took long ended
	freed chan struct{}        // closed when a place is given back
}

// robotsPlace is one of them.
type robotsPlace struct {
	pld   uint64
	since time.Time
	slow  bool // the last request of the PLD took long
	stop  context.CancelFunc
	ended bool // the request makes room: who asked asks again
}

func newRobotsPlaces() *robotsPlaces {
	return &robotsPlaces{slow: map[uint64]time.Time{}, freed: make(chan struct{})}
}

// take returns a place for a request of a PLD, and the context of the request, or nil: ask again. If there is
// none, the request that is under way for longest ends, if it has had its time.
func (p *robotsPlaces) take(ctx context.Context, pld uint64) (*robotsPlace, context.Context) {
	moment := time.NewTimer(robotsMoment)
	defer moment.Stop()
	for asked := false; ; {
		place, own, freed := p.tryTake(ctx, pld, &asked)
		if freed == nil {
			return place, own
		}
		select {
		case <-freed:
		case <-moment.C:
			return nil, nil
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// tryTake is take without waiting: freed is not nil if a place may become free. asked notes that a request
// was told to end.
func (p *robotsPlaces) tryTake(ctx context.Context, pld uint64, asked *bool) (_ *robotsPlace, _ context.Context,
	freed chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was, slow := p.slow[pld]
	slow = slow && time.Since(was) < robotsSlowFor
	same, others := 0, 0
	var oldest *robotsPlace
	for _, other := range p.all {
		if other.pld == pld {
			same++
		}
		if other.slow {
			others++
		}
		if !other.ended && (oldest == nil || other.since.Before(oldest.since)) {
			oldest = other
		}
	}
	switch {
	case same >= robotsAnswersPLD, slow && others >= robotsSlow:
		return nil, nil, nil
	case len(p.all) < robotsAnswers:
		own, stop := context.WithCancel(ctx)
		place := &robotsPlace{pld: pld, since: time.Now(), slow: slow, stop: stop}
		p.all = append(p.all, place)
		return place, own, nil
	case *asked:
	case oldest == nil || time.Since(oldest.since) < robotsAnswerTime:
		return nil, nil, nil
	default:
		oldest.ended, *asked = true, true
		oldest.stop()
	}
	return nil, nil, p.freed
}

// give gives a place back. ended says that its request was told to make room.
func (p *robotsPlaces) give(place *robotsPlace) (ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	place.stop()
	for i, other := range p.all {
		if other == place {
			p.all = append(p.all[:i], p.all[i+1:]...)
			break
		}
	}
	if delete(p.slow, place.pld); time.Since(place.since) >= robotsAnswerTime {
		if len(p.slow) >= robotsSlowMost {
			clear(p.slow) // a PLD that is forgotten gets its time once more
		}
		p.slow[place.pld] = time.Now()
	}
	close(p.freed)
	p.freed = make(chan struct{})
	return place.ended
}

// isLiteral reports whether a URL's host is an IP address.
func isLiteral(host []byte) bool {
	_, err := netip.ParseAddr(strings.Trim(string(host), "[]"))
	return err == nil
}
