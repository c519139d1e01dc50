package erase

import (
	"errors"
	"slices"

	"drumbeat/drum"
	"drumbeat/robots"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/repair"
	"drumbeat/weburl"
)

// store rewrites a store, if something in it changes: entry says which entries stay, tuple what each tuple that
// waits is from now on.
func (w *next) store(opt drum.Options, old, copied *drum.State, entry func(drum.Key, []byte) (bool, error),
	tuple func(t drum.Tuple) (next drum.Tuple, keep, changed bool, err error)) (*drum.State, error) {
	scan := drum.Scan{Tuple: func(t drum.Tuple) error {
		_, keep, changed, err := tuple(t)
		if err == nil && (changed || !keep) {
			err = errTouched
		}
		return err
	}}
	before := *w
	changes, err := found(w.scanStore(opt.Name, old.Waiting(), scan))
	changes = changes || waits(old)
	if err == nil && !changes && entry != nil {
		changes, err = found(w.scanStore(opt.Name, old.Cache(), drum.Scan{Entry: func(k drum.Key, v []byte) error {
			keep, err := entry(k, v)
			if err == nil && !keep {
				err = errTouched
			}
			return err
		}}))
	}
	// These calls have counted what goes, but nothing does yet.
	w.left, w.waiting, w.deferred, w.held = before.left, before.waiting, before.deferred, before.held
	w.loads = before.loads
	if err != nil || !changes {
		return copied, err
	}
	d, err := w.NewDrum(opt, old)
	if err != nil {
		return nil, err
	}
	if err := d.Fill(func(add func(drum.Key, []byte) error) error {
		return w.scanStore(opt.Name, old.Cache(), drum.Scan{Entry: func(k drum.Key, v []byte) error {
			if entry != nil {
				if keep, err := entry(k, v); err != nil || !keep {
					return err
				}
			}
			return add(k, v)
		}})
	}); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := w.scanStore(opt.Name, old.Waiting(), drum.Scan{Tuple: func(t drum.Tuple) error {
		next, keep, _, err := tuple(t)
		if err != nil || !keep {
			return err
		}
		return d.Add([]drum.Tuple{next})
	}}); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return w.SaveDrum(d)
}

// waits reports whether a store has files for tuples and texts that wait: they may also have some that it has
// merged.
func waits(st *drum.State) bool { return len(st.Inputs)+len(st.Logs)+len(st.Buffered) > 0 }

func (w *next) scanStore(name string, st *drum.State, scan drum.Scan) error {
	_, err := drum.ScanState(w.r.Set, name, st, scan)
	return err
}

// robots rewrites RobotsCache, whose checks are URLs, and RobotsRequested.
func (w *next) robots() error {
	if err := repair.RemakeState(w.Shadow, state.NameRobotsCache, func(old, copied *drum.State) (*drum.State, error) {
		return w.store(drum.Options{Name: state.NameRobotsCache, MaxValueBytes: robots.MaxValueBytes, Each: true}, old,
			copied, nil, func(t drum.Tuple) (drum.Tuple, bool, bool, error) {
				if t.Op != drum.Check {
					return t, true, false, nil
				}
				rec, err := w.url(state.PlaceRobotsCheck, t.Value)
				changed := len(rec) != len(t.Value)
				t.Value = rec
				return t, rec != nil, changed, err
			})
	}); err != nil {
		return err
	}
	return repair.RemakeState(w.Shadow, state.NameRobotsRequested, func(old, copied *drum.State) (*drum.State, error) {
		return w.store(drum.Options{Name: state.NameRobotsRequested, Each: true}, old, copied, nil,
			func(t drum.Tuple) (drum.Tuple, bool, bool, error) {
				return t, len(t.Aux) == 0 || w.ownsJob(t.Aux), false, nil
			})
	})
}

// star rewrites the checks that wait.
func (w *next) star() error {
	return repair.RemakePart(w.Shadow, state.NameStar, func(old, st *star.State) error {
		_, indegree := star.Stores(state.NameStar)
		var err error
		opt := drum.Options{Name: indegree, Codec: drum.Rice, Each: true}
		tuple := func(t drum.Tuple) (drum.Tuple, bool, bool, error) {
			if t.Op&drum.Check == 0 {
				return t, true, false, nil
			}
			rec, err := w.url(state.PlaceStar, t.Aux)
			changed := len(rec) != len(t.Aux)
			t.Aux = rec
			return t, rec != nil, changed, err
		}
		st.Indegree, err = w.store(opt, old.Indegree, st.Indegree, nil, tuple)
		st.Checks -= w.left[state.PlaceStar].N
		return err
	})
}

// contentHead is the length of what precedes the URL in a value of the store of contents: digest and date.
const contentHead = 20 + 4

// content forgets the bodies that targets had first. A page with such a body that is fetched later is stored whole. It
// forgets the lists of near-duplicates as well, of all hosts: they have simhashes of texts, and do not say whose.
func (w *next) content() error {
	named := func(value []byte) bool {
		return state.OfNearList(value) || len(value) > contentHead && w.t.URL(value[contentHead:])
	}
	return repair.RemakeState(w.Shadow, state.NameContent, func(old, copied *drum.State) (*drum.State, error) {
		opt := drum.Options{Name: state.NameContent, MaxValueBytes: state.MaxContentValue, Codec: drum.Rice}
		return w.store(opt, old, copied, func(_ drum.Key, value []byte) (bool, error) { return !named(value), nil },
			func(t drum.Tuple) (drum.Tuple, bool, bool, error) {
				return t, t.Op == drum.CheckUpdate || !named(t.Value), false, nil
			})
	})
}

