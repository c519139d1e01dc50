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
func (c *crawler) takeDirectories() error {
	separate := !slices.Equal(c.opt.Out, c.opt.Dirs)
	paths := c.opt.Dirs
	if separate {
		paths = append(slices.Clone(paths), c.opt.Out...)
	}
	for i, p := range paths {
		if slices.Contains(paths[:i], p) {
			return fmt.Errorf("crawl: directory %s is given twice", p)
		}
	}
	if err := c.lookAtDirectories(separate); err != nil {
		return err
	}
	for _, p := range paths {
		if err := c.opt.FS.MkdirAll(p); err != nil {
			return state.LockError(p, err)
		}
		if err := c.Lock(c.opt.FS, p); err != nil {
			return err
		}
	}
	var err error
	if c.Set, err = c.label(c.opt.Dirs, state.KindState); err != nil {
		return err
	}
	if err = c.RefuseRepairing(); err != nil {
		return err
	}
	c.Out = c.Set
	if separate {
		if c.Out, err = c.label(c.opt.Out, state.KindOutput); err != nil {
			return err
		}
	}
	c.SeparateOut = separate
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
	c := newCrawler(o)
	return c.lookAtDirectories(!slices.Equal(o.Out, o.Dirs))
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
func (c *crawler) lookAtDirectories(separate bool) error {
	match, err := disk.MatchIdentities(c.Meter, c.opt.Dirs, state.KindState)
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
			if !slices.Contains(c.opt.AddDirs, dir) {
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
	out, err := disk.MatchIdentities(c.Meter, c.opt.Out, state.KindOutput)
	switch {
	case err != nil:
		return state.MatchError(err)
	case m != nil && !m.Frozen.SeparateOut:
		return fmt.Errorf("crawl: the output of crawl %s lies with its state, not in %v: %w", m.Crawl, c.opt.Out, state.ErrIncompatible)
	case m != nil && out.Crawl == "":
		return fmt.Errorf("crawl: none of %v has output of crawl %s: is a disk not mounted? %w", c.opt.Out, m.Crawl, state.ErrIncompatible)
	case match.Crawl != "" && out.Crawl != "" && out.Crawl != match.Crawl:
		return fmt.Errorf("crawl: %v belong to crawl %s, not %s: %w", c.opt.Out, out.Crawl, match.Crawl, state.ErrIncompatible)
	}
	if m != nil {
		for _, dir := range out.New {
			if !slices.Contains(c.opt.AddOut, dir) {
				return &NewDirectoryError{Known: match.Set.Paths, New: dir, Out: true}
			}
		}
	}
	return nil
}

// label matches the directories of one kind and gives new ones their identity.
func (c *crawler) label(paths []string, kind string) (disk.Set, error) {
	m, err := disk.MatchIdentities(c.Meter, paths, kind)
	if err != nil {
		return disk.Set{}, state.MatchError(err)
	}
	if c.opt.New && kind == state.KindState && m.Crawl != "" {
		return disk.Set{}, fmt.Errorf("crawl: %s: %w (leave out --new to resume it)", paths[0], state.ErrExists)
	}
	if c.CrawlID == "" {
		if c.CrawlID = m.Crawl; c.CrawlID == "" {
			id, err := weburl.NewSecret()
			if err != nil {
				return disk.Set{}, err
			}
			c.CrawlID = id.Hex()
		}
	}
	if m.Crawl != "" && m.Crawl != c.CrawlID {
		return disk.Set{}, fmt.Errorf("crawl: %s belong to crawl %s, not %s: %w", kind, m.Crawl, c.CrawlID, state.ErrIncompatible)
	}
	set, err := disk.Label(m, c.CrawlID, kind)
	if err != nil {
		return disk.Set{}, fmt.Errorf("crawl: %w", err)
	}
	return set, nil
}

// openIdentity reads the manifest and what is frozen: secret, suffix list; or makes them. The secret is durable before
// the first key exists.
func (c *crawler) openIdentity() error {
	for i := range c.Set.Len() {
		if err := c.Set.FS.MkdirAll(c.Set.Path(i, "state")); err != nil {
			return fmt.Errorf("crawl: %w", err)
		}
		if err := c.Set.FS.SyncDir(c.Set.Path(i)); err != nil {
			return fmt.Errorf("crawl: %w", err)
		}
	}
	m, bad, err := state.ReadManifest(c.Set)
	if err != nil {
		return err
	}
	for _, err := range bad {
		c.opt.Log.Error("a manifest can't be used: a copy takes its place", "error", err, "checkpoint", m.Gen)
	}
	secret, err := c.OpenSecret(m)
	if err != nil {
		return err
	}
	c.Hasher = weburl.NewHasher(secret)
	if err := c.OpenSuffixes(c.opt.PrivateSuffixes, m != nil); err != nil {
		return err
	}
	c.frozen = state.Frozen{SecretCheck: c.Hasher.ContentKey([]byte(state.SecretCheckText)), Suffixes: c.Suffixes.Digest(),
		Private: c.opt.PrivateSuffixes, SeparateOut: c.SeparateOut, KeepEscapes: c.opt.KeepEscapes}
	if m == nil {
		return c.HealCopies(state.SecretName, state.SecretFile(secret))
	}
	if m.Crawl != c.CrawlID {
		return fmt.Errorf("crawl: manifest of crawl %s in a directory of crawl %s: %w", m.Crawl, c.CrawlID, state.ErrIncompatible)
	}
	if m.Frozen != c.frozen {
		return fmt.Errorf("crawl: what a crawl can't change has changed: %s: %w", c.changedSince(m.Frozen), state.ErrIncompatible)
	}
	c.Manifest = m
	if err := m.Whole(); err != nil {
		return err
	}
	return c.healIdentity(m, secret)
}

// healIdentity makes the copies of manifest and secret the same before anything is deleted.
func (c *crawler) healIdentity(m *state.Manifest, secret weburl.Secret) error {
	data, err := state.EncodeManifest(m)
	if err != nil {
		return err
	}
	if err := c.HealCopies(state.SecretName, state.SecretFile(secret)); err != nil {
		return err
	}
	return c.HealCopies(state.ManifestName, data)
}

// changedSince names what isn't as it was when the crawl began.
func (c *crawler) changedSince(was state.Frozen) string {
	var list []string
	if was.SecretCheck != c.frozen.SecretCheck {
		list = append(list, fmt.Sprintf("%s is another secret", c.Set.Path(0, state.SecretName)))
	}
	if was.Private != c.frozen.Private {
		list = append(list, fmt.Sprintf("--private-suffixes was %v, is %v", was.Private, c.frozen.Private))
	}
	if was.Suffixes != c.frozen.Suffixes {
		list = append(list, fmt.Sprintf("the list of suffixes in %s has digest %s, had %s", c.Set.Path(0, state.SuffixesName), c.frozen.Suffixes,
			was.Suffixes))
	}
	if was.SeparateOut != c.frozen.SeparateOut {
		list = append(list, fmt.Sprintf("output in directories of its own (--out) was %v, is %v", was.SeparateOut, c.frozen.SeparateOut))
	}
	if was.KeepEscapes != c.frozen.KeepEscapes {
		word := map[bool]string{false: "fold", true: "keep"}
		list = append(list, fmt.Sprintf("--escapes was %s, is %s", word[was.KeepEscapes], word[c.frozen.KeepEscapes]))
	}
	return strings.Join(list, "; ")
}
