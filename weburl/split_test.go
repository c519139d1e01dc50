package weburl

import "testing"

func TestSplitAndOrigin(t *testing.T) {
	tests := []struct {
		url, scheme, host, path, origin string
		port                            uint16
	}{
		{"http://example.com/", "http", "example.com", "/", "http://example.com:80", 80},
		{"https://example.com/a/b?c=d", "https", "example.com", "/a/b?c=d", "https://example.com:443", 443},
		{"http://example.com:8080/?http://x:1/", "http", "example.com", "/?http://x:1/",
			"http://example.com:8080", 8080},
		{"http://[2001:db8::1]/x", "http", "[2001:db8::1]", "/x", "http://[2001:db8::1]:80", 80},
		{"https://[::1]:65535/x", "https", "[::1]", "/x", "https://[::1]:65535", 65535},
		{"https://192.0.2.1:0/", "https", "192.0.2.1", "/", "https://192.0.2.1:0", 0},
		{"https://example.com:443", "https", "example.com", "", "https://example.com:443", 443},
	}
	for _, test := range tests {
		p := Split([]byte(test.url))
		if string(p.Scheme) != test.scheme || string(p.Host) != test.host || string(p.Path) != test.path ||
			p.Port != test.port {
			t.Errorf("Split(%s): got %s %s %d %s", test.url, p.Scheme, p.Host, p.Port, p.Path)
		}
		if got := string(Origin([]byte(test.url))); got != test.origin {
			t.Errorf("Origin(%s): got %s, want %s", test.url, got, test.origin)
		}
	}
	for _, odd := range []string{"", "h", "http://", "ftp://x/", "http://:99999999999", "http://]:1:/"} {
		Split([]byte(odd))
		Origin([]byte(odd))
	}
	buf, url := make([]byte, 0, 100), []byte("http://example.com/")
	if n := testing.AllocsPerRun(100, func() { AppendOrigin(buf, url) }); n != 0 {
		t.Errorf("allocations: got %v, want 0", n)
	}
}
