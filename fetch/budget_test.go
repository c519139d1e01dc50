package fetch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// endless is a connection whose reply never ends.
type endless struct {
	script
	head string
}

func (e *endless) Read(p []byte) (int, error) {
	runtime.Gosched() // let the others run
	if e.head != "" {
		n := copy(p, e.head)
		e.head = e.head[n:]
		return n, nil
	}
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestEndlessBodiesKeepToTheBudget: 2,000 concurrent exchanges with endless bodies and three parsers never
// hold more than Options.BufferBytes, and each gets its body up to the limit.
func TestEndlessBodiesKeepToTheBudget(t *testing.T) {
	const total = 4 << 20
	n := 2000
	if testing.Short() {
		n = 500
	}
	limits := Limits{HeaderBytes: 4 << 10, BodyBytes: 128 << 10, DecodedBytes: 128 << 10}
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, Options{BufferBytes: total, Limits: limits,
			Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
				return &endless{head: ok200 + "\r\n"}, nil
			}})
		parsers := make(chan struct{}, 3)
		var all sync.WaitGroup
		for range n {
			all.Go(func() {
				var resp Response
				err := c.Do(t.Context(), testRequest(), &resp)
				parsers <- struct{}{}
				if err != nil || resp.Truncated != TruncatedLength || len(resp.Body) != limits.BodyBytes {
					t.Errorf("got %v, %d bytes, %q", err, len(resp.Body), resp.Truncated)
				}
				resp.Reset()
				<-parsers
			})
		}
		all.Wait()
		s := c.Memory()
		t.Logf("most %d of %d bytes, %d waits", s.MostBytes, total, s.Waits)
		if s.MostBytes > total || s.MostBytes < total/2 || s.Waits == 0 || s.Bytes != 0 {
			t.Errorf("got %+v, want at most %d bytes, some waits, and nothing held at the end", s, total)
		}
	})
}

// TestBudgetForOne: with a budget for exactly one exchange, any number of exchanges still finish one after
// the other, with chunks and bombs in two codings.
func TestBudgetForOne(t *testing.T) {
	bomb := encode(t, "gzip", encode(t, "gzip", strings.Repeat("x", 4<<20)))
	plain := strings.Repeat("y", 200<<10)
	limits := Limits{BodyBytes: 256 << 10, DecodedBytes: 1 << 20, Ratio: Unlimited}
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, Options{BufferBytes: limits.MemoryBytes(), Limits: limits,
			Dial: pipeDial(func(conn net.Conn, request string) {
				if strings.Contains(request, "/bomb") {
					io.WriteString(conn, ok200+"Content-Encoding: gzip, gzip\r\n\r\n"+bomb)
					return
				}
				io.WriteString(conn, ok200+"Transfer-Encoding: chunked\r\n\r\n32000\r\n"+plain[:100<<10])
				time.Sleep(time.Second)
				io.WriteString(conn, plain[100<<10:]+"\r\n0\r\n\r\n")
			})})
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				req := testRequest()
				want := len(plain)
				if i%2 == 0 {
					req.PathQuery, want = "/bomb", limits.DecodedBytes
				}
				req.DecodeLater = i%4 < 2
				var resp Response
				defer resp.Reset()
				err := c.Do(t.Context(), req, &resp)
				if err == nil {
					err = resp.Decode(t.Context())
				}
				if err != nil || len(resp.Body) != want {
					t.Errorf("%s: got %v, %d bytes, %q, marks %b", req.PathQuery, err, len(resp.Body),
						resp.Truncated, resp.Flaws)
				}
			})
		}
		all.Wait()
		if s := c.Memory(); s.Bytes != 0 || s.MostBytes > limits.MemoryBytes() || s.Waits == 0 {
			t.Errorf("got %+v, want at most %d", s, limits.MemoryBytes())
		}
	})
}

// TestMemoryIsOurFault: an exchange that finds the budget exhausted waits for 30 s with its limits
// suspended, then fails with an error that is not the host's fault. If memory is returned in time, it gets
// its whole page.
func TestMemoryIsOurFault(t *testing.T) {
	limits := Limits{BodyBytes: 256 << 10, DecodedBytes: 256 << 10, Total: 20 * time.Second}
	page := strings.Repeat("z", 200<<10)
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, Options{BufferBytes: limits.MemoryBytes(), Limits: limits,
			Dial: pipeDial(func(conn net.Conn, _ string) { io.WriteString(conn, ok200+"\r\n"+page) })})
		var first, second, third Response
		must(t, c.Do(t.Context(), testRequest(), &first))
		begin := time.Now()
		err := c.Do(t.Context(), testRequest(), &second)
		var fe *Error
		if !errors.As(err, &fe) || fe.Kind != KindResources || !fe.Ours() || time.Since(begin) != memoryWait {
			t.Errorf("got %v after %v, want a fault of ours after %v", err, time.Since(begin), memoryWait)
		}
		second.Reset()
		done := make(chan struct{})
		time.AfterFunc(25*time.Second, func() { first.Reset(); close(done) })
		if err := c.Do(t.Context(), testRequest(), &third); err != nil || len(third.Body) != len(page) ||
			third.Truncated != NotTruncated || third.Total != 25*time.Second {
			t.Errorf("got %v, %d bytes, %q after %v", err, len(third.Body), third.Truncated, third.Total)
		}
		third.Reset()
		<-done
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must(t, c.Do(t.Context(), testRequest(), &first))
		if err := c.Do(ctx, testRequest(), &second); !errors.As(err, &fe) || fe.Kind != KindCanceled {
			t.Errorf("got %v, want canceled", err)
		}
		second.Reset()
		first.Reset()
		if s := c.Memory(); s.Bytes != 0 {
			t.Errorf("%+v at the end", s)
		}
	})
}

// TestRequestsBeyondTheBudget: limits that exceed what the budget allows one exchange are rejected, and so
// is a budget too small for one exchange.
func TestRequestsBeyondTheBudget(t *testing.T) {
	limits := Limits{BodyBytes: 100, DecodedBytes: 100}
	c := newTestClient(t, Options{BufferBytes: limits.MemoryBytes(), Limits: limits})
	req := testRequest()
	req.Limits = &Limits{BodyBytes: 1 << 20, DecodedBytes: 100}
	var fe *Error
	if err := c.Do(t.Context(), req, new(Response)); !errors.As(err, &fe) || fe.Kind != KindBadRequest {
		t.Errorf("got %v", err)
	}
	if _, err := New(Options{BufferBytes: 1 << 20}); err == nil {
		t.Error("1 MiB for bodies of 2 MiB was taken")
	}
}
