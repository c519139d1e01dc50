package crawl

import (
	"context"
	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
	"drumbeat/drum"
	"drumbeat/internal/linktrace"
	"drumbeat/star"
	"drumbeat/weburl"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
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

func newSeenStage(e *engine) *seenStage {
	return &seenStage{engine: e, wakeSeen: e.pulsedSignal(), wakeNames: newSignal()}
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
		if err := s.budgets.addEdges(b.Edges); err != nil {
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

// openCaches makes the RAM caches in front of the stores. The plan may have none for URLseen.
func (s *seenStage) openCaches() {
	s.recentNames = drum.NewRAMCache(s.plan.NameCacheBytes)
	if s.plan.CacheBytes > 0 {
		s.recent = drum.NewRAMCache(s.plan.CacheBytes)
	}
}

// close frees the caches and ends the trace.
func (s *seenStage) close() {
	for _, cache := range []*drum.RAMCache{s.recent, s.recentNames} {
		if cache != nil {
			cache.Close()
		}
	}
	if s.trace != nil {
		s.closeTrace()
	}
}

func (s *seenStage) traced() bool { return s.trace != nil }

func (s *seenStage) cached() bool { return s.recent != nil }

// wake lets URLseen's goroutine look whether a pass is due once the transaction has ended.
func (s *seenStage) wake(tx *transaction) { tx.wake(s.wakeSeen) }

// wakeNow is wake outside of a transaction.
func (s *seenStage) wakeNow() { s.wakeSeen.raise() }

// pending is how many links wait for a pass.
func (s *seenStage) pending() int64 { n, _ := s.urlSeen.Pending(); return n }

// passesEnded counts the passes of URLseen; passCost is how long one over all buckets would take now.
func (s *seenStage) passesEnded() int64      { return s.seenMerges.Load() }
func (s *seenStage) passCost() time.Duration { return s.urlSeen.Stats().PredictedEarly }

// seenStore wires URLseen: what is new goes to STAR.
func (s *seenStage) seenStore() drum.Options {
	o := s.plan.seenOptions(nil)
	o.Set, o.Name, o.Reserve = s.Set, state.NameURLSeen, s.space.reserve
	o.Wanted, o.Emit = func(res *drum.Result) bool { return res.New }, s.emitUnique
	return o
}

func (s *seenStage) mergeSeen(ctx context.Context) error {
	return s.passes.run(ctx, merger{
		name: state.NameURLSeen,
		pass: func(ctx context.Context, dry bool) (int, error) {
			if !dry {
				s.fullPasses.Add(1)
			}
			n, err := s.measured(func() (int, error) { return s.urlSeen.Pass(ctx, dry) })
			s.seenMerges.Add(1)
			return n, err
		},
		full:    s.urlSeen.Full,
		pending: pendingTuples(s.urlSeen),
		keys:    s.urlSeen.Keys,
		cost:    func() time.Duration { return s.urlSeen.Stats().PredictedEarly },
		early:   func() bool { return s.passes.needsURLs() && !s.budgets.checksPending() }, starving: s.passes.starving,
		wake: s.wakeSeen,
	})
}

// emitUnique takes what URLseen found to be new: each URL goes to STAR for its budget.
func (s *seenStage) emitUnique(results []drum.Result) error {
	s.testHook("urlseen")
	checks := make([]star.CheckTuple, 0, len(results))
	return s.transact(func(tx *transaction) error {
		var rec weburl.Record
		for i := range results {
			res := &results[i]
			if !res.New {
				continue
			}
			if err := rec.Decode(res.Aux); err != nil {
				return fmt.Errorf("crawl: record from URLseen: %w", err)
			}
			tx.enter(s.Hasher.URLKey(rec.URL), state.PlaceStar) // a text log hands out texts without keys
			s.sketch(rec.URL)
			checks = append(checks, star.CheckTuple{PLD: s.PLDKey(weburl.Split(rec.URL).Host), Aux: res.Aux})
		}
		if len(checks) == 0 {
			return nil
		}
		return s.budgets.checkAll(tx, checks)
	})
}

// The store of names says what the keys of hosts and PLDs stand for, which nobody could tell later without reading all output.
// It has every host of a URL that was taken, and every PLD of one or at an end of an edge. A name is sent in the transaction that sends
// the URL or edge, so that no checkpoint has one without the other (docs/formats/names.md).

// namesShape is the shape of the store of names.
func namesShape() drum.Options {
	return drum.Options{Op: drum.CheckUpdate, ValueBytes: -1, MaxValueBytes: state.MaxNameBytes, Codec: drum.Rice}
}

// namesStore wires the store of names: what is new is counted.
func (s *seenStage) namesStore() drum.Options {
	o := s.plan.Names.shaped(namesShape())
	o.Set, o.Name, o.Reserve = s.Set, state.NameNames, s.space.reserve
	o.Wanted, o.Emit = func(res *drum.Result) bool { return res.New }, s.emitNames
	return o
}

// emitNames adds to the account that an audit compares the store with.
func (s *seenStage) emitNames(results []drum.Result) error {
	return s.transact(func(tx *transaction) error {
		for i := range results {
			tx.named.Add(uint64(results[i].Key))
		}
		return nil
	})
}

// leastNames is how many names are worth a merge before the store is full.
const leastNames = 64

// mergeNames merges by size, and whenever the store has doubled: some 30 small passes in a crawl's life. Nobody waits for it.
func (s *seenStage) mergeNames(ctx context.Context) error {
	pending := pendingTuples(s.names)
	return s.passes.run(ctx, merger{
		name:     state.NameNames,
		pass:     s.names.Pass,
		full:     s.names.Full,
		pending:  pending,
		keys:     s.names.Keys,
		cost:     func() time.Duration { return s.names.Stats().PredictedEarly },
		early:    func() bool { return pending() >= s.names.Keys()+leastNames },
		starving: func() bool { return false },
		wake:     s.wakeNames,
	})
}

// openTrace begins, or goes on with, the trace of links if one was asked for. It is no part of the state: it knows nothing of
// checkpoints, and after its beginning no fault of it stops the crawl.
func (s *seenStage) openTrace() error {
	if s.opt.TraceLinks == "" {
		return nil
	}
	w, err := linktrace.Create(linktrace.Options{FS: s.Meter, Path: s.opt.TraceLinks, LimitBytes: s.opt.TraceLimit, Ended: func(why error) {
		if errors.Is(why, linktrace.ErrLimit) {
			s.opt.Log.Warn("the trace of links has reached its limit and ends; the crawl goes on", "file", s.opt.TraceLinks, "bytes", s.opt.TraceLimit)
			return
		}
		s.opt.Log.Warn("the trace of links ends; the crawl goes on", "file", s.opt.TraceLinks, "error", why)
	}})
	if err != nil {
		return fmt.Errorf("crawl: trace of links: %w", err)
	}
	s.trace = w
	return nil
}

// closeTrace ends the trace.
func (s *seenStage) closeTrace() {
	if err := s.trace.Close(); err != nil {
		s.opt.Log.Warn("trace of links", "error", err)
	}
	recorded, lost := s.trace.Links()
	if lost > 0 {
		s.opt.Log.Warn("trace of links: some are missing", "file", s.opt.TraceLinks, "recorded", recorded, "lost", lost)
		return
	}
	s.opt.Log.Info("trace of links", "file", s.opt.TraceLinks, "recorded", recorded)
}
