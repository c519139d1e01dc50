// Package crawllog keeps the crawl log: one JSON line for each outcome of a URL (fetched, refused, given
// up), in rotated files of zstd frames. The paper's section VIII counts such outcomes after the fact;
// whoever asks "what became of this URL" needs the lines.
//
// # Contract
//
// Lines are in the files exactly once after a crash, as far as the manifest covers them: the same rules as
// for WARC files, by the same code (package warc/outfile). The order is that of the calls of Append. A file
// is crawl-YYYYMMDDhhmmssmmm-SERIAL.jsonl.zst in <directory>/log, with ".open" behind until it is final;
// `zstd -dc` reads it, also while it is open, up to the last whole frame. A file is closed when it has
// FileBytes. See docs/formats/crawllog.md.
//
// # Concurrency
//
// A Log is safe for concurrent use. Append encodes into a buffer under one lock (some 300 ns); every
// BlockBytes of lines it compresses them, which takes about a millisecond. Freeze copies nothing. No
// goroutines.
//
// # Memory and disk
//
// BlockBytes of lines and as much compressed, the file buffer of 64 KiB, each twice between Freeze and
// Save; the compressor takes some 2 MiB. On disk some 40 bytes a line.
package crawllog
