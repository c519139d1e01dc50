package crawllog

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"drumbeat/disk"
	"drumbeat/warc/outfile"
)

const (
	DefaultFileBytes  = 256 << 20
	DefaultBlockBytes = 256 << 10
)

const (
	subdir      = "log"
	suffix      = ".jsonl.zst"
	fileBuffer  = 64 << 10
	windowBytes = 512 << 10 // bounds the memory to read a frame
	minBlock    = 2 * MaxLine
	stamp14     = "20060102150405"
)

// Options of a Log. Set is required.
type Options struct {
	// Set holds the output directories; the log is in the first one.
	Set disk.Set
	// State holds the directories of the checkpoint's tail files. Empty: Set.
	State disk.Set
	// Prefix of the file names, so that several logs can share a directory; "" means crawl. Letters only.
	Prefix string
	// FileBytes is the size at which a file is full, compressed. 0: DefaultFileBytes.
	FileBytes int64
	// BlockBytes is the size of the lines of a frame; at least 34 KiB. 0: DefaultBlockBytes.
	BlockBytes int
	// Mode of final files: see outfile.Options.
	Mode fs.FileMode
}

func (o *Options) defaults() error {
	if o.FileBytes < 0 || o.BlockBytes < 0 || o.Set.Len() == 0 {
		return errors.New("crawllog: options: no directory, or a negative size")
	}
	if o.FileBytes == 0 {
		o.FileBytes = DefaultFileBytes
	}
	if o.BlockBytes == 0 {
		o.BlockBytes = DefaultBlockBytes
	}
	if o.Prefix == "" {
		o.Prefix = "crawl"
	}
	if o.State.Len() == 0 {
		o.State = o.Set
	}
	o.BlockBytes = max(o.BlockBytes, minBlock)
	o.Set.Paths = o.Set.Paths[:1]
	return nil
}

func (o *Options) outfile() outfile.Options {
	return outfile.Options{
		Set: o.Set, State: o.State, Sub: subdir, Prefix: o.Prefix, BufferBytes: fileBuffer, Mode: o.Mode,
		Streams: []outfile.Stream{{Suffix: suffix}},
		Name: func(serial uint64, now time.Time) string {
			now = now.UTC()
			return fmt.Sprintf("%s-%s%03d-%05d", o.Prefix, now.Format(stamp14), now.Nanosecond()/1e6, serial)
		},
	}
}

// Log is the crawl log of a running crawl. Safe for concurrent use.
type Log struct {
	opt   Options
	files *outfile.Store
	zstd  *zstd.Encoder

	mu      sync.Mutex // guards the fields below; held to compress a full buffer and perhaps to write it
	lines   []byte     // not yet compressed
	frame   []byte     // scratch buffer
	pinned  *Frozen    // the current bytes of lines belong to it
	begun   int64      // Unix seconds of the first entry that isn't in a closed file; 0: none
	entries int64
	err     error
}

// Open opens a Log that continues from st; nil starts a new one.
func Open(opt Options, st *State) (*Log, error) {
	if err := opt.defaults(); err != nil {
		return nil, err
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(windowBytes),
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("crawllog: open: %w", err)
	}
	l := &Log{opt: opt, zstd: enc}
	var files *outfile.State
	if st != nil {
		if st.V != stateVersion {
			return nil, fmt.Errorf("crawllog: open: state of version %d, want %d", st.V, stateVersion)
		}
		files, l.entries, l.begun = &st.Files, st.Entries, st.Begun
		if l.lines, err = disk.ReadTail(opt.State, st.Lines); err != nil {
			return nil, fmt.Errorf("crawllog: open: %w", err)
		}
	}
	if l.files, err = outfile.Open(l.opt.outfile(), files); err != nil {
		return nil, fmt.Errorf("crawllog: open: %w", err)
	}
	return l, nil
}

// Append adds an entry: it copies the entry into a buffer, and compresses each BlockBytes of lines. The
// time of the entry names a new file. After an error the Log accepts no more entries.
func (l *Log) Append(e *Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if cap(l.lines)-len(l.lines) < MaxLine {
		if len(l.lines) >= l.opt.BlockBytes-MaxLine {
			if err := l.flush(e.Time); err != nil {
				return err
			}
		}
		l.grow()
	}
	n := len(l.lines)
	l.lines = e.Append(l.lines)
	if len(l.lines)-n > MaxLine {
		panic(fmt.Sprintf("BUG: crawllog: line of %d bytes", len(l.lines)-n))
	}
	l.entries++
	if l.begun == 0 {
		l.begun = e.Time.Unix()
	}
	return nil
}

