package outfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/disk"
)

const (
	// openSuffix marks a file that isn't final.
	openSuffix = ".open"
	// blockBytes is the unit in which files are written until they are closed.
	blockBytes = 4096
	// defaultBufferBytes is a compromise: the page cache gathers what goes to the disk in any case, so that a write needs only be long
	// beside the call, and what a CPU's second cache holds is copied twice for 2.1 us a page of 7 KB, 1 MiB for 3.1.
	defaultBufferBytes = 256 << 10
)

// behindBytes of a file are written before the disk is asked to begin with them. Else seconds of output would lie in RAM until
// a checkpoint syncs them, and the last one would hold up the end of the crawl.
const behindBytes = 1 << 20

// ErrClosed is returned by calls on a closed Store.
var ErrClosed = errors.New("outfile: closed")

// Stream is one of the files that a volume consists of.
type Stream struct {
	// Suffix ends the file's name, such as ".warc.gz".
	Suffix string
	// Finish, if set, makes the content of the final file from what was written (a sorted index). It is
	// read whole: the caller rotates before it is too large. It may reuse data's memory.
	Finish func(data []byte) []byte
}

// Options of a Store. Set, State, Name and Streams are required.
type Options struct {
	// Set holds the output directories: one lane each.
	Set disk.Set
	// State holds the directories whose tail files the states refer to.
	State disk.Set
	// Sub is the subdirectory of each output directory that the files are in.
	Sub string
	// Prefix begins the names of all files; what doesn't begin with it is never touched.
	Prefix string
	// Streams of a volume, at least one. Their order is part of the states.
	Streams []Stream
	// Name returns the name of the volume with a serial number, begun now: Prefix, then anything, without
	// the suffix. Names of different serials differ.
	Name func(serial uint64, now time.Time) string
	// BufferBytes per stream and directory, rounded up to 4 KiB. 0: 256 KiB.
	BufferBytes int
	// Mode is what final files have, such as 0640; output directories and Sub let the same people in, besides those that they let
	// in already. 0: as the file system makes them.
	Mode fs.FileMode
}

// Validate returns all faults of the options.
func (o *Options) Validate() error {
	var errs []error
	check := func(ok bool, text string) {
		if !ok {
			errs = append(errs, errors.New("outfile: options: "+text))
		}
	}
	check(o.Set.FS != nil && o.Set.Len() > 0, "no output directory")
	check(o.State.FS != nil && o.State.Len() > 0, "no state directory")
	check(o.Prefix != "" && !strings.ContainsAny(o.Prefix, "/\x00"), "prefix is empty or no file name")
	check(len(o.Streams) > 0, "no streams")
	check(o.Name != nil, "no Name")
	check(o.BufferBytes >= 0, "negative BufferBytes")
	return errors.Join(errs...)
}

// Store is a set of lanes, one per output directory. See the package comment for concurrency.
type Store struct {
	opt    Options
	lanes  []*Lane
	turn   atomic.Uint32
	serial atomic.Uint64 // of the next volume

	finished finishedFiles

	mu     sync.Mutex // guards what follows; no I/O under it
	closed []Volume   // complete, not yet final
	err    error      // the first failed write
}

// Finished are the files that got their final names since Open.
type Finished struct {
	Files, Bytes int64
	Paths        []string // of the first MaxFinished
}

// MaxFinished bounds the paths in a Finished.
const MaxFinished = 16

// finishedFiles gathers them.
type finishedFiles struct {
	mu  sync.Mutex // guards sum
	sum Finished
}

func (f *finishedFiles) add(path string, size int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sum.Files++
	f.sum.Bytes += size
	if len(f.sum.Paths) < MaxFinished {
		f.sum.Paths = append(f.sum.Paths, path)
	}
}

// Finished returns the files that got their final names since Open.
func (s *Store) Finished() Finished {
	s.finished.mu.Lock()
	defer s.finished.mu.Unlock()
	sum := s.finished.sum
	sum.Paths = slices.Clone(sum.Paths)
	return sum
}

// Merge adds what another store has finished.
func (f *Finished) Merge(o Finished) {
	f.Files, f.Bytes = f.Files+o.Files, f.Bytes+o.Bytes
	f.Paths = append(f.Paths, o.Paths...)
	f.Paths = f.Paths[:min(len(f.Paths), MaxFinished)]
}

