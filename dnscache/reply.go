package dnscache

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

const (
	// maxChain bounds the aliases followed inside one reply.
	maxChain = 16
	// maxPointers bounds the compression pointers of a name: no name has more labels than this.
	maxPointers = 127
	// nameBytes is the longest name on the wire.
	nameBytes = 255
)

// The codes of a reply that mean something here (RFC 1035, 4.1.1; RFC 6891, 9).
const (
	rcodeSuccess   = 0
	rcodeFormat    = 1
	rcodeServFail  = 2
	rcodeNXDomain  = 3
	rcodeNotImp    = 4
	rcodeBadVers   = 16
	flagTruncated  = 0x02 // in the third byte
	recordMinBytes = 11   // of a record with the shortest name
)

// reply is what a message says about a name.
type reply struct {
	kind      Kind // 0: addresses, or only an alias
	truncated bool
	noEDNS    bool   // the server stumbled over the extension
	alias     string // where the chain of aliases left off without address; "": it didn't
	addrs     []netip.Addr
	ttl       uint32 // seconds; of negative replies by their SOA, 0 without
}

// errReply: the message can't be read.
var errReply = errors.New("dnscache: unreadable reply")

// errCase: the message repeats the question, but not its case.
var errCase = errors.New("dnscache: reply in another case")

// record is a resource record; its name and its data are places in the message.
type record struct {
	name, data, next int
	rtype, class     uint16
	ttl              uint32
}

// wireName is a name in lower case as it goes over the wire, without compression.
type wireName struct {
	n int
	b [nameBytes]byte
}

// parseReply reads the reply to a question for name. Records that don't belong to the chain of aliases from name on are
// ignored. The addresses are appended to space, maxAddrs at most.
func parseReply(msg []byte, name string, qtype uint16, space []netip.Addr, maxAddrs int) (reply, error) {
	var r reply
	if len(msg) < headerBytes {
		return r, errReply
	}
	r.truncated = msg[2]&flagTruncated != 0
	p := message{msg: msg, rcode: int(msg[3] & 15)}
	if !p.survey() && !r.truncated {
		return r, errReply
	}
	switch p.rcode {
	case rcodeSuccess:
	case rcodeNXDomain:
		r.kind, r.ttl = KindNXDomain, p.negativeTTL
		return r, nil
	case rcodeServFail:
		r.kind = KindServFail
		return r, nil
	case rcodeFormat, rcodeNotImp, rcodeBadVers:
		r.kind, r.noEDNS = KindRefused, true
		return r, nil
	default:
		r.kind = KindRefused
		return r, nil
	}
	r.addrs = space[:0]
	return r, p.followChain(&r, name, qtype, maxAddrs)
}

// message is a reply being read.
type message struct {
	msg         []byte
	rcode       int
	answers     int // where the answer section begins
	count       int // records in it that can be read
	negativeTTL uint32
}

// survey goes over all records: it finds the answers, the SOA's word on how long there is no such name, and the upper bits of
// the code. It tells whether all of them can be read; fewer than the header says don't matter.
func (p *message) survey() bool {
	at := headerBytes
	for range binary.BigEndian.Uint16(p.msg[4:]) {
		if at == len(p.msg) {
			break
		}
		var ok bool
		if at, ok = skipName(p.msg, at); !ok || at+4 > len(p.msg) {
			return false
		}
		at += 4
	}
	p.answers = at
	for section := range 3 {
		for range binary.BigEndian.Uint16(p.msg[6+2*section:]) {
			if at == len(p.msg) {
				return true
			}
			r, ok := readRecord(p.msg, at)
			if !ok {
				return false
			}
			at = r.next
			switch {
			case section == 0:
				p.count++
			case section == 1 && r.rtype == typeSOA && p.negativeTTL == 0 && r.next > r.data:
				p.negativeTTL = soaTTL(p.msg[:r.next], &r)
			case section == 2 && r.rtype == typeOPT:
				p.rcode = p.rcode&15 | int(r.ttl>>24)<<4
			}
		}
	}
	return true
}

// soaTTL is the least of the SOA's TTL and its last field (RFC 2308), and at least 1, also where that can't be read.
func soaTTL(msg []byte, r *record) uint32 {
	at, ok := skipName(msg, r.data)
	if ok {
		at, ok = skipName(msg, at)
	}
	if !ok || at+20 > len(msg) {
		return 1
	}
	return max(min(r.ttl, binary.BigEndian.Uint32(msg[at+16:])), 1)
}

// skipName returns where the name at a place ends.
func skipName(msg []byte, at int) (int, bool) {
	for at < len(msg) {
		switch n := int(msg[at]); {
		case n == 0:
			return at + 1, true
		case n >= 0xc0:
			return at + 2, at+2 <= len(msg)
		case n > 63:
			return 0, false
		default:
			at += 1 + n
		}
	}
	return 0, false
}

