package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"drumbeat/disk"
	"drumbeat/warc"
)

// Reader is a crawl as its last manifest names it, open for reading beside a running crawl. It takes no lock
// and its file system refuses every write. A caller pins the files that it needs, and then asks Same: if the
// manifest is still the last one, all files were there, and pinned ones stay readable whatever the crawl
// does. Otherwise it opens a new Reader. It is not safe for concurrent use; reading files is.
type Reader struct {
	*Saved // with Manifest and Suffixes
	fs     disk.FS
	pins   *pinnedFS
}

// The values of Reader.Activity.
const (
	StateRunning     = "running"     // a process locks the directories
	StateFinished    = "finished"    // nothing is left to fetch
	StateStopped     = "stopped"     // in order
	StateInterrupted = "interrupted" // by a crash
	StateUnknown     = "unknown"     // running or interrupted
)

// OpenReader reads the last manifest of the crawl in dirs, given in any order. outDirs are its output
// directories if it has separate ones; without them Out is empty for such a crawl.
func OpenReader(fsys disk.FS, dirs, outDirs []string) (*Reader, error) {
	pins := &pinnedFS{FS: fsys, files: map[string]disk.File{}, lists: map[string][]string{}}
	r := NewSaved(pins, dirs, dirs)
	match, err := disk.MatchIdentities(r.Meter, dirs, KindState)
	if err != nil {
		return nil, MatchError(err)
	}
	if match.Set.Len() == 0 {
		return nil, NoCrawl(dirs[0])
	}
	r.Set, r.Out, r.CrawlID = match.Set, match.Set, match.Crawl
	if err := r.RefuseRepairing(); err != nil {
		return nil, err
	}
	m, _, err := ReadManifest(r.Set)
	if err == nil && m == nil {
		err = Incompatible("crawl: %s holds a crawl without a checkpoint, so there is nothing to read yet", dirs[0])
	}
	if err == nil {
		err = r.Take(match, m, outDirs)
	}
	if err == nil {
		err = r.OpenSuffixes(m.Frozen.Private, true)
	}
	if err != nil {
		return nil, err
	}
	if got := r.Suffixes.Digest(); got != m.Frozen.Suffixes {
		return nil, fmt.Errorf("crawl: the suffix list in %s has digest %s, want %s: %w",
			r.Set.Path(0, SuffixesName), got, m.Frozen.Suffixes, ErrIncompatible)
	}
	return &Reader{Saved: r, fs: fsys, pins: pins}, nil
}

// Activity says whether the crawl is running, finished, stopped, interrupted or unknown.
func (r *Reader) Activity() string {
	all := true
	for _, dir := range r.Set.Paths {
		held, known := disk.Locked(r.fs, dir)
		if held {
			return StateRunning
		}
		all = all && known
	}
	switch {
	case r.Manifest.Done != "":
		return StateFinished
	case r.Manifest.Clean:
		return StateStopped
	case !all:
		return StateUnknown
	}
	return StateInterrupted
}

// Same reports whether the manifest is still the last one.
func (r *Reader) Same() (bool, error) {
	m, _, err := ReadManifest(r.Set)
	if err != nil {
		return false, err
	}
	return m != nil && m.Gen == r.Manifest.Gen && m.Crawl == r.Manifest.Crawl, nil
}

// Pin opens the named files and the tails of the checkpoint, so that they stay readable after the crawl
// deletes them. It ignores files that it can't open; the code that reads them reports the error. It returns
// false if there are more files than it may keep open. Those left are opened when they are read.
func (r *Reader) Pin(names []string) bool {
	for dir := range r.Set.Paths {
		if !r.pins.pin(disk.TailPath(r.Set, dir, r.Manifest.Gen)) {
			return false
		}
	}
	for _, name := range names {
		if !r.pins.pin(name) {
			return false
		}
	}
	return true
}

