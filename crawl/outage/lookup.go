package outage

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"drumbeat/crawl/resolve"
	"drumbeat/internal/bug"
	"drumbeat/robots"
	"drumbeat/state/snapshot"
)

// LookupKind describes a lookup.
type LookupKind uint8

const (
	LookupAgain  LookupKind = 1 << iota // repeated after a failure
	LookupKnown                         // the name had an address before
	LookupFresh                         // do not use the resolver's cache
	lookupCached                        // the answer came from the resolver's cache
)

// LookupsUnderWay returns the number of lookups that have begun and not ended.
func (o *Watch) LookupsUnderWay() int64 { return o.lookups.Load() }

// Lookup resolves a host. An IP address resolves to itself.
func (o *Watch) Lookup(ctx context.Context, host []byte, kind LookupKind) ([]netip.Addr, time.Time, error) {
	name := string(host)
	if len(name) > 2 && name[0] == '[' {
		name = name[1 : len(name)-1]
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		addrs, err := o.allowed([]netip.Addr{addr})
		return addrs, time.Now().Add(robots.Lifetime), err
	}
	pld := o.saved.Suffixes.PLD(name)
	try := o.dns.begin()
	o.lookups.Add(1)
	ask := o.opt.Resolver.LookupHost
	if fresh, ok := o.opt.Resolver.(FreshResolver); ok && kind&LookupFresh != 0 {
		ask = fresh.LookupFresh
	}
	var answer resolve.Lookup
	began := time.Now()
	err := bug.Contained(func() (err error) {
		answer, err = ask(ctx, name, pld)
		return err
	})
	took := time.Since(began)
	o.run.LogBug(name, err)
	o.lookups.Add(-1)
	if err == nil && len(answer.Addrs) == 0 {
		err = &resolve.Error{Host: name, NotFound: true, Cached: answer.Cached, Err: errors.New("no address")}
	}
	var addrs []netip.Addr
	open := err
	if err == nil {
		addrs, open = o.allowed(answer.Addrs)
	}
	if key := o.saved.Hasher.PLDKey([]byte(pld)); ctx.Err() == nil {
		var le *resolve.Error
		if answer.Cached || errors.As(err, &le) && le.Cached {
			kind |= lookupCached
		} else {
			o.run.Times.Observe(snapshot.TimeLookup, took)
			if open == nil {
				o.nameCanaries.found(name, pld, key, time.Now())
				o.watchNameServer(answer.Server, began)
			}
		}
		o.watchLookup(try, key, kind, open)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	o.others.Looked(name, &answer)
	// With a lifetime shorter than a batch of the disk structures, every URL would cause another lookup.
	expires := answer.Expires
	if least := time.Now().Add(minAddrLife); expires.Before(least) {
		expires = least
	}
	return addrs, expires, open
}

// ErrForbidden reports that all addresses of a host are forbidden.
var ErrForbidden = errors.New("crawl: no address that the crawl may connect to")

// allowed removes duplicates and the addresses that the fetcher would refuse.
func (o *Watch) allowed(addrs []netip.Addr) ([]netip.Addr, error) {
	good := make([]netip.Addr, 0, len(addrs))
	for _, a := range addrs {
		a = a.Unmap() // ::ffff:192.0.2.1 is the server 192.0.2.1 and shares its delay
		if (o.opt.AllowedAddr == nil || o.opt.AllowedAddr(a)) && !slices.Contains(good, a) {
			good = append(good, a)
		}
	}
	if len(good) == 0 {
		return nil, ErrForbidden
	}
	return good, nil
}

// minAddrLife is the least lifetime of an address in RobotsCache.
const minAddrLife = 10 * time.Minute
