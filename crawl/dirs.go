package crawl

import (
	"fmt"
	"slices"
	"strings"

	"drumbeat/crawl/strategy"
	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/weburl"
)

// takeDirectories locks the directories, identifies them and labels new ones. If they hold no crawl, a new
// one begins.
func (k *checkpointer) takeDirectories() error {
	separate := !slices.Equal(k.opt.Disk.Out, k.opt.Disk.Dirs)
	paths := k.opt.Disk.Dirs
	if separate {
		paths = append(slices.Clone(paths), k.opt.Disk.Out...)
	}
	for i, p := range paths {
		if slices.Contains(paths[:i], p) {
			return fmt.Errorf("crawl: directory %s is given twice", p)
		}
	}
	if err := k.lookAtDirectories(separate); err != nil {
		return err
	}
	if err := k.limit.Count(); err != nil {
		return fmt.Errorf("crawl: disk in use: %w", err)
	}
	for _, p := range paths {
		if err := k.opt.Disk.FS.MkdirAll(p); err != nil {
			return state.LockError(p, err)
		}
		if err := k.Lock(k.opt.Disk.FS, p); err != nil {
			return err
		}
	}
	var err error
	if k.Set, err = k.label(k.opt.Disk.Dirs, state.KindState); err != nil {
		return err
	}
	if err = k.RefuseRepairing(); err != nil {
		return err
	}
	k.Out = k.Set
	if separate {
		if k.Out, err = k.label(k.opt.Disk.Out, state.KindOutput); err != nil {
			return err
		}
	}
	k.SeparateOut = separate
	return nil
}

// NewDirectoryError reports a directory that is new to an existing crawl and not among Options.Disk.AddDirs or
// AddOut.
type NewDirectoryError struct {
	Known []string // directories of the crawl
	New   string
	Out   bool // New is for output
}

func (e *NewDirectoryError) Error() string {
	if len(e.Known) == 1 {
		return fmt.Sprintf("%s is a crawl of one directory; %s is new", e.Known[0], e.New)
	}
	return fmt.Sprintf("%s is a crawl of %d directories; %s is new", e.Known[0], len(e.Known), e.New)
}

// Unwrap returns ErrIncompatible.
func (e *NewDirectoryError) Unwrap() error { return state.ErrIncompatible }

// CheckDirectories returns the errors that Run would find in the directories. It creates, changes and locks
// nothing.
func CheckDirectories(opt *Options) error {
	o := *opt
	if len(o.Disk.Out) == 0 {
		o.Disk.Out = o.Disk.Dirs
	}
	c := newCrawler(o)
	return c.checkpointer.lookAtDirectories(!slices.Equal(o.Disk.Out, o.Disk.Dirs))
}

// KnownURLs returns the number of URLs known at the last checkpoint of the crawl in dirs; 0 if there is
// none or it cannot be read.
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

// lookAtDirectories checks the directories before anything is created. Nothing may appear in a directory
// whose disk is not mounted, and foreign files stay unchanged.
func (k *checkpointer) lookAtDirectories(separate bool) error {
	match, err := disk.MatchIdentities(k.Meter, k.opt.Disk.Dirs, state.KindState)
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
			if !slices.Contains(k.opt.Disk.AddDirs, dir) {
				return &NewDirectoryError{Known: match.Set.Paths, New: dir}
			}
		}
	}
	if m != nil && m.Frozen.SeparateOut && !separate {
		return fmt.Errorf("crawl: the output of crawl %s is in separate directories, but no --out is given: %w",
			m.Crawl, state.ErrIncompatible)
	}
	if !separate {
		return nil
	}
	out, err := disk.MatchIdentities(k.Meter, k.opt.Disk.Out, state.KindOutput)
	switch {
	case err != nil:
		return state.MatchError(err)
	case m != nil && !m.Frozen.SeparateOut:
		return fmt.Errorf("crawl: the output of crawl %s is in its state directories, not in %v: %w",
			m.Crawl, k.opt.Disk.Out, state.ErrIncompatible)
	case m != nil && out.Crawl == "":
		return fmt.Errorf("crawl: none of %v has output of crawl %s: is a disk not mounted? %w",
			k.opt.Disk.Out, m.Crawl, state.ErrIncompatible)
	case match.Crawl != "" && out.Crawl != "" && out.Crawl != match.Crawl:
		return fmt.Errorf("crawl: %v belong to crawl %s, not %s: %w",
			k.opt.Disk.Out, out.Crawl, match.Crawl, state.ErrIncompatible)
	}
	if m != nil {
		for _, dir := range out.New {
			if !slices.Contains(k.opt.Disk.AddOut, dir) {
				return &NewDirectoryError{Known: match.Set.Paths, New: dir, Out: true}
			}
		}
	}
	return nil
}

