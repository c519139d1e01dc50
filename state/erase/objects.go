package erase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/objstore"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/state/repair"
)

// Files in an object store. The plan reads them there. Each WARC file with a change is downloaded, rewritten under
// another name, and put; a log keeps its name, and its object is overwritten. The work file of a swap says that the
// store has the new object by size and checksums; from then on it is not written again, and the local copy goes. The
// list of objects changes with the manifest. Old objects and versions are deleted after that: until then the store has
// all files of the old manifest but for the logs: they have a local copy until the swap is durable.

// swap is a file in the store and what replaces it.
type swap struct {
	Old string       `json:"old"` // name
	New state.Object `json:"new"`
}

// StoreCounts are the effects of an erasure on an object store.
type StoreCounts struct {
	Place    string `json:"place"`
	Replaced int64  `json:"replaced"` // objects; WARC files and indexes have another name
	// Left are objects that the store has not deleted completely.
	Left []Left `json:"left,omitempty"`
}

// Left is an object: the store keeps versions of it with erased pages.
type Left struct {
	Key      string `json:"key"`
	Versions int64  `json:"versions,omitempty"` // 0: the store does not name them
	Why      string `json:"why"`
}

// StoreError says that the object store did not do what the erasure needs. Run may be called again.
type StoreError struct {
	Place string
	Begun bool // the erasure has begun, and is not finished
	Err   error
}

func (e *StoreError) Error() string {
	then := "nothing was changed"
	if e.Begun {
		then = "it continues"
	}
	mend := "when the store answers"
	if errors.Is(e.Err, objstore.ErrDenied) {
		mend = "with credentials that the store accepts"
	}
	return fmt.Sprintf("erase: %s: %s: run the command again %s: %s", e.Place, objstore.Reason(e.Err), mend, then)
}

func (e *StoreError) Unwrap() error { return e.Err }

// Attempts of a call to the store, and the wait after the first failed one; each later one is four times as long. They
// bridge 85 s, as those of package objstore for reads.
const (
	storeTries = 6
	storeRetry = 250 * time.Millisecond
)

// swapsDir has a file for each rewritten file of the store.
const swapsDir = "swaps"

// store is the object store of the crawl.
type store struct {
	x      *run
	bucket objstore.Bucket
	files  map[string]*state.Object // by local path
}

// openStore opens the object store, if the crawl has one, and tries whether it takes files.
func (x *run) openStore() error {
	if x.m.Store == nil {
		return nil
	}
	b, err := x.r.OpenBucket()
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	x.remote = &store{x: x, bucket: b}
	x.remote.list()
	if x.opt.DryRun {
		return nil
	}
	return x.remote.try(func(ctx context.Context) error { return b.Check(ctx, x.m.Store.Key(x.m.Crawl, "")) })
}

// check returns an error if the list of objects is damaged: a record would hide a file.
func (s *store) check() error {
	st, err := state.Part[queue.State](s.x.m, state.NameObjects)
	if err == nil && st != nil {
		_, err = queue.Scan(s.x.r.Set, state.NameObjects, st, new(state.Object).Decode, nil)
	}
	if err != nil {
		return fmt.Errorf("erase: the list of objects: %w", err)
	}
	return nil
}

// list takes the list of objects.
func (s *store) list() {
	s.files = map[string]*state.Object{}
	for i := range s.x.r.Objects {
		o := &s.x.r.Objects[i]
		if name := o.Path(s.x.r.Set, s.x.r.Out); name != "" {
			s.files[name] = o
		}
	}
}

// renewStore takes the objects of the next manifest.
func (x *run) renewStore() error {
	if x.remote == nil {
		return nil
	}
	err := x.r.Renew(x.m)
	x.remote.list()
	return err
}

// try makes a call until it succeeds, the store refuses it, or storeTries is reached.
func (s *store) try(call func(ctx context.Context) error) error {
	wait := storeRetry
	for n := 1; ; n++ {
		err := call(context.Background())
		if err == nil {
			return nil
		}
		if n == storeTries || errors.Is(err, objstore.ErrDenied) || errors.Is(err, disk.ErrCrashed) {
			return &StoreError{Place: s.x.m.Store.String(), Err: err}
		}
		time.Sleep(wait)
		wait *= 4
	}
}

func (s *store) key(file string) string { return s.x.m.Store.Key(s.x.m.Crawl, file) }

// listed reports whether the store has a file of the output directories.
func (s *store) listed(dir int, file string) bool {
	return s != nil && s.files[s.x.warcPath(dir, file)] != nil
}

