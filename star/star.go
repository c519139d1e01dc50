package star

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/disk"
	"drumbeat/drum"
)

// Options describes a Star. Set, Place and Emit are needed; other zero fields mean the default.
type Options struct {
	Set  disk.Set
	Name string // prefix of the drums' names; default "pld"

	// Edges and Indegree size the two drums: Buckets, BufferBytes, BucketBytes, ReadChunkBytes, DiskBytes and
	// Reserve are used, of Edges also Workers, of Indegree also CompressAux; the rest is set here.
	Edges, Indegree drum.Options
	// Recent, if set, is a cache of recent edges, which are not put into the drum again: a drum.RAMCache of
	// its own, empty at Open.
	Recent Recent

	Budgets Budgets
	// MaxPlaced is how many URLs of a PLD are ever placed into a queue; those beyond get OverLimit. 0: no limit. It may be another
	// one at each Open.
	MaxPlaced uint32

	// Place returns the queue for the next URL of a PLD with so many pages per queue, from -1 to 2^40-3, and
	// changes the ledger. Called within rounds.
	Place func(ledger *[LedgerBytes]byte, pages uint32) int64
	// Pin, if set, is called before a round, its result after the round's emission.
	Pin func() (release func())
	// Emit takes placed URLs, some hundred at a time, in order of arrival within a round. Their bytes are
	// valid during the call. An error ends the Star's life.
	Emit func([]Placed) error
	// Now is the clock for FirstSeen; nil = time.Now.
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
		return errors.New("options Place and Emit are needed")
	}
	return o.Budgets.complete()
}

// Recent is a set of keys that may forget some. TestAndSet tells whether the key was in it, and puts it
// there. It is safe for concurrent use.
type Recent interface{ TestAndSet(drum.Key) bool }

var _ Recent = (*drum.RAMCache)(nil)

// Edge is a link from a page of one PLD to a URL of another, by the keys of both.
type Edge struct{ From, To uint64 }

// CheckTuple asks for the budget and queue of one URL; Aux comes back in Placed.
type CheckTuple struct {
	PLD uint64
	Aux []byte
}

// Placed is the answer to a CheckTuple.
type Placed struct {
	PLD    uint64
	Number int64  // what Place returned, or OverLimit
	Budget uint32 // by the budget function, not scaled up for small crawls; for politeness
	Aux    []byte
}

// Result of the indegree drum: number+1 in the upper 40 bits, budget in the lower 24.
const (
	budgetBits = 24
	maxNumber  = OverLimit - 1
)

// OverLimit is the number of a URL that has no queue, and never will, as its PLD has had Options.MaxPlaced.
const OverLimit = 1<<40 - 2

// Star is the pair of drums. See the package comment for who may call what.
type Star struct {
	opt      Options
	edges    *drum.Drum
	indegree *drum.Drum
	checks   atomic.Int64 // pending check tuples

	mu      sync.Mutex // guards ranking; no I/O under it
	ranking ranking
	curve   atomic.Pointer[curve] // the budget function in force

	// Of the running round of the indegree drum; Pass's goroutine only.
	round struct {
		curve   *curve
		now     uint32
		release func()
		placed  []Placed
		pld     PLD // being applied; here, since Place would move a local one to the heap
	}
	// Of the running emission of the edges drum; Pass's goroutine only.
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
		Reserve: d.Reserve, CompressAux: d.CompressAux, ValueBytes: RecordBytes, Each: true, Codec: drum.Rice, Apply: s.apply,
		Emit: s.emitChecks, BeginRound: s.beginRound, EndRound: s.endRound,
		Wanted: func(r *drum.Result) bool { return r.Op&drum.Check != 0 },
	}
}

// RAMBytes returns what a Star of these options takes at most, Recent apart.
func (o Options) RAMBytes() int64 {
	_ = o.Budgets.complete()
	s := Star{opt: o}
	return s.edgesOptions().RAMBytes() + s.indegreeOptions().RAMBytes() + 40*int64(o.Budgets.Ranks+1)
}

// AddEdges takes the PLD-PLD links of a page. Links within a PLD are left out.
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

// What goes to a drum at once, from the stack: 4 KiB of checks, half a KiB of edges. A page has five edges, most of them met
// a moment ago, and clearing room for 64 took longer than all else.
const (
	addTuples = 64
	addEdges  = 8
)

// emitEdges adds the pairs that are new to the in-degrees.
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

// Check asks for budgets. The answers come to Emit in a later Pass.
func (s *Star) Check(checks []CheckTuple) error {
	s.checks.Add(int64(len(checks)))
	var tuples [addTuples]drum.Tuple
	for len(checks) > 0 {
		n := min(len(checks), addTuples)
		for i, c := range checks[:n] {
			tuples[i] = drum.Tuple{Key: drum.Key(c.PLD), Op: drum.CheckUpdate, Aux: c.Aux}
		}
		if err := s.indegree.Add(tuples[:n]); err != nil {
			return err
		}
		checks = checks[n:]
	}
	return nil
}

