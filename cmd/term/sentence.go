package term

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"drumbeat/disk"
	"drumbeat/state"
)

// sentence returns the text of an error for people. A directory that is in use, holds no crawl or is a file,
// and a file that can't be opened, get words of their own. Names of packages are left out.
func sentence(err error) string {
	var locked *disk.LockedError
	var none *state.NoCrawlError
	text := OneLine(err)
	switch usage := ExitCode(err) == ExitUsage; {
	case errors.As(err, &locked):
		return inUse(locked)
	case errors.As(err, &none):
		return noCrawl(none.Dir)
	case usage || isDirectoryError(err) || errors.Is(err, syscall.ENOTDIR):
		if path := pathOf(err); !usage && path != nil && strings.HasSuffix(text, path.Error()) {
			return pathFault(path) + "; name the directory of a crawl"
		}
		text = strings.TrimSuffix(text, ": "+state.ErrIncompatible.Error())
	}
	text = packageNames.ReplaceAllString(text, "$1$2")
	if path := pathOf(err); path != nil {
		text = strings.Replace(text, path.Error(), pathFault(path), 1)
	}
	return strings.TrimPrefix(text, "drumbeat: ")
}

// packageNames matches the names of packages before the text of an error, of one joined to it, and of its cause.
// Names that are also those of flags are matched only at the beginning: a file's key may stand before a cause.
var packageNames = regexp.MustCompile(`(^|; )(?:(?:` + packages + `|cluster|explain|export|get|log|report|repair|` +
	`robots|scope|sites|warc): )+|(: )(?:(?:` + packages + `): )+`)

// packages lists packages whose names are no names of flags.
const packages = `admin|admit|botauth|crawl|disk|dnscache|drum|fetch|polite|queue|state|urllist|urlrule|weburl`

// inUse says who uses a directory, and what to do.
func inUse(e *disk.LockedError) string {
	who := "another process"
	if e.PID > 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("%s is in use by %s; if that is a crawl, drumbeat ctl --dir %[1]s status shows it and drumbeat "+
		"ctl --dir %[1]s stop ends it; another crawl needs another --dir", e.Dir, who)
}

// noCrawl says why a directory holds no crawl, and what to do.
func noCrawl(dir string) string {
	why := "it has no checkpoint or belongs to something else"
	switch names, err := os.ReadDir(dir); {
	case errors.Is(err, fs.ErrNotExist):
		why = "it does not exist"
	case errors.Is(err, syscall.ENOTDIR):
		why = "it is a file, not a directory"
	case err == nil && len(names) == 0:
		why = "it is empty"
	}
	return fmt.Sprintf("%s holds no crawl: %s; name the directory of a crawl, as in --dir drumbeat-crawl", dir, why)
}

// pathOf returns the error of the system about a file; nil if there is none.
func pathOf(err error) *fs.PathError {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path
	}
	return nil
}

// pathFault says what is wrong with a file.
func pathFault(e *fs.PathError) string {
	switch {
	case errors.Is(e, fs.ErrNotExist):
		return e.Path + " does not exist"
	case errors.Is(e, fs.ErrPermission):
		return fmt.Sprintf("%s: permission denied; run drumbeat as the user that owns it, or change its mode", e.Path)
	case errors.Is(e, syscall.EISDIR):
		return e.Path + " is a directory, not a file"
	case errors.Is(e, syscall.ENOTDIR):
		file := e.Path
		for up := filepath.Dir(file); up != file; up = filepath.Dir(up) {
			if info, err := os.Stat(up); err == nil && !info.IsDir() {
				return up + " is a file, not a directory"
			} else if err == nil {
				break
			}
			file = up
		}
		return file + " is a file, not a directory"
	}
	return e.Error()
}
