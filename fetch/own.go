package fetch

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// ownFor is how long the list of this machine's networks is used before it is refreshed.
	ownFor = time.Minute
	// maxOwn bounds the number of networks kept, at 40 bytes each. One covers all addresses in it, so a machine
	// with a million addresses in one network has one.
	maxOwn = 1 << 16
)

// ownNets knows the networks of this machine's interfaces. A public address of ours or of a neighbour may have
// open ports that only a firewall at the edge protects, and that firewall does not protect them from within.
type ownNets struct {
	list  func() ([]netip.Prefix, error)
	known atomic.Pointer[ownSet]
	mu    sync.Mutex // serialises refreshes
}

// ownSet is immutable.
type ownSet struct {
	nets   map[netip.Prefix]struct{}
	v4, v6 []int // the lengths of nets, at most 33 and 129
	until  time.Time
}

// init lists the networks for the first time. A failure is an error, because without a list has would refuse
// no address.
func (o *ownNets) init(list func() ([]netip.Prefix, error)) error {
	o.list = list
	return o.refresh(time.Now())
}

func (o *ownNets) refresh(now time.Time) error {
	nets, err := o.list()
	set := &ownSet{nets: make(map[netip.Prefix]struct{})}
	for _, p := range nets {
		set.add(p)
	}
	if err == nil && len(set.nets) > maxOwn {
		err = fmt.Errorf("%d networks; at most %d are kept", len(set.nets), maxOwn)
	}
	if old := o.known.Load(); err != nil && old != nil {
		// For another minute, for instance if descriptors are short.
		set = &ownSet{nets: old.nets, v4: old.v4, v6: old.v6}
	}
	set.until = now.Add(ownFor)
	o.known.Store(set)
	return err
}

// add inserts a network; IPv4-mapped ones as IPv4.
func (s *ownSet) add(p netip.Prefix) {
	addr, bits := p.Addr().WithZone(""), p.Bits()
	if addr.Is4In6() && bits >= 96 {
		addr, bits = addr.Unmap(), bits-96
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return
	}
	s.nets[p] = struct{}{}
	lengths := &s.v6
	if addr.Is4() {
		lengths = &s.v4
	}
	if !slices.Contains(*lengths, bits) {
		*lengths = append(*lengths, bits)
	}
}

// contains reports whether one of the networks contains addr.
func (s *ownSet) contains(addr netip.Addr) bool {
	lengths := s.v6
	if addr.Is4() {
		lengths = s.v4
	}
	for _, bits := range lengths {
		p, _ := addr.Prefix(bits)
		if _, own := s.nets[p]; own {
			return true
		}
	}
	return false
}

// has reports whether addr, which must be unmapped, lies in a network of this machine. When the list is old,
// one caller refreshes it while the others use the old list.
func (o *ownNets) has(addr netip.Addr) bool {
	set := o.known.Load()
	if now := time.Now(); !now.Before(set.until) && o.mu.TryLock() {
		if o.known.Load() == set {
			_ = o.refresh(now) // on failure the old list remains
		}
		o.mu.Unlock()
		set = o.known.Load()
	}
	return set.contains(addr)
}

// ownNets returns OwnNets or its default. The default with Dial is empty, because Dial need not lead to this
// machine's network.
func (o *Options) ownNets() func() ([]netip.Prefix, error) {
	switch {
	case o.OwnNets != nil:
		return o.OwnNets
	case o.Dial != nil:
		return func() ([]netip.Prefix, error) { return nil, nil }
	}
	return interfaceNets
}

// OwnPublicNets returns the networks of this machine's interfaces, in order, that are refused for that reason
// alone: those with public addresses outside Options.AllowNets.
func (c *Client) OwnPublicNets() (nets []netip.Prefix) {
	for p := range c.own.known.Load().nets {
		refused := forbidden4
		if p.Addr().Is6() {
			refused = forbidden6
		}
		if (p.Addr().Is4() || p.Overlaps(global6)) && !covers(refused, p) && !covers(c.opt.AllowNets, p) {
			nets = append(nets, p)
		}
	}
	slices.SortFunc(nets, netip.Prefix.Compare)
	return nets
}

// covers reports whether one of the networks contains all of p.
func covers(nets []netip.Prefix, p netip.Prefix) bool {
	return slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Bits() <= p.Bits() && n.Contains(p.Addr()) })
}
