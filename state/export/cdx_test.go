package export

import (
	"testing"

	"drumbeat/warc"
)

// TestCDXLine: each line has 11 fields without blanks, whatever a site sends.
func TestCDXLine(t *testing.T) {
	t.Parallel()
	line := []byte("org,example)/a 20260102030405 {…}")
	x := &warc.Indexed{Capture: warc.Capture{File: "f.warc.gz", Offset: 7, Length: 5,
		URL: "http://example.org/a", Status: 200, Digest: "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"}, MIME: "text/html"}
	check := func(want string) {
		t.Helper()
		if got := string(appendCDX(nil, line, x)); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	check("org,example)/a 20260102030405 http://example.org/a text/html 200 3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ " +
		"- - 5 7 f.warc.gz")
	x.Digest, x.MIME, x.Status, x.Redirect = "", "a b\n\u00e9\u20ac", 301, "http://example.org/%20b\x7f"
	check("org,example)/a 20260102030405 http://example.org/a a%20b%0A%E9%E2%82%AC 301 - " +
		"http://example.org/%20b%7F - 5 7 f.warc.gz")
}
