package dnscache

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// readBytes is the size of a read buffer, larger than any reply within our EDNS0 size.
	readBytes = 4096
	// socketBytes is the receive buffer requested for a socket. Answers must not be lost while a reader is
	// delayed, not even during a flood of unsolicited packets.
	socketBytes = 1 << 20
	// maxTCP bounds concurrent TCP exchanges.
	maxTCP = 64
	// After downAfter consecutive tries without an answer, a server gets only one probe each downFor.
	downAfter = 8
	downFor   = 5 * time.Second
)

// server is one recursive resolver. The resolver's mu guards its mutable fields except flat.
type server struct {
	addr    netip.AddrPort
	number  int
	sockets []*socket // for new questions
	retired []*socket // from before the last renewal, with pending questions
	fails   int       // consecutive tries without an answer
	down    time.Time // until then only probes
	wrong   int       // consecutive tries answered in the wrong case
	flat    atomic.Bool
	flatEnd time.Time // when mixed case resumes
}

// socket is one connected UDP socket with its pending questions.
type socket struct {
	server *server
	conn   net.Conn
	mu     sync.Mutex // guards asked; locked after the resolver's mu, never before
	asked  map[uint16]*asked
}

func (r *Resolver) openServers() error {
	var errs []error
	for i, addr := range r.opt.Servers {
		s := &server{addr: addr, number: i}
		var err error
		if s.sockets, err = r.openSockets(s); err != nil {
			errs = append(errs, err)
		}
		if len(s.sockets) > 0 {
			r.servers = append(r.servers, s)
		}
	}
	if len(r.servers) == 0 {
		return errors.Join(errs...)
	}
	for _, s := range r.servers {
		for _, k := range s.sockets {
			r.startReader(k)
		}
	}
	return nil
}

// openSockets opens the sockets of a server. On error it returns those already open.
func (r *Resolver) openSockets(s *server) (opened []*socket, err error) {
	for range r.opt.Sockets {
		conn, err := r.dial(r.ctx, "udp", s.addr)
		if err != nil {
			return opened, fmt.Errorf("dnscache: open socket to %v: %w", s.addr, err)
		}
		if c, ok := conn.(*net.UDPConn); ok {
			_ = c.SetReadBuffer(socketBytes) // a smaller buffer is not an error
		}
		opened = append(opened, &socket{server: s, conn: conn, asked: make(map[uint16]*asked)})
	}
	return opened, nil
}

