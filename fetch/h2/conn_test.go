package h2

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// peer is a server whose bytes are given. It counts what is written to it.
type peer struct {
	rest  []byte
	piece int // bytes a read
	sent  bytes.Buffer
	conn  *Conn
}

var errNotYet = errors.New("nothing to read")

// Read returns the next piece. Like the connection below TLS, it writes the queued frames before.
func (p *peer) Read(b []byte) (int, error) {
	if p.conn != nil {
		p.conn.Flush()
	}
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), max(p.piece, 1))], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *peer) Write(b []byte) (int, error) { return p.sent.Write(b) }

// server writes the frames of a server with the library's Framer.
type server struct {
	*http2.Framer
	buf   bytes.Buffer
	block bytes.Buffer
	enc   *hpack.Encoder
}

func newServer() *server {
	s := new(server)
	s.Framer = http2.NewFramer(&s.buf, nil)
	s.AllowIllegalWrites = true
	s.enc = hpack.NewEncoder(&s.block)
	return s
}

// fields encodes names and values.
func (s *server) fields(list ...string) []byte {
	s.block.Reset()
	for i := 0; i < len(list); i += 2 {
		s.enc.WriteField(hpack.HeaderField{Name: list[i], Value: list[i+1]})
	}
	return bytes.Clone(s.block.Bytes())
}

// head writes HEADERS of stream 1.
func (s *server) head(end bool, list ...string) {
	s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: s.fields(list...), EndHeaders: true,
		EndStream: end})
}

const testRequest = "GET /a?b=c HTTP/1.1\r\nHost: example.org\r\nUser-Agent: test\r\nX-Other: " +
	"1\r\nConnection: close\r\n\r\n"

const ok = "HTTP/1.1 200 OK\r\n"

// run makes one exchange and returns all that Read returned.
func run(serve func(s *server), piece int) (text string, c *Conn, p *peer, err error) {
	s := newServer()
	serve(s)
	p = &peer{rest: s.buf.Bytes(), piece: piece}
	c = New(p, Settings{HeaderBytes: 4096, Window: firstWindow})
	p.conn = c
	if _, err := c.Request([]byte(testRequest)); err != nil {
		return "", c, p, err
	}
	b, err := io.ReadAll(c)
	return string(b), c, p, err
}

// form is an exchange with a good or a bad server.
type form struct {
	serve func(s *server)
	text  string // what Read returns
	err   string // part of the error; "" for none
	kind  Kind
}

// begun serves after the settings and the head.
func begun(f func(s *server)) func(s *server) {
	return func(s *server) { s.WriteSettings(); s.head(false, ":status", "200"); f(s) }
}

// first serves after the settings.
func first(f func(s *server)) func(s *server) { return func(s *server) { s.WriteSettings(); f(s) } }

func many(n int, f func(s *server)) func(s *server) {
	return begun(func(s *server) {
		for range n {
			f(s)
		}
		s.WriteData(1, true, nil)
	})
}

func bad(list ...string) form {
	return form{serve: first(func(s *server) { s.head(true, list...) }), err: "HTTP/2: ", kind: Malformed}
}

func raw(kind http2.FrameType, flags http2.Flags, stream uint32, n int) form {
	return form{serve: begun(func(s *server) { s.WriteRawFrame(kind, flags, stream, make([]byte, n)) }),
		text: ok + "\r\n", err: "HTTP/2: ", kind: Malformed}
}

func x(n int) []byte { return bytes.Repeat([]byte("x"), n) }

