package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"
	"sync/atomic"
)

// Holder is an FS that keeps files which a backup still reads: the removal of a held file waits until its release, and
// a renamed one is found under its old name. The users of the FS do not see a removed file any more; it counts where
// the FS below counts it, until its release. Names must be as path.Clean returns them.
//
// A directory without other files than removed ones is removed with the last of them. A crash leaves held files that
// were removed in their place. They are then files that no manifest names, which the next start deletes.
//
// It is safe for concurrent use. It keeps some 100 bytes for each held file. Operations on names cost a lock while
// files are held, otherwise nothing.
type Holder struct {
	FS
	keeps atomic.Bool // some file is held
	mu    sync.Mutex
	held  map[string]*heldFile // by the name at Hold
	now   map[string]*heldFile // by the present name
	dirs  map[string]bool      // directories that were removed and still have held files
}

// heldFile is a file that is held.
type heldFile struct {
	name    string // present name
	removed bool
	lost    bool // another file has taken the name
}

// ErrReplaced is the error of opening a held file in whose place another was put.
var ErrReplaced = errors.New("disk: another file has replaced it")

// NewHolder returns a Holder on top of fsys that holds nothing.
func NewHolder(fsys FS) *Holder {
	return &Holder{FS: fsys, held: map[string]*heldFile{}, now: map[string]*heldFile{},
		dirs: map[string]bool{}}
}

// Hold holds a file until Release.
func (h *Holder) Hold(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[name] == nil && h.now[name] == nil {
		f := &heldFile{name: name}
		h.held[name], h.now[name] = f, f
		h.keeps.Store(true)
	}
}

// OpenHeld opens a held file for reading, under whatever name it has now.
func (h *Holder) OpenHeld(name string) (File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.held[name]
	switch {
	case f == nil:
		return nil, fmt.Errorf("BUG: disk: nothing keeps %s", name)
	case f.lost:
		return nil, fmt.Errorf("disk: open %s: %w", name, ErrReplaced)
	}
	return h.FS.OpenRead(f.name)
}

// Release ends the hold of a file, and removes the file if that was asked for meanwhile. A file that is not held is
// not an error.
func (h *Holder) Release(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.held[name]
	if f == nil {
		return nil
	}
	delete(h.held, name)
	// Not before the file is gone: until then, others must wait for the lock.
	defer func() { h.keeps.Store(len(h.held) > 0) }()
	if f.lost {
		return nil
	}
	delete(h.now, f.name)
	if !f.removed {
		return nil
	}
	return h.removeHeld(f.name)
}

// removeHeld removes a file, and its directory if that was asked for and has nothing else. mu is held.
func (h *Holder) removeHeld(name string) error {
	if err := h.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := path.Dir(name); h.dirs[dir]; dir = path.Dir(dir) {
		names, err := h.FS.List(dir)
		if err == nil && len(names) > 0 {
			return nil
		}
		delete(h.dirs, dir)
		if err == nil {
			err = h.FS.Remove(dir)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// ReleaseAll releases all files.
func (h *Holder) ReleaseAll() error {
	h.mu.Lock()
	names := make([]string, 0, len(h.held))
	for name := range h.held {
		names = append(names, name)
	}
	h.mu.Unlock()
	var errs []error
	for _, name := range names {
		errs = append(errs, h.Release(name))
	}
	return errors.Join(errs...)
}

// Held returns the number of held files.
func (h *Holder) Held() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held)
}

// Remove implements FS. The removal of a held file waits until its release.
func (h *Holder) Remove(name string) error {
	if !h.keeps.Load() {
		return h.FS.Remove(name)
	}
	h.mu.Lock()
	if h.isRemoved(name) {
		h.mu.Unlock()
		return gone("remove", name)
	}
	if f := h.now[name]; f != nil {
		f.removed = true
		h.mu.Unlock()
		return nil
	}
	h.mu.Unlock()
	err := h.FS.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return h.removeDir(name, err)
}

// removeDir removes a directory whose removal has failed with err, if it has only removed files.
func (h *Holder) removeDir(name string, err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	names, e := h.FS.List(name)
	switch {
	case e != nil || slices.ContainsFunc(names, func(n string) bool { return !h.isRemoved(path.Join(name, n)) }):
		return err
	case len(names) == 0: // the last one was released meanwhile
		return h.FS.Remove(name)
	}
	h.dirs[name] = true
	return nil
}

// removed reports whether a held file, or a directory of held files, was removed.
func (h *Holder) removed(name string) bool {
	if !h.keeps.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.isRemoved(name)
}

// isRemoved is removed. mu is held.
func (h *Holder) isRemoved(name string) bool {
	f := h.now[name]
	return f != nil && f.removed || h.dirs[name]
}

func gone(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

// Create implements FS. A file may have the name of a removed one, which is then lost.
func (h *Holder) Create(name string) (File, error) {
	if !h.removed(name) {
		return h.FS.Create(name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.now[name]; f != nil && f.removed {
		if err := h.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		f.lost = true
		delete(h.now, name)
	}
	return h.FS.Create(name)
}

// MkdirAll implements FS. A removed directory is there again.
func (h *Holder) MkdirAll(name string) error {
	if h.keeps.Load() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for dir := name; dir != "." && dir != "/"; dir = path.Dir(dir) {
			delete(h.dirs, dir)
		}
	}
	return h.FS.MkdirAll(name)
}

// Open implements FS.
func (h *Holder) Open(name string) (File, error) {
	if h.removed(name) {
		return nil, gone("open", name)
	}
	return h.FS.Open(name)
}

// OpenRead implements FS.
func (h *Holder) OpenRead(name string) (File, error) {
	if h.removed(name) {
		return nil, gone("open", name)
	}
	return h.FS.OpenRead(name)
}

// Size implements FS.
func (h *Holder) Size(name string) (int64, error) {
	if h.removed(name) {
		return 0, gone("stat", name)
	}
	return h.FS.Size(name)
}

// List implements FS.
func (h *Holder) List(dir string) ([]string, error) {
	if !h.keeps.Load() {
		return h.FS.List(dir)
	}
	h.mu.Lock() // a release between list and filter would show the name of a file that is gone
	defer h.mu.Unlock()
	if h.isRemoved(dir) {
		return nil, gone("list", dir)
	}
	names, err := h.FS.List(dir)
	return slices.DeleteFunc(names, func(name string) bool { return h.isRemoved(path.Join(dir, name)) }), err
}

// Rename implements FS.
func (h *Holder) Rename(from, to string) error {
	if !h.keeps.Load() {
		return h.FS.Rename(from, to)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.now[from]; f != nil && f.removed {
		return gone("rename", from)
	}
	if err := h.FS.Rename(from, to); err != nil {
		return err
	}
	if f := h.now[to]; f != nil {
		f.lost = true
		delete(h.now, to)
	}
	if f := h.now[from]; f != nil {
		f.name = to
		delete(h.now, from)
		h.now[to] = f
	}
	return nil
}

// chmod, copyMode and device pass on what the file system below can do.
func (h *Holder) chmod(name string, mode fs.FileMode, widen bool) error {
	if inner, ok := h.FS.(moder); ok {
		return inner.chmod(name, mode, widen)
	}
	return nil
}

func (h *Holder) copyMode(from, to string) error { return CopyMode(h.FS, from, to) }

func (h *Holder) device(dir string) (string, error) { return Device(h.FS, dir), nil }
