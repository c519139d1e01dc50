package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"drumbeat/disk"
)

// cutSegment brings a segment to the length in s. What lies beyond was written after the state was frozen.
func cutSegment(set disk.Set, name string, s Segment) error {
	f, err := set.FS.Open(segmentPath(set, name, s))
	if err != nil {
		return err
	}
	size, err := f.Size()
	switch {
	case err != nil:
	case size < s.Size:
		err = &disk.CorruptError{
			Path: f.Name(), Offset: size,
			Want: fmt.Sprintf("%d bytes", s.Size), Got: fmt.Sprintf("%d bytes", size),
		}
	case size > s.Size:
		err = f.Truncate(s.Size)
	}
	return errors.Join(err, f.Close())
}

// removeSegments deletes the segment files that keep refuses; their sizes are not filled in. Other files
// stay.
func removeSegments(set disk.Set, name string, keep func(Segment) bool) error {
	for dir := range set.Paths {
		names, err := set.FS.List(queueDir(set, dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, file := range names {
			n, ok := parseSegmentName(file)
			s := Segment{Number: n, Dir: dir}
			if !ok || keep(s) {
				continue
			}
			if err := set.FS.Remove(segmentPath(set, name, s)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Remove deletes the files and directories of the queue of that name, which nobody has open and no durable
// manifest names. A queue without files is no error.
func Remove(set disk.Set, name string) error {
	if err := removeSegments(set, name, func(Segment) bool { return false }); err != nil {
		return fmt.Errorf("queue: remove %s: %w", name, err)
	}
	for dir := range set.Paths {
		err := set.FS.Remove(queueDir(set, dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("queue: remove %s: %w", name, err)
		}
	}
	return nil
}

// Names returns the sorted names of what lies directly under parent in any directory of set, as far as files
// have been written: with queues called parent/a and parent/b, these two. An owner of many queues uses it
// after a crash to Remove those that its state does not name.
func Names(set disk.Set, parent string) ([]string, error) {
	var all []string
	for dir := range set.Paths {
		names, err := set.FS.List(queueDir(set, dir, parent))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("queue: list %s: %w", parent, err)
		}
		for _, name := range names {
			all = append(all, parent+"/"+name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
