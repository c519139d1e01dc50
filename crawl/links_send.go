package crawl

import (
	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
	"drumbeat/drum"
	"drumbeat/internal/linktrace"
	"drumbeat/weburl"
	"slices"
	"sync/atomic"
)

// seenStage is the first stage: it takes the links of pages, and URLseen tells which are new.
//
// Producers: the workers of pages (sendLinks), the seeds. Consumers: its own goroutines "urlseen" and "names", which
// merge; URLseen emits new URLs into STAR.
type seenStage struct {
	*engine
	urlSeen     *drum.Drum
	recent      *drum.RAMCache // URL keys, in front of URLseen
	names       *drum.Drum     // keys of hosts and PLDs to their texts
	recentNames *drum.RAMCache
	trace       *linktrace.Writer // of the keys that come before recent; nil without

	wakeSeen, wakeNames signal
	seenMerges          atomic.Int64 // passes of URLseen that have ended
	fullPasses          atomic.Int64 // of URLseen, in this run
	seenMeter           seenMeter

	budgets *budgetStage
	output  *output
	passes  *passRunner
	space   *space
}

// send hands the batch to URLseen and STAR; it is part of the transaction of the page.
func (s *seenStage) sendLinks(b *admit.Batch, tx *transaction) error {
	seeds := b.Rec.Flags&weburl.FlagSeed != 0
	if s.draining.Load() && !seeds {
		tx.count(state.CountLinksDraining, int64(len(b.Keys))+b.Again)
		b.Ends, b.Keys, b.Edges, b.Traced, b.Again = b.Ends[:0], b.Keys[:0], b.Edges[:0], b.Traced[:0], 0
		b.Names.Reset()
	}
	if s.trace != nil && !seeds {
		s.trace.Add(b.Traced)
	}
	b.Seen = slices.Grow(b.Seen[:0], len(b.Keys))[:len(b.Keys)]
	if s.recent != nil && !seeds {
		// The cache is part of the transaction: a link that is dropped because of it was sent by a transaction before this one, or by this.
		s.recent.TestAndSetBatch(b.Keys, b.Seen)
	} else {
		clear(b.Seen)
	}
	text := b.Code()
	if cached := int64(len(b.Keys)-len(b.Tuples)) + b.Again; cached > 0 {
		tx.count(state.CountLinksCached, cached)
	}
	if len(b.Tuples) > 0 {
		if err := s.urlSeen.Add(b.Tuples); err != nil {
			return err
		}
		tx.count(state.CountLinksChecked, int64(len(b.Tuples)))
		s.seenMeter.added.Add(int64(len(b.Tuples)))
		s.seenMeter.text.Add(text)
		tx.wake(s.wakeSeen)
	}
	if err := s.sendNames(&b.Names, tx); err != nil {
		return err
	}
	if len(b.Edges) > 0 {
		if err := s.budgets.star.AddEdges(b.Edges); err != nil {
			return err
		}
		tx.count(state.CountEdges, int64(len(b.Edges)))
	}
	for _, f := range b.Faults {
		s.output.logSeed(f[0], f[1])
	}
	for counter, n := range b.Counts {
		if n != 0 {
			tx.count(state.Counter(counter), n)
		}
	}
	return nil
}

// send hands on the names that weren't met a moment ago; it is part of a transaction, and so is the cache.
func (s *seenStage) sendNames(l *admit.Names, tx *transaction) error {
	fresh := l.Tuples[:0]
	for _, t := range l.Tuples {
		if s.recentNames == nil || !s.recentNames.TestAndSet(t.Key) {
			fresh = append(fresh, t)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	tx.wake(s.wakeNames)
	return s.names.Add(fresh)
}
