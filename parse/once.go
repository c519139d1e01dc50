package parse

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// ExtractOnce is Extract for those who needn't see a link twice. again(n) stands for a link whose URL is that of the nth
// call of emit, counted from 0 on this page, and whose NoFollow is as that link's; its Tag and Rel may differ. Not all
// repeats are recognised, only references that are alike up to their fragments, and the last thousand different ones at
// least as a rule. On pages of documentation that's nine tenths of the links, most of them to a place on the page itself.
func (x *Extractor) ExtractOnce(pageURL, body []byte, contentType string,
	emit func(canonical []byte, l *Link), again func(n int)) (Counts, error) {
	if err := x.begin(pageURL, body, contentType); err != nil {
		return Counts{}, err
	}
	if x.seen == nil {
		x.seen = new(seenRefs)
	}
	x.seen.reset()
	c := Counts{Dropped: int64(x.page.Dropped), TooLong: int64(x.page.LongRefs)}
	emitted := int32(0)
	for i := range x.page.Links {
		l := &x.page.Links[i]
		slot, hit := x.seen.find(x.page.Links, i)
		if hit {
			if c.count(slot.outcome); slot.outcome == outcomeLink {
				again(int(slot.nth))
			}
			continue
		}
		var err error
		x.url, err = x.resolver.AppendResolve(x.url[:0], &x.base, l.Ref)
		what := outcomeOf(err)
		if slot != nil {
			slot.outcome, slot.nth = what, emitted
		}
		if c.count(what); what == outcomeLink {
			emitted++
			emit(x.url, l)
		}
	}
	return c, nil
}

// seenRefs remembers references of the page, one in each slot that its hash chooses.
type seenRefs struct {
	page  uint32 // number of the page; slots of others are empty
	slots [seenSlots]seenSlot
}

// 1024 slots take 20 KiB, half of the CPU's nearest cache. Nine in ten pages have fewer different references.
const seenSlots = 1 << 10

type seenSlot struct {
	page    uint32
	hash    uint32
	link    int32 // index of the first link like it
	nth     int32 // which call of emit it was
	outcome outcome
}

func (s *seenRefs) reset() {
	s.page++
	if s.page == 0 { // it has wrapped: slots of four billion pages ago would pass for this one's
		*s = seenRefs{page: 1}
	}
}

// find returns the slot of links[i], and whether an equal link is in it. If not, the slot is that link's, which the caller
// fills in; nil if the link takes no part.
func (s *seenRefs) find(links []Link, i int) (slot *seenSlot, hit bool) {
	l := &links[i]
	ref := l.Ref
	if at := bytes.IndexByte(ref, '#'); at >= 0 {
		ref = ref[:at]
	}
	if n := len(ref); n > 0 && ref[n-1] <= ' ' {
		return nil, false // spaces at the end go, but not those before a '#'
	}
	hash := hashRef(ref)
	slot = &s.slots[hash%seenSlots]
	if slot.page == s.page && slot.hash == hash {
		first := &links[slot.link]
		if first.NoFollow == l.NoFollow && len(first.Ref) >= len(ref) && string(first.Ref[:len(ref)]) == string(ref) &&
			(len(first.Ref) == len(ref) || first.Ref[len(ref)] == '#') {
			return slot, true
		}
	}
	slot.page, slot.hash, slot.link = s.page, hash, int32(i)
	return slot, false
}

// hashRef mixes eight bytes at a time. A page that aims at collisions only has its links looked at again.
func hashRef(b []byte) uint32 {
	const k0, k1 = 0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9
	h := uint64(len(b)) * k1
	mix := func(v uint64) {
		hi, lo := bits.Mul64(h^v, k0)
		h = hi ^ lo
	}
	if n := len(b); n >= 8 {
		for i := 0; i+8 < n; i += 8 {
			mix(binary.LittleEndian.Uint64(b[i:]))
		}
		mix(binary.LittleEndian.Uint64(b[n-8:]))
	} else {
		v := uint64(0)
		for _, c := range b {
			v = v<<8 | uint64(c)
		}
		mix(v)
	}
	return uint32(h>>32) ^ uint32(h)
}