var forms = map[string]form{
	"a page": {serve: begun(func(s *server) { s.WriteData(1, true, []byte("page")) }), text: ok + "\r\npage"},
	"a head alone": {serve: first(func(s *server) { s.head(true, ":status", "204", "a", "b") }),
		text: "HTTP/1.1 204 No Content\r\na: b\r\n\r\n"},
	"an unknown status": {serve: first(func(s *server) { s.head(true, ":status", "299") }),
		text: "HTTP/1.1 299 \r\n\r\n"},
	"interim replies": {serve: first(func(s *server) {
		s.head(false, ":status", "103", "link", "x")
		s.head(true, ":status", "200")
	}), text: "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + ok + "\r\n"},
	"padding": {serve: begun(func(s *server) {
		s.WriteDataPadded(1, false, []byte("pa"), make([]byte, 200))
		s.WriteDataPadded(1, true, []byte("ge"), make([]byte, 255))
	}), text: ok + "\r\npage"},
	"padded head with a priority, in pieces": {serve: first(func(s *server) {
		b := s.fields(":status", "200", "a", "b", "c", "d")
		s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b[:3], EndStream: true, PadLength: 9,
			Priority: http2.PriorityParam{StreamDep: 5, Weight: 3}})
		s.WriteContinuation(1, false, nil)
		s.WriteContinuation(1, true, b[3:])
	}), text: ok + "a: b\r\nc: d\r\n\r\n"},
	"trailers": {serve: begun(func(s *server) {
		s.WriteData(1, false, []byte("page"))
		s.head(true, "sum", "1")
	}), text: ok + "\r\npage"},
	"frames between": {serve: begun(func(s *server) {
		s.WriteData(1, false, []byte("pa"))
		s.WritePing(false, [8]byte{1, 2, 3, 4, 5, 6, 7, 8})
		s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 7})
		s.WriteWindowUpdate(0, 1<<31-1)
		s.WriteWindowUpdate(1, 1<<31-1)
		s.WritePriority(3, http2.PriorityParam{StreamDep: 1})
		s.WriteRawFrame(99, 0xff, 77, x(100))
		s.WriteGoAway(1, http2.ErrCodeNo, []byte("bye"))
		s.WriteData(1, true, []byte("ge"))
	}), text: ok + "\r\npage"},
	"connection-specific fields": {serve: first(func(s *server) {
		s.head(true, ":status", "200", "connection", "close", "upgrade", "h2", "transfer-encoding",
			"chunked", "a", "b")
	}), text: ok + "a: b\r\n\r\n"},
	"whole, then a reset": {serve: begun(func(s *server) {
		s.WriteData(1, true, []byte("page"))
		s.WriteRSTStream(1, http2.ErrCodeNo)
	}), text: ok + "\r\npage"},

	"HTTP/1.1": {serve: func(s *server) { s.buf.WriteString("HTTP/1.1 400 Bad Request\r\n\r\n") },
		err: "not HTTP/2"},
	"no settings":   {serve: func(s *server) { s.head(true, ":status", "200") }, err: "first frame"},
	"only an ack":   {serve: func(s *server) { s.WriteSettingsAck() }, err: "first frame"},
	"nothing":       {serve: func(*server) {}, err: "unexpected EOF"},
	"no reply":      {serve: first(func(*server) {}), err: "unexpected EOF"},
	"half a header": {serve: first(func(s *server) { s.buf.WriteString("\x00\x00") }), err: "unexpected EOF"},
	"half a body": {serve: begun(func(s *server) { s.WriteData(1, false, x(9)) }), text: ok + "\r\nxxxxxxxxx",
		err: "unexpected EOF"},
	"half a frame": {serve: begun(func(s *server) { s.WriteData(1, true, x(9)); s.buf.Truncate(s.buf.Len() - 4) }),
		text: ok + "\r\nxxxxx", err: "unexpected EOF"},

	"refused": {serve: first(func(s *server) { s.WriteRSTStream(1, http2.ErrCodeRefusedStream) }),
		err: "code 7", kind: Refused},
	"wants HTTP/1.1": {serve: first(func(s *server) { s.WriteRSTStream(1, http2.ErrCodeHTTP11Required) }),
		err: "code 13", kind: NeedsHTTP1},
	"wants HTTP/1.1 everywhere": {serve: first(func(s *server) {
		s.WriteGoAway(0, http2.ErrCodeHTTP11Required, nil)
	}),
		err: "code 13", kind: NeedsHTTP1},
	"reset": {serve: first(func(s *server) { s.WriteRSTStream(1, http2.ErrCodeInternal) }),
		err: "code 2", kind: Reset},
	"reset in the body": {serve: begun(func(s *server) {
		s.WriteData(1, false, x(3))
		s.WriteRSTStream(1, http2.ErrCodeCancel)
	}),
		text: ok + "\r\nxxx", err: "code 8", kind: Reset},
	"going away": {serve: first(func(s *server) { s.WriteGoAway(0, http2.ErrCodeNo, nil) }), err: "GOAWAY",
		kind: Refused},
	"calm down": {serve: first(func(s *server) { s.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil) }),
		err: "code 11", kind: Reset},
	"a push": {serve: begun(func(s *server) {
		s.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true})
	}), text: ok + "\r\n", err: "PUSH_PROMISE"},
	"late head": {serve: begun(func(s *server) { s.head(false, ":status", "200") }), text: ok + "\r\n",
		err: "HEADERS within"},
	"early data": {serve: first(func(s *server) { s.WriteData(1, true, x(1)) }), err: "DATA before"},
	"final 100":  {serve: first(func(s *server) { s.head(true, ":status", "100") }), err: "interim"},
	"stray block": {serve: begun(func(s *server) { s.WriteContinuation(1, true, nil) }), text: ok + "\r\n",
		err: "CONTINUATION"},
	"a block broken off": {serve: first(func(s *server) {
		s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: s.fields(":status", "200")})
		s.WritePing(false, [8]byte{})
	}), err: "interrupted"},
	"a block of another": {serve: first(func(s *server) {
		s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: s.fields(":status", "200")})
		s.WriteContinuation(3, true, nil)
	}), err: "interrupted"},
	"half a field": {serve: first(func(s *server) {
		b := s.fields(":status", "200", "name", "value")
		s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b[:len(b)-2], EndHeaders: true})
	}), err: "decoded"},
	"a bad index": {serve: first(func(s *server) {
		s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0x7f}, EndHeaders: true})
	}), err: "decoded"},
	"a large table": {serve: first(func(s *server) {
		s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x3f, 0xe1, 0xff, 0x7f, 0x88},
			EndHeaders: true})
	}), err: "decoded"},
	"a header bomb": {serve: first(func(s *server) {
		b := s.fields(":status", "200", "bomb", strings.Repeat("b", 1000))
		s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1,
			BlockFragment: append(b, bytes.Repeat([]byte{0x80 | 62}, 2000)...), EndHeaders: true})
	}), err: "limit", kind: HeadTooLarge},
	"a bomb of trailers": {serve: begun(func(s *server) {
		b := s.fields("bomb", strings.Repeat("b", 1000))
		s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1,
			BlockFragment: append(b, bytes.Repeat([]byte{0x80 | 62}, 2000)...), EndHeaders: true, EndStream: true})
	}), text: ok + "\r\n", err: "limit", kind: HeadTooLarge},
	"an endless head": {serve: first(func(s *server) {
		s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: s.fields(":status", "200")})
		for range 100 {
			s.WriteContinuation(1, false, x(100))
		}
	}), err: "limit", kind: HeadTooLarge},
	"a long name": {serve: first(func(s *server) {
		s.head(true, ":status", "200", strings.Repeat("n", 9000), "v")
	}), err: "limit", kind: HeadTooLarge},
	"too much data": {serve: many(5, func(s *server) {
		s.WriteDataPadded(1, false, x(16000), make([]byte, 255))
	}), text: ok + "\r\n" + strings.Repeat("x", 80000)},
	"a frame too long": {serve: begun(func(s *server) { s.WriteData(1, true, x(maxFrame+1)) }),
		text: ok + "\r\n", err: "oversized frame"},
	"many empty frames": {serve: many(9000, func(s *server) { s.WriteData(1, false, nil) }), text: ok + "\r\n",
		err: "too many"},
	"many pings": {serve: many(9000, func(s *server) { s.WritePing(false, [8]byte{}) }),
		text: ok + "\r\n", err: "too many"},
	"many settings": {serve: many(9000, func(s *server) { s.WriteSettings() }), text: ok + "\r\n", err: "too many"},
	"many windows": {serve: many(9000, func(s *server) { s.WriteWindowUpdate(0, 1) }), text: ok + "\r\n",
		err: "too many"},
	"many priorities": {serve: many(9000, func(s *server) { s.WritePriority(3, http2.PriorityParam{}) }),
		text: ok + "\r\n", err: "too many"},
	"many resets": {serve: many(9000, func(s *server) { s.WriteGoAway(1, 0, nil) }), text: ok + "\r\n",
		err: "too many"},
	"many unknowns": {serve: many(9, func(s *server) { s.WriteRawFrame(42, 0, 1, x(16000)) }),
		text: ok + "\r\n", err: "too many"},
	"empty pieces of a head": {serve: first(func(s *server) {
		s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: s.fields(":status", "200")})
		for range 9000 {
			s.WriteContinuation(1, false, nil)
		}
	}), err: "too many"},

	"data of another stream": {serve: begun(func(s *server) { s.WriteData(3, true, x(1)) }), text: ok + "\r\n",
		err: "not open"},
	"data of no stream":       raw(http2.FrameData, 0, 0, 4),
	"head of another stream":  raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 2, 4),
	"reset of another stream": raw(http2.FrameRSTStream, 0, 3, 4),
	"reset of no stream":      raw(http2.FrameRSTStream, 0, 0, 4),
	"a short reset":           raw(http2.FrameRSTStream, 0, 1, 3),
	"settings of a stream":    raw(http2.FrameSettings, 0, 1, 6),
	"odd settings":            raw(http2.FrameSettings, 0, 0, 7),
	"an ack with settings":    raw(http2.FrameSettings, http2.FlagSettingsAck, 0, 6),
	"a ping of a stream":      raw(http2.FramePing, 0, 1, 8),
	"a short ping":            raw(http2.FramePing, 0, 0, 7),
	"a short goodbye":         raw(http2.FrameGoAway, 0, 0, 7),
	"goodbye of a stream":     raw(http2.FrameGoAway, 0, 1, 8),
	"a window of 0":           raw(http2.FrameWindowUpdate, 0, 0, 4),
	"a short window":          raw(http2.FrameWindowUpdate, 0, 0, 3),
	"a short priority":        raw(http2.FramePriority, 0, 1, 4),
	"padding without length":  raw(http2.FrameData, http2.FlagDataPadded, 1, 0),
	"padding beyond": {serve: begun(func(s *server) {
		s.WriteRawFrame(http2.FrameData, http2.FlagDataPadded, 1, []byte{2, 0})
	}),
		text: ok + "\r\n", err: "padding"},
	"no room for a priority": {serve: first(func(s *server) {
		s.WriteRawFrame(http2.FrameHeaders, http2.FlagHeadersPriority, 1, []byte{1})
	}), err: "priority"},

	"no status":         bad("a", "b"),
	"a late status":     bad("a", "b", ":status", "200"),
	"two statuses":      bad(":status", "200", ":status", "200"),
	"a request's field": bad(":status", "200", ":path", "/"),
	"a short status":    bad(":status", "20"),
	"a signed status":   bad(":status", "+20"),
	"status 099":        bad(":status", "099"),
	"status 65536":      bad(":status", "65736"),
	"upper case":        bad(":status", "200", "Server", "x"),
	"no name":           bad(":status", "200", "", "x"),
	"a blank in a name": bad(":status", "200", "a b", "x"),
	"a colon in a name": bad(":status", "200", "a:b", "x"),
	"bytes in a name":   bad(":status", "200", "\xe4", "x"),
	"CR in a value":     bad(":status", "200", "a", "b\rc: d"),
	"LF in a value":     bad(":status", "200", "a", "b\nc: d"),
	"NUL in a value":    bad(":status", "200", "a", "b\x00"),
	"status in trailers": {serve: begun(func(s *server) { s.head(true, ":status", "200") }), text: ok + "\r\n",
		err: "pseudo"},
}

