package fetch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var testAddr = netip.MustParseAddrPort("192.0.2.1:80")

var testNets = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("127.0.0.0/8")}

func newTestClient(t testing.TB, opt Options) *Client {
	t.Helper()
	if opt.AllowNets == nil {
		opt.AllowNets = testNets
	}
	c, err := New(opt)
	must(t, err)
	return c
}

// pipeDial returns a Dial hook whose peer reads one request and then calls serve.
func pipeDial(serve func(conn net.Conn, request string)) func(context.Context, netip.AddrPort) (net.Conn, error) {
	return func(context.Context, netip.AddrPort) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			br := bufio.NewReader(server)
			var head strings.Builder
			for {
				line, err := br.ReadString('\n')
				head.WriteString(line)
				if err != nil || line == "\r\n" {
					break
				}
			}
			serve(server, head.String())
		}()
		return client, nil
	}
}

func testRequest() *Request {
	return &Request{Scheme: "http", Host: "example.org", PathQuery: "/a?b=c", Addr: testAddr}
}

// odd is one reply and the expected result. "⏸" in the reply is a pause of one second; "⏹" keeps the
// connection open instead of closing it.
type odd struct {
	name  string
	reply string

	kind  Kind // of the error; KindOther: no error
	stage Stage
	code  int
	body  string
	trunc Reason
	marks Flaws
	field string // expected "Name: value"
	long  time.Duration
}

const ok200 = "HTTP/1.1 200 OK\r\n"

var bigText = strings.Repeat("x", 70<<10)

