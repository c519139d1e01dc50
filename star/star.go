package star

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/disk"
	"drumbeat/drum"
)

// Options describes a Star. Set, Place and Emit are required. Other zero fields mean the default.
type Options struct {
	Set  disk.Set
	Name string // prefix of the drums' names; default "pld"

	// Edges and Indegree configure the two drums. Of both, Star uses Buckets, BufferBytes, BucketBytes,
	// ReadChunkBytes, DiskBytes and Reserve; of Edges also Workers. It sets the other fields itself.
	Edges, Indegree drum.Options
	// Recent, if set, caches recent edges, which are then not added to the drum again. It is a
	// drum.RAMCache of the Star's own, empty at Open.
	Recent Recent

	Budgets Budgets
	// Priors are prior in-degrees of PLDs, at most MostPriors (priors.go). They may change at each Open.
	Priors []Prior
	// MaxPlaced is the maximum number of URLs of a PLD that are ever placed into a queue; further URLs get
	// OverLimit. 0 means no limit. It may change at each Open.
	MaxPlaced uint32

	// Lanes is the number of ledgers in each PLD record, from 1 to MaxLanes; 0 is 1. It cannot change.
	Lanes int

	// Place returns the queue for the next URL of a PLD with the given budget, from -1 to 2^37-3, and updates
	// the ledger that the PLD has in the lane. part and lane are those of the CheckTuple. budget is in pages per
	// queue; it is scaled up in small crawls, but not for URLs with a part. Place is called within rounds.
	Place func(ledger *[LedgerBytes]byte, budget uint32, part, lane uint8) int64
	// Hosts divides the budgets of PLDs among classes of their hosts (hosts.go). It cannot change.
	Hosts bool
	// PlaceHost is Place for a URL without part of a PLD whose budget is divided. ledgers are those of the classes in
	// the lane, and class is that of the URL's host. It is required with Hosts.
	PlaceHost func(ledgers *[HostClasses]*[LedgerBytes]byte, class int, budget uint32, lane uint8) int64
	// Lane, if set, chooses the lane of a URL when it is placed, from that of its CheckTuple, the record of
	// its PLD, and the largest in-degree of all PLDs, both with priors. It is called within rounds.
	Lane func(lane uint8, p *PLD, largest uint32) uint8
	// Pinned, if set, returns the budget that replaces the one by in-degree for a PLD; 0 for none. It is
	// called within rounds, once a PLD and update.
	Pinned func(pld uint64) uint32
	// Share, if set, returns the share of a PLD's hosts that belong to this Star, above 0 and at most 1: its part of
	// the budget in pages per queue, and of MaxPlaced. It is called as Pinned is.
	Share func(pld uint64) float64
	// Fetched, if set, is called when the responses of a PLD grow past a power of two, within rounds. A round
	// repeated after a crash calls it again.
	Fetched func(pld uint64, before, now uint32)
	// Pin, if set, is called before a round. Its result is called after the round's emission.
	Pin func() (release func())
	// Emit takes placed URLs, some hundred per call, in order of arrival within a round. Their bytes are
	// valid during the call. An error is final for the Star.
	Emit func([]Placed) error
	// Now is the clock for FirstSeen; nil means time.Now.
	Now func() time.Time
}

