package erase

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"

	"drumbeat/disk"
	"drumbeat/internal/extsort"
	"drumbeat/warc"
)

// maxLine bounds a line of an index, in bytes: two URLs with each byte escaped.
const maxLine = 1 << 20

// eachIndexLine calls fn with each line of an index, and what it is afterwards: nil if it goes. of is the rewritten
// file of its record, or nil.
func (x *run) eachIndexLine(kind outKind, f io.ReaderAt, size int64,
	fn func(line, next []byte, of *volume) error) error {
	r := io.Reader(io.NewSectionReader(f, 0, size))
	if kind == outZipNum && size > 0 { // without lines it has no blocks
		z, err := gzip.NewReader(bufio.NewReaderSize(r, wordBytes))
		if err != nil {
			return err
		}
		r = z
	}
	files := x.shifted()
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; in.Scan(); n++ {
		line := append(in.Bytes(), '\n')
		next, keep, file, err := warc.EditLine(line, func(url string) bool {
			return x.t.Text(strings.TrimPrefix(url, warc.RenderedPrefix))
		})
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if !keep {
			next = nil
		}
		if err := fn(line, next, files.files[file]); err != nil {
			return err
		}
	}
	return in.Err()
}

// filterIndex copies an index. Instead of the lines of rewritten WARC files it takes those of their own indexes.
func (x *run) filterIndex(o *output, f io.ReaderAt, size int64, to io.Writer) (changed bool, err error) {
	named := map[*volume]bool{}
	if err := x.eachIndexLine(o.Kind, f, size, func(line, next []byte, of *volume) error {
		if next == nil {
			x.j.Erased.Rows++
		}
		if of != nil {
			named[of] = true
		}
		changed = changed || of != nil || !bytes.Equal(line, next)
		return nil
	}); err != nil || to == nil {
		return changed, err
	}
	lines := x.sorter("index.sort")
	defer func() { err = errors.Join(err, lines.Close()) }()
	for n := range named {
		if err := x.addLines(n, lines); err != nil {
			return changed, err
		}
	}
	if err := lines.Sort(); err != nil {
		return changed, err
	}
	fresh, err := lines.Next()
	if err != nil {
		return changed, err
	}
	before := func(line []byte) error { // the fresh lines before a line
		for fresh != nil && (line == nil || bytes.Compare(fresh, line) < 0) {
			if _, err := to.Write(fresh); err != nil {
				return err
			}
			if fresh, err = lines.Next(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := x.eachIndexLine(o.Kind, f, size, func(_, next []byte, of *volume) error {
		if next == nil || of != nil {
			return nil
		}
		if err := before(next); err != nil {
			return err
		}
		_, err := to.Write(next)
		return err
	}); err != nil {
		return changed, err
	}
	return changed, before(nil)
}

// addLines adds the lines of the index of a rewritten WARC file.
func (x *run) addLines(n *volume, lines *extsort.Sorter) error {
	name := x.warcPath(n.Dir, n.Next+strings.TrimPrefix(n.IndexFile, n.Name))
	f, err := x.r.Out.FS.OpenRead(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was moved away
	}
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(io.NewSectionReader(f, 0, size), wordBytes)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			if err := lines.Add(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// summaryOf returns the path of the summary of the blocks in a file; "" if there is none.
func (x *run) summaryOf(file string) (string, error) {
	dir := path.Dir(file)
	names, err := x.r.Set.FS.List(dir)
	for i := 0; err == nil && i < len(names); i++ {
		if names[i][0] == '.' || path.Ext(names[i]) != ".idx" {
			continue
		}
		var of string
		if of, err = x.blocksOf(dir + "/" + names[i]); err == nil && of == file {
			return dir + "/" + names[i], nil
		}
	}
	return "", err
}

// blocksOf returns the file whose blocks a summary lists.
func (x *run) blocksOf(summary string) (string, error) {
	f, err := x.r.Set.FS.OpenRead(summary)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return "", err
	}
	line, _ := bufio.NewReader(io.NewSectionReader(f, 0, min(size, sniffedBytes))).ReadBytes('\n')
	if fields := bytes.Split(line, []byte{'\t'}); len(fields) == 5 {
		return path.Dir(summary) + "/" + string(fields[1]), nil
	}
	return "", nil
}

// summaryName is the name of the summary that drumbeat index gives to an index.
const summaryName = "index.idx"

// rewriteZipNum rewrites an index in blocks, and its summary. The summary is there only while it belongs to the blocks.
func (x *run) rewriteZipNum(o *output) error {
	fsys := x.r.Set.FS
	summary, err := x.summaryOf(o.Path)
	if err != nil {
		return err
	}
	if summary == "" { // a killed run has deleted it
		summary = path.Dir(o.Path) + "/" + summaryName
	}
	to, err := disk.Stage(fsys, o.Path)
	if err != nil {
		return err
	}
	defer to.Abort()
	idx, err := disk.Stage(fsys, summary)
	if err != nil {
		return err
	}
	defer idx.Abort()
	blocks := warc.NewLineBlocks(to, warc.ZipNumLine(idx, path.Base(o.Path)))
	rows := x.j.Erased.Rows // they are counted
	_, err = x.filter(o, lineWriter{blocks})
	x.j.Erased.Rows = rows
	if err == nil {
		err = blocks.Close()
	}
	for _, f := range []*disk.Staged{to, idx} {
		if err == nil {
			err = errors.Join(f.CopyMode(o.Path), f.End())
		}
	}
	if err == nil {
		if err = fsys.Remove(summary); err == nil || errors.Is(err, fs.ErrNotExist) {
			err = fsys.SyncDir(path.Dir(summary))
		}
	}
	for _, f := range []*disk.Staged{to, idx} {
		if err == nil {
			err = f.Rename()
		}
	}
	return err
}

// lineWriter takes lines.
type lineWriter struct{ *warc.LineBlocks }

func (w lineWriter) Write(line []byte) (int, error) { return len(line), w.Add(line) }