// TestForms: each form of a reply is read to the same text and error, in whatever pieces its bytes come.
func TestForms(t *testing.T) {
	for name, f := range forms {
		for _, piece := range []int{1 << 20, 1, 7, 1000} {
			text, c, p, err := run(f.serve, piece)
			var he *Error
			if f.err == "" && err != nil || f.err != "" && (err == nil || !strings.Contains(err.Error(), f.err)) ||
				errors.As(err, &he) && he.Kind != f.kind || text != f.text {
				t.Errorf("%s, pieces of %d: got %.60q (%d bytes), %v; want %.60q (%d bytes), %q, kind %d",
					name, piece, text, len(text), err, f.text, len(f.text), f.err, f.kind)
			}
			if c.Ended() != (f.err == "") || c.Reusable() && f.err != "" {
				t.Errorf("%s: ended %v, reusable %v", name, c.Ended(), c.Reusable())
			}
			if n := p.sent.Len(); n > 200<<10 {
				t.Errorf("%s: wrote %d bytes", name, n)
			}
		}
	}
}

// TestFlowControl: a server that ignores the window is stopped, and one that heeds it gets all it needs.
func TestFlowControl(t *testing.T) {
	s := newServer()
	s.WriteSettings()
	s.head(false, ":status", "200")
	for range 100 {
		s.WriteData(1, false, make([]byte, maxFrame))
	}
	p := &peer{rest: s.buf.Bytes(), piece: 1 << 20}
	c := New(p, Settings{HeaderBytes: 4096})
	c.Request([]byte(testRequest))
	b := make([]byte, 100)
	for n := 0; n < 2; {
		m, err := c.Read(b[:1])
		if n += m; err != nil {
			t.Fatal(err)
		}
	}
	c.window = 100 // as if the server had sent so much ahead
	if _, err := io.ReadAll(c); err == nil || !strings.Contains(err.Error(), "window") {
		t.Errorf("got %v", err)
	}

	granted := int64(firstWindow)
	_, _, q, err := run(func(s *server) {
		s.WriteSettings()
		s.head(false, ":status", "200")
		for range 200 {
			s.WriteData(1, false, make([]byte, 10000))
		}
		s.WriteData(1, true, nil)
	}, 5000)
	if err != nil {
		t.Fatal(err)
	}
	frames := http2.NewFramer(nil, bytes.NewReader(q.sent.Bytes()[len(preface):]))
	for {
		f, err := frames.ReadFrame()
		if err != nil {
			break
		}
		if w, ok := f.(*http2.WindowUpdateFrame); ok && w.StreamID == 1 {
			granted += int64(w.Increment)
		}
	}
	if granted < 2000000 || granted > 2000000+firstWindow {
		t.Errorf("granted %d bytes for 2000000", granted)
	}
}

