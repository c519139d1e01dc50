package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/objstore"
	"drumbeat/state"
	"drumbeat/warc/outfile"
)

// packBytes is the size of a pack: large enough that calls of a store cost little beside its bytes, and small enough to
// be built in RAM.
const packBytes = 16 << 20

// readBytes is the size of reads of a crawl's files.
const readBytes = 1 << 20

// partialEvery is the number of packs after which a partial list is put: an interrupted backup copies 4 GiB again.
const partialEvery = 256

// DefaultKeep is the number of backups that a place keeps.
const DefaultKeep = 3

// Options are the options of a Backup.
type Options struct {
	Place Place
	// Keep is the number of backups to keep; 0: DefaultKeep.
	Keep int
	// BytesPerSecond bounds the rate at which files are read; 0: no bound.
	BytesPerSecond int64
	PackBytes      int    // size of packs; 0: 16 MiB, which is the most
	Program        string // version of the program
}

// ErrElsewhere means that another copy of the crawl, or another crawl, uses the place.
var ErrElsewhere = errors.New("backup: the place has backups of another crawl, or of another copy of this one")

// Backup is a place and what it has. Its methods must not run concurrently, but for Figures.
type Backup struct {
	opt     Options
	latest  *Latest
	base    *list // the last backup of the present lineage; nil: none
	done    *list // packs and pieces of attempts that were interrupted; nil: none
	figures figures

	// strays are packs that attempts put and that no list names; they are deleted after the next backup.
	strays    []string
	uncleaned error // of a deletion
}

// figures are read by other goroutines.
type figures struct{ total, copied atomic.Int64 }

// Figures returns the bytes that the backup under way must copy, and those that it has copied.
func (b *Backup) Figures() (total, copied int64) {
	return b.figures.total.Load(), b.figures.copied.Load()
}

// Open reads what a place has for the crawl of a manifest. It returns ErrElsewhere for the place of another crawl.
func Open(ctx context.Context, opt Options, m *state.Manifest) (*Backup, error) {
	if opt.Keep == 0 {
		opt.Keep = DefaultKeep
	}
	if opt.PackBytes <= 0 || opt.PackBytes > packBytes {
		opt.PackBytes = packBytes
	}
	b := &Backup{opt: opt}
	if err := b.refresh(ctx, m); err != nil {
		return nil, err
	}
	return b, nil
}

// refresh reads what the place has, and the last backup if that is of the present lineage.
func (b *Backup) refresh(ctx context.Context, m *state.Manifest) error {
	latest, err := readLatest(ctx, b.opt.Place)
	if err != nil {
		return err
	}
	last := latest.last()
	switch {
	case latest.Crawl != "" && (latest.Crawl != m.Crawl || latest.Node != m.Frozen.Node):
		return fmt.Errorf("%w: %s has those of crawl %s, node %d", ErrElsewhere, b.opt.Place, latest.Crawl, latest.Node)
	case last != nil && last.Lineage != "" && !slices.Contains(m.Lineage, last.Lineage):
		return fmt.Errorf("%w: backup %d in %s was made by a copy of this crawl that was restored or changed "+
			"elsewhere; give another place", ErrElsewhere, last.Number, b.opt.Place)
	case last != nil && last.Lineage == m.LineageName() && last.Gen > m.Gen:
		return fmt.Errorf("%w: backup %d in %s has checkpoint %d, but the crawl has only %d: its directories were set "+
			"back; give another place, or restore the backup", ErrElsewhere, last.Number, b.opt.Place, last.Gen, m.Gen)
	}
	lineage := m.LineageName()
	if lineage == "" {
		return state.Incompatible("backup: an earlier version made the last checkpoint; run the crawl until the " +
			"next one")
	}
	known := b.latest.last()
	b.latest = latest
	if known != nil && last != nil && *known == *last && (b.base == nil || b.base.Lineage == lineage) &&
		(b.done == nil || b.done.Lineage == lineage) {
		return nil
	}
	b.base, b.done = nil, nil
	if last != nil && last.Lineage == lineage {
		b.base, err = readList(ctx, b.opt.Place, last)
		if damaged(err) || errors.Is(err, fs.ErrNotExist) { // the next backup copies everything
			b.base, err = &list{Lineage: lineage, NextPack: last.NextPack}, nil
		}
		if err != nil {
			return err
		}
	}
	part, err := readPartial(ctx, b.opt.Place)
	if err != nil {
		return err
	}
	if part != nil && part.Lineage == lineage {
		b.done = part
	}
	b.strays = append(b.strays, strays(m, last, part)...)
	return nil
}

