package fetch

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames is a server of HTTP/2 that a test drives frame by frame. Its errors are those of a client that has
// closed.
type frames struct {
	*http2.Framer
	conn *tls.Conn
	next uint32 // the stream of the request last read
}

// request answers settings and reads up to the next request. It returns false at the end of the connection.
func (f *frames) request() bool {
	for {
		switch fr, err := f.ReadFrame(); fr := fr.(type) {
		case *http2.HeadersFrame:
			f.next = fr.StreamID
			return true
		default:
			if err != nil {
				return false
			}
		}
	}
}

func (f *frames) head(end bool, list ...string) {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	enc.SetMaxDynamicTableSizeLimit(0)
	for i := 0; i < len(list); i += 2 {
		enc.WriteField(hpack.HeaderField{Name: list[i], Value: list[i+1]})
	}
	block := b.Bytes()
	n := min(len(block), frameBytes)
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: f.next, BlockFragment: block[:n], EndHeaders: n == len(block),
		EndStream: end})
	for block = block[n:]; len(block) > 0; block = block[n:] {
		n = min(len(block), frameBytes)
		f.WriteContinuation(f.next, n == len(block), block[:n])
	}
}

// frameBytes is how much of a head a frame holds; the rest follows in CONTINUATION.
const frameBytes = 1000

func (f *frames) page(body string) {
	f.head(false, ":status", "200")
	f.WriteData(f.next, true, []byte(body))
}

// listenFrames serves every connection of HTTP/2 with handle, which gets its number, from 1, and others
// with a page "old" of HTTP/1.1.
func listenFrames(t testing.TB, handle func(f *frames, n int64)) (netip.AddrPort, *atomic.Int64) {
	cert := testCert(t, nil, time.Now().Add(time.Hour), "example.org")
	conns := new(atomic.Int64)
	return listen(t, func(conn net.Conn) {
		s := tls.Server(conn,
			&tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"h2", "http/1.1"}})
		defer s.Close()
		n := conns.Add(1)
		if s.Handshake() != nil {
			return
		}
		if s.ConnectionState().NegotiatedProtocol != "h2" {
			readRequest(s)
			io.WriteString(s, ok200+"Content-Length: 3\r\n\r\nold")
			return
		}
		if _, err := io.ReadFull(s, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		f := &frames{Framer: http2.NewFramer(s, s), conn: s}
		f.AllowIllegalWrites = true
		f.WriteSettings()
		handle(f, n)
	}), conns
}

// late ends the second request of the first connection.
func late(end func(f *frames)) func(f *frames, n int64) {
	return func(f *frames, n int64) {
		for i := 0; f.request(); i++ {
			if n == 1 && i == 1 {
				end(f)
				return
			}
			f.page("page")
		}
	}
}

// early ends the first request of the first connection.
func early(end func(f *frames)) func(f *frames, n int64) {
	return func(f *frames, n int64) {
		for f.request() {
			if n == 1 {
				end(f)
				return
			}
			f.page("page")
		}
	}
}

func eachTime(end func(f *frames)) func(f *frames, n int64) {
	return func(f *frames, n int64) { f.request(); end(f) }
}

func reset(code http2.ErrCode) func(f *frames) {
	return func(f *frames) { f.WriteRSTStream(f.next, code); io.Copy(io.Discard, f.conn) }
}

func goAway(code http2.ErrCode) func(f *frames) {
	return func(f *frames) { f.WriteGoAway(f.next-1, code, nil); io.Copy(io.Discard, f.conn) }
}

