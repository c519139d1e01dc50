package crawl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"time"

	"drumbeat/admit"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/internal/extsort"
	"drumbeat/internal/human"
	"drumbeat/internal/urllist"
	"drumbeat/state"
)

// WatchCopy is the name of the sorted copy of a watch list, in the first directory.
const WatchCopy = "watch.txt"

// watchRAM is the RAM to sort a watch list, before the crawl takes its own.
const watchRAM = 64 << 20

// lastDeadline is the last one that RFC 3339 can write in UTC, in Unix seconds: an offset may lead beyond it.
var lastDeadline = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()

// copyLists copies seeds and the watch list into the crawl's first directory.
func (c *Command) copyLists(a *term.App, opt *crawl.Options, view *View) error {
	if err := c.copySeeds(a, opt, view); err != nil {
		return err
	}
	return c.copyWatch(opt, view)
}

// copyWatch copies the list of --watch into the crawl's first directory, in the order of deadlines.
func (c *Command) copyWatch(opt *crawl.Options, view *View) error {
	if c.Watch == "" {
		return nil
	}
	set, free, err := takeDirs(opt, "copy the watch list")
	if err != nil {
		return err
	}
	defer free()
	opt.Disk.New = false // takeDirs has checked it, and has marked the directory
	sorter := extsort.New(extsort.Options{FS: opt.Disk.FS, Dir: set.Path(0, "watch-tmp"), RAMBytes: watchRAM})
	urls, bad, err := readWatch(c.Watch, sorter)
	if err == nil {
		opt.Order.Watch = set.Path(0, WatchCopy)
		err = writeWatch(opt.Disk.FS, opt.Order.Watch, sorter)
	}
	if err = errors.Join(err, sorter.Close()); err != nil {
		return err
	}
	view.Note(fmt.Sprintf("%s: %s, %s without one", c.Watch, human.Counted(urls, "URL", "URLs"),
		human.Counted(bad, "line", "lines")))
	return nil
}

// readWatch adds the URLs of a list to a sorter: the deadline in Unix seconds, math.MaxInt64 for none, and the URL.
func readWatch(name string, sorter *extsort.Sorter) (urls, bad int64, _ error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, 0, term.Usage(fmt.Errorf("--watch: %w", err))
	}
	defer f.Close()
	list, err := urllist.NewReader(f)
	if err != nil {
		return 0, 0, term.Usage(fmt.Errorf("--watch %s: %w", name, err))
	}
	defer list.Close()
	var rec []byte
	for {
		line, deadline, err := list.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, 0, term.Usage(fmt.Errorf("--watch %s: %w", name, err))
		}
		url, _, err := admit.ParseSeed(line)
		if err != nil || url == "" || len(url) > extsort.MaxRecordBytes-8 {
			bad++
			continue
		}
		urls++
		at := uint64(math.MaxInt64)
		if !deadline.IsZero() {
			at = uint64(min(max(1, deadline.Unix()), lastDeadline))
		}
		rec = append(binary.BigEndian.AppendUint64(rec[:0], at), url...)
		if err := sorter.Add(rec); err != nil {
			return 0, 0, err
		}
	}
	if bad += list.Skipped; urls == 0 {
		return 0, 0, term.Usage(fmt.Errorf("--watch %s: it has no URL", name))
	}
	return urls, bad, nil
}

// writeWatch writes the sorted list. It replaces the file atomically, but not by the same list: an erasure may have
// blanked lines there, and the crawl's directories must not have the erased URLs again.
func writeWatch(fsys disk.FS, name string, sorter *extsort.Sorter) error {
	if err := sorter.Sort(); err != nil {
		return err
	}
	dst, err := disk.Stage(fsys, name)
	if err != nil {
		return err
	}
	defer dst.Abort()
	sum := state.NewWatchSum()
	if err := eachWatched(sorter, io.MultiWriter(dst, sum)); err != nil {
		return err
	}
	if same, err := sameWatch(fsys, name, dst.Size(), sum); same || err != nil {
		return err
	}
	if err := dst.End(); err != nil {
		return err
	}
	return dst.Rename()
}

// sameWatch reports whether a file has the same list, perhaps with lines that an erasure has blanked.
func sameWatch(fsys disk.FS, name string, bytes int64, sum *state.WatchSum) (bool, error) {
	if size, err := fsys.Size(name); errors.Is(err, fs.ErrNotExist) || err == nil && size != bytes {
		return false, nil
	} else if err != nil {
		return false, err
	}
	f, err := fsys.OpenRead(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	was, err := state.WatchSumOf(io.NewSectionReader(f, 0, bytes))
	return err == nil && was == sum.Sum(), err
}

// eachWatched writes a line for each record, equal ones once.
func eachWatched(sorter *extsort.Sorter, w io.Writer) error {
	last := ""
	for {
		rec, err := sorter.Next()
		if err != nil || rec == nil {
			return err
		}
		line := string(rec[8:])
		if at := binary.BigEndian.Uint64(rec); at != math.MaxInt64 {
			line += " " + time.Unix(int64(at), 0).UTC().Format(time.RFC3339)
		}
		if line == last {
			continue
		}
		last = line
		if _, err := io.WriteString(w, line+"\n"); err != nil {
			return err
		}
	}
}