func (r *Resolver) dial(ctx context.Context, network string, addr netip.AddrPort) (net.Conn, error) {
	if r.opt.Dial != nil {
		return r.opt.Dial(ctx, network, addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr.String())
}

// hasIPv6 reports whether this machine has a route to the IPv6 Internet. Connecting a UDP socket consults
// the routing table and sends nothing.
func hasIPv6() bool {
	conn, err := net.Dial("udp6", "[2600::1]:53")
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func (s *server) up(now time.Time) bool { return s.fails < downAfter || !now.Before(s.down) }

// chosen records that s gets a question. A server that is down gets only one each downFor, as a probe.
func (s *server) chosen(now time.Time) *server {
	if s.fails >= downAfter {
		s.down = now.Add(downFor)
	}
	return s
}

func (s *server) answered() { s.fails = 0 }

// missed records a try without an answer.
func (t *sentTry) missed(now time.Time) {
	if t.socket == nil {
		return
	}
	s := t.socket.server
	if s.fails++; s.fails == downAfter {
		s.down = now.Add(downFor)
	}
}

// register gives a question a random unused id on a random socket.
func (s *server) register(a *asked) (*socket, uint16, bool) {
	for range 16 {
		bits := rand.Uint32()
		k, id := s.sockets[int(bits>>16)%len(s.sockets)], uint16(bits)
		k.mu.Lock()
		if _, taken := k.asked[id]; !taken {
			k.asked[id] = a
			k.mu.Unlock()
			return k, id, true
		}
		k.mu.Unlock()
	}
	return nil, 0, false
}

func (k *socket) forget(id uint16) {
	k.mu.Lock()
	delete(k.asked, id)
	k.mu.Unlock()
}

// startReader starts the goroutine that reads a socket until it is closed.
func (r *Resolver) startReader(k *socket) {
	r.wg.Go(func() {
		defer r.fatal()
		buf := make([]byte, readBytes)
		var out outbox
		for faults := 0; ; {
			n, err := k.conn.Read(buf)
			if err == nil {
				faults = 0
				r.receive(k, buf[:n], &out)
				continue
			}
			if faults++; !r.survives(k, err, faults) {
				return
			}
		}
	})
}

// survives reports whether to continue reading after an error, which is usually an ICMP message for an
// earlier question.
func (r *Resolver) survives(k *socket, err error, faults int) bool {
	select {
	case <-r.closing:
		return false
	default:
	}
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
		return false
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		r.mu.Lock()
		t := sentTry{socket: k}
		t.missed(time.Now())
		r.mu.Unlock()
	}
	if faults < 100 {
		return true
	}
	select {
	case <-r.closing:
		return false
	case <-time.After(100 * time.Millisecond):
		return true
	}
}

// receive processes one message received on k.
func (r *Resolver) receive(k *socket, msg []byte, out *outbox) {
	if len(msg) < headerBytes {
		r.lies.Add(1)
		return
	}
	k.mu.Lock()
	a := k.asked[binary.BigEndian.Uint16(msg)]
	k.mu.Unlock()
	if a == nil {
		r.lies.Add(1) // or a late reply
		return
	}
	rep, err := r.read(msg, a, r.opt.MixCase && !k.server.flat.Load(), out.addrs)
	if err != nil {
		r.lies.Add(1)
		if err != errCase {
			return
		}
	} else {
		out.addrs = rep.addrs
	}
	r.mu.Lock()
	if now := time.Now(); err == nil {
		if a.mixed() {
			k.server.wrong = 0
		}
		r.handle(a, k.server, &rep, false, now, out)
	} else {
		r.wrongCase(a, k.server, now, out)
	}
	r.mu.Unlock()
	r.send(out)
}

// send wakes the waiters of flights that ended and sends the collected messages. It ignores write errors:
// the timeout of the question handles them.
func (r *Resolver) send(out *outbox) {
	for i, f := range out.ended {
		close(f.done)
		out.ended[i] = nil
	}
	for i, m := range out.msgs {
		ask := m.a.question
		if m.flat {
			ask.mix = 0
		}
		_, _ = m.socket.conn.Write(ask.append(out.buf[:0], m.id))
		out.msgs[i] = outgoing{}
	}
	for _, t := range out.tcp {
		r.startTCP(t.a, t.s)
	}
	out.ended, out.msgs, out.tcp = out.ended[:0], out.msgs[:0], nil
}

// startTCP starts a goroutine that asks by TCP. It ends with the exchange or with Close.
func (r *Resolver) startTCP(a *asked, s *server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.wg.Go(func() {
		defer r.fatal()
		ctx, cancel := context.WithTimeout(r.ctx, tcpTimeout)
		defer cancel()
		var rep reply
		var err error
		select {
		case r.tcp <- struct{}{}:
			rep, err = r.exchangeTCP(ctx, a, s)
			<-r.tcp
		case <-ctx.Done():
			err = ctx.Err()
		}
		var out outbox
		r.mu.Lock()
		now := time.Now()
		q := a.q
		if err == nil {
			r.handle(a, s, &rep, true, now, &out)
		} else if q.asked == a && !q.settled && q.byTCP && !r.closed {
			r.retry(q, now, &out)
		}
		r.mu.Unlock()
		r.send(&out)
	})
}

// exchangeTCP asks one question on a new connection.
func (r *Resolver) exchangeTCP(ctx context.Context, a *asked, s *server) (reply, error) {
	conn, err := r.dial(ctx, "tcp", s.addr)
	if err != nil {
		return reply{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() {
		defer r.fatal()
		conn.SetDeadline(time.Unix(1, 0))
	})()
	id := uint16(rand.Uint32())
	msg := a.append(make([]byte, 2, 2+questionBytes), id)
	binary.BigEndian.PutUint16(msg, uint16(len(msg)-2))
	if _, err := conn.Write(msg); err != nil {
		return reply{}, err
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return reply{}, err
	}
	msg = make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, msg); err != nil {
		return reply{}, err
	}
	if len(msg) < headerBytes || binary.BigEndian.Uint16(msg) != id {
		return reply{}, errReply
	}
	return r.read(msg, a, false, nil) // off-path attackers cannot forge TCP replies
}
