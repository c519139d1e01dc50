package dnscache

import (
	"net/netip"
	"slices"
	"time"
)

const (
	// maxTries bounds the number of tries of a question.
	maxTries = 8
	// maxAsks bounds the number of questions for one alias chain.
	maxAsks = 6
	// tcpTimeout bounds a TCP exchange, including the wait for its slot.
	tcpTimeout = 5 * time.Second
)

// query is one question of a flight and its tries. The resolver's mu guards it.
type query struct {
	queryLink
	f     *flight
	name  string // the current name: the host or the target of its aliases
	qtype uint16
	asked *asked // the question as sent; nil: not created yet
	own   asked  // storage for the first asked
	plain bool   // without EDNS0

	tries    int // number of tries sent
	asks     int // number of questions created
	sent     [maxTries]sentTry
	tried    uint64 // bit set of servers tried for this question
	timer    timer
	paced    bool          // the timer waits for Rate, not for a reply
	byTCP    bool          // a TCP exchange is in progress
	wrong    int           // value of tries when a wrong case was last counted
	spare    *reply        // a truncated reply with addresses, in case TCP fails; nil: none
	aliasTTL time.Duration // least TTL of the aliases so far; 0: none

	// The outcome.
	settled bool
	kind    Kind
	addrs   []netip.Addr
	space   [2]netip.Addr // storage for the first addresses
	ttl     time.Duration
	from    netip.Addr // server of the last reply
}

// asked is a question as sent. It is immutable, so readers need no lock. A reply counts only while asked is
// the current question of its query.
type asked struct {
	q *query
	question
}

// sentTry identifies the replies to a try. A nil socket means that the try was not sent.
type sentTry struct {
	socket *socket
	id     uint16
}

// outgoing is a message to send after mu is released.
type outgoing struct {
	socket *socket
	id     uint16
	a      *asked
	flat   bool // in lower case
}

// outbox collects the work to do after mu is released, and scratch space for it.
type outbox struct {
	msgs  []outgoing
	tcp   []overTCP
	ended []*flight // flights whose waiters to wake
	buf   [questionBytes]byte
	addrs []netip.Addr // scratch space for parsing a reply
}

// overTCP is a question to send again by TCP.
type overTCP struct {
	a *asked
	s *server
}

// try sends a question, for the first time or again, now or when Rate allows. It schedules the timeout of
// the try.
func (r *Resolver) try(q *query, now time.Time, out *outbox) {
	if r.opt.Rate > 0 && !q.paced {
		gap := time.Duration(float64(time.Second) / r.opt.Rate)
		if early := now.Add(-paceBurst); r.nextSend.Before(early) {
			r.nextSend = early
		}
		at := r.nextSend
		r.nextSend = at.Add(gap)
		if at.After(now) {
			q.paced = true
			r.schedule(q, &r.timers.paced, at)
			return
		}
	}
	q.paced = false
	if q.asked == nil {
		q.asked = &q.own
		if q.asks > 0 {
			q.asked = new(asked) // a reader may still use the previous one
		}
		*q.asked = asked{q, newQuestion(q.name, q.qtype, !q.plain, r.opt.MixCase)}
		q.asks++
	}
	s := r.pickServer(q, now)
	k, id, ok := s.register(q.asked)
	span := min(q.tries, len(r.opt.Timeouts)-1)
	if ok {
		q.sent[q.tries] = sentTry{k, id}
		out.msgs = append(out.msgs, outgoing{k, id, q.asked, !s.mixes(now)})
		r.stats.Sent++
	}
	q.tries++
	q.tried |= 1 << (s.number & 63)
	r.schedule(q, &r.timers.tries[span], now.Add(r.opt.Timeouts[span]))
}

// paceBurst bounds how much unused Rate may be used up at once.
const paceBurst = 50 * time.Millisecond

// pickServer rotates through the servers. It prefers one that is up and untried, then one that is up, then
// any.
func (r *Resolver) pickServer(q *query, now time.Time) *server {
	n := len(r.servers)
	r.turn++
	var up *server
	for i := range n {
		s := r.servers[(r.turn+i)%n]
		if !s.up(now) {
			continue
		}
		if q.tried>>(s.number&63)&1 == 0 {
			return s.chosen(now)
		}
		if up == nil {
			up = s
		}
	}
	if up == nil {
		up = r.servers[r.turn%n]
	}
	return up.chosen(now)
}

