package admin

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// gate is a listener with a bounded number of connections. A new connection always gets in, unless connections that
// have shown the token are busy on all places: when the places, or those of one peer, are taken, the one that is
// missed least is closed. So connections that send nothing, or little, keep nobody out.
//
// A gate is safe for concurrent use. mu guards open, count and the fields of conns; nothing blocks under it.
type gate struct {
	net.Listener
	max, perPeer int
	refuse       func(net.Conn) bool // by who is at the other end; nil for nobody

	mu    sync.Mutex
	open  map[*conn]struct{}
	count uint64 // of changes, the order of conn.since
}

// conn is an open connection of a gate.
type conn struct {
	net.Conn
	gate    *gate
	peer    netip.Prefix // whose share it takes; the zero value on a Unix socket
	since   uint64       // when its state changed
	busy    bool         // a request has begun
	trusted bool         // it has shown the token
}

func newGate(l net.Listener, most, perPeer int, refuse func(net.Conn) bool) *gate {
	return &gate{Listener: l, max: most, perPeer: perPeer, refuse: refuse, open: make(map[*conn]struct{})}
}

// Accept waits for a connection.
func (g *gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g.refuse == nil || !g.refuse(c) {
			if k := g.enter(c); k != nil {
				return k, nil
			}
		}
		_ = c.Close() // nothing was sent
	}
}

// enter makes room for a connection. It returns nil if there is none.
func (g *gate) enter(c net.Conn) *conn {
	k := &conn{Conn: c, gate: g, peer: peerOf(c)}
	g.mu.Lock()
	same := 0
	for other := range g.open {
		if other.peer == k.peer {
			same++
		}
	}
	var victim *conn
	full := len(g.open) >= g.max
	switch {
	case same >= g.perPeer:
		victim, full = g.least(func(other *conn) bool { return other.peer == k.peer }), true
	case full:
		victim = g.least(func(*conn) bool { return true })
	}
	if full && victim == nil {
		g.mu.Unlock()
		return nil
	}
	delete(g.open, victim)
	g.count++
	k.since = g.count
	g.open[k] = struct{}{}
	g.mu.Unlock()
	if victim != nil {
		_ = victim.Conn.Close() // its requests fail
	}
	return k
}

// least returns the connection of a kind that is missed least: idle before busy, without token before with, and the
// oldest of these. It returns nil if all are busy and have shown the token. mu is held.
func (g *gate) least(of func(*conn) bool) (victim *conn) {
	rank := func(k *conn) int {
		switch {
		case !k.busy && !k.trusted:
			return 0
		case !k.busy:
			return 1
		case !k.trusted:
			return 2
		}
		return 3
	}
	for k := range g.open {
		if r := rank(k); r < 3 && of(k) &&
			(victim == nil || r < rank(victim) || r == rank(victim) && k.since < victim.since) {
			victim = k
		}
	}
	return victim
}

// Close closes the connection.
func (k *conn) Close() error {
	k.gate.mu.Lock()
	delete(k.gate.open, k)
	k.gate.mu.Unlock()
	return k.Conn.Close()
}

// trust notes that the connection has shown the token.
func (k *conn) trust() {
	k.gate.mu.Lock()
	k.trusted = true
	k.gate.mu.Unlock()
}

// peerOf returns whose share of the places a connection takes: an IPv4 address, or the /64 that an IPv6 host has.
func peerOf(c net.Conn) netip.Prefix {
	addr, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := addr.AddrPort().Addr().Unmap().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // of a valid address
	return p
}

// gateConn returns the gate's part of a connection of http.Server.
func gateConn(c net.Conn) *conn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	k, _ := c.(*conn)
	return k
}

// connKey is the key of a request's *conn.
type connKey struct{}

// connContext implements http.Server.ConnContext.
func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, gateConn(c))
}

// connState implements http.Server.ConnState.
func connState(c net.Conn, state http.ConnState) {
	if k := gateConn(c); k != nil && (state == http.StateActive || state == http.StateIdle) {
		k.gate.mu.Lock()
		k.gate.count++
		k.busy, k.since = state == http.StateActive, k.gate.count
		k.gate.mu.Unlock()
	}
}

// requestConn returns the connection that a request came by.
func requestConn(r *http.Request) *conn {
	k, _ := r.Context().Value(connKey{}).(*conn)
	return k
}

// bySocket reports whether a request came by the Unix socket, whose peers are this user or root.
func bySocket(r *http.Request) bool {
	k := requestConn(r)
	if k == nil {
		return false
	}
	_, ok := k.Conn.(*net.UnixConn)
	return ok
}
