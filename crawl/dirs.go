package crawl

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"drumbeat/disk"
	"drumbeat/weburl"
)

// The files of a crawl's first directory besides the manifest.
const (
	secretName   = "state/SECRET"
	suffixesName = "state/suffixes.txt"
	kindState    = "crawl"
	kindOutput   = "output"
)

// secretCheckText is hashed with the secret: a manifest and a secret that don't belong together are told apart.
const secretCheckText = "drumbeat secret check"

// takeDirectories locks the directories, finds out which is which and labels new ones. With no crawl in them, one
// begins.
func (r *ring) takeDirectories() error {
	separate := !slices.Equal(r.opt.Out, r.opt.Dirs)
	paths := r.opt.Dirs
	if separate {
		paths = append(slices.Clone(paths), r.opt.Out...)
	}
	for i, p := range paths {
		if slices.Contains(paths[:i], p) {
			return fmt.Errorf("crawl: directory %s is given twice", p)
		}
	}
	if err := r.lookAtDirectories(separate); err != nil {
		return err
	}
	for _, p := range paths {
		if err := r.opt.FS.MkdirAll(p); err != nil {
			return lockError(p, err)
		}
		lock, err := r.opt.FS.Lock(p)
		if err != nil {
			return lockError(p, err)
		}
		r.locks = append(r.locks, lock)
	}
	var err error
	if r.set, err = r.label(r.opt.Dirs, kindState); err != nil {
		return err
	}
	if err = r.refuseRepairing(); err != nil {
		return err
	}
	r.out = r.set
	if separate {
		if r.out, err = r.label(r.opt.Out, kindOutput); err != nil {
			return err
		}
	}
	r.separateOut = separate
	return nil
}

// NewDirectoryError: a directory that isn't among Options.AddDirs, or AddOut, was given to a crawl that has begun without it.
type NewDirectoryError struct {
	Known []string // the crawl's
	New   string
	Out   bool // it is one for output
}

func (e *NewDirectoryError) Error() string {
	if len(e.Known) == 1 {
		return fmt.Sprintf("%s is a crawl of one directory; %s is new", e.Known[0], e.New)
	}
	return fmt.Sprintf("%s is a crawl of %d directories; %s is new", e.Known[0], len(e.Known), e.New)
}

// Unwrap returns ErrIncompatible.
func (e *NewDirectoryError) Unwrap() error { return ErrIncompatible }

// CheckDirectories finds out what Run would find wrong with the directories. Nothing is made, changed or locked.
func CheckDirectories(opt *Options) error {
	o := *opt
	if len(o.Out) == 0 {
		o.Out = o.Dirs
	}
	r := newRing(o)
	return r.lookAtDirectories(!slices.Equal(o.Out, o.Dirs))
}

// KnownURLs is how many URLs the crawl in these directories knew at its last checkpoint; 0 if there is none, or it can't be read.
func KnownURLs(fsys disk.FS, dirs []string) int64 {
	state, _, err := disk.MatchSome(fsys, dirs, kindState)
	if err != nil || state.Set.Len() == 0 || state.Set.Paths[0] == "" {
		return 0
	}
	m, _, err := readManifest(state.Set)
	if err != nil || m == nil {
		return 0
	}
	return m.Accounts.Unique.N
}

