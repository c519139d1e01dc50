package fetch

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestFields: the server receives the fields as they are, and RequestHead has a placeholder for secrets, with
// and without other values of the client's headers.
func TestFields(t *testing.T) {
	for _, agent := range []string{"", "other/1"} {
		var got string
		c := newTestClient(t, Options{UserAgent: "test/1", Dial: pipeDial(func(conn net.Conn, request string) {
			got = request
			conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
		})})
		req := testRequest()
		req.UserAgent = agent
		req.Fields = []Field{{Name: "X-One", Value: "1"},
			{Name: "Authorization", Value: "Bearer t0ps3cret", Secret: true}, {Name: "X-Two", Value: ""}}
		var resp Response
		must(t, c.Do(context.Background(), req, &resp))
		const end = "Connection: close\r\nX-One: 1\r\nAuthorization: Bearer t0ps3cret\r\nX-Two: \r\n\r\n"
		if !strings.HasSuffix(got, end) || strings.Count(got, "\r\n\r\n") != 1 {
			t.Errorf("agent %q: sent %q", agent, got)
		}
		if want := strings.Replace(got, "Bearer t0ps3cret", Redacted, 1); string(resp.RequestHead) != want {
			t.Errorf("agent %q: RequestHead is %q, want %q", agent, resp.RequestHead, want)
		}
		req.Fields = req.Fields[:1]
		if err := c.Do(context.Background(), req, &resp); err != nil || string(resp.RequestHead) != got {
			t.Errorf("without secrets: %v, RequestHead is %q, sent %q", err, resp.RequestHead, got)
		}
	}
}

// TestFieldsHTTP2: the same by HTTP/2, on a new and on a kept connection.
func TestFieldsHTTP2(t *testing.T) {
	var got []string
	addr, conns := serveHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Proto+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-One"))
	})
	c, req := http2Client(t, addr, Options{})
	req.Fields = []Field{{Name: "X-One", Value: "1"}, {Name: "Authorization", Value: "Bearer t0ps3cret", Secret: true}}
	for i := range 2 {
		var resp Response
		must(t, c.Do(context.Background(), req, &resp))
		if want := "HTTP/2.0 Bearer t0ps3cret 1"; got[i] != want {
			t.Errorf("the server received %q, want %q", got[i], want)
		}
		if bytes.Contains(resp.RequestHead, []byte("t0ps3cret")) ||
			!bytes.HasSuffix(resp.RequestHead, []byte("\r\nX-One: 1\r\nAuthorization: [redacted]\r\n\r\n")) {
			t.Errorf("RequestHead is %q", resp.RequestHead)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestBadFields: a field that would change the head's form is refused.
func TestBadFields(t *testing.T) {
	c := newTestClient(t, Options{})
	for _, f := range []Field{{Name: ""}, {Name: "A B"}, {Name: "A:"}, {Name: "A\r\nB"},
		{Name: "A", Value: "b\r\nC: d"}, {Name: "A", Value: "\x00"}} {
		req := testRequest()
		req.Fields = []Field{f}
		var resp Response
		err := c.Do(context.Background(), req, &resp)
		if fe, ok := err.(*Error); !ok || fe.Kind != KindBadRequest {
			t.Errorf("%+v: %v", f, err)
		}
	}
}
