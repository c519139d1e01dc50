package star

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"drumbeat/disk"
	"drumbeat/drum"
)

// Versions of State. A Star writes furtherVersion once it has computed a Support, or with several lanes: older programs
// would misread its PLD records. With classes of hosts it writes hostsVersion.
const (
	stateVersion   = 2
	furtherVersion = 3
	hostsVersion   = 4
)

// State is the state of a Star in a manifest.
type State struct {
	V        int
	Edges    *drum.State
	Indegree *drum.State
	Checks   int64    // pending check tuples
	PLDs     int64    // V of the current budget function
	Lanes    int      `json:",omitempty"` // from version 3 on: lanes, at least 2
	Hosts    bool     `json:",omitempty"` // in version 4: the PLD records have ledgers of classes of hosts
	Ranking  disk.Ref // by in-degree; see appendRanking
	// Tops are the rankings by pages and by bytes (appendTops). States of earlier versions have none: their
	// PLDs enter these rankings with their next response.
	Tops disk.Ref
	// Support is the last computation of supporters, nil before the first, and Seeds the PLDs at which trust begins
	// (appendSeeds). States of earlier releases have none.
	Support *SupportState `json:",omitempty"`
	Seeds   *disk.Ref     `json:",omitempty"`
	// Priors are the prior in-degrees (appendPriors), nil without any. A state without them is read as one with another
	// list: releases that do not know them leave them out.
	Priors *disk.Ref `json:",omitempty"`
}

func (st *State) check() error {
	want := versionOf(st.Lanes, st.Hosts)
	if st.V != want && (st.V != furtherVersion || st.Hosts) || st.Edges == nil || st.Indegree == nil {
		return fmt.Errorf("state has version %d and drums %t, %t; want version %d and both", st.V,
			st.Edges != nil, st.Indegree != nil, want)
	}
	if st.Lanes < 0 || st.Lanes == 1 || st.Lanes > MaxLanes {
		return fmt.Errorf("state has %d lanes", st.Lanes)
	}
	const limit = 1 << 56
	if st.Checks < 0 || st.Checks > limit || st.PLDs < 0 || st.PLDs > limit {
		return fmt.Errorf("state has %d checks and %d PLDs", st.Checks, st.PLDs)
	}
	return nil
}

func versionOf(lanes int, hosts bool) int {
	switch {
	case hosts:
		return hostsVersion
	case lanes > 1:
		return furtherVersion
	}
	return stateVersion
}

// recordBytes returns the length of a PLD record.
func (st *State) recordBytes() int { return RecordBytesOf(st.Lanes, st.Hosts) }

// Open opens the Star in the state st, or a new one if st is nil. Budgets and RAM may differ from earlier
// runs.
func Open(opt Options, st *State) (*Star, error) {
	if err := opt.complete(); err != nil {
		return nil, fmt.Errorf("star: open %s: %w", opt.Name, err)
	}
	s := &Star{opt: opt, ranks: newRankings(opt.Budgets.Ranks + 1)}
	var err error
	if s.priors, err = newPriors(opt.Priors); err != nil {
		return nil, fmt.Errorf("star: open %s: %w", opt.Name, err)
	}
	if err := s.open(st); err != nil {
		return nil, errors.Join(fmt.Errorf("star: open %s: %w", opt.Name, err), s.Close())
	}
	return s, nil
}

func (s *Star) open(st *State) (err error) {
	var edges, indegree *drum.State
	var plds int64
	var degrees []uint32
	if st != nil {
		if err := st.check(); err != nil {
			return err
		}
		if was := max(st.Lanes, 1); was != s.opt.Lanes {
			return fmt.Errorf("state has %d lanes, want %d", was, s.opt.Lanes)
		}
		if st.Hosts != s.opt.Hosts {
			return fmt.Errorf("classes of hosts: state has %t, want %t", st.Hosts, s.opt.Hosts)
		}
		edges, indegree, plds = st.Edges, st.Indegree, st.PLDs
		s.checks.Store(st.Checks)
		if degrees, err = s.loadRanking(st.Ranking); err != nil {
			return err
		}
		if err := s.loadTops(st.Tops); err != nil {
			return err
		}
		if err := s.loadSupport(st); err != nil {
			return err
		}
		changed, err := s.loadPriors(st)
		if err != nil {
			return err
		}
		if changed {
			degrees = s.degrees()
		}
	}
	s.curve.Store(newCurve(s.opt.Budgets, plds, degrees).by(s.computed.Codes))
	if s.edges, err = drum.Open(s.edgesOptions(), edges); err != nil {
		return err
	}
	if s.indegree, err = drum.Open(s.indegreeOptions(), indegree); err != nil {
		return err
	}
	return nil
}

