package repair

import (
	"drumbeat/beast"
	"drumbeat/cluster"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// ignore drops the error of damage that the audit has already reported.
func ignore(error) error { return nil }

// damagedQueue reports whether a part of a queue is unreadable.
func (w *repair) damagedQueue(name string, st *queue.State) (bool, error) {
	damages := 0
	damage := func(error) error { damages++; return nil }
	lost, err := queue.Scan(w.Saved.Set, name, st, func([]byte) error { return nil }, damage)
	return damages > 0 || lost > 0, err
}

// urlQueue rebuilds a queue of URLs if it is damaged or holds droppable records.
func (w *repair) urlQueue(name string, p state.Place, old, next *queue.State) (*queue.State, error) {
	bad, err := w.damagedQueue(name, old)
	if err != nil {
		return nil, err
	}
	if !bad {
		drop := func(rec []byte) error { bad = bad || w.droppable(rec); return nil }
		if _, err := queue.Scan(w.Saved.Set, name, old, drop, nil); err != nil {
			return nil, err
		}
	}
	keep := func(rec []byte) bool { return w.keep(p, rec) }
	if bad {
		return w.RemakeQueue(name, old, keep)
	}
	_, err = queue.Scan(w.Saved.Set, name, old, func(rec []byte) error { keep(rec); return nil }, nil)
	return next, err
}

// droppable reports whether repair may drop a record: it is unreadable, or its URL is in another place too.
func (w *repair) droppable(data []byte) bool {
	var rec weburl.Record
	return rec.Decode(data) != nil || w.doubled[w.Saved.Hasher.URLKey(rec.URL)] != nil
}

func (w *repair) remakeQueues() error {
	for _, q := range state.URLQueues {
		if !w.rebuild[q.Name] {
			continue
		}
		err := RemakePart(w.Shadow, q.Name, func(old, next *queue.State) error {
			st, err := w.urlQueue(q.Name, q.Place, old, next)
			if err == nil {
				*next = *st
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, q := range []struct {
		name  string
		valid func(rec []byte) bool
	}{{state.NameRender, validTask}, {state.NameOrdered, validOrdered}, {state.NameObjects, validObject},
		{state.NameRobotsFetch, validJob}, {state.NameQuarantine, validMessage},
		{state.NameWalkLog, func([]byte) bool { return false }}} { // each record builds on all before it
		if !w.rebuild[q.name] {
			continue
		}
		if err := RemakePart(w.Shadow, q.name, func(old, next *queue.State) error {
			st, err := w.RemakeQueue(q.name, old, q.valid)
			if err == nil {
				*next = *st
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func validOrdered(rec []byte) bool {
	_, err := state.DecodeOrdered(rec)
	return err == nil
}

func validObject(rec []byte) bool {
	var o state.Object
	return o.Decode(rec) == nil
}

func validMessage(rec []byte) bool {
	_, err := cluster.ReadHeader(rec)
	return err == nil
}

func validTask(rec []byte) bool {
	var t state.RenderTask
	return t.Decode(rec, new(weburl.Record)) == nil
}

func validJob(rec []byte) bool {
	var job robots.Job
	return job.Decode(rec) == nil
}

func (w *repair) remakeBeast() error {
	if !w.rebuild[state.NameBeast] {
		return nil
	}
	return RemakePart(w.Shadow, state.NameBeast, func(old, next *beast.State) error {
		olds := map[string]*queue.State{}
		note := func(name string, _ beast.Number, q *queue.State) (*queue.State, error) {
			olds[name] = q
			return q, nil
		}
		if err := beast.EachQueue(state.NameBeast, old, note); err != nil {
			return err
		}
		remake := func(name string, n beast.Number, q *queue.State) (*queue.State, error) {
			p := state.PlaceBeast
			if n == beast.OverBudget {
				p = state.PlaceOverBudget
			}
			return w.urlQueue(name, p, olds[name], q)
		}
		return beast.EachQueue(state.NameBeast, next, remake)
	})
}

func (w *repair) remakeCalendars() error {
	for _, name := range []string{state.NameDeferred, state.NameRobotsDeferred} {
		if !w.rebuild[name] {
			continue
		}
		err := RemakePart(w.Shadow, name, func(old, next *queue.CalendarState) error {
			olds := map[string]*queue.State{}
			note := func(name string, q *queue.State) (*queue.State, error) { olds[name] = q; return q, nil }
			if err := queue.EachBin(name, old, note); err != nil {
				return err
			}
			return queue.EachBin(name, next, func(slot string, q *queue.State) (*queue.State, error) {
				if name == state.NameDeferred {
					return w.urlQueue(slot, state.PlaceDeferred, olds[slot], q)
				}
				return w.RemakeQueue(slot, olds[slot], validJob)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