// label matches the directories of one kind and writes the identity of new ones.
func (k *checkpointer) label(paths []string, kind string) (disk.Set, error) {
	m, err := disk.MatchIdentities(k.Meter, paths, kind)
	if err != nil {
		return disk.Set{}, state.MatchError(err)
	}
	if k.opt.Disk.New && kind == state.KindState && m.Crawl != "" {
		return disk.Set{}, fmt.Errorf("crawl: %s: %w (leave out --new to resume it)", paths[0], state.ErrExists)
	}
	if k.CrawlID == "" {
		if k.CrawlID = m.Crawl; k.CrawlID == "" {
			id, err := weburl.NewSecret()
			if err != nil {
				return disk.Set{}, err
			}
			k.CrawlID = id.Hex()
		}
	}
	if m.Crawl != "" && m.Crawl != k.CrawlID {
		return disk.Set{}, fmt.Errorf("crawl: %s belong to crawl %s, not %s: %w",
			kind, m.Crawl, k.CrawlID, state.ErrIncompatible)
	}
	set, err := disk.Label(m, k.CrawlID, kind)
	if err != nil {
		return disk.Set{}, fmt.Errorf("crawl: %w", err)
	}
	return set, nil
}

// openIdentity reads the manifest, the secret and the suffix list, or creates them. The secret is durable
// before the first key exists.
func (k *checkpointer) openIdentity() error {
	for i := range k.Set.Len() {
		if err := k.Set.FS.MkdirAll(k.Set.Path(i, "state")); err != nil {
			return fmt.Errorf("crawl: %w", err)
		}
		if err := k.Set.FS.SyncDir(k.Set.Path(i)); err != nil {
			return fmt.Errorf("crawl: %w", err)
		}
	}
	m, bad, err := state.ReadManifest(k.Set)
	if err != nil {
		return err
	}
	for _, err := range bad {
		k.opt.Observe.Log.Error("a manifest is unusable: using a copy", "error", err, "checkpoint", m.Gen)
	}
	if cl := k.opt.Cluster; cl != nil && m == nil {
		if err := k.HealCopies(state.SecretName, state.SecretFile(cl.Secret)); err != nil {
			return fmt.Errorf("crawl: write the hash secret: %w", err)
		}
	}
	secret, err := k.OpenSecret(m)
	if err != nil {
		return err
	}
	k.Hasher = weburl.NewHasher(secret)
	if err := k.OpenSuffixes(k.opt.Admission.PrivateSuffixes, m != nil); err != nil {
		return err
	}
	if k.opt.Cluster != nil {
		k.Hasher = k.Hasher.WithSlots(k.Suffixes)
	}
	if err := k.fixLanes(m); err != nil {
		return err
	}
	k.frozen = state.Frozen{SecretCheck: k.Hasher.ContentKey([]byte(state.SecretCheckText)),
		Suffixes: k.Suffixes.Digest(), Private: k.opt.Admission.PrivateSuffixes, SeparateOut: k.SeparateOut,
		KeepEscapes: k.opt.Admission.KeepEscapes, Walk: k.opt.walks()}
	if k.opt.Order.Lanes > 1 {
		k.frozen.Lanes = k.opt.Order.Lanes
	}
	if cl := k.opt.Cluster; cl != nil {
		if secret != cl.Secret {
			return fmt.Errorf("crawl: the directories have another secret than the cluster: %w", state.ErrIncompatible)
		}
		k.frozen.Nodes, k.frozen.Node, k.frozen.Table = cl.Table.Nodes(), cl.Node, cl.Table.Sum()
		k.frozen.Slots = state.SlotsOf(cl.Table, cl.Node)
	}
	if m == nil {
		return k.HealCopies(state.SecretName, state.SecretFile(secret))
	}
	if m.Crawl != k.CrawlID {
		return fmt.Errorf("crawl: manifest of crawl %s in a directory of crawl %s: %w",
			m.Crawl, k.CrawlID, state.ErrIncompatible)
	}
	if m.Frozen != k.frozen {
		return fmt.Errorf("crawl: settings that are fixed for a crawl have changed: %s: %w",
			k.changedSince(m.Frozen), state.ErrIncompatible)
	}
	if err := k.uploads.Accept(m); err != nil {
		return err
	}
	k.Manifest = m
	if err := m.Whole(); err != nil {
		return err
	}
	return k.healIdentity(m, secret)
}

