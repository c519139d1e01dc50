package erase

import (
	"errors"
	"fmt"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/state/repair"
	"drumbeat/weburl"
)

// url returns the record of a URL that waits in a place as it is from now on; nil if it goes.
func (w *next) url(p state.Place, data []byte) ([]byte, error) {
	var rec weburl.Record
	if err := rec.Decode(data); err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	if w.t.URL(rec.URL) {
		key := w.r.Hasher.URLKey(rec.URL)
		w.left[p].Add(key)
		w.waiting++
		w.loads[weburl.SlotOf(key)].Waiting--
		if _, is := w.keys[key]; is {
			w.keys[key] = true
		}
		if reason := int(rec.Reason); reason < len(w.deferred) {
			switch p {
			case state.PlaceDeferred:
				w.deferred[reason]++
			case state.PlaceHeld:
				w.held[reason]++
			}
		}
		return nil, nil
	}
	return w.withoutVia(&rec, data), nil
}

// withoutVia returns the coding of a record, without a via that is a target.
func (w *next) withoutVia(rec *weburl.Record, data []byte) []byte {
	if len(rec.Via) == 0 || !w.t.Via(rec.AppendVia(nil)) {
		return data
	}
	rec.Via, rec.Parent = nil, 0
	return rec.Append(nil)
}

// touches reports whether a record of a URL goes or changes.
func (x *run) touches(data []byte) (bool, error) {
	var rec weburl.Record
	if err := rec.Decode(data); err != nil {
		return false, err
	}
	return x.t.URL(rec.URL) || len(rec.Via) > 0 && x.t.Via(rec.AppendVia(nil)), nil
}

// errTouched ends a scan that has found what it looks for.
var errTouched = errors.New("touched")

// found turns the end of such a scan into its answer.
func found(err error) (bool, error) {
	if errors.Is(err, errTouched) {
		return true, nil
	}
	return false, err
}

// urlQueue rewrites a queue of URLs, if something in it changes.
func (w *next) urlQueue(name string, p state.Place, old, copied *queue.State) (*queue.State, error) {
	changes, err := found(w.scanQueue(name, old, func(rec []byte) error {
		is, err := w.touches(rec)
		if is {
			err = errTouched
		}
		return err
	}))
	if err != nil || !changes {
		return copied, err
	}
	return w.ChangeQueue(name, old, func(rec []byte) ([]byte, error) { return w.url(p, rec) })
}

// scanQueue calls fn for the records of a queue, and for those of its files that were read before.
func (w *next) scanQueue(name string, st *queue.State, fn func(rec []byte) error) error {
	if len(st.Segments) > 0 && (st.Offset > disk.HeaderBytes || st.Skip > 0) {
		all := *st
		all.Offset, all.Block, all.Skip = disk.HeaderBytes, 0, 0
		var failed error
		if _, err := queue.Scan(w.r.Set, name, &all, func(rec []byte) error {
			failed = fn(rec)
			return failed
		}, func(error) error { return failed }); err != nil { // the numbers in the state are those of the rest
			return err
		}
	}
	_, err := queue.Scan(w.r.Set, name, st, fn, nil)
	return err
}

func (w *next) beast() error {
	if st, err := state.Part[beast.State](w.m, state.NameBeast); err != nil || st == nil {
		return err
	}
	return w.RemakeBeast(w.urlQueue)
}

// queues rewrites the queues of URLs, and that of pages to be rendered.
func (w *next) queues() error {
	for _, q := range state.URLQueues {
		if err := repair.RemakeState(w.Shadow, q.Name, func(old, copied *queue.State) (*queue.State, error) {
			if q.Name == state.NameHeld { // the records at its head are counted
				left, n := int64(0), w.m.Held.Left
				if _, err := queue.Scan(w.r.Set, q.Name, old, func(data []byte) error {
					var rec weburl.Record
					err := rec.Decode(data)
					if n--; n >= 0 && err == nil && !w.t.URL(rec.URL) {
						left++
					}
					return err
				}, nil); err != nil {
					return nil, err
				}
				w.Next.Held.Left = left
			}
			return w.urlQueue(q.Name, q.Place, old, copied)
		}); err != nil {
			return err
		}
	}
	if err := w.ownQueue(state.NameRender, w.ownsTask); err != nil {
		return err
	}
	return w.ownQueue(state.NameRobotsFetch, w.ownsJob)
}

