package fetch

import (
	"bufio"
	"bytes"
	"slices"
	"testing"

	"github.com/valyala/fasthttp"

	"drumbeat/internal/httphead"
)

// FuzzHead: fasthttp's codec reads the normalized head of any input and finds the same values in it.
// Exceptions: it takes the last of repeated Server lines and rewrites Set-Cookie and Connection, which this
// package does not use.
func FuzzHead(f *testing.F) {
	for _, o := range oddReplies {
		if end, _ := httphead.End([]byte(o.reply), 0); end > 0 && end < 4<<10 {
			f.Add([]byte(o.reply[:end]))
		}
	}
	f.Add(
		[]byte("HTTP/1.1 200 OK\r\nLink: a\r\nX:\r\nlink: \x01b\r\n c\r\nContent-Length: 5,6\r\nContent-Encoding: " +
			"gzip\r\ncontent-encoding: br\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var resp Response
		var fr framing
		if readHead(in, &resp, &fr) != nil {
			return
		}
		if fr.chunked != httphead.Chunked(in) {
			t.Fatalf("%q: chunked %v, but %v for readers of records", in, fr.chunked, !fr.chunked)
		}
		h := &resp.buf.head
		fixed := []byte("HTTP/1.1 200 \r\n")
		var names []string
		for _, f := range h.fields {
			name := string(h.text[f.key:f.value])
			fixed = append(append(append(fixed, name...), ": "...), h.text[f.value:f.end]...)
			fixed = append(fixed, "\r\n"...)
			switch {
			case httphead.Is([]byte(name), "server"), httphead.Is([]byte(name), "set-cookie"),
				httphead.Is([]byte(name), "connection"):
			default:
				names = append(names, name)
			}
		}
		var codec fasthttp.ResponseHeader
		codec.SetNoDefaultContentType(true)
		if err := codec.Read(bufio.NewReaderSize(bytes.NewReader(append(fixed, "\r\n"...)),
			2*maxHeaderBytes)); err != nil {
			t.Fatalf("%q: fixed to %q: %v", in, fixed, err)
		}
		for _, name := range names {
			var got, want [][]byte
			resp.EachHeader(name, func(v []byte) bool { got = append(got, v); return true })
			for _, v := range codec.PeekAll(name) {
				if len(v) > 0 {
					want = append(want, v)
				}
			}
			if !slices.EqualFunc(got, want, bytes.Equal) || !bytes.Equal(resp.Header(name), codec.Peek(name)) {
				t.Fatalf("%q: %s is %q, %q; the codec has %q, %q", in, name, resp.Header(name), got,
					codec.Peek(name), want)
			}
		}
	})
}
