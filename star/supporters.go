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

// The computation of supporters. The paper leaves open how to rank PLDs so that farms of many PLDs gain nothing.
// Sparkman, Lee and Loguinov (INFOCOM 2011) rank by the supporters at distance two, the PLDs that link to those that
// link to y. A farm can make supporters at any distance by itself. So here supporters count by trust, which a farm
// cannot make:
//
//	trust(y)      = (1-damping)·seed(y) + damping · Σ trust(x)/links(x) over the PLDs x that link to y
//	supporters(y) = Σ min(1, trust(x)/unit) over the PLDs x that link to y
//
// seed(y) is 1/n for the PLDs of the n seeds, and trust of PLDs without links returns there, so all trust is 1
// (Gyöngyi, Garcia-Molina and Pedersen, VLDB 2004, rank pages by such a trust). A PLD x that links to d others gives
// each damping·trust(x)/d. All PLDs of a farm together have at most 1/(1-damping) times the trust that its in-links
// from outside give, however they link to each other. Each counts at most as its trust, so supporters(y) of a PLD in
// the farm is at most that sum, and one for each bought link to y.
//
// The unit is such that PLDs with at least unitPart units have unitShare of all trust. In simweb that is the trust of
// the average PLD, within 10 %. The average itself will not do: a farm of endless PLDs lowers it as far as it likes.
//
// The cost: edges sorted by origin once; then each step reads them and sorts a number for each edge by target.

const (
	damping   = 0.7
	unitShare = 0.9
	unitPart  = 0.4
	// trustSteps is how many links from a seed trust gets. What is farther has less than damping^trustSteps, 6 %, of
	// all trust.
	trustSteps = 8
	// sortersAtOnce is the number of sorters that are in use at once.
	sortersAtOnce = 5
	// LeastSupportRAM is the least RAM of a computation, in bytes.
	LeastSupportRAM = sortersAtOnce * 4 << 20
)

// SupportBytesPerEdge is the disk space for each edge that a computation takes at most at one time, in bytes: the edges
// by origin (16), a number for each by target (12), and the merge of the latter in steps.
const SupportBytesPerEdge = 40

// SupportTrafficPerEdge is about what a computation that does not fit into RAM reads and writes for each edge, in
// bytes: edges written once and read ten times, nine times a number for each written, merged and read, all compressed.
// BenchmarkSupporters measures 140 to 216.
const SupportTrafficPerEdge = 250

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
	// Update takes the Supports that differ from those of the state, some hundred a call, by ascending key.
	Update func([]SupportUpdate) error
}

// SupportRanks is the result of a computation.
type SupportRanks struct {
	SupportState
	Codes   []uint32 // the Ranks+1 largest Supports, descending
	Updates int64    // Supports that have changed
}

// ErrNoSeeds says that no PLD of a seed is known, so trust begins nowhere. It is so for crawls of earlier releases.
var ErrNoSeeds = errors.New("star: no PLDs of seeds are known")

// supportSum is the state of a computation.
type supportSum struct {
	*SupportOptions
	ctx   context.Context
	seeds []uint64
	unit  float64 // of trust
	// edges has records of origin and target, degrees of PLD and number of links (4 bytes), trust of PLD and trust
	// (float64). Numbers are big-endian.
	edges, degrees, trust *extsort.Sorter
	sorters               int
	calls                 int
}

