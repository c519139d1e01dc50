package fetch

import (
	"context"
	"net"
	"net/netip"
	"time"

	"drumbeat/internal/pace"
)

// Unlimited switches a limit of Limits off, where its comment allows that.
const Unlimited = -1

// Request is one GET to be sent. It is read by Do only and may be reused.
type Request struct {
	// Scheme is "http" or "https".
	Scheme string
	// Host is the host of the URL without a port: the Host line, SNI and the name that the
	// certificate must bear. IPv6 literals stand in brackets.
	Host string
	// Port is the effective port of the URL; 0 is the scheme's default. It is added to the Host line
	// when it is not the scheme's default.
	Port uint16
	// PathQuery goes into the request line byte for byte; "" is "/".
	PathQuery string
	// Addr is the granted address; exactly this one is connected to. Its port is the URL's port (0:
	// taken from Port); Options.MapPort is applied to it after the checks.
	Addr netip.AddrPort
	// UserAgent, From, Accept and AcceptLanguage are header values; "" is the value of Options.
	UserAgent, From, Accept, AcceptLanguage string
	// IfNoneMatch and IfModifiedSince make the request conditional; "" leaves them out.
	IfNoneMatch, IfModifiedSince string
	// BeforeWrite, if set, is called when the connection stands and right before the request is
	// written: that is when the server sees it, so delays between requests count from here. It is called
	// a second time if a kept connection turns out to be closed and the request goes out on a new one.
	BeforeWrite func()
	// KeepAlive says that the same host will be asked again at the same address within that time: if the
	// reply and Options.IdleConns allow it, the connection is kept for so long, or as long as the server
	// says if that is less. 0: the server is told to close it. Whatever it is, a connection that was
	// kept is used if there is one.
	KeepAlive time.Duration
	// BodyLimit, if set, says how much of a body is read. It is called when the final head has come, with no beginning, on the
	// goroutine of Do; resp has Status, Proto and the headers, and RawHead. It returns
	//   - n > 0: at most n bytes, as Limits.BodyBytes does (and never more than that); decoding is bounded in proportion;
	//   - 0: as Limits say;
	//   - NoBody: not a byte: a body that the head announces is left unread, the connection closed, the response marked
	//     TruncatedLength and MarkBodyRefused;
	//   - LookFirst: LookBytes, with their framing; then, if there is more, it is asked once more, with the beginning: what has
	//     come, without chunked framing, still content-encoded. NoBody means then that no more is read. Asking
	//     for LookFirst again means 0.
	BodyLimit func(resp *Response, beginning []byte) int64
	// Limits replaces the client's limits for this exchange (robots.txt has smaller ones); nil: the
	// client's. Zero fields are defaulted as in Options.
	Limits *Limits
}

// What Request.BodyLimit may return beside a number of bytes.
const (
	NoBody    = -1
	LookFirst = -2
	// LookBytes is how much is looked at: what the MIME Sniffing standard wants, 1,445 bytes, and some for framing.
	LookBytes = 2 << 10
)

// Limits bound one exchange. The zero of a field means the default in its comment; Unlimited (-1)
// switches it off unless the comment says that it can't be.
type Limits struct {
	// Connect bounds the TCP connect; default 10 s.
	Connect time.Duration
	// TLS bounds the handshake; default 10 s.
	TLS time.Duration
	// FirstByte bounds the time from the written request to the first byte of the reply; default 20 s.
	FirstByte time.Duration
	// Total bounds the exchange from the start of Do to the last byte; default 120 s. Cannot be
	// switched off.
	Total time.Duration
	// MinRate is the mean rate in bytes/s that a reply must keep from its first byte on, looked at
	// after Grace; default 256.
	MinRate int64
	// Grace is the time from the first byte during which MinRate isn't looked at; default 10 s. It
	// can't be switched off.
	Grace time.Duration
	// HeaderBytes bounds the head of the reply, and the trailers; default and maximum 64 KiB.
	HeaderBytes int
	// BodyBytes bounds the body as received, framing included; what exceeds it is left unread and
	// marked. Default 2 MiB. Cannot be switched off.
	BodyBytes int
	// DecodedBytes bounds the body after decompression; default 8 MiB. Cannot be switched off.
	DecodedBytes int
	// Ratio bounds decoded/received size, once more than RatioFloorBytes have been decoded; default 200.
	Ratio int
}