// ownQueue rewrites a queue whose records go or stay, if one goes.
func (w *next) ownQueue(name string, keep func(rec []byte) bool) error {
	return repair.RemakeState(w.Shadow, name, func(old, copied *queue.State) (*queue.State, error) {
		return w.keptQueue(name, old, copied, keep)
	})
}

func (w *next) keptQueue(name string, old, copied *queue.State, keep func(rec []byte) bool) (*queue.State, error) {
	changes, err := found(w.scanQueue(name, old, func(rec []byte) error {
		if !keep(rec) {
			return errTouched
		}
		return nil
	}))
	if err != nil || !changes {
		return copied, err
	}
	return w.RemakeQueue(name, old, keep)
}

// ownsJob reports whether a request for robots.txt stays.
func (w *next) ownsJob(data []byte) bool {
	var job robots.Job
	return job.Decode(data) != nil || !w.t.Host(weburl.Split(job.Origin).Host)
}

// ownsTask reports whether a page to be rendered stays.
func (w *next) ownsTask(data []byte) bool {
	var task state.RenderTask
	var rec weburl.Record
	return task.Decode(data, &rec) != nil || !w.t.URL(rec.URL)
}

func (w *next) calendars() error {
	if err := w.RemakeBins(state.NameDeferred, w.urlQueue); err != nil {
		return err
	}
	return w.RemakeBins(state.NameRobotsDeferred,
		func(name string, _ state.Place, old, copied *queue.State) (*queue.State, error) {
			return w.keptQueue(name, old, copied, w.ownsJob)
		})
}

// inRAM rewrites the tails to which the manifest itself refers.
func (w *next) inRAM() error {
	for _, s := range []struct {
		name   string
		at     *disk.Ref
		old    disk.Ref
		change func(rec []byte) ([]byte, error)
	}{
		{state.NameRAM, &w.Next.RAM, w.m.RAM, func(rec []byte) ([]byte, error) { return w.url(state.PlaceRAM, rec) }},
		{state.NameJobs, &w.Next.Jobs, w.m.Jobs, only(w.ownsJob)},
		{state.NameRenders, &w.Next.Renders, w.m.Renders, only(w.ownsTask)},
	} {
		if s.old.Len == 0 {
			continue
		}
		data, err := disk.ReadTail(w.r.Set, s.old)
		if err != nil {
			return err
		}
		var recs [][]byte
		if err := state.EachRecord(s.name, data, func(rec []byte) error {
			next, err := s.change(rec)
			if next != nil {
				recs = append(recs, next)
			}
			return err
		}); err != nil {
			return err
		}
		if *s.at, err = w.Tails.Write(0, state.DumpRecords(recs)); err != nil {
			return err
		}
	}
	return nil
}

// eachOrder calls fn for each enqueued URL, with its coding.
func (x *run) eachOrder(fn func(o *state.Order, rec []byte)) error {
	data, err := disk.ReadTail(x.r.Set, x.m.Orders)
	if err != nil {
		return err
	}
	return state.EachOrder(data, func(o *state.Order) error {
		fn(o, state.AppendOrder(nil, o))
		return nil
	})
}

// orders rewrites the table of enqueued URLs, without those that have lost a record: the other steps come before. One
// with a deadline is missed.
func (w *next) orders() error {
	var recs [][]byte
	err := w.eachOrder(func(o *state.Order, rec []byte) {
		if !w.keys[o.Key] {
			recs = append(recs, rec)
		} else if o.Deadline != 0 {
			w.Next.Accounts.Counters[state.CountWatchMissed]++
		}
	})
	if err == nil && len(recs) < len(w.keys) {
		w.Next.Orders, err = w.Tails.Write(0, state.DumpRecords(recs))
	}
	return err
}

// only returns a function that keeps or drops records.
func only(keep func(rec []byte) bool) func(rec []byte) ([]byte, error) {
	return func(rec []byte) ([]byte, error) {
		if !keep(rec) {
			return nil, nil
		}
		return rec, nil
	}
}
