package warc

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

var when = time.Date(2026, 11, 21, 22, 43, 5, 678e6, time.UTC)

// counting is a source of "random" bytes for golden tests.
type counting byte

func (c *counting) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(*c)
		*c++
	}
	return len(p), nil
}

// testDict is a dictionary in the format of zstd --train, from the heads of sample pages.
var testDict = func() []byte {
	var contents [][]byte
	for n := range 20 {
		contents = append(contents,
			fmt.Appendf(nil, "WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: http://h%d.example/%d"+
				"\r\nContent-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\nHTTP/1.1 200 "+
				"OK\r\npage %d ", n%17, n, n*n, n))
	}
	dict, err := zstd.BuildDict(zstd.BuildDictOptions{ID: 77_777, Contents: contents,
		History: slices.Concat(contents...), Offsets: [3]int{1, 4, 8}, Level: zstd.SpeedDefault})
	if err != nil {
		panic(err)
	}
	return dict
}()

// eachFormat runs a test for gz files, for zst files, and for zst files with a dictionary.
func eachFormat(t *testing.T, test func(t *testing.T, set func(*Options))) {
	for _, c := range []struct {
		name   string
		format Format
		dict   []byte
	}{{"gz", Gzip, nil}, {"zst", Zstd, nil}, {"zst with dictionary", Zstd, testDict}} {
		t.Run(c.name, func(t *testing.T) { test(t, func(o *Options) { o.Format, o.Dict = c.format, c.dict }) })
	}
}

// isData reports whether a file name is that of a WARC file.
func isData(name string) bool { return strings.Contains(name, ".warc.") }

// indexOf returns the path of the index of a WARC file.
func indexOf(path string) string { return path[:strings.LastIndex(path, ".warc.")] + indexSuffix }

// texts decodes each record of a file or a part of one with independent libraries: members with the standard
// library, frames as a concatenation, which it splits by the lengths of the records.
func texts(t *testing.T, data, dict []byte) []string {
	t.Helper()
	if !bytes.HasPrefix(data, []byte(frameMagic)) && !bytes.HasPrefix(data, []byte(dictFrameMagic)) {
		return gunzip(t, data)
	}
	opt := []zstd.DOption{zstd.WithDecoderConcurrency(1)}
	if len(dict) > 0 {
		opt = append(opt, zstd.WithDecoderDicts(dict))
	}
	z, err := zstd.NewReader(nil, opt...)
	must(t, err)
	all, err := z.DecodeAll(data, nil)
	must(t, err)
	return split(t, string(all))
}

// split splits the text of an uncompressed WARC file into records.
func split(t *testing.T, all string) (list []string) {
	t.Helper()
	for all != "" {
		head, _, ok := strings.Cut(all, "\r\n\r\n")
		_, after, found := strings.Cut(head, "\r\nContent-Length: ")
		n, err := strconv.Atoi(after)
		end := len(head) + 4 + n + 4
		if !ok || !found || err != nil || end > len(all) {
			t.Fatalf("no record: %.300q", all)
		}
		list, all = append(list, all[:end]), all[end:]
	}
	return list
}

func testOptions(fs disk.FS, dirs int) Options {
	opt := Options{Set: disk.Set{FS: fs}, State: disk.Set{FS: fs, Paths: []string{"/state"}}, Random: new(counting)}
	for i := range dirs {
		opt.Set.Paths = append(opt.Set.Paths, fmt.Sprintf("/out%d", i))
	}
	opt.Info = []Field{{"software", "drumbeat/test"}, {"robots", "obey"}}
	opt.Host = "crawler-1"
	return opt
}

func open(t *testing.T, opt Options, st *State) *Writer {
	t.Helper()
	w, err := Open(opt, st)
	must(t, err)
	return w
}

func sampleExchange() *Exchange {
	return &Exchange{
		URL: []byte("https://www.example.org/a/?b=2&a=1"), Date: when, IP: netip.MustParseAddr("::ffff:192.0.2.7"),
		Request: []byte("GET /a/?b=2&a=1 HTTP/1.1\r\nHost: www.example.org\r\n\r\n"),
		Head:    []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"),
		Body:    []byte("<p>hello</p>"), Truncated: "length", Protocols: []string{"http/1.1"},
		Cipher: "TLS_AES_128_GCM_SHA256",
		Status: 200, MIME: "text/html", Meta: []Field{{"depth", "3"}, {"via", "https://x.example/"}},
	}
}

