package crawl

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"drumbeat/disk/memfs"
	"drumbeat/warc"
)

// packed returns s compressed with a content coding.
func packed(t *testing.T, coding, s string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zlib":
		w = zlib.NewWriter(&b)
	case "flate":
		w, err = flate.NewWriter(&b, 6)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, err = zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	}
	must(t, err)
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
	must(t, w.Close())
	return b.String()
}

// TestCodings: the crawl must find links in pages of every content coding, also in the part of a truncated
// or corrupt page that can be decoded. It must store every page as received.
func TestCodings(t *testing.T) {
	const filler = "<p>words of a page that is long enough for matches, words of a page</p>\n"
	type page struct{ coding, payload string }
	link := func(to string) string {
		return "<html><a href=\"" + to + "\">next</a>" + strings.Repeat(filler, 2000)
	}
	pages := map[string]page{
		"/":     {"gzip", packed(t, "gzip", link("/zlib"))},
		"/zlib": {"deflate", packed(t, "zlib", link("/raw"))},
		"/raw":  {"deflate", packed(t, "flate", link("/br"))},
		"/br":   {"br", packed(t, "br", link("/zstd"))},
		"/zstd": {"zstd", packed(t, "zstd", link("/two"))},
		"/two":  {"br, gzip", packed(t, "gzip", packed(t, "br", link("/members")))},
		"/members": {"gzip", packed(t, "gzip", strings.Repeat(filler, 10)) + packed(t, "gzip", link("/cut")) +
			packed(t, "gzip", "")},
		"/cut":  {"gzip", packed(t, "gzip", link("/junk"))},
		"/junk": {"x-gzip", packed(t, "gzip", link("/bad")) + "junk that is no member"},
		"/bad":  {"gzip", packed(t, "gzip", link("/none"))}, // wrong checksum, see below
		"/none": {"gzip", link("/last")},
		"/last": {"", link("/")},
	}
	cut, bad := pages["/cut"], pages["/bad"]
	cut.payload = cut.payload[:len(cut.payload)*9/10]
	bad.payload = bad.payload[:len(bad.payload)-8] + "checksum"
	pages["/cut"], pages["/bad"] = cut, bad
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: pagesOnly}
		w.Raw = func(c net.Conn, _, path string) bool {
			p, ok := pages[path]
			if ok {
				_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: "+
					"%s\r\nContent-Length: %d\r\n\r\n%s", p.coding, len(p.payload), p.payload)
			}
			return ok
		}
		fs := memfs.New(*seedFlag)
		opt := tinyOptions(t, w, fs, "http://codings.test/")
		atOnce(&opt)
		opt.Limits.Linger = 0
		mustRun(t, t.Context(), opt)
		for path := range pages {
			if n := len(w.Got("codings.test", path)); n != 1 {
				t.Errorf("%s was requested %d times, want 1", path, n)
			}
		}
		stored := map[string]string{}
		eachRecord(t, fs, opt.Disk.Dirs, func(r *warc.Record) {
			if r.Type() == "response" {
				stored[strings.TrimPrefix(r.Get("WARC-Target-URI"), "http://codings.test")] = string(r.Block)
			}
		})
		for path, p := range pages {
			if !strings.HasSuffix(stored[path], "\r\n\r\n"+p.payload) ||
				!strings.Contains(stored[path], "Content-Encoding: "+p.coding+"\r\n") {
				t.Errorf("%s is stored as %.200q, want %d bytes as received", path, stored[path], len(p.payload))
			}
		}
	})
}
