package star

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"drumbeat/disk"
)

// In a cluster one node computes the supporters of all PLDs, since trust flows along the edges of all nodes. The others
// pass on what they know (WalkSupport, SeedsOf). Each node then takes the Supports of its own PLDs (ApplySupport), so
// ranks are among these, as those by in-degree are. Edges are a set, and the sums are in order of keys: the result does
// not depend on which node knows what.

// SupportPart is what another node knows.
type SupportPart struct {
	Seeds []uint64 // keys of the PLDs of seeds
	Walk  func(ctx context.Context, fn func(Edge) error) error
}

// WalkSupport calls fn for all that a node knows for a computation: for each PLD with an edge from it to itself, then
// for the edges, some of them twice.
func WalkSupport(set disk.Set, name string, st *State, fn func(Edge) error) error {
	if err := WalkPLDs(set, name, st, func(pld uint64, _ PLD) error { return fn(Edge{pld, pld}) }); err != nil {
		return err
	}
	return WalkEdges(set, name, st, fn)
}

// eachEdge calls fn for all edges, and for those from PLDs to themselves with Whole.
func (c *supportSum) eachEdge(fn func(Edge) error) error {
	if !c.Whole {
		return WalkEdges(c.Set, c.Name, c.State, fn)
	}
	if err := WalkSupport(c.Set, c.Name, c.State, fn); err != nil {
		return err
	}
	for _, part := range c.Others {
		if err := part.Walk(c.ctx, fn); err != nil {
			return err
		}
	}
	return nil
}

// allSeeds returns the seeds of all nodes, at most MostSeeds, with the lowest keys, as one node would keep them.
func (c *supportSum) allSeeds() ([]uint64, error) {
	seeds, err := SeedsOf(c.Set, c.State)
	if err != nil {
		return nil, err
	}
	for _, part := range c.Others {
		seeds = append(seeds, part.Seeds...)
		slices.Sort(seeds)
		seeds = slices.Compact(seeds)
		seeds = seeds[:min(len(seeds), MostSeeds)]
	}
	return seeds, nil
}

// eachPLD calls fn for all known PLDs, in order of keys.
func (c *supportSum) eachPLD(fn func(pld uint64) error) error {
	if !c.Whole {
		return WalkPLDs(c.Set, c.Name, c.State, func(pld uint64, _ PLD) error { return fn(pld) })
	}
	in := newSorted(c.known)
	err := in.begin()
	for err == nil && in.ok {
		if err = fn(in.key); err == nil {
			err = in.next()
		}
	}
	return err
}

// updatesAtOnce is the number of Supports in one call of Update.
const updatesAtOnce = 256

// update adds a Support to the next call of Update.
func (c *supportSum) update(r *SupportRanks, pld uint64, code Support) error {
	if c.batch = append(c.batch, SupportUpdate{pld, code}); len(c.batch) == updatesAtOnce {
		return c.flush(r)
	}
	return nil
}

func (c *supportSum) flush(r *SupportRanks) error {
	if len(c.batch) == 0 {
		return nil
	}
	r.Updates += int64(len(c.batch))
	err := c.Update(c.batch)
	c.batch = c.batch[:0]
	return err
}

// finish adds up the supporters and passes the Supports on.
func (c *supportSum) finish(r *SupportRanks) (err error) {
	sums, _, err := c.spread(func(trust, _ float64) float64 { return c.standing(trust) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sums.Close()) }()
	trust, supporters := newSorted(c.trust), newSorted(sums)
	if err := errors.Join(trust.begin(), supporters.begin()); err != nil {
		return err
	}
	of := func(pld uint64) (Support, error) {
		t, errTrust := trust.at(pld)
		s, errSum := supporters.sum(pld)
		return newSupport(c.standing(t), s), errors.Join(errTrust, errSum)
	}
	if !c.Whole {
		return c.apply(r, of)
	}
	if err := c.eachPLD(func(pld uint64) error {
		r.PLDs++
		code, err := of(pld)
		return errors.Join(err, c.update(r, pld, code), c.alive())
	}); err != nil {
		return err
	}
	return c.flush(r)
}

// apply compares Supports with the records. of is called by ascending key.
func (c *supportSum) apply(r *SupportRanks, of func(pld uint64) (Support, error)) error {
	counts := make([]uint32, math.MaxUint16+1)
	if err := WalkPLDs(c.Set, c.Name, c.State, func(pld uint64, p PLD) error {
		r.PLDs++
		code, err := of(pld)
		if err != nil {
			return err
		}
		if !code.Known() || code.near(p.Support) {
			code = p.Support
		} else if err := c.update(r, pld, code); err != nil {
			return err
		}
		if counts[code] < math.MaxUint32 {
			counts[code]++
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
	return c.flush(r)
}

// ApplySupport compares the Supports of a computation of all nodes with the PLDs of one of them. It uses Set, Name,
// State, Ranks and Update. of returns the Support of a PLD, 0 if that computation does not know it; it is called by
// ascending key.
func ApplySupport(ctx context.Context, opt SupportOptions,
	of func(pld uint64) (Support, error)) (*SupportRanks, error) {
	c, r := &supportSum{SupportOptions: &opt, ctx: ctx}, &SupportRanks{}
	if err := opt.State.check(); err != nil {
		return nil, fmt.Errorf("star: supporters of %s: %w", opt.Name, err)
	}
	return r, c.apply(r, of)
}
