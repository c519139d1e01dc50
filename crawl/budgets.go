package crawl

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"drumbeat/beast"
	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/crawl/deferred"
	"drumbeat/crawl/gate"
	"drumbeat/crawl/operate"
	"drumbeat/crawl/pass"
	"drumbeat/crawl/seen"
	"drumbeat/crawl/space"
	"drumbeat/crawl/stock"
	"drumbeat/drum"
	"drumbeat/internal/revisit"
	"drumbeat/internal/trapscore"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/state/snapshot"
	"drumbeat/weburl"
)

// budgetStage is STAR and BEAST. STAR gives each new URL the budget of its PLD; BEAST queues the URL by
// that budget.
//
// Producers: URLseen's emission (emitUnique), QF (scanOverBudget), and BEAST after a change of the budget
// function (replaceAll). Consumers: its goroutines "star", which merges, "beast", which reads the queues while
// the stock is low, and "scan", which reads QF.
type budgetStage struct {
	*engine
	star        *star.Star
	recentEdges *drum.RAMCache
	beast       *beast.Lanes
	scanned     scanMemory
	starMerges  atomic.Int64 // passes of STAR that have ended
	merges      *pass.Merger // of STAR

	wakeStar, wakeBeast, wakeScan account.Signal
	kept                          atomic.Bool    // BEAST's reader waits only for the end of a round of STAR
	moved                         account.Signal // kept has become false
	wakeSupporters                account.Signal
	hungry                        func() bool // dispatch.Dispatcher.Hungry

	checkpointed func() *snapshot.CheckpointStats // nil before the first checkpoint
	check        *gate.Check
	deferrals    *deferred.Stage
	operator     *operate.Operator
	passes       *pass.Runner
	requests     *gate.Requests
	seen         *seen.Stage
	space        *space.Keeper
	stock        *stock.Keeper
}

func newBudgetStage(e *engine) *budgetStage {
	b := &budgetStage{engine: e, wakeStar: e.PulsedSignal(), wakeBeast: e.PulsedSignal(), wakeScan: e.PulsedSignal(),
		moved: account.NewSignal(), wakeSupporters: e.PulsedSignal()}
	b.scanned.fetched.Store(-1)
	return b
}

// place chooses the queue of a URL in its lane. STAR calls it for each URL of a round. part is that of
// partOf, lane that of laneOf. A trap has its part of the budget with every scope.
func (b *budgetStage) place(ledger *[16]byte, budget uint32, part, lane uint8) (n int64) {
	l := beast.DecodeLedger(ledger)
	s := b.strategy.Load()
	switch {
	case s.SitesAtOnce > 0 && int(lane) == s.Lanes-1:
		n = int64(b.beast.PlaceTogether(int(lane), &l, s.SitesAtOnce))
	case budget == 0 && s.Budgets: // no queue has room for it
		n = int64(b.beast.Place(int(lane), &l, 0))
	case part != 0 && b.traps != nil:
		n = int64(b.beast.PlacePart(int(lane), &l, partBudget(budget, part)))
	case !s.Budgets:
		n = int64(b.beast.Place(int(lane), &l, beast.Unbounded))
	default:
		n = int64(b.beast.Place(int(lane), &l, budget))
	}
	l.Encode(ledger)
	return n
}

// pin keeps BEAST in front of the queues into which a round of STAR places URLs. One round follows another, so if the
// round before has kept BEAST's reader from moving, pin lets it move first. The reader then needs no lock and no answer
// of another stage, only a read from its queue.
func (b *budgetStage) pin() (release func()) {
	for b.kept.Load() {
		b.wakeBeast.Raise()
		<-b.moved
	}
	unpin := b.beast.Pin()
	return func() {
		unpin()
		b.wakeBeast.Raise()
	}
}

