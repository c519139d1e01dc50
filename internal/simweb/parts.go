package simweb

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// Resolve returns the addresses of a name in lower case, without a final dot, and how long they are valid. Without
// addresses the name does not exist. It must be safe for concurrent use.
type Resolve func(name string) (addrs []netip.Addr, ttl time.Duration)

// NameServer answers questions by a Resolve on a port of 127.0.0.1, over UDP and TCP, for webs that are not
// generated. It has two goroutines, and one for each question; Close ends them.
type NameServer struct{ server *nameServer }

// StartNameServer starts a name server; port 0 means a free one.
func StartNameServer(port uint16, resolve Resolve) (*NameServer, error) {
	server, err := startNameServer(port, resolve)
	if err != nil {
		return nil, fmt.Errorf("simweb: start a name server: %w", err)
	}
	return &NameServer{server}, nil
}

// Addr returns the address of the server.
func (n *NameServer) Addr() netip.AddrPort { return n.server.addr }

// Close stops the server and waits for it.
func (n *NameServer) Close() error { return n.server.close() }

// ServeDNS answers one query; it implements dns.Handler.
func (r Resolve) ServeDNS(out dns.ResponseWriter, query *dns.Msg) {
	if len(query.Question) != 1 || query.Opcode != dns.OpcodeQuery {
		m := new(dns.Msg)
		m.SetRcode(query, dns.RcodeFormatError)
		out.WriteMsg(m) // a failed write is a lost answer
		return
	}
	addrs, ttl := r(nameOf(query))
	n := names{}
	for _, a := range addrs {
		if a.Is4() {
			n.v4 = append(n.v4, a)
		} else {
			n.v6 = append(n.v6, a)
		}
	}
	if len(addrs) == 0 {
		n.fail = NXDomain
	}
	_, udp := out.RemoteAddr().(*net.UDPAddr)
	out.WriteMsg(fit(answerNames(query, &n, ttl, udp), udp))
}
