package star

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/extsort"
)

// The computation of supporters. The paper leaves open how to rank PLDs so that farms of many PLDs gain
// nothing. Sparkman, Lee and Loguinov (INFOCOM 2011) rank by the supporters at distance two, the PLDs that
// link to those that link to y. A farm can create supporters at any distance. So here supporters count by
// trust, which a farm cannot create:
//
//	trust(y)      = (1-damping)·seed(y) + damping · Σ trust(x)·w(y)/W(x) over the PLDs x that link to y
//	W(x)          = Σ w(y) over the PLDs y that x links to
//	standing(y)   = min(1, trust(y)/unit)
//	supporters(y) = Σ standing(x) over the PLDs x that link to y
//
// damping is depth/(depth+1): trust flows depth links from a seed on average, the number of links by which
// seeds reach most of the web. With more, a farm would keep more trust than necessary; with less, PLDs far
// from the seeds would get none. depth is the number of steps that at least double the number of PLDs holding
// half of an undamped trust. A farm with less than half of it has little influence on that.
//
// seed(y) is the share of a PLD of seeds (shareOut), 0 for others, and the trust of PLDs without links
// returns to the seeds, so all trust sums to 1 (Gyöngyi, Garcia-Molina and Pedersen, VLDB 2004, rank pages by
// such a trust, with w = 1). All PLDs of a farm together have at most damping/(1-damping) = depth times the
// trust of the PLDs that link to it from outside, regardless of their number and of their links to each
// other. Dividing the trust among PLDs gains nothing, since a budget is at most proportional to trust.
//
// w(y) is 1/max(1, supporters(y)), by supporters that a first round computes with w = 1. With w = 1 in the
// second round too, trust would follow in-links, and one expired popular PLD would bring a farm as much trust
// as 20 others. With these weights all honest PLDs have about the same trust, so k PLDs that expired or sell
// links bring a farm at most depth times the trust of k average PLDs. In-links would serve as weights, too,
// but then a farm could take trust from a PLD by links to it.
//
// The unit is chosen so that PLDs with standing 1 hold unitShare of all trust. The average would not work as
// the unit: a farm with endless PLDs lowers it at will.
//
// The cost: edges sorted by origin, and once more when they get weights; then each step reads them and sorts
// a number for each edge by target.

const (
	unitShare = 0.95
	// mostDepth bounds the depth, and so the time of a computation.
	mostDepth = 4
	// roughSteps is the number of links that trust flows from a seed in the first round. In the second it
	// flows 3·depth+3 links: PLDs farther away hold less than 4 % of all trust.
	roughSteps = 4
	// sortersAtOnce is the number of sorters that are in use at once.
	sortersAtOnce = 5
	// knownRAM is the RAM for sorting the PLDs of several nodes.
	knownRAM = 4 << 20
	// LeastSupportRAM is the least RAM of a computation, in bytes.
	LeastSupportRAM = sortersAtOnce*4<<20 + knownRAM
)

// SupportBytesPerEdge is the disk space for each edge that a computation takes at most at one time, in bytes: the edges
// by origin (20), by target (20), and the merge of the latter in steps.
const SupportBytesPerEdge = 60

// SupportTrafficPerEdge is about the I/O of a computation that does not fit into RAM, in bytes for each edge,
// at a depth of 3: edges written three times and read 25 times, 21 times a number for each written, merged
// and read, all compressed. BenchmarkSupporters measures it.
const SupportTrafficPerEdge = 600

// SupportOptions describe a computation.
type SupportOptions struct {
	Set   disk.Set // where the files of State are
	Name  string
	State *State
	FS    disk.FS // for sorting
	Dir   string  // for sorting; it need not exist
	// RAMBytes is the RAM for sorting, at least LeastSupportRAM.
	RAMBytes int64
	Ranks    int // number of Codes minus one
	// Trusted are keys of PLDs, ascending, at most MostSeeds. Trust begins at those among them that the state
	// knows, instead of at the seeds. None means the seeds.
	Trusted []uint64
	// Update takes the Supports that differ from those of the state, some hundred a call, by ascending key.
	Update func([]SupportUpdate) error
	// Whole makes the computation one for all nodes of a cluster (supportparts.go): State is that of one of them,
	// Others are the other ones, and Update takes the Supports of all PLDs that any of them knows.
	Whole  bool
	Others []SupportPart
}