var oddReplies = []odd{
	{name: "plain", reply: ok200 + "Content-Length: 5\r\n\r\nhello⏹", code: 200, body: "hello"},
	{name: "empty body", reply: ok200 + "Content-Length: 0\r\n\r\n⏹", code: 200},
	{name: "close delimited", reply: ok200 + "\r\nhello", code: 200, body: "hello", marks: FlawCloseDelimited},
	{name: "byte by byte", reply: "H⏸T⏸TP/1.1 20⏸0 OK\r⏸\n⏸\r⏸\nhe⏸llo", code: 200, body: "hello",
		marks: FlawCloseDelimited},
	{name: "http/1.0", reply: "HTTP/1.0 200 OK\r\n\r\nhello", code: 200, body: "hello", marks: FlawCloseDelimited},
	{name: "http/2 in clear words", reply: "HTTP/2 200\r\nContent-Length: 2\r\n\r\nhi⏹", code: 200, body: "hi"},
	{name: "lower case", reply: "http/1.1 200 ok\r\nContent-Length: 2\r\n\r\nhi⏹", code: 200, body: "hi"},
	{name: "no reason", reply: "HTTP/1.1 404\r\nContent-Length: 2\r\n\r\nno⏹", code: 404, body: "no"},
	{name: "two spaces", reply: "HTTP/1.1  200  OK\r\nContent-Length: 2\r\n\r\nhi⏹", code: 200, body: "hi"},
	{name: "bare LF", reply: "HTTP/1.1 200 OK\nContent-Length: 2\nX: y\n\nhi⏹", code: 200, body: "hi",
		marks: FlawBareLF, field: "X: y"},
	{name: "mixed line ends", reply: "HTTP/1.1 200 OK\r\nA: b\nContent-Length: 2\r\n\nhi⏹", code: 200,
		body: "hi", marks: FlawBareLF, field: "a: b"},
	{name: "blank lines first", reply: "\r\n\r\n" + ok200 + "Content-Length: 2\r\n\r\nhi⏹", code: 200, body: "hi"},
	{name: "line without colon", reply: ok200 + "garbage\r\nContent-Length: 2\r\n\r\nhi⏹", code: 200,
		body: "hi", marks: FlawRepaired},
	{name: "blank before colon", reply: ok200 + "Content-Length : 2\r\n\r\nhi⏹", code: 200, body: "hi",
		marks: FlawRepaired},
	{name: "bad header name", reply: ok200 + "Ba(d: x\r\nGood: y\r\nContent-Length: 2\r\n\r\nhi⏹", code: 200,
		body: "hi", marks: FlawRepaired, field: "Good: y"},
	{name: "no header name", reply: ok200 + ": x\r\nContent-Length: 2\r\n\r\nhi⏹", code: 200, body: "hi",
		marks: FlawRepaired},
	{name: "control bytes", reply: ok200 + "X: a\x00b\x01c\r\nContent-Length: 2\r\n\r\nhi⏹", code: 200,
		body: "hi", marks: FlawRepaired, field: "X: a b c"},
	{name: "folded", reply: ok200 + "X: a\r\n  b\r\n\tc\r\nContent-Length: 2\r\n\r\nhi⏹", code: 200,
		body: "hi", marks: FlawRepaired, field: "X: a b c"},
	{name: "folded first line", reply: ok200 + "  x: y\r\nContent-Length: 2\r\n\r\nhi⏹", code: 200,
		body: "hi", marks: FlawRepaired},
	{name: "raw 8 bit", reply: ok200 + "Location: /\xe4\xf6\r\nContent-Length: 2\r\n\r\nhi⏹", code: 200,
		body: "hi", field: "Location: /\xe4\xf6"},
	{name: "equal lengths", reply: ok200 + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi⏹", code: 200,
		body: "hi", marks: FlawRepaired, field: "Content-Length: 2"},
	{name: "equal lengths in a list", reply: ok200 + "Content-Length: 2, 2\r\n\r\nhi⏹", code: 200,
		body: "hi", marks: FlawRepaired},
	{name: "lengths differ", reply: ok200 + "Content-Length: 2\r\nContent-Length: 5\r\n\r\nhello⏹",
		code: 200, body: "hello", marks: FlawLengths},
	{name: "lengths differ, less comes", reply: ok200 + "Content-Length: 2\r\nContent-Length: 5\r\n\r\nhi",
		code: 200, body: "hi", marks: FlawLengths, trunc: TruncatedDisconnect},
	{name: "negative length", reply: ok200 + "Content-Length: -1\r\n\r\nhello", code: 200, body: "hello",
		marks: FlawLengths | FlawCloseDelimited},
	{name: "length in words", reply: ok200 + "Content-Length: five\r\n\r\nhello", code: 200, body: "hello",
		marks: FlawLengths | FlawCloseDelimited},
	{name: "huge length", reply: ok200 + "Content-Length: 99999999999999999999999\r\n\r\nhello", code: 200,
		body: "hello", trunc: TruncatedDisconnect},
	{name: "body too short", reply: ok200 + "Content-Length: 9\r\n\r\nhello", code: 200, body: "hello",
		trunc: TruncatedDisconnect},
	{name: "body too long", reply: ok200 + "Content-Length: 2\r\n\r\nhello⏹", code: 200, body: "he",
		marks: FlawExcess},
	{name: "body stalls", reply: ok200 + "Content-Length: 9\r\n\r\nhello⏹", code: 200, body: "hello",
		trunc: TruncatedTime, long: 10 * time.Second},
	{name: "chunked", reply: ok200 + "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n⏹",
		code: 200, body: "hello"},
	{name: "chunked wins over length", reply: ok200 + "Content-Length: 3\r\nTransfer-Encoding: Chunked\r\n\r\n" +
		"5\r\nhello\r\n0\r\n\r\n⏹", code: 200, body: "hello"},
	{name: "chunked 1.0", reply: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n⏹",
		code: 200, body: "hello"},
	{name: "chunk extensions", reply: ok200 + "Transfer-Encoding: chunked\r\n\r\n5;a=\"b\r\nhello\r\n0;x\r\n\r\n⏹",
		code: 200, body: "hello"},
	{name: "chunks in LF", reply: ok200 + "Transfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n⏹", code: 200,
		body: "hello"},
	{name: "padded sizes", reply: ok200 + "Transfer-Encoding: chunked\r\n\r\n0005  \r\nhello\r\n000\r\n\r\n⏹",
		code: 200, body: "hello"},
	{name: "trailers", reply: ok200 +
		"Trailer: X\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n⏹",
		code: 200, body: "hello"},
	{name: "last chunk, then silence", reply: ok200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n⏹",
		code: 200, body: "hello", long: 2 * time.Second},
	{name: "last chunk, then nothing", reply: ok200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
		code: 200, body: "hello"},
	{name: "no last chunk", reply: ok200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", code: 200,
		body: "hello", trunc: TruncatedDisconnect},
	{name: "chunk cut", reply: ok200 + "Transfer-Encoding: chunked\r\n\r\n9\r\nhello", code: 200,
		body: "hello", trunc: TruncatedDisconnect},
	{name: "chunks break off", reply: ok200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n⏹",
		code: 200, body: "hello", trunc: TruncatedUnspecified, marks: FlawBadChunk},
	{name: "chunk longer than it says", reply: ok200 + "Transfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n⏹",
		code: 200, body: "hel", trunc: TruncatedUnspecified, marks: FlawBadChunk},
	{name: "chunk size overflows", reply: ok200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" +
		"fffffffffffffffff\r\nxx", code: 200, body: "hello", trunc: TruncatedUnspecified, marks: FlawBadChunk},
	{name: "chunked isn't", reply: ok200 + "Transfer-Encoding: chunked\r\n\r\n<html>hello", code: 200,
		trunc: TruncatedUnspecified, marks: FlawBadChunk | FlawNotChunked},
	{name: "first chunk size is no number", reply: ok200 +
		"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n⏹",
		code: 200, trunc: TruncatedUnspecified, marks: FlawBadChunk | FlawNotChunked},
	{name: "first chunk size is negative", reply: ok200 +
		"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n⏹",
		code: 200, trunc: TruncatedUnspecified, marks: FlawBadChunk | FlawNotChunked},
	{name: "first chunk size is missing", reply: ok200 +
		"Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n⏹",
		code: 200, trunc: TruncatedUnspecified, marks: FlawBadChunk | FlawNotChunked},
	{name: "chunk size is missing",
		reply: ok200 + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n\r\nhello\r\n0\r\n\r\n⏹", code: 200,
		body: "hi", trunc: TruncatedUnspecified, marks: FlawBadChunk},
	{name: "identity", reply: ok200 + "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nhi⏹", code: 200,
		body: "hi"},
	{name: "twice chunked", reply: ok200 + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"2\r\nhi\r\n0\r\n\r\n⏹", code: 200, body: "hi"},
	{name: "204 with a body", reply: "HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nhello⏹", code: 204},
	{name: "304", reply: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n⏹", code: 304},
	{name: "100 first", reply: "HTTP/1.1 100 Continue\r\n\r\n" + ok200 + "Content-Length: 2\r\n\r\nhi⏹",
		code: 200, body: "hi", marks: FlawInterim},
	{name: "103 apart", reply: "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n⏸" + ok200 +
		"Content-Length: 2\r\n\r\nhi⏹", code: 200, body: "hi", marks: FlawInterim},
	{name: "endless 100", reply: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 50), kind: KindHeadTooLarge,
		stage: StageHead},
	{name: "101", reply: "HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\n⏹", kind: KindBadHead, stage: StageHead},
	{name: "status 999", reply: "HTTP/1.1 999 Denied\r\nContent-Length: 2\r\n\r\nno⏹", code: 999, body: "no"},
	{name: "status 2000", reply: "HTTP/1.1 2000 OK\r\n\r\n⏹", kind: KindBadHead, stage: StageHead},
	{name: "status 000", reply: "HTTP/1.1 000 OK\r\n\r\n⏹", kind: KindBadHead, stage: StageHead},
	{name: "status 20", reply: "HTTP/1.1 20 OK\r\n\r\n⏹", kind: KindBadHead, stage: StageHead},
	{name: "status in words", reply: "HTTP/1.1 OK\r\n\r\n⏹", kind: KindBadHead, stage: StageHead},
	{name: "0.9", reply: "<html>hello", kind: KindBadHead, stage: StageHead},
	{name: "another protocol", reply: "SSH-2.0-OpenSSH_9\r\n⏹", kind: KindBadHead, stage: StageHead},
	{name: "blanks without end", reply: strings.Repeat("\r\n", 1000), kind: KindBadHead, stage: StageHead},
	{name: "nothing", reply: "", kind: KindEmptyReply, stage: StageFirstByte},
	{name: "silence", reply: "⏹", kind: KindTimeout, stage: StageFirstByte, long: 20 * time.Second},
	{name: "head stalls", reply: "HTTP/1.1 200 OK\r\nX: ⏹", kind: KindTimeout, stage: StageHead,
		long: 10 * time.Second},
	{name: "head cut in a line", reply: "HTTP/1.1 302 Found\r\nX: y\r\nLocation: http://example.org/ha", code: 302,
		marks: FlawHeadCut | FlawRepaired, trunc: TruncatedDisconnect, field: "location: "},
	{name: "head cut", reply: "HTTP/1.1 302 Found\r\nLocation: /x\r\n", code: 302, marks: FlawHeadCut,
		trunc: TruncatedDisconnect, field: "Location: /x"},
	{name: "status line only", reply: "HTTP/1.1 200 OK\r\n\r\n⏹", code: 200, marks: FlawCloseDelimited,
		trunc: TruncatedTime, long: 10 * time.Second},
	{name: "head cut early", reply: "HTT", kind: KindBadHead, stage: StageHead},
	{name: "huge head", reply: ok200 + "X: " + bigText + "\r\n\r\n", kind: KindHeadTooLarge, stage: StageHead},
	{name: "many lines", reply: ok200 + strings.Repeat("A: b\r\n", maxHeaderLines-1) +
		"Content-Length: 2\r\n\r\nhi⏹", code: 200, body: "hi"},
	{name: "too many lines", reply: ok200 + "Content-Length: 2\r\n" + strings.Repeat("A: b\r\n", maxHeaderLines) +
		"\r\nhi⏹", kind: KindHeadTooLarge, stage: StageHead},
	{name: "too many lines in an interim head", reply: "HTTP/1.1 103 Early Hints\r\n" +
		strings.Repeat("A: b\r\n", maxHeaderLines+1) + "\r\n" + ok200 + "\r\nhi", kind: KindHeadTooLarge,
		stage: StageHead},
	{name: "types are combined", reply: ok200 + "Content-Type: text/html\r\nX: y\r\ncontent-type: image/png\r\n" +
		"Content-Length: 2\r\n\r\nhi⏹", code: 200, body: "hi", field: "content-type: text/html, image/png"},
	{name: "Connection: Close", reply: ok200 + "Connection: Close\r\nContent-Length: 2\r\n\r\nhi⏹", code: 200,
		body: "hi"},
	{name: "large body", reply: ok200 + "Content-Length: 71680\r\n\r\n" + bigText + "⏹", code: 200, body: bigText},
}

