package revisit

import (
	"encoding/binary"
	"math"
	"net/http"
	"time"
)

// historyVersion is the first byte of a coding. Fields whose flag is not set are left out and zero.
//
//	1     version, 2
//	1     flags
//	1-10  Last, uvarint
//	1-5   Interval, uvarint
//	1     Visits
//	1-3   Belief.Shape in 1/1024, uvarint
//	4     Belief.Scale, float32, little-endian
//	8     Body, little-endian (flag 1)
//	1-10  Last - Captured, varint (flag 2)
//	1     Missing (flag 4)
//	2-3   length of ETag, uvarint, and its bytes (flag 8)
//	1-10  Modified, if it is a date of 29 bytes: varint, Unix seconds (flag 16)
//	2     else length of Modified, uvarint, and its bytes (flag 32)
//	0     Copy (flag 64)
//
// Version 1, which is only read, had counts instead of the belief; see decodeCounts.
const historyVersion = 2

// hintVersion is the first byte of a coding that has only Listed, a uvarint of 1 to 10 bytes.
const hintVersion = 3

// MaxHintBytes bounds the length of such a coding.
const MaxHintBytes = 11

// Visited reports whether a coding is of a visited page.
func Visited(coding []byte) bool { return len(coding) > 0 && coding[0] != hintVersion }

const (
	hasBody = 1 << iota
	hasCaptured
	hasMissing
	hasETag
	hasDate
	hasModified
	isCopy
	allFlags = 1<<iota - 1
)

// MaxBytes bounds the length of a coding, of any version.
const MaxBytes = 1 + 3*5 + 4*10 + 8 + 1 + 2*2 + maxETag + maxModified

// Append appends the coding of h.
func (h *History) Append(dst []byte) []byte {
	if h.Last == 0 {
		return binary.AppendUvarint(append(dst, hintVersion), uint64(h.Listed))
	}
	date, isDate := dateOf(h.Modified)
	dst = append(dst, historyVersion, 0)
	at := len(dst) - 1 // of the flags
	dst = binary.AppendUvarint(dst, uint64(h.Last))
	dst = append(binary.AppendUvarint(dst, uint64(h.Interval)), h.Visits)
	dst = binary.AppendUvarint(dst, uint64(math.Round(h.Belief.Shape/shapeUnit)))
	dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(h.Belief.Scale)))
	if h.Body != 0 {
		dst[at] |= hasBody
		dst = binary.LittleEndian.AppendUint64(dst, h.Body)
	}
	if h.Captured != 0 {
		dst[at] |= hasCaptured
		dst = binary.AppendVarint(dst, h.Last-h.Captured)
	}
	if h.Missing != 0 {
		dst[at] |= hasMissing
		dst = append(dst, h.Missing)
	}
	if h.ETag != "" {
		dst[at] |= hasETag
		dst = append(binary.AppendUvarint(dst, uint64(len(h.ETag))), h.ETag...)
	}
	switch {
	case isDate:
		dst[at] |= hasDate
		dst = binary.AppendVarint(dst, date)
	case h.Modified != "":
		dst[at] |= hasModified
		dst = append(binary.AppendUvarint(dst, uint64(len(h.Modified))), h.Modified...)
	}
	if h.Copy {
		dst[at] |= isCopy
	}
	return dst
}

// dateOf returns the Unix seconds of an HTTP date in its preferred form (RFC 9110, 5.6.7), which writes them
// the same again.
func dateOf(text string) (seconds int64, ok bool) {
	t, err := time.Parse(http.TimeFormat, text)
	if err != nil || dateText(t.Unix()) != text {
		return 0, false
	}
	return t.Unix(), true
}

func dateText(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(http.TimeFormat) }

// Decode sets h to the History that b encodes; of no bytes it is the zero value.
func (h *History) Decode(b []byte) error {
	*h = History{}
	if len(b) == 0 {
		return nil
	}
	r := reader{b: b[1:]}
	switch b[0] {
	case 1:
		h.decodeCounts(&r)
		r.want(h.Last > 0)
	case historyVersion:
		h.decode(&r)
		r.want(h.Last > 0)
	case hintVersion:
		h.Listed = int64(r.number(math.MaxInt64))
		r.want(h.Listed > 0)
	default:
		r.bad = true
	}
	if r.bad || len(r.b) > 0 {
		*h = History{}
		return ErrHistory
	}
	return nil
}

