package parse

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// ExtractOnce is Extract for callers that need each link only once. It calls again(n) for a link with the
// same URL, NoFollow and Asset as that of the nth call of emit, counted from 0 on this page; Tag and Rel may
// differ. It recognizes only references that are equal up to their fragments, and usually remembers at least
// the last thousand different ones. On documentation pages nine tenths of the links are repeats, most of
// them to places on the same page.
func (x *Extractor) ExtractOnce(pageURL, body []byte, contentType string,
	emit func(canonical []byte, l *Link), again func(n int)) (Counts, error) {
	if err := x.Parse(pageURL, body, contentType); err != nil {
		return Counts{}, err
	}
	return x.Once(emit, again), nil
}

// Once emits the links of the page parsed last, as ExtractOnce does.
func (x *Extractor) Once(emit func(canonical []byte, l *Link), again func(n int)) Counts {
	if x.seen == nil {
		x.seen = new(seenRefs)
	}
	x.seen.reset()
	c := Counts{Dropped: int64(x.page.Dropped), TooLong: int64(x.page.LongRefs)}
	emitted := int32(0)
	for i := range x.page.Links {
		l := &x.page.Links[i]
		slot, hit := x.seen.find(x.page.Links, l, i)
		if hit && slot.nth >= 0 {
			c.Links++
			again(int(slot.nth))
			continue
		}
		if hit {
			c.count(outcome(^slot.nth))
			continue
		}
		var err error
		x.url, err = x.resolver.AppendResolve(x.url[:0], &x.base, l.Ref)
		what := outcomeOf(err)
		nth := ^int32(what)
		if what == outcomeLink {
			nth = emitted
		}
		if slot != nil {
			slot.nth = nth
		}
		if c.count(what); what == outcomeLink {
			emitted++
			emit(x.url, l)
		}
	}
	return c
}

// seenRefs is a hash table of the references of a page, one for each slot.
type seenRefs struct {
	page  uint32 // number of the current page; slots with other numbers are empty
	slots [seenSlots]seenSlot
}

// 1024 slots take 16 KiB, a third of the CPU's L1 cache. Nine in ten pages have fewer different references.
const seenSlots = 1 << 10

type seenSlot struct {
	page uint32
	hash uint32
	link int32 // index of the first such link
	nth  int32 // number of its call of emit, or ^outcome if it was not emitted
}

func (s *seenRefs) reset() {
	s.page++
	if s.page == 0 { // after a wrap, old slots would pass for current ones
		*s = seenRefs{page: 1}
	}
}

// find returns the slot of links[i], which is l, and whether it holds an equal link. If not, the slot now
// holds this link, and the caller sets nth. A nil slot means that the link cannot be compared.
func (s *seenRefs) find(links []Link, l *Link, i int) (slot *seenSlot, hit bool) {
	ref := l.Ref
	if at := bytes.IndexByte(ref, '#'); at >= 0 {
		ref = ref[:at]
	}
	n := len(ref)
	if n > 0 && ref[n-1] <= ' ' {
		return nil, false // trailing spaces are trimmed, but not those before a '#'
	}
	hash := hashRef(ref)
	slot = &s.slots[hash%seenSlots]
	if slot.page == s.page && slot.hash == hash {
		first := &links[slot.link]
		if first.NoFollow == l.NoFollow && first.Asset == l.Asset && len(first.Ref) >= n &&
			string(first.Ref[:n]) == string(ref) && (len(first.Ref) == n || first.Ref[n] == '#') {
			return slot, true
		}
	}
	slot.page, slot.hash, slot.link = s.page, hash, int32(i)
	return slot, false
}

// hashRef hashes 16 bytes at a time. A page that provokes collisions only causes its links to be resolved
// again.
func hashRef(b []byte) uint32 {
	const k0, k1 = 0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9
	n := len(b)
	h := uint64(n) * k1
	for len(b) > 16 {
		hi, lo := bits.Mul64(h^binary.LittleEndian.Uint64(b), k0^binary.LittleEndian.Uint64(b[8:]))
		h, b = hi^lo, b[16:]
	}
	var first, last uint64
	switch {
	case len(b) >= 8:
		first, last = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[len(b)-8:])
	case len(b) >= 4:
		first, last = uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[len(b)-4:]))
	case len(b) > 0:
		first = uint64(b[0])<<16 | uint64(b[len(b)/2])<<8 | uint64(b[len(b)-1])
	}
	hi, lo := bits.Mul64(h^first, k0^last)
	h = hi ^ lo
	return uint32(h>>32) ^ uint32(h)
}