func (s *Star) loadRanking(ref disk.Ref) ([]uint32, error) {
	data, err := disk.ReadTail(s.opt.Set, ref)
	if err != nil {
		return nil, err
	}
	ranked, degrees, err := decodeRanking(data)
	if err != nil {
		return nil, err
	}
	for _, p := range ranked {
		s.ranks[ByIndegree].set(p.PLD, p.Value)
	}
	return degrees, nil
}

func (s *Star) loadTops(ref disk.Ref) error {
	data, err := disk.ReadTail(s.opt.Set, ref)
	if err != nil {
		return err
	}
	tops, err := decodeTops(data)
	for i, top := range tops {
		for _, p := range top {
			s.ranks[int(ByPages)+i].set(p.PLD, p.Value)
		}
	}
	return err
}

// Frozen is the state of a Star at one moment.
type Frozen struct {
	s        *Star
	edges    *drum.Frozen
	indegree *drum.Frozen
	state    State
	ranked   [numOrders][]Ranked
	degrees  []uint32
	support  frozenSupport
	priors   []knownPrior
}

// Freeze captures the current state, in memory only. Call it between Pause and Resume, while nothing is
// being added.
func (s *Star) Freeze() *Frozen {
	c := s.curve.Load()
	f := &Frozen{s: s, edges: s.edges.Freeze(), indegree: s.indegree.Freeze(), degrees: c.degrees,
		state: State{V: versionOf(s.opt.Lanes, s.opt.Hosts), Hosts: s.opt.Hosts, Checks: s.checks.Load(), PLDs: c.plds}}
	if s.opt.Lanes > 1 {
		f.state.Lanes = s.opt.Lanes
	}
	s.mu.Lock()
	// A merged but unemitted round may already have raised some values. Its repetition raises them to the
	// same values.
	for order := range s.ranks {
		f.ranked[order] = append(f.ranked[order], s.ranks[order].heap...)
	}
	f.support, f.priors = s.freezeSupport(), slices.Clone(s.priors.list)
	s.mu.Unlock()
	return f
}

// Save writes the data in RAM to the tails and returns the state for the manifest. Call it once.
func (f *Frozen) Save(tails *disk.Tails) (*State, error) {
	st := f.state
	var err error
	if st.Edges, err = f.edges.Save(tails); err != nil {
		return nil, err
	}
	if st.Indegree, err = f.indegree.Save(tails); err != nil {
		return nil, err
	}
	for order := range f.ranked {
		frozen := ranking{heap: f.ranked[order]}
		f.ranked[order] = frozen.sorted()
	}
	if st.Ranking, err = tails.Write(0, appendRanking(nil, f.ranked[ByIndegree], f.degrees)); err != nil {
		return nil, fmt.Errorf("star: save ranking of %s: %w", f.s.opt.Name, err)
	}
	if st.Tops, err = tails.Write(0, appendTops(nil, f.ranked[ByPages:])); err != nil {
		return nil, fmt.Errorf("star: save rankings of %s: %w", f.s.opt.Name, err)
	}
	if len(f.priors) > 0 {
		ref, err := tails.Write(0, appendPriors(nil, f.priors))
		if err != nil {
			return nil, fmt.Errorf("star: save prior in-degrees of %s: %w", f.s.opt.Name, err)
		}
		st.Priors = &ref
	}
	if err := f.support.save(tails, &st); err != nil {
		return nil, fmt.Errorf("star: save supporters of %s: %w", f.s.opt.Name, err)
	}
	return &st, nil
}

// Commit deletes the files that no manifest names. Call it once the manifest with the saved state is durable.
func (f *Frozen) Commit() error { return errors.Join(f.edges.Commit(), f.indegree.Commit()) }

// Close frees the memory. Data that no checkpoint has saved is lost.
func (s *Star) Close() error {
	var errs []error
	for _, d := range []*drum.Drum{s.edges, s.indegree} {
		if d != nil {
			errs = append(errs, d.Close())
		}
	}
	return errors.Join(errs...)
}

// WalkChecks calls fn with the Aux of every unanswered check in st. It changes nothing.
func WalkChecks(set disk.Set, name string, st *State, fn func(aux []byte) error) error {
	if st == nil {
		return nil
	}
	if err := st.check(); err != nil {
		return fmt.Errorf("star: walk %s: %w", name, err)
	}
	scan := drum.Scan{Tuple: func(t drum.Tuple) error {
		if t.Op&drum.Check == 0 {
			return nil
		}
		return fn(t.Aux)
	}}
	_, err := drum.ScanState(set, indegreeName(name), st.Indegree.Waiting(), scan)
	return err
}

