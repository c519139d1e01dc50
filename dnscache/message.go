package dnscache

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"

	"github.com/miekg/dns"
)

// This file packs DNS questions, and reply.go reads replies. No other file uses miekg/dns.

const (
	headerBytes = 12
	// udpBytes is the EDNS0 size that avoids fragmentation everywhere.
	udpBytes = 1232
	// nameBytes is the length of the longest name.
	nameBytes = 255
	// questionBytes is the length of the longest question: header, name, type and class, EDNS0, and a spare
	// byte that the library needs.
	questionBytes = headerBytes + nameBytes + 4 + 11 + 1

	flagResponse  = 0x80 // in byte 2
	flagTruncated = 0x02

	typeA    = dns.TypeA
	typeAAAA = dns.TypeAAAA
)

// question is an immutable question.
type question struct {
	name  string // in lower case without the final dot
	qtype uint16
	edns  bool
	mix   uint64 // letter i is in upper case if bit i mod 64 is set
}

// newQuestion creates a question and, if mix is set, draws the case of its letters.
func newQuestion(name string, qtype uint16, edns, mix bool) question {
	q := question{name: name, qtype: qtype, edns: edns}
	if mix {
		q.mix = rand.Uint64()
	}
	return q
}

// tail returns the offset of the end of the question section.
func (q *question) tail() int { return headerBytes + len(q.name) + 2 + 4 }

// letter returns byte i of the name as sent.
func (q *question) letter(i int) byte {
	c := q.name[i]
	if c >= 'a' && c <= 'z' && q.mix>>(i&63)&1 == 1 {
		return c - 0x20
	}
	return c
}

// text returns the name as sent, with the final dot.
func (q *question) text() string {
	var b [nameBytes]byte
	for i := range len(q.name) {
		b[i] = q.letter(i)
	}
	b[len(q.name)] = '.'
	return string(b[:len(q.name)+1])
}

// append appends the message to dst, at most questionBytes.
func (q *question) append(dst []byte, id uint16) []byte {
	m := dns.Msg{
		MsgHdr:   dns.MsgHdr{Id: id, RecursionDesired: true},
		Question: []dns.Question{{Name: q.text(), Qtype: q.qtype, Qclass: dns.ClassINET}},
	}
	if q.edns {
		m.SetEdns0(udpBytes, false)
	}
	packed, err := m.PackBuffer(dst[len(dst):cap(dst)])
	if err != nil {
		// checkName accepted the name.
		panic("BUG: dnscache: pack a question for " + q.name + ": " + err.Error())
	}
	return append(dst, packed...)
}

// mixed reports whether q has any letter in upper case. The name may have no letters, or the draw no upper
// case.
func (q *question) mixed() bool {
	for i := range len(q.name) {
		if q.letter(i) != q.name[i] {
			return true
		}
	}
	return false
}

// answers reports whether msg is a reply that repeats q, and whether it does so in the same case. It unpacks
// only the name of msg, so forged replies cost little.
func (q *question) answers(msg []byte) (ok, sameCase bool) {
	end := q.tail()
	if len(msg) < end || msg[2]&flagResponse == 0 || binary.BigEndian.Uint16(msg[4:]) != 1 ||
		binary.BigEndian.Uint16(msg[end-4:]) != q.qtype || binary.BigEndian.Uint16(msg[end-2:]) != dns.ClassINET {
		return false, false
	}
	got, next, err := dns.UnpackDomainName(msg, headerBytes)
	if err != nil || next != end-4 || !sameName(got, q.name) {
		return false, false
	}
	for i := range len(q.name) {
		if got[i] != q.letter(i) {
			return true, false
		}
	}
	return true, true
}

// sameName compares a name unpacked by the library, which ends in a dot, with one of ours.
func sameName(unpacked, name string) bool {
	return len(unpacked) == len(name)+1 && strings.EqualFold(unpacked[:len(name)], name)
}

// checkName returns host in lower case without the final dot and reports whether it is a valid host name.
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
