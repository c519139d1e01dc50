package output

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/crawl/account"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/health"
	"drumbeat/internal/human"
	"drumbeat/internal/objstore"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/state/snapshot"
	"drumbeat/warc/outfile"
)

// ObjectStoreOptions have finished output files put into an object store.
type ObjectStoreOptions struct {
	Bucket objstore.Bucket
	Place  objstore.Place
	// SpoolBytes bounds the finished files that wait for the store; fetching rests above it. 0: a fifth of
	// DiskBytes, at least four WARC files.
	SpoolBytes int64
	// PartBytes is the least size of parts; 0: that of package objstore.
	PartBytes int64
}

// Waits of the uploader.
const (
	firstUploadRetry = time.Second
	lastUploadRetry  = 5 * time.Minute
	uploadLogEvery   = time.Minute // repeat an error in the log
	finalTimeout     = time.Minute // without success, at the end of a crawl
	rechecksumEvery  = 8           // failed attempts after which the sums of a file are computed again
)

// Uploads puts finished output files into an object store. A WARC file or log with its final name is a
// volume; the index of a WARC file follows it, so that no index in the store names a missing file.
//
// A file waits while it stands in the output directories and the queue of objects lacks it. No list of
// such files is kept: after a crash the directories are listed again. When the store has a volume, its files enter the
// queue of objects, in a transaction. After the checkpoint that covers this the WARC file or log is removed
// here; the index stays. Ids of uploads under way are in the manifest.
//
// Its goroutine is "upload". It takes no URLs; its input are the files that checkpoints finish. RAM: 300 bytes for each
// volume here, which the spool bounds: fetching rests while more bytes wait.
type Uploads struct {
	run         *account.Run
	saved       *state.Saved
	opt         UploadOptions
	output      *Writer
	space       *space.Keeper
	checkpoints Checkpoints
	extraction  *Extraction

	Objects  *queue.Queue // of state.Object; never read while the crawl runs
	uploader objstore.Uploader
	node     int            // part of the keys: this node's number when the crawl got its store
	wake     account.Signal // a checkpoint has finished files, or a file may be removed

	mu       sync.Mutex         // guards the fields below; a leaf
	volumes  map[string]*volume // by path of the data file, until it is removed
	finished int64              // output files that had been finished when the directories were listed
	uploads  map[string]objstore.Upload
	figures  snapshot.Uploads
	loggedAt time.Time
	foreign  error // another object has the name of a file: the crawl ends
}

// volume is a finished file and its index.
type volume struct {
	dir     int
	log     bool
	name    string // without suffix
	files   []volumeFile
	objects []state.Object // of the files that are there; used by the goroutine that puts the volume
	sums    *objstore.Sums // of the file under way; likewise
	failed  int            // attempts; likewise
	due     time.Time      // of the next attempt; likewise
	state   volumeState    // guarded by uploads.mu
}

type volumeFile struct {
	path, name string
	size       int64
}

type volumeState int

// The states of a volume. Those of its upload are in package objstore.
const (
	volumeWaits  volumeState = iota
	volumeStored             // the queue of objects names it
	volumeNamed              // a durable manifest covers that
)

// Checkpoints makes checkpoints.
type Checkpoints interface {
	Save() error
	SaveEnd(done string) error // the last one of a run
}

// UploadOptions are the options of Uploads.
type UploadOptions struct {
	Log         *slog.Logger
	ObjectStore *ObjectStoreOptions // nil: none
	SpoolBytes  int64               // finished files that may wait
	Node        int                 // of a cluster, else 0
}

// NewUploads returns Uploads of the files of out. Wire must be called before they are used.
func NewUploads(run *account.Run, saved *state.Saved, opt UploadOptions, out *Writer, room *space.Keeper) *Uploads {
	return &Uploads{run: run, saved: saved, opt: opt, output: out, space: room, node: opt.Node,
		wake: account.NewSignal(), volumes: map[string]*volume{}, uploads: map[string]objstore.Upload{}}
}

// Wire gives Uploads the extraction of texts, which still needs some files, and the maker of checkpoints.
func (u *Uploads) Wire(x *Extraction, checkpoints Checkpoints) {
	u.extraction, u.checkpoints = x, checkpoints
}

// on reports whether the crawl has an object store.
func (u *Uploads) on() bool { return u.opt.ObjectStore != nil }

// Place returns the store for the manifest; nil without one.
func (u *Uploads) Place() *state.Store {
	if !u.on() {
		return nil
	}
	return &state.Store{Place: u.opt.ObjectStore.Place, Node: u.node}
}

