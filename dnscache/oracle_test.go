package dnscache

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// Replies unpacked completely, for comparison with reply.go.

// readByLibrary reads the reply to a question for name after the library has unpacked it. It ignores records
// outside the alias chain of name.
func readByLibrary(msg []byte, name string, qtype uint16, maxAddrs int) (reply, error) {
	var m dns.Msg
	err := m.Unpack(msg)
	r := reply{truncated: m.Truncated}
	if err != nil && !m.Truncated {
		return r, errReply
	}
	switch m.Rcode {
	case dns.RcodeSuccess:
	case dns.RcodeNameError:
		r.kind, r.ttl = KindNXDomain, negativeByLibrary(&m)
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
	return chainByLibrary(&m, r, name, qtype, maxAddrs), nil
}

func chainByLibrary(m *dns.Msg, r reply, name string, qtype uint16, maxAddrs int) reply {
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
				if target := strings.ToLower(strings.TrimSuffix(rr.Target, ".")); target != "" {
					next = target
					r.ttl = min(r.ttl, h.Ttl)
				}
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
	soa := negativeByLibrary(m)
	switch {
	case r.truncated:
	case at != name && soa == 0: // the server left the rest of the chain to us
		r.alias = at
	default:
		r.kind, r.ttl = KindNoData, soa
	}
	return r
}

// negativeByLibrary returns the life of a denial from its SOA, 0 without one.
func negativeByLibrary(m *dns.Msg) uint32 {
	for _, rr := range m.Ns {
		if soa, ok := rr.(*dns.SOA); ok && soa.Hdr.Rdlength > 0 {
			return max(min(soa.Hdr.Ttl, soa.Minttl), 1)
		}
	}
	return 0
}