// readBeast releases URLs from BEAST's current queues while the stock is below its target.
func (b *budgetStage) readBeast(ctx context.Context) error {
	queue := beast.Number(-1)
	var end endOfQueue
	defer b.letPin()
	for ctx.Err() == nil {
		if n := b.beast.Round(); n != queue { // budgets change only between queues
			queue, end.began = n, time.Now()
			b.star.Refresh()
		}
		if b.stock.Stocked() {
			b.letPin()
			b.Await(ctx, b.wakeBeast, account.WakeAfter)
			continue
		}
		if wait := b.mergeFirst(&end); wait > 0 {
			b.letPin()
			b.seen.WakeNow()
			b.wakeStar.Raise()
			b.Await(ctx, b.wakeBeast, wait)
			continue
		}
		data, ok, err := b.beast.Peek()
		if err != nil {
			return err
		}
		if !ok {
			b.kept.Store(true) // before the state is read: a round that ends later wakes this goroutine
			if b.beast.Waiting() != beast.Pinned {
				b.letPin()
				b.seen.WakeNow()
				b.wakeStar.Raise()
				b.wakeScan.Raise()
			}
			b.Await(ctx, b.wakeBeast, account.WakeAfter)
			continue
		}
		b.letPin()
		if err := b.Transact(func(tx *account.Tx) error {
			rec := weburl.Record{}
			if err := rec.Decode(data); err != nil {
				return fmt.Errorf("crawl: record from BEAST: %w", err)
			}
			if b.overPart(&rec) || b.overPin(&rec) {
				b.beast.Advance()
				tx.Wake(b.wakeStar)
				return b.Recheck(tx, data, state.PlaceBeast)
			}
			if err := b.check.CheckRobots(tx, data, &rec, state.PlaceBeast); err != nil {
				return err
			}
			b.beast.Advance()
			b.stock.NoteFresh()
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// letPin lets rounds of STAR begin.
func (b *budgetStage) letPin() {
	if b.kept.Load() {
		b.kept.Store(false)
		b.moved.Raise()
	}
}

// overPart reports whether a URL in a queue of BEAST is to be placed again: its host has become a trap since
// it was placed, and the host's part of the budget has already left this queue. Without this a trap would
// keep the places that it got before its score was known, in all queues.
func (b *budgetStage) overPart(rec *weburl.Record) bool {
	host := weburl.Split(rec.URL).Host
	part := b.partOf(host)
	if part == 0 || b.star.ChecksHalfFull() {
		return false
	}
	return !b.traps.Release(b.HostKey(host), uint16(b.beast.Current()), partBudget(rec.Budget, part))
}

// overPin reports whether a URL in a queue of BEAST is to be placed again, because its PLD's budget has been
// fixed to less than the URL was placed with. STAR then gives it the new budget, so this happens once. A
// larger one would have to bring URLs forward, which only a new placing of all of BEAST can
// (changes.OpFunction).
func (b *budgetStage) overPin(rec *weburl.Record) bool {
	if !b.operator.Pins() || b.opt.Admission.Scope != state.ScopeAll {
		return false
	}
	pin := b.operator.Pinned(b.PLDKey(weburl.Split(rec.URL).Host))
	return pin > 0 && pin < rec.Budget && !b.star.ChecksHalfFull()
}

// partBudget returns the pages per queue that are a part of a budget.
func partBudget(budget uint32, part uint8) uint32 {
	return max(1, uint32(uint64(budget)*uint64(part)/trapscore.Parts))
}

// emitPlaced moves the URLs that STAR has given a budget and a queue number into BEAST.
func (b *budgetStage) emitPlaced(placed []star.Placed) error {
	b.Hook("star")
	return b.Transact(func(tx *account.Tx) error {
		var rec weburl.Record
		var buf []byte
		for i := range placed {
			p := &placed[i]
			if err := rec.Decode(p.Aux); err != nil {
				return fmt.Errorf("crawl: record from STAR: %w", err)
			}
			if p.Number == star.OverLimit {
				if err := b.deferrals.Refuse(tx, &rec, state.PlaceStar, state.ReasonPLDPages); err != nil {
					return err
				}
				continue
			}
			// Only new links have no budget yet. URLs of queues that are placed again also count: few, and rarely.
			fromQF := rec.Budget > 0 && !revisit.Visited(rec.Visits)
			rec.Budget = p.Budget
			if beast.Number(p.Number) == beast.OverBudget {
				rec.Budget = max(1, p.Budget) // marks a record of QF
			} else if fromQF {
				b.scanned.gained.Add(1)
			}
			buf = rec.Append(buf[:0])
			if err := b.beast.Append(int(p.Lane), beast.Number(p.Number), buf); err != nil {
				return err
			}
			to := state.PlaceBeast
			if beast.Number(p.Number) == beast.OverBudget {
				to = state.PlaceOverBudget
			}
			tx.Move(b.Hasher.URLKey(rec.URL), state.PlaceStar, to)
		}
		tx.Wake(b.wakeBeast)
		return nil
	})
}

// replaceEvery is how often Replace is tried while rounds of STAR hold BEAST's pin.
const replaceEvery = 20 * time.Millisecond

// replaceAll moves the URLs that BEAST holds to STAR's check, because the budget function or the strategy has
// changed. After a crash it continues where the last checkpoint was. One call takes one step.
func (b *budgetStage) replaceAll(ctx context.Context) error {
	if epoch := b.operator.Epoch(); b.beast.Epoch() != epoch {
		var moved int64
		ok := false
		if err := b.Transact(func(*account.Tx) error {
			moved, ok = b.beast.Replace(epoch)
			return nil
		}); err != nil {
			return err
		}
		if !ok {
			account.Sleep(ctx, replaceEvery)
			return nil
		}
		b.opt.Observe.Log.Info("budgets or priorities changed: queued URLs are placed again", "urls", moved)
		return nil
	}
	data, ok, err := b.beast.MovedPeek()
	if err != nil || !ok {
		return err
	}
	if b.star.ChecksHalfFull() {
		b.wakeStar.Raise()
		b.Await(ctx, b.wakeScan, account.WakeAfter)
		return nil
	}
	return b.Transact(func(tx *account.Tx) error {
		if err := b.Recheck(tx, data, state.PlaceBeast); err != nil {
			return err
		}
		b.beast.MovedAdvance()
		tx.Wake(b.wakeStar)
		return nil
	})
}

// Recheck sends a URL of BEAST, or one that is visited again, to STAR's check. It is part of a transaction.
func (b *budgetStage) Recheck(tx *account.Tx, data []byte, from state.Place) error {
	var rec weburl.Record
	if err := rec.Decode(data); err != nil {
		return fmt.Errorf("crawl: record from %s: %w", from, err)
	}
	tx.MoveFor(b.Hasher.URLKey(rec.URL), from, state.PlaceStar, state.ReasonNone, state.Reason(rec.Reason))
	check := b.CheckOf(&rec, data)
	check.Again = revisit.Visited(rec.Visits)
	return b.star.Check([]star.CheckTuple{check})
}

// flagBudgets returns the budgets of the options.
func (b *budgetStage) flagBudgets() (star.Budgets, error) {
	f, err := star.ParseFunction(string(b.opt.Budgets.Policy))
	return star.Budgets{Function: f, Default: b.opt.Budgets.Default, Max: b.opt.Budgets.Max,
		Ranks: b.opt.Budgets.Ranks, QueuePages: b.opt.Budgets.QueuePages, Share: b.opt.budgetShare()}, err
}

// budgetShare returns the share of all PLDs that this node has; 0 if there is one node.
func (o *Options) budgetShare() float64 {
	if o.Cluster == nil {
		return 0
	}
	return float64(o.Cluster.Table.Share(o.Cluster.Node)) / cluster.Slots
}

// checkFunction reports why a budget function cannot be used; nil is that of the options.
func (b *budgetStage) checkFunction(f *changes.Function) error {
	if b.opt.Admission.Scope != state.ScopeAll {
		return errors.New("budgets are off, because --scope is not all")
	}
	flags, err := b.flagBudgets()
	if err == nil && f != nil {
		_, err = budgetsOf(flags, f)
	}
	return err
}

// budgetsNow returns the budgets in force: those of the flags, with the operator's function.
func (b *budgetStage) budgetsNow(flags star.Budgets) (star.Budgets, error) {
	f := b.operator.Function()
	if f == nil {
		return flags, nil
	}
	return budgetsOf(flags, f)
}

// budgetsOf returns budgets with another function.
func budgetsOf(flags star.Budgets, f *changes.Function) (star.Budgets, error) {
	fn, err := star.ParseFunction(f.Name)
	if err == nil {
		flags.Function, flags.Default, flags.Max = fn, f.Default, f.Max
		err = flags.Validate()
	}
	return flags, err
}

// newFunction puts the budget function of the operator in force: for URLs that STAR checks from now on, and,
// by the goroutine "scan", for those in BEAST's queues after the current one.
func (b *budgetStage) newFunction() error {
	flags, err := b.flagBudgets()
	if err != nil {
		return err
	}
	budgets, err := b.budgetsNow(flags)
	if err == nil {
		err = b.star.SetBudgets(budgets)
	}
	if err != nil {
		return err
	}
	b.replace()
	return nil
}

// replace makes the goroutine "scan" place the URLs of BEAST again, because the epoch has changed.
func (b *budgetStage) replace() {
	b.star.Refresh()
	b.wakeScan.Raise()
	b.wakeSupporters.Raise()
}

// placed returns how many URLs placing again would move.
func (b *budgetStage) placed() int64 {
	s := b.beast.Stats()
	return s.SpreadRecords + s.MovedRecords
}

// openCache creates the RAM cache of edges.
func (b *budgetStage) openCache() { b.recentEdges = drum.NewRAMCache(b.plan.EdgeCacheBytes) }

// close frees the cache of edges.
func (b *budgetStage) close() {
	if b.recentEdges != nil {
		b.recentEdges.Close()
	}
}

// wake makes the reader of BEAST's queues check again once the transaction has ended.
func (b *budgetStage) wake(tx *account.Tx) { tx.Wake(b) }

// raise wakes the reader if it would release URLs, and the readers of URLs that return. While the queues are empty,
// the end of a pass wakes the former.
func (b *budgetStage) Raise() {
	b.deferrals.RoomMade()
	if b.Accounts.In(state.PlaceBeast) > 0 && !b.stock.Stocked() {
		b.wakeBeast.Raise()
	}
}

// PassEnded wakes the reader of BEAST's queues after a pass. The pass may have pinned the queue, or the
// reader may have waited for the pass (mergeFirst).
func (b *budgetStage) PassEnded() {
	b.wakeBeast.Raise()
	if b.beast.Scanning() { // it may wait for room in STAR
		b.wakeScan.Raise()
	}
}

// RunsLow reports whether BEAST's current queue has been read to its end or all queues together hold few URLs.
func (b *budgetStage) RunsLow() bool {
	return b.beast.AtEnd() || b.Accounts.In(state.PlaceBeast) < int64(b.opt.Network.Connections)
}

// BestDry reports whether better lanes may overtake the others and the best one has no URLs. What a pass
// would bring may belong there.
func (b *budgetStage) BestDry() bool { return b.strategy.Load().Free && b.beast.BestDry() }

// Scanning reports whether a scan of QF is in progress.
func (b *budgetStage) Scanning() bool { return b.beast.Scanning() }

// show adds the numbers of STAR and BEAST to a snapshot.
func (b *budgetStage) show(s *Snapshot) {
	s.PLDs, s.Edges = b.star.NumPLDs(), b.star.NumEdges()
	s.Queue, s.Horizon = int64(b.beast.Current()), int64(b.beast.Horizon())
	s.Scans = b.beast.Stats().Scans
	b.showSupporters(s)
}

// ChecksPending reports whether URLs wait in STAR for their budgets.
func (b *budgetStage) ChecksPending() bool { return b.star.PendingChecks() > 0 }

// CheckAll sends URLs to STAR for their budgets. It is part of a transaction.
func (b *budgetStage) CheckAll(tx *account.Tx, urls []star.CheckTuple) error {
	if err := b.star.Check(urls); err != nil {
		return err
	}
	tx.Wake(b.wakeStar)
	return nil
}

// AddEdges sends links between PLDs to STAR. It is part of a transaction.
func (b *budgetStage) AddEdges(edges []star.Edge) error { return b.star.AddEdges(edges) }

// recentEdge reports whether an edge to a PLD of another node was sent before. It is part of a transaction.
func (b *budgetStage) recentEdge(e star.Edge) bool { return b.star.RecentEdge(e) }

// bySupporters reports whether supporters decide about budgets.
func (b *budgetStage) bySupporters() bool { return b.star.BySupporters() }

// trust tells STAR the PLDs of seeds. It is part of a transaction.
func (b *budgetStage) trust(plds []uint64) { b.star.Trust(plds) }

// fetched adds a fetched page of a PLD to STAR. It is part of a transaction.
func (b *budgetStage) fetched(pld uint64, bytes int64) error { return b.star.Fetched(pld, 1, bytes) }

// starOptions returns the options of STAR. Transactions add edges and checks. STAR emits placed URLs to
// BEAST, whose current queue is pinned during a round.
func (b *budgetStage) starOptions() (star.Options, error) {
	flags, err := b.flagBudgets()
	if err != nil {
		return star.Options{}, err
	}
	budgets, err := b.budgetsNow(flags)
	if err != nil {
		return star.Options{}, fmt.Errorf("crawl: budget function of the operator's changes: %w", err)
	}
	return star.Options{
		Set: b.Set, Name: state.NameStar,
		Edges: b.plan.Edges.Geometry(b.space.Reserve), Indegree: b.plan.Indegree.Geometry(b.space.Reserve),
		Recent:  b.recentEdges,
		Budgets: budgets, MaxPlaced: b.opt.Admission.MaxPagesPerPLD, Lanes: b.opt.Order.Lanes,
		Place: b.place, Lane: b.siteLane, Emit: b.emitPlaced, Pinned: b.operator.Pinned, Fetched: b.sketches.AddPages,
		Pin: b.pin,
	}, nil
}

func (b *budgetStage) mergeStar(ctx context.Context) error { return b.passes.Run(ctx, b.merges) }

// openMerger describes the passes of STAR.
func (b *budgetStage) openMerger() {
	b.merges = &pass.Merger{
		Passes: b.passes,
		Name:   state.NameStar,
		Bytes: func() int64 {
			_, n := b.star.PendingBytes()
			return n
		},
		Pass: func(ctx context.Context, early bool) (int, error) {
			n, err := b.star.Pass(ctx, early)
			b.starMerges.Add(1)
			return n, err
		},
		Full:    b.star.Full,
		Pending: b.star.PendingChecks,
		Keys:    b.star.NumPLDs,
		Cost: func() time.Duration {
			_, indegree := b.star.Stats()
			return indegree.PredictedEarly
		},
		Early: func() bool { return b.passes.NeedsURLs() || b.scanLotReady() }, Starving: b.passes.Starving,
		Wake: b.wakeStar,
	}
}

// cheapMerge is the longest predicted duration of an early pass for which BEAST waits.
const cheapMerge = time.Second

// queuePause is the longest pause of BEAST, in host delays, from the start of one queue to the start of the
// next. During the pause each host gets its turn, the queue's URLs are fetched, and their links enter the
// next queues. Without it a PLD with endless URLs would receive its budget as fast as BEAST can read queues.
//
// A queue that takes longer to read needs no pause. The pause also ends when hosts are idle, or when the
// stock falls below aim.enough, because hosts would be idle next.
const queuePause = 4

// endOfQueue is the state of readBeast at the end of a queue.
type endOfQueue struct {
	on         bool
	seen, star int64     // passes that had ended when the end was reached
	since      time.Time // when the end was reached
	began      time.Time // when the queue's first URL could be read
}

// mergeFirst decides whether BEAST waits for upstream merges before it moves to its next queue. In a small
// crawl the queues are short, and a PLD with endless URLs would receive its budget in each of them. So
// BEAST first lets one merge of URLseen and one of STAR bring all known URLs into the next queue. When
// merges take long, queues are long as well, and BEAST does not wait.
//
// wait is the longest time to wait; 0 means do not wait.
func (b *budgetStage) mergeFirst(e *endOfQueue) (wait time.Duration) {
	if !b.beast.AtEnd() {
		e.on = false
		return 0
	}
	now := time.Now()
	if !e.on {
		*e = endOfQueue{on: true, seen: b.seen.PassesEnded(), star: b.starMerges.Load(), since: now, began: e.began}
	}
	if b.strategy.Load().SitesAtOnce > 0 {
		return b.finishSites(now.Sub(e.since))
	}
	pause := queuePause * b.opt.Politeness.HostDelay
	if since, a := now.Sub(e.began), b.stock.Aim(); since < pause && !a.Idle && b.Accounts.Stock() >= a.Enough {
		return pause - since // the paper means one budget for each queue crawled, not for each queue read
	}
	wait = pause + 2*cheapMerge - now.Sub(e.since)
	if wait <= 0 || b.beast.Scanning() || b.littleToMerge() {
		return 0
	}
	if n := b.seen.Pending(); n > 0 && b.seen.PassesEnded() == e.seen {
		if cost := b.seen.PassCost(); cost >= cheapMerge || !pass.Worthwhile(cost, n) {
			return 0
		}
		return wait
	}
	if n := b.star.PendingChecks(); n > 0 && b.starMerges.Load() == e.star {
		if _, st := b.star.Stats(); pass.Worthwhile(st.PredictedEarly, n) {
			return wait
		}
	}
	return 0
}

// leastNews is the least share of the links upstream in the URLs of BEAST's queues for which BEAST waits.
const leastNews = 1. / 8

// littleToMerge reports whether the merges upstream could bring so few URLs that the next queue is complete
// enough without them, or that fetchers would be idle for them although BEAST has URLs.
func (b *budgetStage) littleToMerge() bool {
	queued := b.Accounts.In(state.PlaceBeast)
	if news := b.seen.Pending() + b.star.PendingChecks(); float64(news) < leastNews*float64(queued) {
		return true
	}
	return b.Accounts.Stock() < int64(b.opt.Network.Connections) && queued > b.stock.Aim().Target
}
