package export

import (
	"testing"

	"drumbeat/warc"
)

// TestReplayKey: keys of hosts that are addresses, as the Python library surt 0.3.1 makes them (surt.surt).
func TestReplayKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, plain, brackets string }{
		{"192.0.2.7)/a?b=1", "7,2,0,192)/a?b=1", "7,2,0,192)/a?b=1"},
		{"192.0.2.7:8080)/x", "7,2,0,192:8080)/x", "7,2,0,192:8080)/x"},
		{"[2001:db8::1])/x", "2001:db8::1)/x", "[2001:db8::1])/x"},
		{"[2001:db8::1]:81)/x", "2001:db8::1:81)/x", "[2001:db8::1]:81)/x"},
		{"org,example)/192.0.2.7", "org,example)/192.0.2.7", "org,example)/192.0.2.7"},
		{"localhost)/", "localhost)/", "localhost)/"},
		{"dns:192.0.2.7", "dns:192.0.2.7", "dns:192.0.2.7"},
		{"1.2.3.4.5)/", "1.2.3.4.5)/", "1.2.3.4.5)/"},
		{"urn:rendered:http://192.0.2.7/", "urn:rendered:http://192.0.2.7/", "urn:rendered:http://192.0.2.7/"},
		{"[", "[", "["}, {"", "", ""},
	} {
		const rest = " 20260102030405 {}"
		if got := string(appendReplayKey(nil, []byte(c.key+rest), true)); got != c.plain+rest {
			t.Errorf("%s: %s, want %s", c.key, got, c.plain)
		}
		if got := string(appendReplayKey(nil, []byte(c.key+rest), false)); got != c.brackets+rest {
			t.Errorf("%s with brackets: %s, want %s", c.key, got, c.brackets)
		}
	}
}

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