// SupportRanks is the result of a computation.
type SupportRanks struct {
	SupportState
	Codes   []uint32 // the Ranks+1 largest Supports, descending; none with SupportOptions.Whole
	Updates int64    // calls of Update have had so many Supports
}

// ErrNoSeeds means that no PLD of a seed is known, as in crawls of earlier releases.
var ErrNoSeeds = errors.New("star: no PLDs of seeds are known")

// ErrNoTrusted means that none of SupportOptions.Trusted is known yet.
var ErrNoTrusted = errors.New("star: the crawl has not found any trusted PLD yet")

// supportSum is the state of a computation.
type supportSum struct {
	*SupportOptions
	ctx   context.Context
	seeds []uint64
	// shares of the seeds in the trust that begins at seeds; their sum is 1.
	shares []float64
	unit   float64 // of trust
	depth  int
	// damping is the part of its trust that a PLD passes on.
	damping float64
	// edges has records of origin, target and w of the target (float32), totals of PLD and its W (float64),
	// trust of PLD and trust (float64). Numbers are big-endian.
	edges, totals, trust *extsort.Sorter
	// known has the keys of the PLDs of all nodes, with Whole.
	known   *extsort.Sorter
	batch   []SupportUpdate // for the next call of Update
	sorters int
	calls   int
}

// ComputeSupport computes the Support of all PLDs in a state. It changes no file but those for sorting, which it
// removes. It takes RAMBytes and some MiB, however large the state is. It may run beside a Star.
func ComputeSupport(ctx context.Context, opt SupportOptions) (_ *SupportRanks, err error) {
	began := time.Now()
	c := &supportSum{SupportOptions: &opt, ctx: ctx}
	if err := opt.State.check(); err != nil {
		return nil, fmt.Errorf("star: supporters of %s: %w", opt.Name, err)
	}
	defer func() {
		for _, s := range []*extsort.Sorter{c.edges, c.totals, c.trust, c.known} {
			if s != nil {
				err = errors.Join(err, s.Close())
			}
		}
		_ = opt.FS.Remove(opt.Dir) // an error leaves an empty directory, or there is none
	}()
	if err := c.clear(); err != nil {
		return nil, fmt.Errorf("star: supporters of %s: %w", opt.Name, err)
	}
	r := &SupportRanks{}
	if r.Edges, err = c.sortEdges(); err != nil {
		return nil, err
	}
	if err := c.findSeeds(); errors.Is(err, ErrNoSeeds) || errors.Is(err, ErrNoTrusted) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("star: supporters of %s: %w", opt.Name, err)
	}
	if err := c.shareOut(); err != nil {
		return nil, err
	}
	if err := c.findDepth(); err != nil {
		return nil, err
	}
	if err := c.walk(roughSteps); err != nil {
		return nil, err
	}
	if err := c.weigh(); err != nil {
		return nil, err
	}
	if err := c.walk(3*c.depth + 3); err != nil {
		return nil, err
	}
	if err := c.finish(r); err != nil {
		return nil, err
	}
	r.Time, r.Millis = time.Now().Unix(), time.Since(began).Milliseconds()
	return r, nil
}

// findSeeds fills seeds. Trust of unknown PLDs would only dilute that of the others.
func (c *supportSum) findSeeds() (err error) {
	if len(c.Trusted) == 0 {
		if c.seeds, err = c.allSeeds(); err == nil && len(c.seeds) == 0 {
			err = ErrNoSeeds
		}
		return err
	}
	err = c.eachPLD(func(pld uint64) error {
		if _, is := slices.BinarySearch(c.Trusted, pld); is {
			c.seeds = append(c.seeds, pld)
		}
		return c.alive()
	})
	slices.Sort(c.seeds)
	if err == nil && len(c.seeds) == 0 {
		err = ErrNoTrusted
	}
	return err
}

