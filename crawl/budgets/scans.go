package budgets

import (
	"bytes"
	"context"
	"math"
	"sync/atomic"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/pass"
	"drumbeat/state"
	"drumbeat/weburl"
)

// The scan of QF: URLs for which no queue of BEAST had room are sent to STAR's check again (paper, section VII).

// ScanOverBudget reads QF again when a scan is due and sends each of its URLs to STAR's check. After a
// change of the budget function it also sends the URLs of all queues (replaceAll). Before that it looks through all
// queues for URLs whose slots have left (sift).
func (b *Stage) ScanOverBudget(ctx context.Context) error {
	for ctx.Err() == nil {
		if b.others.Leaving.Leaving() {
			if done, err := b.sift(ctx); err != nil {
				return err
			} else if !done {
				continue
			}
		}
		if b.Beast.Epoch() != b.others.Operator.Epoch() || b.Beast.Moving() {
			if err := b.replaceAll(ctx); err != nil {
				return err
			}
			continue
		}
		if !b.Beast.Scanning() {
			if wait := b.untilScan(time.Now()); wait > 0 {
				b.run.Await(ctx, b.wakeScan, wait)
				continue
			}
			b.scanned.busy = 0
			b.scanned.gained.Store(0)
			b.chooseLot()
			if err := b.run.Transact(func(*account.Tx) error { return b.Beast.StartScan() }); err != nil {
				return err
			}
		}
		data, ok, err := b.Beast.ScanPeek()
		if err != nil {
			return err
		}
		if !ok {
			if err := b.run.Transact(func(*account.Tx) error { return b.Beast.EndScan() }); err != nil {
				return err
			}
			b.scanned.ended, b.scanned.took = time.Now(), b.scanned.busy
			b.opt.Log.Debug("scan of QF", "left", b.run.Accounts.In(state.PlaceOverBudget), "took", b.scanned.took)
			b.wakeStar.Raise()
			continue
		}
		if b.Crowded() || b.scanLotReady() {
			b.wakeStar.Raise()
			b.run.Await(ctx, b.wakeScan, account.WakeAfter)
			continue
		}
		if err := b.run.Transact(func(tx *account.Tx) error { return b.scanSome(tx, data) }); err != nil {
			return err
		}
	}
	return nil
}

// scanSome handles the record of QF that ScanPeek has returned. A URL of a host that has more in RAM and on
// disk than it can be sent until the next scan stays in QF, and so do those that follow, about scanSkips at
// most: they are one part of a transaction.
func (b *Stage) scanSome(tx *account.Tx, data []byte) error {
	var origin []byte // of the last record, with the slash that ends it
	glutted, now, ahead := false, time.Now(), max(glutAhead, b.scanRest(scanDuty))
	defer func() { b.scanned.busy += time.Since(now) }()
	kept, err := b.Beast.ScanKeep(scanSkips, func(data []byte) bool {
		if len(origin) == 0 || !bytes.HasPrefix(data, origin) {
			parts := weburl.Split(data)
			origin = append(origin[:0], data[:len(data)-len(parts.Path)]...)
			if len(parts.Path) > 0 && parts.Path[0] == '/' {
				origin = append(origin, '/')
			}
			glutted = !b.Beast.Sifting() && b.others.Heaps().Glutted(now, b.saved.HostKey(parts.Host), ahead)
		}
		return glutted
	})
	if kept > 0 || err != nil {
		return err // the next record may be of another lane
	}
	b.scanned.busy += checkCost
	if err := b.Recheck(tx, data, state.PlaceOverBudget); err != nil {
		return err
	}
	b.Beast.ScanAdvance()
	return nil
}

// Crowded reports whether STAR's buckets are half full of checks, and wakes it then.
func (b *Stage) Crowded() bool {
	full := b.Star.ChecksHalfFull()
	if full {
		b.wakeStar.Raise()
	}
	return full
}

// scanMemory remembers the counters at the last scan of an idle crawl, so that useless URLs in QF are not
// read repeatedly.
type scanMemory struct {
	fetched atomic.Int64 // responses at the start of the last such scan; -1 before the first
	edges   atomic.Int64
	spared  atomic.Bool  // PLDs without standing got a page in that scan
	lot     atomic.Int64 // checks that make a pass of STAR due; 0: none
	gained  atomic.Int64 // URLs of QF that have got a place in a queue since the start of the last scan

	// For the goroutine "scan": when the last scan ended, and the time that it and the present one have
	// taken, with STAR's passes but without waits.
	ended      time.Time
	took, busy time.Duration
}

// The time between two scans in durations of a scan. A PLD with 10^6 URLs over its budget would otherwise be
// read again and again while the queues of BEAST are short, and take the processors from the others.
const (
	scanDuty   = 16
	hungryDuty = 2   // while connections and processors are idle, and nothing waits in front of RAM
	mostDuty   = 256 // the same, if the last scan has brought few URLs for its time
	// scanWorth is the time of a scan that a URL is worth, in which it could be fetched.
	scanWorth = time.Millisecond
)

// scanShare is how many URLs of QF may be read again for each page that has been fetched since the last scan of an idle
// crawl, if that scan has brought none.
const scanShare = 64

