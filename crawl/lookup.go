package crawl

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"drumbeat/robots"
)

// lookup resolves a host; an address stands for itself. first is false when it is repeated because it failed.
func (r *ring) lookup(ctx context.Context, host []byte, first bool) ([]netip.Addr, time.Time, error) {
	name := string(host)
	if len(name) > 2 && name[0] == '[' {
		name = name[1 : len(name)-1]
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		addrs, err := r.allowed([]netip.Addr{addr})
		return addrs, time.Now().Add(robots.Lifetime), err
	}
	pld := r.suffixes.PLD(name)
	try := r.dns.begin()
	r.lookups.add(1)
	var answer Lookup
	err := contained(func() (err error) {
		answer, err = r.opt.Resolver.LookupHost(ctx, name, pld)
		return err
	})
	r.logBug(name, err)
	r.lookups.add(-1)
	if ctx.Err() == nil {
		r.watchLookup(try, r.hasher.PLDKey([]byte(pld)), first, err)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	if len(answer.Addrs) == 0 {
		return nil, time.Time{}, &LookupError{Host: name, NotFound: true, Err: errors.New("no address")}
	}
	r.sketches.addServers(answer.Addrs)
	// A shorter life than the batches of the disk structures would have every URL looked up again.
	expires := answer.Expires
	if least := time.Now().Add(minAddrLife); expires.Before(least) {
		expires = least
	}
	addrs, err := r.allowed(answer.Addrs)
	return addrs, expires, err
}

// errForbidden says that a host has none but addresses that may not be connected to.
var errForbidden = errors.New("crawl: no address that may be connected to")

// allowed drops the addresses that the fetcher would refuse, and those that it gets twice.
func (r *ring) allowed(addrs []netip.Addr) ([]netip.Addr, error) {
	good := make([]netip.Addr, 0, len(addrs))
	for _, a := range addrs {
		a = a.Unmap() // ::ffff:192.0.2.1 is the server 192.0.2.1, and keeps its delay
		if (r.opt.AllowedAddr == nil || r.opt.AllowedAddr(a)) && !slices.Contains(good, a) {
			good = append(good, a)
		}
	}
	if len(good) == 0 {
		return nil, errForbidden
	}
	return good, nil
}

// minAddrLife is the least life of an address in RobotsCache.
const minAddrLife = 10 * time.Minute
