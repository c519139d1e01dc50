package simweb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

// portTries is the number of attempts to find a port that is free on all addresses.
const portTries = 20

// ServerOptions are the ports of the servers. Zero means a port that is free on all its addresses.
type ServerOptions struct {
	HTTPPort   uint16
	HTTPSPort  uint16
	DNSPort    uint16 // of the first name server; the others get free ones
	DNSServers int    // 0 means 1
	// DNSDelay is the delay of DNS answers. Every DNSLossEvery-th query over UDP gets no answer; 0: none is
	// lost.
	DNSDelay     time.Duration
	DNSLossEvery int
	// Requests gets one line for each HTTP request when its header has been read: the time (RFC 3339, UTC), the
	// server's address and the URL, in one Write. It must be safe for concurrent use; its errors are ignored.
	// nil: no lines.
	Requests io.Writer
}

// Server is a web on sockets: HTTP and HTTPS on every address of the web, name servers on 127.0.0.1. It has
// one goroutine for each listener, connection and name server socket; Close ends them and waits.
type Server struct {
	w        *Web
	requests io.Writer // nil: no lines
	http     uint16
	https    uint16
	names    []*nameServer
	accepts  *Conns
	release  func() bool // of the context's AfterFunc
	once     sync.Once
	err      error
}

// Start starts the servers. They stop when ctx ends; the caller must still call Close, which waits for them.
func (w *Web) Start(ctx context.Context, opt ServerOptions) (*Server, error) {
	s := &Server{w: w, requests: opt.Requests, accepts: NewConns()}
	var err error
	if s.http, err = s.listen(opt.HTTPPort, nil); err == nil {
		s.https, err = s.listen(opt.HTTPSPort, w.tlsConfig())
	}
	for i := 0; err == nil && i < max(1, opt.DNSServers); i++ {
		var n *nameServer
		if n, err = startNameServer(opt.DNSPort,
			&badNetwork{names: w, opt: opt, stop: s.accepts.Stopped()}); err == nil {
			s.names = append(s.names, n)
		}
		opt.DNSPort = 0
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("simweb: start servers: %w", err), s.Close())
	}
	s.release = context.AfterFunc(ctx, s.halt)
	return s, nil
}

// HTTPPort returns the port that serves port 80 (and 8080) of the web's hosts.
func (s *Server) HTTPPort() uint16 { return s.http }

// HTTPSPort returns the port that serves port 443.
func (s *Server) HTTPSPort() uint16 { return s.https }

// Map converts an address of the web, with port 80, 443 or 8080, to the address of the server.
func (s *Server) Map(a netip.AddrPort) netip.AddrPort {
	if a.Port() == 443 {
		return netip.AddrPortFrom(a.Addr(), s.https)
	}
	return netip.AddrPortFrom(a.Addr(), s.http)
}

// DNSAddrs returns the addresses of the name servers.
func (s *Server) DNSAddrs() []netip.AddrPort {
	var list []netip.AddrPort
	for _, n := range s.names {
		list = append(list, n.addr)
	}
	return list
}

// Close closes all connections and waits for all goroutines of the server.
func (s *Server) Close() error {
	if s.release != nil {
		s.release()
	}
	s.halt()
	s.accepts.Close()
	return s.err
}

// halt closes everything, once.
func (s *Server) halt() {
	s.once.Do(func() {
		s.accepts.Halt()
		var errs []error
		for _, n := range s.names {
			errs = append(errs, n.close())
		}
		if err := errors.Join(errs...); err != nil {
			s.err = fmt.Errorf("simweb: close name servers: %w", err)
		}
	})
}

// listen opens one port on all addresses and starts the accepting goroutines.
func (s *Server) listen(port uint16, secure *tls.Config) (uint16, error) {
	addrs := s.w.Addrs()
	if s.w.opt.IPv6 > 0 {
		addrs = slices.Concat(addrs, s.w.opt.IPv6Addrs)
	}
	list, port, err := ListenAll(addrs, port)
	for i, l := range list {
		s.accepts.Serve(l, func(c net.Conn) { s.session(c, addrs[i], secure) })
	}
	return port, err
}

// ListenAll listens on one TCP port of all addresses, and returns the port; 0 is one that is free on all.
func ListenAll(addrs []netip.Addr, port uint16) (list []net.Listener, got uint16, err error) {
	for range portTries {
		if list, got, err = listenAll(addrs, port); err == nil || port != 0 {
			break
		}
	}
	return list, got, err
}

func listenAll(addrs []netip.Addr, port uint16) ([]net.Listener, uint16, error) {
	lc := net.ListenConfig{KeepAlive: -1}
	var list []net.Listener
	for _, a := range addrs {
		l, err := lc.Listen(context.Background(), "tcp", net.JoinHostPort(a.String(), strconv.Itoa(int(port))))
		if err != nil {
			for _, l := range list {
				l.Close()
			}
			return nil, 0, err
		}
		list = append(list, l)
		port = uint16(l.Addr().(*net.TCPAddr).Port)
	}
	return list, port, nil
}

// session serves one connection.
func (s *Server) session(c net.Conn, ip netip.Addr, secure *tls.Config) {
	port := uint16(80)
	if secure != nil {
		port = 443
	}
	if s.w.hostileAccept(c, ip, port) {
		return
	}
	session := s.w.newSession(c, ip, s.accepts.Stopped())
	session.requests = s.requests
	if secure != nil {
		session.conn, session.https = tls.Server(c, secure), true
	}
	session.serve()
}