func (o *odd) serve(conn net.Conn, _ string) {
	for i, part := range strings.Split(o.reply, "⏸") {
		if i > 0 {
			time.Sleep(time.Second)
		}
		part, hold := strings.CutSuffix(part, "⏹")
		if part != "" {
			io.WriteString(conn, part)
		}
		if hold {
			io.Copy(io.Discard, conn)
		}
	}
}

func TestOddReplies(t *testing.T) {
	if n := len(oddReplies); n < 60 {
		t.Fatalf("%d odd replies, want 60", n)
	}
	for _, o := range oddReplies {
		t.Run(o.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTestClient(t, Options{Dial: pipeDial(o.serve)})
				var resp Response
				begin := time.Now()
				err := c.Do(t.Context(), testRequest(), &resp)
				o.check(t, &resp, err)
				if o.long > 0 && time.Since(begin) != o.long {
					t.Errorf("took %v, want %v", time.Since(begin), o.long)
				}
				if o.long == 0 && time.Since(begin) > 10*time.Second {
					t.Errorf("took %v", time.Since(begin))
				}
			})
		})
	}
}

func (o *odd) check(t *testing.T, resp *Response, err error) {
	t.Helper()
	var fe *Error
	if o.kind != KindOther {
		if !errors.As(err, &fe) || fe.Kind != o.kind || fe.Stage != o.stage {
			t.Fatalf("got %v, want %v at %v", err, o.kind, o.stage)
		}
		if resp.Status != 0 || resp.Body != nil {
			t.Errorf("a response remains: %d %q", resp.Status, resp.Body)
		}
		return
	}
	must(t, err)
	if resp.Proto == ProtoHTTP2 {
		t.Errorf("a reply by HTTP/1.1 counts as one by HTTP/2")
	}
	if resp.Status != o.code || string(resp.Body) != o.body {
		t.Errorf("got %d %.100q, want %d %.100q", resp.Status, resp.Body, o.code, o.body)
	}
	if resp.Truncated != o.trunc {
		t.Errorf("truncated %q, want %q", resp.Truncated, o.trunc)
	}
	if resp.Flaws != o.marks {
		t.Errorf("marks %b, want %b", resp.Flaws, o.marks)
	}
	if name, value, ok := strings.Cut(o.field, ": "); ok && string(resp.Header(name)) != value {
		t.Errorf("header %s is %q, want %q", name, resp.Header(name), value)
	}
	if !bytes.Equal(resp.Raw, append(append([]byte(nil), resp.RawHead...), resp.RawBody...)) {
		t.Errorf("Raw isn't RawHead and RawBody")
	}
	reply := strings.NewReplacer("⏸", "", "⏹", "").Replace(o.reply)
	if !strings.Contains(reply, string(resp.Raw)) {
		t.Errorf("Raw isn't what was sent: %.100q", resp.Raw)
	}
}