// Lane is one output directory of a Store, with at most one open volume. Between Acquire and Release it
// belongs to the caller.
type Lane struct {
	store *Store
	dir   int

	mu      sync.Mutex // held from Acquire to Release
	name    string     // of the open volume; "" if there is none
	serial  uint64     // of the open volume
	begun   int64      // when the open volume was, in Unix seconds
	streams []stream
	closed  bool
}

// stream is the open file of one stream of a lane. Guarded by the lane's lock.
type stream struct {
	final  string    // the file's name when the volume is final
	f      disk.File // nil until the first write
	buf    []byte    // what follows the file's bytes; cap is the buffer size, nil until first used
	size   int64     // bytes in the file, a multiple of blockBytes
	pinned *Frozen   // buf's present bytes belong to this Frozen, which has not saved them
}

// Open makes a Store of what st names: nil for a new one. It cuts, completes and removes files as the
// package comment says.
func Open(opt Options, st *State) (*Store, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	if opt.BufferBytes == 0 {
		opt.BufferBytes = defaultBufferBytes
	}
	opt.BufferBytes = (opt.BufferBytes + blockBytes - 1) / blockBytes * blockBytes
	s := &Store{opt: opt}
	for dir := range opt.Set.Paths {
		s.lanes = append(s.lanes, &Lane{store: s, dir: dir, streams: make([]stream, len(opt.Streams))})
	}
	if st == nil {
		st = &State{V: stateVersion}
	}
	if err := s.recover(st); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Acquire returns a lane for the caller's use until Release: the next in turn that is free, or the next in
// turn.
func (s *Store) Acquire() *Lane {
	first := int(s.turn.Add(1)-1) % len(s.lanes)
	for i := range s.lanes {
		if l := s.lanes[(first+i)%len(s.lanes)]; l.mu.TryLock() {
			return l
		}
	}
	s.lanes[first].mu.Lock()
	return s.lanes[first]
}

// Release gives the lane back.
func (l *Lane) Release() { l.mu.Unlock() }

// Dir returns the number of the lane's directory.
func (l *Lane) Dir() int { return l.dir }

// Name returns the open volume's name without suffix; "" if none is open.
func (l *Lane) Name() string { return l.name }

// File returns the final name of a stream's file of the open volume.
func (l *Lane) File(i int) string { return l.streams[i].final }

// Size returns how many bytes of a stream the open volume has.
func (l *Lane) Size(i int) int64 { return l.streams[i].size + int64(len(l.streams[i].buf)) }

// Begin opens a volume, which is to be none open. Its files are created when the first buffer is full.
func (l *Lane) Begin(now time.Time) error {
	if err := l.check(); err != nil {
		return err
	}
	if l.name != "" {
		panic("BUG: outfile: Begin with an open volume")
	}
	l.serial, l.begun = l.store.serial.Add(1)-1, now.Unix()
	l.name = l.store.opt.Name(l.serial, now)
	if !l.store.owns(l.name) {
		panic("BUG: outfile: name " + l.name + " without the prefix")
	}
	l.setFinal()
	return nil
}

// setFinal notes the names of the open volume's files.
func (l *Lane) setFinal() {
	for i := range l.streams {
		l.streams[i].final = l.name + l.store.opt.Streams[i].Suffix
	}
}

// Write appends p, which it copies, to a stream of the open volume.
func (l *Lane) Write(i int, p []byte) error {
	if err := l.check(); err != nil {
		return err
	}
	if l.name == "" {
		panic("BUG: outfile: Write without a volume")
	}
	st := &l.streams[i]
	for len(p) > 0 {
		if len(st.buf) == 0 && len(p) >= l.store.opt.BufferBytes && st.pinned == nil {
			n := len(p) / blockBytes * blockBytes
			if err := l.writeFile(i, p[:n]); err != nil {
				return err
			}
			p = p[n:]
			continue
		}
		if st.buf == nil {
			st.buf = make([]byte, 0, l.store.opt.BufferBytes)
		}
		n := min(len(p), cap(st.buf)-len(st.buf))
		st.buf = append(st.buf, p[:n]...)
		p = p[n:]
		if len(st.buf) < cap(st.buf) {
			continue
		}
		if err := l.writeFile(i, st.buf); err != nil {
			return err
		}
		st.reset()
	}
	return nil
}

// reset empties the buffer, leaving its bytes to a Frozen that still needs them.
func (st *stream) reset() {
	if st.pinned != nil {
		st.buf, st.pinned = nil, nil
		return
	}
	st.buf = st.buf[:0]
}

// writeFile appends p to the file of a stream, which it creates first if need be. A failure is the store's
// for ever.
func (l *Lane) writeFile(i int, p []byte) error {
	st, s := &l.streams[i], l.store
	if st.f == nil {
		path := s.path(l.dir, l.name+s.opt.Streams[i].Suffix+openSuffix)
		f, err := s.opt.Set.FS.Create(path)
		if err != nil {
			return s.fail(fmt.Errorf("outfile: create %s: %w", path, err))
		}
		st.f = f
	}
	if _, err := st.f.WriteAt(p, st.size); err != nil {
		return s.fail(fmt.Errorf("outfile: write %d bytes to %s at %d: %w", len(p), st.f.Name(), st.size, err))
	}
	begin := st.size / behindBytes * behindBytes
	st.size += int64(len(p))
	disk.WriteBehind(st.f, begin, st.size/behindBytes*behindBytes-begin)
	return nil
}

// Roll closes the open volume, if there is one: writes what is buffered. It becomes final with the Commit
// of a state that is frozen later.
func (l *Lane) Roll() error {
	if err := l.check(); err != nil {
		return err
	}
	if l.name == "" {
		return nil
	}
	v := Volume{Dir: l.dir, Serial: l.serial, Name: l.name, Begun: l.begun, Closed: true}
	for i := range l.streams {
		st := &l.streams[i]
		if len(st.buf) > 0 {
			if err := l.writeFile(i, st.buf); err != nil {
				return err
			}
		}
		st.reset()
		v.Streams = append(v.Streams, StreamState{Size: st.size})
		if st.f != nil {
			if err := st.f.Close(); err != nil {
				return l.store.fail(fmt.Errorf("outfile: close %s: %w", st.f.Name(), err))
			}
		}
		st.f, st.size = nil, 0
	}
	l.name = ""
	l.store.mu.Lock()
	l.store.closed = append(l.store.closed, v)
	l.store.mu.Unlock()
	return nil
}

// Roll closes the open volume of every lane: before the last checkpoint of a run, so that its files become final.
func (s *Store) Roll() error {
	_, err := s.RollOld(math.MaxInt64)
	return err
}

// RollOld closes the open volumes that were begun at begunBy, in Unix seconds, or before. It reports whether there were any; the
// next checkpoint makes their files final.
func (s *Store) RollOld(begunBy int64) (rolled bool, err error) {
	for _, l := range s.lanes {
		l.mu.Lock()
		if l.name != "" && l.begun <= begunBy {
			rolled = true
			err = l.Roll()
		}
		l.mu.Unlock()
		if err != nil {
			return rolled, err
		}
	}
	return rolled, nil
}

// Close closes the files. It writes nothing: what is in buffers and not in a state is lost.
func (s *Store) Close() error {
	var errs []error
	for _, l := range s.lanes {
		l.mu.Lock()
		l.closed = true
		for i := range l.streams {
			if f := l.streams[i].f; f != nil {
				errs = append(errs, f.Close())
			}
			l.streams[i] = stream{}
		}
		l.mu.Unlock()
	}
	return errors.Join(errs...)
}

func (l *Lane) check() error {
	if l.closed {
		return ErrClosed
	}
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	return l.store.err
}

func (s *Store) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	return s.err
}

