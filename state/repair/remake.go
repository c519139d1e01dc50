package repair

import (
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
		if err := RemakeState(w.Shadow, q.Name, func(old, copied *queue.State) (*queue.State, error) {
			return w.urlQueue(q.Name, q.Place, old, copied)
		}); err != nil {
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
		if err := RemakeState(w.Shadow, q.name, func(old, _ *queue.State) (*queue.State, error) {
			return w.RemakeQueue(q.name, old, q.valid)
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
	return w.RemakeBeast(w.urlQueue)
}

func (w *repair) remakeCalendars() error {
	if w.rebuild[state.NameDeferred] {
		if err := w.RemakeBins(state.NameDeferred, w.urlQueue); err != nil {
			return err
		}
	}
	if !w.rebuild[state.NameRobotsDeferred] {
		return nil
	}
	return w.RemakeBins(state.NameRobotsDeferred,
		func(name string, _ state.Place, old, _ *queue.State) (*queue.State, error) {
			return w.RemakeQueue(name, old, validJob)
		})
}
