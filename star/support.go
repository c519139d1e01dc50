package star

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"drumbeat/disk"
	"drumbeat/drum"
)

// Support is the rank criterion of the budget function Supporters. It is ordered: 0 if no computation has
// known the PLD yet; 1 to 1023 for a PLD without standing, by its share of the trust that standing takes;
// from 1024 for one with standing, by the logarithm of its supporters.
type Support uint16

const (
	standingCode = 1024
	codesPerBit  = 2048 // codes for each doubling of 1 plus the number of supporters: steps of 0.034 %
)

// newSupport returns the code of a PLD with this standing and this number of supporters.
func newSupport(standing, supporters float64) Support {
	if standing < 1 {
		return Support(1 + math.Floor(standing*(standingCode-1)))
	}
	return Support(min(math.MaxUint16, standingCode+math.Round(math.Log2(1+supporters)*codesPerBit)))
}

// Known reports whether a computation has known the PLD.
func (s Support) Known() bool { return s > 0 }

// Standing returns the share, from 0 to 1, of the trust that standing takes. It is 1 for each PLD with standing.
func (s Support) Standing() float64 { return min(1, float64(max(s, 1)-1)/(standingCode-1)) }

// Supporters returns the number of PLDs that link to a PLD with standing, each counted by its own standing.
// It is 0 for a PLD without standing. The coding has an error of 0.02 %, and the figure changes only if a computation
// gives one that differs by more than 0.6 %.
func (s Support) Supporters() float64 {
	if s < standingCode {
		return 0
	}
	return math.Exp2(float64(s-standingCode)/codesPerBit) - 1
}

// near reports whether a new code is so close to the old one that it is not worth an update.
func (s Support) near(old Support) bool {
	const fine, coarse = 8, 16
	switch {
	case old == 0 || s == old:
		return s == old
	case s < standingCode && old < standingCode:
		return max(s, old)-min(s, old) <= fine
	}
	return s >= standingCode && old >= standingCode && max(s, old)-min(s, old) <= coarse
}

// newcomers is a PLD's share of Default until a computation knows it. Without it, new PLDs would wait for
// days in a large crawl.
const newcomers = 1. / 32

// All newcomers together get one page for each newcomerPages that the crawl fetches. Otherwise a farm could
// link to endless new PLDs: 20,000 of them would together get 600 times the default budget, and each page
// brings more. The allowance keeps at most mostAllowed unused pages.
const (
	newcomerPages = 32
	mostAllowed   = 1 << 16
)

// allow adds fetched pages to the newcomers' allowance. It may run beside itself and the merge.
func (s *Star) allow(pages int64) {
	if s.allowance.Load() < mostAllowed*newcomerPages {
		s.allowance.Add(pages)
	}
}

// admitNewcomer takes a page from the allowance and reports whether it had one. Only the merge calls it.
func (s *Star) admitNewcomer() bool {
	if s.allowance.Load() < newcomerPages {
		return false
	}
	s.allowance.Add(-newcomerPages)
	return true
}

// countsNewcomer reports whether a page of a PLD is to be taken from the newcomers' allowance.
func (s *Star) countsNewcomer(key drum.Key, p *PLD) bool {
	return s.round.curve.codes != nil && !p.Support.Known() && !s.spare.Load() &&
		(s.opt.Pinned == nil || s.opt.Pinned(uint64(key)) == 0)
}

// by makes the curve one by supporters, if that is its function. codes are the largest Supports, descending; none
// before the first computation, or after a repair of damaged ones, which leaves the curve one by in-degree.
func (c *curve) by(codes []uint32) *curve {
	if c.Function == Supporters && len(codes) > 0 {
		c.codes = codes[:min(len(codes), c.k+1)]
	}
	return c
}

// share returns the budget of a PLD by its supporters, in pages; it may be a fraction.
func (c *curve) share(s Support) float64 {
	switch {
	case !s.Known():
		return float64(c.Default) * newcomers
	case s < standingCode:
		return float64(c.Default) * s.Standing()
	case len(c.codes) > c.k && uint32(s) <= c.codes[c.k]: // rank K+1 and those tied with it
		return float64(c.Default)
	}
	return c.byRank(rankIn(c.codes, uint32(s)))
}

// supported returns the budgets of a PLD by its supporters. A PLD without standing has a fraction of a page:
// it gets one page in some of the turns, so that its URLs are fetched in time. spare gives it a page in each
// turn.
func (c *curve) supported(key uint64, s Support, turn uint32, spare bool) (nominal, pages uint32) {
	f := c.share(s)
	if nominal, pages = c.rounded(f); s >= standingCode {
		return nominal, pages
	}
	whole, part := math.Modf(f * c.scale)
	pages = uint32(min(whole, MaxBudget))
	const spread = 0x9e3779b9 // of the golden ratio: the turns of a PLD are far from each other
	if float64(uint32(key>>32)+turn*spread) < part*(1<<32) {
		pages++
	}
	if spare {
		pages = max(pages, 1)
	}
	return max(nominal, 1), pages
}

// MostSeeds is the number of PLDs of seeds that are kept, and the most of SupportOptions.Trusted: half a MiB.
// Of more, those with the lowest keys are kept, a uniform sample.
const MostSeeds = 1 << 16

// support is a Star's data about supporters outside the PLD records.
type support struct {
	turn  atomic.Uint32 // number of calls of Refresh
	spare atomic.Bool
	// allowance is that of newcomers, in fetched pages. A run begins with 0.
	allowance atomic.Int64

	// The fields below are guarded by Star.mu.
	seeds    []uint64 // keys of the PLDs of seeds, ascending
	computed computed
	written  bool // PLD records may have a Support
}

