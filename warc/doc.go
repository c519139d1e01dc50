// Package warc is the page store: it writes what was fetched as WARC/1.1 files with a CDXJ index beside
// each, and reads them back. The paper stored its pages without saying how; ISO 28500:2017 (WARC 1.1) is
// what every tool reads.
//
// # A capture
//
// One fetch is an Exchange. Encoder.Prepare makes of it three records, each a gzip member of its own:
// request, response, and metadata if there is any; the first and third name the response in
// WARC-Concurrent-To. Bytes of head and body are stored as they came over the wire, chunk framing included.
// A body that is compressed already isn't compressed again: its bytes stand in stored deflate blocks behind
// the packed heads (5 bytes for each 64 KB); see headcode.go for how heads are packed. Values from outside can't forge header lines: control
// characters in them are percent-encoded in URLs and become spaces elsewhere.
//
// Prepare does the work (digests, compression) outside of any lock, into memory that its caller owns;
// Append copies the result into a buffer. So the step in which a URL becomes "fetched" costs a copy.
//
// # Files
//
// PREFIX-YYYYMMDDhhmmssmmm-SERIAL-HOST.warc.gz and .cdxj in <output directory>/warc, with ".open" behind
// until a durable manifest covers them whole; see package outfile for what survives a crash: each capture
// that the manifest covers, once. A file begins with a warcinfo record and is closed when the next capture
// would make it larger than FileBytes (a capture larger than that has a file alone), or its index larger
// than IndexBytes. The index has a line per response, sorted in final files, in order of arrival in open
// ones. Formats: docs/formats/warc.md.
//
// # Concurrency
//
// A Writer is safe for concurrent use; one file is open per output directory, and appends go to them in
// turn. An Encoder and a Prepared belong to one goroutine. Freeze, Save and Commit as in the checkpoint
// protocol. No goroutines.
//
// # Memory and disk
//
// Writer: 512 KiB per output directory (twice that during a checkpoint), and IndexBytes while an index is
// sorted. Encoder: some 1 MiB from the first body that it compresses. Prepared: the largest capture it has held.
package warc
