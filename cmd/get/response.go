package get

import (
	"bufio"
	"bytes"
	"compress/flate"
	"crypto/sha1"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/pagetext"
	"drumbeat/warc"
)

// maxHead bounds the head of a response, in bytes; package fetch accepts less.
const maxHead = 1 << 20

// print prints what the user wants of a record.
func (c *Command) print(to io.Writer, r *warc.StoredRecord, warn func(string)) error {
	out := bufio.NewWriterSize(output{to}, 64<<10)
	err := c.write(out, r, warn)
	// What precedes damage is printed.
	if flushed := out.Flush(); flushed != nil {
		return flushed
	}
	var closed outputError
	if err != nil && !errors.As(err, &closed) {
		return fmt.Errorf("get: %w", err)
	}
	return err
}

// output marks the errors of standard output.
type output struct{ w io.Writer }

// Write implements io.Writer.
func (o output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		err = outputError{err}
	}
	return n, err
}

type outputError struct{ err error }

func (e outputError) Error() string { return "get: write: " + e.err.Error() }
func (e outputError) Unwrap() error { return e.err }

func (c *Command) write(out *bufio.Writer, r *warc.StoredRecord, warn func(string)) error {
	if c.Record {
		out.Write(r.Head) // the writer keeps its error
		if _, err := io.Copy(out, r); err != nil {
			return err
		}
		_, err := out.WriteString("\r\n\r\n")
		return err
	}
	block := bufio.NewReaderSize(r, 64<<10)
	head, err := readHead(block)
	if err != nil {
		return err
	}
	if c.Head {
		_, err := out.Write(head)
		if _, rest := io.Copy(io.Discard, block); err == nil {
			err = rest // the record's checksum
		}
		return err
	}
	b := newBody(r, block, head, warn)
	defer b.close()
	if c.Text {
		kind := strings.Join(fields(head, "Content-Type"), ",")
		if !pagetext.IsHTML(kind) {
			return term.Usage(fmt.Errorf("--text is for HTML, and the response is %.100q: use --body", kind))
		}
		err = pagetext.Write(out, b.decoded, kind)
	} else {
		_, err = io.Copy(out, b.decoded)
	}
	var closed outputError
	if errors.As(err, &closed) {
		return err
	}
	return b.end(err)
}

// readHead reads the status line and the header fields, up to the empty line.
func readHead(r *bufio.Reader) ([]byte, error) {
	var head []byte
	for {
		line, err := r.ReadSlice('\n')
		if head = append(head, line...); len(head) > maxHead {
			return nil, &disk.CorruptError{Want: "the head of a response", Got: fmt.Sprintf("a head of more than %d bytes", maxHead)}
		}
		switch {
		case err == io.EOF: // a response without a body
			return head, nil
		case err != nil && err != bufio.ErrBufferFull:
			return nil, err
		case bytes.HasSuffix(head, []byte("\n\r\n")), bytes.HasSuffix(head, []byte("\n\n")):
			return head, nil
		}
	}
}

// fields returns the values of a header field.
func fields(head []byte, name string) (values []string) {
	for line := range bytes.Lines(head) {
		if n, v, ok := strings.Cut(string(line), ":"); ok && strings.EqualFold(strings.TrimSpace(n), name) {
			values = append(values, strings.TrimSpace(v))
		}
	}
	return values
}

// body is the body of a response on its way through the decoders.
type body struct {
	record  *warc.StoredRecord
	payload io.Reader // without chunks, with its content coding; counted in sum
	decoded io.Reader
	sum     hash.Hash
	warn    func(string)
	zstds   []*lazy
}

// close releases the decoders.
func (b *body) close() {
	for _, l := range b.zstds {
		if d, ok := l.r.(*zstd.Decoder); ok {
			d.Close()
		}
	}
}

func newBody(r *warc.StoredRecord, block io.Reader, head []byte, warn func(string)) *body {
	b := &body{record: r, sum: sha1.New(), warn: warn}
	plain := block
	if codings := list(fields(head, "Transfer-Encoding")); len(codings) > 0 && strings.EqualFold(codings[len(codings)-1], "chunked") {
		plain = warc.Chunks(block)
	}
	b.payload = io.TeeReader(plain, b.sum)
	b.decoded = b.payload
	codings := list(fields(head, "Content-Encoding"))
	for i := len(codings) - 1; i >= 0; i-- { // the last one was applied last
		l := &lazy{from: bufio.NewReader(b.decoded), coding: strings.ToLower(codings[i])}
		b.decoded, b.zstds = l, append(b.zstds, l)
	}
	return b
}

// list splits the values of a field at commas.
func list(values []string) (items []string) {
	for _, v := range values {
		for item := range strings.SplitSeq(v, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
	}
	return items
}

// end reads what the decoders have left, and verifies the record. err is the first error of the output.
func (b *body) end(err error) error {
	_, rest := io.Copy(io.Discard, b.payload)
	if rest == nil || errors.Is(rest, warc.ErrChunks) {
		chunks := rest
		// Read what follows the last chunk, such as a trailer, for the record's checksum.
		if _, rest = io.Copy(io.Discard, b.record); rest == nil && chunks != nil {
			b.warn("the server's chunk framing is invalid; the body ends there")
			err, chunks = nil, nil
			return b.truncated()
		}
	}
	if rest != nil {
		return rest
	}
	got, want := warc.PayloadDigest(b.sum.Sum(nil)), b.record.Get("WARC-Payload-Digest")
	if want != "" && got != want {
		return &disk.CorruptError{Path: b.record.Path(), Offset: b.record.Offset, Want: "a payload with digest " + want, Got: got}
	}
	if err != nil && b.record.Get("WARC-Truncated") == "" {
		// The record is intact: the server sent it so.
		b.warn("the server's content coding is invalid; the body ends there: " + err.Error())
	}
	return b.truncated()
}

// truncated warns of an incomplete body.
func (b *body) truncated() error {
	if why := b.record.Get("WARC-Truncated"); why != "" {
		b.warn("the crawl stored only the beginning of the body (" + why + ")")
	}
	return nil
}

// maxWindow bounds the window of zstd content, in bytes (RFC 9659).
const maxWindow = 8 << 20

// lazy opens a decoder with the first Read. An empty body is empty in every coding, and a body that does not
// begin as its coding says is taken as it is, as browsers and the crawler do.
type lazy struct {
	from   *bufio.Reader
	coding string
	r      io.Reader
}

// Read implements io.Reader.
func (l *lazy) Read(p []byte) (int, error) {
	if l.r == nil {
		var err error
		if l.r, err = l.open(); err != nil {
			return 0, err
		}
	}
	return l.r.Read(p)
}

func (l *lazy) open() (io.Reader, error) {
	start, err := l.from.Peek(4)
	if len(start) == 0 {
		if err == io.EOF {
			return l.from, nil
		}
		return nil, err
	}
	switch l.coding {
	case "gzip", "x-gzip":
		if bytes.HasPrefix(start, []byte{0x1f, 0x8b}) {
			return gzip.NewReader(l.from)
		}
	case "deflate", "x-deflate":
		if len(start) > 1 && start[0]&0x0f == 8 && (int(start[0])<<8|int(start[1]))%31 == 0 {
			return zlib.NewReader(l.from)
		}
		return flate.NewReader(l.from), nil
	case "br":
		return brotli.NewReader(l.from), nil
	case "zstd":
		if bytes.HasPrefix(start, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
			return zstd.NewReader(l.from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		}
	}
	return l.from, nil
}
