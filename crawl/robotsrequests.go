package crawl

import (
	"context"
	"drumbeat/crawl/state"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/weburl"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"
)

// robotsRequests is RobotsRequested, QR and QD: it asks for robots.txt and addresses, each once, and lets the URLs wait.
//
// Producer: RobotsCache's emission (requestRobots). Consumers: its goroutines "robotsrequested", which merges, "robotsfetch",
// which reads QD and starts a goroutine for each request, and "awaitrobots", which gives the URLs in QR back to RobotsCache.
type robotsRequests struct {
	*engine
	robotsRequested *drum.Drum
	awaitRobots     *queue.Queue
	robotsFetch     *queue.Queue
	robotsDeferred  *queue.Calendar // requests whose server's turn comes late
	robotsJobs      *robotsJobs
	waiting         *releases

	wakeRequested, wakeAwaiting, wakeJobs signal
	requestedNow                          atomic.Int64 // Unix second at which the last pass of RobotsRequested began
	jobTried                              time.Time    // last request begun in an outage; of readRobotsFetch alone

	check     *robotsCheck
	deferrals *deferrals
	health    *hostHealth
	outages   *outages
	output    *output
	pages     *pageStage
	passes    *passRunner
	seen      *seenStage
	space     *space
}

func newRobotsRequests(e *engine) *robotsRequests {
	return &robotsRequests{engine: e, waiting: &releases{},
		robotsJobs:    &robotsJobs{inFlight: map[int64][]byte{}, plds: map[int64]uint64{}, perPLD: map[uint64]*pldJobs{}},
		wakeRequested: e.pulsedSignal(), wakeAwaiting: e.pulsedSignal(), wakeJobs: e.pulsedSignal()}
}

// freeze copies the requests under way: one that was begun is finished, or made again.
func (q *robotsRequests) freeze(m *moment) { m.jobs = q.robotsJobs.snapshot() }

// empty says whether no request is under way or waits.
func (q *robotsRequests) empty() bool {
	queued, _ := q.robotsFetch.Len()
	deferred, _ := q.robotsDeferred.Len()
	asked, _ := q.robotsRequested.Pending()
	return q.underWay() == 0 && queued == 0 && deferred == 0 && asked == 0
}

// queued is how many requests wait in QD.
func (q *robotsRequests) queued() int64 { n, _ := q.robotsFetch.Len(); return n }

// restore puts the requests that were under way at the checkpoint back into QD.
func (q *robotsRequests) restore(m *state.Manifest) error {
	q.robotsJobs.total = q.queued()
	if m == nil {
		return nil
	}
	jobs, err := disk.ReadTail(q.Set, m.Jobs)
	if err != nil {
		return err
	}
	return state.EachRecord("robots requests in RAM", jobs, func(rec []byte) error {
		q.robotsJobs.queued()
		return q.robotsFetch.Append(rec)
	})
}

// restoreWaiting releases what was found in QR once the requests found have been answered.
func (q *robotsRequests) restoreWaiting() {
	n, _ := q.awaitRobots.Len()
	q.waiting.restore(n, q.robotsJobs.issued())
}

// underWay is how many requests have begun and not ended.
func (q *robotsRequests) underWay() int { return q.robotsJobs.len() }

// outageEnded lets requests go on.
func (q *robotsRequests) outageEnded() { q.wakeJobs.raise() }

// requestedStore wires RobotsRequested: hosts not asked yet go to QD.
func (q *robotsRequests) requestedStore() drum.Options {
	o := q.plan.RobotsRequested.shaped(requestedShape())
	o.Set, o.Name, o.Reserve = q.Set, state.NameRobotsRequested, q.space.reserve
	o.Apply, o.Wanted, o.Emit = applyRequested, func(res *drum.Result) bool { return res.New }, q.emitRequested
	if q.opt.RobotsForget > 0 {
		o.Expunge = q.forgetRequested
	}
	return o
}

