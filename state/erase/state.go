package erase

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cespare/xxhash/v2"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/crawllog"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/repair"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
	"drumbeat/weburl"
)

// next is the next state of the crawl.
type next struct {
	*run
	*repair.Shadow
	left     [state.NumPlaces]weburl.Sum // URLs that leave their place
	deferred [state.NumReasons]int64     // of them, deferred ones by reason
	held     [state.NumReasons]int64     // and held ones
	barred   weburl.Sum                  // URLs that were unique but not in the account yet
	waiting  int64
}

// prepareState rewrites the logs, writes the next state beside the old one, and ends with the journal that repair.Commit
// carries out.
func (x *run) prepareState() error {
	shadow, err := repair.NewShadow(x.r, x.m, x.opt.RAMBytes)
	if err != nil {
		return err
	}
	w := &next{run: x, Shadow: shadow}
	if err = w.build(); err == nil {
		err = w.Prepare()
	}
	if err != nil && !errors.Is(err, disk.ErrCrashed) {
		err = errors.Join(err, repair.Abandon(x.r))
	}
	return err
}

func (w *next) build() error {
	if err := w.CopyTails(); err != nil {
		return err
	}
	for _, step := range []func() error{w.logs, w.openFiles, w.beast, w.queues, w.calendars, w.inRAM, w.robots, w.star,
		w.content, w.names, w.seen, w.seeds} {
		if err := step(); err != nil {
			return fmt.Errorf("erase: %w", err)
		}
	}
	if err := w.account(); err != nil {
		return err
	}
	return w.CompactTails()
}

// logs rewrites the logs. Lines follow the records that they name to the rewritten WARC files.
func (w *next) logs() error {
	files, err := w.loadShifts()
	if err != nil {
		return err
	}
	var failed error
	err = w.rewriteLogs(false, func(crawl bool, e *crawllog.Entry) crawllog.Change {
		if w.t.Text(e.URL) {
			return crawllog.Drop
		}
		changed := w.clearLine(e)
		if e.File != "" {
			file, at, ok, err := files.find(e.File, e.Offset)
			switch {
			case err != nil:
				failed = errors.Join(failed, err)
			case !ok:
				return crawllog.Drop
			case file != e.File:
				e.File, e.Offset, changed = file, at, true
			}
		}
		if changed {
			return crawllog.Modify
		}
		return crawllog.Keep
	}, func(part string, opt crawllog.Options, out *crawllog.Rewritten) error {
		return repair.RemakePart(w.Shadow, part, func(old, st *crawllog.State) (err error) {
			st.Files.Volumes = slices.DeleteFunc(st.Files.Volumes, func(v outfile.Volume) bool { return out.Closed[v.Name] })
			for _, v := range old.Files.Volumes {
				for _, file := range outfile.OpenFiles(opt.Files(), v) {
					if out.Closed[v.Name] {
						w.Replace(w.r.Set.Path(v.Dir), file)
					}
				}
			}
			st.Lines, err = w.Tails.Write(0, out.Tail)
			return err
		})
	})
	return errors.Join(err, failed)
}

// shiftFiles are the rewritten WARC files by their old names. The Shifts of at most maxShifts of them are in RAM.
type shiftFiles struct {
	run    *run
	files  map[string]*volume
	loaded map[*volume][]warc.Shift
}

// maxShifts bounds the files whose Shifts are in RAM: a log names files in the order of time, and a Shift takes 24 bytes.
const maxShifts = 64

func (x *run) loadShifts() (*shiftFiles, error) {
	s := &shiftFiles{run: x, files: map[string]*volume{}, loaded: map[*volume][]warc.Shift{}}
	for i := range x.volumes {
		if n := &x.volumes[i]; n.Data {
			s.files[n.File] = n
		}
	}
	return s, nil
}

// find returns the place of a record; ok is false if it is gone.
func (s *shiftFiles) find(file string, offset int64) (now string, at int64, ok bool, _ error) {
	n := s.files[file]
	if n == nil {
		return file, offset, true, nil
	}
	shifts, there := s.loaded[n]
	if !there {
		data, err := disk.ReadFile(s.run.r.Set.FS, s.run.shiftsName(n))
		if err == nil {
			err = json.Unmarshal(data, &shifts)
		}
		if err != nil {
			return "", 0, false, err
		}
		if len(s.loaded) >= maxShifts {
			clear(s.loaded)
		}
		s.loaded[n] = shifts
	}
	at, ok = warc.Moved(shifts, offset)
	return n.NextFile, at, ok, nil
}

