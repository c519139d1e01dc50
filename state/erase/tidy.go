package erase

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"drumbeat/disk"
	"drumbeat/internal/crawllog"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/repair"
	"drumbeat/warc"
)

// tidy deletes what an interrupted run of the crawl has left and its next start would delete: bytes and files
// that the manifest does not name. They may have the targets.
func (x *run) tidy() error {
	// If the crawl was killed while it replaced its manifest, the new one may not be durable yet. What it does not
	// name must not go before.
	if err := repair.SyncAll(x.r); err != nil {
		return err
	}
	st, err := x.warcState()
	if err != nil {
		return err
	}
	local := func(set disk.Set) disk.Set { return disk.Set{FS: x.r.Meter, Paths: set.Paths} }
	if x.r.Out.Len() > 0 && st.V > 0 {
		w, err := warc.Open(warc.Options{Set: local(x.r.Out), State: local(x.r.Set)}, st)
		if err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return fmt.Errorf("erase: %w", err)
		}
	}
	for _, l := range logs {
		st, err := state.Part[crawllog.State](x.m, l.part)
		if err != nil {
			return err
		}
		if st == nil {
			continue
		}
		log, err := crawllog.Open(crawllog.Options{Set: local(x.r.Set), Prefix: l.prefix}, st)
		if err == nil {
			err = log.Close()
		}
		if err != nil {
			return fmt.Errorf("erase: %w", err)
		}
	}
	if err := audit.EachUnused(x.r, x.m, x.cut); err != nil {
		return err
	}
	if err := x.removeCopies(); err != nil {
		return err
	}
	var dirs []string
	for i := range x.r.Set.Paths {
		dirs = append(dirs, x.r.Set.Path(i, "log"))
	}
	for i := range x.r.Out.Paths {
		dirs = append(dirs, x.r.Out.Path(i, "warc"), x.r.Out.Path(i, "spool"))
	}
	for _, dir := range dirs {
		files, err := repair.FilesIn(x.r.Meter, dir, false)
		if err != nil {
			return err
		}
		for _, file := range files {
			if path.Base(dir) != "spool" && path.Ext(file) != ".tmp" {
				continue
			}
			if err := x.cut(file, -1); err != nil {
				return err
			}
		}
	}
	return repair.SyncAll(x.r)
}

// removeCopies removes what the start of a crawl leaves in the first directory if it is killed while it copies seeds
// and the watch list, or reads an earlier crawl.
func (x *run) removeCopies() error {
	set := x.r.Set
	for _, name := range []string{seedsFile + ".tmp", "." + watchFile + ".tmp"} {
		if err := set.FS.Remove(set.Path(0, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("erase: %w", err)
		}
	}
	for _, dir := range []string{watchDir, sinceDir} {
		if err := repair.RemoveTree(set.FS, set.Path(0, dir)); err != nil {
			return err
		}
	}
	return nil
}

// cut cuts a file at an offset, or removes it if that is -1.
func (x *run) cut(file string, at int64) (err error) {
	if at < 0 {
		err = x.r.Set.FS.Remove(file)
	} else if f, e := x.r.Set.FS.Open(file); e != nil {
		err = e
	} else {
		err = errors.Join(f.Truncate(at), f.Close())
	}
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	return nil
}

// padded reports whether a file has only zeros from an offset to its end.
func (p *prover) padded(file string, from int64) (bool, error) {
	f, err := p.r.Set.FS.Open(file)
	if err != nil {
		return false, fmt.Errorf("erase: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	r, padding := bufio.NewReaderSize(io.NewSectionReader(f, from, max(0, size-from)), wordBytes), true
	for padding && err == nil {
		var b byte
		if b, err = r.ReadByte(); err == nil {
			padding = b == 0
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("erase: %w", err)
	}
	return padding, nil
}
