package repair

import (
	"slices"

	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/robots"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/weburl"
)

// remakeDrum rebuilds a store from the readable entries and tuples of an old one that entry and tuple
// accept. A nil entry drops all entries.
func (w *repair) remakeDrum(opt drum.Options, old *drum.State, entry func(drum.Key, []byte) bool,
	tuple func(drum.Tuple) bool) (*drum.State, error) {
	name := opt.Name
	d, err := w.NewDrum(opt, old)
	if err != nil {
		return nil, err
	}
	if entry != nil {
		if err := d.Fill(func(add func(drum.Key, []byte) error) error {
			each := func(key drum.Key, value []byte) error {
				if !entry(key, value) {
					return nil
				}
				return add(key, value)
			}
			_, err := drum.ScanState(w.Saved.Set, name, old.Cache(), drum.Scan{Damaged: ignore, Entry: each})
			return err
		}); err != nil {
			return nil, err
		}
	}
	each := func(t drum.Tuple) error {
		if !tuple(t) {
			return nil
		}
		return d.Add([]drum.Tuple{t})
	}
	scan := drum.Scan{Damaged: ignore, Tuple: each}
	if _, err := drum.ScanState(w.Saved.Set, name, old.Waiting(), scan); err != nil {
		return nil, err
	}
	return w.SaveDrum(d)
}

// remakeStore is remakeDrum for a damaged store that is a structure of its own.
func (w *repair) remakeStore(opt drum.Options, entry func(drum.Key, []byte) bool, tuple func(drum.Tuple) bool) error {
	if !w.rebuild[opt.Name] {
		return nil
	}
	return RemakeState(w.Shadow, opt.Name, func(old, _ *drum.State) (*drum.State, error) {
		return w.remakeDrum(opt, old, entry, tuple)
	})
}

// whole accepts all entries.
func whole(drum.Key, []byte) bool { return true }

// remakeSeen rebuilds URLseen from the keys of all URLs that are in a place or have ended. It adds again
// the texts that URLseen has not emitted.
func (w *repair) remakeSeen() error {
	if !w.rebuild[state.NameURLSeen] {
		return nil
	}
	return RemakeState(w.Shadow, state.NameURLSeen, func(old, _ *drum.State) (*drum.State, error) {
		d, err := w.NewDrum(drum.Options{Name: state.NameURLSeen, Codec: drum.Rice}, old)
		if err != nil {
			return nil, err
		}
		w.Begin(state.NameURLSeen)
		if err := d.Fill(func(add func(drum.Key, []byte) error) error {
			return w.EachKey(func(key uint64, entries []audit.TaggedKey, seen bool) error {
				if !w.known && seen && len(entries) == 0 || anywhere(entries) && (seen || !w.Elsewhere(key)) {
					w.newSeen.Add(key)
					return add(drum.Key(key), nil)
				}
				return nil
			})
		}); err != nil {
			return nil, err
		}
		again := func(aux []byte, _ bool) error {
			if key, ok := state.MovedKey(aux); ok {
				return d.Add([]drum.Tuple{{Key: drum.Key(key), Op: drum.CheckUpdate, Aux: aux}})
			}
			var rec weburl.Record
			if rec.Decode(aux) != nil {
				return nil
			}
			w.out.Again++
			key := drum.Key(w.Saved.Hasher.URLKey(rec.URL))
			return d.Add([]drum.Tuple{{Key: key, Op: drum.CheckUpdate, Aux: aux}})
		}
		scan := drum.Scan{Damaged: ignore, Text: again}
		if _, err := drum.ScanState(w.Saved.Set, state.NameURLSeen, old.Waiting(), scan); err != nil {
			return nil, err
		}
		w.Files[state.PlaceUnstreamed] = weburl.Sum{}
		return w.SaveDrum(d)
	})
}

// anywhere reports whether a URL has ended or is in a place. It ignores unstreamed, whose texts URLseen
// gets again.
func anywhere(entries []audit.TaggedKey) bool {
	return slices.ContainsFunc(entries, func(e audit.TaggedKey) bool { return e.Tag != uint8(state.PlaceUnstreamed) })
}