// requestRobots asks for an origin's robots.txt or addresses and lets the URL wait: in QR the first time; a URL that came
// back from there before its answer waits on disk, longer each time.
func (q *robotsRequests) requestRobots(tx *transaction, rec *weburl.Record, addrsOnly bool, seen uint64) error {
	job := robots.Job{Origin: weburl.Origin(rec.URL), AddrsOnly: addrsOnly, Depth: rec.Depth}
	job.Failing, job.Known = seen&tokenFailing != 0, seen&tokenKnown != 0
	var value [16]byte
	binary.LittleEndian.PutUint64(value[:], uint64(time.Now().Unix()))
	binary.LittleEndian.PutUint64(value[8:], seen)
	tuple := []drum.Tuple{{Key: drum.Key(q.Hasher.OriginKey(job.Origin)), Op: drum.CheckUpdate, Value: value[:], Aux: job.Append(nil)}}
	if err := q.robotsRequested.Add(tuple); err != nil {
		return err
	}
	tx.wake(q.wakeRequested)
	if rec.Reason == uint8(state.ReasonAwaitRobots) {
		rec.Deferred()
		wait := time.Second << min(uint64(rec.Waits), seen>>tokenWait&tokenWaitMask+shortestWait)
		return q.deferrals.deferURL(tx, rec, state.PlaceRobotsCheck, time.Now().Add(wait), state.ReasonAwaitRobots)
	}
	rec.Reason = uint8(state.ReasonAwaitRobots)
	tx.move(q.Hasher.URLKey(rec.URL), state.PlaceRobotsCheck, state.PlaceAwaitRobots)
	if err := q.awaitRobots.Append(rec.Append(nil)); err != nil {
		return err
	}
	q.waiting.appended() // after the record is there: a merge that begins now may count it
	return nil
}

// requestLost is after how long without an answer a robots request is made again, though nothing says that it failed: a
// net under errors of ours, since no host may be waited for in vain.
const requestLost = 6 * 3600

