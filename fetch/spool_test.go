package fetch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// testSpool is a spool in RAM. Writes fail once it has more than full bytes, if full is not 0.
type testSpool struct {
	bytes.Buffer
	full     int
	length   int64
	released int
}

var errSpoolFull = errors.New("spool is full")

func (s *testSpool) Write(p []byte) (int, error) {
	if s.full > 0 && s.Len()+len(p) > s.full {
		return 0, errSpoolFull
	}
	return s.Buffer.Write(p)
}

func (s *testSpool) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(s.Bytes()).ReadAt(p, at)
}

func (s *testSpool) Release() { s.released++ }

// open is a Request.Spool.
func (s *testSpool) open(length int64) (Spill, error) {
	s.length = length
	return s, nil
}

// sent returns a reply with a random body: its head and the pieces in which the body is sent.
func sent(rng *rand.Rand) (head string, pieces [][]byte) {
	body := make([]byte, rng.IntN(1<<(1+rng.IntN(20))))
	for i := range body {
		body[i] = byte(rng.Uint32())
	}
	switch rng.IntN(4) {
	case 0:
		head = ok200 + "\r\n"
	case 1:
		head = ok200 + "Transfer-Encoding: chunked\r\n\r\n"
		body = []byte(chunked(string(body), 1+rng.IntN(1+len(body))))
		if rng.IntN(4) == 0 && len(body) > 0 {
			body[rng.IntN(len(body))] ^= 1
		}
	default:
		head = fmt.Sprintf(ok200+"Content-Length: %d\r\n\r\n", len(body)+max(0, rng.IntN(8)-6))
	}
	for len(body) > 0 {
		n := min(len(body), 1+rng.IntN(300_000))
		pieces, body = append(pieces, body[:n]), body[n:]
	}
	return head, pieces
}

// TestSpoolEqualsRAM: a body that goes to a spool is the one that RAM would hold, with the same verdict about
// its end and its connection.
func TestSpoolEqualsRAM(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		head, pieces := sent(rng)
		most, held := 1+rng.IntN(1<<20), 1+rng.IntN(1<<(1+rng.IntN(19)))
		look := rng.IntN(3) == 0
		do := func(held int, spool *testSpool) *Response {
			var resp Response
			synctest.Test(t, func(t *testing.T) {
				c := newTestClient(t, Options{Limits: Limits{BodyBytes: most, HeldBytes: held, DecodedBytes: 1 << 20},
					Dial: pipeDial(func(conn net.Conn, _ string) {
						io.WriteString(conn, head)
						for _, p := range pieces {
							conn.Write(p)
						}
					})})
				req := testRequest()
				req.KeepAlive, req.Spool = time.Minute, spool.open
				if look {
					req.BodyLimit = func(_ *Response, begin []byte) int64 {
						if begin == nil {
							return LookFirst
						}
						return 0
					}
				}
				if err := c.Do(t.Context(), req, &resp); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				c.Close()
			})
			return &resp
		}
		var none, spool testSpool
		want, got := do(0, &none), do(held, &spool)
		if want.Spill != nil || (got.Spill != nil) != (len(want.RawBody) > held) {
			t.Fatalf("seed %d: %d bytes, %d held, spool: %v", seed, len(want.RawBody), held, got.Spill != nil)
		}
		const edge = FlawExcess // whether bytes behind the body are seen depends on the reads
		if got.Truncated != want.Truncated || got.Flaws&^edge != want.Flaws&^edge || got.Kept != want.Kept ||
			got.RawBytes() != want.RawBytes() {
			t.Errorf("seed %d: got %q, marks %b, kept %v, %d bytes; want %q, %b, %v, %d", seed, got.Truncated,
				got.Flaws, got.Kept, got.RawBytes(), want.Truncated, want.Flaws, want.Kept, want.RawBytes())
		}
		if got.Spill == nil {
			continue
		}
		begin := min(len(want.RawBody), SpoolBegin, len(got.RawBody))
		if !bytes.Equal(spool.Bytes(), want.RawBody) || !bytes.Equal(got.RawBody, want.RawBody[:begin]) ||
			len(got.RawBody) < min(held, SpoolBegin) || !bytes.HasPrefix(want.PayloadRaw, got.PayloadRaw) {
			t.Errorf("seed %d: %d bytes spooled of %d, %d in RAM", seed, spool.Len(), len(want.RawBody),
				len(got.RawBody))
		}
		if got.Reset(); spool.released != 1 || got.Spill != nil {
			t.Errorf("seed %d: released %d times", seed, spool.released)
		}
	}
}