func (w *repair) remakeStar() error {
	edges, indegree := star.Stores(state.NameStar)
	if !w.rebuild[edges] && !w.rebuild[indegree] && !w.rebuild[state.NameStar] {
		return nil
	}
	return RemakePart(w.Shadow, state.NameStar, func(old, next *star.State) error {
		if w.rebuild[edges] {
			st, err := w.remakeDrum(drum.Options{Name: edges, Codec: drum.Rice}, old.Edges,
				whole,
				func(t drum.Tuple) bool { return len(t.Value) == star.EdgeBytes })
			if err != nil {
				return err
			}
			next.Edges = st
		}
		if w.rebuild[indegree] {
			next.Checks = 0
			st, err := w.remakeDrum(drum.Options{Name: indegree, Codec: drum.Rice, Each: true}, old.Indegree,
				whole, func(t drum.Tuple) bool {
					if t.Op&drum.Check == 0 {
						return true
					}
					if !w.keep(state.PlaceStar, t.Aux) {
						return false
					}
					next.Checks++
					return true
				})
			if err != nil {
				return err
			}
			next.Indegree = st
		}
		if !w.rebuild[state.NameStar] {
			return nil
		}
		ranking, tops, err := star.MakeRankings(w.Saved.Set, state.NameStar, old, repairRanks)
		if err != nil {
			return err
		}
		if next.Ranking, err = w.Tails.Write(0, ranking); err != nil {
			return err
		}
		next.Priors = nil // the next run reads them from the records
		next.Tops, err = w.Tails.Write(0, tops)
		return err
	})
}

// repairRanks is the default of Options.BudgetRanks plus one.
const repairRanks = 10_001

// remakeNames keeps the names that match their keys.
func (w *repair) remakeNames() error {
	valid := func(key drum.Key, value []byte) bool {
		_, _, err := state.CheckName(w.Saved.Hasher, key, value)
		return err == nil
	}
	if w.rebuild[state.NameNames] {
		w.Names = weburl.Sum{}
	}
	return w.remakeStore(
		drum.Options{Name: state.NameNames, MaxValueBytes: state.MaxNameBytes, Codec: drum.Rice},
		func(key drum.Key, value []byte) bool {
			ok := valid(key, value)
			if ok {
				w.Names.Add(uint64(key))
			}
			return ok
		}, func(t drum.Tuple) bool { return valid(t.Key, t.Value) })
}

// remakeHostLinks keeps the readable links to hosts.
func (w *repair) remakeHostLinks() error {
	return w.remakeStore(drum.Options{Name: state.NameHostLinks, Codec: drum.Rice, Each: true},
		func(_ drum.Key, value []byte) bool { return len(value) == star.HostSketchBytes },
		func(t drum.Tuple) bool { return star.IsHostLink(t.Value) })
}

// remakeContent keeps the bodies and pages that are readable.
func (w *repair) remakeContent() error {
	return w.remakeStore(
		drum.Options{Name: state.NameContent, MaxValueBytes: state.MaxContentValue, Codec: drum.Rice},
		whole, func(t drum.Tuple) bool {
			if t.Op != drum.CheckUpdate {
				return true
			}
			var wait state.Waiting
			return wait.Decode(t.Aux) == nil && w.keep(state.PlaceContent, wait.Record)
		})
}

func (w *repair) remakeRobots() error {
	if err := w.remakeStore(
		drum.Options{Name: state.NameRobotsCache, MaxValueBytes: robots.MaxValueBytes, Each: true},
		func(_ drum.Key, value []byte) bool {
			var h robots.HostData
			return h.Decode(value) == nil
		},
		func(t drum.Tuple) bool {
			if t.Op == drum.Check {
				return w.keep(state.PlaceRobotsCheck, t.Value)
			}
			_, err := robots.DecodeUpdate(t.Value)
			return err == nil
		}); err != nil {
		return err
	}
	return w.remakeStore(drum.Options{Name: state.NameRobotsRequested, Each: true}, nil,
		func(t drum.Tuple) bool { return validJob(t.Aux) })
}

// remakeRAM rewrites the tails that the manifest itself refers to, with the kept URLs in RAM.
func (w *repair) remakeRAM() error {
	ram, err := disk.ReadTail(w.Saved.Set, w.Manifest.RAM)
	if err != nil {
		ram = nil
	}
	var kept [][]byte
	if err := state.EachRecord("URLs in RAM", ram, func(rec []byte) error {
		if w.keep(state.PlaceRAM, rec) {
			kept = append(kept, rec)
		}
		return nil
	}); err != nil {
		kept = nil
	}
	if w.Next.RAM, err = w.Tails.Write(0, state.DumpRecords(kept)); err != nil {
		return err
	}
	for _, s := range []struct {
		name string
		ref  *disk.Ref
	}{{state.NameJobs, &w.Next.Jobs}, {state.NameDelays, &w.Next.Delays}, {state.NameHosts, &w.Next.Hosts},
		{state.NameSketches, &w.Next.Sketches}, {state.NameScope, &w.Next.Scope},
		{state.NameTraps, &w.Next.Traps}, {state.NameLoads, &w.Next.Loads}, {state.NameRenders, &w.Next.Renders},
		{state.NameWalk, &w.Next.Walk}} {
		if w.rebuild[s.name] {
			*s.ref = disk.Ref{}
		} else if *s.ref, err = w.CopyRef(*s.ref); err != nil {
			return err
		}
	}
	return nil
}
