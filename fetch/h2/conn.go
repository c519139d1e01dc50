package h2

import (
	"io"

	"golang.org/x/net/http2/hpack"
)

const (
	// freeOverhead and overheadRatio bound what a server may send besides the reply.
	freeOverhead  = 64 << 10
	overheadRatio = 8
	// keptBytes is the largest buffer that a conn keeps between exchanges.
	keptBytes = 2 << 10
	// tableBytes is the initial size of the compression's table (RFC 7541), which the conn does not change.
	tableBytes = 4 << 10
	// lastStream bounds the numbers of streams. The RFC allows up to 1<<31 - 1.
	lastStream = 1 << 30
)

// Settings are the limits of a Conn.
type Settings struct {
	// HeaderBytes bounds a header block as received, and a head as decoded.
	HeaderBytes int
	// Window is the number of bytes that the server may send ahead of Read, 65535 at least.
	Window int
}

// state is the progress of the current stream.
type state uint8

const (
	idle     state = iota // no request yet, or the reply has ended
	waiting               // for the final head
	bodyOpen              // after the final head
)

// Conn is one connection. It belongs to one goroutine at a time.
type Conn struct {
	rw       io.ReadWriter
	settings Settings
	decoder  *hpack.Decoder
	out      []byte // frames not written yet
	err      error  // of an earlier Read
	broken   error  // of an earlier write

	settled bool  // the server's first SETTINGS has arrived
	away    bool  // the server opens no more streams
	shared  int64 // what is left of the connection's window
	// Of the current stream.
	stream   uint32
	state    state
	window   int64 // what is left of the stream's window
	credit   int64 // bytes to grant with the next WINDOW_UPDATE
	data     int   // bytes of the current DATA frame to come
	padding  int   // bytes of padding after them
	last     bool  // END_STREAM is set on the current DATA frame
	useful   int64 // bytes of header blocks and bodies
	overhead int64 // all other bytes
	head     headReader
	given    int // bytes of the head that Read has returned

	header  [frameHeaderBytes]byte
	scratch [256]byte
}

// New returns a Conn on rw, a connection on which both sides have agreed to HTTP/2. It sends nothing yet.
func New(rw io.ReadWriter, s Settings) *Conn {
	s.Window = max(s.Window, firstWindow)
	c := &Conn{rw: rw, settings: s, shared: firstWindow + connWindow}
	c.head.most = s.HeaderBytes
	c.decoder = hpack.NewDecoder(tableBytes, c.head.field)
	c.decoder.SetMaxStringLength(s.HeaderBytes)
	c.out = make([]byte, 0, 512)
	c.out = append(c.out, preface...)
	c.out = appendFrame(c.out, 4*6, frameSettings, 0, 0)
	c.out = appendSetting(c.out, settingPush, 0)
	c.out = appendSetting(c.out, settingStreams, 0)
	c.out = appendSetting(c.out, settingWindow, uint32(s.Window))
	c.out = appendSetting(c.out, settingHeaderList, uint32(s.HeaderBytes))
	c.out = appendWindow(c.out, 0, connWindow)
	return c
}

// Request sends a request, given as the head of an HTTP/1.1 request without a body. It returns the number of
// bytes written for it. An error of the connection is not final for Read: the server may have replied before.
func (c *Conn) Request(head []byte) (int, error) {
	c.stream += 1 + c.stream&1 // 1, 3, 5, …
	c.state, c.window, c.credit = waiting, int64(c.settings.Window), 0
	c.useful, c.overhead, c.given = 0, 0, 0
	c.head.begin()
	before := len(c.out)
	c.out = appendRequest(c.out, head, c.stream)
	n := len(c.out) - before
	if err := c.Flush(); err != nil {
		return 0, err
	}
	return n, nil
}

// Flush writes the queued frames.
func (c *Conn) Flush() error {
	if len(c.out) == 0 || c.broken != nil {
		return c.broken
	}
	_, c.broken = c.rw.Write(c.out)
	if c.out = c.out[:0]; cap(c.out) > keptBytes {
		c.out = nil
	}
	return c.broken
}

// Ended reports whether the reply has ended and Read has returned all of it.
func (c *Conn) Ended() bool { return c.state == idle && c.given == len(c.head.text) }

// Dropped reports whether the reply had connection-specific fields, which Read leaves out.
func (c *Conn) Dropped() bool { return c.head.dropped }

