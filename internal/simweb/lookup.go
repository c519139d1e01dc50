package simweb

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"
)

// DNSErrorKind is the reason why a name lookup has no address.
type DNSErrorKind uint8

// The kinds of failed lookups.
const (
	NXDomain DNSErrorKind = 1 + iota
	ServFail
	DNSTimeout
	NoData // the name exists without addresses of the requested family
)

func (k DNSErrorKind) String() string {
	return [...]string{"", "no such domain", "server failure", "timeout", "no address"}[k]
}

// DNSError is the error of LookupHost.
type DNSError struct {
	Kind DNSErrorKind
	Host string
}

func (e *DNSError) Error() string { return fmt.Sprintf("simweb: look up %s: %s", e.Host, e.Kind) }

// Timeout implements net.Error.
func (e *DNSError) Timeout() bool { return e.Kind == DNSTimeout }

// Temporary implements net.Error.
func (e *DNSError) Temporary() bool { return e.Kind == DNSTimeout || e.Kind == ServFail }

// DialError is the error of Dial: refused, unreachable (no such address) or timed out.
type DialError struct {
	Addr netip.AddrPort
	Err  error // syscall.ECONNREFUSED, syscall.EHOSTUNREACH or os.ErrDeadlineExceeded
}

func (e *DialError) Error() string { return fmt.Sprintf("simweb: dial %s: %v", e.Addr, e.Err) }
func (e *DialError) Unwrap() error { return e.Err }

// Timeout implements net.Error.
func (e *DialError) Timeout() bool { return e.Err == os.ErrDeadlineExceeded }

// Temporary implements net.Error.
func (e *DialError) Temporary() bool { return e.Timeout() }

var _, _ net.Error = (*DNSError)(nil), (*DialError)(nil)

// Outage describes the broken part of the network.
type Outage struct {
	All     bool     // no name gets an answer, connects time out, open connections break
	DNS     bool     // no name gets an answer
	NoNames bool     // every name gets the answer that it doesn't exist
	Hosts   []string // these names get no answer, and connections that request them break
	// A listening socket can't refuse connections, so the socket form accepts and closes them. With Hang it
	// leaves them without a response until the outage changes or the client closes.
	Hang bool
}

type outage struct {
	Outage
	hosts map[string]bool
	over  chan struct{} // closed by the next SetOutage
}

// SetOutage replaces the current outage; the zero Outage ends it.
func (w *Web) SetOutage(o Outage) {
	next := &outage{Outage: o, over: make(chan struct{})}
	if len(o.Hosts) > 0 {
		next.hosts = map[string]bool{}
		for _, h := range o.Hosts {
			next.hosts[h] = true
		}
	}
	if old := w.outage.Swap(next); old != nil {
		close(old.over)
	}
}

// dark returns the outage that affects names (dns) or connections of a host, or nil; "" means all hosts.
func (w *Web) dark(host string, dns bool) *outage {
	o := w.outage.Load()
	if o != nil && (o.All || dns && o.DNS || o.hosts[host]) {
		return o
	}
	return nil
}

// names is the name server's data about a host. Goroutines may share the slices, which are read-only.
type names struct {
	v4, v6 []netip.Addr
	cname  string
	fail   DNSErrorKind  // 0: none
	wait   time.Duration // before the answer, or before the client gives up; only LookupHost waits
	cut    bool
}

// resolve returns the data for the name server and LookupHost.
func (w *Web) resolve(host string) names {
	w.log.lookup(host)
	if w.dark(host, true) != nil {
		return names{fail: DNSTimeout}
	}
	if o := w.outage.Load(); o != nil && o.NoNames {
		return names{fail: NXDomain}
	}
	if h := w.hostileHost(host); h != nil {
		if h.resolve != nil {
			return h.resolve(host)
		}
		return names{v4: []netip.Addr{h.addr}}
	}
	i, sub, ok := w.find(host)
	if !ok {
		return names{fail: NXDomain}
	}
	h := &w.hosts[i]
	switch h.kind {
	case nxDomainHost:
		return names{fail: NXDomain}
	case servFailHost:
		return names{fail: ServFail}
	case dnsTimeoutHost:
		return names{fail: DNSTimeout}
	case spamHost:
		return names{v4: []netip.Addr{w.spamAddr(sub)}}
	}
	return names{v4: h.addrs, v6: h.addrs6, cname: h.cname, cut: h.cut}
}

// LookupHost resolves a name: IPv4 addresses first, then IPv6. Failures are *DNSError. Answers, timeouts
// included, are immediate (the caller may wait), except for slow names of hostile hosts.
func (w *Web) LookupHost(host string) ([]netip.Addr, error) {
	n := w.resolve(host)
	time.Sleep(n.wait)
	if n.fail != 0 {
		return nil, &DNSError{Kind: n.fail, Host: host}
	}
	return slices.Concat(n.v4, n.v6), nil
}

// Addrs returns the IPv4 addresses of live hosts.
func (w *Web) Addrs() []netip.Addr { return slices.Concat(w.addrs, w.spamIP, w.hostile.addrs) }

// DialFunc is the type of Dial, for clients with an injected dialer.
type DialFunc func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
