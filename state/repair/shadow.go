package repair

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"drumbeat/beast"
	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/queue"
	"drumbeat/state"
)

// Shadow is the next state of a stopped crawl, whose new files are written to directories beside the old ones. Nothing
// of the crawl changes before its journal is in place. It is for one goroutine.
type Shadow struct {
	Next  state.Manifest // refers to copies of the old tails until the caller changes it
	Set   disk.Set       // the shadow directories
	Tails *disk.Tails

	saved    *state.Saved
	old      *state.Manifest
	ramBytes int64
	damaged  func(error) error // nil: the first damage ends the work
	gen      uint64
	journal  journal
	replaced map[string]bool
}

// NewShadow begins the next state of a crawl opened by audit.Open. The first damage ends the work. NewShadow
// deletes an earlier Shadow without a journal.
func NewShadow(r *state.Saved, m *state.Manifest, ramBytes int64) (*Shadow, error) {
	if err := removeShadow(r); err != nil {
		return nil, err
	}
	return newShadow(r, m, ramBytes, nil)
}

// CopyTails copies the tails that the manifest itself refers to.
func (w *Shadow) CopyTails() error {
	n := &w.Next
	for _, ref := range []*disk.Ref{&n.RAM, &n.Jobs, &n.Delays, &n.Hosts, &n.Sketches, &n.Scope, &n.Traps, &n.Loads,
		&n.Orders, &n.Renders, &n.Walk} {
		var err error
		if *ref, err = w.CopyRef(*ref); err != nil {
			return err
		}
	}
	return nil
}

// CompactTails writes the tails again without those that no state refers to any more: the copies of tails of structures
// that were changed. Nothing may be written to Tails afterwards.
func (w *Shadow) CompactTails() error {
	if err := w.Tails.Close(); err != nil {
		return fmt.Errorf("crawl: repair: %w", err)
	}
	to := disk.Set{FS: w.Set.FS}
	for i := range w.Set.Paths {
		to.Paths = append(to.Paths, w.Set.Path(i, "compact"))
	}
	tails, err := disk.CreateTails(to, w.gen)
	if err != nil {
		return fmt.Errorf("crawl: repair: %w", err)
	}
	from := Shadow{saved: &state.Saved{Set: w.Set}, Tails: tails, Next: w.Next}
	from.Next.Parts = map[string]json.RawMessage{}
	err = from.CopyTails()
	for name, part := range w.Next.Parts {
		if err == nil {
			from.Next.Parts[name], err = from.copyRefs(part)
		}
	}
	if err = errors.Join(err, tails.Close()); err != nil {
		return err
	}
	w.Next, w.Tails = from.Next, new(disk.Tails)
	for i := range w.Set.Paths {
		was, now := disk.TailPath(w.Set, i, w.gen), disk.TailPath(to, i, w.gen)
		err := w.Set.FS.Remove(was)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = w.Set.FS.Rename(now, was)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("crawl: repair: %w", err)
		}
	}
	return nil
}

// Prepare makes all new files durable and writes the journal to state/MOVE: the crawl does not start before
// Commit or Abandon.
func (w *Shadow) Prepare() error {
	body, err := w.seal()
	if err != nil {
		return err
	}
	return disk.WriteFileAtomic(w.saved.Set.FS, w.saved.Set.Path(0, state.MoveName), body)
}

// Abandon undoes NewShadow and Prepare.
func Abandon(r *state.Saved) error {
	name := r.Set.Path(0, state.MoveName)
	err := r.Set.FS.Remove(name)
	if err == nil {
		err = r.Set.FS.SyncDir(path.Dir(name))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("crawl: abandon a move: %w", err)
	}
	return removeShadow(r)
}

