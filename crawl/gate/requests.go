package gate

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/outage"
	"drumbeat/crawl/output"
	"drumbeat/crawl/pass"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Requests is RobotsRequested, QR and QD. It requests robots.txt and addresses once for each origin
// and keeps the URLs that wait for them.
//
// Producer: RobotsCache's emission (requestRobots). Consumers: its goroutines "robotsrequested", which
// merges; "robotsfetch", which reads QD and starts a goroutine for each request; "awaitrobots", which
// returns the URLs in QR to RobotsCache; and in a cluster "robotsasks", which makes requests for other nodes.
type Requests struct {
	run    *account.Run
	saved  *state.Saved
	opt    *Options
	others Others

	// The owner opens these: RobotsRequested with RequestedStore, QR, QD, and the requests that wait for a later
	// due time.
	RobotsRequested *drum.Drum
	AwaitRobots     *queue.Queue
	RobotsFetch     *queue.Queue
	RobotsDeferred  *queue.Calendar

	robotsJobs *robotsJobs
	waiting    *releases

	wakeRequested, wakeAwaiting, wakeJobs account.Signal
	merges                                *pass.Merger // of RobotsRequested
	requestedNow                          atomic.Int64 // Unix second at which the last pass of RobotsRequested began
	jobTried                              time.Time    // start of the last request; only for ReadRobotsFetch
	comeBack                              comeBack
	parsing                               chan struct{} // limits concurrent parsing, which needs much memory

	check   *Check
	fetcher *fetcher.Fetcher
	health  *Hosts
	outages *outage.Watch
	output  *output.Writer
	passes  *pass.Runner
	space   *space.Keeper
}

// NewRequests returns Requests for a Check. Wire must give both the other stages before a run.
func NewRequests(k *Check, f *fetcher.Fetcher, o *outage.Watch, w *output.Writer) *Requests {
	run, jobs := k.run, &robotsJobs{inFlight: map[int64]robotsJob{}, perPLD: map[uint64]*pldJobs{}}
	q := &Requests{run: run, saved: k.saved, opt: k.opt, check: k, fetcher: f, health: k.health, outages: o, output: w,
		passes: k.passes, space: k.space, waiting: &releases{}, robotsJobs: jobs,
		parsing:       make(chan struct{}, runtime.GOMAXPROCS(0)+1),
		wakeRequested: run.PulsedSignal(), wakeAwaiting: run.PulsedSignal(), wakeJobs: run.PulsedSignal()}
	k.requests = q
	return q
}

// Wire gives Requests, its Check and the Hosts of that the stages that they call.
func (q *Requests) Wire(others Others) {
	q.others, q.check.others, q.health.others = others, others, others
}

// Freeze copies the requests under way. A run that continues from the checkpoint repeats them.
func (q *Requests) Freeze() [][]byte { return q.robotsJobs.snapshot() }

// Empty reports whether no request is under way or waiting.
func (q *Requests) Empty() bool {
	queued, _ := q.RobotsFetch.Len()
	deferred, _ := q.RobotsDeferred.Len()
	asked, _ := q.RobotsRequested.Pending()
	return q.UnderWay() == 0 && queued == 0 && deferred == 0 && asked == 0
}

// Returning reports whether URLs have yet to return that do not know that their robots.txt is available again.
func (q *Requests) Returning(now time.Time) bool { return q.comeBack.expected(now) }

// Queued returns the number of requests that wait in QD.
func (q *Requests) Queued() int64 { n, _ := q.RobotsFetch.Len(); return n }

// Restore returns the requests that were under way at the checkpoint to QD.
func (q *Requests) Restore(m *state.Manifest) error {
	q.robotsJobs.total = q.Queued()
	if m == nil {
		return nil
	}
	jobs, err := disk.ReadTail(q.saved.Set, m.Jobs)
	if err != nil {
		return err
	}
	return state.EachRecord("robots requests in RAM", jobs, func(rec []byte) error {
		q.robotsJobs.queued()
		return q.RobotsFetch.Append(rec)
	})
}

// RestoreWaiting makes the URLs found in QR wait for the requests found in QD.
func (q *Requests) RestoreWaiting() {
	n, _ := q.AwaitRobots.Len()
	q.waiting.restore(n, q.robotsJobs.issued())
}

