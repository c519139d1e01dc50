package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"drumbeat/disk"
	"drumbeat/internal/objstore"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// Saved is a crawl on disk: its directories, the last manifest and the source of its keys. The running
// crawl embeds one; audit, repair and explain read a crawl through it. Methods that set fields say so and
// must not run concurrently with others.
type Saved struct {
	Meter       *disk.Meter
	Set         disk.Set // state
	Out         disk.Set // output; empty if its separate directories were not given
	CrawlID     string
	Manifest    *Manifest // of the last run; nil for a new crawl
	Hasher      *weburl.Hasher
	Suffixes    *weburl.Suffixes
	SeparateOut bool // the output has separate directories
	Locks       []io.Closer

	// Objects are the crawl's files in the object store, set by Take. HideRemote, set before, says which of
	// them are not read when the local file is gone; nil: none. OpenStore, set before, opens the store; nil:
	// by S3.
	Objects    []Object
	HideRemote func(*Object) bool
	OpenStore  func(objstore.Place) (objstore.Bucket, error)
	overlay    *objstore.Overlay // nil without them
}

// NewSaved returns a Saved that knows only the paths of the directories, in the given order.
func NewSaved(fsys disk.FS, dirs, out []string) *Saved {
	meter := disk.NewMeter(fsys, slices.Concat(dirs, out)...)
	return &Saved{Meter: meter, Set: disk.Set{FS: meter, Paths: dirs}, Out: disk.Set{FS: meter, Paths: out}}
}

// Take sets the fields from matched directories and their manifest. outDirs are the separate output
// directories; empty if the caller does not read the output.
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
	if err := s.setHasher(secret, &m.Frozen); err != nil {
		return err
	}
	if s.Hasher.ContentKey([]byte(SecretCheckText)) != m.Frozen.SecretCheck {
		return fmt.Errorf("crawl: the secret does not belong to the manifest: %w", ErrIncompatible)
	}
	return s.remote(m)
}

// matchOut finds the output directories of the crawl and sets Out.
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

// Lock locks a directory until Unlock.
func (s *Saved) Lock(fsys disk.FS, dir string) error {
	lock, err := fsys.Lock(dir)
	if err != nil {
		return LockError(dir, err)
	}
	s.Locks = append(s.Locks, lock)
	return nil
}

// Unlock releases all locks.
func (s *Saved) Unlock() error {
	var errs []error
	for _, l := range s.Locks {
		errs = append(errs, l.Close())
	}
	s.Locks = nil
	return errors.Join(errs...)
}

// OpenSuffixes reads the crawl's own copy of the public suffix list and sets Suffixes. The keys of PLDs
// depend on the list, so a newer program must use the old one. If there is no copy, OpenSuffixes writes the
// program's list, unless mustExist is set.
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
	// Parse the written bytes, as the next run does: the frozen digest must be that of the file.
	s.Suffixes, err = weburl.LoadSuffixes(b.Bytes(), private)
	return err
}

// WARCFiles returns options for reading the WARC files.
func (s *Saved) WARCFiles() warc.Options { return warc.Options{Set: s.Out, State: s.Set} }

// PLDKey returns the key of a host's PLD.
func (s *Saved) PLDKey(host []byte) uint64 { return s.Hasher.PLDKey(s.Suffixes.PLDBytes(host)) }

// HostKey returns the key of a host for politeness. It is the same for all schemes and ports, and with or
// without a final dot.
func (s *Saved) HostKey(host []byte) uint64 { return s.Hasher.HostKey(weburl.TrimDot(host)) }

// RefuseRepairing returns ErrRepairing if a repair has started to change files and is unfinished, ErrMoving if
// a move of slots is, ErrReplacing if a replacement of the node is, and ErrErasing if an erasure is.
func (s *Saved) RefuseRepairing() error {
	if err := s.RefuseErasing(); err != nil {
		return err
	}
	if err := s.refuse(GiveName, ErrGiving); err != nil {
		return err
	}
	if err := s.refuse(JournalName, ErrRepairing); err != nil {
		return err
	}
	return errors.Join(s.RefuseMoving(), s.RefuseReplacing())
}

// RefuseErasing returns ErrErasing if an erasure is unfinished.
func (s *Saved) RefuseErasing() error { return s.refuse(EraseName, ErrErasing) }

// RefuseMoving returns ErrMoving if a move of slots is unfinished.
func (s *Saved) RefuseMoving() error { return s.refuse(MoveName, ErrMoving) }

// RefuseReplacing returns ErrReplacing if this node does not have its place yet.
func (s *Saved) RefuseReplacing() error { return s.refuse(ReplaceName, ErrReplacing) }

// refuse returns why if a file exists.
func (s *Saved) refuse(name string, why error) error {
	_, err := s.Set.FS.Size(s.Set.Path(0, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = why
	}
	return fmt.Errorf("crawl: %s: %w", s.Set.Path(0), err)
}