// Commit makes the prepared files the state of the crawl, and deletes the replaced files. After a crash, it
// continues where it stopped. Without a prepared Shadow it does nothing.
func Commit(r *state.Saved) error {
	from, to := r.Set.Path(0, state.MoveName), r.Set.Path(0, state.JournalName)
	if _, err := r.Set.FS.Size(from); err == nil {
		if err := r.Set.FS.Rename(from, to); err != nil {
			return fmt.Errorf("crawl: commit a move: %w", err)
		}
		if err := r.Set.FS.SyncDir(path.Dir(to)); err != nil {
			return fmt.Errorf("crawl: commit a move: %w", err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("crawl: commit a move: %w", err)
	}
	if _, err := finishRepair(r, func(string) {}); err != nil {
		return err
	}
	// A run that was killed may have removed the journal, but not durably: with it, the files must be there.
	if err := SyncAll(r); err != nil {
		return err
	}
	m, _, err := state.ReadManifest(r.Set)
	if err != nil {
		return err
	}
	for _, set := range []disk.Set{r.Set, r.Out} {
		for _, dir := range set.Paths {
			if err := RemoveTree(r.Set.FS, path.Join(dir, asideDir(m.Gen))); err != nil {
				return err
			}
		}
	}
	return SyncAll(r) // what an erasure has deleted must not come back
}

// newShadow creates the shadow directories of a crawl that has none. It takes about a quarter of ramBytes.
func newShadow(r *state.Saved, m *state.Manifest, ramBytes int64, damaged func(error) error) (*Shadow, error) {
	w := &Shadow{saved: r, old: m, ramBytes: ramBytes, damaged: damaged, gen: m.Gen + 1, Set: disk.Set{FS: r.Set.FS}}
	for i := range r.Set.Paths {
		dir := r.Set.Path(i, state.ShadowDir)
		if err := w.Set.FS.MkdirAll(dir); err != nil {
			return nil, fmt.Errorf("crawl: repair: %w", err)
		}
		w.Set.Paths = append(w.Set.Paths, dir)
	}
	var err error
	if w.Tails, err = disk.CreateTails(w.Set, w.gen); err != nil {
		return nil, fmt.Errorf("crawl: repair: %w", err)
	}
	w.Next = *m
	w.Next.Gen, w.Next.Time = w.gen, time.Now().Unix()
	lineage, err := state.RandomLineage()
	if err != nil {
		return nil, err
	}
	w.Next.NewLineage(lineage)
	w.Next.Parts = map[string]json.RawMessage{}
	for name, part := range m.Parts {
		if w.Next.Parts[name], err = w.copyRefs(part); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// seal ends the writing, makes all new files durable, and returns the content of the journal.
func (w *Shadow) seal() ([]byte, error) {
	if err := w.Tails.Close(); err != nil {
		return nil, fmt.Errorf("crawl: repair: %w", err)
	}
	if err := w.moves(); err != nil {
		return nil, err
	}
	var err error
	if w.journal.Manifest, err = state.EncodeManifest(&w.Next); err != nil {
		return nil, err
	}
	if err := SyncAll(w.saved); err != nil {
		return nil, err
	}
	return state.Seal(journalMagic, &w.journal)
}

// copyRefs copies the tails that a structure's state refers to into the new tail files. If the caller
// continues after damage, an unreadable tail becomes empty.
func (w *Shadow) copyRefs(part json.RawMessage) (json.RawMessage, error) {
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

func (w *Shadow) copyRefsIn(v any) (any, error) {
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
			return w.CopyRef(ref)
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

// CopyRef copies a tail into the new tail files.
func (w *Shadow) CopyRef(ref disk.Ref) (disk.Ref, error) {
	data, err := disk.ReadTail(w.saved.Set, ref)
	if err != nil {
		if w.damaged == nil {
			return disk.Ref{}, err
		}
		return disk.Ref{}, w.damaged(err)
	}
	return w.Tails.Write(ref.Dir, data)
}

// RemakePart changes the state, of type S, of a structure. change gets the old state and the new one, which
// already refers to the new tail files.
func RemakePart[S any](w *Shadow, name string, change func(old, new *S) error) error {
	old, err := state.Part[S](w.old, name)
	if err != nil || old == nil {
		return err
	}
	next, err := state.Part[S](&w.Next, name)
	if err != nil {
		return err
	}
	if err := change(old, next); err != nil {
		return fmt.Errorf("crawl: repair %s: %w", name, err)
	}
	w.Next.Parts[name], err = json.Marshal(next)
	return err
}

// RemakeState replaces the state, of type S, of a structure by what remake returns. copied is the old state, but
// refers to the new tail files.
func RemakeState[S any](w *Shadow, name string, remake func(old, copied *S) (*S, error)) error {
	return RemakePart(w, name, func(old, next *S) error {
		st, err := remake(old, next)
		if err == nil {
			*next = *st
		}
		return err
	})
}

// RemakeOne returns the next state of a queue of several, by its name, from the old one and the copied one.
type RemakeOne func(name string, p state.Place, old, copied *queue.State) (*queue.State, error)

// RemakeBeast replaces the states of BEAST's queues.
func (w *Shadow) RemakeBeast(remake RemakeOne) error {
	return RemakePart(w, state.NameBeast, func(old, next *beast.State) error {
		olds := map[string]*queue.State{}
		note := func(name string, _ beast.Number, q *queue.State) (*queue.State, error) {
			olds[name] = q
			return q, nil
		}
		if err := beast.EachQueue(state.NameBeast, old, note); err != nil {
			return err
		}
		each := func(name string, n beast.Number, copied *queue.State) (*queue.State, error) {
			p := state.PlaceBeast
			if n == beast.OverBudget {
				p = state.PlaceOverBudget
			}
			return remake(name, p, olds[name], copied)
		}
		return beast.EachQueue(state.NameBeast, next, each)
	})
}

// RemakeBins replaces the states of the queues of a calendar; remake gets PlaceDeferred.
func (w *Shadow) RemakeBins(name string, remake RemakeOne) error {
	return RemakePart(w, name, func(old, next *queue.CalendarState) error {
		olds := map[string]*queue.State{}
		note := func(bin string, q *queue.State) (*queue.State, error) { olds[bin] = q; return q, nil }
		if err := queue.EachBin(name, old, note); err != nil {
			return err
		}
		return queue.EachBin(name, next, func(bin string, copied *queue.State) (*queue.State, error) {
			return remake(bin, state.PlaceDeferred, olds[bin], copied)
		})
	})
}

// AddBins adds to a calendar what keep accepts of that of another crawl, in set and in state from.
func (w *Shadow) AddBins(name string, set disk.Set, from *queue.CalendarState,
	keep func(rec []byte) (bool, error)) error {
	return RemakePart(w, name, func(_, next *queue.CalendarState) error {
		bin := 0 // of from.Slots
		return queue.EachBin(name, from, func(old string, st *queue.State) (*queue.State, error) {
			due := from.Slots[bin].Due
			bin++
			copied, err := w.copyQueue(set, old, st, next.NextBin(name), keep)
			if err == nil && copied.Records > 0 {
				next.AddBin(due, copied)
			}
			return st, err
		})
	})
}

// copyQueue copies what keep accepts of a queue in set to a new one.
func (w *Shadow) copyQueue(set disk.Set, old string, st *queue.State, name string,
	keep func(rec []byte) (bool, error)) (*queue.State, error) {
	w.replace(name) // the calendar may have made files after its last checkpoint
	q, err := queue.New(queue.Options{Set: w.Set, Name: name, BlockBytes: repairBlockBytes})
	if err != nil {
		return nil, err
	}
	if _, err := queue.Scan(set, old, st, func(rec []byte) error {
		ok, err := keep(rec)
		if ok && err == nil {
			err = q.Append(rec)
		}
		return err
	}, nil); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	next, err := q.Freeze().Save(w.Tails)
	return next, errors.Join(err, q.Close())
}

const repairBlockBytes = 128 << 10

// RemakeQueue copies the readable records of a queue that keep accepts into a new queue.
func (w *Shadow) RemakeQueue(name string, st *queue.State, keep func(rec []byte) bool) (*queue.State, error) {
	return w.ChangeQueue(name, st, func(rec []byte) ([]byte, error) {
		if !keep(rec) {
			return nil, nil
		}
		return rec, nil
	})
}

// ChangeQueue is RemakeQueue with a function that returns what to copy for each record; nil for nothing. The records
// more follow.
func (w *Shadow) ChangeQueue(name string, st *queue.State, change func(rec []byte) ([]byte, error),
	more ...[]byte) (*queue.State, error) {
	w.replace(name)
	q, err := queue.New(queue.Options{Set: w.Set, Name: name, BlockBytes: repairBlockBytes})
	if err != nil {
		return nil, err
	}
	if _, err = queue.Scan(w.saved.Set, name, st, func(rec []byte) error {
		next, err := change(rec)
		if next == nil || err != nil {
			return err
		}
		return q.Append(next)
	}, w.damaged); err != nil {
		return nil, err
	}
	for _, rec := range more {
		if err := q.Append(rec); err != nil {
			return nil, err
		}
	}
	next, err := q.Freeze().Save(w.Tails)
	if err != nil {
		return nil, err
	}
	return next, q.Close()
}

// Replace removes a file of directory dir when the next state is in place.
func (w *Shadow) Replace(dir, file string) { w.journal.aside(w.saved.Set.FS, dir, file, w.gen) }

// NewDrum opens an empty store in the shadow directories with the number of buckets of the old one.
func (w *Shadow) NewDrum(opt drum.Options, old *drum.State) (*drum.Drum, error) {
	w.replace(opt.Name)
	opt.Set, opt.Buckets, opt.ValueBytes, opt.Op, opt.Aux = w.Set, old.Buckets, old.ValueBytes, old.Op, old.Aux
	least := int64(opt.MaxValueBytes) + 4096
	opt.BufferBytes = (int(min(max(w.ramBytes/int64(4*old.Buckets), least), 256<<10)) + 4095) &^ 4095
	return drum.Open(opt, nil)
}

// NewOutbox opens an outbox in the shadow directories in a state without queues. The outbox of that name is replaced.
func (w *Shadow) NewOutbox(name string, opt cluster.OutboxOptions, st *cluster.OutboxState) (*cluster.Outbox, error) {
	w.replace(name + "/pending")
	w.replace(name + "/sent")
	opt.Set, opt.Name, opt.BlockBytes = w.Set, name, repairBlockBytes
	return cluster.OpenOutbox(opt, st)
}

// SaveDrum closes a store of NewDrum and returns its state.
func (w *Shadow) SaveDrum(d *drum.Drum) (*drum.State, error) {
	d.Pause()
	f := d.Freeze()
	d.Resume()
	st, err := f.Save(w.Tails)
	if err != nil {
		return nil, err
	}
	return st, d.Close()
}

// replace records that shadow files replace those of a store or queue.
func (w *Shadow) replace(name string) {
	if w.replaced == nil {
		w.replaced = map[string]bool{}
	}
	w.replaced[name] = true
}

// moves adds the renames: the files of replaced structures move aside, then the new files move in.
func (w *Shadow) moves() error {
	for name := range w.replaced {
		for i := range w.saved.Set.Paths {
			dir := w.saved.Set.Path(i, "state", name)
			files, err := FilesIn(w.saved.Set.FS, dir, false)
			if err != nil {
				return err
			}
			for _, file := range files {
				w.journal.aside(w.saved.Set.FS, w.saved.Set.Path(i), file, w.gen)
			}
		}
	}
	for i := range w.saved.Set.Paths { // the new tail files hold copies of the old ones' contents
		files, err := FilesIn(w.saved.Set.FS, w.saved.Set.Path(i, "state"), false)
		if err != nil {
			return err
		}
		for _, file := range files {
			if strings.HasPrefix(path.Base(file), "tails-") {
				w.journal.aside(w.saved.Set.FS, w.saved.Set.Path(i), file, w.gen)
			}
		}
	}
	for i := range w.saved.Set.Paths {
		from := w.Set.Path(i, "state")
		files, err := FilesIn(w.saved.Set.FS, from, true)
		if err != nil {
			return err
		}
		for _, file := range files {
			to := w.saved.Set.Path(i, "state") + strings.TrimPrefix(file, from)
			w.journal.Moves = append(w.journal.Moves, journalMove{From: file, To: to})
		}
	}
	return nil
}

// removeShadow deletes the shadow directories of a repair that did not reach its journal.
func removeShadow(r *state.Saved) error {
	for i := range r.Set.Paths {
		if err := RemoveTree(r.Set.FS, r.Set.Path(i, state.ShadowDir)); err != nil {
			return err
		}
	}
	return nil
}

// RemoveTree deletes a directory and its contents, if it exists.
func RemoveTree(fsys disk.FS, dir string) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("crawl: remove %s: %w", dir, err)
	}
	for _, name := range names {
		path := dir + "/" + name
		if _, err := fsys.List(path); err == nil {
			if err := RemoveTree(fsys, path); err != nil {
				return err
			}
			continue
		}
		if err := fsys.Remove(path); err != nil {
			return fmt.Errorf("crawl: remove %s: %w", path, err)
		}
	}
	if err := fsys.Remove(dir); err != nil {
		return fmt.Errorf("crawl: remove %s: %w", dir, err)
	}
	return nil
}