// TestRequestFrames: the library's Framer reads the request as intended, also one with a head of several
// frames.
func TestRequestFrames(t *testing.T) {
	for _, long := range []int{0, 100, 40000} {
		head := strings.Replace(testRequest, "b=c", "b=c"+strings.Repeat("d", long), 1)
		p := new(peer)
		c := New(p, Settings{HeaderBytes: 4096, Window: 1 << 20})
		for i := range 3 {
			if n, err := c.Request([]byte(head)); err != nil || n < 50+long {
				t.Fatal(n, err)
			}
			if i == 0 && !strings.HasPrefix(p.sent.String(), http2.ClientPreface) {
				t.Fatalf("begins with %q", p.sent.String()[:20])
			}
		}
		f := http2.NewFramer(nil, bytes.NewReader(p.sent.Bytes()[len(http2.ClientPreface):]))
		f.ReadMetaHeaders, f.MaxHeaderListSize = hpack.NewDecoder(4096, nil), 1<<20
		var got []string
		for {
			fr, err := f.ReadFrame()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			switch fr := fr.(type) {
			case *http2.SettingsFrame:
				if w, _ := fr.Value(http2.SettingInitialWindowSize); w != 1<<20 || fr.NumSettings() != 4 {
					t.Errorf("settings %v", fr)
				}
			case *http2.MetaHeadersFrame:
				if !fr.StreamEnded() {
					t.Error("the stream stays open")
				}
				for _, x := range fr.Fields {
					if own := x.Name == "x-other"; x.Sensitive != own {
						t.Errorf("%s may be indexed: %v", x.Name, !x.Sensitive)
					}
					got = append(got, x.Name+" "+strings.Replace(x.Value, strings.Repeat("d", long), "", 1))
				}
			}
		}
		one := ":method GET|:scheme https|:path /a?b=c|:authority example.org|user-agent test|x-other 1"
		if s := strings.Join(got, "|"); s != one+"|"+one+"|"+one {
			t.Errorf("got %s", s)
		}
	}
}