// glutAhead is the least time that a host must have URLs for, so that a scan leaves the others in QF;
// scanSkips is about how many it leaves in one transaction, at 20 to 150 ns each.
const (
	glutAhead = time.Hour
	scanSkips = 1 << 12
)

// checkCost is about the time that the check of a URL takes in STAR's pass.
const checkCost = 2 * time.Microsecond

// scanLot is the number of URLs of a scan that STAR checks in one pass, at least. Newer URLs wait for that pass, so it
// must be short, but not so short that it rewrites many PLDs for each URL.
const scanLot = 1 << 14

// chooseLot chooses the lot of the scan that begins. Where a pass takes long, a lot is what fills half of
// STAR's buckets (crowded).
func (b *Stage) chooseLot() {
	lot := max(scanLot, b.Star.NumPLDs()/pass.EarlyShare)
	if _, st := b.Star.Stats(); st.PredictedEarly > cheapMerge {
		lot = math.MaxInt64
	}
	b.scanned.lot.Store(lot)
}

// scanLotReady reports whether a running scan has sent STAR a lot, so that a pass is due.
func (b *Stage) scanLotReady() bool {
	lot := b.scanned.lot.Load()
	return lot > 0 && b.Star.PendingChecks() >= lot && b.Beast.Scanning()
}

// untilScan returns how long to wait for the next scan; 0 if it is due.
func (b *Stage) untilScan(now time.Time) time.Duration {
	duty := scanDuty
	if b.others.Hungry() && b.nothingNearer() {
		worth := time.Duration(max(1, b.scanned.gained.Load())) * scanWorth
		duty = max(hungryDuty, min(mostDuty, hungryDuty*int(b.scanned.took/worth)))
	}
	if wait := b.scanned.ended.Add(b.scanRest(duty)).Sub(now); wait > 0 && !b.passes.NothingInFlight() {
		return min(wait, account.WakeAfter)
	}
	if !b.scanDue() {
		return account.WakeAfter
	}
	return 0
}

// scanRest returns how long the next scan waits after the last one.
func (b *Stage) scanRest(duty int) time.Duration { return time.Duration(duty) * b.scanned.took }

// nothingNearer reports whether no URL is nearer to RAM than those in QF.
func (b *Stage) nothingNearer() bool {
	return b.run.Accounts.In(state.PlaceBeast, state.PlaceStar) == 0 && b.UpstreamEmpty()
}

// scanDue reports whether a scan of QF is due. It is due when BEAST's distance says so, or when BEAST is
// empty and something has changed since the last such scan. After a scan, a PLD with a budget has URLs in
// all queues of BEAST, so the distance triggers the next scan. The URLs that stay in QF belong to PLDs
// without a budget. They are read again while scans bring URLs, else after many fetched pages, and a last
// time when nothing else is left.
func (b *Stage) scanDue() bool {
	if b.run.Accounts.In(state.PlaceOverBudget) == 0 {
		return false
	}
	if b.Beast.ScanDue() {
		b.Star.Spare(false)
		b.scanned.spared.Store(false)
		return true
	}
	if !b.passes.NeedsURLs() || !b.nothingNearer() {
		return false
	}
	fetched, edges := b.run.Accounts.Counter(state.CountResponses), b.run.Accounts.Counter(state.CountEdges)
	last, spare := b.scanned.fetched.Load(), b.onlyFailedLeft()
	if last == fetched && b.scanned.edges.Load() == edges && (b.scanned.spared.Load() || !spare) {
		return false
	}
	if last >= 0 && b.scanned.gained.Load() == 0 &&
		(fetched-last)*scanShare < b.run.Accounts.In(state.PlaceOverBudget) && !spare {
		return false
	}
	b.Star.Spare(spare) // nothing else is left: PLDs without standing get their pages too
	b.scanned.spared.Store(spare)
	b.scanned.fetched.Store(fetched)
	b.scanned.edges.Store(edges)
	return true
}

// onlyFailedLeft reports whether QF has the only URLs that could be fetched soon. Others may only wait for
// hosts whose robots.txt is unavailable or that are in a long back-off.
func (b *Stage) onlyFailedLeft() bool {
	s := b.run.Accounts.Copy()
	lingering := s.Lingering()
	if !b.opt.Recrawl { // visits that a former run scheduled, as in the stop
		lingering += s.Deferred[state.ReasonRevisit]
	}
	return b.run.Accounts.Stock() == 0 && s.Places[state.PlaceDeferred].N == lingering && b.others.UnderWay() == 0
}

// UpstreamEmpty reports whether no link waits in front of BEAST.
func (b *Stage) UpstreamEmpty() bool {
	return b.seen.Pending() == 0 && b.Star.PendingChecks() == 0
}

// RescanUseless reports whether nothing has been fetched and no edge found since the last scan of QF in an
// idle crawl. With budgets by supporters, that scan must have given a page to PLDs without standing.
func (b *Stage) RescanUseless(s *state.Accounts) bool {
	return b.scanned.fetched.Load() == s.Counters[state.CountResponses] &&
		b.scanned.edges.Load() == s.Counters[state.CountEdges] && (b.scanned.spared.Load() || !b.Star.BySupporters())
}
