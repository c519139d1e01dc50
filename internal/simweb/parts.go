package simweb

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"sync"
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

// Authority signs certificates for hosts, valid from 1990 to 2090. It is safe for concurrent use.
type Authority struct {
	a *authority

	mu    sync.Mutex // guards certs and next
	certs map[string]*tls.Certificate
	next  int64
}

// maxAuthorityCerts bounds the cached certificates, about 2 KB each; beyond it the cache is emptied.
const maxAuthorityCerts = 10_000

// NewAuthority makes an authority with a new key.
func NewAuthority() (*Authority, error) {
	a, err := newAuthority(nil)
	if err != nil {
		return nil, fmt.Errorf("simweb: make an authority: %w", err)
	}
	return &Authority{a: a, certs: map[string]*tls.Certificate{}, next: 2}, nil
}

// Pool returns a pool with the authority's certificate.
func (a *Authority) Pool() *x509.CertPool { return a.a.pool }

// Certificate returns the certificate of a host, and of all names one label below.
func (a *Authority) Certificate(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.certs[host]; c != nil {
		return c, nil
	}
	c, err := a.a.signPLD(a.next, host)
	if err != nil {
		return nil, err
	}
	if len(a.certs) >= maxAuthorityCerts {
		clear(a.certs)
	}
	a.next++
	a.certs[host] = c
	return c, nil
}
