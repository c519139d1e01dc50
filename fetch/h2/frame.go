package h2

import (
	"encoding/binary"
	"strconv"
)

// Frame types (RFC 9113, 6).
const (
	frameData         = 0
	frameHeaders      = 1
	framePriority     = 2
	frameReset        = 3
	frameSettings     = 4
	framePush         = 5
	framePing         = 6
	frameGoAway       = 7
	frameWindow       = 8
	frameContinuation = 9
)

// Flags of frames. ACK has the value of END_STREAM.
const (
	flagEndStream  = 1
	flagAck        = 1
	flagEndHeaders = 4
	flagPadded     = 8
	flagPriority   = 32
)

// Settings and error codes that the package uses (6.5.2, 7).
const (
	settingPush       = 2
	settingStreams    = 3
	settingWindow     = 4
	settingHeaderList = 6

	codeNone         = 0
	codeRefused      = 7
	codeHTTP1        = 13
	frameHeaderBytes = 9
	// maxFrame is the initial and least value of SETTINGS_MAX_FRAME_SIZE, which the conn does not raise.
	maxFrame = 16 << 10
	// firstWindow is the window of a connection, and of a stream before the server knows our settings.
	firstWindow = 65535
	// connWindow is added to the connection's window at its start, and again when half of it is used. Only
	// the stream's window limits the server.
	connWindow = 1 << 30
)

// preface begins every connection (3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// frameHeader is the header of a frame (4.1).
type frameHeader struct {
	length int
	kind   byte
	flags  byte
	stream uint32
}

func parseFrameHeader(b *[frameHeaderBytes]byte) frameHeader {
	return frameHeader{length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]), kind: b[3], flags: b[4],
		stream: binary.BigEndian.Uint32(b[5:]) &^ (1 << 31)}
}

func (h frameHeader) has(flag byte) bool { return h.flags&flag != 0 }

func appendFrame(dst []byte, length int, kind, flags byte, stream uint32) []byte {
	dst = append(dst, byte(length>>16), byte(length>>8), byte(length), kind, flags)
	return binary.BigEndian.AppendUint32(dst, stream)
}

func appendSetting(dst []byte, id uint16, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(dst, id), value)
}

func appendWindow(dst []byte, stream, more uint32) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(dst, 4, frameWindow, 0, stream), more)
}

// Kind is the kind of an Error.
type Kind uint8

const (
	// Malformed: the server broke the protocol.
	Malformed Kind = iota
	// HeadTooLarge: a header block or a head exceeds Settings.HeaderBytes.
	HeadTooLarge
	// Refused: the server says that it has not processed the request, which may thus be sent again.
	Refused
	// NeedsHTTP1: the server wants the request by HTTP/1.1.
	NeedsHTTP1
	// Reset: the server ended the stream or the connection with a code.
	Reset
)

// Error is an error of the protocol. Errors of the connection below are returned as they are, except that the
// end of the connection is io.ErrUnexpectedEOF.
type Error struct {
	Kind Kind
	// Code is the code of a RST_STREAM or GOAWAY frame (RFC 9113, 7).
	Code uint32
	Text string
}

// Error returns "HTTP/2: <text>", with the code if there is one.
func (e *Error) Error() string {
	if e.Code != 0 {
		return "HTTP/2: " + e.Text + ", code " + strconv.FormatUint(uint64(e.Code), 10)
	}
	return "HTTP/2: " + e.Text
}

func malformed(text string) *Error { return &Error{Kind: Malformed, Text: text} }

// endedBy returns the error of a RST_STREAM or GOAWAY frame.
func endedBy(frame string, code uint32, unprocessed bool) *Error {
	e := &Error{Kind: Reset, Code: code, Text: frame}
	switch {
	case code == codeHTTP1:
		e.Kind = NeedsHTTP1
	case unprocessed:
		e.Kind = Refused
	}
	return e
}
