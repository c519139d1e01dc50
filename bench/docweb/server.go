package docweb

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"drumbeat/internal/simweb"
)

// Server serves a web. Close must be called.
type Server struct {
	web   *Web
	log   *Log
	conns *simweb.Conns
}

// Serve makes a web and serves it on its addresses, all on one port.
func Serve(o Options) (*Server, error) {
	list, err := listen(&o)
	if err != nil {
		return nil, err
	}
	s := &Server{conns: simweb.NewConns()}
	if s.web, err = New(o); err != nil {
		for _, l := range list {
			err = errors.Join(err, l.Close())
		}
		return nil, err
	}
	s.log = newLog(s.web)
	for _, l := range list {
		s.conns.Serve(l, func(c net.Conn) {
			s.serve(c)
			part(c)
		})
	}
	return s, nil
}

// portTries is the number of ports that Serve tries.
const portTries = 100

// listen listens on all addresses, and sets o.Port to the port.
func listen(o *Options) (list []net.Listener, err error) {
	hosts := min(o.Addrs, o.Hosts)
	if o.Bad {
		hosts = o.Addrs + badHosts
	}
	var addrs []netip.Addr
	for i := range hosts {
		addrs = append(addrs, address(i))
	}
	for try := range portTries {
		port := o.Port
		if port > 0 {
			port += try
		}
		var got uint16
		if list, got, err = simweb.ListenAll(addrs, uint16(port)); err == nil {
			o.Port = int(got)
			return list, nil
		}
	}
	return nil, fmt.Errorf("docweb: find a free port on %d addresses: %w", hosts, err)
}

// Web returns the web.
func (s *Server) Web() *Web { return s.web }

// Log returns the server's log.
func (s *Server) Log() *Log { return s.log }

// Close closes all connections and waits for every goroutine.
func (s *Server) Close() error {
	s.conns.Close()
	return nil
}

// Hangup closes all connections, so that the next crawler does not find its predecessor's.
func (s *Server) Hangup() { s.conns.Hangup() }

// part prepares the end of a connection. It reads what the client has sent already: otherwise the kernel would reset
// the connection, and the client could lose the last answer.
func part(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok && t.CloseWrite() == nil {
		io.CopyN(io.Discard, c, 4*maxHead)
	}
}

// maxHead bounds the head of a request.
const maxHead = 16 << 10

// serve answers requests until the client closes the connection.
func (s *Server) serve(c net.Conn) {
	in := make([]byte, 0, 4<<10)
	var out []byte
	for {
		end := bytes.Index(in, []byte("\r\n\r\n"))
		for end < 0 {
			if len(in) == maxHead {
				return
			}
			if len(in) == cap(in) {
				in = append(make([]byte, 0, maxHead), in...)
			}
			n, err := c.Read(in[len(in):cap(in)])
			in = in[:len(in)+n]
			if end = bytes.Index(in, []byte("\r\n\r\n")); end < 0 && err != nil {
				return
			}
		}
		q, ok := parseRequest(in[:end])
		in = append(in[:0], in[end+4:]...)
		if !ok {
			return
		}
		n, text, ok := s.answer(out[:0], &q)
		if !ok {
			io.Copy(io.Discard, c) // until the client gives up, or Close
			return
		}
		out = text
		if n.host != nil && !q.head {
			s.log.add(n) // before the client can have the answer
		}
		if _, err := c.Write(out); err != nil {
			return
		}
		if q.last {
			return
		}
	}
}

// request is the part of a request that matters.
type request struct {
	path string
	host string // without port
	head bool
	gzip bool // accepted
	last bool // the connection ends
}

func parseRequest(text []byte) (q request, ok bool) {
	line, rest, _ := bytes.Cut(text, []byte("\r\n"))
	method, target, found := bytes.Cut(line, []byte(" "))
	target, version, found2 := bytes.Cut(target, []byte(" "))
	if !found || !found2 || string(method) != "GET" && string(method) != "HEAD" {
		return q, false
	}
	q.head, q.last = string(method) == "HEAD", string(version) == "HTTP/1.0"
	q.path = string(target)
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("host")):
			host := string(bytes.TrimSpace(value))
			q.host, _, _ = strings.Cut(host, ":")
		case bytes.EqualFold(name, []byte("accept-encoding")):
			q.gzip = bytes.Contains(value, []byte("gzip"))
		case bytes.EqualFold(name, []byte("connection")):
			q.last = bytes.EqualFold(bytes.TrimSpace(value), []byte("close"))
		}
	}
	return q, true
}

// answer appends the response. Not ok: there is none.
func (s *Server) answer(b []byte, q *request) (n node, _ []byte, ok bool) {
	w := s.web
	h := w.byName[strings.ToLower(q.host)]
	if h == nil {
		return n, reply{status: 421, mime: plain}.append(b, q.head), true
	}
	switch h.role {
	case silent:
		return n, nil, false
	case slow:
		if !s.sleep(w.opt.SlowDelay) {
			return n, nil, false
		}
	}
	if q.path == "/robots.txt" || q.path == robotsMoved && h.Robots == RobotsMoved {
		n = node{host: h, kind: other}
		if h.Robots == RobotsSlow && !s.sleep(w.opt.RobotsDelay) {
			return n, nil, false
		}
		r := h.robots()
		if q.path == robotsMoved {
			r = reply{status: 200, mime: plain, body: "User-agent: *\nDisallow:\n"}
		}
		return n, r.append(b, q.head), true
	}
	n, ok = w.nodeOf(h, q.path)
	switch {
	case !ok:
		return node{host: h, kind: other}, notFound.append(b, q.head), true
	case n.kind == gone:
		return n, notFound.append(b, q.head), true
	case n.kind == moved:
		to := w.target(n)
		return n, reply{status: 301, mime: html, location: w.url(to)}.append(b, q.head), true
	case h.role > lists:
		return n, reply{status: 200, mime: html, body: "<!DOCTYPE html>\n<title>" + q.path +
			"</title>\n<p>A page.</p>\n"}.append(b, q.head), true
	}
	return n, w.appendPage(b, n, q), true
}

// appendPage appends the response with a page that has been rendered.
func (w *Web) appendPage(b []byte, n node, q *request) []byte {
	st := &n.host.store[n.n]
	b = append(b, "HTTP/1.1 200 OK\r\nServer: docweb\r\nVary: Accept-Encoding\r\nContent-Type: "+html+
		"\r\nContent-Length: "...)
	if !n.host.Plain && !q.gzip { // rare
		raw := w.Body(n.host, n.n)
		b = append(strconv.AppendInt(b, int64(len(raw)), 10), "\r\n\r\n"...)
		if q.head {
			return b
		}
		return append(b, raw...)
	}
	b = append(strconv.AppendInt(b, int64(st.sent), 10), "\r\n"...)
	if !n.host.Plain {
		b = append(b, "Content-Encoding: gzip\r\n"...)
	}
	b = append(b, "\r\n"...)
	if q.head {
		return b
	}
	return w.appendBody(b, n.host, n.n)
}

// Body returns a page of an ordinary host, decoded.
func (w *Web) Body(h *Host, i int) []byte {
	body := w.appendBody(nil, h, i)
	if h.Plain {
		return body
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err == nil {
		body, err = io.ReadAll(z)
	}
	if err != nil {
		panic("BUG: docweb: " + err.Error())
	}
	return body
}

// sleep waits; false: the server was closed meanwhile.
func (s *Server) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.conns.Stopped():
		return false
	}
}