// gunzip decodes each member with the standard library and returns the texts.
func gunzip(t *testing.T, data []byte) (members []string) {
	t.Helper()
	r := bytes.NewReader(data)
	for r.Len() > 0 {
		zr, err := gzip.NewReader(r)
		must(t, err)
		zr.Multistream(false)
		text, err := io.ReadAll(zr)
		must(t, err)
		members = append(members, string(text))
	}
	return members
}

func sha(s string) string {
	sum := sha1.Sum([]byte(s))
	return "sha1:" + base32.StdEncoding.EncodeToString(sum[:])
}

func TestGoldenRecords(t *testing.T) {
	x := sampleExchange()
	w := open(t, testOptions(memfs.New(1), 1), nil)
	e := w.NewEncoder()
	var p Prepared
	must(t, e.Prepare(&p, x))
	common := "WARC-Target-URI: https://www.example.org/a/?b=2&a=1\r\nWARC-Date: 2026-11-21T22:43:05Z\r\n"
	want := []string{
		"WARC/1.1\r\nWARC-Type: request\r\n" + common +
			"WARC-Record-ID: <urn:uuid:e0e1e2e3-e4e5-46e7-a8e9-eaebecedeeef>\r\n" +
			"WARC-IP-Address: 192.0.2.7\r\nWARC-Protocol: http/1.1\r\n" +
			"WARC-Cipher-Suite: TLS_AES_128_GCM_SHA256\r\n" +
			"WARC-Concurrent-To: <urn:uuid:f0f1f2f3-f4f5-46f7-b8f9-fafbfcfdfeff>\r\n" +
			"WARC-Block-Digest: " + sha(string(x.Request)) + "\r\n" +
			"Content-Type: application/http; msgtype=request\r\nContent-Length: 51\r\n\r\n" +
			string(x.Request) + "\r\n\r\n",
		"WARC/1.1\r\nWARC-Type: response\r\n" + common +
			"WARC-Record-ID: <urn:uuid:f0f1f2f3-f4f5-46f7-b8f9-fafbfcfdfeff>\r\n" +
			"WARC-IP-Address: 192.0.2.7\r\nWARC-Protocol: http/1.1\r\n" +
			"WARC-Cipher-Suite: TLS_AES_128_GCM_SHA256\r\n" +
			"WARC-Payload-Digest: " + sha("<p>hello</p>") + "\r\nWARC-Truncated: length\r\n" +
			"Content-Type: application/http; msgtype=response\r\nContent-Length: 56\r\n\r\n" +
			string(x.Head) + string(x.Body) + "\r\n\r\n",
		"WARC/1.1\r\nWARC-Type: metadata\r\n" + common +
			"WARC-Record-ID: <urn:uuid:d0d1d2d3-d4d5-46d7-98d9-dadbdcdddedf>\r\n" +
			"WARC-Concurrent-To: <urn:uuid:f0f1f2f3-f4f5-46f7-b8f9-fafbfcfdfeff>\r\n" +
			"WARC-Block-Digest: " + sha("depth: 3\r\nvia: https://x.example/\r\n") + "\r\n" +
			"Content-Type: application/warc-fields\r\nContent-Length: 35\r\n\r\n" +
			"depth: 3\r\nvia: https://x.example/\r\n\r\n\r\n",
	}
	got := gunzip(t, p.buf)
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("record %d: got\n%s\nwant\n%s", i, strings.Join(got, "\n======\n"), want[i])
		}
	}
	e.blockDigest = true
	var full Prepared
	must(t, e.Prepare(&full, x))
	line := "WARC-Block-Digest: " + sha(string(x.Head)+string(x.Body)) +
		"\r\nContent-Type: application/http; msgtype=response\r\n"
	if text := gunzip(t, full.buf)[1]; !strings.Contains(text, "WARC-Truncated: length\r\n"+line) {
		t.Errorf("with block digests: got %s, want %s", text, line)
	}
	loc, err := w.Append(&p, when)
	must(t, err)
	line = "org,example)/a?a=1&b=2 20261121224305 {\"url\": \"https://www.example.org/a/?b=2&a=1\", " +
		"\"mime\": \"text/html\", \"status\": \"200\", \"digest\": \"" + sha("<p>hello</p>") +
		"\", \"truncated\": \"length\", " +
		fmt.Sprintf("\"length\": \"%d\", \"offset\": \"%d\", ", loc.Length, loc.Offset) +
		"\"filename\": \"DRUMBEAT-20261121224305678-00000-crawler-1.warc.gz\"}\n"
	if string(p.index) != line || loc.File != "DRUMBEAT-20261121224305678-00000-crawler-1.warc.gz" {
		t.Errorf("got index line\n%swant\n%s", p.index, line)
	}
}

