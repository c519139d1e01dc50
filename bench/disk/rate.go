package disk

import (
	"context"
	"errors"
	"time"
)

// What Rate moves: in chunks in which a pass reads and writes, as much as takes a moment on a fast disk and
// some seconds on a slow one.
const (
	diskRateBytes = 128 << 20
	probeChunk    = 1 << 20
	diskRateTime  = 5 * time.Second
)

// Rate measures W of Theorem 3 in bytes/s: the mean of what all directories together write and read, past
// the page cache where that can be. It takes 10 s and 128 MiB in each directory at most, and leaves
// nothing.
func Rate(ctx context.Context, dirs []string) (w float64, err error) {
	d := Options{Dirs: distinct(dirs), Bytes: diskRateBytes, Chunks: []int{probeChunk}, Streams: []int{2}, Blocks: []int{probeChunk},
		Alpha: 1, URLBytes: 1, LinksPerPage: 1, Share: 1}
	if err := d.Complete(); err != nil {
		return 0, err
	}
	r := &diskRun{opt: d, bytes: d.Bytes}
	targets, err := r.openTargets()
	if err != nil {
		return 0, err
	}
	all := group{"all", targets}
	defer func() {
		err = errors.Join(err, all.remove())
		for _, t := range targets {
			t.free()
		}
	}()
	if err := r.room(targets); err != nil {
		return 0, err
	}
	for _, op := range []string{opWrite, opRead} {
		s := setting{way: way{op: op, chunk: probeChunk, streams: 1, direct: all.direct()}, bytes: diskRateBytes, limit: diskRateTime}
		n, span, err := all.startAll(ctx, s)
		if err != nil {
			return 0, err
		}
		w += float64(n) / span.Seconds() / 2
	}
	return w, nil
}

// distinct leaves out what is there already: directories that don't exist yet may have one parent.
func distinct(dirs []string) (out []string) {
	seen := map[string]bool{}
	for _, dir := range dirs {
		if !seen[dir] {
			out = append(out, dir)
		}
		seen[dir] = true
	}
	return out
}
