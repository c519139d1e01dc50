package history

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"drumbeat/disk"
)

// file is a file of the history. Its name has the numbers of the files that it was made from and its level,
// so that a file replaces those within its range whatever a crash left behind.
type file struct {
	first, last uint64 // numbers of the files of level 0 that it covers
	level       int    // 0: as sampled; see intervalOf
	size        int64
	start       int64 // ms of its first record; unknown for a damaged file
	end         int64 // ms of its last record, or of the start of the next file; only for a Writer
}

// unknown is the start of a file that cannot be read.
const unknown = math.MinInt64

const nameFormat = "%08d-%08d-%02d.hist"

func (f *file) name() string { return fmt.Sprintf(nameFormat, f.first, f.last, f.level) }

// covers reports whether f replaces g.
func (f *file) covers(g *file) bool {
	return f.name() != g.name() && f.level >= g.level && f.first <= g.first && f.last >= g.last
}

// maxLevel bounds the levels: at the last one a sample stands for 20 years.
const maxLevel = 22

// intervalOf returns the least distance of the samples of a level in ms; 0 for all.
func intervalOf(level int) int64 {
	switch level {
	case 0:
		return 0
	case 1:
		return minute
	}
	return 10 * minute << (level - 2)
}

const (
	second = 1000 // ms
	minute = 60 * second
	day    = 24 * 60 * minute
)

// list returns the files of a history in their order, without those that others cover, and the names of
// covered ones. A history that does not exist is empty.
func list(fsys disk.FS, dir string) (files []file, covered []string, _ error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("history: %w", err)
	}
	var all []file
	for _, name := range names {
		var f file
		n, _ := fmt.Sscanf(name, nameFormat, &f.first, &f.last, &f.level)
		if n == 3 && f.name() == name && f.first <= f.last && f.level >= 0 && f.level <= maxLevel {
			all = append(all, f)
		} else if strings.HasSuffix(name, ".hist.tmp") { // disk.WriteFileAtomic was interrupted
			covered = append(covered, name)
		}
	}
	for i := range all {
		if slices.ContainsFunc(all, func(g file) bool { return g.covers(&all[i]) }) {
			covered = append(covered, all[i].name())
		} else {
			files = append(files, all[i])
		}
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.first, b.first) })
	return files, covered, nil
}

// load reads a file and its first record. A file that is too long to be one of ours is damage.
func load(fsys disk.FS, dir string, f *file) (*decoder, error) {
	name := path.Join(dir, f.name())
	size, err := fsys.Size(name)
	if err == nil && size > maxFile {
		return nil, &disk.CorruptError{Path: name, Offset: maxFile, Want: "the end of the file", Got: "more bytes"}
	}
	var data []byte
	if err == nil {
		data, err = disk.ReadFile(fsys, name)
	}
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return newDecoder(name, data, f.first)
}

// starts reads the first record of each file into its start.
func starts(fsys disk.FS, dir string, files []file) error {
	for i := range files {
		f := &files[i]
		f.start = unknown
		open, err := fsys.OpenRead(path.Join(dir, f.name()))
		if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		if f.size, err = open.Size(); err == nil {
			head := make([]byte, min(f.size, startBytes))
			if err = disk.ReadFull(open, head, 0); err == nil {
				var d *decoder
				if d, err = newDecoder(open.Name(), head, f.first); err == nil {
					f.start = d.start
				}
			}
		}
		if err = errors.Join(err, open.Close()); err != nil && !isDamage(err) {
			return fmt.Errorf("history: %w", err)
		}
	}
	return nil
}

func isDamage(err error) bool {
	var damage *disk.CorruptError
	return errors.As(err, &damage)
}
