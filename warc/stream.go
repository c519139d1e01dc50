package warc

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"time"

	"drumbeat/warc/outfile"
)

// A body that is too large for RAM goes from a file to the WARC file in pieces. That takes seconds, so it
// happens before the transaction of its URL and without a lock: the capture gets a volume of its own, which
// no state names until Attach.

// streamBytes is the size of the buffer before a streamed file.
const streamBytes = 256 << 10

// Streamed is a capture with a large body in a volume of its own. End it with Writer.Attach or Discard.
type Streamed struct {
	files    *outfile.Detached
	response span
}

// Stream writes a capture whose body is x.Large, in two passes over it: one for the digest, one for the
// record. Until Attach the capture is not part of the store. After an error nothing is left of it, and the
// Writer remains usable. Stream ends early when ctx does.
func (w *Writer) Stream(ctx context.Context, e *Encoder, x *Exchange, now time.Time) (*Streamed, error) {
	files, err := w.files.Detach(now)
	if err != nil {
		return nil, fmt.Errorf("warc: stream: %w", err)
	}
	s := &Streamed{files: files}
	if err := w.stream(ctx, s, e, x, now); err != nil {
		return nil, fmt.Errorf("warc: stream: %w", errors.Join(err, files.Discard()))
	}
	return s, nil
}

func (w *Writer) stream(ctx context.Context, s *Streamed, e *Encoder, x *Exchange, now time.Time) error {
	body := func() io.Reader { return &largeReader{ctx: ctx, body: x.Large} }
	if err := e.digestLarge(body, x.Chunked); err != nil {
		return err
	}
	var p Prepared
	if err := e.request(&p, x); err != nil {
		return err
	}
	out := bufio.NewWriterSize(dataWriter{s.files}, streamBytes)
	info := w.head(s.files.File(dataStream), now)
	out.Write(info) // out keeps the first error
	out.Write(p.buf)
	s.response.offset = int64(len(info) + len(p.buf))
	if err := e.memberLarge(out, x, body); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	s.response.length = s.files.Size(dataStream) - s.response.offset
	p.buf = p.buf[:0]
	e.metadata(&p, x)
	out.Write(p.buf)
	if err := out.Flush(); err != nil {
		return err
	}
	return s.files.Write(indexStream, appendIndexTail(p.index, s.location()))
}

// dataWriter writes to the WARC file of a detached volume.
type dataWriter struct{ files *outfile.Detached }

func (w dataWriter) Write(p []byte) (int, error) {
	if err := w.files.Write(dataStream, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// largeReader reads a large body. It fails when ctx has ended, or if the body ends early.
type largeReader struct {
	ctx  context.Context
	body *io.SectionReader
	at   int64
}

func (r *largeReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	n, err := r.body.ReadAt(p, r.at)
	if r.at += int64(n); n > 0 {
		return n, nil
	}
	if err == io.EOF && r.at < r.body.Size() {
		err = fmt.Errorf("body of %d bytes ends after %d", r.body.Size(), r.at)
	}
	return 0, err
}

// digestLarge is digestPayload for a large body.
func (e *Encoder) digestLarge(body func() io.Reader, chunked bool) error {
	valid := false
	if e.sha.Reset(); chunked {
		var err error
		if valid, err = copyChunks(e.sha, body()); err != nil {
			return err
		}
	}
	if !valid {
		e.sha.Reset()
		if _, err := io.Copy(e.sha, body()); err != nil {
			return err
		}
	}
	e.appendDigest(e.payload[:0])
	return nil
}

// memberLarge writes the response record of a large body as one gzip member or Zstandard frame.
func (e *Encoder) memberLarge(out *bufio.Writer, x *Exchange, body func() io.Reader) error {
	e.beginResponse(x, x.Encoded)
	if e.blockDigest {
		e.sha.Reset()
		e.sha.Write(x.Head)
		if _, err := io.Copy(e.sha, body()); err != nil {
			return err
		}
		e.field(fieldBlock)
		e.text = e.appendDigest(e.text)
	}
	return e.endLarge(out, x.Head, x.Large.Size(), x.Encoded, body())
}

// endLarge ends the header in e.text, and writes the response record with a head and a body of size bytes. With stored,
// the body is not compressed.
func (e *Encoder) endLarge(out *bufio.Writer, head []byte, size int64, stored bool, body io.Reader) error {
	e.endHeader(typeResponse, int64(len(head))+size)
	e.text = append(e.text, head...)
	if e.zst != nil {
		return e.frameLarge(out, size, stored, body)
	}
	sum := crc32.NewIEEE()
	sum.Write(e.text)
	rest := io.TeeReader(io.MultiReader(body, strings.NewReader(recordEnd)), sum)
	out.WriteString(memberMagic)
	e.resetFlate(out)
	defer e.resetFlate(io.Discard) // an idle Encoder must not retain out
	e.flate.Write(e.text)          // out keeps the first error
	if stored {
		e.flate.Flush() // align to a byte
		if err := copyStored(out, rest); err != nil {
			return err
		}
	} else {
		if _, err := io.Copy(e.flate, rest); err != nil {
			return err
		}
		e.flate.Close()
	}
	size += int64(len(e.text)) + int64(len(recordEnd))
	trailer := binary.LittleEndian.AppendUint32(nil, sum.Sum32())
	_, err := out.Write(binary.LittleEndian.AppendUint32(trailer, uint32(size))) // modulo 2^32
	return err
}

// copyStored writes the bytes of r in stored deflate blocks, the last of which is empty.
func copyStored(out *bufio.Writer, r io.Reader) error {
	block := make([]byte, maxStored)
	for {
		n, err := io.ReadFull(r, block)
		if n > 0 {
			out.Write([]byte{0, byte(n), byte(n >> 8), ^byte(n), ^byte(n >> 8)})
			out.Write(block[:n])
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			_, err = out.Write([]byte{1, 0, 0, 0xff, 0xff})
			return err
		default:
			return err
		}
	}
}

func (s *Streamed) location() Location {
	return Location{Dir: s.files.Dir(), File: s.files.File(dataStream), Offset: s.response.offset,
		Length: s.response.length}
}

// Discard deletes the capture.
func (s *Streamed) Discard() error { return s.files.Discard() }

// Attach adds a streamed capture to the store, as Append adds a prepared one. It takes microseconds. After
// an error all further calls fail.
func (w *Writer) Attach(s *Streamed) (Location, error) {
	if err := s.files.Attach(); err != nil {
		return Location{}, fmt.Errorf("warc: attach: %w", err)
	}
	w.counts.captures.Add(1)
	w.counts.bytes.Add(s.files.Size(dataStream))
	w.counts.index.Add(s.files.Size(indexStream))
	return s.location(), nil
}
