package h2

import "encoding/binary"

// The frames that carry no part of a reply. Their headers and lengths have been counted already.

func (c *Conn) resetFrame(h frameHeader) error {
	if h.length != 4 || !c.known(h.stream) {
		return malformed("bad RST_STREAM")
	}
	b, err := c.take(4)
	if err != nil || h.stream != c.stream || c.state == idle {
		return err
	}
	code := binary.BigEndian.Uint32(b)
	return endedBy("RST_STREAM", code, code == codeRefused)
}

// known reports whether a stream is the current one or an earlier one.
func (c *Conn) known(stream uint32) bool { return stream&1 == 1 && stream <= c.stream }

// settingsFrame acknowledges the server's settings. None of them matters here: requests have no body and
// use no table, and there is one at a time.
func (c *Conn) settingsFrame(h frameHeader) error {
	if h.stream != 0 || h.length%6 != 0 || h.has(flagAck) && h.length != 0 {
		return malformed("bad SETTINGS")
	}
	c.settled = true
	if !h.has(flagAck) {
		c.out = appendFrame(c.out, 0, frameSettings, flagAck, 0)
	}
	return c.skip(h.length)
}

func (c *Conn) pingFrame(h frameHeader) error {
	if h.stream != 0 || h.length != 8 {
		return malformed("bad PING")
	}
	b, err := c.take(8)
	if err == nil && !h.has(flagAck) {
		c.out = append(appendFrame(c.out, 8, framePing, flagAck, 0), b...)
	}
	return err
}

func (c *Conn) goAwayFrame(h frameHeader) error {
	if h.stream != 0 || h.length < 8 {
		return malformed("bad GOAWAY")
	}
	b, err := c.take(8)
	if err != nil {
		return err
	}
	last, code := binary.BigEndian.Uint32(b)&^(1<<31), binary.BigEndian.Uint32(b[4:])
	c.away = true
	if c.state != idle && last < c.stream {
		// After a code that complains of the client, it does not repeat the request.
		return endedBy("GOAWAY", code, code == codeNone)
	}
	return c.skip(h.length - 8)
}

func (c *Conn) windowFrame(h frameHeader) error {
	if h.length != 4 || h.stream != 0 && !c.known(h.stream) {
		return malformed("bad WINDOW_UPDATE")
	}
	b, err := c.take(4)
	if err == nil && binary.BigEndian.Uint32(b)&^(1<<31) == 0 {
		return malformed("WINDOW_UPDATE of 0")
	}
	return err
}
