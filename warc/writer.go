package warc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
	"time"

	"drumbeat/disk"
	"drumbeat/warc/outfile"
)

// Defaults of the options.
const (
	DefaultFileBytes  = 1e9
	DefaultIndexBytes = 32 << 20
)

// Format is a form of compressed WARC files.
type Format int

// Formats. States name them by these numbers.
const (
	Gzip Format = iota // .warc.gz
	Zstd               // .warc.zst
)

// LevelFast is the level at which package deflate compresses bodies. Levels 1 to 9 are those of
// klauspost/compress.
const LevelFast = 0

// Field is a named value of a warcinfo or metadata record.
type Field struct{ Name, Value string }

// Random is a source of random bytes that does not fail.
type Random interface{ Read(p []byte) (int, error) }

// Options configure a Writer. Set and State are required.
type Options struct {
	// Set has the output directories.
	Set disk.Set
	// State has the directories of the checkpoints' tail files.
	State disk.Set
	// Prefix begins the file names; letters, digits, "_", "-" and "." only. "": DRUMBEAT.
	Prefix string
	// Host is at the end of the file names and in the warcinfo record; "": localhost. Other characters
	// become "-".
	Host string
	// FileBytes is the size at which a file is full; 0: DefaultFileBytes.
	FileBytes int64
	// IndexBytes is the size of the index at which a file is full. The index is sorted in RAM. 0:
	// DefaultIndexBytes.
	IndexBytes int64
	// Format is that of new files. Open files of an earlier run in the other format are closed.
	Format Format
	// Dict is a dictionary in the format of zstd --train for zst files, at most MaxDict bytes; empty: none.
	// Each file contains it.
	Dict []byte
	// Level is LevelFast, or a deflate level from 1 to 9. From 4 on, heads are compressed and not just packed:
	// 180 bytes less a page for 50 µs. Of zst files, LevelFast, 1 and 2 are klauspost's SpeedFastest, 3 to 5
	// SpeedDefault, and 6 to 9 SpeedBetterCompression.
	Level int
	// BlockDigest also adds a WARC-Block-Digest to response records. They have a payload digest, and the
	// checksum of the gzip member or frame covers everything. A second SHA-1 of the body is half the cost of a page
	// received compressed, 3.5 of 7 µs for 5.2 KB. Other records always have a block digest.
	BlockDigest bool
	// Info is added to the warcinfo record of each file, after the format lines: software, operator, robots
	// and so on.
	Info []Field
	// BufferBytes is the buffer size of each open file; 0: 256 KiB.
	BufferBytes int
	// Mode is the mode of final files; see outfile.Options.
	Mode fs.FileMode
	// Random is the source of record ids; nil: crypto/rand. It is meant for tests. It must not fail, and
	// must be safe for concurrent use if the Writer is used concurrently.
	Random Random
}

// Validate returns all faults of the options, joined.
func (o *Options) Validate() error {
	var errs []error
	if o.Level < 0 || o.Level > 9 {
		errs = append(errs, fmt.Errorf("warc: options: compression level %d, want 0 to 9", o.Level))
	}
	if o.Format != Gzip && o.Format != Zstd {
		errs = append(errs, fmt.Errorf("warc: options: unknown format %d", o.Format))
	}
	if o.Format != Zstd && len(o.Dict) > 0 {
		errs = append(errs, errors.New("warc: options: only zst files can use a dictionary"))
	}
	if _, err := checkDict(o.Dict); err != nil {
		errs = append(errs, fmt.Errorf("warc: options: %w", err))
	}
	if o.FileBytes < 0 || o.IndexBytes < 0 {
		errs = append(errs, errors.New("warc: options: negative FileBytes or IndexBytes"))
	}
	if o.Prefix != nameChars(o.Prefix) {
		errs = append(errs, fmt.Errorf("warc: options: prefix %q has characters that file names cannot have", o.Prefix))
	}
	return errors.Join(errs...)
}

func (o *Options) defaults() {
	if o.Prefix == "" {
		o.Prefix = "DRUMBEAT"
	}
	if o.Host == "" {
		o.Host = "localhost"
	}
	if o.FileBytes == 0 {
		o.FileBytes = DefaultFileBytes
	}
	if o.IndexBytes == 0 {
		o.IndexBytes = DefaultIndexBytes
	}
}

// Writer appends captures to WARC files. It is safe for concurrent use.
type Writer struct {
	opt    Options
	zst    *zstFormat // nil for gz files
	files  *outfile.Store
	counts counters
}

// counters count since the beginning of the crawl. They change under a lane's lock; Freeze reads them
// without it.
type counters struct{ captures, bytes, index atomic.Int64 }

