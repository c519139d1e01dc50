package main

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/miekg/dns"
)

// nameServer answers for the names of a web, by UDP and TCP, and denies all others.
type nameServer struct {
	lookup  func(name string) (addr net.IP, known bool) // name: in lower case, without the last dot
	addr    netip.AddrPort
	servers []*dns.Server
	queries atomic.Int64
	denied  atomic.Int64
}

const answerTTL = 300 // seconds

// startNameServer starts the servers' goroutines, which run until close.
func startNameServer(lookup func(name string) (net.IP, bool)) (*nameServer, error) {
	n := &nameServer{lookup: lookup}
	udp, tcp, err := listenBoth()
	if err != nil {
		return nil, err
	}
	n.addr = udp.LocalAddr().(*net.UDPAddr).AddrPort()
	for _, s := range []*dns.Server{{PacketConn: udp, Handler: n}, {Listener: tcp, Handler: n}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		n.servers = append(n.servers, s)
		go s.ActivateAndServe()
		<-started
	}
	return n, nil
}

// listenBoth finds a port that is free for UDP and TCP.
func listenBoth() (net.PacketConn, net.Listener, error) {
	var err error
	for range 20 {
		var udp net.PacketConn
		if udp, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
			break
		}
		var tcp net.Listener
		if tcp, err = net.Listen("tcp", udp.LocalAddr().String()); err == nil {
			return udp, tcp, nil
		}
		udp.Close()
	}
	return nil, nil, fmt.Errorf("realweb: listen for DNS: %w", err)
}

// ServeDNS answers one query.
func (n *nameServer) ServeDNS(out dns.ResponseWriter, query *dns.Msg) {
	n.queries.Add(1)
	reply := new(dns.Msg).SetReply(query)
	reply.Authoritative, reply.RecursionAvailable = true, true
	if len(query.Question) != 1 {
		reply.Rcode = dns.RcodeFormatError
		out.WriteMsg(reply)
		return
	}
	q := query.Question[0]
	addr, known := n.lookup(strings.ToLower(strings.TrimSuffix(q.Name, ".")))
	if known && q.Qtype == dns.TypeA {
		reply.Answer = []dns.RR{&dns.A{
			Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: answerTTL}, A: addr}}
	} else {
		if !known {
			n.denied.Add(1)
			reply.Rcode = dns.RcodeNameError
		}
		reply.Ns = []dns.RR{&dns.SOA{
			Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: answerTTL},
			Ns:  "ns.invalid.", Mbox: "nobody.invalid.", Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: answerTTL}}
	}
	out.WriteMsg(reply) // a client that misses the reply repeats its query
}

func (n *nameServer) close() {
	for _, s := range n.servers {
		s.Shutdown()
	}
}
