package fetch

import (
	"context"
	"net"
	"net/netip"
	"time"

	"drumbeat/internal/pace"
	"drumbeat/internal/ports"
)

// Unlimited switches off a limit of Limits where its comment allows that.
const Unlimited = -1

// Request is one GET request. Do only reads it, so it can be reused.
type Request struct {
	// Scheme is "http" or "https".
	Scheme string
	// Host is the host of the URL without the port. It is the Host line, the SNI and the name that the
	// certificate must contain. IPv6 literals are in brackets.
	Host string
	// Port is the port of the URL; 0 is the scheme's default. The Host line includes it if it is not the
	// default.
	Port uint16
	// PathQuery goes into the request line byte for byte; "" means "/".
	PathQuery string
	// Addr is the granted address, the only one that Do connects to. Its port is the port of the URL, or 0
	// for Port. Options.MapPort applies to it after the checks.
	Addr netip.AddrPort
	// UserAgent, From, Accept and AcceptLanguage are header values; "" means the value of Options.
	UserAgent, From, Accept, AcceptLanguage string
	// AcceptEncoding replaces the client's Accept-Encoding; "" does not.
	AcceptEncoding string
	// Verified refuses the exchange with KindCertificate unless the server's certificate is good, whatever
	// TLSOptions.Require says. It has no effect on http.
	Verified bool
	// Fields are added to the head, after all others. Their names must not be those of other lines.
	Fields []Field
	// IfNoneMatch and IfModifiedSince make the request conditional; "" omits them.
	IfNoneMatch, IfModifiedSince string
	// Connection numbers the connections to a host, if the caller opens several at once. For each number, one
	// is left open for the next request.
	Connection uint8
	// Proxy connects to Addr in place of this machine; nil: none.
	Proxy *Proxy
	// BeforeWrite, if set, is called on an established connection just before the request is written. The
	// server sees the request at this time, so delays between requests count from here. It is called again
	// if a kept connection turns out to be closed and the request goes out on a new one.
	BeforeWrite func()
	// KeepAlive says that another request to the same host and address will follow within this time. If the
	// reply and Options.IdleConns allow it, the connection is kept for this time, or for the server's
	// keep-alive time if that is shorter. 0 asks the server to close the connection. An idle connection is
	// used whatever KeepAlive is.
	KeepAlive time.Duration
	// BodyLimit, if set, decides how much of the body to read. Do calls it on its own goroutine when the
	// final head has arrived, with a nil beginning; resp has Status, Proto, the headers and RawHead. It
	// returns
	//   - n > 0: read at most n bytes, and never more than Limits.BodyBytes. The decoded size is bounded in
	//     proportion.
	//   - 0: apply Limits.
	//   - NoBody: do not read the body that the head announces. The connection is closed and the response
	//     marked TruncatedLength and FlawBodyRefused.
	//   - LookFirst: read LookBytes, framing included. If there is more, BodyLimit is called again with the
	//     beginning: the bytes received, unchunked but still content-encoded. It then returns NoBody to read
	//     no more; LookFirst then means 0.
	BodyLimit func(resp *Response, beginning []byte) int64
	// Spool, if set, is called on the goroutine of Do when a body turns out to exceed Limits.HeldBytes. It
	// returns a file for the whole body. length is the length of the body if it is known, as far as the
	// limits allow it, and -1 otherwise. After an error of Spool or of a Write, Do fails with KindResources.
	// nil: HeldBytes bounds the body.
	Spool func(length int64) (Spill, error)
	// DecodeLater leaves the decoding of the body to Response.Decode.
	DecodeLater bool
	// Limits replaces the client's limits for this exchange, for instance smaller ones for robots.txt; nil:
	// the client's. Zero fields have the same defaults as in Options.
	Limits *Limits
}

// Values that Request.BodyLimit may return besides a number of bytes.
const (
	NoBody    = -1
	LookFirst = -2
	// LookBytes is the size of the beginning: the 1,445 bytes of the MIME Sniffing standard and room for
	// framing.
	LookBytes = 2 << 10
)

