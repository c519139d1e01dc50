package budgets

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"drumbeat/star"
	"drumbeat/state"
)

// In a cluster the first node that takes part computes the supporters for all, with the goroutine "supporters" of each
// node. It asks the others for their edges. Each writes those of its last checkpoint to a file (supportfile.go), which
// the computing node reads block by block, straight into its sort. It writes the Supports to a file of its own, from
// which each node reads those of its PLDs, and makes what has changed updates of STAR.
//
// Nothing of this is durable but the updates, and nothing is counted: edges are a set, and a Support replaces another.
// After a kill of any node the computation begins again. A computation needs the same table at all nodes, and
// no slot on its way: otherwise PLDs would lack edges, and all trust behind them.

// Cluster are the other nodes.
type Cluster interface {
	On() bool // the crawl has several nodes
	Self() int
	Computes() int                   // the node that computes for all
	Peers() []int                    // the other nodes that take part
	Ranks(node int, pld uint64) bool // the node gives the PLD a budget
	Settled() (moves int, ok bool)   // the number of the table, and whether all slots are where it says
	Quiet() bool                     // nothing may begin
	AskNode(ctx context.Context, node int, kind string, data []byte) ([]byte, error)
	// Answer passes the questions of other nodes to answer until stop is called.
	Answer(kind string, answer func(ctx context.Context, from int, data []byte) []byte) (stop func(), _ error)
}

// share begins to answer the others. end removes the files.
func (b *Stage) share() (end func() error, err error) {
	if !b.others.Cluster.On() {
		return func() error { return nil }, nil
	}
	dir := b.supportDir()
	for _, of := range [...]string{ofEdges, ofValues} { // of a killed process
		if err := removeIfThere(b.saved.Set.FS, dir+"/"+of); err != nil {
			return nil, err
		}
	}
	stop, err := b.exchange.cluster.Answer(supportKind, b.exchange.answer)
	if err != nil {
		return nil, fmt.Errorf("crawl: answers to other nodes: %w", err)
	}
	return func() error {
		stop()
		err := errors.Join(b.exchange.setEdges(0, nil, nil), b.exchange.setValues(nil, supportHeader{}))
		_ = b.saved.Set.FS.Remove(dir) // an error leaves an empty directory, or there is none
		return err
	}, nil
}

func (b *Stage) supportDir() string { return b.saved.Set.Path(0, supportersDir) }

// giveEdges writes the edges that the computing node has asked for, and removes those that it no longer needs.
func (b *Stage) giveEdges(ctx context.Context) error {
	round, stale := b.exchange.due()
	if round == 0 {
		if stale {
			return b.exchange.setEdges(0, nil, nil)
		}
		return nil
	}
	if err := b.exchange.setEdges(0, nil, nil); err != nil {
		return err
	}
	f, err := b.writeEdges(ctx, round)
	if ctx.Err() != nil {
		return f.remove()
	}
	if err != nil {
		b.opt.Log.Warn("could not pass on the edges for supporters", "why", err)
	}
	return b.exchange.setEdges(round, f, err)
}

// writeEdges writes the edges, PLDs and seeds of the last checkpoint to a file.
func (b *Stage) writeEdges(ctx context.Context, round int64) (_ *supportFile, err error) {
	h, err := b.settled()
	if err != nil {
		return nil, err
	}
	r, st, err := b.openCheckpoint()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	seeds, err := star.SeedsOf(r.Set, st)
	if err != nil {
		return nil, err
	}
	for _, pld := range seeds {
		h.Seeds = binary.LittleEndian.AppendUint64(h.Seeds, pld)
	}
	ctx, release, err := b.space.Borrow(ctx, "the edges for supporters", b.saved.Set.Paths[0],
		(st.Edges.Keys()+st.Indegree.Keys())*edgeRecord)
	if err != nil {
		return nil, err
	}
	defer release()
	f, err := createSupportFile(b.saved.Set.FS, b.supportDir(), ofEdges, round)
	if err != nil {
		return nil, err
	}
	var rec []byte
	calls := 0
	err = star.WalkSupport(r.Set, state.NameStar, st, func(e star.Edge) error {
		if e.From == e.To {
			h.PLDs++
		} else {
			h.Edges++
		}
		rec = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(rec[:0], e.From), e.To)
		if calls++; calls%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return f.add(rec)
	})
	if err == nil {
		err = f.end(&h)
	}
	if now, errMoved := b.settled(); err == nil && (errMoved != nil || now.Moves != h.Moves) {
		err = errMoving
	}
	if err != nil {
		return nil, errors.Join(err, f.remove())
	}
	return f, nil
}

var errMoving = errors.New("slots are on their way")

func (b *Stage) settled() (h supportHeader, err error) {
	ok := false
	if h.Moves, ok = b.exchange.cluster.Settled(); !ok {
		err = errMoving
	}
	return h, err
}

