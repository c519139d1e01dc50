package queue

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"drumbeat/disk"
)

const (
	stateDirName  = "state"
	segmentSuffix = ".seg"
)

// queueDir returns the directory of queue name's segments in directory dir.
func queueDir(set disk.Set, dir int, name string) string { return set.Path(dir, stateDirName, name) }

func segmentPath(set disk.Set, name string, s Segment) string {
	return path.Join(queueDir(set, s.Dir, name), segmentName(s.Number))
}

// segmentName returns the name of segment number n inside the queue's directory.
func segmentName(n uint64) string { return fmt.Sprintf("%010d%s", n, segmentSuffix) }

// parseSegmentName is the inverse of segmentName. ok is false for any other name.
func parseSegmentName(name string) (n uint64, ok bool) {
	digits, found := strings.CutSuffix(name, segmentSuffix)
	if !found {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && segmentName(n) == name
}

// binName returns the name of the queue that holds slot number n of a calendar.
func binName(calendar string, n uint64) string { return fmt.Sprintf("%s/slot-%010d", calendar, n) }
