package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// syncState holds what an OS file system needs so that SyncFS misses no write-back error.
//
// Since Linux 5.8, syncfs reports a write-back error once to each descriptor opened before the error. A
// descriptor opened only for the call misses an error already reported to another process. So Lock opens
// the directory, and keeps the descriptor until the lock is released.
//
// Before 5.8, syncfs reports no write-back errors. There SyncFS syncs each file written since the last
// SyncFS. fsync reports the error unless the kernel has dropped the inode in the meantime.
type syncState struct {
	byFile bool // the kernel is older than 5.8

	// mu guards the fields below. It is not held during syncs.
	mu      sync.Mutex
	held    map[string]*os.File // of locked directories, by cleaned path
	written map[string]struct{} // with byFile: files written since the last SyncFS, by cleaned path
}

// syncfsReports reports whether syncfs of the running kernel returns write-back errors.
func syncfsReports() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	return atLeast58(unix.ByteSliceToString(u.Release[:]))
}

// atLeast58 parses a kernel release such as 6.1.0-18-amd64.
func atLeast58(release string) bool {
	var n [2]int
	for i := range n {
		digits := 0
		for digits < len(release) && digits < 6 && release[digits] >= '0' && release[digits] <= '9' {
			n[i] = 10*n[i] + int(release[digits]-'0')
			digits++
		}
		release = strings.TrimPrefix(release[digits:], ".")
	}
	return n[0] > 5 || n[0] == 5 && n[1] >= 8
}

// hold opens a directory for later syncs. Closing the result also releases lock.
func (s *syncState) hold(dir string, lock io.Closer) (io.Closer, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[string]*os.File{}
	}
	s.held[path.Clean(dir)] = f
	return &heldDir{s, path.Clean(dir), lock}, nil
}

// heldDir is a locked directory.
type heldDir struct {
	s    *syncState
	dir  string
	lock io.Closer
}

// Close closes the directory and releases the lock. A second call does nothing.
func (h *heldDir) Close() error {
	h.s.mu.Lock()
	f := h.s.held[h.dir]
	delete(h.s.held, h.dir)
	h.s.mu.Unlock()
	if f == nil {
		return nil
	}
	return errors.Join(f.Close(), h.lock.Close())
}

// SyncFS implements FS.
func (o *osFS) SyncFS(dir string) error {
	if err := o.sync.writtenFiles(dir); err != nil {
		return err
	}
	o.sync.mu.Lock()
	f := o.sync.held[path.Clean(dir)]
	o.sync.mu.Unlock()
	if f == nil {
		var err error
		if f, err = os.Open(dir); err != nil {
			return err
		}
		defer f.Close()
	}
	if err := retryInterrupted(func() error { return unix.Syncfs(int(f.Fd())) }); err != nil {
		return &fs.PathError{Op: "syncfs", Path: dir, Err: err}
	}
	return nil
}

// wrote records that a file's bytes have changed.
func (s *syncState) wrote(name string) {
	if !s.byFile {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written == nil {
		s.written = map[string]struct{}{}
	}
	s.written[path.Clean(name)] = struct{}{}
}

// renamed moves the record of a file to its new name.
func (s *syncState) renamed(from, to string) {
	if !s.byFile {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.written[path.Clean(from)]; ok {
		delete(s.written, path.Clean(from))
		s.written[path.Clean(to)] = struct{}{}
	}
}

// writtenFiles syncs the files below dir that were written since the last call. After an error it does not
// sync them again, because the crawl stops.
func (s *syncState) writtenFiles(dir string) error {
	if !s.byFile {
		return nil
	}
	below := path.Clean(dir) + "/"
	var names []string
	s.mu.Lock()
	for name := range s.written {
		if strings.HasPrefix(name, below) || below == "./" {
			names = append(names, name)
			delete(s.written, name)
		}
	}
	s.mu.Unlock()
	for _, name := range names {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
