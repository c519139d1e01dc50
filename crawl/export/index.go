package export

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"

	"github.com/klauspost/compress/gzip"

	"drumbeat/crawl/state"
	"drumbeat/disk"
	"drumbeat/internal/tabular"
	"drumbeat/warc"
)

// Index is not a table: the lines of the indexes of all WARC files as one index, in the order of bytes (LC_ALL=C
// sort), for replay tools. Its formats are CDXJ and ZipNum.
const Index Kind = "index"

// Formats of Index.
const (
	// CDXJ is one file of lines, index.cdxj, or Options.Stream.
	CDXJ tabular.Format = "cdxj"
	// ZipNum is index.cdxj.gz, a gzip member for each 3,000 lines; index.idx, a line for each member with the
	// beginning of its first line, the name of the file, offset, length and number; and index.loc, which maps the
	// name to a path. pywb reads it with two searches and one or two members, whatever the size.
	ZipNum tabular.Format = "zipnum"
)

// zipLines is the number of lines in a member, as in Common Crawl's index.
const zipLines = 3000

// indexTable has the files that Index reads.
func indexTable() table {
	t := nearTable()
	return table{files: t.files, logs: t.logs}
}

// index writes the index.
func (j *job) index() (err error) {
	if j.opt.Begin != nil {
		j.opt.Begin(j.report)
	}
	st, err := part[warc.State](j, state.NameWARC)
	if err != nil {
		return err
	}
	lines := j.sorterOf(2)
	j.meter.Set("indexes")
	err = warc.WalkIndexes(j.WARCFiles(), st, func(x *warc.Index) error {
		return x.Lines(func(line []byte) error {
			if _, _, err := x.Parse(line); err != nil { // damaged
				return err
			}
			if err := j.live(); err != nil {
				return err
			}
			return lines.Add(line)
		})
	})
	if err != nil {
		return err
	}
	j.meter.Set("sorting lines")
	if err := lines.Sort(); err != nil {
		return err
	}
	j.meter.Set("writing")
	out, err := j.indexWriter()
	if err != nil {
		return err
	}
	for {
		line, err := lines.Next()
		if err == nil {
			err = j.live()
		}
		if err != nil {
			out.abort()
			return err
		}
		if line == nil {
			return out.close()
		}
		j.report.Rows++
		if err := out.write(line); err != nil {
			out.abort()
			return err
		}
	}
}

// indexWriter writes the lines of an index in one of its formats.
type indexWriter struct {
	j     *job
	lines *newFile // or nil, and stream
	buf   []byte

	// Of ZipNum.
	idx   *newFile
	zip   *gzip.Writer
	n     int   // lines in the open member
	start int64 // of the open member
	count int   // members so far
	key   []byte
}

const (
	indexName  = "index.cdxj"
	zipName    = "index.cdxj.gz"
	idxName    = "index.idx"
	locName    = "index.loc"
	indexBytes = 256 << 10 // of a write
)

func (j *job) indexWriter() (_ *indexWriter, err error) {
	w := &indexWriter{j: j}
	if j.opt.Stream != nil {
		return w, nil
	}
	if err := j.opt.FS.MkdirAll(j.opt.Target); err != nil {
		return nil, fmt.Errorf("export: make %s: %w", j.opt.Target, err)
	}
	name := indexName
	if j.opt.Format == ZipNum {
		name = zipName
	}
	if w.lines, err = j.newFile(name); err != nil || j.opt.Format != ZipNum {
		return w, err
	}
	if w.idx, err = j.newFile(idxName); err != nil {
		w.lines.abort()
		return nil, err
	}
	w.zip, err = gzip.NewWriterLevel(w.lines, gzip.DefaultCompression)
	return w, err
}

// write writes a line, which has no newline at its end or one.
func (w *indexWriter) write(line []byte) error {
	if len(line) == 0 || line[len(line)-1] != '\n' {
		w.buf = append(append(w.buf[:0], line...), '\n')
		line = w.buf
	}
	switch {
	case w.lines == nil:
		_, err := w.j.opt.Stream.Write(line)
		return err
	case w.zip == nil:
		_, err := w.lines.Write(line)
		return err
	}
	if w.n == 0 {
		w.key = append(w.key[:0], keyOf(line)...)
	}
	if w.n++; w.n == zipLines {
		defer func() { w.n = 0 }()
		if _, err := w.zip.Write(line); err != nil {
			return err
		}
		return w.endMember()
	}
	_, err := w.zip.Write(line)
	return err
}

