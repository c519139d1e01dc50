package seen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/node"
	"drumbeat/crawl/observe"
	"drumbeat/crawl/orders"
	"drumbeat/crawl/pass"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/space"
	"drumbeat/drum"
	"drumbeat/internal/linktrace"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Stage is the first stage. It receives the links of pages and finds the new ones with URLseen.
//
// Producers: the page workers (SendLinks) and the seeds. Consumers: its own goroutines "urlseen" and
// "names", which run the merges; URLseen emits new URLs to STAR.
type Stage struct {
	run         *account.Run
	saved       *state.Saved
	opt         Options
	others      Others
	URLSeen     *drum.Drum     // the owner opens it and Names, with SeenStore and NamesStore
	recent      *drum.RAMCache // URL keys, in front of URLseen
	Names       *drum.Drum     // keys of hosts and PLDs to their texts
	recentNames *drum.RAMCache
	trace       *linktrace.Writer // trace of the keys before recent filters them; nil if off

	merges              *pass.Merger // the Waker of wakeSeen
	wakeSeen, wakeNames account.Signal
	seenMerges          atomic.Int64 // passes of URLseen that have ended
	fullPasses          atomic.Int64 // passes over full buckets of URLseen, in this run
	meter               seenMeter

	orders   *orders.Table
	sketches *observe.Sketches
	node     *node.Node
	passes   *pass.Runner
	space    *space.Keeper
}

// Options are the options of a Stage.
type Options struct {
	Log        *slog.Logger
	Dirs       []string
	Plan       *plan.Plan
	Links      *admit.Policy // decides which links become URLs
	TraceLinks string        // file of the trace; "": none
	TraceLimit int64         // bytes
	HostDelay  time.Duration // for the trace
	Drains     func() bool   // new links are not queued
}

// Needs are the rooms below that a Stage calls.
type Needs struct {
	Orders   *orders.Table
	Sketches *observe.Sketches
	Node     *node.Node
	Passes   *pass.Runner
	Space    *space.Keeper
}

// Others are the stages above that a Stage calls.
type Others struct {
	Budgets Budgets
	// AdoptOrder handles a new URL that was enqueued; ok is false if it was not. It is part of a transaction.
	AdoptOrder func(tx *account.Tx, rec *weburl.Record) (ok bool, _ error)
	// Earlier handles a new URL that an earlier crawl has fetched (state.ReasonEarlier). It is part of a transaction.
	Earlier func(tx *account.Tx, rec *weburl.Record) error
	LogSeed func(seed, why string) // a seed that yields nothing
}

// Budgets give new URLs their budgets.
type Budgets interface {
	CheckOf(rec *weburl.Record, aux []byte) star.CheckTuple // the tuple that asks for the queue of a URL
	// CheckAll sends URLs to STAR, AddEdges links between PLDs, AddHostLinks links to hosts. They are part of a
	// transaction.
	CheckAll(tx *account.Tx, urls []star.CheckTuple) error
	AddEdges(edges []star.Edge) error
	AddHostLinks(links []star.HostLink) error
	ChecksPending() bool // URLs wait in STAR
	Scanning() bool      // a scan of QF is in progress
}

// New returns a Stage. Wire and OpenMerger must be called before the stages start.
func New(run *account.Run, saved *state.Saved, opt Options, n Needs) *Stage {
	return &Stage{run: run, saved: saved, opt: opt, orders: n.Orders, sketches: n.Sketches, node: n.Node,
		passes: n.Passes, space: n.Space, wakeSeen: run.PulsedSignal(),
		wakeNames: account.NewSignal()}
}

// Wire gives the Stage the stages that it calls.
func (s *Stage) Wire(others Others) { s.others = others }

