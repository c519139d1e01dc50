package budgets

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"drumbeat/beast"
	"drumbeat/crawl/account"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/observe"
	"drumbeat/crawl/options"
	"drumbeat/crawl/pass"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/space"
	"drumbeat/crawl/stock"
	"drumbeat/crawl/strategy"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/revisit"
	"drumbeat/internal/trapscore"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/state/snapshot"
	"drumbeat/weburl"
)

// Stage is STAR and BEAST. STAR gives each new URL the budget of its PLD; BEAST queues the URL by
// that budget.
//
// Producers: URLseen's emission (emitUnique), QF (ScanOverBudget), and BEAST after a change of the budget
// function (replaceAll). Consumers: its goroutines "star", which merges, "beast", which reads the queues
// while the stock is low, and "scan", which reads QF.
type Stage struct {
	run         *account.Run
	saved       *state.Saved
	opt         Options
	others      Others
	Star        *star.Star // the owner opens it, with StarOptions, and Beast
	recentEdges *drum.RAMCache
	Beast       *beast.Lanes
	HostLinks   *drum.Drum // links to hosts (hosts.go); nil without them
	levels      *star.HostLevels
	scanned     scanMemory
	starMerges  atomic.Int64 // passes of STAR that have ended
	merges      *pass.Merger // of STAR

	wakeStar, wakeBeast, wakeScan account.Signal
	kept                          atomic.Bool    // BEAST's reader waits only for the end of a round of STAR
	moved                         account.Signal // kept has become false
	wakeSupporters                account.Signal
	exchange                      *exchange

	check  Check
	passes *pass.Runner
	seen   Seen
	space  *space.Keeper
	stock  *stock.Keeper
}

// Options are the options of a Stage.
type Options struct {
	Log       *slog.Logger
	FS        disk.FS
	Budgets   *options.Budgets
	Admission *options.Admission
	Network   *options.Network
	HostDelay time.Duration
	Lanes     func() int     // of BEAST, fixed when the crawl begins
	Share     func() float64 // of all PLDs that this node has; 0 if there is one node
	Recrawl   bool
	SiftLot   int // unsifted records of a queue that one transaction looks at (SiftLot)
	Plan      *plan.Plan
	Rules     *inforce.Rules
	Sites     *inforce.Sites
	Sketches  *observe.Sketches
	Strategy  *atomic.Pointer[strategy.Strategy] // in force; set before the stages start
	Traps     func() *trapscore.Table            // nil without scores of traps
}

// Needs are the rooms below that a Stage calls.
type Needs struct {
	Check  Check
	Passes *pass.Runner
	Seen   Seen
	Space  *space.Keeper
	Stock  *stock.Keeper
}

// Check is RobotsCache, which takes the URLs that BEAST releases.
type Check interface {
	// CheckRobots sends a URL to RobotsCache; data is its record. It is part of a transaction.
	CheckRobots(tx *account.Tx, data []byte, rec *weburl.Record, from state.Place) error
}

// Seen is URLseen, in front of STAR.
type Seen interface {
	Pending() int64          // links that wait for a pass
	PassesEnded() int64      // passes that have ended
	PassCost() time.Duration // predicted duration of a pass over all buckets
	WakeNow()                // looks for a due pass
}

// Others are the stages above that a Stage calls.
type Others struct {
	Heaps        func() Heaps // they exist once the crawl is open
	Operator     Operator
	Deferrals    Deferrals
	Leaving      Leaving
	Hungry       func() bool                      // many connections are idle because no URL in RAM is due
	UnderWay     func() int                       // requests for robots.txt
	Checkpointed func() *snapshot.CheckpointStats // nil before the first checkpoint
	Cluster      Cluster
}

// Heaps know which hosts have many URLs.
type Heaps interface {
	Glutted(now time.Time, host uint64, ahead time.Duration) bool
}

// Operator has the changes of the operator.
type Operator interface {
	Epoch() uint32               // of the budget function and the strategy
	Function() *changes.Function // nil: that of the options
	Pins() bool                  // PLDs have fixed budgets
	Pinned(pld uint64) uint32    // a fixed budget in pages; 0 for none
}

// Deferrals take URLs over the limit of their PLD, and return those that wait.
type Deferrals interface {
	// Refuse ends a URL. It is part of a transaction.
	Refuse(tx *account.Tx, rec *weburl.Record, from state.Place, why state.Reason) error
	RoomMade() // the stock may have room
}