// healIdentity makes all copies of manifest and secret equal before anything is deleted.
func (k *checkpointer) healIdentity(m *state.Manifest, secret weburl.Secret) error {
	data, err := state.EncodeManifest(m)
	if err != nil {
		return err
	}
	if err := k.HealCopies(state.SecretName, state.SecretFile(secret)); err != nil {
		return err
	}
	return k.HealCopies(state.ManifestName, data)
}

// changedSince describes the fixed settings that have changed since the crawl began.
func (k *checkpointer) changedSince(was state.Frozen) string {
	var list []string
	if was.SecretCheck != k.frozen.SecretCheck {
		list = append(list, fmt.Sprintf("%s has another secret", k.Set.Path(0, state.SecretName)))
	}
	if was.Private != k.frozen.Private {
		list = append(list, fmt.Sprintf("--private-suffixes was %v, is %v", was.Private, k.frozen.Private))
	}
	if was.Suffixes != k.frozen.Suffixes {
		list = append(list, fmt.Sprintf("the suffix list in %s has digest %s, had %s",
			k.Set.Path(0, state.SuffixesName), k.frozen.Suffixes, was.Suffixes))
	}
	if was.SeparateOut != k.frozen.SeparateOut {
		list = append(list, fmt.Sprintf("separate output directories (--out) was %v, is %v",
			was.SeparateOut, k.frozen.SeparateOut))
	}
	if was.KeepEscapes != k.frozen.KeepEscapes {
		word := map[bool]string{false: "fold", true: "keep"}
		list = append(list,
			fmt.Sprintf("--canonical escapes was %s, is %s", word[was.KeepEscapes], word[k.frozen.KeepEscapes]))
	}
	if was.Walk != k.frozen.Walk {
		list = append(list,
			fmt.Sprintf("a random walk (--strategy %s) was %v, is %v", strategy.RandomWalk, was.Walk, k.frozen.Walk))
	}
	if was.Nodes != k.frozen.Nodes || was.Node != k.frozen.Node {
		list = append(list, fmt.Sprintf("the crawl was node %d of %d, is node %d of %d (0 of 0: not in a cluster)",
			was.Node, was.Nodes, k.frozen.Node, k.frozen.Nodes))
	}
	if was.Table != k.frozen.Table {
		list = append(list, "the table of owners is another")
	} else if was.Slots != k.frozen.Slots {
		list = append(list, "the keys have no slots: a development version began the crawl")
	}
	if was.Lanes != k.frozen.Lanes {
		list = append(list,
			fmt.Sprintf("the number of lanes (--priority lanes) was %d, is %d", max(1, was.Lanes), k.opt.Order.Lanes))
	}
	return strings.Join(list, "; ")
}