// strays returns the packs that attempts of earlier lineages may have put since the newest backup: those of the partial
// list, and as many more as are put between two of them. An erasure begins a lineage, so they may have erased pages.
func strays(m *state.Manifest, last *Head, part *list) (names []string) {
	from := max(0, len(m.Lineage)-2) // without a backup, those of the lineage before
	if last != nil {
		from = slices.Index(m.Lineage, last.Lineage)
	}
	for _, lineage := range m.Lineage[from : len(m.Lineage)-1] {
		next := int64(0)
		if last != nil && last.Lineage == lineage {
			next = last.NextPack
		}
		if part != nil && part.Lineage == lineage && part.NextPack > next {
			next = part.NextPack
			for _, p := range part.Packs {
				names = append(names, p.Name)
			}
		}
		for n := range int64(partialEvery) {
			names = append(names, packName(next+n, lineage))
		}
	}
	return names
}

// Last returns the newest backup; nil if the place has none.
func (b *Backup) Last() *Head { return b.latest.last() }

// Job is a backup of one checkpoint.
type Job struct {
	m      *state.Manifest
	list   *list
	todo   []task
	copied int64
}

// task is a file with bytes to copy.
type task struct {
	file    *File
	at      int // index in list.Files
	missing []drum.Range
}

// Plan compares the files of a checkpoint with the last backup. data is the encoded manifest.
func (b *Backup) Plan(m *state.Manifest, data []byte, files []File) *Job {
	l := &list{Crawl: m.Crawl, Lineage: m.LineageName(), Program: b.opt.Program, Manifest: data}
	j := &Job{m: m, list: l}
	old := b.known(l)
	live := make([]int64, len(l.Packs))
	for i := range files {
		used, _ := cover(old.of(&files[i]), old.ranges(&files[i]), nil)
		for _, p := range used {
			live[p.Pack] += p.N
		}
	}
	dead := make([]bool, len(l.Packs))
	for i := range dead {
		dead[i] = 2*live[i] < l.Packs[i].Bytes
	}
	missingBytes := int64(0)
	for i := range files {
		f := &files[i]
		to := listed{In: f.in, Dir: f.dir, Name: f.name, Size: f.size}
		var missing []drum.Range
		to.Pieces, missing = cover(old.of(f), old.ranges(f), dead)
		if f.Loose {
			missing = nil // copyLoose decides
			if was := old.files[f.id()]; was != nil {
				to.Sum, to.Size = was.Sum, was.Size
			}
		}
		if f.Loose || len(missing) > 0 {
			j.todo = append(j.todo, task{f, len(l.Files), missing})
			missingBytes += bytesOf(missing)
		}
		l.Files = append(l.Files, to)
	}
	b.figures.total.Store(missingBytes)
	b.figures.copied.Store(0)
	return j
}

// Holds calls fn with the path of each file that Make reads under the name that it has now.
func (j *Job) Holds(fn func(path string)) {
	for i := range j.todo {
		if f := j.todo[i].file; !f.Loose {
			fn(f.Path)
		}
	}
}

// knownFiles are the files of earlier backups of the lineage.
type knownFiles struct{ files map[fileID]*listed }

// known returns the files of the last backup, or of a later attempt that was interrupted, and gives l its packs.
func (b *Backup) known(l *list) knownFiles {
	k := knownFiles{map[fileID]*listed{}}
	from := b.base
	if b.done != nil && (from == nil || b.done.NextPack > from.NextPack) {
		from = b.done
	}
	if from == nil {
		return k
	}
	l.NextPack, l.Packs = from.NextPack, slices.Clone(from.Packs)
	for i := range from.Files {
		k.files[from.Files[i].id()] = &from.Files[i]
	}
	return k
}

// ranges returns the bytes of a file that count; those of the last backup for a loose one.
func (k knownFiles) ranges(f *File) []drum.Range {
	if was := k.files[f.id()]; f.Loose && was != nil && was.Size > 0 {
		return []drum.Range{{N: was.Size}}
	}
	return f.ranges
}

// of returns the pieces of a file. A final file continues the open one, whose name had a suffix; the index of a WARC
// file is written again when it becomes final.
func (k knownFiles) of(f *File) []piece {
	if was := k.files[f.id()]; was != nil {
		return was.Pieces
	}
	id := f.id()
	if id.name += outfile.OpenSuffix; !isIndex(f.name) && k.files[id] != nil {
		return k.files[id].Pieces
	}
	return nil
}

