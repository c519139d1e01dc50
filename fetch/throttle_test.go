package fetch

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/internal/pace"
)

// throttledClient receives at most 64 kbit/s from sites that answer after a wait with bodies of the size in
// the path.
func throttledClient(t *testing.T, wait time.Duration) *Client {
	t.Helper()
	s, err := pace.Parse("64kbit", pace.Bits)
	must(t, err)
	c, err := New(Options{
		AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Limiter: pace.NewBandwidth(s, time.Now()),
		Limits: Limits{Total: 20 * time.Second, FirstByte: 5 * time.Second, MinRate: 4000, Grace: time.Second},
		Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				req, err := http.ReadRequest(bufio.NewReader(far))
				if err != nil {
					return
				}
				time.Sleep(wait)
				var size int
				_, _ = fmt.Sscanf(req.RequestURI, "/%d", &size)
				_, _ = fmt.Fprintf(far, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", size,
					strings.Repeat("x", size))
			}()
			return near, nil
		},
	})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func throttledRequest(size int) *Request {
	return &Request{Scheme: "http", Host: "a.test", PathQuery: fmt.Sprintf("/%d", size),
		Addr: netip.MustParseAddrPort("127.0.0.1:80")}
}

// TestThrottleIsNotTheSites: sleeping for our limit counts towards no limit of the exchange and no duration
// but Throttled, and the site's own slowness still counts.
func TestThrottleIsNotTheSites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := throttledClient(t, 2*time.Second)
		results := make(chan *Response)
		begin := time.Now()
		for range 4 { // 4 of 100 kB at 8 kB/s: 50 s, each below MinRate
			go func() {
				var resp Response
				if err := c.Do(t.Context(), throttledRequest(100_000), &resp); err != nil {
					t.Error(err)
				}
				results <- &resp
			}()
		}
		for range 4 {
			r := <-results
			if r.Truncated != NotTruncated || len(r.Body) != 100_000 || r.Received != int64(len(r.Raw)) {
				t.Errorf("%d bytes of 100000 (%v), %d received, %d counted", len(r.Body), r.Truncated,
					len(r.Raw), r.Received)
			}
			if r.Throttled < 40*time.Second || r.Total > 3*time.Second || r.FirstByte < 2*time.Second ||
				r.FirstByte > 2100*time.Millisecond {
				t.Errorf("held back for %v, first byte after %v, all in %v; want some 48s, 2s, 2s", r.Throttled,
					r.FirstByte, r.Total)
			}
		}
		if d := time.Since(begin); d < 49*time.Second || d > 53*time.Second {
			t.Errorf("400 kB took %v at 8 kB/s, want 50 s", d)
		}
		var resp Response
		slow := throttledClient(t, 6*time.Second)
		err := slow.Do(t.Context(), throttledRequest(10), &resp)
		if fe, ok := err.(*Error); !ok || fe.Kind != KindTimeout || fe.Stage != StageFirstByte {
			t.Errorf("a site that takes 6 s, limit 5 s: got %v", err)
		}
		time.Sleep(5 * time.Second) // until the site notices
	})
}

// TestThrottledDoEnds: the end of the context ends the wait for our limit at once, without a byte beyond it,
// and the others continue.
func TestThrottledDoEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := throttledClient(t, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begin := time.Now()
		ended := make(chan int64)
		for range 3 {
			go func() {
				var resp Response
				err := c.Do(ctx, throttledRequest(1_000_000), &resp)
				if fe, ok := err.(*Error); !ok || fe.Kind != KindCanceled {
					t.Errorf("got %v", err)
				}
				ended <- resp.Received
			}()
		}
		sum := int64(0)
		for range 3 {
			sum += <-ended
		}
		if d := time.Since(begin); d != 10*time.Second {
			t.Errorf("ended after %v", d)
		}
		if sum < 78_000 || sum > 82_000 {
			t.Errorf("%d bytes in 10 s at 8 kB/s", sum)
		}
		var resp Response
		if err := c.Do(t.Context(), throttledRequest(8000), &resp); err != nil || time.Since(begin) > 13*time.Second {
			t.Errorf("the next took until %v: %v", time.Since(begin), err)
		}
	})
}
