package health

import (
	"encoding/binary"
	"fmt"
	"time"
)

// stateVersion is the version of an encoded State (docs/reference/files/robots.md). A varint is an unsigned LEB128
// number in its shortest form:
//
//	version   1 byte   2 if Last, Paying or End is about payment, else 1
//	flags     1 byte   bits 0-1 Why, 2-3 End, 4-5 Stage, 6 Wide, 7 Paying
//	last      1 byte
//	level     1 byte
//	place     1 byte
//	failures, rests, refusals, pages, status, at, until   varints; times are Unix seconds, 0 for none
//
// An encoded Event is: kind 1 byte, seed of a failure or place of another kind 1 byte, status and Retry-After in
// seconds as varints.
const stateVersion, paymentVersion = 1, 2

// MaxState and MaxEvent bound the encoded forms, in bytes.
const (
	MaxState = 5 + 4*3 + 2 + 2*5
	MaxEvent = 2 + 2 + 4
)

// maxSeconds keeps encoded times within 5 bytes: until the year 3058.
const maxSeconds = 1<<35 - 1

// whole returns now+d as a whole second, rounded up unless d is 0.
func whole(now time.Time, d time.Duration) time.Time {
	t := now.Add(d)
	s := t.Unix()
	if d > 0 && t.Nanosecond() > 0 {
		s++
	}
	return fromSeconds(uint64(max(1, min(s, maxSeconds))))
}

func fromSeconds(s uint64) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(int64(s), 0).UTC()
}

func toSeconds(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(max(1, min(t.Unix(), maxSeconds)))
}

// Append appends the encoded State to dst: at most MaxState bytes.
func (s *State) Append(dst []byte) []byte {
	flags := byte(s.Why) | byte(s.End)<<2 | byte(s.Stage)<<4
	if s.Wide {
		flags |= 1 << 6
	}
	if s.Paying {
		flags |= 1 << 7
	}
	dst = append(dst, s.version(), flags, byte(s.Last), byte(s.Level), byte(s.Place))
	for _, n := range [...]uint64{uint64(s.Failures), uint64(s.Rests), uint64(s.Refusals), uint64(s.Pages),
		uint64(s.Status), toSeconds(s.At), toSeconds(s.Until)} {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

// version returns the version of the encoded State. Without requests for payment it is one that older programs read.
func (s *State) version() byte {
	if s.Paying || s.End == PaymentAsked || s.Last == Payment {
		return paymentVersion
	}
	return stateVersion
}

// Decode sets s to the State that b encodes. It is strict: Append turns an accepted State into the same
// bytes.
func (s *State) Decode(b []byte) error {
	*s = State{}
	bad := func() error {
		*s = State{}
		return fmt.Errorf("health: decode state: malformed encoding of %d bytes", len(b))
	}
	if len(b) < 5 {
		return bad()
	}
	if b[0] != stateVersion && b[0] != paymentVersion {
		return fmt.Errorf("health: decode state: got version %d, want %d or %d", b[0], stateVersion, paymentVersion)
	}
	f := b[1]
	d := State{Why: Why(f & 3), End: End(f >> 2 & 3), Stage: int(f >> 4 & 3), Wide: f>>6&1 != 0, Paying: f>>7 != 0,
		Last: Kind(b[2]), Level: int(b[3]), Place: int(b[4])}
	var at, until int
	rest, ok := b[5:], true
	for _, n := range [...]struct {
		to   *int
		most uint64
	}{{&d.Failures, maxCount}, {&d.Rests, maxCount}, {&d.Refusals, maxCount}, {&d.Pages, maxCount}, {&d.Status, 999},
		{&at, maxSeconds}, {&until, maxSeconds}} {
		*n.to, rest, ok = number(rest, n.most, ok)
	}
	if !ok || len(rest) > 0 || b[0] != d.version() || d.End >= numEnds || d.Last >= numKinds || d.Level > maxLevel {
		return bad()
	}
	d.At, d.Until = fromSeconds(uint64(at)), fromSeconds(uint64(until))
	*s = d
	return nil
}

// number decodes a varint in its shortest form, at most most. It fails if ok is false.
func number(b []byte, most uint64, ok bool) (int, []byte, bool) {
	v, n := binary.Uvarint(b)
	if !ok || n <= 0 || v > most || n > 1 && b[n-1] == 0 {
		return 0, nil, false
	}
	return int(v), b[n:], true
}

// Append appends the encoded Event to dst: at most MaxEvent bytes.
func (e *Event) Append(dst []byte) []byte {
	of := e.Place
	if e.Kind.Failed() {
		of = e.Seed
	}
	dst = append(dst, byte(e.Kind), of)
	dst = binary.AppendUvarint(dst, uint64(max(0, min(e.Status, 999))))
	asked := max(0, min(e.RetryAfter, MaxRetryAfter))
	return binary.AppendUvarint(dst, uint64((asked+time.Second-1)/time.Second))
}

// Decode sets e to the Event that b encodes. It is strict.
func (e *Event) Decode(b []byte) error {
	*e = Event{}
	if len(b) >= 2 && Kind(b[0]) < numKinds {
		status, rest, ok := number(b[2:], 999, true)
		asked, rest, ok := number(rest, uint64(MaxRetryAfter/time.Second), ok)
		if ok && len(rest) == 0 {
			*e = Event{Kind: Kind(b[0]), Status: status, RetryAfter: time.Duration(asked) * time.Second}
			if e.Kind.Failed() {
				e.Seed = b[1]
			} else {
				e.Place = b[1]
			}
			return nil
		}
	}
	return fmt.Errorf("health: decode event: malformed encoding of %d bytes", len(b))
}