// Reusable reports whether the connection can carry another request: the reply has ended, and the server
// accepts more.
func (c *Conn) Reusable() bool {
	return c.Ended() && !c.away && c.err == nil && c.broken == nil && c.stream < lastStream
}

// Rest prepares a reusable connection for being idle: it writes the queued frames and frees large buffers.
func (c *Conn) Rest() error {
	c.head.begin()
	c.given = 0
	return c.Flush()
}

// Read returns the next bytes of the reply: of the interim heads, the final head, or the body, never of two
// of them at once. It returns io.EOF after the end of the reply.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		switch {
		case c.given < len(c.head.text):
			n := copy(p, c.head.text[c.given:])
			c.given += n
			return n, nil
		case c.err != nil:
			return 0, c.err
		case c.data > 0:
			n, err := c.rw.Read(p[:min(len(p), c.data)])
			c.data -= n
			c.useful += int64(n)
			c.grant(n)
			if c.data == 0 && c.padding == 0 {
				c.endData()
			}
			if n > 0 {
				return n, nil
			}
			if c.err = ending(err); c.err != nil {
				return 0, c.err
			}
		case c.state == idle:
			return 0, io.EOF
		default:
			c.err = c.frame()
		}
	}
}

// Quiet reports whether an idle connection has nothing to read but frames that do no harm, such as PING,
// which it handles. notYet is the error of a read below that finds no bytes; such reads must not wait, and
// Quiet does not write.
func (c *Conn) Quiet(notYet error) bool {
	for {
		n, err := io.ReadFull(c.rw, c.header[:])
		if n == 0 && err == notYet {
			return c.Reusable()
		}
		if err != nil || c.handle(parseFrameHeader(&c.header)) != nil || !c.Reusable() {
			return false
		}
	}
}