func (h *History) decode(r *reader) {
	flags := r.byte()
	h.Copy = flags&isCopy != 0
	h.Last, h.Interval, h.Visits = int64(r.number(math.MaxInt64)), uint32(r.number(math.MaxUint32)), r.byte()
	shape, scale := r.number(maxShape/shapeUnit), math.Float32frombits(uint32(r.fixed(4)))
	h.Belief = Belief{float64(shape) * shapeUnit, float64(scale)}
	r.want(shape > 0 && h.Belief.Scale >= minScale && h.Belief.Scale <= maxScale && flags&^allFlags == 0)
	if flags&hasBody != 0 {
		h.Body = r.fixed(8)
		r.want(h.Body != 0)
	}
	if flags&hasCaptured != 0 {
		h.Captured = h.Last - r.signed()
		r.want(h.Captured != 0)
	}
	if flags&hasMissing != 0 {
		h.Missing = r.byte()
		r.want(h.Missing != 0)
	}
	if flags&hasETag != 0 {
		h.ETag = r.text(maxETag)
		r.want(h.ETag != "")
	}
	r.want(flags&hasDate == 0 || flags&hasModified == 0)
	if flags&hasDate != 0 {
		date := r.signed()
		h.Modified = dateText(date)
		again, ok := dateOf(h.Modified)
		r.want(ok && again == date)
	}
	if flags&hasModified != 0 {
		h.Modified = r.text(maxModified)
		_, isDate := dateOf(h.Modified)
		r.want(h.Modified != "" && !isDate)
	}
}

// decodeCounts reads version 1, which had the number of visits, the number of those that found a change, and
// the seconds that they covered. The belief becomes that of as many visits at equal intervals.
func (h *History) decodeCounts(r *reader) {
	h.Last, h.Interval = int64(r.number(math.MaxInt64)), uint32(r.number(math.MaxUint32))
	visits, changes, watched := r.number(math.MaxUint32), r.number(math.MaxUint32), r.number(math.MaxInt64)
	h.Body, h.Captured, h.Missing = r.fixed(8), int64(r.number(math.MaxInt64)), r.byte()
	h.ETag, h.Modified = r.text(maxETag), r.text(maxModified)
	r.want(changes <= visits)
	if r.bad {
		return
	}
	h.Visits = uint8(min(visits, math.MaxUint8))
	h.Belief = prior(min(time.Duration(max(1, h.Interval))*time.Second, MaxInterval))
	const most = 12 // visits that version 1 counted
	visits, changes = min(visits, most), min(changes, most)
	for i := range visits {
		if each := float64(watched) / float64(visits); i < changes && each > 0 {
			h.Belief = h.Belief.changed(each)
		} else {
			h.Belief = h.Belief.quiet(each)
		}
	}
	h.Belief = h.Belief.bounded()
}

// reader takes fields from the beginning of b. After the first bad field it returns zeros.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) want(ok bool) { r.bad = r.bad || !ok }

// take returns the next n bytes.
func (r *reader) take(n int) []byte {
	if r.want(n <= len(r.b)); r.bad {
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() uint8 { return uint8(r.fixed(1)) }

// fixed reads n little-endian bytes.
func (r *reader) fixed(n int) (v uint64) {
	for i, c := range r.take(n) {
		v |= uint64(c) << (8 * i)
	}
	return v
}

// number reads a uvarint of at most limit, in its shortest form.
func (r *reader) number(limit uint64) uint64 {
	if r.bad {
		return 0
	}
	v, n := binary.Uvarint(r.b)
	if r.want(n > 0 && v <= limit && (n == 1 || r.b[n-1] != 0)); r.bad {
		return 0
	}
	r.b = r.b[n:]
	return v
}

// signed reads a varint.
func (r *reader) signed() int64 {
	u := r.number(math.MaxUint64)
	return int64(u>>1) ^ -int64(u&1)
}

func (r *reader) text(limit uint64) string { return string(r.take(int(r.number(limit)))) }
