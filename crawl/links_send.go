package crawl

import (
	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
	"drumbeat/weburl"
	"slices"
)

// send hands the batch to URLseen and STAR; it is part of the transaction of the page.
func (c *crawler) sendLinks(b *admit.Batch, tx *transaction) error {
	seeds := b.Rec.Flags&weburl.FlagSeed != 0
	if c.draining.Load() && !seeds {
		tx.count(state.CountLinksDraining, int64(len(b.Keys))+b.Again)
		b.Ends, b.Keys, b.Edges, b.Traced, b.Again = b.Ends[:0], b.Keys[:0], b.Edges[:0], b.Traced[:0], 0
		b.Names.Reset()
	}
	if c.trace != nil && !seeds {
		c.trace.Add(b.Traced)
	}
	b.Seen = slices.Grow(b.Seen[:0], len(b.Keys))[:len(b.Keys)]
	if c.recent != nil && !seeds {
		// The cache is part of the transaction: a link that is dropped because of it was sent by a transaction before this one, or by this.
		c.recent.TestAndSetBatch(b.Keys, b.Seen)
	} else {
		clear(b.Seen)
	}
	text := b.Code()
	if cached := int64(len(b.Keys)-len(b.Tuples)) + b.Again; cached > 0 {
		tx.count(state.CountLinksCached, cached)
	}
	if len(b.Tuples) > 0 {
		if err := c.urlSeen.Add(b.Tuples); err != nil {
			return err
		}
		tx.count(state.CountLinksChecked, int64(len(b.Tuples)))
		c.seenMeter.added.Add(int64(len(b.Tuples)))
		c.seenMeter.text.Add(text)
		tx.wake(c.wakeSeen)
	}
	if err := c.sendNames(&b.Names, tx); err != nil {
		return err
	}
	if len(b.Edges) > 0 {
		if err := c.star.AddEdges(b.Edges); err != nil {
			return err
		}
		tx.count(state.CountEdges, int64(len(b.Edges)))
	}
	for _, f := range b.Faults {
		c.logSeed(f[0], f[1])
	}
	for counter, n := range b.Counts {
		if n != 0 {
			tx.count(state.Counter(counter), n)
		}
	}
	return nil
}

// send hands on the names that weren't met a moment ago; it is part of a transaction, and so is the cache.
func (c *crawler) sendNames(l *admit.Names, tx *transaction) error {
	fresh := l.Tuples[:0]
	for _, t := range l.Tuples {
		if c.recentNames == nil || !c.recentNames.TestAndSet(t.Key) {
			fresh = append(fresh, t)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	tx.wake(c.wakeNames)
	return c.names.Add(fresh)
}