// openFiles drops from the state the unfinished WARC files that were rewritten.
func (w *next) openFiles() error {
	if w.r.Out.Len() == 0 {
		return nil
	}
	closed := map[string]bool{}
	for i := range w.volumes {
		if n := &w.volumes[i]; !n.Final && n.Data {
			closed[n.key()] = true
			for _, file := range []string{n.File, n.IndexFile} { // an interrupted run may have finished it
				w.Replace(w.r.Out.Path(n.Dir), w.warcPath(n.Dir, file))
			}
		}
	}
	is := func(v outfile.Volume) bool { return closed[volumeKey(v.Dir, v.Name)] }
	opt := w.r.WARCFiles()
	return repair.RemakePart(w.Shadow, state.NameWARC, func(old, st *warc.State) error {
		for _, v := range old.Files.Volumes {
			for _, file := range outfile.OpenFiles(opt.Files(), v) {
				if is(v) {
					w.Replace(w.r.Out.Path(v.Dir), file)
				}
			}
		}
		st.Files.Volumes = slices.DeleteFunc(st.Files.Volumes, is)
		return nil
	})
}

// url returns the record of a URL that waits in a place as it is from now on; nil if it goes.
func (w *next) url(p state.Place, data []byte) ([]byte, error) {
	var rec weburl.Record
	if err := rec.Decode(data); err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	if w.t.URL(rec.URL) {
		w.left[p].Add(w.r.Hasher.URLKey(rec.URL))
		w.waiting++
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
		if s.old.Len == 0 {
			continue
		}
		if *s.at, err = w.Tails.Write(0, state.DumpRecords(recs)); err != nil {
			return err
		}
	}
	return nil
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

// store rewrites a store, if something in it changes: entry says which entries stay, tuple what each tuple that waits is
// from now on.
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
	w.left, w.waiting, w.deferred, w.held = before.left, before.waiting, before.deferred, before.held // not yet
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

// waits reports whether a store has files for tuples and texts that wait: they may also have some that it has merged.
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
		st.Indegree, err = w.store(drum.Options{Name: indegree, Codec: drum.Rice, Each: true}, old.Indegree, st.Indegree,
			nil, func(t drum.Tuple) (drum.Tuple, bool, bool, error) {
				if t.Op&drum.Check == 0 {
					return t, true, false, nil
				}
				rec, err := w.url(state.PlaceStar, t.Aux)
				changed := len(rec) != len(t.Aux)
				t.Aux = rec
				return t, rec != nil, changed, err
			})
		st.Checks -= w.left[state.PlaceStar].N
		return err
	})
}

// contentHead is the length of what precedes the URL in a value of the store of contents: digest and date.
const contentHead = 20 + 4

