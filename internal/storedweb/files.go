package storedweb

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"drumbeat/disk"
)

// file is a WARC file.
type file struct {
	path   string
	index  string // path of its CDXJ index; "" if it has none
	size   int64
	opened disk.File // nil if it is opened for each request
}

const (
	gzSuffix    = ".warc.gz"
	zstSuffix   = ".warc.zst"
	plainSuffix = ".warc"
	indexSuffix = ".cdxj"
	openSuffix  = ".open"
	subdir      = "warc"
)

// maxFiles is the number of WARC files that an entry of the table can name.
const maxFiles = 1 << 24

// ErrNoFiles means that the directories have no WARC file.
var ErrNoFiles = errors.New("no WARC files (*.warc.gz, *.warc.zst)")

// ErrRunning means that a crawl has locked a directory.
var ErrRunning = errors.New("a crawl is running in it; stop it first")

// findFiles lists the WARC files of the directories and of their subdirectories "warc". refused gets the
// names of files in a form that cannot be read.
func findFiles(fsys disk.FS, dirs []string, refused func(path, why string)) (list []file, err error) {
	for _, dir := range dirs {
		if _, err := fsys.List(dir); err != nil {
			return nil, fmt.Errorf("storedweb: list %s: %w", dir, err)
		}
		if held, _ := disk.Locked(fsys, dir); held {
			return nil, fmt.Errorf("storedweb: open %s: %w", dir, ErrRunning)
		}
		for _, d := range []string{dir, path.Join(dir, subdir)} {
			names, err := fsys.List(d)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("storedweb: list %s: %w", d, err)
			}
			if list, err = appendFiles(list, fsys, d, names, refused); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case len(list) == 0:
		return nil, fmt.Errorf("storedweb: open %s: %w in it or in its directory %s", strings.Join(dirs, ", "),
			ErrNoFiles, subdir)
	case len(list) > maxFiles:
		return nil, fmt.Errorf("storedweb: %d WARC files, at most %d are possible", len(list), maxFiles)
	}
	return list, nil
}

// appendFiles appends the WARC files among the names in a directory.
func appendFiles(list []file, fsys disk.FS, dir string, names []string,
	refused func(path, why string)) ([]file, error) {
	has := make(map[string]bool, len(names))
	for _, name := range names {
		has[name] = true
	}
	for _, name := range names {
		final, open := strings.CutSuffix(name, openSuffix)
		stem, ok := strings.CutSuffix(final, gzSuffix)
		if !ok {
			stem, ok = strings.CutSuffix(final, zstSuffix)
		}
		full := path.Join(dir, name)
		if !ok {
			if strings.HasSuffix(final, plainSuffix) {
				refused(full,
					"it is not compressed; compress each record by itself, for instance with warcio recompress")
			}
			continue
		}
		size, err := fsys.Size(full)
		if err != nil {
			return nil, fmt.Errorf("storedweb: %w", err)
		}
		f := file{path: full, size: size}
		if !open && has[stem+indexSuffix] {
			f.index = path.Join(dir, stem+indexSuffix)
		}
		list = append(list, f)
	}
	return list, nil
}