func (c *supportSum) sorter() *extsort.Sorter {
	return c.sorterOf((c.RAMBytes - knownRAM) / sortersAtOnce)
}

func (c *supportSum) sorterOf(ram int64) *extsort.Sorter {
	c.sorters++
	return extsort.New(extsort.Options{FS: c.FS, Dir: c.sorterDir(c.sorters), RAMBytes: ram})
}

func (c *supportSum) sorterDir(n int) string { return fmt.Sprintf("%s/sort%d", c.Dir, n) }

// mostSorters is the number of sorters of a computation: of PLDs, of edges, totals and trust for each round, of votes,
// of edges by target and supporters, and two for each step.
const mostSorters = 2*(mostDepth+1+roughSteps+3*mostDepth+3) + 14

// clear removes the files of a killed process.
func (c *supportSum) clear() error {
	for n := 1; n <= mostSorters; n++ {
		names, err := c.FS.List(c.sorterDir(n))
		if err != nil {
			continue // there is none
		}
		for _, name := range names {
			if err := c.FS.Remove(c.sorterDir(n) + "/" + name); err != nil {
				return err
			}
		}
		if err := c.FS.Remove(c.sorterDir(n)); err != nil {
			return err
		}
	}
	return nil
}

// alive returns the context's error from time to time.
func (c *supportSum) alive() error {
	if c.calls++; c.calls%4096 == 0 {
		return c.ctx.Err()
	}
	return nil
}

// sortEdges fills edges and totals, with weights of 1.
func (c *supportSum) sortEdges() (n int64, err error) {
	all := c.sorter()
	defer func() { err = errors.Join(err, all.Close()) }()
	if c.Whole {
		c.known = c.sorterOf(knownRAM)
	}
	var rec []byte
	if err := c.eachEdge(func(e Edge) error {
		rec = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(rec[:0], e.From), e.To)
		return errors.Join(all.Add(rec), c.alive())
	}); err != nil {
		return 0, err
	}
	if err := all.Sort(); err != nil {
		return 0, err
	}
	// Edges that wait for a merge may repeat others.
	c.edges = c.sorter()
	var last []byte
	for {
		edge, err := all.Next()
		if err != nil {
			return 0, err
		}
		if edge == nil {
			break
		}
		if string(edge) == string(last) {
			continue
		}
		last = append(last[:0], edge...)
		if string(edge[:8]) == string(edge[8:]) { // only with Whole
			if err := c.known.Add(edge[:8]); err != nil {
				return 0, err
			}
			continue
		}
		n++
		rec = binary.BigEndian.AppendUint32(append(rec[:0], edge...), math.Float32bits(1))
		if err := errors.Join(c.edges.Add(rec), c.alive()); err != nil {
			return 0, err
		}
	}
	if c.known != nil {
		if err := c.known.Sort(); err != nil {
			return 0, err
		}
	}
	return n, errors.Join(c.edges.Sort(), c.addTotals())
}

// addTotals fills totals from edges.
func (c *supportSum) addTotals() error {
	c.totals = c.sorter()
	edges := newSorted(c.edges)
	err := edges.begin()
	var rec []byte
	for err == nil && edges.ok {
		key, total := edges.key, 0.
		for err == nil && edges.ok && edges.key == key {
			total += edges.weight()
			err = errors.Join(edges.next(), c.alive())
		}
		rec = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(rec[:0], key), math.Float64bits(total))
		err = errors.Join(err, c.totals.Add(rec))
	}
	return errors.Join(err, c.totals.Sort())
}