// Make copies what the place lacks, and makes the backup complete. open opens a file by its path at Plan, and done is
// called when a file is no longer needed; neither is called for loose files, which fsys opens. After an error another
// job may follow, which copies nothing again that was put.
func (b *Backup) Make(ctx context.Context, j *Job, saved *state.Saved, open func(path string) (disk.File, error),
	done func(path string)) (*Head, error) {
	j.list.Dirs = saved.Set.Len()
	if saved.SeparateOut {
		j.list.Outs = saved.Out.Len()
	}
	w := &writer{ctx: ctx, b: b, j: j, began: time.Now()}
	err := w.copyAll(saved.Set.FS, open, done)
	if err == nil {
		err = w.flush()
	}
	var h *Head
	if err == nil {
		h, err = b.finish(ctx, j)
	}
	if err != nil {
		b.done = j.list
		return nil, err
	}
	b.base, b.done = j.list, nil
	return h, nil
}

// Interrupted puts the list of an attempt that was interrupted, so that another process need not copy its packs again.
func (b *Backup) Interrupted(ctx context.Context) {
	if b.done != nil && (b.base == nil || b.done.NextPack > b.base.NextPack) {
		b.putPartial(ctx, b.done)
	}
}

// putPartial puts the list of a backup under way. Without it more is copied again.
func (b *Backup) putPartial(ctx context.Context, l *list) {
	part := *l
	part.Files = slices.DeleteFunc(slices.Clone(l.Files), func(f listed) bool { return f.Size == absent })
	if data, err := part.encode(); err == nil {
		_ = b.opt.Place.Put(ctx, partialName, data)
	}
}

// finish puts the list, names it, and deletes what nothing names any more.
func (b *Backup) finish(ctx context.Context, j *Job) (*Head, error) {
	j.list.Files = slices.DeleteFunc(j.list.Files, func(f listed) bool { return f.Size == absent })
	for _, name := range j.list.drop() { // put by an attempt whose files are gone
		if b.base == nil || !slices.ContainsFunc(b.base.Packs, func(p pack) bool { return p.Name == name }) {
			b.strays = append(b.strays, name)
		}
	}
	data, err := j.list.encode()
	if err != nil {
		return nil, err
	}
	h := Head{Number: 1, Lineage: j.list.Lineage, Erasures: j.m.Erasures, Table: j.m.Frozen.Table,
		Gen: j.m.Gen, Time: j.m.Time, Sum: xxhash.Sum64(data), Copied: j.copied, Files: len(j.list.Files),
		NextPack: j.list.NextPack}
	for i := range j.list.Files {
		for _, p := range j.list.Files[i].Pieces {
			h.Bytes += p.N
		}
	}
	// Another copy of the crawl may have put a backup meanwhile.
	if err := b.refresh(ctx, j.m); err != nil {
		return nil, err
	}
	if last := b.latest.last(); last != nil {
		h.Number = last.Number + 1
	}
	h.Name = listName(h.Number, h.Lineage)
	if err := b.retry(ctx, func() error { return b.opt.Place.Put(ctx, h.Name, data) }); err != nil {
		return nil, err
	}
	next := *b.latest
	next.Crawl, next.Node = j.m.Crawl, j.m.Frozen.Node
	next.Backups = append(slices.Clone(next.Backups), h)
	if err := b.forget(ctx, &next, j.list); err != nil {
		return nil, err
	}
	if err := b.retry(ctx, func() error { return putLatest(ctx, b.opt.Place, &next) }); err != nil {
		return nil, err
	}
	b.latest, b.strays = &next, nil
	b.clean(ctx)
	return &h, nil
}

// forget takes the backups out of next that are too many, from before an erasure, or have lost their list. It notes
// the objects that then have no name. now is the list of the newest backup.
func (b *Backup) forget(ctx context.Context, next *Latest, now *list) error {
	last := *next.last()
	var gone, kept []Head
	for i, h := range next.Backups {
		if h.Erasures < last.Erasures || i < len(next.Backups)-b.opt.Keep {
			gone = append(gone, h)
		} else {
			kept = append(kept, h)
		}
	}
	if len(gone) == 0 && len(b.strays) == 0 {
		return nil
	}
	named, whole := map[string]bool{}, kept[:0:0]
	for i := range kept[:len(kept)-1] {
		l, err := readList(ctx, b.opt.Place, &kept[i])
		if damaged(err) || errors.Is(err, fs.ErrNotExist) { // nobody can restore it
			gone = append(gone, kept[i])
			continue
		}
		if err != nil {
			return err
		}
		whole = append(whole, kept[i])
		for _, p := range l.Packs {
			named[p.Name] = true
		}
	}
	kept = append(whole, last)
	for _, p := range now.Packs {
		named[p.Name] = true
	}
	for i := range gone {
		next.Delete = append(next.Delete, gone[i].Name)
		l, err := readList(ctx, b.opt.Place, &gone[i])
		if err != nil && !damaged(err) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for n := 0; err == nil && n < len(l.Packs); n++ {
			if name := l.Packs[n].Name; !named[name] {
				named[name] = true
				next.Delete = append(next.Delete, name)
			}
		}
	}
	for _, name := range b.strays {
		if !named[name] {
			named[name] = true
			next.Delete = append(next.Delete, name)
		}
	}
	next.Backups = kept
	return nil
}

