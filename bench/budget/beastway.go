package budget

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"runtime"
	"time"

	"drumbeat/beast"
	"drumbeat/bench/measure"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/star"
)

// The way from STAR's check to a queue of BEAST, with the buffers of a crawl with some GiB of RAM. wayBuckets of wayBucketBytes
// take 2.4 million checks each before a merge by size.
const (
	wayBuckets     = 4
	wayBucketBytes = 64 << 20
	wayQueues      = 16      // h
	wayPool        = 1 << 14 // different records, which the generator goes round
)

// wayCost is the CPU (user and system) that one URL took, in nanoseconds.
type wayCost struct {
	total  float64 // all but the generator
	check  float64 // star.Check: the drum's intake, writing its buffers
	pass   float64 // the merge: reading, sorting, the PLDs' records, emission; without the two below
	place  float64 // decoding the ledger, BEAST's rule, encoding: in a loop of its own
	queue  float64 // beast.Append, writing blocks
	wall   float64
	source float64 // the generator
}

// beastWay measures the way for n URLs of plds PLDs.
type beastWay struct {
	star    *star.Star
	beast   *beast.Beast
	web     *budgetWeb
	rng     *mathrand.Rand
	pool    [][]byte
	batch   []star.CheckTuple
	placed  int64
	emitted time.Duration
}

// measureWay opens both stores in set and sends URLs through them.
func measureWay(ctx context.Context, o *Beast, set disk.Set) (cost wayCost, err error) {
	w := &beastWay{rng: mathrand.New(mathrand.NewPCG(o.Seed, 11)), batch: make([]star.CheckTuple, checkBatch)}
	small := *o
	small.PLDs, small.Spam = o.WayPLDs, 0
	w.web = newBudgetWeb(&small)
	for range wayPool {
		w.pool = append(w.pool, w.web.append(nil))
	}
	if err := w.open(o, set); err != nil {
		return cost, err
	}
	defer func() { err = errors.Join(err, w.star.Close(), w.beast.Close()) }()
	n := o.WayURLs / checkBatch * checkBatch
	cost.source, err = w.measure(n, func([]star.CheckTuple) error { return ctx.Err() })
	if err != nil {
		return cost, err
	}
	began, cpu := time.Now(), measure.CPUTime()
	cost.check, err = w.measure(n, func(batch []star.CheckTuple) error {
		return errors.Join(ctx.Err(), w.star.Check(batch))
	})
	if err != nil {
		return cost, err
	}
	cost.check -= cost.source
	afterChecks := measure.CPUTime()
	if _, err := w.star.PassAll(ctx); err != nil {
		return cost, err
	}
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(n) }
	end := measure.CPUTime()
	cost.total = per(end-cpu) - cost.source
	cost.wall = per(time.Since(began))
	cost.queue = per(w.emitted)
	cost.place = w.placing()
	cost.pass = per(end-afterChecks) - cost.queue - cost.place
	if w.placed != n {
		return cost, fmt.Errorf("bench: beast: %d of %d checks were answered", w.placed, n)
	}
	return cost, nil
}

// open opens STAR, and BEAST with the horizon of a crawl that is under way.
func (w *beastWay) open(o *Beast, set disk.Set) (err error) {
	if w.beast, err = openHorizon(set, wayQueues); err != nil {
		return err
	}
	d := drum.Options{Buckets: wayBuckets, BucketBytes: wayBucketBytes, CompressAux: o.Compress}
	w.star, err = star.Open(star.Options{
		Set: set, Edges: d, Indegree: d, Budgets: star.Budgets{QueuePages: star.Unscaled},
		Place: w.place, Emit: w.emit, Pin: w.beast.Pin,
	}, nil)
	if err != nil {
		return errors.Join(err, w.beast.Close())
	}
	return nil
}

// openHorizon opens a BEAST with h queues ahead: by way of a checkpoint, since it begins with one.
func openHorizon(set disk.Set, h int64) (*beast.Beast, error) {
	b, err := beast.Open(beast.Options{Set: set}, nil)
	if err != nil {
		return nil, err
	}
	tails, err := disk.CreateTails(set, 1)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	st, err := b.Freeze().Save(tails)
	if err := errors.Join(err, tails.Close(), b.Close()); err != nil {
		return nil, err
	}
	st.Horizon = beast.Number(h)
	return beast.Open(beast.Options{Set: set}, st)
}

func (w *beastWay) place(ledger *[star.LedgerBytes]byte, pages uint32) int64 {
	l := beast.DecodeLedger(ledger)
	n := w.beast.Place(&l, pages)
	l.Encode(ledger)
	return int64(n)
}

func (w *beastWay) emit(placed []star.Placed) error {
	runtime.LockOSThread() // for the thread's clock
	defer runtime.UnlockOSThread()
	began := measure.ThreadTime()
	for i := range placed {
		if err := w.beast.Append(beast.Number(placed[i].Number), placed[i].Aux); err != nil {
			return err
		}
	}
	w.placed += int64(len(placed))
	w.emitted += measure.ThreadTime() - began
	return nil
}

// measure makes n records and hands them to send; it returns the CPU time of one in ns.
func (w *beastWay) measure(n int64, send func([]star.CheckTuple) error) (float64, error) {
	began := measure.CPUTime()
	var was, x uint32
	for done := int64(0); done < n; done += checkBatch {
		for i := range w.batch {
			rec := w.pool[(done+int64(i))%wayPool]
			if pld := recordPLD(rec); pld != was { // links come in runs of a PLD
				was, x = pld, w.web.arrivals.draw(w.rng.Uint64())
			}
			w.batch[i] = star.CheckTuple{PLD: pldKey(x), Aux: rec}
		}
		if err := send(w.batch); err != nil {
			return 0, err
		}
	}
	return float64((measure.CPUTime() - began).Nanoseconds()) / float64(n), nil
}

// placeLoops is how often placing is measured.
const placeLoops = 1 << 20

// placing returns what one placement costs in ns: of URLs of PLDs in order of their keys, as in a pass.
func (w *beastWay) placing() float64 {
	release := w.beast.Pin()
	defer release()
	ledgers := make([][star.LedgerBytes]byte, 1<<16)
	began := measure.CPUTime()
	for i := range placeLoops {
		w.place(&ledgers[i>>2&(len(ledgers)-1)], 10)
	}
	return float64((measure.CPUTime() - began).Nanoseconds()) / placeLoops
}
