// Package fetch does one HTTP/1.1 exchange with a site at a given address, within hard limits.
//
// It is the crawling thread's fetch of the paper's Fig. 2 and section VI, without any policy: it does not
// retry, redirect, resolve names, look at robots.txt or keep delays. Whoever calls it has been granted
// exactly one address (package polite), and exactly this one is connected to: it is checked against the
// private, local and otherwise special ranges here, at the last moment, so that no trick in the DNS
// leads the crawler into its own network.
//
// What is new against the paper, of 2007: TLS with the certificate's verdict recorded, content codings,
// limits on everything that grew a way to be abused since.
//
// # How an exchange goes
//
// Connections are our own, on Linux by the system calls that it takes and no others; request heads are written by fasthttp's codec, its
// client isn't used (it retries, sizes its buffers by the claimed length, and forgets the bytes as received). A page on a new
// connection takes 42 us of CPU, 54 with fasthttp's client and 84 with net/http (docs/BENCHMARKS.md). Request heads go
// out with the path byte for byte; they are joined from pieces that the codec wrote once (request.go). Everything read from the final status line on lands in one buffer that grows as
// bytes arrive: Response.Raw, what a WARC record holds. The head is normalized and parsed in one pass (head.go); the
// body's end is found by following its framing over the buffer; the payload is unchunked and decoded
// after the connection is closed, or laid aside.
//
// A request may say that the same host will be asked again soon (Request.KeepAlive). Then the connection is kept, unless
// anything about the reply leaves a doubt about where it ended, and the next request to the same scheme, host and address
// goes out on it. Before that it is looked at without waiting: one that has been closed, or on which something came that
// nobody asked for, is closed. If it ends all the same before the first byte of the reply, the request is sent once more on a
// new connection (RFC 9110, 9.2.2); that is the only thing ever sent twice.
//
// # Contract
//
// Do returns a response whenever a final head has come, whatever became of the body: Truncated says
// why a body is cut, Marks what was odd. Otherwise it returns an *Error with the stage and the kind of
// the fault, and Error.Ours tells those of this machine from those of the site. It never panics on what
// comes in, and never waits longer than Limits.Total (and 30 s for memory). A server that sends nothing, trickles, stalls,
// lies about its length or never ends its head, its chunks or its interim replies meets a limit of its
// own.
//
// Of Content-Lengths that differ the largest is waited for. Chunked framing wins over a length. A body
// that is called chunked, gzip, br, … and isn't is kept as it came. Unknown codings are left alone.
//
// Request.BodyLimit may say by the head that less is wanted of a body, or nothing, or that its beginning decides. Then the
// connection is closed, unless the body has come whole.
//
// # Replies made to be misread
//
// RFC 9112 asks a client to give up a connection when it can't be sure where a response ends. Here one is kept only when
// the body came whole with nothing behind it, by one length or one chunked coding, in a head without a fault, and when it is
// silent until the next request; so bytes behind a response, a response before its request, or framing that two readers see
// differently can at worst spoil the page of the URL that was asked for, never the next one's, and never another host's.
// Within that page the forms are read like this (desync_test.go has the bytes):
//
//	Content-Lengths that differ (6.3, 5)   the largest counts, MarkLengths; RFC 9112 would discard the page
//	Content-Length with chunked (6.3, 3)   chunked counts
//	a length that is no number             no length: the body ends with the connection, MarkLengths
//	bad or overflowing chunk size (7.1)    what came before is the body, MarkBadChunk; before the first there is none: MarkNotChunked, too
//	chunk extensions (7.1.1), trailers     skipped, within 4 KiB a line and HeaderBytes
//	a transfer coding that isn't known     no framing by it; MarkUnknownCoding
//	bare LF (2.2)                          a line end, MarkBareLF; as is LF after up to three CRs
//	bare CR, NUL, controls in a field      blanks, MarkRepaired; in a name: the line is dropped
//	folded lines (5.2), blank before ":"   joined, taken off, MarkRepaired
//	1xx replies (15.2 of RFC 9110)         skipped, 8 at most; 101 is an error
//	bytes behind the body                  left out, MarkExcess
//	no status line, HTTP/0.9               an error
//
// # Concurrency
//
// A Client is safe for concurrent use and owns no goroutines; none outlives a Do (a dial and a context's
// end may run one while it lasts, and it is waited for). One timer closes idle connections, and runs while there are any;
// Close closes them all. A Response and a Request belong to one goroutine at a time. br and zstd are decoded by at most
// GOMAXPROCS+1 goroutines at once, the others wait.
//
// # Memory
//
// Bytes held during one Do, W being bytes received so far:
//
//	waiting for the first byte     nothing, with TLS 4 KiB and some 40 of the library's; 16 KiB where connections aren't sockets
//	receiving                      min(max(16 KiB, 2 W), HeaderBytes+BodyBytes+1)
//	after it                       the former, + the payload if chunked (at most BodyBytes)
//	                               + the decoded body (at most 2 min(DecodedBytes, max(Ratio W, 256 KiB)))
//
// At most Limits.MemoryBytes, 16 MiB with the defaults. What all exchanges hold beyond FreeBufferBytes each,
// responses that wait to be reset included, keeps to Options.BufferBytes: memory.go says how, and what happens
// when it is used up. Besides there are 42 KiB per gzip or deflate body and windows of
// up to 16 MiB per br or zstd body being decoded, and what is kept for the next: an idle Response has at most 5 buffers of 16 KiB, the client's pool 32 MiB
// (BufferBytes/2 if that is less). So N Responses, idle or not, take at most 80 KiB N + BufferBytes + 32 MiB and what
// the garbage collector hasn't found yet, whatever the sites send. On top come the session cache (some 3 KiB an entry, at most 30: sessions with long chains or tickets aren't kept) and
// the verdict cache (some 100 bytes). Of the Options.IdleConns idle connections each takes a descriptor and 1 KiB, with TLS
// some 40; responses and their buffers don't belong to them, and no entry outlives its connection.
//
// The package reads and writes no files.
package fetch