// keyOf returns what precedes the second space of a line: SURT key and time.
func keyOf(line []byte) []byte {
	spaces := 0
	for i, c := range line {
		if c == ' ' {
			if spaces++; spaces == 2 {
				return line[:i]
			}
		}
	}
	return line
}

// endMember ends the open member and notes it.
func (w *indexWriter) endMember() error {
	if err := w.zip.Close(); err != nil {
		return err
	}
	w.count++
	end := w.lines.size
	text := append(append([]byte(nil), w.key...), "\t"+zipName+"\t"...)
	text = append(strconv.AppendInt(text, w.start, 10), '\t')
	text = append(strconv.AppendInt(text, end-w.start, 10), '\t')
	text = append(strconv.AppendInt(text, int64(w.count), 10), '\n')
	w.start = end
	w.zip.Reset(w.lines)
	_, err := w.idx.Write(text)
	return err
}

// close makes the files durable and gives them their names, the one by which readers find the others last.
func (w *indexWriter) close() error {
	if w.lines == nil {
		return nil
	}
	if w.zip == nil {
		return w.j.named(w.lines)
	}
	if w.n > 0 {
		if err := w.endMember(); err != nil {
			w.abort()
			return err
		}
	}
	loc, err := w.j.newFile(locName)
	if err == nil {
		_, err = io.WriteString(loc, zipName+"\t"+zipName+"\n")
	}
	if err == nil {
		err = w.j.opt.FS.Remove(w.j.opt.Target + "/" + idxName) // it belongs to an earlier index
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		w.abort()
		return fmt.Errorf("export: %w", err)
	}
	return w.j.named(w.lines, loc, w.idx)
}

func (w *indexWriter) abort() {
	for _, f := range []*newFile{w.lines, w.idx} {
		if f != nil {
			f.abort()
		}
	}
}

// newFile is a file of an index under a temporary name. It is an io.Writer with a buffer.
type newFile struct {
	fs         disk.FS
	file       disk.File // nil once it is closed
	name, temp string
	buf        []byte
	size       int64 // with the buffer
}

func (j *job) newFile(name string) (*newFile, error) {
	f := &newFile{fs: j.opt.FS, name: j.opt.Target + "/" + name, temp: j.opt.Target + "/." + name}
	err := f.fs.Remove(f.temp) // of a killed process
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		f.file, err = f.fs.Create(f.temp)
	}
	if err != nil {
		return nil, fmt.Errorf("export: create %s: %w", f.temp, err)
	}
	return f, nil
}

// Write appends to the file.
func (f *newFile) Write(p []byte) (int, error) {
	f.buf = append(f.buf, p...)
	f.size += int64(len(p))
	if len(f.buf) >= indexBytes {
		if err := f.flush(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (f *newFile) flush() error {
	_, err := f.file.WriteAt(f.buf, f.size-int64(len(f.buf)))
	f.buf = f.buf[:0]
	if err != nil {
		return fmt.Errorf("export: write %s: %w", f.temp, err)
	}
	return nil
}

// abort deletes the file.
func (f *newFile) abort() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
		_ = f.fs.Remove(f.temp) // an error leaves a name with a dot, which the next index replaces
	}
}

// named makes files durable, and then gives them their names in the order given.
func (j *job) named(files ...*newFile) (err error) {
	for _, f := range files {
		if err == nil {
			err = f.flush()
		}
		if err == nil {
			err = f.file.Sync()
		}
	}
	if err != nil {
		for _, f := range files {
			f.abort()
		}
		return err
	}
	for _, f := range files {
		if err := f.file.Close(); err != nil {
			return fmt.Errorf("export: close %s: %w", f.temp, err)
		}
		if err := f.fs.Rename(f.temp, f.name); err != nil {
			return fmt.Errorf("export: name %s: %w", f.name, err)
		}
		j.report.Parts++
		j.report.Bytes += f.size
	}
	if err := j.opt.FS.SyncDir(j.opt.Target); err != nil {
		return fmt.Errorf("export: sync %s: %w", j.opt.Target, err)
	}
	return nil
}
