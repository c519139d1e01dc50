package dirs

import (
	"fmt"
	"log/slog"
	"slices"

	"drumbeat/cluster"
	"drumbeat/crawl/options"
	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Options are the options of an Opener.
type Options struct {
	Log  *slog.Logger
	Disk *options.Disk
	// Count measures the files of the crawl. It is called before anything is created.
	Count func() error

	// The settings that are fixed for a crawl.
	Private     bool // the suffix list has private suffixes
	KeepEscapes bool
	Walk        bool // the crawl is a random walk
	Parts       state.BudgetParts
	// Lanes returns the number of lanes: that of the manifest, or of the options for a new crawl (m is nil).
	Lanes func(m *state.Manifest) (int, error)
	// Accept returns what else of a manifest this run does not fit.
	Accept func(m *state.Manifest) error

	// Table and Node say which node of a cluster this crawl is; a nil Table: it has one node. Secret is the
	// cluster's, or with Since that of earlier crawls, which a new crawl takes.
	Since  bool
	Table  *cluster.Table
	Adopt  bool // Table follows that of the manifest
	Node   int
	Secret weburl.Secret
}

// Opener opens the directories of a crawl.
type Opener struct {
	saved *state.Saved
	opt   Options
}

// New returns an Opener, which sets the fields of saved.
func New(saved *state.Saved, opt Options) *Opener { return &Opener{saved: saved, opt: opt} }

// Take locks the directories, identifies them and labels new ones. If they hold no crawl, a new
// one begins.
func (d *Opener) Take() error {
	separate := d.separate()
	paths := d.opt.Disk.Dirs
	if separate {
		paths = append(slices.Clone(paths), d.opt.Disk.Out...)
	}
	for i, p := range paths {
		if slices.Contains(paths[:i], p) {
			return fmt.Errorf("crawl: directory %s is given twice", p)
		}
	}
	if err := d.look(); err != nil {
		return err
	}
	if err := d.opt.Count(); err != nil {
		return fmt.Errorf("crawl: disk in use: %w", err)
	}
	for _, p := range paths {
		if err := d.opt.Disk.FS.MkdirAll(p); err != nil {
			return state.LockError(p, err)
		}
		if err := d.saved.Lock(d.opt.Disk.FS, p); err != nil {
			return err
		}
	}
	var err error
	if d.saved.Set, err = d.label(d.opt.Disk.Dirs, state.KindState); err != nil {
		return err
	}
	if err = d.saved.RefuseRepairing(); err != nil {
		return err
	}
	d.saved.Out = d.saved.Set
	if separate {
		if d.saved.Out, err = d.label(d.opt.Disk.Out, state.KindOutput); err != nil {
			return err
		}
	}
	d.saved.SeparateOut = separate
	return nil
}

// NewDirectoryError reports a directory that is new to an existing crawl and not among options.Disk.AddDirs
// or AddOut.
type NewDirectoryError struct {
	Known []string // directories of the crawl
	New   string
	Out   bool // New is for output
}

func (e *NewDirectoryError) Error() string {
	if len(e.Known) == 1 {
		return fmt.Sprintf("the crawl in %s has one directory; %s is new", e.Known[0], e.New)
	}
	return fmt.Sprintf("the crawl in %s has %d directories; %s is new", e.Known[0], len(e.Known), e.New)
}

// Unwrap returns ErrIncompatible.
func (e *NewDirectoryError) Unwrap() error { return state.ErrIncompatible }

// Check returns the errors that Take would find in the directories. It creates, changes and locks nothing.
func Check(opt options.Disk) error {
	opt.Defaults()
	return New(state.NewSaved(opt.FS, opt.Dirs, opt.Out), Options{Disk: &opt}).look()
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

// separate reports whether the output has directories of its own.
func (d *Opener) separate() bool { return !slices.Equal(d.opt.Disk.Out, d.opt.Disk.Dirs) }

// look checks the directories before anything is created. Nothing may appear in a directory whose disk is
// not mounted, and foreign files stay unchanged.
func (d *Opener) look() error {
	separate := d.separate()
	match, err := disk.MatchIdentities(d.saved.Meter, d.opt.Disk.Dirs, state.KindState)
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
			if !slices.Contains(d.opt.Disk.AddDirs, dir) {
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
	out, err := disk.MatchIdentities(d.saved.Meter, d.opt.Disk.Out, state.KindOutput)
	switch {
	case err != nil:
		return state.MatchError(err)
	case m != nil && !m.Frozen.SeparateOut:
		return fmt.Errorf("crawl: the output of crawl %s is in its state directories, not in %v: %w",
			m.Crawl, d.opt.Disk.Out, state.ErrIncompatible)
	case m != nil && out.Crawl == "":
		return fmt.Errorf("crawl: no output of crawl %[2]s in %[1]v: is a disk not mounted? %[3]w",
			d.opt.Disk.Out, m.Crawl, state.ErrIncompatible)
	case match.Crawl != "" && out.Crawl != "" && out.Crawl != match.Crawl:
		return fmt.Errorf("crawl: %v belong to crawl %s, not %s: %w",
			d.opt.Disk.Out, out.Crawl, match.Crawl, state.ErrIncompatible)
	}
	if m != nil {
		for _, dir := range out.New {
			if !slices.Contains(d.opt.Disk.AddOut, dir) {
				return &NewDirectoryError{Known: match.Set.Paths, New: dir, Out: true}
			}
		}
	}
	return nil
}

// label matches the directories of one kind and writes the identity of new ones.
func (d *Opener) label(paths []string, kind string) (disk.Set, error) {
	m, err := disk.MatchIdentities(d.saved.Meter, paths, kind)
	if err != nil {
		return disk.Set{}, state.MatchError(err)
	}
	if d.opt.Disk.New && kind == state.KindState && m.Crawl != "" {
		return disk.Set{}, fmt.Errorf("crawl: %s: %w (leave out --new to resume it)", paths[0], state.ErrExists)
	}
	if d.saved.CrawlID == "" {
		if d.saved.CrawlID = m.Crawl; d.saved.CrawlID == "" {
			id, err := weburl.NewSecret()
			if err != nil {
				return disk.Set{}, err
			}
			d.saved.CrawlID = id.Hex()
		}
	}
	if m.Crawl != "" && m.Crawl != d.saved.CrawlID {
		return disk.Set{}, fmt.Errorf("crawl: %s belong to crawl %s, not %s: %w",
			kind, m.Crawl, d.saved.CrawlID, state.ErrIncompatible)
	}
	set, err := disk.Label(m, d.saved.CrawlID, kind)
	if err != nil {
		return disk.Set{}, fmt.Errorf("crawl: %w", err)
	}
	return set, nil
}
