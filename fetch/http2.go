package fetch

import (
	"bytes"
	"errors"
	"time"

	"drumbeat/fetch/h2"
)

// ProtoHTTP2 is the name of HTTP/2 in ALPN (RFC 9113, 3.1), and Response.Proto of a reply by it. No status line
// can claim it.
const ProtoHTTP2 = "h2"

// Bounds of the window of an HTTP/2 stream: how much a server may send ahead of what Do has read. 1 MiB is
// enough for 80 Mbit/s over a round trip of 100 ms.
const (
	leastWindow = 64 << 10
	mostWindow  = 1 << 20
)

// protocols returns the protocols to offer by ALPN.
func (x *exchange) protocols() []string {
	if x.c.opt.HTTP2 && !x.http1 {
		return []string{ProtoHTTP2, "http/1.1"}
	}
	return []string{"http/1.1"}
}

// startHTTP2 begins HTTP/2 on a connection with TLS. Its first frames go out with the request. The settings
// come from the client's limits, because later exchanges may have other limits of their own.
func (x *exchange) startHTTP2(h *heldConn) {
	c, l := x.conn, &x.c.opt.Limits
	window := max(leastWindow, min(l.BodyBytes, mostWindow))
	c.h2 = h2.New(c.tls.conn, h2.Settings{HeaderBytes: l.HeaderBytes, Window: window})
	c.stream = c.h2
	h.waits = c.h2.Flush
}

// tookHTTP2 completes the framing of a head by HTTP/2.
func (x *exchange) tookHTTP2() {
	x.resp.Proto = ProtoHTTP2
	if x.conn.h2.Dropped() {
		x.resp.Flaws |= FlawRepaired
	}
	if x.f.lengths == 0 && x.conn.h2.Ended() {
		x.f.length = 0
	}
}

// spoils returns the marks of replies whose connection is not kept. Frames tell where a reply by HTTP/2 ends,
// so repaired lines of its head leave no doubt.
func (x *exchange) spoils() Flaws {
	if x.conn.h2 != nil {
		return spoilt &^ FlawRepaired
	}
	return spoilt
}

// keepHTTP2 is keepFor for HTTP/2.
func (x *exchange) keepHTTP2(exact bool) time.Duration {
	if !exact || !x.conn.h2.Reusable() || x.resp.Truncated != NotTruncated {
		return 0
	}
	return x.req.KeepAlive
}

// rest prepares the conn for being idle. It returns false if it cannot be kept.
func (c *conn) rest() bool { return c.h2 == nil || c.h2.Rest() == nil }

// unprocessed reports whether the request may be sent again: the server wants it by HTTP/1.1, which is then the
// only protocol to offer, or says that it has not processed it (RFC 9113, 8.7) and again is set.
func (x *exchange) unprocessed(e *Error, again bool) bool {
	var he *h2.Error
	if e == nil || x.resp.BytesRead > 0 || !errors.As(e.Err, &he) {
		return false
	}
	if he.Kind == h2.NeedsHTTP1 {
		x.http1 = true
		return true
	}
	return again && he.Kind == h2.Refused
}

// kindOfHTTP2 returns the kind of an error of the protocol.
func kindOfHTTP2(e *h2.Error) Kind {
	switch e.Kind {
	case h2.HeadTooLarge:
		return KindHeadTooLarge
	case h2.Malformed:
		return KindBadHead
	}
	return KindReset
}

// isHTTP2 reports whether err is of the protocol, not of the connection.
func isHTTP2(err error) bool {
	var he *h2.Error
	return errors.As(err, &he)
}

// isMalformed reports whether the server broke the rules of HTTP/2.
func isMalformed(err error) bool {
	var he *h2.Error
	return errors.As(err, &he) && he.Kind == h2.Malformed
}

// withoutClose removes the line that asks the server to close the connection. HTTP/2 has none.
func withoutClose(head []byte) []byte {
	if i := bytes.Index(head, []byte("\r\n"+closeLine)); i >= 0 {
		head = append(head[:i+2], head[i+2+len(closeLine):]...)
	}
	return head
}