// BufferedBytes implements space.Store.
func (q *Requests) BufferedBytes() int64 {
	return q.opt.Plan.RobotsRequested.BufferedIn(q.RobotsRequested)
}

// UnsavedBytes implements space.Store.
func (q *Requests) UnsavedBytes() int64 { return q.RobotsRequested.UnsavedBytes() }

// UnderWay returns the number of requests that have begun and not ended.
func (q *Requests) UnderWay() int { return q.robotsJobs.len() }

// verdictsMerged tells that RobotsCache has merged all answers before a time.
func (q *Requests) verdictsMerged(before time.Time) { q.comeBack.mergedBefore(before) }

// OutageEnded makes the reader of QD continue.
func (q *Requests) OutageEnded() { q.wakeJobs.Raise() }

// RequestedStore returns the options of RobotsRequested. It emits new requests to QD.
func (q *Requests) RequestedStore() drum.Options {
	o := q.opt.Plan.RobotsRequested.Shaped(plan.RequestedShape())
	o.Set, o.Name, o.Reserve = q.saved.Set, state.NameRobotsRequested, q.space.Reserve
	o.Apply, o.Wanted, o.Emit = q.applyRequested, func(res *drum.Result) bool { return res.New }, q.emitRequested
	if q.opt.Health.RobotsForget > 0 {
		o.Expunge = q.forgetRequested
	}
	return o
}

// requestRobots requests robots.txt, tdmrep.json or the addresses of an origin and makes the URL wait: the
// first time in QR. A URL that returned from QR before the answer waits on disk, twice as long each time. If the last
// answer was a failure, it waits as any URL of such an origin does: it holds up the end of the crawl for no
// longer, and next time it waits in QR. Otherwise its waits, which double as those between two failures do,
// could miss each answer.
func (q *Requests) requestRobots(tx *account.Tx, rec *weburl.Record, d robots.Decision, seen uint64) error {
	job := robots.Job{Origin: weburl.Origin(rec.URL), AddrsOnly: d == robots.Resolve, Reserve: d == robots.Reserve,
		Depth: rec.Depth}
	job.Failing, job.Known = seen&tokenFailing != 0, seen&tokenKnown != 0
	var value [16]byte
	binary.LittleEndian.PutUint64(value[:], uint64(time.Now().Unix()))
	binary.LittleEndian.PutUint64(value[8:], seen)
	origin := q.saved.Hasher.OriginKey(job.Origin)
	tuple := []drum.Tuple{{Key: drum.Key(origin), Op: drum.CheckUpdate, Value: value[:],
		Aux: job.Append(nil)}}
	if err := q.RobotsRequested.Add(tuple); err != nil {
		return err
	}
	tx.Wake(q.wakeRequested)
	await := state.ReasonAwaitRobots
	if job.Reserve {
		await = state.ReasonAwaitTDMRep
	}
	if rec.Reason == uint8(await) {
		rec.Deferred()
		wait := time.Second << min(uint64(rec.Waits), seen>>tokenWait&tokenWaitMask+shortestWait)
		due, why := time.Now().Add(wait), await
		if job.Failing {
			why = state.ReasonRobotsUnavailable
			q.comeBack.waits(origin, due.Add(wait/4+time.Second)) // the calendar may be late by so much
		}
		return q.others.Deferrals.DeferURL(tx, rec, state.PlaceRobotsCheck, due, why)
	}
	rec.Reason = uint8(await)
	tx.Move(q.saved.Hasher.URLKey(rec.URL), state.PlaceRobotsCheck, state.PlaceAwaitRobots)
	if err := q.AwaitRobots.Append(rec.Append(nil)); err != nil {
		return err
	}
	q.waiting.appended() // after Append: a merge that begins now may count the record
	return nil
}

// requestLost returns the time after which an unanswered request for robots.txt is repeated even if no failure is
// known. It guards against bugs that would leave URLs waiting for ever. A request may wait for a delay of its host.
func (q *Requests) requestLost() time.Duration {
	p := q.opt.Politeness
	return max(6*time.Hour, 2*max(p.HostDelay, p.ServerDelay, p.PLDDelay, p.MaxCrawlDelay))
}

