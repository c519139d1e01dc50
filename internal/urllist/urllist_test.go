package urllist

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
)

const list = `http://a.test/
b.test
# a comment
com,example)/ 20240102030405 {"url": "http://example.com/", "mime": "text/html"}
com,example)/b 20240102030405 {"url": "HTTPS://example.com/b c"}
com,example)/c 20240102030405 {"url": 7}
dns:example.com 20240102030405 {"url": "dns:example.com"}
!meta 0 {"type": "cdxj"}
com,example)/d 20240102030405 http://example.com/d text/html 200 AAAA - - 10 20 x.warc.gz
 CDX N b g a m
com,example)/e 20240102030405 x.warc.gz http://example.com/e text/html
com,example)/f 20240102030405
com,example)/robots.txt 20240102030405 {"url": "https://example.com/robots.txt"}
{"url":"http://json.test/robots.txt/x", "n":1}
{"url":
http://late.test/ # why
`

const want = "http://a.test/\nb.test\nhttp://example.com/\nhttp://example.com/d\nhttp://example.com/e\n" +
	"http://json.test/robots.txt/x\n"

func TestReader(t *testing.T) {
	var packed bytes.Buffer
	for _, half := range []string{list[:300], list[300:]} { // two members
		w := gzip.NewWriter(&packed)
		w.Write([]byte(half))
		w.Close()
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	frames := string(enc.EncodeAll([]byte(list[:300]), nil)) + string(enc.EncodeAll([]byte(list[300:]), nil))
	for name, text := range map[string]string{"text": list, "gzip": packed.String(), "zstd": frames,
		"no end of line": list + "http://end.test/"} {
		r, err := NewReader(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		rest, ok := strings.CutPrefix(string(got), want)
		if !ok || name != "no end of line" && rest != "" || name == "no end of line" && rest != "http://end.test/\n" {
			t.Errorf("%s: got %q", name, got)
		}
		if r.Skipped != 7 {
			t.Errorf("%s: %d lines skipped, want 7", name, r.Skipped)
		}
	}
	for name, text := range map[string]string{"cut gzip": packed.String()[:packed.Len()-9],
		"cut zstd": frames[:len(frames)-9], "Parquet from a pipe": "PAR1", "WARC as text": "WARC/1.1\r\n",
		"no gzip": "\x1f\x8bxxxxxxxxxxxxxxxx"} {
		r, err := NewReader(strings.NewReader(text))
		if err == nil {
			_, err = io.ReadAll(r)
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	r, err := NewReader(strings.NewReader(strings.Repeat("x", MaxLine+1) + "\nhttp://a.test/"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); string(got) != "http://a.test/\n" || err != nil || r.Skipped != 1 {
		t.Errorf("after a long line: %q, %v, %d skipped", got, err, r.Skipped)
	}
}

// read reads a list from a file in RAM.
func read(data []byte) (text string, l *Reader, err error) {
	if l, err = NewReader(bytes.NewReader(data)); err != nil {
		return "", nil, err
	}
	defer l.Close()
	b, err := io.ReadAll(l)
	return string(b), l, err
}

// TestParquet: the URLs are those of the column url; rows without a URL of HTTP are counted.
func TestParquet(t *testing.T) {
	type row struct {
		URL *string `parquet:"url"`
		N   int64
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b)
	for i, url := range []string{"http://a.test/", "dns:a.test", "https://b.test/x y", "HTTP://c.test/"} {
		if _, err := w.Write([]row{{&url, int64(i)}, {}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text, l, err := read(b.Bytes())
	if err != nil || text != "http://a.test/\nHTTP://c.test/\n" || l.URLs != 2 || l.Skipped != 6 {
		t.Errorf("%q, %v, %+v", text, err, l)
	}
	if !IsList(b.Bytes()[:100]) {
		t.Error("no list")
	}
	var other bytes.Buffer
	if err := parquet.Write(&other, []struct{ Address string }{{"http://a.test/"}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := read(other.Bytes()); err == nil || !strings.Contains(err.Error(), `no column url, only "Address"`) {
		t.Errorf("another table: %v", err)
	}
	if _, _, err := read(b.Bytes()[:b.Len()-1]); err == nil || !strings.Contains(err.Error(), "PAR1") {
		t.Errorf("a table that is cut off: %v", err)
	}
	if l, err = NewReader(bytes.NewReader(b.Bytes())); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Read(make([]byte, 4)); n != 4 || err != nil {
		t.Error(n, err)
	}
	l.Close() // in the middle: nothing may wait
}

// TestWARC: the URLs are those of captures, in files of gzip and of Zstandard.
func TestWARC(t *testing.T) {
	var text []string
	for i, kind := range []string{"warcinfo", "request", "response", "revisit", "metadata", "resource", "response"} {
		uri := fmt.Sprintf("http://a.test/%d", i)
		switch i {
		case 3:
			uri = "<" + uri + ">"
		case 6:
			uri = "dns:a.test"
		}
		text = append(text, fmt.Sprintf("WARC/1.0\r\nWARC-Type: %s\r\nWARC-Target-URI: %s\r\n"+
			"Content-Length: 5\r\n\r\nblock\r\n\r\n", kind, uri))
	}
	enc, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true))
	if err != nil {
		t.Fatal(err)
	}
	var gz, zst bytes.Buffer
	for _, record := range text {
		w := gzip.NewWriter(&gz)
		w.Write([]byte(record))
		w.Close()
		zst.Write(enc.EncodeAll([]byte(record), nil))
	}
	const want = "http://a.test/2\nhttp://a.test/3\nhttp://a.test/5\n"
	for name, data := range map[string][]byte{"gzip": gz.Bytes(), "zstd": zst.Bytes()} {
		got, l, err := read(data)
		if err != nil || got != want || l.Skipped != 1 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if got, _, err := read(data[:len(data)-20]); err == nil || got != want {
			t.Errorf("%s, cut off: %q, %v", name, got, err)
		}
	}
}

// TestNext: a line may have a deadline; it counts for this line alone.
func TestNext(t *testing.T) {
	l, err := NewReader(strings.NewReader("http://a.test/ 2026-12-24T18:00:00+01:00\nb.test\nhttp://c.test/ soon\n" +
		"http://d.test/\t2026-12-24T18:00:00Z # why\nhttp://e.test/ 2026-12-24T18:00:00Z why\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := ""
	for {
		url, deadline, err := l.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got += url
		if !deadline.IsZero() {
			got += deadline.UTC().Format(" 15:04")
		}
		got += "\n"
	}
	if got != "http://a.test/ 17:00\nb.test\nhttp://d.test/ 18:00\n" || l.URLs != 3 || l.Skipped != 2 {
		t.Errorf("%q, %d, %d", got, l.URLs, l.Skipped)
	}
}

// TestIsList: a plain list of URLs is none that must be turned into one.
func TestIsList(t *testing.T) {
	for text, want := range map[string]bool{"": false, "# c\n\nhttp://a.test/\n": false, "a.test # a comment": false,
		"http://a.test/\ncom,a)/ 20240102030405 {\"url\": \"x\"}": false, " CDX N b a\n": true,
		"!meta 0 {}\ncom,a)/ 20240102030405 {\"url\": \"x\"}": true, "\x1f\x8b\x08": true,
		"com,a)/ 20240102030405 http://a.test/ text/html 200 A - -": true, "WARC/1.0\r\n": true,
		"http://a.test/ 2026-12-24T18:00:00Z": true} {
		if got := IsList([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// FuzzRead: no input panics.
func FuzzRead(f *testing.F) {
	f.Add([]byte(list))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 1<<20 {
			_, _, _ = read(data)
		}
	})
}
