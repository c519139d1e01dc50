package dnscache

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
)

// Questions and replies are packed and read by hand, without allocations but for a name that a chain of aliases ends with:
// this file asks, reply.go reads. The tests compare both with a library of the DNS.

const (
	headerBytes = 12
	// udpBytes is the EDNS0 size that passes without fragments everywhere.
	udpBytes = 1232
	// questionBytes is the longest question: header, the longest name, type and class, EDNS0.
	questionBytes = headerBytes + 255 + 4 + optBytes
	optBytes      = 11

	classIN   = 1
	typeA     = 1
	typeCNAME = 5
	typeSOA   = 6
	typeAAAA  = 28
	typeOPT   = 41
)

// question is what is asked. It doesn't change.
type question struct {
	name  string // in lower case, without a dot at its end
	qtype uint16
	edns  bool
	mix   uint64 // letter i is asked in upper case if bit i mod 64 is set
}

// newQuestion draws the case of the letters if that is to be mixed.
func newQuestion(name string, qtype uint16, edns, mix bool) question {
	q := question{name: name, qtype: qtype, edns: edns}
	if mix {
		q.mix = rand.Uint64()
	}
	return q
}

// tail is where the question section ends.
func (q *question) tail() int { return headerBytes + len(q.name) + 2 + 4 }

// letter is byte i of the name as it is asked.
func (q *question) letter(i int) byte {
	c := q.name[i]
	if c >= 'a' && c <= 'z' && q.mix>>(i&63)&1 == 1 {
		return c - 0x20
	}
	return c
}

// append appends the message, questionBytes at most.
func (q *question) append(dst []byte, id uint16) []byte {
	extra := byte(0)
	if q.edns {
		extra = 1
	}
	dst = append(dst, byte(id>>8), byte(id), 1, 0, 0, 1, 0, 0, 0, 0, 0, extra) // recursion desired
	dot := len(dst)
	dst = append(dst, 0)
	for i := range len(q.name) {
		if q.name[i] == '.' {
			dst[dot], dot = byte(len(dst)-dot-1), len(dst)
			dst = append(dst, 0)
			continue
		}
		dst = append(dst, q.letter(i))
	}
	dst[dot] = byte(len(dst) - dot - 1)
	dst = append(dst, 0, byte(q.qtype>>8), byte(q.qtype), 0, classIN)
	if q.edns {
		dst = append(dst, 0, 0, typeOPT, udpBytes>>8, udpBytes&0xff, 0, 0, 0, 0, 0, 0)
	}
	return dst
}

// mixed tells whether q is asked in mixed case: its name may have no letter, or the draw no upper case.
func (q *question) mixed() bool {
	for i := range len(q.name) {
		if q.letter(i) != q.name[i] {
			return true
		}
	}
	return false
}

// answers tells whether msg is a reply to q: it repeats the question. sameCase: letter by letter.
func (q *question) answers(msg []byte) (ok, sameCase bool) {
	end := q.tail()
	if len(msg) < end || msg[2]&0x80 == 0 || binary.BigEndian.Uint16(msg[4:]) != 1 ||
		binary.BigEndian.Uint16(msg[end-4:]) != q.qtype || binary.BigEndian.Uint16(msg[end-2:]) != classIN || msg[end-5] != 0 {
		return false, false
	}
	sameCase = true
	length := byte(0) // of the label so far; the name is read from its end
	for i := len(q.name) - 1; i >= 0; i-- {
		got := msg[headerBytes+1+i]
		if q.name[i] == '.' {
			if got != length {
				return false, false
			}
			length = 0
			continue
		}
		if lower(got) != q.name[i] {
			return false, false
		}
		sameCase = sameCase && got == q.letter(i)
		length++
	}
	return msg[headerBytes] == length, sameCase
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// checkName returns host in lower case without its last dot, and whether the DNS can hold it as the name
// of a host.
func checkName(host string) (string, bool) {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if len(host) == 0 || len(host) > 253 {
		return host, false
	}
	label := 0
	for i := range len(host) {
		c := host[i]
		switch {
		case c == '.':
			if label == 0 {
				return host, false
			}
			label = 0
			continue
		case (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_':
			return host, false
		}
		if label++; label > 63 {
			return host, false
		}
	}
	return host, label > 0
}