// idlePeer is a peer that has nothing to read after its bytes.
type idlePeer struct{ peer }

func (p *idlePeer) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, errNotYet
	}
	return p.peer.Read(b)
}

// TestQuiet: harmless frames leave an idle connection usable, and are answered with the next request. All
// else makes it unusable.
func TestQuiet(t *testing.T) {
	for name, tt := range map[string]struct {
		serve func(s *server)
		quiet bool
	}{
		"nothing":      {func(*server) {}, true},
		"a ping":       {func(s *server) { s.WritePing(false, [8]byte{7}) }, true},
		"settings":     {func(s *server) { s.WriteSettings(); s.WriteSettingsAck(); s.WriteWindowUpdate(0, 1) }, true},
		"a late reset": {func(s *server) { s.WriteRSTStream(1, http2.ErrCodeNo) }, true},
		"unknown":      {func(s *server) { s.WriteRawFrame(77, 1, 2, make([]byte, 1000)) }, true},
		"goodbye":      {func(s *server) { s.WriteGoAway(1, http2.ErrCodeNo, nil) }, false},
		"data":         {func(s *server) { s.WriteData(1, false, []byte("x")) }, false},
		"data of next": {func(s *server) { s.WriteData(3, false, []byte("x")) }, false},
		"an early head": {func(s *server) {
			s.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: s.fields(":status", "200"),
				EndHeaders: true, EndStream: true})
		}, false},
		"a push": {func(s *server) {
			s.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true})
		}, false},
		"half a frame": {func(s *server) { s.buf.WriteString("\x00\x00") }, false},
		"half a ping":  {func(s *server) { s.WritePing(false, [8]byte{}); s.buf.Truncate(s.buf.Len() - 5) }, false},
		"a flood of ping": {func(s *server) {
			for range 9000 {
				s.WritePing(false, [8]byte{})
			}
		}, false},
	} {
		s := newServer()
		s.WriteSettings()
		s.head(true, ":status", "204")
		reply := s.buf.Len()
		tt.serve(s)
		p := &idlePeer{peer{piece: 1 << 20}}
		c := New(p, Settings{HeaderBytes: 4096})
		c.Request([]byte(testRequest))
		p.rest = s.buf.Bytes()[:reply]
		if _, err := io.ReadAll(c); err != nil || c.Rest() != nil {
			t.Fatal(err)
		}
		wrote := p.sent.Len()
		p.rest = s.buf.Bytes()[reply:]
		if got := c.Quiet(errNotYet); got != tt.quiet || p.sent.Len() != wrote {
			t.Errorf("%s: quiet %v, want %v; wrote %d bytes", name, got, tt.quiet, p.sent.Len()-wrote)
		}
		if len(c.out) > 100<<10 {
			t.Errorf("%s: %d bytes wait", name, len(c.out))
		}
		if name == "a ping" {
			c.Request([]byte(testRequest))
			f, err := http2.NewFramer(nil, bytes.NewReader(p.sent.Bytes()[wrote:])).ReadFrame()
			if ping, ok := f.(*http2.PingFrame); err != nil || !ok || !ping.IsAck() || ping.Data[0] != 7 {
				t.Errorf("the answer is %v, %v", f, err)
			}
		}
	}
}

