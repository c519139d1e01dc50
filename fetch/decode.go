package fetch

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"drumbeat/fetch/inflate"
	"drumbeat/internal/httphead"
)

// maxWindow bounds the window of zstd in bytes, as RFC 8878 recommends for the web.
const maxWindow = 8 << 20

// decoders lends decompressors. They own no goroutines, so the garbage collector frees them completely. slots
// bounds the number of br and zstd decoders that run at once, because each holds a window of up to 16 MiB.
type decoders struct {
	inflate, brotli, zstd *sync.Pool
	slots                 chan struct{}
}

func newDecoders() decoders {
	return decoders{
		slots:   make(chan struct{}, runtime.GOMAXPROCS(0)+1),
		inflate: &sync.Pool{New: func() any { return new(inflate.Decoder) }},
		brotli:  &sync.Pool{New: func() any { return brotli.NewReader(nil) }},
		zstd: &sync.Pool{New: func() any {
			d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecodeBuffersBelow(0))
			if err != nil {
				panic("BUG: fetch: zstd options: " + err.Error())
			}
			return d
		}},
	}
}

// coding is a content coding that this package decodes.
type coding uint8

const (
	codingNone coding = iota
	codingGzip
	codingDeflate
	codingBrotli
	codingZstd
	codingUnknown
)

func (c coding) String() string { return [...]string{"", "gzip", "deflate", "br", "zstd", ""}[c] }

func codingOf(name []byte) coding {
	switch {
	case len(name) == 0, httphead.Is(name, "identity"), httphead.Is(name, "none"), httphead.Is(name, "chunked"):
		return codingNone
	case httphead.Is(name, "gzip"), httphead.Is(name, "x-gzip"):
		return codingGzip
	case httphead.Is(name, "deflate"), httphead.Is(name, "x-deflate"):
		return codingDeflate
	case httphead.Is(name, "br"):
		return codingBrotli
	case httphead.Is(name, "zstd"):
		return codingZstd
	}
	return codingUnknown
}

// decode sets resp.Body from resp.PayloadRaw. It fails only for lack of memory.
func (x *exchange) decode() *Error {
	r := x.resp
	r.Body = r.PayloadRaw
	if len(r.PayloadRaw) == 0 {
		return nil
	}
	var list [maxCodings]coding
	n := 0
	for name := range bytes.SplitSeq(x.f.codings, []byte{','}) {
		c := codingOf(bytes.Trim(name, " \t\""))
		if c == codingNone {
			continue
		}
		if c == codingUnknown || n == maxCodings {
			r.Flaws |= FlawUnknownCoding
			return nil
		}
		list[n] = c
		n++
	}
	for n--; n >= 0; n-- {
		if more, e := x.decodeOne(list[n], n == 0); !more || e != nil {
			return e
		}
	}
	return nil
}

// decodeOne replaces resp.Body by its decoded form. It reports whether to continue with the next coding;
// last says that there is none.
func (x *exchange) decodeOne(c coding, last bool) (more bool, _ *Error) {
	r := x.resp
	src := r.Body
	if !looksLike(c, src) {
		r.Flaws |= FlawNotEncoded
		return true, nil
	}
	limit, mark := x.decodeLimit(len(r.PayloadRaw), last)
	dst, e, fault := x.decodeSome(c, src, limit+1)
	if e != nil {
		return false, e
	}
	if errors.Is(fault, errNotStarted) {
		r.buf.put(dst)
		r.Flaws |= FlawNotEncoded
		return true, nil
	}
	r.buf.put(r.buf.body)
	r.buf.body = dst
	if len(dst) > limit {
		dst = dst[:limit]
		r.Flaws |= mark
	} else if fault != nil {
		r.Flaws |= FlawDecodeError
	}
	r.Body = dst
	if r.Encoding != "" {
		r.Encoding = ", " + r.Encoding
	}
	r.Encoding = c.String() + r.Encoding
	return r.Flaws&(FlawDecodeError|FlawDecodedLimit|FlawRatioLimit) == 0, nil
}

// decodeSome decodes at most limit bytes of src into a new buffer; fault is the decoder's error. It never
// waits for memory while it holds a decoder, because other exchanges need that decoder to finish. If the
// buffer cannot grow, decodeSome releases the decoder, waits for the full limit and starts again.
func (x *exchange) decodeSome(c coding, src []byte, limit int) (dst []byte, _ *Error, fault error) {
	b := &x.resp.buf
	if x.resp.Encoding == "" {
		dst, b.body = b.body, nil // otherwise b.body holds src
	}
	if want := min(roundUp(firstRoom(c, src)), limit); cap(dst) < want {
		b.put(dst)
		dst = b.get(want)
	}
	if dst != nil {
		dst, fault = x.c.decodeInto(dst[:0], c, src, limit, b.grow)
		if fault != errMemory {
			return dst, nil, fault
		}
		b.put(dst)
	}
	dst, e := x.get(limit)
	if e == nil {
		dst, fault = x.c.decodeInto(dst, c, src, limit, b.grow)
	}
	return dst, e, fault
}

