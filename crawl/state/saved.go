package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"drumbeat/disk"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// Saved is what a crawl has on disk: its directories, the last manifest, and what keys are made with. The running crawl stands
// on it, and so do audit, repair and explain, which have nothing of a crawl but this. Its methods change no fields unless they
// say so; then one goroutine calls them, before others read.
type Saved struct {
	Meter       *disk.Meter
	Set         disk.Set // state
	Out         disk.Set // output; empty when it lies in directories that weren't given
	CrawlID     string
	Manifest    *Manifest // of the last run; nil for a new crawl
	Hasher      *weburl.Hasher
	Suffixes    *weburl.Suffixes
	SeparateOut bool // output has directories of its own
	Locks       []io.Closer
}

// NewSaved knows the directories by their paths alone, in the order given.
func NewSaved(fsys disk.FS, dirs, out []string) *Saved {
	meter := disk.NewMeter(fsys)
	return &Saved{Meter: meter, Set: disk.Set{FS: meter, Paths: dirs}, Out: disk.Set{FS: meter, Paths: out}}
}

// Take reads what the crawl's files can't be read without, of directories that match found. outDirs are those of its output, if it
// has some of its own; with none, there is no output to be read. It sets the fields.
func (s *Saved) Take(match disk.Match, m *Manifest, outDirs []string) error {
	s.Set, s.Out = match.Set, match.Set
	s.CrawlID, s.Manifest, s.SeparateOut = match.Crawl, m, m.Frozen.SeparateOut
	if err := m.Whole(); err != nil {
		return err
	}
	if s.SeparateOut {
		if err := s.matchOut(outDirs); err != nil {
			return err
		}
	}
	secret, err := s.OpenSecret(m)
	if err != nil {
		return err
	}
	s.Hasher = weburl.NewHasher(secret)
	if s.Hasher.ContentKey([]byte(SecretCheckText)) != m.Frozen.SecretCheck {
		return fmt.Errorf("crawl: secret and manifest don't belong together: %w", ErrIncompatible)
	}
	return nil
}

// matchOut finds the output directories of the crawl, and sets out.
func (s *Saved) matchOut(paths []string) error {
	s.Out = disk.Set{FS: s.Meter}
	if len(paths) == 0 {
		return nil
	}
	match, err := disk.MatchIdentities(s.Meter, paths, KindOutput)
	if err == nil && match.Crawl != s.CrawlID {
		err = fmt.Errorf("output of crawl %q, not of %q", match.Crawl, s.CrawlID)
	}
	if err != nil {
		return MatchError(err)
	}
	s.Out = match.Set
	return nil
}

// Lock takes the lock of a directory. Unlock gives all back.
func (s *Saved) Lock(fsys disk.FS, dir string) error {
	lock, err := fsys.Lock(dir)
	if err != nil {
		return LockError(dir, err)
	}
	s.Locks = append(s.Locks, lock)
	return nil
}

// Unlock gives the locks back.
func (s *Saved) Unlock() error {
	var errs []error
	for _, l := range s.Locks {
		errs = append(errs, l.Close())
	}
	s.Locks = nil
	return errors.Join(errs...)
}

// OpenSuffixes reads the crawl's own copy of the public suffix list, and sets suffixes: keys of PLDs depend on it, so a newer program
// must not bring a newer list. Without one it writes the program's own, unless mustExist.
func (s *Saved) OpenSuffixes(private, mustExist bool) error {
	path := s.Set.Path(0, SuffixesName)
	data, err := disk.ReadFile(s.Set.FS, path)
	if err == nil {
		s.Suffixes, err = weburl.LoadSuffixes(data, private)
		if err != nil {
			return fmt.Errorf("crawl: suffix list %s: %w", path, err)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) || mustExist {
		return fmt.Errorf("crawl: read the suffix list: %w", err)
	}
	s.Suffixes = weburl.NewSuffixes(private)
	var b bytes.Buffer
	if _, err := s.Suffixes.WriteTo(&b); err != nil {
		return err
	}
	if err := disk.WriteFileAtomic(s.Set.FS, path, b.Bytes()); err != nil {
		return fmt.Errorf("crawl: write the suffix list: %w", err)
	}
	// Read back what was written: what is frozen must be what the next run will read.
	s.Suffixes, err = weburl.LoadSuffixes(b.Bytes(), private)
	return err
}

// WARCFiles are the WARC files, for reading.
func (s *Saved) WARCFiles() warc.Options { return warc.Options{Set: s.Out, State: s.Set} }

// PLDKey returns the key of the PLD that a host belongs to.
func (s *Saved) PLDKey(host []byte) uint64 { return s.Hasher.PLDKey(s.Suffixes.PLDBytes(host)) }

// HostKey returns the key by which politeness knows a host: one for all its ports and schemes, and for its name with a
// dot at the end.
func (s *Saved) HostKey(host []byte) uint64 {
	return s.Hasher.HostKey(bytes.TrimSuffix(host, []byte(".")))
}

// RefuseRepairing is an error when a repair has begun to change files and has not ended.
func (s *Saved) RefuseRepairing() error {
	_, err := s.Set.FS.Size(s.Set.Path(0, JournalName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = ErrRepairing
	}
	return fmt.Errorf("crawl: %s: %w", s.Set.Path(0), err)
}