// TestHTTP2Again: a request that the server says it has not processed is sent once more on a new connection;
// after a complaint, or a second refusal, it is not.
func TestHTTP2Again(t *testing.T) {
	for name, tt := range map[string]struct {
		handle func(f *frames, n int64)
		bodies string // of two requests
		kind   Kind   // of the errors
		conns  int64
	}{
		"kept": {eachTime(func(f *frames) { f.page("page"); f.request(); f.page("next") }),
			"page next", 0, 1},
		"refused, first":       {early(reset(http2.ErrCodeRefusedStream)), "page page", 0, 2},
		"refused, late":        {late(reset(http2.ErrCodeRefusedStream)), "page page", 0, 2},
		"refused, always":      {eachTime(reset(http2.ErrCodeRefusedStream)), "- -", KindReset, 4},
		"reset":                {early(reset(http2.ErrCodeInternal)), "- page", KindReset, 2},
		"reset, late":          {late(reset(http2.ErrCodeInternal)), "page -", KindReset, 1},
		"going away, first":    {early(goAway(http2.ErrCodeNo)), "page page", 0, 2},
		"going away, late":     {late(goAway(http2.ErrCodeNo)), "page page", 0, 2},
		"going away, always":   {eachTime(goAway(http2.ErrCodeNo)), "- -", KindReset, 4},
		"calm down":            {late(goAway(http2.ErrCodeEnhanceYourCalm)), "page -", KindReset, 1},
		"closed, late":         {late(func(*frames) {}), "page page", 0, 2},
		"closed, first":        {early(func(*frames) {}), "- page", KindEmptyReply, 2},
		"HTTP/1.1":             {eachTime(reset(http2.ErrCodeHTTP11Required)), "old old", 0, 4},
		"HTTP/1.1, by goodbye": {eachTime(goAway(http2.ErrCodeHTTP11Required)), "old old", 0, 4},
		"goodbye behind a page": {eachTime(func(f *frames) {
			f.page("page")
			f.WriteGoAway(f.next, http2.ErrCodeNo, nil)
			f.request()
		}), "page page", 0, 2},
		"goodbye before a page": {eachTime(func(f *frames) {
			f.WriteGoAway(f.next, http2.ErrCodeNo, nil)
			f.page("page")
			f.request()
		}), "page page", 0, 2},
		"reset behind a page": {eachTime(func(f *frames) {
			f.page("page")
			f.WriteRSTStream(f.next, 0)
			f.request()
			f.page("next")
		}), "page next", 0, 1},
		"a ping between": {eachTime(func(f *frames) {
			f.page("page")
			f.WritePing(false, [8]byte{})
			f.request()
			f.page("next")
		}), "page next", 0, 1},
	} {
		addr, conns := listenFrames(t, tt.handle)
		c, req := http2Client(t, addr, Options{})
		var got []string
		for range 2 {
			var resp Response
			err, _ := c.Do(t.Context(), req, &resp).(*Error)
			if err != nil && err.Kind != tt.kind {
				t.Errorf("%s: got %v", name, err)
			}
			if body := string(resp.Body); err == nil {
				got = append(got, body)
			} else {
				got = append(got, "-")
			}
			if bytes.Contains(resp.RequestHead, []byte(closeLine)) {
				t.Errorf("%s: request %q", name, resp.RequestHead)
			}
		}
		if s := strings.Join(got, " "); s != tt.bodies || conns.Load() != tt.conns {
			t.Errorf("%s: got %s by %d connections, want %s by %d", name, s, conns.Load(), tt.bodies, tt.conns)
		}
	}
}

// TestHTTP2Dropped: fields of the connection are left out and marked. Transfer-Encoding frames nothing, and the
// connection is kept.
func TestHTTP2Dropped(t *testing.T) {
	addr, conns := listenFrames(t, func(f *frames, _ int64) {
		for f.request() {
			f.head(false, ":status", "200", "upgrade", "h2", "transfer-encoding", "chunked", "connection",
				"close", "a", "b")
			f.WriteData(f.next, true, []byte("4\r\npage"))
		}
	})
	c, req := http2Client(t, addr, Options{})
	var resp Response
	for i := range 2 {
		if err := c.Do(t.Context(), req, &resp); err != nil || string(resp.Body) != "4\r\npage" || !resp.Kept ||
			resp.Flaws != FlawRepaired || string(resp.RawHead) != ok200+"a: b\r\n\r\n" {
			t.Errorf("%d: got %v, %q, %q, marks %b, kept %v", i, err, resp.RawHead, resp.Body, resp.Flaws, resp.Kept)
		}
	}
	if conns.Load() != 1 {
		t.Errorf("%d connections, want 1", conns.Load())
	}
}

// manyFields are more header fields than a page has.
var manyFields = slices.Repeat([]string{"x", "y"}, 300)

