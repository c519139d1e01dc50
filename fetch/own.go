package fetch

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// ownFor is how long the addresses of this machine are believed.
	ownFor = time.Minute
	// maxOwn bounds how many of them are kept.
	maxOwn = 1 << 16
)

// ownAddrs knows the addresses of this machine. Behind a public one of them ports may be open that only a firewall guards, and
// it doesn't guard them from this machine.
type ownAddrs struct {
	list  func() ([]netip.Addr, error)
	known atomic.Pointer[ownSet]
	mu    sync.Mutex // serialises renewals of the list
}

// ownSet doesn't change.
type ownSet struct {
	addrs map[netip.Addr]struct{}
	until time.Time
}

// init lists the addresses for the first time: where that fails nothing would be refused.
func (o *ownAddrs) init(list func() ([]netip.Addr, error)) error {
	o.list = list
	return o.refresh(time.Now())
}

func (o *ownAddrs) refresh(now time.Time) error {
	addrs, err := o.list()
	set := &ownSet{until: now.Add(ownFor)}
	if err != nil {
		if old := o.known.Load(); old != nil {
			set.addrs = old.addrs // for want of descriptors, say: asked again in a minute
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

// has tells whether addr, which isn't mapped, is this machine's. One caller asks anew when the list is old; the others take the old one
// meanwhile.
func (o *ownAddrs) has(addr netip.Addr) bool {
	set := o.known.Load()
	if now := time.Now(); !now.Before(set.until) && o.mu.TryLock() {
		if o.known.Load() == set {
			_ = o.refresh(now) // the old list stands
		}
		o.mu.Unlock()
		set = o.known.Load()
	}
	_, own := set.addrs[addr]
	return own
}

// ownAddrs is OwnAddrs or its default. Where Dial leads isn't this machine.
func (o *Options) ownAddrs() func() ([]netip.Addr, error) {
	switch {
	case o.OwnAddrs != nil:
		return o.OwnAddrs
	case o.Dial != nil:
		return func() ([]netip.Addr, error) { return nil, nil }
	}
	return interfaceAddrs
}

// interfaceAddrs are the addresses of this machine's interfaces.
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