// applyRequested applies the requests for one origin. The value of an origin holds the Unix second and the
// token of its last request. A request is new if none was made since the data with its token arrived.
func (q *Requests) applyRequested(_ drum.Key, old []byte, exists bool, run []drum.Item, _ *drum.Arena,
	dst []byte) ([]byte, drum.Action) {
	var last, lastSeen uint64
	if exists && len(old) == 16 {
		last, lastSeen = binary.LittleEndian.Uint64(old), binary.LittleEndian.Uint64(old[8:])
	}
	changed, lost := false, uint64(q.requestLost()/time.Second)
	for i := range run {
		now, seen := binary.LittleEndian.Uint64(run[i].Value), binary.LittleEndian.Uint64(run[i].Value[8:])
		// The last comparison fails if the clock was ahead at the last request.
		if last != 0 && seen == lastSeen && now < last+lost && last < now+lost {
			continue
		}
		run[i].New = true
		last, lastSeen, changed = now, seen, true
	}
	if !changed {
		return dst, drum.Keep
	}
	dst = binary.LittleEndian.AppendUint64(dst, last)
	return binary.LittleEndian.AppendUint64(dst, lastSeen), drum.Set
}

// emitRequested puts the new requests into QD.
func (q *Requests) emitRequested(results []drum.Result) error {
	return q.run.Transact(func(tx *account.Tx) error {
		for i := range results {
			if !results[i].New {
				continue
			}
			if err := q.RobotsFetch.Append(results[i].Aux); err != nil {
				return err
			}
			q.robotsJobs.queued()
		}
		tx.Wake(q.wakeJobs)
		return nil
	})
}

// MergeRobotsRequested runs the passes of RobotsRequested until ctx ends.
func (q *Requests) MergeRobotsRequested(ctx context.Context) error {
	return q.passes.Run(ctx, q.merges)
}

// OpenMerger describes the passes of RobotsRequested.
func (q *Requests) OpenMerger() *pass.Merger {
	q.merges = &pass.Merger{
		Passes: q.passes,
		Name:   state.NameRobotsRequested,
		Pass: func(ctx context.Context, early bool) (int, error) {
			q.requestedNow.Store(time.Now().Unix())
			mark := q.waiting.beginPass()
			n, err := q.RobotsRequested.Pass(ctx, early)
			if err == nil && early { // a pass over full buckets leaves tuples in the others
				q.waiting.endPass(mark, q.robotsJobs.issued())
				q.wakeAwaiting.Raise()
			}
			return n, err
		},
		Full:    q.RobotsRequested.Full,
		Pending: pass.PendingTuples(q.RobotsRequested),
		Bytes:   pass.PendingBytes(q.RobotsRequested),
		Keys:    q.RobotsRequested.Keys,
		Cost:    func() time.Duration { return q.RobotsRequested.Stats().PredictedEarly },
		Early:   func() bool { return q.robotsJobs.len() < q.opt.Network.RobotsInFlight }, Starving: q.passes.Starving,
		Urgent: q.others.Orders.AnyUrgent,
		Wake:   q.wakeRequested,
	}
	return q.merges
}

// ReadRobotsFetch takes requests from QD and starts at most Options.Network.RobotsInFlight at once.
func (q *Requests) ReadRobotsFetch(ctx context.Context) error {
	for ctx.Err() == nil {
		if rest := q.outages.Gap(time.Now()) - time.Since(q.jobTried); rest > 0 {
			account.Sleep(ctx, min(rest, outage.Trickle)) // the gap falls with the first answer
			continue
		}
		if q.robotsJobs.len() >= q.opt.Network.RobotsInFlight || q.space.Pausing() != "" {
			q.run.Await(ctx, q.wakeJobs, account.WakeAfter)
			continue
		}
		data, again, err := q.RobotsDeferred.Peek(time.Now(), queue.Usual)
		if err != nil {
			return err
		}
		if !again {
			var ok bool
			if data, ok, err = q.RobotsFetch.Peek(); err != nil {
				return err
			}
			if !ok {
				q.run.Await(ctx, q.wakeJobs, q.RobotsDeferred.UntilDue(time.Now(), queue.Usual, account.WakeAfter))
				continue
			}
		}
		rec := append([]byte(nil), data...)
		var job robots.Job
		if err := job.Decode(rec); err != nil {
			return err
		}
		pld := q.saved.PLDKey(weburl.Split(job.Origin).Host)
		now := time.Now()
		turn := q.robotsJobs.room(pld, q.robotsPerPLD(), now)
		if wait := q.outages.Hold(q.saved.HostKey(weburl.Split(job.Origin).Host), now); wait > 0 && !job.AddrsOnly {
			turn = now.Add(wait)
		}
		var seq int64
		if err := q.run.Transact(func(*account.Tx) error {
			if again {
				q.RobotsDeferred.Advance(queue.Usual)
			} else {
				q.RobotsFetch.Advance()
			}
			seq = q.robotsJobs.begin(rec, again, pld, now)
			return nil
		}); err != nil {
			return err
		}
		if !turn.IsZero() {
			if err := q.deferRobots(seq, rec, turn, 0); err != nil {
				return err
			}
			continue
		}
		q.jobTried = time.Now()
		q.run.Start(ctx, "robots request", func(ctx context.Context) error { return q.doRobots(ctx, seq, rec) })
	}
	return nil
}