// FuzzH2 replies with any bytes: no panic, no endless loop, the same result however the bytes are split, all
// limits hold, and a head is one that HTTP/1.1 allows.
func FuzzH2(f *testing.F) {
	for _, form := range forms {
		s := newServer()
		form.serve(s)
		if s.buf.Len() < 4<<10 {
			f.Add(s.buf.Bytes(), 3)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, piece int) {
		serve := func(s *server) { s.buf.Write(in) }
		text, c, p, err := run(serve, 1<<20)
		parts, d, _, perr := run(serve, piece&63+1)
		if text != parts || (err == nil) != (perr == nil) || err != nil && err.Error() != perr.Error() ||
			c.Ended() != d.Ended() || c.Reusable() != d.Reusable() {
			t.Fatalf("whole %q, %v; in pieces %q, %v", text, err, parts, perr)
		}
		if len(text) > len(in)+4096*(1+len(in)/frameHeaderBytes) || p.sent.Len() > 2*len(in)+2000 ||
			cap(c.head.text) > 3*4096 {
			t.Fatalf("%d bytes from %d, wrote %d", len(text), len(in), p.sent.Len())
		}
		if text != "" && !strings.HasPrefix(text, "HTTP/1.1 ") {
			t.Fatalf("begins with %.20q", text)
		}
		if err == nil && !c.Ended() {
			t.Fatal("no error, and not ended")
		}
	})
}
