package dnscache

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"

	"github.com/miekg/dns"
)

// The messages of the DNS. This file asks, reply.go reads; no other one names the library that packs and unpacks.

const (
	headerBytes = 12
	// udpBytes is the EDNS0 size that passes without fragments everywhere.
	udpBytes = 1232
	// nameBytes is the longest name.
	nameBytes = 255
	// questionBytes is the longest question: header, name, type and class, EDNS0, and the byte to spare that the library wants.
	questionBytes = headerBytes + nameBytes + 4 + 11 + 1

	flagResponse  = 0x80 // in the third byte
	flagTruncated = 0x02

	typeA    = dns.TypeA
	typeAAAA = dns.TypeAAAA
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

// text is the name as it is asked, with a dot at its end.
func (q *question) text() string {
	var b [nameBytes]byte
	for i := range len(q.name) {
		b[i] = q.letter(i)
	}
	b[len(q.name)] = '.'
	return string(b[:len(q.name)+1])
}

// append appends the message, questionBytes at most.
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
		panic("BUG: dnscache: pack a question for " + q.name + ": " + err.Error()) // checkName let it pass
	}
	return append(dst, packed...)
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

// answers tells whether msg is a reply to q: it repeats the question. sameCase: letter by letter. No more of msg is
// unpacked than the name, so that forged replies cost little.
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

// sameName compares a name that the library unpacked, which has a dot at its end, with one of ours.
func sameName(unpacked, name string) bool {
	return len(unpacked) == len(name)+1 && strings.EqualFold(unpacked[:len(name)], name)
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
