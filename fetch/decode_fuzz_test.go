package fetch

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"drumbeat/internal/damage"
)

// FuzzDecode: what the reference encoders pack is decoded, cut at the limits and marked. Any other bytes
// yield at most what the limits allow, a prefix of what a larger limit yields, the same bytes as the
// standard library as far as both go, and take bounded memory.
func FuzzDecode(f *testing.F) {
	text := []byte("the quick brown fox jumps over the lazy dog, the quick brown fox")
	codings := [...]string{"gzip", "deflate", "br", "zstd"}
	packers := [...]string{"gzip", "zlib", "br", "zstd"}
	for i := range codings {
		f.Add(byte(i), text, false)
		f.Add(byte(i+4*(i+1)), text, false) // packed twice
		f.Add(byte(i), []byte(encode(f, packers[i], string(text))), true)
		bomb := []byte(encode(f, packers[i], string(make([]byte, 1<<20))))
		f.Add(byte(i), bomb[:min(len(bomb), 1200)], true)
	}
	f.Add(byte(1), []byte(encode(f, "flate", string(text))), true)
	f.Add(byte(3), []byte("\x28\xb5\x2f\xfd\xa4\xff\xff\xff\x7f\x00\x00\x00"), true) // a window of 2 GiB
	reply := []byte(nil)
	dial := func(context.Context, netip.AddrPort) (net.Conn, error) {
		return &script{rest: reply, piece: 1 << 20}, nil
	}
	const small, large = 1 << 10, 1 << 16
	newClient := func(limit int) *Client {
		return newTestClient(f,
			Options{Dial: dial, Limits: Limits{BodyBytes: 1 << 16, DecodedBytes: limit, Ratio: Unlimited}})
	}
	c1, c2 := newClient(small), newClient(large)
	f.Fuzz(func(t *testing.T, kind byte, payload []byte, raw bool) {
		if len(payload) > 1<<14 {
			return
		}
		outer, inner := int(kind%4), int(kind/4%5)-1 // inner -1: packed once
		names, sent := codings[outer], payload
		if inner >= 0 {
			names = codings[inner] + ", " + names
		}
		if !raw {
			if inner >= 0 {
				sent = []byte(encode(t, packers[inner], string(sent)))
			}
			sent = []byte(encode(t, packers[outer], string(sent)))
		}
		reply = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s",
			names, len(sent), sent)
		var a, b Response
		var err1, err2 error
		n := damage.Allocated(func() {
			err1 = c1.Do(t.Context(), testRequest(), &a)
			err2 = c2.Do(t.Context(), testRequest(), &b)
		})
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if n > 64<<20 {
			t.Fatalf("%d bytes allocated", n)
		}
		if len(a.Body) > max(small, len(sent)) || len(b.Body) > max(large, len(sent)) ||
			!bytes.Equal(a.PayloadRaw, sent) {
			t.Fatalf("%d and %d bytes of %d", len(a.Body), len(b.Body), len(sent))
		}
		if inner < 0 && a.Flaws&FlawDecodedLimit != 0 && !bytes.HasPrefix(b.Body, a.Body) {
			t.Fatalf("small limit: %q, large: %q", a.Body, b.Body)
		}
		if !raw && len(payload) > 0 && len(payload) <= small && (!bytes.Equal(a.Body, payload) || a.Flaws != 0) {
			t.Fatalf("%s: got %q, marks %b, want %q", names, a.Body, a.Flaws, payload)
		}
		if raw && inner < 0 && b.Flaws&FlawNotEncoded == 0 {
			compareStandard(t, outer, sent, b.Body)
		}
	})
}

// compareStandard compares with the standard library's output. If one gives up earlier, its output is a
// prefix of the other's.
func compareStandard(t *testing.T, coding int, sent, got []byte) {
	var r io.Reader
	switch {
	case coding == 0:
		z, err := gzip.NewReader(bytes.NewReader(sent))
		if err != nil || sent[3]&0xe0 != 0 { // it ignores reserved flags
			return
		}
		r = z
	case coding == 1 && isZlib(sent):
		r = flate.NewReader(bytes.NewReader(sent[2:]))
	case coding == 1:
		r = flate.NewReader(bytes.NewReader(sent))
	default:
		return
	}
	want, err := io.ReadAll(io.LimitReader(r, 1<<16))
	if err == nil && !bytes.Equal(got, want) || !bytes.HasPrefix(got, want) && !bytes.HasPrefix(want, got) {
		t.Fatalf("got %q, the standard library %q, %v", got, want, err)
	}
}

