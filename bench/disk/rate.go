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
	v := speedOf(ctx, distinct(dirs), diskRateBytes, diskRateTime)
	return (v.Write + v.Read) / 2, v.Err
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
			speeds[i] = speedOf(ctx, []string{dir}, bytes, limit)
			done <- struct{}{}
		}()
	}
	for range dirs {
		<-done
	}
	return speeds
}

// speedOf measures directories together.
func speedOf(ctx context.Context, dirs []string, bytes int64, limit time.Duration) (v Speed) {
	r := &diskRun{opt: Options{FS: disk.OS(), Dirs: dirs, Chunks: []int{probeChunk}, Blocks: []int{probeChunk}},
		bytes: bytes}
	targets, err := r.openTargets()
	if err != nil {
		return Speed{Err: err}
	}
	all := group{"all", targets}
	defer func() {
		v.Err = errors.Join(v.Err, all.remove())
		all.free()
	}()
	if err := r.room(targets); err != nil {
		return Speed{Err: err}
	}
	v.Direct = all.direct()
	for _, m := range []struct {
		op   string
		rate *float64
	}{{opWrite, &v.Write}, {opRead, &v.Read}} {
		s := setting{way: way{op: m.op, chunk: probeChunk, streams: 1, direct: v.Direct},
			bytes: max(bytes, 2*probeChunk), limit: limit}
		n, span, err := all.startAll(ctx, s)
		if err != nil {
			return Speed{Err: err}
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
