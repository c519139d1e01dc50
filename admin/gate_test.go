package admin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are made by dial.
type pipes struct{ queue chan net.Conn }

func (p *pipes) Accept() (net.Conn, error) {
	c, ok := <-p.queue
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p *pipes) Close() error   { close(p.queue); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// piped is the server's end of a connection.
type piped struct {
	net.Conn
	peer net.Addr
}

func (p *piped) RemoteAddr() net.Addr { return p.peer }

// dial connects from an address.
func (p *pipes) dial(peer string) net.Conn {
	ours, theirs := net.Pipe()
	p.queue <- &piped{theirs, &net.TCPAddr{IP: net.ParseIP(peer), Port: 1}}
	return ours
}

// gateRig is an HTTP server behind two gates, as that of a crawl: one for TCP, one for the socket. /wait
// answers after a minute.
type gateRig struct {
	t           *testing.T
	tcp, socket *pipes
	tcpGate     *gate
	held        []net.Conn
}

func newGateRig(t *testing.T) *gateRig {
	r := &gateRig{t: t, tcp: &pipes{make(chan net.Conn)}, socket: &pipes{make(chan net.Conn)}}
	r.tcpGate = newGate(r.tcp, maxConns, maxPeer, nil)
	s := newHTTP(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Authorization") != "" {
			requestConn(q).trust()
		}
		if q.URL.Path == "/wait" {
			select {
			case <-time.After(time.Minute / 2):
			case <-q.Context().Done():
			}
		}
		if q.Method == http.MethodPost && q.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.Copy(w, q.Body)
	}))
	ended := make(chan error, 2)
	go func() { ended <- s.Serve(r.tcpGate) }()
	go func() { ended <- s.Serve(newGate(r.socket, maxLocal, maxLocal, nil)) }()
	t.Cleanup(func() {
		for _, c := range r.held {
			_ = c.Close()
		}
		_ = s.Close()
		for range 2 {
			if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		}
	})
	return r
}

// hold opens a connection, sends text and keeps it.
func (r *gateRig) hold(peer, text string) net.Conn {
	c := r.tcp.dial(peer)
	r.held = append(r.held, c)
	go func() { _, _ = io.WriteString(c, text) }() // the server may close it at any time
	go func() { _, _ = io.Copy(io.Discard, c) }()
	synctest.Wait()
	return c
}

// answered reports whether a request on a new connection is answered, and in no time.
func (r *gateRig) answered(p *pipes, peer string) bool {
	c := p.dial(peer)
	defer c.Close()
	began := time.Now()
	_ = c.SetDeadline(began.Add(time.Minute))
	if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return false
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	return err == nil && resp.StatusCode == http.StatusOK && time.Since(began) == 0
}

// The ways to hold a connection without the token.
var holders = map[string]string{
	"silent":        "",
	"slow header":   "GET / HTTP/1.1\r\nHost: localhost\r\nX: ",
	"idle":          "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"slow body":     "POST /api/v1/pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx",
	"slow chunk":    "POST /api/v1/pause HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx",
	"long answer":   "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"pipelined":     strings.Repeat("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n", 5),
	"expects 100":   "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
	"another proto": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}

// TestHeldConnections: whoever holds connections without the token, from one address or from many, keeps
// nobody out: not another address, not a browser at the same one, not the socket.
func TestHeldConnections(t *testing.T) {
	for name, text := range holders {
		for _, many := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, many=%t", name, many), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newGateRig(t)
					for i := range 3 * maxConns {
						peer := "127.0.0.1"
						if many {
							peer = fmt.Sprintf("192.0.2.%d", i)
						}
						r.hold(peer, text)
					}
					if len(r.tcpGate.open) > maxConns {
						t.Errorf("%d connections are open", len(r.tcpGate.open))
					}
					for _, peer := range []string{"127.0.0.1", "198.51.100.7", "2001:db8::1"} {
						if !r.answered(r.tcp, peer) {
							t.Errorf("no answer for %s", peer)
						}
					}
					if !r.answered(r.socket, "127.0.0.1") {
						t.Error("no answer on the socket")
					}
				})
			})
		}
	}
}

// TestIdleTime: connections without a request end soon.
func TestIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newGateRig(t)
		for range 10 {
			r.hold("127.0.0.1", holders["idle"])
			r.hold("127.0.0.1", holders["silent"])
			r.hold("127.0.0.1", holders["slow header"])
		}
		time.Sleep(idleTime + time.Millisecond)
		synctest.Wait()
		if n := len(r.tcpGate.open); n != 0 {
			t.Errorf("%d of 30 connections are left", n)
		}
	})
}

// TestBusyOperatorStays: a flood closes no connection on which a request with the token is answered. When
// such connections have all places, a new one is refused.
func TestBusyOperatorStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newGateRig(t)
		request := "GET /wait HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n"
		operator := r.tcp.dial("198.51.100.7")
		defer operator.Close()
		go func() { _, _ = io.WriteString(operator, request) }()
		synctest.Wait()
		for i := range 5 * maxConns {
			r.hold(fmt.Sprintf("192.0.2.%d", i%250), holders["silent"])
		}
		resp, err := http.ReadResponse(bufio.NewReader(operator), nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("the operator's answer: %v, %v", resp, err)
		}
		for i := range maxConns {
			r.hold(fmt.Sprintf("203.0.113.%d", i), request)
		}
		if c := r.hold("192.0.2.1", ""); len(r.tcpGate.open) != maxConns {
			t.Errorf("%d connections are open after %v", len(r.tcpGate.open), c)
		}
	})
}

// TestOnePeerOnly: one address has at most its share, and an IPv6 host has one share for its /64.
func TestOnePeerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newGateRig(t)
		other := r.tcp.dial("198.51.100.7") // the oldest idle one of all
		defer other.Close()
		for i := range maxConns + maxPeer {
			r.hold(fmt.Sprintf("2001:db8::%x", i+1), holders["idle"])
		}
		if n := len(r.tcpGate.open); n != maxPeer+1 {
			t.Errorf("%d connections are open, want %d", n, maxPeer+1)
		}
		go func() { _, _ = io.WriteString(other, holders["idle"]) }()
		if resp, err := http.ReadResponse(bufio.NewReader(other), nil); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("the other address: %v, %v", resp, err)
		}
	})
}