// Counts are totals since the crawl began.
type Counts struct {
	Captures   int64 // exchanges
	Bytes      int64 // in WARC files, including warcinfo records
	IndexBytes int64 // in index files
}

// Location locates a response record.
type Location struct {
	Dir    int    // number of the output directory
	File   string // final name of the WARC file without directory
	Offset int64  // offset of the response record's gzip member or Zstandard frame
	Length int64  // length of that member or frame
}

// Streams of a volume by their numbers in package outfile.
const (
	dataStream  = 0
	indexStream = 1
	gzSuffix    = ".warc.gz"
	zstSuffix   = ".warc.zst"
	indexSuffix = ".cdxj"
	subdir      = "warc"
)

func (o *Options) outfile() outfile.Options {
	return outfile.Options{
		Set: o.Set, State: o.State, Sub: subdir, Prefix: o.Prefix, BufferBytes: o.BufferBytes, Mode: o.Mode,
		Streams: []outfile.Stream{{Suffix: gzSuffix, Forms: []string{zstSuffix}, Form: int(o.Format)},
			{Suffix: indexSuffix, Finish: sortLines}},
		Name: func(serial uint64, now time.Time) string {
			now = now.UTC()
			return fmt.Sprintf("%s-%s%03d-%05d-%s", o.Prefix, now.Format(stamp14), now.Nanosecond()/1e6, serial,
				nameChars(o.Host))
		},
	}
}

// nameChars replaces characters that a file name should not have by "-".
func nameChars(s string) string {
	b := []byte(s)
	for i, c := range b {
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
		if !ok || c == '.' && i == 0 {
			b[i] = '-'
		}
	}
	return string(b)
}

// Open returns a Writer that continues with the files of st; nil for a new crawl. Package outfile describes
// what it does to files of earlier runs.
func Open(opt Options, st *State) (*Writer, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	opt.defaults()
	w := &Writer{opt: opt}
	if opt.Format == Zstd {
		var err error
		if w.zst, err = newZstFormat(opt.Level, opt.Dict); err != nil {
			return nil, fmt.Errorf("warc: open: %w", err)
		}
	}
	var files *outfile.State
	if st != nil {
		if st.V != stateVersion {
			return nil, fmt.Errorf("warc: open: state of version %d, want %d", st.V, stateVersion)
		}
		files = &st.Files
		w.counts.captures.Store(st.Counts.Captures)
		w.counts.bytes.Store(st.Counts.Bytes)
		w.counts.index.Store(st.Counts.IndexBytes)
	}
	store, err := outfile.Open(w.opt.outfile(), files)
	if err != nil {
		return nil, fmt.Errorf("warc: open: %w", err)
	}
	w.files = store
	return w, nil
}

// Append adds a prepared capture to a file: a copy into a buffer, and sometimes one large write. now goes
// into the name of a new file. The Location of PrepareOmitted is empty. After an error all further calls fail.
func (w *Writer) Append(p *Prepared, now time.Time) (Location, error) {
	if len(p.buf) == 0 {
		return Location{}, errors.New("warc: append: nothing prepared")
	}
	l := w.files.Acquire()
	defer l.Release()
	loc, err := w.append(l, p, now)
	if err != nil {
		return Location{}, fmt.Errorf("warc: append: %w", err)
	}
	return loc, nil
}

func (w *Writer) append(l *outfile.Shard, p *Prepared, now time.Time) (Location, error) {
	if l.Name() != "" && (w.foreign(l) || l.Size(dataStream)+int64(len(p.buf)) > w.opt.FileBytes ||
		l.Size(indexStream)+int64(len(p.index)+maxIndexTail) > w.opt.IndexBytes) {
		if err := l.Roll(); err != nil {
			return Location{}, err
		}
	}
	if l.Name() == "" {
		if err := l.Begin(now); err != nil {
			return Location{}, err
		}
		info := w.head(l.File(dataStream), now)
		if err := l.Write(dataStream, info); err != nil {
			return Location{}, err
		}
		w.counts.bytes.Add(int64(len(info)))
	}
	loc := Location{
		Dir: l.Dir(), File: l.File(dataStream),
		Offset: l.Size(dataStream) + p.response.offset, Length: p.response.length,
	}
	if err := l.Write(dataStream, p.buf); err != nil {
		return Location{}, err
	}
	if p.response.length == 0 { // PrepareOmitted
		w.counts.bytes.Add(int64(len(p.buf)))
		return Location{}, nil
	}
	p.index = appendIndexTail(p.index[:p.indexHead], loc)
	if err := l.Write(indexStream, p.index); err != nil {
		return Location{}, err
	}
	w.counts.captures.Add(1)
	w.counts.bytes.Add(int64(len(p.buf)))
	w.counts.index.Add(int64(len(p.index)))
	return loc, nil
}

