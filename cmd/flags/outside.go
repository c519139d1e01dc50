package flags

import (
	"fmt"
	"path/filepath"
	"strings"

	"drumbeat/cmd/term"
)

// Outside refuses an output that would be among the files of a crawl: a path that is one of its directories or
// below it, whatever links lead there. The error ends the command with term.ExitDirectory. Nothing is changed.
func Outside(dirs []string, paths ...string) error {
	for _, path := range paths {
		for _, dir := range dirs {
			if inside(path, dir) {
				why := fmt.Sprintf("%s is inside %s, a directory of the crawl: name another place", path, dir)
				if inside(dir, path) {
					why = fmt.Sprintf("%s is a directory of the crawl: name another place", path)
				}
				return &term.Ended{Code: term.ExitDirectory, Why: why}
			}
		}
	}
	return nil
}

// inside tells whether path is dir or below it.
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
