package crawl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"drumbeat/beast"
	"drumbeat/crawllog"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/star"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
	"drumbeat/weburl"
)

// ignore is for a scan of what has been reported already.
func ignore(error) error { return nil }

// copyRefs copies the strings that a structure's state names to the new tail files. One that can't be read becomes the empty
// string: its owner is made anew.
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

// isRef tells whether an object has the fields of a disk.Ref, and no others.
func isRef(v map[string]any) bool {
	for _, k := range [...]string{"Dir", "Gen", "Off", "Len", "Sum"} {
		if _, ok := v[k]; !ok {
			return false
		}
	}
	return len(v) == 5
}

func (w *repair) copyRef(ref disk.Ref) (disk.Ref, error) {
	data, err := disk.ReadTail(w.r.set, ref)
	if err != nil {
		return disk.Ref{}, nil
	}
	return w.tails.Write(ref.Dir, data)
}

// remakePart is for a structure whose state is S: change gets the old state, and the new one, whose strings are in the new
// tail files already.
func remakePart[S any](w *repair, name string, change func(old, new *S) error) error {
	old, err := statePart[S](w.m, name)
	if err != nil || old == nil {
		return err
	}
	next, err := statePart[S](&w.next, name)
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

// remakeQueue copies what can be read of a queue into a new one.
func (w *repair) remakeQueue(name string, st *queue.State, keep func(rec []byte) bool) (*queue.State, error) {
	w.replace(name)
	q, err := queue.New(queue.Options{Set: w.shadow, Name: name, BlockBytes: repairBlockBytes})
	if err != nil {
		return nil, err
	}
	if _, err = queue.Scan(w.r.set, name, st, func(rec []byte) error {
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

// damagedQueue tells whether not all of a queue can be read.
func (w *repair) damagedQueue(name string, st *queue.State) (bool, error) {
	damages := 0
	lost, err := queue.Scan(w.r.set, name, st, func([]byte) error { return nil }, func(error) error { damages++; return nil })
	return damages > 0 || lost > 0, err
}

// urlQueue remakes a queue of URLs if it is damaged, if all says so, or if it holds records that are to be dropped.
func (w *repair) urlQueue(name string, p Place, old, next *queue.State) (*queue.State, error) {
	bad, err := w.damagedQueue(name, old)
	if err != nil {
		return nil, err
	}
	if !bad {
		if err := queue.Walk(w.r.set, name, old, func(rec []byte) error { bad = bad || w.droppable(rec); return nil }); err != nil {
			return nil, err
		}
	}
	keep := func(rec []byte) bool { return w.keep(p, rec) }
	if bad {
		return w.remakeQueue(name, old, keep)
	}
	return next, queue.Walk(w.r.set, name, old, func(rec []byte) error { keep(rec); return nil })
}

// droppable tells whether a record may have to be left out: it can't be read, or its URL is elsewhere too.
func (w *repair) droppable(data []byte) bool {
	var rec weburl.Record
	return rec.Decode(data) != nil || w.doubled[w.r.hasher.URLKey(rec.URL)] != nil
}

func (w *repair) remakeQueues() error {
	for _, q := range urlQueues {
		if !w.rebuild[q.name] {
			continue
		}
		err := remakePart(w, q.name, func(old, next *queue.State) error {
			st, err := w.urlQueue(q.name, q.place, old, next)
			if err == nil {
				*next = *st
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if !w.rebuild[nameRobotsFetch] {
		return nil
	}
	return remakePart(w, nameRobotsFetch, func(old, next *queue.State) error {
		st, err := w.remakeQueue(nameRobotsFetch, old, validJob)
		if err == nil {
			*next = *st
		}
		return err
	})
}

func validJob(rec []byte) bool {
	var job robotsJob
	return job.decode(rec) == nil
}

func (w *repair) remakeBeast() error {
	if !w.rebuild[nameBeast] {
		return nil
	}
	return remakePart(w, nameBeast, func(old, next *beast.State) error {
		olds := map[string]*queue.State{}
		note := func(name string, _ beast.Number, q *queue.State) (*queue.State, error) { olds[name] = q; return q, nil }
		if err := beast.EachQueue(nameBeast, old, note); err != nil {
			return err
		}
		return beast.EachQueue(nameBeast, next, func(name string, n beast.Number, q *queue.State) (*queue.State, error) {
			p := PlaceBeast
			if n == beast.Failed {
				p = PlaceFailed
			}
			return w.urlQueue(name, p, olds[name], q)
		})
	})
}

func (w *repair) remakeCalendars() error {
	for _, name := range []string{nameLater, nameRobotsLater} {
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
				if name == nameLater {
					return w.urlQueue(slot, PlaceLater, olds[slot], q)
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

// remakeDrum makes a store of what can be read of one: its entries and tuples as far as the functions say yes. With none
// of them they are all left out.
func (w *repair) remakeDrum(opt drum.Options, old *drum.State, entry func(drum.Key, []byte) bool,
	tuple func(drum.Tuple) bool) (*drum.State, error) {
	name := opt.Name
	d, err := w.newDrum(opt, old)
	if err != nil {
		return nil, err
	}
	if entry != nil {
		cache := drum.State{V: old.V, Buckets: old.Buckets, ValueBytes: old.ValueBytes, Op: old.Op, Gen: old.Gen, Parts: old.Parts,
			Aux: old.Aux}
		if err := d.Fill(func(add func(drum.Key, []byte) error) error {
			_, err := drum.ScanState(w.r.set, name, &cache, drum.Scan{Damaged: ignore, Entry: func(key drum.Key, value []byte) error {
				if !entry(key, value) {
					return nil
				}
				return add(key, value)
			}})
			return err
		}); err != nil {
			return nil, err
		}
	}
	waiting := *old
	waiting.Parts = nil
	if _, err := drum.ScanState(w.r.set, name, &waiting, drum.Scan{Damaged: ignore, Tuple: func(t drum.Tuple) error {
		if !tuple(t) {
			return nil
		}
		return d.Add([]drum.Tuple{t})
	}}); err != nil {
		return nil, err
	}
	return w.saveDrum(d)
}

// newDrum opens a store in the shadow directories with the buckets of the old one.
func (w *repair) newDrum(opt drum.Options, old *drum.State) (*drum.Drum, error) {
	w.replace(opt.Name)
	opt.Set, opt.Buckets, opt.ValueBytes, opt.Op, opt.Aux = w.shadow, old.Buckets, old.ValueBytes, old.Op, old.Aux
	least := int64(opt.MaxValueBytes) + 4096
	opt.BufferBytes = (int(min(max(w.opt.RAMBytes/int64(4*old.Buckets), least), 256<<10)) + 4095) &^ 4095
	return drum.Open(opt, nil)
}

func (w *repair) saveDrum(d *drum.Drum) (*drum.State, error) {
	d.Pause()
	f := d.Freeze()
	d.Resume()
	st, err := f.Save(w.tails)
	if err != nil {
		return nil, err
	}
	return st, d.Close()
}

// remakeSeen makes URLseen of the keys of all URLs that are in a place or have ended, and gives it all texts again that it
// had not emitted.
func (w *repair) remakeSeen() error {
	if !w.rebuild[nameURLSeen] {
		return nil
	}
	return remakePart(w, nameURLSeen, func(old, next *drum.State) error {
		d, err := w.newDrum(drum.Options{Name: nameURLSeen, Codec: drum.Rice}, old)
		if err != nil {
			return err
		}
		w.begin(nameURLSeen)
		if err := d.Fill(func(add func(drum.Key, []byte) error) error {
			return w.eachKey(func(key uint64, entries []taggedKey, seen bool) error {
				if !w.known && seen && len(entries) == 0 || anywhere(entries) {
					w.newSeen.Add(key)
					return add(drum.Key(key), nil)
				}
				return nil
			})
		}); err != nil {
			return err
		}
		waiting := *old
		waiting.Parts = nil
		if _, err := drum.ScanState(w.r.set, nameURLSeen, &waiting, drum.Scan{Damaged: ignore, Text: func(aux []byte, unique bool) error {
			var rec weburl.Record
			if rec.Decode(aux) != nil {
				return nil
			}
			w.out.Again++
			return d.Add([]drum.Tuple{{Key: drum.Key(w.r.hasher.URLKey(rec.URL)), Op: drum.CheckUpdate, Aux: aux}})
		}}); err != nil {
			return err
		}
		st, err := w.saveDrum(d)
		if err == nil {
			*next = *st
		}
		w.files[PlaceUnstreamed] = weburl.Sum{}
		return err
	})
}

// anywhere tells whether a URL is in a place, but for that of the texts that URLseen gets again, or has ended.
func anywhere(entries []taggedKey) bool {
	return slices.ContainsFunc(entries, func(e taggedKey) bool { return e.tag != uint8(PlaceUnstreamed) })
}

func (w *repair) remakeStar() error {
	edges, indegree := star.Stores(nameStar)
	if !w.rebuild[edges] && !w.rebuild[indegree] && !w.rebuild[nameStar] {
		return nil
	}
	return remakePart(w, nameStar, func(old, next *star.State) error {
		if w.rebuild[edges] {
			st, err := w.remakeDrum(drum.Options{Name: edges, Codec: drum.Rice}, old.Edges,
				func(drum.Key, []byte) bool { return true }, func(t drum.Tuple) bool { return len(t.Aux) == 8 })
			if err != nil {
				return err
			}
			next.Edges = st
		}
		if w.rebuild[indegree] {
			next.Checks = 0
			st, err := w.remakeDrum(drum.Options{Name: indegree, Codec: drum.Rice, Each: true}, old.Indegree,
				func(drum.Key, []byte) bool { return true }, func(t drum.Tuple) bool {
					if t.Op&drum.Check == 0 {
						return true
					}
					if !w.keep(PlaceStar, t.Aux) {
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
		if !w.rebuild[nameStar] {
			return nil
		}
		ranking, err := star.MakeRanking(w.r.set, nameStar, old, repairRanks)
		if err != nil {
			return err
		}
		next.Ranking, err = w.tails.Write(0, ranking)
		return err
	})
}

// repairRanks is the default of Options.BudgetRanks, and the one below.
const repairRanks = 10_001

func (w *repair) remakeRobots() error {
	if w.rebuild[nameRobotsCache] {
		err := remakePart(w, nameRobotsCache, func(old, next *drum.State) error {
			st, err := w.remakeDrum(drum.Options{Name: nameRobotsCache, MaxValueBytes: maxRobotsValue, Each: true}, old,
				func(_ drum.Key, value []byte) bool {
					var h robots.HostData
					return h.Decode(value) == nil
				},
				func(t drum.Tuple) bool {
					if t.Op == drum.Check {
						return w.keep(PlaceRobotsCheck, t.Value)
					}
					_, err := decodeUpdate(t.Value)
					return err == nil
				})
			if err == nil {
				*next = *st
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if !w.rebuild[nameRobotsRequested] {
		return nil
	}
	return remakePart(w, nameRobotsRequested, func(old, next *drum.State) error {
		st, err := w.remakeDrum(drum.Options{Name: nameRobotsRequested, Each: true}, old, nil,
			func(t drum.Tuple) bool { return validJob(t.Aux) })
		if err == nil {
			*next = *st
		}
		return err
	})
}

// remakeRAM copies the manifest's own strings.
func (w *repair) remakeRAM() error {
	ram, err := disk.ReadTail(w.r.set, w.m.RAM)
	if err != nil {
		ram = nil
	}
	var kept [][]byte
	if err := eachRecord("URLs in RAM", ram, func(rec []byte) error {
		if w.keep(PlaceRAM, rec) {
			kept = append(kept, rec)
		}
		return nil
	}); err != nil {
		kept = nil
	}
	if w.next.RAM, err = w.tails.Write(0, dumpRecords(kept)); err != nil {
		return err
	}
	for _, s := range []struct {
		name string
		ref  *disk.Ref
	}{{nameJobs, &w.next.Jobs}, {nameDelays, &w.next.Delays}, {nameSketches, &w.next.Sketches}} {
		if w.rebuild[s.name] {
			*s.ref = disk.Ref{}
		} else if *s.ref, err = w.copyRef(*s.ref); err != nil {
			return err
		}
	}
	return nil
}

// outputs are the stores of output files, by the structure that they belong to.
func (w *repair) outputs() []outputStore {
	all := []outputStore{
		{nameCrawlLog, crawllog.Options{Set: w.r.set, Prefix: "crawl"}.Files()},
		{nameSeedLog, crawllog.Options{Set: w.r.set, Prefix: "seeds"}.Files()},
	}
	if w.r.out.Len() > 0 {
		opt := w.r.warcOptions()
		all = append(all, outputStore{nameWARC, opt.Files()})
	}
	return all
}

type outputStore struct {
	name string
	opt  outfile.Options
}

// filesOf returns the part of a state that lists volumes.
func filesOf(m *manifest, name string) (*outfile.State, error) {
	if name == nameWARC {
		st, err := statePart[warc.State](m, name)
		if st == nil || err != nil {
			return nil, err
		}
		return &st.Files, nil
	}
	st, err := statePart[crawllog.State](m, name)
	if st == nil || err != nil {
		return nil, err
	}
	return &st.Files, nil
}

// badVolumes are the paths of the open output files with which a crawl could not be opened.
func (w *repair) badVolumes() []string {
	var bad []string
	for _, o := range w.outputs() {
		st, err := filesOf(w.m, o.name)
		if err != nil || st == nil {
			continue
		}
		for _, v := range st.Volumes {
			if !outfile.Whole(o.opt, v) {
				bad = append(bad, o.opt.Set.Path(v.Dir, o.opt.Sub, v.Name))
			}
		}
	}
	return bad
}

// dropVolumes takes those out of the state, and moves their files aside.
func (w *repair) dropVolumes() error {
	for _, o := range w.outputs() {
		st, err := filesOf(w.m, o.name)
		if err != nil {
			return err
		}
		if st == nil {
			continue
		}
		drop := map[string]bool{}
		for _, v := range st.Volumes {
			if !outfile.Whole(o.opt, v) {
				drop[v.Name] = true
				for _, path := range outfile.OpenFiles(o.opt, v) {
					w.journal.aside(w.r.set.FS, o.opt.Set.Path(v.Dir), path, w.gen)
				}
			}
		}
		if len(drop) == 0 {
			continue
		}
		gone := func(v outfile.Volume) bool { return drop[v.Name] }
		if o.name == nameWARC {
			err = remakePart(w, o.name, func(_, next *warc.State) error {
				next.Files.Volumes = slices.DeleteFunc(next.Files.Volumes, gone)
				return nil
			})
		} else {
			err = remakePart(w, o.name, func(_, next *crawllog.State) error {
				next.Files.Volumes = slices.DeleteFunc(next.Files.Volumes, gone)
				return nil
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeLost lists the keys of the URLs that are lost, for whoever can make something of them.
func (w *repair) writeLost() error {
	if w.out.Forgotten == 0 {
		return nil
	}
	path := w.r.set.Path(0, shadowDir, "lost-keys.txt")
	f, err := w.r.set.FS.Create(path)
	if err != nil {
		return fmt.Errorf("crawl: repair: %w", err)
	}
	var text []byte
	off := int64(0)
	flush := func() error {
		_, err := f.WriteAt(text, off)
		off += int64(len(text))
		text = text[:0]
		return err
	}
	err = w.eachKey(func(key uint64, entries []taggedKey, seen bool) error {
		if !seen || len(entries) > 0 {
			return nil
		}
		text = fmt.Appendf(text, "%016x\n", key)
		if len(text) < runBufferBytes {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("crawl: repair: write %s: %w", path, err)
	}
	w.journal.Moves = append(w.journal.Moves, journalMove{From: path, To: w.r.set.Path(0, asideDir(w.gen), "lost-keys.txt")})
	return nil
}