// WalkPLDs calls fn for every PLD in st, in order of keys. Pending updates are not included.
func WalkPLDs(set disk.Set, name string, st *State, fn func(pld uint64, record PLD) error) error {
	if st == nil {
		return nil
	}
	if err := st.check(); err != nil {
		return fmt.Errorf("star: walk %s: %w", name, err)
	}
	scan := drum.Scan{Entry: func(key drum.Key, value []byte) error {
		if len(value) != st.recordBytes() {
			return fmt.Errorf("star: walk %s: record of %d bytes, want %d", name, len(value), st.recordBytes())
		}
		var record PLD
		record.Decode(value)
		return fn(uint64(key), record)
	}}
	_, err := drum.ScanState(set, indegreeName(name), st.Indegree.Cache(), scan)
	return err
}

// WalkEdges calls fn for every edge in st, in unspecified order: first the merged edges, each once, then
// the pending ones. A pending edge may repeat a merged or a pending one. WalkEdges takes memory for the
// content of buffers and a few read buffers. It changes nothing.
func WalkEdges(set disk.Set, name string, st *State, fn func(Edge) error) error {
	if st == nil {
		return nil
	}
	if err := st.check(); err != nil {
		return fmt.Errorf("star: walk %s: %w", name, err)
	}
	edge := func(key drum.Key, value []byte) error {
		if len(value) != EdgeBytes {
			return fmt.Errorf("star: walk %s: edge of %d bytes, want %d", name, len(value), EdgeBytes)
		}
		return fn(decodeEdge(uint64(key), value))
	}
	_, err := drum.ScanState(set, edgesName(name), st.Edges, drum.Scan{
		Entry: edge, Tuple: func(t drum.Tuple) error { return edge(t.Key, t.Value) },
	})
	return err
}

// EdgeOf returns the edge of an entry or a tuple of the edges drum.
func EdgeOf(key drum.Key, value []byte) (Edge, error) {
	if len(value) != EdgeBytes {
		return Edge{}, fmt.Errorf("star: edge of %d bytes, want %d", len(value), EdgeBytes)
	}
	return decodeEdge(uint64(key), value), nil
}

// Tuple returns the tuple of the edges drum for an edge between two PLDs.
func (e Edge) Tuple() drum.Tuple {
	return drum.Tuple{Key: drum.Key(e.key()), Op: drum.CheckUpdate, Value: binary.LittleEndian.AppendUint64(nil, e.To)}
}

// Tuple returns the tuple of the indegree drum for a check.
func (c *CheckTuple) Tuple() drum.Tuple {
	var buf [mostCheckBytes]byte
	return drum.Tuple{Key: drum.Key(c.PLD), Op: drum.CheckUpdate,
		Value: append([]byte(nil), checkValue(c, false, &buf)...), Aux: c.Aux}
}

// CheckedBefore reports whether the value of a check tuple has CheckTuple.Again.
func CheckedBefore(value []byte) bool { return len(value) > 0 && value[0]&checkedBefore != 0 }

// Arrived converts the record of a PLD for another Star. The PLD starts there with an empty ledger.
func Arrived(record []byte) ([]byte, error) {
	if len(record) < RecordBytes {
		return nil, fmt.Errorf("star: record of %d bytes, want %d", len(record), RecordBytes)
	}
	var p PLD
	p.Decode(record)
	for lane := range p.Lanes() {
		*p.LedgerOf(lane) = [LedgerBytes]byte{}
	}
	return p.Append(nil), nil
}

// Stores returns the names of a Star's two drums, for code that reads their files.
func Stores(name string) (edges, indegree string) { return edgesName(name), indegreeName(name) }

// MakeRankings rebuilds the rankings of a checkpoint's tail from the readable PLDs of st: Ranking with the
// given number of ranks, and Tops. Ranking has no in-degrees of the current budget function; the next
// function will have them.
func MakeRankings(set disk.Set, name string, st *State, ranks int) (ranking, tops []byte, err error) {
	r := newRankings(ranks)
	_, err = drum.ScanState(set, indegreeName(name), st.Indegree, drum.Scan{
		Entry: func(key drum.Key, value []byte) error {
			if len(value) == st.recordBytes() {
				var record PLD
				record.Decode(value)
				var none PLD
				r.rank(uint64(key), none.values(), record.values())
			}
			return nil
		},
		Damaged: func(error) error { return nil },
	})
	ranking = appendRanking(nil, r[ByIndegree].sorted(), nil)
	return ranking, appendTops(nil, [][]Ranked{r[ByPages].sorted(), r[ByBytes].sorted()}), err
}
