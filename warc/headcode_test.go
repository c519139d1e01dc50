package warc

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestHeadCode: the code is complete, as inflaters require, covers all bytes of header lines, and no code is
// longer than pack assumes.
func TestHeadCode(t *testing.T) {
	lengths := allLengths()
	for name, list := range map[string][]byte{"text": lengths[:], "table": tableLengths[:]} {
		sum := 0
		for _, n := range list {
			if n > mostLength {
				t.Errorf("%s: a code of %d bits", name, n)
			}
			if n > 0 {
				sum += 1 << (mostLength - n)
			}
		}
		if sum != 1<<mostLength {
			t.Errorf("%s: codes fill %d of %d", name, sum, 1<<mostLength)
		}
	}
	for c := range 256 {
		want := c >= ' ' && c < 0x7f || c == '\t' || c == '\r' || c == '\n'
		if got := headCodes[c] != noCode; got != want {
			t.Errorf("byte %#x has a code: %v", c, got)
		}
	}
}

// TestPackedText: the standard library decodes any text in pieces of any length, some of them fragments.
func TestPackedText(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	all := []*fragment{fieldDate, fieldID, fieldIP, typeResponse, emptyLine}
	for range 300 {
		e := new(Writer).NewEncoder()
		e.field(beginRequest)
		for range rng.IntN(12) {
			for range rng.IntN(40) {
				e.text = append(e.text, byte(' '+rng.IntN(95)))
			}
			e.field(all[rng.IntN(len(all))])
		}
		var p Prepared
		e.member(&p, typeRequest, []byte("a head\r\n\r\n"), nil, false)
		if got := gunzip(t, p.buf); len(got) != 1 || got[0] != string(e.text) {
			t.Fatalf("got %q, want %q", got, e.text)
		}
	}
}

// page returns a typical exchange: heads of usual size, a body received compressed and chunked.
func page(bodyBytes int, encoded bool) *Exchange {
	x := &Exchange{
		URL: []byte("http://www.quince.test/library/concurrent.futures.html"), Date: when,
		IP: netip.MustParseAddr("127.0.0.11"),
		Request: []byte(
			"GET /library/concurrent.futures.html HTTP/1.1\r\nUser-Agent: drumbeat/0.1.0 (+you@example.org)\r\n" +
				"Host: www.quince.test\r\nFrom: you@example.org\r\nAccept: " +
				"text/html,application/xhtml+xml,*/*;q=0.8\r\n" +
				"Accept-Encoding: gzip\r\nConnection: close\r\n\r\n"),
		Head: []byte(
			"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sun, 22 Nov 2026 08:20:45 GMT\r\nContent-Type: text/html\r\n" +
				"Last-Modified: Wed, 07 Oct 2026 12:35:07 GMT\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n" +
				"ETag: W/\"6ac63c7b-32d3\"\r\nContent-Encoding: gzip\r\n\r\n"),
		Chunked: true, Encoded: encoded, Protocols: []string{"http/1.1"}, Status: 200, MIME: "text/html",
		Meta: []Field{{"fetchTimeMs", "24"}, {"depth", "3"}},
	}
	body := make([]byte, bodyBytes)
	rng := rand.New(rand.NewPCG(uint64(bodyBytes), 1))
	for i := range body {
		body[i] = byte(rng.Uint32())
		if !encoded {
			body[i] = "the page, of a crawler"[body[i]%22]
		}
	}
	x.Body = fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	return x
}

// TestReaders: the standard library, our reader and gzip read every form of Prepare's output, at every level.
func TestReaders(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	sizes := []int{0, 1, 300, 5400, maxStored - 1, maxStored, maxStored + 1, 200_000}
	for n := smallBody - 8; n <= smallBody+8; n++ {
		sizes = append(sizes, n)
	}
	eachFormat(t, func(t *testing.T, format func(*Options)) { testReaders(t, sizes, format) })
}

