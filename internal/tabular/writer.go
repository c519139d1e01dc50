package tabular

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"drumbeat/disk"
)

// Format is the format of a table's files, and the end of their names.
type Format string

// The formats.
const (
	Parquet Format = "parquet"
	CSV     Format = "csv"
	JSONL   Format = "jsonl"
	TSV     Format = "tsv" // without a header, for text without tabs and line ends
)

const (
	// MaxRowBytes is the largest size of a row: its text, and 8 bytes a value.
	MaxRowBytes = 1 << 20

	defaultPartBytes  = 128 << 20
	defaultGroupBytes = 32 << 20
	minGroupBytes     = 64 << 10
	bufferBytes       = 1 << 20

	progressName    = "_progress.json"
	progressTemp    = progressName + ".tmp" // of disk.WriteFileAtomic
	progressVersion = 1
	partPrefix      = "part-"
	// An unfinished part has both: readers of directories skip names that begin with a dot, except DuckDB, whose
	// '*.csv' matches them.
	tempPrefix = "."
	tempSuffix = ".tmp"
)

// ErrNotEmpty is wrapped by the error of Create if the directory contains something else than this table.
var ErrNotEmpty = errors.New("the directory is not empty")

// Options are the settings of a table.
type Options struct {
	FS      disk.FS
	Dir     string // created if it does not exist
	Format  Format
	Columns []Column
	// Kind names the content of the table. A table of another kind in Dir is not replaced.
	Kind string
	// Source names what the rows are made of. Equal sources must give equal rows in the same order.
	Source string
	// Compression of Parquet: zstd (default), snappy or uncompressed. CSV and JSON lines are not compressed.
	Compression string
	PartBytes   int64 // largest size of a part's file; 0: 128 MiB
	GroupBytes  int64 // size of the rows of a row group in memory; 0: 32 MiB, at least 64 KiB
}

