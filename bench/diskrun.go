package bench

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"drumbeat/disk"
)

// target is one directory. It belongs to one goroutine at a time.
type target struct {
	fs     disk.FS
	dir    string
	prefix string // of the names of this run's files
	real   bool   // on the system's FS, where pages can be dropped and O_DIRECT be tried
	direct bool   // O_DIRECT works here
	buf    []byte // one chunk to write, of random bytes
	in     []byte // one chunk read
}

// openTargets looks at every directory and takes its buffers.
func (r *DiskReport) openTargets() ([]*target, error) {
	largest := slices.Max(r.opt.Chunks)
	var targets []*target
	fail := func(err error) ([]*target, error) {
		for _, t := range targets {
			t.free()
		}
		return nil, err
	}
	real := r.opt.FS == disk.OS()
	for i, dir := range r.opt.Dirs {
		if _, err := r.opt.FS.List(dir); err != nil {
			return fail(fmt.Errorf("bench: disk: directory %s: %w", dir, err))
		}
		var id [6]byte
		_, _ = rand.Read(id[:]) // never fails
		t := &target{fs: r.opt.FS, dir: dir, prefix: "drumbeat-bench-" + hex.EncodeToString(id[:]), real: real,
			buf: disk.Alloc(largest), in: disk.Alloc(largest)}
		targets = append(targets, t)
		_, _ = rand.Read(t.buf) // what a file system can't compress
		if !real {
			continue
		}
		t.direct = true
		if err := t.tryDirect(); err != nil {
			if !errors.Is(err, errNoDirect) {
				return fail(err)
			}
			t.direct = false
			r.Notes = append(r.Notes, fmt.Sprintf("Directory %d (%s) has no O_DIRECT: only plain figures. (%v)", i, dir, err))
		}
		notes, err := describe(r.opt.Dirs, i)
		if err != nil {
			return fail(err)
		}
		r.Notes = append(r.Notes, notes...)
	}
	return targets, nil
}

func (t *target) free() {
	disk.Free(t.buf)
	disk.Free(t.in)
	t.buf, t.in = nil, nil
}

func (t *target) name(file string) string { return path.Join(t.dir, t.prefix+"-"+file) }

// open opens one of the files, which create makes anew.
func (t *target) open(file string, create, direct bool) (disk.File, error) {
	name := t.name(file)
	switch {
	case direct:
		return openDirect(name, create)
	case create:
		return t.fs.Create(name)
	}
	return t.fs.OpenRead(name)
}

// remove deletes both files; that one isn't there is no fault.
func (t *target) remove() error {
	var faults []error
	for _, file := range []string{"a", "b"} {
		if err := t.fs.Remove(t.name(file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, fmt.Errorf("bench: disk: remove %s: %w", t.name(file), err))
		}
	}
	return errors.Join(faults...)
}

// setting is how a measurement is made.
type setting struct {
	chunk  int
	direct bool
	bytes  int64         // moved in each directory
	limit  time.Duration // ends a measurement early; 0: never
}

// job is one measurement in one directory. It returns the bytes moved and the time from the first to the
// last of them, syncing included.
type job func(ctx context.Context, t *target, s setting) (int64, time.Duration, error)