// computed is the last computation.
type computed struct {
	SupportState
	Codes   []uint32 // the largest Supports, descending
	changed bool     // since the last Refresh
}

// SupportState describes a computation of supporters.
type SupportState struct {
	PLDs, Edges int64
	Time        int64    // its end, Unix seconds
	Millis      int64    // its duration
	Ranked      disk.Ref // the largest Supports, descending, 4 bytes each, little-endian
}

// Trust adds PLDs of seeds: trust begins there.
func (s *Star) Trust(plds []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pld := range plds {
		i, in := slices.BinarySearch(s.seeds, pld)
		if in || i == MostSeeds {
			continue
		}
		if len(s.seeds) == MostSeeds {
			s.seeds = s.seeds[:MostSeeds-1]
		}
		s.seeds = slices.Insert(s.seeds, i, pld)
	}
}

// Trusted returns the number of PLDs of seeds that are known, at most 65,536.
func (s *Star) Trusted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seeds)
}

// BySupporters reports whether the budget function is Supporters.
func (s *Star) BySupporters() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opt.Budgets.Function == Supporters
}

// Spare gives PLDs without standing at least a page a queue, as long as it is on. It is for a crawl without
// other URLs.
func (s *Star) Spare(on bool) { s.spare.Store(on) }

// SupportUpdate is the new Support of a PLD.
type SupportUpdate struct {
	PLD     uint64
	Support Support
}

// SetSupport changes the Support of PLDs; the next merge applies it. After a crash the computation is
// repeated, and with it all calls that no checkpoint covers.
func (s *Star) SetSupport(updates []SupportUpdate) error {
	s.mu.Lock()
	s.written = true
	s.mu.Unlock()
	f := make([]byte, 0, 3*len(updates))
	tuples := s.supportTuples(updates, f)
	return s.indegree.Add(tuples)
}

// Computed puts the ranks of a computation in force, from the next Refresh on, once all its SetSupport are made.
func (s *Star) Computed(r *SupportRanks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.computed = computed{SupportState: r.SupportState, Codes: r.Codes, changed: true}
}

// LastComputed returns the last computation of supporters; Time is 0 before the first.
func (s *Star) LastComputed() SupportState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.computed.SupportState
}

// frozenSupport is the part of Frozen.
type frozenSupport struct {
	seeds    []uint64
	computed computed
	written  bool
}

// freezeSupport copies the state. Star.mu is held.
func (s *Star) freezeSupport() frozenSupport {
	return frozenSupport{seeds: slices.Clone(s.seeds), computed: s.computed, written: s.written}
}

func (f *frozenSupport) save(tails *disk.Tails, st *State) error {
	if len(f.seeds) > 0 {
		ref, err := tails.Write(0, appendSeeds(nil, f.seeds))
		if err != nil {
			return err
		}
		st.Seeds = &ref
	}
	if f.written {
		st.V = max(st.V, furtherVersion)
	}
	if f.computed.Time == 0 {
		return nil
	}
	var b []byte
	for _, code := range f.computed.Codes {
		b = binary.LittleEndian.AppendUint32(b, code)
	}
	c := f.computed.SupportState
	var err error
	c.Ranked, err = tails.Write(0, b)
	st.Support = &c
	return err
}

// loadSupport loads the saved state.
func (s *Star) loadSupport(st *State) (err error) {
	if s.seeds, err = SeedsOf(s.opt.Set, st); err != nil {
		return err
	}
	s.written = st.V >= furtherVersion
	if st.Support != nil {
		s.computed.SupportState = *st.Support
		s.computed.Codes, err = codesOf(s.opt.Set, st)
	}
	return err
}

// codesOf returns the largest Supports in a state, nil before the first computation.
func codesOf(set disk.Set, st *State) ([]uint32, error) {
	if st.Support == nil {
		return nil, nil
	}
	b, err := disk.ReadTail(set, st.Support.Ranked)
	if err != nil {
		return nil, err
	}
	if len(b)%4 != 0 {
		return nil, fmt.Errorf("ranks of supporters have an invalid length, %d bytes", len(b))
	}
	codes := make([]uint32, 0, len(b)/4)
	for ; len(b) > 0; b = b[4:] {
		codes = append(codes, binary.LittleEndian.Uint32(b))
	}
	return codes, nil
}

// appendSeeds appends the keys of PLDs, 8 bytes each, little-endian, ascending.
func appendSeeds(dst []byte, seeds []uint64) []byte {
	for _, pld := range seeds {
		dst = binary.LittleEndian.AppendUint64(dst, pld)
	}
	return dst
}

// SeedsOf returns the keys of the PLDs of seeds in a state, ascending.
func SeedsOf(set disk.Set, st *State) ([]uint64, error) {
	if st.Seeds == nil {
		return nil, nil
	}
	b, err := disk.ReadTail(set, *st.Seeds)
	if err != nil {
		return nil, err
	}
	if len(b)%8 != 0 || len(b) > 8*MostSeeds {
		return nil, fmt.Errorf("PLDs of seeds have an invalid length, %d bytes", len(b))
	}
	seeds := make([]uint64, 0, len(b)/8)
	for ; len(b) > 0; b = b[8:] {
		seeds = append(seeds, binary.LittleEndian.Uint64(b))
	}
	if !slices.IsSorted(seeds) {
		return nil, fmt.Errorf("PLDs of seeds are not in order")
	}
	return seeds, nil
}
