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
	NoData // the name exists without addresses of the family asked for
)

func (k DNSErrorKind) String() string {
	return [...]string{"", "no such domain", "server failure", "timeout", "no address"}[k]
}

// DNSError is what LookupHost returns.
type DNSError struct {
	Kind DNSErrorKind
	Host string
}

func (e *DNSError) Error() string { return fmt.Sprintf("simweb: look up %s: %s", e.Host, e.Kind) }

// Timeout makes it a net.Error's.
func (e *DNSError) Timeout() bool { return e.Kind == DNSTimeout }

// Temporary makes it a net.Error.
func (e *DNSError) Temporary() bool { return e.Kind == DNSTimeout || e.Kind == ServFail }

// DialError is what Dial returns: refused, unreachable (no such address) or timed out.
type DialError struct {
	Addr netip.AddrPort
	Err  error // syscall.ECONNREFUSED, syscall.EHOSTUNREACH or os.ErrDeadlineExceeded
}

func (e *DialError) Error() string { return fmt.Sprintf("simweb: dial %s: %v", e.Addr, e.Err) }
func (e *DialError) Unwrap() error { return e.Err }

// Timeout makes it a net.Error's.
func (e *DialError) Timeout() bool { return e.Err == os.ErrDeadlineExceeded }

// Temporary makes it a net.Error.
func (e *DialError) Temporary() bool { return e.Timeout() }

var _, _ net.Error = (*DNSError)(nil), (*DialError)(nil)

// Outage is the part of the network that is broken.
type Outage struct {
	All     bool     // names are not answered, connects time out, running connections break
	DNS     bool     // names are not answered
	NoNames bool     // they are answered: none exists
	Hosts   []string // these names are not answered, and connections that ask for them break
	// A listening socket cannot refuse to connect, so the socket form accepts connections and closes them,
	// or with Hang leaves them without an answer until the outage changes or the client closes.
	Hang bool
}

type outage struct {
	Outage
	hosts map[string]bool
	over  chan struct{} // closed by the next SetOutage
}

// SetOutage replaces the outage in force; the zero Outage ends it.
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

// dark reports whether an outage affects names (dns) or connections of a host; "" stands for all hosts.
func (w *Web) dark(host string, dns bool) *outage {
	o := w.outage.Load()
	if o != nil && (o.All || dns && o.DNS || o.hosts[host]) {
		return o
	}
	return nil
}

// names is what the name server knows about a host. Several goroutines may share the slices; nobody writes.
type names struct {
	v4, v6 []netip.Addr
	cname  string
	fail   DNSErrorKind  // 0: none
	wait   time.Duration // before the answer, or before the client gives up; LookupHost alone keeps it
	cut    bool
}

// resolve is the function behind the name server and LookupHost.
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

// LookupHost answers a name: IPv4 addresses first, then IPv6. Failures are *DNSError. All come at once,
// timeouts too (the caller waits if it wants to), but for names of hostile hosts that are slow.
func (w *Web) LookupHost(host string) ([]netip.Addr, error) {
	n := w.resolve(host)
	time.Sleep(n.wait)
	if n.fail != 0 {
		return nil, &DNSError{Kind: n.fail, Host: host}
	}
	return slices.Concat(n.v4, n.v6), nil
}

// Addrs returns the addresses that live hosts use, IPv4.
func (w *Web) Addrs() []netip.Addr { return slices.Concat(w.addrs, w.spamIP, w.hostile.addrs) }

// DialFunc is the type of Dial, for clients that take one.
type DialFunc func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
