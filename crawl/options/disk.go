package options

import (
	"errors"
	"fmt"
	"time"

	"drumbeat/disk"
)

// WhenFull is what a crawl does when a disk is nearly full or --disk is nearly reached.
type WhenFull string

// The same command continues the crawl after each of these.
const (
	WhenFullPause WhenFull = "pause" // pause fetching until there is room again
	WhenFullDrain WhenFull = "drain" // stop queueing new links below twice the mark; pause at the mark
	WhenFullStop  WhenFull = "stop"  // end with StopDisk
)

// Disk are the directories of a crawl, and their use.
type Disk struct {
	// FS is the file system; nil means the machine's.
	FS disk.FS
	// Dirs hold state, logs and, without Out, output; one per disk. At least one is required.
	Dirs []string
	// AddDirs are the members of Dirs that may be new to an existing crawl. For a new crawl all may be new.
	AddDirs []string
	// AddOut are the members of Out that may be new to an existing crawl.
	AddOut []string
	// Out holds the WARC files; one per disk. Default: Dirs.
	Out []string
	// New refuses a directory that holds a crawl already.
	New bool
	// WhenFull is what to do when a file system has less than KeepFree bytes free (0: the size of the
	// buffers and some MiB), or when the crawl's files come near Limits.DiskBytes. Default WhenFullPause.
	WhenFull WhenFull
	KeepFree int64
	// CheckpointEvery is the interval of checkpoints. Default: a minute.
	CheckpointEvery time.Duration
}

// Defaults sets the zero fields.
func (o *Disk) Defaults() {
	if o.FS == nil {
		o.FS = disk.OS()
	}
	if len(o.Out) == 0 {
		o.Out = o.Dirs
	}
	setDefault(&o.WhenFull, WhenFullPause)
	setDefault(&o.CheckpointEvery, time.Minute)
}

// Validate returns all errors in the group, joined.
func (o *Disk) Validate() error {
	var faults []error
	if len(o.Dirs) == 0 {
		faults = append(faults, errors.New("crawl: no directory given"))
	}
	switch o.WhenFull {
	case "", WhenFullPause, WhenFullDrain, WhenFullStop:
	default:
		faults = append(faults, fmt.Errorf("crawl: when full %q is not pause, drain or stop", o.WhenFull))
	}
	if o.KeepFree < 0 {
		faults = append(faults, fmt.Errorf("crawl: space to keep free %d is negative", o.KeepFree))
	}
	return errors.Join(faults...)
}
