package state

import (
	"errors"

	"drumbeat/disk"
	"drumbeat/internal/walk"
	"drumbeat/queue"
)

// ErrNoWalk is the error of a crawl that is no random walk, or whose walk is lost.
var ErrNoWalk = errors.New("the crawl has no random walk")

// LoadWalk returns the random walk of a manifest, as it continues under opt. It reads the log of the walk
// once.
func LoadWalk(set disk.Set, m *Manifest, opt walk.Options) (*walk.Walk, error) {
	st, err := Part[queue.State](m, NameWalkLog)
	switch {
	case err != nil:
		return nil, err
	case m.Walk.Len == 0 || st == nil:
		return nil, ErrNoWalk
	}
	walkers, err := disk.ReadTail(set, m.Walk)
	if err != nil {
		return nil, err
	}
	l := walk.NewLoader(opt)
	if _, err := queue.Scan(set, NameWalkLog, st, l.Record, nil); err != nil {
		return nil, err
	}
	return l.Walk(walkers)
}