// Limits bound one exchange. A zero field means the default in its comment. Unlimited (-1) switches the
// limit off unless the comment says otherwise.
type Limits struct {
	// Connect bounds the TCP connect; default 10 s.
	Connect time.Duration
	// TLS bounds the handshake; default 10 s.
	TLS time.Duration
	// FirstByte bounds the time from the end of the write to the first byte of the reply; default 20 s.
	FirstByte time.Duration
	// Total bounds the exchange from the start of Do to the last byte; default 120 s. It cannot be switched
	// off.
	Total time.Duration
	// MinRate is the least mean rate of a reply in bytes/s, from its first byte on, enforced after Grace;
	// default 256.
	MinRate int64
	// Grace is the time after the first byte during which MinRate is not enforced; default 10 s. It cannot
	// be switched off.
	Grace time.Duration
	// HeaderBytes bounds the head of the reply and, separately, its trailers; default and maximum 64 KiB.
	HeaderBytes int
	// BodyBytes bounds the body as received, framing included. Do leaves the rest unread and marks the
	// response. Default 2 MiB. It cannot be switched off.
	BodyBytes int
	// HeldBytes bounds the part of BodyBytes that RAM may hold; larger bodies go to Request.Spool. Total
	// does not apply to the rest of such a body, but each further SpoolStep must arrive within
	// SpoolStepTime. Default and maximum BodyBytes.
	HeldBytes int
	// DecodedBytes bounds the body after decompression; default 8 MiB. It cannot be switched off.
	DecodedBytes int
	// Ratio bounds the decoded size divided by the received size, once RatioFloorBytes are decoded; default
	// 200.
	Ratio int
}

// RatioFloorBytes may be decoded whatever the ratio: a small page of blanks compresses a thousandfold.
const RatioFloorBytes = 256 << 10

// Options configure a Client. The zero value allows public addresses and ports 80 and 443.
type Options struct {
	// Limits apply to requests without limits of their own.
	Limits Limits
	// UserAgent, From, Accept and AcceptLanguage are sent if the request does not set them. Empty values are
	// not sent, except that an empty Accept means "text/html,application/xhtml+xml,*/*;q=0.8".
	UserAgent, From, Accept, AcceptLanguage string
	// AcceptEncoding is sent to the server, as ParseCodings returns it, until SetAcceptEncoding replaces it. ""
	// means "gzip", the cheapest coding to decode here. Replies in codings that were not asked for are decoded
	// too.
	AcceptEncoding string
	// AllowNets lists networks that Do may connect to although AllowedAddr would refuse them.
	AllowNets []netip.Prefix
	// OwnNets lists the networks of this machine's interfaces. Do connects to addresses in them only if
	// AllowNets contains them. It is called at most once a minute. nil: asks the kernel, or none if Dial is set.
	OwnNets func() ([]netip.Prefix, error)
	// NAT64 are prefixes of translators (RFC 6052) besides 64:ff9b::/96. The IPv4 address in an address of
	// theirs alone decides whether Do may connect to it.
	NAT64 []netip.Prefix
	// Ports are allowed besides 80 and 443.
	Ports []ports.Range
	// MapPort translates the port to connect to, after the port check, for instance to the port 18080 of a
	// synthetic web. nil: no change. The Host line keeps the URL's port.
	MapPort func(port uint16) uint16
	// Dial replaces the TCP dialler, for in-process tests with net.Pipe. It receives the address after
	// checks and mapping and must observe ctx. nil: TCP.
	Dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	// BufferBytes bounds the buffers of all exchanges together, beyond FreeBufferBytes each, including
	// Responses not yet reset. It must be at least Limits.MemoryBytes. When it is exhausted, an exchange
	// waits up to 30 s with its time limits suspended, then fails with KindResources. 0: no bound.
	BufferBytes int64
	// IdleConns bounds the idle connections (Request.KeepAlive), one for each host. Each takes a descriptor
	// and, with TLS, about 40 KiB. When the pool is full, the connection that would expire first is closed;
	// when a new connection gets no descriptor, all are. Default 1024; it cannot be switched off.
	IdleConns int
	// Limiter bounds the bandwidth of all exchanges together. It counts every byte received on a connection,
	// including TLS overhead but not that of TCP and IP. A reader sleeps until the limiter lets it read;
	// that time counts as Throttled, not towards any of the Limits or durations. nil: no bound and no cost.
	Limiter *pace.Bandwidth
	// TLS settings.
	TLS TLSOptions
	// HTTP2 offers HTTP/2 to servers of https. Do speaks it with those that choose it.
	HTTP2 bool
}

