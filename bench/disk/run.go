package disk

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
	"strconv"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/bench/result"
	"drumbeat/disk"
	"drumbeat/internal/human"
)

// target is one directory. It is for one goroutine at a time, except in a mixed measurement, where one
// goroutine reads into in and another writes from buf.
type target struct {
	fs     disk.FS
	dir    string
	prefix string   // prefix of the names of this run's files
	made   []string // names of files that may exist
	size   int64    // size of each file of the last write
	real   bool     // on the system's FS, which can drop pages and may support O_DIRECT
	direct bool     // O_DIRECT works here
	buf    []byte   // one chunk to write, of random bytes
	in     []byte   // one chunk read
}

// openTargets examines every directory and allocates its buffers.
func (r *diskRun) openTargets() ([]*target, error) {
	largest := max(slices.Max(r.opt.Chunks), slices.Max(r.opt.Blocks))
	var targets []*target
	fail := func(err error) ([]*target, error) {
		group{targets: targets}.free()
		return nil, err
	}
	real := disk.IsOS(r.opt.FS)
	for i, dir := range r.opt.Dirs {
		if _, err := r.opt.FS.List(dir); err != nil {
			return fail(fmt.Errorf("bench: disk: directory %s: %w", dir, err))
		}
		var id [6]byte
		_, _ = rand.Read(id[:]) // never fails
		t := &target{fs: r.opt.FS, dir: dir, prefix: "drumbeat-bench-" + hex.EncodeToString(id[:]), real: real,
			buf: disk.Alloc(largest), in: disk.Alloc(largest)}
		targets = append(targets, t)
		_, _ = rand.Read(t.buf) // incompressible
		if !real {
			continue
		}
		t.direct = true
		if err := t.tryDirect(); err != nil {
			if !errors.Is(err, errNoDirect) {
				return fail(err)
			}
			t.direct = false
			r.note(fmt.Sprintf("Directory %d (%s) does not support O_DIRECT: its figures use the page cache.",
				i, dir))
		}
		notes, err := describe(r.opt.Dirs, i)
		if err != nil {
			return fail(err)
		}
		r.notes = append(r.notes, notes...)
	}
	return targets, nil
}

func (t *target) free() {
	disk.Free(t.buf)
	disk.Free(t.in)
	t.buf, t.in = nil, nil
}

// base returns a file's name in the directory; path returns its path.
func (t *target) base(file string) string { return t.prefix + "-" + file }
func (t *target) path(file string) string { return path.Join(t.dir, t.base(file)) }

// open opens one of the files for writing or reading.
func (t *target) open(file string, write, direct bool) (f disk.File, err error) {
	from := t.fs
	if direct {
		from = disk.Direct()
	}
	if write {
		f, err = from.Open(t.path(file))
	} else {
		f, err = from.OpenRead(t.path(file))
	}
	if err != nil {
		return nil, fmt.Errorf("bench: disk: %w", err)
	}
	return f, nil
}

// create creates an empty file.
func (t *target) create(file string) error {
	t.made = append(t.made, file)
	f, err := t.fs.Create(t.path(file))
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("bench: disk: create %s: %w", t.path(file), err)
	}
	return nil
}

// remove deletes all files; it ignores missing ones.
func (t *target) remove() error {
	var faults []error
	for _, file := range t.made {
		if err := t.fs.Remove(t.path(file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, fmt.Errorf("bench: disk: remove %s: %w", t.path(file), err))
		}
	}
	t.made = nil
	return errors.Join(faults...)
}

// setting holds the parameters of one measurement.
type setting struct {
	way
	bytes int64         // bytes to transfer in each directory
	limit time.Duration // ends a measurement early; 0: never
}

// fileBytes returns the length of each file.
func (s setting) fileBytes() int64 {
	round := int64(s.chunk) * int64(s.streams)
	return s.bytes / round * int64(s.chunk)
}

// syncs reports whether a measurement ends with a sync of each file. Blocks of k files written with
// O_DIRECT are on disk already; a pass doesn't sync its buckets.
func (s setting) syncs() bool { return s.streams == 1 || !s.direct }

// files returns the names of the files of a measurement.
func (s setting) files() []string {
	if s.streams == 1 {
		return []string{"a"}
	}
	names := make([]string, s.streams)
	for i := range names {
		names[i] = "s" + strconv.Itoa(i)
	}
	return names
}

// over reports whether a measurement that began at start has exceeded its time.
func (s setting) over(start time.Time) bool { return s.limit > 0 && time.Since(start) > s.limit }

