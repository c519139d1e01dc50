package export

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/dustin/go-humanize"

	"drumbeat/disk"
	"drumbeat/internal/extsort"
	"drumbeat/internal/human"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/warc"
)

// Index is not a table: the lines of the indexes of all WARC files as one index, in the order of bytes
// (LC_ALL=C sort), for replay tools. Its formats are CDXJ, ZipNum and CDX.
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

// indexTable has the files that Index reads.
func indexTable() table { return table{files: indexFiles, logs: []string{"warc"}, indexed: true} }

// needIndexes refuses WARC files without their indexes: without a word, all their pages would be missing.
func (j *job) needIndexes() error {
	st, err := part[warc.State](j, state.NameWARC)
	if err != nil {
		return err
	}
	files, err := warc.WithoutIndex(j.WARCFiles(), st)
	if err == nil && len(files) > 0 {
		err = fmt.Errorf("export: %s without an index, for example %s: move back its .cdxj file, or move both away",
			human.Counted(int64(len(files)), "WARC file is", "WARC files are"), files[0])
	}
	return err
}

// noteAbsent notes, once, the WARC files whose indexes are not there.
func (j *job) noteAbsent() error {
	if j.noted {
		return nil
	}
	j.noted = true
	st, err := part[warc.State](j, state.NameWARC)
	if err != nil {
		return err
	}
	absent, of, err := warc.AbsentIndexes(j.WARCFiles(), st)
	if err == nil && absent > 0 {
		j.note("the indexes of %s of the crawl's %s WARC files are missing (moved away or lost), and "+
			"their entries with them", humanize.Comma(absent), humanize.Comma(of))
	}
	return err
}

// index writes the index.
func (j *job) index() (err error) {
	if j.opt.Begin != nil {
		j.opt.Begin(j.report)
	}
	lines, err := j.indexLines()
	if err != nil {
		return err
	}
	return j.writeIndex(lines)
}

// indexLines returns a sorter of the lines of all indexes.
func (j *job) indexLines() (*extsort.Sorter, error) {
	st, err := part[warc.State](j, state.NameWARC)
	if err != nil {
		return nil, err
	}
	if err := j.noteAbsent(); err != nil {
		return nil, err
	}
	lines := j.sorterOf(2)
	j.meter.Set("indexes")
	form := warc.KeyBrackets // of WACZ
	if j.opt.Kind == Index {
		form = warc.KeyPywb
	}
	var key, cdx []byte
	err = warc.WalkIndexes(j.WARCFiles(), st, func(x *warc.Index) error {
		return x.Lines(func(line []byte) error {
			capture, err := x.Parse(line)
			if err != nil { // damaged
				return err
			}
			if err := j.live(); err != nil {
				return err
			}
			key = warc.AppendKey(key[:0], []byte(capture.URL), form)
			_, rest, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte{' '})
			key = append(append(key, ' '), rest...)
			if j.opt.Format != CDX {
				return lines.Add(key)
			}
			cdx = appendCDX(cdx[:0], key, capture)
			return lines.Add(cdx)
		})
	})
	j.meter.Set("sorting lines")
	return lines, err
}

// writeIndex writes the index of lines.
func (j *job) writeIndex(lines *extsort.Sorter) error {
	if err := lines.Sort(); err != nil {
		return err
	}
	j.meter.Set("writing")
	out, err := j.indexWriter()
	if err != nil {
		return err
	}
	if j.opt.Format == CDX {
		if err := out.write([]byte(cdxHeader)); err != nil {
			out.abort()
			return err
		}
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
	j      *job
	stream *bufio.Writer
	lines  *disk.Staged // if stream is nil
	buf    []byte

	// Of ZipNum.
	idx *disk.Staged
	loc *disk.Staged
	zip *warc.LineBlocks
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
		w.stream = bufio.NewWriterSize(j.opt.Stream, indexBytes)
		return w, nil
	}
	if err := j.opt.FS.MkdirAll(j.opt.Target); err != nil {
		return nil, fmt.Errorf("export: make %s: %w", j.opt.Target, err)
	}
	name := indexName
	switch j.opt.Format {
	case ZipNum:
		name = zipName
	case CDX:
		name = cdxName
	}
	if w.lines, err = j.stage(name); err != nil || j.opt.Format != ZipNum {
		return w, err
	}
	if w.idx, err = j.stage(idxName); err != nil {
		w.lines.Abort()
		return nil, err
	}
	w.zip = warc.NewLineBlocks(w.lines, warc.ZipNumLine(w.idx, zipName))
	return w, nil
}

// write writes a line, which has no newline.
func (w *indexWriter) write(line []byte) error {
	w.buf = append(append(w.buf[:0], line...), '\n')
	line = w.buf
	switch {
	case w.stream != nil:
		_, err := w.stream.Write(line)
		return err
	case w.zip == nil:
		_, err := w.lines.Write(line)
		return err
	}
	return w.zip.Add(line)
}

// close makes the files durable and gives them their names. A reader finds the files of ZipNum by the summary,
// which is there only while the others belong to it.
func (w *indexWriter) close() (err error) {
	if w.stream != nil {
		return w.stream.Flush()
	}
	defer func() {
		if err != nil {
			w.abort()
		}
	}()
	if w.zip == nil {
		if err := w.lines.End(); err != nil {
			return err
		}
		return w.j.name(w.lines)
	}
	if err := w.zip.Close(); err != nil {
		return err
	}
	if w.loc, err = w.j.stage(locName); err != nil {
		return err
	}
	if _, err := io.WriteString(w.loc, zipName+"\t"+zipName+"\n"); err != nil {
		return err
	}
	files := []*disk.Staged{w.lines, w.loc, w.idx}
	for _, f := range files { // the earlier index stays until there is room for this one
		if err := f.End(); err != nil {
			return err
		}
	}
	fsys, dir := w.j.opt.FS, w.j.opt.Target
	if err = fsys.Remove(dir + "/" + idxName); err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("export: remove the earlier index: %w", err)
	}
	for _, f := range files {
		if err := w.j.name(f); err != nil {
			return err
		}
	}
	return nil
}

// abort deletes the files that have no name yet.
func (w *indexWriter) abort() {
	for _, f := range []*disk.Staged{w.lines, w.loc, w.idx} {
		if f != nil {
			f.Abort()
		}
	}
}

// stage creates a file of the index.
func (j *job) stage(name string) (*disk.Staged, error) {
	return disk.Stage(j.opt.FS, j.opt.Target+"/"+name)
}

// name gives a file its name.
func (j *job) name(f *disk.Staged) error {
	if err := f.Rename(); err != nil {
		return err
	}
	j.report.Parts++
	j.report.Bytes += f.Size()
	return nil
}
