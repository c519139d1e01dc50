package measure

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"drumbeat/disk"
	"drumbeat/internal/human"
)

// Scratch is a temporary directory in each of the given directories.
type Scratch struct {
	name  string
	FS    disk.FS // the file system of Set; callers may replace it
	paths []string
	runs  int
}

// NewScratch creates the directories. It fails with syscall.ENOSPC if they have less than bytes of room in
// total.
func NewScratch(name string, dirs []string, bytes int64) (*Scratch, error) {
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails
	s := &Scratch{name: name, FS: disk.OS()}
	var free int64
	seen := map[uint64]bool{} // several directories on one file system share its room
	for _, dir := range dirs {
		abs, err := filepath.Abs(dir)
		var st unix.Stat_t
		if err == nil {
			err = unix.Stat(abs, &st)
		}
		if err != nil {
			return nil, fmt.Errorf("bench: %s: directory %s: %w", name, dir, err)
		}
		s.paths = append(s.paths, path.Join(abs, "drumbeat-bench-"+hex.EncodeToString(id[:])))
		if seen[st.Dev] {
			continue
		}
		seen[st.Dev] = true
		n, _, err := disk.OS().Space(abs)
		if err != nil {
			return nil, fmt.Errorf("bench: %s: free space of %s: %w", name, dir, err)
		}
		free += n
	}
	if free < bytes {
		return nil, fmt.Errorf("bench: %s: --dir has %s free, and the benchmark may need %s: choose another "+
			"directory or lower sizes: %w",
			name, human.Bytes(free), human.Bytes(bytes), unix.ENOSPC)
	}
	return s, nil
}

// Set removes the files of the last run and returns new directories.
func (s *Scratch) Set() (disk.Set, error) {
	if err := s.Remove(); err != nil {
		return disk.Set{}, err
	}
	s.runs++
	set := disk.Set{FS: s.FS}
	for _, p := range s.paths {
		p = path.Join(p, fmt.Sprint(s.runs))
		if err := set.FS.MkdirAll(p); err != nil {
			return set, fmt.Errorf("bench: %s: %w", s.name, err)
		}
		set.Paths = append(set.Paths, p)
	}
	return set, nil
}

// Remove removes all files and directories of s.
func (s *Scratch) Remove() error {
	var errs []error
	for _, p := range s.paths {
		if err := os.RemoveAll(p); err != nil {
			errs = append(errs, fmt.Errorf("bench: %s: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}

// DropPages drops a synced file from the page cache.
func DropPages(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("bench: drop pages: %w", err)
	}
	if err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		err = fmt.Errorf("bench: drop pages of %s: %w", name, err)
	}
	return errors.Join(err, f.Close())
}