// untried reports whether q may be sent to a server that it has not tried.
func (r *Resolver) untried(q *query) bool {
	for _, s := range r.servers {
		if q.tried>>(s.number&63)&1 == 0 {
			return q.tries < len(r.opt.Timeouts)
		}
	}
	return false
}

// overdue handles a timer of a query: a try without an answer, or a question that Rate delayed.
func (r *Resolver) overdue(q *query, now time.Time, out *outbox) {
	if q.paced {
		r.try(q, now, out)
		return
	}
	r.stats.Timeouts++
	if !q.byTCP {
		q.sent[q.tries-1].missed(now)
	}
	r.retry(q, now, out)
}

// retry continues after a failed try: with the truncated reply, if there is one, else with the next try.
func (r *Resolver) retry(q *query, now time.Time, out *outbox) {
	switch {
	case q.spare != nil:
		r.take(q, q.spare, now, out)
	case q.tries < len(r.opt.Timeouts):
		q.byTCP = false
		r.try(q, now, out)
	default:
		q.kind = KindTimeout
		r.settle(q, now, out)
	}
}

// handle processes a reply from server s. It does not retain rep.
func (r *Resolver) handle(a *asked, s *server, rep *reply, tcp bool, now time.Time, out *outbox) {
	q := a.q
	if q.settled || q.asked != a || r.closed {
		return
	}
	r.stats.Answers++
	s.answered()
	q.from = s.addr.Addr()
	switch {
	case rep.truncated && !tcp:
		if q.spare == nil && len(rep.addrs) > 0 {
			spare := *rep
			spare.addrs = slices.Clone(rep.addrs)
			q.spare = &spare
		}
		if !q.byTCP {
			q.byTCP = true
			r.stats.TCP++
			r.schedule(q, &r.timers.tcp, now.Add(tcpTimeout))
			out.tcp = append(out.tcp, overTCP{a, s})
		}
	case rep.noEDNS && !q.plain:
		q.plain = true
		r.again(q, q.name, now, out)
	case rep.kind == KindServFail || rep.kind == KindRefused:
		if r.untried(q) {
			r.try(q, now, out)
			return
		}
		q.kind = rep.kind
		r.settle(q, now, out)
	default:
		r.take(q, rep, now, out)
	}
}

// take processes a useful reply: addresses, a denial, or an alias to follow.
func (r *Resolver) take(q *query, rep *reply, now time.Time, out *outbox) {
	ttl := time.Duration(rep.ttl) * time.Second
	if rep.alias != "" {
		name, ok := checkName(rep.alias)
		if !ok || q.asks >= maxAsks {
			q.kind = KindChain
			r.settle(q, now, out)
			return
		}
		if q.aliasTTL == 0 || ttl < q.aliasTTL {
			q.aliasTTL = max(ttl, 1)
		}
		r.again(q, name, now, out)
		return
	}
	if q.aliasTTL > 0 {
		ttl = min(ttl, q.aliasTTL)
	}
	q.kind, q.addrs, q.ttl = rep.kind, append(q.space[:0], rep.addrs...), ttl
	if rep.kind == 0 && len(rep.addrs) == 0 {
		q.kind = KindRefused // truncated even by TCP
	}
	r.settle(q, now, out)
}

// again asks a new question: for another name, or without EDNS0.
func (r *Resolver) again(q *query, name string, now time.Time, out *outbox) {
	q.release()
	q.name, q.asked, q.tries, q.tried, q.byTCP, q.wrong, q.spare = name, nil, 0, 0, false, 0, nil
	r.try(q, now, out)
}

// release removes a query from the timers and from its sockets.
func (q *query) release() {
	q.stop()
	for i := range q.sent[:min(q.tries, maxTries)] {
		if k := q.sent[i].socket; k != nil {
			k.forget(q.sent[i].id)
			q.sent[i] = sentTry{}
		}
	}
}
