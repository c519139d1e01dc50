package simweb

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"
)

// LogHost is a host name at which a socket server answers GET /log with the log's Snapshot as JSON (http
// only, on any of its addresses; no name server knows it).
const LogHost = "log.simweb.internal"

const (
	maxHeadBytes = 16 << 10
	idleTimeout  = 2 * time.Minute // of an idle connection
)

// errHead is the error for a request that isn't an HTTP/1.x GET or HEAD.
var errHead = errors.New("simweb: read request: malformed head")

// session serves one connection. It is for one goroutine.
type session struct {
	w        *Web
	conn     net.Conn
	https    bool
	ip       netip.Addr
	stop     <-chan struct{} // closed when the server closes; nil in the in-process form
	requests io.Writer       // of ServerOptions
	p        *painter
	in       []byte // read, not yet used
	used     int    // length of the current request in in
	small    []byte // compressed body
	out      []byte // framed response
	log      *connLog
	run      *running // the request to a hostile host, if that is being answered
	sent     int64    // bytes of its response
	code     int      // its status, if the handler set it
}

// wish is the content of a request head besides the URL.
type wish struct {
	request
	headOnly bool
	gzip     bool
	close    bool
}

// newSession takes buffers from the web's pool; serve returns them.
func (w *Web) newSession(conn net.Conn, ip netip.Addr, stop <-chan struct{}) *session {
	s, _ := w.sessions.Get().(*session)
	if s == nil {
		s = &session{w: w, p: &painter{w: w}, in: make([]byte, 0, 1024)}
	}
	s.conn, s.ip, s.stop, s.https, s.in = conn, ip, stop, false, s.in[:0]
	return s
}

// serve answers requests until the connection ends. It closes conn; the session must not be used after.
func (s *session) serve() {
	s.log = s.w.log.openConn(s.ip)
	s.loop()
	s.conn.Close()
	s.log.close()
	s.conn, s.log, s.stop, s.requests = nil, nil, nil, nil
	s.w.sessions.Put(s)
}

func (s *session) loop() {
	for {
		if err := s.conn.SetDeadline(time.Now().Add(idleTimeout)); err != nil {
			return
		}
		head, err := s.readHead()
		if err != nil {
			if err == errHead {
				io.WriteString(s.conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			}
			return
		}
		q, err := s.parseHead(head)
		if err != nil {
			io.WriteString(s.conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			return
		}
		if !s.respond(&q) || q.close {
			return
		}
		s.in = s.in[:copy(s.in, s.in[s.used:])]
	}
}

// readHead returns the bytes up to and including the empty line.
func (s *session) readHead() ([]byte, error) {
	from := 0
	for {
		if i := bytes.Index(s.in[from:], []byte("\r\n\r\n")); i >= 0 {
			s.used = from + i + 4
			return s.in[:s.used], nil
		}
		if len(s.in) >= maxHeadBytes {
			return nil, errHead
		}
		from = max(0, len(s.in)-3)
		if len(s.in) == cap(s.in) {
			s.in = append(s.in, make([]byte, len(s.in))...)[:len(s.in)]
		}
		n, err := s.conn.Read(s.in[len(s.in):cap(s.in)])
		s.in = s.in[:len(s.in)+n]
		if n == 0 && err != nil {
			return nil, err
		}
	}
}

// parseHead reads a request line and the relevant fields.
func (s *session) parseHead(head []byte) (wish, error) {
	q := wish{request: request{https: s.https}}
	line, rest, _ := bytes.Cut(head, []byte("\r\n"))
	method, line, _ := bytes.Cut(line, []byte(" "))
	target, version, _ := bytes.Cut(line, []byte(" "))
	switch string(method) {
	case "GET":
	case "HEAD":
		q.headOnly = true
	default:
		return q, errHead
	}
	switch string(version) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		q.close = true
	default:
		return q, errHead
	}
	if len(target) == 0 || target[0] != '/' || bytes.IndexByte(target, '#') >= 0 {
		return q, errHead
	}
	q.path = target
	hosts := 0
	for len(rest) > 2 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return q, errHead
		}
		value = bytes.TrimSpace(value)
		switch len(name) {
		case len("Host"):
			if bytes.EqualFold(name, []byte("Host")) {
				q.host, q.port = splitHost(value, s.https)
				hosts++
			}
		case len("Connection"):
			if bytes.EqualFold(name, []byte("Connection")) {
				q.close = bytes.EqualFold(value, []byte("close")) ||
					q.close && !bytes.EqualFold(value, []byte("keep-alive"))
			}
		case len("Accept-Encoding"):
			if bytes.EqualFold(name, []byte("Accept-Encoding")) {
				q.gzip = bytes.Contains(value, []byte("gzip"))
			}
		case len("Content-Length"):
			if bytes.EqualFold(name, []byte("Content-Length")) && string(value) != "0" {
				return q, errHead
			}
		}
	}
	if hosts != 1 {
		return q, errHead
	}
	return q, nil
}

// respond answers one request; it returns false to end the connection.
func (s *session) respond(q *wish) bool {
	if q.host == LogHost && s.stop != nil {
		return s.respondLog(q)
	}
	s.writeRequest(q)
	if o := s.w.dark(q.host, false); o != nil {
		s.hang(o)
		return false
	}
	if h := s.w.hostileHost(q.host); h != nil {
		return s.respondHostile(h, q)
	}
	a := s.p.answer(&q.request)
	run := s.log.begin(q.host, a, &q.request)
	if d := s.w.opt.SlowDelay; d > 0 && a.node.host >= 0 && s.w.hosts[a.node.host].slow {
		if !s.wait(d) {
			s.log.end(run, true)
			return false
		}
	}
	s.frame(a, q)
	s.log.end(run, q.close)
	if _, err := s.conn.Write(s.out); err != nil {
		return false
	}
	return true
}

