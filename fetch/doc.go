// Package fetch makes one HTTP exchange with a site at a given address, within hard limits.
//
// It is the fetch of a crawling thread in the paper's Fig. 2 and sections III.B and VII.A, without any
// policy: it does not retry, follow redirects, resolve names, read robots.txt or keep delays. The caller
// holds a grant for exactly one address (package polite), and Do connects to no other. Do checks the address
// against private, local and other special ranges just before it connects, so forged DNS answers cannot lead
// the crawler into its own network.
//
// Beyond the paper, which is from 2007, the package has TLS with a recorded certificate verdict, content
// codings, and limits on everything that a site could abuse since.
//
// # The package's own client
//
// On Linux the package opens its sockets with the fewest system calls. It uses fasthttp's codec to encode
// request heads, but not fasthttp's client, which retries, sizes buffers by the claimed length and discards
// the bytes as received. A page on a new connection takes 42 µs of CPU, against 54 with fasthttp's client
// and 84 with net/http (docs/how-it-works/benchmarks.md).
//
// # Course of an exchange
//
// The request head carries the path byte for byte. It is assembled from pieces that the codec encoded once
// (request.go); SetAcceptEncoding replaces them at any time. All bytes from the final status line on go into
// one buffer that grows as they arrive: Response.Raw, the content of a WARC record. head.go normalizes and
// parses the head in one pass; package httphead, which readers of records share, finds its end and its
// fields. The body reader follows the framing through the buffer to find the end of the body. The payload is
// unchunked and decoded after the connection has been closed or returned to the idle pool.
//
// Request.KeepAlive says that another request to the same host will follow soon. The connection is then
// kept, unless the reply leaves any doubt about its end, and the next request to the same scheme, host and
// address uses it. Before reuse, Do polls the connection without waiting and closes it if it has ended or
// holds unsolicited bytes. If the connection ends before the first byte of the reply, Do sends the request
// once more on a new connection (RFC 9110, 9.2.2). Nothing else is ever sent twice, except as below.
//
// # Unreadable certificates
//
// If crypto/tls cannot use a server's certificate, Do connects once more and makes a handshake that disregards it
// (standin.go); the verdict is VerdictInvalid. With TLSOptions.Require or Request.Verified the first failure
// stands.
//
// # Proxies
//
// With Request.Proxy, Do connects to a proxy and asks it for a tunnel to the granted address (proxy.go), by
// CONNECT or SOCKS5. All else is as without: the checks of the address, TLS, HTTP/2, kept connections, and
// Response.Remote. The proxy's failures have KindProxy.
//
// # HTTP/2
//
// With Options.HTTP2, Do offers HTTP/2 to servers of https by ALPN. On such a connection package h2
// translates one request at a time: it presents the reply as an HTTP/1.1 head and the bytes of the body, so
// all the above applies, and Response.Raw has one form. Response.Proto is ProtoHTTP2. The end of the stream
// frames the body; a Content-Length only says where to cut. RFC 9113 (8.1.1) forbids clients to accept
// malformed replies, so those are errors, with KindBadHead. FirstByte limits the time to the end of the
// head, because a part of a compressed head has no meaning.
//
// An idle connection may receive frames that do no harm, such as PING. It is kept after every reply that came
// whole. A request is sent once more, on a new connection, as after the end of an idle connection, and if the
// server says that it has not processed it: by REFUSED_STREAM, or by GOAWAY without an error and with a lower
// stream. After HTTP_1_1_REQUIRED it is sent once more by HTTP/1.1. GOAWAY with an error, such as
// ENHANCE_YOUR_CALM, is a complaint about the client and ends the exchange.
//
// # Contract
//
// Do returns a response whenever it has received a final head. Truncated then says why the body is
// incomplete, and Marks lists oddities. Otherwise Do returns an *Error with the stage and the kind of the
// fault; Error.Ours separates faults of this machine from faults of the site. Input from the network never
// makes it panic. It takes at most Limits.Total, plus up to 30 s of waiting for memory and the time to
// spool a body. Separate limits stop a server that sends nothing, trickles, stalls, lies about its length, or
// never ends its head, its chunks or its interim replies.
//
// If Content-Lengths differ, Do waits for the largest. Chunked framing takes precedence over a length. A
// body that is not in its declared coding (chunked, gzip, br, …) is kept as received, as are bodies in
// unknown codings.
//
// Request.BodyLimit can inspect the head and then shorten or refuse the body, or ask to see its beginning
// first. The connection is then closed unless the whole body has arrived.
//
// Request.Spool takes a body beyond Limits.HeldBytes, byte for byte as received. RAM keeps its beginning, and
// the payload and the decoded body are of this beginning (spool.go). Limits.Total does not apply to the rest
// of the body; another limit on time does.
//
// # Ambiguous framing
//
// RFC 9112 asks a client to close a connection when it is unsure where a response ends. Do keeps a connection
// only if the body arrived whole with no bytes after it, was framed by exactly one length or one chunked
// coding, and had a faultless head, and if the connection then stays silent until the next request. So bytes
// after a response, a response before its request, or framing that two readers interpret differently can at
// worst spoil the page of the requested URL, never the page of the next request or of another host. Within a
// page Do interprets such forms as follows (sections of RFC 9112; desync_test.go has the bytes):
//
//	Content-Lengths that differ (6.3, 5)   the largest counts, FlawLengths; RFC 9112 would discard the page
//	Content-Length with chunked (6.3, 3)   chunked counts
//	a length that is not a number          no length: the body ends with the connection, FlawLengths
//	bad or overflowing chunk size (7.1)    the body ends before it, FlawBadChunk;
//	                                       without a chunk before it there is no body, also FlawNotChunked
//	chunk extensions (7.1.1), trailers     skipped, up to 4 KiB a line and HeaderBytes
//	an unknown transfer coding             gives no framing; FlawUnknownCoding
//	bare LF (2.2)                          a line end, FlawBareLF; so is LF after up to three CRs
//	bare CR, NUL, controls in a value      replaced by blanks, FlawRepaired; in a name the line is dropped
//	folded lines (5.2), blank before ":"   joined, removed, FlawRepaired
//	a head of more than 5000 fields        an error, KindHeadTooLarge: what is left out might frame the body
//	a head that is cut off (8)             what its whole lines say, no body, FlawHeadCut; its last line, if
//	                                       it lacks its end, is dropped
//	1xx replies (15.2 of RFC 9110)         skipped, at most 8; 101 is an error
//	bytes after the body                   left out, FlawExcess
//	no status line, HTTP/0.9               an error
//
// # Concurrency
//
// A Client is safe for concurrent use and owns no goroutines. A dial or the end of a context may run one
// during a Do, which waits for it. One timer closes idle connections and runs only while there are any;
// Close closes them all. A Response and a Request belong to one goroutine at a time. At most GOMAXPROCS+1
// goroutines decode br or zstd at once; the others wait.
//
// # Memory
//
// Bytes held during one Do, where W is the number of bytes received so far:
//
//	waiting for the first byte   none; with TLS 4 KiB and about 40 KiB of the library's;
//	                             16 KiB on connections that are not sockets
//	receiving                    min(max(16 KiB, 2 W), HeaderBytes+HeldBytes+1)
//	receiving into a spool       HeaderBytes + 512 KiB
//	a head                       HeaderBytes + 60 KB for 5000 fields
//	afterwards                   the above + the payload if chunked (at most HeldBytes)
//	                             + the decoded body (at most 2 min(DecodedBytes, max(Ratio W, 256 KiB)))
//
// The sum is at most Limits.MemoryBytes, 16 MiB with the defaults. Options.BufferBytes bounds what all
// exchanges hold together beyond FreeBufferBytes each, including responses not yet reset; memory.go
// describes how, and what happens when the budget is exhausted. Outside this budget are 42 KiB for each gzip
// or deflate body being decoded, a window of up to 16 MiB for each br or zstd body being decoded, up to 5
// buffers of 16 KiB in each idle Response, and 32 MiB in the client's pool (BufferBytes/2 if that is less).
// N Responses, idle or not, thus take at most 80 KiB N + BufferBytes + 32 MiB, plus garbage not yet
// collected, whatever the sites send.
//
// The session cache takes about 3 KiB an entry, at most 30 KiB, because sessions with long chains or tickets
// are not cached. The verdict cache takes about 100 bytes an entry. Each of the Options.IdleConns idle
// connections takes a descriptor and 1 KiB, or about 40 KiB with TLS, and with HTTP/2 up to 10 KiB more; it
// holds no response and no buffer. A head by HTTP/2 takes up to 2 HeaderBytes more while it is received.
//
// The package itself reads and writes no files.
package fetch
