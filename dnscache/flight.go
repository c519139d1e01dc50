package dnscache

import (
	"math"
	"net/netip"
	"slices"
	"time"
)

// fifo is a queue of flights. It does not retain flights that were popped.
type fifo struct {
	items []*flight
	head  int
}

func (q *fifo) len() int { return len(q.items) - q.head }

func (q *fifo) push(f *flight) { q.items = append(q.items, f) }

func (q *fifo) pop() *flight {
	f := q.items[q.head]
	q.items[q.head] = nil
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head > 64 && q.head*2 > len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return f
}

// admit creates a flight and starts it if its PLD and the resolver have room. It returns nil if too many
// wait.
func (r *Resolver) admit(name, pldKey string, now time.Time, out *outbox) *flight {
	p := r.plds[pldKey]
	full := p != nil && p.active >= r.opt.MaxPerPLD
	if (full || r.inFlight >= r.opt.MaxInFlight) && r.waiting >= maxWaiting ||
		full && p.waiting.len() >= r.opt.MaxWaitingPerPLD {
		return nil
	}
	if p == nil {
		p = &pld{key: pldKey}
		r.plds[pldKey] = p
	}
	f := &flight{host: name, pld: p, done: make(chan struct{})}
	r.flights[name] = f
	if full {
		r.waiting++
		p.waiting.push(f)
		return f
	}
	p.active++
	r.queue(f, now, out)
	return f
}

// queue starts a flight that holds a slot of its PLD, or adds it to the backlog of the resolver.
func (r *Resolver) queue(f *flight, now time.Time, out *outbox) {
	if r.inFlight >= r.opt.MaxInFlight {
		r.waiting++
		r.backlog.push(f)
		return
	}
	r.inFlight++
	r.start(f, now, out)
}

// start sends the first question of a flight, or both.
func (r *Resolver) start(f *flight, now time.Time, out *outbox) {
	f.started = true
	switch r.opt.Family {
	case Family6:
		r.ask(f, typeAAAA, now, out)
	case FamilyBoth:
		r.ask(f, typeA, now, out)
		r.ask(f, typeAAAA, now, out)
	default:
		r.ask(f, typeA, now, out)
	}
}

// ask adds a question to a flight and sends it.
func (r *Resolver) ask(f *flight, qtype uint16, now time.Time, out *outbox) {
	q := &f.first
	if f.n > 0 {
		q = new(query)
	}
	q.f, q.name, q.qtype = f, f.host, qtype
	f.queries[f.n] = q
	f.n++
	f.open++
	r.try(q, now, out)
}

// settle records the outcome of a query. After the flight's last query it ends the flight and starts others.
func (r *Resolver) settle(q *query, now time.Time, out *outbox) {
	f := q.f
	q.release()
	q.settled = true
	f.open--
	if f.open > 0 {
		return
	}
	if r.opt.Family == FamilyAuto && f.n == 1 && q.kind == KindNoData && r.ipv6 {
		r.ask(f, typeAAAA, now, out)
		return
	}
	r.conclude(f, now)
	delete(r.flights, f.host)
	out.ended = append(out.ended, f)
	r.freeSlot(f, now, out)
}

// freeSlot releases the slots of a flight and starts waiting flights. It drops flights without callers.
func (r *Resolver) freeSlot(f *flight, now time.Time, out *outbox) {
	r.inFlight--
	r.freePLD(f.pld, now, out)
	for r.inFlight < r.opt.MaxInFlight && r.backlog.len() > 0 {
		g := r.backlog.pop()
		r.waiting--
		if r.forsaken(g) {
			r.freePLD(g.pld, now, out)
			continue
		}
		r.inFlight++
		r.start(g, now, out)
	}
}

// freePLD releases one slot of a PLD and starts flights that wait for it.
func (r *Resolver) freePLD(p *pld, now time.Time, out *outbox) {
	p.active--
	for p.active < r.opt.MaxPerPLD && p.waiting.len() > 0 {
		g := p.waiting.pop()
		r.waiting--
		if r.forsaken(g) {
			continue
		}
		p.active++
		r.queue(g, now, out)
	}
	if p.active == 0 && p.waiting.len() == 0 {
		delete(r.plds, p.key)
	}
}

// forsaken drops a flight without callers. It reports whether it did.
func (r *Resolver) forsaken(f *flight) bool {
	if f.waiters > 0 {
		return false
	}
	delete(r.flights, f.host)
	close(f.done) // no caller reads it, and none can join any more
	return true
}

// conclude combines the outcomes of a flight's queries and caches the result.
func (r *Resolver) conclude(f *flight, now time.Time) {
	var addrs []netip.Addr // shared with the query if there is only one, else a new slice
	ttl, statedTTL, from := ttlMax, time.Duration(math.MaxInt64), netip.Addr{}
	kind := Kind(0)
	var negative time.Duration
	for _, q := range f.queries[:f.n] {
		if q.kind == 0 {
			if addrs == nil {
				addrs = slices.Clip(q.addrs)
			} else {
				addrs = append(addrs, q.addrs...)
			}
			ttl = min(ttl, max(q.ttl, ttlMin))
			statedTTL, from = min(statedTTL, q.ttl), q.from
			continue
		}
		// A failure outweighs "no address", because the other family may have one. "No such name" holds for
		// both.
		if kind == 0 || kind == KindNoData || q.kind == KindNXDomain {
			kind = q.kind
		}
		negative = max(negative, q.ttl)
	}
	if len(addrs) > 0 {
		if kind != 0 && !kind.Permanent() {
			ttl = min(ttl, ttlMin) // the other family may recover
		}
		f.answer = Answer{Addrs: addrs, Expires: now.Add(ttl), TTL: statedTTL, Server: from}
		r.cache.put(f.host, addrs, 0, f.answer.Expires, now)
		return
	}
	switch kind {
	case KindNXDomain:
		r.stats.NXDomain++
		ttl = min(max(negative, negativeMin), negativeMax)
	case KindNoData:
		r.stats.NoData++
		ttl = min(max(negative, negativeMin), negativeMax)
	default:
		r.stats.Failures++
		ttl = r.opt.FailureTTL
	}
	f.err = &Error{Kind: kind, Host: f.host}
	if ttl > 0 {
		expires := now.Add(ttl)
		f.err = &Error{Kind: kind, Host: f.host, Expires: expires}
		r.cache.put(f.host, nil, kind, expires, now)
	}
}
