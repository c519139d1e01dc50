package fetch

import "bytes"

// chunker parses chunked framing (RFC 9112, 7.1) incrementally. The zero value expects the first chunk. It
// accepts lines that end in LF alone and blanks around the size, and skips extensions.
type chunker struct {
	state   chunkState
	left    uint64 // bytes of the current chunk still to come
	line    int    // bytes of the current line read so far
	digits  bool   // the size has at least one digit
	skip    bool   // the size is complete; skip the rest of the line
	started bool   // at least one size line was complete
	trailer int    // bytes of trailers read so far
	limit   int    // of trailers, in bytes; 0: maxHeaderBytes
}

type chunkState uint8

const (
	chunkSize chunkState = iota
	chunkData
	chunkDataEnd
	chunkTrailer
	chunkDone
	chunkBad
)

// ended reports whether the payload is complete: the last chunk has been read.
func (c *chunker) ended() bool { return c.state == chunkTrailer || c.state == chunkDone }

// next consumes bytes of p and returns their number and the payload among them. It returns n = 0 only if p
// is empty or the state is chunkDone or chunkBad.
func (c *chunker) next(p []byte) (n int, data []byte) {
	for n < len(p) {
		switch c.state {
		case chunkData:
			d := p[n:]
			if uint64(len(d)) > c.left {
				d = d[:c.left]
			}
			n += len(d)
			if c.left -= uint64(len(d)); c.left == 0 {
				c.state, c.line = chunkDataEnd, 0
			}
			return n, d
		case chunkSize:
			n++
			c.sizeByte(p[n-1])
		case chunkDataEnd:
			n++
			c.dataEndByte(p[n-1])
		case chunkTrailer:
			n += c.trailerLine(p[n:])
		default:
			return n, nil
		}
	}
	return n, nil
}

// sizeByte consumes one byte of a size line.
func (c *chunker) sizeByte(b byte) {
	if c.line++; c.line > maxChunkLine {
		c.state = chunkBad
		return
	}
	switch {
	case b == '\n':
		c.endSize()
	case c.skip:
	case hexValue(b) >= 0:
		if c.left >= 1<<56 {
			c.state = chunkBad
			return
		}
		c.left, c.digits = c.left<<4|uint64(hexValue(b)), true
	case b == ' ' || b == '\t' || b == '\r':
		c.skip = c.digits
	case b == ';' && c.digits:
		c.skip = true
	default:
		c.state = chunkBad
	}
}

func (c *chunker) endSize() {
	if !c.digits {
		c.state = chunkBad
		return
	}
	c.started, c.digits, c.skip, c.line = true, false, false, 0
	if c.state = chunkData; c.left == 0 {
		c.state = chunkTrailer
	}
}

// dataEndByte consumes one byte of the line end after a chunk's data.
func (c *chunker) dataEndByte(b byte) {
	c.line++
	switch {
	case b == '\n':
		c.state, c.line = chunkSize, 0
	case b == '\r' && c.line == 1:
	default:
		c.state = chunkBad
	}
}

// trailerLine consumes bytes up to the end of a line. An empty line ends the body.
func (c *chunker) trailerLine(p []byte) int {
	limit := c.limit
	if limit == 0 {
		limit = maxHeaderBytes
	}
	n := bytes.IndexByte(p, '\n') + 1
	whole := n > 0
	if !whole {
		n = len(p)
	}
	text := n
	for text > 0 && (p[text-1] == '\n' || p[text-1] == '\r') {
		text--
	}
	c.line += text
	if c.trailer += n; c.trailer > limit {
		c.state = chunkBad
		return n
	}
	if whole {
		if c.line == 0 {
			c.state = chunkDone
		}
		c.line = 0
	}
	return n
}

func hexValue(b byte) int {
	switch {
	case b >= '0' && b <= '9':
		return int(b - '0')
	case b >= 'a' && b <= 'f':
		return int(b-'a') + 10
	case b >= 'A' && b <= 'F':
		return int(b-'A') + 10
	}
	return -1
}