// weigh replaces edges and totals by those with the weights of the second round.
func (c *supportSum) weigh() (err error) {
	byTarget, supporters := c.sorter(), c.sorter()
	defer func() { err = errors.Join(err, byTarget.Close(), supporters.Close()) }()
	trust, edges := newSorted(c.trust), newSorted(c.edges)
	var rec []byte
	for err = errors.Join(trust.begin(), edges.begin()); err == nil &&
		edges.ok; err = errors.Join(edges.next(), c.alive()) {
		t, err := trust.at(edges.key)
		if err != nil {
			return err
		}
		rec = binary.BigEndian.AppendUint64(append(rec[:0], edges.rest[:8]...), edges.key)
		rec = binary.BigEndian.AppendUint32(rec, math.Float32bits(float32(c.standing(t))))
		if err := byTarget.Add(rec); err != nil {
			return err
		}
	}
	if err = errors.Join(err, c.edges.Close(), c.totals.Close(), byTarget.Sort()); err != nil {
		return err
	}
	c.edges, c.totals = c.sorter(), nil
	in := newSorted(byTarget)
	for err = in.begin(); err == nil && in.ok; {
		key, sum := in.key, 0.
		for err == nil && in.ok && in.key == key {
			sum += in.weight()
			err = errors.Join(in.next(), c.alive())
		}
		rec = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(rec[:0], key), math.Float64bits(sum))
		err = errors.Join(err, supporters.Add(rec))
	}
	if err = errors.Join(err, supporters.Sort()); err != nil {
		return err
	}
	sums := newSorted(supporters)
	for err = errors.Join(in.begin(), sums.begin()); err == nil && in.ok; err = errors.Join(in.next(), c.alive()) {
		sum, err := sums.at(in.key)
		if err != nil {
			return err
		}
		rec = binary.BigEndian.AppendUint64(append(rec[:0], in.rest[:8]...), in.key)
		rec = binary.BigEndian.AppendUint32(rec, math.Float32bits(float32(1/max(1, sum))))
		if err := c.edges.Add(rec); err != nil {
			return err
		}
	}
	return errors.Join(err, c.edges.Sort(), c.addTotals())
}

// begin replaces trust by that at the seeds.
func (c *supportSum) begin() (err error) {
	if c.trust != nil {
		if err := c.trust.Close(); err != nil {
			return err
		}
	}
	c.trust, err = c.fromSeeds(nil, 1)
	return err
}

// findDepth computes depth and damping.
func (c *supportSum) findDepth() error {
	if err := c.begin(); err != nil {
		return err
	}
	_, last, err := c.holders(0.5)
	if err != nil {
		return err
	}
	c.damping = 1
	for c.depth < mostDepth {
		if err := c.step(); err != nil {
			return err
		}
		_, n, err := c.holders(0.5)
		if err != nil {
			return err
		}
		if n < 2*last {
			break
		}
		last = n
		c.depth++
	}
	c.depth = max(c.depth, 1)
	c.damping = float64(c.depth) / float64(c.depth+1)
	return nil
}

// walk computes trust and its unit, by steps links from the seeds.
func (c *supportSum) walk(steps int) (err error) {
	if err := c.begin(); err != nil {
		return err
	}
	for range steps {
		if err := c.step(); err != nil {
			return err
		}
	}
	c.unit, _, err = c.holders(unitShare)
	return err
}

// standing returns the standing of a PLD with this trust.
func (c *supportSum) standing(trust float64) float64 { return min(1, trust/c.unit) }

// step moves trust one link farther.
func (c *supportSum) step() error {
	sums, total, err := c.spread(func(trust, part float64) float64 { return c.damping * trust * part })
	if err != nil {
		return err
	}
	next, err := c.fromSeeds(sums, max(0, 1-total)) // rounding can make total more than 1
	if err = errors.Join(err, sums.Close(), c.trust.Close()); err != nil {
		if next != nil {
			err = errors.Join(err, next.Close())
		}
		return err
	}
	c.trust = next
	return nil
}

