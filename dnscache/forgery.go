package dnscache

import "time"

// Off the path between this machine and a name server, a forger has to guess: the port a question came from, its id and the
// case of its letters. Sockets are renewed so that a port found out is soon worth nothing.

const (
	// maxWrongCase tries in a row answered in the wrong case, with none in the right one between them, show that a server
	// doesn't repeat the case. Who forges has to guess as many ids before the server answers once.
	maxWrongCase = 8
	// flatFor is how long such a server is asked in lower case.
	flatFor = time.Hour
)

// mixes tells whether s is asked in mixed case.
func (s *server) mixes(now time.Time) bool {
	if s.flat.Load() && !now.Before(s.flatEnd) {
		s.flat.Store(false)
	}
	return !s.flat.Load()
}

// wrongCase drops a reply that is right but for the case: it is forged, or its server changes the case. TCP tells, as nobody
// off the path can answer there; meanwhile the try goes on, so that a forgery costs it nothing.
func (r *Resolver) wrongCase(a *asked, s *server, now time.Time, out *outbox) {
	r.stats.WrongCase++
	q := a.q
	if q.settled || q.asked != a || r.closed {
		return
	}
	if q.wrong == q.tries { // a try counts once, however many replies come to it
		return
	}
	q.wrong = q.tries
	if s.wrong++; s.wrong >= maxWrongCase {
		s.wrong, s.flatEnd = 0, now.Add(flatFor)
		s.flat.Store(true)
	}
	if !q.byTCP {
		r.stats.TCP++
		out.tcp = append(out.tcp, overTCP{a, s})
	}
}

// renewal is when the clock sees to the sockets.
type renewal struct {
	at    time.Time // when new ones are due
	sweep time.Time // when retired ones are looked at; zero: there are none
}

// sweepEvery is how often retired sockets are looked at.
const sweepEvery = 10 * time.Second

// renew gives the servers new sockets when they are due, and closes those that have no question under way any more. A server
// that has retired sockets left keeps what it has: it never has more than two sets. It returns the time to the next call.
func (r *Resolver) renew(next *renewal) time.Duration {
	now := time.Now()
	if !next.sweep.IsZero() && !now.Before(next.sweep) {
		next.sweep = time.Time{}
		if r.closeRetired() {
			next.sweep = now.Add(sweepEvery)
		}
	}
	if !now.Before(next.at) {
		next.at, next.sweep = now.Add(r.opt.RenewEvery), now.Add(sweepEvery)
		for _, s := range r.servers {
			r.renewSockets(s)
		}
	}
	if next.sweep.IsZero() {
		return next.at.Sub(now)
	}
	return min(next.at.Sub(now), next.sweep.Sub(now))
}

// closeRetired closes the retired sockets without questions and tells whether some are left.
func (r *Resolver) closeRetired() (left bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.servers {
		kept := s.retired[:0]
		for _, k := range s.retired {
			if k.idle() {
				k.conn.Close()
			} else {
				kept = append(kept, k)
			}
		}
		clear(s.retired[len(kept):])
		s.retired = kept
		left = left || len(kept) > 0
	}
	return left && !r.closed
}

// idle tells whether no question waits for an answer.
func (k *socket) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.asked) == 0
}

// renewSockets gives a server new sockets; where they can't be opened it keeps those it has until the next time.
func (r *Resolver) renewSockets(s *server) {
	r.mu.Lock()
	skip := r.closed || len(s.retired) > 0
	r.mu.Unlock()
	if skip {
		return
	}
	opened, err := r.openSockets(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || r.closed {
		for _, k := range opened {
			k.conn.Close()
		}
		return
	}
	s.retired, s.sockets = s.sockets, opened
	r.stats.Renewals++
	for _, k := range opened {
		r.startReader(k)
	}
}
