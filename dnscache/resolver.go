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

// Answer is what a host's name leads to.
type Answer struct {
	// Addrs are its addresses, IPv4 first, in the order of the reply; never empty. The caller owns them.
	Addrs []netip.Addr
	// Expires is when they should be asked for again.
	Expires time.Time
	// TTL is the least of the chain, as the servers said, and Server the one that answered last; of cached answers neither is known.
	TTL    time.Duration
	Server netip.Addr
	// Cached: they were known already, or another call was asking for them.
	Cached bool
}

// Stats are counters since New, and sizes now.
type Stats struct {
	Lookups int64 // calls of Lookup
	Hits    int64 // of them, answered from the cache
	Joined  int64 // of them, joined to a lookup under way
	Busy    int64 // of them, turned away

	Sent     int64 // questions sent by UDP, retries included
	Answers  int64 // replies taken
	Timeouts int64 // tries that weren't answered in time
	Lies     int64 // messages that didn't fit any question, or came too late
	TCP      int64 // questions asked again by TCP

	WrongCase int64 // of Lies, those that were right but for the case
	Flat      int   // servers that are asked in lower case now, since they don't repeat the case
	Renewals  int64 // of a server's sockets

	NXDomain, NoData, Failures int64 // outcomes of lookups that weren't addresses

	InFlight int   // lookups under way now
	Waiting  int   // lookups waiting to start now
	Entries  int   // of the cache now
	Bytes    int64 // of the cache now, by its formula
}

// Resolver is an asynchronous stub resolver with a cache. It is safe for concurrent use.
type Resolver struct {
	opt     Options
	ipv6    bool // there is a way to IPv6 (FamilyAuto)
	servers []*server
	kick    chan struct{} // wakes the clock: an earlier event has come
	closing chan struct{}
	ctx     context.Context // of TCP connections; ends with Close
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	tcp     chan struct{} // slots of TCP exchanges
	lies    atomic.Int64
	boxes   sync.Pool // *outbox

	// mu guards what follows, and all flights and queries. Nothing is packed, sent, read or waited for under it. A socket's
	// mu may be taken under it.
	mu       sync.Mutex
	closed   bool
	cache    *cache
	flights  map[string]*flight
	plds     map[string]*pld
	inFlight int
	backlog  fifo // flights that wait for the bound over all; they hold their PLD's slot
	waiting  int  // flights in backlog and in the queues of PLDs
	timers   timers
	nextSend time.Time // when Rate allows the next question
	turn     int       // server that takes the next question
	stats    Stats
}

// flight is one lookup under way, for all who wait for it. The resolver's mu guards it until done closes.
type flight struct {
	host    string
	pld     *pld
	queries [2]*query // by family asked
	first   query     // room for the first of them
	n       int       // queries in use
	open    int       // queries without outcome
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
		tcp: make(chan struct{}, maxTCP), cache: newCache(opt.MaxEntries, opt.MaxBytes),
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
	for _, s := range r.servers { // nothing renews their sockets any more
		for _, k := range slices.Concat(s.sockets, s.retired) {
			k.conn.Close()
		}
	}
	r.wg.Wait()
	return nil
}

// Lookup returns the addresses of host. Names without one give an *Error; other errors are those of ctx,
// and ErrClosed. pldKey names the host's PLD for the bound on lookups of one PLD; "": the host itself. A
// lookup goes on for the cache when ctx ends after it was sent. IP literals are answered as they are.
func (r *Resolver) Lookup(ctx context.Context, host, pldKey string) (Answer, error) {
	return r.lookup(ctx, host, pldKey, false)
}

// LookupFresh is Lookup, but asks the name servers though the answer is in the cache.
func (r *Resolver) LookupFresh(ctx context.Context, host, pldKey string) (Answer, error) {
	return r.lookup(ctx, host, pldKey, true)
}

func (r *Resolver) lookup(ctx context.Context, host, pldKey string, fresh bool) (Answer, error) {
	if a, ok := literal(host); ok {
		return Answer{Addrs: []netip.Addr{a}, Expires: time.Now().Add(r.opt.TTLMax), Cached: true}, nil
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

// wait waits for a flight. The addresses are copied: each waiter owns its own.
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

// literal reads IP literals, with brackets or without.
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