// foreign reports whether nothing may be appended to the open file: it is in the other format, or may have
// another dictionary.
func (w *Writer) foreign(l *outfile.Shard) bool {
	return l.Form(dataStream) != int(w.opt.Format) || w.opt.Format == Zstd && l.Resumed()
}

// head returns the beginning of a file: the dictionary, if it has one, and the warcinfo record.
func (w *Writer) head(file string, now time.Time) []byte {
	info := w.info(file, now)
	if w.zst == nil || len(w.zst.head) == 0 {
		return info
	}
	return append(slices.Clone(w.zst.head), info...)
}

// info returns the warcinfo record of a file.
func (w *Writer) info(file string, now time.Time) []byte {
	return w.NewEncoder().info(&w.opt, file, now)
}

// info returns a warcinfo record.
func (e *Encoder) info(opt *Options, file string, now time.Time) []byte {
	block := []byte("format: WARC File Format 1.1\r\n" +
		"conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n")
	block = appendField(block, "hostname", opt.Host)
	for _, f := range opt.Info {
		block = appendField(block, f.Name, f.Value)
	}
	return e.infoOf(file, block, now)
}

// Warcinfo returns a warcinfo record for a file, as a gzip member. random is the source of its id; nil: crypto/rand.
func Warcinfo(file string, block []byte, now time.Time, random Random) []byte {
	return newEncoder(&Options{Random: random}, nil).infoOf(file, block, now)
}

// infoOf returns a warcinfo record with a block.
func (e *Encoder) infoOf(file string, block []byte, now time.Time) []byte {
	e.text, e.marks = e.text[:0], e.marks[:0]
	e.field(beginInfo)
	e.setDate(now)
	e.field(fieldDate)
	e.text = append(e.text, e.date...)
	e.field(fieldID)
	e.ownID()
	e.field(fieldFilename)
	e.text = append(e.text, file...)
	var p Prepared
	e.member(&p, typeFields, block, nil, false)
	return p.buf
}

// Roll closes all open files. Before the last checkpoint of a run, it lets Commit make them final.
func (w *Writer) Roll() error {
	if err := w.files.Roll(); err != nil {
		return fmt.Errorf("warc: roll: %w", err)
	}
	return nil
}

// RollOld closes the open files that were begun at or before begunBy and reports whether there were any. The
// Commit of the next checkpoint makes them final.
func (w *Writer) RollOld(begunBy time.Time) (rolled bool, err error) {
	if rolled, err = w.files.RollOld(begunBy.Unix()); err != nil {
		return rolled, fmt.Errorf("warc: roll: %w", err)
	}
	return rolled, nil
}

// Finished returns the files that became final since Open.
func (w *Writer) Finished() outfile.Finished { return w.files.Finished() }

// Counts returns the totals.
func (w *Writer) Counts() Counts {
	return Counts{
		Captures: w.counts.captures.Load(), Bytes: w.counts.bytes.Load(), IndexBytes: w.counts.index.Load(),
	}
}

// Close closes the files without writing. Data that no state covers is lost.
func (w *Writer) Close() error { return w.files.Close() }

const stateVersion = 1

// State is the state of a Writer in a manifest.
type State struct {
	V      int
	Files  outfile.State
	Counts Counts
}

// Frozen is the content of a Writer at one moment; see the checkpoint protocol.
type Frozen struct {
	files  *outfile.Frozen
	counts Counts
}

// Freeze records the content without copying data. No Append may run meanwhile: the caller holds the crawl's
// exclusive lock.
func (w *Writer) Freeze() *Frozen { return &Frozen{files: w.files.Freeze(), counts: w.Counts()} }

// Save writes the buffered data to the tail files and returns the state for the manifest.
func (f *Frozen) Save(tails *disk.Tails) (*State, error) {
	st, err := f.files.Save(tails)
	if err != nil {
		return nil, fmt.Errorf("warc: save: %w", err)
	}
	return &State{V: stateVersion, Files: *st, Counts: f.counts}, nil
}

// Commit gives the files that the durable state covers completely their final names, and sorts their indexes.
func (f *Frozen) Commit() error {
	if err := f.files.Commit(); err != nil {
		return fmt.Errorf("warc: commit: %w", err)
	}
	return nil
}

// sortLines sorts the lines of an index.
func sortLines(data []byte) []byte {
	lines := bytes.SplitAfter(data, []byte{'\n'})
	sortBytes(lines)
	out := make([]byte, 0, len(data))
	for _, line := range lines {
		out = append(out, line...)
	}
	return out
}