// Fetched adds to the counts of a PLD.
func (s *Star) Fetched(pld uint64, pages, bytes int64) error {
	value := appendFetched(make([]byte, 0, maxUpdateBytes), uint32(pages), uint64(bytes))
	return s.indegree.Add([]drum.Tuple{{Key: drum.Key(pld), Op: drum.Update, Value: value}})
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

// apply is the rule of the indegree drum: updates add up, checks get a budget and a queue.
func (s *Star) apply(key drum.Key, old []byte, exists bool, run []drum.Item, _ *drum.Arena,
	dst []byte) ([]byte, drum.Action) {
	pld := &s.round.pld
	*pld = PLD{FirstSeen: s.round.now}
	if exists {
		pld.Decode(old)
	}
	degree := pld.Indegree
	nominal, pages := s.round.curve.budgets(degree)
	for i := range run {
		it := &run[i]
		if it.Op&drum.Check == 0 {
			before := pld.Indegree
			if pld.apply(it.Value); pld.Indegree != before {
				nominal, pages = s.round.curve.budgets(pld.Indegree)
			}
			continue
		}
		if s.opt.MaxPlaced > 0 && pld.Placed >= s.opt.MaxPlaced {
			it.Result = (OverLimit+1)<<budgetBits | uint64(nominal)
			continue
		}
		n := s.opt.Place(&pld.Ledger, pages)
		if n < -1 || n > maxNumber {
			panic(fmt.Sprintf("BUG: star: URL placed into queue %d", n))
		}
		it.Result = uint64(n+1)<<budgetBits | uint64(nominal)
		if n >= 0 {
			addSaturated(&pld.Placed, 1)
		}
	}
	if pld.Indegree != degree {
		s.mu.Lock()
		s.ranking.set(uint64(key), pld.Indegree)
		s.mu.Unlock()
	}
	return pld.Append(dst), drum.Set
}

func (s *Star) emitChecks(results []drum.Result) error {
	s.round.placed = s.round.placed[:0]
	for i := range results {
		r := &results[i]
		s.round.placed = append(s.round.placed, Placed{
			PLD: uint64(r.Key), Number: int64(r.Result>>budgetBits) - 1,
			Budget: uint32(r.Result & MaxBudget), Aux: r.Aux,
		})
	}
	if err := s.opt.Emit(s.round.placed); err != nil {
		return err
	}
	s.checks.Add(-int64(len(results)))
	return nil
}

// Pass merges what is due in both drums, in edges first, and returns the number of rounds. An early pass merges
// all checks; it merges all edges only where that is cheap for what it may tell.
func (s *Star) Pass(ctx context.Context, early bool) (rounds int, err error) {
	rounds, err = s.edges.Pass(ctx, early && s.edgesPay())
	if err != nil {
		return rounds, err
	}
	n, err := s.indegree.Pass(ctx, early)
	return rounds + n, err
}

// PassAll merges all that is pending in both drums, edges too, whatever that takes: for exact in-degrees at this moment. It
// is a Pass.
func (s *Star) PassAll(ctx context.Context) (rounds int, err error) {
	rounds, err = s.edges.Pass(ctx, true)
	if err != nil {
		return rounds, err
	}
	n, err := s.indegree.Pass(ctx, true)
	return rounds + n, err
}

// edgesPay is true when an early pass over the edges takes no time to speak of, or when a good part of them is
// pending.
func (s *Star) edgesPay() bool {
	const cheap = 50 * time.Millisecond
	st := s.edges.Stats()
	return st.PredictedEarly <= cheap || st.Tuples >= st.Keys/4
}

// Full is true when a merge is due by size.
func (s *Star) Full() bool { return s.edges.Full() || s.indegree.Full() }

// PendingChecks returns the number of check tuples that have not been answered.
func (s *Star) PendingChecks() int64 { return s.checks.Load() }

// Pending returns what waits in the drums' buckets: edges, and checks and updates with their bytes.
func (s *Star) Pending() (edges, tuples, bytes int64) {
	edges, _ = s.edges.Pending()
	tuples, bytes = s.indegree.Pending()
	return edges, tuples, bytes
}

// ChecksHalfFull is true when the buckets of the indegree drum are half full or one is full: a scan of QF
// waits.
func (s *Star) ChecksHalfFull() bool { return s.indegree.HalfFull() }

// NumPLDs returns V, the number of PLDs known.
func (s *Star) NumPLDs() int64 { return s.indegree.Stats().Keys }

// Stats returns the drums' counters.
func (s *Star) Stats() (edges, indegree drum.Stats) { return s.edges.Stats(), s.indegree.Stats() }

// Refresh brings the budget function up to the present ranking and number of PLDs. Call it when BEAST has
// moved to another queue, and at no other time.
func (s *Star) Refresh() {
	plds := s.NumPLDs()
	s.mu.Lock()
	ranked := s.ranking.sorted()
	s.mu.Unlock()
	degrees := make([]uint32, len(ranked))
	for i, p := range ranked {
		degrees[i] = p.Indegree
	}
	s.curve.Store(newCurve(s.opt.Budgets, plds, degrees))
}

// Top returns the PLDs with the largest in-degrees, at most n and at most Ranks+1, by falling in-degree.
func (s *Star) Top(n int) []Ranked {
	s.mu.Lock()
	defer s.mu.Unlock()
	ranked := s.ranking.sorted()
	return ranked[:min(n, len(ranked))]
}

// Budget returns what a PLD of some in-degree gets by the function in force: the budget for politeness, and
// pages per queue.
func (s *Star) Budget(indegree uint32) (nominal, pages uint32) {
	return s.curve.Load().budgets(indegree)
}

// Pause lets running emissions end and starts none until Resume.
func (s *Star) Pause() {
	s.edges.Pause()
	s.indegree.Pause()
}

// Resume ends a Pause.
func (s *Star) Resume() {
	s.indegree.Resume()
	s.edges.Resume()
}
