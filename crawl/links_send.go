package crawl

import (
	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
	"drumbeat/weburl"
	"slices"
)

// send hands the batch to URLseen and STAR; it is part of the step of the page.
func (r *ring) sendLinks(b *admit.Batch, d *delta) error {
	seeds := b.Rec.Flags&weburl.FlagSeed != 0
	if r.draining.Load() && !seeds {
		d.count(state.CountLinksDraining, int64(len(b.Keys))+b.Again)
		b.Ends, b.Keys, b.Edges, b.Traced, b.Again = b.Ends[:0], b.Keys[:0], b.Edges[:0], b.Traced[:0], 0
		b.Names.Reset()
	}
	if r.trace != nil && !seeds {
		r.trace.Add(b.Traced)
	}
	b.Seen = slices.Grow(b.Seen[:0], len(b.Keys))[:len(b.Keys)]
	if r.recent != nil && !seeds {
		// The cache is part of the step: a link that is dropped because of it was sent by a step before this one, or by this.
		r.recent.TestAndSetBatch(b.Keys, b.Seen)
	} else {
		clear(b.Seen)
	}
	text := b.Code()
	if cached := int64(len(b.Keys)-len(b.Tuples)) + b.Again; cached > 0 {
		d.count(state.CountLinksCached, cached)
	}
	if len(b.Tuples) > 0 {
		if err := r.urlSeen.Add(b.Tuples); err != nil {
			return err
		}
		d.count(state.CountLinksChecked, int64(len(b.Tuples)))
		r.seenMeter.added.Add(int64(len(b.Tuples)))
		r.seenMeter.text.Add(text)
		d.wake(r.wakeSeen)
	}
	if err := r.sendNames(&b.Names, d); err != nil {
		return err
	}
	if len(b.Edges) > 0 {
		if err := r.star.AddEdges(b.Edges); err != nil {
			return err
		}
		d.count(state.CountEdges, int64(len(b.Edges)))
	}
	for _, f := range b.Faults {
		r.logSeed(f[0], f[1])
	}
	for c, n := range b.Counts {
		if n != 0 {
			d.count(state.Counter(c), n)
		}
	}
	return nil
}

// send hands on the names that weren't met a moment ago; it is part of a step, and so is the cache.
func (r *ring) sendNames(l *admit.Names, d *delta) error {
	fresh := l.Tuples[:0]
	for _, t := range l.Tuples {
		if r.recentNames == nil || !r.recentNames.TestAndSet(t.Key) {
			fresh = append(fresh, t)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	d.wake(r.wakeNames)
	return r.names.Add(fresh)
}