// do makes one measurement in one directory. It returns the bytes transferred and the time from the first
// to the last of them, with the sync.
func (t *target) do(ctx context.Context, s setting) (int64, time.Duration, error) {
	switch {
	case s.op == opMixed:
		return t.mixed(ctx, s)
	case s.op == opRead:
		return t.read(ctx, s)
	}
	return t.write(ctx, s)
}

// write fills the files alternately, one chunk each. With several files it opens a file for each chunk, as
// drum does with its buckets.
func (t *target) write(ctx context.Context, s setting) (n int64, span time.Duration, err error) {
	names := s.files()
	for _, name := range names {
		if err := t.create(name); err != nil {
			return 0, 0, err
		}
	}
	start := time.Now()
	if s.streams == 1 {
		n, err = t.writeOne(ctx, s, "a", s.fileBytes(), start)
		t.size = n
		return n, time.Since(start), err
	}
	chunk := int64(s.chunk)
	for t.size = 0; t.size < s.fileBytes() && !(t.size > 0 && s.over(start)); t.size += chunk {
		for i, name := range names {
			f, err := t.open(name, true, s.direct)
			if err != nil {
				return 0, 0, err
			}
			if err := errors.Join(t.put(ctx, f, t.size, mark(i), s.chunk), f.Close()); err != nil {
				return 0, 0, err
			}
			n += chunk
		}
	}
	if s.syncs() {
		for _, name := range names {
			f, err := t.open(name, true, false)
			if err != nil {
				return 0, 0, err
			}
			if err := errors.Join(sync(f), f.Close()); err != nil {
				return 0, 0, err
			}
		}
	}
	return n, time.Since(start), nil
}

// writeOne fills one file.
func (t *target) writeOne(ctx context.Context, s setting, name string, size int64,
	start time.Time) (n int64, err error) {
	f, err := t.open(name, true, s.direct)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for n+int64(s.chunk) <= size && !(n >= 2*int64(s.chunk) && s.over(start)) {
		if err := t.put(ctx, f, n, 0, s.chunk); err != nil {
			return n, err
		}
		n += int64(s.chunk)
	}
	return n, sync(f)
}

// read reads the files of the last write, one after the other.
func (t *target) read(ctx context.Context, s setting) (n int64, span time.Duration, err error) {
	if err := t.drop(s); err != nil {
		return 0, 0, err
	}
	start := time.Now()
	for i, name := range s.files() {
		if n > 0 && s.over(start) {
			break
		}
		one, err := t.readOne(ctx, s, i, t.size, start)
		if err != nil {
			return 0, 0, fmt.Errorf("bench: disk: file %s: %w", name, err)
		}
		n += one
	}
	return n, time.Since(start), nil
}

// readOne reads file number i up to size.
func (t *target) readOne(ctx context.Context, s setting, i int, size int64, start time.Time) (n int64, err error) {
	f, err := t.open(s.files()[i], false, s.direct)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for n+int64(s.chunk) <= size && !(n > 0 && s.over(start)) {
		if err := t.get(ctx, f, n, mark(i), s.chunk); err != nil {
			return n, err
		}
		n += int64(s.chunk)
	}
	return n, nil
}

// mixed reads the first half of file a while it writes an equal amount to file b, as a pass reads the old
// cache file and writes the new one.
func (t *target) mixed(ctx context.Context, s setting) (n int64, span time.Duration, err error) {
	if err := errors.Join(t.drop(s), t.create("b")); err != nil {
		return 0, 0, err
	}
	half := t.size / 2
	type result struct {
		n   int64
		err error
	}
	wrote := make(chan result, 1)
	start := time.Now()
	go func() {
		n, err := t.writeOne(ctx, s, "b", half, start)
		wrote <- result{n, err}
	}()
	n, err = t.readOne(ctx, s, 0, half, start)
	w := <-wrote
	span = time.Since(start)
	err = errors.Join(err, w.err, t.fs.Remove(t.path("b")))
	return n + w.n, span, err
}

// drop removes the written files from the page cache.
func (t *target) drop(s setting) error {
	if !t.real {
		return nil
	}
	for _, name := range s.files() {
		if err := measure.DropPages(t.path(name)); err != nil {
			return err
		}
	}
	return nil
}

// sync makes a file durable.
func sync(f disk.File) error {
	if err := f.Sync(); err != nil {
		return fmt.Errorf("bench: disk: sync %s: %w", f.Name(), err)
	}
	return nil
}