// applyRequested is the rule of RobotsRequested: value = Unix second of the last request. A request is new if there was none
// since what RobotsCache knew came in.
func applyRequested(_ drum.Key, old []byte, exists bool, run []drum.Item, _ *drum.Arena, dst []byte) ([]byte, drum.Action) {
	var last, lastSeen uint64
	if exists && len(old) == 16 {
		last, lastSeen = binary.LittleEndian.Uint64(old), binary.LittleEndian.Uint64(old[8:])
	}
	changed := false
	for i := range run {
		now, seen := binary.LittleEndian.Uint64(run[i].Value), binary.LittleEndian.Uint64(run[i].Value[8:])
		if last != 0 && seen == lastSeen && now < last+requestLost && last < now+requestLost { // else the clock was ahead
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

// emitRequested puts the origins to be asked into QD.
func (q *robotsRequests) emitRequested(results []drum.Result) error {
	return q.transact(func(tx *transaction) error {
		for i := range results {
			if !results[i].New {
				continue
			}
			if err := q.robotsFetch.Append(results[i].Aux); err != nil {
				return err
			}
			q.robotsJobs.queued()
		}
		tx.wake(q.wakeJobs)
		return nil
	})
}

func (q *robotsRequests) mergeRobotsRequested(ctx context.Context) error {
	return q.passes.run(ctx, merger{
		name: state.NameRobotsRequested,
		pass: func(ctx context.Context, dry bool) (int, error) {
			q.requestedNow.Store(time.Now().Unix())
			mark := q.waiting.beginPass()
			n, err := q.robotsRequested.Pass(ctx, dry)
			if err == nil && dry { // one by size leaves the buckets that aren't full
				q.waiting.endPass(mark, q.robotsJobs.issued())
				q.wakeAwaiting.raise()
			}
			return n, err
		},
		full:    q.robotsRequested.Full,
		pending: pendingTuples(q.robotsRequested),
		keys:    q.robotsRequested.Keys,
		cost:    func() time.Duration { return q.robotsRequested.Stats().PredictedEarly },
		early:   func() bool { return q.robotsJobs.len() < q.opt.RobotsInFlight }, starving: q.passes.starving,
		wake: q.wakeRequested,
	})
}

// readRobotsFetch takes requests from QD, as many at once as Options.RobotsInFlight says.
func (q *robotsRequests) readRobotsFetch(ctx context.Context) error {
	for ctx.Err() == nil {
		if q.outages.slowed() && time.Since(q.jobTried) < trickle {
			sleep(ctx, trickle-time.Since(q.jobTried))
			continue
		}
		if q.robotsJobs.len() >= q.opt.RobotsInFlight || q.space.why() != "" {
			q.await(ctx, q.wakeJobs, wakeAfter)
			continue
		}
		data, again, err := q.robotsDeferred.Peek(time.Now())
		if err != nil {
			return err
		}
		if !again {
			var ok bool
			if data, ok, err = q.robotsFetch.Peek(); err != nil {
				return err
			}
			if !ok {
				q.await(ctx, q.wakeJobs, untilDue(q.robotsDeferred))
				continue
			}
		}
		rec := append([]byte(nil), data...)
		var job robots.Job
		if err := job.Decode(rec); err != nil {
			return err
		}
		pld := q.PLDKey(weburl.Split(job.Origin).Host)
		turn := q.robotsJobs.room(pld, q.robotsPerPLD(), time.Now())
		var seq int64
		if err := q.transact(func(*transaction) error {
			if again {
				q.robotsDeferred.Advance()
			} else {
				q.robotsFetch.Advance()
			}
			seq = q.robotsJobs.begin(rec, again, pld)
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
		q.start(ctx, "robots request", func(ctx context.Context) error { return q.doRobots(ctx, seq, rec) })
	}
	return nil
}

// robotsPerPLD bounds the requests of one PLD in flight. A crawl of few sites has no others to protect.
func (q *robotsRequests) robotsPerPLD() int {
	if q.opt.Scope != state.ScopeAll {
		return q.opt.RobotsInFlight
	}
	return max(pldJobsLeast, q.opt.RobotsInFlight/pldJobsShare)
}

// crowded is true when requests take up half of what there is: then none waits for its turn in RAM.
func (q *robotsRequests) crowded() bool { return q.robotsJobs.len() >= q.opt.RobotsInFlight/2 }

// readAwaiting gives the URLs in QR back to RobotsCache once the requests that they wait for have been answered.
func (q *robotsRequests) readAwaiting(ctx context.Context) error {
	for ctx.Err() == nil {
		// A record may get into QR just after a merge that saw its tuple had counted those it covers. With no tuple left
		// unmerged, all are covered.
		mark := q.waiting.beginPass()
		if pending, _ := q.robotsRequested.Pending(); pending == 0 {
			q.waiting.endPass(mark, q.robotsJobs.issued())
		}
		n, wait := q.waiting.releasable(q.robotsJobs.finished(), time.Now())
		if n == 0 {
			q.await(ctx, q.wakeAwaiting, wait)
			continue
		}
		for ; n > 0 && ctx.Err() == nil; n-- {
			data, ok, err := q.awaitRobots.Peek()
			if err != nil {
				return err
			}
			if !ok {
				q.await(ctx, q.wakeAwaiting, pulseEvery)
				break
			}
			if err := q.transact(func(tx *transaction) error {
				var rec weburl.Record
				if err := rec.Decode(data); err != nil {
					return fmt.Errorf("crawl: record from QR: %w", err)
				}
				if err := q.check.checkRobots(tx, data, &rec, state.PlaceAwaitRobots); err != nil {
					return err
				}
				q.awaitRobots.Advance()
				q.waiting.taken()
				return nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// forgetRequested says whether RobotsRequested drops a record. It says when an origin was asked last, which matters for requestLost;
// tuples wait for their merge for less time than that again.
func (q *robotsRequests) forgetRequested(_ drum.Key, value []byte) bool {
	if len(value) != 16 {
		return false
	}
	last := time.Unix(int64(binary.LittleEndian.Uint64(value)), 0)
	return time.Unix(q.requestedNow.Load(), 0).Sub(last) >= max(q.opt.RobotsForget, 2*requestLost*time.Second)
}