// RatioFloorBytes may be decoded whatever the ratio: small pages of blanks compress by a thousand.
const RatioFloorBytes = 256 << 10

// Options configure a Client. The zero value is usable: public addresses, ports 80 and 443.
type Options struct {
	// Limits are those of a request without its own.
	Limits Limits
	// UserAgent, From, Accept, AcceptLanguage are sent when the request has none. Empty ones aren't
	// sent; an empty Accept is "text/html,application/xhtml+xml,*/*;q=0.8".
	UserAgent, From, Accept, AcceptLanguage string
	// AcceptEncoding is offered to the server; default "gzip" (kept as received in the WARC, and the
	// cheapest to decode here); "identity" offers none. Whatever comes back is decoded all the same.
	AcceptEncoding string
	// AllowNets names ranges that may be connected to although AllowedAddr refuses them otherwise.
	AllowNets []netip.Prefix
	// OwnAddrs lists the addresses of this machine, which aren't connected to unless AllowNets names them. nil: those of its
	// interfaces, or none if Dial is set.
	OwnAddrs func() ([]netip.Addr, error)
	// Ports may be connected to besides 80 and 443.
	Ports []uint16
	// MapPort translates the port to be connected to, after the port check (a synthetic web listens
	// on 18080 instead of 80). nil: unchanged. The Host line keeps the URL's port.
	MapPort func(port uint16) uint16
	// Dial replaces the TCP dialler (in-process tests with net.Pipe). It gets the address after
	// checks and mapping, and must heed ctx. nil: a TCP connection.
	Dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	// BufferBytes bounds what the buffers of all exchanges hold together, those of Responses that haven't been reset
	// included, beyond FreeBufferBytes for each; at least Limits.MemoryBytes. An exchange that finds it used up waits,
	// at most 30 s, with its clocks standing still; then it fails with KindResources. 0: no common bound.
	BufferBytes int64
	// IdleConns bounds the connections kept for a next request (Request.KeepAlive), each a descriptor and,
	// with TLS, some 40 KiB. When all are taken the one whose time is over first is closed; all are when
	// a new connection finds no descriptor. Of a host one is kept. Default 1024; can't be switched off.
	IdleConns int
	// Limiter bounds what all exchanges receive together: every byte that comes on a connection from its standing on, TLS's own
	// included, those of TCP and IP not. A reader whose turn hasn't come sleeps before it reads; that time counts in none of
	// the Limits and in no duration of the Response, but as Throttled. nil: no bound, and no cost.
	Limiter *pace.Bandwidth
	// TLS settings.
	TLS TLSOptions
}