func (o *Options) complete() error {
	if o.Name == "" {
		o.Name = "pld"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Place == nil || o.Emit == nil {
		return errors.New("options Place and Emit are required")
	}
	if o.Hosts && o.PlaceHost == nil {
		return errors.New("option Hosts without PlaceHost")
	}
	if o.Lanes = max(o.Lanes, 1); o.Lanes > MaxLanes {
		return fmt.Errorf("%d lanes: want at most %d", o.Lanes, MaxLanes)
	}
	return o.Budgets.complete()
}

// Recent is a set of keys that may forget some. TestAndSet reports whether the key was in the set, and
// inserts it. It is safe for concurrent use.
type Recent interface{ TestAndSet(drum.Key) bool }

var _ Recent = (*drum.RAMCache)(nil)

// Edge is a link from a page of one PLD to a URL of another PLD, given by their keys.
type Edge struct{ From, To uint64 }

// CheckTuple asks for the budget and queue of a URL. Aux is returned in Placed.
type CheckTuple struct {
	PLD  uint64
	Part uint8 // for Place, below 128: which part of the budget the URL may use; 0 means all of it
	Lane uint8 // for Place, below Options.Lanes
	// Host is the key of the URL's host, and Level its level (HostLevels). Only Options.Hosts uses them.
	Host  uint64
	Level uint8
	// Again says that the URL had a queue before: it does not count again for MaxPlaced.
	Again bool
	Aux   []byte
}

// Placed is the answer to a CheckTuple.
type Placed struct {
	PLD    uint64
	Number int64  // result of Place, or OverLimit
	Budget uint32 // budget by the function, not scaled up for small crawls; for politeness
	Lane   uint8  // of the CheckTuple
	Aux    []byte
}

// Result of the indegree drum, from the highest bits: lane (3), number+1 (37), budget (24). A queue has a URL at
// least, so its number is below 2^37 in a crawl of 10^11 pages.
const (
	budgetBits = 24
	numberBits = 37
	maxNumber  = OverLimit - 1
)

func resultOf(lane uint8, number int64, budget uint32) uint64 {
	return uint64(lane)<<(numberBits+budgetBits) | uint64(number+1)<<budgetBits | uint64(budget)
}

// OverLimit is the number of a URL without queue: its PLD has already had Options.MaxPlaced URLs placed.
const OverLimit = 1<<numberBits - 2

// Star is the pair of drums. The package comment lists the rules for concurrent calls.
type Star struct {
	opt      Options
	edges    *drum.Drum
	indegree *drum.Drum
	checks   atomic.Int64 // pending check tuples

	mu     sync.Mutex // guards ranks, priors.changed, what is known of priors, and opt.Budgets; no I/O is done under it
	ranks  rankings
	priors priors
	curve  atomic.Pointer[curve] // the current budget function
	support

	// State of the running round of the indegree drum. Only for the goroutine of Pass.
	round struct {
		curve   *curve
		prior   uint32 // of the PLD being applied
		now     uint32
		release func()
		placed  []Placed
		pld     PLD // being applied; a local variable would escape to the heap through Place
		further [(MaxLanes*HostClasses-1)*LedgerBytes + hostBitBytes]byte
	}
	// State of the running emission of the edges drum. Only for the goroutine of Pass.
	fresh struct {
		plds   []uint64
		tuples []drum.Tuple
		values []byte
	}
}

func edgesName(name string) string { return name + "-edges" }

func indegreeName(name string) string { return name + "-indegree" }

func (s *Star) edgesOptions() drum.Options {
	e := s.opt.Edges
	return drum.Options{
		Set: s.opt.Set, Name: edgesName(s.opt.Name), Buckets: e.Buckets, BufferBytes: e.BufferBytes,
		BucketBytes: e.BucketBytes, ReadChunkBytes: e.ReadChunkBytes, DiskBytes: e.DiskBytes, Workers: e.Workers,
		Reserve: e.Reserve, Op: drum.CheckUpdate, ValueBytes: EdgeBytes, Codec: drum.Rice, Emit: s.emitEdges,
		Wanted: func(r *drum.Result) bool { return r.New },
	}
}

func (s *Star) indegreeOptions() drum.Options {
	d := s.opt.Indegree
	return drum.Options{
		Set: s.opt.Set, Name: indegreeName(s.opt.Name), Buckets: d.Buckets, BufferBytes: d.BufferBytes,
		BucketBytes: d.BucketBytes, ReadChunkBytes: d.ReadChunkBytes, DiskBytes: d.DiskBytes,
		Reserve: d.Reserve, ValueBytes: RecordBytesOf(s.opt.Lanes, s.opt.Hosts), Each: true,
		Codec: drum.Rice, RoundTuples: roundChecks, Apply: s.apply,
		Emit: s.emitChecks, BeginRound: s.beginRound, EndRound: s.endRound,
		Wanted: func(r *drum.Result) bool { return r.Op&drum.Check != 0 },
	}
}

// roundChecks limits a round of checks. BEAST must not move to the queue into which a round places URLs until
// the round ends, so rounds of half a million checks, a third of a second, starved fetchers. A round of this
// size ends before the stock of URLs is used up.
const roundChecks = 1 << 15

// RAMBytes returns the maximum RAM of a Star with these options, in bytes, without Recent.
func (o Options) RAMBytes() int64 {
	_ = o.Budgets.complete()
	s := Star{opt: o}
	return s.edgesOptions().RAMBytes() + s.indegreeOptions().RAMBytes() +
		40*int64(o.Budgets.Ranks+1+mostRanked*int(numOrders-1)) + priorRAM*int64(len(o.Priors))
}

// AddEdges adds the links between PLDs of a page. It skips links within a PLD.
func (s *Star) AddEdges(edges []Edge) error {
	var tuples [addEdges]drum.Tuple
	var values [addEdges][EdgeBytes]byte
	n := 0
	for _, e := range edges {
		if e.From == e.To {
			continue
		}
		key := drum.Key(e.key())
		if s.opt.Recent != nil && s.opt.Recent.TestAndSet(key) {
			continue
		}
		binary.LittleEndian.PutUint64(values[n][:], e.To)
		tuples[n] = drum.Tuple{Key: key, Op: drum.CheckUpdate, Value: values[n][:]}
		if n++; n == addEdges {
			if err := s.edges.Add(tuples[:]); err != nil {
				return err
			}
			n = 0
		}
	}
	if n == 0 {
		return nil
	}
	return s.edges.Add(tuples[:n])
}

// RecentEdge reports whether an edge may be skipped, because it is recent or within a PLD. Another node
// counts it. It is safe for concurrent use.
func (s *Star) RecentEdge(e Edge) bool {
	return e.From == e.To || s.opt.Recent != nil && s.opt.Recent.TestAndSet(drum.Key(e.key()))
}

// Batch sizes, in tuples on the stack: 4 KiB of checks, half a KiB of edges. A typical page has five edges,
// most of them recent. Clearing memory for 64 edges took longer than everything else.
const (
	addTuples = 64
	addEdges  = 8
)

// emitEdges adds the new pairs to the in-degrees.
func (s *Star) emitEdges(results []drum.Result) error {
	f := &s.fresh
	f.plds, f.tuples, f.values = f.plds[:0], f.tuples[:0], f.values[:0]
	for i := range results {
		f.plds = append(f.plds, binary.LittleEndian.Uint64(results[i].Value))
	}
	slices.Sort(f.plds)
	f.values = slices.Grow(f.values, 5*len(f.plds))
	for i, j := 0, 0; i < len(f.plds); i = j {
		for j = i; j < len(f.plds) && f.plds[j] == f.plds[i]; j++ {
		}
		at := len(f.values)
		f.values = appendEdges(f.values, uint32(j-i))
		t := drum.Tuple{Key: drum.Key(f.plds[i]), Op: drum.Update, Value: f.values[at:]}
		f.tuples = append(f.tuples, t)
	}
	return s.indegree.Add(f.tuples)
}

// Check asks for budgets. A later Pass passes the answers to Emit.
func (s *Star) Check(checks []CheckTuple) error {
	s.checks.Add(int64(len(checks)))
	var tuples [addTuples]drum.Tuple
	var values [addTuples][mostCheckBytes]byte
	for len(checks) > 0 {
		n := min(len(checks), addTuples)
		for i := range checks[:n] {
			c := &checks[i]
			if int(c.Lane) >= s.opt.Lanes {
				panic(fmt.Sprintf("BUG: star: check for lane %d of %d", c.Lane, s.opt.Lanes))
			}
			tuples[i] = drum.Tuple{Key: drum.Key(c.PLD), Op: drum.CheckUpdate,
				Value: checkValue(c, s.opt.Hosts, &values[i]), Aux: c.Aux}
		}
		if err := s.indegree.Add(tuples[:n]); err != nil {
			return err
		}
		checks = checks[n:]
	}
	return nil
}

// Fetched adds pages and bytes to the counts of a PLD.
func (s *Star) Fetched(pld uint64, pages, bytes int64) error {
	s.allow(pages)
	value := appendFetched(make([]byte, 0, maxUpdateBytes), uint32(pages), uint64(bytes))
	return s.indegree.Add([]drum.Tuple{{Key: drum.Key(pld), Op: drum.Update, Value: value}})
}

// Arrive adds the counts and the Support of a PLD that comes from another Star, by its record. Its in-degree comes with
// its edges.
// It starts with an empty ledger. The error means that the bytes are not a record.
func (s *Star) Arrive(pld uint64, record []byte) error {
	if len(record) < RecordBytes {
		return fmt.Errorf("star: record of %d bytes, want %d", len(record), RecordBytes)
	}
	var p PLD
	p.Decode(record)
	s.allow(int64(p.Fetched))
	value := append(make([]byte, 0, maxUpdateBytes), updateArrived)
	for _, n := range [...]uint32{p.Placed, p.Fetched, p.FirstSeen} {
		value = binary.LittleEndian.AppendUint32(value, n)
	}
	value = binary.LittleEndian.AppendUint64(value, p.Bytes)
	if err := s.indegree.Add([]drum.Tuple{{Key: drum.Key(pld), Op: drum.Update, Value: value}}); err != nil ||
		!p.Support.Known() {
		return err
	}
	return s.SetSupport([]SupportUpdate{{pld, p.Support}})
}

func (s *Star) beginRound() {
	s.round.curve = s.curve.Load()
	s.round.now = uint32(s.opt.Now().Unix())
	if s.opt.Pin != nil {
		s.round.release = s.opt.Pin()
	}
}

func (s *Star) endRound() {
	if s.round.release != nil {
		s.round.release()
		s.round.release = nil
	}
}

// apply is the Apply of the indegree drum: updates add up, checks get a budget and a queue.
func (s *Star) apply(key drum.Key, old []byte, exists bool, run []drum.Item, _ *drum.Arena,
	dst []byte) ([]byte, drum.Action) {
	pld := &s.round.pld
	*pld = PLD{FirstSeen: s.round.now}
	if exists {
		pld.Decode(old)
	}
	if n := furtherBytes(s.opt.Lanes, s.opt.Hosts); n > 0 { // old stays as it is
		further := s.round.further[:n]
		clear(further[copy(further, pld.Further):])
		pld.Further = further
	}
	was := *pld
	s.round.prior = s.priors.links(uint64(key))
	nominal, pages := s.budgetsOf(key, pld)
	maxPlaced := shareOf(s.opt.MaxPlaced, s.share(key))
	for i := range run {
		it := &run[i]
		if it.Op&drum.Check == 0 {
			indegree, support := pld.Indegree, pld.Support
			if pld.apply(it.Value); pld.Indegree != indegree || pld.Support != support {
				nominal, pages = s.budgetsOf(key, pld)
			}
			continue
		}
		c := checkOf(it.Value)
		lane := c.lane
		if !c.again && maxPlaced > 0 && pld.Placed >= maxPlaced {
			it.Result = resultOf(lane, OverLimit, nominal)
			continue
		}
		if s.opt.Lane != nil {
			own := pld.Indegree
			pld.Indegree = max(own, s.round.prior)
			lane = s.opt.Lane(lane, pld, s.round.curve.largest())
			pld.Indegree = own
		}
		budget := pages
		if c.part != 0 && pages > 0 {
			budget = nominal // not scaled up in a small crawl
		}
		counted := budget > 0 && s.countsNewcomer(key, pld)
		if counted && !s.admitNewcomer() {
			budget = 0
		}
		n := s.place(pld, c, budget, lane)
		if n < -1 || n > maxNumber {
			panic(fmt.Sprintf("BUG: star: URL placed into queue %d", n))
		}
		if counted && budget > 0 && n < 0 {
			s.allow(newcomerPages) // no queue has room
		}
		it.Result = resultOf(lane, n, nominal)
		if n >= 0 && !c.again {
			addSaturated(&pld.Placed, 1)
		}
	}
	s.rank(uint64(key), was.values(), pld.values())
	if s.round.prior > 0 {
		s.mu.Lock()
		s.priors.set(uint64(key), pld.Indegree)
		s.mu.Unlock()
	}
	if s.opt.Fetched != nil && bits.Len32(pld.Fetched) != bits.Len32(was.Fetched) {
		s.opt.Fetched(uint64(key), was.Fetched, pld.Fetched)
	}
	return pld.Append(dst), drum.Set
}

// rank passes the values that have changed to the rankings.
func (s *Star) rank(key uint64, was, now [numOrders]uint64) {
	if was == now {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ranks.rank(key, was, now)
}

// budgetsOf returns the budget of a PLD: the one that Options.Pinned fixes, else that of its in-degree, which is at
// least the prior one, or of its supporters.
func (s *Star) budgetsOf(key drum.Key, pld *PLD) (nominal, pages uint32) {
	nominal, pages = s.budgetsOfAll(key, pld)
	return nominal, shareOf(pages, s.share(key))
}

// share returns the share of a PLD's hosts that belong to this Star.
func (s *Star) share(key drum.Key) float64 {
	if s.opt.Share == nil {
		return 1
	}
	return s.opt.Share(uint64(key))
}

// shareOf returns a share of a number of pages, at least one page unless the number is 0.
func shareOf(pages uint32, share float64) uint32 {
	if pages == 0 || share == 1 {
		return pages
	}
	return max(1, uint32(float64(pages)*share+0.5))
}

// budgetsOfAll is budgetsOf for a PLD all of whose hosts belong to this Star.
func (s *Star) budgetsOfAll(key drum.Key, pld *PLD) (nominal, pages uint32) {
	if s.opt.Pinned != nil {
		if b := s.opt.Pinned(uint64(key)); b > 0 {
			return b, b
		}
	}
	if c := s.round.curve; c.codes != nil {
		return c.supported(uint64(key), pld.Support, s.turn.Load(), s.spare.Load())
	}
	return s.round.curve.budgets(max(pld.Indegree, s.round.prior))
}

func (s *Star) emitChecks(results []drum.Result) error {
	s.round.placed = s.round.placed[:0]
	for i := range results {
		r := &results[i]
		s.round.placed = append(s.round.placed, Placed{
			PLD: uint64(r.Key), Number: int64(r.Result>>budgetBits&(1<<numberBits-1)) - 1,
			Budget: uint32(r.Result & MaxBudget), Lane: uint8(r.Result >> (numberBits + budgetBits)), Aux: r.Aux,
		})
	}
	if err := s.opt.Emit(s.round.placed); err != nil {
		return err
	}
	s.checks.Add(-int64(len(results)))
	return nil
}

// Pass merges the due buckets of both drums, edges first, and returns the number of rounds. An early pass
// merges all checks. It merges all edges only if edgesPay.
func (s *Star) Pass(ctx context.Context, early bool) (rounds int, err error) {
	rounds, err = s.edges.Pass(ctx, early && s.edgesPay())
	if err != nil {
		return rounds, err
	}
	n, err := s.indegree.Pass(ctx, early)
	return rounds + n, err
}

// PassAll is a Pass that merges everything pending in both drums at any cost, including edges. In-degrees
// are then exact.
func (s *Star) PassAll(ctx context.Context) (rounds int, err error) {
	rounds, err = s.edges.Pass(ctx, true)
	if err != nil {
		return rounds, err
	}
	n, err := s.indegree.Pass(ctx, true)
	return rounds + n, err
}

// edgesPay reports whether an early pass over the edges is worthwhile: it takes little time, or many edges
// are pending.
func (s *Star) edgesPay() bool {
	const cheap = 50 * time.Millisecond
	st := s.edges.Stats()
	return st.PredictedEarly <= cheap || st.Tuples >= st.Keys/4
}

// Full reports whether a merge is due because of size.
func (s *Star) Full() bool { return s.edges.Full() || s.indegree.Full() }

// PendingChecks returns the number of unanswered check tuples.
func (s *Star) PendingChecks() int64 { return s.checks.Load() }

// Pending returns the number of tuples in the edges drum's buckets, and the number and bytes of checks and
// updates in the indegree drum's buckets.
func (s *Star) Pending() (edges, tuples, bytes int64) {
	edges, _ = s.edges.Pending()
	tuples, bytes = s.indegree.Pending()
	return edges, tuples, bytes
}

// PendingBytes returns the bytes that wait in the buckets of the edges drum and of the indegree drum.
func (s *Star) PendingBytes() (edges, indegree int64) {
	_, edges = s.edges.Pending()
	_, indegree = s.indegree.Pending()
	return edges, indegree
}

// UnsavedBytes returns the disk space, in bytes, of the files in RAM that the next checkpoint may have to write.
func (s *Star) UnsavedBytes() int64 { return s.edges.UnsavedBytes() + s.indegree.UnsavedBytes() }

// ChecksHalfFull reports whether the buckets of the indegree drum are half full, or one is full. A scan of
// QF then pauses.
func (s *Star) ChecksHalfFull() bool { return s.indegree.HalfFull() }

// NumPLDs returns V, the number of known PLDs.
func (s *Star) NumPLDs() int64 { return s.indegree.Keys() }

// NumEdges returns the number of merged edges.
func (s *Star) NumEdges() int64 { return s.edges.Keys() }

// Stats returns the drums' counters.
func (s *Star) Stats() (edges, indegree drum.Stats) { return s.edges.Stats(), s.indegree.Stats() }

// Refresh updates the budget function to the current ranking and number of PLDs. Call it when BEAST has
// moved to another queue, or after SetBudgets.
func (s *Star) Refresh() {
	plds := s.NumPLDs()
	s.turn.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.curve.Load(); !s.ranks[ByIndegree].changed && c.plds == plds && c.Budgets == s.opt.Budgets &&
		!s.computed.changed && !s.priors.changed {
		return
	}
	s.ranks[ByIndegree].changed, s.computed.changed, s.priors.changed = false, false, false
	s.curve.Store(newCurve(s.opt.Budgets, plds, s.degrees()).by(s.computed.Codes))
}

// SetBudgets replaces the budget function. It takes effect at the next Refresh, for rounds that begin then.
// Placed URLs keep their queues: see beast.Replace.
func (s *Star) SetBudgets(b Budgets) error {
	if err := b.complete(); err != nil {
		return fmt.Errorf("star: %w", err)
	}
	if b.Ranks > s.opt.Budgets.Ranks {
		return fmt.Errorf("star: %d ranks; Open set %d, which is the limit", b.Ranks, s.opt.Budgets.Ranks)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opt.Budgets = b
	return nil
}

// Top returns the PLDs with the largest values of an order, at most n, by descending value. By in-degree
// there are at most Ranks+1, else at most 1000. The values are those of the last merge.
func (s *Star) Top(order Order, n int) []Ranked {
	s.mu.Lock()
	defer s.mu.Unlock()
	ranked := s.ranks[order].sorted()
	return ranked[:min(n, len(ranked))]
}

// Budget returns the current budget of a PLD with the given in-degree: nominal for politeness, and pages
// per queue.
func (s *Star) Budget(indegree uint32) (nominal, pages uint32) {
	return s.curve.Load().budgets(indegree)
}

// BudgetRange returns the default and the largest budget of the current budget function, in pages, not scaled up for
// small crawls.
func (s *Star) BudgetRange() (normal, largest uint32) {
	c := s.curve.Load()
	return c.Default, uint32(c.top)
}

// Pause waits until running emissions end. No emission starts until Resume.
func (s *Star) Pause() {
	s.edges.Pause()
	s.indegree.Pause()
}

// Resume ends a Pause.
func (s *Star) Resume() {
	s.indegree.Resume()
	s.edges.Resume()
}
