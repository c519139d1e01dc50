package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/deferred"
	"drumbeat/crawl/node"
	"drumbeat/crawl/output"
	"drumbeat/crawl/pass"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/space"
	"drumbeat/drum"
	"drumbeat/internal/linktrace"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// seenStage is the first stage. It receives the links of pages and finds the new ones with URLseen.
//
// Producers: the page workers (sendLinks) and the seeds. Consumers: its own goroutines "urlseen" and
// "names", which run the merges; URLseen emits new URLs to STAR.
type seenStage struct {
	*engine
	urlSeen     *drum.Drum
	recent      *drum.RAMCache // URL keys, in front of URLseen
	names       *drum.Drum     // keys of hosts and PLDs to their texts
	recentNames *drum.RAMCache
	trace       *linktrace.Writer // trace of the keys before recent filters them; nil if off

	merges              *pass.Merger // the Waker of wakeSeen
	wakeSeen, wakeNames account.Signal
	seenMerges          atomic.Int64 // passes of URLseen that have ended
	fullPasses          atomic.Int64 // passes over full buckets of URLseen, in this run
	seenMeter           seenMeter

	budgets   *budgetStage
	deferrals *deferred.Stage
	node      *node.Node
	output    *output.Writer
	passes    *pass.Runner
	space     *space.Keeper
}

func newSeenStage(e *engine) *seenStage {
	return &seenStage{engine: e, wakeSeen: e.PulsedSignal(), wakeNames: account.NewSignal()}
}

// sendLinks sends a page's links to URLseen, the store of names and STAR. It is part of the page's
// transaction.
func (s *seenStage) sendLinks(b *admit.Batch, tx *account.Tx) error {
	tx.CountAll(&b.Counts)
	seeds := b.Rec.Flags&weburl.FlagSeed != 0
	if s.drains() && !seeds {
		tx.Count(state.CountLinksDraining, int64(len(b.Keys))+b.Again)
		b.Ends, b.Keys, b.Edges, b.Traced, b.Again = b.Ends[:0], b.Keys[:0], b.Edges[:0], b.Traced[:0], 0
		b.Away = b.Away[:0]
		b.Names.Reset()
	}
	if s.trace != nil && !seeds {
		s.trace.Add(b.Traced)
	}
	b.Seen = slices.Grow(b.Seen[:0], len(b.Keys))[:len(b.Keys)]
	if s.recent != nil && !seeds {
		// The cache changes within the transaction. So a link that it drops was sent by an earlier
		// transaction or by this one.
		s.recent.TestAndSetBatch(b.Keys, b.Seen)
	} else {
		clear(b.Seen)
	}
	text := b.Code()
	if cached := int64(len(b.Keys)-len(b.Tuples)) + b.Again; cached > 0 {
		tx.Count(state.CountLinksCached, cached)
	}
	if err := s.node.Send(b, tx); err != nil {
		return err
	}
	if len(b.Tuples) > 0 {
		if err := s.urlSeen.Add(b.Tuples); err != nil {
			return err
		}
		tx.Count(state.CountLinksChecked, int64(len(b.Tuples)))
		s.seenMeter.added.Add(int64(len(b.Tuples)))
		s.seenMeter.text.Add(text)
		tx.Wake(s.merges)
	}
	if err := s.sendNames(&b.Names, tx); err != nil {
		return err
	}
	if len(b.Edges) > 0 {
		if err := s.budgets.addEdges(b.Edges); err != nil {
			return err
		}
		tx.Count(state.CountEdges, int64(len(b.Edges)))
	}
	for _, f := range b.Faults {
		s.output.LogSeed(f[0], f[1])
	}
	return nil
}

