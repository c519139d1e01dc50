package crawl

import (
	"fmt"
	"slices"
	"strings"

	"drumbeat/crawl/state"
	"drumbeat/disk"
	"drumbeat/weburl"
)

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
			return state.LockError(p, err)
		}
		if err := r.Lock(r.opt.FS, p); err != nil {
			return err
		}
	}
	var err error
	if r.Set, err = r.label(r.opt.Dirs, state.KindState); err != nil {
		return err
	}
	if err = r.RefuseRepairing(); err != nil {
		return err
	}
	r.Out = r.Set
	if separate {
		if r.Out, err = r.label(r.opt.Out, state.KindOutput); err != nil {
			return err
		}
	}
	r.SeparateOut = separate
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
func (e *NewDirectoryError) Unwrap() error { return state.ErrIncompatible }

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
	match, _, err := disk.MatchSome(fsys, dirs, state.KindState)
	if err != nil || match.Set.Len() == 0 || match.Set.Paths[0] == "" {
		return 0
	}
	m, _, err := state.ReadManifest(match.Set)
	if err != nil || m == nil {
		return 0
	}
	return m.Accounts.Unique.N
}

// lookAtDirectories finds out what is wrong with the directories before anything is made: where a disk isn't mounted nothing
// may appear, and what is foreign stays as it is.
func (r *ring) lookAtDirectories(separate bool) error {
	match, err := disk.MatchIdentities(r.Meter, r.opt.Dirs, state.KindState)
	if err != nil {
		return state.MatchError(err)
	}
	var m *state.Manifest
	if match.Set.Len() > 0 {
		if m, _, err = state.ReadManifest(match.Set); err != nil {
			return err
		}
	}
	if m != nil {
		for _, dir := range match.New {
			if !slices.Contains(r.opt.AddDirs, dir) {
				return &NewDirectoryError{Known: match.Set.Paths, New: dir}
			}
		}
	}
	if m != nil && m.Frozen.SeparateOut && !separate {
		return fmt.Errorf("crawl: the output of crawl %s lies in directories of its own, and none is given: %w", m.Crawl, state.ErrIncompatible)
	}
	if !separate {
		return nil
	}
	out, err := disk.MatchIdentities(r.Meter, r.opt.Out, state.KindOutput)
	switch {
	case err != nil:
		return state.MatchError(err)
	case m != nil && !m.Frozen.SeparateOut:
		return fmt.Errorf("crawl: the output of crawl %s lies with its state, not in %v: %w", m.Crawl, r.opt.Out, state.ErrIncompatible)
	case m != nil && out.Crawl == "":
		return fmt.Errorf("crawl: none of %v has output of crawl %s: is a disk not mounted? %w", r.opt.Out, m.Crawl, state.ErrIncompatible)
	case match.Crawl != "" && out.Crawl != "" && out.Crawl != match.Crawl:
		return fmt.Errorf("crawl: %v belong to crawl %s, not %s: %w", r.opt.Out, out.Crawl, match.Crawl, state.ErrIncompatible)
	}
	if m != nil {
		for _, dir := range out.New {
			if !slices.Contains(r.opt.AddOut, dir) {
				return &NewDirectoryError{Known: match.Set.Paths, New: dir, Out: true}
			}
		}
	}
	return nil
}

// label matches the directories of one kind and gives new ones their identity.
func (r *ring) label(paths []string, kind string) (disk.Set, error) {
	m, err := disk.MatchIdentities(r.Meter, paths, kind)
	if err != nil {
		return disk.Set{}, state.MatchError(err)
	}
	if r.opt.New && kind == state.KindState && m.Crawl != "" {
		return disk.Set{}, fmt.Errorf("crawl: %s: %w (leave out --new to resume it)", paths[0], state.ErrExists)
	}
	if r.CrawlID == "" {
		if r.CrawlID = m.Crawl; r.CrawlID == "" {
			id, err := weburl.NewSecret()
			if err != nil {
				return disk.Set{}, err
			}
			r.CrawlID = id.Hex()
		}
	}
	if m.Crawl != "" && m.Crawl != r.CrawlID {
		return disk.Set{}, fmt.Errorf("crawl: %s belong to crawl %s, not %s: %w", kind, m.Crawl, r.CrawlID, state.ErrIncompatible)
	}
	set, err := disk.Label(m, r.CrawlID, kind)
	if err != nil {
		return disk.Set{}, fmt.Errorf("crawl: %w", err)
	}
	return set, nil
}

// openIdentity reads the manifest and what is frozen: secret, suffix list; or makes them. The secret is durable before
// the first key exists.
func (r *ring) openIdentity() error {
	for i := range r.Set.Len() {
		if err := r.Set.FS.MkdirAll(r.Set.Path(i, "state")); err != nil {
			return fmt.Errorf("crawl: %w", err)
		}
		if err := r.Set.FS.SyncDir(r.Set.Path(i)); err != nil {
			return fmt.Errorf("crawl: %w", err)
		}
	}
	m, bad, err := state.ReadManifest(r.Set)
	if err != nil {
		return err
	}
	for _, err := range bad {
		r.opt.Log.Error("a manifest can't be used: a copy takes its place", "error", err, "checkpoint", m.Gen)
	}
	secret, err := r.OpenSecret(m)
	if err != nil {
		return err
	}
	r.Hasher = weburl.NewHasher(secret)
	if err := r.OpenSuffixes(r.opt.PrivateSuffixes, m != nil); err != nil {
		return err
	}
	r.frozen = state.Frozen{SecretCheck: r.Hasher.ContentKey([]byte(state.SecretCheckText)), Suffixes: r.Suffixes.Digest(),
		Private: r.opt.PrivateSuffixes, SeparateOut: r.SeparateOut, KeepEscapes: r.opt.KeepEscapes}
	if m == nil {
		return r.HealCopies(state.SecretName, state.SecretFile(secret))
	}
	if m.Crawl != r.CrawlID {
		return fmt.Errorf("crawl: manifest of crawl %s in a directory of crawl %s: %w", m.Crawl, r.CrawlID, state.ErrIncompatible)
	}
	if m.Frozen != r.frozen {
		return fmt.Errorf("crawl: what a crawl can't change has changed: %s: %w", r.changedSince(m.Frozen), state.ErrIncompatible)
	}
	r.Manifest = m
	if err := m.Whole(); err != nil {
		return err
	}
	return r.healIdentity(m, secret)
}

// healIdentity makes the copies of manifest and secret the same before anything is deleted.
func (r *ring) healIdentity(m *state.Manifest, secret weburl.Secret) error {
	data, err := state.EncodeManifest(m)
	if err != nil {
		return err
	}
	if err := r.HealCopies(state.SecretName, state.SecretFile(secret)); err != nil {
		return err
	}
	return r.HealCopies(state.ManifestName, data)
}

// changedSince names what isn't as it was when the crawl began.
func (r *ring) changedSince(was state.Frozen) string {
	var list []string
	if was.SecretCheck != r.frozen.SecretCheck {
		list = append(list, fmt.Sprintf("%s is another secret", r.Set.Path(0, state.SecretName)))
	}
	if was.Private != r.frozen.Private {
		list = append(list, fmt.Sprintf("--private-suffixes was %v, is %v", was.Private, r.frozen.Private))
	}
	if was.Suffixes != r.frozen.Suffixes {
		list = append(list, fmt.Sprintf("the list of suffixes in %s has digest %s, had %s", r.Set.Path(0, state.SuffixesName), r.frozen.Suffixes,
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