// http2HostileCases are the cases of TestHTTP2Hostile.
var http2HostileCases = map[string]struct {
	serve func(f *frames)
	body  string
	trunc Reason
	marks Flaws
	kind  Kind
	stage Stage
}{
	"data beyond the length": {serve: func(f *frames) {
		f.head(false, ":status", "200", "content-length", "4")
		f.WriteData(1, true, []byte("pagepage"))
	}, body: "page", marks: FlawExcess},
	"a length behind 300 fields": {serve: func(f *frames) {
		f.head(false, append(append([]string{":status", "200"}, manyFields...), "content-length", "4")...)
		f.WriteData(1, false, []byte("page"))
	}, body: "page"},
	"trailers of 300 fields": {serve: func(f *frames) {
		f.head(false, ":status", "200")
		f.WriteData(1, false, []byte("page"))
		f.WriteGoAway(1, http2.ErrCodeNo, nil) // nothing else would end the connection
		f.head(true, manyFields...)
	}, body: "page"},
	"a head of 5001 fields": {serve: func(f *frames) {
		f.head(true, append([]string{":status", "200"}, slices.Repeat([]string{"a", ""}, maxHeaderLines+1)...)...)
	}, kind: KindHeadTooLarge, stage: StageHead},
	"data below the length": {serve: func(f *frames) {
		f.head(false, ":status", "200", "content-length", "9")
		f.WriteData(1, true, []byte("page"))
	}, body: "page", trunc: TruncatedDisconnect},
	"no end behind the length": {serve: func(f *frames) {
		f.head(false, ":status", "200", "content-length", "4")
		f.WriteData(1, false, []byte("page"))
	}, body: "page"},
	"no end": {serve: func(f *frames) {
		f.head(false, ":status", "200")
		f.WriteData(1, false, []byte("page"))
	}, body: "page", trunc: TruncatedTime},
	"closed within": {serve: func(f *frames) {
		f.head(false, ":status", "200")
		f.WriteData(1, false, []byte("page"))
		f.conn.Close()
	}, body: "page", trunc: TruncatedDisconnect},
	"reset within": {serve: func(f *frames) {
		f.head(false, ":status", "200")
		f.WriteData(1, false, []byte("page"))
		f.WriteRSTStream(1, http2.ErrCodeInternal)
	}, body: "page", trunc: TruncatedDisconnect},
	"another stream within": {serve: func(f *frames) {
		f.head(false, ":status", "200")
		f.WriteData(1, false, []byte("page"))
		f.WriteData(3, true, []byte("forged"))
	}, body: "page", trunc: TruncatedUnspecified},
	"a head twice": {serve: func(f *frames) {
		f.head(false, ":status", "200")
		f.WriteData(1, false, []byte("page"))
		f.head(false, ":status", "200")
	}, body: "page", trunc: TruncatedUnspecified},
	"body of 304": {serve: func(f *frames) {
		f.head(false, ":status", "304", "content-length", "4")
		f.WriteData(1, true, []byte("page"))
	}},
	"silence": {serve: func(*frames) {}, kind: KindTimeout, stage: StageFirstByte},
	"half a head": {serve: func(f *frames) {
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x88}})
	}, kind: KindTimeout, stage: StageFirstByte},
	"interim replies": {serve: func(f *frames) {
		for range 20 {
			f.head(false, ":status", "103")
		}
	}, kind: KindHeadTooLarge, stage: StageHead},
	"an upgrade": {serve: func(f *frames) { f.head(false, ":status", "101") }, kind: KindBadHead, stage: StageHead},
	"a push": {serve: func(f *frames) {
		f.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true})
	}, kind: KindBadHead, stage: StageHead},
	"an invalid head": {serve: func(f *frames) { f.head(true, ":status", "200", "Name", "x") },
		kind: KindBadHead, stage: StageHead},
	"a large head": {serve: func(f *frames) {
		f.head(true, ":status", "200", "name", strings.Repeat("x", 17000))
	}, kind: KindHeadTooLarge, stage: StageHead},
	"pings without end": {serve: func(f *frames) {
		for f.WritePing(false, [8]byte{}) == nil {
		}
	}, kind: KindBadHead, stage: StageHead},
	"not HTTP/2": {serve: func(f *frames) { io.WriteString(f.conn, "HTTP/1.1 400 Bad Request\r\n\r\n") },
		kind: KindBadHead, stage: StageHead},
}

// TestHTTP2Hostile: what a bad server sends ends in the response or the error that it would have by
// HTTP/1.1, and its connection is closed.
func TestHTTP2Hostile(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for name, tt := range http2HostileCases {
		addr, conns := listenFrames(t, func(f *frames, n int64) {
			if f.request(); n > 1 {
				f.page("next")
				f.request()
				return
			}
			go tt.serve(f)
			io.Copy(io.Discard, f.conn)
		})
		lim := Limits{HeaderBytes: 8192}
		if tt.kind == KindTimeout {
			lim.FirstByte = 50 * time.Millisecond
		}
		if tt.trunc == TruncatedTime {
			lim.Grace, lim.MinRate = 50*time.Millisecond, 1<<20
		}
		c, req := http2Client(t, addr, Options{Limits: lim})
		next := testRequest()
		*next, next.Limits = *req, new(Limits)
		var resp Response
		err, _ := c.Do(t.Context(), req, &resp).(*Error)
		switch {
		case tt.kind != 0 && (err == nil || err.Kind != tt.kind || err.Stage != tt.stage || err.Ours()):
			t.Errorf("%s: got %v, want %v at %v", name, err, tt.kind, tt.stage)
		case tt.kind == 0 && (err != nil || string(resp.Body) != tt.body || resp.Truncated != tt.trunc ||
			resp.Flaws&^FlawSlow != tt.marks):
			t.Errorf("%s: got %v, %q, %q, marks %b", name, err, resp.Body, resp.Truncated, resp.Flaws)
		}
		if err := c.Do(t.Context(), next, &resp); err != nil || string(resp.Body) != "next" || resp.Reused ||
			conns.Load() != 2 {
			t.Errorf("%s: the next page: got %v, %q, reused %v, connection %d", name, err, resp.Body, resp.Reused,
				conns.Load())
		}
	}
}
