package storedweb

import (
	"bytes"
	"strconv"
)

// head is the head of a stored response. Its slices end with CRLF, except line.
type head struct {
	line    []byte // the status line
	status  int
	fields  []byte // without those of the framing
	framing []byte // Content-Length and Transfer-Encoding
	length  int64  // of the Content-Length fields
	chunked bool
	close   bool // the server ended the connection
}

// Special values of head.length.
const (
	lengthNone = -1
	lengthBad  = -2 // invalid, or several that differ
)

// headEnd returns the length of the head at the beginning of a block, with its empty line; the block's length
// if it has none.
func headEnd(block []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(block[at:], '\n')
		if i < 0 {
			return len(block)
		}
		at += i + 1
		switch rest := block[at:]; {
		case bytes.HasPrefix(rest, []byte("\r\n")):
			return at + 2
		case bytes.HasPrefix(rest, []byte("\n")):
			return at + 1
		}
	}
}

// parseHead reads a head. Field lines stay as stored; only their line ends become CRLF.
func parseHead(text []byte) *head {
	h := &head{length: lengthNone}
	first := true
	framed := false // the field whose lines are read is of the framing
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\r\n")
		if first {
			first = false
			h.line = line
			version, rest, _ := bytes.Cut(line, []byte(" "))
			h.close = !bytes.Equal(version, []byte("HTTP/1.1"))
			if len(rest) >= 3 {
				h.status, _ = strconv.Atoi(string(rest[:3])) // 0 if it is none
			}
			continue
		}
		if len(line) == 0 {
			break
		}
		if line[0] != ' ' && line[0] != '\t' { // otherwise it continues the field before it
			framed = h.field(line)
		}
		if framed {
			h.framing = append(append(h.framing, line...), "\r\n"...)
		} else {
			h.fields = append(append(h.fields, line...), "\r\n"...)
		}
	}
	return h
}

// field reads a field of the framing. It reports whether it is one.
func (h *head) field(line []byte) (framing bool) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	name, value = bytes.TrimSpace(name), bytes.TrimSpace(value)
	switch {
	case bytes.EqualFold(name, []byte("Content-Length")):
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || n < 0 || h.length != lengthNone && h.length != n {
			n = lengthBad
		}
		h.length = n
		return true
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		h.chunked = true
		return true
	case bytes.EqualFold(name, []byte("Connection")):
		h.close = h.close || bytes.Contains(bytes.ToLower(value), []byte("close"))
	}
	return false
}
