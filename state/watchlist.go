package state

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
)

// watchTag is the number of hexadecimal digits that stand for a URL in the identity of a watch list. With the '#'
// before them a blanked line has room for them: the shortest URL has 9 bytes.
const watchTag = 8

// watchPiece bounds what a WatchSum keeps of a line. A longer line counts in pieces.
const watchPiece = 128 << 10

// WatchSum is the checksum of a watch list (options.Order.Watch), which identifies it together with its size. Lines
// that BlankWatched has blanked do not change it. So a list keeps its position (Manifest.Watch) when an erasure blanks
// lines, whatever is interrupted, and when the same list is written again. It is an io.Writer of the list, and belongs
// to one goroutine.
type WatchSum struct {
	line []byte // without what follows
	sum  *xxhash.Digest
}

// NewWatchSum returns the checksum of an empty list.
func NewWatchSum() *WatchSum { return &WatchSum{sum: xxhash.New()} }

// WatchSumOf returns the checksum of a list.
func WatchSumOf(list io.Reader) (uint64, error) {
	s := NewWatchSum()
	if _, err := io.Copy(s, list); err != nil {
		return 0, fmt.Errorf("crawl: read watch list: %w", err)
	}
	return s.Sum(), nil
}

// Write adds what follows in the list. It returns no error.
func (s *WatchSum) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n') + 1
		if end == 0 {
			end = len(p)
		}
		end = min(end, watchPiece-len(s.line))
		s.line = append(s.line, p[:end]...)
		if p = p[end:]; len(s.line) == watchPiece || s.line[len(s.line)-1] == '\n' {
			s.endLine()
		}
	}
	return n, nil
}

func (s *WatchSum) endLine() {
	url, rest := CutWatched(s.line)
	tag := tagOf(url)
	if WatchedBlank(url) {
		tag = [watchTag]byte(url[1:])
	}
	_, _ = s.sum.Write(tag[:]) // a Digest returns no error
	_, _ = s.sum.Write(rest)
	s.line = s.line[:0]
}

// Sum returns the checksum of what was written. The list ends there.
func (s *WatchSum) Sum() uint64 {
	if len(s.line) > 0 {
		s.endLine()
	}
	return s.sum.Sum64()
}

// CutWatched divides a line of a watch list into the URL and what follows: the deadline and the end of the line.
func CutWatched(line []byte) (url, rest []byte) {
	if at := bytes.IndexAny(line, " \r\n"); at >= 0 {
		return line[:at], line[at:]
	}
	return line, nil
}

// tagOf returns the digits that stand for a URL.
func tagOf(url []byte) (tag [watchTag]byte) {
	hex.Encode(tag[:], binary.BigEndian.AppendUint64(nil, xxhash.Sum64(url))[:watchTag/2])
	return tag
}

// BlankWatched replaces the URL of a line of a watch list, in place: its length stays. url has 9 bytes or more.
func BlankWatched(url []byte) {
	tag := tagOf(url)
	for i := range url {
		url[i] = '#'
	}
	copy(url[1:], tag[:])
}

// WatchedBlank reports whether the URL of a line is one that BlankWatched has replaced.
func WatchedBlank(url []byte) bool { return len(url) > watchTag && url[0] == '#' }
