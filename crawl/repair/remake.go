package repair

import (
	"bytes"
	"encoding/json"
	"fmt"

	"drumbeat/beast"
	"drumbeat/crawl/state"
	"drumbeat/disk"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/weburl"
)

// ignore drops the error of damage that the audit has already reported.
func ignore(error) error { return nil }

// copyRefs copies the tails that a structure's state refers to into the new tail files. An unreadable tail
// becomes empty, because its owner is rebuilt.
func (w *repair) copyRefs(part json.RawMessage) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(part))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("crawl: repair: state: %w", err)
	}
	v, err := w.copyRefsIn(v)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func (w *repair) copyRefsIn(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case []any:
		for i := range v {
			if v[i], err = w.copyRefsIn(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		if isRef(v) {
			var ref disk.Ref
			data, err := json.Marshal(v)
			if err == nil {
				err = json.Unmarshal(data, &ref)
			}
			if err != nil {
				return nil, fmt.Errorf("crawl: repair: reference: %w", err)
			}
			return w.copyRef(ref)
		}
		for k := range v {
			if v[k], err = w.copyRefsIn(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// isRef reports whether an object has exactly the fields of a disk.Ref.
func isRef(v map[string]any) bool {
	for _, k := range [...]string{"Dir", "Gen", "Off", "Len", "Sum"} {
		if _, ok := v[k]; !ok {
			return false
		}
	}
	return len(v) == 5
}

func (w *repair) copyRef(ref disk.Ref) (disk.Ref, error) {
	data, err := disk.ReadTail(w.Saved.Set, ref)
	if err != nil {
		return disk.Ref{}, nil
	}
	return w.tails.Write(ref.Dir, data)
}

// remakePart changes the state, of type S, of a structure. change gets the old state and the new one, which
// already refers to the new tail files.
func remakePart[S any](w *repair, name string, change func(old, new *S) error) error {
	old, err := state.Part[S](w.Manifest, name)
	if err != nil || old == nil {
		return err
	}
	next, err := state.Part[S](&w.next, name)
	if err != nil {
		return err
	}
	if err := change(old, next); err != nil {
		return fmt.Errorf("crawl: repair %s: %w", name, err)
	}
	w.next.Parts[name], err = json.Marshal(next)
	return err
}

const repairBlockBytes = 128 << 10

// remakeQueue copies the readable records of a queue that keep accepts into a new queue.
func (w *repair) remakeQueue(name string, st *queue.State, keep func(rec []byte) bool) (*queue.State, error) {
	w.replace(name)
	q, err := queue.New(queue.Options{Set: w.shadow, Name: name, BlockBytes: repairBlockBytes})
	if err != nil {
		return nil, err
	}
	if _, err = queue.Scan(w.Saved.Set, name, st, func(rec []byte) error {
		if !keep(rec) {
			return nil
		}
		return q.Append(rec)
	}, ignore); err != nil {
		return nil, err
	}
	next, err := q.Freeze().Save(w.tails)
	if err != nil {
		return nil, err
	}
	return next, q.Close()
}

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
		return w.remakeQueue(name, old, keep)
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
		err := remakePart(w, q.Name, func(old, next *queue.State) error {
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
	}{{state.NameRender, validTask}, {state.NameOrdered, validOrdered}, {state.NameObjects, validObject}, {state.NameRobotsFetch, validJob},
		{state.NameWalkLog, func([]byte) bool { return false }}} { // each record builds on all before it
		if !w.rebuild[q.name] {
			continue
		}
		if err := remakePart(w, q.name, func(old, next *queue.State) error {
			st, err := w.remakeQueue(q.name, old, q.valid)
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
	return remakePart(w, state.NameBeast, func(old, next *beast.State) error {
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
			if n == beast.Failed {
				p = state.PlaceFailed
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
		err := remakePart(w, name, func(old, next *queue.CalendarState) error {
			olds := map[string]*queue.State{}
			note := func(name string, q *queue.State) (*queue.State, error) { olds[name] = q; return q, nil }
			if err := queue.EachSlot(name, old, note); err != nil {
				return err
			}
			return queue.EachSlot(name, next, func(slot string, q *queue.State) (*queue.State, error) {
				if name == state.NameDeferred {
					return w.urlQueue(slot, state.PlaceDeferred, olds[slot], q)
				}
				return w.remakeQueue(slot, olds[slot], validJob)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