// lookAtDirectories finds out what is wrong with the directories before anything is made: where a disk isn't mounted nothing
// may appear, and what is foreign stays as it is.
func (r *ring) lookAtDirectories(separate bool) error {
	state, err := disk.MatchIdentities(r.meter, r.opt.Dirs, kindState)
	if err != nil {
		return matchError(err)
	}
	var m *manifest
	if state.Set.Len() > 0 {
		if m, _, err = readManifest(state.Set); err != nil {
			return err
		}
	}
	if m != nil {
		for _, dir := range state.New {
			if !slices.Contains(r.opt.AddDirs, dir) {
				return &NewDirectoryError{Known: state.Set.Paths, New: dir}
			}
		}
	}
	if m != nil && m.Frozen.SeparateOut && !separate {
		return fmt.Errorf("crawl: the output of crawl %s lies in directories of its own, and none is given: %w", m.Crawl, ErrIncompatible)
	}
	if !separate {
		return nil
	}
	out, err := disk.MatchIdentities(r.meter, r.opt.Out, kindOutput)
	switch {
	case err != nil:
		return matchError(err)
	case m != nil && !m.Frozen.SeparateOut:
		return fmt.Errorf("crawl: the output of crawl %s lies with its state, not in %v: %w", m.Crawl, r.opt.Out, ErrIncompatible)
	case m != nil && out.Crawl == "":
		return fmt.Errorf("crawl: none of %v has output of crawl %s: is a disk not mounted? %w", r.opt.Out, m.Crawl, ErrIncompatible)
	case state.Crawl != "" && out.Crawl != "" && out.Crawl != state.Crawl:
		return fmt.Errorf("crawl: %v belong to crawl %s, not %s: %w", r.opt.Out, out.Crawl, state.Crawl, ErrIncompatible)
	}
	if m != nil {
		for _, dir := range out.New {
			if !slices.Contains(r.opt.AddOut, dir) {
				return &NewDirectoryError{Known: state.Set.Paths, New: dir, Out: true}
			}
		}
	}
	return nil
}

// matchError says what is wrong with directories: their content, or that the system doesn't let us look at it.
func matchError(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("crawl: %w: %w", ErrUnusable, err)
	}
	return fmt.Errorf("crawl: %w: %w", ErrIncompatible, err)
}

