package export

import (
	"archive/zip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drumbeat/cmd/term"
	"drumbeat/crawl/export"
)

// checkTarget refuses an output that would be among the files of the crawl, or would replace something else.
func (r *run) checkTarget() error {
	if r.output == "-" {
		return nil
	}
	for _, path := range []string{r.opt.Target, r.opt.TempDir} {
		for _, dir := range slices.Concat(r.opt.Dirs, r.opt.Out) {
			if inside(path, dir) {
				return &term.Ended{Code: term.ExitDirectory, Why: fmt.Sprintf("%s is inside %s, a directory of the crawl: name another place", path, dir)}
			}
		}
	}
	if r.opt.Kind != export.WACZ || replaceable(r.opt.Target) {
		return nil
	}
	return &term.Ended{Code: term.ExitDirectory,
		Why: fmt.Sprintf("%s exists and is no WACZ file: name another file, or delete it", r.opt.Target)}
}

// inside tells whether path is dir or below it, whatever links lead there.
func inside(path, dir string) bool {
	rel, err := filepath.Rel(realPath(dir), realPath(path))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// realPath returns the absolute path without links, also of what does not exist.
func realPath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(realPath(parent), filepath.Base(path))
	}
	return path
}

// replaceable tells whether a WACZ may take the place of what has its name: nothing, an empty file or a WACZ.
func replaceable(name string) bool {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	if info.Size() == 0 {
		return true
	}
	z, err := zip.OpenReader(name)
	if err != nil {
		return false
	}
	defer func() { _ = z.Close() }() // it was read
	return slices.ContainsFunc(z.File, func(f *zip.File) bool { return f.Name == "datapackage.json" })
}