func testReaders(t *testing.T, sizes []int, format func(*Options)) {
	for _, level := range []int{LevelFast, 1, 3, 6, 9} {
		t.Run(fmt.Sprintf("level=%d", level), func(t *testing.T) {
			opt := testOptions(memfs.New(1), 1)
			opt.Level = level
			format(&opt)
			w := open(t, opt, nil)
			e := w.NewEncoder()
			var all []byte
			sizes := slices.Clone(sizes)
			if w.zst != nil {
				all = append(all, w.zst.head...)
				sizes = append(sizes, 2<<20) // longer than the window
			}
			for _, size := range sizes {
				for _, encoded := range []bool{false, true} {
					for _, head := range []string{"", "X-\xe4: \x01\r\n"} { // bytes without a code
						all = append(all, readable(t, e, size, encoded, head)...)
					}
				}
			}
			readers(t, all, opt.Dict, 3*4*len(sizes))
		})
	}
}

// readable prepares a page with a body of this size and another header line, and checks the text of its
// records. It returns them.
func readable(t *testing.T, e *Encoder, size int, encoded bool, head string) []byte {
	t.Helper()
	x := page(size, encoded)
	x.Head, x.Body = append([]byte("HTTP/1.1 200 OK\r\n"+head), x.Head[17:]...), x.Body[:size]
	var p Prepared
	must(t, e.Prepare(&p, x))
	var dict []byte
	if e.zst != nil {
		dict = e.zst.dict
	}
	if text := texts(t, p.buf, dict); len(text) != 3 ||
		!strings.HasSuffix(text[1], "\r\n\r\n"+string(x.Head)+string(x.Body)+"\r\n\r\n") {
		t.Errorf("%d bytes, encoded %v, head %q: record isn't what was fetched", size, encoded, head)
	}
	return p.buf
}

// readers checks that our reader finds want records in a file, and that gzip or zstd accepts it.
func readers(t *testing.T, file, dict []byte, want int) {
	t.Helper()
	got := 0
	if err := Read(bytes.NewReader(file), 1<<20, func(*Record) error { got++; return nil }); err != nil || got != want {
		t.Errorf("got %d records of %d, %v", got, want, err)
	}
	command := []string{"gzip", "-t"}
	if !bytes.HasPrefix(file, []byte(memberMagic)) {
		command = []string{"zstd", "-t"}
	}
	if len(dict) > 0 {
		name := filepath.Join(t.TempDir(), "dict")
		must(t, os.WriteFile(name, dict, 0o600))
		command = append(command, "-D", name)
	}
	if path, err := exec.LookPath(command[0]); err == nil {
		cmd := exec.Command(path, command[1:]...)
		cmd.Stdin = bytes.NewReader(file)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%q: %v, %s", command, err, out)
		}
	}
}

// TestLevelsShrink: LevelFast stores a page in about the space of level 1, and level 9 in less.
func TestLevelsShrink(t *testing.T) {
	x := page(0, false)
	rng := rand.New(rand.NewPCG(5, 6))
	for len(x.Body) < 25000 {
		x.Body = fmt.Appendf(x.Body, "<li class=\"item\"><a href=\"/articles/%d\">Article %d</a> of the archive</li>\n",
			rng.IntN(1e6), rng.IntN(1e3))
	}
	size := map[int]float64{}
	for _, level := range []int{LevelFast, 1, 9} {
		opt := testOptions(memfs.New(1), 1)
		opt.Level = level
		var p Prepared
		must(t, open(t, opt, nil).NewEncoder().Prepare(&p, x))
		size[level] = float64(p.response.length)
	}
	if size[LevelFast] > 1.03*size[1] || size[9] > size[LevelFast] {
		t.Errorf("bytes of the record by level: %v", size)
	}
}