// otherParts asks the other nodes for their edges. It returns the number of records.
func (b *Stage) otherParts(ctx context.Context, round int64) (parts []star.SupportPart, records int64, err error) {
	x := b.exchange
	own, err := b.settled()
	if err != nil {
		return nil, 0, &errPeer{x.cluster.Self(), err.Error()}
	}
	first, err := json.Marshal(supportAsk{Of: ofEdges, Round: round})
	if err != nil {
		return nil, 0, err
	}
	for _, node := range x.cluster.Peers() { // they write their files at the same time
		limited, cancel := context.WithTimeout(ctx, supportAgain)
		_, _ = x.cluster.AskNode(limited, node, supportKind, first) // asked again below
		cancel()
	}
	for _, node := range x.cluster.Peers() {
		ask := supportAsk{Of: ofEdges, Round: round}
		block, err := x.ask(ctx, node, ask)
		if err != nil {
			return nil, 0, err
		}
		of, h, err := openHeader(block)
		switch {
		case err != nil || of != round:
			return nil, 0, &errPeer{node, "its edges are not valid"}
		case h.Moves != own.Moves:
			return nil, 0, &errPeer{node, "it has another table of slots"}
		}
		records += h.PLDs + h.Edges
		parts = append(parts, star.SupportPart{Seeds: h.seeds(), Walk: func(ctx context.Context,
			fn func(star.Edge) error) error {
			return x.each(ctx, node, ask, h.Blocks, edgeRecord, func(rec []byte) error {
				return fn(star.Edge{From: binary.LittleEndian.Uint64(rec), To: binary.LittleEndian.Uint64(rec[8:])})
			})
		}})
	}
	return parts, records, nil
}

// computeForAll computes the Supports of the PLDs of all nodes, and puts them into the file of values.
func (b *Stage) computeForAll(ctx context.Context) error {
	round := time.Now().UnixNano()
	parts, records, err := b.otherParts(ctx, round)
	if err != nil {
		return err
	}
	var f *supportFile
	create := func() (err error) {
		if f == nil {
			if err = b.exchange.setValues(nil, supportHeader{}); err == nil {
				f, err = createSupportFile(b.saved.Set.FS, b.supportDir(), ofValues, round)
			}
		}
		return err
	}
	var rec []byte
	ranks, err := b.compute(ctx, star.SupportOptions{Whole: true, Others: parts,
		Update: func(updates []star.SupportUpdate) error {
			if err := create(); err != nil {
				return err
			}
			for _, u := range updates {
				rec = binary.LittleEndian.AppendUint64(rec[:0], u.PLD)
				rec = binary.LittleEndian.AppendUint16(rec, uint16(u.Support))
				if err := f.add(rec); err != nil {
					return err
				}
			}
			return nil
		}}, records)
	if err == nil {
		err = create() // there may be no PLD
	}
	if err != nil {
		return errors.Join(err, f.remove())
	}
	h := supportHeader{PLDs: ranks.PLDs, Edges: ranks.Edges, Time: ranks.Time, Millis: ranks.Millis}
	if err := f.end(&h); err != nil {
		return errors.Join(err, f.remove())
	}
	return b.exchange.setValues(f, h)
}

// takeValues makes the values of the last computation for all updates of STAR. It returns nil if they are already.
func (b *Stage) takeValues(ctx context.Context) (*star.SupportRanks, error) {
	x := b.exchange
	node := x.cluster.Computes()
	if node == x.cluster.Self() {
		return b.applyValues(ctx, &x.valueOf, x.values.records)
	}
	ask := supportAsk{Of: ofValues}
	block, err := x.ask(ctx, node, ask)
	if err != nil {
		return nil, err
	}
	round, h, err := openHeader(block)
	if err != nil {
		return nil, &errPeer{node, err.Error()}
	}
	ask.Round = round
	return b.applyValues(ctx, &h, func(n int) ([]byte, error) {
		ask.Block = n
		return x.records(ctx, node, ask, valueRecord)
	})
}

// applyValues makes values updates of STAR. read returns those of a block.
func (b *Stage) applyValues(ctx context.Context, h *supportHeader,
	read func(n int) ([]byte, error)) (*star.SupportRanks, error) {
	if h.Edges == 0 || b.Star.LastComputed().Time == h.Time {
		return nil, nil
	}
	r, st, err := b.openCheckpoint()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	v := &valueReader{read: read, blocks: h.Blocks}
	ranks, err := star.ApplySupport(ctx, star.SupportOptions{Set: r.Set, Name: state.NameStar, State: st,
		Ranks: b.opt.Budgets.Ranks, Update: b.updateSupport(ctx)}, v.support)
	if err != nil {
		return nil, err
	}
	ranks.SupportState = star.SupportState{PLDs: h.PLDs, Edges: h.Edges, Time: h.Time, Millis: h.Millis}
	return ranks, nil
}
