package dnscache

import (
	"net/netip"
	"time"
)

// entryBytes is the cost of an entry besides its packed bytes: 40 bytes of table, about 48 of map at its
// mean load, and the rounding of the packed string.
const entryBytes = 96

// entry is the answer for one host. packed holds the name and the addresses in one allocation, so the
// garbage collector sees at most three objects for each entry.
type entry struct {
	packed  string // name, IPv4 addresses, IPv6 addresses; "": a free slot
	expires int64  // unix nanoseconds
	host    uint8  // length of the name in bytes
	n4, n6  uint8
	kind    Kind // 0: addresses
	used    bool // since the hand last passed
}

// cache is a table with second-chance (CLOCK) eviction, bounded in entries and bytes. It is not safe for
// concurrent use.
type cache struct {
	maxEntries int
	maxBytes   int64
	index      map[string]uint32
	slots      []entry
	free       []uint32
	hand       int
	bytes      int64
	latest     int64  // the latest time seen, in unix nanoseconds
	space      []byte // scratch space for packing an entry
}

func newCache(maxEntries int, maxBytes int64) *cache {
	return &cache{maxEntries: maxEntries, maxBytes: maxBytes, index: make(map[string]uint32)}
}

func (e *entry) cost() int64 { return entryBytes + int64(len(e.packed)) }

// clockSlack is how far the clock may go back before get assumes that it was set back.
const clockSlack = int64(time.Hour)

// get returns the entry of host if it has not expired. If the clock was set back, get empties the cache: its
// entries would otherwise stay valid until the former time.
func (c *cache) get(host string, now time.Time) (*entry, bool) {
	if at := now.UnixNano(); at+clockSlack < c.latest {
		*c = *newCache(c.maxEntries, c.maxBytes)
	} else {
		c.latest = max(c.latest, at)
	}
	i, ok := c.index[host]
	if !ok {
		return nil, false
	}
	e := &c.slots[i]
	if now.UnixNano() >= e.expires {
		c.remove(i)
		return nil, false
	}
	e.used = true
	return e, true
}

// answer unpacks the addresses.
func (e *entry) answer() Answer {
	a := Answer{Expires: time.Unix(0, e.expires)}
	p := e.packed[e.host:]
	a.Addrs = make([]netip.Addr, 0, int(e.n4)+int(e.n6))
	for range e.n4 {
		a.Addrs = append(a.Addrs, netip.AddrFrom4([4]byte([]byte(p[:4]))))
		p = p[4:]
	}
	for range e.n6 {
		a.Addrs = append(a.Addrs, netip.AddrFrom16([16]byte([]byte(p[:16]))))
		p = p[16:]
	}
	return a
}

// put stores an answer or a failure and evicts entries to make room. It stores IPv4 addresses first.
func (c *cache) put(host string, addrs []netip.Addr, kind Kind, expires, now time.Time) {
	if i, ok := c.index[host]; ok {
		c.remove(i)
	}
	e := entry{expires: expires.UnixNano(), host: uint8(len(host)), kind: kind}
	b := append(c.space[:0], host...)
	for _, a := range addrs {
		if a.Is4() {
			v := a.As4()
			b, e.n4 = append(b, v[:]...), e.n4+1
		}
	}
	for _, a := range addrs {
		if !a.Is4() {
			v := a.As16()
			b, e.n6 = append(b, v[:]...), e.n6+1
		}
	}
	c.space = b
	e.packed = string(b)
	for len(c.index) > 0 && (len(c.index) >= c.maxEntries || c.bytes+e.cost() > c.maxBytes) {
		c.evict(now.UnixNano())
	}
	if e.cost() > c.maxBytes {
		return
	}
	i := uint32(len(c.slots))
	if n := len(c.free); n > 0 {
		i, c.free = c.free[n-1], c.free[:n-1]
		c.slots[i] = e
	} else {
		c.slots = append(c.slots, e)
	}
	c.index[e.packed[:e.host]] = i
	c.bytes += e.cost()
}

// evict removes the first entry under the hand that has expired or was not used since the hand's last pass.
// There always is one, because the hand clears the marks as it passes.
func (c *cache) evict(now int64) {
	for {
		if c.hand++; c.hand >= len(c.slots) {
			c.hand = 0
		}
		e := &c.slots[c.hand]
		switch {
		case e.packed == "":
		case e.used && e.expires > now:
			e.used = false
		default:
			c.remove(uint32(c.hand))
			return
		}
	}
}

func (c *cache) remove(i uint32) {
	e := &c.slots[i]
	c.bytes -= e.cost()
	delete(c.index, e.packed[:e.host])
	*e = entry{}
	c.free = append(c.free, i)
}