// TestHeadBytes: heads take little more space than with the standard library's best compression.
func TestHeadBytes(t *testing.T) {
	e := open(t, testOptions(memfs.New(1), 1), nil).NewEncoder()
	var p Prepared
	x := page(5400, true)
	must(t, e.Prepare(&p, x))
	var best bytes.Buffer
	for i, text := range gunzip(t, p.buf) {
		zw, err := gzip.NewWriterLevel(&best, gzip.BestCompression)
		must(t, err)
		if i == 1 {
			text = text[:len(text)-len(x.Body)]
		}
		io.WriteString(zw, text)
		zw.Close()
	}
	got, least := len(p.buf)-len(x.Body), best.Len()
	t.Logf("heads of a page: %d bytes, %d by level 9", got, least)
	if float64(got) > 1.17*float64(least) {
		t.Errorf("got %d bytes for heads, level 9 %d", got, least)
	}
}

// TestPrepareAllocatesNothing: it allocates nothing in the steady state, even with different dates.
func TestPrepareAllocatesNothing(t *testing.T) { eachFormat(t, testPrepareAllocatesNothing) }

func testPrepareAllocatesNothing(t *testing.T, format func(*Options)) {
	opt := testOptions(memfs.New(1), 1)
	format(&opt)
	w := open(t, opt, nil)
	e, x := w.NewEncoder(), page(5400, true)
	x.URL, x.Redirect = []byte("http://h.test/a%20/B?b=1&a=2"), "http://h.test/\xff"
	var p Prepared
	n := testing.AllocsPerRun(200, func() {
		x.Date = x.Date.Add(time.Second)
		must(t, e.Prepare(&p, x))
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPage(b *testing.B) {
	for _, c := range []struct {
		name    string
		bytes   int
		encoded bool
		level   int
	}{{"gzip", 5400, true, LevelFast}, {"identity", 25000, false, LevelFast}, {"identity/level=1", 25000, false, 1},
		{"small", 200, false, LevelFast}} {
		b.Run("body="+c.name, func(b *testing.B) {
			opt := testOptions(memfs.New(1), 1)
			opt.Level, opt.Random = c.level, nil
			w, err := Open(opt, nil)
			must(b, err)
			e, x := w.NewEncoder(), page(c.bytes, c.encoded)
			var p Prepared
			b.ReportAllocs()
			for b.Loop() {
				must(b, e.Prepare(&p, x))
			}
			b.ReportMetric(float64(len(p.buf)), "stored-B/op")
		})
	}
}

// FuzzPrepare: every capture can be read back.
func FuzzPrepare(f *testing.F) {
	x := page(50, true)
	f.Add(string(x.URL), string(x.Request), string(x.Head), string(x.Body), true, true)
	f.Add("http://a.test/", "", "HTTP/1.1 200 \xff\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", false, false)
	var writers [3]*Writer
	for i, set := range []func(*Options){func(o *Options) {}, func(o *Options) { o.Format = Zstd },
		func(o *Options) { o.Format, o.Dict = Zstd, testDict }} {
		opt := testOptions(memfs.New(1), 1)
		set(&opt)
		var err error
		if writers[i], err = Open(opt, nil); err != nil {
			f.Fatal(err)
		}
	}
	var p Prepared
	f.Fuzz(func(t *testing.T, url, request, head, body string, chunked, encoded bool) {
		for _, w := range writers {
			fuzzPrepare(t, w, w.NewEncoder(), &p, url, request, head, body, chunked, encoded)
		}
	})
}

func fuzzPrepare(t *testing.T, w *Writer, e *Encoder, p *Prepared, url, request, head, body string,
	chunked, encoded bool) {
	e.blockDigest = len(body)%2 == 0
	x := sampleExchange()
	x.URL, x.Request, x.Head, x.Body = []byte(url), []byte(request), []byte(head), []byte(body)
	x.Chunked, x.Encoded = chunked, encoded
	if e.Prepare(p, x) != nil {
		return
	}
	var blocks []string
	dec := new(decoder)
	if w.zst != nil {
		dec = fileDecoder(bytes.NewReader(w.zst.head))
	}
	err := dec.read(bytes.NewReader(p.buf), 1<<20, func(r *Record) error {
		want := sha1Of(r.Block)
		if r.Type() == "response" && !e.blockDigest {
			want = ""
		}
		if got := r.Get("WARC-Block-Digest"); got != want {
			t.Errorf("block digest %q, want %q", got, want)
		}
		if r.Type() == "response" && r.Offset != p.response.offset {
			t.Errorf("response at %d, want %d", r.Offset, p.response.offset)
		}
		blocks = append(blocks, string(r.Block))
		return nil
	})
	want := []string{request, head + body, "depth: 3\r\nvia: https://x.example/\r\n"}
	if request == "" {
		want = want[1:]
	}
	if err != nil || !slices.Equal(blocks, want) {
		t.Fatalf("%v; got %q, want %q", err, blocks, want)
	}
}

// Of BenchmarkFormats.
var (
	pagesFlag = flag.String("pages", "", "HTML files for BenchmarkFormats, as a pattern")
	dictFlag  = flag.String("dict", "", "dictionary for BenchmarkFormats")
)

// formatPages returns the pages of -pages, as they are and in gzip coding.
func formatPages(b *testing.B) (plain, coded []*Exchange) {
	names, err := filepath.Glob(*pagesFlag)
	must(b, err)
	for _, name := range names {
		data, err := os.ReadFile(name)
		must(b, err)
		if len(data) < 5_000 || len(data) > 30_000 {
			continue
		}
		var packed bytes.Buffer
		zw := gzip.NewWriter(&packed)
		zw.Write(data)
		zw.Close()
		for i, body := range [][]byte{data, packed.Bytes()} {
			x := page(0, i == 1)
			x.URL = []byte("http://www.quince.test/" + filepath.Base(name))
			x.Body, x.Chunked = body, false
			if i == 0 {
				x.Head = bytes.Replace(x.Head, []byte("Content-Encoding: gzip\r\n"), nil, 1)
				plain = append(plain, x)
			} else {
				coded = append(coded, x)
			}
		}
	}
	return plain, coded
}

// BenchmarkFormats stores the HTML files of -pages that have 5 to 30 KB, one after the other, as they are and
// as a server would send them in gzip coding.
func BenchmarkFormats(b *testing.B) {
	plain, coded := formatPages(b)
	if len(plain) == 0 {
		b.Skip("no -pages")
	}
	var dict []byte
	if *dictFlag != "" {
		var err error
		if dict, err = ReadDict(disk.OS(), *dictFlag); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		format Format
		level  int
		dict   []byte
	}{{"gz/fast", Gzip, LevelFast, nil}, {"gz/6", Gzip, 6, nil}, {"zst/fast", Zstd, LevelFast, nil},
		{"zst/3", Zstd, 3, nil}, {"zst/6", Zstd, 6, nil}, {"zst/fast/dict", Zstd, LevelFast, dict},
		{"zst/3/dict", Zstd, 3, dict}} {
		for i, pages := range [][]*Exchange{plain, coded} {
			b.Run(c.name+[]string{"/identity", "/gzip"}[i], func(b *testing.B) {
				if strings.HasSuffix(c.name, "dict") && dict == nil {
					b.Skip("no -dict")
				}
				opt := testOptions(memfs.New(1), 1)
				opt.Format, opt.Level, opt.Dict, opt.Random = c.format, c.level, c.dict, nil
				w, err := Open(opt, nil)
				must(b, err)
				e := w.NewEncoder()
				var p Prepared
				stored, n := 0, 0
				b.ReportAllocs()
				for b.Loop() {
					must(b, e.Prepare(&p, pages[n%len(pages)]))
					if n++; n <= len(pages) {
						stored += len(p.buf)
					}
				}
				b.ReportMetric(float64(stored)/float64(min(n, len(pages))), "stored-B/op")
			})
		}
	}
}
