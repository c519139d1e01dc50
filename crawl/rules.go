package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"drumbeat/crawl/admit"
	"drumbeat/internal/scope"
	"drumbeat/polite"
	"drumbeat/weburl"
)

// errBlocked says that an exchange was not begun, or was cut off, because the blacklist names its host or its address.
var errBlocked = errors.New("crawl: the blacklist names the host or its address")

// rulesInForce holds the scope rules and the blacklist in force; a reload exchanges them while the crawl goes on.
//
// Rules are asked for links alone (links.go). The blacklist is asked wherever a URL passes, so that what is queued ends
// soon: for links, before and behind RobotsCache, at admission, before names are looked up; and in the end by every
// exchange, which registers here first and looks then, while a reload changes the list first and looks at the registered
// ones then. So when a reload has ended no exchange with a blacklisted host or address is under way, and none begins.
type rulesInForce struct {
	admit.Lists
	guarded bool // there is a blacklist, even an empty one: exchanges register

	mu        sync.Mutex // guards exchanges
	exchanges map[*activeExchange]struct{}
}

// activeExchange is an exchange under way.
type activeExchange struct {
	host []byte
	addr netip.Addr
	cut  context.CancelCauseFunc
}

// rulesShare is the part of the Go heap that rules and blacklist may take: two of each while they are read again.
const rulesShare = 8

// readRules reads the files of rules and of the blacklist.
func (e *engine) readRules() (rules, blacklist *scope.Set, err error) {
	rules, err1 := admit.ReadRules(e.opt.FS, scope.Rules, e.Suffixes, e.opt.Rules, e.opt.KeepEscapes)
	blacklist, err2 := admit.ReadRules(e.opt.FS, scope.Blacklist, e.Suffixes, e.opt.Blacklist, e.opt.KeepEscapes)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, err
	}
	if n := rules.Stats().Bytes + blacklist.Stats().Bytes; n > e.plan.HeapBytes/rulesShare {
		return nil, nil, fmt.Errorf("crawl: rules and blacklist take %d bytes of RAM, twice that while they are read again, and may have %d: "+
			"more RAM or fewer rules", n, e.plan.HeapBytes/rulesShare)
	}
	return rules, blacklist, nil
}

// openRules puts the files' rules in force.
func (e *engine) openRules() error {
	e.rules.Suffixes, e.rules.guarded = e.Suffixes, len(e.opt.Blacklist) > 0
	e.rules.exchanges = map[*activeExchange]struct{}{}
	rules, blacklist, err := e.readRules()
	if err != nil {
		return err
	}
	e.rules.Rules.Store(rules)
	e.rules.Blacklist.Store(blacklist)
	return nil
}

// enter registers an exchange: it may go on under the context returned, which ends if the blacklist comes to name its host
// or address. leave must be called if there is no error.
func (f *rulesInForce) enter(ctx context.Context, host []byte, addr netip.Addr) (_ context.Context, leave func(), _ error) {
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
		return nil, nil, errBlocked
	}
	return ctx, leave, nil
}

// cutOff ends the exchanges under way that the blacklist in force names, and returns their number.
func (f *rulesInForce) cutOff() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for x := range f.exchanges { // as many as connections
		if f.BlockedHost(x.host) || f.BlockedAddr(x.addr) {
			x.cut(errBlocked)
			n++
		}
	}
	return n
}

// watchReload reads rules and blacklist again whenever Options.Reload says so.
func (d *dispatcher) watchReload(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.opt.Reload:
			if err := d.reload(ctx); err != nil {
				return err
			}
		}
	}
}

// reload puts new rules in force, or says what is wrong with them and leaves the old ones.
func (d *dispatcher) reload(ctx context.Context) error {
	rules, blacklist, err := d.readRules()
	if err != nil {
		d.opt.Log.Error("rules and blacklist stay as they were: there are faults in the files", "error", err)
		return nil
	}
	oldRules, oldBlacklist := d.rules.Rules.Swap(rules), d.rules.Blacklist.Swap(blacklist)
	cut := d.rules.cutOff()
	swept, err := d.sweepBlocked(ctx)
	d.opt.Log.Info("rules and blacklist were read again", "rules", rules.Stats().String(), "before", oldRules.Stats().String(),
		"blacklist", blacklist.Stats().String(), "blacklist_before", oldBlacklist.Stats().String(), "exchanges_cut", cut, "urls_swept", swept)
	return err
}

// sweepLot bounds the URLs of a transaction of sweepBlocked.
const sweepLot = 256

// sweepBlocked ends the URLs in RAM that the blacklist names. Of those with some addresses left RobotsCache is asked again.
// What is admitted meanwhile by the list before is found by its exchange.
func (d *dispatcher) sweepBlocked(ctx context.Context) (n int, err error) {
	if d.rules.Blacklist.Load() == nil {
		return 0, nil
	}
	var hit []*polite.Item
	for _, item := range d.polite.Snapshot() {
		if item.Robots {
			continue // a request: its exchange looks
		}
		var rec weburl.Record
		if err := rec.Decode(item.Rec); err != nil {
			return n, fmt.Errorf("crawl: record in RAM: %w", err)
		}
		if d.rules.BlockedURL(rec.URL) || len(d.rules.Open(item.Addrs)) < len(item.Addrs) {
			hit = append(hit, item)
		}
	}
	for len(hit) > 0 && ctx.Err() == nil {
		lot := hit[:min(len(hit), sweepLot)]
		hit = hit[len(lot):]
		if err := d.transact(func(tx *transaction) error {
			for _, item := range d.polite.EvictItems(time.Now(), lot) {
				n++
				if err := d.deferrals.dropBlocked(tx, item); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return n, err
		}
	}
	return n, nil
}