// robotsPerPLD returns the most requests of one PLD in flight. A crawl with a narrow scope has no other
// PLDs to protect.
func (q *Requests) robotsPerPLD() int {
	if q.opt.Scope != state.ScopeAll {
		return q.opt.Network.RobotsInFlight
	}
	return max(pldJobsLeast, q.opt.Network.RobotsInFlight/pldJobsShare)
}

// crowded reports whether half of the request slots are in use. No request then waits in RAM for its grant.
func (q *Requests) crowded() bool { return q.robotsJobs.len() >= q.opt.Network.RobotsInFlight/2 }

// ReadAwaiting returns the URLs in QR to RobotsCache once the requests that they wait for have been answered.
func (q *Requests) ReadAwaiting(ctx context.Context) error {
	for ctx.Err() == nil {
		// A record may enter QR just after a merge that saw its tuple had counted the records it covers. If
		// no tuple is left to merge, all records are covered.
		mark := q.waiting.beginPass()
		if pending, _ := q.RobotsRequested.Pending(); pending == 0 {
			q.waiting.endPass(mark, q.robotsJobs.issued())
		}
		if q.others.Cluster.NoRequests() {
			q.waiting.rest(time.Now())
		}
		n, wait := q.waiting.releasable(q.robotsJobs.finished(), time.Now())
		if n == 0 {
			q.run.Await(ctx, q.wakeAwaiting, wait)
			continue
		}
		for ; n > 0 && ctx.Err() == nil; n-- {
			data, ok, err := q.AwaitRobots.Peek()
			if err != nil {
				return err
			}
			if !ok {
				q.run.Await(ctx, q.wakeAwaiting, account.PulseEvery)
				break
			}
			if err := q.run.Transact(func(tx *account.Tx) error {
				var rec weburl.Record
				if err := rec.Decode(data); err != nil {
					return fmt.Errorf("crawl: record from QR: %w", err)
				}
				if err := q.check.CheckRobots(tx, data, &rec, state.PlaceAwaitRobots); err != nil {
					return err
				}
				q.AwaitRobots.Advance()
				q.waiting.taken()
				return nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// forgetRequested reports whether RobotsRequested drops a record. A record says when an origin was requested
// last, which matters for requestLost. Tuples wait for their merge for less than another such time.
func (q *Requests) forgetRequested(_ drum.Key, value []byte) bool {
	if len(value) != 16 {
		return false
	}
	last := time.Unix(int64(binary.LittleEndian.Uint64(value)), 0)
	return time.Unix(q.requestedNow.Load(), 0).Sub(last) >= max(q.opt.Health.RobotsForget, 2*q.requestLost())
}

// robotsClass returns the counter of responses for robots.txt with a status.
func robotsClass(status int) state.Counter {
	if class := status / 100; class >= 1 && class <= 5 {
		return state.CountRobotsStatusOther + state.Counter(class)
	}
	return state.CountRobotsStatusOther
}

// enterRobots waits until another robots.txt may be parsed. It returns false if ctx ended first.
func (q *Requests) enterRobots(ctx context.Context) bool {
	select {
	case q.parsing <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if ctx.Err() != nil { // an exchange that ctx cut short is not an outcome
		q.leaveRobots()
		return false
	}
	return true
}

// leaveRobots ends what enterRobots began.
func (q *Requests) leaveRobots() { <-q.parsing }
