package fetch

import (
	"errors"
	"io"
	"math/bits"
	"time"

	"drumbeat/fetch/h2"
	"drumbeat/internal/httphead"
)

// more reads into buf.raw, which grows to at most limit bytes. It returns a read error only if the read
// returned no bytes.
func (x *exchange) more(limit int) error {
	b := &x.resp.buf
	if cap(b.raw) == 0 {
		if err := x.firstBuffer(limit); err != nil {
			return err
		}
	}
	raw, e := x.grow(b.raw, limit)
	if e != nil {
		return e
	}
	b.raw = raw
	n, err := x.read(b.raw[len(b.raw):min(cap(b.raw), limit)])
	b.raw = b.raw[:len(b.raw)+n]
	return err
}

// read reads into p. It returns an error only if no bytes arrived.
func (x *exchange) read(p []byte) (int, error) {
	for range maxEmptyReads {
		n, err := x.conn.stream.Read(p)
		x.resp.BytesRead += int64(n)
		if n > 0 {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}

// firstBuffer allocates the first buffer of a reply, large enough for the bytes that have already arrived
// but within the exchange's free allowance. A TLS connection buffers records itself, so its first buffer is
// small.
func (x *exchange) firstBuffer(limit int) error {
	n, err := x.conn.readable()
	if err != nil {
		return err
	}
	size := max(firstBufferBytes, min(roundUp(n+1), FreeBufferBytes))
	if x.conn.tls.version != 0 {
		size = firstTLSBytes
	}
	// The buffer is nil if no memory is free; more then waits for it.
	x.resp.buf.raw = x.resp.buf.get(min(size, limit))
	return nil
}

// readHead reads up to the end of the final reply's head. It drops interim replies and leading blank lines
// from buf.raw.
func (x *exchange) readHead() *Error {
	b := &x.resp.buf
	b.raw = b.raw[:0]
	sent, slept := time.Now(), x.throttle.slept
	limit := x.lim.HeaderBytes + 1
	for scanned, interim, blank := 0, 0, 0; ; {
		err := x.more(limit)
		if x.resp.FirstByte == 0 && len(b.raw) > 0 {
			now := time.Now()
			x.resp.FirstByte = now.Sub(sent) - (x.throttle.slept - slept)
			x.conn.began(now, len(b.raw))
		}
		if err != nil {
			return x.headEnded(err)
		}
		for {
			if scanned < len(httpPrefix) { // the prefix has not been checked in full yet
				n := blankPrefix(b.raw)
				if blank += n; n > 0 {
					b.raw = append(b.raw[:0], b.raw[n:]...)
				}
				if blank > maxBlank || !isHTTPPrefix(b.raw) {
					return &Error{Stage: StageHead, Kind: KindBadHead, Err: errHead}
				}
			}
			var end int
			end, scanned = httphead.End(b.raw, scanned)
			if end > x.lim.HeaderBytes || end == 0 && len(b.raw) > x.lim.HeaderBytes {
				return &Error{Stage: StageHead, Kind: KindHeadTooLarge, Err: errHeadLarge}
			}
			if end == 0 {
				break
			}
			if e := x.takeHead(end); e != nil || x.f.status >= 200 {
				return e
			}
			if interim++; interim > maxInterim {
				return &Error{Stage: StageHead, Kind: KindHeadTooLarge, Err: errInterim}
			}
			x.resp.Flaws |= FlawInterim
			b.raw, scanned = append(b.raw[:0], b.raw[end:]...), 0
			if len(b.raw) == 0 {
				break
			}
		}
	}
}

// takeHead parses the head buf.raw[:end].
func (x *exchange) takeHead(end int) *Error {
	switch err := readHead(x.resp.buf.raw[:end], x.resp, &x.f); {
	case err == errHeadLines:
		return &Error{Stage: StageHead, Kind: KindHeadTooLarge, Err: err}
	case err != nil:
		return &Error{Stage: StageHead, Kind: KindBadHead, Err: err}
	case x.f.status == 101:
		return &Error{Stage: StageHead, Kind: KindBadHead, Err: errUpgrade}
	}
	if x.conn.h2 != nil {
		x.tookHTTP2()
	}
	x.head = end
	return nil
}

// headEnded handles a connection that closed, or a time limit that expired, before the head was complete.
func (x *exchange) headEnded(err error) *Error {
	raw := x.resp.buf.raw
	stage := StageHead
	if x.resp.FirstByte == 0 {
		stage = StageFirstByte
	}
	if e := x.canceled(stage); e != nil {
		return e
	}
	if e, ok := err.(*Error); ok {
		return e
	}
	if isHTTP2(err) {
		stage = StageHead
	}
	if len(raw) == 0 {
		e := x.fault(stage, err)
		if e.Kind == KindEmptyReply {
			e.Err = errEmpty
		}
		return e
	}
	if isTimeout(err) {
		return &Error{Stage: stage, Kind: KindTimeout, Err: err}
	}
	if e := x.takeHead(len(raw)); e != nil || x.f.status < 200 {
		return &Error{Stage: StageHead, Kind: KindBadHead, Err: errHead}
	}
	x.resp.Flaws |= FlawHeadCut
	x.resp.Truncated = TruncatedDisconnect
	x.f.none = true
	return nil
}

// readBody reads the body to its end or to a limit and sets the slices of the response.
func (x *exchange) readBody() *Error {
	b, r := &x.resp.buf, x.resp
	most, look := x.bodyLimit() // limit is the part of most for RAM
	limit := min(most, x.lim.HeldBytes)
	body := bodyReader{f: &x.f, resp: r, stream: x.conn.h2, limit: limit, refused: limit == 0}
	for {
		if body.take(b.raw[x.head:]) {
			if look && r.Truncated == TruncatedLength {
				look = false
				most = x.lookedAt(b.raw[x.head:], limit)
				if n := min(most, x.lim.HeldBytes); n > limit {
					limit, body.limit, r.Truncated = n, n, NotTruncated
					continue
				}
			}
			break
		}
		if body.lingering() {
			x.conn.arm(lastChunkWait)
		}
		if err := x.more(x.head + limit + 1); err != nil {
			if e := x.bodyEnded(&body, err); e != nil {
				return e
			}
			break
		}
	}
	if r.Truncated == TruncatedLength && most > limit && x.req.Spool != nil {
		if e := x.spoolBody(&body, most); e != nil {
			return e
		}
		return x.cutBody(len(b.raw))
	}
	x.keep = x.keepFor(body.known && x.head+body.whole == len(b.raw))
	return x.cutBody(x.head + min(body.end(len(b.raw)-x.head), limit))
}

// bodyEnded handles an error that ended the body.
func (x *exchange) bodyEnded(body *bodyReader, err error) *Error {
	if e := x.canceled(StageBody); e != nil {
		return e
	}
	if e, ok := err.(*Error); ok {
		return e
	}
	body.ended(err)
	if x.resp.Truncated == TruncatedTime && time.Since(x.conn.last) < slowSilence {
		x.resp.Flaws |= FlawSlow
	}
	return nil
}

// cutBody sets the slices of the response to the first n bytes of buf.raw.
func (x *exchange) cutBody(n int) *Error {
	b, r := &x.resp.buf, x.resp
	b.raw = b.raw[:n]
	r.Raw, r.RawHead, r.RawBody = b.raw, b.raw[:x.head], b.raw[x.head:]
	r.PayloadRaw = r.RawBody
	if x.f.chunked {
		if n := payloadSize(r.RawBody); n > cap(b.payload) {
			b.put(b.payload)
			b.payload = nil
			p, e := x.get(min(roundUp(n), len(r.RawBody)))
			if e != nil {
				return e
			}
			b.payload = p
		}
		b.payload = dechunk(b.payload[:0], r.RawBody)
		r.PayloadRaw = b.payload
	}
	return nil
}

// bodyLimit calls Request.BodyLimit with the head. It returns the number of bytes to read, 0 for none, and
// whether to ask again once these have arrived. It narrows the limits of the exchange.
func (x *exchange) bodyLimit() (limit int, look bool) {
	limit = x.lim.BodyBytes
	if x.req.BodyLimit == nil || x.f.none {
		return limit, false
	}
	x.resp.RawHead = x.resp.buf.raw[:x.head]
	switch n := x.req.BodyLimit(x.resp, nil); {
	case n == NoBody:
		return 0, false
	case n == LookFirst:
		return min(LookBytes, limit), true
	case n > 0:
		return x.narrow(n), false
	}
	return limit, false
}

// lookedAt calls Request.BodyLimit again with the beginning of the body and returns the new limit.
func (x *exchange) lookedAt(begin []byte, limit int) int {
	begin = begin[:min(len(begin), limit)]
	if x.f.chunked {
		begin = dechunk(nil, begin)
	}
	switch n := x.req.BodyLimit(x.resp, begin); {
	case n == NoBody:
		x.resp.Flaws |= FlawBodyRefused
		return 0
	case n > 0:
		return x.narrow(n)
	}
	return x.lim.BodyBytes
}

// narrow limits the body to n bytes, and the decoded size in proportion to what RAM holds. It returns the
// new body limit.
func (x *exchange) narrow(n int64) int {
	if n >= int64(x.lim.BodyBytes) {
		return x.lim.BodyBytes
	}
	x.own = *x.lim
	x.own.BodyBytes, x.own.HeldBytes = int(n), min(int(n), x.lim.HeldBytes)
	share := float64(x.own.HeldBytes) / float64(x.lim.HeldBytes)
	x.own.DecodedBytes = max(min(x.lim.DecodedBytes, RatioFloorBytes), int(share*float64(x.lim.DecodedBytes)))
	x.lim = &x.own
	return int(n)
}

// bodyReader tracks the framing of one body through the bytes received.
type bodyReader struct {
	f    *framing
	resp *Response
	// stream tells where a body by HTTP/2 ends; nil for HTTP/1.
	stream *h2.Conn
	limit  int
	// refused: the body is not wanted at all; limit is 0.
	refused bool
	ch      chunker
	past    int // bytes of the body before those that take receives
	seen    int // bytes that ch has consumed
	whole   int // length of the body; valid once known is set
	known   bool
	open    bool // all of a body by HTTP/2 is there but the end of its stream
	timed   bool // lingering has returned true
}

// take examines the body received so far, which ends with p, and reports whether it is complete or cut off
// by a limit.
func (b *bodyReader) take(p []byte) bool {
	n := b.past + len(p)
	switch {
	case b.f.none:
		b.whole, b.known = 0, true
	case b.refused && (b.f.chunked || b.f.length != 0):
		b.resp.Truncated = TruncatedLength
		b.resp.Flaws |= FlawBodyRefused
		return true
	case b.f.chunked:
		b.takeChunked(p)
	case b.f.length >= 0:
		b.whole, b.known = int(min(b.f.length, 1<<40)), int64(n) >= b.f.length
		b.open = b.stream != nil && int64(n) == b.f.length && !b.stream.Ended()
		b.known = b.known && !b.open
	case b.stream != nil:
		b.whole, b.known = n, b.stream.Ended()
	default:
		b.resp.Flaws |= FlawCloseDelimited
	}
	if b.known && b.whole <= b.limit {
		if n > b.whole && !b.f.none {
			b.resp.Flaws |= FlawExcess
		}
		return true
	}
	if n > b.limit || n == b.limit && b.f.length > int64(b.limit) {
		b.resp.Truncated = TruncatedLength
		return true
	}
	return b.known
}

func (b *bodyReader) takeChunked(p []byte) {
	for b.seen < b.past+len(p) && b.ch.state != chunkDone && b.ch.state != chunkBad {
		n, _ := b.ch.next(p[b.seen-b.past:])
		b.seen += n
	}
	switch {
	case b.ch.state == chunkDone:
		b.whole, b.known = b.seen, true
	case b.ch.state != chunkBad:
	default:
		b.resp.Flaws |= FlawBadChunk
		if !b.ch.started {
			b.resp.Flaws |= FlawNotChunked
		}
		if b.ch.trailer == 0 {
			b.resp.Truncated = TruncatedUnspecified
		}
		b.whole, b.known = b.past+len(p), true
	}
}

// lingering reports, once, that the payload is there and only its end is missing: the empty line after the
// last chunk, or the end of a stream.
func (b *bodyReader) lingering() bool {
	if b.timed || b.ch.state != chunkTrailer && !b.open {
		return false
	}
	b.timed = true
	return true
}

// ended records why the body ended when the connection closed or a time limit expired.
func (b *bodyReader) ended(err error) {
	closed := errors.Is(err, io.EOF)
	switch {
	case b.stream != nil && closed && (b.open || b.f.length < 0):
		b.known = true // the stream ended with an empty frame
	case b.f.chunked && b.ch.ended(), b.open:
	case isTimeout(err):
		b.resp.Truncated = TruncatedTime
	case closed && b.resp.Flaws&FlawCloseDelimited != 0:
	case isMalformed(err):
		b.resp.Truncated = TruncatedUnspecified
	default:
		b.resp.Truncated = TruncatedDisconnect
	}
}

// end returns how many of the n bytes received belong to the body.
func (b *bodyReader) end(n int) int {
	if b.known {
		return min(n, b.whole)
	}
	return n
}

// payloadSize returns the length of a chunked body's payload, up to the first framing error.
func payloadSize(raw []byte) (total int) {
	var ch chunker
	for len(raw) > 0 {
		n, data := ch.next(raw)
		if total += len(data); n == 0 {
			break
		}
		raw = raw[n:]
	}
	return total
}

// dechunk appends the payload of a chunked body to dst, up to the first framing error.
func dechunk(dst, raw []byte) []byte {
	var ch chunker
	for len(raw) > 0 {
		n, data := ch.next(raw)
		if dst = append(dst, data...); n == 0 {
			break
		}
		raw = raw[n:]
	}
	return dst
}

// roundUp returns the smallest power of two that is at least n. The pool can reuse buffers of such sizes.
func roundUp(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }
