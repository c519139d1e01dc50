package revisit

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// History is what visits to a page found. The zero value is that of a page that was not visited.
type History struct {
	Last     int64  // Unix seconds of the last response; 0: none
	Interval uint32 // seconds from Last to the time at which the next visit was due
	Visits   uint32 // after the first: n
	Changes  uint32 // visits that found a change: X
	Watched  int64  // seconds between the first visit and the last: T
	Body     uint64 // key of the last body; 0: none
	// Captured is when the last body was received, in Unix seconds, if a response record of this URL has it; else 0.
	// Records of later visits that find it unchanged refer to that one.
	Captured int64
	Missing  uint8 // the last visits that found no page
	// ETag and Modified are the validators of the last body (RFC 9110, 8.8); "" for none.
	ETag, Modified string
}

// Longer validators are not kept, so the request is not conditional.
const (
	maxETag     = 128
	maxModified = 40 // an HTTP date has 29 bytes
	// MaxBytes bounds the length of a coding.
	MaxBytes = 1 + 3*5 + 3*10 + 8 + 1 + 2*2 + maxETag + maxModified
)

// ErrHistory is the error of bytes that are no History.
var ErrHistory = errors.New("revisit: damaged history of a page")

// historyVersion is the first byte of a coding:
//
//	1     version, 1
//	1-10  Last, uvarint
//	1-5   Interval, uvarint
//	1-5   Visits, uvarint
//	1-5   Changes, uvarint
//	1-10  Watched, uvarint
//	8     Body, little-endian
//	1-10  Captured, uvarint
//	1     Missing
//	1-2   length of ETag, uvarint, and its bytes
//	1     length of Modified, uvarint, and its bytes
const historyVersion = 1

// Due returns when the next visit is due.
func (h *History) Due() time.Time {
	return time.Unix(h.Last, 0).Add(time.Duration(h.Interval) * time.Second)
}

// Validators returns the validators for a conditional request; "" for none. Without a record that has the body, an answer
// without one would have nothing to refer to.
func (h *History) Validators() (etag, modified string) {
	if h.Captured == 0 {
		return "", ""
	}
	return h.ETag, h.Modified
}

// Append appends the coding of h.
func (h *History) Append(dst []byte) []byte {
	dst = append(dst, historyVersion)
	dst = binary.AppendUvarint(dst, uint64(h.Last))
	dst = binary.AppendUvarint(dst, uint64(h.Interval))
	dst = binary.AppendUvarint(dst, uint64(h.Visits))
	dst = binary.AppendUvarint(dst, uint64(h.Changes))
	dst = binary.AppendUvarint(dst, uint64(h.Watched))
	dst = binary.LittleEndian.AppendUint64(dst, h.Body)
	dst = binary.AppendUvarint(dst, uint64(h.Captured))
	dst = append(dst, h.Missing)
	dst = append(binary.AppendUvarint(dst, uint64(len(h.ETag))), h.ETag...)
	return append(binary.AppendUvarint(dst, uint64(len(h.Modified))), h.Modified...)
}

// Decode sets h to the History that b encodes; of no bytes it is the zero value.
func (h *History) Decode(b []byte) error {
	*h = History{}
	if len(b) == 0 {
		return nil
	}
	if b[0] != historyVersion {
		return ErrHistory
	}
	b = b[1:]
	ok := true
	number := func(limit uint64) uint64 {
		v, n := binary.Uvarint(b)
		if !ok || n <= 0 || v > limit || n > 1 && b[n-1] == 0 {
			ok = false
			return 0
		}
		b = b[n:]
		return v
	}
	take := func(n uint64) []byte {
		if !ok || n > uint64(len(b)) {
			ok = false
			return nil
		}
		v := b[:n]
		b = b[n:]
		return v
	}
	h.Last = int64(number(math.MaxInt64))
	h.Interval, h.Visits, h.Changes = uint32(number(math.MaxUint32)), uint32(number(math.MaxUint32)), uint32(number(math.MaxUint32))
	h.Watched = int64(number(math.MaxInt64))
	if body := take(8); ok {
		h.Body = binary.LittleEndian.Uint64(body)
	}
	h.Captured = int64(number(math.MaxInt64))
	if missing := take(1); ok {
		h.Missing = missing[0]
	}
	h.ETag = string(take(number(maxETag)))
	h.Modified = string(take(number(maxModified)))
	if !ok || len(b) > 0 || h.Changes > h.Visits || h.Last == 0 {
		*h = History{}
		return ErrHistory
	}
	return nil
}

// Outcome is what a visit found.
type Outcome struct {
	At      time.Time // of the response
	Missing bool      // the server says that there is no such page (404, 410)
	Same    bool      // the server says that the page has not changed (304)
	Body    uint64    // key of the body, not 0, if neither
	// ETag and Modified are the response's validators; "" for none.
	ETag, Modified string
}

// Note adds a visit. It reports whether the page has changed since the last one; a first visit is no change.
func (h *History) Note(o *Outcome) (changed bool) {
	first := h.Last == 0
	at := max(o.At.Unix(), h.Last, 1) // the clock may have been set back
	if !first {
		h.Watched += at - h.Last
		h.Visits = satisfy(h.Visits)
		changed = o.Missing != (h.Missing > 0) || !o.Missing && !o.Same && o.Body != h.Body
		if changed && h.Changes < h.Visits {
			h.Changes++
		}
	}
	h.Last = at
	switch {
	case o.Missing:
		h.Missing = min(h.Missing, math.MaxUint8-1) + 1
	case o.Same:
		h.Missing = 0
	default:
		h.Missing, h.Body, h.Captured = 0, o.Body, max(1, o.At.Unix())
		h.ETag, h.Modified = kept(o.ETag, maxETag), kept(o.Modified, maxModified)
	}
	h.age()
	return changed
}

func satisfy(n uint32) uint32 { return min(n, math.MaxUint32-1) + 1 }

func kept(validator string, limit int) string {
	if len(validator) > limit {
		return ""
	}
	return validator
}

// memory is the number of visits that count. A page that changes its habits is known again after about as many, and so
// is one that the default interval was far too long for.
const memory = 12

// age halves what is known once it is of more than memory visits.
func (h *History) age() {
	if h.Visits > memory {
		h.Visits, h.Changes, h.Watched = h.Visits/2, min((h.Changes+1)/2, h.Visits/2), h.Watched/2
	}
}

// Rate estimates the changes a second; ok is false while too little is known.
func (h *History) Rate() (rate float64, ok bool) {
	if h.Visits < leastVisits || h.Watched <= 0 {
		return 0, false
	}
	n, x := float64(h.Visits), float64(h.Changes)
	return -math.Log((n-x+0.5)/(n+0.5)) * n / float64(h.Watched), true
}
