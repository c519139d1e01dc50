// Package response reads the response in a record of a WARC file: its head, and its body without chunk framing and
// content codings.
//
// The record is as the server sent it. Open reads the head; Body is the rest on its way through the decoders of
// Transfer-Encoding and Content-Encoding (RFC 9110, 8.4; RFC 9112, 7.1). A body that does not begin as its coding
// says is taken as it is, as browsers and the crawler do. The codings are gzip, deflate, br and zstd.
//
// The payload digest is verified at the end of the body: a wrong one, and a record that ends early, are a
// *disk.CorruptError. What the server sent wrong is none: invalid chunks, an invalid coding and a body that the crawl
// cut off are warnings, and the body ends there.
//
// The paper does not say how its pages are read. The commands get and extract read them here.
//
// A Response belongs to one goroutine, reads its record to the end, and keeps no files. Memory: some 100 KiB, with
// windows of zstd and brotli up to 40 MiB; bodies are streamed.
package response

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

	"drumbeat/disk"
	"drumbeat/internal/httphead"
	"drumbeat/warc"
)

// Response is the response in a record. Close it.
type Response struct {
	Head []byte    // status line and header fields, with the empty line
	Body io.Reader // without chunks and codings

	// HeadOnly says that the crawl left out the body on purpose: the page asks for that, or it is a near-duplicate.
	HeadOnly bool

	record  *warc.StoredRecord
	block   io.Reader // of the record, after the head; counted in whole if the body is chunked
	whole   hash.Hash // nil unless the body is chunked
	payload io.Reader // without chunks, with its content coding; counted in sum
	sum     hash.Hash
	warn    func(string)
	zstds   []*lazy
}

// Open reads the head of the response in a record, which may be that of a revisit. A rendered page gets a
// head of its Content-Type alone. warn receives what the server sent wrong.
func Open(r *warc.StoredRecord, warn func(string)) (*Response, error) {
	block := bufio.NewReaderSize(r, int(min(r.Size, 64<<10)))
	if r.Type() == "resource" { // it has no head
		b := &Response{Head: []byte("Content-Type: " + r.Get("Content-Type") + "\r\n\r\n"), record: r, block: block,
			sum: sha1.New(), warn: warn}
		b.payload = io.TeeReader(block, b.sum)
		b.Body = b.payload
		return b, nil
	}
	head, err := readHead(block)
	if err != nil {
		return nil, err
	}
	b := &Response{Head: head, record: r, block: block, sum: sha1.New(), warn: warn}
	if r.Get("WARC-Truncated") == unspecified {
		_, err := block.Peek(1)
		b.HeadOnly = err == io.EOF
	}
	plain := io.Reader(block)
	if httphead.Chunked(head) {
		b.whole = sha1.New()
		b.block = io.TeeReader(block, b.whole)
		plain = warc.Chunks(b.block)
	}
	b.payload = io.TeeReader(plain, b.sum)
	b.decode()
	return b, nil
}

// Plain returns a response whose head and payload, without chunks, are not in a record. Do not call SkipBody and End.
func Plain(head []byte, payload io.Reader) *Response {
	b := &Response{Head: head, payload: payload}
	b.decode()
	return b
}

// decode makes Body of the payload.
func (b *Response) decode() {
	b.Body = b.payload
	codings := append(list(b.Fields("Content-Encoding")), transferCodings(b)...)
	for i := len(codings) - 1; i >= 0; i-- { // the last one was applied last
		l := &lazy{from: bufio.NewReader(b.Body), coding: strings.ToLower(codings[i])}
		b.Body, b.zstds = l, append(b.zstds, l)
	}
}

// transferCodings returns the transfer codings but chunked.
func transferCodings(b *Response) (codings []string) {
	for _, c := range list(b.Fields("Transfer-Encoding")) {
		if !strings.EqualFold(c, "chunked") && !strings.EqualFold(c, "identity") {
			codings = append(codings, c)
		}
	}
	return codings
}

