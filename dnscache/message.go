package dnscache

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// All that is known of the library stands in this file: pack a question, parse a reply. Its version 1 is
// frozen, so it may have to be replaced.

const (
	headerBytes = 12
	// udpBytes is the EDNS0 size that passes without fragments everywhere.
	udpBytes = 1232
	// maxChain bounds the aliases followed inside one reply.
	maxChain = 16

	typeA    = dns.TypeA
	typeAAAA = dns.TypeAAAA
)

// question is a packed question with id 0, and how much of it the reply must repeat.
type question struct {
	msg  []byte
	tail int // end of the question section
}

// packQuestion packs a question for name (no dot at its end).
func packQuestion(name string, qtype uint16, edns, mix bool) (question, error) {
	var m dns.Msg
	m.RecursionDesired = true
	if mix {
		name = mixCase(name)
	}
	m.Question = []dns.Question{{Name: name + ".", Qtype: qtype, Qclass: dns.ClassINET}}
	if edns {
		m.SetEdns0(udpBytes, false)
	}
	b, err := m.Pack()
	return question{b, headerBytes + len(name) + 2 + 4}, err
}

func mixCase(name string) string {
	b := []byte(name)
	bits := rand.Uint64()
	for i, c := range b {
		if c >= 'a' && c <= 'z' && bits>>(i&63)&1 == 1 {
			b[i] = c - 0x20
		}
	}
	return string(b)
}

// answers tells whether msg is a reply to q: it repeats the question, letter by letter if exact.
func (q *question) answers(msg []byte, exact bool) bool {
	if len(msg) < q.tail || msg[2]&0x80 == 0 || binary.BigEndian.Uint16(msg[4:]) != 1 {
		return false
	}
	got, want := msg[headerBytes:q.tail], q.msg[headerBytes:q.tail]
	for i := range want {
		g, w := got[i], want[i]
		if !exact {
			g, w = lower(g), lower(w)
		}
		if g != w {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

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

// parseReply reads the reply to a question for name. Records that don't belong to the chain of aliases
// from name on are ignored.
func parseReply(msg []byte, name string, qtype uint16, maxAddrs int) (reply, error) {
	var m dns.Msg
	err := m.Unpack(msg)
	r := reply{truncated: m.Truncated}
	if err != nil && !m.Truncated {
		return r, errReply
	}
	switch m.Rcode {
	case dns.RcodeSuccess:
	case dns.RcodeNameError:
		r.kind, r.ttl = KindNXDomain, negativeTTL(&m)
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
	return followChain(&m, r, name, qtype, maxAddrs), nil
}

func followChain(m *dns.Msg, r reply, name string, qtype uint16, maxAddrs int) reply {
	r.ttl = 1<<32 - 1
	at := name
	for range maxChain {
		next := ""
		for _, rr := range m.Answer {
			h := rr.Header()
			if h.Class != dns.ClassINET || !sameName(h.Name, at) {
				continue
			}
			var a netip.Addr
			switch rr := rr.(type) {
			case *dns.A:
				a, _ = netip.AddrFromSlice(rr.A.To4())
			case *dns.AAAA:
				a, _ = netip.AddrFromSlice(rr.AAAA.To16())
			case *dns.CNAME:
				next = strings.ToLower(strings.TrimSuffix(rr.Target, "."))
				r.ttl = min(r.ttl, h.Ttl)
				continue
			}
			if h.Rrtype == qtype && a.IsValid() {
				r.ttl = min(r.ttl, h.Ttl)
				if len(r.addrs) < maxAddrs {
					r.addrs = append(r.addrs, a)
				}
			}
		}
		if len(r.addrs) > 0 || next == "" {
			break
		}
		if next == at || next == name {
			r.kind = KindChain
			return r
		}
		at = next
	}
	if len(r.addrs) > 0 {
		return r
	}
	soa := negativeTTL(m)
	switch {
	case r.truncated:
	case at != name && soa == 0: // the server left the rest to us
		r.alias = at
	default:
		r.kind, r.ttl = KindNoData, soa
	}
	return r
}

// sameName compares a name of the wire with ours.
func sameName(wire, name string) bool {
	return len(wire) == len(name)+1 && strings.EqualFold(wire[:len(name)], name)
}

// negativeTTL is the life of a negative reply by its SOA, 0 without one.
func negativeTTL(m *dns.Msg) uint32 {
	for _, rr := range m.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return max(min(soa.Hdr.Ttl, soa.Minttl), 1)
		}
	}
	return 0
}

// checkName returns host in lower case without its last dot, and whether the DNS can hold it as the name
// of a host.
func checkName(host string) (string, bool) {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if len(host) == 0 || len(host) > 253 {
		return host, false
	}
	for label := range strings.SplitSeq(host, ".") {
		if len(label) == 0 || len(label) > 63 {
			return host, false
		}
		for i := range len(label) {
			c := label[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return host, false
			}
		}
	}
	return host, true
}