// SendLinks sends a page's links to URLseen, the store of names and STAR. It is part of the page's
// transaction.
func (s *Stage) SendLinks(b *admit.Batch, tx *account.Tx) error {
	tx.CountAll(&b.Counts)
	seeds := b.Rec.Flags&weburl.FlagSeed != 0
	if s.opt.Drains() && !seeds {
		tx.Count(state.CountLinksDraining, int64(len(b.Keys))+b.Again)
		b.Ends, b.Keys, b.Edges, b.Traced, b.Again = b.Ends[:0], b.Keys[:0], b.Edges[:0], b.Traced[:0], 0
		b.Away, b.HostLinks = b.Away[:0], b.HostLinks[:0]
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
		if err := s.URLSeen.Add(b.Tuples); err != nil {
			return err
		}
		tx.Count(state.CountLinksChecked, int64(len(b.Tuples)))
		s.meter.added.Add(int64(len(b.Tuples)))
		s.meter.text.Add(text)
		tx.Wake(s.merges)
	}
	if err := s.sendNames(&b.Names, tx); err != nil {
		return err
	}
	if len(b.Edges) > 0 {
		if err := s.others.Budgets.AddEdges(b.Edges); err != nil {
			return err
		}
		tx.Count(state.CountEdges, int64(len(b.Edges)))
	}
	if len(b.HostLinks) > 0 {
		if err := s.others.Budgets.AddHostLinks(b.HostLinks); err != nil {
			return err
		}
	}
	for _, f := range b.Faults {
		s.others.LogSeed(f[0], f[1])
	}
	return nil
}

// sendNames sends the names that the cache does not hold. The cache changes within the same transaction.
func (s *Stage) sendNames(l *admit.Names, tx *account.Tx) error {
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
	return s.Names.Add(fresh)
}

// OpenCaches creates the RAM caches in front of the stores. The plan may give URLseen no cache.
func (s *Stage) OpenCaches() {
	s.recentNames = drum.NewRAMCache(s.opt.Plan.NameCacheBytes)
	if s.opt.Plan.CacheBytes > 0 {
		s.recent = drum.NewRAMCache(s.opt.Plan.CacheBytes)
	}
}

// Close frees the caches and closes the trace.
func (s *Stage) Close() {
	for _, cache := range []*drum.RAMCache{s.recent, s.recentNames} {
		if cache != nil {
			cache.Close()
		}
	}
	if s.trace != nil {
		s.closeTrace()
	}
}

// Traced reports whether links are traced.
func (s *Stage) Traced() bool { return s.trace != nil }

// Cached reports whether URLseen has a cache.
func (s *Stage) Cached() bool { return s.recent != nil }

// Wake makes URLseen's goroutine check for a due pass once the transaction has ended.
func (s *Stage) Wake(tx *account.Tx) { tx.Wake(s.merges) }

// WakeNow does the same as Wake, outside of a transaction.
func (s *Stage) WakeNow() { s.wakeSeen.Raise() }

// Pending returns the number of links that wait for a pass.
func (s *Stage) Pending() int64 { n, _ := s.URLSeen.Pending(); return n }

// PassesEnded returns the number of passes of URLseen that have ended.
func (s *Stage) PassesEnded() int64 { return s.seenMerges.Load() }

// PassCost returns the predicted duration of a pass over all buckets.
func (s *Stage) PassCost() time.Duration { return s.URLSeen.Stats().PredictedEarly }

// SeenStore returns the options of URLseen. It emits new URLs to emitUnique.
func (s *Stage) SeenStore() drum.Options {
	o := s.opt.Plan.SeenOptions(nil)
	o.Set, o.Name, o.Reserve = s.saved.Set, state.NameURLSeen, s.space.Reserve
	o.Wanted, o.Emit = func(res *drum.Result) bool { return res.New }, s.emitUnique
	return o
}

// MergeSeen is the goroutine "urlseen".
func (s *Stage) MergeSeen(ctx context.Context) error { return s.passes.Run(ctx, s.merges) }

// OpenMerger describes the passes of URLseen. URLSeen must be open.
func (s *Stage) OpenMerger() *pass.Merger {
	s.merges = &pass.Merger{
		Passes: s.passes,
		Name:   state.NameURLSeen,
		Pass: func(ctx context.Context, early bool) (int, error) {
			if !early {
				s.fullPasses.Add(1)
			}
			n, err := s.measured(func() (int, error) { return s.URLSeen.Pass(ctx, early) })
			s.seenMerges.Add(1)
			return n, err
		},
		Full:    s.URLSeen.Full,
		Pending: pass.PendingTuples(s.URLSeen),
		Bytes:   pass.PendingBytes(s.URLSeen),
		Keys:    s.URLSeen.Keys,
		Cost:    func() time.Duration { return s.URLSeen.Stats().PredictedEarly },
		Early: func() bool {
			return s.passes.NeedsURLs() && (!s.others.Budgets.ChecksPending() || s.others.Budgets.Scanning())
		},
		Starving: s.passes.Starving,
		Wake:     s.wakeSeen,
	}
	return s.merges
}

