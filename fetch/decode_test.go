package fetch

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// encode packs s in the named coding.
func encode(t testing.TB, coding, s string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zlib":
		w = zlib.NewWriter(&b)
	case "flate":
		w, _ = flate.NewWriter(&b, 6)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	}
	io.WriteString(w, s)
	must(t, w.Close())
	return b.String()
}

func TestDecode(t *testing.T) {
	text := strings.Repeat("the quick brown fox ", 500)
	gz := encode(t, "gzip", text)
	half := gz[:len(gz)/2]
	for _, tt := range []struct {
		name, header, payload, want string
		marks                       Flaws
		encoding                    string
	}{
		{"none", "", text, text, 0, ""},
		{"gzip", "Content-Encoding: gzip", gz, text, 0, "gzip"},
		{"x-gzip", "Content-Encoding: X-GZIP", gz, text, 0, "gzip"},
		{"two members", "Content-Encoding: gzip", gz + gz, text + text, 0, "gzip"},
		{"zlib", "Content-Encoding: deflate", encode(t, "zlib", text), text, 0, "deflate"},
		{"raw deflate", "Content-Encoding: deflate", encode(t, "flate", text), text, 0, "deflate"},
		{"br", "Content-Encoding: br", encode(t, "br", text), text, 0, "br"},
		{"zstd", "Content-Encoding: zstd", encode(t, "zstd", text), text, 0, "zstd"},
		{"twice", "Content-Encoding: br, gzip", encode(t, "gzip", encode(t, "br", text)), text, 0, "br, gzip"},
		{"two lines", "Content-Encoding: br\r\nContent-Encoding: gzip", encode(t, "gzip", encode(t, "br", text)),
			text, 0, "br, gzip"},
		{"three times", "Content-Encoding: gzip, gzip, gzip", gz, gz, FlawUnknownCoding, ""},
		{"identity", "Content-Encoding: identity", text, text, 0, ""},
		{"identity and gzip", "Content-Encoding: identity, gzip", gz, text, 0, "gzip"},
		{"unknown", "Content-Encoding: utf-8", text, text, FlawUnknownCoding, ""},
		{"empty", "Content-Encoding: gzip", "", "", 0, ""},
		{"transfer coding", "Transfer-Encoding: gzip", gz, text, 0, "gzip"},
		{"isn't gzip", "Content-Encoding: gzip", text, text, FlawNotEncoded, ""},
		{"isn't gzip twice", "Content-Encoding: gzip, gzip", gz, text, FlawNotEncoded, "gzip"},
		{"isn't br", "Content-Encoding: br", "<html>hello", "<html>hello", FlawNotEncoded, ""},
		{"isn't deflate", "Content-Encoding: deflate", "<html>hello", "<html>hello", FlawNotEncoded, ""},
		{"isn't zstd", "Content-Encoding: zstd", "<html>hello", "<html>hello", FlawNotEncoded, ""},
		{"junk behind", "Content-Encoding: gzip", gz + "junkjunkjunk", text, FlawDecodeError, "gzip"},
		{"cut", "Content-Encoding: gzip", half, "?", FlawDecodeError, "gzip"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reply := ok200 + tt.header + "\r\n\r\n" + tt.payload
			if tt.header == "" {
				reply = ok200 + "\r\n" + tt.payload
			}
			resp := reply1(t, reply, Limits{Ratio: Unlimited})
			if tt.want == "?" {
				if !strings.HasPrefix(text, string(resp.Body)) {
					t.Errorf("got %.60q", resp.Body)
				}
			} else if string(resp.Body) != tt.want {
				t.Errorf("got %d bytes %.60q, want %d", len(resp.Body), resp.Body, len(tt.want))
			}
			if resp.Flaws&^FlawCloseDelimited != tt.marks || resp.Encoding != tt.encoding {
				t.Errorf("marks %b, encoding %q; want %b, %q", resp.Flaws, resp.Encoding, tt.marks, tt.encoding)
			}
			if string(resp.PayloadRaw) != tt.payload {
				t.Error("PayloadRaw isn't what was sent")
			}
		})
	}
}

// TestDecodeLater: Do leaves the body undecoded, its connection serves the next request meanwhile, and Decode
// or Reset ends the wait.
func TestDecodeLater(t *testing.T) {
	text := strings.Repeat("the quick brown fox ", 5000)
	packed := encode(t, "gzip", text)
	reply := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s",
		len(packed), packed)
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, Options{Dial: pipeDial(func(conn net.Conn, _ string) {
			for err := error(nil); err == nil; readRequest(conn) {
				_, err = io.WriteString(conn, reply)
			}
		})})
		defer c.Close()
		req := testRequest()
		req.KeepAlive, req.DecodeLater = time.Minute, true
		var first, second Response
		must(t, c.Do(t.Context(), req, &first))
		if !first.Kept || !first.Undecoded() || first.Body != nil || string(first.PayloadRaw) != packed {
			t.Errorf("kept %v, undecoded %v, body %d, payload %d bytes", first.Kept, first.Undecoded(), len(first.Body),
				len(first.PayloadRaw))
		}
		if err := c.Do(t.Context(), req, &second); err != nil || !second.Reused {
			t.Errorf("second: %v, reused %v", err, second.Reused)
		}
		for range 2 { // the second time Decode has nothing to do
			if err := first.Decode(t.Context()); err != nil || string(first.Body) != text || first.Encoding != "gzip" ||
				first.Undecoded() {
				t.Errorf("decoded: %v, %d bytes, %q, undecoded %v", err, len(first.Body), first.Encoding,
					first.Undecoded())
			}
		}
		second.Reset()
		if second.Undecoded() || second.buf.x.req != nil {
			t.Error("a response that was reset waits for Decode")
		}
		req.DecodeLater = false
		if err := c.Do(t.Context(), req, &second); err != nil || string(second.Body) != text || second.Undecoded() {
			t.Errorf("third: %v, %d bytes, undecoded %v", err, len(second.Body), second.Undecoded())
		}
	})
}