// TestSpoolLength: Request.Spool learns the length as far as it is known and allowed. Without it, HeldBytes
// bounds the body.
func TestSpoolLength(t *testing.T) {
	body := strings.Repeat("x", 50_000)
	length := ok200 + "Content-Length: 50000\r\n\r\n"
	for _, c := range []struct {
		reply string
		most  int
		want  int64
	}{
		{length + body, 60_000, 50_000},
		{length + body, 40_000, 40_000},
		{ok200 + "\r\n" + body, 60_000, -1},
		{ok200 + "Transfer-Encoding: chunked\r\n\r\n" + chunked(body, 9000), 60_000, -1},
	} {
		for _, spooled := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				cl := newTestClient(t, Options{Limits: Limits{BodyBytes: c.most, HeldBytes: 20_000},
					Dial: pipeDial(func(conn net.Conn, _ string) { io.WriteString(conn, c.reply) })})
				var spool testSpool
				req := testRequest()
				if spooled {
					req.Spool = spool.open
				}
				var resp Response
				must(t, cl.Do(t.Context(), req, &resp))
				if spooled && spool.length != c.want {
					t.Errorf("%.60q: length %d, want %d", c.reply, spool.length, c.want)
				}
				if !spooled && (len(resp.RawBody) != 20_000 || resp.Truncated != TruncatedLength) {
					t.Errorf("%.60q: without a spool %d bytes, %q", c.reply, len(resp.RawBody), resp.Truncated)
				}
			})
		}
	}
}

// TestSpoolFails: an error of the spool is ours, and the spool is released.
func TestSpoolFails(t *testing.T) {
	for _, full := range []int{1, 600_000} {
		synctest.Test(t, func(t *testing.T) {
			c := newTestClient(t, Options{Limits: Limits{BodyBytes: 8 << 20, HeldBytes: 300_000}, BufferBytes: 16 << 20,
				Dial: pipeDial(func(conn net.Conn, _ string) {
					io.WriteString(conn, ok200+"\r\n"+strings.Repeat("x", 4<<20))
				})})
			spool := testSpool{full: full}
			req := testRequest()
			req.Spool = spool.open
			var resp Response
			err := c.Do(t.Context(), req, &resp)
			var fe *Error
			if !errors.As(err, &fe) || !fe.Ours() || !errors.Is(err, errSpoolFull) || spool.released != 1 {
				t.Errorf("full at %d: %v, released %d times", full, err, spool.released)
			}
			if resp.Reset(); c.Memory().Bytes != 0 || spool.released != 1 {
				t.Errorf("full at %d: %+v, released %d times", full, c.Memory(), spool.released)
			}
		})
	}
}

// TestSpoolTakesItsTime: Total does not end a spooled body that arrives at 20 KiB/s, but a server that stalls
// is cut off after SpoolStepTime.
func TestSpoolTakesItsTime(t *testing.T) {
	for _, stalls := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const size = 20 << 20
			c := newTestClient(t, Options{Limits: Limits{BodyBytes: size, HeldBytes: 1 << 20, Total: 2 * time.Minute},
				Dial: pipeDial(func(conn net.Conn, _ string) {
					fmt.Fprintf(conn, ok200+"Content-Length: %d\r\n\r\n", size)
					piece := make([]byte, 20<<10)
					for n := 0; n < size; n += len(piece) {
						if stalls && n > size/2 {
							time.Sleep(time.Hour)
						}
						if _, err := conn.Write(piece[:min(len(piece), size-n)]); err != nil {
							return
						}
						time.Sleep(time.Second)
					}
				})})
			var spool testSpool
			req := testRequest()
			req.Spool = spool.open
			var resp Response
			must(t, c.Do(t.Context(), req, &resp))
			if !stalls && (resp.Truncated != NotTruncated || spool.Len() != size) {
				t.Errorf("%d bytes, %q", spool.Len(), resp.Truncated)
			}
			if half := 512*time.Second + 2*time.Minute; stalls &&
				(resp.Truncated != TruncatedTime || resp.Total > half+SpoolStepTime) {
				t.Errorf("stalled: %q after %v", resp.Truncated, resp.Total)
			}
			time.Sleep(2 * time.Hour) // lets the server end
		})
	}
}

// TestSpoolMemory: a body that is being spooled holds little of the budget.
func TestSpoolMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *Client
		most := int64(0)
		c = newTestClient(t, Options{Limits: Limits{BodyBytes: 64 << 20, HeldBytes: 4 << 20, DecodedBytes: 4 << 20},
			BufferBytes: 64 << 20,
			Dial: pipeDial(func(conn net.Conn, _ string) {
				io.WriteString(conn, ok200+"\r\n")
				piece := make([]byte, 1<<20)
				for i := range 64 {
					conn.Write(piece)
					if i > 8 {
						most = max(most, c.Memory().Bytes)
					}
				}
			})})
		var spool testSpool
		req := testRequest()
		req.Spool = spool.open
		var resp Response
		if err := c.Do(t.Context(), req, &resp); err != nil || spool.Len() != 64<<20 {
			t.Fatalf("%v, %d bytes", err, spool.Len())
		}
		if most == 0 || most > SpoolBegin+spoolWindow {
			t.Errorf("%d bytes of the budget held", most)
		}
	})
}
