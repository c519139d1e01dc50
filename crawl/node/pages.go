package node

import (
	"context"
	"math/bits"
	"sync/atomic"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/state"
)

// pageShares divides Options.MaxPages among the nodes. Each node begins with its share by slots as its
// allowance, and fetches no more. A node that runs short says so in its mark, and others lend it a part of theirs: a
// record of the outbox carries the number. The number leaves the allowance in the transaction that adds the
// record, and joins the other's in the transaction that takes it, as a link does. So the allowances of all nodes,
// and the loans under way, add up to the limit over all crashes, whatever the broker loses. The broker's values
// say only who needs pages, and what the nodes have fetched.
//
// The goroutine is "pages". limit, left, reached, put and full are safe for concurrent use.
type pageShares struct {
	run       *account.Run
	opt       *Options
	gone      *abandoned
	heard     *heard
	outs      *outboxes
	early     *earlySaver
	quiet     func() bool           // this node begins no work on its own
	pagesLeft func(use func(int64)) // calls use with the rest of the allowance, while no page is granted
	wakeMark  account.Signal

	pages    int64        // this node's share of MaxPages at first
	slots    *[2]int64    // source of this share: slots before this node's, and its own
	reserved atomic.Int64 // part of the allowance about to be lent
	lent     []uint64     // by node, the number of the last message that lent it pages; of the goroutine "pages"
	full     atomic.Int64 // the limit of pages that all nodes together have reached; also in the manifest
	short    atomic.Bool  // this node is short of pages
	spent    atomic.Bool  // last result of spentHere
}

// SlotsBefore returns the number of slots of the nodes before one, and of its own.
func SlotsBefore(table *cluster.Table, node int) (before, own int64) {
	for n := range node {
		before += int64(table.Share(n))
	}
	return before, int64(table.Share(node))
}

// PageShare returns the share of a node in n pages, given the slots of the nodes before it and its own. The shares of
// all nodes add up to n, which is not negative.
func PageShare(n, before, own int64) int64 { return slotsPart(n, before+own) - slotsPart(n, before) }

// slotsPart returns n·slots/cluster.Slots, rounded down. n is not negative.
func slotsPart(n, slots int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(slots))
	part, _ := bits.Div64(hi, lo, cluster.Slots)
	return int64(part)
}

// restore computes the node's share of the limits.
func (s *pageShares) restore(m *state.Manifest) {
	if m != nil {
		s.full.Store(m.Full)
	}
	before, own := SlotsBefore(s.opt.Table, s.opt.Node)
	if m != nil && m.PageSlots != nil {
		before, own = m.PageSlots[0], m.PageSlots[1]
	}
	s.slots = &[2]int64{before, own}
	if n := s.opt.MaxPages; n > 0 {
		s.pages = PageShare(n, before, own)
	}
	s.lent = make([]uint64, s.opt.nodes())
	for node := range s.lent {
		s.lent[node] = s.outs.lastNumber(node)
	}
}

// limit returns how many pages the node may fetch over all runs, with Options.MaxPages.
func (s *pageShares) limit() int64 {
	reserved := s.reserved.Load() // before lent, which rises before reserved falls
	var limit int64
	s.run.Accounts.Do(func(a *state.Accounts) {
		limit = s.pages + a.Counters[state.CountPagesBorrowed] - a.Counters[state.CountPagesLent] - reserved
	})
	return limit
}

// reached reports whether all nodes together have fetched Options.MaxPages, by their durable
// checkpoints.
func (s *pageShares) reached() bool {
	pages, full := int64(0), s.full.Load()
	for _, m := range s.heard.all() {
		if m != nil {
			pages, full = pages+m.Pages, max(full, m.Full)
		}
	}
	if max(pages, full) < s.opt.MaxPages && !s.allSpent() {
		return false
	}
	s.full.Store(s.opt.MaxPages)
	return true
}

// put puts what this node lacks into a mark.
func (s *pageShares) put(m *cluster.Mark) { m.Short, m.Spent = s.short.Load(), s.spent.Load() }

// left returns how many pages this node may still fetch.
func (s *pageShares) left() int64 { return max(0, s.limit()-s.run.Accounts.Counter(state.CountPages)) }

// Bounds of the pages that a node keeps for itself.
const (
	pagesAhead = 30 * time.Second // it is short if it has fewer than it would fetch in this time at its recent rate
	pagesEvery = earlyEvery       // interval of the check
)

// share writes into the node's mark whether it is short of pages, and lends pages to nodes that are.
func (s *pageShares) share(ctx context.Context) error {
	if s.opt.MaxPages <= 0 {
		return nil
	}
	last, rate := s.run.Accounts.Counter(state.CountPages), 0.0
	for account.Sleep(ctx, pagesEvery) {
		now := s.run.Accounts.Counter(state.CountPages)
		rate += (float64(now-last)/pagesEvery.Seconds() - rate) / 4
		last = now
		need := max(1, int64(rate*pagesAhead.Seconds()))
		busy := s.run.Accounts.In(state.PlaceStar, state.PlaceBeast, state.PlaceRobotsCheck, state.PlaceAwaitRobots,
			state.PlaceReady, state.PlaceRAM) > 0
		var left int64
		s.pagesLeft(func(n int64) { left = n })
		if short := busy && left < need; s.short.Swap(short) != short {
			s.wakeMark.Raise()
		}
		if spent := s.spentHere(left); s.spent.Swap(spent) != spent {
			s.wakeMark.Raise()
		}
		if m := s.heard.mark(s.opt.Node); m != nil && left <= 0 && m.Pages < now {
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
func (s *pageShares) lend(need int64, busy bool) error {
	if s.quiet() {
		return nil // a loan is a record, too
	}
	var to []int
	for node, m := range s.heard.all() {
		if st := s.heard.status(node); st != nil && st.Ended != "" {
			continue // it was short when it stopped
		}
		if node != s.opt.Node && !s.gone.has(node) && m != nil && m.Short &&
			m.With(s.opt.Node).Taken.Number >= s.lent[node] {
			to = append(to, node)
		}
	}
	if len(to) == 0 {
		return nil
	}
	parts := make([]int64, len(to))
	sum := int64(0)
	s.pagesLeft(func(left int64) {
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
	err := s.run.Transact(func(tx *account.Tx) error {
		for i, node := range to {
			if parts[i] == 0 {
				continue
			}
			number, err := s.outs.lend(node, parts[i])
			if err != nil {
				return err
			}
			s.lent[node] = number
		}
		tx.Count(state.CountPagesLent, sum)
		return nil
	})
	s.reserved.Add(-sum)
	s.early.urge()
	return err
}

// spentHere reports whether this node has used its allowance of pages, and none of its loans is in flight.
func (s *pageShares) spentHere(left int64) bool {
	if left > 0 {
		return false
	}
	for node, m := range s.heard.all() {
		if node == s.opt.Node || s.gone.has(node) {
			continue
		}
		if m == nil || m.With(s.opt.Node).Taken.Number < s.lent[node] {
			return false
		}
	}
	return true
}

// allSpent reports whether a node was given up, whose part of Options.MaxPages nobody knows, and all
// others have fetched theirs.
func (s *pageShares) allSpent() bool {
	if !s.gone.any() {
		return false
	}
	for node, m := range s.heard.all() {
		if !s.gone.has(node) && (m == nil || !m.Spent) {
			return false
		}
	}
	return true
}
