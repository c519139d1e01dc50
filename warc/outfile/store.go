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
	// OpenSuffix ends the name of a file that is not final.
	OpenSuffix = ".open"
	// blockBytes is the unit in which open files are written.
	blockBytes = 4096
	// defaultBufferBytes is a compromise. The page cache combines writes anyway, so a write only has to be
	// long enough to outweigh the call. Data in the CPU's second-level cache is copied twice in 2.1 µs for a
	// page of 7 KB, with 1 MiB buffers in 3.1 µs.
	defaultBufferBytes = 256 << 10
)

// behindBytes is how much of a file is written before the disk is told to start writing it out. Otherwise
// seconds of output would stay in RAM until a checkpoint syncs them, and the last one would delay the end of
// the crawl.
const behindBytes = 1 << 20

// ErrClosed is returned by calls on a closed Store.
var ErrClosed = errors.New("outfile: closed")

// Stream is one of the files of a volume.
type Stream struct {
	// Suffix ends the file name, such as ".warc.gz".
	Suffix string
	// Forms are further suffixes, of files with the content in another form. A volume has Suffix or one of
	// them; states number them from 1 and depend on their order.
	Forms []string
	// Form is the number of the suffix of new volumes; 0: Suffix.
	Form int
	// Finish, if set, converts the written content to the content of the final file, such as a sorted index.
	// It receives the whole file, so the caller must rotate before the file is too large. It may reuse
	// data's memory.
	Finish func(data []byte) []byte
}

// Options configure a Store. Set, State, Name and Streams are required.
type Options struct {
	// Set has the output directories, with one lane each.
	Set disk.Set
	// State has the directories of the tail files to which states refer.
	State disk.Set
	// Sub is the subdirectory of each output directory that contains the files.
	Sub string
	// Prefix begins the names of all files. Files with other names are never touched.
	Prefix string
	// Streams are those of a volume, at least one. States depend on their order.
	Streams []Stream
	// Name returns the name of the volume with the given serial number, begun now: Prefix followed by any
	// text, without the suffix. Names of different serials must differ.
	Name func(serial uint64, now time.Time) string
	// BufferBytes is the buffer size for each stream and directory, rounded up to 4 KiB; 0: 256 KiB.
	BufferBytes int
	// Mode is the mode of final files, such as 0640. Output directories and Sub give access to the same
	// users in addition to those who have it. 0: the file system's default.
	Mode fs.FileMode
}

// suffix returns the suffix with a number; that of 0 for one that State.check refuses.
func (s *Stream) suffix(form int) string {
	if form <= 0 || form > len(s.Forms) {
		return s.Suffix
	}
	return s.Forms[form-1]
}

// suffixes returns all suffixes by number.
func (s *Stream) suffixes() []string { return append([]string{s.Suffix}, s.Forms...) }

// Validate returns all faults of the options, joined.
func (o *Options) Validate() error {
	var errs []error
	check := func(ok bool, text string) {
		if !ok {
			errs = append(errs, errors.New("outfile: options: "+text))
		}
	}
	check(o.Set.FS != nil && o.Set.Len() > 0, "no output directory")
	check(o.State.FS != nil && o.State.Len() > 0, "no state directory")
	check(disk.PlainName(o.Prefix), "prefix is empty or not a file name")
	check(len(o.Streams) > 0, "no streams")
	check(o.Name != nil, "no Name")
	check(o.BufferBytes >= 0, "negative BufferBytes")
	for _, s := range o.Streams {
		check(s.Form >= 0 && s.Form <= len(s.Forms), "no suffix of the form of new volumes")
	}
	return errors.Join(errs...)
}

// Store has a lane for each output directory. See the package comment for concurrency.
type Store struct {
	opt    Options
	shards []*Shard
	turn   atomic.Uint32
	serial atomic.Uint64 // of the next volume

	finished finishedFiles

	mu       sync.Mutex // guards the fields below; not held during I/O
	closed   []Volume   // closed but not yet final
	detached uint64     // volumes neither attached nor discarded
	unused   uint64     // serials of discarded volumes
	err      error      // first failed write
}