// Response is the result of one exchange. It is reusable: Do resets it first. All slices point into buffers
// that it owns and are valid until the next Reset or Do. It is not safe for concurrent use.
type Response struct {
	// Status is the status code, 100..999; 0 if there is no response.
	Status int
	// Proto is "HTTP/1.1", "HTTP/1.0" or what the status line claims, at most 8 bytes; ProtoHTTP2 for a reply by
	// HTTP/2, whatever its head in RawHead says.
	Proto string

	// RequestHead is the request as sent, but with Redacted for the values of secret Fields; for HTTP/2 an equal
	// request of HTTP/1.1.
	RequestHead []byte
	// Raw is the reply as received from the status line on, without interim 1xx replies: RawHead with its
	// empty line, then RawBody, chunked framing included. For HTTP/2 it is an equal reply of HTTP/1.1: package
	// h2 describes the head; RawBody has no framing.
	Raw, RawHead, RawBody []byte
	// PayloadRaw is RawBody without chunked framing, still content-encoded.
	PayloadRaw []byte
	// Body is PayloadRaw decoded by its Content-Encoding; nil before Decode if Request.DecodeLater was set.
	Body []byte

	// Spill holds the whole body as received if it went to a spool, and SpoolBytes is its length. Raw,
	// RawBody, PayloadRaw and Body then are of its first SpoolBegin bytes. Reset releases it.
	Spill      Spill
	SpoolBytes int64

	// Truncated says why RawBody is not the whole body.
	Truncated Reason
	// Flaws are the oddities of the reply.
	Flaws Flaws
	// Encoding is the coding that was decoded ("gzip", "br", "gzip, gzip", …); "" for none.
	Encoding string

	// TLSVerdict is the result of certificate verification, one of the Verdict constants; "" for http.
	TLSVerdict string
	// TLSVersion is tls.VersionTLS13 and so on, and CipherSuite a number of the IANA registry; 0 for http. Resumed
	// says that the handshake resumed a session. On a kept connection, the fields about TLS are those of its
	// handshake.
	TLSVersion  uint16
	CipherSuite uint16
	Resumed     bool
	// Reused says that the connection was kept from an earlier exchange; Connect and TLS are 0.
	Reused bool
	// Kept says that the connection waits for the next request to this host and address (Request.KeepAlive).
	Kept bool
	// Remote is the address of the connection, after MapPort.
	Remote netip.AddrPort

	// Start is when Do began. Connect, TLS and FirstByte are the durations of these stages; FirstByte counts
	// from the end of the write. Total is the duration of the exchange without decoding and Throttled.
	// Waited is the part of Total spent waiting for memory, which is not the site's fault.
	Start                                  time.Time
	Connect, TLS, FirstByte, Total, Waited time.Duration
	// BytesRead and BytesWritten count application bytes: interim replies included, TLS framing excluded.
	BytesRead, BytesWritten int64
	// Throttled is the time for which Options.Limiter delayed the exchange; Received is the number of bytes
	// it counted. Without a limiter both are 0.
	Throttled time.Duration
	Received  int64

	buf responseBuffers
}

// Reason says why a body is incomplete. Its String is the value of WARC-Truncated.
type Reason uint8

const (
	// NotTruncated: the body is whole as far as the framing tells.
	NotTruncated Reason = iota
	// TruncatedLength: Limits.BodyBytes was reached.
	TruncatedLength
	// TruncatedTime: Limits.Total or Limits.MinRate ended it.
	TruncatedTime
	// TruncatedDisconnect: the connection ended before the body did.
	TruncatedDisconnect
	// TruncatedUnspecified: the framing is invalid, so the end is unknown.
	TruncatedUnspecified
)

// Flaws is a set of oddities of one response.
type Flaws uint32

const (
	// FlawRepaired: header lines were dropped or normalized before parsing.
	FlawRepaired Flaws = 1 << iota
	// FlawBareLF: a line of the head ended in LF alone.
	FlawBareLF
	// FlawHeadCut: the connection ended inside the head.
	FlawHeadCut
	// FlawLengths: Content-Lengths differ or are not numbers.
	FlawLengths
	// FlawEarly: writing the request failed, but a reply had already arrived.
	FlawEarly
	// FlawExcess: bytes followed the end of the body.
	FlawExcess
	// FlawCloseDelimited: the body had neither a length nor chunks; it ends with the connection.
	FlawCloseDelimited
	// FlawNotChunked: the head claims chunked, but the body has no chunk size, so its extent is unknown and
	// Body is empty. FlawBadChunk is also set.
	FlawNotChunked
	// FlawBadChunk: the chunked framing is invalid at some point.
	FlawBadChunk
	// FlawDecodeError: decompression failed; Body holds what was decoded before.
	FlawDecodeError
	// FlawNotEncoded: the payload is not in the declared coding; Body is the payload.
	FlawNotEncoded
	// FlawUnknownCoding: a coding is unknown, or there are too many codings; Body is the payload.
	FlawUnknownCoding
	// FlawDecodedLimit: Body was cut at Limits.DecodedBytes.
	FlawDecodedLimit
	// FlawRatioLimit: Body was cut at Limits.Ratio.
	FlawRatioLimit
	// FlawInterim: interim 1xx replies were skipped.
	FlawInterim
	// FlawSlow: time ran out while bytes kept arriving: the network works, the server is slow.
	FlawSlow
	// FlawBodyRefused: Request.BodyLimit refused the body, or all but its beginning.
	FlawBodyRefused
)
