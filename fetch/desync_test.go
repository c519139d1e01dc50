package fetch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"drumbeat/internal/httphead"
)

// desync is a reply on whose end two readers may disagree, and the expected response.
type desync struct {
	name, reply string
	body        string // "" with kind: no response
	kind        Kind
	marks       Flaws // expected among the response's marks
	trunc       Reason
}

// forged is the response that each reply hides inside or after its body.
const forged = ok200 + "Content-Length: 6\r\n\r\nforged"

const chunkedLine = "Transfer-Encoding: chunked\r\n"

var desyncs = []desync{
	{name: "bytes behind the body", reply: ok200 + "Content-Length: 4\r\n\r\ntrue" + forged, body: "true",
		marks: FlawExcess},
	{name: "bytes behind chunks", reply: ok200 + chunkedLine + "\r\n4\r\ntrue\r\n0\r\n\r\n" + forged,
		body: "true", marks: FlawExcess},
	{name: "two lengths, the larger first", reply: ok200 +
		"Content-Length: 4\r\nContent-Length: 0\r\n\r\ntrue" + forged,
		body: "true", marks: FlawLengths | FlawExcess},
	{name: "two lengths, the larger last", reply: ok200 +
		"Content-Length: 0\r\nContent-Length: 4\r\n\r\ntrue" + forged,
		body: "true", marks: FlawLengths | FlawExcess},
	{name: "lengths in one line", reply: ok200 + "Content-Length: 0, 4\r\n\r\ntrue" + forged, body: "true",
		marks: FlawLengths | FlawExcess},
	{name: "signed length", reply: ok200 + "Content-Length: +4\r\n\r\ntrue", body: "true",
		marks: FlawLengths | FlawCloseDelimited},
	{name: "hexadecimal length", reply: ok200 + "Content-Length: 0x4\r\n\r\ntrue", body: "true",
		marks: FlawLengths | FlawCloseDelimited},
	{name: "length and chunked", reply: ok200 + "Content-Length: 99\r\n" + chunkedLine +
		"\r\n4\r\ntrue\r\n0\r\n\r\n" + forged, body: "true", marks: FlawExcess},
	{name: "chunked and length", reply: ok200 + chunkedLine + "Content-Length: 1\r\n\r\n4\r\ntrue\r\n0\r\n\r\n" +
		forged, body: "true",
		marks: FlawExcess},
	{name: "coding nearly chunked",
		reply: ok200 + "Transfer-Encoding: xchunked\r\nContent-Length: 4\r\n\r\ntrue" + forged, body: "true",
		marks: FlawExcess | FlawUnknownCoding},
	{name: "chunked with a vertical tab", reply: ok200 +
		"Transfer-Encoding: \vchunked\r\nContent-Length: 4\r\n\r\ntrue" + forged, body: "true", marks: FlawExcess},
	{name: "chunk extension with a quoted end",
		reply: ok200 + chunkedLine + "\r\n4;a=\"\n\"\r\ntrue\r\n0\r\n\r\n" + forged,
		body:  "\"\r\nt", marks: FlawBadChunk, trunc: TruncatedUnspecified},
	{name: "chunk extension without end", reply: ok200 + chunkedLine + "\r\n4;" + strings.Repeat("x", maxChunkLine) +
		"\r\ntrue\r\n0\r\n\r\n", marks: FlawNotChunked | FlawBadChunk, trunc: TruncatedUnspecified},
	{name: "negative chunk", reply: ok200 + chunkedLine + "\r\n4\r\ntrue\r\n-4\r\n" + forged, body: "true",
		marks: FlawBadChunk, trunc: TruncatedUnspecified},
	{name: "chunk size beyond 64 bits", reply: ok200 + chunkedLine + "\r\n4\r\ntrue\r\n10000000000000004\r\n" +
		forged, body: "true",
		marks: FlawBadChunk, trunc: TruncatedUnspecified},
	{name: "hexadecimal prefix", reply: ok200 + chunkedLine + "\r\n4\r\ntrue\r\n0x4\r\n" + forged, body: "true",
		marks: FlawBadChunk, trunc: TruncatedUnspecified},
	{name: "no line end behind a chunk", reply: ok200 + chunkedLine + "\r\n4\r\ntrue0\r\n\r\n" + forged, body: "true",
		marks: FlawBadChunk, trunc: TruncatedUnspecified},
	{name: "chunks in bare LF", reply: ok200 + chunkedLine + "\r\n4\ntrue\n0\n\n" + forged, body: "true",
		marks: FlawExcess},
	{name: "head in bare LF", reply: "HTTP/1.1 200 OK\nContent-Length: 4\n\ntrue" + forged, body: "true",
		marks: FlawBareLF | FlawExcess},
	{name: "bare CR hides a length", reply: ok200 + "X: y\rContent-Length: 0\r\nContent-Length: 4\r\n\r\ntrue" +
		forged, body: "true",
		marks: FlawRepaired | FlawExcess},
	{name: "bare CR as an empty line", reply: ok200 + "Content-Length: 4\r\r\n\r\ntrue" + forged,
		body: "true", marks: FlawExcess},
	{name: "NUL in a name", reply: ok200 + "Content\x00-Length: 0\r\nContent-Length: 4\r\n\r\ntrue" +
		forged, body: "true",
		marks: FlawRepaired | FlawExcess},
	{name: "NUL in a length", reply: ok200 + "Content-Length: 4\x00\r\n\r\ntrue", body: "true",
		marks: FlawLengths | FlawCloseDelimited},
	{name: "folded length", reply: ok200 + "X: y\r\n Content-Length: 0\r\nContent-Length: 4\r\n\r\ntrue" +
		forged, body: "true",
		marks: FlawRepaired | FlawExcess},
	{name: "length on a folded line", reply: ok200 + "Content-Length:\r\n 4\r\n\r\ntrue" + forged, body: "true",
		marks: FlawRepaired | FlawExcess},
	{name: "blank before the colon", reply: ok200 + "Content-Length : 4\r\n\r\ntrue" + forged, body: "true",
		marks: FlawRepaired | FlawExcess},
	{name: "interim replies", reply: "HTTP/1.1 100 Continue\r\nContent-Length: 99\r\n\r\n" + ok200 +
		"Content-Length: 4\r\n\r\ntrue" + forged, body: "true", marks: FlawInterim | FlawExcess},
	{name: "a flood of interim replies",
		reply: strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", maxInterim+1) + forged, kind: KindHeadTooLarge},
	{name: "an upgrade", reply: "HTTP/1.1 101 Switching Protocols\r\n\r\n" + forged, kind: KindBadHead},
	{name: "not modified", reply: "HTTP/1.1 304 Not Modified\r\nContent-Length: 64\r\n\r\n" + forged},
	{name: "no head at all", reply: "true" + forged, kind: KindBadHead},
	{name: "HTTP/1.0 that stays",
		reply: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\ntrue" + forged, body: "true",
		marks: FlawExcess},
}

// TestDesyncStaysWithItsURL: whatever a reply claims about its end, its connection is closed, and the next
// exchange with the same server uses a new connection and gets its own page.
func TestDesyncStaysWithItsURL(t *testing.T) {
	for _, d := range desyncs {
		t.Run(d.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials := 0
				var open atomic.Int64
				serve := func(conn net.Conn, request string) {
					if strings.HasPrefix(request, "GET /next ") {
						io.WriteString(conn, ok200+"Content-Length: 4\r\n\r\nnext")
					} else if io.WriteString(conn, d.reply); d.marks&(FlawCloseDelimited|FlawNotChunked) != 0 {
						return
					}
					io.Copy(io.Discard, conn) // until the client closes
					open.Add(-1)
				}
				dial := pipeDial(serve)
				c := newTestClient(t, Options{Dial: func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
					dials++
					open.Add(1)
					return dial(ctx, a)
				}})
				var resp Response
				err := c.Do(t.Context(), testRequest(), &resp)
				var fe *Error
				if d.kind != KindOther && (!errors.As(err, &fe) || fe.Kind != d.kind || fe.Ours()) ||
					d.kind == KindOther && err != nil {
					t.Fatalf("got %v, want %v", err, d.kind)
				}
				if string(resp.Body) != d.body || resp.Flaws&d.marks != d.marks || resp.Truncated != d.trunc {
					t.Errorf("got %.100q, marks %b, %q; want %.100q, %b, %q", resp.Body, resp.Flaws,
						resp.Truncated, d.body, d.marks, d.trunc)
				}
				next := testRequest()
				next.PathQuery = "/next"
				if err := c.Do(t.Context(), next, &resp); err != nil || string(resp.Body) != "next" || resp.Flaws != 0 {
					t.Errorf("the next page: got %v, %.100q, marks %b", err, resp.Body, resp.Flaws)
				}
				synctest.Wait()
				if closed := d.marks&(FlawCloseDelimited|FlawNotChunked) != 0; dials != 2 ||
					open.Load() != 0 && !closed {
					t.Errorf("%d connections, %d of them still open; want 2, none", dials, open.Load())
				}
			})
		})
	}
}

