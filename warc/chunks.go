package warc

import (
	"bufio"
	"bytes"
	"encoding/base32"
	"errors"
	"io"
	"strconv"
)

// digestPayload computes the digest of the body without chunked framing, unless the caller knows it. A body with
// invalid framing counts as it is.
func (e *Encoder) digestPayload(x *Exchange) {
	if x.Digest != nil {
		base32.StdEncoding.Encode(e.payload[:], x.Digest[:])
		return
	}
	e.sha.Reset()
	if !x.Chunked || !eachChunk(x.Body, func(p []byte) { e.sha.Write(p) }) {
		e.sha.Reset()
		e.sha.Write(x.Body)
	}
	e.appendDigest(e.payload[:0])
}

// eachChunk calls fn with the content of each chunk of a body, which may be cut off. It reports whether the
// framing is valid as far as it goes.
func eachChunk(body []byte, fn func([]byte)) bool {
	for len(body) > 0 {
		n := bytes.IndexByte(body, '\n')
		if n < 0 {
			return len(body) < maxChunkLine // cut off within a size line
		}
		size, err := chunkBytes(body[:n])
		if err != nil || n >= maxChunkLine {
			return false
		}
		body = body[n+1:]
		if size == 0 {
			return true
		}
		if size > int64(len(body)) {
			fn(body)
			return true
		}
		fn(body[:size])
		body = body[size:]
		if bytes.HasPrefix(body, []byte("\r\n")) {
			body = body[2:]
		} else if bytes.HasPrefix(body, []byte("\n")) {
			body = body[1:]
		} else if len(body) > 1 {
			return false
		}
	}
	return true
}

// chunkBytes parses a size line of chunked framing, without its LF.
func chunkBytes(line []byte) (int64, error) {
	line, _, _ = bytes.Cut(bytes.TrimRight(line, "\r"), []byte{';'})
	n, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 63)
	return int64(n), err
}

// maxChunkLine bounds a size line of valid framing, in bytes. Package fetch ends a body at 4 KiB.
const maxChunkLine = 64 << 10

// copyChunks is eachChunk for a body that is read from r, whose content it writes to w.
func copyChunks(w io.Writer, body io.Reader) (valid bool, _ error) {
	r := bufio.NewReaderSize(body, maxChunkLine)
	for {
		line, err := r.ReadSlice('\n')
		switch {
		case err == io.EOF:
			return true, nil // cut off within a size line
		case errors.Is(err, bufio.ErrBufferFull):
			return false, nil
		case err != nil:
			return false, err
		}
		size, err := chunkBytes(line[:len(line)-1])
		if err != nil {
			return false, nil
		}
		if size == 0 {
			return true, nil
		}
		for size > 0 {
			piece, err := r.Peek(int(min(size, maxChunkLine)))
			if _, err := w.Write(piece); err != nil {
				return false, err
			}
			r.Discard(len(piece))
			if size -= int64(len(piece)); err == io.EOF {
				return true, nil
			} else if err != nil {
				return false, err
			}
		}
		next, err := r.Peek(2)
		switch {
		case bytes.HasPrefix(next, []byte("\r\n")):
			r.Discard(2)
		case bytes.HasPrefix(next, []byte("\n")):
			r.Discard(1)
		case err != nil && err != io.EOF:
			return false, err
		case len(next) > 1:
			return false, nil
		}
	}
}