// grow makes room for a line: the buffer grows up to BlockBytes. It leaves an old buffer unchanged, because
// a Frozen may refer to it.
func (l *Log) grow() {
	if cap(l.lines)-len(l.lines) >= MaxLine {
		return
	}
	size := max(minBlock, min(2*cap(l.lines), l.opt.BlockBytes), len(l.lines)+MaxLine)
	l.lines = append(make([]byte, 0, size), l.lines...)
}

// flush compresses the lines into a frame and passes it to the file.
func (l *Log) flush(now time.Time) error {
	if len(l.lines) == 0 {
		return nil
	}
	l.frame = l.zstd.EncodeAll(l.lines, l.frame[:0])
	lane := l.files.Acquire()
	defer lane.Release()
	err := error(nil)
	if lane.Name() != "" && lane.Size(0)+int64(len(l.frame)) > l.opt.FileBytes {
		err = lane.Roll()
		l.begun = now.Unix()
	}
	if err == nil && lane.Name() == "" {
		err = lane.Begin(now)
	}
	if err == nil {
		err = lane.Write(0, l.frame)
	}
	if err != nil {
		l.err = fmt.Errorf("crawllog: append: %w", err)
		return l.err
	}
	if l.pinned != nil {
		l.lines, l.pinned = nil, nil
	} else {
		l.lines = l.lines[:0]
	}
	return nil
}

// Roll compresses the buffered lines and closes the file; now names the file if it has no name yet. Call it
// before the last checkpoint of a run, whose Commit then makes the file final.
func (l *Log) Roll(now time.Time) error {
	_, err := l.roll(math.MaxInt64, now)
	return err
}

// RollOld calls Roll if the oldest entry that isn't in a closed file is from begunBy or before. It reports
// whether it did.
func (l *Log) RollOld(begunBy, now time.Time) (rolled bool, err error) {
	return l.roll(begunBy.Unix(), now)
}

func (l *Log) roll(begunBy int64, now time.Time) (rolled bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || l.begun == 0 || l.begun > begunBy {
		return false, l.err
	}
	if err := l.flush(now); err != nil {
		return false, err
	}
	if err := l.files.Roll(); err != nil {
		l.err = fmt.Errorf("crawllog: roll: %w", err)
	}
	l.begun = 0
	return true, l.err
}

// Finished returns the files that became final since Open.
func (l *Log) Finished() outfile.Finished { return l.files.Finished() }

// Entries returns the number of entries since the start of the crawl.
func (l *Log) Entries() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries
}

// Close closes the file without writing; data that no state covers is lost.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = outfile.ErrClosed
	}
	return errors.Join(l.zstd.Close(), l.files.Close())
}

const stateVersion = 2

// State is the state of a Log in a manifest.
type State struct {
	V     int
	Files outfile.State
	// Lines that are not in a frame yet; they follow the data of Files.
	Lines   disk.Ref
	Entries int64
	// Begun is the time of the first entry that isn't in a closed file, in Unix seconds; 0: none.
	Begun int64
}

// Frozen is the content of a Log at one moment, for a checkpoint.
type Frozen struct {
	log   *Log
	files *outfile.Frozen
	state State
	lines []byte
}

// Freeze captures the content. It copies nothing.
func (l *Log) Freeze() *Frozen {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &Frozen{log: l, files: l.files.Freeze(), lines: l.lines[:len(l.lines):len(l.lines)]}
	f.state = State{V: stateVersion, Entries: l.entries, Begun: l.begun}
	l.pinned = f
	return f
}

// Save writes the data in RAM to the tail files and returns the state for the manifest.
func (f *Frozen) Save(tails *disk.Tails) (*State, error) {
	files, err := f.files.Save(tails)
	if err == nil {
		f.state.Files = *files
		f.state.Lines, err = tails.Write(0, f.lines)
	}
	l := f.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pinned == f {
		l.pinned = nil
	}
	f.lines = nil
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("crawllog: save: %w", err)
	}
	if l.err != nil {
		return nil, l.err
	}
	st := f.state
	return &st, nil
}

// Commit renames the files that the durable state covers completely to their final names.
func (f *Frozen) Commit() error {
	if err := f.files.Commit(); err != nil {
		return fmt.Errorf("crawllog: commit: %w", err)
	}
	return nil
}
