package simweb

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// FlatServer is a flat web on sockets: one port on all its addresses, and name servers on 127.0.0.1. A
// response costs a read, a write and a close; there is no log and no delay. It has a goroutine for each
// listener, connection and name server; Close ends them and waits.
type FlatServer struct {
	f        *Flat
	port     uint16
	names    *nameServer
	ca       *Authority  // nil without HTTPS
	tls      *tls.Config // shared, so sessions can be resumed
	accepts  *Conns
	sessions sync.Pool
	pages, robots, other,
	lookups, conns atomic.Int64
}

// FlatCounts counts the answers of a FlatServer.
type FlatCounts struct{ Pages, Robots, Other, Lookups, Conns int64 }

// Start serves the web until Close.
func (f *Flat) Start() (*FlatServer, error) {
	s := &FlatServer{f: f, accepts: NewConns()}
	s.sessions.New = func() any { return &flatSession{s: s, in: make([]byte, 8<<10), FlatSession: FlatSession{f: f}} }
	fail := func(err error) (*FlatServer, error) {
		return nil, errors.Join(fmt.Errorf("simweb: start flat web: %w", err), s.Close())
	}
	var err error
	if f.opt.HTTPS {
		if s.ca, err = NewAuthority(); err != nil {
			return fail(err)
		}
		s.tls = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
			GetCertificate: s.certificate}
	}
	listeners, port, err := ListenAll(f.Addrs(), 0)
	if err != nil {
		return fail(err)
	}
	s.port = port
	for _, l := range listeners {
		s.accepts.Serve(l, func(c net.Conn) {
			x := s.sessions.Get().(*flatSession)
			x.serve(c)
			s.sessions.Put(x)
		})
	}
	if s.names, err = startNameServer(0, Resolve(s.resolve)); err != nil {
		return fail(err)
	}
	return s, nil
}

// Port returns the port on each of the web's addresses, for all ports of URLs.
func (s *FlatServer) Port() uint16 { return s.port }

// DNS returns the address of the name server.
func (s *FlatServer) DNS() netip.AddrPort { return s.names.addr }

// RootDER returns the certificate of the authority; nil without HTTPS.
func (s *FlatServer) RootDER() []byte {
	if s.ca == nil {
		return nil
	}
	return s.ca.root.Raw
}

// Counts returns the counts so far.
func (s *FlatServer) Counts() FlatCounts {
	return FlatCounts{Pages: s.pages.Load(), Robots: s.robots.Load(), Other: s.other.Load(), Lookups: s.lookups.Load(),
		Conns: s.conns.Load()}
}

// Close closes all connections and waits for every goroutine.
func (s *FlatServer) Close() error {
	s.accepts.Close()
	if s.names == nil {
		return nil
	}
	if err := s.names.close(); err != nil {
		return fmt.Errorf("simweb: close flat web: %w", err)
	}
	return nil
}

// certificate returns the certificate of the host's PLD.
func (s *FlatServer) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	host, ok := s.f.HostOf([]byte(hello.ServerName))
	if !ok {
		return nil, fmt.Errorf("simweb: shake hands as %q: no such host", hello.ServerName)
	}
	return s.ca.Certificate(string(s.f.AppendPLD(nil, host)))
}

// resolve answers the name server's questions.
func (s *FlatServer) resolve(name string) (addrs []netip.Addr, ttl time.Duration) {
	s.lookups.Add(1)
	if host, ok := s.f.HostOf([]byte(name)); ok {
		addrs = []netip.Addr{s.f.AddrOf(host)}
	}
	return addrs, 24 * time.Hour
}

// flatSession serves one connection at a time.
type flatSession struct {
	s  *FlatServer
	in []byte
	FlatSession
}

// FlatSession answers requests, one after the other; it is for one goroutine.
type FlatSession struct {
	f         *Flat
	painter   FlatPainter
	page, out []byte
}

// NewFlatSession makes a session without a connection.
func NewFlatSession(f *Flat) *FlatSession { return &FlatSession{f: f} }

// flatIdle is the maximum idle time of a connection.
const flatIdle = 30 * time.Second

