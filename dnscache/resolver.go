package dnscache

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Answer is the result of a lookup.
type Answer struct {
	// Addrs are the addresses, IPv4 first, in the order of the reply; never empty. The caller owns the slice.
	Addrs []netip.Addr
	// Expires is when to look them up again.
	Expires time.Time
	// TTL is the least TTL of the chain as received, and Server the server that answered last. Both are zero
	// in cached answers.
	TTL    time.Duration
	Server netip.Addr
	// Cached says that the answer came from the cache or from another call's lookup.
	Cached bool
}

// Stats are counters since New and current sizes.
type Stats struct {
	Lookups int64 // calls of Lookup and LookupFresh
	Hits    int64 // lookups answered from the cache
	Joined  int64 // lookups that joined one in flight
	Busy    int64 // lookups rejected with KindBusy

	Sent     int64 // UDP questions sent, retries included
	Answers  int64 // replies accepted
	Timeouts int64 // tries without an answer in time
	Lies     int64 // messages that matched no question or arrived too late
	TCP      int64 // questions repeated by TCP

	WrongCase int64 // the part of Lies that matched except for the case
	Flat      int   // servers that currently get lower case
	Renewals  int64 // replacements of a server's sockets

	NXDomain, NoData, Failures int64 // outcomes of lookups without addresses

	InFlight int   // lookups running now
	Waiting  int   // lookups waiting to start now
	Entries  int   // current entries of the cache
	Bytes    int64 // current size of the cache by its formula
}

// Resolver is an asynchronous stub resolver with a cache. It is safe for concurrent use.
type Resolver struct {
	opt     Options
	ipv6    bool // this machine has a route to IPv6 (for FamilyAuto)
	servers []*server
	kick    chan struct{} // wakes the clock for an earlier event
	closing chan struct{}
	ctx     context.Context // for TCP connections; Close ends it
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	tcp     chan struct{} // slots for TCP exchanges
	lies    atomic.Int64
	boxes   sync.Pool // *outbox

	// mu guards the fields below and all flights and queries. It is never held while packing, sending,
	// reading or waiting. A socket's mu may be locked while holding it.
	mu       sync.Mutex
	closed   bool
	cache    *cache
	flights  map[string]*flight
	plds     map[string]*pld
	inFlight int
	backlog  fifo // flights waiting for MaxInFlight; they hold a slot of their PLD
	waiting  int  // flights in backlog and in the queues of PLDs
	timers   timers
	nextSend time.Time // when Rate allows the next question
	turn     int       // index of the server for the next question
	stats    Stats
}

// flight is one lookup, shared by all callers that wait for it. The resolver's mu guards it until done is
// closed.
type flight struct {
	host    string
	pld     *pld
	queries [2]*query // one for each family
	first   query     // storage for the first query
	n       int       // queries in use
	open    int       // queries without an outcome
	waiters int
	started bool
	done    chan struct{}
	answer  Answer
	err     error
}

// pld counts the lookups of one PLD.
type pld struct {
	key     string
	active  int
	waiting fifo
}

// New opens the sockets and starts the readers and the clock.
func New(opt Options) (*Resolver, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	opt = opt.withDefaults()
	r := &Resolver{opt: opt, kick: make(chan struct{}, 1), closing: make(chan struct{}),
		tcp: make(chan struct{}, maxTCP), cache: newCache(maxEntries, opt.MaxBytes),
		flights: make(map[string]*flight), plds: make(map[string]*pld)}
	r.boxes.New = func() any { return new(outbox) }
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if err := r.openServers(); err != nil {
		r.Close()
		return nil, err
	}
	r.ipv6 = opt.Dial != nil || hasIPv6()
	r.startClock()
	return r, nil
}

// Close ends all lookups with ErrClosed and waits for the goroutines.
func (r *Resolver) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	for _, f := range r.flights {
		f.err = fmt.Errorf("dnscache: look up %s: %w", f.host, ErrClosed)
		close(f.done)
	}
	clear(r.flights)
	r.mu.Unlock()
	close(r.closing)
	r.cancel()
	for _, s := range r.servers { // renewSockets no longer changes them
		for _, k := range slices.Concat(s.sockets, s.retired) {
			k.conn.Close()
		}
	}
	r.wg.Wait()
	return nil
}

