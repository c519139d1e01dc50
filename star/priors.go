package star

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"drumbeat/disk"
)

// A prior in-degree is what a list of domain ranks says of a PLD before the crawl has found its links. The in-degree
// that budgets go by is
//
//	max(own, prior)    prior = PriorLinks / rank, rounded down
//
// In-degrees of the web fall about as 1/rank (Zipf's law), and a list has ranks alone. Each link that the crawl finds
// takes the place of one of the prior, since the list has most likely counted it, too: no link counts twice, and no
// PLD falls when it gains a link. A prior has no effect once the crawl has found as many links: at 10^8 PLDs the
// in-degree of rank 1,000 is far above its prior of 100.
//
// Only PLDs that the crawl knows take part in ranks. The checkpoint has for each prior the in-degree of the last merge
// and whether the PLD is known, so a prior is a function of the list and of the PLD records: a crash neither loses it
// nor adds it again. If the list changes, Open reads the PLD records once.

const (
	// PriorLinks is the prior in-degree of rank 1. Ranks above it have none.
	PriorLinks = 100_000
	// MostPriors bounds Options.Priors, and so their RAM: 64 bytes for each.
	MostPriors = 1 << 17
	priorRAM   = 64
	priorBytes = 16 // in a checkpoint
)

// Prior is the prior in-degree of a PLD.
type Prior struct {
	PLD   uint64
	Links uint32
}

// knownPrior is a prior with the in-degree of its PLD; own is 0 until the PLD is known.
type knownPrior struct {
	Prior
	own   uint32
	known bool
}

func (p *knownPrior) indegree() uint32 { return max(p.own, p.Links) }

// priors are those of a Star. The keys and links do not change.
type priors struct {
	list    []knownPrior // by key, ascending
	at      map[uint64]int32
	changed bool // a value, since the last Refresh
}

func newPriors(list []Prior) (p priors, err error) {
	if len(list) > MostPriors {
		return p, fmt.Errorf("%d prior in-degrees: want at most %d", len(list), MostPriors)
	}
	for _, prior := range list {
		p.list = append(p.list, knownPrior{Prior: prior})
	}
	slices.SortFunc(p.list, func(a, b knownPrior) int { return cmp.Compare(a.PLD, b.PLD) })
	p.index()
	if len(p.at) < len(p.list) {
		return p, fmt.Errorf("a PLD has two prior in-degrees")
	}
	return p, nil
}

func (p *priors) index() {
	if len(p.list) == 0 {
		return // apply looks nothing up in a nil map
	}
	p.at = make(map[uint64]int32, len(p.list))
	for i := range p.list {
		p.at[p.list[i].PLD] = int32(i)
	}
}

// links returns the prior in-degree of a PLD, 0 without one.
func (p *priors) links(pld uint64) uint32 {
	if i, has := p.at[pld]; has {
		return p.list[i].Links
	}
	return 0
}

// set records the in-degree of a PLD that is known.
func (p *priors) set(pld uint64, own uint32) {
	i, has := p.at[pld]
	if !has {
		return
	}
	x := &p.list[i]
	p.changed = p.changed || !x.known || max(own, x.Links) != x.indegree()
	x.own, x.known = own, true
}

// degrees returns the largest in-degrees that budgets go by, of known PLDs, descending. Star.mu is held.
func (s *Star) degrees() []uint32 {
	if len(s.priors.list) == 0 {
		return s.ranks[ByIndegree].degrees()
	}
	var d []uint32
	for _, r := range s.ranks[ByIndegree].heap {
		if s.priors.links(r.PLD) == 0 {
			d = append(d, uint32(r.Value))
		}
	}
	for i := range s.priors.list {
		if p := &s.priors.list[i]; p.known {
			d = append(d, p.indegree())
		}
	}
	slices.Sort(d)
	slices.Reverse(d)
	return d[:min(len(d), s.ranks[ByIndegree].max)]
}

// loadPriors takes what a checkpoint says of the PLDs of the list, or reads it from their records. changed says that
// the list differs from that of the checkpoint.
func (s *Star) loadPriors(st *State) (changed bool, err error) {
	saved, err := priorsOf(s.opt.Set, st)
	if err != nil {
		return false, err
	}
	same := func(a, b knownPrior) bool { return a.Prior == b.Prior }
	if slices.EqualFunc(saved.list, s.priors.list, same) {
		s.priors = saved
		return false, nil
	}
	if len(s.priors.list) == 0 {
		return true, nil
	}
	return true, WalkPLDs(s.opt.Set, s.opt.Name, st, func(pld uint64, record PLD) error {
		s.priors.set(pld, record.Indegree)
		return nil
	})
}

// appendPriors appends for each prior, by key: 8 bytes key, 4 bytes links, 4 bytes in-degree plus 1, or 0 if the PLD
// is not known; little-endian.
func appendPriors(dst []byte, list []knownPrior) []byte {
	for _, p := range list {
		own := uint32(0)
		if p.known {
			own = min(p.own, math.MaxUint32-1) + 1
		}
		dst = binary.LittleEndian.AppendUint64(dst, p.PLD)
		dst = binary.LittleEndian.AppendUint32(dst, p.Links)
		dst = binary.LittleEndian.AppendUint32(dst, own)
	}
	return dst
}

// priorsOf returns the priors of a state.
func priorsOf(set disk.Set, st *State) (p priors, err error) {
	if st.Priors == nil {
		return p, nil
	}
	b, err := disk.ReadTail(set, *st.Priors)
	if err != nil {
		return p, err
	}
	if len(b)%priorBytes != 0 || len(b) > priorBytes*MostPriors {
		return p, fmt.Errorf("prior in-degrees have an invalid length, %d bytes", len(b))
	}
	for ; len(b) > 0; b = b[priorBytes:] {
		own := binary.LittleEndian.Uint32(b[12:])
		p.list = append(p.list, knownPrior{Prior: Prior{PLD: binary.LittleEndian.Uint64(b),
			Links: binary.LittleEndian.Uint32(b[8:])}, own: max(own, 1) - 1, known: own > 0})
	}
	if p.index(); len(p.at) < len(p.list) {
		return p, fmt.Errorf("a PLD has two prior in-degrees")
	}
	return p, nil
}
