// Package warc is the page store. It writes fetched pages as WARC/1.1 files with a CDXJ index beside each,
// and reads them back. The paper does not say how it stored its pages; ISO 28500:2017 (WARC 1.1) is the
// format that all tools read.
//
// # Captures
//
// An Exchange is one fetch. Encoder.Prepare converts it to three records, each a gzip member: request,
// response, and metadata if there is any. The first and the third name the response in WARC-Concurrent-To.
// With Format Zstd each record is a Zstandard frame; zst.go describes these files.
// Heads and bodies are stored as received, chunked framing included. A body that is already compressed is
// not compressed again: it follows the packed heads in stored deflate blocks (5 bytes for each 64 KB).
// headcode.go describes how heads are packed. At LevelFast, package deflate compresses the other bodies, and
// the heads that cannot be packed; at levels 1 to 9 klauspost/compress does. Values from outside cannot forge
// header lines: their control characters are percent-encoded in URLs and replaced by spaces elsewhere.
//
// Prepare does the expensive work (digests, compression) without locks, into memory that its caller owns.
// Append copies the result into a buffer. So the transaction in which a URL becomes "fetched" costs only a
// copy.
//
// A body that is too large for RAM is read from a file instead: Writer.Stream writes the capture to a WARC file
// of its own, and Attach, within the transaction, adds that file to the store.
//
// # Files
//
// The files are PREFIX-YYYYMMDDhhmmssmmm-SERIAL-HOST.warc.gz (or .warc.zst) and .cdxj in <output
// directory>/warc. The suffix ".open" is appended until a durable manifest covers them completely. Package
// outfile describes what survives a crash: each capture that the manifest covers, once. A file begins with
// a warcinfo record. It is closed when the next capture would make it larger than FileBytes (a larger
// capture gets a file of its own) or its index larger than IndexBytes. The index has one line for each
// response, sorted in final files and in order of arrival in open ones. See docs/reference/files/warc.md.
//
// # Concurrency
//
// A Writer is safe for concurrent use. It has one open file in each output directory and appends to them in
// rotation. An Encoder or a Prepared belongs to one goroutine. Freeze, Save and Commit follow the checkpoint
// protocol. The package has no goroutines.
//
// # Memory and disk
//
// A Writer takes 512 KiB for each output directory (twice that during a checkpoint), and IndexBytes while
// it sorts an index. An Encoder takes 310 KiB, and about 1 MiB more once it has compressed a record at
// levels 1 to 9 or a large body. For zst files a Writer takes CompressorBytes more for each of GOMAXPROCS,
// an Encoder up to 1 MiB, and CompressorBytes once it has streamed. Stream takes 400 KiB more, whatever the
// size of the body. A Prepared takes the size of the largest capture it has held.
package warc
