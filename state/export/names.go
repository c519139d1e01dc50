package export

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"drumbeat/drum"
	"drumbeat/internal/extsort"
	"drumbeat/state"
)

// cursor is a sequence of values by key, in order. The current item is valid until next.
type cursor struct {
	key   uint64
	value []byte
	ok    bool // there is a current item
	pull  func() (key uint64, value []byte, ok bool, err error)
}

// next goes to the next item.
func (c *cursor) next() (err error) {
	c.key, c.value, c.ok, err = c.pull()
	return err
}

// seek goes to the first item with a key that is not below key, and tells whether it has that key.
func (c *cursor) seek(key uint64) (bool, error) {
	for c.ok && c.key < key {
		if err := c.next(); err != nil {
			return false, err
		}
	}
	return c.ok && c.key == key, nil
}

var errStopped = errors.New("stopped")

// scanned returns a cursor, at its first item, over what a scan passes to its function in order of keys.
func (j *job) scanned(scan func(fn func(key uint64, value []byte) error) error) (*cursor, error) {
	type item struct {
		key   uint64
		value []byte
	}
	next, stop := iter.Pull2(func(yield func(item, error) bool) {
		err := scan(func(key uint64, value []byte) error {
			if !yield(item{key, value}, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(item{}, err)
		}
	})
	j.ends = append(j.ends, func() error { stop(); return nil })
	c := &cursor{pull: func() (uint64, []byte, bool, error) {
		i, err, ok := next()
		return i.key, i.value, ok && err == nil, err
	}}
	return c, c.next()
}

// sorted returns a cursor, at its first item, over the records of a sorter, which begin with their keys.
// It closes the sorter after the last.
func sorted(s *extsort.Sorter) (*cursor, error) {
	if err := s.Sort(); err != nil {
		return nil, err
	}
	c := &cursor{pull: func() (uint64, []byte, bool, error) {
		rec, err := s.Next()
		if err == nil && rec == nil {
			err = s.Close()
		}
		if err != nil || rec == nil {
			return 0, nil, false, err
		}
		return binary.BigEndian.Uint64(rec), rec[8:], true, nil
	}}
	return c, c.next()
}

// union returns a cursor, at its first item, over the items of two. Of items with equal keys it keeps one.
func union(a, b *cursor) (*cursor, error) {
	var from *cursor
	last, any := uint64(0), false
	c := &cursor{}
	c.pull = func() (uint64, []byte, bool, error) {
		for {
			if from != nil {
				if err := from.next(); err != nil {
					return 0, nil, false, err
				}
			}
			if from = a; !a.ok || b.ok && b.key < a.key {
				from = b
			}
			if !from.ok {
				from = nil
				return 0, nil, false, nil
			}
			if !any || from.key != last {
				last, any = from.key, true
				return from.key, from.value, true, nil
			}
		}
	}
	return c, c.next()
}

// nameFiles returns the files of the names.
func nameFiles(j *job) ([]string, error) {
	st, err := part[drum.State](j, state.NameNames)
	if err != nil {
		return nil, err
	}
	return drum.Files(j.Set, state.NameNames, st), nil
}

// names returns a cursor, at its first item, over the values of all names. Each is verified.
func (j *job) names() (*cursor, error) {
	st, err := part[drum.State](j, state.NameNames)
	if err != nil {
		return nil, err
	}
	check := func(key drum.Key, value []byte) error {
		if _, _, err := state.CheckName(j.Hasher, key, value); err != nil {
			return fmt.Errorf("export: %s: %w", state.NameNames, err)
		}
		return j.live()
	}
	waiting := j.sorter()
	var rec []byte
	_, err = drum.ScanState(j.Set, state.NameNames, st.Waiting(), drum.Scan{Tuple: func(t drum.Tuple) error {
		rec = append(binary.BigEndian.AppendUint64(rec[:0], uint64(t.Key)), t.Value...)
		return errors.Join(check(t.Key, t.Value), waiting.Add(rec))
	}})
	if err != nil {
		return nil, err
	}
	later, err := sorted(waiting)
	if err != nil {
		return nil, err
	}
	merged, err := j.scanned(func(fn func(uint64, []byte) error) error {
		_, err := drum.ScanState(j.Set, state.NameNames, st.Cache(),
			drum.Scan{Entry: func(key drum.Key, value []byte) error {
				if err := check(key, value); err != nil {
					return err
				}
				return fn(uint64(key), value)
			}})
		return err
	})
	if err != nil {
		return nil, err
	}
	return union(merged, later)
}

// isPLD tells whether the value of a name is that of a PLD.
func isPLD(value []byte) bool { return value[0] == 0 }