// Finished are the files that became final since Open.
type Finished struct {
	Files, Bytes int64
	Paths        []string // the first MaxFinished paths
}

// MaxFinished bounds the paths in a Finished.
const MaxFinished = 16

// finishedFiles collects Finished.
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

// Finished returns the files that became final since Open.
func (s *Store) Finished() Finished {
	s.finished.mu.Lock()
	defer s.finished.mu.Unlock()
	sum := s.finished.sum
	sum.Paths = slices.Clone(sum.Paths)
	return sum
}

// Merge adds the finished files of another store.
func (f *Finished) Merge(o Finished) {
	f.Files, f.Bytes = f.Files+o.Files, f.Bytes+o.Bytes
	f.Paths = append(f.Paths, o.Paths...)
	f.Paths = f.Paths[:min(len(f.Paths), MaxFinished)]
}

// Shard is one output directory of a Store, with at most one open volume. It belongs to the caller between
// Acquire and Release.
type Shard struct {
	store *Store
	dir   int

	mu      sync.Mutex // held from Acquire to Release
	name    string     // of the open volume; "": none
	serial  uint64     // of the open volume
	begun   int64      // creation of the open volume in Unix seconds
	resumed bool       // the open volume was begun by an earlier Store
	streams []stream
	closed  bool
}

// stream is the open file of one stream of a lane. The lane's lock guards it.
type stream struct {
	final  string    // final name of the file
	form   int       // number of the suffix
	f      disk.File // nil until the first write
	buf    []byte    // data after the file's; its capacity is the buffer size, nil until first used
	size   int64     // length of the file, a multiple of blockBytes
	pinned *Frozen   // the Frozen that owns buf's bytes and has not saved them
}

// Open returns a Store that continues with the volumes of st; nil for a new one. It truncates, completes and
// removes files as the package comment describes.
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
		s.shards = append(s.shards, &Shard{store: s, dir: dir, streams: make([]stream, len(opt.Streams))})
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

// Acquire returns a lane for use until Release: the next free one in rotation, or else it waits for the next
// one.
func (s *Store) Acquire() *Shard {
	first := int(s.turn.Add(1)-1) % len(s.shards)
	for i := range s.shards {
		if l := s.shards[(first+i)%len(s.shards)]; l.mu.TryLock() {
			return l
		}
	}
	s.shards[first].mu.Lock()
	return s.shards[first]
}

// Release returns the lane.
func (l *Shard) Release() { l.mu.Unlock() }

// Dir returns the number of the lane's directory.
func (l *Shard) Dir() int { return l.dir }

// Name returns the open volume's name without suffix; "" if none is open.
func (l *Shard) Name() string { return l.name }

// File returns the final name of a stream's file in the open volume.
func (l *Shard) File(i int) string { return l.streams[i].final }

// Form returns the number of the suffix of a stream's file in the open volume.
func (l *Shard) Form(i int) int { return l.streams[i].form }

// Resumed reports whether the open volume was begun by an earlier Store.
func (l *Shard) Resumed() bool { return l.resumed }

// Size returns the length of a stream in the open volume, buffer included.
func (l *Shard) Size(i int) int64 { return l.streams[i].size + int64(len(l.streams[i].buf)) }

// Begin opens a volume; none may be open. Its files are created when the first buffer is full.
func (l *Shard) Begin(now time.Time) error {
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
	l.resumed = false
	for i := range l.streams {
		l.setForm(i, l.store.opt.Streams[i].Form)
	}
	return nil
}

// setForm sets the suffix and thereby the name of a file of the open volume.
func (l *Shard) setForm(i, form int) {
	l.streams[i].form, l.streams[i].final = form, l.name+l.store.opt.Streams[i].suffix(form)
}

