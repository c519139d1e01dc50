package crawl

import (
	"context"
	"math/bits"
	"slices"
	"time"

	"drumbeat/exchange"
	"drumbeat/internal/pace"
	"drumbeat/state"
)

// Limits that hold for all nodes of a cluster together.
//
// Rates: each node takes its share of the slots whose nodes were not given up.
//
// Pages: each node begins with its share of slots of Options.MaxPages as its allowance, and fetches no more. A node that runs
// short says so in its mark, and others lend it of theirs: a record of the outbox carries the number. The number leaves the
// allowance in the transaction that adds the record, and joins the other's in the transaction that takes it, as a link does. So
// the allowances of all nodes, and what is under way, add up to the limit over all crashes, whatever the broker loses. The
// broker's values say only who needs pages, and what the nodes have fetched.

// slotsBefore returns how many slots the nodes before this one own, and how many it owns itself.
func (c *Cluster) slotsBefore() (before, own int64) {
	for node := range c.Node {
		before += int64(c.Table.Share(node))
	}
	return before, int64(c.Table.Share(c.Node))
}

// slotsPart returns n·slots/exchange.Slots, rounded down. n is not negative.
func slotsPart(n, slots int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(slots))
	part, _ := bits.Div64(hi, lo, exchange.Slots)
	return int64(part)
}

// openLimits computes the node's share of the limits.
func (s *clusterStage) openLimits(m *state.Manifest) {
	if m != nil {
		s.full.Store(m.Full)
	}
	before, own := s.opt.Cluster.slotsBefore()
	if m != nil && m.PageSlots != nil {
		before, own = m.PageSlots[0], m.PageSlots[1]
	}
	s.pageSlots = &[2]int64{before, own}
	if n := s.opt.MaxPages; n > 0 {
		s.pages = slotsPart(n, before+own) - slotsPart(n, before)
	}
	s.lent = make([]uint64, s.nodes)
	for node, o := range s.outboxes {
		if o != nil {
			s.lent[node] = lastNumber(o)
		}
	}
}

// lastNumber returns the number of the last message of an outbox, also if that is still open.
func lastNumber(o *exchange.Outbox) uint64 {
	f := o.Figures()
	if f.OpenBytes > 0 {
		return f.Last + 1
	}
	return f.Last
}

// slotsOfPages returns what state.Manifest.PageSlots says; nil for a crawl of one node.
func (s *clusterStage) slotsOfPages() *[2]int64 { return s.pageSlots }

// rateOf returns the node's share of a rate that holds for all nodes.
func (o *Options) rateOf(all pace.Schedule) pace.Schedule {
	if o.Cluster == nil {
		return all
	}
	c := o.Cluster
	own, of := max(1, c.Table.Share(c.Node)), exchange.Slots
	for node := range c.Table.Nodes() {
		if slices.Contains(c.Abandoned, node) {
			of -= c.Table.Share(node)
		}
	}
	return all.Times(float64(own) / float64(max(own, of)))
}

// pageLimit returns how many pages the node may fetch over all runs, with Options.MaxPages.
func (s *clusterStage) pageLimit() int64 {
	if !s.on() {
		return s.opt.MaxPages
	}
	reserved := s.reserved.Load() // before what was lent, which rises before it falls
	s.acct.mu.Lock()
	defer s.acct.mu.Unlock()
	return s.pages + s.acct.s.Counters[state.CountPagesBorrowed] - s.acct.s.Counters[state.CountPagesLent] - reserved
}

// pagesReached reports whether all nodes together have fetched Options.MaxPages, by their durable checkpoints.
func (s *clusterStage) pagesReached() bool {
	if s.opt.MaxPages <= 0 {
		return false
	}
	if !s.on() {
		return s.counter(state.CountPages) >= s.opt.MaxPages
	}
	pages, full := int64(0), s.full.Load()
	for node := range s.marks {
		if m := s.marks[node].Load(); m != nil {
			pages, full = pages+m.Pages, max(full, m.Full)
		}
	}
	if max(pages, full) < s.opt.MaxPages && !s.allSpent() {
		return false
	}
	s.full.Store(s.opt.MaxPages)
	return true
}