// Lookup returns the addresses of host. The error is an *Error if the host has none, else the cause of ctx or
// ErrClosed. pldKey names the host's PLD, whose lookups are bounded; "" means the host itself. If ctx ends
// after the question was sent, the lookup continues for the cache. IP literals are returned as they are.
func (r *Resolver) Lookup(ctx context.Context, host, pldKey string) (Answer, error) {
	return r.lookup(ctx, host, pldKey, false)
}

// LookupFresh is Lookup, but ignores a cached answer.
func (r *Resolver) LookupFresh(ctx context.Context, host, pldKey string) (Answer, error) {
	return r.lookup(ctx, host, pldKey, true)
}

func (r *Resolver) lookup(ctx context.Context, host, pldKey string, fresh bool) (Answer, error) {
	if a, ok := literal(host); ok {
		return Answer{Addrs: []netip.Addr{a}, Expires: time.Now().Add(ttlMax), Cached: true}, nil
	}
	name, ok := checkName(host)
	if !ok {
		return Answer{}, &Error{Kind: KindBadName, Host: host}
	}
	if pldKey == "" {
		pldKey = name
	}
	now := time.Now()
	r.mu.Lock()
	r.stats.Lookups++
	if r.closed {
		r.mu.Unlock()
		return Answer{}, fmt.Errorf("dnscache: look up %s: %w", name, ErrClosed)
	}
	if e, ok := r.cache.get(name, now); ok && !fresh {
		r.stats.Hits++
		kind, a := e.kind, Answer{}
		if kind == 0 {
			a = e.answer()
		}
		expires := time.Unix(0, e.expires)
		r.mu.Unlock()
		if kind != 0 {
			return Answer{}, &Error{Kind: kind, Host: name, Expires: expires, Cached: true}
		}
		a.Cached = true
		return a, nil
	}
	f := r.flights[name]
	if f != nil {
		r.stats.Joined++
		f.waiters++
		r.mu.Unlock()
		a, err := r.wait(ctx, f)
		a.Cached = err == nil
		return a, err
	}
	out := r.boxes.Get().(*outbox)
	if f = r.admit(name, pldKey, now, out); f == nil {
		r.stats.Busy++
		r.mu.Unlock()
		r.boxes.Put(out)
		return Answer{}, &Error{Kind: KindBusy, Host: name}
	}
	f.waiters++
	r.mu.Unlock()
	r.send(out)
	r.boxes.Put(out)
	return r.wait(ctx, f)
}

// wait waits for a flight. It copies the addresses because each caller owns its slice.
func (r *Resolver) wait(ctx context.Context, f *flight) (Answer, error) {
	select {
	case <-f.done:
	case <-ctx.Done():
		r.mu.Lock()
		f.waiters--
		r.mu.Unlock()
		return Answer{}, fmt.Errorf("dnscache: look up %s: %w", f.host, context.Cause(ctx))
	}
	if f.err != nil {
		return Answer{}, f.err
	}
	a := f.answer
	a.Addrs = append([]netip.Addr(nil), a.Addrs...)
	return a, nil
}

// literal parses an IP literal, with or without brackets.
func literal(host string) (netip.Addr, bool) {
	if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	if host == "" || host[len(host)-1] > '9' && !hasColon(host) {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(host)
	return a, err == nil
}

func hasColon(s string) bool {
	for i := range len(s) {
		if s[i] == ':' {
			return true
		}
	}
	return false
}

// Stats returns the counters.
func (r *Resolver) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Lies += r.lies.Load()
	s.InFlight, s.Waiting = r.inFlight, r.waiting
	s.Entries, s.Bytes = len(r.cache.index), r.cache.bytes
	for _, server := range r.servers {
		if server.flat.Load() {
			s.Flat++
		}
	}
	return s
}
