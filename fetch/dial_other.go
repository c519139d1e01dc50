//go:build !linux

package fetch

import (
	"context"
	"net"
	"time"
)

// sock and sockets are for systems where sockets can be made without package net.
type (
	sock    struct{}
	sockets struct{}
)

// connect dials the address, and to no other: what the connection says about its peer is compared.
func (x *exchange) connect(w *wire, begin time.Time) error {
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
	w.Conn = conn
	x.attach(w)
	return nil
}

// readable doesn't wait; see dial_linux.go.
func (w *wire) readable() (int, error) { return 0, nil }
