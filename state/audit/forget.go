package audit

import (
	"errors"
	"fmt"

	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
)

// match finds the number of each directory by its identity.
func (o *Options) match(fsys disk.FS) (disk.Match, error) {
	if !o.without {
		return disk.MatchIdentities(fsys, o.Dirs, state.KindState)
	}
	m, missing, err := disk.MatchSome(fsys, o.Dirs, state.KindState)
	if err != nil || len(missing) == 0 {
		return m, err
	}
	left := m.Set.Len() - len(missing)
	if missing[0] != left { // files name directories by number, so the remaining numbers must have no gap
		return m, fmt.Errorf("directory %d of %d is missing, but a later one is not: only the last "+
			"directories can be removed", missing[0], m.Set.Len())
	}
	m.Set.Paths = m.Set.Paths[:left]
	return m, nil
}

// ErrHolds means that a directory to forget holds files of the crawl.
var ErrHolds = errors.New("a missing directory holds files of the crawl")

// ForgetMissing removes from a stopped crawl the directories that opt.Dirs does not name, if they hold
// nothing of the crawl. It first runs Deep on the others. It returns the numbers of remaining and removed
// directories.
func ForgetMissing(opt Options) (left, gone int, err error) {
	if opt.FS == nil {
		opt.FS = disk.OS()
	}
	match, missing, err := disk.MatchSome(opt.FS, opt.Dirs, state.KindState)
	if err != nil {
		return 0, 0, state.MatchError(err)
	}
	if match.Crawl == "" {
		return 0, 0, state.NoCrawl(opt.Dirs[0])
	}
	if len(missing) == 0 {
		return len(opt.Dirs), 0, nil
	}
	opt.without = true
	rep, err := Deep(opt)
	if err != nil && !errors.Is(err, state.ErrIncompatible) && !errors.Is(err, disk.ErrLocked) {
		err = fmt.Errorf("crawl: %w: %v", ErrHolds, err) // the state names a missing directory
	}
	if err != nil {
		return 0, 0, err
	}
	if rep.DamageCount > 0 || !rep.Balanced() {
		return 0, 0, fmt.Errorf("crawl: %w: %s or pieces are unreadable, and the accounts %s", ErrHolds,
			human.Counted(rep.DamageCount, "file", "files"),
			map[bool]string{true: "balance", false: "don't balance"}[rep.Report.Balanced()])
	}
	r, m, err := Open(&opt)
	if r != nil {
		defer func() { err = errors.Join(err, r.Unlock()) }()
	}
	if err != nil {
		return 0, 0, err
	}
	if m.Gen != rep.Checkpoint {
		return 0, 0, fmt.Errorf("crawl: %w: the crawl continued during the check", state.ErrIncompatible)
	}
	left = r.Set.Len()
	// After a crash in this loop the highest count wins, and the operator repeats the command.
	for n := range left {
		id := disk.Identity{Crawl: r.CrawlID, Number: n, Count: left, Kind: state.KindState}
		if err := disk.WriteIdentity(opt.FS, r.Set.Path(n), id); err != nil {
			return 0, 0, fmt.Errorf("crawl: %w", err)
		}
	}
	return left, len(missing), nil
}