// Response is what one exchange brought. It is reusable: Do resets it first. All slices point into
// buffers that it owns and are valid until the next Reset or Do. Not safe for concurrent use.
type Response struct {
	// Status is the status code, 100..999; 0 when there is no response.
	Status int
	// Proto is "HTTP/1.1", "HTTP/1.0" or what else the status line claimed, at most 8 bytes.
	Proto string

	// RequestHead is the request as sent.
	RequestHead []byte
	// Raw is the reply as received from the status line on (interim 1xx replies left out): RawHead
	// with its empty line, then RawBody, chunked framing included.
	Raw, RawHead, RawBody []byte
	// PayloadRaw is RawBody without chunked framing, still content-encoded.
	PayloadRaw []byte
	// Body is PayloadRaw decoded by its Content-Encoding.
	Body []byte

	// Truncated says why RawBody isn't the whole body that the server meant to send.
	Truncated Reason
	// Marks are the oddities met.
	Marks Marks
	// Encoding is the coding that was decoded ("gzip", "br", "gzip, gzip", …), "" for none.
	Encoding string

	// TLSVerdict is "" for http, else what verification found; see the Verdict constants.
	TLSVerdict string
	// TLSVersion is tls.VersionTLS13 and so on; 0 for http. Resumed: the handshake was an abbreviated
	// one. If the connection was kept from an exchange before, all three are those of its handshake.
	TLSVersion uint16
	Resumed    bool
	// Reused: the connection was kept from an exchange before; Connect and TLS are 0.
	Reused bool
	// Kept: the connection waits for the next request with this host and address (Request.KeepAlive).
	Kept bool
	// Remote is the address that the connection was made to (after MapPort).
	Remote netip.AddrPort

	// Start is when Do began. Connect, TLS and FirstByte are the durations of these stages, FirstByte
	// from the end of the request's write; Total is the whole exchange, decoding and Throttled excluded. Waited is the part of Total that
	// passed waiting for memory, which isn't the site's fault.
	Start                                  time.Time
	Connect, TLS, FirstByte, Total, Waited time.Duration
	// BytesRead and BytesWritten count application bytes, interim replies included, TLS framing not.
	BytesRead, BytesWritten int64
	// Throttled is how long the exchange was held back by Options.Limiter, and Received the bytes that this counted; both are 0
	// without one.
	Throttled time.Duration
	Received  int64

	buf responseBuffers
}

// Reason says why a body is cut. Its String is the value of WARC-Truncated.
type Reason uint8

const (
	// NotTruncated is a whole body, as far as can be known.
	NotTruncated Reason = iota
	// TruncatedLength: Limits.BodyBytes was reached.
	TruncatedLength
	// TruncatedTime: Limits.Total or Limits.MinRate cut it.
	TruncatedTime
	// TruncatedDisconnect: the connection ended before the body did.
	TruncatedDisconnect
	// TruncatedUnspecified: the framing broke; what follows can't be told apart.
	TruncatedUnspecified
)

// Marks is a set of oddities of one response.
type Marks uint32

const (
	// MarkRepaired: lines of the head were dropped or normalized before parsing.
	MarkRepaired Marks = 1 << iota
	// MarkBareLF: some line of the head ended in LF alone.
	MarkBareLF
	// MarkHeadCut: the connection ended inside the head.
	MarkHeadCut
	// MarkLengths: Content-Length lines that differ, or can't be read.
	MarkLengths
	// MarkEarly: the request couldn't be written in full, but a reply had come already.
	MarkEarly
	// MarkExcess: bytes followed the end of the body.
	MarkExcess
	// MarkCloseDelimited: the body had neither length nor chunks; its end is the connection's.
	MarkCloseDelimited
	// MarkNotChunked: chunked was claimed, but no chunk has a size: nothing is known of the body, and Body is empty. MarkBadChunk is set,
	// too.
	MarkNotChunked
	// MarkBadChunk: the chunked framing broke off in the middle.
	MarkBadChunk
	// MarkDecodeError: decompression failed; Body holds what had been decoded before.
	MarkDecodeError
	// MarkNotEncoded: a coding was claimed, but the payload isn't in it; Body is the payload.
	MarkNotEncoded
	// MarkUnknownCoding: a Content-Encoding nobody knows, or too many in a row; Body is the payload.
	MarkUnknownCoding
	// MarkDecodedLimit: Body was cut at Limits.DecodedBytes.
	MarkDecodedLimit
	// MarkRatioLimit: Body was cut at Limits.Ratio.
	MarkRatioLimit
	// MarkInterim: interim 1xx replies were skipped.
	MarkInterim
	// MarkSlow: time ran out, but bytes kept coming: the network worked, the server was slow.
	MarkSlow
	// MarkBodyRefused: the body wasn't read, or only its beginning, because Request.BodyLimit said so.
	MarkBodyRefused

	markType Marks = 1 << 31 // while a head is read: a Content-Type has been seen
)
