package fetch

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// limitCase is a reply, the results of Request.BodyLimit, and the expected response.
type limitCase struct {
	name, head, body string
	first, second    int64 // results of the hook; second only after LookFirst
	asked            int   // expected number of calls
	want             string
	cut              Reason
	marks            Flaws // among those that matter
	most             int   // bytes of the body that the server can send
	kept             bool
}

func chunked(body string, size int) string {
	var b strings.Builder
	for len(body) > 0 {
		n := min(size, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

func limitCases() []limitCase {
	page := strings.Repeat("0123456789abcdef", 4<<10) // 64 KiB
	length := func(n int) string { return fmt.Sprintf(ok200+"Content-Length: %d\r\n\r\n", n) }
	const chunks, close = ok200 + "Transfer-Encoding: chunked\r\n\r\n", ok200 + "\r\n"
	return []limitCase{
		{"none", length(len(page)), page, NoBody, 0, 1, "", TruncatedLength, FlawBodyRefused, 0, false},
		{"none of chunks", chunks, chunked(page, 1000), NoBody, 0, 1, "", TruncatedLength, FlawBodyRefused, 0, false},
		{"none until the end", close, page, NoBody, 0, 1, "", TruncatedLength, FlawBodyRefused, 0, false},
		{"none of none", length(0), "", NoBody, 0, 1, "", NotTruncated, 0, 0, true},
		{"not asked", "HTTP/1.1 304 N\r\n\r\n", "", NoBody, 0, 0, "", NotTruncated, 0, 0, true},
		{"as the limits say", length(len(page)), page, 0, 0, 1, page, NotTruncated, 0, len(page), true},
		{"fewer", length(len(page)), page, 1000, 0, 1, page[:1000], TruncatedLength, 0, 1001, false},
		{"enough", length(500), page[:500], 1000, 0, 1, page[:500], NotTruncated, 0, 500, true},
		{"more than the limits", length(len(page) + 9), page + "x23456789", 1 << 40, 0, 1, page,
			TruncatedLength, 0, len(page) + 1, false},
		{"look, and it was all", length(LookBytes), page[:LookBytes], LookFirst, NoBody, 1, page[:LookBytes],
			NotTruncated, 0, LookBytes, true},
		{"look and leave", length(len(page)), page, LookFirst, NoBody, 2, page[:LookBytes], TruncatedLength,
			FlawBodyRefused, LookBytes + 1, false},
		{"look and take", length(len(page)), page, LookFirst, 0, 2, page, NotTruncated, 0, len(page), true},
		{"look for ever", length(len(page)), page, LookFirst, LookFirst, 2, page, NotTruncated, 0, len(page), true},
		{"look and take some", length(len(page)), page, LookFirst, 5000, 2, page[:5000], TruncatedLength, 0,
			5001, false},
		{"look and take less", length(len(page)), page, LookFirst, 50, 2, page[:LookBytes], TruncatedLength, 0,
			LookBytes + 1, false},
		{"look at chunks", chunks, chunked(page[:50000], 100), LookFirst, 0, 2, page[:50000], NotTruncated, 0,
			1 << 20, true},
		{"look at a large chunk", chunks, chunked(page[:50000], 50000), LookFirst, 0, 2, page[:50000],
			NotTruncated, 0, 1 << 20, true},
		{"look until the end", close, page, LookFirst, 0, 2, page, NotTruncated, 0, len(page), false},
		{"look at one that ends early", length(len(page)), page[:1000], LookFirst, 0, 1, page[:1000],
			TruncatedDisconnect, 0, 1000, false},
	}
}

// TestBodyLimit: exactly what Request.BodyLimit asks for is read, also as seen by the server.
func TestBodyLimit(t *testing.T) {
	for _, lc := range limitCases() {
		t.Run(lc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := make(chan int, 1)
				c := newTestClient(t, Options{Limits: Limits{BodyBytes: 64 << 10, DecodedBytes: 64 << 10},
					Dial: pipeDial(func(conn net.Conn, _ string) {
						io.WriteString(conn, lc.head)
						n, _ := io.WriteString(conn, lc.body) // a pipe accepts only what is read
						sent <- n
					})})
				asked := 0
				req := testRequest()
				req.KeepAlive = time.Minute
				req.BodyLimit = func(resp *Response, begin []byte) int64 {
					asked++
					if resp.Status != 200 || len(resp.RawHead) != len(lc.head) || (asked == 1) != (begin == nil) {
						t.Errorf("asked time %d: status %d, head %q, beginning of %d bytes", asked, resp.Status,
							resp.RawHead, len(begin))
					}
					if asked == 1 {
						return lc.first
					}
					if !strings.HasPrefix(strings.Repeat("0123456789abcdef", 200),
						string(begin[:min(len(begin), 3000)])) || len(begin) < LookBytes*3/4 {
						t.Errorf("asked again with %d bytes: %.50q", len(begin), begin)
					}
					return lc.second
				}
				var resp Response
				must(t, c.Do(t.Context(), req, &resp))
				if string(resp.Body) != lc.want || resp.Truncated != lc.cut ||
					resp.Flaws&FlawBodyRefused != lc.marks || asked != lc.asked {
					t.Errorf("got %d bytes, %q, marks %b, asked %d times; want %d, %q, %b, %d", len(resp.Body),
						resp.Truncated, resp.Flaws, asked, len(lc.want), lc.cut, lc.marks, lc.asked)
				}
				if resp.Kept != lc.kept && lc.name != "look at one that ends early" &&
					!strings.Contains(lc.name, "until the end") {
					t.Errorf("kept: %v, want %v", resp.Kept, lc.kept)
				}
				c.Close()
				if n := <-sent; n > lc.most {
					t.Errorf("the server sent %d bytes of the body, want %d at most", n, lc.most)
				}
			})
		})
	}
}

// TestBodyLimitOfDecoded: a narrow limit also narrows the decoded size.
func TestBodyLimitOfDecoded(t *testing.T) {
	bomb := encode(t, "gzip", strings.Repeat("x", 4<<20))
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, Options{Limits: Limits{BodyBytes: 1 << 20, DecodedBytes: 4 << 20, Ratio: Unlimited},
			Dial: pipeDial(func(conn net.Conn, _ string) {
				io.WriteString(conn, ok200+"Content-Encoding: gzip\r\n\r\n"+bomb)
			})})
		for limit, want := range map[int64]int{0: 4 << 20, 512 << 10: 2 << 20, 8 << 10: RatioFloorBytes} {
			req := testRequest()
			req.BodyLimit = func(*Response, []byte) int64 { return limit }
			var resp Response
			if err := c.Do(t.Context(), req, &resp); err != nil || len(resp.Body) != want {
				t.Errorf("limit %d: got %v, %d bytes decoded, want %d", limit, err, len(resp.Body), want)
			}
		}
	})
}
