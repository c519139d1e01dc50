package warc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"drumbeat/disk"
	"drumbeat/warc/outfile"
)

// MaxHeaderBytes bounds the record headers that Read accepts.
const MaxHeaderBytes = 64 << 10

// Record is one record of a WARC file. It is valid until Read passes the next one.
type Record struct {
	// Offset and Length locate the record's gzip member or Zstandard frame in the file, in bytes.
	Offset, Length int64
	// Version is the first line, such as "WARC/1.1".
	Version string
	// Fields are the header fields in order.
	Fields []Field
	// Block is the content, or its beginning if it is longer than Read accepts.
	Block []byte
	// Size is the length of the content.
	Size int64
}

// Get returns the value of the first field with the given name, ignoring case; "" if there is none.
func (r *Record) Get(name string) string {
	for _, f := range r.Fields {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// Type returns the value of WARC-Type.
func (r *Record) Type() string { return r.Get("WARC-Type") }

// IsCapture reports whether the record is that of a response, with its body or as a revisit, or of a rendered page.
func (r *Record) IsCapture() bool {
	return r.Type() == "response" || r.Type() == "revisit" || r.Type() == "resource"
}

// Read calls fn with each record of a WARC file with one gzip member or one Zstandard frame for each record,
// which it recognizes by their first bytes. It takes the dictionary at the head of a file. It checks format,
// lengths and checksums. Of a block of more than maxBlock bytes, fn receives the first maxBlock. An error of
// fn ends it and is returned.
func Read(r io.Reader, maxBlock int64, fn func(*Record) error) error {
	return new(decoder).read(r, maxBlock, fn)
}

// read is Read for a part of a file whose dictionary the decoder has.
func (d *decoder) read(r io.Reader, maxBlock int64, fn func(*Record) error) error {
	in := newCountReader(r, 64<<10)
	for {
		start := in.at()
		magic, err := in.Peek(4)
		if len(magic) == 0 && err == io.EOF {
			return nil
		}
		if skippable(magic) {
			if err := d.skip(in.Reader, start == 0); err != nil {
				return fmt.Errorf("warc: read frame at %d: %w", start, whole(err))
			}
			continue
		}
		text, err := d.open(in.Reader)
		if err != nil {
			return fmt.Errorf("warc: read member at %d: %w", start, whole(err))
		}
		rec, err := readRecord(bufio.NewReader(text), maxBlock)
		if err != nil {
			return fmt.Errorf("warc: read record at %d: %w", start, whole(err))
		}
		rec.Offset, rec.Length = start, in.at()-start
		if err := fn(rec); err != nil {
			return err
		}
	}
}

// whole converts an end of input within a record to io.ErrUnexpectedEOF.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// countReader is a bufio.Reader that knows its place. Decompressors get the bufio.Reader: they take no byte too many,
// and read it faster than any other io.ByteReader.
type countReader struct {
	*bufio.Reader
	from countedReader
}

// countedReader counts the bytes that were read.
type countedReader struct {
	r io.Reader
	n int64
}

func newCountReader(r io.Reader, size int) *countReader {
	c := &countReader{from: countedReader{r: r}}
	c.Reader = bufio.NewReaderSize(&c.from, size)
	return c
}

// reset begins with another reader.
func (c *countReader) reset(r io.Reader) {
	c.from = countedReader{r: r}
	c.Reset(&c.from)
}

// at returns how many bytes were taken.
func (c *countReader) at() int64 { return c.from.n - int64(c.Buffered()) }

// Read implements io.Reader.
func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// readRecord reads the single record of a member, up to the member's end.
func readRecord(r *bufio.Reader, maxBlock int64) (*Record, error) {
	rec, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	var block bytes.Buffer
	if _, err := io.CopyN(&block, r, min(rec.Size, maxBlock)); err != nil {
		return nil, err
	}
	rec.Block = block.Bytes()
	if _, err := io.CopyN(io.Discard, r, rec.Size-int64(len(rec.Block))); err != nil {
		return nil, err
	}
	if err := readEnd(r); err != nil {
		return nil, err
	}
	return rec, nil
}

// readEnd reads what follows a block, up to the member's end.
func readEnd(r io.Reader) error {
	rest, err := io.ReadAll(io.LimitReader(r, int64(len(recordEnd)+1)))
	switch {
	case err != nil || string(rest) == recordEnd:
		return err
	case strings.HasPrefix(string(rest), recordEnd):
		return errors.New("another record follows in the same gzip member or Zstandard frame: " +
			"compress each record on its own, not the whole file")
	}
	return fmt.Errorf("%q after the block instead of two empty lines and the end of the member", rest)
}

// readHeader reads the header of a record.
func readHeader(r *bufio.Reader) (*Record, error) {
	rec, _, err := readHead(r)
	return rec, err
}

// readHead reads the header of a record, and returns its bytes too.
func readHead(r *bufio.Reader) (_ *Record, head []byte, err error) {
	head = make([]byte, 0, 1<<10)
	for at, end := 0, 0; end != at || at == 0; {
		at = len(head)
		if head, err = appendLine(head, r); err != nil {
			return nil, nil, err
		}
		end = len(head) - len("\r\n")
		switch line := head[at:end]; {
		case at == 0 && !bytes.HasPrefix(line, []byte("WARC/")):
			return nil, nil, fmt.Errorf("got first line %q, want WARC/", line)
		case at > 0 && len(line) > 0 && bytes.IndexByte(line, ':') < 0:
			return nil, nil, fmt.Errorf("header line %q without colon", line)
		}
	}
	rec := &Record{Fields: make([]Field, 0, 12)}
	var rest string
	rec.Version, rest, _ = strings.Cut(string(head), "\r\n")
	for rest != "\r\n" {
		var line string
		line, rest, _ = strings.Cut(rest, "\r\n")
		name, value, _ := strings.Cut(line, ":")
		rec.Fields = append(rec.Fields, Field{Name: name, Value: strings.TrimSpace(value)})
	}
	rec.Size, err = strconv.ParseInt(rec.Get("Content-Length"), 10, 64)
	if err != nil || rec.Size < 0 {
		return nil, nil, fmt.Errorf("invalid Content-Length %q", rec.Get("Content-Length"))
	}
	return rec, head, nil
}

// appendLine appends the next line of a header.
func appendLine(head []byte, r *bufio.Reader) ([]byte, error) {
	at := len(head)
	for {
		part, err := r.ReadSlice('\n')
		if head = append(head, part...); len(head) > MaxHeaderBytes {
			return nil, fmt.Errorf("header longer than %d bytes", MaxHeaderBytes)
		}
		if err == nil {
			break
		}
		if err != bufio.ErrBufferFull {
			return nil, err
		}
	}
	if line := head[at:]; !bytes.HasSuffix(line, []byte("\r\n")) {
		return nil, fmt.Errorf("header line %q does not end with CRLF", line)
	}
	return head, nil
}

// ReadFile is Read for a file.
func ReadFile(fsys disk.FS, name string, maxBlock int64, fn func(*Record) error) error {
	f, err := fsys.OpenRead(name)
	if err != nil {
		return fmt.Errorf("warc: read: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("warc: read %s: %w", name, err)
	}
	if err := Read(io.NewSectionReader(f, 0, size), maxBlock, fn); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Files returns the paths of the final WARC files in the output directories, by directory and name. It
// includes files with other prefixes, because the directory belongs to the crawl.
func Files(set disk.Set) ([]string, error) {
	var paths []string
	for dir := range set.Paths {
		names, err := set.FS.List(set.Path(dir, subdir))
		if err != nil {
			return nil, fmt.Errorf("warc: list: %w", err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, gzSuffix) || strings.HasSuffix(name, zstSuffix) {
				paths = append(paths, set.Path(dir, subdir, name))
			}
		}
	}
	return paths, nil
}

// NameOf returns the name of a WARC file without directory and suffix, which its index has too.
func NameOf(file string) string {
	name := path.Base(file)
	for _, suffix := range []string{gzSuffix, zstSuffix} {
		if name, ok := strings.CutSuffix(name, suffix); ok {
			return name
		}
	}
	return name
}

// Walk calls fn with each record that a state names and that is not in a final file. file is the final name.
// Together with the records of Files these are all captures of a crawl, unless files were moved. It changes
// nothing.
func Walk(opt Options, st *State, maxBlock int64, fn func(file string, r *Record) error) error {
	opt.defaults()
	all, err := outfile.List(opt.outfile(), &st.Files)
	for i := range all {
		c := &all[i].Streams[dataStream]
		if err != nil || all[i].Final || c.Path != "" && !strings.HasSuffix(c.Path, outfile.OpenSuffix) {
			continue
		}
		var b *outfile.Bytes
		if b, err = c.Open(opt.Set.FS, opt.State); err == nil {
			err = Read(io.NewSectionReader(b, 0, b.Size()), maxBlock,
				func(rec *Record) error { return fn(all[i].Name+c.Suffix, rec) })
		}
		if b != nil {
			err = errors.Join(err, b.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("warc: %w", err)
	}
	return nil
}
