package space

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"drumbeat/disk"
	"drumbeat/state"
)

// DiskError reports the directory of a crawl that failed. The crawl stopped as after kill -9: its last
// checkpoint is intact as far as the disk can still be read.
type DiskError struct {
	Dir           string
	Number, Count int // of the directory, from 1
	Err           error
}

func (e *DiskError) Error() string {
	advice := "check the disk (dmesg, smartctl -a); when it works again, or its directory has been copied to another" +
		" disk, the same command continues from the last checkpoint"
	if state.IsFull(e.Err) {
		advice = "free some space; the same command continues from the last checkpoint"
	}
	return fmt.Sprintf("crawl: directory %s (%d of %d) failed: %v: %s", e.Dir, e.Number, e.Count, e.Err, advice)
}

// Unwrap returns the cause.
func (e *DiskError) Unwrap() error { return e.Err }

// diskErrnos are the errors that concern a disk rather than a file name.
var diskErrnos = [...]error{syscall.EIO, syscall.EROFS, syscall.ENXIO, syscall.ENODEV, syscall.ESTALE,
	syscall.ENOSPC, syscall.EDQUOT, syscall.EUCLEAN, syscall.EREMOTEIO}

// BlameDisk returns a DiskError for an error of one of the directories, or else err, as for a write that
// --disk refuses.
func BlameDisk(err error, dirs []string) error {
	var pe *fs.PathError
	var damage *disk.CorruptError
	if err == nil || errors.As(err, &damage) || errors.Is(err, disk.ErrQuota) || !errors.As(err, &pe) {
		return err
	}
	for _, e := range diskErrnos {
		if !errors.Is(err, e) {
			continue
		}
		for i, dir := range dirs {
			if pe.Path == dir || strings.HasPrefix(pe.Path, dir+"/") {
				return &DiskError{Dir: dir, Number: i + 1, Count: len(dirs), Err: err}
			}
		}
	}
	return err
}
