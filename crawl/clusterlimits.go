package crawl

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/lease"
	"drumbeat/crawl/account"
	"drumbeat/crawl/node"
	"drumbeat/internal/pace"
	"drumbeat/state"
)

// Limits over all nodes of a cluster.
//
// Rates: each node gets its share by slots, without those of abandoned nodes.
//
// Pages: each node begins with its share of slots of Options.Limits.MaxPages as its allowance, and fetches no
// more. A node that runs short says so in its mark, and others lend it of theirs: a record of the outbox
// carries the number. The number leaves the allowance in the transaction that adds the record, and joins the
// other's in the transaction that takes it, as a link does. So the allowances of all nodes, and what is under
// way, add up to the limit over all crashes, whatever the broker loses. The broker's values say only who
// needs pages, and what the nodes have fetched.

// slotsBefore returns the number of slots of the nodes before this one, and of its own.
func (c *Cluster) slotsBefore() (before, own int64) {
	for node := range c.Node {
		before += int64(c.Table.Share(node))
	}
	return before, int64(c.Table.Share(c.Node))
}

// slotsPart returns n·slots/cluster.Slots, rounded down. n is not negative.
func slotsPart(n, slots int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(slots))
	part, _ := bits.Div64(hi, lo, cluster.Slots)
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
	if n := s.opt.Limits.MaxPages; n > 0 {
		s.pages = slotsPart(n, before+own) - slotsPart(n, before)
	}
	s.lent = make([]uint64, s.nodes)
	for node := range s.lent {
		s.lent[node] = s.outs.lastNumber(node)
	}
}

// slotsOfPages returns state.Manifest.PageSlots; nil for a crawl of one node.
func (s *clusterStage) slotsOfPages() *[2]int64 { return s.pageSlots }

// DefaultLeaseTTL is Cluster.LeaseTTL if that is 0.
const DefaultLeaseTTL = 10 * time.Minute

func (c *Cluster) leaseTTL() time.Duration { return cmp.Or(c.LeaseTTL, DefaultLeaseTTL) }

// leases reports whether nodes visit networks in turn: then all gaps and limits hold over all nodes.
func (o *Options) leases() bool { return o.Cluster != nil && o.Cluster.Table.Nodes() > 1 }

// leaseOptions returns the options of the leases.
func (o *Options) leaseOptions() node.LeaseOptions {
	if !o.leases() {
		return node.LeaseOptions{}
	}
	c := o.Cluster
	return node.LeaseOptions{Log: o.Observe.Log,
		Lease: lease.Options{Transport: c.Transport, Node: c.Node, Nodes: c.Table.Nodes(),
			TTL: c.leaseTTL(), Longest: c.Longest, Clock: c.Clock}}
}

// rateOf returns the node's share of a rate over all nodes.
func (o *Options) rateOf(all pace.Schedule) pace.Schedule {
	if o.Cluster == nil {
		return all
	}
	c := o.Cluster
	own, of := max(1, c.Table.Share(c.Node)), cluster.Slots
	for node := range c.Table.Nodes() {
		if slices.Contains(c.Abandoned, node) {
			of -= c.Table.Share(node)
		}
	}
	return all.Times(float64(own) / float64(max(own, of)))
}

// pageLimit returns how many pages the node may fetch over all runs, with Options.Limits.MaxPages.
func (s *clusterStage) pageLimit() int64 {
	if !s.on() {
		return s.opt.Limits.MaxPages
	}
	reserved := s.reserved.Load() // before lent, which rises before reserved falls
	var limit int64
	s.Accounts.Do(func(a *state.Accounts) {
		limit = s.pages + a.Counters[state.CountPagesBorrowed] - a.Counters[state.CountPagesLent] - reserved
	})
	return limit
}

// pagesReached reports whether all nodes together have fetched Options.Limits.MaxPages, by their durable checkpoints.
func (s *clusterStage) pagesReached() bool {
	if s.opt.Limits.MaxPages <= 0 {
		return false
	}
	if !s.on() {
		return s.Counter(state.CountPages) >= s.opt.Limits.MaxPages
	}
	pages, full := int64(0), s.full.Load()
	for node := range s.heard.marks {
		if m := s.heard.mark(node); m != nil {
			pages, full = pages+m.Pages, max(full, m.Full)
		}
	}
	if max(pages, full) < s.opt.Limits.MaxPages && !s.allSpent() {
		return false
	}
	s.full.Store(s.opt.Limits.MaxPages)
	return true
}

