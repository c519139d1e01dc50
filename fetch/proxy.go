package fetch

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
)

// ProxyKind is the protocol of a Proxy.
type ProxyKind uint8

const (
	// ProxyHTTP is CONNECT of HTTP/1.1 (RFC 9110, 9.3.6).
	ProxyHTTP ProxyKind = iota
	// ProxySOCKS5 is RFC 1928, with user and password of RFC 1929.
	ProxySOCKS5
)

// String returns the scheme of the kind's URLs.
func (k ProxyKind) String() string { return [...]string{"http", "socks5"}[k] }

// Proxy is a server that connects to sites. Do asks it for a tunnel to the granted address, for http and https
// alike, so the proxy looks up no names and Do's checks of the address hold. The proxy's own address is the
// operator's choice and is not checked.
type Proxy struct {
	Kind ProxyKind
	Addr netip.AddrPort
	// User and Password are sent to the proxy; User "" sends none.
	User, Password string
}

// maxProxyReply bounds the head of a proxy's reply.
const maxProxyReply = 8 << 10

// valid reports whether the proxy can be asked.
func (p *Proxy) valid() bool {
	return p == nil || p.Addr.IsValid() && p.Addr.Port() != 0 && p.Kind <= ProxySOCKS5 &&
		len(p.User) <= 255 && len(p.Password) <= 255
}

// peer returns the address to dial: that of the proxy, or the granted one.
func (x *exchange) peer() netip.AddrPort {
	if p := x.req.Proxy; p != nil {
		return netip.AddrPortFrom(p.Addr.Addr().Unmap(), p.Addr.Port())
	}
	return x.resp.Remote
}

// proxyKey returns the proxy as a part of the key of idle connections.
func (x *exchange) proxyKey() Proxy {
	if p := x.req.Proxy; p != nil {
		return *p
	}
	return Proxy{}
}

// proxyFault is the fault of an exchange with a proxy. A failure of the proxy is ours, a lack of descriptors too.
func (x *exchange) proxyFault(err error) *Error {
	e := x.fault(StageDial, err)
	switch e.Kind {
	case KindCanceled, KindResources:
		return e
	}
	return &Error{Stage: StageDial, Kind: KindProxy, Err: err}
}

// tunnel asks the proxy for a connection to the granted address.
func (x *exchange) tunnel() *Error {
	c, p := x.conn, x.req.Proxy
	c.arm(x.lim.Connect)
	open := x.openHTTP
	if p.Kind == ProxySOCKS5 {
		open = x.openSOCKS5
	}
	err := open(c, p)
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if isTimeout(err) && x.ctx.Err() == nil { // it waits for the site
		return &Error{Stage: StageDial, Kind: KindTimeout, Err: err}
	}
	return x.proxyFault(err)
}

// openHTTP opens a tunnel by CONNECT.
func (x *exchange) openHTTP(c *conn, p *Proxy) error {
	to := x.resp.Remote.String()
	head := "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n"
	if p.User != "" {
		head += "Proxy-Authorization: Basic " +
			base64.StdEncoding.EncodeToString([]byte(p.User+":"+p.Password)) + "\r\n"
	}
	if _, err := c.Write([]byte(head + "\r\n")); err != nil {
		return err
	}
	var reply []byte
	room := make([]byte, 512)
	for {
		n, err := c.Read(room)
		reply = append(reply, room[:n]...)
		end := bytes.Index(reply, []byte("\r\n\r\n"))
		switch {
		case end >= 0 && end+len("\r\n\r\n") < len(reply) && statusOf(reply)/100 == 2:
			return errors.New("the proxy sent data before the request")
		case end >= 0:
			return proxyStatus(statusOf(reply))
		case err != nil:
			return fmt.Errorf("reply of the proxy: %w", err)
		case len(reply) > maxProxyReply:
			return errors.New("the proxy's reply has no end")
		}
	}
}