// Accept takes the number in the keys from a manifest. It returns an error if its crawl has another store.
func (u *Uploads) Accept(m *state.Manifest) error {
	switch {
	case m.Store == nil:
		return nil // files so far enter the store in this run
	case !u.on():
		return state.Incompatible("crawl: finished files of crawl %s are in %s; give --out again with this place",
			m.Crawl, m.Store)
	case !m.Store.Same(u.opt.ObjectStore.Place):
		return state.Incompatible("crawl: finished files of crawl %s are in %s, not in %s", m.Crawl, m.Store,
			u.opt.ObjectStore.Place)
	}
	u.node = m.Store.Node
	return nil
}

// Access tries the store at the start of a run. It returns an error if waiting cannot help.
func (u *Uploads) Access(ctx context.Context) error {
	if !u.on() {
		return nil
	}
	o := u.opt.ObjectStore
	err := o.Bucket.Check(ctx, u.Place().Key(u.saved.CrawlID, ""))
	if errors.Is(err, objstore.ErrDenied) {
		return state.Incompatible("crawl: %s: %w", o.Place, err)
	}
	if err != nil && ctx.Err() == nil {
		u.opt.Log.Error("the object store does not answer; finished files wait here", "store",
			o.Place.String(), "error", err)
	}
	return nil
}

// Restore finds the files that wait. The structures must be open.
func (u *Uploads) Restore(m *state.Manifest) error {
	if !u.on() {
		return nil
	}
	o := u.opt.ObjectStore
	u.uploader = objstore.Uploader{Bucket: o.Bucket, PartBytes: o.PartBytes}
	u.figures.On, u.figures.SpoolBytes = true, u.opt.SpoolBytes
	if err := u.list(); err != nil || m == nil {
		return err
	}
	for _, up := range m.Uploads {
		u.uploads[up.Key] = up
	}
	st, err := state.Part[queue.State](m, state.NameObjects)
	if err != nil || st == nil {
		return err
	}
	_, err = queue.Scan(u.saved.Set, state.NameObjects, st, func(rec []byte) error {
		var of state.Object
		if err := of.Decode(rec); err != nil {
			return err
		}
		if v := u.volumes[of.Path(u.saved.Set, u.saved.Out)]; v != nil && v.files[0].size == of.Size {
			v.state = volumeNamed
		}
		return nil
	}, nil)
	return err
}

// list finds finished files that are not known. A checkpoint must not finish files meanwhile.
func (u *Uploads) list() error {
	done := u.output.Finished().Files
	u.mu.Lock()
	defer u.mu.Unlock()
	if done == u.finished && done > 0 {
		return nil
	}
	u.finished = done
	if err := u.listOf(u.output.WARCOptions().Files(), false); err != nil {
		return err
	}
	for _, prefix := range state.LogPrefixes {
		if err := u.listOf(crawllog.Options{Set: u.saved.Set, Prefix: prefix}.Files(), true); err != nil {
			return err
		}
	}
	u.bound()
	return nil
}

// listOf finds the finished volumes of a kind. It asks only for the sizes of new ones: indexes stay, so there
// may be many.
func (u *Uploads) listOf(opt outfile.Options, log bool) error {
	for dir := range opt.Set.Paths {
		names, err := opt.Set.FS.List(opt.Set.Path(dir, opt.Sub))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("crawl: list output: %w", err)
		}
		data := &opt.Streams[0]
		for _, file := range names {
			path := opt.Set.Path(dir, opt.Sub, file)
			for _, suffix := range append([]string{data.Suffix}, data.Forms...) {
				name, ok := strings.CutSuffix(file, suffix)
				if !ok || !strings.HasPrefix(name, opt.Prefix+"-") || u.volumes[path] != nil {
					continue
				}
				v := &volume{dir: dir, log: log, name: name}
				if err := v.add(opt, file); errors.Is(err, fs.ErrNotExist) {
					continue // moved away meanwhile
				} else if err != nil {
					return err
				}
				for _, more := range opt.Streams[1:] {
					if _, found := slices.BinarySearch(names, name+more.Suffix); found {
						if err := v.add(opt, name+more.Suffix); err != nil {
							return err
						}
					}
				}
				u.volumes[path] = v
			}
		}
	}
	return nil
}

// add adds a file to a volume.
func (v *volume) add(opt outfile.Options, file string) error {
	path := opt.Set.Path(v.dir, opt.Sub, file)
	size, err := opt.Set.FS.Size(path)
	if err != nil {
		return fmt.Errorf("crawl: list output: %w", err)
	}
	v.files = append(v.files, volumeFile{path: path, name: file, size: size})
	return nil
}

