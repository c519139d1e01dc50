package simweb

import (
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// ServeDNS answers one query; it implements dns.Handler. Names whose lookup times out get no answer.
func (w *Web) ServeDNS(out dns.ResponseWriter, query *dns.Msg) {
	if len(query.Question) != 1 || query.Opcode != dns.OpcodeQuery {
		m := new(dns.Msg)
		m.SetRcode(query, dns.RcodeFormatError)
		out.WriteMsg(m) // a failed write is a lost answer
		return
	}
	_, udp := out.RemoteAddr().(*net.UDPAddr)
	if m := w.answerDNS(query, udp); m != nil {
		out.WriteMsg(fit(m, udp))
	}
}

// Limits of an answer: over UDP in bytes, where the client asks again over TCP, and over TCP in addresses, of
// which 16 bytes each fit into 64 KiB.
const (
	maxDatagram = 1232
	maxAnswers  = 4000
)

// fit shortens an answer to what a message can have.
func fit(m *dns.Msg, udp bool) *dns.Msg {
	if udp {
		m.Truncate(maxDatagram)
	} else {
		m.Answer = m.Answer[:min(len(m.Answer), maxAnswers)]
		m.Compress = len(m.Answer) > 100
	}
	return m
}

// answerDNS returns the answer, or nil for none.
func (w *Web) answerDNS(query *dns.Msg, udp bool) *dns.Msg {
	n := w.resolve(nameOf(query))
	if n.fail == 0 {
		time.Sleep(n.wait) // at most some seconds
	}
	ttl := w.opt.DNSTTL
	if ttl == 0 {
		ttl = 5 * time.Minute
	}
	return answerNames(query, &n, ttl, udp)
}

func nameOf(query *dns.Msg) string {
	return strings.TrimSuffix(strings.ToLower(query.Question[0].Name), ".")
}

// answerNames returns the answer with the data of a name, or nil for none.
func answerNames(query *dns.Msg, n *names, ttl time.Duration, udp bool) *dns.Msg {
	q := query.Question[0]
	m := new(dns.Msg)
	m.SetReply(query)
	m.RecursionAvailable = true
	if opt := query.IsEdns0(); opt != nil {
		m.SetEdns0(1232, false)
	}
	header := func(owner string, rrtype uint16) dns.RR_Header {
		return dns.RR_Header{Name: owner, Rrtype: rrtype, Class: dns.ClassINET, Ttl: uint32(ttl.Seconds())}
	}
	switch n.fail {
	case DNSTimeout:
		return nil
	case ServFail:
		m.Rcode = dns.RcodeServerFailure
		return m
	case NXDomain:
		m.Rcode = dns.RcodeNameError
	case 0:
		if udp && n.cut {
			m.Truncated = true
			return m
		}
		owner := q.Name
		if n.cname != "" && (q.Qtype == dns.TypeA || q.Qtype == dns.TypeAAAA || q.Qtype == dns.TypeCNAME) {
			target := n.cname + "."
			m.Answer = append(m.Answer, &dns.CNAME{Hdr: header(owner, dns.TypeCNAME), Target: target})
			owner = target
		}
		if q.Qtype == dns.TypeA {
			for _, a := range n.v4 {
				m.Answer = append(m.Answer, &dns.A{Hdr: header(owner, dns.TypeA), A: a.AsSlice()})
			}
		}
		if q.Qtype == dns.TypeAAAA {
			for _, a := range n.v6 {
				m.Answer = append(m.Answer, &dns.AAAA{Hdr: header(owner, dns.TypeAAAA), AAAA: a.AsSlice()})
			}
		}
	}
	if len(m.Answer) == 0 {
		m.Ns = append(m.Ns, &dns.SOA{
			Hdr: header("simweb.", dns.TypeSOA), Ns: "ns.simweb.", Mbox: "nobody.simweb.", Serial: 1, Refresh: 3600,
			Retry: 600, Expire: 86400, Minttl: uint32(ttl.Seconds()),
		})
	}
	return m
}

// nameServer is a UDP and a TCP server on one port.
type nameServer struct {
	udp, tcp *dns.Server
	addr     netip.AddrPort
	done     chan error // one result per server
}

// badNetwork delays a name server's replies and drops some. Closing stop ends the waits.
type badNetwork struct {
	names dns.Handler
	opt   ServerOptions
	count atomic.Int64 // questions by UDP
	stop  <-chan struct{}
}

// ServeDNS implements dns.Handler.
func (b *badNetwork) ServeDNS(out dns.ResponseWriter, query *dns.Msg) {
	_, udp := out.RemoteAddr().(*net.UDPAddr)
	if every := int64(b.opt.DNSLossEvery); udp && every > 0 && b.count.Add(1)%every == 0 {
		return
	}
	if b.opt.DNSDelay > 0 {
		select {
		case <-time.After(b.opt.DNSDelay):
		case <-b.stop:
			return
		}
	}
	b.names.ServeDNS(out, query)
}

// startNameServer listens on port of 127.0.0.1 (0: a port free for both protocols). Its close ends the two
// goroutines.
func startNameServer(port uint16, handler dns.Handler) (*nameServer, error) {
	var err error
	for range portTries {
		var conn *net.UDPConn
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)})
		if err != nil {
			return nil, err
		}
		conn.SetReadBuffer(1 << 20) // best effort
		at := conn.LocalAddr().(*net.UDPAddr).AddrPort()
		var l net.Listener
		if l, err = net.Listen("tcp4", at.String()); err != nil {
			conn.Close()
			continue
		}
		n := &nameServer{addr: at, done: make(chan error, 2)}
		n.udp = &dns.Server{PacketConn: conn, Handler: handler, UDPSize: 4096}
		n.tcp = &dns.Server{Listener: l, Handler: handler}
		for _, s := range []*dns.Server{n.udp, n.tcp} {
			started := make(chan struct{})
			s.NotifyStartedFunc = func() { close(started) }
			go func() { n.done <- s.ActivateAndServe() }()
			<-started
		}
		return n, nil
	}
	return nil, err
}

func (n *nameServer) close() error {
	err := n.udp.Shutdown()
	if e := n.tcp.Shutdown(); err == nil {
		err = e
	}
	for range 2 {
		if e := <-n.done; err == nil {
			err = e
		}
	}
	return err
}
