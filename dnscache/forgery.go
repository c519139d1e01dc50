package dnscache

import "time"

// An attacker who is not on the path between this machine and a name server must guess the port of a
// question, its id and the case of its letters. Replacing the sockets limits the use of a port that was
// found out.

const (
	// maxWrongCase consecutive tries answered in the wrong case show that a server does not repeat the case.
	// A forger would have to guess as many ids before the server answers once.
	maxWrongCase = 8
	// flatFor is how long such a server gets questions in lower case.
	flatFor = time.Hour
)

// mixes reports whether questions to s are in mixed case.
func (s *server) mixes(now time.Time) bool {
	if s.flat.Load() && !now.Before(s.flatEnd) {
		s.flat.Store(false)
	}
	return !s.flat.Load()
}

// wrongCase handles a reply that matches except for the case: either it is forged, or the server changes the
// case. It drops the reply and asks by TCP, where an off-path attacker cannot answer. The try continues
// meanwhile, so a forgery costs it nothing.
func (r *Resolver) wrongCase(a *asked, s *server, now time.Time, out *outbox) {
	r.stats.WrongCase++
	q := a.q
	if q.settled || q.asked != a || r.closed {
		return
	}
	if q.wrong == q.tries { // count a try once, however many replies it gets
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

// renewal is the schedule by which the clock replaces sockets.
type renewal struct {
	at    time.Time // time of the next replacement
	sweep time.Time // time of the next check of retired sockets; zero: there are none
}

// sweepEvery is the interval between checks of retired sockets.
const sweepEvery = 10 * time.Second

// renew replaces the servers' sockets when due and closes retired ones without pending questions. A server
// that still has retired sockets keeps its current ones, so it never has more than two sets. renew returns
// the time to its next call.
func (r *Resolver) renew(next *renewal) time.Duration {
	now := time.Now()
	if !next.sweep.IsZero() && !now.Before(next.sweep) {
		next.sweep = time.Time{}
		if r.closeRetired() {
			next.sweep = now.Add(sweepEvery)
		}
	}
	if !now.Before(next.at) {
		next.at, next.sweep = now.Add(renewEvery), now.Add(sweepEvery)
		for _, s := range r.servers {
			r.renewSockets(s)
		}
	}
	if next.sweep.IsZero() {
		return next.at.Sub(now)
	}
	return min(next.at.Sub(now), next.sweep.Sub(now))
}

// closeRetired closes retired sockets without pending questions and reports whether some are left.
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

// idle reports whether no question is pending.
func (k *socket) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.asked) == 0
}

// renewSockets gives a server new sockets. If they cannot be opened, the server keeps the current ones until
// the next renewal.
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
