package fetch

import (
	"io"
	"slices"
	"time"
)

// Spill holds a body that is too large for RAM, in a file for instance. One goroutine at a time uses it.
type Spill interface {
	io.Writer
	io.ReaderAt
	// Release frees the spool, which is not used afterwards.
	Release()
}

const (
	// SpoolBegin is how much of a spooled body RAM keeps, in bytes: enough to find its type, its charset and
	// the links of most pages.
	SpoolBegin = 256 << 10
	// spoolWindow is the size of the writes to a spool, in bytes.
	spoolWindow = 256 << 10
	// SpoolStep bytes of a spooled body must arrive within SpoolStepTime, else the body is cut off with
	// TruncatedTime. That is a mean rate of 17 KiB/s.
	SpoolStep     = 1 << 20
	SpoolStepTime = time.Minute
)

// RawBytes returns the length of the reply as received from the status line on.
func (r *Response) RawBytes() int64 {
	if r.Spill != nil {
		return int64(len(r.RawHead)) + r.SpoolBytes
	}
	return int64(len(r.Raw))
}

func (r *Response) dropSpool() {
	if r.Spill != nil {
		r.Spill.Release()
		r.Spill, r.SpoolBytes = nil, 0
	}
}

// spoolBody moves the body received so far to a spool, except for its beginning, and reads the rest into it,
// up to most bytes.
func (x *exchange) spoolBody(body *bodyReader, most int) *Error {
	b, r := &x.resp.buf, x.resp
	length := int64(-1)
	if !x.f.chunked && x.f.length >= 0 {
		length = min(x.f.length, int64(most))
	}
	opened := time.Now()
	spool, err := x.req.Spool(length)
	x.conn.pause(time.Since(opened))
	if err != nil {
		return &Error{Stage: StageBody, Kind: KindResources, Err: err}
	}
	r.Spill = spool
	body.limit, body.past, r.Truncated = most, len(b.raw)-x.head, NotTruncated
	if e := x.spoolWrite(b.raw[x.head:]); e != nil {
		return e
	}
	begin := slices.Clone(b.raw[:x.head+min(body.past, SpoolBegin)])
	b.put(b.raw)
	b.raw = nil
	raw, e := x.get(len(begin) + spoolWindow)
	if e != nil {
		return e
	}
	b.raw = append(raw, begin...)
	return x.spoolRest(body, b.raw[len(begin):len(begin)+spoolWindow], most)
}

// spoolRest reads the rest of a body through a window.
func (x *exchange) spoolRest(body *bodyReader, window []byte, most int) *Error {
	n, step := 0, body.past // bytes in the window; bytes up to the end of the step
	for {
		done := body.take(window[:n])
		if done || n == len(window) {
			if e := x.flushWindow(body, window[:n], most); e != nil || done {
				return e
			}
			n = 0
		}
		if body.past+n >= step {
			step = body.past + n + SpoolStep
			x.conn.extend(time.Now().Add(SpoolStepTime))
		}
		if body.lingering() {
			x.conn.arm(lastChunkWait)
		}
		m, err := x.read(window[n:])
		if n += m; err == nil {
			continue
		}
		if e := x.bodyEnded(body, err); e != nil {
			return e
		}
		return x.flushWindow(body, window[:n], most)
	}
}

// flushWindow writes the window as far as it belongs to the body.
func (x *exchange) flushWindow(body *bodyReader, window []byte, most int) *Error {
	n := body.past + len(window)
	x.keep = x.keepFor(body.known && body.whole == n)
	e := x.spoolWrite(window[:min(body.end(n), most)-body.past])
	body.past = n
	return e
}

// spoolWrite writes to the spool. Meanwhile the time limits are suspended.
func (x *exchange) spoolWrite(p []byte) *Error {
	began := time.Now()
	_, err := x.resp.Spill.Write(p)
	x.conn.pause(time.Since(began))
	if err != nil {
		return &Error{Stage: StageBody, Kind: KindResources, Err: err}
	}
	x.resp.SpoolBytes += int64(len(p))
	return nil
}