// statusOf returns the status of a reply's head; 0 if there is none.
func statusOf(head []byte) int {
	line, _, _ := bytes.Cut(head, []byte("\r\n"))
	proto, rest, _ := bytes.Cut(line, []byte(" "))
	if !bytes.HasPrefix(proto, []byte("HTTP/1.")) || len(rest) < 3 {
		return 0
	}
	n, err := strconv.Atoi(string(rest[:3]))
	if err != nil || n < 100 {
		return 0
	}
	return n
}

// proxyStatus is the result of CONNECT. A gateway's error is about the site.
func proxyStatus(status int) error {
	err := fmt.Errorf("the proxy answered %d", status)
	switch {
	case status/100 == 2:
		return nil
	case status == 502:
		return &Error{Stage: StageDial, Kind: KindUnreachable, Err: err}
	case status == 504:
		return &Error{Stage: StageDial, Kind: KindTimeout, Err: err}
	}
	return err
}

// Bytes of SOCKS5.
const (
	socksVersion  = 5
	socksNone     = 0 // no credentials
	socksPassword = 2
	socksConnect  = 1
	socksIPv4     = 1
	socksName     = 3
	socksIPv6     = 4
)

// openSOCKS5 opens a tunnel by SOCKS5.
func (x *exchange) openSOCKS5(c *conn, p *Proxy) error {
	method, greeting := byte(socksNone), []byte{socksVersion, 1, socksNone}
	if p.User != "" {
		method, greeting = socksPassword, []byte{socksVersion, 1, socksPassword}
	}
	reply := make([]byte, 257)
	ask := func(send []byte, n int) ([]byte, error) {
		if _, err := c.Write(send); err != nil {
			return nil, err
		}
		_, err := io.ReadFull(c, reply[:n])
		return reply[:n], err
	}
	// Until the proxy knows the site, it does not wait for it.
	got, err := ask(greeting, 2)
	if err != nil {
		return x.proxyFault(fmt.Errorf("reply of the proxy: %w", err))
	}
	if got[0] != socksVersion || got[1] != method {
		return fmt.Errorf("the proxy refuses SOCKS5 method %d", method)
	}
	if method == socksPassword {
		login := append([]byte{1, byte(len(p.User))}, p.User...)
		login = append(append(login, byte(len(p.Password))), p.Password...)
		if got, err = ask(login, 2); err != nil {
			return x.proxyFault(fmt.Errorf("reply of the proxy: %w", err))
		} else if got[1] != 0 {
			return errors.New("the proxy refuses the credentials")
		}
	}
	to := x.resp.Remote
	request := []byte{socksVersion, socksConnect, 0, socksIPv6}
	if to.Addr().Is4() {
		request[3] = socksIPv4
	}
	request = append(request, to.Addr().AsSlice()...)
	request = append(request, byte(to.Port()>>8), byte(to.Port()))
	if got, err = ask(request, 5); err != nil { // with the first byte of the bound address
		return fmt.Errorf("reply of the proxy: %w", err)
	}
	if got[0] != socksVersion || got[1] != 0 {
		return socksResult(got[1])
	}
	left := map[byte]int{socksIPv4: 4, socksIPv6: 16, socksName: 1 + int(got[4])}[got[3]]
	if left == 0 {
		return errors.New("the proxy's reply has no address")
	}
	_, err = io.ReadFull(c, reply[:left-1+2]) // the rest of the address, and the port
	return err
}

// socksResult is the result of a refused request (RFC 1928, 6).
func socksResult(code byte) error {
	err := fmt.Errorf("the proxy answered %d", code)
	switch code {
	case 3, 4:
		return &Error{Stage: StageDial, Kind: KindUnreachable, Err: err}
	case 5:
		return &Error{Stage: StageDial, Kind: KindRefused, Err: err}
	case 6:
		return &Error{Stage: StageDial, Kind: KindTimeout, Err: err}
	}
	return err
}
