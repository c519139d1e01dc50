package warc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"drumbeat/disk"
	"drumbeat/warc/outfile"
)

// Stored is a capture that an index lists, with the file of its record.
type Stored struct {
	Indexed
	data outfile.StreamContent
}

// FindAll calls fn for each capture of a canonical URL that an index lists, robots.txt exchanges included,
// the newest files first. It reads final indexes as Find does: the number of reads grows with the logarithm
// of an index's size, and with the number of indexes. It reads the others completely, in pieces, and final
// ones in which the search meets damage. It passes unreadable data to damaged and continues. noIndex receives
// the WARC files whose index was moved away.
func FindAll(opt Options, st *State, url string, fn func(*Stored) error, noIndex func(path string),
	damaged func(error) error) error {
	keys := keyPrefixes(url)
	orphan := func(x *outfile.Content) {
		if s := x.Streams[dataStream]; s.Path != "" || s.Tail.Len > 0 {
			noIndex(x.Name + s.Suffix)
		}
	}
	return searchContents(opt, st, damaged, orphan, func(x *indexFile) error {
		take := func(text []byte) error {
			if !slices.ContainsFunc(keys, func(key string) bool { return bytes.HasPrefix(text, []byte(key)) }) {
				return nil
			}
			found, err := x.parse(text)
			if err != nil || found.URL != url {
				return err
			}
			return fn(&Stored{*found, x.data})
		}
		if !x.sorted {
			return x.lines(0, take)
		}
		for _, key := range keys {
			err := x.withPrefix([]byte(key), take)
			if corrupt := (*disk.CorruptError)(nil); errors.As(err, &corrupt) {
				return errors.Join(err, x.lines(0, take))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// ErrMoved means that the WARC file of a capture was moved away.
var ErrMoved = errors.New("the WARC file was moved away")

// StoredRecord is the record of a capture, open for reading. It belongs to one goroutine. Close it.
type StoredRecord struct {
	*Record        // without Block
	Head    []byte // the header as stored, with its empty line
	*opener
	left int64
	done bool
	file *outfile.Bytes
	path string
	data *Data // whose file stays open; nil: the record's own
}

// opener is what it takes to read one record of a file after the other.
type opener struct {
	in, block *bufio.Reader
	dec       *decoder
}

func newOpener(dec *decoder) *opener {
	return &opener{bufio.NewReaderSize(nil, 64<<10), bufio.NewReaderSize(nil, 16<<10), dec}
}

func (o *opener) close() {
	if o.dec.zst != nil {
		o.dec.zst.Close()
	}
}

// OpenStored opens the record of a capture. It takes some 200 KiB, and for zst files up to 8 MiB, whatever
// the size of the record. A record that is not the one of the index line is a *disk.CorruptError.
func OpenStored(opt Options, x *Stored) (_ *StoredRecord, err error) {
	if x.data.Path == "" && x.data.Tail.Len == 0 {
		return nil, fmt.Errorf("warc: open the record of %.200s: %s: %w", x.URL, x.File, ErrMoved)
	}
	opt.defaults()
	b, err := x.data.Open(opt.Set.FS, opt.State)
	if b == nil {
		return nil, fmt.Errorf("warc: open the record of %.200s: %w", x.URL, err)
	}
	r := &StoredRecord{file: b, path: x.data.Path, opener: newOpener(fileDecoder(b))}
	// A file that is shorter than the manifest says may still have this record.
	if err = r.open(&x.Indexed); err != nil {
		return nil, errors.Join(r.damage(x.Offset, err), r.Close())
	}
	return r, nil
}

func (r *StoredRecord) open(x *Indexed) error {
	if x.Offset < 0 || x.Length <= 0 || x.Offset > r.file.Size()-x.Length {
		return fmt.Errorf("%d bytes, beyond the end of the file", x.Length)
	}
	r.in.Reset(io.NewSectionReader(r.file, x.Offset, x.Length))
	text, err := r.dec.open(r.in)
	if err != nil {
		return whole(err)
	}
	r.block.Reset(text)
	if r.Record, r.Head, err = readHead(r.block); err != nil {
		return whole(err)
	}
	if string(appendURL(nil, r.Get("WARC-Target-URI"))) != string(appendURL(nil, x.URL)) {
		return fmt.Errorf("the record of %.200q", r.Get("WARC-Target-URI"))
	}
	r.Offset, r.Length, r.left = x.Offset, x.Length, r.Size
	return nil
}

// damage wraps an error of reading the record at an offset.
func (r *StoredRecord) damage(off int64, err error) error {
	var known *disk.CorruptError
	var failed *fs.PathError // of the disk
	if errors.As(err, &known) || errors.As(err, &failed) {
		return err
	}
	return &disk.CorruptError{Path: r.path, Offset: off, Want: "a record", Got: err.Error()}
}

// Read reads the block. Its end verifies the checksum of the member or frame.
func (r *StoredRecord) Read(p []byte) (int, error) {
	if r.done {
		return 0, io.EOF
	}
	if r.left == 0 {
		return 0, r.end()
	}
	n, err := r.block.Read(p[:min(int64(len(p)), r.left)])
	if r.left -= int64(n); err != nil {
		return n, r.damage(r.Offset, whole(err))
	}
	return n, nil
}

// end checks what follows the block; io.EOF if it is right.
func (r *StoredRecord) end() error {
	if err := readEnd(r.block); err != nil {
		return r.damage(r.Offset, err)
	}
	r.done = true
	return io.EOF
}

// Path returns the path of the WARC file.
func (r *StoredRecord) Path() string { return r.path }

// Close closes the file, unless that of a Data has the record. The record is not read any more.
func (r *StoredRecord) Close() error {
	if r.data != nil {
		r.data.give(r.opener)
		r.opener, r.done = nil, true
		return nil
	}
	r.opener.close()
	return r.file.Close()
}

// PayloadDigest returns the digest in the form of WARC-Payload-Digest, from a SHA-1 sum.
func PayloadDigest(sum []byte) string { return digest(sum) }

// ErrChunks means that the chunk framing of a body is invalid.
var ErrChunks = errors.New("invalid chunk framing")

// Chunks returns a reader of the content of the chunks of a body, which may be cut off. It is valid as far
// as it goes, like the payload that the digest covers; Read fails with ErrChunks where it is not.
func Chunks(body io.Reader) io.Reader {
	return &chunkReader{r: bufio.NewReaderSize(body, maxChunkLine)}
}

type chunkReader struct {
	r     *bufio.Reader
	left  int64
	begun bool // a chunk has been read; a line end follows it
	err   error
}

// Read implements io.Reader.
func (c *chunkReader) Read(p []byte) (n int, err error) {
	if c.err == nil && c.left == 0 {
		c.err = c.next()
	}
	if c.err != nil {
		return 0, c.err
	}
	n, err = c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// next reads up to the content of the next chunk; io.EOF after the last one.
func (c *chunkReader) next() error {
	if c.begun {
		end, err := c.r.Peek(2)
		switch {
		case bytes.HasPrefix(end, []byte("\r\n")):
			c.r.Discard(2)
		case bytes.HasPrefix(end, []byte("\n")):
			c.r.Discard(1)
		case err != nil && err != io.EOF:
			return err
		case len(end) > 1:
			return ErrChunks
		}
	}
	c.begun = true
	line, err := c.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return ErrChunks
	}
	if err != nil {
		return err // io.EOF: cut off within a size line
	}
	if c.left, err = chunkBytes(line[:len(line)-1]); err != nil {
		return ErrChunks
	}
	if c.left == 0 {
		return io.EOF
	}
	return nil
}

// Original returns the URL and the time of the capture that has the body of a revisit; ok is false for other
// records.
func (r *StoredRecord) Original() (url string, date time.Time, ok bool) {
	if r.Type() != "revisit" {
		return "", time.Time{}, false
	}
	date, err := time.Parse(dateFormat, r.Get("WARC-Refers-To-Date"))
	return r.Get("WARC-Refers-To-Target-URI"), date, err == nil
}

// IsRevisit reports whether an index line is that of a revisit.
func (x *Indexed) IsRevisit() bool { return x.MIME == mimeRevisit }