// content forgets the bodies that targets had first. A page with such a body that is fetched later is stored whole.
func (w *next) content() error {
	named := func(value []byte) bool { return len(value) > contentHead && w.t.URL(value[contentHead:]) }
	return repair.RemakeState(w.Shadow, state.NameContent, func(old, copied *drum.State) (*drum.State, error) {
		return w.store(drum.Options{Name: state.NameContent, MaxValueBytes: state.MaxContentValue, Codec: drum.Rice}, old,
			copied, func(_ drum.Key, value []byte) (bool, error) { return !named(value), nil },
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
		return w.store(drum.Options{Name: state.NameNames, MaxValueBytes: state.MaxNameBytes, Codec: drum.Rice}, old, copied,
			func(key drum.Key, value []byte) (bool, error) {
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

// seen rewrites URLseen, if links of targets wait in it, links found on targets, or if it is to get keys. Its unique
// texts that were not passed on become links again.
func (w *next) seen() error {
	fresh, err := w.newKeys()
	if err != nil {
		return err
	}
	return repair.RemakeState(w.Shadow, state.NameURLSeen, func(old, copied *drum.State) (*drum.State, error) {
		changes, err := found(w.scanStore(state.NameURLSeen, old.Waiting(), drum.Scan{Text: func(aux []byte, _ bool) error {
			is, err := w.touches(aux)
			if is {
				err = errTouched
			}
			return err
		}}))
		if err != nil || !changes && !waits(old) && len(fresh) == 0 {
			return copied, err
		}
		var again []uint64 // keys of unique texts that stay; the texts themselves are in RAM at a checkpoint
		if err := w.scanStore(state.NameURLSeen, old.Waiting(), drum.Scan{Text: func(aux []byte, unique bool) error {
			var rec weburl.Record
			if err := rec.Decode(aux); err != nil || !unique {
				return err
			}
			if key := w.r.Hasher.URLKey(rec.URL); w.t.URL(rec.URL) {
				w.barred.Add(key)
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
		if err := d.Fill(func(add func(drum.Key, []byte) error) error { return w.fillSeen(fresh, again, add) }); err != nil {
			return nil, errors.Join(err, d.Close())
		}
		if err := w.scanStore(state.NameURLSeen, old.Waiting(), drum.Scan{Text: func(aux []byte, _ bool) error {
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

// seedsFile is the crawl's own copy of its seeds.
const seedsFile = "seeds.txt"

// blankSeeds returns the copy of the seeds with the lines of targets blanked, so that its length stays; nil if none is.
// sum is the checksum before.
func (x *run) blankSeeds() (data []byte, sum uint64, _ error) {
	data, err := disk.ReadFile(x.r.Set.FS, x.r.Set.Path(0, seedsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	sum, changed := xxhash.Sum64(data), false
	resolver := x.resolver()
	for line := range bytes.Lines(data) { // a part of data
		if line = bytes.TrimRight(line, "\r\n"); x.seedGoes(resolver, line) {
			for i := range line {
				line[i] = '#'
			}
			changed = true
		}
	}
	if !changed {
		return nil, sum, nil
	}
	return data, sum, nil
}

// seeds corrects the checksum of the copy of the seeds, which conclude changes.
func (w *next) seeds() error {
	data, sum, err := w.blankSeeds()
	if data != nil && w.Next.Seeds.Sum == sum {
		w.Next.Seeds.Sum = xxhash.Sum64(data)
	}
	return err
}

func (x *run) resolver() *weburl.Resolver {
	return weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited, Fold: !x.m.Frozen.KeepEscapes})
}

// seedGoes reports whether a line of seeds names a target: a URL, or a host without a scheme.
func (x *run) seedGoes(resolver *weburl.Resolver, line []byte) bool {
	for _, scheme := range []string{"", "http://", "https://"} {
		if url, err := resolver.AppendResolve(nil, nil, append([]byte(scheme), line...)); err == nil && x.t.URL(url) {
			return true
		}
	}
	return false
}

// account corrects the accounts: each URL that goes counts as refused, because it was erased.
func (w *next) account() error {
	a, c := &w.Next.Accounts, &w.j.Erased
	if w.waiting != c.Waiting {
		return fmt.Errorf("BUG: erase: %d URLs that wait go, the plan has %d", w.waiting, c.Waiting)
	}
	ended := w.j.Fetched
	a.Places[state.PlaceFetched].Remove(w.j.Fetched)
	for p := range state.NumPlaces {
		a.Places[p].Remove(w.left[p])
		ended.Merge(w.left[p])
	}
	a.Unique.Merge(w.barred)
	a.Unique.Merge(w.j.New)
	ended.Merge(w.barred)
	ended.Merge(w.j.New)
	a.Places[state.PlaceRefused].Merge(ended)
	a.Refused[state.ReasonErased] += ended.N
	for reason := range a.Deferred {
		a.Deferred[reason] -= w.deferred[reason]
		a.Refused[reason] -= w.held[reason]
	}
	for _, s := range []struct {
		counter state.Counter
		n       int64
	}{{state.CountRobotsStored, c.Robots}, {state.CountDNSStored, c.DNS}, {state.CountRenderedStored, c.Rendered},
		{state.CountRenderAnswers, c.Answers}} {
		a.Counters[s.counter] = max(0, a.Counters[s.counter]-s.n)
	}
	w.Next.Names = slices.DeleteFunc(slices.Clone(w.Next.Names),
		func(name string) bool { return w.t.Host([]byte(name)) })
	if w.Next.Run != nil {
		run := *w.Next.Run
		resolver := w.resolver()
		run.FirstSeeds = slices.DeleteFunc(slices.Clone(run.FirstSeeds),
			func(line string) bool { return w.seedGoes(resolver, []byte(line)) })
		w.Next.Run = &run
	}
	return nil
}