func readRecord(msg []byte, at int) (r record, ok bool) {
	r.name = at
	if at, ok = skipName(msg, at); !ok || at+recordMinBytes-1 > len(msg) {
		return r, false
	}
	r.rtype, r.class = binary.BigEndian.Uint16(msg[at:]), binary.BigEndian.Uint16(msg[at+2:])
	r.ttl = binary.BigEndian.Uint32(msg[at+4:])
	r.data = at + 10
	r.next = r.data + int(binary.BigEndian.Uint16(msg[at+8:]))
	return r, r.next <= len(msg)
}

// followChain goes from name along the aliases to addresses. The records may stand in any order, so each step looks at all.
func (p *message) followChain(r *reply, name string, qtype uint16, maxAddrs int) error {
	r.ttl = 1<<32 - 1
	var at, first, next wireName
	at.set(name)
	first = at
	for range maxChain {
		next.n = 0
		if err := p.step(r, &at, &next, qtype, maxAddrs); err != nil {
			return err
		}
		if len(r.addrs) > 0 || next.n == 0 {
			break
		}
		if next.equal(&at) || next.equal(&first) {
			r.kind = KindChain
			return nil
		}
		at = next
	}
	switch {
	case len(r.addrs) > 0 || r.truncated:
	case p.negativeTTL == 0 && !at.equal(&first): // the server left the rest to us
		r.alias = at.String()
	default:
		r.kind, r.ttl = KindNoData, p.negativeTTL
	}
	return nil
}

// step takes the addresses of the name at, and the last alias it has.
func (p *message) step(r *reply, at, next *wireName, qtype uint16, maxAddrs int) error {
	place := p.answers
	for range p.count {
		rec, _ := readRecord(p.msg, place) // survey has read it before
		place = rec.next
		if rec.class != classIN || rec.rtype != qtype && rec.rtype != typeCNAME || rec.next == rec.data || !at.is(p.msg, rec.name) {
			continue
		}
		data := p.msg[rec.data:rec.next]
		switch {
		case rec.rtype == typeCNAME:
			if end, ok := skipName(p.msg, rec.data); !ok || end != rec.next || !next.read(p.msg, rec.data) {
				return errReply
			}
			if next.n == 1 { // the root has no address
				next.n = 0
				continue
			}
		case rec.rtype == typeA && len(data) == 4:
			if len(r.addrs) < maxAddrs {
				r.addrs = append(r.addrs, netip.AddrFrom4([4]byte(data)))
			}
		case rec.rtype == typeAAAA && len(data) == 16:
			if len(r.addrs) < maxAddrs {
				r.addrs = append(r.addrs, netip.AddrFrom16([16]byte(data)))
			}
		default:
			return errReply
		}
		r.ttl = min(r.ttl, rec.ttl)
	}
	return nil
}

// set takes a name that checkName let pass.
func (w *wireName) set(name string) {
	dot := 0
	for i := range len(name) {
		if name[i] == '.' {
			w.b[dot], dot = byte(i-dot), i+1
			continue
		}
		w.b[i+1] = name[i]
	}
	w.b[dot] = byte(len(name) - dot)
	w.b[len(name)+1] = 0
	w.n = len(name) + 2
}

func (w *wireName) equal(v *wireName) bool { return string(w.b[:w.n]) == string(v.b[:v.n]) }

// is tells whether w is the name at a place, whatever its case.
func (w *wireName) is(msg []byte, at int) bool {
	for i, pointers := 0, 0; at < len(msg); {
		n := int(msg[at])
		if n >= 0xc0 {
			if pointers++; pointers > maxPointers || at+1 >= len(msg) {
				return false
			}
			at = n&0x3f<<8 | int(msg[at+1])
			continue
		}
		if byte(n) != w.b[i] || at+1+n > len(msg) {
			return false
		}
		if n == 0 {
			return true
		}
		for k := 1; k <= n; k++ {
			if lower(msg[at+k]) != w.b[i+k] {
				return false
			}
		}
		at, i = at+1+n, i+1+n
	}
	return false
}

// read takes the name at a place.
func (w *wireName) read(msg []byte, at int) bool {
	w.n = 0
	for pointers := 0; at < len(msg); {
		n := int(msg[at])
		if n >= 0xc0 {
			if pointers++; pointers > maxPointers || at+1 >= len(msg) {
				return false
			}
			at = n&0x3f<<8 | int(msg[at+1])
			continue
		}
		if n > 63 || at+1+n > len(msg) || w.n+1+n > nameBytes {
			return false
		}
		w.b[w.n] = byte(n)
		for k := 1; k <= n; k++ {
			w.b[w.n+k] = lower(msg[at+k])
		}
		w.n += 1 + n
		if n == 0 {
			return true
		}
		at += 1 + n
	}
	return false
}

// String is the name as text without a dot at its end. Bytes that a host's name can't have are quoted with a backslash, so
// that checkName doesn't let them pass.
func (w *wireName) String() string {
	b := make([]byte, 0, w.n)
	for i := 0; w.b[i] != 0; i += 1 + int(w.b[i]) {
		if i > 0 {
			b = append(b, '.')
		}
		for _, c := range w.b[i+1 : i+1+int(w.b[i])] {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				b = append(b, '\\')
			}
			b = append(b, c)
		}
	}
	return string(b)
}
