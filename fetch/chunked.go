package fetch

import "bytes"

// chunker follows chunked framing over bytes as they come. The zero value stands before the first
// chunk. Lines may end in LF alone; extensions are skipped; blanks around the size are tolerated.
type chunker struct {
	state   chunkState
	left    uint64 // bytes of the current chunk still to come
	line    int    // bytes of the current line seen
	digits  bool   // a digit of the size has been seen
	skip    bool   // behind the size: the rest of the line doesn't matter
	started bool   // at least one whole size line was read
	trailer int    // bytes of trailers seen
	limit   int    // of trailers; 0: maxHeaderBytes
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

// ended tells whether the payload is whole: the last chunk has been seen.
func (c *chunker) ended() bool { return c.state == chunkTrailer || c.state == chunkDone }

// next takes bytes from p and returns how many, and the payload among them. It takes none only when p is
// empty or the state is chunkDone or chunkBad.
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

// sizeByte takes one byte of a size line.
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

// dataEndByte takes one byte of the line end behind a chunk's data.
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

// trailerLine takes bytes up to the end of a line, and ends at an empty line.
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
