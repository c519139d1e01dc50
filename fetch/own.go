package fetch

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// ownFor is how long the list of this machine's addresses is used before it is refreshed.
	ownFor = time.Minute
	// maxOwn bounds the number of addresses kept.
	maxOwn = 1 << 16
)

// ownAddrs knows the addresses of this machine. A public address of ours may have open ports that only a
// firewall protects, and the firewall does not protect them from this machine.
type ownAddrs struct {
	list  func() ([]netip.Addr, error)
	known atomic.Pointer[ownSet]
	mu    sync.Mutex // serialises refreshes
}

// ownSet is immutable.
type ownSet struct {
	addrs map[netip.Addr]struct{}
	until time.Time
}

// init lists the addresses for the first time. A failure is an error, because without a list has would
// refuse no address.
func (o *ownAddrs) init(list func() ([]netip.Addr, error)) error {
	o.list = list
	return o.refresh(time.Now())
}

func (o *ownAddrs) refresh(now time.Time) error {
	addrs, err := o.list()
	set := &ownSet{until: now.Add(ownFor)}
	if err != nil {
		if old := o.known.Load(); old != nil {
			set.addrs = old.addrs // keep the old list for a minute, for instance if descriptors are short
		}
	} else {
		set.addrs = make(map[netip.Addr]struct{}, len(addrs))
		for _, a := range addrs[:min(len(addrs), maxOwn)] {
			set.addrs[a.Unmap().WithZone("")] = struct{}{}
		}
	}
	o.known.Store(set)
	return err
}

// has reports whether addr, which must be unmapped, is this machine's. When the list is old, one caller
// refreshes it while the others use the old list.
func (o *ownAddrs) has(addr netip.Addr) bool {
	set := o.known.Load()
	if now := time.Now(); !now.Before(set.until) && o.mu.TryLock() {
		if o.known.Load() == set {
			_ = o.refresh(now) // on failure the old list remains
		}
		o.mu.Unlock()
		set = o.known.Load()
	}
	_, own := set.addrs[addr]
	return own
}

// ownAddrs returns OwnAddrs or its default. The default with Dial is empty, because Dial need not lead to
// this machine's network.
func (o *Options) ownAddrs() func() ([]netip.Addr, error) {
	switch {
	case o.OwnAddrs != nil:
		return o.OwnAddrs
	case o.Dial != nil:
		return func() ([]netip.Addr, error) { return nil, nil }
	}
	return interfaceAddrs
}

// interfaceAddrs returns the addresses of this machine's interfaces.
func interfaceAddrs() ([]netip.Addr, error) {
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.Addr, 0, len(nets))
	for _, n := range nets {
		if ip, ok := n.(*net.IPNet); ok {
			if a, ok := netip.AddrFromSlice(ip.IP); ok {
				addrs = append(addrs, a)
			}
		}
	}
	return addrs, nil
}
