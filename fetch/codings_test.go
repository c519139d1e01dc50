package fetch

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"drumbeat/internal/cputime"
)

func TestParseCodings(t *testing.T) {
	for list, want := range map[string]string{
		"gzip": "gzip", "gzip,br,zstd": "gzip, br, zstd", " BR , gzip ": "br, gzip", "identity": "identity",
		"deflate,gzip,identity": "deflate, gzip, identity",
	} {
		if got, err := ParseCodings(list); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", list, got, err, want)
		}
	}
	for list, want := range map[string]string{
		"": `""`, "gzip,": `""`, "gzip,compress": `"compress"`, "gzip;q=0.5": `"gzip;q=0.5"`, "*": `"*"`,
		"br\r\nX: y": `"br\r\nx: y"`, "gzip, GZIP": "gzip is given twice",
	} {
		if got, err := ParseCodings(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v, want an error with %s", list, got, err, want)
		}
	}
}

// listenCodings starts a server that reports the field Accept-Encoding of each request.
func listenCodings(t *testing.T, asked func(value string)) netip.AddrPort {
	return listen(t, func(conn net.Conn) {
		for {
			head := readRequest(conn)
			if head == "" {
				return
			}
			_, rest, _ := strings.Cut(head, "\r\nAccept-Encoding: ")
			value, _, _ := strings.Cut(rest, "\r\n")
			asked(value)
			io.WriteString(conn, ok200+"Content-Length: 2\r\n\r\nhi")
			if strings.Contains(head, "Connection: close") {
				return
			}
		}
	})
}

// TestSetAcceptEncoding switches the codings between requests, on new and kept connections and while other
// requests run: each request has one of the values whole, and the last one once no Set follows.
func TestSetAcceptEncoding(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	addr := listenCodings(t, func(value string) {
		mu.Lock()
		defer mu.Unlock()
		asked[value]++
	})
	c, req := loopbackClient(t, addr, Options{})
	defer c.Close()
	var resp Response
	ask := func(want string) {
		t.Helper()
		for _, keep := range []time.Duration{0, time.Minute, time.Minute, 0} {
			r := *req
			r.KeepAlive = keep
			must(t, c.Do(t.Context(), &r, &resp))
			if !bytes.Contains(resp.RequestHead, []byte("\r\nAccept-Encoding: "+want+"\r\n")) {
				t.Errorf("request\n%swant %s", resp.RequestHead, want)
			}
		}
	}
	set := func(header string) {
		t.Helper()
		must(t, c.SetAcceptEncoding(header))
	}
	ask("gzip")
	set("gzip, br, zstd")
	ask("gzip, br, zstd")
	if err := c.SetAcceptEncoding("br\r\nX: y"); err == nil {
		t.Error("control characters are accepted")
	}
	ask("gzip, br, zstd")
	set("")
	ask("gzip")
	req.AcceptEncoding = "identity"
	ask("identity")
	req.AcceptEncoding = ""

	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			r := *req
			var resp Response
			for range 50 {
				if err := c.Do(t.Context(), &r, &resp); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 200 {
		set([]string{"gzip, br, zstd", "gzip"}[i%2])
	}
	group.Wait()
	mu.Lock()
	defer mu.Unlock()
	if asked["gzip"]+asked["gzip, br, zstd"] != 216 || asked["identity"] != 4 || len(asked) != 3 {
		t.Errorf("requests by Accept-Encoding: %v", asked)
	}
}

// TestSwitchAllocs: a client whose codings were switched allocates no more for a request.
func TestSwitchAllocs(t *testing.T) {
	conn := new(script)
	c := newTestClient(t, Options{Dial: func(context.Context, netip.AddrPort) (net.Conn, error) { return conn, nil }})
	must(t, c.SetAcceptEncoding("gzip, br, zstd"))
	req, head := testRequest(), make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { head = c.appendRequest(head[:0], req, req.Fields) }); n != 0 {
		t.Errorf("%.1f allocations a request head", n)
	}
}

var pagesFlag = flag.String("pages", "",
	"directories of HTML files for BenchmarkDecode, with commas between; a made page if empty")

