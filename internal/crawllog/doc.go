// Package crawllog writes the crawl log: one JSON line for each outcome of a URL (fetched, refused, given
// up), in rotated files of zstd frames. The paper's section VIII counts such outcomes after the crawl. The
// log also answers what happened to a single URL.
//
// # Contract
//
// After a crash the files contain each line exactly once, as far as the manifest covers them. The rules are
// those of the WARC files, in shared code (package warc/outfile). The order of the lines is the order of
// the calls of Append. A file is named crawl-YYYYMMDDhhmmssmmm-SERIAL.jsonl.zst in <directory>/log; the
// suffix ".open" marks it until it is final. `zstd -dc` reads it, an open one up to the last whole frame. A
// file is closed at FileBytes. See docs/reference/files/crawllog.md.
//
// Read, Walk, Scan and Find read the log of a stopped crawl. A Reader reads Snapshots of a log, also beside a
// running crawl, each line once and in order.
//
// # Concurrency
//
// A Log is safe for concurrent use. Append encodes into a buffer under one lock (about 300 ns). After each
// BlockBytes of lines it compresses them, which takes about a millisecond. Freeze copies nothing. The
// package starts no goroutines.
//
// # Memory and disk
//
// A Log holds BlockBytes of lines, the same amount compressed, and a file buffer of 64 KiB, each twice
// between Freeze and Save. The compressor takes about 2 MiB. On disk a line takes about 40 bytes.
package crawllog
