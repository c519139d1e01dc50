// Package h2 is the client side of an HTTP/2 connection that carries one request at a time.
//
// A Conn translates: it sends an HTTP/1.1 request head as the HEADERS of a new stream, and its Read returns
// the reply as an HTTP/1.1 head and the bytes of the body. So package fetch reads, limits, spools, decodes
// and stores replies of both protocols with the same code, and every reader of WARC files can read the
// records. The paper, from 2007, has no counterpart.
//
// The package parses frames itself and takes only the header compression (RFC 7541) from golang.org/x/net.
// A Framer would hold a buffer of 16 KiB for each idle connection, copy each body once more, and deliver no
// byte of a DATA frame before its last one. The Transport would run goroutines, and open streams and send
// pings that the crawler's limits do not know of.
//
// # The translation
//
// The names and values of a request's lines go out as they are, the names in lower case. Host becomes
// :authority; Connection is left out. The fields of the reply appear in order, as received: "HTTP/1.1 200
// OK", then a line for each field. Interim replies appear as heads of their own. Trailers are checked and
// dropped. Connection-specific fields (RFC 9113, 8.2.2), such as the Upgrade line of an Apache behind
// nginx, are left out and reported by Dropped. The RFC calls such replies malformed, but the frames still
// tell their end. Any other malformed reply (8.1.1) is an error: a name in upper case or no token, CR, LF
// or NUL in a value, a missing, repeated, late or unknown pseudo-header, a head after the head.
//
// The conn makes no use of priorities, of a table for the requests' fields, or of Huffman coding in requests:
// they would save some 100 bytes a request. It forbids pushed replies; one that comes is an error.
//
// # Contract
//
// The caller calls Request, then Read to the end of the reply, until Ended reports true or an error occurs.
// If Reusable then reports true, it may call Rest, keep the connection, and call Request again once Quiet
// reports true. After an error, or when the caller does not want the rest of a body, it closes the
// connection below. Bytes from the server never make the package panic.
//
// The conn queues its own frames (settings, acknowledgements, windows). They go out with the next request or
// when the caller calls Flush, which it must do before each read that could wait for the server.
//
// # Hostile servers
//
// Settings.HeaderBytes bounds a header block as received and a head as decoded; the table of the
// compression has at most 4 KiB. The server may send Settings.Window bytes more than Read has returned, no
// more; a frame has at most 16 KiB. All that brings the reply no further, such as SETTINGS, PING, padding,
// empty frames and frame headers, may take 64 KiB and eight times the bytes of the reply in each exchange.
// Time is the caller's to limit, below this package.
//
// # Concurrency and memory
//
// A Conn belongs to one goroutine at a time and owns none. It takes 2 KiB, up to 8 KiB more for the table and
// for buffers that it keeps, and during an exchange up to twice Settings.HeaderBytes. It holds no bytes of
// bodies. The package reads and writes no files.
package h2
