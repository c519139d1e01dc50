package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"drumbeat/disk"
)

// cutSegment cuts a segment's file to the length in s. The bytes beyond it were written after the state was
// frozen.
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

// removeSegments deletes the segment files for which keep returns false. It calls keep without size and
// block count. It leaves other files.
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

// Remove deletes the files and directories of a queue that is not open and that no durable manifest names.
// A queue without files is not an error.
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

// Names returns the sorted names of the queues directly under parent that have files in any directory of
// set: parent/a and parent/b, for example. After a crash, an owner of many queues uses it to find and
// Remove those that its state does not name.
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