// endPages tells the other nodes that the limit is reached, and waits until they have found the same.
func (s *clusterStage) endPages(ctx context.Context) {
	if s.on() {
		s.conclude(ctx, func(*cluster.Mark) {},
			func(m *cluster.Mark) bool { return m.Done || m.Full >= s.opt.Limits.MaxPages })
	}
}

// pagesWait reports whether fetching waits for loans from other nodes.
func (s *clusterStage) pagesWait() bool {
	return s.on() && s.opt.Limits.MaxPages > 0 && s.Counter(state.CountPages) >= s.pageLimit()
}

// Bounds of the pages that a node keeps for itself.
const (
	pagesAhead = 30 * time.Second // it is short if it has fewer than it would fetch in this time at its recent rate
	pagesEvery = earlyEvery       // interval of the check
)

// sharePages writes into the node's mark whether it is short of pages, and lends pages to nodes that are.
func (s *clusterStage) sharePages(ctx context.Context) error {
	if s.opt.Limits.MaxPages <= 0 {
		return nil
	}
	last, rate := s.Counter(state.CountPages), 0.0
	for account.Sleep(ctx, pagesEvery) {
		now := s.Counter(state.CountPages)
		rate += (float64(now-last)/pagesEvery.Seconds() - rate) / 4
		last = now
		need := max(1, int64(rate*pagesAhead.Seconds()))
		busy := s.Accounts.In(state.PlaceStar, state.PlaceBeast, state.PlaceRobotsCheck, state.PlaceAwaitRobots,
			state.PlaceReady, state.PlaceRAM) > 0
		var left int64
		s.dispatcher.pagesLeft(func(n int64) { left = n })
		if short := busy && left < need; s.short.Swap(short) != short {
			s.wakeMark.Raise()
		}
		if spent := s.spentHere(left); s.spent.Swap(spent) != spent {
			s.wakeMark.Raise()
		}
		if m := s.heard.mark(s.node); m != nil && left <= 0 && m.Pages < now {
			s.early.urge() // a mark must say it before the crawl can end
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

// lend lends pages beyond need to the nodes that are short: half of them, or all if this node has nothing to
// fetch.
func (s *clusterStage) lend(need int64, busy bool) error {
	if s.quiet() {
		return nil // a loan is a record, too
	}
	var to []int
	for node := range s.heard.marks {
		if st := s.heard.status(node); st != nil && st.Ended != "" {
			continue // it was short when it stopped
		}
		if m := s.heard.mark(node); node != s.node && !s.gone.gone[node] && m != nil && m.Short &&
			m.Taken[s.node].Number >= s.lent[node] {
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
	err := s.Transact(func(tx *account.Tx) error {
		for i, node := range to {
			if parts[i] == 0 {
				continue
			}
			if err := s.outs.boxes[node].AddPages(parts[i]); err != nil {
				return err
			}
			s.lent[node] = s.outs.lastNumber(node)
		}
		tx.Count(state.CountPagesLent, sum)
		return nil
	})
	s.reserved.Add(-sum)
	s.early.urge()
	return err
}

// spentHere reports whether this node has used its allowance of pages, and none of its loans is in flight.
func (s *clusterStage) spentHere(left int64) bool {
	if left > 0 {
		return false
	}
	for node := range s.heard.marks {
		if node == s.node || s.gone.gone[node] {
			continue
		}
		if m := s.heard.mark(node); m == nil || m.Taken[s.node].Number < s.lent[node] {
			return false
		}
	}
	return true
}

// allSpent reports whether a node was given up, whose part of Options.Limits.MaxPages nobody knows, and all
// others have fetched theirs.
func (s *clusterStage) allSpent() bool {
	if !slices.Contains(s.gone.gone, true) {
		return false
	}
	for node := range s.heard.marks {
		if m := s.heard.mark(node); !s.gone.gone[node] && (m == nil || !m.Spent) {
			return false
		}
	}
	return true
}
