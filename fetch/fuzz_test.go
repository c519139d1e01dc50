package fetch

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
)

// script is a connection that ignores the request and replies from memory in pieces.
type script struct {
	net.Conn
	rest  []byte
	piece int
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.piece)], s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error)   { return len(p), nil }
func (s *script) Close() error                  { return nil }
func (s *script) SetDeadline(t time.Time) error { return nil }

// FuzzReply replies with any bytes: no panic, no endless loop, the same result however the bytes are split
// into reads, and all limits hold.
func FuzzReply(f *testing.F) {
	for _, o := range oddReplies {
		if len(o.reply) < 4<<10 {
			f.Add([]byte(o.reply), 7)
		}
	}
	reply := []byte(nil)
	piece := 0
	c := newTestClient(f, Options{Limits: Limits{HeaderBytes: 1 << 10, BodyBytes: 2 << 10, DecodedBytes: 4 << 10},
		Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			return &script{rest: reply, piece: piece}, nil
		}})
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		reply = in
		var whole, parts Response
		piece = 1 << 20
		err1 := c.Do(t.Context(), testRequest(), &whole)
		piece = cut&15 + 1
		err2 := c.Do(t.Context(), testRequest(), &parts)
		if (err1 == nil) != (err2 == nil) || err1 != nil && err1.(*Error).Kind != err2.(*Error).Kind {
			t.Fatalf("whole: %v, in pieces: %v", err1, err2)
		}
		if err1 != nil {
			return
		}
		if whole.Status != parts.Status || !bytes.Equal(whole.RawHead, parts.RawHead) ||
			!bytes.Equal(whole.Body, parts.Body) || whole.Truncated != parts.Truncated {
			t.Fatalf("whole %d %q %q %v, in pieces %d %q %q %v", whole.Status, whole.RawHead, whole.Body,
				whole.Truncated, parts.Status, parts.RawHead, parts.Body, parts.Truncated)
		}
		if len(whole.RawHead) > 1<<10 || len(whole.RawBody) > 2<<10 || len(whole.Body) > 4<<10 {
			t.Fatalf("limits: %d, %d, %d", len(whole.RawHead), len(whole.RawBody), len(whole.Body))
		}
		if !bytes.Contains(in, whole.Raw) {
			t.Fatalf("Raw %q isn't part of %q", whole.Raw, in)
		}
	})
}

// FuzzChunked: our own framing is read back in any pieces. Any other bytes end in some state.
func FuzzChunked(f *testing.F) {
	f.Add([]byte("5\r\nhello\r\n0\r\n\r\n"), 3)
	f.Add([]byte("5;x=y\nhello\n0\nA: b\n\n"), 1)
	f.Add([]byte("fffffffffffffffff\r\n"), 2)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		cut = cut&7 + 1
		var a, b chunker
		pa, na := runChunker(&a, in, len(in)+1)
		pb, nb := runChunker(&b, in, cut)
		if !bytes.Equal(pa, pb) || na != nb || a.state != b.state {
			t.Fatalf("whole: %q %d %d, in pieces: %q %d %d", pa, na, a.state, pb, nb, b.state)
		}
		if got := dechunk(nil, in); !bytes.Equal(got, pa) || payloadSize(in) != len(pa) {
			t.Fatalf("dechunk %q, want %q", got, pa)
		}
	})
}

func runChunker(c *chunker, in []byte, cut int) (payload []byte, taken int) {
	for taken < len(in) {
		n, data := c.next(in[taken:min(len(in), taken+cut)])
		if payload = append(payload, data...); n == 0 {
			break
		}
		taken += n
	}
	return payload, taken
}