// firstRoom returns the size of the first buffer. The trailer of a gzip body states the decoded size, which
// avoids copies while the buffer grows. The size is capped, so a false claim in a body of 8 KiB cannot take
// 8 MiB: HTML shrinks four to ten times.
func firstRoom(c coding, src []byte) int {
	usual := 4 * len(src)
	if c != codingGzip {
		return usual
	}
	hint := inflate.SizeHint(src)
	if hint < len(src)/2 { // several members, or a false claim
		return usual
	}
	return min(hint, max(4*usual, keepBufferBytes))
}

// decodeLimit returns the largest decoded size allowed and the mark to set when it is exceeded. The output
// of a coding other than the last is bounded like a received body.
func (x *exchange) decodeLimit(received int, last bool) (int, Flaws) {
	limit, mark := x.lim.DecodedBytes, FlawDecodedLimit
	if !last {
		limit = min(limit, x.lim.BodyBytes)
	}
	if x.lim.Ratio > 0 {
		if l := max(received*x.lim.Ratio, RatioFloorBytes); l < limit {
			limit, mark = l, FlawRatioLimit
		}
	}
	return limit, mark
}

// looksLike reports whether p may be in coding c. Some servers label plain pages as gzip.
func looksLike(c coding, p []byte) bool {
	switch c {
	case codingGzip:
		return len(p) >= 2 && p[0] == 0x1f && p[1] == 0x8b
	case codingZstd: // a frame, or a skippable frame
		return len(p) >= 4 && p[1] == 0xb5 && p[2] == 0x2f && p[3] == 0xfd && p[0] == 0x28 ||
			len(p) >= 4 && p[0]&0xf0 == 0x50 && p[1] == 0x2a && p[2] == 0x4d && p[3] == 0x18
	}
	return true
}

// errNotStarted: a coding without a magic number decoded to nothing.
var errNotStarted = errors.New("nothing decoded")

// grower returns a buffer with more room, or nil; see responseBuffers.grow.
type grower func(p []byte, limit int) []byte

// decodeInto appends at most limit bytes decoded from src to dst, which grow enlarges. It returns errMemory
// if grow fails.
func (c *Client) decodeInto(dst []byte, code coding, src []byte, limit int, grow grower) ([]byte, error) {
	switch code {
	case codingGzip:
		return c.inflateInto(dst, inflate.Gzip, src, limit, grow)
	case codingDeflate:
		if isZlib(src) {
			src = src[2:] // skip the header; the checksum after the data is not verified
		}
		return notStarted(c.inflateInto(dst, inflate.Raw, src, limit, grow))
	}
	c.decoders.slots <- struct{}{}
	in := bytes.NewReader(src)
	defer func() {
		in.Reset(nil) // a pooled decoder must not retain the page
		<-c.decoders.slots
	}()
	if code == codingBrotli {
		d := c.decoders.brotli.Get().(*brotli.Reader)
		defer c.decoders.brotli.Put(d)
		if err := d.Reset(in); err != nil {
			return dst, err
		}
		return notStarted(drain(dst, d, limit, grow))
	}
	d := c.decoders.zstd.Get().(*zstd.Decoder)
	defer func() {
		d.Reset(nil)
		c.decoders.zstd.Put(d)
	}()
	if err := d.Reset(in); err != nil {
		return dst, err
	}
	return drain(dst, d, limit, grow)
}

// inflateInto is decodeInto for gzip, zlib and raw deflate. dst itself is the window.
func (c *Client) inflateInto(dst []byte, format inflate.Format, src []byte, limit int, grow grower) ([]byte, error) {
	d := c.decoders.inflate.Get().(*inflate.Decoder)
	d.Reset(format, src)
	defer func() {
		d.Reset(inflate.Raw, nil)
		c.decoders.inflate.Put(d)
	}()
	for {
		var err error
		dst, err = d.Decode(dst, limit)
		if err != inflate.ErrRoom {
			return dst, err
		}
		if len(dst) == limit {
			return dst, nil
		}
		grown := grow(dst, limit)
		if grown == nil {
			return dst, errMemory
		}
		dst = grown
	}
}

// isZlib reports whether p begins with a zlib header rather than a raw deflate stream.
func isZlib(p []byte) bool {
	return len(p) >= 2 && p[0]&0x0f == 8 && p[0]>>4 <= 7 && (int(p[0])<<8|int(p[1]))%31 == 0 && p[1]&0x20 == 0
}

func notStarted(dst []byte, err error) ([]byte, error) {
	if err != nil && err != errMemory && len(dst) == 0 {
		return dst, errNotStarted
	}
	return dst, err
}

// drain reads r to its end, which is not an error, or to limit bytes.
func drain(dst []byte, r io.Reader, limit int, grow grower) ([]byte, error) {
	for idle := 0; len(dst) < limit; {
		grown := grow(dst, limit)
		if grown == nil {
			return dst, errMemory
		}
		dst = grown
		n, err := r.Read(dst[len(dst):min(cap(dst), limit)])
		dst = dst[:len(dst)+n]
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
		if idle++; n > 0 {
			idle = 0
		}
		if idle > 100 {
			return dst, io.ErrNoProgress
		}
	}
	return dst, nil
}
