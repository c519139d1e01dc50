package history

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"drumbeat/disk"
)

// Interval is the time between two samples.
const Interval = 10 * time.Second

// MinBytes is the least bound of a history.
const MinBytes = 1 << 20

// Options configure a Writer.
type Options struct {
	FS  disk.FS
	Dir string // of the history; Open creates it
	// Bytes bounds the files. At least MinBytes.
	Bytes int64
}

// Value is the value of a series in a sample.
type Value struct {
	Name string // at most 512 bytes
	V    float64
	// Fraction keeps six decimals of V. Others are rounded to integers.
	Fraction bool
}

// Writer appends to a history. It is not safe for concurrent use. After an error it continues with the next
// call, if the disk allows.
type Writer struct {
	opt    Options
	files  []file    // closed ones, in their order
	open   disk.File // the file that is written, nil if there is none
	at     file      // describes it
	enc    encoder
	index  map[string]int // of the names of columns
	now    []column       // of the next sample
	values []int64
	buf    []byte // reused
}

// Bounds of a file of level 0.
const (
	fileSpan  = day
	fileShare = 16 // of Options.Bytes
	fileBytes = 4 << 20
)

// Open opens the history in a directory, or begins one.
func Open(opt Options) (*Writer, error) {
	if opt.Bytes < MinBytes {
		return nil, fmt.Errorf("history: a bound of %d bytes is less than %d", opt.Bytes, MinBytes)
	}
	if err := errors.Join(opt.FS.MkdirAll(opt.Dir), opt.FS.SyncDir(path.Dir(opt.Dir))); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	w := &Writer{opt: opt}
	if err := w.scan(); err != nil {
		return nil, err
	}
	return w, nil
}

// scan reads what is on disk and continues the last file if it is of level 0 and has room.
func (w *Writer) scan() error {
	files, covered, err := list(w.opt.FS, w.opt.Dir)
	if err != nil {
		return err
	}
	for _, name := range covered {
		if err := w.remove(name); err != nil {
			return err
		}
	}
	w.files, w.index = nil, map[string]int{}
	if err := starts(w.opt.FS, w.opt.Dir, files); err != nil {
		return err
	}
	for i := range files {
		if i > 0 {
			files[i-1].end = max(files[i-1].start, files[i].start)
		}
	}
	n := len(files)
	if n == 0 {
		return nil
	}
	w.files = files
	d, err := load(w.opt.FS, w.opt.Dir, &files[n-1])
	if err != nil {
		if !isDamage(err) {
			return err
		}
		if files[n-1].size <= startBytes { // a power cut when it was created
			w.files = files[:n-1]
			return w.remove(files[n-1].name())
		}
		return nil // Read reports it
	}
	for d.next(new(Event)) != itemEnd {
	}
	last := &files[n-1]
	if last.end = d.last; last.level > 0 || int64(d.at) >= w.fileBytes() {
		return nil
	}
	w.files = files[:n-1]
	return w.resume(last, d)
}

// resume continues a file behind its last whole record.
func (w *Writer) resume(f *file, d *decoder) error {
	open, err := w.opt.FS.Open(w.path(f))
	if err == nil && f.size > int64(d.at) {
		err = open.Truncate(int64(d.at))
	}
	if err != nil {
		if open != nil {
			err = errors.Join(err, open.Close())
		}
		return fmt.Errorf("history: continue %s: %w", f.name(), err)
	}
	w.open, w.at = open, *f
	w.at.size = int64(d.at)
	w.enc = encoder{last: d.last, columns: d.columns, values: d.values}
	return nil
}

// fileBytes is the size at which a file of level 0 ends.
func (w *Writer) fileBytes() int64 { return min(fileBytes, w.opt.Bytes/fileShare) }

func (w *Writer) path(f *file) string { return path.Join(w.opt.Dir, f.name()) }