// names forgets the names of hosts, and those of PLDs that go as a whole.
func (w *next) names() error {
	if w.t.Hosts+w.t.PLDs == 0 {
		return nil
	}
	goes := func(value []byte) (bool, error) {
		pld, host, err := state.DecodeName(value)
		if host != nil {
			return w.t.Host(host), err
		}
		return w.t.PLD(pld), err
	}
	var gone weburl.Sum
	err := repair.RemakeState(w.Shadow, state.NameNames, func(old, copied *drum.State) (*drum.State, error) {
		opt := drum.Options{Name: state.NameNames, MaxValueBytes: state.MaxNameBytes, Codec: drum.Rice}
		return w.store(opt, old, copied, func(key drum.Key, value []byte) (bool, error) {
			is, err := goes(value)
			return !is, err
		}, func(t drum.Tuple) (drum.Tuple, bool, bool, error) {
			is, err := goes(t.Value)
			return t, !is, false, err
		})
	})
	if err != nil {
		return err
	}
	st, err := state.Part[drum.State](w.m, state.NameNames)
	if err != nil || st == nil {
		return err
	}
	err = w.scanStore(state.NameNames, st.Cache(), drum.Scan{Entry: func(key drum.Key, value []byte) error {
		is, err := goes(value)
		if is {
			gone.Add(uint64(key))
		}
		return err
	}})
	w.Next.Accounts.Names.Remove(gone)
	return err
}

// seen rewrites URLseen, if links of targets wait in it, links found on targets, or if it is to get keys. Its
// unique texts that were not passed on become links again.
func (w *next) seen() error {
	fresh, err := w.newKeys()
	if err != nil {
		return err
	}
	return repair.RemakeState(w.Shadow, state.NameURLSeen, func(old, copied *drum.State) (*drum.State, error) {
		look := func(aux []byte, _ bool) error {
			if _, ok := state.MovedKey(aux); ok {
				return nil
			}
			is, err := w.touches(aux)
			if is {
				err = errTouched
			}
			return err
		}
		changes, err := found(w.scanStore(state.NameURLSeen, old.Waiting(), drum.Scan{Text: look}))
		if err != nil || !changes && !waits(old) && len(fresh) == 0 {
			return copied, err
		}
		var again []uint64 // keys of unique texts that stay; the texts themselves are in RAM at a checkpoint
		if err := w.scanStore(state.NameURLSeen, old.Waiting(), drum.Scan{Text: func(aux []byte, unique bool) error {
			if key, ok := state.MovedKey(aux); ok {
				if unique {
					again = append(again, key)
				}
				return nil
			}
			var rec weburl.Record
			if err := rec.Decode(aux); err != nil || !unique {
				return err
			}
			if key := w.r.Hasher.URLKey(rec.URL); w.t.URL(rec.URL) {
				w.barred.Add(key)
				w.loads[weburl.SlotOf(key)].Known++
				w.waiting++
			} else {
				again = append(again, key)
			}
			return nil
		}}); err != nil {
			return nil, err
		}
		slices.Sort(again)
		d, err := w.NewDrum(drum.Options{Name: state.NameURLSeen, Codec: drum.Rice}, old)
		if err != nil {
			return nil, err
		}
		err = d.Fill(func(add func(drum.Key, []byte) error) error { return w.fillSeen(fresh, again, add) })
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		if err := w.scanStore(state.NameURLSeen, old.Waiting(), drum.Scan{Text: func(aux []byte, _ bool) error {
			if key, ok := state.MovedKey(aux); ok {
				return d.Add([]drum.Tuple{{Key: drum.Key(key), Op: drum.CheckUpdate, Aux: aux}})
			}
			var rec weburl.Record
			if err := rec.Decode(aux); err != nil || w.t.URL(rec.URL) {
				return err
			}
			key := drum.Key(w.r.Hasher.URLKey(rec.URL))
			return d.Add([]drum.Tuple{{Key: key, Op: drum.CheckUpdate, Aux: w.withoutVia(&rec, aux)}})
		}}); err != nil {
			return nil, errors.Join(err, d.Close())
		}
		return w.SaveDrum(d)
	})
}

// fillSeen adds the keys of URLseen with the fresh ones and without those that come again.
func (w *next) fillSeen(fresh, again []uint64, add func(drum.Key, []byte) error) error {
	before := func(key uint64) error {
		for len(fresh) > 0 && fresh[0] < key {
			if err := add(drum.Key(fresh[0]), nil); err != nil {
				return err
			}
			fresh = fresh[1:]
		}
		return nil
	}
	if err := w.eachSeen(func(key uint64) error {
		if err := before(key); err != nil {
			return err
		}
		if _, is := slices.BinarySearch(again, key); is {
			return nil
		}
		return add(drum.Key(key), nil)
	}); err != nil {
		return err
	}
	if len(fresh) > 0 {
		last := fresh[len(fresh)-1]
		if err := before(last); err != nil {
			return err
		}
		return add(drum.Key(last), nil)
	}
	return nil
}