// endPages tells the other nodes that this one has found that the limit is reached, and waits until they have, too.
func (s *clusterStage) endPages(ctx context.Context) {
	if s.on() {
		s.conclude(ctx, func(*exchange.Mark) {}, func(m *exchange.Mark) bool { return m.Done || m.Full >= s.opt.MaxPages })
	}
}

// pagesWait reports whether fetching waits for pages of other nodes.
func (s *clusterStage) pagesWait() bool {
	return s.on() && s.opt.MaxPages > 0 && s.counter(state.CountPages) >= s.pageLimit()
}

// Bounds of what a node keeps for itself.
const (
	pagesAhead = 30 * time.Second // it runs short with less than it has fetched lately in this time
	pagesEvery = earlyEvery       // how often it looks
)

// sharePages says in the node's mark whether it runs short of pages, and lends some to those that do.
func (s *clusterStage) sharePages(ctx context.Context) error {
	if s.opt.MaxPages <= 0 {
		return nil
	}
	last, rate := s.counter(state.CountPages), 0.0
	for sleep(ctx, pagesEvery) {
		now := s.counter(state.CountPages)
		rate += (float64(now-last)/pagesEvery.Seconds() - rate) / 4
		last = now
		need := max(1, int64(rate*pagesAhead.Seconds()))
		busy := s.acct.in(state.PlaceStar, state.PlaceBeast, state.PlaceRobotsCheck, state.PlaceAwaitRobots, state.PlaceReady,
			state.PlaceRAM) > 0
		var left int64
		s.dispatcher.pagesLeft(func(n int64) { left = n })
		if short := busy && left < need; s.short.Swap(short) != short {
			s.wakeMark.raise()
		}
		if spent := s.spentHere(left); s.spent.Swap(spent) != spent {
			s.wakeMark.raise()
		}
		if m := s.marks[s.node].Load(); m != nil && left <= 0 && m.Pages < now {
			s.urgent.Store(true) // a mark must say so before the crawl can end
		}
		if !busy {
			need = 0
		}
		if err := s.lend(need, busy); err != nil {
			return err
		}
	}
	return nil
}

// lend lends pages beyond need to the nodes that run short: half of them, or all if this node has nothing to fetch.
func (s *clusterStage) lend(need int64, busy bool) error {
	if s.quiet() {
		return nil // a loan is a record, too
	}
	var to []int
	for node := range s.marks {
		if st := s.statuses[node].Load(); st != nil && st.Ended != "" {
			continue // it was short when it was stopped
		}
		if m := s.marks[node].Load(); node != s.node && !s.abandoned[node] && m != nil && m.Short && m.Taken[s.node].Number >= s.lent[node] {
			to = append(to, node)
		}
	}
	if len(to) == 0 {
		return nil
	}
	parts := make([]int64, len(to))
	sum := int64(0)
	s.dispatcher.pagesLeft(func(left int64) {
		spare := max(0, left-need)
		if busy {
			spare /= 2
		}
		for i := range parts {
			parts[i] = (spare - sum) / int64(len(parts)-i)
			sum += parts[i]
		}
		s.reserved.Add(sum)
	})
	if sum == 0 {
		return nil
	}
	err := s.transact(func(tx *transaction) error {
		for i, node := range to {
			if parts[i] == 0 {
				continue
			}
			if err := s.outboxes[node].AddPages(parts[i]); err != nil {
				return err
			}
			s.lent[node] = lastNumber(s.outboxes[node])
		}
		tx.count(state.CountPagesLent, sum)
		return nil
	})
	s.reserved.Add(-sum)
	s.urgent.Store(true)
	return err
}