// Part is a finished file of a table.
type Part struct {
	Name  string `json:"name"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
}

// progress is the content of _progress.json.
type progress struct {
	Version  int      `json:"version"`
	Kind     string   `json:"kind"`
	Source   string   `json:"source"`
	Format   Format   `json:"format"`
	Columns  []Column `json:"columns"`
	Complete bool     `json:"complete"`
	Parts    []Part   `json:"parts"`
}

// Resumed says what Create found.
type Resumed struct {
	Parts    int   // finished parts that stay
	Rows     int64 // their rows, which Write drops
	Complete bool  // the table is complete: there is nothing to write
	Replaced int   // parts of another source that were deleted
	// ReplacedSource is that source, if a table was replaced.
	ReplacedSource string
}

// Writer writes the rows of one table.
type Writer struct {
	opt     Options
	resumed Resumed
	state   progress
	skip    int64 // rows to drop
	parquet *parquetTable
	stream  io.Writer // not nil: there are no parts
	file    disk.File // the open part; nil: none
	buf     []byte    // not yet in file
	line    []byte    // scratch
	size    int64     // bytes in file and buf
	rows    int64     // of the open part
	grown   int64     // size at the end of the last row group
	total   int64
	failed  error
}

// NewStream returns a Writer of one table without parts, which it writes to out. Of the options it needs format and
// columns, and of Parquet compression and GroupBytes.
func NewStream(out io.Writer, opt Options) (*Writer, error) {
	if err := opt.complete(); err != nil {
		return nil, err
	}
	w := &Writer{opt: opt, stream: out}
	switch opt.Format {
	case Parquet:
		w.parquet = newParquet(opt.Columns, opt.Compression, opt.GroupBytes)
		w.parquet.begin(partOutput{w})
	case CSV:
		w.buf = appendCSVHeader(w.buf, opt.Columns)
	}
	return w, nil
}

// Create begins or continues the table in opt.Dir. See Resumed for what it found.
func Create(opt Options) (*Writer, error) {
	if err := opt.complete(); err != nil {
		return nil, err
	}
	w := &Writer{opt: opt}
	if err := opt.FS.MkdirAll(opt.Dir); err != nil {
		return nil, fmt.Errorf("tabular: create %s: %w", opt.Dir, err)
	}
	if err := w.resume(); err != nil {
		return nil, fmt.Errorf("tabular: open %s: %w", opt.Dir, err)
	}
	if opt.Format == Parquet {
		w.parquet = newParquet(opt.Columns, opt.Compression, opt.GroupBytes)
	}
	return w, nil
}

// complete checks the options and sets defaults.
func (opt *Options) complete() error {
	switch opt.Format {
	case Parquet, CSV, JSONL, TSV:
	default:
		return fmt.Errorf("tabular: unknown format %q", opt.Format)
	}
	switch opt.Compression {
	case "":
		opt.Compression = "zstd"
	case "zstd", "snappy", "uncompressed":
	default:
		return fmt.Errorf("tabular: unknown compression %q", opt.Compression)
	}
	if opt.PartBytes <= 0 {
		opt.PartBytes = defaultPartBytes
	}
	if opt.GroupBytes <= 0 {
		opt.GroupBytes = defaultGroupBytes
	}
	opt.GroupBytes = max(opt.GroupBytes, minGroupBytes)
	return checkColumns(opt.Columns)
}

// resume reads what the directory contains, and leaves only the parts that stay.
func (w *Writer) resume() error {
	o := &w.opt
	fresh := progress{Version: progressVersion, Kind: o.Kind, Source: o.Source, Format: o.Format, Columns: o.Columns,
		Parts: []Part{}}
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return err
	}
	old, err := w.readProgress(names)
	if err != nil {
		return err
	}
	if old != nil && (old.Kind != o.Kind || old.Format != o.Format) {
		return fmt.Errorf("%w: it contains %s as %s, not %s as %s", ErrNotEmpty, old.Kind, old.Format, o.Kind, o.Format)
	}
	for _, name := range names {
		if temp := name == progressTemp || strings.HasPrefix(name, tempPrefix); !w.ours(name) || old == nil && !temp {
			return fmt.Errorf("%w: it contains %s, which does not belong to this table", ErrNotEmpty, name)
		}
	}
	w.state = fresh
	switch {
	case old == nil:
	case old.Source != o.Source || !slices.Equal(old.Columns, o.Columns):
		w.resumed.Replaced, w.resumed.ReplacedSource = len(old.Parts), old.Source
	default:
		w.state = *old
		w.keep()
	}
	// The new state is durable before a file goes, so no state names a missing part.
	if err := w.save(); err != nil {
		return err
	}
	for _, name := range names {
		kept := slices.ContainsFunc(w.state.Parts, func(p Part) bool { return p.Name == name })
		if name == progressName || kept {
			continue
		}
		if err := o.FS.Remove(o.Dir + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// readProgress returns the description of the table in the directory; nil if there is none.
func (w *Writer) readProgress(names []string) (*progress, error) {
	if !slices.Contains(names, progressName) {
		return nil, nil
	}
	data, err := disk.ReadFile(w.opt.FS, w.opt.Dir+"/"+progressName)
	if err != nil {
		return nil, err
	}
	var p progress
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("%s: %w", progressName, err)
	}
	if p.Version != progressVersion {
		return nil, fmt.Errorf("%s has version %d; this program knows %d", progressName, p.Version, progressVersion)
	}
	return &p, nil
}

// ours tells whether a Writer of this format gives files such a name.
func (w *Writer) ours(name string) bool {
	if name == progressName || name == progressTemp {
		return true
	}
	if rest, ok := strings.CutPrefix(name, tempPrefix); ok {
		name = strings.TrimSuffix(rest, tempSuffix) // which earlier versions did not add
	}
	number, ok := strings.CutPrefix(name, partPrefix)
	number, found := strings.CutSuffix(number, "."+string(w.opt.Format))
	return ok && found && len(number) >= 5 && strings.Trim(number, "0123456789") == ""
}

// keep keeps the finished parts up to the first that is absent or has another size.
func (w *Writer) keep() {
	r := &w.resumed
	for i, p := range w.state.Parts {
		size, err := w.opt.FS.Size(w.opt.Dir + "/" + p.Name)
		if err != nil || size != p.Bytes || p.Name != w.partName(i) || p.Rows < 0 {
			w.state.Parts, w.state.Complete = w.state.Parts[:i], false
			break
		}
		r.Rows += p.Rows
	}
	r.Parts, r.Complete, w.skip = len(w.state.Parts), w.state.Complete, r.Rows
}

// save makes the state durable.
func (w *Writer) save() error {
	data, err := json.MarshalIndent(&w.state, "", " ")
	if err != nil {
		return err
	}
	return disk.WriteFileAtomic(w.opt.FS, w.opt.Dir+"/"+progressName, append(data, '\n'))
}

func (w *Writer) partName(i int) string { return fmt.Sprintf("%s%05d.%s", partPrefix, i, w.opt.Format) }

// Resumed returns what Create found.
func (w *Writer) Resumed() Resumed { return w.resumed }

// Rows returns the number of rows written, without those that Write dropped.
func (w *Writer) Rows() int64 { return w.total }

// Parts returns the finished parts.
func (w *Writer) Parts() []Part { return w.state.Parts }

// Write adds a row, and drops one that a finished part has. It does not keep row. After an error all calls
// return that error.
func (w *Writer) Write(row []Value) error {
	if w.failed != nil {
		return w.failed
	}
	size, err := checkRow(w.opt.Columns, row)
	if err == nil {
		err = w.write(row, size)
	}
	w.failed = err
	return err
}

func (w *Writer) write(row []Value, size int64) (err error) {
	if w.resumed.Complete {
		return nil
	}
	if w.skip > 0 {
		w.skip--
		return nil
	}
	if w.stream == nil && w.file == nil {
		if err := w.begin(); err != nil {
			return err
		}
	}
	if w.opt.Format != Parquet {
		return w.writeLine(row)
	}
	w.rows++
	w.total++
	flushed, err := w.parquet.add(row, size)
	if err != nil || !flushed {
		return err
	}
	group := w.size - w.grown
	w.grown = w.size
	if w.stream == nil && w.size+group > w.opt.PartBytes {
		return w.end()
	}
	return nil
}

// writeLine writes a row of CSV or JSON lines, in a new part if it does not fit into the open one.
func (w *Writer) writeLine(row []Value) error {
	switch w.opt.Format {
	case CSV:
		w.line = appendCSV(w.line[:0], row)
	case JSONL:
		w.line = appendJSON(w.line[:0], w.opt.Columns, row)
	case TSV:
		for _, v := range row {
			if bytes.ContainsAny(v.text, "\t\r\n") {
				return fmt.Errorf("tabular: %q contains a tab or a newline", v.text[:min(len(v.text), 80)])
			}
		}
		w.line = appendTSV(w.line[:0], row)
	}
	if w.stream == nil && w.rows > 0 && w.size+int64(len(w.line)) > w.opt.PartBytes {
		if err := w.end(); err != nil {
			return err
		}
		if err := w.begin(); err != nil {
			return err
		}
	}
	w.rows++
	w.total++
	w.buf = append(w.buf, w.line...)
	w.size += int64(len(w.line))
	if len(w.buf) >= bufferBytes {
		return w.flush()
	}
	return nil
}

// begin opens the next part.
func (w *Writer) begin() (err error) {
	name := w.tempName()
	if err := w.opt.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("tabular: %w", err)
	}
	if w.file, err = w.opt.FS.Create(name); err != nil {
		return fmt.Errorf("tabular: create part: %w", err)
	}
	w.buf, w.size, w.rows, w.grown = w.buf[:0], 0, 0, 0
	switch w.opt.Format {
	case Parquet:
		w.parquet.begin(partOutput{w})
	case CSV:
		w.buf = appendCSVHeader(w.buf, w.opt.Columns)
		w.size = int64(len(w.buf))
	}
	return nil
}

func (w *Writer) tempName() string {
	return w.opt.Dir + "/" + tempPrefix + w.partName(len(w.state.Parts)) + tempSuffix
}

// partOutput is the open part as the output of the library of Parquet.
type partOutput struct{ w *Writer }

func (o partOutput) Write(p []byte) (int, error) {
	w := o.w
	for rest := p; len(rest) > 0; {
		n := min(len(rest), max(0, bufferBytes-len(w.buf)))
		w.buf = append(w.buf, rest[:n]...)
		w.size += int64(n) // before flush, which writes at size less the length of buf
		rest = rest[n:]
		if len(w.buf) >= bufferBytes {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// flush writes the buffer.
func (w *Writer) flush() (err error) {
	if w.stream != nil {
		_, err = w.stream.Write(w.buf)
	} else {
		_, err = w.file.WriteAt(w.buf, w.size-int64(len(w.buf)))
	}
	w.buf = w.buf[:0]
	if err != nil {
		return fmt.Errorf("tabular: write: %w", err)
	}
	return nil
}

// end makes the open part durable, gives it its name, and notes it.
func (w *Writer) end() error {
	if w.opt.Format == Parquet {
		if err := w.parquet.end(); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	err := w.file.Sync()
	if err = errors.Join(err, w.file.Close()); err != nil {
		w.file = nil
		return fmt.Errorf("tabular: end part: %w", err)
	}
	w.file = nil
	name := w.partName(len(w.state.Parts))
	if err := w.opt.FS.Rename(w.tempName(), w.opt.Dir+"/"+name); err != nil {
		return fmt.Errorf("tabular: end part: %w", err)
	}
	if err := w.opt.FS.SyncDir(w.opt.Dir); err != nil {
		return fmt.Errorf("tabular: end part: %w", err)
	}
	w.state.Parts = append(w.state.Parts, Part{Name: name, Rows: w.rows, Bytes: w.size})
	return w.save()
}

// Close ends the table: it makes the last part durable and notes that the table is complete. A table without
// rows has one part without rows, so that its columns can be read. After an error of Write it only releases
// what is open, and returns that error.
func (w *Writer) Close() error {
	if w.failed == nil && !w.resumed.Complete {
		w.failed = w.close()
	}
	if w.failed != nil {
		w.Abort()
		return w.failed
	}
	w.failed = errors.New("tabular: the table is closed")
	return nil
}

func (w *Writer) close() error {
	switch {
	case w.stream != nil:
		if w.parquet != nil {
			if err := w.parquet.end(); err != nil {
				return err
			}
		}
		return w.flush()
	case w.skip > 0:
		return fmt.Errorf("tabular: %s has %d more rows than its source has now", w.opt.Dir, w.skip)
	case w.file == nil && len(w.state.Parts) == 0:
		if err := w.begin(); err != nil {
			return err
		}
	}
	if w.file != nil {
		if err := w.end(); err != nil {
			return err
		}
	}
	w.state.Complete = true
	return w.save()
}

// Abort releases what is open and deletes the unfinished part. Finished parts stay, and Create continues
// after them. It does nothing after Close.
func (w *Writer) Abort() {
	if w.file != nil {
		w.file.Close()
		w.file = nil
		// An error leaves a name with a dot, which the next Create deletes.
		_ = w.opt.FS.Remove(w.tempName())
	}
	if w.failed == nil {
		w.failed = errors.New("tabular: the table was given up")
	}
}
