package fetch

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
)

// cookies are more lines than any limit that a head should have, in 5 KB.
var cookies = strings.Repeat("Set-Cookie: a=b\r\n", 300)

// TestFieldsCountWhereverTheyStand: a field that frames or steers a message counts behind 300 others, on a
// connection that stays open, and the connection then carries the next request.
func TestFieldsCountWhereverTheyStand(t *testing.T) {
	const page = "<html>23 bytes of it</>"
	chunked := "Transfer-Encoding: chunked\r\n"
	for name, tt := range map[string]struct {
		lines, body, field string
		marks              Flaws
		closes             bool
	}{
		"length":           {lines: "Content-Length: 23\r\n", body: page},
		"chunks":           {lines: chunked, body: "17\r\n" + page + "\r\n0\r\n\r\n"},
		"chunks, trailers": {lines: chunked, body: "17\r\n" + page + "\r\n0\r\n" + cookies + "\r\n"},
		"chunks and length": {lines: "Content-Length: 5\r\n" + chunked,
			body: "17\r\n" + page + "\r\n0\r\n\r\n", closes: true},
		"equal lengths": {lines: "Content-Length: 23\r\n" + cookies + "Content-Length: 23\r\n", body: page,
			marks: FlawRepaired, closes: true},
		"other lengths": {lines: "Content-Length: 23\r\n" + cookies + "Content-Length: 3\r\n", body: page,
			marks: FlawLengths, closes: true},
		"close":         {lines: "Content-Length: 23\r\nConnection: close\r\n", body: page, closes: true},
		"folded length": {lines: "Content-Length:\r\n 23\r\n", body: page, marks: FlawRepaired, closes: true},
		"location":      {lines: "Location: /next\r\nContent-Length: 23\r\n", body: page, field: "Location: /next"},
		"type": {lines: "Content-Type: text/html\r\nContent-Length: 23\r\n", body: page,
			field: "Content-Type: text/html"},
		"robots": {lines: "X-Robots-Tag: noindex\r\nContent-Length: 23\r\n", body: page,
			field: "X-Robots-Tag: noindex"},
		"coding": {lines: "Content-Encoding: identity\r\nContent-Length: 23\r\n", body: page,
			field: "Content-Encoding: identity"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials := 0
				reply := "HTTP/1.1 103 Early Hints\r\n" + cookies + "\r\n" + ok200 + cookies + tt.lines +
					"\r\n" + tt.body
				c := newTestClient(t, Options{Dial: countedDial(&dials, reply), IdleConns: 4})
				r := testRequest()
				r.KeepAlive = 1 << 40
				for range 2 {
					var resp Response
					must(t, c.Do(t.Context(), r, &resp))
					if string(resp.Body) != page || resp.Truncated != NotTruncated ||
						resp.Flaws&^FlawInterim != tt.marks {
						t.Errorf("got %q, truncated %q, marks %b; want %q, whole, %b", resp.Body,
							resp.Truncated, resp.Flaws, page, tt.marks)
					}
					n := 0
					resp.EachHeader("Set-Cookie", func([]byte) bool { n++; return true })
					if want := 300 * strings.Count(string(resp.RawHead), cookies); n != want || n == 0 {
						t.Errorf("%d cookies, want %d", n, want)
					}
					key, value, _ := strings.Cut(tt.field, ": ")
					if got := string(resp.Header(key)); got != value {
						t.Errorf("%s is %q, want %q", key, got, value)
					}
				}
				want := 1
				if tt.closes {
					want = 2
				}
				if dials != want {
					t.Errorf("%d connections for two requests, want %d", dials, want)
				}
				c.Close()
			})
		})
	}
}

// countedDial returns a Dial hook whose connections answer each request with the same reply, and stay open.
func countedDial(dials *int, reply string) func(context.Context, netip.AddrPort) (net.Conn, error) {
	return func(context.Context, netip.AddrPort) (net.Conn, error) {
		*dials++
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			buf := make([]byte, 4<<10)
			var got []byte
			for {
				n, err := server.Read(buf)
				if err != nil {
					return
				}
				if got = append(got, buf[:n]...); strings.HasSuffix(string(got), "\r\n\r\n") {
					got = got[:0]
					io.WriteString(server, reply)
				}
			}
		}()
		return client, nil
	}
}