// BenchmarkDecode decodes pages of 20 to 40 KB as the client does, by coding and quality of the encoder. It
// reports CPU time of the process and the mean size received.
func BenchmarkDecode(b *testing.B) {
	pages := benchPages(b)
	for _, by := range []struct {
		coding coding
		name   string
		open   func(io.Writer) (io.WriteCloser, error)
	}{
		{codingGzip, "gzip/level=6", func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, 6) }},
		{codingGzip, "gzip/level=9", func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, 9) }},
		{codingBrotli, "br/quality=5",
			func(w io.Writer) (io.WriteCloser, error) { return brotli.NewWriterLevel(w, 5), nil }},
		{codingBrotli, "br/quality=11",
			func(w io.Writer) (io.WriteCloser, error) { return brotli.NewWriterLevel(w, 11), nil }},
		{codingZstd, "zstd/level=3", zstdAt(zstd.SpeedDefault)},
		{codingZstd, "zstd/level=11", zstdAt(zstd.SpeedBestCompression)},
	} {
		b.Run("coding="+by.name, func(b *testing.B) {
			var packed [][]byte
			received, decoded := 0, 0
			for _, p := range pages {
				var z bytes.Buffer
				w, err := by.open(&z)
				must(b, err)
				w.Write(p)
				must(b, w.Close())
				packed, received, decoded = append(packed, z.Bytes()), received+z.Len(), decoded+len(p)
			}
			c := newTestClient(b, Options{})
			room := make([]byte, 0, 64<<10)
			full := func(p []byte, _ int) []byte { return p }
			i := 0
			b.SetBytes(int64(decoded / len(pages)))
			b.ReportAllocs()
			start := cputime.Process()
			for b.Loop() {
				k := i % len(pages)
				got, err := c.decodeInto(room, by.coding, packed[k], cap(room), full)
				if err != nil || len(got) != len(pages[k]) {
					b.Fatalf("%d bytes, %v, want %d", len(got), err, len(pages[k]))
				}
				i++
			}
			b.ReportMetric(float64(cputime.Process()-start)/float64(i), "cpu-ns/op")
			b.ReportMetric(float64(received)/float64(len(pages)), "received-B")
		})
	}
}

func zstdAt(level zstd.EncoderLevel) func(io.Writer) (io.WriteCloser, error) {
	return func(w io.Writer) (io.WriteCloser, error) {
		return zstd.NewWriter(w, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1))
	}
}

// benchPages returns at most 200 pages of 20 to 40 KB, spread evenly over the files of -pages.
func benchPages(b *testing.B) (pages [][]byte) {
	const most = 200
	if *pagesFlag == "" {
		return [][]byte{madePage(1)}
	}
	var names []string
	for dir := range strings.SplitSeq(*pagesFlag, ",") {
		if err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".html" {
				return err
			}
			info, err := e.Info()
			if err == nil && info.Mode().IsRegular() && info.Size() >= 20_000 && info.Size() <= 40_000 {
				names = append(names, name)
			}
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
	if len(names) == 0 {
		b.Fatalf("no page of 20 to 40 KB in %s", *pagesFlag)
	}
	for i := range min(most, len(names)) {
		p, err := os.ReadFile(names[i*len(names)/min(most, len(names))])
		must(b, err)
		pages = append(pages, p)
	}
	return pages
}

// madePage returns a page of 30 KB whose words have the frequencies of a language, by Zipf's law.
func madePage(seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, 0))
	words := make([]string, 4000)
	for i := range words {
		w := make([]byte, 2+rnd.IntN(9))
		for k := range w {
			w[k] = "etaoinshrdlucmfwyp"[min(rnd.IntN(18), rnd.IntN(18))]
		}
		words[i] = string(w)
	}
	law := rand.NewZipf(rnd, 1.1, 4, uint64(len(words)-1))
	p := []byte("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>page</title></head><body>\n")
	for len(p) < 30_000 {
		p = fmt.Appendf(p, "<div class=\"item\"><h2 class=\"title\"><a href=\"/%s/%s-%d.html\">", words[law.Uint64()],
			words[rnd.IntN(len(words))], rnd.IntN(1e5))
		for range 5 {
			p = append(append(p, words[law.Uint64()]...), ' ')
		}
		p = append(p, "</a></h2>\n<p class=\"text\">"...)
		for range 40 {
			p = append(append(p, words[law.Uint64()]...), ' ')
		}
		p = append(p, "</p></div>\n"...)
	}
	return append(p, "</body></html>\n"...)
}