func (w *Writer) remove(name string) error {
	if err := w.opt.FS.Remove(path.Join(w.opt.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}

// Append appends a sample. Series that earlier samples of this Writer had and this one lacks become 0.
func (w *Writer) Append(now time.Time, sample []Value) error {
	ms := now.UnixMilli()
	if err := w.ready(ms); err != nil {
		return err
	}
	clear(w.values)
	for i := range sample {
		v := &sample[i]
		at, known := w.index[v.Name]
		if !known {
			if len(w.now) == maxColumns || len(v.Name) > maxName {
				continue
			}
			at = len(w.now)
			c := column{name: v.Name}
			if v.Fraction {
				c.decimals = fractionDecimals
			}
			w.index[v.Name] = at
			w.now, w.values = append(w.now, c), append(w.values, 0)
		}
		w.values[at] = w.now[at].units(v.V)
	}
	w.buf = w.enc.table(w.buf[:0], w.now)
	w.buf = w.enc.sample(w.buf, ms, w.values)
	return w.write(ms)
}

// Event appends an event. Its text is cut at a kilobyte.
func (w *Writer) Event(ev Event) error {
	ms := ev.Time.UnixMilli()
	if err := w.ready(ms); err != nil {
		return err
	}
	w.buf = w.enc.event(w.buf[:0], &ev)
	return w.write(ms)
}

// write writes w.buf to the end of the file.
func (w *Writer) write(ms int64) error {
	if _, err := w.open.WriteAt(w.buf, w.at.size); err != nil {
		return w.failed(err)
	}
	w.at.size += int64(len(w.buf))
	w.at.end = ms
	return nil
}

// failed gives up the file after an error. The next call opens it again and cuts off what is torn.
func (w *Writer) failed(err error) error {
	err = fmt.Errorf("history: write %s: %w", w.at.name(), errors.Join(err, w.open.Close()))
	w.open, w.index = nil, nil
	return err
}

// ready makes sure that there is a file for a record at a time. A file ends when it is full, when its span
// has passed, and when the clock was set back.
func (w *Writer) ready(ms int64) error {
	if w.index == nil { // after an error
		w.now, w.values = nil, nil
		if err := w.scan(); err != nil {
			w.index = nil
			return err
		}
	}
	if w.open != nil && (w.at.size >= w.fileBytes() || ms-w.at.start >= fileSpan || ms < w.at.end-minute) {
		if err := w.finish(); err != nil {
			return err
		}
	}
	if w.open != nil {
		return nil
	}
	number := uint64(1)
	if n := len(w.files); n > 0 {
		number = w.files[n-1].last + 1
	}
	w.at = file{first: number, last: number, start: ms, end: ms}
	head := w.enc.begin(nil, number, ms, Interval.Milliseconds())
	open, err := w.opt.FS.Create(w.path(&w.at))
	if err == nil {
		_, err = open.WriteAt(head, 0)
	}
	if err != nil {
		if open != nil {
			err = errors.Join(err, open.Close(), w.remove(w.at.name()))
		}
		w.index = nil
		return fmt.Errorf("history: begin %s: %w", w.at.name(), err)
	}
	w.open, w.at.size = open, int64(len(head))
	return nil
}

// finish makes the file durable and closes it.
func (w *Writer) finish() error {
	if err := errors.Join(w.open.Sync(), w.opt.FS.SyncDir(w.opt.Dir)); err != nil {
		return w.failed(err)
	}
	open := w.open
	w.open = nil
	w.files = append(w.files, w.at)
	if err := open.Close(); err != nil {
		return fmt.Errorf("history: close %s: %w", w.at.name(), err)
	}
	return nil
}

// Close closes the history.
func (w *Writer) Close() error {
	if w.open == nil {
		return nil
	}
	open := w.open
	w.open = nil
	if err := errors.Join(open.Sync(), open.Close()); err != nil {
		return fmt.Errorf("history: close %s: %w", w.at.name(), err)
	}
	return nil
}

// Bytes returns the size of all files.
func (w *Writer) Bytes() int64 {
	sum := int64(0)
	if w.open != nil {
		sum = w.at.size
	}
	for i := range w.files {
		sum += w.files[i].size
	}
	return sum
}