// TestEarlyReplyStaysWithItsURL: a reply that precedes its request can only be taken for that of the one URL
// of its connection.
func TestEarlyReplyStaysWithItsURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		c := newTestClient(t, Options{Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			dials++
			reply := ok200 + "Content-Length: 4\r\n\r\nnext"
			if dials == 1 {
				reply = forged + forged
			}
			return &script{rest: []byte(reply), piece: 1 << 20}, nil
		}})
		var resp Response
		if err := c.Do(t.Context(), testRequest(), &resp); err != nil || string(resp.Body) != "forged" ||
			resp.Flaws != FlawExcess {
			t.Errorf("got %v, %q, marks %b", err, resp.Body, resp.Flaws)
		}
		if err := c.Do(t.Context(), testRequest(), &resp); err != nil || string(resp.Body) != "next" || dials != 2 {
			t.Errorf("the next page: got %v, %q on connection %d", err, resp.Body, dials)
		}
	})
}

// TestCarriageReturnsAreLinear: a head of fragmented line ends does not take quadratic time.
func TestCarriageReturnsAreLinear(t *testing.T) {
	b := []byte("HTTP/1.1 200 OK\n" + strings.Repeat("\r", 64<<10))
	steps := 0
	for n, from := 16, 0; n < len(b); n++ {
		_, next := httphead.End(b[:n], from)
		if n-next > 16 {
			steps += n - next
		}
		from = next
	}
	if steps > 0 {
		t.Errorf("%d bytes were looked at again", steps)
	}
}