// lockError is that of a lock: another process has it, or there can't be one.
func lockError(dir string, err error) error {
	if !errors.Is(err, disk.ErrLocked) && !isFull(err) {
		err = fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return fmt.Errorf("crawl: directory %s: %w", dir, err)
}

// label matches the directories of one kind and gives new ones their identity.
func (r *ring) label(paths []string, kind string) (disk.Set, error) {
	m, err := disk.MatchIdentities(r.meter, paths, kind)
	if err != nil {
		return disk.Set{}, matchError(err)
	}
	if r.opt.New && kind == kindState && m.Crawl != "" {
		return disk.Set{}, fmt.Errorf("crawl: %s: %w (leave out --new to resume it)", paths[0], ErrExists)
	}
	if r.crawlID == "" {
		if r.crawlID = m.Crawl; r.crawlID == "" {
			id, err := weburl.NewSecret()
			if err != nil {
				return disk.Set{}, err
			}
			r.crawlID = id.Hex()
		}
	}
	if m.Crawl != "" && m.Crawl != r.crawlID {
		return disk.Set{}, fmt.Errorf("crawl: %s belong to crawl %s, not %s: %w", kind, m.Crawl, r.crawlID, ErrIncompatible)
	}
	set, err := disk.Label(m, r.crawlID, kind)
	if err != nil {
		return disk.Set{}, fmt.Errorf("crawl: %w", err)
	}
	return set, nil
}

// openIdentity reads the manifest and what is frozen: secret, suffix list; or makes them. The secret is durable before
// the first key exists.
func (r *ring) openIdentity() error {
	for i := range r.set.Len() {
		if err := r.set.FS.MkdirAll(r.set.Path(i, "state")); err != nil {
			return fmt.Errorf("crawl: %w", err)
		}
		if err := r.set.FS.SyncDir(r.set.Path(i)); err != nil {
			return fmt.Errorf("crawl: %w", err)
		}
	}
	m, bad, err := readManifest(r.set)
	if err != nil {
		return err
	}
	for _, err := range bad {
		r.opt.Log.Error("a manifest can't be used: a copy takes its place", "error", err, "checkpoint", m.Gen)
	}
	secret, err := r.openSecret(m)
	if err != nil {
		return err
	}
	r.hasher = weburl.NewHasher(secret)
	if err := r.openSuffixes(m != nil); err != nil {
		return err
	}
	r.frozen = frozen{SecretCheck: r.hasher.ContentKey([]byte(secretCheckText)), Suffixes: r.suffixes.Digest(),
		Private: r.opt.PrivateSuffixes, SeparateOut: r.separateOut, KeepEscapes: r.opt.KeepEscapes}
	if m == nil {
		return r.healCopies(secretName, secretFile(secret))
	}
	if m.Crawl != r.crawlID {
		return fmt.Errorf("crawl: manifest of crawl %s in a directory of crawl %s: %w", m.Crawl, r.crawlID, ErrIncompatible)
	}
	if m.Frozen != r.frozen {
		return fmt.Errorf("crawl: what a crawl can't change has changed: %s: %w", r.changedSince(m.Frozen), ErrIncompatible)
	}
	r.manifest = m
	if err := m.whole(); err != nil {
		return err
	}
	return r.healIdentity(m, secret)
}

// healIdentity makes the copies of manifest and secret the same before anything is deleted.
func (r *ring) healIdentity(m *manifest, secret weburl.Secret) error {
	data, err := encodeManifest(m)
	if err != nil {
		return err
	}
	if err := r.healCopies(secretName, secretFile(secret)); err != nil {
		return err
	}
	return r.healCopies(manifestName, data)
}

// changedSince names what isn't as it was when the crawl began.
func (r *ring) changedSince(was frozen) string {
	var list []string
	if was.SecretCheck != r.frozen.SecretCheck {
		list = append(list, fmt.Sprintf("%s is another secret", r.set.Path(0, secretName)))
	}
	if was.Private != r.frozen.Private {
		list = append(list, fmt.Sprintf("--private-suffixes was %v, is %v", was.Private, r.frozen.Private))
	}
	if was.Suffixes != r.frozen.Suffixes {
		list = append(list, fmt.Sprintf("the list of suffixes in %s has digest %s, had %s", r.set.Path(0, suffixesName), r.frozen.Suffixes,
			was.Suffixes))
	}
	if was.SeparateOut != r.frozen.SeparateOut {
		list = append(list, fmt.Sprintf("output in directories of its own (--out) was %v, is %v", was.SeparateOut, r.frozen.SeparateOut))
	}
	if was.KeepEscapes != r.frozen.KeepEscapes {
		word := map[bool]string{false: "fold", true: "keep"}
		list = append(list, fmt.Sprintf("--escapes was %s, is %s", word[was.KeepEscapes], word[r.frozen.KeepEscapes]))
	}
	return strings.Join(list, "; ")
}

// openSuffixes reads the crawl's own copy of the public suffix list: keys of PLDs depend on it, so a newer program must
// not bring a newer list.
func (r *ring) openSuffixes(mustExist bool) error {
	path := r.set.Path(0, suffixesName)
	data, err := disk.ReadFile(r.set.FS, path)
	if err == nil {
		r.suffixes, err = weburl.LoadSuffixes(bytes.NewReader(data), r.opt.PrivateSuffixes)
		if err != nil {
			return fmt.Errorf("crawl: suffix list %s: %w", path, err)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) || mustExist {
		return fmt.Errorf("crawl: read the suffix list: %w", err)
	}
	r.suffixes = weburl.NewSuffixes(r.opt.PrivateSuffixes)
	var b bytes.Buffer
	if _, err := r.suffixes.WriteTo(&b); err != nil {
		return err
	}
	if err := disk.WriteFileAtomic(r.set.FS, path, b.Bytes()); err != nil {
		return fmt.Errorf("crawl: write the suffix list: %w", err)
	}
	// Read back what was written: what is frozen must be what the next run will read.
	r.suffixes, err = weburl.LoadSuffixes(&b, r.opt.PrivateSuffixes)
	return err
}