func (s *Store) path(dir int, name string) string { return s.opt.Set.Path(dir, s.opt.Sub, name) }

// owns reports whether a file name can be one that this store gave.
func (s *Store) owns(name string) bool { return s.opt.owns(name) }

func (o *Options) owns(name string) bool {
	return strings.HasPrefix(name, o.Prefix+"-") && !strings.ContainsAny(name, "/\x00")
}

// recover brings the files to what st names.
func (s *Store) recover(st *State) error {
	if err := st.check(&s.opt); err != nil {
		return fmt.Errorf("outfile: open: %w", err)
	}
	s.serial.Store(st.Serial)
	named := make([]map[string]bool, s.opt.Set.Len())
	for dir := range named {
		named[dir] = make(map[string]bool)
		if err := s.opt.Set.FS.MkdirAll(s.path(dir, "")); err != nil {
			return fmt.Errorf("outfile: open: %w", err)
		}
		if err := s.openDoors(dir); err != nil {
			return fmt.Errorf("outfile: open: %w", err)
		}
	}
	for i := range st.Volumes {
		v := &st.Volumes[i]
		for _, stream := range s.opt.Streams {
			named[v.Dir][v.Name+stream.Suffix+openSuffix] = true
		}
	}
	for dir := range named {
		if err := s.removeUnnamed(dir, named[dir]); err != nil {
			return err
		}
	}
	for i := range st.Volumes {
		v := &st.Volumes[i]
		var err error
		if v.Closed {
			err = s.finish(v)
		} else {
			err = s.reopen(v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openDoors lets those into an output directory who may read its files.
func (s *Store) openDoors(dir int) error {
	if s.opt.Mode == 0 {
		return nil
	}
	read := s.opt.Mode&0o444 | s.opt.Mode&0o444>>2 // who may read the files may list them and go through
	write := s.opt.Mode & 0o222                    // who may write to the files may move them away, but nothing else of the crawl
	return errors.Join(disk.Widen(s.opt.Set.FS, s.opt.Set.Path(dir), read), disk.Widen(s.opt.Set.FS, s.path(dir, ""), read|write))
}

// removeUnnamed deletes the files of a directory that aren't final and that no state names.
func (s *Store) removeUnnamed(dir int, named map[string]bool) error {
	names, err := s.opt.Set.FS.List(s.path(dir, ""))
	if err != nil {
		return fmt.Errorf("outfile: open: %w", err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, openSuffix) || !s.owns(name) || named[name] || !s.hasSuffix(name) {
			continue
		}
		if err := s.opt.Set.FS.Remove(s.path(dir, name)); err != nil {
			return fmt.Errorf("outfile: open: %w", err)
		}
	}
	return nil
}

func (s *Store) hasSuffix(name string) bool {
	for _, stream := range s.opt.Streams {
		if strings.HasSuffix(name, stream.Suffix+openSuffix) {
			return true
		}
	}
	return false
}

// reopen cuts the files of an open volume to their named lengths and takes its tails into the buffers.
func (s *Store) reopen(v *Volume) error {
	l := s.lanes[v.Dir]
	if l.name != "" {
		return fmt.Errorf("outfile: open: state names two open volumes in directory %d: %s, %s", v.Dir, l.name, v.Name)
	}
	l.name, l.serial, l.begun = v.Name, v.Serial, v.Begun
	l.setFinal()
	for i, want := range v.Streams {
		st := &l.streams[i]
		path := s.path(v.Dir, v.Name+s.opt.Streams[i].Suffix+openSuffix)
		if want.Size > 0 {
			f, err := s.opt.Set.FS.Open(path)
			if err != nil {
				return fmt.Errorf("outfile: open: %w", err)
			}
			st.f = f
			if err := cut(f, want.Size); err != nil {
				return err
			}
			st.size = want.Size
		} else if err := s.opt.Set.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("outfile: open: %w", err)
		}
		tail, err := disk.ReadTail(s.opt.State, want.Tail)
		if err != nil {
			return err
		}
		if err := l.Write(i, tail); err != nil {
			return err
		}
	}
	return nil
}

func cut(f disk.File, want int64) error {
	size, err := f.Size()
	if err == nil && size < want {
		return &disk.CorruptError{
			Path: f.Name(), Offset: size,
			Want: fmt.Sprintf("%d bytes", want), Got: fmt.Sprintf("%d bytes", size),
		}
	}
	if err == nil && size > want {
		err = f.Truncate(want)
	}
	if err != nil {
		return fmt.Errorf("outfile: open: cut %s to %d: %w", f.Name(), want, err)
	}
	return nil
}

// sortVolumes orders volumes by serial: the order of a state.
func sortVolumes(vs []Volume) {
	slices.SortFunc(vs, func(a, b Volume) int { return cmp.Compare(a.Serial, b.Serial) })
}