// ComputeSupport computes the Support of all PLDs in a state. It changes no file but those for sorting, which it
// removes. It takes RAMBytes and some MiB, however large the state is. It may run beside a Star.
func ComputeSupport(ctx context.Context, opt SupportOptions) (_ *SupportRanks, err error) {
	began := time.Now()
	c := &supportSum{SupportOptions: &opt, ctx: ctx}
	if err := opt.State.check(); err != nil {
		return nil, fmt.Errorf("star: supporters of %s: %w", opt.Name, err)
	}
	if c.seeds, err = seedsOf(opt.Set, opt.State); err != nil {
		return nil, fmt.Errorf("star: supporters of %s: %w", opt.Name, err)
	}
	if len(c.seeds) == 0 {
		return nil, ErrNoSeeds
	}
	defer func() {
		for _, s := range []*extsort.Sorter{c.edges, c.degrees, c.trust} {
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
	if c.trust, err = c.fromSeeds(nil, 1); err != nil {
		return nil, err
	}
	for range trustSteps {
		if err := c.step(); err != nil {
			return nil, err
		}
	}
	if err := c.findUnit(); err != nil {
		return nil, err
	}
	if err := c.finish(r); err != nil {
		return nil, err
	}
	r.Time, r.Millis = time.Now().Unix(), time.Since(began).Milliseconds()
	return r, nil
}

func (c *supportSum) sorter() *extsort.Sorter {
	c.sorters++
	return extsort.New(extsort.Options{FS: c.FS, Dir: c.sorterDir(c.sorters), RAMBytes: c.RAMBytes / sortersAtOnce})
}

func (c *supportSum) sorterDir(n int) string { return fmt.Sprintf("%s/sort%d", c.Dir, n) }

// mostSorters is the number of sorters of a computation: edges twice, degrees, and trust and sums for each step.
const mostSorters = 2*trustSteps + 5

// clear removes what a killed process left.
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

// sortEdges fills edges and degrees.
func (c *supportSum) sortEdges() (n int64, err error) {
	all := c.sorter()
	defer func() { err = errors.Join(err, all.Close()) }()
	var rec []byte
	if err := WalkEdges(c.Set, c.Name, c.State, func(e Edge) error {
		rec = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(rec[:0], e.From), e.To)
		return errors.Join(all.Add(rec), c.alive())
	}); err != nil {
		return 0, err
	}
	if err := all.Sort(); err != nil {
		return 0, err
	}
	// Edges that wait for a merge may repeat others.
	c.edges, c.degrees = c.sorter(), c.sorter()
	var last [16]byte
	var links uint32
	end := func() error {
		if links == 0 {
			return nil
		}
		rec = binary.BigEndian.AppendUint32(append(rec[:0], last[:8]...), links)
		links = 0
		return c.degrees.Add(rec)
	}
	for {
		edge, err := all.Next()
		if err != nil {
			return 0, err
		}
		if edge == nil {
			break
		}
		if n > 0 && string(edge) == string(last[:]) {
			continue
		}
		if string(edge[:8]) != string(last[:8]) {
			if err := end(); err != nil {
				return 0, err
			}
		}
		copy(last[:], edge)
		links++
		n++
		if err := errors.Join(c.edges.Add(edge), c.alive()); err != nil {
			return 0, err
		}
	}
	return n, errors.Join(end(), c.edges.Sort(), c.degrees.Sort())
}

// step replaces trust by that one link farther.
func (c *supportSum) step() error {
	sums, total, err := c.spread(func(trust float64, links uint32) float64 { return damping * trust / float64(links) })
	if err != nil {
		return err
	}
	next, err := c.fromSeeds(sums, 1-total)
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
// records of PLD and float32. total is their sum.
func (c *supportSum) spread(value func(trust float64, links uint32) float64) (sums *extsort.Sorter, total float64, err error) {
	trust, degrees, edges := newSorted(c.trust), newSorted(c.degrees), newSorted(c.edges)
	sums = c.sorter()
	var rec []byte
	for err = errors.Join(trust.begin(), degrees.begin(), edges.begin()); err == nil && edges.ok; err = edges.next() {
		var has bool
		if has, err = trust.seek(edges.key); err != nil {
			break
		} else if !has {
			continue
		}
		if _, err = degrees.seek(edges.key); err != nil {
			break
		}
		v := float32(value(trust.float(), binary.BigEndian.Uint32(degrees.rest)))
		if v <= 0 {
			continue
		}
		total += float64(v)
		rec = binary.BigEndian.AppendUint32(append(rec[:0], edges.rest...), math.Float32bits(v))
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

// fromSeeds returns the trust that consists of the sums, which may be nil, and of rest, shared by the seeds.
func (c *supportSum) fromSeeds(sums *extsort.Sorter, rest float64) (trust *extsort.Sorter, err error) {
	trust = c.sorter()
	in := newSorted(sums)
	if err := in.begin(); err != nil {
		return trust, err
	}
	var rec []byte
	seeds := c.seeds
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
			sum += rest / float64(len(c.seeds))
			seeds = seeds[1:]
		}
		rec = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(rec[:0], key), math.Float64bits(sum))
		if err := errors.Join(trust.Add(rec), c.alive()); err != nil {
			return trust, err
		}
	}
	return trust, trust.Sort()
}

// findUnit computes the unit from a histogram of trust by its size, in 64 steps for each power of two.
func (c *supportSum) findUnit() error {
	const steps = 64
	var sums [64*steps + 1]float64 // sums[i]: trust of PLDs whose trust is 2^(-i/steps) or a step less
	all := 0.
	in := newSorted(c.trust)
	err := in.begin()
	for ; err == nil && in.ok; err = in.next() {
		t := in.float()
		sums[int(min(max(0, -math.Log2(t)*steps), 64*steps))] += t
		all += t
	}
	if err != nil {
		return err
	}
	i, sum := 0, sums[0]
	for sum < unitShare*all && i < 64*steps {
		i++
		sum += sums[i]
	}
	c.unit = math.Exp2(-float64(i)/steps) / unitPart
	return nil
}

// updatesAtOnce is the number of Supports in one call of Update.
const updatesAtOnce = 256

// finish adds up the supporters and compares them with the records.
func (c *supportSum) finish(r *SupportRanks) (err error) {
	sums, _, err := c.spread(func(trust float64, _ uint32) float64 { return min(1, trust/c.unit) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sums.Close()) }()
	trust, supporters := newSorted(c.trust), newSorted(sums)
	if err := errors.Join(trust.begin(), supporters.begin()); err != nil {
		return err
	}
	counts := make([]uint32, math.MaxUint16+1)
	var batch []SupportUpdate
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		r.Updates += int64(len(batch))
		err := c.Update(batch)
		batch = batch[:0]
		return err
	}
	if err := WalkPLDs(c.Set, c.Name, c.State, func(pld uint64, p PLD) error {
		r.PLDs++
		t, err := trust.at(pld)
		if err != nil {
			return err
		}
		s, err := supporters.sum(pld)
		if err != nil {
			return err
		}
		code := newSupport(t/c.unit, s)
		if code.near(p.Support) {
			code = p.Support
		} else {
			batch = append(batch, SupportUpdate{pld, code})
		}
		if counts[code] < math.MaxUint32 {
			counts[code]++
		}
		if len(batch) == updatesAtOnce {
			return flush()
		}
		return c.alive()
	}); err != nil {
		return err
	}
	r.Codes = []uint32{}
	for code, n := range slices.Backward(counts) {
		for ; n > 0 && code >= standingCode && len(r.Codes) <= c.Ranks; n-- {
			r.Codes = append(r.Codes, uint32(code))
		}
	}
	return flush()
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

// sorted reads the records of a Sorter, by ascending key: the first 8 bytes.
type sorted struct {
	s    *extsort.Sorter // nil: no records
	ok   bool
	key  uint64
	rest []byte
}

func newSorted(s *extsort.Sorter) *sorted { return &sorted{s: s} }

// begin goes to the first record.
func (c *sorted) begin() error {
	if c.s == nil {
		return nil
	}
	if err := c.s.Rewind(); err != nil {
		return err
	}
	return c.next()
}

func (c *sorted) next() error {
	rec, err := c.s.Next()
	if c.ok = rec != nil && err == nil; c.ok {
		c.key, c.rest = binary.BigEndian.Uint64(rec), rec[8:]
	}
	return err
}

// seek goes to the first record of a key or above, and reports whether it is of the key.
func (c *sorted) seek(key uint64) (bool, error) {
	for c.ok && c.key < key {
		if err := c.next(); err != nil {
			return false, err
		}
	}
	return c.ok && c.key == key, nil
}

func (c *sorted) float() float64 { return math.Float64frombits(binary.BigEndian.Uint64(c.rest)) }

// at returns the number of a key, 0 if it has none.
func (c *sorted) at(key uint64) (float64, error) {
	if has, err := c.seek(key); !has {
		return 0, err
	}
	return c.float(), nil
}

// sum adds up the float32 of a key and goes beyond them.
func (c *sorted) sum(key uint64) (sum float64, err error) {
	has, err := c.seek(key)
	for has && err == nil {
		sum += float64(math.Float32frombits(binary.BigEndian.Uint32(c.rest)))
		err = c.next()
		has = c.ok && c.key == key
	}
	return sum, err
}
