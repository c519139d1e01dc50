package simweb

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"

	"golang.org/x/net/http2/hpack"
)

// badHTTP2: https hosts that speak HTTP/2 and answer the request for a page with floods, bombs and breaches
// of the protocol. Requests for robots rules get 404.
func badHTTP2(w *Web, add func(hostileHost)) {
	leaf := sync.OnceValue(func() *tls.Certificate { return w.authority().issue(nil) })
	for i, f := range []func(s *frameServer){
		0: func(s *frameServer) { s.repeat(frame(6, 0, 0, "8 bytes.")) },         // PING
		1: func(s *frameServer) { s.repeat(frame(4, 0, 0, "")) },                 // SETTINGS
		2: func(s *frameServer) { s.repeat(frame(8, 0, 0, "\x00\x00\x00\x01")) }, // WINDOW_UPDATE
		3: func(s *frameServer) { // CONTINUATION
			s.send(frame(1, 0, s.stream, "\x88"))
			s.repeat(frame(9, 0, s.stream, strings.Repeat("x", 100)))
		},
		4: func(s *frameServer) { // empty CONTINUATION
			s.send(frame(1, 0, s.stream, "\x88"))
			s.repeat(frame(9, 0, s.stream, ""))
		},
		5: func(s *frameServer) { // a table entry of 4 KB, named 10,000 times
			field := "\x40\x01x\x7f\xa1\x1e" + strings.Repeat("b", 4000)
			s.send(frame(1, 5, s.stream, "\x88"+field+strings.Repeat("\xbe", 10_000)))
		},
		6: func(s *frameServer) { s.send(frame(5, 4, s.stream, "\x00\x00\x00\x02\x88")) },      // PUSH_PROMISE
		7: func(s *frameServer) { s.send(frame(1, 5, s.stream, "\x88\x00\x04Name\x01x")) },     // upper case
		8: func(s *frameServer) { s.send(frame(1, 5, s.stream, "\x88\x00\x01a\x04b\r\nc")) },   // a forged line
		9: func(s *frameServer) { s.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage") }, // not HTTP/2
		10: func(s *frameServer) { // a body without end, whatever the window
			s.send(frame(1, 4, s.stream, "\x88"))
			s.repeat(frame(0, 0, s.stream, strings.Repeat("x", 16<<10)))
		},
		11: func(s *frameServer) { // empty DATA
			s.send(frame(1, 4, s.stream, "\x88"))
			s.repeat(frame(0, 0, s.stream, ""))
		},
		12: func(s *frameServer) { // padding
			s.send(frame(1, 4, s.stream, "\x88"))
			s.repeat(frame(0, 8, s.stream, "\xff"+strings.Repeat("x", 256)))
		},
		13: func(s *frameServer) { // DATA of another stream
			s.send(frame(1, 4, s.stream, "\x88") + frame(0, 0, s.stream, "half") + frame(0, 1, s.stream+2, "forged"))
		},
		14: func(s *frameServer) { // RST_STREAM within the body
			s.send(frame(1, 4, s.stream, "\x88") + frame(0, 0, s.stream, "half") +
				frame(3, 0, s.stream, "\x00\x00\x00\x02"))
		},
	} {
		name := w.hostileName("bad-http2", i)
		add(overTLS(name, func(c net.Conn) {
			t := tls.Server(c,
				&tls.Config{Certificates: []tls.Certificate{*leaf()}, NextProtos: []string{"h2"}})
			(&frameServer{conn: t}).serve(f)
		}))
	}
}

// frame returns a frame of HTTP/2 (RFC 9113, 4.1).
func frame(kind, flags byte, stream uint32, payload string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return string(binary.BigEndian.AppendUint32(append(b, flags), stream)) + payload
}

// frameServer answers the requests of one connection.
type frameServer struct {
	conn   net.Conn
	stream uint32 // of the request being answered
}

func (s *frameServer) send(p string) bool {
	_, err := io.WriteString(s.conn, p)
	return err == nil
}

// repeat sends p until the client closes.
func (s *frameServer) repeat(p string) {
	for p = strings.Repeat(p, 1+4096/len(p)); s.send(p); {
	}
}

// frameRequest is a request: its stream, and whether it is for robots rules.
type frameRequest struct {
	stream uint32
	robots bool
}

// serve answers requests for pages with f and those for robots rules with 404, until the connection ends. It
// reads at the same time, because neither side of an in-process connection can write before the other reads.
func (s *frameServer) serve(f func(s *frameServer)) {
	requests := make(chan frameRequest, 1)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(requests)
		s.read(requests)
		io.Copy(io.Discard, s.conn)
	})
	defer reader.Wait()
	defer s.conn.Close()
	for s.send(frame(4, 0, 0, "")) {
		q, ok := <-requests
		switch s.stream = q.stream; {
		case !ok:
			return
		case q.robots:
			s.send(frame(1, 5, s.stream, "\x8d")) // :status 404
		default:
			f(s)
		}
	}
}

// read sends all requests to the channel. It returns at the end of the connection, or if the channel is full,
// as a client that keeps to one request at a time does not.
func (s *frameServer) read(requests chan<- frameRequest) {
	if _, err := io.ReadFull(s.conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	robots := false
	fields := hpack.NewDecoder(4096, func(h hpack.HeaderField) {
		robots = robots || h.Name == ":path" && isRobotsPath([]byte(h.Value))
	})
	for {
		var h [9]byte
		if _, err := io.ReadFull(s.conn, h[:]); err != nil {
			return
		}
		payload := make([]byte, int(h[0])<<16|int(h[1])<<8|int(h[2]))
		if _, err := io.ReadFull(s.conn, payload); err != nil {
			return
		}
		if h[3] != 1 { // HEADERS
			continue
		}
		robots = false
		if _, err := fields.Write(payload); err != nil {
			return
		}
		select {
		case requests <- frameRequest{binary.BigEndian.Uint32(h[5:]), robots}:
		default:
			return
		}
	}
}