// sendNames sends the names that the cache does not hold. The cache changes within the same transaction.
func (s *seenStage) sendNames(l *admit.Names, tx *account.Tx) error {
	fresh := l.Tuples[:0]
	for _, t := range l.Tuples {
		if s.recentNames == nil || !s.recentNames.TestAndSet(t.Key) {
			fresh = append(fresh, t)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	tx.Wake(s.wakeNames)
	return s.names.Add(fresh)
}

// openCaches creates the RAM caches in front of the stores. The plan may give URLseen no cache.
func (s *seenStage) openCaches() {
	s.recentNames = drum.NewRAMCache(s.plan.NameCacheBytes)
	if s.plan.CacheBytes > 0 {
		s.recent = drum.NewRAMCache(s.plan.CacheBytes)
	}
}

// close frees the caches and closes the trace.
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

// wake makes URLseen's goroutine check for a due pass once the transaction has ended.
func (s *seenStage) wake(tx *account.Tx) { tx.Wake(s.merges) }

// wakeNow does the same as wake, outside of a transaction.
func (s *seenStage) wakeNow() { s.wakeSeen.Raise() }

// pending returns the number of links that wait for a pass.
func (s *seenStage) pending() int64 { n, _ := s.urlSeen.Pending(); return n }

// passesEnded returns the number of passes of URLseen that have ended.
func (s *seenStage) passesEnded() int64 { return s.seenMerges.Load() }

// passCost returns the predicted duration of a pass over all buckets.
func (s *seenStage) passCost() time.Duration { return s.urlSeen.Stats().PredictedEarly }

// seenStore returns the options of URLseen. It emits new URLs to emitUnique.
func (s *seenStage) seenStore() drum.Options {
	o := s.plan.SeenOptions(nil)
	o.Set, o.Name, o.Reserve = s.Set, state.NameURLSeen, s.space.Reserve
	o.Wanted, o.Emit = func(res *drum.Result) bool { return res.New }, s.emitUnique
	return o
}

func (s *seenStage) mergeSeen(ctx context.Context) error { return s.passes.Run(ctx, s.merges) }

// openMerger describes the passes of URLseen.
func (s *seenStage) openMerger() {
	s.merges = &pass.Merger{
		Passes: s.passes,
		Name:   state.NameURLSeen,
		Pass: func(ctx context.Context, early bool) (int, error) {
			if !early {
				s.fullPasses.Add(1)
			}
			n, err := s.measured(func() (int, error) { return s.urlSeen.Pass(ctx, early) })
			s.seenMerges.Add(1)
			return n, err
		},
		Full:    s.urlSeen.Full,
		Pending: pass.PendingTuples(s.urlSeen),
		Bytes:   pass.PendingBytes(s.urlSeen),
		Keys:    s.urlSeen.Keys,
		Cost:    func() time.Duration { return s.urlSeen.Stats().PredictedEarly },
		Early: func() bool {
			return s.passes.NeedsURLs() && (!s.budgets.checksPending() || s.budgets.scanning())
		},
		Starving: s.passes.Starving,
		Wake:     s.wakeSeen,
	}
}

// emitUnique sends the new URLs from URLseen to STAR for their budgets.
func (s *seenStage) emitUnique(results []drum.Result) error {
	s.Hook("urlseen")
	checks := make([]star.CheckTuple, 0, len(results))
	return s.Transact(func(tx *account.Tx) error {
		var rec weburl.Record
		var urls, urlBytes, recordBytes int64
		for i := range results {
			res := &results[i]
			if !res.New {
				continue
			}
			if err := rec.Decode(res.Aux); err != nil {
				return fmt.Errorf("crawl: record from URLseen: %w", err)
			}
			s.sketches.AddHost(weburl.Split(rec.URL).Host)
			_, text, _ := bytes.Cut(rec.URL, []byte("://"))
			urls, urlBytes, recordBytes = urls+1, urlBytes+int64(len(text)), recordBytes+int64(len(res.Aux))
			if s.orders.Any() {
				if ok, err := s.deferrals.AdoptOrder(tx, &rec); err != nil {
					return err
				} else if ok {
					continue
				}
			}
			tx.Enter(s.Hasher.URLKey(rec.URL), state.PlaceStar) // URLseen's text log returns no keys
			check := s.checkOf(&rec, res.Aux)
			if check.Part != 0 {
				tx.Count(state.CountTrapURLs, 1)
			}
			checks = append(checks, check)
		}
		tx.Count(state.CountURLsSized, urls)
		tx.Count(state.CountURLBytes, urlBytes)
		tx.Count(state.CountRecordBytes, recordBytes)
		if len(checks) == 0 {
			return nil
		}
		return s.budgets.checkAll(tx, checks)
	})
}

// The store of names maps the keys of hosts and PLDs to their texts. Without it, only a scan of the whole
// output could tell them. It holds the host of every URL that was accepted, and every PLD of such a URL or
// at either end of an edge. A name is sent in the same transaction as its URL or edge, so every checkpoint
// has both or neither (docs/formats/names.md).

// namesStore returns the options of the store of names. It emits new names to emitNames.
func (s *seenStage) namesStore() drum.Options {
	o := s.plan.Names.Shaped(plan.NamesShape())
	o.Set, o.Name, o.Reserve = s.Set, state.NameNames, s.space.Reserve
	o.Wanted, o.Emit = func(res *drum.Result) bool { return res.New }, s.emitNames
	return o
}

// emitNames adds the new names to the account with which an audit compares the store.
func (s *seenStage) emitNames(results []drum.Result) error {
	return s.Transact(func(tx *account.Tx) error {
		for i := range results {
			tx.NewName(uint64(results[i].Key))
		}
		return nil
	})
}

// leastNames is the smallest number of names for which an early merge runs.
const leastNames = 64

// mergeNames merges when buckets are full, and early when the store would double. That makes about 30 small
// passes in the life of a crawl. No stage waits for these passes.
func (s *seenStage) mergeNames(ctx context.Context) error {
	pending := pass.PendingTuples(s.names)
	return s.passes.Run(ctx, &pass.Merger{
		Passes:   s.passes,
		Name:     state.NameNames,
		Pass:     s.names.Pass,
		Full:     s.names.Full,
		Pending:  pending,
		Bytes:    pass.PendingBytes(s.names),
		Keys:     s.names.Keys,
		Cost:     func() time.Duration { return s.names.Stats().PredictedEarly },
		Early:    func() bool { return pending() >= s.names.Keys()+leastNames },
		Starving: func() bool { return false },
		Wake:     s.wakeNames,
	})
}

// openTrace creates or continues the trace of links if Options.Observe.TraceLinks is set. The trace is not part of
// the crawl's state and checkpoints ignore it. Once it is open, no error of it stops the crawl.
func (s *seenStage) openTrace() error {
	if s.opt.Observe.TraceLinks == "" {
		return nil
	}
	ended := func(why error) {
		if errors.Is(why, linktrace.ErrLimit) {
			s.opt.Observe.Log.Warn("trace of links has reached its limit and ends; the crawl continues",
				"file", s.opt.Observe.TraceLinks, "bytes", s.opt.Observe.TraceLimit)
			return
		}
		s.opt.Observe.Log.Warn("trace of links ends; the crawl continues", "file",
			s.opt.Observe.TraceLinks, "error", why)
	}
	w, err := linktrace.Create(linktrace.Options{FS: s.Meter, Path: s.opt.Observe.TraceLinks,
		LimitBytes: s.opt.Observe.TraceLimit, Pages: func() int64 { return s.Counter(state.CountPages) },
		HostDelay: s.opt.Politeness.HostDelay, Ended: ended})
	if err != nil {
		return fmt.Errorf("crawl: trace of links: %w", err)
	}
	s.trace = w
	return nil
}

// closeTrace closes the trace and logs how many links it recorded.
func (s *seenStage) closeTrace() {
	if err := s.trace.Close(); err != nil {
		s.opt.Observe.Log.Warn("trace of links", "error", err)
	}
	recorded, lost := s.trace.Links()
	if lost > 0 {
		s.opt.Observe.Log.Warn("trace of links: some are missing", "file", s.opt.Observe.TraceLinks, "recorded",
			recorded, "lost", lost)
		return
	}
	s.opt.Observe.Log.Info("trace of links", "file", s.opt.Observe.TraceLinks, "recorded", recorded)
}

// takeLinks passes the records of a message to URLseen, the store of names and STAR. It is part of a
// transaction.
func (s *seenStage) takeLinks(in *admit.Inlet, tx *account.Tx) error {
	for _, key := range in.Scopes {
		s.links.Sites.Extend(key)
	}
	tx.Count(state.CountPagesBorrowed, in.Lent)
	tx.Count(state.CountLinksTaken, int64(len(in.Tuples)))
	if s.drains() {
		tx.Count(state.CountLinksDraining, int64(len(in.Tuples)))
		return nil
	}
	if len(in.Tuples) > 0 {
		if err := s.urlSeen.Add(in.Tuples); err != nil {
			return err
		}
		tx.Count(state.CountLinksChecked, int64(len(in.Tuples)))
		s.seenMeter.added.Add(int64(len(in.Tuples)))
		s.seenMeter.text.Add(in.Text)
		tx.Wake(s.merges)
	}
	if err := s.sendNames(&in.Names, tx); err != nil {
		return err
	}
	tx.Count(state.CountEdgesTaken, int64(len(in.Edges)))
	if len(in.Edges) == 0 {
		return nil
	}
	return s.budgets.addEdges(in.Edges)
}