// clean deletes the objects that latest says are to be deleted, and the partial list. After an error the next backup
// tries again.
func (b *Backup) clean(ctx context.Context) {
	next := *b.latest
	next.Delete, b.uncleaned = nil, nil
	for _, name := range b.latest.Delete {
		if err := b.opt.Place.Delete(ctx, name); err != nil {
			next.Delete = append(next.Delete, name)
			b.uncleaned = err
		}
	}
	_ = b.opt.Place.Delete(ctx, partialName) // of no use, and no harm
	if len(next.Delete) < len(b.latest.Delete) && putLatest(ctx, b.opt.Place, &next) == nil {
		b.latest = &next
	}
}

// Uncleaned returns the number of objects that should be deleted and are still there, and the last error.
func (b *Backup) Uncleaned() (int, error) { return len(b.latest.Delete), b.uncleaned }

// Waits between the attempts of a call that failed.
const (
	callAttempts = 4
	firstWait    = time.Second
)

// retry calls fn until it succeeds, at most callAttempts times.
func (b *Backup) retry(ctx context.Context, fn func() error) (err error) {
	for i := range callAttempts {
		if err = fn(); err == nil || ctx.Err() != nil || errors.Is(err, objstore.ErrDenied) {
			return err
		}
		if i < callAttempts-1 {
			select {
			case <-ctx.Done():
			case <-time.After(firstWait << i):
			}
		}
	}
	return err
}

func damaged(err error) bool {
	var corrupt *disk.CorruptError
	return errors.As(err, &corrupt)
}

// drop leaves out the packs that no file needs, and returns their names.
func (l *list) drop() (names []string) {
	to, used := make([]int, len(l.Packs)), make([]bool, len(l.Packs))
	for i := range l.Files {
		for _, p := range l.Files[i].Pieces {
			used[p.Pack] = true
		}
	}
	kept := l.Packs[:0]
	for i := range l.Packs {
		if used[i] {
			to[i] = len(kept)
			kept = append(kept, l.Packs[i])
		} else {
			names = append(names, l.Packs[i].Name)
		}
	}
	l.Packs = kept
	for i := range l.Files {
		for n := range l.Files[i].Pieces {
			p := &l.Files[i].Pieces[n]
			p.Pack = to[p.Pack]
		}
	}
	return names
}

// cover returns the pieces that have bytes of the ranges, without those in dead packs, and the ranges that no piece
// has. The ranges ascend and do not overlap.
func cover(pieces []piece, ranges []drum.Range, dead []bool) (used []piece, missing []drum.Range) {
	for _, p := range pieces {
		n, _ := slices.BinarySearchFunc(ranges, p.From, func(r drum.Range, from int64) int {
			return cmp.Compare(r.Off+r.N, from+1)
		})
		if n < len(ranges) && ranges[n].Off < p.end() && (dead == nil || !dead[p.Pack]) {
			used = append(used, p)
		}
	}
	sorted := slices.SortedFunc(slices.Values(used), func(a, b piece) int { return cmp.Compare(a.From, b.From) })
	had, next := int64(0), 0 // sorted[:next] end at had or before
	for _, r := range ranges {
		at, end := r.Off, r.Off+r.N
		for at < end {
			for next < len(sorted) && sorted[next].From <= at {
				had = max(had, sorted[next].end())
				next++
			}
			if had > at {
				at = had
				continue
			}
			to := end
			if next < len(sorted) {
				to = min(to, sorted[next].From)
			}
			missing = append(missing, drum.Range{Off: at, N: to - at})
			at = to
		}
	}
	return used, missing
}

func bytesOf(ranges []drum.Range) (n int64) {
	for _, r := range ranges {
		n += r.N
	}
	return n
}
