//go:build !linux

package fetch

import (
	"context"
	"net"
	"time"
)

// sock and sockets are empty where sockets come from package net.
type (
	sock    struct{}
	sockets struct{}
)

// connect dials the granted address and verifies the peer address of the connection.
func (x *exchange) connect(c *conn, begin time.Time) error {
	ctx, cancel := context.WithDeadline(x.ctx, x.connectEnd(begin))
	defer cancel()
	addr := x.resp.Remote
	network := "tcp6"
	if addr.Addr().Is4() {
		network = "tcp4"
	}
	d := net.Dialer{KeepAlive: -1}
	conn, err := d.DialContext(ctx, network, addr.String())
	if err != nil {
		return unrouted(err, addr)
	}
	peer, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok || peer.AddrPort().Addr().Unmap() != addr.Addr() {
		conn.Close()
		return &Error{Stage: StageDial, Kind: KindForbiddenAddress}
	}
	c.Conn = conn
	x.attach(c)
	return nil
}

// readable does not wait; see dial_linux.go.
func (c *conn) readable() (int, error) { return 0, nil }
