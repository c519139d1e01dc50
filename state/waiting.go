package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"drumbeat/drum"
	"drumbeat/internal/revisit"
	"drumbeat/weburl"
)

// Waiting is a fetched page whose body may be known. The store of contents returns it with the verdict
// (docs/reference/files/content.md).
type Waiting struct {
	// Record is the URL's record.
	Record []byte
	// Size is the length of the decoded body.
	Size uint64
	// Form is that of Capture, as warc.Writer.Form returns it.
	Form uint64
	// Capture are the records for the WARC file, a warc.Prepared; empty if pages are not stored.
	Capture []byte
	// Log is the line of the crawl log without the position of the capture; empty for none.
	Log []byte
	// Links are the links that are followed only if the body is new; empty for none.
	Links []byte
	// Near is, for a page that is compared with the texts of its host, its NearEntry and the distance to the page that
	// it repeats, in one byte. Own is the value of its body, which is compared later. Both are empty for others.
	Near, Own []byte
}

// waitingNear is the version with Near and Own.
const (
	waitingVersion = 1
	waitingNear    = 2
)

// contentHead is the size of a value in the store of contents without its URL: digest and time.
const contentHead = 20 + 4

const (
	// MaxContentURL is the length in bytes of the longest URL in the store of contents.
	MaxContentURL = 512
	// MaxContentValue is the length in bytes of the longest value in the store of contents: a list of near-duplicates
	// with 1,137 entries. A tuple of this size fits into the smallest round, of 64 KiB, and a merge reserves five times
	// this number of bytes of RAM.
	MaxContentValue = 60 << 10
)

var errWaiting = errors.New("crawl: damaged record of a page that waits in the store of contents")

// Append appends the encoding of w.
func (w *Waiting) Append(dst []byte) []byte {
	parts := [...][]byte{w.Record, w.Capture, w.Log, w.Links, w.Near, w.Own}
	version, used := byte(waitingVersion), parts[:4]
	if len(w.Near) > 0 {
		version, used = waitingNear, parts[:]
	}
	dst = append(dst, version)
	dst = binary.AppendUvarint(dst, w.Size)
	dst = binary.AppendUvarint(dst, w.Form)
	for _, part := range used {
		dst = binary.AppendUvarint(dst, uint64(len(part)))
		dst = append(dst, part...)
	}
	return dst
}

// Decode decodes what Append wrote. The parts of w share the memory of b.
func (w *Waiting) Decode(b []byte) error {
	if len(b) == 0 || b[0] != waitingVersion && b[0] != waitingNear {
		return errWaiting
	}
	near := b[0] == waitingNear
	*w, b = Waiting{}, b[1:]
	for _, number := range [...]*uint64{&w.Size, &w.Form} {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return errWaiting
		}
		*number, b = v, b[n:]
	}
	parts := [...]*[]byte{&w.Record, &w.Capture, &w.Log, &w.Links, &w.Near, &w.Own}
	used := parts[:4]
	if near {
		used = parts[:]
	}
	for _, part := range used {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return errWaiting
		}
		*part, b = b[n:n+int(size):n+int(size)], b[n+int(size):]
	}
	if len(b) > 0 || near && (len(w.Near) != NearEntryBytes+1 || len(w.Own) == 0) {
		return errWaiting
	}
	return nil
}

// AppendTuples appends keys and texts of tuples: their number, then key, length and text of each.
func AppendTuples(dst []byte, ts []drum.Tuple, text func(*drum.Tuple) []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ts)))
	for i := range ts {
		t := text(&ts[i])
		dst = binary.LittleEndian.AppendUint64(dst, uint64(ts[i].Key))
		dst = binary.AppendUvarint(dst, uint64(len(t)))
		dst = append(dst, t...)
	}
	return dst
}

// EachTuple calls fn for the tuples of AppendTuples and returns what follows them.
func EachTuple(b []byte, fn func(key drum.Key, text []byte)) ([]byte, error) {
	count, n := binary.Uvarint(b)
	if n <= 0 || count > uint64(len(b)) {
		return nil, errWaiting
	}
	for b = b[n:]; count > 0; count-- {
		if len(b) < 9 {
			return nil, errWaiting
		}
		key := binary.LittleEndian.Uint64(b)
		size, n := binary.Uvarint(b[8:])
		if n <= 0 || size > uint64(len(b)-8-n) {
			return nil, errWaiting
		}
		b = b[8+n:]
		fn(drum.Key(key), b[:size:size])
		b = b[size:]
	}
	return b, nil
}

// Due returns when a URL is due that the calendar of deferred URLs returns at a time, in Unix ms. A page that waits for
// its next visit (ReasonRevisit) may return earlier, to wait for the rest of the time.
func Due(rec *weburl.Record, returns int64) time.Time {
	at := time.UnixMilli(returns).UTC()
	if Reason(rec.Reason) != ReasonRevisit {
		return at
	}
	h, err := HistoryOf(rec)
	if err != nil { // an audit reports it
		return at
	}
	if due := h.Due().UTC(); due.After(at) {
		return due
	}
	return at
}

// HistoryOf returns the results of earlier visits to a URL; the zero value for a new one. The error names the
// URL.
func HistoryOf(rec *weburl.Record) (h revisit.History, err error) {
	if err = h.Decode(rec.Visits); err != nil {
		err = fmt.Errorf("crawl: record of %s: %w", rec.URL, err)
	}
	return h, err
}

// Visited reports whether a URL waits to be visited again.
func Visited(rec *weburl.Record) bool { return revisit.Visited(rec.Visits) }
