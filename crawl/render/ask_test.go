package render

import (
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/fetcher"
	cdp "drumbeat/internal/render"
)

// coded returns a reply with a gzip body in two chunks.
func coded(t testing.TB, text string) *reply {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	half, sum := b.Len()/2, sha1.Sum(b.Bytes())
	return &reply{Reuse: true, Status: 200, Date: time.Unix(1800000000, 0).UTC(), IP: netip.MustParseAddr("127.0.0.1"),
		Protocols: []string{"h2", "tls/1.3"}, Chunked: true, Encoded: true, MIME: []byte("text/javascript"),
		Digest: sum[:], request: []byte("GET / HTTP/1.1\r\n\r\n"),
		head: []byte("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"),
		body: fmt.Appendf(nil, "%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", half, b.Bytes()[:half], b.Len()-half,
			b.Bytes()[half:])}
}

// TestReply: a reply arrives with the exchange as it was received, and the page gets its body without chunks and
// content coding, up to a limit.
func TestReply(t *testing.T) {
	text := strings.Repeat("script ", 1000)
	sent := coded(t, text)
	got, err := decodeReply(sent.encode())
	if err != nil {
		t.Fatal(err)
	}
	x, want := got.exchange("http://a.test/x.js"), sent.exchange("http://a.test/x.js")
	if fmt.Sprintf("%+v", x) != fmt.Sprintf("%+v", want) || !bytes.Equal(got.Digest, sent.Digest) || !got.Reuse {
		t.Errorf("got %+v, want %+v", x, want)
	}
	if body, err := got.plain(int64(len(text))); err != nil || string(body) != text {
		t.Errorf("body %q, %v", body, err)
	}
	if _, err := got.plain(int64(len(text)) - 1); !errors.Is(err, cdp.ErrTooMuch) {
		t.Errorf("a body above the limit: %v", err)
	}
	for _, a := range []*reply{{Later: time.Second}, {Refused: "no"}, {Failed: "broken"}, {TooLarge: true}} {
		if got, err := decodeReply(a.encode()); err != nil || fmt.Sprint(got) != fmt.Sprint(a) {
			t.Errorf("got %v, %v, want %v", got, err, a)
		}
	}
}

// FuzzReply: no bytes of another node make the decoder panic, or return parts that are not in its block.
func FuzzReply(f *testing.F) {
	whole := coded(f, "script").encode()
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add([]byte{3, '{', '}', ' '})
	f.Add([]byte(`#{"status":200,"request":-1,"head":9}x`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > cluster.MaxMessageBytes {
			return
		}
		a, err := decodeReply(data)
		if err != nil || a.head == nil {
			return
		}
		if len(a.request)+len(a.head)+len(a.body) > mostPlain || len(a.Digest) != sha1.Size {
			t.Errorf("a reply of %d, %d and %d bytes", len(a.request), len(a.head), len(a.body))
		}
		if body, err := a.plain(1 << 20); err == nil && len(body) > 1<<20 {
			t.Errorf("a body of %d bytes", len(body))
		}
	})
}

// TestQuestion: a question of another node must name canonical URLs, and have time left. One without a source never
// gets the secrets of a site.
func TestQuestion(t *testing.T) {
	for _, q := range []question{{URL: "http://a.test/x", From: "http://b.test/", Left: 1},
		{URL: "http://a.test/x", From: string(fetcher.Foreign), Left: 1}} {
		if got, ok := decodeQuestion(q.encode()); !ok || got != q {
			t.Errorf("%+v: got %+v, %v", q, got, ok)
		}
	}
	for _, bad := range []question{{From: "http://b.test/", Left: 1}, {URL: "http://a.test/x", Left: 1},
		{URL: "http://a.test/x", From: "http://b.test/"}, {URL: "http://A.test/x", From: "http://b.test/", Left: 1},
		{URL: "ftp://a.test/x", From: "http://b.test/", Left: 1}} {
		if _, ok := decodeQuestion(bad.encode()); ok {
			t.Errorf("taken: %+v", bad)
		}
	}
}

// TestAskedPlaces: requests for other nodes have a bound, also those of one PLD.
func TestAskedPlaces(t *testing.T) {
	p := askedPlaces{plds: map[uint64]int{}}
	for i := range askPlacesPLD {
		if !p.take(7) {
			t.Fatalf("no place %d of the PLD", i)
		}
	}
	if p.take(7) {
		t.Error("one more place of the PLD")
	}
	for i := range uint64(askPlaces - askPlacesPLD) {
		if !p.take(100 + i) {
			t.Fatalf("no place for PLD %d", i)
		}
	}
	if p.take(8) {
		t.Error("one more place")
	}
	p.give(7)
	if !p.take(8) || p.all != askPlaces || p.plds[7] != askPlacesPLD-1 {
		t.Errorf("%d places, %v", p.all, p.plds)
	}
}
