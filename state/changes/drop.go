package changes

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"drumbeat/disk"
)

// DropLines removes from the journal of a stopped crawl the seeds and enqueued URLs that drop reports. It
// replaces the file atomically, if there is such a line. A torn last line goes.
func DropLines(fsys disk.FS, name string, drop func(line string) bool) error {
	data, err := disk.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("changes: %w", err)
	}
	j := &Journal{fsys: fsys, name: name}
	j.settings.Store(&Settings{})
	if err := j.read(data, 0); err != nil {
		return err
	}
	next, changed := []byte(header), false
	for line := range bytes.Lines(data[len(header):j.size]) {
		c, err := decode(bytes.TrimSuffix(line, []byte{'\n'}))
		if err != nil {
			return fmt.Errorf("changes: %w", err)
		}
		left := slices.DeleteFunc(slices.Clone(c.Seeds), drop)
		if len(left) == len(c.Seeds) {
			next = append(next, line...)
			continue
		}
		changed = true
		c.Seeds = left
		next = encode(next, c)
	}
	if !changed {
		return nil
	}
	return disk.WriteFileAtomic(fsys, name, next)
}

// EachLine calls fn with each change in the journal of a stopped crawl, and the offset of its line. A missing file has
// none. Damage is a *disk.CorruptError.
func EachLine(fsys disk.FS, name string, fn func(at int64, c *Change) error) error {
	data, err := disk.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("changes: %w", err)
	}
	j := &Journal{fsys: fsys, name: name}
	j.settings.Store(&Settings{})
	if err := j.read(data, 0); err != nil {
		return err
	}
	at := int64(len(header))
	for line := range bytes.Lines(data[at:j.size]) {
		c, err := decode(bytes.TrimSuffix(line, []byte{'\n'}))
		if err == nil {
			err = fn(at, c)
		}
		if err != nil {
			return err
		}
		at += int64(len(line))
	}
	return nil
}