// bound makes fetching rest while too much waits. u.mu must be held.
func (u *Uploads) bound() {
	u.figures.Waiting, u.figures.WaitingBytes = 0, 0
	for _, v := range u.volumes {
		u.figures.Waiting++
		u.figures.WaitingBytes += v.files[0].size
	}
	f := &u.figures
	mark := f.SpoolBytes
	if u.space.Has(space.ReasonStore) {
		mark -= mark / 8
	}
	why := ""
	if f.WaitingBytes > mark {
		why = fmt.Sprintf("%s of finished files are waiting for the object store; the limit is %s (--spool)",
			human.Bytes(f.WaitingBytes), human.Bytes(f.SpoolBytes))
		if f.Failing != "" {
			why += "; " + f.Failing
		}
	}
	u.space.SetReason(space.ReasonStore, why)
}

// Stored are volumes that are in the store and that the queue of objects names.
type Stored []*volume

// Freeze returns the uploads under way, and the volumes that the queue of objects names.
func (u *Uploads) Freeze() (under []objstore.Upload, stored Stored) {
	if !u.on() {
		return nil, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(u.uploads)) {
		under = append(under, u.uploads[key])
	}
	for _, v := range u.volumes {
		if v.state == volumeStored {
			stored = append(stored, v)
		}
	}
	return under, stored
}

// Checkpointed removes the volumes that a durable checkpoint names, and finds those that it has finished. No
// other checkpoint may run.
func (u *Uploads) Checkpointed(stored Stored) error {
	if !u.on() {
		return nil
	}
	u.mu.Lock()
	for _, v := range stored {
		v.state = volumeNamed
	}
	u.figures.Objects, _ = u.Objects.Len()
	u.mu.Unlock()
	u.run.Hook("named")
	if err := u.remove(); err != nil {
		return err
	}
	if err := u.list(); err != nil {
		return err
	}
	u.wake.Raise()
	return nil
}

// remove removes the files of named volumes, but for the indexes.
func (u *Uploads) remove() error {
	var paths []string
	u.mu.Lock()
	for path, v := range u.volumes {
		if v.state == volumeNamed && (v.log || !u.extraction.needs(v.name)) {
			paths = append(paths, path)
		}
	}
	u.mu.Unlock()
	for _, path := range paths { // without the lock: a large file takes a while
		if err := u.saved.Set.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("crawl: remove a file that is in the object store: %w", err)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, path := range paths {
		delete(u.volumes, path)
	}
	u.bound()
	return nil
}

// Released tells that the extraction may need some files no longer.
func (u *Uploads) Released() { u.wake.Raise() }

// next returns the oldest volume that waits and is due, so that one that the store refuses does not stop the
// others. If there is none, it returns nil and the time until one is due.
func (u *Uploads) next() (*volume, time.Duration) {
	now, wait := time.Now(), account.WakeAfter
	u.mu.Lock()
	defer u.mu.Unlock()
	var first *volume
	for _, v := range u.volumes {
		if v.state != volumeWaits {
			continue
		}
		if left := v.due.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		if first == nil || cmp.Or(strings.Compare(v.name, first.name), v.dir-first.dir) < 0 {
			first = v
		}
	}
	return first, wait
}

// Run is the goroutine "upload".
func (u *Uploads) Run(ctx context.Context) error {
	if !u.on() {
		return nil
	}
	for ctx.Err() == nil {
		if err := u.remove(); err != nil {
			return err
		}
		v, wait := u.next()
		if v == nil {
			u.run.Await(ctx, u.wake, wait)
			continue
		}
		err := u.put(ctx, v)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, objstore.ErrForeign):
			u.end(err)
		case err != nil:
			v.due = time.Now().Add(u.retryAfter(v, err))
			account.Sleep(ctx, firstUploadRetry) // the store may be away
		case u.space.Has(space.ReasonStore): // fetching rests, so make room now
			if err := u.checkpoints.Save(); err != nil {
				return err
			}
		}
	}
	return nil
}

// end ends the crawl after a checkpoint, because another object has the name of a file.
func (u *Uploads) end(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.foreign = state.Incompatible("crawl: %s: %w; nothing was overwritten: move one of them away",
		u.opt.ObjectStore.Place, err)
	u.run.Cancel()
}