// write makes file a.
func write(ctx context.Context, t *target, s setting) (n int64, span time.Duration, err error) {
	f, err := t.open("a", true, s.direct)
	if err != nil {
		return 0, 0, fmt.Errorf("bench: disk: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	start := time.Now()
	for n+int64(s.chunk) <= s.bytes && !(n >= 2*int64(s.chunk) && s.over(start)) && err == nil {
		err = t.put(ctx, f, n, s.chunk)
		n += int64(s.chunk)
	}
	if err == nil {
		err = sync(f)
	}
	return n, time.Since(start), err
}

// read reads file a.
func read(ctx context.Context, t *target, s setting) (n int64, span time.Duration, err error) {
	f, size, err := t.reopen(s)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	start := time.Now()
	for n+int64(s.chunk) <= size && !(n > 0 && s.over(start)) && err == nil {
		err = t.get(ctx, f, n, s.chunk)
		n += int64(s.chunk)
	}
	return n, time.Since(start), err
}

// mixed reads the first half of file a and writes file b, one chunk each in turns, as a pass reads the old
// and writes the new cache file.
func mixed(ctx context.Context, t *target, s setting) (n int64, span time.Duration, err error) {
	from, size, err := t.reopen(s)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := t.open("b", true, s.direct)
	if err != nil {
		return 0, 0, fmt.Errorf("bench: disk: %w", err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	chunk := int64(s.chunk)
	start := time.Now()
	for off := int64(0); 2*(off+chunk) <= size && !(off > 0 && s.over(start)) && err == nil; off += chunk {
		if err = t.get(ctx, from, off, s.chunk); err == nil {
			err = t.put(ctx, to, off, s.chunk)
		}
		n += 2 * chunk
	}
	if err == nil {
		err = sync(to)
	}
	return n, time.Since(start), err
}

// sync makes a file durable.
func sync(f disk.File) error {
	if err := f.Sync(); err != nil {
		return fmt.Errorf("bench: disk: sync %s: %w", f.Name(), err)
	}
	return nil
}

// over says that a measurement begun at start has had its time.
func (s setting) over(start time.Time) bool { return s.limit > 0 && time.Since(start) > s.limit }

// reopen opens file a for reading, of which nothing is in the page cache any more.
func (t *target) reopen(s setting) (disk.File, int64, error) {
	if t.real {
		if err := dropPages(t.name("a")); err != nil {
			return nil, 0, err
		}
	}
	f, err := t.open("a", false, s.direct)
	if err != nil {
		return nil, 0, fmt.Errorf("bench: disk: %w", err)
	}
	size, err := f.Size()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("bench: disk: %w", err), f.Close())
	}
	return f, size, nil
}

// put writes the chunk at off. Every block of it is marked with its place, so that no two blocks on disk
// are equal.
func (t *target) put(ctx context.Context, f disk.File, off int64, chunk int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := 0; i < chunk; i += align {
		binary.LittleEndian.PutUint64(t.buf[i:], uint64(off)+uint64(i))
	}
	if _, err := f.WriteAt(t.buf[:chunk], off); err != nil {
		return fmt.Errorf("bench: disk: write %s at %d: %w", f.Name(), off, err)
	}
	return nil
}

// get reads the chunk at off and looks for the marks.
func (t *target) get(ctx context.Context, f disk.File, off int64, chunk int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := f.ReadAt(t.in[:chunk], off); err != nil {
		return fmt.Errorf("bench: disk: read %s at %d: %w", f.Name(), off, err)
	}
	for i := 0; i < chunk; i += align {
		want := uint64(off) + uint64(i)
		if got := binary.LittleEndian.Uint64(t.in[i:]); got != want {
			return fmt.Errorf("bench: disk: read %s at %d: got the block of %d", f.Name(), want, got)
		}
	}
	return nil
}

// group is a set of directories that are busy at the same time.
type group struct {
	name    string
	targets []*target
}

// direct says that all of them can do without the page cache.
func (g group) direct() bool {
	return !slices.ContainsFunc(g.targets, func(t *target) bool { return !t.direct })
}

// measure does one measurement of each kind, and removes the files.
func (g group) measure(ctx context.Context, s setting, done func(op string, bytes int64, span time.Duration)) (err error) {
	defer func() {
		for _, t := range g.targets {
			err = errors.Join(err, t.remove())
		}
	}()
	for _, j := range []struct {
		op string
		do job
	}{{opWrite, write}, {opRead, read}, {opMixed, mixed}} {
		n, span, err := g.startAll(ctx, s, j.do)
		if err != nil {
			return err
		}
		done(j.op, n, span)
	}
	return nil
}

// startAll does a job in all directories at once, in a goroutine each, and waits for them. The bytes are
// those of all directories, the time is that of the slowest.
func (g group) startAll(ctx context.Context, s setting, do job) (int64, time.Duration, error) {
	type result struct {
		n    int64
		span time.Duration
		err  error
	}
	results := make(chan result, len(g.targets))
	for _, t := range g.targets {
		go func() {
			n, span, err := do(ctx, t, s)
			results <- result{n, span, err}
		}()
	}
	var sum result
	for range g.targets {
		r := <-results
		sum.n, sum.span, sum.err = sum.n+r.n, max(sum.span, r.span), errors.Join(sum.err, r.err)
	}
	return sum.n, sum.span, sum.err
}

// probeBytes is what the probe moves in each directory.
const probeBytes = 32 << 20

// probe looks whether there is room, and fits Bytes to the budget.
func (r *DiskReport) probe(ctx context.Context, targets []*target, groups []group) error {
	largest := int64(slices.Max(r.opt.Chunks))
	for _, t := range targets {
		free, _, err := t.fs.Space(t.dir)
		if err != nil {
			return fmt.Errorf("bench: disk: space of %s: %w", t.dir, err)
		}
		if need := r.Bytes + r.Bytes/2; free < need {
			return fmt.Errorf("bench: disk: directory %s has %d bytes free, want %d: choose a smaller size", t.dir, free, need)
		}
	}
	if r.opt.Budget == 0 {
		return nil
	}
	r.opt.Progress("probe")
	// Whole repeats of all groups, at the speed of all directories together: slower than alone if they
	// share a device.
	all := group{"all", targets}
	moves, seconds := int64(0), 0.0
	s := setting{chunk: int(min(1<<20, largest)), direct: all.direct(), bytes: min(probeBytes, r.Bytes), limit: r.opt.Budget / 20}
	err := all.measure(ctx, s, func(_ string, n int64, span time.Duration) {
		moves, seconds = moves+n, seconds+span.Seconds()
	})
	if err != nil {
		return err
	}
	busy := 0
	for _, g := range groups {
		busy += len(g.targets)
	}
	fits := float64(moves) / seconds * r.opt.Budget.Seconds() * 0.6 / float64(r.kinds()*busy*r.opt.Repeats)
	if int64(fits) < r.Bytes {
		r.Bytes = max(2*largest, int64(fits)/(2*largest)*(2*largest))
		r.Notes = append(r.Notes, fmt.Sprintf("Cut from %s to %s to take about %v.",
			binaryBytes(int(r.opt.Bytes)), binaryBytes(int(r.Bytes)), r.opt.Budget))
	}
	return nil
}