// PinWARC pins the WARC files that the crawl may rename, and remembers the list of the others. all is false if there
// are more files than it may keep open, as after Pin. A crawl without a state of WARC files, or without the
// directories of these, is an error.
func (r *Reader) PinWARC() (st *warc.State, all bool, err error) {
	if r.Out.Len() == 0 {
		return nil, false, fmt.Errorf(
			"the WARC files are in the output directories of the crawl: name them with --out: %w", ErrIncompatible)
	}
	st, err = Part[warc.State](r.Manifest, NameWARC)
	if err == nil && st == nil {
		err = fmt.Errorf("the manifest has no state of %s: %w", NameWARC, ErrIncompatible)
	}
	if err != nil {
		return nil, false, err
	}
	all = r.Pin(warc.OpenFiles(r.WARCFiles(), st))
	for dir := range r.Out.Paths {
		if err := r.PinList(r.Out.Path(dir, "warc")); err != nil {
			return nil, false, err
		}
	}
	return st, all, nil
}

// PinList remembers the names in a directory, which may not exist. Output files that become final after the
// checkpoint are then not seen.
func (r *Reader) PinList(dir string) error {
	names, err := r.fs.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("crawl: list %s: %w", dir, err)
	}
	r.pins.lists[dir] = names
	return nil
}

// Close closes the pinned files.
func (r *Reader) Close() { r.pins.close() }

// maxPinned limits the files that are kept open. Files beyond it are opened when they are read.
const maxPinned = 8192

var errReadOnly = errors.New("crawl: a reader writes nothing")

// pinnedFS is a read-only FS. A pinned file stays readable after it is removed or renamed.
type pinnedFS struct {
	disk.FS
	files map[string]disk.File
	lists map[string][]string
}

// pin opens a file and keeps it open. It returns false when no more files can be pinned.
func (p *pinnedFS) pin(name string) bool {
	if p.files[name] != nil {
		return true
	}
	if len(p.files) >= maxPinned {
		return false
	}
	f, err := p.FS.OpenRead(name)
	if err == nil {
		p.files[name] = f
		return true
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		n := 0
		for name, f := range p.files { // leave descriptors for the files that are opened later
			if n++; n > pinSpare {
				break
			}
			f.Close() // read only
			delete(p.files, name)
		}
		return false
	}
	return true
}

// pinSpare is the number of descriptors to leave: more than the files that are read at once.
const pinSpare = 16

func (p *pinnedFS) close() {
	for _, f := range p.files {
		f.Close() // read only
	}
	p.files = nil
}

// pinnedFile is a file whose Close does nothing.
type pinnedFile struct{ disk.File }

func (pinnedFile) Close() error { return nil }

// OpenRead implements disk.FS.
func (p *pinnedFS) OpenRead(name string) (disk.File, error) {
	if f := p.files[name]; f != nil {
		return pinnedFile{f}, nil
	}
	return p.FS.OpenRead(name)
}

// List implements disk.FS.
func (p *pinnedFS) List(dir string) ([]string, error) {
	if names, ok := p.lists[dir]; ok {
		return names, nil
	}
	return p.FS.List(dir)
}

// Size implements disk.FS.
func (p *pinnedFS) Size(name string) (int64, error) {
	if f := p.files[name]; f != nil {
		return f.Size()
	}
	return p.FS.Size(name)
}

func readOnly(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: errReadOnly} }

// Create implements disk.FS; like all methods that change files it fails.
func (p *pinnedFS) Create(name string) (disk.File, error) { return nil, readOnly("create", name) }

// Open implements disk.FS.
func (p *pinnedFS) Open(name string) (disk.File, error) { return nil, readOnly("open", name) }

// Remove implements disk.FS.
func (p *pinnedFS) Remove(name string) error { return readOnly("remove", name) }

// Rename implements disk.FS.
func (p *pinnedFS) Rename(_, to string) error { return readOnly("rename", to) }

// MkdirAll implements disk.FS.
func (p *pinnedFS) MkdirAll(name string) error { return readOnly("mkdir", name) }

// SyncDir implements disk.FS.
func (p *pinnedFS) SyncDir(dir string) error { return readOnly("sync", dir) }

// SyncFS implements disk.FS.
func (p *pinnedFS) SyncFS(dir string) error { return readOnly("sync", dir) }

// Lock implements disk.FS.
func (p *pinnedFS) Lock(dir string) (io.Closer, error) { return nil, readOnly("lock", dir) }
