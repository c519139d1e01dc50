package admin

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"
)

// hostileRequest returns a request that an attacker might send.
func hostileRequest(rng *rand.Rand, addr string, paths []string) []byte {
	methods := []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "X"}
	bodies := []string{"", "{", `{"on":1}`, `[]`, strings.Repeat("[", 10_000),
		`{"seeds":["http://a.example/"]}`, "\x00\xff"}
	var req bytes.Buffer
	method, path := methods[rng.IntN(len(methods))], paths[rng.IntN(len(paths))]
	body := bodies[rng.IntN(len(bodies))]
	host := []string{addr, "evil.example", "", "[::1", strings.Repeat("h", 500)}[rng.IntN(5)]
	fmt.Fprintf(&req, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n", method, path,
		host, len(body))
	switch rng.IntN(6) {
	case 0:
		req.WriteString("Authorization: Bearer " + strings.Repeat("f", rng.IntN(100)) + "\r\n")
	case 1:
		req.WriteString("Origin: https://evil.example\r\nContent-Type: application/json\r\n")
	case 2:
		req.WriteString("Content-Type: text/plain\r\nX-Junk: " + strings.Repeat("j", rng.IntN(20_000)) + "\r\n")
	case 3:
		req.WriteString("Content-Type: application/json\r\n")
	}
	req.WriteString("\r\n" + body)
	return req.Bytes()
}

// TestHostileRequests: a thousand (with -long ten thousand) damaged, oversized, slow and unauthorized
// requests change nothing and hold nothing.
func TestHostileRequests(t *testing.T) {
	r := newRig(t, nil)
	r.ask("POST", "/api/v1/pause", "", r.withToken)
	rng := rand.New(rand.NewPCG(1, 2))
	addr := strings.TrimPrefix(r.url, "http://")
	var slow []net.Conn
	for i := range 200 { // connections that send a few bytes and wait
		c, err := net.Dial("tcp", addr)
		must(t, err)
		if i%2 == 0 {
			_, _ = c.Write([]byte("POST /api/v1/stop HTTP/1.1\r\nHost: 127"))
		}
		slow = append(slow, c)
		if i%10 == 9 {
			for _, c := range slow {
				_ = c.Close()
			}
			slow = slow[:0]
		}
	}
	requests := 1000
	if *longRuns {
		requests = 10_000
	}
	paths := []string{"/", "/api/v1/", "/nothing/../../etc/passwd", "/api/v1/hosts/" + strings.Repeat("a", 3000),
		"/api/v1/explain?url=%00%ff"}
	for _, op := range operations {
		paths = append(paths, strings.NewReplacer("{host}", "a.example", "{pld}", "%2e%2e").Replace(op.Path))
	}
	for i := range requests {
		data := hostileRequest(rng, addr, paths)
		if i%50 == 0 {
			data = data[:rng.IntN(len(data)+1)]
		}
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		_, _ = c.Write(data)
		if i%50 != 0 && i%7 == 0 {
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
			_, _ = io.Copy(io.Discard, c)
		}
		_ = c.Close()
	}
	r.await("the server answers", func() bool { return get[Status](r, "/api/v1/status").State == "paused" })
	if n := len(get[Changes](r, "/api/v1/changes").Changes); n != 1 {
		t.Errorf("%d changes, want the pause alone", n)
	}
}