// Close releases the decoders. The record stays open.
func (b *Response) Close() {
	for _, l := range b.zstds {
		if d, ok := l.r.(*zstd.Decoder); ok {
			d.Close()
		}
	}
}

// SkipBody reads the rest of the record without decoding it. It returns what is wrong with the record.
func (b *Response) SkipBody() error {
	_, err := io.Copy(io.Discard, b.block)
	return err
}

// ContentType returns the values of Content-Type, combined as package fetch combines them; "" if there is none.
func (b *Response) ContentType() string { return strings.Join(b.Fields("Content-Type"), ", ") }

// NoSniff reports whether the server forbids to guess the type of the body ("determine nosniff" of the Fetch standard).
func (b *Response) NoSniff() bool {
	first, _, _ := strings.Cut(strings.Join(b.Fields("X-Content-Type-Options"), ","), ",")
	return strings.EqualFold(strings.TrimSpace(first), "nosniff")
}

// readHead reads the status line and the header fields, up to the empty line.
func readHead(r *bufio.Reader) (head []byte, _ error) {
	for scanned := 0; ; {
		line, err := r.ReadSlice('\n')
		if head = append(head, line...); len(head) > httphead.MaxBytes {
			return nil, &disk.CorruptError{Want: "the head of a response",
				Got: fmt.Sprintf("a head of more than %d bytes", httphead.MaxBytes)}
		}
		switch {
		case err == io.EOF: // a response without a body
			return head, nil
		case err != nil && err != bufio.ErrBufferFull:
			return nil, err
		}
		var end int
		if end, scanned = httphead.End(head, scanned); end > 0 {
			return head, nil
		}
	}
}

// Fields returns the values of a header field, whose name is in lower case or not, as package fetch reads them.
func (b *Response) Fields(name string) (values []string) {
	name = strings.ToLower(name)
	for l := (httphead.Lines{Rest: b.Head}); l.Next(); {
		if httphead.Is(l.Key, name) {
			values = append(values, string(l.Value))
		}
	}
	return values
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

// End reads what the decoders have left, and verifies the record. err is the first error of reading Body; it is a
// warning if the record is intact.
func (b *Response) End(err error) error {
	_, rest := io.Copy(io.Discard, b.payload)
	sum, invalid := b.sum, errors.Is(rest, warc.ErrChunks)
	if rest == nil || invalid {
		// Read what follows the last chunk, such as a trailer, for the record's checksum.
		_, rest = io.Copy(io.Discard, b.block)
	}
	if rest != nil {
		return rest
	}
	if invalid {
		sum = b.whole // a body with invalid framing counts as it is
	}
	got, want := warc.PayloadDigest(sum.Sum(nil)), b.record.Get("WARC-Payload-Digest")
	if want != "" && got != want {
		return &disk.CorruptError{Path: b.record.Path(), Offset: b.record.Offset,
			Want: "a payload with digest " + want, Got: got}
	}
	switch {
	case invalid:
		b.warn("the server's chunk framing is invalid; the body ends there")
	case err != nil && b.record.Get("WARC-Truncated") == "":
		// The record is intact: the server sent it so.
		b.warn("the server's content coding is invalid; the body ends there: " + err.Error())
	}
	return b.truncated()
}

// truncated warns of an incomplete body.
func (b *Response) truncated() error {
	if why := b.record.Get("WARC-Truncated"); why != "" {
		if b.HeadOnly {
			b.warn("the crawl stored only the head: the page asks for that (--robots-meta), or its text is nearly " +
				"that of another page of the host (--near-duplicates); the metadata record has the reason")
		} else {
			b.warn("the crawl stored only the beginning of the body (" + why + ")")
		}
	}
	return nil
}

// unspecified is the value of WARC-Truncated of a record that lacks its body on purpose.
const unspecified = "unspecified"

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
			return zstd.NewReader(l.from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxWindow(maxWindow))
		}
	}
	return l.from, nil
}