// ending returns err; io.EOF as the end of the connection within a reply.
func ending(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// frame reads one frame, of DATA only the beginning.
func (c *Conn) frame() error {
	if c.padding > 0 {
		n := c.padding
		if err := c.skip(n); err != nil {
			return err
		}
		c.padding = 0
		c.grant(n)
		c.endData()
		return nil
	}
	h, err := c.next()
	if err != nil {
		return err
	}
	return c.handle(h)
}

// next reads a frame header.
func (c *Conn) next() (frameHeader, error) {
	if _, err := io.ReadFull(c.rw, c.header[:]); err != nil {
		return frameHeader{}, ending(err)
	}
	return parseFrameHeader(&c.header), nil
}

// spend counts n bytes that are not of the reply.
func (c *Conn) spend(n int) error {
	if c.overhead += int64(n); c.overhead > freeOverhead+overheadRatio*c.useful {
		return malformed("too many frames without data")
	}
	return nil
}

// handle handles a frame whose header has been read.
func (c *Conn) handle(h frameHeader) error {
	switch {
	case h.length > maxFrame:
		return malformed("not HTTP/2, or an oversized frame")
	case !c.settled && (h.kind != frameSettings || h.has(flagAck)):
		return malformed("the first frame is not SETTINGS")
	}
	if err := c.spend(frameHeaderBytes); err != nil {
		return err
	}
	switch h.kind {
	case frameData:
		return c.dataFrame(h)
	case frameHeaders:
		return c.headersFrame(h)
	case frameContinuation:
		return malformed("CONTINUATION without HEADERS")
	case framePush:
		return malformed("PUSH_PROMISE, which our settings forbid")
	}
	if err := c.spend(h.length); err != nil {
		return err
	}
	switch h.kind {
	case framePriority:
		if h.stream == 0 || h.length != 5 {
			return malformed("bad PRIORITY")
		}
	case frameReset:
		return c.resetFrame(h)
	case frameSettings:
		return c.settingsFrame(h)
	case framePing:
		return c.pingFrame(h)
	case frameGoAway:
		return c.goAwayFrame(h)
	case frameWindow:
		return c.windowFrame(h)
	}
	return c.skip(h.length) // unknown frames are ignored (4.1)
}

// skip reads n bytes and drops them.
func (c *Conn) skip(n int) error {
	for n > 0 {
		m, err := io.ReadFull(c.rw, c.scratch[:min(n, len(c.scratch))])
		if n -= m; err != nil {
			return ending(err)
		}
	}
	return nil
}

// take reads n bytes, at most len(c.scratch).
func (c *Conn) take(n int) ([]byte, error) {
	_, err := io.ReadFull(c.rw, c.scratch[:n])
	return c.scratch[:n], ending(err)
}

// padded reads the length of the padding and returns the length of the frame's content.
func (c *Conn) padded(h frameHeader) (content, padding int, err error) {
	if !h.has(flagPadded) {
		return h.length, 0, nil
	}
	if h.length == 0 {
		return 0, 0, malformed("no room for the length of the padding")
	}
	b, err := c.take(1)
	if err != nil {
		return 0, 0, err
	}
	padding = int(b[0])
	if padding >= h.length {
		return 0, 0, malformed("padding is longer than its frame")
	}
	return h.length - 1 - padding, padding, c.spend(1 + padding)
}

func (c *Conn) dataFrame(h frameHeader) (err error) {
	switch {
	case h.stream != c.stream || c.state == idle:
		return malformed("DATA of a stream that is not open")
	case c.state == waiting:
		return malformed("DATA before HEADERS")
	}
	c.window -= int64(h.length)
	c.shared -= int64(h.length)
	if c.window < 0 || c.shared < 0 {
		return malformed("more DATA than the window allows")
	}
	c.last = h.has(flagEndStream)
	if c.data, c.padding, err = c.padded(h); err != nil {
		c.data, c.padding = 0, 0
		return err
	}
	c.credit += int64(h.length - c.data - c.padding)
	if c.data == 0 && c.padding == 0 {
		c.endData()
	}
	return nil
}

// endData ends a DATA frame.
func (c *Conn) endData() {
	if c.last {
		c.end()
	}
}

// end ends the stream.
func (c *Conn) end() {
	c.state, c.last = idle, false
	c.useful, c.overhead = 0, 0
	c.head.release()
	if c.shared < connWindow/2 {
		c.out = appendWindow(c.out, 0, connWindow/2)
		c.shared += connWindow / 2
	}
}

// grant opens the stream's window by n bytes that have been read. To send fewer frames, it waits until half
// of the window is used.
func (c *Conn) grant(n int) {
	if c.credit += int64(n); c.credit >= int64(c.settings.Window)/2 && !(c.last && c.data == 0) {
		c.out = appendWindow(c.out, c.stream, uint32(c.credit))
		c.window += c.credit
		c.credit = 0
	}
	if c.shared < connWindow/2 {
		c.out = appendWindow(c.out, 0, connWindow/2)
		c.shared += connWindow / 2
	}
}

// headersFrame reads a whole header block: HEADERS and CONTINUATION.
func (c *Conn) headersFrame(h frameHeader) error {
	if h.stream != c.stream || c.state == idle {
		return malformed("HEADERS of a stream that is not open")
	}
	trailers, last := c.state == bodyOpen, h.has(flagEndStream)
	if trailers && !last {
		return malformed("HEADERS within the body")
	}
	n, padding, err := c.padded(h)
	if err == nil && h.has(flagPriority) {
		if n -= 5; n < 0 {
			return malformed("no room for the priority")
		}
		if _, err = c.take(5); err == nil {
			err = c.spend(5)
		}
	}
	if err == nil {
		c.head.block = c.head.block[:0]
		if err = c.fragment(n); err == nil {
			err = c.skip(padding)
		}
	}
	for done := h.has(flagEndHeaders); err == nil && !done; done = h.has(flagEndHeaders) {
		stream := h.stream
		if h, err = c.next(); err != nil {
			break
		}
		if h.kind != frameContinuation || h.stream != stream || h.length > maxFrame {
			return malformed("a header block is interrupted")
		}
		if err = c.spend(frameHeaderBytes); err == nil {
			err = c.fragment(h.length)
		}
	}
	if err != nil {
		return err
	}
	return c.block(trailers, last)
}

// fragment reads n bytes of a header block.
func (c *Conn) fragment(n int) error {
	r := &c.head
	if len(r.block)+n > r.most {
		return tooLarge()
	}
	c.useful += int64(n)
	begin := len(r.block)
	r.block = append(r.block, make([]byte, n)...)
	_, err := io.ReadFull(c.rw, r.block[begin:])
	return ending(err)
}

// block decodes a header block.
func (c *Conn) block(trailers, last bool) error {
	r := &c.head
	if !trailers {
		r.text, c.given = r.text[:0], 0
	}
	err := r.read(c.decoder, trailers)
	interim := !trailers && r.status < 200
	if err == nil && interim && last {
		err = malformed("an interim reply ends the stream")
	}
	switch {
	case err != nil:
		r.text, c.given = r.text[:0], 0
		return err
	case last:
		c.end()
	case !interim:
		c.state = bodyOpen
	}
	return nil
}