// New returns a Stage. Wire and OpenMerger must be called before the stages start.
func New(run *account.Run, saved *state.Saved, opt Options, n Needs) *Stage {
	b := &Stage{run: run, saved: saved, opt: opt, check: n.Check, passes: n.Passes, seen: n.Seen, space: n.Space,
		stock: n.Stock, wakeStar: run.PulsedSignal(), wakeBeast: run.PulsedSignal(), wakeScan: run.PulsedSignal(),
		moved: account.NewSignal(), wakeSupporters: run.PulsedSignal()}
	b.scanned.fetched.Store(-1)
	return b
}

// Wire gives the Stage the stages that it calls.
func (b *Stage) Wire(others Others) {
	b.others, b.exchange = others, &exchange{cluster: others.Cluster, wake: b.wakeSupporters}
}

// place chooses the queue of a URL in its lane. STAR calls it for each URL of a round. part is that of
// partOf, lane that of laneOf. A trap has its part of the budget with every scope.
func (b *Stage) place(ledger *[16]byte, budget uint32, part, lane uint8) (n int64) {
	l := beast.DecodeLedger(ledger)
	s := b.opt.Strategy.Load()
	switch {
	case s.SitesAtOnce > 0 && int(lane) == s.Lanes-1:
		n = int64(b.Beast.PlaceTogether(int(lane), &l, s.SitesAtOnce))
	case budget == 0 && s.Budgets: // no queue has room for it
		n = int64(b.Beast.Place(int(lane), &l, 0))
	case part != 0 && b.opt.Traps() != nil:
		n = int64(b.Beast.PlacePart(int(lane), &l, partBudget(budget, part)))
	case !s.Budgets:
		n = int64(b.Beast.Place(int(lane), &l, beast.Unbounded))
	default:
		n = int64(b.Beast.Place(int(lane), &l, budget))
	}
	l.Encode(ledger)
	return n
}

// pin keeps BEAST in front of the queues into which a round of STAR places URLs. One round follows another,
// so if the round before has kept BEAST's reader from moving, pin lets it move first. The reader then needs
// no lock and no answer of another stage, only a read from its queue.
func (b *Stage) pin() (release func()) {
	for b.kept.Load() {
		b.wakeBeast.Raise()
		<-b.moved
	}
	unpin := b.Beast.Pin()
	return func() {
		unpin()
		b.wakeBeast.Raise()
	}
}