// Write appends p, which it copies, to a stream of the open volume.
func (l *Shard) Write(i int, p []byte) error {
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

// reset empties the buffer. It leaves the bytes to a Frozen that still needs them.
func (st *stream) reset() {
	if st.pinned != nil {
		st.buf, st.pinned = nil, nil
		return
	}
	st.buf = st.buf[:0]
}

// writeFile appends p to the file of a stream and creates the file if necessary. An error is permanent for
// the store.
func (l *Shard) writeFile(i int, p []byte) error {
	st, s := &l.streams[i], l.store
	if st.f == nil {
		path := s.path(l.dir, st.final+OpenSuffix)
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

// Roll writes the buffers of the open volume and closes it, if there is one. The volume becomes final with
// the Commit of a state that is frozen later.
func (l *Shard) Roll() error {
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
		v.Streams = append(v.Streams, StreamState{Size: st.size, Form: st.form})
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

// Roll closes the open volume of every lane. Before the last checkpoint of a run, it lets Commit make the
// files final.
func (s *Store) Roll() error {
	_, err := s.RollOld(math.MaxInt64)
	return err
}

// RollOld closes the open volumes that were begun at or before begunBy, in Unix seconds, and reports whether
// there were any. The next checkpoint makes their files final.
func (s *Store) RollOld(begunBy int64) (rolled bool, err error) {
	for _, l := range s.shards {
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

// Close closes the files without writing. Buffered data that is not in a state is lost.
func (s *Store) Close() error {
	var errs []error
	for _, l := range s.shards {
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

func (l *Shard) check() error {
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

// owns reports whether this store could have given a file that name.
func (s *Store) owns(name string) bool { return s.opt.owns(name) }

func (o *Options) owns(name string) bool {
	return strings.HasPrefix(name, o.Prefix+"-") && disk.PlainName(name)
}

// recover restores the files to what st names.
func (s *Store) recover(st *State) error {
	if err := st.check(&s.opt); err != nil {
		return fmt.Errorf("outfile: open: %w", err)
	}
	s.serial.Store(st.Serial)
	s.unused = st.Unused
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
		for k, stream := range s.opt.Streams {
			named[v.Dir][v.Name+stream.suffix(v.Streams[k].Form)+OpenSuffix] = true
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

// openDoors gives the users who may read the files access to the output directory.
func (s *Store) openDoors(dir int) error {
	if s.opt.Mode == 0 {
		return nil
	}
	read := s.opt.Mode&0o444 | s.opt.Mode&0o444>>2 // readers of the files may list and enter the directories
	write := s.opt.Mode & 0o222                    // users who may write the files may also move them away
	return errors.Join(disk.Widen(s.opt.Set.FS, s.opt.Set.Path(dir), read),
		disk.Widen(s.opt.Set.FS, s.path(dir, ""), read|write))
}

// removeUnnamed deletes the .open files of a directory that no state names.
func (s *Store) removeUnnamed(dir int, named map[string]bool) error {
	names, err := s.opt.Set.FS.List(s.path(dir, ""))
	if err != nil {
		return fmt.Errorf("outfile: open: %w", err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, OpenSuffix) || !s.owns(name) || named[name] || !s.hasSuffix(name) {
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
		for _, suffix := range stream.suffixes() {
			if strings.HasSuffix(name, suffix+OpenSuffix) {
				return true
			}
		}
	}
	return false
}

// reopen truncates the files of an open volume to the lengths in the state and restores the buffers from the
// tails.
func (s *Store) reopen(v *Volume) error {
	l := s.shards[v.Dir]
	if l.name != "" {
		return fmt.Errorf("outfile: open: state names two open volumes in directory %d: %s, %s", v.Dir, l.name, v.Name)
	}
	l.name, l.serial, l.begun, l.resumed = v.Name, v.Serial, v.Begun, true
	for i, want := range v.Streams {
		st := &l.streams[i]
		l.setForm(i, want.Form)
		path := s.path(v.Dir, st.final+OpenSuffix)
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

// sortVolumes sorts volumes by serial, the order in a state.
func sortVolumes(vs []Volume) {
	slices.SortFunc(vs, func(a, b Volume) int { return cmp.Compare(a.Serial, b.Serial) })
}