// emitUnique sends the new URLs from URLseen to STAR for their budgets.
func (s *Stage) emitUnique(results []drum.Result) error {
	s.run.Hook("urlseen")
	checks := make([]star.CheckTuple, 0, len(results))
	return s.run.Transact(func(tx *account.Tx) error {
		var rec weburl.Record
		var urls, urlBytes, recordBytes int64
		for i := range results {
			res := &results[i]
			if !res.New {
				continue
			}
			if key, ok := state.MovedKey(res.Aux); ok {
				tx.Known(key)
				continue
			}
			if err := rec.Decode(res.Aux); err != nil {
				return fmt.Errorf("crawl: record from URLseen: %w", err)
			}
			s.sketches.AddHost(weburl.Split(rec.URL).Host)
			_, text, _ := bytes.Cut(rec.URL, []byte("://"))
			urls, urlBytes, recordBytes = urls+1, urlBytes+int64(len(text)), recordBytes+int64(len(res.Aux))
			if s.orders.Any() {
				if ok, err := s.others.AdoptOrder(tx, &rec); err != nil {
					return err
				} else if ok {
					continue
				}
			}
			if state.Reason(rec.Reason) == state.ReasonEarlier {
				if err := s.others.Earlier(tx, &rec); err != nil {
					return err
				}
				continue
			}
			tx.Enter(s.saved.Hasher.URLKey(rec.URL), state.PlaceStar) // URLseen's text log returns no keys
			if sent, err := s.node.HandOut(tx, &rec, state.PlaceStar); err != nil {
				return err
			} else if sent {
				continue
			}
			check := s.others.Budgets.CheckOf(&rec, res.Aux)
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
		return s.others.Budgets.CheckAll(tx, checks)
	})
}

// The store of names maps the keys of hosts and PLDs to their texts. Without it, only a scan of the whole
// output could tell them. It holds the host of every URL that was accepted, and every PLD of such a URL or
// at either end of an edge. A name is sent in the same transaction as its URL or edge, so every checkpoint
// has both or neither (docs/reference/files/names.md).

// NamesStore returns the options of the store of names. It emits new names to emitNames.
func (s *Stage) NamesStore() drum.Options {
	o := s.opt.Plan.Names.Shaped(plan.NamesShape())
	o.Set, o.Name, o.Reserve = s.saved.Set, state.NameNames, s.space.Reserve
	o.Wanted, o.Emit = func(res *drum.Result) bool { return res.New }, s.emitNames
	return o
}

// emitNames adds the new names to the account with which an audit compares the store.
func (s *Stage) emitNames(results []drum.Result) error {
	return s.run.Transact(func(tx *account.Tx) error {
		for i := range results {
			tx.NewName(uint64(results[i].Key))
		}
		return nil
	})
}

// leastNames is the smallest number of names for which an early merge runs.
const leastNames = 64

// MergeNames merges when buckets are full, and early when the store would double. That makes about 30 small
// passes in the life of a crawl. No stage waits for these passes.
func (s *Stage) MergeNames(ctx context.Context) error {
	pending := pass.PendingTuples(s.Names)
	return s.passes.Run(ctx, &pass.Merger{
		Passes:   s.passes,
		Name:     state.NameNames,
		Pass:     s.Names.Pass,
		Full:     s.Names.Full,
		Pending:  pending,
		Bytes:    pass.PendingBytes(s.Names),
		Keys:     s.Names.Keys,
		Cost:     func() time.Duration { return s.Names.Stats().PredictedEarly },
		Early:    func() bool { return pending() >= s.Names.Keys()+leastNames },
		Starving: func() bool { return false },
		Wake:     s.wakeNames,
	})
}

// OpenTrace creates or continues the link trace if Options.TraceLinks is set. The trace is not part of
// the crawl's state and checkpoints ignore it. Once it is open, no error of it stops the crawl.
func (s *Stage) OpenTrace() error {
	if s.opt.TraceLinks == "" {
		return nil
	}
	ended := func(why error) {
		if errors.Is(why, linktrace.ErrLimit) {
			s.opt.Log.Warn("the link trace has reached its limit and ends; the crawl continues",
				"file", s.opt.TraceLinks, "bytes", s.opt.TraceLimit)
			return
		}
		s.opt.Log.Warn("the link trace ends; the crawl continues", "file",
			s.opt.TraceLinks, "error", why)
	}
	w, err := linktrace.Create(linktrace.Options{FS: s.saved.Meter, Path: s.opt.TraceLinks,
		LimitBytes: s.opt.TraceLimit, Pages: func() int64 { return s.run.Accounts.Counter(state.CountPages) },
		HostDelay: s.opt.HostDelay, Ended: ended})
	if err != nil {
		return fmt.Errorf("crawl: link trace: %w", err)
	}
	s.trace = w
	return nil
}

// closeTrace closes the trace and logs how many links it recorded.
func (s *Stage) closeTrace() {
	if err := s.trace.Close(); err != nil {
		s.opt.Log.Warn("link trace", "error", err)
	}
	recorded, lost := s.trace.Links()
	if lost > 0 {
		s.opt.Log.Warn("the link trace is incomplete", "file", s.opt.TraceLinks, "recorded",
			recorded, "lost", lost)
		return
	}
	s.opt.Log.Info("link trace", "file", s.opt.TraceLinks, "recorded", recorded)
}

// TakeLinks passes the records of a message to URLseen, the store of names and STAR. It is part of a
// transaction.
func (s *Stage) TakeLinks(in *admit.Inlet, tx *account.Tx) error {
	for _, key := range in.Scopes {
		s.opt.Links.Sites.Extend(key)
	}
	tx.Count(state.CountPagesBorrowed, in.Lent)
	tx.Count(state.CountLinksTaken, int64(len(in.Tuples)))
	if s.opt.Drains() {
		tx.Count(state.CountLinksDraining, int64(len(in.Tuples)))
		return nil
	}
	if len(in.Tuples) > 0 {
		if err := s.URLSeen.Add(in.Tuples); err != nil {
			return err
		}
		tx.Count(state.CountLinksChecked, int64(len(in.Tuples)))
		s.meter.added.Add(int64(len(in.Tuples)))
		s.meter.text.Add(in.Text)
		tx.Wake(s.merges)
	}
	if err := s.sendNames(&in.Names, tx); err != nil {
		return err
	}
	tx.Count(state.CountEdgesTaken, int64(len(in.Edges)))
	if len(in.Edges) == 0 {
		return nil
	}
	return s.others.Budgets.AddEdges(in.Edges)
}

// KnowMoved passes keys and links of slots that move here to URLseen. It is part of a transaction.
func (s *Stage) KnowMoved(keys []drum.Tuple, text int64, tx *account.Tx) error {
	if err := s.URLSeen.Add(keys); err != nil {
		return err
	}
	s.meter.added.Add(int64(len(keys)))
	s.meter.text.Add(text)
	tx.Wake(s.merges)
	return nil
}

// NameMoved passes names of slots that move here to the store of names. It is part of a transaction.
func (s *Stage) NameMoved(names []drum.Tuple, tx *account.Tx) error {
	return s.sendNames(&admit.Names{Tuples: names}, tx)
}

// BufferedBytes returns what the buckets of URLseen and of the names hold on disk.
func (s *Stage) BufferedBytes() int64 {
	return s.opt.Plan.URLSeen.BufferedIn(s.URLSeen) + s.opt.Plan.Names.BufferedIn(s.Names)
}

// UnsavedBytes returns what the next checkpoint writes.
func (s *Stage) UnsavedBytes() int64 { return s.URLSeen.UnsavedBytes() + s.Names.UnsavedBytes() }