// TestStoredBodies: a body received compressed is stored byte for byte in stored blocks, even if it exceeds
// one block.
func TestStoredBodies(t *testing.T) {
	w := open(t, testOptions(memfs.New(1), 1), nil)
	e := w.NewEncoder()
	for _, n := range []int{0, 1, 100, maxStored - 1, maxStored, maxStored + 1, 3*maxStored + 7} {
		x := sampleExchange()
		x.Body = make([]byte, n)
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		for i := range x.Body {
			x.Body[i] = byte(rng.Uint32())
		}
		x.Encoded = true
		var p Prepared
		must(t, e.Prepare(&p, x))
		text := gunzip(t, p.buf)[1]
		if !strings.HasSuffix(text, "\r\n\r\n"+string(x.Body)+"\r\n\r\n") {
			t.Errorf("%d bytes: body is not in the record", n)
		}
		if n > 0 && n <= maxStored && !bytes.Contains(p.buf, x.Body) {
			t.Errorf("%d bytes: body isn't stored as it is", n)
		}
		if over := int(p.response.length) - n; over > 700+n/maxStored*5 {
			t.Errorf("%d bytes: record has %d more", n, over)
		}
	}
}

// TestNoForgedLines: no value from outside can begin a line of a header or of the index.
func TestNoForgedLines(t *testing.T) {
	evil := "x\r\nWARC-Type: forged\r\n\r\n\x00\u2028\xff"
	x := sampleExchange()
	x.URL = []byte("http://example.org/" + evil)
	x.MIME, x.Redirect, x.Truncated, x.Protocols, x.Cipher = evil+`"`, evil+`\"`, evil, []string{evil}, evil
	x.Meta = []Field{{evil, evil}}
	opt := testOptions(memfs.New(1), 1)
	opt.Info = []Field{{"a\r\nb: c", evil}}
	opt.Host = "h\r\n/../x"
	w := open(t, opt, nil)
	var p Prepared
	must(t, w.NewEncoder().Prepare(&p, x))
	loc, err := w.Append(&p, when)
	if err != nil || strings.ContainsAny(loc.File, "/\r\n") {
		t.Fatalf("got file %q, %v", loc.File, err)
	}
	n := 0
	check := func(r *Record) error {
		for _, f := range r.Fields {
			if f.Value == "forged" || strings.ContainsAny(f.Value, "\x00\r\n") {
				t.Errorf("record %d has field %q: %q", n, f.Name, f.Value)
			}
		}
		if r.Get("Content-Type") == "application/warc-fields" && bytes.Contains(r.Block, []byte("\nWARC-Type")) {
			t.Errorf("record %d has a forged line in its block: %q", n, r.Block)
		}
		n++
		return nil
	}
	info := w.info(loc.File, when)
	if err := Read(bytes.NewReader(append(info, p.buf...)), 1<<20, check); err != nil || n != 4 {
		t.Errorf("got %d records, %v", n, err)
	}
	if bytes.Count(p.index, []byte{'\n'}) != 1 {
		t.Errorf("got index %q", p.index)
	}
	_, object, _ := strings.Cut(string(p.index), " {")
	if err := json.Unmarshal([]byte("{"+object), new(map[string]string)); err != nil {
		t.Errorf("index line %q: %v", p.index, err)
	}
}