// FuzzDesync appends bytes to a whole response. They never become part of it, whatever they are and however
// the connection splits them.
func FuzzDesync(f *testing.F) {
	f.Add([]byte("hello"), []byte("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"), byte(0), 3)
	f.Add([]byte("hello"), []byte("\r\nHTTP/1.1 200 OK\r\n\r\nevil"), byte(1), 1)
	f.Add([]byte(""), []byte("0\r\n\r\n"), byte(1), 1)
	f.Add([]byte("x"), []byte("5\r\nevil!\r\n0\r\n\r\n"), byte(2), 100)
	f.Add([]byte("0\r\n\r\n"), []byte("HTTP/1.1 404 No\r\n\r\n"), byte(3), 2)
	reply, piece := []byte(nil), 0
	c := newTestClient(f, Options{Limits: Limits{BodyBytes: 1 << 14},
		Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			return &script{rest: reply, piece: piece}, nil
		}})
	f.Fuzz(func(t *testing.T, body, behind []byte, form byte, cut int) {
		if len(body) > 1<<12 || len(behind) > 1<<12 {
			return
		}
		first, want := wholeReply(body, form)
		var alone, both Response
		reply, piece = first, 1<<20
		must(t, c.Do(t.Context(), testRequest(), &alone))
		if !bytes.Equal(alone.Body, want) || alone.Truncated != NotTruncated {
			t.Fatalf("%q: got %q, truncated %v", first, alone.Body, alone.Truncated)
		}
		reply, piece = append(bytes.Clone(first), behind...), cut&1023+1
		must(t, c.Do(t.Context(), testRequest(), &both))
		if both.Status != alone.Status || !bytes.Equal(both.Raw, alone.Raw) || !bytes.Equal(both.Body, alone.Body) ||
			both.Truncated != alone.Truncated || both.Flaws&^FlawExcess != alone.Flaws {
			t.Fatalf("%q then %q: got %q %b, alone %q %b", first, behind, both.Raw, both.Flaws, alone.Raw, alone.Flaws)
		}
	})
}

// wholeReply returns a reply with a body in one of four forms, and the expected body.
func wholeReply(body []byte, form byte) (reply, want []byte) {
	first := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	switch form % 4 {
	case 1: // chunks of at most 7 bytes, with extensions and a trailer
		first = []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for p := body; len(p) > 0; {
			n := min(len(p), 7)
			first = fmt.Appendf(first, "%x;a=\"b\"\r\n%s\r\n", n, p[:n])
			p = p[n:]
		}
		first = append(first, "0\r\nA: b\r\n\r\n"...)
	case 2: // no body by its status
		return []byte("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"), nil
	case 3: // preceded by interim responses
		first = append([]byte("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"), first...)
	}
	return first, body
}

// askedAgain is a connection that replies to each request in order and stays open.
type askedAgain struct {
	script
	replies [][]byte
}

func (a *askedAgain) Write(p []byte) (int, error) {
	if len(a.replies) > 0 {
		a.rest, a.replies = append(a.rest, a.replies[0]...), a.replies[1:]
	}
	return len(p), nil
}

func (a *askedAgain) Read(p []byte) (int, error) {
	if len(a.rest) == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return a.script.Read(p)
}

// FuzzReuse keeps a connection after a whole reply and any bytes that follow. The next request gets its own
// reply, on that connection only if nothing followed.
func FuzzReuse(f *testing.F) {
	f.Add([]byte("hello"), []byte("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"), byte(0), 3)
	f.Add([]byte("hello"), []byte{}, byte(0), 3)
	f.Add([]byte("hello"), []byte("\n"), byte(1), 1)
	f.Add([]byte(""), []byte("evil!"), byte(2), 100)
	f.Add([]byte("x"), []byte("0\r\n\r\n"), byte(3), 2)
	f.Fuzz(func(t *testing.T, body, behind []byte, form byte, cut int) {
		if len(body) > 1<<12 || len(behind) > 1<<12 {
			return
		}
		first, want := wholeReply(body, form)
		dials := 0
		next := []byte("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext")
		c := newTestClient(t, Options{Limits: Limits{Total: time.Second},
			Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
				if dials++; dials > 1 {
					return &askedAgain{script: script{piece: 1}, replies: [][]byte{next}}, nil
				}
				return &askedAgain{script: script{piece: cut&1023 + 1},
					replies: [][]byte{append(first, behind...), next}}, nil
			}})
		defer c.Close()
		var resp Response
		if err := c.Do(t.Context(), keepRequest(), &resp); err != nil || !bytes.Equal(resp.Body, want) {
			t.Fatalf("%q: got %v, %q", first, err, resp.Body)
		}
		if err := c.Do(t.Context(), keepRequest(), &resp); err != nil || string(resp.Body) != "next" ||
			resp.Reused != (len(behind) == 0) || resp.Reused != (dials == 1) {
			t.Fatalf("%q then %q: got %v, %q, reused %v, %d dials", first, behind, err, resp.Body, resp.Reused, dials)
		}
	})
}
