package crawl

import (
	"io"
	"net"
	"strings"
	"testing"
)

// TestRobotsHeads: a field of robots.txt's head counts behind 300 others, and a response with a head that the
// crawl does not read in full gives no rules: nothing of its host is requested.
func TestRobotsHeads(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const chunked = "User-agent: *\nDis\r\n8\r\nallow: /\r\n3\r\nno\n\r\n0\r\n\r\n"
		many := strings.Repeat("Set-Cookie: a=b\r\n", 300)
		replies := map[string]string{
			"chunks.test /robots.txt": "HTTP/1.1 200 OK\r\n" + many +
				"Transfer-Encoding: chunked\r\n\r\n11\r\n" + chunked,
			"coded.test /robots.txt": "HTTP/1.1 200 OK\r\n" + many + "Transfer-Encoding:\r\n chunked\r\n\r\n11\r\n" +
				chunked,
			"moved.test /robots.txt": "HTTP/1.1 301 Moved\r\n" + many + "Location: /rules\r\nContent-Length: 0\r\n\r\n",
			"moved.test /rules":      "HTTP/1.1 200 OK\r\nContent-Length: 28\r\n\r\n" + rules,
			"large.test /robots.txt": "HTTP/1.1 404 Not Found\r\n" + strings.Repeat("A: b\r\n", 5000) +
				"Content-Length: 0\r\n\r\n",
			"cut.test /robots.txt":  "HTTP/1.1 404 Not Found\r\nContent-Len",
			"half.test /robots.txt": "HTTP/1.1 301 Moved\r\nLocation: /robots.txt.gone\r\nX: y",
		}
		w := newRobotsWeb()
		w.Raw = func(c net.Conn, host, path string) bool {
			reply := replies[host+" "+path]
			if reply != "" {
				_, _ = io.WriteString(c, reply)
			}
			return reply != ""
		}
		w.crawl(t, 2, nil, "chunks.test", "coded.test", "moved.test", "large.test", "cut.test", "half.test")
		for _, host := range []string{"chunks.test", "coded.test", "moved.test"} {
			if n := len(w.Got(host, "/0")) + len(w.Got(host, "/1")); n != 2 || len(w.Got(host, "/no")) > 0 {
				t.Errorf("%s: %d pages requested, want 2 and not /no: %v", host, n, w.Got(host, ""))
			}
		}
		for _, host := range []string{"large.test", "cut.test", "half.test"} {
			w.wantPages(t, host, 0, false)
		}
	})
}

// TestPageHeads: the same of pages: a redirect is followed, and a head that is too large is a reason of its own.
func TestPageHeads(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		many := strings.Repeat("Set-Cookie: a=b\r\n", 300)
		w := newRobotsWeb()
		w.Raw = func(c net.Conn, host, path string) bool {
			switch path {
			case "/0":
				_, _ = io.WriteString(c, "HTTP/1.1 302 Found\r\n"+many+"Location: /target\r\nContent-Length: 0\r\n\r\n")
			case "/1":
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n"+strings.Repeat("A: b\r\n", 5000)+
					"Content-Length: 4\r\n\r\npage")
			default:
				return false
			}
			return true
		}
		res := w.crawl(t, 2, nil, "a.test")
		if len(w.Got("a.test", "/target")) != 1 {
			t.Errorf("the redirect behind 300 fields was not followed: %v", w.Got("a.test", ""))
		}
		if n := res.Snapshot.Refused["head-too-large"]; n != 1 {
			t.Errorf("refused %v, want head-too-large once", res.Snapshot.Refused)
		}
	})
}