// ReadBeast releases URLs from BEAST's current queues while the stock is below its target.
func (b *Stage) ReadBeast(ctx context.Context) error {
	queue := beast.Number(-1)
	var end endOfQueue
	defer b.letPin()
	for ctx.Err() == nil {
		if n := b.Beast.Round(); n != queue { // budgets change only between queues
			queue, end.began = n, time.Now()
			b.Star.Refresh()
		}
		if b.stock.Stocked() {
			b.letPin()
			if sifted, err := b.siftCurrent(); err != nil {
				return err
			} else if !sifted {
				b.run.Await(ctx, b.wakeBeast, account.WakeAfter)
			}
			continue
		}
		if wait := b.mergeFirst(&end); wait > 0 {
			b.letPin()
			b.seen.WakeNow()
			b.wakeStar.Raise()
			b.run.Await(ctx, b.wakeBeast, wait)
			continue
		}
		data, ok, err := b.Beast.Peek()
		if err != nil {
			return err
		}
		if !ok {
			b.kept.Store(true) // before the state is read: a round that ends later wakes this goroutine
			if b.Beast.Waiting() != beast.Pinned {
				b.letPin()
				b.seen.WakeNow()
				b.wakeStar.Raise()
				b.wakeScan.Raise()
			}
			b.run.Await(ctx, b.wakeBeast, account.WakeAfter)
			continue
		}
		b.letPin()
		if err := b.run.Transact(func(tx *account.Tx) error {
			rec := weburl.Record{}
			if err := rec.Decode(data); err != nil {
				return fmt.Errorf("crawl: record from BEAST: %w", err)
			}
			if left, err := b.leave(tx, data, &rec); left || err != nil {
				return err
			}
			if b.overPart(&rec) || b.overPin(&rec) {
				b.Beast.Advance()
				tx.Wake(b.wakeStar)
				return b.Recheck(tx, data, state.PlaceBeast)
			}
			if err := b.check.CheckRobots(tx, data, &rec, state.PlaceBeast); err != nil {
				return err
			}
			b.Beast.Advance()
			b.stock.NoteFresh()
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// letPin lets rounds of STAR begin.
func (b *Stage) letPin() {
	if b.kept.Load() {
		b.kept.Store(false)
		b.moved.Raise()
	}
}

// overPart reports whether a URL in a queue of BEAST is to be placed again: its host has become a trap since
// it was placed, and the host's part of the budget has already left this queue. Without this a trap would
// keep the places that it got before its score was known, in all queues.
func (b *Stage) overPart(rec *weburl.Record) bool {
	host := weburl.Split(rec.URL).Host
	part := b.partOf(host)
	if part == 0 || b.Star.ChecksHalfFull() {
		return false
	}
	return !b.opt.Traps().Release(b.saved.HostKey(host), uint16(b.Beast.Current()), partBudget(rec.Budget, part))
}

// overPin reports whether a URL in a queue of BEAST is to be placed again, because its PLD's budget has been
// fixed to less than the URL was placed with. STAR then gives it the new budget, so this happens once. A
// larger one would have to bring URLs forward, which only a new placing of all of BEAST can
// (changes.OpFunction).
func (b *Stage) overPin(rec *weburl.Record) bool {
	if !b.others.Operator.Pins() || b.opt.Admission.Scope != state.ScopeAll {
		return false
	}
	pin := b.others.Operator.Pinned(b.saved.PLDKey(weburl.Split(rec.URL).Host))
	return pin > 0 && pin < rec.Budget && !b.Star.ChecksHalfFull()
}

// partBudget returns the pages per queue that are a part of a budget.
func partBudget(budget uint32, part uint8) uint32 {
	return max(1, uint32(uint64(budget)*uint64(part)/trapscore.Parts))
}

// emitPlaced moves the URLs that STAR has given a budget and a queue number into BEAST.
func (b *Stage) emitPlaced(placed []star.Placed) error {
	b.run.Hook("star")
	return b.run.Transact(func(tx *account.Tx) error {
		var rec weburl.Record
		var buf []byte
		for i := range placed {
			p := &placed[i]
			if err := rec.Decode(p.Aux); err != nil {
				return fmt.Errorf("crawl: record from STAR: %w", err)
			}
			if p.Number == star.OverLimit {
				if err := b.others.Deferrals.Refuse(tx, &rec, state.PlaceStar, state.ReasonPLDPages); err != nil {
					return err
				}
				continue
			}
			// Only new links have no budget yet. URLs of queues that are placed again also count: few, and
			// rarely.
			fromQF := rec.Budget > 0 && !revisit.Visited(rec.Visits)
			rec.Budget = p.Budget
			if beast.Number(p.Number) == beast.OverBudget {
				rec.Budget = max(1, p.Budget) // marks a record of QF
			} else if fromQF {
				b.scanned.gained.Add(1)
			}
			buf = rec.Append(buf[:0])
			if err := b.Beast.Append(int(p.Lane), beast.Number(p.Number), buf); err != nil {
				return err
			}
			to := state.PlaceBeast
			if beast.Number(p.Number) == beast.OverBudget {
				to = state.PlaceOverBudget
			}
			tx.Move(b.saved.Hasher.URLKey(rec.URL), state.PlaceStar, to)
		}
		tx.Wake(b.wakeBeast)
		return nil
	})
}

// replaceEvery is how often Replace is tried while rounds of STAR hold BEAST's pin.
const replaceEvery = 20 * time.Millisecond

// replaceAll moves the URLs that BEAST holds to STAR's check, because the budget function or the strategy has
// changed. After a crash it continues where the last checkpoint was. One call takes one step.
func (b *Stage) replaceAll(ctx context.Context) error {
	if epoch := b.others.Operator.Epoch(); b.Beast.Epoch() != epoch {
		var moved int64
		ok := false
		if err := b.run.Transact(func(*account.Tx) error {
			moved, ok = b.Beast.Replace(epoch)
			return nil
		}); err != nil {
			return err
		}
		if !ok {
			account.Sleep(ctx, replaceEvery)
			return nil
		}
		b.opt.Log.Info("budgets or priorities changed: placing queued URLs again", "urls", moved)
		return nil
	}
	data, ok, err := b.Beast.MovedPeek()
	if err != nil || !ok {
		return err
	}
	if b.Star.ChecksHalfFull() {
		b.wakeStar.Raise()
		b.run.Await(ctx, b.wakeScan, account.WakeAfter)
		return nil
	}
	return b.run.Transact(func(tx *account.Tx) error {
		if err := b.Recheck(tx, data, state.PlaceBeast); err != nil {
			return err
		}
		b.Beast.MovedAdvance()
		tx.Wake(b.wakeStar)
		return nil
	})
}

// Recheck sends a URL of BEAST, or one that is visited again, to STAR's check. It is part of a transaction.
func (b *Stage) Recheck(tx *account.Tx, data []byte, from state.Place) error {
	var rec weburl.Record
	if err := rec.Decode(data); err != nil {
		return fmt.Errorf("crawl: record from %s: %w", from, err)
	}
	if b.Beast.Sifting() {
		if left, err := b.others.Leaving.Leave(tx, data, from); left || err != nil {
			return err
		}
	}
	tx.MoveFor(b.saved.Hasher.URLKey(rec.URL), from, state.PlaceStar, state.ReasonNone, state.Reason(rec.Reason))
	check := b.CheckOf(&rec, data)
	check.Again = revisit.Visited(rec.Visits)
	return b.Star.Check([]star.CheckTuple{check})
}

// Placed returns how many URLs placing again would move.
func (b *Stage) Placed() int64 {
	s := b.Beast.Stats()
	return s.SpreadRecords + s.MovedRecords
}

// OpenCache creates the RAM cache of edges.
func (b *Stage) OpenCache() { b.recentEdges = drum.NewRAMCache(b.opt.Plan.EdgeCacheBytes) }

// Close frees the cache of edges.
func (b *Stage) Close() {
	if b.recentEdges != nil {
		b.recentEdges.Close()
	}
}

// Wake makes the reader of BEAST's queues check again once the transaction has ended.
func (b *Stage) Wake(tx *account.Tx) { tx.Wake(b) }

// Raise wakes the reader if it would release URLs, and the readers of URLs that return. While the queues
// are empty, the end of a pass wakes the former.
func (b *Stage) Raise() {
	b.others.Deferrals.RoomMade()
	if b.run.Accounts.In(state.PlaceBeast) > 0 && !b.stock.Stocked() {
		b.wakeBeast.Raise()
	}
}

// PassEnded wakes the reader of BEAST's queues after a pass. The pass may have pinned the queue, or the
// reader may have waited for the pass (mergeFirst).
func (b *Stage) PassEnded() {
	b.wakeBeast.Raise()
	if b.Beast.Scanning() { // it may wait for room in STAR
		b.wakeScan.Raise()
	}
}

// RunsLow reports whether BEAST's current queue has been read to its end or all queues together hold few
// URLs.
func (b *Stage) RunsLow() bool {
	return b.Beast.AtEnd() || b.run.Accounts.In(state.PlaceBeast) < int64(b.opt.Network.Connections)
}

// BestDry reports whether better lanes may overtake the others and the best one has no URLs. What a pass
// would bring may belong there.
func (b *Stage) BestDry() bool { return b.opt.Strategy.Load().Free && b.Beast.BestDry() }

// Scanning reports whether a scan of QF is in progress.
func (b *Stage) Scanning() bool { return b.Beast.Scanning() }

// Show adds the numbers of STAR and BEAST to a snapshot.
func (b *Stage) Show(s *snapshot.Snapshot) {
	s.PLDs, s.Edges = b.Star.NumPLDs(), b.Star.NumEdges()
	s.Queue, s.Horizon = int64(b.Beast.Current()), int64(b.Beast.Horizon())
	s.Scans, s.LevelsForgotten = b.Beast.Stats().Scans, b.levels.Forgotten()
	s.Unsifted = b.Beast.Unsifted()
	b.showSupporters(s)
}

// ChecksPending reports whether URLs wait in STAR for their budgets.
func (b *Stage) ChecksPending() bool { return b.Star.PendingChecks() > 0 }

// CheckAll sends URLs to STAR for their budgets. It is part of a transaction.
func (b *Stage) CheckAll(tx *account.Tx, urls []star.CheckTuple) error {
	if err := b.Star.Check(urls); err != nil {
		return err
	}
	tx.Wake(b.wakeStar)
	return nil
}

// AddEdges sends links between PLDs to STAR. It is part of a transaction.
func (b *Stage) AddEdges(edges []star.Edge) error { return b.Star.AddEdges(edges) }

// RecentEdge reports whether an edge to a PLD of another node was sent before. It is part of a transaction.
func (b *Stage) RecentEdge(e star.Edge) bool { return b.Star.RecentEdge(e) }

// BySupporters reports whether supporters decide about budgets.
func (b *Stage) BySupporters() bool { return b.Star.BySupporters() }

// Trust tells STAR the PLDs of seeds. It is part of a transaction.
func (b *Stage) Trust(plds []uint64) { b.Star.Trust(plds) }

// Fetched adds a fetched page of a PLD to STAR. It is part of a transaction.
func (b *Stage) Fetched(pld uint64, bytes int64) error { return b.Star.Fetched(pld, 1, bytes) }

// StarOptions returns the options of STAR. Transactions add edges and checks. STAR emits placed URLs to
// BEAST, whose current queue is pinned during a round.
func (b *Stage) StarOptions() (star.Options, error) {
	flags, err := b.flagBudgets()
	if err != nil {
		return star.Options{}, err
	}
	budgets, err := b.budgetsNow(flags)
	if err != nil {
		return star.Options{}, fmt.Errorf("crawl: budget function set by the operator: %w", err)
	}
	return star.Options{
		Set: b.saved.Set, Name: state.NameStar,
		Edges: b.opt.Plan.Edges.Geometry(b.space.Reserve), Indegree: b.opt.Plan.Indegree.Geometry(b.space.Reserve),
		Recent:  b.recentEdges,
		Budgets: budgets, MaxPlaced: b.opt.Admission.MaxPagesPerPLD, Lanes: b.opt.Lanes(),
		Place: b.place, Hosts: b.opt.Budgets.Parts != state.ByPLDs, PlaceHost: b.placeHost, Lane: b.siteLane,
		Emit: b.emitPlaced, Pinned: b.others.Operator.Pinned, Share: b.others.Leaving.Share(),
		Fetched: b.opt.Sketches.AddPages, Pin: b.pin,
	}, nil
}

// MergeStar is the goroutine "star".
func (b *Stage) MergeStar(ctx context.Context) error { return b.passes.Run(ctx, b.merges) }

// OpenMerger describes the passes of STAR. Star must be open.
func (b *Stage) OpenMerger() *pass.Merger {
	b.merges = &pass.Merger{
		Passes: b.passes,
		Name:   state.NameStar,
		Bytes: func() int64 {
			_, n := b.Star.PendingBytes()
			return n
		},
		Pass: func(ctx context.Context, early bool) (int, error) {
			links, err := b.passHostLinks(ctx, early)
			if err != nil {
				return links, err
			}
			n, err := b.Star.Pass(ctx, early)
			b.starMerges.Add(1)
			return links + n, err
		},
		Full:    func() bool { return b.Star.Full() || b.HostLinks != nil && b.HostLinks.Full() },
		Pending: b.Star.PendingChecks,
		Keys:    b.Star.NumPLDs,
		Cost: func() time.Duration {
			_, indegree := b.Star.Stats()
			return indegree.PredictedEarly
		},
		Early: func() bool { return b.passes.NeedsURLs() || b.scanLotReady() }, Starving: b.passes.Starving,
		Wake: b.wakeStar,
	}
	return b.merges
}

// BufferedBytes returns what the buckets of STAR hold on disk.
func (b *Stage) BufferedBytes() int64 {
	if b.Star == nil {
		return 0
	}
	edges, indegree := b.Star.PendingBytes()
	return b.opt.Plan.Edges.Buffered(edges) + b.opt.Plan.Indegree.Buffered(indegree) +
		b.opt.Plan.HostLinks.BufferedIn(b.HostLinks)
}

// UnsavedBytes returns what the next checkpoint writes.
func (b *Stage) UnsavedBytes() int64 {
	if b.Star == nil {
		return 0
	}
	n := b.Star.UnsavedBytes()
	if b.HostLinks != nil {
		n += b.HostLinks.UnsavedBytes()
	}
	return n
}
