package warc

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// RecordReader reads single records of WARC files at known offsets, without holding their blocks. It belongs
// to one goroutine. It keeps its decompressors, some 100 KiB, from one record to the next; for zst files up
// to 8 MiB, and a dictionary. Close it.
type RecordReader struct {
	dec  *decoder
	of   io.ReaderAt // the file whose dictionary dec has
	in   *countReader
	text *bufio.Reader
	left int64
	done bool
}

const (
	recordInBytes   = 16 << 10
	recordTextBytes = 16 << 10
)

// Open reads the header of the record at an offset of a file of size bytes. The Record has no Block, and its
// Length is 0: Read returns the block. The previous record ends.
func (r *RecordReader) Open(file io.ReaderAt, size, offset int64) (*Record, error) {
	text, err := r.Text(file, size, offset)
	if err != nil {
		return nil, err
	}
	if r.text == nil {
		r.text = bufio.NewReaderSize(nil, recordTextBytes)
	}
	r.done = false
	r.text.Reset(text)
	rec, err := readHeader(r.text)
	if err != nil {
		return nil, fmt.Errorf("warc: read record at %d: %w", offset, whole(err))
	}
	rec.Offset, r.left = offset, rec.Size
	return rec, nil
}

// Text returns a reader of the record at an offset of a file of size bytes: its header, its block, and the two empty
// lines. Its end verifies the checksum of the member or frame; what the record says is not checked. The previous record
// ends.
func (r *RecordReader) Text(file io.ReaderAt, size, offset int64) (io.Reader, error) {
	if offset < 0 || offset >= size {
		return nil, fmt.Errorf("warc: read record at %d: beyond the end of the file, at %d", offset, size)
	}
	if r.of != file {
		r.Close()
		r.dec, r.of = fileDecoder(file), file
	}
	section := io.NewSectionReader(file, offset, size-offset)
	if r.in == nil {
		r.in = newCountReader(section, recordInBytes)
	} else {
		r.in.reset(section)
	}
	text, err := r.dec.open(r.in.Reader)
	if err != nil {
		return nil, fmt.Errorf("warc: read member at %d: %w", offset, whole(err))
	}
	return text, nil
}

// Read reads the block. Its end verifies the checksum of the member or frame.
func (r *RecordReader) Read(p []byte) (int, error) {
	if r.done {
		return 0, io.EOF
	}
	if r.left == 0 {
		if err := readEnd(r.text); err != nil {
			return 0, fmt.Errorf("warc: read the end of a record: %w", whole(err))
		}
		r.done = true
		return 0, io.EOF
	}
	n, err := r.text.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if err != nil {
		return n, fmt.Errorf("warc: read a block: %w", whole(err))
	}
	return n, nil
}

// EachRecord calls fn with each record of a WARC file of size bytes, in order, and a reader of its block, which fn need
// not read to the end. It checks format, lengths and checksums, and holds no block.
func EachRecord(file io.ReaderAt, size int64, fn func(rec *Record, block io.Reader) error) error {
	var r RecordReader
	defer r.Close()
	return r.Each(file, 0, size, fn)
}

// Each is EachRecord for the records of a range.
func (r *RecordReader) Each(file io.ReaderAt, from, size int64, fn func(rec *Record, block io.Reader) error) error {
	for off := from; off < size; {
		var head [8]byte
		if _, err := file.ReadAt(head[:], off); err == nil && skippable(head[:4]) {
			off += 8 + int64(binary.LittleEndian.Uint32(head[4:]))
			continue
		}
		rec, err := r.Open(file, size, off)
		if err != nil {
			return err
		}
		if err := fn(rec, r); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			return err
		}
		off += r.in.at()
	}
	return nil
}

// Close frees the decompressors. The reader may be used again.
func (r *RecordReader) Close() {
	if r.dec != nil && r.dec.zst != nil {
		r.dec.zst.Close()
	}
	r.dec, r.of = nil, nil
}

// ReadIndex calls fn with each line of a CDXJ index, in order, valid during the call. Lines that are no
// capture are errors.
func ReadIndex(r io.Reader, fn func(*Indexed) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("warc: read index: %w", err)
		}
		x, err := new(indexFile).parse(line)
		if err != nil {
			return fmt.Errorf("warc: read index: %w", err)
		}
		if err := fn(x); err != nil {
			return err
		}
	}
}

// MetaFields returns the fields of the block of a metadata record.
func MetaFields(block []byte) (fields []Field) {
	for line := range bytes.Lines(block) {
		if name, value, ok := strings.Cut(string(line), ":"); ok {
			fields = append(fields, Field{Name: name, Value: strings.TrimSpace(value)})
		}
	}
	return fields
}
