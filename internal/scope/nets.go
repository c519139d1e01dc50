package scope

import (
	"net/netip"
	"slices"
	"sort"
)

// network is a range of addresses. parent and best are as in prefix.
type network struct {
	prefix netip.Prefix
	parent int32
	best   Number
}

// networks is a sorted list of networks.
type networks struct{ list []network }

func (t *networks) add(p netip.Prefix, n Number) {
	t.list = append(t.list, network{prefix: p, parent: -1, best: n})
}

// finish sorts the list and sets parent and best.
func (t *networks) finish() {
	slices.SortStableFunc(t.list, func(a, b network) int {
		if c := a.prefix.Addr().Compare(b.prefix.Addr()); c != 0 {
			return c
		}
		return a.prefix.Bits() - b.prefix.Bits()
	})
	out := t.list[:0]
	for _, p := range t.list {
		if n := len(out); n > 0 && out[n-1].prefix == p.prefix {
			out[n-1].best = min(out[n-1].best, p.best)
			continue
		}
		p.parent = int32(len(out)) - 1
		for p.parent >= 0 && !out[p.parent].prefix.Contains(p.prefix.Addr()) {
			p.parent = out[p.parent].parent
		}
		if p.parent >= 0 {
			p.best = min(p.best, out[p.parent].best)
		}
		out = append(out, p)
	}
	t.list = slices.Clip(out)
}

// find returns the smallest rule of the networks that contain an address, or None.
func (t *networks) find(a netip.Addr) Number {
	if len(t.list) == 0 {
		return None
	}
	a = a.Unmap().WithZone("")
	i := sort.Search(len(t.list), func(i int) bool { return t.list[i].prefix.Addr().Compare(a) > 0 }) - 1
	for i >= 0 && !t.list[i].prefix.Contains(a) {
		i = int(t.list[i].parent)
	}
	if i < 0 {
		return None
	}
	return t.list[i].best
}