func (x *flatSession) serve(c net.Conn) {
	defer c.Close()
	x.s.conns.Add(1)
	if x.s.ca != nil {
		t := tls.Server(c, x.s.tls)
		ctx, cancel := context.WithTimeout(context.Background(), flatIdle)
		defer cancel()
		if t.HandshakeContext(ctx) != nil {
			return
		}
		c = t
	}
	have := 0
	for again := false; ; again = true {
		end := bytes.Index(x.in[:have], endOfHead)
		for end < 0 {
			if again || x.s.ca != nil { // the first request comes immediately or soon
				_ = c.SetReadDeadline(time.Now().Add(flatIdle)) // the read returns the error
			}
			n, err := c.Read(x.in[have:])
			have += n
			if err != nil || have == len(x.in) {
				return
			}
			end = bytes.Index(x.in[:have], endOfHead)
		}
		out, what := x.Answer(x.in[:end+len(endOfHead)])
		switch {
		case what.Robots:
			x.s.robots.Add(1)
		case what.Page:
			x.s.pages.Add(1)
		default:
			x.s.other.Add(1)
		}
		if _, err := c.Write(out); err != nil || !what.More {
			return
		}
		have = copy(x.in, x.in[end+len(endOfHead):have])
	}
}

var (
	endOfHead   = []byte("\r\n\r\n")
	hostField   = []byte("\r\nHost: ")
	closeOption = []byte("Connection: close")
	gzipOption  = []byte("gzip")
)

// FlatAnswer describes a response: a page, a robots.txt, or neither. More means that the connection stays
// open.
type FlatAnswer struct{ Page, Robots, More bool }

// Answer returns the whole response to a request head, valid until the next call.
func (x *FlatSession) Answer(head []byte) (response []byte, what FlatAnswer) {
	line, _, _ := bytes.Cut(head, endOfHead[:2])
	_, path, _ := bytes.Cut(line, []byte(" "))
	path, _, _ = bytes.Cut(path, []byte(" "))
	host, ok := uint32(0), false
	if i := bytes.Index(head, hostField); i >= 0 {
		name, _, _ := bytes.Cut(head[i+len(hostField):], endOfHead[:2])
		name, _, _ = bytes.Cut(name, []byte(":"))
		host, ok = x.f.HostOf(name)
	}
	what.More = !bytes.Contains(head, closeOption)
	gz := x.f.opt.Gzip && bytes.Contains(head, gzipOption)
	status, ctype := "200 OK", "text/html; charset=utf-8"
	page, isPage := x.f.PageOf(host, path)
	switch {
	case ok && string(path) == robotsPath:
		what.Robots = true
		ctype, gz = "text/plain", false
		x.page = append(x.page[:0], flatRobots...)
	case ok && isPage:
		what.Page = true
		x.page = x.painter.AppendPage(x.page[:0], x.f, page, gz)
	default:
		status, ctype, gz = "404 Not Found", "text/plain", false
		x.page = append(x.page[:0], "no such page\n"...)
	}
	x.out = appendFlatHead(x.out[:0], status, ctype, len(x.page), gz, what.More)
	x.out = append(x.out, x.page...)
	return x.out, what
}

// appendFlatHead appends the head of a response, about 300 bytes, like a typical server's.
func appendFlatHead(dst []byte, status, ctype string, length int, gzip, more bool) []byte {
	dst = append(append(dst, "HTTP/1.1 "...), status...)
	dst = append(append(dst,
		"\r\nServer: simweb/1.0 (flat)\r\nDate: Sun, 22 Nov 2026 08:00:00 GMT\r\nContent-Type: "...), ctype...)
	dst = strconv.AppendInt(append(dst, "\r\nContent-Length: "...), int64(length), 10)
	dst = append(dst,
		"\r\nLast-Modified: Sat, 21 Nov 2026 21:14:04 GMT\r\nETag: \"6740a1cc-61a8\"\r\nVary: Accept-Encoding\r\n"+
			"Cache-Control: max-age=600\r\nX-Content-Type-Options: nosniff\r\n"...)
	if gzip {
		dst = append(dst, "Content-Encoding: gzip\r\n"...)
	}
	if !more {
		dst = append(dst, "Connection: close\r\n"...)
	}
	return append(dst, "\r\n"...)
}