// mark distinguishes the blocks of file number i from those of others.
func mark(i int) uint64 { return uint64(i) << 48 }

// put writes the chunk at off. It marks every block with its position so that no two blocks on disk are
// equal.
func (t *target) put(ctx context.Context, f disk.File, off int64, mark uint64, chunk int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := 0; i < chunk; i += align {
		binary.LittleEndian.PutUint64(t.buf[i:], mark+uint64(off)+uint64(i))
	}
	if _, err := f.WriteAt(t.buf[:chunk], off); err != nil {
		return fmt.Errorf("bench: disk: write %s at %d: %w", f.Name(), off, err)
	}
	return nil
}

// get reads the chunk at off and checks the marks.
func (t *target) get(ctx context.Context, f disk.File, off int64, mark uint64, chunk int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := f.ReadAt(t.in[:chunk], off); err != nil {
		return fmt.Errorf("bench: disk: read %s at %d: %w", f.Name(), off, err)
	}
	for i := 0; i < chunk; i += align {
		want := mark + uint64(off) + uint64(i)
		if got := binary.LittleEndian.Uint64(t.in[i:]); got != want {
			return fmt.Errorf("bench: disk: read %s at %d: it has block %#x, want %#x", f.Name(),
				off+int64(i), got, want)
		}
	}
	return nil
}

// group is a set of directories that are measured at the same time.
type group struct {
	name    string
	targets []*target
}

// direct reports whether all of them support O_DIRECT.
func (g group) direct() bool {
	return !slices.ContainsFunc(g.targets, func(t *target) bool { return !t.direct })
}

func (g group) free() {
	for _, t := range g.targets {
		t.free()
	}
}

func (g group) remove() (err error) {
	for _, t := range g.targets {
		err = errors.Join(err, t.remove())
	}
	return err
}

// startAll makes a measurement in all directories at once, one goroutine each, and waits for them. It
// returns the bytes of all directories and the time of the slowest.
func (g group) startAll(ctx context.Context, s setting) (int64, time.Duration, error) {
	type result struct {
		n    int64
		span time.Duration
		err  error
	}
	results := make(chan result, len(g.targets))
	for _, t := range g.targets {
		go func() {
			n, span, err := t.do(ctx, s)
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

// probeBytes is the number of bytes that the probe transfers in each directory.
const probeBytes = 32 << 20

// probeShare is the share of the budget to fill at the speed of the probe; the rest is for slower operations.
const probeShare = 0.7

// room returns an error if a directory has too little free space.
func (r *diskRun) room(targets []*target) error {
	need := r.bytes + r.bytes/2
	for _, t := range targets {
		free, _, err := t.fs.Space(t.dir)
		if err != nil {
			return fmt.Errorf("bench: disk: free space of %s: %w", t.dir, err)
		}
		if free < need {
			return fmt.Errorf("bench: disk: directory %s has %s free, want %s: choose a smaller --size",
				t.dir, human.Bytes(free), human.Bytes(need))
		}
	}
	return nil
}

// probe reduces the bytes to fit the budget.
func (r *diskRun) probe(ctx context.Context, targets []*target, groups []group) (err error) {
	r.opt.progress("estimate the speed")
	largest := int64(max(slices.Max(r.opt.Chunks), slices.Max(r.opt.Blocks)))
	// Use the speed of all directories together: it is lower than alone if they share a device.
	all := group{"all", targets}
	defer func() { err = errors.Join(err, all.remove()) }()
	moved, seconds := int64(0), 0.0
	for _, op := range []string{opWrite, opRead, opMixed} {
		s := setting{way: way{op: op, chunk: int(min(1<<20, largest)), streams: 1, direct: all.direct()},
			bytes: min(probeBytes, r.bytes), limit: r.opt.Budget / 20}
		n, span, err := all.startAll(ctx, s)
		if err != nil {
			return err
		}
		moved, seconds = moved+n, seconds+span.Seconds()
	}
	fits := int64(float64(moved) / seconds * probeShare * r.opt.Budget.Seconds() / float64(r.units(groups)))
	if fits < r.bytes {
		r.bytes = max(2*largest, fits/(2*largest)*(2*largest))
		r.note(fmt.Sprintf("Each measurement moves %[2]s instead of %[1]s, to fit --time %[3]s.",
			result.BinaryBytes(int(r.opt.Bytes)), result.BinaryBytes(int(r.bytes)), human.Exact(r.opt.Budget)))
	}
	return nil
}
