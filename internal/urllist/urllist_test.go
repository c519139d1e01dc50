package urllist

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
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
http://late.test/ # why
`

const want = "http://a.test/\nb.test\nhttp://example.com/\nhttp://example.com/d\nhttp://example.com/e\n"

func TestReader(t *testing.T) {
	var packed bytes.Buffer
	for _, half := range []string{list[:300], list[300:]} { // two members
		w := gzip.NewWriter(&packed)
		w.Write([]byte(half))
		w.Close()
	}
	for name, text := range map[string]string{"text": list, "gzip": packed.String(),
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
		if r.Skipped != 5 {
			t.Errorf("%s: %d lines skipped, want 5", name, r.Skipped)
		}
	}
	for name, text := range map[string]string{"cut gzip": packed.String()[:packed.Len()-9],
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
