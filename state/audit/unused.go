package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"drumbeat/beast"
	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/queue"
	"drumbeat/star"
	"drumbeat/state"
)

// EachUnused calls fn with each file under state that the manifest does not name, and that the next start deletes: from
// is -1. It also calls fn with each file that is longer than the manifest says, and that the next start cuts: from is
// the offset of the first byte that was written after the checkpoint, or that is padding. It leaves out tails.
func EachUnused(r *state.Saved, m *state.Manifest, fn func(path string, from int64) error) error {
	named := map[string]int64{}
	if err := EachNamed(r, m, func(file string, end int64) { named[file] = end }); err != nil {
		return err
	}
	for i := range r.Set.Paths {
		if err := unusedIn(r.Set.FS, r.Set.Path(i, "state"), named, fn); err != nil {
			return err
		}
	}
	return nil
}

// EachNamed calls fn with each file under state that the manifest names, and with the number of its first bytes that
// the crawl uses. That is math.MaxInt64 for caches, with gaps, and for files that have their end in themselves. The
// last call for a file counts.
func EachNamed(r *state.Saved, m *state.Manifest, fn func(file string, end int64)) error {
	for _, file := range slices.Concat(state.CopyPaths(r.Set, state.ManifestName),
		state.CopyPaths(r.Set, state.SecretName),
		[]string{r.Set.Path(0, state.SuffixesName), r.Set.Path(0, state.ChangesName)}) {
		fn(file, math.MaxInt64)
	}
	if err := eachStore(m, func(name string, st *drum.State) {
		for _, file := range drum.Files(r.Set, name, st) {
			fn(file, math.MaxInt64) // a cache file has replaced parts anywhere
		}
		for file, end := range drum.Sizes(r.Set, name, st.Waiting()) {
			fn(file, end)
		}
	}); err != nil {
		return err
	}
	return eachQueue(m, func(name string, st *queue.State) {
		for file, end := range queue.Sizes(r.Set, name, st) {
			fn(file, end)
		}
	})
}

// Store is a store that a manifest names.
type Store struct {
	Name  string
	State *drum.State
}

// Stores returns the stores that a manifest names. Those whose state cannot be read are left out: EachNamed reports
// the error.
func Stores(m *state.Manifest) (list []Store) {
	_ = eachStore(m, func(name string, st *drum.State) { list = append(list, Store{name, st}) })
	return list
}

// eachStore calls fn with the stores that a manifest names.
func eachStore(m *state.Manifest, fn func(name string, st *drum.State)) error {
	for _, name := range []string{state.NameURLSeen, state.NameNames, state.NameContent, state.NameRobotsCache,
		state.NameRobotsRequested, state.NameHostLinks} {
		if st, err := state.Part[drum.State](m, name); err != nil {
			return err
		} else if st != nil {
			fn(name, st)
		}
	}
	if st, err := state.Part[star.State](m, state.NameStar); err != nil {
		return err
	} else if st != nil {
		edges, indegree := star.Stores(state.NameStar)
		fn(edges, st.Edges)
		fn(indegree, st.Indegree)
	}
	return nil
}

// eachQueue calls fn with the queues that a manifest names.
func eachQueue(m *state.Manifest, fn func(name string, st *queue.State)) error {
	if st, err := state.Part[beast.State](m, state.NameBeast); err != nil {
		return err
	} else if st != nil {
		if err := beast.EachQueue(state.NameBeast, st,
			func(name string, _ beast.Number, q *queue.State) (*queue.State, error) {
				fn(name, q)
				return q, nil
			}); err != nil {
			return err
		}
	}
	for _, name := range []string{state.NameAwaitRobots, state.NameRobotsFetch, state.NameReady, state.NameHeld,
		state.NameRender, state.NameOrdered, state.NameObjects, state.NameWalkLog, state.NameQuarantine} {
		if st, err := state.Part[queue.State](m, name); err != nil {
			return err
		} else if st != nil {
			fn(name, st)
		}
	}
	for name := range m.Parts {
		if !strings.HasPrefix(name, state.OutboxPrefix) {
			continue
		}
		st, err := state.Part[cluster.OutboxState](m, name)
		if err != nil {
			return err
		}
		for part, q := range st.Queues(name) {
			fn(part, q)
		}
	}
	for _, name := range []string{state.NameDeferred, state.NameRobotsDeferred} {
		if st, err := state.Part[queue.CalendarState](m, name); err != nil {
			return err
		} else if st != nil {
			if err := queue.EachBin(name, st, func(name string, q *queue.State) (*queue.State, error) {
				fn(name, q)
				return q, nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

func unusedIn(fsys disk.FS, dir string, named map[string]int64, fn func(path string, from int64) error) error {
	names, err := fsys.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("crawl: list %s: %w", dir, err)
	}
	for _, name := range names {
		path := dir + "/" + name
		if strings.HasPrefix(name, "tails-") || name == state.DamagedDir {
			continue
		}
		from, is := named[path]
		if is {
			size, err := fsys.Size(path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("crawl: %w", err)
			}
			if size <= from {
				continue
			}
		} else if _, err := fsys.List(path); err == nil {
			if err := unusedIn(fsys, path, named, fn); err != nil {
				return err
			}
			continue
		} else {
			from = -1
		}
		if err := fn(path, from); err != nil {
			return err
		}
	}
	return nil
}