// spread sends a value along each edge whose origin has trust, and returns the values by target, not added up yet:
// records of PLD and float32. part is w(target)/W(origin). total is the sum of the values.
func (c *supportSum) spread(value func(trust, part float64) float64) (sums *extsort.Sorter, total float64, err error) {
	trust, totals, edges := newSorted(c.trust), newSorted(c.totals), newSorted(c.edges)
	sums = c.sorter()
	var rec []byte
	for err = errors.Join(trust.begin(), totals.begin(), edges.begin()); err == nil && edges.ok; err = edges.next() {
		var has bool
		if has, err = trust.seek(edges.key); err != nil {
			break
		} else if !has {
			continue
		}
		var all float64
		if all, err = totals.at(edges.key); err != nil {
			break
		}
		v := float32(value(trust.float(), edges.weight()/all))
		if v <= 0 {
			continue
		}
		total += float64(v)
		rec = binary.BigEndian.AppendUint32(append(rec[:0], edges.rest[:8]...), math.Float32bits(v))
		if err = errors.Join(sums.Add(rec), c.alive()); err != nil {
			break
		}
	}
	if err == nil {
		err = sums.Sort()
	}
	if err != nil {
		return nil, 0, errors.Join(err, sums.Close())
	}
	return sums, total, nil
}

// fromSeeds returns the trust that consists of the sums, which may be nil, and of rest, by the shares of the seeds.
func (c *supportSum) fromSeeds(sums *extsort.Sorter, rest float64) (trust *extsort.Sorter, err error) {
	trust = c.sorter()
	in := newSorted(sums)
	if err := in.begin(); err != nil {
		return trust, err
	}
	var rec []byte
	seeds, shares := c.seeds, c.shares
	for in.ok || len(seeds) > 0 {
		key := in.key
		if !in.ok || len(seeds) > 0 && seeds[0] < key {
			key = seeds[0]
		}
		sum, err := in.sum(key)
		if err != nil {
			return trust, err
		}
		if len(seeds) > 0 && seeds[0] == key {
			sum += rest * shares[0]
			seeds, shares = seeds[1:], shares[1:]
		}
		rec = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(rec[:0], key), math.Float64bits(sum))
		if err := errors.Join(trust.Add(rec), c.alive()); err != nil {
			return trust, err
		}
	}
	return trust, trust.Sort()
}

// holders returns the least trust among the richest PLDs that together hold a share of all, and their number.
// Both are exact to a step of the histogram, which has 64 steps for each power of two.
func (c *supportSum) holders(share float64) (least float64, plds int64, err error) {
	const steps = 64
	// Round numbers, such as four PLDs with a quarter each, lie on the borders of steps and shares. rounding moves the
	// borders off them, so that the order of additions decides nothing.
	const rounding = 1e-5
	// sums[i] is the trust of PLDs whose trust is 2^(-i/steps) or a step less, and counts[i] their number.
	var sums [64*steps + 1]float64
	var counts [64*steps + 1]int64
	all := 0.
	in := newSorted(c.trust)
	for err = in.begin(); err == nil && in.ok; err = in.next() {
		t := in.float()
		i := int(min(max(0, -math.Log2(t)*steps+rounding), 64*steps))
		sums[i] += t
		counts[i]++
		all += t
	}
	if err != nil {
		return 0, 0, err
	}
	i, sum := 0, sums[0]
	plds = counts[0]
	for sum < share*all*(1-rounding) && i < 64*steps {
		i++
		sum += sums[i]
		plds += counts[i]
	}
	return math.Exp2(-float64(i+1) / steps), plds, nil
}

// supportTuples returns the update tuples of Supports. values has room for 3 bytes each.
func (s *Star) supportTuples(updates []SupportUpdate, values []byte) []drum.Tuple {
	tuples := make([]drum.Tuple, 0, len(updates))
	for _, u := range updates {
		at := len(values)
		values = binary.LittleEndian.AppendUint16(append(values, updateSupport), uint16(u.Support))
		tuples = append(tuples, drum.Tuple{Key: drum.Key(u.PLD), Op: drum.Update, Value: values[at:]})
	}
	return tuples
}