// TestSURT: keys of addresses are as the Python library surt 0.3.1 makes them (surt.surt).
func TestSURT(t *testing.T) {
	for url, want := range map[string]string{
		"http://archive.org/goo/?a=2&b&a=1":       "org,archive)/goo?a=1&a=2&b",
		"https://www.Example.com/":                "com,example)/",
		"http://www2.example.com":                 "com,example)/",
		"http://www.com/":                         "com)/",
		"http://wwwx.example.com/A/B":             "com,example,wwwx)/a/b",
		"http://example.com:8080/x":               "com,example:8080)/x",
		"https://example.com:443/x":               "com,example)/x",
		"http://example.com:443/x":                "com,example:443)/x",
		"http://192.0.2.7:81/?":                   "7,2,0,192:81)/",
		"http://192.0.2.7/a?b=1":                  "7,2,0,192)/a?b=1",
		"http://[2001:db8::1]/x/":                 "2001:db8::1)/x",
		"http://[2001:db8::1]:81/x":               "2001:db8::1:81)/x",
		"http://1.2.3.4.5/":                       "5,4,3,2,1)/",
		"http://example.org/192.0.2.7":            "org,example)/192.0.2.7",
		"dns:192.0.2.7":                           "dns:192.0.2.7",
		"urn:rendered:http://192.0.2.7/":          "urn:rendered:http://192.0.2.7/",
		"http://example.com?q":                    "com,example)/?q",
		"mailto:x":                                "mailto:x",
		"http://user:pw@example.com/a?B=2&ab=1&a": "com,example)/a?a&ab=1&b=2",
	} {
		if got := string(AppendKey(nil, []byte(url), KeyPywb)); got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
	for url, want := range map[string][2]string{ // of replayweb.page, and of earlier versions
		"http://192.0.2.7:81/?":     {"7,2,0,192:81)/", "192.0.2.7:81)/"},
		"http://[2001:db8::1]/x/":   {"[2001:db8::1])/x", "[2001:db8::1])/x"},
		"http://[2001:db8::1]:81/x": {"[2001:db8::1]:81)/x", "[2001:db8::1]:81)/x"},
		"http://www.example.org/":   {"org,example)/", "org,example)/"},
	} {
		for i, form := range []KeyForm{KeyBrackets, keyFormer} {
			if got := string(AppendKey(nil, []byte(url), form)); got != want[i] {
				t.Errorf("%s in form %d: got %s, want %s", url, form, got, want[i])
			}
		}
	}
}

func TestPayloadDigestOfChunks(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nA: b\r\n\r\n", "hello world"},
		{"5\nhello\n0\n\n", "hello"},
		{"5\r\nhel", "hel"},
		{"5\r\nhello\r\n6", "hello"},
		{"", ""},
		{"not chunks\r\n", "not chunks\r\n"},
		{"5\r\nhelloX\r\n", "5\r\nhelloX\r\n"},
		{"ffffffffffffffff\r\nx", "ffffffffffffffff\r\nx"},
		{"-1\r\nx", "-1\r\nx"},
	} {
		e := new(Writer).NewEncoder()
		e.digestPayload(&Exchange{Body: []byte(c.body), Chunked: true})
		if got := "sha1:" + string(e.payload[:]); got != sha(c.want) {
			t.Errorf("%q: digest isn't that of %q", c.body, c.want)
		}
	}
}

func TestReadRefusesDamage(t *testing.T) { eachFormat(t, testReadRefusesDamage) }