// writeRequest writes the line of a request.
func (s *session) writeRequest(q *wish) {
	if s.requests == nil {
		return
	}
	line := time.Now().UTC().AppendFormat(nil, "2006-01-02T15:04:05.000000Z ")
	line = append(s.ip.AppendTo(line), ' ')
	scheme, usual := "http://", uint16(80)
	if s.https {
		scheme, usual = "https://", 443
	}
	line = append(append(line, scheme...), q.host...)
	if q.port != usual {
		line = strconv.AppendUint(append(line, ':'), uint64(q.port), 10)
	}
	line = append(append(line, q.path...), '\n')
	_, _ = s.requests.Write(line) // see ServerOptions
}

// hang leaves the client without a response for the duration of an outage with Hang.
func (s *session) hang(o *outage) {
	if !o.Hang || s.stop == nil {
		return
	}
	s.conn.SetReadDeadline(time.Time{})
	gone := make(chan struct{})
	go func() { // ends when the client closes, or with the deadline below
		defer close(gone)
		var b [1]byte
		for {
			if _, err := s.conn.Read(b[:]); err != nil {
				return
			}
		}
	}()
	select {
	case <-o.over:
	case <-gone:
	case <-s.stop:
	}
	s.conn.SetReadDeadline(time.Unix(1, 0))
	<-gone
}

// wait waits for d while it reads ahead. It returns false if the client closes or the server stops.
func (s *session) wait(d time.Duration) bool {
	defer func() { s.conn.SetDeadline(time.Now().Add(idleTimeout)) }()
	now := time.Now()
	for end := now.Add(d); now.Before(end); now = time.Now() {
		until := end
		if s.run != nil {
			until = now.Add(min(end.Sub(now), aliveEvery))
		}
		s.conn.SetReadDeadline(until)
		begin, err := s.readAhead()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		if s.run != nil && begin.Before(until) { // else it failed without a look at the connection
			s.log.alive(s.run, begin)
		}
	}
	return true
}

// readAhead reads until an error, or until there is no room for more. It returns when the last read began.
func (s *session) readAhead() (begin time.Time, err error) {
	for len(s.in) < maxHeadBytes {
		if len(s.in) == cap(s.in) {
			s.in = append(s.in, make([]byte, len(s.in))...)[:len(s.in)]
		}
		begin = time.Now()
		n, err := s.conn.Read(s.in[len(s.in):cap(s.in)])
		s.in = s.in[:len(s.in)+n]
		if err != nil {
			return begin, err
		}
	}
	return begin, nil
}

func (s *session) respondLog(q *wish) bool {
	var b bytes.Buffer
	if _, err := s.w.log.Snapshot().WriteTo(&b); err != nil {
		return false
	}
	a := &answer{status: 200, ctype: "application/json", body: b.Bytes()}
	s.frame(a, q)
	_, err := s.conn.Write(s.out)
	return err == nil
}

// frame builds head and body in s.out.
func (s *session) frame(a *answer, q *wish) {
	body := a.body
	zipped := a.gzip && q.gzip
	if zipped {
		body = s.compress(body)
	}
	chunked := a.chunked && !q.headOnly
	o := append(s.out[:0], "HTTP/1.1 "...)
	o = strconv.AppendInt(o, int64(a.status), 10)
	o = append(o, statusText(a.status)...)
	o = append(o, "Server: simweb\r\nContent-Type: "...)
	o = append(o, a.ctype...)
	if len(a.location) > 0 {
		o = append(o, "\r\nLocation: "...)
		o = append(o, a.location...)
	}
	if zipped {
		o = append(o, "\r\nContent-Encoding: gzip"...)
	}
	if q.close {
		o = append(o, "\r\nConnection: close"...)
	}
	if chunked {
		o = append(o, "\r\nTransfer-Encoding: chunked\r\n\r\n"...)
		for half := len(body)/2 + 1; len(body) > 0; {
			n := min(half, len(body))
			o = strconv.AppendInt(o, int64(n), 16)
			o = append(o, "\r\n"...)
			o = append(o, body[:n]...)
			o = append(o, "\r\n"...)
			body = body[n:]
		}
		s.out = append(o, "0\r\n\r\n"...)
		return
	}
	o = append(o, "\r\nContent-Length: "...)
	o = strconv.AppendInt(o, int64(len(body)), 10)
	o = append(o, "\r\n\r\n"...)
	if !q.headOnly {
		o = append(o, body...)
	}
	s.out = o
}

// compress gzips b into the session's buffer.
func (s *session) compress(b []byte) []byte {
	out := (*bytesWriter)(&s.small)
	s.small = s.small[:0]
	z, _ := s.w.zips.Get().(*gzip.Writer)
	if z == nil {
		z, _ = gzip.NewWriterLevel(out, gzip.BestSpeed) // the level is valid
	} else {
		z.Reset(out)
	}
	z.Write(b) // a bytesWriter doesn't fail
	z.Close()
	s.w.zips.Put(z)
	return s.small
}

type bytesWriter []byte

func (w *bytesWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}

func statusText(status int) string {
	switch status {
	case 200:
		return " OK\r\n"
	case 301:
		return " Moved Permanently\r\n"
	case 302:
		return " Found\r\n"
	case 403:
		return " Forbidden\r\n"
	case 404:
		return " Not Found\r\n"
	case 500:
		return " Internal Server Error\r\n"
	}
	return " Status\r\n"
}