// TestDecodeLaterWithoutMemory: a body that gets no memory to be decoded in is a fault of ours, and the
// response is empty.
func TestDecodeLaterWithoutMemory(t *testing.T) {
	packed := encode(t, "gzip", strings.Repeat("x", 1<<20))
	limits := Limits{BodyBytes: 64 << 10, DecodedBytes: 2 << 20, Ratio: Unlimited}
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t,
			Options{Limits: limits, BufferBytes: limits.MemoryBytes(), Dial: pipeDial(func(conn net.Conn, _ string) {
				io.WriteString(conn, ok200+"Content-Encoding: gzip\r\n\r\n"+packed)
			})})
		req := testRequest()
		var holds, resp Response
		must(t, c.Do(t.Context(), req, &holds))
		req.DecodeLater = true
		must(t, c.Do(t.Context(), req, &resp))
		began := time.Now()
		err := resp.Decode(t.Context())
		var fe *Error
		if !errors.As(err, &fe) || !fe.Ours() || fe.Host != req.Host || resp.Raw != nil || resp.Status != 0 ||
			time.Since(began) > memoryWait {
			t.Errorf("%v after %v, status %d, %d bytes", err, time.Since(began), resp.Status, len(resp.Raw))
		}
		holds.Reset()
		resp.Reset()
		if s := c.Memory(); s.Bytes != 0 {
			t.Errorf("%d bytes are still held", s.Bytes)
		}
	})
}

// reply1 makes one exchange with a peer that sends reply and closes.
func reply1(t *testing.T, reply string, lim Limits) *Response {
	t.Helper()
	resp := new(Response)
	o := odd{reply: reply}
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, Options{Limits: lim, Dial: pipeDial(func(conn net.Conn, _ string) { o.serve(conn, "") })})
		must(t, c.Do(t.Context(), testRequest(), resp))
	})
	return resp
}

// TestBombs: a body that decodes to far more than was sent is cut and marked, and takes no more memory than
// the limit.
func TestBombs(t *testing.T) {
	bomb := strings.Repeat("\x00", 12<<20)
	for _, coding := range []string{"gzip", "zlib", "br", "zstd"} {
		packed := encode(t, coding, bomb)
		name := strings.Replace(coding, "zlib", "deflate", 1)
		for _, tt := range []struct {
			lim  Limits
			want int
			mark Flaws
		}{
			{Limits{Ratio: Unlimited}, 8 << 20, FlawDecodedLimit},
			{Limits{Ratio: 10}, max(len(packed)*10, RatioFloorBytes), FlawRatioLimit},
			{Limits{DecodedBytes: 1000}, 1000, FlawDecodedLimit},
		} {
			resp := reply1(t, ok200+"Content-Encoding: "+name+"\r\n\r\n"+packed, tt.lim)
			if len(resp.Body) != tt.want || resp.Flaws&tt.mark == 0 || cap(resp.buf.body) > 16<<20 {
				t.Errorf("%s: got %d bytes (room %d), marks %b; want %d, %b", coding, len(resp.Body),
					cap(resp.buf.body), resp.Flaws, tt.want, tt.mark)
			}
		}
	}
	// A bomb in a bomb: the outer coding packs the inner one small.
	inner := encode(t, "gzip", bomb)
	resp := reply1(t, ok200+"Content-Encoding: gzip, gzip\r\n\r\n"+encode(t, "gzip", inner), Limits{})
	if len(resp.Body) > 8<<20 || resp.Flaws&(FlawRatioLimit|FlawDecodedLimit) == 0 {
		t.Errorf("nested: %d bytes, marks %b", len(resp.Body), resp.Flaws)
	}
}

// TestBuffersAreGivenBack: after Reset a response holds only its small buffers.
func TestBuffersAreGivenBack(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	reply := ok200 + "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
	packed := encode(t, "gzip", big)
	reply += fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(packed), packed)
	resp := reply1(t, reply, Limits{Ratio: Unlimited})
	if len(resp.Body) != len(big) {
		t.Fatalf("got %d bytes", len(resp.Body))
	}
	pool := resp.buf.pool
	resp.Reset()
	held := cap(resp.buf.req) + cap(resp.buf.raw) + cap(resp.buf.payload) + cap(resp.buf.body)
	if held > 4*keepBufferBytes || pool.kept > poolBytes || pool.kept < 1<<20 {
		t.Errorf("holds %d bytes, pool %d", held, pool.kept)
	}
}

func TestPoolIsBounded(t *testing.T) {
	var p bufferPool
	for i := range 200 {
		p.put(make([]byte, 0, 1<<(minClass+i%12)))
		if p.kept > poolBytes {
			t.Fatalf("keeps %d", p.kept)
		}
	}
	found := 0
	for n := 1; n < 40<<20; n = n*3/2 + 1 {
		for _, n := range []int{n, roundUp(n)} {
			b := p.take(n)
			if b == nil {
				continue
			}
			found++
			if cap(b) < n || cap(b) > n+n/poolSlack || len(b) != 0 {
				t.Fatalf("take(%d) has room for %d", n, cap(b))
			}
		}
	}
	if found < 10 {
		t.Errorf("%d buffers were found", found)
	}
}
