package erase

import (
	"encoding/binary"
	"errors"
	"fmt"

	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/extsort"
	"drumbeat/state"
)

// keyGroup is what is known of a key: bits by tag.
type keyGroup struct {
	key  uint64
	tags uint8
}

func bitOf(tag byte) uint8 { return 1 << (tag - tagWaits) }

// nextGroup returns the next key of a sorter; false after the last.
func nextGroup(keys *extsort.Sorter, row *[]byte) (g keyGroup, ok bool, err error) {
	if *row == nil {
		return g, false, nil
	}
	g.key = binary.BigEndian.Uint64(*row)
	for *row != nil && binary.BigEndian.Uint64(*row) == g.key {
		g.tags |= bitOf((*row)[8])
		if *row, err = keys.Next(); err != nil {
			return g, false, err
		}
	}
	return g, true, nil
}

// planKeys compares the keys with URLseen. It writes those of all URLs that the erasure ends, and those that
// URLseen lacks, and those of the request whose outcome is not known.
func (x *run) planKeys(keys *extsort.Sorter) error {
	if err := keys.Sort(); err != nil {
		return err
	}
	all, err := disk.Stage(x.r.Set.FS, x.work("keys"))
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	defer all.Abort()
	fresh, err := disk.Stage(x.r.Set.FS, x.work("new"))
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	defer fresh.Abort()
	known, err := disk.Stage(x.r.Set.FS, x.work("asked"))
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	defer known.Abort()
	ended, added, asked := state.NewKeyWriter(all), state.NewKeyWriter(fresh), state.NewKeyWriter(known)
	row, err := keys.Next()
	if err != nil {
		return err
	}
	g, more, err := nextGroup(keys, &row)
	step := func(seen bool) error {
		if err := x.endKey(g, seen, ended, added, asked); err != nil {
			return err
		}
		g, more, err = nextGroup(keys, &row)
		return err
	}
	if err == nil {
		err = x.eachSeen(func(key uint64) error {
			for more && g.key < key {
				if err := step(false); err != nil {
					return err
				}
			}
			if more && g.key == key {
				return step(true)
			}
			return nil
		})
	}
	for err == nil && more {
		err = step(false)
	}
	if err != nil || x.opt.DryRun {
		return err
	}
	return errors.Join(ended.End(), added.End(), asked.End())
}

// endKey writes a key to the files to which it belongs.
func (x *run) endKey(g keyGroup, seen bool, ended, added, asked *state.KeyWriter) error {
	j, has := x.j, func(tag byte) bool { return g.tags&bitOf(tag) != 0 }
	// A node has URLs whose keys another one has: it visits hosts of a divided PLD, or their slots have moved since.
	foreign := x.foreign(g.key)
	switch {
	case has(tagWaits):
	case (seen || foreign) && has(tagFetched):
		j.Fetched.Add(g.key)
		j.Erased.Fetched++
	case (seen || foreign) && has(tagRefused):
	case !seen && !foreign && has(tagRequested):
		j.New.Add(g.key)
		j.Erased.Barred++
		if err := added.Add(g.key); err != nil {
			return err
		}
	case has(tagRequested): // its outcome is not known
		return asked.Add(g.key)
	default:
		return nil
	}
	j.Keys++
	return ended.Add(g.key)
}

// eachSeen calls fn for the keys of URLseen, ascending.
func (x *run) eachSeen(fn func(key uint64) error) error {
	st, err := state.Part[drum.State](x.m, state.NameURLSeen)
	if err != nil || st == nil {
		return err
	}
	_, err = drum.ScanState(x.r.Set, state.NameURLSeen, st.Cache(),
		drum.Scan{Entry: func(key drum.Key, _ []byte) error { return fn(uint64(key)) }})
	return err
}

// newKeys returns the keys that URLseen is to get, ascending.
func (x *run) newKeys() (keys []uint64, err error) {
	err = state.EachKey(x.r.Set.FS, x.work("new"), func(key uint64) error {
		keys = append(keys, key)
		return nil
	})
	return keys, err
}
