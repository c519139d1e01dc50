package erase

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/weburl"
)

// The crawl's own copies of its seeds and of its watch list.
const (
	seedsFile = "seeds.txt"
	watchFile = "watch.txt"
	// Work files: of the sort of the watch list, and of what earlier crawls know.
	watchDir = "watch-tmp"
	sinceDir = "since-tmp"
)

// listPiece bounds what is read of a list at once. A longer line is no seed, and stays.
const listPiece = 64 << 10

// blankList writes one of these copies to before as it is, and to after with the lines of targets blanked, so that its
// length stays. It reports whether there are any.
func (x *run) blankList(name string, before, after io.Writer) (changed bool, err error) {
	f, err := x.r.Set.FS.OpenRead(x.r.Set.Path(0, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return false, err
	}
	in, resolver := bufio.NewReaderSize(io.NewSectionReader(f, 0, size), listPiece), x.resolver()
	for within := false; ; { // a line that is longer than the buffer
		line, err := in.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		if _, err := before.Write(line); err != nil {
			return false, err
		}
		if !within && !long {
			if name == watchFile {
				url, _ := state.CutWatched(line)
				if x.seedGoes(resolver, url) {
					state.BlankWatched(url)
					changed = true
				}
			} else if text := bytes.TrimRight(line, "\r\n"); x.seedGoes(resolver, text) {
				for i := range text {
					text[i] = '#'
				}
				changed = true
			}
		}
		if _, err := after.Write(line); err != nil {
			return false, err
		}
		if within = long; err == io.EOF {
			return changed, nil
		}
		if err != nil && !long {
			return false, err
		}
	}
}

// blankLists blanks the lines of targets in the copies.
func (x *run) blankLists() error {
	for _, name := range []string{seedsFile, watchFile} {
		if changed, err := x.blankList(name, io.Discard, io.Discard); err != nil {
			return err
		} else if !changed {
			continue
		}
		list, err := disk.Stage(x.r.Set.FS, x.r.Set.Path(0, name))
		if err != nil {
			return err
		}
		if _, err = x.blankList(name, io.Discard, list); err == nil {
			err = list.End()
		}
		if err == nil {
			err = list.Rename()
		}
		if list.Abort(); err != nil {
			return err
		}
	}
	return nil
}

// seeds corrects the checksum of the seeds, which conclude changes. That of the watch list stays (state.WatchSum).
func (w *next) seeds() error {
	before, after := xxhash.New(), xxhash.New()
	changed, err := w.blankList(seedsFile, before, after)
	if err == nil && changed && w.Next.Seeds.Sum == before.Sum64() {
		w.Next.Seeds.Sum = after.Sum64()
	}
	return err
}

func (x *run) resolver() *weburl.Resolver {
	return weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited, Fold: !x.m.Frozen.KeepEscapes})
}

// seedGoes reports whether a line of seeds names a target: a URL, or a host without a scheme, perhaps with a comment.
func (x *run) seedGoes(resolver *weburl.Resolver, line []byte) bool {
	line = bytes.TrimPrefix(line, []byte("\ufeff"))
	if at := bytes.Index(line, []byte(" #")); at >= 0 {
		line = line[:at]
	}
	line = bytes.TrimSpace(line)
	for _, scheme := range []string{"", "http://", "https://"} {
		if url, err := resolver.AppendResolve(nil, nil, append([]byte(scheme), line...)); err == nil && x.t.URL(url) {
			return true
		}
	}
	return false
}
