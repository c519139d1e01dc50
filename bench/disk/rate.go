package disk

import (
	"context"
	"errors"
	"time"

	"drumbeat/disk"
)

// The amounts of Rate: chunks like those of a pass, and enough bytes to take a moment on a fast disk and a
// few seconds on a slow one.
const (
	diskRateBytes = 128 << 20
	probeChunk    = 1 << 20
	diskRateTime  = 5 * time.Second
)

// Rate measures W of Theorem 3 in bytes/s: the mean of the write and the read speed of all directories
// together, with O_DIRECT where possible. It takes at most 10 s and 128 MiB per directory, and leaves no
// files.
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

// Speed is the speed of one directory in bytes/s.
type Speed struct {
	Write, Read float64
	// Direct reports whether O_DIRECT was used.
	Direct bool
	// Err is the reason why the directory could not be measured, or nil.
	Err error
}

// Speeds writes and reads a file of the given bytes in each directory, in all directories at once, with
// O_DIRECT where possible. Writing and reading each end after limit at the latest. It leaves no files.
func Speeds(ctx context.Context, dirs []string, bytes int64, limit time.Duration) []Speed {
	speeds, done := make([]Speed, len(dirs)), make(chan struct{}, len(dirs))
	for i, dir := range dirs {
		go func() {
			speeds[i] = speedOf(ctx, dir, bytes, limit)
			done <- struct{}{}
		}()
	}
	for range dirs {
		<-done
	}
	return speeds
}

func speedOf(ctx context.Context, dir string, bytes int64, limit time.Duration) (v Speed) {
	r := &diskRun{opt: Options{FS: disk.OS(), Dirs: []string{dir}, Chunks: []int{probeChunk}, Blocks: []int{probeChunk}}, bytes: bytes}
	targets, err := r.openTargets()
	if err != nil {
		return Speed{Err: err}
	}
	t := targets[0]
	defer func() {
		v.Err = errors.Join(v.Err, t.remove())
		t.free()
	}()
	if err := r.room(targets); err != nil {
		return Speed{Err: err}
	}
	v.Direct = t.direct
	for _, m := range []struct {
		op   string
		rate *float64
	}{{opWrite, &v.Write}, {opRead, &v.Read}} {
		s := setting{way: way{op: m.op, chunk: probeChunk, streams: 1, direct: t.direct}, bytes: max(bytes, 2*probeChunk), limit: limit}
		n, span, err := t.do(ctx, s)
		if err != nil {
			v.Err = err
			return v
		}
		*m.rate = float64(n) / max(span, 1).Seconds()
	}
	return v
}

// distinct removes duplicates: directories that don't exist yet may have one parent.
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
