package dnscache

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// fake is a name server on loopback, UDP and TCP on one port.
type fake struct {
	addr netip.AddrPort
	udp  atomic.Int64 // questions received by UDP
	tcp  atomic.Int64
	mu   sync.Mutex
	seen map[string]int // questions by "name type"
}

// answerer makes the reply to a question; nil: no reply.
type answerer func(req *dns.Msg, tcp bool) *dns.Msg

func startFake(t testing.TB, answer answerer) *fake {
	t.Helper()
	f := &fake{seen: make(map[string]int)}
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	must(t, err)
	f.addr = pc.LocalAddr().(*net.UDPAddr).AddrPort()
	l, err := net.Listen("tcp4", f.addr.String())
	if err != nil {
		t.Skip("the port is taken for TCP: ", err)
	}
	handler := func(tcp bool) dns.HandlerFunc {
		return func(w dns.ResponseWriter, req *dns.Msg) {
			q := req.Question[0]
			count := &f.udp
			if tcp {
				count = &f.tcp
			}
			count.Add(1)
			f.mu.Lock()
			f.seen[strings.ToLower(q.Name)+" "+dns.TypeToString[q.Qtype]]++
			f.mu.Unlock()
			if m := answer(req, tcp); m != nil {
				w.WriteMsg(m)
			}
		}
	}
	for _, s := range []*dns.Server{{PacketConn: pc, Handler: handler(false)}, {Listener: l, Handler: handler(true)}} {
		ready := make(chan struct{})
		s.NotifyStartedFunc = func() { close(ready) }
		go s.ActivateAndServe()
		<-ready
		t.Cleanup(func() { s.Shutdown() })
	}
	return f
}

func (f *fake) asked(key string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[key]
}

func rr(t testing.TB, format string, args ...any) dns.RR {
	r, err := dns.NewRR(fmt.Sprintf(format, args...))
	must(t, err)
	return r
}

// replyTo makes a reply with a response code and answer records.
func replyTo(req *dns.Msg, rcode int, rrs ...dns.RR) *dns.Msg {
	m := new(dns.Msg)
	m.SetRcode(req, rcode)
	m.Answer = rrs
	return m
}

// zone answers from a table of "name type" -> records. A first record of "NX" means no such name, and so on.
func zone(t testing.TB, table map[string][]string) answerer {
	return func(req *dns.Msg, tcp bool) *dns.Msg {
		q := req.Question[0]
		rrs, ok := table[strings.ToLower(q.Name)+" "+dns.TypeToString[q.Qtype]]
		m := replyTo(req, dns.RcodeSuccess)
		if !ok {
			m.Ns = append(m.Ns, rr(t, "test. 900 IN SOA ns.test. a.test. 1 2 3 4 600"))
			return m
		}
		for _, s := range rrs {
			switch s {
			case "NX":
				m.Rcode = dns.RcodeNameError
				m.Ns = append(m.Ns, rr(t, "test. 900 IN SOA ns.test. a.test. 1 2 3 4 600"))
			case "SERVFAIL":
				m.Rcode = dns.RcodeServerFailure
			case "REFUSED":
				m.Rcode = dns.RcodeRefused
			default:
				m.Answer = append(m.Answer, rr(t, "%s", s))
			}
		}
		return m
	}
}

func newResolver(t testing.TB, opt Options, fakes ...*fake) *Resolver {
	t.Helper()
	for _, f := range fakes {
		opt.Servers = append(opt.Servers, f.addr)
	}
	if opt.Timeouts == nil {
		opt.Timeouts = []time.Duration{500 * time.Millisecond, time.Second, 4 * time.Second}
	}
	r, err := New(opt)
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// lookup returns the addresses separated by blanks, or the kind of the error.
func lookup(t testing.TB, r *Resolver, host string) string {
	t.Helper()
	a, err := r.Lookup(t.Context(), host, "")
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind.String()
	case err != nil:
		return err.Error()
	}
	return addrList(a.Addrs)
}

func addrList(addrs []netip.Addr) string {
	var ss []string
	for _, a := range addrs {
		ss = append(ss, a.String())
	}
	return strings.Join(ss, " ")
}
