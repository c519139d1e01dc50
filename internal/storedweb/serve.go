package storedweb

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drumbeat/internal/simweb"
)

const (
	idleTimeout  = 2 * time.Minute  // of a connection, and of a handshake
	sendTimeout  = 10 * time.Minute // of a response
	maxHeadBytes = 64 << 10         // of a request
)

// Start serves the web until Close.
func (w *Web) Start(ctx context.Context) error {
	var err error
	if w.ca, err = simweb.NewAuthority(); err != nil {
		return fmt.Errorf("storedweb: %w", err)
	}
	// All addresses of 127/8 in one listener, which no other interface reaches.
	lc := net.ListenConfig{KeepAlive: -1, Control: func(_, _ string, c syscall.RawConn) error {
		var bind error
		err := c.Control(func(fd uintptr) {
			bind = unix.SetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "lo")
		})
		return errors.Join(err, bind)
	}}
	l, err := lc.Listen(ctx, "tcp4", fmt.Sprintf("0.0.0.0:%d", w.opt.Port))
	if err != nil {
		return fmt.Errorf("storedweb: listen on the interface lo, which needs Linux 5.7 or CAP_NET_RAW: %w", err)
	}
	w.port = l.Addr().(*net.TCPAddr).AddrPort().Port()
	w.conns.Serve(l, w.serve)
	for port := w.opt.DNSPort; len(w.names) < max(1, w.opt.DNSServers); port = 0 {
		n, err := simweb.StartNameServer(port, w.resolve)
		if err != nil {
			return fmt.Errorf("storedweb: %w", err)
		}
		w.names = append(w.names, n)
	}
	return nil
}

// Port returns the port at which all hosts and ports of the web are served.
func (w *Web) Port() uint16 { return w.port }

// Dial connects to the web's server at an address; the port does not matter.
func (w *Web) Dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	ip := addr.Addr().Unmap()
	if !ip.Is4() || !ip.IsLoopback() {
		ip = local(ip)
	}
	dialer := net.Dialer{KeepAlive: -1}
	return dialer.DialContext(ctx, "tcp4", netip.AddrPortFrom(ip, w.Port()).String())
}

// session is a connection. It belongs to one goroutine.
type session struct {
	w      *Web
	noBody bool // the request is a HEAD
	conn   net.Conn
	scheme string
	ip     netip.Addr
}

// serve answers the requests of a connection. The first byte tells TLS from HTTP.
func (w *Web) serve(c net.Conn) {
	in := bufio.NewReaderSize(c, 4<<10)
	c.SetDeadline(time.Now().Add(idleTimeout))
	first, err := in.Peek(1)
	if err != nil {
		return
	}
	s := &session{w: w, conn: c, scheme: "http"}
	if a, ok := c.LocalAddr().(*net.TCPAddr); ok {
		s.ip = a.AddrPort().Addr().Unmap()
	}
	if first[0] == 22 { // the type of a handshake record, RFC 8446, 5.1
		t := tls.Server(&peeked{c, in}, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
			GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				name := strings.ToLower(hello.ServerName)
				if name == "" {
					name = s.ip.String()
				}
				return w.ca.Certificate(name)
			}})
		if t.Handshake() != nil {
			return
		}
		s.conn, s.scheme, in = t, "https", bufio.NewReaderSize(t, 4<<10)
	}
	limit := &io.LimitedReader{R: in}
	requests := bufio.NewReaderSize(limit, 4<<10)
	for {
		limit.N = maxHeadBytes
		s.conn.SetDeadline(time.Now().Add(idleTimeout))
		q, err := http.ReadRequest(requests)
		if err != nil {
			if s.noBody = false; !errors.Is(err, io.EOF) {
				s.refuse(http.StatusBadRequest, true)
			}
			return
		}
		s.conn.SetDeadline(time.Now().Add(sendTimeout))
		if !s.respond(q) || q.Close || q.ContentLength != 0 {
			return
		}
	}
}

// peeked is a connection of which some bytes have been read ahead.
type peeked struct {
	net.Conn
	in *bufio.Reader
}

// Read implements io.Reader.
func (p *peeked) Read(b []byte) (int, error) { return p.in.Read(b) }

// respond answers a request. It returns false if the connection must end.
func (s *session) respond(q *http.Request) bool {
	began := time.Now()
	w := s.w
	s.noBody = q.Method == http.MethodHead
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		return s.refuse(http.StatusMethodNotAllowed, true)
	}
	key, ok := urlKey(s.scheme + "://" + q.Host + q.RequestURI)
	if !ok || q.Host == "" || !strings.HasPrefix(q.RequestURI, "/") {
		return s.refuse(http.StatusBadRequest, true)
	}
	if w.opt.Requests != nil {
		line := began.UTC().AppendFormat(nil, "2006-01-02T15:04:05.000000Z ")
		line = append(s.ip.AppendTo(line), ' ')
		_, _ = w.opt.Requests.Write(append(append(line, key...), '\n')) // see Options
	}
	robots := q.RequestURI == "/robots.txt"
	x := w.slots.take()
	e, rec, err := x.capture(key, "")
	if err == nil && w.opt.Delays {
		wait := x.fetchTime(&e) - time.Since(began)
		w.slots.give(x)
		if wait > 0 && !s.pause(wait) {
			return false
		}
		x = w.slots.take()
		rec, err = x.open(&e)
	}
	defer w.slots.give(x)
	var r *reply
	if err == nil {
		if err := w.table.mark(&e); err != nil {
			w.counts.damaged.add(key, err.Error())
		}
		r, err = x.reply(&e, rec, s.noBody)
	}
	switch {
	case errors.Is(err, errNotStored) && rec == nil:
		if robots {
			w.counts.noRobots.Add(1)
		} else {
			w.counts.notStored.add(key, "")
		}
		return s.refuse(http.StatusNotFound, false)
	case err != nil:
		w.counts.damaged.add(key, err.Error())
		return s.refuse(http.StatusBadGateway, false)
	}
	w.counts.served.Add(1)
	if r.revisit {
		w.counts.revisits.Add(1)
	}
	if robots {
		w.counts.robots.Add(1)
	}
	return s.send(x, r) && !r.close
}

// send sends a response.
func (s *session) send(x *slot, r *reply) bool {
	buffers := net.Buffers{r.head, r.body}
	n, err := buffers.WriteTo(s.conn)
	if err == nil && r.rest > 0 {
		var more int64
		more, err = io.CopyN(s.conn, &x.reader, r.rest)
		n += more
	}
	s.w.counts.bytes.Add(n)
	return err == nil
}

// refuse answers with a status of this server.
func (s *session) refuse(status int, end bool) bool {
	text := http.StatusText(status) + "\n"
	head := "HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status) +
		"\r\nContent-Type: text/plain\r\nContent-Length: " + strconv.Itoa(len(text)) + "\r\n"
	if end {
		head += "Connection: close\r\n"
	}
	if s.noBody {
		text = ""
	}
	_, err := io.WriteString(s.conn, head+"\r\n"+text)
	return err == nil && !end
}

// pause waits. It returns false if the web is closed meanwhile.
func (s *session) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.w.conns.Stopped():
		return false
	}
}
