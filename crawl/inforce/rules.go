package inforce

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"

	"drumbeat/admit"
)

// ErrBlocked reports that an exchange was not begun, or was cut off, because its host or address is
// blacklisted.
var ErrBlocked = errors.New("crawl: the host or its address is blacklisted")

// Rules are the scope rules and the blacklist. A reload replaces them while the crawl runs.
//
// Scope rules apply to links only (admit). The blacklist is checked wherever a URL passes, so that
// queued URLs end soon: for links, before and after RobotsCache, at admission, and before lookups. Each
// exchange makes the last check: it first registers here, then checks the blacklist. A reload first
// replaces the list, then checks the registered exchanges. So after a reload no exchange with a blacklisted
// host or address is under way or begins.
type Rules struct {
	admit.Lists
	Trusted atomic.Pointer[[]uint64] // PLDs of Options.Budgets.Trusted by key, ascending; nil without
	guarded bool                     // there is a blacklist, possibly empty: exchanges register

	mu        sync.Mutex // guards exchanges
	exchanges map[*activeExchange]struct{}
}

// activeExchange is an exchange under way.
type activeExchange struct {
	host []byte
	addr netip.Addr
	cut  context.CancelCauseFunc
}

// Guard makes exchanges register if there is a blacklist, possibly an empty one. No exchange may have begun.
func (f *Rules) Guard(guarded bool) {
	f.guarded, f.exchanges = guarded, map[*activeExchange]struct{}{}
}

// Enter registers an exchange. The exchange runs under the returned context, which ends with ErrBlocked as its
// cause if its host or address is blacklisted later. If err is nil, the caller must call leave.
func (f *Rules) Enter(ctx context.Context, host []byte,
	addr netip.Addr) (_ context.Context, leave func(), err error) {
	if !f.guarded {
		return ctx, func() {}, nil
	}
	ctx, cut := context.WithCancelCause(ctx)
	x := &activeExchange{host, addr, cut}
	f.mu.Lock()
	f.exchanges[x] = struct{}{}
	f.mu.Unlock()
	leave = func() {
		f.mu.Lock()
		delete(f.exchanges, x)
		f.mu.Unlock()
		cut(nil)
	}
	if f.BlockedHost(host) || f.BlockedAddr(addr) {
		leave()
		return nil, nil, ErrBlocked
	}
	return ctx, leave, nil
}

// CutOff ends the exchanges under way that are blacklisted and returns their number.
func (f *Rules) CutOff() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for x := range f.exchanges { // at most one for each connection
		if f.BlockedHost(x.host) || f.BlockedAddr(x.addr) {
			x.cut(ErrBlocked)
			n++
		}
	}
	return n
}