// retryAfter counts and tells a failed attempt, and returns the time until the next one.
func (u *Uploads) retryAfter(v *volume, err error) time.Duration {
	wait := min(lastUploadRetry, firstUploadRetry<<min(v.failed, 20))
	wait = health.Spread(wait, xxhash.Sum64String(v.name), v.failed) // nodes that share a store do not ask in step
	if v.failed++; v.failed%rechecksumEvery == 0 {
		v.sums = nil
	}
	if tell, f := u.noteFault(err); tell { // without the lock: a log that blocks would stop checkpoints
		u.opt.Log.Error("the object store did not accept a file; retrying", "file", v.name, "attempts", v.failed,
			"waiting", f.Waiting, "bytes", human.Bytes(f.WaitingBytes), "error", err)
	}
	return wait
}

// put puts the files of a volume into the store, and then names them in the queue of objects.
func (u *Uploads) put(ctx context.Context, v *volume) error {
	for len(v.objects) < len(v.files) {
		f := &v.files[len(v.objects)]
		err := u.putFile(ctx, v, f)
		if errors.Is(err, fs.ErrNotExist) {
			u.opt.Log.Warn("a finished file was moved away before it was uploaded", "file", f.path)
			u.forget(v, f)
			if f == &v.files[0] {
				return nil
			}
			continue
		}
		if err != nil {
			return err
		}
	}
	return u.name(v)
}

// forget drops a file that is no longer here: an index, or a volume.
func (u *Uploads) forget(v *volume, f *volumeFile) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if f == &v.files[0] {
		delete(u.volumes, f.path)
	} else {
		v.files = v.files[:len(v.objects)]
	}
	u.bound()
}

// putFile puts one file.
func (u *Uploads) putFile(ctx context.Context, v *volume, f *volumeFile) error {
	file, err := u.saved.Set.FS.OpenRead(f.path)
	if err != nil {
		return fmt.Errorf("crawl: upload: %w", err)
	}
	defer file.Close() // read only
	if size, err := file.Size(); err != nil || size != f.size {
		return errors.Join(err, &disk.CorruptError{Path: f.path, Offset: size, Want: fmt.Sprintf("%d bytes", f.size),
			Got: fmt.Sprintf("%d bytes", size)})
	}
	if v.sums == nil {
		if v.sums, err = u.uploader.Sum(ctx, file, f.size); err != nil {
			return err
		}
	}
	key := u.Place().Key(u.saved.CrawlID, f.name)
	u.mu.Lock()
	was := u.uploads[key]
	u.mu.Unlock()
	up := u.uploader
	up.Replace = u.replaces(v.name)
	if err := up.Put(ctx, key, file, v.sums, was, func(now objstore.Upload) { u.note(key, now) }); err != nil {
		return err
	}
	u.note(key, objstore.Upload{})
	v.objects = append(v.objects,
		state.Object{Dir: v.dir, Log: v.log, File: f.name, Size: f.size, SHA256: v.sums.SHA256, CRC: v.sums.CRC,
			Time: time.Now().Unix()})
	v.sums = nil
	if u.noteStored(v, f.size) {
		u.opt.Log.Info("the object store accepts files again")
	}
	return nil
}

// name enters the files of a volume into the queue of objects.
func (u *Uploads) name(v *volume) error {
	u.run.Hook("there")
	return u.run.Transact(func(*account.Tx) error {
		for i := range v.objects {
			rec, err := v.objects[i].Append(nil)
			if err == nil {
				err = u.Objects.Append(rec)
			}
			if err != nil {
				return err
			}
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		v.state = volumeStored
		return nil
	})
}

// Finish puts what waits at the end of a crawl, unless it was told to stop. done is that of the last
// checkpoint. If the store takes nothing for finalTimeout, the next run continues.
func (u *Uploads) Finish(ctx context.Context, done string) error {
	if !u.on() {
		return nil
	}
	if err := errors.Join(u.foreign, u.remove()); err != nil {
		return err
	}
	for _, v := range u.volumes { // no other goroutine runs
		v.failed, v.due = 0, time.Time{}
	}
	began, more := time.Now(), false
	for ctx.Err() == nil && u.Waits() {
		v, wait := u.next()
		if v == nil {
			if time.Since(began)+wait > finalTimeout {
				u.opt.Log.Error("the object store does not accept the last files: the next run retries", "error",
					u.figures.Failing)
				break
			}
			account.Sleep(ctx, wait)
			continue
		}
		err := u.put(ctx, v)
		switch {
		case errors.Is(err, objstore.ErrForeign):
			u.end(err)
			return u.foreign
		case err == nil:
			began, more = time.Now(), true
		default:
			v.due = time.Now().Add(u.retryAfter(v, err))
		}
	}
	if !more {
		return nil
	}
	return u.checkpoints.SaveEnd(done)
}

// Waits reports whether a volume waits for the store.
func (u *Uploads) Waits() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, v := range u.volumes {
		if v.state == volumeWaits {
			return true
		}
	}
	return false
}
