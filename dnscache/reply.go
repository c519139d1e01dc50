package dnscache

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// This file does not let miekg/dns unpack a whole message. If it did, one bad record of an unrelated type,
// such as an EDNS0 option, would make the reply unreadable, and a reply of 64 KiB could take 24 MB
// (TestHostileReply). Instead it reads the header of each record, and the data only of records about the
// name in question.

const (
	// maxChain bounds the aliases followed within one reply.
	maxChain = 16
	// maxRecords bounds the records read of one reply, which take up to 1 KB each. The rest is ignored.
	maxRecords = 512
)

// reply is what a message says about a name.
type reply struct {
	kind      Kind // 0: addresses, or only an alias
	truncated bool
	noEDNS    bool   // the server does not support EDNS0
	alias     string // last alias of a chain that ends without an address; "": none
	addrs     []netip.Addr
	ttl       uint32 // in seconds; of denials from their SOA, 0 without one
}

// errReply: the message is unreadable.
var errReply = errors.New("dnscache: unreadable reply")

// errCase: the message repeats the question in another case.
var errCase = errors.New("dnscache: reply in another case")

// message is a reply being read.
type message struct {
	msg         []byte
	rcode       int
	answers     []record // those that are readable
	negativeTTL uint32
}

// record is the header of a resource record and the offset of its data.
type record struct {
	dns.RR_Header
	at int
}

// parseReply reads the reply to a question for name. It ignores records outside the alias chain of name. It
// overwrites space with the addresses, at most maxAddrs, and grows it if necessary.
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
	case dns.RcodeSuccess:
	case dns.RcodeNameError:
		r.kind, r.ttl = KindNXDomain, p.negativeTTL
		return r, nil
	case dns.RcodeServerFailure:
		r.kind = KindServFail
		return r, nil
	case dns.RcodeFormatError, dns.RcodeNotImplemented, dns.RcodeBadVers:
		r.kind, r.noEDNS = KindRefused, true
		return r, nil
	default:
		r.kind = KindRefused
		return r, nil
	}
	r.addrs = space[:0]
	return r, p.followChain(&r, name, qtype, maxAddrs)
}

// survey scans the records. It collects the answers, the negative TTL of the SOA and the upper bits of the
// response code. It reports whether the records are readable; there may be fewer than the header says.
func (p *message) survey() bool {
	at := headerBytes
	questions := binary.BigEndian.Uint16(p.msg[4:])
	if questions > 1 { // RFC 9619: a query has one question
		return false
	}
	if questions == 1 {
		_, next, err := dns.UnpackDomainName(p.msg, at)
		if err != nil || next+4 > len(p.msg) {
			return false
		}
		at = next + 4
	}
	left := maxRecords
	for section := range 3 {
		for range binary.BigEndian.Uint16(p.msg[6+2*section:]) {
			if at == len(p.msg) || left == 0 {
				return true
			}
			left--
			rec, ok := p.record(at)
			if !ok {
				return false
			}
			at = rec.at + int(rec.Rdlength)
			switch {
			case section == 0:
				p.answers = append(p.answers, rec)
			case section == 1 && rec.Rrtype == dns.TypeSOA && p.negativeTTL == 0 && rec.Rdlength > 0:
				p.negativeTTL = p.soaTTL(rec)
			case section == 2 && rec.Rrtype == dns.TypeOPT:
				p.rcode = p.rcode&15 | int(rec.Ttl>>24)<<4
			}
		}
	}
	return true
}

// record reads the header of the record at an offset.
func (p *message) record(at int) (r record, ok bool) {
	name, at, err := dns.UnpackDomainName(p.msg, at)
	if err != nil || at+10 > len(p.msg) {
		return r, false
	}
	head := p.msg[at:]
	r.at = at + 10
	r.Name, r.Rrtype, r.Class = name, binary.BigEndian.Uint16(head), binary.BigEndian.Uint16(head[2:])
	r.Ttl, r.Rdlength = binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint16(head[8:])
	return r, r.at+int(r.Rdlength) <= len(p.msg)
}

// unpack reads the data of a record.
func (p *message) unpack(r record) (dns.RR, error) {
	rr, _, err := dns.UnpackRRWithHeader(r.RR_Header, p.msg, r.at)
	return rr, err
}

// soaTTL returns the smaller of the SOA's TTL and its last field (RFC 2308), at least 1. An unreadable SOA
// counts as 1.
func (p *message) soaTTL(r record) uint32 {
	rr, err := p.unpack(r)
	if soa, ok := rr.(*dns.SOA); ok && err == nil {
		return max(min(r.Ttl, soa.Minttl), 1)
	}
	return 1
}

// followChain follows the aliases from name to addresses. Records may be in any order, so each step scans
// all.
func (p *message) followChain(r *reply, name string, qtype uint16, maxAddrs int) error {
	r.ttl = 1<<32 - 1
	at := name
	for range maxChain {
		next, err := p.step(r, at, qtype, maxAddrs)
		if err != nil {
			return err
		}
		if len(r.addrs) > 0 || next == "" {
			break
		}
		if next == at || next == name {
			r.kind = KindChain
			return nil
		}
		at = next
	}
	switch {
	case len(r.addrs) > 0 || r.truncated:
	case p.negativeTTL == 0 && at != name: // the server left the rest of the chain to us
		r.alias = at
	default:
		r.kind, r.ttl = KindNoData, p.negativeTTL
	}
	return nil
}

// step collects the addresses of the name at and returns the last alias of at; "": none.
func (p *message) step(r *reply, at string, qtype uint16, maxAddrs int) (next string, err error) {
	for _, rec := range p.answers {
		if rec.Class != dns.ClassINET || rec.Rrtype != qtype && rec.Rrtype != dns.TypeCNAME ||
			rec.Rdlength == 0 || !sameName(rec.Name, at) {
			continue
		}
		rr, err := p.unpack(rec)
		if err != nil {
			return "", errReply
		}
		var a netip.Addr
		switch rr := rr.(type) {
		case *dns.CNAME:
			if rr.Target == "." { // the root has no address
				continue
			}
			next = strings.ToLower(strings.TrimSuffix(rr.Target, "."))
		case *dns.A:
			a, _ = netip.AddrFromSlice(rr.A.To4())
		case *dns.AAAA:
			a, _ = netip.AddrFromSlice(rr.AAAA.To16())
		}
		if a.IsValid() && len(r.addrs) < maxAddrs {
			r.addrs = append(r.addrs, a)
		}
		r.ttl = min(r.ttl, rec.Ttl)
	}
	return next, nil
}
