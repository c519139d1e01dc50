package audit

import (
	"errors"
	"fmt"

	"drumbeat/crawl/state"
	"drumbeat/disk"
)

// match finds out which directory is which.
func (o *Options) match(fsys disk.FS) (disk.Match, error) {
	if !o.without {
		return disk.MatchIdentities(fsys, o.Dirs, state.KindState)
	}
	m, missing, err := disk.MatchSome(fsys, o.Dirs, state.KindState)
	if err != nil || len(missing) == 0 {
		return m, err
	}
	left := m.Set.Len() - len(missing)
	if missing[0] != left { // what is left must have the lowest numbers, by which the files are known
		return m, fmt.Errorf("directory %d of %d is missing, and a later one isn't: only the last ones can be let go", missing[0], m.Set.Len())
	}
	m.Set.Paths = m.Set.Paths[:left]
	return m, nil
}

// ErrHolds: a directory that was to be let go has files of the crawl.
var ErrHolds = errors.New("a missing directory holds files of the crawl")

// ForgetMissing lets those directories of a stopped crawl go that Dirs of opt don't name, if the crawl has nothing in them:
// every file is read first, as AuditDeep does. It returns how many are left and how many were let go.
func ForgetMissing(opt Options) (left, gone int, err error) {
	if opt.FS == nil {
		opt.FS = disk.OS()
	}
	_, missing, err := disk.MatchSome(opt.FS, opt.Dirs, state.KindState)
	if err != nil {
		return 0, 0, state.MatchError(err)
	}
	if len(missing) == 0 {
		return len(opt.Dirs), 0, nil
	}
	opt.without = true
	rep, err := Deep(opt)
	if err != nil && !errors.Is(err, state.ErrIncompatible) && !errors.Is(err, disk.ErrLocked) {
		err = fmt.Errorf("crawl: %w: %v", ErrHolds, err) // a state that names a directory which isn't there
	}
	if err != nil {
		return 0, 0, err
	}
	if rep.DamageCount > 0 || !rep.Balanced() {
		return 0, 0, fmt.Errorf("crawl: %w: %d files or pieces can't be read, and the books %s", ErrHolds, rep.DamageCount,
			map[bool]string{true: "balance", false: "don't balance"}[rep.Balanced()])
	}
	r, m, err := Open(&opt)
	if r != nil {
		defer func() { err = errors.Join(err, r.Unlock()) }()
	}
	if err != nil {
		return 0, 0, err
	}
	if m.Gen != rep.Checkpoint {
		return 0, 0, fmt.Errorf("crawl: %w: it went on meanwhile", state.ErrIncompatible)
	}
	left = r.Set.Len()
	for n := range left { // cut off in between, the highest count still wins: the command is given again
		id := disk.Identity{Crawl: r.CrawlID, Number: n, Count: left, Kind: state.KindState}
		if err := disk.WriteIdentity(opt.FS, r.Set.Path(n), id); err != nil {
			return 0, 0, fmt.Errorf("crawl: %w", err)
		}
	}
	return left, len(missing), nil
}