// download brings a WARC file of the store here, unless it is here.
func (s *store) download(n *volume) error {
	name := s.x.warcPath(n.Dir, n.File)
	fsys := s.x.r.Meter
	if _, err := fsys.Size(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := repair.Download(fsys, s.bucket, s.key(n.File), name+".tmp", s.files[name])
	if err == nil {
		err = fsys.Rename(name+".tmp", name)
	}
	if err == nil {
		err = fsys.SyncDir(path.Dir(name))
	}
	if err != nil && !errors.Is(err, disk.ErrCrashed) && !damaged(err) && !local(err) {
		return &StoreError{Place: s.x.m.Store.String(), Err: err}
	}
	return err
}

func damaged(err error) bool {
	var corrupt *disk.CorruptError
	return errors.As(err, &corrupt)
}

// local reports whether an error is one of the file system here.
func local(err error) bool {
	var at *fs.PathError
	return errors.As(err, &at)
}

// put puts a file of the given local path into the store. It returns when the store itself says that it has its size
// and checksums.
func (s *store) put(name string, was *state.Object, file string) (o state.Object, err error) {
	f, err := s.x.r.Meter.OpenRead(name)
	if err != nil {
		return o, fmt.Errorf("erase: %w", err)
	}
	defer f.Close() // read only
	size, err := f.Size()
	if err != nil {
		return o, fmt.Errorf("erase: %w", err)
	}
	// An attempt that was killed may have put another form of this file: only erasures use its name.
	u := objstore.Uploader{Bucket: s.bucket, Replace: true}
	sums, err := u.Sum(context.Background(), f, size)
	if err != nil {
		return o, fmt.Errorf("erase: %w", err)
	}
	o = state.Object{Dir: was.Dir, Log: was.Log, File: file, Size: size, SHA256: sums.SHA256, CRC: sums.CRC,
		Time: s.x.opt.Now().Unix()}
	if sums.SHA256 == was.SHA256 && file == was.File {
		return o, nil
	}
	upload := objstore.Upload{}
	return o, s.try(func(ctx context.Context) error {
		return u.Put(ctx, s.key(file), f, sums, upload, func(now objstore.Upload) { upload = now })
	})
}

// swapped reports whether the swap of a file is durable.
func (s *store) swapped(file string) (bool, error) {
	_, err := s.x.r.Set.FS.Size(s.x.work(swapsDir + "/" + file))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// note makes the swaps of a file and its index durable.
func (s *store) note(file string, swaps []swap) error {
	text, err := json.Marshal(swaps)
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	return disk.WriteFileAtomic(s.x.r.Set.FS, s.x.work(swapsDir+"/"+file), text)
}

// read returns the swaps of a work file.
func (s *store) read(name string) (some []swap, _ error) {
	data, err := disk.ReadFile(s.x.r.Meter, name)
	if err == nil {
		err = json.Unmarshal(data, &some)
	}
	if err != nil {
		return nil, fmt.Errorf("erase: read %s: %w", name, err)
	}
	return some, nil
}

// nextSize returns the size of a rewritten WARC file, which may be in the store.
func (x *run) nextSize(n *volume) (int64, error) {
	if x.remote != nil {
		if done, err := x.remote.swapped(n.File); err != nil {
			return 0, err
		} else if done {
			some, err := x.remote.read(x.work(swapsDir + "/" + n.File))
			if err != nil {
				return 0, err
			}
			return some[0].New.Size, nil // that of the WARC file is the first
		}
	}
	return x.r.Out.FS.Size(x.warcPath(n.Dir, n.NextFile))
}

// swaps returns all swaps, by the old file.
func (s *store) swaps() (map[string]state.Object, error) {
	all := map[string]state.Object{}
	files, err := repair.FilesIn(s.x.r.Meter, s.x.work(swapsDir), false)
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		some, err := s.read(name)
		if err != nil {
			return nil, err
		}
		for i := range some {
			old := some[i].New
			old.File = some[i].Old
			all[old.Path(s.x.r.Set, s.x.r.Out)] = some[i].New
		}
	}
	return all, nil
}

// volume puts a rewritten WARC file and its index. The new index stays here, too.
func (s *store) volume(n *volume) error {
	swaps := []swap{{Old: n.File}, {Old: n.IndexFile}}
	for i, file := range []string{n.NextFile, n.nextIndex()} {
		was := s.files[s.x.warcPath(n.Dir, swaps[i].Old)]
		if was == nil { // the crawl has put no index, because it was moved away
			swaps = swaps[:i]
			break
		}
		o, err := s.put(s.x.warcPath(n.Dir, file), was, file)
		if err != nil {
			return err
		}
		swaps[i].New = o
	}
	return s.note(n.File, swaps)
}

// log rewrites a log with its final name. If it is in the store, its object is overwritten. Then the local file has the
// new form until the swap is durable; the next attempt finds it, whatever the store has.
func (s *store) log(dir int, file string, rewrite func() error) error {
	name := s.x.r.Set.Path(dir, "log", file)
	was := s.files[name]
	if was == nil {
		return rewrite()
	}
	done, err := s.swapped(file)
	if err != nil {
		return err
	}
	if !done {
		if err := s.x.room(path.Dir(name), file, was.Size); err != nil {
			return err
		}
		if err := rewrite(); err != nil {
			return err
		}
		if _, err := s.x.r.Meter.Size(name); errors.Is(err, fs.ErrNotExist) { // unchanged
			return nil
		}
		o, err := s.put(name, was, file)
		if err != nil || o.SHA256 == was.SHA256 {
			return err
		}
		if err := s.note(file, []swap{{file, o}}); err != nil {
			return err
		}
	}
	return removeDurably(s.x.r.Meter, name)
}

// objects writes the list of objects with the new files.
func (w *next) objects() error {
	if w.remote == nil {
		return nil
	}
	w.Next.Uploads = nil // the crawl aborts what it does not know before it begins another upload of a file
	swaps, err := w.remote.swaps()
	if err != nil || len(swaps) == 0 {
		return err
	}
	return repair.RemakeState(w.Shadow, state.NameObjects, func(old, _ *queue.State) (*queue.State, error) {
		return w.ChangeQueue(state.NameObjects, old, func(rec []byte) ([]byte, error) {
			var o state.Object
			if err := o.Decode(rec); err != nil {
				return nil, err
			}
			if now, ok := swaps[o.Path(w.r.Set, w.r.Out)]; ok {
				return now.Append(nil)
			}
			return rec, nil
		})
	})
}

// purge deletes the old objects with all their versions, and unfinished uploads of rewritten files. The manifest names
// the new ones.
func (s *store) purge() error {
	x := s.x
	swaps, err := s.swaps()
	if err != nil {
		return err
	}
	x.j.Store = &StoreCounts{Place: x.m.Store.String(), Replaced: int64(len(swaps))}
	purge := func(file string, scope objstore.Scope) error {
		left, err := s.purgeOne(s.key(file), scope)
		if left != nil {
			x.j.Store.Left = append(x.j.Store.Left, *left)
		}
		return err
	}
	for i := range x.volumes { // the killed run may have put files that no list names
		n := &x.volumes[i]
		for _, file := range []string{n.File, n.IndexFile} {
			scope := objstore.PurgeAll
			if _, was := swaps[x.warcPath(n.Dir, file)]; !was {
				scope = objstore.PurgeStray
			}
			if !n.Data {
				continue // the index has its name still
			}
			if err := purge(file, scope); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(swaps)) {
		if o := swaps[name]; o.Log {
			if err := purge(o.File, objstore.PurgeOld); err != nil {
				return err
			}
		}
	}
	for i := range x.r.Set.Paths { // logs that wait for the store: what it has of them is of another form
		files, err := repair.FilesIn(x.r.Meter, x.r.Set.Path(i, "log"), false)
		if err != nil {
			return err
		}
		for _, name := range files {
			if s.files[name] != nil || path.Ext(name) != ".zst" {
				continue
			}
			if err := purge(path.Base(name), objstore.PurgeStray); err != nil {
				return err
			}
		}
	}
	return nil
}

// purgeOne deletes an object. It returns what the store keeps of it.
func (s *store) purgeOne(key string, scope objstore.Scope) (left *Left, _ error) {
	return left, s.try(func(ctx context.Context) error {
		p, err := objstore.Purge(ctx, s.bucket, key, scope)
		if left = nil; err == nil && !p.Whole() {
			left = &Left{Key: key, Versions: p.Left, Why: p.Why}
		}
		return err
	})
}

// clearLeft tries again to delete what earlier erasures have left in the store.
func (s *store) clearLeft() error {
	all, err := Records(s.x.r.Set)
	if err != nil {
		return err
	}
	live := map[string]bool{}
	for _, o := range s.files {
		live[s.key(o.File)] = true
	}
	for i := range all {
		r := &all[i]
		if r.Store == nil || len(r.Store.Left) == 0 {
			continue
		}
		s.x.opt.Progress("delete what an earlier erasure left in the store")
		var still []Left
		for _, l := range r.Store.Left {
			scope := objstore.PurgeAll
			if live[l.Key] {
				scope = objstore.PurgeOld
			}
			left, err := s.purgeOne(l.Key, scope)
			if err != nil {
				return err
			}
			if left != nil {
				still = append(still, *left)
			}
		}
		r.Store.Left = still
		if err := writeRecord(s.x.r.Set, r); err != nil {
			return err
		}
	}
	return nil
}

// LeftOf returns what the object store keeps after some erasures.
func LeftOf(all []Record) (left []Left) {
	for i := range all {
		if s := all[i].Store; s != nil {
			left = append(left, s.Left...)
		}
	}
	return left
}