func testReadRefusesDamage(t *testing.T, format func(*Options)) {
	opt := testOptions(memfs.New(1), 1)
	format(&opt)
	w := open(t, opt, nil)
	var p Prepared
	must(t, w.NewEncoder().Prepare(&p, sampleExchange()))
	nothing := func(*Record) error { return nil }
	first := 0
	if w.zst != nil {
		first = len(w.zst.head)
		p.buf = append(slices.Clone(w.zst.head), p.buf...)
	}
	for n := 1; n < len(p.buf); n++ {
		if at := n - first; at == 0 || at == int(p.response.offset) || at == int(p.response.offset+p.response.length) {
			continue
		}
		if err := Read(bytes.NewReader(p.buf[:n]), 1<<20, nothing); err == nil {
			t.Fatalf("no error for the first %d of %d bytes", n, len(p.buf))
		}
	}
	beginning := func(r *Record) error {
		if len(r.Block) != 10 || r.Size <= 10 {
			return fmt.Errorf("%d of %d bytes in RAM, want 10", len(r.Block), r.Size)
		}
		return nil
	}
	if err := Read(bytes.NewReader(p.buf), 10, beginning); err != nil {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	w, _ := Open(testOptions(memfs.New(1), 1), nil)
	var p Prepared
	w.NewEncoder().Prepare(&p, sampleExchange())
	f.Add(p.buf)
	for _, dict := range [][]byte{nil, testDict} {
		opt := testOptions(memfs.New(1), 1)
		opt.Format, opt.Dict = Zstd, dict
		w, err := Open(opt, nil)
		if err != nil {
			f.Fatal(err)
		}
		w.NewEncoder().Prepare(&p, sampleExchange())
		f.Add(append(w.head("name", when), p.buf...))
		f.Add(append(append([]byte("\x50\x2a\x4d\x18\x03\x00\x00\x00abc"), w.info("name", when)...), p.buf...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n := int64(0)
		Read(bytes.NewReader(b), 1<<16, func(r *Record) error {
			zst := bytes.HasPrefix(b, []byte(frameMagic)) || len(b) > 4 && skippable(b[:4])
			if r.Offset < n || r.Offset > n && !zst || r.Length <= 0 || r.Offset+r.Length > int64(len(b)) {
				t.Fatalf("record at %d, %d bytes, expected at %d", r.Offset, r.Length, n)
			}
			n = r.Offset + r.Length
			return nil
		})
	})
}

func BenchmarkPrepare(b *testing.B) {
	words := strings.Fields(
		"the of and <a href=\"/x\"> page <div class=\"c\"> crawler </div> link text 12 347 more words here")
	rng := rand.New(rand.NewPCG(1, 2))
	var body []byte
	for len(body) < 25000 {
		body = append(append(body, words[rng.IntN(len(words))]...), ' ')
	}
	for _, level := range []int{LevelFast, 1, 3, 5} {
		for _, stored := range []bool{false, true} {
			b.Run(fmt.Sprintf("level=%d/bytes=25000/stored=%v", level, stored), func(b *testing.B) {
				opt := testOptions(memfs.New(1), 1)
				opt.Level = level
				w, err := Open(opt, nil)
				must(b, err)
				e, x := w.NewEncoder(), sampleExchange()
				x.Body, x.Encoded = body, stored
				var p Prepared
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					must(b, e.Prepare(&p, x))
				}
				b.ReportMetric(float64(len(p.buf)), "stored-B/op")
			})
		}
	}
}

// FuzzReadRecord reads the text of a member, which FuzzRead hardly reaches because of the checksums.
func FuzzReadRecord(f *testing.F) {
	f.Add([]byte("WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 3\r\n\r\nabc\r\n\r\n"))
	f.Add([]byte("WARC/1.1\r\nContent-Length: 99999999999\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := readRecord(bufio.NewReader(bytes.NewReader(b)), 1<<16)
		if err == nil && (!bytes.Contains(b, rec.Block) || rec.Version == "") {
			t.Fatalf("got %+v", rec)
		}
	})
}

// TestReleasedMemory: Release frees the memory of a large capture. A Prepared once kept it.
func TestReleasedMemory(t *testing.T) {
	w := open(t, testOptions(memfs.New(1), 1), nil)
	e := w.NewEncoder()
	var p Prepared
	for _, size := range []int{100, 2 << 20} {
		x := sampleExchange()
		x.Body = make([]byte, size)
		must(t, e.Prepare(&p, x))
		p.buf = slices.Grow(p.buf, size)
		p.Release()
		if kept := cap(p.buf); (kept > 0) != (size <= keepPrepared) || p.Bytes() != 0 {
			t.Errorf("body of %d bytes: %d bytes kept, %d used", size, kept, p.Bytes())
		}
	}
}
